//! What the ledger says of a cluster that is there again: how much was left behind in it, and what is to become of that.
//!
//! Objects that stopped being managed because the Secret was gone are given back to the trackers of their Applications, if the
//! same cluster comes back under its name. Of the others somebody has to decide, by an annotation of the Secret: whether they are
//! collected or forgotten. Without it nothing is deleted.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use tracing::warn;
use vela_api::names::event;
use vela_apply::Owner;
use vela_apply::tracker::Record;
use vela_cluster::members::{LeftBehind, Member};
use vela_cluster::{About, ApiError, Identity, ObjectClient, Recorder, Severity, Target};

use crate::clusters::ledger::{self, Cause, Entry};
use crate::messages;
use crate::queue::Key;

/// What is recorded of an Application, once it is read.
pub(crate) type Records = BoxFuture<'static, Result<Vec<Record>, ApiError>>;

/// What is known of Applications, also of those that other replicas have.
#[derive(Clone, Copy)]
pub(crate) struct Find<'a> {
    /// Whether there is one of the name.
    pub exists: &'a (dyn Fn(&Key) -> bool + Send + Sync),
    /// What is recorded of it.
    pub records: &'a (dyn Fn(Key) -> Records + Send + Sync),
}

/// Whether this process leads.
pub(crate) type Leads<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// What was found out of one cluster, until any of it changes; and whether as the leader.
type Found = (String, String, LeftBehind, bool);

/// What was done for clusters that are there.
#[derive(Debug, Default)]
pub(super) struct Settled {
    done: BTreeMap<String, Found>,
    said: BTreeSet<(String, String)>,
}

/// What one cluster's ledger comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    /// Entries whose Applications get them back, by Application.
    pub(super) back: BTreeMap<Key, Vec<Entry>>,
    /// Entries that are forgotten.
    pub(super) forget: Vec<Entry>,
    /// Entries whose objects are deleted first.
    pub(super) collect: Vec<Entry>,
    /// Entries of which nobody has decided.
    pub(super) left: usize,
}

/// Decides. `uid` is that of the cluster that is there now.
pub(super) fn decide(
    entries: Vec<Entry>,
    uid: &str,
    asks: LeftBehind,
    exists: impl Fn(&Key) -> bool,
) -> Decided {
    let mut decided = Decided::default();
    for entry in entries {
        let app = entry.key_of_app();
        let is_same = !uid.is_empty() && entry.cluster_uid == uid;
        match (&app, entry.cause) {
            (Some(app), Cause::Detached) if is_same && exists(app) => {
                decided.back.entry(app.clone()).or_default().push(entry);
            }
            _ if asks == LeftBehind::Forget => decided.forget.push(entry),
            // What was made in another cluster is not there.
            _ if asks == LeftBehind::Collect && is_same => decided.collect.push(entry),
            _ => decided.left = decided.left.saturating_add(1),
        }
    }
    decided
}

/// The cluster of the control plane: where the Secrets of members and their ledgers are.
pub(super) struct Hub<'a> {
    pub(super) io: &'a ObjectClient,
    pub(super) namespace: &'a str,
    pub(super) events: &'a Recorder,
    pub(super) find: Find<'a>,
    /// Whether this process decides of what goes back to no Application.
    pub(super) leads: bool,
}

