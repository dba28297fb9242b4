//! Charts in charts: which take part, and what values they see.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Dice;
use crate::case::Case;

const KEYS: [&str; 6] = ["a", "b", "c", "global", "exports", "tags"];

/// A chart tree whose templates show their values.
pub(crate) fn grow(dice: &mut Dice) -> Case {
    let mut files = BTreeMap::new();
    chart(dice, "root", "", 2, &mut files);
    let names = ["sub1", "sub2", "al", "grand"];
    let mut user = table(dice, 2, &names);
    if dice.percent(40) {
        user.insert("tags".to_owned(), json!({"t1": dice.0.bool(), "t2": dice.0.bool()}));
    }
    let values = if dice.percent(10) { String::new() } else { Value::from(user).to_string() };
    Case { files, values, is_upgrade: dice.percent(10) }
}

/// Values with the sections of subcharts.
fn table(dice: &mut Dice, depth: usize, sections: &[&str]) -> Map<String, Value> {
    let mut map = Map::new();
    for _ in 0..dice.up_to(4) {
        let key = dice.one_of(&KEYS);
        let value = match key {
            "global" | "exports" => leafs(dice, depth),
            "tags" => json!({"t1": dice.0.bool()}),
            _ => leafs(dice, depth),
        };
        map.insert(key.to_owned(), value);
    }
    for section in sections {
        if dice.percent(40) {
            let value = match dice.0.u32(..12) {
                0 => Value::Null,
                1 => json!("text"),
                2 => json!({}),
                _ => {
                    let mut inner =
                        if depth > 0 { table(dice, depth - 1, &["grand"]) } else { Map::new() };
                    if dice.percent(40) {
                        inner.insert("enabled".to_owned(), json!(dice.0.bool()));
                    }
                    inner.into()
                }
            };
            map.insert((*section).to_owned(), value);
        }
    }
    map
}

fn leafs(dice: &mut Dice, depth: usize) -> Value {
    match dice.0.u32(..if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => json!(dice.0.u8(..4)),
        2 => json!(dice.one_of(&["", "x", "y"])),
        3 => json!(dice.0.bool()),
        4 => json!([1, dice.one_of(&["p", "q"])]),
        5 => json!({}),
        _ => {
            let mut map = Map::new();
            for _ in 0..dice.up_to(3) {
                let key = dice.one_of(&["a", "b", "c", "data", "enabled"]).to_owned();
                map.insert(key, leafs(dice, depth - 1));
            }
            map.into()
        }
    }
}

fn chart(
    dice: &mut Dice,
    name: &str,
    at: &str,
    depth: usize,
    files: &mut BTreeMap<String, String>,
) {
    let names: &[&str] = match depth {
        2 => &["sub1", "sub2"],
        1 => &["grand"],
        _ => &[],
    };
    let mut dependencies = Vec::new();
    for sub in names.iter().filter(|_| dice.percent(75)).collect::<Vec<_>>() {
        chart(dice, sub, &format!("{at}charts/{sub}/"), depth - 1, files);
        for copy in 0..if dice.percent(20) { 2 } else { 1 } {
            if dice.percent(12) {
                continue;
            }
            let mut dependency = json!({"name": sub, "version": dice.one_of(&["0.1.0", "*", "^0.1.0", ">0.2", "~0.1", "x", ""])});
            if copy > 0 || dice.percent(20) {
                dependency["alias"] = json!(dice.one_of(&["al", "al2", "sub2"]));
            }
            if dice.percent(50) {
                dependency["condition"] = json!(dice.one_of(&[
                    "sub1.enabled",
                    "sub2.enabled",
                    "al.enabled,sub1.enabled",
                    "a.enabled",
                    "grand.enabled",
                    "missing.x",
                    "global.enabled"
                ]));
            }
            if dice.percent(30) {
                dependency["tags"] =
                    json!([dice.one_of(&["t1", "t2"]), dice.one_of(&["t1", "t3"])]);
            }
            if dice.percent(40) {
                let import = match dice.0.u32(..4) {
                    0 => json!(["data"]),
                    1 => {
                        json!([{"child": "a", "parent": dice.one_of(&["b", ".", "a.b", "imported"])}])
                    }
                    2 => {
                        json!(["a", {"child": dice.one_of(&["exports.data", "global", "grand.a", "missing"]), "parent": "c"}])
                    }
                    _ => json!(["data", "b"]),
                };
                dependency["import-values"] = import;
            }
            dependencies.push(dependency);
        }
    }
    let mut metadata = json!({"apiVersion": "v2", "name": name, "version": dice.one_of(&["0.1.0", "0.1.0", "0.1.5", "0.3.0-rc1"])});
    if depth < 2 && dice.percent(6) {
        metadata["type"] = json!("library");
    }
    if dice.percent(15) && !dependencies.is_empty() {
        metadata["apiVersion"] = json!("v1");
        files.insert(
            format!("{at}requirements.yaml"),
            json!({ "dependencies": dependencies }).to_string(),
        );
    } else if !dependencies.is_empty() {
        metadata["dependencies"] = json!(dependencies);
    }
    files.insert(format!("{at}Chart.yaml"), metadata.to_string());
    if dice.percent(85) {
        let names =
            if depth == 2 { ["sub1", "sub2", "al"].as_slice() } else { ["grand"].as_slice() };
        let values = Value::from(table(dice, depth, names));
        files.insert(format!("{at}values.yaml"), values.to_string());
    }
    let template = dice.one_of(&[
        "{{ .Values | toJson }}",
        "{{ .Values | toJson }}{{ range .Chart.Dependencies }}{{ .Name }}{{ end }}",
        "{{ .Values | toJson }}{{ keys .Subcharts | sortAlpha }}{{ .Chart.Name }}",
        "{{ toJson .Values.global }}{{ .Values | toJson }}{{ include \"who\" . }}",
    ]);
    files.insert(format!("{at}templates/v.txt"), template.to_owned());
    if dice.percent(60) || depth == 2 {
        files.insert(
            format!("{at}templates/_h.tpl"),
            format!("{{{{ define \"who\" }}}}{name}{{{{ end }}}}"),
        );
    }
    if dice.percent(15) {
        files.insert(
            format!("{at}crds/c.yaml"),
            format!("kind: CustomResourceDefinition\nmetadata: {{name: {name}}}\n"),
        );
    }
    if dice.percent(15) {
        files.insert(
            format!("{at}templates/NOTES.txt"),
            format!("notes of {name} {{{{ .Values.a }}}}\n"),
        );
    }
}
