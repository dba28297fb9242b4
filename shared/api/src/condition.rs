//! Conditions and their merge rule (`apis/core.oam.dev/condition`).

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vela_api_derive::Crd;

use crate::Time;
use crate::names::reason;
use crate::omit::{null_as_default, zero};

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type; unique within an object.
    #[serde(rename = "type")]
    #[api(required)]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[api(required)]
    pub status: String,
    /// When anything but this time last changed.
    #[api(required)]
    pub last_transition_time: Time,
    /// Reason for programs.
    #[serde(default, deserialize_with = "null_as_default")]
    #[api(required)]
    pub reason: String,
    /// Message for people.
    #[serde(default, skip_serializing_if = "zero")]
    pub message: String,
}

impl Condition {
    /// A condition that came true and is there to be used.
    #[must_use]
    pub fn available(type_: &str, now: Timestamp) -> Self {
        Self::new(type_, "True", reason::AVAILABLE, String::new(), now)
    }

    /// A condition that came true by a complete reconcile.
    #[must_use]
    pub fn reconcile_success(type_: &str, now: Timestamp) -> Self {
        Self::new(type_, "True", reason::RECONCILE_SUCCESS, String::new(), now)
    }

    /// A condition that came false by an error.
    #[must_use]
    pub fn reconcile_error(type_: &str, message: impl Into<String>, now: Timestamp) -> Self {
        Self::new(type_, "False", reason::RECONCILE_ERROR, message, now)
    }

    /// A condition that is false while something is going away.
    #[must_use]
    pub fn deleting(type_: &str, message: impl Into<String>, now: Timestamp) -> Self {
        Self::new(type_, "False", reason::DELETING, message, now)
    }

    /// Any condition. Times are stored with whole seconds.
    #[must_use]
    pub fn new(
        type_: &str,
        status: &str,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: seconds(now),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// Equal in everything but the time.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.reason == other.reason
            && self.message == other.message
    }

    /// Whether the status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// A time as Kubernetes stores it: whole seconds.
#[must_use]
pub fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// Sets conditions: at most one per type; one that says the same keeps its old time; a new type goes
/// to the end.
pub fn set(conditions: &mut Vec<Condition>, new: impl IntoIterator<Item = Condition>) {
    for condition in new {
        match conditions.iter_mut().find(|existing| existing.type_ == condition.type_) {
            Some(existing) if existing.same_as(&condition) => {}
            Some(existing) => *existing = condition,
            None => conditions.push(condition),
        }
    }
}

/// The condition of a type.
#[must_use]
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn merge_rule() {
        let mut conditions = Vec::new();
        set(&mut conditions, [Condition::available("Parsed", at(1))]);
        set(&mut conditions, [Condition::reconcile_error("Ready", "a", at(1))]);
        // The same again: nothing moves.
        set(&mut conditions, [Condition::available("Parsed", at(2))]);
        assert_eq!(conditions[0].last_transition_time.0, at(1));
        // Another message moves the time though the status stays.
        set(&mut conditions, [Condition::reconcile_error("Ready", "b", at(3))]);
        assert_eq!(conditions[1].last_transition_time.0, at(3));
        assert_eq!(conditions.len(), 2);
        assert_eq!(get(&conditions, "Ready").map(|c| c.message.as_str()), Some("b"));
        assert_eq!(get(&conditions, "Synced"), None);
    }

    #[test]
    fn times_have_whole_seconds() {
        let time = at(5).checked_add(std::time::Duration::from_millis(900)).expect("in range");
        let condition = serde_json::to_value(Condition::available("Ready", time)).expect("json");
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:05Z");
        assert!(condition.get("message").is_none());
    }
}
