//! Checks parameters against the schema of their definition: unknown names, missing values.
//!
//! The schema is the one users see in forms and documentation. Where it is open or has
//! alternatives nothing is reported: what is reported here must be right.

use serde_json::{Map, Value};

use crate::field::Field;
use crate::messages;

/// What the schema says of some properties.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Given, but not declared: where, the name, and what was probably meant.
    pub(crate) unknown: Vec<(Field, String, Option<String>)>,
    /// Declared without a default, and not given: the path below the properties.
    pub(crate) missing: Vec<String>,
}

/// Deeper nesting is not checked: a schema can refer to itself only by depth.
const DEPTH: usize = 16;

/// Where in the properties: put into words only for what is found.
#[derive(Clone, Copy)]
struct At<'a> {
    above: Option<(&'a Self, Step<'a>)>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    const ROOT: Self = Self { above: None, depth: 0 };

    fn below(&'a self, step: Step<'a>) -> Self {
        At { above: Some((self, step)), depth: self.depth + 1 }
    }

    fn is_element(&self) -> bool {
        matches!(self.above, Some((_, Step::Index(_))))
    }

    fn field(&self, base: &Field) -> Field {
        match self.above {
            None => base.clone(),
            Some((above, Step::Key(key))) => above.field(base).labels([key]),
            Some((above, Step::Index(n))) => above.field(base).index(n),
        }
    }

    /// `ports[0].port`
    fn path(&self) -> String {
        match self.above {
            None => String::new(),
            Some((above, Step::Index(n))) => format!("{}[{n}]", above.path()),
            Some((above, Step::Key(key))) => match above.path() {
                path if path.is_empty() => key.to_owned(),
                path => format!("{path}.{key}"),
            },
        }
    }
}

/// What is compared with what, and what came of it.
struct Comparison<'a> {
    supplied: &'a [String],
    field: &'a Field,
    findings: Findings,
}

/// Compares properties with a schema. Paths in `supplied` come from elsewhere.
pub(crate) fn compare(
    schema: &Value,
    properties: Option<&Value>,
    supplied: &[String],
    field: &Field,
) -> Findings {
    let mut comparison = Comparison { supplied, field, findings: Findings::default() };
    let empty = Map::new();
    let map = properties.and_then(Value::as_object).unwrap_or(&empty);
    comparison.object(schema, map, At::ROOT);
    comparison.findings
}

impl Comparison<'_> {
    fn object(&mut self, schema: &Value, map: &Map<String, Value>, at: At<'_>) {
        if at.depth >= DEPTH || is_open(schema) {
            return;
        }
        let Some(declared) = schema.get("properties").and_then(Value::as_object) else { return };
        for (key, value) in map {
            let below = at.below(Step::Key(key));
            match declared.get(key) {
                None => {
                    let nearest = vela_serve::nearest(key, declared.keys().map(String::as_str));
                    let field = below.field(self.field);
                    self.findings.unknown.push((field, key.clone(), nearest.map(str::to_owned)));
                }
                Some(schema) => self.nested(schema, value, below),
            }
        }
        for key in required(schema) {
            if map.get(key).is_some_and(|value| !value.is_null()) {
                continue;
            }
            let Some(schema) = declared.get(key).filter(|schema| !has_value(schema)) else {
                continue;
            };
            let below = at.below(Step::Key(key));
            if self.is_supplied(below) {
                continue;
            }
            // a struct is there by itself; something in it may be wanted
            if schema.get("properties").is_some() {
                self.object(schema, &Map::new(), below);
            } else if is_scalar(schema) && !at.is_element() {
                // which fields an element needs may hang on another of its fields
                self.findings.missing.push(below.path());
            }
        }
    }

    fn is_supplied(&self, at: At<'_>) -> bool {
        if self.supplied.is_empty() {
            return false;
        }
        // What is supplied is in it, or it is in what is supplied.
        let path = at.path();
        let holds = |whole: &str, part: &str| {
            part.strip_prefix(whole).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
            })
        };
        self.supplied.iter().any(|other| holds(&path, other) || holds(other, &path))
    }

    fn nested(&mut self, schema: &Value, value: &Value, at: At<'_>) {
        match value {
            Value::Object(map) => self.object(schema, map, at),
            Value::Array(items) => {
                let Some(schema) = schema.get("items") else { return };
                for (n, item) in items.iter().enumerate() {
                    self.nested(schema, item, at.below(Step::Index(n)));
                }
            }
            _ => {}
        }
    }
}

