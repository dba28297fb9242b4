//! The life of a release, with the death of the process at every write: install, upgrade, a rollback, hooks, the end.

use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::charts::server::{Server as ChartServer, rules};
use crate::queue::{Key, Next};

use super::depth::{moments, stride};
use super::server::{Death, Server, State};
use super::{NAMESPACE, Process, World, application, placements, planned};

const TEMPLATE: &str = r#"
import "vela/helm"

chart: helm.#Render & {$params: {
    "chart": source: parameter.source
    release: name: "web"
    options: parameter.options
    values: parameter.values
    "context": {name: context.name, namespace: context.namespace}
}}
output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "release"}
outputs: {for index, object in chart.$returns.resources {"r-\(index)": object}}
parameter: {source: string, options: {...}, values: {...}}
"#;

const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: map}
data:
  v: {{ .Values.v | quote }}
  password: {{ randAlphaNum 12 }}
{{- if .Values.never }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: never}
{{- end }}
";

fn hook(kind: &str, name: &str) -> String {
    let version = if kind == "Job" { "batch/v1" } else { "v1" };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    helm.sh/hook: {name}\n"
    )
}

/// A chart with a hook at every moment, of which those before are Jobs.
fn archive() -> Vec<u8> {
    let mut files = vec![
        ("Chart.yaml".to_owned(), "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned()),
        ("values.yaml".to_owned(), "v: '0'\nnever: false\n".to_owned()),
        ("templates/map.yaml".to_owned(), MAP.to_owned()),
    ];
    for (kind, name) in [
        ("Job", "pre-install"),
        ("ConfigMap", "post-install"),
        ("Job", "pre-upgrade"),
        ("ConfigMap", "post-upgrade"),
        ("Job", "pre-rollback"),
        ("ConfigMap", "post-rollback"),
        ("Job", "pre-delete"),
        ("ConfigMap", "post-delete"),
        ("Job", "test"),
    ] {
        files.push((format!("templates/{name}.yaml"), hook(kind, name)));
    }
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, format!("web/{path}"), text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

struct Charts {
    world: World,
    source: String,
}

impl Charts {
    async fn new() -> Self {
        let mut world = World::new();
        world.rules = rules();
        placements::define(&world);
        world.server.by_another_writer(|state| {
            let kind = "componentdefinitions";
            let mut definition = state.get(kind, "vela-system", "maps").cloned().unwrap();
            definition["spec"]["schematic"]["cue"]["template"] = json!(TEMPLATE);
            state.put(kind, definition);
        });
        let bytes = archive();
        let server = ChartServer::start(false, move |_, _| (200, Vec::new(), bytes.clone())).await;
        let source = format!("http://{}/web.tgz", server.address);
        Self { world, source }
    }

    fn app(&self, values: &Value, options: &Value) -> Value {
        let mut app = application("a", &[("c", &[], "")]);
        app["spec"]["components"][0]["properties"] =
            json!({"source": self.source, "options": options, "values": values});
        app
    }

    fn apply(&self, mut app: Value) {
        self.world.server.by_another_writer(|state| {
            if let Some(old) = state.get("applications", NAMESPACE, "a") {
                (app["metadata"], app["status"]) = (old["metadata"].clone(), old["status"].clone());
            }
            state.put("applications", app);
        });
    }

    /// Reconciles until nothing is left to do; Jobs complete by themselves, but for one. Returns how often the process died.
    async fn settle(&self, process: &mut Process) -> usize {
        let (mut deaths, mut quiet) = (0, 0);
        for _ in 0..400 {
            let before = self.changes();
            let next = self.world.reconcile(process, "a").await;
            let servers = self.world.members.iter().map(|(_, server)| server);
            for server in servers.chain([&self.world.server]) {
                server.by_another_writer(complete_jobs);
            }
            match next {
                None => {
                    deaths += 1;
                    self.world.revive();
                    *process = self.world.start();
                }
                Some(Next::After(delay)) => {
                    self.world.pass(delay);
                    let memory = process.context.memory(&Key::new(NAMESPACE, "a"));
                    if let Some(settled) = &mut memory.lock().settled {
                        settled.due = Some(tokio::time::Instant::now());
                    }
                }
                Some(_) => {}
            }
            let is_failed = self.world.app("a")["status"]["status"] == "workflowFailed";
            let is_over = match next {
                Some(Next::Resync(_) | Next::Done) => true,
                Some(Next::Failed | Next::After(_)) => is_failed,
                _ => false,
            };
            let is_still = is_over && self.changes() == before;
            quiet = if is_still { quiet + 1 } else { 0 };
            // What the watches have not brought yet asks for another reconcile.
            if quiet == 3 {
                return deaths;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it does not settle: {:#}", self.world.app("a")["status"]);
    }

    fn changes(&self) -> usize {
        let of = |server: &Server| {
            let state = server.state.lock();
            ["configmaps", "secrets", "jobs", "resourcetrackers", "applications"]
                .map(|plural| state.changes_of(plural))
                .iter()
                .sum::<usize>()
        };
        self.world.members.iter().map(|(_, server)| of(server)).sum::<usize>()
            + of(&self.world.server)
    }
}

fn complete_jobs(state: &mut State) {
    let jobs: Vec<Value> = state.all("jobs").into_iter().cloned().collect();
    for mut job in jobs {
        if job["metadata"]["name"] != "never" && job["status"].is_null() {
            job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
            state.put("jobs", job);
        }
    }
}

/// Revision and status of the records.
fn records(server: &Server) -> Vec<(String, String)> {
    let state = server.state.lock();
    let secrets = state.all("secrets").into_iter();
    let of_helm = secrets.filter(|secret| secret["type"] == "helm.sh/release.v1");
    let label = |secret: &Value, key: &str| {
        secret["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
    };
    of_helm.map(|secret| (label(secret, "version"), label(secret, "status"))).collect()
}

fn all(records: &[(&str, &str)]) -> Vec<(String, String)> {
    records.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn data(server: &Server, key: &str) -> Value {
    let state = server.state.lock();
    state
        .get("configmaps", NAMESPACE, "map")
        .map(|map| map["data"][key].clone())
        .unwrap_or_default()
}

/// How many different objects of a name there were.
fn made(server: &Server, plural: &str, name: &str) -> usize {
    let state = server.state.lock();
    let uids = state.history(plural, name).map(|object| object["metadata"]["uid"].to_string());
    uids.collect::<std::collections::BTreeSet<_>>().len()
}

/// The versions between which an object was there.
fn span(server: &Server, plural: &str, name: &str) -> (u64, u64) {
    let state = server.state.lock();
    let version = |object: &Value| -> u64 {
        object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    let all: Vec<u64> = state.history(plural, name).map(version).collect();
    (all[0], all[all.len() - 1])
}

/// Whether nothing is left.
fn assert_clean(server: &Server) {
    let state = server.state.lock();
    let left = |plural: &str| -> Vec<String> {
        let all = state.all(plural).into_iter();
        all.map(|object| object["metadata"]["name"].to_string()).collect()
    };
    for plural in ["configmaps", "jobs", "secrets", "applications", "resourcetrackers"] {
        assert_eq!(left(plural), Vec::<String>::new(), "{plural}");
    }
}

/// Install, upgrade, deletion; the process dies at `death`. Returns how often it did.
async fn life(death: Option<Death>) -> usize {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    server.state.lock().death = death;
    let mut process = charts.world.start();
    let mut deaths = 0;
    charts.apply(charts.app(&json!({"v": "1"}), &json!({})));
    deaths += charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "deployed")]), "{death:?}");
    assert_eq!(data(&server, "v"), "1");
    assert_eq!(charts.world.app("a")["status"]["status"], "running", "{death:?}");
    let password = data(&server, "password");
    charts.apply(charts.app(&json!({"v": "2"}), &json!({})));
    deaths += charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "superseded"), ("2", "deployed")]), "{death:?}");
    assert_eq!((data(&server, "v"), data(&server, "password")), (json!("2"), password));
    for (plural, name) in [
        ("jobs", "pre-install"),
        ("configmaps", "post-install"),
        ("jobs", "pre-upgrade"),
        ("configmaps", "post-upgrade"),
    ] {
        assert_eq!(made(&server, plural, name), 1, "{name} {death:?}");
    }
    server.by_another_writer(|state| drop(state.delete("applications", NAMESPACE, "a")));
    deaths += charts.settle(&mut process).await;
    assert_clean(&server);
    assert_eq!(made(&server, "jobs", "test"), 0, "tests do not run");
    let map = span(&server, "configmaps", "map");
    let record = span(&server, "secrets", "sh.helm.release.v1.web.v2");
    assert!(span(&server, "jobs", "pre-delete").0 < map.1, "{death:?}");
    let post = span(&server, "configmaps", "post-delete");
    assert!(map.1 < post.0 && post.0 < record.1, "{map:?} {post:?} {record:?} {death:?}");
    deaths
}

