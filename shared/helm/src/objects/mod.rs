//! The values of templates that are more than maps and lists: times, versions, certificates, and what Helm puts beside
//! the values of a chart.

mod capabilities;
mod chart;
mod files;
mod small;

use gotemplate::{Map, Object, Underlying, Value};
use serde_json::Value as Json;
use vela_gocompat::time;

pub(crate) use capabilities::CapabilitiesObject;
pub use capabilities::{Capabilities, KubeVersion, KubeVersionError};
pub(crate) use chart::ChartObject;
pub(crate) use files::Files;
pub(crate) use small::{Certificate, SemanticVersion, Time, shifted};

use crate::json::{from_json, to_json};
use crate::values::Table;

/// `chartutil.Values`: a map with methods.
#[derive(Debug, Clone)]
pub(crate) struct Values(pub(crate) Map);

/// The values of a chart as templates see them.
pub(crate) fn values_of(map: Map) -> Value {
    Value::object(Values(map))
}

/// The map behind `chartutil.Values`.
pub(crate) fn values(value: &Value) -> Option<Map> {
    value.downcast_ref::<Values>().map(|values| values.0.clone())
}

/// Values as templates see them: integers come from the command line only, files have floats.
pub(crate) fn table(values: &Table) -> Map {
    fn value(json: &Json) -> Value {
        match json {
            Json::Number(number) => match number.as_i64().filter(|_| number.is_i64()) {
                Some(int) => Value::int64(int),
                None => from_json(json),
            },
            Json::Array(list) => Value::List(list.iter().map(value).collect()),
            Json::Object(map) => Value::Map(table(map)),
            other => from_json(other),
        }
    }
    values.iter().map(|(key, json)| (gotemplate::Str::from(key.as_str()), value(json))).collect()
}

/// `.Chart` as it is written as JSON, its fields in their order.
pub(crate) fn chart(value: &Value) -> Option<impl serde::Serialize + use<>> {
    chart::ordered(value)
}

/// What an object is as JSON, if it has a form of its own.
pub(crate) fn json(value: &Value) -> Option<Json> {
    if let Some(at) = value.downcast_ref::<Time>() {
        return Some(Json::String(time::format(&at.0, time::RFC3339_NANO)));
    }
    if let Some(version) = value.downcast_ref::<SemanticVersion>() {
        return Some(Json::String(version.version.to_string()));
    }
    if let Some(json) = chart::json(value) {
        return Some(json);
    }
    value.downcast_ref::<capabilities::BuildInfo>().map(|_| capabilities::BuildInfo::json())
}

/// The fields of a struct, or of what a pointer points to, under their names of Go. Times and versions have texts instead.
pub(crate) fn fields(value: &Value) -> Option<Vec<(gotemplate::Str, Value)>> {
    as_struct(value).map(|object| chart::promoted(value, object))
}

/// The same, under the names that `toYamlPretty` gives them.
pub(crate) fn lower_case_fields(value: &Value) -> Option<Vec<(String, Value)>> {
    as_struct(value).map(|object| chart::lower_case(value, object))
}

/// Whether a value has [`fields`].
pub(crate) fn is_struct(value: &Value) -> bool {
    as_struct(value).is_some()
}

fn as_struct(value: &Value) -> Option<&dyn Object> {
    let Value::Object(object) = value else { return None };
    let has_text =
        value.downcast_ref::<Time>().is_some() || value.downcast_ref::<SemanticVersion>().is_some();
    let is_struct = matches!(object.underlying(), Underlying::Struct | Underlying::Pointer);
    (is_struct && !has_text).then_some(&**object)
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::object(time)
    }
}

impl From<SemanticVersion> for Value {
    fn from(version: SemanticVersion) -> Self {
        Self::object(version)
    }
}

impl From<Certificate> for Value {
    fn from(certificate: Certificate) -> Self {
        Self::object(certificate)
    }
}

impl Object for Values {
    fn type_of(&self) -> gotemplate::Type {
        gotemplate::Type::Named("chartutil.Values")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::Map(self.0.clone()))
    }

    fn method(&self, name: &str) -> Option<gotemplate::Signature> {
        use gotemplate::{Param, Signature};
        Some(match name {
            "YAML" | "AsMap" => Signature::new(&[]),
            "Table" | "PathValue" => Signature::new(&[Param::STRING]),
            _ => return None,
        })
    }

    fn call(
        &self,
        name: &str,
        args: gotemplate::Args<'_>,
        meter: &mut dyn gotemplate::Meter,
    ) -> Result<Value, gotemplate::Failure> {
        use gotemplate::Failure;
        meter.steps(16)?;
        let path = args.text(0);
        let table_at = |path: &str| {
            path.split('.').try_fold(self.0.clone(), |map, part| {
                match map.get(part).map(|value| value.underlying()) {
                    Some(Value::Map(map)) => Ok(map),
                    _ => Err(Failure::text(format!("{part:?} is not a table"))),
                }
            })
        };
        match name {
            "AsMap" => Ok(Value::Map(self.0.clone())),
            "YAML" => {
                let json = to_json(&Value::Map(self.0.clone()))?;
                Ok(Value::from(crate::yaml::write(&json, crate::yaml::Layout::Compact)))
            }
            "Table" => table_at(&path).map(values_of),
            _ => {
                let (map, key) = match path.rsplit_once('.') {
                    None => (Ok(self.0.clone()), &*path),
                    Some((table, key)) => (table_at(table), key),
                };
                let found = map.ok().and_then(|map| map.get(key));
                match found {
                    Some(value) if !matches!(value.underlying(), Value::Map(_)) => Ok(value),
                    _ => Err(Failure::text(format!("{key:?} is not a value"))),
                }
            }
        }
    }
}
