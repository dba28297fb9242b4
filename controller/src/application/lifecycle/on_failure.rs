//! What an Application asks for when its rollout fails (`app.oam.dev/on-failure`): the spec that succeeded last, once for each failing
//! spec, or a run that waits for a person instead of ending.
//!
//! A spec is put back in one write, with the mark that says which one failed, so a process that dies before it does it again and one
//! that dies after it has done it. It stays the work of the present author: the older spec runs under his rights.

use serde_json::{Map, Value, json};
use tracing::warn;
use vela_api::application::ApplicationSpec;
use vela_api::names::{annotation, event, phase};
use vela_api::{Application, ApplicationRevision, OnFailure};
use vela_apply::json_merge;
use vela_cluster::{ApiError, Class, Identity, Stored};
use vela_seal::{Stamp, Subject};
use vela_workflow::Phase;

use crate::application::context::AppContext;
use crate::application::facts;
use crate::application::revision;
use crate::application::revision::store::History;
use crate::application::write;
use crate::events::Severity;
use crate::messages;

/// Beginnings of the names of field managers that keep what is in Git.
const GIT_MANAGERS: [&str; 4] = ["argocd", "kustomize-controller", "helm-controller", "Helm"];

/// Why the last spec is not put back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Obstacle {
    #[error("{}", messages::ROLLBACK_PINNED)]
    Pinned,
    #[error("{}", messages::rollback_against_git(.0))]
    Git(String),
    #[error("{}", messages::rollback_unknown(.0))]
    Unknown(String),
    #[error("{}", messages::ROLLBACK_FAILED_TOO)]
    FailedToo,
    #[error("{}", messages::ROLLED_BACK_BEFORE)]
    Repeated,
    #[error("{}", messages::NOTHING_SUCCEEDED)]
    NothingSucceeded,
    #[error("{}", messages::rollback_of_another(.0))]
    Another(String),
}

/// Whether a run that fails waits for a person. `default` is what the installation does with those that ask for nothing.
pub(in crate::application) async fn suspends(
    ctx: &AppContext,
    app: &Application,
    default: bool,
) -> bool {
    match OnFailure::parse(facts::annotation(&app.metadata, annotation::ON_FAILURE)) {
        None => default,
        Some(OnFailure::Suspend) => true,
        // Where a rollback is impossible the run waits, so that somebody can decide.
        Some(OnFailure::Rollback) => obstacle(ctx, app).await.is_some(),
    }
}

/// Why a spec cannot be put back. Its field managers are read once for each generation: no cache keeps them.
async fn obstacle(ctx: &AppContext, app: &Application) -> Option<Obstacle> {
    // A published version says what is deployed, whatever the spec says.
    if !facts::publish_version(&app.metadata).is_empty() {
        return Some(Obstacle::Pinned);
    }
    let key = app.key();
    let generation = app.metadata.generation.unwrap_or_default();
    let memory = ctx.memory(&key);
    let known = memory.lock().git_manager.clone();
    // Once for each generation: `managedFields` are in no cache.
    if let Some((_, manager)) = known.filter(|(at, _)| *at == generation) {
        return manager.map(Obstacle::Git);
    }
    match ctx.io.get(&write::target(app), &Identity::default()).await {
        Ok(stored) => {
            let manager = git_manager(&stored);
            memory.lock().git_manager = Some((generation, manager.clone()));
            manager.map(Obstacle::Git)
        }
        // Unknown counts as an obstacle: a rollback against Git would be reverted at once.
        Err(error) => Some(Obstacle::Unknown(error.to_string())),
    }
}

/// The field manager that writes the spec for Git.
fn git_manager(stored: &Value) -> Option<String> {
    let entries = stored.pointer("/metadata/managedFields")?.as_array()?;
    // A manager of labels or annotations does not care about the spec.
    let writes_spec = |entry: &&Value| entry.pointer("/fieldsV1/f:spec").is_some();
    let managers =
        entries.iter().filter(writes_spec).filter_map(|entry| entry.get("manager")?.as_str());
    let is_git = |name: &&str| GIT_MANAGERS.iter().any(|known| name.starts_with(known));
    managers.into_iter().find(is_git).map(str::to_owned)
}

/// A spec to put back.
#[derive(Debug, PartialEq)]
struct Rollback {
    /// The revision that says it.
    revision: String,
    spec: ApplicationSpec,
    /// What the Application carries from then on.
    mark: String,
}

