//! Go's engine as a process that is asked again and again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

/// A process that answers requests, started when it is needed and again when it has ended.
#[derive(Debug)]
pub struct Oracle {
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
    /// One that runs this program.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, process: None }
    }

    /// Has the next request answered by a new process.
    pub fn restart(&mut self) {
        if let Some(process) = self.process.take() {
            process.end();
        }
    }

    /// Sends a line. A process that has died is noticed when its answer is read.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn send(&mut self, request: impl std::fmt::Display) -> Result<()> {
        if self.process.is_none() {
            self.process = Some(Process::start(&self.program)?);
        }
        if let Some(process) = &mut self.process {
            let _ = writeln!(process.input, "{request}");
        }
        Ok(())
    }

    /// Reads a line of the answer; `None`: the process died over the request.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        if let Ok(1..) = self.process.as_mut()?.output.read_line(&mut line) {
            return Some(line);
        }
        self.restart();
        None
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

/// Builds an oracle into the user's cache under its name, once for each version of its sources.
///
/// # Errors
/// When Go is missing or the build fails.
pub fn build(source: &Path, name: &str, fallback: &Path) -> Result<PathBuf> {
    let key = key(source)?;
    let user = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let fallback = fallback.join(name);
    let mut folder = user.map_or_else(|| fallback.clone(), |dir| dir.join("vela-rs").join(name));
    // A home that cannot be written to is no reason to fail.
    if std::fs::create_dir_all(&folder).is_err() {
        folder = std::path::absolute(fallback)?;
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

/// A hash of all sources of a Go module of one folder.
fn key(source: &Path) -> Result<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("go" | "mod" | "sum")) {
            files.push(path);
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for path in files {
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
        );
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
