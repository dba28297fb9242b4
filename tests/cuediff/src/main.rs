//! Compares our CUE evaluator with both of Go's on programs without end.
//!
//! Programs are grown from the grammar (`grow`) or are mutations of those of the conformance corpus
//! (`mutate`); `oracle` asks Go, `compare` says whether the answers are the same, `reduce` finds the
//! smallest program that still differs, `report` groups what was found. `cargo xtask cue diff`
//! builds and runs it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its user"
)]

mod compare;
#[path = "../../../shared/cue/tests/conformance/mod.rs"]
mod conformance;
mod grow;
mod mutate;
mod notes;
mod oracle;
mod program;
mod reduce;
mod report;
#[path = "../../../shared/cue/tests/score/mod.rs"]
#[allow(dead_code, reason = "which records are out of scope is a question of the corpus")]
mod score;
mod syntax;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use compare::{Level, Verdict, compare};
use conformance::json::Json;
use grow::Family;
use oracle::Oracle;
use program::Program;
use report::Report;

#[derive(Parser)]
#[command(about = "Compares our CUE evaluator with Go's on generated programs")]
struct Args {
    /// Seconds to go on for
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Programs to run at the most, in all
    #[arg(long)]
    count: Option<u64>,
    /// Where the sequence of programs begins; the same seed gives the same programs
    #[arg(long)]
    seed: Option<u64>,
    /// Only this family; otherwise all in turn
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Productions of a program, about
    #[arg(long, default_value_t = 30)]
    size: usize,
    /// Threads, each with an oracle of its own
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Differences to reduce at the most; the rest is counted
    #[arg(long, default_value_t = 400)]
    reduce: u64,
    /// Fail if more programs than this of a thousand differ
    #[arg(long)]
    at_most: Option<usize>,
    /// The folder of the corpus' development records
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Write each program here before it is compared: what is there when the process dies has
    /// killed it (one job)
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Instead: compare this file and show the answers
    #[arg(long)]
    file: Option<PathBuf>,
    /// Instead: answer programs on standard input, a line `{"files": {..}}` each, with our tree and export
    #[arg(long)]
    answer: bool,
    /// Instead: print the programs
    #[arg(long)]
    print: bool,
}

/// Our evaluator's limits are sized for a thread like those of its pool.
const STACK: usize = 256 << 20;

