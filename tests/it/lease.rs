//! Two controllers, one leader; an API server that comes late and goes away.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options};
use vela_tests::faults::Door;
use vela_tests::fixtures::{binaries, quiet, until};
use vela_tests::gate::{Disturbance, Gate};
use vela_tests::release::applications;

const LIMIT: Duration = Duration::from_secs(60);

struct World {
    cluster: Cluster,
    deployed: Deployed,
    client: Client,
}

impl World {
    async fn new() -> Self {
        let cluster = Cluster::start("lease").await.unwrap();
        let deployed = Deployed::start(&cluster, &binaries(), &Options::default()).await.unwrap();
        let client = cluster.client().await.unwrap();
        Self { cluster, deployed, client }
    }

    /// Who holds the controllers' Lease.
    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = leases.list(&ListParams::default()).await.ok()?.items;
        let holders = all.into_iter().filter_map(|lease| lease.spec?.holder_identity);
        holders.into_iter().find(|holder| !holder.is_empty())
    }

    /// Waits until the controllers write nothing but their Lease.
    async fn quiet(&self) {
        let log = self.cluster.audit_log();
        quiet(&log, Duration::from_secs(2), Entry::is_controllers_write).await;
    }

    fn applications(&self) -> Api<DynamicObject> {
        applications(self.client.clone())
    }

    /// Creates an Application, or edits its image, and waits until the Deployment has it.
    async fn roll_out(&self, image: &str, limit: Duration) {
        let spec = json!({ "components": [{
            "name": "front", "type": "webservice", "properties": { "image": image },
        }] });
        let applications = self.applications();
        if applications.get_opt("app").await.unwrap().is_some() {
            let patch = Patch::Merge(json!({ "spec": spec }));
            applications.patch("app", &PatchParams::default(), &patch).await.unwrap();
        } else {
            let object = json!({
                "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": { "name": "app" }, "spec": spec,
            });
            let object = serde_json::from_value(object).unwrap();
            applications.create(&PostParams::default(), &object).await.unwrap();
        }
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        until("the image in the Deployment", limit, async || {
            let Some(found) = deployments.get_opt("front").await.unwrap() else { return false };
            let pod = found.spec.unwrap().template.spec.unwrap();
            pod.containers[0].image.as_deref() == Some(image)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_takes_over() {
    let world = World::new().await;
    let first = &world.deployed.controller;
    until("a leader", Duration::from_secs(20), async || world.holder().await.is_some()).await;
    world.roll_out("nginx:1", Duration::from_secs(20)).await;
    let holder = world.holder().await;

    let second = first.replica(&world.cluster, "controller-2").unwrap();
    second.start(&world.cluster).unwrap();
    second.ready().await.unwrap();
    assert_eq!(world.holder().await, holder, "a second one does not take over from a live leader");
    // Only who leads has workers.
    let leads = first.parts().await.unwrap();
    assert!(leads.contains("[+]leaderElection ok\n[+]policydefinition ok\n"), "{leads}");
    let follows = second.parts().await.unwrap();
    assert!(!follows.contains("application"), "{follows}");

    // A crash: the Lease has to expire first.
    first.kill().unwrap();
    let since = Instant::now();
    world.roll_out("nginx:2", Duration::from_secs(30)).await;
    let moved = since.elapsed();
    eprintln!("work moved {:.1} s after the crash", moved.as_secs_f64());
    assert!(moved < Duration::from_secs(25), "{moved:?}");
    assert_ne!(world.holder().await, holder);

    // A planned stop: the Lease is given back.
    first.start(&world.cluster).unwrap();
    first.ready().await.unwrap();
    let holder = world.holder().await;
    assert!(second.stop(Duration::from_secs(15)).unwrap(), "it ends by itself when asked to");
    let since = Instant::now();
    until("another leader", Duration::from_secs(5), async || {
        let now = world.holder().await;
        now.is_some() && now != holder
    })
    .await;
    world.roll_out("nginx:3", Duration::from_secs(10)).await;
    eprintln!("work moved {:.1} s after the stop", since.elapsed().as_secs_f64());
    world.cluster.stop();
}

/// The first reconcile of what already runs sends nothing and reports nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing() {
    let world = World::new().await;
    let controller = &world.deployed.controller;
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": { "name": "app" }, "spec": { "components": [{
            "name": "front", "type": "webservice",
            "properties": { "image": "nginx", "cpu": "500m", "ports": [{ "port": 80, "expose": true }] },
            "traits": [
                { "type": "scaler", "properties": { "replicas": 2 } },
                { "type": "gateway", "properties": {
                    "domain": "a.example.com", "http": { "/": 80 }, "class": "nginx" } },
            ],
        }] },
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    world.applications().create(&PostParams::default(), &object).await.unwrap();
    let phase = async || {
        let found = world.applications().get("app").await.unwrap();
        found.data["status"]["status"].as_str().unwrap_or_default().to_owned()
    };
    until("running", Duration::from_secs(60), async || phase().await == "running").await;
    let log = world.cluster.audit_log();
    world.quiet().await;
    assert!(controller.stop(Duration::from_secs(15)).unwrap());
    let from = audit::position(&log).unwrap();
    controller.start(&world.cluster).unwrap();
    controller.ready().await.unwrap();
    until("a look at the Application", Duration::from_secs(60), async || {
        let reconciles = controller.metric("application_reconcile_time_seconds_count").await;
        reconciles.is_ok_and(|reconciles| reconciles >= 1.0)
    })
    .await;
    // What a reconcile decided to write would be in flight now.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(audit::written(&log, from).unwrap(), Vec::<String>::new());
    assert_eq!(phase().await, "running");
    world.cluster.stop();
}

