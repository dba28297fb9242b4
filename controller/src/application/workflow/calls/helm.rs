//! `vela/helm`: a release as a step of a workflow. It is made like that of a component, under the name of the step: recorded, tracked,
//! and ended when a later run no longer has it.

use serde_json::{Value, json};
use vela_api::names::label;
use vela_apply::object::set_label;
use vela_workflow::Reply;

use crate::application::placement::Placement;
use crate::application::release::{self, ReleaseError, Waits};
use crate::application::workflow::error::StepError;
use crate::messages;

use super::super::run::reference;
use super::{CallOutcome, Calling, text};

/// Why a release of a step did not come further.
#[derive(Debug, thiserror::Error)]
enum NotReleased {
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The objects could not be dispatched.
    #[error(transparent)]
    Dispatch(StepError),
}

/// How far a release came.
enum Came {
    /// It is deployed: what the template gets.
    Deployed(Value),
    /// Something has to be waited for.
    Waits(String),
}

impl Calling<'_, '_, '_> {
    /// Makes a release of a chart, as far as it comes now; the template goes on once it is deployed.
    pub(super) async fn release(&mut self, params: &Value) -> CallOutcome {
        match self.try_release(params).await {
            Ok(Came::Deployed(answer)) => CallOutcome::Reply(Reply::Returns(answer)),
            Ok(Came::Waits(waits)) => CallOutcome::Reply(Reply::Wait(waits)),
            Err(error) => {
                CallOutcome::Reply(Reply::Error(messages::release_failed(&error.to_string())))
            }
        }
    }

    async fn try_release(&mut self, params: &Value) -> Result<Came, NotReleased> {
        let cluster = text(params, "cluster").to_owned();
        let mut asked = params.clone();
        if let Value::Object(asked) = &mut asked {
            let namespace = self.session.owner.namespace.as_str();
            let context = json!({"name": self.step, "namespace": namespace});
            asked.entry("context").or_insert(context);
        }
        let placement = Placement { cluster: cluster.clone(), ..Placement::default() };
        let resolved = release::resolve_call(self.session, &asked, self.step, &placement);
        let released = Box::pin(resolved).await?;
        if released.is_forced() {
            self.session.forced.lock().insert(self.step.to_owned());
        }
        let work = async {
            let waits: Waits = release::begin(self.session, &released).await?;
            if let Some(waits) = waits {
                return Ok(Came::Waits(waits));
            }
            let mut objects: Vec<Value> = released.resources();
            for object in &mut objects {
                set_label(object, label::APP_COMPONENT, self.step);
                // Labelled like the objects of a component, so that health and collection treat
                // them alike.
                set_label(object, label::APP_CLUSTER, &cluster);
            }
            // What others need is made first.
            let (mut first, mut rest): (Vec<_>, Vec<_>) =
                objects.into_iter().partition(release::is_first);
            if !first.is_empty() {
                self.own(&mut first, &cluster).await.map_err(NotReleased::Dispatch)?;
                let waits = release::unestablished(self.session, &released, first.iter());
                if let Some(waits) = waits.await? {
                    return Ok(Came::Waits(waits));
                }
            }
            self.own(&mut rest, &cluster).await.map_err(NotReleased::Dispatch)?;
            first.append(&mut rest);
            for object in &first {
                self.seen.applied.push(reference(object, &cluster));
            }
            let waits = release::finish(self.session, &released, &first).await?;
            Ok(waits.map_or_else(|| Came::Deployed(Value::clone(&released.answer)), Came::Waits))
        };
        let done: Result<Came, NotReleased> = Box::pin(work).await;
        // The record of the release has to say that it failed.
        if let Err(why) = &done {
            release::fail(self.session, &released, &why.to_string()).await;
        }
        done
    }
}
