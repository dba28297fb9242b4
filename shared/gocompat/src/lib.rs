//! What must equal Go byte for byte: JSON, durations, hashes, numbers, regular expressions.

pub mod duration;
pub mod fnv;
pub mod hashstructure;
pub mod json;
pub mod regexp;
pub mod spew;
pub mod strconv;
pub mod time;
