//! Converts the documents of a release to the objects of its component. Pure.

use serde_json::Value;
use vela_api::names;
use vela_apply::object::{
    api_version, kind, name, namespace, set_annotation, set_label, set_namespace,
};
use vela_apply::release as marks;

/// A document that is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {0} of the chart has no {1}")]
pub struct NoObject(usize, &'static str);

/// The objects of documents: lists are taken apart, comments left out, nulls dropped.
///
/// # Errors
/// A document without kind, version or name.
pub fn of(
    documents: Vec<Value>,
    release: &str,
    release_namespace: &str,
) -> Result<Vec<Value>, NoObject> {
    let mut out = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        for mut object in flat(document) {
            if object.is_null() {
                continue;
            }
            let missing = [
                (kind(&object), "kind"),
                (api_version(&object), "apiVersion"),
                (name(&object), "metadata.name"),
            ];
            if let Some((_, what)) = missing.into_iter().find(|(text, _)| text.is_empty()) {
                return Err(NoObject(index.saturating_add(1), what));
            }
            drop_nulls(&mut object);
            mark(&mut object, release, release_namespace);
            out.push(object);
        }
    }
    Ok(out)
}

/// Says whose object it is, as the Helm client looks for it.
pub fn mark(object: &mut Value, release: &str, release_namespace: &str) {
    // Helm puts objects without a namespace into that of the release.
    if namespace(object).is_empty() {
        // Kinds that have none lose it when they are dispatched.
        set_namespace(object, release_namespace);
    }
    set_label(object, "app.kubernetes.io/managed-by", "Helm");
    for (key, value) in
        [(marks::NAME, release), (marks::NAMESPACE, release_namespace), marks::OWNER]
    {
        set_annotation(object, key, value);
    }
}

fn flat(document: Value) -> Vec<Value> {
    // Kinds such as `ConfigMapList`: Kubernetes has no such objects, only answers of that kind.
    let is_list = kind(&document).ends_with("List") && document.get("items").is_some();
    if !is_list {
        return vec![document];
    }
    match document.get("items").cloned() {
        Some(Value::Array(items)) => items.into_iter().flat_map(flat).collect(),
        _ => Vec::new(),
    }
}

/// A null in a manifest means the same as nothing. Empty maps and lists do not: an empty selector selects everything.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Makes the Pods of a workload others for a revision: they are restarted.
pub fn restart(object: &mut Value, revision: i64) {
    // Of what has no Pods there is nothing to restart.
    if !matches!(kind(object), "Deployment" | "StatefulSet" | "DaemonSet") {
        return;
    }
    let template = object.pointer_mut("/spec/template").filter(|template| template.is_object());
    if let Some(template) = template {
        set_annotation(template, names::annotation::RELEASE_RESTARTED_FOR, &revision.to_string());
    }
}

/// Whether something else may need it to be there first.
#[must_use]
pub fn is_first(object: &Value) -> bool {
    matches!(kind(object), "Namespace" | "CustomResourceDefinition")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_objects() {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "p", "namespace": "other", "labels": null},
            "spec": {"podSelector": {}, "ingress": [], "egress": null}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("a"), map("b")]});
        let found = of(vec![list, Value::Null, policy], "r", "ns").unwrap();
        let names: Vec<&str> = found.iter().map(name).collect();
        assert_eq!(names, ["a", "b", "p"]);
        assert_eq!((namespace(&found[0]), namespace(&found[2])), ("ns", "other"));
        assert_eq!(found[2]["spec"], json!({"podSelector": {}, "ingress": []}));
        assert_eq!(found[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(found[0]["metadata"]["annotations"]["meta.helm.sh/release-name"], "r");
    }

    #[test]
    fn an_upgrade_restarts_pods() {
        let object = |kind: &str| {
            let mut object = json!({"kind": kind, "spec": {"template": {"spec": {}}}});
            restart(&mut object, 3);
            object
        };
        let key = "/spec/template/metadata/annotations/helm.oam.dev~1restarted-for";
        assert_eq!(object("Deployment").pointer(key), Some(&json!("3")));
        assert_eq!(object("Job").pointer(key), None, "a Job cannot be changed");
    }

    #[test]
    fn what_is_no_object() {
        for (document, text) in [
            (json!({"a": 1}), "document 1 of the chart has no kind"),
            (json!({"kind": "ConfigMap"}), "document 1 of the chart has no apiVersion"),
            (
                json!({"kind": "ConfigMap", "apiVersion": "v1"}),
                "document 1 of the chart has no metadata.name",
            ),
            (json!(1), "document 1 of the chart has no kind"),
        ] {
            assert_eq!(of(vec![document], "r", "ns").unwrap_err().to_string(), text);
        }
    }
}
