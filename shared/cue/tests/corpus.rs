//! One trial per record of the CUE conformance corpus, against a ratchet of passing ids.
//!
//! The records lie beside the repository (`../shared`, or where `VELA_CONFORMANCE` points). A
//! record whose id is in `tests/corpus/cue.passing` has to pass; one that passes without being
//! there is named in the summary, and `UPDATE_RATCHET=1` adds it. All others are ignored trials.
//!
//! The hostile inputs of `stress.jsonl` all have to pass. Their time limits count (as processor
//! time of the thread) in optimised builds only: `cargo test --release -p cue --test corpus stress`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports to people")]

mod conformance;
#[path = "../../../tests/corpus/ratchet.rs"]
mod ratchet;
mod score;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conformance::json::Json;
use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::Mutex;
use ratchet::Ratchet;
use score::{Score, is_out_of_scope, judge};

/// The evaluator's own depth limits are sized for a thread like those of the CUE pool.
const STACK: usize = 256 << 20;

#[derive(Default)]
struct Tally {
    whole: usize,
    share: f64,
    of: usize,
}

#[derive(Default)]
struct Outcome {
    categories: BTreeMap<String, Tally>,
    passing: BTreeSet<String>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(records) = load(&workspace) else {
        println!("SKIPPED: 0 records of the CUE corpus run: the conformance material is absent");
        return ExitCode::SUCCESS;
    };
    let ratchet = Ratchet::read(&workspace, "cue", "Records of the CUE corpus");
    // Quiet by default: two thousand lines help nobody.
    if arguments.format.is_none() && !arguments.list {
        arguments.format = Some(libtest_mimic::FormatSetting::Terse);
    }
    let verbose = std::env::var_os("VERBOSE").is_some();
    let filtered = arguments.filter.is_some() || !arguments.skip.is_empty();
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let trials = records
        .into_iter()
        .map(|record| trial(record, &ratchet, &outcome, verbose || filtered))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let outcome = std::mem::take(&mut *outcome.lock());
    match ratchet.learn(&outcome.passing, filtered) {
        Ok(new) => summarize(&outcome, new),
        Err(error) => {
            eprintln!("cannot write the ratchet: {error}");
            return ExitCode::FAILURE;
        }
    }
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn load(workspace: &Path) -> Option<Vec<Json>> {
    let material = std::env::var_os("VELA_CONFORMANCE")
        .map_or_else(|| workspace.join("../shared"), PathBuf::from);
    let folder = std::fs::read_dir(material.join("corpus/cue/dev")).ok()?;
    let mut paths: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.push(material.join("corpus/cue/stress.jsonl"));
    let mut records = Vec::new();
    for path in paths {
        for line in std::fs::read_to_string(path).ok()?.lines() {
            // What is about KubeVela rather than the language is tested in crate vela-render.
            records.extend(Json::parse(line).ok().filter(|record| {
                let category = record.str("category").unwrap_or_default();
                !matches!(category, "vela-render" | "vela-patch" | "vela-upgrade")
            }));
        }
    }
    (!records.is_empty()).then_some(records)
}

fn trial(record: Json, ratchet: &Ratchet, outcome: &Arc<Mutex<Outcome>>, verbose: bool) -> Trial {
    let id = record.str("id").unwrap_or_default().to_owned();
    let stress = record.str("category") == Some("stress");
    let must_pass = stress || ratchet.requires(&id);
    let outcome = Arc::clone(outcome);
    Trial::test(id.clone(), move || {
        if std::env::var_os("TRACE").is_some() {
            // Names the record that ends the process, if one does.
            eprintln!("running {id}");
        }
        let (answer, score) = run(&record);
        let whole = score.is_whole();
        if !stress {
            let mut outcome = outcome.lock();
            let left_out = is_out_of_scope(&record) && answer.get("unsupported").is_some();
            if !left_out {
                let category = record.str("category").unwrap_or_default();
                let category = category.split('/').next().unwrap_or_default().to_owned();
                let tally = outcome.categories.entry(category).or_default();
                tally.of += 1;
                tally.whole += usize::from(whole);
                let (points, of) = (u32::try_from(score.points), u32::try_from(score.of));
                tally.share += f64::from(points.unwrap_or(0)) / f64::from(of.unwrap_or(1).max(1));
            }
            if whole {
                outcome.passing.insert(id.clone());
            }
        }
        if whole {
            return Ok(());
        }
        if must_pass {
            return Err(Failed::from(score.notes.join("\n")));
        }
        if verbose {
            println!("not passing: {id}  {}/{}", score.points, score.of);
            for note in &score.notes {
                println!("    {note}");
            }
        }
        Ok(())
    })
}

/// Answers and judges on a thread of its own: a panic or an overflow of limits stays with the
/// record.
fn run(record: &Json) -> (Json, Score) {
    let answered = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn_scoped(scope, || {
            if record.str("category") == Some("stress") {
                return stressed(record);
            }
            let answer = conformance::answer(record);
            let score = judge(record, &answer);
            (answer, score)
        });
        spawned.map(|thread| thread.join())
    });
    match answered {
        Ok(Ok(judged)) => judged,
        Ok(Err(panic)) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("(no text)");
            let notes = vec![format!("panicked: {text}")];
            (Json::Null, Score { points: 0, of: 1, notes })
        }
        Err(error) => (Json::Null, Score { points: 0, of: 1, notes: vec![error.to_string()] }),
    }
}

/// A hostile input: any answer will do where only bounds are asked for, but in time.
fn stressed(record: &Json) -> (Json, Score) {
    let before = processor_time();
    let answer = conformance::answer(record);
    let spent = before.zip(processor_time()).map(|(before, after)| after.saturating_sub(before));
    let kind = record.get("expect").and_then(|expect| expect.str("kind"));
    let mut score = match kind {
        Some("bounded") => Score { points: 1, of: 1, notes: Vec::new() },
        _ => judge(record, &answer),
    };
    let limit = record.get("limit").and_then(|limit| limit.get("ms")).map(Json::to_string);
    let limit = limit.and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    if let (Some(spent), Some(limit)) = (spent, limit) {
        if std::env::var_os("VERBOSE").is_some() {
            println!("{}: {spent:?} of {limit:?}", record.str("id").unwrap_or_default());
        }
        if spent > limit && !cfg!(debug_assertions) {
            score.points = 0;
            score.notes.push(format!("took {spent:?} of the processor, may take {limit:?}"));
        }
    }
    (answer, score)
}

/// Processor time of this thread, where the system tells.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn summarize(outcome: &Outcome, new: usize) {
    println!("{:<16} {:>11} {:>9}", "category", "whole", "share");
    let mut total = Tally::default();
    for (category, tally) in &outcome.categories {
        total.whole += tally.whole;
        total.of += tally.of;
        total.share += tally.share;
        print(category, tally);
    }
    print("total", &total);
    println!("{new} pass beyond the ratchet, {} do not pass", total.of - total.whole);
}

#[allow(clippy::cast_precision_loss, reason = "counts of records")]
fn print(name: &str, tally: &Tally) {
    let share = 100.0 * tally.share / (tally.of.max(1) as f64);
    println!("{name:<16} {:>5}/{:<5} {share:>7.2} %", tally.whole, tally.of);
}
