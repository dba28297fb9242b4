//! Policies: types, properties, and the definitions an `override` mentions.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use vela_api::builtin::{self, Shape};
use vela_api::cluster::{LOCAL, selects_local};

use super::lookup;
use super::model::Policy;
use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::world::ObjectKind;
use vela_api::DefinitionKind;

/// All inline policies.
pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    for (i, policy) in subject.app.policies.iter().enumerate() {
        let field = Field::new("spec.policies").index(i);
        one(subject, policy, &field, findings);
    }
}

fn one(subject: &Subject<'_>, policy: &Policy<'_>, field: &Field, findings: &mut Findings) {
    let builtin = builtin::policy(policy.type_);
    if builtin.is_none() {
        let field = field.at("type");
        lookup::require(
            subject,
            DefinitionKind::Policy,
            policy.type_,
            Rule::Policies,
            &field,
            findings,
        );
    }
    let Some(properties) = policy.properties else {
        if policy.type_ != builtin::DEBUG && !is_application_scoped(subject, policy) {
            findings.push(
                Rule::Policies,
                Reason::Required,
                field.at("properties"),
                messages::empty_policy(policy.type_, policy.name),
            );
        }
        return;
    };
    let field = field.at("properties");
    let Some(map) = properties.as_object() else {
        findings.push(
            Rule::Policies,
            Reason::Invalid,
            field,
            messages::wrong_type("an object", properties),
        );
        return;
    };
    let Some(builtin) = builtin else { return };
    object(map, builtin.properties, policy.type_, &field, findings);
    match policy.type_ {
        builtin::OVERRIDE => overridden(subject, map, &field, findings),
        builtin::TOPOLOGY if !subject.world.settings.several_clusters => {
            topology_clusters(map, &field, findings);
        }
        builtin::TOPOLOGY if is_elsewhere(map) => {
            if let Some(clusters) = subject.world.clusters() {
                joined_clusters(map, &clusters, &field, findings);
            }
        }
        _ => {}
    }
}

/// Clusters that nothing is deployed to: a warning, not a denial, since the reference admits them and an
/// Application may be written before its cluster is there.
fn topology_clusters(map: &Map<String, Value>, field: &Field, findings: &mut Findings) {
    if let Some(clusters) = map.get("clusters").filter(|clusters| !clusters.is_null()) {
        let named = clusters.as_array().into_iter().flatten().enumerate();
        for (k, name) in named.filter_map(|(k, cluster)| Some((k, cluster.as_str()?))) {
            if name != LOCAL {
                let field = field.at("clusters").index(k).to_string();
                let nearest = vela_serve::nearest(name, [LOCAL]);
                findings.warnings.push(messages::unknown_cluster(&field, name, nearest));
            }
        }
        return;
    }
    let key = if map.contains_key("clusterLabelSelector") {
        "clusterLabelSelector"
    } else {
        "clusterSelector"
    };
    let elsewhere =
        map.get(key).and_then(Value::as_object).is_some_and(|labels| !selects_local(labels));
    if elsewhere && map.get("allowEmpty") != Some(&Value::Bool(true)) {
        findings.warnings.push(messages::no_cluster_matches(&field.at(key).to_string()));
    }
}

/// Whether a topology may mean other clusters than the local one: nobody is asked for the others then.
fn is_elsewhere(map: &Map<String, Value>) -> bool {
    if let Some(clusters) = map.get("clusters").and_then(Value::as_array) {
        return clusters
            .iter()
            .filter_map(Value::as_str)
            .any(|name| !name.is_empty() && name != LOCAL);
    }
    map.contains_key("clusterLabelSelector") || map.contains_key("clusterSelector")
}

/// Labels of clusters, by name.
type Clusters = BTreeMap<String, BTreeMap<String, String>>;

