//! Which controller replica works on which Application, and how that changes: decisions without I/O and without a clock.
//!
//! An Application belongs to one of [`BUCKETS`] buckets ([`bucket_of`]), and to a pool. A [`Table`] says which member *holds* each bucket, and
//! who shall have it (*wanted*, computed by [`wanted`]); it is one record, and every change of it is a compare-and-swap. A member
//! is alive while it renews a Lease of its own. [`Member`] is what one replica knows and decides: whether it may write
//! ([`Member::permitted`]), what it must stop, whom it may judge dead, and which table it writes next. [`Root`] says whether the
//! fleet as a whole may write, since Go controllers and unsharded ones elect on the same Lease. [`share`] is what a member keeps in
//! memory ([`Kept`]): what it holds or shall have, and what it would get next.
//!
//! `tests/model.rs` explores all interleavings of a few members with these same functions.

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod assign;
mod bucket;
mod member;
mod record;
mod root;
mod shard_id;
mod share;
mod table;

pub use assign::wanted;
pub use bucket::{BUCKETS, Buckets, bucket_of};
pub use member::{Member, Observed, Timing};
pub use record::{MAX_MEMBERS, PROTOCOL, RecordError};
pub use root::{Holder, Root, RootTiming};
pub use shard_id::{MASTER, has_lease, is_shard_id, pool_of};
pub use share::{Kept, share, share_of_new};
pub use table::{Entry, MAX_POOLS, MemberId, PoolName, Rows, Slot, Table};

/// A moment or a length of time, in milliseconds since an origin that the caller chooses. The clock must go on while the
/// machine is suspended.
pub type Millis = u64;

/// Until when a write may still be carried out that was sent at `now`, with `time` as its deadline, and is never answered. The API
/// server counts from when the request arrives, and by its own clock.
#[must_use]
pub const fn unanswered_until(now: Millis, time: Millis) -> Millis {
    now.saturating_add(time).saturating_add(time / 4).saturating_add(500)
}
