//! Random edits of Applications at random speed while the controller is restarted now and then. The audit log is the
//! oracle: nothing that the newest spec wants was deleted. In the end everything is as a fresh apply would have made it,
//! and after the deletion nothing is left.
//!
//! 300 edits with `VELA_LONG_TESTS`; the seed is `VELA_EDITS_SEED`, or a fixed one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options, Program};
use vela_tests::fixtures::binaries;

use crate::home::{APP, Home, Picture};

/// How long an Application may take to come to rest.
const LIMIT: Duration = Duration::from_secs(90);
/// Applications under edit at once.
const ACTORS: usize = 10;
/// How long an edit may be in flight to the controller, which then knows the spec of before.
const WATCH: SignedDuration = SignedDuration::from_millis(500);

/// What a spec wants: values by the names of ConfigMaps.
type Wanted = BTreeMap<String, String>;

/// The specs an Application had, each with the moments between which it was stored.
#[derive(Default)]
struct Account {
    specs: Vec<(Timestamp, Timestamp, Wanted)>,
}

impl Account {
    /// Whether every spec that the controller may have known at a moment wants a ConfigMap.
    fn is_wanted(&self, name: &str, at: Timestamp) -> bool {
        let known = at - WATCH;
        let oldest = self.specs.iter().rposition(|(_, stored, _)| *stored < known);
        let possible = self.specs.iter().skip(oldest.unwrap_or(0));
        let mut possible = possible.take_while(|(sent, ..)| *sent < at).peekable();
        oldest.is_some()
            && possible.peek().is_some()
            && possible.all(|(.., wanted)| wanted.contains_key(name))
    }
}

fn wanted(spec: &Value) -> Wanted {
    let mut out = Wanted::new();
    for component in spec["components"].as_array().into_iter().flatten() {
        for object in component["properties"]["objects"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            out.insert(text(&object["metadata"]["name"]), text(&object["data"]["v"]));
        }
    }
    out
}

/// A small world, so that things come back: three components, five names, three values.
fn random_spec(random: &mut fastrand::Rng) -> Value {
    let mut free = vec!["u", "w", "x", "y", "z"];
    random.shuffle(&mut free);
    let mut components = Vec::new();
    for name in ["c", "d", "e"] {
        if name != "c" && random.u8(..3) == 0 {
            continue;
        }
        let count = random.usize(1..=2).min(free.len());
        let value = random.u8(1..=3).to_string();
        let objects: Vec<Value> = free
            .split_off(free.len() - count)
            .into_iter()
            .map(|name| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
            })
            .collect();
        if !objects.is_empty() {
            let properties = json!({"objects": objects});
            components.push(json!({"name": name, "type": "k8s-objects", "properties": properties}));
        }
    }
    json!({"components": components, "policies": random_policies(random)})
}

/// Policies that do not change where things end.
fn random_policies(random: &mut fastrand::Rng) -> Value {
    let policy = |kind: &str, properties: Value| json!([{"name": "p", "type": kind, "properties": properties}]);
    match random.u8(..8) {
        0 => policy("garbage-collect", json!({"order": "dependency"})),
        1 => policy("garbage-collect", json!({"applicationRevisionLimit": 1})),
        2 => policy("garbage-collect", json!({"continueOnFailure": true})),
        3 => policy(
            "resource-update",
            json!({"rules": [
            {"selector": {"resourceTypes": ["ConfigMap"]}, "strategy": {"op": "replace"}}]}),
        ),
        4 => {
            policy("take-over", json!({"rules": [{"selector": {"resourceTypes": ["ConfigMap"]}}]}))
        }
        _ => json!([]),
    }
}

/// An Application, its past and what it should be.
struct Actor {
    home: Home,
    random: fastrand::Rng,
    spec: Value,
    history: VecDeque<Value>,
    account: Account,
    log: Vec<String>,
    published: usize,
}

impl Actor {
    async fn new(client: &Client, seed: u64) -> Self {
        Self {
            home: Home::new(client, "edits").await,
            random: fastrand::Rng::with_seed(seed),
            spec: Value::Null,
            history: VecDeque::new(),
            account: Account::default(),
            log: Vec::new(),
            published: 0,
        }
    }

