//! The order in which caches are filled. Applications and definitions come first; edits are served from then on, each with what is
//! recorded of its Application read from the API server. Everything else waits until revisions and trackers are listed: of
//! thousands of Applications that takes many times as long.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;
use vela_serve::health::Condition;

use crate::application::context::AppContext;
use crate::watches;

/// Starts the watches. Returns when Applications and definitions are known; `false`: the process ends before.
pub(super) async fn fill(
    context: &Arc<AppContext>,
    client: &kube::Client,
    (tasks, end): (&TaskTracker, &CancellationToken),
    readiness: Condition,
    stop: &CancellationToken,
) -> bool {
    watches::start(&context.shared, client, tasks, end);
    if context.workflow_runs.is_some() {
        watches::start_runs(context, client, tasks, end);
    }
    tokio::select! {
        () = watches::known(context) => {}
        () = stop.cancelled() => return false,
    }
    watches::start_records(&context.shared, client, tasks, end);
    let (context, end) = (Arc::clone(context), end.clone());
    tasks.spawn(async move {
        if !filled(&context, &end).await {
            return;
        }
        readiness.pass();
        info!(
            applications = context.apps.len(),
            definitions = context.definitions.components.len(),
            "caches are filled"
        );
    });
    true
}

/// Waits until every cache is filled. `false`: it ends before.
pub(super) async fn filled(context: &AppContext, ending: &CancellationToken) -> bool {
    let filled = async {
        watches::synced(context).await;
        if context.workflow_runs.is_some() {
            context.runs.store.synced().await;
        }
    };
    tokio::select! {
        () = filled => true,
        () = ending.cancelled() => false,
    }
}
