//! YAML text to JSON values, from parser events. Only the first document is read, as Helm does.
//!
//! Aliases are expanded by copying; the copies are counted, so that an exponential document ends at a limit.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Number, Value};
use vela_gocompat::strconv;

use super::resolve::{Scalar, resolve};

/// Nodes that the aliases of a document may add to it: what Helm's reader tolerates before it looks at proportions.
const MOST_ALIASED: usize = 400_000;

/// Levels of a document. Conversions of values recurse, so this also bounds their stack.
const DEEPEST: usize = 500;

/// Why a text is not YAML that Helm can read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The text does not follow the grammar, or a value does not fit its tag.
    #[error("error converting YAML to JSON: yaml: {}{what}", at(.line))]
    Syntax {
        /// Line of the text, from 1, where that is known.
        line: Option<usize>,
        /// What is wrong there.
        what: String,
    },
    /// JSON has no such key or number.
    #[error("error converting YAML to JSON: {0}")]
    NotJson(String),
    /// The document is of another kind than the place it is read for.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type {wanted}"
    )]
    Kind {
        /// JSON's word for what the document is.
        found: &'static str,
        /// Go's type of what was wanted.
        wanted: &'static str,
    },
}

fn at(line: &Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

/// What Helm's reader says about some mistakes, where ours words them otherwise. It does not count the first line for
/// those that it finds while it looks for tokens.
fn syntax(line: usize, what: &str) -> YamlError {
    const NO_TOKEN: &str = "found character that cannot start any token";
    let what = match what {
        what if what.starts_with("unexpected character") => NO_TOKEN,
        what if what.contains("unclosed bracket '['") => "did not find expected ',' or ']'",
        what if what.contains("unclosed bracket '{'") => "did not find expected ',' or '}'",
        what => what,
    };
    let scanned = what == NO_TOKEN || what.ends_with("not allowed in this context");
    let line = Some(line).filter(|line| !scanned || *line > 1);
    YamlError::Syntax { line, what: what.to_owned() }
}

/// Reads the first document; an empty text is null.
///
/// # Errors
/// Text that is not YAML, or has no equivalent in JSON.
pub fn read(text: &str) -> Result<Value, YamlError> {
    let mut reader = Reader::new(text);
    match reader.document()? {
        Some(first) => reader.node(first),
        None => Ok(Value::Null),
    }
}

/// Reads one value of the first document, by the keys that lead to it; everything else is passed over and never held in
/// memory. `None`: there is no such key.
///
/// # Errors
/// Text that is not YAML up to the end of the value, or has no equivalent in JSON.
pub fn read_at(text: &str, path: &[&str]) -> Result<Option<Value>, YamlError> {
    let mut reader = Reader::new(text);
    let Some(mut event) = reader.document()? else { return Ok(None) };
    for wanted in path {
        if !matches!(event, Event::MappingStart(..)) {
            return Ok(None);
        }
        loop {
            let is_wanted = match reader.next()? {
                Event::MappingEnd => return Ok(None),
                Event::Scalar(key, ..) => key == *wanted,
                _ => return reader.bad("invalid map key"),
            };
            event = reader.next()?;
            if is_wanted {
                break;
            }
            reader.skip(&event)?;
        }
    }
    reader.node(event).map(Some)
}

/// Reads values: a document that has to be a map, null is an empty one. All numbers are floats, as Helm reads them.
///
/// # Errors
/// As [`read`], and documents of another kind.
pub fn read_values(text: &str) -> Result<Map<String, Value>, YamlError> {
    let mut document = read(text)?;
    to_floats(&mut document);
    match document {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        other => {
            Err(YamlError::Kind { found: json_kind(&other), wanted: "map[string]interface {}" })
        }
    }
}

/// Makes all numbers floats: what values from JSON need, so that they are like those from a file.
pub fn to_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().and_then(Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(to_floats),
        Value::Object(map) => map.values_mut().for_each(to_floats),
        _ => {}
    }
}

/// The word of Go's JSON decoder for a kind of value.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// Values by anchor, with the number of nodes in each.
    anchors: HashMap<usize, (Value, usize)>,
    aliased: usize,
    line: usize,
    text: &'a str,
    /// Where the latest event ends, in characters.
    end: usize,
    /// The length of the text in characters, once somebody wants to know.
    characters: Option<usize>,
}

