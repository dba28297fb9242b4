//! `cargo xtask bench clusters`: a hub and members on loopback: how long an edit takes to arrive in a member, what a member that
//! swallows everything or comes back to a pile of edits costs the others, what an idle and what a settled member costs.
//!
//! Each member is etcd and an API server at the end of a link; what is deployed are ConfigMaps.

use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{AsyncReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Binaries, Deployed, Gateway, Options, Profile, apply};
use vela_tests::link::{Link, Mode};
use vela_tests::members::{self, Joining};
use vela_tests::proc::usage;
use vela_tests::progress::Step;

use super::bench_env::row;
use super::edits::{Times, seconds};

const NAMESPACE: &str = "bench";
/// Whose tokens are in the Secrets.
const ACCOUNT: &str = "vela-hub";
/// The longest time that anything may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Watches through the gateway at once.
const STREAMS: usize = 50;
/// How far away the member is that comes back, in each direction: requests pile up.
const AWAY: Duration = Duration::from_millis(100);
/// How often requests in flight are counted: each time costs the controller a pass over its metrics.
const SAMPLE: Duration = Duration::from_millis(50);
/// The Application that is in the hub only, and its object.
const HERE: &str = "here";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many members
    #[arg(long, default_value_t = 10)]
    members: usize,
    /// Applications in each member
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// Edits of each measurement: what 99 % of them do not exceed is nothing that one of them decides
    #[arg(long, default_value_t = 300)]
    edits: usize,
    /// Seconds in which the requests of settled members are counted
    #[arg(long, default_value_t = 300)]
    steady: u64,
    /// The median of the original through its gateway in milliseconds, measured on the same machine: its half is the goal
    #[arg(long, value_name = "MS")]
    reference_ms: Option<f64>,
    /// Measure the dev profile
    #[arg(long)]
    dev: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.members < 2 || args.n == 0 || args.edits == 0 {
        bail!("at least two members, one Application in each and one edit are needed");
    }
    let binaries = Binaries::with_gateway(if args.dev { Profile::Dev } else { Profile::Release })?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let hub = Cluster::start_lean("bench-hub").await?;
        let options = crate::exec::with_members(Options::default());
        let deployed = Deployed::start(&hub, &binaries, &options).await?;
        let outcome = measure(args, &hub, (&deployed, &binaries, &options)).await;
        hub.stop();
        outcome
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A member and the way to it.
struct Member {
    name: String,
    cluster: Cluster,
    link: Link,
    token: String,
}

/// The hub, its programs and its members.
struct Bed<'a> {
    hub: &'a Cluster,
    deployed: &'a Deployed,
    members: Vec<Member>,
    apps: Api<DynamicObject>,
}

