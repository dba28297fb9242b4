//! A rollout as a collector of traces sees it: one trace, part of the pipeline's.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options};
use vela_tests::fixtures::binaries;
use vela_tests::wire::message;

const LIMIT: Duration = Duration::from_secs(60);

/// The spans of the next request.
async fn next_trace(listener: &TcpListener) -> Vec<Span> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (_, body) = message(&mut stream).await.expect("the request breaks off");
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let sent = ExportTraceServiceRequest::decode(&body[..]).unwrap();
    let scopes = sent.resource_spans.into_iter().flat_map(|one| one.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

#[tokio::test]
async fn a_rollout_is_part_of_the_trace_of_its_pipeline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = Cluster::start("traces").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let options = Options {
        controller_env: vec![("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint)],
        ..Options::default()
    };
    let _deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application"));
    let apps = kube::Api::<DynamicObject>::namespaced_with(
        cluster.client().await.unwrap(),
        "default",
        &kind,
    );
    let step = |name: &str, kind: &str, properties: serde_json::Value| json!({"name": name, "type": kind, "properties": properties});
    let app: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": {"name": "shop", "annotations": {
            "app.oam.dev/traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
        "spec": {
            "components": [
                {"name": "web", "type": "webservice", "properties": {"image": "nginx"}},
                {"name": "settings", "type": "k8s-objects", "properties": {"objects": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}]}},
            ],
            "workflow": {"steps": [
                step("first", "apply-component", json!({"component": "settings"})),
                step("say", "print-message-in-status", json!({"message": "half way"})),
                step("then", "apply-component", json!({"component": "web"})),
            ]},
        },
    }))
    .unwrap();
    apps.create(&PostParams::default(), &app).await.unwrap();
    let spans = tokio::time::timeout(LIMIT, next_trace(&listener)).await.expect("a trace arrives");

    let names: BTreeMap<&[u8], &str> =
        spans.iter().map(|span| (&*span.span_id, &*span.name)).collect();
    let mut edges: Vec<String> = spans
        .iter()
        .map(|span| {
            let parent = names.get(&*span.parent_span_id).copied().unwrap_or("the pipeline");
            format!("{parent} > {}", span.name)
        })
        .collect();
    edges.sort();
    let wanted = [
        "component settings > ConfigMap settings",
        "component web > Deployment web",
        "rollout default/shop > step first",
        "rollout default/shop > step say",
        "rollout default/shop > step then",
        "step first > component settings",
        "step then > component web",
        "the pipeline > rollout default/shop",
    ];
    assert_eq!(edges, wanted);
    let root = spans.iter().find(|span| span.name == "rollout default/shop").unwrap();
    assert_eq!(root.parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    for span in &spans {
        assert_eq!(span.trace_id, root.trace_id, "{span:?}");
        let within = root.start_time_unix_nano..=root.end_time_unix_nano;
        assert!(within.contains(&span.start_time_unix_nano), "{span:?}");
        assert!(within.contains(&span.end_time_unix_nano), "{span:?}");
    }
    // What objects inherit says nothing of it.
    let client = cluster.client().await.unwrap();
    let deployments =
        kube::Api::<k8s_openapi::api::apps::v1::Deployment>::namespaced(client, "default");
    let annotations =
        deployments.get("web").await.unwrap().metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("app.oam.dev/traceparent"), "{annotations:?}");
}