/// Clusters that nobody joined, as far as is known: a warning, since they may be joined a moment later.
fn joined_clusters(
    map: &Map<String, Value>,
    clusters: &Clusters,
    field: &Field,
    findings: &mut Findings,
) {
    if let Some(named) = map.get("clusters").filter(|clusters| !clusters.is_null()) {
        let named = named.as_array().into_iter().flatten().enumerate();
        for (k, name) in named.filter_map(|(k, cluster)| Some((k, cluster.as_str()?))) {
            if !name.is_empty() && name != LOCAL && !clusters.contains_key(name) {
                let field = field.at("clusters").index(k).to_string();
                let all = clusters.keys().map(String::as_str).chain([LOCAL]);
                let nearest = vela_serve::nearest(name, all);
                findings.warnings.push(messages::not_joined(&field, name, nearest));
            }
        }
        return;
    }
    for key in ["clusterLabelSelector", "clusterSelector"] {
        let Some(selector) = map.get(key).and_then(Value::as_object) else { continue };
        let has = |labels: &BTreeMap<String, String>| {
            let fits = |(key, value): (&String, &Value)| {
                value.as_str().is_some_and(|value| labels.get(key).is_some_and(|it| it == value))
            };
            selector.iter().all(fits)
        };
        let is_empty = !selects_local(selector) && !clusters.values().any(has);
        if is_empty && map.get("allowEmpty") != Some(&Value::Bool(true)) {
            findings.warnings.push(messages::no_joined_cluster_matches(&field.at(key).to_string()));
        }
        return;
    }
}

/// A policy of scope Application runs over the Application itself and may need no properties.
fn is_application_scoped(subject: &Subject<'_>, policy: &Policy<'_>) -> bool {
    let gates = &subject.world.settings.gates;
    gates.enable_application_scoped_policies
        && subject
            .world
            .definition(DefinitionKind::Policy, subject.namespace, policy.type_)
            .is_some_and(|definition| definition.scope == "Application")
}

fn object(
    map: &Map<String, Value>,
    shape: &[(&str, Shape)],
    of: &str,
    field: &Field,
    findings: &mut Findings,
) {
    for (key, value) in map {
        match shape.iter().find(|(name, _)| name == key) {
            Some((_, shape)) => fits(value, *shape, of, &field.at(key), findings),
            None => {
                let nearest = vela_serve::nearest(key, shape.iter().map(|(name, _)| *name));
                let field = field.at(key).to_string();
                let of = format!("policy type {of}");
                findings.warnings.push(messages::unknown_parameter(&field, &of, nearest));
            }
        }
    }
}

/// Wrong types are refused: the control plane could not read the policy, and an Application whose
/// garbage-collect policy cannot be read cannot even be deleted (compatibility note webhook-3).
fn fits(value: &Value, shape: Shape, of: &str, field: &Field, findings: &mut Findings) {
    use Shape::{Any, Bool, Int, Items, Labels, List, Object, Text, Texts, Word};
    if value.is_null() {
        return;
    }
    let mut wrong = |want: &str, value: &Value, field: Field| {
        let detail = messages::wrong_type(want, value);
        findings.push(Rule::Policies, Reason::Invalid, field, detail);
    };
    match (shape, value) {
        (Any, _) | (Bool, Value::Bool(_)) | (Text, Value::String(_)) => {}
        (Int, Value::Number(number)) if number.is_i64() || number.is_u64() => {}
        (Items, Value::Array(_)) => {}
        (Items, other) => wrong("a list", other, field.clone()),
        (Bool, other) => wrong("a boolean", other, field.clone()),
        (Int, other) => wrong("a whole number", other, field.clone()),
        (Word(words), Value::String(word)) => {
            // The reconcile takes an empty one for none.
            if !word.is_empty() && !words.contains(&word.as_str()) {
                let detail = messages::unknown_word(word, words);
                findings.push(Rule::Policies, Reason::Invalid, field.clone(), detail);
            }
        }
        (Text | Word(_), other) => wrong("a text", other, field.clone()),
        (Texts, Value::Array(items)) => {
            for (k, item) in items.iter().enumerate() {
                if !item.is_string() && !item.is_null() {
                    wrong("a text", item, field.index(k));
                }
            }
        }
        (Texts, other) => wrong("a list of texts", other, field.clone()),
        (Labels, Value::Object(map)) => {
            for (key, item) in map {
                if !item.is_string() && !item.is_null() {
                    wrong("a text", item, field.key(key));
                }
            }
        }
        (Labels | Object(_), other) if !other.is_object() => {
            wrong("an object", other, field.clone());
        }
        (Labels, _) => {}
        (List(shape), Value::Array(items)) => {
            for (k, item) in items.iter().enumerate() {
                match item {
                    Value::Object(map) => object(map, shape, of, &field.index(k), findings),
                    Value::Null => {}
                    other => findings.push(
                        Rule::Policies,
                        Reason::Invalid,
                        field.index(k),
                        messages::wrong_type("an object", other),
                    ),
                }
            }
        }
        (List(_), other) => wrong("a list", other, field.clone()),
        (Object(shape), Value::Object(map)) => object(map, shape, of, field, findings),
        (Object(_), _) => {}
    }
}

