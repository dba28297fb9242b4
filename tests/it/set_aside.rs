//! An Application over which processes of the controller die is set aside, whether they die at once or after a while; the others are
//! served, and an edit gives it another chance.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use vela_tests::deploy::NAMESPACE;
use vela_tests::fixtures::until;
use vela_tests::gate::Fault;

use crate::gated::World;
use crate::home::{APP, Home};

const LIMIT: Duration = Duration::from_secs(120);

fn spec(value: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"v": value}});
    json!({"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [map]}}]})
}

async fn status(home: &Home) -> Value {
    let app = home.applications().get_opt(APP).await.unwrap();
    app.map(|app| app.data["status"].clone()).unwrap_or_default()
}

async fn is_set_aside(home: &Home) -> bool {
    let status = status(home).await;
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "SetAside")
}

/// Whether the ConfigMap is as the spec says.
async fn has(home: &Home, value: &str) -> bool {
    let map = home.maps().get_opt("x").await.unwrap();
    map.and_then(|map| map.data).is_some_and(|data| data.get("v").is_some_and(|it| it == value))
}

/// Which leader notes on the Lease that the Application is in flight.
async fn noted_by(world: &World, home: &Home) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), NAMESPACE);
    let all = leases.list(&ListParams::default()).await.unwrap().items;
    all.into_iter().find_map(|lease| {
        let noted = lease.metadata.annotations.unwrap_or_default();
        let record = noted.get("controller.core.oam.dev/under-way").cloned().unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        record["underWay"].get(format!("{}/{APP}", home.name()))?;
        record["leader"].as_str().map(str::to_owned)
    })
}

/// It is named everywhere, the others are served, and an edit lets it go on.
async fn is_named_and_released(world: &World, poison: &Home, calm: &Home, edit: &str) {
    let controller = &world.controller;
    until("the metric", LIMIT, async || {
        matches!(controller.metric("vela_applications_set_aside").await, Ok(count) if count >= 1.0)
    })
    .await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), poison.name());
    until("the event", LIMIT, async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|event| event.reason.as_deref() == Some("SetAside"))
    })
    .await;
    assert!(!has(poison, "1").await, "nothing was deployed");
    calm.put(&spec(edit)).await;
    until("the edit of another Application", LIMIT, async || has(calm, edit).await).await;
    assert!(is_set_aside(poison).await, "{:#}", status(poison).await);
    poison.put(&spec("2")).await;
    until("its edit", LIMIT, async || {
        has(poison, "2").await && status(poison).await["status"] == "running"
    })
    .await;
    assert!(!is_set_aside(poison).await, "{:#}", status(poison).await);
    until("the metric", LIMIT, async || {
        matches!(controller.metric("vela_applications_set_aside").await, Ok(count) if count < 1.0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_over_which_processes_die_is_set_aside() {
    let times = ["lease-duration=6s", "renew-deadline=4s", "retry-period=1s"];
    let flags = times.map(|time| format!("--leader-election-{time}"));
    let flags = flags.each_ref().map(String::as_str);
    let world = World::with_flags("set-aside", &flags).await;
    let calm = Home::new(&world.client, "calm").await;
    calm.put(&spec("1")).await;
    until("another Application", LIMIT, async || has(&calm, "1").await).await;

    // It holds the process, which is ended for that.
    let slow = Home::new(&world.client, "slow").await;
    world.gate.count(slow.name(), Some(Fault::Hold(1)));
    slow.put(&spec("1")).await;
    let mut leader = None;
    for death in 1..=2 {
        until("a note of what is in flight", LIMIT, async || {
            let noted = noted_by(&world, &slow).await;
            let is_news = noted.is_some() && noted != leader;
            leader = noted.or(leader.take());
            is_news
        })
        .await;
        world.controller.kill().unwrap();
        world.gate.count(slow.name(), (death < 2).then_some(Fault::Hold(1)));
        world.controller.start(&world.cluster).unwrap();
    }
    until("it is set aside", LIMIT, async || is_set_aside(&slow).await).await;
    is_named_and_released(&world, &slow, &calm, "2").await;

    // It ends the process at once: the first death leaves no note, and makes the next process cautious.
    let quick = Home::new(&world.client, "quick").await;
    world.gate.count(quick.name(), Some(Fault::Before(1)));
    quick.put(&spec("1")).await;
    for death in 1..=2 {
        until("a death", LIMIT, async || world.gate.died(quick.name())).await;
        until("the end of the process", LIMIT, async || world.controller.pid().is_none()).await;
        world.gate.count(quick.name(), (death < 2).then_some(Fault::Before(1)));
        world.controller.start(&world.cluster).unwrap();
    }
    until("it is set aside", LIMIT, async || is_set_aside(&quick).await).await;
    is_named_and_released(&world, &quick, &calm, "3").await;
    world.webhook.check().unwrap();
    world.cluster.stop();
}
