//! Steps with a template: the template is evaluated on the pool, the calls it makes are carried out here.
//!
//! Evaluation is synchronous and calls are not, so they take turns: the template is evaluated with the answers known so
//! far until it makes a call without one; that call is carried out, and the template is evaluated again. Evaluating is
//! far cheaper than any call, and each call is made once a reconcile.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vela_workflow::{
    Attempt, Notes, Outcome, ProviderCall, Providers, Reason, Reply, SUSPEND, StepRun, Template,
    Verdict, effects,
};

use crate::application::session::Session;
use crate::evaluation::{EvaluationScope, NotEvaluated};
use crate::messages;

use super::calls::{CallOutcome, Calling, Pending, Seen};
use super::diagnosis;
use super::run::Run;
use super::secrets::Secrets;
use super::store::Store;
use super::together::Prepared;

/// Calls one step may make in one reconcile; real templates make a handful.
const MAX_CALLS: usize = 200;

/// Answers that are known, in the order of the calls.
struct KnownReplies {
    replies: Vec<Reply>,
    next: usize,
    pending: Option<Pending>,
}

impl Providers for KnownReplies {
    fn call(&mut self, call: &ProviderCall<'_>) -> Reply {
        if let Some(reply) = self.replies.get(self.next) {
            self.next += 1;
            return reply.clone();
        }
        self.pending = Some(Pending {
            // The evaluation ends at this call, which is carried out in between.
            provider: call.provider.to_owned(),
            function: call.function.to_owned(),
            path: call.path.to_owned(),
            params: call.params.clone(),
            patch: call.patch.map(str::to_owned),
        });
        Reply::Later
    }
}

/// What every evaluation of an attempt starts from.
struct Attempted {
    program: Arc<Template>,
    id: String,
    previous: Option<vela_workflow::Phase>,
    context: Value,
    parameter: Value,
    outputs: Vec<vela_workflow::Output>,
    variables: Map<String, Value>,
    notes: Notes,
    dump: bool,
}

/// A step with what it is given.
pub(super) struct StepInput<'a> {
    pub(super) step: &'a vela_workflow::Step,
    pub(super) attempt: &'a Attempt,
    /// Its properties with the inputs in them.
    pub(super) parameter: Map<String, Value>,
    /// What earlier steps left.
    pub(super) variables: Map<String, Value>,
    /// The component it applies, if that is prepared.
    pub(super) prepared: Option<Prepared>,
}

/// Runs a step once.
pub(super) async fn run(
    session: &mut Session<'_>,
    run: &Run<'_>,
    given: StepInput<'_>,
    store: &mut Store<'_>,
    seen: &mut Seen,
    secrets: &mut Secrets,
) -> Outcome {
    let StepInput { step, attempt, parameter, variables, prepared: _ } = given;
    // An effect outside that has happened is not repeated, whatever the step says now.
    if let Some(outcome) = effects::finished(&store.saved().notes, &attempt.id) {
        return outcome;
    }
    let program = match program(session, run, &step.kind).await {
        Ok(program) => program,
        Err(outcome) => return outcome,
    };
    let mut context = run.context.clone();
    if let Some(context) = context.as_object_mut() {
        context.insert("stepName".to_owned(), json!(attempt.name));
        context.insert("stepSessionID".to_owned(), json!(attempt.id));
        if let Some(group) = &attempt.group {
            context.insert("stepGroupName".to_owned(), json!(group));
        }
    }
    let attempted = Attempted {
        program,
        id: attempt.id.clone(),
        previous: attempt.previous.as_ref().map(|p| p.phase),
        context,
        parameter: Value::Object(parameter),
        outputs: step.outputs.clone(),
        variables,
        notes: store.saved().notes.clone(),
        dump: step.kind != "suspend" && run.debugged,
    };
    let mut attempted = Arc::new(attempted);
    let mut replies = Vec::new();
    let mut calling = Calling {
        session,
        run,
        store,
        seen,
        id: &attempt.id,
        step: &attempt.name,
        secrets,
        touched: Vec::new(),
        long: super::run::takes_long(attempt),
    };
    // Each round answers one more call.
    while replies.len() < MAX_CALLS {
        let evaluated = evaluate(calling.session, &attempted, &replies).await;
        let Evaluated { mut outcome, pending, notes, dump } = match evaluated {
            Ok(evaluated) => evaluated,
            Err(error) => return Outcome::of(Verdict::Error, error.to_string()),
        };
        let Some(call) = pending else {
            if outcome.verdict == Verdict::Wait && calling.long {
                let reason = diagnosis::diagnose_live(calling.session, &calling.touched).await;
                outcome.message = messages::because(&outcome.message, &reason);
            }
            // What this attempt asked is asked again by the next one.
            calling.session.ctx.calls.keep(&calling.session.key(), |step| step != attempt.id);
            outcome.message = calling.redacted(&outcome.message);
            calling.seen.dump = dump;
            let saved = &mut calling.store.saved_mut().notes;
            saved.extend(notes);
            effects::finish(saved, &attempt.id, &outcome);
            return outcome;
        };
        match calling.answer(&call).await {
            CallOutcome::Finished(outcome) => return outcome,
            CallOutcome::Waits(what) => {
                return Outcome::of(Verdict::Wait, messages::waits_for_answer(&what));
            }
            CallOutcome::NoRoom => {
                return Outcome::of(Verdict::Later(None), messages::TOO_MANY_CALLS);
            }
            CallOutcome::Reply(reply) => replies.push(reply),
        }
        if calling.store.saved().notes != attempted.notes {
            // calls note things too; the next evaluation starts from them
            let notes = calling.store.saved().notes.clone();
            attempted = Arc::new(Attempted {
                notes,
                program: Arc::clone(&attempted.program),
                id: attempted.id.clone(),
                previous: attempted.previous,
                context: attempted.context.clone(),
                parameter: attempted.parameter.clone(),
                outputs: attempted.outputs.clone(),
                variables: attempted.variables.clone(),
                dump: attempted.dump,
            });
        }
    }
    Outcome::of(Verdict::Fail(Reason::Rendering), messages::too_many_calls(MAX_CALLS))
}

