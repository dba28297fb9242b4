//! State-keep: live objects are put back to what was dispatched when something else changed or deleted them.
//!
//! Answers for `pkg/resourcekeeper/statekeep.go`. It runs when a watched object changed, not only at the resync, and tells
//! who changed what.

use vela_apply::policy::Stage;
use vela_apply::tracker::{Record, key_of};

use crate::messages;

use super::apply::Applied;
use super::dispatch::Session;

/// One object that was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// In words.
    pub message: String,
}

/// Puts back what differs. Returns what was done and what failed.
pub async fn keep(session: &Session<'_>) -> (Vec<Repaired>, Vec<String>) {
    let mut repaired = Vec::new();
    let mut errors = Vec::new();
    if session.ctx.settings.gates.apply_once || session.policies.is_metadata_only() {
        return (repaired, errors);
    }
    let current = session.trackers.current(session.run());
    for record in session.trackers.desired(&current) {
        match keep_one(session, &record).await {
            Ok(Some(message)) => repaired.push(Repaired { message }),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    (repaired, errors)
}

async fn keep_one(session: &Session<'_>, record: &Record) -> Result<Option<String>, String> {
    let ctx = session.ctx;
    let key = key_of(record);
    let live = ctx
        .live
        .get(&record.api_version, &key)
        .await
        .map_err(|error| messages::cannot("get", &error.to_string()))?;
    let object = format!("{} {}", record.kind, record.name);
    if record.deleted {
        let Some(live) = live.filter(|live| !live.deleting) else { return Ok(None) };
        if live.owner.as_ref() != Some(&session.owner) {
            return Ok(None);
        }
        let target = vela_cluster::Target {
            api_version: &record.api_version,
            kind: &record.kind,
            namespace: &record.namespace,
            name: &record.name,
        };
        return ctx
            .io
            .delete(&target, &live.uid, None, &session.identity)
            .await
            .map(|_| None)
            .map_err(|error| messages::cannot("delete", &error.to_string()));
    }
    let Some(raw) = record.raw.as_ref().map(vela_api::RawExtension::to_value) else {
        return Ok(None);
    };
    if live.as_ref().is_some_and(|live| live.deleting) {
        // It is made again once it is gone.
        return Ok(None);
    }
    let keeps_hands_off = session.policies.apply_once_paths(&raw, Stage::StateKeep).is_some();
    if live.is_none() && keeps_hands_off {
        // Who asked to apply once does not want it back.
        return Ok(None);
    }
    let applied = session.apply(&raw, &record.cluster, Stage::StateKeep, false).await?;
    Ok(match applied {
        Applied::Unchanged => None,
        Applied::Created => Some(messages::recreated(&object)),
        Applied::Changed => {
            let manager = live.map(|live| live.manager.clone()).unwrap_or_default();
            Some(messages::drift_repaired(&object, &manager))
        }
    })
}
