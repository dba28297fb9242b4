//! See `helm::values`.
#![no_main]

#[path = "../helm.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod helm;

libfuzzer_sys::fuzz_target!(|input: &str| helm::values(input));
