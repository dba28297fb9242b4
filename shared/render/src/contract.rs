//! Labels, annotations, names and namespaces of rendered objects.

use crate::context::App;
use crate::definition::{Stage, converted_type};
use crate::render::{Auxiliary, Rendered};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use vela_api::names::annotation;

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
    apply_to(rendered, app, (component, component_type), |_| false);
}

/// As [`apply`] for a dispatch in stages: the reference brings what comes last, PostDispatch, to the
/// cluster by itself, without the Application's own labels and annotations.
pub fn apply_in_stages(rendered: &mut Rendered, app: &App, component: &str, component_type: &str) {
    apply_to(rendered, app, (component, component_type), |auxiliary| {
        auxiliary.stage == Stage::PostDispatch
    });
}

fn apply_to(
    rendered: &mut Rendered,
    app: &App,
    (component, component_type): (&str, &str),
    is_last: impl Fn(&Auxiliary) -> bool,
) {
    label(rendered, app, component, component_type);
    let labels = shared_labels(app, component);
    set_name(&mut rendered.workload, |_| component.to_owned());
    finish(&mut rendered.workload, app, &labels, "WORKLOAD");
    let reference = workload_reference(&rendered.workload);
    for auxiliary in &mut rendered.auxiliaries {
        let kind = &auxiliary.kind;
        set_name(&mut auxiliary.object, |object| auxiliary_name(component, kind, object));
        if is_last(auxiliary) {
            with_metadata_map(&mut auxiliary.object, "labels", |labels| {
                labels.insert(NAMESPACE.to_owned(), app.namespace.as_str().into());
            });
            namespace(&mut auxiliary.object, &app.namespace);
        } else {
            finish(&mut auxiliary.object, app, &labels, "TRAIT");
        }
        if let Some(path) = &auxiliary.workload_ref_path {
            set_path(&mut auxiliary.object, path, reference.clone());
        }
    }
}

/// What a trait's object learns about the workload.
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
    labels.retain(|key, _| !app.not_inherited.matches(key));
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

/// Names an object that its template did not name.
fn set_name(object: &mut Json, name: impl FnOnce(&Json) -> String) {
    let has_name = object
        .pointer("/metadata/name")
        .and_then(Json::as_str)
        .is_some_and(|name| !name.is_empty());
    if !has_name {
        let name = name(object);
        with_metadata(object, |metadata| metadata.insert("name".into(), name.into()));
    }
}

fn finish(object: &mut Json, app: &App, labels: &BTreeMap<String, String>, resource_type: &str) {
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
        let inherited = |(key, _): &(&String, &String)| {
            !annotation::NOT_INHERITED.contains(&key.as_str()) && !app.not_inherited.matches(key)
        };
        for (key, value) in app.annotations.iter().filter(inherited) {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_speaks_of_the_application_alone_is_not_inherited() {
        let texts = |key: &&str| ((*key).to_owned(), "x".to_owned());
        let mut all: BTreeMap<String, String> =
            annotation::NOT_INHERITED.iter().map(texts).collect();
        all.insert("example.com/tier".to_owned(), "gold".to_owned());
        let app = App { annotations: all, ..App::default() };
        let mut object = json!({"metadata": {"annotations": {annotation::USERNAME: "own"}}});
        annotate(&mut object, &app);
        let wanted = json!({"example.com/tier": "gold", annotation::USERNAME: "own"});
        assert_eq!(object["metadata"]["annotations"], wanted);
    }

    #[test]
    fn keys_of_gitops_tools_stay_where_a_template_set_them() {
        let key = |key: &str| (key.to_owned(), "argo".to_owned());
        let (instance, sync) = ("app.kubernetes.io/instance", "argocd.argoproj.io/sync-wave");
        let app = App {
            labels: BTreeMap::from([key(instance), key("team")]),
            annotations: BTreeMap::from([key(sync), key("note")]),
            not_inherited: vela_api::KeyPatterns::new(vela_api::names::GITOPS_KEYS).into(),
            ..App::default()
        };
        let mut own =
            json!({"metadata": {"labels": {instance: "mine"}, "annotations": {sync: "1"}}});
        finish(&mut own, &app, &shared_labels(&app, "c"), "WORKLOAD");
        assert_eq!(own["metadata"]["labels"][instance], "mine");
        assert_eq!(own["metadata"]["annotations"], json!({sync: "1", "note": "argo"}));
        let mut other = json!({});
        finish(&mut other, &app, &shared_labels(&app, "c"), "WORKLOAD");
        assert_eq!(other["metadata"]["labels"][instance], Json::Null);
        assert_eq!(other["metadata"]["labels"]["team"], "argo");
        assert_eq!(other["metadata"]["annotations"], json!({"note": "argo"}));
        // Without patterns everything is inherited, as in the reference.
        let app = App { not_inherited: Arc::default(), ..app };
        finish(&mut other, &app, &shared_labels(&app, "c"), "WORKLOAD");
        assert_eq!(other["metadata"]["labels"][instance], "argo");
    }

    #[test]
    fn what_comes_last_has_less_on_it() {
        let map = |key: &str| BTreeMap::from([(key.to_owned(), "x".to_owned())]);
        let app = App {
            name: "a".to_owned(),
            namespace: "n".to_owned(),
            revision: "a-v1".to_owned(),
            labels: map("team"),
            annotations: map("note"),
            ..App::default()
        };
        let auxiliary = |stage| Auxiliary {
            name: "service".to_owned(),
            kind: "expose".to_owned(),
            trait_index: Some(0),
            stage,
            workload_ref_path: None,
            object: json!({"apiVersion": "v1", "kind": "Service", "metadata": {
                "labels": {"own": "y"}, "annotations": {"mine": "z"}}}),
        };
        let mut rendered = Rendered {
            workload: json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            auxiliaries: vec![auxiliary(Stage::DefaultDispatch), auxiliary(Stage::PostDispatch)],
            warnings: Vec::new(),
        };
        apply_in_stages(&mut rendered, &app, "web", "webservice");
        let keys = |index: usize, map: &str| -> Vec<String> {
            let map = &rendered.auxiliaries[index].object["metadata"][map];
            map.as_object().unwrap().keys().cloned().collect()
        };
        let of_rendering =
            [APP_REVISION, COMPONENT, NAME, NAMESPACE, "own", TRAIT_RESOURCE, TRAIT_TYPE];
        assert_eq!(keys(1, "labels"), of_rendering);
        assert_eq!(keys(1, "annotations"), ["mine"]);
        let mut all = of_rendering.map(str::to_owned).to_vec();
        all.extend([RESOURCE_TYPE.to_owned(), "team".to_owned()]);
        all.sort();
        assert_eq!(keys(0, "labels"), all);
        assert_eq!(keys(0, "annotations"), ["mine", "note"]);
        let namespace_of = |index: usize| {
            let metadata = &rendered.auxiliaries[index].object["metadata"];
            (metadata["name"].is_string(), metadata["namespace"].clone())
        };
        assert_eq!(namespace_of(1), (true, json!("n")));
        assert_eq!(namespace_of(0), namespace_of(1));
    }
}
