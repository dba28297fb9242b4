//! Decides who is set aside, from a record that survives processes. Pure.
//!
//! A process that leads notes what it is at when that takes long, and takes the note back at its end. Whoever leads next finds
//! what was in flight when its predecessor died, and counts a death for each. One that died before anything was noted makes its
//! successors cautious (`caution.rs`). After [`MAX_DEATHS`] an Application or a WorkflowRun is set aside: not reconciled until its
//! spec changes, or until [`retry_after`] has passed. A reconcile that ends takes its deaths back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::caution::CAUTIOUS;

/// Processes that die over one before it is set aside.
pub(crate) const MAX_DEATHS: u32 = 2;
/// How long it is set aside at first before it is tried once more.
const RETRY: Duration = Duration::from_secs(3600);
/// How long it is set aside at the most.
const MAX_RETRY: Duration = Duration::from_secs(24 * 3600);
/// How long a death is remembered: longer than any pause, so that the next one is not the first again.
const REMEMBERED: Duration = Duration::from_secs(2 * 24 * 3600);
/// How many are remembered: the record is one small object.
const MAX_REMEMBERED: usize = 200;

/// How long one is set aside over which so many processes died: an hour, and twice as long after each death of a retry.
pub(crate) fn retry_after(deaths: u32) -> Duration {
    let doublings = deaths.saturating_sub(MAX_DEATHS).min(8);
    (RETRY * 2_u32.pow(doublings)).min(MAX_RETRY)
}

/// What is known of one that was in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Death {
    /// How often.
    pub(crate) count: u32,
    /// At which generation.
    pub(crate) generation: i64,
    /// When it was found out last.
    pub(crate) last: Timestamp,
}

/// The record, by the names of [`super::Subject`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    /// Who leads, or died as it led; empty after an end in order.
    pub(crate) leader: String,
    /// How many leaders in a row died over something that they had not noted.
    pub(crate) unexplained: u32,
    /// What that one is at, with its generation.
    #[serde(rename = "underWay")]
    // processes of earlier versions wrote it, and read it after a rollback
    pub(crate) in_flight: BTreeMap<String, i64>,
    /// What of that was edited since the last death that is not explained, so that it cannot be the cause.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) edited: BTreeSet<String>,
    /// What was in flight at deaths.
    pub(crate) deaths: BTreeMap<String, Death>,
}

