//! A member alone: its permits, its attempts, its slots.

use crate::cached::Outlines;
use vela_api::names::{annotation, label};
use vela_cluster::lease::permit::Permits as _;
use vela_shard::{Holder, Observed, Table};

use super::handover::Arrival;
use super::state::{GRACE, MAX_SHARDS};
use super::*;
use crate::metrics::TakeReason;

/// A member that holds everything, since now.
fn alone() -> Arc<Fleet> {
    let pace = Pace {
        lease_duration: Duration::from_secs(8),
        renew_deadline: Duration::from_secs(5),
        retry_period: Duration::from_millis(1_500),
        root_permitted: Duration::from_secs(10),
    };
    let registry = Registry::new("test", "0").unwrap();
    let pools = Pools { fallback: Some(Duration::from_secs(30)), are_on: true, ..Pools::default() };
    let apps = Arc::default();
    let fleet = Arc::new(Fleet::new("a_1", (pace, pools), apps, &registry).unwrap());
    let now = clock::now();
    let mut state = fleet.state.lock();
    state.member.renewed(now, now);
    state.member.observe(&[], now);
    state.member.read_nothing(now);
    let table = state.member.next_table(now).unwrap();
    let _ = state.member.writing();
    state.member.wrote(Arc::new(table), now, now);
    drop(state);
    fleet
}

/// The same, and it works.
fn working() -> Arc<Fleet> {
    let fleet = alone();
    let now = clock::now();
    let mut state = fleet.state.lock();
    state.root.wrote(now, now, (1, 12_000));
    let _ = state.align(now, false);
    fleet.working.store(Arc::new(state.working(now)));
    drop(state);
    fleet
}

/// A member that renewed its Lease just now, sees a table, and whose fleet holds every Lease that it elects on.
pub(crate) fn refresh(fleet: &Fleet, table: &Arc<Table>) {
    let now = clock::now();
    let mut state = fleet.state.lock();
    state.member.renewed(now, now);
    state.member.read(Arc::clone(table), Some(now), now);
    state.root.wrote(now, now, (1, 60_000));
    for pool in table.pools.keys() {
        let _ = state.elect(pool);
    }
    state.shards.values_mut().for_each(|root| root.wrote(now, now, (1, 60_000)));
    let _ = state.align(now, false);
    fleet.working.store(Arc::new(state.working(now)));
}

fn slot(pool: &str, bucket: u8) -> Slot {
    Slot::Bucket(pool.into(), bucket)
}

fn scope(pool: &str, bucket: u8, shard: &str) -> Scope {
    Scope::Application(Arc::new(Assignment { bucket, pool: pool.into(), shard: shard.into() }))
}

/// An Application of the cache.
fn put(fleet: &Fleet, name: &str, metadata: &serde_json::Value, version: &str) {
    let mut app = serde_json::json!({"metadata": metadata, "spec": {"components": []}});
    app["metadata"]["namespace"] = "n".into();
    app["metadata"]["name"] = name.into();
    app["metadata"]["resourceVersion"] = version.into();
    let app = serde_json::from_value(app).unwrap();
    fleet.apps.put(Outlines::default().cached(&app, false)).unwrap();
}

fn join(fleet: &Fleet, id: &str, pool: &str, is_given: bool) {
    let mut state = fleet.state.lock();
    let now = clock::now();
    let mut table = Table::clone(state.member.table().unwrap());
    table.join(&id.into(), &pool.into(), 1);
    if is_given {
        let slots: Vec<Slot> = table.slots().collect();
        slots.iter().for_each(|slot| table.give(slot));
    }
    table.revision += 1;
    state.member.read(Arc::new(table), Some(now), now);
    let observed = Observed { id: id.into(), stamp: 1, seized: false, filled: None };
    state.member.observe(&[observed], now);
    state.member.adjust(now);
}

