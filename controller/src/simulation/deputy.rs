//! Objects other than the Application that decide what it deploys, changed by another user: revisions and the context of the workflow.

use serde_json::{Value, json};
use vela_seal::Keys;

use super::{NAMESPACE, Process, World, application, named_maps};

/// A world in which stamps count.
fn world() -> World {
    let mut world = World::new();
    world.gates.authenticate_application = true;
    world.keys = Some(Keys::new(&[1; 32], None).unwrap());
    world
}

fn with_version(mut app: Value, version: &str) -> Value {
    app["metadata"]["annotations"] = json!({"app.oam.dev/publishVersion": version});
    app
}

fn apply(world: &World, app: Value) {
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
}

/// Somebody changes an object.
fn change(world: &World, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
    world.server.by_another_writer(|state| {
        let mut object = state.get(plural, NAMESPACE, name).cloned().unwrap();
        change(&mut object);
        state.put(plural, object);
    });
}

fn value(world: &World, name: &str) -> Option<String> {
    named_maps(world).into_iter().find(|(map, _)| map == name).map(|(_, value)| value)
}

/// What the condition of this type says, if it is not met.
fn complaint(world: &World, type_: &str) -> String {
    let app = world.app("a");
    let conditions = app["status"]["conditions"].as_array().into_iter().flatten();
    let bad = conditions.filter(|c| c["type"] == type_ && c["status"] == "False");
    bad.map(|c| c["message"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn reconcile_often(world: &World, process: &Process) {
    for _ in 0..4 {
        let _ = world.reconcile(process, "a").await;
    }
}

const EVIL: &str = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "evil", data: v: "evil"}
parameter: {...}"#;

/// The stored forms of a revision.
fn worlds() -> Vec<(&'static str, World)> {
    let plain = world();
    let mut small = world();
    small.gates.zstd_application_revision = true;
    vec![("plain", plain), ("compressed", small)]
}

#[tokio::test]
async fn a_pinned_revision_that_somebody_changed_is_not_deployed() {
    for (form, world) in worlds() {
        let mut process = world.start();
        let app = application("a", &[("c", &["x"], "1")]);
        apply(&world, with_version(app.clone(), "one"));
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "x").as_deref(), Some("1"), "{form}");
        let stored =
            world.server.state.lock().get("applicationrevisions", NAMESPACE, "a-v1").cloned();
        let stamp = &stored.unwrap()["metadata"]["annotations"]["app.oam.dev/stamp"];
        assert!(stamp.is_string(), "{form}: {stamp}");
        let evil = application("a", &[("c", &["evil"], "evil")]);
        change(&world, "applicationrevisions", "a-v1", |revision| {
            let compression = if form == "plain" { json!({}) } else { json!({"type": "zstd"}) };
            let found = revision["spec"]["componentDefinitions"].as_object().cloned();
            let definitions = found.unwrap_or_default();
            revision["spec"] = json!({"application": evil, "compression": compression,
                "componentDefinitions": definitions});
        });
        // In memory of a process that did not write it.
        let mut process = world.start();
        change(&world, "configmaps", "x", |map| map["data"]["v"] = json!("drift"));
        change(&world, "applications", "a", |app| app["metadata"]["labels"] = json!({"a": "b"}));
        reconcile_often(&world, &process).await;
        let reported = complaint(&world, "Revision");
        assert!(
            reported.contains("a-v1") && reported.contains("another publishVersion"),
            "{form}: {reported}"
        );
        assert_eq!(value(&world, "x").as_deref(), Some("1"), "{form}: what drifted is put back");
        assert_eq!(value(&world, "evil"), None, "{form}");
        let mut app = world.app("a");
        app["metadata"]["annotations"]["app.oam.dev/publishVersion"] = json!("two");
        app["spec"]["components"][0]["properties"]["value"] = json!("2");
        apply(&world, app);
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "x").as_deref(), Some("2"), "{form}");
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{form}");
    }
}

