//! Reads TOML: what Helm's reader refuses, in its words, with the line and the key that it names.

mod scalar;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use gotemplate::{List, Map, Str, Type, Value};
use vela_gocompat::strconv;

use super::{LOCAL, is_bare, key as key_text};

/// Levels of lists and tables, and parts of a name.
const DEEPEST: usize = 64;

/// A text that is not TOML.
#[derive(Debug, thiserror::Error)]
#[error("toml: line {line}{}: {what}", last(.key))]
pub(in crate::functions) struct TomlError {
    line: usize,
    /// The key that was being read, with those of its tables.
    key: String,
    what: String,
}

fn last(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" (last key {})", strconv::quote(key)) }
}

type Result<T> = std::result::Result<T, TomlError>;

/// Reads a text.
pub(in crate::functions) fn read(text: &str) -> Result<Map> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        text,
        at: 0,
        root: Table::new(),
        tables: Vec::new(),
        key: String::new(),
        implied: HashSet::new(),
        lists: HashSet::new(),
        named: 0,
        depth: 0,
    };
    if text.bytes().take(6).any(|byte| byte == 0) {
        const WIDE: &str =
            "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
        return Err(reader.error(1, WIDE));
    }
    reader.document()?;
    Ok(map(reader.root))
}

type Table = BTreeMap<String, Node>;

/// What a key has.
enum Node {
    Value(Value),
    Table(Table),
    /// Of `[[key]]`: keys belong to the last one.
    Tables(Vec<Table>),
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    root: Table,
    /// Names of the tables that keys belong to, from the outermost.
    tables: Vec<String>,
    /// The key whose value is being read.
    key: String,
    /// Tables that only longer names have named: they may be named once by themselves.
    implied: HashSet<Vec<String>>,
    /// Keys whose value is a list: another value may replace it.
    lists: HashSet<Vec<String>>,
    /// Where the first part of the name stands that was read last.
    named: usize,
    /// Lists and inline tables around the value.
    depth: usize,
}

impl<'t> Reader<'t> {
    fn error(&self, line: usize, what: impl Display) -> TomlError {
        let tables = joined(&self.tables);
        let key = match (tables.is_empty(), self.key.is_empty()) {
            (_, true) => tables,
            (true, false) => self.key.clone(),
            (false, false) => format!("{tables}.{}", self.key),
        };
        TomlError { line, key, what: what.to_string() }
    }

    fn line(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().matches('\n').count() + 1
    }

    /// A mistake at the character that was taken last. Where there was none, it is one of the line that has ended.
    fn wrong<T>(&self, next: Option<char>, what: impl Display) -> Result<T> {
        let is_over = next.is_none() && self.text.ends_with('\n');
        Err(self.error(self.line(self.at) - usize::from(is_over), what))
    }

    /// A mistake of the line above the present one, which a line break has ended.
    fn wrong_above<T>(&self, what: impl Display) -> Result<T> {
        Err(self.error(self.line(self.at).saturating_sub(1), what))
    }

    /// A mistake of the name that was read last.
    fn wrong_name<T>(&self, what: impl Display) -> Result<T> {
        Err(self.error(self.line(self.named), what))
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Result<Option<char>> {
        let rest = self.rest();
        let Some(next) = rest.chars().next() else { return Ok(None) };
        let is_wrong = match next {
            '\t' | '\n' => false,
            '\r' => !rest.starts_with("\r\n"),
            next => next.is_ascii_control(),
        };
        if is_wrong {
            let code = u32::from(next);
            return Err(self.error(
                self.line(self.at),
                format_args!("TOML files cannot contain control characters: '0x{code:02x}'"),
            ));
        }
        Ok(Some(next))
    }

    fn take(&mut self) -> Result<Option<char>> {
        let next = self.peek()?;
        self.at += next.map_or(0, char::len_utf8);
        Ok(next)
    }

    fn take_if(&mut self, wanted: char) -> Result<bool> {
        let is_wanted = self.peek()? == Some(wanted);
        self.at += if is_wanted { wanted.len_utf8() } else { 0 };
        Ok(is_wanted)
    }

    /// Takes all that is `wanted`.
    fn take_all(&mut self, wanted: impl Fn(char) -> bool) -> Result<&'t str> {
        let start = self.at;
        while self.peek()?.is_some_and(&wanted) {
            self.take()?;
        }
        Ok(self.since(start))
    }

    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn blanks(&mut self) -> Result<()> {
        self.take_all(is_blank).map(|_| ())
    }

