//! Read-only objects of other namespaces: the author of the Application sees no more of them than the API server shows.

use serde_json::{Value, json};

use super::server::State;
use super::{NAMESPACE, Process, World, application};

/// A component that stands for a ConfigMap of another namespace, and says what it holds.
const PEEK: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "creds", namespace: "bank"}}
parameter: value: string
"#;
const WORD: &str = "xyzzy";

/// Another team's Application made the ConfigMap.
fn foreign(state: &mut State) {
    state.put(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"password": WORD},
            "metadata": {"name": "creds", "namespace": "bank", "labels": {
                "app.oam.dev/name": "ledger", "app.oam.dev/namespace": "bank"}}}),
    );
}

/// How the component is brought to the cluster.
fn workflow(kind: &str) -> Value {
    match kind {
        "deploy" => {
            json!({"steps": [{"name": "d", "type": "deploy", "properties": {"policies": []}}]})
        }
        _ => Value::Null,
    }
}

fn peek(value: &str, kind: &str) -> Value {
    let mut app = application("a", &[]);
    app["metadata"]["annotations"] = json!({"app.oam.dev/service-account-name": "sa"});
    app["spec"]["components"] = json!([{"name": "p", "type": "peek", "properties": {"value": value},
        "outputs": [{"name": "leak", "valueFrom": "output.data"}]}]);
    app["spec"]["policies"] = json!([{"name": "r", "type": "read-only", "properties": {
        "rules": [{"selector": {"resourceTypes": ["ConfigMap"]}}]}}]);
    app["spec"]["workflow"] = workflow(kind);
    app
}

fn world(dry_run: bool) -> (World, Process) {
    let mut world = World::new();
    world.gates.pre_dispatch_dry_run = dry_run;
    super::placements::define(&world);
    world.server.by_another_writer(|state| {
        state.put(
            "componentdefinitions",
            json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
                "metadata": {"name": "peek", "namespace": "vela-system"},
                "spec": {"workload": {"type": "autodetects.core.oam.dev"},
                    "schematic": {"cue": {"template": PEEK}},
                    "status": {"customStatus": "message: \"it is \\(context.output.data.password)\""}}}),
        );
        foreign(state);
    });
    let process = world.start();
    (world, process)
}

async fn reconcile_often(world: &World, process: &Process) {
    for _ in 0..4 {
        world.reconcile(process, "a").await;
    }
}

/// The objects in which the author could find what the ConfigMap holds.
fn leaks(world: &World) -> Vec<String> {
    let state = world.server.state.lock();
    let all = state.objects.iter().filter(|((_, namespace, _), _)| namespace != "bank");
    all.filter(|(_, object)| object.to_string().contains(WORD))
        .map(|((plural, _, name), _)| format!("{plural}/{name}"))
        .collect()
}

fn message(world: &World) -> String {
    let app = world.app("a");
    let message = app["status"]["workflow"]["steps"][0]["message"].as_str().unwrap_or_default();
    message.to_owned()
}

#[tokio::test]
async fn what_the_author_may_not_read_is_neither_recorded_nor_told() {
    for dry_run in [true, false] {
        for kind in ["", "deploy"] {
            let (world, process) = world(dry_run);
            world.server.by_another_writer(|state| {
                state.closed = Some("bank");
                state.put("applications", peek("1", kind));
            });
            reconcile_often(&world, &process).await;
            assert!(
                message(&world).contains("Forbidden"),
                "{dry_run} {kind}: {:#}",
                world.app("a")
            );
            assert_eq!(leaks(&world), Vec::<String>::new(), "{dry_run} {kind}");
            let state = world.server.state.lock();
            let trackers: Vec<_> = state.all("resourcetrackers").into_iter().cloned().collect();
            assert!(trackers.is_empty(), "{dry_run} {kind}: {trackers:#?}");
        }
    }
}

/// Rights that were taken away: the record is still there.
#[tokio::test]
async fn what_the_author_may_not_read_any_more_is_not_told() {
    for kind in ["", "deploy"] {
        let (world, mut process) = world(true);
        world.server.by_another_writer(|state| drop(state.put("applications", peek("1", kind))));
        world.settle(&mut process, "a").await;
        let app = world.app("a");
        assert_eq!(app["status"]["services"][0]["message"], "it is xyzzy", "{app:#}");
        world.server.by_another_writer(|state| {
            state.closed = Some("bank");
            let mut map = state.get("configmaps", "bank", "creds").cloned().unwrap();
            map["data"]["password"] = json!("plugh");
            state.put("configmaps", map);
            let context: Vec<String> = state
                .all("configmaps")
                .iter()
                .filter(|map| map["metadata"]["namespace"] == NAMESPACE)
                .map(|map| map["metadata"]["name"].as_str().unwrap_or_default().to_owned())
                .collect();
            for name in context {
                state.delete("configmaps", NAMESPACE, &name);
            }
            let mut app = peek("2", kind);
            app["status"] = state.get("applications", NAMESPACE, "a").unwrap()["status"].clone();
            state.put("applications", app);
        });
        process = world.start();
        reconcile_often(&world, &process).await;
        assert!(message(&world).contains("Forbidden"), "{kind}: {:#}", world.app("a"));
        assert!(!world.app("a").to_string().contains("plugh"), "{kind}: {:#}", world.app("a"));
    }
}
