//! Values as YAML, JSON and TOML, and back. A text that cannot be read is no error: the result says what is wrong.

use gotemplate::{Args, Failure, Function, List, Map, Str, Type, Value};
use serde_json::Value as Json;

use super::table::{ANY, Body, Context, Result, STRING, function, text};
use super::yaml as written;
use super::{syntax, toml};
use crate::engine::state::State;
use crate::json::{JsonError, Style, from_json, to_json, to_text};
use crate::yaml::{self, Layout, YamlError, json_kind};

pub(super) static TABLE: &[Function<State>] = &[
    function("toYaml", &[ANY], |call, args| to_yaml(call, args, Layout::Compact)),
    function("toYamlPretty", &[ANY], |call, args| to_yaml(call, args, Layout::Pretty)),
    function("fromYaml", &[STRING], |call, args| {
        let read = reading(call, args, read_yaml)?;
        Ok(as_map(read, YAML_KIND).unwrap_or_else(|error| error_map(&error)))
    }),
    function("fromYamlArray", &[STRING], |call, args| {
        let read = reading(call, args, read_yaml)?;
        Ok(as_list(read, YAML_KIND).unwrap_or_else(|error| error_list(&error)))
    }),
    function("toJson", &[ANY], |call, args| json_text(call, args, Style::Compact)),
    function("mustToJson", &[ANY], |call, args| must_json(call, args, Style::Compact)),
    function("toRawJson", &[ANY], RAW_JSON),
    function("mustToRawJson", &[ANY], RAW_JSON),
    function("toPrettyJson", &[ANY], |call, args| json_text(call, args, Style::Pretty)),
    function("mustToPrettyJson", &[ANY], |call, args| must_json(call, args, Style::Pretty)),
    function("fromJson", &[STRING], |call, args| {
        let read = reading(call, args, read_json)?;
        Ok(match read {
            Ok(Json::Null) => Map::nil(&Type::Any).into(),
            read => as_map(read, JSON_KIND).unwrap_or_else(|error| error_map(&error)),
        })
    }),
    function("fromJsonArray", &[STRING], |call, args| {
        let read = reading(call, args, read_json)?;
        Ok(match read {
            Ok(Json::Null) => List::nil(&Type::Any).into(),
            read => as_list(read, JSON_KIND).unwrap_or_else(|error| error_list(&error)),
        })
    }),
    function("mustFromJson", &[STRING], |call, args| match reading(call, args, read_json)? {
        Ok(json) => Ok(from_json(&json)),
        Err(error) => Err(Failure::text(error.to_string())),
    }),
    function("toToml", &[ANY], |call, args| {
        if args.get(0).is_nothing() {
            return Err(Failure::text("reflect: call of reflect.Value.Type on zero Value"));
        }
        call.host().room_of(args.get(0))?;
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
            Err(error) => error_map(&error),
        })
    }),
];

const YAML_KIND: &str = "error unmarshaling JSON: while decoding JSON: ";
const JSON_KIND: &str = "";

fn to_yaml(call: &mut Context<'_>, args: Args<'_>, layout: Layout) -> Result {
    call.host().room_of(args.get(0))?;
    match written::write(args.get(0), layout) {
        Err(error @ JsonError::Deep(_)) => Err(error.into()),
        yaml => text(call, yaml.unwrap_or_default()),
    }
}

fn json_text(call: &mut Context<'_>, args: Args<'_>, style: Style) -> Result {
    call.host().room_of(args.get(0))?;
    match to_text(args.get(0), style) {
        Err(error @ JsonError::Deep(_)) => Err(error.into()),
        written => text(call, written.unwrap_or_default()),
    }
}

fn must_json(call: &mut Context<'_>, args: Args<'_>, style: Style) -> Result {
    call.host().room_of(args.get(0))?;
    let written = to_text(args.get(0), style)?;
    text(call, written)
}

const RAW_JSON: Body = |call, args| must_json(call, args, Style::Raw);

/// Why a text has no value, or not one of the wanted kind. Templates get the text of it.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// In the words of Go's decoder.
    #[error("{0}")]
    Json(String),
    #[error("{prefix}json: cannot unmarshal {found} into Go value of type {wanted}")]
    Kind { prefix: &'static str, found: &'static str, wanted: &'static str },
}

type Read<T = Json> = std::result::Result<T, ReadError>;

/// Reads a text, paid for with what its values may take.
fn reading(call: &mut Context<'_>, args: Args<'_>, read: fn(&str) -> Read) -> Result<Read> {
    call.host().text(args.str(0).len().saturating_mul(8))?;
    Ok(read(&args.text(0)))
}

fn read_yaml(text: &str) -> Read {
    Ok(yaml::read(text)?)
}

fn read_json(text: &str) -> Read {
    serde_json::from_str(text)
        .map_err(|error| ReadError::Json(syntax::error(text).unwrap_or_else(|| error.to_string())))
}

fn error_map(error: &dyn std::error::Error) -> Value {
    Map::from_iter([(Str::from("Error"), Value::from(error.to_string()))]).into()
}

fn error_list(error: &ReadError) -> Value {
    List::new(vec![Value::from(error.to_string())]).into()
}

fn kind_error(json: &Json, prefix: &'static str, wanted: &'static str) -> ReadError {
    ReadError::Kind { prefix, found: json_kind(json), wanted }
}

fn as_map(read: Read, prefix: &'static str) -> Read<Value> {
    match read? {
        Json::Null => Ok(Map::from_iter([]).into()),
        json @ Json::Object(_) => Ok(from_json(&json)),
        other => Err(kind_error(&other, prefix, "map[string]interface {}")),
    }
}

fn as_list(read: Read, prefix: &'static str) -> Read<Value> {
    match read? {
        Json::Null => Ok(List::new(Vec::new()).into()),
        json @ Json::Array(_) => Ok(from_json(&json)),
        other => Err(kind_error(&other, prefix, "[]interface {}")),
    }
}
