//! Kubernetes' `DeepHashObject` over an unstructured object: go-spew's `%#v` form, hashed with
//! FNV-1a 32. Generated trait names end with it.
//!
//! Only what unstructured content can hold is written: maps, lists, strings, numbers, booleans and
//! nil. Map keys are sorted, and a value inside a map or list shows its type because it sits in an
//! interface there.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::fnv::{Fnv1a32, safe_encode};

/// The hash of an object as it appears at the end of generated names.
#[must_use]
pub fn name_hash(object: &Value) -> String {
    safe_encode(&deep_hash(object).to_string())
}

/// `DeepHashObject` with FNV-1a 32 of an `unstructured.Unstructured` with this content.
#[must_use]
pub fn deep_hash(object: &Value) -> u32 {
    let mut hasher = Hasher(Fnv1a32::default());
    // Writing into the hasher cannot fail.
    let _ = write_unstructured(&mut hasher, object);
    hasher.0.sum()
}

struct Hasher(Fnv1a32);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The text go-spew prints for the struct `unstructured.Unstructured{Object: object}`.
fn write_unstructured(out: &mut impl Write, object: &Value) -> fmt::Result {
    out.write_str("(unstructured.Unstructured){Object:(map[string]interface {})")?;
    match object {
        Value::Object(_) => write_content(out, object)?,
        _ => out.write_str("<nil>")?,
    }
    out.write_char('}')
}

fn write_typed(out: &mut impl Write, value: &Value) -> fmt::Result {
    out.write_str(match value {
        Value::Null => "(interface {})",
        Value::Bool(_) => "(bool)",
        Value::Number(number) if number.as_i64().is_some() => "(int64)",
        Value::Number(_) => "(float64)",
        Value::String(_) => "(string)",
        Value::Array(_) => "([]interface {})",
        Value::Object(_) => "(map[string]interface {})",
    })?;
    write_content(out, value)
}

fn write_content(out: &mut impl Write, value: &Value) -> fmt::Result {
    match value {
        Value::Null => out.write_str("<nil>"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => write!(out, "{value}"),
            (None, Some(value)) => write_float(out, value),
            (None, None) => out.write_str("<nil>"),
        },
        Value::String(text) => out.write_str(text),
        Value::Array(elements) => {
            out.write_char('[')?;
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.write_char(' ')?;
                }
                write_typed(out, element)?;
            }
            out.write_char(']')
        }
        Value::Object(entries) => {
            out.write_str("map[")?;
            // serde_json's map is sorted by the bytes of the keys, as go-spew sorts strings.
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.write_char(' ')?;
                }
                write!(out, "{key}:")?;
                write_typed(out, value)?;
            }
            out.write_char(']')
        }
    }
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 64)`: exponents below -4 and from 6 on.
/// (The 21 of `fmt`'s `%v` does not apply: go-spew calls `strconv` itself.)
fn write_float(out: &mut impl Write, value: f64) -> fmt::Result {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        write!(out, "{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        let mut out = String::new();
        write_unstructured(&mut out, value).expect("a string takes everything");
        out
    }

    /// Texts and sums printed by go-spew and Kubernetes' `DeepHashObject`.
    #[test]
    fn matches_go() {
        for (input, printed, sum) in [
            (json!({}), "map[]", 3798137876),
            (json!({"a": "b"}), "map[a:(string)b]", 1145275883),
            (
                json!({
                    "z": [1, "two", null, true, 2.5, {"x": {}}], "a b": "é", "n": null,
                    "big": 1e21, "small": 0.00001, "mid": 1e20, "neg": -1.5e-7, "e": []
                }),
                "map[a b:(string)é big:(float64)1e+21 e:([]interface {})[] mid:(float64)1e+20 \
                 n:(interface {})<nil> neg:(float64)-1.5e-07 small:(float64)1e-05 \
                 z:([]interface {})[(int64)1 (string)two (interface {})<nil> (bool)true \
                 (float64)2.5 (map[string]interface {})map[x:(map[string]interface {})map[]]]]",
                3467164826,
            ),
        ] {
            assert_eq!(
                text(&input),
                format!(
                    "(unstructured.Unstructured){{Object:(map[string]interface {{}}){printed}}}"
                )
            );
            assert_eq!(deep_hash(&input), sum);
        }
    }
}
