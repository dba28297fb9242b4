//! Answers of kind `admission`: recorded reviews, decided by the webhook's engine.
//!
//! The world of a record consists of the reference's built-in definitions and of the record's
//! fixtures, completed by what the control plane makes of them: revisions of definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use vela_api::DefinitionKind;
use vela_api::names::annotation;
use vela_seal::{KeyHolder, Keys};
use vela_serve::gates::Gates;
use vela_webhook::{
    Definition, Engine, Fact, Need, ObjectKind, Resource, Settings, Snapshot, convert, endpoints,
};

use crate::material;

const SYSTEM: &str = "vela-system";
/// Stands for the namespace of each record.
const CASE: &str = "case";

/// The answer to one record of kind `admission`: chart defaults.
#[must_use]
pub fn answer(record: &Value) -> Value {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::new(&[], false)).answer(record)
}

/// The answer with the gates of the records `admission-cue-gates`.
#[must_use]
pub fn answer_cue_gates(record: &Value) -> Value {
    static SERVER: OnceLock<Server> = OnceLock::new();
    const GATES: &[&str] = &[
        "EnableCueValidation=true",
        "ValidateUndeclaredParameters=true",
        "ValidateResourcesExist=true",
        "EnableApplicationScopedPolicies=true",
        "EnableGlobalPolicies=true",
    ];
    SERVER.get_or_init(|| Server::new(GATES, false)).answer(record)
}

/// The answer with the gates of the records `admission-auth-gates`.
#[must_use]
pub fn answer_auth_gates(record: &Value) -> Value {
    static SERVER: OnceLock<Server> = OnceLock::new();
    const GATES: &[&str] = &["AuthenticateApplication=true", "ValidateDefinitionPermissions=true"];
    SERVER.get_or_init(|| Server::new(GATES, true)).answer(record)
}

/// The answer to the creation of an Application where these definitions exist: chart defaults.
#[must_use]
pub fn created(definitions: &[Value], app: &Value) -> Value {
    let record = json!({
        "path": "/validating-core-oam-dev-v1beta1-applications",
        "review": {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "namespace": CASE, "operation": "CREATE",
                "userInfo": {"username": "dev"}, "object": app,
            },
        },
        "fixtures": definitions,
    });
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::bare(&[], false)).answer(&record)
}

/// The definitions that exist in the world of a record: the built-in ones, and its fixtures instead of those of the same name.
#[must_use]
pub fn definitions(record: &Value) -> Vec<Value> {
    let key = |object: &Value| {
        (text(object, "/kind").to_owned(), text(object, "/metadata/name").to_owned())
    };
    let mut all: BTreeMap<(String, String), Value> = BTreeMap::new();
    let fixtures = record.get("fixtures").and_then(Value::as_array).into_iter().flatten().cloned();
    for object in builtin_objects("definitions").into_iter().chain(fixtures) {
        if text(&object, "/kind").ends_with("Definition") {
            all.insert(key(&object), object);
        }
    }
    all.into_values().collect()
}

struct Server {
    engine: Engine,
    builtin: Snapshot,
    objects: Objects,
}

/// By kind, namespace and name.
type Objects = BTreeMap<(String, String, String), Arc<Value>>;

impl Server {
    /// Without any object.
    fn bare(gates: &[&str], with_user: bool) -> Self {
        let keys = KeyHolder::default();
        if let Ok(key) = Keys::new(&[7; 32], None) {
            keys.set(key);
        }
        let settings = Settings {
            keys,
            gates: Gates::parse(gates).unwrap_or_default(),
            with_user,
            // the recorded server ran as this user
            exempt_users: vec!["admin".to_owned()],
            ..Settings::default()
        };
        let engine = Engine::new(settings, true);
        Self { engine, builtin: Snapshot::default(), objects: Objects::new() }
    }

    fn new(gates: &[&str], with_user: bool) -> Self {
        let mut server = Self::bare(gates, with_user);
        let Self { builtin, objects, .. } = &mut server;
        let mut specs: BTreeMap<String, Value> = BTreeMap::new();
        for (file, list) in [("definitions", true), ("definition-revisions", false)] {
            for object in builtin_objects(file) {
                if list {
                    define(builtin, SYSTEM, &object);
                    let name =
                        format!("{}/{}", text(&object, "/kind"), text(&object, "/metadata/name"));
                    specs.insert(name, object.get("spec").cloned().unwrap_or_default());
                } else {
                    let mut object = object;
                    restore(&mut object, &specs);
                    let name = text(&object, "/metadata/name").to_owned();
                    let key = ("DefinitionRevision".to_owned(), SYSTEM.to_owned(), name);
                    objects.insert(key, Arc::new(object));
                }
            }
        }
        server
    }

