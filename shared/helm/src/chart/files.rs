//! What the files of a chart are for, by their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::archive::{self, Spent};
use super::error::ChartError;
use super::metadata::Metadata;
use super::{Chart, File};
use crate::limits::Limits;
use crate::yaml;

/// Makes a chart of its files.
pub(super) fn load(
    files: Vec<File>,
    limits: &Limits,
    depth: usize,
    spent: &mut Spent,
) -> Result<Chart, ChartError> {
    if depth > limits.depth {
        return Err(ChartError::Depth(limits.depth));
    }
    let mut metadata: Option<Metadata> = None;
    // Before all others: what the deprecated files mean depends on its version.
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        let metadata = metadata.get_or_insert_default();
        let document = document(file, "Chart.yaml")?;
        metadata.read(&document).map_err(ChartError::decode("Chart.yaml"))?;
        if metadata.api_version.is_empty() {
            "v1".clone_into(&mut metadata.api_version);
        }
    }
    let mut values = Map::new();
    let (mut lock, mut schema) = (None, None);
    let (mut templates, mut others) = (Vec::new(), Vec::new());
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in files {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => lock = Some(Arc::new(document(&file, "Chart.lock")?)),
            "values.yaml" => {
                let text = text(&file)?;
                values = yaml::read_values(text).map_err(ChartError::yaml("values.yaml"))?;
            }
            "values.schema.json" => schema = Some(file.data),
            "requirements.yaml" => {
                let metadata = metadata.get_or_insert_default();
                let document = document(&file, "requirements.yaml")?;
                metadata.read(&document).map_err(ChartError::decode("requirements.yaml"))?;
                if metadata.api_version == "v1" {
                    others.push(file);
                }
            }
            "requirements.lock" => {
                lock = Some(Arc::new(document(&file, "requirements.lock")?));
                if metadata.as_ref().is_some_and(|metadata| metadata.api_version == "v1") {
                    others.push(file);
                }
            }
            name if name.starts_with("templates/") => {
                text(&file)?;
                templates.push(file);
            }
            name => match name.strip_prefix("charts/") {
                Some(_) if name.ends_with(".prov") => others.push(file),
                Some(rest) => {
                    let top = rest.split('/').next().unwrap_or_default().to_owned();
                    let file = File { name: rest.to_owned(), data: file.data.clone() };
                    subcharts.entry(top).or_default().push(file);
                }
                None => others.push(file),
            },
        }
    }
    let mut metadata = metadata.ok_or(ChartError::NoChartYaml)?;
    metadata.validate().map_err(ChartError::Invalid)?;
    let mut dependencies = Vec::new();
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let chart = if name.ends_with(".tgz") {
            let packed = files.iter().find(|file| file.name == name);
            let Some(packed) = packed else {
                let got = files.first().map(|file| file.name.clone()).unwrap_or_default();
                let chart = metadata.name;
                return Err(ChartError::SubchartPath { chart, expected: name, got });
            };
            archive::load(&packed.data, limits, depth + 1, spent)
        } else {
            load(below(files), limits, depth + 1, spent)
        };
        dependencies.push(chart.map_err(|error| ChartError::Subchart {
            name,
            chart: metadata.name.clone(),
            error: Box::new(error),
        })?);
    }
    Ok(Chart {
        metadata: Arc::new(metadata),
        lock,
        templates: templates.into(),
        values: Arc::new(values),
        schema,
        files: others.into(),
        dependencies,
        aliased: None,
        is_listed: false,
        owner: None,
        compiled: Arc::default(),
    })
}

/// Files by their paths below the top folder.
fn below(files: Vec<File>) -> Vec<File> {
    let inner = |file: File| {
        let (_, rest) = file.name.split_once('/')?;
        Some(File { name: rest.to_owned(), data: file.data })
    };
    files.into_iter().filter_map(inner).collect()
}

fn text(file: &File) -> Result<&str, ChartError> {
    std::str::from_utf8(&file.data).map_err(|_| ChartError::NotUtf8(file.name.clone()))
}

fn document(file: &File, name: &'static str) -> Result<Value, ChartError> {
    yaml::read(text(file)?).map_err(ChartError::yaml(name))
}
