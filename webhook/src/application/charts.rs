//! Components that are charts: everything that what they ask for says itself about being wrong. Nothing is fetched.

use std::collections::BTreeMap;

use serde_json::Value;
use vela_helm::request;

use super::model::Component;
use super::subject::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;

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
        None => drop(releases.insert(release, component.name)),
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
