//! `cargo xtask cue diff`: our CUE evaluator compared with both of Go's on generated programs.
//!
//! The comparison is a program of its own (`tests/cuediff`), built with optimisation: it runs
//! hundreds of programs a second.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use vela_tests::material;

#[derive(clap::Subcommand)]
pub(crate) enum Args {
    /// Compare with Go on programs without end; everything behind `diff` goes to tests/cuediff
    Diff {
        /// As `cargo xtask cue diff --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Args::Diff { args } = args;
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--locked", "--package", "cue-diff", "--"]);
    match material::conformance() {
        Some(material) => {
            command.arg("--corpus").arg(material.join("corpus/cue/dev"));
        }
        None => println!("SKIPPED: family corpus: the conformance material is absent"),
    }
    let status = command
        .args(args)
        .current_dir(material::workspace())
        .status()
        .context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
