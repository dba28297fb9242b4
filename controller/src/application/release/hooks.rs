//! Hooks: objects of a chart that run once for each revision, before or after its other objects, and around its removal. How far
//! each has come is in the release's record, so that none runs twice. Tests are kept in the record and never run.

use jiff::Timestamp;
use serde_json::Value;
use vela_api::names;
use vela_api::names::event;
use vela_apply::Owner;
use vela_apply::object::{annotation, kind, name, namespace, set_annotation};
use vela_cluster::{Class, Target};
use vela_helm::release::{LastRun, RecordedHook};
use vela_helm::yaml;

use crate::events::Severity;
use crate::messages;

use super::entry::{Entry, Waits};
use super::error::ReleaseError;
use super::objects;
use super::ready::{self, Ended};
use crate::application::session::Session;

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// When hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    PreInstall,
    PostInstall,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    PreDelete,
    PostDelete,
}

impl Moment {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
        }
    }

    /// Whether what fails holds nothing up: a deletion goes on.
    const fn is_lenient(self) -> bool {
        matches!(self, Self::PreDelete | Self::PostDelete)
    }
}

/// The hooks of a moment by position in the record: by weight, then by name.
fn ordered(hooks: &[RecordedHook], moment: Moment) -> Vec<usize> {
    let of = |hook: &RecordedHook| hook.events.iter().any(|event| event == moment.word());
    let mut chosen: Vec<(usize, &RecordedHook)> =
        hooks.iter().enumerate().filter(|(_, hook)| of(hook)).collect();
    chosen.sort_by(|(_, a), (_, b)| (a.weight, &a.name).cmp(&(b.weight, &b.name)));
    chosen.into_iter().map(|(index, _)| index).collect()
}

fn has(hook: &RecordedHook, policy: &str) -> bool {
    hook.delete_policies.iter().any(|word| word == policy)
        // Helm's default where a hook names no policy.
        || (hook.delete_policies.is_empty() && policy == "before-hook-creation")
}

/// How many hooks a moment has.
pub(super) fn count(hooks: &[RecordedHook], moment: Moment) -> usize {
    ordered(hooks, moment).len()
}

/// The objects of the hooks of a moment, as they are in the cluster.
pub(super) fn objects_of(session: &Session<'_>, entry: &Entry, moment: Moment) -> Vec<Value> {
    let hooks = entry.state.lock().record.hooks();
    let chosen = ordered(&hooks, moment).into_iter().filter_map(|index| hooks.get(index));
    chosen.filter_map(|hook| object(session, entry, hook).ok()).collect()
}

/// Whether one of the hooks of a moment has not ended.
pub(super) fn is_open(entry: &Entry, moment: Moment) -> bool {
    let hooks = entry.state.lock().record.hooks();
    ordered(&hooks, moment).into_iter().any(|index| {
        let phase = hooks.get(index).map(|hook| hook.last_run.phase.as_str());
        !matches!(phase, Some(SUCCEEDED | FAILED))
    })
}

/// Runs the hooks of a moment as far as they come now.
pub(super) async fn run(
    session: &mut Session<'_>,
    entry: &Entry,
    moment: Moment,
) -> Result<Waits, ReleaseError> {
    // Copied: the record is locked for a moment only, and hooks take minutes.
    let hooks = entry.state.lock().record.hooks();
    let order = ordered(&hooks, moment);
    let mut has_moved = false;
    for index in &order {
        let Some(hook) = hooks.get(*index) else { continue };
        match hook.last_run.phase.as_str() {
            SUCCEEDED => continue,
            FAILED if moment.is_lenient() => continue,
            // A failed hook counts for the run that it failed in.
            FAILED if !is_older(session, hook) => {
                let why = messages::HOOK_FAILED_BEFORE.to_owned();
                return Err(ReleaseError::Hook(hook.name.clone(), why));
            }
            _ => {}
        }
        match advance(session, entry, moment, *index, hook).await {
            Ok(None) => has_moved = true,
            Ok(waits) => return Ok(waits),
            Err(error) if moment.is_lenient() && !is_postponed(&error) => {
                note(session, entry, *index, FAILED).await?;
                let text = messages::hook_passed_over(moment.word(), &error.to_string());
                let events = &session.ctx.events;
                events.emit(&session.about, Severity::Warning, event::RELEASE_HOOK, &text, "");
            }
            Err(error) => return Err(error),
        }
    }
    // Deleted only when the last one has ended: hooks of a moment may depend on each other.
    if has_moved {
        for index in order.iter().rev() {
            let Some(hook) = hooks.get(*index).filter(|hook| has(hook, "hook-succeeded")) else {
                continue;
            };
            let object = object(session, entry, hook)?;
            // Deleting a CRD would delete all objects of its kind.
            if kind(&object) != "CustomResourceDefinition" {
                remove(session, entry, &object).await?;
            }
        }
    }
    Ok(None)
}

