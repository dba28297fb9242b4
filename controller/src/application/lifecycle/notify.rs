//! Who asked to be notified of an Application (`app.oam.dev/notify`): one message for each time it fails, waits for a person, is
//! unhealthy for a while, or recovers.
//!
//! The status says about what somebody was notified last (condition `Notified`), in the write that says what happened, and the
//! message leaves after that write. So a process that dies in between loses a message, and none sends one twice.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use vela_api::names::{annotation, condition as types, event, phase, reason};
use vela_api::workflow::WorkflowStep;
use vela_api::{AppStatus, Application, Condition, condition};
use vela_cluster::Target;
use vela_workflow::{Phase, config};

use crate::application::facts;
use crate::application::memory::AppCache;
use crate::application::session::Session;
use crate::egress::notify::Message;
use crate::events::Severity;
use crate::messages;

/// How long an Application is unhealthy before somebody hears of it.
const UNHEALTHY: Duration = Duration::from_secs(60);
/// Characters of the line that says why.
const MAX_WHY: usize = 1000;

/// Something to notify of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::application) struct Notice {
    /// A reason of the condition `Notified`.
    state: &'static str,
    /// What happened to what, so that the same is not said twice.
    what: String,
    why: String,
}

/// What there is to notify of, and in how long there may be more. The status says so from then on.
pub(in crate::application) fn decide(
    app: &Application,
    status: &mut AppStatus,
    memory: &mut AppCache,
    now: Timestamp,
) -> (Option<Notice>, Option<Duration>) {
    // Nobody asks to be notified any more, and a later request starts afresh.
    if facts::annotation(&app.metadata, annotation::NOTIFY).is_empty() {
        status.conditions.retain(|condition| condition.type_ != types::NOTIFIED);
        return (None, None);
    }
    if status.phase != phase::UNHEALTHY {
        memory.unhealthy_since = None;
    }
    let last = condition::get(&status.conditions, types::NOTIFIED);
    let last_state = last.map(|last| last.reason.as_str()).unwrap_or_default();
    let notice = match status.phase.as_str() {
        // A failure within a run that goes on may still turn out well.
        phase::WORKFLOW_FAILED if status.workflow.as_ref().is_some_and(|run| run.finished) => {
            notice(reason::ROLLOUT_FAILED, run(status), status)
        }
        phase::WORKFLOW_SUSPENDING => match waits_for_a_person(app, status) {
            Some(step) => {
                notice(reason::WAITS_FOR_PERSON, format!("{}, step {step}", run(status)), status)
            }
            None => return (None, None),
        },
        phase::UNHEALTHY => {
            let since = *memory.unhealthy_since.get_or_insert_with(Instant::now);
            let left = UNHEALTHY.saturating_sub(since.elapsed());
            // It was said already, and holds on.
            if last_state == reason::TURNED_UNHEALTHY {
                return (None, None);
            }
            if !left.is_zero() {
                return (None, Some(left));
            }
            notice(reason::TURNED_UNHEALTHY, revision(status), status)
        }
        phase::RUNNING
            if [reason::ROLLOUT_FAILED, reason::TURNED_UNHEALTHY].contains(&last_state) =>
        {
            notice(reason::RECOVERED, revision(status), status)
        }
        _ => return (None, None),
    };
    // The state and what it is about decide, not the wording of the cause.
    if last.is_some_and(|last| last.reason == notice.state && last.message == notice.what) {
        return (None, None);
    }
    let notified = Condition::new(types::NOTIFIED, "True", notice.state, notice.what.clone(), now);
    condition::set(&mut status.conditions, [notified]);
    (Some(notice), None)
}

fn notice(state: &'static str, what: String, status: &AppStatus) -> Notice {
    let ready = condition::get(&status.conditions, types::READY);
    // The sentence of `Ready`, so that message and status say the same.
    let why = ready.map(|ready| ready.message.chars().take(MAX_WHY).collect()).unwrap_or_default();
    Notice { state, what, why }
}

