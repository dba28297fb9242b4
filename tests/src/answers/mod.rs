//! The answers contract: one record in, one answer out, no cluster.
//!
//! `cargo xtask answers KIND FILE.jsonl` reads records of the conformance corpus and prints, in
//! input order, what this implementation answers. A record that breaks something answers with an
//! error line and the next one is read: the tool never stops at a bad record.

pub mod admission;
pub mod cue;
pub mod helm;
pub mod render;
pub mod workflow_step;

use std::any::Any;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::{Value, json};

/// Deep records (nested structs, long expressions) must fail on a budget, not on the stack.
const STACK: usize = 256 << 20;

/// A function that answers one record.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// From and to JSON values.
    Value(fn(&Value) -> Value),
    /// From one line to one line: where numbers have more digits than [`Value`] keeps.
    Line(fn(&str) -> String),
    /// From and to JSON values, with files in the folder of the records.
    WithFolder(fn(&Value, &Path) -> Value),
}

/// The answer function of a kind.
#[must_use]
pub fn kind(name: &str) -> Option<Answer> {
    match name {
        "cue" => Some(Answer::Line(cue::answer)),
        "helm" => Some(Answer::WithFolder(helm::answer)),
        "render" => Some(Answer::Value(rendered)),
        "admission" => Some(Answer::Value(admission::answer)),
        "admission-cue-gates" => Some(Answer::Value(admission::answer_cue_gates)),
        "admission-auth-gates" => Some(Answer::Value(admission::answer_auth_gates)),
        _ => None,
    }
}

/// Records of kind render are answered by rendering, those about steps by the workflow engine.
fn rendered(record: &Value) -> Value {
    if record.get("kind").and_then(Value::as_str) == Some("workflow-step") {
        return workflow_step::answer(record);
    }
    render::answer(record)
}

/// Answers every line of `input`, in order, on a thread with a large stack. `folder` is where the records lie.
///
/// # Errors
/// Only input and output can fail; what a record does is in its answer.
pub fn run(
    answer: Answer,
    folder: &Path,
    input: impl BufRead + Send,
    output: impl Write + Send,
) -> std::io::Result<usize> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("answers".into())
            .stack_size(STACK)
            .spawn_scoped(scope, move || run_here(answer, folder, input, output))?
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the answering thread panicked")))
    })
}

fn run_here(
    answer: Answer,
    folder: &Path,
    input: impl BufRead,
    mut output: impl Write,
) -> std::io::Result<usize> {
    let mut count = 0;
    for (index, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let reply = match serde_json::from_str::<Value>(&line) {
            Ok(record) => one(answer, folder, &line, &record),
            Err(error) => json!({
                "id": null,
                "error": format!("line {}: not JSON: {error}", index + 1),
                "class": "input",
            })
            .to_string(),
        };
        output.write_all(reply.as_bytes())?;
        output.write_all(b"\n")?;
        count += 1;
    }
    output.flush()?;
    Ok(count)
}

fn one(answer: Answer, folder: &Path, line: &str, record: &Value) -> String {
    let id = record.get("id").cloned().unwrap_or(Value::Null);
    let with_id = |mut reply: Value| {
        if let Value::Object(map) = &mut reply {
            map.entry("id").or_insert_with(|| id.clone());
        }
        reply.to_string()
    };
    let reply = catch_unwind(AssertUnwindSafe(|| match answer {
        Answer::Value(answer) => with_id(answer(record)),
        Answer::WithFolder(answer) => with_id(answer(record, folder)),
        Answer::Line(answer) => answer(line),
    }));
    reply.unwrap_or_else(|panic| {
        let error = format!("panic: {}", text(&*panic));
        json!({ "id": id, "error": error, "class": "panic" }).to_string()
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no text)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(record: &Value) -> Value {
        match record["n"].as_i64() {
            Some(1) => panic!("one is bad"),
            n => json!({ "n": n }),
        }
    }

    #[test]
    fn order_is_kept_and_bad_records_do_not_stop_the_run() {
        let input =
            "{\"id\":\"a\",\"n\":0}\n{\"id\":\"b\",\"n\":1}\n\nnot json\n{\"id\":\"c\",\"n\":2}\n";
        let mut output = Vec::new();
        assert_eq!(
            run(Answer::Value(odd), Path::new("."), input.as_bytes(), &mut output).unwrap(),
            4
        );
        let lines: Vec<Value> = String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({ "id": "a", "n": 0 }));
        assert_eq!(lines[1], json!({ "id": "b", "error": "panic: one is bad", "class": "panic" }));
        assert_eq!(lines[2]["class"], "input");
        assert_eq!(lines[3], json!({ "id": "c", "n": 2 }));
    }
}