/// The names an override goes by, and the component and trait types that it brings in.
fn overridden(
    subject: &Subject<'_>,
    map: &Map<String, Value>,
    field: &Field,
    findings: &mut Findings,
) {
    let components = || items(map.get("components")).enumerate();
    let named = || components().filter_map(|(i, part)| Some((i, text(part, "name")?)));
    let names = named().map(|(_, name)| name);
    if let Err((index, error)) = vela_workflow::read_patterns(names, subject.app.components.len())
        && let Some((i, name)) = named().nth(index)
    {
        let at = field.at("components").index(i).at("name");
        findings.push(
            Rule::Policies,
            Reason::Invalid,
            at,
            messages::bad_pattern(name, &error.to_string()),
        );
    }
    for (i, component) in components() {
        let field = field.at("components").index(i);
        if let Some(type_) = text(component, "type") {
            let at = field.at("type");
            lookup::require(
                subject,
                DefinitionKind::Component,
                type_,
                Rule::Policies,
                &at,
                findings,
            );
        }
        for (j, one) in items(component.get("traits")).enumerate() {
            let at = field.at("traits").index(j).at("type");
            let type_ = text(one, "type").unwrap_or_default();
            lookup::require(subject, DefinitionKind::Trait, type_, Rule::Policies, &at, findings);
        }
    }
}

