//! `cargo xtask bench memory`: what the controller keeps of many light Applications, each with a few revisions.
//!
//! They are written as settled, so that the controller has nothing to do but to adopt them. Measured is its start, two resync
//! passes in which nothing changes, and an edit after another start. From two measurements with different numbers follows what one
//! Application takes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use vela_tests::audit::Entry;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, row, time_until};
use super::settled::{Names, Settled, application};

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
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let flags = [format!("--application-re-sync-period={}s", args.resync)];
    bench_env::with(&args.setup, &flags, async |bench_env| measure(args, bench_env).await)
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let idle = bench_env.usage()?.rss_mib;
    let settled = Settled::deploy(bench_env, args.revisions.max(1)).await?;
    let kinds = settled.kinds();
    // With what one takes that many share: compiled templates, connections, threads.
    let of_one = bench_env.usage()?.rss_mib;
    bench_env.deployed.controller.stop(Duration::from_secs(20))?;
    // Objects stay as they are written: nobody makes Pods of them, and nobody reviews them.
    for program in ["kube-controller-manager", "kube-scheduler", "kwok"] {
        bench_env.cluster.kill(program)?;
    }
    let admission = bench_env.deployed.admission.withdraw(&bench_env.cluster).await?;
    settled.repeat(bench_env, args.apps).await?;
    admission.restore(&bench_env.cluster).await?;

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
    edited(bench_env, &Names::of(args.apps / 2), args.revisions + 1).await?;
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

fn line(name: &str, value: impl std::fmt::Display, goal: &str) {
    row(name, format!("{value:>14}   {goal}"));
}

fn mib(value: f64) -> String {
    format!("{value:.1} MiB")
}

/// Reconciles of Applications since the controller started.
async fn reconciles(bench_env: &BenchEnv) -> Result<f64> {
    let name = "controller_runtime_reconcile_total";
    bench_env.deployed.controller.metric_of(name, "controller=\"application\"").await
}

/// Waits until each Application was reconciled and none waits.
async fn adopted(count: usize, bench_env: &BenchEnv, limit: Duration) -> Result<()> {
    let controller = &bench_env.deployed.controller;
    let deadline = Instant::now() + limit;
    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let count = count as f64;
    loop {
        bench_env.deployed.check()?;
        let done = reconciles(bench_env).await?;
        let waiting = controller.metric_of("workqueue_depth", "name=\"application\"").await?;
        if done >= count && waiting == 0.0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{done} of {count} Applications are adopted after {} s", limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Changes the image of an Application, and waits until the Deployment has it.
async fn edited(bench_env: &BenchEnv, names: &Names, revision: usize) -> Result<()> {
    let Names { namespace, name } = names;
    let deployments: Api<Deployment> = Api::namespaced(bench_env.client.clone(), namespace);
    let wanted = application(names, revision)["spec"].clone();
    let image = wanted["components"][0]["properties"]["image"].clone();
    let patch = Patch::Merge(json!({"spec": wanted}));
    let applications = bench_env.within(namespace, "Application");
    let params = PatchParams::default();
    let edit = async { applications.patch(name, &params, &patch).await.map(|_| ()) };
    time_until(&deployments, name, Duration::from_secs(120), edit, |deployment| {
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let container = pod.and_then(|pod| pod.containers.first());
        container.is_some_and(|container| container.image.as_deref() == image.as_str())
    })
    .await
    .map(drop)
}
