//! What an Application's status says of its readiness, for people and for programs that know no Application (kstatus: Argo CD, Flux,
//! Helm, `kubectl wait`). `Ready` is always there, with a reason and one line that says why; `Reconciling` and `Stalled` are there
//! while they are true, and say the same.
//!
//! Pure: a [`Readiness`] is what one reconcile found; it becomes conditions once, at the end of the reconcile, so that what stays
//! the same keeps its time and causes no write.

use jiff::Timestamp;
use vela_api::names::{condition as types, reason};
use vela_api::status::{self, ComponentStatus};
use vela_api::workflow::{WorkflowStatus, WorkflowStepStatus};
use vela_api::{AppStatus, Condition, condition};
use vela_workflow::{Phase, Reason, WorkflowPhase};

use crate::messages;

/// Characters of a line that says why.
const LONG: usize = 300;

/// How ready an Application is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Status of `Ready`.
    ready: &'static str,
    reason: &'static str,
    message: String,
    /// The condition that accompanies it.
    companion: Option<&'static str>,
}

impl Readiness {
    /// What the phase of its workflow says; `None` if that has succeeded, which alone says nothing.
    #[must_use]
    pub fn of_workflow(phase: WorkflowPhase, run: Option<&WorkflowStatus>) -> Option<Self> {
        let (ready, reason, companion, telling): (_, _, _, &[Phase]) = match phase {
            WorkflowPhase::Succeeded => return None,
            WorkflowPhase::Initializing | WorkflowPhase::Executing => {
                let telling = &[Phase::Failed, Phase::Running, Phase::Pending];
                ("Unknown", reason::PROGRESSING, types::RECONCILING, telling)
            }
            WorkflowPhase::Suspending => (
                "Unknown",
                reason::SUSPENDED,
                types::RECONCILING,
                &[Phase::Suspending, Phase::Failed],
            ),
            WorkflowPhase::Terminated => {
                ("False", reason::TERMINATED, types::STALLED, &[Phase::Failed])
            }
            WorkflowPhase::Failed => ("False", reason::FAILED, types::STALLED, &[Phase::Failed]),
        };
        let message = why(run, telling);
        Some(Self { ready, reason, message, companion: Some(companion) })
    }

    /// The newest spec is deployed. `why` it is not healthy; empty if it is.
    #[must_use]
    pub fn deployed(why: &str) -> Self {
        let message = line(why);
        Self { ready: "True", reason: reason::RECONCILE_SUCCESS, message, companion: None }
    }

    /// The newest spec is deployed and is not healthy, where that counts.
    #[must_use]
    pub fn unhealthy(why: &str) -> Self {
        let message = line(why);
        Self { ready: "False", reason: reason::UNHEALTHY, message, companion: None }
    }

    /// A reconcile failed; whether another one cannot go better, without an edit.
    #[must_use]
    pub fn error(message: &str, is_final: bool) -> Self {
        let companion = if is_final { types::STALLED } else { types::RECONCILING };
        let (reason, message) = (reason::RECONCILE_ERROR, message.to_owned());
        Self { ready: "False", reason, message, companion: Some(companion) }
    }

    /// What does not belong to it any more is being deleted.
    #[must_use]
    pub fn collecting(message: &str) -> Self {
        let (reason, companion) = (reason::DELETING, Some(types::RECONCILING));
        Self { ready: "False", reason, message: message.to_owned(), companion }
    }

    /// Processes of the controller died over it.
    #[must_use]
    pub fn set_aside(message: &str) -> Self {
        let (reason, companion) = (reason::SET_ASIDE, Some(types::STALLED));
        Self { ready: "False", reason, message: message.to_owned(), companion }
    }

    /// Puts it into a status.
    pub fn put(self, status: &mut AppStatus, now: Timestamp) {
        // kstatus takes a condition that is absent for one that is not true, and any that is there
        // for news.
        let gone = |type_: &str| {
            [types::RECONCILING, types::STALLED].contains(&type_) && self.companion != Some(type_)
        };
        status.conditions.retain(|condition| !gone(&condition.type_));
        let ready = Condition::new(types::READY, self.ready, self.reason, &*self.message, now);
        let companion = self
            .companion
            .map(|type_| Condition::new(type_, "True", self.reason, &*self.message, now));
        condition::set(&mut status.conditions, [ready].into_iter().chain(companion));
    }
}

/// The conditions that say how ready it is, without their words.
pub fn forget_words(conditions: &mut [Condition]) {
    let ours = [types::READY, types::RECONCILING, types::STALLED];
    for condition in conditions.iter_mut().filter(|c| ours.contains(&c.type_.as_str())) {
        // Two statuses that differ in these words alone are the same outcome.
        condition.message.clear();
        condition.last_transition_time = condition::seconds(Timestamp::UNIX_EPOCH);
    }
}

/// What components that are not healthy say; the first of them that says something.
#[must_use]
pub fn of_components(services: &[ComponentStatus]) -> String {
    let is_healthy =
        |service: &&ComponentStatus| status::is_healthy(std::slice::from_ref(*service));
    let unhealthy = services.iter().filter(|service| !is_healthy(service));
    let mut said = unhealthy.map(|service| {
        let mut traits = service.traits.iter().filter(|one| !one.healthy && !one.pending);
        let message = match service.message.as_str() {
            "" => traits.find(|one| !one.message.is_empty()).map_or("", |one| &*one.message),
            message => message,
        };
        (service.name.as_str(), message)
    });
    let first = said.next();
    // A component without a message explains nothing; the first one is named only if none explains
    // more.
    let found = first.filter(|(_, message)| !message.is_empty());
    let found = found.or_else(|| said.find(|(_, message)| !message.is_empty())).or(first);
    found.map(|(name, message)| messages::component_unhealthy(name, message)).unwrap_or_default()
}

/// What a run says of the first step in one of these phases, the phases in their order; a step with a message comes before one without.
fn why(run: Option<&WorkflowStatus>, phases: &[Phase]) -> String {
    let Some(run) = run else { return String::new() };
    let mut steps: Vec<&WorkflowStepStatus> = Vec::new();
    for step in &run.steps {
        // What holds up a group is one of its steps.
        steps.extend(&step.sub_steps);
        steps.push(step);
    }
    let telling = |has_message: bool| {
        phases.iter().find_map(|phase| {
            steps
                .iter()
                .find(|step| step.phase == phase.as_str() && step.message.is_empty() != has_message)
        })
    };
    // A step may end the workflow and succeed itself.
    let ends = |step: &&&WorkflowStepStatus| {
        step.reason == Reason::Terminate.as_str() && !step.message.is_empty()
    };
    let ending = || steps.iter().find(ends);
    let step = telling(true).or_else(ending).or_else(|| telling(false));
    let text = match step {
        Some(step) => messages::step_state(&step.name, &step.phase, &step.message),
        None if run.message.is_empty() => messages::workflow_state(&run.phase),
        None => run.message.clone(),
    };
    line(&text)
}

/// One line of bounded length.
fn line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Counted in characters: a cut within one would not be text any more.
    if let Some((end, _)) = words.char_indices().nth(LONG) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests;
