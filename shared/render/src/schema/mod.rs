//! The parameter schema of a definition: OpenAPI v3, as dashboards and command lines read it.

pub mod editor;
mod written;

use crate::cache::{Flavour, Programs};
use crate::definition::{Definition, Template};
use crate::messages;
use crate::term::{Op, Test, kind_of};
use cue::{Evaluation, Kind, LabelClass, Limits, Marker, Node, Rest, Shape, Value, Which};
use serde_json::{Map, Value as Json, json};

/// Parameters nested deeper than this have no schema: a definition that contains itself never
/// ends.
const DEPTH: usize = 48;
/// A schema with more nodes than this is refused.
const NODES: usize = 50_000;

type Result<T> = std::result::Result<T, Inexpressible>;

/// What a schema cannot say.
#[derive(Debug, thiserror::Error)]
enum Inexpressible {
    #[error(transparent)]
    Cue(#[from] cue::Errors),
    #[error("{}", messages::recursive_parameter())]
    Recursive,
    #[error("{}", messages::tuple_parameter())]
    Tuple,
    /// An operator, and the type of its operand.
    #[error("{}", messages::unsupported_operator(.0, .1))]
    Operator(String, &'static str),
}

/// Why the parameters of a definition have no schema.
#[derive(Debug, thiserror::Error)]
#[error("{}", messages::no_schema(.definition, .why))]
pub struct SchemaError {
    definition: String,
    why: Inexpressible,
}

/// Marks a value that has several forms, of which the schema says less than the template: no part of the schema.
const FORMS: &str = "x-vela-forms";
/// A form of it is described as if it were all of them.
const COVERED: &str = "covered";

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
    let mut generator = Generator { evaluation: &mut evaluation, nodes: 0 };
    let mut schema = generator.node(parameter, 0)?;
    if let Some(schema) = schema.as_object_mut() {
        written::repeat_alternatives(definition.template.text(), schema);
        finish(schema, None);
    }
    Ok(schema)
}

struct Generator<'a> {
    evaluation: &'a mut Evaluation,
    nodes: usize,
}

