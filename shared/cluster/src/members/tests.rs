//! The registry: what names mean, who is heard of, and what is not known.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::secret::tests::secret;
use super::*;
use crate::ClientOptions;
use crate::fake::fake;

pub(super) fn registry() -> (Members, Arc<Mutex<Vec<String>>>) {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&reported);
    let connecting = Connecting {
        share: Arc::default(),
        options: ClientOptions::new("vela-controller/test"),
        rules: SecretRules::default(),
        notify: Arc::new(|_, _| {}),
        budget: Arc::default(),
        authority: proof::authority(Some(&[vec![0x30, 0]])),
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
    };
    let changed: Changed =
        Arc::new(move |name: &str, _: Reachable| hear.lock().push(name.to_owned()));
    (Members::new(connecting, changed), reported)
}

pub(super) fn cluster(name: &str, created: &str) -> Cluster {
    cluster_of(name, created, AUTHORITY)
}

/// Shaped like a certificate; it is only compared.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
const OTHER: &str = "-----BEGIN CERTIFICATE-----\nMAE=\n-----END CERTIFICATE-----\n";

fn cluster_of(name: &str, created: &str, authority: &str) -> Cluster {
    let data = [("endpoint", "https://10.0.0.1"), ("token", "t"), ("ca.crt", authority)];
    let mut object = secret(name, "ServiceAccountToken", &data);
    object["metadata"]["creationTimestamp"] = json!(created);
    Cluster::of(&serde_json::from_value(object).unwrap(), SecretRules::default())
}

fn join(members: &Members, name: &str, uid: &str) -> Arc<Member> {
    join_of(members, name, uid, AUTHORITY)
}

fn join_of(members: &Members, name: &str, uid: &str, authority: &str) -> Arc<Member> {
    let (client, _) = fake(|_, _, _| (200, json!({})));
    let cluster = cluster_of(name, "2026-01-01T00:00:00Z", authority);
    let member =
        Member::over(cluster, client, uid, members.connecting(), &members.registry.changed);
    members.take(Arc::clone(&member));
    member
}

