//! An Application as rules read it: borrowed from the JSON, and only what they ask about. What has another type than its kind
//! declares is reported (`vela_api::mistyped`) and read as absent, like `null`.

use serde_json::{Map, Value};
use vela_api::mistyped;

use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;

/// An Application.
#[derive(Debug, Default)]
pub(crate) struct App<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, &'a str)>,
    pub(crate) annotations: Vec<(&'a str, &'a str)>,
    pub(crate) is_deleting: bool,
    pub(crate) components: Vec<Component<'a>>,
    pub(crate) policies: Vec<Policy<'a>>,
    pub(crate) workflow: Option<Workflow<'a>>,
}

/// `spec.components[]`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Component<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_: &'a str,
    pub(crate) properties: Option<&'a Value>,
    pub(crate) traits: Vec<Trait<'a>>,
    pub(crate) depends_on: Vec<&'a str>,
    pub(crate) inputs: Vec<Input<'a>>,
    pub(crate) outputs: Vec<&'a str>,
}

/// `traits[]`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trait<'a> {
    pub(crate) type_: &'a str,
    pub(crate) properties: Option<&'a Value>,
}

/// `spec.policies[]`.
#[derive(Debug, Default)]
pub(crate) struct Policy<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_: &'a str,
    pub(crate) properties: Option<&'a Value>,
}

/// `inputs[]`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Input<'a> {
    pub(crate) from: &'a str,
    pub(crate) parameter_key: &'a str,
}

/// `spec.workflow`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Workflow<'a> {
    pub(crate) reference: &'a str,
    pub(crate) steps: Vec<Step<'a>>,
}

/// `steps[]` and `subSteps[]`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_: &'a str,
    pub(crate) timeout: &'a str,
    pub(crate) condition: &'a str,
    pub(crate) properties: Option<&'a Value>,
    pub(crate) depends_on: Vec<&'a str>,
    pub(crate) inputs: Vec<Input<'a>>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) sub_steps: Vec<Self>,
}

impl App<'_> {
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

/// Reads an Application; what has the wrong type is reported and read as absent.
pub(crate) fn read(object: &Value) -> (App<'_>, Vec<Problem>) {
    let problem = |one: &mistyped::Mistyped<'_>| {
        let detail = messages::wrong_type(messages::wanted(one.wanted), one.found);
        Problem::new(Rule::Shape, Reason::Invalid, Field::of(&one.path), detail)
    };
    let problems = mistyped::application(object).iter().map(problem).collect();
    (Reader(object.as_object()).application(), problems)
}

/// Reads the steps of a stored Workflow.
pub(crate) fn read_steps(object: &Value) -> Vec<Step<'_>> {
    Reader(object.as_object()).list("steps", |step| step.step(true))
}

#[derive(Clone, Copy)]
struct Reader<'a>(Option<&'a Map<String, Value>>);

impl<'a> Reader<'a> {
    fn get(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn items(self, name: &str) -> impl Iterator<Item = &'a Value> {
        self.get(name).and_then(Value::as_array).into_iter().flatten()
    }

    fn texts(self, name: &str) -> Vec<&'a str> {
        self.items(name).filter_map(text_or_null).collect()
    }

    fn pairs(self, name: &str) -> Vec<(&'a str, &'a str)> {
        let map = self.get(name).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.as_str(), text_or_null(value)?))).collect()
    }

    fn object(self, name: &str) -> Option<Self> {
        self.get(name).and_then(Value::as_object).map(|map| Self(Some(map)))
    }

    fn list<T>(self, name: &str, read: impl Fn(Self) -> T) -> Vec<T> {
        let objects = self.items(name).filter(|item| item.is_object() || item.is_null());
        objects.map(|item| read(Self(item.as_object()))).collect()
    }

    fn application(self) -> App<'a> {
        let within = |name| self.object(name).unwrap_or(Self(None));
        let (metadata, spec) = (within("metadata"), within("spec"));
        App {
            name: metadata.text("name"),
            labels: metadata.pairs("labels"),
            annotations: metadata.pairs("annotations"),
            is_deleting: metadata.get("deletionTimestamp").is_some(),
            components: spec.list("components", Self::component),
            policies: spec.list("policies", |policy| Policy {
                name: policy.text("name"),
                type_: policy.text("type"),
                properties: policy.get("properties"),
            }),
            workflow: spec.object("workflow").map(|workflow| Workflow {
                reference: workflow.text("ref"),
                steps: workflow.list("steps", |step| step.step(true)),
            }),
        }
    }

    fn component(self) -> Component<'a> {
        Component {
            name: self.text("name"),
            type_: self.text("type"),
            properties: self.get("properties"),
            traits: self.list("traits", |one| Trait {
                type_: one.text("type"),
                properties: one.get("properties"),
            }),
            depends_on: self.texts("dependsOn"),
            inputs: self.inputs(),
            outputs: self.outputs(),
        }
    }

    fn step(self, with_sub_steps: bool) -> Step<'a> {
        let sub_steps =
            if with_sub_steps { self.list("subSteps", |sub| sub.step(false)) } else { Vec::new() };
        Step {
            condition: self.text("if"),
            name: self.text("name"),
            type_: self.text("type"),
            timeout: self.text("timeout"),
            properties: self.get("properties"),
            depends_on: self.texts("dependsOn"),
            inputs: self.inputs(),
            outputs: self.outputs(),
            sub_steps,
        }
    }

    fn inputs(self) -> Vec<Input<'a>> {
        self.list("inputs", |input| Input {
            from: input.text("from"),
            parameter_key: input.text("parameterKey"),
        })
    }

    fn outputs(self) -> Vec<&'a str> {
        self.list("outputs", |output| output.text("name"))
    }
}

fn text_or_null(value: &Value) -> Option<&str> {
    if value.is_null() { Some("") } else { value.as_str() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_wrong_type_is_reported_with_its_path() {
        let object = json!({
            "metadata": { "name": 5, "annotations": { "a": 1, "b": "x" }, "labels": null },
            "spec": {
                "components": [{ "name": "a", "type": 7, "traits": [null, "t"], "dependsOn": ["x", {}] }, 5],
                "policies": "p",
                "workflow": { "mode": "DAG", "steps": [{ "subSteps": [{ "name": [] }] }] },
            },
            "status": [],
        });
        let (app, problems) = read(&object);
        let reported: Vec<String> =
            problems.iter().map(|p| format!("{}: {}", p.field, p.detail)).collect();
        assert_eq!(
            reported,
            [
                "metadata.annotations[a]: must be a text, not the number 1",
                "metadata.name: must be a text, not the number 5",
                "spec.components[0].dependsOn[1]: must be a text, not an object",
                "spec.components[0].traits[1]: must be an object, not the text \"t\"",
                "spec.components[0].type: must be a text, not the number 7",
                "spec.components[1]: must be an object, not the number 5",
                "spec.policies: must be a list, not the text \"p\"",
                "spec.workflow.mode: must be an object, not the text \"DAG\"",
                "spec.workflow.steps[0].subSteps[0].name: must be a text, not a list",
                "status: must be an object, not a list",
            ]
        );
        assert_eq!(app.annotation("b"), Some("x"));
        assert_eq!(app.components.len(), 1);
        assert_eq!(app.components[0].traits.len(), 1);
    }
}
