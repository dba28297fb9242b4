//! Ten tenants who attack at once, and well-meaning Applications: the edits of those are served, nothing of theirs is
//! touched, and both programs live on within the memory that the chart gives them.
//!
//! 20 s and twelve Applications; ten minutes and fifty with `VELA_LONG_TESTS`, which also holds the times to their goal: on a
//! machine that compiles at the same time they say nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::proc;
use vela_tests::tenant::Tenant;

/// Patience for one edit on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// What the ninety-ninth of a hundred edits may take.
const GOAL: Duration = Duration::from_secs(2);
/// The memory that the chart gives to controller and webhook, in MiB.
const MEMORY: [f64; 2] = [1024.0, 256.0];

const WELL_MEANING: &str = "well-meaning";
const CORE: &str = "core.oam.dev/v1beta1";

fn objects(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("core.oam.dev", "v1beta1", kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk))
}

fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": CORE, "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// An Application that is one ConfigMap.
fn holds(name: &str, value: &str) -> Value {
    json!({"components": [{"name": name, "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}},
    ]}}]})
}

fn definition(template: &str) -> DynamicObject {
    object(
        "ComponentDefinition",
        "attack",
        &json!({"workload": {"type": "autodetects.core.oam.dev"}, "schematic": {"cue": {"template": template}}}),
    )
}

/// A tenant who attacks.
#[derive(Clone)]
struct Attacker(Tenant);

impl Attacker {
    fn all(&self, kind: &str) -> Api<DynamicObject> {
        self.0.objects(kind)
    }

    /// An Application that is there for a while.
    async fn come_and_go(&self, name: &str, annotations: &Value, spec: &Value) {
        let all = self.all("Application");
        let mut app = object("Application", name, spec);
        app.meta_mut().annotations = serde_json::from_value(annotations.clone()).unwrap();
        let _ = all.create(&PostParams::default(), &app).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let _ = all.delete(name, &DeleteParams::default()).await;
    }

    async fn dry_run(&self, template: &str) {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let _ = self.all("ComponentDefinition").create(&dry, &definition(template)).await;
    }

    async fn annotate(&self, kind: &str, name: &str, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let _ = self.all(kind).patch(name, &PatchParams::default(), &patch).await;
    }
}

/// One round of an attack; they are repeated until the end.
async fn attack(which: usize, round: usize, tenant: &Attacker, webhook: u16, silent: u16) {
    let step = |step: Value| json!({"components": [], "workflow": {"steps": [step]}});
    let pattern = format!("a{}[^ab]", "[ab]{1000}".repeat(100));
    match which {
        // Expressions that never end, in a condition and in an output.
        0 => {
            let condition = format!("4000000*\"ab\" =~ \"{pattern}\"");
            let spec = step(json!({"name": "s", "type": "suspend", "if": condition}));
            tenant.come_and_go("pattern", &json!({}), &spec).await;
        }
        1 => {
            let condition = "len([for a in parameter.l for b in parameter.l for c in parameter.l if a+b+c < 0 {a}]) > 0";
            let list: Vec<usize> = (0..200).collect();
            let steps: Vec<Value> = (0..50)
                .map(|n| json!({"name": format!("s{n}"), "type": "suspend", "if": condition, "properties": {"l": list}}))
                .collect();
            let spec = json!({"components": [], "workflow": {"steps": steps}});
            tenant.come_and_go("product", &json!({}), &spec).await;
        }
        // Definitions that occupy the webhook.
        2 => tenant.dry_run(&format!("output: {{}}\nx: 4000000*\"ab\" =~ \"{pattern}\"")).await,
        3 => {
            tenant
                .dry_run(
                    "import \"list\"\noutput: {}\nx: [for i in list.Range(0, 400000, 1) {a: i}]",
                )
                .await;
        }
        // A server that never answers.
        4 => {
            let url = format!("http://127.0.0.1:{silent}/");
            let spec = step(json!({"name": "s", "type": "request", "properties": {"url": url}}));
            tenant.come_and_go("silent", &json!({}), &spec).await;
        }
        // Somebody else's identity, and somebody else's object.
        5 => {
            let stamps = json!({"app.oam.dev/username": "system:admin", "app.oam.dev/group": "system:masters"});
            let stolen = json!({"components": [{"name": "s", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good-0", "namespace": WELL_MEANING}, "data": {"v": "stolen"}},
            ]}}]});
            tenant.come_and_go("forged", &stamps, &stolen).await;
        }
        // A second writer.
        6 => {
            let maps: Api<ConfigMap> = Api::namespaced(tenant.0.client().clone(), tenant.0.name());
            let _ = tenant
                .all("Application")
                .create(
                    &PostParams::default(),
                    &object("Application", "fought", &holds("fought", "1")),
                )
                .await;
            let patch = Patch::Merge(json!({"data": {"v": round.to_string()}}));
            let _ = maps.patch("fought", &PatchParams::default(), &patch).await;
        }
        // A definition that changes all the time.
        7 => {
            let all = tenant.all("ComponentDefinition");
            let _ = all
                .create(
                    &PostParams::default(),
                    &definition("output: {apiVersion: \"v1\", kind: \"ConfigMap\"}\nparameter: {}"),
                )
                .await;
            tenant
                .annotate("ComponentDefinition", "attack", &json!({"round": round.to_string()}))
                .await;
        }
        // Words in the status, and restarts.
        8 => {
            let all = tenant.all("Application");
            let app = object("Application", "words", &holds("words", "1"));
            let _ = all.create(&PostParams::default(), &app).await;
            let patch = Patch::Merge(json!({"status": {"status": format!("phase-{round}")}}));
            let _ = all.patch_status("words", &PatchParams::default(), &patch).await;
            let restart = json!({"app.oam.dev/restart-workflow": "true"});
            tenant.annotate("Application", "words", &restart).await;
        }
        // Connections to the webhook that say nothing.
        _ => {
            let mut open = Vec::new();
            for _ in 0..20 {
                open.extend(TcpStream::connect(("127.0.0.1", webhook)).await.ok());
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
}

/// Takes connections and never answers.
async fn silent() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).await.is_ok_and(|n| n > 0) {}
            });
        }
    });
    port
}

