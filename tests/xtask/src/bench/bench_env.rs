//! What the measurements of the controller share: a control plane with everything deployed, and the meters.
//!
//! The meters are outside of what is measured: the API server's audit log counts requests by user
//! agent, `/proc` has CPU time and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Deployed, Options, Profile, apply};
use vela_tests::fixtures::resource;
use vela_tests::proc::{Usage, usage};
use vela_tests::progress::Step;

use crate::exec::Paced;

/// How many requests of the load are in flight at a time.
const AT_ONCE: usize = 32;
const AGENT: &str = "vela-controller/";
/// How long nothing may happen before the programs are checked.
const POLL: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(clap::Args, Clone)]
pub(crate) struct Setup {
    /// Definitions instead of the chart's, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl")]
    definitions: Option<PathBuf>,
    /// A further flag for the controller; may repeat
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    controller_flag: Vec<String>,
    /// A value of the chart; may repeat
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measure the dev profile
    #[arg(long)]
    dev: bool,
    #[command(flatten)]
    pace: Paced,
}

/// A control plane with both programs on it.
pub(crate) struct BenchEnv {
    pub(crate) cluster: Cluster,
    pub(crate) deployed: Deployed,
    pub(crate) client: Client,
}

/// Sets everything up, measures, and ends everything. The definitions and the flags of `setup` are added to the options.
pub(crate) fn with<F>(setup: &Setup, mut options: Options, measure: F) -> Result<ExitCode>
where
    F: AsyncFnOnce(&BenchEnv) -> Result<()>,
{
    let profile = if setup.dev { Profile::Dev } else { Profile::Release };
    let binaries = Binaries::build(profile)?;
    options.definitions.clone_from(&setup.definitions);
    options.controller_flags.extend(setup.controller_flag.iter().cloned());
    options.values.extend(setup.set.iter().cloned());
    tokio::runtime::Runtime::new()?.block_on(async {
        let cluster = Cluster::start_at("bench", setup.pace.pace()).await?;
        let deployed = Deployed::start(&cluster, &binaries, &options).await?;
        let client = cluster.client().await?;
        let bench_env = BenchEnv { cluster, deployed, client };
        let outcome = measure(&bench_env).await;
        bench_env.cluster.stop();
        outcome
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The options for a resync period in seconds.
pub(crate) fn resynced_each(seconds: u64) -> Options {
    let flag = format!("--application-re-sync-period={seconds}s");
    Options { controller_flags: vec![flag], ..Options::default() }
}

/// Where a measurement begins: the place in the audit log and what was used until then.
pub(crate) struct Mark {
    position: u64,
    usage: Usage,
    time: Instant,
}

/// What happened since a mark.
pub(crate) struct Spent {
    /// The controller's requests, without watches and without its Lease.
    pub(crate) calls: Vec<Entry>,
    /// CPU time in milliseconds.
    pub(crate) cpu_ms: f64,
    /// Time on the clock.
    pub(crate) time: Duration,
    /// What the process uses now.
    pub(crate) usage: Usage,
}

impl Spent {
    /// How many of the requests were writes.
    pub(crate) fn writes(&self) -> usize {
        self.calls.iter().filter(|entry| entry.is_write()).count()
    }

    /// How many were reads.
    pub(crate) fn reads(&self) -> usize {
        self.calls.len() - self.writes()
    }

    /// The requests by verb and resource, the most frequent first.
    pub(crate) fn table(&self) -> String {
        let mut counts: Vec<_> = audit::count(&self.calls).into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let line = |((verb, resource), count): ((String, String), usize)| {
            format!("  {count:>6}  {verb:<8} {resource}\n")
        };
        counts.into_iter().map(line).collect()
    }
}

impl BenchEnv {
    /// All objects of one of our kinds.
    pub(crate) fn all(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(vela_api::V1BETA1, kind))
    }

    /// Those of one namespace.
    pub(crate) fn within(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(vela_api::V1BETA1, kind))
    }

    pub(crate) async fn namespace(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(&self.client, &object).await
    }

    /// Makes Applications, some at a time.
    pub(crate) async fn create(&self, objects: impl Iterator<Item = Value>) -> Result<()> {
        stream::iter(objects.map(Ok))
            .try_for_each_concurrent(AT_ONCE, |object| async move {
                let object: DynamicObject = serde_json::from_value(object)?;
                let namespace = object.metadata.namespace.clone().unwrap_or_default();
                let all = self.within(&namespace, "Application");
                all.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            })
            .await
            .context("an Application was refused")
    }

    /// Watches until this many Applications have a phase. The API server sends each change once, in the form it has for all
    /// watches: listing them again and again would take more of the machine than what is measured.
    pub(crate) async fn until(&self, wanted: &str, count: usize, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let config = watcher::Config::default().any_semantic();
        let mut events = pin!(watcher(self.all("Application"), config).default_backoff());
        let (mut fine, mut odd) = (BTreeSet::new(), BTreeMap::new());
        while fine.len() < count {
            self.deployed.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let first = odd.into_values().next().unwrap_or_default();
                bail!(
                    "{} of {count} Applications are not {wanted} after {} s; the first: {first}",
                    count - fine.len(),
                    limit.as_secs(),
                );
            }
            let next = tokio::time::timeout(left.min(POLL), events.next()).await;
            let Ok(Some(Ok(event))) = next else { continue };
            let (Event::Apply(one) | Event::InitApply(one)) = event else { continue };
            let key = (one.namespace(), one.name_any());
            if phase(&one) == wanted {
                odd.remove(&key);
                fine.insert(key);
            } else {
                fine.remove(&key);
                odd.insert(key, one.data["status"].to_string());
            }
        }
        Ok(())
    }

    /// Waits until no Application and no tracker is left.
    pub(crate) async fn until_gone(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        for kind in ["Application", "ResourceTracker"] {
            let all = self.all(kind);
            loop {
                self.deployed.check()?;
                // One of them says that some are left; the number of all of them says how many.
                let some = all.list_metadata(&ListParams::default().limit(1)).await?;
                if some.items.is_empty() {
                    break;
                }
                if Instant::now() > deadline {
                    let more = some.metadata.remaining_item_count.unwrap_or_default();
                    bail!(
                        "{} of {kind} are still there {} s after deletion",
                        more + 1,
                        limit.as_secs()
                    );
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(())
    }

    /// What the controller uses now.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(self.deployed.controller.pid().context("the controller does not run")?)
    }

    /// Begins a measurement.
    pub(crate) fn mark(&self) -> Result<Mark> {
        let log = self.cluster.audit_log();
        Ok(Mark { position: audit::position(&log)?, usage: self.usage()?, time: Instant::now() })
    }

    /// Ends a measurement now.
    pub(crate) fn since(&self, mark: &Mark) -> Result<Spent> {
        let time = mark.time.elapsed();
        let log = self.cluster.audit_log();
        let usage = self.usage()?;
        Ok(Spent {
            calls: calls(&log, mark.position, audit::position(&log)?)?,
            cpu_ms: (usage.cpu_seconds - mark.usage.cpu_seconds) * 1000.0,
            time,
            usage,
        })
    }

    /// Ends a measurement once the controller has not sent a request for two seconds: last events and a last status
    /// belong to it. The time is that of the call.
    pub(crate) async fn settled(&self, mark: &Mark) -> Result<Spent> {
        let time = mark.time.elapsed();
        let log = self.cluster.audit_log();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut from = audit::position(&log)?;
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_secs(2) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let to = audit::position(&log)?;
            if !calls(&log, from, to)?.is_empty() {
                quiet = Instant::now();
            }
            from = to;
        }
        Ok(Spent { time, ..self.since(mark)? })
    }

    /// Makes this many Applications and waits until all run.
    pub(crate) async fn create_all(
        &self,
        count: usize,
        application: impl Fn(usize) -> Value,
        limit: Duration,
    ) -> Result<Spent> {
        let step = Step::start(format!("{count} Applications"));
        let mark = self.mark()?;
        self.create((0..count).map(application)).await?;
        self.until("running", count, limit).await?;
        let created = self.settled(&mark).await?;
        step.done();
        Ok(created)
    }

    /// Deletes all Applications of some namespaces and waits until they are gone. Also returns how many Deployments are left
    /// over.
    pub(crate) async fn delete_all(
        &self,
        namespaces: impl Iterator<Item = String>,
        limit: Duration,
    ) -> Result<(Spent, usize)> {
        let step = Step::start("deletion");
        let mark = self.mark()?;
        for namespace in namespaces {
            let all = self.within(&namespace, "Application");
            all.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        self.until_gone(limit).await?;
        let deleted = self.settled(&mark).await?;
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let left = deployments.list(&ListParams::default()).await?.items.len();
        step.done();
        Ok((deleted, left))
    }
}

/// How long a change took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// Until the API server had accepted it.
    pub(crate) accepted: Duration,
    /// Until its effect was there.
    pub(crate) all: Duration,
}

/// The time from a change until a Deployment is so, by a watch that began before: asking again and again would take more of the
/// machine than what is measured.
pub(crate) async fn time_until(
    all: &Api<Deployment>,
    name: &str,
    limit: Duration,
    change: impl Future<Output = kube::Result<()>>,
    mut is_so: impl FnMut(&Deployment) -> bool,
) -> Result<Took> {
    let one = format!("metadata.name={name}");
    // The version of the list is the present one; the object's may be too old to watch from.
    let now = all.list_metadata(&ListParams::default().fields(&one)).await?.metadata;
    let version = now.resource_version.unwrap_or_default();
    let seconds = u32::try_from(limit.as_secs())?;
    let one = WatchParams::default().fields(&one).timeout(seconds);
    let mut changes = pin!(all.watch(&one, &version).await?);
    let since = Instant::now();
    change.await?;
    let accepted = since.elapsed();
    while let Some(event) = changes.try_next().await? {
        match event {
            WatchEvent::Modified(object) if is_so(&object) => {
                return Ok(Took { accepted, all: since.elapsed() });
            }
            WatchEvent::Error(error) => bail!("{name} cannot be watched: {error:?}"),
            _ => {}
        }
    }
    bail!("{name} was not as wanted after {seconds} s");
}

/// The phase of an Application.
pub(crate) fn phase(object: &DynamicObject) -> &str {
    object.data["status"]["status"].as_str().unwrap_or_default()
}

/// One line of a result.
pub(crate) fn row(name: &str, value: impl std::fmt::Display) {
    println!("{name:<52} {value:>14}");
}

/// The controller's requests in a part of the log. Watches are open connections and its Lease is
/// not about Applications: neither counts.
fn calls(log: &Path, from: u64, to: u64) -> Result<Vec<Entry>> {
    Ok(audit::between(log, from, to)?
        .into_iter()
        .filter(|entry| entry.agent.starts_with(AGENT))
        .filter(|entry| entry.verb != "watch" && entry.resource != "leases")
        .collect())
}
