//! Why a component is not healthy yet, in the words of its own objects: an image that cannot be pulled, a quota, a Pod
//! without a node.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::object::{api_version, kind, name, namespace, str_at};

use crate::application::component::{self, Object};
use crate::application::session::Session;
use crate::messages;

use super::cached::PodReasons;

/// The most reasons reported; one is usually the cause of the others.
const MAX_REASONS: usize = 3;
/// Most characters of one reason.
const LONG: usize = 200;
/// How long the reasons of Pods are reused.
const FRESH: Duration = Duration::from_secs(30);

/// What the objects of a component say. Empty if they say nothing.
pub(super) async fn diagnose(session: &Session<'_>, objects: &[Object]) -> String {
    let mut reasons = Vec::new();
    for object in objects {
        let Some(live) = component::live(session, object).await else {
            let manifest = &object.manifest;
            reasons.push(messages::object_missing(kind(manifest), name(manifest)));
            continue;
        };
        reasons.extend(of_object(session, &live).await);
    }
    reasons.truncate(MAX_REASONS);
    reasons.join("; ")
}

/// What objects that a step made or read say of themselves, as far as they are not what they should become. Empty if all
/// are, or say nothing.
pub(super) async fn diagnose_live(session: &Session<'_>, objects: &[Value]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for live in objects {
        let reported = of_object(session, live).await;
        if reported.is_empty() {
            let of = |state| format!("{} {}: {state}", kind(live), name(live));
            reasons.extend(unfinished(live).map(of));
        }
        reasons.extend(reported);
    }
    let mut fingerprint = BTreeSet::new();
    reasons.retain(|reason| fingerprint.insert(reason.clone()));
    reasons.truncate(MAX_REASONS);
    reasons.join("; ")
}

/// Reasons of one object and of the Pods it makes.
async fn of_object(session: &Session<'_>, live: &Value) -> Vec<String> {
    let mut reported = of_conditions(live);
    if kind(live) == "Pod" {
        reported.extend(of_pod(live));
    }
    // Only a workload that lacks Pods is asked about them: that is a list request.
    if is_short(live) && may_have_pods(live) {
        reported.extend(of_pods(session, live).await);
    }
    reported.dedup();
    let of = |reason: String| format!("{} {}: {reason}", kind(live), name(live));
    reported.into_iter().map(of).collect()
}

/// Reasons of the Pods of a workload. They are not watched: each of them is asked for once in a while.
async fn of_pods(session: &Session<'_>, live: &Value) -> Vec<String> {
    let selector = super::selector::selector(live.pointer("/spec/selector/matchLabels"));
    if selector.is_empty() {
        return Vec::new();
    }
    let (key, generation) = (ResourceKey::of(live, ""), live.pointer("/metadata/generation"));
    let generation = generation.and_then(Value::as_i64).unwrap_or_default();
    let is_fresh =
        // A new generation has new Pods, whose reasons are others.
        |reported: &PodReasons| reported.at.elapsed() < FRESH && reported.generation == generation;
    let memory = session.memory();
    if let Some(known) = memory.lock().pod_reasons.get(&key).filter(|reported| is_fresh(reported)) {
        return known.reasons.clone();
    }
    let pods = session.io().list("v1", "Pod", namespace(live), &selector).await;
    let pods = pods.ok().and_then(|list| list.get("items").cloned()).unwrap_or_default();
    let reasons: Vec<_> = pods.as_array().into_iter().flatten().filter_map(of_pod).collect();
    let reported = PodReasons { at: Instant::now(), generation, reasons: reasons.clone() };
    let mut memory = memory.lock();
    memory.pod_reasons.retain(|_, reported| reported.at.elapsed() < FRESH);
    memory.pod_reasons.insert(key, reported);
    reasons
}

/// The progress of an object that has not finished; `None` where it has, or where that is unknown.
fn unfinished(object: &Value) -> Option<String> {
    let text = |path: &[&str]| Some(str_at(object, path)).filter(|text| !text.is_empty());
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    match kind(object) {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" if is_short(object) => {
            let wanted =
                number("/spec/replicas").or_else(|| number("/status/desiredNumberScheduled"));
            let ready = number("/status/readyReplicas").or_else(|| number("/status/numberReady"));
            Some(messages::ready_of(ready.unwrap_or(0), wanted.unwrap_or(1)))
        }
        "Job" if number("/status/succeeded").unwrap_or(0) == 0 => {
            Some(messages::JOB_NOT_COMPLETE.to_owned())
        }
        "Application" => {
            let phase = text(&["status", "status"]).unwrap_or("not reconciled yet");
            (phase != names::phase::RUNNING).then(|| phase.to_owned())
        }
        _ => {
            let state = text(&["status", "phase"])
                .or_else(|| text(&["status", "state"]))
                .or_else(|| text(&["status", "apply", "state"]))?;
            let done = ["Succeeded", "Running", "Bound", "Active", "Available", "ready"];
            (!done.contains(&state)).then(|| state.to_owned())
        }
    }
}

