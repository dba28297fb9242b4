//! The rules of a pass, played by a world that answers attempts by step name.

use super::*;
use crate::messages;
use crate::model::If;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// A world that answers attempts by step name, and counts them.
#[derive(Default)]
struct World {
    answers: BTreeMap<&'static str, Outcome>,
    ran: Vec<String>,
    clock: i64,
    memory: Memory,
    status: Status,
    variables: Map<String, Value>,
    options: Options,
    /// Conditions that are evaluated in one reconcile; `None`: all.
    most_conditions: Option<usize>,
}

impl World {
    fn answering(answers: &[(&'static str, Verdict)]) -> Self {
        let answers = answers.iter().map(|(n, v)| (*n, Outcome::of(v.clone(), ""))).collect();
        Self { answers, ..Self::default() }
    }

    fn reconcile(&mut self, workflow: &Workflow) -> (WorkflowPhase, Option<Duration>) {
        let now = time(self.clock);
        let facts = Facts { variables: self.variables.clone(), ..Facts::at(now) };
        let status = std::mem::take(&mut self.status);
        let memory = std::mem::take(&mut self.memory);
        let mut pass = Pass::begin(workflow, status, memory, facts, self.options.clone());
        let mut conditions = 0;
        loop {
            let mut id = |name: &str| format!("id-{name}");
            let attempt = match pass.next(&mut id) {
                Next::Run(attempt) => attempt,
                Next::Ask(question) if self.most_conditions == Some(conditions) => {
                    pass.cut(&question, "no time", &mut id);
                    continue;
                }
                Next::Ask(question) => {
                    conditions += 1;
                    let answer = question.evaluate(&cue::Limits::default());
                    pass.answer(&question, answer);
                    continue;
                }
                Next::Over => break,
            };
            self.ran.push(attempt.name.clone());
            let outcome = self.answers.get(attempt.name.as_str()).cloned();
            pass.complete(&attempt, outcome.unwrap_or_else(Outcome::succeeded), now);
        }
        let progress = pass.end(now);
        self.status = progress.status;
        self.memory = progress.memory;
        self.variables = progress.variables;
        (progress.phase, progress.again)
    }

    fn steps(&self) -> String {
        let one = |s: &StepStatus| {
            let reason = if s.reason == Reason::None {
                String::new()
            } else {
                format!("/{}", s.reason.as_str())
            };
            format!("{}={}{reason}", s.name, s.phase.as_str())
        };
        let line = |s: &StepStatus| {
            let subs: Vec<String> = s.sub_steps.iter().map(one).collect();
            if subs.is_empty() { one(s) } else { format!("{}[{}]", one(s), subs.join(" ")) }
        };
        self.status.steps.iter().map(line).collect::<Vec<_>>().join(" ")
    }
}

fn steps(names: &[&str]) -> Vec<Step> {
    names.iter().map(|n| Step::new(n, "k")).collect()
}

fn group(name: &str, subs: Vec<Step>) -> Step {
    Step { sub_steps: subs, ..Step::new(name, "step-group") }
}

fn after(mut step: Step, names: &[&str]) -> Step {
    step.depends_on = names.iter().map(|n| (*n).to_owned()).collect();
    step
}

/// A failed attempt has its successor's time: passes before that leave the step alone, and what comes after it too.
#[test]
fn attempts_keep_their_distance_whatever_happens_meanwhile() {
    for mode in [Mode::Dag, Mode::StepByStep] {
        let workflow = Workflow::new(mode, steps(&["a", "b"]));
        let mut world = World::answering(&[("a", Verdict::Error), ("b", Verdict::Wait)]);
        world.options.max_error_retries = 3;
        let mut attempts = Vec::new();
        for _ in 0..60 {
            world.ran.clear();
            world.reconcile(&workflow);
            if world.ran.iter().any(|name| name == "a") {
                attempts.push(world.clock);
            }
            // something happens ten times a second
            let ticks = attempts.len() * 10;
            for _ in 0..ticks {
                world.ran.clear();
                world.reconcile(&workflow);
                assert!(!world.ran.iter().any(|name| name == "a"), "{:?}", world.steps());
            }
            world.clock += 1;
        }
        assert_eq!(attempts, [0, 1, 2, 3], "{mode:?}");
        assert!(world.steps().starts_with("a=failed/FailedAfterRetries"), "{}", world.steps());
    }
}

#[test]
fn what_is_put_off_is_no_attempt_and_has_its_time() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b"]));
    let asked = Some(Duration::from_secs(7));
    let mut world = World::answering(&[("a", Verdict::Later(asked))]);
    let mut attempts = Vec::new();
    for _ in 0..200 {
        world.ran.clear();
        let (phase, again) = world.reconcile(&workflow);
        assert_eq!((phase, world.steps().as_str()), (WorkflowPhase::Executing, "a=running/Wait"));
        if !world.ran.is_empty() {
            attempts.push(world.clock);
            assert!(again >= asked, "{again:?}");
        }
        world.clock += 1;
    }
    assert_eq!(attempts.get(..5), Some([0, 7, 14, 21, 28].as_slice()));
    let longest = attempts.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(longest, Some(15));
    world.answers.clear();
    world.clock += 15;
    world.reconcile(&workflow);
    assert_eq!(world.steps(), "a=succeeded b=succeeded");
}

/// A cluster that is away: nobody asks it again and again, and whoever hears that it is back starts a pass.
#[test]
fn what_is_out_of_reach_is_tried_at_each_pass_and_by_itself_once_a_minute() {
    let workflow = Workflow::new(Mode::Dag, steps(&["a", "b"]));
    let mut world = World::answering(&[("a", Verdict::Away), ("b", Verdict::Wait)]);
    let (phase, again) = world.reconcile(&workflow);
    assert_eq!((phase, again), (WorkflowPhase::Executing, Some(Duration::from_secs(1))));
    assert_eq!(world.steps(), "a=running/Wait b=running/Wait");
    world.answers.remove("b");
    assert_eq!(world.reconcile(&workflow).1, Some(Duration::from_secs(60)));
    for _ in 0..100 {
        world.ran.clear();
        assert_eq!(world.reconcile(&workflow).1, Some(Duration::from_secs(60)));
        assert_eq!(world.ran, ["a"]);
    }
    world.answers.clear();
    world.reconcile(&workflow);
    assert_eq!(world.steps(), "a=succeeded b=succeeded");
}

#[test]
fn the_end_of_its_time_is_not_held_up_by_a_planned_attempt() {
    let mut workflow = Workflow::new(Mode::Dag, steps(&["a"]));
    workflow.steps[0].timeout = Some("3s".to_owned());
    let asked = Some(Duration::from_secs(60));
    let mut world = World::answering(&[("a", Verdict::Later(asked))]);
    assert_eq!(world.reconcile(&workflow).1, Some(Duration::from_secs(3)));
    world.clock += 4;
    world.reconcile(&workflow);
    assert_eq!(world.steps(), "a=failed/Timeout");
}

#[test]
fn steps_follow_each_other() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b", "c"]));
    let mut world = World::answering(&[("b", Verdict::Wait)]);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Executing);
    assert_eq!(world.steps(), "a=succeeded b=running/Wait");
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran, ["a", "b", "b", "c"]);
    // a finished workflow runs nothing
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran.len(), 4);
}

