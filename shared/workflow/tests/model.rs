//! Random workflows against an independent model, and random events against what must always hold.
//!
//! The model says what a workflow without events comes to, by plain recursion over the rules. The invariants are checked
//! while people suspend, resume, terminate and restart, and while passes are lost in crashes. Everything follows from the
//! seed that a failure names.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use vela_workflow::{
    Facts, If, Input, Memory, Mode, Next, Options, Outcome, Output, Pass, Phase, Reason, Status,
    Step, StepStatus, Verdict, Workflow, WorkflowPhase, operation,
};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % n as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What a step does: this many times something unfinished, then its end.
#[derive(Debug, Clone)]
struct Script {
    first: Vec<Verdict>,
    end: Verdict,
}

#[derive(Debug)]
struct Case {
    workflow: Workflow,
    scripts: BTreeMap<String, Script>,
}

/// Makes cases.
struct Maker {
    random: Random,
    scripts: BTreeMap<String, Script>,
    /// Steps may suspend themselves.
    events: bool,
}

impl Maker {
    fn script(&mut self, may_break: bool) -> Script {
        let mut first = Vec::new();
        for _ in 0..self.random.below(3) {
            first.push(match self.random.below(4) {
                0 | 1 => Verdict::Error,
                2 => Verdict::Wait,
                _ => Verdict::Later(Some(Duration::from_secs(2))),
            });
        }
        if self.events && self.random.one_in(5) {
            first.push(Verdict::Suspend);
        }
        let end = match self.random.below(12) {
            0 => Verdict::Fail(Reason::Action),
            1 => Verdict::Error,
            2 if may_break => Verdict::Break,
            _ => Verdict::Succeeded,
        };
        Script { first, end }
    }

    fn steps(&mut self, prefix: &str, top: bool, mode: Mode) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for index in 0..self.random.below(if top { 6 } else { 4 }) {
            let name = format!("{prefix}{index}");
            let group = top && self.random.one_in(4);
            let mut step = Step::new(&name, if group { "step-group" } else { "work" });
            for earlier in &steps {
                if self.random.one_in(5) {
                    step.depends_on.push(earlier.name.clone());
                }
                let output = earlier.outputs.first().filter(|_| self.random.one_in(6));
                if let Some(output) = output {
                    let from = output.name.clone();
                    step.inputs.push(Input { from, parameter_key: "x".into() });
                }
            }
            if self.random.one_in(5) {
                step.condition = If::Always;
            }
            if self.random.one_in(3) {
                step.outputs.push(Output { name: format!("out-{name}"), value_from: "x".into() });
            }
            if group {
                let sub_mode = if self.random.one_in(2) { Mode::StepByStep } else { Mode::Dag };
                step.sub_mode = Some(sub_mode);
                step.sub_steps = self.steps(&format!("{name}-"), false, sub_mode);
            } else {
                // what a break in a group ends with it depends on which of them came first
                let script = self.script(top && mode == Mode::StepByStep);
                self.scripts.insert(name, script);
            }
            steps.push(step);
        }
        steps
    }
}

fn case(seed: u64, events: bool) -> (Case, Random) {
    let mut maker = Maker { random: Random(seed), scripts: BTreeMap::new(), events };
    let mode = if maker.random.one_in(2) { Mode::StepByStep } else { Mode::Dag };
    let steps = maker.steps("s", true, mode);
    (Case { workflow: Workflow::new(mode, steps), scripts: maker.scripts }, maker.random)
}

type Ends = BTreeMap<String, (Phase, Reason)>;

/// What a workflow comes to when nobody interferes.
fn expected(case: &Case) -> (Ends, WorkflowPhase) {
    let (mut ends, mut ended) = (Ends::new(), false);
    level(case, &case.workflow.steps, case.workflow.mode, &mut ends, &mut ended);
    let failed = case.workflow.steps.iter().any(|step| ends[&step.name].0 == Phase::Failed);
    let phase = match (ended, failed) {
        (false, _) => WorkflowPhase::Succeeded,
        (true, false) => WorkflowPhase::Terminated,
        (true, true) => WorkflowPhase::Failed,
    };
    (ends, phase)
}