async fn attackers(cluster: &Cluster) -> Vec<Attacker> {
    let mut all = Vec::new();
    for n in 0..10 {
        all.push(Attacker(Tenant::new(cluster, &format!("tenant-{n}")).await.unwrap()));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hostile_tenants_hurt_nobody() {
    let long = std::env::var_os("VELA_LONG_TESTS").is_some();
    let (count, time) = if long { (50, 600) } else { (12, 20) };
    let cluster = Cluster::start_lean("hostile").await.unwrap();
    let options = Options {
        // The attack is on the workers: without this the request would be refused at once.
        controller_flags: vec!["--workflow-egress-deny=none".to_owned()],
        ..Options::default()
    };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let pids = [deployed.controller.pid().unwrap(), deployed.webhook.pid().unwrap()];
    let admin = cluster.client().await.unwrap();

    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = json!({"metadata": {"name": WELL_MEANING}});
    let namespace = serde_json::from_value(namespace).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let good = objects(&admin, WELL_MEANING, "Application");
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), WELL_MEANING);
    let held = async |name: &str| {
        let map = maps.get_opt(name).await.unwrap();
        map.and_then(|map| map.data).and_then(|mut data| data.remove("v"))
    };
    for n in 0..count {
        let name = format!("good-{n}");
        let app = object("Application", &name, &holds(&name, "0"));
        good.create(&PostParams::default(), &app).await.unwrap();
    }
    for n in 0..count {
        let name = format!("good-{n}");
        until(&name, LIMIT, async || held(&name).await.as_deref() == Some("0")).await;
    }
    let uids = async || -> BTreeMap<String, String> {
        let all = maps.list(&kube::api::ListParams::default()).await.unwrap();
        let ours = all.items.into_iter().map(|map| map.metadata);
        let ours = ours.filter(|meta| meta.name.as_deref().unwrap().starts_with("good-"));
        ours.map(|meta| (meta.name.unwrap(), meta.uid.unwrap())).collect()
    };
    let before = uids().await;

    let (over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (webhook, silent) = (deployed.webhook.port(), silent().await);
    let from = audit::position(&cluster.audit_log()).unwrap();
    let mut attacks = Vec::new();
    for (which, tenant) in attackers(&cluster).await.into_iter().enumerate() {
        let (over, rounds) = (Arc::clone(&over), Arc::clone(&rounds));
        attacks.push(tokio::spawn(async move {
            let mut round = 0;
            while !over.load(Ordering::Relaxed) {
                attack(which, round, &tenant, webhook, silent).await;
                round += 1;
                rounds.fetch_add(1, Ordering::Relaxed);
                // Fast enough to hurt, not to measure the API server.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }));
    }

    let end = Instant::now() + Duration::from_secs(time);
    let mut times = Vec::new();
    while Instant::now() < end {
        let turn = times.len();
        let (name, value) = (format!("good-{}", turn % count), format!("{}", turn + 1));
        let edit = Patch::Merge(json!({"spec": holds(&name, &value)}));
        let since = Instant::now();
        good.patch(&name, &PatchParams::default(), &edit).await.unwrap();
        until(&format!("edit {turn}"), LIMIT, async || {
            held(&name).await.as_deref() == Some(&*value)
        })
        .await;
        times.push(since.elapsed());
        deployed.controller.check().unwrap();
        deployed.webhook.check().unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for attack in attacks {
        attack.await.unwrap();
    }

    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let rounds = rounds.load(Ordering::Relaxed);
    let memory = pids.map(|pid| proc::usage(pid).unwrap().peak_rss_mib);
    println!(
        "{} edits beside {rounds} attacks: median {:?}, p99 {:?}; peak memory {memory:.0?} MiB",
        times.len(),
        at(50),
        at(99),
    );
    assert_eq!(pids.map(Some), [deployed.controller.pid(), deployed.webhook.pid()]);
    assert_eq!(uids().await, before, "an object was made anew");
    let log = audit::read(&cluster.audit_log(), from).unwrap();
    let touched: Vec<_> = log
        .iter()
        .filter(|entry| entry.namespace == WELL_MEANING && entry.is_write() && entry.code < 300)
        .filter(|entry| {
            entry.acting_as.starts_with("tenant-") || entry.acting_as.starts_with("system:masters")
        })
        .collect();
    assert!(touched.is_empty(), "{touched:#?}");
    let forged: Vec<_> = log
        .iter()
        .filter(|entry| entry.is_controllers() && entry.acting_as == "system:admin")
        .collect();
    assert!(forged.is_empty(), "{forged:#?}");
    if long {
        assert!(at(99) < GOAL, "{:?}", at(99));
        assert!(memory.iter().zip(MEMORY).all(|(used, given)| *used < given), "{memory:?}");
    }
}
