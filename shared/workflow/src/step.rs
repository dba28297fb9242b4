//! Running one step: its template is evaluated with its parameter and the context as data; calls it
//! makes are answered here (control, text, time) or by the caller's [`Providers`].

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cue::{Answer, Call, Evaluation, Host, Limits, Program};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vela_gocompat::duration::Duration as GoDuration;
use vela_gocompat::time::{self, GoTime};

use crate::messages;
use crate::model::Output;
use crate::pass::{Outcome, Verdict};
use crate::status::{Phase, Reason};

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
    /// Done; the template goes on with these results.
    Returns(Value),
    /// Done, and the step is to be looked at again; the template goes on.
    Wait(String),
    /// Done with results, and the step is to be looked at again.
    ReturnsAndWait(Value, String),
    /// The attempt failed and is repeated.
    Error(String),
    /// The step fails for good.
    Fail(String),
    /// There is no such function.
    Unknown,
    /// Not answered yet: the evaluation ends here and is made again once the answer is there.
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

/// What steps leave beside the variables: timestamps of suspended steps, where logs are.
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
            let value = value.unwrap_or_else(|reason| {
                state.message = reason;
                Value::Null
            });
            variables.push((output.name.clone(), value));
        }
    }
    let dump = step.dump.then(|| {
        let mut text = String::new();
        crate::marked::print(&mut evaluation, root, 0, &mut text);
        crate::store::formatted(text)
    });
    StepResult {
        outcome: Outcome { verdict, message: state.message, variables },
        trace,
        waiting: state.waiting,
        dump,
    }
}

/// How a step stands while its template runs: later actions count less than failures.
#[derive(Debug, Default)]
struct State {
    phase: Option<Phase>,
    reason: Reason,
    message: String,
    waiting: bool,
    broken: bool,
    stopped: bool,
}

impl State {
    fn say(&mut self, message: &str) {
        if !message.is_empty() {
            message.clone_into(&mut self.message);
        }
    }

    fn wait(&mut self, message: &str) {
        self.waiting = true;
        if !matches!(self.phase, Some(Phase::Failed | Phase::Suspending)) {
            self.phase = Some(Phase::Running);
            self.reason = Reason::Wait;
            self.say(message);
        }
    }

    fn suspend(&mut self, message: &str) {
        if self.phase != Some(Phase::Failed) {
            self.phase = Some(Phase::Suspending);
            self.reason = Reason::Suspend;
            self.say(message);
        }
    }

    fn fail(&mut self, message: &str) {
        self.phase = Some(Phase::Failed);
        self.reason = Reason::Action;
        self.say(message);
    }

    fn error(&mut self, reason: Reason, message: &str) {
        self.waiting = true;
        self.phase = Some(Phase::Failed);
        if self.reason == Reason::None || self.reason == Reason::Wait {
            self.reason = reason;
        }
        message.clone_into(&mut self.message);
    }

