//! Flux's kustomize-controller waits for Applications.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vela_tests::audit;
use vela_tests::chart_server::{ChartServer, Reply, Settings, pack};
use vela_tests::cluster::free_port;
use vela_tests::deploy::{Deployed, apply, apply_all};
use vela_tests::fixtures::{binaries, until};

use super::{APP, LIMIT, World, as_new, condition, documented, shop};

const FLUX: &str = "flux-system";
const ACCOUNT: &str = "kustomize-controller";
const SOURCES: &str = "source.toolkit.fluxcd.io";
const VERSION: &str = "kustomize.toolkit.fluxcd.io/v1";

/// The kinds of sources, which source-controller would serve: the test does in its stead.
fn sources() -> Vec<Value> {
    let kinds = ["GitRepository", "OCIRepository", "Bucket"].map(|kind| {
        let (singular, plural) = (
            kind.to_lowercase(),
            kind.to_lowercase().replace("repository", "repositorie") + "s",
        );
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{SOURCES}")},
            "spec": {
                "group": SOURCES, "scope": "Namespaced",
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        })
    });
    kinds.to_vec()
}

/// A Kustomization of its own source, both named as the namespace that it deploys to.
struct Kustomization<'a> {
    world: &'a World,
    server: &'a ChartServer,
    name: &'static str,
}

