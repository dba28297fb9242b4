//! Answers to the records of the conformance material: components, traits, patches, status,
//! parameters, schemas.
#![allow(clippy::indexing_slicing, reason = "indexing JSON gives null where nothing is")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use vela_api::hash::GoHash;
use vela_render::patch::{apply, strategic};
use vela_render::term::Term;
use vela_render::{
    App, CallError, ClusterVersion, Component, Definition, DefinitionKind, Gates, RenderError,
    RenderHost, Rendered, Renderer, Target, Trait, contract,
};

/// The answer to one record of kind `render`.
#[must_use]
#[allow(unreachable_pub, reason = "the answers contract of the test crate uses this file too")]
pub fn answer(record: &Value) -> Value {
    let mut reply = match record["kind"].as_str() {
        Some("component") => component(record),
        Some("trait") => traits(record),
        Some("patch") => patch(record),
        Some("status") => status(record),
        Some("params") => params(record),
        Some("schema") => schema(record),
        kind => json!({ "unsupported": format!("records of kind {kind:?}") }),
    };
    reply["id"] = record["id"].clone();
    reply
}

fn renderer() -> &'static Renderer {
    static RENDERER: OnceLock<Renderer> = OnceLock::new();
    RENDERER.get_or_init(Renderer::default)
}

/// The reference's definitions by key, from the conformance material: records name them.
fn shipped() -> &'static HashMap<String, Arc<Definition>> {
    static SHIPPED: OnceLock<HashMap<String, Arc<Definition>>> = OnceLock::new();
    SHIPPED.get_or_init(|| {
        let mut out = HashMap::new();
        let path = material().join("recordings/render/definitions.jsonl");
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
            if let (Some(key), Some(definition)) =
                (record["key"].as_str(), Definition::from_object(&record["object"]))
            {
                out.insert(key.to_owned(), Arc::new(definition));
            }
        }
        out
    })
}

/// The conformance material next to the repository.
#[must_use]
pub(crate) fn material() -> PathBuf {
    std::env::var_os("VELA_CONFORMANCE").map_or_else(
        || workspace().parent().map(|parent| parent.join("shared")).unwrap_or_default(),
        PathBuf::from,
    )
}

/// The root of the repository.
#[must_use]
pub(crate) fn workspace() -> PathBuf {
    let mut here = Path::new(env!("CARGO_MANIFEST_DIR"));
    while !here.join("Cargo.lock").exists() {
        match here.parent() {
            Some(parent) => here = parent,
            None => break,
        }
    }
    here.to_path_buf()
}

fn named(kind: DefinitionKind, name: &str, source: &str) -> Option<Arc<Definition>> {
    let registry = if source.contains("/registry/") { "registry-" } else { "" };
    shipped().get(&format!("{registry}{}/{name}", kind.word())).cloned()
}

/// Finds a definition by kind, group and name.
pub(crate) type Named = dyn Fn(DefinitionKind, &str, &str) -> Option<Arc<Definition>>;

/// Where a record's definitions come from: itself, else those of the reference, or ours.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Finds a definition that a record names.
    pub(crate) named: &'a Named,
    /// Whether texts inside records are used before.
    pub(crate) inline: bool,
}

fn definition(
    source: Source<'_>,
    kind: DefinitionKind,
    record: &Value,
) -> Result<Arc<Definition>, Value> {
    let name = record["definition"].as_str().unwrap_or_default();
    let from = record["definitionSource"].as_str().unwrap_or_default();
    if (source.inline || from == "own" || from.is_empty())
        && (record["template"].is_string() || record["terraform"].is_object())
    {
        let mut spec = record["spec"].as_object().cloned().unwrap_or_default();
        if record["terraform"].is_object() {
            spec.insert("schematic".into(), json!({ "terraform": record["terraform"] }));
        } else {
            spec.insert("schematic".into(), json!({ "cue": { "template": record["template"] } }));
        }
        if record["status"].is_object() {
            spec.insert("status".into(), record["status"].clone());
        }
        let object = json!({
            "kind": kind.kind(),
            "metadata": { "name": name, "annotations": record["definitionAnnotations"] },
            "spec": spec,
        });
        if let Some(definition) = Definition::from_object(&object) {
            return Ok(Arc::new(definition));
        }
    }
    (source.named)(kind, name, from)
        .ok_or_else(|| json!({ "unsupported": format!("no {} {name}", kind.word()) }))
}

