//! Histories of fleets at their real pace: members renew, list, watch, judge and write as the controller's tasks do, in virtual
//! time, with requests that take time, while users edit Applications and things fail. Each history follows from its seed.
//!
//! At every write that the API server carries out, nobody but its sender may be permitted to write for the same slot; edits wait
//! no longer than promised; and in the end each slot has a living holder, the one that shall have it, and nobody writes the table
//! any more. A member keeps its share in memory and works on nothing that its caches are not filled for; who gets what he did not
//! keep fills them first. A controller that is no member elects on the same Lease, too, and takes it when all members stand still. Labels that
//! change are explored in `model.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that meets something unexpected fails there"
)]

mod scale;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use scale::Scale;
use vela_shard::{
    BUCKETS, Buckets, Holder, Kept, Member, MemberId, Observed, PoolName, Root, RootTiming, Slot,
    Table, Timing, bucket_of, share, share_of_new, unanswered_until,
};

/// The pace of the controller, in milliseconds (docs/scaling.md).
const TIMING: Timing = Timing { permitted: 5_000, judged: 8_000, period: 1_500 };
const FALLBACK: u64 = 30_000;
const ROOT: RootTiming = RootTiming { permitted: 13_000, renewed: 1_500, replaced: 3_000 };
/// How long the holder of the root Lease is believed, by client-go's rules; how long a controller works that could not renew it, and
/// how often that tries.
const ROOT_DURATION: u64 = 15_000;
const RENEW_DEADLINE: u64 = 10_000;
const RETRY: u64 = 2_000;
const LIST_PERIOD: u64 = 2_000;
const LIST_LIMIT: u64 = 4_000;
const CHECK: u64 = 250;
const PAUSE: u64 = 200;
const BATCH: u64 = 30;
/// How long the controller waits for an answer to a write.
const WRITE_LIMIT: u64 = 5_000;
/// A write needs at least this much of the session, and what is subtracted from its deadline.
const LEAST: u64 = 1_000;
const SLACK: u64 = 250;
/// How long a list of everything takes, which fills the caches.
const FILL: (u64, u64) = (200, 2_000);
/// When one that was stopped waits for others' caches no more.
const HURRY: u64 = 10_000;
/// Nothing fails in the end for so long, and edits of the last part of it count.
const CALM: u64 = 90_000;
const STEP: u64 = 10;
/// How long a history is, and one of a sample.
const LONG: u64 = 600_000;
const SHORT: u64 = 240_000;

/// What happens to a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Replicas are added, stopped and replaced, one after the other.
    Planned,
    /// One replica is killed, and comes back.
    Crashes,
    /// All replicas are killed at once, and come back.
    Outages,
    /// Replicas stand still for less than a session.
    ShortFreezes,
    /// The API server does not answer for a minute.
    NoApiServer,
    /// Everything at any moment, with clocks that differ in speed.
    Chaos,
    /// A fleet of many Applications: a crash, one replica more and one less, a roll-out (`scale.rs`).
    Scale,
}

impl Kind {
    /// How long an edit may wait.
    const fn limit(self) -> Option<u64> {
        match self {
            Self::Planned => Some(2_000),
            Self::Crashes => Some(15_000),
            // They start within 5 s, and wait for the Leases of the dead.
            Self::Outages => Some(20_000),
            // A session that ended comes back with the next renewal and list.
            Self::ShortFreezes => Some(10_000),
            Self::NoApiServer | Self::Chaos | Self::Scale => None,
        }
    }
}

/// Numbers that follow from a seed (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.next().is_multiple_of(number)
    }
}

#[derive(Clone)]
struct Lease {
    stamp: u64,
    version: u64,
    seized: bool,
    filled: Buckets,
    /// The epoch for which its caches are filled.
    ready: u64,
}

/// A process that starts.
struct Start {
    at: u64,
    pool: PoolName,
    predecessor: Option<MemberId>,
    /// Who it is and what it keeps, while its caches are filled for the first time.
    prepared: Option<(MemberId, Kept)>,
}

/// The Lease that Go's controllers elect on.
#[derive(Clone, Copy)]
struct RootLease {
    stamp: u64,
    version: u64,
    holder: Holder,
}

/// A controller that is no member, from its start on.
struct Foreign {
    tries: u64,
    /// What it saw last of the Lease, and since when.
    seen: Option<(u64, u64)>,
    /// The begin of its last renewal, and when it began to work.
    renewed: Option<u64>,
    works_since: u64,
}

impl Foreign {
    fn works(&self, now: u64) -> bool {
        self.renewed.is_some_and(|at| now < at + RENEW_DEADLINE)
    }
}

enum Request {
    Renew {
        version: u64,
        filled: Buckets,
        ready: u64,
    },
    RenewRoot {
        version: Option<u64>,
    },
    List,
    ReadLease(MemberId),
    Seize {
        id: MemberId,
        version: u64,
    },
    ReadTable,
    Put {
        table: Table,
        version: Option<u64>,
    },
    Remove,
    /// A write for the Application of an edit, until a moment of the API server's clock.
    Write {
        edit: u64,
        named: Slot,
        time: u64,
    },
}

type Known = Option<(Arc<Table>, u64)>;

enum Answer {
    Renewed(Result<u64, Option<Lease>>),
    Root(Result<RootLease, Option<RootLease>>),
    Listed(Vec<Observed>, Known, Option<RootLease>),
    Lease(Option<Lease>),
    Seized(bool),
    Table(Known),
    Put(Option<(Arc<Table>, u64)>),
    Written,
}

