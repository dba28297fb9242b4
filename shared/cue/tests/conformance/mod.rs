//! Answers to the records of the CUE conformance corpus.
//!
//! Two users share this module: the test target beside it, and `cargo xtask answers cue`.

pub(crate) mod json;
pub(crate) mod record;
mod syntax;

use json::Json;
use record::Record;

/// Answers one record of any category: the keys of its `expect`, or `error` and `class`, or
/// `unsupported`.
pub(crate) fn answer(json: &Json) -> Json {
    let record = Record::new(json);
    let answer = match record.kind() {
        "scan" => syntax::scan(&record),
        "literal" => syntax::literal(&record),
        "parse" => syntax::parse_files(&record),
        kind => {
            let reason = format!("{}: no answers of kind {kind:?} yet", record.category());
            Json::object([("unsupported", reason.into())])
        }
    };
    let mut members = vec![("id".to_owned(), Json::from(record.id()))];
    if let Json::Object(rest) = answer {
        members.extend(rest);
    }
    Json::Object(members)
}
