//! The objects of the chart, and how they get onto a control plane.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::core::discovery::{ApiResource, Scope};
use kube::discovery::pinned_kind;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Binaries, KUBERNETES, NAMESPACE, RELEASE, text};
use crate::material;

/// Requests at once while objects are applied.
const AT_ONCE: usize = 16;
/// How long a new kind may take until the API server serves it.
const ESTABLISH: Duration = Duration::from_secs(30);

const DEFINITIONS: [&str; 5] = [
    "ComponentDefinition",
    "TraitDefinition",
    "PolicyDefinition",
    "WorkflowStepDefinition",
    "WorkloadDefinition",
];

/// What an installation needs before the programs start, in this order. Deployments, Services and
/// hooks are left out: the programs run as processes.
const FOUNDATION: [&str; 13] = [
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "FlowSchema",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The value that a rendering without a cluster must be given.
pub const AUTHENTICATION: &str = "authentication.enabled";

/// The rendered chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifests(Vec<Value>);

impl Manifests {
    /// Renders the chart as `helm template` does, with the controller's own engine: so a control plane needs no helm.
    ///
    /// # Errors
    /// When the chart cannot be rendered or the output is not YAML.
    pub fn render(binaries: &Binaries, values: &[String]) -> Result<Self> {
        let mut ours = Command::new(&binaries.controller);
        ours.arg("helm");
        Self::template(ours, values)
    }

    /// Renders the chart with helm.
    ///
    /// # Errors
    /// As [`Manifests::render`].
    pub fn by_helm(helm: &Path, values: &[String]) -> Result<Self> {
        Self::template(Command::new(helm), values)
    }

    fn template(mut helm: Command, values: &[String]) -> Result<Self> {
        let chart = material::workspace().join("charts/vela-core");
        if !chart.join("Chart.yaml").is_file() {
            bail!("there is no chart in {}", chart.display());
        }
        helm.args(["template", RELEASE]).arg(&chart).args(["--namespace", NAMESPACE]);
        helm.args(["--include-crds", "--no-hooks", "--set", "multicluster.enabled=false"]);
        helm.args(["--kube-version", KUBERNETES]);
        for value in values {
            helm.args(["--set", value]);
        }
        if !values.iter().any(|value| value.starts_with(AUTHENTICATION)) {
            helm.args(["--set", &format!("{AUTHENTICATION}=true")]);
        }
        let output = helm.stdin(Stdio::null()).output().context("cannot render the chart")?;
        if !output.status.success() {
            bail!("helm template: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        let yaml = String::from_utf8(output.stdout).context("the rendered chart is not UTF-8")?;
        Self::parse(&yaml)
    }

    /// Reads what `helm template` printed.
    ///
    /// # Errors
    /// When it is not YAML.
    pub fn parse(yaml: &str) -> Result<Self> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(yaml).context("the rendered chart is not YAML")?;
        Ok(Self(documents.into_iter().filter(Value::is_object).collect()))
    }

    /// The objects of a kind.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| text(object, "/kind") == Some(kind))
    }

    /// What must be there before the programs start.
    #[must_use]
    pub fn foundation(&self) -> Vec<Value> {
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        })];
        for kind in FOUNDATION {
            objects.extend(self.of(kind).cloned());
        }
        objects
    }

    /// The built-in definitions.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        DEFINITIONS.into_iter().flat_map(|kind| self.of(kind).cloned()).collect()
    }

    /// The webhook configurations, calling `url` and trusting `authority`.
    ///
    /// # Errors
    /// When a webhook names no Service to take the path from.
    pub fn webhooks(&self, url: &str, authority: &str) -> Result<Vec<Value>> {
        use base64::Engine;
        let bundle = base64::engine::general_purpose::STANDARD.encode(authority);
        let mut configurations = Vec::new();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            for object in self.of(kind) {
                let mut object = object.clone();
                let hooks = object.pointer_mut("/webhooks").and_then(Value::as_array_mut);
                for hook in hooks.into_iter().flatten() {
                    let path = text(hook, "/clientConfig/service/path")
                        .with_context(|| format!("a webhook of {kind} has no service path"))?;
                    let config = json!({ "url": format!("{url}{path}"), "caBundle": bundle });
                    if let Some(hook) = hook.as_object_mut() {
                        hook.insert("clientConfig".into(), config);
                    }
                }
                configurations.push(object);
            }
        }
        Ok(configurations)
    }

    /// The Deployment of a program: that which `wanted` accepts.
    #[must_use]
    pub fn deployment(&self, wanted: impl Fn(&Value) -> bool) -> Option<&Value> {
        self.of("Deployment").find(|object| wanted(object))
    }
}

