//! Tests of this module.

use serde_json::json;

use super::*;

fn owner() -> Owner {
    Owner { namespace: "n".into(), name: "app".into() }
}

fn options<'a>(owner: &'a Owner, policies: &'a ResourcePolicies, stage: Stage) -> Options<'a> {
    Options {
        owner,
        policies,
        stage,
        adopt_unowned: false,
        replace_by_default: false,
        now: "2026-01-01T00:00:00Z",
        previous: &[],
    }
}

fn policies(list: &[(&str, Value)]) -> ResourcePolicies {
    let (policies, errors) = ResourcePolicies::parse(list.iter().map(|(ty, v)| (*ty, Some(v))));
    assert_eq!(errors, []);
    policies
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": "c", "namespace": "n",
        "labels": {"app.oam.dev/name": "app", "app.oam.dev/namespace": "n"}}})
}

fn deployment(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n",
            "labels": {"app.oam.dev/name": "app", "app.oam.dev/namespace": "n", "app.oam.dev/component": "d"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "d", "image": image}]}}}})
}

/// What the API server stores for a creation.
fn stored(write: Write) -> Value {
    let Write::Create(mut object) = write else { panic!("{write:?}") };
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["uid"] = json!("u");
    object
}

fn decide(
    manifest: &Value,
    live: Option<&Value>,
    policies: &ResourcePolicies,
    stage: Stage,
) -> Result<Write, PlanError> {
    let owner = owner();
    let options = options(&owner, policies, stage);
    plan(&prepare(manifest, live, &options)?, live, &options)
}

#[test]
fn create_then_nothing_then_a_patch() {
    let none = ResourcePolicies::default();
    let live = stored(decide(&deployment("a:1"), None, &none, Stage::Update).unwrap());
    assert!(annotation(&live, names::annotation::LAST_APPLIED_CONFIG).is_some());
    assert_eq!(
        annotation(&live, names::annotation::LAST_APPLIED_TIME),
        Some("2026-01-01T00:00:00Z")
    );
    assert_eq!(decide(&deployment("a:1"), Some(&live), &none, Stage::StateKeep), Ok(Write::Skip));
    let Ok(Write::Patch { kind, body }) =
        decide(&deployment("a:2"), Some(&live), &none, Stage::Update)
    else {
        panic!()
    };
    assert_eq!(kind, PatchKind::Strategic);
    assert_eq!(
        body["spec"],
        json!({"template": {"spec": {"containers": [{"name": "d", "image": "a:2"}],
            "$setElementOrder/containers": [{"name": "d"}]}}})
    );
    assert!(body["metadata"]["annotations"][names::annotation::LAST_APPLIED_TIME].is_null());
}

/// The API server stores its own spelling of a quantity.
#[test]
fn another_spelling_of_a_quantity_is_no_reason_to_write() {
    let none = ResourcePolicies::default();
    let with_cpu = |cpu: &str| {
        let mut object = deployment("a:1");
        object["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"limits": {"cpu": cpu}});
        object
    };
    let mut live = stored(decide(&with_cpu("0.5"), None, &none, Stage::Update).unwrap());
    live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("500m");
    let decided = |live: &Value| decide(&with_cpu("0.5"), Some(live), &none, Stage::StateKeep);
    assert_eq!(decided(&live), Ok(Write::Skip));
    live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("600m");
    assert!(matches!(decided(&live), Ok(Write::Patch { .. })));
}

#[test]
fn drift_is_repaired_and_foreign_fields_stay() {
    let none = ResourcePolicies::default();
    let mut live = stored(decide(&deployment("a:1"), None, &none, Stage::Update).unwrap());
    live["spec"]["replicas"] = json!(9);
    live["spec"]["paused"] = json!(true);
    let write = decide(&deployment("a:1"), Some(&live), &none, Stage::StateKeep);
    assert_eq!(
        write,
        Ok(Write::Patch { kind: PatchKind::Strategic, body: json!({"spec": {"replicas": 1}}) })
    );
}

#[test]
fn keys_we_wrote_are_pruned_from_config_maps() {
    let none = ResourcePolicies::default();
    let before = config_map(&json!({"a": "1", "b": "2"}));
    let mut live = stored(decide(&before, None, &none, Stage::Update).unwrap());
    live["data"]["foreign"] = json!("x");
    let owner = owner();
    let options = Options {
        previous: std::slice::from_ref(&before),
        ..options(&owner, &none, Stage::Update)
    };
    let after = prepare(&config_map(&json!({"a": "1"})), Some(&live), &options).unwrap();
    let Ok(Write::Patch { body, .. }) = plan(&after, Some(&live), &options) else { panic!() };
    assert_eq!(body["data"], json!({"b": null}));
}

#[test]
fn read_only_objects_are_never_written() {
    let read_only =
        policies(&[("read-only", json!({"rules": [{"selector": {"componentNames": ["d"]}}]}))]);
    assert_eq!(
        decide(&deployment("a"), None, &read_only, Stage::Update).unwrap_err().to_string(),
        "Deployment d does not exist and a read-only policy keeps it from being created: create it, or change the policy"
    );
    let foreign = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}});
    assert_eq!(
        decide(&deployment("a"), Some(&foreign), &read_only, Stage::Update),
        Ok(Write::Skip)
    );
}