#[test]
fn a_dag_goes_on_beside_what_waits() {
    let mut all = steps(&["a", "b"]);
    all.push(after(Step::new("c", "k"), &["a"]));
    let workflow = Workflow::new(Mode::Dag, all);
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    world.reconcile(&workflow);
    assert_eq!(world.steps(), "a=running/Wait b=succeeded c=pending");
    assert_eq!(world.status.find("c").unwrap().message, "Pending on DependsOn: a");
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran, ["a", "b", "a", "c"]);
}

#[test]
fn a_failure_skips_what_follows_unless_it_always_runs() {
    let mut all = steps(&["a", "b", "c"]);
    all[2].condition = If::Always;
    let workflow = Workflow::new(Mode::StepByStep, all);
    let mut world = World::answering(&[("a", Verdict::Fail(Reason::Action))]);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Failed);
    assert_eq!(world.steps(), "a=failed/Action b=skipped/Skip c=succeeded");
}

#[test]
fn attempts_are_repeated_and_then_final() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b"]));
    let mut world = World::answering(&[("a", Verdict::Error)]);
    for _ in 0..10 {
        assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Executing);
        assert_eq!(world.steps(), "a=failed/Execute");
        world.clock += 300;
    }
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Failed);
    assert_eq!(world.steps(), "a=failed/FailedAfterRetries b=skipped/Skip");
    assert_eq!(world.ran.len(), 11);
    assert!(world.status.terminated);
}

