//! ref-objects components and what they name, with the webhook under the chart's rights.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vela_seal::{Evidence, Stamp, Subject};
use vela_tests::cluster;
use vela_tests::deploy::stamp_keys;
use vela_tests::fixtures::{Space, until};
use vela_tests::load::{self, VALIDATE};

use super::Own;

fn component(selector: &Value) -> Value {
    json!({ "name": "shared", "type": "ref-objects", "properties": { "objects": [selector] } })
}

/// The administrator as the author of what is reviewed.
fn stamp(review: &mut Value) {
    let object = &mut review["request"]["object"];
    let spec = serde_json::from_value(object["spec"].clone()).unwrap();
    let subject = Subject {
        kind: "Application",
        namespace: object["metadata"]["namespace"].as_str().unwrap(),
        name: object["metadata"]["name"].as_str().unwrap(),
        content: vela_seal::application(&spec, "", "").unwrap(),
    };
    let author = Stamp {
        user: "kubernetes-admin".to_owned(),
        groups: vec!["kubevela:cluster-admins".to_owned()],
        administrator: Some(Evidence::Group("system:masters".to_owned())),
    };
    let annotations = author.annotations(&stamp_keys().unwrap(), &subject);
    object["metadata"]["annotations"] = annotations.into_iter().collect();
}

