//! YAML text to values, from parser events.
//!
//! Aliases are expanded by copying what the anchor's node became; the copies are counted, so an
//! exponential document ends at a limit. Keys that are no strings become their text. Fields given
//! twice must be equal, as two declarations of one field in CUE.

use std::borrow::Cow;
use std::collections::HashMap;

use ecow::EcoString;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::super::args::fail;
use super::super::json::depth_limit;
use super::super::{BuiltinError, args};
use super::scalar::{Resolved, resolve};
use crate::decimal::DecimalError;
use crate::limits::{Budget, LimitError};
use crate::value::{Fields, Number, Value};

/// Reads all documents of a stream; an empty text has none.
pub(crate) fn read_stream(yaml: &str, budget: &mut Budget) -> Result<Vec<Value>, BuiltinError> {
    let depth = depth_limit(budget) as usize;
    let options = granit_parser::options! {
        flow_nesting_limit: depth,
        block_nesting_limit: depth,
        emit_comments: false,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(yaml, options),
        anchors: HashMap::new(),
        aliased: 0,
        line: 0,
        budget,
    };
    if ends_at_once(yaml) {
        return reader.bad("did not find expected node content");
    }
    let mut documents = Vec::new();
    loop {
        match reader.next()? {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(..) => {
                reader.anchors.clear();
                let node = reader.next()?;
                documents.push(reader.node(node)?);
                reader.budget.list(1)?;
            }
            _ => {}
        }
    }
}

