//! `cargo xtask bench fleet`: replicas of the controller that share the Applications.
//!
//! With three of them: what users wait for while one crashes or is stopped, under edits all the time. The gap of a round is the
//! longest time from an edit until its object has it. Then how long one, two and three need for the same creation, and what CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{interval, sleep};
use vela_tests::audit::{self, Entry};
use vela_tests::deploy::{Options, Program};
use vela_tests::fixtures::resource;
use vela_tests::fleet;
use vela_tests::proc::usage;
use vela_tests::progress::Step;

use super::bench_env::{self, BenchEnv, Setup};
use super::edits::{Times, line, seconds};
use super::settled::{Names, application as light};

const NAMESPACE: &str = "bench";
const MEMBERS: u8 = 3;
/// How long a hand-over and all edits of its round may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a replica may take to end.
const GRACE: Duration = Duration::from_secs(30);
/// Edits go on for so long after a replica has gone.
const AFTER: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many crashes, and as many planned stops
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many Applications are edited meanwhile
    #[arg(long, default_value_t = 300)]
    apps: usize,
    /// Edits in a second
    #[arg(long, default_value_t = 10)]
    edits: u32,
    /// How many Applications are created by each number of replicas; 0 leaves that out
    #[arg(long, default_value_t = 0)]
    n: usize,
    /// By how many replicas they are created, one number after the other
    #[arg(long, value_delimiter = ',', default_value = "1,2,3")]
    members: Vec<u8>,
    /// The API server sends each replica only its share of records and dispatched objects (`sharding.labelRecords`, `sharding.labelObjects`)
    #[arg(long)]
    labels: bool,
    /// Seconds until all created Applications must run
    #[arg(long, default_value_t = 1200)]
    deadline: u64,
    #[command(flatten)]
    setup: Setup,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let options = || {
        let mut options = fleet::sharing(Options::default());
        if args.labels {
            let labels = ["sharding.labelRecords=true", "sharding.labelObjects=true"];
            options.values.extend(labels.map(str::to_owned));
        }
        options
    };
    if args.rounds > 0 {
        bench_env::with(&args.setup, options(), async |bench_env| {
            hand_overs(args, bench_env).await
        })?;
    }
    let mut created = Vec::new();
    for members in args.members.iter().copied().filter(|_| args.n > 0) {
        bench_env::with(&args.setup, options(), async |bench_env| {
            created.push((members, creation(args, bench_env, members).await?));
            Ok(())
        })?;
    }
    if args.n > 0 {
        println!("\n{} Applications of one webservice: result, goal", args.n);
    }
    let alone = created.iter().find(|(members, _)| *members == 1).map(|(_, (_, cpu))| *cpu);
    for (members, (time, cpu)) in created {
        line(&format!("{members} replicas, all running after"), seconds(time), "");
        let goal = alone.filter(|_| members > 1);
        let goal = goal
            .map_or_else(String::new, |one| format!("<= {} (1.15x of one)", millis(one * 1.15)));
        line(&format!("{members} replicas, CPU each Application"), millis(cpu), &goal);
    }
    Ok(ExitCode::SUCCESS)
}

fn millis(millis: f64) -> String {
    format!("{millis:.2} ms")
}

/// How a replica goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Crash,
    Planned,
}

/// What became of the rounds of one kind.
#[derive(Debug, Default)]
struct Outcome {
    /// The longest wait of each round.
    gaps: Vec<Duration>,
    /// All waits of edits.
    waits: Vec<Duration>,
    /// Applications for which replicas wrote by turns.
    interleaved: Vec<String>,
    /// Deletions of objects, all of which are wanted.
    deleted: usize,
    /// The value that was written last.
    value: u64,
}

