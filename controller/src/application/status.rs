//! The status of an Application: conditions, services, phases, and the one write that brings it to the API server.
//!
//! Answers for the status parts of `application_controller.go` and `apply.go`. The reference sends a merge patch of the
//! whole object, which cannot clear what became empty; here the patch is the difference between what is stored and what
//! should be, so that cleared fields are cleared and nothing is sent when nothing changed.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::Value;
use vela_api::condition;
use vela_api::names::{condition as types, phase, reason};
use vela_api::status::ComponentStatus;
use vela_api::workflow::WorkflowStatus;
use vela_api::{AppStatus, ClusterObjectReference, Condition, ManagedResource};
use vela_apply::json_merge;
use vela_workflow::WorkflowPhase;

use super::readiness;
use crate::messages;

/// Sets a condition to true.
pub fn set_true(status: &mut AppStatus, type_: &str, now: Timestamp) {
    condition::set(&mut status.conditions, [Condition::available(type_, now)]);
}

/// Whether it acts as its author with all his rights; a condition that only is there if not.
pub fn set_author(status: &mut AppStatus, doubt: Option<&str>, now: Timestamp) {
    match doubt {
        Some(doubt) => {
            let failed = Condition::reconcile_error(types::STAMPED, doubt, now);
            condition::set(&mut status.conditions, [failed]);
        }
        None => status.conditions.retain(|condition| condition.type_ != types::STAMPED),
    }
}

/// A negative end: the condition of the failing phase.
pub fn set_failed(status: &mut AppStatus, type_: &str, message: &str, now: Timestamp) {
    condition::set(&mut status.conditions, [Condition::reconcile_error(type_, message, now)]);
}

/// A complete pass: what an earlier failure left in `Synced` and `StateKeep` goes: those are never set true.
pub fn forget_failures(status: &mut AppStatus) {
    status.conditions.retain(|c| c.type_ != types::SYNCED && c.type_ != types::STATE_KEEP);
}

/// Says what is recorded of other clusters: this many objects in each.
pub fn set_elsewhere(status: &mut AppStatus, elsewhere: &BTreeMap<String, usize>, now: Timestamp) {
    // A condition that says "nothing to report" would be one more write for every Application.
    if elsewhere.is_empty() {
        status.conditions.retain(|c| c.type_ != types::OTHER_CLUSTERS);
        return;
    }
    let (type_, message) = (types::OTHER_CLUSTERS, messages::left_elsewhere(elsewhere));
    let not_managed = Condition::new(type_, "False", reason::NOT_MANAGED, message, now);
    condition::set(&mut status.conditions, [not_managed]);
}

/// What keeps an Application from a cluster: the reason of a condition, and in words.
#[derive(Debug)]
pub struct Trouble {
    /// The reason.
    pub reason: &'static str,
    /// A clause.
    pub text: String,
}

/// Says whether the clusters of an Application can be reached; `None`: it has no other than the own one. `more`: what else is to be said
/// of them.
pub fn set_clusters(
    status: &mut AppStatus,
    (troubles, more): (Option<Vec<Trouble>>, String),
    now: Timestamp,
) {
    let Some(troubles) = troubles else {
        status.conditions.retain(|c| c.type_ != types::CLUSTERS);
        return;
    };
    let new = match troubles.first() {
        None => Condition::new(types::CLUSTERS, "True", reason::REACHABLE, more, now),
        Some(first) => {
            // Troubles of different kinds share the reason that covers all of them.
            let is_one = troubles.iter().all(|trouble| trouble.reason == first.reason);
            let reason = if is_one { first.reason } else { reason::UNREACHABLE };
            let texts: Vec<String> = troubles.into_iter().map(|trouble| trouble.text).collect();
            let mut message = messages::clusters_in_trouble(&texts);
            if !more.is_empty() {
                message = format!("{message}; {more}");
            }
            Condition::new(types::CLUSTERS, "False", reason, message, now)
        }
    };
    condition::set(&mut status.conditions, [new]);
}

/// A new run of the workflow: what the last one found is dropped, conditions up to `Render` stay.
pub fn restart(status: &mut AppStatus, token: &str) {
    // What the last run found would otherwise be reported for the new one until its steps have run.
    status.services.clear();
    status.applied_resources.clear();
    // About what somebody was notified is no finding of a run.
    let kept = [types::PARSED, types::REVISION, types::POLICY, types::RENDER, types::NOTIFIED];
    status.conditions.retain(|condition| kept.contains(&condition.type_.as_str()));
    status.workflow =
        Some(WorkflowStatus { app_revision: token.to_owned(), ..WorkflowStatus::default() });
}

