//! Objects that are kept as compressed text: there are several for each Application, and each is checked rarely. A tree
//! of a few hundred values takes five to ten times the memory.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vela_api::compression;

use crate::store::{Key, Stored};

/// Why something is not packed, or cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PackError {
    /// It is no JSON, or of another form.
    #[error(transparent)]
    Json(#[from] Arc<serde_json::Error>),
    /// Its bytes are not what the compression writes.
    #[error(transparent)]
    Compression(#[from] Arc<compression::Error>),
}

impl From<serde_json::Error> for PackError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(Arc::new(error))
    }
}

impl From<compression::Error> for PackError {
    fn from(error: compression::Error) -> Self {
        Self::Compression(Arc::new(error))
    }
}

/// Texts below this size do not shrink enough to care.
const SMALL: usize = 512;

/// A value as JSON: as it is at first, since most of what comes is replaced soon, and compressed later.
#[derive(Clone, Debug)]
pub enum Text {
    /// As it is.
    Plain(Box<[u8]>),
    /// Compressed.
    Packed(Box<[u8]>),
}

impl Text {
    /// A value, as it is.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, PackError> {
        Ok(Self::Plain(serde_json::to_vec(value)?.into()))
    }

    /// The value.
    ///
    /// # Errors
    /// It is of another form.
    pub fn open<T: DeserializeOwned>(&self) -> Result<T, PackError> {
        match self {
            Self::Plain(text) => Ok(serde_json::from_slice(text)?),
            Self::Packed(packed) => unpack(packed),
        }
    }

    /// Bytes that it takes.
    pub(crate) const fn size(&self) -> usize {
        match self {
            Self::Plain(text) | Self::Packed(text) => text.len(),
        }
    }

    /// Bytes that could be compressed.
    #[must_use]
    pub const fn unpacked(&self) -> usize {
        match self {
            Self::Plain(text) if text.len() >= SMALL => text.len(),
            Self::Plain(_) | Self::Packed(_) => 0,
        }
    }

    /// The same compressed; `None`: it stays as it is.
    #[must_use]
    pub fn packed(&self) -> Option<Self> {
        match self {
            Self::Plain(text) if self.unpacked() > 0 => {
                Some(Self::Packed(compression::pack(text).ok()?.into()))
            }
            Self::Plain(_) | Self::Packed(_) => None,
        }
    }
}

/// One object: what it is found by in the open, the rest as text.
pub struct Packed<K> {
    key: Key,
    version: Box<str>,
    index: Option<Key>,
    text: Result<Text, PackError>,
    kind: PhantomData<fn() -> K>,
}

impl<K> std::fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packed").field("key", &self.key).field("version", &self.version).finish()
    }
}

impl<K: Stored + Serialize + DeserializeOwned> Packed<K> {
    /// Keeps an object, which the store compresses later.
    #[must_use]
    pub fn of(object: &K) -> Self {
        Self {
            key: object.key(),
            version: object.version().into(),
            index: object.index(),
            text: Text::of(object),
            kind: PhantomData,
        }
    }

    /// The object.
    ///
    /// # Errors
    /// It could not be written as JSON.
    pub fn open(&self) -> Result<K, PackError> {
        self.text.as_ref().map_err(PackError::clone)?.open()
    }
}

/// A value as compressed text.
///
/// # Errors
/// It could not be packed.
pub fn pack<T: Serialize>(value: &T) -> Result<Box<[u8]>, PackError> {
    Ok(compression::pack(&serde_json::to_vec(value)?)?.into())
}

/// The value of a compressed text.
///
/// # Errors
/// It could not be read.
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, PackError> {
    Ok(serde_json::from_slice(&compression::unpack(packed)?)?)
}

impl<K: 'static> Stored for Packed<K> {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn version(&self) -> &str {
        &self.version
    }
    fn index(&self) -> Option<Key> {
        self.index.clone()
    }
    fn unpacked(&self) -> usize {
        self.text.as_ref().map_or(0, Text::unpacked)
    }
    fn packed(&self) -> Option<Self> {
        let text = Ok(self.text.as_ref().ok()?.packed()?);
        let (key, version, index) = (self.key.clone(), self.version.clone(), self.index.clone());
        Some(Self { key, version, index, text, kind: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_api::ResourceTracker;

    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let tracker: ResourceTracker = serde_json::from_value(json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "ResourceTracker",
            "metadata": {"name": "a-v1-n", "resourceVersion": "7",
                "labels": {"app.oam.dev/name": "a", "app.oam.dev/namespace": "n"}},
            "spec": {"type": "versioned", "applicationGeneration": 1, "managedResources": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "raw": {"data": {"n": 1.50}}}]},
        }))
        .expect("a tracker");
        let packed = Packed::of(&tracker);
        assert_eq!(packed.open().expect("readable"), tracker);
        assert_eq!((packed.key(), packed.version()), (Key::new("", "a-v1-n"), "7"));
        assert_eq!(packed.index(), Some(Key::new("n", "a")));
    }
}
