//! All interleavings of a few members, explored breadth-first with the functions that the controller calls: a member renews,
//! lists, writes the table, seizes others, writes objects; whatever is sent may be carried out late, its answer may be lost, and a
//! member may crash or stand still at any moment.
//!
//! What must never happen: two members that may write for one slot, or a write in flight for a slot that another may write for.
//! Each rule of the protocol is left out once, and that must be found.
//!
//! With a second pool one Application is explored, too: its label is changed by its user, its annotation by whoever owns it, and what
//! a member sees of it may be old. Never may two members write for it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that meets something unexpected fails there"
)]

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use vela_shard::{Member, MemberId, Observed, PoolName, Slot, Table, Timing};

/// The rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    RowsTakenWithoutSeizure,
    GivenWithoutDraining,
    ResumedAfterALostAnswer,
    WritesWithoutADeadline,
    PermittedFromTheAnswer,
    JudgedTooEarly,
    MovedWithoutDraining,
    ResumedAfterALostMove,
    TakenOverWithoutReading,
    RowsOfAPoolFromNothing,
    CountedWhereItBegan,
}

/// What is explored.
#[derive(Debug, Clone, Copy)]
struct Scope {
    members: usize,
    /// Who is in the table in the beginning, by index; the first of them holds everything.
    joined: usize,
    buckets: usize,
    flaw: Flaw,
    /// Time ends here.
    horizon: u64,
    /// What each member may do, so many times.
    renewals: u8,
    puts: u8,
    writes: u8,
    /// The first member is asked to leave at some moment.
    leaves: bool,
    /// Members may crash.
    crashes: bool,
    /// Answers may be lost.
    losses: bool,
    /// The clock of the first member runs at two thirds of the speed.
    slow_clock: bool,
    /// The last member is in a pool of its own, and there is an Application.
    pooled: bool,
    /// Its label in the beginning, and its annotation.
    label: &'static str,
    annotation: &'static str,
    /// How often its user changes the label.
    edits: u8,
    /// States after which the exploration ends, exhausted or not.
    states: usize,
}

const SCOPE: Scope = Scope {
    members: 2,
    joined: 2,
    buckets: 2,
    flaw: Flaw::None,
    horizon: 7,
    renewals: 2,
    puts: 2,
    writes: 1,
    leaves: false,
    crashes: true,
    losses: true,
    slow_clock: false,
    pooled: false,
    label: "",
    annotation: "",
    edits: 0,
    states: usize::MAX,
};

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Sent,
    Done,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lease {
    stamp: u64,
    seized: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Put {
    table: Arc<Table>,
    base: u64,
    before: Option<u64>,
    started: u64,
    stage: Stage,
}

/// The Application, as it is stored or as a member sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct App {
    version: u8,
    label: &'static str,
    annotation: &'static str,
}

/// A write of its annotation, over a version, and when the API server gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Move {
    to: &'static str,
    base: u8,
    end: u64,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    member: Member,
    alive: bool,
    /// The own Lease as it knows it.
    stamp: u64,
    renewal: Option<(u64, u64, Stage)>,
    put: Option<Put>,
    /// A write of the table whose answer nobody waits for any more.
    stray: Option<(u64, Arc<Table>)>,
    /// The member that is being seized, and the Lease that was read for it.
    seizure: Option<(usize, u64)>,
    /// A write of an object for a slot, which belonged to another one when it began perhaps, and when the API server gives it up.
    write: Option<(Slot, Slot, u64)>,
    /// The Application as it is in the cache, and the slot in which it was read since that was taken over.
    seen: App,
    read: Option<Slot>,
    /// The slots that it works on, and the pools that it knows, at the last moment.
    works: Vec<Slot>,
    pools: Vec<PoolName>,
    moving: Option<Move>,
    /// The outcome of a write of the annotation is not known: until when it may be carried out.
    doubt: Option<u64>,
    renewals: u8,
    puts: u8,
    writes: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    time: u64,
    table: Arc<Table>,
    leases: Vec<Lease>,
    nodes: Vec<Node>,
    app: App,
    edits: u8,
}

/// Takes what can happen, and what follows from it.
type Add<'a> = &'a mut dyn FnMut(String, &dyn Fn(&mut World));

