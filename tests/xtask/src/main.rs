//! Developer tasks, run as `cargo xtask COMMAND`; nothing has to be installed for them.
//!
//! One file per command. `up` is the main one: a real control plane and a real Application on it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its user"
)]
#![allow(
    clippy::indexing_slicing,
    reason = "only JSON values are indexed, and those answer null for what is not there"
)]

mod answers;
mod bench;
mod charts;
mod compare;
mod control;
mod crds;
mod definitions;
mod exec;
mod failures;
mod graph;
mod replay;
mod side_by_side;
mod test;
mod tree;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of vela-rs", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a control plane, deploy vela-rs on it and run an example Application
    Up(up::Args),
    /// Run a command against a control plane with vela-rs deployed on it
    Exec(exec::Args),
    /// Run all checks and tests, cheap ones first
    Test(test::Args),
    /// Write the CustomResourceDefinitions into the chart
    Crds(crds::Args),
    /// Write the built-in definitions into the chart
    Definitions(definitions::Args),
    /// Draw the crates and their dependencies into ARCHITECTURE.md
    Graph(graph::Args),
    /// Answer records of the conformance corpus
    Answers(answers::Args),
    /// Measure time, memory and API calls
    Bench(bench::Args),
    /// Compare the CUE evaluator with Go's
    #[command(subcommand)]
    Cue(compare::Args),
    /// Compare the Helm engine with Helm
    #[command(subcommand)]
    Helm(compare::Args),
    /// Replay recorded cases and score them
    Replay(replay::Args),
    /// Lint, render, install, upgrade and remove the chart
    Charts(charts::Args),
    /// Kill or start the controller of a running `exec`
    #[command(hide = true)]
    Control(control::Args),
}

fn main() -> ExitCode {
    let outcome = match &Args::parse().command {
        Command::Up(args) => up::run(args),
        Command::Exec(args) => exec::run(args),
        Command::Test(args) => test::run(args),
        Command::Crds(args) => crds::run(args),
        Command::Definitions(args) => definitions::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Answers(args) => answers::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Cue(args) => compare::CUE.run(args),
        Command::Helm(args) => compare::HELM.run(args),
        Command::Replay(args) => replay::run(args),
        Command::Charts(args) => charts::run(args),
        Command::Control(args) => control::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
