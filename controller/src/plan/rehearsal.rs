//! What a run waits for and a plan does not: health, people, servers elsewhere. It is noted, and the run goes on as if it had come.
//!
//! What follows from it is never guessed: a step that takes a value of another step is not carried out.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use vela_api::status::ComponentStatus;
use vela_workflow::{Outcome, Reason, Step, Verdict};

/// A run that happens in a plan only.
#[derive(Debug, Default)]
pub(crate) struct Rehearsal {
    /// What it waits for is taken to have come. Without this nothing but effects outside of the cluster is left out.
    pub(crate) goes_on: bool,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    remarks: Vec<Remark>,
    /// Names of outputs that are known only when the run has come there.
    outputs: BTreeSet<String>,
}

/// What is to be known about a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Remark {
    /// The name of the step.
    pub(crate) step: String,
    /// What about it.
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What a plan does not do as a run does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", content = "detail", rename_all = "camelCase")]
pub(crate) enum What {
    /// Somebody has to resume it, or a time has to come.
    Suspends(String),
    /// It waits, for this.
    Waits(String),
    /// It would send something to a server.
    Calls(String),
    /// It runs this hook of a chart.
    RunsHook(String),
    /// It takes these outputs of other steps: what it does is known after the run.
    Unknown(String),
    /// It fails, and the run ends here.
    Fails(String),
}

impl What {
    /// Whether objects may be written that the plan does not show.
    pub(crate) const fn hides_writes(&self) -> bool {
        !matches!(self, Self::Suspends(_) | Self::RunsHook(_))
    }
}

impl Rehearsal {
    /// A run that does not wait.
    pub(crate) fn that_goes_on() -> Self {
        Self { goes_on: true, noted: Mutex::default() }
    }

