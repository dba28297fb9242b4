//! A value as YAML, without a value of JSON in between.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gotemplate::{Entries, Str, Underlying, Value};
use serde_json::Value as Json;
use vela_gocompat::{json as go, strconv, time};

use crate::engine::state::OverBudget;
use crate::json::{DEEPEST, JsonError, base64_of};
use crate::objects;
use crate::yaml::{Emitter, Layout, Place, natural};

/// Writes a value, without the line break at the end.
///
/// # Errors
/// A value that has no JSON, nests too deep, or whose text Helm's reader refuses.
pub(super) fn write(value: &Value, layout: Layout) -> Result<String, JsonError> {
    let mut writer = Writer { emitter: Emitter::new(layout), layout };
    writer.node(value, At { outer: None, place: Place::Root, depth: 0 })?;
    let mut text = writer.emitter.finish();
    // A text whose last line ends with a line break of Unicode has none behind it.
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// Where a node stands.
#[derive(Clone, Copy)]
struct At {
    /// The indentation of the collection around it.
    outer: Option<usize>,
    place: Place,
    depth: usize,
}

impl At {
    fn below(self, indent: usize, place: Place) -> Self {
        Self { outer: Some(indent), place, depth: self.depth + 1 }
    }
}

struct Writer {
    emitter: Emitter,
    layout: Layout,
}

impl Writer {
    fn node(&mut self, value: &Value, at: At) -> Result<(), JsonError> {
        if at.depth > DEEPEST {
            return Err(JsonError::Deep(OverBudget::Depth(DEEPEST)));
        }
        match value {
            Value::NoValue | Value::Nil => self.emitter.word("null", at.outer),
            Value::Bool(bool) => self.emitter.word(if *bool { "true" } else { "false" }, at.outer),
            Value::Int(_, int) => self.emitter.word(&int.to_string(), at.outer),
            Value::Uint(_, uint) => self.emitter.word(&uint.to_string(), at.outer),
            Value::Float(float) => {
                let word = number(*float, self.layout)?;
                self.emitter.word(&word, at.outer);
            }
            Value::String(text) => {
                let text = self.text(text.to_str_lossy())?;
                self.emitter.string(&text, at.outer);
            }
            Value::Bytes(bytes) if self.layout == Layout::Pretty => {
                self.numbers(bytes.as_bytes(), at);
            }
            Value::Bytes(bytes) => self.emitter.string(&base64_of(bytes.as_bytes()), at.outer),
            Value::List(list) if list.is_nil() && self.layout == Layout::Compact => {
                self.emitter.word("null", at.outer);
            }
            Value::List(list) if list.is_empty() => self.emitter.empty_list(),
            Value::List(list) => {
                let indent = self.emitter.list(at.outer, at.place);
                for item in list.as_slice() {
                    self.emitter.item(indent);
                    self.node(item, at.below(indent, Place::Item))?;
                }
            }
            Value::Map(map) if map.is_nil() && self.layout == Layout::Compact => {
                self.emitter.word("null", at.outer);
            }
            Value::Map(map) => return map.read(|entries| self.map(entries, at)),
            Value::Object(object) => {
                if self.layout == Layout::Pretty {
                    if let Some(at_time) = value.downcast_ref::<objects::Time>() {
                        self.emitter.word(&time::format(&at_time.0, time::RFC3339_NANO), at.outer);
                        return Ok(());
                    }
                    if let Some(fields) = objects::lower_case_fields(value) {
                        return self.fields(&fields, at);
                    }
                }
                if let Some(json) = objects::json(value) {
                    return self.json(json, at);
                }
                match object.underlying() {
                    Underlying::Value(value) => {
                        return self.node(&value, At { depth: at.depth + 1, ..at });
                    }
                    Underlying::Struct | Underlying::Pointer => {
                        let field = |name: &&str| {
                            (Str::from(*name), object.field(name).unwrap_or_default())
                        };
                        return self.map(&object.fields().iter().map(field).collect(), at);
                    }
                    Underlying::Func => return Err(JsonError::Kind(object.type_of().to_string())),
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, map: &Entries<Value>, at: At) -> Result<(), JsonError> {
        if map.is_empty() {
            self.emitter.empty_map();
            return Ok(());
        }
        let mut entries = Vec::with_capacity(map.len());
        let mut changed = false;
        for (key, value) in map.iter() {
            let text = self.text(key.to_str_lossy())?;
            changed |= matches!(text, Cow::Owned(_));
            entries.push((text, value));
        }
        if changed {
            // Several keys may have become one: the last counts.
            let unique: BTreeMap<_, _> = entries.into_iter().collect();
            entries = unique.into_iter().collect();
        }
        entries.sort_by(|(a, _), (b, _)| natural(a, b, self.layout));
        let indent = Emitter::map(at.outer);
        for (key, value) in entries {
            self.emitter.key(&key, indent);
            self.node(value, at.below(indent, Place::Value))?;
        }
        Ok(())
    }

    /// Bytes, each as a number.
    fn numbers(&mut self, bytes: &[u8], at: At) {
        if bytes.is_empty() {
            self.emitter.empty_list();
            return;
        }
        let indent = self.emitter.list(at.outer, at.place);
        for byte in bytes {
            self.emitter.item(indent);
            self.emitter.word(&byte.to_string(), Some(indent));
        }
    }

    /// The fields of a struct, in their order.
    fn fields(&mut self, fields: &[(String, Value)], at: At) -> Result<(), JsonError> {
        if fields.is_empty() {
            self.emitter.empty_map();
            return Ok(());
        }
        let indent = Emitter::map(at.outer);
        for (name, value) in fields {
            self.emitter.key(name, indent);
            self.node(value, at.below(indent, Place::Value))?;
        }
        Ok(())
    }

    fn json(&mut self, json: Json, at: At) -> Result<(), JsonError> {
        let json = match self.layout {
            Layout::Compact => reread(json)?,
            Layout::Pretty => json,
        };
        self.emitter.json(&json, at.outer, at.place);
        Ok(())
    }

    fn text<'t>(&self, text: Cow<'t, str>) -> Result<Cow<'t, str>, JsonError> {
        match self.layout {
            Layout::Compact => folded(text),
            Layout::Pretty => Ok(text),
        }
    }
}

/// A number. `toYaml` reads the JSON in between, to which integral floats are integers: by their text, so that a large
/// float loses the digits that its shortest form does not have.
fn number(float: f64, layout: Layout) -> Result<String, JsonError> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let shortest = || strconv::format_float(float, 'g', -1, 64);
    if !float.is_finite() {
        return Err(JsonError::Number(shortest()));
    }
    if layout == Layout::Pretty {
        return Ok(shortest());
    }
    if float.trunc() == float && float.abs() < EXACT {
        return Ok((float as i64).to_string());
    }
    let text = go::format_f64(float);
    Ok(match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(int), _) => int.to_string(),
        (_, Ok(uint)) => uint.to_string(),
        _ => shortest(),
    })
}

