//! An API server that is overloaded, away or slow, or whose answers are lost: every rollout in flight ends as without that, no
//! attempt of a step is used up, and nothing fails for good.
//!
//! Each fault lasts a few seconds; a minute, with 5 s for each request, with `VELA_LONG_TESTS`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use serde_json::{Value, json};
use vela_tests::fixtures::until;
use vela_tests::gate::Disturbance;

use crate::gated::World;
use crate::home::{APP, Home, Picture};

/// How long a rollout may take after the fault.
const LIMIT: Duration = Duration::from_secs(120);

/// What is in flight when the fault begins.
struct Rollout {
    name: &'static str,
    /// What rests before.
    before: Option<Value>,
    /// What is wanted then; `None`: the Application is deleted.
    wanted: Option<Value>,
}

fn maps(name: &str, names: &[&str], value: &str) -> Value {
    let one = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}});
    let objects: Vec<Value> = names.iter().map(one).collect();
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": objects}})
}

fn web(image: &str) -> Value {
    json!({"name": "web", "type": "webservice",
        "properties": {"image": image, "ports": [{"port": 80, "expose": true}]},
        "traits": [{"type": "scaler", "properties": {"replicas": 1}}]})
}

fn rollouts() -> Vec<Rollout> {
    let spec = |components: &[Value]| json!({"components": components});
    let two = |value| spec(&[maps("c", &["x", "y"], value), maps("d", &["z"], value)]);
    let step = |name: &str| json!({"name": name, "type": "apply-component", "properties": {"component": name}});
    let mut steps = two("1");
    steps["workflow"] = json!({"steps": [step("c"), {"name": "both", "type": "step-group",
        "subSteps": [{"name": "pause", "type": "suspend", "properties": {"duration": "1s"}}, step("d")]}]});
    vec![
        Rollout { name: "creation", before: None, wanted: Some(two("1")) },
        Rollout {
            name: "edit",
            before: Some(two("1")),
            wanted: Some(spec(&[maps("c", &["x", "w"], "2")])),
        },
        Rollout { name: "workload", before: None, wanted: Some(spec(&[web("nginx:1")])) },
        Rollout { name: "workflow", before: None, wanted: Some(steps) },
        Rollout { name: "deletion", before: Some(two("1")), wanted: None },
    ]
}

/// Waits until the Application rests; if it does not, its status says why.
async fn rested(home: &Home, name: &str) {
    let deadline = Instant::now() + LIMIT;
    while !rests(home).await {
        if Instant::now() > deadline {
            let app = home.applications().get_opt(APP).await.unwrap();
            panic!("{name} does not rest: {:#}", json!(app.map(|app| app.data)));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn rests(home: &Home) -> bool {
    let Some(app) = home.applications().get_opt(APP).await.unwrap() else { return false };
    let status = &app.data["status"];
    status["status"] == "running"
        && status["observedGeneration"].as_i64() == app.metadata.generation
}

/// Without the names of trackers: one whose first object was postponed is deleted again, and while it terminates the next one has another name.
fn comparable(picture: Picture) -> Picture {
    let anonymous = |key: String| match key.split_once(' ') {
        Some(("ResourceTracker", _)) => "ResourceTracker".to_owned(),
        _ => key,
    };
    picture.into_iter().map(|(key, value)| (anonymous(key), value)).collect()
}

/// A rollout in a namespace of its own.
struct Run<'r> {
    rollout: &'r Rollout,
    home: Home,
    /// Attempts that were counted as failed.
    counted: BTreeSet<String>,
}

impl<'r> Run<'r> {
    async fn prepare(world: &World, rollout: &'r Rollout) -> Self {
        let home = Home::new(&world.client, "faults").await;
        if let Some(before) = &rollout.before {
            home.put(before).await;
            rested(&home, rollout.name).await;
        }
        Self { rollout, home, counted: BTreeSet::new() }
    }

    async fn begin(&self) {
        match &self.rollout.wanted {
            Some(spec) => self.home.put(spec).await,
            None => {
                self.home.applications().delete(APP, &DeleteParams::default()).await.unwrap();
            }
        }
    }

    /// What the context of the workflow counts, and a workflow that failed.
    async fn note_failures(&mut self) {
        let context = self.home.maps().get_opt(&format!("workflow-{APP}-context")).await.unwrap();
        let data = context.and_then(|context| context.data).unwrap_or_default();
        let failed =
            data.into_iter().filter(|(key, count)| key.ends_with(".failedTimes") && count != "0");
        self.counted
            .extend(failed.map(|(key, count)| format!("{}: {key}: {count}", self.rollout.name)));
        let app = self.home.applications().get_opt(APP).await.unwrap();
        let status = app.map(|app| app.data["status"].clone()).unwrap_or_default();
        if status["status"] == "workflowFailed" || status["status"] == "workflowTerminated" {
            self.counted.insert(format!("{}: {status:#}", self.rollout.name));
        }
    }

    async fn ends(&mut self, expected: &Picture) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.note_failures().await;
            let picture = comparable(self.home.picture().await);
            if picture == *expected {
                break;
            }
            if Instant::now() > deadline {
                let name = self.rollout.name;
                return Err(format!(
                    "{name}: {:#}\ninstead of\n{:#}",
                    json!(picture),
                    json!(expected)
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if self.counted.is_empty() {
            Ok(())
        } else {
            Err(format!("counted as failed: {:?}", self.counted))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_in_trouble_fails_no_rollout() {
    let whole = std::env::var_os("VELA_LONG_TESTS").is_some();
    let (lasts, latency) = if whole { (60, 5_000) } else { (4, 300) };
    let world = World::new("faults").await;
    let pid = world.controller.pid();
    let rollouts = rollouts();
    let mut expected = Vec::new();
    for rollout in &rollouts {
        let run = Run::prepare(&world, rollout).await;
        run.begin().await;
        if rollout.wanted.is_some() {
            rested(&run.home, rollout.name).await;
        }
        expected.push(comparable(run.home.still().await));
        run.home.clear().await.unwrap();
    }
    let refused = |code, retry_after, every| Disturbance::Refused { code, retry_after, every };
    let mut faults = Vec::new();
    for (fault, least) in [
        (refused(429, Some(1), 1), 10),
        (refused(429, Some(1), 3), 10),
        (refused(503, None, 1), 10),
        (Disturbance::Slow(Duration::from_millis(latency)), 30),
        (Disturbance::AnswerLost { every: 2 }, 10),
    ] {
        let mut runs = Vec::new();
        for rollout in &rollouts {
            runs.push(Run::prepare(&world, rollout).await);
        }
        world.gate.disturb(Some(fault));
        let started = Instant::now();
        for run in &runs {
            run.begin().await;
        }
        // Until it mattered: what is disturbed are requests of these rollouts.
        until(&format!("{fault:?}"), LIMIT, async || {
            for run in &mut runs {
                run.note_failures().await;
            }
            started.elapsed() > Duration::from_secs(lasts) && world.gate.disturbed() >= least
        })
        .await;
        let disturbed = world.gate.disturbed();
        world.gate.disturb(None);
        let over = Instant::now();
        for (run, expected) in runs.iter_mut().zip(&expected) {
            faults.extend(run.ends(expected).await.err().map(|text| format!("{fault:?}: {text}")));
        }
        eprintln!(
            "{fault:?}: {disturbed} requests, over after {:.1} s",
            over.elapsed().as_secs_f64()
        );
        for run in &runs {
            faults.extend(run.home.clear().await.err());
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(world.controller.pid(), pid, "the controller ended");
    world.webhook.check().unwrap();
    world.cluster.stop();
}
