//! Tests of references, with every possible answer of the API server.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use vela_serve::gates::Gates;

use super::*;
use crate::config::Settings;
use crate::decision::Decision;
use crate::engine::{Engine, endpoints};
use crate::snapshot::{Definition, Snapshot};
use crate::world::Need;
use vela_api::DefinitionKind;

const VALIDATE: &str = "/validating-core-oam-dev-v1beta1-applications";

fn app(selectors: &[Value], policies: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": { "name": "a", "namespace": "default", "annotations": annotations },
        "spec": { "components": [
            { "name": "here", "type": "ref-objects", "properties": { "objects": selectors } },
        ], "policies": policies },
    })
}

/// A cluster with a ConfigMap `default/here`, of which dev may read everything but `secret`.
struct Cluster {
    settings: Settings,
    /// What the webhook's own rights do not reach.
    unreadable: &'static str,
    is_slow: bool,
    asked: RefCell<Vec<Need>>,
}

impl Cluster {
    fn new(gates: &[&str]) -> Self {
        let gates = Gates::parse(gates).unwrap();
        let settings = Settings { gates, ..Settings::default() };
        settings.keys.set(vela_seal::Keys::new(&[7; 32], None).unwrap());
        Self { settings, unreadable: "", is_slow: false, asked: RefCell::default() }
    }

    /// The annotations of an Application by dev that refers to this.
    fn stamp(&self, selector: &Value) -> Value {
        let object = app(std::slice::from_ref(selector), &json!([]), &json!({}));
        let object = vela_seal::Subject {
            kind: "Application",
            namespace: "default",
            name: "a",
            content: crate::application::subject::content(&object).unwrap(),
        };
        let groups = vec!["kubevela:a".to_owned()];
        let dev = vela_seal::Stamp { user: "dev".to_owned(), groups, administrator: None };
        let annotations = dev.annotations(&self.settings.keys.get().unwrap(), &object);
        annotations.into_iter().filter(|(_, value)| value.is_some()).collect()
    }

    fn resource(plural: &str, kind: &str) -> Resource {
        Resource {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: kind != "Node",
            verbs: Vec::new(),
        }
    }

    fn know(&self, need: &Need) -> Fact {
        self.asked.borrow_mut().push(need.clone());
        let all = [Self::resource("configmaps", "ConfigMap"), Self::resource("nodes", "Node")];
        match need {
            Need::Named { .. } | Need::Exists { .. } if self.is_slow => {
                Fact::Failed(messages::NO_ANSWER_IN_TIME.to_owned())
            }
            Need::Named { name, .. } => {
                match all.iter().find(|r| r.plural == *name || r.kind.eq_ignore_ascii_case(name)) {
                    Some(resource) => Fact::Resource(Some(resource.clone())),
                    None => Fact::NoResource(Some("configmaps".to_owned())),
                }
            }
            Need::Resource { kind, .. } => {
                Fact::Resource(all.iter().find(|resource| resource.kind == *kind).cloned())
            }
            Need::Permission { user, access, .. } => {
                Fact::Allowed(user == "dev" && access.name != "secret")
            }
            Need::Exists { plural, .. } if plural == self.unreadable => Fact::Unreadable,
            Need::Exists { namespace, name, .. } => {
                Fact::Exists((namespace.as_str(), name.as_str()) == ("default", "here"))
            }
            _ => Fact::Object(None),
        }
    }

    /// The decision about a component that refers to this, in a new Application or in place of
    /// `old`.
    fn decide(&self, selector: &Value, old: Option<&Value>, annotations: &Value) -> Decision {
        self.decide_all(std::slice::from_ref(selector), old.map(std::slice::from_ref), annotations)
    }

