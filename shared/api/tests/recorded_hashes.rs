//! Every hash in the recordings of the reference, computed again.
//!
//! The recordings turn the real namespace `case-<8 hex digits>` back into `case`, and hashes were
//! made with the real name. So a value is tried as recorded, with texts that are exactly `case`
//! turned into the real name, and with every word `case` turned.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use vela_api::hash::{self, GoHash};
use vela_api::names::{definition_type, label};
use vela_api::revision::ApplicationRevisionSpec;
use vela_api::{DefinitionRevision, RawExtension};

/// Values that cannot be computed again from what was recorded, each with its reason.
const EXCEPT: &[(&str, &str)] = &[
    ("f-too-big-configmap", "the recording shortens the text that was hashed"),
    ("l-big-configmap", "the recording shortens the text that was hashed"),
    ("l-stepdef-edit/snap-2", "the reference rewrote the stored revision, not its hash"),
    ("l-stepdef-edit/snap-3", "the reference rewrote the stored revision, not its hash"),
    ("l-traitdef-edit/snap-2", "the reference rewrote the stored revision, not its hash"),
    ("l-traitdef-edit/snap-3", "the reference rewrote the stored revision, not its hash"),
];

/// Render hashes only: the live object was rendered by another revision than the tracker records,
/// or a policy changed the manifest between record and hash, or a name holds a random part.
const EXCEPT_RENDER: &[(&str, &str)] = &[
    ("k-up-publish-version", "a time is part of the hashed object"),
    ("p-apply-once-rules-always-star", "the policy takes the live object as manifest"),
    ("p-apply-once-rules-array-path", "the policy copies live values into the manifest"),
    ("p-apply-once-rules-onstatekeep", "the policy copies live values into the manifest"),
    ("p-shared-removed-from-spec", "ownership moved on; the hash is of the former owner's object"),
    ("w-depends-on-app-configmap", "a time is part of the hashed object"),
    ("w-restart-step-definition", "a name holds a random id"),
];

#[derive(Default)]
struct Score {
    equal: usize,
    failed: Vec<String>,
    excepted: usize,
}

impl Score {
    fn count(&mut self, location: &str, equal: bool, except: &[&[(&str, &str)]]) {
        if equal {
            self.equal += 1;
        } else if except
            .iter()
            .any(|list| list.iter().any(|(prefix, _)| location.starts_with(prefix)))
        {
            self.excepted += 1;
        } else {
            self.failed.push(location.to_owned());
        }
    }

    /// `least` guards against a test that compares nothing.
    fn finish(self, what: &str, least: usize) {
        println!("{what}: {} equal, {} excepted", self.equal, self.excepted);
        assert!(
            self.failed.is_empty(),
            "{what}: {} equal, {} differ:\n{}",
            self.equal,
            self.failed.len(),
            self.failed.join("\n")
        );
        assert!(self.equal >= least, "{what}: only {} compared, expected {least}", self.equal);
    }
}

fn material() -> Option<PathBuf> {
    let folder = std::env::var_os("VELA_CONFORMANCE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    if folder.join("recordings").is_dir() {
        return Some(folder.join("recordings"));
    }
    println!("SKIPPED: 2,200 recorded hashes: no conformance material at {}", folder.display());
    None
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .expect("readable")
        .lines()
        .map(|line| serde_json::from_str(line).expect("json"))
        .collect()
}

/// `case/snap-n` and content of every snapshot below a folder.
fn snapshots(folder: &Path) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for case in std::fs::read_dir(folder).expect("readable").flatten() {
        let Ok(files) = std::fs::read_dir(case.path()) else { continue };
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let Some(step) = name.strip_suffix(".json").filter(|n| n.starts_with("snap-")) else {
                continue;
            };
            let text = std::fs::read_to_string(file.path()).expect("readable");
            let location = format!("{}/{step}", case.file_name().to_string_lossy());
            all.push((location, serde_json::from_str(&text).expect("json")));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn objects<'a>(snapshot: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    snapshot.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The value as recorded and with the real namespace, both ways.
fn variants(value: &Value, location: &str) -> [Value; 3] {
    let case = location.split('/').next().expect("a case");
    let real = format!("case-{}", &sha256_hex(case)[..8]);
    let exact = |text: &str| if text == "case" { real.clone() } else { text.to_owned() };
    let words = |text: &str| replace_word(text, "case", &real);
    [value.clone(), map_text(value, &exact), map_text(value, &words)]
}

fn map_text(value: &Value, f: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => f(text).into(),
        Value::Array(items) => items.iter().map(|item| map_text(item, f)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (f(key), map_text(value, f))).collect()
        }
        other => other.clone(),
    }
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, found) = rest.split_at(at);
        let after = &found[word.len()..];
        out.push_str(before);
        let whole = !out.ends_with(is_word) && !after.starts_with(is_word);
        out.push_str(if whole { by } else { word });
        rest = after;
    }
    out + rest
}

