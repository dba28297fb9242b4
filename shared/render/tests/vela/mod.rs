//! Answers to the records of the CUE corpus that are about KubeVela's behaviour rather than the
//! language: `vela-render`, `vela-patch`, `vela-upgrade`.
#![allow(clippy::indexing_slicing, reason = "indexing JSON gives null where nothing is")]

use serde_json::{Map, Value, json};
use vela_render::patch::{Markers, Strategy, apply, strategic};
use vela_render::{
    App, Component, Definition, DefinitionKind, NoHost, RenderError, Renderer, Target, Trait,
    legacy,
};

/// The answer to a record of one of these categories; `None` for all others.
#[must_use]
pub(crate) fn answer(record: &Value) -> Option<Value> {
    let mut reply = match record["category"].as_str()? {
        "vela-render" => render(record),
        "vela-patch" => patch(record),
        "vela-upgrade" => json!({ "text": legacy::upgrade(file(record, "in.cue")) }),
        _ => return None,
    };
    reply["id"] = record["id"].clone();
    Some(reply)
}

fn file<'a>(record: &'a Value, name: &str) -> &'a str {
    record["files"][name].as_str().unwrap_or_default()
}

fn data(record: &Value, name: &str) -> Option<Value> {
    serde_json::from_str(file(record, name)).ok().filter(|value: &Value| !value.is_null())
}

fn definition(kind: DefinitionKind, name: &str, template: &str) -> Definition {
    let spec = json!({ "schematic": { "cue": { "template": template } } });
    Definition::from_spec(kind, name, &spec)
}

fn failed(error: &RenderError) -> Value {
    let class = error.errors.as_ref().map_or("eval", |errors| errors.class().name());
    json!({ "error": error.message, "class": class })
}

fn render(record: &Value) -> Value {
    let context = data(record, "context.json").unwrap_or_default();
    let text = |key: &str| context[key].as_str().unwrap_or_default().to_owned();
    let app = App {
        name: text("appName"),
        namespace: text("namespace"),
        revision: text("appRevision"),
        ..App::default()
    };
    let name = text("name");
    let on_trait = record["render"] == "trait";
    let (base, base_parameter) = match on_trait {
        true => ("base.cue", "base-parameter.json"),
        false => ("template.cue", "parameter.json"),
    };
    let base = definition(DefinitionKind::Component, "base", file(record, base));
    let properties = data(record, base_parameter);
    let template = definition(DefinitionKind::Trait, "trait", file(record, "template.cue"));
    let parameter = data(record, "parameter.json");
    let traits = if on_trait {
        vec![Trait { kind: "trait", definition: &template, properties: parameter.as_ref() }]
    } else {
        Vec::new()
    };
    let component = Component {
        name: &name,
        kind: "base",
        definition: &base,
        properties: properties.as_ref(),
        traits,
        patch: None,
    };
    let rendered =
        match Renderer::default().render(&app, &Target::default(), &component, &mut NoHost) {
            Ok(rendered) => rendered,
            Err(error) => return failed(&error),
        };
    let mut outputs = Map::new();
    for auxiliary in rendered.auxiliaries {
        let key = match (on_trait, auxiliary.trait_index) {
            (false, _) => auxiliary.name,
            (true, None) => format!("{}{}", auxiliary.kind, auxiliary.name),
            (true, Some(_)) => trait_key(record, &auxiliary.name),
        };
        outputs.insert(key, auxiliary.object);
    }
    json!({ "output": rendered.workload, "outputs": outputs })
}

/// The records key a trait's objects by its type and their names, and say the type nowhere else.
fn trait_key(record: &Value, name: &str) -> String {
    let keys = record["expect"]["outputs"].as_object().into_iter().flatten().map(|(key, _)| key);
    let mut named = keys.filter(|key| key.ends_with(name) && !key.starts_with("Auxiliary"));
    named.next().cloned().unwrap_or_else(|| format!("trait{name}"))
}

fn patch(record: &Value) -> Value {
    let renderer = Renderer::default();
    let term = |name: &str| renderer.term(file(record, name), None).map(|(term, _)| term);
    let (base, patch) = match (term("base.cue"), term("patch.cue")) {
        (Ok(base), Ok(patch)) => (base, patch),
        (Err(errors), _) | (_, Err(errors)) => {
            // An error in a text is one of the patch.
            return json!({ "error": errors.to_string(), "class": "eval" });
        }
    };
    let strategy = match record["strategy"].as_str() {
        Some("jsonMergePatch") => Some(Strategy::JsonMergePatch),
        Some("jsonPatch") => Some(Strategy::JsonPatch),
        _ => None,
    };
    let outcome = match strategy {
        None => strategic(base, patch),
        strategy => apply(base, patch, &Markers { strategy, ..Markers::default() }),
    };
    let term = match outcome {
        Ok(term) => term,
        Err(error) => return json!({ "error": error.to_string(), "class": "eval" }),
    };
    match term.export() {
        Ok(value) => json!({ "text": term.show(), "json": value.to_json() }),
        Err(missing) => {
            let texts: Vec<String> = missing.iter().map(ToString::to_string).collect();
            json!({ "text": term.show(), "jsonError": texts.join("; ") })
        }
    }
}
