//! Whether a step runs now: its condition, its time, and what it waits for.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use vela_gocompat::duration::Duration as GoDuration;

use crate::condition::{ConditionError, Question};
use crate::data::at_path;
use crate::messages;
use crate::model::{If, Mode, Step};
use crate::status::{Phase, Reason, StepStatus};

use super::{Attempt, Gate, Pass, StepIndex, saturating_add};

/// A step of which it cannot be said whether it runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum PreCheckError {
    #[error(transparent)]
    Condition(ConditionError),
    #[error("{}", messages::invalid_timeout(.text))]
    Timeout { text: String },
}

impl<'a> Pass<'a> {
    pub(super) fn gate(
        &self,
        step_index: StepIndex,
        step: &'a Step,
        mode: Mode,
        parent: Option<(bool, bool)>,
    ) -> Gate {
        let skip = |message: String| Gate::Skip { message };
        if let Some((true, _)) = parent {
            return skip(String::new());
        }
        match self.should_run(step_index, step, mode) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return skip(String::new()),
            Ok(None) => return Gate::Ask(self.question(step_index, step)),
            Err(error) => return skip(messages::pre_check(&error.to_string())),
        }
        let inherited = parent.is_some_and(|(_, timed_out)| timed_out);
        match self.is_timed_out(step) {
            Ok(own) => Gate::Run { timed_out: own || inherited },
            Err(error) => skip(messages::pre_check(&error.to_string())),
        }
    }

    /// Whether a step runs by its condition; `None` while that is not evaluated.
    fn should_run(
        &self,
        step_index: StepIndex,
        step: &'a Step,
        mode: Mode,
    ) -> Result<Option<bool>, PreCheckError> {
        match &step.condition {
            If::Always => Ok(Some(true)),
            If::Unless => {
                if self.options.suspend_on_failure {
                    return Ok(Some(true));
                }
                let before = self.before(step_index, step, mode);
                let fine = before == Phase::Succeeded
                    || (before == Phase::Skipped && step.depends_on.is_empty());
                let broken = self.is_broken() && mode == Mode::StepByStep;
                Ok(Some(fine && !broken))
            }
            If::Expression(_) => match &self.answered {
                Some((of, answer)) if *of == step_index => {
                    answer.clone().map(Some).map_err(PreCheckError::Condition)
                }
                _ => Ok(None),
            },
        }
    }

    /// The condition of a step, with all that it may read.
    fn question(&self, step_index: StepIndex, step: &'a Step) -> Question {
        let text = match &step.condition {
            If::Expression(text) => text.clone(),
            If::Always | If::Unless => String::new(),
        };
        Question {
            step_index,
            step: step.name.clone(),
            text,
            status: Arc::clone(&self.status),
            inputs: self.resolved_inputs(step),
            context: Arc::clone(&self.facts.context),
            parameter: Value::Object(step.properties.clone()),
        }
    }

    /// Whether a step ended the workflow by a break.
    pub(super) fn is_broken(&self) -> bool {
        self.status.terminated
            && self
                .status
                .all()
                .any(|s| s.phase == Phase::Succeeded && s.reason == Reason::Terminate)
    }

    /// The phase of what comes before a step: its dependencies, or its predecessor.
    pub(super) fn before(&self, step_index: StepIndex, step: &'a Step, mode: Mode) -> Phase {
        if mode == Mode::Dag || !step.depends_on.is_empty() {
            return self.dependency_phase(step);
        }
        let siblings = self.siblings(step_index);
        let position = step_index.sub.unwrap_or(step_index.step);
        let mut last = Phase::Succeeded;
        for (distance, earlier) in siblings.iter().take(position).rev().enumerate() {
            let phase = self.known(&earlier.name).map_or(Phase::Pending, |s| s.phase);
            if distance == 0 {
                last = phase;
            }
            if !matches!(phase, Phase::Succeeded | Phase::Skipped) {
                return phase;
            }
        }
        last
    }

    /// The phase of the first dependency, near or far, that did not succeed.
    pub(super) fn dependency_phase(&self, step: &'a Step) -> Phase {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut stack: Vec<&str> = step.depends_on.iter().rev().map(|d| self.resolve(d)).collect();
        while let Some(name) = stack.pop() {
            if !seen.insert(name) {
                continue;
            }
            let phase = self.known(name).map_or(Phase::Pending, |s| s.phase);
            if phase != Phase::Succeeded {
                return phase;
            }
            if let Some(dependency) = self.find_step(name) {
                stack.extend(dependency.depends_on.iter().rev().map(|d| self.resolve(d)));
            }
        }
        Phase::Succeeded
    }

    pub(super) fn is_timed_out(&self, step: &Step) -> Result<bool, PreCheckError> {
        let Some(text) = step.timeout.as_deref().filter(|t| !t.is_empty()) else {
            return Ok(false);
        };
        let invalid = |_| PreCheckError::Timeout { text: text.to_owned() };
        let timeout: GoDuration = text.parse().map_err(invalid)?;
        let first = self.known(&step.name).and_then(|s| s.first_execute_time);
        Ok(first.is_some_and(|first| self.facts.now > saturating_add(first, timeout)))
    }

    /// Whether the next attempt of a step is still to come: what happens in the meantime does not bring it forward, but the end of
    /// its time does.
    pub(super) fn has_time_left(&mut self, step: &Step, parent: Option<(bool, bool)>) -> bool {
        let Some(known) = self.known(&step.name) else { return false };
        let planned = self.memory.next(&known.id).is_some_and(|next| next > self.facts.now);
        let waits = known.phase == Phase::Running;
        let ends = parent.is_some_and(|(skipped, timed_out)| skipped || timed_out);
        if !planned || ends || self.is_timed_out(step).unwrap_or(true) {
            return false;
        }
        self.waiting |= waits;
        true
    }

    /// What a step waits for, as text.
    pub(super) fn pending(&self, step: &Step) -> Option<String> {
        for name in &step.depends_on {
            let finished = self.known(self.resolve(name)).is_some_and(StepStatus::is_finished);
            if !finished {
                return Some(messages::pending_on_dependency(name));
            }
        }
        step.inputs
            .iter()
            .find(|input| self.input(step, &input.from).is_none())
            .map(|input| messages::pending_on_input(&input.from))
    }

    /// The value of an input: a variable, or a field of `context` or `parameter`.
    pub(super) fn input(&self, step: &Step, from: &str) -> Option<Value> {
        if let Some(value) = at_path(&self.facts.variables, from) {
            return Some(value.clone());
        }
        let (head, rest) = from.split_once('.').unwrap_or((from, ""));
        let base = match head {
            "context" => self.facts.context.as_object()?,
            "parameter" => &step.properties,
            _ => return None,
        };
        if rest.is_empty() {
            return Some(Value::Object(base.clone()));
        }
        at_path(base, rest).cloned()
    }

    pub(super) fn resolved_inputs(&self, step: &Step) -> Map<String, Value> {
        step.inputs
            .iter()
            .filter_map(|input| Some((input.from.clone(), self.input(step, &input.from)?)))
            .collect()
    }

    /// The inputs of an attempt with their values.
    #[must_use]
    pub fn inputs(&self, attempt: &Attempt) -> Vec<(&'a str, Value)> {
        let Some(step) = self.step(attempt.step_index) else { return Vec::new() };
        step.inputs
            .iter()
            .filter_map(|input| {
                Some((input.parameter_key.as_str(), self.input(step, &input.from)?))
            })
            .collect()
    }
}
