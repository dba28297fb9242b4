//! The table of docs/security-model.md as one table: who writes what an Application uses, where, and in which setting; and as
//! whom the Application runs after that. Each cell has an Application of its own, and the audit log is the judge.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, NAMESPACE, Options};
use vela_tests::fixtures::{binaries, quiet, until};
use vela_tests::release::admits;

use crate::deputy::{Actors, TEAM, Who, actors, application, component_definition};

/// Each setting has dozens of Applications at a time.
const LIMIT: Duration = Duration::from_secs(120);
const ADMIN: &str = "admin";
const TENANT: &str = "tenant";
const DEFAULT_USER: &str = "kubevela:vela-core";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Identity annotations of the Application.
    Annotation,
    /// The status of the Application: the name of its revision.
    Status,
    /// The spec in the ApplicationRevision of a pinned Application.
    Revision,
    /// An object of somebody else, in the ResourceTracker.
    Tracker,
    /// An approval, in the context ConfigMap of the workflow.
    Context,
    /// The Workflow that the Application refers to.
    Workflow,
    /// The Policy that a step names.
    Policy,
    /// The ComponentDefinition of the component.
    Definition,
}

/// The setting it is written in. What is asked is always what happens with authentication, when the webhook answers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Authentication is on and the webhook answers.
    On,
    /// Authentication is off, and switched on afterwards.
    Before,
    /// Authentication is on, and no webhook answers.
    Away,
}

/// The namespace of the Application and of what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Own,
    System,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// The API server refuses the write.
    Refused,
    /// Requests are made as each of these users, and as nobody else.
    As(&'static [&'static str]),
    /// As the default user, who may do nothing here.
    AsDefault,
    /// What was written is reported and not used: nothing is written for it.
    Unused,
}

use Runs::{As, AsDefault, Refused, Unused};
use What::{Annotation, Context, Definition, Policy, Revision, Status, Tracker, Workflow};
use When::{Away, Before, On};
use Where::{Own, System};
use Who::{Administrator, Tenant};

const BY_ADMIN: Runs = As(&[ADMIN]);
const BY_TENANT: Runs = As(&[TENANT]);
const BY_BOTH: Runs = As(&[ADMIN, TENANT]);

/// Who writes what and where; what comes of it with authentication, written before it, and while no webhook answers. In the
/// tenant's namespace the Application is the other one's; in the system namespace it is the administrator's, but of a definition
/// there, which a tenant's Application uses.
const TABLE: &[(Who, What, Where, [Runs; 3])] = &[
    (Tenant, Annotation, Own, [BY_ADMIN, AsDefault, Refused]),
    (Administrator, Annotation, Own, [BY_TENANT, AsDefault, AsDefault]),
    (Tenant, Status, Own, [BY_ADMIN, AsDefault, BY_ADMIN]),
    (Administrator, Status, Own, [BY_TENANT, AsDefault, BY_TENANT]),
    (Tenant, Revision, Own, [BY_TENANT, Unused, Unused]),
    (Administrator, Revision, Own, [BY_BOTH, Unused, Unused]),
    (Tenant, Tracker, Own, [Refused, Refused, Refused]),
    (Administrator, Tracker, Own, [BY_TENANT, BY_TENANT, BY_TENANT]),
    (Tenant, Context, Own, [Unused, Unused, Unused]),
    (Administrator, Context, Own, [Unused, Unused, Unused]),
    (Tenant, Workflow, Own, [BY_BOTH, AsDefault, AsDefault]),
    (Administrator, Workflow, Own, [BY_TENANT, AsDefault, AsDefault]),
    (Tenant, Policy, Own, [BY_BOTH, AsDefault, AsDefault]),
    (Administrator, Policy, Own, [BY_TENANT, AsDefault, AsDefault]),
    (Tenant, Definition, Own, [BY_BOTH, AsDefault, AsDefault]),
    (Administrator, Definition, Own, [BY_TENANT, AsDefault, AsDefault]),
    (Tenant, Annotation, System, [Refused, Refused, Refused]),
    (Administrator, Annotation, System, [BY_ADMIN, AsDefault, AsDefault]),
    (Tenant, Status, System, [Refused, Refused, Refused]),
    (Administrator, Status, System, [BY_ADMIN, AsDefault, BY_ADMIN]),
    (Tenant, Revision, System, [Refused, Refused, Refused]),
    (Administrator, Revision, System, [Unused, Unused, Unused]),
    (Tenant, Tracker, System, [Refused, Refused, Refused]),
    (Administrator, Tracker, System, [BY_ADMIN, BY_ADMIN, BY_ADMIN]),
    (Tenant, Context, System, [Refused, Refused, Refused]),
    (Administrator, Context, System, [Unused, Unused, Unused]),
    (Tenant, Workflow, System, [Refused, Refused, Refused]),
    (Administrator, Workflow, System, [BY_ADMIN, BY_ADMIN, BY_ADMIN]),
    (Tenant, Policy, System, [Refused, Refused, Refused]),
    (Administrator, Policy, System, [BY_ADMIN, BY_ADMIN, BY_ADMIN]),
    (Tenant, Definition, System, [Refused, Refused, Refused]),
    (Administrator, Definition, System, [BY_TENANT, BY_TENANT, BY_TENANT]),
];

