//! Any text compiles or not; what compiles evaluates, validates and exports within a budget.

#![no_main]

use cue::{Limits, Packages, Program, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(program) = Program::compile("in.cue", text, &Packages::std()) else { return };
    let limits = Limits { steps: 200_000, depth: 200, ..Limits::default() };
    let parameter = Value::from(1);
    let mut evaluation = program.evaluate(&[("parameter", &parameter)], &limits);
    let root = evaluation.root();
    let _ = evaluation.validate(root, false);
    let _ = evaluation.export(root);
});