/// Before or after a write in turn; both with `VELA_SIMULATION_STEPS`.
fn deaths(at: usize) -> Vec<Death> {
    match (std::env::var_os("VELA_SIMULATION_STEPS"), at % 2) {
        (Some(_), _) => vec![Death::Before(at), Death::After(at)],
        (None, 0) => vec![Death::Before(at)],
        (None, _) => vec![Death::After(at)],
    }
}

#[tokio::test]
async fn the_process_may_die_at_any_write_of_the_life_of_a_release() {
    assert_eq!(life(None).await, 0);
    let mut points = 0;
    for at in moments() {
        let mut died = 0;
        for death in deaths(at) {
            died += life(Some(death)).await;
        }
        if died == 0 {
            break;
        }
        points += died;
    }
    assert!(points * stride() > 40, "only {points} moments of death");
}

/// An upgrade that never gets ready is rolled back; the process dies at `death`.
async fn rolled_back(death: Option<Death>) -> usize {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    let mut process = charts.world.start();
    let options = json!({"atomic": true, "timeout": "30s"});
    charts.apply(charts.app(&json!({"v": "1"}), &options));
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "deployed")]));
    let written = server.state.lock().writes;
    server.state.lock().death = death.map(|death| match death {
        Death::Before(at) => Death::Before(written + at),
        Death::After(at) => Death::After(written + at),
    });
    charts.apply(charts.app(&json!({"v": "2", "never": true}), &options));
    let deaths = charts.settle(&mut process).await;
    let expected = all(&[("1", "superseded"), ("2", "failed"), ("3", "deployed")]);
    assert_eq!(records(&server), expected, "{death:?} {:#}", charts.world.app("a")["status"]);
    assert_eq!(data(&server, "v"), "1", "{death:?}");
    let is_left = server.state.lock().get("jobs", NAMESPACE, "never").is_some();
    assert!(!is_left, "what only the failed revision had is gone: {death:?}");
    let status = charts.world.app("a")["status"].to_string();
    assert!(status.contains("rolled back to revision 1"), "{status}");
    assert!(status.contains("workflowFailed"), "{status}");
    for (plural, name) in [("jobs", "pre-rollback"), ("configmaps", "post-rollback")] {
        assert_eq!(made(&server, plural, name), 1, "{name} {death:?}");
    }
    if death.is_none() {
        // The Application edited back is another revision.
        charts.apply(charts.app(&json!({"v": "1"}), &options));
        charts.settle(&mut process).await;
        assert_eq!(records(&server).last(), Some(&("4".to_owned(), "deployed".to_owned())));
        assert_eq!(charts.world.app("a")["status"]["status"], "running");
    }
    deaths
}

