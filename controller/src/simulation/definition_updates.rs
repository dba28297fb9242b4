//! Definitions that change while an Application does not.

use serde_json::{Value, json};

use super::{IS_READY, NAMESPACE, Process, World, application, judge_maps, refill};

/// What a ComponentDefinition makes of its parameter; of a broken one comes nothing.
fn template(value: &str) -> String {
    format!(
        "output: {{apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: parameter.names[0], \
        data: v: {value}}}\nparameter: {{names: [...string], value: string}}"
    )
}

/// Another content of a definition; the process sees it.
fn define(world: &World, process: &Process, plural: &str, kind: &str, name: &str, template: &str) {
    world.server.by_another_writer(|state| {
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
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

fn edit(world: &World, change: impl FnOnce(&mut Value)) {
    let mut app = world.app("a");
    change(&mut app);
    put(world, app);
}

async fn reconcile_often(world: &World, process: &Process) {
    for _ in 0..6 {
        world.reconcile(process, "a").await;
        tokio::task::yield_now().await;
    }
}

/// Also if a component was dispatched before, and whether further attempts are to come or not.
#[tokio::test]
async fn a_mended_definition_helps_an_application_that_it_broke() {
    for (retries, phase) in [(0, "workflowFailed"), (10, "runningWorkflow")] {
        for external in [false, true] {
            let world = World::new();
            let mut process = world.start();
            process.settings().workflow.max_error_retries = retries;
            component(&world, &process, "broken", "\"1\" & \"2\"");
            let all: &[(&str, &[&str], &str)] = &[("d", &["y"], "1"), ("c", &["x"], "1")];
            let mut app = application("a", all.get(usize::from(!external)..).unwrap());
            let last = app["spec"]["components"].as_array_mut().unwrap().last_mut().unwrap();
            last["type"] = json!("broken");
            put(&world, app);
            reconcile_often(&world, &process).await;
            let status = world.app("a")["status"].clone();
            assert_eq!(status["status"], phase, "{status:#}");
            assert_eq!(value(&world, "x"), Value::Null);
            // Nothing begins again while nothing changes.
            assert_eq!(status["latestRevision"]["name"], "a-v1");
            component(&world, &process, "broken", "parameter.value");
            world.settle(&mut process, "a").await;
            assert_eq!(world.faults("a"), Vec::<String>::new(), "{retries} {external}");
            // The revision says what was deployed.
            let latest = world.app("a")["status"]["latestRevision"]["name"].clone();
            let state = world.server.state.lock();
            let latest = latest.as_str().unwrap_or_default();
            let revision = state.get("applicationrevisions", NAMESPACE, latest).unwrap();
            let held = &revision["spec"]["componentDefinitions"]["broken"]["spec"]["schematic"];
            assert_eq!(held["cue"]["template"], json!(template("parameter.value")));
        }
    }
}

/// What ran before an edit does not count for the run of the new revision.
#[tokio::test]
async fn a_mended_definition_helps_an_edit() {
    let world = World::new();
    let mut process = world.start();
    process.settings().workflow.max_error_retries = 0;
    put(&world, application("a", &[("c", &["x"], "1")]));
    world.settle(&mut process, "a").await;
    component(&world, &process, "maps", "\"1\" & \"2\"");
    edit(&world, |app| app["spec"]["components"][0]["properties"]["value"] = json!("2"));
    reconcile_often(&world, &process).await;
    assert_eq!(world.app("a")["status"]["status"], "workflowFailed");
    component(&world, &process, "maps", "parameter.value");
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
}

/// A run that failed for another reason, and one that repeats what was deployed, follow no definition.
#[tokio::test]
async fn what_was_deployed_follows_no_definition() {
    let world = World::new();
    let unhealthy = json!({"healthPolicy": IS_READY});
    judge_maps(&mut world.server.state.lock(), unhealthy);
    let process = world.start();
    let mut app = application("a", &[("c", &["x"], "1")]);
    app["spec"]["workflow"] = json!({"steps": [{"name": "c", "type": "apply-component",
        "timeout": "1ms", "properties": {"component": "c"}}]});
    put(&world, app);
    reconcile_often(&world, &process).await;
    assert_eq!(world.app("a")["status"]["status"], "workflowFailed");
    component(&world, &process, "maps", "\"other\"");
    reconcile_often(&world, &process).await;
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    assert_eq!(value(&world, "x"), "1");

    let world = World::new();
    let mut process = world.start();
    put(&world, application("a", &[("c", &["x"], "1")]));
    world.settle(&mut process, "a").await;
    component(&world, &process, "maps", "\"other\"");
    world.server.by_another_writer(|state| {
        state.delete("configmaps", NAMESPACE, "x");
        state.refused = Some("x");
    });
    edit(&world, |app| {
        app["metadata"]["annotations"] = json!({"app.oam.dev/restart-workflow": "true"});
    });
    reconcile_often(&world, &process).await;
    let status = world.app("a")["status"].clone();
    assert_eq!(status["workflow"]["steps"][0]["phase"], "failed", "{status:#}");
    world.server.state.lock().refused = None;
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
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
        reconcile_often(&world, &process).await;
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
        world.reconcile(&process, "a").await;
        reconcile_often(&world, &process).await;
        assert_eq!(value(&world, "p"), "1");
        policy("\"2\"");
        reconcile_often(&world, &process).await;
        assert_eq!(value(&world, "p"), "2", "{annotations}");
        // A broken one is reported, a corrected one helps.
        policy("\"1\" & \"2\"");
        reconcile_often(&world, &process).await;
        assert_eq!(world.app("a")["status"]["status"], "generatingPolicy");
        policy("\"3\"");
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "p"), "3", "{annotations}");
        assert_eq!(world.app("a")["status"]["status"], "running");
        assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    }
}
