//! Our controller and KubeVela's, the same sequence over a hub and two members: deploy, scale, move, delete. What is in the members is
//! the same, and ours asks them for no more. And a hub with its members is handed over from one to the other, and back.
//!
//! `VELA_ORIGINAL_CONTROLLER` names KubeVela's program (`go build ./cmd/core` in its module); without it there is nothing to compare
//! with. It reaches the members as its chart lets it: through KubeVela's gateway (`vela_tests::controlplane`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
    WatchEvent, WatchParams,
};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::{Cluster, free_port};
use vela_tests::deploy::{
    Deployed, Manifests, Options, OriginalGateway, apply, apply_all, from_jsonl,
};
use vela_tests::fixtures::{binaries, resource, until};
use vela_tests::process::{Invocation, Process};
use vela_tests::{material, members};

const NAMESPACE: &str = "sequence";
const APP: &str = "shop";
const LIMIT: Duration = Duration::from_secs(120);
/// For so long nothing must be asked of the members until an operation is over.
const CALM: Duration = Duration::from_secs(3);
/// Edits of which the median is taken.
const EDITS: usize = 30;
/// Applications that are handed over.
const APPLICATIONS: usize = 20;

/// Labels and annotations that say when something was written, in which version, or what was: the object itself, and a hash of it and of
/// the version.
const OF_ITS_OWN: [&str; 4] = [
    "app.oam.dev/last-applied-configuration",
    "app.oam.dev/last-applied-time",
    "oam.dev/kubevela-version",
    "oam.dev/render-hash",
];

/// What runs on the hub.
enum Control {
    Ours(Box<Deployed>),
    Original { _gateway: OriginalGateway, controller: Process },
}

/// KubeVela's controller, and the definitions that both have.
pub(super) struct Original {
    program: PathBuf,
    pub(super) definitions: PathBuf,
}

impl Original {
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(super) fn find() -> Option<Self> {
        let Some(program) = std::env::var_os("VELA_ORIGINAL_CONTROLLER").map(PathBuf::from) else {
            eprintln!("SKIPPED: VELA_ORIGINAL_CONTROLLER does not name KubeVela's controller");
            return None;
        };
        let Some(material) = material::conformance() else {
            eprintln!("SKIPPED: the definitions of KubeVela are not there");
            return None;
        };
        let definitions = material.join("recordings/definitions/builtin/definitions.jsonl");
        Some(Self { program, definitions })
    }

    fn options(&self) -> Options {
        Options {
            definitions: Some(self.definitions.clone()),
            controller_flags: vec!["--allow-loopback-clusters".to_owned()],
            values: vec![
                "multicluster.enabled=true".to_owned(),
                "authentication.enabled=false".to_owned(),
            ],
            ..Options::default()
        }
    }

    /// Runs its program, with flags in addition to those that it needs here in any case.
    pub(super) fn run(
        &self,
        cluster: &Cluster,
        name: &str,
        flags: impl IntoIterator<Item = String>,
    ) -> Process {
        let (health, metrics) = (free_port().unwrap(), free_port().unwrap());
        let always = [
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--metrics-addr=127.0.0.1:{metrics}"),
            "--use-webhook=false".to_owned(),
            "--system-definition-namespace=vela-system".to_owned(),
            "--concurrent-reconciles=4".to_owned(),
            "--kube-api-qps=400".to_owned(),
            "--kube-api-burst=600".to_owned(),
        ];
        let invocation = Invocation::new(&self.program)
            .args(always)
            .args(flags)
            .env("KUBECONFIG", cluster.kubeconfig().to_string_lossy());
        let log = cluster.dir().join(format!("{name}.log"));
        cluster.watchdog().spawn(name, &invocation, &log).unwrap()
    }

    /// Starts it as its chart does.
    async fn start(&self, hub: &Cluster) -> Control {
        original(hub, &self.options(), self).await
    }

    async fn start_ours(&self, hub: &Cluster) -> Control {
        Control::Ours(Box::new(Deployed::start(hub, &binaries(), &self.options()).await.unwrap()))
    }
}

struct Side {
    hub: Cluster,
    east: Cluster,
    west: Cluster,
    control: Control,
}

type Texts = BTreeMap<String, String>;