#[test]
fn taking_over_needs_the_policy() {
    let foreign = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "resourceVersion": "3"}, "spec": {"replicas": 5}});
    assert_eq!(
        decide(&deployment("a"), Some(&foreign), &ResourcePolicies::default(), Stage::Update)
            .unwrap_err()
            .to_string(),
        "Deployment n/d exists and belongs to no Application: a take-over policy adopts it"
    );
    let take =
        policies(&[("take-over", json!({"rules": [{"selector": {"resourceNames": ["d"]}}]}))]);
    let Ok(Write::Patch { body, .. }) =
        decide(&deployment("a"), Some(&foreign), &take, Stage::Update)
    else {
        panic!()
    };
    assert_eq!(body["spec"]["replicas"], json!(1));
}

#[test]
fn sharing_adds_only_the_annotation() {
    let share = policies(&[(
        "shared-resource",
        json!({"rules": [{"selector": {"resourceNames": ["d"]}}]}),
    )]);
    let mut live = stored(decide(&deployment("a"), None, &share, Stage::Update).unwrap());
    assert_eq!(annotation(&live, names::annotation::SHARED_BY), Some("n/app"));
    live["metadata"]["labels"]["app.oam.dev/name"] = json!("other");
    live["metadata"]["annotations"]["app.oam.dev/shared-by"] = json!("n/other");
    let Ok(Write::Patch { kind, body }) =
        decide(&deployment("b"), Some(&live), &share, Stage::Update)
    else {
        panic!()
    };
    assert_eq!(kind, PatchKind::Merge);
    assert_eq!(
        body,
        json!({"metadata": {"annotations": {"app.oam.dev/shared-by": "n/other,n/app"}, "resourceVersion": "1"}})
    );
}

/// What an Application of this name, which shares or not, would write to an object with this owner and list.
fn write_to_shared(owner: &str, list: &str, shares: bool, replaces: bool) -> Result<Write, String> {
    let rule = |rest: Value| {
        let mut rule = json!({"selector": {"resourceNames": ["d"]}});
        rule["strategy"] = rest;
        json!({ "rules": [rule] })
    };
    let mut list_of = Vec::new();
    if shares {
        list_of.push(("shared-resource", rule(Value::Null)));
    }
    if replaces {
        list_of.push(("resource-update", rule(json!({"op": "replace"}))));
    }
    let policies = policies(&list_of);
    let everybody = policies_of_shared();
    let mut live = stored(decide(&deployment("a"), None, &everybody, Stage::Update).unwrap());
    live["metadata"]["labels"]["app.oam.dev/name"] = json!(owner);
    live["metadata"]["annotations"]["app.oam.dev/shared-by"] = json!(list);
    decide(&deployment("b"), Some(&live), &policies, Stage::Update).map_err(|e| e.to_string())
}

fn policies_of_shared() -> ResourcePolicies {
    policies(&[("shared-resource", json!({"rules": [{"selector": {"resourceNames": ["d"]}}]}))])
}

