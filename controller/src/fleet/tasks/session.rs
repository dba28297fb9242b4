//! The Lease of this member: renewed as long as it works, deleted when everything was handed over.

use std::sync::Arc;

use kube::api::{DeleteParams, PostParams, Preconditions};
use tokio::time::timeout;
use tracing::{error, info, warn};
use vela_api::names::annotation;

use super::{Runner, is_absent, is_conflict, seconds};
use crate::fleet::{clock, lease};

impl Runner {
    pub(super) async fn renew(&self) {
        loop {
            let _ = timeout(self.options.pace.retry_period, self.fleet.filled.notified()).await;
            if self.fleet.lost.is_cancelled() {
                return;
            }
            // So that a second renewal fits before the permit of the last one ends.
            let limit = self.options.pace.renew_deadline / 2;
            match timeout(limit, self.renew_once()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    self.lose("another member took the Lease of this member");
                    return;
                }
                Ok(Err(error)) => warn!(%error, "the Lease of this member cannot be renewed"),
                Err(_) => warn!("the Lease of this member cannot be renewed in time"),
            }
            self.fleet.changed.notify_one();
        }
    }

    /// What this member held belongs to others: the process ends.
    pub(super) fn lose(&self, why: &'static str) {
        error!(member = &*self.id, "{why}");
        // First the permits, then the notice: no write passes the fence once the loss is known.
        self.fleet.state.lock().member.lost();
        self.fleet.lost.cancel();
    }

    /// One renewal; `false`: it is not this member's Lease any more.
    async fn renew_once(&self) -> kube::Result<bool> {
        let mut own = self.own.lock().await;
        // A conflict with itself is settled by reading once; a second one is left to the next
        // renewal.
        for _ in 0..2 {
            let started = clock::now();
            let notes = self.notes();
            let duration = seconds(self.options.pace.lease_duration);
            let next = lease::renewed(own.clone(), &self.id, duration, &notes);
            match self.api.replace(&self.name, &PostParams::default(), &next).await {
                Ok(written) => {
                    *own = written;
                    self.fleet.state.lock().member.renewed(started, clock::now());
                    return Ok(true);
                }
                // A note was added, the answer to a renewal was lost, or somebody took it.
                Err(error) if is_conflict(&error) || is_absent(&error) => {
                    let Some(found) = self.api.get_opt(&self.name).await? else {
                        return Ok(false);
                    };
                    if lease::holder(&found) != &*self.id {
                        return Ok(false);
                    }
                    *own = found;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// What others read on the Lease, and people.
    fn notes(&self) -> Vec<(&'static str, String)> {
        let backlog = self.context.queue.load().backlog;
        let (filled, ready) = {
            let state = self.fleet.state.lock();
            (state.filled, state.ready)
        };
        let working = self.fleet.working.load();
        vec![
            (annotation::FLEET_CACHED, filled.to_text()),
            (annotation::FLEET_READY, ready.to_string()),
            (annotation::FLEET_BUCKETS, working.len().to_string()),
            (annotation::FLEET_WORKED, working.to_text()),
            (annotation::FLEET_APPLICATIONS, self.fleet.metrics.applications().to_string()),
            (annotation::FLEET_BACKLOG, format!("{:.1}", backlog.as_secs_f64())),
            (annotation::FLEET_POOL, self.fleet.pools.own.clone()),
            (annotation::FLEET_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        ]
    }

    /// Empties a Lease that the fleet elects on.
    async fn release(&self, name: &str) {
        let Ok(Some(root)) = self.api.get_opt(name).await else { return };
        let holder = lease::holder(&root);
        if !holder.is_empty() && holder == lease::annotation_of(&root, annotation::FLEET_MEMBER) {
            let empty = lease::emptied(root, None);
            let _ = self.api.replace(name, &PostParams::default(), &empty).await;
        }
    }

    /// Everything was given away: the own Lease goes, and the root Lease with the last member.
    pub(super) async fn end(&self) {
        // The root Lease belongs to the fleet; given back while others work, it would let a foreign
        // controller in.
        let is_last = {
            let state = self.fleet.state.lock();
            state.member.table().is_none_or(|table| table.members.is_empty())
        };
        if is_last {
            let shards: Vec<Arc<str>> =
                self.fleet.state.lock().shards.keys().map(Arc::clone).collect();
            for shard in shards {
                self.release(&self.root_name(Some(&shard))).await;
            }
            self.release(&self.options.names.root).await;
        }
        // Held to the end: a renewal that came now would find its Lease gone and report a loss.
        let own = self.own.lock().await;
        let only = Preconditions { uid: own.metadata.uid.clone(), resource_version: None };
        let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let _ = self.api.delete(&self.name, &options).await;
        info!(member = &*self.id, "left the fleet");
        self.fleet.over.cancel();
        self.stop.cancel();
    }
}