/// What an operation left in the members, and what it asked of them.
#[derive(Debug, Default)]
struct Outcome {
    /// Labels and annotations by member and object.
    objects: BTreeMap<String, (Texts, Texts)>,
    requests: BTreeMap<(String, String), usize>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "figures are shown")]
async fn members_see_from_ours_no_more_than_from_the_original() {
    let Some(theirs) = Original::find() else { return };
    let original = Side::start("original", &theirs, true).await;
    let of_original = original.sequence().await;
    original.stop();
    let ours = Side::start("ours", &theirs, false).await;
    let of_ours = ours.sequence().await;
    ours.stop();
    for ((operation, ours), (_, original)) in of_ours.0.iter().zip(&of_original.0) {
        eprintln!("{operation}: ours {:?}", ours.requests);
        eprintln!("{operation}: original {:?}", original.requests);
    }
    eprintln!("edit to object in a member: ours {:?}, original {:?}", of_ours.1, of_original.1);
    for ((operation, ours), (_, original)) in of_ours.0.iter().zip(&of_original.0) {
        assert_eq!(ours.objects, original.objects, "{operation}");
        let sum = |outcome: &Outcome| outcome.requests.values().sum::<usize>();
        assert!(sum(ours) <= sum(original), "{operation}: {} {}", sum(ours), sum(original));
    }
}

/// Neither writes to members what is as the other left it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_with_members_is_handed_over_and_back() {
    let Some(theirs) = Original::find() else { return };
    let mut side = Side::start("handover", &theirs, true).await;
    let from = side.positions();
    side.all_arrive("1").await;
    side.rests(from).await;

    let Control::Original { controller, .. } = &side.control else { panic!("it is KubeVela's") };
    controller.stop(LIMIT).unwrap();
    let from = side.positions();
    side.control = theirs.start_ours(&side.hub).await;
    let Control::Ours(ours) = &side.control else { panic!("it is ours") };
    until("the Applications to be adopted", LIMIT, async || {
        let of_applications = "controller=\"application\"";
        let count =
            ours.controller.metric_of("controller_runtime_reconcile_total", of_applications).await;
        count.unwrap() >= f64::from(u32::try_from(APPLICATIONS).unwrap())
    })
    .await;
    side.rests(from).await;
    assert_eq!(side.writes(from), []);
    // It is in charge.
    side.all_arrive("2").await;
    side.rests(from).await;

    ours.stop(LIMIT).unwrap();
    ours.admission.close(&side.hub).await.unwrap();
    let from = side.positions();
    side.control = theirs.start(&side.hub).await;
    // Its first reconcile of each asks the members for what they have.
    until("the Applications to be seen", LIMIT, async || !side.requests(from).is_empty()).await;
    side.rests(from).await;
    assert_eq!(side.writes(from), []);
    side.all_arrive("3").await;
    side.stop();
}

