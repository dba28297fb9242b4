//! Applications that the fleet leaves alone say so: on purpose those of a shard that another controller works on, and those whose
//! shard has no replica; and those that nobody works on although somebody should (`unowned`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tracing::warn;
use vela_api::names::event;
use vela_cluster::Stored as _;
use vela_shard::{Holder, bucket_of, has_lease, pool_of};

use super::Runner;
use crate::application::lifecycle::failure;
use crate::cached::Cached;
use crate::events::Severity;
use crate::fleet::lease;
use crate::fleet::state::MAX_SHARDS;
use crate::messages;

/// How often an event is repeated, in seconds.
const EVENT_PERIOD: i64 = 3_600;

impl Runner {
    /// Emits the events, and writes the conditions.
    pub(super) async fn report(&self) {
        self.name_unowned();
        let foreign = self.foreign();
        let deserted = self.deserted();
        let working = self.fleet.working.load_full();
        let is_leading = self.fleet.is_leading();
        if foreign.is_empty() && deserted.is_none() && !working.is_full {
            return;
        }
        for app in self.context.apps.all() {
            let (key, shard) = (app.key(), &*app.outline.shard);
            let is_here = working.has(&app.outline.pool, bucket_of(&key.namespace, &key.name));
            if let Some(holder) = foreign.get(shard).filter(|_| is_here) {
                self.warn(&app, event::FOREIGN_SHARD, &messages::foreign_shard(shard, holder));
            } else if is_here
                && has_lease(shard)
                && !working.shards.contains_key(shard)
                && working.is_full
            {
                self.warn(
                    &app,
                    event::TOO_MANY_SHARDS,
                    &messages::too_many_shards(shard, MAX_SHARDS),
                );
            }
            // Nobody works on it, so whoever has the leader's duties reports that.
            let is_deserted = deserted
                .as_ref()
                .is_some_and(|staffed| !shard.is_empty() && !staffed.contains(pool_of(shard)));
            if is_leading && is_deserted {
                let message = messages::no_shard(shard);
                self.warn(&app, event::NO_SHARD, &message);
                let work = failure::report_no_shard(&self.context, &key, &message);
                if let Some(Err(error)) = self.fleet.lead(work).await {
                    warn!(%error, key = %key, "the condition could not be written");
                }
            }
        }
    }

    /// Once an hour.
    pub(super) fn warn(&self, app: &Cached, reason: &str, message: &str) {
        let hour = Timestamp::now().as_second().div_euclid(EVENT_PERIOD).to_string();
        self.context.events.emit(&app.about(), Severity::Warning, reason, message, &hour);
    }

    /// The shards whose Leases controllers outside of the fleet hold, with those.
    fn foreign(&self) -> BTreeMap<String, String> {
        let seen = self.seen.lock();
        let held = |(name, found): (&String, &_)| {
            let shard = self.options.names.shard_of(name)?;
            (lease::root(Some(found)).1 == Holder::Foreign)
                .then(|| (shard.to_owned(), lease::holder(found).to_owned()))
        };
        seen.roots.iter().filter_map(held).collect()
    }

    /// Where Applications wait for the replicas of their shard: the pools that have some.
    fn deserted(&self) -> Option<BTreeSet<String>> {
        let pools = &self.fleet.pools;
        if !pools.are_on || pools.fallback.is_some() {
            return None;
        }
        let state = self.fleet.state.lock();
        let table = state.member.table()?;
        let staffed = table.pools.keys().filter(|pool| pool.is_empty() || table.is_staffed(pool));
        Some(staffed.map(ToString::to_string).collect())
    }
}
