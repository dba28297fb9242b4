//! The order of the keys that wait for a worker. Pure; the clock and the workers are the queue's.
//!
//! *Classes* share the workers by weight (stride scheduling): an edit comes before thousands of resyncs, and no class waits for
//! ever. Within a class *namespaces* share by the time that their keys take (start-time fair queueing): what one namespace has
//! waiting delays nobody else, and whoever was idle saved up nothing. Within a class and a namespace keys are first in, first out.
//! No operation takes longer than the logarithm of what waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use vela_cluster::Key;

use super::weights::Weights;

/// Which keys a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// All, in turn.
    All,
    /// What somebody edited: it does not wait for the end of other work.
    Edits,
    /// What somebody edited, and what follows from that: as long as the caches are not filled.
    Urgent,
}

/// Among how many workers, and by which weights, namespaces share.
#[derive(Debug, Clone)]
pub struct Shares {
    /// Workers of the queue.
    pub workers: usize,
    /// Weights of namespaces.
    pub weights: Weights,
}

impl Default for Shares {
    /// As many workers as there may be, and equal weights.
    fn default() -> Self {
        Self { workers: usize::MAX, weights: Weights::default() }
    }
}

/// How urgent a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Somebody edited or deleted it.
    Edit,
    /// A rollout or a deletion in flight continues.
    Progress,
    /// Something that belongs to a settled one changed.
    Drift,
    /// An attempt failed, and its pause is over.
    Retry,
    /// A resync, a first reconcile, or a change of what it uses.
    Scan,
}

impl Class {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 5] = [Self::Edit, Self::Progress, Self::Drift, Self::Retry, Self::Scan];

    /// Its share of the workers while all classes wait.
    const fn weight(self) -> u64 {
        match self {
            Self::Edit => 16,
            Self::Progress => 8,
            Self::Drift => 4,
            Self::Retry => 2,
            Self::Scan => 1,
        }
    }

    /// As metrics name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Progress => "progress",
            Self::Drift => "drift",
            Self::Retry => "retry",
            Self::Scan => "scan",
        }
    }
}

/// Something for each class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerClass<T> {
    edit: T,
    progress: T,
    drift: T,
    retry: T,
    scan: T,
}

impl<T> PerClass<T> {
    /// What a function says of each.
    pub fn of(mut one: impl FnMut(Class) -> T) -> Self {
        Self {
            edit: one(Class::Edit),
            progress: one(Class::Progress),
            drift: one(Class::Drift),
            retry: one(Class::Retry),
            scan: one(Class::Scan),
        }
    }

    /// That of a class.
    pub const fn get(&self, class: Class) -> &T {
        match class {
            Class::Edit => &self.edit,
            Class::Progress => &self.progress,
            Class::Drift => &self.drift,
            Class::Retry => &self.retry,
            Class::Scan => &self.scan,
        }
    }

    const fn get_mut(&mut self, class: Class) -> &mut T {
        match class {
            Class::Edit => &mut self.edit,
            Class::Progress => &mut self.progress,
            Class::Drift => &mut self.drift,
            Class::Retry => &mut self.retry,
            Class::Scan => &mut self.scan,
        }
    }
}

/// What a class pays for a turn: divided by its weight.
const STRIDE: u64 = 16;
/// What an attempt costs at least, in microseconds: turns without a cost would not be shared.
const LEAST_COST: u64 = 1_000;

/// Where a key waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    class: Class,
    number: u64,
    since: Instant,
}

/// A key whose turn came. [`Turns::done`] must follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) class: Class,
    /// Since when it waited.
    pub(super) since: Instant,
    /// What its namespace paid in advance.
    charge: u64,
}

/// The order.
#[derive(Debug, Default)]
pub(super) struct Turns {
    shares: Shares,
    waiting: HashMap<Key, Waiting>,
    classes: PerClass<Flows>,
    /// How many keys of each namespace are worked on, where there are any.
    running: HashMap<Arc<str>, usize>,
    /// How many scans are worked on.
    scans: usize,
    /// How far the class was that was served last.
    clock: u64,
    /// The last number that was given to a key.
    number: u64,
}

