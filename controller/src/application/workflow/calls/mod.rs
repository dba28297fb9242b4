//! What the provider calls of a step do: each package of `vela/...` has a file here.

mod config;
mod deploy;
mod email;
mod environment;
mod http;
mod kube;
mod metrics;
mod oam;
mod query;
mod terraform;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tracing::info;
use vela_api::ClusterObjectReference;
use vela_api::status::ComponentStatus;
use vela_workflow::{Outcome, Reply};

use crate::application::component::Place;
use crate::application::dispatch::Session;
use crate::messages;

pub(in crate::application) use environment::Decision;
pub(super) use kube::selector;

use super::components::Done;
use super::store::Store;
use super::{Run, why};

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
    /// Components whose health was looked at.
    pub(super) services: Vec<ComponentStatus>,
    /// Objects that were dispatched.
    pub(super) applied: Vec<ClusterObjectReference>,
    /// Where environments were placed.
    pub(super) decisions: Vec<Decision>,
    /// When a step asked for the workflow to run again.
    pub(super) restart_at: Option<jiff::Timestamp>,
    /// The step that was attempted last, evaluated, as CUE text: for the policy `debug`.
    pub(super) dump: Option<String>,
}

impl Seen {
    /// Remembers an object that was dispatched.
    pub(super) fn note(&mut self, reference: ClusterObjectReference) {
        if !self.applied.contains(&reference) {
            self.applied.push(reference);
        }
    }
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
    pub(super) secrets: Vec<String>,
    /// Objects it made and read, as they are in the cluster.
    pub(super) touched: Vec<Value>,
    /// It takes so long that what it waits for is asked why.
    pub(super) long: bool,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// For the template.
    Reply(Reply),
    /// The step was finished before; only its status is missing.
    Finished(Outcome),
}

impl From<Result<Value, String>> for Answer {
    fn from(result: Result<Value, String>) -> Self {
        Self::Reply(match result {
            Ok(value) => Reply::Returns(value),
            Err(text) => Reply::Error(text),
        })
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl Calling<'_, '_, '_> {
    /// Carries out one call.
    pub(super) async fn answer(&mut self, call: &Pending) -> Answer {
        let legacy = call.provider == "op";
        match (call.provider.as_str(), call.function.as_str()) {
            ("kube" | "op", "apply") => self.apply(call).await.into(),
            ("kube" | "op", "apply-in-parallel") => self.apply_all(call).await.into(),
            ("kube" | "op", "patch") => self.patch(call).await.into(),
            ("kube" | "op", "read") => self.read(&call.params).await.into(),
            ("kube" | "op", "list") => self.list(&call.params, legacy).await.into(),
            ("kube" | "op", "delete") => self.delete(&call.params).await.into(),
            ("util" | "op", "patch-k8s-object") => self.patch_object(call).into(),
            ("util" | "op", "log") => self.log(&call.params).into(),
            ("http" | "op", "do") => self.request(call).await,
            ("email" | "op", "send") => self.mail(call).await,
            ("metrics" | "op", "promCheck") => self.prom_check(&call.params).await.into(),
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
            ("oam" | "op", "load") => self.load(&call.params, false).into(),
            ("oam" | "op", "load-comps-in-order") => self.load(&call.params, true).into(),
            ("oam" | "op", "load-policies") => self.load_policies().into(),
            ("oam" | "op", "component-apply") => self.apply_component(&call.params).await.into(),
            ("oam" | "op", "component-render") => self.render_component(&call.params).await.into(),
            ("oam", "schedule-restart") => self.schedule_restart(&call.params).await.into(),
            ("multicluster" | "op", "deploy") => self.deploy(&call.params).await.into(),
            ("multicluster" | "op", "list-clusters") => {
                Reply::Returns(json!({"outputs": {"clusters": ["local"]}})).into()
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
            ("query" | "ql" | "op", function) if query::answers(function) => {
                self.query(function, &call.params).await.into()
            }
            (provider @ "helm", function) => {
                Reply::Fail(messages::unsupported_call(provider, function)).into()
            }
            _ => Reply::Unknown.into(),
        }
    }

    /// Why a component is not healthy, in the words of its objects; empty while that need not worry anybody.
    async fn reason(&self, done: &Done, place: &Place) -> String {
        if self.long {
            why::ask(self.session, &done.rendered.objects, place).await
        } else {
            String::new()
        }
    }

    /// Takes what was read from Secrets out of a text.
    pub(super) fn redacted(&self, text: &str) -> String {
        let replace = |text: String, secret: &String| text.replace(secret.as_str(), "***");
        self.secrets.iter().fold(text.to_owned(), replace)
    }

    /// Remembers what a Secret holds, so that it is never shown.
    fn keep_secret(&mut self, object: &Value) {
        if object.get("kind").and_then(Value::as_str) != Some("Secret") {
            return;
        }
        for value in object.get("data").and_then(Value::as_object).into_iter().flatten() {
            let Some(encoded) = value.1.as_str() else { continue };
            let decoded = BASE64.decode(encoded).ok().and_then(|b| String::from_utf8(b).ok());
            for text in decoded.into_iter().chain([encoded.to_owned()]) {
                let text = text.trim();
                if text.len() >= 4 {
                    self.secrets.push(text.to_owned());
                    // errors name addresses without what is behind the host
                    self.secrets.extend(text.split_once("://").map(|(_, rest)| rest.to_owned()));
                }
            }
        }
        // the longest first: one may be part of another
        self.secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }

    fn log(&mut self, params: &Value) -> Reply {
        if let Some(data) = params.get("data") {
            let data = self.redacted(&data.to_string());
            let owner = &self.session.owner;
            info!(app = %owner.name, namespace = %owner.namespace, step = self.step, data, "step log");
        }
        if let Some(source) = params.get("source") {
            let notes = &mut self.store.saved_mut().notes;
            let known = notes.get("logConfig").and_then(|text| serde_json::from_str(text).ok());
            let mut all: Value = known.unwrap_or_else(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                let entry = all.entry(self.step).or_insert_with(|| json!({}));
                if let Some(entry) = entry.as_object_mut() {
                    entry.insert("source".to_owned(), source.clone());
                }
            }
            notes.insert("logConfig".to_owned(), all.to_string());
        }
        Reply::Returns(Value::Null)
    }
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
