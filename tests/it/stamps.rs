//! As whom an Application is applied: who wrote it, what was written, and whether anybody was there to say so. The table of
//! docs/security-model.md, read from the audit log.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, KEY, Options, apply_all, exchange_stamp_key};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{admits, applications};
use vela_tests::tenant::{bound, every_right_in, group, user};

const LIMIT: Duration = Duration::from_secs(90);
/// The name of the admission policy.
const POLICY: &str = "kubevela-vela-core-stamps";

const DEFAULT: (&str, &str) = ("kubevela:vela-core", "system:authenticated");
const TENANT: (&str, &str) = ("tenant", "kubevela:team,system:authenticated");
const ADMIN: (&str, &str) = ("admin", "kubevela:cluster-admins,system:authenticated");

/// tenant, root and the account ci may do everything in the namespace, root and the members of platform everywhere.
fn users() -> Vec<Value> {
    let ci = json!({"kind": "ServiceAccount", "name": "ci", "namespace": "default"});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ci", "namespace": "default"}}),
        bound("root", "cluster-admin", &user("root")),
        bound("platform", "cluster-admin", &group("platform")),
    ];
    all.extend(every_right_in("default", &[user("tenant"), user("root"), ci]));
    all
}

/// An Application that makes a ConfigMap of its own name.
fn app(name: &str, annotations: &Value) -> DynamicObject {
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": spec(name, "1"),
    });
    serde_json::from_value(object).unwrap()
}

fn spec(name: &str, value: &str) -> Value {
    json!({"components": [{"name": "c", "type": "k8s-objects", "properties": {"objects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}},
    ]}}]})
}

fn identity(user: &str, groups: &str) -> Value {
    json!({"app.oam.dev/username": user, "app.oam.dev/group": groups})
}

struct Table {
    cluster: Cluster,
    /// The administrator of the kubeconfig, in system:masters.
    admin: Client,
}

impl Table {
    async fn client(&self, user: &str, groups: &[&str]) -> Client {
        self.cluster.client_as(user, groups).await.unwrap()
    }

    async fn create(&self, client: &Client, app: &DynamicObject) -> kube::Result<DynamicObject> {
        applications(client.clone()).create(&PostParams::default(), app).await
    }

    async fn edit(&self, client: &Client, name: &str, edit: &Value) -> kube::Result<DynamicObject> {
        let patch = Patch::Merge(edit);
        applications(client.clone()).patch(name, &PatchParams::default(), &patch).await
    }

    /// As whom the controller wrote the ConfigMap of this name, or tried to, after a place in the log.
    fn acted(&self, name: &str, from: u64) -> BTreeSet<(String, String)> {
        let entries = audit::read(&self.cluster.audit_log(), from).unwrap();
        let of_it = entries.into_iter().filter(|entry| {
            entry.is_controllers_write() && entry.resource == "configmaps" && entry.name == name
        });
        of_it.map(|entry| (entry.acting_as, entry.acting_in)).collect()
    }

    /// Waits until something is done for an Application, and says that it is done as this one and nobody else. `is_stamped`:
    /// it has no word on its author.
    async fn acts(&self, what: &str, name: &str, from: u64, who: (&str, &str), is_stamped: bool) {
        until(&format!("{what}: {name} is applied"), LIMIT, async || {
            let found = applications(self.admin.clone()).get(name).await.unwrap();
            let status = &found.data["status"];
            // The default user may do nothing, and the API server notes no name of what it refuses.
            let is_done = if who == DEFAULT {
                status.to_string().contains("is forbidden: User \\\"kubevela:vela-core\\\"")
            } else {
                status["status"] == "running" && !self.acted(name, from).is_empty()
            };
            is_done && has_doubt(&found) != is_stamped
        })
        .await;
        let wanted = BTreeSet::from([(who.0.to_owned(), who.1.to_owned())]);
        let acted = self.acted(name, from);
        assert!(acted == wanted || (who == DEFAULT && acted.is_empty()), "{what}: {acted:?}");
    }

    fn now(&self) -> u64 {
        audit::position(&self.cluster.audit_log()).unwrap()
    }
}

fn has_doubt(app: &DynamicObject) -> bool {
    let conditions = app.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Stamped")
}

