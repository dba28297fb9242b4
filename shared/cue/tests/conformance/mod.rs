//! Answers to the records of the CUE conformance corpus.
//!
//! Two users share this module: the test target beside it, and `cargo xtask answers cue`.

mod arguments;
mod command;
mod definitions;
mod embed;
mod eval;
mod imports;
pub(crate) mod json;
mod load;
mod package;
mod print;
pub(crate) mod record;
mod syntax;
mod tags;
mod tree;

use json::Json;
use record::Record;

/// Whether a file turns on an experiment of the reference.
fn experiments(record: &Record<'_>) -> bool {
    record.files().any(|(_, text)| text.lines().any(|l| l.starts_with("@experiment(")))
}

/// Answers one record of any category: the keys of its `expect`, or `error` and `class`, or
/// `unsupported`.
pub(crate) fn answer(json: &Json) -> Json {
    let record = Record::new(json);
    let group = record.category().split('/').next().unwrap_or_default();
    let answer = match (group, record.kind()) {
        _ if experiments(&record) => {
            Json::object([("unsupported", "experiments of single files".into())])
        }
        (_, "scan") => syntax::scan(&record),
        (_, "literal") => syntax::literal(&record),
        (_, "parse") => syntax::parse_files(&record),
        ("stdlib", "cue") => eval::syntax(&record),
        (_, "fields") => eval::fields(&record),
        (_, "tree") => tree::tree(&record),
        (_, "same") => tree::same(&record),
        (_, "equal") => tree::equal(&record),
        (_, "subsumes") => tree::subsumes(&record),
        ("api-unify", _) => eval::unify(&record),
        ("api-validate", _) => eval::validate(&record),
        ("vela-status", _) => eval::status(&record),
        ("script" | "docs", _) => command::run(&record),
        ("vela-render" | "vela-patch" | "vela-upgrade", _)
        | (_, "objects" | "text" | "text-re" | "cue") => {
            let reason = format!("{}: no answers of kind {:?} yet", group, record.kind());
            Json::object([("unsupported", reason.into())])
        }
        _ => eval::export(&record),
    };
    let mut members = vec![("id".to_owned(), Json::from(record.id()))];
    if let Json::Object(rest) = answer {
        members.extend(rest);
    }
    Json::Object(members)
}
