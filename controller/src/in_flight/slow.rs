//! Detects slow reconciles and decides when to log them, so that the person on call finds the name in the log.

use std::collections::HashMap;
use std::time::Duration;

use crate::queue::Key;

/// A reconcile that takes longer is named.
pub(crate) const SLOW: Duration = Duration::from_secs(5);

/// A key of a controller.
pub(crate) type Named = (&'static str, Key);

/// What was said: of each, the time after which it is said again.
#[derive(Debug, Default)]
pub(crate) struct Reported(HashMap<Named, Duration>);

impl Reported {
    /// What is to be said now of all that runs: each when it has become slow, then whenever its time has doubled.
    pub(crate) fn news(&mut self, running: Vec<(Named, Duration)>) -> Vec<(Named, Duration)> {
        // Rebuilt from what runs: of what ended nothing is kept.
        let before = std::mem::take(&mut self.0);
        let mut news = Vec::new();
        for (named, time) in running.into_iter().filter(|(_, time)| *time >= SLOW) {
            // One that is not as far as it was said to be is another attempt.
            let due = before.get(&named).copied().filter(|due| *due <= time.saturating_mul(2));
            let due = due.unwrap_or(SLOW);
            // Doubled each time, so that a reconcile of an hour is named ten times and not seven
            // thousand.
            if time >= due {
                news.push((named.clone(), time));
                self.0.insert(named, time.saturating_mul(2));
            } else {
                self.0.insert(named, due);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_named_when_it_is_slow_and_when_its_time_has_doubled() {
        let key = |name: &str| ("application", Key::new("n", name));
        let mut said = Reported::default();
        let mut named_at = Vec::new();
        for second in 0..60_u64 {
            let mut running = vec![(key("a"), Duration::from_secs(second))];
            // Another attempt begins after 30 s.
            running.push((key("b"), Duration::from_secs(second % 30)));
            running.push((key("fast"), Duration::from_secs(second % 4)));
            for (named, _) in said.news(running) {
                named_at.push((named.1.name.to_string(), second));
            }
        }
        let of = |name: &str| -> Vec<u64> {
            named_at.iter().filter(|(of, _)| of == name).map(|(_, at)| *at).collect()
        };
        assert_eq!(of("a"), [5, 10, 20, 40]);
        assert_eq!(of("b"), [5, 10, 20, 35, 40, 50]);
        assert!(of("fast").is_empty());
        assert!(said.news(Vec::new()).is_empty() && said.0.is_empty());
    }
}