#[tokio::test]
async fn the_process_may_die_at_any_write_of_a_rollback() {
    assert_eq!(rolled_back(None).await, 0);
    let mut points = 0;
    for at in moments() {
        let mut died = 0;
        for death in deaths(at) {
            died += rolled_back(Some(death)).await;
        }
        if died == 0 {
            break;
        }
        points += died;
    }
    assert!(points * stride() > 20, "only {points} moments of death");
}

/// Plans an edit and makes it. Records of releases are the control plane's, and generated text is known after the run.
async fn plan_and_run(charts: &Charts, process: &mut Process, app: Value) -> String {
    let comparable = |mut difference: planned::Difference| {
        difference.retain(|(_, kind, _), _| kind != "Secret");
        for object in difference.values_mut().flatten() {
            let drop_key = |object: &mut Value, fields: &str, key: &str| {
                object.pointer_mut(fields).and_then(Value::as_object_mut).map(|it| it.remove(key))
            };
            if drop_key(object, "/data", "password").flatten().is_some() {
                drop_key(object, "/metadata/labels", "oam.dev/render-hash");
            }
        }
        difference
    };
    let (plan, expected) = planned::plan(&charts.world, process, "a", &app).await;
    let before = planned::objects(&charts.world);
    charts.apply(app);
    charts.settle(process).await;
    let written = planned::difference(&before, &planned::objects(&charts.world));
    assert_eq!(comparable(written), comparable(expected), "{plan:#?}");
    crate::plan::report::text(&plan)
}

