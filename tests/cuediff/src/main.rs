//! Compares our CUE evaluator with both of Go's on programs without end.
//!
//! Programs are grown from the grammar (`grow`) or are mutations of those of the conformance corpus
//! (`mutate`); `oracle` asks Go, `compare` says whether the answers are the same, `reduce` finds the
//! smallest program that still differs. The run and its report are those of `tests/diff`. `cargo xtask
//! cue diff` builds and runs it.

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
#[path = "../../../shared/cue/tests/score/mod.rs"]
#[allow(dead_code, reason = "which records are out of scope is a question of the corpus")]
mod score;
mod syntax;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use engine_diff::{Comparison, Oracle, Run};

use compare::{Verdict, compare};
use conformance::json::Json;
use grow::Family;
use oracle::ask;
use program::Program;

#[derive(Parser)]
#[command(about = "Compares our CUE evaluator with Go's on generated programs")]
struct Args {
    #[command(flatten)]
    run: Run,
    /// Only this family; otherwise all in turn
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Productions of a program, about
    #[arg(long, default_value_t = 30)]
    size: usize,
    /// The folder of the corpus' development records
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Instead: compare this file and show the answers
    #[arg(long)]
    file: Option<PathBuf>,
    /// Instead: answer programs on standard input, a line `{"files": {..}}` each, with our tree and export
    #[arg(long)]
    answer: bool,
}

/// Our evaluator's limits are sized for a thread like those of its pool.
const STACK: usize = 256 << 20;

/// Our CUE evaluator and both of Go's.
struct Cue {
    /// The programs of the conformance corpus.
    corpus: Vec<String>,
    size: usize,
}

impl Comparison for Cue {
    type Family = Family;
    type Case = Program;
    type Verdict = Verdict;

    const STACK: usize = STACK;

    fn make(&self, family: Family, seed: u64) -> Program {
        match family {
            Family::Corpus => mutate::mutate(&self.corpus, seed),
            _ => grow::grow(family, seed, self.size),
        }
    }

    fn compare(&self, program: &Program, oracle: &mut Oracle) -> Result<Verdict> {
        compare(program, oracle)
    }

    fn reduce(&self, program: &Program, interesting: &mut dyn FnMut(&Program) -> bool) -> Program {
        reduce::reduce(program, interesting)
    }

    fn size(program: &Program) -> usize {
        program.size()
    }

    fn features(program: &Program) -> String {
        syntax::features(&program.to_string()).join(" + ")
    }
}

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
    if args.answer {
        return answer();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = || {
        engine_diff::oracle::build(&here.join("oracle"), "cue-oracle", &here.join("../../target"))
    };
    if let Some(file) = &args.file {
        return show(build()?, file);
    }
    let corpus = args.corpus.as_deref().map(corpus).transpose()?.unwrap_or_default();
    let mut families = match args.family {
        Some(family) => vec![family],
        None => Family::value_variants().to_vec(),
    };
    families.retain(|family| *family != Family::Corpus || !corpus.is_empty());
    let comparison = Cue { corpus, size: args.size };
    engine_diff::run(&comparison, &args.run, &families, build, &compare::COLUMNS)
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
fn show(oracle: PathBuf, file: &Path) -> Result<ExitCode> {
    let program = Program::single(&std::fs::read_to_string(file)?);
    let mut oracle = Oracle::new(oracle);
    let replies = ask(&mut oracle, &program)?;
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
