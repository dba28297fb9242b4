//! Observes the Leases: lists all of them, and watches the table, so that a hand-over is noticed immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, WatchEvent, WatchParams};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};
use vela_api::names::annotation;
use vela_cluster::Error;
use vela_shard::Holder;

use super::{PAUSE, Runner};
use crate::fleet::{clock, lease};

/// How often Leases are listed.
const LIST_PERIOD: Duration = Duration::from_secs(2);
/// Every so many lists Applications are counted and dead members forgotten.
const COUNT_EVERY: u32 = 5;

impl Runner {
    pub(super) async fn list(&self) {
        let mut round = 0_u32;
        loop {
            let started = clock::now();
            // No version: the answer is at least as new as the begin of the request.
            // Without a limit a connection that hangs would keep this member from seeing others
            // die.
            match timeout(LIST_PERIOD * 2, self.api.list(&ListParams::default())).await {
                Ok(Ok(list)) => {
                    let version = list.metadata.resource_version.unwrap_or_default();
                    self.take_in(started, list.items, version);
                }
                Ok(Err(error)) => warn!(error = %Error::from(error), "Leases cannot be listed"),
                Err(_) => warn!("Leases cannot be listed in time"),
            }
            self.fleet.changed.notify_one();
            round = round.wrapping_add(1);
            if round.is_multiple_of(COUNT_EVERY) {
                self.count();
                self.report().await;
                self.sweep().await;
            }
            sleep(LIST_PERIOD).await;
        }
    }

    fn take_in(&self, started: u64, leases: Vec<Lease>, version: String) {
        let now = clock::now();
        let names = &self.options.names;
        let (mut members, mut roots, mut table) = (Vec::new(), BTreeMap::new(), None);
        for found in leases {
            match lease::name(&found) {
                name if name == self.table => table = Some(found),
                name if name == names.root || names.shard_of(name).is_some() => {
                    roots.insert(name.to_owned(), found);
                }
                _ if lease::observed(&self.options.names, &found).is_some() => members.push(found),
                _ => {}
            }
        }
        let observed: Vec<_> = members
            .iter()
            .filter_map(|found| lease::observed(&self.options.names, found))
            .collect();
        {
            let mut state = self.fleet.state.lock();
            let before = state.root.holder();
            state.root.listed(started, now, lease::root(roots.get(&names.root)));
            for (shard, known) in &mut state.shards {
                known.listed(started, now, lease::root(roots.get(&names.shard(shard))));
            }
            state.listed =
                roots.keys().filter_map(|name| names.shard_of(name)).map(Arc::from).collect();
            if state.root.holder() == Some(Holder::Foreign) && before != Some(Holder::Foreign) {
                warn!(
                    lease = self.options.names.root,
                    "a controller outside of the fleet holds the Lease"
                );
            }
            // Judged by the own clock from the first sight of a stamp: clocks of nodes are never
            // compared.
            state.member.observe(&observed, now);
            if table.is_none() {
                state.member.read_nothing(now);
            }
        }
        self.inherit(&members);
        let mut seen = self.seen.lock();
        (seen.members, seen.roots, seen.version) = (members, roots, version);
        if table.is_none() {
            seen.table = None;
        }
        drop(seen);
        if let Some(table) = table {
            self.take_in_table(table, Some(started));
        }
    }

    /// What members were at when they died is known to all: an Application kills two replicas, not one after the other. A member that
    /// is started again in the same Pod has no dead Lease: its record has what its predecessor died over.
    fn inherit(&self, members: &[Lease]) {
        let mut heirs = self.heirs.lock();
        let known = heirs.take();
        let mut found: BTreeSet<String> = BTreeSet::new();
        for lease in members {
            let Some(observed) = lease::observed(&self.options.names, lease) else { continue };
            let by = lease::annotation_of(lease, annotation::FLEET_SEIZED_BY);
            let text = lease::annotation_of(lease, annotation::IN_FLIGHT);
            if text.is_empty() || (observed.seized && by.is_empty()) {
                continue;
            }
            let life = format!("{}/{}", lease::identity(lease), observed.seized);
            let is_known = known.as_ref().is_some_and(|known| known.contains(&life));
            // What the living knew before this process started, the others know from them.
            let is_over = known.is_none() && !observed.seized;
            if !is_known && !is_over {
                let living = (!observed.seized).then_some(&*observed.id);
                self.context.in_flight.inherit(text, living);
            }
            found.insert(life);
        }
        *heirs = Some(found);
    }

    pub(super) fn take_in_table(&self, found: Lease, listed: Option<u64>) {
        match lease::table(&found) {
            Ok(table) => {
                let (mut seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
                let revision = table.revision;
                state.read(Arc::new(table), listed, clock::now());
                // The version that goes with what the member knows.
                match state.member.table() {
                    Some(known) if known.revision == revision => seen.table = Some(found),
                    Some(_) => {}
                    None => seen.table = None,
                }
                seen.complaint.clear();
            }
            Err(why) => {
                let mut seen = self.seen.lock();
                let why = why.to_string();
                // Read every two seconds: said once, not with every list.
                if seen.complaint != why {
                    error!(error = why, lease = self.table, "no Application is reconciled");
                    seen.complaint = why;
                }
            }
        }
    }

    /// Watches the table: a hand-over is noticed when it happens. Lists make sure.
    pub(super) async fn watch(&self) {
        loop {
            let version = self.seen.lock().version.clone();
            if version.is_empty() {
                sleep(PAUSE).await;
                continue;
            }
            // Only this one object: a watch of all Leases would bring every renewal of every
            // member.
            let params = WatchParams::default().fields(&format!("metadata.name={}", self.table));
            match self.api.watch(&params, &version).await {
                Ok(stream) => {
                    let mut stream = std::pin::pin!(stream);
                    while let Some(event) = stream.next().await {
                        match event {
                            Ok(WatchEvent::Added(found) | WatchEvent::Modified(found)) => {
                                self.take_in_table(found, None);
                                self.fleet.changed.notify_one();
                            }
                            Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)) => {}
                            Ok(WatchEvent::Error(_)) | Err(_) => break,
                        }
                    }
                }
                Err(error) => debug!(%error, "the table of shards cannot be watched"),
            }
            // The next list brings a version that is new enough.
            sleep(LIST_PERIOD).await;
        }
    }
}
