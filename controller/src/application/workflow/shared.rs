//! What all workflows of a process share: compiled templates, request rates, the egress rule.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use vela_workflow::Template;

use crate::egress::Egress;

/// Compiled templates kept; a cluster has a few dozen step definitions.
const TEMPLATES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// Addresses whose rate is kept.
const RATES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// Shared by all workflows.
pub struct Shared {
    templates: Mutex<LruCache<Arc<str>, Arc<Template>>>,
    /// How often addresses may be asked.
    pub rates: Mutex<Rates>,
    /// Which addresses may be asked.
    pub egress: Egress,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("egress", &self.egress).finish_non_exhaustive()
    }
}

impl Shared {
    /// Nothing compiled yet.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self {
            templates: Mutex::new(LruCache::new(TEMPLATES)),
            rates: Mutex::new(Rates(LruCache::new(RATES))),
            egress,
        }
    }

    /// A template that was compiled before.
    #[must_use]
    pub fn compiled(&self, text: &str) -> Option<Arc<Template>> {
        self.templates.lock().get(text).cloned()
    }

    /// Keeps a compiled template.
    pub fn keep(&self, text: Arc<str>, template: Arc<Template>) {
        self.templates.lock().put(text, template);
    }
}

/// Token buckets by method and address.
pub struct Rates(LruCache<String, (f64, Instant)>);

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rates")
    }
}

impl Rates {
    /// Takes a token: there are `limit` at first, and one more each `period`.
    pub fn take(&mut self, key: &str, limit: u64, period: Duration) -> bool {
        self.take_at(key, limit, period, Instant::now())
    }

    #[allow(clippy::cast_precision_loss, reason = "a number of requests")]
    fn take_at(&mut self, key: &str, limit: u64, period: Duration, now: Instant) -> bool {
        let full = limit as f64;
        // The first request meets a full bucket.
        let (tokens, last) = self.0.get_or_insert_mut(key.to_owned(), || (full, now));
        let passed = now.saturating_duration_since(*last).as_secs_f64();
        let each = period.as_secs_f64().max(f64::MIN_POSITIVE);
        // Refilled by the time that passed; never more than full.
        *tokens = (*tokens + passed / each).min(full);
        *last = now;
        if *tokens < 1.0 {
            return false;
        }
        *tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_each_period() {
        let mut rates = Rates(LruCache::new(RATES));
        let start = Instant::now();
        let mut take = |seconds: u64| {
            rates.take_at("GET-x", 2, Duration::from_secs(10), start + Duration::from_secs(seconds))
        };
        assert_eq!([take(0), take(0), take(0)], [true, true, false]);
        assert_eq!([take(9), take(10), take(11)], [false, true, false]);
        assert_eq!([take(100), take(100), take(100)], [true, true, false]);
        assert!(!rates.take("GET-y", 0, Duration::from_secs(1)));
    }
}
