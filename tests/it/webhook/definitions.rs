//! Definitions through the running webhook.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use vela_tests::deploy::{Manifests, NAMESPACE, RELEASE};
use vela_tests::fixtures::{Space, binaries};

/// Server-side apply without effect, as `kubectl apply --server-side --dry-run=server` does it.
async fn dry_apply(space: &Space, object: &Value) -> kube::Result<DynamicObject> {
    let api =
        space.objects(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    dry_apply_as("test", &api, object).await
}

/// The same by this program, which is how `kubectl` and `helm` identify themselves.
async fn dry_apply_as(
    manager: &str,
    api: &Api<DynamicObject>,
    object: &Value,
) -> kube::Result<DynamicObject> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let parameters = PatchParams::apply(manager).force().dry_run();
    api.patch(name, &parameters, &Patch::Apply(object)).await
}

#[tokio::test]
async fn every_builtin_definition_is_admitted() {
    let space = Space::with_programs("builtin").await;
    let manifests = Manifests::render(&binaries(), &[]).unwrap();
    let mut refused = Vec::new();
    let mut count = 0;
    for mut object in manifests.definitions() {
        if object["kind"] == "WorkloadDefinition" {
            continue;
        }
        let name = format!("{}/{}", object["kind"], object["metadata"]["name"]);
        // In another namespace it is a user's definition, and no exception of the chart applies.
        object["metadata"]["namespace"] = json!(space.name());
        if let Err(error) = dry_apply(&space, &object).await {
            refused.push(format!("{name}: {error}"));
        }
        count += 1;
    }
    assert!(count > 80, "{count}");
    assert!(refused.is_empty(), "{refused:#?}");
}

#[tokio::test]
async fn a_broken_definition_is_refused_and_a_broken_step_told() {
    let space = Space::with_programs("definition").await;
    let definition = |kind: &str, template: &str| {
        json!({
            "apiVersion": "core.oam.dev/v1beta1",
            "kind": kind,
            "metadata": { "name": "broken" },
            "spec": { "schematic": { "cue": { "template": template } } },
        })
    };
    for kind in ["ComponentDefinition", "TraitDefinition", "PolicyDefinition"] {
        let object = definition(kind, "output: {a: nowhere.x}\nparameter: {}");
        let error = dry_apply(&space, &object).await.unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{kind}: {error}");
    }
    let object = definition("WorkflowStepDefinition", "import \"vela/op\"\nx: op.#Log & nowhere");
    dry_apply(&space, &object).await.unwrap();
}

/// What the release brings passes, whatever state the webhook is in; the same object in the hands of
/// a person is a definition like any other.
#[tokio::test]
async fn a_builtin_definition_is_looked_at_when_it_is_edited_by_hand() {
    let space = Space::with_programs("by-hand").await;
    let manifests = Manifests::render(&binaries(), &[]).unwrap();
    let kinds = ["ComponentDefinition", "TraitDefinition", "PolicyDefinition"];
    for kind in kinds {
        let of_kind = |object: &Value| object["kind"] == kind;
        let mut object = manifests.definitions().into_iter().find(of_kind).unwrap();
        object["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!(RELEASE);
        object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!(NAMESPACE);
        object["spec"]["schematic"]["cue"]["template"] = json!("output: {a: nowhere.x}");
        let gvk = GroupVersionKind::gvk("core.oam.dev", "v1beta1", kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(space.client(), NAMESPACE, &ApiResource::from_gvk(&gvk));
        dry_apply_as("helm", &api, &object).await.unwrap();
        for person in ["kubectl", "kubectl-edit", "kubectl-client-side-apply"] {
            let error = dry_apply_as(person, &api, &object).await.unwrap_err().to_string();
            assert!(error.contains("nowhere"), "{kind} by {person}: {error}");
        }
        // In a release's name elsewhere it is nobody's.
        object["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("another");
        let error = dry_apply_as("helm", &api, &object).await.unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{kind}: {error}");
    }
}

#[tokio::test]
async fn a_denial_names_every_problem_and_a_dry_run_leaves_nothing() {
    let space = Space::with_programs("denial").await;
    let application = |name: &str, components: Value| {
        json!({
            "apiVersion": "core.oam.dev/v1beta1",
            "kind": "Application",
            "metadata": { "name": name },
            "spec": { "components": components },
        })
    };
    let bad = json!([
        { "name": "a", "type": "webservise", "properties": { "image": "nginx" } },
        { "name": "b", "type": "webservice", "properties": { "image": 17 } },
        { "name": "c", "type": "webservice", "properties": { "image": "nginx" },
          "traits": [{ "type": "scalar", "properties": {} }] },
    ]);
    let error = dry_apply(&space, &application("bad", bad)).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    for part in [
        "1) \"spec.components[0].type\": ComponentDefinition \"webservise\" not found",
        "did you mean \"webservice\"?",
        "2) \"spec.components[1].properties.image\": must be a text, not the number 17",
        "conflicting values",
        "3) \"spec.components[2].traits[0].type\": TraitDefinition \"scalar\" not found",
        "did you mean \"scaler\"?",
    ] {
        assert!(status.message.contains(part), "{part} is missing in: {}", status.message);
    }
    assert_eq!(status.code, 400);
    let good = json!([{ "name": "a", "type": "webservice", "properties": { "image": "nginx" } }]);
    dry_apply(&space, &application("good", good)).await.unwrap();
    assert!(space.applications().get_opt("good").await.unwrap().is_none());
}
