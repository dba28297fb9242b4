//! What happens around the dispatch of a release's objects: its namespace, `crds/`, its record and its hooks before, hooks and
//! the end of the record after. Whatever has to be waited for is reported, and the step is attempted again.

use serde_json::{Value, json};
use vela_api::names::event;
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, cluster_of, kind, name};
use vela_cluster::{Target, postponed};
use vela_helm::release::Status;

use crate::events::Severity;
use crate::messages;

use super::entry::{Entry, Waits};
use super::error::ReleaseError;
use super::records::{self, Known};
use super::released::{Change, Released};
use super::{failed, hooks, ready};
use crate::application::session::Session;

/// Everything that comes before the objects.
///
/// # Errors
/// A request or a hook failed.
pub async fn begin(session: &mut Session<'_>, released: &Released) -> Result<Waits, ReleaseError> {
    let entry = &released.entry;
    // A record in the cluster must not belong to a revision that does not exist.
    let stored = session.store_revision().await;
    stored.map_err(|error| ReleaseError::NotStored(error.to_string()))?;
    if !entry.state.lock().is_stored {
        make_namespace(session, released).await?;
        for crd in &released.crds {
            if let Some(waits) = install(session, entry, crd).await? {
                return Ok(Some(waits));
            }
        }
        if let Some(waits) = store(session, released).await? {
            return Ok(Some(waits));
        }
    }
    // Known with the run from here on, so that a later run removes what this one leaves.
    entry.record(session, &released.known).await?;
    try_again(session, released).await?;
    hooks::run(session, entry, released.change.before()).await
}

/// Everything that comes after the objects: the release is deployed.
///
/// # Errors
/// A request or a hook failed, objects are not ready in time, or this is what an atomic release went back to.
pub async fn finish(
    session: &mut Session<'_>,
    released: &Released,
    manifests: &[Value],
) -> Result<Waits, ReleaseError> {
    let entry = &released.entry;
    if released.params.wait
        && !session.waits_for_nothing()
        && !is_deployed(entry)
        && let Some(waits) = unready(session, released, manifests).await?
    {
        return Ok(Some(waits));
    }
    if let Some(waits) = hooks::run(session, entry, released.change.after()).await? {
        return Ok(Some(waits));
    }
    if !is_deployed(entry) {
        deployed(session, released).await?;
    }
    match (&released.failure, &released.change) {
        (Some(why), Change::Rollback(to)) => {
            let failed = entry.state.lock().record.revision().saturating_sub(1);
            Err(ReleaseError::RolledBack(messages::rolled_back(failed, *to, why)))
        }
        _ => Ok(None),
    }
}

fn is_deployed(entry: &Entry) -> bool {
    entry.state.lock().record.status() == Status::Deployed
}

/// The record says that it is deployed, the ones before that they no longer are; the oldest go.
async fn deployed(session: &mut Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let entry = &released.entry;
    // Objects of the failed revision are removed after those of the old one are back.
    if matches!(released.change, Change::Rollback(_)) {
        failed::remove_new(session, released).await?;
    }
    let revision = {
        let mut state = entry.state.lock();
        let done = released.change.done();
        state.record.set_status(Status::Deployed, &done);
        state.record.revision()
    };
    // The old ones first: two deployed records would confuse every client.
    for known in released.known.iter().filter(|it| it.revision < revision) {
        supersede(session, entry, known).await?;
    }
    entry.write(session).await?;
    for old in records::outdated(&released.known, revision, released.params.history) {
        let deleted = session.delete(&old.secret, &entry.cluster).await;
        deleted.map_err(|error| ReleaseError::NotStored(error.to_string()))?;
    }
    Ok(())
}

/// What of the objects is not ready, for `options.wait`.
async fn unready(
    session: &Session<'_>,
    released: &Released,
    manifests: &[Value],
) -> Result<Waits, ReleaseError> {
    let entry = &released.entry;
    let Some(waits) = first_unready(session, manifests, &entry.cluster).await? else {
        return Ok(None);
    };
    let (since, status) = {
        let state = entry.state.lock();
        (state.since, state.record.status())
    };
    let age = session.ctx.clock.now().duration_since(since).unsigned_abs();
    // What failed in this run had its time.
    if status == Status::Failed || age > entry.timeout {
        return Err(ReleaseError::NotReady(messages::not_ready_within(&waits, entry.timeout)));
    }
    Ok(Some(waits))
}

