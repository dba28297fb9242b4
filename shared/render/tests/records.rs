//! One trial per record of the rendering recordings, against a ratchet of passing ids, and the
//! same for our own definitions (ids that begin with `own-definition/`).
//!
//! The records lie next to the repository (`../shared`, or where `VELA_CONFORMANCE` points). A
//! record whose id is in `tests/corpus/render.passing` has to pass; one that passes without being
//! there is named in the summary, and `UPDATE_RATCHET=1` adds it. One that does not pass has to be
//! in `tests/corpus/render.divergent`, with the note that gives the reason.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports to people")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail"
)]

mod answers;
mod builtin;
#[path = "../../../tests/corpus/divergent.rs"]
mod divergent;
#[path = "../../../tests/corpus/ratchet.rs"]
mod ratchet;
mod score;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use answers::{Source, component_from, material, params_from, status_of, traits_from, workspace};
use divergent::Divergent;
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use parking_lot::Mutex;
use ratchet::Ratchet;
use serde_json::Value;
use vela_render::{Definition, DefinitionKind};

/// Deep values must fail on a budget, not on the stack.
const STACK: usize = 64 << 20;

const FILES: [&str; 6] = ["components", "traits", "patch", "status", "params", "schema"];
/// The files that our own definitions are held against.
const OWN: [&str; 4] = ["components", "traits", "status", "params"];

type Outcome = Arc<Mutex<(BTreeMap<String, (usize, usize)>, BTreeSet<String>)>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut records: Vec<(String, String, Value)> = Vec::new();
    for file in FILES {
        let path = material().join(format!("recordings/render/dev/{file}.jsonl"));
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            // One record holds a number no float can hold.
            let Ok(record) = serde_json::from_str::<Value>(line) else { continue };
            let id = record["id"].as_str().unwrap_or_default().to_owned();
            if OWN.contains(&file) && is_shipped(&record) {
                let own = format!("own-definition/{id}");
                records.push((format!("own {file}"), own, record.clone()));
            }
            records.push((file.to_owned(), id, record));
        }
    }
    if records.is_empty() {
        println!("SKIPPED: 0 render records run: the conformance material is absent");
        return ExitCode::SUCCESS;
    }
    let ratchet = Ratchet::read(&workspace(), "render", "Rendering records");
    let divergent = match Divergent::read(&workspace(), &["render"]) {
        Ok(divergent) => Arc::new(divergent),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.format.is_none() && !arguments.list {
        arguments.format = Some(FormatSetting::Terse);
    }
    let filtered = arguments.filter.is_some() || !arguments.skip.is_empty();
    let verbose = filtered || std::env::var_os("VERBOSE").is_some();
    let outcome: Outcome = Arc::default();
    let trials = records
        .into_iter()
        .map(|(file, id, record)| {
            let must_pass = ratchet.requires(&id);
            let outcome = Arc::clone(&outcome);
            let divergent = Arc::clone(&divergent);
            Trial::test(id.clone(), move || {
                let bad = run(&file, &record);
                {
                    let mut outcome = outcome.lock();
                    let tally = outcome.0.entry(file).or_default();
                    tally.1 += 1;
                    if bad.is_empty() {
                        tally.0 += 1;
                        outcome.1.insert(id.clone());
                    }
                }
                let shown = bad.join("; ");
                let shown = (!bad.is_empty()).then_some(shown.as_str());
                let note = divergent.verdict(&id, shown).map_err(Failed::from)?;
                match (shown, note) {
                    (Some(bad), _) if must_pass => return Err(Failed::from(bad)),
                    (Some(bad), Some(note)) if verbose => println!("DIVERGES {id} ({note}): {bad}"),
                    _ => {}
                }
                Ok(())
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let (tallies, passing) = std::mem::take(&mut *outcome.lock());
    for (file, (good, of)) in tallies {
        println!("{file:<16} {good:5} of {of:5}");
    }
    let new = ratchet.learn(&passing, filtered).expect("the ratchet can be written");
    println!("{new} records pass that the ratchet does not know");
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether a record uses built-in definitions only.
fn is_shipped(record: &Value) -> bool {
    let shipped = |part: &Value| {
        part["definitionSource"].as_str().is_some_and(|s| {
            s.contains("/definitions/internal/") || s.contains("/definitions/deprecated/")
        })
    };
    if record["kind"] == "status" {
        return record["definition"] != "own";
    }
    let component = &record["component"];
    (record["kind"] == "trait" || shipped(record))
        && (component.is_null() || component.get("template").is_none())
        && (component.is_null() || record["kind"] == "params" || shipped(component))
        && record["traits"].as_array().into_iter().flatten().all(shipped)
}

fn own() -> &'static HashMap<(DefinitionKind, String), Arc<Definition>> {
    static OWN: OnceLock<HashMap<(DefinitionKind, String), Arc<Definition>>> = OnceLock::new();
    OWN.get_or_init(|| {
        builtin::definitions(&["component", "trait"])
            .into_iter()
            .map(|definition| ((definition.kind, definition.name.clone()), Arc::new(definition)))
            .collect()
    })
}

fn ours(kind: DefinitionKind, name: &str, _: &str) -> Option<Arc<Definition>> {
    own().get(&(kind, name.to_owned())).cloned()
}

fn run(file: &str, record: &Value) -> Vec<String> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, || run_here(file, record))
            .expect("a thread starts")
            .join()
            .unwrap_or_else(|_| vec!["panic".to_owned()])
    })
}

fn run_here(file: &str, record: &Value) -> Vec<String> {
    let source = Source { named: &ours, inline: false };
    let answer = match file {
        "own components" => component_from(record, source),
        "own traits" => traits_from(record, source),
        "own params" => params_from(record, source),
        "own status" => {
            let name = record["definition"].as_str().unwrap_or_default();
            let kind = DefinitionKind::named(record["definitionKind"].as_str().unwrap_or_default());
            match kind.and_then(|kind| ours(kind, name, "")) {
                Some(definition) => status_of(record, &definition),
                None => return vec![format!("no definition {name}")],
            }
        }
        _ => answers::answer(record),
    };
    score::check(record, &answer)
}
