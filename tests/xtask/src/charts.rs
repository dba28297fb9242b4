//! `cargo xtask charts`.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    bail!("`cargo xtask charts` does not exist yet")
}