enum Event {
    /// A request reaches the API server, and when it gives it up.
    Arrives {
        node: usize,
        request: u64,
        sent: Request,
    },
    /// It is carried out.
    Commits {
        node: usize,
        request: u64,
        sent: Request,
    },
    Answered {
        node: usize,
        request: u64,
        answer: Answer,
    },
    Watched {
        node: usize,
        table: Arc<Table>,
        version: u64,
    },
}

/// What a member is doing about the table, one thing after the other.
#[derive(Clone)]
enum Task {
    Idle { until: u64 },
    Reads { suspect: MemberId, stamp: u64, request: u64 },
    Seizes { suspect: MemberId, request: u64 },
    Waits { until: u64 },
    Puts { before: Option<u64>, started: u64, request: u64 },
    Refreshes { started: u64, request: u64 },
}

struct Node {
    member: Member,
    is_alive: bool,
    is_leaving: bool,
    /// Its clock: what it shows at the origin, and how many of its milliseconds are a second.
    offset: u64,
    rate: u64,
    frozen: u64,
    /// Until when its requests, and the answers to them, are lost.
    requests_lost: u64,
    answers_lost: u64,
    version: u64,
    renewal: Option<(u64, u64)>,
    renews: u64,
    root: Root,
    /// The version of the root Lease that is known, and the renewal in flight.
    root_version: Option<u64>,
    root_renewal: Option<(u64, u64)>,
    list: Option<(u64, u64)>,
    lists: u64,
    task: Task,
    judged: BTreeSet<MemberId>,
    /// The version of the table that the member knows.
    table: Option<u64>,
    /// Requests without an answer, and when the member stops waiting for it.
    waits: BTreeMap<u64, u64>,
    /// Writes in flight: for which slot, for which edit, and until when they may be carried out.
    writes: BTreeMap<u64, (Slot, u64, u64)>,
    /// Until when writes without an answer may be carried out.
    doubts: HashMap<Slot, u64>,
    kept: Kept,
    /// The generation of the last complete list, and that of a list in progress with its end.
    listed: u64,
    fill: Option<(u64, u64)>,
    filled: Buckets,
    /// When it was stopped.
    stopped: u64,
    /// Until when its worker for edits is busy.
    edits_until: u64,
}

impl Node {
    fn clock(&self, now: u64) -> u64 {
        self.offset + now * self.rate / 1_000
    }

    /// How long it may write for a slot.
    fn permitted(&self, named: &Slot, clock: u64) -> Option<u64> {
        Some(self.member.permitted(named, clock)?.min(self.root.left(clock)?))
    }

    /// Whether the caches are filled for a slot.
    fn is_filled(&self, named: &Slot) -> bool {
        match named {
            Slot::Bucket(_, bucket) => self.filled.contains(*bucket),
            Slot::Lead => true,
        }
    }

    /// What a read of the root Lease shows that began at `started`.
    fn read_root(&mut self, found: Option<RootLease>, started: u64, clock: u64) {
        let (stamp, holder) = found.map_or((0, Holder::Nobody), |root| (root.stamp, root.holder));
        let duration = found.map_or(0, |_| ROOT_DURATION);
        self.root.listed(started, clock, (stamp, holder, duration));
        self.root_version = found.map(|root| root.version);
    }

    fn acts(&self, now: u64) -> bool {
        self.is_alive && now >= self.frozen
    }
}

struct Edit {
    named: Slot,
    since: u64,
    sent: BTreeSet<usize>,
}

struct World {
    now: u64,
    random: Random,
    kind: Kind,
    leases: BTreeMap<MemberId, Lease>,
    table: Known,
    root: Option<RootLease>,
    foreign: Option<Foreign>,
    versions: u64,
    events: BTreeMap<(u64, u64), Event>,
    nodes: Vec<Node>,
    /// The API server answers nobody.
    away: u64,
    /// From here on nothing fails.
    calm: u64,
    starts: Vec<Start>,
    edits: BTreeMap<u64, Edit>,
    slots: Vec<Slot>,
    log: Vec<String>,
    last_put: u64,
    counted: Counted,
    /// How long a list of everything takes, from and to.
    fill: (u64, u64),
    scale: Option<Scale>,
}

/// What is counted of a history, or of several.
#[derive(Debug, Default)]
struct Counted {
    edits: u64,
    longest_wait: u64,
    tables: u64,
    seizures: u64,
    moves: u64,
    elections: u64,
    /// Lists that filled caches after the first one.
    fills: u64,
    /// Slots that came to a member whose caches were not filled for them.
    unfilled: u64,
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.edits += other.edits;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.tables += other.tables;
        self.seizures += other.seizures;
        self.moves += other.moves;
        self.elections += other.elections;
        self.fills += other.fills;
        self.unfilled += other.unfilled;
    }
}

impl World {
    fn new(seed: u64, kind: Kind, apps: usize, members: usize) -> Self {
        let app = |number: usize| {
            let is_pools = number.is_multiple_of(5) && kind != Kind::Scale;
            let pool = if is_pools { "x" } else { "" };
            Slot::Bucket(pool.into(), bucket_of("shop", &format!("app-{number}")))
        };
        let mut world = Self {
            now: 0,
            random: Random(seed),
            kind,
            leases: BTreeMap::new(),
            table: None,
            root: None,
            foreign: None,
            versions: 0,
            events: BTreeMap::new(),
            nodes: Vec::new(),
            away: 0,
            calm: 0,
            starts: Vec::new(),
            edits: BTreeMap::new(),
            slots: (0..apps).map(app).collect(),
            log: Vec::new(),
            last_put: 0,
            counted: Counted::default(),
            fill: FILL,
            scale: None,
        };
        for member in 0..members {
            let pool = if member == 3 && kind != Kind::Scale { "x" } else { "" };
            let at = world.random.between(0, 3_000);
            let pool = pool.into();
            world.starts.push(Start { at, pool, predecessor: None, prepared: None });
        }
        world
    }

