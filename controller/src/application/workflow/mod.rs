//! The workflow of an Application: executes the attempts that the engine decides.
//!
//! Answers for `pkg/workflow/providers/oam` and the driving half of `application_controller.go`. The engine
//! ([`vela_workflow`]) decides what runs and what follows; here a step of type `apply-component` becomes a dispatch.

mod ahead;
pub(super) mod cached;
mod calls;
pub mod components;
mod debug;
pub mod diagnosis;
pub mod error;
mod overrides;
pub mod placement;
pub mod restart;
pub mod run;
mod sealed;
mod secrets;
mod selector;
pub mod shared;
pub(in crate::application) mod start;
mod steps;
pub mod store;
mod together;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::{Map, Value};
use vela_api::ClusterObjectReference;
use vela_api::application::ApplicationComponent;
use vela_api::status::ComponentStatus;
use vela_cluster::postponed;
use vela_workflow::generate::BUILTIN_APPLY_COMPONENT;
use vela_workflow::{
    ConditionError, Facts, Next, Options, Outcome, Output, Pass, Phase, Progress, Question, Reason,
    Status, Step, Verdict, WorkflowPhase, data,
};

use crate::application::context::AppContext;
use crate::application::lifecycle::on_failure;
use crate::evaluation::EvaluationScope;
use crate::messages;
use crate::metrics::labels;

use super::component;
use super::placement::Placement;
use super::session::Session;
use crate::application::workflow_owner::OwnerKind;
use calls::Seen;
use components::Done;
pub(in crate::application) use debug::is_on as is_debugged;
use error::StepError;
use run::{Run, SLOW_COMPONENT, reference, takes_long, waited};
use secrets::Secrets;
use steps::StepInput;
use store::Store;

/// What a pass over the workflow left.
#[derive(Debug)]
pub struct Ran {
    /// The engine's account.
    pub progress: Progress,
    /// Components whose health was checked.
    pub services: Vec<ComponentStatus>,
    /// Objects that were dispatched, perhaps several times.
    pub applied: Vec<ClusterObjectReference>,
    /// Whether any step was checked.
    pub ran: bool,
    /// Where environments were placed.
    pub(in crate::application) decisions: Vec<calls::Decision>,
    /// When a step asked for the workflow to run again.
    pub restart_at: Option<Timestamp>,
}

