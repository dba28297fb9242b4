//! One pass over a workflow: which steps run now, and what follows from their outcomes.
//!
//! Here: the order in which steps are checked. Whether one runs is decided in `gate.rs`, what follows from an attempt
//! in `judge.rs`, the end of the reconcile in `end.rs`; `record.rs` keeps the status. No CUE is evaluated here: a condition is
//! a [`Question`] to the caller, who has the threads and the budget for it.

mod end;
mod gate;
mod judge;
mod record;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use vela_gocompat::duration::Duration as GoDuration;

use crate::backoff::Memory;
use crate::condition::{ConditionError, Question};
use crate::messages;
use crate::model::{If, Mode, Step, Workflow};
use crate::status::{Phase, Reason, Status, StepStatus, WorkflowPhase};

use record::{aliases, by_name, index};

/// Bounds and switches of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Failing attempts of a step that are repeated.
    pub max_error_retries: u32,
    /// Longest delay while something waits.
    pub max_wait: Duration,
    /// Longest delay after a failure.
    pub max_failed_wait: Duration,
    /// Suspend, instead of ending, when a step failed too often.
    pub suspend_on_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_error_retries: 10,
            max_wait: Duration::from_secs(60),
            max_failed_wait: Duration::from_secs(300),
            suspend_on_failure: false,
        }
    }
}

/// What a pass needs to know of the world.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// `context` as conditions and inputs see it.
    pub context: Arc<Value>,
    /// Variables that steps left.
    pub variables: Map<String, Value>,
    /// When suspended steps go on by themselves, by step id.
    pub resume_at: BTreeMap<String, Timestamp>,
}

impl Facts {
    /// A world that has nothing but a time.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            context: Arc::new(Value::Object(Map::new())),
            variables: Map::new(),
            resume_at: BTreeMap::new(),
        }
    }
}

/// Where a step stands in the workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StepIndex {
    step: usize,
    sub: Option<usize>,
}

/// What a pass wants next.
#[derive(Debug)]
pub enum Next {
    /// A step is to be run; [`Pass::complete`] follows.
    Run(Attempt),
    /// A condition is to be evaluated; [`Pass::answer`] or [`Pass::cut`] follows.
    Ask(Question),
    /// Nothing: the pass is over.
    Over,
}

/// A step to run now.
#[derive(Debug, Clone)]
pub struct Attempt {
    step_index: StepIndex,
    /// Identity of this run of the step.
    pub id: String,
    /// Name of the step.
    pub name: String,
    /// Type of the step, such as `deploy`.
    pub kind: String,
    /// The group it belongs to.
    pub group: Option<String>,
    /// Whether its time is over: what it does still counts, its phase does not.
    pub timed_out: bool,
    /// Its status before this attempt, if it was recorded.
    pub previous: Option<StepStatus>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Succeeded,
    /// To be checked again.
    Wait,
    /// Halt the workflow here.
    Suspend,
    /// End without success.
    Fail(Reason),
    /// End the workflow here; the step itself succeeded.
    Break,
    /// The attempt failed; it is repeated.
    Error,
    /// The attempt was postponed by the server it called (overload, an outage): it is repeated, not before this time, and does not
    /// count.
    Later(Option<Duration>),
    /// What the attempt needs is out of reach: it is repeated once that is back, and does not count. Whoever hears of it starts a pass.
    Away,
}

/// What an attempt did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// A message; empty: the message of before stays.
    pub message: String,
    /// Variables the step left, in order; kept only when the step is finished.
    pub variables: Vec<(String, Value)>,
}

impl Outcome {
    /// Done, nothing to say.
    #[must_use]
    pub fn succeeded() -> Self {
        Self::of(Verdict::Succeeded, "")
    }

    /// A verdict with a message.
    #[must_use]
    pub fn of(verdict: Verdict, message: impl Into<String>) -> Self {
        Self { verdict, message: message.into(), variables: Vec::new() }
    }
}

/// What a pass came to.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The workflow's phase.
    pub phase: WorkflowPhase,
    /// The new status.
    pub status: Status,
    /// The new counters.
    pub memory: Memory,
    /// Variables, with those that steps left in this pass.
    pub variables: Map<String, Value>,
    /// When the next pass is due at the latest; `None`: when something changes.
    pub again: Option<Duration>,
}

/// The steps of one level that are still to be checked.
#[derive(Debug)]
struct Level {
    mode: Mode,
    todo: VecDeque<StepIndex>,
    pending: Vec<StepIndex>,
    /// A DAG records what is pending only after something else ran.
    record_pending: bool,
    partitioned: bool,
}

