//! Revisions of definitions that something pins, when the definition is edited often.

use serde_json::{Value, json};
use vela_api::{DefinitionRevision, TraitDefinition, WorkflowStepDefinition};

use super::{NAMESPACE, World, application, refill};
use crate::definition::{self, Kind};
use crate::queue::Key;

/// Edits the definition `d` of the system namespace, reconciled after each edit, with `versions` as far as they go. Returns which revisions are left.
async fn edit_often<T: Kind>(
    world: &World,
    plural: &str,
    edits: usize,
    versions: &[&str],
) -> Vec<String> {
    let process = world.start();
    let context = &process.context;
    for edit in 0..edits {
        world.server.by_another_writer(|state| {
            let mut definition = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": T::KIND_NAME,
                "metadata": {"name": "d", "namespace": "vela-system"}});
            if let Some(stored) = state.get(plural, "vela-system", "d") {
                definition = stored.clone();
            }
            let template = format!("parameter: {{v: \"{edit}\"}}");
            definition["spec"] = json!({"schematic": {"cue": {"template": template}}});
            if let Some(version) = versions.get(edit) {
                definition["spec"]["version"] = json!(version);
            }
            state.put(plural, definition);
        });
        {
            let state = world.server.state.lock();
            refill(T::store(&context.definitions), &state, plural, |definition: T| definition);
            let revisions = &context.definitions.revisions;
            refill(revisions, &state, "definitionrevisions", |one: DefinitionRevision| one);
            refill(&context.definitions.workflows, &state, "workflows", |one| one);
            refill(&context.definitions.external_policies, &state, "policies", |one| one);
        }
        world.sync(&process);
        definition::reconcile::<T>(context, &Key::new("vela-system", "d")).await.unwrap();
    }
    let state = world.server.state.lock();
    let all = state.all("definitionrevisions").into_iter();
    all.map(|one| one["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The first revision stays while something pins it, whatever else goes; the limit is two besides the latest.
#[tokio::test]
async fn what_is_pinned_anywhere_stays() {
    let referred = |kind: &str, mut object: Value| {
        object["apiVersion"] = json!("core.oam.dev/v1alpha1");
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "beside", "namespace": NAMESPACE});
        object
    };
    let step = json!({"name": "s", "type": "d@v1"});
    let group = json!({"name": "g", "type": "step-group", "subSteps": [step.clone()]});
    let with = |key: &str, value: Value| {
        let mut app = application("a", &[("c", &["x"], "1")]);
        app["spec"][key] = value;
        app
    };
    let component = json!({"components": [{"name": "c", "type": "d@v1"}]});
    let trait_ = json!({"components": [{"name": "c", "traits": [{"type": "d@v1"}]}]});
    let policy =
        |properties: &Value| json!({"name": "o", "type": "override", "properties": properties});
    let app = "applications";
    for (what, plural, object) in [
        ("nothing", app, application("a", &[])),
        ("a step", app, with("workflow", json!({"steps": [step.clone()]}))),
        ("a sub-step", app, with("workflow", json!({"steps": [group.clone()]}))),
        ("a Workflow", "workflows", referred("Workflow", json!({"steps": [step]}))),
        ("a group of a Workflow", "workflows", referred("Workflow", json!({"steps": [group]}))),
        ("a component of an override", app, with("policies", json!([policy(&component)]))),
        ("a trait of an override", app, with("policies", json!([policy(&trait_)]))),
        ("a Policy", "policies", referred("Policy", policy(&trait_))),
    ] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            state.put(plural, object);
        });
        let left = if what.contains("step") || what.contains("Workflow") {
            edit_often::<WorkflowStepDefinition>(&world, "workflowstepdefinitions", 6, &[]).await
        } else {
            edit_often::<TraitDefinition>(&world, "traitdefinitions", 6, &[]).await
        };
        let kept = left.iter().any(|name| name == "d-v1");
        assert_eq!(kept, what != "nothing", "{what}: {left:?}");
        assert!(left.iter().all(|name| name != "d-v2"), "{what}: {left:?}");
    }
}

/// A range of versions means the newest in it, which stays; the others of the range go.
#[tokio::test]
async fn what_a_range_means_stays() {
    let versions = ["1.0.0", "1.1.0", "1.10.0", "1.2.0", "2.0.0", "2.1.0", "2.2.0", "2.3.0"];
    for (range, kept) in [("d@v1", "d-v1.10.0"), ("d@v1.1", "d-v1.1.0"), ("d@v1.0.0", "d-v1.0.0")] {
        let world = World::new();
        world.server.by_another_writer(|state| {
            let mut app = application("a", &[("c", &["x"], "1")]);
            app["spec"]["components"][0]["traits"] = json!([{"type": range}]);
            state.put("applications", app);
        });
        let left = edit_often::<TraitDefinition>(&world, "traitdefinitions", 8, &versions).await;
        let first: Vec<_> = left.iter().filter(|name| name.starts_with("d-v1")).collect();
        assert_eq!(first, [kept], "{range}: {left:?}");
    }
}

/// A version that comes wakes the Applications that name a version of its definition, and nobody else.
#[tokio::test]
async fn a_version_that_comes_wakes_who_may_mean_it() {
    let world = World::new();
    world.server.by_another_writer(|state| {
        for (name, type_) in [("a", "d@v1"), ("b", "d"), ("c", "e@v1")] {
            let mut app = application(name, &[("c", &["x"], "1")]);
            app["spec"]["components"][0]["traits"] = json!([{"type": type_}]);
            state.put("applications", app);
        }
        state.put(
            "traitdefinitions",
            json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
                "metadata": {"name": "d", "namespace": "vela-system"},
                "spec": {"version": "1.2.0", "schematic": {"cue": {"template": "parameter: {}"}}}}),
        );
    });
    let process = world.start();
    world.sync(&process);
    let context = &process.context;
    assert_eq!(context.queue.load().depth, 0);
    definition::reconcile::<TraitDefinition>(context, &Key::new("vela-system", "d")).await.unwrap();
    assert_eq!(context.queue.load().depth, 1);
}
