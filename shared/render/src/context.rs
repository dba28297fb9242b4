//! The value `context` that templates see.

use crate::input::Input;
use crate::{contract, json};
use cue::Value;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all components of an Application share.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// The Application's name.
    pub name: String,
    /// The namespace templates see: the Application's, or that of the deploy target.
    pub namespace: String,
    /// The revision's name, empty before the first one.
    pub revision: String,
    /// The Application's labels.
    pub labels: BTreeMap<String, String>,
    /// The Application's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The components as written in the Application.
    pub components: Vec<Json>,
    /// Labels and annotations that objects do not inherit, in addition to what only speaks of the Application.
    pub not_inherited: Arc<vela_api::KeyPatterns>,
}

/// The version of the cluster objects go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterVersion {
    /// `1`
    pub major: String,
    /// `28`, or `28+` on some clouds.
    pub minor: String,
    /// `v1.28.2`
    pub git_version: String,
    /// `linux/amd64`
    pub platform: String,
}

impl ClusterVersion {
    /// Reads `/version` of an API server.
    #[must_use]
    pub fn from_json(json: &Json) -> Self {
        let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Self {
            major: text("major"),
            minor: text("minor"),
            git_version: text("gitVersion"),
            platform: text("platform"),
        }
    }

    /// The minor version as a number, 0 if it is none.
    #[must_use]
    pub fn minor_number(&self) -> i64 {
        self.minor.trim_end_matches(['.', '+', '-', '/', '?', '!']).parse().unwrap_or(0)
    }
}

/// Where and for what a component is rendered.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The component's revision; empty in dry runs and at admission.
    pub revision: String,
    /// `local`, or the target cluster; empty in dry runs and at admission.
    pub cluster: String,
    /// `context.clusterVersion`: the version of that cluster's API server.
    pub cluster_version: ClusterVersion,
    /// The key of a replicated component.
    pub replica_key: String,
    /// The live workload, if it is there.
    pub live: Option<Arc<Json>>,
    /// What application-scoped policies put into the context.
    pub custom: Option<Json>,
    /// For policies: what the components render to, as [`artifacts`] arranges it.
    pub artifacts: Option<Json>,
}

/// The annotation that names the workflow.
const WORKFLOW_NAME: &str = "app.oam.dev/workflowName";
/// The annotation that pins a version.
const PUBLISH_VERSION: &str = "app.oam.dev/publishVersion";

/// The number after the last `-v`, 0 if there is none.
#[must_use]
pub fn revision_number(revision: &str) -> i64 {
    revision.rsplit_once("-v").and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}

/// A component in the field order of the API type.
fn component(json: &Json) -> Value {
    const ORDER: [&str; 9] = [
        "name",
        "type",
        "externalRevision",
        "properties",
        "dependsOn",
        "inputs",
        "outputs",
        "traits",
        "scopes",
    ];
    ordered(json, &ORDER, |key, value| match (key, value) {
        ("traits", Json::Array(traits)) => Value::List(
            traits
                .iter()
                .map(|t| ordered(t, &["type", "properties"], |_, v| json::canonical(v)))
                .collect(),
        ),
        (_, value) => json::canonical(value),
    })
}

fn ordered(json: &Json, order: &[&str], value: impl Fn(&str, &Json) -> Value) -> Value {
    let Some(object) = json.as_object() else { return json::canonical(json) };
    let mut fields = cue::Fields::default();
    for key in order {
        if let Some(v) = object.get(*key) {
            fields.insert((*key).into(), value(key, v));
        }
    }
    for (key, v) in object {
        if !order.contains(&key.as_str()) {
            fields.insert(key.as_str().into(), value(key, v));
        }
    }
    Value::Struct(fields)
}

/// All components of an Application, as `context.components` has them.
pub(crate) fn components(app: &App) -> Value {
    Value::List(app.components.iter().map(component).collect())
}

/// The fields of `context`, in alphabetical order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(&'a str, Input<'a>)>);

