//! Package `encoding/json`.
//!
//! Text is written and read here, not by `serde_json`: fields keep their order, numbers keep all
//! digits, depth and size are bounded.

use super::args::{Out, bytes, fail, func, lazy, list, string, text};
use super::{BuiltinError, Lazy, Member, Param};
use crate::decimal::Decimal;
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::{Fields, Number, Value};
use ecow::EcoString;
use vela_gocompat::json::{Escapes, push_text};

const DATA: &[Param] = &[Param::BYTES];

pub(super) static PACKAGE: &[Member] = &[
    func("Valid", DATA, Kind::BOOL, |a, b| match Reader::check(&lossy(a)?, b) {
        Ok(()) => Ok(true.into()),
        Err(BuiltinError::Message(_)) => Ok(false.into()),
        Err(e) => Err(e),
    }),
    func("Compact", DATA, Kind::STRING, |a, b| reformat(a, None, b)),
    func("Indent", &[Param::BYTES, Param::STRING, Param::STRING], Kind::STRING, |a, b| {
        reformat(a, Some((text(a, 1)?, text(a, 2)?)), b)
    }),
    func("HTMLEscape", DATA, Kind::STRING, |a, b| {
        let json = lossy(a)?;
        b.string((json.len() as u64).saturating_mul(2))?;
        string(vela_gocompat::json::html_escape(&json), b)
    }),
    func("Marshal", &[Param::ANY], Kind::STRING, |a, b| {
        let mut out = String::new();
        write(a.first().unwrap_or(&Value::Null), &mut out, b)?;
        string(out, b)
    }),
    func("MarshalStream", &[Param::LIST], Kind::STRING, |a, b| {
        let mut out = String::new();
        for element in list(a, 0)? {
            write(element, &mut out, b)?;
            out.push('\n');
        }
        string(out, b)
    }),
    func("Unmarshal", DATA, Kind::TOP, |a, b| {
        let json = lossy(a)?;
        Reader::check(&json, b).map_err(|e| match e {
            BuiltinError::Message(_) => BuiltinError::new("json: invalid JSON"),
            other => other,
        })?;
        read(&json, b)
    }),
    func("UnmarshalStream", DATA, Kind::TOP, |a, b| {
        let json = lossy(a)?;
        let mut reader = Reader::new(&json);
        let mut elements = Vec::new();
        loop {
            reader.space();
            if reader.rest().is_empty() {
                break;
            }
            elements.push(reader.value(0, b)?);
            b.list(1)?;
        }
        Ok(Value::List(elements))
    }),
    lazy("Validate", &[Param::BYTES, Param::ANY], Kind::BOOL, Lazy::JsonValidate),
];

fn lossy(args: &[Value]) -> Result<std::borrow::Cow<'_, str>, BuiltinError> {
    Ok(String::from_utf8_lossy(bytes(args, 0)?))
}