/// One row in one setting, with an Application of its own.
struct Cell {
    name: String,
    who: Who,
    what: What,
    wanted: Runs,
    author: Who,
    /// Of the Application and of the ConfigMap that it makes.
    namespace: &'static str,
    /// Of the object that is written.
    of_object: &'static str,
}

impl Cell {
    fn new(row: usize, when: When) -> Self {
        let (who, what, place, wanted) = TABLE[row];
        let other = if who == Tenant { Administrator } else { Tenant };
        let (author, namespace) = match (place, what) {
            (Own, _) => (other, TEAM),
            (System, Definition) => (Tenant, TEAM),
            (System, _) => (Administrator, NAMESPACE),
        };
        let of_object = if place == Own { TEAM } else { NAMESPACE };
        let wanted = wanted[when as usize];
        Self { name: format!("row-{row}"), who, what, wanted, author, namespace, of_object }
    }

    fn describe(&self) -> String {
        format!("{}: {:?} writes {:?} in {}", self.name, self.who, self.what, self.of_object)
    }

    fn properties(value: &str) -> Value {
        json!({"components": [{"name": "c", "type": "plain", "properties": {"v": value}}]})
    }

    fn app(&self) -> Value {
        let mut app = application(&self.name, "plain");
        app["metadata"]["namespace"] = json!(self.namespace);
        app["spec"]["components"][0]["properties"] = json!({"v": "made"});
        match self.what {
            Revision => {
                app["metadata"]["annotations"] = json!({"app.oam.dev/publishVersion": "one"});
            }
            Context => {
                let approve = json!({"name": "approve", "type": "suspend"});
                app["spec"]["workflow"] = json!({"steps": [approve, apply("a")]});
            }
            Workflow => app["spec"]["workflow"] = json!({"ref": self.name}),
            Policy => {
                let properties = json!({"policies": [self.name]});
                let step = json!({"name": "d", "type": "deploy", "properties": properties});
                app["spec"]["workflow"] = json!({"steps": [step]});
            }
            Definition => app["spec"]["components"][0]["type"] = json!(self.name),
            Annotation | Status | Tracker => {}
        }
        app
    }

    /// What the Application refers to, with its version; `after` it was written.
    fn object(&self, after: bool) -> Option<(&'static str, Value)> {
        let metadata = json!({"name": self.name, "namespace": self.of_object});
        let note = if after { "written" } else { "made" };
        match self.what {
            Workflow => {
                let object =
                    json!({"kind": "Workflow", "metadata": metadata, "steps": [apply(note)]});
                Some(("v1alpha1", object))
            }
            Policy => {
                let component = json!({"name": "c", "properties": {"note": note}});
                let object = json!({"kind": "Policy", "metadata": metadata, "type": "override",
                    "properties": {"components": [component]}});
                Some(("v1alpha1", object))
            }
            Definition => {
                let template = format!("// {note}\n{PLAIN}");
                Some(("v1beta1", component_definition(self.of_object, &self.name, &template)))
            }
            Annotation | Status | Revision | Tracker | Context => None,
        }
    }
}

