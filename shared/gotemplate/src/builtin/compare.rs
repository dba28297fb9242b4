//! `eq`, `lt` and the others: values of one kind, and integers of any sign.

use std::cmp::Ordering;

use crate::error::Failure;
use crate::fmt;
use crate::meter::Meter;
use crate::types::Kind;
use crate::value::Value;

/// The kinds that can be compared with each other.
enum Basic<'a> {
    Bool(bool),
    Int(i128),
    Float(f64),
    String(&'a [u8]),
}

fn basic(value: &Value) -> Option<Basic<'_>> {
    Some(match value {
        Value::Bool(value) => Basic::Bool(*value),
        Value::Int(_, value) => Basic::Int(i128::from(*value)),
        Value::Uint(_, value) => Basic::Int(i128::from(*value)),
        Value::Float(value) => Basic::Float(*value),
        Value::String(text) => Basic::String(text.as_bytes()),
        _ => return None,
    })
}

fn types(a: &Value, b: &Value) -> Failure {
    let name = |value: &Value| value.type_of().map_or_else(String::new, |of| of.to_string());
    Failure::text(format!("incompatible types for comparison: {} and {}", name(a), name(b)))
}

const NO_ORDER: &str = "invalid type for comparison";

/// Whether a value equals one of the others.
pub(super) fn equal(
    value: &Value,
    others: &[Value],
    meter: &mut dyn Meter,
) -> Result<bool, Failure> {
    if others.is_empty() {
        return Err(Failure::text("missing argument for comparison"));
    }
    let plain = value.underlying();
    for other in others {
        let other_plain = other.underlying();
        let equal = match (basic(&plain), basic(&other_plain)) {
            (Some(Basic::Bool(a)), Some(Basic::Bool(b))) => a == b,
            (Some(Basic::Int(a)), Some(Basic::Int(b))) => a == b,
            (Some(Basic::Float(a)), Some(Basic::Float(b))) => a == b,
            (Some(Basic::String(a)), Some(Basic::String(b))) => a == b,
            (None, None) => without_order(value, other, meter)?,
            _ if value.is_nothing() || other.is_nothing() => false,
            _ => return Err(types(value, other)),
        };
        if equal {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists, maps, objects, and nothing.
fn without_order(a: &Value, b: &Value, meter: &mut dyn Meter) -> Result<bool, Failure> {
    let (kind, other) = (a.kind(), b.kind());
    if kind != other && kind != Kind::Invalid && other != Kind::Invalid {
        let mut text = |value, verb| fmt::reflected(value, verb, &mut *meter);
        let (a_text, b_text) = (text(a, 's')?, text(b, 'v')?);
        let name = |value: &Value| value.type_of().map_or_else(String::new, |of| of.to_string());
        let (a, b) = (name(a), name(b));
        return Err(Failure::text(format!("non-comparable types {a_text}: {a}, {b}: {b_text}")));
    }
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) && is_nil(b));
    }
    let equal = match (a, b) {
        (Value::Object(a), Value::Object(b)) => a.equals(&**b),
        _ => None,
    };
    match equal {
        Some(equal) => Ok(equal),
        None => {
            let text = fmt::reflected(b, 's', meter)?;
            let of = b.type_of().map_or_else(String::new, |of| of.to_string());
            Err(Failure::text(format!("non-comparable type {text}: {of}")))
        }
    }
}

fn is_nil(value: &Value) -> bool {
    match value.underlying() {
        Value::NoValue | Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

/// The order of two values; `None` if one is not a number.
fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Failure> {
    let (a_plain, b_plain) = (a.underlying(), b.underlying());
    let (Some(x), Some(y)) = (basic(&a_plain), basic(&b_plain)) else {
        return Err(Failure::text(NO_ORDER));
    };
    match (x, y) {
        (Basic::Int(x), Basic::Int(y)) => Ok(Some(x.cmp(&y))),
        (Basic::Float(x), Basic::Float(y)) => Ok(x.partial_cmp(&y)),
        (Basic::String(x), Basic::String(y)) => Ok(Some(x.cmp(y))),
        (Basic::Bool(_), Basic::Bool(_)) => Err(Failure::text(NO_ORDER)),
        _ => Err(types(a, b)),
    }
}

pub(super) fn less(a: &Value, b: &Value) -> Result<bool, Failure> {
    Ok(order(a, b)? == Some(Ordering::Less))
}

pub(super) fn less_or_equal(a: &Value, b: &Value, meter: &mut dyn Meter) -> Result<bool, Failure> {
    Ok(less(a, b)? || equal(a, std::slice::from_ref(b), meter)?)
}
