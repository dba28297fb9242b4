//! An Application as rules read it: borrowed from the JSON, lenient where Go is lenient (`null` is
//! absent, unknown fields are kept), and strict about types, with every mistake's path.

use serde_json::{Map, Value};

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
    pub(crate) latest_revision: &'a str,
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
    let mut problems = Vec::new();
    let root = Reader { field: Field::default(), map: object.as_object(), problems: &mut problems };
    let app = root.application();
    (app, problems)
}

/// Reads the steps of a stored Workflow.
pub(crate) fn read_steps(object: &Value) -> Vec<Step<'_>> {
    let mut problems = Vec::new();
    let mut root =
        Reader { field: Field::default(), map: object.as_object(), problems: &mut problems };
    root.list("steps", |mut step| step.step(true))
}

struct Reader<'a, 'p> {
    field: Field,
    map: Option<&'a Map<String, Value>>,
    problems: &'p mut Vec<Problem>,
}

impl<'a> Reader<'a, '_> {
    fn at(&self, name: &str) -> Field {
        if self.field == Field::default() { Field::new(name) } else { self.field.at(name) }
    }

    fn wrong(&mut self, field: Field, want: &str, got: &Value) {
        self.problems.push(Problem::new(
            Rule::Shape,
            Reason::Invalid,
            field,
            messages::wrong_type(want, got),
        ));
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> &'a str {
        match self.get(name) {
            None => "",
            Some(Value::String(text)) => text,
            Some(other) => {
                self.wrong(self.at(name), "a text", other);
                ""
            }
        }
    }

    fn texts(&mut self, name: &str) -> Vec<&'a str> {
        let mut out = Vec::new();
        match self.get(name) {
            None => {}
            Some(Value::Array(items)) => {
                for (n, item) in items.iter().enumerate() {
                    match item {
                        Value::String(text) => out.push(text.as_str()),
                        Value::Null => out.push(""),
                        other => self.wrong(self.at(name).index(n), "a text", other),
                    }
                }
            }
            Some(other) => self.wrong(self.at(name), "a list of texts", other),
        }
        out
    }

    fn pairs(&mut self, name: &str) -> Vec<(&'a str, &'a str)> {
        let mut out = Vec::new();
        match self.get(name) {
            None => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    match value {
                        Value::String(text) => out.push((key.as_str(), text.as_str())),
                        Value::Null => out.push((key.as_str(), "")),
                        other => self.wrong(self.at(name).key(key), "a text", other),
                    }
                }
            }
            Some(other) => self.wrong(self.at(name), "an object of texts", other),
        }
        out
    }

    fn object<T>(&mut self, name: &str, read: impl FnOnce(Reader<'a, '_>) -> T) -> Option<T> {
        match self.get(name) {
            None => None,
            Some(Value::Object(map)) => {
                Some(read(Reader { field: self.at(name), map: Some(map), problems: self.problems }))
            }
            Some(other) => {
                self.wrong(self.at(name), "an object", other);
                None
            }
        }
    }

    fn list<T>(&mut self, name: &str, mut read: impl FnMut(Reader<'a, '_>) -> T) -> Vec<T> {
        let field = self.at(name);
        match self.get(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let mut out = Vec::with_capacity(items.len());
                for (n, item) in items.iter().enumerate() {
                    if !item.is_object() && !item.is_null() {
                        self.wrong(field.index(n), "an object", item);
                        continue;
                    }
                    out.push(read(Reader {
                        field: field.index(n),
                        map: item.as_object(),
                        problems: self.problems,
                    }));
                }
                out
            }
            Some(other) => {
                self.wrong(field, "a list", other);
                Vec::new()
            }
        }
    }

    fn application(mut self) -> App<'a> {
        let mut app = App::default();
        self.object("metadata", |mut meta| {
            app.name = meta.text("name");
            app.labels = meta.pairs("labels");
            app.annotations = meta.pairs("annotations");
            app.is_deleting = meta.get("deletionTimestamp").is_some();
        });
        self.object("spec", |mut spec| {
            app.components = spec.list("components", |mut c| c.component());
            app.policies = spec.list("policies", |mut policy| Policy {
                name: policy.text("name"),
                type_: policy.text("type"),
                properties: policy.get("properties"),
            });
            app.workflow = spec.object("workflow", |mut workflow| {
                workflow.object("mode", |mut mode| {
                    mode.text("steps");
                    mode.text("subSteps");
                });
                Workflow {
                    reference: workflow.text("ref"),
                    steps: workflow.list("steps", |mut step| step.step(true)),
                }
            });
        });
        self.object("status", |mut status| {
            status.object("latestRevision", |mut latest| {
                app.latest_revision = latest.text("name");
            });
        });
        app
    }

    fn component(&mut self) -> Component<'a> {
        self.pairs("scopes");
        self.text("externalRevision");
        self.text("replicaKey");
        Component {
            name: self.text("name"),
            type_: self.text("type"),
            properties: self.get("properties"),
            traits: self.list("traits", |mut one| Trait {
                type_: one.text("type"),
                properties: one.get("properties"),
            }),
            depends_on: self.texts("dependsOn"),
            inputs: self.inputs(),
            outputs: self.outputs(),
        }
    }

    fn step(&mut self, with_sub_steps: bool) -> Step<'a> {
        self.object("meta", |mut meta| {
            meta.text("alias");
        });
        self.text("mode");
        Step {
            condition: self.text("if"),
            name: self.text("name"),
            type_: self.text("type"),
            timeout: self.text("timeout"),
            properties: self.get("properties"),
            depends_on: self.texts("dependsOn"),
            inputs: self.inputs(),
            outputs: self.outputs(),
            sub_steps: if with_sub_steps {
                self.list("subSteps", |mut sub| sub.step(false))
            } else {
                Vec::new()
            },
        }
    }

    fn inputs(&mut self) -> Vec<Input<'a>> {
        self.list("inputs", |mut input| Input {
            from: input.text("from"),
            parameter_key: input.text("parameterKey"),
        })
    }

    fn outputs(&mut self) -> Vec<&'a str> {
        self.list("outputs", |mut output| {
            output.text("valueFrom");
            output.text("name")
        })
    }
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
                "metadata.name: must be a text, not the number 5",
                "metadata.annotations[a]: must be a text, not the number 1",
                "spec.components[0].type: must be a text, not the number 7",
                "spec.components[0].traits[1]: must be an object, not the text \"t\"",
                "spec.components[0].dependsOn[1]: must be a text, not an object",
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
