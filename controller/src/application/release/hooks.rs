//! Hooks: objects of a chart that run once for each revision, before or after its other objects. How far each has come is in
//! the release's record, so that none runs twice.

use jiff::Timestamp;
use serde_json::Value;
use vela_api::names;
use vela_apply::object::{kind, name, set_label};
use vela_cluster::Target;
use vela_helm::release::{LastRun, RecordedHook};
use vela_helm::yaml;

use crate::messages;

use super::super::session::Session;
use super::ready::{self, Ended};
use super::steps::{self, Waits};
use super::{ReleaseError, Released, objects};

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
}

impl Moment {
    const fn word(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
        }
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
        || (hook.delete_policies.is_empty() && policy == "before-hook-creation")
}

/// Runs the hooks of a moment as far as they come now.
pub(super) async fn run(
    session: &mut Session<'_>,
    released: &Released,
    moment: Moment,
) -> Result<Waits, ReleaseError> {
    let hooks = released.state.lock().record.hooks();
    let order = ordered(&hooks, moment);
    let mut has_moved = false;
    for index in &order {
        let Some(hook) = hooks.get(*index) else { continue };
        let object = object(session, released, hook)?;
        match hook.last_run.phase.as_str() {
            SUCCEEDED => continue,
            FAILED if !is_older(session, hook) => {
                return Err(ReleaseError::Hook(
                    named(&object),
                    messages::HOOK_FAILED_BEFORE.to_owned(),
                ));
            }
            RUNNING => {}
            _ => {
                if let Some(waits) = start(session, released, *index, hook, &object).await? {
                    return Ok(Some(waits));
                }
            }
        }
        let hook_started = released.state.lock().record.hooks();
        let Some(hook) = hook_started.get(*index) else { continue };
        match ended(session, released, hook, &object).await? {
            Ended::No => return Ok(Some(format!("hook {} has not ended", named(&object)))),
            Ended::Succeeded => {
                note(session, released, *index, hook, SUCCEEDED).await?;
                has_moved = true;
            }
            Ended::Failed(why) => {
                note(session, released, *index, hook, FAILED).await?;
                if has(hook, "hook-failed") {
                    remove(session, &object).await?;
                }
                return Err(ReleaseError::Hook(named(&object), why));
            }
        }
    }
    if has_moved {
        for index in order.iter().rev() {
            let Some(hook) = hooks.get(*index).filter(|hook| has(hook, "hook-succeeded")) else {
                continue;
            };
            let object = object(session, released, hook)?;
            if kind(&object) != "CustomResourceDefinition" {
                remove(session, &object).await?;
            }
        }
    }
    Ok(None)
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
    released: &Released,
    hook: &RecordedHook,
) -> Result<Value, ReleaseError> {
    let chart = || hook.name.clone();
    let document =
        yaml::read(&hook.manifest).map_err(|error| ReleaseError::Yaml(chart(), error))?;
    let params = &released.params;
    let found = objects::of(vec![document], &params.name, &params.namespace);
    let mut found = found.map_err(|error| ReleaseError::Object(chart(), error))?;
    let mut object = found.pop().unwrap_or_default();
    for (key, value) in [
        (names::label::APP_NAME, session.owner.name.as_str()),
        (names::label::APP_NAMESPACE, session.owner.namespace.as_str()),
        (names::label::APP_COMPONENT, released.component.as_str()),
    ] {
        set_label(&mut object, key, value);
    }
    Ok(object)
}

/// Makes the object of a hook; one of an earlier revision goes first.
async fn start(
    session: &mut Session<'_>,
    released: &Released,
    index: usize,
    hook: &RecordedHook,
    object: &Value,
) -> Result<Waits, ReleaseError> {
    let permitted = session.permit(&mut object.clone(), "").await;
    permitted.map_err(|denial| ReleaseError::NotStored(denial.to_string()))?;
    if has(hook, "before-hook-creation") && kind(object) != "CustomResourceDefinition" {
        match session.io().get(&Target::of(object)).await {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(ReleaseError::Io(named(object), error)),
            Ok(_) => {
                remove(session, object).await?;
                let found = session.io().get(&Target::of(object)).await;
                if !found.is_err_and(|error| error.is_not_found()) {
                    return Ok(Some(messages::hook_being_removed(&named(object))));
                }
            }
        }
    }
    steps::track(session, std::slice::from_ref(object)).await?;
    match session.io().create(object, false).await {
        Ok(_) => {}
        // Made by a process that did not come to note it.
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(ReleaseError::Io(named(object), error)),
    }
    note(session, released, index, hook, RUNNING).await?;
    Ok(None)
}

async fn ended(
    session: &Session<'_>,
    released: &Released,
    hook: &RecordedHook,
    object: &Value,
) -> Result<Ended, ReleaseError> {
    let found = match session.io().get(&Target::of(object)).await {
        Ok(found) => found,
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
    let timeout = released.params.timeout;
    if ended == Ended::No && age.is_some_and(|age| age > timeout) {
        return Ok(Ended::Failed(messages::hook_timeout(timeout)));
    }
    Ok(ended)
}

/// Notes how far a hook has come.
async fn note(
    session: &Session<'_>,
    released: &Released,
    index: usize,
    hook: &RecordedHook,
    phase: &str,
) -> Result<(), ReleaseError> {
    let now = session.ctx.clock.now().to_string();
    let run = match phase {
        RUNNING => {
            LastRun { started_at: now, completed_at: String::new(), phase: phase.to_owned() }
        }
        _ => LastRun {
            started_at: hook.last_run.started_at.clone(),
            completed_at: now,
            phase: phase.to_owned(),
        },
    };
    released.state.lock().record.set_last_run(index, &run);
    steps::write(session, released).await
}

async fn remove(session: &Session<'_>, object: &Value) -> Result<(), ReleaseError> {
    let removed = session.io().delete(&Target::of(object), "", Some("Background")).await;
    match removed {
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
