//! The live objects of an Application, read with the viewer's rights.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;
use vela_api::names::{label, tracker};
use vela_api::resource_tracker::ManagedResource;
use vela_api::{Application, ResourceTracker};
use vela_cluster::{ApiError, Identity, Target};

use crate::command::caches;

use super::summary::cut;
use super::viewer::Viewer;

/// Objects that are read; the others are only named.
const MAX_READ: usize = 200;
/// Pods that are shown.
const MAX_PODS: u32 = 200;
/// Reads at a time.
const AT_ONCE: usize = 8;

/// What an Application deployed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Objects {
    objects: Vec<Object>,
    pods: Vec<Object>,
    /// What is not shown, and why.
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
}

/// One object.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    key: String,
    component: String,
    #[serde(rename = "trait")]
    trait_: String,
    cluster: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    creator: String,
    /// How to mark it: `good`, `bad`, `busy`, `idle`.
    health: &'static str,
    /// The same as a word.
    state: String,
    /// What it says of itself.
    text: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    created: String,
    /// Keys of the objects that it may be of; for Pods.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    owners: BTreeSet<String>,
}

fn key(kind: &str, cluster: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {cluster}/{namespace}/{name}")
}

/// Reads the objects that the ResourceTrackers of an Application record; what its status names where those cannot be read.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn read(viewer: &Viewer, app: &Application) -> Result<Objects, ApiError> {
    let mut out = Objects::default();
    let name = app.metadata.name.clone().unwrap_or_default();
    let namespace = app.metadata.namespace.clone().unwrap_or_default();
    let selector = format!("{}={name},{}={namespace}", label::APP_NAME, label::APP_NAMESPACE);
    let api: Api<ResourceTracker> = Api::all(viewer.client.clone());
    let recorded = match caches::pages(&api, ListParams::default().labels(&selector)).await {
        Ok(trackers) => recorded(trackers),
        Err(ApiError::Api { code: 401 | 403, message, .. }) => {
            out.note = format!(
                "ResourceTrackers cannot be read, objects are those of the status: {}",
                cut(&message)
            );
            named(app)
        }
        Err(error) => return Err(error),
    };
    let reads = recorded.into_iter().enumerate().map(|(index, record)| async move {
        let mut object = shown(&record);
        if !record.cluster.is_empty() && record.cluster != "local" {
            object.state = "in another cluster".to_owned();
        } else if index >= MAX_READ {
            object.state = "not read".to_owned();
        } else {
            let target = Target {
                api_version: &record.api_version,
                kind: &record.kind,
                namespace: &record.namespace,
                name: &record.name,
            };
            fill(&mut object, viewer.objects.get(&target, &Identity::own()).await, record.deleted);
        }
        object
    });
    out.objects = stream::iter(reads).buffered(AT_ONCE).collect().await;
    out.objects
        .sort_by(|a, b| (&a.component, &a.trait_, &a.key).cmp(&(&b.component, &b.trait_, &b.key)));
    out.pods = pods(viewer, &name, &namespace, &out.objects).await;
    Ok(out)
}

/// What trackers record, each object once; the newest record counts.
fn recorded(mut trackers: Vec<ResourceTracker>) -> Vec<ManagedResource> {
    trackers.retain(|one| one.spec.type_ != tracker::COMPONENT_REVISION);
    trackers.sort_by_key(|one| std::cmp::Reverse(one.spec.application_generation));
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for mut one in trackers {
        if one.expand().is_err() {
            continue;
        }
        for record in one.spec.managed_resources {
            if seen.insert(key(&record.kind, &record.cluster, &record.namespace, &record.name)) {
                all.push(record);
            }
        }
    }
    all
}

/// What the status names.
fn named(app: &Application) -> Vec<ManagedResource> {
    let of = |one: &vela_api::ClusterObjectReference| ManagedResource {
        api_version: one.api_version.clone(),
        kind: one.kind.clone(),
        namespace: one.namespace.clone(),
        name: one.name.clone(),
        cluster: one.cluster.clone(),
        creator: one.creator.clone(),
        ..ManagedResource::default()
    };
    app.status.applied_resources.iter().map(of).collect()
}

