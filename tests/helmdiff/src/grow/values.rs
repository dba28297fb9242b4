//! Values of all shapes.

use serde_json::{Map, Value, json};

use super::Dice;
use crate::case::Case;

/// A number as serde reads it; those that it cannot hold are taken smaller.
fn number(dice: &mut Dice) -> Value {
    serde_json::from_str(&dice.number()).unwrap_or(json!(1))
}

/// Any value, a few levels deep.
pub(crate) fn any(dice: &mut Dice, depth: usize) -> Value {
    match dice.0.u32(..if depth == 0 { 7 } else { 11 }) {
        0..=2 => dice.text().into(),
        3 | 4 => number(dice),
        5 => dice.0.bool().into(),
        6 => Value::Null,
        7 | 8 => (0..dice.up_to(3)).map(|_| any(dice, depth - 1)).collect(),
        _ => map(dice, depth - 1).into(),
    }
}

fn map(dice: &mut Dice, depth: usize) -> Map<String, Value> {
    (0..dice.up_to(4))
        .map(|_| {
            let key = match dice.0.u32(..4) {
                0 => dice.text(),
                _ => dice
                    .one_of(&[
                        "a", "b", "a2", "a10", "A", "a-b", "aB", "true", "1", "01", "x.y", "null",
                        "é", "_",
                    ])
                    .to_owned(),
            };
            (key, any(dice, depth))
        })
        .collect()
}

/// The values that expressions know the names of, as YAML that is JSON.
pub(crate) fn document(dice: &mut Dice) -> String {
    let big: Value = serde_json::from_str(dice.one_of(&[
        "9007199254740993",
        "1e21",
        "123456789012",
        "1e300",
        "4294967296",
    ]))
    .unwrap_or(json!(1));
    let strings = |dice: &mut Dice| -> Value {
        (0..dice.up_to(4)).map(|_| Value::from(dice.text())).collect()
    };
    let mut values = json!({
        "s1": dice.text(), "s2": dice.text(), "s3": dice.text(),
        "i": dice.0.i32(-5..2000), "f": number(dice), "big": big, "neg": -7,
        "t": true, "n": false, "null": null, "z": 0, "es": "",
        "l": (0..dice.up_to(4)).map(|_| any(dice, 1)).collect::<Value>(),
        "ls": strings(dice),
        "li": [3, 1, 2, 1],
        "e": [], "em": {},
        "m": {"s": dice.text(), "i": 5, "l": [1, "a"], "null": null, "deep": {"s": dice.text(), "x": any(dice, 1)}},
        "mm": map(dice, 2),
        "doc": super::yaml::document(dice),
    });
    if dice.percent(10)
        && let Some(values) = values.as_object_mut()
    {
        let names: Vec<String> = values.keys().cloned().collect();
        if let Some(name) = dice.pick(&names) {
            values.insert(name.clone(), any(dice, 1));
        }
    }
    values.to_string()
}

/// What the writers of YAML, JSON and TOML make of a value.
pub(crate) fn emit(dice: &mut Dice) -> Case {
    let value = match dice.0.u32(..6) {
        0 => Value::from(dice.long()),
        1 => json!({ dice.text(): dice.long() }),
        2 => (0..dice.up_to(3)).map(|_| Value::from(dice.pieces(8))).collect(),
        3 => json!({"k": dice.pieces(8), "l": [dice.text()], dice.pieces(5): {"n": dice.text()}}),
        _ => any(dice, 3),
    };
    let writer = dice.one_of(&[
        "toYaml",
        "toYaml",
        "toYaml",
        "toYamlPretty",
        "toJson",
        "toPrettyJson",
        "toRawJson",
        "toToml",
    ]);
    let nested =
        dice.one_of(&["", "", " | nindent 4", " | indent 2", " | fromYaml | toYaml", " | quote"]);
    let of = dice.one_of(&[
        ".Values.v",
        ".Values.v",
        "(list .Values.v)",
        "(dict \"k\" .Values.v)",
        ".Values",
    ]);
    let text = format!("{{{{ {writer} {of}{nested} }}}}");
    Case::template(text, json!({ "v": value }).to_string())
}
