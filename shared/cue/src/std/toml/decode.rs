//! TOML text to values.

use ecow::EcoString;
use indexmap::IndexMap;
use num_bigint::BigInt;

use super::super::BuiltinError;
use super::super::args::fail;
use super::super::json::depth_limit;
use crate::decimal::{Decimal, DecimalError};
use crate::limits::{Budget, LimitError};
use crate::value::{Number, Value};

type Result<T> = std::result::Result<T, BuiltinError>;

/// A table while reading; how it came to be decides who may add to it.
#[derive(Default)]
struct Table {
    entries: IndexMap<EcoString, Entry>,
    origin: Origin,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Origin {
    /// Named on the way to another table.
    #[default]
    Implicit,
    /// Has a header of its own.
    Header,
    /// Made by a dotted key: no header may open it.
    Dotted,
}

enum Entry {
    Value(Value),
    Table(usize),
    Tables(Vec<usize>),
}

/// All tables, by number; the root is 0.
struct Tables {
    all: Vec<Table>,
}

impl Tables {
    fn add(&mut self, origin: Origin) -> usize {
        self.all.push(Table { entries: IndexMap::new(), origin });
        self.all.len() - 1
    }

    fn insert(&mut self, table: usize, key: &EcoString, entry: Entry) {
        if let Some(table) = self.all.get_mut(table) {
            table.entries.insert(key.clone(), entry);
        }
    }

    /// The table below `key`, the last one of a list; made if there is none.
    fn step(&mut self, table: usize, key: &EcoString, origin: Origin) -> Result<usize> {
        let found = self.all.get(table).and_then(|t| t.entries.get(key));
        match found {
            Some(Entry::Table(next)) => {
                let next = *next;
                // A dotted key may not add to a table that a header made, nor the other way.
                let theirs = self.all.get(next).map(|t| t.origin).unwrap_or_default();
                if origin == Origin::Dotted && theirs == Origin::Header {
                    return duplicate(key);
                }
                Ok(next)
            }
            Some(Entry::Tables(list)) if origin != Origin::Dotted => match list.last() {
                Some(last) => Ok(*last),
                None => duplicate(key),
            },
            Some(_) => duplicate(key),
            None => {
                let next = self.add(origin);
                self.insert(table, key, Entry::Table(next));
                Ok(next)
            }
        }
    }

    /// `[path]` or `[[path]]`: the table that the following keys go to.
    fn open(&mut self, path: &[EcoString], list: bool) -> Result<usize> {
        let Some((last, parents)) = path.split_last() else {
            return Ok(0);
        };
        let mut table = 0;
        for key in parents {
            table = self.step(table, key, Origin::Implicit)?;
        }
        let found = self.all.get(table).and_then(|t| t.entries.get(last));
        match (found, list) {
            (None, true) => {
                let next = self.add(Origin::Header);
                self.insert(table, last, Entry::Tables(vec![next]));
                Ok(next)
            }
            (Some(Entry::Tables(_)), true) => {
                let next = self.add(Origin::Header);
                let entry = self.all.get_mut(table).and_then(|t| t.entries.get_mut(last));
                if let Some(Entry::Tables(tables)) = entry {
                    tables.push(next);
                }
                Ok(next)
            }
            (None, false) => {
                let next = self.add(Origin::Header);
                self.insert(table, last, Entry::Table(next));
                Ok(next)
            }
            (Some(Entry::Table(next)), false) => {
                let next = *next;
                match self.all.get_mut(next) {
                    Some(t) if t.origin == Origin::Implicit => {
                        t.origin = Origin::Header;
                        Ok(next)
                    }
                    _ => duplicate(last),
                }
            }
            _ => duplicate(last),
        }
    }

