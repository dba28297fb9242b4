//! Compares our Helm engine with Helm on charts without end.
//!
//! Cases are grown from the grammar (`grow`) or are mutations of those of the conformance corpus
//! (`mutate`); `oracle` asks Helm's own packages, `compare` says whether the answers are the same,
//! `reduce` finds the smallest case that still differs, `report` groups what was found. `cargo
//! xtask helm diff` builds and runs it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its user"
)]
#![allow(
    clippy::indexing_slicing,
    reason = "only JSON values are indexed, and those answer null for what is not there"
)]

mod answer;
mod case;
mod compare;
mod grow;
mod mutate;
mod notes;
mod oracle;
mod reduce;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum as _};

use case::Case;
use compare::{Level, compare};
use grow::Family;
use mutate::Corpus;
use oracle::Oracle;
use report::Report;

#[derive(Parser)]
#[command(about = "Compares our Helm engine with Helm on generated charts")]
struct Args {
    /// Seconds to go on for
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Cases to run at the most, in all
    #[arg(long)]
    count: Option<u64>,
    /// Where the sequence of cases begins; the same seed gives the same cases
    #[arg(long)]
    seed: Option<u64>,
    /// Only this family; otherwise all in turn
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Productions of a template, about
    #[arg(long, default_value_t = 14)]
    size: usize,
    /// Threads, each with an oracle of its own
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Differences to reduce at the most; the rest is counted
    #[arg(long, default_value_t = 300)]
    reduce: u64,
    /// Fail if more cases than this of a thousand differ
    #[arg(long)]
    at_most: Option<usize>,
    /// Compare the texts of errors too
    #[arg(long)]
    messages: bool,
    /// The folder of the corpus
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Write each case here before it is compared: what is there when the process dies has killed
    /// it (one job)
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Instead: compare the case of this file, as --print shows one
    #[arg(long)]
    file: Option<PathBuf>,
    /// Instead: compare the template of this file
    #[arg(long)]
    template: Option<PathBuf>,
    /// With --template: the values
    #[arg(long, default_value = "")]
    values: String,
    /// Instead: print the cases
    #[arg(long)]
    print: bool,
}

/// Stack of a thread: what templates may take, and more.
const STACK: usize = answer::STACK_OF_TEMPLATES + (64 << 20);

/// Time after the end of a run in which reductions that have begun go on.
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
    let corpus = args.corpus.as_deref().map(Corpus::read).transpose()?.unwrap_or_default();
    let families: Vec<Family> = match args.family {
        Some(family) => vec![family],
        None => Family::value_variants().to_vec(),
    };
    let of_corpus = |family: &Family| matches!(family, Family::Corpus | Family::Charts);
    let families: Vec<Family> =
        families.into_iter().filter(|family| !of_corpus(family) || !corpus.is_empty()).collect();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let make = |index: u64| {
        let family = pick(&families, index);
        let seed =
            fastrand::Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
        let case = match family {
            Family::Corpus => corpus.record(seed),
            Family::Charts => corpus.chart(seed),
            _ => None,
        };
        (family, case.unwrap_or_else(|| grow::grow(family, seed, args.size)))
    };
    if args.print {
        for index in 0..args.count.unwrap_or(10) {
            println!("{}", make(index).1);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let program = oracle::build(&here.join("oracle"), &here.join("../../target/helm-oracle"))?;
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file)?;
        let case = Case::read(&text).context("the file holds no case")?;
        return show(program, case);
    }
    if let Some(file) = &args.template {
        let case = Case::template(std::fs::read_to_string(file)?, args.values.clone());
        return show(program, case);
    }
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let next = AtomicU64::new(0);
    let reduced = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    let work = || {
        let mut oracle = Oracle::new(program.clone());
        let sender = sender.clone();
        let compare = |case: &Case, oracle: &mut Oracle| compare(case, oracle, args.messages);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= end || args.count.is_some_and(|count| index >= count) {
                return Ok(());
            }
            let (family, case) = make(index);
            let keep = |case: &Case| match &args.keep {
                Some(path) => std::fs::write(path, case.to_string()),
                None => Ok(()),
            };
            keep(&case)?;
            let verdict = compare(&case, &mut oracle)?;
            let mut small = None;
            // A panic is always worth its time.
            if let Some(difference) = verdict.difference()
                && (difference.level == Level::Panic
                    || reduced.fetch_add(1, Ordering::Relaxed) < args.reduce)
            {
                let reduced = reduce::reduce(&case, |candidate| {
                    // What takes long is shown as it is.
                    if Instant::now() >= end + REDUCTION || keep(candidate).is_err() {
                        return false;
                    }
                    let found = compare(candidate, &mut oracle);
                    found.is_ok_and(|found| {
                        found.difference().is_some_and(|found| {
                            found.level == difference.level && found.what == difference.what
                        })
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
            report.add(difference, small);
        }
    }
    println!("{}", report.text());
    let (differing, cases) = report.differing();
    let failed = args.at_most.is_some_and(|most| differing * 1000 > most * cases);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The families take turns.
fn pick(families: &[Family], index: u64) -> Family {
    let at = usize::try_from(index).unwrap_or(0) % families.len().max(1);
    families.get(at).copied().unwrap_or(Family::Functions)
}

/// Shows both answers to a case.
fn show(oracle: PathBuf, case: Case) -> Result<ExitCode> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || -> Result<()> {
        let mut oracle = Oracle::new(oracle);
        println!("Helm: {}", compare::show(&oracle.ask(&case)?));
        println!("ours: {}", compare::show(&answer::ours(&case)));
        println!("{:?}", compare(&case, &mut oracle, true)?);
        Ok(())
    })?;
    thread.join().map_err(|_| anyhow::anyhow!("the engine panicked"))??;
    Ok(ExitCode::SUCCESS)
}