/// The hooks of a moment that have not ended count as failed from now on.
pub(super) async fn give_up(
    session: &Session<'_>,
    entry: &Entry,
    moment: Moment,
) -> Result<(), ReleaseError> {
    let hooks = entry.state.lock().record.hooks();
    for index in ordered(&hooks, moment) {
        let phase = hooks.get(index).map(|hook| hook.last_run.phase.as_str());
        if !matches!(phase, Some(SUCCEEDED | FAILED)) {
            mark(session, entry, index, FAILED);
        }
    }
    entry.write(session).await
}

/// Whether a request was postponed: that says nothing about the hook.
pub(super) fn is_postponed(error: &ReleaseError) -> bool {
    matches!(error, ReleaseError::Io(_, error) if matches!(error.class(), Class::Retry(_)))
}

/// Brings one hook as far as it comes now; what there is to wait for, if it has not ended.
async fn advance(
    session: &mut Session<'_>,
    entry: &Entry,
    moment: Moment,
    index: usize,
    hook: &RecordedHook,
) -> Result<Waits, ReleaseError> {
    let object = object(session, entry, hook)?;
    if hook.last_run.phase == FAILED {
        // It runs once more.
        remove(session, entry, &object).await?;
        entry.state.lock().record.set_last_run(index, &LastRun::default());
        entry.write(session).await?;
    }
    if let Some(rehearsal) = &session.ctx.rehearsal {
        let namespace = namespace(&object);
        let slash = if namespace.is_empty() { "" } else { "/" };
        let hook =
            format!("{} {} {namespace}{slash}{}", moment.word(), kind(&object), name(&object));
        rehearsal.runs_hook(&entry.component, hook);
    }
    // Noted as running: the object exists, and is only asked how it ended.
    if hook.last_run.phase != RUNNING
        && let Some(waits) = start(session, entry, index, hook, &object).await?
    {
        return Ok(Some(waits));
    }
    let started = entry.state.lock().record.hooks();
    let Some(hook) = started.get(index) else { return Ok(None) };
    match ended(session, entry, hook, &object).await? {
        // The object of a hook in a plan never runs.
        Ended::No if session.waits_for_nothing() => {
            note(session, entry, index, SUCCEEDED).await?;
            Ok(None)
        }
        Ended::No => Ok(Some(messages::hook_has_not_ended(&named(&object)))),
        Ended::Succeeded => {
            note(session, entry, index, SUCCEEDED).await?;
            Ok(None)
        }
        Ended::Failed(why) => {
            note(session, entry, index, FAILED).await?;
            if has(hook, "hook-failed") {
                remove(session, entry, &object).await?;
            }
            Err(ReleaseError::Hook(named(&object), why))
        }
    }
}

/// Whether a hook failed before the present run of the workflow began: then it is tried again.
fn is_older(session: &Session<'_>, hook: &RecordedHook) -> bool {
    let ended: Option<Timestamp> = hook.last_run.completed_at.parse().ok();
    ended.zip(session.run_began).is_some_and(|(ended, began)| ended < began)
}

fn named(object: &Value) -> String {
    format!("{} {}", kind(object), name(object))
}

/// The object of a hook, marked as ours: what becomes of it wakes the Application.
fn object(
    session: &Session<'_>,
    entry: &Entry,
    hook: &RecordedHook,
) -> Result<Value, ReleaseError> {
    let chart = || hook.name.clone();
    let document =
        yaml::read(&hook.manifest).map_err(|error| ReleaseError::Yaml(chart(), error))?;
    let found = objects::of(vec![document], &entry.release, &entry.namespace);
    let mut found = found.map_err(|error| ReleaseError::Object(chart(), error))?;
    let mut object = found.pop().unwrap_or_default();
    entry.own(session, &mut object);
    set_annotation(&mut object, names::annotation::RELEASE_HOOK_OF, &entry.secret());
    Ok(object)
}

/// Whether a live object was made for the same record as this one.
fn is_for(live: &Value, object: &Value) -> bool {
    let of = |object| annotation(object, names::annotation::RELEASE_HOOK_OF);
    of(live).is_some() && of(live) == of(object) && Owner::of(live) == Owner::of(object)
}

