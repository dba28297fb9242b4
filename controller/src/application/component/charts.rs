//! Calls of a component's template to the provider `helm`: noted once, then answered from known results.

use std::sync::Arc;

use serde_json::Value;
use vela_api::hash::GoHash;
use vela_render::{CallError, RenderHost, Target};

use crate::application::component::ComponentError;
use crate::application::context::AppContext;
use crate::application::facts::parse::ParsedComponent;
use crate::application::placement::Placement;
use crate::messages;

use super::super::facts::properties;
use super::{RenderInput, namespaced};

/// Answers `helm.#Render`, and nothing else.
#[derive(Debug, Default)]
pub(super) struct Charts {
    /// The answer, once there is one.
    pub(super) answer: Option<Arc<Value>>,
    asked: Option<Value>,
}

impl Charts {
    pub(super) fn of(part: &ParsedComponent) -> Self {
        Self { answer: part.chart.clone(), asked: None }
    }
}

impl RenderHost for Charts {
    fn call(
        &mut self,
        provider: &str,
        function: &str,
        params: &Value,
    ) -> Option<Result<Value, CallError>> {
        if (provider, function) != ("helm", "render") {
            return None;
        }
        // A component is one release; two different charts could not both answer for its health.
        if self.asked.as_ref().is_some_and(|asked| asked != params) {
            return Some(Err(CallError::Host(messages::ONE_CHART.into())));
        }
        self.asked = Some(params.clone());
        Some(match &self.answer {
            Some(answer) => Ok(Value::clone(answer)),
            None => Err(CallError::Host(messages::NO_CHART_YET.into())),
        })
    }

    fn http(&mut self, _: &Value) -> Result<Value, CallError> {
        Err(CallError::Host(messages::NO_HTTP_HERE.into()))
    }
}

/// The parameters of the template's call; `None`: it makes none.
///
/// # Errors
/// The template fails before it comes to the call.
pub async fn asked_of_helm(
    ctx: &AppContext,
    frame: &RenderInput,
    part: &ParsedComponent,
    placement: &Placement,
) -> Result<Option<Value>, ComponentError> {
    let cluster_version = ctx.settings.cluster_version.clone();
    let (frame, part, placement) = (frame.clone(), part.clone(), placement.clone());
    let ran = ctx.cue.run(move |scope| {
        let value = properties(part.component.properties.as_ref());
        let component = vela_render::Component {
            name: &part.component.name,
            kind: &part.component.type_,
            definition: &part.definition,
            properties: value.as_ref(),
            traits: Vec::new(),
            // Traits change what the chart renders to, not which chart is asked for.
            patch: None,
        };
        let target = Target {
            revision: part.component.hash_text(),
            cluster: vela_apply::object::cluster_of(&placement.cluster).to_owned(),
            cluster_version,
            replica_key: placement.replica.clone(),
            custom: frame.custom.as_deref().cloned(),
            ..Target::default()
        };
        let app = namespaced(&frame.app, &placement);
        let mut charts = Charts::default();
        let rendered = scope.renderer.render(&app, &target, &component, &mut charts);
        match (charts.asked, rendered) {
            // The call was made: what fails after it fails for want of the answer.
            (Some(asked), _) => Ok(Some(asked)),
            (None, Ok(_)) => Ok(None),
            (None, Err(error)) => Err(error),
        }
    });
    Ok(ran.await.map_err(ComponentError::NotRendered)??)
}
