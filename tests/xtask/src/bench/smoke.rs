//! `cargo xtask bench smoke`: many small Applications at once.
//!
//! The meters are outside of what is measured: the API server's audit log counts requests by user
//! agent, `/proc` tells CPU time and memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Deployed, Options, Profile, apply};
use vela_tests::proc::usage;
use vela_tests::progress::Step;

const NAMESPACE: &str = "bench";
const AT_ONCE: usize = 32;
const AGENT: &str = "vela-controller/";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many Applications
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// Seconds of watching that nothing is written once all run
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// Seconds until all must run
    #[arg(long, default_value_t = 300)]
    deadline: u64,
    /// Definitions instead of the chart's, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl")]
    definitions: Option<PathBuf>,
    /// Measure the dev profile
    #[arg(long)]
    dev: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    let profile = if args.dev { Profile::Dev } else { Profile::Release };
    let binaries = Binaries::build(profile)?;
    runtime.block_on(async {
        let cluster = Cluster::start("bench").await?;
        let options = Options { definitions: args.definitions.clone(), ..Options::default() };
        let deployed = Deployed::start(&cluster, &binaries, &options).await?;
        let outcome = measure(args, &cluster, &deployed).await;
        cluster.stop();
        outcome
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args, cluster: &Cluster, deployed: &Deployed) -> Result<()> {
    let client = cluster.client().await?;
    apply(
        &client,
        &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
    )
    .await?;
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application");
    let resource = ApiResource::from_gvk(&kind);
    let applications: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let pid = deployed.controller.pid().context("the controller does not run")?;
    let webhook = deployed.webhook.pid().context("the webhook does not run")?;
    let log = cluster.audit_log();
    let idle = usage(pid)?;
    let start = audit::position(&log)?;

    let step = Step::start(format!("creating {} Applications", args.n));
    let since = Instant::now();
    stream::iter((0..args.n).map(Ok))
        .try_for_each_concurrent(AT_ONCE, |index| {
            let applications = applications.clone();
            async move {
                let object = serde_json::from_value(application(index))?;
                applications.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        })
        .await
        .context("an Application was refused")?;
    let created = since.elapsed();
    step.done();
    let step = Step::start("waiting until all run");
    until(args, &applications, deployed, |object| phase(object) == "running").await?;
    let running = since.elapsed();
    let busy = usage(pid)?;
    step.done();

    // What belongs to the creation (last events, a last status) arrives within moments.
    settle(&log).await?;
    let settled = audit::position(&log)?;
    let created_calls = calls(&log, start, settled)?;
    let step = Step::start(format!("watching {} s of nothing", args.steady));
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let steady_end = audit::position(&log)?;
    let quiet = usage(pid)?;
    let steady_calls = calls(&log, settled, steady_end)?;
    step.done();

    let step = Step::start("deleting them");
    let since = Instant::now();
    applications.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let left = gone(args, &client, &applications, deployed).await?;
    let deleted = since.elapsed();
    step.done();
    settle(&log).await?;
    let deleted_calls = calls(&log, steady_end, audit::position(&log)?)?;
    let end = usage(pid)?;
    let peak_webhook = usage(webhook)?.peak_rss_mib;

    let n = args.n as f64;
    let per = |entries: &[Entry]| entries.len() as f64 / n;
    let writes = |entries: &[Entry]| entries.iter().filter(|entry| entry.is_write()).count();
    println!("\n{:<46} {:>12}", format!("{} Applications of one webservice", args.n), "");
    let row = |name: &str, value: String| println!("{name:<46} {value:>12}");
    row("all created after", format!("{:.2} s", created.as_secs_f64()));
    row("all running after", format!("{:.2} s", running.as_secs_f64()));
    row("API calls per Application, creation", format!("{:.1}", per(&created_calls)));
    row("  of them writes", format!("{:.1}", writes(&created_calls) as f64 / n));
    let busy_ms = (busy.cpu_seconds - idle.cpu_seconds) * 1000.0;
    row("controller CPU per Application, creation", format!("{:.1} ms", busy_ms / n));
    row(&format!("writes in the following {} s", args.steady), writes(&steady_calls).to_string());
    row("reads in that time", (steady_calls.len() - writes(&steady_calls)).to_string());
    let quiet_ms = (quiet.cpu_seconds - busy.cpu_seconds) * 1000.0;
    row("controller CPU in that time", format!("{quiet_ms:.0} ms"));
    row("all deleted after", format!("{:.2} s", deleted.as_secs_f64()));
    row("API calls per Application, deletion", format!("{:.1}", per(&deleted_calls)));
    row("left over after deletion", left.to_string());
    row("controller CPU, total", format!("{:.2} s", end.cpu_seconds));
    row("controller memory, idle", format!("{:.1} MiB", idle.rss_mib));
    row("controller memory, peak", format!("{:.1} MiB", end.peak_rss_mib));
    row("webhook memory, peak", format!("{peak_webhook:.1} MiB"));
    println!("\ncalls of the controller during creation:");
    let mut counts: Vec<_> = audit::count(&created_calls).into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for ((verb, resource), count) in counts {
        println!("  {count:>6}  {verb:<8} {resource}");
    }
    Ok(())
}

fn application(index: usize) -> serde_json::Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": { "name": format!("app-{index}") },
        "spec": { "components": [{
            "name": format!("web-{index}"),
            "type": "webservice",
            "properties": { "image": "nginx" },
        }] },
    })
}

fn phase(object: &DynamicObject) -> &str {
    object.data["status"]["status"].as_str().unwrap_or_default()
}

/// Lists until all Applications are as wanted.
async fn until(
    args: &Args,
    applications: &Api<DynamicObject>,
    deployed: &Deployed,
    wanted: impl Fn(&DynamicObject) -> bool,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.deadline);
    loop {
        deployed.check()?;
        let list = applications.list(&ListParams::default()).await?;
        let odd: Vec<&DynamicObject> = list.items.iter().filter(|one| !wanted(one)).collect();
        let Some(first) = odd.first() else { return Ok(()) };
        if Instant::now() > deadline {
            bail!(
                "{} of {} Applications do not run after {} s; the first: {}",
                odd.len(),
                args.n,
                args.deadline,
                first.data["status"]
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until no Application is left, and counts what stays behind.
async fn gone(
    args: &Args,
    client: &Client,
    applications: &Api<DynamicObject>,
    deployed: &Deployed,
) -> Result<usize> {
    let deadline = Instant::now() + Duration::from_secs(args.deadline);
    while !applications.list(&ListParams::default()).await?.items.is_empty() {
        deployed.check()?;
        if Instant::now() > deadline {
            bail!("Applications are still there {} s after their deletion", args.deadline);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "ResourceTracker");
    let trackers: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let left = deployments.list(&ListParams::default()).await?.items.len();
    Ok(left + trackers.list(&ListParams::default()).await?.items.len())
}

/// Waits until the controller has not sent a request for two seconds.
pub(super) async fn settle(log: &std::path::Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut from = audit::position(log)?;
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(2) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let to = audit::position(log)?;
        if !calls(log, from, to)?.is_empty() {
            quiet = Instant::now();
        }
        from = to;
    }
    Ok(())
}

/// The controller's requests in a part of the log. Watches are open connections and its Lease is
/// not about Applications: neither counts.
pub(super) fn calls(log: &std::path::Path, from: u64, to: u64) -> Result<Vec<Entry>> {
    Ok(audit::between(log, from, to)?
        .into_iter()
        .filter(|entry| entry.agent.starts_with(AGENT))
        .filter(|entry| entry.verb != "watch" && entry.resource != "leases")
        .collect())
}
