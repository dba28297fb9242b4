//! Answers of kind `render`.

use serde_json::{Value, json};

/// The answer to one record of kind `render`.
#[must_use]
pub fn answer(record: &Value) -> Value {
    json!({ "id": record.get("id"), "unsupported": "answers of kind render are not wired yet" })
}
