//! The connections of a listener: which are admitted, and which are closed at its limit.
//!
//! A newcomer is not kept out by connections that do nothing: where there is no room, one of those
//! goes, of the client who has the most. So a client who opens many takes from himself, and an API
//! server finds room however many others there are.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::limits::Limits;

/// What a connection does, those first that are missed the least; since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    /// Nothing yet: no request has come.
    NoRequestYet(Instant),
    /// It waits for the next request.
    Waits(Instant),
    /// A request is in flight.
    Works(Instant),
}

/// What is to happen for a newcomer.
#[derive(Debug, PartialEq, Eq)]
enum Verdict<K> {
    Free,
    InsteadOf(K),
    Full,
}

/// Decides for a newcomer from `peer`.
fn verdict<K: Copy + Ord>(
    open: impl Iterator<Item = (K, IpAddr, Does)> + Clone,
    peer: IpAddr,
    limits: &Limits,
) -> Verdict<K> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    let mut all = 0;
    for (_, whose, _) in open.clone() {
        *counts.entry(whose).or_default() += 1;
        all += 1;
    }
    let own = counts.get(&peer).copied().unwrap_or_default();
    let is_beyond_share = own >= limits.per_peer;
    if !is_beyond_share && all < limits.connections {
        return Verdict::Free;
    }
    // Whoever has more than the newcomer would have may even lose one that works.
    let may_go = |whose: IpAddr, does: Does| {
        let has = counts.get(&whose).copied().unwrap_or_default();
        (!is_beyond_share || whose == peer)
            && (!matches!(does, Does::Works(_)) || (whose != peer && has > own + 1))
    };
    let rank = |whose: IpAddr, does: Does| {
        let has = counts.get(&whose).copied().unwrap_or_default();
        (std::cmp::Reverse(has), does)
    };
    open.filter(|(_, whose, does)| may_go(*whose, *does))
        .min_by_key(|(key, whose, does)| (rank(*whose, *does), *key))
        .map_or(Verdict::Full, |(key, _, _)| Verdict::InsteadOf(key))
}

#[derive(Debug)]
struct Activity {
    in_flight: usize,
    has_requested: bool,
    /// Of the last change.
    since: Instant,
    /// When the header came whose end has not come.
    header: Option<Instant>,
    is_h2: bool,
}

/// One connection as the others see it.
#[derive(Debug)]
pub(super) struct Connection {
    peer: IpAddr,
    activity: Mutex<Activity>,
    /// It has to go.
    must_close: CancellationToken,
}

impl Connection {
    fn does(&self) -> Does {
        let activity = self.activity.lock();
        match (activity.in_flight, activity.has_requested) {
            (0, false) => Does::NoRequestYet(activity.since),
            (0, true) => Does::Waits(activity.since),
            _ => Does::Works(activity.since),
        }
    }

    /// Cancelled when it has to go.
    pub(super) fn must_close(&self) -> &CancellationToken {
        &self.must_close
    }

    pub(super) fn speaks_h2(&self) {
        self.activity.lock().is_h2 = true;
    }

    /// Bytes came. `true`: they are the first of a header.
    pub(super) fn heard(&self, now: Instant) -> bool {
        let mut activity = self.activity.lock();
        let is_first = !activity.is_h2 && activity.in_flight == 0 && activity.header.is_none();
        if is_first {
            activity.header = Some(now);
        }
        is_first
    }

