//! Records that are sent although they have the label of another bucket, because this replica keeps that bucket, too: it corrects the
//! label, and need not work on the Application for that. As soon as it keeps less, such a record would be out of sight.

use kube::api::ObjectMeta;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, MutexGuard};
use vela_api::names::label;
use vela_api::{ApplicationRevision, ResourceTracker};
use vela_cluster::{ApiError, Key, ObjectClient, Whose};

use super::bucket_label;
use crate::application::facts;

/// Records that wait. One that finds no room waits for its next version, or for the next list.
const ROOM: usize = 1_000;

/// A record with a wrong label.
#[derive(Debug)]
pub(crate) struct Wrong {
    whose: Whose,
    /// Name, namespace and version.
    metadata: ObjectMeta,
    app: Key,
}

/// Those that were seen.
#[derive(Debug)]
pub(crate) struct WrongLabels {
    seen: Sender<Wrong>,
    waiting: Mutex<Receiver<Wrong>>,
}

impl Default for WrongLabels {
    fn default() -> Self {
        let (seen, waiting) = mpsc::channel(ROOM);
        Self { seen, waiting: Mutex::new(waiting) }
    }
}

impl WrongLabels {
    /// Notes a record that was sent, if its label is that of another bucket. One without a label is labelled by its owner.
    pub(crate) fn check(&self, metadata: &ObjectMeta, whose: Whose) {
        if facts::label(metadata, label::BUCKET).is_empty() {
            return;
        }
        let Some(app) = whose.of(metadata).filter(|app| !bucket_label::is_right(metadata, app))
        else {
            return;
        };
        let metadata = ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            resource_version: metadata.resource_version.clone(),
            ..ObjectMeta::default()
        };
        let _ = self.seen.try_send(Wrong { whose, metadata, app });
    }

    /// What waits.
    pub(crate) async fn waiting(&self) -> MutexGuard<'_, Receiver<Wrong>> {
        self.waiting.lock().await
    }
}

impl Wrong {
    /// Gives the version that was seen the right label.
    ///
    /// # Errors
    /// The API server's answer. That there is another version is no error: that was sent, too.
    pub(crate) async fn correct(&self, io: &ObjectClient) -> Result<(), ApiError> {
        let written = bucket_label::write(io, self.kind(), &self.metadata, &self.app).await;
        match written {
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
            written => written.map(drop),
        }
    }

    /// What it is of which Application, for messages.
    pub(crate) fn about(&self) -> (String, &Key) {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        (format!("{} {name}", self.kind()), &self.app)
    }

    const fn kind(&self) -> &'static str {
        match self.whose {
            Whose::ClusterScoped => ResourceTracker::KIND,
            _ => ApplicationRevision::KIND,
        }
    }
}
