//! YAML text to values of JSON or of templates, from parser events. Only the first document is read, as Helm does.
//!
//! Aliases are expanded by copying; the copies are counted, so that an exponential document ends at a limit.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use serde_json::{Map, Number, Value};
use vela_gocompat::strconv;

use super::parse::{Event, Parser};
use super::resolve::{Scalar, resolve};
use super::scan::{Problem, Style};

/// Nodes that the aliases of a document may add to it: what Helm's reader tolerates before it looks at proportions.
const MOST_ALIASED: usize = 400_000;

/// Levels of a document. Conversions of values recurse, so this also bounds their stack.
pub(super) const DEEPEST: usize = 500;

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

impl From<Problem> for YamlError {
    fn from(problem: Problem) -> Self {
        Self::Syntax { line: problem.line, what: problem.what.into_owned() }
    }
}

/// Reads the first document; an empty text is null.
///
/// # Errors
/// Text that is not YAML, or has no equivalent in JSON.
pub fn read(text: &str) -> Result<Value, YamlError> {
    document(text)?.json()
}

/// Reads the first document as [`read`] does, as templates see it.
pub(crate) fn read_value(text: &str) -> Result<gotemplate::Value, YamlError> {
    document(text)?.value()
}

fn document(text: &str) -> Result<Node<'_>, YamlError> {
    let mut reader = Reader::new(text)?;
    let value = match reader.next()? {
        Event::End => return Ok(Node::Null),
        first => reader.node(first),
    };
    // The whole document is read before its values matter, with the token behind it.
    if !reader.broken {
        reader.rest()?;
    }
    value
}

/// Reads one value of the first document, by the keys that lead to it; everything else is passed over and never held in
/// memory. `None`: there is no such key.
///
/// # Errors
/// Text that is not YAML up to the end of the value, or has no equivalent in JSON.
pub fn read_at(text: &str, path: &[&str]) -> Result<Option<Value>, YamlError> {
    let mut reader = Reader::new(text)?;
    let mut event = reader.next()?;
    for wanted in path {
        if !matches!(event, Event::Mapping(_)) {
            return Ok(None);
        }
        loop {
            let is_wanted = match reader.next()? {
                Event::MappingEnd => return Ok(None),
                Event::Scalar { text: key, .. } => key == *wanted,
                _ => return reader.bad("invalid map key"),
            };
            event = reader.next()?;
            if is_wanted {
                break;
            }
            reader.skip(&event)?;
        }
    }
    reader.node(event)?.json().map(Some)
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
    events: Parser<'a>,
    /// Whether the text itself is wrong, not only a value in it.
    broken: bool,
    /// Values by anchor, with the number of nodes in each; `None` until it is complete.
    anchors: HashMap<&'a str, Option<(Node<'a>, usize)>>,
    aliased: usize,
}

/// A value as it is before JSON: keys have types, numbers need not be finite.
#[derive(Debug, Clone)]
enum Node<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    /// By key; see [`sorted`].
    Map(Fields<'a>),
}

type Fields<'a> = Vec<(Key<'a>, Node<'a>)>;

/// Keys of several types stand in the order in which Go prints them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Null,
    Text(Cow<'a, str>),
    Int(i64),
    Uint(u64),
    /// The bits of a float.
    Float(u64),
    Bool(bool),
}

/// A collection whose end has not been read. What it holds so far lies behind what those around it hold, so that each gets
/// a list of just its length.
enum Open<'a> {
    List {
        anchor: Option<&'a str>,
        from: usize,
    },
    Map {
        anchor: Option<&'a str>,
        from: usize,
        /// The key that was read last, until its value is complete.
        key: Option<Field<'a>>,
    },
}

