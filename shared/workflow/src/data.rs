//! Data passing: inputs go into a step's parameter, outputs come out of what it evaluated to.

use std::collections::BTreeSet;

use cue::{Evaluation, Limits, Node, Packages, Program, Which};
use serde_json::{Map, Value};

use crate::messages;

/// An input that cannot be written where its `parameterKey` says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The path cannot be read.
    #[error("{}", messages::input_path_invalid(.key))]
    Invalid {
        /// The path.
        key: String,
    },
    /// A scalar lies on the way.
    #[error("{}", messages::input_path_blocked(.key))]
    Scalar {
        /// The path.
        key: String,
    },
    /// An index beyond the end of a list.
    #[error("{}", messages::input_index(.key, *.index, *.length))]
    Index {
        /// The path.
        key: String,
        /// The index that was asked for, from 0.
        index: usize,
        /// Items of the list.
        length: usize,
    },
}

/// An output that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// Nothing is there.
    #[error("{}", messages::output_failed(.value_from, &messages::lookup_failed(.path)))]
    Missing {
        /// `valueFrom` as it is written.
        value_from: String,
        /// The path of the missing value.
        path: String,
    },
    /// Text that does not evaluate.
    #[error("{}", messages::output_failed(.value_from, &.errors.to_string()))]
    Script {
        /// `valueFrom` as it is written.
        value_from: String,
        /// What CUE says.
        errors: cue::Errors,
    },
    /// Fields that are no CUE.
    #[error(transparent)]
    Fields(cue::Errors),
}

/// Writes a value at a path such as `value.properties.env[0].name`; what is there is replaced, what
/// is missing on the way is made.
///
/// # Errors
/// A path that cannot be read, an index beyond the end of a list, or a scalar on the way.
pub fn set_input(
    parameter: &mut Map<String, Value>,
    key: &str,
    value: Value,
) -> Result<(), InputError> {
    let invalid = || InputError::Invalid { key: key.to_owned() };
    let scalar = || InputError::Scalar { key: key.to_owned() };
    let path = parse_path(key).ok_or_else(invalid)?;
    let mut segments = path.into_iter();
    let Some(Segment::Field(first)) = segments.next() else {
        return Err(invalid());
    };
    let mut slot = parameter.entry(first).or_insert(Value::Null);
    for segment in segments {
        slot = match segment {
            Segment::Field(name) => {
                if slot.is_null() {
                    *slot = Value::Object(Map::new());
                }
                let object = slot.as_object_mut().ok_or_else(scalar)?;
                object.entry(name).or_insert(Value::Null)
            }
            Segment::Index(index) => {
                if slot.is_null() {
                    *slot = Value::Array(Vec::new());
                }
                let list = slot.as_array_mut().ok_or_else(scalar)?;
                if index > list.len() {
                    let (key, length) = (key.to_owned(), list.len());
                    return Err(InputError::Index { key, index, length });
                }
                if index == list.len() {
                    list.push(Value::Null);
                }
                list.get_mut(index).ok_or_else(scalar)?
            }
        };
    }
    *slot = value;
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Field(String),
    Index(usize),
}

/// Splits `a.b["c.d"][0]`.
fn parse_path(text: &str) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            if let Some(quoted) = inner.strip_prefix('"') {
                let (name, after) = quoted.split_once("\"]")?;
                segments.push(Segment::Field(name.to_owned()));
                rest = after;
            } else {
                let (index, after) = inner.split_once(']')?;
                segments.push(Segment::Index(index.trim().parse().ok()?));
                rest = after;
            }
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (name, after) = quoted.split_once('"')?;
            segments.push(Segment::Field(name.to_owned()));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if name.is_empty() {
                return None;
            }
            segments.push(Segment::Field(name.to_owned()));
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            if rest.is_empty() {
                return None;
            }
        }
    }
    (!segments.is_empty()).then_some(segments)
}

