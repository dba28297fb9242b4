//! A member goes away: nothing else waits for it, nothing is lost, and when it is back everything is as it was asked for.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use vela_tests::audit;
use vela_tests::fixtures::until;
use vela_tests::link::Mode;
use vela_tests::members::{Fleet, LIMIT, Space, fleet};

/// Whether an Application waits for a cluster and says so.
async fn waits(space: &Space, name: &str, cluster: &str) -> bool {
    let status = space.app(name).await["status"].clone();
    let message = status["workflow"]["steps"][0]["message"].as_str().unwrap_or_default();
    status["status"] == "runningWorkflow" && message.contains(cluster)
}

/// Creations of a ConfigMap by the controller in a member.
fn creations(fleet: &Fleet, namespace: &str) -> usize {
    let log = audit::read(&fleet.east.cluster.audit_log(), 0).unwrap();
    log.iter()
        .filter(|entry| entry.is_controllers() && entry.resource == "configmaps")
        .filter(|entry| entry.verb == "create" && entry.namespace == namespace && !entry.dry_run)
        .count()
}

/// F1, F7.
#[tokio::test]
async fn a_member_that_goes_away_delays_nothing_else_and_loses_nothing() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("away").await.unwrap();
    let all = ["local", "east", "west"];
    fleet.east.link.set(Mode::Refuse);
    // Away from the beginning: the others have it, the step says what it waits for.
    space.apply(&space.application("a", &all, "1")).await.unwrap();
    for cluster in ["local", "west"] {
        until("the object in the others", LIMIT, async || {
            space.value(cluster, "a").await.as_deref() == Some("1")
        })
        .await;
    }
    until("the step to say what it waits for", LIMIT, async || waits(&space, "a", "east").await)
        .await;
    fleet.east.link.set(Mode::Pass);
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));

    // Away in the middle of an edit.
    fleet.east.link.set(Mode::Refuse);
    space.apply(&space.application("a", &all, "2")).await.unwrap();
    until("the edit in the hub", LIMIT, async || {
        space.value("local", "a").await.as_deref() == Some("2")
    })
    .await;
    until("the step to say what it waits for", LIMIT, async || waits(&space, "a", "east").await)
        .await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));
    until("the condition to say so", LIMIT, async || {
        let conditions = space.app("a").await["status"]["conditions"].clone();
        let mut all = conditions.as_array().into_iter().flatten();
        all.any(|it| {
            let message = it["message"].as_str().unwrap_or_default();
            it["type"] == "Clusters" && it["reason"] == "Unreachable" && message.contains("east")
        })
    })
    .await;
    fleet.east.link.set(Mode::Pass);
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("2"));

    // Away in the middle of a deletion: what is elsewhere goes, what is there is remembered.
    fleet.east.link.set(Mode::Refuse);
    space.applications().delete("a", &DeleteParams::default()).await.unwrap();
    for cluster in ["local", "west"] {
        until("the object in the others to go", LIMIT, async || {
            space.value(cluster, "a").await.is_none()
        })
        .await;
    }
    until("the Application to say what it waits for", LIMIT, async || {
        space.app("a").await["status"].to_string().contains("east")
    })
    .await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("2"));
    fleet.east.link.set(Mode::Pass);
    space.gone("a").await;
    assert_eq!(space.value("east", "a").await, None);
    assert_eq!(creations(fleet, "away"), 1);
    let reasons: Vec<_> =
        fleet.events("east").await.unwrap().into_iter().map(|(reason, _)| reason).collect();
    assert!(reasons.iter().any(|reason| reason == "ClusterDisconnected"), "{reasons:?}");
    fleet.deployed.check().unwrap();
}

/// An Application that asks for it goes on without a member that is away, and catches up when that is back.
#[tokio::test]
async fn a_step_goes_on_without_a_member_that_is_away_if_it_may() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("skipped").await.unwrap();
    let skipping = |value: &str| {
        let mut app = space.application("a", &["local", "east"], value);
        app["metadata"]["annotations"] = serde_json::json!({"app.oam.dev/unreachable": "skip"});
        app
    };
    fleet.east.link.set(Mode::Refuse);
    fleet.reaches("east", "Disconnected").await;
    for value in ["1", "2"] {
        space.apply(&skipping(value)).await.unwrap();
        until("the step to go on", LIMIT, async || {
            let app = space.app("a").await;
            app["status"]["workflow"]["status"] == "succeeded"
                && app["status"]["observedGeneration"] == app["metadata"]["generation"]
        })
        .await;
        assert_eq!(space.value("local", "a").await.as_deref(), Some(value));
        let status = space.app("a").await["status"].clone();
        assert_eq!(status["status"], "unhealthy", "{status}");
        assert!(status["services"].to_string().contains("deployed when it answers"), "{status}");
    }
    assert_eq!(space.value("east", "a").await, None);
    fleet.east.link.set(Mode::Pass);
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("2"));
    assert_eq!(creations(fleet, "skipped"), 1);
    space.delete("a").await;
    assert_eq!(space.value("east", "a").await, None);
}