const RECORDED: Source<'static> = Source { named: &named, inline: true };

fn app(record: &Value) -> App {
    let text = |key: &str| record["app"][key].as_str().unwrap_or_default().to_owned();
    let map = |key: &str| {
        record["app"][key]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect()
    };
    App {
        name: text("name"),
        namespace: text("namespace"),
        revision: text("revision"),
        labels: map("labels"),
        annotations: map("annotations"),
        components: record["context"]["components"].as_array().cloned().unwrap_or_default(),
        ..App::default()
    }
}

fn target(record: &Value) -> Target {
    let input = &record["input"];
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    Target {
        revision: text("compRevision"),
        cluster: text("cluster"),
        cluster_version: ClusterVersion::from_json(&input["clusterVersion"]),
        replica_key: text("replicaKey"),
        live: input.get("live").filter(|v| v.is_object()).cloned().map(Arc::new),
        custom: input.get("custom").filter(|v| !v.is_null()).cloned(),
        artifacts: None,
    }
}

/// Answers `helm.#Render` as recorded and keeps what was asked.
struct Recorded {
    returns: Value,
    calls: Vec<Value>,
}

impl RenderHost for Recorded {
    fn call(
        &mut self,
        provider: &str,
        function: &str,
        params: &Value,
    ) -> Option<Result<Value, CallError>> {
        if (provider, function) != ("helm", "render") {
            return None;
        }
        self.calls.push(json!({ "provider": provider, "do": function, "params": params }));
        Some(Ok(self.returns.clone()))
    }

    fn http(&mut self, _: &Value) -> Result<Value, CallError> {
        Err(CallError::Host("no network".into()))
    }
}

fn recorded(record: &Value) -> Recorded {
    Recorded { returns: record["input"]["helmReturns"].clone(), calls: Vec::new() }
}

fn failed(error: &RenderError) -> Value {
    json!({ "error": error.message, "stage": error.step.name() })
}

fn rendered(app: &App, name: &str, kind: &str, mut result: Rendered, calls: Vec<Value>) -> Value {
    let mut outputs = Map::new();
    let mut order = Vec::new();
    for auxiliary in &result.auxiliaries {
        order.push(json!({ "name": auxiliary.name, "type": auxiliary.kind }));
        let key = if outputs.contains_key(&auxiliary.name) {
            format!("{}#{}", auxiliary.name, auxiliary.kind)
        } else {
            auxiliary.name.clone()
        };
        outputs.insert(key, auxiliary.object.clone());
    }
    let output = result.workload.clone();
    let warnings = result.warnings.clone();
    contract::apply(&mut result, app, name, kind);
    let manifests: Vec<Value> = std::iter::once(result.workload)
        .chain(result.auxiliaries.into_iter().map(|a| a.object))
        .collect();
    let mut reply = json!({ "output": output, "outputs": outputs, "manifests": manifests });
    for (key, list) in [
        ("outputsOrder", order),
        ("providerCalls", calls),
        ("warnings", warnings.into_iter().map(Value::from).collect()),
    ] {
        if !list.is_empty() {
            reply[key] = list.into();
        }
    }
    reply
}

fn component(record: &Value) -> Value {
    component_from(record, RECORDED)
}

/// Answers a record of components.jsonl with definitions of a source.
#[must_use]
pub(crate) fn component_from(record: &Value, source: Source<'_>) -> Value {
    let definition = match definition(source, DefinitionKind::Component, record) {
        Ok(definition) => definition,
        Err(reply) => return reply,
    };
    let app = app(record);
    let name = record["name"].as_str().unwrap_or_default();
    let kind = record["definition"].as_str().unwrap_or_default();
    let component = Component {
        name,
        kind,
        definition: &definition,
        properties: record.get("properties"),
        traits: Vec::new(),
        patch: None,
    };
    let mut host = recorded(record);
    let result = renderer().render(&app, &target(record), &component, &mut host);
    match result {
        Err(error) => failed(&error),
        Ok(mut result) => {
            if record["terraform"].is_object() {
                contract::label(&mut result, &app, name, kind);
            }
            rendered(&app, name, kind, result, host.calls)
        }
    }
}

fn traits(record: &Value) -> Value {
    traits_from(record, RECORDED)
}

