//! Building blocks of the package tables: constructors of members, typed access to arguments.
//!
//! The evaluator has checked the kinds of arguments before a call; what is checked here again is
//! only what keeps a wrong table from panicking, and ranges that kinds do not express.

use num_bigint::BigInt;

use super::{Builtin, BuiltinError, Item, Lazy, Member, Param, Run};
use crate::decimal::{Decimal, DecimalError};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::{Number, Value};

/// What a function returns.
pub(super) type Out = Result<Value, BuiltinError>;
/// A function over concrete values.
pub(super) type Pure = fn(&[Value], &mut Budget) -> Out;

pub(super) const fn func(
    name: &'static str,
    params: &'static [Param],
    result: Kind,
    run: Pure,
) -> Member {
    Member { name, item: Item::Func(Builtin { params, result, run: Run::Pure(run) }) }
}

pub(super) const fn lazy(
    name: &'static str,
    params: &'static [Param],
    result: Kind,
    run: Lazy,
) -> Member {
    Member { name, item: Item::Func(Builtin { params, result, run: Run::Lazy(run) }) }
}

pub(super) const fn constant(name: &'static str, text: &'static str) -> Member {
    Member { name, item: Item::Cue(text) }
}

pub(super) fn fail<T>(message: impl Into<String>) -> Result<T, BuiltinError> {
    Err(BuiltinError::new(message))
}

fn mismatch<T>(args: &[Value], i: usize, want: &str) -> Result<T, BuiltinError> {
    match args.get(i) {
        Some(v) => fail(format!(
            "cannot use value {} (type {}) as {want} in argument {}",
            short(v),
            v.kind(),
            i + 1
        )),
        None => fail(format!("not enough arguments (have {}, want {})", args.len(), i + 1)),
    }
}

/// A value for a message.
pub(super) fn short(value: &Value) -> String {
    let text = match value {
        Value::List(l) if l.len() > 20 => return format!("[... {} elements]", l.len()),
        Value::Struct(s) if s.len() > 20 => return format!("{{... {} fields}}", s.len()),
        Value::String(s) => vela_gocompat::strconv::quote(s.get(..120).unwrap_or(s)),
        other => other.to_json_text(),
    };
    if text.len() <= 200 {
        return text;
    }
    let end = (0..=200).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// The text of a string.
pub(super) fn text(args: &[Value], i: usize) -> Result<&str, BuiltinError> {
    match args.get(i).and_then(Value::as_str) {
        Some(s) => Ok(s),
        None => mismatch(args, i, "string"),
    }
}

/// The bytes of a string or bytes value.
pub(super) fn bytes(args: &[Value], i: usize) -> Result<&[u8], BuiltinError> {
    match args.get(i).and_then(Value::as_bytes) {
        Some(b) => Ok(b),
        None => mismatch(args, i, "bytes"),
    }
}

/// A bool.
pub(super) fn boolean(args: &[Value], i: usize) -> Result<bool, BuiltinError> {
    match args.get(i).and_then(Value::as_bool) {
        Some(b) => Ok(b),
        None => mismatch(args, i, "bool"),
    }
}

/// An int that fits 64 bits.
pub(super) fn int(args: &[Value], i: usize) -> Result<i64, BuiltinError> {
    int_of(args, i, "int", i64::MIN, i64::MAX)
}

/// An int within bounds; `name` is Go's name of the type.
pub(super) fn int_of(
    args: &[Value],
    i: usize,
    name: &str,
    low: i64,
    high: i64,
) -> Result<i64, BuiltinError> {
    let Some(Value::Number(n)) = args.get(i) else {
        return mismatch(args, i, "int");
    };
    if !n.is_int() {
        return mismatch(args, i, "int");
    }
    if let Some(n) = n.as_i64()
        && (low..=high).contains(&n)
    {
        return Ok(n);
    }
    if low >= 0 && n.to_decimal().is_negative() {
        return fail(format!("cannot use {n} (type int) as {name} in argument {i}"));
    }
    fail(format!("int {n} overflows {name} in argument {i}"))
}

/// Any number as a decimal.
pub(super) fn decimal(args: &[Value], i: usize) -> Result<Decimal, BuiltinError> {
    match args.get(i).and_then(Value::as_number) {
        Some(n) => Ok(n.to_decimal()),
        None => mismatch(args, i, "number"),
    }
}

/// An int of any size.
pub(super) fn bigint(args: &[Value], i: usize) -> Result<BigInt, BuiltinError> {
    match decimal(args, i)?.to_bigint() {
        Some(n) => Ok(n),
        None => mismatch(args, i, "int"),
    }
}

/// A number as a 64-bit float.
pub(super) fn float(args: &[Value], i: usize) -> Result<f64, BuiltinError> {
    let d = decimal(args, i)?;
    let f = d.to_f64();
    if f.is_finite() {
        return Ok(f);
    }
    fail(format!("cannot use {d} (type float) as float64 in argument {i}: value was rounded up"))
}

/// The elements of a list.
pub(super) fn list(args: &[Value], i: usize) -> Result<&[Value], BuiltinError> {
    match args.get(i).and_then(Value::as_list) {
        Some(l) => Ok(l),
        None => mismatch(args, i, "list"),
    }
}

/// The elements of a list of strings.
pub(super) fn strings(args: &[Value], i: usize) -> Result<Vec<&str>, BuiltinError> {
    let elements = list(args, i)?;
    let mut texts = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        match element.as_str() {
            Some(s) => texts.push(s),
            None => {
                return fail(format!(
                    "invalid list element {at} in argument {i} to call: cannot use value {} ({}) as string",
                    short(element),
                    element.kind()
                ));
            }
        }
    }
    Ok(texts)
}

