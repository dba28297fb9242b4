//! A component at several places and in several copies: each has its own objects, and traits that wait for the workload see
//! that of their own place and copy.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::clusters::apply;
use super::{World, application, define_step, maps};
use crate::context::AllowedTypes;

/// A component makes one ConfigMap for each place and copy; a trait of the last stage notes what it sees of it.
const TEMPLATE: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "w\(context.replicaKey)",
    data: v: "\(context.namespace)\(context.replicaKey)\(parameter.value)"}
parameter: {value: string, names?: [...string]}
"#;
const LATE: &str = r#"
outputs: late: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "late\(context.replicaKey)",
    data: v: context.output.data.v}
parameter: {}
"#;
const DEPLOY: &str = r#"
import "vela/op"

deploy: op.#Deploy & {
    policies: parameter.policies, parallelism: 5, ignoreTerraformComponent: true, inlinePolicies: []
}
parameter: policies: [...string]
"#;

pub(super) fn define(world: &World) {
    world.server.by_another_writer(|state| {
        let mut definition =
            state.get("componentdefinitions", "vela-system", "maps").cloned().unwrap();
        definition["spec"]["schematic"]["cue"]["template"] = json!(TEMPLATE);
        state.put("componentdefinitions", definition);
        for (plural, kind, name, spec) in [
            (
                "traitdefinitions",
                "TraitDefinition",
                "late",
                json!({"stage": "PostDispatch",
                "schematic": {"cue": {"template": LATE}}}),
            ),
            (
                "workflowstepdefinitions",
                "WorkflowStepDefinition",
                "deploy",
                json!({"schematic": {"cue": {"template": DEPLOY}}}),
            ),
        ] {
            state.put(
                plural,
                json!({"apiVersion": "core.oam.dev/v1beta1", "kind": kind,
                "metadata": {"name": name, "namespace": "vela-system"}, "spec": spec}),
            );
        }
    });
}

#[tokio::test]
async fn late_traits_see_the_workload_of_their_place_and_copy() {
    let world = World::new();
    define(&world);
    let mut process = world.start();
    let policies = |keys: &[&str], placements: &[&str]| {
        let mut all: Vec<Value> = placements
            .iter()
            .map(|placement| {
                json!({"name": format!("to-{placement}"), "type": "topology",
                    "properties": {"clusters": ["local"], "namespace": placement}})
            })
            .collect();
        all.push(json!({"name": "copies", "type": "replication",
            "properties": {"selector": ["c"], "keys": keys}}));
        all
    };
    let app = |keys: &[&str], placements: &[&str], value: &str| {
        let mut app = application("a", &[("c", &[], value)]);
        let policies = policies(keys, placements);
        let names: Vec<Value> = policies.iter().map(|policy| policy["name"].clone()).collect();
        app["spec"]["components"][0]["traits"] = json!([{"type": "late"}]);
        app["spec"]["policies"] = json!(policies);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "deploy", "type": "deploy", "properties": {"policies": names}}]});
        app
    };
    let expected = |keys: &[&str], placements: &[&str], value: &str| {
        let mut all = BTreeMap::new();
        for placement in placements {
            for key in keys {
                for name in ["w", "late"] {
                    all.insert(
                        format!("{placement}/{name}{key}"),
                        format!("{placement}{key}{value}"),
                    );
                }
            }
        }
        all
    };
    for (keys, placements, value) in [
        (&["x", "y"][..], &["n", "m"][..], "1"),
        (&["x", "y"], &["n", "m"], "2"),
        // One copy and one place less: its objects go, the others stay.
        (&["y"], &["m"], "2"),
        (&["y", "z"], &["o", "m"], "3"),
    ] {
        world.server.by_another_writer(|state| {
            let mut app = app(keys, placements, value);
            if let Some(stored) = state.get("applications", "n", "a") {
                app["metadata"] = stored["metadata"].clone();
                app["status"] = stored["status"].clone();
            }
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
        assert_eq!(maps(&world), expected(keys, placements, value));
    }
    world.server.by_another_writer(|state| {
        state.delete("applications", "n", "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), BTreeMap::new());
}

/// A step that overrides by itself: only its template names the trait.
const OVERRIDE: &str = r#"
import "vela/op"

deploy: op.#Deploy & {
    policies: [], parallelism: 5, ignoreTerraformComponent: true
    inlinePolicies: [{type: "override", name: "late", properties: components: [{traits: [{type: parameter.trait}]}]}]
}
parameter: trait: string
"#;

#[tokio::test]
async fn a_trait_that_only_the_template_of_a_step_names_is_found() {
    let world = World::new();
    define(&world);
    world.server.by_another_writer(|state| define_step(state, "override", OVERRIDE));
    let mut process = world.start();
    let put = |named: &str| {
        let mut app = application("a", &[("c", &[], "1")]);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "s", "type": "override", "properties": {"trait": named}}]});
        apply(&world, app);
    };
    put("late");
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
    let both = ["late", "w"].map(|name| (format!("n/{name}"), "n1".to_owned()));
    assert_eq!(maps(&world), both.into());
    put("nobody");
    for _ in 0..3 {
        world.reconcile(&process, "a").await;
    }
    let status = world.app("a")["status"].clone();
    let message = status["workflow"]["steps"][0]["message"].as_str().unwrap();
    let missing = "TraitDefinition \"nobody\" not found in namespaces n and vela-system";
    assert!(message.contains(missing), "{message}");
}

