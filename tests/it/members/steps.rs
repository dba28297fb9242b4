//! Steps, policies and components that name clusters.

use std::time::Duration;

use kube::api::PostParams;
use serde_json::{Value, json};
use vela_tests::deploy::apply;
use vela_tests::fixtures::until;
use vela_tests::link::Mode;
use vela_tests::members::{Fleet, LIMIT, NAMESPACE, Space, fleet};

fn component(name: &str, value: &str) -> Value {
    json!({"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}]}})
}

/// An Application of one component of ConfigMaps.
fn app(namespace: &str, name: &str, spec: &Value) -> Value {
    let mut app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"components": [component(name, "1")]}});
    for (key, value) in spec.as_object().unwrap() {
        app["spec"][key] = value.clone();
    }
    app
}

/// In which clusters a ConfigMap is.
async fn clusters(space: &Space, name: &str) -> Vec<&'static str> {
    let mut all = Vec::new();
    for cluster in ["local", "east", "west"] {
        if space.value(cluster, name).await.is_some() {
            all.push(cluster);
        }
    }
    all
}

/// Deploys, compares the clusters, deletes, and compares again.
async fn deploys(space: &Space, app: &Value, wanted: &[&str]) {
    let name = app["metadata"]["name"].as_str().unwrap();
    space.apply(app).await.unwrap();
    space.runs(name).await;
    assert_eq!(clusters(space, name).await, wanted, "{name}");
    space.delete(name).await;
    assert!(clusters(space, name).await.is_empty(), "{name}");
}

#[tokio::test]
async fn every_step_that_names_clusters_deploys_there() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("steps").await.unwrap();
    let step = |kind: &str, properties: Value| json!({"workflow": {"steps": [{"name": "s", "type": kind, "properties": properties}]}});
    let component = step("apply-component", json!({"component": "c", "cluster": "east"}));
    deploys(&space, &app("steps", "apply-component", &component), &["east"]).await;
    let some = step("deploy2runtime", json!({"clusters": ["east", "local"]}));
    deploys(&space, &app("steps", "runtime-some", &some), &["local", "east"]).await;
    // Without names all that joined, and not the own one.
    deploys(
        &space,
        &app("steps", "runtime-all", &step("deploy2runtime", json!({}))),
        &["east", "west"],
    )
    .await;
    let object = json!({"cluster": "west", "value": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "apply-object", "namespace": "steps"}, "data": {"v": "1"}}});
    let mut apply_object = app("steps", "apply-object", &step("apply-object", object));
    apply_object["spec"]["components"] = json!([]);
    deploys(&space, &apply_object, &["west"]).await;
    let two = json!({
        "policies": [
            {"name": "one", "type": "topology", "properties": {"clusters": ["east"]}},
            {"name": "two", "type": "topology", "properties": {
                "clusterLabelSelector": {"cluster.core.oam.dev/control-plane": "true"}}}]});
    deploys(&space, &app("steps", "policies", &two), &["local", "east"]).await;
    // An unknown name is an error, and a cluster of that name mends it.
    let typo = step("apply-component", json!({"component": "c", "cluster": "oriental"}));
    space.apply(&app("steps", "typo", &typo)).await.unwrap();
    until("the error", LIMIT, async || {
        space.app("typo").await["status"].to_string().contains("oriental")
    })
    .await;
    space.delete("typo").await;
}

/// `env-binding` with `deploy2env`: where the environment is, and what its components are.
#[tokio::test]
async fn environments_are_in_clusters() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("envs").await.unwrap();
    let spec = json!({
        "policies": [{"name": "envs", "type": "env-binding", "properties": {"envs": [
            {"name": "test", "placement": {"clusterSelector": {"name": "east"}}},
            {"name": "prod", "placement": {"clusterSelector": {"name": "west"}}, "patch": {"components": [
                {"name": "c", "type": "k8s-objects", "properties": {"objects": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "envs"}, "data": {"v": "prod"}}]}}]}}]}}],
        "workflow": {"steps": [
            {"name": "test", "type": "deploy2env", "properties": {"policy": "envs", "env": "test"}},
            {"name": "prod", "type": "deploy2env", "properties": {"policy": "envs", "env": "prod"}}]}});
    space.apply(&app("envs", "envs", &spec)).await.unwrap();
    space.runs("envs").await;
    assert_eq!(space.value("east", "envs").await.as_deref(), Some("1"));
    assert_eq!(space.value("west", "envs").await.as_deref(), Some("prod"));
    assert_eq!(space.value("local", "envs").await, None);
    let status = space.app("envs").await["status"]["policy"].to_string();
    assert!(status.contains("east") && status.contains("west"), "{status}");
    space.delete("envs").await;
}

