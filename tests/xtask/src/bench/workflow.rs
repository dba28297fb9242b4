//! `cargo xtask bench workflow`: long workflows, and many that wait.
//!
//! Each shape is measured at half its size too: twice the steps should take twice the time. A suspended workflow should
//! cost nothing.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, TryStreamExt};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Deployed, Options, Profile, apply};
use vela_tests::proc::usage;
use vela_tests::progress::Step;

use super::smoke::{calls, settle};

const NAMESPACE: &str = "bench";
const AT_ONCE: usize = 32;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps of the DAG
    #[arg(long, default_value_t = 500)]
    dag: usize,
    /// Steps of the one after the other
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Suspended workflows
    #[arg(long, default_value_t = 1000)]
    suspended: usize,
    /// Seconds of watching the suspended ones
    #[arg(long, default_value_t = 60)]
    steady: u64,
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
        let deployed = Deployed::start(&cluster, &binaries, &Options::default()).await?;
        let outcome = measure(args, &cluster, &deployed).await;
        cluster.stop();
        outcome
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args, cluster: &Cluster, deployed: &Deployed) -> Result<()> {
    let client = cluster.client().await?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&client, &namespace).await?;
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application");
    let all: Api<DynamicObject> =
        Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind));
    println!(
        "{:<28} {:>10} {:>12} {:>14} {:>14} {:>12}",
        "", "time", "CPU", "writes/step", "status bytes", "CPU ratio"
    );
    let mut before = None;
    for (mode, count) in [
        ("StepByStep", args.steps / 2),
        ("StepByStep", args.steps),
        ("DAG", args.dag / 2),
        ("DAG", args.dag),
    ] {
        // the first of a kind also compiles and warms up: not what is measured
        let name = format!("{}-{count}", mode.to_lowercase());
        if before.is_none() {
            one(cluster, deployed, &all, mode, 2, "warm").await?;
        }
        let row = one(cluster, deployed, &all, mode, count, &name).await?;
        let ratio = match before.take() {
            Some(half) if half > 0.0 => format!("{:.2}", row.cpu / half),
            _ => {
                before = Some(row.cpu);
                String::new()
            }
        };
        println!(
            "{:<28} {:>8.2} s {:>9.0} ms {:>14.3} {:>14} {ratio:>12}",
            format!("{mode}, {count} steps"),
            row.time.as_secs_f64(),
            row.cpu * 1000.0,
            row.writes as f64 / count as f64,
            row.status,
        );
    }
    suspended(args, cluster, deployed, &all).await
}

struct Row {
    time: Duration,
    cpu: f64,
    writes: usize,
    status: usize,
}

async fn one(
    cluster: &Cluster,
    deployed: &Deployed,
    all: &Api<DynamicObject>,
    mode: &str,
    count: usize,
    name: &str,
) -> Result<Row> {
    let pid = deployed.controller.pid().context("the controller does not run")?;
    let step = |index: usize| {
        let mut step = json!({
            "name": format!("step-{index}"), "type": "print-message-in-status",
            "properties": {"message": format!("this is step {index}")},
        });
        // every step of the DAG but the first ten waits for one of the ten before
        if mode == "DAG" && index >= 10 {
            step["dependsOn"] = json!([format!("step-{}", index - 10)]);
        }
        step
    };
    let steps: Vec<Value> = (0..count).map(step).collect();
    let object = serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": name},
        "spec": {"components": [], "workflow": {"mode": {"steps": mode}, "steps": steps}},
    }))?;
    let log = cluster.audit_log();
    let start = audit::position(&log)?;
    let idle = usage(pid)?;
    let since = Instant::now();
    all.create(&PostParams::default(), &object).await?;
    let status = loop {
        deployed.check()?;
        let found = all.get(name).await?;
        match found.data["status"]["status"].as_str().unwrap_or_default() {
            "running" => break found.data["status"].to_string().len(),
            "workflowFailed" | "workflowTerminated" => bail!("{}", found.data["status"]),
            _ if since.elapsed() > Duration::from_secs(300) => bail!("no end after 300 s"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let time = since.elapsed();
    settle(&log).await?;
    let end = audit::position(&log)?;
    let writes = calls(&log, start, end)?.iter().filter(|entry| entry.is_write()).count();
    Ok(Row { time, cpu: usage(pid)?.cpu_seconds - idle.cpu_seconds, writes, status })
}

async fn suspended(
    args: &Args,
    cluster: &Cluster,
    deployed: &Deployed,
    all: &Api<DynamicObject>,
) -> Result<()> {
    let pid = deployed.controller.pid().context("the controller does not run")?;
    let step = Step::start(format!("{} suspended workflows", args.suspended));
    stream::iter((0..args.suspended).map(Ok))
        .try_for_each_concurrent(AT_ONCE, |index| async move {
            let object = serde_json::from_value(json!({
                "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": format!("waits-{index}")},
                "spec": {"components": [], "workflow": {"steps": [{"name": "wait", "type": "suspend"}]}},
            }))?;
            all.create(&PostParams::default(), &object).await?;
            anyhow::Ok(())
        })
        .await?;
    let since = Instant::now();
    loop {
        deployed.check()?;
        let list = all.list(&ListParams::default()).await?;
        let waits = |one: &&DynamicObject| one.data["status"]["status"] == "workflowSuspending";
        if list.items.iter().filter(waits).count() == args.suspended {
            break;
        }
        if since.elapsed() > Duration::from_secs(600) {
            bail!("not all are suspended after 600 s");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let log = cluster.audit_log();
    settle(&log).await?;
    let (start, before) = (audit::position(&log)?, usage(pid)?);
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let (end, after) = (audit::position(&log)?, usage(pid)?);
    step.done();
    let calls = calls(&log, start, end)?.len();
    let cpu = (after.cpu_seconds - before.cpu_seconds) * 1000.0;
    let memory = after.rss_mib;
    println!(
        "{} suspended workflows in {} s: {calls} API calls, {cpu:.0} ms CPU, {memory:.1} MiB memory",
        args.suspended, args.steady
    );
    Ok(())
}
