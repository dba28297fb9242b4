//! Each controller under a ServiceAccount of its own: helm's installation with the value on, judged by the audit log, which
//! shows whose request each was and which right was missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Manifests, NAMESPACE, Options, Program, RELEASE, Role, STAMP_KEY};
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{Release, admits, application, applications};

const LIMIT: Duration = Duration::from_secs(90);
const ON: [&str; 4] =
    ["--set", "controller.serviceAccountCredentials=true", "--set", "authentication.enabled=true"];
const TRAIT: &str = "vela-traitdefinition-controller";

/// The Pod's account.
const PROCESS: &str = "kubevela-vela-core";

fn definitions(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", kind);
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

async fn runs(client: &Client, name: &str) {
    let api = applications(client.clone());
    until(&format!("{name} runs"), LIMIT, async || {
        let found = api.get(name).await.unwrap();
        let status = &found.data["status"];
        status["status"] == "running"
            && status["observedGeneration"].as_i64() == found.metadata.generation
    })
    .await;
}

/// Waits until a definition has its first revision.
async fn revised(client: &Client, kind: &str, name: &str) {
    let api = definitions(client, kind);
    until(&format!("the revision of {kind} {name}"), LIMIT, async || {
        let found = api.get(name).await.unwrap();
        found.data["status"]["latestRevision"]["name"] == format!("{name}-v1")
    })
    .await;
}

fn trait_definition(name: &str) -> DynamicObject {
    let template = "patch: metadata: annotations: color: parameter.color\nparameter: color: string";
    let object = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"appliesToWorkloads": ["*"], "schematic": {"cue": {"template": template}}},
    });
    serde_json::from_value(object).unwrap()
}

/// The name of an account in the release's namespace.
fn account(entry: &Entry) -> &str {
    let name = entry.user.strip_prefix("system:serviceaccount:vela-system:");
    name.unwrap_or_else(|| panic!("a request of somebody else: {entry:?}"))
}

/// The controller that an object belongs to; `None` for what is the process's.
fn responsible(entry: &Entry) -> Option<&'static str> {
    let (resource, _) = entry.resource.split_once('/').unwrap_or((&entry.resource, ""));
    let of_definition = |name: &str| {
        [
            ("webservice", "componentdefinition"),
            ("scaler", "traitdefinition"),
            ("topology", "policydefinition"),
            ("suspend", "workflowstepdefinition"),
        ]
        .into_iter()
        .find(|(definition, _)| name == format!("{definition}-v1"))
        .map(|(_, controller)| controller)
    };
    match resource {
        "leases" | "events" | "serviceaccounts" => None,
        "secrets" if entry.name == STAMP_KEY => Some("application"),
        "secrets" | "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            Some("certificates")
        }
        "componentdefinitions" | "workloaddefinitions" => Some("componentdefinition"),
        "traitdefinitions" => Some("traitdefinition"),
        "policydefinitions" => Some("policydefinition"),
        "workflowstepdefinitions" => Some("workflowstepdefinition"),
        "definitionrevisions" => of_definition(&entry.name),
        "configmaps" => {
            let (kind, _) = entry.name.split_once("-schema-").unwrap_or(("", ""));
            Some(match kind {
                "component" => "componentdefinition",
                "trait" => "traitdefinition",
                "policy" => "policydefinition",
                "workflowstep" => "workflowstepdefinition",
                _ => "application",
            })
        }
        _ => Some("application"),
    }
}

/// What every request must be: allowed, by the account it came from, under that account's user agent.
fn assert_sound(entries: &[Entry]) {
    assert!(entries.len() > 100, "the audit log was read");
    for entry in entries {
        assert!(![401, 403].contains(&entry.code), "{entry:?}");
        let (account, version) = (account(entry), env!("CARGO_PKG_VERSION"));
        let agent = match account.strip_prefix("vela-").and_then(|a| a.strip_suffix("-controller"))
        {
            Some(controller) => format!("vela-controller/{version}/{controller}"),
            None => format!("vela-controller/{version}"),
        };
        assert_eq!(entry.agent, agent, "{entry:?}");
        let is_cached = entry.resource.contains("definition") || entry.resource == "applications";
        if is_cached && ["list", "watch"].contains(&entry.verb.as_str()) {
            assert_eq!(account, PROCESS, "{entry:?}");
        }
    }
}