fn shown(record: &ManagedResource) -> Object {
    Object {
        key: key(&record.kind, &record.cluster, &record.namespace, &record.name),
        component: record.component.clone(),
        trait_: record.trait_.clone(),
        cluster: record.cluster.clone(),
        api_version: record.api_version.clone(),
        kind: record.kind.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        creator: record.creator.clone(),
        health: "idle",
        ..Object::default()
    }
}

/// Adds what the API server says.
fn fill(object: &mut Object, answer: Result<Value, ApiError>, should_be_gone: bool) {
    let (health, state, text) = match answer {
        Ok(live) => {
            let created = live.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
            object.created = created.unwrap_or_default().to_owned();
            judge(&live)
        }
        Err(error) if error.is_not_found() && should_be_gone => ("idle", "deleted", String::new()),
        Err(error) if error.is_not_found() => ("bad", "missing", String::new()),
        Err(ApiError::Api { code: 401 | 403, .. }) => ("idle", "not yours to read", String::new()),
        Err(error) => ("idle", "cannot be read", cut(&error.to_string())),
    };
    (object.health, object.state, object.text) = (health, state.to_owned(), text);
}

/// What an object says of itself: by the fields that Kubernetes' own kinds and most others have.
fn judge(live: &Value) -> (&'static str, &'static str, String) {
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return ("busy", "being deleted", String::new());
    }
    let Some(status) = live.get("status").and_then(Value::as_object) else {
        return ("good", "present", String::new());
    };
    let number = |key: &str| status.get(key).and_then(Value::as_i64);
    let observed = number("observedGeneration");
    let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    if observed.is_some() && generation.is_some() && observed < generation {
        return ("busy", "not seen yet", String::new());
    }
    let wanted = live
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .or_else(|| number("desiredNumberScheduled"));
    if let Some(wanted) = wanted {
        let ready = number("readyReplicas").or_else(|| number("numberReady")).unwrap_or_default();
        let text = format!("{ready}/{wanted} ready");
        return if ready >= wanted { ("good", "ready", text) } else { ("busy", "not ready", text) };
    }
    let conditions = status.get("conditions").and_then(Value::as_array).map(Vec::as_slice);
    for condition in conditions.unwrap_or_default() {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), text("status")) {
            ("Failed", "True") => return ("bad", "failed", cut(text("message"))),
            ("Ready" | "Available" | "Complete" | "Established", "True") => {
                return ("good", "ready", String::new());
            }
            ("Ready" | "Available", _) => return ("busy", "not ready", cut(text("message"))),
            _ => {}
        }
    }
    match status.get("phase").and_then(Value::as_str) {
        Some(phase @ ("Failed" | "Lost")) => ("bad", "failed", phase.to_owned()),
        Some(phase @ ("Pending" | "Terminating")) => ("busy", "not ready", phase.to_owned()),
        Some(phase) => ("good", "present", cut(phase)),
        None => ("good", "present", String::new()),
    }
}

/// Pods of the Application in the namespaces of its objects; none where they cannot be read.
async fn pods(viewer: &Viewer, app: &str, namespace: &str, objects: &[Object]) -> Vec<Object> {
    let mut namespaces: BTreeSet<&str> = objects.iter().map(|one| one.namespace.as_str()).collect();
    namespaces.insert(namespace);
    namespaces.remove("");
    let params =
        ListParams::default().labels(&format!("{}={app}", label::APP_NAME)).limit(MAX_PODS);
    let mut all = Vec::new();
    for namespace in namespaces.into_iter().take(AT_ONCE) {
        let api: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(viewer.client.clone(), namespace);
        let Ok(found) = api.list(&params).await else { continue };
        let values = found.items.iter().filter_map(|pod| serde_json::to_value(pod).ok());
        all.extend(values.map(|pod| pod_shown(&pod, objects)));
    }
    all.truncate(usize::try_from(MAX_PODS).unwrap_or(usize::MAX));
    all
}

