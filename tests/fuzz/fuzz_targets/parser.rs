//! Any text parses to a tree or errors; what parses prints, and what is printed parses, has the
//! same comments and prints to itself.

#![no_main]

use cue_syntax::{File, ParseLimits, format, parse};
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
    assert_eq!(comments(&again), comments(&file), "{printed:?}");
    assert_eq!(format(&again), printed);
});

fn comments(file: &File) -> Vec<&str> {
    let lines = file.comments.iter().flat_map(|comment| comment.lines(&file.source));
    lines.map(str::trim).collect()
}
