//! `cargo xtask charts`: the chart, from lint to a real node.
//!
//! | part | what |
//! |---|---|
//! | `render` | lint, and rendering with several sets of values; also part of `cargo xtask test` |
//! | `readme` | writes the table of values into the chart's README |
//! | `lifecycle` | the real helm on a real API server, both programs as processes: upgrade over a Go installation, upgrades, rollbacks, removal |
//! | `node` | the same on a node that runs containers: containerd, kubelet and kube-proxy in namespaces of their own |

mod lifecycle;
mod node;
mod predecessor;
mod render;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Profile};
use vela_tests::material::workspace;
use vela_tests::release::readme;

pub(crate) use self::render::check;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these parts; may repeat
    #[arg(long, value_name = "render|readme|lifecycle|node")]
    only: Vec<String>,
    /// Build the programs in the dev profile: quicker to build, slower to run
    #[arg(long)]
    dev: bool,
    /// The part `node`, inside its namespaces, with containers in this folder
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

const PARTS: [&str; 4] = ["render", "readme", "lifecycle", "node"];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(odd) = args.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("there is no part {odd:?}; there are {}", PARTS.join(", "));
    }
    // Building the workspace may put another file in our place.
    let program = std::env::current_exe()?;
    let profile = if args.dev { Profile::Dev } else { Profile::Release };
    if let Some(dir) = &args.inside {
        let binaries = Binaries::find(profile);
        tokio::runtime::Runtime::new()?.block_on(node::inside(dir, &binaries))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |part: &str| args.only.is_empty() || args.only.iter().any(|one| one == part);
    if wanted("render") {
        check()?;
    }
    if wanted("readme") {
        let (is, wanted) = readme()?;
        if is != wanted {
            std::fs::write(workspace().join("charts/vela-core/README.md"), wanted)?;
        }
    }
    if wanted("lifecycle") {
        let binaries = Binaries::build(profile)?;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(async {
            let cluster = Arc::new(Cluster::start("charts").await?);
            lifecycle::run(cluster, binaries).await
        })?;
    }
    if wanted("node") {
        Binaries::build(profile)?;
        node::outside(&program, args.dev)?;
    }
    Ok(ExitCode::SUCCESS)
}
