//! Elections against an API server in memory, in paused time: seconds pass without waiting.

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;

/// A Lease in memory with the API server's optimistic lock.
struct Server {
    begin: Instant,
    lease: Option<Value>,
    version: u64,
    /// Writers and what they wrote, for the order of things.
    writes: Vec<(String, Value)>,
    conflicts: usize,
    /// Nothing is answered for these clients.
    cut_off: Vec<String>,
    /// Everything is answered with 503.
    down: bool,
    /// Nobody may watch.
    blind: bool,
    /// What becomes of the next write: its answer is lost, whether it is committed or not.
    unheard: Option<Committed>,
}

type Committed = bool;

impl Default for Server {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            lease: None,
            version: 0,
            writes: Vec::new(),
            conflicts: 0,
            cut_off: Vec::new(),
            down: false,
            blind: false,
            unheard: None,
        }
    }
}

type Shared = Arc<Mutex<Server>>;

fn client(server: &Shared, who: &str) -> Client {
    let (server, who) = (Arc::clone(server), who.to_owned());
    let service = service_fn(move |request: Request<Body>| {
        let (server, who) = (Arc::clone(&server), who.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            if server.lock().cut_off.contains(&who) {
                std::future::pending::<()>().await;
            }
            if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
                let text = watched(&server, parts.uri.query().unwrap_or_default()).await;
                return Ok(Response::new(Body::from(text.into_bytes())));
            }
            let is_write = parts.method != Method::GET;
            let unheard = server.lock().unheard.take_if(|_| is_write);
            if unheard == Some(false) {
                std::future::pending::<()>().await;
            }
            let (code, value) = answer(&mut server.lock(), &who, &parts.method, &bytes);
            if unheard == Some(true) {
                std::future::pending::<()>().await;
            }
            Ok::<_, tower::BoxError>(
                Response::builder().status(code).body(Body::from(serde_json::to_vec(&value)?))?,
            )
        }
    });
    Client::new(service, "system")
}

/// The next change after the version asked for; the connection ends with it.
async fn watched(server: &Shared, query: &str) -> String {
    assert!(query.contains("fieldSelector=metadata.name%3Dkubevela"), "{query}");
    let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
    let since = since.and_then(|version| version.parse::<u64>().ok()).expect("a version");
    loop {
        {
            let server = server.lock();
            if server.blind {
                return r#"{"type":"ERROR","object":{"kind":"Status","code":403,"message":"no","reason":"Forbidden"}}"#.to_owned();
            }
            let version = |lease: &Value| {
                lease["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok())
            };
            if let Some(lease) = server.lease.as_ref().filter(|lease| version(lease) > Some(since))
            {
                return format!("{}\n", json!({"type": "MODIFIED", "object": lease}));
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "code": code, "reason": reason, "message": reason}))
}

fn answer(server: &mut Server, who: &str, method: &Method, body: &[u8]) -> (u16, Value) {
    if server.down {
        return failure(503, "ServiceUnavailable");
    }
    if *method == Method::GET {
        return match &server.lease {
            Some(lease) => (200, lease.clone()),
            None => failure(404, "NotFound"),
        };
    }
    let mut lease: Value = serde_json::from_slice(body).expect("json");
    let current = server.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
    match (method.as_str(), current) {
        ("POST", Some(_)) => return failure(409, "AlreadyExists"),
        ("PUT", None) => return failure(404, "NotFound"),
        ("PUT", Some(version)) if *version != lease["metadata"]["resourceVersion"] => {
            server.conflicts += 1;
            return failure(409, "Conflict");
        }
        _ => {}
    }
    server.version += 1;
    lease["metadata"]["resourceVersion"] = json!(server.version.to_string());
    server.writes.push((who.to_owned(), lease["spec"].clone()));
    server.lease = Some(lease.clone());
    (200, lease)
}

struct Replica {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<Outcome>,
}

fn start(server: &Shared, who: &str) -> Replica {
    let options = LeaseOptions::new("system", "kubevela", who);
    let (begin, origin) =
        (Timestamp::from_second(1_800_000_000).expect("in range"), server.lock().begin);
    let clock = move || begin + origin.elapsed();
    let (elector, leadership) =
        Elector::new(client(server, who), options, clock).expect("times that work");
    let stop = CancellationToken::new();
    let task = tokio::spawn(elector.run(stop.clone()));
    Replica { leadership, stop, task }
}

async fn pass(seconds: u64) {
    // In steps, so that every timer fires in its turn.
    for _ in 0..seconds * 10 {
        sleep(Duration::from_millis(100)).await;
    }
}

fn holder(server: &Shared) -> String {
    let server = server.lock();
    let lease = server.lease.as_ref().expect("a lease");
    lease["spec"]["holderIdentity"].as_str().expect("a holder").to_owned()
}

#[tokio::test(start_paused = true)]
async fn first_comes_first_leads_and_renews() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    let b = start(&server, "b");
    pass(60).await;
    assert!(a.leadership.is_leader());
    assert!(!b.leadership.is_leader());
    assert_eq!(holder(&server), "a");
    let server = server.lock();
    assert!(server.writes.iter().all(|(who, _)| who == "a"), "followers write nothing");
    assert!((25..=31).contains(&server.writes.len()), "{} renewals", server.writes.len());
    let spec = &server.writes.last().expect("a write").1;
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], "2027-01-15T08:00:00.000000Z");
    let renewed = spec["renewTime"].as_str().expect("a time");
    assert!(("2027-01-15T08:00:57"..="2027-01-15T08:01:01").contains(&renewed), "{renewed}");
}

