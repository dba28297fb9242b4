//! ref-objects components: selectors, their reach, and whether what they name is there.
//!
//! Upstream loads the objects here, under the identity of the Application's author, from other
//! clusters and from URLs, while the API server waits. Ours asks whether the author may read them
//! and whether they are there, and leaves what they hold to the controller (compatibility note
//! webhook-4).

use serde_json::{Map, Value};
use vela_cluster::{Identity, Resource};

use super::auth;
use super::model::Component;
use super::subject::{Findings, Subject};
use crate::config::Scope;
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::world::{Access, Fact};

/// The type of such components.
const TYPE: &str = "ref-objects";

/// How many objects of an Application are read. Each may take three requests, and one author
/// must not keep the API server busy for all others.
const MAX_REFERENCES: usize = 100;

const LABELS: &str = "labelSelector";

/// The old key of the same, behind the gate DeprecatedObjectLabelSelector.
const OLD_LABELS: &str = "deprecatedLabelSelector";

const SELECTOR: [&str; 8] =
    ["apiVersion", "kind", "resource", "group", "name", "namespace", "cluster", LABELS];

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let mut checked = 0;
    for (i, component) in subject.app.components.iter().enumerate() {
        if component.type_.split('@').next() != Some(TYPE) {
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
                        let field = field.at("objects").index(n);
                        let Some(map) = form(subject, object, &field, findings) else { continue };
                        checked += 1;
                        if checked <= MAX_REFERENCES {
                            Selector::of(subject, component, map, &field).check(findings);
                        } else if checked == MAX_REFERENCES + 1 {
                            let field = field.to_string();
                            findings
                                .warnings
                                .push(messages::too_many_referred(&field, MAX_REFERENCES));
                        }
                    }
                }
                ("urls", Value::Array(urls)) => {
                    if !urls.is_empty() {
                        let detail = messages::no_urls();
                        let field = field.at("urls");
                        findings.push(Rule::Components, Reason::Forbidden, field, detail);
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

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn has_labels(subject: &Subject<'_>, map: &Map<String, Value>) -> bool {
    let has = |key: &str| {
        let labels = map.get(key).and_then(Value::as_object);
        labels.is_some_and(|labels| !labels.is_empty())
    };
    has(LABELS) || (knows_old_labels(subject) && has(OLD_LABELS))
}

fn knows_old_labels(subject: &Subject<'_>) -> bool {
    subject.world.settings.gates.deprecated_object_label_selector
}

/// Checks the form of a selector. Returns it if there is one and its form is right.
fn form<'a>(
    subject: &Subject<'_>,
    object: &'a Value,
    field: &Field,
    findings: &mut Findings,
) -> Option<&'a Map<String, Value>> {
    let before = findings.problems.len();
    let map = match object {
        Value::Object(map) => map,
        Value::Null => return None,
        other => {
            let detail = messages::wrong_type("an object", other);
            findings.push(Rule::Components, Reason::Invalid, field.clone(), detail);
            return None;
        }
    };
    let mut push = |reason: Reason, field: Field, detail: String| {
        findings.push(Rule::Components, reason, field, detail);
    };
    for (key, value) in map {
        if key == LABELS || (key == OLD_LABELS && knows_old_labels(subject)) {
            labels(value, &field.at(key), &mut push);
        } else if !SELECTOR.contains(&key.as_str()) {
            let nearest = vela_serve::nearest(key, SELECTOR);
            push(Reason::Invalid, field.at(key), messages::unknown_property(key, nearest));
        } else if !value.is_string() && !value.is_null() {
            push(Reason::Invalid, field.at(key), messages::wrong_type("a text", value));
        }
    }
    if has_labels(subject, map) && !text(map, "name").is_empty() {
        let detail = messages::same_name_and_label().to_owned();
        push(Reason::Forbidden, field.at(LABELS), detail);
    }
    if text(map, "resource").is_empty() {
        let is_legacy = !text(map, "apiVersion").is_empty() && !text(map, "kind").is_empty();
        if !is_legacy {
            push(Reason::Required, field.at("resource"), messages::no_resource().to_owned());
        } else if !subject.world.settings.gates.legacy_object_type_identifier {
            push(Reason::Required, field.at("resource"), messages::legacy_identifier().to_owned());
        }
    }
    let namespace = text(map, "namespace");
    let is_elsewhere = !namespace.is_empty() && namespace != subject.namespace;
    let scope = subject.world.settings.ref_scope;
    if scope == Scope::Namespace && is_elsewhere {
        let detail = messages::outside_namespace().to_owned();
        push(Reason::Forbidden, field.at("namespace"), detail);
    }
    if scope != Scope::Global && is_remote(text(map, "cluster")) {
        push(Reason::Forbidden, field.at("cluster"), messages::outside_cluster().to_owned());
    }
    (findings.problems.len() == before).then_some(map)
}

fn labels(value: &Value, field: &Field, push: &mut impl FnMut(Reason, Field, String)) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(_, value)| !value.is_string()) {
                push(Reason::Invalid, field.key(key), messages::wrong_type("a text", value));
            }
        }
        other => push(Reason::Invalid, field.clone(), messages::wrong_type("an object", other)),
    }
}

fn is_remote(cluster: &str) -> bool {
    !cluster.is_empty() && cluster != "local"
}

/// A selector whose form is right.
struct Selector<'a> {
    subject: &'a Subject<'a>,
    map: &'a Map<String, Value>,
    field: &'a Field,
    /// Empty for a selector of labels.
    name: &'a str,
    namespace: &'a str,
    is_new: bool,
}

