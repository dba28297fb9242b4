//! `cargo xtask bench WHAT`: time, memory and API calls, measured on a real control plane.

mod smoke;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Create Applications of one webservice each, wait until all run, delete them
    Smoke(smoke::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Smoke(args) => smoke::run(args),
    }
}