    fn note(&mut self, what: &str) {
        self.log.push(format!("{:>8} {what}", self.now));
    }

    fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn schedule(&mut self, after: u64, event: Event) {
        let number = self.version();
        self.events.insert((self.now + after, number), event);
    }

    /// How long a list of everything takes.
    fn fill_time(&mut self) -> u64 {
        self.random.between(self.fill.0, self.fill.1)
    }

    fn latency(&mut self) -> u64 {
        if self.random.one_in(50) {
            self.random.between(50, 200)
        } else {
            self.random.between(1, 20)
        }
    }

    /// A process starts, and fills its caches.
    fn prepare(&mut self, start: Start) {
        let number = self.version();
        let id: MemberId = format!("pod-{number}_{:x}", self.random.next()).as_str().into();
        let share = |(table, _): &(Arc<Table>, u64)| {
            share_of_new(table, (&id, &start.pool), start.predecessor.as_deref())
        };
        let kept = Kept::new(self.table.as_ref().map_or(Buckets::ALL, share));
        let fill = self.fill_time();
        let at = self.now + fill;
        self.starts.push(Start { at, prepared: Some((id, kept)), ..start });
    }

    fn start(&mut self, id: MemberId, pool: &PoolName, kept: Kept) {
        let number = self.nodes.len();
        let (offset, rate) = match self.kind {
            Kind::Chaos => (self.random.between(0, 1_000_000), self.random.between(850, 1_150)),
            _ => (self.random.between(0, 1_000_000), self.random.between(999, 1_001)),
        };
        let mut node = Node {
            member: Member::new(
                (Arc::clone(&id), Arc::clone(pool)),
                TIMING,
                BUCKETS,
                Some(FALLBACK),
            ),
            is_alive: true,
            is_leaving: false,
            offset,
            rate,
            frozen: 0,
            requests_lost: 0,
            answers_lost: 0,
            version: self.version(),
            renewal: None,
            renews: self.now + TIMING.period,
            root: Root::new(ROOT),
            root_version: None,
            root_renewal: None,
            list: None,
            lists: self.now,
            task: Task::Idle { until: self.now },
            judged: BTreeSet::new(),
            table: None,
            waits: BTreeMap::new(),
            writes: BTreeMap::new(),
            doubts: HashMap::new(),
            listed: kept.generation(),
            fill: None,
            filled: kept.buckets(),
            stopped: u64::MAX,
            edits_until: 0,
            kept,
        };
        let (version, filled) = (node.version, node.filled);
        let lease = Lease { stamp: self.version(), version, seized: false, filled, ready: 0 };
        self.leases.insert(id, lease);
        let at = node.clock(self.now);
        node.member.renewed(at, at);
        self.note(&format!("{number} starts in pool {pool:?}"));
        self.nodes.push(node);
    }

    /// A process that ends is replaced by its Deployment.
    fn ends(&mut self, node: usize, why: &str) {
        self.note(&format!("{node} ends: {why}"));
        self.nodes[node].is_alive = false;
        let pool = Arc::clone(self.nodes[node].member.pool());
        let at = self.now + self.random.between(500, 5_000);
        let predecessor = Some(Arc::clone(self.nodes[node].member.id()));
        self.starts.push(Start { at, pool, predecessor, prepared: None });
    }

    fn send(&mut self, node: usize, sent: Request, limit: u64) -> u64 {
        let request = self.version();
        let at = self.now;
        let until = self.nodes[node].clock(at) + limit;
        self.nodes[node].waits.insert(request, until);
        if at >= self.nodes[node].requests_lost && at >= self.away {
            let after = self.latency();
            self.schedule(after, Event::Arrives { node, request, sent });
        }
        request
    }

    fn answer(&mut self, node: usize, request: u64, answer: Answer) {
        if self.now >= self.nodes[node].answers_lost && self.now >= self.away {
            let after = self.latency();
            self.schedule(after, Event::Answered { node, request, answer });
        }
    }

    /// The API server carries a request out.
    fn carry_out(&mut self, node: usize, request: u64, sent: Request) {
        let id = Arc::clone(self.nodes[node].member.id());
        let answer = match sent {
            Request::Renew { version, filled, ready } => {
                let (new, stamp) = (self.version(), self.version());
                let found = self.leases.get_mut(&id);
                Answer::Renewed(match found {
                    Some(lease) if lease.version == version && !lease.seized => {
                        (lease.version, lease.stamp, lease.filled) = (new, stamp, filled);
                        lease.ready = ready;
                        Ok(new)
                    }
                    found => Err(found.cloned()),
                })
            }
            Request::RenewRoot { version } => {
                let is_current = self.root.map(|root| root.version) == version;
                let (stamp, version) = (self.version(), self.version());
                Answer::Root(if is_current {
                    let next = RootLease { stamp, version, holder: Holder::Member };
                    self.root = Some(next);
                    Ok(next)
                } else {
                    Err(self.root)
                })
            }
            Request::List => {
                let observed = |(id, lease): (&MemberId, &Lease)| Observed {
                    id: Arc::clone(id),
                    stamp: lease.stamp,
                    seized: lease.seized,
                    filled: Some(lease.filled),
                };
                let leases = self.leases.iter().map(observed).collect();
                Answer::Listed(leases, self.table.clone(), self.root)
            }
            Request::ReadLease(of) => Answer::Lease(self.leases.get(&of).cloned()),
            Request::Seize { id: of, version } => {
                let new = self.version();
                let found = self.leases.get_mut(&of).filter(|lease| lease.version == version);
                let is_taken = found.is_some();
                if let Some(lease) = found {
                    (lease.version, lease.seized) = (new, true);
                    self.counted.seizures += 1;
                    self.note(&format!("{node} seizes {of}"));
                }
                Answer::Seized(is_taken)
            }
            Request::ReadTable => Answer::Table(self.table.clone()),
            Request::Put { table, version } => {
                let current = self.table.as_ref().map(|(_, version)| *version);
                Answer::Put((current == version).then(|| self.put(table)))
            }
            Request::Remove => {
                self.leases.remove(&id);
                return;
            }
            Request::Write { edit, named, .. } => {
                self.written(node, edit, &named);
                Answer::Written
            }
        };
        self.answer(node, request, answer);
    }