/// A ConfigMap or a Namespace, with the namespace that the value says; a step may delete one.
const ANYTHING: &str = r#"
output: {apiVersion: "v1", kind: parameter.names[0],
    metadata: {name: "x", if parameter.value != "" {namespace: parameter.value}}}
parameter: {names: [...string], value: string}
"#;
const DELETE: &str = r#"
import "vela/op"

delete: op.#Delete & {value: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "theirs", namespace: "m"}}}
reported: op.#Fail & {message: delete.err}
parameter: {}
"#;

/// Flags of the controller that keep Applications to their namespace and to some kinds count for everything that is made or
/// deleted, and the step says what is forbidden.
#[tokio::test]
async fn what_is_forbidden_is_neither_made_nor_deleted() {
    let only_maps = || AllowedTypes::Only(vec!["ConfigMap.v1".to_owned()]);
    let but_maps = || AllowedTypes::Except(vec!["ConfigMap.v1".to_owned()]);
    let outside = |object: &str| {
        format!("{object} is in another namespace than the Application, which is not allowed here")
    };
    let kind = |kind: &str, object: &str| {
        format!("{kind} {object}: objects of this kind are not allowed here")
    };
    for (crosses, types, made, namespace, error) in [
        (true, AllowedTypes::All, "ConfigMap", "m", String::new()),
        (false, AllowedTypes::All, "ConfigMap", "", String::new()),
        (false, AllowedTypes::All, "ConfigMap", "m", outside("ConfigMap m/x")),
        (false, AllowedTypes::All, "Namespace", "", outside("Namespace /x")),
        (true, only_maps(), "Namespace", "", kind("Namespace", "/x")),
        (true, but_maps(), "ConfigMap", "m", kind("ConfigMap", "m/x")),
        (true, but_maps(), "Namespace", "", String::new()),
        (false, AllowedTypes::All, "delete", "", outside("ConfigMap m/theirs")),
        (true, but_maps(), "delete", "", kind("ConfigMap", "m/theirs")),
    ] {
        let mut world = World::new();
        world.allowed = (crosses, types);
        define(&world);
        let mut app = application("a", &[("c", &[made], namespace)]);
        if made == "delete" {
            app = application("a", &[]);
            app["spec"]["workflow"] = json!({"steps": [{"name": "deploy", "type": "deploy"}]});
        }
        world.server.by_another_writer(|state| {
            for (plural, name, template) in [
                ("componentdefinitions", "maps", ANYTHING),
                ("workflowstepdefinitions", "deploy", DELETE),
            ] {
                let mut definition = state.get(plural, "vela-system", name).cloned().unwrap();
                definition["spec"]["schematic"]["cue"]["template"] = json!(template);
                state.put(plural, definition);
            }
            state.put(
                "configmaps",
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "theirs", "namespace": "m"}}),
            );
            state.put("applications", app);
        });
        let process = world.start();
        for _ in 0..3 {
            world.reconcile(&process, "a").await;
        }
        let app = world.app("a");
        let step = &app["status"]["workflow"]["steps"][0];
        let message = step["message"].as_str().unwrap_or_default();
        let state = world.server.state.lock();
        let placement = if namespace.is_empty() { "n" } else { namespace };
        let made = state.get("configmaps", placement, "x").is_some()
            || state.get("namespaces", "", "x").is_some();
        assert_eq!(made, error.is_empty(), "{error} {step:#}");
        assert!(
            message.contains(&error) && message.is_empty() == error.is_empty(),
            "{error}: {step:#}"
        );
        assert!(state.get("configmaps", "m", "theirs").is_some());
    }
}

