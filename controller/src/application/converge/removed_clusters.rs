//! Records of clusters that are gone: they go to the ledger, then out of the trackers, in this order. So nothing holds an
//! Application up that nobody can ever do, and nothing is forgotten.

use vela_api::Application;
use vela_api::names::{annotation, event, reason};
use vela_apply::object::is_local;
use vela_cluster::ApiError;
use vela_cluster::members::{Named, State};

use crate::clusters::ledger::{self, Cause, Entry};
use crate::events::Severity;
use crate::messages;

use crate::application::facts;
use crate::application::session::Session;
use crate::application::status::Trouble;

/// Why the objects of an Application in a cluster are not waited for any more; `None` as long as they are.
fn cause(session: &Session<'_>, app: &Application, cluster: &str) -> Option<Cause> {
    match session.clusters.named(cluster) {
        Named::Unregistered(true) => Some(Cause::Detached),
        Named::Unregistered(false) | Named::Unclear | Named::Own => None,
        Named::Member(_) => {
            let named = facts::annotation(&app.metadata, annotation::FORGET_CLUSTERS);
            let is_named = named.split(',').any(|name| name.trim() == cluster);
            is_named.then_some(Cause::Forgotten)
        }
    }
}

/// Whether a cluster is missing for not long enough to be given up.
pub(in crate::application) fn is_due_soon(session: &Session<'_>) -> bool {
    session.ctx.clusters.is_on()
        && session
            .trackers
            .clusters()
            .iter()
            .any(|cluster| matches!(session.clusters.named(cluster), Named::Unregistered(false)))
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
        if cause == Cause::Forgotten
            && session.actors.are_others()
            && let Some(access) = ctx.clusters.access()
        {
            access.check(&session.actors.author, &cluster, "delete").await?;
        }
        let records = session.trackers.records_of(&cluster);
        let name = format!("{}/{}", session.owner.namespace, session.owner.name);
        let entry = |record| Entry::of(&name, record, cause, &session.now);
        let entries: Vec<Entry> = records.iter().map(entry).collect();
        ledger::write(&ctx.io, ctx.clusters.namespace(), &cluster, &entries).await?;
        session.trackers.drop_cluster(&ctx.io, &ctx.trackers, &cluster).await?;
        let metrics = &ctx.metrics.clusters;
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        metrics.left_behind.with_label_values(&[metrics.label(&cluster)]).inc_by(count);
        let text = messages::left_behind(&cluster, entries.len());
        ctx.events.emit(&session.about, Severity::Warning, event::LEFT_BEHIND, &text, "");
        ctx.clusters.unlearn(&cluster);
    }
    Ok(())
}

/// What keeps an Application from its clusters, one for each that it names or has objects in, sorted.
pub(in crate::application) fn troubles(
    session: &Session<'_>,
    also: &[String],
) -> Option<Vec<Trouble>> {
    if !session.ctx.clusters.is_on() {
        return None;
    }
    let mut names = session.trackers.clusters();
    names.extend(also.iter().filter(|name| !is_local(name)).cloned());
    if names.is_empty() {
        return None;
    }
    let trouble = |name: &String| {
        let text = session.reach_quietly(name).err()?.to_string();
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
