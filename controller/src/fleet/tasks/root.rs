//! The root Lease, on which every controller elects, and those of shards, on which Go's shards do: the fleet holds them, so that none
//! but its members works.

use std::sync::Arc;

use futures::future::join_all;
use kube::api::PostParams;
use tracing::warn;
use vela_cluster::Error;
use vela_shard::{Millis, Root, Slot};

use super::{Runner, is_conflict, seconds};
use crate::fleet::state::State;
use crate::fleet::{clock, lease};

/// What is known of one of these Leases.
fn root_of<'s>(state: &'s mut State, shard: Option<&str>) -> Option<&'s mut Root> {
    match shard {
        None => Some(&mut state.root),
        Some(shard) => state.shards.get_mut(shard),
    }
}

impl Runner {
    /// Renews the root Lease and those of shards, or takes them.
    pub(super) async fn roots(&self) {
        let shards: Vec<Arc<str>> = self.fleet.state.lock().shards.keys().map(Arc::clone).collect();
        let shards = shards.iter().map(|shard| self.root(Some(shard)));
        // At a time, since each may take as long as a request does.
        tokio::join!(self.root(None), join_all(shards));
    }

    /// The name of the Lease.
    pub(super) fn root_name(&self, shard: Option<&str>) -> String {
        let names = &self.options.names;
        shard.map_or_else(|| names.root.clone(), |shard| names.shard(shard))
    }

    fn is_due(&self, shard: Option<&str>, now: Millis) -> bool {
        let mut state = self.fleet.state.lock();
        let leads = state.member.permitted(&Slot::Lead, now).is_some();
        let is_member = state.member.table().is_some_and(|table| table.index(&self.id).is_some());
        // A member without a valid session may be judged dead already; the Lease must not live on
        // through it.
        is_member
            && state.member.session(now).is_some()
            && root_of(&mut state, shard).is_some_and(|root| root.is_due(leads, now))
    }

    async fn root(&self, shard: Option<&str>) {
        let now = clock::now();
        if !self.is_due(shard, now) {
            return;
        }
        let name = self.root_name(shard);
        // Over the version that was listed: of two members that find it due one gets a conflict.
        let known = self.seen.lock().roots.get(&name).cloned();
        let is_new = known.is_none();
        let base = known.unwrap_or_else(|| lease::new(&self.options.namespace, &name));
        let next = lease::renewed(base, &self.id, seconds(self.options.root_duration), &[]);
        let options = PostParams::default();
        let written = if is_new {
            self.api.create(&options, &next).await
        } else {
            self.api.replace(&name, &options, &next).await
        };
        match written {
            Ok(written) => {
                let (stamp, _, duration) = lease::root(Some(&written));
                if let Some(root) = root_of(&mut self.fleet.state.lock(), shard) {
                    root.wrote(now, clock::now(), (stamp, duration));
                }
                self.seen.lock().roots.insert(name, written);
                // Whoever waited for it may be worked on now.
                self.fleet.changed.notify_one();
            }
            // Somebody else was quicker: the next list has the answer.
            Err(error) => {
                if !is_conflict(&error) {
                    warn!(error = %Error::from(error), lease = name, "a Lease that the fleet elects on cannot be renewed");
                }
                self.refresh_root(shard, &name).await;
            }
        }
    }

    async fn refresh_root(&self, shard: Option<&str>, name: &str) {
        let started = clock::now();
        let Ok(found) = self.api.get_opt(name).await else { return };
        if let Some(root) = root_of(&mut self.fleet.state.lock(), shard) {
            root.listed(started, clock::now(), lease::root(found.as_ref()));
        }
        let mut seen = self.seen.lock();
        match found {
            Some(found) => drop(seen.roots.insert(name.to_owned(), found)),
            None => drop(seen.roots.remove(name)),
        }
    }
}
