//! One trial per record of the Helm corpus, against a ratchet of passing ids: charts of public projects, small charts of
//! the corpus' own, and templates for every function, each with the real Helm's result.
//!
//! A record passes if our answer has the same objects with the same sources in the same order, the same notes, and the
//! same exact text of each rendered file; or an error of the same class. Places that differ between two renders of the
//! real Helm do not count.
//!
//! Most charts are left out of a run that names no filter: rendering all of them takes long without optimisation. A
//! filter, or `HELM_CORPUS=all`, runs those that match.

#![allow(clippy::print_stdout, reason = "a test program reports to people")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail; indexing JSON gives null where nothing is"
)]

mod compare;
#[path = "../corpus/ratchet.rs"]
mod ratchet;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use parking_lot::Mutex;
use ratchet::Ratchet;
use serde_json::Value;
use vela_tests::answers::helm;
use vela_tests::material;

/// Templates within templates recurse.
const STACK: usize = 256 << 20;

/// Of the charts, one record in this many is run without a filter.
const CHARTS_SKIPPED: usize = 8;

#[derive(Default)]
struct Outcome {
    tallies: BTreeMap<String, (usize, usize)>,
    passing: BTreeSet<String>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let Some(corpus) = material::conformance().map(|dir| dir.join("corpus/helm")) else {
        println!("SKIPPED: 0 Helm records run: the conformance material is absent");
        return ExitCode::SUCCESS;
    };
    let big = Arc::new(big(&corpus));
    let filtered = arguments.filter.is_some() || !arguments.skip.is_empty();
    let all = filtered || std::env::var_os("HELM_CORPUS").is_some();
    let mut records: Vec<(PathBuf, Value)> = records_of(&corpus.join("micro"));
    let charts = records_of(&corpus);
    let step = if all { 1 } else { CHARTS_SKIPPED };
    records.extend(charts.into_iter().step_by(step));
    if records.is_empty() {
        println!("SKIPPED: 0 Helm records run: the corpus is absent");
        return ExitCode::SUCCESS;
    }
    let ratchet = Ratchet::read(&material::workspace(), "helm", "Helm records");
    if arguments.format.is_none() && !arguments.list {
        arguments.format = Some(FormatSetting::Terse);
    }
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let trials = records
        .into_iter()
        .map(|(folder, record)| {
            let id = record["id"].as_str().unwrap_or_default().to_owned();
            let must_pass = ratchet.requires(&id);
            let (outcome, big) = (Arc::clone(&outcome), Arc::clone(&big));
            Trial::test(id.clone(), move || {
                let bad = judge(folder, record, &big);
                {
                    let mut outcome = outcome.lock();
                    let family = id.split('/').next().unwrap_or_default().to_owned();
                    let tally = outcome.tallies.entry(family).or_default();
                    tally.1 += 1;
                    tally.0 += usize::from(bad.is_none());
                    if bad.is_none() {
                        outcome.passing.insert(id.clone());
                    }
                }
                match bad {
                    Some(bad) if must_pass => Err(Failed::from(bad)),
                    Some(bad) if filtered => {
                        println!("DIFFERS {id}: {bad}");
                        Ok(())
                    }
                    _ => Ok(()),
                }
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let outcome = std::mem::take(&mut *outcome.lock());
    let (mut good, mut of) = (0, 0);
    for (family, tally) in &outcome.tallies {
        println!("{family:<28} {:5} of {:5}", tally.0, tally.1);
        good += tally.0;
        of += tally.1;
    }
    println!("total {good} of {of}");
    // What was left out is still known: the list only grows.
    let new = ratchet.learn(&outcome.passing, filtered).expect("the ratchet can be written");
    println!("{new} records pass that the ratchet does not know");
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What is wrong with our answer, if anything is.
fn judge(folder: PathBuf, record: Value, big: &BTreeMap<String, Value>) -> Option<String> {
    let answered = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            let answer = helm::answer(&record, &folder);
            (record, answer)
        })
        .expect("a thread can be started")
        .join();
    match answered {
        Ok((record, answer)) => compare::difference(&record, &answer, big),
        Err(_) => Some("panic".to_owned()),
    }
}

/// The records of the files of a folder.
fn records_of(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")) && !name.starts_with("big.")
        })
        .collect();
    files.sort();
    let read = |path: PathBuf| lines(&path).into_iter().map(|record| (folder.to_owned(), record));
    files.into_iter().flat_map(read).collect()
}

/// Objects that are too large to stand in their records, by key.
fn big(corpus: &Path) -> BTreeMap<String, Value> {
    let entry = |mut line: Value| {
        let key = line["sha256"].as_str()?.to_owned();
        Some((key, line["object"].take()))
    };
    lines(&corpus.join("big.jsonl.gz")).into_iter().filter_map(entry).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let text: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let lines = BufReader::new(text).lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}