/// A collection whose end has not been read.
enum Open {
    List(usize, Vec<Value>),
    Map(Mapping),
}

#[derive(Default)]
struct Mapping {
    anchor: usize,
    fields: Map<String, Value>,
    /// The key that was read last, until its value is complete.
    key: Option<Key>,
}

enum Key {
    Field(String),
    /// A key that JSON has no text for: an error once its value is known.
    Null,
    Merge,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let options = granit_parser::options! {
            flow_nesting_limit: DEEPEST,
            block_nesting_limit: DEEPEST,
            emit_comments: false,
        };
        Self {
            events: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            aliased: 0,
            line: 1,
            text,
            end: 0,
            characters: None,
        }
    }

    /// The first event of the first document; `None`: there is none.
    fn document(&mut self) -> Result<Option<Event<'a>>, YamlError> {
        loop {
            match self.next()? {
                Event::StreamEnd => return Ok(None),
                Event::DocumentStart(..) => return self.next().map(Some),
                _ => {}
            }
        }
    }

    /// Passes over a node with everything in it.
    fn skip(&mut self, first: &Event<'a>) -> Result<(), YamlError> {
        let opens =
            |event: &Event<'_>| matches!(event, Event::MappingStart(..) | Event::SequenceStart(..));
        let mut depth = usize::from(opens(first));
        while depth > 0 {
            match self.next()? {
                Event::MappingEnd | Event::SequenceEnd => depth -= 1,
                Event::StreamEnd => return self.bad("did not find expected node content"),
                event if opens(&event) => depth += 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Event<'a>, YamlError> {
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                self.end = span.end.index();
                Ok(event)
            }
            Some(Err(error)) => Err(syntax(error.marker().line(), &error.info())),
            None => Ok(Event::StreamEnd),
        }
    }

    /// The text of a scalar. A block that ends with the document's last line, which has no line break, has none either.
    fn content<'s>(&mut self, text: &'s str, style: ScalarStyle) -> &'s str {
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if !block || self.text.ends_with('\n') || !text.ends_with('\n') {
            return text;
        }
        let document = self.text;
        let characters = *self.characters.get_or_insert_with(|| document.chars().count());
        if self.end < characters { text } else { text.strip_suffix('\n').unwrap_or(text) }
    }

    fn bad<T>(&self, what: impl Into<String>) -> Result<T, YamlError> {
        Err(YamlError::Syntax { line: Some(self.line), what: what.into() })
    }

    /// A node with everything in it, on a stack of our own.
    fn node(&mut self, first: Event<'a>) -> Result<Value, YamlError> {
        let mut open: Vec<Open> = Vec::new();
        let mut event = first;
        loop {
            if open.len() > DEEPEST {
                return self.bad(format!("exceeded max depth of {DEEPEST}"));
            }
            let done = match (event, open.last_mut()) {
                (Event::Scalar(text, style, anchor, tag), Some(Open::Map(map)))
                    if map.key.is_none() =>
                {
                    let plain = style == ScalarStyle::Plain && tag.is_none();
                    if plain && text == "<<" {
                        map.key = Some(Key::Merge);
                    } else {
                        let value = self.scalar(&text, style, tag.as_ref())?;
                        map.key = Some(self.key(&value, &text, plain)?);
                        if anchor != 0 {
                            self.anchors.insert(anchor, (value, 1));
                        }
                    }
                    None
                }
                (Event::Alias(id), Some(Open::Map(map))) if map.key.is_none() => {
                    let value = self.alias(id)?;
                    map.key = Some(self.key(&value, "", false)?);
                    None
                }
                (Event::MappingStart(..), Some(Open::Map(map))) if map.key.is_none() => {
                    return self.bad("invalid map key: map[interface {}]interface {}");
                }
                (Event::SequenceStart(..), Some(Open::Map(map))) if map.key.is_none() => {
                    return self.bad("invalid map key: []interface {}");
                }
                (Event::Scalar(text, style, anchor, tag), _) => {
                    let text = self.content(&text, style);
                    Some((anchor, self.scalar(text, style, tag.as_ref())?))
                }
                (Event::Alias(id), _) => Some((0, self.alias(id)?)),
                (Event::SequenceStart(_, anchor, _), _) => {
                    open.push(Open::List(anchor, Vec::new()));
                    None
                }
                (Event::MappingStart(_, anchor, _), _) => {
                    open.push(Open::Map(Mapping { anchor, ..Mapping::default() }));
                    None
                }
                (Event::SequenceEnd, _) => match open.pop() {
                    Some(Open::List(anchor, elements)) => Some((anchor, Value::Array(elements))),
                    _ => return self.bad("did not find expected node content"),
                },
                (Event::MappingEnd, _) => match open.pop() {
                    Some(Open::Map(map)) => Some((map.anchor, Value::Object(map.fields))),
                    _ => return self.bad("did not find expected key"),
                },
                (Event::DocumentEnd | Event::StreamEnd, None) => return Ok(Value::Null),
                _ => return self.bad("did not find expected node content"),
            };
            if let Some((anchor, value)) = done {
                if anchor != 0 {
                    self.anchors.insert(anchor, (value.clone(), count(&value)));
                }
                match open.last_mut() {
                    None => return Ok(value),
                    Some(Open::List(_, elements)) => elements.push(value),
                    Some(Open::Map(map)) => match map.key.take() {
                        Some(Key::Merge) => merge(&mut map.fields, value, self.line)?,
                        Some(Key::Field(key)) => {
                            map.fields.insert(key, value);
                        }
                        Some(Key::Null) => return Err(null_key(&value)),
                        None => return self.bad("did not find expected key"),
                    },
                }
            }
            event = self.next()?;
        }
    }

    /// The text of a key: numbers in decimal, floats in the shortest form at 32 bits.
    fn key(&self, value: &Value, text: &str, plain: bool) -> Result<Key, YamlError> {
        Ok(Key::Field(match value {
            Value::String(text) => text.clone(),
            Value::Bool(bool) => bool.to_string(),
            Value::Number(number) => match (number.as_f64(), number.is_f64()) {
                (Some(float), true) => strconv::format_float(float, 'g', -1, 32),
                _ => number.to_string(),
            },
            Value::Null => return Ok(Key::Null),
            _ if plain => text.to_owned(),
            other => return self.bad(format!("invalid map key: {}", json_kind(other))),
        }))
    }

    fn alias(&mut self, id: usize) -> Result<Value, YamlError> {
        let Some((value, nodes)) = self.anchors.get(&id) else {
            return self.bad("anchor value contains itself");
        };
        self.aliased = self.aliased.saturating_add(*nodes);
        if self.aliased > MOST_ALIASED {
            return Err(YamlError::NotJson(
                "yaml: document contains excessive aliasing".to_owned(),
            ));
        }
        Ok(value.clone())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Cow<'_, Tag>>,
    ) -> Result<Value, YamlError> {
        let plain = style == ScalarStyle::Plain;
        let wrong = |wanted: &str| {
            let found = short_tag(&resolve(text));
            self.bad(format!("cannot decode {found} `{text}` as a !!{wanted}"))
        };
        match short(tag) {
            None if !plain => Ok(Value::String(text.to_owned())),
            None => json(&resolve(text), text),
            Some("binary") => {
                let clean: String = text.chars().filter(|char| !char.is_whitespace()).collect();
                match base64::engine::general_purpose::STANDARD.decode(clean) {
                    Ok(bytes) => Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned())),
                    Err(_) => self.bad("!!binary value contains invalid base64 data"),
                }
            }
            Some("null") => match resolve(text) {
                Scalar::Null => Ok(Value::Null),
                _ => wrong("null"),
            },
            Some("bool") => match resolve(text) {
                Scalar::Bool(bool) => Ok(Value::Bool(bool)),
                _ => wrong("bool"),
            },
            Some("int") => match resolve(text) {
                int @ (Scalar::Int(_) | Scalar::Uint(_)) => json(&int, text),
                _ => wrong("int"),
            },
            Some("float") => match resolve(text) {
                Scalar::Int(int) => json(&Scalar::Float(int as f64), text),
                Scalar::Uint(uint) => json(&Scalar::Float(uint as f64), text),
                float @ Scalar::Float(_) => json(&float, text),
                _ => wrong("float"),
            },
            // Any text is accepted as a string, and local tags do not matter.
            Some(_) => Ok(Value::String(text.to_owned())),
        }
    }
}

