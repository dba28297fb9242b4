//! Free-form JSON inside typed objects: `runtime.RawExtension` of the Go types.
//!
//! Kept as text, in the canonical form the API server answers with (sorted keys, Go's numbers and
//! escapes): it is compared and hashed as bytes by the reference, and text costs a fifth of the
//! memory of a tree in caches that hold thousands of manifests.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON text in canonical form. Cheap to clone; equal when the bytes are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawExtension(Arc<str>);

impl RawExtension {
    /// The canonical text of a value.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        // A tree always has a text; serde_json's own form is only the type system's fallback.
        let text = vela_gocompat::json::to_string(value).unwrap_or_else(|_| value.to_string());
        Self(text.into())
    }

    /// `{}`
    #[must_use]
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value. The text is valid by construction, so this never is `null` for want of parsing.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    /// Reads the text into a type; unknown fields are the type's business.
    ///
    /// # Errors
    /// The text has another shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<Value> for RawExtension {
    fn from(value: Value) -> Self {
        Self::new(&value)
    }
}

impl fmt::Debug for RawExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RawExtension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawExtension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::new(&value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_canonical() {
        let raw: RawExtension =
            serde_json::from_str(r#"{ "b": 1.0, "a": "<x>", "c": 1e21, "d": [1e20, null] }"#)
                .expect("valid");
        assert_eq!(
            raw.as_str(),
            r#"{"a":"\u003cx\u003e","b":1,"c":1e+21,"d":[100000000000000000000,null]}"#
        );
        assert_eq!(raw.to_value()["a"], json!("<x>"));
    }

    #[test]
    fn survives_text_and_tree() {
        let raw = RawExtension::new(&json!({"z": [1, {"y": "&"}], "a": null}));
        let text = serde_json::to_string(&raw).expect("text");
        assert_eq!(text, raw.as_str());
        let tree = serde_json::to_value(&raw).expect("tree");
        assert_eq!(tree, raw.to_value());
        assert_eq!(serde_json::from_value::<RawExtension>(tree).expect("back"), raw);
    }
}
