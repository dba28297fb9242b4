//! How often a key is woken because something that it uses changed: at once the first time, and then ever more slowly as long as
//! it continues. Pure; the clock is the queue's.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use vela_cluster::Key;

/// The pause after the first time; it doubles each time.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Who was not woken for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// When keys were woken.
#[derive(Debug, Default)]
pub(super) struct Pace {
    woken: HashMap<Key, Woken>,
    /// The keys by the time of their last reconcile; each is there once.
    order: VecDeque<(Instant, Key)>,
}

#[derive(Debug, Clone, Copy)]
struct Woken {
    /// When it was, or will be.
    at: Instant,
    /// How long the next time is away from that.
    pause: Duration,
}

impl Pace {
    /// When a key that is to be woken now may be.
    pub(super) fn next(&mut self, key: &Key, now: Instant) -> Instant {
        self.forget(now);
        let Some(woken) = self.woken.get_mut(key) else {
            self.woken.insert(key.clone(), Woken { at: now, pause: FIRST });
            self.order.push_back((now, key.clone()));
            return now;
        };
        // It is due already: further changes until then are covered by that one reconcile.
        if woken.at > now {
            return woken.at;
        }
        let due = woken.at + woken.pause;
        // It was quiet for as long again.
        let is_calm = now >= due + woken.pause;
        woken.pause = if is_calm { FIRST } else { woken.pause.saturating_mul(2).min(MAX_PAUSE) };
        woken.at = due.max(now);
        woken.at
    }

    fn forget(&mut self, now: Instant) {
        // From the oldest on, so that a call costs only what it forgets.
        while let Some((since, _)) = self.order.front() {
            if now.saturating_duration_since(*since) < FORGOTTEN {
                return;
            }
            let Some((_, key)) = self.order.pop_front() else { return };
            match self.woken.get(&key).map(|woken| woken.at) {
                Some(at) if now.saturating_duration_since(at) < FORGOTTEN => {
                    // Woken again since: it moves to the end instead of being searched when it was
                    // woken.
                    self.order.push_back((at.max(now), key));
                }
                _ => {
                    self.woken.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_it_goes_on_and_end_with_it() {
        let (mut pace, a, start) = (Pace::default(), Key::new("n", "a"), Instant::now());
        let mut times = Vec::new();
        // Somebody edits ten times a second for five minutes.
        for tenth in 0..3_000 {
            let now = start + Duration::from_millis(100) * tenth;
            let at = pace.next(&a, now);
            if times.last() != Some(&at) {
                times.push(at);
            }
        }
        let at: Vec<u128> = times.iter().map(|at| (*at - start).as_millis()).collect();
        assert_eq!(at[..6], [0, 250, 750, 1_750, 3_750, 7_750], "{at:?}");
        assert!(at.len() <= 18, "{at:?}");
        let last = *times.last().unwrap();
        assert_eq!(pace.next(&a, last + MAX_PAUSE * 2), last + MAX_PAUSE * 2, "it was quiet");
        assert_eq!(pace.next(&a, last + MAX_PAUSE * 2), last + MAX_PAUSE * 2 + FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_quiet_is_forgotten() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        for second in 0..1_000 {
            let now = start + Duration::from_secs(second);
            pace.next(&Key::new("n", second.to_string()), now);
            pace.next(&Key::new("n", "always"), now);
            assert!(pace.woken.len() <= 130 && pace.order.len() == pace.woken.len());
        }
        assert!(pace.woken.contains_key(&Key::new("n", "always")));
    }
}