    fn verdict(&self) -> Verdict {
        match self.phase {
            _ if self.broken => Verdict::Break,
            None | Some(Phase::Succeeded | Phase::Skipped | Phase::Pending) => Verdict::Succeeded,
            Some(Phase::Running) => Verdict::Wait,
            Some(Phase::Suspending) => Verdict::Suspend,
            Some(Phase::Failed) if self.reason == Reason::Execute => Verdict::Error,
            Some(Phase::Failed) => Verdict::Fail(self.reason),
        }
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

/// Whether the engine answers a function itself.
fn is_own(provider: &str, function: &str) -> bool {
    let control = matches!(function, "wait" | "break" | "fail" | "message" | "suspend" | "var");
    match provider {
        "builtin" => control,
        "util" => function == "string",
        "time" => matches!(function, "timestamp" | "date"),
        "op" => control || matches!(function, "string" | "timestamp" | "date"),
        _ => false,
    }
}

/// What the engine's own functions do.
enum Own {
    Returns(Value),
    Nothing,
    Stop,
    Error(String),
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
            Err(reason) => {
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
            let answer = match own {
                Own::Nothing => Answer::Nothing,
                Own::Returns(value) => {
                    traced.returned = Some(value.clone());
                    Answer::Unify(wrap(&value, legacy))
                }
                Own::Stop => {
                    // the action said why; the call itself has no error of its own
                    traced.error = Some(String::new());
                    self.state.stopped = true;
                    Answer::Stop
                }
                Own::Error(reason) => {
                    traced.error = Some(reason.clone());
                    self.stop_with_error(&path, &reason)
                }
            };
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
        let answer = match reply {
            Reply::Returns(value) if value.is_null() => Answer::Nothing,
            Reply::Returns(value) => {
                traced.returned = Some(value.clone());
                Answer::Unify(wrap(&value, legacy))
            }
            Reply::Wait(message) => {
                self.state.wait(&message);
                Answer::Nothing
            }
            Reply::ReturnsAndWait(value, message) => {
                traced.returned = Some(value.clone());
                self.state.wait(&message);
                Answer::Unify(wrap(&value, legacy))
            }
            Reply::Error(reason) => {
                traced.error = Some(reason.clone());
                self.stop_with_error(&path, &reason)
            }
            Reply::Fail(message) => {
                self.state.fail(&message);
                self.state.stopped = true;
                Answer::Stop
            }
            Reply::Later => {
                self.state.stopped = true;
                return Answer::Stop;
            }
            Reply::Unknown => {
                let reason = messages::function_unknown(&call.provider, &call.name);
                traced.error = Some(reason.clone());
                self.stop_with_error(&path, &reason)
            }
        };
        self.trace.push(traced);
        answer
    }
}

impl StepHost<'_> {
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

    /// The functions that need nothing from outside.
    fn own(&mut self, provider: &str, function: &str, label: &str, params: &Value) -> Option<Own> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let own = match (provider, function) {
            ("builtin" | "op", "wait") => {
                if params.get("continue").and_then(Value::as_bool).unwrap_or(false) {
                    Own::Nothing
                } else {
                    self.state.wait(text("message"));
                    Own::Stop
                }
            }
            ("builtin" | "op", "break") => {
                self.state.broken = true;
                self.state.say(text("message"));
                Own::Stop
            }
            ("builtin" | "op", "fail") => {
                self.state.fail(text("message"));
                Own::Stop
            }
            ("builtin" | "op", "message") => {
                self.state.say(text("message"));
                Own::Nothing
            }
            ("builtin" | "op", "suspend") => self.suspend(label, text("duration")),
            ("builtin" | "op", "var") => self.variable(params),
            ("util" | "op", "string") => {
                // bytes travel as base64
                match BASE64.decode(text("bt")) {
                    Ok(bytes) => Own::Returns(json!({"str": String::from_utf8_lossy(&bytes)})),
                    Err(_) => Own::Error(messages::NOT_BASE64.to_owned()),
                }
            }
            ("time" | "op", "timestamp") => timestamp(text("date"), text("layout")),
            ("time" | "op", "date") => {
                date(params.get("timestamp").and_then(Value::as_i64), text("layout"))
            }
            _ => return None,
        };
        Some(own)
    }

    /// Halts until a person resumes, or until a time that is noted at the first look.
    fn suspend(&mut self, label: &str, duration: &str) -> Own {
        let resumed_by_hand = self.step.previous == Some(Phase::Running);
        let noted = format!("{}.{label}.suspendTimeStamp", self.step.id);
        if resumed_by_hand && self.notes.contains_key(&noted) {
            return Own::Nothing;
        }
        let timer = format!("{}.resumeTimeStamp", self.step.id);
        if let Some(until) = self.notes.get(&timer) {
            if until.parse::<Timestamp>().is_ok_and(|until| self.step.now >= until) {
                return Own::Nothing;
            }
        } else if !duration.is_empty() {
            let Ok(length) = duration.parse::<GoDuration>() else {
                return Own::Error(messages::suspend_duration(duration));
            };
            let length = jiff::SignedDuration::from_nanos(length.as_nanos());
            let until = self.step.now.saturating_add(length).unwrap_or(Timestamp::MAX);
            self.notes.insert(timer, whole_seconds(until));
        }
        self.notes.entry(noted).or_insert_with(|| whole_seconds(self.step.now));
        self.state.suspend(&messages::suspended_by(label));
        Own::Stop
    }

