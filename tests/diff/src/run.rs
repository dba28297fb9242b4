//! A run: threads with an oracle each compare cases until the time is over, and reduce those that differ.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::report::Report;
use crate::{Comparison, Oracle, PANIC, Verdict as _};

/// How long, how much, from where on.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Seconds to go on for
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Cases to run at the most, in all
    #[arg(long)]
    count: Option<u64>,
    /// Where the sequence of cases begins; the same seed gives the same cases
    #[arg(long)]
    seed: Option<u64>,
    /// Threads, each with an oracle of its own
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Differences to reduce at the most; the rest is counted
    #[arg(long, default_value_t = 400)]
    reduce: u64,
    /// Fail if more cases than this of a thousand differ
    #[arg(long)]
    at_most: Option<usize>,
    /// Write each case here before it is compared: what is there when the process dies has killed it (one job)
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Instead: print the cases
    #[arg(long)]
    print: bool,
}

/// Time after the end of a run in which reductions that have started continue.
const REDUCTION: Duration = Duration::from_secs(20);

/// What the threads of a run share.
struct Work<'a, C: Comparison> {
    comparison: &'a C,
    run: &'a Run,
    families: &'a [C::Family],
    oracle: &'a Path,
    seed: u64,
    end: Instant,
    next: AtomicU64,
    reduced: AtomicU64,
}

/// A compared case; of one that differs also the reduced one.
type Compared<C> = (
    <C as Comparison>::Family,
    <C as Comparison>::Verdict,
    Option<(<C as Comparison>::Verdict, <C as Comparison>::Case)>,
);

/// Compares cases of these families in turn, and prints what was found. `oracle` is the program to ask, built when it is needed;
/// `columns` are those of the table.
///
/// # Errors
/// The oracle cannot be built or run, or a thread panicked.
pub fn run<C: Comparison>(
    comparison: &C,
    run: &Run,
    families: &[C::Family],
    oracle: impl FnOnce() -> Result<PathBuf>,
    columns: &'static [&'static str],
) -> Result<ExitCode> {
    let seed = run.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    if run.print {
        for index in 0..run.count.unwrap_or(10) {
            if let Some((_, case)) = make(comparison, families, seed, index) {
                println!("// {index}\n{case}");
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let oracle = oracle()?;
    println!("seed {seed}");
    let work = Work {
        comparison,
        run,
        families,
        oracle: &oracle,
        seed,
        end: Instant::now() + Duration::from_secs(run.seconds),
        next: AtomicU64::new(0),
        reduced: AtomicU64::new(0),
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for _ in 0..run.jobs.max(1) {
            let (work, sender) = (&work, sender.clone());
            let thread = std::thread::Builder::new().stack_size(C::STACK);
            threads.push(thread.spawn_scoped(scope, move || work.go(&sender))?);
        }
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    })?;
    drop(sender);
    let mut report = Report::<C>::new(columns);
    for (family, verdict, small) in receiver {
        report.count(family, &verdict);
        if let Some((verdict, small)) = small
            && let Some(difference) = verdict.difference()
        {
            report.add(difference, &small, verdict.is_failure());
        }
    }
    println!("{}", report.text());
    let (differing, cases) = report.differing();
    let failed = run.at_most.is_some_and(|most| differing * 1000 > most * cases);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A case of the sequence. The families take turns.
fn make<C: Comparison>(
    comparison: &C,
    families: &[C::Family],
    seed: u64,
    index: u64,
) -> Option<(C::Family, C::Case)> {
    let turn = usize::try_from(index).unwrap_or(0) % families.len().max(1);
    let family = *families.get(turn)?;
    let seed = fastrand::Rng::with_seed(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..);
    Some((family, comparison.make(family, seed)))
}

impl<C: Comparison> Work<'_, C> {
    /// Compares until the time or the number of cases is over.
    fn go(&self, found: &Sender<Compared<C>>) -> Result<()> {
        let mut oracle = Oracle::new(self.oracle.to_owned());
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let is_over = self.run.count.is_some_and(|count| index >= count);
            if is_over || Instant::now() >= self.end {
                return Ok(());
            }
            let made = make(self.comparison, self.families, self.seed, index);
            let Some((family, case)) = made else { return Ok(()) };
            self.keep(&case)?;
            let verdict = self.comparison.compare(&case, &mut oracle)?;
            let small = self.small(&case, &verdict, &mut oracle)?;
            if found.send((family, verdict, small)).is_err() {
                return Ok(());
            }
        }
    }

    /// The smallest case like one that differs.
    fn small(
        &self,
        case: &C::Case,
        verdict: &C::Verdict,
        oracle: &mut Oracle,
    ) -> Result<Option<(C::Verdict, C::Case)>> {
        let Some(difference) = verdict.difference() else { return Ok(None) };
        // A panic is always worth its time.
        let is_wanted = difference.level == PANIC
            || self.reduced.fetch_add(1, Ordering::Relaxed) < self.run.reduce;
        if !is_wanted {
            return Ok(None);
        }
        let reduced = self.comparison.reduce(case, &mut |candidate| {
            // What takes long is shown as it is.
            if Instant::now() >= self.end + REDUCTION || self.keep(candidate).is_err() {
                return false;
            }
            let found = self.comparison.compare(candidate, oracle);
            found.is_ok_and(|found| verdict.is_like(&found))
        });
        Ok(Some((self.comparison.compare(&reduced, oracle)?, reduced)))
    }

    fn keep(&self, case: &C::Case) -> std::io::Result<()> {
        match &self.run.keep {
            Some(path) => std::fs::write(path, case.to_string()),
            None => Ok(()),
        }
    }
}