    fn comment(&mut self) -> Result<()> {
        self.take_all(|char| !is_break(char)).map(|_| ())
    }

    /// Blanks, line breaks and comments.
    fn space(&mut self) -> Result<()> {
        loop {
            self.take_all(|char| is_blank(char) || is_break(char))?;
            if !self.take_if('#')? {
                return Ok(());
            }
            self.comment()?;
        }
    }

    fn document(&mut self) -> Result<()> {
        loop {
            self.space()?;
            match self.peek()? {
                None => return Ok(()),
                Some('[') => self.header()?,
                Some(_) => {
                    let outer = self.tables.len();
                    self.entry()?;
                    self.tables.truncate(outer);
                    self.key.clear();
                }
            }
            self.blanks()?;
            match self.take()? {
                None => return Ok(()),
                Some('#') => self.comment()?,
                Some(char) if is_break(char) => {}
                Some(other) => {
                    return self.wrong(
                        Some(other),
                        format_args!(
                            "expected a top-level item to end with a newline, comment, or EOF, but got {} instead",
                            strconv::quote_char(other)
                        ),
                    );
                }
            }
        }
    }

    /// `[a.b]` or `[[a.b]]`
    fn header(&mut self) -> Result<()> {
        self.take()?;
        let is_array = self.take_if('[')?;
        let mut name = Vec::new();
        loop {
            self.blanks()?;
            match self.peek()? {
                None | Some(']') => {
                    return self.wrong(
                        Some(']'),
                        "unexpected end of table name (table names cannot be empty)",
                    );
                }
                Some('.') => {
                    return self.wrong(
                        Some('.'),
                        "unexpected table separator (table names cannot be empty)",
                    );
                }
                Some(_) => self.part(&mut name)?,
            }
            self.blanks()?;
            match self.take()? {
                Some('.') => {}
                Some(']') => break,
                other => {
                    let got = strconv::quote_char(other.unwrap_or('\0'));
                    return self.wrong(
                        other,
                        format_args!(
                            "expected '.' or ']' to end table name, but got {got} instead"
                        ),
                    );
                }
            }
        }
        if is_array {
            let next = self.take()?;
            if next != Some(']') {
                let got = strconv::quote_char(next.unwrap_or('\0'));
                return self.wrong(
                    next,
                    format_args!(
                        "expected end of table array name delimiter ']', but got {got} instead"
                    ),
                );
            }
        }
        self.enter(&name, is_array)?;
        self.lists.remove(&self.tables);
        Ok(())
    }

    /// One part of a name.
    fn part(&mut self, name: &mut Vec<String>) -> Result<()> {
        let part = match self.peek()? {
            Some('"' | '\'') => {
                let quoted = self.string(false)?;
                self.unescaped(&quoted)?
            }
            _ => self.take_all(is_bare)?.to_owned(),
        };
        if name.is_empty() {
            self.named = self.at;
        }
        name.push(part);
        if self.tables.len() + name.len() > DEEPEST {
            return self.wrong_name(format_args!("exceeded max depth of {DEEPEST}"));
        }
        Ok(())
    }

    /// `a.b = value`: the tables of the name are entered. The value, with the parts of the name.
    fn entry(&mut self) -> Result<(Vec<String>, Value)> {
        self.blanks()?;
        match self.peek()? {
            None | Some('=') => {
                return self.wrong(Some('='), "unexpected '=': key name appears blank");
            }
            Some('.') => {
                return self.wrong(Some('.'), "unexpected '.': keys cannot start with a '.'");
            }
            Some(_) => {}
        }
        let mut name = Vec::new();
        loop {
            self.blanks()?;
            match self.peek()? {
                None | Some('=') => return self.wrong(Some('='), "unexpected '='"),
                Some('.') => return self.wrong(Some('.'), "unexpected '.'"),
                Some(_) => self.part(&mut name)?,
            }
            self.blanks()?;
            match self.take()? {
                Some('.') => {}
                Some('=') => break,
                None => {
                    return self.wrong(None, "unexpected EOF; expected key separator '='");
                }
                Some(other) => {
                    let got = strconv::quote_char(other);
                    let what = format!("expected '.' or '=', but got {got} instead");
                    return if other == '\n' {
                        self.wrong_above(what)
                    } else {
                        self.wrong(Some(other), what)
                    };
                }
            }
        }
        let (own, above) = name
            .split_last()
            .map_or_else(Default::default, |(own, above)| (own.clone(), above.to_vec()));
        self.key = own.clone();
        for part in above {
            let mut table = self.tables.clone();
            table.push(part);
            self.implied.insert(table.clone());
            self.enter(&table, false)?;
        }
        let value = self.value()?;
        let is_list = matches!(value, Value::List(_));
        self.set(own, Node::Value(value.clone()))?;
        self.mark_list(is_list);
        Ok((name, value))
    }

