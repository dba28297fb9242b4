//! What must equal Go byte for byte: JSON, durations, hashes, numbers, regular expressions.

pub mod duration;
pub mod json;
pub mod strconv;
