//! `cargo xtask bench smoke`: many small Applications at once.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use vela_tests::deploy::Options;
use vela_tests::proc::usage;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, row};

const NAMESPACE: &str = "bench";

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
    let idle = bench_env.usage()?;
    let limit = Duration::from_secs(args.deadline);

    let created = bench_env.create_all(args.n, application, limit).await?;

    let step = Step::start(format!("watching {} s of nothing", args.steady));
    let mark = bench_env.mark()?;
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let steady = bench_env.since(&mark)?;
    step.done();

    let namespaces = std::iter::once(NAMESPACE.to_owned());
    let (deleted, left) = bench_env.delete_all(namespaces, limit).await?;

    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let n = args.n as f64;
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    let per = |count: usize| format!("{:.1}", count as f64 / n);
    println!("\n{} Applications of one webservice", args.n);
    row("all running after", format!("{:.2} s", created.time.as_secs_f64()));
    row("API calls per Application, creation", per(created.calls.len()));
    row("  of them writes", per(created.writes()));
    row("controller CPU per Application, creation", format!("{:.1} ms", created.cpu_ms / n));
    row(&format!("writes in the following {} s", args.steady), steady.writes());
    row("reads in that time", steady.reads());
    row("controller CPU in that time", format!("{:.0} ms", steady.cpu_ms));
    row("all deleted after", format!("{:.2} s", deleted.time.as_secs_f64()));
    row("API calls per Application, deletion", per(deleted.calls.len()));
    row("left over after deletion", left);
    row("controller CPU, total", format!("{:.2} s", deleted.usage.cpu_seconds));
    row("controller memory, idle", format!("{:.1} MiB", idle.rss_mib));
    row("controller memory, peak", format!("{:.1} MiB", deleted.usage.peak_rss_mib));
    if let Some(pid) = bench_env.deployed.webhook.pid() {
        row("webhook memory, peak", format!("{:.1} MiB", usage(pid)?.peak_rss_mib));
    }
    println!("\ncalls of the controller during creation:\n{}", created.table());
    Ok(())
}

fn application(index: usize) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": { "name": format!("app-{index}"), "namespace": NAMESPACE },
        "spec": { "components": [{
            "name": format!("web-{index}"),
            "type": "webservice",
            "properties": { "image": "nginx" },
        }] },
    })
}
