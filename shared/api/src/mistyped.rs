//! Fields of an object with a type that its kind does not declare, so that the object cannot be decoded.
//!
//! Answers from the declarations alone: a field is checked because a type of this crate has it. Only types are compared. What is
//! missing, unknown or out of range is for schemas and rules; a null stands for no value, as for Go.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::DefinitionKind;
use crate::application::ApplicationSpec;
use crate::crd::Described;
use crate::definition::{
    ComponentDefinitionSpec, PolicyDefinitionSpec, TraitDefinitionSpec, WorkflowStepDefinitionSpec,
    WorkloadDefinitionSpec,
};

/// One step to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'v> {
    /// A declared field.
    Field(&'v str),
    /// A key of a map.
    Key(&'v str),
    /// An element of a list.
    Index(usize),
}

/// A value of another type than its place declares.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistyped<'v> {
    /// Where it is.
    pub path: Vec<Step<'v>>,
    /// What belongs there.
    pub wanted: Wanted,
    /// What is there.
    pub found: &'v Value,
}

/// A type of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A string.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction, of 32 or 64 bits.
    WholeNumber,
    /// A list of whatever.
    List,
    /// A list of strings.
    Texts,
    /// An object with fields.
    Object,
    /// A map of strings.
    Pairs,
}

/// What of an Application has another type. Of its status only what reviews read: an old one is not the author's fault.
#[must_use]
pub fn application(object: &Value) -> Vec<Mistyped<'_>> {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let latest = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let status = json!({"type": "object", "properties": {"latestRevision": latest}});
        object_schema::<ApplicationSpec>(&status)
    });
    of(&SCHEMA, object)
}

/// What of a definition has another type.
#[must_use]
pub fn definition(kind: DefinitionKind, object: &Value) -> Vec<Mistyped<'_>> {
    macro_rules! schema {
        ($spec:ty) => {{
            static SCHEMA: LazyLock<Value> =
        LazyLock::new(|| object_schema::<$spec>(&json!({"type": "object"})));
            &SCHEMA
        }};
    }
    let schema: &'static Value = match kind {
        DefinitionKind::Component => schema!(ComponentDefinitionSpec),
        DefinitionKind::Trait => schema!(TraitDefinitionSpec),
        DefinitionKind::Policy => schema!(PolicyDefinitionSpec),
        DefinitionKind::WorkflowStep => schema!(WorkflowStepDefinitionSpec),
        DefinitionKind::Workload => schema!(WorkloadDefinitionSpec),
    };
    of(schema, object)
}

fn object_schema<S: Described>(status: &Value) -> Value {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "name": {"type": "string"}, "labels": texts, "annotations": texts,
        }},
        "spec": S::schema().into_value(),
        "status": status,
    }})
}

fn of<'v>(schema: &'v Value, object: &'v Value) -> Vec<Mistyped<'v>> {
    let mut found = Vec::new();
    compare(schema, object, &mut Vec::new(), &mut found);
    found
}

/// As deep as the schema, which is made of types.
fn compare<'v>(
    schema: &'v Value,
    value: &'v Value,
    path: &mut Vec<Step<'v>>,
    found: &mut Vec<Mistyped<'v>>,
) {
    let Some(wanted) = wanted(schema).filter(|_| !value.is_null()) else { return };
    let fields = schema.get("properties").and_then(Value::as_object);
    let (entries, items) = (schema.get("additionalProperties"), schema.get("items"));
    let fits = match (wanted, value) {
        (Wanted::Text, value) => value.is_string(),
        (Wanted::Boolean, value) => value.is_boolean(),
        (Wanted::WholeNumber, value) => value.as_i64().is_some_and(|number| {
            schema.get("format").is_none_or(|format| format != "int32")
                || i32::try_from(number).is_ok()
        }),
        (Wanted::List | Wanted::Texts, Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                if let Some(items) = items {
                    within(Step::Index(index), items, value, path, found);
                }
            }
            true
        }
        (Wanted::Object | Wanted::Pairs, Value::Object(values)) => {
            for (key, value) in values {
                if let Some(field) = fields.and_then(|fields| fields.get(key)) {
                    within(Step::Field(key), field, value, path, found);
                } else if let Some(entries) = entries {
                    within(Step::Key(key), entries, value, path, found);
                }
            }
            true
        }
        _ => false,
    };
    if !fits {
        found.push(Mistyped { path: path.clone(), wanted, found: value });
    }
}