    /// Stores a spec, and keeps account of it. An Application that is being deleted goes first.
    async fn store(&mut self, spec: Value, annotations: &Value) {
        let all = self.home.applications();
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = all.get_opt(APP).await.unwrap();
            let sent = Timestamp::now();
            let done = match &found {
                Some(app) if app.metadata.deletion_timestamp.is_some() => false,
                Some(_) => {
                    let body = json!({"metadata": {"annotations": annotations}, "spec": spec});
                    let how = PatchParams::default();
                    all.patch(APP, &how, &Patch::Merge(body)).await.is_ok()
                }
                None => {
                    let mut annotations = annotations.clone();
                    annotations.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                    let object: DynamicObject = serde_json::from_value(json!({
                        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                        "metadata": {"name": APP, "annotations": annotations}, "spec": spec,
                    }))
                    .unwrap();
                    all.create(&PostParams::default(), &object).await.is_ok()
                }
            };
            if done {
                self.account.specs.push((sent, Timestamp::now(), wanted(&spec)));
                self.history.push_front(spec.clone());
                self.history.truncate(4);
                self.spec = spec;
                return;
            }
            assert!(Instant::now() < deadline, "{:?}: an edit is not taken", self.log);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn note(&self, annotations: &Value) {
        let body = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        // One that is gone has nothing to note.
        let _ = self.home.applications().patch(APP, &PatchParams::default(), &body).await;
    }

    async fn edit(&mut self) {
        const PUBLISH: &str = "app.oam.dev/publishVersion";
        const RESTART: &str = "app.oam.dev/restart-workflow";
        // A published Application ignores edits until the next version: an edit ends that.
        let unpublished = json!({PUBLISH: null});
        let kind = if self.spec.is_null() { 0 } else { self.random.u8(..24) };
        let mut spec = self.spec.clone();
        let say = match kind {
            0..=6 => {
                let spec = random_spec(&mut self.random);
                self.store(spec, &unpublished).await;
                "a new spec"
            }
            7..=10 => {
                let old = self.random.usize(..self.history.len());
                let old = self.history.get(old).cloned().unwrap();
                self.store(old, &unpublished).await;
                "an old spec"
            }
            11 | 12 => {
                let before = spec["components"][0]["name"].as_str().unwrap_or_default();
                spec["components"][0]["name"] = json!(if before == "c" { "f" } else { "c" });
                self.store(spec, &unpublished).await;
                "a component is renamed"
            }
            13 => {
                spec["components"][0]["traits"] = json!([]);
                self.store(spec, &unpublished).await;
                "an edit without meaning"
            }
            14 | 15 => {
                spec["policies"] = random_policies(&mut self.random);
                self.store(spec, &unpublished).await;
                "other policies"
            }
            16 | 17 => {
                self.published += 1;
                let version = json!({PUBLISH: format!("p{}", self.published)});
                if self.random.bool() {
                    spec = random_spec(&mut self.random);
                }
                self.store(spec, &version).await;
                "publish"
            }
            18 => {
                let _ = self.home.applications().delete(APP, &DeleteParams::default()).await;
                let now = Timestamp::now();
                self.account.specs.push((now, now, Wanted::new()));
                self.spec = Value::Null;
                "deletion"
            }
            19 | 20 => {
                let name = self.some_map();
                let _ = self.home.maps().delete(&name, &DeleteParams::default()).await;
                "an object is lost"
            }
            21 => {
                let name = self.some_map();
                let drift = Patch::Merge(json!({"data": {"v": "drift"}}));
                let _ = self.home.maps().patch(&name, &PatchParams::default(), &drift).await;
                "an object drifts"
            }
            22 => {
                self.note(&json!({RESTART: "true"})).await;
                "restart"
            }
            _ => {
                self.note(&json!({RESTART: "24h"})).await;
                "a scheduled restart"
            }
        };
        self.log.push(say.to_owned());
    }

    fn some_map(&mut self) -> String {
        let names: Vec<String> = wanted(&self.spec).into_keys().collect();
        self.random.choice(names).unwrap_or_default()
    }

    /// Waits until there is what the spec wants, and nothing else.
    async fn settle(&self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let faults = self.faults().await;
            if faults.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let last = self.log.len().saturating_sub(12);
                let app = self.home.applications().get_opt(APP).await.unwrap();
                return Err(format!(
                    "{faults:#?} after {:?}\n{:#}",
                    self.log.get(last..),
                    json!(app)
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let picture = self.home.picture().await;
        let live: Wanted = picture
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("ConfigMap ")?, value)))
            .filter(|(name, _)| !name.starts_with("workflow-"))
            .map(|(name, value)| {
                (name.to_owned(), value["content"]["v"].as_str().unwrap_or_default().to_owned())
            })
            .collect();
        let wanted = wanted(&self.spec);
        if live != wanted {
            faults.push(format!("there is {live:?}, wanted is {wanted:?}"));
        }
        let of = |kind: &str| picture.iter().filter(|(key, _)| key.starts_with(kind)).count();
        let expected = usize::from(!self.spec.is_null());
        let (trackers, apps) = (of("ResourceTracker "), of("Application "));
        if trackers != expected || apps != expected {
            faults.push(format!("{apps} Applications, {trackers} trackers"));
        }
        let app = self.home.applications().get_opt(APP).await.unwrap();
        if let Some(app) = app {
            let status = &app.data["status"];
            let is_seen = status["observedGeneration"].as_i64() == app.metadata.generation;
            if status["status"] != "running" || !is_seen {
                faults.push(format!("the phase is {}, seen: {is_seen}", status["status"]));
            }
        }
        faults
    }