#[test]
fn suspend_on_failure_halts_instead() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a"]));
    let mut world = World::answering(&[("a", Verdict::Error)]);
    world.options.suspend_on_failure = true;
    world.options.max_error_retries = 0;
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Suspending);
    assert_eq!(world.status.message, messages::SUSPENDED_AFTER_RETRIES);
    world.answers.clear();
    crate::operation::resume(&mut world.status, None).unwrap();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
}

#[test]
fn a_suspended_step_halts_until_resumed() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "s", "b"]));
    let mut world = World::answering(&[("s", Verdict::Suspend)]);
    assert_eq!(world.reconcile(&workflow), (WorkflowPhase::Suspending, None));
    assert_eq!(world.steps(), "a=succeeded s=suspending/Suspend");
    // a pass over a suspended step asks it again: its time may have come
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Suspending);
    crate::operation::resume(&mut world.status, None).unwrap();
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran, ["a", "s", "s", "s", "b"]);
}

#[test]
fn a_person_suspends_what_runs() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b"]));
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    world.reconcile(&workflow);
    crate::operation::suspend(&mut world.status).unwrap();
    assert_eq!(world.reconcile(&workflow), (WorkflowPhase::Suspending, None));
    assert_eq!(world.ran, ["a"], "nothing runs while halted");
    crate::operation::resume(&mut world.status, None).unwrap();
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
}

#[test]
fn a_person_ends_it() {
    let mut all = steps(&["a", "b", "c"]);
    all[1].inputs = vec![crate::Input { from: "of-a".into(), parameter_key: String::new() }];
    let workflow = Workflow::new(Mode::StepByStep, all);
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    world.reconcile(&workflow);
    crate::operation::terminate(&mut world.status);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Terminated);
    // what waited for a value of the ended step does not wait for ever
    assert_eq!(world.steps(), "a=failed/Terminate b=skipped/Skip c=skipped/Skip");
}

#[test]
fn a_break_ends_it_without_failure() {
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b"]));
    let mut world = World::answering(&[("a", Verdict::Break)]);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Terminated);
    assert_eq!(world.steps(), "a=succeeded/Terminate b=skipped/Skip");
}

#[test]
fn groups_follow_their_sub_steps() {
    let workflow = Workflow::new(
        Mode::StepByStep,
        vec![group("g", steps(&["a", "f", "b"])), Step::new("c", "k")],
    );
    let mut world = World::answering(&[("f", Verdict::Fail(Reason::Action))]);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Failed);
    assert_eq!(
        world.steps(),
        "g=failed/Action[a=succeeded f=failed/Action b=succeeded] c=skipped/Skip"
    );
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    world.reconcile(&workflow);
    assert_eq!(world.steps(), "g=running[a=running/Wait f=succeeded b=succeeded]");
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    let empty = Workflow::new(Mode::StepByStep, vec![group("g", vec![]), Step::new("c", "k")]);
    let mut world = World::default();
    assert_eq!(world.reconcile(&empty).0, WorkflowPhase::Succeeded);
    assert_eq!(world.steps(), "g=succeeded c=succeeded");
}

