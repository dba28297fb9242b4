//! Several replicas with `--sharding=auto`: they share the Applications; a replica that dies, stops or is replaced is followed by the
//! others in seconds, and no two of them write for one Application at a time. The audit log shows who wrote what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options, Program};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{admits, applications};

const LIMIT: Duration = Duration::from_secs(60);
/// Applications of each test.
const APPS: usize = 12;

struct World {
    cluster: Cluster,
    deployed: Deployed,
    client: Client,
    others: Vec<Program>,
}

impl World {
    /// Three replicas that share.
    async fn new(name: &'static str) -> Self {
        let cluster = Cluster::start(name).await.unwrap();
        let values = vec!["sharding.mode=auto".to_owned()];
        let options = Options { values, ..Options::default() };
        let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
        let client = cluster.client().await.unwrap();
        until("admission", LIMIT, async || admits(&client).await.is_ok()).await;
        let mut world = Self { cluster, deployed, client, others: Vec::new() };
        for name in ["controller-2", "controller-3"] {
            world.add(name).await;
        }
        world.balanced(3).await;
        world
    }

    async fn add(&mut self, name: &'static str) {
        let replica = self.deployed.controller.replica(&self.cluster, name).unwrap();
        replica.start(&self.cluster).unwrap();
        replica.ready().await.unwrap();
        self.others.push(replica);
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// How many buckets each living member says it works on, by the Pod.
    async fn buckets(&self) -> BTreeMap<String, usize> {
        let leases = self.leases().list(&ListParams::default()).await.unwrap();
        let of = |lease: Lease| {
            let pod = lease.metadata.name?.strip_prefix("kubevela-member-")?.to_owned();
            let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty());
            let notes = lease.metadata.annotations?;
            let count = notes.get("controller.core.oam.dev/buckets")?.parse().ok()?;
            holder.map(|_| (pod, count))
        };
        leases.into_iter().filter_map(of).collect()
    }

    /// Waits until so many members share everything evenly.
    async fn balanced(&self, members: usize) {
        until(&format!("{members} members share"), LIMIT, async || {
            let buckets = self.buckets().await;
            let (least, most) = (buckets.values().min(), buckets.values().max());
            buckets.len() == members
                && buckets.values().sum::<usize>() == 256
                && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
        })
        .await;
    }