#[test]
fn a_write_needs_the_root_the_session_and_the_bucket() {
    let fleet = alone();
    let permit = Permit(Arc::clone(&fleet));
    let second = Duration::from_secs(1);
    assert!(permit.limit().is_none(), "nobody knows whether the fleet is here");
    assert!(permit.begin(scope("", 7, ""), second).is_none());
    let fleet = working();
    let permit = Permit(Arc::clone(&fleet));
    let now = clock::now();
    assert!(permit.limit().is_some_and(|left| left <= Duration::from_secs(5)));
    for scope in [scope("", 7, ""), scope("unknown", 7, "master"), Scope::Lead, Scope::Process] {
        assert!(permit.begin(scope.clone(), second).is_some(), "{scope:?}");
        assert!(permit.begin(scope, Duration::from_secs(6)).is_none(), "longer than the session");
    }
    let assignment = Assignment { bucket: 7, pool: "".into(), shard: "".into() };
    assert!(permit.begin(Scope::Unread(Arc::new(assignment)), second).is_none());
    assert_eq!(fleet.state.lock().slots[&slot("", 7)].unread, 1, "it wanted to");
    // It is to be handed over: what is in flight may end, and then nothing is sent any more.
    let stop = |since| {
        fleet.state.lock().slots.get_mut(&slot("", 7)).unwrap().stopped = Some(since);
    };
    stop(now);
    assert!(permit.begin(scope("", 7, ""), second).is_some());
    stop(now.saturating_sub(GRACE));
    assert!(permit.begin(scope("", 7, ""), second).is_none());
    assert!(permit.begin(scope("", 8, ""), second).is_some());
    fleet.state.lock().member.lost();
    assert!(permit.limit().is_none());
}

#[test]
fn a_write_without_an_answer_counts_until_its_deadline() {
    let fleet = working();
    let now = clock::now();
    let permit = Permit(Arc::clone(&fleet));
    let sent = permit.begin(scope("", 7, ""), Duration::from_secs(3)).unwrap();
    assert_eq!(fleet.state.lock().flights[&slot("", 7)].writes, 1);
    drop(sent);
    let state = fleet.state.lock();
    assert_eq!(state.flights[&slot("", 7)].writes, 0);
    assert!(state.flights[&slot("", 7)].until >= now + 4_250);
}

#[tokio::test]
async fn an_attempt_ends_with_its_bucket() {
    let fleet = working();
    let key = Key::new("n", "a");
    let bucket = slot("", bucket_of("n", "a"));
    put(&fleet, "a", &serde_json::json!({}), "1");
    assert!(fleet.is_ours(&key));
    assert_eq!(fleet.work(&key, true, async { 1 }).await, Some(1));
    let never = fleet.work(&key, true, std::future::pending::<()>());
    let ends = async { fleet.state.lock().flights[&bucket].end.cancel() };
    assert_eq!(tokio::join!(never, ends).0, None);
    assert_eq!(fleet.state.lock().flights[&bucket].attempts, 0);
    assert_eq!(fleet.work(&key, true, async { 1 }).await, Some(1), "another term");
    fleet.state.lock().slots.get_mut(&bucket).unwrap().works = false;
    assert_eq!(fleet.work(&key, true, async { 1 }).await, None, "it holds it no more");
}

#[test]
fn slots_follow_the_table_and_go_once_nothing_of_them_is_in_flight() {
    let fleet = alone();
    let now = clock::now();
    let mut state = fleet.state.lock();
    assert!(state.align(now, false).taken.is_empty(), "nobody knows whether the fleet is here");
    state.root.wrote(now, now, (1, 12_000));
    assert_eq!(state.root.holder(), Some(Holder::Member));
    let changes = state.align(now, false);
    assert_eq!(changes.taken.len(), BUCKETS + 1);
    assert!(state.standing(now).leads);
    assert!(state.align(now, false).taken.is_empty(), "once");
    // One is in use when the Lease is lost.
    state.flights.entry(slot("", 7)).or_default().attempts = 1;
    let changes = state.align(now, true);
    assert_eq!(changes.stopped.len(), BUCKETS + 1);
    assert_eq!((changes.gone.len(), changes.gone.contains(&slot("", 7))), (BUCKETS, false));
    assert!(state.flights[&slot("", 7)].end.is_cancelled(), "its attempt ends");
    state.flights.get_mut(&slot("", 7)).unwrap().attempts = 0;
    assert!(state.align(now, true).gone.iter().eq([&slot("", 7)]));
    assert!(state.flights.is_empty() && state.slots.is_empty());
}

