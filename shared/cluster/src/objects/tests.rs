//! The live objects of Applications: what is kept of them, and what of a member that says what it likes.

use super::*;
use vela_api::names;

use futures::{Stream, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio_util::bytes::Bytes;

use crate::share::{AllBut, Selectors};
use crate::watch::NARROWED_AFTER;

#[test]
fn what_has_ended_is_not_alive_again_until_the_watch_has_told_of_its_end() {
    let ended = Ended::default();
    ended.add("a");
    assert!(ended.has("a") && !ended.has("b"));
    let before = ended.all();
    ended.add("later");
    // A list that still has it: the end is yet to come.
    ended.keep(&before, &HashSet::from(["a".to_owned()]));
    assert!(ended.has("a") && ended.has("later"));
    ended.keep(&before, &HashSet::new());
    assert!(!ended.has("a") && ended.has("later"));
    ended.forget("later");
    assert!(!ended.has("later"));
}

#[test]
fn changes_concern_the_owner_and_whoever_shares() {
    let concerned = |labels: Value, list: &str| {
        let object = serde_json::json!({"metadata": {"name": "x", "namespace": "n",
            "labels": labels, "annotations": {"app.oam.dev/shared-by": list}}});
        let live = Live::of(object);
        let all: Vec<Owner> = live.concerned().cloned().collect();
        assert!(all.iter().all(|one| live.is_of(one)));
        let other = Owner { namespace: "n".to_owned(), name: "other".to_owned() };
        assert!(!live.is_of(&other));
        all.iter().map(Owner::sharer).collect::<Vec<_>>()
    };
    let owned = || serde_json::json!({"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"});
    assert_eq!(concerned(owned(), ""), ["n/a"]);
    assert_eq!(concerned(owned(), "n/a,n/b, m/c,d"), ["n/a", "n/b", "m/c"]);
    assert_eq!(concerned(serde_json::json!({}), "n/b"), ["n/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_come_is_waited_for_once() {
    let (client, _) = crate::fake::fake(|_, path, _| match path {
        "/api/v1" => {
            let kinds = serde_json::json!([
                {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]);
            (200, serde_json::json!({ "resources": kinds }))
        }
        _ => (403, serde_json::json!({"kind": "Status", "code": 403, "reason": "Forbidden"})),
    });
    let io = Arc::new(ObjectClient::new(client));
    let stop = CancellationToken::new();
    let live = LiveObjects::new(io, Arc::new(|_| {}), TaskTracker::new(), stop.clone());
    let since = Instant::now();
    for _ in 0..5 {
        let error = live.kind("v1", "ConfigMap").await.expect_err("cannot be listed");
        assert!(matches!(error, ApiError::NotListed { .. }), "{error}");
    }
    assert!(since.elapsed() < LIST_TIME * 2, "{:?}", since.elapsed());
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_slow_is_told_from_one_that_fails() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        if request.uri().path() != "/api/v1" {
            std::future::pending::<()>().await;
        }
        let kinds = serde_json::json!({"resources": [
            {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]});
        let body = kube::client::Body::from(kinds.to_string().into_bytes());
        Ok::<_, tower::BoxError>(http::Response::new(body))
    });
    let io = Arc::new(ObjectClient::new(kube::Client::new(service, "default")));
    let stop = CancellationToken::new();
    let live = LiveObjects::new(io, Arc::new(|_| {}), TaskTracker::new(), stop.clone());
    let error = live.kind("v1", "ConfigMap").await.expect_err("not listed yet");
    assert!(matches!(error, ApiError::Listing { .. }), "{error}");
    stop.cancel();
}

/// What a member answers to a list of ConfigMaps: whether of their metadata only, and which page.
type Page = dyn Fn(bool, &str) -> (u16, Value) + Send + Sync;

fn config_map(name: &str, bytes: usize) -> Value {
    // Nothing that compresses.
    let text: String = (0..bytes).map(|_| fastrand::alphanumeric()).collect();
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": text}, "metadata": {
        "name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
        "labels": {"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"}}})
}

/// The same of one namespace.
type Namespace = dyn Fn(&str) -> (u16, Value) + Send + Sync;

fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": "may not", "code": code});
    (code, status)
}

fn denial() -> (u16, Value) {
    refusal(403, "Forbidden")
}

/// The watches of a member, and the paths that it is asked for. Its watches bring nothing, for ever.
fn member(
    page: Box<Page>,
    budget: impl Into<Arc<Budget>>,
) -> (Arc<LiveObjects>, Arc<Mutex<Vec<String>>>) {
    member_of(page, Box::new(|_| denial()), budget)
}

fn member_of(
    page: Box<Page>,
    of: Box<Namespace>,
    budget: impl Into<Arc<Budget>>,
) -> (Arc<LiveObjects>, Arc<Mutex<Vec<String>>>) {
    member_with(page, of, (budget.into(), Arc::default()))
}

fn member_with(
    page: Box<Page>,
    of: Box<Namespace>,
    kept: (Arc<Budget>, Arc<Share>),
) -> (Arc<LiveObjects>, Arc<Mutex<Vec<String>>>) {
    member_that_sends(&[], page, of, kept)
}

fn frame(text: &str) -> impl Stream<Item = Result<Frame<Bytes>, tower::BoxError>> + use<> {
    futures::stream::iter([Ok(Frame::data(Bytes::from(text.to_owned())))])
}

/// Its watches bring these states of objects, and nothing more.
fn member_that_sends(
    changes: &[Value],
    page: Box<Page>,
    of: Box<Namespace>,
    kept: (Arc<Budget>, Arc<Share>),
) -> (Arc<LiveObjects>, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let (paths, page, of) = (Arc::clone(&seen), Arc::new(page), Arc::new(of));
    let line = |object: &Value| format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n");
    let lines: Arc<str> = changes.iter().map(line).collect::<String>().into();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (paths, page, of) = (Arc::clone(&paths), Arc::clone(&page), Arc::clone(&of));
        let lines = Arc::clone(&lines);
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let accepts = request.headers().get("accept").and_then(|it| it.to_str().ok());
            let is_partial = accepts.is_some_and(|it| it.contains("PartialObjectMetadata"));
            let part = |key: &str| {
                let mut parts = query.split('&').filter_map(|part| part.split_once('='));
                parts.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
            };
            let is_streamed = part("sendInitialEvents").is_some();
            if !is_streamed {
                paths.lock().push(path.to_owned());
            }
            let (code, answer) = match path {
                "/api/v1" => (
                    200,
                    serde_json::json!({"resources": [
                    {"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]}),
                ),
                // An old server: it has no streamed lists.
                _ if is_streamed => refusal(422, "Invalid"),
                "/api/v1/configmaps" if part("watch").is_some() => {
                    let sent = frame(&lines).chain(futures::stream::pending());
                    return Ok(http::Response::new(StreamBody::new(sent.boxed())));
                }
                "/api/v1/configmaps" => {
                    let (code, mut answer) =
                        page(is_partial, &part("continue").unwrap_or_default());
                    let selector = part("labelSelector").unwrap_or_default();
                    if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
                        items.retain(|item| !is_left_out(item, &selector));
                    }
                    (code, answer)
                }
                list if list.ends_with("/configmaps") => match part("watch") {
                    Some(_) => std::future::pending().await,
                    None => of(list.rsplit('/').nth(1).unwrap_or_default()),
                },
                other => (200, config_map(other.rsplit('/').next().unwrap_or_default(), 10)),
            };
            let body = StreamBody::new(frame(&answer.to_string()).boxed());
            Ok::<_, tower::BoxError>(http::Response::builder().status(code).body(body)?)
        }
    });
    let io = Arc::new(ObjectClient::new(kube::Client::new(service, "default")));
    let tasks = (TaskTracker::new(), CancellationToken::new());
    (Arc::new(LiveObjects::of_member(io, Arc::new(|_| {}), tasks, kept)), seen)
}

/// Whether the selector of a list names the bucket of an object among those that are not wanted.
fn is_left_out(item: &Value, selector: &str) -> bool {
    let bucket = item["metadata"]["labels"][names::label::OWNER_BUCKET].as_str();
    let others = selector.split_once("owner-bucket+notin+").map_or("", |(_, others)| others);
    bucket.is_some_and(|bucket| others.contains(bucket))
}