fn revision(status: &AppStatus) -> String {
    status.latest_revision.as_ref().map(|revision| revision.name.clone()).unwrap_or_default()
}

/// Which run it is: a workflow that is started again fails again.
fn run(status: &AppStatus) -> String {
    let began = status.workflow.as_ref().and_then(|run| run.start_time.as_ref());
    match began {
        Some(began) => format!("{}, run of {}", revision(status), facts::seconds(began.0)),
        None => revision(status),
    }
}

/// The suspended step that nobody but a person ends: not one that ends after a time.
fn waits_for_a_person(app: &Application, status: &AppStatus) -> Option<String> {
    let workflow = app.spec.workflow.as_ref();
    let steps = workflow.map(|workflow| workflow.steps.as_slice()).unwrap_or_default();
    // Steps that come from a Workflow object count as untimed: a message too many, not too few.
    let is_timed = |name: &str| {
        let all = steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps));
        all.into_iter().any(|step| step.name == name && has_duration(step))
    };
    let run = status.workflow.as_ref()?;
    let mut waits = run.all_steps().filter(|step| {
        step.phase == Phase::Suspending.as_str() && !step.type_.contains("step-group")
            // With `on-failure: suspend` a failed step waits for somebody, too.
            || step.phase == Phase::Failed.as_str()
    });
    waits.find(|step| !is_timed(&step.name)).map(|step| step.name.clone())
}

