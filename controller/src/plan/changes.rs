//! The result of a plan: the objects that would be written, field by field, without values of Secrets.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use vela_apply::object::{api_version, kind, name, namespace};

use super::overlay::records::{Records, Refusal, Written};
use super::overlay::resource_path::ResourcePath;

/// Kinds whose objects hold what is lost with them.
const HOLDERS: [&str; 5] = [
    "PersistentVolumeClaim",
    "PersistentVolume",
    "Namespace",
    "CustomResourceDefinition",
    "StatefulSet",
];
/// Kinds whose Pods are replaced when their template changes.
const ROLLERS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
/// What the API server, and controllers that follow it, keep in an object.
const SERVER_METADATA: [&str; 7] = [
    "resourceVersion",
    "generation",
    "managedFields",
    "uid",
    "creationTimestamp",
    "selfLink",
    "deletionTimestamp",
];

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verb {
    /// It is made.
    Add,
    /// It is changed.
    Change,
    /// It is deleted and made again.
    Replace,
    /// It is deleted.
    Delete,
    /// Nothing of it changes but what the control plane notes on it.
    Note,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    /// The cluster it is in; empty: that of the Application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// What changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    /// Pods that are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restarts: Option<i64>,
    /// What is lost with it cannot be made again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) holds_data: bool,
    /// The API server could not check it, since what it needs is planned too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unchecked: bool,
}

/// A field that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Field {
    pub(crate) path: String,
    /// `None`: it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Value>,
    /// Its values are those of a Secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) secret: bool,
}

/// An object that would be refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    /// The cluster that would refuse it; empty: that of the Application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster: String,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) message: String,
}

impl Change {
    /// Changes are shown in this order: those of kinds together, and those of one object in several clusters.
    pub(crate) fn order(&self) -> impl Ord {
        (self.verb, &self.kind, &self.namespace, &self.name, &self.cluster)
    }
}

/// All changes in a cluster.
pub(crate) fn changes(records: &Records, cluster: &str) -> Vec<Change> {
    let written = records.objects.values().filter(|written| !written.is_record);
    written.filter_map(|written| change(written, cluster)).collect()
}

/// What a cluster refuses, by object.
pub(crate) fn refusals(records: &Records, cluster: &str) -> Vec<Refused> {
    let refused = |(place, refusal): (&ResourcePath, &Refusal)| Refused {
        cluster: cluster.to_owned(),
        kind: refusal.kind.clone(),
        namespace: place.namespace.clone(),
        name: place.name.clone(),
        // The API server quotes what it does not take.
        message: if refusal.kind == "Secret" {
            // A plan is read by people who may not read the Secret, and ends up in comments of
            // merge requests.
            "refused; the message is not shown, it may quote the Secret".to_owned()
        } else {
            refusal.message.clone()
        },
    };
    records.refused.iter().map(refused).collect()
}

fn change(written: &Written, cluster: &str) -> Option<Change> {
    let object = written.after.as_ref().or(written.before.as_ref())?;
    let uid = |object: &Option<Value>| {
        object.as_ref().and_then(|it| it.pointer("/metadata/uid").cloned())
    };
    let mut fields = Vec::new();
    let verb = match (&written.before, &written.after) {
        (None, None) => return None,
        (None, Some(_)) => Verb::Add,
        (Some(_), None) => Verb::Delete,
        (Some(before), Some(after)) => {
            let is_secret = kind(object) == "Secret";
            fields = differences(&shown(before), &shown(after), is_secret);
            // A new uid is a new object, even if no field differs: what it held is gone.
            if uid(&written.before) != uid(&written.after) {
                Verb::Replace
            } else if fields.is_empty() {
                Verb::Note
            } else {
                Verb::Change
            }
        }
    };
    let is_template = |field: &Field| field.path.starts_with("spec.template.");
    let rolls = ROLLERS.contains(&kind(object)) && fields.iter().any(is_template);
    let count = |pointer: &str| {
        written.before.as_ref().and_then(|before| before.pointer(pointer)).and_then(Value::as_i64)
    };
    let pods = || {
        count("/status/replicas")
            // The Pods that run, if the status says so; the spec's number may belong to an
            // autoscaler.
            .or_else(|| count("/status/currentNumberScheduled"))
            .or_else(|| count("/spec/replicas"))
    };
    // Data are lost with the object, not by a change of it.
    let loses = matches!(verb, Verb::Delete | Verb::Replace);
    Some(Change {
        verb,
        cluster: cluster.to_owned(),
        api_version: api_version(object).to_owned(),
        kind: kind(object).to_owned(),
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
        fields,
        restarts: rolls.then(|| pods().unwrap_or_default()),
        holds_data: loses && HOLDERS.contains(&kind(object)),
        unchecked: written.unchecked,
    })
}