/// Time after the end of a run in which reductions that have started continue.
const REDUCTION: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = args.corpus.as_deref().map(corpus).transpose()?.unwrap_or_default();
    let families: Vec<Family> = match args.family {
        Some(family) => vec![family],
        None => Family::value_variants().to_vec(),
    };
    let families: Vec<Family> =
        families.into_iter().filter(|f| *f != Family::Corpus || !texts.is_empty()).collect();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let make = |index: u64| {
        let family = pick(&families, index);
        let seed =
            fastrand::Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let program = match family {
            Family::Corpus => mutate::mutate(&texts, seed),
            _ => grow::grow(family, seed, args.size),
        };
        (family, program)
    };
    if args.answer {
        return answer();
    }
    if args.print {
        for index in 0..args.count.unwrap_or(10) {
            println!("// {index}\n{}", make(index).1);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let program = oracle::build(&here.join("oracle"), &here.join("../../target/cue-oracle"))?;
    if let Some(file) = &args.file {
        return show(&program, file);
    }
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let next = AtomicU64::new(0);
    let reduced = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    let work = || {
        let mut oracle = Oracle::new(program.clone());
        let sender = sender.clone();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= end || args.count.is_some_and(|count| index >= count) {
                return Ok(());
            }
            let (family, program) = make(index);
            let keep = |program: &Program| match &args.keep {
                Some(path) => std::fs::write(path, program.to_string()),
                None => Ok(()),
            };
            keep(&program)?;
            let verdict = compare(&program, &mut oracle)?;
            let mut small = None;
            // A panic is always worth its time.
            if let Some(difference) = verdict.difference()
                && (difference.level == Level::Panic
                    || reduced.fetch_add(1, Ordering::Relaxed) < args.reduce)
            {
                let several = matches!(verdict, Verdict::NoneOfSeveral(_));
                let reduced = reduce::reduce(&program, |candidate| {
                    // What takes long is shown as it is.
                    if Instant::now() >= end + REDUCTION {
                        return false;
                    }
                    if keep(candidate).is_err() {
                        return false;
                    }
                    let found = compare(candidate, &mut oracle);
                    let Ok(found) = found else { return false };
                    // Better a difference that Go agrees on than one that it does not.
                    (several || matches!(found, Verdict::Differs(_)))
                        && found.difference().is_some_and(|found| {
                            found.level == difference.level && found.what == difference.what
                        })
                });
                small = Some((compare(&reduced, &mut oracle)?, reduced));
            }
            if sender.send((family, verdict, small)).is_err() {
                return Ok(());
            }
        }
    };
    let mut report = Report::default();
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for _ in 0..args.jobs.max(1) {
            threads.push(std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?);
        }
        for thread in threads {
            let done: Result<()> =
                thread.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            done?;
        }
        Ok(())
    })?;
    drop(sender);
    for (family, verdict, small) in receiver {
        report.count(family, &verdict);
        if let Some((verdict, small)) = small
            && let Some(difference) = verdict.difference()
        {
            report.add(difference, small, matches!(verdict, Verdict::NoneOfSeveral(_)));
        }
    }
    println!("{}", report.text());
    let (differing, programs) = report.differing();
    let failed = args.at_most.is_some_and(|most| differing * 1000 > most * programs);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The families take turns.
fn pick(families: &[Family], index: u64) -> Family {
    let at = usize::try_from(index).unwrap_or(0) % families.len().max(1);
    families.get(at).copied().unwrap_or(Family::Mixed)
}

fn corpus(folder: &Path) -> Result<Vec<String>> {
    let mut lines = String::new();
    for name in ["tree", "fields", "export", "export-error", "docs", "vela-parse"] {
        let path = folder.join(format!("{name}.jsonl"));
        lines += &std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(mutate::corpus(&lines))
}

/// Answers programs on standard input as the oracle does, a line each.
fn answer() -> Result<ExitCode> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| -> Result<()> {
        for line in std::io::stdin().lines() {
            let request = Json::parse(&line?).map_err(|why| anyhow::anyhow!("{why:?}"))?;
            let Some(Json::Object(files)) = request.get("files") else { continue };
            let files = files.iter().filter_map(|(name, text)| match text {
                Json::String(text) => Some((name.clone(), text.clone())),
                _ => None,
            });
            let program = Program::new(files.collect());
            for kind in ["tree", "json"] {
                println!("{}", conformance::answer(&program.record(kind)));
            }
        }
        Ok(())
    })?;
    thread.join().map_err(|_| anyhow::anyhow!("the evaluator panicked"))??;
    Ok(ExitCode::SUCCESS)
}

/// Shows all answers to a file.
fn show(oracle: &Path, file: &Path) -> Result<ExitCode> {
    let program = Program::single(&std::fs::read_to_string(file)?);
    let mut oracle = Oracle::new(oracle.to_owned());
    let replies = oracle.ask(&program)?;
    for (name, reply) in ["newer", "older"].iter().zip(&replies) {
        match reply {
            oracle::Reply::Answer(answer) => println!("{name}: {answer}"),
            oracle::Reply::Failed(how) => println!("{name}: {how}"),
        }
    }
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        for kind in ["tree", "json"] {
            println!("ours:  {}", conformance::answer(&program.record(kind)));
        }
        println!("{:?}", compare(&program, &mut oracle));
    })?;
    thread.join().map_err(|_| anyhow::anyhow!("the evaluator panicked"))?;
    Ok(ExitCode::SUCCESS)
}
