//! Nobody borrows another's identity: whoever writes what an Application uses has its requests made only if he may make them
//! himself. The audit log shows as whom they were made. The table is that of docs/security-model.md.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::admits;
use vela_tests::tenant::Tenant;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const TEAM: &str = "team";
const TENANT: &str = "tenant";

/// Who writes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Administrator,
    Tenant,
}

pub(crate) struct Actors {
    pub(crate) administrator: Client,
    pub(crate) tenant: Client,
}

impl Actors {
    pub(crate) fn of(&self, who: Who) -> &Client {
        match who {
            Who::Tenant => &self.tenant,
            Who::Administrator => &self.administrator,
        }
    }

    pub(crate) fn objects(
        &self,
        who: Who,
        version: &str,
        kind: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("core.oam.dev", version, kind);
        Api::namespaced_with(self.of(who).clone(), namespace, &ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn create(&self, who: Who, version: &str, object: &Value) -> kube::Result<()> {
        let kind = object["kind"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        let mut object = object.clone();
        object["apiVersion"] = json!(format!("core.oam.dev/{version}"));
        let object = serde_json::from_value(object).unwrap();
        let api = self.objects(who, version, kind, namespace);
        api.create(&PostParams::default(), &object).await.map(|_| ())
    }
}

/// A template that makes a ClusterRole, which the tenant may not.
pub(crate) fn template(name: &str) -> String {
    format!(
        r#"output: {{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: name: "{name}", rules: []}}
parameter: {{...}}"#
    )
}

pub(crate) fn component_definition(namespace: &str, name: &str, template: &str) -> Value {
    json!({
        "kind": "ComponentDefinition", "metadata": {"name": name, "namespace": namespace},
        "spec": {"workload": {"type": "autodetects.core.oam.dev"},
            "schematic": {"cue": {"template": template}}},
    })
}

pub(crate) fn application(name: &str, type_: &str) -> Value {
    json!({
        "kind": "Application", "metadata": {"name": name, "namespace": TEAM},
        "spec": {"components": [{"name": "c", "type": type_, "properties": {}}]},
    })
}

pub(crate) async fn actors(cluster: &Cluster) -> Actors {
    let tenant = Tenant::called(cluster, TEAM, TENANT).await.unwrap();
    Actors { administrator: cluster.client().await.unwrap(), tenant: tenant.client().clone() }
}

/// What became of an Application: it runs, or what its step or its conditions complain about.
pub(crate) async fn outcome(actors: &Actors, name: &str) -> Result<(), String> {
    let api = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let mut found = None;
    until(&format!("the end of {name}"), LIMIT, async || {
        let status = api.get(name).await.unwrap().data["status"].clone();
        let text = status.to_string();
        found = match status["status"].as_str() {
            Some("running") => Some(Ok(())),
            _ if text.contains("forbidden") || text.contains("Forbidden") => Some(Err(text)),
            _ => None,
        };
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_allowed_to_every_author() {
    let cluster = Cluster::start("deputy").await.unwrap();
    let actors = actors(&cluster).await;
    let values = vec!["authentication.enabled=true".to_owned()];
    let options = Options { values, ..Options::default() };
    let deployed = Deployed::start(&cluster, &binaries(), &options).await.unwrap();
    until("admission", LIMIT, async || admits(&actors.administrator).await.is_ok()).await;
    let roles: Api<ClusterRole> = Api::all(actors.administrator.clone());
    let refused = actors
        .create(Who::Tenant, "v1beta1", &component_definition(NAMESPACE, "no", &template("no")))
        .await;
    assert!(refused.is_err(), "a tenant writes no definition of the system");

    // Whose Application, whose definition, where it is; whether the ClusterRole is made.
    let rows = [
        (Who::Administrator, Who::Administrator, TEAM, true),
        (Who::Administrator, Who::Administrator, NAMESPACE, true),
        (Who::Administrator, Who::Tenant, TEAM, false),
        (Who::Tenant, Who::Administrator, TEAM, false),
        (Who::Tenant, Who::Administrator, NAMESPACE, false),
        (Who::Tenant, Who::Tenant, TEAM, false),
    ];
    for (row, (app, definition, namespace, made)) in rows.into_iter().enumerate() {
        let (name, from) = (format!("row-{row}"), audit::position(&cluster.audit_log()).unwrap());
        let object = component_definition(namespace, &name, &template(&name));
        actors.create(definition, "v1beta1", &object).await.unwrap();
        actors.create(app, "v1beta1", &application(&name, &name)).await.unwrap();
        let outcome = outcome(&actors, &name).await;
        assert_eq!(outcome.is_ok(), made, "{name}: {outcome:?}");
        assert_eq!(roles.get_opt(&name).await.unwrap().is_some(), made, "{name}");
        let entries = audit::read(&cluster.audit_log(), from).unwrap();
        let asked = |who: &str| {
            entries
                .iter()
                .any(|e| e.resource == "clusterroles" && e.verb == "create" && e.acting_as == who)
        };
        assert_eq!(asked(TENANT), app == Who::Tenant || definition == Who::Tenant, "{name}");
        if (app, definition) == (Who::Administrator, Who::Tenant) {
            let text = outcome.unwrap_err();
            for part in [TENANT, "ComponentDefinition team/row-2", "create ClusterRole"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
    // What the tenant may do himself goes through, as the administrator.
    let harmless = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.appName, data: {}}
parameter: {...}"#;
    let object = component_definition(TEAM, "harmless", harmless);
    actors.create(Who::Tenant, "v1beta1", &object).await.unwrap();
    actors
        .create(Who::Administrator, "v1beta1", &application("harmless", "harmless"))
        .await
        .unwrap();
    outcome(&actors, "harmless").await.unwrap();

    kinds(&actors, &roles).await;
    second_tenant(&cluster, &actors).await;
    referred(&actors).await;
    policy(&actors, &roles).await;
    revisions(&actors, &roles).await;
    deployed.admission.close(&cluster).await.unwrap();
    cluster.stop();
}

/// Definitions of every other kind, which a tenant wrote and an administrator's Application uses.
async fn kinds(actors: &Actors, roles: &Api<ClusterRole>) {
    let plain = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.appName, data: {}}
parameter: {...}"#;
    let plain = component_definition(NAMESPACE, "plain", plain);
    actors.create(Who::Administrator, "v1beta1", &plain).await.unwrap();
    let uses = |kind: &str, name: &str| {
        let mut app = application(name, "plain");
        match kind {
            "TraitDefinition" => app["spec"]["components"][0]["traits"] = json!([{"type": name}]),
            "PolicyDefinition" => {
                app["spec"]["policies"] =
                    json!([{"name": "p", "type": name, "properties": {"a": "b"}}]);
            }
            _ => app["spec"]["workflow"] = json!({"steps": [{"name": "s", "type": name}]}),
        }
        app
    };
    let applied = |name: &str| {
        format!(
            r#"import "vela/op"
apply: op.#Apply & {{value: {{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: name: "{name}", rules: []}}}}
parameter: {{...}}"#
        )
    };
    let rows = [
        ("TraitDefinition", "lent-trait", template("lent-trait").replace("output:", "outputs: x:")),
        ("PolicyDefinition", "lent-policy", template("lent-policy")),
        ("WorkflowStepDefinition", "lent-step", applied("lent-step")),
    ];
    for (kind, name, template) in rows {
        let definition = json!({"kind": kind, "metadata": {"name": name, "namespace": TEAM},
            "spec": {"schematic": {"cue": {"template": template}}}});
        actors.create(Who::Tenant, "v1beta1", &definition).await.unwrap();
        actors.create(Who::Administrator, "v1beta1", &uses(kind, name)).await.unwrap();
        let text = outcome(actors, name).await.unwrap_err();
        assert!(text.contains(TENANT) && text.contains(&format!("{kind} {TEAM}/{name}")), "{text}");
        assert!(roles.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

/// A tenant of another namespace: neither the objects nor the definitions of the first one are his.
async fn second_tenant(cluster: &Cluster, actors: &Actors) {
    let tenant = Tenant::new(cluster, "neighbour").await.unwrap();
    let (name, namespace) = (tenant.name(), tenant.name());
    let neighbour =
        Actors { administrator: actors.administrator.clone(), tenant: tenant.client().clone() };
    let intruder = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "intruder", namespace: "team"}, data: {}}
parameter: {...}"#;
    let mut definition = component_definition(namespace, "intruder", intruder);
    neighbour.create(Who::Tenant, "v1beta1", &definition).await.unwrap();
    definition["metadata"]["namespace"] = json!(TEAM);
    let refused = neighbour.create(Who::Tenant, "v1beta1", &definition).await;
    assert!(refused.is_err(), "a definition of another tenant's namespace");
    let mut app = application("intruder", "intruder");
    app["metadata"]["namespace"] = json!(namespace);
    neighbour.create(Who::Tenant, "v1beta1", &app).await.unwrap();
    let api = actors.objects(Who::Administrator, "v1beta1", "Application", namespace);
    until("the refusal", LIMIT, async || {
        let text = api.get("intruder").await.unwrap().data["status"].to_string();
        text.contains("forbidden") && text.contains(name)
    })
    .await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(actors.administrator.clone(), TEAM);
    assert!(maps.get_opt("intruder").await.unwrap().is_none());
    // A type that only the first tenant's namespace has does not exist for him.
    let mut app = application("borrowed", "harmless");
    app["metadata"]["namespace"] = json!(namespace);
    let refused = neighbour.create(Who::Tenant, "v1beta1", &app).await.unwrap_err();
    assert!(refused.to_string().contains("harmless"), "{refused}");
}

/// A Workflow that an administrator's Application refers to.
async fn referred(actors: &Actors) {
    let apply = json!({"name": "a", "type": "apply-component", "properties": {"component": "c"}});
    let workflow = |steps: Value| json!({"kind": "Workflow", "metadata": {"name": "wf", "namespace": TEAM}, "steps": steps});
    let approve = json!({"name": "approve", "type": "suspend"});
    let first = workflow(json!([approve, apply.clone()]));
    actors.create(Who::Administrator, "v1alpha1", &first).await.unwrap();
    let mut app = application("waits", "harmless");
    app["spec"]["workflow"] = json!({"ref": "wf"});
    actors.create(Who::Administrator, "v1beta1", &app).await.unwrap();
    let apps = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let phase = async || apps.get("waits").await.unwrap().data["status"]["status"].clone();
    until("the approval is waited for", LIMIT, async || phase().await == "workflowSuspending")
        .await;
    let workflows = actors.objects(Who::Tenant, "v1alpha1", "Workflow", TEAM);
    let edit = json!({"steps": [apply]});
    workflows.patch("wf", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let events: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(actors.administrator.clone(), TEAM);
    until("it is told", LIMIT, async || {
        let all = events.list(&kube::api::ListParams::default()).await.unwrap();
        all.items.iter().any(|event| event.reason.as_deref() == Some("ChangedByOthers"))
    })
    .await;
    assert_eq!(phase().await, "workflowSuspending", "nobody else takes an approval away");
}

/// A Policy that an administrator's Application refers to: a change of the tenant waits for the next edit, and is then work of the
/// tenant too.
async fn policy(actors: &Actors, roles: &Api<ClusterRole>) {
    let mut of_role = component_definition(NAMESPACE, "makes-role", "");
    of_role["kind"] = json!("TraitDefinition");
    let template = template("makes-role").replace("output:", "outputs: x:");
    of_role["spec"] = json!({"schematic": {"cue": {"template": template}}});
    actors.create(Who::Administrator, "v1beta1", &of_role).await.unwrap();
    let properties = |component: Value| json!({"properties": {"components": [component]}});
    let mut object = properties(json!({"name": "c"}));
    object["kind"] = json!("Policy");
    object["metadata"] = json!({"name": "over", "namespace": TEAM});
    object["type"] = json!("override");
    actors.create(Who::Administrator, "v1alpha1", &object).await.unwrap();
    let mut app = application("overridden", "plain");
    let step = json!({"name": "d", "type": "deploy", "properties": {"policies": ["over"]}});
    app["spec"]["workflow"] = json!({"steps": [step]});
    actors.create(Who::Administrator, "v1beta1", &app).await.unwrap();
    outcome(actors, "overridden").await.unwrap();

    let policies = actors.objects(Who::Tenant, "v1alpha1", "Policy", TEAM);
    let edit = properties(json!({"name": "c", "traits": [{"type": "makes-role"}]}));
    policies.patch("over", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let events: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(actors.administrator.clone(), TEAM);
    until("the Policy is reported", LIMIT, async || {
        let all = events.list(&kube::api::ListParams::default()).await.unwrap();
        all.items.iter().any(|event| {
            let is_of_policy =
                event.message.as_deref().is_some_and(|text| text.contains("Policy team/over"));
            event.reason.as_deref() == Some("ChangedByOthers") && is_of_policy
        })
    })
    .await;
    assert!(roles.get_opt("makes-role").await.unwrap().is_none());

    let apps = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let component = json!({"name": "c", "type": "plain", "properties": {"again": "1"}});
    let edit = json!({"spec": {"components": [component]}});
    apps.patch("overridden", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until("the refusal", LIMIT, async || {
        let text = apps.get("overridden").await.unwrap().data["status"].to_string();
        text.contains("forbidden") && text.contains(TENANT) && text.contains("Policy team/over")
    })
    .await;
    assert!(roles.get_opt("makes-role").await.unwrap().is_none());
}

/// A pinned Application of an administrator, whose revision a tenant writes again: with a stamp of his own.
async fn revisions(actors: &Actors, roles: &Api<ClusterRole>) {
    let mut app = application("pinned", "harmless");
    app["metadata"]["annotations"] = json!({"app.oam.dev/publishVersion": "one"});
    actors.create(Who::Administrator, "v1beta1", &app).await.unwrap();
    outcome(actors, "pinned").await.unwrap();
    let revisions = actors.objects(Who::Tenant, "v1beta1", "ApplicationRevision", TEAM);
    let mut revision = revisions.get("pinned-v1").await.unwrap();
    let author = revision.annotations().get("app.oam.dev/stamp").cloned();
    assert!(author.is_some(), "the controller stamps what it makes");
    let grab = component_definition(TEAM, "grab", &template("grabbed"));
    revision.data["spec"] = json!({
        "application": {"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "pinned", "namespace": TEAM},
            "spec": application("pinned", "grab")["spec"], "status": {}},
        "componentDefinitions": {"grab": grab}, "compression": {},
    });
    let revision = revisions.replace("pinned-v1", &PostParams::default(), &revision).await.unwrap();
    assert_eq!(revision.annotations()["app.oam.dev/username"], TENANT);
    assert_ne!(revision.annotations().get("app.oam.dev/stamp").cloned(), author);
    let apps = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let restart = json!({"metadata": {"annotations": {"app.oam.dev/restart-workflow": "true"}}});
    apps.patch("pinned", &PatchParams::default(), &Patch::Merge(&restart)).await.unwrap();
    let text = outcome_of_restart(actors).await;
    // The definition in it has no author of its own: the default user answers for that.
    assert!(text.contains("it depends on ComponentDefinition team/grab"), "{text}");
    assert!(roles.get_opt("grabbed").await.unwrap().is_none());
}

async fn outcome_of_restart(actors: &Actors) -> String {
    let api = actors.objects(Who::Administrator, "v1beta1", "Application", TEAM);
    let mut text = String::new();
    until("the refusal", LIMIT, async || {
        text = api.get("pinned").await.unwrap().data["status"].to_string();
        text.contains("forbidden")
    })
    .await;
    text
}
