//! Helm as a process that is asked again and again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::answer::{self, Answer};
use crate::case::Case;

/// A process that answers cases, started when it is needed and again when it has ended.
#[derive(Debug)]
pub(crate) struct Oracle {
    program: PathBuf,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, process: None }
    }

    /// What Helm makes of a case.
    pub(crate) fn ask(&mut self, case: &Case) -> Result<Answer> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => Process::start(&self.program)?,
        };
        let sent = writeln!(process.input, "{}", case.request());
        let mut line = String::new();
        let answer = match sent.and_then(|()| process.output.read_line(&mut line)) {
            Ok(1..) => answer::of_oracle(&line).context("the oracle's line is not JSON")?,
            _ => Answer::Failed("crash"),
        };
        match answer {
            Answer::Failed("crash" | "timeout") => process.end(),
            _ => self.process = Some(process),
        }
        Ok(answer)
    }
}

impl Process {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The stack of a crash.
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, input, output })
    }

    fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.end();
        }
    }
}

/// Builds the oracle; Go's cache makes that quick when nothing has changed.
pub(crate) fn build(folder: &Path, program: &Path) -> Result<PathBuf> {
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(std::path::absolute(program)?)
        .arg(".")
        .current_dir(folder)
        .status()
        .context("cannot run go")?;
    ensure!(status.success(), "go build failed");
    Ok(std::path::absolute(program)?)
}
