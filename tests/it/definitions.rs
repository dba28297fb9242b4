//! Definitions with errors: refused with the line and the reason where admission can see it, reported
//! by the Application that needs them where it cannot; what runs already is left alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::fixtures::{Space, until};

const GOOD: &str = "\
output: {
	apiVersion: \"v1\"
	kind:       \"ConfigMap\"
	data: v: parameter.v
}
parameter: v: string
";

fn definition(template: &str) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "ComponentDefinition",
        "metadata": { "name": "text" },
        "spec": {
            "workload": { "definition": { "apiVersion": "v1", "kind": "ConfigMap" } },
            "schematic": { "cue": { "template": template } },
        },
    })
}

async fn redefine(space: &Space, template: &str) -> Result<(), String> {
    let api = space.objects("core.oam.dev/v1beta1", "ComponentDefinition");
    let (how, patch) = (PatchParams::apply("test").force(), Patch::Apply(definition(template)));
    api.patch("text", &how, &patch).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_definition_with_an_error_is_told_and_what_runs_is_left_alone() {
    let space = Space::with_programs("defined").await;
    redefine(&space, GOOD).await.unwrap();
    let component = |v: &str| json!([{ "name": "c", "type": "text", "properties": { "v": v } }]);
    space.create("running", component("1")).await.unwrap();
    space.running("running").await;
    let map = space.api::<ConfigMap>().get("c").await.unwrap();
    let (log, applications) = (space.cluster().audit_log(), space.applications());
    let from = audit::position(&log).unwrap();

    // What does not compile is refused: field, line, column and reason.
    let refused = redefine(&space, &GOOD.replace("parameter.v", "nowhere.v")).await.unwrap_err();
    for part in
        ["spec.schematic.cue.template, line 4, column 11", "reference \"nowhere\" not found"]
    {
        assert!(refused.contains(part), "{part} is missing in: {refused}");
    }
    let refused = redefine(&space, &GOOD.replace("parameter: v", "parameter: {v")).await;
    let refused = refused.unwrap_err();
    for part in ["spec.schematic.cue.template, at its end", "expected '}'"] {
        assert!(refused.contains(part), "{part} is missing in: {refused}");
    }

    // What only a rendering finds is stored; the Application that runs is not touched, also when
    // the controller reconciles it again.
    redefine(&space, &GOOD.replace("\tkind:       \"ConfigMap\"\n", "")).await.unwrap();
    let note = json!({ "metadata": { "annotations": { "look": "again" } } });
    let how = PatchParams::default();
    applications.patch("running", &how, &Patch::Merge(&note)).await.unwrap();
    let application = space.running("running").await;
    assert_eq!(application.data["status"]["latestRevision"]["name"], "running-v1");

    // An Application that needs it now says by name what is wrong.
    let fresh = json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": { "name": "fresh" },
        "spec": { "components": [{ "name": "d", "type": "text", "properties": { "v": "1" } }] },
    });
    let fresh = serde_json::from_value(fresh).unwrap();
    applications.create(&PostParams::default(), &fresh).await.unwrap();
    until("the reason in the status", Duration::from_secs(30), async || {
        let status = applications.get("fresh").await.unwrap().data["status"].to_string();
        status.contains("Object 'Kind' is missing") && status.contains("component d")
    })
    .await;

    let same = space.api::<ConfigMap>().get("c").await.unwrap();
    assert_eq!(same.metadata.uid, map.metadata.uid);
    assert_eq!(same.metadata.resource_version, map.metadata.resource_version);
    let written: Vec<_> = audit::read(&log, from)
        .unwrap()
        .into_iter()
        .filter(|entry| entry.is_controllers() && entry.is_write())
        .filter(|entry| entry.namespace == space.name() && entry.resource == "configmaps")
        .filter(|entry| entry.name == "c" || entry.name == "d")
        .collect();
    assert!(written.is_empty(), "{written:?}");

    // With the definition corrected the next edit runs; the revision before holds its definitions.
    redefine(&space, GOOD).await.unwrap();
    let edit = json!({ "spec": { "components": [
        { "name": "d", "type": "text", "properties": { "v": "2" } },
    ] } });
    applications.patch("fresh", &how, &Patch::Merge(&edit)).await.unwrap();
    space.running("fresh").await;
    assert_eq!(space.api::<ConfigMap>().get("d").await.unwrap().data.unwrap()["v"], "2");
    space.running("running").await;
}

#[tokio::test]
async fn the_kind_of_a_component_definition_becomes_a_workload_definition() {
    let space = Space::with_programs("workloads").await;
    let workloads = space.objects("core.oam.dev/v1beta1", "WorkloadDefinition");
    let definitions = space.objects("core.oam.dev/v1beta1", "ComponentDefinition");
    let apply = async |dry_run| {
        let how = PatchParams { dry_run, ..PatchParams::apply("test").force() };
        definitions.patch("text", &how, &Patch::Apply(definition(GOOD))).await.unwrap()
    };
    let made = async || workloads.get_opt("configmaps").await.unwrap();

    assert_eq!(apply(true).await.data["spec"]["workload"]["type"], "configmaps");
    assert_eq!(made().await, None);
    apply(false).await;
    until("its WorkloadDefinition", Duration::from_secs(30), async || made().await.is_some()).await;
    let spec = made().await.unwrap().data["spec"].clone();
    assert_eq!(spec, json!({ "definitionRef": { "name": "configmaps", "version": "v1" } }));
}