/// What was in flight when a pool came counts for its slot, although it began in another one.
#[test]
fn what_is_in_flight_belongs_to_the_pool_that_comes() {
    let fleet = working();
    fleet.state.lock().flights.entry(slot("p", 7)).or_default().attempts = 1;
    fleet.state.lock().slots.get_mut(&slot("", 7)).unwrap().read.insert(Key::new("n", "a"));
    join(&fleet, "x_1", "p", false);
    let now = clock::now();
    let mut state = fleet.state.lock();
    let changes = state.align(now, false);
    assert!(changes.has_other_pools);
    assert!(state.slots[&slot("", 7)].read.is_empty(), "another member may work on it");
    state.member.adjust(now);
    let _ = state.align(now, false);
    let waits: Vec<Slot> = state.member.draining().cloned().collect();
    assert_eq!(waits, [slot("p", 7)]);
    state.flights.get_mut(&slot("p", 7)).unwrap().attempts = 0;
    let _ = state.align(now, false);
    assert_eq!(state.member.draining().count(), 0);
}

#[test]
fn an_application_is_its_pools_and_its_label_only_asks() {
    let fleet = working();
    let (label, annotation) = (label::SCHEDULED_SHARD_ID, annotation::SHARD);
    put(&fleet, "plain", &serde_json::json!({}), "1");
    put(&fleet, "asks", &serde_json::json!({"labels": {label: "p"}}), "1");
    put(&fleet, "there", &serde_json::json!({"annotations": {annotation: "p"}}), "1");
    let app = |name: &str| Arc::clone(&fleet.apps.get(&Key::new("n", name)).unwrap().outline);
    assert_eq!(fleet.next_pool(&app("asks")), None, "no such pool");
    let align = || {
        let mut state = fleet.state.lock();
        let now = clock::now();
        let _ = state.align(now, false);
        fleet.working.store(Arc::new(state.working(now)));
    };
    join(&fleet, "x_1", "p", true);
    align();
    assert!(fleet.is_ours(&Key::new("n", "plain")));
    assert!(!fleet.is_ours(&Key::new("n", "there")), "it is the other member's");
    assert_eq!(fleet.next_pool(&app("asks")).as_deref(), Some("p"));
    assert_eq!(fleet.next_pool(&app("there")).as_deref(), Some(""));
    assert_eq!(fleet.next_pool(&app("plain")), None);
    // Before the fleet holds the Lease of the shard a controller of Go's may work on it.
    assert!(!fleet.is_ours(&Key::new("n", "asks")));
    let now = clock::now();
    let permit = Permit(Arc::clone(&fleet));
    let (shard, second) = (scope("", 7, "p"), Duration::from_secs(1));
    assert!(permit.begin(shard.clone(), second).is_none());
    fleet.state.lock().shards.get_mut("p").unwrap().wrote(now, now, (1, 12_000));
    align();
    assert!(fleet.is_ours(&Key::new("n", "asks")));
    assert!(permit.begin(shard.clone(), second).is_some());
    fleet.state.lock().shards.get_mut("p").unwrap().listed(now, now, (2, Holder::Foreign, 15_000));
    align();
    assert!(!fleet.is_ours(&Key::new("n", "asks")));
    assert!(permit.begin(shard, second).is_none());
}