#[tokio::test]
async fn definitions_of_a_changed_revision_are_not_rendered() {
    for (form, world) in worlds() {
        let mut process = world.start();
        apply(&world, application("a", &[("c", &["x"], "1")]));
        world.settle(&mut process, "a").await;
        change(&world, "applicationrevisions", "a-v1", |revision| {
            let app = application("a", &[("c", &["x"], "1")]);
            revision["spec"] = json!({"application": app, "compression": {}, "componentDefinitions":
                {"maps": {"metadata": {"name": "maps"}, "spec": {"schematic": {"cue": {"template": EVIL}}}}}});
        });
        let mut process = world.start();
        change(&world, "applications", "a", |app| {
            app["metadata"]["annotations"] = json!({"app.oam.dev/restart-workflow": "true"});
        });
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "evil"), None, "{form}");
        assert_eq!(world.faults("a"), Vec::<String>::new(), "{form}");
    }
}

/// Revisions of a release before stamps say what they said: nothing is rolled out because of an upgrade.
#[tokio::test]
async fn an_upgrade_is_no_reason_to_deploy_anything() {
    for pinned in [true, false] {
        let mut world = World::new();
        let mut process = world.start();
        let app = application("a", &[("c", &["x"], "1")]);
        apply(&world, if pinned { with_version(app, "one") } else { app });
        world.settle(&mut process, "a").await;
        let before = world.app("a");
        world.gates.authenticate_application = true;
        world.keys = Some(Keys::new(&[1; 32], None).unwrap());
        let mut process = world.start();
        world.settle(&mut process, "a").await;
        let (old, new) = (&before["status"], &world.app("a")["status"]);
        assert_eq!(old["latestRevision"], new["latestRevision"], "pinned: {pinned}");
        assert_eq!(old["workflow"], new["workflow"], "pinned: {pinned}");
        assert_eq!(world.faults("a"), Vec::<String>::new(), "pinned: {pinned}");
        change(&world, "applications", "a", |app| {
            app["spec"]["components"][0]["properties"]["value"] = json!("2");
            app["metadata"]["annotations"] = json!({"app.oam.dev/publishVersion": "two"});
        });
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "x").as_deref(), Some("2"), "pinned: {pinned}");
    }
}

/// An Application that waits for approval, and the identity of the step.
async fn waiting(world: &World) -> String {
    let process = world.start();
    let mut app = application("a", &[("c", &["x"], "1")]);
    app["spec"]["workflow"] = json!({"steps": [
        {"name": "approve", "type": "suspend"},
        {"name": "go", "type": "apply-component", "properties": {"component": "c"}},
    ]});
    apply(world, app);
    reconcile_often(world, &process).await;
    let app = world.app("a");
    assert_eq!(app["status"]["status"], "workflowSuspending", "{app:#}");
    app["status"]["workflow"]["steps"][0]["id"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn nobody_is_past_an_approval_by_way_of_the_context() {
    let done = json!({"verdict": "succeeded", "reason": "", "message": "", "variables": []});
    let past = "2020-01-01T00:00:00Z";
    for (what, keys, values) in [
        ("the outcome", vec!["outcome"], vec![done.to_string()]),
        ("a timer", vec!["resumeTimeStamp"], vec![past.to_owned()]),
        (
            "resumed by hand",
            vec!["suspendTimeStamp", "suspend.suspendTimeStamp"],
            vec![past.to_owned(), past.to_owned()],
        ),
        ("variables that nobody can read", vec![], vec![]),
        ("nothing is left", vec![], vec![]),
    ] {
        let world = world();
        let id = waiting(&world).await;
        change(&world, "configmaps", "workflow-a-context", |map| {
            for (key, value) in keys.iter().zip(&values) {
                map["data"][format!("{id}.{key}")] = json!(value);
            }
            match what {
                "variables that nobody can read" => map["data"]["vars"] = json!("a: {"),
                "nothing is left" => map["data"] = json!({}),
                _ => {}
            }
        });
        let mut process = world.start();
        reconcile_often(&world, &process).await;
        let app = world.app("a");
        assert_eq!(app["status"]["status"], "workflowSuspending", "{what}: {app:#}");
        assert_eq!(value(&world, "x"), None, "{what}");
        // A person resumes it.
        change(&world, "applications", "a", |app| {
            let run = &mut app["status"]["workflow"];
            run["suspend"] = json!(false);
            run["steps"][0]["phase"] = json!("running");
        });
        world.settle(&mut process, "a").await;
        assert_eq!(value(&world, "x").as_deref(), Some("1"), "{what}");
    }
}
