//! `vela-controller plan` against a real API server: what it says comes to pass, object by object, and it writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::fixtures::{Space, binaries, quiet, until};

/// User agent of the commands.
const AGENT: &str = "vela-command/";

/// Runs a plan of an Application or a definition, or of all Applications. Returns the exit code and what it says as JSON.
async fn plan(space: &Space, object: Option<&Value>) -> (i32, Value) {
    try_plan(space, object).await.unwrap()
}

/// Runs the command against a cluster, with an object in a file of this name if there is one. Returns how it ended and what it
/// printed.
pub(crate) async fn command(
    cluster: &Cluster,
    object: Option<(&str, &Value)>,
    arguments: &[&str],
) -> Output {
    let mut command = Command::new(binaries().controller);
    command.arg("plan").arg("--kubeconfig").arg(cluster.kubeconfig());
    if let Some((name, object)) = object {
        let file = cluster.dir().join(name);
        std::fs::write(&file, object.to_string()).unwrap();
        command.arg("-f").arg(file);
    }
    command.args(arguments);
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

/// As [`plan`]; the error is what it printed instead of a plan.
pub(crate) async fn try_plan(
    space: &Space,
    object: Option<&Value>,
) -> Result<(i32, Value), String> {
    let file = format!("{}.json", space.name());
    let object = object.map(|object| (file.as_str(), object));
    let mut arguments = vec!["-o", "json", "--namespace", space.name()];
    arguments.extend(object.is_none().then_some("--all"));
    let output = command(space.cluster(), object, &arguments).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = serde_json::from_str(&text)
        .map_err(|_| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code().unwrap(), said))
}

/// What Applications deployed of some kinds, each with its kind, without what the API server and controllers count and report.
pub(crate) async fn deployed(space: &Space, kinds: &[(&str, &str)]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (version, kind) in kinds {
        let params = ListParams::default().labels("app.oam.dev/component");
        for object in space.objects(version, kind).list(&params).await.unwrap().items {
            let mut value = serde_json::to_value(&object).unwrap();
            value.as_object_mut().unwrap().remove("status");
            let metadata = value["metadata"].as_object_mut().unwrap();
            for key in ["resourceVersion", "generation", "managedFields"] {
                metadata.remove(key);
            }
            // Objects of a list do not say their kind.
            all.push(((*kind).to_owned(), value));
        }
    }
    all
}

/// The same by kind and name, also without the notes of rollouts.
async fn objects(space: &Space) -> BTreeMap<(String, String), Value> {
    let kinds =
        [("v1", "ConfigMap"), ("v1", "Secret"), ("v1", "Service"), ("apps/v1", "Deployment")];
    let mut all = BTreeMap::new();
    for (kind, mut value) in deployed(space, &kinds).await {
        let annotations = value["metadata"].get_mut("annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove("deployment.kubernetes.io/revision");
            annotations.remove("app.oam.dev/last-applied-time");
        }
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        all.insert((kind, name), value);
    }
    all
}

/// What happened between two states, as a plan names it.
fn happened(
    before: &BTreeMap<(String, String), Value>,
    after: &BTreeMap<(String, String), Value>,
) -> BTreeMap<(String, String), &'static str> {
    let mut out = BTreeMap::new();
    for (key, old) in before {
        match after.get(key) {
            None => out.insert(key.clone(), "delete"),
            Some(new) if new != old => out.insert(key.clone(), "change"),
            Some(_) => None,
        };
    }
    out.extend(
        after.keys().filter(|key| !before.contains_key(*key)).map(|key| (key.clone(), "add")),
    );
    out
}

/// The same of a plan. What is only noted on an object changes it too.
fn planned(plan: &Value) -> BTreeMap<(String, String), &'static str> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = plan["applications"][0]["changes"].as_array().unwrap();
    changes
        .iter()
        .map(|change| {
            let verb = match change["verb"].as_str().unwrap() {
                "add" => "add",
                "delete" => "delete",
                _ => "change",
            };
            ((text(&change["kind"]), text(&change["name"])), verb)
        })
        .collect()
}

fn web(image: &str, extra: &[Value]) -> Value {
    let web = json!({"name": "web", "type": "webservice", "properties": {
        "image": image, "ports": [{"port": 80, "expose": true}]}});
    let mut components = vec![web];
    components.extend_from_slice(extra);
    json!(components)
}

