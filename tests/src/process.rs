//! Processes that end with us: in order, and also when we crash or are killed.
//!
//! A watchdog (a few lines of shell in a session of its own) holds the reading end of a pipe to
//! this process. It learns every process before that process starts its program, and when the
//! pipe closes, for whatever reason, it ends those that are left. No signal handler, no unsafe,
//! nothing that a `kill -9` of us could skip.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;

/// Reads `+ TARGET` and `- TARGET` lines; a target is a pid, or a process group as `-PID`.
const WATCHDOG: &str = r#"
trap '' INT HUP TERM
targets=" "
while read -r what target; do
  case $what in
    +) targets="$targets$target ";;
    -) left=" "; for t in $targets; do [ "$t" = "$target" ] || left="$left$t "; done; targets=$left;;
  esac
done
for t in $targets; do kill -s TERM -- "$t" 2>/dev/null; done
n=0
while [ $n -lt 20 ]; do
  alive=
  for t in $targets; do kill -s 0 -- "$t" 2>/dev/null && alive=1; done
  [ -n "$alive" ] || break
  sleep 0.1
  n=$((n + 1))
done
for t in $targets; do kill -s KILL -- "$t" 2>/dev/null; done
for d in "$@"; do rm -rf -- "$d"; done
"#;

/// Waits for one line before it becomes the program: until then it is known to the watchdog.
const GATE: &str = r#"read -r go || exit 1; exec "$@" </dev/null"#;

/// The way to the watchdog; closed when it shall act.
#[derive(Debug)]
struct Pipe(Mutex<Option<ChildStdin>>);

impl Pipe {
    fn send_command(&self, what: char, target: &str) -> Result<()> {
        match self.0.lock().as_mut() {
            Some(pipe) => writeln!(pipe, "{what} {target}").context("the watchdog is gone"),
            None => bail!("the watchdog was stopped"),
        }
    }
}

/// Ends the processes registered with it when this process ends.
#[derive(Debug)]
pub struct Watchdog {
    pipe: Arc<Pipe>,
    child: Mutex<Child>,
}

