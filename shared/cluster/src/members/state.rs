//! The state of a member, from what became of requests to it. Pure: time is a value.
//!
//! A state other than those of a member that works is closed: requests of Applications end at once, and only the probe goes
//! out. The first answer to it opens it again.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It was not asked yet.
    Unknown,
    /// It answers.
    Connected,
    /// It answers late, or says too often that it has too much to do.
    Degraded,
    /// It does not answer.
    Disconnected,
    /// It does not take our credential, or does not let it act for others.
    CredentialRefused,
    /// Its Secret cannot be used.
    Invalid,
    /// Another cluster has its name now.
    Replaced,
}

impl State {
    /// All of them, for metrics.
    pub const ALL: [Self; 7] = [
        Self::Unknown,
        Self::Connected,
        Self::Degraded,
        Self::Disconnected,
        Self::CredentialRefused,
        Self::Invalid,
        Self::Replaced,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Connected => "Connected",
            Self::Degraded => "Degraded",
            Self::Disconnected => "Disconnected",
            Self::CredentialRefused => "CredentialRefused",
            Self::Invalid => "Invalid",
            Self::Replaced => "Replaced",
        }
    }

    /// Whether requests of Applications may go out.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Connected | Self::Degraded)
    }
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer of the API server, with its code and how long it took.
    Answer(u16, Duration),
    /// The credential, or its right to impersonate, was refused: why.
    Refused(String),
    /// No answer of an API server: why, and whether it was waited for in vain.
    Nothing(String, bool),
}

impl Heard {
    /// No answer in time. Applications quote it as long as it is so: it names neither the request, which may be another tenant's, nor
    /// how long was waited, so that it does not change from probe to probe.
    #[must_use]
    pub fn silence() -> Self {
        Self::Nothing("no answer in time".to_owned(), true)
    }
}

/// Transport failures in a row after which a member counts as disconnected,
const FAILURES: u32 = 3;
/// if they lasted so long.
const LASTING: SignedDuration = SignedDuration::from_secs(2);
/// Without any answer for so long it counts as disconnected, however few requests there were.
const DISCONNECTED_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// Answers that are looked at for slowness.
const WINDOW: usize = 20;
/// A median above it is slow.
const SLOW: Duration = Duration::from_secs(2);
/// How long a slow member must be well before it counts as well.
const RECOVERY: SignedDuration = SignedDuration::from_secs(60);
/// The longest pause between probes of a member that does not answer, and the pause where the credential is refused.
const MAX_PROBE_PAUSE: Duration = Duration::from_secs(30);
/// The pause between probes of a member that nobody else asks anything: with a few watches, which begin again every five minutes, 240
/// requests an hour.
const IDLE_PROBE: Duration = Duration::from_secs(17);

/// One of the last answers.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Duration,
    late: bool,
    busy: bool,
}

/// What a member is like.
#[derive(Clone, Debug)]
pub struct Health {
    state: State,
    since: Timestamp,
    why: String,
    failures: u32,
    /// When the first of the failures in a row happened.
    failing_since: Option<Timestamp>,
    last_answer: Option<Timestamp>,
    probes: u32,
    window: VecDeque<Sample>,
    /// Since when a degraded member is well.
    well_since: Option<Timestamp>,
    /// Why a newer credential is not used. The member is degraded as long as that is so.
    newer_refused: Option<String>,
}

