//! `cargo xtask bench memory`: what the controller keeps of many light Applications, each with a few revisions.
//!
//! They are written as settled, so that the controller has nothing to do but to adopt them. Measured is its start, two resync
//! passes in which nothing changes, and an edit after another start. From two measurements with different numbers follows what one
//! Application takes. With `--members`, what each of several replicas keeps that share them, compared with one alone.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use vela_tests::audit::Entry;
use vela_tests::fleet;
use vela_tests::proc::usage;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup};
use super::edits::{edited, line};
use super::settled::{Names, Settled, adopted, application, reconciles};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many Applications
    #[arg(long, default_value_t = 1000)]
    apps: usize,
    /// How many revisions each has
    #[arg(long, default_value_t = 2)]
    revisions: usize,
    /// The resync period in seconds; two passes are watched
    #[arg(long, default_value_t = 60)]
    resync: u64,
    /// Seconds until all must be adopted
    #[arg(long, default_value_t = 1200)]
    deadline: u64,
    /// How many replicas share the Applications; only their memory is measured then
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    members: u8,
    /// With members: the records are labelled with their buckets, and each replica keeps only those of its own
    #[arg(long, requires = "members")]
    label_records: bool,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = bench_env::resynced_each(args.resync);
    if args.members > 1 {
        let mut options = fleet::sharing(options);
        if args.label_records {
            options.values.push("sharding.labelRecords=true".to_owned());
        }
        return bench_env::with(&args.setup, options, async |bench_env| {
            share(args, bench_env).await
        });
    }
    bench_env::with(&args.setup, options, async |bench_env| measure(args, bench_env).await)
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let idle = bench_env.usage()?.rss_mib;
    let settled = Settled::deploy(bench_env, args.revisions.max(1)).await?;
    let kinds = settled.kinds();
    // With what one takes that many share: compiled templates, connections, threads.
    let of_one = bench_env.usage()?.rss_mib;
    let names: Vec<Names> = (0..args.apps).map(Names::of).collect();
    settled.repeat(bench_env, &names).await?;

    let step = Step::start("start");
    let controller = &bench_env.deployed.controller;
    controller.start(&bench_env.cluster)?;
    let mark = bench_env.mark()?;
    controller.ready().await?;
    adopted(args.apps, bench_env, limit).await?;
    let started = bench_env.settled(&mark).await?;
    step.done();

    let step = Step::start("two resync passes in which nothing changes");
    let passes = bench_env.mark()?;
    let before = reconciles(bench_env).await?;
    tokio::time::sleep(Duration::from_secs(2 * args.resync)).await;
    let steady = bench_env.since(&passes)?;
    let count = reconciles(bench_env).await? - before;
    step.done();

    let step = Step::start("another start, and an edit");
    controller.stop(Duration::from_secs(20))?;
    let since = Instant::now();
    controller.start(&bench_env.cluster)?;
    let names = Names::of(args.apps / 2);
    let spec = &application(&names, args.revisions + 1)["spec"];
    edited(bench_env, &names.namespace, &names.name, spec).await?;
    let served = since.elapsed();
    step.done();

    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let apps = args.apps as f64;
    let of_each = (steady.usage.rss_mib - of_one) * 1024.0 / apps;
    // Reviews of access are questions, and the note of what is in flight is the process's own.
    let is_applications =
        |entry: &&Entry| entry.is_controllers_write() && entry.resource != "configmaps";
    let of_start = started.calls.iter().filter(is_applications).count();
    println!("\n{apps} Applications of one webservice, each with {kinds}: result, goal");
    line("memory, no Application", mib(idle), "");
    line("memory, one Application", mib(of_one), "");
    line("memory, the most during the start", mib(started.usage.peak_rss_mib), "<= 1.2x");
    line("memory, once all are adopted", mib(started.usage.rss_mib), "");
    line("memory, after two passes", mib(steady.usage.rss_mib), "400 MiB for 12,000");
    line("of that beyond one Application's, each", format!("{of_each:.1} KiB"), "");
    line("all adopted after", format!("{:.1} s", started.time.as_secs_f64()), "");
    line("CPU each, start", format!("{:.2} ms", started.cpu_ms / apps), "");
    line("writes of the start about Applications", of_start, "0");
    line("reads of the start", started.reads(), "");
    line("reconciles of the two passes", count, "");
    line("CPU each and reconcile", format!("{:.3} ms", steady.cpu_ms / count.max(1.0)), "<= 1 ms");
    line("writes of the two passes", steady.writes(), "0");
    line("reads of the two passes", steady.reads(), "0");
    line("restart until an edit is served", format!("{:.2} s", served.as_secs_f64()), "< 5 s");
    println!("\nrequests of the start:\n{}", started.table());
    if !steady.calls.is_empty() {
        println!("requests of the two passes:\n{}", steady.table());
    }
    Ok(())
}

