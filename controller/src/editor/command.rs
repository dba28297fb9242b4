//! `vela-controller schema`: the schema of Applications, of a cluster's types or of definitions in files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vela_cluster::{ApiError, Store, Stored};
use vela_render::schema::editor::{self, EditorType};
use vela_render::{DefinitionKind, Renderer};

use super::Known;
use crate::command::files::{self, FileError};
use crate::command::output;
use crate::command::{self, ClusterArgs, EvaluationError, block_on, caches};
use crate::definitions::Definitions;

/// The word that makes a program of this.
pub const COMMAND: &str = "schema";

#[derive(Debug, Parser)]
#[command(
    name = "vela-controller schema",
    about = "The JSON Schema of Applications: what each type takes, for editors and checks without a cluster"
)]
struct Cli {
    /// Definitions in files and folders (CUE, YAML) instead of those of the cluster.
    #[arg(short, long, value_delimiter = ',')]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Why nothing is printed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{0} {1} cannot be read: {2}")]
    Definition(String, String, String),
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

/// Runs the command; `arguments` begin with [`COMMAND`].
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match command::parsed(arguments) {
        Ok(cli) => cli,
        Err(ended) => return ended,
    };
    match run(&cli) {
        Ok(schema) => {
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
            output::data(&format!("{text}\n"));
            ExitCode::SUCCESS
        }
        Err(error) => output::failed(error),
    }
}

fn run(cli: &Cli) -> Result<Value, Error> {
    let definitions = if cli.filename.is_empty() {
        block_on(of_cluster(&cli.cluster))??
    } else {
        of_files(&files::objects(&cli.filename)?, &cli.cluster.system_namespace)?
    };
    // Definitions of files have any namespace, and there may be others that nobody gave us.
    let is_offline = !cli.filename.is_empty();
    // Whoever asks by command may read the definitions himself: none is left out.
    let (found, is_complete) = super::types(&definitions, |_| true);
    let types = command::evaluate(move || {
        let (renderer, mut known) = (Renderer::default(), Known::default());
        let of = |one: &super::Found| {
            let parameters = match known.get(one) {
                Some(parameters) => parameters.clone(),
                None => {
                    let parameters = renderer.editor_parameters(&one.definition);
                    known.put(one, parameters.clone());
                    parameters
                }
            };
            one.with(parameters)
        };
        found.iter().map(of).collect::<Vec<EditorType>>()
    })?;
    Ok(editor::application(&types, is_complete && !is_offline))
}

async fn of_cluster(flags: &ClusterArgs) -> Result<Definitions, Error> {
    let (client, namespace) = flags.connect().await?;
    let mut namespaces = vec![flags.system_namespace.clone(), namespace];
    namespaces.dedup();
    Ok(caches::definitions(&client, &flags.system_namespace, &namespaces).await?)
}

/// The definitions among the objects of files.
fn of_files(objects: &[Value], system_namespace: &str) -> Result<Definitions, Error> {
    let all =
        Definitions { system_namespace: system_namespace.to_owned(), ..Definitions::default() };
    for object in objects {
        match object.get("kind").and_then(Value::as_str).and_then(DefinitionKind::named) {
            Some(DefinitionKind::Component) => put(object, &all.components)?,
            Some(DefinitionKind::Trait) => put(object, &all.traits)?,
            Some(DefinitionKind::Policy) => put(object, &all.policies)?,
            Some(DefinitionKind::WorkflowStep) => put(object, &all.steps)?,
            _ => {}
        }
    }
    Ok(all)
}

fn put<T: Stored + DeserializeOwned>(object: &Value, store: &Store<T>) -> Result<(), Error> {
    let read = serde_json::from_value(object.clone()).map_err(|error| {
        let text = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Error::Definition(text("/kind"), text("/metadata/name"), error.to_string())
    })?;
    let _ = store.put(read);
    Ok(())
}
