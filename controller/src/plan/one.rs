//! The plan of one Application: its stored form, and the writes of its run.

use http::{HeaderValue, Method, Request, header};
use kube::Client;
use serde::Serialize;
use serde_json::{Map, Value};
use vela_api::names::{annotation, condition, label};
use vela_api::revision::ApplicationRevisionSpec;
use vela_api::{Application, ApplicationRevision};
use vela_cluster::ApiError;
use vela_workflow::Phase;

use crate::queue::Key;

use super::changes::{Change, Refused, Verb, changes, refusals};
use super::overlay::Narrowed;
use super::rehearsal::{Remark, What};
use super::stage::{Ended, Means, Present, Stage};

/// What a run of an Application would write.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The generation before and after; `None`: it is not edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<(i64, i64)>,
    pub(crate) changes: Vec<Change>,
    pub(crate) refused: Vec<Refused>,
    /// Steps of the run, in order; empty if none begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<Remark>,
    /// Definitions of other versions than those of the last run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) definitions: Vec<String>,
    /// Fields that the API server does not keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pruned: Vec<String>,
    /// Why there is no plan, or not all of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The Application itself is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) denied: bool,
    /// Nobody is known to be its author, though it is deployed.
    #[serde(skip)]
    pub(crate) has_no_author: bool,
    /// What to know about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// What a plan comes to, as a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Nothing would be written.
    Nothing,
    /// Something would.
    Changes,
    /// Something would be refused, or lost.
    Refused,
    /// It cannot be said.
    Unknown,
}

impl Plan {
    /// The verdict over it. What is deleted and cannot be made again counts as lost.
    pub(crate) fn verdict(&self) -> Verdict {
        let loses = |change: &Change| change.holds_data;
        if self.denied || !self.refused.is_empty() || self.changes.iter().any(loses) {
            Verdict::Refused
        } else if self.problem.is_some() || self.fails() {
            Verdict::Unknown
        } else if self.changes.iter().any(|change| change.verb != Verb::Note) || self.is_partial() {
            Verdict::Changes
        } else {
            Verdict::Nothing
        }
    }

    fn fails(&self) -> bool {
        self.remarks.iter().any(|remark| matches!(remark.what, What::Fails(_)))
    }

    /// Whether a run may write what is not shown, or keep what is shown as deleted.
    pub(crate) fn is_partial(&self) -> bool {
        self.remarks.iter().any(|remark| remark.what.hides_writes())
    }
}

/// Plans an Application: as it is, or as `given` would make it.
///
/// # Errors
/// The API server does not answer, or not with an Application.
pub(crate) async fn plan(
    means: &Means,
    present: &Present,
    given: Option<&Value>,
) -> Result<Plan, PlanError> {
    rehearse(means, present, given).await.map(|(plan, _)| plan)
}

/// The same, with the cluster as it would be; there is none if the Application is refused.
///
/// # Errors
/// As [`plan`].
pub(crate) async fn rehearse(
    means: &Means,
    present: &Present,
    given: Option<&Value>,
) -> Result<(Plan, Option<Stage>), PlanError> {
    let mut plan = Plan::default();
    let mut planned = None;
    if let Some(given) = given {
        let wanted = wanted(present.app.as_ref(), given);
        (plan.namespace, plan.name) = (text(&wanted, "namespace"), text(&wanted, "name"));
        match admitted(&means.client, &wanted, present.app.is_some()).await? {
            Admitted::Stored(mut stored) => {
                plan.pruned = pruned(&wanted, &stored);
                let generation =
                    |app: &Value| app.pointer("/metadata/generation").and_then(Value::as_i64);
                // From the dry run, since only the API server knows whether the spec differs from
                // what is stored.
                let before = present.app.as_ref().and_then(generation).unwrap_or_default();
                plan.generation = Some((before, generation(&stored).unwrap_or(1)));
                if unpause(&mut stored) {
                    plan.notes.push(format!(
                        "paused: nothing is done until the label {} is removed",
                        label::PAUSE
                    ));
                }
                planned = Some(stored);
            }
            Admitted::Denied(message) => {
                plan.denied = true;
                plan.problem = Some(message);
                return Ok((plan, None));
            }
        }
    } else if let Some(app) = &present.app {
        (plan.namespace, plan.name) = (text(app, "namespace"), text(app, "name"));
    }
    let stage = staged(means, present, planned.as_ref(), &mut plan).await?;
    Ok((plan, Some(stage)))
}

/// Plans an Application that is paused as if it were not: what happens when it goes on.
///
/// # Errors
/// As [`plan`].
pub(crate) async fn plan_paused(means: &Means, present: &Present) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let Some(app) = &present.app else { return Ok(plan) };
    (plan.namespace, plan.name) = (text(app, "namespace"), text(app, "name"));
    let number = |pointer: &str| app.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    // A pause stops reconciles, not edits: what is planned is everything since the last one that
    // ran.
    let observed = number("/status/observedGeneration").max(0);
    plan.generation = Some((observed, number("/metadata/generation")));
    let mut unpaused = app.clone();
    unpause(&mut unpaused);
    staged(means, present, Some(&unpaused), &mut plan).await?;
    Ok(plan)
}