/// A hook ends in a run only; a plan goes on as if it had ended, and names it.
#[tokio::test]
async fn what_follows_a_hook_is_planned() {
    let charts = Charts::new().await;
    let mut process = charts.world.start();
    let options = json!({"wait": true});
    let app = charts.app(&json!({"v": "1"}), &options);
    let shown = plan_and_run(&charts, &mut process, app).await;
    let hooks = "Hooks of charts that run: pre-install Job n/pre-install, post-install ConfigMap n/post-install\n";
    assert!(shown.contains(hooks) && shown.contains("+ ConfigMap n/map"), "{shown}");
    assert!(!shown.contains("known after it"), "{shown}");
    let shown = plan_and_run(&charts, &mut process, charts.app(&json!({"v": "2"}), &options)).await;
    let hooks = "Hooks of charts that run: pre-upgrade Job n/pre-upgrade, post-upgrade ConfigMap n/post-upgrade\n";
    assert!(shown.contains(hooks) && shown.contains("~ ConfigMap n/map"), "{shown}");
    let app = application("a", &[]);
    let shown = plan_and_run(&charts, &mut process, app).await;
    let hooks = "Hooks of charts that run: pre-delete Job n/pre-delete, post-delete ConfigMap n/post-delete\n";
    assert!(shown.contains(hooks) && shown.contains("- ConfigMap n/map"), "{shown}");
}

#[tokio::test]
async fn an_atomic_install_that_fails_leaves_nothing_but_its_record() {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    let mut process = charts.world.start();
    let options = json!({"atomic": true, "timeout": "30s"});
    charts.apply(charts.app(&json!({"v": "1", "never": true}), &options));
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "failed")]));
    assert_eq!(data(&server, "v"), Value::Null);
    let status = charts.world.app("a")["status"].to_string();
    assert!(status.contains("not ready within 30s: Job never"), "{status}");
    charts.apply(charts.app(&json!({"v": "1"}), &options));
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "failed"), ("2", "deployed")]));
    assert_eq!(data(&server, "v"), "1");
}

#[tokio::test]
async fn a_failed_upgrade_is_cleaned_up_if_that_is_wanted() {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    let mut process = charts.world.start();
    let options = json!({"wait": true, "cleanupOnFail": true, "timeout": "30s"});
    charts.apply(charts.app(&json!({"v": "1"}), &options));
    charts.settle(&mut process).await;
    charts.apply(charts.app(&json!({"v": "2", "never": true}), &options));
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "deployed"), ("2", "failed")]));
    assert_eq!(data(&server, "v"), "2", "what there was before stays as it is now");
    assert!(server.state.lock().get("jobs", NAMESPACE, "never").is_none());
}