/// A leader that was held for longer than its lease must not write when it continues, whatever it was about to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_writes_nothing() {
    let world = World::new().await;
    let first = &world.deployed.controller;
    until("a leader", Duration::from_secs(20), async || world.holder().await.is_some()).await;
    world.roll_out("nginx:1", Duration::from_secs(20)).await;
    let account = fs::read_to_string(first.kubeconfig().unwrap()).unwrap();
    let log = world.cluster.audit_log();
    let writes = |from: u64| -> Vec<Entry> {
        audit::read(&log, from)
            .unwrap()
            .into_iter()
            .filter(|entry| entry.is_controllers() && entry.is_write())
            .collect()
    };
    // The audit log distinguishes the two by their tokens.
    let tokens: BTreeSet<String> = writes(0).into_iter().map(|entry| entry.credential).collect();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    let second = first.replica(&world.cluster, "controller-2").unwrap();
    let other = world.cluster.kubeconfig_of(NAMESPACE, "kubevela-vela-core").await.unwrap();
    assert_ne!(fs::read_to_string(&other).unwrap(), account);
    let second = second.with_kubeconfig(&other);
    second.start(&world.cluster).unwrap();
    second.ready().await.unwrap();

    let holder = world.holder().await;
    // What is in flight when it is held would still arrive.
    world.quiet().await;
    first.pause();
    // An edit for which both would write.
    world.roll_out("nginx:2", Duration::from_secs(40)).await;
    assert_ne!(world.holder().await, holder);
    let from = audit::position(&log).unwrap();
    first.resume();
    world.roll_out("nginx:3", Duration::from_secs(20)).await;
    until("the end of the first", Duration::from_secs(20), async || first.pid().is_none()).await;
    let of_first: Vec<_> =
        writes(from).into_iter().filter(|entry| tokens.contains(&entry.credential)).collect();
    assert!(of_first.iter().all(|entry| entry.resource == "leases"), "{of_first:?}");
    second.check().unwrap();
    world.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_may_come_late_and_go_away() {
    let world = World::new().await;
    assert!(world.deployed.controller.stop(Duration::from_secs(15)).unwrap());
    let port = world.cluster.server().rsplit(':').next().unwrap().parse().unwrap();
    let door = Door::shut(port).await.unwrap();
    let direct = Path::new(world.deployed.controller.kubeconfig().unwrap());
    let through = world.cluster.kubeconfig_through(direct, door.port()).unwrap();

    let late = world.deployed.controller.replica(&world.cluster, "controller-late").unwrap();
    let late = late.with_kubeconfig(&through);
    late.start(&world.cluster).unwrap();
    until("a word about the API server", Duration::from_secs(20), async || {
        late.check().unwrap();
        fs::read_to_string(late.log()).is_ok_and(|text| text.to_lowercase().contains("api server"))
    })
    .await;
    door.open();
    late.ready().await.unwrap();
    world.roll_out("nginx:1", Duration::from_secs(30)).await;

    // Longer than the lease with VELA_LONG_TESTS: whoever is away that long has lost it and is started again.
    let long = std::env::var_os("VELA_LONG_TESTS").is_some();
    door.close();
    tokio::time::sleep(Duration::from_secs(if long { 30 } else { 2 })).await;
    door.open();
    if long {
        until("the end of who lost the lease", Duration::from_secs(30), async || {
            late.pid().is_none()
        })
        .await;
        late.start(&world.cluster).unwrap();
        late.ready().await.unwrap();
    }
    world.roll_out("nginx:2", Duration::from_secs(60)).await;
    late.check().unwrap();
    world.cluster.stop();
}

/// Of thousands of Applications the records and the objects are many times as much as the Applications, and nobody waits for
/// their lists with an edit.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_served_before_everything_is_listed() {
    let world = World::new().await;
    world.roll_out("nginx:1", LIMIT).await;
    world.quiet().await;
    let controller = &world.deployed.controller;
    assert!(controller.stop(Duration::from_secs(20)).unwrap());
    let gate = Gate::start(&world.cluster, || {}).await.unwrap();
    let lists = &["applicationrevisions", "resourcetrackers", "deployments"];
    gate.disturb(Some(Disturbance::ListsHeld(lists)));
    let direct = Path::new(controller.kubeconfig().unwrap());
    let through = gate.kubeconfig(&world.cluster, direct).unwrap();
    let replica = controller.replica(&world.cluster, "controller-2").unwrap();
    let replica = replica.with_kubeconfig(&through);
    replica.start(&world.cluster).unwrap();
    world.roll_out("nginx:2", LIMIT).await;
    // It has two revisions: what was recorded before is known.
    until("the new revision", LIMIT, async || {
        let app = world.applications().get("app").await.unwrap();
        app.data["status"]["latestRevision"]["revision"] == 2
    })
    .await;
    // Each of the lists was begun and not answered.
    until("the lists are held", LIMIT, async || gate.disturbed() >= lists.len()).await;
    assert!(!replica.is_ready().await, "the caches are not filled");
    // Drift is put back once they are.
    gate.disturb(None);
    replica.ready().await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), "default");
    let drift = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": [
        {"name": "front", "image": "nginx:drifted"}]}}}}));
    deployments.patch("front", &PatchParams::default(), &drift).await.unwrap();
    until("the image of the spec", LIMIT, async || {
        let found = deployments.get("front").await.unwrap();
        let pod = found.spec.unwrap().template.spec.unwrap();
        pod.containers[0].image.as_deref() == Some("nginx:2")
    })
    .await;
    assert!(replica.stop(Duration::from_secs(20)).unwrap());
    world.cluster.stop();
}
