//! As whom a WorkflowRun acts: as its author, like an Application.
//!
//! With authentication on, a run without a valid stamp does nothing at all: unlike an Application it has nothing that would have to be
//! kept as it is in the meantime.

use vela_api::{WorkflowRun, annotation_of};
use vela_cluster::{ApiError, Identity};
use vela_seal::Content as _;

use crate::application::context::AppContext;

use super::error::StartError;

/// Who acts for a run as it is stored, or why nobody may.
///
/// # Errors
/// The API server does not say whether the author is an administrator still.
pub(super) async fn author(
    ctx: &AppContext,
    run: &WorkflowRun,
) -> Result<Result<Identity, StartError>, ApiError> {
    let acting = &ctx.settings.acting;
    let annotation = |key: &str| annotation_of(&run.metadata, key);
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    if !acting.authenticate {
        return Ok(Ok(acting.identity(annotation, namespace, None, false)));
    }
    let Some(stamp) = ctx.keys.get().and_then(|keys| run.author(&keys)) else {
        let name = run.metadata.name.clone().unwrap_or_default();
        return Ok(Err(StartError::NotStamped { namespace: namespace.to_owned(), name }));
    };
    // The stamp says who was an administrator then; whether he is one still is asked now.
    let is_administrator = match &stamp.administrator {
        Some(evidence) => ctx.administrators.is_one(evidence).await?,
        None => false,
    };
    Ok(Ok(acting.identity(annotation, namespace, Some(&stamp), is_administrator)))
}
