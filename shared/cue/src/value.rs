//! Concrete values: what goes into an evaluation as data and comes out as a result.

use crate::decimal::Decimal;
use crate::kind::Kind;
use ecow::EcoString;
use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use vela_gocompat::json::{Escapes, push_text};

/// Fields of a struct, in order.
pub type Fields = IndexMap<EcoString, Value, rustc_hash::FxBuildHasher>;

/// A concrete value. Structs keep the order of their fields, numbers all their digits.
///
/// ```
/// use cue::Value;
///
/// let value: Value = [("name", Value::from("web")), ("ports", vec![Value::from(80)].into())]
///     .into_iter()
///     .collect();
/// assert_eq!(value.to_json_text(), r#"{"name":"web","ports":[80]}"#);
/// assert_eq!(value.get("name").and_then(Value::as_str), Some("web"));
///
/// let same: Value = serde_json::json!({"ports": [80], "name": "web"}).into();
/// assert_eq!(value, same);
/// assert_ne!(Value::from(1), serde_json::json!(1.0).into());
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An int or a float.
    Number(Number),
    /// Text.
    String(EcoString),
    /// Bytes; JSON gets them as base64.
    Bytes(Arc<[u8]>),
    /// `[...]`
    List(Vec<Self>),
    /// `{...}`, in the order in which its fields came.
    Struct(Fields),
}

/// A number: an arbitrary-precision decimal that knows whether it is an int or a float.
#[derive(Clone)]
pub struct Number(Repr);

#[derive(Clone)]
enum Repr {
    Int(i64),
    Decimal { value: Arc<Decimal>, int: bool },
}

impl Number {
    /// A decimal as an int. Its value must be integral.
    #[must_use]
    pub fn int(value: Decimal) -> Self {
        match value.to_i64() {
            Some(i) => Self(Repr::Int(i)),
            None => Self(Repr::Decimal { value: Arc::new(value), int: true }),
        }
    }

    /// A decimal as a float, also if its value is integral.
    #[must_use]
    pub fn float(value: Decimal) -> Self {
        Self(Repr::Decimal { value: Arc::new(value), int: false })
    }

    /// Whether it is an int (a float with an integral value is not).
    #[must_use]
    pub fn is_int(&self) -> bool {
        !matches!(self.0, Repr::Decimal { int: false, .. })
    }

    /// [`Kind::INT`] or [`Kind::FLOAT`].
    #[must_use]
    pub fn kind(&self) -> Kind {
        if self.is_int() { Kind::INT } else { Kind::FLOAT }
    }

    /// The value, if it is an int that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Int(i) => Some(*i),
            Repr::Decimal { value, int: true } => value.to_i64(),
            Repr::Decimal { .. } => None,
        }
    }

    /// The decimal behind it.
    #[must_use]
    pub fn to_decimal(&self) -> Decimal {
        match &self.0 {
            Repr::Int(i) => Decimal::from(*i),
            Repr::Decimal { value, .. } => Decimal::clone(value),
        }
    }

    /// Words of 64 bits that its digits take.
    #[must_use]
    pub fn words(&self) -> u64 {
        match &self.0 {
            Repr::Int(_) => 1,
            Repr::Decimal { value, .. } => value.words(),
        }
    }

    /// As [`words`](Self::words), with the zeros that an exponent stands for written out.
    #[must_use]
    pub fn whole_words(&self) -> u64 {
        match &self.0 {
            Repr::Int(_) => 1,
            Repr::Decimal { value, .. } => value.whole_words(),
        }
    }

    /// The nearest binary float.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            #[allow(clippy::cast_precision_loss, reason = "nearest is what is asked for")]
            Repr::Int(i) => *i as f64,
            Repr::Decimal { value, .. } => value.to_f64(),
        }
    }

    /// Numerical comparison, ignoring int and float.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a.cmp(b),
            (Repr::Decimal { value: a, .. }, Repr::Decimal { value: b, .. }) => a.cmp(b),
            _ => self.to_decimal().cmp(&other.to_decimal()),
        }
    }

    /// The text of the number in JSON: all digits, a valid JSON number.
    #[must_use]
    pub fn to_json(&self) -> String {
        // `1.` and `.5` are not written by Decimal; "1E+2" is valid JSON.
        self.to_string()
    }
}

impl From<i64> for Number {
    fn from(i: i64) -> Self {
        Self(Repr::Int(i))
    }
}

/// Equal kind and value: `1` and `1.0` are different values.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Int(a), Repr::Int(b)) => a == b,
            _ => self.is_int() == other.is_int() && self.compare(other) == Ordering::Equal,
        }
    }
}

