//! What the API server refuses because the webhook says so.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vela_tests::fixtures::Space;

fn web(name: &str) -> Value {
    json!({ "name": name, "type": "webservice", "properties": { "image": "nginx" } })
}

/// The message with which components are refused.
async fn refused(space: &Space, components: Value) -> String {
    match space.create("refused", components).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        Err(error) => panic!("not an answer of the API server: {error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[tokio::test]
async fn a_misspelt_component_type_is_refused() {
    let space = Space::with_programs("admission").await;
    let mut component = web("front");
    component["type"] = json!("webservise");
    let message = refused(&space, json!([component])).await;
    assert!(message.contains("webservise"), "{message}");
    assert!(message.contains("webservice"), "the nearest type is named: {message}");
    assert!(message.contains("components[0]"), "the place is named: {message}");
}

#[tokio::test]
async fn two_components_of_one_name_are_refused() {
    let space = Space::with_programs("admission").await;
    let message = refused(&space, json!([web("front"), web("front")])).await;
    assert!(message.contains("front"), "{message}");
}

#[tokio::test]
async fn a_parameter_of_the_wrong_type_is_refused() {
    let space = Space::with_programs("admission").await;
    let mut component = web("front");
    component["properties"]["image"] = json!(17);
    let message = refused(&space, json!([component])).await;
    assert!(message.contains("image"), "{message}");
}

#[tokio::test]
async fn a_bad_edit_is_refused_and_the_application_goes_on() {
    let space = Space::with_programs("admission").await;
    space.create("good", json!([web("front")])).await.unwrap();
    space.running("good").await;
    let edit = json!({ "spec": { "components": [web("front"), web("front")] } });
    let answer =
        space.applications().patch("good", &PatchParams::default(), &Patch::Merge(&edit)).await;
    assert!(matches!(answer, Err(kube::Error::Api(_))), "{answer:?}");
    let application = space.running("good").await;
    assert_eq!(application.metadata.generation, Some(1));
}

/// Fields that the CRD does not have are gone before a webhook sees them. The API server itself reports each, or refuses
/// them, as the client asks: `kubectl` asks for the latter, and warns whoever asks for nothing.
#[tokio::test]
async fn fields_that_are_dropped_are_told() {
    let space = Space::with_programs("admission").await;
    let path = format!("/apis/core.oam.dev/v1beta1/namespaces/{}/applications", space.name());
    let mut component = web("front");
    component["forEach"] = json!("parameter.list");
    component["extends"] = json!("other");
    let app = json!({ "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": { "name": "dropped" },
        "spec": { "sources": [], "components": [component] } });
    let post = async |query: &str| {
        let request = http::Request::post(format!("{path}?dryRun=All{query}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(kube::client::Body::from(app.to_string().into_bytes()))
            .unwrap();
        let answer = space.client().send(request).await.unwrap();
        let warnings = answer.headers().get_all(http::header::WARNING).iter();
        let reported: Vec<_> = warnings.map(|one| one.to_str().unwrap().to_owned()).collect();
        (answer.status().as_u16(), reported.join("\n"))
    };
    let (code, reported) = post("").await;
    assert_eq!(code, 201, "{reported}");
    for field in ["spec.sources", "spec.components[0].forEach", "spec.components[0].extends"] {
        assert!(reported.contains(field), "{field}: {reported}");
    }
    assert_eq!(post("&fieldValidation=Strict").await.0, 400);
}