const GENERATE: &str = r#"
import "vela/op"

apply: op.#Apply & {value: {apiVersion: "v1", kind: "ConfigMap",
    metadata: {generateName: "job-", namespace: "n"}, data: v: parameter.value}}
after: op.#ConditionalWait & {continue: apply.value.data.v == parameter.value && parameter.go}
parameter: {value: string, go: bool}
"#;

/// A step that leaves the name to the server gets one object for each run, and it is the Application's.
#[tokio::test]
async fn an_object_without_a_name_gets_one_for_each_run() {
    let world = World::new();
    define(&world);
    world.server.by_another_writer(|state| define_step(state, "generate", GENERATE));
    let mut process = world.start();
    let put = |value: &str, go: bool| {
        world.server.by_another_writer(|state| {
            let mut app = application("a", &[]);
            app["spec"]["workflow"] = json!({"steps": [
                {"name": "s", "type": "generate", "properties": {"value": value, "go": go}}]});
            if let Some(stored) = state.get("applications", "n", "a") {
                app["metadata"] = stored["metadata"].clone();
                app["status"] = stored["status"].clone();
            }
            state.put("applications", app);
        });
    };
    // The step is checked again and again.
    put("1", false);
    for _ in 0..5 {
        world.reconcile(&process, "a").await;
        process = world.start();
    }
    assert_eq!(maps(&world).len(), 1, "{:?} {:#}", maps(&world), world.app("a")["status"]);
    put("2", true);
    world.settle(&mut process, "a").await;
    let made = maps(&world);
    assert_eq!(made.values().collect::<Vec<_>>(), ["2"]);
    assert!(made.keys().all(|name| name.starts_with("n/job-")), "{made:?}");
    world.server.by_another_writer(|state| {
        state.delete("applications", "n", "a");
    });
    world.settle(&mut process, "a").await;
    assert_eq!(maps(&world), BTreeMap::new());
}

/// A trait that only a Policy object brings is in the revision, and found there.
#[tokio::test]
async fn a_trait_of_a_policy_beside_is_in_the_revision() {
    let world = World::new();
    define(&world);
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", &[], "1")]);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "deploy", "type": "deploy", "properties": {"policies": ["beside"]}}]});
        state.put("applications", app);
    });
    let policy = serde_json::from_value(
        json!({"apiVersion": "core.oam.dev/v1alpha1", "kind": "Policy",
        "metadata": {"name": "beside", "namespace": "n", "resourceVersion": "1"}, "type": "override",
        "properties": {"components": [{"name": "c", "traits": [{"type": "late"}]}]}}),
    );
    let _ = process.context.definitions.external_policies.put(policy.unwrap());
    world.settle(&mut process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running", "{:#}", world.app("a")["status"]);
    let made: Vec<String> = maps(&world).into_keys().collect();
    assert_eq!(made, ["n/late", "n/w"]);
    let state = world.server.state.lock();
    let revision = state.all("applicationrevisions")[0].clone();
    let revision: vela_api::ApplicationRevision = serde_json::from_value(revision).unwrap();
    assert!(revision.spec.trait_definitions.contains_key("late"), "{:?}", revision.spec);
}
