//! Writes the table of buckets: the first member with a change writes it.

use std::sync::Arc;
use std::time::Duration;

use kube::api::PostParams;
use tokio::time::sleep;
use tracing::{error, warn};
use vela_cluster::Error;
use vela_shard::{MAX_POOLS, Table};

use super::{PAUSE, Runner, is_conflict, is_refusal};
use crate::fleet::{clock, lease};

/// How long after the first slot that is drained the table is written: slots that follow soon go with it.
const BATCH: Duration = Duration::from_millis(30);

impl Runner {
    /// Writes the table if there is something to change. Whether it did.
    pub(super) async fn table(&self) -> bool {
        let first = {
            let now = clock::now();
            let (mut seen, state) = (self.seen.lock(), self.fleet.state.lock());
            // Whoever joins shall be able to write at once: that the fleet is here is known from two lists.
            let is_in = state.member.table().is_some_and(|table| table.index(&self.id).is_some());
            if !is_in && state.root.is_awaited(now) {
                return false;
            }
            let was_refused = std::mem::replace(&mut seen.is_refused, state.member.is_refused());
            if seen.is_refused && !was_refused {
                let pool = &**state.member.pool();
                error!(
                    pool,
                    limit = MAX_POOLS,
                    "there are as many pools as there can be: this replica joins none"
                );
            }
            state.member.next_table(now)
        };
        let Some(first) = first else { return false };
        // One is enough to do what all would do, and more slots are drained soon.
        sleep(self.distance(&first).max(BATCH)).await;
        self.align();
        let started = clock::now();
        // The version and what is written over it belong together.
        let (next, before, known) = {
            let (seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
            // Asked again after the pause: another member may have written what was to be changed.
            let Some(next) = state.member.next_table(started) else { return false };
            // A slot that is given away in it is not taken up again, whatever becomes of the write,
            // until a table is read.
            (next, state.member.writing(), seen.table.clone())
        };
        let is_new = known.is_none();
        let base = known.unwrap_or_else(|| lease::new(&self.options.namespace, &self.table));
        let record = lease::with_table(base, &next, &self.id);
        let options = PostParams::default();
        let written = if is_new {
            self.api.create(&options, &record).await
        } else {
            self.api.replace(&self.table, &options, &record).await
        };
        match written {
            Ok(written) => {
                self.fleet.metrics.tables.inc();
                let (mut seen, mut state) = (self.seen.lock(), self.fleet.state.lock());
                let revision = next.revision;
                let next = Table { incarnation: lease::incarnation(&written), ..next };
                // A watch may have brought a later table before the answer came; then that one
                // stays.
                state.wrote(Arc::new(next), started, clock::now());
                if state.member.table().is_some_and(|known| known.revision == revision) {
                    seen.table = Some(written);
                }
                true
            }
            Err(error) => {
                if is_refusal(&error) {
                    // Only a certain refusal gives back what was given away; after a lost answer
                    // the table may say either.
                    self.fleet.state.lock().member.refused(before);
                }
                if !is_conflict(&error) {
                    warn!(error = %Error::from(error), "the table of shards cannot be written");
                }
                self.refresh_table().await;
                sleep(PAUSE).await;
                false
            }
        }
    }

    /// How long others come first who can do the same: by the index in the table.
    fn distance(&self, next: &Table) -> Duration {
        let state = self.fleet.state.lock();
        let Some(table) = state.member.table() else { return Duration::ZERO };
        let removes = table.members.iter().any(|member| next.index(&member.id).is_none());
        match table.index(&self.id) {
            Some(index) if removes => Duration::from_millis(100) * u32::from(index),
            _ => Duration::ZERO,
        }
    }

    async fn refresh_table(&self) {
        let started = clock::now();
        if let Ok(Some(found)) = self.api.get_opt(&self.table).await {
            self.take_in_table(found, Some(started));
        }
    }
}
