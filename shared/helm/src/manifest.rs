//! From rendered texts to objects: documents are separated, read, and put into the order in which they are installed.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use crate::chart::{DecodeError, Fields};
use crate::hooks::{HOOK_ANNOTATION, Hook};
use crate::yaml;

/// A document of a rendered file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The path of its file, from the root chart's name on.
    pub source: String,
    /// Its text, without white space around.
    pub text: String,
    /// The object; null if there are only comments.
    pub object: Value,
    kind: String,
    /// Its name, as hooks are ordered by it.
    pub(crate) name: String,
}

/// A document that cannot be read, in the file of a path.
#[derive(Debug, thiserror::Error)]
#[error("YAML parse error on {path}: {error}")]
pub struct ManifestError {
    /// The path of the file.
    pub path: String,
    /// What is wrong in it.
    #[source]
    pub error: DecodeError,
}

/// Kinds in the order in which they are installed. Others come after them.
const INSTALL_ORDER: [&str; 35] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
];
/// The last of the known kinds.
const LAST: &str = "APIService";

fn rank(kind: &str) -> usize {
    let known = INSTALL_ORDER.iter().position(|known| *known == kind);
    known.unwrap_or(INSTALL_ORDER.len() + usize::from(kind != LAST))
}

/// Known kinds in their order, others by name, equal ones as they came.
pub(crate) fn install_order(a: &str, b: &str) -> Ordering {
    let ranks = rank(a).cmp(&rank(b));
    let unknown = rank(a) > INSTALL_ORDER.len();
    ranks.then_with(|| if unknown { a.cmp(b) } else { Ordering::Equal })
}

/// The documents of the files and the hooks among them, each in its order. Files are given by path; partials and blank
/// files have no documents.
pub(crate) fn sort<'t, T: Into<Cow<'t, str>>>(
    files: impl IntoIterator<Item = (&'t str, T)>,
) -> Result<(Vec<Document>, Vec<Hook>), ManifestError> {
    let mut files: Vec<(&str, T)> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| *path);
    let (mut documents, mut hooks) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let base = path.rsplit('/').next().unwrap_or_default();
        if base.starts_with('_') {
            continue;
        }
        let text: Cow<'t, str> = text.into();
        for part in split(&text) {
            let (document, annotations) = head(path, part)?;
            let Some(events) = annotations.get(HOOK_ANNOTATION) else {
                documents.push(document);
                continue;
            };
            // A hook for an event that nobody knows belongs to nothing.
            if let Some(hook) = Hook::new(document, events, &annotations) {
                hooks.push(hook);
            }
        }
    }
    documents.sort_by(|a, b| install_order(&a.kind, &b.kind));
    hooks.sort_by(|a, b| install_order(&a.document.kind, &b.document.kind));
    Ok((documents, hooks))
}

type Annotations = std::collections::BTreeMap<String, String>;

fn head(path: &str, text: &str) -> Result<(Document, Annotations), ManifestError> {
    let wrong = |error: DecodeError| ManifestError { path: path.to_owned(), error };
    let object = yaml::read(text).map_err(|error| wrong(error.into()))?;
    let mut document = Document {
        source: path.to_owned(),
        text: text.to_owned(),
        object: Value::Null,
        kind: String::new(),
        name: String::new(),
    };
    let mut annotations = Annotations::new();
    let fields =
        Fields::document(&object, "SimpleHead", "releaseutil.SimpleHead").map_err(wrong)?;
    if let Some(fields) = fields {
        fields.string("apiVersion").map_err(wrong)?;
        document.kind = fields.string("kind").map_err(wrong)?;
        const METADATA: &str = r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;
        if let Some(metadata) = fields.inner("metadata", ".metadata", METADATA).map_err(wrong)? {
            document.name = metadata.string("name").map_err(wrong)?;
            annotations = metadata.string_map("annotations").map_err(wrong)?;
        }
    }
    document.object = object;
    Ok((document, annotations))
}

/// The documents of a text: what lies between lines that begin with `---`, without white space around; blank ones are
/// left out.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim();
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices("---") {
        // The line break before a separator belongs to it: that behind another one is taken already.
        let line_start =
            at == 0 || text.get(start..at).is_some_and(|before| before.ends_with('\n'));
        if at >= start && line_start {
            parts.push(text.get(start..at).unwrap_or_default());
            let rest = text.get(at + 3..).unwrap_or_default();
            let blank = |char| matches!(char, ' ' | '\t' | '\n' | '\u{c}' | '\r');
            start = text.len() - rest.trim_start_matches(blank).len();
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<String> {
        let (documents, _) = sort([("c/templates/a.yaml", text)]).unwrap();
        documents.into_iter().map(|document| document.kind).collect()
    }

    #[test]
    fn documents_are_separated_at_lines() {
        let parts: Vec<&str> = split("\n---\na: 1\n---\n\n--- # c\nb: '---'\n---x: 1\n").collect();
        assert_eq!(parts, ["a: 1", "--- # c\nb: '---'", "x: 1"]);
    }

    #[test]
    fn known_kinds_come_first_in_their_order() {
        let text = ["Zebra", "Deployment", "APIService", "Apple", "Namespace", "Service"]
            .map(|kind| format!("kind: {kind}"))
            .join("\n---\n");
        let want = ["Namespace", "Service", "Deployment", "APIService", "Apple", "Zebra"];
        assert_eq!(kinds(&text), want);
    }

    #[test]
    fn documents_of_another_shape_name_their_file() {
        for (text, want) in [
            ("- 1", "cannot unmarshal array into Go value of type releaseutil.SimpleHead"),
            ("kind: [1]", "Go struct field SimpleHead.kind of type string"),
            (
                "metadata: {annotations: [1]}",
                "field .metadata.annotations of type map[string]string",
            ),
        ] {
            let error = sort([("c/templates/a.yaml", text)]).unwrap_err().to_string();
            assert!(error.starts_with("YAML parse error on c/templates/a.yaml: "), "{error}");
            assert!(error.ends_with(want), "{error}");
        }
    }
}
