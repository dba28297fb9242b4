//! The input of the rules about definitions.

use serde_json::{Map, Value};

use crate::world::World;
use vela_api::DefinitionKind;

/// What the rules of a kind read.
pub(crate) struct Subject<'a> {
    pub(crate) kind: DefinitionKind,
    pub(crate) name: &'a str,
    pub(crate) object: &'a Value,
    pub(crate) spec: &'a Value,
    pub(crate) namespace: &'a str,
    pub(crate) world: &'a World<'a>,
}

impl Subject<'_> {
    /// A text of the spec, empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The CUE template, if the definition has one.
    pub(crate) fn template(&self) -> Option<&str> {
        self.spec.pointer("/schematic/cue")?.get("template").and_then(Value::as_str)
    }
}

pub(super) fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations").and_then(Value::as_object)
}
