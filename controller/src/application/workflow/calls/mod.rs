//! The provider calls of steps: one file for each package of `vela/...`.

mod config;
mod deploy;
mod email;
mod environment;
mod helm;
mod http;
mod kube;
mod metrics;
mod oam;
mod outgoing;
mod query;
mod terraform;

use serde_json::{Map, Value, json};
use tracing::info;
use vela_api::ClusterObjectReference;
use vela_api::status::ComponentStatus;
use vela_workflow::{Outcome, Reply};

use crate::application::session::Session;
use crate::application::workflow::error::StepError;
use crate::application::workflow_owner::OwnerKind;
use crate::messages;

pub(super) use super::components::Done;
use super::diagnosis;
use super::run::Run;
use super::secrets::Secrets;
use super::store::Store;
pub(in crate::application) use environment::Decision;

/// A call that has no answer yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) provider: String,
    pub(super) function: String,
    pub(super) path: String,
    pub(super) params: Value,
    pub(super) patch: Option<String>,
}

/// What a pass found out about components.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Components whose health was checked.
    pub(super) services: Vec<ComponentStatus>,
    /// Objects that were dispatched, perhaps several times.
    pub(super) applied: Vec<ClusterObjectReference>,
    /// Where environments were placed.
    pub(super) decisions: Vec<Decision>,
    /// When a step asked for the workflow to run again.
    pub(super) restart_at: Option<jiff::Timestamp>,
    /// The step that was attempted last, evaluated, as CUE text: for the policy `debug`.
    pub(super) dump: Option<String>,
}

/// A step while its calls are carried out.
pub(super) struct Calling<'a, 's, 'c> {
    pub(super) session: &'a mut Session<'s>,
    pub(super) run: &'a Run<'a>,
    pub(super) store: &'a mut Store<'c>,
    pub(super) seen: &'a mut Seen,
    /// Identity of the step.
    pub(super) id: &'a str,
    /// Its name.
    pub(super) step: &'a str,
    /// What was read from Secrets: must not be shown.
    pub(super) secrets: &'a mut Secrets,
    /// Objects it made and read, as they are in the cluster.
    pub(super) touched: Vec<Value>,
    /// It takes so long that what it waits for is asked why.
    pub(super) long: bool,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum CallOutcome {
    /// For the template.
    Reply(Reply),
    /// The step was finished before; only its status is missing.
    Finished(Outcome),
    /// It is in flight: its description.
    Waits(String),
    /// It was not started: the limit of calls in flight is reached.
    NoRoom,
}

impl From<Result<Value, StepError>> for CallOutcome {
    fn from(result: Result<Value, StepError>) -> Self {
        Self::Reply(match result {
            Ok(value) => Reply::Returns(value),
            Err(error) => error.into(),
        })
    }
}

impl From<Reply> for CallOutcome {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl Calling<'_, '_, '_> {
    /// Carries out one call.
    pub(super) async fn answer(&mut self, call: &Pending) -> CallOutcome {
        if let Some(rehearsal) = &self.session.ctx.rehearsal {
            // A rehearsal makes no call that would be seen outside.
            let called = (call.provider.as_str(), call.function.as_str());
            if let Some(server) = rehearsal.leaves_out(self.step, called, &call.params) {
                return CallOutcome::Waits(server);
            }
        }
        if self.session.owner_kind == OwnerKind::WorkflowRun && is_of_applications(call) {
            let called = format!("{}.{}", call.provider, call.function);
            return Reply::Fail(messages::call_needs_application(&called)).into();
        }
        let legacy = call.provider == "op";
        match (call.provider.as_str(), call.function.as_str()) {
            ("kube" | "op", "apply") => self.apply(call).await.into(),
            ("kube" | "op", "apply-in-parallel") => self.apply_all(call).await.into(),
            ("kube" | "op", "patch") => self.patch(call).await.into(),
            ("kube" | "op", "read") => self.read(&call.params).await.into(),
            ("kube" | "op", "list") => self.list(&call.params, legacy).await.into(),
            ("kube" | "op", "delete") => self.delete(&call.params).await.into(),
            ("util" | "op", "patch-k8s-object") => self.patch_object(call).await.into(),
            ("util" | "op", "log") => self.log(&call.params).into(),
            ("http" | "op", "do") => self.request(call).await,
            ("email" | "op", "send") => self.mail(call).await,
            ("metrics" | "op", "promCheck") => self.prom_check(call).await,
            ("config", "create") | ("op", "create-config") => {
                self.create_config(&call.params).await.into()
            }
            ("config", "read") | ("op", "read-config") => {
                self.read_config(&call.params).await.into()
            }
            ("config", "list") | ("op", "list-config") => {
                self.list_config(&call.params).await.into()
            }
            ("config", "delete") | ("op", "delete-config") => {
                self.delete_config(&call.params).await.into()
            }
            ("oam" | "op", "load") => self.load(&call.params, false).await.into(),
            ("oam" | "op", "load-comps-in-order") => self.load(&call.params, true).await.into(),
            ("oam" | "op", "load-policies") => self.load_policies().into(),
            ("oam" | "op", "component-apply") => self.apply_component(&call.params).await.into(),
            ("oam" | "op", "component-render") => self.render_component(&call.params).await.into(),
            ("oam", "schedule-restart") => self.schedule_restart(&call.params).await.into(),
            ("multicluster" | "op", "deploy") => self.deploy(&call.params).await.into(),
            ("multicluster" | "op", "list-clusters") => {
                Reply::Returns(json!({"outputs": {"clusters": self.clusters()}})).into()
            }
            ("multicluster" | "op", "get-placements-from-topology-policies") => {
                self.placements(&call.params).into()
            }
            ("op", "make-placement-decisions") => self.decide_placement(&call.params).into(),
            ("op", "patch-application") => self.patch_application(&call.params).into(),
            ("terraform" | "op", "load-terraform-components") => self.terraform_components().into(),
            ("terraform" | "op", "get-connection-status") => {
                self.connection_status(&call.params).into()
            }
            // Guarded by the list of functions, so that a misspelled one is reported as unknown.
            ("query" | "ql" | "op", function) if query::answers(function) => {
                self.query(function, &call.params).await.into()
            }
            ("helm", "render") => self.release(&call.params).await,
            _ => Reply::Unknown.into(),
        }
    }

