//! Charts: what a directory or an archive holds, read once and never changed.

mod archive;
mod compiled;
mod decode;
mod error;
mod files;
mod ignore;
mod metadata;

use std::borrow::Cow;
use std::sync::Arc;

use gotemplate::Str;
use serde_json::{Map, Value};

pub(crate) use compiled::{Compiled, ParsedFile, Slots};
pub(crate) use decode::{DecodeError, Fields};
pub use error::{ChartError, Invalid};
pub use ignore::{IgnoreError, Rules};
pub use metadata::{Dependency, Maintainer, Metadata};

use crate::limits::Limits;

/// A file of a chart: its path from the chart's root, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Slashes separate its parts.
    pub name: String,
    /// Without a byte order mark.
    pub data: Data,
}

/// The content of a file. A clone shares it; so do templates that it is parsed to, and those that read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data(Str);

impl Data {
    /// The text, with U+FFFD where the bytes are not UTF-8.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        self.0.to_str_lossy()
    }

    /// As templates see it.
    pub(crate) fn shared(&self) -> &Str {
        &self.0
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl std::ops::Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A chart with its subcharts. A clone shares the files.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What Chart.yaml says.
    pub metadata: Arc<Metadata>,
    /// What Chart.lock says, kept for release records.
    pub lock: Option<Arc<Value>>,
    /// The files below `templates/`.
    pub templates: Arc<[File]>,
    /// The default values.
    pub values: Arc<Map<String, Value>>,
    /// values.schema.json.
    pub schema: Option<Data>,
    /// All files that have no other role.
    pub files: Arc<[File]>,
    /// The subcharts.
    pub dependencies: Vec<Self>,
    /// The name that an alias replaced.
    pub(crate) aliased: Option<String>,
    /// Whether the Chart.yaml of the chart around it lists it. Helm renders a copy then, and the chart itself otherwise.
    pub(crate) is_listed: bool,
    /// The chart beside it that subcharts which are not listed belong to: Helm has them once for all copies of a chart.
    pub(crate) owner: Option<String>,
    /// What all renders share.
    pub(crate) compiled: Arc<Compiled>,
}

impl Chart {
    /// Reads a packed chart.
    ///
    /// # Errors
    /// An archive that is no chart, or crosses a limit.
    pub fn from_archive(bytes: &[u8], limits: &Limits) -> Result<Self, ChartError> {
        archive::load(bytes, limits, 0, &mut archive::Spent::default())
    }

    /// Makes a chart of the files of a directory, given by their paths from its root. `.helmignore` applies, and the
    /// order of the files does not matter.
    ///
    /// # Errors
    /// Files that are no chart, or cross a limit.
    pub fn from_directory(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        limits: &Limits,
    ) -> Result<Self, ChartError> {
        let mut files: Vec<(String, Vec<u8>)> = files.into_iter().collect();
        files.sort_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
        let rules = match files.iter().find(|(name, _)| name == ".helmignore") {
            Some((_, text)) => Rules::parse(&String::from_utf8_lossy(text))?,
            None => Rules::default(),
        };
        let mut spent = archive::Spent::default();
        let mut kept = Vec::new();
        for (name, data) in files {
            if rules.ignore_with_parents(&name) {
                continue;
            }
            spent.file(&name, data.len(), limits)?;
            kept.push(File { name, data: archive::without_mark(&data).into() });
        }
        files::load(kept, limits, 0, &mut spent)
    }

    /// The files of `crds/` of this chart and of its subcharts, with their paths from the root chart's name on. `parent`
    /// is the path of the chart around this one.
    pub(crate) fn crds(&self, parent: &str) -> Vec<(String, File)> {
        let path = self.path(parent);
        let manifest = |file: &&File| {
            let extension = file.name.rsplit('.').next().unwrap_or_default();
            file.name.starts_with("crds/") && matches!(extension, "yaml" | "yml" | "json")
        };
        let own = self.files.iter().filter(manifest);
        let mut all: Vec<(String, File)> =
            own.map(|file| (format!("{path}/{}", file.name), file.clone())).collect();
        let inner = |subchart| self.path_around(subchart, parent);
        all.extend(self.dependencies.iter().flat_map(|subchart| subchart.crds(&inner(subchart))));
        all
    }

    /// Where the chart stands among the charts around it.
    pub(crate) fn path(&self, parent: &str) -> String {
        path(parent, self.name())
    }

    /// What the path of a subchart begins with.
    pub(crate) fn path_around(&self, subchart: &Self, parent: &str) -> String {
        match &self.owner {
            Some(owner) if !subchart.is_listed => path(parent, owner),
            _ => self.path(parent),
        }
    }

    /// The chart's name; of an aliased subchart its alias.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

fn path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/charts/{name}") }
}
