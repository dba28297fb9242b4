//! Updates the ConfigMap with the schema: some seconds after the last change of a definition, if the text differs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use vela_api::names;
use vela_cluster::{ApiError, Identity, Target};

use super::Known;
use crate::context::Context;
use crate::evaluation::NotEvaluated;
use crate::registry;

/// Definitions come in numbers: an addon brings dozens. This long after the last of them the schema is made.
const QUIET: Duration = Duration::from_secs(5);
/// Where they never stop coming, it is made at least as often as this.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// After a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Why the ConfigMap is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Request(#[from] ApiError),
    #[error(transparent)]
    NotEvaluated(#[from] NotEvaluated),
    #[error("the schema of all types is larger than a ConfigMap")]
    TooLarge,
}

/// Keeps the ConfigMap until stopped.
pub(crate) async fn keep(ctx: Arc<Context>, stop: CancellationToken) {
    let work = async {
        loop {
            ctx.definition_changes.notified().await;
            // From the first change on, or a definition that is written every few seconds would put
            // it off for ever.
            let latest = Instant::now() + MAX_WAIT;
            loop {
                let until = (Instant::now() + QUIET).min(latest);
                let again = timeout_at(until, ctx.definition_changes.notified()).await;
                if again.is_err() || until == latest {
                    break;
                }
            }
            if let Err(error) = write(&ctx).await {
                warn!(%error, "the schema for editors could not be updated");
                // Only another change of definitions makes it smaller.
                if !matches!(error, Failure::TooLarge) {
                    tokio::time::sleep(RETRY).await;
                    ctx.definition_changes.notify_one();
                }
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}

/// Writes the ConfigMap if its text differs.
async fn write(ctx: &Context) -> Result<(), Failure> {
    let namespace = &ctx.settings.system_namespace;
    // What tenants define is theirs: the ConfigMap may be readable for everybody.
    let (found, is_complete) = super::types(&ctx.definitions, |at| at == namespace);
    let mut known = Known::default();
    let mut types = Vec::with_capacity(found.len());
    for one in &found {
        let parameters = match known.get(one) {
            Some(parameters) => parameters.clone(),
            None => {
                let definition = Arc::clone(&one.definition);
                // Each definition has the budget of a reconcile.
                let job = ctx.cue.run(move |scope| scope.renderer.editor_parameters(&definition));
                let parameters = job.await?;
                known.put(one, parameters.clone());
                parameters
            }
        };
        types.push(one.with(parameters));
    }
    let text = super::text(&types, is_complete).ok_or(Failure::TooLarge)?;
    let io = ctx.connections.of(registry::COMPONENT);
    let own = Identity::default();
    let target =
        Target { api_version: "v1", kind: "ConfigMap", namespace, name: names::EDITOR_SCHEMA };
    let data = json!({ names::EDITOR_SCHEMA_KEY: text });
    match io.get(&target, &own).await {
        Ok(present) if super::stored(&present) == Some(&*text) => {}
        Ok(mut present) => {
            if let Some(present) = present.as_object_mut() {
                // Labels and annotations that somebody added stay.
                present.insert("data".to_owned(), data);
            }
            io.replace(&present, "", false, &own).await?;
        }
        Err(error) if error.is_not_found() => {
            let object = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": names::EDITOR_SCHEMA, "namespace": namespace},
                "data": data,
            });
            io.create(&object, false, &own).await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
