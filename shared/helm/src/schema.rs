//! values.schema.json: the coalesced values of a chart and of each of its subcharts against their schemas.
//!
//! Nothing is ever fetched: a `$ref` to another document is refused, also to a meta-schema. The lines of
//! an error have the form that Helm gives them; details of nested alternatives may be worded otherwise.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ReferencingError, ValidationError, Validator};
use serde_json::Value;
use vela_gocompat::regexp;

use crate::chart::Chart;
use crate::schema_cost::{self, Course};
use crate::values::Table;

/// Errors of one schema that are listed; more do not help anybody.
const MOST_LISTED: usize = 100;
/// Steps of a check.
const MAX_STEPS: u64 = 500_000;

const TOO_COSTLY: &str =
    "checking the values takes more than 500000 steps, or a number that cannot be counted";
const LOOP: &str = "the schema refers to itself without an end";
const TOO_MANY_PATTERNS: &str =
    "the schema has more than 200 patterns, or one of more than 1000 bytes";

/// Values that do not fit the schemas of the charts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
pub struct SchemaError(String);

/// Checks the values of a chart with all its subcharts.
pub(crate) fn validate(chart: &Chart, values: &Table) -> Result<(), SchemaError> {
    let mut report = String::new();
    chart_values(chart, values, &mut report);
    if report.is_empty() { Ok(()) } else { Err(SchemaError(report.trim_end().to_owned())) }
}

fn chart_values(chart: &Chart, values: &Table, report: &mut String) {
    if let Some(schema) = &chart.schema {
        let lines = chart.compiled.schema.get_or_init(|| Schema::read(schema)).against(values);
        if !lines.is_empty() {
            let _ = writeln!(report, "{}:\n{}", chart.name(), lines.join("\n"));
        }
    }
    for subchart in &chart.dependencies {
        match values.get(subchart.name()) {
            None | Some(Value::Null) => {}
            Some(Value::Object(section)) => chart_values(subchart, section, report),
            Some(other) => {
                let _ = writeln!(
                    report,
                    "{}:\ninvalid type for values: expected object (map), got {}",
                    subchart.name(),
                    type_of(other)
                );
            }
        }
    }
}

/// What was read of a schema.
pub(crate) enum Schema {
    /// The schema, and its checker.
    Usable(Value, Box<Validator>),
    /// What is wrong with it.
    Broken(String),
}

impl Schema {
    fn read(text: &[u8]) -> Self {
        let mut schema: Value = match serde_json::from_slice(text) {
            Ok(schema) => schema,
            Err(error) => return Self::Broken(format!("unable to validate schema: {error}")),
        };
        if !schema_cost::has_few_patterns(&schema) {
            return Self::Broken(TOO_MANY_PATTERNS.to_owned());
        }
        settle(&mut schema, true);
        if let Some(pattern) = wrong_pattern(&schema) {
            return Self::Broken(not_valid(format_args!("'{pattern}' is not valid regex")));
        }
        // The engine for patterns that takes no time beyond the length of the text, as Go's.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        match options.build(&schema) {
            Ok(validator) => Self::Usable(schema, Box::new(validator)),
            Err(error) => Self::Broken(broken(&error)),
        }
    }

    /// What is wrong with values, a line each; a schema that is none is wrong too.
    fn against(&self, values: &Table) -> Vec<String> {
        let mut values = Value::Object(values.clone());
        integers(&mut values);
        match self {
            Self::Usable(schema, validator) => {
                match schema_cost::course(MAX_STEPS, schema, &values) {
                    Course::Ends => against(validator, &values),
                    Course::TooCostly => vec![TOO_COSTLY.to_owned()],
                    Course::Loops => vec![LOOP.to_owned()],
                }
            }
            Self::Broken(what) => vec![what.clone()],
        }
    }
}

fn against(validator: &Validator, values: &Value) -> Vec<String> {
    let mut missing: Vec<(String, Vec<String>)> = Vec::new();
    let mut lines = Vec::new();
    for error in validator.iter_errors(values).take(MOST_LISTED) {
        // All missing properties of an object are one line.
        if let ValidationErrorKind::Required { property } = error.kind() {
            let at = error.instance_path().to_string();
            let name = quoted(property);
            match missing.iter_mut().find(|(path, _)| *path == at) {
                Some((_, names)) => names.push(name),
                None => missing.push((at, vec![name])),
            }
        } else {
            line(&error, 0, &mut lines);
        }
    }
    let required = missing.into_iter().map(|(at, names)| {
        let word = if names.len() == 1 { "property" } else { "properties" };
        format!("- at '{at}': missing {word} {}", names.join(", "))
    });
    required.chain(lines).collect()
}