/// A ConfigMap named after the Application.
const PLAIN: &str = r#"output: {apiVersion: "v1", kind: "ConfigMap", metadata: name: context.appName, data: parameter}
parameter: [string]: string"#;

fn apply(name: &str) -> Value {
    json!({"name": name, "type": "apply-component", "properties": {"component": "c"}})
}

/// One control plane, in one setting.
struct Setting {
    when: When,
    cluster: Cluster,
    actors: Actors,
    cells: Vec<Cell>,
}

impl Setting {
    fn api(&self, who: Who, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        self.actors.objects(who, version, kind, namespace)
    }

    fn apps(&self, who: Who, cell: &Cell) -> Api<DynamicObject> {
        self.api(who, "v1beta1", "Application", cell.namespace)
    }

    fn maps(&self, who: Who, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.actors.of(who).clone(), namespace)
    }

    fn trackers(&self, who: Who) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "ResourceTracker");
        Api::all_with(self.actors.of(who).clone(), &ApiResource::from_gvk(&kind))
    }

    async fn status(&self, cell: &Cell) -> Value {
        let app = self.apps(Administrator, cell).get(&cell.name).await.unwrap();
        app.data["status"].clone()
    }

    async fn deploy(&self, authentication: bool) -> Deployed {
        let values = vec![format!("authentication.enabled={authentication}")];
        let options = Options { values, ..Options::default() };
        let deployed = Deployed::start(&self.cluster, &binaries(), &options).await.unwrap();
        until("admission", LIMIT, async || admits(&self.actors.administrator).await.is_ok()).await;
        deployed
    }

    /// Everything as its authors want it.
    async fn create(&self) {
        let plain = component_definition(NAMESPACE, "plain", PLAIN);
        self.actors.create(Administrator, "v1beta1", &plain).await.unwrap();
        for cell in &self.cells {
            let owner = if cell.of_object == NAMESPACE { Administrator } else { cell.author };
            if let Some((version, object)) = cell.object(false) {
                self.actors.create(owner, version, &object).await.unwrap();
            }
            self.actors.create(cell.author, "v1beta1", &cell.app()).await.unwrap();
        }
        for cell in &self.cells {
            let wanted = if cell.what == Context { "workflowSuspending" } else { "running" };
            until(&format!("{} is {wanted}", cell.describe()), LIMIT, async || {
                self.status(cell).await["status"] == wanted
            })
            .await;
        }
    }

    /// What the row is about.
    async fn write(&self, cell: &Cell) -> kube::Result<()> {
        let (name, params) = (cell.name.as_str(), PatchParams::default());
        match cell.what {
            Annotation => {
                let forged = json!({"metadata": {"annotations": {
                    "app.oam.dev/username": "somebody", "app.oam.dev/group": "kubevela:cluster-admins"}}});
                self.apps(cell.who, cell).patch(name, &params, &Patch::Merge(forged)).await?;
            }
            Status => {
                let lie = json!({"status": {"latestRevision":
                    {"name": "row-0-v1", "revision": 1, "revisionHash": "x"}}});
                self.apps(cell.who, cell).patch_status(name, &params, &Patch::Merge(lie)).await?;
            }
            Revision => {
                let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                    "metadata": {"name": name}, "spec": Cell::properties("of the revision")});
                // A stored revision holds its spec compressed: whoever changes it writes a whole one.
                let plain = component_definition(NAMESPACE, "plain", PLAIN);
                let edit = json!({"spec": {"compression": null, "application": app,
                    "componentDefinitions": {"plain": plain}}});
                let api = self.api(cell.who, "v1beta1", "ApplicationRevision", cell.namespace);
                api.patch(&format!("{name}-v1"), &params, &Patch::Merge(edit)).await?;
            }
            Tracker => self.write_tracker(cell).await?,
            Context => {
                let step = self.status(cell).await["workflow"]["steps"][0]["id"].clone();
                let done =
                    json!({"verdict": "succeeded", "reason": "", "message": "", "variables": []});
                let data = json!({"data": {format!("{}.outcome", step.as_str().unwrap()): done.to_string()}});
                let api = self.maps(cell.who, cell.namespace);
                let context = format!("workflow-{name}-context");
                api.patch(&context, &params, &Patch::Merge(data)).await?;
            }
            Workflow | Policy | Definition => {
                let (version, mut object) = cell.object(true).unwrap();
                object["metadata"] = json!({});
                let kind = object["kind"].as_str().unwrap().to_owned();
                let api = self.api(cell.who, version, &kind, cell.of_object);
                object["apiVersion"] = json!(format!("core.oam.dev/{version}"));
                api.patch(name, &params, &Patch::Merge(object)).await?;
            }
        }
        Ok(())
    }

    /// Adds a ConfigMap to the tracker of the newest generation, labelled as one of the Application's.
    async fn write_tracker(&self, cell: &Cell) -> kube::Result<()> {
        let tracker = format!("{}-v1-{}", cell.name, cell.namespace);
        let api = self.trackers(cell.who);
        let mut found = api.get(&tracker).await?;
        let foreign = format!("{}-foreign", cell.name);
        let labels =
            json!({"app.oam.dev/name": cell.name, "app.oam.dev/namespace": cell.namespace});
        let map = serde_json::from_value(json!({"metadata": {"name": foreign, "labels": labels}}));
        let maps = self.maps(Administrator, cell.namespace);
        maps.create(&PostParams::default(), &map.unwrap()).await?;
        // A stored tracker holds its entries compressed: whoever changes it writes all of them.
        let entry = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
                "namespace": cell.namespace, "component": "c"})
        };
        found.data["spec"]["managedResources"] = json!([entry(&cell.name), entry(&foreign)]);
        found.data["spec"]["compression"] = json!({});
        api.replace(&tracker, &PostParams::default(), &found).await.map(|_| ())
    }

    /// Has the Application look at what was written, by a request that makes nobody else its author.
    async fn trigger(&self, cell: &Cell) {
        let (name, params) = (cell.name.as_str(), PatchParams::default());
        let apps = self.apps(cell.author, cell);
        match cell.what {
            Annotation | Status => {
                let maps = self.maps(Administrator, cell.namespace);
                maps.delete(name, &DeleteParams::default()).await.unwrap();
            }
            Revision => {
                let restart =
                    json!({"metadata": {"annotations": {"app.oam.dev/restart-workflow": "true"}}});
                apps.patch(name, &params, &Patch::Merge(restart)).await.unwrap();
            }
            // The next process reads the context.
            Context => {}
            Tracker | Workflow | Policy | Definition => {
                let mut component = cell.app()["spec"]["components"][0].clone();
                component["properties"] = json!({"v": "edited"});
                let edit = json!({"spec": {"components": [component]}});
                apps.patch(name, &params, &Patch::Merge(edit)).await.unwrap();
            }
        }
    }

    /// As whom the controller wrote, or tried to write, the ConfigMaps of a cell. What has no author yet after authentication
    /// was switched on is tried again as the default user until the edit arrives, at any time; from the author's first request
    /// on, only what the row says counts.
    fn acted(&self, cell: &Cell, from: u64) -> BTreeSet<String> {
        let foreign = format!("{}-foreign", cell.name);
        let of_it = audit::read(&self.cluster.audit_log(), from).unwrap();
        let of_it = of_it.into_iter().filter(|entry| {
            entry.is_controllers_write()
                && entry.resource == "configmaps"
                && entry.namespace == cell.namespace
                && (entry.name == cell.name || entry.name == foreign)
        });
        let waits_for_author = |entry: &audit::Entry| {
            self.when == Before && entry.acting_as == DEFAULT_USER && entry.code == 403
        };
        of_it.skip_while(waits_for_author).map(|entry| entry.acting_as).collect()
    }

    async fn reports(&self, cell: &Cell) -> bool {
        if cell.what == Revision {
            let conditions = self.status(cell).await["conditions"].clone();
            let mut conditions = conditions.as_array().into_iter().flatten();
            return conditions.any(|one| one["type"] == "Revision" && one["status"] == "False");
        }
        let events: Api<Event> = Api::namespaced(self.actors.administrator.clone(), cell.namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        all.items.iter().any(|event| {
            event.reason.as_deref() == Some("ForeignContext")
                && event.involved_object.name.as_deref() == Some(&cell.name)
        })
    }

    /// Waits for the outcome of a cell, and says what is wrong with it.
    async fn judge(&self, cell: &Cell, from: u64) -> Option<String> {
        let what = format!("{}: {:?}", cell.describe(), cell.wanted);
        let acted = match cell.wanted {
            Refused => return None,
            As(users) => {
                let wanted: BTreeSet<String> = users.iter().map(|&user| user.to_owned()).collect();
                until(&what, LIMIT, async || {
                    let is_done = self.status(cell).await["status"] == "running";
                    is_done && self.acted(cell, from).is_superset(&wanted)
                })
                .await;
                let acted = self.acted(cell, from);
                (acted != wanted).then_some(acted)
            }
            AsDefault => {
                until(&what, LIMIT, async || {
                    let text = self.status(cell).await.to_string();
                    text.contains("forbidden") && text.contains(DEFAULT_USER)
                })
                .await;
                None
            }
            Unused => {
                until(&what, LIMIT, async || self.reports(cell).await).await;
                let acted = self.acted(cell, from);
                (!acted.is_empty()).then_some(acted)
            }
        };
        acted.map(|acted| format!("{what}, but {acted:?}"))
    }
}

