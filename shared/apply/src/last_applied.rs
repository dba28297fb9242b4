//! The annotation `app.oam.dev/last-applied-configuration`: what we wrote last, so that the next write knows what to remove.
//!
//! Answers for `pkg/utils/apply/patch.go`. Written byte for byte as the reference does, so that either implementation continues
//! from the other's objects.

use serde_json::Value;
use vela_api::names;

use crate::object::{annotation, group_of, kind, remove_metadata, set_annotation};

/// Whether an object of this kind carries no last-applied annotation: its content is its data (Secret, ConfigMap) or too big
/// (CustomResourceDefinition), or the manifest opted out.
#[must_use]
pub fn is_exempt(manifest: &Value) -> bool {
    let group = group_of(crate::object::api_version(manifest));
    matches!(
        (group, kind(manifest)),
        ("", "Secret" | "ConfigMap") | ("apiextensions.k8s.io" | "", "CustomResourceDefinition")
    ) || matches!(annotation(manifest, names::annotation::LAST_APPLIED_CONFIG), Some("-" | "skip"))
}

/// Puts the annotation on a manifest that is about to be written.
pub fn embed(manifest: &mut Value) {
    if is_exempt(manifest) {
        return;
    }
    remove_metadata(manifest, "annotations", names::annotation::LAST_APPLIED_CONFIG);
    let text = vela_api::RawExtension::new(manifest).as_str().to_owned();
    set_annotation(manifest, names::annotation::LAST_APPLIED_CONFIG, &text);
}

/// What was applied last: our annotation, else kubectl's, else nothing.
#[must_use]
pub fn original(live: &Value) -> Value {
    let text = match annotation(live, names::annotation::LAST_APPLIED_CONFIG) {
        Some("-" | "skip") => return Value::Null,
        Some(text) if !text.is_empty() => text,
        _ => match annotation(live, names::annotation::KUBECTL_LAST_APPLIED) {
            Some(text) => text,
            None => return Value::Null,
        },
    };
    serde_json::from_str(text).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn written_as_go_writes_it() {
        let mut manifest = json!({"kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {"name": "a", "annotations": {"x": "<&>"}}, "spec": {"replicas": 1.0}});
        embed(&mut manifest);
        assert_eq!(
            annotation(&manifest, names::annotation::LAST_APPLIED_CONFIG),
            Some(concat!(
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"x":"\u003c\u0026\u003e"},"#,
                r#""name":"a"},"spec":{"replicas":1}}"#
            ))
        );
        // Embedding again does not nest.
        let once = manifest.clone();
        embed(&mut manifest);
        assert_eq!(manifest, once);
        assert_eq!(original(&once)["spec"], json!({"replicas": 1}));
    }

    #[test]
    fn data_kinds_and_opted_out_manifests_carry_nothing() {
        for manifest in [
            json!({"apiVersion": "v1", "kind": "Secret"}),
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"app.oam.dev/last-applied-configuration": "skip"}}}),
        ] {
            let mut copy = manifest.clone();
            embed(&mut copy);
            assert_eq!(copy, manifest);
            assert_eq!(original(&manifest), Value::Null);
        }
    }

    #[test]
    fn kubectl_is_the_fallback() {
        let live = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"a\":1}"}}});
        assert_eq!(original(&live), json!({"a": 1}));
    }
}
