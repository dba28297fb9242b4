//! One look at a workflow: which steps run now, and what follows from what they did.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use vela_gocompat::duration::Duration as GoDuration;

use crate::backoff::{self, Caps, Memory};
use crate::condition;
use crate::data::at_path;
use crate::messages;
use crate::model::{If, Mode, Step, Workflow};
use crate::status::{Phase, Reason, Status, StepStatus, WorkflowPhase};

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
    /// Budget of a condition.
    pub limits: cue::Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_error_retries: 10,
            max_wait: Duration::from_secs(60),
            max_failed_wait: Duration::from_secs(300),
            suspend_on_failure: false,
            limits: cue::Limits::default(),
        }
    }
}

/// What a pass needs to know of the world.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// `context` as conditions and inputs see it.
    pub context: Value,
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
            context: Value::Object(Map::new()),
            variables: Map::new(),
            resume_at: BTreeMap::new(),
        }
    }
}

/// Where a step stands in the workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    step: usize,
    sub: Option<usize>,
}

/// A step to run now.
#[derive(Debug, Clone)]
pub struct Attempt {
    place: Place,
    /// Identity of this run of the step.
    pub id: String,
    /// Name of the step.
    pub name: String,
    /// Its kind.
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
    /// To be looked at again.
    Wait,
    /// Halt the workflow here.
    Suspend,
    /// End without success.
    Fail(Reason),
    /// End the workflow here; the step itself succeeded.
    Break,
    /// The attempt failed; it is repeated.
    Error,
}

/// What an attempt did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// In words; empty: the message of before stays.
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
    /// When to look again at the latest; `None`: when something changes.
    pub again: Option<Duration>,
}

/// The steps of one level that are still to be looked at.
#[derive(Debug)]
struct Level {
    mode: Mode,
    todo: VecDeque<Place>,
    pending: Vec<Place>,
    /// A DAG records what is pending only after something else ran.
    record_pending: bool,
    partitioned: bool,
}

impl Level {
    fn new(mode: Mode, places: impl Iterator<Item = Place>) -> Self {
        Self {
            mode,
            todo: places.collect(),
            pending: Vec::new(),
            record_pending: false,
            partitioned: false,
        }
    }
}

/// A group whose sub-steps are being looked at.
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
}

