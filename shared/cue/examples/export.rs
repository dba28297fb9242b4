//! `cargo run -p cue --example export FILE.cue [NAME=FILE.json ...]`: evaluates a file, with JSON
//! given as further declarations of top-level fields, and prints it as JSON.
//!
//! Errors are shown twice: as the reference words them, and for people.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command reads files and prints"
)]

use cue::{Errors, Limits, Packages, Program, Value};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("usage: export FILE.cue [NAME=FILE.json ...]")?;
    let text = read(&name)?;
    let mut inputs = Vec::new();
    for arg in args {
        let (field, file) = arg.split_once('=').ok_or(format!("not NAME=FILE.json: {arg}"))?;
        let json: serde_json::Value =
            serde_json::from_str(&read(file)?).map_err(|error| format!("{file}: {error}"))?;
        inputs.push((field.to_owned(), Value::from(json)));
    }
    let shown = |errors: Errors| errors.details();
    let program = Program::compile(&name, &text, &Packages::std()).map_err(shown)?;
    let inputs: Vec<_> = inputs.iter().map(|(field, value)| (field.as_str(), value)).collect();
    // Nested evaluation takes stack; see the README.
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20);
        let evaluate = || {
            let mut evaluation = program.evaluate(&inputs, &Limits::default());
            let root = evaluation.root();
            evaluation.export(root)
        };
        thread.spawn_scoped(scope, evaluate).map(std::thread::ScopedJoinHandle::join)
    });
    match result {
        Ok(Ok(value)) => value.map(|value| value.to_json_text()).map_err(shown),
        Ok(Err(_)) => Err("the evaluation panicked".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn read(name: &str) -> Result<String, String> {
    std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))
}
