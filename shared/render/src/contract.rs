//! Labels, annotations, names and namespaces of rendered objects.

use crate::context::App;
use crate::definition::converted_type;
use crate::render::Rendered;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

const NAME: &str = "app.oam.dev/name";
const COMPONENT: &str = "app.oam.dev/component";
const APP_REVISION: &str = "app.oam.dev/appRevision";
const NAMESPACE: &str = "app.oam.dev/namespace";
const RESOURCE_TYPE: &str = "app.oam.dev/resourceType";
const WORKLOAD_TYPE: &str = "workload.oam.dev/type";
pub(crate) const TRAIT_TYPE: &str = "trait.oam.dev/type";
pub(crate) const TRAIT_RESOURCE: &str = "trait.oam.dev/resource";
const FILTER_LABELS: &str = "filter.oam.dev/label-keys";
const FILTER_ANNOTATIONS: &str = "filter.oam.dev/annotation-keys";

/// Annotations no object gets, not even from its template.
const NEVER: [&str; 4] = [
    "app.oam.dev/inplace-upgrade",
    FILTER_LABELS,
    FILTER_ANNOTATIONS,
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// What an object is to its component.
#[derive(Clone, Copy, Debug)]
enum Role<'a> {
    Workload { component_type: &'a str },
    Auxiliary { trait_type: &'a str, resource: &'a str },
}

/// Gives the labels of rendering to all objects: Application, component, revision, type.
pub fn label(rendered: &mut Rendered, app: &App, component: &str, component_type: &str) {
    let kind = converted_type(component_type);
    render_labels(&mut rendered.workload, app, component, Role::Workload { component_type: &kind });
    for auxiliary in &mut rendered.auxiliaries {
        let role = Role::Auxiliary { trait_type: &auxiliary.kind, resource: &auxiliary.name };
        render_labels(&mut auxiliary.object, app, component, role);
    }
}

/// Everything objects get before they are dispatched: labels, the Application's own labels and
/// annotations, names and namespaces. `app.namespace` is the Application's.
pub fn apply(rendered: &mut Rendered, app: &App, component: &str, component_type: &str) {
    label(rendered, app, component, component_type);
    let labels = shared_labels(app, component);
    finish(&mut rendered.workload, app, &labels, "WORKLOAD", |_| component.to_owned());
    let reference = workload_reference(&rendered.workload);
    for auxiliary in &mut rendered.auxiliaries {
        let kind = auxiliary.kind.clone();
        finish(&mut auxiliary.object, app, &labels, "TRAIT", |object| {
            auxiliary_name(component, &kind, object)
        });
        if let Some(path) = &auxiliary.workload_ref_path {
            set_path(&mut auxiliary.object, path, reference.clone());
        }
    }
}

/// What a trait's object is told about the workload.
fn workload_reference(workload: &Json) -> Json {
    let text = |pointer: &str| {
        workload.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned()
    };
    json!({
        "apiVersion": text("/apiVersion"),
        "kind": text("/kind"),
        "name": text("/metadata/name"),
    })
}

/// Sets a field at a dotted path such as `spec.workloadRef`.
fn set_path(object: &mut Json, path: &str, value: Json) {
    match path.split_once('.') {
        None => with_map(object, |fields| {
            fields.insert(path.to_owned(), value);
        }),
        Some((first, rest)) => with_map(object, |fields| {
            set_path(fields.entry(first).or_insert(Json::Null), rest, value);
        }),
    }
}

fn render_labels(object: &mut Json, app: &App, component: &str, role: Role<'_>) {
    with_metadata_map(object, "labels", |labels| {
        // Labels are text; a map with anything else in it is no map of labels.
        if labels.values().any(|value| !value.is_string()) {
            labels.clear();
        }
        role_labels(labels, app, component, role);
    });
}

fn role_labels(labels: &mut Map<String, Json>, app: &App, component: &str, role: Role<'_>) {
    let mut set = |key: &str, value: &str| {
        labels.insert(key.to_owned(), value.into());
    };
    match role {
        Role::Workload { component_type } => set(WORKLOAD_TYPE, component_type),
        Role::Auxiliary { trait_type, resource } => {
            if !trait_type.is_empty() {
                set(TRAIT_TYPE, trait_type);
            }
            if !resource.is_empty() {
                set(TRAIT_RESOURCE, resource);
            }
        }
    }
    set(NAME, &app.name);
    set(COMPONENT, component);
    set(APP_REVISION, &app.revision);
}

/// The labels every object gets whatever it is; the Application may hold some back.
fn shared_labels(app: &App, component: &str) -> BTreeMap<String, String> {
    let mut labels = app.labels.clone();
    for (key, value) in [
        (NAME, app.name.as_str()),
        (COMPONENT, component),
        (APP_REVISION, &app.revision),
        (NAMESPACE, &app.namespace),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    if let Some(filter) = app.annotations.get(FILTER_LABELS) {
        for key in filter.split(',') {
            labels.remove(key.trim());
        }
    }
    labels
}

fn finish(
    object: &mut Json,
    app: &App,
    labels: &BTreeMap<String, String>,
    resource_type: &str,
    name: impl FnOnce(&Json) -> String,
) {
    let has_name = object
        .pointer("/metadata/name")
        .and_then(Json::as_str)
        .is_some_and(|name| !name.is_empty());
    if !has_name {
        let name = name(object);
        with_metadata(object, |metadata| metadata.insert("name".into(), name.into()));
    }
    with_metadata_map(object, "labels", |target| {
        target.insert(RESOURCE_TYPE.to_owned(), resource_type.into());
        for (key, value) in labels {
            target.insert(key.clone(), value.clone().into());
        }
    });
    annotate(object, app);
    namespace(object, &app.namespace);
}

fn annotate(object: &mut Json, app: &App) {
    let has_own = object.pointer("/metadata/annotations").is_some_and(|a| !a.is_null());
    if app.annotations.is_empty() && !has_own {
        return;
    }
    let none_left = with_metadata_map(object, "annotations", |target| {
        for (key, value) in &app.annotations {
            target.insert(key.clone(), value.clone().into());
        }
        for key in NEVER {
            target.remove(key);
        }
        if let Some(filter) = app.annotations.get(FILTER_ANNOTATIONS) {
            for key in filter.split(',') {
                target.remove(key);
            }
        }
        target.is_empty()
    });
    if none_left {
        with_metadata(object, |metadata| metadata.remove("annotations"));
    }
}

fn namespace(object: &mut Json, namespace: &str) {
    let is_namespace = object.get("kind").and_then(Json::as_str) == Some("Namespace")
        && object.get("apiVersion").and_then(Json::as_str) == Some("v1");
    let has_one =
        object.pointer("/metadata/namespace").and_then(Json::as_str).is_some_and(|n| !n.is_empty());
    if !has_one && !is_namespace {
        with_metadata(object, |metadata| metadata.insert("namespace".into(), namespace.into()));
    }
}

/// The name of an object whose template gives none: component, trait and a hash of the object.
fn auxiliary_name(component: &str, kind: &str, object: &Json) -> String {
    let middle = if kind.is_empty() { "trait".to_owned() } else { kind.to_lowercase() };
    let mut hashed = object.clone();
    if let Some(labels) = hashed.pointer_mut("/metadata/labels").and_then(Json::as_object_mut) {
        labels.remove(APP_REVISION);
    }
    format!("{component}-{middle}-{}", vela_gocompat::spew::name_hash(&hashed))
}

/// Changes the object's metadata; what is no object becomes one.
fn with_metadata<R>(object: &mut Json, change: impl FnOnce(&mut Map<String, Json>) -> R) -> R {
    with_map(object, |fields| with_map(fields.entry("metadata").or_insert(Json::Null), change))
}

fn with_metadata_map<R>(
    object: &mut Json,
    key: &str,
    change: impl FnOnce(&mut Map<String, Json>) -> R,
) -> R {
    with_metadata(object, |metadata| with_map(metadata.entry(key).or_insert(Json::Null), change))
}

fn with_map<R>(value: &mut Json, change: impl FnOnce(&mut Map<String, Json>) -> R) -> R {
    if let Json::Object(map) = value {
        return change(map);
    }
    let mut map = Map::new();
    let result = change(&mut map);
    *value = Json::Object(map);
    result
}
