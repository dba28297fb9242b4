//! The schema for editors against the webhook: what is admitted without a warning is valid, what is misspelt is not.
//!
//! Applications of the examples and the documentation with our definitions; those of the conformance material with the reference's.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may fail; indexing JSON gives null where nothing is"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};
use vela_render::schema::editor::{self, EditorType, Parameters};
use vela_render::{Definition, Renderer};
use vela_tests::answers::admission;
use vela_tests::material::{conformance, workspace};

/// Runs a test on a stack that evaluation gets in the programs.
fn on_big_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(vela_serve::pool::STACK).spawn(test);
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Compiled schemas of sets of definitions.
#[derive(Default)]
struct Schemas {
    renderer: Renderer,
    /// Most sets are the built-in definitions and one or two more.
    known: HashMap<String, Parameters>,
    compiled: HashMap<String, Arc<Validator>>,
}

impl Schemas {
    fn of(&mut self, definitions: &[Value]) -> Arc<Validator> {
        let key = json!(definitions).to_string();
        if let Some(known) = self.compiled.get(&key) {
            return Arc::clone(known);
        }
        let schema = self.schema(definitions);
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = Arc::new(options.build(&schema).unwrap());
        self.compiled.insert(key, Arc::clone(&validator));
        validator
    }

    fn schema(&mut self, definitions: &[Value]) -> Value {
        let mut types = Vec::new();
        for object in definitions {
            let Some(definition) = Definition::from_object(object) else { continue };
            let known = self.known.entry(object.to_string());
            let parameters = known.or_insert_with(|| self.renderer.editor_parameters(&definition));
            types.push(EditorType {
                kind: definition.kind,
                name: definition.name.clone(),
                description: String::new(),
                parameters: parameters.clone(),
            });
        }
        // An old component type may be a WorkloadDefinition.
        let is_complete = definitions.iter().all(|object| object["kind"] != "WorkloadDefinition");
        editor::application(&types, is_complete)
    }
}

fn problems(validator: &Validator, app: &Value) -> Vec<String> {
    let errors = validator.iter_errors(app);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Whether the webhook says of a parameter that nobody knows it.
fn is_about_a_name(text: &str) -> bool {
    text.contains("no such parameter") || text.contains("undeclared parameters")
}

/// An Application as the API server stores it; `None` if it does not, or keeps only a part of it, of which clients warn.
fn stored(app: &Value) -> Option<Value> {
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(map) => map
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }
    fn keeps(schema: &Value, value: &Value) -> bool {
        let known = schema["properties"].as_object();
        match value {
            Value::Object(map) => map.iter().all(|(key, value)| {
                match (known.and_then(|known| known.get(key)), known) {
                    (Some(schema), _) => keeps(schema, value),
                    (None, Some(_)) => schema["x-kubernetes-preserve-unknown-fields"] == true,
                    (None, None) => true,
                }
            }),
            Value::Array(items) => items.iter().all(|item| keeps(&schema["items"], item)),
            _ => true,
        }
    }
    let crds = vela_api::crd::all();
    let crd = crds.iter().find(|crd| crd.name == "applications.core.oam.dev")?;
    let schema = crd.object.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
    let is_valid = jsonschema::validator_for(schema).unwrap().is_valid(&without_nulls(app));
    let has_names = app["metadata"].is_object() && app["spec"].is_object();
    let keeps = keeps(&schema["properties"]["spec"], &app["spec"]);
    (is_valid && has_names && keeps).then(|| app.clone())
}

#[test]
fn recorded_applications() {
    on_big_stack(|| {
        let Some(folder) = conformance() else {
            println!(
                "SKIPPED: 0 recorded Applications checked: the conformance material is absent"
            );
            return;
        };
        let mut schemas = Schemas::default();
        let (mut valid, mut misspelt, mut wrong) = (0, 0, Vec::new());
        type Answer = fn(&Value) -> Value;
        let files: [(&str, Answer); 2] = [
            ("admission", admission::answer),
            ("admission-cue-gates", admission::answer_cue_gates),
        ];
        for (file, answer) in files {
            let path = folder.join(format!("recordings/admission/dev/{file}.jsonl"));
            for line in std::fs::read_to_string(path).unwrap().lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                let request = &record["review"]["request"];
                let object = &request["object"];
                if record["path"] != "/validating-core-oam-dev-v1beta1-applications"
                    || request["operation"] != "CREATE"
                    || object["apiVersion"] != vela_api::V1BETA1
                    || object["kind"] != "Application"
                {
                    continue;
                }
                let Some(object) = &stored(object) else { continue };
                let said = answer(&record);
                let warnings = said["warnings"].as_array().cloned().unwrap_or_default();
                let clean = said["allowed"] == true && warnings.is_empty();
                let texts = warnings.iter().chain([&said["message"]]).filter_map(Value::as_str);
                let misspells = texts.into_iter().any(is_about_a_name);
                // The reference's `raw` declares no parameter and takes all: every name is reported.
                let is_raw = object["spec"]["components"][0]["type"] == "raw";
                if !clean && (!misspells || is_raw) {
                    continue;
                }
                let validator = schemas.of(&admission::definitions(&record));
                let found = problems(&validator, object);
                if clean {
                    valid += 1;
                    if !found.is_empty() {
                        wrong.push(format!("{} is a false alarm: {found:#?}", record["id"]));
                    }
                } else {
                    misspelt += 1;
                    if found.is_empty() {
                        wrong.push(format!(
                            "{} is not found: {warnings:?} {}",
                            record["id"], said["message"]
                        ));
                    }
                }
            }
        }
        println!("{valid} Applications valid, {misspelt} with misspelt names");
        assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), valid + misspelt, wrong.join("\n"));
        assert!(valid > 500 && misspelt > 10, "{valid} {misspelt}");
    });
}