/// The elements of a list of numbers.
pub(super) fn decimals(args: &[Value], i: usize) -> Result<Vec<Decimal>, BuiltinError> {
    let elements = list(args, i)?;
    let mut numbers = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        match element.as_number() {
            Some(n) => numbers.push(n.to_decimal()),
            None => {
                return fail(format!(
                    "invalid list element {at} in argument {i} to call: cannot use value {} ({}) as number",
                    short(element),
                    element.kind()
                ));
            }
        }
    }
    Ok(numbers)
}

/// A string result, counted.
pub(super) fn string(text: impl Into<String>, budget: &mut Budget) -> Out {
    let text = text.into();
    budget.string(text.len() as u64)?;
    Ok(Value::from(text))
}

/// A bytes result, counted.
pub(super) fn byte_string(bytes: &[u8], budget: &mut Budget) -> Out {
    budget.string(bytes.len() as u64)?;
    Ok(Value::Bytes(bytes.into()))
}

/// A list of strings, counted.
pub(super) fn string_list<'a>(texts: impl Iterator<Item = &'a str>, budget: &mut Budget) -> Out {
    let mut elements = Vec::new();
    for text in texts {
        budget.string(text.len() as u64)?;
        elements.push(Value::from(text));
        if elements.len() as u64 > budget.limits().list {
            return Err(budget.cross(LimitError::List).into());
        }
    }
    budget.list(elements.len() as u64)?;
    Ok(Value::List(elements))
}

/// A decimal result of the reference: an int if whole, else a float.
pub(super) fn number(n: Decimal) -> Value {
    if !n.is_integral() {
        return Value::Number(Number::float(n));
    }
    // `8.0` is given back as `8`; a positive exponent stays.
    let whole = if n.exponent() < 0 {
        n.to_bigint().and_then(|i| Decimal::new(i, 0).ok()).unwrap_or(n)
    } else {
        n
    };
    Value::Number(Number::int(whole))
}

/// An int result of any size.
pub(super) fn big(n: BigInt) -> Out {
    Ok(Value::Number(Number::int(Decimal::new(n, 0)?)))
}

/// A 64-bit float result; always a float.
pub(super) fn float_value(f: f64) -> Out {
    match Decimal::from_f64(f) {
        Some(d) => Ok(Value::Number(Number::float(d))),
        None => fail(format!("result is not a number: {f}")),
    }
}

impl From<DecimalError> for BuiltinError {
    fn from(e: DecimalError) -> Self {
        if e.is_limit() { Self::Limit(LimitError::Number) } else { Self::new(e.to_string()) }
    }
}
