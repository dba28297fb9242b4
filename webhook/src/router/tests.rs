//! The server as clients meet it, while no API server answers: bodies of every kind, panics, deadlines.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::http::{Request as HttpRequest, Response as HttpResponse};
use futures::stream;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use vela_serve::metrics::Registry;

use super::*;
use crate::config::Settings;
use crate::review::BODY_LIMIT;
use crate::world::{Fact, Need};
use vela_api::DefinitionKind;

const VALIDATE: &str = "/validating-core-oam-dev-v1beta1-applications";
const MUTATE: &str = "/mutating-core-oam-dev-v1beta1-applications";

fn server() -> Arc<Server> {
    let registry = Registry::new("vela-webhook", "test").unwrap();
    let metrics = Metrics::new(&registry).unwrap();
    let silent = tower::service_fn(async |_: HttpRequest<kube::client::Body>| {
        Err::<HttpResponse<kube::client::Body>, tower::BoxError>("no API server".into())
    });
    let live = Live::new(kube::Client::new(silent, "default"), metrics.clone());
    let published = Arc::new(Published::default());
    let worker = json!({
        "kind": "ComponentDefinition",
        "metadata": { "name": "worker" },
        "spec": { "workload": { "type": "deployments.apps" }, "schematic": { "cue": { "template":
            "output: {apiVersion: \"v1\", kind: \"ConfigMap\", data: image: parameter.image}\nparameter: {image: string, port?: int}" } } },
    });
    let definition = crate::snapshot::Definition::new(DefinitionKind::Component, &worker).unwrap();
    let definition = Arc::new(definition);
    let helm = json!({
        "kind": "ComponentDefinition",
        "metadata": { "name": "helmchart" },
        "spec": { "schematic": { "cue": { "template":
            "import \"vela/kube\"\nrender: kube.#Get & {$params: resource: parameter}\noutput: {apiVersion: \"v1\", kind: \"ConfigMap\"}\nparameter: {source: string}" } } },
    });
    let helm =
        Arc::new(crate::snapshot::Definition::new(DefinitionKind::Component, &helm).unwrap());
    let chart = json!({
        "kind": "ComponentDefinition",
        "metadata": { "name": "chart" },
        "spec": { "schematic": { "cue": { "template":
            "import \"vela/helm\"\nrender: helm.#Render & {$params: {parameter, \"context\": {name: context.name, namespace: context.namespace}}}\n\
             output: {apiVersion: \"v1\", kind: \"ConfigMap\"}\nparameter: {chart: {...}, release?: {...}, valuesFrom?: [...{...}], options?: {...}}" } } },
    });
    let chart =
        Arc::new(crate::snapshot::Definition::new(DefinitionKind::Component, &chart).unwrap());
    published.change(|snapshot| {
        snapshot.insert(DefinitionKind::Component, "vela-system", "helmchart", Arc::clone(&helm));
        snapshot.insert(DefinitionKind::Component, "vela-system", "chart", Arc::clone(&chart));
        snapshot.insert(
            DefinitionKind::Component,
            "vela-system",
            "worker",
            Arc::clone(&definition),
        );
    });
    Arc::new(Server::new(
        Engine::new(Settings::default(), true),
        published,
        Pool::new("test", 2, 8).unwrap(),
        live,
        metrics,
        TIMEOUT,
    ))
}

fn review(components: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "operation": "CREATE",
            "namespace": "vela-system",
            "name": "a",
            "userInfo": { "username": "dev", "groups": ["kubevela:dev"] },
            "object": {
                "apiVersion": "core.oam.dev/v1beta1",
                "kind": "Application",
                "metadata": { "name": "a", "namespace": "vela-system" },
                "spec": { "components": components },
            },
        },
    })
}

async fn send(server: &Arc<Server>, path: &str, body: Body) -> Value {
    let request =
        HttpRequest::post(path).header("content-type", "application/json").body(body).unwrap();
    let response = router(Arc::clone(server)).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn admits_and_denies_with_all_reasons() {
    let server = server();
    let good = review(&json!([{ "name": "a", "type": "worker", "properties": { "image": "x" } }]));
    let answer = send(&server, VALIDATE, good.to_string().into()).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    assert_eq!(answer["response"]["uid"], "u-1");

    let bad = review(&json!([
        { "name": "a", "type": "worker", "properties": { "image": 5, "port": "x" } },
        { "name": "a", "type": "worker", "properties": { "image": "x" } },
    ]));
    let answer = send(&server, VALIDATE, bad.to_string().into()).await;
    let fields: Vec<&str> = answer["response"]["status"]["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.components[0].properties.image",
            "spec.components[0].properties.port",
            "spec.components[1].name",
        ]
    );
    assert_eq!(answer["response"]["status"]["code"], 400);
}