/// F2: nothing arrives, from a moment in the middle of everything: edits of others take no longer.
#[tokio::test]
async fn a_member_that_swallows_everything_delays_nothing_else() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("swallowed").await.unwrap();
    let long = std::env::var("VELA_LONG_TESTS").is_ok();
    let count = if long { 40 } else { 4 };
    for index in 0..count {
        let name = format!("east-{index}");
        space.apply(&space.application(&name, &["east"], "1")).await.unwrap();
    }
    for other in ["local", "west"] {
        space.apply(&space.application(other, &[other], "0")).await.unwrap();
        space.runs(other).await;
    }
    for index in 0..count {
        space.runs(&format!("east-{index}")).await;
    }
    fleet.east.link.set(Mode::Swallow);
    for index in 0..count {
        let name = format!("east-{index}");
        space.apply(&space.application(&name, &["east"], "2")).await.unwrap();
    }
    // However long the requests to it take to be given up, these come through in the meantime.
    for round in 1..4 {
        let value = round.to_string();
        for other in ["local", "west"] {
            space.apply(&space.application(other, &[other], &value)).await.unwrap();
            until("the edit elsewhere", Duration::from_secs(30), async || {
                space.value(other, other).await.as_deref() == Some(&value)
            })
            .await;
        }
    }
    let noticed = fleet.reaches("east", "Disconnected").await;
    assert!(noticed < Duration::from_secs(60), "{noticed:?}");
    fleet.east.link.set(Mode::Pass);
    for index in 0..count {
        let name = format!("east-{index}");
        space.runs(&name).await;
        assert_eq!(space.value("east", &name).await.as_deref(), Some("2"));
        space.delete(&name).await;
    }
    for other in ["local", "west"] {
        space.delete(other).await;
    }
}

/// A member is away for a minute: what Applications have in other clusters, too, arrives there as if it were not, and nothing is made
/// twice.
#[tokio::test]
async fn a_member_that_goes_away_delays_no_other_place_of_its_applications() {
    // A request to it that writes is waited for so long at the most; nothing else may wait for that.
    const WRITE: Duration = Duration::from_secs(15);
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("places").await.unwrap();
    let (count, minute) = match std::env::var("VELA_LONG_TESTS") {
        Ok(_) => (20, Duration::from_secs(60)),
        Err(_) => (3, Duration::from_secs(3)),
    };
    let edit = async |value: &str| {
        for index in 0..count {
            let name = format!("a{index}");
            let app = space.application(&name, &["east", "local", "west"], value);
            space.apply(&app).await.unwrap();
        }
    };
    let arrives = async |clusters: &[&str], value: &str| {
        for (index, cluster) in (0..count).flat_map(|it| clusters.iter().map(move |at| (it, at))) {
            let name = format!("a{index}");
            until("the edit", LIMIT, async || {
                space.value(cluster, &name).await.as_deref() == Some(value)
            })
            .await;
        }
    };
    edit("0").await;
    arrives(&["east", "local", "west"], "0").await;
    for mode in [Mode::Swallow, Mode::Refuse] {
        fleet.east.link.set(mode);
        let (since, mut times) = (Instant::now(), Vec::new());
        while since.elapsed() < minute || times.len() < 3 {
            let value = format!("{mode:?} {}", times.len());
            let began = Instant::now();
            edit(&value).await;
            arrives(&["local", "west"], &value).await;
            times.push(began.elapsed());
        }
        let last = format!("{mode:?} {}", times.len() - 1);
        times.sort_unstable();
        eprintln!("{mode:?}: {} rounds of {count} edits elsewhere, {times:?}", times.len());
        assert!(times.iter().all(|time| *time < WRITE), "{times:?}");
        fleet.east.link.set(Mode::Pass);
        arrives(&["east"], &last).await;
    }
    for index in 0..count {
        space.runs(&format!("a{index}")).await;
    }
    assert_eq!(creations(fleet, "places"), count);
    for index in 0..count {
        space.delete(&format!("a{index}")).await;
    }
}

/// F12: what changed while the watch was cut is put back, and the relists are few.
#[tokio::test]
async fn drift_is_put_back_however_often_the_watch_is_cut() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("cut").await.unwrap();
    space.apply(&space.application("a", &["east"], "1")).await.unwrap();
    space.runs("a").await;
    let maps = space.objects("east", "v1", "ConfigMap");
    let cuts = if std::env::var("VELA_LONG_TESTS").is_ok() { 12 } else { 2 };
    for cut in 0..cuts {
        fleet.east.link.set(Mode::Refuse);
        let edit = serde_json::json!({"data": {"v": format!("drift {cut}")}});
        let how = kube::api::PatchParams::default();
        maps.patch("a", &how, &kube::api::Patch::Merge(&edit)).await.unwrap();
        fleet.east.link.set(Mode::Pass);
        until("the drift to be put back", LIMIT, async || {
            space.value("east", "a").await.as_deref() == Some("1")
        })
        .await;
    }
    space.delete("a").await;
}

/// F3: a slow member is slow for its own Applications only.
#[tokio::test]
async fn a_slow_member_delays_its_own_applications_only() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("slow").await.unwrap();
    for name in ["east", "west"] {
        space.apply(&space.application(name, &[name], "0")).await.unwrap();
        space.runs(name).await;
    }
    fleet.east.link.set(Mode::Delay(Duration::from_millis(500)));
    space.apply(&space.application("east", &["east"], "1")).await.unwrap();
    let since = Instant::now();
    for round in 1..4 {
        let value = round.to_string();
        space.apply(&space.application("west", &["west"], &value)).await.unwrap();
        until("the edit elsewhere", LIMIT, async || {
            space.value("west", "west").await.as_deref() == Some(&value)
        })
        .await;
    }
    eprintln!("three edits of another cluster took {:?}", since.elapsed());
    space.runs("east").await;
    assert_eq!(space.value("east", "east").await.as_deref(), Some("1"));
    fleet.east.link.set(Mode::Pass);
    space.delete("east").await;
    space.delete("west").await;
}