/// Our definitions, as the chart has them.
fn own() -> Vec<Value> {
    let mut all = Vec::new();
    for folder in ["component", "trait", "policy", "workflow-step"] {
        let folder = workspace().join("charts/vela-core/definitions").join(folder);
        for path in paths(&folder, "cue") {
            let text = std::fs::read_to_string(&path).unwrap();
            all.push(vela_render::file::load("", &text).unwrap());
        }
    }
    all
}

fn paths(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|is| is == extension)).collect();
    paths.sort();
    paths
}

/// The YAML documents of the examples, and of the documentation's blocks.
fn documents() -> Vec<Vec<Value>> {
    let docs = workspace().join("docs");
    let mut all = Vec::new();
    for folder in ["examples", "examples/features", "examples/outside", "examples/clusters"] {
        for path in paths(&docs.join(folder), "yaml") {
            let text = std::fs::read_to_string(path).unwrap();
            all.push(serde_saphyr::from_multiple(&text).unwrap());
        }
    }
    // That page shows a mistake.
    let pages = paths(&docs, "md").into_iter().filter(|path| !path.ends_with("editor.md"));
    for path in pages {
        let text = std::fs::read_to_string(path).unwrap();
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        all.extend(blocks.filter_map(|block| serde_saphyr::from_multiple(block).ok()));
    }
    all
}

/// The pointers of all names below the properties of components, traits and steps.
fn parameters(app: &Value) -> Vec<(String, String)> {
    fn below(value: &Value, at: &str, out: &mut Vec<(String, String)>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    out.push((at.to_owned(), key.clone()));
                    below(
                        value,
                        &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                        out,
                    );
                }
            }
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    below(item, &format!("{at}/{n}"), out);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    let mut of = |pointer: String| {
        if let Some(properties) = app.pointer(&pointer) {
            below(properties, &pointer, &mut out);
        }
    };
    for (n, component) in app["spec"]["components"].as_array().into_iter().flatten().enumerate() {
        of(format!("/spec/components/{n}/properties"));
        for m in 0..component["traits"].as_array().map_or(0, Vec::len) {
            of(format!("/spec/components/{n}/traits/{m}/properties"));
        }
    }
    for n in 0..app["spec"]["workflow"]["steps"].as_array().map_or(0, Vec::len) {
        of(format!("/spec/workflow/steps/{n}/properties"));
    }
    out
}

#[test]
fn examples_and_their_misspellings() {
    on_big_stack(|| {
        let own = own();
        let mut schemas = Schemas::default();
        let (mut valid, mut misspelt, mut wrong) = (0, 0, Vec::new());
        for objects in documents() {
            let mut definitions = own.clone();
            definitions
                .extend(objects.iter().filter(|o| Definition::from_object(o).is_some()).cloned());
            let is_app = |object: &&Value| {
                object["kind"] == "Application" && object["spec"]["components"].is_array()
            };
            for app in objects.iter().filter(is_app) {
                let validator = schemas.of(&definitions);
                let name = &app["metadata"]["name"];
                valid += 1;
                let found = problems(&validator, app);
                if !found.is_empty() {
                    wrong.push(format!("{name} is a false alarm: {found:#?}"));
                }
                for (at, key) in parameters(app) {
                    let mut other = app.clone();
                    let map = other.pointer_mut(&at).and_then(Value::as_object_mut).unwrap();
                    let value = map.remove(&key).unwrap();
                    map.insert(format!("{key}x"), value);
                    let said = admission::created(&definitions, &other);
                    let warnings = said["warnings"].as_array().cloned().unwrap_or_default();
                    let texts = warnings.iter().chain([&said["message"]]).filter_map(Value::as_str);
                    if texts.into_iter().any(is_about_a_name) {
                        misspelt += 1;
                        if problems(&validator, &other).is_empty() {
                            wrong.push(format!("{name}: {at}/{key}x is not found"));
                        }
                    }
                }
            }
        }
        println!("{valid} Applications valid, {misspelt} misspellings found");
        assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n"));
        assert!(valid > 15 && misspelt > 80, "{valid} {misspelt}");
    });
}

#[test]
fn other_objects_are_nobodys_business() {
    on_big_stack(|| {
        let validator = Schemas::default().of(&own());
        for object in [json!({"kind": "Namespace", "apiVersion": "v1"}), json!({}), json!(null)] {
            assert_eq!(problems(&validator, &object), Vec::<String>::new());
        }
        let unknown = json!({"apiVersion": vela_api::V1BETA1, "kind": "Application", "metadata": {},
            "spec": {"components": [{"name": "a", "type": "webservic"}]}});
        assert!(!problems(&validator, &unknown).is_empty());
    });
}

#[test]
fn the_documentation_shows_what_is_found() {
    on_big_stack(|| {
        let text = std::fs::read_to_string(workspace().join("docs/editor.md")).unwrap();
        let block = |kind: &str| {
            let (_, rest) = text.split_once(&format!("```{kind}\n")).unwrap();
            rest.split_once("```").unwrap().0.to_owned()
        };
        let app: Value = serde_saphyr::from_str(&block("yaml")).unwrap();
        let found = problems(&Schemas::default().of(&own()), &app);
        let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found.join("\n") + "\n", block("text"));
    });
}
