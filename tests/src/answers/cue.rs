//! Answers of kind `cue`.
//!
//! They are computed by the module that the corpus test of crate `cue` uses, so that the two cannot
//! disagree.

#[path = "../../../shared/cue/tests/conformance/mod.rs"]
mod conformance;
#[path = "../../../shared/render/tests/vela/mod.rs"]
mod vela;

use conformance::json::Json;

/// The answer to one record of kind `cue`, as JSON text: numbers keep all their digits.
#[must_use]
pub fn answer(line: &str) -> String {
    // What is about KubeVela rather than the language is the renderer's business.
    if let Ok(record) = serde_json::from_str(line)
        && let Some(reply) = vela::answer(&record)
    {
        return reply.to_string();
    }
    match Json::parse(line) {
        Ok(record) => conformance::answer(&record).to_string(),
        Err(error) => {
            Json::object([("error", error.into()), ("class", "input".into())]).to_string()
        }
    }
}