/// Whether the end of a document stands before any document.
fn ends_at_once(yaml: &str) -> bool {
    let says_something = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    };
    let first = yaml.trim_start_matches('\u{feff}').lines().find(says_something);
    let rest = first.and_then(|line| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Nodes that aliases may add to the stream; what is written out is not counted.
const MOST_ALIASED: u64 = 100_000;

struct Reader<'a, 'b> {
    events: Parser<'a, StrInput<'a>>,
    /// Values by anchor id, with the number of nodes in each.
    anchors: HashMap<usize, (Value, u64)>,
    /// Nodes copied by aliases so far.
    aliased: u64,
    line: usize,
    budget: &'b mut Budget,
}

/// A collection whose end has not been seen.
enum Open {
    Sequence(usize, Vec<Value>),
    Mapping(Mapping),
}

#[derive(Default)]
struct Mapping {
    anchor: usize,
    fields: Fields,
    merged: Vec<Value>,
    /// The key read last, until its value is complete.
    key: Option<Key>,
}

enum Key {
    Field(EcoString),
    Merge,
}

impl<'a> Reader<'a, '_> {
    fn next(&mut self) -> Result<Event<'a>, BuiltinError> {
        self.budget.steps(1)?;
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                self.at(&span);
                Ok(event)
            }
            Some(Err(e)) => self.scan_error(&e),
            None => Ok(Event::StreamEnd),
        }
    }

    fn at(&mut self, span: &Span) {
        self.line = span.start.line();
    }

    fn scan_error<T>(&mut self, e: &ScanError) -> Result<T, BuiltinError> {
        let text = e.info();
        if text.contains("limit") && text.contains("nest") {
            return Err(self.budget.cross(LimitError::Depth).into());
        }
        fail(format!("yaml: line {}: {text}", e.marker().line()))
    }

    fn bad<T>(&self, why: impl std::fmt::Display) -> Result<T, BuiltinError> {
        fail(format!("yaml: line {}: {why}", self.line))
    }

    fn number<T>(&mut self, result: Result<T, DecimalError>) -> Result<T, BuiltinError> {
        result.map_err(|e| {
            if e.is_limit() {
                BuiltinError::Limit(self.budget.cross(LimitError::Number))
            } else {
                BuiltinError::new(format!("yaml: line {}: {e}", self.line))
            }
        })
    }

    /// A node with everything in it. Nesting is kept on a stack of our own: depth is limited, but
    /// frames of recursion would be large.
    fn node(&mut self, first: Event<'a>) -> Result<Value, BuiltinError> {
        let mut open: Vec<Open> = Vec::new();
        let mut event = first;
        loop {
            if open.len() as u64 > u64::from(depth_limit(self.budget)) {
                return Err(self.budget.cross(LimitError::Depth).into());
            }
            let done = match (event, open.last_mut()) {
                (Event::Scalar(text, style, anchor, tag), Some(Open::Mapping(m)))
                    if m.key.is_none() =>
                {
                    let tag = tag.as_ref();
                    let merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                    m.key = Some(if merge || suffix(tag) == Some("merge") {
                        Key::Merge
                    } else {
                        Key::Field(EcoString::from(text.as_ref()))
                    });
                    self.budget.string(text.len() as u64)?;
                    if anchor != 0 {
                        let value = self.scalar(&text, style, tag)?;
                        self.anchors.insert(anchor, (value, 1));
                    }
                    None
                }
                (Event::Alias(id), Some(Open::Mapping(m))) if m.key.is_none() => {
                    m.key = Some(Key::Field(match self.alias(id)? {
                        Value::String(s) => s,
                        Value::Number(n) => EcoString::from(n.to_string()),
                        Value::Bool(b) => EcoString::from(if b { "true" } else { "false" }),
                        Value::Null => EcoString::from("null"),
                        _ => return self.bad("invalid map key"),
                    }));
                    None
                }
                (Event::MappingStart(..) | Event::SequenceStart(..), Some(Open::Mapping(m)))
                    if m.key.is_none() =>
                {
                    return self.bad("invalid map key");
                }
                (Event::Scalar(text, style, anchor, tag), _) => {
                    Some((anchor, self.scalar(&text, style, tag.as_ref())?))
                }
                (Event::Alias(id), _) => Some((0, self.alias(id)?)),
                (Event::SequenceStart(_, anchor, _), _) => {
                    self.budget.collection()?;
                    open.push(Open::Sequence(anchor, Vec::new()));
                    None
                }
                (Event::MappingStart(_, anchor, _), _) => {
                    self.budget.collection()?;
                    open.push(Open::Mapping(Mapping { anchor, ..Mapping::default() }));
                    None
                }
                (Event::SequenceEnd, _) => match open.pop() {
                    Some(Open::Sequence(anchor, elements)) => Some((anchor, Value::List(elements))),
                    _ => return self.bad("unexpected end of sequence"),
                },
                (Event::MappingEnd, _) => match open.pop() {
                    Some(Open::Mapping(m)) => Some((m.anchor, self.finish(m)?)),
                    _ => return self.bad("unexpected end of mapping"),
                },
                // A document without content.
                (Event::DocumentEnd, None) => return Ok(Value::Null),
                (other, _) => return self.bad(format!("unexpected {other:?}")),
            };
            if let Some((anchor, value)) = done {
                if anchor != 0 {
                    let nodes = count(&value);
                    self.budget.steps(nodes)?;
                    self.budget.bytes(value.size())?;
                    self.anchors.insert(anchor, (value.clone(), nodes));
                }
                self.budget.list(1)?;
                match open.last_mut() {
                    None => return Ok(value),
                    Some(Open::Sequence(_, elements)) => elements.push(value),
                    Some(Open::Mapping(m)) => match m.key.take() {
                        Some(Key::Merge) => self.merge(value, &mut m.merged)?,
                        Some(Key::Field(key)) => self.field(&mut m.fields, key, value)?,
                        None => return self.bad("value without key"),
                    },
                }
            }
            event = self.next()?;
        }
    }

    fn field(&self, fields: &mut Fields, key: EcoString, value: Value) -> Result<(), BuiltinError> {
        match fields.get(&key) {
            None => {
                fields.insert(key, value);
                Ok(())
            }
            Some(old) if *old == value => Ok(()),
            Some(old) => {
                let (old, new) = (args::short(old), args::short(&value));
                self.bad(format!("{key}: conflicting values {old} and {new}"))
            }
        }
    }

    /// Explicit keys win over merged ones, earlier merges over later ones.
    fn finish(&mut self, mapping: Mapping) -> Result<Value, BuiltinError> {
        let mut fields = mapping.fields;
        for source in mapping.merged {
            if let Value::Struct(source) = source {
                for (key, value) in source {
                    self.budget.steps(1)?;
                    fields.entry(key).or_insert(value);
                }
            }
        }
        Ok(Value::Struct(fields))
    }

    fn alias(&mut self, id: usize) -> Result<Value, BuiltinError> {
        match self.anchors.get(&id) {
            Some((value, nodes)) => {
                self.aliased = self.aliased.saturating_add(*nodes);
                if self.aliased > MOST_ALIASED {
                    return Err(self.budget.cross(LimitError::List).into());
                }
                self.budget.steps(*nodes)?;
                // Copies cost memory even though nothing is parsed.
                self.budget.bytes(value.size())?;
                Ok(value.clone())
            }
            // The anchor's own node is not finished: the value would contain itself.
            None => self.bad("anchor value contains itself"),
        }
    }

    fn merge(&self, value: Value, merged: &mut Vec<Value>) -> Result<(), BuiltinError> {
        match value {
            Value::Struct(_) => {
                merged.push(value);
                Ok(())
            }
            Value::List(l) if l.iter().all(|v| v.as_struct().is_some()) => {
                merged.extend(l);
                Ok(())
            }
            _ => self.bad("map merge requires map or sequence of maps as the value"),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Cow<'_, Tag>>,
    ) -> Result<Value, BuiltinError> {
        self.budget.string(text.len() as u64)?;
        let resolved = |reader: &mut Self| {
            let result = resolve(text);
            reader.number(result)
        };
        let invalid = |reader: &Self, as_: &str| {
            reader.bad(format!(
                "cannot decode !!str {} as a !!{as_}",
                args::short(&Value::from(text))
            ))
        };
        match suffix(tag) {
            None if style != ScalarStyle::Plain => Ok(Value::from(text)),
            None => match resolved(self)?.into_value(text) {
                Some(value) => Ok(value),
                None => self.bad(format!("{text} has no equivalent in CUE")),
            },
            Some("str" | "timestamp" | "") => Ok(Value::from(text)),
            Some("binary") => self.binary(text),
            Some("null") => match resolved(self)? {
                Resolved::Null => Ok(Value::Null),
                _ => invalid(self, "null"),
            },
            Some("bool") => match (resolved(self)?, text) {
                (Resolved::Bool(b), _) => Ok(Value::Bool(b)),
                (_, "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => {
                    Ok(Value::Bool(true))
                }
                (_, "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") => {
                    Ok(Value::Bool(false))
                }
                _ => invalid(self, "bool"),
            },
            Some("int") => match resolved(self)? {
                Resolved::Int(n) => Ok(Value::Number(Number::int(n))),
                Resolved::Float(n) if n.is_integral() => Ok(Value::Number(Number::int(n))),
                _ => invalid(self, "int"),
            },
            Some("float") => match resolved(self)? {
                Resolved::Int(n) | Resolved::Float(n) => Ok(Value::Number(Number::float(n))),
                _ => invalid(self, "float"),
            },
            Some(other) => self.bad(format!("unknown tag {other}")),
        }
    }

    fn binary(&mut self, text: &str) -> Result<Value, BuiltinError> {
        use base64::Engine as _;
        let clean: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        match base64::engine::general_purpose::STANDARD.decode(clean) {
            Ok(data) => Ok(Value::Bytes(data.into())),
            Err(_) => self.bad("!!binary value contains invalid base64 data"),
        }
    }
}

/// The short name of a tag: `str` of `!!str`; empty for the non-specific `!`; the whole of a
/// local tag.
fn suffix<'t>(tag: Option<&'t Cow<'_, Tag>>) -> Option<&'t str> {
    let tag = tag?;
    match (tag.handle(), tag.suffix()) {
        ("!" | "", "") => Some(""),
        ("", "!") => Some(""),
        (_, suffix) => Some(suffix.strip_prefix("tag:yaml.org,2002:").unwrap_or(suffix)),
    }
}

fn count(value: &Value) -> u64 {
    match value {
        Value::List(l) => 1 + l.iter().map(count).sum::<u64>(),
        Value::Struct(s) => 1 + s.values().map(count).sum::<u64>(),
        _ => 1,
    }
}
