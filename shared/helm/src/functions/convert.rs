//! Values of templates as text and numbers, and their copies, by the rules of `fmt`, `cast` and `reflect`.

use gotemplate::{Failure, List, Map, Str, Type, Underlying, Value};
use vela_gocompat::strconv;

use super::table::{Result, nil_pointer};
use crate::engine::state::State;
use crate::json::DEEPEST;
use crate::objects;

/// A value as `%v` prints it.
pub(super) fn display(state: &mut State, value: &Value) -> Result<Str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Ok(gotemplate::print(std::slice::from_ref(other), state)?.into()),
    }
}

/// A value as text: texts and bytes are themselves, others as `%v` prints them.
pub(super) fn strval(state: &mut State, value: &Value) -> Result<Str> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => display(state, other),
    }
}

/// A list, text or scalar as texts; what is nil in a list is left out.
pub(super) fn strings(state: &mut State, value: &Value) -> Result<Vec<Str>> {
    match value.underlying() {
        Value::NoValue | Value::Nil => Ok(Vec::new()),
        Value::List(list) => {
            let items = list.as_slice().iter().filter(|item| !item.is_nothing());
            items.map(|item| strval(state, item)).collect()
        }
        Value::Bytes(bytes) => {
            Ok(bytes.as_bytes().iter().map(|byte| Str::from(byte.to_string())).collect())
        }
        other => Ok(vec![strval(state, &other)?]),
    }
}

/// `cast.ToInt64`.
pub(super) fn to_int(value: &Value) -> i64 {
    match value.underlying() {
        Value::Int(_, int) => int,
        Value::Uint(_, uint) => uint as i64,
        Value::Float(float) => float_to_int(float),
        Value::Bool(bool) => i64::from(bool),
        Value::String(text) => int_of_text(&text.to_str_lossy()),
        _ => 0,
    }
}

/// As the processor does it: what does not fit is the lowest number.
fn float_to_int(float: f64) -> i64 {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    if (-EDGE..EDGE).contains(&float) { float as i64 } else { i64::MIN }
}

fn int_of_text(text: &str) -> i64 {
    // `5.000` is an integer, `5.5` is not.
    let text = match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => {
            whole
        }
        _ => text,
    };
    strconv::parse_int(text, 0, 64).unwrap_or_default()
}

/// `cast.ToFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value.underlying() {
        Value::Int(_, int) => int as f64,
        Value::Uint(_, uint) => uint as f64,
        Value::Float(float) => float,
        Value::Bool(bool) => f64::from(u8::from(bool)),
        Value::String(text) => {
            let text = text.to_str_lossy();
            strconv::parse_float(&text).ok().or_else(|| hex_float(&text)).unwrap_or_default()
        }
        _ => 0.0,
    }
}

/// `0x1.8p3`: the mantissa's digits fit 64 bits, which is all that its 53 bits of precision need.
fn hex_float(text: &str) -> Option<f64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let rest = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"))?;
    let (mantissa, exponent) = rest.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mantissa = u64::from_str_radix(&digits, 16).ok()?;
    let exponent: i32 = exponent.parse().ok()?;
    let exponent = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(sign * mantissa as f64 * f64::powi(2.0, exponent))
}

/// The elements of a list; of another value what Go's reflection says about it.
pub(super) fn items(value: &Value, cannot: &str) -> Result<Vec<Value>> {
    match value.underlying() {
        Value::NoValue | Value::Nil => Err(nil_pointer()),
        Value::List(list) => Ok(list.as_slice().to_vec()),
        Value::Bytes(bytes) => {
            let byte = |byte: &u8| Value::Uint(gotemplate::Uint::Uint8, u64::from(*byte));
            Ok(bytes.as_bytes().iter().map(byte).collect())
        }
        other => Err(Failure::text(format!("{cannot} {}", other.kind()))),
    }
}