    /// Everything that was noted.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        self.noted.lock().remarks.clone()
    }

    fn note(&self, step: &str, what: What) {
        let remark = Remark { step: step.to_owned(), what };
        let mut noted = self.noted.lock();
        if !noted.remarks.contains(&remark) {
            noted.remarks.push(remark);
        }
    }

    /// What a call to a server elsewhere is, if it is one: it is noted instead of made.
    pub(crate) fn leaves_out(
        &self,
        step: &str,
        (provider, function): (&str, &str),
        params: &Value,
    ) -> Option<String> {
        let text =
            |pointer: &str| params.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // The server only: addresses may hold secrets.
        let host = |address: &str| {
            let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
            let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
            rest.rsplit_once('@').map_or(rest, |(_, host)| host).to_owned()
        };
        let called = match (provider, function) {
            ("http" | "op", "do") => host(text("/url")),
            ("email" | "op", "send") => host(text("/from/host")),
            ("metrics" | "op", "promCheck") => host(text("/metricEndpoint")),
            _ => return None,
        };
        self.note(step, What::Calls(called.clone()));
        Some(called)
    }

    /// How a step ends that cannot be carried out, since it takes what is not known yet.
    pub(crate) fn before(&self, step: &Step) -> Option<Outcome> {
        if !self.goes_on {
            return None;
        }
        let taken: Vec<String> = {
            let outputs = &self.noted.lock().outputs;
            let is_of = |from: &str, output: &String| {
                from.strip_prefix(output.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            // An input without a key is only waited for.
            let inputs = step.inputs.iter().filter(|input| !input.parameter_key.is_empty());
            let inputs = inputs.map(|input| input.from.as_str());
            inputs
                .filter(|from| outputs.iter().any(|output| is_of(from, output)))
                .map(str::to_owned)
                .collect()
        };
        if taken.is_empty() {
            return None;
        }
        self.note(&step.name, What::Unknown(taken.join(", ")));
        Some(self.succeed(step, Outcome::succeeded()))
    }

    /// How a step that was attempted ends here.
    pub(crate) fn after(&self, step: &Step, outcome: Outcome) -> Outcome {
        if !self.goes_on {
            return outcome;
        }
        let what = match outcome.verdict {
            Verdict::Succeeded => None,
            Verdict::Suspend => Some(What::Suspends(outcome.message.clone())),
            Verdict::Wait => Some(What::Waits(outcome.message.clone())),
            Verdict::Fail(_) | Verdict::Error => {
                // The run ends here: nothing of what follows is done, and nothing is collected.
                self.note(&step.name, What::Fails(outcome.message.clone()));
                let verdict = match outcome.verdict {
                    Verdict::Error => Verdict::Fail(Reason::FailedAfterRetries),
                    ended => ended,
                };
                return Outcome { verdict, ..outcome };
            }
            // The end of the run, and what is tried again, are what they are.
            Verdict::Break | Verdict::Later(_) | Verdict::Away => return outcome,
        };
        if let Some(what) = what {
            let is_known = matches!(what, What::Waits(_)) && self.calls(&step.name);
            if !is_known {
                self.note(&step.name, what);
            }
        }
        self.succeed(step, outcome)
    }

    fn calls(&self, step: &str) -> bool {
        let noted = self.noted.lock();
        noted.remarks.iter().any(|known| known.step == step && matches!(known.what, What::Calls(_)))
    }

    /// The step is over: what it would leave is there, and not known.
    fn succeed(&self, step: &Step, outcome: Outcome) -> Outcome {
        let mut over = Outcome::succeeded();
        over.variables = outcome.variables;
        let mut noted = self.noted.lock();
        for output in &step.outputs {
            noted.outputs.insert(output.name.clone());
            if !over.variables.iter().any(|(name, _)| *name == output.name) {
                over.variables.push((output.name.clone(), Value::Null));
            }
        }
        over
    }

    /// A component that was just deployed, as if it had become healthy.
    pub(crate) fn heal(&self, status: &mut ComponentStatus, without_workload: bool) {
        if !self.goes_on {
            return;
        }
        status.healthy = true;
        status.workload_healthy |= !without_workload;
        status.traits.iter_mut().filter(|one| !one.pending).for_each(|one| one.healthy = true);
    }

    /// A hook of a chart runs; it is noted under the name of its component.
    pub(crate) fn runs_hook(&self, component: &str, hook: String) {
        self.note(component, What::RunsHook(hook));
    }

    /// Traits of a component are rendered once its workload is healthy: from what it says of itself then.
    pub(crate) fn renders_later(&self, component: &str) {
        if self.goes_on {
            self.note(component, What::Unknown("the status of its workload".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_workflow::{Input, Output};

    use super::*;

    fn step(name: &str, from: &str, output: &str) -> Step {
        let mut step = Step::new(name, "apply-object");
        if !from.is_empty() {
            step.inputs.push(Input { from: from.to_owned(), parameter_key: "a".to_owned() });
        }
        if !output.is_empty() {
            step.outputs.push(Output { name: output.to_owned(), value_from: "1".to_owned() });
        }
        step
    }

    #[test]
    fn what_takes_what_is_not_known_is_not_known_either() {
        let run = Rehearsal::that_goes_on();
        let first = run.after(&step("first", "", "x"), Outcome::of(Verdict::Wait, "w"));
        assert_eq!(first.verdict, Verdict::Succeeded);
        assert_eq!(first.variables, [("x".to_owned(), Value::Null)]);
        for (from, known) in [("x", false), ("x.a", false), ("xy", true), ("context.name", true)] {
            assert_eq!(run.before(&step("next", from, "")).is_none(), known, "{from}");
        }
        assert!(run.before(&step("next", "x", "y")).is_some());
        assert!(run.before(&step("last", "y", "")).is_some());
    }

    #[test]
    fn a_run_of_today_waits_and_calls_nobody() {
        let run = Rehearsal::default();
        let wait = Outcome::of(Verdict::Wait, "w");
        assert_eq!(run.after(&step("a", "", ""), wait.clone()), wait);
        let params = json!({"url": "https://user:secret@hooks.example.com/T0/key?x=y"});
        assert_eq!(run.leaves_out("a", ("http", "do"), &params).unwrap(), "hooks.example.com");
        assert_eq!(run.leaves_out("a", ("kube", "apply"), &params), None);
        assert_eq!(run.remarks().len(), 1);
    }

    #[test]
    fn what_fails_ends_the_run() {
        let run = Rehearsal::that_goes_on();
        let fails = Outcome::of(Verdict::Error, "no");
        let ended = run.after(&step("a", "", ""), fails).verdict;
        assert_eq!(ended, Verdict::Fail(Reason::FailedAfterRetries));
        assert_eq!(run.remarks()[0].what, What::Fails("no".to_owned()));
        let ends = Outcome::of(Verdict::Break, "");
        assert_eq!(run.after(&step("b", "", ""), ends.clone()), ends);
    }
}
