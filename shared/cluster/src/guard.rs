//! Objects that may be unreadable: one bad object must not stop a watch.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tracing::warn;

/// An object, or why it cannot be read.
///
/// kube's own guard copies every object through a generic tree; this one keeps the text until it is
/// known to fit, which costs nothing when it does.
#[derive(Clone, Debug)]
pub(crate) struct Guard<K> {
    object: Result<K, String>,
    /// Of an unreadable object; empty otherwise.
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: OnlyNames,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OnlyNames {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guard<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self { object: Ok(object), metadata: ObjectMeta::default() }),
            Err(error) => {
                let OnlyMetadata { metadata } =
                    serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                let metadata = ObjectMeta {
                    name: metadata.name,
                    namespace: metadata.namespace,
                    resource_version: metadata.resource_version,
                    ..ObjectMeta::default()
                };
                Ok(Self { object: Err(error.to_string()), metadata })
            }
        }
    }
}

/// Typed or not, the kind is given as a value: one watch serves both.
impl<K: Resource> Resource for Guard<K> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        self.object.as_ref().map_or(&self.metadata, K::meta)
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.object {
            Ok(object) => object.meta_mut(),
            Err(_) => &mut self.metadata,
        }
    }
}

impl<K: Resource> Guard<K> {
    /// The object, or `None` and a warning.
    pub(crate) fn open(self, resource: &str) -> Option<K> {
        match self.object {
            Ok(object) => Some(object),
            Err(error) => {
                warn!(
                    %resource,
                    namespace = self.metadata.namespace.as_deref().unwrap_or_default(),
                    name = self.metadata.name.as_deref().unwrap_or_default(),
                    error,
                    "an object cannot be read and is ignored"
                );
                None
            }
        }
    }
}
