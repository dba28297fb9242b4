//! Carries the plan of a collection out: marks, deletions, releases, then the trackers that are done.

use futures::{FutureExt, StreamExt, stream};
use serde_json::{Map, Value, json};
use tracing::debug;
use vela_api::names;
use vela_apply::Owner;
use vela_apply::gc::{Action, Plan};
use vela_apply::object::is_local;
use vela_apply::plan::PatchKind;
use vela_apply::policy::Propagation;
use vela_apply::tracker::{self, Record};
use vela_cluster::{ApiError, Removal, Target};

use crate::application::lifecycle::conflict;
use crate::application::session::Session;
use crate::fleet::owner_label;

/// How far a plan came.
pub(super) enum Carried {
    /// To its end, or to a newer spec.
    Out,
    /// An object is known to be gone that the plan waits for.
    SomeDeleted,
    /// An object is another one than the one it was decided for.
    Changed(Box<Record>),
}

/// Carries a plan out. With a generation: stops as soon as the spec is a newer one, which may want what the plan deletes.
pub(super) async fn carry_out(
    session: &mut Session<'_>,
    plan: Plan,
    decided_for: Option<Option<i64>>,
    orphaning: bool,
) -> Result<Carried, ApiError> {
    let (io, store) = (&*session.ctx.io, &*session.ctx.trackers);
    let revision = session.revision.clone();
    session.trackers.record_in_root(io, store, &revision, plan.to_root).await?;
    // The mark comes first: from then on the collection continues whatever becomes of the spec.
    if !plan.marked.is_empty() {
        let _time = session.ctx.metrics.stage("gc-rt.mark");
        for name in &plan.marked {
            session.trackers.mark(io, store, name).await?;
        }
    }
    // The cached Application may be stale: a newer spec could need an object that is about to be deleted. Read it again from the API
    // server first. A race of one round trip remains; the reconcile of the newer spec then recreates the object.
    let deletes = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. }));
    if deletes && decided_for.is_some() {
        let key = session.key();
        if !conflict::reread(session.ctx, key).await? {
            return Ok(Carried::Out);
        }
    }
    let acted = act_all(session, &plan.actions, decided_for).await?;
    if acted.contains(&Acted::Outdated) {
        return Ok(Carried::Out);
    }
    if let Some((_, action)) =
        acted.iter().zip(&plan.actions).find(|(acted, _)| **acted == Acted::Changed)
    {
        return Ok(Carried::Changed(Box::new(action.record().clone())));
    }
    if !plan.finished.is_empty() {
        let _time = session.ctx.metrics.stage("gc-rt.sweep");
        for name in &plan.finished {
            if orphaning {
                // Objects of old releases have their tracker for an owner, and would follow it.
                session.trackers.abandon(io, store, name).await?;
            }
            session.trackers.remove(io, store, name).await?;
        }
    }
    Ok(if acted.contains(&Acted::Gone) { Carried::SomeDeleted } else { Carried::Out })
}

fn is_newest(session: &Session<'_>, generation: Option<i64>) -> bool {
    let key = session.key();
    session.ctx.apps.get(&key).is_some_and(|app| app.generation == generation)
}

/// What came of an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Acted {
    /// The object is gone.
    Gone,
    /// It is there, as intended or for the time being.
    There,
    /// Nothing was done: the spec is a newer one.
    Outdated,
    /// Nothing was done: the object is not what it was when that was decided. The cache knows it as it is.
    Changed,
}

/// Carries the actions out, some at once.
async fn act_all(
    session: &Session<'_>,
    actions: &[Action],
    decided_for: Option<Option<i64>>,
) -> Result<Vec<Acted>, ApiError> {
    if actions.is_empty() {
        return Ok(Vec::new());
    }
    let _time = session.ctx.metrics.stage("gc-rt.finalize");
    let width = session.ctx.settings.dispatch_concurrency.max(1);
    let mut work = Vec::with_capacity(actions.len());
    for action in actions {
        work.push(act(session, action, decided_for).boxed());
    }
    let acted: Vec<_> = stream::iter(work).buffered(width).collect().await;
    acted.into_iter().collect()
}

