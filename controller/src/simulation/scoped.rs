//! Application-scoped policies: what they make of Applications, and when that is rolled out.

use serde_json::{Value, json};

use super::server::Death;
use super::{NAMESPACE, Process, World, application};

/// Sets the value of every component, a label, and something for templates.
const POLICY: &str = r#"
parameter: value: *"by-policy" | string
output: {
    components: [for c in context.appComponents {
        name: c.name
        type: c.type
        properties: {names: c.properties.names, value: parameter.value + "-" + c.properties.value}
    }]
    labels: tier: "gold"
    ctx: region: "eu"
}
"#;

fn world() -> World {
    let mut world = World::new();
    world.gates.enable_application_scoped_policies = true;
    world.gates.enable_global_policies = true;
    world
}

fn define(world: &World, namespace: &str, name: &str, global: bool, template: &str) {
    world.server.by_another_writer(|state| {
        state.put(
            "policydefinitions",
            json!({
                "apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinition",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"scope": "Application", "global": global,
                    "schematic": {"cue": {"template": template}}},
            }),
        );
    });
}

fn with_policy(mut app: Value) -> Value {
    app["spec"]["policies"] = json!([{"name": "p", "type": "scoped"}]);
    app
}

/// Creates or edits an Application; an edit keeps what the server holds.
fn apply(world: &World, app: &Value) {
    world.server.by_another_writer(|state| {
        let name = app["metadata"]["name"].as_str().unwrap_or_default();
        let mut object = state.get("applications", NAMESPACE, name).cloned().unwrap_or_default();
        vela_apply::json_merge::apply(&mut object, app);
        state.put("applications", object);
    });
}

fn value(world: &World, map: &str) -> String {
    let state = world.server.state.lock();
    let found = state.get("configmaps", NAMESPACE, map).cloned().unwrap_or_default();
    found["data"]["v"].as_str().unwrap_or_default().to_owned()
}

fn record(world: &World) -> Option<Value> {
    let state = world.server.state.lock();
    state.get("configmaps", NAMESPACE, "application-policies-n-a").cloned()
}

fn revisions(world: &World) -> usize {
    world.server.state.lock().all("applicationrevisions").len()
}

/// Reconciles repeatedly, also in another process: nothing is written.
async fn rests(world: &World, process: &mut Process) {
    let before = world.server.state.lock().writes;
    for _ in 0..3 {
        world.settle(process, "a").await;
    }
    *process = world.start();
    world.settle(process, "a").await;
    assert_eq!(world.server.state.lock().writes, before, "{:#}", world.app("a"));
}

#[tokio::test]
async fn a_listed_policy_changes_what_is_deployed_and_then_rests() {
    let world = world();
    define(&world, "vela-system", "scoped", false, POLICY);
    let mut process = world.start();
    apply(&world, &with_policy(application("a", &[("c", &["x"], "1")])));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world, "x"), "by-policy-1");
    let app = world.app("a");
    assert_eq!(app["spec"]["components"][0]["properties"]["value"], "1");
    assert_eq!(app["metadata"]["labels"]["tier"], "gold");
    let applied = &app["status"]["appliedApplicationPolicies"];
    assert_eq!(
        *applied,
        json!([{"name": "p", "namespace": "vela-system", "applied": true, "type": "scoped",
            "source": "explicit", "specModified": true, "labelsCount": 1, "hasContext": true}])
    );
    assert_eq!(app["status"]["applicationPoliciesConfigMap"], "application-policies-n-a");
    let data = record(&world).expect("there is a record")["data"].clone();
    assert!(data["rendered_spec"].as_str().unwrap().contains("by-policy-1"), "{data:#}");
    let entry = |key: &str| serde_json::from_str::<Value>(data[key].as_str().unwrap()).unwrap();
    let policy = entry("001-p");
    assert_eq!((&policy["name"], &policy["namespace"]), (&json!("p"), &json!("vela-system")));
    assert_eq!((&policy["enabled"], &policy["priority"]), (&json!(true), &json!(0)));
    assert_eq!(policy["output"]["labels"], json!({"tier": "gold"}));
    let spec =
        |when: &str| policy["output"]["spec"][when]["components"][0]["properties"]["value"].clone();
    assert_eq!((spec("before"), spec("after")), (json!("1"), json!("by-policy-1")));
    assert!(entry("info")["rendered_at"].as_str().unwrap().ends_with('Z'), "{data:#}");
    {
        let state = world.server.state.lock();
        let revision = state.get("applicationrevisions", NAMESPACE, "a-v1").cloned().unwrap();
        assert_eq!(
            revision["spec"]["application"]["spec"]["components"][0]["properties"]["value"],
            "by-policy-1"
        );
        assert!(revision["spec"]["policyDefinitions"]["scoped"].is_object());
        assert!(revision["spec"]["policyVersions"]["p"].is_object());
        let labels =
            &state.get("configmaps", NAMESPACE, "x").cloned().unwrap()["metadata"]["labels"];
        assert_eq!(labels["tier"], "gold");
    }
    rests(&world, &mut process).await;
    // The policy leaves: what it made goes.
    apply(&world, &json!({"metadata": {"name": "a"}, "spec": {"policies": null}}));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world, "x"), "1");
    assert_eq!(world.app("a")["status"]["appliedApplicationPolicies"], Value::Null);
    assert_eq!(world.app("a")["status"]["applicationPoliciesConfigMap"], Value::Null);
    assert!(record(&world).is_none());
    rests(&world, &mut process).await;
}