    fn decide_all(
        &self,
        selectors: &[Value],
        old: Option<&[Value]>,
        annotations: &Value,
    ) -> Decision {
        let engine = Engine::new(self.settings.clone(), true);
        let definition = json!({ "metadata": { "name": "ref-objects" }, "spec": { "schematic":
            { "cue": { "template": "output: {}\nparameter: {objects: [...{}]}" } } } });
        let definition = Definition::new(DefinitionKind::Component, &definition).unwrap();
        let mut snapshot = Snapshot::default();
        snapshot.insert(DefinitionKind::Component, "vela-system", "ref-objects", definition.into());
        let app = |selectors: &[Value], policies: &Value| app(selectors, policies, annotations);
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "namespace": "default",
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
                "userInfo": { "username": "dev" },
                "object": app(selectors, &json!([])),
                "oldObject": old.map(|old| app(old, &Value::Null)),
            },
        });
        let endpoint = endpoints().find(|endpoint| endpoint.path == VALIDATE).unwrap();
        let body = review.to_string();
        let know = |need: &Need| self.know(need);
        let (_, decision) =
            engine.review(endpoint, Some("application/json"), body.as_bytes(), &snapshot, know);
        decision
    }

    /// The answer to a new Application: `refused FIELD: ..`, `warned: ..` or `admitted`.
    fn messages(&self, selector: &Value) -> String {
        reported(&self.decide(selector, None, &json!({})))
    }
}

fn reported(decision: &Decision) -> String {
    match (decision.causes.first(), decision.warnings.first()) {
        (Some(cause), _) => format!("refused {}: {}", cause.field, cause.message),
        (None, Some(warning)) => format!("warned: {warning}"),
        (None, None) => "admitted".to_owned(),
    }
}

#[test]
fn what_is_not_there_is_refused_with_its_path() {
    let cluster = Cluster::new(&[]);
    let at = "refused spec.components[0].properties.objects[0]";
    for (selector, expected) in [
        (json!({ "resource": "configmap", "name": "here" }), "admitted".to_owned()),
        // without a name, the component's is meant
        (json!({ "resource": "configmaps" }), "admitted".to_owned()),
        (json!({ "resource": "configmap", "labelSelector": { "a": "b" } }), "admitted".to_owned()),
        (
            json!({ "resource": "configmap", "name": "gone" }),
            format!(
                "{at}.name: failed to load ref object ConfigMap default/gone: configmaps \"gone\" not found"
            ),
        ),
        (
            json!({ "resource": "configmap", "namespace": "else" }),
            format!(
                "{at}: failed to load ref object ConfigMap else/here: configmaps \"here\" not found"
            ),
        ),
        (
            json!({ "resource": "node", "name": "n", "namespace": "else" }),
            format!("{at}.name: failed to load ref object Node n: nodes \"n\" not found"),
        ),
        (
            json!({ "resource": "configmap", "labelSelector": { "a": 1 } }),
            format!("{at}.labelSelector[a]: must be a text, not the number 1"),
        ),
        (
            json!({ "resource": "configmap", "deprecatedLabelSelector": { "a": "b" } }),
            format!("{at}.deprecatedLabelSelector: unknown field \"deprecatedLabelSelector\""),
        ),
        (
            json!({ "resource": "configmps", "name": "here" }),
            format!(
                "{at}.resource: no matches for resource \"configmps\" in any group; did you mean \"configmaps\"?"
            ),
        ),
        (
            json!({ "resource": "configmap", "name": "here", "cluster": "far" }),
            format!(
                "{at}.cluster: failed to load ref object configmap default/here: there is no cluster \"far\", this control plane knows \"local\" only"
            ),
        ),
    ] {
        assert_eq!(cluster.messages(&selector), expected, "{selector}");
    }
}

#[test]
fn kinds_may_name_it_where_the_gate_says_so() {
    let cluster = Cluster::new(&["LegacyObjectTypeIdentifier=true"]);
    let selector = |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "name": "here" });
    assert_eq!(cluster.messages(&selector("ConfigMap")), "admitted");
    let refused = cluster.messages(&selector("Config"));
    assert!(refused.ends_with("objects[0].kind: no matches for kind \"Config\" in version \"v1\""));
}

