//! Argo CD deploys an Application from a Git repository, and recognises what it deployed by a label.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::free_port;
use vela_tests::deploy::{Deployed, apply, apply_all};
use vela_tests::fixtures::{binaries, until};
use vela_tests::http::request;
use vela_tests::process::Process;

use super::{APP, LIMIT, WEB, World, as_new, documented, shop};

const ARGO: &str = "argocd";
const ACCOUNT: &str = "argocd-application-controller";
const VERSION: &str = "argoproj.io/v1alpha1";
const INSTANCE: &str = "app.kubernetes.io/instance";
const TRACKING: &str = "argocd.argoproj.io/tracking-id";

/// A Git repository that the test commits to.
struct Repository(PathBuf);

impl Repository {
    fn new(world: &World) -> Self {
        let folder = world.cluster.dir().join("repository");
        std::fs::create_dir(&folder).unwrap();
        let new = Self(folder);
        new.git(&["init", "--quiet", "--initial-branch=main"]);
        new
    }

    fn git(&self, args: &[&str]) {
        let author = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
        let status = Command::new("git").current_dir(&self.0).args(author).args(args).status();
        assert!(status.expect("git").success(), "git {args:?}");
    }

    /// Commits this as what is in a folder.
    fn commit(&self, folder: &str, object: &Value) {
        std::fs::create_dir_all(self.0.join(folder)).unwrap();
        std::fs::write(self.0.join(folder).join("app.yaml"), object.to_string()).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message=change"]);
    }
}

/// Argo CD: the application controller, the repository server and a Redis.
struct Argo<'a> {
    world: &'a World,
    repository: Repository,
    processes: Vec<Process>,
}

