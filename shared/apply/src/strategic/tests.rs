//! Tests of this module.

use serde_json::{Value, json};

use super::*;

fn deployment(spec: &Value) -> Value {
    json!({"kind": "Deployment", "spec": {"template": {"spec": spec}}})
}

#[track_caller]
fn check(original: &Value, modified: &Value, current: &Value, patch: &Value, result: &Value) {
    let (o, m, c) = (deployment(original), deployment(modified), deployment(current));
    let got = three_way(&o, &m, &c, Type::Workload);
    let expected = if patch.as_object().is_some_and(Map::is_empty) {
        json!({})
    } else {
        json!({"spec": {"template": {"spec": patch}}})
    };
    assert_eq!(got, expected);
    let mut applied = c;
    apply(&mut applied, &got, Type::Workload);
    assert_eq!(applied, deployment(result));
    // The same edit again changes nothing.
    assert_eq!(three_way(&m, &m, &applied, Type::Workload), json!({}));
}

#[test]
fn containers_merge_by_name_and_keep_what_others_added() {
    check(
        &json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}]}),
        &json!({"containers": [{"name": "a", "image": "2"}]}),
        &json!({"containers": [
            {"name": "a", "image": "1", "imagePullPolicy": "Always", "env": [{"name": "X", "value": "1"}]},
            {"name": "istio", "image": "proxy"}]}),
        &json!({
            "containers": [{"name": "a", "image": "2", "env": null}],
            "$setElementOrder/containers": [{"name": "a"}]}),
        &json!({"containers": [
            {"name": "a", "image": "2", "imagePullPolicy": "Always"},
            {"name": "istio", "image": "proxy"}]}),
    );
}

#[test]
fn removed_elements_are_deleted_by_key() {
    check(
        &json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        &json!({"containers": [{"name": "b"}]}),
        &json!({"containers": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]}),
        &json!({
            "containers": [{"$patch": "delete", "name": "a"}],
            "$setElementOrder/containers": [{"name": "b"}]}),
        &json!({"containers": [{"name": "b", "x": 2}]}),
    );
}

#[test]
fn a_volume_that_changes_its_source_drops_the_old_one() {
    check(
        &json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        &json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
        &json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        &json!({
            "volumes": [{"name": "v", "configMap": {"name": "c"}, "emptyDir": null,
                "$retainKeys": ["configMap", "name"]}],
            "$setElementOrder/volumes": [{"name": "v"}]}),
        &json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
    );
}

#[test]
fn order_alone_is_a_change_and_foreign_elements_keep_their_place() {
    check(
        &json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        &json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        &json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
        &json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        &json!({"containers": [{"name": "b"}, {"name": "x"}, {"name": "a"}]}),
    );
}

#[test]
fn a_repeated_merge_key_replaces_the_list() {
    let ports = |tcp: u32| {
        json!({"containers": [{"name": "a", "ports": [
            {"containerPort": tcp, "protocol": "TCP"}, {"containerPort": tcp, "protocol": "UDP"}]}]})
    };
    check(
        &ports(53),
        &ports(54),
        &ports(53),
        &json!({
            "containers": [{"name": "a", "ports": [
                {"$patch": "replace"},
                {"containerPort": 54, "protocol": "TCP"}, {"containerPort": 54, "protocol": "UDP"}]}],
            "$setElementOrder/containers": [{"name": "a"}]}),
        &ports(54),
    );
}

