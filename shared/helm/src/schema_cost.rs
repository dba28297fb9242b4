//! What checking values against a schema costs, counted before it is done: the checker cannot be interrupted, it keeps every
//! failed alternative, and a schema of a kilobyte can name itself twice at each of thirty levels.
//!
//! The count follows the schema along the values as the checker does, without its short cuts. A pair of a schema and a value is
//! counted once, so counting is cheap where checking is not.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Patterns of a schema; compiling one may take milliseconds.
const MAX_PATTERNS: usize = 200;
/// Characters of a pattern.
const MAX_PATTERN: usize = 1_000;
/// References and alternatives within each other.
const MAX_NESTING: usize = 500;
/// Pairs that are counted.
const MAX_PAIRS: usize = 500_000;
/// Steps for a part of a value that is checked against a schema of the specification.
const META_SCHEMA: u64 = 1_000;
/// Schemas of the specification, which need no fetching.
const SPECIFICATION: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// How a check of values would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// It takes at most the steps that are allowed.
    Ends,
    /// It takes more, or nobody knows how many.
    TooCostly,
    /// A schema that has to hold refers to itself for the same value.
    Loops,
}

/// How checking these values goes, with at most so many steps.
pub(crate) fn course(steps: u64, schema: &Value, values: &Value) -> Course {
    let mut count = Count {
        root: schema,
        pairs: HashMap::new(),
        sizes: HashMap::new(),
        optional: 0,
        loops: false,
    };
    match count.pair(schema, values, 0) {
        _ if count.loops => Course::Loops,
        Some(cost) if cost <= steps => Course::Ends,
        _ => Course::TooCostly,
    }
}

/// Whether a schema has few and short patterns.
pub(crate) fn has_few_patterns(schema: &Value) -> bool {
    let mut left = MAX_PATTERNS;
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        if let Value::Object(map) = value {
            let named = map.get("patternProperties").and_then(Value::as_object);
            let named = named.into_iter().flat_map(Map::keys).map(String::as_str);
            for pattern in map.get("pattern").and_then(Value::as_str).into_iter().chain(named) {
                let Some(fewer) = left.checked_sub(1) else { return false };
                left = fewer;
                if pattern.len() > MAX_PATTERN {
                    return false;
                }
            }
        }
        open.extend(parts(value));
    }
    true
}

struct Count<'s> {
    root: &'s Value,
    /// By the addresses of schema and value; `None` while it is being counted.
    pairs: HashMap<(usize, usize), Option<u64>>,
    /// By the addresses of values: a schema can ask for the size of all of them in each of its parts.
    sizes: HashMap<usize, Size>,
    /// Keywords around the present schema that may hold without it, or need not ask it.
    optional: usize,
    /// Whether a schema that has to hold refers to itself.
    loops: bool,
}

/// How large a value is.
#[derive(Clone, Copy)]
struct Size {
    /// A long text counts for as many values as it is long.
    own: u64,
    /// With the values within it.
    whole: u64,
}

impl<'s> Count<'s> {
    /// The steps for one schema and one value; `None`: too many, or not known.
    fn pair(&mut self, schema: &'s Value, value: &Value, nesting: usize) -> Option<u64> {
        let Value::Object(keywords) = schema else { return Some(1) };
        let key = (std::ptr::from_ref(schema) as usize, std::ptr::from_ref(value) as usize);
        if let Some(known) = self.pairs.get(&key) {
            // The checker passes over a schema that refers to itself in place; to Helm it does not hold.
            self.loops |= known.is_none() && self.optional == 0;
            return Some(known.unwrap_or(1));
        }
        if nesting > MAX_NESTING || self.pairs.len() > MAX_PAIRS {
            return None;
        }
        self.pairs.insert(key, None);
        let cost = self.keywords(keywords, value, nesting.saturating_add(1))?;
        self.pairs.insert(key, Some(cost));
        Some(cost)
    }

