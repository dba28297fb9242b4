//! Compares our Helm engine with Helm on charts without end.
//!
//! Cases are grown from the grammar (`grow`) or are mutations of those of the conformance corpus
//! (`mutate`); `oracle` asks Helm's own packages, `compare` says whether the answers are the same,
//! `reduce` finds the smallest case that still differs. The run and its report are those of `tests/diff`.
//! `cargo xtask helm diff` builds and runs it.

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

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum as _};
use engine_diff::{Comparison, Oracle, Run};

use case::Case;
use compare::{Verdict, compare};
use grow::Family;
use mutate::Corpus;
use oracle::ask;

#[derive(Parser)]
#[command(about = "Compares our Helm engine with Helm on generated charts")]
struct Args {
    #[command(flatten)]
    run: Run,
    /// Only this family; otherwise all in turn
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Productions of a template, about
    #[arg(long, default_value_t = 14)]
    size: usize,
    /// Compare the texts of errors too
    #[arg(long)]
    messages: bool,
    /// The folder of the corpus
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Instead: compare the case of this file, as --print shows one
    #[arg(long)]
    file: Option<PathBuf>,
    /// Instead: compare the template of this file
    #[arg(long)]
    template: Option<PathBuf>,
    /// With --template: the values
    #[arg(long, default_value = "")]
    values: String,
}

/// Stack of a thread: what templates may take, and more.
const STACK: usize = answer::STACK_OF_TEMPLATES + (64 << 20);

/// Our Helm engine and Helm.
struct Helm {
    corpus: Corpus,
    size: usize,
    /// The texts of errors count.
    messages: bool,
}

impl Comparison for Helm {
    type Family = Family;
    type Case = Case;
    type Verdict = Verdict;

    const STACK: usize = STACK;

    fn make(&self, family: Family, seed: u64) -> Case {
        let case = match family {
            Family::Corpus => self.corpus.record(seed),
            Family::Charts => self.corpus.chart(seed),
            _ => None,
        };
        case.unwrap_or_else(|| grow::grow(family, seed, self.size))
    }

    fn compare(&self, case: &Case, oracle: &mut Oracle) -> Result<Verdict> {
        compare(case, oracle, self.messages)
    }

    fn reduce(&self, case: &Case, interesting: &mut dyn FnMut(&Case) -> bool) -> Case {
        reduce::reduce(case, interesting)
    }

    fn size(case: &Case) -> usize {
        case.size()
    }

    fn features(case: &Case) -> String {
        case.features()
    }

    fn show(case: &Case) -> String {
        case.show()
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
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let build = || {
        engine_diff::oracle::build(&here.join("oracle"), "helm-oracle", &here.join("../../target"))
    };
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file)?;
        let case = Case::read(&text).context("the file holds no case")?;
        return show(build()?, case);
    }
    if let Some(file) = &args.template {
        let case = Case::template(std::fs::read_to_string(file)?, args.values.clone());
        return show(build()?, case);
    }
    let corpus = args.corpus.as_deref().map(Corpus::read).transpose()?.unwrap_or_default();
    let mut families = match args.family {
        Some(family) => vec![family],
        None => Family::value_variants().to_vec(),
    };
    let of_corpus = |family: &Family| matches!(family, Family::Corpus | Family::Charts);
    families.retain(|family| !of_corpus(family) || !corpus.is_empty());
    let comparison = Helm { corpus, size: args.size, messages: args.messages };
    engine_diff::run(&comparison, &args.run, &families, build, &compare::COLUMNS)
}

/// Shows both answers to a case.
fn show(oracle: PathBuf, case: Case) -> Result<ExitCode> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || -> Result<()> {
        let mut oracle = Oracle::new(oracle);
        println!("Helm: {}", compare::show(&ask(&mut oracle, &case)?));
        println!("ours: {}", compare::show(&answer::ours(&case)));
        println!("{:?}", compare(&case, &mut oracle, true)?);
        Ok(())
    })?;
    thread.join().map_err(|_| anyhow::anyhow!("the engine panicked"))??;
    Ok(ExitCode::SUCCESS)
}