/// The last step of a workflow is a group, and the last of the group waited for its time.
#[test]
fn a_sub_step_that_no_longer_suspends_releases_the_workflow() {
    for mode in [Mode::Dag, Mode::StepByStep] {
        let both = Step { sub_mode: Some(mode), ..group("g", steps(&["a", "s"])) };
        let workflow = Workflow::new(Mode::StepByStep, vec![both]);
        let mut world = World::answering(&[("s", Verdict::Suspend)]);
        for _ in 0..2 {
            assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Suspending, "{mode:?}");
        }
        world.answers.clear();
        let (phase, _) = world.reconcile(&workflow);
        assert_eq!(world.steps(), "g=succeeded[a=succeeded s=succeeded]", "{mode:?}");
        assert_eq!((phase, world.status.suspend), (WorkflowPhase::Succeeded, false), "{mode:?}");
    }
}

#[test]
fn a_suspended_sub_step_halts_the_rest() {
    let mut inner = group("g", steps(&["a", "s", "b"]));
    inner.sub_mode = Some(Mode::StepByStep);
    let workflow = Workflow::new(Mode::StepByStep, vec![inner, Step::new("c", "k")]);
    let mut world = World::answering(&[("s", Verdict::Suspend)]);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Suspending);
    assert_eq!(world.steps(), "g=suspending[a=succeeded s=suspending/Suspend]");
    crate::operation::resume(&mut world.status, None).unwrap();
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
}

#[test]
fn time_runs_out() {
    let mut all = steps(&["a", "m"]);
    all[0].timeout = Some("3s".into());
    all[1].condition = If::Always;
    let workflow = Workflow::new(Mode::StepByStep, all);
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    let (_, again) = world.reconcile(&workflow);
    assert_eq!(again, Some(Duration::from_secs(1)));
    world.clock = 4;
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Failed);
    assert_eq!(world.steps(), "a=failed/Timeout m=succeeded");
}

#[test]
fn values_are_waited_for_and_kept() {
    let mut all = steps(&["b", "a"]);
    all[0].inputs = vec![crate::Input { from: "ip.v4".into(), parameter_key: "address".into() }];
    let workflow = Workflow::new(Mode::Dag, all);
    let mut world = World::default();
    let outcome = Outcome {
        variables: vec![("ip".to_owned(), serde_json::json!({"v4": "192.0.2.1"}))],
        ..Outcome::succeeded()
    };
    world.answers.insert("a", outcome);
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran, ["a", "b"]);
}

#[test]
fn components_are_found_by_their_name() {
    let mut all = steps(&["first", "second"]);
    all[0].alias = Some("db".into());
    all[1].depends_on = vec!["db".into()];
    let workflow = Workflow::new(Mode::Dag, all);
    assert_eq!(World::default().reconcile(&workflow).0, WorkflowPhase::Succeeded);
}

#[test]
fn restart_from_a_failed_step_forgets_what_came_after() {
    let mut all = steps(&["a", "b", "c"]);
    all[1].outputs = vec![crate::Output { name: "v".into(), value_from: "x".into() }];
    let workflow = Workflow::new(Mode::StepByStep, all);
    let mut world = World::answering(&[("b", Verdict::Fail(Reason::Action))]);
    world.reconcile(&workflow);
    assert!(crate::operation::restart_from(&workflow, &mut world.status, "a").is_err());
    let vars = crate::operation::restart_from(&workflow, &mut world.status, "b").unwrap();
    assert_eq!(vars, ["v"]);
    assert_eq!(world.steps(), "a=succeeded");
    world.answers.clear();
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Succeeded);
    assert_eq!(world.ran, ["a", "b", "b", "c"]);
}

#[test]
fn an_empty_workflow_has_succeeded() {
    let workflow = Workflow::new(Mode::Dag, vec![]);
    assert_eq!(World::default().reconcile(&workflow).0, WorkflowPhase::Succeeded);
}

