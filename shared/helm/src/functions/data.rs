//! Values as YAML, JSON and TOML, and back. A text that cannot be read is no error: the result says what is wrong.

use gotemplate::{Args, Failure, Function, List, Map, Str, Type, Value};

use super::table::{ANY, Body, Context, Result, STRING, function, text};
use super::yaml as written;
use super::{syntax, toml};
use crate::engine::state::State;
use crate::json::{self, JsonError, Style, to_json, to_text};
use crate::yaml::{self, Layout, YamlError};

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
            Ok(Value::Nil) => Map::nil(&Type::Any).into(),
            read => as_map(read, JSON_KIND).unwrap_or_else(|error| error_map(&error)),
        })
    }),
    function("fromJsonArray", &[STRING], |call, args| {
        let read = reading(call, args, read_json)?;
        Ok(match read {
            Ok(Value::Nil) => List::nil(&Type::Any).into(),
            read => as_list(read, JSON_KIND).unwrap_or_else(|error| error_list(&error)),
        })
    }),
    function("mustFromJson", &[STRING], |call, args| match reading(call, args, read_json)? {
        Ok(value) => Ok(value),
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

type Read = std::result::Result<Value, ReadError>;

/// Reads a text, paid for with what its values may take.
fn reading(call: &mut Context<'_>, args: Args<'_>, read: fn(&str) -> Read) -> Result<Read> {
    call.host().text(args.str(0).len().saturating_mul(8))?;
    Ok(read(&args.text(0)))
}

fn read_yaml(text: &str) -> Read {
    Ok(yaml::read_value(text)?)
}

fn read_json(text: &str) -> Read {
    json::read_json(text)
        .map_err(|error| ReadError::Json(syntax::error(text).unwrap_or_else(|| error.to_string())))
}

fn error_map(error: &dyn std::error::Error) -> Value {
    Map::from_iter([(Str::from("Error"), Value::from(error.to_string()))]).into()
}

fn error_list(error: &ReadError) -> Value {
    List::new(vec![Value::from(error.to_string())]).into()
}

fn kind_error(value: &Value, prefix: &'static str, wanted: &'static str) -> ReadError {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    };
    ReadError::Kind { prefix, found, wanted }
}

fn as_map(read: Read, prefix: &'static str) -> Read {
    match read? {
        Value::Nil => Ok(Map::from_iter([]).into()),
        map @ Value::Map(_) => Ok(map),
        other => Err(kind_error(&other, prefix, "map[string]interface {}")),
    }
}

fn as_list(read: Read, prefix: &'static str) -> Read {
    match read? {
        Value::Nil => Ok(List::new(Vec::new()).into()),
        list @ Value::List(_) => Ok(list),
        other => Err(kind_error(&other, prefix, "[]interface {}")),
    }
}