impl Settled {
    /// Reads the ledger of a member if anything about that is new, and does what is to be done. Returns what goes back; `None` if nothing
    /// is new.
    ///
    /// # Errors
    /// An API server's answer: it is done again later.
    pub(super) async fn settle(
        &mut self,
        name: &str,
        member: &Member,
        hub: &Hub<'_>,
    ) -> Result<Option<BTreeMap<Key, Vec<Entry>>>, ApiError> {
        let uid = member.identified().uid.unwrap_or_default();
        let Ok((there, _)) = member.reach() else { return Ok(None) };
        let asks = member.cluster.left_behind;
        let found = (uid.clone(), member.cluster.secret_uid.clone(), asks, hub.leads);
        if self.done.get(name) == Some(&found) {
            return Ok(None);
        }
        let entries = ledger::read(hub.io, hub.namespace, name).await?;
        let decided = decide(entries, &uid, asks, hub.find.exists);
        if !hub.leads {
            self.done.insert(name.to_owned(), found);
            return Ok(Some(decided.back));
        }
        if decided.left > 0 && self.said.insert((name.to_owned(), uid)) {
            let about = About {
                api_version: "v1".to_owned(),
                kind: "Secret".to_owned(),
                namespace: hub.namespace.to_owned(),
                name: name.to_owned(),
                uid: member.cluster.secret_uid.clone(),
                version: String::new(),
            };
            let text = messages::left_behind_found(name, decided.left);
            hub.events.emit(&about, Severity::Warning, event::LEFT_BEHIND_FOUND, &text, "");
        }
        let mut ended = decided.forget;
        for entry in decided.collect {
            match collect(&entry, there, hub.find).await {
                Ok(true) => ended.push(entry),
                Ok(false) => {}
                // The others go on; this one is tried again when the cluster comes back.
                Err(error) => warn!(%error, cluster = name, "an object that was left behind stays"),
            }
        }
        ledger::take(hub.io, hub.namespace, name, &ended).await?;
        self.done.insert(name.to_owned(), found);
        Ok(Some(decided.back))
    }

    /// Clusters that are not there any more are read again when they are.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.done.retain(|name, _| is_there(name));
        self.said.retain(|(name, _)| is_there(name));
    }
}

/// Deletes an object that was left behind, if it is still that Application's and nothing records it again. Returns whether nothing
/// is left to do for it.
async fn collect(entry: &Entry, there: &ObjectClient, find: Find<'_>) -> Result<bool, ApiError> {
    let Some(app) = entry.key_of_app() else { return Ok(true) };
    let same = |record: &Record| {
        record.kind == entry.kind
            && record.namespace == entry.namespace
            && record.name == entry.name
    };
    if (find.records)(app.clone()).await?.iter().any(same) {
        return Ok(true);
    }
    let own = Identity::default();
    let target = Target {
        api_version: &entry.api_version,
        kind: &entry.kind,
        namespace: &entry.namespace,
        name: &entry.name,
    };
    let object = match there.get(&target, &own).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(true),
        Err(error) => return Err(error),
    };
    let owner = Owner { namespace: app.namespace.clone(), name: app.name.clone() };
    if Owner::of(&object).as_ref() != Some(&owner) {
        return Ok(true);
    }
    let uid = vela_apply::object::str_at(&object, &["metadata", "uid"]);
    Ok(there.delete(&target, uid, None, &own).await?.is_done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_what_was_left_behind() {
        let entry = |app: &str, uid: &str, cause| Entry {
            app: app.to_owned(),
            cluster_uid: uid.to_owned(),
            name: format!("{app}-{uid}"),
            ..Entry::of("", &Record::default(), cause, "")
        };
        let all = || {
            vec![
                entry("n/there", "1", Cause::Detached),
                entry("n/gone", "1", Cause::Detached),
                entry("n/there", "1", Cause::Stripped),
                entry("n/there", "2", Cause::Detached),
                entry("odd", "1", Cause::Forgotten),
                entry("n/there", "4", Cause::Replaced),
                entry("n/gone", "4", Cause::Replaced),
            ]
        };
        for (asks, uid, expected) in [
            (LeftBehind::Keep, "1", (1, 0, 0, 6)),
            (LeftBehind::Forget, "1", (1, 6, 0, 0)),
            (LeftBehind::Collect, "1", (1, 0, 3, 3)),
            // Nobody knows which cluster it is.
            (LeftBehind::Collect, "", (0, 0, 0, 7)),
            (LeftBehind::Keep, "3", (0, 0, 0, 7)),
            // The one that was replaced is back: what it has may be wanted, and no tracker says so until a run has.
            (LeftBehind::Keep, "4", (0, 0, 0, 7)),
            (LeftBehind::Collect, "4", (0, 0, 2, 5)),
        ] {
            let decided = decide(all(), uid, asks, |app| app.name == "there");
            let back = decided.back.values().map(Vec::len).sum::<usize>();
            let counts = (back, decided.forget.len(), decided.collect.len(), decided.left);
            assert_eq!(counts, expected, "{asks:?} {uid}");
        }
    }
}
