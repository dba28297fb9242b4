//! WorkflowRuns: the process dies at any write, and the end is the same; one of the name of an Application is another object.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vela_api::WorkflowRun;

use crate::application::context::AppContext;
use crate::charts::download::Rules;
use crate::in_flight::Subject;
use crate::queue::{Key, Next};
use crate::workflow_run;

use super::depth::moments;
use super::server::Death;
use super::{NAMESPACE, Process, World, application, refill};

/// Applies a ConfigMap.
const APPLY: &str = r#"
import "vela/kube"

apply: kube.#Apply & {$params: value: {
    apiVersion: "v1", kind: "ConfigMap", metadata: {name: parameter.name, namespace: "n"}, data: v: context.word}}
parameter: name: string
"#;

/// A call that only an Application can make.
const LOAD: &str = r#"
import "vela/oam"

apply: oam.#ApplyComponent & {$params: value: {name: "c", type: "maps"}}
parameter: {}
"#;

fn run(steps: &Value) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1alpha1", "kind": "WorkflowRun",
        "metadata": {"name": "a", "namespace": NAMESPACE},
        "spec": {"context": {"word": "1"}, "workflowSpec": {"steps": steps}},
    })
}

fn world(run: Value) -> World {
    let world = World::new();
    world.server.by_another_writer(|state| {
        for (name, template) in [("map", APPLY), ("load", LOAD)] {
            state.put(
                "workflowstepdefinitions",
                json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "WorkflowStepDefinition",
                    "metadata": {"name": name, "namespace": "vela-system"},
                    "spec": {"schematic": {"cue": {"template": template}}}}),
            );
        }
        state.put("workflowruns", run);
    });
    world
}

fn context(process: &Process) -> AppContext {
    AppContext::of_runs(Arc::clone(&process.context.shared), Rules::default())
}

/// One reconcile; `None` if the process died.
async fn reconcile(world: &World, context: &AppContext) -> Option<Next> {
    let state = &world.server.state;
    refill(&context.runs.store, &state.lock(), "workflowruns", |run: WorkflowRun| run);
    let key = Key::new(NAMESPACE, "a");
    let mut killed = state.lock().killed.subscribe();
    let work = Box::pin(workflow_run::reconcile(context, &key));
    tokio::select! {
        biased;
        _ = killed.wait_for(|killed| *killed) => None,
        next = work => Some(next.unwrap_or(Next::Failed)),
    }
}

