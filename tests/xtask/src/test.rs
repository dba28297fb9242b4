//! `cargo xtask test`: everything that must hold, cheap checks first. `.ci/run` is this and no
//! more.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vela_tests::controlplane::Programs;
use vela_tests::deploy::{Binaries, Profile};
use vela_tests::material;

use crate::failures::Failures;
use crate::side_by_side::{self, Depth};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out what needs a control plane and the examples of the documentation, and simulate a sample
    #[arg(long)]
    quick: bool,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
}

/// What a step found out.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) ok: bool,
    passed: usize,
    failed: usize,
    /// What the failed tests say.
    failures: Vec<String>,
}

impl Outcome {
    /// Of nothing that could fail.
    pub(crate) fn empty() -> Self {
        Self { ok: true, ..Self::default() }
    }

    /// From the output of test programs that ended in success or not.
    pub(crate) fn read(output: &str, ok: bool) -> Self {
        let mut reading = Reading::default();
        output.lines().for_each(|line| reading.line(line));
        reading.finish(ok)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.ok &= other.ok;
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
    }
}

/// The output of test programs, read line by line.
#[derive(Default)]
struct Reading {
    passed: usize,
    failed: usize,
    failures: Failures,
}

impl Reading {
    fn line(&mut self, line: &str) {
        self.failures.read(line);
        if let Some((passed, failed)) = counts(line) {
            self.passed += passed;
            self.failed += failed;
        }
    }

    fn finish(self, ok: bool) -> Outcome {
        Outcome { ok, passed: self.passed, failed: self.failed, failures: self.failures.finish() }
    }
}

type Step = (&'static str, fn() -> Result<Outcome>);

const STEPS: [Step; 8] = [
    ("formatting", || cargo(&FORMATTING)),
    LINTS,
    DOCUMENTATION,
    ("repository rules", || cargo(&["test", "--workspace", "--locked", "--test", "tidy"])),
    ("tests", tests),
    ("examples of the documentation", || {
        cargo(&["test", "--workspace", "--locked", "--doc", "--no-fail-fast"])
    }),
    ("integration tests", || cargo(&["test", "--workspace", "--locked", "--test", "it"])),
    ("charts", charts),
];

/// In the loop of an edit and its tests: nothing here needs a control plane, and what can run side by side does.
const QUICK_STEPS: [Step; 3] = [
    LINTS,
    DOCUMENTATION,
    ("formatting, repository rules and tests", || side_by_side::run(Depth::Quick)),
];

pub(crate) const FORMATTING: [&str; 3] = ["fmt", "--all", "--check"];

const LINTS: Step = ("lints", || {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
});

const DOCUMENTATION: Step = ("documentation of the libraries", documentation);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut report = Vec::new();
    let mut total = Outcome::empty();
    let steps: &[Step] = if args.quick { &QUICK_STEPS } else { &STEPS };
    for (name, step) in steps {
        println!("\n== {name}");
        let since = Instant::now();
        let outcome = step().unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Outcome::default()
        });
        total.passed += outcome.passed;
        // A step that fails without a failing test (a lint, a build) is one failure.
        total.failed += outcome.failed.max(usize::from(!outcome.ok));
        total.ok &= outcome.ok;
        let stop = !outcome.ok && args.fail_fast;
        report.push((name, outcome, since.elapsed()));
        if stop {
            break;
        }
    }
    println!("\n== summary");
    for (name, outcome, time) in report {
        println!("{}", line(name, &outcome, time));
        for failure in &outcome.failures {
            println!("  {}", failure.replace('\n', "\n    "));
        }
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(if total.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn line(name: &str, outcome: &Outcome, time: Duration) -> String {
    let mark = if outcome.ok { "ok    " } else { "FAILED" };
    let mut line = format!("{mark} {name} ({:.0} s)", time.as_secs_f64());
    if outcome.passed + outcome.failed > 0 {
        line += &format!(": {} passed, {} failed", outcome.passed, outcome.failed);
    }
    line
}

/// Unit and corpus tests. What they and the integration tests need is built first, where its progress can be seen.
fn tests() -> Result<Outcome> {
    Programs::ready()?;
    Programs::helm()?;
    Binaries::with_gateway(Profile::Dev)?;
    side_by_side::run(Depth::Full)
}

/// The documentation of the crates below `shared/`, without that of dependencies: links that lead nowhere are errors. The
/// checks of the lints are of no use to it, so it costs a check of these crates too, some 20 seconds of one core.
fn documentation() -> Result<Outcome> {
    let mut args: Vec<String> = ["doc", "--no-deps", "--locked"].map(str::to_owned).into();
    let shared = material::workspace().join("shared");
    for entry in std::fs::read_dir(&shared).context("cannot list the libraries")? {
        let manifest = entry.context("cannot list the libraries")?.path().join("Cargo.toml");
        let Ok(manifest) = std::fs::read_to_string(manifest) else { continue };
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.context("a library without a name")?.trim_matches('"');
        args.extend(["--package".to_owned(), name.to_owned()]);
    }
    cargo_with(&args, &[("RUSTDOCFLAGS", "-D warnings")])
}

fn charts() -> Result<Outcome> {
    crate::charts::check()?;
    Ok(Outcome::empty())
}

/// The seed of the property tests, so that a run says the same twice. Another value of the variable
/// tries other cases.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "20260601");

/// The variable with its value.
pub(crate) fn seed() -> (&'static str, OsString) {
    (SEED.0, std::env::var_os(SEED.0).unwrap_or_else(|| SEED.1.into()))
}

fn cargo(args: &[&str]) -> Result<Outcome> {
    cargo_with(args, &[])
}

/// Runs cargo with its output passed through, and adds up what its test runs report.
fn cargo_with<A: AsRef<OsStr>>(args: &[A], environment: &[(&str, &str)]) -> Result<Outcome> {
    let mut child = material::cargo()
        .args(args)
        .envs(environment.iter().copied())
        .envs([seed()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut reading = Reading::default();
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes)? > 0 {
            let text = String::from_utf8_lossy(&bytes);
            print!("{text}");
            reading.line(text.trim_end());
            bytes.clear();
        }
    }
    let ok = child.wait()?.success();
    Ok(reading.finish(ok))
}

/// The numbers in a line such as `test result: ok. 3 passed; 0 failed; ...`.
fn counts(line: &str) -> Option<(usize, usize)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = rest.split("; ").map(|part| part.split(' ').next()?.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(counts(ok), Some((12, 0)));
        let failed = "test result: FAILED. 14 passed; 1 failed; 0 ignored; 0 measured";
        assert_eq!(counts(failed), Some((14, 1)));
        assert_eq!(counts("test a ... ok"), None);
        assert_eq!(counts("test result: ok"), None);
    }
}