#[test]
fn a_step_without_progress_fails_at_its_deadline() {
    let mut workflow = Workflow::new(Mode::StepByStep, steps(&["a", "b"]));
    workflow.steps[0].progress_deadline = "10s".parse().ok();
    let mut world = World::default();
    world.answers.insert("a", Outcome::of(Verdict::Wait, "1 of 3 is ready"));
    world.reconcile(&workflow);
    world.clock = 8;
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Executing);
    // what changes is progress, and a reconcile is due at the deadline
    world.answers.insert("a", Outcome::of(Verdict::Wait, "2 of 3 are ready"));
    world.clock = 9;
    assert_eq!(
        world.reconcile(&workflow),
        (WorkflowPhase::Executing, Some(Duration::from_secs(1)))
    );
    world.clock = 19;
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Executing);
    world.clock = 20;
    assert_eq!(world.reconcile(&workflow), (WorkflowPhase::Failed, None));
    assert_eq!(world.steps(), "a=failed/Timeout b=skipped/Skip");
    let said = "no progress for 10s, nothing changed since 2023-11-14T22:13:29Z: 2 of 3 are ready";
    assert_eq!(world.status.steps[0].message, said);
}

#[test]
fn the_deadline_outlives_the_process() {
    let mut workflow = Workflow::new(Mode::StepByStep, steps(&["a"]));
    workflow.steps[0].progress_deadline = "10s".parse().ok();
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    world.reconcile(&workflow);
    let saved = crate::Saved { memory: std::mem::take(&mut world.memory), ..Default::default() };
    let read = crate::Saved::read(&saved.data(), &cue::Limits::default()).unwrap();
    world.memory = read.memory;
    world.clock = 11;
    assert_eq!(world.reconcile(&workflow).0, WorkflowPhase::Failed);
}