/// An object without what the API server and the control plane keep in it.
fn shown(object: &Value) -> Value {
    let Some(map) = object.as_object() else { return object.clone() };
    let mut map = map.clone();
    map.remove("status");
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in SERVER_METADATA {
            metadata.remove(key);
        }
        for section in ["labels", "annotations"] {
            let Some(entries) = metadata.get_mut(section).and_then(Value::as_object_mut) else {
                continue;
            };
            entries.retain(|key, _| !is_noted(key));
            if entries.is_empty() {
                metadata.remove(section);
            }
        }
    }
    Value::Object(map)
}

/// Labels and annotations by which the control plane knows its objects, and those of the controllers behind a workload.
fn is_noted(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    domain == "oam.dev" || domain.ends_with(".oam.dev") || domain == "deployment.kubernetes.io"
}

/// The fields in which two objects differ.
pub(crate) fn differences(before: &Value, after: &Value, is_secret: bool) -> Vec<Field> {
    let mut fields = Vec::new();
    compare(String::new(), Some(before), Some(after), is_secret, &mut fields);
    fields
}

fn compare(
    path: String,
    before: Option<&Value>,
    after: Option<&Value>,
    is_secret: bool,
    out: &mut Vec<Field>,
) {
    if before == after {
        return;
    }
    let below =
        |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{}", label(key)) };
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(below(key), old.get(key), new.get(key), is_secret, out);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            // Containers and variables are known by name: an element put in front must not show all
            // others as changed.
            if let (Some(old), Some(new)) = (named(old), named(new)) {
                let mut names: Vec<&str> = old.iter().map(|(name, _)| *name).collect();
                names.extend(
                    new.iter()
                        .map(|(name, _)| *name)
                        .filter(|name| !old.iter().any(|(other, _)| other == name)),
                );
                let find = |list: &[(&str, &Value)], name: &str| {
                    list.iter().find(|(other, _)| *other == name).map(|(_, item)| (*item).clone())
                };
                for name in names {
                    let (one, other) = (find(&old, name), find(&new, name));
                    compare(
                        format!("{path}[{name}]"),
                        one.as_ref(),
                        other.as_ref(),
                        is_secret,
                        out,
                    );
                }
                return;
            }
            for index in 0..old.len().max(new.len()) {
                compare(format!("{path}[{index}]"), old.get(index), new.get(index), is_secret, out);
            }
        }
        _ => {
            // Annotations hold copies of it: what was last applied.
            let secret = is_secret && path != "type" && !path.starts_with("metadata.labels");
            let value = |value: Option<&Value>| value.filter(|_| !secret).cloned();
            out.push(Field { before: value(before), after: value(after), path, secret });
        }
    }
}

/// A key as part of a path.
fn label(key: &str) -> String {
    // Keys of labels have dots and slashes, which would read as steps of the path.
    if key.contains(['.', '/']) { format!("{key:?}") } else { key.to_owned() }
}

