//! The label with the bucket of the Application that dispatched an object (`--shard-label-objects`): by it the API server sends a
//! replica only the objects of Applications that the replica keeps.
//!
//! As with the label of records (`bucket_label`), the hash decides and the label only selects. An object gets the label with a write that is
//! made anyway. One without it, and one that several Applications share, is sent to everybody. To its owner an object with a wrong
//! label may seem deleted; `LiveObjects` reads what may have been left out, and keeping the state corrects the label.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use vela_api::names::label;
use vela_apply::object::{label as label_of, set_label};
use vela_apply::ownership::{listed, sharers};
use vela_apply::plan::Write;
use vela_apply::{Owner, json_merge};
use vela_cluster::{AllBut, Live, Stored as _};
use vela_shard::{Buckets, bucket_of};

use super::bucket_label;

/// The value for objects that several Applications share: no selector leaves it out.
const SHARED: &str = "shared";

/// What selects the objects of some buckets, and those that have no label; `None`: these are all.
pub(super) fn selector(buckets: Buckets) -> Option<AllBut> {
    bucket_label::selector_of(label::OWNER_BUCKET, buckets)
}

/// The value for those who own or share an object, each as `<namespace>/<name>`; `None`: nobody does, or an entry is none.
fn value<'s>(concerned: impl Iterator<Item = &'s str>) -> Option<String> {
    let concerned: BTreeSet<&str> = concerned.collect();
    if concerned.len() > 1 {
        return Some(SHARED.to_owned());
    }
    let (namespace, name) = concerned.first()?.split_once('/')?;
    Some(bucket_label::digits(bucket_of(namespace, name)))
}

/// The value for an object.
fn value_of(object: &Value) -> Option<String> {
    let owner = Owner::of(object)?.sharer();
    value(std::iter::once(&*owner).chain(sharers(object)))
}

/// A write that gives the object its label, too.
pub(crate) fn labelled(write: Write, live: Option<&Value>) -> Write {
    let with = |mut object: Value| {
        if let Some(value) = value_of(&object) {
            set_label(&mut object, label::OWNER_BUCKET, &value);
        }
        object
    };
    match write {
        Write::Skip => Write::Skip,
        Write::Create(object) => Write::Create(with(object)),
        Write::Replace(object) => Write::Replace(with(object)),
        Write::Recreate { uid, delete, object } => {
            Write::Recreate { uid, delete, object: with(object) }
        }
        Write::Patch { kind, mut body } => {
            let present = live.and_then(|live| label_of(live, label::OWNER_BUCKET));
            if let Some(value) = after(&body, live).filter(|value| Some(&**value) != present) {
                set_label(&mut body, label::OWNER_BUCKET, &value);
            }
            Write::Patch { kind, body }
        }
    }
}

/// The value for an object as a patch leaves it. Patches of all kinds merge labels and annotations in the same way.
fn after(body: &Value, live: Option<&Value>) -> Option<String> {
    let part = |object: &Value| {
        let of = |key: &str| object.pointer(&format!("/metadata/{key}")).cloned();
        let parts = ["labels", "annotations"].into_iter();
        let parts = parts.filter_map(|key| Some((key.to_owned(), of(key)?)));
        json!({"metadata": parts.collect::<Map<_, _>>()})
    };
    let mut after = part(live.unwrap_or(&Value::Null));
    json_merge::apply(&mut after, &part(body));
    value_of(&after)
}

/// The value for an object whose sharers are in a list from now on, and whose owner becomes `next`; null where the owner is not known here:
/// everybody is sent an object without a label.
pub(crate) fn handed_over(next: Option<&Owner>, list: &str) -> Value {
    let owner = next.map(Owner::sharer);
    let value = value(owner.as_deref().into_iter().chain(listed(list)));
    json!(value.filter(|value| next.is_some() || value == SHARED))
}

/// The patch that corrects a wrong label of an object, in the version that was read.
pub(crate) fn correction(live: &Live) -> Option<Value> {
    if live.bucket.is_empty() || live.owner.is_none() {
        return None;
    }
    let concerned: Vec<String> = live.concerned().map(Owner::sharer).collect();
    let value = value(concerned.iter().map(String::as_str)).filter(|it| **it != *live.bucket)?;
    Some(json!({"metadata": {
        "resourceVersion": live.version(), "labels": {label::OWNER_BUCKET: value}}}))
}

#[cfg(test)]
mod tests {
    use vela_api::names::annotation;
    use vela_apply::plan::{self, Options, PatchKind};
    use vela_apply::policy::{ResourcePolicies, Stage};

    use super::*;