/// The compiled template of a step type.
async fn program(
    session: &Session<'_>,
    run: &Run<'_>,
    kind: &str,
) -> Result<Arc<Template>, Outcome> {
    let shared = &session.ctx.workflow;
    let definition = run.used.steps.get(kind);
    let schematic = definition.and_then(|d| d.spec.schematic.as_ref());
    let text = match schematic.and_then(|s| s.cue.as_ref()) {
        _ if kind == "suspend" => SUSPEND,
        Some(cue) => cue.template.as_str(),
        None => {
            let text = messages::step_without_template(kind);
            return Err(Outcome::of(Verdict::Fail(Reason::Rendering), text));
        }
    };
    // Compiled once for all Applications: the key is the text itself, so a changed definition is
    // another entry.
    if let Some(program) = shared.compiled(text) {
        return Ok(program);
    }
    let text: Arc<str> = text.into();
    let template = Arc::clone(&text);
    // Unknown packages are named before the compiler stumbles over them.
    let job = move |_: &EvaluationScope| match vela_workflow::missing(&template).into_iter().next()
    {
        Some(missing) => Err(Outcome::of(Verdict::Fail(Reason::Rendering), missing)),
        None => vela_workflow::compile(&template)
            .map_err(|errors| Outcome::of(Verdict::Error, errors.to_string().trim_end())),
    };
    match session.ctx.cue.run(job).await {
        Ok(Ok(program)) => {
            let program = Arc::new(program);
            shared.keep(text, Arc::clone(&program));
            Ok(program)
        }
        Ok(Err(outcome)) => Err(outcome),
        Err(error) => Err(Outcome::of(Verdict::Error, error.to_string())),
    }
}

/// What an evaluation came to.
struct Evaluated {
    outcome: Outcome,
    /// The call it ended at.
    pending: Option<Pending>,
    notes: Notes,
    dump: Option<String>,
}

/// One evaluation with the answers known so far.
async fn evaluate(
    session: &Session<'_>,
    attempted: &Arc<Attempted>,
    replies: &[Reply],
) -> Result<Evaluated, NotEvaluated> {
    let attempted = Arc::clone(attempted);
    let replies = replies.to_vec();
    let job = move |scope: &EvaluationScope| {
        let mut notes = attempted.notes.clone();
        let mut known = KnownReplies { replies, next: 0, pending: None };
        let step = StepRun {
            id: &attempted.id,
            previous: attempted.previous,
            context: &attempted.context,
            parameter: &attempted.parameter,
            outputs: &attempted.outputs,
            now: Timestamp::now(),
            limits: &scope.limits,
            dump: attempted.dump,
        };
        let variables = &attempted.variables;
        let result =
            vela_workflow::run(&attempted.program, &step, variables, &mut notes, &mut known);
        let (outcome, dump) = (result.outcome, result.dump);
        Evaluated { outcome, pending: known.pending, notes, dump }
    };
    session.ctx.cue.run(job).await
}
