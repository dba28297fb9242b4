//! A condition that warns: where its message is news, an event says the same.

use vela_api::{AppStatus, Condition, condition};

use crate::application::context::AppContext;
use crate::events::{About, Severity};

/// Sets the condition; the event is emitted only if the status has no condition with this message yet.
pub(super) fn set(ctx: &AppContext, about: &About, status: &mut AppStatus, warning: Condition) {
    let event = warning.message.clone();
    set_with_event(ctx, about, status, warning, &event);
}

/// The same, with an event that says more.
pub(super) fn set_with_event(
    ctx: &AppContext,
    about: &About,
    status: &mut AppStatus,
    warning: Condition,
    event: &str,
) {
    // The message decides: a condition that is renewed with the same words is no news.
    let is_reported =
        |known: &Condition| known.type_ == warning.type_ && known.message == warning.message;
    if !status.conditions.iter().any(is_reported) {
        ctx.events.emit(about, Severity::Warning, &warning.reason, event, "");
    }
    condition::set(&mut status.conditions, [warning]);
}