/// Copies of a component are in every placement.
#[tokio::test]
async fn copies_are_in_every_cluster() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("copies").await.unwrap();
    define(fleet, "copied", "context.replicaKey").await;
    let spec = json!({
        "components": [{"name": "c", "type": "copied"}],
        "policies": [
            {"name": "places", "type": "topology", "properties": {"clusters": ["local", "east"]}},
            {"name": "copies", "type": "replication", "properties": {"selector": ["c"], "keys": ["x", "y"]}}],
        "workflow": {"steps": [{"name": "s", "type": "deploy",
            "properties": {"policies": ["places", "copies"]}}]}});
    space.apply(&app("copies", "copies", &spec)).await.unwrap();
    space.runs("copies").await;
    for cluster in ["local", "east"] {
        for key in ["x", "y"] {
            assert_eq!(space.value(cluster, &format!("copied-{key}")).await.as_deref(), Some(key));
        }
    }
    assert_eq!(space.value("west", "copied-x").await, None);
    space.delete("copies").await;
}

/// A trait that makes a ConfigMap in a stage of a component.
async fn define_stage(fleet: &Fleet, stage: &str) {
    let name = stage.to_lowercase();
    let template = format!(
        "outputs: map: {{apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"a-{name}\", data: v: parameter.v}}\n\
         parameter: v: string"
    );
    let definition = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"stage": stage, "schematic": {"cue": {"template": template}}}});
    apply(&fleet.client(), &definition).await.unwrap();
}

/// A component goes from stage to stage in each cluster on its own: one that is slow holds up no other.
#[tokio::test]
async fn stages_of_one_cluster_wait_for_no_other() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("stages").await.unwrap();
    for stage in ["PreDispatch", "PostDispatch"] {
        define_stage(fleet, stage).await;
    }
    let edit = async |value: &str| {
        let traits = ["predispatch", "postdispatch"]
            .map(|name| json!({"type": name, "properties": {"v": value}}));
        let mut component = component("a", value);
        component["traits"] = json!(traits);
        let spec = json!({"components": [component],
            "policies": [{"name": "both", "type": "topology", "properties": {"clusters": ["east", "west"]}}]});
        until("the Application to be taken", LIMIT, async || {
            space.apply(&app("stages", "a", &spec)).await.is_ok()
        })
        .await;
    };
    let values = async |cluster: &str| {
        let mut values = Vec::new();
        for name in ["a-predispatch", "a", "a-postdispatch"] {
            values.push(space.value(cluster, name).await.unwrap_or_default());
        }
        values
    };
    edit("1").await;
    space.runs("a").await;
    for cluster in ["east", "west"] {
        assert_eq!(values(cluster).await, ["1", "1", "1"], "{cluster}");
    }
    // What is sent arrives later than all stages take elsewhere.
    fleet.east.link.set(Mode::Delay(Duration::from_secs(4)));
    edit("2").await;
    until("all stages in the other cluster", LIMIT, async || {
        values("west").await == ["2", "2", "2"]
    })
    .await;
    assert_eq!(values("east").await, ["1", "1", "1"]);
    fleet.east.link.set(Mode::Pass);
    space.runs("a").await;
    assert_eq!(values("east").await, ["2", "2", "2"]);
    space.delete("a").await;
}