/// The phase a workflow gives its Application, health aside.
#[must_use]
pub fn phase_of(workflow: WorkflowPhase) -> &'static str {
    match workflow {
        WorkflowPhase::Initializing | WorkflowPhase::Executing => phase::RUNNING_WORKFLOW,
        WorkflowPhase::Suspending => phase::WORKFLOW_SUSPENDING,
        WorkflowPhase::Terminated => phase::WORKFLOW_TERMINATED,
        WorkflowPhase::Failed => phase::WORKFLOW_FAILED,
        WorkflowPhase::Succeeded => phase::RUNNING,
    }
}

/// Puts the statuses of components in, each in place of the one of the same target.
pub fn put_services(services: &mut Vec<ComponentStatus>, new: Vec<ComponentStatus>) {
    let target = |one: &ComponentStatus| {
        [&one.name, &one.namespace, &one.cluster, &one.env].map(String::clone)
    };
    let mut places = HashMap::with_capacity(services.len());
    for (at, old) in services.iter().enumerate() {
        places.entry(target(old)).or_insert(at);
    }
    for one in new {
        let at = *places.entry(target(&one)).or_insert(services.len());
        match services.get_mut(at) {
            Some(old) => *old = one,
            None => services.push(one),
        }
    }
}

/// A reference to a dispatched object.
#[must_use]
pub fn reference(resource: &ManagedResource, creator: &str) -> ClusterObjectReference {
    ClusterObjectReference {
        api_version: resource.api_version.clone(),
        cluster: resource.cluster.clone(),
        creator: creator.to_owned(),
        kind: resource.kind.clone(),
        name: resource.name.clone(),
        namespace: resource.namespace.clone(),
        ..ClusterObjectReference::default()
    }
}

/// Whether a run continues from one status to the other and the two differ only in what is said about it: messages, and when a
/// step was checked.
#[must_use]
pub fn differ_only_in_messages(stored: &AppStatus, wanted: &AppStatus) -> bool {
    both_go_on(stored, wanted) && without_messages(stored) == without_messages(wanted)
}

/// Whether a run continues and all that is new is that its steps were checked again.
#[must_use]
pub fn differ_in_times(stored: &AppStatus, wanted: &AppStatus) -> bool {
    both_go_on(stored, wanted) && without_times(stored) == without_times(wanted)
}

fn both_go_on(stored: &AppStatus, wanted: &AppStatus) -> bool {
    // A run that ends is news, whatever else is the same.
    let goes_on = |status: &AppStatus| status.workflow.as_ref().is_some_and(|run| !run.finished);
    goes_on(stored) && goes_on(wanted)
}

fn without_times(status: &AppStatus) -> AppStatus {
    let mut status = status.clone();
    for step in status.workflow.iter_mut().flat_map(|workflow| &mut workflow.steps) {
        step.last_execute_time = None;
        for sub_step in &mut step.sub_steps {
            sub_step.last_execute_time = None;
        }
    }
    status
}

fn without_messages(status: &AppStatus) -> AppStatus {
    let mut status = without_times(status);
    for service in &mut status.services {
        service.message.clear();
        service.details.clear();
        for one in &mut service.traits {
            one.message.clear();
            one.details.clear();
        }
    }
    readiness::forget_words(&mut status.conditions);
    if let Some(workflow) = &mut status.workflow {
        workflow.message.clear();
        for step in &mut workflow.steps {
            step.message.clear();
            step.sub_steps.iter_mut().for_each(|sub_step| sub_step.message.clear());
        }
    }
    status
}