    fn object(bucket: &str, list: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "7",
            "labels": {label::APP_NAME: "front", label::APP_NAMESPACE: "shop", label::OWNER_BUCKET: bucket},
            "annotations": {annotation::SHARED_BY: list}}})
    }

    #[test]
    fn the_label_is_the_bucket_of_the_owner_unless_several_share_the_object() {
        // printf shop/front | sha256sum | cut -c1-2
        for (list, expected) in
            [("", "0c"), ("shop/front", "0c"), ("shop/front,shop/back", SHARED), ("m/a", SHARED)]
        {
            assert_eq!(value_of(&object("", list)).as_deref(), Some(expected), "{list}");
            let correction = correction(&Live::of(object("ff", list))).unwrap();
            assert_eq!(correction["metadata"]["labels"][label::OWNER_BUCKET], expected);
            assert_eq!(correction["metadata"]["resourceVersion"], "7");
            assert!(super::correction(&Live::of(object(expected, list))).is_none());
        }
        let mut free = object("ff", "shop/front");
        free["metadata"]["labels"] = json!({label::OWNER_BUCKET: "ff"});
        assert_eq!((value_of(&free), correction(&Live::of(free))), (None, None));
        assert_eq!(correction(&Live::of(object("", "m/a"))), None, "it gets it with another write");
    }

    #[test]
    fn a_write_that_is_made_anyway_labels_the_object() {
        let bucket = |write: &Write| match write {
            Write::Skip => None,
            Write::Create(body)
            | Write::Replace(body)
            | Write::Recreate { object: body, .. }
            | Write::Patch { body, .. } => label_of(body, label::OWNER_BUCKET).map(str::to_owned),
        };
        let whole = object("ff", "");
        let recreated = Write::Recreate { uid: "u".into(), delete: true, object: whole.clone() };
        for write in [Write::Create(whole.clone()), Write::Replace(whole.clone()), recreated] {
            assert_eq!(bucket(&labelled(write, None)).as_deref(), Some("0c"));
        }
        let live = object("0c", "");
        assert_eq!(labelled(Write::Skip, Some(&whole)), Write::Skip);
        let shared = json!({annotation::SHARED_BY: "shop/front,shop/back"});
        let other = json!({label::APP_NAME: "back", label::APP_NAMESPACE: "shop"});
        for (patch, live, expected) in [
            (json!({"data": {"a": "b"}}), &live, None),
            (json!({"data": {"a": "b"}}), &whole, Some("0c")),
            (json!({"metadata": {"annotations": shared}}), &live, Some(SHARED)),
            (json!({"metadata": {"annotations": null}}), &object("0c", "m/a"), None),
            // printf shop/back | sha256sum | cut -c1-2
            (json!({"metadata": {"labels": other}}), &live, Some("aa")),
        ] {
            let write = Write::Patch { kind: PatchKind::Strategic, body: patch.clone() };
            assert_eq!(bucket(&labelled(write, Some(live))).as_deref(), expected, "{patch}");
        }
        // What would take the label away, or repeat it, is no write: a manifest may be a copy of a live object.
        let (owner, policies) = (Owner::of(&live).unwrap(), ResourcePolicies::default());
        for value in ["ff", "0c"] {
            let mut manifest = object(value, "");
            manifest["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let options = Options {
                owner: &owner,
                policies: &policies,
                stage: Stage::Update,
                adopt_unowned: false,
                replace_by_default: false,
                now: "",
                previous: std::slice::from_ref(&manifest),
            };
            let prepare = |manifest| plan::prepare(manifest, Some(&live), &options).unwrap();
            let prepared = prepare(&manifest);
            let mut live = prepared.clone();
            set_label(&mut live, label::OWNER_BUCKET, "0c");
            let write = plan::plan(&prepared, Some(&live), &options).unwrap();
            assert_eq!(labelled(write, Some(&live)), Write::Skip, "{value}");
            let mut edited = manifest.clone();
            edited["data"] = json!({"a": "b"});
            let write = plan::plan(&prepare(&edited), Some(&live), &options).unwrap();
            let Write::Patch { body, .. } = labelled(write, Some(&live)) else { panic!("{value}") };
            assert_eq!(body["metadata"]["labels"].get(label::OWNER_BUCKET), None, "{value}");
        }
    }

    #[test]
    fn who_leaves_an_object_says_only_what_is_known() {
        let next = Owner { namespace: "shop".into(), name: "front".into() };
        for (next, list, expected) in [
            (Some(&next), "", json!("0c")),
            (Some(&next), "shop/front", json!("0c")),
            (Some(&next), "shop/front, m/a", json!(SHARED)),
            (None, "shop/front,m/a", json!(SHARED)),
            (None, "shop/front", Value::Null),
            (None, "", Value::Null),
        ] {
            assert_eq!(handed_over(next, list), expected, "{list}");
        }
    }

    #[test]
    fn the_selector_names_all_other_buckets() {
        let all_but = |out: &[u8]| Buckets::ALL.without(out.iter().copied().collect());
        assert_eq!(selector(Buckets::ALL), None);
        let text = selector(all_but(&[0x3f, 0])).unwrap();
        assert_eq!(text.text(), "controller.core.oam.dev/owner-bucket notin (00,3f)");
    }
}