impl Generator<'_> {
    fn node(&mut self, node: Node, depth: usize) -> Result<Json> {
        self.nodes += 1;
        if depth > DEPTH || self.nodes > NODES {
            return Err(Inexpressible::Recursive);
        }
        let shape = self.evaluation.shape(node);
        let mut out = Map::new();
        let (kind, nullable) = self.kinds(&shape);
        let word = type_word(kind);
        if let Some(word) = word {
            out.insert("type".into(), word.into());
        }
        if word == Some("string") && kind == Kind::BYTES {
            out.insert("format".into(), "binary".into());
        }
        if nullable {
            out.insert("nullable".into(), true.into());
        }
        match &shape {
            Shape::Any(alternatives) => {
                self.alternatives(&mut out, alternatives, kind, depth)?;
                if let Some((_, default)) = single_default(alternatives) {
                    self.default(&mut out, default, node)?;
                }
            }
            shape => self.body(&mut out, shape, depth)?,
        }
        Ok(Json::Object(out))
    }

    /// The kinds of a shape, `null` apart.
    fn kinds(&mut self, shape: &Shape) -> (Kind, bool) {
        let kind = kind_of_shape(shape);
        let nullable =
            kind.intersects(Kind::NULL) && !kind.contains(Kind::TOP) && kind != Kind::NULL;
        (if nullable { kind.without(Kind::NULL) } else { kind }, nullable)
    }

    /// What is said about a value of one form.
    fn body(&mut self, out: &mut Map<String, Json>, shape: &Shape, depth: usize) -> Result<()> {
        match shape {
            Shape::Data(Value::Null) => {
                out.insert("nullable".into(), true.into());
                Ok(())
            }
            Shape::Data(value) => {
                out.insert("enum".into(), json!([value.to_json()]));
                Ok(())
            }
            Shape::Kinds(_) => Ok(()),
            Shape::Bound(op, value) => bound(out, op, value),
            Shape::Call(package, name, args) => {
                call(out, package, name, args);
                Ok(())
            }
            Shape::All(shapes) => {
                if let Some(format) = int_format(shapes) {
                    out.insert("format".into(), format.into());
                    return Ok(());
                }
                for shape in shapes {
                    self.body(out, shape, depth)?;
                }
                Ok(())
            }
            Shape::Any(alternatives) => {
                self.alternatives(out, alternatives, kind_of_shape(shape), depth)
            }
            Shape::Struct(node) => self.object(out, *node, depth),
            Shape::List(node) => {
                let count = self.evaluation.elements(*node).len();
                match self.evaluation.rest(*node) {
                    Rest::Of(item) if count == 0 => {
                        out.insert("items".into(), self.node(item, depth + 1)?);
                    }
                    Rest::Open if count == 0 => {
                        out.insert("items".into(), json!({}));
                    }
                    Rest::Closed if count == 0 => {
                        out.insert("maxItems".into(), 0.into());
                    }
                    _ => return Err(Inexpressible::Tuple),
                }
                Ok(())
            }
            Shape::Error(errors) => Err(errors.clone().into()),
        }
    }

    fn object(&mut self, out: &mut Map<String, Json>, node: Node, depth: usize) -> Result<()> {
        let which = Which { constraints: true, definitions: false, hidden: false };
        let mut properties = Map::new();
        let mut required: Vec<Json> = Vec::new();
        for field in self.evaluation.fields(node, which) {
            if field.class != LabelClass::Regular {
                continue;
            }
            let mut property = self.node(field.node, depth + 1)?;
            let docs = self.evaluation.docs(field.node);
            if !docs.is_empty()
                && let Some(property) = property.as_object_mut()
            {
                let lines: Vec<&str> =
                    docs.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                property.insert("description".into(), lines.join("\n").trim_end().into());
            }
            if field.marker != Marker::Optional {
                required.push(field.label.as_str().into());
            }
            properties.insert(field.label.to_string(), property);
        }
        if !properties.is_empty() {
            out.insert("properties".into(), Json::Object(properties));
        }
        if !required.is_empty() {
            out.insert("required".into(), Json::Array(required));
        }
        for (key, value) in self.evaluation.patterns(node) {
            if let Shape::Kinds(kind) = self.evaluation.shape(key)
                && kind.contains(Kind::STRING)
            {
                let schema = self.node(value, depth + 1)?;
                out.insert("additionalProperties".into(), schema);
            }
        }
        if self.evaluation.is_open(node) && !out.contains_key("additionalProperties") {
            out.insert("additionalProperties".into(), json!({}));
        }
        Ok(())
    }

    /// Alternatives: literals become an enumeration, forms are distinguished.
    fn alternatives(
        &mut self,
        out: &mut Map<String, Json>,
        all: &[(bool, Shape)],
        kind: Kind,
        depth: usize,
    ) -> Result<()> {
        let mut literals: Vec<Json> = Vec::new();
        let mut forms: Vec<&Shape> = Vec::new();
        for (index, (default, shape)) in all.iter().enumerate() {
            if *default && self.is_covered(shape, all, index) {
                if !matches!(shape, Shape::Data(_)) {
                    out.insert(FORMS.into(), COVERED.into());
                }
                if let Shape::Struct(node) = shape {
                    // Its fields describe the default.
                    let mut described = Map::new();
                    self.object(&mut described, *node, depth)?;
                    described.remove("required");
                    out.extend(described);
                }
                continue;
            }
            match shape {
                Shape::Data(Value::Null) => {}
                Shape::Data(value) => literals.push(value.to_json()),
                shape => forms.push(shape),
            }
        }
        if forms.len() + usize::from(!literals.is_empty()) > 1 {
            out.entry(FORMS).or_insert_with(|| true.into());
        }
        let objects = kind == Kind::STRUCT;
        match (forms.as_slice(), literals.is_empty()) {
            ([], true) => Ok(()),
            ([], false) => {
                out.insert("enum".into(), Json::Array(literals));
                Ok(())
            }
            ([one], true) => self.body(out, one, depth),
            (forms, _) => {
                let mut one_of = Vec::new();
                if !literals.is_empty() {
                    one_of.push(json!({ "enum": literals }));
                }
                for form in forms {
                    let mut schema = Map::new();
                    self.body(&mut schema, form, depth)?;
                    if objects && let Some(Json::Object(own)) = schema.remove("properties") {
                        // What is a property of one object is reported once, outside.
                        let shared = out.entry("properties").or_insert_with(|| json!({}));
                        if let Some(shared) = shared.as_object_mut() {
                            for (key, value) in own {
                                merge_property(shared, key, value);
                            }
                        }
                    }
                    one_of.push(Json::Object(schema));
                }
                out.insert("oneOf".into(), Json::Array(one_of));
                Ok(())
            }
        }
    }

    /// Whether another alternative accepts everything a default is.
    fn is_covered(&mut self, default: &Shape, all: &[(bool, Shape)], index: usize) -> bool {
        let others = || {
            all.iter().enumerate().filter(move |(i, _)| *i != index).map(|(_, (_, shape))| shape)
        };
        match default {
            Shape::Data(value) => others().any(|shape| accepts(shape, value)),
            Shape::Kinds(kind) => {
                others().any(|shape| matches!(shape, Shape::Kinds(k) if k.contains(*kind)))
            }
            Shape::List(_) => {
                let lists: Vec<Node> = others()
                    .filter_map(|shape| match shape {
                        Shape::List(node) => Some(*node),
                        _ => None,
                    })
                    .collect();
                lists.into_iter().any(|node| !matches!(self.evaluation.rest(node), Rest::Closed))
            }
            Shape::Struct(_) => {
                let structs: Vec<Node> = others()
                    .filter_map(|shape| match shape {
                        Shape::Struct(node) => Some(*node),
                        _ => None,
                    })
                    .collect();
                structs.into_iter().any(|node| {
                    let which = Which { constraints: true, ..Which::default() };
                    self.evaluation.fields(node, which).is_empty() && self.evaluation.is_open(node)
                })
            }
            _ => false,
        }
    }

    fn default(&mut self, out: &mut Map<String, Json>, default: &Shape, node: Node) -> Result<()> {
        let value = match default {
            Shape::Data(Value::Null) => return Ok(()),
            Shape::Data(value) => value.to_json(),
            Shape::List(_) | Shape::Struct(_) => match self.evaluation.export(node) {
                Ok(value) => value.to_json(),
                Err(_) => return Ok(()),
            },
            _ => return Ok(()),
        };
        if value.as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        out.insert("default".into(), value);
        Ok(())
    }
}

