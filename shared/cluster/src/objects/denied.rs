//! Kinds that may be listed in single namespaces only, by a credential that is no administrator's: each namespace with objects is
//! watched by itself. What is left is read object by object.

use std::sync::Arc;

use super::{LiveObjects, Watched};
use crate::error::Error;

/// Namespaces of one kind that are watched; objects of the others are read.
pub(super) const NAMESPACES: usize = 20;

impl Watched {
    /// It may not be listed.
    pub(super) fn denied(self) -> Self {
        Self { denied: true, ..self }
    }
}

impl LiveObjects {
    /// The objects of a kind in one namespace, of a kind that may not be listed in all of them; `None`: they are not watched.
    pub(super) async fn of_namespace(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Option<Arc<Watched>>, Error> {
        if namespace.is_empty() {
            return Ok(None);
        }
        if let Some(watched) = self.watched(api_version, kind, namespace) {
            return Ok(Some(watched));
        }
        let is_of_kind = |(version, name, namespace): &&(String, String, String)| {
            version == api_version && name == kind && !namespace.is_empty()
        };
        let has_room = self.kinds.lock().keys().filter(is_of_kind).count() < NAMESPACES;
        if !has_room || self.io.is_cluster_scoped(api_version, kind).await {
            return Ok(None);
        }
        self.start(api_version, kind, namespace).await.map(Some)
    }

    /// Where an object of a kind is seen, if it is.
    pub(super) fn where_seen(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Option<Arc<Watched>> {
        let watched = self.watched(api_version, kind, "")?;
        if watched.denied && !namespace.is_empty() {
            return self.watched(api_version, kind, namespace).or(Some(watched));
        }
        Some(watched)
    }
}