    fn variable(&mut self, params: &Value) -> Own {
        let path = params.get("path").and_then(Value::as_str).unwrap_or_default();
        if params.get("method").and_then(Value::as_str) == Some("Put") {
            let value = params.get("value").cloned().unwrap_or(Value::Null);
            return match crate::data::set_input(&mut self.put, path, value) {
                Ok(()) => Own::Nothing,
                Err(reason) => Own::Error(reason),
            };
        }
        let found = crate::data::at_path(&self.put, path)
            .or_else(|| crate::data::at_path(self.variables, path));
        match found {
            Some(value) => Own::Returns(json!({ "value": value })),
            None => Own::Error(messages::variable_not_found(path)),
        }
    }
}

/// The parameters of a call as data. Everything regular in the call must be concrete.
fn params(evaluation: &mut Evaluation, call: &Call, legacy: bool) -> Result<Value, String> {
    let exported = evaluation
        .export(call.node)
        .map_err(|errors| messages::not_concrete(errors.to_string().trim_end()))?;
    let whole = exported.to_json();
    if legacy {
        return Ok(whole);
    }
    Ok(whole.get("$params").cloned().unwrap_or_else(|| json!({})))
}

/// Results lie in `$returns`, or in older packages beside the parameters.
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

fn timestamp(date: &str, layout: &str) -> Own {
    if date.is_empty() {
        return Own::Error(messages::EMPTY_DATE.to_owned());
    }
    let layout_text = if layout.is_empty() { RFC3339 } else { layout };
    match time::parse(layout_text, date) {
        Ok(time) => Own::Returns(json!({ "timestamp": time.unix().0 })),
        Err(error) => Own::Error(error.to_string()),
    }
}

fn date(seconds: Option<i64>, layout: &str) -> Own {
    let time = seconds.filter(|s| Timestamp::from_second(*s).is_ok());
    let Some(time) = time else { return Own::Error(messages::NOT_A_TIMESTAMP.to_owned()) };
    let wanted = if layout.is_empty() { RFC3339 } else { layout };
    Own::Returns(json!({ "date": time::format(&GoTime::from_unix(time, 0).utc(), wanted) }))
}

