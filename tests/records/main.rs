//! One trial per record of the admission recordings, against a ratchet of passing ids, and of the
//! recorded workflow steps, with the reference's definitions and (`own-workflow-steps/`) with ours.
//!
//! A record passes if our answer has the same HTTP status, the same decision and, when admitted,
//! the same patched object; when denied, at least the same causes. Empty fields that the reference adds by writing its whole Go type
//! (`status: {}`, `spec.workload.definition` of empty texts) do not count: patches of ours touch
//! what changes (compatibility note webhook-7).
//!
//! A record that does not pass must be listed in `tests/corpus/admission.divergent` or
//! `steps.divergent`, with the note of `docs/compatibility/` that gives the reason.

#![allow(clippy::print_stdout, reason = "a test program reports to people")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail; indexing JSON gives null where nothing is"
)]

mod causes;
#[path = "../corpus/divergent.rs"]
mod divergent;
#[path = "../corpus/ratchet.rs"]
mod ratchet;
#[path = "../../shared/render/tests/score/mod.rs"]
mod score;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use divergent::Divergent;
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use parking_lot::Mutex;
use ratchet::Ratchet;
use serde_json::Value;
use vela_tests::answers::{admission, workflow_step};
use vela_tests::material;

/// Records of one file.
#[derive(Clone, Copy)]
struct Family {
    name: &'static str,
    /// Below `recordings`.
    file: &'static str,
    answer: fn(&Value) -> Value,
    compare: fn(&Value, &Value) -> Option<String>,
    /// Whether `tests/corpus/admission.passing` lists those that pass.
    ratchet: bool,
}

impl Family {
    const fn admission(
        name: &'static str,
        file: &'static str,
        answer: fn(&Value) -> Value,
    ) -> Self {
        Self { name, file, answer, compare, ratchet: true }
    }

    const fn steps(
        name: &'static str,
        answer: fn(&Value) -> Value,
        compare: fn(&Value, &Value) -> Option<String>,
    ) -> Self {
        let file = "render/dev/workflow-steps.jsonl";
        Self { name, file, answer, compare, ratchet: false }
    }
}

const FAMILIES: [Family; 5] = [
    Family::admission("admission", "admission/dev/admission.jsonl", admission::answer),
    Family::admission(
        "admission-cue-gates",
        "admission/dev/admission-cue-gates.jsonl",
        admission::answer_cue_gates,
    ),
    Family::admission(
        "admission-auth-gates",
        "admission/dev/admission-auth-gates.jsonl",
        admission::answer_auth_gates,
    ),
    Family::steps("workflow-steps", workflow_step::answer, steps::compare),
    Family::steps("own-workflow-steps", steps::own, steps::compare_own),
];

/// Evaluation recurses; the webhook gives its threads this much.
const STACK: usize = vela_serve::pool::STACK;

#[derive(Default)]
struct Outcome {
    tallies: BTreeMap<&'static str, (usize, usize)>,
    passing: BTreeSet<String>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut records: Vec<(Family, Value)> = Vec::new();
    for family in FAMILIES {
        let Some(dir) = material::conformance() else { continue };
        let path = dir.join("recordings").join(family.file);
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        let parsed = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        records.extend(parsed.map(|record| (family, record)));
    }
    if records.is_empty() {
        println!("SKIPPED: 0 admission records run: the conformance material is absent");
        return ExitCode::SUCCESS;
    }
    let ratchet = Ratchet::read(&material::workspace(), "admission", "Admission records");
    if arguments.format.is_none() && !arguments.list {
        arguments.format = Some(FormatSetting::Terse);
    }
    let divergent = match Divergent::read(&material::workspace(), &["admission", "steps"]) {
        Ok(divergent) => Arc::new(divergent),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let filtered = arguments.filter.is_some() || !arguments.skip.is_empty();
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let trials = records
        .into_iter()
        .map(|(family, record)| {
            let id = format!("{}/{}", family.name, record["id"].as_str().unwrap_or_default());
            let must_pass = ratchet.requires(&id);
            let outcome = Arc::clone(&outcome);
            let divergent = Arc::clone(&divergent);
            Trial::test(id.clone(), move || {
                let bad = judge(family, record);
                {
                    let mut outcome = outcome.lock();
                    let tally = outcome.tallies.entry(family.name).or_default();
                    tally.1 += 1;
                    tally.0 += usize::from(bad.is_none());
                    if bad.is_none() && family.ratchet {
                        outcome.passing.insert(id.clone());
                    }
                }
                let bad = bad.as_deref();
                let note = divergent.verdict(&id, bad).map_err(Failed::from)?;
                match (bad, note) {
                    (Some(bad), _) if must_pass => Err(Failed::from(bad)),
                    (Some(bad), Some(note)) if filtered => {
                        println!("DIVERGES {id} ({note}): {bad}");
                        Ok(())
                    }
                    _ => Ok(()),
                }
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let outcome = std::mem::take(&mut *outcome.lock());
    for (file, (good, of)) in outcome.tallies {
        println!("{file:<22} {good:5} of {of:5}");
    }
    let new = ratchet.learn(&outcome.passing, filtered).expect("the ratchet can be written");
    println!("{new} records pass that the ratchet does not know");
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What is wrong with our answer, if anything is.
fn judge(family: Family, record: Value) -> Option<String> {
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || (family.compare)(&record, &(family.answer)(&record)))
        .expect("a thread can be started")
        .join()
        .unwrap_or_else(|_| Some("panic".to_owned()))
}

fn compare(record: &Value, ours: &Value) -> Option<String> {
    let response = &record["response"];
    if response["httpStatus"] != ours["httpStatus"] {
        return Some(format!("status {} not {}", ours["httpStatus"], response["httpStatus"]));
    }
    let theirs = &response["body"]["response"];
    let allowed = theirs["allowed"].as_bool()?;
    if ours["allowed"] != allowed {
        let reason = if allowed { &ours["message"] } else { &theirs["status"]["message"] };
        return Some(format!("allowed: {}, theirs {allowed}: {reason}", ours["allowed"]));
    }
    let object = &record["review"]["request"]["object"];
    let patched = |patch: &Value| {
        let mut object = object.clone();
        let patch: Option<json_patch::Patch> = serde_json::from_value(patch.clone()).ok();
        if let Some(patch) = patch {
            json_patch::patch(&mut object, &patch).ok()?;
        }
        prune(&mut object);
        Some(object)
    };
    if allowed && patched(&ours["patch"]) != patched(&response["patch"]) {
        return Some(format!("patch {} not {}", ours["patch"], response["patch"]));
    }
    let message = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (ours_text, reason) = (message(&ours["message"]), message(&theirs["status"]["message"]));
    if !allowed && let Some(cause) = causes::missing(&reason, &ours_text) {
        return Some(format!("does not tell {cause:?} but {ours_text:?}"));
    }
    None
}

/// Takes out what is empty.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
