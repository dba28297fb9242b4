//! What a process does whose predecessor died over something that was not noted: for a while it notes what it is about to
//! reconcile, one at a time, before it begins. So a second death has a name however quick it was.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::subject::{State, Subject};

/// How long a process is cautious after a death.
pub(super) const CAUTIOUS: Duration = Duration::from_secs(600);
/// This many deaths in a row that nothing was noted of: then it was not among those that are the most likely.
const MANY: u32 = 2;
/// How many are remembered to have survived, or to have been edited; with more of them some are noted twice, or suspected too early.
const MAX_SURVIVORS: usize = 100_000;

/// Who is noted before it is reconciled.
#[derive(Debug, Default)]
pub(super) struct Caution {
    until: Option<Instant>,
    /// Those that reconcile settled, too, and not only the first time.
    all: bool,
    /// The generations that survived a reconcile in this process, by the names of the record.
    survived: HashMap<String, i64>,
    /// The generations that were made since the death, by the same names: none of them is its cause.
    edited: HashMap<String, i64>,
}

impl Caution {
    /// The caution that this many unexplained deaths call for.
    pub(super) fn after(unexplained: u32, now: Instant) -> Self {
        let until = (unexplained > 0).then(|| now + CAUTIOUS);
        Self { until, all: unexplained >= MANY, ..Self::default() }
    }

    /// Whether it is noted before it is reconciled.
    pub(super) fn is_due(&self, subject: Subject<'_>, state: State, now: Instant) -> bool {
        // What ended once at this generation is not what kills: noting it again would only slow it
        // down.
        let survived = || self.survived.get(&subject.name()) == Some(&state.generation);
        self.until.is_some_and(|until| now < until)
            && (self.all || !(state.is_settled || survived()))
    }

    /// It survived a reconcile.
    pub(super) fn survived(&mut self, subject: Subject<'_>, generation: i64) {
        // Where all are noted nothing is asked of those that survived.
        if self.until.is_some() && !self.all && self.survived.len() < MAX_SURVIVORS {
            self.survived.insert(subject.name(), generation);
        }
    }

    /// It was edited.
    pub(super) fn edited(&mut self, subject: Subject<'_>, generation: i64) {
        if self.until.is_some() && self.edited.len() < MAX_SURVIVORS {
            self.edited.insert(subject.name(), generation);
        }
    }

    /// Whether a generation was made since the death, as far as that is known.
    pub(super) fn is_edited(&self, name: &str, generation: i64) -> bool {
        self.edited.get(name) == Some(&generation)
    }

    /// Whether the time of caution is over now; once.
    pub(super) fn ends(&mut self, now: Instant) -> bool {
        let over = self.until.is_some_and(|until| now >= until);
        if over {
            *self = Self::default();
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use crate::queue::Key;

    use super::*;

    #[test]
    fn the_likely_ones_are_noted_first_and_all_after_another_death() {
        let (key, now) = (Key::new("n", "a"), Instant::now());
        let subject = Subject::application(&key);
        let due = |caution: &Caution| {
            [(1, false), (2, false), (2, true)].map(|(generation, is_settled)| {
                caution.is_due(subject, State { generation, is_settled }, now)
            })
        };
        assert_eq!(due(&Caution::after(0, now)), [false; 3]);
        let mut once = Caution::after(1, now);
        assert_eq!(due(&once), [true, true, false]);
        once.survived(Subject::run(&key), 2);
        assert_eq!(due(&once), [true, true, false], "a run of the same name");
        once.survived(subject, 2);
        assert_eq!(due(&once), [true, false, false], "until it is edited");
        let mut twice = Caution::after(2, now);
        twice.survived(subject, 2);
        assert_eq!(due(&twice), [true; 3]);
        once.edited(subject, 3);
        assert!(once.is_edited("n/a", 3) && !once.is_edited("n/a", 2) && !once.is_edited("n/b", 3));
        assert!(!twice.ends(now) && twice.ends(now + CAUTIOUS) && !twice.ends(now + CAUTIOUS));
        assert_eq!(due(&twice), [false; 3]);
    }
}
