//! Running one step: its template is evaluated with its parameter and the context as data; calls it
//! makes are answered here (control, text, time) or by the caller's [`Providers`].

mod own;
mod state;

use std::collections::BTreeMap;

use cue::{Answer, Call, Evaluation, Host, Limits, Program};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::messages;
use crate::model::Output;
use crate::pass::{Outcome, Verdict};
use crate::status::{Phase, Reason};

use own::{Own, is_own};
use state::State;

/// Answers the calls that reach outside: objects, requests, components.
pub trait Providers {
    /// Answers one call.
    fn call(&mut self, call: &ProviderCall<'_>) -> Reply;
}

/// A call for [`Providers`].
#[derive(Debug)]
pub struct ProviderCall<'a> {
    /// Package that answers it: `kube`, `http`, `oam`, ...; `op` for all of the older ones.
    pub provider: &'a str,
    /// What to do.
    pub function: &'a str,
    /// Where in the template.
    pub path: &'a str,
    /// Its parameters, whichever style they are written in.
    pub params: &'a Value,
    /// The field `patch` of the parameters as CUE text, with the comments that say how its lists are
    /// merged; only where a function patches.
    pub patch: Option<&'a str>,
}

/// What a provider did.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Done; the template continues with these results.
    Returns(Value),
    /// Done, and the step is to be checked again; the template continues.
    Wait(String),
    /// Done with results, and the step is to be checked again.
    ReturnsAndWait(Value, String),
    /// The attempt failed and is repeated.
    Error(String),
    /// The step fails for good.
    Fail(String),
    /// There is no such function.
    Unknown,
    /// Not answered yet: the evaluation ends here and is repeated once the answer is there.
    Later,
}

/// What a step needs to run.
#[derive(Debug)]
pub struct StepRun<'a> {
    /// Identity of this run of the step.
    pub id: &'a str,
    /// The phase recorded before.
    pub previous: Option<Phase>,
    /// `context` with the step's own fields.
    pub context: &'a Value,
    /// `parameter` with the inputs in it.
    pub parameter: &'a Value,
    /// The outputs it must leave.
    pub outputs: &'a [Output],
    /// The time.
    pub now: Timestamp,
    /// Budget of the evaluation.
    pub limits: &'a Limits,
    /// Whether the evaluated template is wanted as text.
    pub dump: bool,
}

/// What steps leave in addition to the variables: timestamps of suspended steps, where logs are.
pub type Notes = BTreeMap<String, String>;

/// One call a step made, for tests and for the debug dump.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// Package that answered it.
    pub provider: String,
    /// What was done.
    pub function: String,
    /// Where in the template.
    pub path: String,
    /// Its parameters; `None` where they were not concrete.
    pub params: Option<Value>,
    /// Its results.
    pub returned: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether the engine answered it itself.
    pub own: bool,
}

/// What a step did.
#[derive(Debug)]
pub struct StepResult {
    /// For the pass.
    pub outcome: Outcome,
    /// The calls it made, in order.
    pub trace: Vec<Traced>,
    /// Whether something asked to wait.
    pub waiting: bool,
    /// The evaluated template as CUE text, if it was asked for.
    pub dump: Option<String>,
}

/// Compiles the template of a step. `context` and `parameter` are names in it whether or not it
/// declares them.
///
/// # Errors
/// Parse and compile errors, all of them.
pub fn compile(template: &str) -> Result<Program, cue::Errors> {
    let files = [("template", template), ("step", "context: _\nparameter: _\n")];
    Program::compile_files(&files, &crate::packages())
}

/// Runs a step.
pub fn run(
    program: &Program,
    step: &StepRun<'_>,
    variables: &Map<String, Value>,
    notes: &mut Notes,
    providers: &mut dyn Providers,
) -> StepResult {
    let context = cue::Value::from(step.context);
    let parameter = cue::Value::from(step.parameter);
    let mut host = StepHost {
        step,
        variables,
        put: Map::new(),
        notes,
        providers,
        state: State::default(),
        trace: Vec::new(),
        parameter_fits: false,
    };
    let inputs = [("context", &context), ("parameter", &parameter)];
    let mut evaluation = program.evaluate_with_host(&inputs, step.limits, &mut host);
    let StepHost { mut state, trace, put, .. } = host;
    let root = evaluation.root();
    if !state.stopped
        && let Err(errors) = evaluation.validate(root, false)
    {
        state.error(Reason::Execute, errors.to_string().trim_end());
    }
    let mut variables: Vec<(String, Value)> = put.into_iter().collect();
    let verdict = state.verdict();
    let finished = !matches!(verdict, Verdict::Wait | Verdict::Suspend | Verdict::Error);
    if finished {
        for output in step.outputs {
            let value = crate::data::output(&mut evaluation, &output.value_from, step.limits);
            let value = value.unwrap_or_else(|error| {
                state.message = error.to_string();
                Value::Null
            });
            variables.push((output.name.clone(), value));
        }
    }
    let dump = step.dump.then(|| {
        let mut text = String::new();
        crate::marked::print(&mut evaluation, root, 0, &mut text);
        crate::print::formatted(text)
    });
    StepResult {
        outcome: Outcome { verdict, message: state.message, variables },
        trace,
        waiting: state.waiting,
        dump,
    }
}

struct StepHost<'a> {
    step: &'a StepRun<'a>,
    variables: &'a Map<String, Value>,
    put: Map<String, Value>,
    notes: &'a mut Notes,
    providers: &'a mut dyn Providers,
    state: State,
    trace: Vec<Traced>,
    /// The parameter was found to be what the template takes.
    parameter_fits: bool,
}