fn json(scalar: &Scalar, text: &str) -> Result<Value, YamlError> {
    Ok(match *scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(bool) => Value::Bool(bool),
        Scalar::Int(int) => Value::from(int),
        Scalar::Uint(uint) => Value::from(uint),
        Scalar::Float(float) => match Number::from_f64(float) {
            Some(number) => Value::Number(number),
            None => {
                let value = strconv::format_float(float, 'g', -1, 64);
                return Err(YamlError::NotJson(format!("json: unsupported value: {value}")));
            }
        },
        Scalar::Timestamp | Scalar::Text => Value::String(text.to_owned()),
    })
}

/// Maps are merged where the key stands: a later key of the document wins over it, an earlier one does not.
fn merge(fields: &mut Map<String, Value>, value: Value, line: usize) -> Result<(), YamlError> {
    let wrong = || YamlError::Syntax {
        line: Some(line),
        what: "map merge requires map or sequence of maps as the value".to_owned(),
    };
    match value {
        Value::Object(map) => fields.extend(map),
        Value::Array(maps) => {
            // Of several maps the first wins.
            for map in maps.into_iter().rev() {
                let Value::Object(map) = map else { return Err(wrong()) };
                fields.extend(map);
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

fn null_key(value: &Value) -> YamlError {
    let value = match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => strconv::quote(text),
        other => other.to_string(),
    };
    YamlError::NotJson(format!(
        "unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"
    ))
}

fn short_tag(scalar: &Scalar) -> &'static str {
    match scalar {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) | Scalar::Uint(_) => "!!int",
        Scalar::Float(_) => "!!float",
        Scalar::Timestamp => "!!timestamp",
        Scalar::Text => "!!str",
    }
}

/// The short name of a tag: `str` of `!!str`.
fn short<'t>(tag: Option<&'t Cow<'_, Tag>>) -> Option<&'t str> {
    let suffix = tag?.suffix();
    Some(suffix.strip_prefix("tag:yaml.org,2002:").unwrap_or(suffix))
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_json() {
        for (text, want) in [
            ("", json!(null)),
            ("# only a comment\n", json!(null)),
            ("a: yes\nb: 010\nc: 1.5\nd: '1'", json!({"a": true, "b": 8, "c": 1.5, "d": "1"})),
            ("y: 1\n1: 2\n1.5: 3", json!({"true": 1, "1": 2, "1.5": 3})),
            ("a: 1\na: 2", json!({"a": 2})),
            ("a: 1\n---\nb: [", json!({"a": 1})),
            ("x: &x {a: 1}\nz: {<<: *x, b: 2}", json!({"x": {"a": 1}, "z": {"a": 1, "b": 2}})),
            ("z: {a: 1, <<: [{a: 2, b: 3}, {b: 4}]}", json!({"z": {"a": 2, "b": 3}})),
            ("a: |\n  x\n\n  y", json!({"a": "x\n\ny"})),
            ("a: |\n  x\n# c", json!({"a": "x\n"})),
            ("a: |\n  x\nb: 1", json!({"a": "x\n", "b": 1})),
            ("t: 2020-01-02", json!({"t": "2020-01-02"})),
            ("t: !!str 1\nb: !!binary YWI=", json!({"t": "1", "b": "ab"})),
        ] {
            assert_eq!(read(text), Ok(want), "{text:?}");
        }
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        for text in ["a: .nan", "null: 1", "{a: 1}: 2", "a: *nobody", "a: !!int x", "a: [1"] {
            assert!(read(text).is_err(), "{text:?}");
        }
        let error = read_values("- 1").unwrap_err().to_string();
        assert!(
            error.ends_with("cannot unmarshal array into Go value of type map[string]interface {}")
        );
    }

    #[test]
    fn aliases_and_nesting_are_bounded() {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (name, of) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"])
        {
            bomb.push_str(&format!("{name}: &{name} [{}]\n", [&*format!("*{of}"); 10].join(",")));
        }
        assert!(read(&bomb).unwrap_err().to_string().contains("excessive aliasing"));
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
