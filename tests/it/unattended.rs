//! What is written while no webhook answers, of all that Applications of an administrator use: nobody is its author, so the
//! default user answers for it, and what only we may write is not believed. The rows of docs/security-model.md on that.

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

use crate::deputy::{
    Actors, LIMIT, TEAM, Who, actors, application, component_definition, outcome, template,
};

/// Who answers for what nobody wrote.
const DEFAULT_USER: &str = "kubevela:vela-core";

/// A ConfigMap named after the Application.
const HARMLESS: &str = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.appName, data: {}}
parameter: {...}"#;

/// What an Application uses: an object that is named as the Application, and how the tenant changes it.
struct Row {
    version: &'static str,
    kind: &'static str,
    name: &'static str,
    object: Value,
    edit: Value,
}

/// A definition whose template the tenant replaces.
fn definition(kind: &'static str, name: &'static str, before: &str, after: &str) -> Row {
    let schematic = |template: &str| json!({"schematic": {"cue": {"template": template}}});
    let mut object = component_definition(TEAM, name, before);
    if kind != "ComponentDefinition" {
        object["kind"] = json!(kind);
        object["spec"] = schematic(before);
    }
    Row { version: "v1beta1", kind, name, object, edit: json!({"spec": schematic(after)}) }
}

fn of_trait(template: &str) -> String {
    template.replace("output:", "outputs: x:")
}

fn rows() -> Vec<Row> {
    let applies = |object: &str| {
        format!("import \"vela/op\"\napply: op.#Apply & {{value: {object}}}\nparameter: {{...}}")
    };
    let map = r#"{apiVersion: "v1", kind: "ConfigMap", metadata: name: "of-the-step", data: {}}"#;
    let role = r#"{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: name: "u-step", rules: []}"#;
    let map_of_trait = of_trait(&HARMLESS.replace("context.appName", "\"of-the-trait\""));
    let map_of_policy = HARMLESS.replace("context.appName", "\"of-the-policy\"");
    let overrides = |component: Value| json!({"properties": {"components": [component]}});
    let mut policy = overrides(json!({"name": "c"}));
    policy["kind"] = json!("Policy");
    policy["metadata"] = json!({"name": "u-override", "namespace": TEAM});
    policy["type"] = json!("override");
    let adds = overrides(json!({"name": "c", "traits": [{"type": "u-override"}]}));
    vec![
        definition("ComponentDefinition", "u-component", HARMLESS, &template("u-component")),
        definition("TraitDefinition", "u-trait", &map_of_trait, &of_trait(&template("u-trait"))),
        definition("PolicyDefinition", "u-policy", &map_of_policy, &template("u-policy")),
        definition("WorkflowStepDefinition", "u-step", &applies(map), &applies(role)),
        Row { version: "v1alpha1", kind: "Policy", name: "u-override", object: policy, edit: adds },
    ]
}

/// An Application that uses the object of a row.
fn uses(row: &Row) -> Value {
    let mut app = application(row.name, "u-plain");
    match row.kind {
        "ComponentDefinition" => app["spec"]["components"][0]["type"] = json!(row.name),
        "TraitDefinition" => {
            app["spec"]["components"][0]["traits"] = json!([{"type": row.name}]);
        }
        "PolicyDefinition" => {
            app["spec"]["policies"] =
                json!([{"name": "p", "type": row.name, "properties": {"a": "b"}}]);
        }
        "Policy" => {
            let step =
                json!({"name": "d", "type": "deploy", "properties": {"policies": [row.name]}});
            app["spec"]["workflow"] = json!({"steps": [step]});
        }
        _ => {
            let apply =
                json!({"name": "a", "type": "apply-component", "properties": {"component": "c"}});
            app["spec"]["workflow"] = json!({"steps": [apply, {"name": "s", "type": row.name}]});
        }
    }
    app
}

/// An Application that waits for an approval.
fn waits(name: &str, workflow: Value) -> Value {
    let mut app = application(name, "u-plain");
    app["spec"]["workflow"] = workflow;
    app
}

fn steps(approved: bool) -> Value {
    let apply = json!({"name": "a", "type": "apply-component", "properties": {"component": "c"}});
    let approve = json!({"name": "approve", "type": "suspend"});
    if approved { json!([apply]) } else { json!([approve, apply]) }
}

