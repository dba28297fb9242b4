//! Records of clusters that are gone: they go to the ledger, then out of the trackers, in this order. So nothing holds an
//! Application up that nobody can ever do, and nothing is forgotten.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;
use vela_api::Application;
use vela_api::names::{annotation, event, reason};
use vela_apply::object::is_local;
use vela_apply::tracker::{self, Record};
use vela_cluster::ApiError;
use vela_cluster::members::{Named, State};

use crate::clusters::ledger::{self, Cause, Entry};
use crate::clusters::replaced;
use crate::events::Severity;
use crate::messages;

use crate::application::session::Session;
use crate::application::status::Trouble;
use crate::application::{facts, write};

/// Why the objects of an Application in a cluster are not waited for any more; `None` as long as they are.
fn cause(session: &Session<'_>, app: &Application, cluster: &str) -> Option<Cause> {
    match session.clusters.named(cluster) {
        Named::Unregistered(true) => Some(Cause::Detached),
        Named::Unregistered(false) | Named::Unclear | Named::Own => None,
        // What is recorded is in the cluster that had the name before.
        Named::Member(member) if replaced::is_over(&member) => Some(Cause::Replaced),
        // Named in the annotation, and still registered: only then is giving up a decision of the
        // user.
        Named::Member(_) => {
            let named = facts::annotation(&app.metadata, annotation::FORGET_CLUSTERS);
            let is_named = named.split(',').any(|name| name.trim() == cluster);
            is_named.then_some(Cause::Forgotten)
        }
    }
}

/// Whether a cluster is missing for not long enough to be given up.
pub(in crate::application) fn is_due_soon(session: &Session<'_>, app: &Application) -> bool {
    let is_soon = |cluster: &String| match session.clusters.named(cluster) {
        Named::Unregistered(false) => true,
        Named::Member(member) => member.state() == State::Replaced && !replaced::is_over(&member),
        Named::Unregistered(true) | Named::Unclear | Named::Own => false,
    };
    if !session.ctx.clusters.is_on() {
        return false;
    }
    let is_compared = session.memory().lock().status_compared;
    let in_status = app.status.applied_resources.iter().filter(|_| !is_compared);
    let mut in_status = in_status.filter(|it| !is_local(&it.cluster)).map(|it| &it.cluster);
    session.trackers.clusters().iter().any(is_soon)
        || in_status.any(|it| matches!(session.clusters.named(it), Named::Unregistered(false)))
}

/// Gives up what is recorded of clusters that are gone.
///
/// # Errors
/// It could not be noted, or the trackers could not be written: they remember it then.
pub(in crate::application) async fn forget(
    session: &mut Session<'_>,
    app: &Application,
) -> Result<(), ApiError> {
    let ctx = session.ctx;
    if !ctx.clusters.is_on() {
        return Ok(());
    }
    for cluster in session.trackers.clusters() {
        let Some(cause) = cause(session, app, &cluster) else { continue };
        // Forgetting takes the same right as deleting there.
        if cause == Cause::Forgotten
            && session.actors.are_others()
            && let Some(access) = ctx.clusters.access()
        {
            access.check(&session.actors.author, &cluster, "delete").await?;
        }
        let records = session.trackers.records_of(&cluster);
        let name = format!("{}/{}", session.owner.namespace, session.owner.name);
        let entries: Vec<Entry> =
            records.iter().map(|it| entry(session, &name, &cluster, cause, it)).collect();
        // First the ledger, then the trackers: ended in between, the records stand in both, never
        // in neither.
        ledger::write(&ctx.io, ctx.clusters.namespace(), &cluster, &entries).await?;
        ctx.clusters.noted(&cluster);
        if cause == Cause::Replaced && asks_for_redeployment(app) {
            // Before the records go, which ask for it; what this reconcile knows of the status is not written over it.
            let body = json!({"status": {"workflow": null}});
            write::patch_part(ctx, app, "status", &body).await?;
        }
        session.trackers.drop_cluster(&ctx.io, &ctx.trackers, &cluster).await?;
        let metrics = &ctx.metrics.clusters;
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        metrics.left_behind.with_label_values(&[metrics.label(&cluster)]).inc_by(count);
        let (reason, text) = match cause {
            Cause::Replaced => {
                (event::CLUSTER_REPLACED, messages::cluster_replaced(&cluster, entries.len()))
            }
            _ => (event::LEFT_BEHIND, messages::left_behind(&cluster, entries.len())),
        };
        ctx.events.emit(&session.about, Severity::Warning, reason, &text, "");
        if cause == Cause::Detached {
            ctx.clusters.unlearn(&cluster);
        }
    }
    Ok(())
}

