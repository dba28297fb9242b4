//! Fair scheduling: a pure queue of jobs by group (a namespace), for the threads of the [`pool`](crate::pool).
//!
//! Groups take turns, this many jobs of one do not hold up one of another, and none has all threads at once. A group whose jobs
//! ran long lately is heavy: its jobs wait for those of the others, and heavy groups together leave one thread free. What a
//! group did is forgotten by half every [`HALF_LIFE`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who a job belongs to. That of the empty name stands for nobody in particular: it is never heavy, and may have all threads.
pub type Group = Arc<str>;

/// A job as short as this holds nobody up, however many there are: it does not count.
const SHORT: Duration = Duration::from_millis(100);
/// A group that ran longer than this beyond short jobs is heavy.
const HEAVY: f64 = 1.0;
/// How fast it is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Groups that are remembered without a job: beyond it what is hardly used is forgotten at once.
const MAX_IDLE: usize = 1024;

/// What is known of a group.
#[derive(Debug)]
struct GroupState<J> {
    is_unnamed: bool,
    waiting: VecDeque<J>,
    /// When its jobs that run began.
    running: Vec<Instant>,
    /// Seconds beyond short jobs, as of `since`.
    used: f64,
    since: Instant,
    /// The turn in which it was served last.
    turn: u64,
}

impl<J> GroupState<J> {
    /// Seconds beyond short jobs, those that run included.
    fn used(&self, now: Instant) -> f64 {
        let halves =
            now.saturating_duration_since(self.since).as_secs_f64() / HALF_LIFE.as_secs_f64();
        let running =
            self.running.iter().map(|started| long(now.saturating_duration_since(*started)));
        self.used * (-halves).exp2() + running.sum::<f64>()
    }

    fn is_heavy(&self, now: Instant) -> bool {
        !self.is_unnamed && self.used(now) > HEAVY
    }
}

