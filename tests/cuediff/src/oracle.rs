//! Go's evaluators as a process that is asked again and again.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::conformance::json::Json;
use crate::program::Program;

/// What one evaluator said of a program.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(Json),
    /// It panicked, overflowed its stack or did not come to an end.
    Failed(&'static str),
}

impl Reply {
    pub(crate) fn answer(self) -> Option<Json> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Failed(_) => None,
        }
    }
}

/// A process that answers programs, started when it is needed and again when it has ended.
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

    /// Has the next program answered by a new process.
    pub(crate) fn restart(&mut self) {
        if let Some(process) = self.process.take() {
            process.end();
        }
    }

    /// What the newer and the older evaluator say.
    pub(crate) fn ask(&mut self, program: &Program) -> Result<[Reply; 2]> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => Process::start(&self.program)?,
        };
        let sent = writeln!(process.input, "{}", program.request());
        let mut replies = [Reply::Failed("not asked"), Reply::Failed("not asked")];
        let mut alive = sent.is_ok();
        for reply in &mut replies {
            if !alive {
                break;
            }
            let mut line = String::new();
            *reply = match process.output.read_line(&mut line) {
                Ok(1..) => read(&line)?,
                _ => Reply::Failed("crash"),
            };
            alive = !matches!(reply, Reply::Failed("crash" | "timeout"));
        }
        if alive {
            self.process = Some(process);
        } else {
            process.end();
        }
        Ok(replies)
    }
}

fn read(line: &str) -> Result<Reply> {
    let json = Json::parse(line).map_err(anyhow::Error::msg)?;
    Ok(if json.get("timeout").is_some() {
        Reply::Failed("timeout")
    } else if json.get("panic").is_some() {
        Reply::Failed("panic")
    } else {
        Reply::Answer(json)
    })
}

impl Process {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The stack of a crash.
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    fn end(mut self) {
        drop(self.input);
        // It has ended by itself, or is about to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.restart();
    }
}

/// Builds the oracle into the user's cache, once for each version of its source.
///
/// # Errors
/// When Go is missing or the build fails.
pub(crate) fn build(source: &Path, fallback: &Path) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum", "main.go", "tree.go"] {
        let path = source.join(file);
        hash.update(
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
        );
    }
    let key: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let user = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let mut folder = user.map_or_else(|| fallback.to_owned(), |dir| dir.join("vela-rs/cue-oracle"));
    // A home that cannot be written to is no reason to fail.
    if std::fs::create_dir_all(&folder).is_err() {
        fallback.clone_into(&mut folder);
        std::fs::create_dir_all(&folder)?;
    }
    let program = folder.join(&key);
    if program.is_file() {
        return Ok(program);
    }
    let unfinished = folder.join(format!(".{key}-{}", std::process::id()));
    let output = Command::new("go")
        .args(["build", "-trimpath", "-o"])
        .arg(&unfinished)
        .arg(".")
        .current_dir(source)
        .stdin(Stdio::null())
        .output()
        .context("cannot run go")?;
    ensure!(output.status.success(), "go build: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&unfinished, &program)?;
    Ok(program)
}