impl Side {
    async fn start(name: &str, theirs: &Original, is_original: bool) -> Self {
        let start =
            async |part: &str| Cluster::start_lean(&format!("{name}-{part}")).await.unwrap();
        let (hub, east, west) = (start("hub").await, start("east").await, start("west").await);
        let control = match is_original {
            false => theirs.start_ours(&hub).await,
            true => theirs.start(&hub).await,
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        for cluster in [&hub, &east, &west] {
            apply(&cluster.client().await.unwrap(), &namespace).await.unwrap();
        }
        for (name, member) in [("east", &east), ("west", &west)] {
            members::join(&hub, member, name, members::port(member).unwrap()).await.unwrap();
        }
        Self { hub, east, west, control }
    }

    fn stop(&self) {
        if let Control::Original { controller, .. } = &self.control {
            controller.check().unwrap();
        }
        for cluster in [&self.hub, &self.east, &self.west] {
            cluster.stop();
        }
    }

    /// Where the members' audit logs are now.
    fn positions(&self) -> [u64; 2] {
        [&self.east, &self.west].map(|it| audit::position(&it.audit_log()).unwrap())
    }

    /// What was asked of the members that changes something, from there on.
    fn writes(&self, from: [u64; 2]) -> Vec<(String, String)> {
        let is_write = |verb: &str| !["get", "list"].contains(&verb);
        self.requests(from).into_keys().filter(|(verb, _)| is_write(verb)).collect()
    }

    /// Waits until an edit of every Application is in the members.
    async fn all_arrive(&self, value: &str) {
        for index in 0..APPLICATIONS {
            let name = format!("handed-{index}");
            self.write(&application(&name, 1, &["east", "west"], value)).await;
        }
        for member in [&self.east, &self.west] {
            let all: Api<ConfigMap> = Api::namespaced(member.client().await.unwrap(), NAMESPACE);
            until("the edits in the member", LIMIT, async || {
                let items = all.list(&ListParams::default()).await.unwrap().items;
                let has = |map: &&ConfigMap| map.data.as_ref().is_some_and(|it| it["v"] == value);
                items.iter().filter(has).count() == APPLICATIONS
            })
            .await;
        }
        until("the Applications to run", LIMIT, async || {
            let all = self.applications().await.list(&ListParams::default()).await.unwrap();
            all.items.iter().all(|app| {
                let status = &app.data["status"];
                status["status"] == "running"
                    && status["observedGeneration"] == json!(app.metadata.generation)
            })
        })
        .await;
    }

    async fn applications(&self) -> Api<DynamicObject> {
        let kind = resource("core.oam.dev/v1beta1", "Application");
        Api::namespaced_with(self.hub.client().await.unwrap(), NAMESPACE, &kind)
    }

    /// The outcome of each operation, and the median of edits.
    async fn sequence(&self) -> (Vec<(&'static str, Outcome)>, Duration) {
        let mut outcomes = Vec::new();
        for (operation, replicas, clusters) in [
            ("deploy", 1, &["east", "west"][..]),
            ("scale", 3, &["east", "west"]),
            ("move", 3, &["west"]),
            ("delete", 0, &[]),
        ] {
            let from = self.positions();
            if clusters.is_empty() {
                let all = self.applications().await;
                all.delete(APP, &DeleteParams::default()).await.unwrap();
            } else {
                self.write(&application(APP, replicas, clusters, "0")).await;
            }
            until(operation, LIMIT, async || self.is_settled(replicas, clusters).await).await;
            self.rests(from).await;
            outcomes.push((operation, self.outcome(from).await));
        }
        let mut times = Vec::new();
        self.write(&application("edited", 1, &["east"], "0")).await;
        until("the first object", LIMIT, async || self.map("edited").await.is_some()).await;
        for edit in 1..=EDITS {
            times.push(self.edit(&format!("{edit}")).await);
        }
        times.sort_unstable();
        (outcomes, times[EDITS / 2])
    }

    async fn write(&self, app: &Value) {
        let all = self.applications().await;
        let object: DynamicObject = serde_json::from_value(app.clone()).unwrap();
        let name = object.metadata.name.clone().unwrap();
        if all.get_opt(&name).await.unwrap().is_none() {
            all.create(&PostParams::default(), &object).await.unwrap();
        } else {
            let edit = json!({"spec": app["spec"]});
            all.patch(&name, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
        }
    }

    async fn is_settled(&self, replicas: i32, clusters: &[&str]) -> bool {
        let app = self.applications().await.get_opt(APP).await.unwrap();
        let is_done = match &app {
            None => clusters.is_empty(),
            Some(app) => {
                let status = &app.data["status"];
                status["status"] == "running"
                    && status["observedGeneration"] == json!(app.metadata.generation)
            }
        };
        let mut is_there = true;
        for (name, member) in [("east", &self.east), ("west", &self.west)] {
            let all: Api<Deployment> = Api::namespaced(member.client().await.unwrap(), NAMESPACE);
            let found = all.get_opt(APP).await.unwrap().and_then(|it| it.spec?.replicas);
            is_there &= found == clusters.contains(&name).then_some(replicas);
        }
        is_done && is_there
    }

    /// Waits until nothing has been asked of the members for a while.
    async fn rests(&self, from: [u64; 2]) {
        let mut asked = (0, Instant::now());
        until("the members to be left alone", LIMIT, async || {
            let count = self.requests(from).values().sum::<usize>();
            if count != asked.0 {
                asked = (count, Instant::now());
            }
            asked.1.elapsed() > CALM
        })
        .await;
    }

    /// What the control plane asked of the members about objects, watches aside.
    fn requests(&self, from: [u64; 2]) -> BTreeMap<(String, String), usize> {
        let mut all = Vec::new();
        for (member, from) in [&self.east, &self.west].into_iter().zip(from) {
            all.extend(audit::read(&member.audit_log(), from).unwrap());
        }
        let by_hub = all.iter().filter(|entry| {
            entry.user == "system:serviceaccount:kube-system:vela-hub"
                && entry.verb != "watch"
                && !entry.resource.is_empty()
        });
        audit::count(by_hub)
    }

    async fn outcome(&self, from: [u64; 2]) -> Outcome {
        let mut outcome = Outcome { requests: self.requests(from), ..Outcome::default() };
        for (name, member) in [("east", &self.east), ("west", &self.west)] {
            let client = member.client().await.unwrap();
            let ours = ListParams::default().labels("app.oam.dev/name");
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
            let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
            let maps =
                maps.list(&ours).await.unwrap().items.into_iter().map(|it| ("map", it.metadata));
            let deployments = deployments.list(&ours).await.unwrap().items.into_iter();
            let all: Vec<(&str, ObjectMeta)> =
                maps.chain(deployments.map(|it| ("deployment", it.metadata))).collect();
            for (kind, meta) in all {
                let key = format!("{name} {kind} {}", meta.name.unwrap_or_default());
                let mut labels = meta.labels.unwrap_or_default();
                // Without a revision of the component there is none to name.
                labels.retain(|key, value| key != "app.oam.dev/revision" || !value.is_empty());
                let mut annotations = meta.annotations.unwrap_or_default();
                for (key, value) in labels.iter_mut().chain(&mut annotations) {
                    if OF_ITS_OWN.contains(&key.as_str()) {
                        "*".clone_into(value);
                    }
                }
                outcome.objects.insert(key, (labels, annotations));
            }
        }
        outcome
    }

    async fn map(&self, name: &str) -> Option<ConfigMap> {
        let all: Api<ConfigMap> = Api::namespaced(self.east.client().await.unwrap(), NAMESPACE);
        all.get_opt(name).await.unwrap()
    }

    /// The time from an edit until its object is in the member.
    async fn edit(&self, value: &str) -> Duration {
        let all: Api<ConfigMap> = Api::namespaced(self.east.client().await.unwrap(), NAMESPACE);
        let one = "metadata.name=edited";
        let version = all.list_metadata(&ListParams::default().fields(one)).await.unwrap();
        let version = version.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(one).timeout(120);
        let mut changes = pin!(all.watch(&params, &version).await.unwrap());
        let edit = json!({"spec": application("edited", 1, &["east"], value)["spec"]});
        let applications = self.applications().await;
        let since = Instant::now();
        let how = PatchParams::default();
        applications.patch("edited", &how, &Patch::Merge(&edit)).await.unwrap();
        while let Some(event) = changes.try_next().await.unwrap() {
            let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else { continue };
            if map.data.is_some_and(|data| data.get("v").is_some_and(|it| it == value)) {
                return since.elapsed();
            }
        }
        panic!("the edit did not arrive");
    }
}

/// A Deployment and a ConfigMap, in some clusters.
fn application(name: &str, replicas: i32, clusters: &[&str], value: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
        "components": [
            {"name": format!("{name}-web"), "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                    "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}}]}},
            {"name": format!("{name}-data"), "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}}],
        "policies": [{"name": "places", "type": "topology", "properties": {"clusters": clusters}}]}})
}

/// KubeVela's controller, as its chart starts it.
async fn original(hub: &Cluster, options: &Options, theirs: &Original) -> Control {
    let client = hub.client().await.unwrap();
    let manifests = Manifests::render(&binaries(), &options.values).unwrap();
    apply_all(&client, manifests.foundation()).await.unwrap();
    apply_all(&client, from_jsonl(&theirs.definitions).unwrap()).await.unwrap();
    let gateway = OriginalGateway::start(
        hub,
        &binaries(),
        &Options { values: options.values.clone(), ..Options::default() },
    )
    .await
    .unwrap();
    let flags = [
        "--enable-cluster-gateway".to_owned(),
        format!("--cluster-gateway-url=https://localhost:{}", gateway.port()),
        format!("--cluster-gateway-ca-file={}", hub.dir().join("ca.crt").display()),
        "--enable-leader-election=false".to_owned(),
    ];
    let controller = theirs.run(hub, "original-controller", flags);
    Control::Original { _gateway: gateway, controller }
}
