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

/// Objects as traits meet them: lists of elements with names, without, with the same name twice,
/// and with lists of their own.
fn manifest() -> impl Strategy<Value = Json> {
    manifest_of(|_| true)
}

/// As [`manifest`], every element with a name of its own.
fn orderly_manifest() -> impl Strategy<Value = Json> {
    manifest_of(|elements| {
        let mut names: Vec<&str> =
            elements.iter().filter_map(|element| element["name"].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len() == elements.len()
    })
}

/// Lists that `keep` does not want become empty.
fn manifest_of(keep: fn(&[Json]) -> bool) -> impl Strategy<Value = Json> {
    let object_of = |fields: Vec<(&str, Option<Json>)>| -> Json {
        let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Json::Object(given.collect())
    };
    let list_of = move |list: Vec<Json>| json!(if keep(&list) { list } else { Vec::new() });
    let name = || prop::option::weighted(0.9, "[a-f]").prop_map(|name| name.map(Json::from));
    let inner = prop::collection::vec((name(), -1_i64..2), 0..3);
    let element = (name(), prop::option::of(-1_i64..2), prop::option::of(inner));
    let list = prop::collection::vec(element, 0..4);
    (list, prop::option::of(object()), prop::option::of(scalar())).prop_map(
        move |(list, of, one)| {
            let list = list.into_iter().map(|(name, v, env)| {
                let env = env.map(|env| {
                    let one = |(name, w)| object_of(vec![("name", name), ("w", Some(json!(w)))]);
                    list_of(env.into_iter().map(one).collect())
                });
                object_of(vec![("name", name), ("v", v.map(Json::from)), ("env", env)])
            });
            let list = list_of(list.collect());
            json!({ "spec": object_of(vec![("list", Some(list)), ("of", of), ("one", one)]) })
        },
    )
}

/// Markers on the fields of a term, chosen by number; fields that are not chosen have none.
fn mark(term: &mut Term, choices: &mut impl Iterator<Item = u8>) {
    match term {
        Term::Struct(fields) => {
            for field in fields.values_mut() {
                field.markers = match choices.next() {
                    Some(1) => keyed(None),
                    Some(2) => keyed(Some(Marker::RetainKeys)),
                    Some(3) => Markers { patch_key: None, strategy: Some(Marker::RetainKeys) },
                    Some(4) => Markers { patch_key: None, strategy: Some(Marker::Replace) },
                    _ => Markers::default(),
                };
                mark(&mut field.term, choices);
            }
        }
        Term::List { items, .. } => items.iter_mut().for_each(|item| mark(item, choices)),
        _ => {}
    }
}

fn marked(json: &Json, choices: &[u8]) -> Term {
    let mut patch = term(json);
    mark(&mut patch, &mut choices.iter().copied());
    patch
}

/// An operation of a JSON patch on a field of the top.
fn operations() -> impl Strategy<Value = Vec<Json>> {
    let operation =
        (0_u8..4, "[a-d]", "[a-d]", json()).prop_map(|(op, from, to, value)| match op {
            0 => json!({ "op": "add", "path": format!("/{to}"), "value": value }),
            1 => json!({ "op": "remove", "path": format!("/{to}") }),
            2 => json!({ "op": "copy", "from": format!("/{from}"), "path": format!("/{to}") }),
            _ => json!({ "op": "move", "from": format!("/{from}"), "path": format!("/{to}") }),
        });
    prop::collection::vec(operation, 0..4)
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

    /// Not so where elements lack the key or share one: merging by it moves or drops some.
    #[test]
    fn a_patch_with_any_markers_is_idempotent(
        base in orderly_manifest(), patch in orderly_manifest(), choices in prop::collection::vec(0_u8..5, 0..40),
    ) {
        let patch = marked(&patch, &choices);
        if let Ok(once) = strategic(term(&base), patch.clone()) {
            let twice = strategic(once.clone(), patch).expect("applies again");
            prop_assert_eq!(data(&once), data(&twice));
        }
    }

    #[test]
    fn patches_of_different_fields_may_come_in_any_order_whatever_their_markers(
        base in (manifest(), manifest()), one in manifest(), other in manifest(),
        choices in prop::collection::vec(0_u8..5, 0..40),
    ) {
        let base = json!({ "one": base.0, "other": base.1 });
        let (one, other) =
            (marked(&json!({ "one": one }), &choices), marked(&json!({ "other": other }), &choices));
        let both = |first: &Term, second: &Term| {
            strategic(term(&base), first.clone()).and_then(|t| strategic(t, second.clone()))
        };
        match (both(&one, &other), both(&other, &one)) {
            (Ok(a), Ok(b)) => prop_assert_eq!(data(&a), data(&b)),
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{a:?} {b:?}"),
        }
    }

    #[test]
    fn what_a_patch_does_not_name_stays(
        base in manifest(), patch in manifest(), choices in prop::collection::vec(0_u8..5, 0..40),
    ) {
        let base = json!({ "named": base, "kept": base.clone() });
        let patch = marked(&json!({ "named": patch }), &choices);
        if let Ok(patched) = strategic(term(&base), patch) {
            prop_assert_eq!(&data(&patched)["kept"], &base["kept"]);
        }
    }

    #[test]
    fn unification_does_not_care_about_grouping(a in json(), b in json(), c in json()) {
        let first = unify(term(&a), term(&b)).and_then(|ab| unify(ab, term(&c)));
        let last = unify(term(&b), term(&c)).and_then(|bc| unify(term(&a), bc));
        match (first, last) {
            (Ok(a), Ok(b)) => prop_assert_eq!(data(&a), data(&b)),
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{a:?} {b:?}"),
        }
    }

    #[test]
    fn a_json_patch_is_that_of_the_rfc(base in object(), operations in operations()) {
        let markers = Markers { patch_key: None, strategy: Some(Marker::JsonPatch) };
        let patched = apply(term(&base), term(&json!({ "operations": operations })), &markers);
        let mut wanted = base;
        let patch: json_patch::Patch = serde_json::from_value(json!(operations)).expect("a patch");
        match (patched, json_patch::patch(&mut wanted, &patch)) {
            (Ok(patched), Ok(())) => prop_assert_eq!(data(&patched), wanted),
            (Err(_), Err(_)) => {}
            (a, b) => prop_assert!(false, "{a:?} {b:?}"),
        }
    }
}