#[tokio::test]
async fn another_policy_waits_for_an_edit_unless_revisions_may_follow() {
    for auto in [false, true] {
        let world = world();
        define(&world, "vela-system", "scoped", false, POLICY);
        let mut process = world.start();
        let mut app = with_policy(application("a", &[("c", &["x"], "1")]));
        if auto {
            app["metadata"]["annotations"] = json!({"policy.oam.dev/auto-revision": "true"});
        }
        apply(&world, &app);
        world.settle(&mut process, "a").await;
        let changed = POLICY.replace("by-policy", "changed").replace("gold", "silver");
        define(&world, "vela-system", "scoped", false, &changed);
        process = world.start();
        world.settle(&mut process, "a").await;
        let expected = if auto { ("changed-1", 2) } else { ("by-policy-1", 1) };
        assert_eq!((value(&world, "x").as_str(), revisions(&world)), expected, "auto: {auto}");
        rests(&world, &mut process).await;
        apply(&world, &with_policy(application("a", &[("c", &["x"], "2")])));
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "x"), "changed-2", "auto: {auto}");
        assert_eq!(world.app("a")["metadata"]["labels"]["tier"], "silver");
        rests(&world, &mut process).await;
    }
}

#[tokio::test]
async fn global_policies_apply_to_all_and_fail_softly() {
    let world = world();
    define(&world, "vela-system", "everywhere", true, "output: labels: g: \"system\"");
    define(&world, NAMESPACE, "everywhere", true, "output: labels: g: \"own\"");
    define(&world, "vela-system", "broken", true, "output: labels: h: context.nothing");
    define(&world, "other", "elsewhere", true, "output: labels: e: \"no\"");
    define(&world, "vela-system", "off", true, "enabled: false\noutput: labels: o: \"no\"");
    let mut process = world.start();
    apply(&world, &application("a", &[("c", &["x"], "1")]));
    world.settle(&mut process, "a").await;
    let app = world.app("a");
    assert_eq!(app["metadata"]["labels"], json!({"g": "own"}));
    let applied_policies = app["status"]["appliedApplicationPolicies"].as_array().unwrap();
    let applied_policies: Vec<_> =
        applied_policies.iter().map(|t| json!([t["name"], t["applied"], t["error"]])).collect();
    let expected =
        json!([["broken", false, true], ["everywhere", true, null], ["off", false, null]]);
    assert_eq!(json!(applied_policies), expected);
    assert_eq!(value(&world, "x"), "1");
    rests(&world, &mut process).await;
    let mut skips = application("a", &[("c", &["x"], "1")]);
    skips["metadata"]["annotations"] = json!({"policy.oam.dev/skip-global": "true"});
    apply(&world, &skips);
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["appliedApplicationPolicies"], Value::Null);
    assert_eq!(revisions(&world), 1);
    rests(&world, &mut process).await;
}

#[tokio::test]
async fn a_listed_policy_that_fails_stops_the_rollout_until_it_is_mended() {
    let world = world();
    define(&world, "vela-system", "scoped", false, "output: components: context.nothing");
    let mut process = world.start();
    apply(&world, &with_policy(application("a", &[("c", &["x"], "1")])));
    for _ in 0..3 {
        world.reconcile(&process, "a").await;
    }
    let status = world.app("a")["status"].clone();
    assert_eq!(status["status"], "starting");
    let text = status["conditions"].to_string();
    assert!(text.contains("failed to render explicit policy"), "{text}");
    assert_eq!(revisions(&world), 0);
    define(&world, "vela-system", "scoped", false, POLICY);
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world, "x"), "by-policy-1");
}

/// What a policy derives from its own output must not be derived again and again.
#[tokio::test]
async fn a_policy_that_never_comes_to_rest_is_not_followed() {
    let world = world();
    let restless = r#"output: labels: {
        let seen = [if context.appLabels.n != _|_ {context.appLabels.n}, ""][0]
        n: seen + "x"
        m: "stays"
    }"#;
    define(&world, "vela-system", "restless", true, restless);
    let mut process = world.start();
    apply(&world, &application("a", &[("c", &["x"], "1")]));
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["metadata"]["labels"], json!({"m": "stays"}));
    rests(&world, &mut process).await;
}

#[tokio::test]
async fn without_its_gate_a_policy_does_nothing() {
    let mut world = world();
    world.gates.enable_application_scoped_policies = false;
    define(&world, "vela-system", "scoped", false, POLICY);
    define(&world, "vela-system", "everywhere", true, "output: labels: g: \"system\"");
    let mut process = world.start();
    apply(&world, &with_policy(application("a", &[("c", &["x"], "1")])));
    world.settle(&mut process, "a").await;
    assert_eq!(value(&world, "x"), "1");
    assert_eq!(world.app("a")["metadata"]["labels"], Value::Null);
    assert_eq!(world.app("a")["status"]["appliedApplicationPolicies"], Value::Null);
    rests(&world, &mut process).await;
}

#[tokio::test]
async fn death_at_any_write_leaves_the_same() {
    for at in 1.. {
        let mut died = 0;
        for death in [Death::Before(at), Death::After(at)] {
            let world = world();
            define(&world, "vela-system", "scoped", false, POLICY);
            let mut process = world.start();
            world.server.state.lock().death = Some(death);
            apply(&world, &with_policy(application("a", &[("c", &["x", "y"], "1")])));
            died += world.settle(&mut process, "a").await;
            let state = format!("{death:?}: {:#}", world.app("a"));
            assert_eq!(value(&world, "y"), "by-policy-1", "{state}");
            assert_eq!(world.app("a")["status"]["status"], "running", "{state}");
            assert_eq!(revisions(&world), 1, "{state}");
            assert!(record(&world).is_some(), "{state}");
            rests(&world, &mut process).await;
        }
        if died == 0 {
            assert!(at > 5, "only {at} writes");
            break;
        }
    }
}