    /// Creates an Application, or edits it: its ConfigMap shall hold a value.
    async fn apply(&self, name: &str, value: &str) {
        let spec = json!({"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}}]});
        let api = applications(self.client.clone());
        if api.get_opt(name).await.unwrap().is_some() {
            let edit = Patch::Merge(json!({ "spec": spec }));
            api.patch(name, &PatchParams::default(), &edit).await.unwrap();
        } else {
            let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": name}, "spec": spec});
            let app: DynamicObject = serde_json::from_value(app).unwrap();
            api.create(&PostParams::default(), &app).await.unwrap();
        }
    }

    async fn value(&self, name: &str) -> Option<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        maps.get_opt(name).await.unwrap()?.data?.remove("v")
    }

    /// Edits all Applications, and waits until all are served. Returns how long the slowest took.
    async fn edit_all(&self, value: &str, limit: Duration) -> Duration {
        let since = Instant::now();
        for name in names() {
            self.apply(&name, value).await;
        }
        until(&format!("every object holds {value}"), limit, async || {
            for name in names() {
                if self.value(&name).await.as_deref() != Some(value) {
                    return false;
                }
            }
            true
        })
        .await;
        since.elapsed()
    }

    /// Waits until nothing is written any more, and checks from a position of the audit log on that the writes for one Application
    /// by different replicas do not interleave.
    async fn is_exclusive(&self, from: u64, most: usize) {
        let log = self.cluster.audit_log();
        vela_tests::fixtures::quiet(&log, Duration::from_secs(2), of_an_application).await;
        let mut writers: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for entry in audit::read(&log, from).unwrap().into_iter().filter(of_an_application) {
            let app = app_of(&entry);
            let pod = entry.agent.split('/').nth(2).unwrap_or_default().to_owned();
            writers.entry(app).or_default().push((entry.received, pod));
        }
        assert!(!writers.is_empty(), "nothing was written");
        for (app, mut writes) in writers {
            writes.sort();
            let mut pods: Vec<String> = writes.into_iter().map(|(_, pod)| pod).collect();
            pods.dedup();
            let different: BTreeSet<&String> = pods.iter().collect();
            assert_eq!(different.len(), pods.len(), "{app}: {pods:?} interleave");
            assert!(pods.len() <= most, "{app}: {pods:?}");
        }
    }

    fn position(&self) -> u64 {
        audit::position(&self.cluster.audit_log()).unwrap()
    }
}

fn names() -> impl Iterator<Item = String> {
    (0..APPS).map(|number| format!("app-{number}"))
}

/// Whether a replica wrote it for an Application of these tests.
fn of_an_application(entry: &Entry) -> bool {
    entry.is_controllers_write() && entry.code < 300 && app_of(entry).starts_with("app-")
}

/// The Application that a write is for: its own name, or that of its ConfigMap, revision or tracker.
fn app_of(entry: &Entry) -> String {
    let parts: Vec<&str> = entry.name.split('-').take(2).collect();
    parts.join("-")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_is_followed_and_nobody_interferes() {
    let world = World::new("fleet-crash").await;
    for name in names() {
        world.apply(&name, "1").await;
    }
    world.edit_all("2", LIMIT).await;
    let from = world.position();
    // The one that leads, and has a third of everything.
    world.deployed.controller.kill().unwrap();
    let served = world.edit_all("3", LIMIT).await;
    eprintln!("all edits after the crash were served within {:.1} s", served.as_secs_f64());
    world.is_exclusive(from, 2).await;
    world.balanced(2).await;
    // It comes back, and gets its share.
    world.deployed.controller.start(&world.cluster).unwrap();
    world.deployed.controller.ready().await.unwrap();
    world.balanced(3).await;
    world.edit_all("4", LIMIT).await;
    for replica in &world.others {
        replica.check().unwrap();
    }
    world.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_out_is_a_chain_of_short_hand_overs() {
    let mut world = World::new("fleet-roll").await;
    for name in names() {
        world.apply(&name, "1").await;
    }
    world.edit_all("2", LIMIT).await;
    // A planned stop, under edits: the longest time until one is served.
    let from = world.position();
    let stopped = world.others.remove(0);
    let stop = tokio::task::spawn_blocking(move || stopped.stop(Duration::from_secs(25)).unwrap());
    let mut slowest = Duration::ZERO;
    for round in 0..6 {
        slowest = slowest.max(world.edit_all(&format!("stop-{round}"), LIMIT).await);
    }
    assert!(stop.await.unwrap(), "it ends by itself");
    eprintln!("during a planned stop {APPS} edits took {:.2} s at most", slowest.as_secs_f64());
    world.is_exclusive(from, 2).await;
    world.balanced(2).await;
    // A replica comes before another one goes.
    let rounds = if std::env::var_os("VELA_LONG_TESTS").is_some() { 3 } else { 1 };
    for name in ["controller-4", "controller-5", "controller-6"].into_iter().take(rounds) {
        world.add(name).await;
        let stopped = world.others.remove(0);
        let stop =
            tokio::task::spawn_blocking(move || stopped.stop(Duration::from_secs(25)).unwrap());
        let took = world.edit_all(name, LIMIT).await;
        assert!(stop.await.unwrap(), "it ends by itself");
        eprintln!("{name}: {APPS} edits took {:.2} s", took.as_secs_f64());
        world.balanced(2).await;
    }
    // The last ones leave: nothing is held any more, and the Lease is free for whoever comes.
    for replica in &world.others {
        assert!(replica.stop(Duration::from_secs(25)).unwrap(), "it ends by itself");
    }
    assert!(world.deployed.controller.stop(Duration::from_secs(25)).unwrap());
    let root = world.leases().get("kubevela").await.unwrap();
    assert_eq!(root.spec.unwrap().holder_identity.as_deref(), Some(""));
    assert_eq!(world.buckets().await.len(), 0);
    world.cluster.stop();
}