fn has_duration(step: &WorkflowStep) -> bool {
    let properties = step.properties.as_ref().map(serde_json::to_value);
    let properties = properties.and_then(Result::ok).unwrap_or_default();
    properties.get("duration").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Sends a notice that the status says by now. The address is read as the author; whoever may not read it learns that.
pub(in crate::application) async fn send(session: &Session<'_>, app: &Application, notice: Notice) {
    let ctx = session.ctx;
    let config = facts::annotation(&app.metadata, annotation::NOTIFY);
    let namespace = &*session.owner.namespace;
    let lost = {
        let (events, about) = (ctx.events.clone(), session.about.clone());
        let (state, config, once) = (notice.state, config.to_owned(), notice.what.clone());
        move |why: &str| {
            let text = messages::notification_lost(state, &config, why);
            events.emit(&about, Severity::Warning, event::NOT_NOTIFIED, &text, &once);
        }
    };
    // The address is a secret of the namespace, and is read as the author.
    let target = Target { api_version: "v1", kind: "Secret", namespace, name: config };
    let properties = match session.io().get(&target).await {
        Ok(secret) => config::read(&secret).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let url = match &properties {
        Ok(properties) => properties.get("url").and_then(Value::as_str),
        Err(why) => return lost(why),
    };
    let Some(url) = url else { return lost(messages::NOTIFY_WITHOUT_URL) };
    let message = Message { url: url.to_owned(), body: body(app, &notice) };
    // Sent in the background: a slow chat server must not hold up a reconcile.
    ctx.notifier.send(message, lost);
}

/// The message: a line that chats show, and the same in parts.
fn body(app: &Application, notice: &Notice) -> Value {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let name = app.metadata.name.as_deref().unwrap_or_default();
    json!({
        "text": messages::notification(notice.state, &format!("{namespace}/{name}"), &notice.why),
        "application": {
            "namespace": namespace,
            "name": name,
            "generation": app.metadata.generation,
            "revision": revision(&app.status),
        },
        "state": notice.state,
        "phase": app.status.phase,
        "message": notice.why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-01-02T03:04:05Z";

    fn app(notify: &str) -> Application {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "n", "annotations": {annotation::NOTIFY: notify}},
            "spec": {"components": [], "workflow": {"steps": [
                {"name": "timed", "type": "suspend", "properties": {"duration": "1m"}},
                {"name": "approve", "type": "suspend"}]}},
        }))
        .unwrap()
    }

    /// A status in a phase, with the conditions of the one before.
    fn status(phase: &str, step: (&str, &str), start: &str, before: &AppStatus) -> AppStatus {
        let mut status: AppStatus = serde_json::from_value(json!({
            "status": phase,
            "latestRevision": {"name": "a-v1", "revision": 1, "revisionHash": ""},
            "workflow": {"finished": phase != phase::WORKFLOW_SUSPENDING, "startTime": start, "mode": "", "suspend": false,
                "terminated": false, "steps": [{"id": "1", "name": step.0, "type": "suspend", "phase": step.1}]},
        }))
        .unwrap();
        status.conditions.clone_from(&before.conditions);
        status
    }

    #[tokio::test(start_paused = true)]
    async fn each_transition_is_one_notice() {
        let (app, mut memory, now) = (app("chat"), AppCache::default(), Timestamp::UNIX_EPOCH);
        let mut known = AppStatus::default();
        let mut said = Vec::new();
        for (phase, step, start, wait) in [
            (phase::RUNNING_WORKFLOW, ("approve", "running"), AT, 0),
            (phase::WORKFLOW_SUSPENDING, ("timed", "suspending"), AT, 0),
            (phase::WORKFLOW_SUSPENDING, ("approve", "suspending"), AT, 0),
            (phase::WORKFLOW_SUSPENDING, ("approve", "suspending"), AT, 0),
            (phase::RUNNING, ("approve", "succeeded"), AT, 0),
            (phase::UNHEALTHY, ("approve", "succeeded"), AT, 0),
            (phase::UNHEALTHY, ("approve", "succeeded"), AT, 59),
            (phase::RUNNING, ("approve", "succeeded"), AT, 0),
            (phase::UNHEALTHY, ("approve", "succeeded"), AT, 0),
            (phase::UNHEALTHY, ("approve", "succeeded"), AT, 60),
            (phase::UNHEALTHY, ("approve", "succeeded"), AT, 600),
            (phase::RUNNING, ("approve", "succeeded"), AT, 0),
            (phase::RUNNING, ("approve", "succeeded"), AT, 0),
            (phase::WORKFLOW_FAILED, ("approve", "failed"), AT, 0),
            (phase::WORKFLOW_FAILED, ("approve", "failed"), AT, 0),
            (phase::WORKFLOW_FAILED, ("approve", "failed"), "2026-01-02T03:04:06Z", 0),
            (phase::RUNNING_WORKFLOW, ("approve", "running"), AT, 0),
            (phase::RUNNING, ("approve", "succeeded"), AT, 0),
        ] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            let mut status = status(phase, step, start, &known);
            let (notice, _) = decide(&app, &mut status, &mut memory, now);
            said.extend(notice.map(|notice| notice.state));
            known = status;
        }
        assert_eq!(
            said,
            [
                "WaitsForPerson",
                "TurnedUnhealthy",
                "Recovered",
                "RolloutFailed",
                "RolloutFailed",
                "Recovered"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_process_says_nothing_again() {
        let (asks, quiet, now) = (app("chat"), app(""), Timestamp::UNIX_EPOCH);
        let mut known =
            status(phase::WORKFLOW_FAILED, ("approve", "failed"), AT, &AppStatus::default());
        assert!(decide(&asks, &mut known, &mut AppCache::default(), now).0.is_some());
        assert!(decide(&asks, &mut known, &mut AppCache::default(), now).0.is_none());
        // Who is not asked any more leaves no trace.
        assert_eq!(decide(&quiet, &mut known, &mut AppCache::default(), now), (None, None));
        assert!(known.conditions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_unhealthy_is_checked_when_the_minute_is_over() {
        let (app, mut memory, now) = (app("chat"), AppCache::default(), Timestamp::UNIX_EPOCH);
        let mut one = status(phase::UNHEALTHY, ("a", "succeeded"), AT, &AppStatus::default());
        let (notice, again) = decide(&app, &mut one, &mut memory, now);
        assert_eq!((notice, again), (None, Some(UNHEALTHY)));
        assert!(one.conditions.is_empty(), "nothing is written in the meantime");
    }
}
