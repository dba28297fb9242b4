//! One JSON Schema for Applications, for editors and checks without a cluster: what each type takes, with descriptions and defaults.
//!
//! A schema that rejects what the cluster admits is worse than none. What CUE says and JSON Schema cannot (alternatives, fields
//! under conditions, values that steps and overrides supply) stays open. Draft 7, since that is what editors of YAML read.

use std::collections::{BTreeMap, BTreeSet};

use cue::Limits;
use cue_syntax::ast::{Ast, BinaryOp, DeclId, DeclKind, Expr, ExprId, Label, List};
use cue_syntax::{ParseLimits, parse};
use serde_json::{Map, Value as Json, json};
use vela_api::builtin;

use super::generate::{COVERED, FORMS};
use crate::DefinitionKind;
use crate::cache::Programs;
use crate::definition::{Definition, Template};

/// What is said about a value as long as it has one form.
const SIMPLE: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
];
/// What may stand in a regular expression that Go and ECMAScript read alike: nothing behind `(?`, no classes by name.
const GO_ONLY: [&str; 5] = ["(?", "[[:", "\\p", "\\P", "\\Q"];
/// A type that Applications can name.
#[derive(Clone, Debug, PartialEq)]
pub struct EditorType {
    /// Of what kind its definition is.
    pub kind: DefinitionKind,
    /// Its name, or that of one of its revisions: `webservice@v3`.
    pub name: String,
    /// What it is for; empty if nobody says.
    pub description: String,
    /// What its properties may be.
    pub parameters: Parameters,
}

/// What the properties of a type may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    schema: Json,
    /// Those without which nothing can be rendered, unless they come from elsewhere.
    required: Vec<String>,
}

/// What is known of the parameters of a definition; nothing, where it has no parameter schema.
pub(crate) fn parameters(
    programs: &Programs,
    limits: &Limits,
    definition: &Definition,
) -> Parameters {
    let Template::Cue(text) = &definition.template else { return Parameters::default() };
    let Ok(schema) = super::marked(programs, limits, definition) else {
        return Parameters::default();
    };
    if definition.kind == DefinitionKind::Policy {
        return policy(&definition.name, &schema);
    }
    let schema = &schema;
    let conditional = conditional_labels(text);
    let converted = convert(schema, &conditional);
    let is_known = converted.get("properties").is_some_and(|all| all.as_object().is_some());
    let names = |key: &str| schema.get(key).and_then(Json::as_array).into_iter().flatten();
    let is_needed = |name: &&str| {
        let property = schema.pointer("/properties").and_then(|all| all.get(*name));
        let type_ = property.and_then(|property| property.get("type")).and_then(Json::as_str);
        let is_scalar = matches!(type_, Some("string" | "integer" | "number" | "boolean"));
        is_scalar && property.is_some_and(|property| property.get("default").is_none())
    };
    let required = names("required").filter_map(Json::as_str).filter(is_needed);
    let required = if is_known && !is_alternative(schema) {
        required.map(str::to_owned).collect()
    } else {
        Vec::new()
    };
    Parameters { schema: or_null(converted), required }
}

/// No review compares policies with their definitions: those are descriptions, but for the names that the control plane knows.
fn policy(name: &str, schema: &Json) -> Parameters {
    let mut out = Map::new();
    describe(schema.as_object().unwrap_or(&Map::new()), &mut out);
    if let Some(builtin) = builtin::policy(name) {
        let properties = out.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, _) in builtin.properties {
                properties.entry(*name).or_insert_with(|| json!({}));
            }
        }
        out.insert("additionalProperties".to_owned(), json!(false));
    }
    Parameters { schema: Json::Object(out), required: Vec::new() }
}