/// The list of those who share an object: what a write makes of it (`None`: as it is), and the version it is bound to.
fn list_after(write: &Write) -> (Option<Value>, Value) {
    let object = match write {
        Write::Patch { body, .. } => body,
        Write::Replace(object) => object,
        other => panic!("{other:?}"),
    };
    let metadata = &object["metadata"];
    let list = metadata["annotations"].as_object().and_then(|map| map.get("app.oam.dev/shared-by"));
    (list.cloned(), metadata["resourceVersion"].clone())
}

#[test]
fn a_list_of_sharers_never_loses_anybody() {
    let same = |list: &str| Some(json!(list));
    for (list, shares, replaces, expected) in [
        ("n/app,n/other", true, false, (None, Value::Null)),
        ("n/app,n/other", true, true, (same("n/app,n/other"), json!("1"))),
        // The owner shares no longer; the others still count on it.
        ("n/app,n/other", false, false, (None, Value::Null)),
        ("n/app,n/other", false, true, (same("n/app,n/other"), json!("1"))),
        // Nobody else is there.
        ("n/app", false, false, (Some(Value::Null), json!("1"))),
        ("n/app", false, true, (None, json!("1"))),
        // We are not in it: it changes, and only as it was seen.
        ("n/other", true, false, (same("n/other,n/app"), json!("1"))),
        ("n/other", false, false, (same("n/other,n/app"), json!("1"))),
    ] {
        let write = write_to_shared("app", list, shares, replaces).unwrap();
        assert_eq!(list_after(&write), expected, "{list} shares: {shares} replaces: {replaces}");
    }
    assert_eq!(
        write_to_shared("other", "", true, false).unwrap_err(),
        "the object belongs to Application n/other, which does not share it"
    );
    assert_eq!(
        write_to_shared("other", "n/other", false, true).unwrap_err(),
        "Deployment n/d belongs to Application n/other"
    );
    // One that is in the list already writes nothing at all, whatever its own manifest says.
    assert_eq!(write_to_shared("other", "n/other,n/app", true, true), Ok(Write::Skip));
}

#[test]
fn a_recreated_object_is_still_shared() {
    let mut live =
        stored(decide(&deployment("a"), None, &policies_of_shared(), Stage::Update).unwrap());
    live["metadata"]["annotations"]["app.oam.dev/shared-by"] = json!("n/app,n/other");
    let recreate = policies(&[(
        "resource-update",
        json!({"rules": [{
        "selector": {"resourceNames": ["d"]},
        "strategy": {"recreateFields": ["spec.template.spec.containers[0].image"]}}]}),
    )]);
    let Ok(Write::Recreate { object, .. }) =
        decide(&deployment("b"), Some(&live), &recreate, Stage::Update)
    else {
        panic!()
    };
    assert_eq!(annotation(&object, names::annotation::SHARED_BY), Some("n/app,n/other"));
}

/// Read-only comes before ownership, and both before any way of writing.
#[test]
fn the_order_of_the_policies() {
    let rule = |strategy: Value| json!({"rules": [{"selector": {"resourceNames": ["d"]}, "strategy": strategy}]});
    let recreate = rule(json!({"recreateFields": ["spec.replicas"], "op": "replace"}));
    let mut live = stored(
        decide(&deployment("a"), None, &ResourcePolicies::default(), Stage::Update).unwrap(),
    );
    live["spec"]["replicas"] = json!(7);
    let mut foreign = live.clone();
    foreign["metadata"]["labels"]["app.oam.dev/name"] = json!("other");
    let mut free = live.clone();
    free["metadata"]["labels"] = json!({});
    let all = |names: &[&str]| {
        let list: Vec<_> = names
            .iter()
            .map(|name| {
                (*name, if *name == "resource-update" { recreate.clone() } else { rule(json!({})) })
            })
            .collect();
        policies(&list)
    };
    let decided = |names: &[&str], live: &Value| match decide(
        &deployment("a"),
        Some(live),
        &all(names),
        Stage::Update,
    ) {
        Ok(Write::Skip) => "skip".to_owned(),
        Ok(Write::Recreate { .. }) => "recreate".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    };
    let managed = "Deployment n/d belongs to Application n/other";
    assert_eq!(decided(&["resource-update"], &live), "recreate");
    assert_eq!(decided(&["resource-update", "take-over"], &free), "recreate");
    assert_eq!(decided(&["resource-update", "take-over"], &foreign), managed);
    assert_eq!(decided(&["resource-update"], &foreign), managed);
    assert_eq!(
        decided(&["resource-update"], &free),
        "Deployment n/d exists and belongs to no Application: a take-over policy adopts it"
    );
    for live in [&live, &foreign, &free] {
        assert_eq!(
            decided(&["resource-update", "take-over", "shared-resource", "read-only"], live),
            "skip"
        );
    }
}