/// A list with the element type of another one.
pub(super) fn list_like(like: &Value, items: Vec<Value>) -> Value {
    match like.underlying().type_of() {
        Some(Type::List(element)) => Value::List(List::of(element, items)),
        _ => Value::List(List::new(items)),
    }
}

/// `map[string]string`
pub(super) fn string_map(entries: impl IntoIterator<Item = (Str, Str)>) -> Value {
    let entries = entries.into_iter().map(|(key, text)| (key, Value::String(text)));
    Value::Map(Map::of(&Type::String, entries.collect()))
}

/// `reflect.DeepEqual`.
pub(super) fn deep_equal(a: &Value, b: &Value) -> bool {
    equal_at(a, b, 0)
}

fn equal_at(a: &Value, b: &Value, depth: usize) -> bool {
    if a.type_of() != b.type_of() || depth > DEEPEST {
        return false;
    }
    match (a, b) {
        (Value::NoValue | Value::Nil, Value::NoValue | Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(_, a), Value::Int(_, b)) => a == b,
        (Value::Uint(_, a), Value::Uint(_, b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::String(a) | Value::Bytes(a), Value::String(b) | Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            let items = a.as_slice().iter().zip(b.as_slice());
            a.same(b)
                || (a.is_nil() == b.is_nil() && a.len() == b.len() && { items }
                    .all(|(a, b)| equal_at(a, b, depth + 1)))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.same(b)
                || (a.is_nil() == b.is_nil()
                    && a.len() == b.len()
                    && a.read(|a| {
                        b.read(|b| {
                            a.iter().zip(b.iter()).all(|((left, a), (right, b))| {
                                left == right && equal_at(a, b, depth + 1)
                            })
                        })
                    }))
        }
        (Value::Object(left), Value::Object(right)) => {
            match (left.underlying(), right.underlying()) {
                (Underlying::Value(a), Underlying::Value(b)) => equal_at(&a, &b, depth + 1),
                _ => objects::json(a).is_some_and(|json| Some(json) == objects::json(b)),
            }
        }
        _ => false,
    }
}

/// A copy that shares no map with the value.
pub(super) fn deep_copy(value: &Value) -> Value {
    copy_at(value, 0)
}

fn copy_at(value: &Value, depth: usize) -> Value {
    if depth > DEEPEST {
        return value.clone();
    }
    match value {
        Value::List(list) if !list.is_nil() => {
            let items = list.as_slice().iter().map(|item| copy_at(item, depth + 1)).collect();
            list_like(value, items)
        }
        Value::Map(map) if !map.is_nil() => {
            let entry = |(key, value): (&Str, &Value)| (key.clone(), copy_at(value, depth + 1));
            let entries = map.read(|entries| entries.iter().map(entry).collect());
            match map.type_of() {
                Type::Map(element) => Value::Map(Map::of(element, entries)),
                _ => Value::Map(Map::new(entries)),
            }
        }
        Value::Object(_) => match objects::values(value) {
            Some(map) => {
                let copy = copy_at(&Value::Map(map), depth + 1);
                match copy {
                    Value::Map(map) => objects::values_of(map),
                    other => other,
                }
            }
            // The fields of a version are private: its copy has none of them.
            None if value.downcast_ref::<objects::SemanticVersion>().is_some() => {
                objects::SemanticVersion::zero().into()
            }
            None => value.clone(),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_converted_as_cast_does() {
        for (value, int, float) in [
            (Value::from("0x1f"), 31, 0.0),
            (Value::from("0644"), 420, 644.0),
            (Value::from("08"), 0, 8.0),
            (Value::from("5.000"), 5, 5.0),
            (Value::from("5.5"), 0, 5.5),
            (Value::from("0x1p4"), 0, 16.0),
            (Value::from("12abc"), 0, 0.0),
            (Value::from(-1.9), -1, -1.9),
            (Value::from(1e19), i64::MIN, 1e19),
            (Value::from(true), 1, 1.0),
            (Value::Nil, 0, 0.0),
        ] {
            assert_eq!((to_int(&value), to_float(&value)), (int, float), "{value:?}");
        }
    }
}
