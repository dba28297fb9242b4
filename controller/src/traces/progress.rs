//! The times at which components and objects of a rollout appeared and became healthy, which the status lacks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vela_api::{AppStatus, Time};

/// Components and objects noted of one rollout; what comes after them has the times of its step.
const MAX_NOTED: usize = 2_000;

/// A component in a cluster and namespace.
pub(super) type ComponentKey = (String, String, String);
/// Cluster, API version, kind, namespace and name of an object.
pub(super) type ObjectKey = [String; 5];

/// When a component came, and since when it has been healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) first: Timestamp,
    pub(super) healthy: Option<Timestamp>,
}

/// What was noted of a rollout. Losing it makes spans longer, never wrong in their order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Progress {
    run: Option<(String, Option<Time>)>,
    pub(super) components: BTreeMap<ComponentKey, Noted>,
    pub(super) objects: BTreeMap<ObjectKey, Timestamp>,
}

impl Progress {
    /// Notes what a status says for the first time. Another run begins afresh.
    pub fn note(&mut self, status: &AppStatus, now: Timestamp) {
        let Some(run) = &status.workflow else { return };
        let run = Some((run.app_revision.clone(), run.start_time.clone()));
        if self.run != run {
            *self = Self { run, ..Self::default() };
        }
        for service in &status.services {
            let key = (service.name.clone(), service.cluster.clone(), service.namespace.clone());
            if self.components.len() >= MAX_NOTED && !self.components.contains_key(&key) {
                continue;
            }
            let noted = self.components.entry(key).or_insert(Noted { first: now, healthy: None });
            // A component that was healthy for a moment only is healthy since the last time it became so.
            noted.healthy = service.healthy.then(|| noted.healthy.unwrap_or(now));
        }
        for object in &status.applied_resources {
            let parts = [
                &object.cluster,
                &object.api_version,
                &object.kind,
                &object.namespace,
                &object.name,
            ];
            let key = parts.map(Clone::clone);
            if self.objects.len() < MAX_NOTED || self.objects.contains_key(&key) {
                self.objects.entry(key).or_insert(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(start: &str, healthy: bool) -> AppStatus {
        serde_json::from_value(json!({
            "workflow": {"appRevision": "v1", "mode": "", "suspend": false, "terminated": false,
                "finished": false, "startTime": start},
            "services": [{"name": "web", "namespace": "shop", "healthy": healthy,
                "workloadDefinition": {"apiVersion": "", "kind": ""}}],
            "appliedResources": [{"kind": "Deployment", "name": "web"}],
        }))
        .unwrap()
    }

    #[test]
    fn the_first_time_counts_and_another_run_begins_afresh() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let web = || ("web".to_owned(), String::new(), "shop".to_owned());
        let mut progress = Progress::default();
        let steps = [
            ("2026-01-01T00:00:00Z", false, 1, (1, None)),
            ("2026-01-01T00:00:00Z", true, 2, (1, Some(2))),
            ("2026-01-01T00:00:00Z", true, 3, (1, Some(2))),
            ("2026-01-01T00:00:00Z", false, 4, (1, None)),
            ("2026-01-01T00:00:00Z", true, 5, (1, Some(5))),
            ("2026-01-01T00:01:00Z", false, 6, (6, None)),
        ];
        for (start, healthy, now, (first, since)) in steps {
            progress.note(&status(start, healthy), at(now));
            let wanted = Noted { first: at(first), healthy: since.map(at) };
            assert_eq!(progress.components[&web()], wanted, "at {now}");
            assert_eq!(*progress.objects.values().next().unwrap(), at(first), "at {now}");
        }
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let mut many = status("2026-01-01T00:00:00Z", true);
        let one = many.applied_resources[0].clone();
        many.applied_resources = (0..MAX_NOTED + 5)
            .map(|number| vela_api::ClusterObjectReference {
                name: number.to_string(),
                ..one.clone()
            })
            .collect();
        let mut progress = Progress::default();
        progress.note(&many, Timestamp::UNIX_EPOCH);
        assert_eq!(progress.objects.len(), MAX_NOTED);
    }
}
