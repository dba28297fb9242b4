//! Data from whatever serde reads, straight into the arenas.
//!
//! Parameters and contexts come as JSON. Read into a tree first, each value would be allocated
//! twice; here a visitor puts it where the evaluation has it, as serde meets it.

use super::data::{Data, DataId, Val};
use super::state::Machine;
use crate::decimal::Decimal;
use crate::label::Label;
use crate::value::{Number, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Adds one value.
pub(crate) struct DataSeed<'m, 'a>(pub(crate) &'m mut Machine<'a>);

impl<'de> DeserializeSeed<'de> for DataSeed<'_, '_> {
    type Value = DataId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DataId, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DataSeed<'_, '_> {
    type Value = DataId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data")
    }

    fn visit_unit<E>(self) -> Result<DataId, E> {
        Ok(self.0.push_data(Data::Val(Val::Null)))
    }

    fn visit_bool<E>(self, b: bool) -> Result<DataId, E> {
        Ok(self.0.push_data(Data::Val(Val::Bool(b))))
    }

    fn visit_i64<E>(self, i: i64) -> Result<DataId, E> {
        Ok(self.0.push_data(Data::Val(Val::Int(i))))
    }

    fn visit_u64<E>(self, u: u64) -> Result<DataId, E> {
        match i64::try_from(u) {
            Ok(i) => Ok(self.0.push_data(Data::Val(Val::Int(i)))),
            // Beyond an `i64` a number keeps its digits as a decimal.
            Err(_) => Ok(self.0.add_data(&Value::from(serde_json::Value::from(u)))),
        }
    }

    fn visit_f64<E>(self, f: f64) -> Result<DataId, E> {
        Ok(self.0.add_data(&Value::from(serde_json::Value::from(f))))
    }

    fn visit_str<E>(self, s: &str) -> Result<DataId, E> {
        Ok(self.0.push_data(Data::Val(Val::Str(s.into()))))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<DataId, E> {
        Ok(self.0.push_data(Data::Val(Val::Bytes(bytes.into()))))
    }

    /// The text of a number that no machine word holds: it has no form of its own in serde.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, text: D) -> Result<DataId, D::Error> {
        text.deserialize_str(NumberSeed(self.0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<DataId, A::Error> {
        let m = self.0;
        // Nested values put items on the same stack: see [`Machine::close_items`].
        let mark = m.s.open_items.len();
        let mut index = 0;
        while let Some(id) = access.next_element_seed(DataSeed(m))? {
            m.s.open_items.push((Label::int(index), id));
            index += 1;
        }
        let (start, len) = m.close_items(mark);
        Ok(m.push_data(Data::List(start, len)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<DataId, A::Error> {
        let m = self.0;
        let mark = m.s.open_items.len();
        while let Some(label) = access.next_key_seed(LabelSeed(m))? {
            let id = access.next_value_seed(DataSeed(m))?;
            m.s.open_items.push((label, id));
        }
        let (start, len) = m.close_items(mark);
        Ok(m.push_data(Data::Struct(start, len)))
    }
}

struct NumberSeed<'m, 'a>(&'m mut Machine<'a>);

impl Visitor<'_> for NumberSeed<'_, '_> {
    type Value = DataId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DataId, E> {
        let decimal = Decimal::parse(text).map_err(|_| E::custom("this is not a number"))?;
        let is_int = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'));
        let number = if is_int { Number::int(decimal) } else { Number::float(decimal) };
        Ok(self.0.push_data(Data::Val(Val::from_number(number))))
    }
}

/// Finds or makes the label of a field.
struct LabelSeed<'m, 'a>(&'m mut Machine<'a>);

impl<'de> DeserializeSeed<'de> for LabelSeed<'_, '_> {
    type Value = Label;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Label, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for LabelSeed<'_, '_> {
    type Value = Label;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Label, E> {
        Ok(self.0.string_label(name))
    }
}
