//! Cleanup after a failed revision: an install that is atomic is taken back as a whole, an upgrade loses what the revision
//! before it did not have.

use std::collections::BTreeSet;

use serde_json::Value;
use vela_apply::object::{api_version, kind};
use vela_apply::{Owner, ResourceKey, release as marks};
use vela_helm::release::Record;

use super::error::ReleaseError;
use super::objects;
use super::records::Known;
use super::released::{Change, Released};
use crate::application::session::Session;

/// Removes what a revision made that fails now, as its options say.
pub(super) async fn clean_up(
    session: &mut Session<'_>,
    released: &Released,
) -> Result<(), ReleaseError> {
    let own = released.entry.state.lock().record.clone();
    let params = &released.params;
    match released.change {
        Change::Install if params.atomic => remove(session, released, &own, &[]).await,
        Change::Upgrade if params.cleanup_on_fail && !params.atomic => {
            // What the revision before it had stays; without one that can be read, everything new
            // goes.
            let kept = released.known.iter().rev().filter(|it| it.revision < own.revision());
            let kept = kept.filter_map(|known| known.read().ok()).next();
            remove(session, released, &own, &kept.into_iter().collect::<Vec<_>>()).await
        }
        _ => Ok(()),
    }
}

/// After a rollback: removes what only the revision made that failed.
pub(super) async fn remove_new(
    session: &mut Session<'_>,
    released: &Released,
) -> Result<(), ReleaseError> {
    let own = released.entry.state.lock().record.clone();
    let before = |known: &&Known| known.revision < own.revision();
    let Some(failed) = released.known.iter().rev().find(before) else { return Ok(()) };
    let Ok(failed) = failed.read() else { return Ok(()) };
    remove(session, released, &failed, &[own]).await
}

/// Removes the objects of a record that others do not have, as far as they are the Application's and the chart does not keep
/// them.
async fn remove(
    session: &mut Session<'_>,
    released: &Released,
    gone: &Record,
    kept: &[Record],
) -> Result<(), ReleaseError> {
    let cluster = released.entry.cluster.as_str();
    let mut keys = BTreeSet::new();
    for record in kept {
        // Objects of a kept record are compared by identity, whatever they contain.
        keys.extend(all(session, released, record).await?.iter().map(|it| key(it, cluster)));
    }
    let mut going = all(session, released, gone).await?;
    going.retain(|object| !keys.contains(&key(object, cluster)));
    // In the reverse order of their installation.
    for object in going.iter().rev().filter(|object| !marks::is_kept(object)) {
        let live = session.live(api_version(object), &key(object, cluster)).await;
        let live = live.map_err(ReleaseError::io(kind(object)))?;
        // An object that was handed over since is not ours to delete.
        let is_ours = live.as_deref().and_then(Owner::of).is_some_and(|it| it == session.owner);
        if is_ours {
            let deleted = session.delete(object, cluster).await;
            deleted.map_err(|error| ReleaseError::NotStored(error.to_string()))?;
        }
    }
    Ok(())
}

fn key(object: &Value, cluster: &str) -> ResourceKey {
    ResourceKey::of(object, cluster)
}

async fn all(
    session: &Session<'_>,
    released: &Released,
    record: &Record,
) -> Result<Vec<Value>, ReleaseError> {
    let chart = || record.chart_name().to_owned();
    let documents = record.documents().map_err(|error| ReleaseError::Yaml(chart(), error))?;
    let entry = &released.entry;
    let found = objects::of(documents, &entry.release, &entry.namespace);
    let mut found = found.map_err(|error| ReleaseError::Object(chart(), error))?;
    for object in &mut found {
        // Kinds that have no namespace lose it here as they did when they were dispatched.
        let permitted = session.permit(object, &entry.cluster).await;
        permitted.map_err(|denial| ReleaseError::NotStored(denial.to_string()))?;
    }
    Ok(found)
}
