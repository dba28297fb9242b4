//! An installation that the reference ran: its stored objects, as they were recorded, on a control plane that our
//! controller takes over. Nothing rolls: no new revision, no change of a workload, the same Pods.
//!
//! Needs the conformance material; every fourth case, all of them with `VELA_LONG_TESTS`. The decisions alone are
//! tested for every recorded state in `controller/tests/upgrade.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Discovery, Scope};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::material;

/// What the cluster makes of other objects itself, or what cannot be created again with the same identity.
const NOT_MADE: [&str; 4] = ["ControllerRevision", "Job", "Pod", "PersistentVolume"];

/// A recorded case that can be created again.
struct Case {
    name: String,
    namespace: String,
    /// In an order in which owners come first.
    objects: Vec<Value>,
}

/// The namespace a case was recorded in: hashes cover it.
fn namespace(case: &str) -> String {
    let digest = Sha256::digest(case.as_bytes());
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("case-{hex}")
}

/// `case` as a whole word becomes the namespace.
fn words(text: &str, namespace: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("case") {
        out.push_str(before);
        let alone = !is_word(out.chars().last()) && !is_word(after.chars().next());
        out.push_str(if alone { namespace } else { "case" });
        rest = after;
    }
    out + rest
}

/// Undoes what the recorder did to names and times, and puts the definitions back.
fn restored(value: &mut Value, namespace: &str, definitions: &BTreeMap<String, Value>) {
    match value {
        Value::String(text) => {
            *text = words(&text.replace("<time>", "2026-01-01T00:00:00Z"), namespace);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| restored(item, namespace, definitions));
        }
        Value::Object(map) => {
            if map.contains_key("$definition") {
                let hash = map.get("sha256").and_then(Value::as_str).unwrap_or_default();
                *value = definitions.get(hash).cloned().unwrap_or_default();
                return restored(value, namespace, &BTreeMap::new());
            }
            map.values_mut().for_each(|item| restored(item, namespace, definitions));
        }
        _ => {}
    }
}

/// The case, if it is one Application that runs and everything of it can be created again.
fn read(dir: &Path, definitions: &BTreeMap<String, Value>) -> Option<Case> {
    let name = dir.file_name()?.to_str()?.to_owned();
    let text = fs::read_to_string(dir.join("snap-1.json")).ok()?;
    if text.contains("case-2") || text.contains("<x*") || text.contains("<rand5>") {
        return None;
    }
    let mut snapshot: Value = serde_json::from_str(&text).ok()?;
    let namespace = namespace(&name);
    restored(&mut snapshot, &namespace, definitions);
    let [app] = snapshot["applications"].as_array()?.as_slice() else { return None };
    let metadata = &app["metadata"];
    let rests = app["status"]["status"] == "running"
        && metadata["generation"] == 1
        && metadata["deletionTimestamp"].is_null()
        && snapshot["trackedButAbsent"].as_array().is_none_or(Vec::is_empty);
    if !rests {
        return None;
    }
    let list = |key: &str| snapshot[key].as_array().cloned().unwrap_or_default();
    let all = list("objects");
    let foreign = |object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // A name that is the server's, another namespace, or a kind that only these cases have.
        name.contains('<')
            || namespace.is_some_and(|found| found != metadata["namespace"])
            || NOT_MADE.contains(&object["kind"].as_str().unwrap_or_default())
    };
    let (definitions, others): (Vec<Value>, Vec<Value>) = all
        .into_iter()
        .partition(|object| object["kind"].as_str().is_some_and(|k| k.ends_with("Definition")));
    if others.iter().chain(&definitions).any(foreign) {
        return None;
    }
    let mut objects = definitions;
    objects.push(app.clone());
    objects.extend(list("applicationRevisions"));
    objects.extend(list("resourceTrackers"));
    // A tracker that waits for its objects to be deleted belongs to a run that has not ended.
    if objects.iter().any(|object| object["metadata"]["deletionTimestamp"].is_string()) {
        return None;
    }
    objects.extend(others);
    Some(Case { name, namespace, objects })
}

