//! Charts on members: a release is where its component is placed, with its records, and nowhere else.

use kube::api::ListParams;
use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Settings};
use vela_tests::fixtures::until;
use vela_tests::members::{LIMIT, Space, fleet};

const MAP: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-map
data:
  v: {{ .Values.v | quote }}
  seen: {{ (lookup "v1" "ConfigMap" .Release.Namespace "marker").data | toJson | quote }}
"#;

fn application(space_name: &str, server: &ChartServer, clusters: &[&str], v: &str) -> Value {
    let chart = json!({
        "source": "web", "version": "1.0.0", "repoURL": format!("http://{}/charts", server.address()),
    });
    let properties = json!({"chart": chart, "release": {"name": "web"}, "values": {"v": v}});
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "a", "namespace": space_name}, "spec": {
        "components": [{"name": "web", "type": "helmchart", "properties": properties}],
        "policies": [{"name": "where", "type": "topology", "properties": {"clusters": clusters}}]}})
}

/// The statuses of a release's records in a cluster, the oldest first.
async fn records(space: &Space, cluster: &str) -> Vec<String> {
    let list = ListParams::default().labels("owner=helm,name=web");
    let found = space.objects(cluster, "v1", "Secret").list(&list).await.unwrap();
    let label = |labels: &std::collections::BTreeMap<String, String>, key: &str| {
        labels.get(key).cloned().unwrap_or_default()
    };
    let mut all: Vec<(i64, String)> = found
        .items
        .into_iter()
        .map(|secret| secret.metadata.labels.unwrap_or_default())
        .map(|labels| (label(&labels, "version").parse().unwrap(), label(&labels, "status")))
        .collect();
    all.sort();
    all.into_iter().map(|(_, status)| status).collect()
}

#[tokio::test]
async fn a_release_is_where_its_component_is_placed() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("charts").await.unwrap();
    let server = ChartServer::start(Settings::default()).await.unwrap();
    server
        .publish("web", "1.0.0", &[("values.yaml", "v: x\n"), ("templates/map.yaml", MAP)])
        .unwrap();
    for cluster in ["local", "east"] {
        let marker = json!({"metadata": {"name": "marker"}, "data": {"of": cluster}});
        let marker = serde_json::from_value(marker).unwrap();
        let maps = space.objects(cluster, "v1", "ConfigMap");
        maps.create(&kube::api::PostParams::default(), &marker).await.unwrap();
    }
    space.apply(&application("charts", &server, &["east"], "1")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "web-map").await.as_deref(), Some("1"));
    assert_eq!(space.value("local", "web-map").await, None, "not in the hub as well");
    assert_eq!(records(&space, "east").await, ["deployed"]);
    assert_eq!(records(&space, "local").await, [""; 0]);
    let map = space.objects("east", "v1", "ConfigMap").get("web-map").await.unwrap();
    assert_eq!(map.data["data"]["seen"], r#"{"of":"east"}"#, "lookup reads in the member");

    space.apply(&application("charts", &server, &["east"], "2")).await.unwrap();
    until("the second revision", LIMIT, async || {
        records(&space, "east").await == ["superseded", "deployed"]
    })
    .await;
    assert_eq!(space.value("east", "web-map").await.as_deref(), Some("2"));

    // Placed elsewhere: a release there, and none where it was.
    space.apply(&application("charts", &server, &["west"], "2")).await.unwrap();
    until("the release to move", LIMIT, async || {
        records(&space, "west").await == ["deployed"]
            && records(&space, "east").await.is_empty()
            && space.value("east", "web-map").await.is_none()
    })
    .await;
    assert_eq!(space.value("west", "web-map").await.as_deref(), Some("2"));
    space.delete("a").await;
    assert_eq!(space.value("west", "web-map").await, None);
    assert_eq!(records(&space, "west").await, [""; 0]);
}
