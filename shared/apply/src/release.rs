//! Marks of objects that come from a chart: which release they belong to, and whether they outlive it.

use serde_json::Value;

use crate::object::annotation;

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
