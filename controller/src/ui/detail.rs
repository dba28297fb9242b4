//! The view of one Application without its objects: its run as a graph, its components with their health.

use serde::Serialize;
use vela_api::names::annotation;
use vela_api::workflow::{
    InputItem, OutputItem, Workflow, WorkflowStatus, WorkflowStep, WorkflowStepStatus,
};
use vela_api::{Application, Time};
use vela_workflow::{Mode, generate};

use super::summary::{Summary, cut};

/// Steps that are shown.
const MAX_STEPS: usize = 500;

/// One Application.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Detail {
    summary: Summary,
    generation: i64,
    observed: i64,
    author: String,
    conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<Run>,
    components: Vec<Component>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    since: Time,
}

/// A run of the workflow.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Run {
    phase: String,
    mode: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Time>,
    steps: Vec<Step>,
}

/// A step or a sub-step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Step {
    /// Its name, behind that of its group.
    key: String,
    #[serde(rename = "type")]
    type_: String,
    phase: String,
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Time>,
    /// Keys of those that come first.
    after: Vec<String>,
}

/// A component of the spec, and where it is deployed.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Component {
    name: String,
    #[serde(rename = "type")]
    type_: String,
    traits: Vec<String>,
    after: Vec<String>,
    services: Vec<Service>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Service {
    cluster: String,
    namespace: String,
    healthy: bool,
    message: String,
    traits: Vec<Trait>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Trait {
    #[serde(rename = "type")]
    type_: String,
    healthy: bool,
    pending: bool,
    message: String,
}

impl Detail {
    /// Of an Application; `referenced` is the Workflow that it refers to, if that can be read.
    pub(super) fn of(app: &Application, referenced: Option<&Workflow>) -> Self {
        let conditions = app.status.conditions.iter().map(|condition| Condition {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: cut(&condition.message),
            since: condition.last_transition_time.clone(),
        });
        let annotations = app.metadata.annotations.as_ref();
        let author = annotations.and_then(|all| all.get(annotation::USERNAME));
        Self {
            summary: Summary::of(app),
            generation: app.metadata.generation.unwrap_or_default(),
            observed: app.status.observed_generation,
            author: author.cloned().unwrap_or_default(),
            conditions: conditions.collect(),
            workflow: app.status.workflow.as_ref().map(|status| run(app, referenced, status)),
            components: components(app),
        }
    }
}

fn components(app: &Application) -> Vec<Component> {
    let named: Vec<(&str, &[InputItem], &[OutputItem])> = app
        .spec
        .components
        .iter()
        .map(|one| (one.name.as_str(), one.inputs.as_slice(), one.outputs.as_slice()))
        .collect();
    let of = |component: &vela_api::application::ApplicationComponent| {
        let services =
            app.status.services.iter().filter(|service| service.name == component.name).map(
                |service| Service {
                    cluster: service.cluster.clone(),
                    namespace: service.namespace.clone(),
                    healthy: service.healthy,
                    message: cut(&service.message),
                    traits: service
                        .traits
                        .iter()
                        .map(|one| Trait {
                            type_: one.type_.clone(),
                            healthy: one.healthy,
                            pending: one.pending,
                            message: cut(&one.message),
                        })
                        .collect(),
                },
            );
        Component {
            name: component.name.clone(),
            type_: component.type_.clone(),
            traits: component.traits.iter().map(|one| one.type_.clone()).collect(),
            after: waited_for(&component.depends_on, &component.inputs, &named),
            services: services.collect(),
        }
    };
    app.spec.components.iter().map(of).collect()
}

/// Names of what something depends on, or takes values of.
fn waited_for(
    depends_on: &[String],
    inputs: &[InputItem],
    others: &[(&str, &[InputItem], &[OutputItem])],
) -> Vec<String> {
    let mut names = depends_on.to_vec();
    for input in inputs {
        let gives = |outputs: &[OutputItem]| {
            outputs.iter().any(|output| {
                let rest = input.from.strip_prefix(output.name.as_str());
                // An input may take a field of an output, `db.host`; `db` must not match `dbname`.
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let givers = others.iter().filter(|(_, _, outputs)| gives(outputs));
        names.extend(givers.map(|(name, _, _)| (*name).to_owned()));
    }
    names.sort();
    names.dedup();
    names
}

fn run(app: &Application, referenced: Option<&Workflow>, status: &WorkflowStatus) -> Run {
    // What cannot be read as a workflow has the steps that its status names.
    let (mut steps, top, sub) = generate::steps(app, referenced).unwrap_or_default();
    for step in &mut steps {
        with_component(app, step);
        step.sub_steps.iter_mut().for_each(|step| with_component(app, step));
    }
    let mut all = Vec::new();
    level("", &steps, &status.steps, (top, sub), &mut all);
    // A status is written by whoever may write it; a page must not grow with it.
    all.truncate(MAX_STEPS);
    Run {
        phase: status.phase.clone(),
        mode: status.mode.clone(),
        message: cut(&status.message),
        start: status.start_time.clone(),
        end: status.end_time.clone(),
        steps: all,
    }
}

/// A step that applies a component waits for what the component waits for, and gives what that gives.
fn with_component(app: &Application, step: &mut WorkflowStep) {
    if step.type_ != generate::APPLY_COMPONENT {
        return;
    }
    let properties = step.properties.as_ref().map(serde_json::to_value);
    let properties = properties.and_then(Result::ok).unwrap_or_default();
    let named = properties.get("component").and_then(serde_json::Value::as_str);
    let component = app.spec.components.iter().find(|one| Some(one.name.as_str()) == named);
    if let Some(component) = component {
        step.depends_on.extend(component.depends_on.iter().cloned());
        step.inputs.extend(component.inputs.iter().cloned());
        step.outputs.extend(component.outputs.iter().cloned());
    }
}

/// The steps of the workflow, or of a group, and behind them those that only the status has.
fn level(
    group: &str,
    steps: &[WorkflowStep],
    states: &[WorkflowStepStatus],
    (mode, sub): (Mode, Mode),
    all: &mut Vec<Step>,
) {
    let key =
        |name: &str| if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") };
    let named: Vec<(&str, &[InputItem], &[OutputItem])> = steps
        .iter()
        .map(|step| (step.name.as_str(), step.inputs.as_slice(), step.outputs.as_slice()))
        .collect();
    let parent = || if group.is_empty() { Vec::new() } else { vec![group.to_owned()] };
    let mut previous: Option<String> = None;
    for step in steps {
        let state = states.iter().find(|state| state.name == step.name);
        let waited = match mode {
            // One after the other: what a step names itself changes nothing.
            Mode::StepByStep => previous.iter().cloned().collect(),
            Mode::Dag => {
                let names = waited_for(&step.depends_on, &step.inputs, &named);
                names.iter().map(|name| key(name)).collect::<Vec<_>>()
            }
        };
        let after = if waited.is_empty() { parent() } else { waited };
        let key = key(&step.name);
        all.push(shown(key.clone(), &step.type_, state, after));
        let inner = match step.mode.as_str() {
            "StepByStep" => Mode::StepByStep,
            "DAG" => Mode::Dag,
            _ => sub,
        };
        let below = state.map(|state| state.sub_steps.as_slice()).unwrap_or_default();
        level_below(&key, &step.sub_steps, below, inner, all);
        previous = Some(key);
    }
    for state in states.iter().filter(|state| !steps.iter().any(|step| step.name == state.name)) {
        let after = previous.iter().cloned().collect::<Vec<_>>();
        let key = key(&state.name);
        all.push(shown(
            key.clone(),
            &state.type_,
            Some(state),
            if after.is_empty() { parent() } else { after },
        ));
        level_below(&key, &[], &state.sub_steps, sub, all);
        previous = Some(key);
    }
}

/// The sub-steps of a group: there is one level of them, whatever a status says.
fn level_below(
    group: &str,
    steps: &[WorkflowStep],
    states: &[WorkflowStepStatus],
    mode: Mode,
    all: &mut Vec<Step>,
) {
    if !group.contains('/') && (!steps.is_empty() || !states.is_empty()) {
        level(group, steps, states, (mode, mode), all);
    }
}

fn shown(key: String, type_: &str, state: Option<&WorkflowStepStatus>, after: Vec<String>) -> Step {
    let Some(state) = state else {
        let (type_, phase) = (type_.to_owned(), "not started".to_owned());
        return Step { key, type_, phase, after, ..Step::default() };
    };
    Step {
        key,
        type_: state.type_.clone(),
        phase: state.phase.clone(),
        reason: state.reason.clone(),
        message: cut(&state.message),
        start: state.first_execute_time.clone(),
        end: state.last_execute_time.clone(),
        after,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn app(spec: &Value, steps: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": spec,
            "status": {"workflow": {"status": "executing", "steps": steps}}}))
        .unwrap()
    }

    /// The steps as `key phase <- after`.
    fn graph(app: &Application) -> Vec<String> {
        let detail = Detail::of(app, None);
        let steps = detail.workflow.unwrap().steps.into_iter();
        steps
            .map(|step| format!("{} {} <- {}", step.key, step.phase, step.after.join(" ")))
            .collect()
    }

    fn step(name: &str) -> Value {
        json!({"name": name, "type": "suspend"})
    }

    #[test]
    fn steps_follow_each_other_or_their_dependencies() {
        let mut last = step("last");
        last["subSteps"] = json!([step("x"), {"name": "y", "type": "t", "dependsOn": ["x"]}]);
        last["type"] = json!("step-group");
        let spec = json!({"components": [], "workflow": {"steps": [step("first"), last]}});
        let states = json!([{"name": "first", "type": "suspend", "phase": "succeeded", "id": "1"}]);
        assert_eq!(
            graph(&app(&spec, &states)),
            [
                "first succeeded <- ",
                "last not started <- first",
                "last/x not started <- last",
                "last/y not started <- last/x"
            ]
        );
        let mut dag = spec;
        dag["workflow"]["mode"] = json!({"steps": "DAG"});
        dag["workflow"]["steps"][0]["outputs"] = json!([{"name": "o", "valueFrom": "1"}]);
        dag["workflow"]["steps"][1]["inputs"] = json!([{"from": "o.a", "parameterKey": "p"}]);
        assert_eq!(graph(&app(&dag, &states))[1], "last not started <- first");
    }

    #[test]
    fn steps_that_only_the_status_knows_are_shown() {
        let states = json!([
            {"name": "old", "type": "t", "phase": "failed", "id": "1",
                "subSteps": [{"name": "s", "type": "t", "phase": "failed", "id": "2",
                    "subSteps": [{"name": "deep", "type": "t", "phase": "failed", "id": "3"}]}]},
            {"name": "next", "type": "t", "phase": "skipped", "id": "4"}]);
        let app = app(&json!({"components": []}), &states);
        assert_eq!(graph(&app), ["old failed <- ", "old/s failed <- old", "next skipped <- old"]);
    }

    #[test]
    fn components_without_a_workflow_are_steps() {
        let spec = json!({"components": [{"name": "db", "type": "t", "outputs": [{"name": "o", "valueFrom": "1"}]},
            {"name": "web", "type": "t", "dependsOn": ["x"], "inputs": [{"from": "o", "parameterKey": "p"}]}]});
        let app = app(
            &spec,
            &json!([{"name": "db", "type": "apply-component", "phase": "running", "id": "1"}]),
        );
        let components = Detail::of(&app, None).components;
        assert_eq!(components[1].after, ["db", "x"]);
        assert_eq!(graph(&app)[0], "db running <- ");
        assert!(graph(&app)[1].starts_with("web not started <- db"));
    }
}
