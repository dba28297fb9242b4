//! Parameters that come from elsewhere, so that their absence is no mistake: from inputs, and from overrides.

use serde_json::Value;
use vela_workflow::Pattern;

use super::model::{Component, Step};
use super::policies::{items, text};
use super::subject::Subject;
use crate::world::ObjectKind;

/// What inputs of steps give, and override policies: those of the Application, and Policy objects that its steps name.
pub(crate) struct Supplied {
    inputs: Vec<String>,
    overrides: Vec<Part>,
}

/// What an override gives, and to which components.
struct Part {
    name: Option<Pattern>,
    type_: Option<String>,
    paths: Vec<String>,
}

impl Supplied {
    pub(crate) fn of(subject: &Subject<'_>) -> Self {
        let app = subject.app;
        let steps: &[Step<'_>] = app.workflow.as_ref().map_or(&[], |w| w.steps.as_slice());
        let steps = || steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps));
        let inputs = steps().flat_map(|step| &step.inputs);
        let mut supplied = Self {
            inputs: inputs.filter_map(|input| path(input.parameter_key)).collect(),
            overrides: Vec::new(),
        };
        for policy in app.policies.iter().filter(|policy| policy.type_ == "override") {
            supplied.add(policy.properties, app.components.len());
        }
        let own = |name: &str| app.policies.iter().any(|policy| policy.name == name);
        let mut named: Vec<&str> = steps()
            .filter(|step| step.type_ == "deploy")
            .flat_map(|step| items(step.properties.and_then(|p| p.get("policies"))))
            .filter_map(Value::as_str)
            .filter(|name| !name.is_empty() && !own(name))
            .collect();
        named.sort_unstable();
        named.dedup();
        for name in named {
            let policy_object = subject.world.object(ObjectKind::Policy, subject.namespace, name);
            let is_override = |policy: &Value| text(policy, "type") == Some("override");
            if let Some(policy) = policy_object.filter(|policy| is_override(policy)) {
                supplied.add(policy.get("properties"), app.components.len());
            }
        }
        supplied
    }

    fn add(&mut self, properties: Option<&Value>, components: usize) {
        let parts = || items(properties.and_then(|p| p.get("components")));
        let names = parts().filter_map(|part| text(part, "name"));
        // Names that cannot be read are refused, or the step fails.
        let Ok(patterns) = vela_workflow::read_patterns(names, components) else { return };
        let mut patterns = patterns.into_iter();
        for part in parts() {
            let mut paths = Vec::new();
            if let Some(properties) = part.get("properties") {
                flatten(properties, String::new(), &mut paths);
            }
            let name = text(part, "name").and_then(|_| patterns.next());
            let type_ = text(part, "type").map(str::to_owned);
            self.overrides.push(Part { name, type_, paths });
        }
    }

    /// The paths that are supplied to a component, such as `ports[0].port`.
    pub(crate) fn to(&self, component: &Component<'_>) -> Vec<String> {
        let is_ours = |part: &&Part| {
            part.name.as_ref().is_none_or(|name| name.matches(component.name))
                && part.type_.as_ref().is_none_or(|type_| type_ == component.type_)
        };
        let own = component.inputs.iter().filter_map(|input| path(input.parameter_key));
        let overridden = self.overrides.iter().filter(is_ours).flat_map(|part| &part.paths);
        let mut paths: Vec<String> =
            self.inputs.iter().chain(overridden).cloned().chain(own).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The path of a `parameterKey` below the properties.
fn path(key: &str) -> Option<String> {
    let path = key.strip_prefix("properties.").unwrap_or(key);
    (!path.is_empty()).then(|| path.to_owned())
}

fn flatten(value: &Value, at: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(value, below, paths);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (n, item) in items.iter().enumerate() {
                flatten(item, format!("{at}[{n}]"), paths);
            }
        }
        _ if at.is_empty() => {}
        _ => paths.push(at),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use vela_serve::gates::Gates;

    use super::*;
    use crate::config::Settings;
    use crate::engine::{Engine, endpoints};
    use crate::snapshot::{Definition, Snapshot};
    use crate::world::{Fact, Need};
    use vela_api::DefinitionKind;

    const TEMPLATE: &str = r#"
output: {apiVersion: "v1", kind: "ConfigMap", data: {v: parameter.image, w: parameter.deep.a.b}}
parameter: {image: string, deep: {a: {b: string}, o?: string}}
"#;
    const BARE: &str = r#"output: {apiVersion: "v1", kind: "ConfigMap", data: v: "1"}"#;
    const STEP: &str = "parameter: {...}";

    /// Whether an Application is admitted whose parameters must be given; else why not. `external` is the Policy `ext`.
    fn admitted(component: &Value, spec: &Value, policy_object: &Value) -> Result<(), String> {
        let gates = Gates::parse(["EnableCueValidation=true"]).unwrap();
        let engine = Engine::new(Settings { gates, ..Settings::default() }, true);
        let mut snapshot = Snapshot::default();
        for (kind, name, template) in [
            (DefinitionKind::Component, "maps", TEMPLATE),
            (DefinitionKind::Component, "bare", BARE),
            (DefinitionKind::WorkflowStep, "deploy", STEP),
            (DefinitionKind::WorkflowStep, "print", STEP),
        ] {
            let object = json!({ "metadata": { "name": name },
                "spec": { "schematic": { "cue": { "template": template } } } });
            snapshot.insert(
                kind,
                "vela-system",
                name,
                Definition::new(kind, &object).unwrap().into(),
            );
        }
        let mut app = json!({ "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": { "name": "a", "namespace": "default" }, "spec": spec });
        app["spec"]["components"] = json!([component]);
        let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": { "uid": "u", "namespace": "default", "operation": "CREATE",
                "userInfo": { "username": "dev" }, "object": app } });
        let path = "/validating-core-oam-dev-v1beta1-applications";
        let endpoint = endpoints().find(|endpoint| endpoint.path == path).unwrap();
        let know = |need: &Need| match need {
            Need::Object { kind: ObjectKind::Policy, name, .. } if name == "ext" => {
                Fact::Object(Some(Arc::new(policy_object.clone())))
            }
            _ => Fact::Object(None),
        };
        let body = review.to_string();
        let (_, decision) =
            engine.review(endpoint, Some("application/json"), body.as_bytes(), &snapshot, know);
        if decision.allowed { Ok(()) } else { Err(format!("{decision:?}")) }
    }

    fn over(name: &str, properties: &Value) -> Value {
        json!({ "components": [{ "name": name, "properties": properties }] })
    }

    fn inline(properties: &Value) -> Value {
        json!({ "policies": [{ "name": "o", "type": "override", "properties": properties }],
            "workflow": { "steps": [
                { "name": "d", "type": "deploy", "properties": { "policies": ["o"] } }] } })
    }

    fn component(properties: &Value) -> Value {
        json!({ "name": "web", "type": "maps", "properties": properties })
    }

    #[test]
    fn a_definition_without_parameters_wants_none() {
        for properties in [Value::Null, json!({})] {
            let mut one = json!({ "name": "web", "type": "bare" });
            if properties.is_object() {
                one["properties"] = properties;
            }
            assert_eq!(admitted(&one, &json!({}), &Value::Null), Ok(()));
        }
    }

    #[test]
    fn what_an_override_gives_is_not_missing() {
        let all = json!({ "image": "x", "deep": { "a": { "b": "c" } } });
        let none = component(&json!({}));
        let ok = |spec: &Value| admitted(&none, spec, &Value::Null);
        assert!(ok(&json!({})).unwrap_err().contains("image"));
        for name in ["web", "we*", "(web|db)", "^web$"] {
            assert_eq!(ok(&inline(&over(name, &all))), Ok(()), "{name}");
        }
        assert!(ok(&inline(&over("db", &all))).is_err());
        assert!(
            ok(&inline(&over("web", &json!({ "image": "x" })))).unwrap_err().contains("deep.a.b")
        );
        // A Policy object counts where a step names it.
        let policy_object = json!({ "type": "override", "properties": over("web", &all) });
        let named = json!({ "workflow": { "steps": [
            { "name": "d", "type": "deploy", "properties": { "policies": ["ext"] } }] } });
        assert_eq!(admitted(&none, &named, &policy_object), Ok(()));
        assert!(admitted(&none, &json!({}), &policy_object).is_err());
        let topology = json!({ "type": "topology", "properties": {} });
        assert!(admitted(&none, &named, &topology).is_err());
    }

    #[test]
    fn what_an_input_gives_is_not_missing_nor_what_is_in_it() {
        let given = component(&json!({ "image": "x" }));
        let with = |key: &str| {
            json!({ "workflow": { "steps": [
                { "name": "p", "type": "print", "outputs": [{ "name": "o", "valueFrom": "1" }] },
                { "name": "d", "type": "apply-component", "properties": { "component": "web" },
                  "inputs": [{ "from": "o", "parameterKey": key }] }] } })
        };
        for key in ["deep.a.b", "deep.a", "deep", "properties.deep"] {
            assert_eq!(admitted(&given, &with(key), &Value::Null), Ok(()), "{key}");
        }
        for key in ["dee", "deep.a.c", "deep.o"] {
            assert!(admitted(&given, &with(key), &Value::Null).is_err(), "{key}");
        }
    }

    #[test]
    fn a_null_is_refused_wherever_a_value_comes_from() {
        let null = component(&json!({ "image": null, "deep": { "a": { "b": "c" } } }));
        let with = inline(&over("web", &json!({ "image": "x" })));
        for spec in [json!({}), with] {
            assert!(admitted(&null, &spec, &Value::Null).unwrap_err().contains("properties.image"));
        }
    }

    #[test]
    fn a_name_that_is_no_pattern_is_refused_with_its_path() {
        let given = component(&json!({ "image": "x", "deep": { "a": { "b": "c" } } }));
        let spec = inline(&json!({ "components": [{ "properties": {} }, { "name": "we(b" }] }));
        let refused = admitted(&given, &spec, &Value::Null).unwrap_err();
        assert!(refused.contains("spec.policies[0].properties.components[1].name"), "{refused}");
    }

    #[test]
    fn overrides_flatten_to_parameter_paths() {
        let mut paths = Vec::new();
        flatten(
            &json!({ "image": "x", "ports": [{ "port": 1 }], "e": {} }),
            String::new(),
            &mut paths,
        );
        assert_eq!(paths, ["e", "image", "ports[0].port"]);
    }
}
