//! A small vocabulary for structural schemas, as much of OpenAPI v3 as our kinds need, and what the plain types are in it.
//!
//! Our own and not schemars or kube's derive: the stored form of every object depends on details (`nullable`, formats, defaults,
//! what is preserved, which field is required although Rust has a default for it) that must equal the reference's CRDs exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{ObjectMeta, RawExtension, Time};

/// A schema of one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema(Map<String, Value>);

impl Schema {
    fn typed(type_: &str) -> Self {
        Self(Map::from_iter([("type".to_owned(), json!(type_))]))
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// The description shown by `kubectl explain`; an empty one is left out.
    pub(crate) fn describe(self, text: &str) -> Self {
        if text.is_empty() { self } else { self.with("description", json!(text)) }
    }

    /// An object without fields.
    pub(crate) fn object() -> Self {
        Self::typed("object").with("properties", json!({}))
    }

    /// Adds a field, or replaces it.
    pub(crate) fn field(
        mut self,
        name: &str,
        description: &str,
        is_required: bool,
        schema: Self,
    ) -> Self {
        if let Some(Value::Object(fields)) = self.0.get_mut("properties") {
            fields.insert(name.to_owned(), schema.describe(description).into_value());
        }
        if is_required
            && let Value::Array(required) = self.0.entry("required").or_insert_with(|| json!([]))
        {
            let at = required.iter().position(|known| known.as_str() >= Some(name));
            let at = at.unwrap_or(required.len());
            if required.get(at).and_then(Value::as_str) != Some(name) {
                required.insert(at, json!(name));
            }
        }
        self
    }

    /// Changes a field, whose description and whether it is required stay.
    pub(crate) fn change(mut self, name: &str, change: impl FnOnce(Self) -> Self) -> Self {
        if let Some(Value::Object(fields)) = self.0.get_mut("properties")
            && let Some(Value::Object(field)) = fields.remove(name)
        {
            fields.insert(name.to_owned(), change(Self(field)).into_value());
        }
        self
    }

    /// Keeps unknown fields.
    pub(crate) fn preserve(self) -> Self {
        self.with("x-kubernetes-preserve-unknown-fields", json!(true))
    }

    /// Is a whole Kubernetes object.
    pub(crate) fn embedded_resource(self) -> Self {
        self.with("x-kubernetes-embedded-resource", json!(true))
    }

    /// Server-side apply treats the map as one value.
    pub(crate) fn atomic(self) -> Self {
        self.with("x-kubernetes-map-type", json!("atomic"))
    }

    /// May be `null`.
    pub(crate) fn nullable(self) -> Self {
        self.with("nullable", json!(true))
    }

    /// One of these texts.
    pub(crate) fn one_of(self, values: &[&str]) -> Self {
        self.with("enum", json!(values))
    }

    /// What the API server fills in.
    pub(crate) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value.into())
    }

    fn format(self, format: &str) -> Self {
        self.with("format", json!(format))
    }

    /// As JSON.
    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// A text.
pub(crate) fn string() -> Schema {
    Schema::typed("string")
}

/// A time.
pub(crate) fn date_time() -> Schema {
    string().format("date-time")
}

/// True or false.
pub(crate) fn boolean() -> Schema {
    Schema::typed("boolean")
}

/// A whole number.
pub(crate) fn integer() -> Schema {
    Schema::typed("integer")
}

/// An object of any shape, kept as it is.
pub(crate) fn anything() -> Schema {
    Schema::typed("object").preserve()
}

/// An object about whose content nothing is said.
pub(crate) fn opaque() -> Schema {
    Schema::typed("object")
}

/// A list.
pub(crate) fn list(items: Schema) -> Schema {
    Schema::typed("array").with("items", items.into_value())
}

/// A map from text.
pub(crate) fn map(values: Schema) -> Schema {
    Schema::typed("object").with("additionalProperties", values.into_value())
}

/// A type with a schema. Derived for the types of the kinds: `vela_api_derive::Crd`.
pub(crate) trait Described {
    /// What a value is; empty for plain types.
    const DOC: &'static str = "";

    /// The schema of a value.
    fn schema() -> Schema;
}

impl Described for String {
    fn schema() -> Schema {
        string()
    }
}

impl Described for bool {
    fn schema() -> Schema {
        boolean()
    }
}

impl Described for i32 {
    fn schema() -> Schema {
        integer().format("int32")
    }
}

impl Described for i64 {
    fn schema() -> Schema {
        integer().format("int64")
    }
}

impl Described for Time {
    fn schema() -> Schema {
        date_time()
    }
}

impl Described for RawExtension {
    fn schema() -> Schema {
        anything()
    }
}

impl<T: Described> Described for Option<T> {
    fn schema() -> Schema {
        T::schema()
    }
}

impl<T: Described> Described for Arc<T> {
    fn schema() -> Schema {
        T::schema()
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Schema {
        list(T::schema())
    }
}

impl<T: Described> Described for BTreeMap<String, T> {
    fn schema() -> Schema {
        map(T::schema())
    }
}

/// Of an object inside another one, only the identifying part of its metadata is kept.
impl Described for ObjectMeta {
    fn schema() -> Schema {
        Schema::object()
            .field("annotations", "", false, map(string()))
            .field("finalizers", "", false, list(string()))
            .field("labels", "", false, map(string()))
            .field("name", "", false, string())
            .field("namespace", "", false, string())
    }
}
