//! Upgrade: what the reference stored is adopted as it is. For every recorded snapshot of a settled Application: its tracker
//! is found, no new revision is made, and state-keep writes nothing.
//!
//! The recordings lie next to the repository (`../shared`, or where `VELA_CONFORMANCE` points); without them the test says so
//! and passes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test reports to people")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};
use vela_api::{Application, ApplicationRevision, ResourceTracker};
use vela_apply::plan::{self, Options, Write};
use vela_apply::policy::Stage;
use vela_apply::tracker::{Run, key_of};
use vela_apply::{Owner, ResourceKey, ResourcePolicies};
use vela_cluster::{Packed, Store};
use vela_controller::application::facts::{self, properties};
use vela_controller::application::revision::{self, Choice};
use vela_controller::application::trackers::{self, Trackers};

/// Cases in which the plan is not empty, and why that is right.
const EXCUSED: [(&str, &str); 34] = [
    // The server stores these in another form than they are written in: a patch that changes nothing, sent once.
    ("c-daemon-02", "quantities"),
    ("c-k8s-objects-01", "quantities and empty values"),
    ("c-outputs-aux", "stringData"),
    ("c-raw-03", "stringData"),
    ("c-task-01", "empty values"),
    ("c-trait-command-02", "empty values"),
    ("c-trait-configmap-01", "empty values"),
    ("c-trait-cpuscaler-02", "an older version of the kind"),
    ("c-trait-hpa-01", "the server sorts"),
    ("c-trait-resource-01", "quantities"),
    ("c-trait-startup-probe-01", "zero values"),
    ("c-trait-storage-03", "empty values"),
    ("c-webservice-03", "quantities"),
    ("c-webservice-04", "empty values"),
    ("c-webservice-05", "quantities"),
    ("c-webservice-11", "zero values"),
    ("c-webservice-14", "quantities"),
    ("c-webservice-16", "quantities"),
    ("f-missing-name", "empty values"),
    ("f-trait-on-wrong-workload", "fields the kind does not have"),
    ("f-unknown-field-in-deployment", "fields the kind does not have"),
    ("p-custom-policy", "stringData"),
    ("w-export-data", "stringData"),
    ("w-export2secret", "stringData"),
    // The reference left something to do.
    ("l-namespace-deleted", "the namespace is gone"),
    ("l-remove-all-components", "there is nothing to track"),
    ("l-rt-deleted-by-hand", "the reference deleted everything"),
    ("p-shared-drift", "drift of a shared object"),
    ("p-shared-removed-from-spec", "the next owner takes over"),
    ("p-shared-three-apps", "a sharer was lost"),
    ("w-restart-annotation-duration-then-edit", "the reference deleted everything"),
    ("w-restart-annotation-future-then-edit", "the reference deleted everything"),
    // What the recorder did to the snapshot.
    ("l-big-configmap", "a long value is abbreviated"),
    ("w-depends-on-app-configmap", "a step's object, whose owner labels are another Application's"),
];

fn recordings() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let dir = std::env::var_os("VELA_CONFORMANCE")
        .map_or_else(
            || workspace.parent().map(|parent| parent.join("shared")),
            |dir| Some(dir.into()),
        )?
        .join("recordings/controller/dev");
    dir.is_dir().then_some(dir)
}

/// The namespace a case was recorded in: hashes cover it.
fn namespace(case: &str) -> String {
    let digest = Sha256::digest(case.as_bytes());
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("case-{hex}")
}

/// Undoes what the recorder did to names and times.
fn restored(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) => {
            if text == "<time>" {
                "2026-01-01T00:00:00Z".clone_into(text);
            } else if text.contains("case") {
                *text = words(text, namespace);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| restored(item, namespace)),
        Value::Object(map) => map.values_mut().for_each(|item| restored(item, namespace)),
        _ => {}
    }
}

/// `case` as a whole word becomes the namespace.
fn words(text: &str, namespace: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("case") {
        let (before, after) = rest.split_at(at);
        let after = &after[4..];
        out.push_str(before);
        let alone = !is_word(out.chars().last()) && !is_word(after.chars().next());
        out.push_str(if alone { namespace } else { "case" });
        rest = after;
    }
    out + rest
}

/// What the test found in one snapshot.
fn problems(snapshot: &Value) -> Vec<String> {
    let list = |key: &str| snapshot[key].as_array().cloned().unwrap_or_default();
    let objects: BTreeMap<ResourceKey, Value> =
        list("objects").into_iter().map(|object| (ResourceKey::of(&object, ""), object)).collect();
    let mut out = Vec::new();
    for raw in list("applications") {
        let app: Application = serde_json::from_value(raw).expect("an Application");
        if app.status.phase != "running"
            || app.status.observed_generation != app.metadata.generation.unwrap_or_default()
            || app.metadata.deletion_timestamp.is_some()
            || !app.status.conditions.iter().all(|condition| condition.is_true())
        {
            continue;
        }
        let owner = Owner {
            namespace: app.metadata.namespace.clone().unwrap_or_default(),
            name: app.metadata.name.clone().unwrap_or_default(),
        };
        out.extend(revision_problems(&app, &owner, &list("applicationRevisions")));
        out.extend(object_problems(&app, &owner, &list("resourceTrackers"), &objects));
    }
    out
}