#[test]
fn the_deployment_strategy_retains_only_the_new_keys() {
    let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}});
    let modified = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let patch = three_way(&json!({}), &modified, &current, Type::Workload);
    assert_eq!(patch, json!({"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}));
    let mut applied = current;
    apply(&mut applied, &patch, Type::Workload);
    assert_eq!(applied, modified);
}

#[test]
fn finalizers_are_a_set() {
    let meta = |list: &Value| json!({"metadata": {"finalizers": list}});
    let (o, m, c) =
        (meta(&json!(["a", "b"])), meta(&json!(["b", "n"])), meta(&json!(["a", "x", "b"])));
    let patch = three_way(&o, &m, &c, Type::Object);
    assert_eq!(
        patch,
        json!({"metadata": {
            "finalizers": ["n"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["b", "n"]}})
    );
    let mut applied = c;
    apply(&mut applied, &patch, Type::Object);
    assert_eq!(applied, meta(&json!(["x", "b", "n"])));
}

#[test]
fn unknown_lists_are_replaced() {
    let spec = |list: &Value| json!({"spec": {"rules": list}});
    let patch =
        three_way(&spec(&json!([1])), &spec(&json!([2])), &spec(&json!([1, 9])), Type::Object);
    assert_eq!(patch, spec(&json!([2])));
}

/// Every list of a spec that `k8s.io/api` 0.34 merges by a key, in addition to those of Pods: an element that left goes, one of
/// somebody else stays.
#[test]
fn lists_that_the_server_merges_lose_what_left() {
    let policy = |kind| type_of("admissionregistration.k8s.io", kind).unwrap();
    let cases = [
        (policy("ValidatingAdmissionPolicy"), "/spec/matchConditions", "name"),
        (policy("ValidatingAdmissionPolicy"), "/spec/variables", "name"),
        (policy("MutatingAdmissionPolicy"), "/spec/matchConditions", "name"),
        (policy("ValidatingWebhookConfiguration"), "/webhooks", "name"),
        (policy("MutatingWebhookConfiguration"), "/webhooks", "name"),
        (type_of("", "PodTemplate").unwrap(), "/template/spec/containers", "name"),
        (
            type_of("batch", "CronJob").unwrap(),
            "/spec/jobTemplate/spec/template/spec/volumes",
            "name",
        ),
        (type_of("", "Service").unwrap(), "/spec/ports", "port"),
        (type_of("", "ServiceAccount").unwrap(), "/secrets", "name"),
        (type_of("storage.k8s.io", "CSINode").unwrap(), "/spec/drivers", "name"),
    ];
    for (ty, path, key) in cases {
        let object = |ids: &[&str]| {
            let list: Vec<_> = ids.iter().map(|id| json!({key: id, "x": 1})).collect();
            path.rsplit('/').filter(|part| !part.is_empty()).fold(json!(list), |v, k| json!({k: v}))
        };
        let (before, after) = (object(&["a", "b"]), object(&["a"]));
        let mut live = object(&["a", "b", "foreign"]);
        let patch = three_way(&before, &after, &live, ty);
        apply(&mut live, &patch, ty);
        assert_eq!(live, object(&["a", "foreign"]), "{path}: {patch}");
    }
}

#[test]
fn the_conditions_of_one_webhook_merge_by_name() {
    let ty = type_of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration").unwrap();
    let hook =
        |conditions: &Value| json!({"webhooks": [{"name": "w", "matchConditions": conditions}]});
    let (one, two) = (json!({"name": "one"}), json!({"name": "two"}));
    let mut live = hook(&json!([one, two]));
    let patch = three_way(&hook(&json!([one, two])), &hook(&json!([one])), &live, ty);
    apply(&mut live, &patch, ty);
    assert_eq!(live, hook(&json!([one])), "{patch}");
}

/// The API server puts the selector of a patch in the place of the whole selector.
#[test]
fn the_selector_of_a_budget_is_sent_as_a_whole() {
    let ty = type_of("policy", "PodDisruptionBudget").unwrap();
    let budget = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
    let before = budget(json!({"app": "a", "tier": "x", "old": "y"}));
    let after = budget(json!({"app": "a", "tier": "z"}));
    let mut live = before.clone();
    let patch = three_way(&before, &after, &live, ty);
    assert_eq!(patch, after);
    apply(&mut live, &patch, ty);
    assert_eq!(live, after);
    assert_eq!(three_way(&after, &after, &live, ty), json!({}));
}

#[test]
fn built_in_and_foreign_kinds() {
    assert_eq!(type_of("apps", "Deployment"), Some(Type::Workload));
    assert_eq!(type_of("", "ConfigMap"), Some(Type::Object));
    assert_eq!(type_of("apiextensions.k8s.io", "CustomResourceDefinition"), None);
    assert_eq!(type_of("example.com", "Deployment"), None);
}