enum Field<'a> {
    Key(Key<'a>),
    Merge,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, YamlError> {
        let events = Parser::new(text)?;
        Ok(Self { events, broken: false, anchors: HashMap::new(), aliased: 0 })
    }

    /// Passes over a node with everything in it.
    fn skip(&mut self, first: &Event<'a>) -> Result<(), YamlError> {
        let opens = |event: &Event<'_>| matches!(event, Event::Mapping(_) | Event::Sequence(_));
        let mut depth = usize::from(opens(first));
        while depth > 0 {
            match self.next()? {
                Event::MappingEnd | Event::SequenceEnd => depth -= 1,
                Event::End => return self.bad("did not find expected node content"),
                event if opens(&event) => depth += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes over everything up to the end; an alias of no anchor is a mistake of the text, as those of its grammar are.
    fn rest(&mut self) -> Result<(), YamlError> {
        loop {
            let anchor = match self.next()? {
                Event::End => return Ok(()),
                Event::Alias(name) if !self.anchors.contains_key(name) => {
                    return self.bad(unknown_anchor(name));
                }
                Event::Scalar { anchor, .. } | Event::Sequence(anchor) | Event::Mapping(anchor) => {
                    anchor
                }
                _ => None,
            };
            self.opened(anchor);
        }
    }

    fn next(&mut self) -> Result<Event<'a>, YamlError> {
        let next = self.events.next();
        self.broken |= next.is_err();
        Ok(next?)
    }

    fn bad<T>(&self, what: impl Into<String>) -> Result<T, YamlError> {
        Err(YamlError::Syntax { line: None, what: what.into() })
    }

    /// A node with everything in it, on a stack of our own.
    fn node(&mut self, first: Event<'a>) -> Result<Node<'a>, YamlError> {
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut elements: Vec<Node<'a>> = Vec::new();
        // As they come; a later one replaces an earlier one of the same key.
        let mut fields: Fields<'a> = Vec::new();
        let mut event = first;
        loop {
            if open.len() > DEEPEST {
                return self.bad(format!("exceeded max depth of {DEEPEST}"));
            }
            let done = match (event, open.last_mut()) {
                (
                    Event::Scalar { text, style, anchor, tag },
                    Some(Open::Map { key: key @ None, .. }),
                ) => {
                    let plain = style == Style::Plain && tag.is_none();
                    if plain && text == "<<" {
                        *key = Some(Field::Merge);
                    } else {
                        let value = self.scalar(text, style, tag.as_deref())?;
                        *key = Some(Field::Key(self.key(&value)?));
                        if let Some(anchor) = anchor {
                            self.anchors.insert(anchor, Some((value, 1)));
                        }
                    }
                    None
                }
                (Event::Alias(name), Some(Open::Map { key: key @ None, .. })) => {
                    let value = self.alias(name)?;
                    *key = Some(Field::Key(self.key(&value)?));
                    None
                }
                (
                    event @ (Event::Mapping(_) | Event::Sequence(_)),
                    Some(Open::Map { key: None, .. }),
                ) => {
                    let key = self.node(event)?;
                    self.key(&key)?;
                    None
                }
                (Event::Scalar { text, style, anchor, tag }, _) => {
                    Some((anchor, self.scalar(text, style, tag.as_deref())?))
                }
                (Event::Alias(name), _) => Some((None, self.alias(name)?)),
                (Event::Sequence(anchor), _) => {
                    self.opened(anchor);
                    open.push(Open::List { anchor, from: elements.len() });
                    None
                }
                (Event::Mapping(anchor), _) => {
                    self.opened(anchor);
                    open.push(Open::Map { anchor, from: fields.len(), key: None });
                    None
                }
                (Event::SequenceEnd, _) => match open.pop() {
                    Some(Open::List { anchor, from }) => {
                        let own = elements.drain(from.min(elements.len())..);
                        Some((anchor, Node::List(own.collect())))
                    }
                    _ => return self.bad("did not find expected node content"),
                },
                (Event::MappingEnd, _) => match open.pop() {
                    Some(Open::Map { anchor, from, .. }) => {
                        let own = fields.drain(from.min(fields.len())..);
                        Some((anchor, Node::Map(sorted(own.collect()))))
                    }
                    _ => return self.bad("did not find expected key"),
                },
                (Event::End, _) => return self.bad("did not find expected node content"),
            };
            if let Some((anchor, value)) = done {
                if let Some(anchor) = anchor {
                    let nodes = value.count();
                    self.anchors.insert(anchor, Some((value.clone(), nodes)));
                }
                match open.last_mut() {
                    None => return Ok(value),
                    Some(Open::List { .. }) => elements.push(value),
                    Some(Open::Map { key, .. }) => match key.take() {
                        Some(Field::Merge) => merge(&mut fields, value)?,
                        Some(Field::Key(key)) => fields.push((key, value)),
                        None => return self.bad("did not find expected key"),
                    },
                }
            }
            event = self.next()?;
        }
    }

    /// The collection of an anchor has begun: it can be named, but not within itself.
    fn opened(&mut self, anchor: Option<&'a str>) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, None);
        }
    }

    fn key(&self, value: &Node<'a>) -> Result<Key<'a>, YamlError> {
        Ok(match value {
            Node::Null => Key::Null,
            Node::Bool(bool) => Key::Bool(*bool),
            Node::Int(int) => Key::Int(*int),
            Node::Uint(uint) => Key::Uint(*uint),
            Node::Float(float) => Key::Float(float.to_bits()),
            Node::Text(text) => Key::Text(text.clone()),
            Node::List(_) | Node::Map(_) => {
                return self.bad(format!("invalid map key: {}", value.go_syntax()));
            }
        })
    }

    fn alias(&mut self, name: &str) -> Result<Node<'a>, YamlError> {
        let Some(known) = self.anchors.get(name) else {
            self.broken = true;
            return self.bad(unknown_anchor(name));
        };
        let Some((value, nodes)) = known else {
            return self.bad(format!("anchor '{name}' value contains itself"));
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
        text: Cow<'a, str>,
        style: Style,
        tag: Option<&str>,
    ) -> Result<Node<'a>, YamlError> {
        let plain = style == Style::Plain;
        // With a tag quotes do not matter.
        let wrong = |found: &Scalar, text: &str, wanted: &str| {
            let found = short_tag(found);
            self.bad(format!("cannot decode {found} `{text}` as a !!{wanted}"))
        };
        match tag.map(|tag| tag.strip_prefix("tag:yaml.org,2002:").unwrap_or(tag)) {
            None if !plain => Ok(Node::Text(text)),
            None => Ok(plain_node(&resolve(&text), text)),
            Some("binary") => {
                let clean: String =
                    text.chars().filter(|char| !matches!(char, '\n' | '\r')).collect();
                match base64::engine::general_purpose::STANDARD.decode(clean) {
                    Ok(bytes) => {
                        Ok(Node::Text(String::from_utf8_lossy(&bytes).into_owned().into()))
                    }
                    Err(_) => self.bad("!!binary value contains invalid base64 data"),
                }
            }
            Some("timestamp") => match resolve(&text) {
                Scalar::Timestamp => Ok(Node::Text(text)),
                found => wrong(&found, &text, "timestamp"),
            },
            Some("float") => match resolve(&text) {
                Scalar::Int(int) => Ok(Node::Float(int as f64)),
                Scalar::Uint(uint) => Ok(Node::Float(uint as f64)),
                Scalar::Float(float) => Ok(Node::Float(float)),
                found => wrong(&found, &text, "float"),
            },
            Some(wanted @ ("null" | "bool" | "int")) => {
                let found = resolve(&text);
                if short_tag(&found).trim_start_matches('!') == wanted {
                    Ok(plain_node(&found, text))
                } else {
                    wrong(&found, &text, wanted)
                }
            }
            // Any text is accepted as a string, and local tags do not matter.
            Some(_) => Ok(Node::Text(text)),
        }
    }
}

fn plain_node<'a>(scalar: &Scalar, text: Cow<'a, str>) -> Node<'a> {
    match *scalar {
        Scalar::Null => Node::Null,
        Scalar::Bool(bool) => Node::Bool(bool),
        Scalar::Int(int) => Node::Int(int),
        Scalar::Uint(uint) => Node::Uint(uint),
        Scalar::Float(float) => Node::Float(float),
        Scalar::Timestamp | Scalar::Text => Node::Text(text),
    }
}

