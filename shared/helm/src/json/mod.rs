//! Values of templates to JSON and back, by the rules of `encoding/json`.

mod read;
mod text;
mod write;

pub(crate) use read::{from_json, read_json};
pub(crate) use text::{Style, to_text};
pub(crate) use write::{DEEPEST, JsonError, base64_of, to_json};
