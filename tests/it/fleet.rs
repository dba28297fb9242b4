//! Several replicas with `--sharding=auto`: they share the Applications; a replica that dies, stops or is replaced is followed by the
//! others in seconds, and no two of them write for one Application at a time. The audit log shows who wrote what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options, Program};
use vela_tests::fixtures::{binaries, until};
use vela_tests::fleet;
use vela_tests::release::{admits, applications};

use super::metrics::{documented, printed};

pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Applications of each test.
pub(super) const APPS: usize = 12;

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) deployed: Deployed,
    pub(super) client: Client,
    pub(super) others: Vec<Program>,
}

impl World {
    /// One replica that would share, with flags in addition to those of the chart.
    pub(super) async fn of(name: &str, flags: &[&str]) -> Self {
        Self::on(Cluster::start_lean(name).await.unwrap(), flags).await
    }

    /// The same, on a control plane.
    pub(super) async fn on(cluster: Cluster, flags: &[&str]) -> Self {
        let values = vec!["sharding.mode=auto".to_owned()];
        let controller_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let options = Options { values, controller_flags, ..Options::default() };
        let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
        let client = cluster.client().await.unwrap();
        until("admission", LIMIT, async || admits(&client).await.is_ok()).await;
        let world = Self { cluster, deployed, client, others: Vec::new() };
        world.balanced(1).await;
        world
    }

    /// Three replicas that share.
    pub(super) async fn new(name: &'static str) -> Self {
        let mut world = Self::of(name, &[]).await;
        for name in ["controller-2", "controller-3"] {
            world.add(name).await;
        }
        world.balanced(3).await;
        world
    }

    pub(super) async fn add(&mut self, name: &'static str) {
        self.add_with(name, None).await;
    }

    /// Another replica, with flags in addition to those of the first one.
    pub(super) async fn add_with(
        &mut self,
        name: &'static str,
        flags: impl IntoIterator<Item = String>,
    ) {
        let replica = self.deployed.controller.replica(&self.cluster, name).unwrap();
        let replica = replica.with_flags(flags);
        replica.start(&self.cluster).unwrap();
        replica.ready().await.unwrap();
        self.others.push(replica);
    }

    pub(super) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(super) async fn buckets(&self) -> BTreeMap<String, usize> {
        fleet::buckets(&self.client).await.unwrap()
    }

    /// Waits until so many members share everything evenly.
    pub(super) async fn balanced(&self, members: usize) {
        until(&format!("{members} members share"), LIMIT, async || {
            fleet::is_balanced(&self.client, members).await.unwrap()
        })
        .await;
    }

    /// Waits until the caches of so many members have what each of them keeps.
    pub(super) async fn filled(&self, members: usize) {
        until(&format!("the caches of {members} members are filled"), LIMIT, async || {
            fleet::is_kept_twice(&self.client, members).await.unwrap()
        })
        .await;
    }

    /// Creates an Application, or edits it: its ConfigMap shall hold a value.
    pub(super) async fn apply(&self, name: &str, value: &str) {
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

    pub(super) async fn value(&self, name: &str) -> Option<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        maps.get_opt(name).await.unwrap()?.data?.remove("v")
    }

    /// Creates all Applications, or edits them, and does not wait.
    pub(super) async fn apply_all(&self, value: &str) {
        for name in names() {
            self.apply(&name, value).await;
        }
    }