/// Go's layout of RFC 3339.
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Outside(Vec<(String, Value)>);

    impl Providers for Outside {
        fn call(&mut self, call: &ProviderCall<'_>) -> Reply {
            self.0.push((format!("{}.{}", call.provider, call.function), call.params.clone()));
            match call.function {
                "read" => Reply::Returns(json!({"value": {"status": {"ready": true}}})),
                "deploy" => Reply::Wait("wait healthy".into()),
                "apply" => Reply::Error("the server said no".into()),
                _ => Reply::Unknown,
            }
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn run_at(
        template: &str,
        seconds: i64,
        previous: Option<Phase>,
        notes: &mut Notes,
    ) -> (String, Outside) {
        let program = compile(template).unwrap();
        let limits = Limits::default();
        let step = StepRun {
            id: "id",
            previous,
            context: &json!({"name": "app"}),
            parameter: &json!({"n": 2}),
            outputs: &[],
            now: at(seconds),
            limits: &limits,
            dump: false,
        };
        let mut outside = Outside(Vec::new());
        let result = run(&program, &step, &Map::new(), notes, &mut outside);
        (format!("{:?}: {}", result.outcome.verdict, result.outcome.message), outside)
    }

    fn run_once(template: &str) -> (String, Vec<String>) {
        let (verdict, outside) = run_at(template, 0, None, &mut Notes::new());
        (verdict, outside.0.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn results_feed_later_calls() {
        let (verdict, calls) = run_once(
            "import (\"vela/kube\", \"vela/builtin\")\n\
             r: kube.#Read & {$params: value: {kind: \"A\"}}\n\
             w: builtin.#ConditionalWait & {$params: continue: r.$returns.value.status.ready}\n\
             m: builtin.#Message & {$params: message: \"n is \\(parameter.n) in \\(context.name)\"}\n",
        );
        assert_eq!((verdict.as_str(), calls.len()), ("Succeeded: n is 2 in app", 1));
    }

    #[test]
    fn what_a_step_can_come_to() {
        let cases = [
            ("builtin.#Fail & {$params: message: \"no\"}", "Fail(Action): no"),
            ("builtin.#Break & {$params: message: \"enough\"}", "Break: enough"),
            ("builtin.#ConditionalWait & {$params: message: \"soon\"}", "Wait: soon"),
            (
                "kube.#Apply & {$params: value: {}}",
                "Error: function call error for a: the server said no",
            ),
            (
                "multicluster.#Deploy & {$params: {policies: [], parallelism: 1, ignoreTerraformComponent: true}}",
                "Wait: wait healthy",
            ),
            (
                "{#do: \"dance\", #provider: \"kube\"}",
                "Error: function call error for a: function dance not found in provider kube",
            ),
        ];
        for (call, expected) in cases {
            let template = format!(
                "import (\"vela/kube\", \"vela/builtin\", \"vela/multicluster\")\n_used: [kube.#Read.#do, builtin.#Fail.#do, multicluster.#Deploy.#do]\na: {call}\n"
            );
            assert_eq!(run_once(&template).0, expected);
        }
    }

    #[test]
    fn nobody_is_called_for_a_parameter_that_does_not_fit() {
        let bad = "parameter: n: string\n";
        let apply = "import \"vela/kube\"\na: kube.#Apply & {$params: value: {kind: \"A\"}}\n";
        let (verdict, calls) = run_once(&format!("{apply}{bad}"));
        assert!(verdict.starts_with("Error: ") && verdict.contains("parameter.n"), "{verdict}");
        assert_eq!(calls.len(), 0);
        // a template that checks its parameter itself has the last word
        let own =
            "import \"vela/builtin\"\na: builtin.#Fail & {$params: message: \"n is a name\"}\n";
        assert_eq!(run_once(&format!("{own}{bad}")).0, "Fail(Action): n is a name");
    }

    #[test]
    fn nothing_runs_after_a_stop() {
        let (verdict, calls) = run_once(
            "import (\"vela/kube\", \"vela/builtin\")\n\
             a: builtin.#ConditionalWait & {$params: continue: false}\n\
             b: kube.#Apply & {$params: value: {}}\n",
        );
        assert_eq!((verdict.as_str(), calls.len()), ("Wait: ", 0));
    }

    #[test]
    fn a_suspension_ends_by_hand_or_by_time() {
        let template =
            "import \"vela/builtin\"\ns: builtin.#Suspend & {$params: duration: \"30s\"}\n";
        let mut notes = Notes::new();
        assert_eq!(run_at(template, 0, None, &mut notes).0, "Suspend: Suspended by field s");
        assert_eq!(notes.len(), 2);
        assert_eq!(
            run_at(template, 10, Some(Phase::Suspending), &mut notes).0,
            "Suspend: Suspended by field s"
        );
        assert_eq!(run_at(template, 30, Some(Phase::Suspending), &mut notes).0, "Succeeded: ");
        // resumed early: the timer does not halt it again
        assert_eq!(run_at(template, 12, Some(Phase::Running), &mut notes).0, "Succeeded: ");
        let bad = "import \"vela/builtin\"\ns: builtin.#Suspend & {$params: duration: \"soon\"}\n";
        assert!(run_at(bad, 0, None, &mut Notes::new()).0.starts_with("Error: "));
    }
}
