//! `cargo xtask bench WHAT`: time, memory and API calls.

mod admission;
mod bench_env;
mod clusters;
mod controller;
mod cue;
mod edits;
mod fair;
mod fleet;
mod helm;
mod large;
mod memory;
mod render;
mod settled;
mod smoke;
mod workflow;

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
    /// Load the webhook with small and large Applications from few and many clients
    Admission(admission::Args),
    /// A hub and members: edits, a member that swallows everything, idle and settled members
    Clusters(clusters::Args),
    /// The life of many Applications: create, resync, edit, drift, restart, delete
    Controller(controller::Args),
    /// Compare our CUE evaluator with Go's: time of warm and cold renders, memory
    Cue(cue::Args),
    /// What a tenant waits for while another one edits everything it has, or while everything is resynced
    Fair(fair::Args),
    /// Replicas that share: crashes and planned stops under edits, creation by one, two and three
    Fleet(fleet::Args),
    /// Compare our Helm engine with Helm's: time and memory of renders
    Helm(helm::Args),
    /// One Application of 500 and of 2,000 objects, and one of 200 components
    Large(large::Args),
    /// What the controller keeps of many settled Applications: memory, start, passes without a change
    Memory(memory::Args),
    /// Measure a component with three traits: time and allocated bytes, warm and cold, and compiled definitions
    Render,
    /// Create Applications of one webservice each, wait until all run, delete them
    Smoke(smoke::Args),
    /// Run long workflows, and watch many that wait
    Workflow(workflow::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Admission(args) => admission::run(args),
        What::Clusters(args) => clusters::run(args),
        What::Controller(args) => controller::run(args),
        What::Cue(args) => cue::run(args),
        What::Fair(args) => fair::run(args),
        What::Fleet(args) => fleet::run(args),
        What::Helm(args) => helm::run(args),
        What::Large(args) => large::run(args),
        What::Memory(args) => memory::run(args),
        What::Render => render::run(),
        What::Smoke(args) => smoke::run(args),
        What::Workflow(args) => workflow::run(args),
    }
}