fn revision_problems(app: &Application, owner: &Owner, revisions: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    for raw in revisions {
        let mut raw = raw.clone();
        let spec = raw["spec"].as_object_mut().expect("a spec");
        spec.remove("compression");
        // Definitions are cut out of the recordings; without auto-update they do not count.
        spec.retain(|key, _| !key.ends_with("Definitions"));
        let revision: ApplicationRevision = serde_json::from_value(raw).expect("a revision");
        if facts::label(&revision.metadata, "app.oam.dev/name") == owner.name {
            all.push(revision);
        }
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let publish = facts::publish_version(&app.metadata);
    let Some(stored) = all.iter().find(|r| r.metadata.name.as_deref() == Some(&latest)) else {
        return vec![format!("revision {latest} is not there")];
    };
    let (policies, workflow) = (stored.spec.policies.clone(), stored.spec.workflow.clone());
    let wanted = revision::snapshot(app, policies, workflow);
    let choice = revision::choose(&wanted, publish, &latest, &all, false);
    let pinned = !publish.is_empty() && facts::publish_version(&stored.metadata) == publish;
    if pinned || choice == Choice::Latest {
        Vec::new()
    } else {
        vec![format!("{latest} is not taken for the spec's revision: {choice:?}")]
    }
}

fn object_problems(
    app: &Application,
    owner: &Owner,
    raw: &[Value],
    objects: &BTreeMap<ResourceKey, Value>,
) -> Vec<String> {
    let store = Store::default();
    for (index, raw) in raw.iter().enumerate() {
        let mut raw = raw.clone();
        raw["spec"].as_object_mut().expect("a spec").remove("compression");
        raw["metadata"]["resourceVersion"] = Value::String((index + 1).to_string());
        let tracker: ResourceTracker = serde_json::from_value(raw).expect("a tracker");
        store.put(Packed::of(&tracker)).expect("new");
    }
    let who = trackers::TrackedApplication {
        name: owner.name.clone(),
        namespace: owner.namespace.clone(),
        ..trackers::TrackedApplication::default()
    };
    let trackers = Trackers::read(&store, who, "", false).expect("readable");
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.clone()).unwrap_or_default();
    let run = Run {
        generation: app.metadata.generation.unwrap_or_default(),
        publish_version: facts::publish_version(&app.metadata),
        revision: &latest,
    };
    let current = trackers.current(run);
    if current.is_empty() && !app.status.applied_resources.is_empty() {
        return vec!["the current tracker is not found".to_owned()];
    }
    let values: Vec<_> = app
        .spec
        .policies
        .iter()
        .map(|policy| (policy.type_.as_str(), properties(policy.properties.as_ref())))
        .collect();
    let (policies, _) = ResourcePolicies::parse(values.iter().map(|(ty, v)| (*ty, v.as_ref())));
    if policies.is_metadata_only() {
        return Vec::new();
    }
    let mut out = Vec::new();
    for record in trackers.desired(&current) {
        let key = key_of(record);
        let Some(manifest) = record.raw.as_ref().map(vela_api::RawExtension::to_value) else {
            continue;
        };
        if policies.is_read_only(&manifest) {
            continue;
        }
        let live = objects.get(&key);
        let previous = trackers.previous(&key, &manifest);
        let options = Options {
            owner,
            policies: &policies,
            stage: Stage::StateKeep,
            adopt_unowned: false,
            replace_by_default: false,
            now: "2026-01-02T00:00:00Z",
            previous: previous.as_ref(),
        };
        let write = plan::prepare(&manifest, live, &options)
            .and_then(|prepared| plan::plan(&prepared, live, &options));
        if !matches!(write, Ok(Write::Skip)) {
            let text = format!("{write:?}").replace('\\', "");
            let text: String = text.chars().take(300).collect();
            out.push(format!("{} {}: {text}", record.kind, record.name));
        }
    }
    out
}

#[test]
fn what_the_reference_stored_is_adopted_without_a_write() {
    let Some(dir) = recordings() else {
        println!("skipped: the recordings are not beside the workspace");
        return;
    };
    let (mut checked, mut failed) = (0, Vec::new());
    let mut cases: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).collect();
    cases.sort_by_key(std::fs::DirEntry::file_name);
    for case in cases {
        let name = case.file_name().to_string_lossy().into_owned();
        if EXCUSED.iter().any(|(excused, _)| *excused == name) || !case.path().is_dir() {
            continue;
        }
        for file in std::fs::read_dir(case.path()).unwrap() {
            let path = file.unwrap().path();
            let is_snapshot = path.file_name().unwrap().to_string_lossy().starts_with("snap-");
            if !is_snapshot {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let mut snapshot: Value = serde_json::from_str(&text).unwrap();
            restored(&mut snapshot, &namespace(&name));
            checked += 1;
            for problem in problems(&snapshot) {
                let file = path.file_name().unwrap().to_string_lossy().into_owned();
                failed.push(format!("{name} {file}: {problem}"));
            }
        }
    }
    println!("{checked} snapshots");
    assert!(checked > 600, "only {checked} snapshots");
    assert!(failed.is_empty(), "{} problems:\n{}", failed.len(), failed.join("\n"));
}