fn is_member(named: &Named, name: &str) -> bool {
    matches!(named, Named::Member(member) if member.cluster.name == name)
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_not_gone() {
    let (members, _) = registry();
    assert!(matches!(members.snapshot().named("edge"), Named::Unclear));
    assert!(matches!(members.snapshot().named(""), Named::Own));
    assert!(matches!(members.snapshot().named("local"), Named::Own));
    members.synced(true, Some(&[]));
    assert!(matches!(members.snapshot().named("edge"), Named::Unregistered(false)));
    tokio::time::advance(FIRST_ABSENT).await;
    assert!(matches!(members.snapshot().named("edge"), Named::Unregistered(true)));
    join(&members, "edge", "u");
    assert!(is_member(&members.snapshot().named("edge"), "edge"));
    members.remove("edge");
    assert!(matches!(members.snapshot().named("edge"), Named::Unregistered(false)));
    tokio::time::advance(ABSENT).await;
    assert!(matches!(members.snapshot().named("edge"), Named::Unregistered(true)));
    members.synced(false, None);
    assert!(matches!(members.snapshot().named("edge"), Named::Unclear));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_comes_back_in_time_was_never_gone_and_a_list_says_who_is() {
    let (members, reported) = registry();
    join(&members, "a", "1");
    join(&members, "b", "2");
    reported.lock().clear();
    members.synced(true, Some(&["b".to_owned()]));
    assert_eq!(*reported.lock(), ["a", ""]);
    tokio::time::advance(ABSENT / 2).await;
    join(&members, "a", "1");
    tokio::time::advance(ABSENT).await;
    assert!(is_member(&members.snapshot().named("a"), "a"));
}

#[tokio::test]
async fn names_of_one_cluster_are_one_and_a_renamed_one_is_found() {
    let (members, _) = registry();
    let authority = proof::authority(Some(&[vec![0x30, 0]]));
    let known =
        |uid: &str| Known { uid: uid.to_owned(), authority: authority.clone(), ..Known::default() };
    let before = BTreeMap::from([("old".to_owned(), known("2")), ("lost".to_owned(), known("9"))]);
    members.remember(before, "hub".to_owned(), false);
    members.synced(true, Some(&[]));
    for (name, uid) in [("b", "1"), ("a", "1"), ("new", "2"), ("self", "hub")] {
        join(&members, name, uid);
    }
    let snapshot = members.snapshot();
    for (name, meant) in [
        ("a", "a"),
        ("b", "a"),
        ("new", "new"),
        ("old", "new"),
        ("self", "local"),
        ("lost", "lost"),
        ("unknown", "unknown"),
        ("", "local"),
    ] {
        assert_eq!(snapshot.canonical(name), meant, "{name}");
    }
    assert!(is_member(&snapshot.named("old"), "new") && is_member(&snapshot.named("b"), "a"));
    assert!(matches!(snapshot.named("self"), Named::Own));
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(snapshot.aliases(), [(names(&["a", "b"]), true), (names(&["local", "self"]), true)]);
}

/// Anybody may let his cluster say that it is another one. What is meant for that one does not go there, and nothing is
/// concluded for the other names.
#[tokio::test]
async fn who_says_that_he_is_somebody_else_is_not_believed() {
    let (members, _) = registry();
    let old = Known { uid: "2".to_owned(), authority: "of old".to_owned(), ..Known::default() };
    members.remember(BTreeMap::from([("old".to_owned(), old)]), "hub".to_owned(), false);
    members.synced(true, Some(&[]));
    join(&members, "edge", "1");
    for (name, uid) in [("a", "1"), ("b", "hub"), ("c", "2")] {
        join_of(&members, name, uid, OTHER);
    }
    let snapshot = members.snapshot();
    for name in ["edge", "a", "b", "c", "old"] {
        assert_eq!(snapshot.canonical(name), name);
    }
    assert!(is_member(&snapshot.named("edge"), "edge") && is_member(&snapshot.named("b"), "b"));
    assert!(matches!(snapshot.named("old"), Named::Unregistered(_)));
    for (name, others) in
        [("edge", vec!["a"]), ("a", vec!["edge"]), ("b", vec!["local"]), ("c", vec![])]
    {
        assert_eq!(snapshot.doubtful(name), others, "{name}");
    }
    assert_eq!(snapshot.doubtful("local"), ["b"]);
    assert!(snapshot.aliases().iter().all(|(names, is_proven)| names.len() == 2 && !is_proven));
}

/// What was meant for a cluster whose name another one took goes to nobody, also if that one joined under a name of its own.
#[tokio::test]
async fn a_replaced_cluster_is_nobody_elses_name() {
    let (members, _) = registry();
    members.synced(true, Some(&[]));
    join(&members, "west", "w");
    join(&members, "east", "e").answers_as("w", Timestamp::now());
    let snapshot = members.snapshot();
    assert_eq!(
        (snapshot.canonical("east"), snapshot.canonical("west")),
        ("east".into(), "west".into())
    );
    assert!(is_member(&snapshot.named("east"), "east"));
    assert_eq!(snapshot.aliases(), Vec::new());
}

#[tokio::test]
async fn what_is_noted_says_who_is_registered() {
    let (members, _) = registry();
    let known = |uid: &str| Known {
        uid: uid.to_owned(),
        labels: Some(BTreeMap::new()),
        ..Known::default()
    };
    // One of them is not registered any more, and one never answered.
    let before = BTreeMap::from([("old".to_owned(), known("1")), ("mute".to_owned(), known(""))]);
    members.remember(before, "hub".to_owned(), false);
    assert_eq!(members.noted(), None);
    members.put(cluster("new", "2026-01-01T00:00:00Z"));
    members.synced(true, Some(&["new".to_owned()]));
    let noted = members.noted().unwrap();
    assert_eq!(noted.keys().collect::<Vec<_>>(), ["new", "old"]);
    assert_eq!(noted["old"].labels, None);
    let labels = noted["new"].labels.as_ref().unwrap();
    assert_eq!(labels["cluster.core.oam.dev/control-plane"], "false");
}

#[tokio::test]
async fn the_order_is_that_of_views() {
    let (members, _) = registry();
    for (name, created) in [("x", "2026-01-01"), ("c", "2026-01-03"), ("b", "2026-01-03")] {
        members.put(cluster(name, &format!("{created}T00:00:00Z")));
    }
    let snapshot = members.snapshot();
    let names: Vec<_> = snapshot.in_order().iter().map(|m| m.cluster.name.clone()).collect();
    assert_eq!(names, ["b", "c", "x"]);
}

#[tokio::test]
async fn a_closed_lane_sends_nothing_and_says_why() {
    let (members, reported) = registry();
    let (client, seen) = fake(|_, _, _| (200, json!({"resources": []})));
    let one = cluster("edge", "2026-01-01T00:00:00Z");
    let member = Member::over(one, client, "u", members.connecting(), &members.registry.changed);
    let io = Arc::clone(member.reach().unwrap().0);
    let target = crate::Target { api_version: "v1", kind: "Secret", namespace: "n", name: "a" };
    let _ = io.get(&target, &crate::Identity::default()).await;
    assert_eq!(seen.lock().len(), 1);
    reported.lock().clear();
    member.hear(Heard::Refused("Unauthorized".to_owned()));
    assert_eq!(*reported.lock(), ["edge"]);
    let error = member.reach().unwrap_err();
    assert!(error.to_string().contains("edge") && error.to_string().contains("Unauthorized"));
    assert!(matches!(error.class(), crate::Class::Retry(None)));
    // One that was reached before learns it where it asks.
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    io.discovery().forget_all();
    let error = io.create(&object, false, &crate::Identity::default()).await.unwrap_err();
    assert!(matches!(error, crate::Error::Unreachable { .. }), "{error:?}");
    assert_eq!(seen.lock().len(), 1);
    member.hear(Heard::Answer(200, Duration::ZERO));
    assert!(member.reach().is_ok());
}

#[tokio::test]
async fn labels_change_without_a_new_connection_and_credentials_with_one() {
    let (members, _) = registry();
    let read = |label: &str, token: &str| {
        let data = [("endpoint", "https://10.0.0.1"), ("token", token)];
        let mut object = secret("edge", "ServiceAccountToken", &data);
        object["metadata"]["labels"]["region"] = json!(label);
        Cluster::of(&serde_json::from_value(object).unwrap(), SecretRules::default())
    };
    let same = |a: &Member, b: &Member| a.is_same_connection(b);
    let now = || Arc::clone(members.snapshot().members().get("edge").unwrap());
    members.put(read("eu", "t"));
    let first = now();
    members.put(read("us", "t"));
    let second = now();
    assert!(same(&first, &second));
    assert_eq!(second.cluster.labels.get("region").map(String::as_str), Some("us"));
    members.put(read("us", "other"));
    assert!(!same(&second, &now()));
    // Who waits for it is woken when it is known whether it answers, not before.
    assert_eq!((now().state(), now().reachable()), (State::Unknown, Reachable::NotYet));
}

/// Whoever has something in front of clusters never gets to one directly, also if it is reachable later.
#[tokio::test]
async fn what_is_in_front_of_clusters_stays_in_front_of_them() {
    let (members, _) = registry();
    let (east, west) = (join(&members, "east", "uid-e"), join(&members, "west", "uid-w"));
    members.synced(true, Some(&["east".to_owned(), "west".to_owned()]));
    west.hear(Heard::Refused("revoked".to_owned()));
    let mut named = Vec::new();
    let through = members.through(members.connecting().clone(), Arc::new(|_, _| {}), |name, _| {
        named.push(name.to_owned());
        fake(|_, _, _| (200, json!({"from": "front"}))).0
    });
    assert_eq!(named, ["east"]);
    let snapshot = through.snapshot();
    assert!(snapshot.is_synced());
    let [front, closed] = ["east", "west"].map(|name| Arc::clone(&snapshot.members()[name]));
    let request = http::Request::get("/api").body(Vec::new()).unwrap();
    let answer = front.reach().unwrap().0.client().request_text(request).await.unwrap();
    assert_eq!(answer, r#"{"from":"front"}"#);
    assert_eq!(front.identified(), east.identified());
    assert_eq!((closed.state(), closed.meant()), (west.state(), west.meant()));
    west.hear(Heard::Answer(200, Duration::ZERO));
    assert!(west.reach().is_ok() && closed.reach().is_err());
    // What becomes of requests to what is in front says nothing of the cluster.
    front.hear(Heard::Refused("no".to_owned()));
    assert!(front.reach().is_err() && east.reach().is_ok());
}