/// Runs the reconciles of a plan and takes in what came of them. An edit goes on where a run would wait.
async fn staged(
    means: &Means,
    present: &Present,
    planned: Option<&Value>,
    plan: &mut Plan,
) -> Result<Stage, PlanError> {
    let narrowed = Narrowed { namespace: plan.namespace.clone(), name: plan.name.clone() };
    let stage = Stage::open(means, Some(&narrowed), planned.is_some())?;
    let key = stage.enter(present, planned)?;
    let ended = stage.settle(&key).await;
    collect(&stage, &key, present, ended, plan);
    Ok(stage)
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// The API server's answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// What it answers is not what it should be.
    #[error("the Application cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// Metrics of the planned controller.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

/// What came of the reconciles.
fn collect(stage: &Stage, key: &Key, present: &Present, ended: Ended, plan: &mut Plan) {
    for (cluster, overlay) in stage.overlays() {
        let records = overlay.records();
        plan.changes.extend(changes(&records, cluster));
        plan.refused.extend(refusals(&records, cluster));
    }
    plan.changes.sort_by(|a, b| a.order().cmp(&b.order()));
    plan.remarks = stage.rehearsal().remarks();
    let author = present
        .app
        .as_ref()
        .and_then(|app| vela_apply::object::annotation(app, annotation::USERNAME));
    plan.has_no_author = author.is_none() && !present.trackers.is_empty();
    match ended {
        Ended::Settled => {}
        Ended::Waits => {
            let run = stage.app(key).and_then(|app| app.status.workflow.clone());
            let run = run.unwrap_or_default();
            plan.notes.push(format!("the run in progress waits: {}", run.message));
            let waiting = run.all_steps().filter(|step| step.phase == Phase::Running.as_str());
            for step in waiting.filter(|step| !step.message.is_empty()) {
                plan.notes.push(format!("step {}: {}", step.name, step.message));
            }
        }
        Ended::Failed(why) => plan.problem = Some(why),
    }
    let Some(app) = stage.app(key) else { return };
    // What waits for a cluster is in no list of changes.
    let mut conditions = app.status.conditions.iter();
    let clusters = conditions.find(|it| it.type_ == condition::CLUSTERS && !it.is_true());
    plan.notes.extend(clusters.map(|it| it.message.clone()));
    let before: Option<Application> =
        present.app.as_ref().and_then(|app| serde_json::from_value(app.clone()).ok());
    let run_of = |app: &Application| {
        app.status.workflow.as_ref().map(|run| (run.app_revision.clone(), run.start_time.clone()))
    };
    // Steps are listed only if the edit starts another run; else they are those that ran already.
    if run_of(&app) != before.as_ref().and_then(run_of) {
        let steps = app.status.workflow.iter().flat_map(|run| &run.steps);
        for step in steps {
            plan.steps.push(step.name.clone());
            plan.steps.extend(step.sub_steps.iter().map(|sub| sub.name.clone()));
        }
    }
    let revision =
        |app: &Application| app.status.latest_revision.as_ref().map(|it| it.name.clone());
    let (old, new) = (before.as_ref().and_then(revision), revision(&app));
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        let stored = present.revisions.iter().find(|it| it.metadata.name.as_deref() == Some(&old));
        let records = stage.overlay.records();
        let created = records
            .objects
            .iter()
            .find(|(place, _)| place.plural == "applicationrevisions" && place.name == new);
        let created = created.and_then(|(_, written)| written.after.clone());
        let created = created.and_then(|object| serde_json::from_value(object).ok());
        if let (Some(old), Some(new)) = (stored, created.as_ref()) {
            plan.definitions = definitions(old, new);
        }
    }
}

/// Definitions that differ between two revisions.
fn definitions(old: &ApplicationRevision, new: &ApplicationRevision) -> Vec<String> {
    let parts = |revision: &ApplicationRevision| -> Map<String, Value> {
        let mut revision = revision.clone();
        // A revision may be stored compressed; one that cannot be read names no changes.
        if revision.expand().is_err() {
            return Map::new();
        }
        let ApplicationRevisionSpec {
            component_definitions,
            trait_definitions,
            policy_definitions,
            workflow_step_definitions,
            ..
        } = revision.spec;
        let mut all = Map::new();
        let parts = [
            serde_json::to_value(component_definitions),
            serde_json::to_value(trait_definitions),
            serde_json::to_value(policy_definitions),
            serde_json::to_value(workflow_step_definitions),
        ];
        for part in parts.into_iter().flatten() {
            if let Value::Object(part) = part {
                all.extend(part);
            }
        }
        all
    };
    let version = |definition: &Value| {
        let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let latest = definition.pointer("/status/latestRevision/name").and_then(Value::as_str);
        let version = latest.and_then(|latest| latest.strip_prefix(name)?.strip_prefix('-'));
        version.unwrap_or("?").to_owned()
    };
    let (old, new) = (parts(old), parts(new));
    let changed = new.iter().filter_map(|(name, new)| {
        let old = old.get(name).filter(|old| old.get("spec") != new.get("spec"))?;
        Some(format!("{name} {} -> {}", version(old), version(new)))
    });
    changed.collect()
}

