//! The annotation that restarts a workflow: the run that it asks for happens, and happens once, whatever comes between.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{Death, State};
use super::{NAMESPACE, World, application};

/// What happens while the restart is in flight.
#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    /// The process dies.
    Death(Death),
    /// Somebody labels the Application after this many requests.
    Label(usize),
    /// Somebody else's edit of the spec comes after this many requests.
    Edit(usize),
}

fn annotate(state: &mut State, value: &str) {
    let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
    app["metadata"]["annotations"]["app.oam.dev/restart-workflow"] = json!(value);
    state.put("applications", app);
}

/// Restarts the workflow of an Application that runs. Returns how many runs there were, and whether what was to come
/// between came.
async fn runs(value: &str, between: Between) -> (usize, bool) {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    {
        let mut state = world.server.state.lock();
        state.writes = 0;
        match between {
            Between::Nothing => {}
            Between::Death(death) => state.death = Some(death),
            Between::Label(at) | Between::Edit(at) => {
                let edits = matches!(between, Between::Edit(_));
                let happen = move |state: &mut State| {
                    let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
                    if edits {
                        app["spec"]["components"][0]["properties"]["value"] = json!("2");
                    } else {
                        app["metadata"]["labels"]["somebody"] = json!("else");
                    }
                    state.put("applications", app);
                };
                state.is_late = true;
                state.interruption = Some((at, Box::new(happen)));
            }
        }
    }
    world.server.by_another_writer(|state| annotate(state, value));
    let mut deaths = world.settle(&mut process, "a").await;
    // What came at the end of the last reconcile is seen by another one.
    deaths += world.settle(&mut process, "a").await;
    let case = format!("{value}, {between:?}: {:#}", world.app("a"));
    assert_eq!(world.faults("a"), Vec::<String>::new(), "{case}");
    let state = world.server.state.lock();
    let app = state.get("applications", NAMESPACE, "a").cloned().unwrap_or_default();
    let left = &app["metadata"]["annotations"]["app.oam.dev/restart-workflow"];
    assert_eq!(*left, Value::Null, "{case}");
    assert_eq!(app["status"]["workflowRestartScheduledAt"], Value::Null, "{case}");
    let ids: BTreeSet<String> = state
        .history("applications", "a")
        .filter_map(|app| app["status"]["workflow"]["steps"][0]["id"].as_str())
        .map(str::to_owned)
        .collect();
    let interrupts = matches!(between, Between::Label(_) | Between::Edit(_));
    (ids.len(), deaths > 0 || (interrupts && state.interruption.is_none()))
}

#[tokio::test]
async fn a_restart_happens_once_whatever_comes_between() {
    let past = "2026-01-01T00:00:00Z";
    assert_eq!(runs("true", Between::Nothing).await, (2, false));
    // A time before the end of the run asks for nothing.
    assert_eq!(runs(past, Between::Nothing).await, (1, false));
    for at in 1.. {
        let (before, died) = runs("true", Between::Death(Death::Before(at))).await;
        assert_eq!(before, 2, "death before write {at}");
        let (after, _) = runs("true", Between::Death(Death::After(at))).await;
        assert_eq!(after, 2, "death after write {at}");
        if !died {
            assert!(at > 3, "only {at} writes");
            break;
        }
    }
    for at in 1.. {
        let (labelled, came) = runs("true", Between::Label(at)).await;
        assert_eq!(labelled, 2, "a label after request {at}");
        // The edit may come before or after the run that was asked for.
        let (edited, _) = runs("true", Between::Edit(at)).await;
        assert!((2..=3).contains(&edited), "{edited} runs, an edit after request {at}");
        if !came {
            assert!(at > 3, "only {at} requests");
            break;
        }
    }
}

/// The run of a publishVersion continues whatever the version is called, and so does one that an older release began.
#[tokio::test]
async fn a_run_goes_on_whatever_its_name() {
    for (version, stored) in [("2024-01-01T10:00", ""), ("p:1:2", ""), ("", "a-v1:4b2e1f")] {
        let world = World::new();
        let mut process = world.start();
        world.server.by_another_writer(|state| {
            let mut app = application("a", &[("c", &["x"], "1")]);
            if !version.is_empty() {
                app["metadata"]["annotations"]["app.oam.dev/publishVersion"] = json!(version);
            }
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        if !stored.is_empty() {
            world.server.by_another_writer(|state| {
                let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
                app["status"]["workflow"]["appRevision"] = json!(stored);
                state.put("applications", app);
            });
        }
        let id = || world.app("a")["status"]["workflow"]["steps"][0]["id"].clone();
        let first = id();
        world.server.by_another_writer(|state| {
            let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
            app["metadata"]["labels"]["look"] = json!("again");
            state.put("applications", app);
        });
        world.settle(&mut process, "a").await;
        assert_eq!(id(), first, "{version}{stored}");
    }
}

/// The time of the next run follows the pause that the annotation says now.
#[tokio::test]
async fn another_pause_means_another_time() {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    let time = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    for (pause, hours) in [("720h", 720), ("2h", 2), ("48h", 48)] {
        world.server.by_another_writer(|state| annotate(state, pause));
        world.settle(&mut process, "a").await;
        let status = &world.app("a")["status"];
        let ended: Option<jiff::Timestamp> = time(&status["workflow"]["endTime"]);
        let planned = time(&status["workflowRestartScheduledAt"]);
        let expected = ended.map(|at| at + jiff::SignedDuration::from_hours(hours));
        assert!(planned.is_some() && planned == expected, "{pause}: {status:#}");
        let writes = world.server.state.lock().writes;
        world.reconcile(&process, "a").await;
        assert_eq!(world.server.state.lock().writes, writes, "{pause}: nothing is to be written");
    }
}

/// Runs keep their distance whatever the annotation asks for.
#[tokio::test]
async fn runs_that_shall_follow_each_other_at_once_do_not() {
    let world = World::new();
    let mut process = world.start();
    world.server.by_another_writer(|state| {
        state.put("applications", application("a", &[("c", &["x"], "1")]));
    });
    world.settle(&mut process, "a").await;
    world.server.by_another_writer(|state| annotate(state, "0s"));
    let runs = || {
        let state = world.server.state.lock();
        let ids: BTreeSet<String> = state
            .history("applications", "a")
            .filter_map(|app| app["status"]["workflow"]["steps"][0]["id"].as_str())
            .map(str::to_owned)
            .collect();
        ids.len()
    };
    let key = crate::queue::Key::new(NAMESPACE, "a");
    for expected in [1, 2, 3] {
        for _ in 0..10 {
            process.context.memory(&key).lock().settled = None;
            world.reconcile(&process, "a").await;
        }
        assert_eq!(runs(), expected);
        world.pass(std::time::Duration::from_secs(12));
    }
}