impl<'a> Selector<'a> {
    fn of(
        subject: &'a Subject<'a>,
        component: &'a Component<'a>,
        map: &'a Map<String, Value>,
        field: &'a Field,
    ) -> Self {
        let name = match text(map, "name") {
            "" if has_labels(subject, map) => "",
            "" => component.name,
            name => name,
        };
        let namespace = match text(map, "namespace") {
            "" => subject.namespace,
            namespace => namespace,
        };
        Self { subject, map, field, name, namespace, is_new: subject.is_new(component) }
    }

    fn refuse(&self, reason: Reason, field: Field, detail: String, findings: &mut Findings) {
        findings.refuse_if(self.is_new, Rule::Components, reason, field, detail);
    }

    /// Refuses what is known not to be there or not to be readable to the author.
    fn check(&self, findings: &mut Findings) {
        let cluster = text(self.map, "cluster");
        if is_remote(cluster) && self.subject.world.settings.several_clusters {
            // It is read there when it is deployed, under the author's identity.
            return;
        }
        if is_remote(cluster) {
            let kind = match text(self.map, "resource") {
                "" => text(self.map, "kind"),
                resource => resource,
            };
            let referred = messages::referred(kind, self.namespace, self.name);
            let detail = messages::referred_cluster_unknown(&referred, cluster);
            self.refuse(Reason::NotFound, self.field.at("cluster"), detail, findings);
            return;
        }
        let Some(resource) = self.resource(findings) else { return };
        let namespace = if resource.namespaced { self.namespace } else { "" };
        let referred = messages::referred(&resource.kind, namespace, self.name);
        if !self.is_permitted(resource, namespace, &referred, findings) {
            return;
        }
        if self.name.is_empty() {
            return;
        }
        match self.subject.world.exists(resource, namespace, self.name) {
            Some(Fact::Exists(false)) => {
                let detail = messages::referred_missing(&referred, &resource.plural, self.name);
                self.refuse(Reason::NotFound, self.named_at(), detail, findings);
            }
            Some(Fact::Unreadable) => {
                let why = messages::webhook_may_not_read(&resource.plural);
                self.unchecked(&referred, &why, findings);
            }
            Some(Fact::Failed(why)) => self.unchecked(&referred, why, findings),
            _ => {}
        }
    }

    /// Where the object's name is written: without one, the component's name is meant.
    fn named_at(&self) -> Field {
        match text(self.map, "name") {
            "" => self.field.clone(),
            _ => self.field.at("name"),
        }
    }

    fn unchecked(&self, referred: &str, why: &str, findings: &mut Findings) {
        let field = self.field.to_string();
        findings.warnings.push(messages::referred_unchecked(&field, referred, why));
    }

    /// The resource that is meant; none if there is none or that is not known.
    fn resource(&self, findings: &mut Findings) -> Option<&'a Resource> {
        let world = self.subject.world;
        let (kind, resource) = (text(self.map, "kind"), text(self.map, "resource"));
        let by_kind = world.settings.gates.legacy_object_type_identifier && !kind.is_empty();
        if by_kind {
            let api_version = text(self.map, "apiVersion");
            return match world.resource(api_version, kind) {
                Ok(Some(resource)) => Some(resource),
                Ok(None) => {
                    let detail = messages::no_matches(api_version, kind);
                    self.refuse(Reason::NotFound, self.field.at("kind"), detail, findings);
                    None
                }
                Err(why) => {
                    let referred = messages::referred(kind, self.namespace, self.name);
                    self.unchecked(&referred, why, findings);
                    None
                }
            };
        }
        let group = text(self.map, "group");
        match world.named(group, resource)? {
            Fact::Resource(found) => found.as_ref(),
            Fact::NoResource(nearest) => {
                let nearest = nearest.as_deref();
                let detail = messages::referred_resource_unknown(group, resource, nearest);
                self.refuse(Reason::NotFound, self.field.at("resource"), detail, findings);
                None
            }
            Fact::Failed(why) => {
                let referred = messages::referred(resource, self.namespace, self.name);
                self.unchecked(&referred, why, findings);
                None
            }
            _ => None,
        }
    }

    /// Whether whoever the Application is deployed as may read it. Nobody else learns whether it
    /// is there: an object that may not be read is refused without a reconcile.
    fn is_permitted(
        &self,
        resource: &Resource,
        namespace: &str,
        referred: &str,
        findings: &mut Findings,
    ) -> bool {
        let identity = auth::acting(self.subject);
        if !identity.is_other() {
            return true;
        }
        let Identity { user, groups } = identity;
        let version = resource.api_version.rsplit('/').next().unwrap_or_default();
        let access = Access {
            verb: if self.name.is_empty() { "list" } else { "get" },
            group: resource.group().to_owned(),
            version: version.to_owned(),
            resource: resource.plural.clone(),
            namespace: namespace.to_owned(),
            name: self.name.to_owned(),
        };
        let verb = access.verb;
        match self.subject.world.may(&user, &groups, access) {
            Ok(true) => true,
            Ok(false) => {
                let plural = &resource.plural;
                let detail = messages::referred_forbidden(referred, &user, verb, plural, namespace);
                self.refuse(Reason::Forbidden, self.field.clone(), detail, findings);
                false
            }
            Err(why) => {
                self.unchecked(referred, why, findings);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
