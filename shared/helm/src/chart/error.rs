//! Why something is not a chart. Texts that Helm prints too are its own, since people search for them.

use super::decode::DecodeError;
use super::ignore::IgnoreError;
use crate::semver::VersionError;
use crate::yaml::YamlError;

/// Something that is not a chart, or too large for one.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// There is no Chart.yaml.
    #[error("Chart.yaml file is missing")]
    NoChartYaml,
    /// A file of the chart is not YAML of the right kind.
    #[error("cannot load {file}: {error}")]
    File {
        /// The file's name.
        file: &'static str,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// Chart.yaml says something that is not allowed.
    #[error("validation: {0}")]
    Invalid(Invalid),
    /// A subchart is broken.
    #[error("error unpacking subchart {name} in {chart}: {error}")]
    Subchart {
        /// The name of its file or folder.
        name: String,
        /// The chart around it.
        chart: String,
        /// What is wrong with it.
        error: Box<Self>,
    },
    /// A packed subchart is no file but a folder.
    #[error("error unpacking subchart tar in {chart}: expected {expected}, got {got}")]
    SubchartPath {
        /// The chart around it.
        chart: String,
        /// The file that was expected.
        expected: String,
        /// The file that was there.
        got: String,
    },
    /// The archive is no gzip, or its content no tar.
    #[error("file does not appear to be a gzipped archive: {0}")]
    Archive(#[source] std::io::Error),
    /// The archive has no files.
    #[error("no files in chart archive")]
    Empty,
    /// A path of the archive is absolute.
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    /// A path of the archive has no name below the top folder.
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideBase(String),
    /// A path of the archive leaves the chart.
    #[error("chart illegally references parent directory")]
    ParentPath,
    /// A path of the archive has a drive letter.
    #[error("chart contains illegally named files")]
    IllegalName,
    /// Chart.yaml lies at the top of the archive.
    #[error("chart yaml not in base directory")]
    NoBase,
    /// A link, device or other thing that is no file.
    #[error("chart contains {0:?}, which is not a regular file")]
    NotRegular(String),
    /// Two files of one name.
    #[error("chart contains {0:?} more than once")]
    Duplicate(String),
    /// A template that is no UTF-8.
    #[error("template {0:?} is not UTF-8")]
    NotUtf8(String),
    /// All files together are too large.
    #[error("decompressed chart is larger than the maximum file size {0}")]
    TotalSize(usize),
    /// One file is too large.
    #[error("decompressed chart file {0:?} is larger than the maximum file size {1}")]
    FileSize(String, usize),
    /// The archive itself is too large.
    #[error("chart archive is larger than {0} bytes")]
    ArchiveSize(usize),
    /// There are too many files.
    #[error("chart has more than {0} files")]
    Files(usize),
    /// Subcharts lie too deep.
    #[error("subcharts are nested deeper than {0} levels")]
    Depth(usize),
    /// A path is too long.
    #[error("chart contains a path longer than {0} bytes")]
    Path(usize),
    /// `.helmignore` cannot be read.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
}

impl ChartError {
    pub(super) fn yaml(file: &'static str) -> impl Fn(YamlError) -> Self {
        move |error| Self::File { file, error: DecodeError::Yaml(error) }
    }

    pub(super) fn decode(file: &'static str) -> impl Fn(DecodeError) -> Self {
        move |error| Self::File { file, error }
    }
}

/// A rule of Chart.yaml that is broken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A field that has to be there.
    #[error("chart.metadata.{0} is required")]
    Required(&'static str),
    /// The name has parts.
    #[error("chart.metadata.name {0:?} is invalid")]
    Name(String),
    /// The version is none.
    #[error("chart.metadata.version {0:?} is invalid")]
    Version(String, #[source] VersionError),
    /// The type is another word.
    #[error("chart.metadata.type must be application or library")]
    Type,
    /// A dependency is null.
    #[error("dependencies must not contain empty or null nodes")]
    EmptyDependency,
    /// A maintainer is null.
    #[error("maintainers must not contain empty or null nodes")]
    EmptyMaintainer,
    /// An alias with other characters than letters, digits, `_` and `-`.
    #[error("dependency {0:?} has disallowed characters in the alias")]
    Alias(String),
    /// Two dependencies would have one place.
    #[error("more than one dependency with name or alias {0:?}")]
    Twice(String),
}