#[tokio::test(start_paused = true)]
async fn a_planned_stop_hands_over_at_once() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    let b = start(&server, "b");
    pass(5).await;
    let before = Instant::now();
    a.stop.cancel();
    assert_eq!(a.task.await.expect("ended"), Outcome::Stopped);
    assert!(!a.leadership.is_leader());
    {
        let server = server.lock();
        let released = &server.writes.last().expect("a write").1;
        assert_eq!(released["holderIdentity"], "");
        assert_eq!(released["leaseDurationSeconds"], 1);
        assert_eq!(released["leaseTransitions"], 0);
    }
    assert!(b.leadership.acquired().await);
    assert!(before.elapsed() <= Duration::from_millis(200), "{:?}", before.elapsed());
    let server = server.lock();
    assert_eq!(server.lease.as_ref().expect("a lease")["spec"]["leaseTransitions"], 1);
}

/// The Lease as somebody else has written it.
fn written(server: &Shared, holder: &str) {
    let mut server = server.lock();
    server.version += 1;
    server.lease = Some(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "kubevela", "namespace": "system", "resourceVersion": server.version.to_string(),
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3},
    }));
}

/// Stops a replica when its next write is in flight, whose answer it never gets.
async fn stop_in_a_write(server: &Shared, replica: Replica, committed: Committed) {
    server.lock().unheard = Some(committed);
    while server.lock().unheard.is_some() {
        sleep(Duration::from_millis(10)).await;
    }
    stop(replica).await;
}

async fn stop(replica: Replica) {
    let before = Instant::now();
    replica.stop.cancel();
    assert_eq!(replica.task.await.expect("ended"), Outcome::Stopped);
    assert!(before.elapsed() <= Duration::from_millis(100), "{:?}", before.elapsed());
}

