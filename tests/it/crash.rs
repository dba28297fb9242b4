//! The controller's process dies at a write: before it is sent, or after it was committed. For every write of every
//! scenario the end is that of a run without death, no object that was wanted all along was created again, and nothing is
//! left after the deletion.
//!
//! A sample of the writes; all of them with `VELA_LONG_TESTS`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::gate::Fault;

use crate::gated::World;
use crate::home::{APP, Home, Picture};

/// How long a step of a scenario may take, restarts included.
const LIMIT: Duration = Duration::from_secs(90);
/// Scenarios in flight at once.
const AT_ONCE: usize = 5;
/// Of this many writes one is sampled.
const SAMPLE: usize = 28;

/// What happens in a scenario.
#[derive(Clone)]
enum Step {
    /// The Application has this spec; it comes to rest.
    Apply(Value),
    /// It is published under a version.
    Publish(&'static str),
    /// Somebody deletes a ConfigMap.
    Lose(&'static str),
    /// A suspended workflow continues.
    Resume,
    /// It is deleted.
    Delete,
}

fn maps(name: &str, names: &[&str], value: &str) -> Value {
    let one = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}});
    let objects: Vec<Value> = names.iter().map(one).collect();
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": objects}})
}

fn web(image: &str, replicas: u32) -> Value {
    json!({"name": "web", "type": "webservice",
        "properties": {"image": image, "ports": [{"port": 80, "expose": true}]},
        "traits": [{"type": "scaler", "properties": {"replicas": replicas}}]})
}

fn spec(components: &[Value]) -> Value {
    json!({"components": components, "policies": null, "workflow": null})
}

fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    use Step::{Apply, Delete, Lose, Publish, Resume};
    let one = |value| spec(&[maps("c", &["x", "y"], value)]);
    let two = spec(&[maps("c", &["x", "y"], "1"), maps("d", &["z"], "1")]);
    let renamed = spec(&[maps("c", &["x", "w"], "1")]);
    let policy = |properties: Value| {
        let mut spec = two.clone();
        spec["policies"] =
            json!([{"name": "p", "type": "garbage-collect", "properties": properties}]);
        spec
    };
    let kept = policy(json!({"rules": [
        {"selector": {"componentNames": ["d"]}, "strategy": "onAppDelete"}]}));
    let mut without = kept.clone();
    without["components"].as_array_mut().unwrap().pop();
    let mut ordered = policy(json!({"order": "dependency"}));
    ordered["components"][1]["dependsOn"] = json!(["c"]);
    let step = |name: &str| json!({"name": name, "type": "apply-component", "properties": {"component": name}});
    let mut halted = two.clone();
    halted["workflow"] = json!({"steps": [step("c"), {"name": "s", "type": "suspend"}, step("d")]});
    vec![
        ("create", vec![Apply(one("1"))]),
        ("create and delete", vec![Apply(one("1")), Delete]),
        ("edit", vec![Apply(one("1")), Apply(one("2"))]),
        ("add a component", vec![Apply(one("1")), Apply(two.clone())]),
        ("remove a component", vec![Apply(two.clone()), Apply(one("1"))]),
        ("rename an object", vec![Apply(one("1")), Apply(renamed)]),
        ("there and back", vec![Apply(one("1")), Apply(one("2")), Apply(one("1"))]),
        ("publish twice", vec![Apply(one("1")), Publish("p1"), Publish("p2")]),
        ("an object is lost", vec![Apply(two), Lose("z"), Apply(one("3"))]),
        ("a rule keeps an object", vec![Apply(kept), Apply(without), Delete]),
        ("components in order", vec![Apply(ordered), Delete]),
        ("a workflow that halts", vec![Apply(halted), Resume]),
        ("a workload", vec![Apply(spec(&[web("nginx:1", 1)])), Apply(spec(&[web("nginx:2", 2)]))]),
    ]
}

/// Carries a step out.
async fn carry_out(home: &Home, step: &Step) {
    let how = PatchParams::default();
    match step {
        Step::Apply(spec) => home.put(spec).await,
        Step::Publish(version) => {
            let note =
                json!({"metadata": {"annotations": {"app.oam.dev/publishVersion": version}}});
            home.applications().patch(APP, &how, &Patch::Merge(note)).await.unwrap();
        }
        Step::Lose(name) => {
            let _ = home.maps().delete(name, &DeleteParams::default()).await;
        }
        Step::Resume => {
            let mut app = home.applications().get(APP).await.unwrap();
            let workflow = &mut app.data["status"]["workflow"];
            workflow["suspend"] = json!(false);
            for step in workflow["steps"].as_array_mut().into_iter().flatten() {
                if step["phase"] == "suspending" {
                    step["phase"] = json!("running");
                }
            }
            let patch = json!({"status": {"workflow": workflow.clone()}});
            let patch = Patch::Merge(patch);
            home.applications().patch_status(APP, &how, &patch).await.unwrap();
        }
        Step::Delete => {
            home.applications().delete(APP, &DeleteParams::default()).await.unwrap();
        }
    }
}

