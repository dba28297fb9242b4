//! A namespace with one Application, and a picture of everything in it that can be compared with another one's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The Application.
pub(crate) const APP: &str = "a";

/// What is in a namespace, by kind and name, without what differs from run to run.
pub(crate) type Picture = BTreeMap<String, Value>;

/// The namespace.
pub(crate) struct Home {
    client: Client,
    name: String,
}

impl Home {
    pub(crate) async fn new(client: &Client, purpose: &str) -> Self {
        let client = client.clone();
        let random: String = std::iter::repeat_with(|| fastrand::char('a'..='z')).take(8).collect();
        let name = format!("{purpose}-{random}");
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        Self { client, name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.name, &resource)
    }

    pub(crate) fn applications(&self) -> Api<DynamicObject> {
        self.objects("core.oam.dev/v1beta1", "Application")
    }

    pub(crate) async fn trackers(&self) -> Vec<DynamicObject> {
        let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "ResourceTracker");
        let all: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let selector = format!("app.oam.dev/namespace={}", self.name);
        all.list(&ListParams::default().labels(&selector)).await.unwrap().items
    }

    pub(crate) async fn put(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let all = self.applications();
        if all.get_opt(APP).await.unwrap().is_some() {
            all.patch(APP, &PatchParams::default(), &patch).await.unwrap();
            return;
        }
        let mut spec = spec.clone();
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": APP}, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        all.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Everything there is, without what differs from run to run.
    pub(crate) async fn picture(&self) -> Picture {
        const KINDS: [(&str, &str); 5] = [
            ("v1", "ConfigMap"),
            ("v1", "Service"),
            ("apps/v1", "Deployment"),
            ("core.oam.dev/v1beta1", "ApplicationRevision"),
            ("core.oam.dev/v1beta1", "Application"),
        ];
        let mut all = BTreeMap::new();
        for (version, kind) in KINDS {
            let found = self.objects(version, kind).list(&ListParams::default()).await.unwrap();
            for object in found {
                let name = object.metadata.name.clone().unwrap_or_default();
                if name != "kube-root-ca.crt" {
                    all.insert(format!("{kind} {name}"), self.seen(kind, &object));
                }
            }
        }
        // The context of a workflow goes with its Application, when the cluster gets to it.
        if !all.contains_key(&format!("Application {APP}")) {
            all.remove(&format!("ConfigMap workflow-{APP}-context"));
        }
        for tracker in self.trackers().await {
            let name = self.anonymous(&tracker.metadata.name.clone().unwrap_or_default());
            all.insert(format!("ResourceTracker {name}"), self.seen("ResourceTracker", &tracker));
        }
        all
    }

    fn anonymous(&self, text: &str) -> String {
        text.replace(&self.name, "NS")
    }

    fn seen(&self, kind: &str, object: &DynamicObject) -> Value {
        let data = &object.data;
        let content = match kind {
            "Application" => {
                let status = &data["status"];
                let conditions = each(&status["conditions"], |c| json!([c["type"], c["status"]]));
                let steps = each(&status["workflow"]["steps"], |s| {
                    json!([s["name"], s["phase"], s["reason"]])
                });
                let services = each(&status["services"], |s| json!([s["name"], s["healthy"]]));
                let applied = each(&status["appliedResources"], |r| json!([r["kind"], r["name"]]));
                json!([
                    status["status"],
                    status["latestRevision"]["name"],
                    conditions,
                    steps,
                    services,
                    applied
                ])
            }
            "ApplicationRevision" => json!(data["status"]["succeeded"]),
            "ResourceTracker" => {
                json!([data["spec"]["type"], data["spec"]["applicationGeneration"]])
            }
            "ConfigMap" if object.metadata.name.as_deref() == Some("workflow-a-context") => {
                json!(null)
            }
            "ConfigMap" => data["data"].clone(),
            "Service" => json!([data["spec"]["ports"], data["spec"]["selector"]]),
            _ => data["spec"].clone(),
        };
        let deleting = object.metadata.deletion_timestamp.is_some();
        let labels = object.metadata.labels.clone().unwrap_or_default();
        // Hashes cover the namespace and the uid.
        let labels: BTreeMap<_, _> = labels
            .into_iter()
            .filter(|(key, _)| !key.ends_with("hash") && key != "app.oam.dev/uid")
            .collect();
        let picture = json!({"content": content, "labels": labels, "deleting": deleting,
            "finalizers": object.metadata.finalizers});
        serde_json::from_str(&self.anonymous(&picture.to_string())).unwrap()
    }

    /// The uids of ConfigMaps by name.
    pub(crate) async fn uids(&self, names: &BTreeSet<String>) -> BTreeMap<String, String> {
        let all = self.maps().list(&ListParams::default()).await.unwrap().items;
        let pairs = all.into_iter().filter_map(|map| Some((map.metadata.name?, map.metadata.uid?)));
        pairs.filter(|(name, _)| names.contains(name)).collect()
    }

    /// Deletes the Application and waits until nothing of it is left.
    pub(crate) async fn clear(&self) -> Result<(), String> {
        let _ = self.applications().delete(APP, &DeleteParams::default()).await;
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let left = self.picture().await;
            if left.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("left after the deletion: {:?}", left.keys()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.name, &DeleteParams::default()).await;
        Ok(())
    }

    /// Waits until nothing changes any more.
    pub(crate) async fn still(&self) -> Picture {
        let mut picture = self.picture().await;
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_secs(4) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.picture().await;
            if now != picture {
                (picture, since) = (now, Instant::now());
            }
        }
        picture
    }

    /// Waits until everything is as expected.
    pub(crate) async fn becomes(&self, expected: &Picture) -> Result<Picture, String> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let picture = self.picture().await;
            if picture == *expected {
                return Ok(picture);
            }
            if Instant::now() > deadline {
                let keys: BTreeSet<&String> = picture.keys().chain(expected.keys()).collect();
                let differs =
                    keys.into_iter().filter(|key| picture.get(*key) != expected.get(*key));
                let lines: Vec<String> = differs
                    .map(|key| {
                        format!(
                            "{key}: {} instead of {}",
                            json!(picture.get(key)),
                            json!(expected.get(key))
                        )
                    })
                    .collect();
                return Err(lines.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn each(list: &Value, picture: impl Fn(&Value) -> Value) -> Vec<Value> {
    let mut out: Vec<Value> = list.as_array().into_iter().flatten().map(picture).collect();
    out.sort_by_key(ToString::to_string);
    out
}