impl Turns {
    pub(super) fn new(shares: Shares) -> Self {
        Self { shares, ..Self::default() }
    }

    /// Keys that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Since when a key waits.
    pub(super) fn since(&self, key: &Key) -> Option<Instant> {
        self.waiting.get(key).map(|front| front.since)
    }

    /// The weight of a namespace in a class, among all of them.
    pub(super) fn weight(&self, class: Class, namespace: &str) -> u64 {
        class.weight().saturating_mul(self.shares.weights.of(namespace))
    }

    /// Keys that wait in a class.
    pub(super) fn depth(&self, class: Class) -> usize {
        self.classes.get(class).len
    }

    /// How long the workers need for what waits, if each key takes as long as those of its class took lately.
    pub(super) fn backlog(&self) -> Duration {
        let cost = |class: &Class| {
            let flows = self.classes.get(*class);
            flows.cost.saturating_mul(u64::try_from(flows.len).unwrap_or(u64::MAX))
        };
        let all = Class::ALL.iter().map(cost).fold(0, u64::saturating_add);
        let workers = u64::try_from(self.shares.workers).unwrap_or(u64::MAX);
        Duration::from_micros(all / workers.max(1))
    }

    /// What waits counts as if it began to wait now.
    pub(super) fn restart_waiting(&mut self, now: Instant) {
        self.waiting.values_mut().for_each(|front| front.since = now);
    }

    /// A key waits. One that waits already moves up to a more urgent class, and never down. Returns whether it did not wait yet.
    pub(super) fn push(&mut self, key: Key, class: Class, now: Instant) -> bool {
        let known = self.waiting.get(&key).copied();
        if let Some(front) = known {
            // A later event of less urgency must not put off an edit.
            if front.class <= class {
                return false;
            }
            self.classes.get_mut(front.class).remove(&key.namespace, front.number);
        }
        self.number = self.number.saturating_add(1);
        // The time it waited goes on: a metric that began again with each event would hide a
        // starved key.
        let since = known.map_or(now, |front| front.since);
        self.waiting.insert(key.clone(), Waiting { class, number: self.number, since });
        self.classes.get_mut(class).push(key, self.number, self.clock);
        known.is_none()
    }

