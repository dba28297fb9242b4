//! Times our Helm engine on charts, as `tests/helmdiff/oracle -bench` times Helm's.
//!
//! The same charts, values, work and clock: one JSON object a line in, one out, and in the end the
//! most memory the process has had, in KiB. Load is reading and unpacking an archive; a render is
//! everything from dependencies to the texts of all templates, with the chart loaded and the
//! values read.

#![allow(clippy::print_stdout, reason = "a command line tool prints its results")]
#![allow(
    clippy::indexing_slicing,
    reason = "only JSON values are indexed, and those answer null for what is not there"
)]

#[path = "../../allocator.rs"]
mod allocator;

use std::cell::RefCell;
use std::io::BufRead as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, json};
use vela_helm::values::Table;
use vela_helm::{
    Algorithm, Budget, Capabilities, Chart, Host, KeyError, KubeVersion, Limits, Options,
    PrivateKey, Release, RenderedText, prepare, yaml,
};

/// Stack of the thread that renders, and what templates may take of it.
const STACK: usize = 64 << 20;
const STACK_OF_TEMPLATES: usize = 48 << 20;
/// Measured times in one measurement.
const BATCHES: u32 = 5;

/// What the command line says. Read by hand: a library for this would be a part of the memory that
/// is measured.
struct Args {
    /// `--budget N`: milliseconds for each measurement.
    budget: u64,
    /// `--renders N`: instead, render each chart so many times.
    renders: usize,
    /// `--keep`: no chart is dropped before the end.
    keep: bool,
}

impl Args {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut args = Self { budget: 100, renders: 0, keep: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--budget" => args.budget = value()?.parse()?,
                "--renders" => args.renders = value()?.parse()?,
                "--keep" => args.keep = true,
                _ => {
                    anyhow::bail!(
                        "usage: bench-helm [--budget MS] [--renders N] [--keep] < REQUESTS"
                    )
                }
            }
        }
        Ok(args)
    }
}

/// The world of a render, which counts the private keys it gives and the time they take.
#[derive(Default)]
struct Machine {
    /// Keys that are given instead of new ones.
    known: Option<Rc<RefCell<Vec<PrivateKey>>>>,
}

/// Keys, and nanoseconds for all of them.
static KEYS: AtomicU64 = AtomicU64::new(0);
static KEYS_NS: AtomicU64 = AtomicU64::new(0);

impl Host for Machine {
    fn now(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| fastrand::u8(..));
    }

    fn private_key(&mut self, algorithm: Algorithm) -> std::result::Result<PrivateKey, KeyError> {
        let known = self.known.as_ref().map(|known| known.borrow());
        let known =
            known.and_then(|all| all.iter().find(|key| key.algorithm() == algorithm).cloned());
        if let Some(key) = known {
            return Ok(key);
        }
        let before = cpu();
        let key = PrivateKey::generate(algorithm);
        KEYS.fetch_add(1, Ordering::Relaxed);
        KEYS_NS.fetch_add((cpu() - before) as u64, Ordering::Relaxed);
        if let (Some(known), Ok(key)) = (&self.known, &key) {
            known.borrow_mut().push(key.clone());
        }
        key
    }
}

fn main() -> Result<()> {
    let args = Args::read(std::env::args().skip(1))?;
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || -> Result<()> {
        let mut kept = Vec::new();
        for line in std::io::stdin().lock().lines() {
            let request: Json = serde_json::from_str(&line?)?;
            let measured = load(&request).and_then(|chart| {
                let measured = measure(&request, &chart, &args)?;
                kept.extend(Some(chart).filter(|_| args.keep));
                Ok(measured)
            });
            let error = |error: anyhow::Error| json!({ "error": error.to_string() });
            println!("{}", measured.unwrap_or_else(error));
        }
        println!("{}", peak());
        Ok(())
    })?;
    thread.join().map_err(|_| anyhow::anyhow!("the thread panicked"))?
}

fn load(request: &Json) -> Result<Chart> {
    let path = request["chart"].as_str().context("no chart")?;
    Ok(Chart::from_archive(&std::fs::read(path)?, &Limits::default())?)
}

fn measure(request: &Json, chart: &Chart, args: &Args) -> Result<Json> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let values: Table = yaml::read_values(&text(&request["values"]))?;
    let mut capabilities =
        Capabilities::without_cluster(KubeVersion::parse(&text(&request["kubeVersion"]))?);
    let versions = request["apiVersions"].as_array().into_iter().flatten();
    capabilities.api_versions = versions.map(text).collect();
    let release = &request["release"];
    let release = Release {
        name: text(&release["name"]),
        namespace: text(&release["namespace"]),
        is_upgrade: release["isUpgrade"].as_bool().unwrap_or_default(),
        revision: release["revision"].as_i64().unwrap_or(1),
    };
    let budget = Budget { stack: STACK_OF_TEMPLATES, ..Budget::default() };
    let with = |machine: Machine| -> Result<usize> {
        let prepared = prepare(chart, &values, Options::default(), &budget)?;
        let texts = prepared.texts(&release, &capabilities, Box::new(machine), &budget)?;
        Ok(texts.values().map(RenderedText::len).sum())
    };
    let once = || with(Machine::default());
    KEYS.store(0, Ordering::Relaxed);
    KEYS_NS.store(0, Ordering::Relaxed);
    let bytes = once()?;
    let keys = KEYS.load(Ordering::Relaxed);
    for _ in 1..args.renders {
        once()?;
    }
    if args.renders > 0 {
        return Ok(json!({ "bytes": bytes }));
    }
    let limit = Duration::from_millis(args.budget);
    let render = time(limit, || drop(once()));
    let made = KEYS.load(Ordering::Relaxed).max(1);
    let without_keys = match keys {
        0 => render,
        _ => {
            let known: Rc<RefCell<Vec<PrivateKey>>> = Rc::default();
            time(limit, || drop(with(Machine { known: Some(Rc::clone(&known)) })))
        }
    };
    Ok(json!({
        "bytes": bytes,
        "keys": keys,
        "key_ns": KEYS_NS.load(Ordering::Relaxed) / made,
        "load_ns": time(limit, || drop(load(request))),
        "render_ns": render,
        "render_without_keys_ns": without_keys,
        "load_bytes": allocator::bytes(|| drop(load(request))),
        "render_bytes": allocator::bytes(|| drop(once())),
    }))
}

/// CPU nanoseconds of one run: the best of several batches.
fn time(budget: Duration, run: impl Fn()) -> f64 {
    let enough = budget.as_secs_f64() * 1e9 / f64::from(BATCHES);
    let end = Instant::now() + 4 * budget;
    let (mut n, mut best, mut batches) = (1_u32, f64::INFINITY, 0);
    while batches < BATCHES {
        let before = cpu();
        for _ in 0..n {
            run();
        }
        let spent = cpu() - before;
        if spent < enough && Instant::now() < end {
            n = n.saturating_mul(2);
            best = best.min(spent / f64::from(n / 2));
            continue;
        }
        best = best.min(spent / f64::from(n));
        batches += 1;
        if Instant::now() > end {
            break;
        }
    }
    best
}

/// Nanoseconds this thread has been running. What others do in the meantime does not count.
fn cpu() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    spent.tv_sec as f64 * 1e9 + spent.tv_nsec as f64
}

/// The most memory this process has had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
