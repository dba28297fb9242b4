//! The history of an Application: its events, its revisions, and differences between two of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;
use vela_api::names::{annotation, label};
use vela_api::{Application, ApplicationRevision, Time};
use vela_cluster::ApiError;

use crate::plan::changes::{Field, differences};

use super::summary::cut;
use super::viewer::Viewer;

/// Events that are shown.
const MAX_EVENTS: usize = 100;
/// Events that are read: the API server does not sort them.
const READ_EVENTS: u32 = 500;
/// Revisions that are shown: each has a whole Application and its definitions.
const MAX_REVISIONS: u32 = 50;
/// Fields of a difference.
const MAX_FIELDS: usize = 500;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Events {
    events: Vec<Happened>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Happened {
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
    count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Revisions {
    revisions: Vec<Revision>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Revision {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Time>,
    succeeded: bool,
    /// How its workflow ended; empty if that is not known.
    phase: String,
    current: bool,
}

/// In what two specs differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Difference {
    fields: Vec<Field>,
    /// Definitions of which they used different versions.
    definitions: Vec<String>,
}

/// The events of an Application, the newest first.
///
/// # Errors
/// The API server's answer.
pub(super) async fn events(
    viewer: &Viewer,
    namespace: &str,
    name: &str,
) -> Result<Events, ApiError> {
    let api: Api<Event> = Api::namespaced(viewer.client.clone(), namespace);
    let fields = format!("involvedObject.kind={},involvedObject.name={name}", Application::KIND);
    let found = api.list(&ListParams::default().fields(&fields).limit(READ_EVENTS)).await?;
    Ok(newest(found.items))
}

fn newest(events: Vec<Event>) -> Events {
    let of = |event: Event| Happened {
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: cut(&event.message.unwrap_or_default()),
        count: event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1),
        last: event
            .last_timestamp
            .or_else(|| event.event_time.map(|time| Time(time.0)))
            .or(event.metadata.creation_timestamp),
    };
    let mut all: Vec<Happened> = events.into_iter().map(of).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.last.as_ref().map(|time| time.0)));
    all.truncate(MAX_EVENTS);
    Events { events: all }
}

/// The revisions of an Application, the newest first.
///
/// # Errors
/// The API server's answer.
pub(super) async fn revisions(viewer: &Viewer, app: &Application) -> Result<Revisions, ApiError> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let name = app.metadata.name.as_deref().unwrap_or_default();
    let api: Api<ApplicationRevision> = Api::namespaced(viewer.client.clone(), namespace);
    let params = ListParams::default().labels(&format!("{}={name}", label::APP_NAME));
    let found = api.list(&params.limit(MAX_REVISIONS)).await?;
    let current = app.status.latest_revision.as_ref().map(|revision| revision.name.as_str());
    let of = |revision: ApplicationRevision| {
        let name = revision.metadata.name.unwrap_or_default();
        Revision {
            current: current == Some(name.as_str()),
            name,
            created: revision.metadata.creation_timestamp,
            succeeded: revision.status.succeeded,
            phase: revision.status.workflow.map(|run| run.phase).unwrap_or_default(),
        }
    };
    let mut all: Vec<Revision> = found.items.into_iter().map(of).collect();
    all.sort_by(|a, b| (number(&b.name), &b.name).cmp(&(number(&a.name), &a.name)));
    Ok(Revisions { revisions: all })
}

/// The number at the end of a name: `shop-v10` comes behind `shop-v9`.
fn number(name: &str) -> u64 {
    name.rsplit_once("-v").and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}

/// What a revision kept; it must be one of the Application.
///
/// # Errors
/// The API server's answer, or there is no such revision.
pub(super) async fn kept(viewer: &Viewer, app: &Application, name: &str) -> Result<Kept, ApiError> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<ApplicationRevision> = Api::namespaced(viewer.client.clone(), namespace);
    let mut revision = api.get(name).await?;
    let labels = revision.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(label::APP_NAME)) != app.metadata.name.as_ref() {
        return Err(ApiError::Api {
            code: 404,
            reason: "NotFound".to_owned(),
            message: format!("{name} is no revision of this Application"),
            retry_after: None,
        });
    }
    revision.expand().map_err(|error| ApiError::Transport(error.to_string()))?;
    Ok(Kept::of(revision))
}

