//! Notifications: one message for each time an Application fails or recovers, also if the process dies at any write.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::charts::download::Rules;
use crate::egress::Egress;
use crate::egress::policy::{Networks, parse};

use super::depth::moments;
use super::server::Death;
use super::{NAMESPACE, Process, World, application};

/// How long a message may take that is on its way.
const LIMIT: Duration = Duration::from_secs(30);

/// A receiver on loopback: its address and what it hears.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/T0/secret", listener.local_addr().unwrap());
    let (heard, hear) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (mut text, mut part) = (Vec::new(), [0; 4096]);
            let body = loop {
                let read = stream.read(&mut part).unwrap();
                text.extend_from_slice(&part[..read]);
                let all = String::from_utf8_lossy(&text);
                let body = all.split_once("\r\n\r\n").map(|(_, body)| body);
                if let Some(Ok(body)) = body.map(serde_json::from_str) {
                    break body;
                }
            };
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            if heard.send(body).is_err() {
                return;
            }
        }
    });
    (url, hear)
}

/// A world whose Application `a` wants its news at this address.
fn world(url: &str) -> World {
    let mut world = World::new();
    let egress = Egress::new(Networks::default(), parse("127.0.0.0/8").unwrap());
    world.rules = Rules { egress, ..Rules::default() };
    let properties = BASE64_STANDARD.encode(json!({ "url": url }).to_string());
    world.server.by_another_writer(|state| {
        state.put(
            "secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chat", "namespace": NAMESPACE},
                "data": {"input-properties": properties}}),
        );
    });
    world
}

fn edit(world: &World, map: &str) {
    world.server.by_another_writer(|state| {
        let mut app = application("a", &[("c", &[map], "1")]);
        if let Some(stored) = state.get("applications", NAMESPACE, "a") {
            app["metadata"] = stored["metadata"].clone();
            app["status"] = stored["status"].clone();
        }
        app["metadata"]["annotations"]["app.oam.dev/notify"] = json!("chat");
        state.put("applications", app);
    });
}

/// Messages until one of a state has come.
fn until(heard: &Receiver<Value>, state: &str) -> Vec<Value> {
    let mut all = Vec::new();
    while all.last().is_none_or(|last: &Value| last["state"] != state) {
        all.push(heard.recv_timeout(LIMIT).expect("a message comes"));
    }
    all
}

async fn fails_and_recovers(world: &World, process: &mut Process, death: Option<Death>) -> usize {
    world.server.state.lock().refused = Some("bad");
    edit(world, "bad");
    {
        let mut state = world.server.state.lock();
        state.writes = 0;
        state.death = death;
    }
    let deaths = world.settle(process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "workflowFailed");
    // What is settled says nothing again, nor does another process.
    *process = world.start();
    world.settle(process, "a").await;
    edit(world, "good");
    world.settle(process, "a").await;
    assert_eq!(world.app("a")["status"]["status"], "running");
    deaths
}

#[tokio::test]
async fn one_message_says_that_it_failed_and_one_that_it_recovered() {
    let (url, heard) = receiver();
    let world = world(&url);
    let mut process = world.start();
    fails_and_recovers(&world, &mut process, None).await;
    let all = tokio::task::spawn_blocking(move || until(&heard, "Recovered")).await.unwrap();
    let states: Vec<&str> = all.iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["RolloutFailed", "Recovered"]);
    assert_eq!(
        all[0]["application"],
        json!({"namespace": NAMESPACE, "name": "a", "generation": 1, "revision": "a-v1"})
    );
    let text = all[0]["text"].as_str().unwrap();
    assert!(text.starts_with("Application n/a rollout failed: "), "{text}");
    assert_eq!(all[1]["text"], "Application n/a is healthy again");
    // Neither the status nor an object has the address or the annotation.
    let state = world.server.state.lock();
    let map = state.get("configmaps", NAMESPACE, "good").unwrap();
    assert_eq!(map["metadata"]["annotations"]["app.oam.dev/notify"], Value::Null);
    let app = state.get("applications", NAMESPACE, "a").unwrap();
    assert!(!app.to_string().contains("T0/secret"));
}

#[tokio::test]
async fn no_death_makes_two_messages_of_one() {
    for death in moments() {
        let mut deaths = 0;
        for kind in [Death::Before(death), Death::After(death)] {
            let (url, heard) = receiver();
            let world = world(&url);
            let mut process = world.start();
            deaths += fails_and_recovers(&world, &mut process, Some(kind)).await;
            let all =
                tokio::task::spawn_blocking(move || until(&heard, "Recovered")).await.unwrap();
            let failed = all.iter().filter(|one| one["state"] == "RolloutFailed").count();
            assert!(failed <= 1, "{kind:?}: {all:?}");
        }
        if deaths == 0 {
            assert!(death > 5, "only {death} writes");
            return;
        }
    }
}