/// The memory of one replica alone, and then of each of several. These were never fewer than they are: as in a roll-out, as many
/// again start, and the first ones end.
async fn share(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let settled = Settled::deploy(bench_env, args.revisions.max(1)).await?;
    let kinds = settled.kinds();
    let of_one = bench_env.usage()?.rss_mib;
    let names: Vec<Names> = (0..args.apps).map(Names::of).collect();
    settled.repeat(bench_env, &names).await?;
    let controller = &bench_env.deployed.controller;
    controller.start(&bench_env.cluster)?;
    controller.ready().await?;
    adopted(args.apps, bench_env, limit).await?;
    let pass = Duration::from_secs(args.resync);
    tokio::time::sleep(pass).await;
    let alone = bench_env.usage()?.rss_mib;

    let count = usize::from(args.members);
    let (cluster, client) = (&bench_env.cluster, &bench_env.client);
    let step = Step::start(format!("{count} replicas, and the end of as many"));
    let all = fleet::replicas(cluster, &bench_env.deployed, args.members.saturating_mul(2)).await?;
    until("all share", limit, async || fleet::is_balanced(client, 2 * count).await).await?;
    if args.label_records {
        until("records are labelled", limit, async || fleet::is_labelled(client).await).await?;
    }
    let (ends, stay) = all.split_at(count - 1);
    for (left, replica) in (count..2 * count).rev().zip(std::iter::once(controller).chain(ends)) {
        replica.stop(Duration::from_secs(30))?;
        until("the others share", limit, async || fleet::is_balanced(client, left).await).await?;
    }
    until("caches are filled", limit, async || fleet::is_kept_twice(client, count).await).await?;
    tokio::time::sleep(2 * pass).await;
    step.done();

    println!("\n{} Applications of one webservice, each with {}: result, goal", args.apps, kinds);
    line("memory, one Application", mib(of_one), "");
    line("memory, one replica alone", mib(alone), "");
    let cached = fleet::cached(client).await?;
    line("buckets kept, of 256", format!("{:?}", cached.values().collect::<Vec<_>>()), "");
    // All of them before one ends: the others take its share over.
    let pids = stay.iter().map(|replica| replica.pid().context("a replica does not run"));
    let each: Vec<f64> = pids.map(|pid| Ok(usage(pid?)?.rss_mib)).collect::<Result<_>>()?;
    for one in each {
        let beyond = (one - of_one) / (alone - of_one);
        line("memory, one of the replicas", mib(one), "");
        line("beyond one Application's, of that of one alone", format!("{beyond:.2}x"), "<= 0.77x");
    }
    for replica in stay {
        replica.stop(Duration::from_secs(30))?;
    }
    Ok(())
}

/// Waits until something is so.
async fn until(
    what: &str,
    limit: Duration,
    mut is_so: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so().await? {
        anyhow::ensure!(Instant::now() < deadline, "{what}: not after {} s", limit.as_secs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn mib(value: f64) -> String {
    format!("{value:.1} MiB")
}