/// Whether the workflow runs again when a cluster was replaced. A deletion needs no run.
fn asks_for_redeployment(app: &Application) -> bool {
    app.metadata.deletion_timestamp.is_none()
        && facts::annotation(&app.metadata, annotation::ON_CLUSTER_REPLACED) == "redeploy"
}

/// An entry about a record, with the tracker that held it.
fn entry(
    session: &Session<'_>,
    app: &str,
    cluster: &str,
    cause: Cause,
    (tracker, record): &(String, Record),
) -> Entry {
    let live = session.clusters.members().get(cluster).and_then(|it| it.meant());
    let known = || session.clusters.known().get(cluster).map(|known| known.uid.clone());
    Entry {
        cluster_uid: live.or_else(known).unwrap_or_default(),
        tracker: tracker.clone(),
        ..Entry::of(app, record, cause, &session.now)
    }
}

/// Takes back what was left behind in clusters that are there again.
///
/// # Errors
/// The API server's answer: it is tried again.
pub(in crate::application) async fn take_back(session: &mut Session<'_>) -> Result<(), ApiError> {
    let (ctx, key) = (session.ctx, session.key());
    for (cluster, mut entries) in ctx.clusters.back(&key) {
        // Another replica may have had the Application since, and have taken them.
        let noted = ledger::read(&ctx.io, ctx.clusters.namespace(), &cluster).await?;
        entries.retain(|entry| noted.contains(entry));
        let current = session.trackers.current(session.run());
        let mut by_tracker: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
        for entry in &entries {
            by_tracker.entry(&entry.tracker).or_default().push(entry.record(&cluster));
        }
        for (tracker, records) in by_tracker {
            // Its own tracker may be gone: the records then go with those of earlier runs.
            let place = (tracker, current.as_str());
            session.trackers.give_back(&ctx.io, &ctx.trackers, place, records).await?;
        }
        // In this order: what stands in both is one object.
        ledger::take(&ctx.io, ctx.clusters.namespace(), &cluster, &entries).await?;
        ctx.clusters.is_back(&cluster, &key);
    }
    Ok(())
}

/// What was recorded of other clusters before, and somebody else has taken out of the trackers, goes to the ledger: the client does
/// so before it takes a cluster away.
///
/// # Errors
/// It could not be noted: it is tried again.
pub(in crate::application) async fn notice(session: &Session<'_>) -> Result<(), ApiError> {
    let memory = session.memory();
    // Taken, so that each loss is noticed once.
    let Some(before) = memory.lock().members.take() else { return Ok(()) };
    let now = session.trackers.members();
    let known: HashSet<_> = now.iter().map(|(_, record)| tracker::identity(record)).collect();
    let app = format!("{}/{}", session.owner.namespace, session.owner.name);
    let mut stripped: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    for one in before.iter().filter(|(_, record)| !known.contains(&tracker::identity(record))) {
        let cluster = one.1.cluster.as_str();
        let entry = entry(session, &app, cluster, Cause::Stripped, one);
        stripped.entry(cluster).or_default().push(entry);
    }
    for (cluster, entries) in stripped {
        if let Err(error) = note(session, cluster, &entries).await {
            // Not noted: the next reconcile compares with the same state again.
            memory.lock().members = Some(before.clone());
            return Err(error);
        }
    }
    Ok(())
}

