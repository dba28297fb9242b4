//! Tests of step templates, with a fake that answers all calls.

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
    let own = "import \"vela/builtin\"\na: builtin.#Fail & {$params: message: \"n is a name\"}\n";
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
    let template = "import \"vela/builtin\"\ns: builtin.#Suspend & {$params: duration: \"30s\"}\n";
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