/// Whether a workload has fewer ready Pods than it wants.
fn is_short(object: &Value) -> bool {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").or_else(|| number("/status/desiredNumberScheduled"));
    let ready = number("/status/readyReplicas").or_else(|| number("/status/numberReady"));
    wanted.is_none_or(|wanted| ready.unwrap_or(0) < wanted)
}

/// Whether a workload may have made Pods. Those of Kubernetes count theirs.
fn may_have_pods(object: &Value) -> bool {
    let made = |path: &str| object.pointer(path).and_then(Value::as_i64).is_some_and(|n| n > 0);
    match (api_version(object), kind(object)) {
        ("apps/v1", "DaemonSet") => made("/status/currentNumberScheduled"),
        ("apps/v1", _) => made("/status/replicas"),
        _ => true,
    }
}

/// Conditions that report a failure.
fn of_conditions(object: &Value) -> Vec<String> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    let bad = all.into_iter().flatten().filter(|condition| {
        let is = |value: &str| str_at(condition, &["status"]) == value;
        // `Progressing` and `Ready` report trouble by being false.
        match str_at(condition, &["type"]) {
            "ReplicaFailure" | "Failed" => is("True"),
            "Progressing" | "Ready" => is("False"),
            _ => false,
        }
    });
    bad.filter_map(|c| reported(str_at(c, &["reason"]), str_at(c, &["message"]))).collect()
}

/// Why a Pod does not run.
fn of_pod(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let unscheduled = conditions.into_iter().flatten().find(|condition| {
        str_at(condition, &["type"]) == "PodScheduled" && str_at(condition, &["status"]) == "False"
    });
    // A Pod without a node has no containers to ask.
    if let Some(condition) = unscheduled {
        return reported(str_at(condition, &["reason"]), str_at(condition, &["message"]));
    }
    let containers = ["initContainerStatuses", "containerStatuses"].iter().flat_map(|key| {
        let list = pod.pointer(&format!("/status/{key}")).and_then(Value::as_array);
        list.into_iter().flatten()
    });
    for container in containers {
        for state in ["waiting", "terminated"] {
            let reason = str_at(container, &["state", state, "reason"]);
            // States that every Pod goes through are no reasons.
            if !matches!(reason, "" | "ContainerCreating" | "PodInitializing" | "Completed") {
                return reported(reason, str_at(container, &["state", state, "message"]));
            }
        }
    }
    None
}

fn reported(reason: &str, message: &str) -> Option<String> {
    let text = match (reason, message) {
        ("", "") => return None,
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    // The text is written by whoever made the object.
    Some(text.chars().take(LONG).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_say_why() {
        let cases = [
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}),
                Some("Unschedulable: 0/1 nodes are available"),
            ),
            (
                json!({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}}}]}),
                Some("ImagePullBackOff: Back-off pulling image \"x\""),
            ),
            (
                json!({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
                None,
            ),
            (
                json!({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}),
                Some("OOMKilled"),
            ),
            (json!({}), None),
        ];
        for (status, expected) in cases {
            assert_eq!(of_pod(&json!({ "status": status })).as_deref(), expected);
        }
    }

    #[test]
    fn what_is_not_there_yet_says_how_far_it_is() {
        let cases = [
            (
                json!({"kind": "Deployment", "spec": {"replicas": 3}, "status": {"readyReplicas": 1}}),
                Some("1 of 3 ready"),
            ),
            (
                json!({"kind": "Deployment", "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}),
                None,
            ),
            (json!({"kind": "Job", "status": {"active": 1}}), Some("not complete")),
            (
                json!({"kind": "Application", "status": {"status": "workflowSuspending"}}),
                Some("workflowSuspending"),
            ),
            (json!({"kind": "Application", "status": {"status": "running"}}), None),
            (
                json!({"kind": "Configuration", "status": {"apply": {"state": "ProvisioningAndChecking"}}}),
                Some("ProvisioningAndChecking"),
            ),
            (
                json!({"kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}),
                Some("Pending"),
            ),
            (json!({"kind": "ConfigMap"}), None),
        ];
        for (object, expected) in cases {
            assert_eq!(unfinished(&object).as_deref(), expected, "{object}");
        }
    }

    #[test]
    fn conditions_say_why() {
        let object = json!({"status": {"conditions": [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}]}});
        assert_eq!(of_conditions(&object), ["FailedCreate: exceeded quota: q"]);
        assert!(is_short(&json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1}})));
        assert!(!is_short(&json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 2}})));
    }

    #[test]
    fn pods_are_asked_for_where_there_are_some() {
        let cases = [
            (json!({"apiVersion": "apps/v1", "kind": "Deployment"}), false),
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"observedGeneration": 1}}),
                false,
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "status": {"replicas": 1}}),
                true,
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {"currentNumberScheduled": 0}}),
                false,
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {"currentNumberScheduled": 2}}),
                true,
            ),
            (json!({"apiVersion": "batch/v1", "kind": "Job"}), true),
            (json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}), true),
        ];
        for (object, expected) in cases {
            assert_eq!(may_have_pods(&object), expected, "{object}");
        }
    }
}