/// A definition of a ConfigMap that says what an expression comes to.
async fn define(fleet: &Fleet, name: &str, expression: &str) {
    let template = format!(
        "output: {{apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"{name}\" + _key, data: v: \"\\({expression})\"}}\n\
         _key: *\"\" | string\n\
         if context.replicaKey != _|_ {{ if context.replicaKey != \"\" {{ _key: \"-\" + context.replicaKey }} }}\n\
         parameter: {{}}"
    );
    let definition = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"workload": {"definition": {"apiVersion": "v1", "kind": "ConfigMap"}},
            "schematic": {"cue": {"template": template}}}});
    apply(&fleet.client(), &definition).await.unwrap();
}

/// Templates see the cluster they are rendered for, and its version.
#[tokio::test]
async fn templates_see_their_cluster_and_its_version() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("context").await.unwrap();
    define(fleet, "cluster-name", "context.cluster").await;
    define(fleet, "cluster-version", "context.clusterVersion.gitVersion").await;
    let spec = json!({
        "components": [{"name": "a", "type": "cluster-name"}, {"name": "b", "type": "cluster-version"}],
        "policies": [{"name": "places", "type": "topology", "properties": {"clusters": ["local", "east", "west"]}}]});
    until("the Application to be taken", LIMIT, async || {
        space.apply(&app("context", "context", &spec)).await.is_ok()
    })
    .await;
    space.runs("context").await;
    for cluster in ["local", "east", "west"] {
        assert_eq!(space.value(cluster, "cluster-name").await.as_deref(), Some(cluster));
        let version = space.value(cluster, "cluster-version").await.unwrap();
        assert!(version.starts_with("v1."), "{version}");
    }
    space.delete("context").await;
}

/// Objects of another cluster are read there.
#[tokio::test]
async fn objects_are_referred_to_where_they_are() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("referred").await.unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"},
        "data": {"v": "of the east"}});
    let maps = space.objects("east", "v1", "ConfigMap");
    maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let spec = json!({
        "components": [{"name": "c", "type": "ref-objects", "properties": {"objects": [
            {"resource": "configmap", "name": "source", "cluster": "east"}]}}],
        "policies": [{"name": "places", "type": "topology", "properties": {"clusters": ["west"]}}]});
    space.apply(&app("referred", "referred", &spec)).await.unwrap();
    space.runs("referred").await;
    assert_eq!(space.value("west", "source").await.as_deref(), Some("of the east"));
    space.delete("referred").await;
    assert_eq!(space.value("west", "source").await, None);
    // What was read is nobody's.
    assert!(space.value("east", "source").await.is_some());
}

/// The connection Secret of an environment is copied to where it is asked for.
#[tokio::test]
async fn cloud_resources_are_shared_with_clusters() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("cloud").await.unwrap();
    let definition = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
        "metadata": {"name": "shared-bucket", "namespace": NAMESPACE,
            "labels": {"type": "terraform"}, "annotations": {"definition.oam.dev/description": "a bucket"}},
        "spec": {"workload": {"definition": {"apiVersion": "v1", "kind": "ConfigMap"}},
            "schematic": {"terraform": {"configuration": "resource \"example_bucket\" \"b\" {}"}}}});
    apply(&fleet.client(), &definition).await.unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "bucket-prod", "namespace": "cloud"}, "stringData": {"BUCKET": "mine"}});
    apply(&fleet.client(), &secret).await.unwrap();
    let spec = json!({
        "components": [{"name": "b", "type": "shared-bucket",
            "properties": {"writeConnectionSecretToRef": {"name": "bucket"}}}],
        "policies": [{"name": "envs", "type": "env-binding", "properties": {"envs": [
            {"name": "prod", "placement": {"clusterSelector": {"name": "local"}}}]}}],
        "workflow": {"steps": [{"name": "share", "type": "share-cloud-resource", "properties": {
            "policy": "envs", "env": "prod", "placements": [{"cluster": "east"}]}}]}});
    until("the Application to be taken", LIMIT, async || {
        space.apply(&app("cloud", "cloud", &spec)).await.is_ok()
    })
    .await;
    space.runs("cloud").await;
    let there = space.objects("east", "v1", "Secret").get("bucket").await.unwrap();
    assert_eq!(there.data["data"]["BUCKET"], "bWluZQ==");
    assert!(space.objects("west", "v1", "Secret").get_opt("bucket").await.unwrap().is_none());
    space.delete("cloud").await;
}
