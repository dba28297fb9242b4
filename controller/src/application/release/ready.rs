//! Readiness of objects without a `healthStatus`: the rules of `helm --wait`. Pure.

use serde_json::Value;
use vela_apply::object::{kind, name};

/// Why a live object is not ready; `None`: it is, or nothing is known that could be waited for.
#[must_use]
pub fn waits_for(object: &Value) -> Option<String> {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let said = |what: &str| Some(format!("{} {}: {what}", kind(object), name(object)));
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    // Before the controller of the workload has seen the new generation, its numbers are about the
    // old one.
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    match kind(object) {
        "Deployment" => {
            let (updated, available) =
                (number("/status/updatedReplicas"), number("/status/availableReplicas"));
            let ready = is_seen && updated >= wanted && available >= wanted;
            if ready { None } else { said(&format!("{available} of {wanted} available")) }
        }
        "StatefulSet" => {
            let ready = number("/status/readyReplicas");
            let on_delete = text("/spec/updateStrategy/type") == "OnDelete";
            // A partition keeps some Pods at the old revision on purpose.
            let partition = number("/spec/updateStrategy/rollingUpdate/partition");
            let updated = number("/status/updatedReplicas") >= wanted.saturating_sub(partition);
            let is_ready = is_seen && ready >= wanted && (on_delete || updated);
            if is_ready { None } else { said(&format!("{ready} of {wanted} ready")) }
        }
        "DaemonSet" => {
            let (wanted, ready) =
                (number("/status/desiredNumberScheduled"), number("/status/numberReady"));
            let on_delete = text("/spec/updateStrategy/type") == "OnDelete";
            let updated = on_delete || number("/status/updatedNumberScheduled") >= wanted;
            let is_ready = is_seen && ready >= wanted && updated;
            if is_ready { None } else { said(&format!("{ready} of {wanted} ready")) }
        }
        "Job" => match job(object) {
            Ended::Succeeded => None,
            Ended::Failed(why) => said(&format!("failed: {why}")),
            Ended::No => said("not complete"),
        },
        "PersistentVolumeClaim" => {
            // A claim may wait for its first Pod, which may belong to something else.
            if matches!(text("/status/phase"), "Lost") { said("lost") } else { None }
        }
        "Service" if text("/spec/type") == "LoadBalancer" => {
            let given = object.pointer("/spec/externalIPs").and_then(Value::as_array);
            let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
            let is_there = [given, ingress].into_iter().flatten().any(|list| !list.is_empty());
            if is_there { None } else { said("no address yet") }
        }
        "CustomResourceDefinition" if !is_established(object) => said("not established"),
        _ => None,
    }
}

/// Whether a CustomResourceDefinition is served.
#[must_use]
pub fn is_established(object: &Value) -> bool {
    condition(object, "Established").is_some()
}

/// How something ended that runs to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It did not yet.
    No,
    /// Well.
    Succeeded,
    /// Badly, and why.
    Failed(String),
}

/// How a hook's object ended: a Job or Pod runs, everything else is done once it is there.
#[must_use]
pub fn hook(object: &Value) -> Ended {
    match kind(object) {
        "Job" => job(object),
        "Pod" => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => Ended::Succeeded,
            Some("Failed") => {
                let text = |key: &str| object.pointer(key).and_then(Value::as_str);
                let why = text("/status/message").or_else(|| text("/status/reason"));
                Ended::Failed(why.unwrap_or("the Pod failed").to_owned())
            }
            _ => Ended::No,
        },
        "CustomResourceDefinition" if !is_established(object) => Ended::No,
        _ => Ended::Succeeded,
    }
}

fn job(object: &Value) -> Ended {
    if condition(object, "Complete").is_some() {
        return Ended::Succeeded;
    }
    match condition(object, "Failed") {
        Some(why) => Ended::Failed(why),
        None => Ended::No,
    }
}

/// The reason and message of a condition that is true.
fn condition(object: &Value, type_: &str) -> Option<String> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let text =
        |it: &Value, key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = all.iter().find(|it| text(it, "type") == type_ && text(it, "status") == "True")?;
    let parts = [text(found, "reason"), text(found, "message")];
    Some(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_ready() {
        let ready = |kind: &str, spec: Value, status: Value| {
            let metadata = json!({"name": "x", "generation": 2});
            let object =
                json!({"kind": kind, "metadata": metadata, "spec": spec, "status": status});
            waits_for(&object).is_none()
        };
        let seen = |status: Value| {
            let mut status = status;
            status["observedGeneration"] = 2.into();
            status
        };
        let all = json!({"updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
        for kind in ["Deployment", "StatefulSet"] {
            assert!(ready(kind, json!({"replicas": 2}), seen(all.clone())), "{kind}");
            assert!(!ready(kind, json!({"replicas": 3}), seen(all.clone())), "{kind}");
            assert!(!ready(kind, json!({"replicas": 2}), all.clone()), "{kind} not seen");
            assert!(ready(kind, json!({"replicas": 0}), seen(json!({}))), "{kind} of none");
        }
        let nodes =
            json!({"desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1});
        assert!(ready("DaemonSet", json!({}), seen(nodes)));
        assert!(!ready("DaemonSet", json!({}), seen(json!({"desiredNumberScheduled": 1}))));
        assert!(ready("ConfigMap", json!({}), json!({})));
        assert!(ready("Service", json!({"type": "ClusterIP"}), json!({})));
        assert!(!ready("Service", json!({"type": "LoadBalancer"}), json!({})));
        assert!(!ready("Job", json!({}), json!({})));
    }

    #[test]
    fn how_hooks_end() {
        let of = |kind: &str, status: Value| hook(&json!({"kind": kind, "status": status}));
        let condition = |type_: &str| json!({"conditions": [{"type": type_, "status": "True", "reason": "R", "message": "m"}]});
        assert_eq!(of("Job", json!({})), Ended::No);
        assert_eq!(of("Job", condition("Complete")), Ended::Succeeded);
        assert_eq!(of("Job", condition("Failed")), Ended::Failed("R: m".into()));
        assert_eq!(of("Pod", json!({"phase": "Succeeded"})), Ended::Succeeded);
        assert_eq!(
            of("Pod", json!({"phase": "Failed", "reason": "Evicted"})),
            Ended::Failed("Evicted".into())
        );
        assert_eq!(of("ConfigMap", json!({})), Ended::Succeeded);
        assert_eq!(of("CustomResourceDefinition", json!({})), Ended::No);
        assert_eq!(of("CustomResourceDefinition", condition("Established")), Ended::Succeeded);
    }
}
