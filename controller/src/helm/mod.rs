//! `vela-controller helm template`: what a chart renders to, without a cluster, as Helm's own command prints it.
//!
//! The command reads and prints; the engine is `shared/helm`. Charts are directories and archives of this machine:
//! nothing is fetched.

mod files;
mod written;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use vela_helm::set::{self, SetError, Typing};
use vela_helm::values::{Table, overlay};
use vela_helm::{
    Budget, Capabilities, Chart, ChartError, Host, KubeVersion, KubeVersionError, Limits, NotShown,
    Options, Release, RenderError, Show, prepare, print, release, yaml,
};

use crate::command::{self, output};

/// The word that makes a program of this.
pub const COMMAND: &str = "helm";

#[derive(Debug, Parser)]
#[command(name = "vela-controller helm", about = "Charts, as the controller renders them")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Render a chart without a cluster.
    Template(Template),
}

/// The flags of `helm template` that make sense without a cluster and without fetching.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags of an existing program")]
struct Template {
    /// The name of the release and the chart, or only the chart: a directory or an archive.
    #[arg(required = true, num_args = 1..=2, value_names = ["NAME", "CHART"])]
    name_and_chart: Vec<String>,
    /// Namespace of the release.
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// Files with values; the last one wins.
    #[arg(short = 'f', long, value_delimiter = ',')]
    values: Vec<PathBuf>,
    /// Values by path: key1=val1,key2=val2.
    #[arg(long)]
    set: Vec<String>,
    /// The same; all values are text.
    #[arg(long)]
    set_string: Vec<String>,
    /// Values by path as JSON: key=jsonval.
    #[arg(long)]
    set_json: Vec<String>,
    /// Values by path from files: key=path.
    #[arg(long)]
    set_file: Vec<String>,
    /// Values by path as they are written, with commas and braces: key=value.
    #[arg(long)]
    set_literal: Vec<String>,
    /// Assumed version of the cluster.
    #[arg(long, default_value = "v1.34.0")]
    kube_version: String,
    /// API versions and kinds of the cluster in addition to the built-in ones.
    #[arg(short, long, value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Print CRDs too.
    #[arg(long)]
    include_crds: bool,
    /// Print no hooks.
    #[arg(long)]
    no_hooks: bool,
    /// Print no tests.
    #[arg(long)]
    skip_tests: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall.
    #[arg(long)]
    is_upgrade: bool,
    /// Do not compare values with schemas.
    #[arg(long)]
    skip_schema_validation: bool,
    /// Print only the manifests of these templates.
    #[arg(short, long, value_delimiter = ',')]
    show_only: Vec<String>,
    /// Write a file for each template into this directory, and print their paths.
    #[arg(long, conflicts_with = "show_only")]
    output_dir: Option<PathBuf>,
    /// Write them into a directory of the release's name there.
    #[arg(long, requires = "output_dir")]
    release_name: bool,
}

/// Why nothing is printed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("failed to parse {path}: {error}")]
    Values { path: PathBuf, error: yaml::YamlError },
    #[error("failed parsing --{flag} data: {error}")]
    Set { flag: &'static str, error: SetError },
    #[error("charts are not fetched: {0:?} is neither a directory nor an archive of this machine")]
    Remote(String),
    #[error("release name {0:?}: {1}")]
    Name(String, release::NameError),
    #[error(transparent)]
    KubeVersion(#[from] KubeVersionError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    NotShown(#[from] NotShown),
    #[error("{path}: {error}")]
    Write { path: PathBuf, error: std::io::Error },
    #[error("template {0:?} would be written outside of the directory")]
    Outside(String),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("rendering ended without a result")]
    Ended,
}

/// Stack of the thread that renders, and what templates may take of it.
const STACK: usize = 64 << 20;
const STACK_OF_TEMPLATES: usize = 48 << 20;
/// How long a render may take.
const MAX_RENDER_TIME: Duration = Duration::from_secs(60);

/// Runs the command; `arguments` begin with [`COMMAND`].
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Command::Template(template) = match command::parsed::<Cli>(arguments) {
        Ok(cli) => cli.command,
        Err(ended) => return ended,
    };
    let render = std::thread::Builder::new().stack_size(STACK).spawn(move || run(&template));
    let result = match render {
        Ok(render) => render.join().unwrap_or(Err(Error::Ended)),
        Err(error) => Err(Error::Thread(error)),
    };
    match result {
        Ok(text) => {
            output::data(&text);
            ExitCode::SUCCESS
        }
        Err(error) => output::failed(error),
    }
}

