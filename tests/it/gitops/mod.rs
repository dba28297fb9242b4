//! Flux and Argo CD deploy Applications: what docs/gitops.md says of them, seen with these tools themselves.
//!
//! Building them takes long and is not done here: `VELA_GITOPS_PROGRAMS` names the folder that they were built to
//! (tests/gitops/README.md has the command).

mod argocd;
mod flux;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Options, apply, apply_all};
use vela_tests::fixtures::{resource, until};
use vela_tests::material;
use vela_tests::process::{Invocation, Process};
use vela_tests::tenant::bound;

const LIMIT: Duration = Duration::from_secs(120);
/// The Application that the tools deploy, and the Deployment of its component.
const APP: &str = "shop";
const WEB: &str = "web";

/// A control plane of its own, since a tool watches all of it, and the tool's account in its namespace.
struct World {
    cluster: Cluster,
    client: Client,
    programs: PathBuf,
    namespace: &'static str,
    account: &'static str,
}

impl World {
    /// None: the programs are not there, which is said.
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn start(namespace: &'static str, account: &'static str) -> Option<Self> {
        let Some(programs) = std::env::var_os("VELA_GITOPS_PROGRAMS") else {
            eprintln!(
                "SKIPPED: VELA_GITOPS_PROGRAMS does not name the folder with Flux and Argo CD, which are built as \
                 tests/gitops/README.md says"
            );
            return None;
        };
        let cluster = Cluster::start(namespace).await.unwrap();
        let client = cluster.client().await.unwrap();
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
        let objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace}}),
            bound(account, "cluster-admin", &subject),
        ];
        apply_all(&client, objects).await.unwrap();
        Some(Self { cluster, client, programs: programs.into(), namespace, account })
    }

    /// The user that the tool is.
    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account)
    }

    /// A program of the tool under its account; its temporary files go with the run.
    async fn spawn(&self, name: &str, args: &[String], env: &[(&str, String)]) -> Process {
        let kubeconfig = self.cluster.kubeconfig_of(self.namespace, self.account).await.unwrap();
        let temporary = self.cluster.dir().join("tmp");
        std::fs::create_dir_all(&temporary).unwrap();
        let (program, _) = name.split_once(' ').unwrap_or((name, ""));
        let mut invocation = Invocation::new(self.programs.join(program))
            .args(name.split(' ').skip(1).chain(args.iter().map(String::as_str)))
            .env("KUBECONFIG", kubeconfig.to_string_lossy())
            .env("HOME", temporary.to_string_lossy())
            .env("TMPDIR", temporary.to_string_lossy());
        for (name, value) in env {
            invocation = invocation.env(*name, value);
        }
        let log = self.cluster.dir().join(format!("{}.log", name.replace(' ', "-")));
        self.cluster.watchdog().spawn(name, &invocation, &log).unwrap()
    }

    fn objects(&self, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(version, kind))
    }

    /// An object as it is now; null if it is not there.
    async fn read(&self, version: &str, kind: &str, (namespace, name): (&str, &str)) -> Value {
        let found = self.objects(version, kind, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    async fn application(&self, namespace: &str) -> Value {
        self.read("core.oam.dev/v1beta1", "Application", (namespace, APP)).await
    }

    async fn deployment(&self, namespace: &str) -> Value {
        self.read("apps/v1", "Deployment", (namespace, WEB)).await
    }

    async fn new_namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&self.client, &body).await.unwrap();
    }

    /// Gives the Pods of a namespace, which run, the status that they have when their image cannot be pulled, or can again.
    async fn pull(&self, namespace: &str, works: bool) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let running = ListParams::default().fields("status.phase=Running");
        let seen = pods.list(&running).await.unwrap().items;
        assert!(!seen.is_empty(), "no Pods in {namespace}");
        let since = "2026-01-01T00:00:00Z";
        let state = if works {
            json!({"running": {"startedAt": since}, "waiting": null})
        } else {
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nginx\""}})
        };
        let is = if works { "True" } else { "False" };
        let status = json!({"status": {
            "conditions": [
                {"type": "Ready", "status": is, "lastTransitionTime": since},
                {"type": "ContainersReady", "status": is, "lastTransitionTime": since},
            ],
            "containerStatuses": [{"name": WEB, "image": "nginx", "imageID": "", "ready": works, "restartCount": 0,
                "state": state}],
        }});
        for pod in seen {
            let name = pod.metadata.name.unwrap();
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
                .await
                .unwrap();
        }
    }

    /// Waits for a reason of the Application's `Ready`, and returns the condition.
    async fn reason(&self, namespace: &str, reason: &str) -> Value {
        let mut ready = Value::Null;
        until(&format!("the reason {reason} in {namespace}"), LIMIT, async || {
            ready = condition(&self.application(namespace).await, "Ready");
            ready["reason"] == reason
        })
        .await;
        ready
    }

    /// Applies the CustomResourceDefinitions that a Go module has in a folder.
    async fn define(&self, module: &str, folder: &str) {
        let source = material::workspace().join("tests/gitops");
        let output = Command::new("go")
            .current_dir(source)
            .args(["mod", "download", "-json", module])
            .output()
            .expect("go, whose module has the CustomResourceDefinitions");
        let module: Value = serde_json::from_slice(&output.stdout).unwrap();
        let folder = PathBuf::from(module["Dir"].as_str().unwrap()).join(folder);
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            all.extend(documents.into_iter().filter(|it| it["kind"] == "CustomResourceDefinition"));
        }
        assert!(!all.is_empty(), "no CustomResourceDefinitions in {module:#}");
        apply_all(&self.client, all).await.unwrap();
    }
}

/// The Application, as Git has it. With `node` its Pods wait for a node that is not there.
fn shop(namespace: &str, node: Option<&str>) -> Value {
    let mut component =
        json!({"name": WEB, "type": "webservice", "properties": {"image": "nginx"}, "traits": []});
    if let Some(node) = node {
        component["traits"] = json!([{"type": "json-merge-patch", "properties":
            {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}}}}]);
    }
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": APP, "namespace": namespace},
        "spec": {"components": [component]},
    })
}

/// A condition of an object; null if it has none of this type.
fn condition(object: &Value, kind: &str) -> Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

/// The first YAML of a section of docs/gitops.md.
fn documented(section: &str) -> Value {
    let text = std::fs::read_to_string(material::workspace().join("docs/gitops.md")).unwrap();
    let (_, text) = text.split_once(&format!("\n## {section}\n")).unwrap();
    let (_, text) = text.split_once("```yaml\n").unwrap();
    serde_saphyr::from_str(text.split("```").next().unwrap()).unwrap()
}

/// The values of a new installation, which the chart has only where it sees a cluster: also the keys that docs/gitops.md names.
fn as_new() -> Options {
    let read = |path| std::fs::read_to_string(material::workspace().join(path)).unwrap();
    let docs = read("docs/gitops.md");
    let mut lines = docs.lines().map(str::trim);
    let keys = lines.find(|line| line.starts_with("app.kubernetes.io/instance, ")).unwrap();
    let keys = keys.replace(", ", ",");
    let chart = read("charts/vela-core/templates/_helpers.tpl");
    assert!(chart.lines().any(|line| line == keys), "the chart has other keys than {keys}");
    let exclude = format!("inherit.exclude={{{keys}}}");
    let values = vec![exclude, "status.readyMeansHealthy=true".to_owned()];
    Options { values, ..Options::default() }
}