/// What the status says to be in clusters that are gone, and nothing records: somebody took it out of the trackers while no controller
/// was at work. Compared once by each process.
///
/// # Errors
/// It could not be noted: it is tried again.
pub(in crate::application) async fn notice_unrecorded(
    session: &Session<'_>,
    app: &Application,
) -> Result<(), ApiError> {
    let memory = session.memory();
    if !session.ctx.clusters.is_on() || memory.lock().status_compared {
        return Ok(());
    }
    let recorded = session.trackers.members();
    let known: HashSet<_> = recorded.iter().map(|(_, it)| tracker::identity(it)).collect();
    let name = format!("{}/{}", session.owner.namespace, session.owner.name);
    let current = session.trackers.current(session.run());
    let mut unrecorded: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    for applied in app.status.applied_resources.iter().filter(|it| !is_local(&it.cluster)) {
        let cluster = applied.cluster.as_str();
        match session.clusters.named(cluster) {
            Named::Unregistered(true) => {}
            // It may be back, or gone for good, in a moment.
            Named::Unregistered(false) | Named::Unclear => return Ok(()),
            Named::Own | Named::Member(_) => continue,
        }
        let record = Record {
            api_version: applied.api_version.clone(),
            kind: applied.kind.clone(),
            cluster: cluster.to_owned(),
            namespace: applied.namespace.clone(),
            name: applied.name.clone(),
            ..Record::default()
        };
        if !known.contains(&tracker::identity(&record)) {
            let one = (current.clone(), record);
            let entry = entry(session, &name, cluster, Cause::Stripped, &one);
            unrecorded.entry(cluster).or_default().push(entry);
        }
    }
    for (cluster, entries) in unrecorded {
        note(session, cluster, &entries).await?;
    }
    memory.lock().status_compared = true;
    Ok(())
}

/// Writes entries down, and says how many are new.
async fn note(session: &Session<'_>, cluster: &str, entries: &[Entry]) -> Result<(), ApiError> {
    let ctx = session.ctx;
    let new = ledger::write(&ctx.io, ctx.clusters.namespace(), cluster, entries).await?;
    if new > 0 {
        let metrics = &ctx.metrics.clusters;
        let count = u64::try_from(new).unwrap_or(u64::MAX);
        metrics.left_behind.with_label_values(&[metrics.label(cluster)]).inc_by(count);
        let text = messages::left_behind(cluster, new);
        ctx.events.emit(&session.about, Severity::Warning, event::LEFT_BEHIND, &text, "");
    }
    Ok(())
}

/// Remembers what is recorded of other clusters now.
pub(in crate::application) fn remember(session: &Session<'_>) {
    if session.ctx.clusters.is_on() {
        let members = session.trackers.members();
        session.memory().lock().members = Some(members).filter(|all| !all.is_empty());
    }
}

/// What keeps an Application from its clusters, one for each that it names or has objects in, sorted. `was_replaced`: that is what
/// its status says of one.
pub(in crate::application) fn troubles(
    session: &Session<'_>,
    (also, was_replaced): (&[String], bool),
) -> Option<Vec<Trouble>> {
    if !session.ctx.clusters.is_on() {
        return None;
    }
    let mut names = session.trackers.clusters();
    names.extend(also.iter().filter(|name| !is_local(name)).cloned());
    if names.is_empty() {
        return None;
    }
    let recorded = session.trackers.clusters();
    let trouble = |name: &String| {
        let Some(error) = session.reach_quietly(name).err() else {
            // As long as no run has deployed to the new one.
            let is_empty = was_replaced && also.contains(name) && !recorded.contains(name);
            let text = messages::replaced_and_empty(name);
            return is_empty.then_some(Trouble { reason: reason::REPLACED, text });
        };
        let text = error.to_string();
        let reason = match session.clusters.named(name) {
            Named::Unregistered(_) => reason::UNREGISTERED,
            Named::Own | Named::Unclear => reason::UNREACHABLE,
            Named::Member(member) => match member.state() {
                State::CredentialRefused => reason::CREDENTIAL_REFUSED,
                State::Invalid => reason::INVALID,
                State::Replaced => reason::REPLACED,
                State::Unknown | State::Connected | State::Degraded | State::Disconnected => {
                    reason::UNREACHABLE
                }
            },
        };
        Some(Trouble { reason, text })
    };
    Some(names.iter().filter_map(trouble).collect())
}