/// The other pool.
const POOL: &str = "x";

/// The Application is in this bucket.
fn of_app(annotation: &str) -> Slot {
    Slot::Bucket(annotation.into(), 0)
}

fn id(index: usize) -> MemberId {
    ["a", "b", "c"][index].into()
}

impl World {
    fn new(scope: &Scope) -> Self {
        let judged = if scope.flaw == Flaw::JudgedTooEarly { 2 } else { 3 };
        let timing = Timing { permitted: 2, judged, period: 1 };
        let mut table = Table::new(scope.buckets);
        let pool = |index| if scope.pooled && index + 1 == scope.members { POOL } else { "" };
        (0..scope.joined).for_each(|index| table.join(&id(index), &pool(index).into(), 1));
        table.revision = 1;
        let app = App { version: 0, label: scope.label, annotation: scope.annotation };
        let node = |index| Node {
            member: Member::new((id(index), pool(index).into()), timing, scope.buckets, Some(2)),
            alive: true,
            stamp: 0,
            renewal: None,
            put: None,
            stray: None,
            seizure: None,
            write: None,
            seen: app,
            read: None,
            works: Vec::new(),
            pools: Vec::new(),
            moving: None,
            doubt: None,
            renewals: scope.renewals,
            puts: scope.puts,
            writes: scope.writes,
        };
        let mut world = Self {
            time: 0,
            table: Arc::new(table),
            leases: vec![Lease { stamp: 0, seized: false }; scope.members],
            nodes: (0..scope.members).map(node).collect(),
            app,
            edits: scope.edits,
        };
        // Whoever is in the table has been there for a while.
        for index in 0..scope.joined {
            let (observed, table) = (world.observed(), Arc::clone(&world.table));
            let member = &mut world.nodes[index].member;
            member.renewed(0, 0);
            member.observe(&observed, 0);
            // What is to be handed over is not stopped yet.
            member.read(table, Some(0), 0);
            world.align(scope, index);
            let node = &mut world.nodes[index];
            let slot = world.table.resolve(&of_app(app.annotation));
            node.read = node.works.contains(&slot).then_some(slot);
        }
        world
    }

    /// What was read counts as long as its slot is worked on.
    fn align(&mut self, scope: &Scope, index: usize) {
        if !scope.pooled {
            return;
        }
        let node = &mut self.nodes[index];
        let works: Vec<Slot> = node.member.working().collect();
        let pools: Vec<PoolName> = node
            .member
            .table()
            .map_or_else(Vec::new, |table| table.pools.keys().cloned().collect());
        if pools != node.pools || node.read.as_ref().is_some_and(|read| !works.contains(read)) {
            node.read = None;
        }
        (node.works, node.pools) = (works, pools);
    }

    /// Whether a member may write for the Application, as far as it knows.
    fn may_write(&self, scope: &Scope, index: usize) -> Option<u64> {
        let node = &self.nodes[index];
        let named = of_app(node.seen.annotation);
        let slot = node.member.table()?.resolve(&named);
        let is_read =
            node.read.as_ref() == Some(&slot) || scope.flaw == Flaw::TakenOverWithoutReading;
        let waits = node.moving.is_some() || node.doubt.is_some();
        if !node.alive || !is_read || waits || !node.works.contains(&slot) {
            return None;
        }
        node.member.permitted(&named, self.now(scope, index))
    }