/// A spec, and the definitions that belong to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    spec: Value,
    /// `None`: those of now.
    definitions: Option<BTreeMap<String, Value>>,
}

impl Kept {
    /// The spec that the cluster has.
    pub(super) fn live(app: &Application) -> Self {
        Self { spec: of_interest(app), definitions: None }
    }

    fn of(revision: ApplicationRevision) -> Self {
        let spec = revision.spec;
        let mut definitions = BTreeMap::new();
        let parts = [
            serde_json::to_value(&spec.component_definitions),
            serde_json::to_value(&spec.trait_definitions),
            serde_json::to_value(&spec.policy_definitions),
            serde_json::to_value(&spec.workflow_step_definitions),
        ];
        for (part, kind) in parts.into_iter().zip(["component", "trait", "policy", "step"]) {
            let Ok(Value::Object(part)) = part else { continue };
            definitions.extend(part.into_iter().map(|(name, definition)| {
                let spec = definition.get("spec").cloned().unwrap_or_default();
                (format!("{kind} {name}"), spec)
            }));
        }
        Self { spec: of_interest(&spec.application), definitions: Some(definitions) }
    }

    /// In what another one differs.
    pub(super) fn difference(&self, other: &Self) -> Difference {
        let mut fields = differences(&self.spec, &other.spec, false);
        fields.truncate(MAX_FIELDS);
        let (Some(old), Some(new)) = (&self.definitions, &other.definitions) else {
            return Difference { fields, definitions: Vec::new() };
        };
        let changed =
            new.iter().filter(|(name, new)| old.get(*name).is_some_and(|old| old != *new));
        Difference { fields, definitions: changed.map(|(name, _)| name.clone()).collect() }
    }
}

/// What people write of an Application.
fn of_interest(app: &Application) -> Value {
    let mut spec = serde_json::to_value(&app.spec).unwrap_or_default();
    let annotations = app.metadata.annotations.as_ref();
    let version = annotations.and_then(|all| all.get(annotation::PUBLISH_VERSION));
    if let (Some(version), Some(spec)) = (version, spec.as_object_mut()) {
        spec.insert(annotation::PUBLISH_VERSION.to_owned(), version.clone().into());
    }
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_event_is_first() {
        let event = |reason: &str, last: &str| -> Event {
            serde_json::from_value(json!({"involvedObject": {}, "metadata": {}, "reason": reason,
                "lastTimestamp": last, "count": 3}))
            .unwrap()
        };
        let all = newest(vec![
            event("old", "2026-01-01T00:00:00Z"),
            event("new", "2026-01-02T00:00:00Z"),
        ]);
        assert_eq!(
            serde_json::to_value(&all).unwrap()["events"][0],
            json!({"type": "", "reason": "new", "message": "", "count": 3, "last": "2026-01-02T00:00:00Z"})
        );
    }

    #[test]
    fn a_difference_names_fields_and_definitions() {
        let revision = |image: &str, template: &str| -> Kept {
            let revision = json!({"metadata": {"name": "a-v1"}, "spec": {
                "application": {"metadata": {"name": "a"}, "spec": {"components": [
                    {"name": "web", "type": "webservice", "properties": {"image": image}}]}},
                "componentDefinitions": {"webservice": {"metadata": {"name": "webservice"},
                    "spec": {"schematic": {"cue": {"template": template}}}}}}});
            Kept::of(serde_json::from_value(revision).unwrap())
        };
        let (old, new) = (revision("a:1", "x"), revision("a:2", "y"));
        let found = old.difference(&new);
        assert_eq!(found.fields.len(), 1);
        assert_eq!(found.fields[0].path, "components[web].properties.image");
        assert_eq!(found.definitions, ["component webservice"]);
        let empty = old.difference(&old);
        assert!(empty.fields.is_empty() && empty.definitions.is_empty());
    }

    #[test]
    fn revisions_are_ordered_by_number() {
        assert!(number("shop-v10") > number("shop-v9"));
        assert_eq!(number("shop"), 0);
    }
}