fn long(took: Duration) -> f64 {
    took.saturating_sub(SHORT).as_secs_f64()
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Fair<J> {
    threads: usize,
    groups: HashMap<Group, GroupState<J>>,
    /// Jobs of all groups that wait.
    waiting: usize,
    turn: u64,
}

impl<J> Fair<J> {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, groups: HashMap::new(), waiting: 0, turn: 0 }
    }

    /// Adds a job.
    pub(crate) fn push(&mut self, group: &Group, job: J, now: Instant) {
        self.known(group, now).waiting.push_back(job);
        self.waiting += 1;
    }

    fn known(&mut self, group: &Group, now: Instant) -> &mut GroupState<J> {
        // One that comes back after others has waited longer than they: its turn is the oldest there is.
        self.groups.entry(Arc::clone(group)).or_insert_with(|| GroupState {
            is_unnamed: group.is_empty(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            used: 0.0,
            since: now,
            turn: 0,
        })
    }

    /// The job to run now, if there is one that may; [`Fair::done`] must follow.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(Group, J)> {
        if self.waiting == 0 {
            return None;
        }
        let heavy_runs: usize = self
            .groups
            .values()
            .filter(|known| !known.running.is_empty() && known.is_heavy(now))
            .map(|known| known.running.len())
            .sum();
        let most = self.threads.saturating_sub(1).max(1);
        let waiting = self.groups.iter().filter(|(_, known)| !known.waiting.is_empty());
        let (_, _, group) = waiting
            .filter(|(_, known)| known.is_unnamed || known.running.len() < most)
            .map(|(group, known)| (known.is_heavy(now), known.turn, group))
            .filter(|(heavy, ..)| !heavy || heavy_runs < most)
            .min()?;
        let group = Arc::clone(group);
        self.turn += 1;
        let turn = self.turn;
        let known = self.known(&group, now);
        let job = known.waiting.pop_front()?;
        known.running.push(now);
        known.turn = turn;
        self.waiting = self.waiting.saturating_sub(1);
        Some((group, job))
    }

    /// A job that began at a time is over.
    pub(crate) fn done(&mut self, group: &Group, started: Instant, now: Instant) {
        let idle = {
            let known = self.known(group, now);
            if let Some(at) = known.running.iter().position(|at| *at == started) {
                known.running.swap_remove(at);
            }
            // What still runs is not part of it: it counts from its begin when it is over.
            let others = std::mem::take(&mut known.running);
            known.used = known.used(now) + long(now.saturating_duration_since(started));
            known.running = others;
            known.since = now;
            known.waiting.is_empty() && known.running.is_empty()
        };
        if idle && self.groups.len() > MAX_IDLE {
            self.groups.retain(|_, known| {
                !known.waiting.is_empty() || !known.running.is_empty() || known.used(now) > 0.1
            });
        }
    }

    /// Forgets all jobs that wait.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.waiting = 0;
    }

    /// Whether no job waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that run jobs of known lengths; returns when each job began, in milliseconds.
    struct Play {
        fair: Fair<(&'static str, u64)>,
        start: Instant,
        now: Instant,
        running: Vec<(Instant, Group, Instant)>,
        started: Vec<(&'static str, u64)>,
    }

    impl Play {
        fn new(threads: usize) -> Self {
            let start = Instant::now();
            Self {
                fair: Fair::new(threads),
                start,
                now: start,
                running: Vec::new(),
                started: Vec::new(),
            }
        }

        fn push(&mut self, group: &str, name: &'static str, length: u64) {
            self.fair.push(&group.into(), (name, length), self.now);
        }

        fn fill(&mut self) {
            while self.running.len() < self.fair.threads {
                let Some((group, (name, length))) = self.fair.take(self.now) else { return };
                let at = self.now.duration_since(self.start).as_millis();
                self.started.push((name, u64::try_from(at).unwrap()));
                self.running.push((self.now + Duration::from_millis(length), group, self.now));
            }
        }

        /// Runs on for a time.
        fn run(&mut self, millis: u64) {
            let until = self.now + Duration::from_millis(millis);
            loop {
                self.fill();
                let next = self.running.iter().map(|(end, ..)| *end).min();
                let Some(end) = next.filter(|end| *end <= until) else { break };
                self.now = end;
                let at = self.running.iter().position(|(other, ..)| *other == end).unwrap();
                let (_, group, started) = self.running.swap_remove(at);
                self.fair.done(&group, started, end);
            }
            self.now = until;
        }

        fn starts(&self, name: &str) -> Vec<u64> {
            self.started.iter().filter(|(of, _)| *of == name).map(|(_, at)| *at).collect()
        }
    }

    #[test]
    fn groups_take_turns() {
        let mut play = Play::new(1);
        for _ in 0..3 {
            play.push("a", "a", 10);
        }
        play.push("b", "b", 10);
        play.push("c", "c", 10);
        play.run(1000);
        assert_eq!(play.starts("a"), [0, 30, 40]);
        assert_eq!((play.starts("b"), play.starts("c")), (vec![10], vec![20]));
        assert!(play.fair.is_empty());
    }

    #[test]
    fn many_short_jobs_use_all_threads_but_one() {
        let mut play = Play::new(3);
        for _ in 0..400 {
            play.push("a", "a", 20);
            play.push("", "nobody", 20);
        }
        play.run(10_000);
        assert_eq!(play.starts("a").last(), play.starts("nobody").last());
        for _ in 0..400 {
            play.push("a", "alone", 20);
        }
        play.run(10_000);
        assert_eq!(play.starts("alone").last(), Some(&(10_000 + 20 * 199)));
    }

    #[test]
    fn who_runs_long_leaves_a_thread_to_the_others() {
        let mut play = Play::new(2);
        for _ in 0..8 {
            play.push("hostile", "long", 10_000);
        }
        for _ in 0..25 {
            play.push("other", "short", 5);
            let now = u64::try_from(play.now.duration_since(play.start).as_millis()).unwrap();
            play.run(1000);
            assert_eq!(play.starts("short").last(), Some(&now), "{:?}", play.started);
        }
        // They go on, one at a time.
        assert_eq!(play.starts("long"), [0, 10_000, 20_000]);
    }

    #[test]
    fn heavy_groups_leave_one_thread_together_and_are_forgiven() {
        let mut play = Play::new(3);
        for group in ["x", "y", "z"] {
            for _ in 0..3 {
                play.push(group, "long", 5000);
            }
        }
        play.run(6000);
        play.push("light", "light", 5);
        play.run(100);
        assert_eq!(play.starts("light"), [6000]);
        play.run(60_000);
        assert_eq!(play.starts("long").len(), 9);
        assert!(play.fair.is_empty());
        play.run(120_000);
        assert!(!play.fair.groups.values().any(|known| known.is_heavy(play.now)));
    }

    #[test]
    fn one_thread_serves_everybody() {
        let mut play = Play::new(1);
        play.push("hostile", "long", 5000);
        play.push("hostile", "long", 5000);
        play.run(10);
        play.push("other", "other", 5);
        play.run(20_000);
        assert_eq!((play.starts("long"), play.starts("other")), (vec![0, 5005], vec![5000]));
    }

    #[test]
    fn what_is_not_used_is_forgotten() {
        let mut play = Play::new(4);
        for number in 0..3000 {
            play.push(&format!("g{number}"), "a", 1);
        }
        play.run(10_000);
        assert!(play.fair.groups.len() <= MAX_IDLE + 1, "{}", play.fair.groups.len());
    }
}
