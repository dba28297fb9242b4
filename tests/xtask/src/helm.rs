//! `cargo xtask helm diff`: our Helm engine and Helm's own packages on generated charts.
//!
//! The comparison is a program of its own (`tests/helmdiff`), built with optimisation: it renders
//! hundreds of charts a second.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use vela_tests::material;

#[derive(clap::Subcommand)]
pub(crate) enum Args {
    /// Compare with Helm on charts without end; everything behind `diff` goes to tests/helmdiff
    Diff {
        /// As `cargo xtask helm diff --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Args::Diff { args } = args;
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--locked", "--package", "helm-diff", "--"]);
    match material::conformance() {
        Some(material) => {
            command.arg("--corpus").arg(material.join("corpus/helm"));
        }
        None => println!("SKIPPED: families corpus and charts: the conformance material is absent"),
    }
    let status = command
        .args(args)
        .current_dir(material::workspace())
        .status()
        .context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
