//! The views that clients read from the system namespace. A client evaluates them in its own process; here a workflow
//! does, over the same package and the same objects, and what comes out has the fields that the client decodes.

use cue::{Limits, Packages};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use vela_tests::deploy::NAMESPACE;
use vela_tests::fixtures::Space;

/// The views, and the parameter of each; of an Application `web` with a component `web`.
const VIEWS: [(&str, &str); 6] = [
    ("component-pod-view", "appNs"),
    ("component-service-view", "appNs"),
    ("service-endpoints-view", "appNs"),
    ("service-applied-resources-view", "appNs"),
    ("application-resource-tree-view", "appNs"),
    ("application-revision-view", "namespace"),
];

/// What a view answers, by way of a step of its text; the steps begin when the component runs.
async fn answers(space: &Space, views: &[(&str, &str)], more: &Value) -> Value {
    let system: Api<ConfigMap> = Api::namespaced(space.client(), NAMESPACE);
    let mut steps = vec![json!({
        "name": "go", "type": "apply-component", "properties": {"component": "web"},
    })];
    for &(view, namespace) in views {
        let stored = system.get(view).await.unwrap_or_else(|error| panic!("{view}: {error}"));
        let template = stored.data.unwrap()["template"].clone();
        let definition = json!({
            "apiVersion": "core.oam.dev/v1beta1",
            "kind": "WorkflowStepDefinition",
            "metadata": {"name": view},
            "spec": {"schematic": {"cue": {"template": template}}},
        });
        let kind = space.objects("core.oam.dev/v1beta1", "WorkflowStepDefinition");
        let definition = serde_json::from_value(definition).unwrap();
        kind.create(&PostParams::default(), &definition).await.unwrap();
        let mut parameter = match namespace {
            "appNs" => json!({"appName": "web", "appNs": space.name()}),
            _ => json!({"name": "web-v1", "namespace": space.name()}),
        };
        if namespace == "appNs" {
            parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        steps.push(json!({
            "name": view, "type": view, "properties": parameter,
            "outputs": [{"name": view, "valueFrom": "status"}],
        }));
    }
    let app = json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": {"name": "web"},
        "spec": {
            "components": [{
                "name": "web", "type": "webservice",
                "properties": {"image": "nginx", "ports": [{"port": 80, "expose": true}]},
                "traits": [{"type": "scaler", "properties": {"replicas": 1}}],
            }],
            "workflow": {"mode": {"steps": "StepByStep"}, "steps": steps},
        },
    });
    let app = serde_json::from_value(app).unwrap();
    space.applications().create(&PostParams::default(), &app).await.unwrap();
    space.running("web").await;
    let contexts: Api<ConfigMap> = Api::namespaced(space.client(), space.name());
    let context = contexts.get("workflow-web-context").await.unwrap();
    let vars = cue::Program::compile("vars", &context.data.unwrap()["vars"], &Packages::std());
    let mut vars = vars.unwrap().evaluate(&[], &Limits::default());
    let root = vars.root();
    vars.export_json(root).unwrap()
}

#[tokio::test]
async fn views_answer_what_clients_decode() {
    let space = Space::with_programs("views").await;
    let all = answers(&space, &VIEWS, &json!({})).await;

    let pods = all["component-pod-view"]["podList"].as_array().unwrap();
    let [pod] = pods.as_slice() else { panic!("{all:#}") };
    assert!(pod["metadata"]["name"].as_str().unwrap().starts_with("web-"), "{pod}");
    assert_eq!(pod["metadata"]["namespace"], space.name());
    assert!(pod["metadata"]["creationTime"].as_str().unwrap().ends_with('Z'), "{pod}");
    assert_eq!(pod["metadata"]["labels"]["app.oam.dev/component"], "web");
    assert_eq!((&pod["component"], &pod["status"]["phase"]), (&json!("web"), &json!("Running")));
    assert_eq!(
        (&pod["workload"]["kind"], &pod["workload"]["name"]),
        (&json!("Deployment"), &json!("web"))
    );

    let services = all["component-service-view"]["services"].as_array().unwrap();
    let [service] = services.as_slice() else { panic!("{all:#}") };
    assert_eq!(
        (&service["object"]["kind"], &service["component"]),
        (&json!("Service"), &json!("web"))
    );

    let endpoints = all["service-endpoints-view"]["endpoints"].as_array().unwrap();
    let [endpoint] = endpoints.as_slice() else { panic!("{all:#}") };
    assert_eq!(endpoint["endpoint"]["port"], 80);
    assert_eq!(endpoint["endpoint"]["host"], format!("web.{}", space.name()));
    assert_eq!(endpoint["ref"]["kind"], "Service");

    for view in ["service-applied-resources-view", "application-resource-tree-view"] {
        let kinds = all[view]["resources"].as_array().unwrap().iter();
        let mut kinds: Vec<_> = kinds.map(|one| one["kind"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["Deployment", "Service"], "{view}");
    }

    let revision = &all["application-revision-view"];
    assert_eq!(
        (&revision["kind"], &revision["metadata"]["name"]),
        (&json!("ApplicationRevision"), &json!("web-v1"))
    );
}

#[tokio::test]
async fn views_narrow_down_and_say_what_went_wrong() {
    let space = Space::with_programs("views").await;
    let all = answers(&space, &VIEWS, &json!({"name": "other", "cluster": "local"})).await;
    assert_eq!(all["component-pod-view"], json!({"podList": []}));
    assert_eq!(all["component-service-view"], json!({"services": []}));
    assert_eq!(all["service-applied-resources-view"], json!({"resources": []}));

    let space = Space::with_programs("views").await;
    // Endpoints of an Application that is not there are an error of the call, here as in the client.
    let views = VIEWS.into_iter().filter(|(view, _)| !view.contains("endpoints"));
    let views: Vec<_> = views.collect();
    let all = answers(&space, &views, &json!({"appName": "none"})).await;
    for view in ["component-pod-view", "component-service-view", "service-applied-resources-view"] {
        let error = all[view]["error"].as_str().unwrap();
        assert!(error.contains("none"), "{view}: {error}");
    }
}
