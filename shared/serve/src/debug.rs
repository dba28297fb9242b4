//! Inspection of the running process: what it was configured with, its memory, where its time goes;
//! and the level of its log.
//!
//! | request | answer |
//! |---|---|
//! | `GET /configz` | version and effective flags, gates among them, as JSON |
//! | `PUT /debug/flags/v` | sets the log level to the verbosity in the body, as klog counts it |
//! | `GET /debug/profile?seconds=30` | where CPU time goes: a line for each stack and how often it was met, as `inferno-flamegraph` and speedscope read them |
//! | `GET /mem/stat` | memory in bytes, as the kernel counts it, as JSON |
//!
//! Nobody is asked who they are: it is off unless `--profiling-addr` is given, and that is best an
//! address of loopback, reached by `kubectl port-forward`.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use pprof::{Frames, ProfilerGuardBuilder};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::log;
use crate::server::{self, Limits};

/// Samples a second: seldom enough that nobody waits for it, and not in step with anything.
const FREQUENCY: i32 = 99;
/// How long a profile takes, in seconds.
const DEFAULT_SECONDS: u64 = 30;
/// The longest profile, in seconds.
const MAX_SECONDS: u64 = 300;
/// Where the profiler must not interrupt: unwinding from within these may wait for itself.
const NOT_WITHIN: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

type Refusal = (StatusCode, String);

/// What is checked.
#[derive(Debug, Clone)]
pub struct Debug {
    config: Arc<Value>,
    log: log::Handle,
    stop: CancellationToken,
}

impl Debug {
    /// A process: its name, its flags as they count, its log, and its end.
    pub fn new(
        program: &str,
        flags: &BTreeMap<String, Vec<String>>,
        log: log::Handle,
        stop: CancellationToken,
    ) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let config = json!({ program: { "version": version, "flags": flags } });
        Self { config: Arc::new(config), log, stop }
    }

    /// Answers until the process ends.
    ///
    /// # Errors
    /// The listener's.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let stop = self.stop.clone();
        server::serve(listener, None, self.router(), Limits::OBSERVERS, stop).await
    }

    fn router(self) -> Router {
        Router::new()
            .route("/configz", get(config))
            .route("/debug/flags/v", put(verbosity))
            .route("/debug/profile", get(profile))
            .route("/mem/stat", get(memory))
            .with_state(self)
    }
}

async fn config(State(debug): State<Debug>) -> Response {
    as_json(&debug.config)
}

async fn verbosity(State(debug): State<Debug>, body: String) -> Result<String, Refusal> {
    let wanted = body.trim().parse::<i32>().map_err(|_| {
        let text = "write a verbosity: 0-3 info, 4-7 debug, 8 and above trace\n";
        (StatusCode::BAD_REQUEST, text.to_owned())
    })?;
    debug.log.set(log::Level::of_verbosity(wanted)).map_err(failed)?;
    Ok(format!("successfully set klog.logging.verbosity to {wanted}\n"))
}

async fn profile(State(debug): State<Debug>, RawQuery(query): RawQuery) -> Result<String, Refusal> {
    let time = duration(query.as_deref().unwrap_or_default())?;
    let guard = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&NOT_WITHIN)
        .build()
        .map_err(|error| (StatusCode::CONFLICT, format!("{error}\n")))?;
    // What was seen until the process ends is worth having, too.
    let _ = tokio::time::timeout(time, debug.stop.cancelled()).await;
    let resolve = move || guard.report().build().map(|report| folded(&report.data));
    tokio::task::spawn_blocking(resolve).await.map_err(failed)?.map_err(failed)
}

/// `thread;outermost;...;innermost count`, the most frequent first.
fn folded(stacks: &HashMap<Frames, isize>) -> String {
    let line = |stack: &Frames| {
        let symbols = stack.frames.iter().rev().flat_map(|inlined| inlined.iter().rev());
        symbols.fold(stack.thread_name_or_id(), |line, symbol| format!("{line};{symbol}"))
    };
    let met = stacks.iter().map(|(stack, count)| (line(stack), *count));
    let counts = met.fold(BTreeMap::<String, isize>::new(), |mut counts, (line, count)| {
        *counts.entry(line).or_default() += count;
        counts
    });
    let mut lines: Vec<_> = counts.into_iter().collect();
    lines.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    lines.into_iter().map(|(line, count)| format!("{line} {count}\n")).collect()
}

/// `seconds` of a query.
fn duration(query: &str) -> Result<Duration, Refusal> {
    let written = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    let seconds = match written {
        None => DEFAULT_SECONDS,
        Some(text) => match text.parse() {
            Ok(seconds @ 1..=MAX_SECONDS) => seconds,
            _ => {
                let text = format!("seconds: write a number from 1 to {MAX_SECONDS}\n");
                return Err((StatusCode::BAD_REQUEST, text));
            }
        },
    };
    Ok(Duration::from_secs(seconds))
}

async fn memory() -> Result<Response, Refusal> {
    let status = tokio::fs::read_to_string("/proc/self/status").await.map_err(failed)?;
    Ok(as_json(&stat(&status)))
}

/// The kernel's `VmRSS:  12 kB` and the like, in bytes.
fn stat(status: &str) -> Value {
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kib = value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
        Some((name.to_owned(), json!(kib * 1024)))
    };
    Value::Object(status.lines().filter_map(line).collect())
}

fn as_json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn failed(error: impl std::fmt::Display) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        let text = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t    12 kB\nThreads:\t3\n";
        assert_eq!(stat(text), json!({ "VmHWM": 2_097_152, "VmRSS": 12_288 }));
    }

    #[test]
    fn a_profile_has_an_end() {
        for (query, seconds) in
            [("", Some(30)), ("seconds=5", Some(5)), ("a=b&seconds=300", Some(300))]
        {
            assert_eq!(duration(query).ok().map(|time| time.as_secs()), seconds, "{query}");
        }
        for query in ["seconds=0", "seconds=301", "seconds=", "seconds=-1"] {
            assert!(duration(query).is_err(), "{query}");
        }
    }
}
