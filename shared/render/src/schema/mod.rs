//! The parameter schema of a definition: OpenAPI v3, as dashboards and command lines read it.

mod constraints;
pub mod editor;
mod error;
mod generate;
mod written;

use crate::cache::{Flavour, Programs};
use crate::definition::{Definition, Template};
use crate::messages;
use cue::Limits;
use error::{Inexpressible, Result};
use generate::{FORMS, Generator};
use serde_json::{Map, Value as Json, json};

/// Why the parameters of a definition have no schema.
#[derive(Debug, thiserror::Error)]
#[error("{}", messages::no_schema(.definition, .why))]
pub struct SchemaError {
    definition: String,
    why: Inexpressible,
}

/// The schema of the parameters.
pub(crate) fn schema(
    programs: &Programs,
    limits: &Limits,
    definition: &Definition,
) -> std::result::Result<Json, SchemaError> {
    let failed = |why| SchemaError { definition: definition.name.clone(), why };
    let mut schema = marked(programs, limits, definition).map_err(failed)?;
    unmark(&mut schema);
    Ok(schema)
}

fn unmark(schema: &mut Json) {
    match schema {
        Json::Object(map) => {
            map.remove(FORMS);
            map.values_mut().for_each(unmark);
        }
        Json::Array(items) => items.iter_mut().for_each(unmark),
        _ => {}
    }
}

/// The schema with the marks of forms.
fn marked(programs: &Programs, limits: &Limits, definition: &Definition) -> Result<Json> {
    if let Template::Terraform(module) = &definition.template {
        return Ok(crate::hcl::schema(&module.configuration));
    }
    let of = programs.template(&definition.template, Flavour::Schema)?;
    let mut evaluation = of.program.evaluate(&[], limits);
    let root = evaluation.root();
    let Some(parameter) = evaluation.field(root, "parameter") else {
        return Ok(json!({ "type": "object" }));
    };
    evaluation.validate(parameter, false)?;
    let mut schema = Generator::new(&mut evaluation).node(parameter, 0)?;
    if let Some(schema) = schema.as_object_mut() {
        written::repeat_alternatives(definition.template.text(), schema);
        finish(schema, None);
    }
    Ok(schema)
}

/// Titles and descriptions, for properties and items; not inside `oneOf` and
/// `additionalProperties`.
fn finish(schema: &mut Map<String, Json>, title: Option<&str>) {
    if let Some(title) = title {
        schema.insert("title".into(), title.into());
    }
    if let Some(Json::String(text)) = schema.remove("description") {
        let (text, immutable) = description(&text);
        if !text.is_empty() {
            schema.insert("description".into(), text.into());
        }
        if immutable {
            schema.insert("x-immutable".into(), true.into());
        }
    }
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            if let Some(property) = property.as_object_mut() {
                finish(property, Some(name));
            }
        }
    }
    if let Some(Json::Object(items)) = schema.get_mut("items") {
        finish(items, None);
    }
}

/// The description in a field's comments, and whether the field is immutable.
fn description(comments: &str) -> (String, bool) {
    let immutable = comments.lines().any(|line| line.trim() == "+immutable");
    let kept: Vec<&str> = comments.lines().filter(|line| line.trim() != "+immutable").collect();
    let mut text = kept.join("\n");
    if let Some(usage) = text.split("+usage=").nth(1) {
        text = usage.to_owned();
    }
    if let Some((before, _)) = text.split_once("+short") {
        text = before.trim().to_owned();
    }
    (text, immutable)
}

/// The ConfigMaps that store a schema: for the definition and for one of its revisions.
#[must_use]
pub fn config_maps(object: &Json, revision: &str, schema: &Json) -> Vec<Json> {
    let kind = object.get("kind").and_then(Json::as_str).and_then(crate::DefinitionKind::named);
    let prefix = kind.map_or("definition", crate::DefinitionKind::schema_prefix);
    let name = object.pointer("/metadata/name").and_then(Json::as_str).unwrap_or_default();
    let text = vela_gocompat::json::to_string(schema).unwrap_or_default();
    [(name, true), (revision, false)]
        .into_iter()
        .map(|(name, is_definition)| {
            let mut labels = object
                .pointer("/metadata/labels")
                .and_then(Json::as_object)
                .cloned()
                .unwrap_or_default();
            labels.insert("definition.oam.dev".into(), "schema".into());
            labels.insert("definition.oam.dev/name".into(), name.into());
            let mut metadata = json!({
                "name": format!("{prefix}-schema-{name}"),
                "namespace": object.pointer("/metadata/namespace"),
                "labels": labels,
            });
            if kind == Some(crate::DefinitionKind::Trait)
                && let Some(applies) =
                    object.pointer("/spec/appliesToWorkloads").and_then(Json::as_array)
            {
                let list: Vec<&str> = applies.iter().filter_map(Json::as_str).collect();
                // A revision does not store an empty list.
                if is_definition || !list.is_empty() {
                    let value = json!({ "definition.oam.dev/appliedWorkloads": list.join(",") });
                    if let Some(metadata) = metadata.as_object_mut() {
                        metadata.insert("annotations".into(), value);
                    }
                }
            }
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": { "openapi-v3-json-schema": text },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Definition, DefinitionKind, Renderer};

    #[test]
    fn alternatives_that_disagree_about_a_property_tell_its_title_only() {
        let template = r#"parameter: {type: "a", x: string} | {type: "b", y: int, x: string}"#;
        let spec = json!({"schematic": {"cue": {"template": format!("{template}\n")}}});
        let definition = Definition::from_spec(DefinitionKind::Component, "d", &spec);
        let schema = Renderer::default().schema(&definition).unwrap();
        assert_eq!(
            schema["properties"],
            json!({
                "type": {"title": "type"},
                "x": {"title": "x", "type": "string"},
                "y": {"title": "y", "type": "integer"},
            })
        );
    }
}