    /// Keys that are not to wait any more are dropped.
    pub(super) fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        let Self { waiting, classes, .. } = self;
        waiting.retain(|key, front| {
            let keeps = keep(key);
            if !keeps {
                classes.get_mut(front.class).remove(&key.namespace, front.number);
            }
            keeps
        });
    }

    /// The key whose turn it is. A namespace that has half of the workers waits for the others.
    pub(super) fn take(&mut self, kind: WorkerKind) -> Option<(Key, Taken)> {
        // The second try keeps workers busy: a share is for others only while others wait.
        self.take_from(kind, true).or_else(|| self.take_from(kind, false))
    }

    fn take_from(&mut self, kind: WorkerKind, is_shared: bool) -> Option<(Key, Taken)> {
        let mut order = match kind {
            WorkerKind::All => Class::ALL.to_vec(),
            WorkerKind::Edits => vec![Class::Edit],
            WorkerKind::Urgent => vec![Class::Edit, Class::Progress, Class::Retry],
        };
        order.retain(|class| self.may_run(*class));
        // Of classes that are as far, the most urgent comes first.
        order.sort_by_key(|class| (self.classes.get(*class).pass, *class));
        order.into_iter().find_map(|class| self.take_of(class, is_shared))
    }

    /// The last worker is not given to scans: they take as long as any other reconcile.
    fn may_run(&self, class: Class) -> bool {
        // With one worker it takes scans, too, or none would ever run.
        let most = self.shares.workers.saturating_sub(1).max(1);
        self.depth(class) > 0 && (class != Class::Scan || self.scans < most)
    }

    fn take_of(&mut self, class: Class, is_shared: bool) -> Option<(Key, Taken)> {
        let most = self.shares.workers.div_ceil(2).max(1);
        let running = &self.running;
        let may = |namespace: &str| {
            !is_shared || running.get(namespace).is_none_or(|running| *running < most)
        };
        let flows = self.classes.get_mut(class);
        let weight = |namespace: &str| self.shares.weights.of(namespace);
        let (namespace, key, charge) = flows.take(may, weight)?;
        // A class that was empty begins here when it gets a key: it saved up no turns.
        self.clock = self.clock.max(flows.pass);
        flows.pass = flows.pass.saturating_add(STRIDE / class.weight());
        let running = self.running.entry(namespace).or_default();
        *running = running.saturating_add(1);
        self.scans = self.scans.saturating_add(usize::from(class == Class::Scan));
        let since = self.waiting.remove(&key)?.since;
        Some((key, Taken { class, since, charge }))
    }

    /// The attempt at a key is over, and held its worker for so long.
    pub(super) fn done(&mut self, key: &Key, taken: &Taken, time: Duration) {
        let weight = self.shares.weights.of(&key.namespace);
        // What it took, not what it was charged at the beginning: the difference is settled now.
        let cost = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(LEAST_COST);
        self.classes.get_mut(taken.class).done(&key.namespace, taken.charge, cost, weight);
        if let Some(running) = self.running.get_mut(&*key.namespace) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.running.remove(&*key.namespace);
            }
        }
        self.scans = self.scans.saturating_sub(usize::from(taken.class == Class::Scan));
    }
}

/// The namespaces of one class.
#[derive(Debug, Default)]
struct Flows {
    /// How far the class is.
    pass: u64,
    /// The virtual time: where the namespace was that was served last.
    now: u64,
    /// Keys that wait.
    len: usize,
    /// What its keys cost lately, in microseconds: the moving mean.
    cost: u64,
    flows: HashMap<Arc<str>, Flow>,
    /// The namespaces with keys that wait, by where they are and by how long their first key waits.
    order: BTreeSet<(u64, u64, Arc<str>)>,
    /// Namespaces that neither wait nor run and had more than their share, by where they are.
    ahead: BTreeSet<(u64, Arc<str>)>,
}

/// One namespace in one class.
#[derive(Debug)]
struct Flow {
    /// Where it is in virtual time.
    at: u64,
    /// The mean cost of its keys.
    cost: u64,
    running: usize,
    keys: BTreeMap<u64, Key>,
}

impl Flow {
    fn head(&self, namespace: &Arc<str>) -> Option<(u64, u64, Arc<str>)> {
        let (number, _) = self.keys.first_key_value()?;
        Some((self.at, *number, Arc::clone(namespace)))
    }
}

impl Flows {
    fn push(&mut self, key: Key, number: u64, clock: u64) {
        // It was idle: from its old pass it would have all turns until it has caught up.
        if self.order.is_empty() {
            self.pass = self.pass.max(clock);
        }
        let namespace = match self.flows.get_key_value(&*key.namespace) {
            Some((namespace, _)) => Arc::clone(namespace),
            None => Arc::from(&*key.namespace),
        };
        let now = self.now;
        let new = || Flow { at: now, cost: LEAST_COST, running: 0, keys: BTreeMap::new() };
        let flow = self.flows.entry(Arc::clone(&namespace)).or_insert_with(new);
        if flow.keys.is_empty() {
            self.ahead.remove(&(flow.at, Arc::clone(&namespace)));
            // The same for a namespace; one that is ahead of its share stays there.
            flow.at = flow.at.max(now);
        }
        let is_first = flow.keys.is_empty();
        flow.keys.insert(number, key);
        self.len = self.len.saturating_add(1);
        if let Some(front) = flow.head(&namespace).filter(|_| is_first) {
            self.order.insert(front);
        }
    }