#[tokio::test]
async fn identity_is_taken_out_unless_an_administrator_wrote_it() {
    let server = server();
    let mut body = review(&json!([{ "name": "a", "type": "worker" }]));
    body["request"]["userInfo"] = json!({ "username": "dev", "groups": ["a"] });
    body["request"]["object"]["metadata"]["annotations"] =
        json!({ "app.oam.dev/username": "admin", "app.oam.dev/group": "system:masters", "x": "y" });
    let endpoint = endpoints().find(|endpoint| endpoint.path == MUTATE).unwrap();
    let decide = |is_administrator: bool| {
        let (body, published) = (body.to_string(), server.published.load());
        let know = |_: &Need| Fact::Allowed(is_administrator);
        let json = Some("application/json");
        server.engine.review(endpoint, json, body.as_bytes(), &published, know).1
    };
    let decision = decide(false);
    assert_eq!(
        json!(decision.patch),
        json!([
            { "op": "remove", "path": "/metadata/annotations/app.oam.dev~1group" },
            { "op": "remove", "path": "/metadata/annotations/app.oam.dev~1username" },
        ])
    );
    assert_eq!(decision.warnings.len(), 3, "{:?}", decision.warnings);
    assert!(decision.warnings[0].contains("authentication is off"), "{:?}", decision.warnings);
    let decision = decide(true);
    assert_eq!((json!(decision.patch), decision.warnings.len()), (Value::Null, 1));
}

#[tokio::test]
async fn names_of_an_administrator_take_the_stamp_of_an_author_away() {
    let server = server();
    let mut body = review(&json!([{ "name": "a", "type": "worker" }]));
    let stamped = json!({ "app.oam.dev/username": "dev", "app.oam.dev/stamp": "a seal" });
    body["request"]["operation"] = json!("UPDATE");
    body["request"]["object"]["metadata"]["annotations"] = stamped.clone();
    body["request"]["oldObject"] = body["request"]["object"].clone();
    let endpoint = endpoints().find(|endpoint| endpoint.path == MUTATE).unwrap();
    let decide = |user: &str| {
        let mut body = body.clone();
        body["request"]["object"]["metadata"]["annotations"]["app.oam.dev/username"] = json!(user);
        let (body, published) = (body.to_string(), server.published.load());
        let know = |_: &Need| Fact::Allowed(true);
        let json = Some("application/json");
        server.engine.review(endpoint, json, body.as_bytes(), &published, know).1
    };
    let removed = json!([{ "op": "remove", "path": "/metadata/annotations/app.oam.dev~1stamp" }]);
    assert_eq!(json!(decide("guest").patch), removed);
    assert_eq!(json!(decide("dev").patch), Value::Null, "an edit of something else keeps both");
}

#[tokio::test]
async fn what_will_fail_later_is_told_now() {
    let server = server();
    let mut body =
        review(&json!([{ "name": "a", "type": "worker", "properties": { "image": "x" } }]));
    body["request"]["object"]["metadata"]["annotations"] =
        json!({ "app.oam.dev/progress-deadline": "soon" });
    let answer = send(&server, VALIDATE, body.to_string().into()).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let warnings = answer["response"]["warnings"].to_string();
    assert!(warnings.contains("\\\"soon\\\" is neither a duration"), "{warnings}");
}