/// The schema of all Applications that name these types. With `is_complete`, no other type exists.
#[must_use]
pub fn application(types: &[EditorType], is_complete: bool) -> Json {
    let mut spec = application_spec();
    let mut definitions = Map::new();
    let mut needs = Vec::new();
    for (kind, pointers) in USES {
        let uses = Uses::of(kind, types, &mut definitions);
        for pointer in pointers {
            if let Some(item) = spec.pointer_mut(pointer).and_then(Json::as_object_mut) {
                item.insert("allOf".to_owned(), uses.rules.clone().into());
                uses.describe_type(item, is_complete);
            }
        }
        if kind == DefinitionKind::Component {
            needs = uses.needs;
        }
    }
    // Overrides and inputs of steps supply parameters: nothing is missing where there are any.
    let supplies = json!({"properties": {
        "policies": {"not": {"contains": {"type": "object", "properties": {"type": {"const": "override"}}}}},
        "workflow": {"properties": {"ref": false, "steps": {"not": {"contains": {"anyOf": [
            {"required": ["inputs"]},
            {"required": ["subSteps"]},
            {"properties": {"type": {"const": "deploy"}}, "required": ["type", "properties"]},
        ]}}}}},
    }});
    let complete = json!({"properties": {"components": {"items": {
        "if": {"not": {"required": ["inputs"]}},
        "then": {"allOf": needs},
    }}}});
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("if".to_owned(), supplies);
        spec.insert("then".to_owned(), complete);
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Application",
        // Other objects of the same file are somebody else's business.
        "if": {
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {
                "apiVersion": {"const": vela_api::V1BETA1},
                "kind": {"const": "Application"},
            },
        },
        "then": {
            "type": "object",
            "required": ["metadata", "spec"],
            "properties": {"metadata": {"type": "object"}, "spec": spec},
        },
        "definitions": definitions,
    })
}

/// Where types of each kind are named, below the spec.
const USES: [(DefinitionKind, &[&str]); 4] = [
    (DefinitionKind::Component, &["/properties/components/items"]),
    (DefinitionKind::Trait, &["/properties/components/items/properties/traits/items"]),
    (DefinitionKind::Policy, &["/properties/policies/items"]),
    (
        DefinitionKind::WorkflowStep,
        &[
            "/properties/workflow/properties/steps/items",
            "/properties/workflow/properties/steps/items/properties/subSteps/items",
        ],
    ),
];

/// What follows from the name of a type.
struct Uses {
    names: Vec<Json>,
    /// The properties of each type.
    rules: Vec<Json>,
    /// What must be given of each type.
    needs: Vec<Json>,
}

impl Uses {
    fn of(kind: DefinitionKind, types: &[EditorType], definitions: &mut Map<String, Json>) -> Self {
        // Most revisions of a type take the same parameters. A name that several namespaces define differently may be any of them.
        let mut by_name: BTreeMap<&str, Vec<&EditorType>> = BTreeMap::new();
        for one in types.iter().filter(|one| one.kind == kind) {
            let all = by_name.entry(&one.name).or_default();
            if !all.iter().any(|other| other.parameters == one.parameters) {
                all.push(one);
            }
        }
        let mut uses = Self { names: Vec::new(), rules: Vec::new(), needs: Vec::new() };
        let mut groups: Vec<(&EditorType, Vec<&str>)> = Vec::new();
        for (name, all) in &by_name {
            uses.names.push(json!(name));
            let [one] = all.as_slice() else { continue };
            let same = groups.iter_mut().find(|(other, _)| {
                let base = |name: &'_ str| name.split('@').next().unwrap_or_default().to_owned();
                base(&other.name) == base(name) && other.parameters == one.parameters
            });
            match same {
                Some((_, names)) => names.push(name),
                None => groups.push((one, vec![name])),
            }
        }
        for (one, names) in groups {
            if one.parameters.schema.as_object().is_none_or(Map::is_empty) {
                continue;
            }
            let id = format!("{}.{}", kind.word(), one.name);
            let mut schema = one.parameters.schema.clone();
            if let Some(schema) = schema.as_object_mut()
                && !one.description.is_empty()
            {
                schema.insert("description".to_owned(), json!(one.description));
            }
            definitions.insert(id.clone(), schema);
            let is_it = json!({"required": ["type"], "properties": {"type": {"enum": names}}});
            uses.rules.push(json!({
                "if": is_it,
                "then": {"properties": {"properties": {"$ref": format!("#/definitions/{id}")}}},
            }));
            if !one.parameters.required.is_empty() {
                uses.needs.push(json!({
                    "if": is_it,
                    "then": {
                        "required": ["properties"],
                        "properties": {"properties": {"required": one.parameters.required}},
                    },
                }));
            }
        }
        let mut built_in: Vec<&str> = match kind {
            DefinitionKind::Policy => builtin::POLICIES.iter().map(|policy| policy.name).collect(),
            DefinitionKind::WorkflowStep => builtin::STEPS.to_vec(),
            DefinitionKind::Component | DefinitionKind::Trait | DefinitionKind::Workload => {
                Vec::new()
            }
        };
        built_in.sort_unstable();
        let unknown = built_in.into_iter().filter(|name| !by_name.contains_key(name));
        uses.names.extend(unknown.map(|name| json!(name)));
        uses
    }

