//! Fleets of 100,000 Applications: of four members one is killed, one more comes, one goes, and all are replaced one by one.
//! Reconciles take time, lists take as long as they do at that size, and the memory of each member is modelled.
//!
//! Edits wait no longer than promised, each Application is reconciled again and again by somebody, and no member keeps more than its
//! part. What a member is modelled to need is what replicas were measured to need (docs/performance.md).

use std::collections::{BTreeSet, VecDeque};

use vela_shard::{BUCKETS, MemberId, Slot, Table};

use super::{Counted, Kind, World};

/// How long an edit waits at most, without and with a crash.
const PLANNED: u64 = 2_000;
const CRASH: u64 = 15_000;
/// How often each Application is reconciled although nothing happened, and how much later than that it may be: a crash, and the
/// queue of those that were taken over.
const RESYNC: u64 = 300_000;
const LATE: u64 = 60_000;
/// What a reconcile takes: of an edit, and of a settled Application. Two workers have the settled ones.
const EDIT: u64 = 15;
const SETTLED: u64 = 1;
const WORKERS: u64 = 2;
/// How often settled ones are counted off, and everything is measured.
const SCAN: u64 = 100;
const MEASURED: u64 = 1_000;

/// Bytes of a process with its first Application; of an Application that is kept, with two revisions, a tracker and two objects; of the
/// heads of one that is not kept, and of its objects.
const BASE: u64 = 45 << 20;
const KEPT: u64 = 10_140;
const HEAD: u64 = 1_500;
/// What each of four members may need for 100,000 Applications.
const MEMORY: u64 = 700_000_000;

/// What happens, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    Kill,
    Join,
    Leave,
    /// All that are there are replaced: the next one goes when its successor is ready.
    Roll,
}

/// When, in milliseconds, and how long all of it takes.
pub(super) const BEGIN: u64 = 180_000;
const STEPS: [(u64, Step); 4] =
    [(240_000, Step::Kill), (400_000, Step::Join), (560_000, Step::Leave), (720_000, Step::Roll)];
const LENGTH: u64 = 1_500_000;

/// What there is in addition to a history of few Applications.
pub(super) struct Scale {
    /// Of each bucket, when its Applications were reconciled last, the one that waits longest first.
    reconciled: Vec<VecDeque<u64>>,
    /// Who worked on each bucket last, and how many of its Applications he has not reconciled yet.
    owners: Vec<(Option<usize>, usize)>,
    steps: VecDeque<(u64, Step)>,
    crashed: Option<u64>,
    /// Who is to be replaced still, and the members that were there before the successor of the first of them.
    rolls: VecDeque<usize>,
    awaited: Option<BTreeSet<MemberId>>,
    apps: u64,
    seen: Seen,
}

/// The extremes of a history.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    /// The most memory of a member: of at least four, and of three while the one that was killed is not back.
    memory: u64,
    memory_of_three: u64,
    /// The longest that an Application was not reconciled.
    gap: u64,
    reconciles: u64,
    /// Those of roll-outs.
    replaced: usize,
}

impl Scale {
    fn new(slots: &[Slot]) -> Self {
        let mut reconciled = vec![VecDeque::new(); BUCKETS];
        for slot in slots {
            if let Slot::Bucket(_, bucket) = slot {
                reconciled[usize::from(*bucket)].push_back(0);
            }
        }
        Self {
            reconciled,
            owners: vec![(None, 0); BUCKETS],
            steps: STEPS.into(),
            crashed: None,
            rolls: VecDeque::new(),
            awaited: None,
            apps: u64::try_from(slots.len()).unwrap(),
            seen: Seen::default(),
        }
    }

    /// A list of 100,000 Applications and what belongs to them is three gigabytes.
    fn fill(&self) -> (u64, u64) {
        let of = |most: u64| most * self.apps / 100_000;
        (of(10_000), of(60_000))
    }

    /// The memory of a member that keeps some buckets.
    fn memory(&self, kept: vela_shard::Buckets) -> u64 {
        let count = |bucket: u8| self.reconciled[usize::from(bucket)].len();
        let kept = u64::try_from(kept.iter().map(count).sum::<usize>()).unwrap();
        BASE + kept * KEPT + (self.apps - kept) * HEAD
    }
}

impl World {
    /// Whether a member begins the next edit: one after the other.
    pub(super) fn takes(&mut self, at: usize) -> bool {
        if self.scale.is_none() {
            return true;
        }
        let (now, node) = (self.now, &mut self.nodes[at]);
        if now < node.edits_until {
            return false;
        }
        node.edits_until = now + EDIT;
        true
    }

    /// An edit is served: in time, or soon after a crash.
    pub(super) fn is_in_time(&self, since: u64, named: &Slot) {
        let Some(scale) = &self.scale else { return };
        let (now, wait) = (self.now, self.now - since);
        let after_crash = scale.crashed.is_some_and(|at| now >= at && now - at <= CRASH);
        assert!(
            wait <= PLANNED || after_crash,
            "an edit for {named:?} waited {wait} ms, at {now}:\n{}",
            self.log.join("\n")
        );
    }

    /// What happens to a large fleet, what it does besides edits, and what that takes.
    pub(super) fn proceed(&mut self) {
        let Some(mut scale) = self.scale.take() else { return };
        let now = self.now;
        if let Some((_, step)) = scale.steps.pop_front_if(|(at, _)| *at <= now) {
            self.begins(&mut scale, step);
        }
        self.roll(&mut scale);
        if now.is_multiple_of(SCAN) {
            self.reconcile(&mut scale);
        }
        if now.is_multiple_of(MEASURED) && now >= STEPS[0].0 {
            self.measure(&mut scale);
        }
        self.scale = Some(scale);
    }