    fn put(&mut self, table: Table) -> (Arc<Table>, u64) {
        let version = self.version();
        let before = self.table.as_ref().map(|(table, _)| Arc::clone(table));
        let incarnation = match &before {
            Some(table) => Arc::clone(&table.incarnation),
            None => version.to_string().into(),
        };
        let table = Arc::new(Table { incarnation, ..table });
        for slot in table.slots() {
            let holder = before.as_ref().and_then(|table| table.holder(&slot));
            if holder.is_some() && holder != table.holder(&slot) {
                self.counted.moves += 1;
            }
            let taker = table.holder(&slot).filter(|taker| Some(*taker) != holder);
            let taker = taker.and_then(|id| self.nodes.iter().find(|one| one.member.id() == id));
            if before.is_some() && taker.is_some_and(|taker| !taker.is_filled(&slot)) {
                self.counted.unfilled += 1;
            }
        }
        self.table = Some((Arc::clone(&table), version));
        self.counted.tables += 1;
        self.last_put = self.now;
        for node in 0..self.nodes.len() {
            if self.now >= self.nodes[node].answers_lost {
                let after = self.latency();
                let table = Arc::clone(&table);
                self.schedule(after, Event::Watched { node, table, version });
            }
        }
        (table, version)
    }

    /// A write for an Application is carried out: nobody else may be permitted to write for it.
    fn written(&mut self, node: usize, edit: u64, named: &Slot) {
        let now = self.now;
        for (other, one) in self.nodes.iter().enumerate() {
            if other != node && one.is_alive {
                let permitted = one.permitted(named, one.clock(now));
                assert!(
                    permitted.is_none(),
                    "a write of {node} for {named:?} is carried out while {other} may write, at {now}:\n{}",
                    self.log.join("\n")
                );
            }
        }
        assert!(
            !self.foreign.as_ref().is_some_and(|foreign| foreign.works(now)),
            "a write of {node} is carried out while another controller works, at {now}:\n{}",
            self.log.join("\n")
        );
        if let Some(edit) = self.edits.remove(&edit) {
            self.counted.edits += 1;
            let wait = now - edit.since;
            self.counted.longest_wait = self.counted.longest_wait.max(wait);
            self.is_in_time(edit.since, &edit.named);
            if let Some(limit) = self.kind.limit() {
                assert!(
                    wait <= limit,
                    "an edit for {named:?} waited {wait} ms, at {now}:\n{}",
                    self.log.join("\n")
                );
            }
        }
    }

    fn take_in(&mut self, at: usize, known: Known, listed: Option<u64>) {
        let clock = self.nodes[at].clock(self.now);
        let node = &mut self.nodes[at];
        let Some((table, version)) = known else { return };
        let revision = table.revision;
        node.member.read(table, listed, clock);
        match node.member.table() {
            Some(known) if known.revision == revision => node.table = Some(version),
            Some(_) => {}
            None => node.table = None,
        }
        node.member.adjust(clock);
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        let now = self.now;
        if let Task::Idle { until } = &mut self.nodes[at].task {
            *until = now;
        }
    }

