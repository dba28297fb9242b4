//! The records whose answer differs on purpose (`*.divergent` in this folder), each with the note
//! of `docs/compatibility/` that gives the reason. Every record has to pass or to be listed, and
//! no record that passes may be.

use std::collections::BTreeMap;
use std::path::Path;

/// Listed records and their notes.
#[derive(Debug)]
pub(crate) struct Divergent(BTreeMap<String, String>);

impl Divergent {
    /// Reads `tests/corpus/NAME.divergent` of every name.
    ///
    /// # Errors
    /// A line without a note, or with one that is not in the document.
    pub(crate) fn read(workspace: &Path, names: &[&str]) -> Result<Self, String> {
        let read = |path: &str| {
            let path = workspace.join(path);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut notes = String::new();
        for entry in
            std::fs::read_dir(workspace.join("docs/compatibility")).map_err(|e| e.to_string())?
        {
            let path = entry.map_err(|e| e.to_string())?.path();
            notes +=
                &std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let mut all = BTreeMap::new();
        for name in names {
            for line in read(&format!("tests/corpus/{name}.divergent"))?.lines() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (id, note) = line.split_once(' ').ok_or(format!("no note: {line}"))?;
                if !notes.contains(&format!("<a id=\"{note}\">")) {
                    return Err(format!("{note} of {id} is not in docs/compatibility"));
                }
                all.insert(id.to_owned(), note.to_owned());
            }
        }
        Ok(Self(all))
    }

    /// What is wrong with a record whose answer differs by `bad`, or does not.
    pub(crate) fn verdict(&self, id: &str, bad: Option<&str>) -> Result<Option<&str>, String> {
        match (bad, self.0.get(id)) {
            (Some(bad), None) => Err(bad.to_owned()),
            (None, Some(note)) => Err(format!("passes and is listed as divergent by {note}")),
            (Some(_), Some(note)) => Ok(Some(note)),
            (None, None) => Ok(None),
        }
    }
}
