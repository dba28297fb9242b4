//! From a chart and values to the objects of a release.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::chart::Chart;
use crate::dependencies;
use crate::engine::state::{OverBudget, State};
use crate::engine::{self, TemplateError};
use crate::hooks::Hook;
use crate::host::Host;
use crate::limits::Budget;
use crate::manifest::{self, Document, ManifestError};
use crate::objects::Capabilities;
use crate::release::Release;
use crate::rendered::RenderedText;
use crate::schema::{self, SchemaError};
use crate::semver::is_compatible;
use crate::values::{self, Nulls, Table, ValuesError};
use crate::yaml::{self, YamlError};

/// A chart that cannot be rendered. The texts are Helm's.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A chart of definitions only.
    #[error("library charts are not installable")]
    Library,
    /// Subcharts that Chart.yaml lists are not there.
    #[error(
        "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        .0.join(", ")
    )]
    Dependencies(Vec<String>),
    /// The values do not fit the charts.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The values do not fit the schemas.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The chart is not for this version of the cluster.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
    KubeVersion {
        /// The versions that the chart is for.
        wanted: String,
        /// The version that the cluster has.
        found: String,
    },
    /// A template fails.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A rendered file is not YAML.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A bound was crossed outside of a template.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// A chart with the subcharts and values that take part in a render.
#[derive(Debug, Clone)]
pub struct Prepared {
    chart: Chart,
    values: Table,
}

/// How a chart is prepared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Values are not compared with schemas.
    pub skip_schema: bool,
}

/// Finds out which subcharts take part, and puts the user's values over the defaults. The chart stays as it is.
///
/// # Errors
/// A chart or values that Helm refuses, or values over the budget.
pub fn prepare(
    chart: &Chart,
    values: &Table,
    options: Options,
    budget: &Budget,
) -> Result<Prepared, RenderError> {
    if chart.metadata.is_library() {
        return Err(RenderError::Library);
    }
    let missing = dependencies::missing(chart);
    if !missing.is_empty() {
        return Err(RenderError::Dependencies(missing));
    }
    if values::bytes(values) > budget.values {
        return Err(OverBudget::Values(budget.values).into());
    }
    let mut chart = dependencies::process(chart, values)?;
    let values = values::coalesce(&chart, values.clone(), Nulls::Remove)?;
    values::drop_defaults(&mut chart);
    if values::bytes(&values) > budget.values.saturating_mul(4) {
        return Err(OverBudget::Values(budget.values.saturating_mul(4)).into());
    }
    if !options.skip_schema {
        schema::validate(&chart, &values)?;
    }
    Ok(Prepared { chart, values })
}

/// A file of `crds/`: it is never rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct CrdFile {
    /// Its path, from the root chart's name on.
    pub source: String,
    /// The file as it is in the chart.
    pub text: String,
}

impl CrdFile {
    /// The documents of the file: their texts, and the objects that they are.
    pub fn documents(&self) -> impl Iterator<Item = (&str, Result<Value, YamlError>)> {
        manifest::split(&self.text).map(|text| (text, yaml::read(text)))
    }
}

/// What a chart renders to.
#[derive(Debug)]
pub struct Rendered {
    /// The objects, in the order in which they are installed.
    pub documents: Vec<Document>,
    /// The hooks, by kind like the objects.
    pub hooks: Vec<Hook>,
    /// The files of `crds/`, of the root chart first.
    pub crds: Vec<CrdFile>,
    /// The text of the root chart's NOTES.txt.
    pub notes: Option<String>,
    /// The text of each rendered file by path, also of notes.
    pub texts: BTreeMap<String, RenderedText>,
}

impl Rendered {
    /// The text that a release record keeps: all objects without hooks and CRDs.
    #[must_use]
    pub fn manifest(&self) -> String {
        let mut out = String::new();
        for document in &self.documents {
            push(&mut out, &document.source, &document.text);
        }
        out
    }
}

/// Adds a document under the line that names its file.
pub(crate) fn push(out: &mut String, source: &str, text: &str) {
    out.push_str("---\n# Source: ");
    out.push_str(source);
    out.push('\n');
    out.push_str(text);
    out.push('\n');
}

const NOTES: &str = "NOTES.txt";

impl Prepared {
    /// The values that the root chart's templates see.
    #[must_use]
    pub fn values(&self) -> &Table {
        &self.values
    }

    /// Executes the templates: the text of each file by path, before anything is read.
    ///
    /// # Errors
    /// A cluster of another version, a template that fails, a crossed budget.
    pub fn texts(
        &self,
        release: &Release,
        capabilities: &Capabilities,
        host: Box<dyn Host>,
        budget: &Budget,
    ) -> Result<BTreeMap<String, RenderedText>, RenderError> {
        let wanted = &self.chart.metadata.kube_version;
        let found = &capabilities.kube_version.version;
        if !wanted.is_empty() && !is_compatible(wanted, found) {
            let (wanted, found) = (wanted.clone(), found.clone());
            return Err(RenderError::KubeVersion { wanted, found });
        }
        let mut state = State::new(host, *budget);
        Ok(engine::render(&self.chart, &self.values, release, capabilities, &mut state)?)
    }

    /// Executes the templates and reads what they make.
    ///
    /// # Errors
    /// As [`Self::texts`], and text that is not YAML.
    pub fn render(
        &self,
        release: &Release,
        capabilities: &Capabilities,
        host: Box<dyn Host>,
        budget: &Budget,
    ) -> Result<Rendered, RenderError> {
        let texts = self.texts(release, capabilities, host, budget)?;
        let root_notes = format!("{}/templates/{NOTES}", self.chart.name());
        let notes = texts.get(&root_notes).map(|notes| notes.text().into_owned());
        let files = texts.iter().filter(|(path, _)| !path.ends_with(NOTES));
        let files = files.map(|(path, text)| (path.as_str(), text));
        let (documents, hooks) = manifest::sort(files)?;
        if documents.len() + hooks.len() > budget.objects {
            return Err(OverBudget::Objects(budget.objects).into());
        }
        let crd = |(source, file): (String, crate::chart::File)| CrdFile {
            source,
            text: file.data.text().into_owned(),
        };
        let crds = self.chart.crds("").into_iter().map(crd).collect();
        Ok(Rendered { documents, hooks, crds, notes, texts })
    }
}
