//! Applications of a cluster that is back, or that cannot be reached any more: woken a few at a time, so that neither the cluster nor
//! the workers nor the own API server get all of them at once: the next ones once those before have a worker, and not more than some
//! at a time. What cannot wait comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use vela_cluster::members::{Member, State};

use super::Clusters;
use crate::queue::{Key, Standing};

/// How often some are woken: spread over time they keep nobody waiting for all of them.
const PACE: Duration = Duration::from_millis(200);
/// Applications of one cluster that are woken each time in the first second.
const AT_FIRST: usize = 1;
/// The most of one cluster that may be worked on at a time. An attempt that waits for a slow cluster holds no worker, and what it has to
/// say in the end is written to the own API server, where others write.
const MAX_OPEN: usize = 16;
/// After so many times, a second, there are twice as many.
const DOUBLED_AFTER: u32 = 5;

/// How urgent an Application is: a deletion, a workflow that runs, everything else.
pub(crate) type Urgency<'a> = &'a (dyn Fn(&Key) -> u8 + Send + Sync);

/// Whether an Application waits for a worker or is worked on.
pub(crate) type Progress<'a> = &'a (dyn Fn(&Key) -> Option<Standing> + Send + Sync);

/// What waits to be woken for one cluster.
#[derive(Debug)]
struct Returned {
    apps: BTreeSet<Key>,
    /// Those that were woken and are not done.
    woken: Vec<Key>,
    at_once: usize,
    /// How often that many were woken.
    turns: u32,
}

/// What waits to be woken.
#[derive(Debug, Default)]
pub(super) struct Returns {
    waiting: Mutex<BTreeMap<String, Returned>>,
    news: Notify,
    /// Somebody wakes them.
    paced: AtomicBool,
}

impl Returns {
    /// Takes in the Applications of a cluster whose state changed. Returns whether somebody wakes them.
    pub(super) fn put(&self, cluster: &str, apps: &BTreeSet<Key>) -> bool {
        if !self.paced.load(Ordering::Acquire) {
            return false;
        }
        if !apps.is_empty() {
            let mut waiting = self.waiting.lock();
            let new = || Returned {
                apps: BTreeSet::new(),
                woken: Vec::new(),
                at_once: AT_FIRST,
                turns: 0,
            };
            let of = waiting.entry(cluster.to_owned()).or_insert_with(new);
            of.apps.extend(apps.iter().cloned());
            self.news.notify_one();
        }
        true
    }

    /// The Applications whose turn it is. `is_well` says whether a cluster takes more than before.
    fn turn(
        &self,
        is_well: impl Fn(&str) -> bool,
        (urgency, progress): (Urgency<'_>, Progress<'_>),
    ) -> Vec<Key> {
        let mut out = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.retain(|cluster, of| {
            let mut one_waits = false;
            of.woken.retain(|app| {
                let standing = progress(app);
                one_waits |= standing == Some(Standing::Waits);
                standing.is_some()
            });
            if one_waits {
                return true;
            }
            let now = of.at_once.min(MAX_OPEN.saturating_sub(of.woken.len()));
            if now == 0 {
                return true;
            }
            let mut all: Vec<(u8, Key)> =
                std::mem::take(&mut of.apps).into_iter().map(|app| (urgency(&app), app)).collect();
            all.sort();
            let later = all.split_off(all.len().min(now));
            let woken = all.into_iter().map(|(_, app)| app);
            out.extend(woken.clone());
            of.woken.extend(woken);
            of.apps = later.into_iter().map(|(_, app)| app).collect();
            of.turns = of.turns.saturating_add(1);
            if !is_well(cluster) {
                (of.at_once, of.turns) = (AT_FIRST, 0);
            } else if of.turns == DOUBLED_AFTER {
                (of.at_once, of.turns) = ((of.at_once * 2).min(MAX_OPEN), 0);
            }
            !of.apps.is_empty()
        });
        out
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }
}

/// Whether a cluster answers well: nothing waits for its turn there. One that cannot be reached is asked nothing.
fn is_well(member: &Member) -> bool {
    member.reach().is_err() || (member.state() == State::Connected && member.waiting() == 0)
}