fn sha256_hex(text: &str) -> String {
    use sha2::Digest as _;
    use std::fmt::Write as _;
    sha2::Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Puts the definitions back that the recorder cut out.
fn with_definitions(value: &Value, cut: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::Object(fields) if fields.contains_key("$definition") => {
            cut[fields["sha256"].as_str().expect("a hash")].clone()
        }
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), with_definitions(value, cut))).collect()
        }
        other => other.clone(),
    }
}

fn cut_definitions(recordings: &Path) -> BTreeMap<String, Value> {
    lines(&recordings.join("controller/embedded-definitions.jsonl"))
        .into_iter()
        .map(|line| (line["sha256"].as_str().expect("a hash").to_owned(), line["object"].clone()))
        .collect()
}

fn definition_hash(revision: &DefinitionRevision) -> String {
    let spec = &revision.spec;
    match spec.definition_type.as_str() {
        definition_type::COMPONENT => spec.component_definition.spec.hash_text(),
        definition_type::TRAIT => spec.trait_definition.spec.hash_text(),
        definition_type::POLICY => spec.policy_definition.spec.hash_text(),
        definition_type::WORKFLOW_STEP => spec.workflow_step_definition.spec.hash_text(),
        other => panic!("unknown definition type {other}"),
    }
}

#[test]
fn builtin_definitions() {
    let Some(recordings) = material() else { return };
    let definitions = lines(&recordings.join("definitions/builtin/definitions.jsonl"));
    let mut score = Score::default();
    for mut line in lines(&recordings.join("definitions/builtin/definition-revisions.jsonl")) {
        let name = line["metadata"]["name"].as_str().expect("a name").to_owned();
        for key in ["component", "trait", "policy", "workflowStep"] {
            let embedded = &mut line["spec"][format!("{key}Definition")];
            let same = embedded["spec"]["$same_spec_as"].as_str().map(str::to_owned);
            if let Some((kind, of)) = same.as_deref().and_then(|same| same.split_once('/')) {
                let definition = definitions
                    .iter()
                    .find(|d| d["kind"] == kind && d["metadata"]["name"] == of)
                    .expect("recorded");
                embedded["spec"] = definition["spec"].clone();
            }
        }
        let revision: DefinitionRevision = serde_json::from_value(timeless(&line)).expect("fits");
        let equal = definition_hash(&revision) == revision.spec.revision_hash;
        score.count(&name, equal, &[]);
    }
    score.finish("built-in definitions", 90);
}

#[test]
fn definition_revisions() {
    let Some(recordings) = material() else { return };
    let cut = cut_definitions(&recordings);
    let mut score = Score::default();
    for folder in ["definitions/dev", "controller/dev"] {
        for (location, snapshot) in snapshots(&recordings.join(folder)) {
            for object in objects(&snapshot, "objects") {
                if object["kind"] != "DefinitionRevision" {
                    continue;
                }
                let object = with_definitions(object, &cut);
                let revision: DefinitionRevision =
                    serde_json::from_value(timeless(&object)).expect("fits");
                let equal = definition_hash(&revision) == revision.spec.revision_hash;
                score.count(&location, equal, &[]);
            }
        }
    }
    score.finish("definition revisions", 400);
}

/// Recorded times are placeholders; the hashed parts hold none.
fn timeless(object: &Value) -> Value {
    map_text(object, &|text| match text {
        "<time>" => "2026-01-02T03:04:05Z".to_owned(),
        text => text.to_owned(),
    })
}