/// The first of some objects that is not ready, in words.
async fn first_unready(
    session: &Session<'_>,
    manifests: &[Value],
    cluster: &str,
) -> Result<Waits, ReleaseError> {
    for manifest in manifests {
        let key = ResourceKey::of(manifest, cluster);
        let live = session.live(api_version(manifest), &key).await;
        let live = live.map_err(ReleaseError::io("readiness"))?;
        let what = || format!("{} {}", kind(manifest), name(manifest));
        let waits = live.as_deref().map_or_else(|| Some(what()), ready::waits_for);
        if waits.is_some() {
            return Ok(waits);
        }
    }
    Ok(None)
}

/// The newest revision that the present run of the workflow has recorded of a release.
#[must_use]
pub(super) fn recorded(
    session: &Session<'_>,
    (cluster, namespace, release): (&str, &str, &str),
    component: &str,
) -> Option<i64> {
    // Without the number: what follows it in a name is the revision.
    let prefix = vela_helm::release::secret_name(release, 0);
    let prefix = prefix.trim_end_matches('0');
    let current = session.trackers.current(session.run());
    let of_release = session.trackers.records(&current).iter().filter(|record| {
        record.kind == "Secret"
            && record.namespace == namespace
            && cluster_of(&record.cluster) == cluster_of(cluster)
            && record.component == component
            && !record.deleted
    });
    of_release.filter_map(|record| record.name.strip_prefix(prefix)?.parse().ok()).max()
}

/// Makes the record of a deployed release again that somebody removed, and puts one over what the Helm client recorded. The
/// objects are kept by themselves.
///
/// # Errors
/// The API server's answer.
pub async fn restore(session: &mut Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let entry = &released.entry;
    let secret = {
        let mut state = entry.state.lock();
        let at = (entry.cluster.as_str(), entry.namespace.as_str(), entry.release.as_str());
        let recorded = recorded(session, at, &entry.component);
        let is_put_over =
            matches!(released.change, Change::Rollback(_)) && released.failure.is_none();
        let is_lost = recorded == Some(state.record.revision());
        // Nothing was lost, or what is missing is a failed revision, which is not made again.
        if state.is_stored || released.failure.is_some() || !(is_put_over || is_lost) {
            return Ok(());
        }
        state.record.set_status(Status::Deployed, &released.change.done());
        records::secret(&mut state.record, &released.marks(session), session.ctx.clock.now())?
    };
    make_namespace(session, released).await?;
    match entry.at(session).create(&secret).await {
        Err(error) if !error.is_already_exists() => {
            return Err(ReleaseError::Io(format!("record {}", name(&secret)), error));
        }
        _ => {}
    }
    if let Change::Rollback(to) = released.change {
        for known in &released.known {
            supersede(session, entry, known).await?;
        }
        entry.record(session, &released.known).await?;
        let text = messages::put_over(&entry.release, to);
        let events = &session.ctx.events;
        let reason = event::RELEASE_ROLLED_BACK;
        events.emit(&session.about, Severity::Warning, reason, &text, "");
    }
    Ok(())
}

/// Notes that a revision failed. Its record says so; it is tried again with the next attempt of its step, or rolled back. What was
/// postponed has not failed.
pub async fn fail(session: &mut Session<'_>, released: &Released, why: &str) {
    use std::sync::atomic::Ordering;
    // What was postponed has not failed.
    let is_postponed = postponed::is_noted() || session.recreate_pending.load(Ordering::Relaxed);
    if is_postponed {
        return;
    }
    let is_pending = {
        let state = released.entry.state.lock();
        let status = state.record.status();
        state.is_stored && records::is_pending(status)
    };
    // It failed before its record was stored, or has ended already.
    if !is_pending {
        return;
    }
    if let Err(error) = failed::clean_up(session, released).await {
        // The record is pending still: the next attempt goes on with it.
        tracing::debug!(%error, "the objects of a failed release could not be deleted");
        return;
    }
    {
        let mut state = released.entry.state.lock();
        let why = why.strip_prefix(&messages::release_failed("")).unwrap_or(why);
        let text = released.change.failed(&released.entry.release, why);
        state.record.set_status(Status::Failed, &text);
    }
    if let Err(error) = released.entry.write(session).await {
        tracing::debug!(%error, "the failure of a release could not be recorded");
    }
}

/// A revision that failed in an earlier run of the workflow has its time again.
async fn try_again(session: &Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    {
        let mut state = released.entry.state.lock();
        // An attempt of an earlier run has had its time; this run starts a new one.
        let is_older = session.run_began.is_some_and(|began| state.since < began);
        if state.record.status() != Status::Failed || !is_older {
            return Ok(());
        }
        state.record.set_status(released.change.pending().0, released.change.pending().1);
    }
    released.entry.write(session).await
}