impl<'a> Argo<'a> {
    async fn start(world: &'a World) -> Self {
        world.define("github.com/argoproj/argo-cd/v3", "manifests/crds").await;
        let named = |name: &str| json!({"name": name, "namespace": ARGO, "labels": {"app.kubernetes.io/part-of": ARGO}});
        let all = json!([{"group": "*", "kind": "*"}]);
        let objects = vec![
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": named("argocd-secret"),
                "stringData": {"server.secretkey": "no secret"}}),
            json!({"apiVersion": VERSION, "kind": "AppProject", "metadata": named("default"), "spec": {
                "sourceRepos": ["*"], "destinations": [{"namespace": "*", "server": "*"}],
                "clusterResourceWhitelist": all}}),
        ];
        apply_all(&world.client, objects).await.unwrap();
        let argo = Self { world, repository: Repository::new(world), processes: Vec::new() };
        argo.configure(&json!({})).await;
        argo.run().await
    }

    async fn run(mut self) -> Self {
        let port = || free_port().unwrap();
        let (redis, repositories, metrics, health) = (port(), port(), port(), port());
        let dir = |name: &str| {
            let dir = self.world.cluster.dir().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            dir.to_string_lossy().into_owned()
        };
        let socket = self.world.cluster.dir().join("ask-pass.sock").to_string_lossy().into_owned();
        let env = [
            ("ARGOCD_FAKE_IN_CLUSTER", "true".to_owned()),
            ("ARGOCD_GPG_ENABLED", "false".to_owned()),
            ("ARGOCD_ASK_PASS_SOCK", socket),
            ("ARGOCD_PLUGINSOCKFILEPATH", dir("plugins")),
            ("ARGOCD_TLS_DATA_PATH", dir("tls")),
            ("ARGOCD_SSH_DATA_PATH", dir("ssh")),
        ];
        let redis = format!("127.0.0.1:{redis}");
        self.processes
            .push(self.world.spawn("argocd redis", std::slice::from_ref(&redis), &env).await);
        let redis = format!("--redis={redis}");
        let args = [
            redis.clone(),
            "--disable-tls".into(),
            "--address=127.0.0.1".into(),
            format!("--port={repositories}"),
            "--metrics-address=127.0.0.1".into(),
            format!("--metrics-port={health}"),
        ];
        self.processes.push(self.world.spawn("argocd argocd-repo-server", &args, &env).await);
        until("the repository server", LIMIT, async || {
            self.check();
            matches!(request(health, "GET", "/healthz", ""), Ok((200, _)))
        })
        .await;
        let args = [
            redis,
            format!("--namespace={ARGO}"),
            "--repo-server-plaintext".into(),
            format!("--repo-server=127.0.0.1:{repositories}"),
            format!("--metrics-port={metrics}"),
        ];
        let name = format!("argocd {ACCOUNT}");
        self.processes.push(self.world.spawn(&name, &args, &env).await);
        self
    }

    fn check(&self) {
        self.processes.iter().try_for_each(Process::check).unwrap();
    }

    /// Its ConfigMap: tracking by label, and what else is given.
    async fn track_by_label(&self, more: &Value) {
        let mut data = more.clone();
        data["application.resourceTrackingMethod"] = json!("label");
        self.configure(&data).await;
    }

    async fn configure(&self, data: &Value) {
        let metadata = json!({"name": "argocd-cm", "namespace": ARGO, "labels": {"app.kubernetes.io/part-of": ARGO}});
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        apply(&self.world.client, &body).await.unwrap();
    }

    /// Lets it deploy a folder of the repository to a namespace, both of this name.
    async fn deploy(&self, name: &str) {
        self.world.new_namespace(name).await;
        let url = format!("file://{}", self.repository.0.display());
        let body = json!({
            "apiVersion": VERSION, "kind": "Application", "metadata": {"name": name, "namespace": ARGO},
            "spec": {
                "project": "default",
                "source": {"repoURL": url, "targetRevision": "main", "path": name},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": name},
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
            },
        });
        apply(&self.world.client, &body).await.unwrap();
    }

    async fn now(&self, name: &str) -> Value {
        self.check();
        self.world.read(VERSION, "Application", (ARGO, name)).await
    }

    /// Lets it compare with Git now, and returns what it found.
    async fn refresh(&self, name: &str) -> Value {
        let key = "argocd.argoproj.io/refresh";
        let body = json!({"metadata": {"annotations": {key: "hard"}}});
        let all = self.world.objects(VERSION, "Application", ARGO);
        all.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
        let mut last = Value::Null;
        until("a refresh", LIMIT, async || {
            last = self.now(name).await;
            last["metadata"]["annotations"][key].is_null()
        })
        .await;
        last
    }

    /// Waits until it is synchronised, and healthy as this says.
    async fn health(&self, name: &str, health: &str) {
        let mut last = Value::Null;
        let step = async || {
            last = self.now(name).await;
            let status = &last["status"];
            status["sync"]["status"] == "Synced" && status["health"]["status"] == health
        };
        until(&format!("{name} is {health}"), LIMIT, step).await;
    }

    /// Runs an action of the ConfigMap on the Application, and writes what it changed as Argo CD's API server does. Returns the
    /// names of the actions that were on offer.
    async fn act(&self, namespace: &str, name: &str) -> Vec<String> {
        let world = self.world;
        let before = world.application(namespace).await;
        let kubeconfig = world.cluster.kubeconfig_of(ARGO, ACCOUNT).await.unwrap();
        let mut child = Command::new(world.programs.join("argocd"))
            .args(["action", ARGO, name])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        write!(child.stdin.take().unwrap(), "{before}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name} cannot be run");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let after = &answer["object"];
        let all = world.objects("core.oam.dev/v1beta1", "Application", namespace);
        let params = PatchParams::default();
        if after["status"] != before["status"] {
            let body = json!({"status": after["status"]});
            all.patch_status(APP, &params, &Patch::Merge(&body)).await.unwrap();
        }
        let annotations = &after["metadata"]["annotations"];
        if *annotations != before["metadata"]["annotations"] {
            let body = json!({"metadata": {"annotations": annotations}});
            all.patch(APP, &params, &Patch::Merge(&body)).await.unwrap();
        }
        let actions = answer["actions"].as_array().unwrap();
        let on_offer = actions.iter().filter(|it| it["disabled"] != true);
        on_offer.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Takes both Applications of this name away.
    async fn remove(&self, name: &str) {
        for (version, key) in [(VERSION, (ARGO, name)), ("core.oam.dev/v1beta1", (name, APP))] {
            let all = self.world.objects(version, "Application", key.0);
            all.delete(key.1, &DeleteParams::default()).await.unwrap();
            until("it is gone", LIMIT, async || all.get_opt(key.1).await.unwrap().is_none()).await;
        }
    }

    /// What it deleted since then.
    fn deleted(&self, from: u64) -> Vec<Entry> {
        let mut all = audit::read(&self.world.cluster.audit_log(), from).unwrap();
        let user = self.world.user();
        all.retain(|it| it.user == user && it.verb.starts_with("delete"));
        all
    }
}

/// Kinds and names that Argo CD takes for its own, and of them those that it would delete.
fn resources(argo: &Value) -> (Vec<String>, Vec<String>) {
    let all = argo["status"]["resources"].as_array().cloned().unwrap_or_default();
    let name =
        |it: &Value| format!("{}/{}", it["kind"].as_str().unwrap(), it["name"].as_str().unwrap());
    let extra = all.iter().filter(|it| it["requiresPruning"] == true);
    (all.iter().map(name).collect(), extra.map(name).collect())
}