    fn answered(&mut self, at: usize, request: u64, answer: Answer) {
        let now = self.now;
        let clock = self.nodes[at].clock(now);
        match answer {
            Answer::Written => {
                if let Some((_, edit, _)) = self.nodes[at].writes.remove(&request) {
                    self.retry(edit, at);
                }
                self.wake(at);
            }
            // Nobody waits for it any more.
            _ if self.nodes[at].waits.remove(&request).is_none() => {}
            Answer::Renewed(result) => {
                let Some((_, started)) = self.nodes[at].renewal.take() else { return };
                match result {
                    Ok(version) => {
                        self.nodes[at].version = version;
                        self.nodes[at].member.renewed(started, clock);
                    }
                    Err(Some(lease)) if !lease.seized => {
                        self.nodes[at].version = lease.version;
                        // At once, once more.
                        self.nodes[at].renews = now;
                    }
                    Err(_) => {
                        self.nodes[at].member.lost();
                        self.ends(at, "its Lease is gone");
                    }
                }
                self.wake(at);
            }
            Answer::Root(result) => {
                let Some((_, started)) = self.nodes[at].root_renewal.take() else { return };
                match result {
                    Ok(root) => {
                        self.nodes[at].root.wrote(started, clock, (root.stamp, ROOT_DURATION));
                        self.nodes[at].root_version = Some(root.version);
                    }
                    Err(root) => self.nodes[at].read_root(root, started, clock),
                }
                self.wake(at);
            }
            Answer::Listed(leases, table, root) => {
                let Some((_, started)) = self.nodes[at].list.take() else { return };
                self.nodes[at].read_root(root, started, clock);
                self.nodes[at].member.observe(&leases, clock);
                if table.is_none() {
                    self.nodes[at].member.read_nothing(clock);
                    self.nodes[at].table = None;
                }
                self.take_in(at, table, Some(started));
                self.wake(at);
            }
            Answer::Lease(found) => {
                let Task::Reads { suspect, stamp, .. } = self.nodes[at].task.clone() else {
                    return;
                };
                self.nodes[at].task = match found {
                    Some(lease) if !lease.seized && stamp == lease.stamp => {
                        let seize =
                            Request::Seize { id: Arc::clone(&suspect), version: lease.version };
                        let request = self.send(at, seize, WRITE_LIMIT);
                        Task::Seizes { suspect, request }
                    }
                    _ => Task::Idle { until: now },
                };
            }
            Answer::Seized(is_taken) => {
                if let Task::Seizes { suspect, .. } = self.nodes[at].task.clone()
                    && is_taken
                {
                    self.nodes[at].member.seized(&suspect);
                }
                self.nodes[at].task = Task::Idle { until: now };
            }
            Answer::Put(version) => {
                let Task::Puts { before, started, .. } = self.nodes[at].task.clone() else {
                    return;
                };
                if let Some((table, version)) = version {
                    let revision = table.revision;
                    self.nodes[at].member.wrote(table, started, clock);
                    if self.nodes[at].member.table().is_some_and(|known| known.revision == revision)
                    {
                        self.nodes[at].table = Some(version);
                    }
                    self.nodes[at].task = Task::Idle { until: now };
                } else {
                    self.nodes[at].member.refused(before);
                    self.refresh(at);
                }
            }
            Answer::Table(known) => {
                let Task::Refreshes { started, .. } = self.nodes[at].task.clone() else { return };
                self.nodes[at].task = Task::Idle { until: now + PAUSE };
                self.take_in(at, known, Some(started));
                self.nodes[at].task = Task::Idle { until: now + PAUSE };
            }
        }
    }

    fn refresh(&mut self, at: usize) {
        let started = self.nodes[at].clock(self.now);
        let request = self.send(at, Request::ReadTable, LIST_LIMIT);
        self.nodes[at].task = Task::Refreshes { started, request };
    }

    /// An edit whose write came to nothing is tried again.
    fn retry(&mut self, edit: u64, node: usize) {
        if let Some(edit) = self.edits.get_mut(&edit) {
            edit.sent.remove(&node);
        }
    }

    /// Nobody waits for an answer for ever.
    fn give_up(&mut self, at: usize) {
        let now = self.now;
        let clock = self.nodes[at].clock(now);
        let over: Vec<u64> = self.nodes[at]
            .waits
            .iter()
            .filter(|(_, until)| clock >= **until)
            .map(|(request, _)| *request)
            .collect();
        for request in over {
            let node = &mut self.nodes[at];
            node.waits.remove(&request);
            if node.renewal.is_some_and(|(renewal, _)| renewal == request) {
                node.renewal = None;
            }
            if node.list.is_some_and(|(list, _)| list == request) {
                node.list = None;
            }
            if node.root_renewal.is_some_and(|(renewal, _)| renewal == request) {
                node.root_renewal = None;
            }
            match node.task {
                Task::Puts { request: put, .. } if put == request => self.refresh(at),
                Task::Reads { request: own, .. }
                | Task::Seizes { request: own, .. }
                | Task::Refreshes { request: own, .. }
                    if own == request =>
                {
                    node.task = Task::Idle { until: now + PAUSE };
                }
                _ => {}
            }
        }
        let late: Vec<u64> = self.nodes[at]
            .writes
            .iter()
            .filter(|(_, (_, _, until))| clock >= *until)
            .map(|(request, _)| *request)
            .collect();
        for request in late {
            let Some((slot, edit, until)) = self.nodes[at].writes.remove(&request) else {
                continue;
            };
            let doubt = self.nodes[at].doubts.entry(slot).or_default();
            *doubt = (*doubt).max(until);
            self.retry(edit, at);
        }
    }

    /// A member does what is due.
    fn act(&mut self, at: usize) {
        let now = self.now;
        self.give_up(at);
        let clock = self.nodes[at].clock(now);
        if self.nodes[at].renewal.is_none() && now >= self.nodes[at].renews {
            let (version, filled) = (self.nodes[at].version, self.nodes[at].filled);
            let ready = self.nodes[at].kept.ready(self.nodes[at].listed).unwrap_or(0);
            let renew = Request::Renew { version, filled, ready };
            let request = self.send(at, renew, TIMING.permitted / 2);
            self.nodes[at].renewal = Some((request, clock));
            self.nodes[at].renews = now + TIMING.period;
        }
        if self.nodes[at].list.is_none() && now >= self.nodes[at].lists {
            let request = self.send(at, Request::List, LIST_LIMIT);
            self.nodes[at].list = Some((request, clock));
            self.nodes[at].lists = now + LIST_PERIOD;
        }
        let member = &self.nodes[at].member;
        let leads = member.permitted(&Slot::Lead, clock).is_some();
        let is_member = member.table().is_some_and(|table| table.index(member.id()).is_some());
        if is_member
            && member.session(clock).is_some()
            && self.nodes[at].root_renewal.is_none()
            && self.nodes[at].root.is_due(leads, clock)
        {
            let renew = Request::RenewRoot { version: self.nodes[at].root_version };
            let request = self.send(at, renew, WRITE_LIMIT);
            self.nodes[at].root_renewal = Some((request, clock));
        }
        self.keep(at);
        self.drain(at);
        match self.nodes[at].task.clone() {
            Task::Idle { until } if now >= until => self.decide(at),
            Task::Waits { until } if now >= until => self.write_table(at),
            _ => {}
        }
        self.write(at);
    }