    /// The names for completion. Revisions come while files are written, so any of them may be meant.
    fn describe_type(&self, item: &mut Map<String, Json>, is_complete: bool) {
        let Some(type_) = item.get_mut("properties").and_then(|all| all.get_mut("type")) else {
            return;
        };
        let other = if is_complete { json!({"pattern": "@"}) } else { json!({}) };
        if let Some(type_) = type_.as_object_mut() {
            type_.insert("anyOf".to_owned(), json!([{"enum": self.names}, other]));
        }
    }
}

/// The spec of an Application as its CustomResourceDefinition has it.
fn application_spec() -> Json {
    let all = vela_api::crd::all();
    let crd = all.iter().find(|crd| crd.name.starts_with("applications."));
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    crd.and_then(|crd| crd.object.pointer(at)).map(structural).unwrap_or_default()
}

/// A structural schema of Kubernetes. What the API server would prune is a mistake.
fn structural(schema: &Json) -> Json {
    let Some(schema) = schema.as_object() else { return json!({}) };
    let mut out = Map::new();
    copy(schema, &["description", "required", "enum", "default"], &mut out);
    if let Some(type_) = schema.get("type") {
        // A null is the same as nothing: the API server drops it.
        out.insert("type".to_owned(), json!([type_, "null"]));
    }
    if let Some(Json::Object(properties)) = schema.get("properties") {
        let converted = properties.iter().map(|(name, one)| (name.clone(), structural(one)));
        out.insert("properties".to_owned(), Json::Object(converted.collect()));
        let preserves = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
        if !preserves {
            out.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(key) {
            out.insert(key.to_owned(), structural(inner));
        }
    }
    Json::Object(out)
}

fn copy(from: &Map<String, Json>, keys: &[&str], to: &mut Map<String, Json>) {
    for key in keys {
        if let Some(value) = from.get(*key) {
            to.insert((*key).to_owned(), value.clone());
        }
    }
}

/// The type, with `null` if that is one of the values.
fn typed(schema: &Map<String, Json>, out: &mut Map<String, Json>) {
    let Some(type_) = schema.get("type") else { return };
    let is_nullable = schema.get("nullable").and_then(Json::as_bool).unwrap_or_default();
    let type_ = if is_nullable { json!([type_, "null"]) } else { type_.clone() };
    out.insert("type".to_owned(), type_);
}

fn is_alternative(schema: &Json) -> bool {
    ["oneOf", "anyOf", "allOf", "not", FORMS].iter().any(|key| schema.get(*key).is_some())
}

/// What holds of properties that may be missing.
fn or_null(schema: Json) -> Json {
    let mut schema = schema;
    if let Some(type_) = schema.get_mut("type")
        && type_.is_string()
    {
        *type_ = json!([type_, "null"]);
    }
    schema
}

/// The part of a parameter schema (OpenAPI 3) that holds for every value the template takes.
fn convert(schema: &Json, conditional: &BTreeSet<String>) -> Json {
    let Some(map) = schema.as_object() else { return json!({}) };
    let mut out = Map::new();
    copy(map, &["description", "default"], &mut out);
    if is_alternative(schema) {
        match map.get("properties") {
            // No form takes a name that none of them declares. What a name takes is known where all forms that have it agree.
            Some(Json::Object(properties)) if are_closed(map) => {
                let mut properties = named(properties, conditional);
                admit(conditional, &mut properties);
                out.insert("properties".to_owned(), Json::Object(properties));
                out.insert("additionalProperties".to_owned(), json!(false));
            }
            _ => describe(map, &mut out),
        }
        return Json::Object(out);
    }
    typed(map, &mut out);
    copy(map, &SIMPLE, &mut out);
    for (bound, is_exclusive, exclusive) in [
        ("minimum", "exclusiveMinimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum", "exclusiveMaximum"),
    ] {
        if let Some(limit) = map.get(bound) {
            let key = if map.get(is_exclusive).is_some() { exclusive } else { bound };
            out.insert(key.to_owned(), limit.clone());
        }
    }
    if let Some(Json::Array(values)) = map.get("enum") {
        let mut once: Vec<&Json> = Vec::new();
        values.iter().for_each(|value| {
            if !once.contains(&value) {
                once.push(value);
            }
        });
        let is_nullable = map.get("nullable").is_some();
        if is_nullable {
            once.push(&Json::Null);
        }
        out.insert("enum".to_owned(), json!(once));
    }
    if let Some(Json::String(pattern)) = map.get("pattern")
        && !GO_ONLY.iter().any(|only| pattern.contains(only))
    {
        out.insert("pattern".to_owned(), json!(pattern));
    }
    if let Some(items) = map.get("items") {
        out.insert("items".to_owned(), convert(items, conditional));
    }
    let more = map.get("additionalProperties").map(|more| convert(more, conditional));
    if let Some(Json::Object(properties)) = map.get("properties") {
        let mut properties = named(properties, conditional);
        if more.is_none() {
            admit(conditional, &mut properties);
        }
        out.insert("properties".to_owned(), Json::Object(properties));
        out.insert("additionalProperties".to_owned(), more.unwrap_or(Json::Bool(false)));
    } else if let Some(more) = more {
        out.insert("additionalProperties".to_owned(), more);
    }
    Json::Object(out)
}

/// What holds of the properties of an object.
fn named(properties: &Map<String, Json>, conditional: &BTreeSet<String>) -> Map<String, Json> {
    properties.iter().map(|(name, one)| (name.clone(), convert(one, conditional))).collect()
}

/// Adds names that may be in no schema, and are no mistake.
fn admit(conditional: &BTreeSet<String>, properties: &mut Map<String, Json>) {
    for name in conditional {
        properties.entry(name.clone()).or_insert_with(|| json!({}));
    }
}

/// Whether all forms of a value are objects whose names are known.
fn are_closed(map: &Map<String, Json>) -> bool {
    let forms = map.get("oneOf").and_then(Json::as_array);
    let is_plain =
        |form: &Json| form.as_object().is_some_and(|form| form.keys().all(|key| key == "required"));
    map.get("type").is_some_and(|type_| type_ == "object")
        && map.get(FORMS).is_none_or(|mark| mark != COVERED)
        && map.get("additionalProperties").is_none()
        && forms.is_some_and(|forms| !forms.is_empty() && forms.iter().all(is_plain))
}

/// What can be said about the properties of alternatives without excluding anything.
fn describe(map: &Map<String, Json>, out: &mut Map<String, Json>) {
    let Some(Json::Object(properties)) = map.get("properties") else { return };
    let described = properties.iter().map(|(name, one)| {
        let mut out = Map::new();
        if let Some(one) = one.as_object() {
            copy(one, &["description", "default"], &mut out);
            describe(one, &mut out);
        }
        (name.clone(), Json::Object(out))
    });
    out.insert("properties".to_owned(), Json::Object(described.collect()));
}

/// Names of fields that a template declares under a condition: they may be in no schema, and are no mistake.
fn conditional_labels(text: &str) -> BTreeSet<String> {
    let mut labels = Labels { ast: None, found: BTreeSet::new() };
    // Templates without conditions are not parsed.
    if !text.contains("if ") && !text.contains("for ") {
        return labels.found;
    }
    let (file, errors) = parse("", text, &ParseLimits::default());
    if !errors.is_empty() {
        return labels.found;
    }
    labels.ast = Some(&file.ast);
    for decl in file.ast.decls(file.decls) {
        // What is rendered declares no parameters.
        if let DeclKind::Field(id) = file.ast.decl(decl).kind
            && let Label::Ident(name) | Label::String(name) = file.ast.field(id).label
            && ["output", "outputs", "patch", "patchOutputs"].contains(&file.ast.str(name))
        {
            continue;
        }
        labels.decl(decl, false);
    }
    labels.found
}

struct Labels<'a> {
    ast: Option<&'a Ast>,
    found: BTreeSet<String>,
}

