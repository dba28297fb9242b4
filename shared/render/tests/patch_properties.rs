//! What holds for every patch: applying it again changes nothing, an empty one changes nothing,
//! and patches that do not touch the same things may come in any order.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

use cue::Value;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use vela_render::patch::{Markers, Strategy as Marker, apply, strategic};
use vela_render::term::{Term, unify};

/// Scalars as they are in manifests.
fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-9_i64..9).prop_map(Json::from),
        "[a-c]{0,2}".prop_map(Json::from),
    ]
}

fn json() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Json> {
    prop::collection::btree_map("[a-d]", json(), 0..4)
        .prop_map(|fields| Json::Object(fields.into_iter().collect()))
}

/// Elements with different names; `field` holds what each says besides.
fn named(field: &'static str) -> impl Strategy<Value = Vec<Json>> {
    prop::collection::btree_map("[a-f]", -3_i64..3, 0..5).prop_map(move |elements| {
        elements.into_iter().map(|(name, v)| json!({ "name": name, field: v })).collect()
    })
}

fn term(json: &Json) -> Term {
    Term::from_value(&Value::from(json.clone()))
}

fn list_patch(elements: &[Json], markers: &Markers) -> Term {
    let mut term = term(&json!({ "spec": { "list": elements } }));
    if let Term::Struct(fields) = &mut term
        && let Some(spec) = fields.get_mut("spec")
        && let Term::Struct(fields) = &mut spec.term
        && let Some(list) = fields.get_mut("list")
    {
        list.markers = markers.clone();
    }
    term
}

fn keyed(strategy: Option<Marker>) -> Markers {
    Markers { patch_key: Some("name".into()), strategy }
}

fn data(term: &Term) -> Json {
    term.export().expect("concrete").to_json()
}

/// The elements by name, for comparisons in which their order does not count.
fn by_name(value: &Json) -> Map<String, Json> {
    let list = value.pointer("/spec/list").and_then(Json::as_array).cloned().unwrap_or_default();
    list.into_iter()
        .map(|element| (element["name"].as_str().unwrap_or_default().to_owned(), element))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_empty_patch_changes_nothing(base in object()) {
        let patched = strategic(term(&base), Term::empty()).expect("applies");
        prop_assert_eq!(data(&patched), base);
    }

    #[test]
    fn a_patch_that_applies_is_idempotent(base in object(), patch in object()) {
        if let Ok(once) = strategic(term(&base), term(&patch)) {
            let twice = strategic(once.clone(), term(&patch)).expect("applies again");
            prop_assert_eq!(data(&once), data(&twice));
        }
    }

    #[test]
    fn patches_that_apply_do_so_in_any_order(base in object(), one in object(), other in object()) {
        let both = |first: &Json, second: &Json| {
            strategic(term(&base), term(first)).and_then(|t| strategic(t, term(second)))
        };
        // Where only one order applies (a list that a patch brings may grow afterwards, not before),
        // there is nothing to compare.
        if let (Ok(a), Ok(b)) = (both(&one, &other), both(&other, &one)) {
            prop_assert_eq!(data(&a), data(&b));
        }
    }

    #[test]
    fn elements_are_merged_by_key(base in named("v"), patch in named("w")) {
        let base_json = json!({ "spec": { "list": base } });
        let patch = list_patch(&patch, &keyed(None));
        let once = strategic(term(&base_json), patch.clone()).expect("applies");
        let twice = strategic(once.clone(), patch.clone()).expect("applies again");
        prop_assert_eq!(data(&once), data(&twice));
        let names = |value: &Json| by_name(value).keys().cloned().collect::<Vec<_>>();
        let mut wanted = names(&base_json);
        wanted.extend(names(&data(&patch)));
        wanted.sort();
        wanted.dedup();
        let mut got = names(&data(&once));
        got.sort();
        prop_assert_eq!(got, wanted);
        // What was there stays where it was.
        let result = data(&once);
        let list = result.pointer("/spec/list").and_then(Json::as_array).unwrap();
        for (was, is) in base.iter().zip(list) {
            prop_assert_eq!(&was["name"], &is["name"]);
            prop_assert_eq!(&was["v"], &is["v"]);
        }
    }

    #[test]
    fn keyed_patches_of_different_fields_may_come_in_any_order(
        base in named("v"), one in named("w"), other in named("x"),
    ) {
        let base = json!({ "spec": { "list": base } });
        let (one, other) = (list_patch(&one, &keyed(None)), list_patch(&other, &keyed(None)));
        let both = |first: &Term, second: &Term| {
            strategic(term(&base), first.clone()).and_then(|t| strategic(t, second.clone()))
        };
        let (a, b) = (both(&one, &other).expect("applies"), both(&other, &one).expect("applies"));
        prop_assert_eq!(by_name(&data(&a)), by_name(&data(&b)));
    }

    #[test]
    fn replaced_and_retained_are_what_the_patch_says(base in named("v"), patch in named("v")) {
        let base = json!({ "spec": { "list": base } });
        let replaced = list_patch(&patch, &Markers { patch_key: None, strategy: Some(Marker::Replace) });
        let result = data(&strategic(term(&base), replaced.clone()).expect("applies"));
        prop_assert_eq!(result, data(&replaced));
        let retained = list_patch(&patch, &keyed(Some(Marker::RetainKeys)));
        let once = strategic(term(&base), retained.clone()).expect("applies");
        let twice = strategic(once.clone(), retained).expect("applies again");
        prop_assert_eq!(data(&once), data(&twice));
        let result = by_name(&data(&once));
        for element in &patch {
            prop_assert_eq!(&result[element["name"].as_str().unwrap()], element);
        }
    }

    #[test]
    fn a_merge_patch_is_that_of_the_rfc(base in object(), patch in object()) {
        let markers = Markers { patch_key: None, strategy: Some(Marker::JsonMergePatch) };
        let once = apply(term(&base), term(&patch), &markers).expect("applies");
        let mut wanted = base;
        json_patch::merge(&mut wanted, &patch);
        prop_assert_eq!(data(&once), wanted.clone());
        let twice = apply(once, term(&patch), &markers).expect("applies again");
        prop_assert_eq!(data(&twice), wanted);
    }

    #[test]
    fn unification_does_not_care_about_sides(one in json(), other in json()) {
        let sides = (unify(term(&one), term(&other)), unify(term(&other), term(&one)));
        match sides {
            (Ok(a), Ok(b)) => {
                prop_assert_eq!(data(&a), data(&b));
                prop_assert_eq!(&one, &data(&unify(term(&one), term(&one)).expect("itself")));
            }
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{a:?} {b:?}"),
        }
    }
}
