//! `vela/oam`: components and policies of the Application.

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::application::ApplicationComponent;
use vela_api::names::annotation;
use vela_apply::plan::PatchKind;
use vela_cluster::{Key, Target};
use vela_workflow::Reply;

use crate::application::component;
use crate::application::workflow;
use crate::application::workflow::error::StepError;
use crate::messages;

use super::{Calling, text};

/// A component as steps see it: without what the engine deals with.
fn bare(component: &ApplicationComponent) -> Value {
    let bare = ApplicationComponent {
        inputs: Vec::new(),
        outputs: Vec::new(),
        depends_on: Vec::new(),
        ..component.clone()
    };
    serde_json::to_value(bare).unwrap_or(Value::Null)
}

impl Calling<'_, '_, '_> {
    pub(super) async fn load(&self, params: &Value, in_order: bool) -> Result<Value, StepError> {
        let own = &self.session.owner;
        let components = match text(params, "app") {
            "" => self.run.app.spec.components.clone(),
            name if name == own.name => self.run.app.spec.components.clone(),
            name => {
                // From the cache, in the own namespace: other namespaces are none of the author's
                // business.
                let key = Key::new(&*own.namespace, name);
                let other = self.session.ctx.application(&key).await?;
                other.ok_or_else(|| messages::no_such_application(name))?.spec.components
            }
        };
        let value = if in_order {
            components.iter().map(bare).collect::<Vec<_>>().into()
        } else {
            Value::Object(components.iter().map(|c| (c.name.clone(), bare(c))).collect())
        };
        Ok(json!({ "value": value }))
    }

    pub(super) fn load_policies(&self) -> Reply {
        let named = self.run.app.spec.policies.iter().map(|policy| {
            (policy.name.clone(), serde_json::to_value(policy).unwrap_or(Value::Null))
        });
        Reply::Returns(json!({"value": Value::Object(named.collect())}))
    }

    pub(super) async fn apply_component(&mut self, params: &Value) -> Reply {
        let parameter = params.as_object().cloned().unwrap_or_default();
        let (component, placement) = match workflow::component_and_placement(&parameter) {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        let done = match workflow::components::apply(self.session, self.run, &component, &placement)
            .await
        {
            Ok(done) => done,
            Err(error) => return error.into(),
        };
        workflow::note(&done, self.seen);
        let returned = Value::Object(workflow::outputs(self.session, &done).await);
        // Waiting is the default; without it the step goes on with what it has.
        let waits = params.get("waitHealthy").and_then(Value::as_bool).unwrap_or(true);
        if waits && !done.ready {
            let reason = self.reason(&done).await;
            return Reply::ReturnsAndWait(returned, messages::wait_healthy(&reason));
        }
        Reply::Returns(returned)
    }

    pub(super) async fn render_component(&mut self, params: &Value) -> Result<Value, StepError> {
        let parameter = params.as_object().cloned().unwrap_or_default();
        let (component, placement) = workflow::component_and_placement(&parameter)?;
        let ctx = self.session.ctx;
        let part = workflow::components::parsed_component(self.session, self.run, &component)?;
        let rendered =
            component::render(ctx, self.run.input, &part, &placement, None, true).await?;
        let mut output = Value::Null;
        let mut outputs = serde_json::Map::new();
        for object in rendered.objects {
            match object.output {
                None => output = object.manifest,
                Some(name) => {
                    outputs.insert(name, object.manifest);
                }
            }
        }
        Ok(json!({"output": output, "outputs": outputs}))
    }

    /// Asks for the workflow to run again: once through the status that this reconcile writes, again and again by the
    /// annotation that people use too.
    pub(super) async fn schedule_restart(&mut self, params: &Value) -> Reply {
        let text = |key: &str| Some(text(params, key)).filter(|text| !text.is_empty());
        if let Some(at) = text("at") {
            let Ok(due) = at.parse::<Timestamp>() else {
                return Reply::Fail(messages::restart_unreadable(at));
            };
            self.seen.restart_at = Some(due);
            return Reply::Returns(Value::Null);
        }
        if let Some(after) = text("after") {
            let Some(length) = duration(after) else {
                return Reply::Fail(messages::restart_unreadable(after));
            };
            let due = Timestamp::now().saturating_add(length).unwrap_or(Timestamp::MAX);
            self.seen.restart_at = Some(due);
            return Reply::Returns(Value::Null);
        }
        let every = text("every").unwrap_or_default();
        let Some(length) = duration(every) else {
            return Reply::Fail(messages::restart_unreadable(every));
        };
        // In seconds, as the annotation is compared with what is there.
        let value = format!("{}s", length.as_secs());
        let known = self.run.input.app.annotations.get(annotation::RESTART_WORKFLOW);
        // Written once: another write would wake the Application again.
        if known == Some(&value) {
            return Reply::Returns(Value::Null);
        }
        let owner = &self.session.owner;
        let target = Target {
            api_version: vela_api::V1BETA1,
            kind: "Application",
            namespace: &owner.namespace,
            name: &owner.name,
        };
        let patch = json!({"metadata": {"annotations": {annotation::RESTART_WORKFLOW: value}}});
        // As the controller: the author need not be allowed to edit the Application.
        let own = vela_cluster::Identity::default();
        let io = &self.session.ctx.io;
        match io.patch(&target, "", (PatchKind::Merge, &patch), false, &own).await {
            Ok(_) => Reply::Returns(Value::Null),
            Err(error) => Reply::Error(error.to_string()),
        }
    }
}

/// A duration that may be in days, which Go's have not.
fn duration(text: &str) -> Option<jiff::SignedDuration> {
    if let Some(days) = text.strip_suffix('d') {
        return jiff::SignedDuration::try_from_hours(days.parse::<i64>().ok()?.checked_mul(24)?);
    }
    let length: vela_gocompat::duration::Duration = text.parse().ok()?;
    Some(jiff::SignedDuration::from_nanos(length.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_be_in_days() {
        assert_eq!(duration("2d"), Some(jiff::SignedDuration::from_hours(48)));
        assert_eq!(duration("90m"), Some(jiff::SignedDuration::from_mins(90)));
        assert_eq!(duration("soon"), None);
    }

    #[test]
    fn no_number_is_too_large_to_be_read() {
        let days = [
            "99999999999999999d",
            "-99999999999999999d",
            "999999999999999999d",
            "9223372036854775807d",
            "-9223372036854775808d",
            "99999999999999999999d",
            "106751991167301d",
        ];
        for text in days {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["106751991167300d", "-106751991167300d", "2562047h47m16.854775807s"] {
            let length = duration(text).expect(text);
            let due = Timestamp::now().saturating_add(length);
            assert!(due.is_ok(), "{text}");
        }
        assert_eq!(duration("2562048h"), None);
        assert_eq!(duration("1e400h"), None);
    }
}