async fn measure(
    args: &Args,
    hub: &Cluster,
    (deployed, binaries, options): (&Deployed, &Binaries, &Options),
) -> Result<()> {
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application"));
    let apps = Api::namespaced_with(hub.client().await?, NAMESPACE, &kind);
    let mut bed = Bed { hub, deployed, members: Vec::new(), apps };
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&hub.client().await?, &namespace).await?;
    let step = Step::start(format!("{} members", args.members));
    for index in 0..args.members {
        bed.members.push(Member::start(index, &namespace).await?);
    }
    step.done();

    let before = bed.memory()?;
    let mut joined = Vec::new();
    for member in &bed.members {
        bed.write(member, &member.token).await?;
        joined.push(bed.reaches(&member.name, "Connected").await?);
    }
    let idle = (bed.memory()? - before) / to_f64(args.members);

    let step = Step::start(format!("{} Applications", args.members * args.n));
    bed.apps
        .create(&PostParams::default(), &serde_json::from_value(application("local", HERE))?)
        .await?;
    for member in &bed.members {
        for index in 0..args.n {
            let app = application(&member.name, &format!("{}-{index}", member.name));
            bed.apps.create(&PostParams::default(), &serde_json::from_value(app)?).await?;
        }
    }
    for member in &bed.members {
        bed.deployed_in(member, args.n).await?;
    }
    step.done();

    let (first, others) = bed.members.split_first().context("no member")?;
    let step = Step::start("edits");
    let quiet = bed.edits(&bed.members, args, "quiet").await?;
    let before = bed.usual(first, others, args, "before").await?;
    step.done();

    let step = Step::start(format!("{} edits in {} far away", args.n, first.name));
    let distant = bed.distant(first, args.n).await?;
    step.done();

    let step = Step::start(format!("edits while {} swallows everything", first.name));
    first.link.set(Mode::Swallow);
    bed.edit_all(first, args.n, "swallowed").await?;
    let faulty = bed.edits(others, args, "faulty").await?;
    bed.edit_all(first, args.n, "swallowed again").await?;
    let here_faulty = bed.edits_here(args.edits, "faulty").await?;
    let swallowed = bed.reaches(&first.name, "Disconnected").await?;
    first.link.set(Mode::Pass);
    step.done();
    bed.reaches(&first.name, "Connected").await?;

    let step = Step::start(format!("{} comes back to {} edits", first.name, args.n));
    let returned = bed.returns(first, args.n).await?;
    step.done();

    let step = Step::start("the same edits again");
    bed.rests(std::slice::from_ref(first)).await?;
    let usual = [before, bed.usual(first, others, args, "after").await?];
    step.done();

    let step = Step::start("what is noticed");
    first.link.set(Mode::Refuse);
    let refused = bed.reaches(&first.name, "Disconnected").await?;
    first.link.set(Mode::Pass);
    bed.reaches(&first.name, "Connected").await?;
    // A wrong token in the Secret would not be used as long as the former one works.
    let accounts: Api<ServiceAccount> =
        Api::namespaced(first.cluster.client().await?, "kube-system");
    accounts.delete(ACCOUNT, &DeleteParams::default()).await?;
    let revoked = bed.reaches(&first.name, "CredentialRefused").await?;
    let token = members::token(&first.cluster, ACCOUNT).await?;
    bed.write(first, &token).await?;
    let rotated = bed.reaches(&first.name, "Connected").await?;
    step.done();

    let step = Step::start(format!("watching {} s of nothing", args.steady));
    bed.rests(&bed.members).await?;
    let from: Vec<u64> = bed
        .members
        .iter()
        .map(|member| audit::position(&member.cluster.audit_log()))
        .collect::<Result<_>>()?;
    tokio::time::sleep(Duration::from_secs(args.steady)).await;
    let mut requests = Vec::new();
    for (member, from) in bed.members.iter().zip(from) {
        let log = audit::read(&member.cluster.audit_log(), from)?;
        requests.push(log.iter().filter(|entry| entry.is_controllers()).count());
    }
    step.done();
    let settled = bed.memory()?;
    let step = Step::start(format!("{STREAMS} streams through the gateway"));
    let gateway = Gateway::start(hub, binaries, options).await?;
    let streaming = bed.streams(&gateway).await?;
    step.done();
    let hour =
        |count: usize| to_f64(count) * 3600.0 / to_f64(usize::try_from(args.steady).unwrap_or(1));
    let most = requests.iter().copied().max().unwrap_or_default();

    println!("\n{} members, {} Applications in each, {} edits", args.members, args.n, args.edits);
    println!("goals in brackets");
    row("edit to object in a member, median", seconds(quiet.percentile(50)));
    if let Some(reference) = args.reference_ms {
        let ratio = quiet.percentile(50).as_secs_f64() * 1000.0 / reference;
        row("  of the original's [0.5]", format!("{ratio:.2}"));
    }
    row("edit to object in a member, p99", seconds(quiet.percentile(99)));
    row("the others' p99, the same measured twice", each(&usual, |one| &one.others));
    compare(
        "  while one swallows everything",
        &Times::merge(usual.iter().map(|one| &one.others)),
        &faulty,
    );
    row("edit to object in the hub, p99, the same measured twice", each(&usual, |one| &one.here));
    compare(
        "  while one swallows everything",
        &Times::merge(usual.iter().map(|one| &one.here)),
        &here_faulty,
    );
    row(
        "the hub's p99 while all of a member far away are edited",
        seconds(distant.here.percentile(99)),
    );
    row("  everything is there after", seconds(distant.after));
    row("  its requests in flight, the most [32]", distant.in_flight);
    compare("the hub's p99 while one comes back to these edits", &distant.here, &returned.here);
    row("  everything is there after", seconds(returned.after));
    row("  its requests in flight, the most [32]", returned.in_flight);
    row("memory per idle member [1.5 MiB]", format!("{idle:.2} MiB"));
    row("memory with everything settled", format!("{settled:.1} MiB"));
    row("requests an hour to a settled member, the most [240]", format!("{:.0}", hour(most)));
    joined.sort_unstable();
    row(
        "joined, noticed after at the most [1 s]",
        seconds(joined.last().copied().unwrap_or_default()),
    );
    row("refused, noticed after [3 s]", seconds(refused));
    row("swallowed, noticed after the last edit of the others [15 s]", seconds(swallowed));
    row("revoked, noticed after [30 s]", seconds(revoked));
    row("rotated, noticed after [2 s]", seconds(rotated));
    let (idle, busy) = streaming;
    row("memory of the gateway, idle [12 MiB]", format!("{idle:.1} MiB"));
    row(&format!("  with {STREAMS} streams [24 MiB]"), format!("{busy:.1} MiB"));

    for member in &bed.members {
        let all = ListParams::default().labels(&format!("member={}", member.name));
        bed.apps.delete_collection(&DeleteParams::default(), &all).await?;
    }
    for member in &bed.members {
        bed.deployed_in(member, 0).await?;
    }
    bed.apps.delete(HERE, &DeleteParams::default()).await?;
    bed.members.iter().for_each(|member| member.cluster.stop());
    Ok(())
}