    fn keywords(
        &mut self,
        keywords: &'s Map<String, Value>,
        value: &Value,
        nesting: usize,
    ) -> Option<u64> {
        let (mut here, mut below): (u64, u64) = (0, 1);
        for (keyword, of_it) in keywords {
            let optional = !matches!(keyword.as_str(), "$ref" | "allOf" | "properties" | "items");
            self.optional = self.optional.saturating_add(usize::from(optional));
            match keyword.as_str() {
                "$ref" => {
                    let reference = of_it.as_str()?;
                    let cost = if SPECIFICATION.iter().any(|it| reference.starts_with(it)) {
                        self.size(value).whole.checked_mul(META_SCHEMA)?
                    } else {
                        self.pair(self.referred(reference)?, value, nesting)?
                    };
                    here = here.checked_add(cost)?;
                }
                "$dynamicRef" | "$recursiveRef" => return None,
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => {
                    for schema in parts(of_it) {
                        here = here.checked_add(self.pair(schema, value, nesting)?)?;
                    }
                }
                // Without a condition they are no keywords.
                "then" | "else" if !keywords.contains_key("if") => {}
                "not" | "if" | "then" | "else" => {
                    here = here.checked_add(self.pair(of_it, value, nesting)?)?;
                }
                "properties" => {
                    for (name, schema) in of_it.as_object().into_iter().flatten() {
                        if let Some(part) = value.get(name) {
                            below = below.checked_add(self.pair(schema, part, nesting)?)?;
                        }
                    }
                }
                keyword if has_list(keyword, of_it) => {
                    for schema in parts(of_it) {
                        below = below.checked_add(self.each(schema, value, nesting)?)?;
                    }
                }
                "additionalProperties" => {
                    let named = keywords.get("properties").and_then(Value::as_object);
                    for (name, part) in value.as_object().into_iter().flatten() {
                        if !named.is_some_and(|named| named.contains_key(name)) {
                            below = below.checked_add(self.pair(of_it, part, nesting)?)?;
                        }
                    }
                }
                "unevaluatedProperties"
                | "items"
                | "contains"
                | "additionalItems"
                | "unevaluatedItems" => {
                    below = below.checked_add(self.each(of_it, value, nesting)?)?;
                }
                "propertyNames" => {
                    let names = value.as_object().map_or(0, Map::len) as u64;
                    let each = self.pair(of_it, value, nesting)?;
                    below = below.checked_add(each.checked_mul(names)?)?;
                }
                "uniqueItems" => {
                    below = below.checked_add(self.size(value).whole.checked_mul(8)?)?;
                }
                "pattern" | "format" | "minLength" | "maxLength" => {
                    below = below.checked_add(self.size(value).own)?;
                }
                _ => below = below.checked_add(of_it.as_array().map_or(1, |it| it.len() as u64))?,
            }
            self.optional = self.optional.saturating_sub(usize::from(optional));
        }
        // What was not evaluated is found by evaluating the same schemas again.
        let again = keywords.keys().any(|keyword| keyword.starts_with("unevaluated"));
        here.checked_mul(if again { 3 } else { 1 })?.checked_add(below)
    }

    /// A schema for every part of a value.
    fn each(&mut self, schema: &'s Value, value: &Value, nesting: usize) -> Option<u64> {
        let mut sum: u64 = 1;
        for part in parts(value) {
            sum = sum.checked_add(self.pair(schema, part, nesting)?)?;
        }
        Some(sum)
    }

    fn size(&mut self, value: &Value) -> Size {
        let address = std::ptr::from_ref(value) as usize;
        if let Some(known) = self.sizes.get(&address) {
            return *known;
        }
        let bytes = match value {
            Value::String(text) => text.len(),
            Value::Object(map) => map.keys().map(String::len).sum(),
            _ => 0,
        };
        let own = (bytes as u64 / 32).saturating_add(1);
        let within = parts(value).into_iter().map(|part| self.size(part).whole);
        let size = Size { own, whole: within.fold(own, u64::saturating_add) };
        self.sizes.insert(address, size);
        size
    }

    /// The schema that a reference within the document names.
    fn referred(&self, reference: &str) -> Option<&'s Value> {
        let pointer = if reference.is_empty() { "" } else { reference.strip_prefix('#')? };
        if pointer.contains('%') { None } else { self.root.pointer(pointer) }
    }
}

/// Whether a keyword has several schemas for the parts of a value.
fn has_list(keyword: &str, value: &Value) -> bool {
    matches!(keyword, "patternProperties" | "prefixItems")
        || (keyword == "items" && value.is_array())
}

