//! Components that are charts: everything that what they ask for says itself about being wrong. Nothing is fetched.

use std::collections::BTreeMap;

use serde_json::Value;
use vela_api::names::label;
use vela_cluster::Identity;
use vela_helm::{preview, request};

use super::auth;
use super::model::Component;
use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::world::Access;

/// The releases of an Application, with the first component of each.
pub(crate) type Releases<'a> = BTreeMap<(String, String), &'a str>;

/// Checks what the template of a component asks of the provider of charts.
pub(crate) fn check<'a>(
    subject: &Subject<'_>,
    component: &'a Component<'a>,
    params: &Value,
    field: &Field,
    releases: &mut Releases<'a>,
    findings: &mut Findings,
) {
    for problem in request::problems(params, subject.namespace) {
        let at = at(field, component.properties, &problem.path);
        let is_new = subject.is_new(component);
        let text = problem.error.to_string();
        findings.refuse_if(is_new, Rule::Parameters, Reason::Invalid, at, text);
    }
    let Some(release) = request::release_of(params) else { return };
    match releases.get(&release) {
        Some(other) => {
            let (namespace, name) = &release;
            let text = messages::same_release(&field.to_string(), namespace, name, other);
            findings.warnings.push(text);
        }
        None => {
            if subject.is_new(component) {
                preview(subject, component, params, &release, field, findings);
            }
            releases.insert(release, component.name);
        }
    }
}

/// What the release that is deployed already says: whose it is, and what its schema refuses of the values. Who may not read it
/// learns nothing.
fn preview(
    subject: &Subject<'_>,
    component: &Component<'_>,
    params: &Value,
    (namespace, name): &(String, String),
    field: &Field,
    findings: &mut Findings,
) {
    let identity = auth::acting(subject);
    if identity.is_other() {
        let Identity { user, groups } = identity;
        let access = Access {
            verb: "get",
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: namespace.clone(),
            name: preview::config_map(name),
        };
        if subject.world.may(&user, &groups, access) != Ok(true) {
            return;
        }
    }
    let Some(found) = subject.world.release(namespace, name) else { return };
    let text =
        |pointer: String| found.pointer(&pointer).and_then(Value::as_str).unwrap_or_default();
    let label = |key: &str| text(format!("/metadata/labels/{}", key.replace('/', "~1")));
    let owner = (label(label::APP_NAMESPACE), label(label::APP_NAME));
    let own = subject.object.pointer("/metadata/name").and_then(Value::as_str);
    if !owner.1.is_empty() && owner != (subject.namespace, own.unwrap_or_default()) {
        let field = field.to_string();
        findings.warnings.push(messages::foreign_release(&field, namespace, name, owner));
        return;
    }
    let asked =
        |key: &str| params.get("chart").and_then(|chart| chart.get(key)).and_then(Value::as_str);
    let is_same = [("source", "chartSource"), ("repoURL", "repoURL"), ("version", "chartVersion")]
        .into_iter()
        .all(|(key, recorded)| asked(key).unwrap_or_default() == text(format!("/data/{recorded}")));
    let values = params.get("values").and_then(Value::as_object);
    let (true, Some(values)) = (is_same, values) else { return };
    let schema = text(format!("/binaryData/{}", preview::KEY));
    let at = at(field, component.properties, &["values".to_owned()]).to_string();
    for problem in preview::problems(schema, values) {
        findings.warnings.push(messages::refused_by_schema(&at, &problem));
    }
}

/// The property that a parameter of the call comes from, if the template takes it over as it is; else all of them.
fn at(field: &Field, properties: Option<&Value>, path: &[String]) -> Field {
    let all = field.at("properties");
    let pointer: String = path.iter().flat_map(|part| ["/", part.as_str()]).collect();
    if path.is_empty() || properties.and_then(|given| given.pointer(&pointer)).is_none() {
        return all;
    }
    all.labels(path)
}
