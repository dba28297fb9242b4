//! The root Lease: whether the fleet as a whole may write. Go's controllers and unsharded ones of ours elect on the same Lease
//! with client-go's rules, so that the fleet and they exclude each other.
//!
//! That a member holds it says "the fleet is here" and no more. Who has the leader's duties renews it; if it does not, any other
//! member does. A member may write as long as it knows that nobody else can have taken it yet. It knows that from lists: a record
//! that differs from the one in the list before was written after that earlier list *started*.

use crate::Millis;

/// Who holds the root Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// Nobody: it was released, or there is none.
    Nobody,
    /// A member of the fleet, living or dead.
    Member,
    /// A controller that is no member.
    Foreign,
}

/// How fast things go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootTiming {
    /// How long members may write after a renewal: client-go's renew deadline.
    pub permitted: Millis,
    /// How often who leads renews it.
    pub renewed: Millis,
    /// When another member renews it instead.
    pub replaced: Millis,
}

/// A record of the root Lease, and since when it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Seen {
    stamp: u64,
    holder: Holder,
    /// How long its holder is believed.
    duration: Millis,
    /// When it was first seen.
    since: Millis,
    /// When the list that showed it last began.
    started: Millis,
}

/// What one member knows of the root Lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Root {
    timing: RootTiming,
    seen: Option<Seen>,
    until: Millis,
}

impl Root {
    /// Nothing is known, and nothing may be written.
    #[must_use]
    pub const fn new(timing: RootTiming) -> Self {
        Self { timing, seen: None, until: 0 }
    }

    /// A list that began at `started` was answered at `now`. `stamp` identifies the record: another one, another renewal. Of a
    /// Lease that is not there holder and duration are [`Holder::Nobody`] and 0.
    pub fn listed(
        &mut self,
        started: Millis,
        now: Millis,
        (stamp, holder, duration): (u64, Holder, Millis),
    ) {
        let before = self.seen.filter(|seen| seen.holder == Holder::Member);
        let known = self.seen.filter(|seen| seen.stamp == stamp && seen.holder == holder);
        match holder {
            Holder::Member => {
                // Written after the list before began: nobody else can take it before its duration is over.
                if let Some(before) = before.filter(|_| known.is_none()) {
                    self.until =
                        self.until.max(before.started.saturating_add(self.timing.permitted));
                }
            }
            Holder::Nobody | Holder::Foreign => self.until = 0,
        }
        let since = known.map_or(now, |seen| seen.since);
        self.seen = Some(Seen { stamp, holder, duration, since, started });
    }

    /// This member wrote the Lease: the write began at `started` and succeeded.
    pub fn wrote(&mut self, started: Millis, now: Millis, (stamp, duration): (u64, Millis)) {
        self.until = self.until.max(started.saturating_add(self.timing.permitted));
        self.seen = Some(Seen { stamp, holder: Holder::Member, duration, since: now, started });
    }

    /// How long the fleet may still write, as far as this member knows.
    #[must_use]
    pub const fn left(&self, now: Millis) -> Option<Millis> {
        match self.until.checked_sub(now) {
            None | Some(0) => None,
            left => left,
        }
    }

    /// Whether this member is to write the Lease now; `leads`: it has the leader's duties.
    #[must_use]
    pub fn is_due(&self, leads: bool, now: Millis) -> bool {
        let Some(seen) = self.seen else { return false };
        let age = now.saturating_sub(seen.since);
        match seen.holder {
            Holder::Nobody => true,
            Holder::Member => age >= if leads { self.timing.renewed } else { self.timing.replaced },
            Holder::Foreign => age >= seen.duration,
        }
    }

    /// Whether a member that is not in the table yet waits for its permit, so that it can write at once when it is given something:
    /// while the fleet renews the Lease, the second list brings the permit. Where nobody renews it, nobody who could is in the table.
    #[must_use]
    pub fn is_awaited(&self, now: Millis) -> bool {
        match self.holder() {
            None => true,
            Some(Holder::Member) => self.left(now).is_none() && !self.is_due(false, now),
            Some(Holder::Nobody | Holder::Foreign) => false,
        }
    }

    /// Who holds it, as far as is known.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        self.seen.map(|seen| seen.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: RootTiming = RootTiming { permitted: 10_000, renewed: 2_000, replaced: 3_000 };

    fn root() -> Root {
        Root::new(TIMING)
    }

    #[test]
    fn a_renewal_permits_from_the_begin_of_the_list_before() {
        let mut root = root();
        root.listed(100, 150, (1, Holder::Member, 15_000));
        assert_eq!(root.left(150), None, "it may be old");
        root.listed(2_100, 2_150, (1, Holder::Member, 15_000));
        assert_eq!(root.left(2_150), None, "nothing was renewed");
        root.listed(4_100, 4_150, (2, Holder::Member, 15_000));
        assert_eq!(root.left(4_150), Some(2_100 + 10_000 - 4_150));
        assert_eq!(root.left(12_100), None);
        root.wrote(5_000, 5_100, (3, 15_000));
        assert_eq!(root.left(5_100), Some(9_900));
    }

    #[test]
    fn another_holder_ends_everything_at_once() {
        for holder in [Holder::Foreign, Holder::Nobody] {
            let mut root = root();
            root.wrote(0, 10, (1, 15_000));
            root.listed(2_000, 2_010, (2, holder, 15_000));
            assert_eq!(root.left(2_010), None);
            // A member has it again: who had it in between is not known from one list.
            root.listed(4_000, 4_010, (3, Holder::Member, 15_000));
            assert_eq!(root.left(4_010), None);
            root.listed(6_000, 6_010, (4, Holder::Member, 15_000));
            assert_eq!(root.left(6_010), Some(7_990));
        }
    }

    #[test]
    fn whoever_joins_waits_only_while_somebody_renews() {
        let mut root = root();
        assert!(root.is_awaited(0), "nothing was read yet");
        root.listed(0, 10, (1, Holder::Member, 15_000));
        assert!(root.is_awaited(2_000));
        assert!(!root.is_awaited(3_010), "all that could renew it are gone");
        root.listed(4_000, 4_010, (2, Holder::Member, 15_000));
        assert!(!root.is_awaited(4_020), "it may write at once");
        for holder in [Holder::Nobody, Holder::Foreign] {
            root.listed(6_000, 6_010, (3, holder, 15_000));
            assert!(!root.is_awaited(6_020), "{holder:?}");
        }
    }

    #[test]
    fn who_writes_it_and_when() {
        let mut root = root();
        assert!(!root.is_due(true, 60_000), "nothing was read yet");
        root.listed(0, 0, (1, Holder::Member, 15_000));
        for (leads, now, due) in
            [(true, 1_999, false), (true, 2_000, true), (false, 2_999, false), (false, 3_000, true)]
        {
            assert_eq!(root.is_due(leads, now), due, "{leads} {now}");
        }
        root.listed(0, 1_000, (2, Holder::Foreign, 15_000));
        assert!(!root.is_due(true, 15_999) && root.is_due(false, 16_000), "client-go's rule");
        root.listed(0, 0, (0, Holder::Nobody, 0));
        assert!(root.is_due(false, 0));
    }
}