/// The elements of a list by their names, if each has one of its own.
fn named(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let name = |item: &'_ Value| item.get("name").and_then(Value::as_str).is_some();
    if list.is_empty() || !list.iter().all(name) {
        return None;
    }
    let mut out: Vec<(&str, &Value)> = Vec::with_capacity(list.len());
    for item in list {
        let name = item.get("name").and_then(Value::as_str)?;
        // With two of one name it is not clear which became which.
        if out.iter().any(|(other, _)| *other == name) {
            return None;
        }
        out.push((name, item));
    }
    Some(out)
}

/// How often each verb occurs.
pub(crate) fn counts(changes: &[Change]) -> BTreeMap<Verb, usize> {
    let mut counts = BTreeMap::new();
    for change in changes {
        *counts.entry(change.verb).or_insert(0) += 1;
    }
    counts
}

/// A value in one line, at most so long.
pub(crate) fn short(value: Option<&Value>, longest: usize) -> String {
    let text = match value {
        None => "-".to_owned(),
        Some(Value::String(text)) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            text.clone()
        }
        Some(value) => value.to_string(),
    };
    if text.chars().count() <= longest {
        return text;
    }
    let cut: String = text.chars().take(longest.saturating_sub(3)).collect();
    format!("{cut}...")
}

/// An object in which nothing but what is shown counts, for comparisons of whole objects.
#[cfg(test)]
pub(crate) fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in SERVER_METADATA {
            metadata.remove(key);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(before: &Value, after: &Value) -> Vec<(String, String, String)> {
        let fields = differences(before, after, false);
        fields
            .iter()
            .map(|field| {
                (
                    field.path.clone(),
                    short(field.before.as_ref(), 40),
                    short(field.after.as_ref(), 40),
                )
            })
            .collect()
    }

    #[test]
    fn fields_are_named_as_people_name_them() {
        let pod = |image: &str, extra: &[&str]| {
            json!({"spec": {"template": {"spec": {"containers": [
                {"name": "web", "image": image, "args": extra}]}}}})
        };
        assert_eq!(
            paths(&pod("a:1", &["x"]), &pod("a:2", &["x", "y"])),
            [
                ("spec.template.spec.containers[web].args[1]".into(), "-".into(), "y".into()),
                ("spec.template.spec.containers[web].image".into(), "a:1".into(), "a:2".into()),
            ]
        );
        assert_eq!(
            paths(&json!({"metadata": {"labels": {"a.b/c": "1"}}}), &json!({"metadata": {}})),
            [("metadata.labels".into(), r#"{"a.b/c":"1"}"#.into(), "-".into())]
        );
        let twice = json!({"l": [{"name": "a", "v": 1}, {"name": "a", "v": 2}]});
        let other = json!({"l": [{"name": "a", "v": 1}, {"name": "a", "v": 3}]});
        assert_eq!(paths(&twice, &other), [("l[1].v".into(), "2".into(), "3".into())]);
    }

    #[test]
    fn values_of_secrets_are_nowhere() {
        let secret = |value: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n", "uid": "1"},
                "data": {"password": value}})
        };
        let written = Written {
            before: Some(secret("b2xk")),
            after: Some(secret("bmV3")),
            is_record: false,
            unchecked: false,
        };
        let change = change(&written, "").unwrap();
        let text = serde_json::to_string(&change).unwrap();
        assert!(!text.contains("b2xk") && !text.contains("bmV3"), "{text}");
        assert!(text.contains("data.password"), "{text}");
    }

    #[test]
    fn what_the_control_plane_notes_is_no_change_of_the_object() {
        let object = |revision: &str, image: &str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "1",
                "labels": {"app.oam.dev/appRevision": revision}},
                "spec": {"template": {"spec": {"image": image}}}, "status": {"replicas": 3}})
        };
        let of = |after: Value| {
            let before = Some(object("v1", "a"));
            let written =
                Written { before, after: Some(after), is_record: false, unchecked: false };
            change(&written, "").unwrap()
        };
        assert_eq!(of(object("v2", "a")).verb, Verb::Note);
        let changed = of(object("v2", "b"));
        assert_eq!((changed.verb, changed.restarts), (Verb::Change, Some(3)));
    }
}
