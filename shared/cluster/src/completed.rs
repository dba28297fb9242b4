//! What ran to its end and was removed because it had (a Job by its TTL, a Pod by the collector of Pods): as it was last seen.
//! Who wants such an object has had it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use vela_apply::object::{group_of, kind, str_at};

use crate::objects::Live;
use crate::store::{Key, Stored};

/// Objects of one kind that are remembered. One that is forgotten is created again once, as if nobody had seen its end.
const MAX_REMEMBERED: usize = 1000;

/// Whether objects of a kind can be of this sort at all.
#[must_use]
pub fn may_be_over(kind: &str) -> bool {
    matches!(kind, "Job" | "Pod")
}

/// Whether an object ran to its end, and the cluster removes it for that.
#[must_use]
pub fn is_over(object: &Value) -> bool {
    match (group_of(str_at(object, &["apiVersion"])), kind(object)) {
        ("batch", "Job") => {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            let ended = |condition: &Value| {
                matches!(str_at(condition, &["type"]), "Complete" | "Failed")
                    && str_at(condition, &["status"]) == "True"
            };
            object.pointer("/spec/ttlSecondsAfterFinished").is_some_and(Value::is_u64)
                && conditions.is_some_and(|all| all.iter().any(ended))
        }
        ("", "Pod") => {
            str_at(object, &["status", "phase"]) == "Succeeded"
                && str_at(object, &["spec", "restartPolicy"]) != "Always"
        }
        _ => false,
    }
}

/// Those of one kind.
#[derive(Default)]
pub(crate) struct Completed {
    objects: HashMap<Key, Arc<Live>>,
    order: VecDeque<Key>,
}

impl Completed {
    /// An object was removed.
    pub(crate) fn removed(&mut self, live: Arc<Live>) {
        let key = live.key();
        if self.objects.insert(key.clone(), live).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.objects.remove(&oldest);
        }
    }

    /// An object of this name is there again.
    pub(crate) fn made(&mut self, key: &Key) {
        if self.objects.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Live>> {
        self.objects.get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_over_is_a_job_with_a_ttl_or_a_pod() {
        let job = |ttl: Value, kind: &str, status: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": ttl},
                "status": {"conditions": [{"type": "Suspended", "status": "False"},
                    {"type": kind, "status": status}]}})
        };
        let pod = |policy: &str, phase: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": policy},
                "status": {"phase": phase}})
        };
        for (object, over) in [
            (job(json!(0), "Complete", "True"), true),
            (job(json!(100), "Failed", "True"), true),
            (job(json!(0), "Complete", "False"), false),
            (job(json!(0), "SuccessCriteriaMet", "True"), false),
            // Without a TTL it was somebody who removed it.
            (job(Value::Null, "Complete", "True"), false),
            (pod("Never", "Succeeded"), true),
            (pod("OnFailure", "Running"), false),
            (pod("Always", "Succeeded"), false),
            (json!({"apiVersion": "x/v1", "kind": "Job"}), false),
        ] {
            assert_eq!(is_over(&object), over, "{object}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let live = |name: usize| Live::of(json!({"metadata": {"name": name.to_string()}}));
        let mut completed = Completed::default();
        for name in 0..=MAX_REMEMBERED {
            completed.removed(Arc::new(live(name)));
            completed.removed(Arc::new(live(name)));
        }
        assert_eq!(
            (completed.objects.len(), completed.order.len()),
            (MAX_REMEMBERED, MAX_REMEMBERED)
        );
        assert!(completed.get(&live(0).key()).is_none());
        completed.made(&live(1).key());
        assert_eq!(
            (completed.objects.len(), completed.order.len()),
            (MAX_REMEMBERED - 1, MAX_REMEMBERED - 1)
        );
        assert!(completed.get(&live(2).key()).is_some());
    }
}
