//! `cargo xtask graph`: draws the crates and their dependencies into ARCHITECTURE.md.

use std::process::ExitCode;

use anyhow::Result;
use vela_tests::graph;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the drawing would change.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let changes = if args.check {
        let (is, wanted) = graph::document()?;
        is != wanted
    } else {
        graph::write()?
    };
    println!("graph: {}", if changes { "changed" } else { "up to date" });
    Ok(if args.check && changes { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