/// A text as the reader of YAML sees it: a line break of Unicode is folded, and some characters it cannot read.
fn folded(text: Cow<'_, str>) -> Result<Cow<'_, str>, JsonError> {
    let control = |char: char| matches!(char, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    let plain = |byte: u8| byte < 0x7f;
    if text.bytes().all(plain) {
        return Ok(text);
    }
    if text.contains(control) {
        return Err(JsonError::Unsupported("yaml: control characters are not allowed".to_owned()));
    }
    Ok(if text.contains('\u{85}') { text.replace('\u{85}', " ").into() } else { text })
}

/// What the reader of YAML makes of JSON: see [`number`] and [`folded`].
fn reread(json: Json) -> Result<Json, JsonError> {
    Ok(match json {
        Json::Number(number) if number.is_f64() => {
            let text = go::format_f64(number.as_f64().unwrap_or_default());
            match (text.parse::<i64>(), text.parse::<u64>()) {
                (Ok(int), _) => Json::from(int),
                (_, Ok(uint)) => Json::from(uint),
                _ => Json::Number(number),
            }
        }
        Json::String(text) => Json::String(folded(text.into())?.into_owned()),
        Json::Array(list) => Json::Array(list.into_iter().map(reread).collect::<Result<_, _>>()?),
        Json::Object(map) => {
            let field = |(key, value): (String, Json)| {
                Ok((folded(key.into())?.into_owned(), reread(value)?))
            };
            Json::Object(map.into_iter().map(field).collect::<Result<_, _>>()?)
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{from_json, to_json};
    use crate::yaml;

    fn values() -> impl Strategy<Value = Json> {
        let text = prop_oneof![
            "[ -~]{0,12}",
            "[a-c0-9]{0,4}",
            "[\\n\\t a:#'\"-]{0,6}",
            "[é\u{85}\u{2028}\u{feff}x]{0,4}",
            Just(
                "a text of more than eighty characters, which is broken at a blank somewhere, \
                  and goes on for another line"
                    .to_owned()
            ),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            (-1000..1000).prop_map(|int| Json::from(f64::from(int))),
            text.clone().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The way through JSON, which Helm takes, gives the same text.
        #[test]
        fn json_in_between_makes_no_difference(json in values()) {
            let value = from_json(&json);
            for layout in [Layout::Compact, Layout::Pretty] {
                let through = to_json(&value).ok().and_then(|json| match layout {
                    Layout::Compact => reread(json).ok(),
                    Layout::Pretty => Some(json),
                });
                let want = through.map(|json| {
                    let text = yaml::write(&json, layout);
                    text.strip_suffix('\n').unwrap_or(&text).to_owned()
                });
                prop_assert_eq!(write(&value, layout).ok(), want);
            }
        }
    }
}