/// Anybody may write labels: they are no way to make a fleet elect on thousands of Leases, nor to keep it from one that matters.
#[test]
fn labels_name_a_limited_number_of_shards() {
    let fleet = working();
    for number in 0..100 {
        let labels = serde_json::json!({label::SCHEDULED_SHARD_ID: format!("s-{number}")});
        put(&fleet, &format!("a-{number}"), &serde_json::json!({"labels": labels}), "1");
        let _ = fleet.is_ours(&Key::new("n", format!("a-{number}")));
    }
    let now = clock::now();
    let mut state = fleet.state.lock();
    assert_eq!(state.shards.len(), MAX_SHARDS);
    assert_eq!(state.shard("s-99", now), Some(Millis::MAX), "as if it was unknown");
    state.listed.insert("s-99".into());
    assert_eq!(state.shard("s-99", now), None, "a controller has elected on its Lease");
    assert!(state.elect("s-99"));
    fleet.working.store(Arc::new(state.working(now)));
    drop(state);
    assert!(fleet.is_ours(&Key::new("n", "a-98")) && !fleet.is_ours(&Key::new("n", "a-99")));
}

/// A table in which the members share, and everything is where it shall be.
fn shared(table: &Table, change: impl FnOnce(&mut Table)) -> Arc<Table> {
    let mut next = table.clone();
    change(&mut next);
    let slots: Vec<Slot> = next.slots().collect();
    slots.iter().for_each(|slot| next.give(slot));
    next.revision += 1;
    Arc::new(next)
}

/// A bucket comes from one that lives, from one that leaves, from one that died, or from nobody.
#[test]
fn where_a_bucket_comes_from_says_how_long_it_took() {
    let fleet = working();
    let observe = |state: &mut State, seized| {
        let observed = Observed { id: "b_1".into(), stamp: 7, seized, filled: None };
        state.member.observe(&[observed], if seized { 200 } else { 100 });
    };
    let mut state = fleet.state.lock();
    assert!(state.arrivals.is_empty(), "nobody held anything before");
    let own = Table::clone(state.member.table().unwrap());
    let both = shared(&own, |table| table.join(&"b_1".into(), &"".into(), 1));
    observe(&mut state, false);
    state.read(Arc::clone(&both), None, 300);
    assert!(state.arrivals.is_empty(), "half of them went");
    let came = |state: &mut State| {
        let arrivals = std::mem::take(&mut state.arrivals);
        let mut kinds: Vec<_> = arrivals.values().map(|it| (it.reason, it.since)).collect();
        kinds.dedup();
        (arrivals.len(), kinds)
    };
    // It lives and gives; the duties of the leader are not timed.
    let back = shared(&both, |table| table.retire("b_1"));
    state.read(Arc::clone(&back), None, 400);
    assert_eq!(came(&mut state), (BUCKETS / 2, vec![(TakeReason::Planned, 400)]));
    state.read(Arc::clone(&both), None, 450);
    assert!(state.arrivals.is_empty(), "that table is behind");
    // It leaves, and the table in which it gave is not seen.
    for (leaves, seen) in [(true, (TakeReason::Planned, 600)), (false, (TakeReason::Crash, 100))] {
        let mut next = Table::clone(&both);
        next.revision = state.member.table().unwrap().revision + 1;
        if leaves {
            next.retire("b_1");
        }
        state.read(Arc::new(next.clone()), None, 500);
        state.arrivals.clear();
        // Also where its Lease was taken by another member, which is no sign of life.
        observe(&mut state, !leaves);
        next.remove("b_1");
        next.revision += 1;
        state.read(Arc::new(next), None, 600);
        assert_eq!(came(&mut state), (BUCKETS / 2, vec![seen]), "{leaves}");
    }
}

