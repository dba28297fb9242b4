//! `cargo xtask bench large`: one Application of many objects, or of many components, after the other.
//!
//! The time of each step should grow as the number does: the last lines compare the largest with the smallest.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup, Spent};
use super::edits::{line, seconds};

const NAMESPACE: &str = "large";
/// Seconds between reconciles of a settled Application, and how many of them are watched.
const RESYNC: u64 = 5;
const PASSES: u32 = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of objects of one component; an Application for each
    #[arg(long, value_delimiter = ',', default_values_t = [500, 2000])]
    objects: Vec<usize>,
    /// Numbers of components of one object; an Application for each
    #[arg(long, value_delimiter = ',', default_values_t = [200])]
    components: Vec<usize>,
    /// Seconds until an Application must run
    #[arg(long, default_value_t = 600)]
    deadline: u64,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = bench_env::resynced_each(RESYNC);
    bench_env::with(&args.setup, options, async |bench_env| measure(args, bench_env).await)
}

/// What one Application took.
struct Life {
    count: usize,
    admitted: Duration,
    created: Spent,
    edited: Spent,
    deleted: Spent,
}

async fn measure(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    bench_env.namespace(NAMESPACE).await?;
    // The revisions and schemas of definitions are not the Applications'.
    bench_env.settled(&bench_env.mark()?).await?;
    let limit = Duration::from_secs(args.deadline);
    for (what, counts, spec) in [
        ("objects of one component", &args.objects, of_objects as fn(usize, usize) -> Value),
        ("components of one object", &args.components, of_components),
    ] {
        let mut lives = Vec::new();
        for count in counts {
            println!("\n{count} {what}: result, goal");
            lives.push(life(bench_env, *count, spec, limit).await?);
        }
        compare(what, &lives);
    }
    Ok(())
}

