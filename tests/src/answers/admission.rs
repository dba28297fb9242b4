//! Answers of kind `admission`.

use serde_json::{Value, json};

/// The answer to one record of kind `admission`.
#[must_use]
pub fn answer(record: &Value) -> Value {
    json!({ "id": record.get("id"), "unsupported": "answers of kind admission are not wired yet" })
}