    /// What happens around the Application.
    fn of_app(&self, scope: &Scope, index: usize, add: Add<'_>) {
        let node = &self.nodes[index];
        let who = id(index);
        if let Some(Move { stage: Stage::Sent, .. }) = node.moving {
            add(format!("{who}'s annotation arrives"), &|world| world.move_arrives(index));
        }
        if !node.alive {
            return;
        }
        if node.seen != self.app && node.moving.is_none() {
            add(format!("{who} sees the Application"), &|world| {
                world.nodes[index].seen = world.app;
            });
        }
        if node.read.is_none() && node.doubt.is_none() && node.moving.is_none() {
            let named = of_app(node.seen.annotation);
            if node.member.permitted(&named, self.now(scope, index)).is_some() {
                add(format!("{who} reads the Application"), &|world| world.read_app(index));
            }
        }
        if let Some(left) = self.may_write(scope, index) {
            let table = node.member.table();
            if node.write.is_none() && node.writes > 0 {
                add(format!("{who} writes for the Application"), &|world| {
                    let end = world.time + left;
                    let node = &mut world.nodes[index];
                    let named = of_app(node.seen.annotation);
                    let slot = node.member.table().unwrap().resolve(&named);
                    node.write = Some((named, slot, end));
                    node.writes -= 1;
                });
            }
            let to = table.and_then(|table| table.moves(node.seen.label, node.seen.annotation));
            let is_drained = node.write.is_none() || scope.flaw == Flaw::MovedWithoutDraining;
            if let Some(to) = to.filter(|_| is_drained) {
                let to = if to.is_empty() { "" } else { POOL };
                add(format!("{who} writes the annotation {to:?}"), &|world| {
                    let end = world.time + left;
                    let node = &mut world.nodes[index];
                    node.moving =
                        Some(Move { to, base: node.seen.version, end, stage: Stage::Sent });
                });
            }
        }
        let Some(sent) = node.moving.filter(|_| node.doubt.is_none()) else { return };
        if sent.stage != Stage::Sent {
            add(format!("{who}'s annotation is answered"), &|world| world.move_answered(index));
        }
        if scope.losses {
            add(format!("the answer to {who}'s annotation is lost"), &|world| {
                world.move_lost(scope, index);
            });
        }
    }

    fn read_app(&mut self, index: usize) {
        let app = self.app;
        let node = &mut self.nodes[index];
        node.seen = app;
        let slot = node.member.table().unwrap().resolve(&of_app(app.annotation));
        node.read = node.works.contains(&slot).then_some(slot);
    }

    fn move_arrives(&mut self, index: usize) {
        let Some(sent) = &mut self.nodes[index].moving else { return };
        if sent.stage != Stage::Sent {
            return;
        }
        if self.app.version == sent.base {
            self.app.annotation = sent.to;
            self.app.version += 1;
            sent.stage = Stage::Done;
        } else {
            sent.stage = Stage::Refused;
        }
    }

    fn move_answered(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(sent) = node.moving.take() else { return };
        if sent.stage == Stage::Done {
            node.read = None;
            node.seen = App { annotation: sent.to, version: sent.base + 1, ..node.seen };
        }
    }

    fn move_lost(&mut self, scope: &Scope, index: usize) {
        let node = &mut self.nodes[index];
        if scope.flaw == Flaw::ResumedAfterALostMove {
            let sent = node.moving.take();
            // It may still be carried out: by the time that the member goes on, in this world.
            if sent.is_some_and(|sent| sent.stage == Stage::Sent && sent.base == self.app.version) {
                self.app.annotation = sent.map_or("", |sent| sent.to);
                self.app.version += 1;
            }
            return;
        }
        node.read = None;
        // It stays in flight until it is over.
        node.doubt = node.moving.map(|sent| sent.end);
    }

    fn now(&self, scope: &Scope, index: usize) -> u64 {
        if scope.slow_clock && index == 0 { self.time * 2 / 3 } else { self.time }
    }

    fn observed(&self) -> Vec<Observed> {
        let one = |(index, lease): (usize, &Lease)| Observed {
            id: id(index),
            stamp: lease.stamp,
            seized: lease.seized,
            filled: None,
        };
        self.leases.iter().enumerate().map(one).collect()
    }