impl Level {
    fn new(mode: Mode, step_indices: impl Iterator<Item = StepIndex>) -> Self {
        Self {
            mode,
            todo: step_indices.collect(),
            pending: Vec::new(),
            record_pending: false,
            partitioned: false,
        }
    }
}

/// A group whose sub-steps are being run.
#[derive(Debug)]
struct Group {
    index: usize,
    skipped: bool,
    timed_out: bool,
    level: Level,
}

/// What is to be done with a step before it runs.
enum Gate {
    Run { timed_out: bool },
    Skip { message: String },
    Ask(Question),
}

/// One pass over a workflow.
#[derive(Debug)]
pub struct Pass<'a> {
    workflow: &'a Workflow,
    options: Options,
    facts: Facts,
    /// Shared with the questions that are asked about it.
    status: Arc<Status>,
    memory: Memory,
    top: Level,
    group: Option<Group>,
    names: BTreeMap<&'a str, &'a str>,
    /// Steps and sub-steps by name.
    by_name: HashMap<&'a str, &'a Step>,
    /// Where the status of a step is, by its name.
    index: HashMap<String, (usize, Option<usize>)>,
    waiting: bool,
    failed_after_retries: bool,
    stopped: bool,
    /// A step finished in this pass.
    finished_any: bool,
    /// Steps that may continue were not reached.
    cut_short: bool,
    /// The answer to the question of a step, until the step is entered.
    answered: Option<(StepIndex, Result<bool, ConditionError>)>,
    /// Why the pass ended before its end.
    cut: Option<String>,
}

impl<'a> Pass<'a> {
    /// Begins a pass. A status without a start is a new run of the workflow.
    #[must_use]
    pub fn begin(
        workflow: &'a Workflow,
        mut status: Status,
        mut memory: Memory,
        facts: Facts,
        options: Options,
    ) -> Self {
        if status.start_time.is_none() && status.steps.is_empty() {
            // a person may have halted it before it began
            let suspend = status.suspend;
            status = Status { start_time: Some(facts.now), suspend, ..Status::default() };
            memory.forget_all();
        }
        let step_indices = (0..workflow.steps.len()).map(|step| StepIndex { step, sub: None });
        let top = Level::new(workflow.mode, step_indices);
        let mut pass = Self {
            names: aliases(workflow),
            by_name: by_name(workflow),
            index: index(&status),
            workflow,
            options,
            facts,
            status: Arc::new(status),
            memory,
            top,
            group: None,
            waiting: false,
            failed_after_retries: false,
            stopped: false,
            finished_any: false,
            cut_short: false,
            answered: None,
            cut: None,
        };
        pass.stopped = pass.has_nothing_to_run();
        // what a person ended left nothing: nobody waits for it
        for step in workflow.all() {
            if !step.outputs.is_empty() && pass.is_finished(&step.name) {
                for output in &step.outputs {
                    pass.facts.variables.entry(output.name.clone()).or_insert(Value::Null);
                }
            }
        }
        pass
    }

    /// Ended, or halted by a person: then no step is checked. A step that suspended itself is,
    /// since its time may have come.
    fn has_nothing_to_run(&self) -> bool {
        let suspends_itself =
            self.status.all().any(|s| s.phase == Phase::Suspending && s.reason == Reason::Suspend);
        (self.status.terminated && self.all_done())
            || (self.status.suspend && !suspends_itself)
            || self.all_succeeded()
    }

    /// What the pass wants next. `new_id` makes the identity of a step that has none, from its name.
    pub fn next(&mut self, new_id: &mut dyn FnMut(&str) -> String) -> Next {
        while !self.stopped {
            if let Some(mut group) = self.group.take() {
                let found =
                    self.advance(&mut group.level, Some((group.skipped, group.timed_out)), new_id);
                if let Some(found) = found {
                    self.group = Some(group);
                    return found;
                }
                self.end_group(&group, new_id);
                continue;
            }
            let mut top =
                std::mem::replace(&mut self.top, Level::new(Mode::Dag, std::iter::empty()));
            let found = self.advance(&mut top, None, new_id);
            self.top = top;
            match found {
                Some(found) => return found,
                None if self.group.is_none() => self.stopped = true,
                None => {}
            }
        }
        Next::Over
    }

    /// Takes the answer to a question: whether the step runs, or what is wrong with its condition.
    pub fn answer(&mut self, question: &Question, answer: Result<bool, ConditionError>) {
        self.answered = Some((question.step_index, answer));
    }

