//! Which type each field of a definition must have for the definition to be read at all.

use serde_json::Value;

use crate::messages;
use vela_api::DefinitionKind;

/// What must be of which type to be read at all.
pub(super) fn mistyped(kind: DefinitionKind, object: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let mut want = |pointer: &str, what: &str, fits: fn(&Value) -> bool| {
        if let Some(value) = object.pointer(pointer)
            && !value.is_null()
            && !fits(value)
        {
            let path = pointer.trim_start_matches('/').replace('/', ".");
            out.push(format!("{path}: {}", messages::wrong_type(what, value)));
        }
    };
    for pointer in [
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec",
        "/spec/schematic",
        "/spec/schematic/cue",
        "/spec/schematic/terraform",
        "/spec/status",
        "/spec/definitionRef",
        "/status",
    ] {
        want(pointer, "an object", Value::is_object);
    }
    for pointer in [
        "/metadata/name",
        "/spec/version",
        "/spec/schematic/cue/template",
        "/spec/status/customStatus",
        "/spec/status/healthPolicy",
        "/spec/status/details",
        "/spec/definitionRef/name",
        "/spec/definitionRef/version",
        "/spec/podSpecPath",
        "/spec/revisionLabel",
    ] {
        want(pointer, "a text", Value::is_string);
    }
    match kind {
        DefinitionKind::Component => {
            want("/spec/workload", "an object", Value::is_object);
            want("/spec/workload/type", "a text", Value::is_string);
            want("/spec/workload/definition", "an object", Value::is_object);
            want("/spec/workload/definition/apiVersion", "a text", Value::is_string);
            want("/spec/workload/definition/kind", "a text", Value::is_string);
            want("/spec/childResourceKinds", "a list", Value::is_array);
        }
        DefinitionKind::Trait => {
            for pointer in ["/spec/appliesToWorkloads", "/spec/conflictsWith"] {
                want(pointer, "a list of texts", is_texts);
            }
            for pointer in [
                "/spec/podDisruptive",
                "/spec/revisionEnabled",
                "/spec/manageWorkload",
                "/spec/controlPlaneOnly",
            ] {
                want(pointer, "a boolean", Value::is_boolean);
            }
            want("/spec/stage", "a text", Value::is_string);
            want("/spec/workloadRefPath", "a text", Value::is_string);
        }
        DefinitionKind::Policy => {
            want("/spec/manageHealthCheck", "a boolean", Value::is_boolean);
            want("/spec/global", "a boolean", Value::is_boolean);
            want("/spec/scope", "a text", Value::is_string);
            want("/spec/priority", "a whole number", |value| {
                value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
            });
        }
        DefinitionKind::WorkflowStep | DefinitionKind::Workload => {}
    }
    for pointer in ["/metadata/labels", "/metadata/annotations"] {
        for (key, value) in object.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
        {
            if !value.is_string() && !value.is_null() {
                let path = pointer.trim_start_matches('/').replace('/', ".");
                out.push(format!("{path}[{key}]: {}", messages::wrong_type("a text", value)));
            }
        }
    }
    out
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(|i| i.is_string() || i.is_null()))
}
