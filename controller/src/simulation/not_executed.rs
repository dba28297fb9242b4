//! Steps that a run did not come to: skipped by their condition, or behind one that failed. Objects that earlier runs rendered from them are
//! still in the spec, and stays.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{NAMESPACE, Process, World, application, maps};

const DEPLOY: &str = r#"
import "vela/op"

deploy: op.#Deploy & {
    policies: parameter.policies, parallelism: 5, ignoreTerraformComponent: true, inlinePolicies: []
}
parameter: policies: [...string]
"#;
const TO_ENVIRONMENT: &str = r#"
import "vela/op"

app: op.#ApplyEnvBindApp & {
    app: context.name, namespace: context.namespace, env: parameter.env, policy: "", parallel: false
}
parameter: env: string
"#;
const REMAINING: &str = r#"
import "vela/op"

apply: op.#ApplyRemaining & {parameter}
parameter: exceptions?: [...string]
"#;
const OBJECT: &str = r#"
import "vela/op"

apply: op.#Apply & {value: {apiVersion: "v1", kind: "ConfigMap",
    metadata: {name: parameter.name, namespace: "n"}, data: v: "object"}}
parameter: name: string
"#;

fn world() -> World {
    let world = World::new();
    world.server.by_another_writer(|state| {
        for (name, template) in [
            ("deploy", DEPLOY),
            ("deploy2env", TO_ENVIRONMENT),
            ("apply-remaining", REMAINING),
            ("object", OBJECT),
        ] {
            state.put(
                "workflowstepdefinitions",
                json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
                    "metadata": {"name": name, "namespace": "vela-system"},
                    "spec": {"schematic": {"cue": {"template": template}}}}),
            );
        }
    });
    world
}

/// Creates or edits the Application and lets it settle.
async fn settle(world: &World, process: &mut Process, app: &Value) {
    world.server.by_another_writer(|state| {
        let mut app = app.clone();
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        state.put("applications", app);
    });
    world.settle(process, "a").await;
}

fn expected(maps: &[(&str, &str)]) -> BTreeMap<String, String> {
    maps.iter().map(|(placement, value)| ((*placement).to_owned(), (*value).to_owned())).collect()
}

fn phase(world: &World) -> Value {
    world.app("a")["status"]["status"].clone()
}

/// A topology policy for each place, and an override that adds the component `e`.
fn topologies() -> Value {
    json!([
        {"name": "m", "type": "topology", "properties": {"clusters": ["local"], "namespace": "m"}},
        {"name": "o", "type": "topology", "properties": {"clusters": ["local"], "namespace": "o"}},
        {"name": "more", "type": "override", "properties": {"components": [
            {"name": "e", "type": "maps", "properties": {"names": ["y"], "value": "more"}}]}},
    ])
}

/// A step of type `deploy`, or one that is skipped.
fn deploy(policies: &[&str], skipped: bool) -> Value {
    let name = policies[0];
    let mut step = json!({"name": name, "type": "deploy", "properties": {"policies": policies}});
    if skipped {
        step["if"] = json!("1 == 2");
    }
    step
}

