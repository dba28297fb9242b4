//! What a step read from a Secret and handed on: later steps do not show it, nor does the process that comes after.

use serde_json::json;

use super::{NAMESPACE, World, application};

const READ: &str = r#"
import "vela/op"

read: op.#Read & {value: {apiVersion: "v1", kind: "Secret", metadata: {name: "creds", namespace: "n"}}}
word: read.value.data.p
parameter: {}
"#;
const MESSAGE_TEMPLATE: &str = r#"
import "vela/op"

fail: op.#Fail & {message: "the password is \(parameter.p)"}
parameter: p: string
"#;
const SUSPEND: &str = r#"
import "vela/op"

wait: op.#Suspend & {}
parameter: {}
"#;

/// A process that ends between the two steps changes nothing about it.
#[tokio::test]
async fn what_a_secret_holds_is_not_told_by_who_it_is_handed_to() {
    for again in [false, true] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            for (name, template) in [("read", READ), ("tell", MESSAGE_TEMPLATE), ("pause", SUSPEND)] {
                state.put(
                    "workflowstepdefinitions",
                    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
                        "metadata": {"name": name, "namespace": "vela-system"},
                        "spec": {"schematic": {"cue": {"template": template}}}}),
                );
            }
            state.put(
                "secrets",
                json!({"apiVersion": "v1", "kind": "Secret", "data": {"p": "eHl6enktcGx1Z2g="},
                    "metadata": {"name": "creds", "namespace": NAMESPACE}}),
            );
            let mut app = application("a", &[]);
            let mut steps = vec![
                json!({"name": "read", "type": "read", "outputs": [{"name": "p", "valueFrom": "word"}]}),
                json!({"name": "tell", "type": "tell", "inputs": [{"from": "p", "parameterKey": "p"}]}),
            ];
            if again {
                steps.insert(1, json!({"name": "pause", "type": "pause"}));
            }
            app["spec"]["workflow"] = json!({ "steps": steps });
            state.put("applications", app);
        });
        let mut process = world.start();
        for _ in 0..3 {
            world.reconcile(&process, "a").await;
        }
        if again {
            assert_eq!(world.app("a")["status"]["status"], "workflowSuspending");
            world.server.by_another_writer(|state| {
                let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
                app["status"]["workflow"]["suspend"] = json!(false);
                for step in app["status"]["workflow"]["steps"].as_array_mut().unwrap() {
                    if step["phase"] == "suspending" {
                        step["phase"] = json!("running");
                    }
                }
                state.put("applications", app);
            });
            process = world.start();
            for _ in 0..3 {
                world.reconcile(&process, "a").await;
            }
        }
        let status = world.app("a")["status"].clone();
        let steps = status["workflow"]["steps"].as_array().cloned().unwrap_or_default();
        let message = steps.last().map(|step| step["message"].clone()).unwrap_or_default();
        assert_eq!(message, "the password is ***", "{again}: {status:#}");
    }
}