/// What 99 of 100 edits do not exceed, each time that they were measured.
fn each(usual: &[Usual], which: impl Fn(&Usual) -> &Times) -> String {
    usual.iter().map(|one| seconds(which(one).percentile(99))).collect::<Vec<_>>().join(", ")
}

/// Prints what 99 of 100 edits do not exceed, and how much more that is than otherwise.
fn compare(name: &str, usual: &Times, times: &Times) {
    let (usual, time) = (usual.percentile(99), times.percentile(99));
    row(name, seconds(time));
    let slower = (time.as_secs_f64() / usual.as_secs_f64() - 1.0) * 100.0;
    row("  slower by [10 %]", format!("{slower:+.1} %"));
}

/// Edits in members and in the hub with nothing wrong. They are measured before a fault and after it: the processes of all clusters share
/// the machine, and what is stored grows.
struct Usual {
    others: Times,
    here: Times,
}

/// What was seen until edits of all Applications of a member were there.
struct CaughtUp {
    /// Edits in the hub.
    here: Times,
    /// The most requests in flight to the member.
    in_flight: f64,
    /// How long it took until all edits were in the member.
    after: Duration,
}

impl Member {
    async fn start(index: usize, namespace: &Value) -> Result<Self> {
        let name = format!("member-{index}");
        let cluster = Cluster::start_lean(&name).await?;
        let token = members::token(&cluster, ACCOUNT).await?;
        let link = Link::to(members::port(&cluster)?).await?;
        apply(&cluster.client().await?, namespace).await?;
        Ok(Self { name, cluster, link, token })
    }

    async fn maps(&self) -> Result<Api<ConfigMap>> {
        Ok(Api::namespaced(self.cluster.client().await?, NAMESPACE))
    }
}

