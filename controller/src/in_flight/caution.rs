//! What a process does whose predecessor died over something that was not noted: for a while it notes what it is about to
//! reconcile, one Application at a time, before it begins. So a second death has a name however quick it was.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vela_api::Application;

use crate::queue::Key;

/// How long a process is cautious after a death.
pub(super) const CAUTIOUS: Duration = Duration::from_secs(600);
/// This many deaths in a row that nothing was noted of: then it was not among those that are the most likely.
const MANY: u32 = 2;
/// Applications that are remembered to have survived; with more of them some are noted twice.
const MAX_SURVIVORS: usize = 100_000;

/// Which Applications are noted before they are reconciled.
#[derive(Debug, Default)]
pub(super) struct Caution {
    until: Option<Instant>,
    /// Those that reconcile settled, too, and not only the first time.
    all: bool,
    /// The generations that survived a reconcile in this process.
    survived: HashMap<Key, i64>,
}

impl Caution {
    /// The caution that this many unexplained deaths call for.
    pub(super) fn after(unexplained: u32, now: Instant) -> Self {
        let until = (unexplained > 0).then(|| now + CAUTIOUS);
        Self { until, all: unexplained >= MANY, survived: HashMap::new() }
    }

    /// Whether an Application is noted before it is reconciled.
    pub(super) fn is_due(&self, key: &Key, app: &Application, now: Instant) -> bool {
        // What ended once at this generation is not what kills: noting it again would only slow it
        // down.
        let survived = || self.survived.get(key) == app.metadata.generation.as_ref();
        self.until.is_some_and(|until| now < until)
            && (self.all || !(is_settled(app) || survived()))
    }

    /// It survived a reconcile.
    pub(super) fn survived(&mut self, key: &Key, generation: i64) {
        // Where all are noted nothing is asked of those that survived.
        if self.until.is_some() && !self.all && self.survived.len() < MAX_SURVIVORS {
            self.survived.insert(key.clone(), generation);
        }
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

/// Whether nothing is to be done for an Application, by its status.
fn is_settled(app: &Application) -> bool {
    // The status alone: reading more would make the check cost what it is to save.
    let ended = app.status.workflow.as_ref().is_some_and(|workflow| workflow.finished);
    let is_seen = app.metadata.generation == Some(app.status.observed_generation);
    ended && is_seen && app.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn app(observed: i64, finished: bool) -> Application {
        serde_json::from_value(json!({"metadata": {"generation": 2}, "spec": {"components": []},
            "status": {"observedGeneration": observed, "workflow": {"finished": finished}}}))
        .unwrap()
    }

    #[test]
    fn the_likely_ones_are_noted_first_and_all_after_another_death() {
        let (key, now) = (Key::new("n", "a"), Instant::now());
        let due = |caution: &Caution| {
            [(1, true), (2, false), (2, true)]
                .map(|(observed, finished)| caution.is_due(&key, &app(observed, finished), now))
        };
        assert_eq!(due(&Caution::after(0, now)), [false; 3]);
        let mut once = Caution::after(1, now);
        assert_eq!(due(&once), [true, true, false]);
        once.survived(&key, 2);
        assert_eq!(due(&once), [false; 3], "until it is edited");
        once.survived(&key, 1);
        assert_eq!(due(&once), [true, true, false]);
        let mut twice = Caution::after(2, now);
        twice.survived(&key, 2);
        assert_eq!(due(&twice), [true; 3]);
        assert!(!twice.ends(now) && twice.ends(now + CAUTIOUS) && !twice.ends(now + CAUTIOUS));
        assert_eq!(due(&twice), [false; 3]);
    }
}