/// As it is configured by default it tracks by an annotation, which names the object: it shows others that inherit the annotation, and
/// keeps them.
async fn ignores_what_inherits_its_annotation(argo: &Argo<'_>) {
    let world = argo.world;
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    argo.repository.commit("annotated", &shop("annotated", None));
    argo.deploy("annotated").await;
    world.reason("annotated", "ReconcileSuccess").await;
    argo.refresh("annotated").await;
    argo.health("annotated", "Healthy").await;
    let deployment = world.deployment("annotated").await;
    assert!(!deployment["metadata"]["annotations"][TRACKING].is_null(), "{deployment:#}");
    let seen = argo.refresh("annotated").await;
    assert_eq!(seen["status"]["sync"]["status"], "Synced", "{:#}", seen["status"]);
    let (mut shown, extra) = resources(&seen);
    shown.sort();
    assert_eq!(shown, [format!("Application/{APP}"), format!("Deployment/{WEB}")]);
    assert_eq!(extra, [] as [String; 0]);
    assert_eq!(argo.deleted(from), []);
    argo.remove("annotated").await;
}

/// kubevela#2608: the objects had the label by which Argo CD finds its own, so it deleted them.
async fn prunes_what_inherits_its_label(argo: &Argo<'_>) {
    let world = argo.world;
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    argo.repository.commit("inherits", &shop("inherits", Some("none")));
    argo.deploy("inherits").await;
    let mut extra = Vec::new();
    until("it would delete the Deployment", LIMIT, async || {
        extra = resources(&argo.now("inherits").await).1;
        extra == [format!("Deployment/{WEB}")]
    })
    .await;
    until("it deletes the Deployment", LIMIT, async || {
        argo.deleted(from).iter().any(|it| it.resource == "deployments" && it.name == WEB)
    })
    .await;
    argo.remove("inherits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_keeps_what_an_application_deploys_and_is_as_healthy() {
    let Some(world) = World::start(ARGO, ACCOUNT).await else { return };
    let mut options = as_new();
    options.values.push("inherit.exclude={}".to_owned());
    let off = Deployed::start(&world.cluster, &binaries(), &options).await.unwrap();
    let argo = Argo::start(&world).await;
    ignores_what_inherits_its_annotation(&argo).await;
    argo.track_by_label(&json!({})).await;
    prunes_what_inherits_its_label(&argo).await;
    off.admission.close(&world.cluster).await.unwrap();
    assert!(off.stop(Duration::from_secs(20)).unwrap());

    // As in a new installation.
    let on = Deployed::start(&world.cluster, &binaries(), &as_new()).await.unwrap();
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    argo.repository.commit("keeps", &shop("keeps", Some("none")));
    argo.deploy("keeps").await;
    until("the Deployment", LIMIT, async || !world.deployment("keeps").await.is_null()).await;
    // Without a health check of its kind an Application is healthy, whatever it says.
    argo.health("keeps", "Healthy").await;
    world.reason("keeps", "Progressing").await;
    argo.track_by_label(&documented("Argo CD")["data"]).await;
    argo.refresh("keeps").await;
    let deployment = world.deployment("keeps").await;
    assert!(deployment["metadata"]["labels"][INSTANCE].is_null(), "{deployment:#}");
    let app = world.application("keeps").await;
    assert_eq!(app["metadata"]["labels"][INSTANCE], "keeps");

    let settled = async |health: &str| {
        argo.health("keeps", health).await;
        let seen = argo.refresh("keeps").await;
        assert_eq!(seen["status"]["sync"]["status"], "Synced", "{:#}", seen["status"]);
        assert_eq!(resources(&seen), (vec![format!("Application/{APP}")], Vec::new()));
    };
    settled("Progressing").await;
    argo.repository.commit("keeps", &shop("keeps", None));
    argo.refresh("keeps").await;
    settled("Healthy").await;
    world.pull("keeps", false).await;
    settled("Degraded").await;
    world.pull("keeps", true).await;
    settled("Healthy").await;

    let mut approved = shop("keeps", None);
    approved["spec"]["workflow"] = json!({"steps": [
        {"name": "web", "type": "apply-component", "properties": {"component": WEB}},
        {"name": "approve", "type": "suspend"},
    ]});
    argo.repository.commit("keeps", &approved);
    argo.refresh("keeps").await;
    settled("Suspended").await;
    assert_eq!(argo.act("keeps", "resume").await, ["resume"]);
    settled("Healthy").await;
    assert_eq!(argo.act("keeps", "restart").await, ["restart"]);
    settled("Suspended").await;

    assert_eq!(argo.deleted(from), [], "Argo CD deleted something");
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    assert_eq!(uid(&world.deployment("keeps").await), uid(&deployment));
    on.check().unwrap();
    world.cluster.stop();
}