impl Kustomization<'_> {
    async fn create(&self, spec: &Value) {
        self.world.new_namespace(self.name).await;
        let metadata = json!({"name": self.name, "namespace": FLUX});
        let mut body = json!({"apiVersion": VERSION, "kind": "Kustomization", "metadata": metadata, "spec": {
            "interval": "1h", "retryInterval": "1s", "prune": true, "wait": true, "path": "./",
            "sourceRef": {"kind": "GitRepository", "name": self.name},
        }});
        for (key, value) in spec.as_object().unwrap() {
            body["spec"][key] = value.clone();
        }
        apply(&self.world.client, &body).await.unwrap();
    }

    /// Makes this what is in the source.
    async fn push(&self, revision: &str, object: &Value) {
        let file = ("app.yaml".to_owned(), b'0', object.to_string().into_bytes());
        let packed = pack([file].into_iter()).unwrap();
        let digest: String =
            Sha256::digest(&packed).iter().map(|byte| format!("{byte:02x}")).collect();
        let (path, size) = (format!("/{}/{revision}.tar.gz", self.name), packed.len());
        self.server.put(&path, Reply::Body(packed));
        let metadata = json!({"name": self.name, "namespace": FLUX});
        let url = format!("http://{}", self.server.address());
        let source = json!({
            "apiVersion": format!("{SOURCES}/v1"), "kind": "GitRepository", "metadata": metadata,
            "spec": {"url": url, "interval": "1h"},
        });
        apply(&self.world.client, &source).await.unwrap();
        let status = json!({"status": {"artifact": {
            "path": path, "url": format!("{url}{path}"), "size": size, "revision": revision,
            "digest": format!("sha256:{digest}"), "lastUpdateTime": "2026-01-01T00:00:00Z",
        }}});
        let all = self.world.objects(&format!("{SOURCES}/v1"), "GitRepository", FLUX);
        let params = PatchParams::default();
        all.patch_status(self.name, &params, &Patch::Merge(&status)).await.unwrap();
    }

    async fn now(&self) -> Value {
        self.world.read(VERSION, "Kustomization", (FLUX, self.name)).await
    }

    /// Waits until it is ready with a revision.
    async fn is_ready(&self, revision: &str) {
        let mut last = Value::Null;
        until(&format!("{} is ready with {revision}", self.name), LIMIT, async || {
            last = self.now().await;
            condition(&last, "Ready")["status"] == "True"
                && last["status"]["lastAppliedRevision"] == revision
        })
        .await;
    }

    /// Waits until its health check has failed, and returns the message.
    async fn fails(&self) -> String {
        let mut message = String::new();
        until(&format!("the health check of {} fails", self.name), LIMIT, async || {
            let ready = condition(&self.now().await, "Ready");
            message = ready["message"].as_str().unwrap_or_default().to_owned();
            ready["reason"] == "HealthCheckFailed"
        })
        .await;
        message
    }

    /// Asks for a reconcile as `flux reconcile` does, and waits until it has begun.
    async fn reconcile(&self) {
        let when = format!("{:08x}", fastrand::u32(..));
        let body = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": when}}});
        let all = self.world.objects(VERSION, "Kustomization", FLUX);
        all.patch(self.name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
        until("the reconcile", LIMIT, async || {
            self.now().await["status"]["lastHandledReconcileAt"] == when.as_str()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kustomization_is_ready_when_its_application_is() {
    let Some(world) = World::start(FLUX, ACCOUNT).await else { return };
    let deployed = Deployed::start(&world.cluster, &binaries(), &as_new()).await.unwrap();
    world.define("github.com/fluxcd/kustomize-controller", "config/crd/bases").await;
    apply_all(&world.client, sources()).await.unwrap();
    let args = [
        format!("--metrics-addr=127.0.0.1:{}", free_port().unwrap()),
        format!("--health-addr=127.0.0.1:{}", free_port().unwrap()),
    ];
    let env = [("RUNTIME_NAMESPACE", FLUX.to_owned())];
    let flux = world.spawn(ACCOUNT, &args, &env).await;
    let server = ChartServer::start(Settings::default()).await.unwrap();

    // `wait: true` alone.
    let plain = Kustomization { world: &world, server: &server, name: "plain" };
    plain.create(&json!({"timeout": "8s"})).await;
    plain.push("main@1", &shop("plain", Some("none"))).await;
    until("the Deployment", LIMIT, async || !world.deployment("plain").await.is_null()).await;
    let message = plain.fails().await;
    assert!(message.contains("Application/plain/shop status: 'InProgress'"), "{message}");
    let red = plain.now().await;
    assert!(red["status"]["lastAppliedRevision"].is_null(), "{red:#}");
    let ready = condition(&world.application("plain").await, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("Progressing")));
    assert!(ready["message"].as_str().unwrap().contains("Unschedulable"), "{ready:#}");
    plain.push("main@2", &shop("plain", None)).await;
    plain.is_ready("main@2").await;
    assert_eq!(world.deployment("plain").await["status"]["readyReplicas"], 1);

    // Its labels are not inherited, and what admission stamps is no drift.
    let labels = |object: &Value| object["metadata"]["labels"].to_string();
    let (app, deployment) = (world.application("plain").await, world.deployment("plain").await);
    assert!(labels(&app).contains("kustomize.toolkit.fluxcd.io/name"), "{}", labels(&app));
    assert!(!labels(&deployment).contains("toolkit.fluxcd.io"), "{}", labels(&deployment));
    assert!(!app["metadata"]["annotations"]["app.oam.dev/username"].is_null(), "{app:#}");
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    plain.reconcile().await;
    plain.is_ready("main@2").await;
    let written = audit::read(&world.cluster.audit_log(), from).unwrap();
    let writes: Vec<_> = written
        .iter()
        .filter(|it| it.user == world.user() && it.is_write() && it.name == APP)
        .collect();
    assert!(writes.iter().any(|it| it.dry_run), "it compares");
    assert!(writes.iter().all(|it| it.dry_run), "{writes:#?}");

    // With the expressions of the documentation one that was healthy fails long before the timeout of ten minutes.
    let strict = Kustomization { world: &world, server: &server, name: "strict" };
    let mut spec = documented("Flux")["spec"].clone();
    spec["timeout"] = json!("10m");
    strict.create(&spec).await;
    strict.push("main@1", &shop("strict", None)).await;
    strict.is_ready("main@1").await;
    for namespace in ["plain", "strict"] {
        world.pull(namespace, false).await;
        let ready = world.reason(namespace, "Unhealthy").await;
        assert!(ready["message"].as_str().unwrap().contains("ImagePullBackOff"), "{ready:#}");
    }
    strict.reconcile().await;
    let message = strict.fails().await;
    assert!(message.contains("Application/strict/shop status: 'Failed'"), "{message}");
    plain.reconcile().await;
    let message = plain.fails().await;
    assert!(message.contains("Application/plain/shop status: 'InProgress'"), "{message}");
    for (namespace, kustomization, revision) in
        [("plain", &plain, "main@2"), ("strict", &strict, "main@1")]
    {
        world.pull(namespace, true).await;
        world.reason(namespace, "ReconcileSuccess").await;
        kustomization.is_ready(revision).await;
    }

    flux.check().unwrap();
    deployed.check().unwrap();
    assert!(flux.stop(Duration::from_secs(20)).unwrap());
    world.cluster.stop();
}
