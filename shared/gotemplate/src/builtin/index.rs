//! `len`, `index` and `slice`.

use crate::error::Failure;
use crate::meter::Meter;
use crate::object::Underlying;
use crate::text::Str;
use crate::types::{Type, Uint};
use crate::value::Value;

fn type_name(value: &Value) -> String {
    value.type_of().map_or_else(String::new, |of| of.to_string())
}

pub(super) fn length(value: &Value) -> Result<Value, Failure> {
    let length = match value.underlying() {
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Nil => return Err(Failure::text("len of nil pointer")),
        // What Go's reflection says of no value.
        Value::NoValue => {
            return Err(Failure::text("reflect: call of reflect.Value.Type on zero Value"));
        }
        _ => return Err(Failure::text(format!("len of type {}", dereferenced(value)))),
    };
    Ok(Value::int(length as i64))
}

/// An index up to `most`.
fn position(index: &Value, most: usize) -> Result<usize, Failure> {
    let number = match index.underlying() {
        Value::Int(_, number) => number,
        Value::Uint(_, number) => number as i64,
        Value::NoValue => return Err(Failure::text("cannot index slice/array with nil")),
        _ => {
            let of = index.type_of().unwrap_or(Type::Any);
            return Err(Failure::text(format!("cannot index slice/array with type {of}")));
        }
    };
    usize::try_from(number)
        .ok()
        .filter(|number| *number <= most)
        .ok_or_else(|| Failure::text(format!("index out of range: {number}")))
}

/// What Go's reflection says of an index that is as large as the length.
fn beyond(kind: &str) -> Failure {
    Failure::text(format!("reflect: {kind} index out of range"))
}

pub(super) fn index(
    value: &Value,
    indexes: &[Value],
    meter: &mut dyn Meter,
) -> Result<Value, Failure> {
    if value.is_nothing() {
        return Err(Failure::text("index of untyped nil"));
    }
    let mut item = value.clone();
    for index in indexes {
        let index = if index.is_nothing() { &Value::NoValue } else { index };
        meter.steps(1)?;
        item = match item.underlying() {
            Value::NoValue | Value::Nil => return Err(Failure::text("index of nil pointer")),
            Value::String(text) | Value::Bytes(text) => {
                let byte = text.as_bytes().get(position(index, text.len())?).copied();
                let byte = byte.ok_or_else(|| match item {
                    Value::String(_) => beyond("string"),
                    _ => beyond("slice"),
                })?;
                Value::Uint(Uint::Uint8, u64::from(byte))
            }
            Value::List(list) => {
                let at = position(index, list.len())?;
                list.as_slice().get(at).cloned().ok_or_else(|| beyond("slice"))?
            }
            Value::Map(map) => match index.underlying() {
                Value::String(key) => {
                    map.get(key.as_bytes()).unwrap_or_else(|| Value::zero(map.element()))
                }
                Value::NoValue | Value::Nil => {
                    return Err(Failure::text("value is nil; should be of type string"));
                }
                _ => {
                    let of = type_name(index);
                    return Err(Failure::text(format!("value has type {of}; should be string")));
                }
            },
            _ => {
                let of = dereferenced(&item);
                return Err(Failure::text(format!("can't index item of type {of}")));
            }
        };
    }
    Ok(item)
}

/// The type of a value, or of what it points to.
fn dereferenced(value: &Value) -> String {
    let name = type_name(value);
    match value {
        Value::Object(object) => match object.underlying() {
            Underlying::Pointer => name.trim_start_matches('*').to_owned(),
            _ => name,
        },
        _ => name,
    }
}

/// Of the indexes only those are looked at that no interface holds: others arrive as nil.
pub(super) fn slice(
    value: &Value,
    indexes: &[Value],
    meter: &mut dyn Meter,
) -> Result<Value, Failure> {
    if value.is_nothing() {
        return Err(Failure::text("slice of untyped nil"));
    }
    if indexes.len() > 3 {
        return Err(Failure::text(format!("too many slice indexes: {}", indexes.len())));
    }
    let plain = value.underlying();
    let length = match &plain {
        Value::String(_) if indexes.len() == 3 => {
            return Err(Failure::text("cannot 3-index slice a string"));
        }
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        _ => {
            let of = dereferenced(value);
            return Err(Failure::text(format!("can't slice item of type {of}")));
        }
    };
    // A third index is a capacity, which nothing can see.
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [from, to, most] = bounds;
    if from > to {
        return Err(Failure::text(format!("invalid slice index: {from} > {to}")));
    }
    if to > most {
        return Err(Failure::text(format!("invalid slice index: {to} > {most}")));
    }
    let cut = |text: &Str| Str::from(text.as_bytes().get(from..to).unwrap_or_default());
    Ok(match &plain {
        Value::String(text) => {
            meter.room((to - from) as u64)?;
            Value::String(cut(text))
        }
        Value::Bytes(bytes) => {
            meter.room((to - from) as u64)?;
            Value::Bytes(cut(bytes))
        }
        Value::List(list) if list.is_nil() => plain,
        Value::List(list) => {
            meter.room(((to - from) * size_of::<Value>()) as u64)?;
            let items = list.as_slice().get(from..to).unwrap_or_default().to_vec();
            Value::List(list.like(items))
        }
        _ => plain,
    })
}