fn map(name: &str, value: &str) -> Value {
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}})
}

fn secret(value: &str) -> Value {
    json!({"name": "key", "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": value}}]}})
}

#[tokio::test]
async fn a_plan_comes_to_pass_and_writes_nothing() {
    let space = Space::with_programs("plan").await;
    let log = space.cluster().audit_log();
    let from = audit::position(&log).unwrap();
    let steps: [Value; 4] = [
        web("nginx:1.28", &[map("kept", "1"), map("left", "1"), secret("hunter-one")]),
        web("nginx:1.29", &[map("kept", "1"), map("new", "1"), secret("hunter-two")]),
        web("nginx:1.29", &[map("kept", "2"), map("new", "1"), secret("hunter-two")]),
        json!([map("kept", "2")]),
    ];
    for (n, components) in steps.iter().enumerate() {
        let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "shop"}, "spec": {"components": components}});
        let before = objects(&space).await;
        let (code, said) = plan(&space, Some(&app)).await;
        assert_eq!(code, 2, "{said:#}");
        assert!(!said.to_string().contains("hunter"), "{said:#}");
        assert_eq!(objects(&space).await, before, "a plan changes nothing");
        if n == 0 {
            space.create("shop", components.clone()).await.unwrap();
        } else {
            let patch = Patch::Merge(json!({"spec": {"components": components}}));
            let api = space.applications();
            api.patch("shop", &PatchParams::default(), &patch).await.unwrap();
        }
        space.running("shop").await;
        until("what left the spec is gone", Duration::from_secs(30), async || {
            happened(&before, &objects(&space).await).len() >= planned(&said).len()
        })
        .await;
        let after = objects(&space).await;
        assert_eq!(happened(&before, &after), planned(&said), "{said:#}");
        let (code, said) = plan(&space, Some(&app)).await;
        assert_eq!(code, 0, "{said:#}");
        let (code, said) = plan(&space, None).await;
        assert_eq!(code, 0, "a settled cluster: {said:#}");
        assert_eq!(said["applications"][0]["changes"], json!([]), "{said:#}");
    }
    let entries = audit::read(&log, from).unwrap();
    let own: Vec<_> = entries.iter().filter(|entry| entry.agent.starts_with(AGENT)).collect();
    assert!(own.iter().any(|entry| entry.is_write() && entry.dry_run), "it tries out writes");
    let wrong: Vec<_> = own.iter().filter(|entry| entry.is_write() && !entry.dry_run).collect();
    assert!(wrong.is_empty(), "a plan wrote: {wrong:#?}");
}

#[tokio::test]
async fn what_is_refused_is_reported() {
    let space = Space::with_programs("plan").await;
    let app = |component: Value| {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "bad"}, "spec": {"components": [component]}})
    };
    // By the webhook.
    let (code, said) = plan(&space, Some(&app(json!({"name": "a", "type": "no-such-type"})))).await;
    assert_eq!(code, 3, "{said:#}");
    assert_eq!(said["applications"][0]["denied"], true, "{said:#}");
    // No record of it can have its name as a label.
    let mut long = app(map("long", "1"));
    long["metadata"]["name"] = json!("n".repeat(64));
    let (code, said) = plan(&space, Some(&long)).await;
    assert_eq!(code, 3, "{said:#}");
    let mut huge = map("huge", &"v".repeat(1 << 20));
    huge["name"] = json!("huge");
    let (code, said) = plan(&space, Some(&app(huge))).await;
    assert_eq!((code, &said["applications"][0]["denied"]), (3, &json!(true)), "{said:#}");
    // By the API server, object by object.
    let mut bad = map("bad", "1");
    bad["properties"]["objects"][0]["metadata"]["labels"] = json!({"a": "not a label!"});
    let (code, said) = plan(&space, Some(&app(bad))).await;
    assert_eq!(code, 3, "{said:#}");
    assert_eq!(said["applications"][0]["refused"][0]["name"], "bad", "{said:#}");
}