impl Bed<'_> {
    /// The controller's memory in MiB.
    fn memory(&self) -> Result<f64> {
        let pid = self.deployed.controller.pid().context("the controller does not run")?;
        Ok(usage(pid)?.rss_mib)
    }

    async fn write(&self, member: &Member, token: &str) -> Result<()> {
        let secret = Joining::at(&member.cluster, member.link.port()).token(token);
        apply(&self.hub.client().await?, &secret.secret(&member.name)).await
    }

    /// Waits until the controller has a member in a state.
    async fn reaches(&self, member: &str, state: &str) -> Result<Duration> {
        let since = Instant::now();
        let wanted = format!("vela_cluster_state{{cluster=\"{member}\",state=\"{state}\"}} 1");
        loop {
            self.deployed.check()?;
            let text = self.deployed.controller.metrics().await?;
            if text.lines().any(|line| line == wanted) {
                return Ok(since.elapsed());
            }
            if since.elapsed() > LIMIT {
                bail!("{member} is not {state} after {} s", LIMIT.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until so many objects are in a member.
    async fn deployed_in(&self, member: &Member, count: usize) -> Result<()> {
        let since = Instant::now();
        let maps = member.maps().await?;
        let ours = ListParams::default().labels("app.oam.dev/name");
        loop {
            self.deployed.check()?;
            let there = maps.list_metadata(&ours).await?.items.len();
            if there == count {
                return Ok(());
            }
            if since.elapsed() > LIMIT * 5 {
                bail!("{there} of {count} objects in {}", member.name);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn edit(&self, name: &str, value: &str) -> Result<()> {
        let edit = json!({"spec": {"components": [component(name, value)]}});
        self.apps.patch(name, &PatchParams::default(), &Patch::Merge(&edit)).await?;
        Ok(())
    }

    /// Edits all Applications in a member.
    async fn edit_all(&self, member: &Member, count: usize, value: &str) -> Result<()> {
        for index in 0..count {
            self.edit(&format!("{}-{index}", member.name), value).await?;
        }
        Ok(())
    }

    /// The times of edits, one after the other, in members in turn.
    async fn edits(&self, of: &[Member], args: &Args, round: &str) -> Result<Times> {
        let mut times = Vec::new();
        for edit in 0..args.edits {
            let member = of.get(edit % of.len()).context("no member")?;
            let name = format!("{}-{}", member.name, (edit / of.len()) % args.n);
            let maps = member.maps().await?;
            times.push(self.one_edit(&maps, &name, &format!("{round}-{edit}")).await?);
        }
        Ok(Times::new(times))
    }

    /// The times of edits in the hub, one after the other.
    async fn edits_here(&self, count: usize, round: &str) -> Result<Times> {
        let maps = Api::namespaced(self.hub.client().await?, NAMESPACE);
        let mut times = Vec::new();
        for edit in 0..count {
            times.push(self.one_edit(&maps, HERE, &format!("{round}-{edit}")).await?);
        }
        Ok(Times::new(times))
    }

    /// Edits with nothing wrong. Each measurement with a fault begins with edits of all Applications in one member, and so does what it is
    /// compared with.
    async fn usual(
        &self,
        first: &Member,
        others: &[Member],
        args: &Args,
        round: &str,
    ) -> Result<Usual> {
        self.edit_all(first, args.n, round).await?;
        let of_others = self.edits(others, args, round).await?;
        self.edit_all(first, args.n, &format!("{round} again")).await?;
        let here = self.edits_here(args.edits, round).await?;
        Ok(Usual { others: of_others, here })
    }

    /// All Applications of a member that is far away are edited at once.
    async fn distant(&self, member: &Member, count: usize) -> Result<CaughtUp> {
        member.link.set(Mode::Delay(AWAY));
        let edits = async {
            let names = (0..count).map(|index| format!("{}-{index}", member.name));
            let edits = names.map(async |name| self.edit(&name, "distant").await);
            futures::future::try_join_all(edits).await?;
            self.all_have(member, count, "distant").await
        };
        let caught_up = self.until(member, edits, "distant").await?;
        member.link.set(Mode::Pass);
        Ok(caught_up)
    }

    /// The same edits while the member cannot be reached, and it comes back as far away.
    async fn returns(&self, member: &Member, count: usize) -> Result<CaughtUp> {
        member.link.set(Mode::Refuse);
        self.reaches(&member.name, "Disconnected").await?;
        self.edit_all(member, count, "returned").await?;
        member.link.set(Mode::Delay(AWAY));
        let back = self.all_have(member, count, "returned");
        let caught_up = self.until(member, back, "returned").await?;
        member.link.set(Mode::Pass);
        Ok(caught_up)
    }

    /// Edits in the hub, and the requests in flight to a member, until edits are in that member.
    async fn until(
        &self,
        member: &Member,
        all_there: impl Future<Output = Result<()>>,
        round: &str,
    ) -> Result<CaughtUp> {
        let since = Instant::now();
        let mut here = Vec::new();
        let mut in_flight = 0.0_f64;
        let in_hub = Api::namespaced(self.hub.client().await?, NAMESPACE);
        let its = format!("cluster=\"{}\"", member.name);
        let sampling = async {
            let controller = &self.deployed.controller;
            while let Ok(now) = controller.metric_of("vela_cluster_in_flight", &its).await {
                in_flight = in_flight.max(now);
                tokio::time::sleep(SAMPLE).await;
            }
            bail!("the controller does not answer")
        };
        let edits = async {
            for edit in 0.. {
                here.push(self.one_edit(&in_hub, HERE, &format!("{round}-{edit}")).await?);
            }
            anyhow::Ok(())
        };
        tokio::select! {
            there = all_there => there?,
            failed = sampling => failed?,
            failed = edits => failed?,
        }
        Ok(CaughtUp { here: Times::new(here), in_flight, after: since.elapsed() })
    }

    /// Waits until all objects in a member have a value.
    async fn all_have(&self, member: &Member, count: usize, value: &str) -> Result<()> {
        let since = Instant::now();
        let maps = member.maps().await?;
        loop {
            self.deployed.check()?;
            let all = maps.list(&ListParams::default().labels("app.oam.dev/name")).await?;
            let has = |map: &ConfigMap| {
                map.data.as_ref().is_some_and(|data| data.get("v").is_some_and(|it| it == value))
            };
            let there = all.items.iter().filter(|map| has(map)).count();
            if there == count {
                return Ok(());
            }
            if since.elapsed() > LIMIT * 5 {
                bail!("{there} of {count} edits in {}", member.name);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// How long it takes from an edit until its object is in the cluster, by a watch that began before.
    async fn one_edit(&self, maps: &Api<ConfigMap>, name: &str, value: &str) -> Result<Duration> {
        let one = format!("metadata.name={name}");
        let now = maps.list_metadata(&ListParams::default().fields(&one)).await?.metadata;
        let version = now.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(&one).timeout(u32::try_from(LIMIT.as_secs())?);
        let mut changes = pin!(maps.watch(&params, &version).await?);
        let since = Instant::now();
        self.edit(name, value).await?;
        while let Some(event) = changes.try_next().await? {
            let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else { continue };
            if map.data.is_some_and(|data| data.get("v").is_some_and(|it| it == value)) {
                return Ok(since.elapsed());
            }
        }
        bail!("the edit of {name} did not arrive within {} s", LIMIT.as_secs())
    }

    /// The gateway's memory in MiB: before it had a client, and while watches of the members go through it.
    async fn streams(&self, gateway: &Gateway) -> Result<(f64, f64)> {
        let pid = gateway.program.pid().context("the gateway does not run")?;
        let idle = usage(pid)?.rss_mib;
        let client = self.hub.client().await?;
        let mut all = Vec::new();
        for member in self.members.iter().cycle().take(STREAMS) {
            let path = format!(
                "/apis/cluster.core.oam.dev/v1alpha1/clustergateways/{}/proxy/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true",
                member.name
            );
            let mut lines =
                Box::pin(client.request_stream(http::Request::get(path).body(Vec::new())?).await?);
            // All of its objects are the beginning of it.
            let mut first = [0; 1];
            lines.read_exact(&mut first).await.context("a watch that brings nothing")?;
            all.push(lines);
        }
        let open = gateway.program.metric("vela_gateway_streams").await?;
        let busy = usage(pid)?.rss_mib;
        if open < to_f64(STREAMS) {
            bail!("{open} of {STREAMS} streams are open");
        }
        Ok((idle, busy))
    }

    /// Waits until nothing is written in members for a while.
    async fn rests(&self, of: &[Member]) -> Result<()> {
        const CALM: Duration = Duration::from_secs(10);
        for member in of {
            let log = member.cluster.audit_log();
            let (mut from, mut since) = (audit::position(&log)?, Instant::now());
            let begin = Instant::now();
            while since.elapsed() < CALM {
                if begin.elapsed() > LIMIT {
                    bail!("{} does not come to rest", member.name);
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
                let position = audit::position(&log)?;
                if audit::read(&log, from)?.iter().any(audit::Entry::is_controllers_write) {
                    since = Instant::now();
                }
                from = position;
            }
        }
        Ok(())
    }
}

fn application(member: &str, name: &str) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"member": member}},
        "spec": {
            "components": [component(name, "0")],
            "policies": [{"name": "there", "type": "topology", "properties": {"clusters": [member]}}],
        },
    })
}

fn component(name: &str, value: &str) -> Value {
    json!({"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}})
}

#[allow(clippy::cast_precision_loss, reason = "a small count")]
fn to_f64(count: usize) -> f64 {
    count as f64
}
