//! Strategic merge patches for built-in kinds: the three-way form the controller sends, and a local application of the
//! same format, which the tests use as an oracle and the dry parts of the controller to predict a result.
//!
//! Answers for `k8s.io/apimachinery/pkg/util/strategicpatch` as kubevela's `pkg/utils/apply/patch.go` uses it
//! (three-way, overwriting). One difference on purpose: a list that repeats a merge key (a Service with one port for TCP and
//! UDP) is replaced as a whole instead of losing elements.
//!
//! Our own: no crate has strategic merge patches.

mod schema;

use serde_json::{Map, Value, json};

use crate::object::same;
pub use schema::{Type, type_of};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// The three-way strategic merge patch of an object of type `ty`; `{}` means nothing to do.
#[must_use]
pub fn three_way(original: &Value, modified: &Value, current: &Value, ty: Type) -> Value {
    let empty = Map::new();
    let (Some(modified), Some(current)) = (modified.as_object(), current.as_object()) else {
        return modified.clone();
    };
    let original = original.as_object().unwrap_or(&empty);
    Value::Object(maps(original, modified, current, ty))
}

fn maps(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
    ty: Type,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in modified {
        let field = ty.field(key);
        let nested_ty = field.map_or(Type::Plain, |field| field.ty);
        match (value, current.get(key)) {
            (Value::Null, None) => {}
            (_, None) => {
                patch.insert(key.clone(), value.clone());
            }
            (_, Some(live)) if same(live, value) => {}
            (Value::Object(new), Some(Value::Object(live))) => {
                let empty = Map::new();
                let before = original.get(key).and_then(Value::as_object).unwrap_or(&empty);
                let mut nested = maps(before, new, live, nested_ty);
                if field.is_some_and(|field| field.retain_keys) {
                    retain_keys(&mut nested, new, live);
                }
                if !nested.is_empty() {
                    let mut value = Value::Object(nested);
                    if field.is_some_and(|field| field.replaced) {
                        let mut whole = Value::Object(live.clone());
                        apply(&mut whole, &value, nested_ty);
                        value = whole;
                    }
                    patch.insert(key.clone(), value);
                }
            }
            (Value::Array(new), Some(Value::Array(live))) => {
                let before = original.get(key).and_then(Value::as_array).map_or(&[][..], |v| v);
                match field.and_then(|field| field.merge_key.map(|merge_key| (field, merge_key))) {
                    Some((_, "")) => scalar_lists(&mut patch, key, before, new, live),
                    Some((field, merge_key)) => {
                        let list = List { key, merge_key, field };
                        list.merge(&mut patch, before, new, live);
                    }
                    None => {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
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
    patch
}

/// `$retainKeys` makes the server drop the keys of a union that the new value does not have (an `emptyDir` that became
/// a `configMap`). Needed whenever the value changes and the live object has something the new value lacks.
fn retain_keys(
    patch: &mut Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) {
    let adds = modified.keys().any(|key| !current.contains_key(key));
    if patch.is_empty() && !adds {
        return;
    }
    let keys = modified.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| json!(key));
    patch.insert(RETAIN_KEYS.to_owned(), keys.collect());
}

fn contains(list: &[Value], value: &Value) -> bool {
    list.iter().any(|other| same(other, value))
}

fn scalar_lists(
    patch: &mut Map<String, Value>,
    key: &str,
    original: &[Value],
    modified: &[Value],
    current: &[Value],
) {
    let added: Vec<_> =
        modified.iter().filter(|value| !contains(current, value)).cloned().collect();
    let removed: Vec<_> = original
        .iter()
        .filter(|value| !contains(modified, value) && contains(current, value))
        .cloned()
        .collect();
    if added.is_empty() && removed.is_empty() {
        return;
    }
    if !added.is_empty() {
        patch.insert(key.to_owned(), Value::Array(added));
    }
    if !removed.is_empty() {
        patch.insert(format!("{DELETE_PRIMITIVES}{key}"), Value::Array(removed));
    }
    patch.insert(format!("{ORDER}{key}"), Value::Array(modified.to_vec()));
}

/// One list of objects that merges by key.
struct List<'a> {
    key: &'a str,
    merge_key: &'a str,
    field: &'a schema::Field,
}

impl List<'_> {
    fn merge(
        &self,
        patch: &mut Map<String, Value>,
        original: &[Value],
        modified: &[Value],
        current: &[Value],
    ) {
        if !self.has_unique_keys(modified) || !self.has_unique_keys(current) {
            let mut items = vec![json!({PATCH: "replace"})];
            items.extend(modified.iter().cloned());
            patch.insert(self.key.to_owned(), Value::Array(items));
            return;
        }
        let empty = Map::new();
        let mut items = Vec::new();
        for item in modified {
            let (Some(new), Some(id)) = (item.as_object(), item.get(self.merge_key)) else {
                continue;
            };
            let Some(live) = self.find(current, id).and_then(Value::as_object) else {
                items.push(item.clone());
                continue;
            };
            let before = self.find(original, id).and_then(Value::as_object).unwrap_or(&empty);
            let mut nested = maps(before, new, live, self.field.ty);
            if self.field.retain_keys && !nested.is_empty() {
                retain_keys(&mut nested, new, live);
            }
            if !nested.is_empty() {
                nested.insert(self.merge_key.to_owned(), id.clone());
                items.push(Value::Object(nested));
            }
        }
        for id in original.iter().filter_map(|item| item.get(self.merge_key)) {
            if self.find(modified, id).is_none() && self.find(current, id).is_some() {
                items.push(json!({PATCH: "delete", self.merge_key: id}));
            }
        }
        let order: Vec<_> =
            modified.iter().filter_map(|item| item.get(self.merge_key)).cloned().collect();
        let live_order: Vec<_> = current
            .iter()
            .filter_map(|item| item.get(self.merge_key))
            .filter(|id| contains(&order, id))
            .cloned()
            .collect();
        if items.is_empty() && live_order == order {
            return;
        }
        if !items.is_empty() {
            patch.insert(self.key.to_owned(), Value::Array(items));
        }
        let order = order.into_iter().map(|id| json!({self.merge_key: id})).collect();
        patch.insert(format!("{ORDER}{}", self.key), Value::Array(order));
    }

    fn has_unique_keys(&self, list: &[Value]) -> bool {
        list.iter().enumerate().all(|(index, item)| {
            item.get(self.merge_key).is_some_and(|id| {
                !list.iter().take(index).any(|o| o.get(self.merge_key).is_some_and(|o| same(o, id)))
            })
        })
    }

    fn find<'v>(&self, list: &'v [Value], id: &Value) -> Option<&'v Value> {
        list.iter().find(|item| item.get(self.merge_key).is_some_and(|other| same(other, id)))
    }
}

