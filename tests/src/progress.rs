//! Progress on standard error: one line a step, with the time it took.
//!
//! On a terminal the running step shows its age; elsewhere (CI) a long step says every half minute
//! that it is alive.

#![allow(clippy::print_stderr, reason = "progress is for the person who started the tool")]

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A step that is running. Dropped without [`Step::done`], it reports that it was given up.
#[derive(Debug)]
pub struct Step {
    text: String,
    since: Instant,
    quit: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Step {
    /// Announces a step.
    #[must_use]
    pub fn start(text: impl Into<String>) -> Self {
        let text = text.into();
        let since = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        if !terminal {
            eprintln!("  ...  {text}");
        }
        let (quit, quitting) = channel::<()>();
        let line = text.clone();
        let ticker = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || {
                let period = Duration::from_millis(if terminal { 100 } else { 30_000 });
                let mut turn = 0_usize;
                while quitting.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                    let seconds = since.elapsed().as_secs();
                    if terminal {
                        let wheel = ["|", "/", "-", "\\"].get(turn % 4).copied().unwrap_or("|");
                        eprint!("\r\x1b[2K  {wheel}    {line} ({seconds} s)");
                        let _ = std::io::stderr().flush();
                        turn += 1;
                    } else {
                        eprintln!("  ...  {line}: {seconds} s");
                    }
                }
                if terminal {
                    eprint!("\r\x1b[2K");
                }
            })
            .ok();
        Self { text, since, quit: Some(quit), ticker }
    }

    /// The step succeeded.
    pub fn done(mut self) {
        self.finish("ok ");
    }

    fn finish(&mut self, mark: &str) {
        if let Some(quit) = self.quit.take() {
            drop(quit);
            if let Some(ticker) = self.ticker.take() {
                let _ = ticker.join();
            }
            eprintln!("  {mark}  {} ({:.1} s)", self.text, self.since.elapsed().as_secs_f64());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.finish("---");
    }
}
