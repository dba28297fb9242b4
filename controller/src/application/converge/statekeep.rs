//! State-keep: live objects that another writer changed or deleted are restored to the dispatched manifest.
//!
//! Answers for `pkg/resourcekeeper/statekeep.go`. It runs when a watched object changed, not only at the resync, and reports
//! who changed what. While the workflow continues, it is done for what a step waits for.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use tracing::warn;
use vela_api::names::{event, label};
use vela_apply::ResourceKey;
use vela_apply::object::{kind, name};
use vela_apply::plan::{PatchKind, PlanError};
use vela_apply::policy::Stage;
use vela_apply::tracker::{Record, key_of};

use vela_cluster::{ApiError, Class, Live, Target};

use crate::events::Severity;
use crate::messages;

use crate::application::dispatch::apply::Applied;
use crate::application::dispatch::error::{Verb, WriteError};
use crate::application::session::Session;
use crate::application::session::reach::Reached;
use crate::fleet::owner_label;

/// The reason of the event for a repaired object.
pub const DRIFT_CORRECTED: &str = "DriftCorrected";

/// One object that was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// A message.
    pub message: String,
}

/// Puts back what differs. Returns what was done and what failed.
pub async fn keep(session: &Session<'_>) -> (Vec<Repaired>, Vec<String>) {
    let mut repaired = Vec::new();
    let mut errors = Vec::new();
    // No step waits any more.
    {
        let memory = session.memory();
        let mut memory = memory.lock();
        memory.as_dispatched = HashMap::new();
        // What is left again in this reconcile is no news.
        memory.left_before = std::mem::take(&mut memory.left).into_keys().collect();
    }
    // Nothing but metadata is recorded, so there is nothing to put back.
    if session.is_metadata_only() {
        return (repaired, errors);
    }
    let current = session.trackers.current(session.run());
    for record in session.trackers.desired(&current) {
        match keep_one(session, record).await {
            Ok(Some(message)) => repaired.push(Repaired { message }),
            Ok(None) => {}
            Err(error) => errors.push(error.to_string()),
        }
    }
    (repaired, errors)
}

/// Why the state of one object could not be kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("{}", messages::cannot(*.0, &.1.to_string()))]
    Request(Verb, ApiError),
    /// An outdated object, the tracker that records it, and why it is still there.
    #[error("{}", messages::delete_outdated_failed(.0, .1, &messages::cannot(Verb::Delete, &.2.to_string())))]
    Delete(String, String, ApiError),
    /// An object, the tracker that records it, and a field of it that can never be applied again.
    #[error("{}", messages::apply_once_failed(.0, .1, .2))]
    ApplyOnce(String, String, String),
    /// An object, the tracker that records it, and why it could not be applied.
    #[error("{}", messages::reapply_failed(.0, .1, &.2.to_string()))]
    Apply(String, String, WriteError),
}

async fn keep_one(session: &Session<'_>, record: &Record) -> Result<Option<String>, KeepError> {
    let key = key_of(record);
    let at = match session.reach(&record.cluster) {
        Ok(at) => at,
        // Its return wakes the Application.
        Err(ApiError::Unreachable { .. }) => return Ok(None),
        Err(error) => return Err(KeepError::Request(Verb::Get, error)),
    };
    let live = at
        .live
        .get(&record.api_version, &key)
        .await
        .map_err(|error| KeepError::Request(Verb::Get, error))?;
    let object = format!("{} {}", record.kind, record.name);
    if record.deleted {
        let Some(live) = live.filter(|live| !live.deleting) else { return Ok(None) };
        // It has been handed over, or made by somebody else since.
        if live.owner.as_ref() != Some(&session.owner) {
            return Ok(None);
        }
        let target = Target {
            api_version: &record.api_version,
            kind: &record.kind,
            namespace: &record.namespace,
            name: &record.name,
        };
        let at = session.reach_to(&record.cluster, "delete").await;
        let at = at.map_err(|error| KeepError::Request(Verb::Delete, error))?;
        let deleted = at.requests().delete(&target, &live.uid, None).await.map(|_| None);
        return deleted
            .map_err(|error| KeepError::Delete(key.to_string(), session.holder(&key), error));
    }
    // Recorded without its content: it is not ours to restore.
    let Some(raw) = record.raw.as_ref().map(vela_api::RawExtension::to_value) else {
        return Ok(None);
    };
    if live.as_ref().is_some_and(|live| live.deleting) {
        // It is created again once it is gone.
        return Ok(None);
    }
    let keeps_hands_off = session.policies.apply_once_paths(&raw, Stage::StateKeep).is_some();
    if live.is_none() && keeps_hands_off {
        // Who asked to apply once does not want it back.
        return Ok(None);
    }
    if live.is_none() && session.completed(&raw, &key).is_some() {
        // It had its end.
        return Ok(None);
    }
    if let Some(live) = live.as_ref().filter(|live| live.owner.as_ref() == Some(&session.owner)) {
        // The cluster removes it soon, perhaps between two reconciles.
        if vela_cluster::may_be_over(&record.kind) && vela_cluster::is_over(&live.value()) {
            session.completes(&key, &live.value());
        }
    }
    let applied = session.apply(&raw, &record.cluster, Stage::StateKeep, false).await;
    let applied = applied.map_err(|failure| failed(session, &key, failure))?;
    if let Some(live) = &live {
        let corrected = correct_label(session, &at, (&record.api_version, &key), live).await;
        corrected.map_err(|error| KeepError::Request(Verb::Patch, error))?;
    }
    // The live object of before: its last writer is who caused the drift.
    let manager = live.map(|live| live.manager.clone()).unwrap_or_default();
    Ok(repair_message(&applied, &object, &manager))
}