impl Health {
    /// Of a member that was not asked yet.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: State::Unknown,
            since: now,
            why: "not asked yet".to_owned(),
            failures: 0,
            failing_since: None,
            last_answer: None,
            probes: 0,
            window: VecDeque::new(),
            well_since: None,
            newer_refused: None,
        }
    }

    /// What the answers and probes until now add up to.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when it is so.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Why, empty if all is well.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Takes in what became of a request. Returns whether the state changed.
    pub fn hear(&mut self, heard: Heard, now: Timestamp) -> bool {
        // Nothing that is heard mends a Secret, or makes another cluster the one that was meant.
        if matches!(self.state, State::Invalid | State::Replaced) {
            return false;
        }
        match heard {
            Heard::Answer(code, time) => {
                (self.failures, self.failing_since, self.probes) = (0, None, 0);
                self.last_answer = Some(now);
                let busy = matches!(code, 429 | 500 | 503);
                self.sample(Sample { time, late: false, busy });
                self.judge(now)
            }
            Heard::Refused(why) => {
                (self.failures, self.failing_since) = (0, None);
                self.last_answer = Some(now);
                self.turn(State::CredentialRefused, why, now)
            }
            Heard::Nothing(why, late) => {
                self.failures = self.failures.saturating_add(1);
                let first = *self.failing_since.get_or_insert(now);
                self.sample(Sample { time: Duration::ZERO, late, busy: false });
                let lasted = now.duration_since(first);
                let silent = self.last_answer.map_or(lasted, |last| now.duration_since(last));
                let is_over = (self.failures >= FAILURES && lasted >= LASTING)
                    || silent >= DISCONNECTED_AFTER
                    // There is nothing to lose: no request ever worked.
                    || matches!(self.state, State::Unknown | State::CredentialRefused);
                if is_over || self.state == State::Disconnected {
                    return self.turn(State::Disconnected, why, now);
                }
                self.judge(now)
            }
        }
    }

    /// The Secret cannot be used, or another cluster has the name.
    pub fn stop(&mut self, state: State, why: String, now: Timestamp) -> bool {
        self.turn(state, why, now)
    }

    /// A newer credential of the cluster is refused, so this one is still used; `None`: there is no newer one. Returns whether the
    /// state changed.
    pub fn newer_refused(&mut self, why: Option<String>, now: Timestamp) -> bool {
        if self.newer_refused == why || !self.state.is_open() {
            return false;
        }
        self.newer_refused.clone_from(&why);
        match why {
            Some(why) => self.turn(State::Degraded, why, now),
            None => self.turn(State::Connected, String::new(), now),
        }
    }

    /// Whether a newer credential is refused.
    #[must_use]
    pub fn is_newer_refused(&self) -> bool {
        self.newer_refused.is_some()
    }

    /// The name means the cluster that answers again. Returns whether it did not.
    pub(super) fn resume(&mut self, now: Timestamp) -> bool {
        if self.state != State::Replaced {
            return false;
        }
        (self.failures, self.failing_since, self.probes) = (0, None, 0);
        self.turn(State::Connected, String::new(), now)
    }

    fn turn(&mut self, state: State, why: String, now: Timestamp) -> bool {
        if self.state == state {
            self.why = why;
            return false;
        }
        (self.state, self.why, self.since, self.well_since) = (state, why, now, None);
        if !state.is_open() {
            self.window.clear();
        }
        true
    }

    fn sample(&mut self, sample: Sample) {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(sample);
    }

    /// Whether it is slow, of a member that answers. It is left when all signs are below half for a while.
    fn judge(&mut self, now: Timestamp) -> bool {
        if let Some(why) = self.newer_refused.clone() {
            return self.turn(State::Degraded, why, now);
        }
        let count =
            |which: fn(&Sample) -> bool| self.window.iter().filter(|one| which(one)).count();
        let (late, busy, all) = (count(|one| one.late), count(|one| one.busy), self.window.len());
        let mut times: Vec<Duration> =
            self.window.iter().filter(|one| !one.late).map(|one| one.time).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let is_ill = all >= WINDOW && (median > SLOW || late * 5 > all || busy * 2 > all);
        let is_well = median <= SLOW / 2 && late * 10 <= all && busy * 4 <= all;
        if self.state == State::Degraded {
            if !is_well {
                self.well_since = None;
                return false;
            }
            let since = *self.well_since.get_or_insert(now);
            if now.duration_since(since) < RECOVERY {
                return false;
            }
        } else if is_ill {
            let why = format!(
                "slow: median {}ms, {late} of {all} requests without answer in time, {busy} refused for load",
                median.as_millis()
            );
            return self.turn(State::Degraded, why, now);
        }
        if self.failures > 0 && !self.state.is_open() {
            return false;
        }
        self.turn(State::Connected, String::new(), now)
    }

    /// In how long it is to be probed; `None`: when its Secret changes. `jitter` is from 0 to 1.
    pub fn next_probe(&mut self, now: Timestamp, jitter: f64) -> Option<Duration> {
        let spread = |pause: Duration| pause.mul_f64(0.75 + 0.25 * jitter.clamp(0.0, 1.0));
        match self.state {
            State::Invalid => None,
            State::Unknown => Some(Duration::ZERO),
            // The right one may come back.
            State::CredentialRefused | State::Replaced => Some(MAX_PROBE_PAUSE),
            State::Disconnected => {
                let pause = Duration::from_secs(1_u64 << self.probes.min(5)).min(MAX_PROBE_PAUSE);
                self.probes = self.probes.saturating_add(1);
                Some(spread(pause))
            }
            State::Connected | State::Degraded if self.failures > 0 => Some(Duration::from_secs(1)),
            State::Connected | State::Degraded => {
                let age = self.last_answer.map(|last| now.duration_since(last));
                let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
                Some(IDLE_PROBE.saturating_sub(age).max(Duration::from_millis(100)))
            }
        }
    }

    /// Whether no answer came for so long.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp, time: Duration) -> bool {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.last_answer.is_none_or(|last| now.duration_since(last) >= time)
    }

    /// Whether nothing was heard of it for so long that it is asked.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.is_silent(now, IDLE_PROBE) || self.failures > 0 || !self.state.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    fn ok() -> Heard {
        Heard::Answer(200, Duration::from_millis(10))
    }

    fn nothing() -> Heard {
        Heard::Nothing("connection refused".to_owned(), false)
    }

    fn connected() -> Health {
        let mut health = Health::new(at(0));
        assert!(health.hear(ok(), at(0)));
        health
    }

    #[test]
    fn the_first_answer_connects_whatever_it_says_and_the_first_failure_disconnects() {
        for code in [200, 404, 409, 500] {
            let mut health = Health::new(at(0));
            assert!(!health.state().is_open());
            assert!(health.hear(Heard::Answer(code, Duration::ZERO), at(1)));
            assert_eq!(health.state(), State::Connected);
        }
        let mut health = Health::new(at(0));
        assert!(health.hear(nothing(), at(1)));
        assert_eq!((health.state(), health.why()), (State::Disconnected, "connection refused"));
        assert_eq!(health.since(), at(1));
        assert!(health.hear(ok(), at(9)));
        assert_eq!((health.state(), health.why()), (State::Connected, ""));
    }

    #[test]
    fn three_failures_in_a_row_over_two_seconds_disconnect() {
        for (times, ends) in [
            (vec![0, 1000, 2000], State::Disconnected),
            (vec![0, 500, 1000], State::Connected),
            (vec![0, 500, 1000, 2100], State::Disconnected),
            (vec![0, 2500], State::Connected),
            (vec![0, 31_000], State::Disconnected),
        ] {
            let mut health = connected();
            for time in &times {
                health.hear(nothing(), at(*time));
            }
            assert_eq!(health.state(), ends, "{times:?}");
        }
        let mut health = connected();
        for time in [0, 1000] {
            health.hear(nothing(), at(time));
        }
        health.hear(ok(), at(1500));
        health.hear(nothing(), at(2500));
        assert_eq!(health.state(), State::Connected);
    }

    #[test]
    fn a_refused_credential_closes_until_an_answer_to_the_probe() {
        let mut health = connected();
        assert!(health.hear(Heard::Refused("Unauthorized".into()), at(5)));
        assert_eq!(health.state(), State::CredentialRefused);
        assert!(!health.hear(Heard::Refused("Unauthorized".into()), at(6)));
        assert_eq!(health.since(), at(5));
        assert_eq!(health.next_probe(at(6), 0.0), Some(MAX_PROBE_PAUSE));
        assert!(health.hear(ok(), at(7)));
        assert_eq!(health.state(), State::Connected);
    }

    #[test]
    fn a_newer_credential_that_is_refused_degrades_until_it_is_taken_back() {
        let mut health = connected();
        assert!(health.newer_refused(Some("refused".into()), at(1)) && health.is_newer_refused());
        assert!(!health.newer_refused(Some("refused".into()), at(2)));
        for index in 0..40 {
            assert!(!health.hear(ok(), at(70_000 + index)));
        }
        assert_eq!((health.state(), health.why()), (State::Degraded, "refused"));
        assert!(health.newer_refused(None, at(80_000)) && !health.is_newer_refused());
        assert_eq!((health.state(), health.why()), (State::Connected, ""));
        // The former one is refused as well: that is what counts.
        assert!(health.newer_refused(Some("refused".into()), at(90_000)));
        assert!(health.hear(Heard::Refused("revoked".into()), at(90_001)));
        assert_eq!((health.state(), health.why()), (State::CredentialRefused, "revoked"));
        assert!(!health.newer_refused(None, at(90_002)));
        assert_eq!(health.state(), State::CredentialRefused);
    }

    #[test]
    fn what_cannot_be_used_stays_so_until_the_secret_changes() {
        for state in [State::Invalid, State::Replaced] {
            let mut health = connected();
            assert!(health.stop(state, "why".into(), at(1)));
            for heard in [ok(), nothing(), Heard::Refused(String::new())] {
                assert!(!health.hear(heard, at(100)));
            }
            assert_eq!((health.state(), health.why()), (state, "why"));
            // Whether the right one is back is asked.
            let pause = (state == State::Replaced).then_some(MAX_PROBE_PAUSE);
            assert_eq!(health.next_probe(at(100), 0.5), pause);
            assert_eq!(health.resume(at(200)), pause.is_some());
            assert_eq!(health.state().is_open(), pause.is_some());
        }
    }

    #[test]
    fn slow_late_and_busy_members_are_degraded_until_they_are_well_for_a_minute() {
        let slow = Heard::Answer(200, Duration::from_secs(3));
        let busy = Heard::Answer(429, Duration::from_millis(1));
        let late = Heard::Nothing("timeout".into(), true);
        for (bad, count) in [(slow, 20), (busy, 11), (late, 5)] {
            let mut health = connected();
            for index in 0..40_i64 {
                let ill = index % 20 < count && index >= 20;
                // Between two that time out there is an answer, or it would be disconnected.
                let heard = if ill && (count > 5 || index % 2 == 0) { bad.clone() } else { ok() };
                health.hear(heard, at(index * 10));
            }
            if count == 5 {
                // Every fourth of the last twenty at the most: just below, so one more.
                for index in 0..6_i64 {
                    health.hear(bad.clone(), at(500 + index * 20));
                    health.hear(ok(), at(510 + index * 20));
                }
            }
            assert_eq!(health.state(), State::Degraded, "{bad:?}");
            assert!(health.state().is_open());
            for index in 0..20 {
                health.hear(ok(), at(2000 + index));
            }
            assert_eq!(health.state(), State::Degraded, "{bad:?}");
            health.hear(ok(), at(70_000));
            assert_eq!(health.state(), State::Connected, "{bad:?}");
        }
    }

    #[test]
    fn probes_come_at_growing_distances_and_only_where_nothing_else_is_heard() {
        let mut health = Health::new(at(0));
        assert_eq!(health.next_probe(at(0), 1.0), Some(Duration::ZERO));
        health.hear(nothing(), at(0));
        let pauses: Vec<u64> =
            (0..7).filter_map(|_| health.next_probe(at(0), 1.0)).map(|p| p.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        health.hear(ok(), at(1000));
        assert_eq!(health.next_probe(at(1000), 0.0), Some(IDLE_PROBE));
        assert!(!health.is_due(at(2000)) && health.is_due(at(18_000)));
        health.hear(nothing(), at(2000));
        assert_eq!(health.next_probe(at(2000), 0.0), Some(Duration::from_secs(1)));
    }
}