/// The value of an output: `value_from` is a path in what the step evaluated to, or CUE text over
/// it. Templates that return values in `$returns` may leave that word out.
///
/// # Errors
/// Nothing there, or text that does not evaluate.
pub fn output(
    evaluation: &mut Evaluation,
    value_from: &str,
    limits: &Limits,
) -> Result<Value, OutputError> {
    let root = evaluation.root();
    if parse_path(value_from).is_none() || is_script(value_from) {
        return script(evaluation, value_from, limits);
    }
    let mut candidates = vec![value_from.to_owned()];
    if !value_from.contains("$returns.") {
        candidates.push(match value_from.split_once("output.") {
            Some((before, after)) => format!("{before}output.$returns.{after}"),
            None => format!("{value_from}.$returns"),
        });
    }
    for path in &candidates {
        if let Some(node) = evaluation.lookup(root, path)
            && let Ok(value) = evaluation.export(node)
        {
            return Ok(value.to_json());
        }
    }
    let path = candidates.pop().unwrap_or_default();
    Err(OutputError::Missing { value_from: value_from.to_owned(), path })
}

/// The value of an output of something that is data, not a template: a component's objects.
///
/// # Errors
/// As [`output`].
pub fn output_of(
    fields: &Map<String, Value>,
    value_from: &str,
    limits: &Limits,
) -> Result<Value, OutputError> {
    let declared: String = fields.keys().map(|name| format!("{name:?}: _\n")).collect();
    let program =
        Program::compile("component", &declared, &Packages::std()).map_err(OutputError::Fields)?;
    let data: Vec<(&str, cue::Value)> =
        fields.iter().map(|(name, value)| (name.as_str(), cue::Value::from(value))).collect();
    let inputs: Vec<(&str, &cue::Value)> =
        data.iter().map(|(name, value)| (*name, value)).collect();
    output(&mut program.evaluate(&inputs, limits), value_from, limits)
}

/// The value at a dotted path.
pub(crate) fn at_path<'v>(base: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    if let Some(value) = base.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let mut value = base.get(parts.next()?)?;
    for part in parts {
        value = value.as_object()?.get(part)?;
    }
    Some(value)
}

/// Whether a text is more than a path.
fn is_script(text: &str) -> bool {
    if text.trim_start().starts_with('"') {
        // a text of its own, perhaps with values in it
        return true;
    }
    let mut quoted = false;
    text.chars().any(|c| {
        if c == '"' {
            quoted = !quoted;
        }
        !quoted
            && matches!(
                c,
                '+' | '-' | '*' | '/' | '(' | ')' | '{' | '}' | '\n' | ' ' | '|' | '&' | '\\' | ':'
            )
    })
}

/// Evaluates a text in which the fields of the step are names.
fn script(evaluation: &mut Evaluation, text: &str, limits: &Limits) -> Result<Value, OutputError> {
    let value_from = || text.to_owned();
    let failed = |errors| OutputError::Script { value_from: value_from(), errors };
    let (imports, body) = split_imports(text);
    let root = evaluation.root();
    let fields: Vec<(String, Node)> = evaluation
        .fields(root, Which::default())
        .into_iter()
        .map(|field| (field.label.to_string(), field.node))
        .filter(|(label, _)| mentions(body, label))
        .collect();
    let mut data = Vec::new();
    let mut names = BTreeSet::new();
    for (label, node) in fields {
        if let Ok(value) = evaluation.export(node) {
            names.insert(label.clone());
            data.push((label, value));
        }
    }
    let declared: String = names.iter().map(|name| format!("{name}: _\n")).collect();
    let program = Program::compile(
        "valueFrom",
        &format!("{imports}\n{declared}\"#result\": {{{body}}}\n"),
        &Packages::std(),
    )
    .map_err(failed)?;
    let inputs: Vec<(&str, &cue::Value)> = data.iter().map(|(l, v)| (l.as_str(), v)).collect();
    let mut result = program.evaluate(&inputs, limits);
    let root = result.root();
    let missing = || OutputError::Missing { value_from: value_from(), path: value_from() };
    let node = result.field(root, "#result").ok_or_else(missing)?;
    let value = result.export(node).map_err(failed)?;
    Ok(value.to_json())
}