async fn started(name: &str) -> (Table, Deployed) {
    let cluster = Cluster::start_lean(name).await.unwrap();
    let values = vec!["authentication.enabled=true".to_owned()];
    let options = Options { values, ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let admin = cluster.client().await.unwrap();
    apply_all(&admin, users()).await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    let table = Table { cluster, admin };
    for user in ["tenant", "root"] {
        // The authorizer learns of roles through a watch.
        let api = applications(table.client(user, &[]).await);
        until("the right", LIMIT, async || api.get_opt("none").await.is_ok()).await;
    }
    (table, deployed)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_applied_as_who_wrote_it() {
    let (table, deployed) = started("stamps").await;
    let tenant =
        table.client("tenant", &["kubevela:team", "other", "system:masters-of-none"]).await;
    let boss = table.client("system:boss", &["system:masters"]).await;
    let member = table.client("member", &["platform", "kubevela:dev"]).await;
    let account = "system:serviceaccount:default:ci";
    let ci = table.client(account, &["system:serviceaccounts"]).await;
    let root = table.client("root", &[]).await;
    let root_as = ("root", "kubevela:cluster-admins,system:authenticated");

    let none = json!({});
    let forged = identity("x", "system:masters,kubevela:cluster-admins");
    let rows = [
        ("a tenant", &tenant, app("t1", &none), TENANT),
        ("a tenant who writes another's name", &tenant, app("t2", &forged), TENANT),
        ("an administrator by system:masters", &table.admin, app("t3", &none), ADMIN),
        (
            "an administrator with a name of Kubernetes",
            &boss,
            app("t4", &none),
            ("kubevela:vela-core", "kubevela:cluster-admins,system:authenticated"),
        ),
        (
            "an administrator by a group",
            &member,
            app("t5", &none),
            ("member", "kubevela:dev,kubevela:cluster-admins,system:authenticated"),
        ),
        ("an administrator by his name", &root, app("t6", &none), root_as),
        (
            "a ServiceAccount",
            &ci,
            app("t7", &none),
            (account, "system:serviceaccounts,system:serviceaccounts:default,system:authenticated"),
        ),
    ];
    let from = table.now();
    for (what, client, app, _) in &rows {
        table.create(client, app).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    for (what, _, app, who) in &rows {
        table.acts(what, app.metadata.name.as_deref().unwrap(), from, *who, true).await;
    }

    // What the API server and the webhook make of an object: names, numbers, fields that nobody knows.
    let mut odd = app("t8", &none);
    odd.data["spec"]["components"][0]["properties"]["odd"] =
        json!({"a": 80.0, "b": 1e3, "c": 1.5, "d": null, "e": [], "f": 9_007_199_254_740_993_u64});
    odd.data["spec"]["components"][0]["unknown"] = json!(1);
    odd.data["spec"]["sources"] = json!([{"name": "x"}]);
    odd.data["spec"]["policies"] = json!([]);
    odd.data["spec"]["workflow"] = json!({"steps": [
        {"type": "apply-component", "properties": {"component": "c"}, "forEach": "x"},
    ]});
    let from = table.now();
    table.create(&tenant, &odd).await.unwrap();
    let mut generated = app("t9", &none);
    (generated.metadata.name, generated.metadata.generate_name) = (None, Some("named-".to_owned()));
    let generated = table.create(&tenant, &generated).await.unwrap();
    table.acts("odd spellings", "t8", from, TENANT, true).await;
    until("a name that was generated", LIMIT, async || {
        let name = generated.metadata.name.as_deref().unwrap();
        let found = applications(table.admin.clone()).get(name).await.unwrap();
        assert!(!has_doubt(&found), "{:?}", found.data["status"]);
        name.starts_with("named-") && found.data["status"]["status"] == "running"
    })
    .await;
    assert_eq!(table.acted("t9", from), BTreeSet::from([(TENANT.0.into(), TENANT.1.into())]));

    // Whoever edits what decides is the author from then on; whoever edits anything else is not.
    let from = table.now();
    let edits = [
        ("a spec", "t3", json!({"spec": spec("t3", "2")}), TENANT),
        (
            "publishVersion",
            "t5",
            json!({"metadata": {"annotations": {"app.oam.dev/publishVersion": "v1"}}}),
            TENANT,
        ),
    ];
    for (what, name, edit, who) in &edits {
        table.edit(&tenant, name, edit).await.unwrap();
        let found = applications(table.admin.clone()).get(name).await.unwrap();
        assert_eq!(found.metadata.annotations.unwrap()["app.oam.dev/username"], who.0, "{what}");
    }
    for (what, name, _, who) in &edits {
        table.acts(what, name, from, *who, true).await;
    }
    let label = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"note": "x"}}});
    let labelled = table.edit(&tenant, "t4", &label).await.unwrap();
    assert_eq!(labelled.metadata.annotations.unwrap()["app.oam.dev/username"], "system:boss");

    // A right that was taken away is gone within two minutes, whatever the stamp says.
    let bindings: Api<ClusterRoleBinding> = Api::all(table.admin.clone());
    bindings.delete("root", &DeleteParams::default()).await.unwrap();
    until("an administrator who is none any more", 2 * LIMIT, async || {
        let again = json!({"metadata": {"labels": {"again": fastrand::u32(..).to_string()}}});
        let found = table.edit(&tenant, "t6", &again).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        has_doubt(&found)
    })
    .await;
    let from = table.now();
    let maps: Api<ConfigMap> = Api::namespaced(table.admin.clone(), "default");
    maps.delete("t6", &DeleteParams::default()).await.unwrap();
    table.acts("taken away", "t6", from, ("root", "system:authenticated"), false).await;

    // An administrator who restores it keeps its author, nobody else does.
    for (client, name, who) in [(&table.admin, "t1", "tenant"), (&tenant, "t4", "tenant")] {
        let api = applications(table.admin.clone());
        let mut saved = api.get(name).await.unwrap();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        until("it is gone", LIMIT, async || api.get_opt(name).await.unwrap().is_none()).await;
        saved.metadata.resource_version = None;
        saved.metadata.uid = None;
        let back = table.create(client, &saved).await.unwrap();
        assert_eq!(back.metadata.annotations.unwrap()["app.oam.dev/username"], who, "{name}");
    }
    deployed.check().unwrap();
    table.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_no_webhook_answers_is_nobodys() {
    let (table, deployed) = started("unstamped").await;
    let tenant = table.client("tenant", &["kubevela:team"]).await;
    let none = json!({});
    table.create(&table.admin, &app("theirs", &none)).await.unwrap();
    table.create(&tenant, &app("mine", &none)).await.unwrap();
    table.acts("an administrator", "theirs", 0, ADMIN, true).await;
    table.acts("a tenant", "mine", 0, TENANT, true).await;

    // The webhook is away.
    let withdrawn = deployed.admission.withdraw(&table.cluster).await.unwrap();
    let probe = async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let made = applications(tenant.clone()).create(&dry, &app("probe", &none)).await;
        made.is_ok_and(|made| made.metadata.annotations.is_none_or(|all| all.is_empty()))
    };
    until("nobody asks the webhook", LIMIT, probe).await;
    let refused = |answer: kube::Result<DynamicObject>, what: &str| {
        let error = answer.expect_err(what).to_string();
        assert!(error.contains("name who wrote what an Application deploys"), "{what}: {error}");
    };
    let forged = [
        identity("admin", "kubevela:cluster-admins"),
        identity("x", "system:masters"),
        identity("tenant", "kubevela:cluster-admins"),
        json!({"app.oam.dev/administrator": "User:tenant"}),
    ];
    for (i, annotations) in forged.iter().enumerate() {
        let answer = table.create(&tenant, &app(&format!("f{i}"), annotations)).await;
        refused(answer, &annotations.to_string());
    }
    let edit = json!({"spec": spec("theirs", "2")});
    refused(table.edit(&tenant, "theirs", &edit).await, "another's spec");
    let publish = json!({"metadata": {"annotations": {"app.oam.dev/publishVersion": "v1"}}});
    refused(table.edit(&tenant, "theirs", &publish).await, "another's publishVersion");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    table.edit(&tenant, "theirs", &label).await.unwrap();

    let from = table.now();
    table.create(&tenant, &app("u0", &none)).await.unwrap();
    table.create(&tenant, &app("u1", &identity("tenant", "kubevela:team"))).await.unwrap();
    table.edit(&tenant, "mine", &json!({"spec": spec("mine", "2")})).await.unwrap();
    // Without the policy too: nothing but the seal is left.
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(table.admin.clone());
    bindings.delete(POLICY, &DeleteParams::default()).await.unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    until("nothing is refused", LIMIT, async || {
        let made = applications(tenant.clone()).create(&dry, &app("probe", &forged[0])).await;
        made.is_ok()
    })
    .await;
    for (i, annotations) in forged.iter().enumerate() {
        table.create(&tenant, &app(&format!("f{i}"), annotations)).await.unwrap();
    }
    let theirs = applications(table.admin.clone()).get("theirs").await.unwrap();
    // A stamp that is right, on another Application and on another spec.
    let stamp = json!(theirs.metadata.annotations.clone().unwrap());
    table.create(&tenant, &app("f4", &stamp)).await.unwrap();
    table.edit(&tenant, "theirs", &edit).await.unwrap();
    for name in ["u0", "u1", "mine", "f0", "f1", "f2", "f3", "f4", "theirs"] {
        table.acts("nobody is the author", name, from, DEFAULT, false).await;
    }

    // The webhook is back: an edit of metadata makes nobody the author, who asks for it is, and an administrator confirms what
    // is there and could be.
    withdrawn.restore(&table.cluster).await.unwrap();
    until("admission", LIMIT, async || admits(&table.admin).await.is_ok()).await;
    table.edit(&tenant, "f0", &label).await.unwrap();
    assert!(has_doubt(&applications(table.admin.clone()).get("f0").await.unwrap()));
    let wish = |value: &str| json!({"metadata": {"annotations": {"app.oam.dev/stamp": value}}});
    let from = table.now();
    table.edit(&tenant, "u0", &wish("renew")).await.unwrap();
    table.edit(&table.admin, "u1", &wish("confirm")).await.unwrap();
    table.edit(&table.admin, "theirs", &wish("confirm")).await.unwrap();
    table.edit(&table.admin, "f1", &wish("confirm")).await.unwrap();
    table.edit(&tenant, "f2", &wish("confirm")).await.unwrap();
    table.acts("renewed", "u0", from, TENANT, true).await;
    table.acts("confirmed", "u1", from, TENANT, true).await;
    until("what could be is confirmed, and by whom it may", LIMIT, async || {
        let of = async |name: &str| applications(table.admin.clone()).get(name).await.unwrap();
        let f1 = of("f1").await;
        let groups = f1.metadata.annotations.clone().unwrap()["app.oam.dev/group"].clone();
        assert_eq!(groups, "", "nobody is stamped with system:masters");
        !has_doubt(&f1) && has_doubt(&of("f2").await)
    })
    .await;
    deployed.check().unwrap();
    table.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_authentication_is_nobodys() {
    let cluster = Cluster::start_lean("switched").await.unwrap();
    let options = |on: &str| Options {
        values: vec![format!("authentication.enabled={on}")],
        ..Options::default()
    };
    let off = Deployed::start(&cluster, &binaries(), &options("false")).await.unwrap();
    let admin = cluster.client().await.unwrap();
    apply_all(&admin, users()).await.unwrap();
    until("admission", LIMIT, async || admits(&admin).await.is_ok()).await;
    let table = Table { cluster, admin };
    let tenant = table.client("tenant", &["kubevela:team"]).await;
    let api = applications(tenant.clone());
    until("the right", LIMIT, async || api.get_opt("none").await.is_ok()).await;

    // Without authentication only an administrator names somebody, which takes rights away.
    let from = table.now();
    let named = identity("tenant", "kubevela:team");
    let forged = identity("tenant", "system:masters");
    table.create(&table.admin, &app("confined", &named)).await.unwrap();
    table.create(&table.admin, &app("masters", &forged)).await.unwrap();
    table.create(&tenant, &app("free", &forged)).await.unwrap();
    table.acts("confined by an administrator", "confined", from, TENANT, true).await;
    let alone = ("tenant", "system:authenticated");
    table.acts("groups of Kubernetes are not lent", "masters", from, alone, true).await;
    table.acts("the controller itself", "free", from, ("", ""), true).await;
    let free = applications(table.admin.clone()).get("free").await.unwrap();
    assert!(free.metadata.annotations.is_none_or(|all| !all.contains_key("app.oam.dev/username")));

    off.admission.close(&table.cluster).await.unwrap();
    assert!(off.stop(Duration::from_secs(20)).unwrap());
    let on = Deployed::start(&table.cluster, &binaries(), &options("true")).await.unwrap();
    until("every author is doubted", LIMIT, async || {
        let all = applications(table.admin.clone()).list(&Default::default()).await.unwrap();
        all.items.iter().all(has_doubt)
    })
    .await;
    // The status is written before it is counted.
    until("all three are counted", LIMIT, async || {
        let count = on.controller.metric("application_not_stamped_number").await.unwrap();
        (count - 3.0).abs() < 0.1
    })
    .await;
    let from = table.now();
    let wish = json!({"metadata": {"annotations": {"app.oam.dev/stamp": "confirm"}}});
    table.edit(&table.admin, "confined", &wish).await.unwrap();
    let edit = json!({"spec": spec("free", "2")});
    table.edit(&tenant, "free", &edit).await.unwrap();
    table.acts("an edit", "free", from, TENANT, true).await;
    until("it is confirmed", LIMIT, async || {
        !has_doubt(&applications(table.admin.clone()).get("confined").await.unwrap())
    })
    .await;
    on.check().unwrap();
    table.cluster.stop();
}