fn text(object: &Value, key: &str) -> String {
    let value = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// Labels and annotations of an object.
const SECTIONS: [&str; 2] = ["labels", "annotations"];

/// What `kubectl apply` of a file would send: its spec, and of labels and annotations what it names, without what it named before.
fn wanted(present: Option<&Value>, given: &Value) -> Value {
    let Some(present) = present else { return given.clone() };
    let mut wanted = present.clone();
    let last = vela_apply::object::annotation(present, annotation::KUBECTL_LAST_APPLIED);
    let last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    for section in SECTIONS {
        let pointer = format!("/metadata/{section}");
        let entries = |object: &Value| -> Map<String, Value> {
            object.pointer(&pointer).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let mut merged = entries(present);
        let before = entries(&last);
        // As kubectl: a key that the last file had and this one has not is taken away; keys of
        // others stay.
        merged.retain(|key, _| !before.contains_key(key));
        merged.extend(entries(given));
        if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(section.to_owned(), Value::Object(merged));
        }
    }
    if let Some(map) = wanted.as_object_mut() {
        map.insert("spec".to_owned(), given.get("spec").cloned().unwrap_or_default());
    }
    wanted
}

/// What the API server says to an Application.
enum Admitted {
    /// As it would be stored.
    Stored(Value),
    /// Why it would not be.
    Denied(String),
}

/// The Application as the API server would store it, or why it would not.
async fn admitted(client: &Client, wanted: &Value, exists: bool) -> Result<Admitted, ApiError> {
    let (namespace, name) = (text(wanted, "namespace"), text(wanted, "name"));
    let collection = format!("/apis/{}/namespaces/{namespace}/applications", vela_api::V1BETA1);
    let (method, path) = if exists {
        (Method::PUT, format!("{collection}/{name}"))
    } else {
        (Method::POST, collection)
    };
    let body = serde_json::to_vec(wanted).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        // Through admission, so that defaults, mutation and refusals are the real ones.
        .uri(format!("{path}?dryRun=All"))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(body);
    let request = match request {
        Ok(request) => request,
        Err(error) => return Ok(Admitted::Denied(error.to_string())),
    };
    match client.request::<Value>(request).await.map_err(ApiError::from) {
        Ok(stored) => Ok(Admitted::Stored(stored)),
        Err(ApiError::Api { code: 400 | 403 | 413 | 422, message, .. }) => {
            Ok(Admitted::Denied(message))
        }
        Err(error) => Err(error),
    }
}

/// Fields of the spec that were sent and are not stored.
fn pruned(sent: &Value, stored: &Value) -> Vec<String> {
    let part = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let all = super::changes::differences(&part(sent), &part(stored), false);
    let lost =
        // The API server drops what the schema does not have, and says nothing about it to most
        // clients.
        all.into_iter().filter(|field| field.after.is_none() && field.before != Some(Value::Null));
    lost.map(|field| format!("spec.{}", field.path)).collect()
}

/// Takes the label away that stops every reconcile. Returns whether it was there.
fn unpause(app: &mut Value) -> bool {
    let labels = app.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
    let Some(labels) = labels else { return false };
    let is_paused = labels.get(label::PAUSE).is_some_and(|value| value == "true");
    if is_paused {
        labels.remove(label::PAUSE);
    }
    is_paused
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_applied_is_what_kubectl_would_send() {
        let last = json!({"metadata": {"labels": {"old": "1", "kept": "1"}}}).to_string();
        let present = json!({"metadata": {"name": "a", "resourceVersion": "7",
            "labels": {"old": "1", "kept": "1", "theirs": "1"},
            "annotations": {annotation::KUBECTL_LAST_APPLIED: last}},
            "spec": {"components": []}, "status": {"status": "running"}});
        let given = json!({"metadata": {"name": "a", "labels": {"kept": "2"}}, "spec": {"components": [1]}});
        let wanted = wanted(Some(&present), &given);
        assert_eq!(wanted["metadata"]["labels"], json!({"kept": "2", "theirs": "1"}));
        assert_eq!(wanted["spec"], given["spec"]);
        assert_eq!(wanted["metadata"]["resourceVersion"], "7");
        assert_eq!(super::wanted(None, &given), given);
    }

    #[test]
    fn fields_that_are_not_stored_are_named() {
        let sent =
            json!({"spec": {"components": [{"name": "a", "foo": 1}], "sources": [1], "n": null}});
        let stored = json!({"spec": {"components": [{"name": "a", "properties": {}}]}});
        assert_eq!(pruned(&sent, &stored), ["spec.components[a].foo", "spec.sources"]);
    }
}
