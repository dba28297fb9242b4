//! From the value of a parameter to its schema: objects, lists and alternatives.

use cue::{Evaluation, Kind, LabelClass, Marker, Node, Rest, Shape, Value, Which};
use serde_json::{Map, Value as Json, json};

use super::constraints::{accepts, bound, call, int_format, kind_of_shape, type_word};
use super::error::{Inexpressible, Result};

/// Marks a value that has several forms, of which the schema says less than the template: no part of the schema.
pub(super) const FORMS: &str = "x-vela-forms";
/// A form of it is described as if it were all of them.
pub(super) const COVERED: &str = "covered";
/// Parameters nested deeper than this have no schema: a definition that contains itself never
/// ends.
const DEPTH: usize = 48;
/// A schema with more nodes than this is refused.
const NODES: usize = 50_000;

/// Walks the value of a parameter.
pub(super) struct Generator<'a> {
    evaluation: &'a mut Evaluation,
    nodes: usize,
}

impl<'a> Generator<'a> {
    pub(super) fn new(evaluation: &'a mut Evaluation) -> Self {
        Self { evaluation, nodes: 0 }
    }

    /// The schema of a value.
    pub(super) fn node(&mut self, node: Node, depth: usize) -> Result<Json> {
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
                if !matches!(shape, Shape::Data(_)) && !self.is_empty_list(shape) {
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

    /// Whether a shape is `[]`. Whatever a schema says about elements holds for it.
    fn is_empty_list(&mut self, shape: &Shape) -> bool {
        let Shape::List(node) = shape else { return false };
        let is_closed = matches!(self.evaluation.rest(*node), Rest::Closed);
        is_closed && self.evaluation.elements(*node).is_empty()
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
            Shape::List(_) => others().any(|shape| {
                let Shape::List(node) = shape else { return false };
                !matches!(self.evaluation.rest(*node), Rest::Closed)
            }),
            Shape::Struct(_) => others().any(|shape| {
                let Shape::Struct(node) = shape else { return false };
                let which = Which { constraints: true, ..Which::default() };
                self.evaluation.fields(*node, which).is_empty() && self.evaluation.is_open(*node)
            }),
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