/// A rule that says nothing of the operation leaves it to the gate, which never means Services.
#[test]
fn the_gate_counts_where_no_rule_says_how() {
    let owner = owner();
    let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "b"},
        "metadata": {"name": "d", "namespace": "n",
            "labels": {"app.oam.dev/name": "app", "app.oam.dev/namespace": "n"}}});
    for (manifest, strategy, gate, replaces) in [
        (deployment("b"), json!({}), true, true),
        (deployment("b"), json!({}), false, false),
        (deployment("b"), json!({"recreateFields": ["kind"]}), true, true),
        (deployment("b"), json!({"op": "patch"}), true, false),
        (deployment("b"), json!({"op": "replace"}), false, true),
        (service.clone(), json!({}), true, false),
        (service.clone(), json!({"op": "replace"}), false, true),
    ] {
        let rules =
            json!({"rules": [{"selector": {"resourceNames": ["d"]}, "strategy": strategy}]});
        let policies = policies(&[("resource-update", rules)]);
        let mut live = stored(decide(&manifest, None, &policies, Stage::Update).unwrap());
        live["spec"] = json!({"type": "a", "replicas": 3});
        let options =
            Options { replace_by_default: gate, ..options(&owner, &policies, Stage::Update) };
        let prepared = prepare(&manifest, Some(&live), &options).unwrap();
        let write = plan(&prepared, Some(&live), &options).unwrap();
        assert_eq!(matches!(write, Write::Replace(_)), replaces, "{strategy} {gate}: {write:?}");
    }
}

#[test]
fn a_path_that_is_not_there_is_told() {
    let once = policies(&[(
        "apply-once",
        json!({"enable": true, "rules": [
        {"selector": {"resourceNames": ["d"]}, "strategy": {"path": ["spec.nothere"]}}]}),
    )]);
    let live = stored(decide(&deployment("a"), None, &once, Stage::Update).unwrap());
    assert_eq!(
        decide(&deployment("a"), Some(&live), &once, Stage::Update).unwrap_err().to_string(),
        "failed to apply once policy for application app,spec.nothere: no such field in Deployment n/d"
    );
}

#[test]
fn recreate_and_replace() {
    let none = ResourcePolicies::default();
    let live = stored(decide(&deployment("a"), None, &none, Stage::Update).unwrap());
    let rule = |strategy: &Value| {
        policies(&[(
            "resource-update",
            json!({"rules": [{"selector": {"resourceNames": ["d"]}, "strategy": strategy}]}),
        )])
    };
    let recreate = rule(&json!({"recreateFields": ["spec.template.spec.containers[0].image"]}));
    assert!(matches!(
        decide(&deployment("b"), Some(&live), &recreate, Stage::Update),
        Ok(Write::Recreate { delete: true, .. })
    ));
    let missing = rule(&json!({"recreateFields": ["spec.nothing"]}));
    assert_eq!(
        decide(&deployment("b"), Some(&live), &missing, Stage::Update).unwrap_err().to_string(),
        "unable to get path spec.nothing from Deployment n/d"
    );
    let replace = rule(&json!({"op": "replace"}));
    let Ok(Write::Replace(object)) = decide(&deployment("b"), Some(&live), &replace, Stage::Update)
    else {
        panic!()
    };
    assert_eq!(object["metadata"]["resourceVersion"], json!("1"));
    assert_eq!(annotation(&object, names::annotation::LAST_APPLIED_CONFIG), None);
}