/// What a published version refers to is in its revision, so the objects may be gone.
#[tokio::test]
async fn what_a_published_version_refers_to_may_be_gone() {
    let server = server();
    let endpoint = endpoints().find(|endpoint| endpoint.path == VALIDATE).unwrap();
    let spec = |workflow: Value, image: &str| {
        json!({ "components": [{ "name": "a", "type": "worker", "properties": { "image": image } }],
            "workflow": workflow })
    };
    let by_name = json!({ "ref": "gone" });
    let by_policy = json!({ "steps": [{ "name": "s", "type": "deploy", "properties": { "policies": ["gone"] } }] });
    for (workflow, field) in [
        (by_name, "spec.workflow.ref"),
        (by_policy, "spec.workflow.steps[0].properties.policies[0]"),
    ] {
        let decide = |versions: [&str; 2]| {
            let mut body = review(&json!([]));
            body["request"]["operation"] = json!("UPDATE");
            body["request"]["oldObject"] = body["request"]["object"].clone();
            for (object, image, version) in
                [("oldObject", "x", versions[0]), ("object", "y", versions[1])]
            {
                body["request"][object]["spec"] = spec(workflow.clone(), image);
                body["request"][object]["metadata"]["annotations"] =
                    json!({ "app.oam.dev/publishVersion": version });
            }
            let (body, published) = (body.to_string(), server.published.load());
            let know = |need: &Need| match need {
                Need::Object { .. } => Fact::Object(None),
                _ => Fact::Allowed(true),
            };
            let json = Some("application/json");
            server.engine.review(endpoint, json, body.as_bytes(), &published, know).1
        };
        let named = |all: &[String]| all.iter().any(|it| it.contains(field) && it.contains("gone"));
        let stays = decide(["v1", "v1"]);
        assert!(named(&stays.warnings), "{:?}", stays.warnings);
        assert!(!named(&[stays.message]));
        for versions in [["v1", "v2"], ["", ""], ["", "v1"], ["v1", ""]] {
            let refused = decide(versions);
            assert!(!refused.allowed && named(&[refused.message]), "{versions:?}");
        }
    }
}

#[tokio::test]
async fn a_version_that_cannot_be_recorded_is_told() {
    let server = server();
    let reported = async |version: &str| {
        let mut body =
            review(&json!([{ "name": "a", "type": "worker", "properties": { "image": "x" } }]));
        body["request"]["object"]["metadata"]["annotations"] =
            json!({ "app.oam.dev/publishVersion": version });
        let answer = send(&server, VALIDATE, body.to_string().into()).await;
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        answer["response"]["warnings"].to_string().contains("cannot be part of an object's name")
    };
    for version in ["V2", "a b", "1+2", "1_2", ".1", "1.", "1..2", "é", &"1".repeat(250)] {
        assert!(reported(version).await, "{version}");
    }
    for version in ["", "v2", "1.2.3-rc.1", "-1-", "2026-11-23"] {
        assert!(!reported(version).await, "{version}");
    }
}

#[tokio::test]
async fn a_component_that_asks_the_cluster_is_refused_unless_it_is_there_already() {
    let server = server();
    let chart = |source: &str| json!({ "name": "h", "type": "helmchart", "properties": { "source": source } });
    let worker = json!({ "name": "w", "type": "worker", "properties": { "image": "x" } });
    let both = |source: &str| json!([chart(source), worker]);
    let update = |old: &Value, new: &Value| {
        let mut body = review(new);
        let stored = review(old)["request"]["object"].clone();
        body["request"]["operation"] = json!("UPDATE");
        body["request"]["oldObject"] = stored;
        body.to_string()
    };
    for refused in [
        review(&both("a")).to_string(),
        update(&json!([worker]), &both("a")),
        update(&both("a"), &both("b")),
    ] {
        let answer = send(&server, VALIDATE, refused.into()).await;
        let cause = &answer["response"]["status"]["details"]["causes"][0];
        assert_eq!(cause["field"], "spec.components[0].type", "{answer}");
        assert!(cause["message"].to_string().contains("calls the provider"), "{answer}");
    }
    let answer = send(&server, VALIDATE, update(&json!([chart("a")]), &both("a")).into()).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let warnings = answer["response"]["warnings"].to_string();
    assert!(warnings.contains("calls the provider"), "{warnings}");
}

#[tokio::test]
async fn what_a_chart_says_wrong_itself_is_told_at_once_and_nothing_is_fetched() {
    let server = server();
    let chart = |name: &str, properties: Value| json!({ "name": name, "type": "chart", "properties": properties });
    let source = |version: &str| json!({ "source": "web", "repoURL": "https://charts.example", "version": version });
    let wrong = json!([chart(
        "web",
        json!({
            "chart": source("one"),
            "valuesFrom": [{ "kind": "ConfigMap", "name": "a" }, { "kind": "Secret", "name": "b", "namespace": "vault" }],
            "options": { "timeout": "soon" },
        })
    )]);
    let answer = send(&server, VALIDATE, review(&wrong).to_string().into()).await;
    let causes = answer["response"]["status"]["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "spec.components[0].properties.chart.version",
            "spec.components[0].properties.options.timeout",
            "spec.components[0].properties.valuesFrom[1].namespace",
        ],
        "{answer}"
    );
    let both = json!([
        chart("web", json!({ "chart": source("1.x"), "release": { "name": "one" } })),
        chart("two", json!({ "chart": source(""), "release": { "name": "one" } })),
    ]);
    let answer = send(&server, VALIDATE, review(&both).to_string().into()).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let warnings = answer["response"]["warnings"].to_string();
    assert!(
        warnings.contains("spec.components[1]: component \\\"web\\\" is also release"),
        "{warnings}"
    );
}

