//! How long hand-overs take. The member that gives a bucket times its half, the one that takes it the other half: clocks of two
//! machines are never compared.

use std::collections::BTreeMap;

use vela_shard::{Member, Millis, Slot, Table};

use crate::metrics::TakeReason;

/// A bucket that came to this member from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) reason: TakeReason,
    /// When this member saw that it was given, or the last renewal of the owner that died.
    pub(super) since: Millis,
}

/// The buckets that come to a member from others by a table that it is about to take in. What nobody held comes from nobody.
pub(super) fn arrivals(member: &Member, next: &Table, now: Millis) -> BTreeMap<Slot, Arrival> {
    let Some(table) = member.table() else { return BTreeMap::new() };
    let arrival = |slot: &Slot| {
        // Whoever worked on the Applications of a pool that comes held the buckets of the default pool.
        let before = table.holder(&table.resolve(slot)).filter(|holder| *holder != member.id())?;
        let is_leaving = |entry: &vela_shard::Entry| entry.id == *before && entry.weight == 0;
        let is_planned = next.index(before).is_some() || table.members.iter().any(is_leaving);
        Some(if is_planned {
            Arrival { reason: TakeReason::Planned, since: now }
        } else {
            let since = member.last_renewal(before).unwrap_or(now);
            Arrival { reason: TakeReason::Crash, since }
        })
    };
    let buckets = next.held_by(member.id()).filter(|slot| *slot != Slot::Lead);
    buckets.filter_map(|slot| arrival(&slot).map(|arrival| (slot, arrival))).collect()
}