#[tokio::test]
async fn what_a_skipped_deploy_made_stays_at_its_place() {
    let world = world();
    let mut process = world.start();
    let app = |components: &[(&str, &[&str], &str)], skipped: bool| {
        let mut app = application("a", components);
        app["spec"]["policies"] = topologies();
        app["spec"]["workflow"] =
            json!({"steps": [deploy(&["m"], false), deploy(&["o", "more"], skipped)]});
        app
    };
    settle(&world, &mut process, &app(&[("c", &["w", "x"], "1"), ("d", &["z"], "1")], false)).await;
    let both = [
        ("m/w", "1"),
        ("m/x", "1"),
        ("m/z", "1"),
        ("o/w", "1"),
        ("o/x", "1"),
        ("o/y", "more"),
        ("o/z", "1"),
    ];
    assert_eq!(maps(&world), expected(&both));
    // One ConfigMap less, and one component less: at the place that was deployed to both go, at the other only what belongs
    // to a component that left the spec.
    settle(&world, &mut process, &app(&[("c", &["x"], "2")], true)).await;
    assert_eq!(phase(&world), "running");
    let left = [("m/x", "2"), ("o/w", "1"), ("o/x", "1"), ("o/y", "more")];
    assert_eq!(maps(&world), expected(&left));
    // Also after another run that skips it, and until it runs.
    settle(&world, &mut process, &app(&[("c", &["x"], "3")], true)).await;
    let left = [("m/x", "3"), ("o/w", "1"), ("o/x", "1"), ("o/y", "more")];
    assert_eq!(maps(&world), expected(&left));
    settle(&world, &mut process, &app(&[("c", &["x"], "3")], false)).await;
    assert_eq!(maps(&world), expected(&[("m/x", "3"), ("o/x", "3"), ("o/y", "more")]));
    world.server.by_another_writer(|state| {
        state.delete("applications", NAMESPACE, "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), BTreeMap::new());
}

/// Steps of older kinds that deploy components, and a group around one.
#[tokio::test]
async fn what_other_skipped_steps_made_stays() {
    let environment = json!({"name": "s", "type": "deploy2env", "properties": {"env": "test"}});
    let remaining = json!({"name": "s", "type": "apply-remaining"});
    let group = json!({"name": "g", "type": "step-group", "subSteps": [deploy(&["m"], false)]});
    for (step, placement) in [(environment, "m"), (remaining, "n"), (group, "m")] {
        let world = world();
        let mut process = world.start();
        let app = |components: &[(&str, &[&str], &str)], skipped: bool| {
            let mut app = application("a", components);
            let mut policies = topologies();
            policies.as_array_mut().unwrap().push(json!({
                "name": "e", "type": "env-binding", "properties": {"envs": [{"name": "test",
                    "placement": {"namespaceSelector": {"name": "m"}}}]}}));
            app["spec"]["policies"] = policies;
            let mut step = step.clone();
            if skipped {
                step["if"] = json!("1 == 2");
            }
            app["spec"]["workflow"] = json!({ "steps": [step] });
            app
        };
        settle(&world, &mut process, &app(&[("c", &["x"], "1"), ("d", &["z"], "1")], false)).await;
        let made = [(&*format!("{placement}/x"), "1"), (&*format!("{placement}/z"), "1")];
        assert_eq!(maps(&world), expected(&made), "{step} {:#}", world.app("a")["status"]);
        settle(&world, &mut process, &app(&[("c", &["x"], "2")], true)).await;
        assert_eq!(phase(&world), "running");
        assert_eq!(maps(&world), expected(&[(&format!("{placement}/x"), "1")]), "{step}");
    }
}

/// With `continueOnFailure` only what left the spec goes after a failure.
#[tokio::test]
async fn what_is_behind_a_failure_stays() {
    let object = json!({"name": "object", "type": "object", "properties": {"name": "v"}});
    for (with_object, left) in [
        // Nobody can say what the step would have applied.
        (true, &[("n/v", "object"), ("n/x", "1"), ("n/y", "more"), ("n/z", "1")][..]),
        // Component `d` left the spec.
        (false, &[("n/x", "1"), ("n/y", "more")]),
    ] {
        let world = world();
        let mut process = world.start();
        process.settings().workflow.max_error_retries = 0;
        let app = |components: &[(&str, &[&str], &str)]| {
            let mut app = application("a", components);
            let mut policies = topologies();
            policies.as_array_mut().unwrap().push(json!({
                "name": "g", "type": "garbage-collect", "properties": {"continueOnFailure": true}}));
            app["spec"]["policies"] = policies;
            let first = json!({"name": "first", "type": "apply-component",
                "properties": {"component": "c"}});
            let mut steps = vec![first, deploy(&["more"], false)];
            if with_object {
                steps.push(object.clone());
            }
            app["spec"]["workflow"] = json!({ "steps": steps });
            app
        };
        settle(&world, &mut process, &app(&[("c", &["x"], "1"), ("d", &["z"], "1")])).await;
        assert_eq!(phase(&world), "running", "{:#}", world.app("a")["status"]);
        world.server.state.lock().refused = Some("x");
        settle(&world, &mut process, &app(&[("c", &["x"], "2")])).await;
        assert_eq!(phase(&world), "workflowFailed");
        assert_eq!(maps(&world), expected(left), "{with_object}");
        // What continues after that ends as if nothing had failed.
        world.server.state.lock().refused = None;
        settle(&world, &mut process, &app(&[("c", &["x"], "3")])).await;
        let mut end = vec![("n/x", "3"), ("n/y", "more")];
        end.extend(with_object.then_some(("n/v", "object")));
        assert_eq!(maps(&world), expected(&end), "{with_object}");
    }
}
