//! An Application that follows its definition: the generation stays, the revision moves on.

use serde_json::json;

use super::server::Death;
use super::{NAMESPACE, TEMPLATE, World, application, named_maps};

/// The definition with another template; the process sees it as it starts.
fn redefine(world: &World, template: &str) {
    world.server.by_another_writer(|state| {
        let stored = state.get("componentdefinitions", "vela-system", "maps").cloned();
        let mut definition = stored.unwrap_or_default();
        definition["spec"]["schematic"]["cue"]["template"] = json!(template);
        state.put("componentdefinitions", definition);
    });
}

/// Runs it; the process dies at `death`. Returns whether it did.
async fn run(death: Option<Death>) -> bool {
    let world = World::new();
    let mut process = world.start();
    let mut app = application("a", &[("c", &["x", "y"], "1")]);
    app["metadata"]["annotations"] = json!({"app.oam.dev/autoUpdate": "true"});
    world.server.by_another_writer(|state| {
        state.put("applications", app);
    });
    let mut deaths = world.settle(&mut process, "a").await;
    assert_eq!(world.faults("a"), Vec::<String>::new());
    // The first name is all it makes now.
    let (first, _) = TEMPLATE.split_once("outputs:").expect("there are outputs");
    redefine(&world, &format!("{first}parameter: {{names: [...string], value: string}}"));
    process = world.start();
    {
        let mut state = world.server.state.lock();
        (state.writes, state.death) = (0, death);
    }
    deaths += world.settle(&mut process, "a").await;
    let state = world.server.state.lock();
    let maps: Vec<_> = state
        .all("configmaps")
        .iter()
        .filter_map(|map| map["metadata"]["name"].as_str())
        .filter(|name| !name.starts_with("workflow-"))
        .map(str::to_owned)
        .collect();
    assert_eq!(maps, ["x"], "death {death:?}");
    let trackers = state.all("resourcetrackers").len();
    assert_eq!(trackers, 1, "death {death:?}: {:#?}", state.all("resourcetrackers"));
    let app = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
    assert_eq!(app["status"]["status"], "running");
    assert_eq!(app["status"]["latestRevision"]["name"], "a-v2");
    deaths > 0
}

#[tokio::test]
async fn what_the_definition_stopped_making_goes() {
    assert!(!run(None).await);
    for at in 1.. {
        let before = run(Some(Death::Before(at))).await;
        let after = run(Some(Death::After(at))).await;
        if !before && !after {
            assert!(at > 5, "only {at} writes");
            break;
        }
    }
}

/// A definition that is broken afterwards is for the next edit: what runs on an earlier revision
/// stays as it is, whether it follows its definitions or not.
#[tokio::test]
async fn a_definition_with_an_error_leaves_what_runs_alone() {
    for template in ["output: {", "output: nothing.of.this.name", "output: metadata: {}", ""] {
        for follows in [false, true] {
            let world = World::new();
            let mut process = world.start();
            let mut app = application("a", &[("c", &["x", "y"], "1")]);
            if follows {
                app["metadata"]["annotations"] = json!({"app.oam.dev/autoUpdate": "true"});
            }
            world.server.by_another_writer(|state| {
                state.put("applications", app);
            });
            world.settle(&mut process, "a").await;
            let before = named_maps(&world);
            assert_eq!(before.len(), 2);
            redefine(&world, template);
            process = world.start();
            for _ in 0..30 {
                world.reconcile(&process, "a").await;
            }
            let case = format!("{template:?}, follows: {follows}");
            assert_eq!(named_maps(&world), before, "{case}");
            assert_eq!(world.server.state.lock().crimes, Vec::<String>::new(), "{case}");
            let status = &world.app("a")["status"];
            if follows {
                // It says what is wrong, and it is reported by name.
                assert_ne!(status["status"], "running", "{case}");
                assert!(
                    status.to_string().contains("maps") || status.to_string().contains("\"c\""),
                    "{case}: {status:#}"
                );
            } else {
                assert_eq!(status["status"], "running", "{case}: {status:#}");
                assert_eq!(status["latestRevision"]["name"], "a-v1", "{case}");
            }
        }
    }
}

/// Only `"true"` rolls a new content of a definition out.
#[tokio::test]
async fn another_value_than_true_follows_nothing() {
    for value in ["true", "false", "", "no", "True"] {
        let world = World::new();
        let mut process = world.start();
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["metadata"]["annotations"] = json!({"app.oam.dev/autoUpdate": value});
        world.server.by_another_writer(|state| {
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        redefine(&world, &TEMPLATE.replace("v: parameter.value", "v: parameter.value + \"!\""));
        process = world.start();
        world.settle(&mut process, "a").await;
        let expected = if value == "true" { ("1!", "a-v2") } else { ("1", "a-v1") };
        let revision = world.app("a")["status"]["latestRevision"]["name"].clone();
        assert_eq!(named_maps(&world), [("x".to_owned(), expected.0.to_owned())], "{value:?}");
        assert_eq!(revision, expected.1, "{value:?}");
    }
}

/// What the first releases stamped is another stamp now, and nothing else.
#[tokio::test]
async fn an_early_stamp_is_replaced_once() {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    let stamp = || world.app("a")["metadata"]["annotations"]["oam.dev/kubevela-version"].clone();
    assert_eq!(stamp(), "simulation");
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["annotations"]["oam.dev/kubevela-version"] = json!("v0.1.0");
        state.put("applications", app);
    });
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(stamp(), "simulation");
    assert_eq!(world.app("a")["status"]["latestRevision"]["name"], "a-v1");
    assert_eq!(world.faults("a"), Vec::<String>::new());
    let writes = world.server.state.lock().writes;
    process = world.start();
    world.settle(&mut process, "a").await;
    assert_eq!(world.server.state.lock().writes, writes);
    // One of another release stays.
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        app["metadata"]["annotations"]["oam.dev/kubevela-version"] = json!("v1.10.0");
        state.put("applications", app);
    });
    world.settle(&mut process, "a").await;
    assert_eq!(stamp(), "v1.10.0");
}