    fn answer(&self, record: &Value) -> Value {
        let id = record.get("id");
        let path = text(record, "/path").split('?').next().unwrap_or_default();
        let mut body = match (record.get("review"), record.get("raw").and_then(Value::as_str)) {
            (Some(review), _) if !review.is_null() => review.to_string(),
            (_, raw) => raw.unwrap_or_default().to_owned(),
        };
        if let Some(pad) = record.get("pad").and_then(Value::as_u64) {
            body.extend(std::iter::repeat_n(' ', usize::try_from(pad).unwrap_or_default()));
        }
        let content_type = match record.get("contentType") {
            None => Some("application/json"),
            Some(value) => value.as_str(),
        };
        if path == "/convert" {
            let status = if convert(body.as_bytes()).is_some() { 200 } else { 400 };
            return json!({ "id": id, "httpStatus": status });
        }
        let Some(endpoint) = endpoints().find(|endpoint| endpoint.path == path) else {
            return json!({ "id": id, "httpStatus": 404 });
        };
        let mut snapshot = self.builtin.clone();
        let mut objects = self.objects.clone();
        fixtures(record, &mut snapshot, &mut objects);
        let (_, decision) =
            self.engine.review(endpoint, content_type, body.as_bytes(), &snapshot, |need| {
                know(need, &objects)
            });
        json!({
            "id": id,
            "httpStatus": 200,
            "allowed": decision.allowed,
            "code": decision.code,
            "message": decision.message,
            "warnings": decision.warnings,
            "patch": decision.patch.as_ref().map(without_seal),
        })
    }
}

/// The patch without the seal, which the reference does not have.
fn without_seal(patch: &json_patch::Patch) -> Value {
    let key = annotation::STAMP;
    let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let operations = patch.iter().filter(|operation| operation.path().as_str() != path);
    let mut operations: Vec<Value> = operations.map(|operation| json!(operation)).collect();
    for operation in &mut operations {
        // The whole map, where there was none.
        if let Some(map) = operation.get_mut("value").and_then(Value::as_object_mut) {
            map.remove(key);
        }
    }
    Value::Array(operations)
}

/// The material says of a spec that it is that of a definition instead of repeating it.
fn restore(revision: &mut Value, specs: &BTreeMap<String, Value>) {
    for kind in DefinitionKind::WITH_REVISIONS {
        let spec = revision
            .pointer_mut("/spec")
            .and_then(|spec| spec.get_mut(kind.revision_field()))
            .and_then(|definition| definition.get_mut("spec"));
        if let Some(spec) = spec
            && let Some(same) = spec.get("$same_spec_as").and_then(Value::as_str)
            && let Some(stored) = specs.get(same)
        {
            *spec = stored.clone();
        }
    }
}

