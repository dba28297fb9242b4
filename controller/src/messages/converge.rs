//! Drift and its repair.

use std::time::Duration;

/// State-keep failed for an object.
#[must_use]
pub(crate) fn reapply_failed(object: &str, tracker: &str, error: &str) -> String {
    format!("failed to re-apply resource {object} from resourcetracker {tracker}: {error}")
}

/// An apply-once rule cannot be followed for an object: the live one has no such field.
#[must_use]
pub(crate) fn apply_once_failed(object: &str, tracker: &str, path: &str) -> String {
    format!(
        "failed to apply once resource {object} from resourcetracker {tracker}: {path}: no such field"
    )
}

/// An object that a step deleted is there again and cannot be deleted.
#[must_use]
pub(crate) fn delete_outdated_failed(object: &str, tracker: &str, error: &str) -> String {
    format!("failed to delete outdated resource {object} in resourcetracker {tracker}: {error}")
}

/// Drift was repaired.
#[must_use]
pub(crate) fn drift_repaired(object: &str, manager: &str, fields: &str) -> String {
    let repaired = if manager.is_empty() {
        format!("{object} differed from the application and was repaired")
    } else {
        format!("{object} was changed by {manager} and repaired")
    };
    with_fields(&repaired, fields)
}

fn with_fields(text: &str, fields: &str) -> String {
    if fields.is_empty() { text.to_owned() } else { format!("{text}: {fields}") }
}

/// An object that somebody else changes again and again.
#[must_use]
pub(crate) fn drift_contention(object: &str, managers: &[String], fields: &[String]) -> String {
    let by = match managers {
        [] => "somebody".to_owned(),
        managers => managers.join(", "),
    };
    match fields {
        [] => format!("{object} is changed or deleted by {by}"),
        fields => format!("{object} is changed by {by} ({})", fields.join(", ")),
    }
}

/// Two writers of the same fields.
#[must_use]
pub(crate) fn drift_contentions(fights: &str, longest: Duration) -> String {
    format!(
        "changed repeatedly and repaired with a growing delay of up to {}s: {fights}. Leave these fields to the other \
         writer (policy apply-once), or stop that writer",
        longest.as_secs()
    )
}

/// An object that somebody else changed and that is left so.
#[must_use]
pub(crate) fn drift_left(object: &str, manager: &str, is_deleted: bool, fields: &str) -> String {
    let left = match manager {
        _ if is_deleted => format!("{object} was deleted and is not recreated"),
        "" => format!("{object} differs from the application and is left as it is"),
        manager => format!("{object} was changed by {manager} and is left as it is"),
    };
    with_fields(&left, fields)
}

/// A list that was cut.
#[must_use]
pub(crate) fn and_more(list: &str, more: usize) -> String {
    if more == 0 { list.to_owned() } else { format!("{list}; and {more} more") }
}

/// An object that was deleted by somebody was created again.
#[must_use]
pub(crate) fn recreated(object: &str) -> String {
    format!("{object} was deleted and recreated")
}
