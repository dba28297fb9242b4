//! The keywords of a schema that constrain a value: its type, bounds, validators and formats.

use cue::{Kind, Shape, Value};
use serde_json::{Map, Value as Json, json};

use super::error::{Inexpressible, Result};
use crate::term::{Op, Test, kind_of};

/// The kinds that a shape allows.
pub(super) fn kind_of_shape(shape: &Shape) -> Kind {
    match shape {
        Shape::Data(value) => kind_of(value),
        Shape::Kinds(kind) => *kind,
        Shape::Bound("=~" | "!~", _) => Kind::STRING,
        Shape::Bound("!=", value) => kind_of(value),
        Shape::Bound(_, Value::Number(_)) => Kind::NUMBER,
        Shape::Bound(_, value) => kind_of(value),
        Shape::Call(package, ..) => match package.as_str() {
            "strings" => Kind::STRING,
            "list" => Kind::LIST,
            "struct" => Kind::STRUCT,
            "math" => Kind::NUMBER,
            _ => Kind::TOP,
        },
        Shape::All(shapes) => shapes.iter().fold(Kind::TOP, |k, s| k & kind_of_shape(s)),
        Shape::Any(alternatives) => {
            alternatives.iter().fold(Kind::BOTTOM, |k, (_, s)| k | kind_of_shape(s))
        }
        Shape::Struct(_) => Kind::STRUCT,
        Shape::List(_) => Kind::LIST,
        Shape::Error(_) => Kind::TOP,
    }
}

/// The type of OpenAPI for a kind.
pub(super) fn type_word(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::BOOL => Some("boolean"),
        Kind::INT => Some("integer"),
        Kind::FLOAT | Kind::NUMBER => Some("number"),
        Kind::STRING | Kind::BYTES => Some("string"),
        Kind::LIST => Some("array"),
        Kind::STRUCT => Some("object"),
        _ => None,
    }
}

fn test(op: &str, value: &Value) -> Option<Test> {
    Some(match (op, value) {
        ("=~", Value::String(pattern)) => Test::Match(true, pattern.clone()),
        ("!~", Value::String(pattern)) => Test::Match(false, pattern.clone()),
        ("<", value) => Test::Bound(Op::Less, value.clone()),
        ("<=", value) => Test::Bound(Op::LessEqual, value.clone()),
        (">", value) => Test::Bound(Op::Greater, value.clone()),
        (">=", value) => Test::Bound(Op::GreaterEqual, value.clone()),
        ("!=", value) => Test::Bound(Op::NotEqual, value.clone()),
        _ => return None,
    })
}

/// Whether a shape allows a value.
pub(super) fn accepts(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::Kinds(kind) => kind.contains(kind_of(value)),
        Shape::Bound(op, operand) => test(op, operand).is_some_and(|t| t.accepts(value)),
        Shape::All(shapes) => shapes.iter().all(|s| accepts(s, value)),
        Shape::Any(alternatives) => alternatives.iter().any(|(_, s)| accepts(s, value)),
        _ => false,
    }
}

/// The keyword of a bound such as `>=1`.
pub(super) fn bound(out: &mut Map<String, Json>, op: &str, value: &Value) -> Result<()> {
    let json = value.to_json();
    match (op, value) {
        (">=", Value::Number(_)) => {
            out.insert("minimum".into(), json);
        }
        (">", Value::Number(_)) => {
            out.insert("minimum".into(), json);
            out.insert("exclusiveMinimum".into(), true.into());
        }
        ("<=", Value::Number(_)) => {
            out.insert("maximum".into(), json);
        }
        ("<", Value::Number(_)) => {
            out.insert("maximum".into(), json);
            out.insert("exclusiveMaximum".into(), true.into());
        }
        ("=~", _) => {
            out.insert("pattern".into(), json);
        }
        ("!~", _) => {
            out.insert("not".into(), json!({ "pattern": json }));
        }
        _ => {
            let word = type_word(kind_of(value)).unwrap_or("any");
            return Err(Inexpressible::Operator(op.to_owned(), word));
        }
    }
    Ok(())
}

/// The keyword of a validator such as `strings.MinRunes(1)`; most have none.
pub(super) fn call(out: &mut Map<String, Json>, package: &str, name: &str, args: &[Value]) {
    let key = match (package, name) {
        ("strings", "MinRunes") => "minLength",
        ("strings", "MaxRunes") => "maxLength",
        ("list", "MinItems") => "minItems",
        ("list", "MaxItems") => "maxItems",
        ("list", "UniqueItems") => {
            out.insert("uniqueItems".into(), true.into());
            return;
        }
        ("struct", "MinFields") => "minProperties",
        ("struct", "MaxFields") => "maxProperties",
        ("math", "MultipleOf") => "multipleOf",
        _ => return,
    };
    if let Some(argument) = args.first() {
        out.insert(key.into(), argument.to_json());
    }
}

/// `int32` and `int64` are formats, not bounds.
pub(super) fn int_format(shapes: &[Shape]) -> Option<&'static str> {
    let mut low = None;
    let mut high = None;
    for shape in shapes {
        match shape {
            Shape::Kinds(kind) if *kind == Kind::INT => {}
            Shape::Bound(">=", Value::Number(n)) => low = n.as_i64(),
            Shape::Bound("<=", Value::Number(n)) => high = n.as_i64(),
            _ => return None,
        }
    }
    match (low?, high?) {
        (low, high) if low == i64::from(i32::MIN) && high == i64::from(i32::MAX) => Some("int32"),
        (i64::MIN, i64::MAX) => Some("int64"),
        _ => None,
    }
}
