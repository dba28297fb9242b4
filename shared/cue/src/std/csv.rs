//! Package `encoding/csv`: RFC 4180 as Go reads and writes it.

use super::args::{Out, bytes, fail, func, list, string};
use super::{BuiltinError, Member, Param, json};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

pub(super) static PACKAGE: &[Member] = &[
    func("Encode", &[Param::LIST], Kind::STRING, encode),
    func("Decode", &[Param::BYTES], Kind::LIST, decode),
];

fn encode(args: &[Value], budget: &mut Budget) -> Out {
    let mut out = String::new();
    for record in list(args, 0)? {
        let Some(fields) = record.as_list() else {
            return fail(format!(
                "cannot use value {} (type {}) as list",
                super::args::short(record),
                record.kind()
            ));
        };
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            match field.as_str() {
                Some(text) => write(text, &mut out),
                None => {
                    let mut text = String::new();
                    json::write(field, &mut text, budget)?;
                    write(&text, &mut out);
                }
            }
            budget.steps(1)?;
            if out.len() as u64 > budget.limits().string {
                return Err(budget.cross(LimitError::String).into());
            }
        }
        out.push('\n');
    }
    string(out, budget)
}

fn write(field: &str, out: &mut String) {
    let quoted = field == r"\."
        || field.contains([',', '"', '\r', '\n'])
        || field.starts_with(char::is_whitespace);
    if !quoted {
        out.push_str(field);
        return;
    }
    out.push('"');
    out.push_str(&field.replace('"', "\"\""));
    out.push('"');
}

/// Position in the text, for messages.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// The next character; a line ends with `\n` or `\r\n`.
    fn next(&mut self) -> Option<char> {
        if let Some(rest) = self.rest.strip_prefix("\r\n") {
            self.rest = rest;
            self.line += 1;
            self.column = 1;
            return Some('\n');
        }
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += c.len_utf8();
        }
        Some(c)
    }

    fn parse_error<T>(&self, start: usize, why: &str) -> Result<T, BuiltinError> {
        if start == self.line {
            return fail(format!(
                "parse error on line {}, column {}: {why}",
                self.line, self.column
            ));
        }
        fail(format!(
            "record on line {start}; parse error on line {}, column {}: {why}",
            self.line, self.column
        ))
    }

    fn ends_line(&self) -> bool {
        self.rest.starts_with('\n') || self.rest.starts_with("\r\n") || self.rest.is_empty()
    }

    /// A field; true if another follows on the record.
    fn field(&mut self, start: usize) -> Result<(String, bool), BuiltinError> {
        let mut field = String::new();
        if self.peek() == Some('"') {
            self.next();
            loop {
                match self.next() {
                    Some('"') if self.peek() == Some('"') => {
                        self.next();
                        field.push('"');
                    }
                    Some('"') => break,
                    Some(c) => field.push(c),
                    None => {
                        return self.parse_error(start, "extraneous or missing \" in quoted-field");
                    }
                }
            }
            if self.ends_line() {
                self.next();
                return Ok((field, false));
            }
            if self.peek() == Some(',') {
                self.next();
                return Ok((field, true));
            }
            return self.parse_error(start, "extraneous or missing \" in quoted-field");
        }
        loop {
            if self.ends_line() {
                self.next();
                return Ok((field, false));
            }
            match self.peek() {
                Some(',') => {
                    self.next();
                    return Ok((field, true));
                }
                Some('"') => {
                    return self.parse_error(start, "bare \" in non-quoted field");
                }
                _ => field.extend(self.next()),
            }
        }
    }
}

fn decode(args: &[Value], budget: &mut Budget) -> Out {
    let text = String::from_utf8_lossy(bytes(args, 0)?);
    let mut reader = Reader { rest: &text, line: 1, column: 1 };
    let mut records: Vec<Value> = Vec::new();
    let mut width = None;
    while !reader.rest.is_empty() {
        // Empty lines are no records.
        if reader.ends_line() {
            reader.next();
            continue;
        }
        let start = reader.line;
        budget.collection()?;
        let mut fields = Vec::new();
        loop {
            let (field, more) = reader.field(start)?;
            fields.push(string(field, budget)?);
            budget.list(1)?;
            if !more {
                break;
            }
        }
        if *width.get_or_insert(fields.len()) != fields.len() {
            return fail(format!("record on line {start}: wrong number of fields"));
        }
        records.push(Value::List(fields));
        budget.list(1)?;
    }
    Ok(Value::List(records))
}