async fn hand_overs(args: &Args, bench_env: &BenchEnv) -> Result<()> {
    bench_env.namespace(NAMESPACE).await?;
    let replicas = fleet::replicas(&bench_env.cluster, &bench_env.deployed, MEMBERS).await?;
    let all: Vec<&Program> =
        std::iter::once(&bench_env.deployed.controller).chain(&replicas).collect();
    balanced(bench_env, MEMBERS).await?;
    bench_env.create((0..args.apps).map(|index| application(index, 0))).await?;
    bench_env.until("running", args.apps, LIMIT).await?;
    let mut value = 0;
    for (end, name) in [(End::Crash, "crash"), (End::Planned, "planned stop")] {
        let mut outcome = Outcome { value, ..Outcome::default() };
        for round in 0..args.rounds {
            let step = Step::start(format!("{name} {}", round + 1));
            let goes = all.get(round % all.len()).context("no replica")?;
            hand_over(args, bench_env, goes, end, &mut outcome).await?;
            step.done();
        }
        value = outcome.value;
        report(args, name, end, outcome);
    }
    for replica in &replicas {
        replica.stop(GRACE)?;
    }
    Ok(())
}

fn report(args: &Args, name: &str, end: End, outcome: Outcome) {
    let goals = match end {
        End::Crash => ["<= 9 s", "< 15 s"],
        End::Planned => ["", "< 2 s"],
    };
    println!(
        "\na {name} of one of {MEMBERS}, {} edits a second over {} Applications: result, goal",
        args.edits, args.apps
    );
    Times::new(outcome.gaps).print("longest wait of a round", goals);
    Times::new(outcome.waits).print("wait of an edit", ["", ""]);
    line("Applications with interleaved writes", outcome.interleaved.len(), "0");
    line("objects deleted", outcome.deleted, "0");
    for app in outcome.interleaved {
        println!("  {app}");
    }
}

/// One replica goes while Applications are edited, and comes back. An edit that is lost is an error.
async fn hand_over(
    args: &Args,
    bench_env: &BenchEnv,
    goes: &Program,
    end: End,
    outcome: &mut Outcome,
) -> Result<()> {
    let log = bench_env.cluster.audit_log();
    let from = audit::position(&log)?;
    let (stop, stopped) = watch::channel(false);
    let load = Load { client: bench_env.client.clone(), apps: args.apps, edits: args.edits };
    let edits = tokio::spawn(load.edit_until(stopped, outcome.value));
    sleep(Duration::from_secs(2)).await;
    match end {
        End::Crash => goes.kill()?,
        End::Planned => {
            if !tokio::task::block_in_place(|| goes.stop(GRACE))? {
                bail!("a replica did not end within {} s", GRACE.as_secs());
            }
        }
    }
    sleep(AFTER).await;
    stop.send(true).context("nobody edits")?;
    let (waits, value) = edits.await??;
    outcome.value = value;
    outcome.gaps.push(waits.iter().max().copied().unwrap_or_default());
    outcome.waits.extend(waits);
    let mut entries = audit::read(&log, from)?;
    entries.retain(|entry| entry.is_controllers_write() && entry.code < 300);
    let is_deletion =
        |entry: &&Entry| entry.resource == "configmaps" && entry.verb.starts_with("delete");
    outcome.deleted += entries.iter().filter(is_deletion).count();
    entries.retain(|entry| fleet::application_of(entry).starts_with("app-"));
    let interleaved = fleet::writers(entries, fleet::application_of).into_iter();
    let interleaved = interleaved.filter(|(_, pods)| fleet::interleave(pods));
    outcome.interleaved.extend(interleaved.map(|(app, pods)| format!("{app}: {pods:?}")));
    goes.start(&bench_env.cluster)?;
    goes.ready().await?;
    balanced(bench_env, MEMBERS).await
}

/// Edits of one Application after the other.
struct Load {
    client: Client,
    apps: usize,
    /// In a second.
    edits: u32,
}