    /// What is kept follows the table, and a list fills the caches for what is new.
    fn keep(&mut self, at: usize) {
        let now = self.now;
        let time = self.fill_time();
        let node = &mut self.nodes[at];
        let clock = node.clock(now);
        if now >= node.stopped.saturating_add(HURRY) {
            node.member.hurry();
        }
        if let Some(table) = node.member.table().cloned() {
            let id = Arc::clone(node.member.id());
            node.kept.follow(&table, &id, clock);
        }
        match node.fill {
            Some((end, generation)) if now >= end => (node.fill, node.listed) = (None, generation),
            None if node.listed < node.kept.generation() => {
                node.fill = Some((now + time, node.kept.generation()));
                self.counted.fills += 1;
            }
            _ => {}
        }
        let filled = node.kept.filled(node.listed);
        if std::mem::replace(&mut node.filled, filled) != filled {
            // The others wait for that.
            node.renews = now;
        }
    }

    /// What is stopped is drained once nothing of it is in flight.
    fn drain(&mut self, at: usize) {
        let clock = self.nodes[at].clock(self.now);
        let node = &mut self.nodes[at];
        let draining: Vec<Slot> = node.member.draining().cloned().collect();
        if draining.is_empty() {
            return;
        }
        let resolve = |table: &Table, slot: &Slot| table.resolve(slot);
        let Some(table) = node.member.table().cloned() else { return };
        for slot in draining {
            let flies = node.writes.values().any(|(named, ..)| resolve(&table, named) == slot);
            let may_fly = node
                .doubts
                .iter()
                .any(|(named, until)| resolve(&table, named) == slot && clock < *until);
            if !flies && !may_fly {
                node.member.drained(&slot);
            }
        }
        self.wake(at);
    }

    fn decide(&mut self, at: usize) {
        let now = self.now;
        let clock = self.nodes[at].clock(now);
        self.nodes[at].member.adjust(clock);
        let mut suspects = self.nodes[at].member.suspects(clock);
        let next = suspects.find(|(id, _)| !self.nodes[at].judged.contains(*id));
        let next = next.map(|(id, stamp)| (Arc::clone(id), stamp));
        drop(suspects);
        if let Some((suspect, stamp)) = next {
            self.nodes[at].judged.insert(Arc::clone(&suspect));
            let request = self.send(at, Request::ReadLease(Arc::clone(&suspect)), WRITE_LIMIT);
            self.nodes[at].task = Task::Reads { suspect, stamp, request };
            return;
        }
        self.nodes[at].judged.clear();
        if self.nodes[at].member.is_over() {
            if self.nodes[at].is_leaving {
                self.send(at, Request::Remove, WRITE_LIMIT);
                self.note(&format!("{at} has left"));
                self.nodes[at].is_alive = false;
            } else {
                self.ends(at, "it is out of the table");
            }
            return;
        }
        let member = &self.nodes[at].member;
        let is_in = member.table().is_some_and(|table| table.index(member.id()).is_some());
        let root = &self.nodes[at].root;
        if !is_in && root.is_awaited(clock) {
            // Whoever joins shall be able to write at once.
            self.nodes[at].task = Task::Idle { until: now + CHECK };
            return;
        }
        self.nodes[at].task = match member.next_table(clock) {
            Some(next) => {
                let removes = member.table().is_some_and(|table| {
                    table.members.iter().any(|member| next.index(&member.id).is_none())
                });
                let index = member.table().and_then(|table| table.index(member.id()));
                let distance = index.filter(|_| removes).map_or(0, |index| 100 * u64::from(index));
                Task::Waits { until: now + distance.max(BATCH) }
            }
            None => Task::Idle { until: now + CHECK },
        };
    }

    fn write_table(&mut self, at: usize) {
        let now = self.now;
        let started = self.nodes[at].clock(now);
        let Some(next) = self.nodes[at].member.next_table(started) else {
            self.nodes[at].task = Task::Idle { until: now + CHECK };
            return;
        };
        let before = self.nodes[at].member.writing();
        let put = Request::Put { table: next, version: self.nodes[at].table };
        let request = self.send(at, put, WRITE_LIMIT);
        self.nodes[at].task = Task::Puts { before, started, request };
    }

