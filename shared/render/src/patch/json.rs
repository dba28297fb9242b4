//! The JSON strategies: RFC 7396 and RFC 6902 on exported values.

use super::error::PatchError;
use crate::term::{Fields, Term};
use crate::{json, messages};
use cue::Value;
use serde_json::Value as Json;

/// RFC 7396: null removes, lists are replaced, structs are merged.
pub(super) fn merge(base: &Term, patch: &Term) -> Result<Term, PatchError> {
    let mut base = base.export().map_err(PatchError::Base)?;
    let patch = patch.export().map_err(PatchError::Patch)?;
    if !matches!(patch, Value::Struct(_) | Value::List(_)) {
        return Err(PatchError::Merge(messages::not_a_merge_patch()));
    }
    merge_value(&mut base, &patch);
    // By way of JSON, whose objects are in alphabetical order.
    Ok(reopened(&json::sorted(base)))
}

fn merge_value(base: &mut Value, patch: &Value) {
    let Value::Struct(patch) = patch else {
        *base = patch.clone();
        return;
    };
    if !matches!(base, Value::Struct(_)) {
        *base = Value::Struct(cue::Fields::default());
    }
    let Value::Struct(fields) = base else { return };
    for (label, value) in patch {
        if matches!(value, Value::Null) {
            fields.shift_remove(label);
            continue;
        }
        merge_value(fields.entry(label.clone()).or_insert(Value::Null), value);
    }
}

/// RFC 6902, with three habits of the library the reference uses: `replace` of a missing key adds
/// it, `add` at -1 appends, `remove` at -1 removes the last element.
pub(super) fn patch(base: &Term, patch: &Term) -> Result<Term, PatchError> {
    let base = base.export().map_err(PatchError::Base)?;
    let operations = match patch {
        Term::Struct(fields) => fields.get("operations").map(|f| &f.term),
        _ => None,
    }
    .ok_or_else(|| PatchError::Operations(messages::no_operations()))?;
    let operations = json::from_cue(&operations.export().map_err(PatchError::Patch)?);
    let Json::Array(operations) = operations else {
        return Err(PatchError::Operations(messages::operations_not_a_list()));
    };
    let mut document = json::from_cue(&base);
    for operation in &operations {
        apply(&mut document, operation)?;
    }
    Ok(reopened(&json::to_cue(&document)))
}

fn apply(document: &mut Json, operation: &Json) -> Result<(), PatchError> {
    let mut operation = operation.clone();
    let Some(fields) = operation.as_object_mut() else {
        return Err(PatchError::Operations(messages::operation_not_a_struct(&operation)));
    };
    let text = |name: &str, fields: &serde_json::Map<String, Json>| {
        fields.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
    };
    let (op, path) = (text("op", fields), text("path", fields));
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", ""));
    let target = document.pointer(parent);
    match (op.as_str(), target, last) {
        ("add", Some(Json::Array(_)), "-1") => {
            fields.insert("path".into(), format!("{parent}/-").into());
        }
        ("remove" | "replace" | "test", Some(Json::Array(items)), "-1") if !items.is_empty() => {
            fields.insert("path".into(), format!("{parent}/{}", items.len() - 1).into());
        }
        ("replace", Some(Json::Object(known)), key) if !known.contains_key(&unescape(key)) => {
            fields.insert("op".into(), "add".into());
        }
        ("add" | "replace" | "test", ..) if !fields.contains_key("value") => {
            fields.insert("value".into(), Json::Null);
        }
        _ => {}
    }
    let parsed: json_patch::PatchOperation = serde_json::from_value(operation.clone())
        .map_err(|e| PatchError::Operations(messages::bad_operation(&operation, &e)))?;
    json_patch::patch(document, &[parsed]).map_err(|e| PatchError::Apply(e.to_string()))
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// The result as a term whose fields' lists may grow again.
fn reopened(value: &Value) -> Term {
    let mut term = Term::from_value(value);
    term.open_lists();
    if let Term::List { .. } = term {
        return Term::Struct(Fields::default());
    }
    term
}
