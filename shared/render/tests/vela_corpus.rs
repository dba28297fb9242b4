//! One trial per record of the CUE corpus that is about KubeVela's behaviour, against a ratchet.
//!
//! The other records of that corpus are tested in crate `cue`. See `tests/corpus/vela.passing`.

#![allow(clippy::print_stdout, reason = "a test program reports to people")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail"
)]

#[path = "../../../tests/corpus/ratchet.rs"]
mod ratchet;
mod vela;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::Mutex;
use ratchet::Ratchet;
use serde_json::Value;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let material = std::env::var_os("VELA_CONFORMANCE")
        .map_or_else(|| workspace.join("../shared"), PathBuf::from);
    let ratchet = Ratchet::read(&workspace, "vela", "Records of the CUE corpus about KubeVela");
    let passing = Arc::new(Mutex::new(BTreeSet::new()));
    let mut trials = Vec::new();
    for name in ["vela-render", "vela-patch", "vela-upgrade"] {
        let path = material.join(format!("corpus/cue/dev/{name}.jsonl"));
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
            trials.push(trial(record, &ratchet, &passing));
        }
    }
    let count = trials.len();
    if count == 0 {
        println!("SKIPPED: 0 records of the CUE corpus run: the conformance material is absent");
        return ExitCode::SUCCESS;
    }
    let filtered = arguments.filter.is_some();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let passing = std::mem::take(&mut *passing.lock());
    let Ok(new) = ratchet.learn(&passing, filtered) else { return ExitCode::FAILURE };
    println!("{} of {count} records pass, {new} beyond the ratchet", passing.len());
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn trial(record: Value, ratchet: &Ratchet, passing: &Arc<Mutex<BTreeSet<String>>>) -> Trial {
    let id = record["id"].as_str().unwrap_or_default().to_owned();
    let must_pass = ratchet.requires(&id);
    let passing = Arc::clone(passing);
    Trial::test(id.clone(), move || {
        let answer = vela::answer(&record).unwrap_or_default();
        if judge(&record["expect"], &answer) {
            passing.lock().insert(id.clone());
            return Ok(());
        }
        if std::env::var_os("VERBOSE").is_some() {
            println!("not passing: {id}\n    got {answer}\n    want {}", record["expect"]);
        }
        if must_pass { Err(Failed::from(format!("got {answer}"))) } else { Ok(()) }
    })
}

fn judge(expect: &Value, answer: &Value) -> bool {
    let failed = answer.get("error").is_some();
    let object = |value: &Value| match value {
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other.clone(),
    };
    match expect["kind"].as_str() {
        Some("error") => {
            let class = expect["class"].as_str().unwrap_or("any");
            failed && (class == "any" || answer["class"].as_str().is_none_or(|got| got == class))
        }
        Some("objects") => {
            !failed
                && answer["output"] == expect["output"]
                && object(&answer["outputs"]) == object(&expect["outputs"])
        }
        Some("cue") => !failed && answer["json"] == expect["json"],
        Some("text-re") => {
            let text = answer["text"].as_str().unwrap_or_default();
            expect["stdout_re"].as_array().into_iter().flatten().all(|pattern| {
                regex::RegexBuilder::new(pattern.as_str().unwrap_or_default())
                    .multi_line(true)
                    .build()
                    .is_ok_and(|regex| regex.is_match(text))
            })
        }
        _ => false,
    }
}