    /// Whether the value of the present key is a list.
    fn mark_list(&mut self, is_list: bool) {
        let mut path = self.tables.clone();
        if !self.key.is_empty() {
            path.push(self.key.clone());
        }
        if is_list {
            self.lists.insert(path);
        } else {
            self.lists.remove(&path);
        }
    }

    /// Makes a table the one that keys belong to.
    fn enter(&mut self, name: &[String], is_array: bool) -> Result<()> {
        let Some((own, above)) = name.split_last() else { return Ok(()) };
        for length in 1..=above.len() {
            let path = above.get(..length).unwrap_or_default();
            let (last, outer) =
                path.split_last().map_or(("", path), |(last, outer)| (last.as_str(), outer));
            let Ok(table) = open(&mut self.root, outer) else { break };
            if !table.contains_key(last) {
                table.insert(last.to_owned(), Node::Table(Table::new()));
                self.implied.insert(path.to_vec());
            }
        }
        let table = match open(&mut self.root, above) {
            Ok(table) => table,
            Err(length) => {
                let path = joined(above.get(..length).unwrap_or_default());
                return self
                    .wrong_name(format_args!("Key '{path}' was already created as a hash."));
            }
        };
        if is_array {
            let node = table.entry(own.clone()).or_insert_with(|| Node::Tables(Vec::new()));
            let is_used = match node {
                Node::Tables(tables) => {
                    tables.push(Table::new());
                    false
                }
                _ => true,
            };
            self.tables = above.to_vec();
            if is_used {
                return self.wrong_name(format_args!(
                    "Key '{}' was already created and cannot be used as an array.",
                    joined(name)
                ));
            }
        } else {
            self.tables = above.to_vec();
            self.set(own.clone(), Node::Table(Table::new()))?;
        }
        self.tables.push(own.clone());
        Ok(())
    }