fn within<'v>(
    step: Step<'v>,
    schema: &'v Value,
    value: &'v Value,
    path: &mut Vec<Step<'v>>,
    found: &mut Vec<Mistyped<'v>>,
) {
    path.push(step);
    compare(schema, value, path, found);
    path.pop();
}

/// The type of a schema; `None`: it takes anything.
fn wanted(schema: &Value) -> Option<Wanted> {
    let is_text =
        |key: &str| schema.get(key).is_some_and(|inner| wanted(inner) == Some(Wanted::Text));
    Some(match schema.get("type")?.as_str()? {
        "string" => Wanted::Text,
        "boolean" => Wanted::Boolean,
        "integer" => Wanted::WholeNumber,
        "array" if is_text("items") => Wanted::Texts,
        "array" => Wanted::List,
        "object" if is_text("additionalProperties") => Wanted::Pairs,
        // parameters of definitions: they are compared with those
        "object" if schema.get("properties").is_none() && preserves(schema) => return None,
        "object" => Wanted::Object,
        _ => return None,
    })
}

fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(found: &[Mistyped<'_>]) -> Vec<String> {
        let step = |step: &Step<'_>| match step {
            Step::Field(name) => format!(".{name}"),
            Step::Key(key) => format!("[{key}]"),
            Step::Index(index) => format!("[{index}]"),
        };
        let line = |one: &Mistyped<'_>| {
            format!("{} {:?}", one.path.iter().map(step).collect::<String>(), one.wanted)
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn every_declared_field_is_compared() {
        let object = json!({
            "metadata": {"name": 5, "annotations": {"a": 1, "b": null}, "labels": []},
            "spec": {
                "components": [
                    {"type": 7, "properties": "any", "scopes": {"a": 1}, "outputs": [{"valueFrom": {}}]},
                    null,
                    5,
                ],
                "workflow": {"mode": {"steps": 1}, "steps": [{"if": true, "subSteps": [{"dependsOn": "x"}]}]},
                "unknown": 5,
            },
            "status": {"status": 5, "latestRevision": {"name": 5}},
        });
        assert_eq!(
            paths(&application(&object)),
            [
                ".metadata.annotations[a] Text",
                ".metadata.labels Pairs",
                ".metadata.name Text",
                ".spec.components[0].outputs[0].valueFrom Text",
                ".spec.components[0].scopes[a] Text",
                ".spec.components[0].type Text",
                ".spec.components[2] Object",
                ".spec.workflow.mode.steps Text",
                ".spec.workflow.steps[0].if Text",
                ".spec.workflow.steps[0].subSteps[0].dependsOn Texts",
                ".status.latestRevision.name Text",
            ]
        );
    }

    #[test]
    fn definitions_are_compared_by_their_kind() {
        let spec = |spec: Value| json!({"metadata": {"name": "d"}, "spec": spec, "status": {}});
        for (kind, given, expected) in [
            (DefinitionKind::Trait, json!({"podDisruptive": "x", "conflictsWith": [1]}), 2),
            (DefinitionKind::Trait, json!({"workload": 5, "extension": 5, "stage": null}), 0),
            (DefinitionKind::Component, json!({"workload": {"definition": {"kind": 5}}}), 1),
            (DefinitionKind::Policy, json!({"priority": 1_i64 << 40}), 1),
            (DefinitionKind::Policy, json!({"priority": -5, "global": true}), 0),
            (DefinitionKind::WorkflowStep, json!({"schematic": {"cue": {"template": {}}}}), 1),
            (DefinitionKind::Workload, json!({"definitionRef": {"name": []}}), 1),
        ] {
            let object = spec(given);
            let found = paths(&definition(kind, &object));
            assert_eq!(found.len(), expected, "{kind:?} {object}: {found:?}");
        }
    }
}