/// Replaces recorded uids by those that objects have now.
fn with_uids(value: &mut Value, uids: &BTreeMap<String, String>) {
    match value {
        Value::String(text) if text.starts_with("<uid:") => {
            if let Some(uid) = uids.get(text.as_str()) {
                text.clone_from(uid);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| with_uids(item, uids)),
        Value::Object(map) => map.values_mut().for_each(|item| with_uids(item, uids)),
        _ => {}
    }
}

/// Frees an object of what only a server may set.
fn freed(object: &Value, uids: &BTreeMap<String, String>) -> Value {
    let mut object = object.clone();
    with_uids(&mut object, uids);
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in
        ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"]
    {
        metadata.remove(key);
    }
    if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| !owner["uid"].as_str().unwrap_or_default().starts_with('<'));
    }
    if object["kind"] == "Service"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.retain(|key, _| !matches!(key.as_str(), "clusterIP" | "clusterIPs"));
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    // The recorder shows what it decompressed.
    if gvk(&object).group == "core.oam.dev"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.remove("compression");
    }
    object
}

/// Makes a case; its namespace is new.
async fn make(client: &Client, discovery: &Discovery, case: &Case) -> Result<(), String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": case.namespace}});
    let namespace = serde_json::from_value(namespace).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.map_err(|e| e.to_string())?;
    let mut uids = BTreeMap::new();
    for object in &case.objects {
        let kind = gvk(object);
        let (resource, scope): (ApiResource, Scope) = match discovery.resolve_gvk(&kind) {
            Some((resource, capabilities)) => (resource, capabilities.scope),
            None => return Err(format!("{kind:?} is not served")),
        };
        let api: Api<DynamicObject> = match scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(client.clone(), &case.namespace, &resource),
        };
        let wanted: DynamicObject = serde_json::from_value(freed(object, &uids)).unwrap();
        let how = PostParams::default();
        let made = api.create(&how, &wanted).await;
        let mut made = made.map_err(|e| format!("{} {}: {e}", kind.kind, wanted.name_any()))?;
        if let (Some(old), Some(new)) = (object["metadata"]["uid"].as_str(), made.uid()) {
            uids.insert(old.to_owned(), new);
        }
        let of_ours = kind.group == "core.oam.dev" && object["status"].is_object();
        let has_status = !matches!(
            kind.kind.as_str(),
            "ResourceTracker" | "DefinitionRevision" | "WorkloadDefinition"
        );
        if of_ours && has_status {
            made.data["status"] = object["status"].clone();
            with_uids(&mut made.data, &uids);
            let stored = api.replace_status(&made.name_any(), &how, &made).await;
            stored.map_err(|e| format!("status of {}: {e}", kind.kind))?;
        }
    }
    Ok(())
}

/// The objects of the cases without what the cluster continues writing, by kind, namespace and name.
async fn contents(
    client: &Client,
    discovery: &Discovery,
    cases: &[&Case],
) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let kinds: BTreeMap<String, GroupVersionKind> = cases
        .iter()
        .flat_map(|case| &case.objects)
        .map(gvk)
        .filter(|kind| kind.group != "core.oam.dev")
        .map(|kind| (format!("{kind:?}"), kind))
        .collect();
    let namespaces: BTreeSet<&str> = cases.iter().map(|case| &*case.namespace).collect();
    for kind in kinds.into_values() {
        let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let namespace = object.namespace().unwrap_or_default();
            // What the controller notes for itself is not what an upgrade must leave alone.
            let is_note = kind.kind == "ConfigMap" && object.name_any().starts_with("workflow-");
            if namespaces.contains(&*namespace) && !is_note {
                let (labels, annotations) = (object.labels().clone(), object.annotations().clone());
                let mut data = object.data.clone();
                data.as_object_mut().map(|data| data.remove("status"));
                let content = json!({"data": data, "labels": labels, "annotations": annotations,
                    "uid": object.uid(), "deleting": object.metadata.deletion_timestamp.is_some()});
                all.insert(format!("{} {namespace}/{}", kind.kind, object.name_any()), content);
            }
        }
    }
    all
}

