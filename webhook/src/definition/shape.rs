//! Fields of a definition with a type that its kind does not declare, so that it cannot be decoded.

use serde_json::Value;
use vela_api::{DefinitionKind, mistyped};

use crate::field::Field;
use crate::messages;

/// Every mistake, with its path.
pub(super) fn mistyped(kind: DefinitionKind, object: &Value) -> Vec<String> {
    let found = mistyped::definition(kind, object);
    let text = |one: &mistyped::Mistyped<'_>| {
        let detail = messages::wrong_type(messages::wanted(one.wanted), one.found);
        format!("{}: {detail}", Field::of(&one.path))
    };
    found.iter().map(text).collect()
}