/// The merge patch from one status to another; `None` if there is no difference.
#[must_use]
pub fn patch(stored: &AppStatus, wanted: &AppStatus) -> Option<Value> {
    let value = |status: &AppStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    let diff = json_merge::diff(&value(stored), &value(wanted));
    (!json_merge::is_empty(&diff)).then_some(diff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn equal_statuses_need_no_write_and_cleared_fields_are_cleared() {
        let mut stored = AppStatus { phase: phase::RUNNING.into(), ..AppStatus::default() };
        stored.services.push(ComponentStatus { name: "a".into(), ..ComponentStatus::default() });
        assert_eq!(patch(&stored, &stored.clone()), None);
        let mut wanted = stored.clone();
        wanted.services.clear();
        assert_eq!(patch(&stored, &wanted), Some(json!({"services": null})));
    }

    #[test]
    fn what_keeps_an_application_from_its_clusters_is_one_condition() {
        let said = |troubles: Option<&[(&'static str, String)]>, more: &str| {
            let mut status = AppStatus::default();
            let trouble =
                |(reason, text): &(&'static str, String)| Trouble { reason, text: text.clone() };
            let troubles = troubles.map(|all| all.iter().map(trouble).collect());
            set_clusters(&mut status, (troubles, more.to_owned()), at(1));
            let found = condition::get(&status.conditions, types::CLUSTERS).cloned();
            found.map(|one| (one.status, one.reason, one.message))
        };
        let some = |status: &str, reason: &str, message: &str| {
            Some((status.to_owned(), reason.to_owned(), message.to_owned()))
        };
        // In no cluster but the own one.
        assert_eq!(said(None, ""), None);
        assert_eq!(said(Some(&[]), ""), some("True", "Reachable", ""));
        assert_eq!(said(Some(&[]), "1 more"), some("True", "Reachable", "1 more"));
        let kinds = [
            reason::UNREACHABLE,
            reason::CREDENTIAL_REFUSED,
            reason::INVALID,
            reason::REPLACED,
            reason::UNREGISTERED,
        ];
        for kind in kinds {
            let one = [(kind, "a".to_owned())];
            assert_eq!(said(Some(&one), "1 more"), some("False", kind, "a; 1 more"));
        }
        let mixed = [(reason::INVALID, "a".to_owned()), (reason::REPLACED, "b".to_owned())];
        assert_eq!(said(Some(&mixed), ""), some("False", "Unreachable", "a; b"));
        let many: Vec<_> =
            (0..13).map(|number| (reason::INVALID, format!("c{number:02}"))).collect();
        let (_, reason, message) = said(Some(&many), "").unwrap();
        assert_eq!(reason, "Invalid");
        assert!(
            message.starts_with("c00; c01") && message.ends_with("c09; and 3 more"),
            "{message}"
        );
    }

    #[test]
    fn times_and_words_are_told_from_what_happened() {
        let status = |at: u32, message: &str, phase: &str, finished: bool| -> AppStatus {
            let step = json!({"id": "a", "name": "a", "type": "t", "phase": phase,
                "message": message, "lastExecuteTime": format!("2026-01-01T00:00:0{at}Z")});
            let workflow = json!({"steps": [step], "mode": "DAG", "finished": finished,
                "suspend": false, "terminated": false, "status": "executing"});
            serde_json::from_value(json!({ "workflow": workflow })).unwrap()
        };
        let stored = status(1, "m", "running", false);
        for (wanted, words, times) in [
            (status(2, "m", "running", false), true, true),
            (status(2, "n", "running", false), true, false),
            (status(1, "m", "succeeded", false), false, false),
            (status(2, "m", "running", true), false, false),
        ] {
            assert_eq!(differ_only_in_messages(&stored, &wanted), words, "{wanted:?}");
            assert_eq!(differ_in_times(&stored, &wanted), times, "{wanted:?}");
        }
        let ended = status(1, "m", "running", true);
        assert!(!differ_in_times(&ended, &status(2, "m", "running", true)));
    }

    #[test]
    fn a_restart_keeps_what_is_known_before_the_workflow() {
        let mut status = AppStatus::default();
        for ty in types::APPLICATION_ORDER {
            set_true(&mut status, ty, at(1));
        }
        restart(&mut status, "a-v2");
        let kept: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(kept, ["Parsed", "Revision", "Policy", "Render"]);
        assert_eq!(status.workflow.map(|w| w.app_revision), Some("a-v2".to_owned()));
    }

    #[test]
    fn recovery_forgets_the_failure() {
        let mut status = AppStatus::default();
        set_failed(&mut status, types::SYNCED, "x", at(1));
        set_true(&mut status, types::PARSED, at(1));
        forget_failures(&mut status);
        let left: Vec<_> = status.conditions.iter().map(|c| (&*c.type_, &*c.status)).collect();
        assert_eq!(left, [("Parsed", "True")]);
    }

    #[test]
    fn services_are_identified_by_target() {
        let mut services = Vec::new();
        let one = |cluster: &str, healthy| ComponentStatus {
            name: "a".into(),
            cluster: cluster.into(),
            healthy,
            ..ComponentStatus::default()
        };
        put_services(&mut services, vec![one("", false), one("local", true)]);
        assert!(!vela_api::status::is_healthy(&services));
        put_services(&mut services, vec![one("far", false), one("", true), one("far", true)]);
        let clusters: Vec<_> = services.iter().map(|service| service.cluster.as_str()).collect();
        assert_eq!(clusters, ["", "local", "far"]);
        assert!(vela_api::status::is_healthy(&services));
    }
}