    /// All worlds that can follow.
    fn successors(&self, scope: &Scope) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        let mut add = |what: String, change: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            change(&mut next);
            all.push((what, next));
        };
        if self.time < scope.horizon {
            add("time passes".into(), &|world| world.tick(scope));
        }
        if self.edits > 0 {
            add("the label is changed".into(), &|world| {
                world.app.label = if world.app.label.is_empty() { POOL } else { "" };
                world.app.version += 1;
                world.edits -= 1;
            });
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let who = id(index);
            let now = self.now(scope, index);
            if scope.pooled {
                self.of_app(scope, index, &mut add);
            }
            // What is in flight goes on without its sender.
            if matches!(node.renewal, Some((_, _, Stage::Sent))) {
                add(format!("{who}'s renewal arrives"), &|world| world.renewal_arrives(index));
            }
            if node.put.as_ref().is_some_and(|put| put.stage == Stage::Sent) {
                add(format!("{who}'s table arrives"), &|world| world.put_arrives(index));
            }
            if node.stray.is_some() {
                add(format!("{who}'s stray table arrives"), &|world| {
                    let (base, table) = world.nodes[index].stray.take().unwrap();
                    if world.table.revision == base {
                        world.table = table;
                    }
                });
            }
            if node.write.is_some() {
                add(format!("{who}'s write is carried out"), &|world| {
                    world.nodes[index].write = None;
                });
            }
            if !node.alive {
                continue;
            }
            if scope.crashes {
                add(format!("{who} crashes"), &|world| world.nodes[index].alive = false);
            }
            match node.renewal {
                None if node.renewals > 0 && !node.member.is_over() => {
                    add(format!("{who} renews"), &|world| {
                        let node = &mut world.nodes[index];
                        node.renewal = Some((now, node.stamp, Stage::Sent));
                        node.renewals -= 1;
                    });
                }
                Some((started, _, stage)) if stage != Stage::Sent => {
                    add(format!("{who}'s renewal is answered"), &|world| {
                        world.renewal_answered(scope, index, started, stage);
                    });
                    if scope.losses {
                        add(format!("the answer to {who}'s renewal is lost"), &|world| {
                            world.nodes[index].renewal = None;
                        });
                    }
                }
                _ => {}
            }
            add(format!("{who} lists"), &|world| world.list(scope, index));
            for slot in node.member.draining() {
                let belongs = |(named, began, _): &(Slot, Slot, u64)| match scope.flaw {
                    Flaw::CountedWhereItBegan => began == slot,
                    _ => node.member.table().is_some_and(|table| table.resolve(named) == *slot),
                };
                // The annotation is written for the Application's slot, too.
                let moves =
                    node.moving
                        .is_some_and(|sent| sent.stage == Stage::Sent || node.doubt.is_none())
                        && node.member.table().is_some_and(|table| {
                            table.resolve(&of_app(node.seen.annotation)) == *slot
                        });
                let in_flight = moves || node.write.as_ref().is_some_and(belongs);
                if !in_flight || scope.flaw == Flaw::GivenWithoutDraining {
                    add(format!("{who} has drained {slot:?}"), &|world| {
                        world.nodes[index].member.drained(slot);
                    });
                }
            }
            if node.put.is_none() && node.puts > 0 && node.member.next_table(now).is_some() {
                add(format!("{who} writes the table"), &|world| world.begin_put(scope, index));
            }
            if let Some(put) = &node.put {
                if put.stage != Stage::Sent {
                    add(format!("{who}'s table is answered"), &|world| {
                        world.put_answered(scope, index);
                    });
                }
                if scope.losses && node.stray.is_none() {
                    add(format!("the answer to {who}'s table is lost"), &|world| {
                        let node = &mut world.nodes[index];
                        let put = node.put.take().unwrap();
                        if put.stage == Stage::Sent {
                            node.stray = Some((put.base, put.table));
                        }
                        if scope.flaw == Flaw::ResumedAfterALostAnswer {
                            node.member.refused(put.before);
                        }
                    });
                }
            }
            if node.seizure.is_none() {
                for (other, stamp) in node.member.suspects(now) {
                    let other = (0..scope.members).find(|index| id(*index) == *other).unwrap();
                    add(format!("{who} suspects {}", id(other)), &|world| {
                        world.suspect(scope, index, (other, stamp));
                    });
                }
            } else {
                add(format!("{who}'s seizure arrives and is answered"), &|world| {
                    let (other, stamp) = world.nodes[index].seizure.take().unwrap();
                    let lease = &mut world.leases[other];
                    if lease.stamp == stamp && !lease.seized {
                        lease.seized = true;
                        world.nodes[index].member.seized(&id(other));
                    }
                });
            }
            if node.write.is_none() && node.writes > 0 && !scope.pooled {
                for slot in self.table.slots() {
                    if let Some(left) = node.member.permitted(&slot, now) {
                        add(format!("{who} writes for {slot:?}"), &|world| {
                            let end = world.time + left;
                            let node = &mut world.nodes[index];
                            node.write = Some((slot.clone(), slot.clone(), end));
                            node.writes -= 1;
                        });
                    }
                }
            }
            if scope.leaves && index == 0 {
                add(format!("{who} is asked to leave"), &|world| {
                    let node = &mut world.nodes[index];
                    node.member.leave();
                    node.member.adjust(now);
                    world.align(scope, index);
                });
            }
        }
        all
    }

    fn tick(&mut self, scope: &Scope) {
        self.time += 1;
        let (time, ends) = (self.time, scope.flaw != Flaw::WritesWithoutADeadline);
        for node in &mut self.nodes {
            node.write = node.write.take().filter(|(_, _, end)| !ends || *end > time);
            if node.moving.is_some_and(|sent| sent.end <= time) {
                // Carried out or not, it is over; who does not know reads again.
                if node.doubt.is_some() {
                    (node.moving, node.doubt) = (None, None);
                } else if let Some(sent) = &mut node.moving
                    && sent.stage == Stage::Sent
                {
                    sent.stage = Stage::Refused;
                }
            }
        }
        for index in 0..self.nodes.len() {
            let now = self.now(scope, index);
            self.nodes[index].member.adjust(now);
            self.align(scope, index);
        }
    }

    fn renewal_arrives(&mut self, index: usize) {
        let Some((started, base, _)) = self.nodes[index].renewal else { return };
        let lease = &mut self.leases[index];
        let stage = if lease.stamp == base && !lease.seized {
            lease.stamp += 1;
            Stage::Done
        } else {
            Stage::Refused
        };
        self.nodes[index].renewal = Some((started, base, stage));
    }

    fn renewal_answered(&mut self, scope: &Scope, index: usize, started: u64, stage: Stage) {
        let now = self.now(scope, index);
        let lease = self.leases[index].clone();
        let node = &mut self.nodes[index];
        node.renewal = None;
        match stage {
            Stage::Done => {
                node.stamp += 1;
                let from = if scope.flaw == Flaw::PermittedFromTheAnswer { now } else { started };
                node.member.renewed(from, now);
                node.member.adjust(now);
            }
            // It reads its Lease: either it is seized, or an answer was lost before.
            _ if lease.seized => node.member.lost(),
            _ => node.stamp = lease.stamp,
        }
        self.align(scope, index);
    }

    fn list(&mut self, scope: &Scope, index: usize) {
        let (now, observed, table) =
            (self.now(scope, index), self.observed(), Arc::clone(&self.table));
        let member = &mut self.nodes[index].member;
        member.observe(&observed, now);
        member.read(table, Some(now), now);
        member.adjust(now);
        self.align(scope, index);
    }

    fn begin_put(&mut self, scope: &Scope, index: usize) {
        let now = self.now(scope, index);
        let node = &mut self.nodes[index];
        let mut table = node.member.next_table(now).unwrap();
        if scope.flaw == Flaw::RowsOfAPoolFromNothing
            && !self.table.pools.contains_key(POOL)
            && let Some(rows) = table.pools.get_mut(POOL)
        {
            rows.holds.clone_from(&rows.wanted);
        }
        let base = node.member.table().unwrap().revision;
        let before = node.member.writing();
        node.put =
            Some(Put { table: Arc::new(table), base, before, started: now, stage: Stage::Sent });
        node.puts -= 1;
    }

    fn put_arrives(&mut self, index: usize) {
        let Some(put) = &mut self.nodes[index].put else { return };
        if self.table.revision == put.base {
            self.table = Arc::clone(&put.table);
            put.stage = Stage::Done;
        } else {
            put.stage = Stage::Refused;
        }
    }

    fn put_answered(&mut self, scope: &Scope, index: usize) {
        let now = self.now(scope, index);
        let node = &mut self.nodes[index];
        let put = node.put.take().unwrap();
        match put.stage {
            Stage::Done => node.member.wrote(put.table, put.started, now),
            _ => node.member.refused(put.before),
        }
        node.member.adjust(now);
        self.align(scope, index);
    }

    fn suspect(&mut self, scope: &Scope, index: usize, (other, stamp): (usize, u64)) {
        // The Lease is read again: only an unchanged one is seized.
        let lease = self.leases[other].clone();
        let node = &mut self.nodes[index];
        if scope.flaw == Flaw::RowsTakenWithoutSeizure {
            node.member.seized(&id(other));
        } else if !lease.seized && stamp == lease.stamp {
            node.seizure = Some((other, lease.stamp));
        }
    }

    fn violation(&self, scope: &Scope) -> Option<String> {
        if scope.pooled {
            let permitted: Vec<usize> = (0..scope.members)
                .filter(|index| self.may_write(scope, *index).is_some())
                .collect();
            return self.conflict(&permitted, "the Application", |_| true);
        }
        self.table.slots().find_map(|slot| {
            let may = |index: &usize| {
                let node = &self.nodes[*index];
                node.alive && node.member.permitted(&slot, self.now(scope, *index)).is_some()
            };
            let permitted: Vec<usize> = (0..scope.members).filter(may).collect();
            self.conflict(&permitted, &format!("{slot:?}"), |of| *of == slot)
        })
    }

    /// Two may write for something, or one may while a write of another is in flight.
    fn conflict(
        &self,
        permitted: &[usize],
        what: &str,
        of: impl Fn(&Slot) -> bool,
    ) -> Option<String> {
        if permitted.len() > 1 {
            return Some(format!("{permitted:?} may all write for {what}"));
        }
        let pending = |(index, node): (usize, &Node)| {
            let pending = node.write.as_ref().is_some_and(|(named, _, _)| of(named));
            (pending && permitted.iter().any(|other| *other != index)).then_some(index)
        };
        let sender = self.nodes.iter().enumerate().find_map(pending)?;
        Some(format!("a write of {sender} for {what} is in flight, {permitted:?} may write"))
    }

    /// Nothing fails from here on: in the end the living hold everything, and nothing moves any more.
    fn converges(&self, scope: &Scope) -> Result<(), String> {
        let mut world = self.clone();
        let mut last = None;
        for _ in 0..24 {
            world.tick(scope);
            for index in 0..scope.members {
                world.renewal_arrives(index);
                world.put_arrives(index);
                world.move_arrives(index);
                if let Some((base, table)) = world.nodes[index].stray.take()
                    && world.table.revision == base
                {
                    world.table = table;
                }
            }
            for index in (0..scope.members).filter(|index| self.nodes[*index].alive) {
                world.healthy_round(scope, index);
            }
            last = Some(Arc::clone(&world.table));
        }
        let living =
            |index: &usize| world.nodes[*index].alive && !world.nodes[*index].member.is_over();
        if !(0..scope.members).any(|index| living(&index)) {
            return Ok(());
        }
        for slot in world.table.slots() {
            let may = (0..scope.members).filter(living).filter(|index| {
                world.nodes[*index].member.permitted(&slot, world.now(scope, *index)).is_some()
            });
            if may.count() != 1 {
                return Err(format!("nobody works on {slot:?}: {:?}", world.table));
            }
        }
        let rests =
            |table: &Table| table.slots().all(|slot| table.holder(&slot) == table.target(&slot));
        if !last.is_some_and(|last| rests(&last)) {
            return Err(format!("it does not come to rest: {:?}", world.table));
        }
        if scope.pooled {
            let may = (0..scope.members).filter(|index| world.may_write(scope, *index).is_some());
            let moves = world.table.moves(world.app.label, world.app.annotation);
            if may.count() != 1 || moves.is_some() {
                return Err(format!("the Application is lost: {:?} {:?}", world.app, world.table));
            }
        }
        Ok(())
    }

    fn healthy_round(&mut self, scope: &Scope, index: usize) {
        if let Some((started, _, stage)) = self.nodes[index].renewal {
            self.renewal_answered(scope, index, started, stage);
        }
        if self.nodes[index].put.is_some() {
            self.put_answered(scope, index);
        }
        if self.nodes[index].member.is_over() {
            return;
        }
        let now = self.now(scope, index);
        let stamp = self.nodes[index].stamp;
        self.nodes[index].renewal = Some((now, stamp, Stage::Sent));
        self.renewal_arrives(index);
        if let Some((started, _, stage)) = self.nodes[index].renewal {
            self.renewal_answered(scope, index, started, stage);
        }
        self.list(scope, index);
        if let Some((other, stamp)) = self.nodes[index].seizure.take()
            && self.leases[other] == (Lease { stamp, seized: false })
        {
            self.leases[other].seized = true;
        }
        let suspects = self.nodes[index].member.suspects(now);
        let suspects: Vec<(MemberId, u64)> =
            suspects.map(|(id, stamp)| (Arc::clone(id), stamp)).collect();
        for (suspect, stamp) in suspects {
            let other = (0..scope.members).find(|index| id(*index) == suspect).unwrap();
            self.suspect(scope, index, (other, stamp));
            if let Some((other, _)) = self.nodes[index].seizure.take() {
                self.leases[other].seized = true;
                self.nodes[index].member.seized(&suspect);
            }
        }
        self.nodes[index].write = None;
        self.move_answered(index);
        self.nodes[index].doubt = None;
        let draining: Vec<Slot> = self.nodes[index].member.draining().cloned().collect();
        draining.iter().for_each(|slot| self.nodes[index].member.drained(slot));
        if scope.pooled {
            self.healthy_app(scope, index);
        }
        if self.nodes[index].member.next_table(now).is_some() {
            self.nodes[index].puts = 1;
            self.begin_put(scope, index);
            self.put_arrives(index);
            self.put_answered(scope, index);
        }
    }
}