    /// The clusters that joined, as the original lists them; without any, and where there can be none, the own one.
    fn clusters(&self) -> Vec<String> {
        let Some(known) = &self.run.clusters else { return vec!["local".to_owned()] };
        known.in_order().iter().map(|member| member.cluster.name.clone()).collect()
    }

    /// Why a component is not healthy, in the words of its objects; empty while that need not worry anybody.
    async fn reason(&self, done: &Done) -> String {
        if self.long {
            diagnosis::diagnose(self.session, &done.rendered.objects).await
        } else {
            String::new()
        }
    }

    /// Takes what was read from Secrets out of a text.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.secrets.redacted(text)
    }

    /// Remembers what a Secret holds, so that it is never shown.
    fn keep_secret(&mut self, object: &Value) {
        self.secrets.keep_object(object);
    }

    fn log(&mut self, params: &Value) -> Reply {
        let (data, source) = (params.get("data"), params.get("source"));
        if let Some(data) = data {
            let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
            // The log is read by operators, who need not see the Secrets of tenants.
            let data = self.redacted(&text);
            let owner = format!("{}/{}", self.session.owner.namespace, self.session.owner.name);
            // The client searches the log for these three and shows the first quoted text: `vela workflow logs`.
            match self.session.owner_kind {
                OwnerKind::Application => {
                    info!(data, stepSessionID = self.id, application = %owner, step = self.step, "cue logs");
                }
                OwnerKind::WorkflowRun => {
                    info!(data, stepSessionID = self.id, workflowrun = %owner, step = self.step, "cue logs");
                }
            }
        }
        let notes = &mut self.store.saved_mut().notes;
        let known = notes.get(LOG_CONFIG).map(String::as_str);
        if let Some(text) = log_config(known, self.step, data.is_some(), source) {
            notes.insert(LOG_CONFIG.to_owned(), text);
        }
        Reply::Returns(Value::Null)
    }
}

/// Whether a call is about the Application that the step belongs to: its components, policies, placements or records.
fn is_of_applications(call: &Pending) -> bool {
    match (call.provider.as_str(), call.function.as_str()) {
        ("oam" | "multicluster" | "terraform" | "query" | "ql" | "helm", _) => true,
        ("op", function) => {
            let names = [
                "load",
                "load-comps-in-order",
                "load-policies",
                "component-apply",
                "component-render",
                "deploy",
                "list-clusters",
                "get-placements-from-topology-policies",
                "make-placement-decisions",
                "patch-application",
                "load-terraform-components",
                "get-connection-status",
            ];
            names.contains(&function) || query::answers(function)
        }
        _ => false,
    }
}

/// The entry of the context that names the logs of steps to clients.
const LOG_CONFIG: &str = "logConfig";

/// The entry after a step logged: that it logs data (in the controller's log), and its other sources.
fn log_config(
    known: Option<&str>,
    step: &str,
    data: bool,
    source: Option<&Value>,
) -> Option<String> {
    let known = known.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let mut all = known.unwrap_or_default();
    let entry = all.entry(step).or_insert_with(|| json!({}));
    // Clients may have written something else there.
    if !entry.is_object() {
        *entry = json!({});
    }
    let entry = entry.as_object_mut()?;
    if data {
        entry.insert("data".to_owned(), Value::Bool(true));
    }
    if let Some(source) = source {
        entry.insert("source".to_owned(), source.clone());
    }
    serde_json::to_string(&all).ok()
}

/// A text in a call's parameters, empty if it is not there.
fn text<'v>(params: &'v Value, key: &str) -> &'v str {
    params.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Names in a call's parameters.
fn names(params: &Value, key: &str) -> Vec<String> {
    let list = params.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_logs_of_steps_are_is_noted_for_clients() {
        let first = log_config(None, "say", true, None).unwrap();
        assert_eq!(first, r#"{"say":{"data":true}}"#);
        let source = json!({"url": "http://example.com/log"});
        let second = log_config(Some(&first), "say", false, Some(&source)).unwrap();
        assert_eq!(second, r#"{"say":{"data":true,"source":{"url":"http://example.com/log"}}}"#);
        let third = log_config(Some(&second), "other", true, None).unwrap();
        assert!(third.starts_with(r#"{"other":{"data":true},"say":"#), "{third}");
        // what cannot be read is written again
        assert_eq!(log_config(Some("[]"), "say", true, None).unwrap(), first);
        assert_eq!(log_config(Some(r#"{"say":1}"#), "say", true, None).unwrap(), first);
    }
}