impl Record {
    /// A leader begins. Returns what was in flight when its predecessor died.
    ///
    /// A death that is explained leaves what was unexplained before: the first one that is noted is not the last one yet. What was
    /// alone in flight then is taken for the cause of one that was unexplained, too: its process was cautious, and had nothing else
    /// in hand that was likely. But what was edited in between did not cause the former: where processes are killed while
    /// Applications are edited, somebody is always in flight.
    pub(crate) fn begin(&mut self, leader: &str, now: Timestamp) -> Vec<String> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let edited = std::mem::take(&mut self.edited);
        // Its own note, read again, is no death.
        let died = !self.leader.is_empty() && self.leader != leader;
        leader.clone_into(&mut self.leader);
        let explains_two = self.unexplained > 0 && in_flight.len() == 1 && edited.is_empty();
        let deaths = if explains_two { 2 } else { 1 };
        self.unexplained = match (died, in_flight.is_empty()) {
            (false, _) => 0,
            (true, true) => self.unexplained.saturating_add(1),
            // Whoever was set aside did not do it: the cause is among those that are not noted yet.
            (true, false) if self.unexplained > 0 && self.has_other_causes(&in_flight, now) => {
                self.unexplained.saturating_add(1)
            }
            // Kept, so that the process stays cautious until it is known that the named one was the
            // cause.
            (true, false) => self.unexplained,
        };
        let mut found = Vec::new();
        for (key, generation) in in_flight.into_iter().filter(|_| died) {
            let death = Death { count: 0, generation, last: now };
            let known = self.deaths.entry(key.clone()).or_insert_with(|| death.clone());
            if known.generation != generation {
                // It was edited since: what the old spec did is not held against the new one.
                *known = death;
            }
            known.count = known.count.saturating_add(deaths);
            known.last = now;
            found.push(key);
        }
        // What was deleted is never reconciled again: only time takes its deaths
        // away.
        self.deaths.retain(|_, death| age(death, now) < REMEMBERED);
        while self.deaths.len() > MAX_REMEMBERED {
            let oldest = self.deaths.iter().min_by_key(|(_, death)| death.last);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { break };
            self.deaths.remove(&key);
        }
        found
    }

    /// Whether something else than what was in flight was set aside a short time ago.
    fn has_other_causes(&self, in_flight: &BTreeMap<String, i64>, now: Timestamp) -> bool {
        self.deaths.iter().any(|(key, death)| {
            death.count >= MAX_DEATHS && age(death, now) < CAUTIOUS && !in_flight.contains_key(key)
        })
    }

    /// Another replica died, or was started again after the death of its predecessor (`has_started`): what it was at, and what it knew of
    /// deaths, is known here from now on. Whether a death is unexplained that was unknown here.
    pub(crate) fn inherit(&mut self, mut theirs: Self, has_started: bool, now: Timestamp) -> bool {
        let unexplained = if has_started { self.unexplained } else { theirs.unexplained };
        if !has_started {
            // As its successor would read it: what it was at becomes a death of each.
            theirs.begin("", now);
        }
        for (key, death) in theirs.deaths {
            let known = self.deaths.entry(key).or_insert_with(|| death.clone());
            // The larger count and not the sum: replicas inherit from each other, and would count
            // one death twice.
            if known.generation != death.generation || known.count < death.count {
                *known = death;
            }
        }
        self.unexplained = self.unexplained.max(theirs.unexplained);
        theirs.unexplained > unexplained
    }

    /// The leader ends in order: nothing is in flight. Returns whether that is news.
    pub(crate) fn end(&mut self) -> bool {
        let is_news = !self.leader.is_empty() || !self.in_flight.is_empty();
        // An empty leader is the sign for the next one that nobody died.
        (self.leader, self.unexplained) = (String::new(), 0);
        self.in_flight.clear();
        self.edited.clear();
        is_news
    }

    /// What is in flight now, and what of that was edited since the last death. Returns whether that is news.
    pub(crate) fn note(
        &mut self,
        in_flight: BTreeMap<String, i64>,
        is_edited: impl Fn(&str, i64) -> bool,
    ) -> bool {
        let edited = in_flight.iter().filter(|(name, generation)| is_edited(name, **generation));
        self.edited = edited.map(|(name, _)| name.clone()).collect();
        let is_news = self.in_flight != in_flight;
        self.in_flight = in_flight;
        is_news
    }

    /// How long it is still set aside.
    pub(crate) fn set_aside(&self, key: &str, generation: i64, now: Timestamp) -> Option<Duration> {
        let death = self.deaths.get(key)?;
        let left = retry_after(death.count).checked_sub(age(death, now));
        let left = left.filter(|left| !left.is_zero())?;
        // One death may be chance: the node went, or another one took the memory.
        (death.count >= MAX_DEATHS && death.generation == generation).then_some(left)
    }

    /// How many are set aside.
    pub(crate) fn count_set_aside(&self, now: Timestamp) -> usize {
        let of =
            |(key, death): &(&String, &Death)| self.set_aside(key, death.generation, now).is_some();
        self.deaths.iter().filter(of).count()
    }

    /// A reconcile came to its end. Returns whether that is news.
    pub(crate) fn survived(&mut self, key: &str) -> bool {
        self.deaths.remove(key).is_some()
    }

    /// How often a process died over it.
    pub(crate) fn deaths_of(&self, key: &str) -> u32 {
        self.deaths.get(key).map_or(0, |death| death.count)
    }
}

