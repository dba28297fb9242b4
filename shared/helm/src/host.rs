//! What a render asks the world for. Everything else it works out itself, so that equal answers give an equal result.

use jiff::Timestamp;
use serde_json::Value;

use crate::keys::{Algorithm, KeyError, PrivateKey};

/// The world of one render.
pub trait Host {
    /// The time that templates see: one for the whole render.
    fn now(&mut self) -> Timestamp;

    /// Random bytes: of passwords, salts, serial numbers, identifiers.
    fn random(&mut self, bytes: &mut [u8]);

    /// Whether the render has taken longer than it may. It is asked every now and then.
    fn is_over(&mut self) -> bool {
        false
    }

    /// A private key.
    ///
    /// # Errors
    /// If none can be made.
    fn private_key(&mut self, algorithm: Algorithm) -> Result<PrivateKey, KeyError> {
        PrivateKey::generate(algorithm)
    }

    /// An object of the cluster, or with an empty name the list of all of a kind; `None` if there is no such object.
    /// Without a cluster there is none of anything.
    ///
    /// # Errors
    /// If the cluster refuses, or does not know the kind.
    fn lookup(&mut self, what: &Lookup<'_>) -> Result<Option<Value>, LookupError> {
        let _ = what;
        Ok(None)
    }
}

/// What the function `lookup` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup<'a> {
    /// Group and version, as in a manifest.
    pub api_version: &'a str,
    /// Kind, as in a manifest.
    pub kind: &'a str,
    /// The namespace; empty for objects without one, and for lists of all namespaces.
    pub namespace: &'a str,
    /// The name; empty for a list.
    pub name: &'a str,
}

/// A lookup that the cluster refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(pub String);