/// Answers a record of traits.jsonl with definitions of a source.
#[must_use]
pub(crate) fn traits_from(record: &Value, source: Source<'_>) -> Value {
    let on = &record["component"];
    let definitions = list_of(source, record);
    let (base, definitions) = match definitions {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let app = app(record);
    let name = on["name"].as_str().unwrap_or_default();
    let kind = on["definition"].as_str().unwrap_or_default();
    let patch = match record["workflowPatch"].as_str() {
        None => None,
        Some(text) => match renderer().step_patch(text) {
            Ok(patch) => Some(patch),
            Err(errors) => return json!({ "error": errors.to_string(), "stage": "export" }),
        },
    };
    let component = Component {
        name,
        kind,
        definition: &base,
        properties: on.get("properties"),
        traits: trait_list(record, &definitions),
        patch: patch.as_ref(),
    };
    let mut host = recorded(record);
    match renderer().render(&app, &target(record), &component, &mut host) {
        Err(error) => failed(&error),
        Ok(result) => rendered(&app, name, kind, result, host.calls),
    }
}

type Definitions = (Arc<Definition>, Vec<Arc<Definition>>);

fn list_of(source: Source<'_>, record: &Value) -> Result<Definitions, Value> {
    let base = definition(source, DefinitionKind::Component, &record["component"])?;
    let traits = record["traits"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|t| definition(source, DefinitionKind::Trait, t))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((base, traits))
}

fn trait_list<'a>(record: &'a Value, definitions: &'a [Arc<Definition>]) -> Vec<Trait<'a>> {
    record["traits"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(definitions)
        .map(|(t, definition)| Trait {
            kind: t["definition"].as_str().unwrap_or_default(),
            definition,
            properties: t.get("properties"),
        })
        .collect()
}

fn patch(record: &Value) -> Value {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut base = match renderer().term(&text(&record["base"]), None) {
        Ok((term, _)) => term,
        Err(errors) => return json!({ "error": errors.to_string(), "stage": "base" }),
    };
    for (index, one) in record["patches"].as_array().into_iter().flatten().enumerate() {
        let (patch, markers) = match renderer().term(&text(one), Some("patch")) {
            Ok(found) => found,
            Err(errors) => {
                return json!({ "error": errors.to_string(), "stage": "unify", "patchIndex": index });
            }
        };
        let outcome = if record["mode"] == "patchOutputs" {
            strategic(base, patch)
        } else {
            apply(base, patch, &markers)
        };
        base = match outcome {
            Ok(term) => term,
            Err(error) => {
                return json!({
                    "error": error.to_string(), "stage": "unify", "patchIndex": index,
                });
            }
        };
    }
    finished(&base)
}

fn finished(term: &Term) -> Value {
    let mut reply = json!({ "cue": term.show() });
    match term.export() {
        Ok(value) => {
            let text = value.to_json_text();
            reply["jsonText"] =
                text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").into();
            reply["result"] = value.to_json();
        }
        Err(missing) => {
            reply["jsonError"] =
                missing.first().map(ToString::to_string).unwrap_or_default().into();
        }
    }
    reply
}

fn status(record: &Value) -> Value {
    let spec = json!({ "status": record["status"] });
    status_of(record, &Definition::from_spec(DefinitionKind::Component, "x", &spec))
}

/// Answers a record of status.jsonl with the status texts of a definition.
#[must_use]
pub(crate) fn status_of(record: &Value, definition: &Definition) -> Value {
    let context = &record["context"];
    let health = renderer().health_in(&definition.status, context, record.get("parameter"));
    json!({
        "healthy": health.healthy,
        "message": health.message,
        "details": health.details,
        "contextDetails": health.context_details,
        "warnings": health.warnings,
    })
}

fn params(record: &Value) -> Value {
    params_from(record, RECORDED)
}

/// Answers a record of params.jsonl with definitions of a source.
#[must_use]
pub(crate) fn params_from(record: &Value, source: Source<'_>) -> Value {
    let is_trait = record["definitionKind"] == "trait";
    let subject = match definition(
        source,
        if is_trait { DefinitionKind::Trait } else { DefinitionKind::Component },
        record,
    ) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let on = &record["component"];
    let base = if is_trait {
        match definition(source, DefinitionKind::Component, on) {
            Ok(found) => found,
            Err(reply) => return reply,
        }
    } else {
        Arc::clone(&subject)
    };
    let more = match record["traits"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|t| definition(source, DefinitionKind::Trait, t))
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let properties = record.get("properties");
    let name = on["name"].as_str().unwrap_or("web");
    let kind = on["definition"].as_str().unwrap_or_default();
    let mut traits = trait_list(record, &more);
    if is_trait {
        traits.insert(
            0,
            Trait {
                kind: record["definition"].as_str().unwrap_or_default(),
                definition: &subject,
                properties,
            },
        );
    }
    let component = Component {
        name,
        kind,
        definition: &base,
        properties: if is_trait { on.get("properties") } else { properties },
        traits,
        patch: None,
    };
    let app = App {
        name: "myapp".into(),
        namespace: "default".into(),
        revision: "myapp-v1".into(),
        ..App::default()
    };
    let target = Target {
        revision: format!("{name}-v1"),
        cluster: "local".into(),
        cluster_version: ClusterVersion {
            major: "1".into(),
            minor: "28".into(),
            git_version: "v1.28.2".into(),
            platform: "linux/amd64".into(),
        },
        ..Target::default()
    };
    let mut host = Recorded { returns: json!({ "resources": [] }), calls: Vec::new() };
    let mut reply = match renderer().render(&app, &target, &component, &mut host) {
        Ok(_) => json!({}),
        Err(error) => failed(&error),
    };
    if reply["stage"] == "parse" {
        return reply;
    }
    let mut admission = Map::new();
    for (name, cue_validation, undeclared_parameters) in [
        ("default", false, false),
        ("EnableCueValidation", true, false),
        ("EnableCueValidation+ValidateUndeclaredParameters", true, true),
    ] {
        let gates = Gates { cue_validation, undeclared_parameters, ..Gates::default() };
        let checked = renderer().check(&app, &component, &gates);
        let mut texts: Vec<String> = checked
            .problems
            .iter()
            .filter(|p| p.severity == vela_render::Severity::Error)
            .map(|p| p.message.clone())
            .collect();
        let mut names = checked.outputs.clone();
        names.sort();
        let unique = names.len();
        names.dedup();
        if names.len() < unique {
            texts.push("outputs item name must be unique".to_owned());
        }
        let text = if texts.is_empty() { Value::Null } else { texts.join("\n").into() };
        admission.insert(name.to_owned(), text);
    }
    reply["admission"] = Value::Object(admission);
    reply
}

fn schema(record: &Value) -> Value {
    let object = &record["object"];
    let Some(definition) = Definition::from_object(object) else {
        return json!({ "unsupported": "not a definition" });
    };
    let version = object["spec"]["version"].as_str().unwrap_or("1");
    let revision = format!("{}-v{version}", definition.name);
    let mut reply = json!({
        "revisionHash": revision_hash(definition.kind, &object["spec"]),
        "revisionName": revision,
        "revisionNumber": 1,
    });
    let schema = match renderer().schema(&definition) {
        Ok(schema) => schema,
        Err(error) => {
            reply["schemaError"] = error.to_string().into();
            return reply;
        }
    };
    let maps = vela_render::schema::config_maps(object, &revision, &schema);
    reply["configMapRef"] = maps[0]["metadata"]["name"].clone();
    reply["configMaps"] = maps
        .iter()
        .enumerate()
        .map(|(index, map)| {
            let mut summary = map["metadata"].clone();
            let keys: Vec<_> = map["data"].as_object().into_iter().flatten().map(|d| d.0).collect();
            summary["dataKeys"] = json!(keys);
            if index > 0 && map["data"] == maps[0]["data"] {
                summary["sameSchema"] = true.into();
            }
            summary
        })
        .collect();
    reply["schemaText"] = vela_gocompat::json::to_string(&schema).unwrap_or_default().into();
    reply["schema"] = schema;
    reply
}

fn revision_hash(kind: DefinitionKind, spec: &Value) -> Option<String> {
    fn hash<T: serde::de::DeserializeOwned + GoHash>(spec: &Value) -> Option<String> {
        serde_json::from_value::<T>(spec.clone()).ok().map(|spec| spec.hash_text())
    }
    match kind {
        DefinitionKind::Component => hash::<vela_api::definition::ComponentDefinitionSpec>(spec),
        DefinitionKind::Trait => hash::<vela_api::definition::TraitDefinitionSpec>(spec),
        DefinitionKind::Policy => hash::<vela_api::definition::PolicyDefinitionSpec>(spec),
        DefinitionKind::WorkflowStep => {
            hash::<vela_api::definition::WorkflowStepDefinitionSpec>(spec)
        }
        DefinitionKind::Workload => None,
    }
}