impl Host for StepHost<'_> {
    fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer {
        let path = path_text(&call.path);
        let legacy = call.provider == "op";
        if let Some(answer) = self.stop_at_bad_parameter(evaluation, &call.name) {
            return answer;
        }
        let mut traced = Traced {
            provider: call.provider.to_string(),
            function: call.name.to_string(),
            path: path.clone(),
            params: None,
            returned: None,
            error: None,
            own: false,
        };
        let params = match params(evaluation, call, legacy) {
            Ok(params) => params,
            Err(errors) => {
                let reason = messages::not_concrete(errors.to_string().trim_end());
                traced.own = is_own(&call.provider, &call.name);
                traced.error = traced.own.then(|| reason.clone());
                self.trace.push(traced);
                return self.stop_with_error(&path, &reason);
            }
        };
        traced.params = Some(params.clone());
        let label = call.path.last().map(|l| l.as_str()).unwrap_or_default();
        if let Some(own) = self.own(&call.provider, &call.name, label, &params) {
            traced.own = true;
            let answer = self.answer_own(own, &mut traced, legacy);
            self.trace.push(traced);
            return answer;
        }
        let patch = matches!(&*call.name, "patch" | "patch-k8s-object").then(|| {
            let path = if legacy { "patch" } else { "$params.patch" };
            let mut text = String::new();
            if let Some(node) = evaluation.lookup(call.node, path) {
                crate::marked::print(evaluation, node, 0, &mut text);
            }
            text
        });
        let reply = self.providers.call(&ProviderCall {
            patch: patch.as_deref(),
            provider: &call.provider,
            function: &call.name,
            path: &path,
            params: &params,
        });
        // A call whose answer comes later leaves no trace: it is repeated.
        let is_over = reply != Reply::Later;
        let answer = self.answer_outside(reply, &mut traced, legacy);
        if is_over {
            self.trace.push(traced);
        }
        answer
    }
}

impl StepHost<'_> {
    /// What a function of the engine's own means for the evaluation.
    fn answer_own(&mut self, own: Own, traced: &mut Traced, legacy: bool) -> Answer {
        match own {
            Own::Nothing => Answer::Nothing,
            Own::Returns(value) => returned(value, traced, legacy),
            Own::Stop => {
                // the action said why; the call itself has no error of its own
                traced.error = Some(String::new());
                self.state.stopped = true;
                Answer::Stop
            }
            Own::Error(reason) => self.failed(reason, traced),
        }
    }

    /// What a provider's reply means for the evaluation.
    fn answer_outside(&mut self, reply: Reply, traced: &mut Traced, legacy: bool) -> Answer {
        match reply {
            Reply::Returns(value) if value.is_null() => Answer::Nothing,
            Reply::Returns(value) => returned(value, traced, legacy),
            Reply::Wait(message) => {
                self.state.wait(&message);
                Answer::Nothing
            }
            Reply::ReturnsAndWait(value, message) => {
                self.state.wait(&message);
                returned(value, traced, legacy)
            }
            Reply::Error(reason) => self.failed(reason, traced),
            Reply::Fail(message) => {
                self.state.fail(&message);
                self.state.stopped = true;
                Answer::Stop
            }
            Reply::Later => {
                self.state.stopped = true;
                Answer::Stop
            }
            Reply::Unknown => {
                let reason = messages::function_unknown(&traced.provider, &traced.function);
                self.failed(reason, traced)
            }
        }
    }

    fn failed(&mut self, reason: String, traced: &mut Traced) -> Answer {
        let answer = self.stop_with_error(&traced.path, &reason);
        traced.error = Some(reason);
        answer
    }

    /// Nothing is done for a step whose parameter its template does not take. A template that itself says what is wrong
    /// with it has its say.
    fn stop_at_bad_parameter(
        &mut self,
        evaluation: &mut Evaluation,
        function: &str,
    ) -> Option<Answer> {
        if self.parameter_fits || function == "fail" {
            return None;
        }
        let root = evaluation.root();
        if let Some(parameter) = evaluation.lookup(root, "parameter")
            && let Err(errors) = evaluation.validate(parameter, false)
        {
            self.state.error(Reason::Execute, errors.to_string().trim_end());
            self.state.stopped = true;
            return Some(Answer::Stop);
        }
        self.parameter_fits = true;
        None
    }

    fn stop_with_error(&mut self, path: &str, reason: &str) -> Answer {
        self.state.error(Reason::Execute, &messages::call_failed(path, reason));
        self.state.stopped = true;
        Answer::Stop
    }
}

/// The parameters of a call as data. Everything regular in the call must be concrete.
fn params(evaluation: &mut Evaluation, call: &Call, legacy: bool) -> Result<Value, cue::Errors> {
    let whole = evaluation.export(call.node)?.to_json();
    if legacy {
        return Ok(whole);
    }
    Ok(whole.get("$params").cloned().unwrap_or_else(|| json!({})))
}

fn returned(value: Value, traced: &mut Traced, legacy: bool) -> Answer {
    let answer = Answer::Unify(wrap(&value, legacy));
    traced.returned = Some(value);
    answer
}

/// Results lie in `$returns`, or in older packages among the parameters.
fn wrap(value: &Value, legacy: bool) -> cue::Value {
    if legacy { cue::Value::from(value) } else { cue::Value::from(&json!({ "$returns": value })) }
}

/// A path as written in CUE.
fn path_text<L: AsRef<str>>(labels: &[L]) -> String {
    let mut text = String::new();
    for label in labels {
        let label = label.as_ref();
        let plain = label.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$' | '#'))
            && !label.is_empty()
            && (!label.starts_with(|c: char| c.is_ascii_digit())
                || label.bytes().all(|b| b.is_ascii_digit()));
        if !text.is_empty() {
            text.push('.');
        }
        if plain {
            text.push_str(label);
        } else {
            text.push_str(&format!("{label:?}"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
