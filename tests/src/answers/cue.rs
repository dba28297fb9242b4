//! Answers of kind `cue`.
//!
//! They are computed by the module that the corpus test of crate `cue` uses, so that the two cannot
//! disagree.

#[path = "../../../shared/cue/tests/conformance/mod.rs"]
mod conformance;

use conformance::json::Json;

/// The answer to one record of kind `cue`, as JSON text: numbers keep all their digits.
#[must_use]
pub fn answer(line: &str) -> String {
    match Json::parse(line) {
        Ok(record) => conformance::answer(&record).to_string(),
        Err(error) => {
            Json::object([("error", error.into()), ("class", "input".into())]).to_string()
        }
    }
}