struct World {
    cluster: Cluster,
    deployed: Deployed,
    actors: Actors,
    apps: Api<DynamicObject>,
    maps: Api<ConfigMap>,
}

impl World {
    async fn status(&self, name: &str) -> Value {
        self.apps.get(name).await.unwrap().data["status"].clone()
    }

    async fn events(&self, reason: &str) -> bool {
        let events: Api<Event> = Api::namespaced(self.actors.of(Who::Administrator).clone(), TEAM);
        let all = events.list(&ListParams::default()).await.unwrap();
        all.items.iter().any(|event| event.reason.as_deref() == Some(reason))
    }

    /// An edit of the administrator: everything is taken up again.
    async fn edit(&self, name: &str, edit: &Value) {
        self.apps.patch(name, &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    }

    /// An edit of the tenant, who may make every one of these.
    async fn by_tenant(&self, version: &str, kind: &str, name: &str, edit: &Value) {
        let api = self.actors.objects(Who::Tenant, version, kind, TEAM);
        let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(edit)).await;
        answer.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }
}

async fn started() -> World {
    let cluster = Cluster::start("unattended").await.unwrap();
    let actors = actors(&cluster).await;
    let values = vec!["authentication.enabled=true".to_owned()];
    let options = Options { values, ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    let administrator = actors.of(Who::Administrator).clone();
    until("admission", LIMIT, async || admits(&administrator).await.is_ok()).await;
    let apps = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let maps = Api::namespaced(administrator, TEAM);
    World { cluster, deployed, actors, apps, maps }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_while_no_webhook_answers_is_nobodys_work() {
    let world = started().await;
    let admin = Who::Administrator;
    let create = async |version: &str, object: &Value| {
        world.actors.create(admin, version, object).await.unwrap();
    };
    let rows = rows();
    create("v1beta1", &component_definition(NAMESPACE, "u-plain", HARMLESS)).await;
    // A trait of the administrators, which the tenant's Policy will name.
    let mut of_role = definition("TraitDefinition", "u-override", "", "").object;
    of_role["metadata"]["namespace"] = json!(NAMESPACE);
    of_role["spec"]["schematic"]["cue"]["template"] = json!(of_trait(&template("u-override")));
    create("v1beta1", &of_role).await;
    for row in &rows {
        create(row.version, &row.object).await;
        create("v1beta1", &uses(row)).await;
    }
    let workflow = json!({"kind": "Workflow", "metadata": {"name": "u-wf", "namespace": TEAM},
        "steps": steps(false)});
    create("v1alpha1", &workflow).await;
    create("v1beta1", &waits("u-referred", json!({"ref": "u-wf"}))).await;
    create("v1beta1", &waits("u-context", json!({"steps": steps(false)}))).await;
    let mut pinned = application("u-pinned", "u-plain");
    pinned["metadata"]["annotations"] = json!({"app.oam.dev/publishVersion": "one"});
    create("v1beta1", &pinned).await;
    create("v1beta1", &application("u-status", "u-plain")).await;
    for row in &rows {
        outcome(&world.actors, row.name).await.unwrap();
    }
    for name in ["u-pinned", "u-status"] {
        outcome(&world.actors, name).await.unwrap();
    }
    for name in ["u-referred", "u-context"] {
        let is_waiting = async || world.status(name).await["status"] == "workflowSuspending";
        until(&format!("{name} waits"), LIMIT, is_waiting).await;
    }

    // Somebody of another namespace may write none of it, webhook or not.
    let neighbour = Tenant::new(&world.cluster, "neighbour").await.unwrap();
    let withdrawn = world.deployed.admission.withdraw(&world.cluster).await.unwrap();
    until("nobody asks the webhook", LIMIT, async || {
        let answer = admits(world.actors.of(admin)).await;
        answer.is_err_and(|error| error.to_string().contains("nobody asked the webhook"))
    })
    .await;
    let outsider = Actors {
        administrator: world.actors.of(admin).clone(),
        tenant: neighbour.client().clone(),
    };
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    for (version, kind, name) in [
        ("v1beta1", "ComponentDefinition", "u-component"),
        ("v1beta1", "TraitDefinition", "u-trait"),
        ("v1beta1", "PolicyDefinition", "u-policy"),
        ("v1beta1", "WorkflowStepDefinition", "u-step"),
        ("v1alpha1", "Workflow", "u-wf"),
        ("v1alpha1", "Policy", "u-override"),
        ("v1beta1", "ApplicationRevision", "u-pinned-v1"),
        ("v1beta1", "Application", "u-status"),
    ] {
        let api = outsider.objects(Who::Tenant, version, kind, TEAM);
        let answer = api.patch(name, &PatchParams::default(), &label).await;
        assert!(answer.is_err_and(|error| is_forbidden(&error)), "{kind}");
    }
    let theirs: Api<ConfigMap> = Api::namespaced(neighbour.client().clone(), TEAM);
    let answer = theirs.patch("workflow-u-context-context", &PatchParams::default(), &label).await;
    assert!(answer.is_err_and(|error| is_forbidden(&error)), "the context");

    // The tenant writes all that he may write: everything of his namespace, no tracker and nothing of the system.
    for row in &rows {
        world.by_tenant(row.version, row.kind, row.name, &row.edit).await;
    }
    world.by_tenant("v1alpha1", "Workflow", "u-wf", &json!({"steps": steps(true)})).await;
    // A stored revision holds its spec compressed: whoever changes it writes a whole one.
    let edit = json!({"spec": {"compression": null, "application": {"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "u-pinned"}, "spec": {"components": [
        {"name": "c", "type": "u-plain", "properties": {"tenant": "1"}}]}}}});
    world.by_tenant("v1beta1", "ApplicationRevision", "u-pinned-v1", &edit).await;
    let trackers = world.actors.objects(Who::Tenant, "v1beta1", "ResourceTracker", TEAM);
    assert!(trackers.list(&ListParams::default()).await.is_err(), "trackers are of the cluster");
    let of_system = world.actors.objects(Who::Tenant, "v1beta1", "ComponentDefinition", NAMESPACE);
    let answer = of_system.patch("u-plain", &PatchParams::default(), &label).await;
    assert!(answer.is_err_and(|error| is_forbidden(&error)), "a definition of the system");
    let step = world.status("u-context").await["workflow"]["steps"][0]["id"].clone();
    let done = json!({"verdict": "succeeded", "reason": "", "message": "", "variables": []});
    let approval =
        json!({"data": {format!("{}.outcome", step.as_str().unwrap()): done.to_string()}});
    let of_tenant: Api<ConfigMap> = Api::namespaced(world.actors.of(Who::Tenant).clone(), TEAM);
    of_tenant
        .patch("workflow-u-context-context", &PatchParams::default(), &Patch::Merge(&approval))
        .await
        .unwrap();
    // A status names no author.
    let lie = json!({"status": {"latestRevision": {"name": "u-pinned-v1", "revision": 1, "revisionHash": "x"}}});
    let statuses = world.actors.objects(Who::Tenant, "v1beta1", "Application", TEAM);
    statuses.patch_status("u-status", &PatchParams::default(), &Patch::Merge(&lie)).await.unwrap();

    withdrawn.restore(&world.cluster).await.unwrap();
    until("admission", LIMIT, async || admits(world.actors.of(admin)).await.is_ok()).await;
    let roles: Api<ClusterRole> = Api::all(world.actors.of(admin).clone());
    for row in &rows {
        let mut component = uses(row)["spec"]["components"][0].clone();
        component["properties"] = json!({"again": "1"});
        world.edit(row.name, &json!({"spec": {"components": [component]}})).await;
        until(&format!("{} is refused", row.kind), LIMIT, async || {
            let text = world.status(row.name).await.to_string();
            text.contains(&format!("{} {TEAM}/{}", row.kind, row.name))
                && text.contains(DEFAULT_USER)
        })
        .await;
        assert!(roles.get_opt(row.name).await.unwrap().is_none(), "{}", row.kind);
    }
    // What is deployed stays; the next run says that nobody is known to have written what it would deploy.
    let restart = json!({"metadata": {"annotations": {"app.oam.dev/restart-workflow": "true"}}});
    world.edit("u-pinned", &restart).await;
    until("the revision is reported", LIMIT, async || {
        let conditions = world.status("u-pinned").await["conditions"].clone();
        let revision =
            conditions.as_array().into_iter().flatten().find(|one| one["type"] == "Revision");
        revision.is_some_and(|one| {
            one["status"] == "False" && one["message"].to_string().contains("u-pinned-v1")
        })
    })
    .await;
    assert!(world.maps.get_opt("u-pinned").await.unwrap().is_some());
    until("the Workflow is reported", LIMIT, async || world.events("ChangedByOthers").await).await;
    assert_eq!(world.status("u-referred").await["status"], "workflowSuspending");

    // The next process did not write the context itself.
    world.deployed.controller.kill().unwrap();
    world.deployed.controller.start(&world.cluster).unwrap();
    world.deployed.controller.ready().await.unwrap();
    until("the context is reported", LIMIT, async || world.events("ForeignContext").await).await;
    assert_eq!(world.status("u-context").await["status"], "workflowSuspending");
    assert!(world.maps.get_opt("u-context").await.unwrap().is_none(), "nobody approved it");

    // The same author as before, whatever the status says.
    let from = audit::position(&world.cluster.audit_log()).unwrap();
    world.maps.delete("u-status", &DeleteParams::default()).await.unwrap();
    until("it is put back", LIMIT, async || {
        world.maps.get_opt("u-status").await.unwrap().is_some()
    })
    .await;
    let entries = audit::read(&world.cluster.audit_log(), from).unwrap();
    let writes = entries.iter().filter(|entry| {
        entry.is_controllers_write() && entry.resource == "configmaps" && entry.name == "u-status"
    });
    let users: Vec<&str> = writes.map(|entry| entry.acting_as.as_str()).collect();
    assert!(!users.is_empty() && users.iter().all(|user| *user == "admin"), "{users:?}");
    world.deployed.check().unwrap();
    world.cluster.stop();
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// What was written before authentication was switched on has no stamp: of definitions too the default user is the author.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_from_before_authentication_is_nobodys() {
    let cluster = Cluster::start("earlier").await.unwrap();
    let actors = actors(&cluster).await;
    let options = |on: &str| Options {
        values: vec![format!("authentication.enabled={on}")],
        ..Options::default()
    };
    let off = Deployed::start(&cluster, &binaries(), &options("false")).await.unwrap();
    let administrator = actors.of(Who::Administrator).clone();
    until("admission", LIMIT, async || admits(&administrator).await.is_ok()).await;
    let object = component_definition(TEAM, "early", &template("early"));
    actors.create(Who::Tenant, "v1beta1", &object).await.unwrap();
    off.admission.close(&cluster).await.unwrap();
    assert!(off.stop(std::time::Duration::from_secs(20)).unwrap());
    let on = Deployed::start(&cluster, &binaries(), &options("true")).await.unwrap();
    until("admission", LIMIT, async || admits(&administrator).await.is_ok()).await;
    let app = application("early", "early");
    actors.create(Who::Administrator, "v1beta1", &app).await.unwrap();
    let text = outcome(&actors, "early").await.unwrap_err();
    assert!(text.contains(&format!("ComponentDefinition {TEAM}/early")), "{text}");
    let roles: Api<ClusterRole> = Api::all(administrator.clone());
    assert!(roles.get_opt("early").await.unwrap().is_none());
    // The administrator takes it over: then it is his.
    let definitions = actors.objects(Who::Administrator, "v1beta1", "ComponentDefinition", TEAM);
    let renew = json!({"metadata": {"annotations": {"app.oam.dev/stamp": "renew"}}});
    definitions.patch("early", &PatchParams::default(), &Patch::Merge(&renew)).await.unwrap();
    let apps = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let component = json!({"name": "c", "type": "early", "properties": {"again": "1"}});
    let edit = json!({"spec": {"components": [component]}});
    apps.patch("early", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until("it is the administrator's work", LIMIT, async || {
        roles.get_opt("early").await.unwrap().is_some()
    })
    .await;
    on.check().unwrap();
    cluster.stop();
}