/// Reconciles until nothing is left to do. Returns how often the process died.
async fn settle(world: &World) -> usize {
    let mut process = world.start();
    let mut runs = context(&process);
    let mut deaths = 0;
    for _ in 0..100 {
        match reconcile(world, &runs).await {
            None => {
                deaths += 1;
                world.revive();
                process = world.start();
                runs = context(&process);
            }
            Some(Next::After(delay)) => world.pass(delay),
            Some(Next::Done) => return deaths,
            Some(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not end: {:#}", status(world));
}

fn status(world: &World) -> Value {
    world.server.state.lock().get("workflowruns", NAMESPACE, "a").unwrap()["status"].clone()
}

fn map(world: &World, name: &str) -> Option<Value> {
    world.server.state.lock().get("configmaps", NAMESPACE, name).cloned()
}

#[tokio::test]
async fn a_run_ends_the_same_at_whatever_write_the_process_dies() {
    let steps = json!([{"name": "x", "type": "map", "properties": {"name": "x"}},
        {"name": "g", "type": "step-group", "subSteps": [
            {"name": "y", "type": "map", "properties": {"name": "y"}}]}]);
    let mut points = 0;
    for at in moments() {
        let mut died = false;
        for death in [Death::Before(at), Death::After(at)] {
            let world = world(run(&steps));
            world.server.state.lock().death = Some(death);
            died |= settle(&world).await > 0;
            let status = status(&world);
            assert_eq!(status["status"], "succeeded", "{death:?}: {status:#}");
            assert_eq!(
                (&status["finished"], &status["steps"][1]["phase"]),
                (&json!(true), &json!("succeeded"))
            );
            for name in ["x", "y"] {
                let map = map(&world, name).unwrap();
                assert_eq!(map["data"]["v"], "1", "{death:?}");
                assert_eq!(map["metadata"]["labels"]["workflowrun.oam.dev/name"], "a");
            }
            // Nothing is recorded of a run.
            assert!(world.server.state.lock().all("resourcetrackers").is_empty());
        }
        if !died {
            break;
        }
        points += 1;
    }
    assert!(points * super::depth::stride() > 3, "only {points} moments of death");
}

/// Two processes die over a run: it is left as it is, reports that once, and an Application of its name is not affected.
#[tokio::test]
async fn a_run_over_which_processes_died_is_set_aside() {
    let world = world(run(&json!([{"name": "x", "type": "map", "properties": {"name": "x"}}])));
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    let process = world.start();
    let context = context(&process);
    let state = &world.server.state;
    refill(&context.runs.store, &state.lock(), "workflowruns", |run: WorkflowRun| run);
    let key = Key::new(NAMESPACE, "a");
    let generation = context.runs.store.get(&key).unwrap().metadata.generation.unwrap_or_default();
    let died = |times| context.in_flight.died_over(Subject::run(&key), generation, times);
    died(1);
    assert!(workflow_run::set_aside(&context, &key).await.is_none(), "one death is an accident");
    died(1);
    assert!(workflow_run::set_aside(&context, &key).await.is_some());
    assert_eq!(status(&world)["conditions"][0]["reason"], "SetAside");
    assert_eq!((&status(&world)["status"], map(&world, "x")), (&Value::Null, None));
    let app = Subject::application(&key);
    assert!(context.in_flight.set_aside(app, generation).is_none());
    // Reported once.
    let writes = state.lock().writes;
    assert!(workflow_run::set_aside(&context, &key).await.is_some());
    assert_eq!(state.lock().writes, writes);
    // Once it is over, the condition goes with the first pass.
    context.in_flight.survived(Subject::run(&key), generation);
    assert!(workflow_run::set_aside(&context, &key).await.is_none());
    settle(&world).await;
    assert_eq!(status(&world)["status"], "succeeded");
    assert_eq!(status(&world)["conditions"][0]["status"], "True");
}

/// A run that has nothing to do writes nothing.
#[tokio::test]
async fn a_suspended_run_and_one_that_has_ended_write_nothing() {
    for steps in [json!([{"name": "w", "type": "suspend"}]), json!([])] {
        let world = world(run(&steps));
        settle(&world).await;
        let process = world.start();
        let before = world.server.state.lock().writes;
        for _ in 0..3 {
            assert_eq!(reconcile(&world, &context(&process)).await, Some(Next::Done));
        }
        let after = world.server.state.lock().writes;
        assert_eq!(after, before, "{:#}", status(&world));
    }
}

/// What an Application of the same name owns is none of the run, and neither is its context.
#[tokio::test]
async fn a_run_is_no_application_of_its_name() {
    let steps = json!([{"name": "s", "type": "map", "properties": {"name": "x"}}]);
    let world = world(run(&steps));
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "of the Application")]));
    });
    let mut process = world.start();
    world.settle(&mut process, "a").await;
    let runs = context(&process);
    for _ in 0..3 {
        reconcile(&world, &runs).await;
    }
    let status = status(&world);
    let message = status["steps"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("belongs to Application n/a"), "{status:#}");
    assert_eq!(map(&world, "x").unwrap()["data"]["v"], "of the Application");
    let backend = status["contextBackend"]["name"].as_str().unwrap();
    assert!(backend.starts_with("workflow-a-context-"), "{backend}");
}

#[tokio::test]
async fn what_needs_an_application_says_so() {
    let kinds = [
        ("load", "oam.component-apply needs an Application"),
        ("apply-component", "needs an Application"),
        ("unknown", "not found in namespaces n and vela-system"),
    ];
    for (kind, text) in kinds {
        let world = world(run(&json!([{"name": "s", "type": kind}])));
        let process = world.start();
        let runs = context(&process);
        for _ in 0..2 {
            reconcile(&world, &runs).await;
        }
        let status = status(&world).to_string();
        assert!(status.contains(text), "{kind}: {status}");
    }
}

/// With authentication on nothing is done for a run that nobody is known to have written.
#[tokio::test]
async fn nobody_acts_for_a_run_without_a_stamp() {
    let mut world = world(run(&json!([{"name": "s", "type": "map", "properties": {"name": "x"}}])));
    world.gates.authenticate_application = true;
    world.keys = Some(vela_seal::Keys::new(&[1; 32], None).unwrap());
    let process = world.start();
    let runs = context(&process);
    assert_eq!(reconcile(&world, &runs).await, Some(Next::Done));
    let status = status(&world);
    assert_eq!(status["status"], "initializing", "{status:#}");
    let message = status["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("is not known"), "{status:#}");
    assert!(map(&world, "x").is_none() && map(&world, "workflow-a-context").is_none());
}
