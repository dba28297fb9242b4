//! The differences of an overlay: each written object, before and after.

use std::collections::BTreeMap;

use serde_json::Value;
use vela_apply::object::{kind, str_at};

use super::resource_path::ResourcePath;

/// Versions that no API server has reached: what was never written is newer than everything that was.
const FIRST_VERSION: u64 = 1 << 62;

/// An object that was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    /// As the API server has it.
    pub(crate) before: Option<Value>,
    /// As it would be.
    pub(crate) after: Option<Value>,
    /// A record of the control plane itself: never sent.
    pub(crate) is_record: bool,
    /// The API server could not check it: its namespace, or the absence of its predecessor, is planned too.
    pub(crate) unchecked: bool,
}

/// A write that the API server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Kind of the object.
    pub(crate) kind: String,
    /// What it says.
    pub(crate) message: String,
}

/// Everything that was written, and what was refused.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) objects: BTreeMap<ResourcePath, Written>,
    pub(crate) refused: BTreeMap<ResourcePath, Refusal>,
    versions: u64,
    removed: usize,
}

impl Records {
    /// A version for an object that was written now.
    pub(crate) fn next_version(&mut self) -> String {
        self.versions += 1;
        FIRST_VERSION.saturating_add(self.versions).to_string()
    }

    /// How many writes there were.
    pub(crate) fn writes(&self) -> usize {
        self.removed.saturating_add(usize::try_from(self.versions).unwrap_or(usize::MAX))
    }

    /// Takes in what an object would be. Returns it with its version.
    pub(crate) fn put(
        &mut self,
        place: &ResourcePath,
        before: Option<&Value>,
        mut after: Value,
        (is_record, unchecked): (bool, bool),
    ) -> Value {
        let version = self.next_version();
        if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        let known = self.written(place, before, is_record);
        known.unchecked |= unchecked;
        known.after = Some(after.clone());
        after
    }

    /// Takes in that an object would be gone.
    pub(crate) fn remove(&mut self, place: &ResourcePath, before: Option<&Value>, is_record: bool) {
        self.written(place, before, is_record).after = None;
        self.removed += 1;
    }

    /// What is known of an object whose write gets through; it begins as it was before the plan.
    fn written(
        &mut self,
        place: &ResourcePath,
        before: Option<&Value>,
        is_record: bool,
    ) -> &mut Written {
        self.refused.remove(place);
        self.objects.entry(place.clone()).or_insert_with(|| Written {
            before: before.cloned(),
            after: None,
            is_record,
            unchecked: false,
        })
    }

    /// Takes in a refusal, unless a later write of the object gets through.
    pub(crate) fn refuse(&mut self, place: &ResourcePath, object: &Value, message: &str) {
        let kind = match kind(object) {
            "" => place.plural.clone(),
            kind => kind.to_owned(),
        };
        self.refused.insert(place.clone(), Refusal { kind, message: message.to_owned() });
    }
}

/// Whether two states of an object say the same: what the API server counts aside.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    fn content(object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in ["resourceVersion", "generation", "managedFields"] {
                metadata.remove(key);
            }
        }
        object
    }
    content(a) == content(b)
}

/// Whether an object that is being deleted stays until its finalizers are gone.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| !all.is_empty())
}

/// The version that a write asks for; empty if it takes any.
pub(crate) fn asked_version(body: &Value) -> &str {
    str_at(body, &["metadata", "resourceVersion"])
}
