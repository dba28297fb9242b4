//! Test programs side by side, since many of their tests wait for time limits, and some have one test that takes long.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde_json::Value;
use vela_tests::material;

use crate::test::{FORMATTING, Outcome, line, seed};

/// Tests that simulate or explore try one of so many of their cases.
const SAMPLE: &str = "VELA_SAMPLE";

/// How much is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Formatting, the rules of the repository and the test programs of libraries and deployables. Only what fails shows its output.
    Quick,
    /// All test programs without a step of their own.
    Full,
}

impl Depth {
    /// What is built, as arguments of `cargo test`.
    const fn tested(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Quick => {
                &[&["--workspace", "--exclude", "vela-tests"], &["--workspace", "--test", "tidy"]]
            }
            Self::Full => &[&["--workspace"]],
        }
    }

    /// Test programs that another step runs.
    const fn left_out(self) -> &'static [&'static str] {
        match self {
            Self::Quick => &[],
            Self::Full => &["it", "tidy"],
        }
    }

    /// An odd number: cases that take turns stay so.
    fn sample(self) -> OsString {
        let number = match self {
            Self::Quick => "27",
            Self::Full if std::env::var_os("VELA_LONG_TESTS").is_some() => "1",
            Self::Full => "3",
        };
        std::env::var_os(SAMPLE).unwrap_or_else(|| number.into())
    }
}

/// A command whose output is that of tests.
struct Job {
    depth: Depth,
    name: String,
    command: Command,
    /// Jobs with the largest programs begin first: they take longest as a rule.
    bytes: u64,
}

pub(crate) fn run(depth: Depth) -> Result<Outcome> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut jobs = Vec::new();
    if depth == Depth::Quick {
        jobs.push(formatting());
    }
    for tested in depth.tested() {
        jobs.extend(programs(depth, tested, cores)?);
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(job.bytes));
    let jobs = Mutex::new(VecDeque::from(jobs));
    let total = Mutex::new(Outcome::empty());
    thread::scope(|scope| {
        let worker = || {
            loop {
                let Some(job) = jobs.lock().pop_front() else { return };
                let outcome = perform(job);
                total.lock().add(outcome);
            }
        };
        // As many again as cores: somebody waits for a time limit at most times.
        for _ in 0..cores * 2 {
            scope.spawn(worker);
        }
    });
    Ok(total.into_inner())
}

/// Builds test programs.
fn programs(depth: Depth, tested: &[&str], cores: usize) -> Result<Vec<Job>> {
    let output = material::cargo()
        .args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"])
        .args(tested)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built");
    }
    let built = String::from_utf8_lossy(&output.stdout);
    built
        .lines()
        .filter_map(executable)
        .filter(|(_, program)| !depth.left_out().contains(&&*name(program)))
        .map(|(package, program)| job(depth, &package, &program, cores))
        .collect()
}

/// The folder of the package and the test program that a message of cargo speaks of.
fn executable(message: &str) -> Option<(PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message.pointer("/profile/test")?.as_bool()? {
        return None;
    }
    let program = message.get("executable")?.as_str()?;
    let package = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
    Some((package.to_owned(), program.into()))
}

/// The name of a test program, without the hash in that of its file.
fn name(program: &Path) -> String {
    let file = program.file_stem().unwrap_or_default().to_string_lossy();
    file.rsplit_once('-').map_or(&*file, |(name, _)| name).to_owned()
}

fn job(depth: Depth, package: &Path, program: &Path, cores: usize) -> Result<Job> {
    let bytes =
        std::fs::metadata(program).with_context(|| format!("no {}", program.display()))?.len();
    let mut command = Command::new(program);
    // Simulations wait for their own time limits as much as they compute.
    command.current_dir(package).env("RUST_TEST_THREADS", (cores * 3).to_string());
    let folder = package.strip_prefix(material::workspace()).unwrap_or(package);
    Ok(Job { depth, name: format!("{} {}", folder.display(), name(program)), command, bytes })
}

fn formatting() -> Job {
    let mut command = material::cargo();
    command.args(FORMATTING);
    Job { depth: Depth::Quick, name: "formatting".into(), command, bytes: u64::MAX }
}

fn perform(mut job: Job) -> Outcome {
    let since = Instant::now();
    let output =
        job.command.envs([seed()]).env(SAMPLE, job.depth.sample()).stdin(Stdio::null()).output();
    let outcome = match &output {
        Ok(output) => {
            Outcome::read(&String::from_utf8_lossy(&output.stdout), output.status.success())
        }
        Err(_) => Outcome::default(),
    };
    if job.depth == Depth::Full || !outcome.ok {
        match output {
            Ok(output) => print!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(error) => eprintln!("error: cannot run {}: {error}", job.name),
        }
    }
    println!("{}", line(&job.name, &outcome, since.elapsed()));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_run() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/b/Cargo.toml","profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = executable(&message(true, r#""/t/deps/b-12""#));
        assert_eq!(found, Some(("/a/b".into(), "/t/deps/b-12".into())));
        assert_eq!(executable(&message(false, r#""/t/b""#)), None);
        assert_eq!(executable(&message(true, "null")), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(executable("running 3 tests"), None);
        assert_eq!(name(Path::new("/t/deps/vela_a-12")), "vela_a");
    }
}
