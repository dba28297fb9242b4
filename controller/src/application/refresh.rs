//! An Application and what is recorded of it, read from the API server where the caches cannot be relied on: after another process
//! worked on it, and before the caches are filled.

use kube::api::{Api, ListParams};
use vela_api::names::label;
use vela_api::{Application, ApplicationRevision, ResourceTracker};
use vela_cluster::packed::PackError;
use vela_cluster::{ApiError, Key, Packed, Stored as _, Whose};

use crate::context::Context;
use crate::fleet::bucket_label;
use crate::revisions::Revision;

use super::context::AppContext;

/// The trackers of any Application, or why one cannot be read: from the cache if that has them, else from the API server.
pub(crate) async fn trackers(
    context: &Context,
    key: &Key,
) -> Result<Vec<Result<ResourceTracker, PackError>>, ApiError> {
    if context.has_records_of(key) {
        let all = context.trackers.indexed(key);
        return Ok(all.into_iter().map(|stored| stored.open()).collect());
    }
    let all: Api<ResourceTracker> = Api::all(context.io.client().clone());
    let found = all.list(&ListParams::default().labels(&tracked(key))).await;
    Ok(found.map_err(ApiError::from)?.items.into_iter().map(Ok).collect())
}

/// The labels of an Application's trackers.
fn tracked(key: &Key) -> String {
    format!("{}={},{}={}", label::APP_NAME, key.name, label::APP_NAMESPACE, key.namespace)
}

/// Reads an Application and its records into the caches.
pub(crate) async fn read(context: &AppContext, key: &Key) -> Result<(), ApiError> {
    let client = context.io.client();
    let apps: Api<Application> = Api::namespaced(client.clone(), &key.namespace);
    let revisions: Api<ApplicationRevision> = Api::namespaced(client.clone(), &key.namespace);
    let trackers: Api<ResourceTracker> = Api::all(client.clone());
    let of_app = format!("{}={}", label::APP_NAME, key.name);
    // All or nothing: with one answer missing the reconcile would decide from records of two times.
    let (app, revisions, trackers) = tokio::try_join!(
        apps.get_opt(&key.name),
        async { revisions.list(&ListParams::default().labels(&of_app)).await },
        async { trackers.list(&ListParams::default().labels(&tracked(key))).await },
    )
    .map_err(ApiError::from)?;
    match app {
        Some(app) => context.keep(&app),
        // Deleted; the watch has yet to say so.
        None => context.drop(key, ""),
    }
    let version = revisions.metadata.resource_version.unwrap_or_default();
    // What the cache has and the list has not was deleted; the watch has yet to say so.
    let found: Vec<Key> = revisions.items.iter().map(|one| one.key()).collect();
    for revision in revisions.items {
        let revision = bucket_label::corrected(context, revision, Whose::Namespaced).await;
        // As new as what is known: nothing to say.
        let _ = context.revisions.put(Revision::of(revision, &context.revision_contents));
    }
    for known in context.revisions.indexed(key) {
        if !found.contains(&known.key()) {
            context.revisions.remove(&known.key(), &version);
        }
    }
    let version = trackers.metadata.resource_version.unwrap_or_default();
    let found: Vec<Key> = trackers.items.iter().map(|one| one.key()).collect();
    for tracker in trackers.items {
        let mut tracker = bucket_label::corrected(context, tracker, Whose::ClusterScoped).await;
        // What cannot be expanded says so when it is read.
        let _ = tracker.expand();
        let _ = context.trackers.put(Packed::of(&tracker));
    }
    for known in context.trackers.indexed(key) {
        if !found.contains(&known.key()) {
            context.trackers.remove(&known.key(), &version);
        }
    }
    Ok(())
}