    /// Ends the pass at a question that cannot be answered now: its step waits, and so does all that is behind it.
    pub fn cut(&mut self, question: &Question, why: &str, new_id: &mut dyn FnMut(&str) -> String) {
        let message = messages::condition_waits(question.step(), why);
        self.record_pending(question.step_index, &message, new_id);
        self.cut = Some(message);
        self.stopped = true;
    }

    /// Walks the steps of a level until one is to be run or a group is entered.
    fn advance(
        &mut self,
        level: &mut Level,
        parent: Option<(bool, bool)>,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> Option<Next> {
        loop {
            if level.mode == Mode::Dag && !level.partitioned {
                self.partition(level, new_id);
                if level.todo.is_empty() {
                    return None;
                }
            }
            let Some(step_index) = level.todo.pop_front() else {
                if level.mode == Mode::StepByStep || level.pending.is_empty() {
                    return None;
                }
                if self.status.suspend {
                    // one round a reconcile while something is suspended
                    self.cut_short |= self.finished_any;
                    return None;
                }
                // the next round of a DAG: what waited may go on now
                level.todo = std::mem::take(&mut level.pending).into();
                level.partitioned = false;
                level.record_pending = true;
                continue;
            };
            let Some(step) = self.step(step_index) else { continue };
            if self.is_finished(&step.name) {
                continue;
            }
            if level.mode == Mode::StepByStep
                && let Some(message) = self.pending(step)
            {
                if self.waits_in_vain() {
                    self.end_pending(step_index, new_id);
                    continue;
                }
                self.record_pending(step_index, &message, new_id);
                level.todo.clear();
                return None;
            }
            if self.has_time_left(step, parent) {
                if level.mode == Mode::StepByStep {
                    level.todo.clear();
                }
                continue;
            }
            if let Some(next) = self.enter(step_index, level.mode, parent, new_id) {
                if matches!(next, Next::Ask(_)) {
                    // It is entered again with the answer.
                    level.todo.push_front(step_index);
                }
                return Some(next);
            }
            if self.group.is_some() {
                return None;
            }
        }
    }

    /// Splits a round of a DAG into what can run and what waits.
    fn partition(&mut self, level: &mut Level, new_id: &mut dyn FnMut(&str) -> String) {
        level.partitioned = true;
        let mut todo = VecDeque::new();
        for step_index in std::mem::take(&mut level.todo) {
            let Some(step) = self.step(step_index) else { continue };
            if self.is_finished(&step.name) {
                continue;
            }
            match self.pending(step) {
                None => todo.push_back(step_index),
                Some(message) => {
                    if level.record_pending {
                        self.record_pending(step_index, &message, new_id);
                    }
                    level.pending.push(step_index);
                }
            }
        }
        level.todo = todo;
        if level.todo.is_empty() && !level.pending.is_empty() && self.waits_in_vain() {
            // one of them, rather one that waits for none of the others; then all are checked again
            let waits_for_other = |step_index: &StepIndex| {
                let needs =
                    self.step(*step_index).map(|s| s.depends_on.as_slice()).unwrap_or_default();
                level.pending.iter().any(|other| {
                    let name = self.step(*other).map(|s| s.name.as_str());
                    other != step_index && needs.iter().any(|need| Some(self.resolve(need)) == name)
                })
            };
            let at = level
                .pending
                .iter()
                .position(|step_index| !waits_for_other(step_index))
                .unwrap_or(0);
            let step_index = level.pending.remove(at);
            self.end_pending(step_index, new_id);
            level.todo = std::mem::take(&mut level.pending).into();
            self.partition(level, new_id);
        }
    }

    /// Whether a workflow that was ended has nothing left that could give pending steps what they
    /// wait for: then they wait in vain.
    fn waits_in_vain(&self) -> bool {
        let unfinished = |name: &str| !self.is_finished(name);
        let active = |step: &StepStatus| {
            let stands = matches!(step.phase, Phase::Running | Phase::Suspending | Phase::Failed);
            stands
                && unfinished(&step.name)
                && !self.find_step(&step.name).is_some_and(Step::is_group)
        };
        let to_do = |step_index: &StepIndex| {
            self.step(*step_index).is_some_and(|step| unfinished(&step.name))
        };
        // one after the other, nothing behind this step runs before it
        let others = self.top.mode == Mode::Dag && self.top.todo.iter().any(to_do);
        self.status.terminated && !others && !self.status.all().any(active)
    }

    /// Skips a step that waits in vain.
    fn end_pending(&mut self, step_index: StepIndex, new_id: &mut dyn FnMut(&str) -> String) {
        self.record(step_index, Phase::Skipped, Reason::Skip, "", new_id);
        self.leave_outputs(step_index);
    }

    /// Outputs that a finished step did not make are null, so that nobody waits for them.
    fn leave_outputs(&mut self, step_index: StepIndex) {
        for output in self.step(step_index).map(|step| step.outputs.as_slice()).unwrap_or_default()
        {
            self.facts.variables.entry(output.name.clone()).or_insert(Value::Null);
        }
    }

    fn record_pending(
        &mut self,
        step_index: StepIndex,
        message: &str,
        new_id: &mut dyn FnMut(&str) -> String,
    ) {
        let id = self.record(step_index, Phase::Pending, Reason::None, message, new_id);
        self.memory.record_wait(&id, message);
    }

    /// Decides whether a step runs; a group is entered instead of run.
    fn enter(
        &mut self,
        step_index: StepIndex,
        mode: Mode,
        parent: Option<(bool, bool)>,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> Option<Next> {
        let step = self.step(step_index)?;
        let gate = self.gate(step_index, step, mode, parent);
        self.answered = None;
        if step.is_group() && step_index.sub.is_none() {
            let (skipped, timed_out, message) = match gate {
                Gate::Ask(question) => return Some(Next::Ask(question)),
                Gate::Skip { message } => (true, false, message),
                Gate::Run { timed_out } => (false, timed_out, String::new()),
            };
            if self.known(&step.name).is_none() || !message.is_empty() {
                self.record(step_index, Phase::Running, Reason::None, &message, new_id);
            }
            let step_indices = (0..step.sub_steps.len())
                .map(|sub| StepIndex { step: step_index.step, sub: Some(sub) });
            let level = Level::new(step.sub_mode.unwrap_or(self.workflow.sub_mode), step_indices);
            self.group = Some(Group { index: step_index.step, skipped, timed_out, level });
            return None;
        }
        match gate {
            Gate::Ask(question) => Some(Next::Ask(question)),
            Gate::Skip { message } => {
                let id = self.record(step_index, Phase::Skipped, Reason::Skip, &message, new_id);
                self.memory.forget(&id);
                self.leave_outputs(step_index);
                None
            }
            Gate::Run { timed_out } => {
                let previous = self.known(&step.name).cloned();
                Some(Next::Run(Attempt {
                    step_index,
                    id: previous.as_ref().map_or_else(|| new_id(&step.name), |p| p.id.clone()),
                    name: step.name.clone(),
                    kind: step.kind.clone(),
                    group: step_index
                        .sub
                        .and_then(|_| Some(self.workflow.steps.get(step_index.step)?.name.clone())),
                    timed_out,
                    previous,
                }))
            }
        }
    }

    /// The step of an attempt.
    #[must_use]
    pub fn definition(&self, attempt: &Attempt) -> Option<&'a Step> {
        self.step(attempt.step_index)
    }

    /// The steps that this pass runs whatever becomes of the others, where all steps are of this type: in a DAG that begins, those that
    /// have no condition and wait for nothing. Before the first [`Self::next`].
    #[must_use]
    pub fn unconditional(&self, kind: &str) -> Vec<&'a Step> {
        let steps = &self.workflow.steps;
        let begins = !self.stopped && self.status.steps.is_empty();
        let is_uniform = self.workflow.mode == Mode::Dag && steps.iter().all(|it| it.kind == kind);
        if !begins || !is_uniform {
            return Vec::new();
        }
        let is_free = |step: &&Step| {
            !matches!(step.condition, If::Expression(_))
                && step.timeout.is_none()
                && step.depends_on.is_empty()
                && step.inputs.is_empty()
        };
        steps.iter().filter(is_free).collect()
    }

    /// The status so far.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Nobody shares it any more once a question is answered.
    fn status_mut(&mut self) -> &mut Status {
        Arc::make_mut(&mut self.status)
    }

    /// Variables, with those that steps left in this pass.
    #[must_use]
    pub fn variables(&self) -> &Map<String, Value> {
        &self.facts.variables
    }

    /// Takes note of when suspended steps go on by themselves.
    pub fn resume_at(&mut self, times: BTreeMap<String, Timestamp>) {
        self.facts.resume_at = times;
    }
}

fn saturating_add(time: Timestamp, duration: GoDuration) -> Timestamp {
    let duration = jiff::SignedDuration::from_nanos(duration.as_nanos());
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
