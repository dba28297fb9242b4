//! What an answer to a DELETE means: whether the object is gone, or something holds it.

use serde_json::Value;
use vela_apply::object::{api_version, kind};

/// What became of an object that was to go.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// It is gone: the API server said so, or had none.
    Done,
    /// It is gone, but another object has its name now; or it is not of the version that was asked for.
    Replaced,
    /// Something holds it. The object as it is now.
    Held(Value),
}

impl Removal {
    /// What an answer to a DELETE means. A Status names the uid of what is gone; an object that is sent back is there for
    /// as long as a finalizer or a grace period holds it.
    pub(crate) fn of(answer: Value) -> Self {
        let is_status = kind(&answer) == "Status" && api_version(&answer) == "v1";
        let is_done = if is_status {
            answer.pointer("/details/uid").is_some()
        } else {
            let holders = ["/metadata/finalizers", "/spec/finalizers"];
            let held = |at: &str| answer.pointer(at).and_then(Value::as_array).map_or(0, Vec::len);
            let grace = answer.pointer("/metadata/deletionGracePeriodSeconds");
            answer.get("metadata").is_some()
                && holders.iter().all(|at| held(at) == 0)
                && grace.and_then(Value::as_i64).unwrap_or(0) == 0
        };
        if is_done { Self::Done } else { Self::Held(answer) }
    }

    /// Whether nothing of that name is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_answer_to_a_delete_means() {
        let status = |details: Value| json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details});
        let object = |metadata: Value, spec: Value| json!({"kind": "Any", "apiVersion": "v1", "metadata": metadata, "spec": spec});
        let since = "2026-01-01T00:00:00Z";
        for (answer, done) in [
            (status(json!({"name": "x", "uid": "u1"})), true),
            // Not every server behind the aggregation layer says what it did.
            (status(json!({"name": "x"})), false),
            (Value::Null, false),
            (object(json!({"name": "x"}), json!({})), true),
            (object(json!({"deletionTimestamp": since, "finalizers": []}), json!({})), true),
            (object(json!({"deletionTimestamp": since, "finalizers": ["f"]}), json!({})), false),
            (object(json!({"deletionGracePeriodSeconds": 30}), json!({})), false),
            (object(json!({"deletionGracePeriodSeconds": 0}), json!({})), true),
            // A namespace.
            (object(json!({"name": "x"}), json!({"finalizers": ["kubernetes"]})), false),
        ] {
            assert_eq!(Removal::of(answer.clone()).is_done(), done, "{answer}");
        }
    }
}