impl World {
    fn healthy_app(&mut self, scope: &Scope, index: usize) {
        self.nodes[index].seen = self.app;
        let named = of_app(self.app.annotation);
        let node = &self.nodes[index];
        let is_ours = node.member.permitted(&named, self.now(scope, index)).is_some();
        if is_ours && node.read.is_none() {
            self.read_app(index);
        }
        let node = &self.nodes[index];
        let to = node
            .member
            .table()
            .and_then(|table| table.moves(node.seen.label, node.seen.annotation));
        if let (Some(to), Some(left)) = (to, self.may_write(scope, index)) {
            let to = if to.is_empty() { "" } else { POOL };
            let (base, end) = (node.seen.version, self.time + left);
            self.nodes[index].moving = Some(Move { to, base, end, stage: Stage::Sent });
            self.move_arrives(index);
            self.move_answered(index);
        }
    }
}

/// What an exploration found.
struct Explored {
    states: usize,
    exhausted: bool,
    violation: Option<(String, Vec<String>)>,
}

fn explore(scope: &Scope) -> Explored {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known: HashSet<u64, BuildHasherDefault<DefaultHasher>> = HashSet::default();
    // How each state was reached: the index of the state before, and the action.
    let mut steps: Vec<(usize, String)> = vec![(0, String::new())];
    let keep_steps = scope.flaw != Flaw::None;
    let first = World::new(scope);
    known.insert(hasher.hash_one(&first));
    let mut todo = VecDeque::from([(0_usize, first)]);
    while let Some((at, world)) = todo.pop_front() {
        if known.len().is_multiple_of(4_096) && scope.flaw == Flaw::None {
            world
                .converges(scope)
                .unwrap_or_else(|why| panic!("{scope:?}: {why}\nfrom {world:#?}"));
        }
        for (what, next) in world.successors(scope) {
            if !known.insert(hasher.hash_one(&next)) {
                continue;
            }
            let mut number = 0;
            if keep_steps {
                steps.push((at, what.clone()));
                number = steps.len() - 1;
            }
            if let Some(why) = next.violation(scope) {
                let (mut path, mut at) = (vec![what], at);
                while at > 0 {
                    path.push(steps[at].1.clone());
                    at = steps[at].0;
                }
                path.reverse();
                return Explored {
                    states: known.len(),
                    exhausted: false,
                    violation: Some((why, path)),
                };
            }
            if known.len() >= scope.states {
                return Explored { states: known.len(), exhausted: false, violation: None };
            }
            todo.push_back((number, next));
        }
    }
    Explored { states: known.len(), exhausted: true, violation: None }
}

