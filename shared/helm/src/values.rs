//! Values: what the user gives, over what charts have by default. Later sources win, maps are merged, and a null takes a
//! default away.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::chart::Chart;

/// A map of values.
pub type Table = Map<String, Value>;

/// The key whose map flows down to all subcharts.
pub(crate) const GLOBAL: &str = "global";

/// Values that do not fit the charts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValuesError {
    /// The section of a subchart is no map.
    #[error("type mismatch on {subchart}: {}", as_bool(.found))]
    Section {
        /// Name or alias of the subchart.
        subchart: String,
        /// What stands at its name.
        found: Value,
    },
}

/// The value as Helm prints it, with the verb for booleans.
fn as_bool(value: &Value) -> String {
    match value {
        Value::Null => "%!t(<nil>)".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => {
            let float = number.as_f64().unwrap_or_default();
            format!("%!t(float64={})", vela_gocompat::strconv::format_float(float, 'g', -1, 64))
        }
        Value::String(text) => format!("%!t(string={text})"),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(as_bool).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("%!t(string={key}):{}", as_bool(value)))
                .collect();
            format!("map[{}]", items.join(" "))
        }
    }
}

/// What becomes of a null that meets a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It takes the key away.
    Remove,
    /// It stays, for a later pass to see.
    Keep,
}

/// The values of a chart with all its subcharts: `values` over the defaults.
///
/// # Errors
/// A section of a subchart that is no map.
pub(crate) fn coalesce(
    chart: &Chart,
    mut values: Table,
    nulls: Nulls,
) -> Result<Table, ValuesError> {
    chart_values(chart, &mut values, nulls);
    subchart_values(chart, &mut values, nulls)?;
    Ok(values)
}

fn subchart_values(chart: &Chart, values: &mut Table, nulls: Nulls) -> Result<(), ValuesError> {
    for subchart in &chart.dependencies {
        let name = subchart.name();
        let mut section = match values.remove(name) {
            None => Table::new(),
            Some(Value::Object(section)) => section,
            Some(found) => {
                return Err(ValuesError::Section { subchart: name.to_owned(), found });
            }
        };
        pass_globals(&mut section, values.get(GLOBAL));
        let section = coalesce(subchart, section, nulls)?;
        values.insert(name.to_owned(), Value::Object(section));
    }
    Ok(())
}

/// Puts the globals of a parent over those of its subchart.
fn pass_globals(section: &mut Table, globals: Option<&Value>) {
    let globals = match globals {
        None => None,
        Some(Value::Object(globals)) => Some(globals),
        Some(_) => return,
    };
    let own = section.entry(GLOBAL).or_insert_with(|| Value::Object(Table::new()));
    let Value::Object(own) = own else { return };
    for (key, value) in globals.into_iter().flatten() {
        match (value, own.get_mut(key)) {
            (Value::Object(table), Some(Value::Object(below))) => {
                let mut above = table.clone();
                tables(&mut above, std::mem::take(below), Nulls::Keep);
                *below = above;
            }
            // A map does not go over what is no map, and the other way round.
            (Value::Object(_), Some(_)) | (_, Some(Value::Object(_))) => {}
            (value, _) => {
                own.insert(key.clone(), value.clone());
            }
        }
    }
}

fn chart_values(chart: &Chart, values: &mut Table, nulls: Nulls) {
    for (key, default) in chart.values.iter() {
        match values.get_mut(key) {
            None => {
                values.insert(key.clone(), default.clone());
            }
            Some(Value::Null) if nulls == Nulls::Remove => {
                values.remove(key);
            }
            Some(Value::Object(given)) => {
                if let Value::Object(default) = default {
                    // The subchart's own pass has to see the nulls of its section.
                    let section = chart.dependencies.iter().any(|below| below.name() == key);
                    let nulls = if section { Nulls::Keep } else { nulls };
                    tables(given, default.clone(), nulls);
                }
            }
            Some(_) => {}
        }
    }
}

/// Merges `below` into `above`, which wins.
pub(crate) fn tables(above: &mut Table, mut below: Table, nulls: Nulls) {
    for (key, value) in above.iter() {
        if value.is_null() {
            below.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in below {
        match above.get_mut(&key) {
            None => {
                above.insert(key, value);
            }
            Some(Value::Null) if nulls == Nulls::Remove => {
                above.remove(&key);
            }
            Some(Value::Object(given)) => {
                if let Value::Object(value) = value {
                    tables(given, value, nulls);
                }
            }
            Some(_) => {}
        }
    }
}

/// Merges values files as the command line does: the later file wins, a null simply overwrites.
#[must_use]
pub fn overlay(mut below: Table, above: Table) -> Table {
    for (key, value) in above {
        let merged = match (below.remove(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                Value::Object(overlay(below, above))
            }
            (_, value) => value,
        };
        below.insert(key, merged);
    }
    below
}

/// The map at a dotted path; every part of it has to be a map.
pub(crate) fn table_at<'a>(values: &'a Table, path: &str) -> Option<&'a Table> {
    path.split('.').try_fold(values, |table, part| table.get(part)?.as_object())
}

/// The value at a dotted path, unless it is a map.
pub(crate) fn value_at<'a>(values: &'a Table, path: &str) -> Option<&'a Value> {
    let (table, key) = match path.rsplit_once('.') {
        None => (values, path),
        Some((table, key)) => (table_at(values, table)?, key),
    };
    table.get(key).filter(|value| !value.is_object())
}

/// The values as JSON knows them: all numbers are floats, as in Helm.
pub(crate) fn bytes(values: &Table) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
            Value::String(text) => text.len() + 2,
            Value::Array(list) => 2 + list.iter().map(|value| of(value) + 1).sum::<usize>(),
            Value::Object(map) => bytes(map),
        }
    }
    2 + values.iter().map(|(key, value)| key.len() + 4 + of(value)).sum::<usize>()
}

/// Takes the default values away from a chart that shares nothing else with its source than memory: they are in those of
/// the render.
pub(crate) fn drop_defaults(chart: &mut Chart) {
    chart.values = Arc::default();
    chart.dependencies.iter_mut().for_each(drop_defaults);
}

/// A chart with other default values.
pub(crate) fn with_values(mut chart: Chart, values: Table) -> Chart {
    chart.values = Arc::new(values);
    chart
}