/// Who wrote what, by `VERB RESOURCE`.
fn writers(entries: &[Entry]) -> BTreeMap<String, Vec<&str>> {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_write()) {
        let writers = found.entry(format!("{} {}", entry.verb, entry.resource)).or_default();
        if !writers.contains(&account(entry)) {
            writers.push(account(entry));
        }
    }
    found
}

struct Installed {
    cluster: Arc<Cluster>,
    client: Client,
    release: Release,
}

impl Installed {
    fn requests(&self, from: u64) -> Vec<Entry> {
        let mut entries = audit::read(&self.cluster.audit_log(), from).unwrap();
        entries.retain(Entry::is_controllers);
        entries
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// One more controller, which follows; not started yet.
    async fn follower(&self) -> Program {
        let manifests = self.release.helm().run(&["get", "manifest", RELEASE]).unwrap();
        let manifests = Manifests::parse(&manifests).unwrap();
        let options = Options {
            controller_flags: vec!["--webhook-certificates=managed".to_owned()],
            ..Options::default()
        };
        let (cluster, binaries) = (&self.cluster, binaries());
        let program = Program::prepare(Role::Controller, cluster, &binaries, &manifests, &options);
        program.await.unwrap().replica(cluster, "follower").unwrap()
    }
}

/// An Application and a definition of each kind: every account does its own part, and no right is missing.
async fn each_does_its_own(installed: &Installed) {
    let client = &installed.client;
    let scaled = json!([{"name": "web", "type": "webservice", "properties": {"image": "nginx"},
        "traits": [{"type": "scaler", "properties": {"replicas": 2}}]}]);
    let mut app = application("own", &json!("nginx"));
    app["spec"]["components"] = scaled;
    app["spec"]["policies"] = json!([{"name": "here", "type": "topology",
        "properties": {"clusters": ["local"]}}]);
    let app = serde_json::from_value(app).unwrap();
    applications(client.clone()).create(&PostParams::default(), &app).await.unwrap();
    runs(client, "own").await;
    for (kind, name) in [
        ("ComponentDefinition", "webservice"),
        ("TraitDefinition", "scaler"),
        ("PolicyDefinition", "topology"),
        ("WorkflowStepDefinition", "suspend"),
    ] {
        revised(client, kind, name).await;
    }

    // Events let other requests pass.
    let reports = |entry: &Entry| entry.is_write() && entry.resource == "events";
    until("an event", LIMIT, async || installed.requests(0).iter().any(reports)).await;

    let entries = installed.requests(0);
    assert_sound(&entries);
    for entry in entries.iter().filter(|entry| entry.is_write()) {
        let by = account(entry);
        match (responsible(entry), entry.resource.as_str()) {
            (Some(controller), _) => {
                assert_eq!(by, format!("vela-{controller}-controller"), "{entry:?}");
            }
            (None, "definitionrevisions") => assert!(by.ends_with("definition-controller")),
            (None, _) => assert_eq!(by, PROCESS, "{entry:?}"),
        }
    }
    let writers = writers(&entries);
    let app = "vela-application-controller";
    let definition = |kind: &str| format!("vela-{kind}-controller");
    for (what, who) in [
        ("patch applications/status", app.to_owned()),
        ("create applicationrevisions", app.to_owned()),
        ("create resourcetrackers", app.to_owned()),
        ("create deployments", app.to_owned()),
        ("patch componentdefinitions/status", definition("componentdefinition")),
        ("patch traitdefinitions/status", definition("traitdefinition")),
        ("patch policydefinitions/status", definition("policydefinition")),
        ("patch workflowstepdefinitions/status", definition("workflowstepdefinition")),
        ("create workloaddefinitions", definition("componentdefinition")),
        ("update mutatingwebhookconfigurations", definition("certificates")),
        ("create events", PROCESS.to_owned()),
        ("create leases", PROCESS.to_owned()),
        ("create serviceaccounts/token", PROCESS.to_owned()),
    ] {
        assert_eq!(writers.get(what), Some(&vec![&*who]), "{what}: {writers:#?}");
    }
    assert_eq!(writers["create definitionrevisions"].len(), 4, "{writers:#?}");
    // The certificate, and the key that stamps are sealed with; whose each is was compared above.
    assert_eq!(writers["create secrets"], [app, &*definition("certificates")], "{writers:#?}");
    // What the Application deploys is deployed as its author.
    let deployed: Vec<_> = entries
        .iter()
        .filter(|entry| entry.is_write() && entry.resource == "deployments")
        .map(|entry| &entry.acting_as)
        .collect();
    assert!(!deployed.is_empty() && deployed.iter().all(|user| !user.is_empty()), "{deployed:?}");
}

/// An account that is not there is waited for by name; the leader continues with one that was created again.
async fn a_missing_account_is_waited_for(installed: &Installed) {
    let client = &installed.client;
    let accounts = installed.accounts();
    let old = accounts.get(TRAIT).await.unwrap();
    accounts.delete(TRAIT, &DeleteParams::default()).await.unwrap();
    let follower = installed.follower().await;
    follower.start(&installed.cluster).unwrap();
    let log = || std::fs::read_to_string(follower.log()).unwrap_or_default();
    let waits = || {
        let reported = |line: &&str| line.contains("waiting for the token of a ServiceAccount");
        log().lines().filter(reported).map(str::to_owned).collect::<Vec<String>>()
    };
    until("the account is named", LIMIT, async || {
        follower.check().unwrap();
        waits().len() > 1
    })
    .await;
    for line in waits() {
        for words in ["vela-system/vela-traitdefinition-controller", "not found"] {
            assert!(line.contains(words), "{line}");
        }
    }
    assert!(!follower.is_ready().await);
    assert!(!log().contains("caches are filled"));

    let again: ServiceAccount = serde_json::from_value(json!({
        "metadata": {"name": TRAIT, "labels": old.labels(), "annotations": old.annotations()},
    }))
    .unwrap();
    accounts.create(&PostParams::default(), &again).await.unwrap();
    follower.ready().await.unwrap();
    let stopped = tokio::task::spawn_blocking(move || follower.stop(LIMIT));
    assert!(stopped.await.unwrap().unwrap());

    // The leader's token ended with the account that was deleted.
    let late = trait_definition("late");
    definitions(client, "TraitDefinition").create(&PostParams::default(), &late).await.unwrap();
    revised(client, "TraitDefinition", "late").await;
}

/// Off again: one account does everything, the others are gone.
async fn off_again(installed: &Installed) {
    let off = ["--set", "authentication.enabled=true"];
    installed.release.put("upgrade", &off).await.unwrap();
    let from = audit::position(&installed.cluster.audit_log()).unwrap();
    let left: Vec<String> = installed
        .accounts()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("vela-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    let edit = Patch::Merge(json!({"spec": {"components": [
        {"name": "web", "type": "webservice", "properties": {"image": "nginx:2"}}]}}));
    let api = applications(installed.client.clone());
    api.patch("own", &PatchParams::default(), &edit).await.unwrap();
    runs(&installed.client, "own").await;
    admits(&installed.client).await.unwrap();
    let entries = installed.requests(from);
    let wrote = |entry: &&Entry| entry.is_write() && entry.code != 403;
    assert!(entries.iter().filter(wrote).all(|entry| account(entry) == PROCESS), "{entries:#?}");
    assert!(entries.iter().any(|entry| entry.resource == "applications/status"));
}

#[tokio::test]
async fn each_controller_has_an_account_of_its_own() {
    let cluster = Arc::new(Cluster::start("accounts").await.unwrap());
    let client = cluster.client().await.unwrap();
    let release = Release::prepare(Arc::clone(&cluster), binaries()).await.unwrap();
    release.put("install", &ON).await.unwrap();
    let installed = Installed { cluster, client, release };
    until("admission", LIMIT, async || admits(&installed.client).await.is_ok()).await;

    each_does_its_own(&installed).await;
    a_missing_account_is_waited_for(&installed).await;
    off_again(&installed).await;
    installed.release.check().unwrap();
    let release = installed.release;
    tokio::task::spawn_blocking(move || release.stop()).await.unwrap().unwrap();
}
