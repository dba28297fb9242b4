//! The tasks of a member: it renews its Lease, lists the others', and carries out what follows from that. They run on the vital
//! threads: no work of users holds them up.

mod assign;
mod judge;
mod label_records;
mod observe;
mod report;
mod root;
mod session;
mod table;
mod unowned;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;
use vela_api::names::annotation;
use vela_cluster::{Error, Key};
use vela_shard::Slot;

use crate::application::context::AppContext;
use crate::fleet::lease::{self, Names};
use crate::fleet::{Fleet, Pace, clock};

/// How often what has a time limit is checked although nothing happened.
const CHECK: Duration = Duration::from_millis(250);
/// The same while slots are being drained.
const CHECK_DRAIN: Duration = Duration::from_millis(20);
/// When a member that leaves waits no longer until the caches of those are filled who get its buckets.
const HURRY: Duration = Duration::from_secs(10);
/// After a write that failed: not at once again.
const PAUSE: Duration = Duration::from_millis(200);

/// What a member is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the Leases are.
    pub namespace: String,
    /// The name of the Pod.
    pub pod: String,
    /// The names of the Leases.
    pub names: Names,
    /// How long its holder is believed.
    pub root_duration: Duration,
    /// How fast sessions are.
    pub pace: Pace,
}

/// What the tasks share.
struct Runner {
    fleet: Arc<Fleet>,
    context: Arc<AppContext>,
    options: Options,
    /// The names of the own Lease and of that of the table.
    name: String,
    table: String,
    api: Api<Lease>,
    id: Arc<str>,
    /// The own Lease as it was written or read last.
    own: tokio::sync::Mutex<Lease>,
    seen: Mutex<Seen>,
    /// The lives of members whose records are known; `None`: none was read yet.
    heirs: Mutex<Option<BTreeSet<String>>>,
    /// Own Applications that are not in the queue although they are to be reconciled again and again, and since when.
    missed: Mutex<BTreeMap<Key, Instant>>,
    /// Slots that nobody works on, as far as this member has the leader's duties, and since when.
    idle: Mutex<BTreeMap<Slot, Instant>>,
    stop: CancellationToken,
}

/// The other Leases as they were read last.
#[derive(Default)]
struct Seen {
    members: Vec<Lease>,
    /// The root Lease and those of shards, by name.
    roots: BTreeMap<String, Lease>,
    /// The Lease of the table that was read with the table that the member knows.
    table: Option<Lease>,
    /// The shards for whose Applications the fleet may write.
    open: BTreeSet<Arc<str>>,
    /// A version that a watch can begin at.
    version: String,
    /// What the last warnings about the table and about this member's pool said.
    complaint: String,
    is_refused: bool,
}

/// Makes the Lease of this member, and starts its tasks. They end with `stop`.
///
/// # Errors
/// The Lease cannot be written.
pub(crate) async fn start(
    (fleet, context): (Arc<Fleet>, Arc<AppContext>),
    (options, client): (Options, Client),
    vital: Handle,
    stop: CancellationToken,
) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(client, &options.namespace);
    let id = fleet.id();
    // Before the request: the permit counts from when the renewal was sent, others' judgement from
    // when they see it.
    let started = clock::now();
    let (name, table) = (options.names.member(&options.pod), options.names.table());
    let known = api.get_opt(&name).await.map_err(Error::from)?;
    let is_new = known.is_none();
    let base = known.unwrap_or_else(|| lease::new(&options.namespace, &name));
    fleet.keep(&context);
    let cached = [
        (annotation::FLEET_CACHED, fleet.state.lock().filled.to_text()),
        (annotation::FLEET_READY, "0".to_owned()),
    ];
    let first = lease::renewed(base, &id, seconds(options.pace.lease_duration), &cached);
    // One that a process of the same Pod left belongs to this one now: its identity is another one, and is judged as such.
    let own = if is_new {
        api.create(&PostParams::default(), &first).await
    } else {
        api.replace(&name, &PostParams::default(), &first).await
    };
    let own = own.map_err(Error::from)?;
    fleet.state.lock().member.renewed(started, clock::now());
    info!(member = &*id, lease = name, "member of a fleet");
    let runner = Arc::new(Runner {
        fleet,
        context,
        options,
        name,
        table,
        api,
        id,
        own: tokio::sync::Mutex::new(own),
        seen: Mutex::default(),
        heirs: Mutex::default(),
        missed: Mutex::default(),
        idle: Mutex::default(),
        stop: stop.clone(),
    });
    let mut tasks = JoinSet::new();
    for task in 0..5_u8 {
        let (runner, stop) = (Arc::clone(&runner), stop.clone());
        let work = async move {
            match task {
                0 => runner.renew().await,
                1 => runner.list().await,
                2 => runner.watch().await,
                3 => runner.label_records().await,
                _ => runner.act().await,
            }
        };
        tasks.spawn_on(
            async move {
                tokio::select! {
                    () = work => {}
                    () = stop.cancelled() => {}
                }
            },
            &vital,
        );
    }
    tasks.detach_all();
    Ok(())
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

/// Whether a write that failed certainly has no effect.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 408)
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

impl Runner {
    /// What follows from what was read, at once when something changed.
    async fn act(&self) {
        let mut pause = CHECK;
        let mut leaves: Option<Instant> = None;
        loop {
            let _ = timeout(pause, self.fleet.changed.notified()).await;
            if self.fleet.lost.is_cancelled() {
                self.align();
                return;
            }
            if self.fleet.leaves.is_cancelled()
                && leaves.get_or_insert_with(Instant::now).elapsed() >= HURRY
            {
                self.fleet.state.lock().member.hurry();
            }
            // First which slots are to be handed over: their keys are taken no more before anything
            // is written about them.
            self.fleet.state.lock().member.adjust(clock::now());
            let draining = self.align();
            self.roots().await;
            self.judge().await;
            // A table that was written may give slots to this member; they need not wait for the
            // next round.
            if self.table().await {
                self.align();
            }
            // Only after the table without this member was written: before, its slots would have no
            // holder that answers.
            if self.fleet.state.lock().member.is_over() {
                if self.fleet.leaves.is_cancelled() {
                    self.align();
                    self.end().await;
                } else {
                    // A table that was read after a cut may say so before the next renewal does.
                    self.lose("the others took this member out of the table");
                    self.align();
                }
                return;
            }
            pause = if draining { CHECK_DRAIN } else { CHECK };
        }
    }
}
