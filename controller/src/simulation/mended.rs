//! Definitions that change while an Application does not.

use serde_json::{Value, json};

use super::{NAMESPACE, Process, World, application, refill};

/// What a ComponentDefinition makes of its parameter; of a broken one comes nothing.
fn template(value: &str) -> String {
    format!(
        "output: {{apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: parameter.names[0], \
        data: v: {value}}}\nparameter: {{names: [...string], value: string}}"
    )
}

/// Another content of a definition; the process hears of it.
fn define(world: &World, process: &Process, plural: &str, kind: &str, name: &str, template: &str) {
    world.server.outside(|state| {
        let mut definition = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": kind,
            "metadata": {"name": name, "namespace": "vela-system"}, "spec": {}});
        if let Some(stored) = state.get(plural, "vela-system", name) {
            definition = stored.clone();
        }
        definition["spec"]["schematic"] = json!({"cue": {"template": template}});
        state.put(plural, definition);
    });
    let state = world.server.state.lock();
    let definitions = &process.context.definitions;
    refill(&definitions.components, &state, "componentdefinitions", |one| one);
    refill(&definitions.policies, &state, "policydefinitions", |one| one);
}

fn component(world: &World, process: &Process, name: &str, value: &str) {
    define(world, process, "componentdefinitions", "ComponentDefinition", name, &template(value));
}

fn value(world: &World, map: &str) -> Value {
    let state = world.server.state.lock();
    let found = state.get("configmaps", NAMESPACE, map);
    found.map(|map| map["data"]["v"].clone()).unwrap_or_default()
}

fn put(world: &World, app: Value) {
    world.server.outside(|state| {
        state.put("applications", app);
    });
}

fn edit(world: &World, change: impl FnOnce(&mut Value)) {
    let mut app = world.app("a");
    change(&mut app);
    put(world, app);
}

async fn looks(world: &World, process: &Process) {
    for _ in 0..6 {
        world.look(process, "a").await;
        tokio::task::yield_now().await;
    }
}

/// An Application that runs keeps the components of its revision, however its definitions change.
#[tokio::test]
async fn an_application_that_runs_stays_what_it_was_deployed_as() {
    let world = World::new();
    let mut process = world.start();
    put(&world, application("a", &[("c", &["x"], "1")]));
    world.settle(&mut process, "a").await;
    for text in ["\"other\"", "\"1\" & \"2\""] {
        component(&world, &process, "maps", text);
        looks(&world, &process).await;
        edit(&world, |app| app["metadata"]["labels"]["look"] = json!(text));
        world.settle(&mut process, "a").await;
        assert_eq!(world.faults("a"), Vec::<String>::new());
        assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    }
}

/// Policies are objects of their definition as it is now, without a new revision and with `autoUpdate` too.
#[tokio::test]
async fn an_edited_policy_definition_is_applied_at_the_next_look() {
    for annotations in [json!({}), json!({"app.oam.dev/autoUpdate": "true"})] {
        let world = World::new();
        let mut process = world.start();
        let policy = |value: &str| {
            let (plural, kind) = ("policydefinitions", "PolicyDefinition");
            define(&world, &process, plural, kind, "made", &template(value));
        };
        policy("\"1\"");
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["metadata"]["annotations"] = annotations.clone();
        app["spec"]["policies"] = json!([{"name": "p", "type": "made",
            "properties": {"names": ["p"], "value": ""}}]);
        put(&world, app);
        world.look(&process, "a").await;
        looks(&world, &process).await;
        assert_eq!(value(&world, "p"), "1");
        policy("\"2\"");
        looks(&world, &process).await;
        assert_eq!(value(&world, "p"), "2", "{annotations}");
        // A broken one is told, a mended one helps.
        policy("\"1\" & \"2\"");
        looks(&world, &process).await;
        assert_eq!(world.app("a")["status"]["status"], "generatingPolicy");
        policy("\"3\"");
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "p"), "3", "{annotations}");
        assert_eq!(world.app("a")["status"]["status"], "running");
        assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    }
}