/// Dependencies and values come from earlier steps only, so the order written is a possible one.
fn level(case: &Case, steps: &[Step], mode: Mode, ends: &mut Ends, ended: &mut bool) {
    for (index, step) in steps.iter().enumerate() {
        let end = if skipped(case, steps, index, mode, ends) {
            for sub in &step.sub_steps {
                ends.insert(sub.name.clone(), (Phase::Skipped, Reason::Skip));
            }
            (Phase::Skipped, Reason::Skip)
        } else if step.is_group() {
            level(case, &step.sub_steps, step.sub_mode.unwrap(), ends, ended);
            group(step, ends)
        } else {
            let end = match case.scripts[&step.name].end {
                Verdict::Succeeded => (Phase::Succeeded, Reason::None),
                Verdict::Break => (Phase::Succeeded, Reason::Terminate),
                Verdict::Error => (Phase::Failed, Reason::FailedAfterRetries),
                _ => (Phase::Failed, Reason::Action),
            };
            *ended |= end != (Phase::Succeeded, Reason::None);
            end
        };
        ends.insert(step.name.clone(), end);
    }
}

fn skipped(case: &Case, steps: &[Step], index: usize, mode: Mode, ends: &Ends) -> bool {
    let step = &steps[index];
    if step.condition == If::Always {
        return false;
    }
    let broken = ends.values().any(|end| *end == (Phase::Succeeded, Reason::Terminate));
    if mode == Mode::StepByStep && broken {
        return true;
    }
    if !step.depends_on.is_empty() {
        return !all_succeeded(case, step, ends);
    }
    mode == Mode::StepByStep && steps[..index].iter().any(|s| ends[&s.name].0 == Phase::Failed)
}

fn all_succeeded(case: &Case, step: &Step, ends: &Ends) -> bool {
    let all = || case.workflow.steps.iter().flat_map(|s| std::iter::once(s).chain(&s.sub_steps));
    step.depends_on.iter().all(|name| {
        let dependency = all().find(|s| s.name == *name).unwrap();
        ends[name].0 == Phase::Succeeded && all_succeeded(case, dependency, ends)
    })
}

fn group(step: &Step, ends: &Ends) -> (Phase, Reason) {
    let subs: Vec<_> = step.sub_steps.iter().map(|sub| ends[&sub.name]).collect();
    let failed = |reason: Reason| subs.contains(&(Phase::Failed, reason));
    if failed(Reason::FailedAfterRetries) {
        (Phase::Failed, Reason::FailedAfterRetries)
    } else if failed(Reason::Action) {
        (Phase::Failed, Reason::Action)
    } else if !subs.is_empty() && subs.iter().all(|end| end.0 == Phase::Skipped) {
        (Phase::Skipped, Reason::Skip)
    } else {
        (Phase::Succeeded, Reason::None)
    }
}

/// A workflow, what is stored of it, and what its steps did.
struct World<'c> {
    case: &'c Case,
    seed: u64,
    clock: i64,
    status: Status,
    memory: Memory,
    variables: Map<String, Value>,
    /// How far each step is in its script.
    reconciles: BTreeMap<String, usize>,
    /// Steps that reached their end.
    ended: BTreeSet<String>,
}