    /// Gives a key of the present table a value.
    fn set(&mut self, key: String, node: Node) -> Result<()> {
        let at = match open(&mut self.root, &self.tables) {
            Ok(table) => table,
            Err(length) => {
                let path = joined(self.tables.get(..length).unwrap_or_default());
                return self.wrong_name(format_args!("Key '{path}' has already been defined."));
            }
        };
        match at.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(node);
            }
            Entry::Occupied(mut entry) => {
                let mut path = self.tables.clone();
                path.push(entry.key().clone());
                let was_implied = self.implied.remove(&path);
                if self.lists.contains(&path) {
                    entry.insert(node);
                } else if !was_implied {
                    let path = joined(&path);
                    return self.wrong_name(format_args!("Key '{path}' has already been defined."));
                }
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value> {
        self.blanks()?;
        let start = self.at;
        match self.peek()? {
            Some('[') => self.nested(|reader| reader.list()),
            Some('{') => self.nested(|reader| reader.inline(false)),
            Some('"' | '\'') => {
                let quoted = self.string(true)?;
                Ok(self.unescaped(&quoted)?.into())
            }
            Some('-' | '+') => self.signed(),
            Some(digit) if digit.is_ascii_digit() => self.number(),
            Some('.') => {
                self.take()?;
                self.wrong(Some('.'), "floats must start with a digit, not '.'")
            }
            Some(letter) if letter.is_alphabetic() => self.word(start),
            other => {
                self.take()?;
                let Some(other) = other else {
                    return self.wrong(None, "unexpected EOF; expected value");
                };
                let what =
                    format!("expected value but found {} instead", strconv::quote_char(other));
                if other == '\n' { self.wrong_above(what) } else { self.wrong(Some(other), what) }
            }
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value>) -> Result<Value> {
        self.take()?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.wrong(Some('['), format_args!("exceeded max depth of {DEEPEST}"));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn list(&mut self) -> Result<Value> {
        self.mark_list(true);
        let mut items = Vec::new();
        loop {
            self.space()?;
            match self.peek()? {
                Some(']') => break,
                Some(',') => {
                    self.take()?;
                    return self.wrong(Some(','), "unexpected comma");
                }
                // A table in a list is one more of the tables of its key.
                Some('{') => items.push(self.nested(|reader| reader.inline(true))?),
                _ => items.push(self.value()?),
            }
            self.space()?;
            match self.take()? {
                Some(',') => {}
                Some(']') => return Ok(List::new(items).into()),
                other => {
                    let got = or_end(other);
                    return self.wrong(
                        other,
                        format_args!(
                            "expected a comma (',') or array terminator (']'), but got {got}"
                        ),
                    );
                }
            }
        }
        self.take()?;
        Ok(List::new(items).into())
    }

    fn inline(&mut self, in_list: bool) -> Result<Value> {
        const BREAK: &str = "newlines not allowed within inline tables";
        let (outer, outer_key) = (self.tables.clone(), std::mem::take(&mut self.key));
        let mut own = outer.clone();
        own.push(outer_key.clone());
        self.tables.clone_from(&own);
        if own.len() > DEEPEST {
            return self.wrong_name(format_args!("exceeded max depth of {DEEPEST}"));
        }
        self.implied.insert(own.clone());
        self.enter(&own, in_list)?;
        let mut table = Table::new();
        let mut is_first = true;
        loop {
            self.blanks()?;
            match self.peek()? {
                Some(char) if is_break(char) => {
                    self.take()?;
                    return self.wrong_above(BREAK);
                }
                Some('#') => {
                    self.comment()?;
                    continue;
                }
                Some(',') => {
                    self.take()?;
                    return self.wrong(Some(','), "unexpected comma");
                }
                Some('}') if is_first => {
                    self.take()?;
                    break;
                }
                Some('}') => {
                    return self.wrong(Some('}'), "trailing comma not allowed in inline tables");
                }
                _ => {}
            }
            is_first = false;
            let (name, value) = self.entry()?;
            self.add(&mut table, &name, value)?;
            self.tables.clone_from(&own);
            if self.is_last()? {
                break;
            }
        }
        self.tables = outer;
        self.key = outer_key;
        Ok(map(table).into())
    }

    /// What follows an entry of an inline table: whether it is its end.
    fn is_last(&mut self) -> Result<bool> {
        loop {
            self.blanks()?;
            match self.take()? {
                Some(char) if is_break(char) => {
                    return self.wrong_above("newlines not allowed within inline tables");
                }
                Some('#') => self.comment()?,
                Some(',') => return Ok(false),
                Some('}') => return Ok(true),
                other => {
                    let got = or_end(other);
                    return self.wrong(
                        other,
                        format_args!(
                            "expected a comma or an inline table terminator '}}', but got {got} instead"
                        ),
                    );
                }
            }
        }
    }

    /// Adds an entry to the value of an inline table.
    fn add(&self, table: &mut Table, name: &[String], value: Value) -> Result<()> {
        let Some((own, above)) = name.split_last() else { return Ok(()) };
        let mut at = table;
        for part in above {
            let node = at.entry(part.clone()).or_insert_with(|| Node::Table(Table::new()));
            let Node::Table(below) = node else {
                let tables = strconv::quote(&joined(&self.tables));
                return self.wrong_name(format_args!("{tables} is not a table"));
            };
            at = below;
        }
        at.insert(own.clone(), Node::Value(value));
        Ok(())
    }
}

impl Node {
    /// The table that keys below it belong to.
    fn open(&mut self) -> Option<&mut Table> {
        match self {
            Self::Value(_) => None,
            Self::Table(table) => Some(table),
            Self::Tables(tables) => tables.last_mut(),
        }
    }
}

/// The table of a name. `Err`: the length of the name of what is none.
fn open<'n>(root: &'n mut Table, name: &[String]) -> std::result::Result<&'n mut Table, usize> {
    name.iter().enumerate().try_fold(root, |table, (index, part)| {
        table.get_mut(part).and_then(Node::open).ok_or(index + 1)
    })
}

fn map(table: Table) -> Map {
    let value = |node| match node {
        Node::Value(value) => value,
        Node::Table(table) => map(table).into(),
        Node::Tables(tables) => {
            List::of(&Type::MAP, tables.into_iter().map(|table| map(table).into()).collect()).into()
        }
    };
    table.into_iter().map(|(key, node)| (Str::from(key), value(node))).collect()
}

fn joined(name: &[String]) -> String {
    name.iter().map(|part| key_text(part)).collect::<Vec<_>>().join(".")
}

fn or_end(next: Option<char>) -> String {
    next.map_or_else(|| "end of file".to_owned(), |char| format!("'{char}'"))
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

fn is_break(char: char) -> bool {
    matches!(char, '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_json;

    #[test]
    fn texts_become_values() {
        for (text, want) in [
            ("", r#"{}"#),
            ("a = 1 # c\n[b.c]\nd = 'x'\n", r#"{"a":1,"b":{"c":{"d":"x"}}}"#),
            (
                "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = [1, # c\n 2,]",
                r#"{"a":[{"b":1},{"c":{"d":[1,2]}}]}"#,
            ),
            ("a.b = 1\na.c = {d.e = 1, f = []}", r#"{"a":{"b":1,"c":{"d":{"e":1},"f":[]}}}"#),
            ("[a.b]\n[a]\nc = 1", r#"{"a":{"b":{},"c":1}}"#),
            ("a = \"\\u00e9\\t\"\nb = \"\"\"\nx\\\n   y\"\"\"\"\"", r#"{"a":"é\t","b":"xy\"\""}"#),
            ("a = 0x1F\nb = 1_000\nc = -1.5e1\nd = +1", r#"{"a":31,"b":1000,"c":-15.0,"d":1}"#),
            ("a = 1979-05-27 07:32:00z", r#"{"a":"1979-05-27T07:32:00Z"}"#),
            (
                "a = 07:32:00\nb = 1979-05-27",
                r#"{"a":"0000-01-01T07:32:00Z","b":"1979-05-27T00:00:00Z"}"#,
            ),
            ("a = [{x = 1}, {x = 2}]", r#"{"a":[{"x":1},{"x":2}]}"#),
            // A list may be replaced, and a table of a longer name be named once.
            ("a = [1]\na = 2", r#"{"a":2}"#),
        ] {
            let read = read(text).map(|map| to_json(&map.into()).unwrap().to_string());
            assert_eq!(read.map_err(|error| error.to_string()), Ok(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn mistakes_are_worded_as_helms_reader_does() {
        for (text, want) in [
            ("x", "line 1: unexpected EOF; expected key separator '='"),
            ("x\ny=1", "line 1: expected '.' or '=', but got '\\n' instead"),
            ("a: 1", "line 1: expected '.' or '=', but got ':' instead"),
            ("# c\n[x]\na b", "line 3 (last key \"x\"): expected '.' or '=', but got 'b' instead"),
            ("a =", "line 1 (last key \"a\"): unexpected EOF; expected value"),
            ("a = yes", "line 1 (last key \"a\"): expected value but found \"yes\" instead"),
            ("= 1", "line 1: unexpected '=': key name appears blank"),
            ("a = 1\na = 2", "line 2 (last key \"a\"): Key 'a' has already been defined."),
            ("[a]\n[a]", "line 2: Key 'a' has already been defined."),
            ("a = 1\n[[a]]", "line 2: Key 'a' was already created and cannot be used as an array."),
            ("a = 1\n[a.b]", "line 2: Key 'a' was already created as a hash."),
            (
                "a = {x = 1,}",
                "line 1 (last key \"a.x\"): trailing comma not allowed in inline tables",
            ),
            (
                "a = 1 b",
                "line 1: expected a top-level item to end with a newline, comment, or EOF, but got 'b' instead",
            ),
            (
                "a = 01",
                "line 1 (last key \"a\"): Invalid integer \"01\": cannot have leading zeroes",
            ),
            (
                "a = 1_",
                "line 1 (last key \"a\"): Invalid integer \"1_\": underscores must be surrounded by digits",
            ),
            (
                "a = 1.",
                "line 1 (last key \"a\"): Invalid float \"1.\": '.' must be followed by one or more digits",
            ),
            ("a = \"x\n", "line 1 (last key \"a\"): strings cannot contain newlines"),
            ("a = \"\\q\"", "line 1 (last key \"a\"): invalid escape in string '\\q'"),
            (
                "a = [1 2]",
                "line 1 (last key \"a\"): expected a comma (',') or array terminator (']'), but got '2'",
            ),
            ("a = 2020-13-01", "line 1 (last key \"a\"): invalid datetime: \"2020-13-01\""),
            (
                "a = \u{1}",
                "line 1 (last key \"a\"): TOML files cannot contain control characters: '0x01'",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert_eq!(error, format!("toml: {want}"), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for text in [
            format!("a = {}", "[".repeat(100_000)),
            format!("a = {}", "{b = ".repeat(100_000)),
            "a.".repeat(100_000),
            format!("[{}", "a.".repeat(100_000)),
        ] {
            assert!(
                read(&text).unwrap_err().to_string().contains("exceeded max depth"),
                "{text:.10}"
            );
        }
    }
}
