//! A member alone: its permits, its attempts, its slots.

use vela_cluster::lease::permit::Permits as _;
use vela_shard::Holder;

use super::state::GRACE;
use super::*;

/// A member that holds everything, since now.
fn alone() -> Arc<Fleet> {
    let pace = Pace {
        lease_duration: Duration::from_secs(8),
        renew_deadline: Duration::from_secs(5),
        retry_period: Duration::from_millis(1_500),
        root_permitted: Duration::from_secs(10),
    };
    let registry = Registry::new("test", "0").unwrap();
    let fleet = Arc::new(Fleet::new("a_1", pace, &registry).unwrap());
    let now = clock::now();
    let mut state = fleet.state.lock();
    state.member.renewed(now, now);
    state.member.observe(&[], now);
    state.member.read_nothing(now);
    let table = state.member.next_table(now).unwrap();
    let _ = state.member.writing();
    state.member.wrote(Arc::new(table), now);
    state.slots.iter_mut().for_each(|slot| slot.works = true);
    drop(state);
    fleet
}

#[test]
fn a_write_needs_the_root_the_session_and_the_bucket() {
    let fleet = alone();
    let permit = Permit(Arc::clone(&fleet));
    let second = Duration::from_secs(1);
    assert!(permit.limit().is_none(), "nobody knows whether the fleet is here");
    assert!(permit.begin(Scope::Bucket(7), second).is_none());
    let now = clock::now();
    fleet.state.lock().root.wrote(now, now, (1, 12_000));
    assert!(permit.limit().is_some_and(|left| left <= Duration::from_secs(5)));
    for scope in [Scope::Bucket(7), Scope::Lead, Scope::Process] {
        assert!(permit.begin(scope, second).is_some(), "{scope:?}");
        assert!(permit.begin(scope, Duration::from_secs(6)).is_none(), "longer than the session");
    }
    assert!(permit.begin(Scope::Unread(7), second).is_none());
    assert_eq!(fleet.state.lock().slots[7].unread, 1, "it wanted to");
    // It is to be handed over: what is in flight may end, and then nothing is sent any more.
    fleet.state.lock().slots[7].stopped = Some(now);
    assert!(permit.begin(Scope::Bucket(7), second).is_some());
    fleet.state.lock().slots[7].stopped = Some(now.saturating_sub(GRACE));
    assert!(permit.begin(Scope::Bucket(7), second).is_none());
    assert!(permit.begin(Scope::Bucket(8), second).is_some());
    fleet.state.lock().member.lost();
    assert!(permit.limit().is_none());
}

#[test]
fn a_write_without_an_answer_counts_until_its_deadline() {
    let fleet = alone();
    let now = clock::now();
    fleet.state.lock().root.wrote(now, now, (1, 12_000));
    let permit = Permit(Arc::clone(&fleet));
    let sent = permit.begin(Scope::Bucket(7), Duration::from_secs(3)).unwrap();
    assert_eq!(fleet.state.lock().slots[7].writes, 1);
    drop(sent);
    let state = fleet.state.lock();
    assert_eq!(state.slots[7].writes, 0);
    assert!(state.slots[7].until >= now + 3_000);
}

#[tokio::test]
async fn an_attempt_ends_with_its_bucket() {
    let fleet = alone();
    let key = Key::new("n", "a");
    let bucket = usize::from(bucket_of("n", "a"));
    assert!(!fleet.is_ours(&key));
    fleet.set_working(bucket, true);
    assert!(fleet.is_ours(&key));
    assert_eq!(fleet.work(&key, true, async { 1 }).await, Some(1));
    fleet.state.lock().slots[bucket].end.cancel();
    let never = std::future::pending::<()>();
    assert_eq!(fleet.work(&key, true, never).await, None);
    assert_eq!(fleet.state.lock().slots[bucket].attempts, 0);
    fleet.state.lock().slots[bucket].works = false;
    assert_eq!(fleet.work(&key, true, async { 1 }).await, None, "it holds it no more");
}

#[test]
fn slots_follow_the_table_and_go_once_nothing_of_them_is_in_flight() {
    let fleet = alone();
    let now = clock::now();
    let mut state = fleet.state.lock();
    state.slots.iter_mut().for_each(|slot| slot.works = false);
    assert!(state.align(now, false).taken.is_empty(), "nobody knows whether the fleet is here");
    state.root.wrote(now, now, (1, 12_000));
    assert_eq!(state.root.holder(), Some(Holder::Member));
    let changes = state.align(now, false);
    assert_eq!(changes.taken, (0..=BUCKETS).collect::<Vec<_>>());
    assert!(state.standing(now).leads);
    assert!(state.align(now, false).taken.is_empty(), "once");
    // One is in use when the Lease is lost.
    state.slots[7].attempts = 1;
    let changes = state.align(now, true);
    assert_eq!(changes.stopped.len(), BUCKETS + 1);
    assert_eq!(changes.gone, (0..=BUCKETS).filter(|slot| *slot != 7).collect::<Vec<_>>());
    assert!(state.slots[7].end.is_cancelled(), "its attempt ends");
    state.slots[7].attempts = 0;
    assert_eq!(state.align(now, true).gone, [7]);
}
