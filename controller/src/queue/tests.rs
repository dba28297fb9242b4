//! Keys of a queue: turns, delays, classes, and what is not ours.

use std::sync::Arc;

use super::delays::{FIRST_DELAY, MAX_DELAY};
use super::state::STALE_SLACK;
use super::*;

fn key(name: &str) -> Key {
    Key::new("n", name)
}

#[tokio::test(start_paused = true)]
async fn what_is_worked_on_has_the_share_of_its_class_and_namespace() {
    let weights = Weights::parse("team=3").unwrap();
    let queue = Queue::new(Shares { weights, ..Shares::default() });
    let (edit, scan) = (Key::new("team", "a"), Key::new("others", "b"));
    queue.add(edit.clone(), Class::Edit);
    queue.add(scan.clone(), Class::Scan);
    for _ in 0..2 {
        queue.next(WorkerKind::All).await.unwrap();
    }
    let shares = [edit, scan].map(|key| queue.share(&key)).map(|it| (it.namespace, it.weight));
    assert_eq!(shares, [("team".into(), 48), ("others".into(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_once_at_a_time_and_once_more_if_touched_meanwhile() {
    let queue = Queue::default();
    queue.add(key("a"), Class::Drift);
    queue.add(key("a"), Class::Drift);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    queue.add(key("a"), Class::Drift);
    queue.add(key("a"), Class::Drift);
    assert!(queue.is_empty());
    queue.done(key("a"), Next::Done);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    queue.done(key("a"), Next::Done);
    assert!(queue.is_idle(Duration::from_secs(3600)));
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_leaves_its_turn_to_others_and_still_runs_once_at_a_time() {
    let queue = Queue::new(Shares { workers: 2, weights: Weights::default() });
    for name in ["a", "b"] {
        queue.add(key(name), Class::Scan);
    }
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    queue.park(&key("a"));
    queue.park(&key("a"));
    queue.add(key("a"), Class::Edit);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
    assert_eq!(queue.running().len(), 2);
    queue.done(key("b"), Next::Done);
    queue.done(key("a"), Next::Done);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_and_success_forgets() {
    let queue = Queue::default();
    queue.add(key("a"), Class::Drift);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let before = Instant::now();
        let got = queue.next(WorkerKind::All).await.unwrap();
        waits.push((Instant::now() - before).as_millis());
        queue.done(got, Next::Failed);
    }
    for (wait, most) in waits.into_iter().zip([0, 50, 100, 200]) {
        assert!((most * 4 / 5..=most).contains(&wait), "{wait} of {most}");
    }
    assert_eq!(queue.failures(&key("a")), 4);
    let got = queue.next(WorkerKind::All).await.unwrap();
    queue.done(got, Next::After(Duration::from_secs(5)));
    assert_eq!(queue.failures(&key("a")), 0);
    let before = Instant::now();
    queue.next(WorkerKind::All).await.unwrap();
    assert_eq!((Instant::now() - before).as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_put_off_waits_as_long_as_it_must() {
    let queue = Queue::default();
    queue.add(key("a"), Class::Drift);
    for (after, waits) in [(5, 5), (0, 0), (60, 60)] {
        let got = queue.next(WorkerKind::All).await.unwrap();
        queue.done(got, Next::Postponed(Duration::from_secs(after)));
        let before = Instant::now();
        let got = queue.next(WorkerKind::All).await.unwrap();
        assert_eq!((Instant::now() - before).as_secs(), waits);
        queue.done(got, Next::After(Duration::ZERO));
    }
    for _ in 0..20 {
        let got = queue.next(WorkerKind::All).await.unwrap();
        queue.done(got, Next::Postponed(Duration::ZERO));
    }
    let before = Instant::now();
    let got = queue.next(WorkerKind::All).await.unwrap();
    assert_eq!(Instant::now() - before, MAX_POSTPONED);
    // An overload says nothing of the key: what fails after it fails for the first time.
    queue.done(got, Next::Failed);
    let before = Instant::now();
    queue.next(WorkerKind::All).await.unwrap();
    assert!(Instant::now() - before <= FIRST_DELAY);
}

#[tokio::test(start_paused = true)]
async fn an_event_overtakes_a_planned_look_and_an_earlier_plan_wins() {
    let queue = Queue::default();
    queue.add_after(key("a"), Duration::from_secs(300), Class::Scan);
    queue.add_after(key("a"), Duration::from_secs(3), Class::Scan);
    queue.add_after(key("a"), Duration::from_secs(100), Class::Scan);
    let before = Instant::now();
    let got = queue.next(WorkerKind::All).await.unwrap();
    assert_eq!((Instant::now() - before).as_secs(), 3);
    queue.done(got, Next::Done);
    queue.add_after(key("a"), Duration::from_secs(300), Class::Scan);
    queue.add(key("a"), Class::Drift);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    queue.done(key("a"), Next::Done);
    // The planned reconcile was overtaken: nothing is left of it.
    assert!(queue.is_idle(Duration::from_secs(3600)));
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_told_of_often_leave_nothing_behind() {
    let queue = Queue::default();
    for _ in 0..10_000 {
        queue.add(key("a"), Class::Drift);
        let a = queue.next(WorkerKind::All).await.unwrap();
        queue.done(a, Next::After(Duration::from_secs(300)));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let state = queue.state.lock();
    assert!(state.later.len() <= STALE_SLACK + 2 && state.due.len() == 1, "{}", state.later.len());
}

#[tokio::test(start_paused = true)]
async fn what_happened_is_told_once_and_a_planned_look_is_nothing_that_happened() {
    let queue = Queue::default();
    queue.add_after(key("a"), Duration::from_secs(1), Class::Scan);
    let got = queue.next(WorkerKind::All).await.unwrap();
    assert!(!queue.take_triggered(&got));
    queue.add(key("a"), Class::Drift);
    queue.done(got, Next::After(Duration::from_secs(1)));
    let got = queue.next(WorkerKind::All).await.unwrap();
    assert!(queue.take_triggered(&got));
    assert!(!queue.take_triggered(&got));
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_measured() {
    let registry = vela_serve::metrics::Registry::new("test", "0").unwrap();
    let metrics = crate::metrics::Metrics::new(&registry).unwrap();
    let (queue, meter) = (Queue::default(), metrics.queues.of("test"));
    queue.add(key("a"), Class::Drift);
    tokio::time::advance(Duration::from_secs(3600)).await;
    queue.measure(meter.clone());
    assert_eq!((meter.adds.get(), queue.load().depth), (1, 1));
    tokio::time::advance(Duration::from_secs(2)).await;
    let got = queue.next(WorkerKind::All).await.unwrap();
    assert_eq!((meter.waits.get_sample_count(), meter.waits.get_sample_sum()), (1, 2.0));
    queue.add(key("b"), Class::Drift);
    tokio::time::advance(Duration::from_secs(1)).await;
    queue.next(WorkerKind::All).await.unwrap();
    // Twice while it runs is once more.
    queue.add(key("a"), Class::Drift);
    queue.add(key("a"), Class::Drift);
    tokio::time::advance(Duration::from_secs(3)).await;
    let (unfinished, longest) = (Duration::from_secs(7), Duration::from_secs(4));
    // Of what runs nobody knows how long it takes.
    let (waiting, backlog) = (PerClass::default(), Duration::ZERO);
    assert_eq!(queue.load(), Load { depth: 1, waiting, backlog, unfinished, longest });
    queue.done(got, Next::Failed);
    queue.done(key("b"), Next::After(Duration::from_secs(9)));
    assert_eq!((meter.attempts.get_sample_count(), meter.attempts.get_sample_sum()), (2, 7.0));
    // That it failed is for later, what happened in the meantime for now.
    assert_eq!((meter.adds.get(), meter.retries.get()), (3, 1));
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    assert_eq!(meter.waits.get_sample_sum(), 2.0 + 1.0 + 3.0);
}

#[tokio::test(start_paused = true)]
async fn an_edit_does_not_wait_for_others() {
    let queue = Queue::default();
    for name in ["a", "b", "c"] {
        queue.add(key(name), Class::Drift);
    }
    queue.add(key("c"), Class::Edit);
    queue.add(key("c"), Class::Edit);
    assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("c")));
    assert_eq!(queue.len(), 2);
    // Edited while it runs, and while it waits.
    queue.add(key("c"), Class::Edit);
    queue.add(key("b"), Class::Edit);
    queue.done(key("c"), Next::Done);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("a")));
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
    assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("c")));
    for name in ["a", "b", "c"] {
        queue.done(key(name), Next::Done);
    }
    // Nothing is left of what the other worker took.
    assert!(queue.is_idle(Duration::from_secs(3600)));
    queue.add(key("d"), Class::Drift);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("d")));
    let none = tokio::time::timeout(Duration::from_secs(1), queue.next(WorkerKind::Edits)).await;
    assert!(none.is_err());
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_workers() {
    let queue = Arc::new(Queue::default());
    let workers = [WorkerKind::All, WorkerKind::All, WorkerKind::Edits].map(|kind| {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.next(kind).await })
    });
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert_eq!(worker.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_serves_what_is_ours_and_forgets_the_rest() {
    let (queue, served) = (Queue::default(), Arc::new(Mutex::new(vec!["a", "b", "c"])));
    let ours = Arc::clone(&served);
    queue.serve(Arc::new(move |key: &Key| ours.lock().contains(&key.name.as_str())));
    for name in ["a", "b", "c", "d"] {
        queue.add(key(name), Class::Edit);
        queue.wake_user(key(name));
    }
    assert_eq!(queue.len(), 3);
    let a = queue.next(WorkerKind::All).await.unwrap();
    queue.add(a.clone(), Class::Edit);
    queue.add_after(key("c"), Duration::from_secs(1), Class::Progress);
    served.lock().retain(|name| *name == "b");
    queue.drop_foreign();
    // The attempt at what is not ours any more ends, and leaves nothing behind.
    queue.done(a, Next::Failed);
    let is_clean = {
        let state = queue.state.lock();
        state.due.is_empty() && state.again.is_empty() && state.failures.is_empty()
    };
    assert!(is_clean);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("b")));
    assert!(queue.is_empty());
}

#[test]
fn delays_are_bounded() {
    for name in ["a", "b", "c"] {
        for (failures, most) in [(1, FIRST_DELAY), (64, MAX_DELAY)] {
            let delay = backoff(&key(name), failures);
            assert!(delay <= most && delay >= most * 4 / 5, "{delay:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resyncs_are_spread_over_their_period() {
    let period = Duration::from_secs(300);
    let queue = Queue::default();
    let start = Instant::now();
    for name in 0..3_000 {
        queue.add(key(&name.to_string()), Class::Scan);
    }
    for _ in 0..3_000 {
        let key = queue.next(WorkerKind::All).await.unwrap();
        queue.done(key, Next::Resync(period));
    }
    let mut minutes = [0; 5];
    let mut first = HashMap::new();
    for _ in 0..3_000 {
        let key = queue.next(WorkerKind::All).await.unwrap();
        let at = Instant::now() - start;
        minutes[usize::try_from(at.as_secs() / 60).unwrap()] += 1;
        first.insert(key.clone(), at);
        queue.done(key, Next::Resync(period));
    }
    assert!(minutes.iter().all(|count| (500..700).contains(count)), "{minutes:?}");
    // From then on at the same moment of each period, whatever happens between.
    for _ in 0..3_000 {
        let key = queue.next(WorkerKind::All).await.unwrap();
        let between = Instant::now() - start - first[&key];
        assert!(between.abs_diff(period) < Duration::from_millis(10), "{between:?}");
        queue.done(key, Next::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_used_wakes_at_a_bounded_rate_and_shortens_no_pause() {
    let queue = Queue::default();
    let reconciles = async |count: usize, next: Next| {
        let mut reconciles = 0;
        for _ in 0..count {
            queue.wake_user(key("a"));
            while !queue.is_empty() {
                let a = queue.next(WorkerKind::All).await.unwrap();
                assert!(queue.take_triggered(&a));
                queue.done(a, next);
                reconciles += 1;
            }
            tokio::time::advance(Duration::from_millis(100)).await;
            queue.state.lock().promote(Instant::now());
        }
        reconciles
    };
    let settled = reconciles(600, Next::Done).await;
    assert!((5..=9).contains(&settled), "{settled} reconciles in a minute");
    // Failing: the same attempts as without a word.
    tokio::time::advance(Duration::from_secs(300)).await;
    let failing = reconciles(600, Next::Failed).await;
    assert!((9..=13).contains(&failing), "{failing} attempts in a minute");
    let failures = queue.failures(&key("a"));
    assert_eq!(failures, failing, "none was forgotten");
    // An edit does not wait.
    queue.add(key("a"), Class::Edit);
    assert_eq!(queue.next(WorkerKind::Edits).await, Some(key("a")));
    // What it uses changes while it fails once more.
    queue.wake_user(key("a"));
    queue.done(key("a"), Next::Failed);
    assert!(queue.is_empty() && queue.is_idle(Duration::from_secs(20)));
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_turns_into_an_edit_is_taken_as_one() {
    let queue = Queue::default();
    for name in ["a", "b", "c"] {
        queue.add(key(name), Class::Scan);
    }
    queue.add(key("c"), Class::Edit);
    queue.add(key("c"), Class::Scan);
    assert_eq!(
        queue.load().waiting,
        PerClass::of(|class| match class {
            Class::Edit => 1,
            Class::Scan => 2,
            _ => 0,
        })
    );
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("c")));
}

/// What is to be worked on again and again is worked on, waits, or is planned; else somebody lost it.
#[tokio::test(start_paused = true)]
async fn what_is_late_or_lost_is_found() {
    let queue = Queue::default();
    let keys: Vec<Key> = ["runs", "waits", "planned", "lost"].map(key).into();
    let late = |longest: u64, missing: &[&str]| Overdue {
        longest: Duration::from_secs(longest),
        missing: missing.iter().map(|name| key(name)).collect(),
    };
    let overdue = || queue.overdue(&keys, Instant::now());
    assert_eq!(overdue(), late(0, &["runs", "waits", "planned", "lost"]));
    queue.add(key("runs"), Class::Scan);
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("runs")));
    queue.add_after(key("planned"), Duration::from_secs(300), Class::Scan);
    tokio::time::advance(Duration::from_secs(200)).await;
    queue.add(key("waits"), Class::Drift);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(overdue(), late(60, &["lost"]));
    // No worker asks for it: its time passes all the same.
    assert_eq!(queue.next(WorkerKind::All).await, Some(key("waits")));
    tokio::time::advance(Duration::from_secs(100)).await;
    assert_eq!(overdue(), late(60, &["lost"]), "60 s after its time");
    queue.done(key("runs"), Next::Resync(Duration::from_secs(300)));
    queue.done(key("waits"), Next::Done);
    assert_eq!(overdue(), late(60, &["waits", "lost"]));
}
