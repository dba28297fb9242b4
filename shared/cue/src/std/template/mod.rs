//! Package `text/template`: Go's templates over concrete data.
//!
//! Everything of the template language except what needs Go methods or functions as values: text,
//! actions, pipelines, variables, `if`, `with`, `range`, `define`, `template`, `block`, `break`,
//! `continue`, comments, trim marks, and the predefined functions but `call`.

mod exec;
mod format;
mod parse;

use super::args::{fail, func, string, text};
use super::{Member, Param, html};
use crate::kind::Kind;
use crate::value::Value;

const ONE: &[Param] = &[Param::STRING];

pub(super) static PACKAGE: &[Member] = &[
    func("Execute", &[Param::STRING, Param::ANY], Kind::STRING, |a, b| {
        let source = text(a, 0)?;
        b.steps(source.len() as u64)?;
        let template = match parse::parse(source) {
            Ok(template) => template,
            Err(e) => return fail(format!("template: :{}: {}", e.line, e.message)),
        };
        let out = exec::execute(&template, a.get(1).unwrap_or(&Value::Null), b)?;
        string(out, b)
    }),
    func("HTMLEscape", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 5)?;
        string(html::escape(text(a, 0)?), b)
    }),
    func("JSEscape", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 6)?;
        string(format::js(text(a, 0)?), b)
    }),
];

#[cfg(test)]
mod tests;
