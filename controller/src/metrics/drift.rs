//! `vela_drift_total`: objects that somebody else changed, by kind and by what was done.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::IntCounterVec;
use vela_serve::metrics::{Error, Registry};

/// Kinds that have a label value of their own: tenants may define others.
const NAMED: usize = 100;
/// All further ones.
const OTHER: &str = "other";

/// What was done about drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriftAction {
    /// It was put back.
    Healed,
    /// It was put back, not for the first time in a row.
    Fought,
    /// It was found, and left as the Application asks.
    Left,
}

impl DriftAction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Healed => "healed",
            Self::Fought => "fought",
            Self::Left => "left",
        }
    }
}

/// The counter.
#[derive(Debug, Clone)]
pub struct DriftMetrics {
    total: IntCounterVec,
    named: Arc<Mutex<BTreeSet<String>>>,
}

impl DriftMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        let help = "Objects that somebody else changed or deleted, by kind and by what was done.";
        let total = registry.int_counter_vec("vela_drift_total", help, &["kind", "action"])?;
        Ok(Self { total, named: Arc::default() })
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, kind: &str, action: DriftAction) -> u64 {
        self.total.with_label_values(&[kind, action.as_str()]).get()
    }

    pub(crate) fn count(&self, kind: &str, action: DriftAction) {
        let kind = {
            let mut named = self.named.lock();
            // Under one lock, so that two kinds at the limit do not both get a value of their own.
            let has_room = named.len() < NAMED;
            if named.contains(kind) || (has_room && named.insert(kind.to_owned())) {
                kind
            } else {
                OTHER
            }
        };
        self.total.with_label_values(&[kind, action.as_str()]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_beyond_a_bound_are_one() {
        let registry = Registry::new("test", "0").unwrap();
        let metrics = DriftMetrics::new(&registry).unwrap();
        for number in 0..NAMED + 5 {
            metrics.count(&format!("Kind{number}"), DriftAction::Healed);
        }
        metrics.count("Kind0", DriftAction::Fought);
        let text = registry.text().unwrap();
        assert!(text.contains(r#"vela_drift_total{action="healed",kind="other"} 5"#), "{text}");
        assert!(text.contains(r#"vela_drift_total{action="fought",kind="Kind0"} 1"#), "{text}");
    }
}
