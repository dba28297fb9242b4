//! What steps can reach in addition to objects they name: by labels, by configs, by what the status calls ours. The flags that keep an
//! Application to its namespace count for all of it, and so do the rights of its author.

use serde_json::{Value, json};

use super::server::State;
use super::{NAMESPACE, World, application};

/// Deletes what bears a label in another namespace.
const BY_LABEL: &str = r#"
import "vela/op"

delete: op.#Delete & {value: {apiVersion: "v1", kind: "ConfigMap", metadata: namespace: "n"},
    filter: {namespace: "m", matchingLabels: mark: "theirs"}}
reported: op.#Fail & {message: delete.err}
parameter: {}
"#;

/// Makes the config `made` from a template.
const CONFIG: &str = r#"
import "vela/config"

make: config.#CreateConfig & {$params: {name: "made", namespace: "n", template: parameter.template, config: {}}}
parameter: template: string
"#;

/// A config template that makes an object of another namespace in addition to the Secret.
const TEMPLATE: &str = r#"template: {
    parameter: {}
    output: {apiVersion: "v1", kind: "Secret", stringData: word: "xyzzy"}
    outputs: a: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "theirs", namespace: "m"}, data: k: "pwned"}
}"#;

fn put_all(state: &mut State, step: &str, app: Value) {
    state.put(
        "workflowstepdefinitions",
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
            "metadata": {"name": "reach", "namespace": "vela-system"},
            "spec": {"schematic": {"cue": {"template": step}}}}),
    );
    let map = |namespace: &str, name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "namespace": namespace, "labels": {"mark": name}}})
    };
    state.put("configmaps", map("m", "theirs", json!({"k": "v"})));
    for namespace in ["m", NAMESPACE] {
        let template = json!({"template": TEMPLATE});
        state.put("configmaps", map(namespace, "config-template-t", template));
    }
    state.put("applications", app);
}

/// A config of the namespace that no Application made.
fn config() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made", "namespace": NAMESPACE,
        "labels": {"config.oam.dev/catalog": "velacore-config", "config.oam.dev/type": "t"}}})
}

#[tokio::test]
async fn what_is_outside_is_neither_deleted_nor_made_nor_read() {
    let outside = |object: &str| {
        format!(
            "ConfigMap {object} is in another namespace than the Application, which is not allowed here"
        )
    };
    let forbidden = || "Forbidden".to_owned();
    for (crosses, step, template, is_there, error) in [
        (false, BY_LABEL, "", false, outside("m/*")),
        (false, CONFIG, "n/t", false, outside("m/theirs")),
        (false, CONFIG, "n/t", true, outside("m/theirs")),
        (false, CONFIG, "m/t", false, outside("m/config-template-t")),
        // As an author who may do nothing there.
        (true, BY_LABEL, "", false, forbidden()),
        (true, CONFIG, "n/t", false, forbidden()),
        (true, CONFIG, "n/t", true, forbidden()),
        (true, CONFIG, "m/t", false, forbidden()),
    ] {
        let mut world = World::new();
        world.allowed.0 = crosses;
        let mut app = application("a", &[]);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "s", "type": "reach", "properties": {"template": template}}]});
        if crosses {
            app["metadata"]["annotations"] = json!({"app.oam.dev/service-account-name": "sa"});
        }
        world.server.by_another_writer(|state| {
            state.closed = crosses.then_some("m");
            put_all(state, step, app);
            if is_there {
                state.put("secrets", config());
            }
        });
        let process = world.start();
        for _ in 0..3 {
            world.reconcile(&process, "a").await;
        }
        let app = world.app("a");
        let step = &app["status"]["workflow"]["steps"][0];
        let message = step["message"].as_str().unwrap_or_default();
        assert!(message.contains(&error), "{crosses} {template} {is_there}: {step:#}");
        let state = world.server.state.lock();
        let theirs = state.get("configmaps", "m", "theirs").unwrap();
        assert_eq!(theirs["data"], json!({"k": "v"}), "{crosses} {template} {is_there}");
        let made = state.get("secrets", NAMESPACE, "made");
        assert!(made.is_none_or(|made| made["stringData"].is_null()), "{made:?}");
    }
}

/// Whoever may write the status does not thereby choose a ConfigMap that goes.
#[tokio::test]
async fn the_status_names_nothing_that_is_deleted() {
    let own = "application-policies-n-a";
    let ours = json!({"app.oam.dev/application-policies": "true", "app.oam.dev/name": "a",
        "app.oam.dev/namespace": NAMESPACE});
    for (named, name, labels, goes) in [
        ("platform", "platform", json!({}), false),
        ("platform", "platform", ours.clone(), false),
        (own, own, json!({}), false),
        (own, own, json!({"app.oam.dev/application-policies": "true"}), false),
        ("x/../platform", "platform", json!({}), false),
        (own, own, ours.clone(), true),
        ("other", own, ours, true),
    ] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            state.put(
                "configmaps",
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}}),
            );
            let mut app = application("a", &[("c", &["x"], "1")]);
            app["status"] = json!({"applicationPoliciesConfigMap": named});
            state.put("applications", app);
        });
        let mut process = world.start();
        world.settle(&mut process, "a").await;
        let state = world.server.state.lock();
        let is_there = state.get("configmaps", NAMESPACE, name).is_some();
        assert_eq!(is_there, !goes, "{named} {name}");
        drop(state);
        let status = world.app("a")["status"].clone();
        assert_eq!(status["applicationPoliciesConfigMap"], Value::Null, "{status:#}");
    }
}