/// Applies a strategic merge patch to an object of type `ty`, as the API server does.
pub fn apply(target: &mut Value, patch: &Value, ty: Type) {
    let (Some(map), Some(patch)) = (target.as_object_mut(), patch.as_object()) else {
        *target = patch.clone();
        return;
    };
    apply_map(map, patch, ty);
}

fn apply_map(map: &mut Map<String, Value>, patch: &Map<String, Value>, ty: Type) {
    if patch.get(PATCH).and_then(Value::as_str) == Some("replace") {
        map.clear();
    }
    if let Some(keys) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        map.retain(|key, _| keys.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES)
            && let (Some(list), Some(gone)) =
                (map.get_mut(field).and_then(Value::as_array_mut), value.as_array())
        {
            list.retain(|item| !contains(gone, item));
        }
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        let field = ty.field(key);
        let nested_ty = field.map_or(Type::Plain, |field| field.ty);
        let merge_key = field.and_then(|field| field.merge_key);
        match (value, map.get_mut(key), merge_key) {
            (Value::Null, ..) => {
                map.remove(key);
            }
            (Value::Object(_), Some(live @ Value::Object(_)), _)
                if !field.is_some_and(|field| field.replaced) =>
            {
                apply(live, value, nested_ty);
            }
            (Value::Array(items), Some(Value::Array(live)), Some("")) => {
                for item in items {
                    if !contains(live, item) {
                        live.push(item.clone());
                    }
                }
            }
            (Value::Array(items), Some(Value::Array(live)), Some(merge_key)) => {
                apply_list(live, items, merge_key, nested_ty);
            }
            _ => {
                map.insert(key.clone(), clean(value.clone()));
            }
        }
    }
    for (key, order) in patch {
        let Some(field) = key.strip_prefix(ORDER) else { continue };
        let merge_key = ty.field(field).and_then(|field| field.merge_key).unwrap_or_default();
        if let (Some(list), Some(order)) =
            (map.get_mut(field).and_then(Value::as_array_mut), order.as_array())
        {
            reorder(list, order, merge_key);
        }
    }
}

fn apply_list(live: &mut Vec<Value>, items: &[Value], merge_key: &str, ty: Type) {
    let replaces = |item: &Value| item.get(PATCH).and_then(Value::as_str) == Some("replace");
    if items.iter().any(replaces) {
        *live = items.iter().filter(|item| !replaces(item)).cloned().map(clean).collect();
        return;
    }
    for item in items {
        let Some(id) = item.get(merge_key) else { continue };
        let at = live.iter().position(|l| l.get(merge_key).is_some_and(|l| same(l, id)));
        let deletes = item.get(PATCH).and_then(Value::as_str) == Some("delete");
        match (at.and_then(|at| live.get_mut(at)), deletes) {
            (Some(_), true) => live.retain(|l| !l.get(merge_key).is_some_and(|l| same(l, id))),
            (None, true) => {}
            (Some(found), false) => apply(found, item, ty),
            (None, false) => live.push(clean(item.clone())),
        }
    }
}

/// Directives inside a value that is added as a whole do not reach the object.
fn clean(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !key.starts_with('$'));
    }
    value
}

/// The elements named in `order` come in that order; the others keep their place behind the one they followed.
fn reorder(list: &mut Vec<Value>, order: &[Value], merge_key: &str) {
    let id = |item: &Value| match merge_key {
        "" => Some(item.clone()),
        key => item.get(key).cloned(),
    };
    let wanted: Vec<Value> = order.iter().filter_map(id).collect();
    let rank = |item: &Value| id(item).and_then(|i| wanted.iter().position(|w| same(w, &i)));
    let mut sorted: Vec<Value> = list.iter().filter(|item| rank(item).is_some()).cloned().collect();
    sorted.sort_by_key(|item| rank(item));
    let mut sorted = sorted.into_iter();
    let mut out = Vec::with_capacity(list.len());
    for item in list.drain(..) {
        if rank(&item).is_some() {
            out.extend(sorted.next());
        } else {
            out.push(item);
        }
    }
    *list = out;
}

#[cfg(test)]
mod tests;
