//! ref-objects components: selectors and reach.
//!
//! Upstream loads the objects here, under the identity of the Application's author, from other
//! clusters and from URLs, while the API server waits. Ours checks what can be checked without
//! (compatibility note webhook-4).

use serde_json::Value;

use super::{Findings, Subject};
use crate::config::Scope;
use crate::field::{Field, Reason, Rule};
use crate::messages;

const SELECTOR: [&str; 9] = [
    "apiVersion",
    "kind",
    "resource",
    "group",
    "name",
    "namespace",
    "cluster",
    "labelSelector",
    "deprecatedLabelSelector",
];

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    for (i, component) in subject.app.components.iter().enumerate() {
        if component.type_ != "ref-objects" {
            continue;
        }
        let field = Field::new("spec.components").index(i).at("properties");
        let Some(Value::Object(properties)) = component.properties else {
            if component.properties.is_none() {
                let detail = messages::required();
                findings.push(Rule::Components, Reason::Required, field, detail);
            }
            continue;
        };
        for (key, value) in properties {
            match (key.as_str(), value) {
                ("objects", Value::Array(objects)) => {
                    for (n, object) in objects.iter().enumerate() {
                        selector(subject, object, &field.at("objects").index(n), findings);
                    }
                }
                ("urls", Value::Array(urls)) => {
                    if !urls.is_empty() {
                        let detail = messages::no_urls();
                        findings.push(
                            Rule::Components,
                            Reason::Forbidden,
                            field.at("urls"),
                            detail,
                        );
                    }
                }
                (_, Value::Null) => {}
                ("objects" | "urls", other) => {
                    let detail = messages::wrong_type("a list", other);
                    findings.push(Rule::Components, Reason::Invalid, field.at(key), detail);
                }
                (other, _) => {
                    let nearest = vela_serve::nearest(other, ["objects", "urls"]);
                    let detail = messages::unknown_property(other, nearest);
                    findings.push(Rule::Components, Reason::Invalid, field.at(other), detail);
                }
            }
        }
    }
}

fn selector(subject: &Subject<'_>, object: &Value, field: &Field, findings: &mut Findings) {
    let Value::Object(map) = object else {
        if !object.is_null() {
            let detail = messages::wrong_type("an object", object);
            findings.push(Rule::Components, Reason::Invalid, field.clone(), detail);
        }
        return;
    };
    let mut push = |reason: Reason, field: Field, detail: String| {
        findings.push(Rule::Components, reason, field, detail);
    };
    for (key, value) in map {
        if !SELECTOR.contains(&key.as_str()) {
            let nearest = vela_serve::nearest(key, SELECTOR);
            push(Reason::Invalid, field.at(key), messages::unknown_property(key, nearest));
        } else if key.ends_with("abelSelector") {
            if !value.is_object() && !value.is_null() {
                push(Reason::Invalid, field.at(key), messages::wrong_type("an object", value));
            }
        } else if !value.is_string() && !value.is_null() {
            push(Reason::Invalid, field.at(key), messages::wrong_type("a text", value));
        }
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let has_labels = map
        .get("labelSelector")
        .and_then(Value::as_object)
        .is_some_and(|labels| !labels.is_empty());
    if has_labels && !text("name").is_empty() {
        push(
            Reason::Forbidden,
            field.at("labelSelector"),
            messages::same_name_and_label().to_owned(),
        );
    }
    if text("resource").is_empty() {
        let is_legacy = !text("apiVersion").is_empty() && !text("kind").is_empty();
        if !is_legacy {
            push(Reason::Required, field.at("resource"), messages::no_resource().to_owned());
        } else if !subject.world.settings.gates.legacy_object_type_identifier {
            push(Reason::Required, field.at("resource"), messages::legacy_identifier().to_owned());
        }
    }
    let namespace = text("namespace");
    let is_elsewhere = !namespace.is_empty() && namespace != subject.namespace;
    let cluster = text("cluster");
    let is_remote = !cluster.is_empty() && cluster != "local";
    match subject.world.settings.ref_scope {
        Scope::Namespace if is_elsewhere => {
            push(
                Reason::Forbidden,
                field.at("namespace"),
                messages::outside_namespace().to_owned(),
            );
        }
        Scope::Namespace | Scope::Cluster if is_remote => {
            push(Reason::Forbidden, field.at("cluster"), messages::outside_cluster().to_owned());
        }
        _ if is_remote => {
            let field = field.at("cluster").to_string();
            findings.warnings.push(messages::unknown_cluster(&field, cluster, None));
        }
        _ => {}
    }
}
