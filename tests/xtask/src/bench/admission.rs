//! `cargo xtask bench admission`: latency, rate, CPU time and memory of the webhook.
//!
//! Two loads, one component and fifty, from few and from many clients, sent straight to the
//! webhook's port: what the API server adds is not ours. Load generator and server share the
//! machine's processors.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Deployed, NAMESPACE, Options, Profile};
use vela_tests::load::{self, Report, Target, VALIDATE};
use vela_tests::proc::usage;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 50, 200, 500])]
    clients: Vec<usize>,
    /// Seconds of each load
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Numbers of components
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50])]
    components: Vec<usize>,
    /// Measure the dev profile
    #[arg(long)]
    dev: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let profile = if args.dev { Profile::Dev } else { Profile::Release };
    let binaries = Binaries::build(profile)?;
    let control = tokio::runtime::Runtime::new()?;
    let cluster = control.block_on(Cluster::start("bench"))?;
    let outcome = measure(args, &control, &cluster, &binaries);
    cluster.stop();
    outcome
}

fn measure(
    args: &Args,
    control: &tokio::runtime::Runtime,
    cluster: &Cluster,
    binaries: &Binaries,
) -> Result<ExitCode> {
    let deployed = control.block_on(Deployed::start(cluster, binaries, &Options::default()))?;
    let started = control.block_on(restarted(cluster, &deployed))?;
    // Only the webhook is measured; the controller would take processor time from it.
    deployed.controller.stop(Duration::from_secs(10))?;
    let pid = deployed.webhook.pid().context("the webhook does not run")?;
    let target = Target::new(&deployed.webhook.url(), cluster.authority().certificate())?;
    // One thread, so that the generator leaves a processor to the server where there are two.
    let generator = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    println!("start to ready: {:.0} ms", started.as_secs_f64() * 1000.0);
    println!("memory when idle: {:.1} MiB", usage(pid)?.rss_mib);
    println!(
        "{:>10} {:>7} {:>9} {:>9} {:>9} {:>7} {:>11} {:>9} {:>9}",
        "components",
        "clients",
        "per s",
        "p50 ms",
        "p99 ms",
        "errors",
        "CPU/review",
        "RSS MiB",
        "peak MiB"
    );
    let mut errors = 0;
    for &components in &args.components {
        let body = load::review(NAMESPACE, &load::components(components)).to_string();
        for &clients in &args.clients {
            // so that the peak is that of this load; needs no right over one's own processes
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
            let before = usage(pid)?;
            let time = Duration::from_secs(args.seconds);
            let report = generator.block_on(target.load(VALIDATE, body.as_bytes(), clients, time));
            let after = usage(pid)?;
            row(components, clients, &report, after.cpu_seconds - before.cpu_seconds);
            println!(" {:>9.1} {:>9.1}", after.rss_mib, after.peak_rss_mib);
            if let Some(error) = &report.first_error {
                println!("  first error: {error}");
            }
            errors += report.errors;
        }
    }
    if errors > 0 {
        bail!("{errors} reviews failed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the webhook again: the time it takes where everything else runs already.
async fn restarted(cluster: &Cluster, deployed: &Deployed) -> Result<Duration> {
    deployed.webhook.stop(Duration::from_secs(10))?;
    let start = Instant::now();
    deployed.webhook.start(cluster)?;
    deployed.webhook.ready().await?;
    Ok(start.elapsed())
}

fn row(components: usize, clients: usize, report: &Report, cpu: f64) {
    #[allow(clippy::cast_precision_loss, reason = "a count of requests")]
    let cpu = cpu * 1000.0 / report.latencies.len().max(1) as f64;
    print!(
        "{components:>10} {clients:>7} {:>9.0} {:>9.2} {:>9.2} {:>7} {cpu:>8.3} ms",
        report.rate(),
        report.percentile(50),
        report.percentile(99),
        report.errors,
    );
}