    fn remove(&mut self, namespace: &str, number: u64) {
        self.change(namespace, |flow| flow.keys.remove(&number).is_some());
        self.forget();
    }

    /// Takes the first key of the first namespace that may have a turn. The namespace pays what its keys usually cost.
    fn take(
        &mut self,
        may: impl Fn(&str) -> bool,
        weight: impl Fn(&str) -> u64,
    ) -> Option<(Arc<str>, Key, u64)> {
        // Only those are passed over that have half of the workers.
        let (at, _, namespace) = self.order.iter().find(|(.., namespace)| may(namespace))?.clone();
        self.now = self.now.max(at);
        let (mut key, mut charge) = (None, 0);
        self.change(&namespace, |flow| {
            key = flow.keys.pop_first().map(|(_, key)| key);
            charge = flow.cost / weight(&namespace).max(1);
            flow.at = flow.at.saturating_add(charge);
            flow.running = flow.running.saturating_add(1);
            key.is_some()
        });
        self.forget();
        Some((namespace, key?, charge))
    }

    /// A key was worked on: what was paid in advance becomes what it cost.
    fn done(&mut self, namespace: &str, charge: u64, cost: u64, weight: u64) {
        self.cost = if self.cost == 0 {
            cost
        } else {
            self.cost.saturating_mul(7).saturating_add(cost) / 8
        };
        self.change(namespace, |flow| {
            let cost_of_weight = cost / weight.max(1);
            flow.at = flow.at.saturating_add(cost_of_weight).saturating_sub(charge);
            flow.cost = flow.cost.saturating_mul(3).saturating_add(cost) / 4;
            flow.running = flow.running.saturating_sub(1);
            false
        });
        self.forget();
    }

