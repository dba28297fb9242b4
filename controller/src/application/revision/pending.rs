//! A new ApplicationRevision between the decision for it and its storage. Data only.

use vela_api::ApplicationRevision;
use vela_seal::Stamp;

/// A new revision that is not stored yet.
#[derive(Debug)]
pub struct PendingRevision {
    /// Its name.
    pub name: String,
    /// The hash of its content.
    pub hash: String,
    pub(in crate::application) object: ApplicationRevision,
    /// The author of the Application; nobody in particular if he is not known.
    pub(in crate::application) author: Stamp,
}
