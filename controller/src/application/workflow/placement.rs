//! The components and placements of a `deploy` step: its policies, merged into the components.
//!
//! Answers for `pkg/policy/{topology,override}.go` and `pkg/policy/envbinding/patch.go`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use vela_api::application::{AppPolicy, ApplicationComponent};
use vela_api::cluster::selects_local;
use vela_api::{Application, Policy, RawExtension};
use vela_apply::object::LOCAL_CLUSTER;
use vela_cluster::members::{Named as NamedCluster, Snapshot};
use vela_cluster::postponed;
use vela_workflow::generate::policy_name;

use crate::application::placement::Placement;
use crate::application::workflow::error::StepError;
use crate::messages;

use super::overrides::{Override, overridden};

/// Components and the places they go to.
#[derive(Debug, PartialEq)]
pub struct ComponentPlacements {
    /// Components after the overrides, with the keys of replicated ones.
    pub components: Vec<(ApplicationComponent, String)>,
    /// Without repetition. An empty namespace is the Application's.
    pub placements: Vec<Placement>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[derive(Default)]
struct Topology {
    clusters: Option<Vec<String>>,
    cluster_label_selector: Option<Map<String, Value>>,
    cluster_selector: Option<Map<String, Value>>,
    allow_empty: bool,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Selector {
    components: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Replication {
    keys: Vec<String>,
    selector: Vec<String>,
}

/// The policies that names mean.
#[derive(Debug)]
pub struct Named<'a> {
    /// The Application: its own policies come first.
    pub app: &'a Application,
    /// Policy objects that it refers to.
    pub external: &'a BTreeMap<String, Policy>,
    /// Policies that a step brings along.
    pub inline: &'a [Value],
    /// Whether components may leave the namespace of the Application.
    pub crosses_namespaces: bool,
    /// The clusters there are; `None`: the own one.
    pub clusters: Option<&'a Snapshot>,
}

/// The name of a policy that a step brings along.
#[must_use]
pub fn inline_name(index: usize, policy: &Value) -> String {
    let text = |key: &str| policy.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("name") {
        "" => format!("inline-{}-policy-{index}", text("type")),
        name => name.to_owned(),
    }
}

impl Named<'_> {
    /// Type and properties.
    fn find(&self, wanted: &str) -> Option<(String, Option<Value>)> {
        let own = self.app.spec.policies.iter().enumerate();
        let found = own.clone().find(|(index, policy)| policy_name(policy, *index) == wanted);
        if let Some((_, AppPolicy { type_, properties, .. })) = found {
            return Some((type_.clone(), properties.as_ref().map(RawExtension::to_value)));
        }
        if let Some(policy) = self.external.get(wanted) {
            let properties = policy.properties.as_ref().map(RawExtension::to_value);
            return Some((policy.type_.clone(), properties));
        }
        let mut inline = self.inline.iter().enumerate();
        let (_, policy) = inline.find(|(index, policy)| inline_name(*index, policy) == wanted)?;
        let type_ = policy.get("type").and_then(Value::as_str).unwrap_or_default();
        Some((type_.to_owned(), policy.get("properties").cloned()))
    }
}

/// Merges the named policies into the components of an Application: places, then overrides, then replicas.
///
/// # Errors
/// A policy that does not exist or cannot be read, a cluster that is not there.
pub fn resolve(named: &Named<'_>, names: &[String]) -> Result<ComponentPlacements, StepError> {
    let mut components = named.app.spec.components.clone();
    let mut targets: Vec<Placement> = Vec::new();
    let mut replications: Vec<(&str, Replication)> = Vec::new();
    let mut has_topology = false;
    for wanted in names {
        let (type_, properties) =
            named.find(wanted).ok_or_else(|| messages::policy_not_found(wanted))?;
        match type_.as_str() {
            "topology" => {
                has_topology = true;
                if properties.is_none() {
                    return Err(messages::topology_empty(wanted).into());
                }
                let topology: Topology = read(properties, "topology", wanted)?;
                let own = named.app.metadata.namespace.as_deref().unwrap_or_default();
                let elsewhere = !topology.namespace.is_empty() && topology.namespace != own;
                if elsewhere && !named.crosses_namespaces {
                    return Err(messages::CANNOT_CROSS_NAMESPACE.into());
                }
                for placement in topology_placements(topology, wanted, named.clusters)? {
                    if !targets.contains(&placement) {
                        targets.push(placement);
                    }
                }
            }
            "override" => {
                let policy = read(properties, "override", wanted)?;
                components = overridden(components, policy, ("override", wanted))?;
            }
            "replication" => replications.push((wanted, read(properties, "replicate", wanted)?)),
            _ => {}
        }
    }
    if !has_topology {
        targets.push(Placement::new(LOCAL_CLUSTER, ""));
    }
    Ok(ComponentPlacements {
        components: replicated(components, &replications)?,
        placements: targets,
    })
}

/// The components of an environment: patched and selected as an `env-binding` policy says.
///
/// # Errors
/// A patch or a selector that cannot be read.
pub fn of_environment(
    app: &Application,
    environment: &str,
    patch: Option<&Value>,
    selector: Option<&Value>,
) -> Result<Vec<ApplicationComponent>, StepError> {
    let mut policy: Override = read(patch.cloned(), "env-binding", environment)?;
    let selector: Selector = read(selector.cloned(), "env-binding", environment)?;
    policy.selector = Some(selector.components).filter(|names| !names.is_empty());
    overridden(app.spec.components.clone(), policy, ("env-binding", environment))
}

/// Selected components are made once for each key, of whichever policy; they come last.
fn replicated(
    components: Vec<ApplicationComponent>,
    policies: &[(&str, Replication)],
) -> Result<Vec<(ApplicationComponent, String)>, StepError> {
    for (name, policy) in policies {
        if !components.iter().any(|component| policy.selector.contains(&component.name)) {
            return Err(messages::nothing_to_replicate(name).into());
        }
    }
    let (mut out, mut copies) = (Vec::new(), Vec::new());
    for component in components {
        let choose = |(_, policy): &&(&str, Replication)| policy.selector.contains(&component.name);
        if !policies.iter().any(|policy| choose(&policy)) {
            out.push((component, String::new()));
            continue;
        }
        // One key of two policies is one copy: two would be one object twice.
        let mut keys: Vec<&String> = Vec::new();
        for key in policies.iter().filter(choose).flat_map(|(_, policy)| &policy.keys) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        copies.extend(keys.into_iter().map(|key| (component.clone(), key.clone())));
    }
    out.extend(copies);
    Ok(out)
}

fn read<T: Default + for<'de> Deserialize<'de>>(
    properties: Option<Value>,
    type_: &str,
    name: &str,
) -> Result<T, StepError> {
    match properties {
        None => Ok(T::default()),
        Some(value) => serde_json::from_value(value)
            .map_err(|error| messages::policy_unreadable(type_, name, &error.to_string()).into()),
    }
}

fn topology_placements(
    topology: Topology,
    policy: &str,
    clusters: Option<&Snapshot>,
) -> Result<Vec<Placement>, StepError> {
    let placement = |cluster: &str| Placement::new(cluster, &topology.namespace);
    if let Some(known) = clusters {
        let places = |names: Vec<String>| names.iter().map(|name| placement(name)).collect();
        return chosen(&topology, policy, known)
            .map(places)
            .map_err(|error| error.to_string().into());
    }
    if let Some(clusters) = &topology.clusters {
        let missing = clusters.iter().find(|cluster| *cluster != LOCAL_CLUSTER);
        return match missing {
            Some(cluster) => Err(messages::cluster_not_found(cluster).into()),
            None => Ok(clusters.iter().map(|cluster| placement(cluster)).collect()),
        };
    }
    let by_labels = topology.cluster_label_selector.or(topology.cluster_selector);
    if by_labels.is_none_or(|labels| selects_local(&labels)) {
        Ok(vec![placement(LOCAL_CLUSTER)])
    } else if topology.allow_empty {
        Ok(Vec::new())
    } else {
        Err(messages::no_cluster_matches().into())
    }
}

/// The clusters that a topology chooses now; none if it chooses none.
pub(in crate::application) fn selected(
    properties: Value,
    policy: &str,
    known: &Snapshot,
) -> Vec<String> {
    let topology: Result<Topology, _> = read(Some(properties), "topology", policy);
    let Ok(topology) = topology else { return Vec::new() };
    if !known.is_synced() {
        return Vec::new();
    }
    chosen(&topology, policy, known).unwrap_or_default()
}

/// Why a topology chooses no clusters.
#[derive(Debug, thiserror::Error)]
enum NotChosen {
    #[error("{}", messages::topology_without_clusters(.0))]
    NoneNamed(String),
    #[error("{}", messages::cluster_not_registered(.0))]
    NotRegistered(String),
    #[error("{}", messages::clusters_not_found(.0, messages::CLUSTERS_UNKNOWN))]
    NotKnown(String),
    #[error("{}", messages::no_cluster_matches())]
    NoMatch,
}

/// The clusters that a topology chooses, of several.
fn chosen(topology: &Topology, policy: &str, known: &Snapshot) -> Result<Vec<String>, NotChosen> {
    if let Some(clusters) = &topology.clusters {
        if clusters.is_empty() && !topology.allow_empty {
            return Err(NotChosen::NoneNamed(policy.to_owned()));
        }
        for name in clusters {
            match known.named(name) {
                NamedCluster::Own | NamedCluster::Member(_) => {}
                NamedCluster::Unregistered(_) => {
                    return Err(NotChosen::NotRegistered(name.clone()));
                }
                NamedCluster::Unclear => {
                    postponed::postponed(None);
                    return Err(NotChosen::NotKnown(policy.to_owned()));
                }
            }
        }
        return Ok(clusters.clone());
    }
    let labels = topology.cluster_label_selector.as_ref().or(topology.cluster_selector.as_ref());
    let Some(labels) = labels else { return Ok(vec![LOCAL_CLUSTER.to_owned()]) };
    if !known.is_synced() {
        // Never none: what was deployed would be taken away.
        postponed::postponed(None);
        return Err(NotChosen::NotKnown(policy.to_owned()));
    }
    let fits = |of: &BTreeMap<String, String>| {
        let mut labels = labels.iter();
        labels.all(|(key, value)| {
            of.get(key).map(String::as_str) == value.as_str() && value.is_string()
        })
    };
    let own = selects_local(labels).then(|| LOCAL_CLUSTER.to_owned());
    let members = known.in_order().into_iter().filter(|member| fits(&member.cluster.labels));
    let all: Vec<String> =
        own.into_iter().chain(members.map(|member| member.cluster.name.clone())).collect();
    if all.is_empty() && !topology.allow_empty {
        return Err(NotChosen::NoMatch);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(policies: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "own"}, "spec": {
            "components": [
                {"name": "web", "type": "webservice", "properties": {"image": "a", "env": {"x": 1, "y": 2}},
                 "traits": [{"type": "scaler", "properties": {"replicas": 2}}, {"type": "labels"}]},
                {"name": "my-web-2", "type": "worker", "properties": {"image": "b"}},
            ],
            "policies": policies,
        }}))
        .unwrap()
    }

    fn resolved(policies: &Value, names: &[&str]) -> Result<Value, StepError> {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let app = app(policies);
        let external = BTreeMap::new();
        let named = Named {
            app: &app,
            external: &external,
            inline: &[],
            crosses_namespaces: true,
            clusters: None,
        };
        let resolved = resolve(&named, &names)?;
        let components: Vec<_> = resolved.components.iter().map(|(c, _)| c).collect();
        Ok(json!({
            "components": serde_json::to_value(components).unwrap(),
            "replicas": resolved.components.iter().map(|(_, key)| key).collect::<Vec<_>>(),
            "places": resolved.placements.iter().map(|at| (&at.cluster, &at.namespace)).collect::<Vec<_>>(),
        }))
    }

    #[test]
    fn without_policies_everything_goes_to_the_local_cluster() {
        let all = resolved(&json!([]), &[]).unwrap();
        assert_eq!(all["places"], json!([["local", ""]]));
        assert_eq!(all["components"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn targets() {
        let policies = json!([
            {"name": "a", "type": "topology", "properties": {"clusters": ["local"], "namespace": "n"}},
            {"name": "b", "type": "topology", "properties": {"namespace": "n"}},
            {"name": "far", "type": "topology", "properties": {"clusters": ["mars"]}},
            {"name": "by-label", "type": "topology", "properties": {"clusterLabelSelector": {"a": "b"}}},
            {"name": "hub", "type": "topology", "properties": {"clusterLabelSelector": {"cluster.core.oam.dev/control-plane": "true"}}},
            {"name": "typo", "type": "topology", "properties": {"cluster": ["local"]}},
            {"name": "empty", "type": "topology"},
            {"name": "home", "type": "topology", "properties": {"namespace": "own"}},
        ]);
        assert_eq!(resolved(&policies, &["a", "b"]).unwrap()["places"], json!([["local", "n"]]));
        assert_eq!(resolved(&policies, &["hub"]).unwrap()["places"], json!([["local", ""]]));
        for (name, error) in [
            ("far", "failed to get cluster mars: no such cluster \"mars\""),
            ("by-label", "failed to find any cluster matches given labels"),
            ("typo", "failed to parse topology policy typo: unknown field `cluster`"),
            ("empty", "topology policy empty must not have empty properties"),
            ("nope", "policy nope not found"),
        ] {
            let found = resolved(&policies, &[name]).unwrap_err();
            assert!(found.to_string().starts_with(error), "{found}");
        }
        let app = app(&policies);
        let external = BTreeMap::new();
        let named = Named {
            app: &app,
            external: &external,
            inline: &[],
            crosses_namespaces: false,
            clusters: None,
        };
        assert_eq!(
            resolve(&named, &["a".to_owned()]).unwrap_err().to_string(),
            "cannot cross namespace"
        );
        assert!(resolve(&named, &["home".to_owned()]).is_ok());
    }

    #[test]
    fn overrides() {
        let policies = json!([{"name": "o", "type": "override", "properties": {
        "components": [
            {"name": "web", "properties": {"env": {"x": 0}}, "traits": [
                {"type": "scaler", "properties": {"replicas": 0}},
                {"type": "labels", "disable": true},
                {"type": "expose"}]},
            {"type": "worker", "properties": {"cmd": ["run"]}},
            {"name": "new", "type": "task", "properties": {"image": "t"}},
        ]}}]);
        let result = resolved(&policies, &["o"]).unwrap();
        assert_eq!(
            result["components"],
            json!([
                {"name": "web", "type": "webservice", "properties": {"image": "a", "env": {"x": 0, "y": 2}},
                 "traits": [{"type": "scaler", "properties": {"replicas": 0}}, {"type": "expose"}]},
                {"name": "my-web-2", "type": "worker", "properties": {"image": "b", "cmd": ["run"]}},
                {"name": "new", "type": "task", "properties": {"image": "t"}},
            ])
        );
        let selected =
            json!([{"name": "o", "type": "override", "properties": {"selector": ["web"]}}]);
        assert_eq!(resolved(&selected, &["o"]).unwrap()["components"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn replicas_come_last_and_once_for_each_key() {
        let policies = json!([{"name": "r", "type": "replication", "properties": {"keys": ["x", "y"], "selector": ["web"]}},
            {"name": "none", "type": "replication", "properties": {"keys": ["x"]}}]);
        let result = resolved(&policies, &["r"]).unwrap();
        assert_eq!(result["replicas"], json!(["", "x", "y"]));
        assert_eq!(result["components"][2]["name"], "web");
        assert_eq!(
            resolved(&policies, &["none"]).unwrap_err().to_string(),
            "failed to apply replicate policy none: no component selected to replicate"
        );
        // A key is one copy, however often it is named.
        let policies = json!([
            {"name": "r", "type": "replication", "properties": {"keys": ["x", "y", "x"], "selector": ["web"]}},
            {"name": "s", "type": "replication", "properties": {"keys": ["y", "z"], "selector": ["web", "my-web-2"]}}]);
        let result = resolved(&policies, &["r", "s"]).unwrap();
        assert_eq!(result["replicas"], json!(["x", "y", "z", "y", "z"]));
        assert_eq!(result["components"][3]["name"], "my-web-2");
    }

    #[test]
    fn policies_from_elsewhere() {
        let app = app(&json!([]));
        let over = |n: i32| json!({"components": [{"name": "web", "properties": {"n": n}}], "selector": ["web"]});
        let external: Policy = serde_json::from_value(
            json!({"metadata": {"name": "e"}, "type": "override", "properties": over(1)}),
        )
        .unwrap();
        let external = BTreeMap::from([("e".to_owned(), external)]);
        let inline = [json!({"type": "override", "properties": over(2)})];
        let named = Named {
            app: &app,
            external: &external,
            inline: &inline,
            crosses_namespaces: true,
            clusters: None,
        };
        let n = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            resolve(&named, &names).unwrap().components[0].0.properties.as_ref().unwrap().to_value()
                ["n"]
                .clone()
        };
        assert_eq!((n(&["e"]), n(&["e", &inline_name(0, &inline[0])])), (json!(1), json!(2)));
    }

    #[test]
    fn patterns_and_selectors() {
        let over = |properties: &Value| {
            let policies = json!([{"name": "o", "type": "override", "properties": properties}]);
            resolved(&policies, &["o"]).map(|resolved| {
                let all = resolved["components"].as_array().cloned().unwrap_or_default();
                let of =
                    |c: &Value| format!("{}:{}", c["name"].as_str().unwrap(), c["properties"]["n"]);
                all.iter().map(of).collect::<Vec<_>>()
            })
        };
        let named =
            |name: &str| over(&json!({"components": [{"name": name, "properties": {"n": 1}}]}));
        for (name, expected) in [
            ("*web*", ["web:1", "my-web-2:1"]),
            ("(my-)?web(-[0-9])?", ["web:1", "my-web-2:1"]),
            ("^web$", ["web:1", "my-web-2:null"]),
            // A pattern that means nothing adds nothing.
            ("db-.*", ["web:null", "my-web-2:null"]),
        ] {
            assert_eq!(named(name).unwrap(), expected, "{name}");
        }
        assert_eq!(named("db").unwrap(), ["web:null", "my-web-2:null", "db:1"]);
        assert!(named("web-(").unwrap_err().to_string().contains("missing closing )"));
        assert_eq!(over(&json!({"selector": []})).unwrap(), Vec::<String>::new());
        assert_eq!(over(&json!({"selector": null})).unwrap().len(), 2);
        assert_eq!(over(&json!({"selector": ["web"]})).unwrap(), ["web:null"]);
    }
}