    /// Edits all Applications, and waits until all are served. Returns how long the slowest took.
    pub(super) async fn edit_all(&self, value: &str, limit: Duration) -> Duration {
        let since = Instant::now();
        self.apply_all(value).await;
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
    pub(super) async fn is_exclusive(&self, from: u64, most: usize) {
        let log = self.cluster.audit_log();
        vela_tests::fixtures::quiet(&log, Duration::from_secs(2), of_an_application).await;
        let entries = audit::read(&log, from).unwrap().into_iter().filter(of_an_application);
        let writers = fleet::writers(entries, fleet::application_of);
        assert!(!writers.is_empty(), "nothing was written");
        for (app, pods) in writers {
            assert!(!fleet::interleave(&pods), "{app}: {pods:?} interleave");
            assert!(pods.len() <= most, "{app}: {pods:?}");
        }
    }

    /// The replicas that are not stopped.
    pub(super) fn all(&self) -> Vec<&Program> {
        self.others.iter().chain([&self.deployed.controller]).collect()
    }

    pub(super) fn position(&self) -> u64 {
        audit::position(&self.cluster.audit_log()).unwrap()
    }
}

/// The value of a series among printed metrics; of one that is not there 0.
fn sample(text: &str, series: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// The sum of a series over replicas.
pub(super) async fn total(replicas: &[&Program], series: &str) -> f64 {
    let mut sum = 0.0;
    for replica in replicas {
        sum += sample(&replica.metrics().await.unwrap(), series);
    }
    sum
}

/// Applications of the default pool that are a replica's.
const OF_DEFAULT_POOL: &str = r#"vela_shard_applications{pool="master"}"#;

/// Waits until replicas count so many Applications of a pool, and none of these is overdue.
async fn counted(replicas: &[&Program], pool: &str, count: usize) {
    until(&format!("{count} Applications are counted in {pool}"), LIMIT, async || {
        let series = format!(r#"vela_shard_applications{{pool="{pool}"}}"#);
        total(replicas, &series).await == count as f64
            && total(replicas, "vela_shard_gap_seconds").await < 10.0
    })
    .await;
}

/// What a replica that shares prints is listed, with its type and its labels, and nothing is missing.
fn is_documented(text: &str) {
    let is_of_fleets =
        |name: &String| name.starts_with("vela_shard_") || name.starts_with("vela_session_");
    let (mut printed, mut known) = (printed(text), documented("The controller"));
    printed.retain(|name, _| is_of_fleets(name));
    known.retain(|name, _| is_of_fleets(name));
    assert_eq!(printed, known);
}

pub(super) fn names() -> impl Iterator<Item = String> {
    (0..APPS).map(|number| format!("app-{number}"))
}

/// Whether a replica wrote it for an Application of these tests.
pub(super) fn of_an_application(entry: &Entry) -> bool {
    entry.is_controllers_write()
        && entry.code < 300
        && fleet::application_of(entry).starts_with("app-")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_is_followed_and_nobody_interferes() {
    let world = World::new("fleet-crash").await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    counted(&world.all(), "master", APPS).await;
    // Each keeps two thirds.
    world.filled(3).await;
    let cached = fleet::cached(&world.client).await.unwrap();
    assert!(cached.values().all(|buckets| (160..=180).contains(buckets)), "{cached:?}");
    let had = total(&[&world.deployed.controller], OF_DEFAULT_POOL).await;
    let from = world.position();
    // The one that leads, and has a third of everything.
    world.deployed.controller.kill().unwrap();
    let served = world.edit_all("3", LIMIT).await;
    eprintln!("all edits after the crash were served within {:.1} s", served.as_secs_f64());
    world.is_exclusive(from, 2).await;
    // The others timed that, each its part, by its own clock.
    let others: Vec<&Program> = world.others.iter().collect();
    let taken = total(&others, r#"vela_shard_take_seconds_count{reason="crash"}"#).await;
    let time = total(&others, r#"vela_shard_take_seconds_sum{reason="crash"}"#).await;
    eprintln!("{taken} buckets of the dead one were taken, in {time:.1} s together");
    assert_eq!(taken >= 1.0, had >= 1.0, "{taken} buckets of {had} Applications");
    // Its Lease is believed for 8 s after it was seen last.
    assert!(time >= 5.0 * taken, "{taken} buckets in {time} s");
    counted(&others, "master", APPS).await;
    for replica in others {
        is_documented(&replica.metrics().await.unwrap());
    }
    world.balanced(2).await;
    world.filled(2).await;
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

/// What the dead hold is taken, and so is the Lease that other controllers elect on, which nobody gave back.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_whose_replicas_all_die_comes_back() {
    let mut world = World::of("fleet-outage", &[]).await;
    world.add("controller-2").await;
    world.balanced(2).await;
    world.edit_all("1", LIMIT).await;
    let replicas = world.others.iter().chain([&world.deployed.controller]);
    replicas.clone().for_each(|replica| replica.kill().unwrap());
    for replica in replicas {
        replica.start(&world.cluster).unwrap();
    }
    let served = world.edit_all("2", LIMIT).await;
    eprintln!("all edits after the outage were served within {:.1} s", served.as_secs_f64());
    world.balanced(2).await;
    world.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_two_of_three_die_the_last_one_lists_what_it_did_not_keep() {
    let world = World::new("fleet-two-die").await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    world.filled(3).await;
    let from = world.position();
    world.deployed.controller.kill().unwrap();
    world.others[0].kill().unwrap();
    let served = world.edit_all("3", LIMIT).await;
    eprintln!("all edits after both crashes were served within {:.1} s", served.as_secs_f64());
    world.is_exclusive(from, 2).await;
    world.balanced(1).await;
    world.filled(1).await;
    // Nothing counted as absent because it was not in memory.
    let entries = audit::read(&world.cluster.audit_log(), from).unwrap();
    let objects: BTreeSet<String> = names().collect();
    let is_object = |entry: &&Entry| {
        entry.resource == "configmaps"
            && entry.is_controllers_write()
            && objects.contains(&entry.name)
    };
    let verbs: BTreeSet<String> =
        entries.iter().filter(is_object).map(|entry| entry.verb.clone()).collect();
    assert!(!verbs.contains("delete") && !verbs.contains("deletecollection"), "{verbs:?}");
    for name in names() {
        assert_eq!(world.value(&name).await.as_deref(), Some("3"), "{name}");
    }
    world.others[1].check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_out_is_a_chain_of_short_hand_overs() {
    let mut world = World::new("fleet-roll").await;
    world.apply_all("1").await;
    world.edit_all("2", LIMIT).await;
    // A planned stop, under edits: the longest time until one is served.
    let from = world.position();
    counted(&world.all(), "master", APPS).await;
    let stopped = world.others.remove(0);
    let had = total(&[&stopped], OF_DEFAULT_POOL).await;
    let stop = tokio::task::spawn_blocking(move || stopped.stop(Duration::from_secs(25)).unwrap());
    let mut slowest = Duration::ZERO;
    for round in 0..6 {
        slowest = slowest.max(world.edit_all(&format!("stop-{round}"), LIMIT).await);
    }
    assert!(stop.await.unwrap(), "it ends by itself");
    let taken = async |reason| {
        total(&world.all(), &format!("vela_shard_take_seconds_count{{reason={reason:?}}}")).await
    };
    assert_eq!(taken("planned").await >= 1.0, had >= 1.0, "of {had} Applications");
    assert_eq!(taken("crash").await, 0.0);
    eprintln!("during a planned stop {APPS} edits took {:.2} s at most", slowest.as_secs_f64());
    world.is_exclusive(from, 2).await;
    world.balanced(2).await;
    // A replica comes before another one goes.
    let drained = total(&[&world.deployed.controller], "vela_shard_drain_seconds_count").await;
    let rounds = if std::env::var_os("VELA_LONG_TESTS").is_some() { 3 } else { 1 };
    for name in ["controller-4", "controller-5", "controller-6"].into_iter().take(rounds) {
        world.add(name).await;
        if name == "controller-4" {
            // Without the wait it may get the share of the one that goes, and this one gives nothing.
            world.balanced(3).await;
            let gave = total(&[&world.deployed.controller], "vela_shard_drain_seconds_count").await;
            assert!(gave > drained, "it gave a share to who came");
        }
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

pub(super) const LABEL: &str = "controller.core.oam.dev/scheduled-shard-id";
const ANNOTATION: &str = "controller.core.oam.dev/shard";

impl World {
    /// Another replica, of a pool.
    pub(super) async fn add_to_pool(&mut self, name: &'static str, pool: &str) {
        self.add_with(name, Some(format!("--shard-id={pool}"))).await;
    }

    async fn label(&self, name: &str, shard: Option<&str>) {
        let edit = Patch::Merge(json!({"metadata": {"labels": {LABEL: shard}}}));
        applications(self.client.clone())
            .patch(name, &PatchParams::default(), &edit)
            .await
            .unwrap();
    }

    /// Waits until the annotations of Applications name a pool.
    pub(super) async fn moved(&self, names: &[String], pool: Option<&str>) {
        until(&format!("{names:?} are in pool {pool:?}"), LIMIT, async || {
            for name in names {
                let app = applications(self.client.clone()).get(name).await.unwrap();
                let annotations = app.metadata.annotations.unwrap_or_default();
                if annotations.get(ANNOTATION).map(String::as_str) != pool {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// The replicas that wrote for an Application from a position of the audit log on.
    fn writers(&self, from: u64, name: &str) -> BTreeSet<String> {
        let log = audit::read(&self.cluster.audit_log(), from).unwrap();
        let of_app = log
            .into_iter()
            .filter(|entry| of_an_application(entry) && fleet::application_of(entry) == name);
        of_app.map(|entry| entry.agent.split('/').nth(2).unwrap_or_default().to_owned()).collect()
    }

    /// Waits until a replica holds so many buckets.
    async fn holds(&self, pod: &str, count: usize) {
        until(&format!("{pod} holds {count} buckets"), LIMIT, async || {
            self.buckets().await.get(pod) == Some(&count)
        })
        .await;
    }
}

/// One replica of the default pool, and a pool of one replica. The label moves Applications, while they are edited.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_takes_the_applications_that_are_labelled_so() {
    let mut world = World::of("fleet-pool", &[]).await;
    world.apply_all("1").await;
    // A label that names no pool has no effect.
    world.label("app-0", Some("gold")).await;
    world.edit_all("2", LIMIT).await;
    world.moved(&["app-0".to_owned()], None).await;
    let from = world.position();
    world.add_to_pool("controller-gold", "gold").await;
    world.moved(&["app-0".to_owned()], Some("gold")).await;
    world.holds("controller-gold", 256).await;
    let (gold, others): (Vec<String>, Vec<String>) =
        names().partition(|name| name.ends_with(['0', '5']));
    for name in &gold {
        world.label(name, Some("gold")).await;
    }
    // In the middle of the moves.
    world.edit_all("3", LIMIT).await;
    world.moved(&gold, Some("gold")).await;
    world.is_exclusive(from, 2).await;
    let from = world.position();
    world.edit_all("4", LIMIT).await;
    for (names, writer) in [(&gold, "controller-gold"), (&others, "controller-0")] {
        for name in names {
            assert_eq!(world.writers(from, name), BTreeSet::from([writer.to_owned()]), "{name}");
        }
    }
    let golds = [&world.others[0]];
    counted(&golds, "gold", gold.len()).await;
    counted(&golds, "master", 0).await;
    world.annotation_is_the_fleets("app-0", Some("gold")).await;
    world.annotation_is_the_fleets("app-1", None).await;
    let claims = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "claims", "annotations": {ANNOTATION: "gold"}},
        "spec": {"components": []}});
    let claims: DynamicObject = serde_json::from_value(claims).unwrap();
    let api = applications(world.client.clone());
    let made = api.create(&PostParams::default(), &claims).await.unwrap();
    assert_eq!(made.metadata.annotations.unwrap_or_default().get(ANNOTATION), None);
    api.delete("claims", &DeleteParams::default()).await.unwrap();
    // Back, each in one step.
    for name in &gold {
        world.label(name, None).await;
    }
    world.edit_all("5", LIMIT).await;
    world.moved(&gold, None).await;
    world.is_exclusive(from, 2).await;
    // Before Go's controllers come back everything gets a label.
    world.label("app-1", Some("gold")).await;
    let mut command = std::process::Command::new(binaries().controller);
    command.args(["shard-labels", "--pool", "master", "--kubeconfig"]);
    command.arg(world.cluster.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with(&format!("{} Applications, ", APPS - 1)), "{said}");
    for (name, shard) in [("app-0", "master"), ("app-1", "gold")] {
        for kind in ["Application", "ApplicationRevision", "ResourceTracker"] {
            let shards = fleet::labels_of(&world.client, &[kind], name, LABEL).await.unwrap();
            assert_eq!(shards, BTreeSet::from([shard.to_owned()]), "{kind}s of {name}");
        }
    }
    world.cluster.stop();
}

impl World {
    /// Whoever edits an Application leaves the annotation as it is, in whichever way he writes it.
    async fn annotation_is_the_fleets(&self, name: &str, pool: Option<&str>) {
        let api = applications(self.client.clone());
        let merge = |value: Option<&str>| {
            Patch::Merge(
                json!({"metadata": {"annotations": {ANNOTATION: value, "edited": "merge"}}}),
            )
        };
        let is_kept = |app: DynamicObject, edited: &str| {
            let annotations = app.metadata.annotations.unwrap_or_default();
            assert_eq!(annotations.get(ANNOTATION).map(String::as_str), pool, "{name} by {edited}");
            assert_eq!(annotations["edited"], edited, "{name}: the rest of the edit counts");
        };
        let plain = PatchParams::default();
        is_kept(api.patch(name, &plain, &merge(None)).await.unwrap(), "merge");
        is_kept(api.patch(name, &plain, &merge(Some("silver"))).await.unwrap(), "merge");
        let pointer = format!("/metadata/annotations/{}", ANNOTATION.replace('/', "~1"));
        let patch = json!([{"op": "add", "path": pointer, "value": "silver"},
            {"op": "replace", "path": "/metadata/annotations/edited", "value": "json"}]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        is_kept(api.patch(name, &plain, &patch).await.unwrap(), "json");
        for value in [Some("silver"), None] {
            // The fleet writes meanwhile: then the edit is made again.
            let put = retry(async || {
                let mut app = api.get(name).await.unwrap();
                let annotations = app.metadata.annotations.get_or_insert_default();
                annotations.remove(ANNOTATION);
                annotations.extend(value.map(|value| (ANNOTATION.to_owned(), value.to_owned())));
                annotations.insert("edited".to_owned(), "update".to_owned());
                api.replace(name, &PostParams::default(), &app).await
            });
            is_kept(put.await, "update");
        }
        // Two managers: one takes the field, and gives it up again.
        for (manager, value) in [("one", Some("silver")), ("two", Some("bronze")), ("one", None)] {
            let mut app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": name, "annotations": {"edited": manager}}});
            if let Some(value) = value {
                app["metadata"]["annotations"][ANNOTATION] = value.into();
            }
            let applied = PatchParams::apply(manager).force();
            is_kept(api.patch(name, &applied, &Patch::Apply(app)).await.unwrap(), manager);
        }
    }

    /// The reason why an Application is not synced; empty: it is, or nobody said so yet.
    async fn not_synced(&self, name: &str) -> String {
        let app = applications(self.client.clone()).get(name).await.unwrap();
        let conditions = app.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let synced =
            conditions.into_iter().find(|it| it["type"] == "Synced" && it["status"] == "False");
        synced.map_or(String::new(), |it| it["reason"].as_str().unwrap_or_default().to_owned())
    }

    /// The Applications about which a warning was emitted for a reason.
    pub(super) async fn warned(&self, reason: &str) -> BTreeSet<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        let of = |event: Event| event.regarding.and_then(|regarding| regarding.name);
        let wanted = |event: &Event| event.reason.as_deref() == Some(reason);
        events.into_iter().filter(wanted).filter_map(of).collect()
    }
}

/// Makes an edit until it meets no other one.
async fn retry(edit: impl AsyncFn() -> kube::Result<DynamicObject>) -> DynamicObject {
    for _ in 0..20 {
        match edit().await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            done => return done.unwrap(),
        }
    }
    panic!("somebody writes all the time")
}

/// With `never` the Applications of a pool that died wait for it, and so do those whose label names no pool. They say so.
#[tokio::test(flavor = "multi_thread")]
async fn the_applications_of_a_dead_pool_wait_for_it_where_they_shall() {
    let mut world = World::of("fleet-never", &["--shard-fallback=never"]).await;
    world.add_to_pool("controller-gold", "gold").await;
    let (gold, others): (Vec<String>, Vec<String>) =
        names().partition(|name| name.ends_with(['0', '5', '7']));
    world.apply_all("1").await;
    for name in &gold {
        world.label(name, Some("gold")).await;
    }
    world.moved(&gold, Some("gold")).await;
    world.edit_all("2", LIMIT).await;
    let from = world.position();
    let replica = world.others.remove(0);
    replica.kill().unwrap();
    // One is edited meanwhile, the others are not.
    world.apply(&gold[0], "3").await;
    for name in &others {
        world.apply(name, "3").await;
    }
    // One more asks for a pool that never was.
    world.label(&others[0], Some("silver")).await;
    let waiting: BTreeSet<String> = gold.iter().chain([&others[0]]).cloned().collect();
    for name in &waiting {
        until(&format!("{name} says that it waits"), LIMIT, async || {
            world.not_synced(name).await == "NoShard"
        })
        .await;
    }
    until("events say so", LIMIT, async || world.warned("NoShard").await == waiting).await;
    // Those of the default pool are served as ever.
    for name in &others[1..] {
        until(&format!("{name} is served"), LIMIT, async || {
            world.value(name).await.as_deref() == Some("3")
        })
        .await;
        assert_eq!(world.not_synced(name).await, "", "{name}");
    }
    for name in &gold {
        assert_eq!(world.value(name).await.as_deref(), Some("2"), "{name} waits");
    }
    // Its objects are not written, nor a revision: the status alone.
    let log = audit::read(&world.cluster.audit_log(), from).unwrap();
    let written = log.into_iter().filter(|entry| {
        of_an_application(entry)
            && gold.contains(&fleet::application_of(entry))
            && entry.agent.split('/').nth(2) == Some("controller-0")
    });
    let resources: BTreeSet<String> = written.map(|entry| entry.resource).collect();
    assert_eq!(resources, BTreeSet::from(["applications/status".to_owned()]));
    // The pool returns, and one of them asks for it no more.
    replica.start(&world.cluster).unwrap();
    replica.ready().await.unwrap();
    world.label(&others[0], None).await;
    for name in &waiting {
        let wanted = if others.contains(name) || *name == gold[0] { "3" } else { "2" };
        until(&format!("{name} is served again"), LIMIT, async || {
            world.value(name).await.as_deref() == Some(wanted)
                && world.not_synced(name).await.is_empty()
        })
        .await;
    }
    world.edit_all("4", LIMIT).await;
    world.moved(&gold, Some("gold")).await;
    world.cluster.stop();
}

/// The only replica of a pool dies: the default pool works for it after a while, and it gets its Applications back.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_dies_falls_back_and_returns() {
    let mut world = World::of("fleet-fallback", &["--shard-fallback=2s"]).await;
    world.add_to_pool("controller-gold", "gold").await;
    for name in names() {
        world.apply(&name, "1").await;
        world.label(&name, Some("gold")).await;
    }
    let all: Vec<String> = names().collect();
    world.moved(&all, Some("gold")).await;
    world.edit_all("2", LIMIT).await;
    let from = world.position();
    let gold = world.others.remove(0);
    gold.kill().unwrap();
    let served = world.edit_all("3", LIMIT).await;
    eprintln!(
        "all edits after the death of the pool were served within {:.1} s",
        served.as_secs_f64()
    );
    world.is_exclusive(from, 2).await;
    assert_eq!(world.buckets().await.len(), 1);
    world.moved(&all, Some("gold")).await;
    // It returns, and nothing has to be written for that.
    let from = world.position();
    gold.start(&world.cluster).unwrap();
    gold.ready().await.unwrap();
    world.holds("controller-gold", 256).await;
    world.edit_all("4", LIMIT).await;
    world.is_exclusive(from, 2).await;
    // A planned stop waits for nobody.
    let from = world.position();
    assert!(gold.stop(Duration::from_secs(25)).unwrap(), "it ends by itself");
    let served = world.edit_all("5", LIMIT).await;
    eprintln!("after a planned stop of the pool: {:.2} s", served.as_secs_f64());
    for name in names() {
        assert_eq!(
            world.writers(from, &name),
            BTreeSet::from(["controller-0".to_owned()]),
            "{name}"
        );
    }
    world.cluster.stop();
}

/// A shard of Go's that runs keeps its Applications: the fleet waits until its Lease is not renewed for its duration.
#[tokio::test(flavor = "multi_thread")]
async fn the_shard_of_another_controller_is_left_alone() {
    let world = World::of("fleet-foreign", &[]).await;
    let leases = world.leases();
    let spec = |renewed: &str| {
        json!({"holderIdentity": "go-slave_1", "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": renewed, "leaseTransitions": 0})
    };
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kubevela-shard-0"}, "spec": spec("2026-01-01T00:00:00.000000Z")});
    let lease: Lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let spec_of = |name: &str| {
        json!({"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": "1"}}]}}]})
    };
    let api = applications(world.client.clone());
    for (name, shard) in [("app-theirs", "shard-0"), ("app-ours", "shard-1")] {
        let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name, "labels": {LABEL: shard}}, "spec": spec_of(name)});
        let app: DynamicObject = serde_json::from_value(app).unwrap();
        api.create(&PostParams::default(), &app).await.unwrap();
    }
    // It renews twice; each time its duration starts again.
    let since = Instant::now();
    for renewed in ["2026-01-01T00:00:02.000000Z", "2026-01-01T00:00:04.000000Z"] {
        until("the other one's Application runs", LIMIT, async || {
            world.value("app-ours").await.is_some()
        })
        .await;
        let patch = Patch::Merge(json!({"spec": spec(renewed)}));
        leases.patch("kubevela-shard-0", &PatchParams::default(), &patch).await.unwrap();
    }
    let renewed = Instant::now();
    until("the Application of the shard runs", LIMIT, async || {
        world.value("app-theirs").await.is_some()
    })
    .await;
    assert!(renewed.elapsed() >= Duration::from_secs(13), "{:?}", renewed.elapsed());
    eprintln!(
        "taken over {:.1} s after the last renewal, {:.1} s in all",
        renewed.elapsed().as_secs_f64(),
        since.elapsed().as_secs_f64()
    );
    let held = leases.get("kubevela-shard-0").await.unwrap();
    assert!(held.spec.unwrap().holder_identity.unwrap().starts_with("controller-0_"));
    let app = api.get("app-theirs").await.unwrap();
    assert_eq!(app.metadata.annotations.unwrap_or_default().get(ANNOTATION), None);
    world.cluster.stop();
}
