//! Package `text/template`: Go's templates over concrete data.
//!
//! The language is that of the crate `gotemplate`. Data is what Go decodes a CUE value to: ints are
//! `int64`, floats `float64`, numbers beyond them `*big.Int` and `*big.Float`, structs maps.

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use gotemplate::{
    Depth, Error, Executor, Functions, Meter, Object, Stop, Templates, Type, Underlying,
};
use num_bigint::BigInt;

use super::args::{fail, func, string, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::{Number, Value};

const ONE: &[Param] = &[Param::STRING];

/// An evaluation may be deep in its stack already when it comes to a template.
const DEPTH: Depth = Depth { templates: 100, stack: 512 << 10 };

pub(super) static PACKAGE: &[Member] = &[
    func("Execute", &[Param::STRING, Param::ANY], Kind::STRING, |a, b| {
        let held = b.held();
        let out = execute(text(a, 0)?, a.get(1).unwrap_or(&Value::Null), b);
        b.release(held);
        string(out?, b)
    }),
    func("HTMLEscape", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 5)?;
        string(utf8(gotemplate::html_escape(text(a, 0)?.as_bytes())), b)
    }),
    func("JSEscape", ONE, Kind::STRING, |a, b| {
        b.string(text(a, 0)?.len() as u64 * 6)?;
        string(utf8(gotemplate::js_escape(text(a, 0)?.as_bytes())), b)
    }),
];

/// Strings of CUE are UTF-8.
fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn execute(source: &str, data: &Value, budget: &mut Budget) -> Result<String, BuiltinError> {
    budget.steps(source.len() as u64)?;
    // The tree takes more than its text, the converted data more than the data.
    budget.bytes(4 * source.len() as u64 + 4 * data.size())?;
    budget.steps(data.size() >> 5)?;
    let mut templates = Templates::new("", Arc::new(Functions::new([])));
    if let Err(error) = templates.parse("", source) {
        return fail(error.to_string());
    }
    let mut executor = Executor::new(Arc::new(templates), budget).depth(DEPTH);
    match executor.execute("", convert(data)) {
        Ok(out) => Ok(utf8(out)),
        Err(Error::Stop(stop)) => match stop.reason::<LimitError>() {
            Some(limit) => Err((*limit).into()),
            None => fail(stop.to_string()),
        },
        Err(error) => fail(error.to_string()),
    }
}

/// What a template makes is freed with the call; that it is counted as if it were not bounds what
/// a template can make in all.
impl Meter for Budget {
    fn steps(&mut self, steps: u64) -> Result<(), Stop> {
        Self::steps(self, steps).map_err(Stop::new)
    }

    fn room(&mut self, bytes: u64) -> Result<(), Stop> {
        self.bytes(bytes).map_err(Stop::new)
    }
}

fn convert(value: &Value) -> gotemplate::Value {
    use gotemplate::Value as Go;
    match value {
        Value::Null => Go::Nil,
        Value::Bool(value) => Go::Bool(*value),
        Value::Number(number) => convert_number(number),
        Value::String(text) => Go::String(text.clone().into()),
        Value::Bytes(bytes) => Go::Bytes((**bytes).into()),
        Value::List(elements) => {
            Go::List(gotemplate::List::new(elements.iter().map(convert).collect()))
        }
        Value::Struct(fields) => {
            let entries = fields.iter().map(|(name, value)| (name.clone().into(), convert(value)));
            Go::Map(entries.collect())
        }
    }
}

fn convert_number(number: &Number) -> gotemplate::Value {
    use gotemplate::Value as Go;
    if let Some(int) = number.as_i64() {
        return Go::int64(int);
    }
    let decimal = number.to_decimal();
    if number.is_int() {
        return Go::Object(Rc::new(Large::Int(decimal.to_bigint().unwrap_or_default())));
    }
    let float = number.to_f64();
    if float.is_finite() && (float != 0.0 || decimal.is_zero()) {
        return Go::Float(float);
    }
    Go::Object(Rc::new(Large::Float(decimal.to_string().to_ascii_lowercase())))
}

/// A number that Go's own types do not hold.
#[derive(Debug)]
enum Large {
    Int(BigInt),
    /// Its text.
    Float(String),
}

impl Object for Large {
    fn type_of(&self) -> Type {
        Type::Named(match self {
            Self::Int(_) => "*big.Int",
            Self::Float(_) => "*big.Float",
        })
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Int(int) => int.to_string(),
            Self::Float(text) => text.clone(),
        })
    }

    fn format(&self, verb: char) -> Option<String> {
        match (self, verb) {
            (_, 'v') => self.text(),
            (Self::Int(int), 'd' | 's') => Some(int.to_string()),
            (Self::Int(int), 'x') => Some(int.to_str_radix(16)),
            (Self::Int(int), 'X') => Some(int.to_str_radix(16).to_ascii_uppercase()),
            (Self::Int(int), 'o') => Some(int.to_str_radix(8)),
            (Self::Int(int), 'b') => Some(int.to_str_radix(2)),
            (Self::Float(text), 'g') => Some(text.clone()),
            _ => None,
        }
    }
}