impl Load {
    /// Edits until asked to stop, and then waits until each object has its newest value. Returns how long each edit took, and the
    /// last value.
    async fn edit_until(
        self,
        stopped: watch::Receiver<bool>,
        mut value: u64,
    ) -> Result<(Vec<Duration>, u64)> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut events = pin!(watcher(maps, watcher::Config::default()).default_backoff());
        let mut ticks = interval(Duration::from_secs(1) / self.edits.max(1));
        // Of each Application the values that its object does not have yet, and when they were sent.
        let mut open: BTreeMap<String, BTreeMap<u64, Instant>> = BTreeMap::new();
        let (mut waits, mut over) = (Vec::new(), None);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if !*stopped.borrow() {
                        value += 1;
                        self.edit(value, &mut open).await?;
                        continue;
                    }
                    open.retain(|_, values| !values.is_empty());
                    if open.is_empty() {
                        return Ok((waits, value));
                    }
                    if over.get_or_insert_with(Instant::now).elapsed() > LIMIT {
                        bail!("edits are not served: {open:?}");
                    }
                }
                Some(event) = events.next() => {
                    let Ok(Event::Apply(map) | Event::InitApply(map)) = event else { continue };
                    let Some(values) = open.get_mut(&map.name_any()) else { continue };
                    let has = map.data.unwrap_or_default().remove("v");
                    let has: u64 = has.and_then(|has| has.parse().ok()).unwrap_or_default();
                    // A later value serves the earlier ones, too.
                    let later = values.split_off(&(has + 1));
                    waits.extend(std::mem::replace(values, later).values().map(Instant::elapsed));
                }
            }
        }
    }

    /// Sends an edit, and notes it among those that are not served.
    async fn edit(
        &self,
        value: u64,
        open: &mut BTreeMap<String, BTreeMap<u64, Instant>>,
    ) -> Result<()> {
        let index = usize::try_from(value)? % self.apps;
        let (wanted, name) = (application(index, value), application_name(index));
        // Before it is sent: the answer may come after the object was written.
        open.entry(name.clone()).or_default().insert(value, Instant::now());
        let edit = Patch::Merge(json!({"spec": wanted["spec"]}));
        let all = Api::<DynamicObject>::namespaced_with(
            self.client.clone(),
            NAMESPACE,
            &resource(vela_api::V1BETA1, "Application"),
        );
        all.patch(&name, &PatchParams::default(), &edit).await?;
        Ok(())
    }
}

/// Creates Applications with so many replicas: how long it took, and the CPU of all of them for each in milliseconds.
async fn creation(args: &Args, bench_env: &BenchEnv, members: u8) -> Result<(Duration, f64)> {
    let replicas = fleet::replicas(&bench_env.cluster, &bench_env.deployed, members).await?;
    balanced(bench_env, members).await?;
    let all: Vec<&Program> =
        std::iter::once(&bench_env.deployed.controller).chain(&replicas).collect();
    let namespaces: BTreeSet<String> =
        (0..args.n).map(|index| Names::of(index).namespace).collect();
    for namespace in namespaces {
        bench_env.namespace(&namespace).await?;
    }
    let before = cpu(&all)?;
    let limit = Duration::from_secs(args.deadline);
    let created = bench_env.create_all(args.n, |index| light(&Names::of(index), 1), limit).await?;
    let spent = cpu(&all)? - before;
    for replica in &replicas {
        replica.stop(GRACE)?;
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of Applications")]
    let each = spent * 1000.0 / args.n as f64;
    Ok((created.time, each))
}

/// The CPU time that programs used so far, in seconds.
fn cpu(all: &[&Program]) -> Result<f64> {
    let mut sum = 0.0;
    for program in all {
        sum += usage(program.pid().context("a replica does not run")?)?.cpu_seconds;
    }
    Ok(sum)
}

/// Waits until so many members share everything evenly.
async fn balanced(bench_env: &BenchEnv, members: u8) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    while !fleet::is_balanced(&bench_env.client, usize::from(members)).await? {
        if Instant::now() > deadline {
            let held = fleet::buckets(&bench_env.client).await?;
            bail!("{members} members do not share evenly: {held:?}");
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn application_name(index: usize) -> String {
    format!("app-{index}")
}

/// An Application of one ConfigMap that holds a value.
fn application(index: usize, value: u64) -> Value {
    let name = application_name(index);
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"v": value.to_string()}}]}}]},
    })
}