    fn set(&mut self, table: usize, path: &[EcoString], value: Value) -> Result<()> {
        let Some((last, parents)) = path.split_last() else {
            return Ok(());
        };
        let mut table = table;
        for key in parents {
            table = self.step(table, key, Origin::Dotted)?;
        }
        if self.all.get(table).is_some_and(|t| t.entries.contains_key(last)) {
            return duplicate(last);
        }
        self.insert(table, last, Entry::Value(value));
        Ok(())
    }

    fn finish(&mut self, table: usize) -> Value {
        let entries = self.all.get_mut(table).map(|t| std::mem::take(&mut t.entries));
        let fields = entries.unwrap_or_default().into_iter().map(|(key, entry)| {
            let value = match entry {
                Entry::Value(value) => value,
                Entry::Table(next) => self.finish(next),
                Entry::Tables(list) => {
                    Value::List(list.into_iter().map(|next| self.finish(next)).collect())
                }
            };
            (key, value)
        });
        fields.collect()
    }
}

fn duplicate<T>(key: &str) -> Result<T> {
    fail(format!("duplicate key: {key}"))
}

pub(super) fn read(text: &str, budget: &mut Budget) -> Result<Value> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, at: 0, budget };
    let mut tables = Tables { all: vec![Table::default()] };
    let (mut table, mut depth) = (0, 0);
    loop {
        reader.blank_lines();
        match reader.peek() {
            None => return Ok(tables.finish(0)),
            Some('[') => {
                let list = reader.take("[[");
                if !list {
                    reader.take("[");
                }
                let path = reader.key()?;
                reader.expect(if list { "]]" } else { "]" })?;
                depth = path.len();
                reader.deep_enough(depth)?;
                table = tables.open(&path, list)?;
            }
            Some(_) => {
                let path = reader.key()?;
                reader.deep_enough(depth + path.len())?;
                reader.expect("=")?;
                reader.space();
                let value = reader.value(depth + path.len())?;
                tables.set(table, &path, value)?;
            }
        }
        reader.end_of_line()?;
        reader.budget.list(1)?;
    }
}

