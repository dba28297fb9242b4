//! Which subcharts take part in a render, under which names, and what they hand up to their parents.
//!
//! The given chart is never changed: what comes out is a chart of its own that shares the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::chart::{Chart, Dependency};
use crate::semver::is_compatible;
use crate::values::{Nulls, Table, ValuesError, coalesce, table_at, tables, value_at, with_values};

/// The names of the dependencies that Chart.yaml lists and that no subchart has.
pub(crate) fn missing(chart: &Chart) -> Vec<String> {
    let there = |name: &str| chart.dependencies.iter().any(|subchart| subchart.name() == name);
    let wanted = chart.metadata.dependencies.iter().map(|dependency| &dependency.name);
    wanted.filter(|name| !there(name)).cloned().collect()
}

/// The chart with the subcharts that the values enable, under their aliases, and with imported values.
pub(crate) fn process(chart: &Chart, values: &Table) -> Result<Chart, ValuesError> {
    let enabled = enable(chart, values, "", false)?;
    import(enabled, true)
}

/// `path` is where the chart's values stand below the root: empty, or with a dot at its end. `again`: another copy of the
/// chart has been processed, which the entries of Chart.yaml know by their aliases since.
fn enable(chart: &Chart, values: &Table, path: &str, again: bool) -> Result<Chart, ValuesError> {
    let mut chart = chart.clone();
    if again {
        use_aliases(&mut chart);
    }
    if chart.metadata.dependencies.is_empty() {
        return Ok(chart);
    }
    let listed = |subchart: &Chart| {
        chart.metadata.dependencies.iter().any(|dependency| provides(subchart, dependency))
    };
    let mut subcharts: Vec<Chart> =
        chart.dependencies.iter().filter(|subchart| !listed(subchart)).cloned().collect();
    for dependency in &chart.metadata.dependencies {
        let provider = chart.dependencies.iter().find(|subchart| provides(subchart, dependency));
        if let Some(provider) = provider {
            let mut subchart = provider.clone();
            subchart.is_listed = true;
            if !dependency.alias.is_empty() {
                let alias = dependency.alias.clone();
                let metadata = Arc::make_mut(&mut subchart.metadata);
                subchart.aliased = Some(std::mem::replace(&mut metadata.name, alias));
            }
            subcharts.push(subchart);
        }
    }
    use_aliases(&mut chart);
    for dependency in &mut Arc::make_mut(&mut chart.metadata).dependencies {
        dependency.enabled = true;
    }
    chart.dependencies = subcharts;
    let values = coalesce(&chart, values.clone(), Nulls::Remove)?;
    for dependency in &mut Arc::make_mut(&mut chart.metadata).dependencies {
        dependency.enabled = is_enabled(dependency, &values, path);
    }
    let disabled: Vec<String> = chart
        .metadata
        .dependencies
        .iter()
        .filter(|dependency| !dependency.enabled)
        .map(|dependency| dependency.name.clone())
        .collect();
    Arc::make_mut(&mut chart.metadata).dependencies.retain(|dependency| dependency.enabled);
    chart.dependencies.retain(|subchart| !disabled.iter().any(|name| name == subchart.name()));
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for subchart in &mut chart.dependencies {
        let name = subchart.name().to_owned();
        let original = original(subchart).to_owned();
        let again = owners.contains_key(&original);
        // A copy that lists nothing is not processed, and takes no subcharts over.
        let owner =
            if subchart.metadata.dependencies.is_empty() { original.clone() } else { name.clone() };
        *subchart = enable(subchart, &values, &format!("{path}{name}."), again)?;
        owners.insert(original, owner);
    }
    for subchart in &mut chart.dependencies {
        subchart.owner = owners.get(original(subchart)).cloned();
    }
    Ok(chart)
}

/// The name that a chart has without an alias.
fn original(chart: &Chart) -> &str {
    chart.aliased.as_deref().unwrap_or(chart.name())
}

fn use_aliases(chart: &mut Chart) {
    for dependency in &mut Arc::make_mut(&mut chart.metadata).dependencies {
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
    }
}

fn provides(subchart: &Chart, dependency: &Dependency) -> bool {
    subchart.name() == dependency.name
        && is_compatible(&dependency.version, &subchart.metadata.version)
}

/// The first condition that names a boolean decides; then tags do, of which one that is true is enough.
fn is_enabled(dependency: &Dependency, values: &Table, path: &str) -> bool {
    let conditions = dependency.condition.trim().split(',').filter(|path| !path.is_empty());
    for condition in conditions {
        if let Some(Value::Bool(enabled)) = value_at(values, &format!("{path}{condition}")) {
            return *enabled;
        }
    }
    let Some(Value::Object(tags)) = values.get("tags") else { return true };
    let known: Vec<bool> =
        dependency.tags.iter().filter_map(|tag| tags.get(tag)?.as_bool()).collect();
    known.is_empty() || known.contains(&true)
}

/// Takes over what the dependencies of a chart export, innermost first. The chart's own values win. Of several copies of
/// a chart under aliases only the first imports, as in Helm.
fn import(mut chart: Chart, first: bool) -> Result<Chart, ValuesError> {
    let mut copied: Vec<String> = Vec::new();
    let mut subcharts = Vec::new();
    for subchart in std::mem::take(&mut chart.dependencies) {
        let original = original(&subchart).to_owned();
        let first = first && !copied.contains(&original);
        copied.push(original);
        subcharts.push(import(subchart, first)?);
    }
    chart.dependencies = subcharts;
    if chart.metadata.dependencies.is_empty() {
        return Ok(chart);
    }
    let mut values = coalesce(&chart, Table::new(), Nulls::Keep)?;
    let mut imported = Table::new();
    for dependency in &mut Arc::make_mut(&mut chart.metadata).dependencies {
        let mut read = Vec::new();
        for import in &dependency.import_values {
            let Some((child, parent)) = import_paths(import).filter(|_| first) else { continue };
            if let Some(table) = table_at(&values, &format!("{}.{child}", dependency.name)) {
                tables(&mut imported, nested(&parent, table.clone()), Nulls::Keep);
            }
            let pair = [("child", child), ("parent", parent)];
            read.push(Value::Object(
                pair.into_iter().map(|(key, path)| (key.to_owned(), Value::String(path))).collect(),
            ));
        }
        dependency.import_values = read;
    }
    tables(&mut values, imported, Nulls::Keep);
    Ok(with_values(chart, values))
}

/// Where values come from in the child, and where they go in the parent.
fn import_paths(import: &Value) -> Option<(String, String)> {
    match import {
        Value::String(name) => Some((format!("exports.{name}"), ".".to_owned())),
        Value::Object(pair) => {
            let path = |key: &str| match pair.get(key) {
                Some(Value::String(path)) => path.clone(),
                Some(other) => other.to_string(),
                None => "<nil>".to_owned(),
            };
            Some((path("child"), path("parent")))
        }
        _ => None,
    }
}

/// A table below a dotted path; `.` is the root.
fn nested(path: &str, table: Table) -> Table {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |table, part| {
        let mut outer = Map::new();
        outer.insert(part.to_owned(), Value::Object(table));
        outer
    })
}
