//! `cargo xtask bench controller`: the life of many Applications.
//!
//! webservice, scaler and gateway in ten namespaces: create, resync passes in which nothing
//! changes, edits, drift, edits while all resync, a restart, deletion. The goals stand next to the
//! results; wall times are of a machine that does nothing else.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, Spent, time_until};
use super::edits::{Times, edited, line, seconds};

const NAMESPACES: usize = 10;
/// How long anything may take that should be a matter of moments.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many Applications
    #[arg(long, default_value_t = 300)]
    n: usize,
    /// The resync period in seconds; two passes are watched
    #[arg(long, default_value_t = 60)]
    resync: u64,
    /// How many edits
    #[arg(long, default_value_t = 20)]
    edits: usize,
    /// Seconds until all must run
    #[arg(long, default_value_t = 1200)]
    deadline: u64,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = bench_env::resynced_each(args.resync);
    bench_env::with(&args.setup, options, async |bench_env| measure(args, bench_env).await)
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let idle = bench_env.usage()?.rss_mib;
    for index in 0..NAMESPACES {
        bench_env.namespace(&format!("bench-{index}")).await?;
    }
    // The revisions and schemas of definitions are not the Applications'.
    bench_env.settled(&bench_env.mark()?).await?;
    let created = bench_env.create_all(args.n, application, limit).await?;

    let step = Step::start("two resync passes in which nothing changes");
    let mark = bench_env.mark()?;
    tokio::time::sleep(Duration::from_secs(2 * args.resync)).await;
    let steady = bench_env.since(&mark)?;
    step.done();

    let step = Step::start("edits, drift");
    let edits = edits(args, bench_env, Duration::ZERO, 0).await?;
    let mut drift = Vec::new();
    for turn in 0..10 {
        drift.push(drifted(bench_env, (turn * 11 + 3) % args.n).await?);
    }
    step.done();
    let step = Step::start("edits while all resync");
    let pause = Duration::from_secs(args.resync) / u32::try_from(args.edits.max(1))?;
    let busy = self::edits(args, bench_env, pause, 1000).await?;
    step.done();
    let used = bench_env.usage()?;

    let step = Step::start("restart");
    bench_env.deployed.controller.stop(Duration::from_secs(20))?;
    let since = Instant::now();
    bench_env.deployed.controller.start(&bench_env.cluster)?;
    let mark = bench_env.mark()?;
    edit(bench_env, 1 % args.n, "nginx:after-restart").await?;
    let restarted = since.elapsed();
    // A start is a reconcile of everything.
    let checked = bench_env.settled(&mark).await?;
    let after_restart = bench_env.usage()?;
    step.done();

    let namespaces = (0..NAMESPACES).map(|index| format!("bench-{index}"));
    let (deleted, left) = bench_env.delete_all(namespaces, limit).await?;

    report(args.n, &created, &steady, &deleted);
    edits.print("edit until the Deployment has it", ["< 0.05 s", "< 0.2 s"]);
    busy.print("the same while all resync", ["< 0.1 s", "< 1 s"]);
    Times::new(drift).print("replicas changed by hand until healed", ["", "<= 1 s"]);
    line("restart until an edit is served", seconds(restarted), "< 5 s");
    line("requests after the restart, that edit's included", checked.calls.len(), "");
    line("Deployments left over", left, "0");
    line("memory, idle", format!("{idle:.1} MiB"), "");
    line("memory after two passes", format!("{:.1} MiB", steady.usage.rss_mib), "");
    line(
        "memory, peak",
        format!("{:.1} MiB", used.peak_rss_mib),
        "60 / 80 / 150 MB at 300 / 1,000 / 3,000",
    );
    line("memory, peak after the restart", format!("{:.1} MiB", after_restart.peak_rss_mib), "");
    println!("\nrequests of the creation:\n{}", created.table());
    if !steady.calls.is_empty() {
        println!("requests of the two passes:\n{}", steady.table());
    }
    println!("requests of the deletion:\n{}", deleted.table());
    Ok(())
}

fn report(n: usize, created: &Spent, steady: &Spent, deleted: &Spent) {
    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let n = n as f64;
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    let per = |spent: &Spent| format!("{:.1}", spent.calls.len() as f64 / n);
    println!("\n{n} Applications of webservice, scaler and gateway: result, goal");
    line("all running after", seconds(created.time), "25 s for 300");
    line("CPU each, creation", format!("{:.2} ms", created.cpu_ms / n), "<= 15 ms");
    line("API calls each, creation", per(created), "<= 20");
    line("writes of two resync passes", steady.writes(), "0");
    line("reads of two resync passes", steady.reads(), "0");
    line("CPU each and pass", format!("{:.3} ms", steady.cpu_ms / n / 2.0), "<= 1 ms");
    line("all deleted after", seconds(deleted.time), "");
    line("API calls each, deletion", per(deleted), "<= 7");
    line("CPU each, deletion", format!("{:.2} ms", deleted.cpu_ms / n), "");
}

fn application_name(index: usize) -> (String, String) {
    (format!("bench-{}", index % NAMESPACES), format!("app-{index}"))
}

fn application(index: usize) -> Value {
    let (namespace, name) = application_name(index);
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"components": [{
            "name": name,
            "type": "webservice",
            "properties": {
                "image": "nginx:1.27", "cpu": "100m", "memory": "64Mi",
                "ports": [{"port": 80, "expose": true}],
                "env": [{"name": "A", "value": index.to_string()}],
                "labels": {"team": "bench"},
            },
            "traits": [
                {"type": "scaler", "properties": {"replicas": 1}},
                {"type": "gateway", "properties": {
                    "domain": format!("{name}.example.com"), "http": {"/": 80}, "class": "nginx",
                }},
            ],
        }]},
    })
}

async fn edits(args: &Args, bench_env: &BenchEnv, pause: Duration, from: usize) -> Result<Times> {
    let mut all = Vec::new();
    for turn in 0..args.edits {
        let image = format!("nginx:edit-{}", from + turn);
        all.push(edit(bench_env, turn * 7 % args.n, &image).await?);
        tokio::time::sleep(pause).await;
    }
    Ok(Times::new(all))
}

/// Changes the image of an Application: the time until the Deployment has it.
async fn edit(bench_env: &BenchEnv, index: usize, image: &str) -> Result<Duration> {
    let (namespace, name) = application_name(index);
    let mut spec = application(index)["spec"].take();
    spec["components"][0]["properties"]["image"] = json!(image);
    Ok(edited(bench_env, &namespace, &name, &spec).await?.all)
}

/// Scales a Deployment by hand: the time until it is as the scaler says.
async fn drifted(bench_env: &BenchEnv, index: usize) -> Result<Duration> {
    let (namespace, name) = application_name(index);
    let deployments: Api<Deployment> = Api::namespaced(bench_env.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let params = PatchParams::default();
    let scale = async { deployments.patch(&name, &params, &patch).await.map(|_| ()) };
    let mut scaled = false;
    let took = time_until(&deployments, &name, LIMIT, scale, |deployment| {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        scaled |= replicas == Some(3);
        scaled && replicas == Some(1)
    })
    .await?;
    Ok(took.all)
}