/// Waits until both programs have read a key: what is stamped then is sealed with it.
async fn have_read(deployed: &Deployed, times: usize) {
    until("both programs read the key", LIMIT, async || {
        [&deployed.controller, &deployed.webhook].into_iter().all(|program| {
            let log = std::fs::read_to_string(program.log()).unwrap();
            log.matches("stamp key read").count() >= times
        })
    })
    .await;
}

/// The key is exchanged while everything runs: what the old one sealed counts until it is taken out, `confirm` seals again, and
/// who still has the old key then is nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_exchanged_without_anybody_losing_his_applications() {
    const NEW: &str = "another stamp key, for control planes that exchange theirs";
    let (table, deployed) = started("key").await;
    let tenant = table.client("tenant", &["kubevela:team"]).await;
    let (none, maps) = (json!({}), Api::<ConfigMap>::namespaced(table.admin.clone(), "default"));
    for name in ["kept", "confirmed"] {
        table.create(&tenant, &app(name, &none)).await.unwrap();
        table.acts("the first key", name, 0, TENANT, true).await;
    }
    have_read(&deployed, 1).await;
    exchange_stamp_key(&table.cluster, NEW, Some(KEY)).await.unwrap();
    have_read(&deployed, 2).await;

    let from = table.now();
    table.create(&tenant, &app("new", &none)).await.unwrap();
    table.acts("the new key", "new", from, TENANT, true).await;
    for name in ["kept", "confirmed"] {
        let from = table.now();
        maps.delete(name, &DeleteParams::default()).await.unwrap();
        table.acts("the key before", name, from, TENANT, true).await;
    }
    let stamp = async |name: &str| {
        let found = applications(table.admin.clone()).get(name).await.unwrap();
        found.metadata.annotations.unwrap()["app.oam.dev/stamp"].clone()
    };
    let before = stamp("confirmed").await;
    let confirm = json!({"metadata": {"annotations": {"app.oam.dev/stamp": "confirm"}}});
    table.edit(&table.admin, "confirmed", &confirm).await.unwrap();
    assert_ne!(stamp("confirmed").await, before, "it is sealed with the new key");

    exchange_stamp_key(&table.cluster, NEW, None).await.unwrap();
    have_read(&deployed, 3).await;
    for name in ["new", "confirmed"] {
        let from = table.now();
        maps.delete(name, &DeleteParams::default()).await.unwrap();
        table.acts("the old key is out", name, from, TENANT, true).await;
    }
    // Its stamp is not believed any more. Nothing is deleted for that.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    table.edit(&tenant, "kept", &label).await.unwrap();
    until("the doubt", LIMIT, async || {
        has_doubt(&applications(table.admin.clone()).get("kept").await.unwrap())
    })
    .await;
    assert!(maps.get_opt("kept").await.unwrap().is_some());
    let from = table.now();
    table.edit(&tenant, "kept", &json!({"spec": spec("kept", "2")})).await.unwrap();
    table.acts("an edit", "kept", from, TENANT, true).await;
    deployed.check().unwrap();
    table.cluster.stop();
}
