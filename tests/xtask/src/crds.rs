//! `cargo xtask crds`: writes the CustomResourceDefinitions into the chart.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use vela_tests::material::workspace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file would change.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folder = workspace().join("charts/vela-core/crds");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let crds = vela_api::crd::all();
    let mut stale = Vec::new();
    for crd in &crds {
        let path = folder.join(crd.file_name());
        let text = crd.to_yaml();
        if fs::read_to_string(&path).ok().as_deref() == Some(text.as_str()) {
            continue;
        }
        if !args.check {
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        stale.push(crd.file_name());
    }
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !crds.iter().any(|crd| crd.file_name() == name) {
            if !args.check {
                fs::remove_file(folder.join(&name)).with_context(|| format!("remove {name}"))?;
            }
            stale.push(name);
        }
    }
    if stale.is_empty() {
        println!("crds: {} files up to date", crds.len());
        return Ok(ExitCode::SUCCESS);
    }
    let done = if args.check { "out of date" } else { "written" };
    println!("crds: {done}: {}", stale.join(", "));
    Ok(if args.check { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
