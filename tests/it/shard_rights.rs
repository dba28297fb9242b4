//! Who may choose a shard (`sharding.restrict`): whoever has the right to use it in the whole cluster. Others leave the label as it was,
//! in whichever way they write it.

use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Options, apply_all};
use vela_tests::fixtures::{binaries, resource, until};
use vela_tests::release::admits;
use vela_tests::tenant::{Tenant, bound, user};

const LIMIT: Duration = Duration::from_secs(60);
const LABEL: &str = "controller.core.oam.dev/scheduled-shard-id";

fn application(name: &str, labels: &Value) -> DynamicObject {
    let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "labels": labels},
        "spec": {"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}]}}]}});
    serde_json::from_value(app).unwrap()
}

fn shard(app: &DynamicObject) -> Option<&str> {
    app.metadata.labels.as_ref()?.get(LABEL).map(String::as_str)
}

fn may_use(shard: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("use-{shard}")},
        "rules": [{"apiGroups": ["core.oam.dev"], "resources": ["shards"],
            "resourceNames": [shard], "verbs": ["use"]}]})
}

/// Labels an Application until that counts: rights that are given take a moment.
async fn label(api: &Api<DynamicObject>, name: &str, value: Option<&str>) {
    let edit = Patch::Merge(json!({"metadata": {"labels": {LABEL: value}}}));
    until(&format!("{name} may be labelled {value:?}"), LIMIT, async || {
        let written = api.patch(name, &PatchParams::default(), &edit).await.unwrap();
        shard(&written) == value
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_use_a_shard_chooses_it() {
    let cluster = Cluster::start_lean("shard-rights").await.unwrap();
    let options =
        Options { values: vec!["sharding.restrict=true".to_owned()], ..Options::default() };
    let _deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let admin = cluster.client().await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    // Both have every right in their namespaces.
    let (alice, bob) = (Tenant::new(&cluster, "alice").await, Tenant::new(&cluster, "bob").await);
    let (alice, bob) = (alice.unwrap(), bob.unwrap());
    let rights = vec![may_use("gold"), bound("alice-gold", "use-gold", &user("alice"))];
    apply_all(&admin, rights).await.unwrap();

    let (hers, his) = (alice.objects("Application"), bob.objects("Application"));
    let create = PostParams::default();
    let labelled = application("app", &json!({LABEL: "gold", "team": "b"}));
    let created = his.create(&create, &labelled).await.unwrap();
    assert_eq!(shard(&created), None);
    assert_eq!(created.metadata.labels.unwrap()["team"], "b", "the rest of it counts");
    hers.create(&create, &application("app", &json!({}))).await.unwrap();
    label(&hers, "app", Some("gold")).await;
    let created = hers.create(&create, &application("second", &json!({LABEL: "gold"}))).await;
    assert_eq!(shard(&created.unwrap()), Some("gold"));

    // Somebody who may do everything puts his there; he gets it neither away nor elsewhere.
    let kind = resource("core.oam.dev/v1beta1", "Application");
    let admins = Api::<DynamicObject>::namespaced_with(admin.clone(), bob.name(), &kind);
    label(&admins, "app", Some("gold")).await;
    let plain = PatchParams::default();
    for value in [None, Some("silver"), Some("master")] {
        let edit = Patch::Merge(json!({"metadata": {"labels": {LABEL: value, "edit": "merge"}}}));
        let written = his.patch("app", &plain, &edit).await.unwrap();
        assert_eq!(shard(&written), Some("gold"), "{value:?} by a merge");
        assert_eq!(written.metadata.labels.unwrap()["edit"], "merge");
    }
    let pointer = format!("/metadata/labels/{}", LABEL.replace('/', "~1"));
    let remove = json!([{"op": "remove", "path": pointer}]);
    let remove = Patch::Json::<()>(serde_json::from_value(remove).unwrap());
    let written = his.patch("app", &plain, &remove).await.unwrap();
    assert_eq!(shard(&written), Some("gold"), "by a JSON patch");
    until("an update meets none of the controller's", LIMIT, async || {
        let mut app = his.get("app").await.unwrap();
        app.metadata.labels = None;
        match his.replace("app", &create, &app).await {
            Err(kube::Error::Api(status)) if status.code == 409 => false,
            written => {
                assert_eq!(shard(&written.unwrap()), Some("gold"), "by an update");
                true
            }
        }
    })
    .await;
    let applied = application("app", &json!({LABEL: "silver"}));
    let apply = PatchParams::apply("bob").force();
    let written = his.patch("app", &apply, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(shard(&written), Some("gold"), "by server-side apply");

    // Back to the default one is a choice, too.
    let back = Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}}));
    let written = hers.patch("app", &plain, &back).await.unwrap();
    assert_eq!(shard(&written), Some("gold"));
    let rights = vec![may_use("master"), bound("alice-master", "use-master", &user("alice"))];
    apply_all(&admin, rights).await.unwrap();
    label(&hers, "app", None).await;
    cluster.stop();
}
