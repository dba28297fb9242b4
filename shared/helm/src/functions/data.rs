//! Values as YAML, JSON and TOML, and back. A text that cannot be read is no error: the result says what is wrong.

use gotemplate::{Args, Function, List, Map, Str, Value};
use serde_json::Value as Json;
use vela_gocompat::json as go;

use super::convert::{JsonError, from_json, to_json};
use super::written::{self, Style};
use super::{ANY, Body, Context, Result, STRING, function, text, toml};
use crate::engine::state::State;
use crate::yaml::{self, Layout, json_kind};

pub(super) static TABLE: &[Function<State>] = &[
    function("toYaml", &[ANY], |call, args| to_yaml(call, args, Layout::Compact)),
    function("toYamlPretty", &[ANY], |call, args| to_yaml(call, args, Layout::Pretty)),
    function("fromYaml", &[STRING], |call, args| {
        let read = reading(call, args, |text| yaml::read(text).map_err(|error| error.to_string()))?;
        Ok(map_or_error(read, YAML_KIND))
    }),
    function("fromYamlArray", &[STRING], |call, args| {
        let read = reading(call, args, |text| yaml::read(text).map_err(|error| error.to_string()))?;
        Ok(list_or_error(read, YAML_KIND))
    }),
    function("toJson", &[ANY], |call, args| json_text(call, args, Style::Compact)),
    function("mustToJson", &[ANY], |call, args| must_json(call, args, Style::Compact)),
    function("toRawJson", &[ANY], RAW_JSON),
    function("mustToRawJson", &[ANY], RAW_JSON),
    function("toPrettyJson", &[ANY], PRETTY_JSON),
    function("mustToPrettyJson", &[ANY], PRETTY_JSON),
    function("fromJson", &[STRING], |call, args| {
        let read = reading(call, args, read_json)?;
        Ok(map_or_error(read, JSON_KIND))
    }),
    function("fromJsonArray", &[STRING], |call, args| {
        let read = reading(call, args, read_json)?;
        Ok(list_or_error(read, JSON_KIND))
    }),
    function("mustFromJson", &[STRING], |call, args| match reading(call, args, read_json)? {
        Ok(json) => Ok(from_json(&json)),
        Err(error) => Err(gotemplate::Failure::text(error)),
    }),
    function("toToml", &[ANY], |call, args| {
        let written = match to_json(args.get(0)) {
            Ok(_) => toml::write(args.get(0)).unwrap_or_else(|error| error.to_string()),
            Err(error @ JsonError::Deep(_)) => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        text(call, written)
    }),
    function("fromToml", &[STRING], |call, args| {
        call.host().text(args.str(0).len().saturating_mul(8))?;
        Ok(match toml::read(&args.text(0)) {
            Ok(map) => map.into(),
            Err(error) => error_map(&error.to_string()),
        })
    }),
];

const YAML_KIND: &str = "error unmarshaling JSON: while decoding JSON: ";
const JSON_KIND: &str = "";

fn to_yaml(call: &mut Context<'_>, args: Args<'_>, layout: Layout) -> Result {
    call.host().room_of(args.get(0))?;
    let json = match to_json(args.get(0)) {
        Ok(json) => json,
        Err(error @ JsonError::Deep(_)) => return Err(error.into()),
        Err(_) => return Ok(Value::from("")),
    };
    let json = match layout {
        Layout::Compact => match through_json(json) {
            Some(json) => json,
            None => return Ok(Value::from("")),
        },
        Layout::Pretty => json,
    };
    let mut yaml = yaml::write(&json, layout);
    yaml.pop();
    text(call, yaml)
}

/// What the YAML reader makes of the JSON in between: integral floats are integers, and a line break of Unicode inside
/// a text is folded. None if it cannot read a character.
fn through_json(json: Json) -> Option<Json> {
    Some(match json {
        Json::Number(number) => {
            // By the text in between: a large float loses the digits that its shortest form does not have.
            let float = number.as_f64().filter(|_| number.is_f64());
            let text = float.map(go::format_f64).unwrap_or_default();
            match (text.parse::<i64>(), text.parse::<u64>()) {
                (Ok(int), _) => Json::from(int),
                (_, Ok(uint)) => Json::from(uint),
                _ => Json::Number(number),
            }
        }
        Json::String(text) => Json::String(folded(text)?),
        Json::Array(list) => {
            Json::Array(list.into_iter().map(through_json).collect::<Option<_>>()?)
        }
        Json::Object(map) => Json::Object(
            map.into_iter()
                .map(|(key, value)| Some((folded(key)?, through_json(value)?)))
                .collect::<Option<_>>()?,
        ),
        other => other,
    })
}

fn folded(text: String) -> Option<String> {
    let control = |char: char| matches!(char, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(control) {
        return None;
    }
    Some(if text.contains('\u{85}') { text.replace('\u{85}', " ") } else { text })
}

fn json_text(call: &mut Context<'_>, args: Args<'_>, style: Style) -> Result {
    call.host().room_of(args.get(0))?;
    match written::json(args.get(0), style) {
        Err(error @ JsonError::Deep(_)) => Err(error.into()),
        written => text(call, written.unwrap_or_default()),
    }
}

fn must_json(call: &mut Context<'_>, args: Args<'_>, style: Style) -> Result {
    call.host().room_of(args.get(0))?;
    let written = written::json(args.get(0), style)?;
    text(call, written)
}

const RAW_JSON: Body = |call, args| must_json(call, args, Style::Raw);

const PRETTY_JSON: Body = |call, args| must_json(call, args, Style::Pretty);

type Read = std::result::Result<Json, String>;

/// Reads a text, paid for with what its values may take.
fn reading(call: &mut Context<'_>, args: Args<'_>, read: fn(&str) -> Read) -> Result<Read> {
    call.host().text(args.str(0).len().saturating_mul(8))?;
    Ok(read(&args.text(0)))
}

fn read_json(text: &str) -> Read {
    serde_json::from_str(text)
        .map_err(|error| super::syntax::error(text).unwrap_or_else(|| error.to_string()))
}

fn error_map(text: &str) -> Value {
    Map::from_iter([(Str::from("Error"), Value::from(text))]).into()
}

fn kind_error(json: &Json, prefix: &str, wanted: &str) -> String {
    format!("{prefix}json: cannot unmarshal {} into Go value of type {wanted}", json_kind(json))
}

fn map_or_error(read: Read, prefix: &str) -> Value {
    match read {
        Ok(Json::Null) => Map::from_iter([]).into(),
        Ok(json @ Json::Object(_)) => from_json(&json),
        Ok(other) => error_map(&kind_error(&other, prefix, "map[string]interface {}")),
        Err(error) => error_map(&error),
    }
}

fn list_or_error(read: Read, prefix: &str) -> Value {
    let error = match read {
        Ok(Json::Null) => return List::new(Vec::new()).into(),
        Ok(json @ Json::Array(_)) => return from_json(&json),
        Ok(other) => kind_error(&other, prefix, "[]interface {}"),
        Err(error) => error,
    };
    List::new(vec![Value::from(error)]).into()
}