/// Imports must stand before everything else.
fn split_imports(text: &str) -> (&str, &str) {
    let trimmed = text.trim_start();
    if !trimmed.starts_with("import") {
        return ("", text);
    }
    let end = if trimmed.trim_start_matches("import").trim_start().starts_with('(') {
        trimmed.find(')').map_or(trimmed.len(), |at| at + 1)
    } else {
        trimmed.find('\n').unwrap_or(trimmed.len())
    };
    trimmed.split_at(end)
}

/// Whether a text contains a name as a word.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || c == '#';
    is_word(name.chars().next().unwrap_or(' '))
        && text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).and_then(|t| t.chars().next_back());
            let after = text.get(at + name.len()..).and_then(|t| t.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(start: &Value, key: &str, value: Value) -> Result<Value, InputError> {
        let mut map = start.as_object().unwrap().clone();
        set_input(&mut map, key, value).map(|()| Value::Object(map))
    }

    #[test]
    fn inputs_replace_and_make_way() {
        let start = json!({"a": {"b": 1}, "l": [{"x": 1}]});
        assert_eq!(set(&start, "a.b", json!("n")).unwrap()["a"]["b"], json!("n"));
        assert_eq!(set(&start, "c.d.e", json!(1)).unwrap()["c"], json!({"d": {"e": 1}}));
        assert_eq!(set(&start, "l[0].x", json!(2)).unwrap()["l"], json!([{"x": 2}]));
        assert_eq!(set(&start, "l[1]", json!(2)).unwrap()["l"], json!([{"x": 1}, 2]));
        assert_eq!(set(&start, "m[\"k.l\"]", json!(2)).unwrap()["m"], json!({"k.l": 2}));
        let beyond = InputError::Index { key: "l[5]".to_owned(), index: 5, length: 1 };
        assert_eq!(set(&start, "l[5]", json!(2)), Err(beyond));
        assert!(set(&start, "a.b.c", json!(2)).is_err());
        assert!(set(&start, "a.", json!(2)).is_err());
        assert!(set(&start, "a[x]", json!(2)).is_err());
    }

    #[test]
    fn outputs_of_data() {
        let fields = json!({"output": {"status": {"n": 2}}, "outputs": {"a-b": {"x": [1]}}});
        let fields = fields.as_object().unwrap();
        let get = |from: &str| output_of(fields, from, &Limits::default());
        assert_eq!(get("output.status.n").unwrap(), json!(2));
        assert_eq!(get("outputs[\"a-b\"].x[0] + 1").unwrap(), json!(2));
        assert!(get("output.status.m").is_err());
    }

    #[test]
    fn outputs_are_paths_or_scripts() {
        let text = "import \"strings\"\nout: strings.ToUpper(\"x\")\noutput: $returns: ip: \"192.0.2.1\"\nn: 2\n";
        let program = Program::compile("t", text, &Packages::std()).unwrap();
        let limits = Limits::default();
        let mut evaluation = program.evaluate(&[], &limits);
        let mut get = |from: &str| output(&mut evaluation, from, &limits);
        assert_eq!(get("out").unwrap(), json!("X"));
        assert_eq!(get("output.ip").unwrap(), json!("192.0.2.1"));
        assert_eq!(get("output.$returns.ip").unwrap(), json!("192.0.2.1"));
        assert_eq!(get("n + 1").unwrap(), json!(3));
        assert_eq!(get("\"\\(n) things\"").unwrap(), json!("2 things"));
        assert_eq!(get("\"http://\" + output.$returns.ip").unwrap(), json!("http://192.0.2.1"));
        assert_eq!(get("import \"strconv\"\nstrconv.FormatInt(n, 10)").unwrap(), json!("2"));
        assert_eq!(
            get("nothere.x").unwrap_err().to_string(),
            "failed to get output from nothere.x: failed to lookup value: var(path=nothere.x.$returns) not exist\n"
        );
    }
}
