//! The end of a release: its hooks run before and after its objects go. A hook that fails or takes too long holds nothing up: the
//! deletion goes on, with an event.
//!
//! Objects are collected like those of every other component; what this module asks for is that some of them stay for the time
//! being: all of a release until its pre-delete hooks have ended, its records until its post-delete hooks have.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use parking_lot::Mutex;
use vela_api::names::event;
use vela_apply::object::cluster_of;
use vela_apply::tracker::{Record, key_of};
use vela_apply::{Owner, ResourceKey};
use vela_helm::release::Status;

use crate::events::Severity;
use crate::messages;

use super::entry::{Cluster, Entry, State, Waits};
use super::error::ReleaseError;
use super::hooks::{self, Moment};
use super::records::Known;
use crate::application::session::Session;

/// What deletions of releases have to wait for.
#[derive(Debug, Default)]
pub struct Ending {
    /// Objects that stay for the time being.
    pub held: HashSet<ResourceKey>,
    /// For what, in words.
    pub waits: Vec<String>,
    after: Vec<Going>,
}

/// A release that ends.
#[derive(Debug)]
struct Going {
    entry: Entry,
    /// Everything that is recorded of it.
    keys: HashSet<ResourceKey>,
    /// Its record, and its hooks.
    own: HashSet<ResourceKey>,
}

/// Whether a release ends.
#[must_use]
pub fn ends_any(session: &Session<'_>, is_whole: bool) -> bool {
    !ending_releases(session, is_whole).is_empty()
}

/// Everything that is recorded of releases that end.
#[must_use]
pub fn all_keys(session: &Session<'_>, is_whole: bool) -> HashSet<ResourceKey> {
    ending_releases(session, is_whole).into_values().flatten().collect()
}

/// Runs the hooks before the deletion of all releases that end, as far as they come: those of an Application that is deleted, or
/// those that only earlier runs recorded.
pub async fn before(session: &mut Session<'_>, is_whole: bool) -> Ending {
    let mut ending = Ending::default();
    for (at, keys) in ending_releases(session, is_whole) {
        // Held back as a whole until the hooks have run.
        match begin(session, &at, &keys).await {
            Ok(None) => {}
            Ok(Some((going, waits))) => match waits {
                Some(waits) => {
                    ending.held.extend(keys);
                    // The hook that is running is recorded only now.
                    ending.held.extend(going.own);
                    ending.waits.push(messages::release_waits(&at.name, &waits));
                }
                None if hooks::is_open(&going.entry, Moment::PostDelete) => {
                    ending.held.extend(going.own.iter().cloned());
                    ending.after.push(going);
                }
                None => {}
            },
            Err(error) => {
                // Its cluster does not answer: its objects wait for that as well. Whatever else it is holds nothing up.
                if hooks::is_postponed(&error) {
                    ending.held.extend(keys);
                    ending.waits.push(messages::release_waits(&at.name, &error.to_string()));
                } else {
                    passed_over(session, &at.name, &error);
                }
            }
        }
    }
    ending
}

/// Runs the hooks after the deletion of those releases of which nothing but `waiting` is left. Returns whether something ended:
/// then what was held can go.
pub async fn after(session: &mut Session<'_>, ending: &mut Ending, waiting: &[Record]) -> bool {
    let left: HashSet<ResourceKey> = waiting.iter().map(key_of).collect();
    let mut has_ended = false;
    for going in std::mem::take(&mut ending.after) {
        let name = going.entry.release.clone();
        // Something besides its records and hooks is still there.
        if going.keys.iter().any(|key| left.contains(key) && !going.own.contains(key)) {
            ending.waits.push(messages::release_waits(&name, messages::OBJECTS_ARE_GOING));
            continue;
        }
        match run(session, &going.entry, Moment::PostDelete).await {
            Ok(None) => {
                has_ended = true;
                ending.held.retain(|key| !going.own.contains(key));
            }
            Ok(Some(waits)) => ending.waits.push(messages::release_waits(&name, &waits)),
            Err(error) if hooks::is_postponed(&error) => {
                ending.waits.push(messages::release_waits(&name, &error.to_string()));
            }
            Err(error) => {
                passed_over(session, &name, &error);
                has_ended = true;
                ending.held.retain(|key| !going.own.contains(key));
            }
        }
    }
    has_ended
}

fn passed_over(session: &Session<'_>, release: &str, error: &ReleaseError) {
    let text = messages::release_waits(release, &error.to_string());
    let events = &session.ctx.events;
    events.emit(&session.about, Severity::Warning, event::RELEASE_HOOK, &text, "");
}

/// Where a release is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    cluster: String,
    namespace: String,
    name: String,
    component: String,
}

/// The release that a recorded Secret belongs to.
fn release_of(record: &Record) -> Option<Release> {
    // Records are known by name: trackers hold no contents of them.
    if record.kind != "Secret" || record.deleted {
        return None;
    }
    let rest = record.name.strip_prefix(SECRET_PREFIX)?;
    let (name, revision) = rest.rsplit_once(".v")?;
    revision.parse::<i64>().ok()?;
    Some(Release {
        cluster: record.cluster.clone(),
        namespace: record.namespace.clone(),
        name: name.to_owned(),
        component: record.component.clone(),
    })
}

/// How the names of records begin.
const SECRET_PREFIX: &str = "sh.helm.release.v1.";

