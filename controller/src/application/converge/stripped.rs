//! What somebody takes out of the trackers of a settled Application, of the control plane's own cluster: `vela cluster detach local`
//! does so before it refuses the name. It is recorded again, without its content until the next run, as long as the live object
//! is this Application's.

use serde_json::{Value, json};
use vela_api::Application;
use vela_api::names::event;
use vela_apply::object::is_local;
use vela_cluster::{ApiError, Live};

use crate::application::memory::Recorded;
use crate::application::session::Session;
use crate::application::settled;
use crate::events::Severity;
use crate::messages;

/// Records again what the last complete reconcile left recorded, and nothing records now.
///
/// # Errors
/// The live objects could not be read, or the tracker not be written: it is tried again.
pub(super) async fn record_again(
    session: &mut Session<'_>,
    app: &Application,
) -> Result<(), ApiError> {
    let memory = session.memory();
    let before = {
        let mut memory = memory.lock();
        let is_unchanged = memory.settled.is_some_and(|settled| settled::is_of(&settled, app));
        // Taken, so that what this and later reconciles collect is not taken for a loss.
        memory.recorded.take().filter(|_| is_unchanged)
    };
    let Some(before) = before else { return Ok(()) };
    let done = record_lost(session, &before).await;
    if done.is_err() {
        memory.lock().recorded = Some(before);
    }
    done
}

async fn record_lost(session: &mut Session<'_>, before: &Recorded) -> Result<(), ApiError> {
    let lost = before.objects.iter().filter(|(_, key)| is_local(&key.cluster));
    let mut objects = Vec::new();
    for (api_version, key) in lost.filter(|(_, key)| !session.trackers.record_any(key)) {
        let live = session.reach(&key.cluster)?.live.get(api_version, key).await?;
        let ours = |live: &Live| !live.deleting && live.owner.as_ref() == Some(&session.owner);
        objects.extend(live.filter(|live| ours(live)).map(|live| described(&live)));
    }
    if objects.is_empty() {
        return Ok(());
    }
    session.record_live(&objects).await?;
    let text = messages::recorded_again(objects.len());
    session.ctx.events.emit(&session.about, Severity::Warning, event::RECORDED_AGAIN, &text, "");
    Ok(())
}

/// What a record says of an object, and rules about its collection ask for.
fn described(live: &Live) -> Value {
    let mut object = live.value();
    let mut part = |key: &str| object.get_mut(key).map(Value::take).unwrap_or_default();
    json!({"apiVersion": part("apiVersion"), "kind": part("kind"), "metadata": part("metadata")})
}