    /// Writes for the edits of slots that it works on.
    fn write(&mut self, at: usize) {
        let clock = self.nodes[at].clock(self.now);
        let node = &self.nodes[at];
        if node.member.valid(clock).is_none() {
            return;
        }
        let due: Vec<(u64, Slot, u64)> = self
            .edits
            .iter()
            .filter(|(_, edit)| !edit.sent.contains(&at) && node.is_filled(&edit.named))
            .filter_map(|(number, edit)| {
                let left = node.permitted(&edit.named, clock).filter(|left| *left >= LEAST)?;
                Some((*number, edit.named.clone(), left - SLACK))
            })
            .collect();
        for (number, named, time) in due {
            if !self.takes(at) {
                break;
            }
            let write = Request::Write { edit: number, named: named.clone(), time };
            let request = self.send(at, write, time);
            self.nodes[at].waits.remove(&request);
            let until = unanswered_until(clock, time);
            self.nodes[at].writes.insert(request, (named, number, until));
            if let Some(edit) = self.edits.get_mut(&number) {
                edit.sent.insert(at);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives { node, request, sent } => {
                // An admission webhook that is slow holds a write up; its deadline ends that.
                let held = match self.kind {
                    Kind::Chaos if self.now < self.calm && self.random.one_in(40) => {
                        self.random.between(500, 12_000)
                    }
                    _ => self.random.between(1, 15),
                };
                match sent {
                    Request::Write { time, .. } if held > time => {}
                    Request::Write { .. } => {
                        self.schedule(held, Event::Commits { node, request, sent });
                    }
                    sent => {
                        let held = held.min(600);
                        self.schedule(held, Event::Commits { node, request, sent });
                    }
                }
            }
            Event::Commits { node, request, sent } => self.carry_out(node, request, sent),
            // Whoever stands still receives it later.
            Event::Answered { node, .. } | Event::Watched { node, .. }
                if !self.nodes[node].acts(self.now) =>
            {
                if self.nodes[node].is_alive {
                    self.schedule(self.nodes[node].frozen - self.now, event);
                }
            }
            Event::Answered { node, request, answer } => self.answered(node, request, answer),
            Event::Watched { node, table, version } => {
                self.take_in(node, Some((table, version)), None);
            }
        }
    }

    fn begin(&mut self, pool: PoolName) {
        self.prepare(Start { at: self.now, pool, predecessor: None, prepared: None });
    }

    fn living(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].is_alive).collect()
    }

    fn any(&mut self) -> Option<usize> {
        let living = self.living();
        let count = u64::try_from(living.len()).ok().filter(|count| *count > 0)?;
        living.get(usize::try_from(self.random.next() % count).ok()?).copied()
    }

    fn leave(&mut self, at: usize) {
        self.note(&format!("{at} is stopped"));
        self.nodes[at].is_leaving = true;
        self.nodes[at].stopped = self.now;
        self.nodes[at].member.leave();
        self.wake(at);
    }

    /// Something fails, or is changed.
    fn fail(&mut self) {
        let Some(at) = self.any() else { return };
        let now = self.now;
        let choice = match self.kind {
            Kind::Planned => self.random.between(0, 1),
            Kind::Crashes => 2,
            Kind::Outages => 11,
            Kind::ShortFreezes => 3,
            Kind::NoApiServer => 4,
            Kind::Chaos => self.random.between(0, 11),
            Kind::Scale => return,
        };
        let long = if self.kind == Kind::Chaos { 60_000 } else { 3_500 };
        let time = self.random.between(100, long);
        match choice {
            // A roll-out: first the new one.
            0 => {
                let pool = Arc::clone(self.nodes[at].member.pool());
                self.begin(pool);
                self.leave(at);
            }
            1 => {
                if self.living().len() > 4 {
                    self.leave(at);
                } else {
                    self.begin("".into());
                }
            }
            2 => {
                self.note(&format!("{at} is killed"));
                self.ends(at, "killed");
            }
            3 => {
                self.note(&format!("{at} stands still for {time} ms"));
                self.nodes[at].frozen = now + time;
            }
            4 => {
                let time = if self.kind == Kind::Chaos { time * 2 } else { 60_000 };
                self.note(&format!("the API server is away for {time} ms"));
                self.away = now + time;
            }
            5 => {
                self.note(&format!("requests of {at} are lost for {time} ms"));
                self.nodes[at].requests_lost = now + time;
            }
            6 => {
                self.note(&format!("answers to {at} are lost for {time} ms"));
                self.nodes[at].answers_lost = now + time;
            }
            7 => {
                self.note(&format!("{at} is cut off for {time} ms"));
                (self.nodes[at].requests_lost, self.nodes[at].answers_lost) =
                    (now + time, now + time);
            }
            8 if self.random.one_in(3) => {
                self.note("the table is deleted");
                self.table = None;
            }
            9 if self.random.one_in(3) => {
                let id = Arc::clone(self.nodes[at].member.id());
                self.note(&format!("the Lease of {at} is deleted"));
                self.leases.remove(&id);
            }
            11 if self.kind == Kind::Outages || self.random.one_in(5) => {
                self.note("all are killed");
                self.living().into_iter().for_each(|at| self.ends(at, "killed"));
            }
            10 if self.foreign.is_none() && self.random.one_in(2) => {
                self.note(&format!("another controller starts, and all stand still for {time} ms"));
                self.nodes.iter_mut().for_each(|node| node.frozen = now + time);
                self.foreign =
                    Some(Foreign { tries: now, seen: None, renewed: None, works_since: 0 });
            }
            _ => {}
        }
    }

    /// The other controller elects as client-go does, and leaves after a while.
    fn elect(&mut self) {
        let (now, new) = (self.now, (self.version(), self.version()));
        let Some(foreign) = &mut self.foreign else { return };
        if now < foreign.tries || now < self.away {
            return;
        }
        foreign.tries = now + RETRY;
        let (stamp, holder) =
            self.root.map_or((0, Holder::Nobody), |root| (root.stamp, root.holder));
        let since = foreign.seen.filter(|(seen, _)| *seen == stamp).map_or(now, |(_, since)| since);
        foreign.seen = Some((stamp, since));
        let may_take = match holder {
            Holder::Nobody => true,
            Holder::Foreign => foreign.renewed.is_some(),
            Holder::Member => now - since >= ROOT_DURATION,
        };
        let is_over = foreign.renewed.is_some() && now - foreign.works_since > 20_000;
        if foreign.renewed.is_some() && holder != Holder::Foreign {
            // Somebody else has it.
            self.foreign = None;
        } else if is_over || now >= self.calm {
            if holder == Holder::Foreign {
                self.root =
                    Some(RootLease { stamp: new.0, version: new.1, holder: Holder::Nobody });
            }
            self.foreign = None;
            self.note("the other controller ends");
        } else if may_take {
            if foreign.renewed.is_none() {
                foreign.works_since = now;
                self.counted.elections += 1;
            }
            foreign.renewed = Some(now);
            foreign.seen = Some((new.0, now));
            self.root = Some(RootLease { stamp: new.0, version: new.1, holder: Holder::Foreign });
            if holder != Holder::Foreign {
                self.note("the other controller works");
            }
        }
    }

    fn run(&mut self, length: u64) {
        let pause = match self.kind {
            Kind::Planned => 15_000,
            Kind::Crashes | Kind::Outages | Kind::ShortFreezes => 30_000,
            Kind::NoApiServer => 120_000,
            Kind::Chaos => 0,
            Kind::Scale => length,
        };
        // The first table is written before anybody edits.
        let begin = if self.scale.is_some() { scale::BEGIN } else { 30_000 };
        self.calm = length - CALM;
        let (mut next, mut number) = (begin + 5_000, 0);
        while self.now < length {
            let now = self.now;
            let due: Vec<Start> = self.starts.extract_if(.., |start| start.at <= now).collect();
            for mut start in due {
                match start.prepared.take() {
                    Some((id, kept)) => self.start(id, &start.pool, kept),
                    None => self.prepare(start),
                }
            }
            while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
                let event = entry.remove();
                self.happens(event);
            }
            if now == self.calm {
                self.away = 0;
                for node in &mut self.nodes {
                    (node.frozen, node.requests_lost, node.answers_lost) = (
                        node.frozen.min(now),
                        node.requests_lost.min(now),
                        node.answers_lost.min(now),
                    );
                }
            }
            self.elect();
            if now >= next && now < self.calm {
                self.fail();
                let after = if pause > 0 { pause } else { self.random.between(500, 20_000) };
                next = now + after;
            }
            if now >= begin && self.random.one_in(10) {
                number += 1;
                let count = u64::try_from(self.slots.len()).unwrap();
                let app = usize::try_from(self.random.next() % count).unwrap();
                let named = self.slots[app].clone();
                self.edits.insert(number, Edit { named, since: now, sent: BTreeSet::new() });
            }
            for at in 0..self.nodes.len() {
                if self.nodes[at].acts(now) {
                    self.act(at);
                }
            }
            self.proceed();
            self.now += STEP;
        }
        self.ended();
    }

    /// After a time without failures everything is as it shall be.
    fn ended(&self) {
        let log = || self.log.join("\n");
        let oldest =
            self.edits.values().map(|edit| self.now - edit.since).max().unwrap_or_default();
        assert!(oldest < 2_000, "an edit waits since {oldest} ms:\n{}", log());
        let (table, _) = self.table.as_ref().unwrap();
        for slot in table.slots() {
            let holder = table.holder(&slot);
            let lives = |id: &MemberId| {
                self.nodes.iter().any(|node| node.is_alive && node.member.id() == id)
            };
            assert!(holder.is_some_and(lives), "{slot:?} is held by {holder:?}:\n{}", log());
            assert_eq!(holder, table.target(&slot), "{slot:?}:\n{}", log());
        }
        for node in self.nodes.iter().filter(|node| node.is_alive) {
            let share = share(table, node.member.id());
            assert_eq!(node.kept.buckets(), share, "{}:\n{}", node.member.id(), log());
            assert_eq!(node.filled, share, "{}:\n{}", node.member.id(), log());
        }
        let rest = self.now - self.last_put;
        assert!(rest > 10_000, "the table was written {rest} ms ago:\n{}", log());
    }
}

