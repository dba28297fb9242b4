//! Marks of objects that come from a chart: which release they belong to, and whether they outlive it.

use serde_json::Value;

use crate::object::{annotation, api_version, kind, name, namespace};

/// Names the release of an object.
pub const NAME: &str = "meta.helm.sh/release-name";
/// Names the namespace of that release.
pub const NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// Says that the object is kept when its release no longer has it.
pub const POLICY: &str = "helm.sh/resource-policy";
/// Who brought an object to the cluster, and its value for charts.
pub const OWNER: (&str, &str) = ("app.oam.dev/owner", "helm-provider");

fn is_ours(manifest: &Value) -> bool {
    annotation(manifest, OWNER.0) == Some(OWNER.1)
}

/// Whether a live object belongs to the release that a manifest of a chart belongs to: the Helm client made it, and the
/// release is taken over with its objects.
#[must_use]
pub fn is_same(live: &Value, manifest: &Value) -> bool {
    let same = |key| {
        let of = |object| annotation(object, key).filter(|name| !name.is_empty());
        of(live).is_some() && of(live) == of(manifest)
    };
    is_ours(manifest) && same(NAME) && same(NAMESPACE)
}

/// Whether a chart says that an object outlives its release.
#[must_use]
pub fn is_kept(manifest: &Value) -> bool {
    let policy = annotation(manifest, POLICY).unwrap_or_default();
    is_ours(manifest) && policy.trim().eq_ignore_ascii_case("keep")
}

/// Longest value of a label, and how much of a name is left where a hash follows.
const LABEL: usize = 63;
const LABEL_BEFORE_HASH: usize = 46;

/// What an object of a chart is called among those of its component: by kind and name, so that one object more in the chart
/// is a change of no other. `None` of what does not come from a chart.
#[must_use]
pub fn resource_label(object: &Value) -> Option<String> {
    let release_namespace = annotation(object, NAMESPACE)?;
    if !is_ours(object) {
        return None;
    }
    let group = api_version(object).split_once('/').map_or("", |(group, _)| group);
    let is_builtin = !group.contains('.') || group.ends_with(".k8s.io");
    let mut text = kind(object).to_lowercase();
    if !is_builtin {
        text.push('.');
        text.push_str(group);
    }
    text.push('-');
    text.push_str(name(object));
    let fits = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let is_label = text.len() <= LABEL
        && text.chars().all(fits)
        && text.ends_with(|char: char| char.is_ascii_alphanumeric());
    let is_elsewhere = !namespace(object).is_empty() && namespace(object) != release_namespace;
    if is_label && !is_elsewhere {
        return Some(text);
    }
    let hash = vela_api::hash::text(&format!("{}/{text}", namespace(object)));
    let kept: String = text.chars().filter(|&char| fits(char)).take(LABEL_BEFORE_HASH).collect();
    Some(format!("{kept}-{hash}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: &[(&str, &str)]) -> Value {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        json!({"metadata": {"annotations": annotations}})
    }

    #[test]
    fn what_objects_of_a_chart_are_called() {
        let object = |version: &str, kind: &str, namespace: &str, name: &str| {
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace,
                "annotations": {(OWNER.0): OWNER.1, (NAME): "r", (NAMESPACE): "ns"}}})
        };
        let rbac = "rbac.authorization.k8s.io/v1";
        for (version, kind, namespace, name, wanted) in [
            ("v1", "ConfigMap", "ns", "web", "configmap-web"),
            ("apps/v1", "Deployment", "", "web", "deployment-web"),
            (rbac, "ClusterRole", "ns", "web", "clusterrole-web"),
            ("x.example.org/v1", "ConfigMap", "ns", "web", "configmap.x.example.org-web"),
        ] {
            let found = resource_label(&object(version, kind, namespace, name));
            assert_eq!(found.as_deref(), Some(wanted));
        }
        let long = "a".repeat(63);
        for (namespace, name, begin) in
            [("other", "web", "role-web-"), ("ns", "a:b", "role-ab-"), ("ns", &long, "role-aaa")]
        {
            let found = resource_label(&object(rbac, "Role", namespace, name)).unwrap();
            assert!(found.starts_with(begin) && found.len() <= LABEL, "{found}");
        }
        let is_unmarked = resource_label(&json!({"kind": "ConfigMap", "metadata": {"name": "a"}}));
        assert_eq!(is_unmarked, None);
    }

    #[test]
    fn objects_of_a_release() {
        let release = [(NAME, "r"), (NAMESPACE, "n")];
        let ours = [OWNER, (NAME, "r"), (NAMESPACE, "n")];
        assert!(is_same(&object(&release), &object(&ours)));
        assert!(!is_same(&object(&release), &object(&release)), "not from a chart");
        assert!(!is_same(&object(&[(NAME, "r")]), &object(&ours)));
        assert!(!is_same(&object(&[(NAME, "q"), (NAMESPACE, "n")]), &object(&ours)));
        assert!(!is_same(&object(&[]), &object(&[OWNER])));
    }

    #[test]
    fn what_outlives_its_release() {
        assert!(is_kept(&object(&[OWNER, (POLICY, " Keep ")])));
        assert!(!is_kept(&object(&[OWNER])) && !is_kept(&object(&[(POLICY, "keep")])));
        assert!(!is_kept(&object(&[OWNER, (POLICY, "delete")])));
    }
}