#[test]
fn labels_may_stand_under_their_old_key_where_the_gate_says_so() {
    let cluster = Cluster::new(&["DeprecatedObjectLabelSelector=true"]);
    let selector =
        |labels: Value| json!({ "resource": "configmap", "deprecatedLabelSelector": labels });
    assert_eq!(cluster.messages(&selector(json!({ "a": "b" }))), "admitted");
    let refused = cluster.messages(&selector(json!({ "a": 1 })));
    assert!(refused.ends_with("deprecatedLabelSelector[a]: must be a text, not the number 1"));
}

#[test]
fn what_cannot_be_looked_at_is_a_warning() {
    let gone = json!({ "resource": "configmap", "name": "gone" });
    let at = "warned: spec.components[0].properties.objects[0]: it could not be checked whether";
    let blind = Cluster { unreadable: "configmaps", ..Cluster::new(&[]) };
    assert_eq!(
        blind.messages(&gone),
        format!(
            "{at} ConfigMap default/gone exists: the webhook has no right to read configmaps (value webhook.refObjects.rules)"
        )
    );
    let slow = Cluster { is_slow: true, ..Cluster::new(&[]) };
    assert_eq!(
        slow.messages(&gone),
        format!("{at} configmap default/gone exists: {}", messages::NO_ANSWER_IN_TIME)
    );
}

#[test]
fn nobody_learns_of_what_he_may_not_read() {
    let cluster = Cluster::new(&["AuthenticateApplication=true"]);
    let reported = |name: &str, stamped: bool| {
        let selector = json!({ "resource": "configmap", "name": name });
        let forged = json!({ "app.oam.dev/username": "dev", "app.oam.dev/group": "kubevela:a" });
        let annotations = if stamped { cluster.stamp(&selector) } else { forged };
        reported(&cluster.decide(&selector, None, &annotations))
    };
    assert_eq!(reported("here", true), "admitted");
    assert!(reported("gone", true).ends_with("\"gone\" not found"));
    cluster.asked.borrow_mut().clear();
    assert!(
        reported("secret", true).ends_with(
            "user \"dev\", as whom this Application is deployed, cannot get configmaps in namespace \"default\""
        )
    );
    let asked = cluster.asked.borrow();
    assert!(!asked.iter().any(|need| matches!(need, Need::Exists { .. })), "{asked:?}");
    // His name was written by somebody else: it is deployed as the default user, who may not read this one either.
    drop(asked);
    assert!(reported("here", false).contains("user \"kubevela:vela-core\""));
}

#[test]
fn an_update_looks_hard_only_at_what_it_changes() {
    let cluster = Cluster::new(&[]);
    let gone = json!({ "resource": "configmap", "name": "gone" });
    let here = json!({ "resource": "configmap", "name": "here" });
    let update =
        |selector: &Value, old: &Value| reported(&cluster.decide(selector, Some(old), &json!({})));
    assert!(update(&gone, &here).starts_with("refused"));
    assert!(update(&gone, &gone).starts_with("warned"));
    assert_eq!(update(&here, &gone), "admitted");
}

#[test]
fn an_author_cannot_keep_the_api_server_busy() {
    let cluster = Cluster::new(&[]);
    let objects: Vec<Value> = (0..1000)
        .map(
            |n| json!({ "resource": "configmap", "namespace": "default", "name": format!("c{n}") }),
        )
        .collect();
    let old = json!({});
    let decision = cluster.decide_all(&objects, Some(&[old]), &json!({}));
    assert_eq!(decision.causes.len(), MAX_REFERENCES);
    assert!(
        decision
            .warnings
            .iter()
            .any(|reported| reported.contains("objects[100]: the existence of objects is checked"))
    );
    assert!(cluster.asked.borrow().len() < 2 * MAX_REFERENCES);
}

#[test]
fn an_object_is_asked_for_once() {
    let cluster = Cluster::new(&[]);
    cluster.messages(&json!({ "resource": "configmap", "name": "gone" }));
    let asked = cluster.asked.borrow();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len(), "{asked:?}");
}