/// What follows a run that has failed, if the Application wants its last spec back. Returns the Application as stored then.
///
/// # Errors
/// The Application changed in the meantime, or the API server cannot be reached.
pub(in crate::application) async fn act(
    ctx: &AppContext,
    app: &Application,
    stamp: Option<&Stamp>,
) -> Result<Option<Application>, ApiError> {
    let asked = OnFailure::parse(facts::annotation(&app.metadata, annotation::ON_FAILURE));
    // The status must be about the spec that is put back.
    if asked != Some(OnFailure::Rollback)
        || app.status.observed_generation != app.metadata.generation.unwrap_or_default()
    {
        return Ok(None);
    }
    let Some(run) = &app.status.workflow else { return Ok(None) };
    let has_failed = app.status.phase == phase::WORKFLOW_FAILED && run.finished;
    let waits = app.status.phase == phase::WORKFLOW_SUSPENDING
        && run.steps.iter().any(|step| step.phase == Phase::Failed.as_str());
    if !has_failed && !waits {
        return Ok(None);
    }
    let once = app.metadata.generation.unwrap_or_default().to_string();
    let about = facts::about(app);
    let say = |reason, text: &str| ctx.events.emit(&about, Severity::Warning, reason, text, &once);
    // Said while the run waits, too: that is why it waits.
    if let Some(obstacle) = obstacle(ctx, app).await {
        say(event::NOT_ROLLED_BACK, &obstacle.to_string());
        return Ok(None);
    }
    if waits {
        return Ok(None);
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    let history = History::of(ctx, &app.key()).open_all(latest).unwrap_or_default();
    let allowed = decide(app, latest, history).and_then(|rollback| {
        let author = History::of(ctx, &app.key()).open(&rollback.revision).ok().flatten();
        let author = author.and_then(|former| former.author);
        let is_own = !ctx.settings.acting.authenticate || is_same_author(author.as_ref(), stamp);
        if is_own { Ok(rollback) } else { Err(Obstacle::Another(rollback.revision)) }
    });
    let rollback = match allowed {
        Ok(rollback) => rollback,
        Err(why) => {
            say(event::NOT_ROLLED_BACK, &why.to_string());
            return Ok(None);
        }
    };
    match put_back(ctx, app, stamp, &rollback).await {
        Ok(stored) => {
            let ready = vela_api::condition::get(&app.status.conditions, "Ready");
            let why = ready.map(|ready| ready.message.as_str()).unwrap_or_default();
            say(event::ROLLED_BACK, &messages::spec_rolled_back(latest, &rollback.revision, why));
            Ok(Some(stored))
        }
        Err(error) if error.class() == Class::Refused => {
            warn!(%error, "the rollback to the last spec was refused");
            say(
                event::NOT_ROLLED_BACK,
                &messages::rollback_refused(&rollback.revision, &error.to_string()),
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The spec to put back, or why there is none. A spec is put back once; what was put back itself is never left for an older one.
fn decide(
    app: &Application,
    latest: &str,
    history: Vec<ApplicationRevision>,
) -> Result<Rollback, Obstacle> {
    let present = hash(&app.spec);
    let mark = facts::annotation(&app.metadata, annotation::ROLLED_BACK_FROM);
    let (failed, restored) = mark.split_once('/').unwrap_or((mark, ""));
    // The spec that was put back has failed itself: going further back would undo what nobody asked
    // to undo.
    if restored == present {
        return Err(Obstacle::FailedToo);
    }
    // The same spec again failed before, and was answered before.
    if failed == present {
        return Err(Obstacle::Repeated);
    }
    let own = |found: &ApplicationRevision| {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        // What policies made of a spec is not what anybody wrote.
        let is_written = facts::annotation(&found.metadata, annotation::POLICY_SOURCE).is_empty();
        found.status.succeeded && name != latest && is_written
    };
    let newest = history
        .into_iter()
        .filter(own)
        .max_by_key(|found| revision::number(found.metadata.name.as_deref().unwrap_or_default()));
    let Some(found) = newest else { return Err(Obstacle::NothingSucceeded) };
    let spec = found.spec.application.spec;
    let to = hash(&spec);
    // Two revisions may differ in definitions alone: putting back the same spec changes nothing.
    if to == present {
        return Err(Obstacle::NothingSucceeded);
    }
    let revision = found.metadata.name.unwrap_or_default();
    Ok(Rollback { revision, spec, mark: format!("{present}/{to}") })
}

/// Whether the author of a revision is the present one. What another wrote never runs under the rights of whoever came after:
/// he could have laid it out for them.
fn is_same_author(former: Option<&Stamp>, present: Option<&Stamp>) -> bool {
    let present = present.map_or("", |stamp| &*stamp.user);
    former.is_some_and(|former| former.user == present)
}

fn hash(spec: &ApplicationSpec) -> String {
    let digest = vela_seal::application(spec, "", "").unwrap_or_default();
    // Eight bytes distinguish the specs of one Application.
    hex::encode(digest.get(..8).unwrap_or_default())
}

async fn put_back(
    ctx: &AppContext,
    app: &Application,
    stamp: Option<&Stamp>,
    rollback: &Rollback,
) -> Result<Application, ApiError> {
    let value = |spec| serde_json::to_value(spec).unwrap_or_default();
    // Only the difference is written, so that field managers keep what has not changed.
    let spec = json_merge::diff(&value(&app.spec), &value(&rollback.spec));
    let mark = Value::String(rollback.mark.clone());
    let mut annotations = Map::from_iter([(annotation::ROLLED_BACK_FROM.to_owned(), mark)]);
    // The stamp is about what it was made for: the present author signs for the older spec as well.
    if let (Some(stamp), Some(keys)) = (stamp, ctx.keys.get()) {
        let [namespace, name] = [&app.metadata.namespace, &app.metadata.name]
            .map(|text| text.as_deref().unwrap_or_default());
        let auto_update = facts::annotation(&app.metadata, annotation::AUTO_UPDATE);
        let content = vela_seal::application(&rollback.spec, "", auto_update).unwrap_or_default();
        let subject = Subject { kind: Application::KIND, namespace, name, content };
        for (key, value) in stamp.annotations(&keys, &subject) {
            annotations.insert(key.to_owned(), value.map_or(Value::Null, Value::String));
        }
    }
    let metadata =
        json!({"resourceVersion": app.metadata.resource_version, "annotations": annotations});
    write::patch(ctx, app, &json!({"metadata": metadata, "spec": spec})).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, succeeded: bool, value: &str) -> ApplicationRevision {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "status": {"succeeded": succeeded},
            "spec": {"application": {"spec": spec(value)}},
        }))
        .unwrap()
    }

    fn spec(value: &str) -> Value {
        json!({"components": [{"name": "c", "type": "t", "properties": {"v": value}}]})
    }

    fn app(value: &str, mark: &str) -> Application {
        let annotations = json!({ annotation::ROLLED_BACK_FROM: mark });
        serde_json::from_value(
            json!({"metadata": {"name": "a", "annotations": annotations}, "spec": spec(value)}),
        )
        .unwrap()
    }

    fn hash_of(value: &str) -> String {
        hash(&app(value, "").spec)
    }

    #[test]
    fn what_another_wrote_is_not_put_back() {
        let of = |user: &str| Stamp { user: user.to_owned(), ..Stamp::default() };
        let (alice, mallory, nobody) = (of("alice"), of("mallory"), of(""));
        assert!(is_same_author(Some(&alice), Some(&alice)));
        assert!(is_same_author(Some(&nobody), None), "both were the default user's");
        assert!(!is_same_author(Some(&mallory), Some(&alice)));
        assert!(!is_same_author(Some(&mallory), None));
        assert!(!is_same_author(None, Some(&alice)), "nobody is known to have written it");
        assert!(!is_same_author(None, None));
    }

    #[test]
    fn the_last_spec_that_succeeded_is_put_back_once() {
        let history = || {
            vec![
                revision("a-v2", true, "2"),
                revision("a-v10", true, "10"),
                revision("a-v11", false, "11"),
                revision("a-v12", false, "bad"),
            ]
        };
        let found = decide(&app("bad", ""), "a-v12", history()).unwrap();
        let mark = format!("{}/{}", hash_of("bad"), hash_of("10"));
        assert_eq!((found.revision.as_str(), found.mark.as_str()), ("a-v10", mark.as_str()));
        // The same again, and what was put back fails too.
        assert_eq!(decide(&app("bad", &mark), "a-v12", history()), Err(Obstacle::Repeated));
        assert_eq!(decide(&app("10", &mark), "a-v13", history()), Err(Obstacle::FailedToo));
        // Another one is another matter.
        assert!(decide(&app("worse", &mark), "a-v14", history()).is_ok());
        assert_eq!(decide(&app("bad", ""), "a-v1", Vec::new()), Err(Obstacle::NothingSucceeded));
        let only = vec![revision("a-v1", true, "x")];
        assert_eq!(decide(&app("x", ""), "a-v2", only), Err(Obstacle::NothingSucceeded));
    }

    #[test]
    fn git_owns_what_its_managers_write() {
        let of = |manager: &str, fields: Value| {
            git_manager(&json!({"metadata": {"managedFields": [
                {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
                {"manager": manager, "fieldsV1": fields}]}}))
        };
        let spec = || json!({"f:spec": {"f:components": {}}});
        for manager in ["argocd-controller", "kustomize-controller", "helm-controller", "Helm"] {
            assert_eq!(of(manager, spec()).as_deref(), Some(manager));
        }
        assert_eq!(of("vela-cli", spec()), None);
        assert_eq!(of("argocd-controller", json!({"f:status": {}})), None);
        assert_eq!(git_manager(&json!({})), None);
    }
}