fn run(flags: &Template) -> Result<String, Error> {
    let (name, chart) = match flags.name_and_chart.as_slice() {
        [name, chart] => (name.as_str(), chart),
        [chart] => ("release-name", chart),
        _ => return Err(Error::Ended),
    };
    release::validate_name(name).map_err(|error| Error::Name(name.to_owned(), error))?;
    let limits = Limits::default();
    let chart = load(chart, &limits)?;
    let values = values(flags)?;
    let mut capabilities = Capabilities::without_cluster(KubeVersion::parse(&flags.kube_version)?);
    capabilities.api_versions.extend(flags.api_versions.iter().cloned());
    let release = Release {
        name: name.to_owned(),
        namespace: flags.namespace.clone(),
        is_upgrade: flags.is_upgrade,
        revision: 1,
    };
    let budget = Budget { stack: STACK_OF_TEMPLATES, ..Budget::default() };
    let options = Options { skip_schema: flags.skip_schema_validation };
    let host = Machine { end: Instant::now() + MAX_RENDER_TIME };
    let rendered = prepare(&chart, &values, options, &budget)?.render(
        &release,
        &capabilities,
        Box::new(host),
        &budget,
    )?;
    let show = Show {
        crds: flags.include_crds,
        no_hooks: flags.no_hooks,
        skip_tests: flags.skip_tests,
        only: flags.show_only.clone(),
    };
    match &flags.output_dir {
        None => Ok(print(&rendered, &show)?),
        Some(folder) if flags.release_name => written::files(&rendered, &show, &folder.join(name)),
        Some(folder) => written::files(&rendered, &show, folder),
    }
}

fn load(path: &str, limits: &Limits) -> Result<Chart, Error> {
    let local = Path::new(path);
    if local.is_dir() {
        let files = files::of(local, limits)?;
        return Ok(Chart::from_directory(files, limits)?);
    }
    if !local.is_file() {
        return Err(Error::Remote(path.to_owned()));
    }
    let bytes = files::read(local, limits.archive)?;
    Ok(Chart::from_archive(&bytes, limits)?)
}

/// Files, then assignments; what comes later wins.
fn values(flags: &Template) -> Result<Table, Error> {
    let mut values = Table::new();
    for path in &flags.values {
        let text = text(path)?;
        let file = yaml::read_values(&text)
            .map_err(|error| Error::Values { path: path.clone(), error })?;
        values = overlay(values, file);
    }
    let failed = |flag| move |error| Error::Set { flag, error };
    for text in &flags.set_json {
        set::assign_json(&mut values, text).map_err(failed("set-json"))?;
    }
    for text in &flags.set {
        set::assign(&mut values, text, Typing::Guessed).map_err(failed("set"))?;
    }
    for text in &flags.set_string {
        set::assign(&mut values, text, Typing::Text).map_err(failed("set-string"))?;
    }
    for pair in &flags.set_file {
        let (key, path) = pair.split_once('=').ok_or_else(|| Error::Set {
            flag: "set-file",
            error: SetError::NoValue(pair.clone()),
        })?;
        let text = text(Path::new(path))?;
        set::assign_text(&mut values, key, text).map_err(failed("set-file"))?;
    }
    for pair in &flags.set_literal {
        let no_value = || SetError::NoValue(pair.clone());
        let (key, text) =
            pair.split_once('=').ok_or_else(no_value).map_err(failed("set-literal"))?;
        set::assign_text(&mut values, key, text.to_owned()).map_err(failed("set-literal"))?;
    }
    Ok(values)
}

fn text(path: &Path) -> Result<String, Error> {
    let bytes = files::read(path, Limits::default().file)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The machine's clock and randomness, and no cluster.
struct Machine {
    end: Instant,
}

impl Host for Machine {
    fn now(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn random(&mut self, bytes: &mut [u8]) {
        // A system that gives no randomness gives no keys either; zeros are then the least surprise.
        let _ = aws_lc_rs::rand::fill(bytes);
    }

    fn is_over(&mut self) -> bool {
        Instant::now() > self.end
    }
}
