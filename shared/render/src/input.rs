//! Inputs of templates, read by the evaluator in place, without an intermediate copy.

use crate::json;
use crate::term::{Term, default_of};
use cue::{Fields, Value};
use serde::de::value::Error;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A value in the form in which it is at hand. Structs appear with their fields in alphabetical
/// order, as the reference's, which come from JSON; those of a [`Value`] as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    Text(&'a str),
    Int(i64),
    /// Numbers as the reference has them: see [`json::canonical`].
    Json(&'a Json),
    Strings(&'a BTreeMap<String, String>),
    /// A term that is concrete: what is not becomes `null`.
    Term(&'a Term),
    Value(&'a Value),
    /// Fields in alphabetical order.
    Struct(&'a [(&'a str, Self)]),
}

impl Input<'_> {
    /// The value.
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Int(int) => int.into(),
            Self::Json(json) => json::canonical(json),
            Self::Strings(strings) => {
                let fields = strings.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into()));
                Value::Struct(fields.collect())
            }
            Self::Term(term) => term.export().map_or(Value::Null, json::sorted),
            Self::Value(value) => value.clone(),
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, input)| ((*name).into(), input.value()));
                Value::Struct(fields.collect::<Fields>())
            }
        }
    }
}

/// The fields of a struct or the elements of a list, one after the other.
struct Items<'a, I> {
    items: I,
    value: Option<Input<'a>>,
}

impl<'a, 'de, I: Iterator<Item = Input<'a>>> SeqAccess<'de> for Items<'a, I> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.items.next().map(|item| seed.deserialize(item)).transpose()
    }
}

impl<'a, 'de, I: Iterator<Item = (&'a str, Input<'a>)>> MapAccess<'de> for Items<'a, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.items.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Input::Text(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // A map is asked for the value of the key it has just given.
        seed.deserialize(self.value.take().unwrap_or(Input::Json(&Json::Null)))
    }
}

fn seq<'a, 'de, V: Visitor<'de>>(
    items: impl Iterator<Item = Input<'a>>,
    visitor: V,
) -> Result<V::Value, Error> {
    visitor.visit_seq(Items { items, value: None })
}

fn map<'a, 'de, V: Visitor<'de>>(
    items: impl Iterator<Item = (&'a str, Input<'a>)>,
    visitor: V,
) -> Result<V::Value, Error> {
    visitor.visit_map(Items { items, value: None })
}

fn scalar<'de, V: Visitor<'de>>(value: &Value, visitor: V) -> Result<V::Value, Error> {
    match value {
        Value::Null | Value::List(_) | Value::Struct(_) => visitor.visit_unit(),
        Value::Bool(bool) => visitor.visit_bool(*bool),
        Value::String(text) => visitor.visit_str(text),
        Value::Bytes(bytes) => visitor.visit_bytes(bytes),
        Value::Number(number) => match number.as_i64().filter(|_| number.is_int()) {
            Some(int) => visitor.visit_i64(int),
            // The evaluator takes the text of a number that no machine word holds.
            None => visitor.visit_newtype_struct(NumberText(&number.to_json())),
        },
    }
}

/// A number as text.
struct NumberText<'a>(&'a str);

impl<'de> Deserializer<'de> for NumberText<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de> Deserializer<'de> for Input<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Text(text) => visitor.visit_str(text),
            Self::Int(int) => visitor.visit_i64(int),
            Self::Json(Json::Null) => visitor.visit_unit(),
            Self::Json(Json::Bool(bool)) => visitor.visit_bool(*bool),
            Self::Json(json @ Json::Number(_)) => scalar(&json::canonical(json), visitor),
            Self::Json(Json::String(text)) => visitor.visit_str(text),
            Self::Json(Json::Array(items)) => seq(items.iter().map(Input::Json), visitor),
            // The maps of serde_json are in alphabetical order.
            Self::Json(Json::Object(fields)) => {
                map(fields.iter().map(|(k, v)| (k.as_str(), Input::Json(v))), visitor)
            }
            Self::Strings(strings) => {
                map(strings.iter().map(|(k, v)| (k.as_str(), Input::Text(v))), visitor)
            }
            Self::Struct(fields) => map(fields.iter().copied(), visitor),
            Self::Value(Value::List(items)) => seq(items.iter().map(Input::Value), visitor),
            Self::Value(Value::Struct(fields)) => {
                map(fields.iter().map(|(k, v)| (k.as_str(), Input::Value(v))), visitor)
            }
            Self::Value(value) | Self::Term(Term::Scalar(value)) => scalar(value, visitor),
            Self::Term(Term::List { items, .. }) => seq(items.iter().map(Input::Term), visitor),
            Self::Term(Term::Struct(fields)) => {
                let data = fields
                    .iter()
                    .filter(|(_, field)| field.is_data())
                    .map(|(label, field)| (label.as_str(), Input::Term(&field.term)));
                if fields.keys().is_sorted() {
                    return map(data, visitor);
                }
                let mut data: Vec<_> = data.collect();
                data.sort_unstable_by_key(|(label, _)| *label);
                map(data.into_iter(), visitor)
            }
            Self::Term(Term::Any(alternatives)) => match default_of(alternatives) {
                Some(term) => Input::Term(term).deserialize_any(visitor),
                None => visitor.visit_unit(),
            },
            Self::Term(_) => visitor.visit_unit(),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::Input;
    use crate::term::Term;
    use cue::{Limits, Packages, Program, Value};
    use serde_json::json;

    /// What the evaluator makes of an input is what [`Input::value`] is.
    #[test]
    fn is_read_in_place_as_it_is_as_a_value() {
        let json = json!({
            "b": [1, 8080.0, 1.5, -3, 1e21, 1e-7, 0.1, 9_007_199_254_740_993_u64, u64::MAX, 1e20],
            "a": {"x": null, "t": true, "s": "text", "e": [], "o": {}},
        });
        let program = Program::compile("t", "big: 123456789012345678901234567890\nbytes: 'x'\nf: 2.50\no: {z: *1 | int, y: 2, n?: int, #d: 1}", &Packages::std()).unwrap();
        let mut evaluation = program.evaluate(&[], &Limits::default());
        let root = evaluation.root();
        let value = evaluation.export(root).unwrap();
        let term = crate::convert::term(&mut evaluation, root);
        let strings = [("k".to_owned(), "v".to_owned())].into();
        let parts = [("one", Input::Json(&json)), ("two", Input::Strings(&strings))];
        for input in [
            Input::Json(&json),
            Input::Value(&value),
            Input::Term(&term),
            Input::Term(&Term::from_value(&value)),
            Input::Struct(&parts),
            Input::Text("x"),
            Input::Int(-7),
        ] {
            let program = Program::compile("t", "in: _", &Packages::std()).unwrap();
            let limits = Limits::default();
            let mut read = program.evaluate_from([("in", input)], &limits).unwrap();
            let given = input.value();
            let mut built = program.evaluate(&[("in", &given)], &limits);
            let root = read.root();
            let (read, built) = (read.export(root).unwrap(), built.export(root).unwrap());
            assert_eq!(read.to_json_text(), built.to_json_text());
            assert_eq!(format!("{read:?}"), format!("{built:?}"));
        }
        assert!(matches!(Input::Term(&Term::TOP).value(), Value::Null));
    }
}
