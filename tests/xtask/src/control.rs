//! How a command under `exec` kills the controller and starts it again: this program, called with
//! the path of a socket on which the `exec` that owns the controller listens.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::runtime::Handle;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::Program;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The socket of the running `exec`
    socket: PathBuf,
    /// kill or start
    action: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut stream = UnixStream::connect(&args.socket)
        .with_context(|| format!("nobody listens on {}", args.socket.display()))?;
    writeln!(stream, "{}", args.action)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.trim_end() {
        "ok" => Ok(ExitCode::SUCCESS),
        "" => bail!("no answer"),
        error => bail!("{error}"),
    }
}

/// The listening side.
pub(crate) struct Control {
    /// Short on purpose: the path of a socket may have 107 bytes. The program is in it too: a build in the meantime replaces
    /// the one that runs.
    dir: TempDir,
    killed: Arc<AtomicBool>,
}

impl Control {
    pub(crate) fn start(
        cluster: Arc<Cluster>,
        controller: Arc<Program>,
        runtime: &Handle,
    ) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("vela-").tempdir()?;
        let listener = UnixListener::bind(dir.path().join("control"))?;
        std::fs::copy("/proc/self/exe", dir.path().join("xtask"))?;
        let killed = Arc::new(AtomicBool::new(false));
        let control = Self { dir, killed: Arc::clone(&killed) };
        let runtime = runtime.clone();
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let outcome = read(&stream).and_then(|action| match action.as_str() {
                    "kill" => {
                        killed.store(true, Ordering::Relaxed);
                        controller.kill()
                    }
                    "start" => {
                        controller.start(&cluster)?;
                        runtime.block_on(controller.ready())
                    }
                    other => bail!("unknown action {other:?}: kill or start"),
                });
                let answer = match outcome {
                    Ok(()) => "ok".to_owned(),
                    Err(error) => format!("{error:#}").replace('\n', " | "),
                };
                // The caller may have gone away; then nobody wants to know.
                let _ = writeln!(&stream, "{answer}");
            }
        })?;
        Ok(control)
    }

    /// A shell command for an action.
    pub(crate) fn command(&self, action: &str) -> String {
        let [program, socket] = ["xtask", "control"].map(|name| self.dir.path().join(name));
        format!("'{}' control '{}' {action}", program.display(), socket.display())
    }

    /// Whether the controller was killed on request.
    pub(crate) fn killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }
}

fn read(stream: &UnixStream) -> Result<String> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