/// One pass over the workflow.
pub async fn pass(
    session: &mut Session<'_>,
    run: &Run<'_>,
    status: Status,
    store: &mut Store<'_>,
    now: Timestamp,
) -> Ran {
    let mut options: Options = session.ctx.settings.workflow.clone();
    options.suspend_on_failure =
        on_failure::suspends(session.ctx, run.app, options.suspend_on_failure).await;
    // Steps that left the spec must not keep what they noted.
    store.prune(run.workflow, &status);
    let saved = store.saved();
    let facts = Facts {
        now,
        context: Arc::new(run.context.clone()),
        variables: saved.variables.clone(),
        resume_at: saved.resume_at(),
    };
    let mut seen = Seen::default();
    let mut ran = false;
    let mut watched = can_watch(session, run);
    let mut pass = Pass::begin(run.workflow, status, saved.memory.clone(), facts, options);
    let mut prepared = ahead::prepare(session, run, &pass).boxed().await;
    loop {
        let attempt = match pass.next(&mut |name: &str| store.id(name)) {
            Next::Run(attempt) => attempt,
            Next::Ask(question) => {
                decide(session.ctx, &mut pass, question, store).await;
                continue;
            }
            Next::Over => break,
        };
        ran = true;
        let inputs = pass.inputs(&attempt);
        let outcome = match pass.definition(&attempt) {
            Some(step) => {
                let inputs: Vec<_> =
                    inputs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                let variables = pass.variables().clone();
                let parameter = step.properties.clone();
                let prepared = prepared.remove(&step.name);
                let input = StepInput { step, attempt: &attempt, parameter, variables, prepared };
                attempt_step(session, run, input, inputs, store, &mut seen).await
            }
            // The step was taken out of the workflow since its status was written.
            None => {
                Outcome::of(Verdict::Fail(Reason::None), messages::unknown_step_kind(&attempt.kind))
            }
        };
        if let Some(text) = seen.dump.take() {
            debug::keep(session.ctx, store, &attempt.id, &text).await;
        }
        // A waiting component is woken by its objects. A step of another type may wait for
        // something that nobody watches.
        watched &= match outcome.verdict {
            Verdict::Succeeded => true,
            Verdict::Wait => attempt.kind == BUILTIN_APPLY_COMPONENT,
            _ => false,
        };
        // The time after the attempt: an attempt may take long, and its deadline counts from there.
        pass.complete(&attempt, outcome, session.ctx.clock.now());
        pass.resume_at(store.saved().resume_at());
    }
    let mut progress = pass.end(session.ctx.clock.now());
    // Nothing but watched objects is waited for, so polling would find nothing that the watch does
    // not report sooner.
    if watched
        && ran
        && progress.phase == WorkflowPhase::Executing
        && !progress.memory.has_planned()
    {
        let rest = rest(&progress.status, now, session.ctx.settings.workflow.max_wait);
        progress.again = progress.again.map(|again| again.max(rest));
    }
    let unfinished: BTreeSet<&str> = progress
        .status
        .all()
        .filter(|step| !step.is_finished())
        .map(|step| step.id.as_str())
        .collect();
    // Answers for steps that have ended would be kept for ever.
    let app = session.key();
    session.ctx.calls.keep(&app, |step| unfinished.contains(step));
    let saved = store.saved_mut();
    saved.memory = progress.memory.clone();
    saved.variables.clone_from(&progress.variables);
    let Seen { services, applied, decisions, restart_at, dump: _ } = seen;
    Ran { progress, services, applied, ran, decisions, restart_at }
}

/// Has a condition evaluated. One that cannot be now ends the pass: its step waits, and what is done stays done.
async fn decide(ctx: &AppContext, pass: &mut Pass<'_>, question: Question, store: &Store<'_>) {
    let question = Arc::new(question);
    let asked = Arc::clone(&question);
    match ctx.cue.run(move |scope| asked.evaluate(&scope.limits)).await {
        Ok(answer) => pass.answer(&question, answer),
        // No thread or no time: that says nothing about the condition, so nothing is decided.
        Err(error) if error.is_temporary() => {
            pass.cut(&question, &error.to_string(), &mut |name: &str| store.id(name));
        }
        Err(error) => {
            let reason = error.to_string();
            pass.answer(&question, Err(ConditionError::NotEvaluated { reason }));
        }
    }
}

/// How long a workflow rests that waits for nothing but objects that are watched: as long as its newest step has waited. Their
/// changes are heard at once; what is left is that they say why they take long ([`SLOW_COMPONENT`]).
fn rest(status: &Status, now: Timestamp, longest: Duration) -> Duration {
    let waiting = status.all().filter(|step| step.phase == Phase::Running);
    let newest = waiting.filter_map(|step| step.first_execute_time).max();
    let waited = newest.map(|since| waited(since, now)).unwrap_or_default();
    waited.clamp(SLOW_COMPONENT.min(longest), longest)
}

/// Whether all that components are rendered from and judged by is watched, and no step has a time.
fn can_watch(session: &Session<'_>, run: &Run<'_>) -> bool {
    let policies = &session.policies;
    let is_timed = |step: &Step| step.timeout.is_some() || step.progress_deadline.is_some();
    // Objects that are referred to, shared or only read are in no watch, and neither is what a WorkflowRun applied.
    session.owner_kind == OwnerKind::Application
        && run.used.referred.is_empty()
        && policies.shared.is_empty()
        && policies.read_only.is_empty()
        && !run.workflow.all().any(is_timed)
}

