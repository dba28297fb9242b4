//! Conflicts: the cached Application is outdated, so the newest one is read.

use std::time::Duration;

use vela_api::Application;
use vela_cluster::{ApiError, Identity, Key, Stored, Target};

use crate::application::context::AppContext;
use crate::queue::Next;

/// Somebody else changed the Application, and that is what counts: it is checked again with the change. A cache that is
/// behind is not waited for.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn requeue(ctx: &AppContext, app: &Application) -> Result<Next, ApiError> {
    // The cache has the newer one already.
    let is_known =
        || ctx.apps.get(&app.key()).is_some_and(|known| known.version() != app.version());
    if is_known() {
        return Ok(Next::After(Duration::ZERO));
    }
    reread(ctx, app.key()).await?;
    // What cannot be read as an Application is not in the cache: trying at once would be trying all the time.
    Ok(if is_known() { Next::After(Duration::ZERO) } else { Next::Failed })
}

/// Reads an Application again into the cache. Returns whether it is still there.
///
/// # Errors
/// The API server's answer.
pub(in crate::application) async fn reread(ctx: &AppContext, key: Key) -> Result<bool, ApiError> {
    let target = Target {
        api_version: vela_api::V1BETA1,
        kind: Application::KIND,
        namespace: &key.namespace,
        name: &key.name,
    };
    match ctx.io.get(&target, &Identity::default()).await {
        Ok(found) => {
            // What is stored may not be readable as an Application: the cache stays as it is then.
            if let Ok(found) = serde_json::from_value::<Application>(found) {
                ctx.keep(&found);
            }
            Ok(true)
        }
        // Gone, which is an answer.
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