impl<'c> World<'c> {
    fn new(case: &'c Case, seed: u64) -> Self {
        Self {
            case,
            seed,
            clock: 0,
            status: Status::default(),
            memory: Memory::default(),
            variables: Map::new(),
            reconciles: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    fn fail(&self, text: &str) -> ! {
        panic!("seed {}: {text}\n{:#?}\n{:#?}", self.seed, self.case, self.status)
    }

    /// One reconcile. With `crash` its result is lost before it is stored.
    fn reconcile(&mut self, crash: bool) -> (WorkflowPhase, Option<Duration>) {
        let now = Timestamp::from_second(1_700_000_000 + self.clock).unwrap();
        let facts = Facts { variables: self.variables.clone(), ..Facts::at(now) };
        let suspends_itself =
            self.status.all().any(|s| s.phase == Phase::Suspending && s.reason == Reason::Suspend);
        let stands =
            (self.status.suspend && !suspends_itself) || (self.status.terminated && self.is_done());
        let (status, memory) = (self.status.clone(), self.memory.clone());
        let mut pass = Pass::begin(&self.case.workflow, status, memory, facts, Options::default());
        let (mut reconciles, mut ended) = (self.reconciles.clone(), self.ended.clone());
        for attempts in 0.. {
            let Next::Run(attempt) = pass.next(&mut |name| format!("id-{name}")) else { break };
            let name = attempt.name.clone();
            if attempts > 500 {
                self.fail("a pass without end");
            }
            if stands {
                self.fail(&format!("{name} ran although the workflow stands still"));
            }
            if ended.contains(&name) {
                self.fail(&format!("{name} ran again"));
            }
            self.check_order(&pass, &name);
            let script = &self.case.scripts[&name];
            let at = reconciles.entry(name.clone()).or_insert(0);
            let mut verdict = script.first.get(*at).unwrap_or(&script.end).clone();
            if verdict != Verdict::Suspend {
                *at += 1;
            } else if attempt
                .previous
                .as_ref()
                .is_some_and(|p| p.phase == Phase::Running && p.reason == Reason::Suspend)
            {
                // a person resumed it
                *at += 1;
                verdict = script.first.get(*at).unwrap_or(&script.end).clone();
                *at += 1;
            }
            pass.complete(&attempt, Outcome { verdict, ..Outcome::succeeded() }, now);
            if pass.status().find(&name).is_some_and(StepStatus::is_finished) {
                ended.insert(name);
            }
        }
        let progress = pass.end(now);
        if !crash {
            self.status = progress.status;
            self.memory = progress.memory;
            self.variables = progress.variables;
            (self.reconciles, self.ended) = (reconciles, ended);
        }
        (progress.phase, progress.again)
    }

    /// A step runs only after what it comes after.
    fn check_order(&self, pass: &Pass<'_>, name: &str) {
        let finished = |name: &str| pass.status().find(name).is_some_and(StepStatus::is_finished);
        let workflow = &self.case.workflow;
        let holds = |s: &&Step| s.sub_steps.iter().any(|sub| sub.name == name);
        let (level, mode) = match workflow.steps.iter().find(holds) {
            None => (&workflow.steps, workflow.mode),
            Some(group) => (&group.sub_steps, group.sub_mode.unwrap()),
        };
        let at = level.iter().position(|s| s.name == name).unwrap();
        if mode == Mode::StepByStep
            && let Some(open) = level[..at].iter().find(|s| !finished(&s.name))
        {
            self.fail(&format!("{name} ran before {}", open.name));
        }
        if let Some(open) = level[at].depends_on.iter().find(|name| !finished(name)) {
            self.fail(&format!("{name} ran before its dependency {open}"));
        }
        let missing = level[at].inputs.iter().find(|i| !pass.variables().contains_key(&i.from));
        if let Some(input) = missing {
            self.fail(&format!("{name} ran without {}", input.from));
        }
    }

    fn is_done(&self) -> bool {
        let done = |s: &Step| self.status.find(&s.name).is_some_and(StepStatus::is_finished);
        self.case.workflow.steps.iter().all(done)
    }

    /// Makes passes until the workflow ends or halts.
    fn settle(&mut self) -> WorkflowPhase {
        for _ in 0..400 {
            match self.reconcile(false) {
                (WorkflowPhase::Executing, Some(delay)) => {
                    self.clock += i64::try_from(delay.as_secs().max(1)).unwrap();
                }
                (WorkflowPhase::Executing, None) => self.fail("no pass is planned"),
                (WorkflowPhase::Suspending, _) => return WorkflowPhase::Suspending,
                (_, Some(_)) => self.fail("an ended workflow has another pass"),
                (phase, None) => return phase,
            }
        }
        self.fail("the workflow does not end");
    }

    /// Does something to the workflow; says what.
    fn event(&mut self, random: &mut Random) -> &'static str {
        match random.below(12) {
            0 => match operation::suspend(&mut self.status) {
                Ok(()) => "suspend",
                Err(_) => "suspend refused",
            },
            1 | 2 => match operation::resume(&mut self.status, None) {
                Ok(()) => "resume",
                Err(_) => "resume refused",
            },
            3 if random.one_in(6) && self.status.start_time.is_some() => {
                operation::terminate(&mut self.status);
                let finished = self.status.all().filter(|s| s.is_finished());
                self.ended.extend(finished.map(|s| s.name.clone()));
                "terminate"
            }
            4 | 5 => {
                let is_group = |name: &str| {
                    self.case.workflow.steps.iter().any(|s| s.name == name && s.is_group())
                };
                let failed = |s: &&StepStatus| {
                    s.phase == Phase::Failed && s.is_finished() && !is_group(&s.name)
                };
                let Some(failed) = self.status.all().find(failed) else { return "nothing failed" };
                let name = failed.name.clone();
                let workflow = &self.case.workflow;
                let gone = operation::restart_from(workflow, &mut self.status, &name).unwrap();
                for variable in gone {
                    self.variables.remove(&variable);
                }
                // what is forgotten may run again
                self.ended.retain(|name| self.status.find(name).is_some());
                self.reconciles.retain(|name, _| self.status.find(name).is_some());
                self.memory = Memory::default();
                "restart from a step"
            }
            6 => {
                self.reconcile(true);
                "crash"
            }
            _ => {
                self.reconcile(false);
                self.clock += i64::try_from(random.below(20)).unwrap();
                "look"
            }
        }
    }
}

#[test]
fn workflows_come_to_what_the_model_says() {
    for seed in 0..8_000 {
        let (case, _) = case(seed, false);
        let mut world = World::new(&case, seed);
        let phase = world.settle();
        let (ends, expected_phase) = expected(&case);
        let found: Ends =
            world.status.all().map(|s| (s.name.clone(), (s.phase, s.reason))).collect();
        if found != ends || phase != expected_phase {
            world.fail(&format!("{phase:?} {found:#?}\nis not {expected_phase:?} {ends:#?}"));
        }
        if world.memory != Memory::default() {
            world.fail("counters are left");
        }
    }
}

#[test]
fn whatever_happens_nothing_runs_twice_and_no_resume_is_lost() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..8_000 {
        let (case, mut random) = case(seed, true);
        let mut world = World::new(&case, seed);
        for _ in 0..random.below(30) {
            *seen.entry(world.event(&mut random)).or_default() += 1;
        }
        // in the end people resume whatever halts: it must come to an end
        let suspensions = case.scripts.len() + 2;
        for halts in 0.. {
            if world.settle() != WorkflowPhase::Suspending {
                break;
            }
            if halts > suspensions {
                world.fail("a resume is lost");
            }
            // what failed in the meantime cannot be resumed, only ended
            if operation::resume(&mut world.status, None).is_err() {
                operation::terminate(&mut world.status);
                let finished = world.status.all().filter(|s| s.is_finished());
                world.ended.extend(finished.map(|s| s.name.clone()));
            }
        }
        if !world.is_done() {
            world.fail("ended with unfinished steps");
        }
        let failed = world.status.steps.iter().any(|s| s.phase == Phase::Failed);
        if failed && world.status.phase == WorkflowPhase::Succeeded {
            world.fail("a step failed and the workflow succeeded");
        }
    }
    // the test means something only if everything happened
    for event in ["suspend", "resume", "terminate", "restart from a step", "crash", "look"] {
        assert!(seen.get(event).copied().unwrap_or(0) > 100, "{event}: {seen:?}");
    }
}
