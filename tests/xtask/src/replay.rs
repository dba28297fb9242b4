//! `cargo xtask replay`.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    bail!("`cargo xtask replay` does not exist yet")
}