/// One look at a workflow.
#[derive(Debug)]
pub struct Pass<'a> {
    workflow: &'a Workflow,
    options: Options,
    facts: Facts,
    status: Status,
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
    /// Steps that may go on were not looked at.
    cut_short: bool,
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
        let places = (0..workflow.steps.len()).map(|step| Place { step, sub: None });
        let top = Level::new(workflow.mode, places);
        let mut pass = Self {
            names: aliases(workflow),
            by_name: by_name(workflow),
            index: index(&status),
            workflow,
            options,
            facts,
            status,
            memory,
            top,
            group: None,
            waiting: false,
            failed_after_retries: false,
            stopped: false,
            finished_any: false,
            cut_short: false,
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

    /// Ended, or halted by a person: then no step is looked at. A step that suspended itself is,
    /// since its time may have come.
    fn has_nothing_to_run(&self) -> bool {
        let suspends_itself =
            self.status.all().any(|s| s.phase == Phase::Suspending && s.reason == Reason::Suspend);
        (self.status.terminated && self.all_done())
            || (self.status.suspend && !suspends_itself)
            || self.all_succeeded()
    }

    /// The next step to run, or `None` when the pass is over. `new_id` makes the identity of a
    /// step that has none, from its name.
    pub fn next(&mut self, new_id: &mut dyn FnMut(&str) -> String) -> Option<Attempt> {
        while !self.stopped {
            if let Some(mut group) = self.group.take() {
                let found =
                    self.advance(&mut group.level, Some((group.skipped, group.timed_out)), new_id);
                if found.is_some() {
                    self.group = Some(group);
                    return found;
                }
                self.end_group(&group, new_id);
                continue;
            }
            let mut top =
                std::mem::replace(&mut self.top, Level::new(Mode::Dag, std::iter::empty()));
            let found = self.advance(&mut top, None, new_id);
            let over = found.is_none() && self.group.is_none();
            self.top = top;
            if found.is_some() {
                return found;
            }
            if over {
                self.stopped = true;
            }
        }
        None
    }

    /// Looks at the steps of a level until one is to be run or a group is entered.
    fn advance(
        &mut self,
        level: &mut Level,
        parent: Option<(bool, bool)>,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> Option<Attempt> {
        loop {
            if level.mode == Mode::Dag && !level.partitioned {
                self.partition(level, new_id);
                if level.todo.is_empty() {
                    return None;
                }
            }
            let Some(place) = level.todo.pop_front() else {
                if level.mode == Mode::StepByStep || level.pending.is_empty() {
                    return None;
                }
                if self.status.suspend {
                    // one round a look while something is suspended
                    self.cut_short |= self.finished_any;
                    return None;
                }
                // the next round of a DAG: what waited may go on now
                level.todo = std::mem::take(&mut level.pending).into();
                level.partitioned = false;
                level.record_pending = true;
                continue;
            };
            let Some(step) = self.step(place) else { continue };
            if self.is_finished(&step.name) {
                continue;
            }
            if level.mode == Mode::StepByStep
                && let Some(message) = self.pending(step)
            {
                if self.waits_in_vain() {
                    self.end_pending(place, new_id);
                    continue;
                }
                self.record_pending(place, &message, new_id);
                level.todo.clear();
                return None;
            }
            if let Some(attempt) = self.enter(place, level.mode, parent, new_id) {
                return Some(attempt);
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
        for place in std::mem::take(&mut level.todo) {
            let Some(step) = self.step(place) else { continue };
            if self.is_finished(&step.name) {
                continue;
            }
            match self.pending(step) {
                None => todo.push_back(place),
                Some(message) => {
                    if level.record_pending {
                        self.record_pending(place, &message, new_id);
                    }
                    level.pending.push(place);
                }
            }
        }
        level.todo = todo;
        if level.todo.is_empty() && !level.pending.is_empty() && self.waits_in_vain() {
            // one of them, rather one that waits for none of the others; then all are looked at again
            let waits_for_other = |place: &Place| {
                let needs = self.step(*place).map(|s| s.depends_on.as_slice()).unwrap_or_default();
                level.pending.iter().any(|other| {
                    let name = self.step(*other).map(|s| s.name.as_str());
                    other != place && needs.iter().any(|need| Some(self.resolve(need)) == name)
                })
            };
            let at = level.pending.iter().position(|place| !waits_for_other(place)).unwrap_or(0);
            let place = level.pending.remove(at);
            self.end_pending(place, new_id);
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
        let to_do = |place: &Place| self.step(*place).is_some_and(|step| unfinished(&step.name));
        // one after the other, nothing behind this step runs before it
        let others = self.top.mode == Mode::Dag && self.top.todo.iter().any(to_do);
        self.status.terminated && !others && !self.status.all().any(active)
    }

    /// Skips a step that waits in vain.
    fn end_pending(&mut self, place: Place, new_id: &mut dyn FnMut(&str) -> String) {
        self.record(place, Phase::Skipped, Reason::Skip, "", new_id);
        self.leave_outputs(place);
    }

    /// Outputs that a finished step did not make are null, so that nobody waits for them.
    fn leave_outputs(&mut self, place: Place) {
        for output in self.step(place).map(|step| step.outputs.as_slice()).unwrap_or_default() {
            self.facts.variables.entry(output.name.clone()).or_insert(Value::Null);
        }
    }

    fn record_pending(
        &mut self,
        place: Place,
        message: &str,
        new_id: &mut dyn FnMut(&str) -> String,
    ) {
        let id = self.record(place, Phase::Pending, Reason::None, message, new_id);
        self.memory.look(&id, message);
    }

    /// Decides whether a step runs; a group is entered instead of run.
    fn enter(
        &mut self,
        place: Place,
        mode: Mode,
        parent: Option<(bool, bool)>,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> Option<Attempt> {
        let step = self.step(place)?;
        let gate = self.gate(place, step, mode, parent);
        if step.is_group() && place.sub.is_none() {
            let (skipped, timed_out) = match &gate {
                Gate::Skip { .. } => (true, false),
                Gate::Run { timed_out } => (false, *timed_out),
            };
            let message = if let Gate::Skip { message } = gate { message } else { String::new() };
            if self.known(&step.name).is_none() || !message.is_empty() {
                self.record(place, Phase::Running, Reason::None, &message, new_id);
            }
            let places =
                (0..step.sub_steps.len()).map(|sub| Place { step: place.step, sub: Some(sub) });
            let level = Level::new(step.sub_mode.unwrap_or(self.workflow.sub_mode), places);
            self.group = Some(Group { index: place.step, skipped, timed_out, level });
            return None;
        }
        match gate {
            Gate::Skip { message } => {
                let id = self.record(place, Phase::Skipped, Reason::Skip, &message, new_id);
                self.memory.forget(&id);
                self.leave_outputs(place);
                None
            }
            Gate::Run { timed_out } => {
                let previous = self.known(&step.name).cloned();
                Some(Attempt {
                    place,
                    id: previous.as_ref().map_or_else(|| new_id(&step.name), |p| p.id.clone()),
                    name: step.name.clone(),
                    kind: step.kind.clone(),
                    group: place
                        .sub
                        .and_then(|_| Some(self.workflow.steps.get(place.step)?.name.clone())),
                    timed_out,
                    previous,
                })
            }
        }
    }

    fn gate(&self, place: Place, step: &'a Step, mode: Mode, parent: Option<(bool, bool)>) -> Gate {
        let skip = |message: String| Gate::Skip { message };
        if let Some((true, _)) = parent {
            return skip(String::new());
        }
        match self.should_skip(place, step, mode) {
            Ok(false) => {}
            Ok(true) => return skip(String::new()),
            Err(error) => return skip(messages::pre_check(&error)),
        }
        let inherited = parent.is_some_and(|(_, timed_out)| timed_out);
        match self.is_timed_out(step) {
            Ok(own) => Gate::Run { timed_out: own || inherited },
            Err(error) => skip(messages::pre_check(&error)),
        }
    }

    fn should_skip(&self, place: Place, step: &'a Step, mode: Mode) -> Result<bool, String> {
        match &step.condition {
            If::Always => Ok(false),
            If::Unless => {
                if self.options.suspend_on_failure {
                    return Ok(false);
                }
                let before = self.before(place, step, mode);
                let fine = before == Phase::Succeeded
                    || (before == Phase::Skipped && step.depends_on.is_empty());
                let broken = self.is_broken() && mode == Mode::StepByStep;
                Ok(!fine || broken)
            }
            If::Expression(text) => {
                let inputs = self.resolved_inputs(step);
                let parameter = Value::Object(step.properties.clone());
                let limits = &self.options.limits;
                condition::evaluate(
                    text,
                    &self.status,
                    &inputs,
                    &self.facts.context,
                    &parameter,
                    limits,
                )
                .map(|run| !run)
                .map_err(|error| error.to_string())
            }
        }
    }

    /// Whether a step ended the workflow by a break.
    fn is_broken(&self) -> bool {
        self.status.terminated
            && self
                .status
                .all()
                .any(|s| s.phase == Phase::Succeeded && s.reason == Reason::Terminate)
    }

    /// The phase of what comes before a step: its dependencies, or its predecessor.
    fn before(&self, place: Place, step: &'a Step, mode: Mode) -> Phase {
        if mode == Mode::Dag || !step.depends_on.is_empty() {
            return self.dependency_phase(step);
        }
        let siblings = self.siblings(place);
        let position = place.sub.unwrap_or(place.step);
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
    fn dependency_phase(&self, step: &'a Step) -> Phase {
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

    fn is_timed_out(&self, step: &Step) -> Result<bool, String> {
        let Some(text) = step.timeout.as_deref().filter(|t| !t.is_empty()) else {
            return Ok(false);
        };
        let timeout: GoDuration = text.parse().map_err(|_| messages::invalid_timeout(text))?;
        let first = self.known(&step.name).and_then(|s| s.first_execute_time);
        Ok(first.is_some_and(|first| self.facts.now > saturating_add(first, timeout)))
    }

    /// What a step waits for, in words.
    fn pending(&self, step: &Step) -> Option<String> {
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
    fn input(&self, step: &Step, from: &str) -> Option<Value> {
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

    fn resolved_inputs(&self, step: &Step) -> Map<String, Value> {
        step.inputs
            .iter()
            .filter_map(|input| Some((input.from.clone(), self.input(step, &input.from)?)))
            .collect()
    }

    /// The inputs of an attempt with their values.
    #[must_use]
    pub fn inputs(&self, attempt: &Attempt) -> Vec<(&'a str, Value)> {
        let Some(step) = self.step(attempt.place) else { return Vec::new() };
        step.inputs
            .iter()
            .filter_map(|input| {
                Some((input.parameter_key.as_str(), self.input(step, &input.from)?))
            })
            .collect()
    }

    /// The step of an attempt.
    #[must_use]
    pub fn definition(&self, attempt: &Attempt) -> Option<&'a Step> {
        self.step(attempt.place)
    }

    /// The status so far.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
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

    /// Takes back what an attempt did.
    pub fn complete(&mut self, attempt: &Attempt, outcome: Outcome, now: Timestamp) {
        self.facts.now = now;
        let Outcome { verdict, message, variables } = outcome;
        let (phase, reason, message) = self.judge(attempt, &verdict, message);
        let place = attempt.place;
        let mut id = Some(attempt.id.clone());
        self.record(place, phase, reason, &message, &mut |_| id.take().unwrap_or_default());
        let finished = self.is_finished(&attempt.name);
        if finished {
            self.facts.variables.extend(variables);
            self.leave_outputs(place);
            self.finished_any = true;
            self.memory.forget(&attempt.id);
        }
        // a step that suspends halts the workflow; one that no longer does releases it
        let suspends = self.status.all().any(|s| s.phase == Phase::Suspending);
        self.status.suspend = suspends;
        let blocks = !finished && phase != Phase::Suspending;
        if blocks {
            self.memory.look(&attempt.id, &message);
        }
        let level = match &mut self.group {
            Some(group) if place.sub.is_some() => &mut group.level,
            _ => &mut self.top,
        };
        if level.mode == Mode::StepByStep && (blocks || self.status.suspend) {
            level.todo.clear();
        }
    }

    fn judge(
        &mut self,
        attempt: &Attempt,
        verdict: &Verdict,
        message: String,
    ) -> (Phase, Reason, String) {
        let kept = |message: String| {
            if message.is_empty() {
                attempt.previous.as_ref().map(|p| p.message.clone()).unwrap_or_default()
            } else {
                message
            }
        };
        if attempt.timed_out && !matches!(verdict, Verdict::Fail(_)) {
            self.status.terminated = true;
            return (Phase::Failed, Reason::Timeout, message);
        }
        match verdict {
            Verdict::Succeeded => (Phase::Succeeded, Reason::None, message),
            Verdict::Wait => {
                let message = kept(message);
                if let Some(text) = self.without_progress(attempt, &message) {
                    self.status.terminated = true;
                    return (Phase::Failed, Reason::Timeout, text);
                }
                self.waiting = true;
                (Phase::Running, Reason::Wait, message)
            }
            Verdict::Suspend => (Phase::Suspending, Reason::Suspend, kept(message)),
            Verdict::Fail(reason) => {
                self.status.terminated = true;
                (Phase::Failed, *reason, message)
            }
            Verdict::Break => {
                self.status.terminated = true;
                (Phase::Succeeded, Reason::Terminate, message)
            }
            Verdict::Error => {
                if self.memory.fail(&attempt.id) > self.options.max_error_retries {
                    self.failed_after_retries = true;
                    if !self.options.suspend_on_failure {
                        self.status.terminated = true;
                    }
                    (Phase::Failed, Reason::FailedAfterRetries, message)
                } else {
                    (Phase::Failed, Reason::Execute, message)
                }
            }
        }
    }

    /// What a step says that waited longer than it may without any change.
    fn without_progress(&mut self, attempt: &Attempt, message: &str) -> Option<String> {
        let deadline = self.step(attempt.place)?.progress_deadline?;
        let known = attempt.previous.as_ref();
        let same = known.is_some_and(|p| p.phase == Phase::Running && p.message == message);
        let now = self.facts.now;
        let since = self.memory.progress(&attempt.id, !same, now);
        let over = now > saturating_add(since, deadline);
        over.then(|| messages::no_progress(&deadline.to_string(), &whole_seconds(since), message))
    }

    /// The phase of a group follows from its sub-steps.
    fn end_group(&mut self, group: &Group, new_id: &mut dyn FnMut(&str) -> String) {
        let place = Place { step: group.index, sub: None };
        let Some(step) = self.step(place) else { return };
        let recorded = self.known(&step.name).map(|s| s.sub_steps.as_slice()).unwrap_or_default();
        let has = |phase: Phase| recorded.iter().any(|s| s.phase == phase);
        let (phase, reason) = if group.skipped {
            (Phase::Skipped, Reason::Skip)
        } else if group.timed_out {
            (Phase::Failed, Reason::Timeout)
        } else if has(Phase::Suspending) {
            (Phase::Suspending, Reason::None)
        } else if recorded.len() < step.sub_steps.len() || has(Phase::Running) {
            (Phase::Running, Reason::None)
        } else if has(Phase::Pending) {
            (Phase::Pending, Reason::None)
        } else if has(Phase::Failed) {
            (Phase::Failed, failure_of_group(recorded))
        } else if !recorded.is_empty() && recorded.iter().all(|s| s.phase == Phase::Skipped) {
            (Phase::Skipped, Reason::Skip)
        } else {
            (Phase::Succeeded, Reason::None)
        };
        let message = self.known(&step.name).map(|s| s.message.clone()).unwrap_or_default();
        if group.timed_out {
            self.status.terminated = true;
        }
        let id = self.record(place, phase, reason, &message, new_id);
        if phase != Phase::Pending {
            self.memory.forget(&id);
        }
        if self.is_finished(&step.name) {
            // a group has no values of its own but those of the context
            for output in &step.outputs {
                let value = self.input(step, &output.value_from).unwrap_or_default();
                self.facts.variables.insert(output.name.clone(), value);
            }
        }
        let blocks = !self.is_finished(&step.name) && phase != Phase::Suspending;
        if self.top.mode == Mode::StepByStep && (blocks || self.status.suspend) {
            self.top.todo.clear();
        }
    }

    /// Ends the pass.
    #[must_use]
    pub fn end(mut self, now: Timestamp) -> Progress {
        self.facts.now = now;
        if self.failed_after_retries && self.options.suspend_on_failure && !self.waiting {
            self.status.suspend = true;
            messages::SUSPENDED_AFTER_RETRIES.clone_into(&mut self.status.message);
        } else {
            self.status.message.clear();
        }
        if !self.status.suspend && self.all_done() && !self.all_succeeded() {
            // a restart from one step leaves the failure of another: nothing is left to run
            self.status.terminated = true;
        }
        let phase = self.phase();
        self.status.phase = phase;
        let again = self.again(phase);
        if self.status.message.is_empty() {
            self.status.message = self.explained(phase, again).unwrap_or_default();
        }
        if phase == WorkflowPhase::Suspending && self.failed_after_retries {
            self.memory.forget_all();
        }
        Progress {
            phase,
            status: self.status,
            memory: self.memory,
            variables: self.facts.variables,
            again,
        }
    }

    /// What a workflow waits for, since when, and when it is looked at again.
    fn explained(&self, phase: WorkflowPhase, again: Option<Duration>) -> Option<String> {
        let leaves = || self.status.all().filter(|s| s.sub_steps.is_empty());
        if phase == WorkflowPhase::Suspending {
            let timed = leaves()
                .filter(|s| s.phase == Phase::Suspending)
                .filter_map(|s| Some((*self.facts.resume_at.get(&s.id)?, s.name.as_str())));
            let (until, step) = timed.min()?;
            return Some(messages::suspended_until(step, &whole_seconds(until)));
        }
        let again = again.filter(|_| phase == WorkflowPhase::Executing)?;
        let again = whole_seconds(self.facts.now.saturating_add(again).unwrap_or(self.facts.now));
        let waiting = || leaves().filter(|s| s.phase == Phase::Running);
        let longest = waiting().min_by_key(|s| s.first_execute_time);
        if let Some((step, since)) = longest.and_then(|s| Some((s, s.first_execute_time?))) {
            let others = waiting().count() - 1;
            return Some(messages::waits(&step.name, others, &whole_seconds(since), &again));
        }
        let failed = leaves().find(|s| s.phase == Phase::Failed && s.reason == Reason::Execute)?;
        let (failures, most) = (self.memory.failures(&failed.id), self.options.max_error_retries);
        Some(messages::tries_again(&failed.name, failures, most.saturating_add(1), &again))
    }

    fn phase(&self) -> WorkflowPhase {
        if self.status.terminated && self.all_done() {
            let failed: Vec<&StepStatus> =
                self.status.steps.iter().filter(|s| s.phase == Phase::Failed).collect();
            let by_person = failed.iter().all(|s| s.reason == Reason::Terminate);
            return if by_person { WorkflowPhase::Terminated } else { WorkflowPhase::Failed };
        }
        if self.status.suspend {
            WorkflowPhase::Suspending
        } else if self.all_succeeded() {
            WorkflowPhase::Succeeded
        } else {
            WorkflowPhase::Executing
        }
    }

    fn again(&self, phase: WorkflowPhase) -> Option<Duration> {
        let now = self.facts.now;
        let timeouts = self.status.all().filter_map(|status| {
            let step = self.find_step(&status.name)?;
            let waits = matches!(status.phase, Phase::Running | Phase::Suspending | Phase::Pending);
            let text = step.timeout.as_deref().filter(|_| waits)?;
            let timeout: GoDuration = text.parse().ok()?;
            Some(backoff::until(now, saturating_add(status.first_execute_time?, timeout)))
        });
        let resumes = self
            .status
            .all()
            .filter(|s| s.phase == Phase::Suspending)
            .filter_map(|s| Some(backoff::until(now, *self.facts.resume_at.get(&s.id)?)));
        match phase {
            WorkflowPhase::Executing => {
                let deadlines = self.status.all().filter_map(|status| {
                    let step = self.find_step(&status.name)?;
                    let deadline =
                        step.progress_deadline.filter(|_| status.phase == Phase::Running)?;
                    let since = self.memory.progress_of(&status.id)?;
                    Some(backoff::until(now, saturating_add(since, deadline)))
                });
                let caps =
                    Caps { wait: self.options.max_wait, failed: self.options.max_failed_wait };
                let delay = backoff::delay(&self.memory, &self.status, caps);
                Some(timeouts.chain(deadlines).fold(delay, Duration::min))
            }
            WorkflowPhase::Suspending if self.cut_short => Some(Duration::ZERO),
            WorkflowPhase::Suspending => timeouts.chain(resumes).min(),
            _ => None,
        }
    }

    fn all_done(&self) -> bool {
        self.workflow.steps.iter().all(|step| self.is_finished(&step.name))
    }

    fn all_succeeded(&self) -> bool {
        self.workflow.steps.iter().all(|step| {
            let phase = self.known(&step.name).map(|s| s.phase);
            matches!(phase, Some(Phase::Succeeded | Phase::Skipped))
        })
    }

    fn is_finished(&self, name: &str) -> bool {
        let Some(status) = self.known(name) else { return false };
        if self.options.suspend_on_failure {
            return matches!(status.phase, Phase::Succeeded | Phase::Skipped);
        }
        status.is_finished()
    }

    /// Writes the status of a step; returns its id.
    fn record(
        &mut self,
        place: Place,
        phase: Phase,
        reason: Reason,
        message: &str,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> String {
        let now = self.facts.now;
        let Some(step) = self.step(place) else { return String::new() };
        // the kind that a template names is reported once it ran
        let kind = if phase == Phase::Pending { step.kind.as_str() } else { step.reported_kind() };
        let parent = match place.sub.and_then(|_| self.workflow.steps.get(place.step)) {
            None => None,
            Some(group) => match self.index.get(&group.name) {
                Some((at, None)) => Some(*at),
                _ => return String::new(),
            },
        };
        let known = self.index.get(&step.name).copied();
        let list = match parent {
            None => &mut self.status.steps,
            Some(at) => match self.status.steps.get_mut(at) {
                Some(parent) => &mut parent.sub_steps,
                None => return String::new(),
            },
        };
        let at = match (known, parent) {
            (Some((at, None)), None) => Some(at),
            (Some((of, Some(at))), Some(parent)) if of == parent => Some(at),
            _ => None,
        };
        if let Some(known) = at.and_then(|at| list.get_mut(at)) {
            kind.clone_into(&mut known.kind);
            message.clone_into(&mut known.message);
            known.phase = phase;
            known.reason = reason;
            known.last_execute_time = Some(now);
            return known.id.clone();
        }
        let id = new_id(&step.name);
        let place = match parent {
            None => (list.len(), None),
            Some(parent) => (parent, Some(list.len())),
        };
        list.push(StepStatus {
            id: id.clone(),
            name: step.name.clone(),
            kind: kind.to_owned(),
            phase,
            reason,
            message: message.to_owned(),
            first_execute_time: Some(now),
            last_execute_time: Some(now),
            sub_steps: Vec::new(),
        });
        self.index.insert(step.name.clone(), place);
        id
    }

    /// What is recorded of a step.
    fn known(&self, name: &str) -> Option<&StepStatus> {
        let (step, sub) = self.index.get(name)?;
        let found = self.status.steps.get(*step)?;
        match sub {
            None => Some(found),
            Some(sub) => found.sub_steps.get(*sub),
        }
    }

    fn step(&self, place: Place) -> Option<&'a Step> {
        let step = self.workflow.steps.get(place.step)?;
        match place.sub {
            None => Some(step),
            Some(sub) => step.sub_steps.get(sub),
        }
    }

    fn siblings(&self, place: Place) -> &'a [Step] {
        match place.sub {
            None => &self.workflow.steps,
            Some(_) => self
                .workflow
                .steps
                .get(place.step)
                .map(|s| s.sub_steps.as_slice())
                .unwrap_or_default(),
        }
    }

    fn find_step(&self, name: &str) -> Option<&'a Step> {
        self.by_name.get(name).copied()
    }

    /// A name in `dependsOn` may be that of the component a step applies.
    fn resolve<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.get(name).copied().unwrap_or(name)
    }
}

fn by_name(workflow: &Workflow) -> HashMap<&str, &Step> {
    let mut by_name = HashMap::new();
    for step in workflow.all() {
        by_name.entry(step.name.as_str()).or_insert(step);
    }
    by_name
}

fn index(status: &Status) -> HashMap<String, (usize, Option<usize>)> {
    let mut index = HashMap::new();
    for (at, step) in status.steps.iter().enumerate() {
        index.entry(step.name.clone()).or_insert((at, None));
        for (sub, step) in step.sub_steps.iter().enumerate() {
            index.entry(step.name.clone()).or_insert((at, Some(sub)));
        }
    }
    index
}

/// Further names of steps, where no step has that name.
fn aliases(workflow: &Workflow) -> BTreeMap<&str, &str> {
    let names: HashSet<&str> = workflow.all().map(|s| s.name.as_str()).collect();
    let mut aliases = BTreeMap::new();
    for step in workflow.all() {
        if let Some(alias) = step.alias.as_deref().filter(|alias| !names.contains(alias)) {
            aliases.entry(alias).or_insert(step.name.as_str());
        }
    }
    aliases
}

/// Why a group failed: the weightiest reason of its sub-steps.
fn failure_of_group(subs: &[StepStatus]) -> Reason {
    let has = |reason: Reason| subs.iter().any(|s| s.phase == Phase::Failed && s.reason == reason);
    if has(Reason::Execute) || has(Reason::None) {
        // an attempt will be repeated
        return Reason::None;
    }
    let weights = [
        Reason::FailedAfterRetries,
        Reason::Timeout,
        Reason::Action,
        Reason::Terminate,
        Reason::Input,
        Reason::Rendering,
        Reason::ProcessParameter,
        Reason::Output,
    ];
    weights.into_iter().find(|reason| has(*reason)).unwrap_or_default()
}

/// A time as the status shows it.
fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

fn saturating_add(time: Timestamp, duration: GoDuration) -> Timestamp {
    let duration = jiff::SignedDuration::from_nanos(duration.as_nanos());
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