/// Makes the object of a hook; one of an earlier revision goes first.
async fn start(
    session: &mut Session<'_>,
    entry: &Entry,
    index: usize,
    hook: &RecordedHook,
    object: &Value,
) -> Result<Waits, ReleaseError> {
    let mut object = object.clone();
    let permitted = session.permit(&mut object, &entry.cluster).await;
    permitted.map_err(|denial| ReleaseError::NotStored(denial.to_string()))?;
    let object = &object;
    // Its Job or Pod cannot be changed, so one of an earlier revision has to go first.
    if has(hook, "before-hook-creation") && kind(object) != "CustomResourceDefinition" {
        match entry.at(session).get(&Target::of(object)).await {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(ReleaseError::Io(named(object), error)),
            // Made by a process that did not come to note it.
            Ok(found) if is_for(&found, object) => {}
            Ok(_) => {
                remove(session, entry, object).await?;
                let found = entry.at(session).get(&Target::of(object)).await;
                if !found.is_err_and(|error| error.is_not_found()) {
                    return being_removed(session, entry, object).map(Some);
                }
            }
        }
    }
    // Recorded before it is created, as every object is.
    entry.track(session, std::slice::from_ref(object)).await?;
    match entry.at(session).create(object).await {
        Ok(_) => {}
        // Made by a process that did not come to note it.
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(ReleaseError::Io(named(object), error)),
    }
    // Noted after the creation: in between, the object itself says for which record it is.
    note(session, entry, index, RUNNING).await?;
    Ok(None)
}

/// Waits for an object of an earlier revision to be gone, but not for ever.
fn being_removed(
    session: &Session<'_>,
    entry: &Entry,
    object: &Value,
) -> Result<String, ReleaseError> {
    // Since the record was written last, since nothing else knows when the waiting began.
    let since = entry.state.lock().since;
    let text = messages::hook_being_removed(&named(object));
    if session.ctx.clock.now().duration_since(since).unsigned_abs() > entry.timeout {
        return Err(ReleaseError::Hook(named(object), messages::not_within(&text, entry.timeout)));
    }
    Ok(text)
}

async fn ended(
    session: &Session<'_>,
    entry: &Entry,
    hook: &RecordedHook,
    object: &Value,
) -> Result<Ended, ReleaseError> {
    let found = match entry.at(session).get(&Target::of(object)).await {
        Ok(found) => found,
        // An object that somebody removed can never say how it ended.
        Err(error) if error.is_not_found() => {
            return Ok(Ended::Failed(messages::HOOK_REMOVED.to_owned()));
        }
        Err(error) => return Err(ReleaseError::Io(named(object), error)),
    };
    let mut typed = found;
    if let Value::Object(fields) = &mut typed {
        fields.entry("kind").or_insert_with(|| kind(object).into());
    }
    let ended = ready::hook(&typed);
    let began: Option<Timestamp> = hook.last_run.started_at.parse().ok();
    let age = began.map(|began| session.ctx.clock.now().duration_since(began).unsigned_abs());
    // The time of a hook counts from its own start.
    if ended == Ended::No && age.is_some_and(|age| age > entry.timeout) {
        return Ok(Ended::Failed(messages::hook_timeout(entry.timeout)));
    }
    Ok(ended)
}

/// Notes how far a hook has come.
async fn note(
    session: &Session<'_>,
    entry: &Entry,
    index: usize,
    phase: &str,
) -> Result<(), ReleaseError> {
    mark(session, entry, index, phase);
    entry.write(session).await
}

fn mark(session: &Session<'_>, entry: &Entry, index: usize, phase: &str) {
    let now = session.ctx.clock.now().to_string();
    let mut state = entry.state.lock();
    let hooks = state.record.hooks();
    // The beginning stays as it was noted.
    let before = hooks.get(index).map(|hook| hook.last_run.clone()).unwrap_or_default();
    let run = match phase {
        RUNNING => {
            LastRun { started_at: now, completed_at: String::new(), phase: phase.to_owned() }
        }
        _ => LastRun { completed_at: now, phase: phase.to_owned(), ..before },
    };
    state.record.set_last_run(index, &run);
}

async fn remove(session: &Session<'_>, entry: &Entry, object: &Value) -> Result<(), ReleaseError> {
    match entry.at(session).delete(&Target::of(object)).await {
        Err(error) if !error.is_not_found() => Err(ReleaseError::Io(named(object), error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(name: &str, weight: i64, events: &[&str], policies: &[&str]) -> RecordedHook {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
        RecordedHook {
            name: name.to_owned(),
            manifest: String::new(),
            events: words(events),
            weight,
            delete_policies: words(policies),
            last_run: LastRun::default(),
        }
    }

    #[test]
    fn hooks_run_by_weight_and_name() {
        let all = [
            hook("b", 0, &["pre-install", "pre-upgrade"], &[]),
            hook("a", 0, &["pre-install"], &[]),
            hook("z", -1, &["pre-install"], &[]),
            hook("c", -5, &["post-install"], &[]),
        ];
        assert_eq!(ordered(&all, Moment::PreInstall), [2, 1, 0]);
        assert_eq!(ordered(&all, Moment::PreUpgrade), [0]);
        assert!(ordered(&all, Moment::PostUpgrade).is_empty());
    }

    #[test]
    fn without_a_policy_the_object_of_before_goes() {
        assert!(has(&hook("a", 0, &[], &[]), "before-hook-creation"));
        assert!(!has(&hook("a", 0, &[], &["hook-failed"]), "before-hook-creation"));
        assert!(!has(&hook("a", 0, &[], &[]), "hook-succeeded"));
    }
}