/// The first reconcile of a bucket that came is timed, once; a bucket without Applications is not.
#[tokio::test]
async fn the_halves_of_a_hand_over_are_timed() {
    let fleet = working();
    put(&fleet, "a", &serde_json::json!({}), "1");
    let (key, bucket) = (Key::new("n", "a"), bucket_of("n", "a"));
    let (now, empty) = (clock::now(), bucket.wrapping_add(1));
    {
        let mut state = fleet.state.lock();
        let since = now.saturating_sub(3_000);
        for bucket in [bucket, empty] {
            let slot = state.slots.get_mut(&slot("", bucket)).unwrap();
            slot.arrival = Some(Arrival { reason: TakeReason::Crash, since });
        }
        let (taken, with_apps) = ([slot("", bucket), slot("", empty)], [slot("", bucket)]);
        state.forget_arrivals(&taken.into(), &with_apps.into());
        assert_eq!(state.slots[&slot("", empty)].arrival, None);
    }
    for _ in 0..2 {
        assert_eq!(fleet.work(&key, true, async { 1 }).await, Some(1));
    }
    assert_eq!(fleet.metrics.takes(TakeReason::Crash).0, 1);
    assert!(fleet.metrics.takes(TakeReason::Crash).1 >= 3.0);
    assert_eq!(fleet.metrics.takes(TakeReason::Planned).0, 0);
    // What is given waited since it was stopped; what is lost did not wait.
    let mut state = fleet.state.lock();
    let given = slot("", bucket);
    let own = Table::clone(state.member.table().unwrap());
    state.slots.get_mut(&given).unwrap().works = false;
    state.slots.get_mut(&given).unwrap().stopped = Some(now.saturating_sub(400));
    let next = shared(&own, |table| table.join(&"b_1".into(), &"".into(), 1));
    let mut next = Table::clone(&next);
    if let Some(holder) = next.pools.get_mut("").unwrap().holds.get_mut(usize::from(bucket)) {
        *holder = next.members.iter().position(|it| &*it.id == "b_1").map(|at| at as u8);
    }
    state.read(Arc::new(next), Some(now), now);
    let changes = state.align(now, false);
    assert_eq!(changes.drained, [400]);
    assert!(changes.gone.len() > BUCKETS / 3, "the others are lost: they were not stopped");
}

/// A roll-out stops the next member when this one is ready. Where lists take long the others list first what they keep from then on.
#[test]
fn a_member_is_ready_when_what_all_keep_is_filled_unless_lists_are_quick() {
    let timing = Timing { permitted: 5_000, judged: 8_000, period: 1_500 };
    let root = RootTiming { permitted: 10_000, renewed: 1_500, replaced: 3_000 };
    for (started, quick) in [(1_000, true), (60_000, false)] {
        let fleet = alone();
        let mut table = Table::clone(fleet.state.lock().member.table().unwrap());
        let member = Member::new(("b_1".into(), "".into()), timing, BUCKETS, None);
        let now = clock::now();
        let mut at = State::new(member, root, now);
        let start = now + started;
        let known = |_: &MemberId, _| true;
        assert!(!at.is_ready(known, start), "it knows no table");
        table.join(&"b_1".into(), &"".into(), 1);
        table.revision += 1;
        at.member.read(Arc::new(table.clone()), Some(start), start);
        at.ready = table.epoch;
        assert_eq!(at.is_ready(known, start), quick, "half of the buckets are on their way");
        let settled = shared(&table, |_| {});
        at.member.read(Arc::clone(&settled), Some(start + 1), start + 1);
        assert_eq!(at.is_ready(|id, epoch| &**id != "a_1" || epoch < settled.epoch, start), quick);
        at.ready = 0;
        assert_eq!(at.is_ready(known, start), quick, "its own are not");
        at.ready = settled.epoch;
        assert!(at.is_ready(|_, epoch| epoch == settled.epoch, start));
        assert!(at.is_ready(|_, _| false, start + 300_000), "nobody waits for ever");
    }
}
