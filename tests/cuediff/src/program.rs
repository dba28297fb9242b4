//! A program: named texts.

use std::fmt;

use crate::conformance::json::Json;
use crate::syntax::{self, Order};

/// The module whose packages are the folders of a program.
pub(crate) const MODULE: &str = "test.example";

/// The files of one program. Files without a folder are the program itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    files: Vec<(String, String)>,
}

impl Program {
    pub(crate) fn new(files: Vec<(String, String)>) -> Self {
        Self { files }
    }

    pub(crate) fn single(text: &str) -> Self {
        Self::new(vec![("in.cue".to_owned(), text.to_owned())])
    }

    pub(crate) fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// The same program with another text for one file.
    pub(crate) fn with(&self, file: usize, text: String) -> Self {
        let mut other = self.clone();
        if let Some((_, old)) = other.files.get_mut(file) {
            *old = text;
        }
        other
    }

    pub(crate) fn without(&self, file: usize) -> Self {
        let mut other = self.clone();
        if file < other.files.len() {
            other.files.remove(file);
        }
        other
    }

    /// With all declarations in another order, if all files have a tree.
    pub(crate) fn reordered(&self, order: Order) -> Option<Self> {
        let files = self.files.iter();
        let files = files.map(|(name, text)| Some((name.clone(), syntax::reordered(text, order)?)));
        Some(Self { files: files.collect::<Option<_>>()? })
    }

    /// Bytes in all files.
    pub(crate) fn size(&self) -> usize {
        self.files.iter().map(|(_, text)| text.len()).sum()
    }

    /// A line for the oracle.
    pub(crate) fn request(&self) -> Json {
        Json::object([("files", self.texts())])
    }

    /// A record of the conformance corpus that asks for one sort of answer.
    pub(crate) fn record(&self, kind: &str) -> Json {
        let mut files = vec![(
            "cue.mod/module.cue".to_owned(),
            format!("module: \"{MODULE}\"\nlanguage: version: \"v0.14.1\"\n").into(),
        )];
        if let Json::Object(members) = self.texts() {
            files.extend(members);
        }
        let mut args: Vec<Json> = Vec::new();
        for (name, _) in &self.files {
            if !name.contains('/') {
                args.push(name.as_str().into());
            }
        }
        Json::object([
            ("id", "generated".into()),
            ("category", "tree".into()),
            ("files", Json::Object(files)),
            ("args", Json::Array(args)),
            ("expect", Json::object([("kind", kind.into())])),
        ])
    }

    fn texts(&self) -> Json {
        let member = |(name, text): &(String, String)| (name.clone(), text.as_str().into());
        Json::Object(self.files.iter().map(member).collect())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in &self.files {
            if self.files.len() > 1 {
                writeln!(f, "-- {name} --")?;
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}
