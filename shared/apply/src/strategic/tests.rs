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

#[test]
fn built_in_and_foreign_kinds() {
    assert_eq!(type_of("apps", "Deployment"), Some(Type::Workload));
    assert_eq!(type_of("", "ConfigMap"), Some(Type::Object));
    assert_eq!(type_of("apiextensions.k8s.io", "CustomResourceDefinition"), None);
    assert_eq!(type_of("example.com", "Deployment"), None);
}