fn is_released(server: &Shared) -> bool {
    holder(server).is_empty()
        && server.lock().lease.as_ref().expect("a lease")["spec"]["leaseDurationSeconds"] == 1
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_a_renewal_hands_over_at_once() {
    for committed in [true, false] {
        let server = Shared::default();
        let a = start(&server, "a");
        assert!(a.leadership.acquired().await);
        let b = start(&server, "b");
        pass(5).await;
        stop_in_a_write(&server, a, committed).await;
        let stopped = Instant::now();
        assert!(b.leadership.acquired().await);
        assert!(stopped.elapsed() <= Duration::from_millis(200), "{:?}", stopped.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_taking_the_lease_leaves_it_free() {
    for committed in [true, false] {
        let server = Shared::default();
        stop_in_a_write(&server, start(&server, "a"), committed).await;
        let server = server.lock();
        let holder = server.lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone());
        assert_eq!(holder, committed.then(|| json!("")), "a new Lease");
    }
    for committed in [true, false] {
        let server = Shared::default();
        written(&server, "");
        stop_in_a_write(&server, start(&server, "a"), committed).await;
        assert_eq!(holder(&server), "", "a Lease that was free");
        assert_eq!(is_released(&server), committed, "nothing is written without need");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_changed_is_given_away_only_by_its_holder() {
    for (now, released) in [("a", true), ("other", false)] {
        let server = Shared::default();
        let a = start(&server, "a");
        assert!(a.leadership.acquired().await);
        written(&server, now);
        stop(a).await;
        assert_eq!(is_released(&server), released, "{now}");
        assert_eq!(holder(&server), if released { "" } else { now });
    }
    // Also if it is lost in a renewal: what is in doubt is read.
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    server.lock().unheard = Some(false);
    while server.lock().unheard.is_some() {
        sleep(Duration::from_millis(10)).await;
    }
    written(&server, "other");
    stop(a).await;
    assert_eq!(holder(&server), "other");
    assert_eq!(server.lock().conflicts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_answers_is_given_up() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    server.lock().cut_off.push("a".to_owned());
    pass(3).await;
    let before = Instant::now();
    a.stop.cancel();
    assert_eq!(a.task.await.expect("ended"), Outcome::Stopped);
    assert_eq!(before.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_after_its_duration() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    let b = start(&server, "b");
    pass(10).await;
    a.task.abort();
    let died = Instant::now();
    assert!(b.leadership.acquired().await);
    let waited = died.elapsed();
    assert!(waited > Duration::from_secs(12) && waited <= Duration::from_secs(15), "{waited:?}");
    assert_eq!(holder(&server), "b");
}

/// Who may not watch the Lease asks from time to time, as client-go does: every 2 to 4.4 s, and when the holder is not
/// believed any more. The times are drawn, so it is tried often.
#[tokio::test(start_paused = true)]
async fn without_a_watch_the_lease_is_followed_all_the_same() {
    for _ in 0..100 {
        let server = Shared::default();
        server.lock().blind = true;
        let a = start(&server, "a");
        assert!(a.leadership.acquired().await);
        let b = start(&server, "b");
        pass(10).await;
        a.stop.cancel();
        let stopped = Instant::now();
        assert_eq!(a.task.await.expect("ended"), Outcome::Stopped);
        assert!(b.leadership.acquired().await);
        assert!(stopped.elapsed() <= Duration::from_secs(5), "{:?}", stopped.elapsed());
        let c = start(&server, "c");
        pass(10).await;
        b.task.abort();
        let died = Instant::now();
        assert!(c.leadership.acquired().await);
        let waited = died.elapsed();
        let (least, most) = (Duration::from_secs(12), Duration::from_millis(19_500));
        assert!(waited > least && waited < most, "{waited:?}");
        c.task.abort();
    }
}

/// The leader cannot reach the API server any more: it must stop writing before another may start.
#[tokio::test(start_paused = true)]
async fn never_two_leaders() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    let b = start(&server, "b");
    pass(7).await;
    server.lock().cut_off.push("a".to_owned());
    let mut fenced = None;
    let cut = Instant::now();
    for _ in 0..600 {
        sleep(Duration::from_millis(50)).await;
        assert!(!(a.leadership.is_leader() && b.leadership.is_leader()), "two leaders");
        if fenced.is_none() && !a.leadership.is_leader() {
            fenced = Some(cut.elapsed());
        }
    }
    assert!(fenced.expect("fenced") <= Duration::from_secs(10));
    assert!(b.leadership.is_leader());
    assert_eq!(a.task.await.expect("ended"), Outcome::Lost);
}

/// Everybody writes at once: the optimistic lock lets one through.
#[tokio::test(start_paused = true)]
async fn of_many_one_leads() {
    let server = Shared::default();
    let replicas: Vec<Replica> =
        ["a", "b", "c", "d"].iter().map(|who| start(&server, who)).collect();
    let leaders = || replicas.iter().filter(|replica| replica.leadership.is_leader()).count();
    pass(5).await;
    assert_eq!(leaders(), 1);
    // The leader dies, and its record expires for all at the same moment.
    let leader = replicas.iter().find(|replica| replica.leadership.is_leader()).expect("one");
    leader.task.abort();
    for _ in 0..400 {
        sleep(Duration::from_millis(50)).await;
        assert!(leaders() <= 1);
    }
    assert_eq!(leaders(), 1);
    assert!(!leader.leadership.is_leader());
}

/// A Go replica renews with its own clock, which may be years off: only changes count.
#[tokio::test(start_paused = true)]
async fn judges_by_change_not_by_the_holders_clock() {
    let server = Shared::default();
    let record = |beat: u32, time: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kubevela", "namespace": "system", "resourceVersion": beat.to_string()},
            "spec": {
                "holderIdentity": "go_1", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2001-01-01T00:00:00.000000Z", "renewTime": time,
            },
        })
    };
    server.lock().lease = Some(record(0, "2001-01-01T00:00:00.000000Z"));
    let a = start(&server, "a");
    for beat in 1..20 {
        pass(2).await;
        server.lock().lease = Some(record(beat, &format!("2001-01-01T00:00:{beat:02}.000000Z")));
        assert!(!a.leadership.is_leader());
    }
    let last = Instant::now();
    assert!(a.leadership.acquired().await);
    assert!(last.elapsed() >= Duration::from_secs(14), "{:?}", last.elapsed());
    let server = server.lock();
    let spec = &server.lease.as_ref().expect("a lease")["spec"];
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("a"), &json!(4)));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived_and_a_long_one_is_not() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    pass(4).await;
    server.lock().down = true;
    pass(5).await;
    assert!(a.leadership.is_leader());
    server.lock().down = false;
    pass(4).await;
    assert!(a.leadership.is_leader());
    server.lock().down = true;
    let down = Instant::now();
    assert_eq!(a.task.await.expect("ended"), Outcome::Lost);
    assert!(down.elapsed() <= Duration::from_secs(13), "{:?}", down.elapsed());
    assert!(!a.leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_follower_stops_without_touching_the_lease() {
    let server = Shared::default();
    let a = start(&server, "a");
    assert!(a.leadership.acquired().await);
    let b = start(&server, "b");
    pass(3).await;
    b.stop.cancel();
    assert_eq!(b.task.await.expect("ended"), Outcome::Stopped);
    assert!(!b.leadership.acquired().await);
    assert_eq!(holder(&server), "a");
    assert!(server.lock().writes.iter().all(|(who, _)| who == "a"));
}

#[test]
fn names_and_times() {
    assert_eq!(lease_name(None, "master"), "kubevela");
    assert_eq!(lease_name(None, ""), "kubevela");
    assert_eq!(lease_name(Some("v1.11.0-Alpha.1"), "master"), "kubevela-v1-11-0-alpha-1");
    assert_eq!(lease_name(Some("v1.2.3"), "s1"), "kubevela-v1-2-3-s1");
    let (one, two) = (identity("host"), identity("host"));
    assert!(one.starts_with("host_") && one != two);
    let good = LeaseOptions::new("n", "l", "i");
    assert!(good.validate().is_ok());
    let bad = LeaseOptions { lease_duration: good.renew_deadline, ..good.clone() };
    assert!(bad.validate().is_err());
    let bad = LeaseOptions { retry_period: good.renew_deadline, ..good };
    assert!(bad.validate().is_err());
}
