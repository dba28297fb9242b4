//! What can be said about values without the chart: the schema of the deployed revision, which stands in the release's ConfigMap.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::packed;
use crate::release::Record;
use crate::schema;
use crate::values::Table;

/// The key of the packed schema in `binaryData` of the ConfigMap.
pub const KEY: &str = "values.schema.json.gz";
/// Bytes of a schema: packed, and as it is. A longer one is left out.
const PACKED: usize = 64 << 10;
const MOST: usize = 1 << 20;

/// The name of the ConfigMap of a release, as the template of a chart's component makes it.
#[must_use]
pub fn config_map(release: &str) -> String {
    format!("{release}-helm-release")
}

/// The schema of a revision's chart for its ConfigMap, as base64; `None` if it has none, or one that is too long.
#[must_use]
pub fn packed(record: &Record) -> Option<String> {
    let schema = record.schema()?;
    let packed = packed::pack(&schema).ok()?;
    (schema.len() <= MOST && packed.len() <= PACKED).then(|| STANDARD.encode(packed))
}

/// What a packed schema refuses of the values that somebody gives, whatever the chart's defaults are: a line each. Nothing of a
/// text that is no packed schema.
#[must_use]
pub fn problems(packed: &str, values: &Table) -> Vec<String> {
    if packed.len() > PACKED * 2 {
        return Vec::new();
    }
    let Ok(packed) = STANDARD.decode(packed) else { return Vec::new() };
    let Ok(Some(text)) = packed::unpack(&packed, MOST) else { return Vec::new() };
    let mut values = values.clone();
    values.retain(|_, value| without_nulls(value));
    schema::refused(&text, values)
}

/// Takes nulls away, which stand for no value. False: the value itself is one.
fn without_nulls(value: &mut Value) -> bool {
    if let Value::Object(map) = value {
        map.retain(|_, value| without_nulls(value));
    }
    !value.is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::release::{NewRecord, Status};
    use crate::{Chart, Limits};

    fn record(schema: &str) -> Record {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let files = [
            file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
            file("values.schema.json", schema),
        ];
        let chart = Chart::from_directory(files, &Limits::default()).unwrap();
        Record::new(&NewRecord {
            name: "r",
            namespace: "ns",
            revision: 1,
            status: Status::Deployed,
            description: "",
            first_deployed: "",
            last_deployed: "",
            notes: "",
            chart: &chart,
            config: &Table::new(),
            manifest: "",
            hooks: &[],
        })
    }

    #[test]
    fn what_is_wrong_whatever_the_defaults_are() {
        let schema = json!({
            "type": "object", "required": ["image"], "additionalProperties": false,
            "properties": {
                "image": {"type": "string"},
                "replicas": {"type": "integer", "maximum": 5},
                "mode": {"enum": ["a", "b"]},
                "one": {"oneOf": [{"type": "string"}, {"required": ["x"]}]},
            },
        });
        let packed = packed(&record(&schema.to_string())).unwrap();
        let of = |values: Value| {
            let Value::Object(values) = values else { unreachable!() };
            problems(&packed, &values)
        };
        assert_eq!(of(json!({})), [""; 0], "what is required may be a default");
        assert_eq!(of(json!({"replicas": 2.0, "one": {}, "image": null})), [""; 0]);
        assert_eq!(of(json!({"replicas": "x"})), ["at '/replicas': got string, want integer"]);
        assert_eq!(of(json!({"replicas": 7, "mode": "c", "more": 1})).len(), 3);
    }

    #[test]
    fn what_is_no_packed_schema_says_nothing() {
        let Value::Object(values) = json!({"a": 1}) else { unreachable!() };
        for text in ["", "x", "eA==", "H4sIAAAAAAAC/w=="] {
            assert_eq!(problems(text, &values), [""; 0], "{text}");
        }
        assert_eq!(packed(&record("{")).map(|text| problems(&text, &values)), Some(Vec::new()));
    }
}
