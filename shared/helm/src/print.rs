//! What `helm template` prints of a rendered chart.

use crate::glob::path_match;
use crate::hooks::HookEvent;
use crate::manifest::split;
use crate::render::{Rendered, push};

/// What is printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Show {
    /// The files of `crds/` too, before everything else.
    pub crds: bool,
    /// Leave out hooks.
    pub no_hooks: bool,
    /// No hooks that are tests.
    pub skip_tests: bool,
    /// Only the files that match one of these patterns, by their paths within the root chart, in this order.
    pub only: Vec<String>,
}

/// A pattern that no file matches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not find template {0} in chart")]
pub struct NotShown(pub String);

/// The text that `helm template` prints.
///
/// # Errors
/// A pattern that no file matches.
pub fn print(rendered: &Rendered, show: &Show) -> Result<String, NotShown> {
    let mut manifest = String::new();
    if show.crds {
        for crd in &rendered.crds {
            push(&mut manifest, &crd.source, &crd.text);
        }
    }
    manifest.push_str(&rendered.manifest());
    let mut out = manifest.trim().to_owned();
    out.push('\n');
    if !show.no_hooks {
        for hook in &rendered.hooks {
            if !(show.skip_tests && hook.events.contains(&HookEvent::Test)) {
                push(&mut out, &hook.document.source, &hook.document.text);
            }
        }
    }
    if show.only.is_empty() {
        return Ok(out);
    }
    let mut chosen = String::new();
    for pattern in &show.only {
        let mut found = false;
        for document in split(&out) {
            let path = document.lines().find_map(|line| line.strip_prefix("# Source: "));
            let path = path.and_then(|path| path.split_once('/')).map(|(_, path)| path);
            if path.is_some_and(|path| path_match(pattern, path).unwrap_or(false)) {
                chosen.push_str("---\n");
                chosen.push_str(document);
                chosen.push('\n');
                found = true;
            }
        }
        if !found {
            return Err(NotShown(pattern.clone()));
        }
    }
    Ok(chosen)
}