async fn act(
    session: &Session<'_>,
    action: &Action,
    decided_for: Option<Option<i64>>,
) -> Result<Acted, ApiError> {
    if decided_for.is_some_and(|generation| !is_newest(session, generation)) {
        return Ok(Acted::Outdated);
    }
    let cluster = action.record().cluster.clone();
    match act_in(session, action).await {
        // What could not be done in another cluster is done when that answers; it holds up nothing else.
        Err(error) if !is_local(&cluster) => {
            debug!(%error, cluster, "an object could not be collected");
            Ok(Acted::There)
        }
        acted => acted,
    }
}

async fn act_in(session: &Session<'_>, action: &Action) -> Result<Acted, ApiError> {
    match action {
        Action::Delete { record, uid, version, propagation } => {
            let propagation = propagation.map(|propagation| match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Cascading => "Background",
            });
            let at = session.reach_to(&record.cluster, "delete").await?;
            let live = at.live;
            let seen = (uid.as_str(), version.as_str());
            match at.requests().delete_as_seen(&target(record), seen, propagation).await? {
                // Known to be going at once: nobody asks a second time while the watch is behind.
                Removal::Held(object) => {
                    live.wrote(&record.api_version, &record.kind, object);
                    Ok(Acted::There)
                }
                Removal::Replaced if version.is_empty() => Ok(Acted::There),
                Removal::Replaced => refresh_cache(session, record).await,
                Removal::Done => {
                    live.ended(&record.api_version, &tracker::key_of(record), uid);
                    Ok(Acted::Gone)
                }
            }
        }
        Action::Release { record, version, shared } => {
            let keys = [names::label::APP_NAME, names::label::APP_NAMESPACE];
            let labels = labels(session, keys.map(|key| (key, Value::Null)), Value::Null);
            let metadata = if *shared {
                json!({"labels": labels, "annotations": {names::annotation::SHARED_BY: null}})
            } else {
                json!({ "labels": labels })
            };
            patch(session, record, metadata, version).await
        }
        Action::HandOver { record, shared_by, version, next } => {
            let owner = next.iter().flat_map(|Owner { namespace, name }| {
                [
                    (names::label::APP_NAME, json!(name)),
                    (names::label::APP_NAMESPACE, json!(namespace)),
                ]
            });
            let bucket = owner_label::handed_over(next.as_ref(), shared_by);
            let labels = labels(session, owner, bucket);
            let list = Some(shared_by).filter(|list| !list.is_empty());
            let metadata = json!({
                "annotations": {names::annotation::SHARED_BY: list}, "labels": labels});
            patch(session, record, metadata, version).await
        }
    }
}

/// The labels that say whose an object is, and in which bucket that is if objects are labelled.
fn labels(
    session: &Session<'_>,
    owner: impl IntoIterator<Item = (&'static str, Value)>,
    bucket: Value,
) -> Map<String, Value> {
    let bucket = (names::label::OWNER_BUCKET, bucket);
    let bucket = session.ctx.settings.label_objects.then_some(bucket);
    owner.into_iter().chain(bucket).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Changes the metadata of the object as it was seen: its owner and those who share it are not known otherwise.
async fn patch(
    session: &Session<'_>,
    record: &Record,
    mut metadata: Value,
    version: &str,
) -> Result<Acted, ApiError> {
    if let Some(metadata) = metadata.as_object_mut().filter(|_| !version.is_empty()) {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    let body = json!({ "metadata": metadata });
    let patch = (PatchKind::Merge, &body);
    let at = session.reach_to(&record.cluster, "patch").await?;
    match at.requests().patch(&target(record), patch, false).await {
        Ok(answer) => {
            at.live.wrote(&record.api_version, &record.kind, answer.object()?);
            Ok(Acted::There)
        }
        Err(error) if error.is_not_found() => Ok(Acted::There),
        Err(error) if error.is_conflict() => refresh_cache(session, record).await,
        Err(error) => Err(error),
    }
}

/// Reads an object that changed again into the cache.
async fn refresh_cache(session: &Session<'_>, record: &Record) -> Result<Acted, ApiError> {
    let at = session.reach_to(&record.cluster, "get").await?;
    match at.requests().get(&target(record)).await {
        Ok(found) => at.live.wrote(&record.api_version, &record.kind, found),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(Acted::Changed)
}

pub(super) fn target(record: &Record) -> Target<'_> {
    Target {
        api_version: &record.api_version,
        kind: &record.kind,
        namespace: &record.namespace,
        name: &record.name,
    }
}
