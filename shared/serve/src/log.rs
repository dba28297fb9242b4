//! Logs: one line an event on standard error, as text or JSON, with a level that can be changed
//! while the process runs (SIGUSR1 turns debug on and off; `PUT /debug/flags/v` sets it).

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `time LEVEL target: message field=value`.
    Text,
    /// One JSON object.
    Json,
    /// Text with colours.
    Dev,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("write text or json"),
        }
    }
}

/// The least serious event that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal operation.
    Info,
    /// Decisions and their reasons.
    Debug,
    /// Everything, dependencies included.
    Trace,
}

impl Level {
    /// What klog's `-v` means here: 0-3 info, 4-7 debug, 8 and above trace.
    pub fn of_verbosity(v: i32) -> Self {
        match v {
            8.. => Self::Trace,
            4..=7 => Self::Debug,
            _ => Self::Info,
        }
    }

    /// Our crates at this level; the libraries below us are an order quieter.
    fn filter(self) -> Targets {
        let (ours, below, libraries): (_, _, &[&str]) = match self {
            Self::Info => {
                (LevelFilter::INFO, LevelFilter::WARN, &["kube", "hyper", "tower", "rustls", "h2"])
            }
            Self::Debug => {
                (LevelFilter::DEBUG, LevelFilter::INFO, &["hyper", "tower", "rustls", "h2"])
            }
            Self::Trace => (LevelFilter::TRACE, LevelFilter::TRACE, &[]),
        };
        let libraries = libraries.iter().map(|library| (*library, below));
        Targets::new().with_default(ours).with_targets(libraries)
    }
}

/// How a process logs.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Level at the start.
    pub level: Level,
    /// Form of the lines.
    pub format: Format,
}

impl Default for Config {
    fn default() -> Self {
        Self { level: Level::Info, format: Format::Text }
    }
}

/// Changes the level of the running process.
#[derive(Debug, Clone)]
pub struct Handle {
    filter: reload::Handle<Targets, Registry>,
    debug: Arc<AtomicBool>,
    start: Level,
}

/// Why logging could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another subscriber is installed.
    #[error("logging is already set up")]
    Twice,
    /// The subscriber is gone.
    #[error("the log level could not be changed")]
    Gone,
}

/// Installs the process's one subscriber.
pub fn init(config: Config) -> Result<Handle, Error> {
    let (filter, handle) = reload::Layer::new(config.level.filter());
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match config.format {
        Format::Text => lines.with_ansi(false).boxed(),
        Format::Dev => lines.with_ansi(true).boxed(),
        Format::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
        }
    };
    tracing_subscriber::registry().with(filter).with(lines).try_init().map_err(|_| Error::Twice)?;
    let debug = Arc::new(AtomicBool::new(config.level != Level::Info));
    Ok(Handle { filter: handle, debug, start: config.level })
}

impl Handle {
    /// Changes the level.
    pub fn set(&self, level: Level) -> Result<(), Error> {
        self.filter.reload(level.filter()).map_err(|_| Error::Gone)?;
        self.debug.store(level != Level::Info, Ordering::Relaxed);
        Ok(())
    }

    /// Lets SIGUSR1 switch between info and debug. Call it inside the runtime.
    pub fn toggle_on_signal(&self) -> io::Result<()> {
        let mut asked = signal(SignalKind::user_defined1())?;
        let handle = self.clone();
        // Lives as long as the process: there is nothing to join.
        tokio::spawn(async move {
            while asked.recv().await.is_some() {
                let verbose =
                    if handle.start == Level::Trace { Level::Trace } else { Level::Debug };
                let level =
                    if handle.debug.load(Ordering::Relaxed) { Level::Info } else { verbose };
                if handle.set(level).is_ok() {
                    info!(?level, "log level changed");
                }
            }
        });
        Ok(())
    }
}