async fn attempt_step(
    session: &mut Session<'_>,
    run: &Run<'_>,
    mut input: StepInput<'_>,
    inputs: Vec<(String, Value)>,
    store: &mut Store<'_>,
    seen: &mut Seen,
) -> Outcome {
    let step = input.step;
    let rehearsal = session.ctx.rehearsal.as_ref();
    if let Some(outcome) = rehearsal.and_then(|rehearsal| rehearsal.before(step)) {
        return outcome;
    }
    for (key, value) in inputs {
        if key.is_empty() {
            continue;
        }
        if let Err(error) = data::set_input(&mut input.parameter, &key, value) {
            return Outcome::of(Verdict::Fail(Reason::Input), error.to_string());
        }
    }
    let kind = input.step.kind.as_str();
    if ![BUILTIN_APPLY_COMPONENT, "suspend"].contains(&kind) && !run.used.steps.contains_key(kind) {
        // Not measured: every word that somebody makes up would be a series of its own.
        return Outcome::of(Verdict::Fail(Reason::None), messages::unknown_step_kind(kind));
    }
    // Known before the step runs: its own messages may already quote what an earlier step read.
    let mut secrets = Secrets::handed_on(&store.saved().notes, &input.variables);
    let known_type = labels::step_type(kind, &session.ctx.definitions);
    let since = Instant::now();
    let attempt = Box::pin(async {
        match kind {
            BUILTIN_APPLY_COMPONENT => {
                apply_component(session, run, input, seen, &mut secrets).await
            }
            _ => steps::run(session, run, input, store, seen, &mut secrets).await,
        }
    });
    let (mut outcome, postponed) = postponed::noting(attempt).await;
    session.ctx.metrics.step_ran(known_type, since.elapsed());
    // Redacted here, behind everything that can put a message together.
    outcome.message = secrets.redacted(&outcome.message);
    seen.dump = seen.dump.take().map(|text| secrets.redacted(&text));
    secrets.note(&outcome.variables, &mut store.saved_mut().notes);
    // Read and cleared: the next step starts without it.
    let going = session.recreate_pending.swap(false, Ordering::Relaxed);
    let outcome = match postponed {
        // What has to go first goes in its own time, and an API server that is overloaded, or that there was no time to
        // evaluate, says nothing about the step: that uses up no attempts.
        _ if outcome.verdict != Verdict::Error => outcome,
        _ if going => Outcome::of(Verdict::Wait, outcome.message),
        // The change of its state wakes the Application.
        Some(postponed) if postponed.is_away => {
            Outcome::of(Verdict::Away, messages::postponed(&outcome.message))
        }
        Some(postponed) if postponed.by_server => {
            Outcome::of(Verdict::Later(postponed.after), messages::postponed(&outcome.message))
        }
        Some(postponed) => Outcome::of(Verdict::Later(postponed.after), outcome.message),
        None => outcome,
    };
    match session.ctx.rehearsal.as_ref() {
        Some(rehearsal) => rehearsal.after(step, outcome),
        None => outcome,
    }
}