/// The reference's own built-in definitions, as the conformance material has them.
fn builtin_objects(file: &str) -> Vec<Value> {
    let Some(dir) = material::conformance() else { return Vec::new() };
    let path = dir.join("recordings/definitions/builtin").join(format!("{file}.jsonl"));
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn kind(object: &Value) -> Option<DefinitionKind> {
    let name = text(object, "/kind");
    DefinitionKind::WITH_REVISIONS.into_iter().find(|kind| kind.kind() == name)
}

fn define(snapshot: &mut Snapshot, namespace: &str, object: &Value) {
    if let Some(kind) = kind(object)
        && let Some(definition) = Definition::new(kind, object)
    {
        let name = text(object, "/metadata/name");
        snapshot.insert(kind, namespace, name, Arc::new(definition));
    }
}

fn fixtures(record: &Value, snapshot: &mut Snapshot, objects: &mut Objects) {
    let list = |key: &str| record.get(key).and_then(Value::as_array).into_iter().flatten();
    let refused: Vec<&str> =
        list("fixturesRefused").map(|refused| text(refused, "/object")).collect();
    let mut revisions: BTreeMap<(&str, &str), (u32, Value)> = BTreeMap::new();
    for object in list("fixtures") {
        let (kind_name, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        if refused.contains(&format!("{kind_name}/{name}").as_str()) {
            continue;
        }
        let namespace = match text(object, "/metadata/namespace") {
            "" => CASE,
            other => other,
        };
        define(snapshot, namespace, object);
        if let Some(kind) = kind(object) {
            let spec = object.get("spec").cloned().unwrap_or_default();
            let entry = revisions.entry((kind_name, name)).or_insert((0, Value::Null));
            if entry.1 == spec {
                continue;
            }
            *entry = (entry.0 + 1, spec);
            let pinned = object
                .pointer("/metadata/annotations")
                .and_then(|map| map.get("definitionrevision.oam.dev/name"))
                .and_then(Value::as_str)
                .unwrap_or_default();
            let revision = match (text(object, "/spec/version"), pinned) {
                ("", "") => entry.0.to_string(),
                ("", pinned) => pinned.to_owned(),
                (version, _) => version.to_owned(),
            };
            let revision_name = format!("{name}-v{revision}");
            let stored = json!({
                "kind": "DefinitionRevision",
                "metadata": {
                    "name": revision_name,
                    "namespace": namespace,
                    "labels": { kind.revision_label(): name },
                },
                "spec": {
                    "definitionType": kind.kind().trim_end_matches("Definition"),
                    kind.revision_field(): object,
                },
            });
            let key = ("DefinitionRevision".to_owned(), namespace.to_owned(), revision_name);
            objects.insert(key, Arc::new(stored));
        }
        // definitions of a record are in the snapshot
        if kind(object).is_none() {
            let key = (kind_name.to_owned(), namespace.to_owned(), name.to_owned());
            objects.insert(key, Arc::new(object.clone()));
        }
    }
}

fn know(need: &Need, objects: &Objects) -> Fact {
    match need {
        Need::Object { kind: ObjectKind::Definition(_), .. } => Fact::Object(None),
        Need::Object { kind, namespace, name } => {
            let (_, kind, _) = kind.resource();
            let key = (kind.to_owned(), namespace.clone(), name.clone());
            Fact::Object(objects.get(&key).cloned())
        }
        Need::Release { .. } | Need::Clusters { .. } => Fact::Object(None),
        Need::Revisions { kind, namespace, name } => {
            let label = kind.revision_label();
            Fact::Objects(
                objects
                    .iter()
                    .filter(|((of, at, _), object)| {
                        of == "DefinitionRevision"
                            && at == namespace
                            && object
                                .pointer("/metadata/labels")
                                .and_then(|labels| labels.get(label))
                                .and_then(Value::as_str)
                                == Some(name)
                    })
                    .map(|(_, object)| Arc::clone(object))
                    .collect(),
            )
        }
        Need::Permission { groups, .. } => {
            Fact::Allowed(groups.iter().any(|group| group == "system:masters"))
        }
        Need::Resource { api_version, kind } => Fact::Resource(
            served().find(|one| one.api_version == *api_version && one.kind == *kind),
        ),
        Need::Named { group, name } => {
            let in_group = |one: &Resource| group.is_empty() || one.group() == group;
            let is_named =
                |one: &Resource| one.plural == *name || one.kind.eq_ignore_ascii_case(name);
            match served().find(|one| in_group(one) && is_named(one)) {
                Some(resource) => Fact::Resource(Some(resource)),
                None => {
                    let names: Vec<String> =
                        served().filter(|one| in_group(one)).map(|one| one.plural).collect();
                    let nearest = vela_serve::nearest(name, names.iter().map(String::as_str));
                    Fact::NoResource(nearest.map(str::to_owned))
                }
            }
        }
        Need::Exists { kind, namespace, name, .. } => {
            Fact::Exists(objects.contains_key(&(kind.clone(), namespace.clone(), name.clone())))
        }
    }
}

/// What an API server of the recordings' version serves, as far as the records ask.
#[rustfmt::skip]
const SERVED: &[(&str, &[&str])] = &[
    ("v1", &["ConfigMap", "Secret", "Service", "Pod", "Namespace", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "Endpoints", "Event", "LimitRange", "Node", "PodTemplate", "ReplicationController", "ResourceQuota"]),
    ("apps/v1", &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision"]),
    ("batch/v1", &["Job", "CronJob"]),
    ("networking.k8s.io/v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("autoscaling/v1", &["HorizontalPodAutoscaler"]),
    ("autoscaling/v2", &["HorizontalPodAutoscaler"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io/v1", &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]),
    ("storage.k8s.io/v1", &["StorageClass", "VolumeAttachment", "CSIDriver", "CSINode"]),
    ("coordination.k8s.io/v1", &["Lease"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"]),
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("core.oam.dev/v1beta1", &["Application", "ApplicationRevision", "ResourceTracker", "ComponentDefinition", "TraitDefinition", "PolicyDefinition", "WorkflowStepDefinition", "WorkloadDefinition", "DefinitionRevision"]),
    ("core.oam.dev/v1alpha1", &["Policy", "Workflow"]),
];

/// Kinds of the list that live in no namespace, as far as the records ask.
const CLUSTER_WIDE: [&str; 12] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "IngressClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "VolumeAttachment",
    "CSIDriver",
    "CSINode",
    "PriorityClass",
    "CustomResourceDefinition",
];

fn served() -> impl Iterator<Item = Resource> {
    SERVED.iter().flat_map(|(api_version, kinds)| {
        kinds.iter().map(|kind| Resource {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            plural: plural(kind),
            namespaced: !CLUSTER_WIDE.contains(kind),
            verbs: Vec::new(),
        })
    })
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with("ss") => format!("{lower}es"),
        None if lower.ends_with('s') => lower,
        None => format!("{lower}s"),
    }
}