/// Adds a property of one alternative to those of all. Where two disagree only its title is reported, as the reference does:
/// what each takes is known to the alternatives alone.
fn merge_property(shared: &mut Map<String, Json>, key: String, value: Json) {
    match shared.get_mut(&key) {
        None => {
            shared.insert(key, value);
        }
        Some(known) if *known != value => {
            if let Some(known) = known.as_object_mut() {
                known.retain(|name, _| name == "title");
            }
        }
        Some(_) => {}
    }
}

fn single_default(alternatives: &[(bool, Shape)]) -> Option<(usize, &Shape)> {
    let mut marked = alternatives.iter().enumerate().filter(|(_, (default, _))| *default);
    let (index, (_, shape)) = marked.next()?;
    marked.next().is_none().then_some((index, shape))
}

fn kind_of_shape(shape: &Shape) -> Kind {
    match shape {
        Shape::Data(value) => kind_of(value),
        Shape::Kinds(kind) => *kind,
        Shape::Bound("=~" | "!~", _) => Kind::STRING,
        Shape::Bound("!=", value) => kind_of(value),
        Shape::Bound(_, Value::Number(_)) => Kind::NUMBER,
        Shape::Bound(_, value) => kind_of(value),
        Shape::Call(package, ..) => match package.as_str() {
            "strings" => Kind::STRING,
            "list" => Kind::LIST,
            "struct" => Kind::STRUCT,
            "math" => Kind::NUMBER,
            _ => Kind::TOP,
        },
        Shape::All(shapes) => shapes.iter().fold(Kind::TOP, |k, s| k & kind_of_shape(s)),
        Shape::Any(alternatives) => {
            alternatives.iter().fold(Kind::BOTTOM, |k, (_, s)| k | kind_of_shape(s))
        }
        Shape::Struct(_) => Kind::STRUCT,
        Shape::List(_) => Kind::LIST,
        Shape::Error(_) => Kind::TOP,
    }
}

