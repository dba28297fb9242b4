//! A row of the list: an Application's phase, and the reason for it.

use serde::Serialize;
use serde_json::Value;
use vela_api::names::condition;
use vela_api::{Application, Time};

/// Longest message that is shown.
const MAX_MESSAGE: usize = 2000;

/// An Application in a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) phase: String,
    /// The status of the condition `Ready`; empty without one.
    pub(super) ready: String,
    pub(super) reason: String,
    /// Why it is where it is: the message of `Ready`, cut.
    pub(super) why: String,
    pub(super) components: usize,
    pub(super) healthy: usize,
    /// The name of the newest revision.
    pub(super) revision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Time>,
    pub(super) deleting: bool,
    /// What the control plane says about drift; empty without any.
    pub(super) drift: String,
}

impl Summary {
    /// Of an object of a list. One that cannot be read has its name and says so: it hides no other.
    pub(super) fn of_object(object: &Value) -> Self {
        match serde_json::from_value::<Application>(object.clone()) {
            Ok(app) => Self::of(&app),
            Err(error) => {
                let text = |key: &str| {
                    let text = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
                    text.unwrap_or_default().to_owned()
                };
                Self {
                    namespace: text("namespace"),
                    name: text("name"),
                    phase: "unreadable".to_owned(),
                    ready: "False".to_owned(),
                    why: cut(&error.to_string()),
                    ..Self::default()
                }
            }
        }
    }

    /// Of an Application.
    pub(super) fn of(app: &Application) -> Self {
        let of = |type_: &str| app.status.conditions.iter().find(|one| one.type_ == type_);
        let ready = of(condition::READY);
        let components = &app.spec.components;
        let is_healthy = |name: &str| {
            let mut services =
                app.status.services.iter().filter(|service| service.name == name).peekable();
            services.peek().is_some() && services.all(|service| service.healthy)
        };
        Self {
            namespace: app.metadata.namespace.clone().unwrap_or_default(),
            name: app.metadata.name.clone().unwrap_or_default(),
            phase: app.status.phase.clone(),
            ready: ready.map(|ready| ready.status.clone()).unwrap_or_default(),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            why: ready.map(|ready| cut(&ready.message)).unwrap_or_default(),
            components: components.len(),
            healthy: components.iter().filter(|one| is_healthy(&one.name)).count(),
            revision: app
                .status
                .latest_revision
                .as_ref()
                .map(|revision| revision.name.clone())
                .unwrap_or_default(),
            created: app.metadata.creation_timestamp.clone(),
            deleting: app.metadata.deletion_timestamp.is_some(),
            drift: of(condition::DRIFT).map(|drift| cut(&drift.message)).unwrap_or_default(),
        }
    }
}

/// A message, no longer than is shown.
pub(super) fn cut(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE) {
        None => message.to_owned(),
        Some((end, _)) => format!("{}...", message.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_what_the_status_says() {
        let app = json!({
            "metadata": {"name": "shop", "namespace": "prod", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"components": [{"name": "web", "type": "webservice"}, {"name": "db", "type": "x"}]},
            "status": {
                "status": "workflowFailed",
                "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": "step a: no",
                    "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                "services": [
                    {"name": "web", "healthy": true, "workloadDefinition": {}},
                    {"name": "web", "cluster": "eu", "healthy": false, "workloadDefinition": {}},
                    {"name": "db", "healthy": true, "workloadDefinition": {}}],
                "latestRevision": {"name": "shop-v7", "revision": 7}}});
        let line = Summary::of_object(&app);
        let shown = serde_json::to_value(&line).unwrap();
        assert_eq!(
            shown,
            json!({"namespace": "prod", "name": "shop", "phase": "workflowFailed", "ready": "False",
                "reason": "Failed", "why": "step a: no", "components": 2, "healthy": 1,
                "revision": "shop-v7", "created": "2026-01-02T03:04:05Z", "deleting": false, "drift": ""})
        );
    }

    #[test]
    fn what_cannot_be_read_is_shown_as_that() {
        let line =
            Summary::of_object(&json!({"metadata": {"name": "a", "namespace": "b"}, "spec": 7}));
        assert_eq!((line.name.as_str(), line.phase.as_str()), ("a", "unreadable"));
        assert_eq!(Summary::of_object(&json!(7)).phase, "unreadable");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = cut(&"ä".repeat(MAX_MESSAGE + 1));
        assert_eq!(cut.chars().count(), MAX_MESSAGE + 3);
    }
}