struct Reader<'a, 'b> {
    text: &'a str,
    at: usize,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        self.space();
        if self.take(text) { Ok(()) } else { self.bad(&format!("expected {text}")) }
    }

    fn bad<T>(&self, why: &str) -> Result<T> {
        let line = self.text.get(..self.at).unwrap_or_default().matches('\n').count() + 1;
        let found = match self.peek() {
            Some(c) => format!("{c:?}"),
            None => "end of text".to_owned(),
        };
        fail(format!("toml: line {line}: {why}, found {found}"))
    }

    fn deep_enough(&mut self, depth: usize) -> Result<()> {
        self.budget.steps(1)?;
        if depth as u64 > u64::from(depth_limit(self.budget)) {
            return Err(self.budget.cross(LimitError::Depth).into());
        }
        Ok(())
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn comment(&mut self) {
        if self.peek() == Some('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Space, comments and line feeds.
    fn blank_lines(&mut self) {
        loop {
            self.space();
            self.comment();
            if !self.take("\n") && !self.take("\r\n") {
                return;
            }
        }
    }

    fn end_of_line(&mut self) -> Result<()> {
        self.space();
        self.comment();
        if self.peek().is_none() || self.take("\n") || self.take("\r\n") {
            return Ok(());
        }
        self.bad("expected newline")
    }

    /// A key with its dots.
    fn key(&mut self) -> Result<Vec<EcoString>> {
        let mut parts = Vec::new();
        loop {
            self.space();
            // It may stand for a table of its own.
            self.budget.steps(1)?;
            self.budget.collection()?;
            let part = match self.peek() {
                Some('"') => {
                    self.at += 1;
                    self.basic(false)?
                }
                Some('\'') => {
                    self.at += 1;
                    self.literal(false)?
                }
                _ => {
                    let rest = self.rest();
                    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    let len = rest.find(|c| !bare(c)).unwrap_or(rest.len());
                    if len == 0 {
                        return self.bad("invalid character at start of key");
                    }
                    self.at += len;
                    EcoString::from(rest.get(..len).unwrap_or_default())
                }
            };
            self.budget.string(part.len() as u64)?;
            parts.push(part);
            self.space();
            if !self.take(".") {
                return Ok(parts);
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.deep_enough(depth)?;
        let text = match self.peek() {
            Some('"') => {
                let long = self.take("\"\"\"");
                if !long {
                    self.at += 1;
                }
                self.basic(long)?
            }
            Some('\'') => {
                let long = self.take("'''");
                if !long {
                    self.at += 1;
                }
                self.literal(long)?
            }
            Some('[') => return self.array(depth),
            Some('{') => return self.inline_table(depth),
            _ => return self.plain(),
        };
        self.budget.string(text.len() as u64)?;
        Ok(Value::String(text))
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        self.budget.collection()?;
        let mut elements = Vec::new();
        loop {
            self.blank_lines();
            if self.take("]") {
                return Ok(Value::List(elements));
            }
            elements.push(self.value(depth + 1)?);
            self.budget.list(1)?;
            self.blank_lines();
            if !self.take(",") && self.peek() != Some(']') {
                return self.bad("expected , or ] in array");
            }
        }
    }

    fn inline_table(&mut self, depth: usize) -> Result<Value> {
        self.at += 1;
        self.budget.collection()?;
        let mut tables = Tables { all: vec![Table::default()] };
        self.space();
        if self.take("}") {
            return Ok(tables.finish(0));
        }
        loop {
            let path = self.key()?;
            self.deep_enough(depth + path.len())?;
            self.expect("=")?;
            self.space();
            let value = self.value(depth + path.len())?;
            tables.set(0, &path, value)?;
            self.budget.list(1)?;
            self.space();
            if self.take("}") {
                return Ok(tables.finish(0));
            }
            if !self.take(",") {
                return self.bad("expected , or } in inline table");
            }
        }
    }

    /// Behind the opening quotes of a literal string.
    fn literal(&mut self, long: bool) -> Result<EcoString> {
        let close = if long { "'''" } else { "'" };
        if long && !self.take("\n") {
            self.take("\r\n");
        }
        let Some(mut len) = self.rest().find(close) else {
            return self.bad("unterminated string");
        };
        // Up to two quotes may stand before the closing three.
        while long && self.rest().get(len + 3..).is_some_and(|r| r.starts_with('\'')) {
            len += 1;
        }
        let text = self.rest().get(..len).unwrap_or_default();
        if !long && text.contains('\n') {
            return self.bad("newline in string");
        }
        self.at += len + close.len();
        Ok(text.into())
    }

    /// Behind the opening quotes of a basic string.
    fn basic(&mut self, long: bool) -> Result<EcoString> {
        if long && !self.take("\n") {
            self.take("\r\n");
        }
        let mut out = EcoString::new();
        loop {
            if long && self.rest().starts_with("\"\"\"") && !self.rest().starts_with("\"\"\"\"") {
                self.at += 3;
                return Ok(out);
            }
            match self.next() {
                None => return self.bad("unterminated string"),
                Some('"') if !long => return Ok(out),
                Some('\n') if !long => return self.bad("newline in string"),
                Some('\\') => self.escape(long, &mut out)?,
                Some(c) => out.push(c),
            }
        }
    }

    fn escape(&mut self, long: bool, out: &mut EcoString) -> Result<()> {
        let c = match self.next() {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some('e') => '\u{1b}',
            Some('"') => '"',
            Some('\\') => '\\',
            Some('u') => self.code(4)?,
            Some('U') => self.code(8)?,
            // A backslash before the end of a line swallows white space.
            Some(' ' | '\t' | '\r' | '\n') if long => {
                let rest = self.rest();
                self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
                return Ok(());
            }
            _ => return self.bad("invalid escape"),
        };
        out.push(c);
        Ok(())
    }

    fn code(&mut self, len: usize) -> Result<char> {
        let digits = self.rest().get(..len).unwrap_or_default();
        let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let c = u32::from_str_radix(digits, 16).ok().filter(|_| valid).and_then(char::from_u32);
        match c {
            Some(c) => {
                self.at += len;
                Ok(c)
            }
            None => self.bad("invalid unicode escape"),
        }
    }

    /// Booleans, numbers, dates.
    fn plain(&mut self) -> Result<Value> {
        let rest = self.rest();
        let fits = |c: char| c.is_ascii_alphanumeric() || "+-._:".contains(c);
        let mut len = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        // A date and a time may be parted by a space.
        let word = rest.get(..len).unwrap_or_default();
        let date = |t: &str| vela_gocompat::time::parse("2006-01-02", t).is_ok();
        if date(word)
            && rest.get(len..).is_some_and(|r| {
                r.strip_prefix(' ').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
            })
        {
            let behind = rest.get(len + 1..).unwrap_or_default();
            len += 1 + behind.find(|c| !fits(c)).unwrap_or(behind.len());
        }
        let word = rest.get(..len).unwrap_or_default();
        let value = match word {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => match number(word) {
                Ok(found) => found,
                Err(e) if e.is_limit() => {
                    return Err(self.budget.cross(LimitError::Number).into());
                }
                Err(_) => None,
            },
        };
        match value {
            Some(value) => {
                self.at += len;
                Ok(value)
            }
            None if is_time(word) => {
                self.at += len;
                Ok(Value::from(word))
            }
            None => self.bad("invalid value"),
        }
    }
}

fn is_time(word: &str) -> bool {
    [
        "2006-01-02T15:04:05Z07:00",
        "2006-01-02t15:04:05Z07:00",
        "2006-01-02 15:04:05Z07:00",
        "2006-01-02T15:04:05",
        "2006-01-02 15:04:05",
        "2006-01-02",
        "15:04:05",
    ]
    .iter()
    .any(|layout| vela_gocompat::time::parse(layout, word).is_ok())
}

/// Underscores stand between digits only; leading zeros are refused.
fn number(word: &str) -> std::result::Result<Option<Value>, DecimalError> {
    let digits_around = |at: usize| {
        let digit = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
        digit(at.checked_sub(1).and_then(|i| word.as_bytes().get(i)))
            && digit(word.as_bytes().get(at + 1))
    };
    if word.bytes().enumerate().any(|(at, b)| b == b'_' && !digits_around(at)) {
        return Ok(None);
    }
    let clean = word.replace('_', "");
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = clean.strip_prefix(prefix) {
            if digits.len() > crate::decimal::MAX_DIGITS {
                return Err(DecimalError::TooManyDigits);
            }
            let n = BigInt::parse_bytes(digits.as_bytes(), radix)
                .filter(|_| digits.bytes().all(|b| b.is_ascii_alphanumeric()));
            return n.map(|n| Decimal::new(n, 0).map(|n| Number::int(n).into())).transpose();
        }
    }
    let unsigned = clean.trim_start_matches(['+', '-']);
    let whole = unsigned.split(['.', 'e', 'E']).next().unwrap_or_default();
    let plain = whole.bytes().all(|b| b.is_ascii_digit())
        && !whole.is_empty()
        && (whole == "0" || !whole.starts_with('0'))
        && clean.len() - unsigned.len() <= 1;
    if !plain {
        return Ok(None);
    }
    let float = unsigned.contains(['.', 'e', 'E']);
    // Digits on both sides of the point.
    if unsigned.contains('.')
        && unsigned.split('.').nth(1).is_none_or(|f| !f.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Ok(None);
    }
    match Decimal::parse(&clean) {
        Ok(n) => Ok(Some(Value::Number(if float { Number::float(n) } else { Number::int(n) }))),
        Err(e) if e.is_limit() => Err(e),
        Err(_) => Ok(None),
    }
}
