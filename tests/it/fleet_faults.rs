//! Replicas that share, one of which is frozen, cut off, or slow to write, an Application over which they die, an API server that is
//! away from all of them, and what they send when nothing happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use vela_api::names::EDITOR_SCHEMA;
use vela_tests::audit;
use vela_tests::deploy::{Program, apply};
use vela_tests::faults::Door;
use vela_tests::fixtures::{quiet, resource, until};
use vela_tests::fleet;
use vela_tests::gate::{Fault, Gate};

use super::fleet::{APPS, LIMIT, World, of_an_application, total};

/// How long a Lease must be unchanged until its member is judged dead.
const JUDGED: Duration = Duration::from_secs(8);

impl World {
    /// A door to the API server.
    async fn door(&self) -> Door {
        let port = self.cluster.server().rsplit(':').next().unwrap().parse().unwrap();
        let door = Door::shut(port).await.unwrap();
        door.open();
        door
    }

    /// A further replica that reaches the API server through a door.
    async fn add_through(&mut self, name: &'static str, door: &Door) {
        let controller = &self.deployed.controller;
        let direct = Path::new(controller.kubeconfig().unwrap());
        let through = self.cluster.kubeconfig_through(direct, door.port()).unwrap();
        let replica = controller.replica(&self.cluster, name).unwrap().with_kubeconfig(&through);
        replica.start(&self.cluster).unwrap();
        replica.ready().await.unwrap();
        self.others.push(replica);
    }

    /// For how long the member's Lease that was renewed last has not been renewed.
    async fn unrenewed(&self) -> Duration {
        let leases = self.leases().list(&ListParams::default()).await.unwrap().items;
        let of_members = leases.into_iter().filter(|lease| {
            lease.metadata.name.as_deref().is_some_and(|name| name.contains("-member-"))
        });
        let last = of_members.filter_map(|lease| Some(lease.spec?.renew_time?.0)).max().unwrap();
        Duration::try_from(Timestamp::now().duration_since(last)).unwrap_or_default()
    }

    /// Waits until three share again; the replica is started when it ends, as a kubelet does.
    async fn returned(&self, replica: &Program) {
        until("the replica shares again", LIMIT, async || {
            if replica.pid().is_none() {
                replica.start(&self.cluster).unwrap();
            }
            fleet::is_balanced(&self.client, 3).await.unwrap()
        })
        .await;
    }

    /// The Pod that wrote last for each Application.
    fn owners(&self) -> BTreeMap<String, String> {
        let entries = audit::read(&self.cluster.audit_log(), 0).unwrap();
        let entries = entries.into_iter().filter(of_an_application);
        let writers = fleet::writers(entries, fleet::application_of);
        writers.into_iter().filter_map(|(app, mut pods)| Some((app, pods.pop()?))).collect()
    }
}

