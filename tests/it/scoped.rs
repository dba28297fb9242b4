//! Policies that change Applications before they are deployed, behind their gates.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use vela_tests::audit::Entry;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options};
use vela_tests::fixtures::{binaries, quiet, until};

const LIMIT: Duration = Duration::from_secs(60);

fn objects(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

async fn put(api: &Api<DynamicObject>, name: &str, object: &Value) {
    let how = PatchParams::apply("test").force();
    api.patch(name, &how, &Patch::Apply(object)).await.unwrap();
}

fn policy(name: &str, global: bool, template: &str) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "PolicyDefinition",
        "metadata": {"name": name},
        "spec": {"scope": "Application", "global": global, "priority": 1,
            "schematic": {"cue": {"template": template}}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_what_is_deployed_and_nothing_is_written_afterwards() {
    let cluster = Cluster::start_lean("scoped").await.unwrap();
    let gates =
        "--feature-gates=EnableApplicationScopedPolicies=true,EnableGlobalPolicies=true".to_owned();
    let options = Options {
        controller_flags: vec![gates.clone()],
        webhook_flags: vec![gates],
        ..Options::default()
    };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let client = cluster.client().await.unwrap();
    let definitions = objects(&client, "PolicyDefinition", NAMESPACE);
    let everywhere = "parameter: {}\noutput: labels: \"example.com/tier\": \"gold\"";
    put(&definitions, "everywhere", &policy("everywhere", true, everywhere)).await;
    let valued = |value: &str| {
        format!(
            r#"
            parameter: {{}}
            output: {{
                components: [for c in context.appComponents {{
                    name: c.name
                    type: c.type
                    properties: objects: [for o in c.properties.objects {{
                        apiVersion: o.apiVersion
                        kind: o.kind
                        metadata: o.metadata
                        data: v: "{value}"
                    }}]
                }}]
            }}"#
        )
    };
    put(&definitions, "valued", &policy("valued", false, &valued("one"))).await;
    let app = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": "app"},
        "spec": {
            "components": [{"name": "a", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
                    "data": {"v": "as written"}}]}}],
            "policies": [{"name": "p", "type": "valued", "properties": {}}],
        },
    });
    let all = objects(&client, "Application", "default");
    put(&all, "app", &app).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let value = async || {
        let map = maps.get_opt("a").await.unwrap();
        map.and_then(|map| map.data?.get("v").cloned()).unwrap_or_default()
    };
    until("the policies' application", LIMIT, async || {
        let found = all.get("app").await.unwrap();
        found.data["status"]["status"] == "running" && value().await == "one"
    })
    .await;
    let found = all.get("app").await.unwrap();
    assert_eq!(found.metadata.labels.clone().unwrap()["example.com/tier"], "gold");
    let applied = &found.data["status"]["appliedApplicationPolicies"];
    let applied: Vec<_> = applied
        .as_array()
        .unwrap()
        .iter()
        .map(|t| json!([t["name"], t["source"], t["applied"]]))
        .collect();
    assert_eq!(json!(applied), json!([["everywhere", "global", true], ["p", "explicit", true]]));
    let record = maps.get("application-policies-default-app").await.unwrap();
    assert!(record.data.unwrap()["info"].contains("everywhere"));

    // Another policy waits for an edit.
    put(&definitions, "valued", &policy("valued", false, &valued("two"))).await;
    quiet(&cluster.audit_log(), Duration::from_secs(5), Entry::is_controllers_write).await;
    assert_eq!(value().await, "one");
    let mut edited = app.clone();
    edited["spec"]["components"][0]["dependsOn"] = json!([]);
    edited["spec"]["components"][0]["properties"]["objects"][0]["data"]["w"] = json!("edit");
    put(&all, "app", &edited).await;
    until("the other policy", LIMIT, async || value().await == "two").await;
    let revisions = objects(&client, "ApplicationRevision", "default");
    assert_eq!(revisions.list(&ListParams::default()).await.unwrap().items.len(), 2);
    deployed.check().unwrap();
    cluster.stop();
}
