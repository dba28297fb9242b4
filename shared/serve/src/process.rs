//! What the programs have in common from `main` to the first request: flags, log, runtime, signals,
//! probes and metrics. Each program's `main` is one call of [`main`].

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::process::ExitCode;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::debug::Debug;
use crate::flags::{self, FlagError, Parsed, ProcessFlags};
use crate::gates::Gates;
use crate::health::Health;
use crate::listen::ListenAddr;
use crate::metrics::Registry;
use crate::vital::Vital;
use crate::{log, shutdown};

/// A program's configuration, built from its flags by `TryFrom`, whose error is one line for the operator.
pub trait Configuration: Sized {
    /// The command line, as clap parses it.
    type Flags: clap::Parser;

    /// Probes, metrics, logs.
    fn process(&self) -> &ProcessFlags;
    /// Feature gates.
    fn gates(&self) -> &Gates;
}

/// Parses the flags, sets up log, runtime and signals, and runs the program until it ends. What
/// goes wrong is one line, in the log where there is one.
pub fn main<C, E, R>(run: impl FnOnce(C, CancellationToken) -> R) -> ExitCode
where
    C: Configuration + TryFrom<C::Flags, Error: Error>,
    E: fmt::Display,
    R: Future<Output = Result<(), E>>,
{
    let parsed = match flags::parse::<C::Flags>(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(error) => return print_error(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return print_error(&FlagError::Refused(format!("cannot start threads: {error}")));
        }
    };
    match runtime.block_on(start(parsed, run)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a program ended that was not asked to. The alternate form of the program's own error shows its causes.
#[derive(Debug, thiserror::Error)]
enum Failure<C, E> {
    #[error("{0}")]
    Config(C),
    #[error(transparent)]
    Log(#[from] log::Error),
    #[error("cannot listen to signals: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Address(#[from] Occupied),
    #[error("{0:#}")]
    Program(E),
}

async fn start<C, E, R>(
    parsed: Parsed<C::Flags>,
    run: impl FnOnce(C, CancellationToken) -> R,
) -> Result<(), Failure<<C as TryFrom<C::Flags>>::Error, E>>
where
    C: Configuration + TryFrom<C::Flags, Error: Error>,
    E: fmt::Display,
    R: Future<Output = Result<(), E>>,
{
    let mut effective = parsed.effective;
    let config = C::try_from(parsed.flags);
    let process = config.as_ref().map(|config| config.process().log());
    let log = log::init(process.unwrap_or_default())?;
    for warning in &parsed.warnings {
        tracing::warn!("{warning}");
    }
    log.toggle_on_signal().map_err(Failure::Signals)?;
    let stop = shutdown::on_signal().map_err(Failure::Signals)?;
    let config = config.map_err(Failure::Config)?;
    let process = config.process();
    let gates = config.gates().states().into_iter().map(|(name, on)| format!("{name}={on}"));
    effective.insert("feature-gates".to_owned(), gates.collect());
    if let Some(listener) = bind("profiling-addr", &process.profiling_addr).await? {
        let debug = Debug::new(&parsed.program, &effective, log, stop.clone());
        // Ends with `stop`; nothing waits for it.
        tokio::spawn(debug.serve(listener));
    }
    run(config, stop).await.map_err(Failure::Program)
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "before there is a log")]
fn print_error(error: &FlagError) -> ExitCode {
    match error {
        FlagError::Shown(text) => println!("{text}"),
        FlagError::Refused(text) => eprintln!("{text}"),
    }
    ExitCode::from(error.code())
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: cannot listen on {address}: {error}")]
pub struct Occupied {
    flag: &'static str,
    address: ListenAddr,
    error: io::Error,
}

/// Serves probes and metrics until `end`, on threads of their own. To be called first: a program that waits for its
/// certificate or its API server is alive.
///
/// # Errors
/// An address that is taken.
pub async fn observe(
    flags: &ProcessFlags,
    health: &Health,
    registry: &Registry,
    (tasks, vital): (&TaskTracker, &Vital),
    end: &CancellationToken,
) -> Result<(), Occupied> {
    // Who binds serves: a listener belongs to the runtime that made it.
    let (health_addr, metrics_addr) = (flags.health_addr.clone(), flags.metrics_addr.clone());
    let probes = health.clone();
    let serve = move |listener, end| probes.serve(listener, end);
    listen(("health-addr", health_addr), (tasks, vital), end, serve).await?;
    let (registry, certificates) = (registry.clone(), flags.metrics_cert_path.clone());
    let serve = move |listener, end| registry.serve(listener, certificates, end);
    listen(("metrics-addr", metrics_addr), (tasks, vital), end, serve).await
}

/// Listens on the vital threads.
async fn listen<S: Future<Output = io::Result<()>> + Send + 'static>(
    (flag, address): (&'static str, ListenAddr),
    (tasks, vital): (&TaskTracker, &Vital),
    end: &CancellationToken,
    serve: impl FnOnce(TcpListener, CancellationToken) -> S + Send + 'static,
) -> Result<(), Occupied> {
    let shown = address.clone();
    let bound = vital.spawn(async move { bind(flag, &address).await }).await;
    let lost = |error: tokio::task::JoinError| Occupied {
        flag,
        address: shown,
        error: io::Error::other(error),
    };
    if let Some(listener) = bound.map_err(lost)?? {
        tasks.spawn_on(serve(listener, end.clone()), vital.handle());
    }
    Ok(())
}

async fn bind(flag: &'static str, address: &ListenAddr) -> Result<Option<TcpListener>, Occupied> {
    let bound = address.bind().await;
    bound.map_err(|error| Occupied { flag, address: address.clone(), error })
}