#[test]
fn application_revisions() {
    let Some(recordings) = material() else { return };
    let cut = cut_definitions(&recordings);
    let mut score = Score::default();
    for (location, snapshot) in snapshots(&recordings.join("controller/dev")) {
        for object in objects(&snapshot, "applicationRevisions") {
            let Some(want) = object["metadata"]["labels"][label::APP_REVISION_HASH].as_str() else {
                continue;
            };
            let object = with_definitions(object, &cut);
            let equal = variants(&object["spec"], &location).iter().any(|spec| {
                // Definitions are not subject to the renaming of the namespace.
                let mut spec = spec.clone();
                for (key, value) in object["spec"].as_object().expect("object") {
                    if key.ends_with("Definitions") {
                        spec[key.as_str()] = value.clone();
                    }
                }
                let spec: ApplicationRevisionSpec =
                    serde_json::from_value(timeless(&spec)).expect("fits");
                hash::application_revision(&spec) == want
            });
            score.count(&location, equal, &[EXCEPT]);
        }
    }
    score.finish("application revisions", 800);
}

#[test]
fn render_hashes() {
    let Some(recordings) = material() else { return };
    let mut score = Score::default();
    for (location, snapshot) in snapshots(&recordings.join("controller/dev")) {
        let id = |object: &Value, metadata: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (
                text(&object["apiVersion"]),
                text(&object["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"]),
            )
        };
        let mut recorded: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        for tracker in objects(&snapshot, "resourceTrackers") {
            for resource in objects(&tracker["spec"], "managedResources") {
                if let Some(raw) = resource.get("raw") {
                    recorded.entry(id(resource, resource)).or_default().push(raw.clone());
                }
            }
        }
        for object in objects(&snapshot, "objects") {
            let Some(want) = object["metadata"]["labels"][label::RENDER_HASH].as_str() else {
                continue;
            };
            let Some(raws) = recorded.get(&id(object, &object["metadata"])) else { continue };
            let equal = raws
                .iter()
                .flat_map(|raw| variants(raw, &location))
                // Through the type trackers store, so that its canonical form is tested too.
                .any(|raw| hash::render(&RawExtension::new(&raw).to_value()) == want);
            score.count(&location, equal, &[EXCEPT, EXCEPT_RENDER]);
        }
    }
    score.finish("render hashes", 880);
}

#[test]
fn trait_names() {
    let Some(recordings) = material() else { return };
    const KEPT: [&str; 5] = [
        label::APP_NAME,
        label::APP_COMPONENT,
        label::REPLICA_KEY,
        label::TRAIT_TYPE,
        label::TRAIT_RESOURCE,
    ];
    let mut score = Score::default();
    let mut seen = BTreeSet::new();
    for (location, snapshot) in snapshots(&recordings.join("controller/dev")) {
        for tracker in objects(&snapshot, "resourceTrackers") {
            for resource in objects(&tracker["spec"], "managedResources") {
                let Some(raw) = resource.get("raw") else { continue };
                let text = |key: &str| {
                    raw["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned()
                };
                let (component, trait_type) = (text(label::APP_COMPONENT), text(label::TRAIT_TYPE));
                let name = resource["name"].as_str().expect("a name").to_owned();
                let start = format!("{component}-{}-", trait_type.to_lowercase());
                if trait_type.is_empty() || !name.starts_with(&start) {
                    continue;
                }
                if !seen.insert((location.clone(), name.clone())) {
                    continue;
                }
                let equal = variants(raw, &location).into_iter().any(|mut raw| {
                    let metadata = raw["metadata"].as_object_mut().expect("metadata");
                    metadata.remove("name");
                    metadata.remove("namespace");
                    metadata.remove("annotations");
                    metadata["labels"]
                        .as_object_mut()
                        .expect("labels")
                        .retain(|key, _| KEPT.contains(&key.as_str()));
                    hash::trait_name(&component, &trait_type, &raw) == name
                });
                score.count(&format!("{location} {name}"), equal, &[]);
            }
        }
    }
    score.finish("trait names", 1);
}