/// Whether the Application rests, or is gone.
async fn rests(home: &Home, step: &Step) -> bool {
    let Some(app) = home.applications().get_opt(APP).await.unwrap() else {
        return matches!(step, Step::Delete) && home.trackers().await.is_empty();
    };
    let status = &app.data["status"];
    let phase = status["status"].as_str().unwrap_or_default();
    let published = match step {
        Step::Publish(version) => status["workflow"]["appRevision"] == *version,
        // A step that is resumed leaves the phase first.
        Step::Resume => status["workflow"]["finished"] == true,
        _ => true,
    };
    let halts = phase == "workflowSuspending" && !matches!(step, Step::Resume);
    published
        && (phase == "running" || halts)
        && status["observedGeneration"].as_i64() == app.metadata.generation
}

async fn rest(home: &Home, step: &Step) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while !rests(home, step).await {
        if Instant::now() > deadline {
            let app = home.applications().get_opt(APP).await.unwrap();
            let status = app.map(|app| app.data["status"].clone());
            return Err(format!("no rest: {:#}", json!(status)));
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Ok(())
}

/// The ConfigMaps that every spec of a scenario wants and nobody deletes by hand.
fn always_wanted(steps: &[Step]) -> BTreeSet<String> {
    let mut wanted: Option<BTreeSet<String>> = None;
    for step in steps {
        let names: BTreeSet<String> = match step {
            Step::Delete => return BTreeSet::new(),
            Step::Apply(spec) => spec["components"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|one| {
                    one["properties"]["objects"].as_array().cloned().unwrap_or_default()
                })
                .filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned()))
                .collect(),
            _ => continue,
        };
        wanted = Some(match wanted {
            None => names,
            Some(before) => before.intersection(&names).cloned().collect(),
        });
    }
    let mut wanted = wanted.unwrap_or_default();
    for step in steps {
        if let Step::Lose(name) = step {
            wanted.remove(*name);
        }
    }
    wanted
}

/// What a run left.
struct End {
    picture: Picture,
    writes: Vec<String>,
    died: bool,
}

/// Carries a scenario out. With `expected` it ends as soon as everything is as expected.
async fn play(
    world: &World,
    steps: &[Step],
    fault: Option<Fault>,
    expected: Option<&Picture>,
) -> Result<End, String> {
    let home = Home::new(&world.client, "crash").await;
    world.gate.count(home.name(), fault);
    let wanted = always_wanted(steps);
    let mut uids = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        carry_out(&home, step).await;
        if !matches!(step, Step::Lose(_)) {
            rest(&home, step).await?;
        }
        if index == 0 {
            uids = home.uids(&wanted).await;
        }
    }
    let picture = match expected {
        Some(expected) => home.becomes(expected).await?,
        None => home.still().await,
    };
    let mut now = home.uids(&wanted).await;
    now.retain(|name, _| uids.contains_key(name));
    if now != uids {
        return Err(format!(
            "objects that were wanted all along were made anew: {uids:?}, {now:?}"
        ));
    }
    let (writes, died) = (world.gate.writes(home.name()), world.gate.died(home.name()));
    home.clear().await?;
    Ok(End { picture, writes, died })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_may_die_at_any_write() {
    let world = Arc::new(World::new("crash").await);
    let supervisor = World::supervise(&world);
    let whole = std::env::var_os("VELA_LONG_TESTS").is_some();
    let only = std::env::var("VELA_CRASH_SCENARIO").ok();
    let scenarios: Vec<_> = scenarios()
        .into_iter()
        .filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
        .collect();
    let start = Instant::now();
    let clean = stream::iter(&scenarios).map(async |(name, steps)| {
        let end = play(&world, steps, None, None).await;
        end.unwrap_or_else(|text| panic!("{name}, without death: {text}"))
    });
    let clean: Vec<End> = clean.buffered(AT_ONCE).collect().await;
    let mut points = Vec::new();
    for (index, ((name, steps), end)) in scenarios.iter().zip(&clean).enumerate() {
        eprintln!("{name}: {} writes: {}", end.writes.len(), end.writes.join(", "));
        assert!(end.writes.len() > 5, "{name}: only {} writes", end.writes.len());
        for at in 1..=end.writes.len() {
            for (turn, fault) in [Fault::Before(at), Fault::After(at)].into_iter().enumerate() {
                if whole || (2 * at + turn + 5 * index).is_multiple_of(SAMPLE) {
                    points.push((*name, steps, end, fault));
                }
            }
        }
    }
    let count = points.len();
    let runs = stream::iter(points).map(|(name, steps, clean, fault)| {
        let world = &world;
        async move {
            match play(world, steps, Some(fault), Some(&clean.picture)).await {
                Ok(end) => Ok((end.died, name, fault)),
                Err(text) => Err(format!("{name}, {fault:?}: {text}")),
            }
        }
    });
    let (mut deaths, mut faults) = (0, Vec::new());
    let mut runs = runs.buffer_unordered(AT_ONCE);
    while let Some(outcome) = runs.next().await {
        match outcome {
            Ok((true, ..)) => deaths += 1,
            // The writes of a run are not always the same number.
            Ok((false, name, fault)) => eprintln!("{name}: no {fault:?} came"),
            Err(text) => {
                eprintln!("{text}");
                faults.push(text);
            }
        }
    }
    drop(runs);
    supervisor.abort();
    eprintln!("{count} moments, {deaths} deaths, {} s", start.elapsed().as_secs());
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(deaths * 10 >= count * 8, "only {deaths} deaths in {count} runs");
    world.webhook.check().unwrap();
    world.cluster.stop();
}