fn gvk(object: &Value) -> GroupVersionKind {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reference_stored_is_taken_over_as_it_is() {
    let Some(material) = material::conformance() else {
        eprintln!("skipped: the conformance material is not beside the workspace");
        return;
    };
    let recordings = material.join("recordings");
    let text =
        fs::read_to_string(recordings.join("controller/embedded-definitions.jsonl")).unwrap();
    let definitions: BTreeMap<String, Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|mut line| (line["sha256"].as_str().unwrap().to_owned(), line["object"].take()))
        .collect();
    let long = std::env::var_os("VELA_LONG_TESTS").is_some();
    let mut dirs: Vec<_> = fs::read_dir(recordings.join("controller/dev"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    dirs.sort();
    let cases: Vec<Case> = dirs.iter().filter_map(|dir| read(dir, &definitions)).collect();
    let cases: Vec<Case> = cases.into_iter().step_by(if long { 1 } else { 4 }).collect();

    let cluster = Cluster::start("upgrade").await.unwrap();
    let options = Options {
        definitions: Some(recordings.join("definitions/builtin/definitions.jsonl")),
        // As the recorded controller ran.
        controller_flags: vec![
            "--advertised-version=v1.11.0-ref".to_owned(),
            "--enable-leader-election=false".to_owned(),
        ],
        values: vec!["authentication.enabled=false".to_owned()],
        ..Options::default()
    };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    assert!(deployed.controller.stop(Duration::from_secs(15)).unwrap());
    deployed.admission.close(&cluster).await.unwrap();
    let client = cluster.client().await.unwrap();
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let (mut made, mut left_out) = (Vec::new(), Vec::new());
    for case in &cases {
        match make(&client, &discovery, case).await {
            Ok(()) => made.push(case),
            Err(text) => left_out.push(format!("{}: {text}", case.name)),
        }
    }
    eprintln!("{} of {} cases made; left out:\n{}", made.len(), cases.len(), left_out.join("\n"));
    assert!(made.len() * 10 >= cases.len() * 8, "only {} cases made", made.len());
    let pods: Api<Pod> = Api::all(client.clone());
    until("Pods that stay", Duration::from_secs(120), async || {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        all.iter().all(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Running" | "Succeeded" | "Failed"))
                || pod.spec.as_ref().is_some_and(|spec| spec.volumes.is_some())
        })
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let names = async || -> BTreeSet<String> {
        let all = pods.list(&ListParams::default()).await.unwrap().items;
        all.iter().map(|pod| format!("{:?}/{}", pod.namespace(), pod.name_any())).collect()
    };
    let running = names().await;
    let before = contents(&client, &discovery, &made).await;
    let log = cluster.audit_log();
    let from = audit::position(&log).unwrap();
    deployed.controller.start(&cluster).unwrap();
    deployed.controller.ready().await.unwrap();
    let checked = u32::try_from(made.len()).unwrap();
    until("a look at every Application", Duration::from_secs(120), async || {
        let reconciles =
            deployed.controller.metric("application_reconcile_time_seconds_count").await;
        reconciles.is_ok_and(|reconciles| reconciles >= f64::from(checked))
    })
    .await;
    // What a reconcile decided to write would be in flight now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (mut changes, mut patches) = (Vec::new(), Vec::new());
    for entry in audit::read(&log, from).unwrap() {
        let ours = entry.is_controllers() && entry.is_write() && entry.code < 300;
        let case = made.iter().find(|case| entry.namespace == case.namespace);
        let Some(case) = case.filter(|_| ours) else { continue };
        let line = format!("{}: {} {} {}", case.name, entry.verb, entry.resource, entry.name);
        match entry.resource.as_str() {
            "events" | "applications/status" => {}
            // The schema of a definition for which the reference could make none.
            "configmaps" if entry.name.contains("-schema-") => {}
            "applicationrevisions" if entry.verb == "create" => changes.push(line),
            "applicationrevisions" | "applicationrevisions/status" => {}
            _ if matches!(entry.verb.as_str(), "create" | "delete") => changes.push(line),
            _ => patches.push(line),
        }
    }
    let after = contents(&client, &discovery, &made).await;
    for (object, content) in &before {
        if after.get(object) != Some(content) {
            changes.push(format!("{object}: {} instead of {content}", json!(after.get(object))));
        }
    }
    eprintln!("{} objects; patches that change nothing: {patches:#?}", before.len());
    assert!(changes.is_empty(), "{}", changes.join("\n"));
    // Where a value is written in another form than the server stores it in.
    assert!(patches.len() * 8 <= before.len(), "{} patches of {}", patches.len(), before.len());
    assert_eq!(running, names().await, "Pods were made anew");
    deployed.stop(Duration::from_secs(10)).unwrap();
    cluster.stop();
}