/// What a schema refuses of some of the values, whatever the others are: a line each, without any of the values. Nothing of a
/// schema that costs much: whoever wrote it may want to occupy the reader.
pub(crate) fn refused(schema: &[u8], values: Table) -> Vec<String> {
    use ValidationErrorKind as Kind;
    let mut values = Value::Object(values);
    integers(&mut values);
    let Schema::Usable(read, validator) = Schema::read(schema) else { return Vec::new() };
    if schema_cost::course(MAX_STEPS, &read, &values) != Course::Ends {
        return Vec::new();
    }
    let line = |error: ValidationError<'_>| {
        let text = match error.kind() {
            Kind::Type { .. } | Kind::Enum { .. } | Kind::AdditionalProperties { .. } => {
                what(error.kind(), error.instance()).0
            }
            Kind::Minimum { .. }
            | Kind::Maximum { .. }
            | Kind::ExclusiveMinimum { .. }
            | Kind::ExclusiveMaximum { .. }
            | Kind::MultipleOf { .. }
            | Kind::MinLength { .. }
            | Kind::MaxLength { .. }
            | Kind::MinItems { .. }
            | Kind::MaxItems { .. }
            | Kind::UniqueItems
            | Kind::Constant { .. }
            | Kind::Pattern { .. }
            | Kind::Format { .. } => format!("'{}' failed", error.kind().keyword()),
            // Another value, or a default, may be what makes it right.
            _ => return None,
        };
        Some(format!("at '{}': {text}", error.instance_path()))
    };
    validator.iter_errors(&values).take(MOST_LISTED).filter_map(line).collect()
}

/// Floats without a fraction are integers, in every draft.
fn integers(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT);
            if let Some(float) = float {
                *number = (float as i64).into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(integers),
        Value::Object(map) => map.values_mut().for_each(integers),
        _ => {}
    }
}

fn broken(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Referencing(ReferencingError::Unretrievable { uri, .. }) => {
            format!("failing loading {uri:?}: schemas are not fetched")
        }
        _ => not_valid(error),
    }
}

fn not_valid(what: impl std::fmt::Display) -> String {
    format!("\"file:///values.schema.json#\" is not valid against metaschema: {what}")
}

/// An empty group of flags, which the checker's patterns do not have.
const NO_FLAGS: &str = "(?)";

/// Makes a schema one that the checker takes as Helm does. Helm does not follow the references of a `then` or `else` that no
/// condition leads to (`followed`: one does), and its patterns may begin with [`NO_FLAGS`].
fn settle(schema: &mut Value, followed: bool) {
    let Value::Object(keywords) = schema else { return };
    if !followed {
        keywords.remove("$ref");
    }
    if let Some(Value::String(pattern)) = keywords.get_mut("pattern")
        && pattern.starts_with(NO_FLAGS)
    {
        *pattern = pattern.trim_start_matches(NO_FLAGS).to_owned();
    }
    let condition = keywords.get("if").map(Value::as_bool);
    for (keyword, of_it) in keywords {
        let followed = followed
            && match keyword.as_str() {
                "then" => matches!(condition, Some(None | Some(true))),
                "else" => matches!(condition, Some(None | Some(false))),
                _ => true,
            };
        match (keyword.as_str(), of_it) {
            (
                "properties" | "patternProperties" | "definitions" | "$defs" | "dependencies"
                | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(|schema| settle(schema, followed)),
            ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| settle(schema, followed));
            }
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "not",
                schema,
            ) => settle(schema, followed),
            _ => {}
        }
    }
}

/// A pattern that is none: the specification's own schema asks for patterns, also in parts that nothing refers to.
fn wrong_pattern(schema: &Value) -> Option<&str> {
    let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let drafts = [("/draft-04", 4), ("/draft-06", 6), ("/draft-07", 7), ("/2019-09", 2019)];
    let known = drafts.iter().find(|(name, _)| draft.contains(name));
    let draft = known.map_or(2020, |(_, draft)| *draft);
    // That of draft 6 does not ask this of names.
    let has_names = draft != 6;
    let has = |keyword: &str| match keyword {
        "contains" | "propertyNames" => draft >= 6,
        "if" | "then" | "else" => draft >= 7,
        "$defs" | "dependentSchemas" => draft >= 2019,
        "prefixItems" => draft >= 2020,
        _ => true,
    };
    let is_wrong = |pattern: &&str| regexp::compile(pattern).is_err_and(|it| !it.code.is_limit());
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        for (keyword, of_it) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), of_it) {
                ("pattern", Value::String(pattern)) if is_wrong(&pattern.as_str()) => {
                    return Some(pattern);
                }
                (keyword, _) if !has(keyword) => {}
                (
                    "properties" | "patternProperties" | "definitions" | "$defs" | "dependencies"
                    | "dependentSchemas",
                    Value::Object(map),
                ) => {
                    if keyword == "patternProperties"
                        && has_names
                        && let Some(pattern) = map.keys().map(String::as_str).find(is_wrong)
                    {
                        return Some(pattern);
                    }
                    open.extend(map.values());
                }
                ("items" | "prefixItems" | "allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    open.extend(list);
                }
                (
                    "items"
                    | "additionalItems"
                    | "contains"
                    | "additionalProperties"
                    | "propertyNames"
                    | "if"
                    | "then"
                    | "else"
                    | "not",
                    Value::Object(_),
                ) => open.push(of_it),
                _ => {}
            }
        }
    }
    None
}

