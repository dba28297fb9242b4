//! Any text parses to a tree or errors; what parses prints, and what is printed parses and prints
//! to itself, but for the blanks: comments in the middle of an expression may be aligned anew.

#![no_main]

use cue_syntax::{ParseLimits, format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let limits = ParseLimits { depth: 200, ..ParseLimits::default() };
    let (file, errors) = parse("in.cue", text, &limits);
    if !errors.is_empty() {
        return;
    }
    let printed = format(&file);
    let (again, errors) = parse("in.cue", &printed, &limits);
    assert!(errors.is_empty(), "{printed:?}: {errors:?}");
    assert_eq!(without_blanks(&format(&again)), without_blanks(&printed));
});

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}
