//! The ids of the records that pass (`*.passing` in this folder). The lists only grow: a record
//! that once passed has to pass, one that passes and is not listed is counted, and
//! `UPDATE_RATCHET=1` adds it. Shared by the test programs that have one trial per record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A list of passing records.
#[derive(Debug)]
pub(crate) struct Ratchet {
    path: PathBuf,
    head: &'static str,
    known: BTreeSet<String>,
}

impl Ratchet {
    /// Reads `tests/corpus/NAME.passing`; `what` the records are is its first line.
    pub(crate) fn read(workspace: &Path, name: &str, what: &'static str) -> Self {
        let path = workspace.join(format!("tests/corpus/{name}.passing"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let ids = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self { known: ids.map(str::to_owned).collect(), path, head: what }
    }

    /// Whether a record has to pass.
    pub(crate) fn requires(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// How many of the records that passed are not listed. They are added if somebody asks for it,
    /// but not by a run of some records only.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub(crate) fn learn(
        &self,
        passing: &BTreeSet<String>,
        filtered: bool,
    ) -> std::io::Result<usize> {
        let new = passing.difference(&self.known).count();
        if new > 0 && !filtered && std::env::var_os("UPDATE_RATCHET").is_some() {
            let mut text = format!("# {} that pass; only grows.\n", self.head);
            for id in self.known.union(passing) {
                text.push_str(id);
                text.push('\n');
            }
            std::fs::write(&self.path, text)?;
        }
        Ok(new)
    }
}