/// Objects from a file, one a line, freed of what only an API server may set.
///
/// # Errors
/// When the file cannot be read or a line is not an object.
pub fn from_jsonl(file: &Path) -> Result<Vec<Value>> {
    let content =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut objects = Vec::new();
    for (index, line) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut object: Value = serde_json::from_str(line)
            .with_context(|| format!("{} line {}", file.display(), index + 1))?;
        // Recorded objects carry what the API server and the definition controller added.
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                for key in [
                    "uid",
                    "resourceVersion",
                    "creationTimestamp",
                    "generation",
                    "managedFields",
                    "ownerReferences",
                    "selfLink",
                ] {
                    metadata.remove(key);
                }
            }
        }
        objects.push(object);
    }
    Ok(objects)
}

/// Applies objects with server-side apply: kind by kind in the order given, the objects of a kind
/// at once.
///
/// # Errors
/// When an object is refused or its kind is not served.
pub async fn apply_all(client: &Client, objects: Vec<Value>) -> Result<()> {
    let kinds = Mutex::new(BTreeMap::new());
    let mut rest = objects.into_iter().peekable();
    while let Some(first) = rest.next() {
        let kind = text(&first, "/kind").map(str::to_owned);
        let mut batch = vec![first];
        while let Some(next) = rest.next_if(|next| text(next, "/kind") == kind.as_deref()) {
            batch.push(next);
        }
        stream::iter(batch)
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |object| {
                let kinds = &kinds;
                async move { apply_known(client, kinds, &object).await }
            })
            .await?;
    }
    Ok(())
}

/// Applies one object with server-side apply.
///
/// # Errors
/// When it is refused or its kind is not served.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    apply_known(client, &Mutex::new(BTreeMap::new()), object).await
}

type Kinds = Mutex<BTreeMap<(String, String), (ApiResource, Scope)>>;

async fn apply_known(client: &Client, kinds: &Kinds, object: &Value) -> Result<()> {
    let version = text(object, "/apiVersion").context("an object has no apiVersion")?;
    let kind = text(object, "/kind").context("an object has no kind")?;
    let name = text(object, "/metadata/name").with_context(|| format!("a {kind} has no name"))?;
    let key = (version.to_owned(), kind.to_owned());
    let known = kinds.lock().get(&key).cloned();
    let (resource, scope) = match known {
        Some(known) => known,
        None => {
            let found = discover(client, version, kind).await?;
            kinds.lock().insert(key, found.clone());
            found
        }
    };
    let namespace = text(object, "/metadata/namespace").unwrap_or("default");
    let api: Api<DynamicObject> =
        Api::dynamic(client.clone(), &resource, &scope).constrain(namespace);
    api.patch(name, &PatchParams::apply("vela-harness").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("{kind} {namespace}/{name} is refused"))?;
    Ok(())
}

/// Finds out how a kind is served; a kind that was defined a moment ago is waited for.
async fn discover(client: &Client, version: &str, kind: &str) -> Result<(ApiResource, Scope)> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let wanted = GroupVersionKind::gvk(group, version, kind);
    let deadline = Instant::now() + ESTABLISH;
    loop {
        match pinned_kind(client, &wanted).await {
            Ok((resource, capabilities)) => return Ok((resource, capabilities.scope)),
            Err(_) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("{kind} in {group}/{version}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &str = "---\nkind: Deployment\nmetadata: {name: d}\n---\n---\n\
        kind: ValidatingWebhookConfiguration\nmetadata: {name: v}\nwebhooks:\n\
        - name: a\n  clientConfig: {caBundle: Cg==, service: {name: s, namespace: n, path: /p}}\n";

    #[test]
    fn webhooks_call_our_url() {
        let manifests = Manifests::parse(CHART).unwrap();
        let hooks = manifests.webhooks("https://127.0.0.1:1", "CA").unwrap();
        assert_eq!(
            hooks[0]["webhooks"][0]["clientConfig"],
            json!({ "url": "https://127.0.0.1:1/p", "caBundle": "Q0E=" })
        );
        assert!(manifests.deployment(|object| object["metadata"]["name"] == "d").is_some());
    }

    #[test]
    fn recorded_objects_lose_what_the_server_sets() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("objects.jsonl");
        let line = r#"{"kind":"X","metadata":{"name":"a","uid":"<u>","generation":1},"status":{}}"#;
        fs::write(&file, format!("{line}\n\n")).unwrap();
        let objects = from_jsonl(&file).unwrap();
        assert_eq!(objects, [json!({ "kind": "X", "metadata": { "name": "a" } })]);
    }
}