#[test]
fn a_running_workflow_says_what_it_waits_for() {
    let said = |answers: &[(&'static str, Verdict)], mode: Mode| {
        let workflow = Workflow::new(mode, steps(&["a", "b", "c"]));
        let mut world = World::answering(answers);
        world.reconcile(&workflow);
        world.clock = 5;
        world.reconcile(&workflow);
        world.status.message
    };
    assert_eq!(
        said(&[("b", Verdict::Wait)], Mode::StepByStep),
        "waiting for step b since 2023-11-14T22:13:20Z, checked again within 60s"
    );
    assert_eq!(
        said(&[("a", Verdict::Wait), ("c", Verdict::Wait)], Mode::Dag),
        "waiting for step a and 1 more step since 2023-11-14T22:13:20Z, checked again within 60s"
    );
    assert_eq!(
        said(&[("a", Verdict::Error)], Mode::StepByStep),
        "step a failed 2 of 11 times, next attempt by 2023-11-14T22:13:26Z"
    );
    assert_eq!(said(&[("a", Verdict::Suspend)], Mode::StepByStep), "");
    assert_eq!(said(&[], Mode::StepByStep), "");
    // However long it waits, it has nothing new to say.
    let workflow = Workflow::new(Mode::StepByStep, steps(&["a"]));
    let mut world = World::answering(&[("a", Verdict::Wait)]);
    let mut messages = std::collections::BTreeSet::new();
    while world.clock < 1000 {
        let again = world.reconcile(&workflow).1.unwrap();
        messages.insert(world.status.message.clone());
        world.clock += i64::try_from(again.as_secs()).unwrap().max(1);
    }
    let said = "waiting for step a since 2023-11-14T22:13:20Z, checked again within 60s";
    assert_eq!(messages.into_iter().collect::<Vec<_>>(), [said]);
}

/// Steps whose conditions are not evaluated in a reconcile wait, as text; each reconcile continues where the last one ended, and not at
/// once.
#[test]
fn a_pass_is_cut_where_its_budget_ends() {
    let asks = |name: &str, text: &str| Step {
        condition: If::Expression(text.to_owned()),
        ..Step::new(name, "k")
    };
    let sub = group("g", vec![asks("g1", "1 == 1"), asks("g2", "1 == 2")]);
    let list = vec![asks("a", "1 == 1"), asks("b", "status.a.failed"), sub, asks("c", "1 +")];
    for mode in [Mode::StepByStep, Mode::Dag] {
        let workflow = Workflow::new(mode, list.clone());
        let mut world = World { most_conditions: Some(1), ..World::default() };
        let mut waited = Vec::new();
        for turn in 0.. {
            assert!(turn < 10, "it does not end: {}", world.steps());
            let (phase, again) = world.reconcile(&workflow);
            if phase == WorkflowPhase::Succeeded {
                break;
            }
            assert_eq!(phase, WorkflowPhase::Executing);
            assert!(again.is_some_and(|again| again >= Duration::from_secs(1)), "{again:?}");
            let waits = world.status.all().filter(|step| step.phase == Phase::Pending);
            let waits: Vec<&StepStatus> = waits.filter(|step| step.sub_steps.is_empty()).collect();
            let [waits] = waits.as_slice() else { panic!("{}", world.steps()) };
            assert_eq!(waits.message, messages::condition_waits(&waits.name, "no time"));
            assert_eq!(world.status.message, waits.message);
            waited.push(waits.name.clone());
            world.clock += 1;
        }
        assert_eq!(waited, ["b", "g1", "g2", "c"], "{mode:?}");
        assert_eq!(world.ran, ["a", "g1"], "{mode:?}");
        let ends =
            "a=succeeded b=skipped/Skip g=succeeded[g1=succeeded g2=skipped/Skip] c=skipped/Skip";
        assert_eq!(world.steps(), ends, "{mode:?}");
    }
}

#[test]
fn a_suspended_workflow_comes_back_to_a_condition_that_waits() {
    let mut stops = Step::new("stops", "k");
    stops.condition = If::Always;
    let asks = Step { condition: If::Expression("1 == 1".to_owned()), ..Step::new("asks", "k") };
    let workflow = Workflow::new(Mode::Dag, vec![stops, asks]);
    let mut world = World::answering(&[("stops", Verdict::Suspend)]);
    world.most_conditions = Some(0);
    let (phase, again) = world.reconcile(&workflow);
    assert_eq!(phase, WorkflowPhase::Suspending);
    assert!(again.is_some_and(|again| !again.is_zero()), "{again:?}");
    world.most_conditions = None;
    world.reconcile(&workflow);
    assert_eq!(world.ran, ["stops", "stops", "asks"]);
}

#[test]
fn steps_that_run_whatever_becomes_of_others() {
    let step = |name: &str| Step::new(name, "apply-component");
    let input = crate::model::Input { from: "a".to_owned(), parameter_key: "b".to_owned() };
    let steps = vec![
        step("free"),
        Step { depends_on: vec!["free".to_owned()], ..step("waits") },
        Step { condition: If::Expression("true".to_owned()), ..step("asks") },
        Step { inputs: vec![input], ..step("reads") },
        Step { timeout: Some("1m".to_owned()), ..step("timed") },
        step("free-too"),
    ];
    let names = |mode, steps: &[Step], status: Status| {
        let workflow = Workflow { mode, steps: steps.to_vec(), ..Workflow::default() };
        let (memory, options) = (Memory::default(), Options::default());
        let pass = Pass::begin(&workflow, status, memory, Facts::at(time(0)), options);
        let steps = pass.unconditional("apply-component");
        steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(Mode::Dag, &steps, Status::default()), ["free", "free-too"]);
    assert!(names(Mode::StepByStep, &steps, Status::default()).is_empty());
    assert!(names(Mode::Dag, &steps, Status { suspend: true, ..Status::default() }).is_empty());
    let mut mixed = steps.clone();
    mixed.push(Step::new("other", "suspend"));
    assert!(names(Mode::Dag, &mixed, Status::default()).is_empty());
    // Later passes leave what is left to the steps.
    let mut world = World::answering(&[("free", Verdict::Wait)]);
    let workflow = Workflow { mode: Mode::Dag, steps: steps.clone(), ..Workflow::default() };
    world.reconcile(&workflow);
    assert!(names(Mode::Dag, &steps, world.status).is_empty());
}