impl Eq for Number {}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Int(i) => fmt::Display::fmt(i, f),
            Repr::Decimal { value, .. } => fmt::Display::fmt(value, f),
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value {
    /// `{}`
    #[must_use]
    pub fn empty_struct() -> Self {
        Self::Struct(Fields::default())
    }

    /// The kind of the value, a single bit.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::NULL,
            Self::Bool(_) => Kind::BOOL,
            Self::Number(n) => n.kind(),
            Self::String(_) => Kind::STRING,
            Self::Bytes(_) => Kind::BYTES,
            Self::List(_) => Kind::LIST,
            Self::Struct(_) => Kind::STRUCT,
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The bytes of a string or bytes value.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(s) => Some(s.as_bytes()),
            Self::Bytes(b) => Some(b),
            _ => None,
        }
    }

    /// The value of a bool.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The value of an int that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The number that this is, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(n) => Some(n),
            _ => None,
        }
    }

    /// Bytes that the value takes, also those of text that it shares with others.
    #[must_use]
    pub fn size(&self) -> u64 {
        let own = size_of::<Self>() as u64;
        own + match self {
            Self::Null | Self::Bool(_) => 0,
            Self::Number(n) => match n.words() {
                1 => 0,
                words => words * 8 + 64,
            },
            Self::String(s) => s.len() as u64,
            Self::Bytes(b) => b.len() as u64,
            Self::List(l) => l.iter().map(Self::size).sum(),
            // Besides key and value an entry takes its hash and a place in a table.
            Self::Struct(s) => {
                s.iter().map(|(k, v)| k.len() as u64 + v.size() + 48).sum::<u64>() + 64
            }
        }
    }

    /// The elements of a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(l) => Some(l),
            _ => None,
        }
    }

    /// The fields of a struct.
    #[must_use]
    pub fn as_struct(&self) -> Option<&Fields> {
        match self {
            Self::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// A field of a struct.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Self> {
        self.as_struct()?.get(field)
    }

    /// As JSON. Bytes become base64; numbers beyond 64 bits lose digits (JSON text made by
    /// [`to_json_text`](Self::to_json_text) keeps them).
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Null => Json::Null,
            Self::Bool(b) => Json::Bool(*b),
            Self::Number(n) => match n.as_i64() {
                Some(i) => Json::from(i),
                None => n
                    .to_string()
                    .parse::<u64>()
                    .map(Json::from)
                    .or_else(|_| {
                        serde_json::Number::from_f64(n.to_f64()).map(Json::Number).ok_or(())
                    })
                    .unwrap_or(Json::Null),
            },
            Self::String(s) => Json::String(s.as_str().into()),
            Self::Bytes(b) => Json::String(base64_text(b)),
            Self::List(l) => Json::Array(l.iter().map(Self::to_json).collect()),
            Self::Struct(s) => {
                Json::Object(s.iter().map(|(k, v)| (k.as_str().to_owned(), v.to_json())).collect())
            }
        }
    }

    /// As JSON text with the order of fields and all digits of numbers kept.
    #[must_use]
    pub fn to_json_text(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    /// Nothing is allocated on the way: a controller writes every object it renders.
    fn write_json(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(n) => {
                // Writing to a string never fails.
                let _ = write!(out, "{n}");
            }
            Self::String(s) => push_text(out, s, Escapes::Least),
            Self::Bytes(b) => push_text(out, &base64_text(b), Escapes::Least),
            Self::List(l) => {
                out.push('[');
                for (i, v) in l.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    v.write_json(out);
                }
                out.push(']');
            }
            Self::Struct(s) => {
                out.push('{');
                for (i, (k, v)) in s.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    push_text(out, k, Escapes::Least);
                    out.push(':');
                    v.write_json(out);
                }
                out.push('}');
            }
        }
    }
}

fn base64_text(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Equality of data: field order does not matter, `1` and `1.0` differ.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Struct(a), Self::Struct(b)) => a == b,
            _ => false,
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Number(i.into())
    }
}

impl From<Number> for Value {
    fn from(n: Number) -> Self {
        Self::Number(n)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::String(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::String(s.into())
    }
}

impl From<EcoString> for Value {
    fn from(s: EcoString) -> Self {
        Self::String(s)
    }
}

impl From<Vec<Self>> for Value {
    fn from(l: Vec<Self>) -> Self {
        Self::List(l)
    }
}

impl<K: Into<EcoString>> FromIterator<(K, Self)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, Self)>>(iter: I) -> Self {
        Self::Struct(iter.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(*b),
            Json::Number(n) => match n.as_i64() {
                Some(i) => Self::from(i),
                None => from_digits(&n.to_string(), n.is_u64()),
            },
            Json::String(s) => Self::String(s.as_str().into()),
            Json::Array(l) => Self::List(l.iter().map(Self::from).collect()),
            Json::Object(o) => {
                Self::Struct(o.iter().map(|(k, v)| (k.as_str().into(), Self::from(v))).collect())
            }
        }
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        Self::from(&json)
    }
}

fn from_digits(text: &str, int: bool) -> Value {
    match Decimal::parse(text) {
        Ok(d) if int => Value::Number(Number::int(d)),
        Ok(d) => Value::Number(Number::float(d)),
        Err(_) => Value::Null,
    }
}

/// From JSON text and the like, without a tree in between; fields keep their order.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Value, E> {
        Ok(Value::from(i))
    }

    fn visit_u64<E>(self, u: u64) -> Result<Value, E> {
        Ok(i64::try_from(u).map_or_else(|_| from_digits(&u.to_string(), true), Value::from))
    }

    fn visit_f64<E>(self, f: f64) -> Result<Value, E> {
        Ok(Value::from(serde_json::Value::from(f)))
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::from(s))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element()? {
            list.push(element);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Fields::default();
        while let Some((key, value)) = access.next_entry::<EcoString, Value>()? {
            fields.insert(key, value);
        }
        Ok(Value::Struct(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trip_keeps_order_and_kind() {
        let json: serde_json::Value =
            serde_json::from_str(r#"{"b":[1,2.5,null,true,"x\n"],"a":{}}"#).unwrap();
        let value = Value::from(&json);
        assert_eq!(value.to_json(), json);
        assert_eq!(value.get("b").unwrap().as_list().unwrap()[1].kind(), Kind::FLOAT);
        let text = r#"{"b":[1,2.5,null,true,"x\ny"],"a":{},"c":18446744073709551615}"#;
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read.to_json_text(), text);
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read, Value::from(&json));
        let ordered: Value = [("b", Value::from(1)), ("a", Value::from("x"))].into_iter().collect();
        assert_eq!(ordered.to_json_text(), r#"{"b":1,"a":"x"}"#);
    }
}