fn pod_shown(pod: &Value, objects: &[Object]) -> Object {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let component = pod.pointer("/metadata/labels").and_then(|all| all.get(label::APP_COMPONENT));
    let component = component.and_then(Value::as_str).unwrap_or_default();
    // A Pod belongs to a ReplicaSet or the like, whose name begins with that of what made it.
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_of = |object: &Object, owner: &Value| {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_itself = text("kind") == object.kind && text("name") == object.name;
        let set = text("name").strip_prefix(object.name.as_str());
        let is_set = text("kind") == "ReplicaSet" && object.kind == "Deployment";
        is_itself || (is_set && set.is_some_and(|rest| rest.starts_with('-')))
    };
    let owners = objects.iter().filter(|object| {
        object.namespace == namespace && owners.into_iter().flatten().any(|one| is_of(object, one))
    });
    let owners = owners.map(|object| object.key.clone()).collect();
    let waiting = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let waiting = waiting.into_iter().flatten().find_map(|one| {
        let reason = one.pointer("/state/waiting/reason").and_then(Value::as_str)?;
        let message = one.pointer("/state/waiting/message").and_then(Value::as_str);
        Some(format!("{reason} {}", message.unwrap_or_default()))
    });
    let created = text("/metadata/creationTimestamp").to_owned();
    let (health, state, said) = judge(pod);
    let (health, text) = match waiting {
        Some(why) => ("bad", cut(why.trim())),
        None => (health, said),
    };
    Object {
        key: key("Pod", "", namespace, name),
        component: component.to_owned(),
        kind: "Pod".to_owned(),
        api_version: "v1".to_owned(),
        created,
        health,
        state: state.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        text,
        owners,
        ..Object::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_judged_by_what_they_say() {
        for (object, expected) in [
            (json!({}), ("good", "present", "")),
            (json!({"metadata": {"deletionTimestamp": "x"}}), ("busy", "being deleted", "")),
            (
                json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}),
                ("busy", "not ready", "1/2 ready"),
            ),
            (json!({"spec": {"replicas": 0}, "status": {}}), ("good", "ready", "0/0 ready")),
            (
                json!({"metadata": {"generation": 2}, "spec": {"replicas": 1},
                "status": {"readyReplicas": 1, "observedGeneration": 1}}),
                ("busy", "not seen yet", ""),
            ),
            (
                json!({"status": {"desiredNumberScheduled": 1, "numberReady": 1}}),
                ("good", "ready", "1/1 ready"),
            ),
            (
                json!({"status": {"conditions": [{"type": "Failed", "status": "True", "message": "m"}]}}),
                ("bad", "failed", "m"),
            ),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "m"}]}}),
                ("busy", "not ready", "m"),
            ),
            (json!({"status": {"phase": "Bound"}}), ("good", "present", "Bound")),
            (json!({"status": {"phase": "Lost"}}), ("bad", "failed", "Lost")),
            (json!({"status": 7, "spec": [1]}), ("good", "present", "")),
        ] {
            let (health, state, text) = judge(&object);
            assert_eq!((health, state, text.as_str()), expected, "{object}");
        }
    }

    #[test]
    fn an_object_is_shown_once_by_its_newest_record() {
        let tracker = |generation: i64, component: &str| {
            let record = ManagedResource {
                kind: "ConfigMap".to_owned(),
                name: "a".to_owned(),
                component: component.to_owned(),
                ..ManagedResource::default()
            };
            let mut one = ResourceTracker::default();
            one.spec.application_generation = generation;
            one.spec.managed_resources = vec![record];
            one
        };
        let all = recorded(vec![tracker(1, "old"), tracker(2, "new")]);
        assert_eq!(all.iter().map(|one| one.component.as_str()).collect::<Vec<_>>(), ["new"]);
    }

    #[test]
    fn a_pod_belongs_to_what_made_its_set() {
        let of = |kind: &str, name: &str| Object {
            key: key(kind, "", "n", name),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
            ..Object::default()
        };
        let objects = [of("Deployment", "web"), of("Service", "web"), of("Deployment", "we")];
        let pod = json!({"metadata": {"name": "web-5c-x", "namespace": "n", "labels": {"app.oam.dev/component": "c"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5c"}]},
            "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
        let shown = pod_shown(&pod, &objects);
        assert_eq!(shown.owners, BTreeSet::from([objects[0].key.clone()]));
        assert_eq!((shown.health, shown.text.as_str()), ("bad", "ImagePullBackOff"));
        assert_eq!(shown.component, "c");
    }
}