async fn apply_component(
    session: &mut Session<'_>,
    run: &Run<'_>,
    mut input: StepInput<'_>,
    seen: &mut Seen,
    secrets: &mut Secrets,
) -> Outcome {
    let step = input.step;
    let (component, placement) = match component_and_placement(&input.parameter) {
        Ok(found) => found,
        Err(error) => return Outcome::of(Verdict::Error, error.to_string()),
    };
    let applied = match input.prepared.take() {
        Some(prepared) => together::finish(session, run, &placement, prepared).boxed().await,
        None => components::apply(session, run, &component, &placement).await,
    };
    match applied {
        Err(error) => Outcome::of(Verdict::Error, error.to_string()),
        Ok(done) => {
            note(&done, seen);
            let wants_outputs = !step.outputs.is_empty() && done.ready && !done.is_later;
            let debugged = run.debugged;
            let mut fields = Map::new();
            if wants_outputs || debugged {
                fields = outputs(session, &done).await;
                let others = fields.get("outputs").and_then(Value::as_object).into_iter().flatten();
                let all = fields.get("output").into_iter().chain(others.map(|(_, object)| object));
                // An output may be a Secret of the component itself.
                all.for_each(|object| secrets.keep_object(object));
                fields.insert("context".to_owned(), run.context.clone());
            }
            if debugged {
                let mut shown = fields.clone();
                shown.insert("parameter".to_owned(), Value::Object(input.parameter.clone()));
                seen.dump = Some(vela_workflow::store::print_variables(&shown));
            }
            if !done.ready {
                // a component that takes long says what it lacks
                let reason = if takes_long(input.attempt) {
                    diagnosis::diagnose(session, &done.rendered.objects).await
                } else {
                    String::new()
                };
                return Outcome::of(Verdict::Wait, messages::wait_healthy(&reason));
            }
            let mut outcome = Outcome::succeeded();
            if step.outputs.is_empty() {
                return outcome;
            }
            let wanted = step.outputs.clone();
            // Expressions of outputs are users' CUE.
            let job = move |scope: &EvaluationScope| {
                let value_of = |output: &Output| {
                    let value = data::output_of(&fields, &output.value_from, &scope.limits);
                    (output.name.clone(), value)
                };
                wanted.iter().map(value_of).collect::<Vec<_>>()
            };
            let values = match session.ctx.cue.run(job).await {
                Ok(values) => values,
                Err(error) => return Outcome::of(Verdict::Error, error.to_string()),
            };
            for (name, value) in values {
                // A missing output is null and named in the message; the step has succeeded.
                let value = value.unwrap_or_else(|error| {
                    outcome.message = error.to_string();
                    Value::Null
                });
                outcome.variables.push((name, value));
            }
            outcome
        }
    }
}

/// The component that a parameter holds, and where it goes.
///
/// # Errors
/// A message for the step.
fn component_and_placement(
    parameter: &Map<String, Value>,
) -> Result<(ApplicationComponent, Placement), StepError> {
    let text =
        |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let placement = Placement {
        cluster: text("cluster"),
        namespace: text("namespace"),
        replica: String::new(),
    };
    let value = parameter.get("value").cloned().unwrap_or(Value::Null);
    let component = serde_json::from_value(value)?;
    Ok((component, placement))
}

/// Remembers what a component came to.
fn note(done: &Done, seen: &mut Seen) {
    for object in &done.rendered.objects {
        seen.applied.push(reference(&object.manifest, object.cluster()));
    }
    seen.services.push(done.status.clone());
}

/// `output` and `outputs` of a component: its objects as they are in the cluster.
async fn outputs(session: &Session<'_>, done: &Done) -> Map<String, Value> {
    let (mut output, mut outputs) = (Value::Null, Map::new());
    for object in &done.rendered.objects {
        let live = component::live(session, object).await;
        // What is not live yet is shown as it was rendered.
        let value = live.map_or_else(|| object.manifest.clone(), Arc::unwrap_or_clone);
        match &object.output {
            None => output = value,
            Some(name) => {
                outputs.insert(name.clone(), value);
            }
        }
    }
    Map::from_iter([("output".to_owned(), output), ("outputs".to_owned(), Value::Object(outputs))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vela_workflow::StepStatus;

    #[test]
    fn what_is_watched_rests_as_long_as_its_newest_step_has_waited() {
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let step = |phase, since| StepStatus {
            id: String::new(),
            name: String::new(),
            kind: String::new(),
            phase,
            reason: Reason::None,
            message: String::new(),
            first_execute_time: Some(at(since)),
            last_execute_time: None,
            sub_steps: Vec::new(),
        };
        let steps = vec![
            step(Phase::Running, 0),
            step(Phase::Running, 300),
            step(Phase::Succeeded, 310),
            step(Phase::Pending, 310),
        ];
        let status = Status { steps, ..Status::default() };
        let rests = |now, longest| rest(&status, at(now), Duration::from_secs(longest)).as_secs();
        let cases = [(300, 10), (309, 10), (325, 25), (359, 59), (900, 60), (200, 10)];
        for (now, expected) in cases {
            assert_eq!(rests(now, 60), expected, "{now}");
        }
        assert_eq!(rests(900, 5), 5);
        assert_eq!(rest(&Status::default(), at(0), Duration::from_secs(60)), SLOW_COMPONENT);
    }
}
