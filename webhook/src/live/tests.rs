//! Tests of live reads, with a fake API server: the requests, their number, and the use of the answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tower::service_fn;
use vela_serve::metrics::Registry;

use super::*;

/// Requests as the API server saw them: method, path and what kind of answer is wanted.
type Seen = Arc<Mutex<Vec<String>>>;

fn live(
    pause: Duration,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
) -> (Live, Seen, Arc<AtomicUsize>) {
    let (seen, most) = (Seen::default(), Arc::new(AtomicUsize::new(0)));
    let now = Arc::new(AtomicUsize::new(0));
    let (requests, busiest, answer) = (Arc::clone(&seen), Arc::clone(&most), Arc::new(answer));
    let service = service_fn(move |request: Request<Body>| {
        let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
        let (now, busiest) = (Arc::clone(&now), Arc::clone(&busiest));
        async move {
            let accept = request.headers().get("accept").and_then(|value| value.to_str().ok());
            let part = if accept.is_some_and(|value| value.contains("PartialObjectMetadata")) {
                " metadata"
            } else {
                ""
            };
            let path = request.uri().path().to_owned();
            requests.lock().push(format!("{} {path}{part}", request.method()));
            busiest.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            now.fetch_sub(1, Ordering::Relaxed);
            let (code, value) = answer(&path);
            let body = Body::from(serde_json::to_vec(&value)?);
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    let registry = Registry::new("vela-webhook", "test").unwrap();
    let client = Client::new(service, "default");
    (Live::new(client, Metrics::new(&registry).unwrap()), seen, most)
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason }),
    )
}

fn map(name: &str) -> Need {
    Need::Exists {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        namespace: "n".to_owned(),
        name: name.to_owned(),
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn only_metadata_is_asked_for_and_names_are_no_paths() {
    let (live, seen, _) = live(Duration::ZERO, |path| match path.rsplit('/').next() {
        Some("here") => (
            200,
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": { "name": "here" } }),
        ),
        Some("hidden") => refused(403, "Forbidden"),
        Some("broken") => refused(500, "InternalError"),
        _ => refused(404, "NotFound"),
    });
    let names = ["here", "gone", "hidden", "broken", "..", "a/../../b", "a?b", ""];
    let mut reported: Vec<String> = Vec::new();
    for name in names {
        let facts = live.know([map(name)], soon()).await;
        reported.push(format!("{:?}", facts[0].1));
    }
    let no = "Exists(false)";
    assert_eq!(reported[..3], ["Exists(true)", no, "Unreadable"]);
    assert!(reported[3].starts_with("Failed"), "{reported:?}");
    assert_eq!(reported[4..], [no, no, no, no]);
    let expected = |name: &str| format!("GET /api/v1/namespaces/n/configmaps/{name} metadata");
    assert_eq!(*seen.lock(), names[..4].iter().map(|name| expected(name)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn few_requests_at_a_time_and_none_when_patience_is_over() {
    let (live, seen, most) = live(Duration::from_secs(1), |_| refused(404, "NotFound"));
    let names: Vec<String> = (0..1000).map(|n| format!("c{n}")).collect();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(2500);
    let facts = live.know(names.iter().map(|name| map(name)), deadline.into_std()).await;
    assert_eq!(facts.len(), 1000);
    let of = |wanted: fn(&Fact) -> bool| facts.iter().filter(|(_, fact)| wanted(fact)).count();
    assert_eq!(of(|fact| matches!(fact, Fact::Exists(false))), 2 * PARALLEL);
    assert_eq!(of(|fact| matches!(fact, Fact::Failed(_))), 1000 - 2 * PARALLEL);
    assert_eq!(most.load(Ordering::Relaxed), PARALLEL);
    assert_eq!(seen.lock().len(), 3 * PARALLEL, "nothing is sent that nobody waits for");
}

#[tokio::test]
async fn a_permission_is_remembered_for_each_user_and_object() {
    let (live, seen, _) = live(Duration::ZERO, |_| {
        (
            201,
            json!({ "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {}, "status": { "allowed": true } }),
        )
    });
    let need = |user: &str, name: &str| Need::Permission {
        user: user.to_owned(),
        groups: Vec::new(),
        access: Access {
            verb: "get",
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        },
    };
    for (user, name, requests) in [("a", "x", 1), ("a", "x", 1), ("b", "x", 2), ("a", "y", 3)] {
        let facts = live.know([need(user, name)], soon()).await;
        assert!(matches!(facts[0].1, Fact::Allowed(true)));
        assert_eq!(seen.lock().len(), requests, "{user} {name}");
    }
}

#[tokio::test]
async fn an_unknown_name_is_looked_for_again_but_not_for_everybody_who_invents_one() {
    let (live, seen, _) = live(Duration::ZERO, |path| match path {
        "/apis" => (
            200,
            json!({ "groups": [{ "name": "apps", "preferredVersion": { "groupVersion": "apps/v1" } }] }),
        ),
        "/api/v1" => (
            200,
            json!({ "resources": [{ "name": "configmaps", "kind": "ConfigMap", "namespaced": true }] }),
        ),
        "/apis/apps/v1" => (
            200,
            json!({ "resources": [{ "name": "deployments", "kind": "Deployment", "namespaced": true }] }),
        ),
        _ => refused(404, "NotFound"),
    });
    let ask = async |group: &str, name: &str| {
        let need = Need::Named { group: group.to_owned(), name: name.to_owned() };
        live.know([need], soon()).await.remove(0).1
    };
    let found = ask("", "configmap").await;
    assert!(matches!(&found, Fact::Resource(Some(resource)) if resource.plural == "configmaps"));
    let near = ask("", "configmapz").await;
    assert!(matches!(&near, Fact::NoResource(Some(name)) if name == "configmaps"), "{near:?}");
    assert!(matches!(ask("apps", "configmap").await, Fact::NoResource(None)));
    let lists = || seen.lock().iter().filter(|line| line.as_str() == "GET /api/v1").count();
    let before = lists();
    for n in 0..50 {
        ask("", &format!("invented{n}")).await;
    }
    assert_eq!(lists(), before, "what is served is not listed again for each");
}