fn list(items: &[Value], next: &str) -> (u16, Value) {
    let metadata = serde_json::json!({"resourceVersion": "1", "continue": next});
    (
        200,
        serde_json::json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
    )
}

fn key(name: &str) -> ResourceKey {
    ResourceKey::new("v1", "ConfigMap", "edge", "n", name)
}

async fn becomes(live: &LiveObjects, shape: Shape) {
    let is_so = || live.watched("v1", "ConfigMap", "").is_some_and(|it| it.shape == shape);
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn of_objects_that_are_too_many_the_metadata_are_kept_and_the_rest_is_read() {
    let page = |is_partial: bool, _: &str| {
        let bytes = if is_partial { 0 } else { 10_000 };
        let all: Vec<_> = (0..100).map(|number| config_map(&format!("m{number}"), bytes)).collect();
        list(&all, "")
    };
    let (live, seen) = member(Box::new(page), Budget::new(500_000, 1 << 30));
    let _ = live.kind("v1", "ConfigMap").await;
    becomes(&live, Shape::Metadata).await;
    let found = live.get("v1", &key("m7")).await.unwrap().unwrap();
    assert_eq!(found.value()["data"]["v"].as_str().map(str::len), Some(10));
    assert!(live.bytes() < 100_000, "{}", live.bytes());
    // That there is none is known, and what has not changed is not read again.
    assert!(live.get("v1", &key("none")).await.unwrap().is_none());
    assert!(live.seen("v1", &key("m8"), false).await.unwrap().is_some());
    let read = seen.lock().iter().filter(|path| path.contains("/namespaces/")).count();
    assert_eq!(read, 1);
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// F17: many members, each with many objects, take no more memory than their budget; beyond it the metadata are kept.
#[tokio::test]
async fn many_members_with_many_objects_take_no_more_than_the_budget() {
    let (members, objects) =
        if std::env::var("VELA_LONG_TESTS").is_ok() { (20, 2000) } else { (5, 400) };
    // Their texts alone.
    const TEXT: usize = 2000;
    let whole = members * objects * TEXT;
    for (overall, is_enough) in [(whole * 2, true), (whole / 2, false)] {
        let (budget, before) = (Arc::new(Budget::new(overall, overall)), resident());
        let mut all = Vec::new();
        for _ in 0..members {
            let page = move |is_partial: bool, after: &str| {
                let first = after.parse().unwrap_or(0_usize);
                let end = objects.min(first + 100);
                let bytes = if is_partial { 0 } else { TEXT };
                let page: Vec<_> =
                    (first..end).map(|number| config_map(&format!("m{number}"), bytes)).collect();
                list(&page, &if end < objects { end.to_string() } else { String::new() })
            };
            let (live, _) = member(Box::new(page), Arc::clone(&budget));
            // Whoever asks while the shape changes would wait for a list that does not come.
            let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
            let is_listed =
                || live.watched("v1", "ConfigMap", "").is_some_and(|it| it.store.is_synced());
            while !is_listed() {
                tokio::task::yield_now().await;
            }
            all.push(live);
        }
        let last = format!("m{}", objects - 1);
        let mut shapes = Vec::new();
        for live in &all {
            assert!(live.get("v1", &key(&last)).await.unwrap().is_some());
            shapes.push(live.watched("v1", "ConfigMap", "").unwrap().shape);
        }
        let (counted, taken) =
            (all.iter().map(|live| live.bytes()).sum::<usize>(), resident().saturating_sub(before));
        eprintln!("{members} members: {counted} bytes counted, {taken} taken, of {overall}");
        // Metadata may take as much again.
        let most = if is_enough { overall } else { overall * 2 };
        assert!(counted <= most, "{counted} {shapes:?}");
        assert_eq!(shapes.iter().all(|shape| *shape == Shape::Whole), is_enough, "{shapes:?}");
        // Allocations have their overhead, and other tests run in this process.
        assert!(taken <= overall * 2 + (64 << 20), "{taken}");
    }
}

#[tokio::test]
async fn a_list_that_never_ends_takes_no_more_than_its_budget() {
    let page = |is_partial: bool, after: &str| {
        let (first, bytes) = (after.parse().unwrap_or(0_usize), if is_partial { 0 } else { 1000 });
        let names = (first..first + 100).map(|number| config_map(&format!("m{number}"), bytes));
        list(&names.collect::<Vec<_>>(), &(first + 100).to_string())
    };
    let (live, _) = member(Box::new(page), Budget::new(200_000, 1 << 30));
    let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
    becomes(&live, Shape::Unwatched).await;
    assert_eq!(live.bytes(), 0);
    assert!(live.get("v1", &key("m7")).await.unwrap().is_some());
    assert!(live.seen("v1", &key("m7"), false).await.unwrap().is_none());
}

#[tokio::test]
async fn what_may_not_be_listed_is_read_one_by_one() {
    let (live, seen) = member(Box::new(|_, _| denial()), Budget::default());
    let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
    becomes(&live, Shape::Unwatched).await;
    let reads = |name: &str| {
        let path = format!("/api/v1/namespaces/n/configmaps/{name}");
        seen.lock().iter().filter(|it| **it == path).count()
    };
    // Nor in its namespace: that is found out once.
    while reads("m7") == 0 {
        let _ = live.get("v1", &key("m7")).await;
    }
    assert!(live.get("v1", &key("m7")).await.unwrap().is_some());
    let lists = seen.lock().iter().filter(|it| it.ends_with("/n/configmaps")).count();
    assert_eq!((reads("m7"), lists), (2, 1));
}

#[tokio::test]
async fn what_may_be_listed_in_single_namespaces_is_watched_there() {
    let in_namespace = |namespace: &str| {
        let mut one = config_map("m7", 10);
        one["metadata"]["namespace"] = namespace.into();
        list(&[one], "")
    };
    let denied = Box::new(|_: bool, _: &str| denial());
    let (live, seen) = member_of(denied, Box::new(in_namespace), Budget::default());
    let _ = tokio::time::timeout(Duration::ZERO, live.kind("v1", "ConfigMap")).await;
    becomes(&live, Shape::Unwatched).await;
    let key =
        |namespace: &str, name: &str| ResourceKey::new("v1", "ConfigMap", "edge", namespace, name);
    for number in 0..denied::NAMESPACES {
        let namespace = format!("n{number}");
        assert!(live.get("v1", &key(&namespace, "m7")).await.unwrap().is_some());
        // That there is none is known.
        assert!(live.get("v1", &key(&namespace, "none")).await.unwrap().is_none());
    }
    let is_read = |path: &&String| path.contains("/configmaps/");
    assert_eq!(seen.lock().iter().filter(is_read).count(), 0);
    // Of more namespaces they are read.
    assert!(live.get("v1", &key("n-more", "m7")).await.unwrap().is_some());
    assert_eq!(seen.lock().iter().filter(is_read).count(), 1);
    let mut written = config_map("m8", 10);
    written["metadata"]["namespace"] = "n3".into();
    live.wrote("v1", "ConfigMap", written);
    assert!(live.seen("v1", &key("n3", "m8"), false).await.unwrap().is_some());
    live.ended("v1", &key("n3", "m8"), "m8");
    assert!(live.seen("v1", &key("n3", "m8"), false).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_needs_is_not_watched_for_ever() {
    let (live, _) = member(Box::new(|_, _| list(&[], "")), Budget::default());
    live.kind("v1", "ConfigMap").await.unwrap();
    tokio::time::sleep(UNUSED / 2).await;
    assert!(live.get("v1", &key("m7")).await.unwrap().is_none());
    tokio::time::sleep(UNUSED * 3 / 4).await;
    assert!(live.watched("v1", "ConfigMap", "").is_some());
    tokio::time::sleep(UNUSED).await;
    assert!(live.watched("v1", "ConfigMap", "").is_none());
    // It is watched again when somebody asks.
    assert!(live.get("v1", &key("m7")).await.unwrap().is_none());
    let one = |_: bool, _: &str| list(&[config_map("m1", 10)], "");
    let (live, _) = member(Box::new(one), Budget::default());
    live.kind("v1", "ConfigMap").await.unwrap();
    tokio::time::sleep(UNUSED * 5).await;
    assert!(live.watched("v1", "ConfigMap", "").is_some());
}

#[test]
fn large_objects_come_back_whole() {
    let long = "text ".repeat(1000);
    let object = serde_json::json!({"metadata": {"name": "a"}, "data": {"b": long}});
    let live = Live::of(object.clone());
    let packed = live.packed().unwrap();
    assert!(live.size() > 5000 && packed.size() < OVERHEAD + 200, "{}", packed.size());
    assert_eq!((live.value(), packed.value()), (object.clone(), object));
    assert!(packed.packed().is_none() && packed.unpacked() == 0);
    let small = Live::of(serde_json::json!({"metadata": {"name": "a"}}));
    assert!(small.packed().is_none() && small.unpacked() == 0);
}

/// Of the objects of Applications that another replica works on only the metadata are kept; what such an object says is read. Once
/// they are this replica's they are listed.
#[tokio::test]
async fn of_other_replicas_objects_the_metadata_are_kept() {
    let share = Arc::new(Share::default());
    let keep = |generation, names: &'static str| {
        let since = Arc::new(move |app: &Key| names.contains(&*app.name).then_some(1));
        share.set(Keeping {
            generation,
            since,
            selectors: Selectors::default(),
            is_everything: false,
        });
    };
    keep(1, "b");
    let of = |app: &str| {
        let mut map = config_map(&format!("of-{app}"), 10);
        map["metadata"]["labels"]["app.oam.dev/name"] = app.into();
        map
    };
    let all = [of("a"), of("b")];
    let page = Box::new(move |_, _: &str| list(&all, ""));
    let kept = (Arc::new(Budget::unlimited()), Arc::clone(&share));
    let (live, seen) = member_with(page, Box::new(|_| denial()), kept);
    let store = live.kind("v1", "ConfigMap").await.unwrap();
    let is_whole = |app: &str| store.get(&Key::new("n", format!("of-{app}"))).unwrap().is_whole();
    assert_eq!((is_whole("a"), is_whole("b")), (false, true));
    let reads = |name: &str| {
        let path = format!("/api/v1/namespaces/n/configmaps/{name}");
        seen.lock().iter().filter(|it| **it == path).count()
    };
    for name in ["of-a", "of-b"] {
        let found = live.get_served("v1", &key(name)).await.unwrap().unwrap();
        assert!(found.value()["data"]["v"].is_string(), "{name}");
    }
    assert_eq!((reads("of-a"), reads("of-b")), (1, 0));
    let before = live.bytes();
    let of_b = store.get(&Key::new("n", "of-b")).unwrap();
    keep(2, "ab");
    while !is_whole("a") {
        tokio::task::yield_now().await;
    }
    assert!(is_whole("b") && live.bytes() > before);
    // What is known is not packed again.
    assert!(Arc::ptr_eq(&of_b, &store.get(&Key::new("n", "of-b")).unwrap()));
    keep(2, "a");
    while is_whole("b") {
        tokio::task::yield_now().await;
    }
    assert!(is_whole("a"));
    assert_eq!(seen.lock().iter().filter(|it| *it == "/api/v1/configmaps").count(), 4);
}

/// Another replica works on some Applications: of what changes of their objects in a second the last state is taken in, unless an object
/// concerns an Application of this replica, too.
#[tokio::test(start_paused = true)]
async fn changes_of_other_replicas_objects_are_coalesced() {
    let share = Arc::new(Share::default());
    share.serve(Arc::new(|app| app.name == "own"));
    let of = |app: &str, name: &str, version: u32| {
        let mut map = config_map(name, 10);
        map["metadata"]["labels"]["app.oam.dev/name"] = app.into();
        map["metadata"]["resourceVersion"] = version.to_string().into();
        map
    };
    let mut shared = of("others", "shared", 1);
    shared["metadata"]["annotations"] =
        serde_json::json!({"app.oam.dev/shared-by": "n/others,n/own"});
    let all = [of("own", "own", 1), of("others", "others", 1), shared];
    let changes = [
        of("others", "others", 11),
        of("own", "own", 12),
        of("others", "shared", 13),
        of("others", "others", 14),
        of("own", "taken", 15),
    ];
    let page = Box::new(move |_, _: &str| list(&all, ""));
    let kept = (Arc::new(Budget::unlimited()), Arc::clone(&share));
    let (live, _) = member_that_sends(&changes, page, Box::new(|_| denial()), kept);
    let store = live.kind("v1", "ConfigMap").await.unwrap();
    let versions = || -> Vec<_> {
        let all = store.all();
        all.iter().map(|it| format!("{} {}", it.key().name, it.version())).collect()
    };
    let began = Instant::now();
    while store.len() < 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(versions(), ["others 1", "own 12", "shared 13", "taken 15"]);
    while versions().first().is_some_and(|it| it == "others 1") {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(versions(), ["others 14", "own 12", "shared 13", "taken 15"]);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

/// Objects whose labels name the bucket of another replica are not sent. Nothing is known of them, so they are read, but not before they
/// are created: that finds them anyway.
#[tokio::test(start_paused = true)]
async fn of_objects_that_are_left_out_nothing_is_known() {
    let share = Arc::new(Share::default());
    let keep = |generation, others: Option<&str>| {
        let since = Arc::new(|_: &Key| Some(1));
        let values = |it: &str| it.split(',').map(str::to_owned).collect();
        let others = others.map(|it| AllBut::new(names::label::OWNER_BUCKET, values(it)));
        let selectors = Selectors { records: None, objects: others };
        share.set(Keeping { generation, since, selectors, is_everything: false });
    };
    keep(1, Some("0a,0b"));
    let all = ["0a", "0c", "shared", ""].map(|bucket| {
        let mut map = config_map(&format!("in-{bucket}"), 10);
        if !bucket.is_empty() {
            map["metadata"]["labels"][names::label::OWNER_BUCKET] = bucket.into();
        }
        map
    });
    let page = Box::new(move |_, _: &str| list(&all, ""));
    let kept = (Arc::new(Budget::unlimited()), Arc::clone(&share));
    let (live, seen) = member_with(page, Box::new(|_| denial()), kept);
    let store = live.kind("v1", "ConfigMap").await.unwrap();
    let known = || {
        let mut names: Vec<_> = store.all().iter().map(|it| it.key().name.to_string()).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(known(), "in- in-0c in-shared");
    let reads = || seen.lock().iter().filter(|it| it.ends_with("/in-0a")).count();
    assert!(live.get_sent("v1", &key("in-0a")).await.unwrap().is_none());
    assert!(live.seen("v1", &key("in-0a"), false).await.unwrap().is_none());
    assert_eq!(reads(), 0);
    assert!(live.get_served("v1", &key("in-0a")).await.unwrap().is_some());
    assert!(live.get("v1", &key("in-0c")).await.unwrap().is_some());
    assert_eq!(reads(), 1);
    // What is not sent is not kept after a write either: nobody would say when it changes.
    for name in ["0a", "0c"] {
        let mut written = config_map(&format!("in-{name}"), 10);
        written["metadata"]["resourceVersion"] = "2".into();
        written["metadata"]["labels"][names::label::OWNER_BUCKET] = "0a".into();
        live.wrote("v1", "ConfigMap", written);
    }
    assert_eq!(known(), "in- in-shared");
    // More is kept: what is missing until it is listed is read, and nothing afterwards.
    keep(2, None);
    assert!(live.get("v1", &key("in-0a")).await.unwrap().is_some());
    assert_eq!(reads(), 2);
    while known() != "in- in-0a in-0c in-shared" {
        tokio::task::yield_now().await;
    }
    assert!(live.get("v1", &key("in-0a")).await.unwrap().is_some());
    assert!(live.get("v1", &key("none")).await.unwrap().is_none());
    assert_eq!(reads(), 2);
    // Less is kept: that is left as it is for a while.
    let since = Instant::now();
    keep(2, Some("0c"));
    while known() != "in- in-0a in-shared" {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(since.elapsed() >= NARROWED_AFTER, "{:?}", since.elapsed());
}
