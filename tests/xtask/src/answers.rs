//! `cargo xtask answers KIND FILE.jsonl`: what this implementation answers to corpus records.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// cue, render or admission
    kind: String,
    /// The records, one JSON object a line
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(answer) = vela_tests::answers::kind(&args.kind) else {
        bail!(
            "no answers of kind {:?}: choose cue, render, admission, admission-cue-gates or admission-auth-gates",
            args.kind
        );
    };
    let file =
        File::open(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    vela_tests::answers::run(answer, BufReader::new(file), BufWriter::new(std::io::stdout()))?;
    Ok(ExitCode::SUCCESS)
}
