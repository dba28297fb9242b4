//! `cargo xtask bench`.

use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    bail!("`cargo xtask bench` does not exist yet")
}