/// Values that do not have the type of their parameter, with what is wrong.
pub(crate) fn misfits(
    schema: &Value,
    properties: Option<&Value>,
    field: &Field,
) -> Vec<(Field, String)> {
    let mut out = Vec::new();
    if let Some(properties) = properties {
        misfit(schema, properties, field, DEPTH, &mut out);
    }
    out
}

fn misfit(
    schema: &Value,
    value: &Value,
    field: &Field,
    depth: usize,
    out: &mut Vec<(Field, String)>,
) {
    let is_alternative =
        ["oneOf", "anyOf", "allOf", "not"].iter().any(|key| schema.get(*key).is_some());
    if depth == 0 || is_alternative || value.is_null() {
        return;
    }
    let (fits, want) = match schema.get("type").and_then(Value::as_str) {
        Some("string") => (value.is_string(), "a text"),
        Some("integer") => (value.is_i64() || value.is_u64(), "a whole number"),
        Some("number") => (value.is_number(), "a number"),
        Some("boolean") => (value.is_boolean(), "a boolean"),
        Some("array") => (value.is_array(), "a list"),
        Some("object") => (value.is_object(), "an object"),
        _ => return,
    };
    if !fits {
        return out.push((field.clone(), messages::wrong_type(want, value)));
    }
    if let Some(all) = schema.get("enum").and_then(Value::as_array)
        && !all.contains(value)
    {
        let nearest = value
            .as_str()
            .and_then(|text| vela_serve::nearest(text, all.iter().filter_map(Value::as_str)));
        return out.push((field.clone(), messages::none_of(all, value, nearest)));
    }
    match value {
        Value::Object(map) => {
            let declared = schema.get("properties");
            for (key, value) in map {
                let own = declared.and_then(|declared| declared.get(key));
                let any = schema.get("additionalProperties").filter(|more| more.is_object());
                if let Some(schema) = own.or(any) {
                    misfit(schema, value, &field.labels([key]), depth - 1, out);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (n, item) in items.iter().enumerate() {
                misfit(schema, item, &field.index(n), depth - 1, out);
            }
        }
        _ => {}
    }
}

/// The schema lists fields with a default as required, too.
fn has_value(schema: &Value) -> bool {
    schema.get("default").is_some()
}

/// Lists and maps are empty when nothing is given; only scalars can be missing.
fn is_scalar(schema: &Value) -> bool {
    let type_ = schema.get("type").and_then(Value::as_str);
    matches!(type_, Some("string" | "integer" | "number" | "boolean"))
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Alternatives and free-form maps say nothing about a name.
fn is_open(schema: &Value) -> bool {
    let is_alternative =
        ["oneOf", "anyOf", "allOf", "not"].iter().any(|key| schema.get(*key).is_some());
    let is_map = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
    is_alternative || is_map
}

/// Whether the text has a field of this name somewhere.
pub(crate) fn mentions_label(template: &str, name: &str) -> bool {
    template.match_indices(name).any(|(at, _)| {
        let rest = template.get(at + name.len()..).unwrap_or_default();
        let rest = rest.trim_start_matches('"').trim_start_matches(['?', '!']);
        let before = template.get(..at).and_then(|text| text.chars().next_back());
        rest.starts_with(':')
            && !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '#' | '$'))
    })
}

/// Values in the place of required ones that come later, so that templates can be checked without
/// them. `None` if there is nothing to fill in.
pub(crate) fn placeholders(
    schema: &Value,
    properties: Option<&Value>,
    supplied: &[String],
) -> Option<Value> {
    if is_open(schema) {
        return None;
    }
    let declared = schema.get("properties").and_then(Value::as_object)?;
    let mut filled = properties.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut is_filled = false;
    for key in required(schema) {
        let is_later = supplied
            .iter()
            .any(|path| path.split(['.', '[']).next().is_some_and(|first| first == key));
        // A null is a value, and none that fits.
        if !is_later || filled.contains_key(key) {
            continue;
        }
        let schema = declared.get(key)?;
        if has_value(schema) {
            continue;
        }
        filled.insert(key.to_owned(), placeholder(schema)?);
        is_filled = true;
    }
    is_filled.then_some(Value::Object(filled))
}

fn placeholder(schema: &Value) -> Option<Value> {
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return Some(first.clone());
    }
    Some(match schema.get("type").and_then(Value::as_str)? {
        "string" => Value::from("__workflow_supplied__"),
        "integer" => Value::from(0),
        "number" => Value::from(0.0),
        "boolean" => Value::from(false),
        "array" => Value::Array(Vec::new()),
        "object" => Value::Object(Map::new()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["image", "ports", "kept", "deep"],
            "properties": {
                "kept": { "type": "integer", "default": 1 },
                "deep": { "type": "object", "required": ["inner"], "properties": { "inner": { "type": "string" } } },
                "image": { "type": "string" },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "ports": { "type": "array", "items": { "type": "object", "required": ["port"], "properties": { "port": { "type": "integer" }, "name": { "type": "string" } } } },
                "either": { "oneOf": [{ "type": "string" }, { "type": "object" }] },
            },
        })
    }

    #[test]
    fn unknown_names_and_missing_values() {
        let properties = json!({ "imagge": "x", "labels": { "any": "thing" }, "either": { "x": 1 }, "ports": [{ "port": 1 }, { "prot": 2 }] });
        let found = compare(&schema(), Some(&properties), &[], &Field::new("p"));
        let unknown: Vec<String> =
            found.unknown.iter().map(|(field, _, near)| format!("{field} {near:?}")).collect();
        assert_eq!(unknown, ["p.imagge Some(\"image\")", "p.ports[1].prot Some(\"port\")"]);
        assert_eq!(found.missing, ["image", "deep.inner"]);
        assert!(mentions_label("if a {claimName?: string}", "claimName"));
        assert!(!mentions_label("x: parameter.claimName, myclaimName: 1", "claimName"));
    }

    #[test]
    fn values_of_another_type_are_told() {
        let properties = json!({ "image": 5, "kept": "x", "ports": [{ "port": 1.5 }, { "port": 2 }], "labels": { "a": 1 }, "either": [], "deep": null });
        let reported: Vec<String> = misfits(&schema(), Some(&properties), &Field::new("p"))
            .into_iter()
            .map(|(field, detail)| format!("{field}: {detail}"))
            .collect();
        assert_eq!(
            reported,
            [
                "p.image: must be a text, not the number 5",
                "p.kept: must be a whole number, not the text \"x\"",
                "p.labels.a: must be a text, not the number 1",
                "p.ports[0].port: must be a whole number, not the number 1.5",
            ]
        );
    }

    #[test]
    fn what_comes_later_is_not_missing() {
        let supplied = ["image", "ports[0].port", "deep.inner"].map(str::to_owned);
        assert!(compare(&schema(), None, &supplied, &Field::new("p")).missing.is_empty());
        let filled = placeholders(&schema(), None, &supplied).unwrap();
        assert_eq!(filled, json!({ "image": "__workflow_supplied__", "ports": [], "deep": {} }));
        assert_eq!(placeholders(&schema(), None, &[]), None);
        // What is given stays: a null is for the template to refuse.
        let given = json!({ "image": null, "ports": [], "deep": {} });
        assert_eq!(placeholders(&schema(), Some(&given), &supplied), None);
        // An input may be a whole struct.
        let supplied = ["image", "deep"].map(str::to_owned);
        assert!(compare(&schema(), None, &supplied, &Field::new("p")).missing.is_empty());
    }
}