/// Writes a value as `json.Marshal` of CUE does: fields in order, HTML characters as they are.
pub(crate) fn write(
    value: &Value,
    out: &mut String,
    budget: &mut Budget,
) -> Result<(), BuiltinError> {
    budget.steps(1)?;
    if out.len() as u64 > budget.limits().string {
        return Err(budget.cross(LimitError::String).into());
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => {
            budget.arithmetic(n.whole_words())?;
            out.push_str(&n.to_json());
        }
        Value::String(s) => {
            pay_for_quoted(s, out, budget)?;
            write_string(s, out);
        }
        Value::Bytes(b) => {
            use base64::Engine as _;
            out.push('"');
            base64::engine::general_purpose::STANDARD.encode_string(b, out);
            out.push('"');
        }
        Value::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(element, out, budget)?;
            }
            out.push(']');
        }
        Value::Struct(fields) => {
            out.push('{');
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                pay_for_quoted(key, out, budget)?;
                write_string(key, out);
                out.push(':');
                write(value, out, budget)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// All of it may have to be escaped, and the text that is written may have to move.
fn pay_for_quoted(text: &str, out: &str, budget: &mut Budget) -> Result<(), LimitError> {
    budget.steps(text.len() as u64 >> 5)?;
    if text.len() > 1024 { budget.room((text.len() as u64 + out.len() as u64) * 6) } else { Ok(()) }
}

/// A string as Go's encoder writes it without HTML escaping.
pub(crate) fn write_string(text: &str, out: &mut String) {
    push_text(out, text, Escapes::Separators);
}

/// Reads one JSON value and nothing behind it.
///
/// # Errors
/// Invalid JSON, a crossed limit, or contradicting duplicate fields.
pub(crate) fn read(json: &str, budget: &mut Budget) -> Result<Value, BuiltinError> {
    let mut reader = Reader::new(json);
    let value = reader.value(0, budget)?;
    reader.end()?;
    Ok(value)
}

/// Nesting of JSON and YAML texts beyond which they are refused.
pub(super) fn depth_limit(budget: &Budget) -> u32 {
    budget.limits().depth.min(1000)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Whether the text is one JSON value, building nothing.
    fn check(text: &'a str, budget: &mut Budget) -> Result<(), BuiltinError> {
        let mut reader = Self::new(text);
        reader.skip(0, budget)?;
        reader.end()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn end(&mut self) -> Result<(), BuiltinError> {
        self.space();
        if self.rest().is_empty() { Ok(()) } else { self.unexpected("after top-level value") }
    }

    fn unexpected<T>(&self, context: &str) -> Result<T, BuiltinError> {
        match self.rest().chars().next() {
            Some(c) => fail(format!(
                "invalid character {} {context}",
                vela_gocompat::strconv::quote_char(c)
            )),
            None => fail("unexpected end of JSON input"),
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn enter(&mut self, depth: u32, budget: &mut Budget) -> Result<(), BuiltinError> {
        budget.steps(1)?;
        if depth > depth_limit(budget) {
            return Err(budget.cross(LimitError::Depth).into());
        }
        Ok(())
    }

    fn value(&mut self, depth: u32, budget: &mut Budget) -> Result<Value, BuiltinError> {
        self.enter(depth, budget)?;
        self.space();
        match self.peek() {
            Some(b'{') => {
                budget.collection()?;
                let mut fields = Fields::default();
                let mut more = self.open(b'}')?;
                while more {
                    let key = self.key(budget)?;
                    let value = self.value(depth + 1, budget)?;
                    budget.list(1)?;
                    insert(&mut fields, key, value)?;
                    more = self.more(b'}', "after object key:value pair")?;
                }
                Ok(Value::Struct(fields))
            }
            Some(b'[') => {
                budget.collection()?;
                let mut elements = Vec::new();
                let mut more = self.open(b']')?;
                while more {
                    elements.push(self.value(depth + 1, budget)?);
                    budget.list(1)?;
                    more = self.more(b']', "after array element")?;
                }
                Ok(Value::List(elements))
            }
            Some(b'"') => {
                let text = self.string()?;
                budget.string(text.len() as u64)?;
                Ok(Value::String(text))
            }
            Some(b'-' | b'0'..=b'9') => number(self.number()?),
            _ => self.word(),
        }
    }

    fn skip(&mut self, depth: u32, budget: &mut Budget) -> Result<(), BuiltinError> {
        self.enter(depth, budget)?;
        self.space();
        match self.peek() {
            Some(b'{') => {
                let mut more = self.open(b'}')?;
                while more {
                    self.key(budget)?;
                    self.skip(depth + 1, budget)?;
                    more = self.more(b'}', "after object key:value pair")?;
                }
                Ok(())
            }
            Some(b'[') => {
                let mut more = self.open(b']')?;
                while more {
                    self.skip(depth + 1, budget)?;
                    more = self.more(b']', "after array element")?;
                }
                Ok(())
            }
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            _ => self.word().map(|_| ()),
        }
    }

    /// Behind an opening bracket; whether there is a first element.
    fn open(&mut self, close: u8) -> Result<bool, BuiltinError> {
        self.at += 1;
        self.space();
        Ok(!self.take(close))
    }

    /// Behind an element; whether another follows.
    fn more(&mut self, close: u8, context: &str) -> Result<bool, BuiltinError> {
        self.space();
        if self.take(b',') {
            return Ok(true);
        }
        if self.take(close) {
            return Ok(false);
        }
        self.unexpected(context)
    }

    fn key(&mut self, budget: &mut Budget) -> Result<EcoString, BuiltinError> {
        self.space();
        if self.peek() != Some(b'"') {
            return self.unexpected("looking for beginning of object key string");
        }
        let key = self.string()?;
        budget.string(key.len() as u64)?;
        self.space();
        if !self.take(b':') {
            return self.unexpected("after object key");
        }
        Ok(key)
    }

    fn word(&mut self) -> Result<Value, BuiltinError> {
        for (word, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.unexpected("looking for beginning of value")
    }

    fn digits(&mut self) -> Result<(), BuiltinError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.unexpected("in numeric literal") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<&'a str, BuiltinError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn string(&mut self) -> Result<EcoString, BuiltinError> {
        self.at += 1;
        let mut out = EcoString::new();
        loop {
            let run = self
                .rest()
                .bytes()
                .position(|b| b == b'"' || b == b'\\' || b < 0x20)
                .unwrap_or(self.rest().len());
            out.push_str(self.rest().get(..run).unwrap_or_default());
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return self.unexpected("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, BuiltinError> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let high = self.hex()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let before = self.at;
                if self.rest().starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                }
                self.at = before;
                return Ok(char::REPLACEMENT_CHARACTER);
            }
            _ => return self.unexpected("in string escape code"),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex(&mut self) -> Result<u32, BuiltinError> {
        match self.rest().get(..4) {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
                self.at += 4;
                Ok(u32::from_str_radix(digits, 16).unwrap_or_default())
            }
            _ => self.unexpected("in \\u hexadecimal character escape"),
        }
    }
}

/// An int if written as one.
fn number(text: &str) -> Result<Value, BuiltinError> {
    let float = text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    let n = Decimal::parse(text)?;
    Ok(Value::Number(if float { Number::float(n) } else { Number::int(n) }))
}

/// Adds a field. JSON text is CUE text: fields given twice unify.
fn insert(fields: &mut Fields, key: EcoString, value: Value) -> Result<(), BuiltinError> {
    match fields.get_mut(&key) {
        None => {
            fields.insert(key, value);
            Ok(())
        }
        Some(old) => unify(old, value, &key),
    }
}

fn unify(old: &mut Value, new: Value, key: &str) -> Result<(), BuiltinError> {
    match (old, new) {
        (Value::Struct(old), Value::Struct(new)) => {
            for (key, value) in new {
                insert(old, key, value)?;
            }
            Ok(())
        }
        (Value::List(old), Value::List(new)) if old.len() == new.len() => {
            for (old, new) in old.iter_mut().zip(new) {
                unify(old, new, key)?;
            }
            Ok(())
        }
        (old, new) if *old == new => Ok(()),
        (old, new) => fail(format!(
            "{key}: conflicting values {} and {}",
            super::args::short(old),
            super::args::short(&new)
        )),
    }
}

/// `json.Compact` and `json.Indent`: the tokens as they are, other white space.
fn reformat(args: &[Value], indent: Option<(&str, &str)>, budget: &mut Budget) -> Out {
    let json = lossy(args)?;
    Reader::check(&json, budget)?;
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut after_open = false;
    let mut bytes = json.char_indices().peekable();
    let line = |out: &mut String, depth: usize| {
        if let Some((prefix, indent)) = indent {
            out.push('\n');
            out.push_str(prefix);
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    };
    while let Some((_, c)) = bytes.next() {
        if out.len() as u64 > budget.limits().string {
            return Err(budget.cross(LimitError::String).into());
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !after_open {
                    line(&mut out, depth);
                }
                out.push(c);
                after_open = false;
                continue;
            }
            _ => {}
        }
        if after_open {
            line(&mut out, depth);
            after_open = false;
        }
        out.push(c);
        match c {
            '{' | '[' => {
                depth += 1;
                after_open = true;
            }
            ',' => line(&mut out, depth),
            ':' if indent.is_some() => out.push(' '),
            '"' => {
                let mut escaped = false;
                for (_, c) in bytes.by_ref() {
                    out.push(c);
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if indent.is_some() {
        // Indent keeps the white space at the end.
        let kept = json.trim_end_matches([' ', '\t', '\n', '\r']).len();
        out.push_str(json.get(kept..).unwrap_or_default());
    }
    string(out, budget)
}
