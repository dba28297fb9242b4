//! Plans are true: the following run writes exactly the planned objects, and the plan itself writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::evaluation::Evaluator;
use crate::plan::changes::{Verb, content};
use crate::plan::one::{self, Plan, Verdict};
use crate::plan::overlay::Overlay;
use crate::plan::stage::{Means, Present, Stage};

use super::server::{Server, State};
use super::{NAMESPACE, Process, World, clusters};

/// The cluster of an object, its kind and its name.
pub(super) type Id = (String, String, String);
/// Objects of Applications, as far as they are not the server's own business.
pub(super) type Objects = BTreeMap<Id, Value>;

fn means(world: &World, process: &Process) -> Means {
    Means {
        client: world.server.client(1_000),
        settings: process.context.settings.clone(),
        rules: world.rules.clone(),
        cue: Evaluator::new(Arc::clone(&world.pool), Arc::clone(&world.renderer)),
        definitions: Arc::clone(&process.context.definitions),
        keys: vela_seal::KeyHolder::default(),
        clusters: Arc::clone(&process.context.clusters),
        _ends_on_drop: None,
    }
}

fn present(world: &World, name: &str) -> Present {
    let state = world.server.state.lock();
    let all = |plural: &str| -> Vec<Value> {
        let of_app = |object: &&&Value| {
            object.pointer("/metadata/labels/app.oam.dev~1name") == Some(&json!(name))
        };
        state.all(plural).iter().filter(of_app).map(|object| (*object).clone()).collect()
    };
    let read = |value: Value| serde_json::from_value(value).unwrap();
    Present {
        app: state.get("applications", NAMESPACE, name).cloned(),
        revisions: all("applicationrevisions").into_iter().map(read).collect(),
        trackers: all("resourcetrackers")
            .into_iter()
            .map(|value| serde_json::from_value(value).unwrap())
            .collect(),
    }
}

/// The own server, which has no name, and those of the other clusters.
fn servers(world: &World) -> impl Iterator<Item = (&str, &Server)> {
    let members = world.members.iter().map(|(name, server)| (*name, server));
    std::iter::once(("", &world.server)).chain(members)
}

/// Everything there is in all clusters.
fn everything(world: &World) -> Vec<impl PartialEq + std::fmt::Debug> {
    servers(world).map(|(_, server)| server.state.lock().objects.clone()).collect()
}

/// The objects that Applications deploy.
pub(super) fn objects(world: &World) -> Objects {
    let mut out = Objects::new();
    for (cluster, server) in servers(world) {
        deployed(cluster, &server.state.lock(), &mut out);
    }
    out
}

fn deployed(cluster: &str, state: &State, out: &mut Objects) {
    for (plural, kind) in [("configmaps", "ConfigMap"), ("secrets", "Secret"), ("jobs", "Job")] {
        for object in state.all(plural) {
            let owners = object.pointer("/metadata/ownerReferences");
            if owners.is_none_or(|owners| owners.as_array().is_none_or(Vec::is_empty)) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let id = (cluster.to_owned(), kind.to_owned(), name.to_owned());
                out.insert(id, timeless(content(object)));
            }
        }
    }
}

/// When something was applied is the time of the run.
fn timeless(mut object: Value) -> Value {
    if let Some(annotations) =
        object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove("app.oam.dev/last-applied-time");
    }
    object
}

/// Objects that differ, as they are after; `None` if they are gone.
pub(super) type Difference = BTreeMap<Id, Option<Value>>;

/// The objects that differ.
pub(super) fn difference(before: &Objects, after: &Objects) -> Difference {
    let mut out = BTreeMap::new();
    for (key, object) in before {
        if after.get(key) != Some(object) {
            out.insert(key.clone(), after.get(key).cloned());
        }
    }
    for (key, object) in after {
        if !before.contains_key(key) {
            out.insert(key.clone(), Some(object.clone()));
        }
    }
    out
}

/// What a plan says of the same.
fn planned(stage: &Stage) -> Difference {
    stage.overlays().flat_map(|(cluster, overlay)| planned_in(cluster, overlay)).collect()
}

fn planned_in(cluster: &str, overlay: &Overlay) -> Vec<(Id, Option<Value>)> {
    let records = overlay.records();
    let written = records.objects.iter().filter(|(_, written)| !written.is_record);
    let differs = written.filter(|(_, written)| {
        let of = |object: &Option<Value>| object.as_ref().map(|object| timeless(content(object)));
        of(&written.before) != of(&written.after)
    });
    differs
        .map(|(place, written)| {
            let object = written.after.as_ref().or(written.before.as_ref()).unwrap();
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let id = (cluster.to_owned(), kind, place.name.clone());
            (id, written.after.as_ref().map(|it| timeless(content(it))))
        })
        .collect()
}

