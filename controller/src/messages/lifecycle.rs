//! Failures, rollbacks, plans and notifications.

use vela_api::names;

/// Reasons why the last spec is not put back.
pub(crate) const ROLLBACK_PINNED: &str =
    "the last spec is not put back: app.oam.dev/publishVersion decides what is deployed";
pub(crate) const ROLLBACK_FAILED_TOO: &str =
    "the spec that was put back fails too; no older one is tried";
pub(crate) const ROLLED_BACK_BEFORE: &str =
    "the last spec is not put back: it was once already for this one";
pub(crate) const NOTHING_SUCCEEDED: &str =
    "the last spec is not put back: no other one is known to have succeeded";

/// A spec that another author wrote.
#[must_use]
pub(crate) fn rollback_of_another(revision: &str) -> String {
    format!(
        "the last spec is not put back: {revision} is the work of another author, and would run under the rights of the present one"
    )
}

/// A spec that is kept in Git.
#[must_use]
pub(crate) fn rollback_against_git(manager: &str) -> String {
    format!(
        "the last spec is not put back: {manager} writes it from Git and would undo that; the workflow waits instead. Revert the commit"
    )
}

/// Nobody knows who writes the spec.
#[must_use]
pub(crate) fn rollback_unknown(error: &str) -> String {
    format!("the last spec is not put back: who writes it could not be read: {error}")
}

/// A spec that the API server does not take back.
#[must_use]
pub(crate) fn rollback_refused(revision: &str, error: &str) -> String {
    format!("the spec of {revision} was refused: {error}")
}

/// A failed rollout whose former spec is back.
#[must_use]
pub(crate) fn spec_rolled_back(failed: &str, to: &str, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    format!("{failed} failed{why}; the spec of {to} is back")
}

/// What the run of an Application that is paused would write. A condition has no field for the generation it is about, so the
/// message is where it is kept, and this type both writes and reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned<'a> {
    /// Generation whose run was planned.
    pub(crate) generation: i64,
    /// The last line of the plan, or why there is none.
    pub(crate) summary: &'a str,
}

impl<'a> Planned<'a> {
    /// Reads the message of a condition; `None`: it says something else.
    pub(crate) fn read(message: &'a str) -> Option<Self> {
        let (generation, summary) = message.strip_prefix("generation ")?.split_once(": ")?;
        Some(Self { generation: generation.parse().ok()?, summary })
    }
}

impl std::fmt::Display for Planned<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "generation {}: {}", self.generation, self.summary)
    }
}

/// A ConfigMap that a plan cannot have.
pub(crate) fn plan_name_taken(name: &str) -> String {
    format!("ConfigMap {name} belongs to somebody else; rename it to see the plan")
}

/// A notification, in one line. `state` is a reason of the condition `Notified`.
pub(crate) fn notification(state: &str, app: &str, why: &str) -> String {
    let state = match state {
        names::reason::ROLLOUT_FAILED => "rollout failed",
        names::reason::WAITS_FOR_PERSON => "waits for a person",
        names::reason::TURNED_UNHEALTHY => "is not healthy",
        names::reason::RECOVERED => "is healthy again",
        other => other,
    };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("Application {app} {state}{why}")
}

/// A notification that did not arrive.
pub(crate) fn notification_lost(state: &str, config: &str, why: &str) -> String {
    format!("the notification {state} to {config} is lost: {why}")
}

/// A server that does not take a notification.
pub(crate) fn notification_refused(status: u16) -> String {
    format!("the server answers {status}")
}

/// A Config for notifications that says nothing about where to.
pub(crate) const NOTIFY_WITHOUT_URL: &str = "the Config has no property url";

/// The same, with something else as address.
pub(crate) const NOTIFY_BAD_URL: &str = "the property url of the Config is no URL";

/// A bound of the process.
pub(crate) const TOO_MANY_NOTIFICATIONS: &str = "too many notifications are on their way";

/// A step of a workflow as one line: what it says, or how it is.
#[must_use]
pub(crate) fn step_state(step: &str, phase: &str, message: &str) -> String {
    format!("step {step}: {}", if message.is_empty() { phase } else { message })
}

/// A workflow none of whose steps says why it is as it is.
#[must_use]
pub(crate) fn workflow_state(phase: &str) -> String {
    if phase.is_empty() { String::new() } else { format!("the workflow is {phase}") }
}

/// A component that is not healthy, with what it says.
#[must_use]
pub(crate) fn component_unhealthy(component: &str, message: &str) -> String {
    let message = if message.is_empty() { "not healthy" } else { message };
    format!("component {component}: {message}")
}

/// What a component's status says, and why.
#[must_use]
pub(crate) fn with_cause(message: &str, cause: &str) -> String {
    if message.is_empty() || message.contains(cause) {
        cause.to_owned()
    } else {
        format!("{message} ({cause})")
    }
}