async fn seizures(replicas: &[&Program]) -> f64 {
    total(replicas, "vela_shard_seizures_total").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_replica_is_followed_and_writes_nothing_when_it_wakes() {
    let world = World::new("fleet-freeze").await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    let frozen = &world.others[0];
    let others = [&world.deployed.controller, &world.others[1]];
    // Shorter than it is believed: nothing moves, and what is its own waits.
    let table = world.buckets().await;
    let since = Instant::now();
    frozen.pause();
    world.apply_all("short").await;
    frozen.resume();
    world.edit_all("3", LIMIT).await;
    if since.elapsed() < JUDGED {
        assert_eq!(seizures(&others).await, 0.0);
        assert_eq!(world.buckets().await, table);
    } else {
        eprintln!("the machine was too slow to freeze a replica for a moment");
        world.balanced(3).await;
    }

    // Longer: the others take its buckets over, and what it wanted to write is not written.
    let from = world.position();
    frozen.pause();
    world.edit_all("4", LIMIT).await;
    until("its Lease is taken", LIMIT, async || seizures(&others).await >= 1.0).await;
    world.balanced(2).await;
    let woken = world.position();
    frozen.resume();
    world.edit_all("5", LIMIT).await;
    world.is_exclusive(from, 2).await;
    let pod = frozen.pod();
    let late = audit::read(&world.cluster.audit_log(), woken).unwrap();
    let late = late.iter().filter(|entry| of_an_application(entry) && entry.agent.ends_with(pod));
    let late: Vec<_> = late.collect();
    assert!(late.is_empty(), "{pod} wrote when it woke: {late:?}");
    world.returned(frozen).await;
    world.edit_all("6", LIMIT).await;
    world.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_is_followed_and_an_api_server_that_is_away_moves_nothing() {
    let mut world = World::of("fleet-cut", &[]).await;
    let (one, two) = (world.door().await, world.door().await);
    world.add_through("controller-2", &one).await;
    world.add_through("controller-3", &two).await;
    world.balanced(3).await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;

    let from = world.position();
    one.close();
    world.edit_all("3", LIMIT).await;
    until("its Lease is taken", LIMIT, async || {
        seizures(&[&world.deployed.controller, &world.others[1]]).await >= 1.0
    })
    .await;
    world.balanced(2).await;
    one.open();
    world.returned(&world.others[0]).await;
    world.is_exclusive(from, 2).await;

    // Only those behind doors are left, and both are shut: as if the API server were away.
    assert!(world.deployed.controller.stop(Duration::from_secs(25)).unwrap());
    world.balanced(2).await;
    let rest: Vec<&Program> = world.others.iter().collect();
    let (before, table) = (seizures(&rest).await, world.buckets().await);
    one.close();
    two.close();
    until("both are silent for longer than they are believed", LIMIT, async || {
        world.unrenewed().await > JUDGED + JUDGED / 4
    })
    .await;
    one.open();
    two.open();
    world.edit_all("4", LIMIT).await;
    rest.iter().for_each(|replica| replica.check().unwrap());
    assert_eq!(seizures(&rest).await, before, "nobody was judged while nobody could renew");
    assert_eq!(world.buckets().await, table);
    world.cluster.stop();
}

/// A server that accepts connections and says nothing: how many are open, and how many there were.
pub(super) struct Silent {
    port: u16,
    pub(super) open: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Silent {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, all) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let silent = Self { port, open: Arc::clone(&open), all: Arc::clone(&all) };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                open.fetch_add(1, Ordering::SeqCst);
                all.fetch_add(1, Ordering::SeqCst);
                let open = Arc::clone(&open);
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        silent
    }

    /// From some moment on the API server asks it about the ConfigMaps of a namespace.
    pub(super) async fn admits(
        &self,
        client: &Client,
        namespace: &str,
        operations: &[&str],
        failure_policy: &str,
    ) {
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let hook = json!({
            "metadata": {"name": "silent"},
            "webhooks": [{
                "name": "silent.example.com",
                "clientConfig": {"url": format!("https://127.0.0.1:{}/", self.port)},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": operations, "scope": "Namespaced"}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": failure_policy, "timeoutSeconds": 30,
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        });
        let hook = serde_json::from_value(hook).unwrap();
        hooks.create(&PostParams::default(), &hook).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_the_api_server_delays_is_not_made_after_its_replica_was_followed() {
    let world = World::new("fleet-late").await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    // Every ConfigMap of the test waits for a webhook that says nothing, and is written then.
    let silent = Silent::start().await;
    silent.admits(&world.client, "default", &["CREATE", "UPDATE"], "Ignore").await;
    // The API server calls it from some moment on; each edit is another try.
    let app = "app-0";
    let mut tries = 0;
    until("a write waits", LIMIT, async || {
        if silent.open.load(Ordering::SeqCst) == 0 {
            tries += 1;
            world.apply(app, &format!("late-{tries}")).await;
        }
        silent.open.load(Ordering::SeqCst) > 0
    })
    .await;
    let owners = world.owners();
    let owner = &owners[app];
    let all = world.all();
    let owner = all.iter().find(|replica| replica.pod() == owner).unwrap();
    // Frozen, not dead: its connection stays, so that only the deadline of the write ends it.
    owner.pause();
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    hooks.delete("silent", &DeleteParams::default()).await.unwrap();
    world.apply(app, "new").await;
    until("another replica has written", LIMIT, async || {
        world.value(app).await.as_deref() == Some("new")
    })
    .await;
    // The API server gives the delayed write up, it does not make it.
    until("no write waits", LIMIT, async || silent.open.load(Ordering::SeqCst) == 0).await;
    quiet(&world.cluster.audit_log(), Duration::from_secs(2), of_an_application).await;
    assert!(silent.all.load(Ordering::SeqCst) > 0);
    assert_eq!(world.value(app).await.as_deref(), Some("new"));
    owner.resume();
    world.cluster.stop();
}

/// How many replicas die over an Application until it is set aside.
const DEATHS: usize = 2;
/// The Application in a namespace of its own over which replicas die.
const POISON: (&str, &str) = ("poison", "app-poison");

impl World {
    fn poison(&self) -> Api<DynamicObject> {
        let kind = resource(vela_api::V1BETA1, "Application");
        Api::namespaced_with(self.client.clone(), POISON.0, &kind)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_over_which_replicas_die_is_set_aside() {
    let world = World::of("fleet-poison", &[]).await;
    let direct = world.deployed.controller.kubeconfig().unwrap().to_owned();
    let (mut gates, mut replicas) = (Vec::new(), Vec::new());
    for name in ["controller-2", "controller-3", "controller-4"] {
        // Each has a gate of its own, which ends it.
        let process: Arc<OnceLock<Arc<Program>>> = Arc::default();
        let ended = Arc::clone(&process);
        let kill = move || ended.get().into_iter().for_each(|replica| replica.kill().unwrap());
        let gate = Gate::start(&world.cluster, kill).await.unwrap();
        let through = gate.kubeconfig(&world.cluster, Path::new(&direct)).unwrap();
        let replica = world.deployed.controller.replica(&world.cluster, name).unwrap();
        let replica = Arc::new(replica.with_kubeconfig(&through));
        replica.start(&world.cluster).unwrap();
        replica.ready().await.unwrap();
        process.set(Arc::clone(&replica)).unwrap();
        gates.push(gate);
        replicas.push(replica);
    }
    assert!(world.deployed.controller.stop(Duration::from_secs(25)).unwrap());
    world.balanced(3).await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POISON.0}});
    apply(&world.client, &namespace).await.unwrap();

    // A replica dies when it would write for it; it is started again, as a kubelet does, and is as fragile as before.
    let arm = |gate: &Gate| gate.count(POISON.0, Some(Fault::Before(1)));
    gates.iter().for_each(arm);
    let app = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": POISON.1},
        "spec": {"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}]}}]},
    });
    let app = serde_json::from_value(app).unwrap();
    world.poison().create(&PostParams::default(), &app).await.unwrap();
    for death in 1..=DEATHS {
        let mut dead = None;
        until("a death", LIMIT, async || {
            dead = replicas
                .iter()
                .zip(&gates)
                .find(|(replica, gate)| gate.died(POISON.0) && replica.pid().is_none());
            dead.is_some()
        })
        .await;
        let (replica, gate) = dead.unwrap();
        eprintln!("{} died", replica.pod());
        if death == DEATHS {
            gates.iter().for_each(|gate| gate.count(POISON.0, None));
        } else {
            arm(gate);
        }
        replica.start(&world.cluster).unwrap();
    }
    let condition = async || {
        let found = world.poison().get(POISON.1).await.unwrap();
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "SetAside")
    };
    until("the condition", LIMIT, condition).await;
    // Everybody else is served, and nobody dies again.
    world.edit_all("3", LIMIT).await;
    world.balanced(3).await;
    world.edit_all("4", LIMIT).await;
    replicas.iter().for_each(|replica| replica.check().unwrap());
    assert!(condition().await);
    world.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_rest_replicas_renew_their_leases_and_nothing_else() {
    let world = World::new("fleet-rest").await;
    world.apply_all("1").await;
    // Written once after the start, when no more definitions come: later than everything else.
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "vela-system");
    until("the schema for editors is there", LIMIT, async || {
        maps.get_opt(EDITOR_SCHEMA).await.unwrap().is_some()
    })
    .await;
    let log = world.cluster.audit_log();
    quiet(&log, Duration::from_secs(5), |entry| {
        entry.is_controllers_write() && entry.resource != "leases"
    })
    .await;
    let long = std::env::var_os("VELA_LONG_TESTS").is_some();
    let time = Duration::from_secs(if long { 600 } else { 20 });
    let (from, since) = (world.position(), Instant::now());
    tokio::time::sleep(time).await;
    let mut sent = audit::read(&log, from).unwrap();
    let seconds = since.elapsed().as_secs_f64();
    sent.retain(|entry| entry.is_controllers() && entry.verb != "watch");
    let (leases, others): (Vec<_>, Vec<_>) =
        sent.into_iter().partition(|entry| entry.resource == "leases");
    let (writes, reads): (Vec<_>, Vec<_>) = leases.iter().partition(|entry| entry.is_write());
    for (what, count) in [("writes", writes.len()), ("reads", reads.len())] {
        let rate = count as f64 / seconds / 3.0;
        eprintln!("{rate:.2} {what} of Leases a second and replica");
        assert!((0.1..=1.0).contains(&rate), "{rate:.2} {what} a second and replica");
    }
    let others = audit::count(&others);
    assert!(others.is_empty(), "{APPS} settled Applications: {others:?}");
    world.cluster.stop();
}