/// A version of a definition: the default of `replicas`, what images are allowed, and what else its template has; `secured`: those
/// that ask for it get a security context.
fn version(replicas: u8, image: &str, secured: bool, more: &str) -> String {
    let context =
        if secured { "if parameter.secure {securityContext: runAsNonRoot: true}" } else { "" };
    format!(
        r#"output: {{apiVersion: "apps/v1", kind: "Deployment", spec: {{replicas: parameter.replicas
            selector: matchLabels: app: context.name
            template: {{metadata: labels: app: context.name
                spec: containers: [{{name: context.name, image: parameter.image
                    {context}}}]}}}}}}
        parameter: {{image: {image}, replicas: *{replicas} | int, secure: *false | bool}}
        {more}"#
    )
}

/// The first version, with everything in another order.
const REORDERED: &str = r#"parameter: {image: string, replicas: *1 | int, secure: *false | bool}
    output: {kind: "Deployment", apiVersion: "apps/v1", spec: {selector: matchLabels: app: context.name
        replicas: parameter.replicas
        template: {metadata: labels: app: context.name
            spec: containers: [{image: parameter.image, name: context.name}]}}}"#;

const SETTINGS: &str = r#"outputs: settings: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.name
    data: v: "1"}"#;

#[tokio::test]
async fn what_an_edit_of_a_definition_is_said_to_change_is_what_changes() {
    let space = Space::with_programs("impact").await;
    let definition = |template: &str| {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
            "metadata": {"name": "site", "namespace": space.name()},
            "spec": {"workload": {"definition": {"apiVersion": "apps/v1", "kind": "Deployment"}},
                "schematic": {"cue": {"template": template}}}})
    };
    let definitions = space.objects("core.oam.dev/v1beta1", "ComponentDefinition");
    let apply = async |object: &Value| {
        let params = PatchParams::apply("user").force();
        definitions.patch("site", &params, &Patch::Apply(object)).await.unwrap();
    };
    apply(&definition(&version(1, "string", false, ""))).await;
    let edits = [
        REORDERED.to_owned(),
        version(1, "string", true, ""),
        version(2, "string", true, ""),
        version(2, r#"=~":""#, true, SETTINGS),
    ];
    let apps = [
        ("plain", json!({"image": "nginx:1"})),
        ("secure", json!({"image": "nginx:1", "secure": true, "replicas": 1})),
        ("sized", json!({"image": "nginx:1", "replicas": 3})),
        ("untagged", json!({"image": "nginx", "replicas": 1})),
    ];
    for (name, properties) in &apps {
        let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": name, "annotations": {"app.oam.dev/autoUpdate": "true"}},
            "spec": {"components": [{"name": name, "type": "site", "properties": properties}]}});
        let app = serde_json::from_value(app).unwrap();
        // Admission may not know the definition yet.
        until("the definition is known", Duration::from_secs(30), async || {
            space.applications().create(&PostParams::default(), &app).await.is_ok()
        })
        .await;
    }
    for (name, _) in &apps {
        space.running(name).await;
    }
    let log = space.cluster().audit_log();
    for (edit, template) in edits.iter().enumerate() {
        let new = definition(template);
        // Every rollout notes its revision on each object.
        let contents = async || {
            let mut all = objects(&space).await;
            for object in all.values_mut() {
                object.as_object_mut().unwrap().remove("metadata");
            }
            all
        };
        let before = contents().await;
        let (_, said) = plan(&space, Some(&new)).await;
        let of = |key: &str| -> BTreeSet<String> {
            let all = said["definitions"][0][key].as_array().unwrap();
            let name =
                |one: &Value| one["app"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            all.iter().map(name).collect()
        };
        let (changed, broken) = (of("changed"), of("broken"));
        // Each object is named as its Application.
        let really = async || -> BTreeSet<String> {
            happened(&before, &contents().await).into_keys().map(|(_, name)| name).collect()
        };
        apply(&new).await;
        // All that is said has to come, and then nothing more. Who is woken again and again waits up to half a minute.
        until(
            &format!("edit {edit} is rolled out: {said:#}"),
            Duration::from_secs(60),
            async || really().await.is_superset(&changed),
        )
        .await;
        quiet(&log, Duration::from_secs(3), |entry| {
            entry.namespace == space.name() && entry.is_controllers()
        })
        .await;
        let really = really().await;
        assert_eq!(really, changed, "edit {edit}: {said:#}");
        for (name, _) in &apps {
            let app = space.applications().get(name).await.unwrap();
            let runs = app.data["status"]["status"] == "running";
            assert_eq!(!runs, broken.contains(*name), "edit {edit}, {name}: {said:#}");
        }
    }
}
