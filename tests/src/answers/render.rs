//! Answers of kind `render`: components, traits, patches, status, parameters, schemas.

#[path = "../../../shared/render/tests/answers/mod.rs"]
#[allow(dead_code, reason = "the crate's own tests use more of it")]
mod records;

pub use records::answer;
