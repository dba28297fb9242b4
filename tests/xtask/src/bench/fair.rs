//! `cargo xtask bench fair`: what a tenant waits for while another one edits everything it has, or while all Applications of the
//! cluster are resynced.
//!
//! The Applications are written as settled, and the cluster's own controllers stand still: what is shared is the controller and
//! the API server. An edit is served when the Deployment has it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use futures::stream::{self, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::time::sleep;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, Took};
use super::edits::{Times, edited, image_of, line, seconds};
use super::settled::{Names, Settled, adopted, application};

/// How many requests of the large tenant are in flight at a time.
const AT_ONCE: usize = 32;
/// How long nothing may happen before the programs are checked.
const POLL: Duration = Duration::from_secs(1);
/// The namespace of the tenant that edits everything.
const LARGE: &str = "tenant-a";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many Applications the large tenant has, and edits at once
    #[arg(long, default_value_t = 2000)]
    apps: usize,
    /// How many Applications others have; all of them are resynced all the time
    #[arg(long, default_value_t = 0)]
    scan: usize,
    /// The resync period in seconds, with --scan
    #[arg(long, default_value_t = 60)]
    resync: u64,
    /// How many edits of the small tenant are timed while nothing else happens, or while all are resynced
    #[arg(long, default_value_t = 20)]
    edits: usize,
    /// Seconds between edits of the small tenant
    #[arg(long, default_value_t = 5)]
    pause: u64,
    /// Seconds until all must be adopted, and until all edits at once must be served
    #[arg(long, default_value_t = 1200)]
    deadline: u64,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Without others to resync nothing else shall happen: as if there were no resync.
    let resync = if args.scan > 0 { args.resync } else { 24 * 3600 };
    let options = bench_env::resynced_each(resync);
    bench_env::with(&args.setup, options, async |bench_env| measure(args, bench_env).await)
}

/// The small tenant, and how often its Application was edited.
struct Small<'b> {
    bench_env: &'b BenchEnv,
    names: Names,
    revision: usize,
}

impl Small<'_> {
    async fn edit(&mut self) -> Result<Took> {
        self.revision += 1;
        let spec = &application(&self.names, self.revision)["spec"];
        edited(self.bench_env, &self.names.namespace, &self.names.name, spec).await
    }

    async fn edits(&mut self, count: usize, pause: Duration) -> Result<Times> {
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(self.edit().await?.all);
            sleep(pause).await;
        }
        Ok(Times::new(times))
    }
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    let limit = Duration::from_secs(args.deadline);
    let settled = Settled::deploy(bench_env, 1).await?;
    let large = (0..args.apps)
        .map(|index| Names { namespace: LARGE.to_owned(), name: format!("large-{index:05}") });
    let large: Vec<Names> = large.collect();
    let mut all = large.clone();
    all.extend((0..args.scan).map(Names::of));
    settled.repeat(bench_env, &all).await?;
    let step = Step::start("start");
    bench_env.deployed.controller.start(&bench_env.cluster)?;
    bench_env.deployed.controller.ready().await?;
    adopted(all.len(), bench_env, limit).await?;
    bench_env.settled(&bench_env.mark()?).await?;
    step.done();

    let mut small = Small { bench_env, names: Names::first(), revision: 1 };
    let pause = Duration::from_secs(args.pause);
    let step = Step::start("edits of the small tenant");
    let idle = small.edits(args.edits, pause).await?;
    step.done();
    println!("\n{} Applications of one tenant, {} of others: result, goal", args.apps, args.scan);
    if args.scan > 0 {
        let name = format!("edits while all are resynced each {} s", args.resync);
        idle.print(&name, ["< 0.1 s", "< 1 s"]);
    } else {
        idle.print("edits while nothing happens", ["< 0.05 s", "< 0.2 s"]);
    }
    if large.is_empty() {
        return Ok(());
    }

    let step = Step::start("the large tenant edits everything");
    let alone = edit_all(bench_env, &large, 2, limit).await?;
    step.done();
    bench_env.settled(&bench_env.mark()?).await?;
    let step = Step::start("the same, and edits of the small tenant");
    let mut served = pin!(edit_all(bench_env, &large, 3, limit));
    let mut taken: Vec<Took> = Vec::new();
    let both = loop {
        let edit = async {
            let took = small.edit().await;
            sleep(pause).await;
            took
        };
        // An edit that was begun is timed to its end.
        let mut edit = pin!(edit);
        tokio::select! {
            both = &mut served => {
                taken.push(edit.await?);
                break both?;
            }
            took = &mut edit => taken.push(took?),
        }
    };
    step.done();
    let most = (idle.percentile(99) * 3).min(Duration::from_millis(500));
    let goal = format!("< {} (0.5 s, 3x idle)", seconds(most));
    let times = |part: fn(&Took) -> Duration| Times::new(taken.iter().map(part).collect());
    times(|took| took.all).print("edits while the large tenant edits everything", ["", &goal]);
    // What the API server and admission take of it is shared by all who write.
    times(|took| took.accepted).print("  of that until the API server accepts them", ["", ""]);
    let served = |took: &Took| took.all.saturating_sub(took.accepted);
    times(served).print("  of that from then on", ["", "< 0.500 s"]);
    line("the large tenant alone, all served after", seconds(alone), "");
    let goal = format!("<= {} (1.1x alone)", seconds(alone.mul_f64(1.1)));
    line("the same, with the small tenant's edits", seconds(both), &goal);
    Ok(())
}

/// Edits all Applications of the large tenant at once: the time until all Deployments have it.
async fn edit_all(
    bench_env: &BenchEnv,
    large: &[Names],
    revision: usize,
    limit: Duration,
) -> Result<Duration> {
    let deployments: Api<Deployment> = Api::namespaced(bench_env.client.clone(), LARGE);
    let since = Instant::now();
    let edits = async {
        stream::iter(large.iter().map(Ok))
            .try_for_each_concurrent(AT_ONCE, |names| async move {
                let all = bench_env.within(&names.namespace, "Application");
                let edit = json!({"spec": application(names, revision)["spec"]});
                all.patch(&names.name, &PatchParams::default(), &Patch::Merge(edit)).await?;
                anyhow::Ok(())
            })
            .await
    };
    let spec = &application(&Names::first(), revision)["spec"];
    let image = spec["components"][0]["properties"]["image"].as_str();
    let served = async {
        let config = watcher::Config::default().any_semantic();
        let mut events = pin!(watcher(deployments, config).default_backoff());
        let mut served = BTreeSet::new();
        while served.len() < large.len() {
            bench_env.deployed.check()?;
            if since.elapsed() > limit {
                bail!("{} of {} edits are served", served.len(), large.len());
            }
            let next = tokio::time::timeout(POLL, events.next()).await;
            let Ok(Some(Ok(event))) = next else { continue };
            let (Event::Apply(one) | Event::InitApply(one)) = event else { continue };
            if image_of(&one) == image {
                served.insert(one.name_any());
            }
        }
        Ok(())
    };
    tokio::try_join!(edits, served)?;
    Ok(since.elapsed())
}
