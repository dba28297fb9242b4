//! `vela-controller plan`: shows how an edit would change the cluster.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use kube::Client;
use serde_json::{Value, json};
use vela_api::Application;
use vela_cluster::ApiError;
use vela_render::{Definition, Renderer};

use crate::command::files::{self, FileError};
use crate::command::output;
use crate::command::{self, ClusterArgs, EvaluationError, block_on, caches};

use super::impact::{Impact, NewDefinition, impact};
use super::one::{self, Plan, PlanError, Verdict};
use super::report;
use super::setup::{self, SetupError};
use super::stage::Means;

/// The word that makes a program of this.
pub const COMMAND: &str = "plan";

#[derive(Debug, Parser)]
#[command(
    name = "vela-controller plan",
    about = "What Applications would write, with nothing written: every write is a dry run"
)]
struct Cli {
    /// Applications in files and folders; `-` reads the standard input.
    #[arg(
        short,
        long,
        value_delimiter = ',',
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    filename: Vec<PathBuf>,
    /// All stored Applications of the cluster (or of --namespace).
    #[arg(long)]
    all: bool,
    /// With --all: also report what would be lost or not work with this controller.
    #[arg(long, requires = "all")]
    preflight: bool,
    /// With a definition: exit code 3 not only if Applications no longer render.
    #[arg(long, value_enum, default_value_t = FailOn::Broken)]
    fail_on: FailOn,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Flags of the controller, after `--`, instead of those of its Deployment.
    #[arg(last = true)]
    controller: Vec<OsString>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
    Markdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Broken,
    Restart,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    #[error("there is no Application and no definition in what was given")]
    Nothing,
}

/// Runs the command; `arguments` begin with [`COMMAND`].
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // 2 means changes here.
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let planned = block_on(run(&cli)).map_err(Error::from).and_then(|planned| planned);
    match planned {
        Ok((text, code)) => {
            output::show(&text);
            code
        }
        Err(error) => output::failed(error),
    }
}

/// How the program ends.
fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Nothing => ExitCode::SUCCESS,
        Verdict::Changes => ExitCode::from(2),
        Verdict::Refused => ExitCode::from(3),
        Verdict::Unknown => ExitCode::FAILURE,
    }
}

async fn run(cli: &Cli) -> Result<(String, ExitCode), Error> {
    let (client, namespace) = cli.cluster.connect().await?;
    let mut given = Vec::new();
    let mut changed = Vec::new();
    for mut object in files::objects(&cli.filename)? {
        if object.get("kind").is_some_and(|kind| kind == Application::KIND) {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.entry("namespace").or_insert_with(|| namespace.clone().into());
            }
            given.push(object);
        } else if let Some(definition) = Definition::from_object(&object) {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            let namespace = namespace.unwrap_or(&cli.cluster.system_namespace).to_owned();
            changed.push(NewDefinition { namespace, definition: Arc::new(definition) });
        }
    }
    if !changed.is_empty() {
        return impacts(cli, &client, changed).await;
    }
    if given.is_empty() && !cli.all {
        return Err(Error::Nothing);
    }
    let namespaces = namespaces(cli, &given);
    let authority = cli.cluster.authority().await?;
    let means = setup::means((client, &authority), &cli.controller, &namespaces).await?;
    let plans = if cli.all {
        all(&means, cli.cluster.namespace.as_deref()).await?
    } else {
        let mut plans = Vec::with_capacity(given.len());
        for object in &given {
            let present = setup::present(&means.client, object).await?;
            plans.push(one::plan(&means, &present, Some(object)).await?);
        }
        plans
    };
    let verdict = plans.iter().map(Plan::verdict).max().unwrap_or(Verdict::Nothing);
    Ok((print(cli, &plans), code(verdict)))
}

/// What changes of definitions do.
async fn impacts(
    cli: &Cli,
    client: &Client,
    changed: Vec<NewDefinition>,
) -> Result<(String, ExitCode), Error> {
    let system = &cli.cluster.system_namespace;
    let definitions = caches::definitions(client, system, &namespaces(cli, &[])).await?;
    let apps = caches::list::<Application>(client, cli.cluster.namespace.as_deref()).await?;
    let impacts = command::evaluate(move || {
        let renderer = Renderer::default();
        let of = |new: &NewDefinition| impact(&renderer, &definitions, new, &apps);
        changed.iter().map(of).collect::<Vec<Impact>>()
    })?;
    let fails = |impact: &Impact| {
        !impact.broken.is_empty() || (cli.fail_on == FailOn::Restart && impact.restarts().0 > 0)
    };
    let verdict = if impacts.iter().any(fails) {
        Verdict::Refused
    } else if impacts.iter().any(|impact| !impact.changed.is_empty()) {
        Verdict::Changes
    } else {
        Verdict::Nothing
    };
    let texts = || impacts.iter().map(Impact::text).collect::<Vec<_>>().join("\n");
    let text = match cli.output {
        Output::Json => {
            let all = json!({ "definitions": impacts });
            serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
        }
        Output::Markdown => format!("~~~~~~~~text\n{}~~~~~~~~\n", texts()),
        Output::Text => texts(),
    };
    Ok((text, code(verdict)))
}

/// Whose definitions are read: of all namespaces only for all Applications of all of them.
fn namespaces(cli: &Cli, given: &[Value]) -> Vec<String> {
    if given.is_empty() && cli.cluster.namespace.is_none() {
        return Vec::new();
    }
    let mut all = vec![cli.cluster.system_namespace.clone()];
    all.extend(cli.cluster.namespace.clone());
    let named = given.iter().filter_map(|app| app.pointer("/metadata/namespace")?.as_str());
    all.extend(named.map(str::to_owned));
    all.sort();
    all.dedup();
    all
}

/// Plans of all Applications, as they are.
async fn all(means: &Means, namespace: Option<&str>) -> Result<Vec<Plan>, Error> {
    let mut plans = Vec::new();
    for app in caches::list::<Application>(&means.client, namespace).await? {
        if app.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let object = serde_json::to_value(&app).map_err(PlanError::from)?;
        let present = setup::present(&means.client, &object).await?;
        plans.push(one::plan(means, &present, None).await?);
    }
    Ok(plans)
}

fn print(cli: &Cli, plans: &[Plan]) -> String {
    match cli.output {
        Output::Json => {
            let all = json!({ "applications": plans });
            serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
        }
        Output::Markdown => {
            plans.iter().filter(|plan| !cli.all || is_worth(plan)).map(report::markdown).collect()
        }
        Output::Text if cli.all => overview(plans, cli.preflight),
        Output::Text => plans.iter().map(report::text).collect::<Vec<_>>().join("\n"),
    }
}

fn is_worth(plan: &Plan) -> bool {
    plan.verdict() != Verdict::Nothing || !plan.notes.is_empty()
}

/// All Applications in a few lines.
fn overview(plans: &[Plan], preflight: bool) -> String {
    let count = |verdict: Verdict| plans.iter().filter(|plan| plan.verdict() == verdict).count();
    let differ = count(Verdict::Changes) + count(Verdict::Refused);
    let mut out = format!(
        "{} Applications: {} unchanged, {differ} differ, {} not possible\n",
        plans.len(),
        count(Verdict::Nothing),
        count(Verdict::Unknown),
    );
    for plan in plans.iter().filter(|plan| is_worth(plan)) {
        out.push_str(&report::text(plan));
    }
    if preflight {
        let authors = plans.iter().filter(|plan| plan.has_no_author).count();
        if authors > 0 {
            out.push_str(&format!(
                "Authors: {authors} Applications have none (authentication.enabled must be false).\n"
            ));
        }
    }
    out
}
