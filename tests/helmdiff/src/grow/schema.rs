//! Values against schemas.

use serde_json::{Map, Value, json};

use super::Dice;
use crate::case::Case;

/// A chart with a schema, and values that may fit.
pub(crate) fn grow(dice: &mut Dice) -> Case {
    let mut schema = object(dice, 2);
    if dice.percent(60) {
        let draft = dice.one_of(&[
            "http://json-schema.org/draft-07/schema#",
            "http://json-schema.org/schema#",
            "https://json-schema.org/draft-07/schema",
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-06/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ]);
        schema["$schema"] = json!(draft);
    }
    if dice.percent(40) {
        let key = dice.one_of(&["definitions", "$defs"]);
        schema[key] = json!({ "d": any(dice, 1) });
    }
    let mut case = Case::template("ok".to_owned(), values(dice, 2).to_string());
    case.files.insert("values.schema.json".to_owned(), schema.to_string());
    if dice.percent(30) {
        case.files.insert("values.yaml".to_owned(), values(dice, 2).to_string());
    }
    case
}

fn values(dice: &mut Dice, depth: usize) -> Value {
    let mut map = Map::new();
    for _ in 0..dice.up_to(4) {
        let key = dice.one_of(&["a", "b", "c", "d1"]).to_owned();
        let value =
            if depth > 0 && dice.percent(35) { values(dice, depth - 1) } else { leaf(dice) };
        map.insert(key, value);
    }
    map.into()
}

fn leaf(dice: &mut Dice) -> Value {
    match dice.0.u32(..9) {
        0 => Value::Null,
        1 => json!(dice.0.i8(..)),
        2 => json!(f64::from(dice.0.i8(..)) / 4.0),
        3 => json!(dice.0.bool()),
        4 => json!([1, "a", null]),
        5 => json!([1, 1]),
        6 => json!([]),
        _ => json!(dice.one_of(&[
            "",
            "a",
            "abc",
            "10.0.0.1",
            "2020-01-02",
            "a@b.c",
            "x y",
            "http://h/p",
            "1h",
            "日本"
        ])),
    }
}

fn any(dice: &mut Dice, depth: usize) -> Value {
    if depth > 0 && dice.percent(40) {
        return object(dice, depth - 1);
    }
    let mut schema = Map::new();
    for _ in 0..dice.up_to(3) {
        let (key, value) = match dice.0.u32(..28) {
            0..=4 => (
                "type",
                json!(dice.one_of(&[
                    "string", "integer", "number", "boolean", "object", "array", "null"
                ])),
            ),
            5 => ("type", json!(["string", dice.one_of(&["null", "integer"])])),
            6 => ("enum", json!(["a", 1, null, {"a": 1}])),
            7 => ("const", leaf(dice)),
            8 => ("minLength", json!(2)),
            9 => ("maxLength", json!(2)),
            10 => (
                "pattern",
                json!(dice.one_of(&["^a", "\\d+", "^[a-z]*$", "(?i)A", "[", "\\p{L}", "(?=a)"])),
            ),
            11 => ("minimum", json!(0)),
            12 => ("exclusiveMaximum", if dice.percent(80) { json!(10) } else { json!(true) }),
            13 => ("multipleOf", json!(0.5)),
            14 => (
                "items",
                if dice.percent(70) { any(dice, 0) } else { json!([any(dice, 0), any(dice, 0)]) },
            ),
            15 => ("minItems", json!(1)),
            16 => ("uniqueItems", json!(true)),
            17 => ("contains", any(dice, 0)),
            18 => (
                "format",
                json!(dice.one_of(&[
                    "ipv4",
                    "date",
                    "email",
                    "uri",
                    "date-time",
                    "x",
                    "duration",
                    "hostname"
                ])),
            ),
            19 if depth > 0 => (
                dice.one_of(&["allOf", "anyOf", "oneOf"]),
                json!([any(dice, depth - 1), any(dice, depth - 1)]),
            ),
            20 if depth > 0 => ("not", any(dice, depth - 1)),
            21 => (
                "$ref",
                json!(dice.one_of(&[
                    "#/definitions/d",
                    "#/$defs/d",
                    "#",
                    "#/properties/a",
                    "#/nowhere"
                ])),
            ),
            22 => ("maxItems", json!(2)),
            23 => ("maximum", json!(5)),
            24 => ("default", leaf(dice)),
            25 => ("prefixItems", json!([any(dice, 0)])),
            26 => ("minLength", json!(dice.one_of(&["1"]))),
            _ => ("description", json!("d")),
        };
        schema.insert(key.to_owned(), value);
    }
    if schema.is_empty() && dice.percent(20) { json!(dice.0.bool()) } else { schema.into() }
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut schema = Map::new();
    if dice.percent(70) {
        schema.insert("type".to_owned(), json!("object"));
    }
    let mut properties = Map::new();
    for _ in 0..dice.up_to(3) {
        properties.insert(dice.one_of(&["a", "b", "c"]).to_owned(), any(dice, depth));
    }
    schema.insert("properties".to_owned(), properties.into());
    for _ in 0..dice.up_to(2) {
        let (key, value) = match dice.0.u32(..11) {
            0 | 1 => ("required", json!([dice.one_of(&["a", "b", "c"])])),
            2 => ("additionalProperties", if dice.0.bool() { json!(false) } else { any(dice, 0) }),
            3 => ("patternProperties", json!({ "^d": any(dice, 0) })),
            4 => ("minProperties", json!(2)),
            5 => ("maxProperties", json!(2)),
            6 => ("propertyNames", json!({ "maxLength": 1 })),
            7 => ("dependencies", json!({ "a": ["b"] })),
            8 => ("if", any(dice, 0)),
            9 => ("dependentRequired", json!({ "a": ["b"] })),
            _ => ("unevaluatedProperties", json!(false)),
        };
        if key == "if" {
            schema.insert("then".to_owned(), object(dice, 0));
            schema.insert("else".to_owned(), any(dice, 0));
        }
        schema.insert(key.to_owned(), value);
    }
    schema.into()
}