async fn every_cell(when: When) {
    let cluster = Cluster::start(&format!("matrix-{when:?}").to_lowercase()).await.unwrap();
    let actors = actors(&cluster).await;
    let cells = (0..TABLE.len()).map(|row| Cell::new(row, when)).collect();
    let setting = Setting { when, cluster, actors, cells };
    let mut deployed = setting.deploy(when != Before).await;
    setting.create().await;

    let withdrawn = match when {
        Away => {
            let withdrawn = deployed.admission.withdraw(&setting.cluster).await.unwrap();
            until("nobody asks the webhook", LIMIT, async || {
                let answer = admits(&setting.actors.administrator).await;
                answer.is_err_and(|error| error.to_string().contains("nobody asked the webhook"))
            })
            .await;
            Some(withdrawn)
        }
        On | Before => None,
    };
    let mut wrong = Vec::new();
    for cell in &setting.cells {
        let answer = setting.write(cell).await;
        let is_refused = matches!(&answer, Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_invalid());
        if is_refused != (cell.wanted == Refused) || (answer.is_err() && !is_refused) {
            wrong.push(format!("{}: {:?}, but {answer:?}", cell.describe(), cell.wanted));
        }
    }
    assert!(wrong.is_empty(), "{when:?}:\n{}", wrong.join("\n"));
    if let Some(withdrawn) = withdrawn {
        withdrawn.restore(&setting.cluster).await.unwrap();
        until("admission", LIMIT, async || admits(&setting.actors.administrator).await.is_ok())
            .await;
    }

    // Only a process that did not write the context itself reads it.
    if when == Before {
        deployed.admission.close(&setting.cluster).await.unwrap();
        assert!(deployed.stop(Duration::from_secs(20)).unwrap());
        deployed = setting.deploy(true).await;
    } else {
        deployed.controller.kill().unwrap();
        deployed.controller.start(&setting.cluster).unwrap();
    }
    deployed.controller.ready().await.unwrap();
    // What the start itself repairs is no answer to what was written.
    let log = setting.cluster.audit_log();
    quiet(&log, Duration::from_secs(3), audit::Entry::is_controllers_write).await;
    let from = audit::position(&setting.cluster.audit_log()).unwrap();
    for cell in setting.cells.iter().filter(|cell| cell.wanted != Refused) {
        setting.trigger(cell).await;
    }
    for cell in &setting.cells {
        wrong.extend(setting.judge(cell, from).await);
    }
    assert!(wrong.is_empty(), "{when:?}:\n{}", wrong.join("\n"));
    deployed.check().unwrap();
    setting.cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_authentication() {
    every_cell(On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_authentication() {
    every_cell(Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_no_webhook_answers() {
    every_cell(Away).await;
}
