//! The programs, built by cargo.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::material;
use crate::progress::Step;

/// How they are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build, slow to run.
    Dev,
    /// As shipped, but without link-time optimisation: that is minutes for a few percent.
    Release,
}

const DEPLOYABLES: [&str; 2] = ["vela-webhook", "vela-controller"];
const GATEWAY: &str = "vela-gateway";
/// The profile in which the gateway is shipped.
const SMALL: &str = "small";

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `vela-controller`.
    pub controller: PathBuf,
    /// `vela-webhook`.
    pub webhook: PathBuf,
    /// `vela-gateway`.
    pub gateway: PathBuf,
}

impl Binaries {
    /// Builds the two deployables; when nothing changed this takes a second.
    ///
    /// # Errors
    /// When the build fails; cargo has said why on standard error.
    pub fn build(profile: Profile) -> Result<Self> {
        Self::build_some(profile, &DEPLOYABLES)?;
        Ok(Self::find(profile))
    }

    /// Builds the gateway, too.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn with_gateway(profile: Profile) -> Result<Self> {
        match profile {
            Profile::Dev => Self::build_some(profile, &[DEPLOYABLES[0], DEPLOYABLES[1], GATEWAY])?,
            Profile::Release => {
                Self::build_some(profile, &DEPLOYABLES)?;
                Self::build_some(profile, &[GATEWAY])?;
            }
        }
        Ok(Self::find(profile))
    }

    fn build_some(profile: Profile, names: &[&str]) -> Result<()> {
        let (folder, selected, flags): (_, _, &[&str]) = match profile {
            // Of the whole workspace, so that features are those of `cargo test` and nothing is
            // compiled twice.
            Profile::Dev => ("debug", "--bin", &["--workspace"]),
            // Exactly what ships: its memory is that of its program.
            Profile::Release if names == [GATEWAY] => (SMALL, "-p", &["--profile", SMALL]),
            // What ships, but for the slow link.
            Profile::Release => {
                ("release", "-p", &["--release", "--config", "profile.release.lto=false"])
            }
        };
        let step = Step::start(format!("building the programs ({folder})"));
        let output = material::cargo()
            .args(["build", "--quiet", "--locked"])
            .args(flags)
            .args(names.iter().flat_map(|name| [selected, *name]))
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            bail!(
                "building the programs failed:\n{}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        step.done();
        Ok(())
    }

    /// Where they are, built or not.
    #[must_use]
    pub fn find(profile: Profile) -> Self {
        let (folder, small) = match profile {
            Profile::Dev => ("debug", "debug"),
            Profile::Release => ("release", SMALL),
        };
        let path = |folder: &str, name: &str| material::target().join(folder).join(name);
        Self {
            controller: path(folder, "vela-controller"),
            webhook: path(folder, "vela-webhook"),
            gateway: path(small, GATEWAY),
        }
    }
}
