//! A small vocabulary for structural schemas, as much of OpenAPI v3 as our kinds need.
//!
//! Written by hand instead of derived: the stored form of every object depends on details
//! (`nullable`, formats, defaults, what is preserved) that must equal the reference's CRDs exactly,
//! and a derived schema follows the Rust types instead.

use serde_json::{Map, Value, json};

/// A schema of one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schema(Map<String, Value>);

impl Schema {
    fn typed(type_: &str) -> Self {
        Self(Map::from_iter([("type".to_owned(), json!(type_))]))
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// The description shown by `kubectl explain`; an empty one is left out.
    pub(super) fn describe(self, text: &str) -> Self {
        if text.is_empty() { self } else { self.with("description", json!(text)) }
    }

    /// Properties that must be there.
    pub(super) fn required(self, names: &[&str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        self.with("required", json!(names))
    }

    /// Keeps unknown fields.
    pub(super) fn preserve(self) -> Self {
        self.with("x-kubernetes-preserve-unknown-fields", json!(true))
    }

    /// Is a whole Kubernetes object.
    pub(super) fn embedded_resource(self) -> Self {
        self.with("x-kubernetes-embedded-resource", json!(true))
    }

    /// Server-side apply treats the map as one value.
    pub(super) fn atomic(self) -> Self {
        self.with("x-kubernetes-map-type", json!("atomic"))
    }

    /// May be `null`.
    pub(super) fn nullable(self) -> Self {
        self.with("nullable", json!(true))
    }

    /// One of these texts.
    pub(super) fn one_of(self, values: &[&str]) -> Self {
        self.with("enum", json!(values))
    }

    /// What the API server fills in.
    pub(super) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value.into())
    }

    fn format(self, format: &str) -> Self {
        self.with("format", json!(format))
    }

    /// As JSON.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// A text.
pub(super) fn string() -> Schema {
    Schema::typed("string")
}

/// A time.
pub(super) fn date_time() -> Schema {
    string().format("date-time")
}

/// True or false.
pub(super) fn boolean() -> Schema {
    Schema::typed("boolean")
}

/// A whole number.
pub(super) fn integer() -> Schema {
    Schema::typed("integer")
}

/// A whole number of 32 bits.
pub(super) fn int32() -> Schema {
    integer().format("int32")
}

/// A whole number of 64 bits.
pub(super) fn int64() -> Schema {
    integer().format("int64")
}

/// An object of any shape, kept as it is.
pub(super) fn anything() -> Schema {
    Schema::typed("object").preserve()
}

/// An object about whose content nothing is said.
pub(super) fn opaque() -> Schema {
    Schema::typed("object")
}

/// A list.
pub(super) fn list(items: Schema) -> Schema {
    Schema::typed("array").with("items", items.into_value())
}

/// A map from text.
pub(super) fn map(values: Schema) -> Schema {
    Schema::typed("object").with("additionalProperties", values.into_value())
}

/// An object with these fields: name, description, schema.
pub(super) fn object<const N: usize>(fields: [(&str, &str, Schema); N]) -> Schema {
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|(name, description, schema)| {
            (name.to_owned(), schema.describe(description).into_value())
        })
        .collect();
    Schema::typed("object").with("properties", Value::Object(properties))
}

/// Adds fields to an object.
pub(super) fn extend<const N: usize>(base: Schema, fields: [(&str, &str, Schema); N]) -> Schema {
    let mut base = base;
    let more = object(fields);
    if let (Some(Value::Object(have)), Some(Value::Object(add))) =
        (base.0.get_mut("properties"), more.0.get("properties"))
    {
        have.extend(add.clone());
    }
    base
}