/// Corrects the label by which the API server may leave an object out. That it may not be written is logged: the object is right but for that.
///
/// # Errors
/// The API server does not answer, or this replica may not write now.
async fn correct_label(
    session: &Session<'_>,
    at: &Reached<'_>,
    (api_version, key): (&str, &ResourceKey),
    live: &Live,
) -> Result<(), ApiError> {
    let is_concerned = session.ctx.settings.label_objects && live.is_of(&session.owner);
    let correction = is_concerned.then(|| owner_label::correction(live)).flatten();
    let Some(body) = correction else { return Ok(()) };
    // Somebody may want another label for ever.
    let field = BTreeSet::from([format!("metadata.labels.{}", label::OWNER_BUCKET)]);
    if !session.may_put_back(key, &field, &live.manager) {
        return Ok(());
    }
    let ResourceKey { kind, namespace, name, .. } = key;
    let target = Target { api_version, kind, namespace, name };
    match at.requests().patch(&target, (PatchKind::Merge, &body), false).await {
        Ok(answer) => {
            session.repaired(key, &field);
            at.live.wrote(api_version, kind, answer.object()?);
        }
        // Somebody else wrote it: it is read again.
        Err(error) if error.is_conflict() || error.is_not_found() => {}
        Err(error) if error.class() == Class::Refused => {
            warn!(%error, object = %key, "the label of the bucket could not be written");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// An object could not be repaired.
fn failed(session: &Session<'_>, key: &ResourceKey, failure: WriteError) -> KeepError {
    let (object, tracker) = (key.to_string(), session.holder(key));
    match failure {
        WriteError::Plan(PlanError::ApplyOncePath { path, .. }) => {
            KeepError::ApplyOnce(object, tracker, path)
        }
        failure => KeepError::Apply(object, tracker, failure),
    }
}

/// The message for an object that was checked; `manager` is its last writer.
fn repair_message(applied: &Applied, object: &str, manager: &str) -> Option<String> {
    match applied {
        Applied::Unchanged | Applied::Left => None,
        Applied::Created => Some(messages::recreated(object)),
        Applied::Changed(changes) => {
            Some(messages::drift_repaired(object, manager, &changes.put_back()))
        }
    }
}

/// Puts back one object that a step dispatched before and waits for. Returns whether it was as dispatched. The step does not
/// fail for what fails here: its health is what it waits for.
pub async fn hold(session: &Session<'_>, manifest: &Value, cluster: &str, manager: &str) -> bool {
    let record_event = |severity, reason, message: &str| {
        session.ctx.events.emit(&session.about, severity, reason, message, "");
    };
    match session.apply(manifest, cluster, Stage::Wait, false).await {
        Ok(applied) => {
            let object = format!("{} {}", kind(manifest), name(manifest));
            let repair = repair_message(&applied, &object, manager);
            if let Some(message) = &repair {
                record_event(Severity::Normal, DRIFT_CORRECTED, message);
            }
            applied == Applied::Unchanged
        }
        // A rule that cannot be followed is reported when the state is kept; a terminating object is recreated once it is gone.
        Err(WriteError::Plan(_) | WriteError::Terminating(_) | WriteError::Unreachable(_)) => false,
        Err(failure @ WriteError::Request(..)) => {
            let key = ResourceKey::of(manifest, cluster);
            let text = messages::errors(&[failed(session, &key, failure).to_string()]);
            record_event(Severity::Warning, event::FAILED_STATE_KEEP, &text);
            false
        }
    }
}