    /// Changes a namespace, and puts it where it belongs then. The change says whether it took a key away.
    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut Flow) -> bool) {
        let Some((name, _)) = self.flows.get_key_value(namespace) else { return };
        let name = Arc::clone(name);
        let Some(flow) = self.flows.get_mut(namespace) else { return };
        if let Some(front) = flow.head(&name) {
            self.order.remove(&front);
        }
        let took = change(flow);
        self.len = self.len.saturating_sub(usize::from(took));
        match flow.head(&name) {
            Some(front) => {
                self.order.insert(front);
            }
            None if flow.running > 0 => {}
            None => {
                self.ahead.insert((flow.at, name));
            }
        }
    }

    /// Forgets namespaces that are idle and owe nothing any more; while nobody waits nobody owes anything.
    fn forget(&mut self) {
        while let Some((at, _)) = self.ahead.first() {
            if *at > self.now && !self.order.is_empty() {
                return;
            }
            if let Some((_, namespace)) = self.ahead.pop_first() {
                self.flows.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Weights;
    use super::*;

    fn key(namespace: &str, name: usize) -> Key {
        Key::new(namespace, name.to_string())
    }

    fn turns(workers: usize, weights: &str) -> Turns {
        Turns::new(Shares { workers, weights: Weights::parse(weights).unwrap() })
    }

    /// Takes a key and is done with it after this many milliseconds.
    fn turn(turns: &mut Turns, cost: impl Fn(&Key) -> u64) -> Option<(Key, Class)> {
        let (key, taken) = turns.take(WorkerKind::All)?;
        turns.done(&key, &taken, Duration::from_millis(cost(&key)));
        Some((key, taken.class))
    }

    /// How many of this many turns each namespace has.
    fn shares(
        turns: &mut Turns,
        count: usize,
        cost: impl Fn(&Key) -> u64,
    ) -> BTreeMap<String, usize> {
        let mut out = BTreeMap::new();
        for _ in 0..count {
            let (key, _) = turn(turns, &cost).unwrap();
            *out.entry(key.namespace).or_default() += 1;
        }
        out
    }

    #[tokio::test(start_paused = true)]
    async fn the_backlog_is_what_waits_at_the_pace_of_its_class() {
        let (mut turns, now) = (turns(4, ""), Instant::now());
        let push = |turns: &mut Turns, class, count| {
            for name in 0..count {
                turns.push(key("n", name), class, now);
            }
        };
        push(&mut turns, Class::Scan, 100);
        assert_eq!(turns.backlog(), Duration::ZERO, "nobody knows how long they take");
        turn(&mut turns, |_| 40).unwrap();
        // 99 of 40 ms, by four workers.
        assert_eq!(turns.backlog(), Duration::from_millis(990));
        // An edit takes as long as edits do.
        turns.push(key("m", 0), Class::Edit, now);
        turn(&mut turns, |_| 400).unwrap();
        assert_eq!(turns.backlog(), Duration::from_millis(990));
        turns.push(key("m", 0), Class::Edit, now);
        assert_eq!(turns.backlog(), Duration::from_millis(1_090));
        // It follows what they take now, in some turns.
        for _ in 0..50 {
            turn(&mut turns, |_| 8).unwrap();
        }
        let left = turns.backlog();
        assert!((100..110).contains(&left.as_millis()), "{left:?}");
        while turn(&mut turns, |_| 8).is_some() {}
        assert_eq!(turns.backlog(), Duration::ZERO);
    }

    fn is_clean(turns: &Turns) -> bool {
        turns.is_empty()
            && turns.running.is_empty()
            && turns.scans == 0
            && Class::ALL.iter().all(|class| {
                let flows = turns.classes.get(*class);
                flows.len == 0 && flows.flows.is_empty() && flows.ahead.is_empty()
            })
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_one_namespace_delay_nobody_else() {
        let (mut turns, now) = (turns(4, ""), Instant::now());
        for class in Class::ALL {
            for name in 0..2_000 {
                turns.push(key("busy", name + 2_000 * class as usize), class, now);
            }
        }
        for _ in 0..100 {
            turn(&mut turns, |_| 15).unwrap();
        }
        turns.push(key("calm", 0), Class::Edit, now);
        let (first, _) = turn(&mut turns, |_| 15).unwrap();
        let (second, _) = turn(&mut turns, |_| 15).unwrap();
        assert!([first, second].contains(&key("calm", 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn classes_share_by_weight_and_the_urgent_one_comes_first() {
        let (mut turns, now) = (turns(usize::MAX, ""), Instant::now());
        for class in Class::ALL {
            for name in 0..100 {
                turns.push(key("n", name + 100 * class as usize), class, now);
            }
        }
        let mut counts = PerClass::of(|_| 0);
        for round in 0..62 {
            let (_, class) = turn(&mut turns, |_| 1).unwrap();
            assert!(round > 0 || class == Class::Edit);
            *counts.get_mut(class) += 1;
        }
        assert_eq!(Class::ALL.map(|class| *counts.get(class)), [32, 16, 8, 4, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_share_by_what_they_cost_and_by_their_weight() {
        let now = Instant::now();
        let filled = |weights: &str| {
            let mut turns = turns(usize::MAX, weights);
            for name in 0..1_000 {
                for namespace in ["a", "b", "c"] {
                    turns.push(key(namespace, name), Class::Progress, now);
                }
            }
            turns
        };
        let close = |shares: &BTreeMap<String, usize>, expected: [usize; 3]| {
            let all = shares.values().zip(expected);
            assert!(all.clone().all(|(is, want)| is.abs_diff(want) <= 4), "{shares:?}");
        };
        close(&shares(&mut filled(""), 300, |_| 7), [100, 100, 100]);
        close(&shares(&mut filled("a=4,*=1"), 300, |_| 7), [200, 50, 50]);
        // Whoever takes five times as long has a fifth of the turns.
        let slow = |key: &Key| if key.namespace == "a" { 50 } else { 10 };
        close(&shares(&mut filled(""), 330, slow), [30, 150, 150]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_idle_has_saved_up_nothing_and_who_comes_back_still_owes() {
        let (mut turns, now) = (turns(usize::MAX, ""), Instant::now());
        for name in 0..100 {
            turns.push(key("busy", name), Class::Drift, now);
        }
        for _ in 0..50 {
            turn(&mut turns, |_| 10).unwrap();
        }
        for name in 0..50 {
            turns.push(key("late", name), Class::Drift, now);
        }
        let first = shares(&mut turns, 20, |_| 10);
        assert!(first["late"].abs_diff(10) <= 2, "{first:?}");
        // One that comes with a single long key each time has no more than the others.
        let mut turns = self::turns(usize::MAX, "");
        for name in 0..2_000 {
            turns.push(key("many", name), Class::Drift, now);
        }
        let mut served = 0;
        for round in 0..1_000 {
            turns.push(key("one", round), Class::Drift, now);
            let (key, _) =
                turn(&mut turns, |key| if key.namespace == "one" { 1_000 } else { 10 }).unwrap();
            served += usize::from(key.namespace == "one");
        }
        assert!((8..=14).contains(&served), "{served}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_namespace_has_half_of_the_workers_while_others_wait() {
        let (mut turns, now) = (turns(5, ""), Instant::now());
        for name in 0..10 {
            turns.push(key("busy", name), Class::Edit, now);
        }
        turns.push(key("long", 0), Class::Edit, now);
        turns.take(WorkerKind::All).unwrap();
        let (long, taken) = turns.take(WorkerKind::All).unwrap();
        turns.done(&long, &taken, Duration::from_secs(100));
        // It had far more than its share, and yet it is the one that nothing of is in flight.
        turns.push(key("long", 1), Class::Edit, now);
        let taken: Vec<_> = (0..4).map(|_| turns.take(WorkerKind::All).unwrap()).collect();
        let names: Vec<_> = taken.iter().map(|(key, _)| key.namespace.as_str()).collect();
        assert_eq!(names, ["busy", "busy", "long", "busy"], "nobody else waits then");
    }

    #[tokio::test(start_paused = true)]
    async fn scans_leave_a_worker_to_the_others() {
        let (mut turns, now) = (turns(3, ""), Instant::now());
        for name in 0..5 {
            turns.push(key(&name.to_string(), name), Class::Scan, now);
        }
        let (first, taken) = turns.take(WorkerKind::All).unwrap();
        turns.take(WorkerKind::All).unwrap();
        assert!(turns.take(WorkerKind::All).is_none());
        turns.push(key("n", 7), Class::Retry, now);
        assert_eq!(turns.take(WorkerKind::All).unwrap().0, key("n", 7));
        turns.done(&first, &taken, Duration::ZERO);
        assert!(turns.take(WorkerKind::All).is_some());
    }

    #[derive(Debug, Clone)]
    enum Event {
        Push(u8, u8, u8),
        Take(bool),
        Done(u8, u16),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => (0..4_u8, 0..12_u8, 0..5_u8).prop_map(|(n, k, c)| Event::Push(n, k, c)),
            3 => any::<bool>().prop_map(Event::Take),
            3 => (any::<u8>(), 0..2_000_u16).prop_map(|(which, ms)| Event::Done(which, ms)),
        ];
        proptest::collection::vec(event, 1..200)
    }

    #[test]
    fn what_is_dropped_does_not_wait_and_the_rest_is_served() {
        let mut turns = turns(4, "");
        for name in 0..6 {
            turns.push(key(if name < 3 { "a" } else { "b" }, name), Class::Scan, Instant::now());
        }
        turns.retain(|key| key.name.parse::<usize>().unwrap() % 2 == 0);
        assert_eq!((turns.len(), turns.depth(Class::Scan)), (3, 3));
        let mut served: Vec<String> =
            std::iter::from_fn(|| turn(&mut turns, |_| 1)).map(|(key, _)| key.name).collect();
        served.sort();
        assert_eq!(served, ["0", "2", "4"]);
        assert!(turns.push(key("a", 1), Class::Edit, Instant::now()), "it may wait again");
    }

    proptest! {
        /// Whatever happens in whatever order: each key that waits has its turn once, in its order, and nothing is left of it.
        #[test]
        fn each_key_has_one_turn_in_its_order(events in events(), workers in 1..5_usize) {
            let (mut turns, now) = (turns(workers, "1=3"), Instant::now());
            // The keys that wait, by class and namespace, in their order.
            let mut model: BTreeMap<(Class, String), Vec<Key>> = BTreeMap::new();
            let mut running: Vec<(Key, Taken)> = Vec::new();
            let at = |key: &Key, model: &BTreeMap<(Class, String), Vec<Key>>| {
                model.iter().find(|(_, keys)| keys.contains(key)).map(|((class, _), _)| *class)
            };
            for event in events {
                match event {
                    Event::Push(namespace, name, class) => {
                        let key = key(&namespace.to_string(), usize::from(name));
                        let class = Class::ALL[usize::from(class)];
                        let before = at(&key, &model);
                        prop_assert_eq!(turns.push(key.clone(), class, now), before.is_none());
                        if before.is_none_or(|before| class < before) {
                            model.values_mut().for_each(|keys| keys.retain(|one| *one != key));
                            model.entry((class, key.namespace.clone())).or_default().push(key);
                        }
                    }
                    Event::Take(edits) => {
                        let kind = if edits { WorkerKind::Edits } else { WorkerKind::All };
                        let taken = turns.take(kind);
                        let waits = |class: &Class| model.iter().any(|((of, _), keys)| of == class && !keys.is_empty());
                        let urgent = Class::ALL[..4].iter().any(waits);
                        let expected = if edits { waits(&Class::Edit) } else { urgent || taken.is_some() };
                        prop_assert_eq!(taken.is_some(), expected, "work waits and nobody has it");
                        if let Some((key, taken)) = taken {
                            let keys = model.get_mut(&(taken.class, key.namespace.clone())).unwrap();
                            prop_assert_eq!(keys.remove(0), key.clone());
                            running.push((key, taken));
                        }
                    }
                    Event::Done(which, ms) => if !running.is_empty() {
                        let (key, taken) = running.remove(usize::from(which) % running.len());
                        turns.done(&key, &taken, Duration::from_millis(u64::from(ms)));
                    }
                }
                let waiting: usize = model.values().map(Vec::len).sum();
                prop_assert_eq!(turns.len(), waiting);
                prop_assert_eq!(Class::ALL.map(|class| turns.depth(class)).iter().sum::<usize>(), waiting);
            }
            for (key, taken) in running {
                turns.done(&key, &taken, Duration::from_millis(3));
            }
            while turn(&mut turns, |_| 3).is_some() {}
            prop_assert!(is_clean(&turns), "{turns:?}");
        }

        /// However many others come: a key waits for this many turns at most as there are classes by weight and namespaces.
        #[test]
        fn nothing_starves(class in 0..5_usize, others in 1..6_usize, cost in 1..50_u64) {
            let (mut turns, now) = (turns(usize::MAX, ""), Instant::now());
            let mut count = 0;
            let mut refill = |turns: &mut Turns| {
                for class in Class::ALL {
                    for namespace in 0..others {
                        count += 1;
                        turns.push(key(&format!("other-{namespace}"), count), class, now);
                    }
                }
            };
            for _ in 0..20 {
                refill(&mut turns);
                turn(&mut turns, |_| cost);
            }
            let class = Class::ALL[class];
            turns.push(key("mine", 0), class, now);
            let most = (31 / class.weight() + 1) as usize * (others + 1) + 1;
            for round in 0.. {
                prop_assert!(round <= most, "{class:?}: not within {most} turns");
                refill(&mut turns);
                if turn(&mut turns, |_| cost).unwrap().0.namespace == "mine" {
                    break;
                }
            }
        }
    }
}