/// One of so many states and flaws is tried.
fn sample() -> usize {
    let sample = std::env::var("VELA_SAMPLE").ok().and_then(|number| number.parse().ok());
    sample.unwrap_or(1).max(1)
}

/// States of a scope: more with `VELA_LONG_TESTS`.
fn budget() -> usize {
    let all = if std::env::var_os("VELA_LONG_TESTS").is_some() { 10_000_000 } else { 250_000 };
    all / sample()
}

fn holds(name: &str, scope: &Scope) -> usize {
    let scope = Scope { states: budget(), ..*scope };
    let found = explore(&scope);
    if let Some((why, path)) = found.violation {
        panic!("{name}: {why}\n{}", path.join("\n"));
    }
    eprintln!("{name}: {} states, exhausted: {}", found.states, found.exhausted);
    found.states
}

#[test]
fn no_two_members_may_write_for_one_slot() {
    let explored = [
        holds("two members, a move and crashes", &SCOPE),
        holds("one of two leaves", &Scope { leaves: true, puts: 3, ..SCOPE }),
        holds("a slow clock", &Scope { slow_clock: true, horizon: 8, ..SCOPE }),
        holds("one joins", &Scope { joined: 1, ..SCOPE }),
        holds("three members", &Scope { members: 3, joined: 3, puts: 1, ..SCOPE }),
    ];
    let states: usize = explored.iter().sum();
    eprintln!("{states} states in all");
    assert!(states >= 4 * budget(), "{states}");
}