/// Fields by key, the last of each.
fn sorted(mut fields: Fields<'_>) -> Fields<'_> {
    gotemplate::last_of_each(&mut fields);
    fields
}

impl Node<'_> {
    /// The value as JSON; what JSON has nothing for is an error only now, when no later key can replace it any more.
    fn json(self) -> Result<Value, YamlError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => Value::Bool(bool),
            Self::Int(int) => Value::from(int),
            Self::Uint(uint) => Value::from(uint),
            Self::Float(float) => match Number::from_f64(float) {
                Some(number) => Value::Number(number),
                None => return Err(unsupported(float)),
            },
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(nodes) => {
                Value::Array(nodes.into_iter().map(Self::json).collect::<Result<_, _>>()?)
            }
            Self::Map(fields) => {
                let field = |(key, node): (Key<'_>, Self)| {
                    Ok::<_, YamlError>((key.name(&node)?.into_owned(), node.json()?))
                };
                Value::Object(fields.into_iter().map(field).collect::<Result<_, _>>()?)
            }
        })
    }

    /// The value as templates see it: what they see of the JSON, without making that.
    fn value(self) -> Result<gotemplate::Value, YamlError> {
        use gotemplate::{Str, Value};
        Ok(match self {
            Self::Null => Value::Nil,
            Self::Bool(bool) => Value::Bool(bool),
            Self::Int(int) => Value::Float(int as f64),
            Self::Uint(uint) => Value::Float(uint as f64),
            Self::Float(float) if float.is_finite() => Value::Float(float),
            Self::Float(float) => return Err(unsupported(float)),
            Self::Text(text) => Value::String(text.into()),
            Self::List(nodes) => {
                Value::List(nodes.into_iter().map(Self::value).collect::<Result<_, _>>()?)
            }
            Self::Map(fields) => {
                let field = |(key, node): (Key<'_>, Self)| {
                    Ok::<_, YamlError>((Str::from(key.name(&node)?), node.value()?))
                };
                Value::Map(fields.into_iter().map(field).collect::<Result<_, _>>()?)
            }
        })
    }

    /// A value as Go writes it in its own syntax.
    fn go_syntax(&self) -> String {
        match self {
            Self::Null => "interface {}(nil)".to_owned(),
            Self::Bool(bool) => bool.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Uint(uint) => format!("{uint:#x}"),
            Self::Float(float) => strconv::format_float(*float, 'g', -1, 64),
            Self::Text(text) => strconv::quote(text),
            Self::List(nodes) => {
                let items: Vec<String> = nodes.iter().map(Self::go_syntax).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            Self::Map(fields) => {
                let item = |(key, node): &(Key<'_>, Self)| {
                    format!("{}:{}", key.node().go_syntax(), node.go_syntax())
                };
                let items: Vec<String> = fields.iter().map(item).collect();
                format!("map[interface {{}}]interface {{}}{{{}}}", items.join(", "))
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::List(nodes) => 1 + nodes.iter().map(Self::count).sum::<usize>(),
            Self::Map(fields) => 1 + fields.iter().map(|(_, node)| node.count()).sum::<usize>(),
            _ => 1,
        }
    }
}

impl<'a> Key<'a> {
    fn node(&self) -> Node<'_> {
        match self {
            Self::Null => Node::Null,
            Self::Bool(bool) => Node::Bool(*bool),
            Self::Int(int) => Node::Int(*int),
            Self::Uint(uint) => Node::Uint(*uint),
            Self::Float(bits) => Node::Float(f64::from_bits(*bits)),
            Self::Text(text) => Node::Text(Cow::Borrowed(text)),
        }
    }

    /// The key in JSON: numbers in decimal, floats in the shortest form at 32 bits. The value is for the error.
    fn name(self, value: &Node<'_>) -> Result<Cow<'a, str>, YamlError> {
        let unsupported = |of: &str, key: &str| {
            let value = match value {
                Node::Null => "<nil>".to_owned(),
                value => value.go_syntax(),
            };
            Err(YamlError::NotJson(format!(
                "unsupported map key of type: {of}, key: {key}, value: {value}"
            )))
        };
        Ok(match self {
            Self::Null => return unsupported("%!s(<nil>)", "<nil>"),
            Self::Uint(uint) => return unsupported("uint64", &format!("{uint:#x}")),
            Self::Bool(bool) => bool.to_string().into(),
            Self::Int(int) => int.to_string().into(),
            Self::Float(bits) => {
                let text = strconv::format_float(f64::from_bits(bits), 'g', -1, 32);
                match text.as_str() {
                    "+Inf" => ".inf".into(),
                    "-Inf" => "-.inf".into(),
                    "NaN" => ".nan".into(),
                    _ => text.into(),
                }
            }
            Self::Text(text) => text,
        })
    }
}

fn unsupported(float: f64) -> YamlError {
    let value = strconv::format_float(float, 'g', -1, 64);
    YamlError::NotJson(format!("json: unsupported value: {value}"))
}

fn unknown_anchor(name: &str) -> String {
    format!("unknown anchor '{name}' referenced")
}

/// Maps are merged where the key stands: a later key of the document wins over it, an earlier one does not.
fn merge<'a>(fields: &mut Fields<'a>, value: Node<'a>) -> Result<(), YamlError> {
    let wrong = || YamlError::Syntax {
        line: None,
        what: "map merge requires map or sequence of maps as the value".to_owned(),
    };
    match value {
        Node::Map(map) => fields.extend(map),
        Node::List(maps) => {
            // Of several maps the first wins.
            for map in maps.into_iter().rev() {
                let Node::Map(map) = map else { return Err(wrong()) };
                fields.extend(map);
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
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
    fn mistakes_are_worded_as_helms_reader_does() {
        for (text, want) in [
            ("\ta: 1", "found character that cannot start any token"),
            (":", "did not find expected key"),
            ("'", "found unexpected end of stream"),
            ("[", "line 1: did not find expected node content"),
            ("{a, b", "line 1: did not find expected ',' or '}'"),
            ("0\n0:", "line 2: mapping values are not allowed in this context"),
            ("a: *nope", "unknown anchor 'nope' referenced"),
            ("a: &x [*x]", "anchor 'x' value contains itself"),
            ("[a]: b", "invalid map key: []interface {}{\"a\"}"),
            ("a: 1\n b: 2", "line 2: mapping values are not allowed in this context"),
            ("a:\n- b\n c: 1", "line 3: mapping values are not allowed in this context"),
            ("%x", "found unknown directive name"),
            ("\"\\q\"", "found unknown escape character"),
            ("a: \u{1}", "control characters are not allowed"),
            // The whole document is read before a value in it matters.
            ("~: <:", "mapping values are not allowed in this context"),
            ("a: !!int x\nb: [", "line 2: did not find expected node content"),
            ("[a]: b\nc: *d", "unknown anchor 'd' referenced"),
            (
                "? {0: {true: 1.5}, a: b}\n: 1",
                "invalid map key: map[interface {}]interface {}{\"a\":\"b\", 0:map[interface {}]interface {}{true:1.5}}",
            ),
            ("a:\n[", "line 3: could not find expected ':'"),
            ("!!timestamp 0-", "cannot decode !!str `0-` as a !!timestamp"),
            ("[a]: &d b\nc: *d", "invalid map key: []interface {}{\"a\"}"),
            // Empty flow collections as keys.
            ("a:\n  []: x", "line 1: did not find expected key"),
            ("a: {}: x\n", "mapping values are not allowed in this context"),
            ("- []: x\n- b", "did not find expected '-' indicator"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert_eq!(error, format!("error converting YAML to JSON: yaml: {want}"), "{text:?}");
        }
        let error = read("\n?").unwrap_err().to_string();
        assert!(error.ends_with("key: <nil>, value: <nil>"), "{error}");
    }

    #[test]
    fn leniencies_of_helms_reader_are_kept() {
        for (text, want) in [
            // An empty flow collection is the document, although it was meant as a key.
            ("[]: x", json!([])),
            ("{}: x\na: b", json!({})),
            // What stands behind the document has to be a token, no more.
            ("{}}", json!({})),
            ("a: 1\n...\n]", json!({"a": 1})),
            (".inf: 1", json!({".inf": 1})),
            // What another value of the key replaces need not have a JSON.
            ("a: .inf\na: 1", json!({"a": 1})),
            ("a: {~: 1}\na: 1", json!({"a": 1})),
            ("a: x\u{2028}  y", json!({"a": "x\u{2028}y"})),
            ("{? a, b: }", json!({"a": null, "b": null})),
            ("[a: 1, ? b : 2]", json!([{"a": 1}, {"b": 2}])),
            ("- - a\n  -\n-", json!([["a", null], null])),
            ("? a\n? b\n: c", json!({"a": null, "b": "c"})),
            ("a: 'it''s'\nb: \"x\\\n  y\"", json!({"a": "it's", "b": "xy"})),
            ("a: >+\n x\n y\n\n  z\n\nb: |2-\n   q\n", json!({"a": "x y\n\n z\n\n", "b": " q"})),
            ("%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1", json!({"a": "1"})),
            ("\u{feff}a: 1", json!({"a": 1})),
            ("a: http://b:c#d", json!({"a": "http://b:c#d"})),
            ("a:\n- 1\n- 2\nb: 3", json!({"a": [1, 2], "b": 3})),
            ("a: b\n  c\n\n  d # e", json!({"a": "b c\nd"})),
        ] {
            assert_eq!(read(text), Ok(want), "{text:?}");
        }
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
