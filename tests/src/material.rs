//! Where things are: the workspace, and the conformance material next to it.
//!
//! The material (specifications, recordings, tools) is not part of this repository. Tests that
//! need it ask [`conformance`] and skip with a count when it is absent; the project's own cases
//! always run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace (the folder of the top `Cargo.toml`).
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that runs this program, in the root of the workspace.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// The `target` folder of this build, where logs, caches and run directories go.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The conformance material: `../shared` next to the workspace, or `$VELA_CONFORMANCE`.
#[must_use]
pub fn conformance() -> Option<PathBuf> {
    let dir = std::env::var_os("VELA_CONFORMANCE").map_or_else(
        || workspace().parent().map(|parent| parent.join("shared")),
        |dir| Some(PathBuf::from(dir)),
    )?;
    dir.join("recordings").is_dir().then_some(dir)
}
