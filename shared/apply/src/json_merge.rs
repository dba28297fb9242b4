//! JSON merge patches (RFC 7386): diff, apply, and the three-way form used for kinds whose merge keys nobody knows.
//!
//! json-patch applies them; it has no diff of this kind, and nobody has the three-way form.

use serde_json::{Map, Value};

use crate::object::same;

/// The merge patch that turns `from` into `to`. Null values inside `to` cannot be expressed and are left out,
/// as RFC 7386 says. An empty object means nothing to do.
#[must_use]
pub fn diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for (key, value) in to {
        match from.get(key) {
            Some(old) if same(old, value) => {}
            Some(old @ Value::Object(_)) if value.is_object() => {
                let nested = diff(old, value);
                if !is_empty(&nested) {
                    patch.insert(key.clone(), nested);
                }
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Applies a merge patch.
pub fn apply(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

/// The three-way merge patch: what `modified` adds or changes against `current`, plus the removal of what `original`
/// (the last configuration we applied) had, `modified` no longer has and `current` still carries.
#[must_use]
pub fn three_way(original: &Value, modified: &Value, current: &Value) -> Value {
    let (Value::Object(modified), Value::Object(current)) = (modified, current) else {
        return modified.clone();
    };
    let empty = Map::new();
    let original = original.as_object().unwrap_or(&empty);
    let mut patch = Map::new();
    for (key, value) in modified {
        match current.get(key) {
            Some(live) if same(live, value) => {}
            Some(live @ Value::Object(_)) if value.is_object() => {
                let before = original.get(key).unwrap_or(&Value::Null);
                let nested = three_way(before, value, live);
                if !is_empty(&nested) {
                    patch.insert(key.clone(), nested);
                }
            }
            None if value.is_null() => {}
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in original.keys() {
        if !modified.contains_key(key) && current.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

/// Whether a patch changes nothing.
#[must_use]
pub fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn diff_then_apply_reaches_the_target() {
        let cases = [
            (json!({"a": 1}), json!({"a": 2, "b": {"c": [1, 2]}})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}})),
            (json!({"a": {"b": 1}}), json!({"a": [1]})),
            (json!({"a": "x"}), json!({"a": {"y": {"z": true}}})),
        ];
        for (from, to) in cases {
            let mut got = from.clone();
            apply(&mut got, &diff(&from, &to));
            assert_eq!(got, to, "from {from}");
        }
    }

    #[test]
    fn three_way_leaves_foreign_fields_and_removes_own() {
        let original = json!({"spec": {"a": 1, "gone": {"x": 1}}});
        let modified = json!({"spec": {"a": 2}});
        let current = json!({"spec": {"a": 1, "gone": {"x": 1}, "foreign": true}});
        assert_eq!(
            three_way(&original, &modified, &current),
            json!({"spec": {"a": 2, "gone": null}})
        );
    }

    #[test]
    fn three_way_is_silent_when_nothing_differs() {
        let modified = json!({"spec": {"a": 80, "n": null}});
        let current = json!({"spec": {"a": 80.0, "defaulted": 1}});
        assert!(is_empty(&three_way(&modified, &modified, &current)));
        // Something somebody else removed already is not removed again.
        let original = json!({"spec": {"old": 1}});
        assert!(is_empty(&three_way(&original, &json!({"spec": {}}), &current)));
    }
}