    /// A request begins; it ends with the guard.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        let mut activity = self.activity.lock();
        activity.in_flight += 1;
        activity.has_requested = true;
        activity.since = Instant::now();
        activity.header = None;
        drop(activity);
        InFlight(Arc::clone(self))
    }

    /// Until when it may go on like this; `None` while a request is in flight.
    pub(super) fn until(&self, limits: &Limits) -> Option<Instant> {
        let activity = self.activity.lock();
        match (activity.in_flight, activity.header) {
            (0, Some(header)) => Some(header + limits.header),
            (0, None) => Some(activity.since + limits.idle),
            _ => None,
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut activity = self.0.activity.lock();
        activity.in_flight -= 1;
        activity.since = Instant::now();
    }
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    open: Mutex<Open>,
    /// Somebody left.
    left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

impl Slots {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, open: Mutex::default(), left: Notify::new() }
    }

    /// A slot for a new connection, if need be that of an idle one; `None`: all are in use.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let mut open = self.open.lock();
        let those = open.connections.iter().map(|(key, one)| (*key, one.peer, one.does()));
        match verdict(those, peer, &self.limits) {
            Verdict::Free => {}
            // It is not counted any more, though it may take a moment to notice.
            Verdict::InsteadOf(key) => {
                if let Some(other) = open.connections.remove(&key) {
                    other.must_close.cancel();
                }
            }
            Verdict::Full => return None,
        }
        let key = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            peer,
            activity: Mutex::new(Activity {
                in_flight: 0,
                has_requested: false,
                since: Instant::now(),
                header: None,
                is_h2: false,
            }),
            must_close: CancellationToken::new(),
        });
        open.connections.insert(key, Arc::clone(&connection));
        Some(Slot { slots: Arc::clone(self), key, connection })
    }

    /// Ends when no connection of HTTP/1.1 has been used for this long.
    pub(super) async fn quiet(&self, time: Duration) {
        loop {
            let left = self.left.notified();
            let Some(wait) = self.unquiet(time) else { return };
            tokio::select! {
                () = left => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// How long until it may be quiet; `None`: it is.
    fn unquiet(&self, time: Duration) -> Option<Duration> {
        let now = Instant::now();
        let open = self.open.lock();
        let each = open.connections.values().filter_map(|one| {
            let activity = one.activity.lock();
            let idle = now.saturating_duration_since(activity.since);
            match activity.in_flight {
                _ if activity.is_h2 => None,
                0 => time.checked_sub(idle).filter(|rest| !rest.is_zero()),
                _ => Some(time.max(Duration::from_millis(50))),
            }
        });
        each.max()
    }
}

/// A place among the open connections, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    key: u64,
    pub(super) connection: Arc<Connection>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.open.lock().connections.remove(&self.key);
        self.slots.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_goes_for_a_newcomer() {
        let limits = Limits { connections: 6, per_peer: 4, ..Limits::REVIEWS };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let never = |whose, since| (ip(whose), Does::NoRequestYet(at(since)));
        let waits = |whose, since| (ip(whose), Does::Waits(at(since)));
        let works = |whose, since| (ip(whose), Does::Works(at(since)));
        type Case = (&'static str, Vec<(IpAddr, Does)>, u8, Verdict<usize>);
        let cases: [Case; 9] = [
            ("nobody is there", vec![], 1, Verdict::Free),
            ("there is room", vec![works(1, 0); 3], 1, Verdict::Free),
            (
                "a client beyond its share replaces its own that waited longest",
                vec![waits(2, 0), works(1, 0), waits(1, 5), waits(1, 3), works(1, 1)],
                1,
                Verdict::InsteadOf(3),
            ),
            (
                "one that never asked goes before one that waits",
                vec![waits(1, 0), never(1, 9), waits(1, 1), waits(1, 2)],
                1,
                Verdict::InsteadOf(1),
            ),
            (
                "a client whose connections all work gets no more",
                vec![works(1, 0); 4],
                1,
                Verdict::Full,
            ),
            (
                "in a full house the client with the most gives way",
                vec![waits(2, 0), waits(3, 0), waits(1, 7), waits(1, 8), waits(1, 9), waits(1, 6)],
                4,
                Verdict::InsteadOf(5),
            ),
            (
                "even with one that works, to a client that has fewer",
                vec![works(1, 4), works(1, 3), works(1, 5), works(1, 6), works(2, 0), works(3, 0)],
                4,
                Verdict::InsteadOf(1),
            ),
            (
                "but not to one that has as many",
                vec![works(1, 0), works(1, 0), works(2, 0), works(2, 0), works(3, 0), works(3, 0)],
                1,
                Verdict::Full,
            ),
            (
                "one that waits goes before one that works, whosever it is",
                vec![works(1, 0), works(1, 0), works(2, 0), works(2, 0), works(3, 0), waits(3, 0)],
                1,
                Verdict::InsteadOf(5),
            ),
        ];
        for (what, open, newcomer, want) in cases {
            let open = open.iter().enumerate().map(|(key, (whose, does))| (key, *whose, *does));
            assert_eq!(verdict(open, ip(newcomer), &limits), want, "{what}");
        }
    }

    #[test]
    fn slots_are_given_back() {
        let slots = Arc::new(Slots::new(Limits { connections: 3, per_peer: 2, ..Limits::REVIEWS }));
        let first = slots.take(ip(1)).unwrap();
        let second = slots.take(ip(1)).unwrap();
        let third = slots.take(ip(1)).unwrap();
        assert!(first.connection.must_close().is_cancelled());
        assert!(!second.connection.must_close().is_cancelled());
        let work = [second.connection.begin(), third.connection.begin()];
        assert!(slots.take(ip(1)).is_none());
        drop(work);
        drop(second);
        assert!(slots.take(ip(1)).is_some(), "one has left");
        drop((first, third));
        assert!(slots.open.lock().connections.is_empty());
    }
}
