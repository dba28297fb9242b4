//! A record of the corpus.

use super::json::Json;

/// A record and what most answers need of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) json: &'a Json,
}

impl<'a> Record<'a> {
    pub(crate) fn new(json: &'a Json) -> Self {
        Self { json }
    }

    pub(crate) fn id(self) -> &'a str {
        self.json.str("id").unwrap_or_default()
    }

    pub(crate) fn category(self) -> &'a str {
        self.json.str("category").unwrap_or_default()
    }

    /// What form of answer is wanted.
    pub(crate) fn kind(self) -> &'a str {
        self.json.get("expect").and_then(|expect| expect.str("kind")).unwrap_or_default()
    }

    pub(crate) fn file(self, name: &str) -> Option<&'a str> {
        self.json.get("files")?.str(name)
    }

    pub(crate) fn files(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self.json.get("files").map(Json::as_object).unwrap_or_default();
        files.iter().filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
    }

    /// The text of the only or main file.
    pub(crate) fn main_text(self) -> &'a str {
        self.file("in.cue")
            .or_else(|| self.files().next().map(|(_, text)| text))
            .unwrap_or_default()
    }

    /// The files that `args` name; without `args`, `in.cue`.
    pub(crate) fn loaded(self) -> Vec<(&'a str, &'a str)> {
        let args = self.json.strings("args");
        let named: Vec<_> = self.files().filter(|(name, _)| args.contains(name)).collect();
        if named.is_empty() { vec![("in.cue", self.main_text())] } else { named }
    }
}
