//! Answers to records of kinds `helm` (a chart, values, and what becomes of them) and `gotemplate` (one template in a
//! small chart). Packed charts and the lists of API versions lie next to the file of the records.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use vela_helm::{
    Budget, Capabilities, Chart, ChartError, Host, KubeVersion, KubeVersionError, Limits, Options,
    Prepared, Release, RenderError, Rendered, RenderedText, TemplateError, prepare, values, yaml,
};

/// The version of Kubernetes where a record names none.
const KUBE_VERSION: &str = "v1.34.0";

/// A host with a clock, randomness, and no cluster.
struct Machine;

impl Host for Machine {
    fn now(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| fastrand::u8(..));
    }
}

/// What keeps a record from an answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    KubeVersion(#[from] KubeVersionError),
    #[error("{0}")]
    File(#[from] std::io::Error),
}

impl Refusal {
    /// The class that the corpus gives such an error.
    fn class(&self) -> &'static str {
        match self {
            Self::Chart(_) => "chart",
            Self::KubeVersion(_) | Self::File(_) => "other",
            Self::Render(error) => match error {
                RenderError::Library => "type",
                RenderError::Dependencies(_) => "dependency",
                RenderError::Values(_) => "values",
                RenderError::Schema(_) => "schema",
                RenderError::KubeVersion { .. } => "kubeVersion",
                RenderError::Manifest(_) => "yaml",
                RenderError::OverBudget(_) => "other",
                RenderError::Template(error) => match error {
                    TemplateError::Parse(_) => "parse",
                    TemplateError::Refused { .. } => "fail",
                    TemplateError::Exec(_) | TemplateError::NotDefined(_) => "exec",
                    TemplateError::OverBudget { .. } | TemplateError::Stopped { .. } => "other",
                },
            },
        }
    }
}

/// The answer to a record, whose file lies in `folder`.
#[must_use]
pub fn answer(record: &Value, folder: &Path) -> Value {
    let result = match record["kind"].as_str() {
        Some("gotemplate") => template(record, folder),
        _ => chart(record, folder),
    };
    match result {
        Ok(answer) => answer,
        Err(refusal) => json!({ "error": refusal.to_string(), "errorClass": refusal.class() }),
    }
}

fn chart(record: &Value, folder: &Path) -> Result<Value, Refusal> {
    let limits = Limits::default();
    let chart = match record["chart"].as_str() {
        Some(name) => {
            // Only a file of the folder: a record names no other place.
            let name = name.rsplit('/').next().unwrap_or_default();
            Chart::from_archive(&std::fs::read(folder.join("charts").join(name))?, &limits)?
        }
        None => Chart::from_directory(files(&record["files"]), &limits)?,
    };
    let case = Case::new(record, folder)?;
    let prepared = case.prepare(&chart)?;
    let rendered: Rendered =
        prepared.render(&case.release, &case.capabilities, Box::new(Machine), &case.budget)?;
    let object = |source: &str, object: &Value| {
        let mut object = object.clone();
        round(&mut object);
        json!({ "source": source, "object": object })
    };
    let documents = rendered.documents.iter();
    let hooks = rendered.hooks.iter().map(|hook| &hook.document);
    let crds = rendered.crds.iter().flat_map(|file| {
        file.documents().map(move |(text, document)| {
            let document = document.unwrap_or_else(|_| json!({ "unreadable": text }));
            object(&file.source, &document)
        })
    });
    let texts: BTreeMap<&str, String> = rendered
        .texts
        .iter()
        .map(|(path, text)| (path, text.text()))
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(path, text)| (path.as_str(), sum(&text)))
        .collect();
    Ok(json!({
        "manifests": documents.map(|it| object(&it.source, &it.object)).collect::<Vec<_>>(),
        "hooks": hooks.map(|it| object(&it.source, &it.object)).collect::<Vec<_>>(),
        "crds": crds.collect::<Vec<_>>(),
        "notes": rendered.notes.as_ref().filter(|notes| !notes.trim().is_empty()),
        "texts": texts,
    }))
}

/// Integers that a float cannot hold are recorded as floats.
fn round(value: &mut Value) {
    const EXACT: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            let int = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
            if int.is_some_and(|int| int > EXACT) {
                yaml::to_floats(value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(round),
        Value::Object(map) => map.values_mut().for_each(round),
        _ => {}
    }
}

/// Lower-case digits of the SHA-256 of a text.
fn sum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn template(record: &Value, folder: &Path) -> Result<Value, Refusal> {
    const CHART: &str = "apiVersion: v2\nname: micro\nversion: 0.1.0\nappVersion: \"1.2.3\"\n";
    const PATH: &str = "templates/t.yaml";
    let mut files = files(&record["files"]);
    let chart = record["chartYaml"].as_str().unwrap_or(CHART);
    files.push(("Chart.yaml".to_owned(), chart.as_bytes().to_vec()));
    let template = record["template"].as_str().unwrap_or_default();
    files.push((PATH.to_owned(), template.as_bytes().to_vec()));
    let chart = Chart::from_directory(files, &Limits::default())?;
    // The output need not be YAML: only its text counts.
    let case = Case::new(&record["data"], folder)?;
    let texts = case.prepare(&chart)?.texts(
        &case.release,
        &case.capabilities,
        Box::new(Machine),
        &case.budget,
    )?;
    let path = format!("{}/{PATH}", chart.name());
    Ok(json!({ "output": texts.get(&path).map(RenderedText::text).unwrap_or_default() }))
}

fn files(files: &Value) -> Vec<(String, Vec<u8>)> {
    let file = |(name, text): (&String, &Value)| {
        (name.clone(), text.as_str().unwrap_or_default().as_bytes().to_vec())
    };
    files.as_object().into_iter().flatten().map(file).collect()
}

/// What a record gives besides a chart.
struct Case {
    values: values::Table,
    release: Release,
    capabilities: Capabilities,
    budget: Budget,
}

impl Case {
    fn new(record: &Value, folder: &Path) -> Result<Self, Refusal> {
        let mut values = record["values"].clone();
        yaml::to_floats(&mut values);
        let values = match values {
            Value::Object(values) => values,
            _ => values::Table::new(),
        };
        let release = &record["release"];
        let text = |key: &str, default: &str| release[key].as_str().unwrap_or(default).to_owned();
        let capabilities = &record["capabilities"];
        let kube_version = capabilities["kubeVersion"].as_str().unwrap_or(KUBE_VERSION);
        let mut known = Capabilities::without_cluster(KubeVersion::parse(kube_version)?);
        let list = capabilities["apiVersions"].as_str().unwrap_or("default");
        let lists = std::fs::read_to_string(folder.join("capabilities.json")).unwrap_or_default();
        let lists: Value = serde_json::from_str(&lists).unwrap_or_default();
        if let Some(versions) = lists.get(list).and_then(Value::as_array) {
            let versions = versions.iter().filter_map(Value::as_str);
            known.api_versions = versions.map(str::to_owned).collect();
        }
        Ok(Self {
            values,
            release: Release {
                name: text("name", "rel"),
                namespace: text("namespace", "ns"),
                is_upgrade: release["isUpgrade"].as_bool().unwrap_or_default(),
                revision: release["revision"].as_i64().unwrap_or(1),
            },
            capabilities: known,
            budget: Budget { stack: 64 << 20, ..Budget::default() },
        })
    }

    fn prepare(&self, chart: &Chart) -> Result<Prepared, RenderError> {
        prepare(chart, &self.values, Options::default(), &self.budget)
    }
}