#[tokio::test]
async fn a_delete_hook_that_never_ends_holds_a_deletion_up_for_its_time_only() {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    let mut process = charts.world.start();
    charts.apply(charts.app(&json!({"v": "1"}), &json!({"timeout": "40s"})));
    charts.settle(&mut process).await;
    server.by_another_writer(|state| drop(state.delete("applications", NAMESPACE, "a")));
    for _ in 0..30 {
        // Nobody completes the Job.
        let next = charts.world.reconcile(&process, "a").await;
        if let Some(Next::After(delay)) = next {
            charts.world.pass(delay);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        if server.state.lock().get("jobs", NAMESPACE, "pre-delete").is_some() {
            break;
        }
    }
    assert_eq!(data(&server, "v"), "1", "objects stay while the hook runs");
    assert_eq!(records(&server), all(&[("1", "uninstalling")]));
    charts.world.pass(Duration::from_secs(41));
    charts.settle(&mut process).await;
    assert_clean(&server);
}

#[tokio::test]
async fn a_component_that_goes_ends_its_release() {
    let charts = Charts::new().await;
    let server = charts.world.server.clone();
    let mut process = charts.world.start();
    let mut app = charts.app(&json!({"v": "1"}), &json!({}));
    let mut other = app["spec"]["components"][0].clone();
    charts.apply(app.clone());
    charts.settle(&mut process).await;
    // The release goes to a component of another name without an end.
    other["name"] = json!("d");
    app["spec"]["components"] = json!([other]);
    charts.apply(app);
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[("1", "superseded"), ("2", "deployed")]));
    assert_eq!(made(&server, "configmaps", "map"), 1, "it is the same object");
    assert_eq!(made(&server, "jobs", "pre-delete"), 0);
    let mut app = charts.app(&json!({"v": "1"}), &json!({}));
    app["spec"]["components"] = json!([]);
    charts.apply(app);
    charts.settle(&mut process).await;
    assert_eq!(records(&server), all(&[]));
    assert_eq!(data(&server, "v"), Value::Null);
    assert_eq!(made(&server, "jobs", "pre-delete"), 1);
    assert_eq!(made(&server, "configmaps", "post-delete"), 1);
}

#[tokio::test]
async fn a_release_is_where_its_placement_is() {
    let mut charts = Charts::new().await;
    let east = Server::default();
    let killed = Arc::clone(&charts.world.server.state.lock().killed);
    east.state.lock().killed = killed;
    charts.world.members.push(("east", east.clone()));
    let mut process = charts.world.start();
    let placed = |values: Value| {
        let mut app = charts.app(&values, &json!({}));
        app["spec"]["policies"] = json!([
            {"name": "there", "type": "topology", "properties": {"clusters": ["east"]}}]);
        app["spec"]["workflow"] = json!({"steps": [
            {"name": "s", "type": "deploy", "properties": {"policies": ["there"]}}]});
        app
    };
    charts.apply(placed(json!({"v": "1"})));
    charts.settle(&mut process).await;
    assert_eq!(charts.world.app("a")["status"]["status"], "running");
    charts.apply(placed(json!({"v": "2"})));
    charts.settle(&mut process).await;
    assert_eq!(records(&east), all(&[("1", "superseded"), ("2", "deployed")]));
    assert_eq!(data(&east, "v"), "2");
    let hub = charts.world.server.clone();
    assert_eq!((records(&hub), data(&hub, "v")), (Vec::new(), Value::Null));
    assert!(hub.state.lock().all("jobs").is_empty());
    hub.by_another_writer(|state| drop(state.delete("applications", NAMESPACE, "a")));
    charts.settle(&mut process).await;
    assert_clean(&east);
    assert_clean(&hub);
    assert_eq!(made(&east, "configmaps", "post-delete"), 1);
}