impl Clusters {
    /// Wakes the Applications of clusters that went away or are back, as long as this process works.
    pub(crate) async fn wake_returned(
        &self,
        of: (Urgency<'_>, Progress<'_>),
        stop: &CancellationToken,
    ) {
        let Some(on) = &self.enabled else { return };
        on.returns.paced.store(true, Ordering::Release);
        loop {
            let is_waiting = !on.returns.is_empty();
            tokio::select! {
                // A state that does not last wakes nobody: the first ones are woken after a pause, too.
                () = on.returns.news.notified(), if !is_waiting => continue,
                () = tokio::time::sleep(PACE), if is_waiting => {}
                () = stop.cancelled() => break,
            }
            let snapshot = on.members.snapshot();
            let is_well =
                |cluster: &str| snapshot.members().get(cluster).is_none_or(|it| is_well(it));
            on.returns.turn(is_well, of).iter().for_each(|app| (on.wake)(app));
        }
        on.returns.paced.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(range: std::ops::Range<usize>) -> BTreeSet<Key> {
        range.map(|n| Key::new("n", format!("{n:03}").as_str())).collect()
    }

    #[test]
    fn they_come_a_few_at_a_time_and_deletions_first() {
        let returns = Returns::default();
        // Nobody is there to wake them.
        assert!(!returns.put("edge", &apps(0..1)) && returns.is_empty());
        returns.paced.store(true, Ordering::Release);
        assert!(returns.put("edge", &apps(0..100)) && returns.put("edge", &apps(50..100)));
        let urgent = |app: &Key| u8::from(!["042", "099"].contains(&&*app.name));
        let names = |all: Vec<Key>| all.iter().map(|app| app.name.to_string()).collect::<Vec<_>>();
        let in_a_second = |is_well: bool| {
            let turn = |_| names(returns.turn(|_| is_well, (&urgent, &|_| None)));
            (0..DOUBLED_AFTER).map(turn).collect::<Vec<_>>()
        };
        assert_eq!(in_a_second(true).concat(), ["042", "099", "000", "001", "002"]);
        let counts = [true, false, true, true]
            .map(|is_well| in_a_second(is_well).iter().map(Vec::len).collect::<Vec<_>>());
        assert_eq!(counts, [[2; 5], [4, 1, 1, 1, 1], [1; 5], [2; 5]]);
        let left = std::iter::repeat_with(|| in_a_second(true).concat().len());
        assert_eq!(left.take(5).collect::<Vec<_>>(), [20, 40, 2, 0, 0]);
        assert!(returns.is_empty());
    }

    #[test]
    fn the_next_ones_come_when_those_before_have_a_worker() {
        let returns = Returns::default();
        returns.paced.store(true, Ordering::Release);
        returns.put("edge", &apps(0..3));
        returns.put("other", &apps(10..12));
        let turn = |busy: &[&str]| {
            let waits = |app: &Key| busy.contains(&&*app.name).then_some(Standing::Waits);
            let all = returns.turn(|_| true, (&|_| 0, &waits));
            all.iter().map(|app| app.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(turn(&[]), ["000", "010"]);
        assert_eq!(turn(&["000"]), ["011"]);
        assert_eq!(turn(&["000", "011"]), Vec::<String>::new());
        assert_eq!(turn(&["011"]), ["001"]);
        assert_eq!(turn(&[]), ["002"]);
        assert!(returns.is_empty());
    }
    #[test]
    fn only_so_many_are_worked_on_at_a_time() {
        let returns = Returns::default();
        returns.paced.store(true, Ordering::Release);
        returns.put("edge", &apps(0..100));
        let turn = |done: &str| {
            let runs = |app: &Key| (&*app.name >= done).then_some(Standing::IsWorkedOn);
            returns.turn(|_| true, (&|_| 0, &runs)).len()
        };
        assert_eq!((0..50).map(|_| turn("000")).sum::<usize>(), MAX_OPEN);
        assert_eq!(
            [turn("003"), turn("003"), turn("010"), turn("010"), turn("010")],
            [3, 0, 4, 3, 0]
        );
    }
}