/// How long ago; a clock that went back makes nothing older.
fn age(death: &Death, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(death.last)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing was edited.
    const NONE: fn(&str, i64) -> bool = |_, _| false;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn record(in_flight: &[(&str, i64)]) -> Record {
        let in_flight = in_flight.iter().map(|(key, of)| ((*key).to_owned(), *of)).collect();
        Record { leader: "dead".to_owned(), in_flight, ..Record::default() }
    }

    /// The next leader, with what it was at when it died, too.
    fn dies(record: &mut Record, now: i64, in_flight: &[(&str, i64)]) {
        record.begin(&format!("leader-{now}"), at(now));
        record.in_flight = self::record(in_flight).in_flight;
    }

    #[test]
    fn two_deaths_set_aside_for_an_hour_or_until_an_edit() {
        let mut record = record(&[("n/a", 1), ("n/b", 1)]);
        let is_aside = |record: &Record, key: &str, generation, now| {
            record.set_aside(key, generation, at(now)).is_some()
        };
        dies(&mut record, 0, &[("n/a", 1)]);
        assert!(!is_aside(&record, "n/a", 1, 0));
        dies(&mut record, 10, &[]);
        assert!(is_aside(&record, "n/a", 1, 10));
        assert!(!is_aside(&record, "n/b", 1, 10), "it was there once");
        assert!(!is_aside(&record, "n/a", 2, 10), "it was edited");
        assert_eq!(record.count_set_aside(at(10)), 1);
        assert!(is_aside(&record, "n/a", 1, 10 + 3599));
        assert!(!is_aside(&record, "n/a", 1, 10 + 3600), "it is tried once more");
        assert_eq!(record.count_set_aside(at(10 + 3600)), 0);
        // It kills again: set aside at once.
        record.in_flight.insert("n/a".to_owned(), 1);
        dies(&mut record, 4000, &[]);
        assert!(is_aside(&record, "n/a", 1, 4000 + 7199), "for twice as long");
        assert!(!is_aside(&record, "n/a", 1, 4000 + 7200));
        record.survived("n/a");
        assert!(!is_aside(&record, "n/a", 1, 4001));
    }

    #[test]
    fn retries_come_less_and_less_often() {
        let hours = [0, 1, 2, 3, 4, 5, 6, 7, 8, u32::MAX]
            .map(|deaths| retry_after(deaths).as_secs() / 3600);
        assert_eq!(hours, [1, 1, 1, 2, 4, 8, 16, 24, 24, 24]);
        assert!(MAX_RETRY < REMEMBERED, "a retry that kills counts on");
    }

    #[test]
    fn an_edit_begins_to_count_anew() {
        let mut record = record(&[("n/a", 1)]);
        dies(&mut record, 0, &[("n/a", 2)]);
        dies(&mut record, 1, &[("n/a", 2)]);
        assert_eq!(record.set_aside("n/a", 2, at(1)), None);
        dies(&mut record, 2, &[]);
        assert!(record.set_aside("n/a", 2, at(2)).is_some());
    }

    #[test]
    fn an_end_in_order_and_ones_own_note_are_no_deaths() {
        let mut record = record(&[("n/a", 1)]);
        assert!(record.note(BTreeMap::new(), NONE) && !record.note(BTreeMap::new(), NONE));
        assert!(record.begin("next", at(0)).is_empty());
        record.note(BTreeMap::from([("n/a".to_owned(), 1)]), NONE);
        assert!(record.begin("next", at(1)).is_empty());
        assert!(record.deaths.is_empty() && record.in_flight.is_empty());
        record.note(BTreeMap::from([("n/a".to_owned(), 1)]), NONE);
        assert_eq!(record.begin("other", at(2)), ["n/a"]);
        assert_eq!(record.deaths_of("n/a"), 1);
        assert!(record.survived("n/a") && !record.survived("n/a"));
    }

    #[test]
    fn deaths_over_nothing_that_was_noted_are_counted() {
        let mut record = Record::default();
        record.begin("a", at(0));
        assert_eq!(record.unexplained, 0, "nobody led before");
        record.begin("b", at(1));
        record.begin("c", at(2));
        assert_eq!(record.unexplained, 2);
        record.note(BTreeMap::from([("n/a".to_owned(), 1)]), NONE);
        assert_eq!(record.begin("d", at(3)), ["n/a"]);
        assert_eq!(record.unexplained, 2, "it is not over yet");
        assert!(record.end() && !record.end());
        record.begin("e", at(4));
        assert_eq!((record.unexplained, record.deaths_of("n/a")), (0, 2));
    }

    #[test]
    fn what_was_alone_in_flight_explains_a_death_before() {
        for (unexplained, in_flight, is_edited, set_aside) in [
            (0, &["n/a"][..], false, [false, true]),
            (1, &["n/a"], false, [true, true]),
            (1, &["n/a", "n/b"], false, [false, true]),
            (1, &["n/a"], true, [false, true]),
        ] {
            let mut record = record(&[]);
            record.unexplained = unexplained;
            for (next, set_aside) in set_aside.into_iter().enumerate() {
                let noted = in_flight.iter().map(|key| ((*key).to_owned(), 1)).collect();
                record.note(noted, |_, _| is_edited);
                record.begin(&format!("next-{next}"), at(0));
                let found = record.set_aside("n/a", 1, at(0)).is_some();
                assert_eq!(found, set_aside, "{unexplained}, {in_flight:?}, {next}");
            }
        }
    }

    #[test]
    fn who_dies_again_although_one_was_set_aside_notes_everything() {
        let mut record = record(&[]);
        dies(&mut record, 0, &[("n/a", 1)]);
        dies(&mut record, 10, &[("n/b", 1)]);
        assert!(record.set_aside("n/a", 1, at(10)).is_some());
        assert_eq!(record.unexplained, 1, "it may have been the cause");
        dies(&mut record, 20, &[]);
        assert_eq!(record.unexplained, 2, "it was not");
    }

    #[test]
    fn a_replica_inherits_what_another_died_over() {
        let mut own = record(&[]);
        let died = |key: &str| Record { leader: "dead".to_owned(), ..record(&[(key, 1)]) };
        assert!(!own.inherit(died("n/a"), false, at(0)));
        assert_eq!((own.deaths_of("n/a"), own.unexplained), (1, 0));
        // The next one died over it, too, and knew of the first death.
        let mut second = died("n/a");
        second.deaths = own.deaths.clone();
        own.inherit(second, false, at(10));
        assert!(own.set_aside("n/a", 1, at(10)).is_some());
        assert_eq!(own.leader, "dead", "this one lives");
        assert!(
            own.inherit(record(&[]), false, at(20)),
            "it died over something that was not noted"
        );
        assert_eq!(own.unexplained, 1);
        assert!(!own.inherit(Record::default(), false, at(30)), "an end in order");
    }

    #[test]
    fn a_replica_that_was_started_again_says_what_its_predecessor_died_over() {
        // Its Lease has the record of the dead one first, and then its own; seen in either order it is one death.
        let dead = record(&[]);
        let mut again = dead.clone();
        again.begin("again", at(0));
        again.note(BTreeMap::from([("n/a".to_owned(), 1)]), NONE);
        for order in [[(&dead, false), (&again, true)], [(&again, true), (&dead, false)]] {
            let mut own = Record { leader: "own".to_owned(), ..Record::default() };
            let [first, second] = order;
            assert!(own.inherit(first.0.clone(), first.1, at(1)), "it was not known");
            own.inherit(second.0.clone(), second.1, at(2));
            assert_eq!(
                (own.unexplained, own.deaths_of("n/a")),
                (1, 0),
                "what it is at is no death"
            );
        }
        again.begin("once more", at(3));
        let mut own = Record { leader: "own".to_owned(), ..Record::default() };
        own.inherit(again, true, at(4));
        assert!(own.set_aside("n/a", 1, at(4)).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let mut record = record(&[]);
        for number in 0..500 {
            let key = format!("n/{number}");
            dies(&mut record, number, &[(&key, 1)]);
        }
        assert_eq!(record.deaths.len(), MAX_REMEMBERED);
        assert!(record.deaths.contains_key("n/498") && !record.deaths.contains_key("n/0"));
        dies(&mut record, 500 + 2 * 24 * 3600, &[]);
        assert_eq!(record.deaths.len(), 1, "only what was in flight then");
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = record(&[("n/a", 7)]);
        dies(&mut record, 0, &[("n/b", 1)]);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        assert_eq!(serde_json::from_str::<Record>("{}").unwrap(), Record::default());
    }
}