fn app(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

/// The plan of an edit, and what it says is different then.
pub(super) async fn plan(
    world: &World,
    process: &Process,
    name: &str,
    wanted: &Value,
) -> (Plan, Difference) {
    let before = everything(world);
    let (plan, stage) =
        one::rehearse(&means(world, process), &present(world, name), Some(wanted)).await.unwrap();
    let stage = stage.unwrap();
    assert!(everything(world) == before, "a plan writes nothing");
    assert_eq!(plan.problem, None, "{plan:#?}");
    let expected = planned(&stage);
    (plan, expected)
}

/// Plans an edit and makes it: both come to the same.
async fn plan_and_run(world: &World, process: &mut Process, name: &str, spec: &Value) -> Plan {
    let (plan, expected) = plan(world, process, name, &app(name, spec)).await;
    let objects_before = objects(world);
    world.server.by_another_writer(|state| {
        let mut object =
            state.get("applications", NAMESPACE, name).cloned().unwrap_or_else(|| app(name, spec));
        object["spec"] = spec.clone();
        state.put("applications", object);
    });
    world.settle(process, name).await;
    let objects_after = objects(world);
    assert_eq!(difference(&objects_before, &objects_after), expected, "{spec:#}\n{plan:#?}");
    plan
}

fn spec(components: &[(Vec<u8>, u8)]) -> Value {
    let components: Vec<Value> = components
        .iter()
        .enumerate()
        .filter(|(_, (names, _))| !names.is_empty())
        .map(|(n, (names, value))| {
            let names: Vec<String> = names.iter().map(|name| format!("c{n}-{name}")).collect();
            json!({"name": format!("c{n}"), "type": "maps",
                "properties": {"names": names, "value": format!("v{value}")}})
        })
        .collect();
    json!({ "components": components })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_what_the_run_writes(
        edits in prop::collection::vec(
            prop::collection::vec((prop::collection::btree_set(0u8..4, 0..4), 0u8..3), 1..4), 1..4),
    ) {
        run(async {
            let world = World::new();
            let mut process = world.start();
            for edit in &edits {
                let edit: Vec<(Vec<u8>, u8)> =
                    edit.iter().map(|(names, value)| (names.iter().copied().collect(), *value)).collect();
                plan_and_run(&world, &mut process, "a", &spec(&edit)).await;
            }
            let settled = one::plan(&means(&world, &process), &present(&world, "a"), None).await.unwrap();
            assert_eq!(settled.verdict(), Verdict::Nothing, "{settled:#?}");
            assert!(settled.changes.is_empty(), "{settled:#?}");
        });
    }
}

#[tokio::test]
async fn what_is_refused_is_reported_and_nothing_else_is_lost() {
    let world = World::new();
    let mut process = world.start();
    plan_and_run(&world, &mut process, "a", &spec(&[(vec![0], 0), (vec![0], 0)])).await;
    world.server.state.lock().refused = Some("c1-0");
    let wanted = app("a", &spec(&[(vec![0], 1), (vec![0], 1)]));
    let plan =
        one::plan(&means(&world, &process), &present(&world, "a"), Some(&wanted)).await.unwrap();
    assert_eq!(plan.verdict(), Verdict::Refused, "{plan:#?}");
    assert_eq!(plan.refused.len(), 1);
    assert_eq!(plan.refused[0].name, "c1-0");
}

/// Writes to other clusters are planned as those of the own one are.
#[tokio::test]
async fn what_other_clusters_get_is_planned() {
    let world = clusters::world();
    let mut process = world.start();
    let edits = [(["east", "west"], "1"), (["local", "west"], "1"), (["local", "east"], "2")];
    for (edit, expected) in edits.iter().zip([2, 2, 3]) {
        let app = clusters::app(&json!(edit.0), edit.1);
        let plan = plan_and_run(&world, &mut process, "a", &app["spec"]).await;
        let changes = plan.changes.iter().filter(|change| change.verb != Verb::Note);
        assert_eq!(changes.count(), expected, "{edit:?}: {plan:#?}");
    }
    let settled = one::plan(&means(&world, &process), &present(&world, "a"), None).await.unwrap();
    assert_eq!(settled.verdict(), Verdict::Nothing, "{settled:#?}");
}

/// A cluster that cannot be reached is named, and what the others get is planned.
#[tokio::test]
async fn a_cluster_out_of_reach_is_named() {
    let world = clusters::world();
    let process = world.start();
    clusters::disconnect(&process, "east");
    let app = clusters::app(&json!(["east", "west"]), "1");
    let plan =
        one::plan(&means(&world, &process), &present(&world, "a"), Some(&app)).await.unwrap();
    let shown = crate::plan::report::text(&plan);
    assert!(shown.contains("+ ConfigMap n/w in cluster west"), "{shown}");
    assert!(shown.contains("step s: ") && shown.contains("east"), "{shown}");
}