#[test]
fn apply_once_takes_the_live_value() {
    let once = policies(&[(
        "apply-once",
        json!({"enable": true, "rules": [
        {"selector": {"componentNames": ["d"]}, "strategy": {"path": ["spec.replicas"]}}]}),
    )]);
    let mut live = stored(decide(&deployment("a"), None, &once, Stage::Update).unwrap());
    live["spec"]["replicas"] = json!(7);
    assert_eq!(
        decide(&deployment("a"), Some(&live), &once, Stage::StateKeep).map(|w| match w {
            Write::Patch { body, .. } => body.get("spec").cloned(),
            _ => None,
        }),
        Ok(None)
    );
    let star = policies(&[(
        "apply-once",
        json!({"enable": true, "rules": [
        {"selector": {"componentNames": ["d"]}, "strategy": {"path": ["*"], "affect": "onStateKeep"}}]}),
    )]);
    live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("edited");
    let write = decide(&deployment("a"), Some(&live), &star, Stage::StateKeep).unwrap();
    if let Write::Patch { body, .. } = &write {
        assert!(body.get("spec").is_none(), "{body}");
    }
}

/// While a step waits, what others may change is neither put back nor noted: the next reconcile would take it for an edit.
#[test]
fn a_repair_while_a_step_waits_leaves_the_marks_of_the_dispatch() {
    let none = ResourcePolicies::default();
    let live = stored(decide(&deployment("a"), None, &none, Stage::Update).unwrap());
    assert_eq!(decide(&deployment("a"), Some(&live), &none, Stage::Wait), Ok(Write::Skip));
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(7);
    let write = decide(&deployment("a"), Some(&scaled), &none, Stage::Wait).unwrap();
    assert_eq!(
        write,
        Write::Patch { kind: PatchKind::Strategic, body: json!({"spec": {"replicas": 1}}) }
    );
    for (affect, op) in [("onStateKeep", "patch"), ("onUpdate", "patch"), ("", "replace")] {
        let rules = policies(&[
            (
                "apply-once",
                json!({"enable": true, "rules": [{"selector": {"componentNames": ["d"]},
                "strategy": {"path": ["spec.replicas"], "affect": affect}}]}),
            ),
            (
                "resource-update",
                json!({"rules": [{"selector": {"componentNames": ["d"]}, "strategy": {"op": op}}]}),
            ),
        ]);
        let decide = |live: &Value| decide(&deployment("a"), Some(live), &rules, Stage::Wait);
        assert_eq!(decide(&scaled), Ok(Write::Skip), "{affect} {op}");
        let mut edited = scaled.clone();
        edited["spec"]["template"]["spec"]["containers"][0]["image"] = json!("edited");
        match decide(&edited).unwrap() {
            Write::Patch { body, .. } if op == "patch" => {
                let image = json!([{"name": "d", "image": "a"}]);
                assert_eq!(body["spec"]["template"]["spec"]["containers"], image, "{body}");
                assert_eq!(body["spec"]["replicas"], Value::Null, "{body}");
                assert_eq!(body["metadata"], Value::Null, "{body}");
            }
            Write::Replace(object) if op == "replace" => {
                assert_eq!(object["spec"]["replicas"], 7, "{object}");
                let hash = |object: &Value| {
                    label(object, names::label::RENDER_HASH).unwrap_or_default().to_owned()
                };
                assert_eq!(hash(&object), hash(&live));
            }
            other => panic!("{affect} {op}: {other:?}"),
        }
    }
}