/// The releases that end, each with everything that is recorded of its component in its cluster.
fn ending_releases(
    session: &Session<'_>,
    is_whole: bool,
) -> BTreeMap<Release, HashSet<ResourceKey>> {
    let views = session.trackers.views();
    let current = session.trackers.current(session.run());
    let same = |cluster: &str| cluster_of(cluster).to_owned();
    // What the present run wants, under whatever component, does not end.
    let lives: BTreeSet<(String, String, String)> = if is_whole {
        BTreeSet::new()
    } else {
        let live = session.trackers.desired(&current).into_iter().filter_map(release_of);
        live.map(|it| (same(&it.cluster), it.namespace, it.name)).collect()
    };
    let mut out: BTreeMap<Release, HashSet<ResourceKey>> = BTreeMap::new();
    for record in views.iter().flat_map(|tracker| &tracker.records) {
        let Some(release) = release_of(record) else { continue };
        let place = (same(&release.cluster), release.namespace.clone(), release.name.clone());
        if !lives.contains(&place) {
            out.entry(release).or_default();
        }
    }
    for (release, keys) in &mut out {
        let of_component = views.iter().flat_map(|tracker| &tracker.records).filter(|record| {
            record.component == release.component && same(&record.cluster) == same(&release.cluster)
        });
        keys.extend(of_component.map(key_of));
    }
    out
}

/// Runs the hooks before the deletion of a release; `None`: there is nothing to do.
async fn begin(
    session: &mut Session<'_>,
    at: &Release,
    keys: &HashSet<ResourceKey>,
) -> Result<Option<(Going, Waits)>, ReleaseError> {
    let cluster = Cluster { session, name: &at.cluster };
    let known = cluster.records(&at.namespace, &at.name).await?;
    let Some(base) = base(&known, &session.owner) else { return Ok(None) };
    let Ok(record) = base.read() else { return Ok(None) };
    let entry = Entry {
        cluster: at.cluster.clone(),
        component: at.component.clone(),
        release: at.name.clone(),
        namespace: at.namespace.clone(),
        timeout: base.timeout().unwrap_or(vela_helm::request::OPERATION_TIMEOUT),
        state: Mutex::new(State { record, is_stored: true, since: base.since() }),
    };
    let all = entry.state.lock().record.hooks();
    let number = hooks::count(&all, Moment::PreDelete) + hooks::count(&all, Moment::PostDelete);
    // Nothing to run: the objects are collected like all others.
    if number == 0 {
        return Ok(None);
    }
    let now = session.ctx.clock.now();
    // Noted before the first hook, so that the time of the deletion is known to a later process.
    if base.status != Status::Uninstalling {
        {
            let mut state = entry.state.lock();
            state
                .record
                .set_status(Status::Uninstalling, "Deletion in progress (or silently failed)");
            state.record.set_deleted(&now.to_string());
        }
        entry.write(session).await?;
    }
    let waits = run(session, &entry, Moment::PreDelete).await?;
    let secret = |known: &Known| {
        let name = vela_apply::object::name(&known.secret);
        ResourceKey::new("v1", "Secret", &at.cluster, &at.namespace, name)
    };
    let mut own: HashSet<ResourceKey> = known.iter().map(secret).collect();
    for moment in [Moment::PreDelete, Moment::PostDelete] {
        for mut object in hooks::objects_of(session, &entry, moment) {
            // One that may not be had is not made either; of the others it is known now whether they have a namespace.
            let _ = session.permit(&mut object, &at.cluster).await;
            own.insert(ResourceKey::of(&object, &at.cluster));
        }
    }
    Ok(Some((Going { entry, keys: keys.clone(), own }, waits)))
}

/// Runs hooks of a deletion as far as they come; when their time is over, they count as failed.
async fn run(
    session: &mut Session<'_>,
    entry: &Entry,
    moment: Moment,
) -> Result<Waits, ReleaseError> {
    let waits = hooks::run(session, entry, moment).await;
    let is_late = {
        let state = entry.state.lock();
        let began: Option<Timestamp> = state.record.deleted().parse().ok();
        let hooks = state.record.hooks().len();
        let most =
            // The time of each hook, and of one more.
            entry.timeout.saturating_mul(u32::try_from(hooks).unwrap_or(1).saturating_add(1));
        let age = began.map(|began| session.ctx.clock.now().duration_since(began).unsigned_abs());
        // Without a readable time it is over: nothing is held up for ever.
        age.is_none_or(|age| age > most)
    };
    match waits {
        Ok(None) => Ok(None),
        _ if is_late => {
            let text = messages::hooks_late(moment.word());
            let events = &session.ctx.events;
            events.emit(&session.about, Severity::Warning, event::RELEASE_HOOK, &text, "");
            hooks::give_up(session, entry, moment).await?;
            Ok(None)
        }
        other => other,
    }
}

/// The record whose hooks run: the one whose removal began, else the newest that was deployed, else the newest; if it is ours.
fn base<'k>(known: &'k [Known], owner: &Owner) -> Option<&'k Known> {
    let ours = || known.iter().rev().filter(|it| Owner::of(&it.secret).as_ref() == Some(owner));
    let of = |status: Status| ours().find(|it| it.status == status);
    of(Status::Uninstalling).or_else(|| of(Status::Deployed)).or_else(|| ours().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_release_a_record_belongs_to() {
        let record = |kind: &str, name: &str| Record {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: "n".to_owned(),
            component: "c".to_owned(),
            ..Record::default()
        };
        let of = |kind, name| release_of(&record(kind, name)).map(|release| release.name);
        assert_eq!(of("Secret", "sh.helm.release.v1.web.v3").as_deref(), Some("web"));
        assert_eq!(of("Secret", "sh.helm.release.v1.a.v1.v12").as_deref(), Some("a.v1"));
        for (kind, name) in [
            ("Secret", "web"),
            ("Secret", "sh.helm.release.v1.web"),
            ("Secret", "sh.helm.release.v1.web.vx"),
            ("ConfigMap", "sh.helm.release.v1.web.v3"),
        ] {
            assert_eq!(of(kind, name), None, "{name}");
        }
    }
}
