//! ApplicationRevisions that are deleted: the oldest beyond the limit, and all of them with their Application.

use vela_api::names;
use vela_apply::Owner;
use vela_cluster::{ApiError, Identity, Removal, Stored as _, Target};

use crate::application::revision;
use crate::application::session::Session;
use crate::queue::Key;

/// Deletes the oldest ApplicationRevisions beyond the limit.
///
/// # Errors
/// The API server's answer.
pub async fn collect_revisions(
    session: &Session<'_>,
    in_use: &[&str],
    limit: usize,
) -> Result<(), ApiError> {
    let metrics = &session.ctx.metrics;
    // The reference's names for this and for the part of it that is about ApplicationRevisions: here it has no other.
    let _times = (metrics.stage("gc-app-rev"), metrics.stage("gc-rev.apprev"));
    let key = session.key();
    let all = session.ctx.revisions.indexed(&key);
    let names: Vec<&str> = all.iter().map(|revision| revision.name()).collect();
    let current = in_use.first().copied().unwrap_or_default();
    for name in revision::surplus(&names, current, limit) {
        if !in_use.contains(&name) {
            delete_revision(session, name).await?;
        }
    }
    Ok(())
}

const API_VERSION: &str = vela_api::V1BETA1;
const KIND: &str = vela_api::ApplicationRevision::KIND;

/// Deletes one ApplicationRevision.
async fn delete_revision(session: &Session<'_>, name: &str) -> Result<Removal, ApiError> {
    let namespace = session.owner.namespace.as_str();
    let target = Target { api_version: API_VERSION, kind: KIND, namespace, name };
    session.ctx.io.delete(&target, "", None, &Identity::default()).await
}

/// Deletes all ApplicationRevisions, in one request. Returns whether they are gone: a finalizer may hold one.
///
/// # Errors
/// The API server's answer.
pub async fn delete_revisions(session: &Session<'_>) -> Result<bool, ApiError> {
    let ctx = session.ctx;
    let Owner { namespace, name } = &session.owner;
    let all = ctx.revisions.indexed(&Key::new(namespace.as_str(), name.as_str()));
    let left = all.iter().filter(|revision| !revision.deleting);
    let names: Vec<&str> = left.map(|revision| revision.name()).collect();
    let mut held = false;
    match names.as_slice() {
        [] => {}
        [one] => held = !delete_revision(session, one).await?.is_done(),
        _ => {
            let selector = format!("{}={name}", names::label::APP_NAME);
            let own = Identity::default();
            ctx.io.delete_all(API_VERSION, KIND, namespace, &selector, false, &own).await?;
        }
    }
    for revision in all {
        if revision.held {
            held = true;
        } else if !held {
            ctx.revisions.remove(&revision.key(), "");
        }
    }
    Ok(!held)
}
