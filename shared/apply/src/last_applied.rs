//! The annotation `app.oam.dev/last-applied-configuration`: what we wrote last, so that the next write knows what to remove.
//!
//! Answers for `pkg/utils/apply/patch.go`. Written byte for byte as the reference does, so that either implementation continues
//! from the other's objects.

use serde_json::Value;
use vela_api::names;

use crate::object::{annotation, group_of, kind, label, remove_metadata, set_annotation};

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

/// What was applied last to an object of a kind that carries no annotation, by what trackers recorded before it was written.
///
/// A record may never have been written: the process died, or the write failed. The render hash on the live object, part of
/// every write, says which one was. Where it says nothing (another release counted it otherwise, a rule left fields to
/// others) whatever is in any of them may be ours.
#[must_use]
pub fn recorded(live: &Value, modified: &Value, previous: &[Value]) -> Value {
    let hash = label(live, names::label::RENDER_HASH);
    if hash.is_some() && hash == label(modified, names::label::RENDER_HASH) {
        return modified.clone();
    }
    let is_written = |record: &&Value| {
        let mut record = (*record).clone();
        remove_metadata(&mut record, "labels", names::label::RENDER_HASH);
        hash == Some(&*vela_api::hash::render(&record))
    };
    if let Some(written) = previous.iter().find(is_written).filter(|_| hash.is_some()) {
        return written.clone();
    }
    previous.iter().fold(Value::Null, |mut all, record| {
        add(&mut all, record);
        all
    })
}

/// Adds to `all` the fields of `more` that it lacks.
fn add(all: &mut Value, more: &Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (key, value) in more {
                add(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all @ Value::Null, more) => all.clone_from(more),
        _ => {}
    }
}

/// Whether a record must outlive the one that takes its place: it has fields that the other lacks, and the live object will
/// not say whether they were written.
#[must_use]
pub fn must_outlive(before: &Value, after: &Value) -> bool {
    is_exempt(after) && has_more(before, after)
}

fn has_more(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before
            .iter()
            .any(|(key, before)| after.get(key).is_none_or(|after| has_more(before, after))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(keys: &[&str]) -> Value {
        let data: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!("1"))).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
    }

    fn written(manifest: &Value) -> Value {
        let mut live = manifest.clone();
        let hash = vela_api::hash::render(manifest);
        crate::object::set_label(&mut live, names::label::RENDER_HASH, &hash);
        live
    }

    #[test]
    fn the_record_that_was_written_is_the_base() {
        let (first, second, third) = (map(&["a", "b"]), map(&["b", "c"]), map(&["c"]));
        let (wanted, records) = (written(&third), [second.clone(), first.clone()]);
        // The second was recorded and never written.
        assert_eq!(recorded(&written(&first), &wanted, &records), first);
        assert_eq!(recorded(&written(&second), &wanted, &records), second);
        // What is there is what is wanted: other keys of an older record are not ours any more.
        assert_eq!(recorded(&wanted, &wanted, &records)["data"], json!({"c": "1"}));
        // That cannot be known.
        assert_eq!(
            recorded(&first, &wanted, &records)["data"],
            json!({"a": "1", "b": "1", "c": "1"})
        );
        assert_eq!(recorded(&first, &wanted, &[]), Value::Null);
    }

    #[test]
    fn a_record_that_has_more_outlives_its_successor() {
        assert!(must_outlive(&map(&["a", "b"]), &map(&["a"])));
        assert!(!must_outlive(&map(&["a"]), &map(&["a", "b"])));
        let deployment = |replicas: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": replicas});
        assert!(!must_outlive(&deployment(json!({"replicas": 1})), &deployment(json!({}))));
    }

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