    /// Whether all have what they shall have, and their caches what they shall keep.
    fn are_ready(&self, table: &Table) -> bool {
        let living = || self.nodes.iter().filter(|node| node.is_alive);
        let lives = |id: &MemberId| living().any(|node| node.member.id() == id);
        table.is_settled()
            && self.leases.iter().all(|(id, lease)| !lives(id) || lease.ready >= table.epoch)
    }

    fn begins(&mut self, scale: &mut Scale, step: Step) {
        self.note(&format!("{step:?}"));
        let Some(at) = self.any() else { return };
        match step {
            Step::Kill => {
                scale.crashed = Some(self.now);
                self.ends(at, "killed");
            }
            Step::Join => self.begin("".into()),
            Step::Leave => self.leave(at),
            Step::Roll => scale.rolls = self.living().into(),
        }
    }

    /// Each is stopped when another one that was not there before is ready: it is in the table, and what all keep follows that.
    fn roll(&mut self, scale: &mut Scale) {
        let Some(next) = scale.rolls.front().copied() else { return };
        let Some((table, _)) = &self.table else { return };
        let members: BTreeSet<MemberId> =
            table.members.iter().map(|member| MemberId::clone(&member.id)).collect();
        match &scale.awaited {
            None => {
                scale.awaited = Some(members);
                self.begin("".into());
            }
            Some(before) if !members.is_subset(before) && self.are_ready(table) => {
                self.leave(next);
                scale.rolls.pop_front();
                scale.awaited = None;
                scale.seen.replaced += 1;
            }
            Some(_) => {}
        }
    }

    /// Settled Applications are reconciled: those of buckets that came first, then those whose time has come.
    fn reconcile(&mut self, scale: &mut Scale) {
        let now = self.now;
        let mut left = vec![WORKERS * SCAN / SETTLED; self.nodes.len()];
        for bucket in 0..=u8::MAX {
            let slot = Slot::Bucket("".into(), bucket);
            let works = |at: &usize| {
                let node = &self.nodes[*at];
                node.acts(now)
                    && node.is_filled(&slot)
                    && node.permitted(&slot, node.clock(now)).is_some()
            };
            let Some(owner) = (0..self.nodes.len()).find(works) else { continue };
            let apps = &mut scale.reconciled[usize::from(bucket)];
            let known = &mut scale.owners[usize::from(bucket)];
            if known.0 != Some(owner) {
                *known = (Some(owner), apps.len());
            }
            while left[owner] > 0
                && apps.front().is_some_and(|last| known.1 > 0 || now - last >= RESYNC)
            {
                apps.rotate_left(1);
                if let Some(last) = apps.back_mut() {
                    *last = now;
                }
                known.1 = known.1.saturating_sub(1);
                left[owner] -= 1;
                scale.seen.reconciles += 1;
            }
        }
    }

    fn measure(&mut self, scale: &mut Scale) {
        let now = self.now;
        let oldest = scale.reconciled.iter().filter_map(VecDeque::front).min().copied();
        scale.seen.gap = scale.seen.gap.max(oldest.map_or(0, |last| now - last));
        // The others have more until the one that was killed is back, and until their caches follow.
        let is_back = scale.crashed.is_none_or(|at| now - at >= STEPS[1].0 - STEPS[0].0 - 10_000);
        for node in self.nodes.iter().filter(|node| node.is_alive) {
            let memory = scale.memory(node.kept.buckets());
            let most =
                if is_back { &mut scale.seen.memory } else { &mut scale.seen.memory_of_three };
            *most = memory.max(*most);
        }
    }
}

/// Runs histories of large fleets, each from its seed.
fn histories(seeds: std::ops::Range<u64>, apps: usize) -> Vec<(Counted, Seen)> {
    let only = std::env::var("VELA_HISTORY").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(seeds, |seed| seed..seed + 1);
    let run = |seed| {
        let since = std::time::Instant::now();
        let mut world = World::new(seed, Kind::Scale, apps, 4);
        let scale = Scale::new(&world.slots);
        (world.fill, world.scale) = (scale.fill(), Some(scale));
        world.run(LENGTH);
        let seen = world.scale.as_ref().unwrap().seen;
        let counted = world.counted;
        eprintln!(
            "{apps} Applications, seed {seed}: {:.1} s, {counted:?}, {seen:?}",
            since.elapsed().as_secs_f64()
        );
        (counted, seen)
    };
    seeds.map(run).collect()
}

#[test]
fn a_fleet_of_a_hundred_thousand_applications_keeps_its_promises() {
    let is_long = std::env::var_os("VELA_LONG_TESTS").is_some();
    for (counted, seen) in histories(if is_long { 0..5 } else { 0..1 }, 100_000) {
        assert_eq!((counted.seizures, counted.unfilled, seen.replaced), (1, 0, 4));
        assert!(counted.longest_wait > PLANNED, "the crash was no gap");
        assert!(seen.gap <= RESYNC + LATE, "an Application was not reconciled for {} ms", seen.gap);
        assert!(seen.memory <= MEMORY, "{} bytes", seen.memory);
        assert!(seen.memory_of_three <= MEMORY / 3 * 4, "{} bytes", seen.memory_of_three);
    }
}
