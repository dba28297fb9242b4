//! `--output-dir`: a file for each template, as `helm template` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path};

use vela_helm::{HookEvent, Rendered, Show};

use super::Error;

/// Writes what would be printed into files under a directory, and says which.
pub(super) fn files(rendered: &Rendered, show: &Show, folder: &Path) -> Result<String, Error> {
    let crds = rendered.crds.iter().filter(|_| show.crds);
    let crds = crds.map(|crd| (crd.source.as_str(), crd.text.as_str()));
    let documents = rendered.documents.iter();
    let is_shown = |events: &[HookEvent]| {
        !(show.no_hooks || show.skip_tests && events.contains(&HookEvent::Test))
    };
    let hooks = rendered.hooks.iter().filter(|hook| is_shown(&hook.events));
    let documents = documents.chain(hooks.map(|hook| &hook.document));
    let documents = documents.map(|it| (it.source.as_str(), it.text.as_str()));
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut said = String::new();
    for (source, text) in crds.chain(documents) {
        let all = texts.entry(source).or_default();
        let _ = write!(all, "---\n# Source: {source}\n{text}\n");
        let _ = writeln!(said, "wrote {}", folder.join(source).display());
    }
    for (source, text) in texts {
        if !Path::new(source).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Error::Outside(source.to_owned()));
        }
        let path = folder.join(source);
        let failed = |error| Error::Write { path: path.clone(), error };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, text).map_err(failed)?;
    }
    said.push('\n');
    Ok(said)
}