pub(super) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A policy that a step names: inline, or a `Policy` object.
pub(crate) fn require(subject: &Subject<'_>, name: &str, field: &Field, findings: &mut Findings) {
    let named: Vec<String> = subject
        .app
        .policies
        .iter()
        .enumerate()
        .map(|(i, policy)| match policy.name {
            // as the parser names them, in memory
            "" => format!("{}-auto-gen-{i}", policy.type_),
            name => name.to_owned(),
        })
        .collect();
    let is_known = named.iter().any(|known| known == name)
        || (!name.is_empty()
            && subject.world.object(ObjectKind::Policy, subject.namespace, name).is_some());
    if !is_known {
        let nearest = vela_serve::nearest(name, named.iter().map(String::as_str));
        findings.refuse_if(
            !subject.is_published(),
            Rule::Workflow,
            Reason::NotFound,
            field.clone(),
            messages::external_policy(name, subject.namespace, nearest),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unreadable_policies_are_refused_and_unknown_fields_told() {
        let properties = json!({ "keepLegacyResource": "x", "rules": [{ "selector": { "componentNames": "a" }, "stratgy": "never" }, 5] });
        let mut findings = Findings::default();
        let shape = builtin::policy("garbage-collect").unwrap().properties;
        object(
            properties.as_object().unwrap(),
            shape,
            "garbage-collect",
            &Field::new("p"),
            &mut findings,
        );
        let reported: Vec<String> =
            findings.problems.iter().map(|p| format!("{}: {}", p.field, p.detail)).collect();
        assert_eq!(
            reported,
            [
                "p.keepLegacyResource: must be a boolean, not the text \"x\"",
                "p.rules[0].selector.componentNames: must be a list of texts, not the text \"a\"",
                "p.rules[1]: must be an object, not the number 5",
            ]
        );
        assert_eq!(
            findings.warnings,
            [
                "p.rules[0].stratgy: policy type garbage-collect has no such parameter; it is ignored; did you mean \"strategy\"?"
            ]
        );
    }

    #[test]
    fn clusters_that_are_not_there_are_told() {
        let reported = |properties: Value| {
            let mut findings = Findings::default();
            topology_clusters(properties.as_object().unwrap(), &Field::new("p"), &mut findings);
            assert!(findings.problems.is_empty());
            findings.warnings
        };
        assert!(reported(json!({ "namespace": "n" })).is_empty());
        assert!(
            reported(json!({ "clusters": ["local"], "clusterLabelSelector": { "a": "b" } }))
                .is_empty()
        );
        let selector = json!({ "a": "b" });
        assert!(
            reported(json!({ "clusterLabelSelector": selector, "allowEmpty": true })).is_empty()
        );
        let hub = json!({ "cluster.core.oam.dev/control-plane": "true" });
        assert!(reported(json!({ "clusterLabelSelector": hub })).is_empty());
        assert_eq!(
            reported(json!({ "clusters": ["local", "locall", "prod"] })),
            [
                "p.clusters[1]: there is no cluster \"locall\", this control plane deploys to \"local\" only; the deployment will fail; did you mean \"local\"?",
                "p.clusters[2]: there is no cluster \"prod\", this control plane deploys to \"local\" only; the deployment will fail",
            ]
        );
        assert_eq!(
            reported(json!({ "clusterLabelSelector": selector })),
            [
                "p.clusterLabelSelector: no cluster has these labels, this control plane deploys to \"local\" only; the deployment will fail"
            ]
        );
    }

    #[test]
    fn clusters_that_nobody_joined_are_reported() {
        let labels = |region: &str| {
            let labels = [("region", region), ("cluster.core.oam.dev/control-plane", "false")];
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        };
        let clusters: Clusters =
            [("east".to_owned(), labels("eu")), ("west".to_owned(), labels("us"))].into();
        let reported = |properties: Value| {
            let mut findings = Findings::default();
            let map = properties.as_object().unwrap();
            joined_clusters(map, &clusters, &Field::new("p"), &mut findings);
            assert!(findings.problems.is_empty());
            findings.warnings
        };
        let all = json!({ "cluster.core.oam.dev/control-plane": "false" });
        for known in [
            json!({ "clusters": ["local", "east", "west", ""] }),
            json!({ "clusterLabelSelector": { "region": "us" } }),
            json!({ "clusterLabelSelector": all }),
            json!({ "clusterLabelSelector": {} }),
            json!({ "clusterLabelSelector": { "region": "moon" }, "allowEmpty": true }),
            json!({ "clusters": null }),
        ] {
            assert_eq!(reported(known.clone()), Vec::<String>::new(), "{known}");
        }
        assert_eq!(
            reported(json!({ "clusters": ["east", "wst"] })),
            [
                "p.clusters[1]: no cluster \"wst\" has joined; the deployment fails until one does; did you mean \"west\"?"
            ]
        );
        for key in ["clusterLabelSelector", "clusterSelector"] {
            assert_eq!(
                reported(json!({ key: { "region": "moon" } })),
                [format!(
                    "p.{key}: no cluster with these labels has joined; the deployment fails until one does"
                )]
            );
        }
        for (properties, expected) in [
            (json!({ "clusters": ["local", ""] }), false),
            (json!({ "clusters": ["local", "east"] }), true),
            (json!({ "clusterSelector": {} }), true),
            (json!({ "namespace": "n" }), false),
        ] {
            assert_eq!(is_elsewhere(properties.as_object().unwrap()), expected, "{properties}");
        }
    }

    #[test]
    fn a_word_that_is_none_is_refused_with_the_nearest() {
        let shape = builtin::policy("apply-once").unwrap().properties;
        let reported = |drift: Value| {
            let properties = json!({"enable": true, "rules": [{"drift": drift}]});
            let mut findings = Findings::default();
            let map = properties.as_object().unwrap();
            object(map, shape, "apply-once", &Field::new("p"), &mut findings);
            let problems = findings.problems.into_iter();
            problems.map(|p| format!("{}: {}", p.field, p.detail)).collect::<Vec<_>>()
        };
        let none: Vec<String> = Vec::new();
        for fine in ["heal", "warn", "off", ""] {
            assert_eq!(reported(json!(fine)), none);
        }
        assert_eq!(
            reported(json!("wran")),
            ["p.rules[0].drift: \"wran\" is none of heal, warn, off; did you mean \"warn\"?"]
        );
        assert_eq!(
            reported(json!(false)),
            ["p.rules[0].drift: must be a text, not the boolean false"]
        );
    }
}