#[tokio::test]
async fn a_step_that_applies_no_name_is_refused_unless_an_input_may_mend_it() {
    let server = server();
    let apply = |inputs: &Value| {
        let components = json!([{ "name": "a", "type": "worker", "properties": { "image": "x" } }]);
        let mut body = review(&components);
        body["request"]["object"]["spec"]["workflow"] = json!({ "steps": [{
            "name": "s", "type": "apply-component", "properties": { "component": 5 }, "inputs": inputs,
        }] });
        body.to_string()
    };
    let answer = send(&server, VALIDATE, apply(&Value::Null).into()).await;
    let cause = &answer["response"]["status"]["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.workflow.steps[0].properties.component", "{answer}");
    let inputs = json!([{ "from": "context.name", "parameterKey": "component" }]);
    let answer = send(&server, VALIDATE, apply(&inputs).into()).await;
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    assert!(answer["response"]["warnings"].to_string().contains("the name of a component"));
}

#[tokio::test]
async fn what_is_no_review_is_answered_in_one() {
    let server = server();
    let answer = send(&server, VALIDATE, Body::empty()).await;
    assert_eq!(answer["response"]["status"]["message"], "request body is empty");
    let answer = send(&server, VALIDATE, vec![b' '; BODY_LIMIT + 1].into()).await;
    assert_eq!(answer["response"]["status"]["code"], 413);
    // of unknown length: nothing is kept beyond the limit, and what follows is read for a while only
    let sent = Arc::new(AtomicUsize::new(0));
    let endless = stream::repeat_with({
        let sent = Arc::clone(&sent);
        move || {
            sent.fetch_add(1 << 20, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20]))
        }
    });
    let answer = send(&server, VALIDATE, Body::from_stream(endless)).await;
    assert_eq!(answer["response"]["status"]["code"], 413);
    assert!(sent.load(Ordering::Relaxed) <= BODY_LIMIT + (17 << 20));
    for malformed in ["{", "[]", "null", "\"x\"", "{\"request\": 5}", "\u{0}", "{} {}"] {
        let answer = send(&server, VALIDATE, malformed.into()).await;
        assert_eq!(answer["response"]["allowed"], false, "{malformed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_gets_an_answer_and_frees_its_place() {
    let server = server();
    let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let request = HttpRequest::post(format!("{VALIDATE}?timeout=2s"))
        .header("content-type", "application/json")
        .body(silent)
        .unwrap();
    let response = router(Arc::clone(&server)).oneshot(request).await.unwrap();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(answer["response"]["status"]["code"], 408);
    let in_flight = server.metrics.in_flight.with_label_values(&[VALIDATE]);
    assert_eq!(in_flight.get(), 0);
}

#[tokio::test]
async fn fuzzed_reviews_never_panic() {
    let server = server();
    let sound = review(&json!([{ "name": "a", "type": "worker", "properties": { "image": "x" }, "traits": [{ "type": "t" }] }])).to_string();
    // a small generator of one's own: the same bytes on every machine
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    const NOISE: &[u8] = b"{}[]\":,0-9.eEtrufalsn\\ \x00\xff";
    for _ in 0..2_000 {
        let mut bytes = sound.clone().into_bytes();
        for _ in 0..=next() % 4 {
            let at = next() % bytes.len();
            match next() % 3 {
                0 => bytes[at] = NOISE[next() % NOISE.len()],
                1 => bytes.insert(at, NOISE[next() % NOISE.len()]),
                _ => drop(bytes.drain(at..(at + next() % 20).min(bytes.len()))),
            }
        }
        if bytes.is_empty() {
            continue;
        }
        let path = if next() % 2 == 0 { VALIDATE } else { MUTATE };
        send(&server, path, bytes.into()).await;
    }
    assert_eq!(server.metrics.panics.get(), 0);
}

#[tokio::test]
async fn a_review_that_meets_its_deadline_is_answered_with_its_uid() {
    let server = server();
    // Both threads and all places of the queue are taken: the review is not even read.
    let busy = Arc::new(std::sync::Barrier::new(3));
    let jobs: Vec<_> = (0..2)
        .map(|_| {
            let (server, busy) = (Arc::clone(&server), Arc::clone(&busy));
            tokio::spawn(async move {
                let end = Instant::now() + Duration::from_secs(60);
                server.pool.run(end, move |_| (busy.wait(), busy.wait())).await
            })
        })
        .collect();
    tokio::task::spawn_blocking({
        let busy = Arc::clone(&busy);
        move || busy.wait()
    })
    .await
    .unwrap();
    let body = review(&json!([{ "name": "a", "type": "worker", "properties": { "image": "x" } }]));
    let answer = send(&server, &format!("{VALIDATE}?timeout=20ms"), body.to_string().into()).await;
    let response = &answer["response"];
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1", "{answer}");
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
    assert_eq!(response["status"]["code"], 504);
    assert_eq!(response["status"]["message"], messages::DEADLINE);
    tokio::task::spawn_blocking(move || busy.wait()).await.unwrap();
    for job in jobs {
        assert!(job.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_size_and_its_limit() {
    let server = server();
    let definition = |template: &str, more: usize| {
        json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
            "metadata": { "name": "t", "annotations": { "more": "x".repeat(more) } },
            "spec": { "schematic": { "cue": { "template": template } } },
        })
    };
    let template = |len: usize| format!("patch: {{}}\nparameter: {{}}\n//{}", "x".repeat(len));
    let large = definition(&template(300_000), 0);
    let trait_ = async |object: &Value, old: Option<&Value>| {
        let body = json!({ "request": {
            "uid": "u-1", "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "resource": { "group": "core.oam.dev", "version": "v1beta1", "resource": "traitdefinitions" },
            "object": object, "oldObject": old,
        } });
        send(&server, "/validating-core-oam-dev-v1beta1-traitdefinitions", body.to_string().into())
            .await["response"]
            .clone()
    };
    for (object, old, reported) in [
        (definition(&template(200_000), 0), None, None),
        (
            large.clone(),
            None,
            Some("spec.schematic.cue.template is 300026 bytes long, at most 262144 are admitted"),
        ),
        (definition("patch: {}", 600_000), None, Some("at most 524288 are admitted")),
        (large.clone(), Some(large.clone()), None),
        (definition(&template(299_999), 0), Some(large.clone()), None),
        (definition(&template(300_001), 0), Some(large), Some("at most 262144 are admitted")),
    ] {
        let response = trait_(&object, old.as_ref()).await;
        assert_eq!(response["allowed"], reported.is_none(), "{response}");
        if let Some(reported) = reported {
            assert_eq!(response["status"]["code"], 413);
            assert!(response["status"]["message"].to_string().contains(reported), "{response}");
        }
    }
    let app = |len: usize| {
        let image = "x".repeat(len);
        review(&json!([{ "name": "a", "type": "worker", "properties": { "image": image } }]))
    };
    for (len, allowed) in [(1_000_000, true), (1_100_000, false)] {
        let answer = send(&server, VALIDATE, app(len).to_string().into()).await;
        assert_eq!(answer["response"]["allowed"], allowed, "{len}");
        let message = answer["response"]["status"]["message"].to_string();
        assert_eq!(message.contains("Application is"), !allowed, "{message}");
    }
}

#[test]
fn the_allowance_leaves_time_for_the_way() {
    for (query, longest, milliseconds) in [
        (None, 10, 9_500),
        (Some("timeout=10s"), 10, 9_500),
        (Some("a=b&timeout=3s"), 10, 2_500),
        (Some("timeout=600ms"), 10, 300),
        (Some("timeout=0s"), 10, 9_500),
        (Some("timeout=rubbish"), 10, 9_500),
        (Some("timeout=30s"), 10, 9_500),
        (Some("timeout=1h"), 30, 29_500),
        (None, 5, 4_500),
    ] {
        let allowed = allowance(query, Duration::from_secs(longest));
        assert_eq!(allowed.as_millis(), milliseconds, "{query:?}");
    }
}