/// One of so many histories is tried, a short one.
fn sample() -> u64 {
    let sample = std::env::var("VELA_SAMPLE").ok().and_then(|number| number.parse().ok());
    sample.unwrap_or(1).max(1)
}

/// Runs histories of a kind, each from its seed; one of them alone with `VELA_HISTORY=SEED`.
fn histories(kind: Kind, [few, many]: [u64; 2]) -> Counted {
    let count = if std::env::var_os("VELA_LONG_TESTS").is_some() { many } else { few };
    let only = std::env::var("VELA_HISTORY").ok().and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    let length = if sample() > 1 { SHORT } else { LONG };
    let mut sum = Counted::default();
    for seed in seeds.filter(|seed| seed.is_multiple_of(sample()) || only.is_some()) {
        eprintln!("{kind:?}, seed {seed}");
        let mut world = World::new(seed, kind, 2_000, 5);
        world.run(length);
        sum.add(&world.counted);
    }
    eprintln!("{kind:?}: {sum:?}");
    sum
}

#[test]
fn planned_changes_are_short_gaps() {
    let sum = histories(Kind::Planned, [10, 200]);
    assert_eq!((sum.seizures, sum.unfilled), (0, 0));
    assert!(sum.fills > 0);
}

#[test]
fn a_crash_is_a_gap_of_seconds() {
    let sum = histories(Kind::Crashes, [10, 200]);
    assert!(sum.seizures > 0);
}

#[test]
fn a_fleet_of_which_nobody_is_left_comes_back() {
    let sum = histories(Kind::Outages, [5, 100]);
    assert!(sum.seizures > 0);
}

#[test]
fn who_stands_still_for_less_than_a_session_loses_nothing() {
    let sum = histories(Kind::ShortFreezes, [10, 200]);
    assert_eq!(sum.seizures, 0);
}

#[test]
fn without_an_api_server_nobody_is_judged() {
    let sum = histories(Kind::NoApiServer, [4, 100]);
    assert_eq!(sum.seizures, 0);
}

#[test]
fn whatever_fails_no_two_members_write_for_one_application() {
    histories(Kind::Chaos, [20, 1_000]);
}
