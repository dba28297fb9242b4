//! `cargo xtask cue diff` and `cargo xtask helm diff`: one of our engines compared with Go's on generated inputs.
//!
//! Each comparison is a program of its own (`tests/cuediff`, `tests/helmdiff`), built with optimisation: it runs hundreds of
//! inputs a second.

use std::process::ExitCode;

use anyhow::{Context, Result};
use vela_tests::material;

#[derive(clap::Subcommand)]
pub(crate) enum Args {
    /// Compare on inputs without end; everything behind `diff` goes to the comparing program
    Diff {
        /// As `diff --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// A comparing program.
pub(crate) struct Comparison {
    package: &'static str,
    /// Below the conformance material.
    corpus: &'static str,
    /// What it leaves out without that.
    skipped: &'static str,
}

pub(crate) const CUE: Comparison =
    Comparison { package: "cue-diff", corpus: "corpus/cue/dev", skipped: "family corpus" };
pub(crate) const HELM: Comparison = Comparison {
    package: "helm-diff",
    corpus: "corpus/helm",
    skipped: "families corpus and charts",
};

impl Comparison {
    pub(crate) fn run(&self, args: &Args) -> Result<ExitCode> {
        let Args::Diff { args } = args;
        let mut command = material::cargo();
        command.args(["run", "--quiet", "--release", "--locked", "--package", self.package, "--"]);
        match material::conformance() {
            Some(material) => {
                command.arg("--corpus").arg(material.join(self.corpus));
            }
            None => println!("SKIPPED: {}: the conformance material is absent", self.skipped),
        }
        let status = command.args(args).status().context("cannot run cargo")?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