impl Labels<'_> {
    fn decls(&mut self, decls: List<DeclId>, conditional: bool) {
        let Some(ast) = self.ast else { return };
        ast.decls(decls).for_each(|decl| self.decl(decl, conditional));
    }

    fn decl(&mut self, decl: DeclId, conditional: bool) {
        let Some(ast) = self.ast else { return };
        match ast.decl(decl).kind {
            DeclKind::Field(id) => {
                let field = ast.field(id);
                if conditional && let Label::Ident(name) | Label::String(name) = field.label {
                    self.found.insert(ast.str(name).to_owned());
                }
                self.expr(field.value, conditional);
            }
            DeclKind::Comprehension(id) => self.expr(ast.comprehension(id).body, true),
            DeclKind::Embed(value)
            | DeclKind::Ellipsis(Some(value))
            | DeclKind::Let(_, value)
            | DeclKind::Alias(_, value) => self.expr(value, conditional),
            DeclKind::Bad | DeclKind::Ellipsis(None) | DeclKind::Attribute(_) => {}
        }
    }

    /// The parser bounds how deep expressions nest, but for the left operands of a chain.
    fn expr(&mut self, mut value: ExprId, conditional: bool) {
        let Some(ast) = self.ast else { return };
        loop {
            match ast.expr(value) {
                Expr::Struct { decls, .. } => return self.decls(decls, conditional),
                Expr::List(elements) => {
                    return ast.exprs(elements).for_each(|one| self.expr(one, conditional));
                }
                Expr::Comprehension(id) => return self.expr(ast.comprehension(id).body, true),
                Expr::Ellipsis(Some(inner))
                | Expr::Paren(inner)
                | Expr::Unary(_, inner)
                | Expr::Alias(_, inner) => value = inner,
                Expr::Binary(BinaryOp::And | BinaryOp::Or, left, right) => {
                    self.expr(right, conditional);
                    value = left;
                }
                Expr::Call(_, arguments) => {
                    return ast.exprs(arguments).for_each(|one| self.expr(one, conditional));
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Renderer;

    fn of(text: &str) -> Parameters {
        let spec = json!({"schematic": {"cue": {"template": text}}});
        let definition = Definition::from_spec(DefinitionKind::Component, "d", &spec);
        Renderer::default().editor_parameters(&definition)
    }

    #[test]
    fn what_cannot_be_said_stays_open() {
        for (text, expected) in [
            (
                "parameter: {\n// +usage=The name\nname: string, count: *1 | int}",
                json!({"type": ["object", "null"], "additionalProperties": false, "properties": {
                    "name": {"type": "string", "description": "The name"},
                    "count": {"type": "integer", "default": 1}}}),
            ),
            (
                "parameter: {a: string, ...}",
                json!({"type": ["object", "null"], "additionalProperties": {},
                "properties": {"a": {"type": "string"}}}),
            ),
            ("parameter: {a: string, ...} | {b: int}", json!({"properties": {"a": {}, "b": {}}})),
            (
                "parameter: {[string]: int}",
                json!({"type": ["object", "null"],
                "additionalProperties": {"type": "integer"}}),
            ),
            (
                "parameter: {a: string} | {b: int}",
                json!({"additionalProperties": false,
                    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
            ),
            // what a name takes is known where all forms that have it agree
            (
                "parameter: *{a: {x: int}, n: string} | close({b: [...{y: int}], n: int})",
                json!({"additionalProperties": false, "properties": {
                    "a": {"type": "object", "additionalProperties": false, "properties": {"x": {"type": "integer"}}},
                    "b": {"type": "array", "items": {"type": "object", "additionalProperties": false,
                        "properties": {"y": {"type": "integer"}}}},
                    "n": {}}}),
            ),
            (
                r#"parameter: {t: *"x" | string, if t != "x" {more: string}}"#,
                json!({"type": ["object", "null"], "additionalProperties": false, "properties": {
                    "t": {"type": "string", "default": "x"}, "more": {}}}),
            ),
            (
                r#"parameter: {p: =~"^a+$", q: =~"(?i)a", n: >0 & <10, e: *"a" | "b" | null}"#,
                json!({"type": ["object", "null"], "additionalProperties": false, "properties": {
                    "p": {"type": "string", "pattern": "^a+$"}, "q": {"type": "string"},
                    "n": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
                    "e": {"type": ["string", "null"], "enum": ["a", "b", null], "default": "a"}}}),
            ),
            ("output: {}", json!({"type": ["object", "null"]})),
        ] {
            assert_eq!(of(text).schema, expected, "{text}");
        }
    }

    #[test]
    fn only_scalars_without_a_default_are_required() {
        let text = "parameter: {a: string, b: *1 | int, c?: string, d: {e: string}, f: [...int]}";
        assert_eq!(of(text).required, ["a"]);
        assert!(of("parameter: {a: string} | {b: string}").required.is_empty());
    }
}
