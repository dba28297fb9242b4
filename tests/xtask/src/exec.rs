//! `cargo xtask exec`.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    bail!("`cargo xtask exec` does not exist yet")
}