impl<'a> Fields<'a> {
    /// Adds a field, or replaces it.
    pub(crate) fn set(&mut self, name: &'a str, value: Input<'a>) {
        match self.0.binary_search_by_key(&name, |(name, _)| name) {
            Ok(at) => {
                if let Some(field) = self.0.get_mut(at) {
                    field.1 = value;
                }
            }
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// All of them together.
    pub(crate) fn input(&self) -> Input<'_> {
        Input::Struct(&self.0)
    }
}

/// `context` of a component's template. `parameter` are the component's properties. Every
/// component could have all of them in its context, which is quadratic, and hardly a template reads them
/// at them: `components` are given if one does.
pub(crate) fn fields<'a>(
    app: &'a App,
    target: &'a Target,
    name: &'a str,
    cluster_version: &'a [(&'a str, Input<'a>)],
    parameter: Option<&'a Json>,
    components: Option<&'a Value>,
) -> Fields<'a> {
    let annotation =
        |key: &str| Input::Text(app.annotations.get(key).map(String::as_str).unwrap_or_default());
    let mut fields = Fields(vec![
        ("appAnnotations", Input::Strings(&app.annotations)),
        ("appLabels", Input::Strings(&app.labels)),
        ("appName", Input::Text(&app.name)),
        ("appRevision", Input::Text(&app.revision)),
        ("appRevisionNum", Input::Int(revision_number(&app.revision))),
        ("cluster", Input::Text(&target.cluster)),
        ("clusterVersion", Input::Struct(cluster_version)),
        ("name", Input::Text(name)),
        ("namespace", Input::Text(&app.namespace)),
        ("publishVersion", annotation(PUBLISH_VERSION)),
        ("replicaKey", Input::Text(&target.replica_key)),
        ("revision", Input::Text(&target.revision)),
        ("workflowName", annotation(WORKFLOW_NAME)),
    ]);
    for (name, given) in [
        ("artifacts", target.artifacts.as_ref()),
        ("custom", target.custom.as_ref()),
        ("output", target.live.as_deref()),
    ] {
        if let Some(given) = given {
            fields.set(name, Input::Json(given));
        }
    }
    if let Some(parameter) = parameter {
        fields.set("parameter", Input::Json(parameter));
    }
    if let Some(components) = components {
        fields.set("components", Input::Value(components));
    }
    fields
}

impl ClusterVersion {
    /// `context.clusterVersion`.
    pub(crate) fn fields(&self) -> [(&str, Input<'_>); 4] {
        [
            ("gitVersion", Input::Text(&self.git_version)),
            ("major", Input::Text(&self.major)),
            ("minor", Input::Int(self.minor_number())),
            ("platform", Input::Text(&self.platform)),
        ]
    }
}

/// `context.artifacts` of a policy: by component, the workload and the objects of its traits by
/// their type and resource labels. An object without a resource label is under the empty name.
pub fn artifacts<'a>(
    components: impl IntoIterator<Item = (&'a str, Option<&'a Json>, Vec<&'a Json>)>,
) -> Json {
    let label = |object: &Json, name: &str| {
        let labels = object.pointer("/metadata/labels");
        labels.and_then(|l| l.get(name)).and_then(Json::as_str).unwrap_or_default().to_owned()
    };
    let mut all = Map::new();
    for (name, workload, auxiliaries) in components {
        let mut traits = Map::new();
        for object in auxiliaries {
            let kind = label(object, contract::TRAIT_TYPE);
            let of_kind = traits.entry(kind).or_insert_with(|| Map::new().into());
            if let Some(of_kind) = of_kind.as_object_mut() {
                of_kind.insert(label(object, contract::TRAIT_RESOURCE), object.clone());
            }
        }
        let mut artifact = Map::new();
        if let Some(workload) = workload {
            artifact.insert("workload".to_owned(), workload.clone());
        }
        if !traits.is_empty() {
            artifact.insert("traits".to_owned(), traits.into());
        }
        all.insert(name.to_owned(), artifact.into());
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::artifacts;
    use serde_json::json;

    #[test]
    fn artifacts_are_arranged_by_component_type_and_resource() {
        let workload = json!({"kind": "Deployment"});
        let service = json!({"kind": "Service", "metadata": {"labels": {
            "trait.oam.dev/type": "gateway", "trait.oam.dev/resource": "service"}}});
        let odd = json!({"kind": "ConfigMap"});
        assert_eq!(
            artifacts([("web", Some(&workload), vec![&service, &odd]), ("bare", None, vec![])]),
            json!({
                "web": {
                    "workload": workload,
                    "traits": {"gateway": {"service": service}, "": {"": odd}},
                },
                "bare": {},
            })
        );
    }
}