async fn create<K>(space: &Space, object: Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K: DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    K::DynamicType: Default,
{
    let object: K = serde_json::from_value(object).unwrap();
    space.api::<K>().create(&PostParams::default(), &object).await.unwrap();
}

/// What the API server says to a new Application, which is not stored.
async fn answers(applications: &Api<kube::api::DynamicObject>, components: Value) -> String {
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1",
        "kind": "Application",
        "metadata": { "name": "refers" },
        "spec": { "components": components },
    });
    let object = serde_json::from_value(object).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    match applications.create(&dry, &object).await {
        Ok(_) => "admitted".to_owned(),
        Err(kube::Error::Api(status)) => status.message.clone(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn what_does_not_exist_is_refused() {
    let space = Space::with_programs("refs").await;
    create::<ConfigMap>(&space, json!({ "metadata": { "name": "here" } })).await;
    let ns = space.name();
    let at = "\"spec.components[0].properties.objects[0]";
    for (selector, expected) in [
        (json!({ "resource": "configmap", "name": "here" }), "admitted".to_owned()),
        (json!({ "resource": "configmap", "labelSelector": { "a": "b" } }), "admitted".to_owned()),
        (
            json!({ "resource": "deployments", "group": "apps", "name": "web" }),
            format!(
                "{at}.name\": failed to load ref object Deployment {ns}/web: deployments \"web\" not found"
            ),
        ),
        (
            json!({ "resource": "configmap", "name": "gone" }),
            format!(
                "{at}.name\": failed to load ref object ConfigMap {ns}/gone: configmaps \"gone\" not found"
            ),
        ),
        (
            json!({ "resource": "configmap", "name": "here", "namespace": "nowhere" }),
            format!(
                "{at}.name\": failed to load ref object ConfigMap nowhere/here: configmaps \"here\" not found"
            ),
        ),
        (
            json!({ "resource": "configmap", "name": "here", "cluster": "far" }),
            format!(
                "{at}.cluster\": failed to load ref object configmap {ns}/here: there is no cluster \"far\""
            ),
        ),
        (
            json!({ "resource": "configmapz", "name": "here" }),
            format!(
                "{at}.resource\": no matches for resource \"configmapz\" in any group; did you mean \"configmaps\"?"
            ),
        ),
        (
            json!({ "resource": "deployments", "group": "example.org", "name": "web" }),
            format!(
                "{at}.resource\": no matches for resource \"deployments\" in group \"example.org\""
            ),
        ),
    ] {
        let reported = answers(&space.applications(), json!([component(&selector)])).await;
        assert!(reported.contains(&expected), "{selector}: {reported}");
    }
    assert!(space.applications().get_opt("refers").await.unwrap().is_none());
}

#[tokio::test]
async fn what_the_webhook_may_not_read_is_told_and_the_rest_of_an_edit_passes() {
    let own = Own::start("webhook-refs", &[]).await;
    let space = Space::with_programs("blind").await;
    create::<Secret>(&space, json!({ "metadata": { "name": "here" } })).await;
    let mut review = load::review(
        space.name(),
        &json!([component(&json!({ "resource": "secret", "name": "here" }))]),
    );
    stamp(&mut review);
    let answer = own.target.post(VALIDATE, review.to_string().as_bytes()).await.unwrap();
    assert!(answer.is_admitted(), "{:?}", answer.response());
    let warnings = answer.response()["warnings"].to_string();
    assert!(warnings.contains("the webhook has no right to read secrets"), "{warnings}");

    // What is stored and has gone since does not stand in the way of other edits.
    let gone = component(&json!({ "resource": "configmap", "name": "gone" }));
    let web = load::components(1)[0].clone();
    let mut edit = load::review(space.name(), &json!([gone, web]));
    stamp(&mut edit);
    edit["request"]["operation"] = json!("UPDATE");
    let mut old = edit["request"]["object"].clone();
    edit["request"]["oldObject"] = old.clone();
    edit["request"]["object"]["metadata"]["labels"] = json!({ "a": "b" });
    let answer = own.target.post(VALIDATE, edit.to_string().as_bytes()).await.unwrap();
    assert_eq!(answer.response()["warnings"], Value::Null, "an edit of metadata asks nothing");
    assert!(answer.is_admitted());
    old["spec"]["components"] = json!([gone]);
    edit["request"]["oldObject"] = old;
    let answer = own.target.post(VALIDATE, edit.to_string().as_bytes()).await.unwrap();
    assert!(answer.is_admitted(), "{:?}", answer.response());
    let warnings = answer.response()["warnings"].to_string();
    assert!(warnings.contains("configmaps \\\"gone\\\" not found"), "{warnings}");
    own.assert_well().await;
}

/// Who may write Applications and not read ConfigMaps learns nothing about them.
#[tokio::test]
async fn an_author_without_rights_learns_nothing() {
    let space = Space::with_programs("rights").await;
    let ns = space.name();
    for name in ["here", "open"] {
        create::<ConfigMap>(&space, json!({ "metadata": { "name": name } })).await;
    }
    create::<ServiceAccount>(&space, json!({ "metadata": { "name": "author" } })).await;
    let role = json!({
        "metadata": { "name": "author" },
        "rules": [
            { "apiGroups": ["core.oam.dev"], "resources": ["applications"], "verbs": ["*"] },
            { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["open"], "verbs": ["get"] },
        ],
    });
    create::<Role>(&space, role).await;
    let binding = json!({
        "metadata": { "name": "author" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author" },
        "subjects": [{ "kind": "ServiceAccount", "name": "author", "namespace": ns }],
    });
    create::<RoleBinding>(&space, binding).await;
    let kubeconfig = space.cluster().kubeconfig_of(ns, "author").await.unwrap();
    let author = cluster::client(&kubeconfig).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application");
    let resource = kube::api::ApiResource::from_gvk(&kind);
    let applications = Api::namespaced_with(author, ns, &resource);
    let named = |name: &str| json!([component(&json!({ "resource": "configmap", "name": name }))]);
    // The authorizer learns of roles through a watch, and the webhook remembers its answers.
    until("the author's rights", Duration::from_secs(30), async || {
        answers(&applications, named("open")).await == "admitted"
    })
    .await;
    let (here, gone) =
        (answers(&applications, named("here")).await, answers(&applications, named("gone")).await);
    for (name, reported) in [("here", &here), ("gone", &gone)] {
        let expected = format!(
            "failed to load ref object ConfigMap {ns}/{name}: user \"system:serviceaccount:{ns}:author\", as whom this Application is deployed, cannot get configmaps in namespace \"{ns}\""
        );
        assert!(reported.contains(&expected), "{reported}");
        assert!(!reported.contains("not found"), "{reported}");
    }
}
