//! Failures, rollbacks, plans and notifications.

use vela_api::names;

/// Reasons why the last spec is not put back.
pub(crate) const ROLLBACK_PINNED: &str =
    "not rolled back: app.oam.dev/publishVersion pins the deployed content";
pub(crate) const ROLLBACK_FAILED_TOO: &str = "the restored spec failed too; no older one is tried";
pub(crate) const ROLLED_BACK_BEFORE: &str =
    "not rolled back: this spec was already rolled back once";
pub(crate) const NOTHING_SUCCEEDED: &str =
    "not rolled back: no other spec is known to have succeeded";

/// A spec that another author wrote.
#[must_use]
pub(crate) fn rollback_of_another(revision: &str) -> String {
    format!(
        "not rolled back: another author wrote {revision}, and it would run with the rights of the current author"
    )
}

/// A spec that is kept in Git.
#[must_use]
pub(crate) fn rollback_against_git(manager: &str) -> String {
    format!(
        "not rolled back: {manager} writes the spec from Git and would revert the rollback; the workflow waits instead. Revert the commit"
    )
}

/// Nobody knows who writes the spec.
#[must_use]
pub(crate) fn rollback_unknown(error: &str) -> String {
    format!("not rolled back: the writer of the spec could not be determined: {error}")
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
    format!("{failed} failed{why}; the spec of {to} is restored")
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
    format!("the notification {state} to {config} was lost: {why}")
}

/// A server that does not take a notification.
pub(crate) fn notification_refused(status: u16) -> String {
    format!("the server answers {status}")
}

/// A Config for notifications that says nothing about where to.
pub(crate) const NOTIFY_WITHOUT_URL: &str = "the Config has no property url";

/// The same, with something else as address.
pub(crate) const NOTIFY_BAD_URL: &str = "the property url of the Config is not a URL";

/// A bound of the process.
pub(crate) const TOO_MANY_NOTIFICATIONS: &str = "too many notifications are in flight";

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