/// One Application from its creation to its deletion.
async fn life(
    bench_env: &BenchEnv,
    count: usize,
    spec: fn(usize, usize) -> Value,
    limit: Duration,
) -> Result<Life> {
    let name = "large";
    let all = bench_env.within(NAMESPACE, "Application");
    let step = Step::start("creation");
    let mark = bench_env.mark()?;
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec(count, 1),
    });
    let since = Instant::now();
    all.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let admitted = since.elapsed();
    bench_env.until("running", 1, limit).await?;
    let created = bench_env.settled(&mark).await?;
    step.done();

    let step = Step::start("reconciles in which nothing changes");
    let controller = &bench_env.deployed.controller;
    let reconciles = async || {
        let name = "controller_runtime_reconcile_time_seconds";
        let of = "controller=\"application\"";
        let sum = controller.metric_of(&format!("{name}_sum"), of).await?;
        anyhow::Ok((sum, controller.metric_of(&format!("{name}_count"), of).await?))
    };
    let (sum, reconciled) = reconciles().await?;
    let passes = bench_env.mark()?;
    tokio::time::sleep(Duration::from_secs(RESYNC) * PASSES).await;
    let steady = bench_env.since(&passes)?;
    let (sum, reconciled) = {
        let (sum_now, now) = reconciles().await?;
        (sum_now - sum, now - reconciled)
    };
    step.done();

    let step = Step::start("an edit of the last object");
    let maps: Api<ConfigMap> = Api::namespaced(bench_env.client.clone(), NAMESPACE);
    let last = format!("object-{}", count - 1);
    let mark = bench_env.mark()?;
    let patch = Patch::Merge(json!({"spec": spec(count, 2)}));
    let since = Instant::now();
    all.patch(name, &PatchParams::default(), &patch).await?;
    let version = async || {
        let found = maps.get(&last).await?;
        anyhow::Ok(found.data.and_then(|mut data| data.remove("version")))
    };
    while version().await?.as_deref() != Some("2") {
        bench_env.deployed.check()?;
        anyhow::ensure!(since.elapsed() < limit, "{last} has not the edit after {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let served = since.elapsed();
    let edited = Spent { time: served, ..bench_env.settled(&mark).await? };
    step.done();
    let sizes = sizes(bench_env).await?;

    let step = Step::start("deletion");
    let mark = bench_env.mark()?;
    all.delete(name, &DeleteParams::default()).await?;
    bench_env.until_gone(limit).await?;
    let deleted = bench_env.settled(&mark).await?;
    let left = maps.list_metadata(&ListParams::default()).await?.items;
    let left = left.iter().filter(|one| one.name_any().starts_with("object-")).count();
    step.done();

    line("admitted after", seconds(admitted), "");
    line("running after", seconds(created.time), "");
    line("CPU, creation", format!("{:.0} ms", created.cpu_ms), "");
    line("API calls, creation", created.calls.len(), "");
    line("reconciles in which nothing changes", reconciled, "");
    line("time of each", format!("{:.2} ms", sum * 1000.0 / reconciled.max(1.0)), "< 20 ms");
    line("their writes", steady.writes(), "0");
    line("their reads", steady.reads(), "0");
    line("edit until the last object has it", seconds(served), "");
    line("CPU, edit", format!("{:.0} ms", edited.cpu_ms), "");
    line("API calls, edit", edited.calls.len(), "");
    for (what, bytes) in sizes {
        line(&format!("largest {what}"), format!("{} KB", bytes / 1000), "< 1500 KB");
    }
    line("deleted after", seconds(deleted.time), "");
    line("API calls, deletion", deleted.calls.len(), "");
    line("objects left over", left, "0");
    line("memory, peak", format!("{:.1} MiB", deleted.usage.peak_rss_mib), "");
    println!("\nrequests of the creation:\n{}", created.table());
    println!("requests of the edit:\n{}", edited.table());
    Ok(Life { count, admitted, created, edited, deleted })
}

/// How much more the largest took than the smallest.
fn compare(what: &str, lives: &[Life]) {
    let ([first, ..], [.., last]) = (lives, lives) else { return };
    if first.count == last.count {
        return;
    }
    let ratio = |of: fn(&Life) -> f64| format!("{:.1}x", of(last) / of(first));
    #[allow(clippy::cast_precision_loss, reason = "a count of objects")]
    let goal = format!("{:.1}x", last.count as f64 / first.count as f64);
    println!("\n{} {what} against {}: result, linear", last.count, first.count);
    line("admitted after", ratio(|life| life.admitted.as_secs_f64()), &goal);
    line("running after", ratio(|life| life.created.time.as_secs_f64()), &goal);
    line("CPU, creation", ratio(|life| life.created.cpu_ms), &goal);
    line("edit until the last object has it", ratio(|life| life.edited.time.as_secs_f64()), &goal);
    line("CPU, edit", ratio(|life| life.edited.cpu_ms), &goal);
    line("deleted after", ratio(|life| life.deleted.time.as_secs_f64()), &goal);
}

/// The bytes that the largest Application, revision and tracker take as JSON.
async fn sizes(bench_env: &BenchEnv) -> Result<Vec<(&'static str, usize)>> {
    let mut sizes = Vec::new();
    for kind in ["Application", "ApplicationRevision", "ResourceTracker"] {
        let all = bench_env.all(kind).list(&ListParams::default()).await?.items;
        let bytes = all.iter().map(|one| serde_json::to_vec(one).map(|json| json.len()));
        let bytes: serde_json::Result<Vec<usize>> = bytes.collect();
        sizes.push((kind, bytes?.into_iter().max().unwrap_or_default()));
    }
    Ok(sizes)
}

/// ConfigMaps; only the last one depends on the version.
fn maps(count: usize, version: usize) -> impl Iterator<Item = Value> {
    (0..count).map(move |index| {
        let version = if index + 1 == count { version } else { 1 };
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("object-{index}")},
            "data": {"version": version.to_string(), "index": index.to_string()},
        })
    })
}

fn of_objects(count: usize, version: usize) -> Value {
    let objects: Vec<Value> = maps(count, version).collect();
    json!({"components": [{
        "name": "objects", "type": "k8s-objects", "properties": {"objects": objects},
    }]})
}

fn of_components(count: usize, version: usize) -> Value {
    let components = maps(count, version).enumerate().map(|(index, map)| {
        json!({
            "name": format!("component-{index}"), "type": "k8s-objects",
            "properties": {"objects": [map]},
        })
    });
    json!({"components": components.collect::<Vec<Value>>()})
}