fn parts(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn within(schema: &Value, values: &Value) -> bool {
        course(100_000, schema, values) == Course::Ends
    }

    /// Each level names the next one.
    fn levels(count: usize, keyword: impl Fn(Value) -> Value) -> Value {
        let mut definitions = Map::new();
        for level in 0..count {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), keyword(next));
        }
        definitions.insert(format!("d{count}"), json!({"type": "string"}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    #[test]
    fn ordinary_schemas_are_cheap() {
        let schema = json!({"$id": "urn:x", "type": "object", "properties": {
            "image": {"$id": "#/properties/image", "properties": {"tag": {"$ref": "#/$defs/tag"}}},
            "env": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            "not": {"type": "string"}, "id": {"type": "string"}, "$ref": {"type": "string"},
        }, "$defs": {"tag": {"type": "string", "pattern": "^v[0-9.]+$"}}});
        let values = json!({"image": {"tag": "v1"}, "env": [{"name": "a", "value": "b"}]});
        assert!(within(&schema, &values) && has_few_patterns(&schema));
        // A schema of schemas: many fields, each of which may be one again.
        let fields: Map<String, Value> =
            (0..40).map(|n| (format!("f{n}"), json!({"$ref": "#"}))).collect();
        let tree = json!({"properties": fields, "additionalProperties": {"$ref": "#"}});
        let mut deep = json!({});
        for _ in 0..20 {
            deep = json!({"f1": deep, "other": 1});
        }
        assert!(within(&tree, &deep));
        // What cannot be counted does not matter where it is not checked.
        assert!(within(&json!({"then": {"$ref": "#no"}, "else": {"$dynamicRef": "#a"}}), &values));
        assert!(within(&json!({"properties": {"a": {"$ref": ""}}}), &json!({"a": {}})));
        // Loops that the checker passes over.
        assert!(within(&json!({"anyOf": [{"$ref": "#"}]}), &values));
    }

    #[test]
    fn a_schema_that_has_to_hold_and_refers_to_itself_loops() {
        let at_a = |schema: Value| json!({"properties": {"a": schema}});
        for (schema, loops) in [
            (json!({"$ref": "#"}), true),
            (json!({"allOf": [{"$ref": "#"}]}), true),
            (at_a(json!({"$ref": "#/properties/a"})), true),
            // For a part of the value it is a recursion that ends with the value.
            (at_a(json!({"$ref": "#"})), false),
            // The loop is one of several ways, or not gone at all.
            (json!({"anyOf": [{"$ref": "#"}, true]}), false),
            (json!({"properties": {"b": {"$ref": "#/properties/b"}}}), false),
        ] {
            let found = course(100_000, &schema, &json!({"a": {"c": 1}})) == Course::Loops;
            assert_eq!(found, loops, "{schema}");
        }
    }

    #[test]
    fn what_costs_more_is_found() {
        let twice = |next: Value| json!({"anyOf": [next, next]});
        assert!(within(&levels(5, twice), &json!({})));
        assert!(!within(&levels(40, twice), &json!({})));
        assert!(!within(&levels(5_000, |next| json!({"not": next})), &json!({})));
        let unevaluated = |next: Value| json!({"allOf": [next], "unevaluatedProperties": false});
        assert!(!within(&levels(40, unevaluated), &json!({})));
        for schema in [
            json!({"$dynamicRef": "#a"}),
            json!({"$ref": "other.json"}),
            json!({"$ref": "#anchor"}),
        ] {
            assert!(!within(&schema, &json!({"a": {"b": 1}})), "{schema}");
        }
        for schema in [
            json!({"pattern": "a".repeat(2_000)}),
            json!({"allOf": vec![json!({"pattern": "a"}); 300]}),
        ] {
            assert!(!has_few_patterns(&schema));
        }
    }

    #[test]
    fn long_lists_and_texts_count() {
        let items = json!({"items": {"enum": (0..2_000).collect::<Vec<_>>()}});
        assert!(within(&items, &json!([1, 2, 3])));
        assert!(!within(&items, &json!(vec![1; 1_000])));
        let schema = json!({"allOf": vec![json!({"pattern": "b"}); 100]});
        assert!(within(&schema, &json!("a")));
        assert!(!within(&schema, &json!("a".repeat(100_000))));
    }
}