#[test]
fn paths() {
    let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "spec": {"list": [{"k": 1}]}});
    assert_eq!(get_path(&object, "spec.list[0].k"), Some(&json!(1)));
    assert_eq!(get_path(&object, "metadata.labels[\"a.b/c\"]"), Some(&json!("x")));
    assert_eq!(get_path(&object, "metadata.labels['a.b/c']"), Some(&json!("x")));
    assert_eq!(get_path(&object, "spec.list[7].k"), None);
    let mut object = object;
    for (path, first) in [
        ("spec.not.there", "spec.not"),
        ("spec.list[7].k", "spec.list[7]"),
        ("spec.list[0].not[1]", "spec.list[0].not"),
        ("metadata.annotations[\"a.b/c\"]", "metadata.annotations"),
        ("metadata.labels[\"d.e/f\"]", "metadata.labels[\"d.e/f\"]"),
        ("metadata.labels[\"d.e/f\"].x", "metadata.labels[\"d.e/f\"]"),
    ] {
        assert_eq!(missing(&object, path), first);
    }
    set_path(&mut object, "spec.list[0].k", json!(2));
    set_path(&mut object, "spec.new.deep", json!(true));
    assert_eq!(object["spec"], json!({"list": [{"k": 2}], "new": {"deep": true}}));
}

#[test]
fn what_left_the_text_of_a_secret_goes() {
    let none = ResourcePolicies::default();
    let secret = |text: Value| {
        let mut object = config_map(&json!({}));
        object["kind"] = json!("Secret");
        object.as_object_mut().unwrap().remove("data");
        object["stringData"] = text;
        object
    };
    let before = secret(json!({"a": "1", "b": "2"}));
    let live = stored(decide(&before, None, &none, Stage::Update).unwrap());
    assert_eq!(live["data"], json!({"a": "MQ==", "b": "Mg=="}));
    let after = secret(json!({"a": "1"}));
    let owner = owner();
    let options = Options {
        previous: std::slice::from_ref(&before),
        ..options(&owner, &none, Stage::Update)
    };
    let prepared = prepare(&after, Some(&live), &options).unwrap();
    let Ok(Write::Patch { body, .. }) = plan(&prepared, Some(&live), &options) else { panic!() };
    assert_eq!(body["data"], json!({"b": null}));
    // The same text is no reason to write.
    assert_eq!(decide(&before, Some(&live), &none, Stage::StateKeep), Ok(Write::Skip));
}

proptest::proptest! {
    /// Whatever was recorded and never written, whoever else writes: after a write our keys are those of the manifest,
    /// and the others are still there.
    #[test]
    fn a_write_leaves_nothing_of_what_was_dispatched_before(
        edits in proptest::collection::vec((0_u8..16, proptest::bool::ANY, 0_u8..8), 1..12),
    ) {
        let none = ResourcePolicies::default();
        let owner = owner();
        let keys = |bits: u8, of: &[&str]| -> Map<String, Value> {
            let set = of.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            set.map(|(_, key)| ((*key).to_owned(), json!("1"))).collect()
        };
        let own = ["a", "b", "c", "d"];
        let mut live: Option<Value> = None;
        let mut records: Vec<Value> = Vec::new();
        let last = edits.len() - 1;
        for (index, (bits, dies, foreign)) in edits.into_iter().enumerate() {
            let manifest = config_map(&Value::Object(keys(bits, &own)));
            if records.first() != Some(&manifest) {
                records.insert(0, manifest.clone());
            }
            if dies && index != last {
                continue;
            }
            let previous: Vec<_> = records.iter().filter(|r| **r != manifest).cloned().collect();
            let options = Options { previous: &previous, ..options(&owner, &none, Stage::Update) };
            let prepared = prepare(&manifest, live.as_ref(), &options).unwrap();
            match plan(&prepared, live.as_ref(), &options).unwrap() {
                Write::Patch { body, .. } => {
                    strategic::apply(live.as_mut().unwrap(), &body, strategic::Type::Object);
                }
                Write::Skip => {}
                write => live = Some(stored(write)),
            }
            let object = live.as_mut().unwrap();
            let mut others = object["data"].as_object().cloned().unwrap_or_default();
            others.retain(|key, _| own.contains(&key.as_str()));
            proptest::prop_assert_eq!(others, keys(bits, &own));
            let more = keys(foreign, &["x", "y", "z"]);
            if !object["data"].is_object() {
                object["data"] = json!({});
            }
            object["data"].as_object_mut().unwrap().extend(more.clone());
            proptest::prop_assert!(more.keys().all(|key| object["data"].get(key).is_some()));
        }
    }
}