/// Which of the CustomResourceDefinitions among these objects are not served yet.
///
/// # Errors
/// The API server does not answer.
pub async fn unestablished(
    session: &Session<'_>,
    released: &Released,
    manifests: impl Iterator<Item = &Value>,
) -> Result<Waits, ReleaseError> {
    for manifest in manifests.filter(|it| kind(it) == "CustomResourceDefinition") {
        let found = released.entry.at(session).get(&Target::of(manifest)).await;
        let found = found.map_err(ReleaseError::io(name(manifest)))?;
        if !ready::is_established(&found) {
            return Ok(Some(messages::not_served_yet(name(manifest))));
        }
    }
    Ok(None)
}

/// The namespace of the release, if it is wanted and not there. It stays when the release goes, as with Helm.
async fn make_namespace(session: &Session<'_>, released: &Released) -> Result<(), ReleaseError> {
    let wanted = &released.entry.namespace;
    // The Application's own namespace exists.
    let is_own =
        vela_apply::object::is_local(&released.entry.cluster) && *wanted == session.owner.namespace;
    if !released.params.create_namespace || is_own {
        return Ok(());
    }
    let at = released.entry.at(session);
    let target = Target { api_version: "v1", kind: "Namespace", namespace: "", name: wanted };
    match at.get(&target).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        // Who may not see it may still release into it.
        Err(error) if error.code() == Some(403) => return Ok(()),
        Err(error) => return Err(ReleaseError::Io(format!("namespace {wanted}"), error)),
    }
    // Helm labels it with its name.
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": wanted, "labels": {"name": wanted}},
    });
    match at.create(&object).await {
        Err(error) if !error.is_already_exists() => {
            Err(ReleaseError::Io(format!("namespace {wanted}"), error))
        }
        _ => Ok(()),
    }
}

/// An object of `crds/`: made once, never changed and never removed, as with Helm.
async fn install(session: &Session<'_>, entry: &Entry, crd: &Value) -> Result<Waits, ReleaseError> {
    let what = format!("{} {}", kind(crd), name(crd));
    let at = entry.at(session);
    let found = match at.get(&Target::of(crd)).await {
        Ok(found) => found,
        // Made by the Application, and never updated: Helm does the same.
        Err(error) if error.is_not_found() => match at.create(crd).await {
            Ok(made) => made,
            Err(error) if error.is_already_exists() => return Ok(Some(what)),
            Err(error) => return Err(ReleaseError::Io(what, error)),
        },
        Err(error) => return Err(ReleaseError::Io(what, error)),
    };
    let is_served = kind(crd) != "CustomResourceDefinition" || ready::is_established(&found);
    Ok((!is_served).then(|| messages::not_served_yet(name(crd))))
}

/// Makes the record's Secret.
async fn store(session: &Session<'_>, released: &Released) -> Result<Waits, ReleaseError> {
    let entry = &released.entry;
    let now = session.ctx.clock.now();
    let secret = {
        let mut state = entry.state.lock();
        state.since = now;
        records::secret(&mut state.record, &released.marks(session), now)?
    };
    match entry.at(session).create(&secret).await {
        Ok(_) => {
            entry.state.lock().is_stored = true;
            if let (Change::Rollback(to), Some(why)) = (&released.change, &released.failure) {
                let failed = entry.state.lock().record.revision().saturating_sub(1);
                let text = messages::rolled_back(failed, *to, why);
                let (events, reason) = (&session.ctx.events, event::RELEASE_ROLLED_BACK);
                events.emit(&session.about, Severity::Warning, reason, &text, "");
            }
            Ok(None)
        }
        // Somebody made the same revision: that is read first.
        Err(error) if error.is_already_exists() => {
            Ok(Some(messages::made_by_others(name(&secret))))
        }
        Err(error) => Err(ReleaseError::Io(format!("record {}", name(&secret)), error)),
    }
}

/// An older revision that was deployed no longer is.
async fn supersede(
    session: &Session<'_>,
    entry: &Entry,
    known: &Known,
) -> Result<(), ReleaseError> {
    if known.status != Status::Deployed {
        return Ok(());
    }
    let Ok(mut record) = known.read() else { return Ok(()) };
    let description = record.description().to_owned();
    record.set_status(Status::Superseded, &description);
    let change = records::change(&record, session.ctx.clock.now())?;
    match entry.at(session).patch(&Target::of(&known.secret), &change).await {
        Err(error) if !error.is_not_found() => {
            Err(ReleaseError::Io(format!("record {}", name(&known.secret)), error))
        }
        _ => Ok(()),
    }
}
