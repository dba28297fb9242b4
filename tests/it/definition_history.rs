//! What a plan says of edits that really happened: the components and traits of KubeVela's releases, one release after the other.
//!
//! They are not in this repository. `VELA_DEFINITION_HISTORY` names folders of releases, the oldest first, separated by `:`; of a
//! Go module `github.com/oam-dev/kubevela` it is `charts/vela-core/templates/defwithtemplate`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::fixtures::{Space, quiet, until};

use super::plan::{deployed, try_plan};

/// Of each trait that has changed in some release: properties, on a component of the type before it.
const TRAITS: [(&str, &str, &str); 19] = [
    (
        "webservice",
        "affinity",
        r#"{"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "kubernetes.io/os", "operator": "Exists"}]}]}}}"#,
    ),
    (
        "webservice",
        "affinity",
        r#"{"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}"#,
    ),
    ("webservice", "command", r#"{"command": ["sleep"], "addArgs": ["1"]}"#),
    ("worker", "command", r#"{"containers": [{"containerName": "command-3", "args": ["2"]}]}"#),
    ("webservice", "container-image", r#"{"image": "nginx:2", "imagePullPolicy": "Always"}"#),
    ("webservice", "container-ports", r#"{"ports": [{"containerPort": 81, "protocol": "TCP"}]}"#),
    ("webservice", "env", r#"{"env": {"A": "1"}}"#),
    ("webservice", "env", r#"{"replace": true, "env": {"B": "2"}}"#),
    ("webservice", "expose", r#"{"port": [80]}"#),
    ("webservice", "expose", r#"{"ports": [{"port": 80, "name": "web"}], "type": "NodePort"}"#),
    ("webservice", "gateway", r#"{"domain": "a.example.com", "http": {"/": 80}}"#),
    ("webservice", "gateway", r#"{"class": "nginx", "http": {"/": 80}, "name": "second"}"#),
    ("webservice", "resource", r#"{"cpu": 1, "memory": "64Mi"}"#),
    (
        "webservice",
        "resource",
        r#"{"requests": {"cpu": 0.5, "memory": "64Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}}"#,
    ),
    ("webservice", "service-account", r#"{"name": "sa", "create": true}"#),
    ("webservice", "sidecar", r#"{"name": "s", "image": "busybox:1", "cmd": ["sleep", "1"]}"#),
    ("webservice", "startup-probe", r#"{"exec": {"command": ["true"]}, "periodSeconds": 5}"#),
    ("webservice", "storage", r#"{"emptyDir": [{"name": "scratch", "mountPath": "/scratch"}]}"#),
    (
        "webservice",
        "init-container",
        r#"{"name": "i", "image": "busybox:1", "mountName": "m",
        "appMountPath": "/a", "initMountPath": "/i"}"#,
    ),
];

/// The same of components.
const COMPONENTS: [(&str, &str); 9] = [
    ("webservice", r#"{"image": "nginx:1"}"#),
    (
        "webservice",
        r#"{"image": "nginx:1", "ports": [{"port": 80, "expose": true}], "cpu": "1", "memory": "64Mi"}"#,
    ),
    (
        "webservice",
        r#"{"image": "nginx:1", "exposeType": "NodePort", "env": [{"name": "A", "value": "1"}],
        "labels": {"a": "b"}, "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
        "ports": [{"port": 80, "expose": true, "nodePort": 30777}]}"#,
    ),
    ("worker", r#"{"image": "busybox:1", "cmd": ["sleep", "1"]}"#),
    ("worker", r#"{"image": "busybox:1", "env": [{"name": "A", "value": "1"}], "cpu": "1"}"#),
    ("task", r#"{"image": "busybox:1", "cmd": ["true"]}"#),
    ("cron-task", r#"{"image": "busybox:1", "schedule": "0 0 * * *", "cmd": ["true"]}"#),
    ("daemon", r#"{"image": "busybox:1", "cmd": ["sleep", "1"]}"#),
    ("daemon", r#"{"image": "busybox:1", "ports": [{"port": 80, "expose": true}]}"#),
];

/// What they render to.
const KINDS: [(&str, &str); 9] = [
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
];

/// Components and traits of a release by kind and name.
type Release = BTreeMap<(String, String), Value>;

/// Reads the definitions of a release for a namespace.
fn release(folder: &Path, namespace: &str) -> Release {
    let mut found = Release::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        // They are templates of a chart, of which only the namespace is filled in.
        let plain: String = text
            .lines()
            .filter(|line| !line.contains("{{"))
            .fold(String::new(), |text, line| text + line + "\n");
        let Ok(mut definition) = serde_saphyr::from_str::<Value>(&plain) else { continue };
        let kind = definition["kind"].as_str().unwrap_or_default().to_owned();
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if matches!(&*kind, "ComponentDefinition" | "TraitDefinition") {
            definition["metadata"]["namespace"] = json!(namespace);
            found.insert((kind, name), definition);
        }
    }
    found
}

fn applications() -> Vec<Value> {
    let component = |name: &str, kind: &str, properties: &str| {
        let properties: Value = serde_json::from_str(properties).unwrap();
        json!({"name": name, "type": kind, "properties": properties})
    };
    let app = |component: Value| {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": component["name"], "annotations": {"app.oam.dev/autoUpdate": "true"}},
            "spec": {"components": [component]}})
    };
    let plain = COMPONENTS.iter().enumerate();
    let plain = plain
        .map(|(n, (kind, properties))| app(component(&format!("{kind}-{n}"), kind, properties)));
    let with_trait = TRAITS.iter().enumerate().map(|(n, (kind, name, properties))| {
        let properties: Value = serde_json::from_str(properties).unwrap();
        let mut component = component(&format!("{name}-{n}"), kind, r#"{"image": "nginx:1"}"#);
        component["traits"] = json!([{"type": name, "properties": properties}]);
        app(component)
    });
    plain.chain(with_trait).collect()
}

/// The types that an Application uses.
fn types(app: &Value) -> impl Iterator<Item = &str> {
    let kinds = ["/spec/components/0/type", "/spec/components/0/traits/0/type"];
    kinds.into_iter().filter_map(|kind| app.pointer(kind)?.as_str())
}

/// The number of the latest revision of each Application.
async fn revisions(space: &Space) -> BTreeMap<String, Option<i64>> {
    let apps = space.applications().list(&ListParams::default()).await.unwrap();
    let number =
        |app: &DynamicObject| app.data.pointer("/status/latestRevision/revision")?.as_i64();
    apps.items.iter().map(|app| (app.name_any(), number(app))).collect()
}

/// What Applications deployed, by Application: without what the API server, controllers and rollouts note on objects.
async fn objects(space: &Space) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (_, mut value) in deployed(space, &KINDS).await {
        let app = value["metadata"]["labels"]["app.oam.dev/name"].as_str().unwrap().to_owned();
        for notes in ["labels", "annotations"] {
            if let Some(notes) = value["metadata"].get_mut(notes).and_then(Value::as_object_mut) {
                notes.retain(|key, _| !key.contains("oam.dev/") && !key.contains("kubernetes.io/"));
            }
        }
        all.entry(app).or_default().push(value);
    }
    all
}

#[tokio::test]
async fn plans_of_the_history_of_definitions_come_to_pass() {
    let Some(folders) = std::env::var_os("VELA_DEFINITION_HISTORY") else {
        eprintln!("SKIPPED: VELA_DEFINITION_HISTORY does not name the definitions of releases");
        return;
    };
    let space = Space::with_programs("history").await;
    let releases: Vec<Release> =
        std::env::split_paths(&folders).map(|folder| release(&folder, space.name())).collect();
    let apply = async |(kind, name): &(String, String), definition: &Value| {
        let definitions = space.objects("core.oam.dev/v1beta1", kind);
        let params = PatchParams::apply("user").force();
        definitions.patch(name, &params, &Patch::Apply(definition)).await.map(drop)
    };
    for (key, definition) in releases.first().unwrap() {
        apply(key, definition).await.unwrap();
    }
    let mut apps = applications();
    apps.retain(|app| {
        types(app).all(|wanted| releases.first().unwrap().keys().any(|(_, name)| name == wanted))
    });
    for app in &apps {
        let name = app["metadata"]["name"].to_string();
        let app = serde_json::from_value(app.clone()).unwrap();
        // Admission may not know a definition yet.
        until(&format!("{name} is admitted"), Duration::from_secs(30), async || {
            let created = space.applications().create(&PostParams::default(), &app).await;
            created.map_err(|error| eprintln!("{error}")).is_ok()
        })
        .await;
    }
    for app in &apps {
        space.running(app["metadata"]["name"].as_str().unwrap()).await;
    }
    let log = space.cluster().audit_log();
    let (mut edits, mut differences) = (0, Vec::new());
    for (number, pair) in releases.windows(2).enumerate() {
        let [old, new] = pair else { continue };
        for (key, definition) in new {
            if old.get(key).is_none_or(|old| old["spec"] == definition["spec"]) {
                continue;
            }
            let (before, was) = (objects(&space).await, revisions(&space).await);
            let said = match try_plan(&space, Some(definition)).await {
                Ok((_, said)) => said,
                Err(error) => {
                    differences.push(format!("release {number}, {key:?}: no plan: {error}"));
                    continue;
                }
            };
            let of = |field: &str| -> BTreeSet<String> {
                let all = said["definitions"][0][field].as_array().into_iter().flatten();
                let name = |one: &Value| one["app"].as_str()?.rsplit('/').next().map(str::to_owned);
                all.filter_map(name).collect()
            };
            let (changed, broken) = (of("changed"), of("broken"));
            if let Err(error) = apply(key, definition).await {
                differences.push(format!("release {number}, {key:?}: refused: {error}"));
                continue;
            }
            edits += 1;
            // Each revision names its definitions. Who is woken again and again waits up to half a minute.
            let users = apps.iter().filter(|app| types(app).any(|used| *used == key.1));
            let users: Vec<&str> =
                users.filter_map(|app| app["metadata"]["name"].as_str()).collect();
            until(&format!("{key:?} is rolled out"), Duration::from_secs(60), async || {
                let now = revisions(&space).await;
                let mut working = users.iter().filter(|name| !broken.contains(**name));
                working.all(|name| now.get(*name) > was.get(*name))
            })
            .await;
            quiet(&log, Duration::from_secs(3), |entry| {
                entry.namespace == space.name() && entry.is_controllers()
            })
            .await;
            let after = objects(&space).await;
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let really: BTreeSet<String> = names
                .into_iter()
                .filter(|name| before.get(*name) != after.get(*name))
                .cloned()
                .collect();
            let mut fails = BTreeSet::new();
            for app in &apps {
                let name = app["metadata"]["name"].as_str().unwrap();
                let found = space.applications().get(name).await.unwrap();
                if found.data["status"]["status"] != "running" {
                    fails.insert(name.to_owned());
                }
            }
            eprintln!("release {number}, {key:?}: changed {changed:?}, broken {broken:?}");
            if (&really, &fails) != (&changed, &broken) {
                differences.push(format!(
                    "release {number}, {key:?}: said {changed:?} and {broken:?}, became {really:?} and {fails:?}"
                ));
            }
        }
    }
    assert!(edits > 0, "nothing differs between these releases");
    assert!(differences.is_empty(), "{edits} edits\n{}", differences.join("\n"));
}