fn line(error: &ValidationError<'_>, depth: usize, lines: &mut Vec<String>) {
    let found = error.instance();
    let (what, nested) = what(error.kind(), found);
    lines.push(format!("{}- at '{}': {what}", "  ".repeat(depth), error.instance_path()));
    for error in nested.into_iter().take(MOST_LISTED) {
        if depth < 8 {
            line(error, depth + 1, lines);
        }
    }
}

/// The text of an error, and the errors below it.
fn what<'e>(
    kind: &'e ValidationErrorKind,
    found: &Value,
) -> (String, Vec<&'e ValidationError<'static>>) {
    use ValidationErrorKind as Kind;
    let count = |keyword: &str, got: usize, want: u64| format!("{keyword}: got {got}, want {want}");
    let bound = |keyword: &str, want: &Value| format!("{keyword}: got {found}, want {want}");
    let length = found.as_str().map_or(0, |text| text.chars().count());
    let items = found.as_array().map_or(0, Vec::len);
    let fields = found.as_object().map_or(0, serde_json::Map::len);
    let text = match kind {
        Kind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(wanted) => wanted.to_string(),
                TypeKind::Multiple(wanted) => {
                    let names: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
                    names.join(" or ")
                }
            };
            format!("got {}, want {wanted}", type_name(found))
        }
        Kind::Enum { options } => match options.as_array() {
            Some(options) => {
                let options: Vec<String> = options.iter().map(quoted).collect();
                format!("value must be one of {}", options.join(", "))
            }
            None => "enum failed".to_owned(),
        },
        Kind::Constant { expected_value } => format!("value must be {}", quoted(expected_value)),
        Kind::Minimum { limit } => bound("minimum", limit),
        Kind::Maximum { limit } => bound("maximum", limit),
        Kind::ExclusiveMinimum { limit } => bound("exclusiveMinimum", limit),
        Kind::ExclusiveMaximum { limit } => bound("exclusiveMaximum", limit),
        Kind::MultipleOf { multiple_of } => format!("multipleOf: got {found}, want {multiple_of}"),
        Kind::MinLength { limit } => count("minLength", length, *limit),
        Kind::MaxLength { limit } => count("maxLength", length, *limit),
        Kind::MinItems { limit } => count("minItems", items, *limit),
        Kind::MaxItems { limit } => count("maxItems", items, *limit),
        Kind::MinProperties { limit } => count("minProperties", fields, *limit),
        Kind::MaxProperties { limit } => count("maxProperties", fields, *limit),
        Kind::Pattern { pattern } => {
            format!("{} does not match pattern '{pattern}'", quoted(found))
        }
        Kind::Format { format } => format!("{} is not valid {format}", quoted(found)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("'{name}'")).collect();
            format!("additional properties {} not allowed", names.join(", "))
        }
        Kind::AdditionalItems { limit } => {
            format!("last {} additionalItem(s) not allowed", items.saturating_sub(*limit))
        }
        Kind::UniqueItems => "items are not unique".to_owned(),
        Kind::Contains => "no items match contains schema".to_owned(),
        Kind::FalseSchema => "false schema".to_owned(),
        Kind::Not { .. } => "'not' failed".to_owned(),
        Kind::AnyOf { context } => {
            return ("'anyOf' failed".to_owned(), context.iter().flatten().collect());
        }
        Kind::OneOfNotValid { context } => {
            let text = "'oneOf' failed, none matched".to_owned();
            return (text, context.iter().flatten().collect());
        }
        Kind::OneOfMultipleValid { context } => {
            let valid: Vec<String> = context
                .iter()
                .enumerate()
                .filter(|(_, errors)| errors.is_empty())
                .map(|(at, _)| at.to_string())
                .collect();
            format!("'oneOf' failed, subschemas {} matched", valid.join(", "))
        }
        Kind::PropertyNames { error } => {
            let text = format!("invalid propertyName {}", quoted(error.instance()));
            return (text, vec![&**error]);
        }
        other => format!("'{}' failed", other.keyword()),
    };
    (text, Vec::new())
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\'', "\\'")),
        other => other.to_string(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go's type of a value that was read from JSON.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(schema: &Value, values: &Value) -> Vec<String> {
        let Value::Object(values) = values else { panic!("values are a map") };
        Schema::read(schema.to_string().as_bytes()).against(values)
    }

    #[test]
    fn errors_name_the_place() {
        let schema = json!({
            "type": "object",
            "required": ["port", "name"],
            "properties": {"port": {"type": "integer"}, "mode": {"enum": ["a", "b"]}},
        });
        assert_eq!(lines(&schema, &json!({})), ["- at '': missing properties 'port', 'name'"]);
        assert_eq!(
            lines(&schema, &json!({"port": "80", "name": "x", "mode": "c"})),
            [
                "- at '/mode': value must be one of 'a', 'b'",
                "- at '/port': got string, want integer"
            ]
        );
        assert!(lines(&schema, &json!({"port": 80.0, "name": "x"})).is_empty());
    }

    #[test]
    fn references_that_no_condition_leads_to_are_not_followed() {
        let nowhere = json!({"$ref": "#/nowhere"});
        for (schema, refused) in [
            (json!({"then": nowhere, "else": {"properties": {"a": nowhere}}}), false),
            (json!({"if": true, "else": nowhere}), false),
            (json!({"if": true, "then": nowhere}), true),
            (json!({"if": {"type": "null"}, "else": nowhere}), true),
            // Names and values are no keywords.
            (json!({"properties": {"then": nowhere}}), true),
            (json!({"enum": [{"then": {"$ref": "x"}}]}), true),
            (json!({"properties": {"a": {"pattern": "(?)b"}}}), false),
        ] {
            assert_eq!(!lines(&schema, &json!({})).is_empty(), refused, "{schema}");
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let meta = "http://json-schema.org/draft-07/schema#";
        for reference in ["https://schemas.test/x.json", "file:///etc/passwd", "#/missing", meta] {
            let schema = json!({"properties": {"a": {"$ref": reference}}});
            assert_eq!(lines(&schema, &json!({"a": 1})).len(), 1, "{reference}");
        }
    }

    #[test]
    fn patterns_of_unused_parts_are_checked() {
        const OF_4: &str = "http://json-schema.org/draft-04/schema#";
        const OF_6: &str = "http://json-schema.org/draft-06/schema#";
        const OF_7: &str = "http://json-schema.org/draft-07/schema#";
        const OF_2020: &str = "https://json-schema.org/draft/2020-12/schema";
        let names = json!({"d": {"items": {"patternProperties": {"(": true}}}});
        let pattern = json!({"d": {"not": {"pattern": "("}}});
        let condition = json!({"not": {"pattern": "("}});
        for (draft, keyword, parts, errors) in [
            (OF_7, "if", &condition, 1),
            (OF_7, "definitions", &names, 1),
            (OF_7, "definitions", &pattern, 1),
            (OF_7, "$defs", &pattern, 0),
            (OF_6, "definitions", &pattern, 1),
            (OF_4, "definitions", &names, 1),
            (OF_4, "if", &condition, 0),
            (OF_6, "if", &condition, 0),
            (OF_2020, "$defs", &names, 1),
            (OF_2020, "definitions", &pattern, 1),
            // A value is no schema.
            (OF_7, "default", &pattern, 0),
        ] {
            let schema = json!({"$schema": draft, keyword: parts});
            assert_eq!(lines(&schema, &json!({})).len(), errors, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_refused() {
        let schema = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        assert_eq!(
            lines(&schema, &json!({"a": 1})),
            ["the schema refers to itself without an end"]
        );
        assert_eq!(lines(&schema, &json!({})), [""; 0]);
    }

    /// Two alternatives at each of thirty levels: a billion steps, each failure kept.
    #[test]
    fn a_check_that_would_not_end_is_not_begun() {
        let mut definitions = serde_json::Map::new();
        for level in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert("d30".to_owned(), json!({"type": "string"}));
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/d0"});
        let found = lines(&schema, &json!({"a": 1}));
        assert_eq!(
            found,
            [
                "checking the values takes more than 500000 steps, or a number that cannot be counted"
            ]
        );
        assert_eq!(refused(schema.to_string().as_bytes(), Table::new()), [""; 0]);
        let patterns = json!({"allOf": vec![json!({"pattern": "a"}); 300]});
        assert_eq!(
            lines(&patterns, &json!({})),
            ["the schema has more than 200 patterns, or one of more than 1000 bytes"]
        );
    }
}
