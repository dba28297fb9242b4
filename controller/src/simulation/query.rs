//! Steps that query an Application's objects get no more than their own author may see.

use serde_json::{Value, json};

use super::clusters::{self, disconnect, work};
use super::{NAMESPACE, World, application, define_step};

/// The step fails with the message it got.
const ASK: &str = r#"
import (
    "encoding/json"
    "vela/op"
    "vela/query"
)

ask: query.#ListAppliedResources & {$params: app: {name: parameter.name, namespace: parameter.namespace}}
pods: query.#CollectPods & {$params: app: {name: parameter.name, namespace: parameter.namespace}}
reported: op.#Fail & {message: json.Marshal([ask.$returns, pods.$returns])}
parameter: {name: string, namespace: string}
"#;

async fn query(account: Option<&str>, name: &str, namespace: &str) -> Value {
    let world = World::new();
    world.server.by_another_writer(|state| {
        define_step(state, "ask", ASK);
        let mut theirs = application("theirs", &[("c", &["x"], "1")]);
        theirs["metadata"]["namespace"] = json!("m");
        state.put("applications", theirs);
        let mut ours = application("a", &[("c", &["y"], "1")]);
        if let Some(account) = account {
            ours["metadata"]["annotations"] = json!({"app.oam.dev/service-account-name": account});
        }
        ours["spec"]["workflow"] = json!({"steps": [
            {"name": "c", "type": "apply-component", "properties": {"component": "c"}},
            {"name": "s", "type": "ask", "properties": {"name": name, "namespace": namespace}}]});
        state.put("applications", ours);
        state.closed = Some("m");
    });
    let process = world.start();
    for (namespace, name) in [("m", "theirs"), (NAMESPACE, "a")] {
        for _ in 0..4 {
            world.reconcile_in(&process, namespace, name).await;
        }
    }
    let app = world.app("a");
    let message = app["status"]["workflow"]["steps"][1]["message"].as_str().unwrap_or_default();
    serde_json::from_str(message).unwrap_or_else(|_| panic!("{message}: {:#}", app["status"]))
}

/// Kinds and names of another team's objects, and whether it has an Application of a name, are nobody's business who may not
/// read its namespace.
#[tokio::test]
async fn another_application_is_seen_only_by_who_may_read_it() {
    let names = |answer: &Value| -> Vec<String> {
        let list = answer[0]["list"].as_array().cloned().unwrap_or_default();
        list.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mine = query(Some("sa"), "a", NAMESPACE).await;
    assert_eq!(names(&mine), ["y"]);
    assert_eq!(names(&query(None, "theirs", "m").await), ["x"]);
    let forbidden = query(Some("sa"), "theirs", "m").await;
    let texts = [&forbidden[0]["err"], &forbidden[1]["err"]];
    assert!(texts.iter().all(|t| t.as_str().is_some_and(|t| t.contains("Forbidden"))), "{texts:?}");
    assert_eq!(names(&forbidden), Vec::<String>::new());
    // One that is not there is distinguished by nothing but its name.
    assert_eq!(query(Some("sa"), "absent", "m").await, forbidden);
    let absent = query(Some("sa"), "absent", NAMESPACE).await;
    assert_eq!(absent[0]["err"], "query app failure: application absent not found");
}

/// What is in clusters that do not answer is missing, and that is no secret.
#[tokio::test]
async fn a_cluster_that_is_away_hides_nothing_of_the_others() {
    const ASK: &str = r#"
import ("encoding/json", "vela/op", "vela/query")
ask: query.#ListResourcesInApp & {$params: app: {name: "a", namespace: "n"}}
reported: op.#Fail & {message: json.Marshal(ask.$returns)}
parameter: {}
"#;
    let world = clusters::world();
    world.server.by_another_writer(|state| {
        define_step(state, "ask", ASK);
        let mut asks = application("asks", &[]);
        asks["spec"]["workflow"] = json!({"steps": [{"name": "s", "type": "ask"}]});
        state.put("applications", asks);
    });
    let mut process = world.start();
    clusters::apply(&world, clusters::app(&json!(["local", "east", "west"]), "1"));
    world.settle(&mut process, "a").await;
    disconnect(&process, "east");
    work(&world, &process).await;
    for _ in 0..4 {
        world.reconcile(&process, "asks").await;
    }
    let status = world.app("asks")["status"].clone();
    let message = status["workflow"]["steps"][0]["message"].as_str().unwrap_or_default();
    let answer: Value = serde_json::from_str(message).unwrap_or_else(|_| panic!("{status:#}"));
    let clusters: Vec<_> =
        answer["list"].as_array().unwrap().iter().map(|it| &it["cluster"]).collect();
    assert_eq!(clusters, [&json!("local"), &json!("west")], "{answer:#}");
    let err = answer["err"].as_str().unwrap();
    assert!(err.contains("east") && err.contains("the token was revoked"), "{err}");
}
