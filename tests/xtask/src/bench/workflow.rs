//! `cargo xtask bench workflow`: long workflows, and many that wait.
//!
//! Each shape is measured at half its size too: twice the steps should take twice the time. A suspended workflow should
//! cost nothing.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use vela_tests::deploy::Options;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, phase};

const NAMESPACE: &str = "bench";

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
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    bench_env::with(&args.setup, Options::default(), async |bench_env| {
        measure(args, bench_env).await
    })
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    bench_env.namespace(NAMESPACE).await?;
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
            one(bench_env, mode, 2, &format!("{}-warm", mode.to_lowercase())).await?;
        }
        let row = one(bench_env, mode, count, &name).await?;
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
            row.cpu,
            row.writes as f64 / count as f64,
            row.status,
        );
    }
    suspended(args, bench_env).await
}

struct Row {
    time: Duration,
    cpu: f64,
    writes: usize,
    status: usize,
}

async fn one(bench_env: &BenchEnv, mode: &str, count: usize, name: &str) -> Result<Row> {
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
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"components": [], "workflow": {"mode": {"steps": mode}, "steps": steps}},
    });
    let mark = bench_env.mark()?;
    let since = Instant::now();
    bench_env.create(std::iter::once(object)).await?;
    let all = bench_env.within(NAMESPACE, "Application");
    let status = loop {
        bench_env.deployed.check()?;
        let found = all.get(name).await?;
        match phase(&found) {
            "running" => break found.data["status"].to_string().len(),
            "workflowFailed" | "workflowTerminated" => bail!("{}", found.data["status"]),
            _ if since.elapsed() > Duration::from_secs(300) => bail!("no end after 300 s"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let time = since.elapsed();
    let spent = bench_env.settled(&mark).await?;
    Ok(Row { time, cpu: spent.cpu_ms, writes: spent.writes(), status })
}

async fn suspended(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let step = Step::start(format!("{} suspended workflows", args.suspended));
    let waiting = |index| {
        json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": format!("waits-{index}"), "namespace": NAMESPACE},
            "spec": {"components": [], "workflow": {"steps": [{"name": "wait", "type": "suspend"}]}},
        })
    };
    bench_env.create((0..args.suspended).map(waiting)).await?;
    bench_env.until("workflowSuspending", args.suspended, Duration::from_secs(600)).await?;
    bench_env.settled(&bench_env.mark()?).await?;
    let mark = bench_env.mark()?;
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let spent = bench_env.since(&mark)?;
    step.done();
    println!(
        "{} suspended workflows in {} s: {} API calls, {:.0} ms CPU, {:.1} MiB memory",
        args.suspended,
        args.steady,
        spent.calls.len(),
        spent.cpu_ms,
        spent.usage.rss_mib
    );
    Ok(())
}