fn type_word(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::BOOL => Some("boolean"),
        Kind::INT => Some("integer"),
        Kind::FLOAT | Kind::NUMBER => Some("number"),
        Kind::STRING | Kind::BYTES => Some("string"),
        Kind::LIST => Some("array"),
        Kind::STRUCT => Some("object"),
        _ => None,
    }
}

fn test(op: &str, value: &Value) -> Option<Test> {
    Some(match (op, value) {
        ("=~", Value::String(pattern)) => Test::Match(true, pattern.clone()),
        ("!~", Value::String(pattern)) => Test::Match(false, pattern.clone()),
        ("<", value) => Test::Bound(Op::Less, value.clone()),
        ("<=", value) => Test::Bound(Op::LessEqual, value.clone()),
        (">", value) => Test::Bound(Op::Greater, value.clone()),
        (">=", value) => Test::Bound(Op::GreaterEqual, value.clone()),
        ("!=", value) => Test::Bound(Op::NotEqual, value.clone()),
        _ => return None,
    })
}

fn accepts(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::Kinds(kind) => kind.contains(kind_of(value)),
        Shape::Bound(op, operand) => test(op, operand).is_some_and(|t| t.accepts(value)),
        Shape::All(shapes) => shapes.iter().all(|s| accepts(s, value)),
        Shape::Any(alternatives) => alternatives.iter().any(|(_, s)| accepts(s, value)),
        _ => false,
    }
}

fn bound(out: &mut Map<String, Json>, op: &str, value: &Value) -> Result<()> {
    let json = value.to_json();
    match (op, value) {
        (">=", Value::Number(_)) => {
            out.insert("minimum".into(), json);
        }
        (">", Value::Number(_)) => {
            out.insert("minimum".into(), json);
            out.insert("exclusiveMinimum".into(), true.into());
        }
        ("<=", Value::Number(_)) => {
            out.insert("maximum".into(), json);
        }
        ("<", Value::Number(_)) => {
            out.insert("maximum".into(), json);
            out.insert("exclusiveMaximum".into(), true.into());
        }
        ("=~", _) => {
            out.insert("pattern".into(), json);
        }
        ("!~", _) => {
            out.insert("not".into(), json!({ "pattern": json }));
        }
        _ => {
            let word = type_word(kind_of(value)).unwrap_or("any");
            return Err(Inexpressible::Operator(op.to_owned(), word));
        }
    }
    Ok(())
}

fn call(out: &mut Map<String, Json>, package: &str, name: &str, args: &[Value]) {
    let key = match (package, name) {
        ("strings", "MinRunes") => "minLength",
        ("strings", "MaxRunes") => "maxLength",
        ("list", "MinItems") => "minItems",
        ("list", "MaxItems") => "maxItems",
        ("list", "UniqueItems") => {
            out.insert("uniqueItems".into(), true.into());
            return;
        }
        ("struct", "MinFields") => "minProperties",
        ("struct", "MaxFields") => "maxProperties",
        ("math", "MultipleOf") => "multipleOf",
        _ => return,
    };
    if let Some(argument) = args.first() {
        out.insert(key.into(), argument.to_json());
    }
}

/// `int32` and `int64` are formats, not bounds.
fn int_format(shapes: &[Shape]) -> Option<&'static str> {
    let mut low = None;
    let mut high = None;
    for shape in shapes {
        match shape {
            Shape::Kinds(kind) if *kind == Kind::INT => {}
            Shape::Bound(">=", Value::Number(n)) => low = n.as_i64(),
            Shape::Bound("<=", Value::Number(n)) => high = n.as_i64(),
            _ => return None,
        }
    }
    match (low?, high?) {
        (low, high) if low == i64::from(i32::MIN) && high == i64::from(i32::MAX) => Some("int32"),
        (i64::MIN, i64::MAX) => Some("int64"),
        _ => None,
    }
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