impl Watchdog {
    /// Starts the watchdog; it removes the folders `litter` at the end.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start(litter: &[&Path]) -> Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .args(litter)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let pipe = Arc::new(Pipe(Mutex::new(child.stdin.take())));
        Ok(Self { pipe, child: Mutex::new(child) })
    }

    /// Starts a program in a process group of its own, its output in `log` (appended).
    ///
    /// # Errors
    /// When the log cannot be written or the program not be started.
    pub fn spawn(&self, name: &str, command: &Invocation, log: &Path) -> Result<Process> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut child = command
            .gated()
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let target = format!("-{}", child.id());
        self.pipe.send_command('+', &target)?;
        if let Some(mut gate) = child.stdin.take() {
            writeln!(gate, "go").with_context(|| format!("{name} ended before it started"))?;
        }
        Ok(Process {
            name: name.to_owned(),
            log: log.to_owned(),
            pid: child.id(),
            child: Mutex::new(child),
            pipe: Arc::clone(&self.pipe),
        })
    }

    /// Runs a program in the foreground, with our terminal, and waits for it.
    ///
    /// On a terminal it stays in our process group, so that Ctrl-C reaches it; elsewhere it gets
    /// one of its own, so that the watchdog also ends what it started.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn foreground(&self, command: &mut Command, interactive: bool) -> Result<ExitStatus> {
        if !interactive {
            command.process_group(0);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        let target = if interactive { child.id().to_string() } else { format!("-{}", child.id()) };
        self.pipe.send_command('+', &target)?;
        let status = child.wait()?;
        self.pipe.send_command('-', &target)?;
        Ok(status)
    }

    /// Ends what is left and waits until it has ended.
    pub fn stop(&self) {
        drop(self.pipe.0.lock().take());
        let _ = self.child.lock().wait();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A program with its arguments and environment.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Invocation {
    /// The program alone.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The value of an environment variable that was added; the last one counts.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn gated(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", GATE, "gate"]).arg(&self.program).args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: u32,
    child: Mutex<Child>,
    pipe: Arc<Pipe>,
}

impl Process {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let status = self.child.lock().try_wait()?;
        if status.is_some() {
            let _ = self.pipe.send_command('-', &format!("-{}", self.pid));
        }
        Ok(status)
    }

    /// An error with the end of the log if the program has ended.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check(&self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!("{} ended early ({status}){}", self.name, tail(&self.log, 15)),
        }
    }

    /// Ends it at once (`kill -9`) and waits for its end.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn kill(&self) -> Result<ExitStatus> {
        self.signal("KILL");
        let status = self.child.lock().wait()?;
        let _ = self.pipe.send_command('-', &format!("-{}", self.pid));
        Ok(status)
    }

    /// Asks it to end, waits, and ends it by force after `grace`. True if it ended by itself.
    ///
    /// # Errors
    /// When the operating system does not answer.
    pub fn stop(&self, grace: Duration) -> Result<bool> {
        self.signal("TERM");
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if self.ended()?.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill()?;
        Ok(false)
    }

    /// Holds all its threads, as a machine does that is overloaded or suspended.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        // The standard library sends SIGKILL only; the shell's `kill` sends the rest.
        let _ = Command::new("sh")
            .args(["-c", r#"kill -s "$1" -- "$2""#, "signal", signal])
            .arg(format!("-{}", self.pid))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// The last lines of a log, as an appendix to an error text.
#[must_use]
pub fn tail(log: &Path, lines: usize) -> String {
    let Ok(text) = fs::read(log) else { return String::new() };
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    let last = all.get(all.len().saturating_sub(lines)..).unwrap_or_default();
    let mut appendix = format!("; last lines of {}:", log.display());
    for line in last {
        let _ = write!(appendix, "\n    {line}");
    }
    appendix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline, "timed out: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn alive(pid: u32) -> bool {
        // A zombie is a process that has ended and that its parent has not asked about yet.
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
    }

    #[test]
    fn a_process_and_its_children_end_with_the_watchdog() {
        let dir = tempfile::tempdir().unwrap();
        let litter = dir.path().join("litter");
        fs::create_dir(&litter).unwrap();
        let watchdog = Watchdog::start(&[&litter]).unwrap();
        let child = dir.path().join("child");
        let script = Invocation::new("sh")
            .args(["-c", r#"sleep 1000 & echo $! > "$FILE"; wait"#])
            .env("FILE", child.to_str().unwrap());
        let process = watchdog.spawn("script", &script, &dir.path().join("log")).unwrap();
        let inner = || fs::read_to_string(&child).ok()?.trim().parse::<u32>().ok();
        until("the child's pid", || inner().is_some());
        let inner = inner().unwrap();
        assert!(alive(process.pid()) && alive(inner));
        // What happens when this process is killed: the pipe closes without a word.
        watchdog.stop();
        until("both ended", || !alive(process.pid()) && !alive(inner));
        assert!(!litter.exists());
    }

    #[test]
    fn an_early_end_is_reported_with_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let watchdog = Watchdog::start(&[]).unwrap();
        let script = Invocation::new("sh").args(["-c", "echo no such luck; exit 3"]);
        let process = watchdog.spawn("script", &script, &dir.path().join("log")).unwrap();
        until("its end", || process.ended().unwrap().is_some());
        let error = process.check().unwrap_err().to_string();
        assert!(error.contains("script ended early (exit status: 3)"), "{error}");
        assert!(error.contains("no such luck"), "{error}");
    }

    #[test]
    fn a_stubborn_process_is_ended_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let watchdog = Watchdog::start(&[]).unwrap();
        let log = dir.path().join("log");
        let script = Invocation::new("sh").args(["-c", "trap '' TERM; echo ready; sleep 1000; :"]);
        let process = watchdog.spawn("script", &script, &log).unwrap();
        until("its trap", || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready")));
        // `sleep` itself ends on TERM, so the group is only gone for good after KILL.
        let ended = process.stop(Duration::from_millis(100)).unwrap();
        assert!(!ended || !alive(process.pid()));
        until("its end", || !alive(process.pid()));
    }
}