/// One member of each pool.
const POOLED: Scope = Scope {
    pooled: true,
    joined: 1,
    buckets: 1,
    label: POOL,
    crashes: false,
    renewals: 1,
    horizon: 6,
    ..SCOPE
};

#[test]
fn no_two_members_may_write_for_an_application_that_moves() {
    let label_changes = Scope { joined: 2, edits: 1, puts: 1, ..POOLED };
    let explored = [
        holds("a pool comes", &POOLED),
        holds("a pool returns", &Scope { annotation: POOL, edits: 1, ..POOLED }),
        holds("the label changes", &label_changes),
        holds(
            "a pool dies",
            &Scope {
                joined: 2,
                annotation: POOL,
                crashes: true,
                renewals: 2,
                horizon: 9,
                ..POOLED
            },
        ),
    ];
    let states: usize = explored.iter().sum();
    eprintln!("{states} states in all");
    assert!(states >= 2 * budget(), "{states}");
}

#[test]
fn every_rule_is_needed() {
    // What a violation does not need is left out: it is found sooner.
    let quiet = Scope { crashes: false, losses: false, writes: 0, ..SCOPE };
    let one = Scope { buckets: 1, renewals: 1, puts: 1, horizon: 4, ..quiet };
    let pooled = Scope { losses: false, puts: 1, horizon: 1, ..POOLED };
    let flaws = [
        (Flaw::RowsTakenWithoutSeizure, one),
        (Flaw::GivenWithoutDraining, Scope { writes: 1, ..quiet }),
        (Flaw::ResumedAfterALostAnswer, Scope { losses: true, renewals: 1, horizon: 5, ..quiet }),
        (Flaw::WritesWithoutADeadline, Scope { writes: 1, ..one }),
        (Flaw::PermittedFromTheAnswer, one),
        (Flaw::JudgedTooEarly, Scope { slow_clock: true, ..one }),
        (Flaw::MovedWithoutDraining, Scope { joined: 2, ..pooled }),
        (Flaw::ResumedAfterALostMove, Scope { joined: 2, losses: true, writes: 0, ..pooled }),
        // The bucket of the default pool goes from the first member to the second, which has not seen the annotation.
        (
            Flaw::TakenOverWithoutReading,
            Scope {
                members: 3,
                joined: 3,
                leaves: true,
                puts: 2,
                renewals: 0,
                writes: 0,
                ..pooled
            },
        ),
        (Flaw::RowsOfAPoolFromNothing, Scope { annotation: POOL, writes: 0, ..pooled }),
        (Flaw::CountedWhereItBegan, Scope { annotation: POOL, ..pooled }),
    ];
    for (flaw, scope) in flaws.into_iter().step_by(sample()) {
        let found = explore(&Scope { flaw, states: 4_000_000, ..scope });
        let Some((why, path)) = found.violation else {
            panic!("{flaw:?} is not found in {} states", found.states);
        };
        eprintln!("{flaw:?}: {why}, after {} steps and {} states", path.len(), found.states);
    }
}