    /// Makes the same spec again elsewhere, and compares.
    async fn compare_with_fresh(&self, client: &Client) -> Result<(), String> {
        let fresh = Home::new(client, "fresh").await;
        fresh.put(&self.spec).await;
        let deadline = Instant::now() + LIMIT;
        loop {
            let (old, new) =
                (comparable(self.home.picture().await), comparable(fresh.picture().await));
            if old == new && new.keys().any(|key| key.starts_with("ResourceTracker")) {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{:#}\nis not what a fresh apply makes:\n{:#}",
                    json!(old),
                    json!(new)
                ));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        fresh.clear().await
    }
}

/// Without traces of the past: revisions, names of trackers, the annotation of a run.
fn comparable(picture: Picture) -> Picture {
    let mut out = Picture::new();
    for (key, mut value) in picture {
        if key.starts_with("ApplicationRevision ") {
            continue;
        }
        let key =
            if key.starts_with("ResourceTracker ") { "ResourceTracker".to_owned() } else { key };
        if let Some(labels) = value["labels"].as_object_mut() {
            labels.remove("app.oam.dev/appRevision");
        }
        if key.starts_with("Application ") {
            value["content"][1] = Value::Null;
        }
        if key == "ResourceTracker" {
            value["content"][1] = Value::Null;
        }
        out.insert(key, value);
    }
    out
}

/// ConfigMaps that the controller deleted though every spec it may have known wanted them.
fn crimes(entries: &[Entry], actors: &[Actor]) -> Vec<String> {
    let mut crimes = Vec::new();
    for actor in actors {
        let of_actor = entries.iter().filter(|entry| {
            entry.is_controllers()
                && entry.verb == "delete"
                && entry.resource == "configmaps"
                && entry.namespace == actor.home.name()
                && entry.code < 300
        });
        for entry in of_actor {
            let at: Timestamp = entry.received.parse().unwrap();
            if actor.account.is_wanted(&entry.name, at) {
                crimes.push(format!("{} of {} at {at}", entry.name, entry.namespace));
            }
        }
    }
    crimes
}

/// Kills the controller, or asks it to end, every few seconds.
async fn restarts(cluster: &Cluster, controller: &Program, seed: u64, stop: &AtomicBool) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(random.u64(1500..5000))).await;
        if stop.load(Ordering::SeqCst) {
            return count;
        }
        if random.bool() {
            controller.kill().unwrap();
        } else {
            controller.stop(Duration::from_secs(15)).unwrap();
        }
        controller.start(cluster).unwrap();
        controller.ready().await.unwrap();
        count += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_edits_end_as_a_fresh_apply_would() {
    let whole = std::env::var_os("VELA_LONG_TESTS").is_some();
    let edits = if whole { 30 } else { 12 };
    let seed =
        std::env::var("VELA_EDITS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let cluster = Arc::new(Cluster::start("edits").await.unwrap());
    // Nobody else is there to take over, so nobody has to wait for a lease.
    let options = Options {
        controller_flags: vec!["--enable-leader-election=false".to_owned()],
        ..Options::default()
    };
    let deployed = Arc::new(Deployed::start(&cluster, &binaries(), &options).await.unwrap());
    let client = cluster.client().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let restarter = {
        let (cluster, deployed, stop) =
            (Arc::clone(&cluster), Arc::clone(&deployed), Arc::clone(&stop));
        tokio::spawn(async move { restarts(&cluster, &deployed.controller, seed, &stop).await })
    };
    let start = Instant::now();
    let runs = (0..ACTORS as u64).map(|actor| {
        let client = client.clone();
        async move {
            let mut actor = Actor::new(&client, seed * 1000 + actor).await;
            let mut outcome = Ok(());
            for done in 1..=edits {
                actor.edit().await;
                // At once, soon, or after a rest.
                let pause = match actor.random.u8(..4) {
                    0 => 0,
                    1 => actor.random.u64(..200),
                    2 => actor.random.u64(..1500),
                    _ => actor.random.u64(..4000),
                };
                tokio::time::sleep(Duration::from_millis(pause)).await;
                if done % 10 == 0 {
                    outcome = actor.settle().await;
                }
                if outcome.is_err() {
                    break;
                }
            }
            if actor.spec.is_null() {
                actor.edit().await;
            }
            (actor, outcome)
        }
    });
    let ended = join_all(runs).await;
    stop.store(true, Ordering::SeqCst);
    let restarted = restarter.await.unwrap();
    let (mut faults, mut actors) = (Vec::new(), Vec::new());
    for (actor, outcome) in ended {
        faults.extend(outcome.err());
        actors.push(actor);
    }
    let checks = actors.iter().map(async |actor| {
        actor.settle().await?;
        actor.compare_with_fresh(&client).await
    });
    faults.extend(join_all(checks).await.into_iter().filter_map(Result::err));
    let entries = audit::read(&cluster.audit_log(), 0).unwrap();
    let found = crimes(&entries, &actors);
    let cleared = join_all(actors.iter().map(|actor| actor.home.clear())).await;
    faults.extend(cleared.into_iter().filter_map(Result::err));
    let count: usize = actors.iter().map(|actor| actor.log.len()).sum();
    eprintln!("{count} edits, {restarted} restarts, {} s, seed {seed}", start.elapsed().as_secs());
    assert!(faults.is_empty(), "seed {seed}: {}", faults.join("\n"));
    assert!(found.is_empty(), "seed {seed}: deleted though wanted: {found:#?}");
    assert!(count >= ACTORS * edits, "only {count} edits");
    deployed.webhook.check().unwrap();
    cluster.stop();
}

#[test]
fn what_is_wanted_follows_the_newest_spec_that_is_known() {
    let at = |ms: i64| Timestamp::from_millisecond(1_000_000 + ms).unwrap();
    let spec =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    let account = Account {
        specs: vec![
            (at(0), at(5), spec(&["x"])),
            (at(2000), at(2010), spec(&["y"])),
            (at(9000), at(9010), spec(&["x"])),
        ],
    };
    assert!(!account.is_wanted("x", at(1)), "nothing was stored long enough ago");
    assert!(account.is_wanted("x", at(1900)));
    assert!(!account.is_wanted("x", at(2100)), "either spec may be the one that is known");
    assert!(!account.is_wanted("x", at(5000)) && account.is_wanted("y", at(5000)));
    assert!(!account.is_wanted("x", at(9100)) && account.is_wanted("x", at(9600)));
}
