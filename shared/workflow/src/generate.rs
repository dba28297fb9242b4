//! From an Application's spec to the workflow it runs: the steps as written, those of a referenced
//! Workflow, or the default ones, with `apply-component` turned into the component it applies.

use serde_json::{Map, Value, json};
use vela_api::RawExtension;
use vela_api::application::{AppPolicy, Application, ApplicationComponent};
use vela_api::names::annotation;
use vela_api::workflow::{
    InputItem, OutputItem, Workflow as WorkflowObject, WorkflowExecuteMode, WorkflowStep,
};

use crate::messages;
use crate::model::{Input, Mode, Output, Step, Workflow};
use crate::progress;

/// The type of the step that applies one component.
pub const APPLY_COMPONENT: &str = "apply-component";
/// What it becomes once the component is in its properties.
pub const BUILTIN_APPLY_COMPONENT: &str = "builtin-apply-component";

/// An Application from which no workflow can be made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// It has steps, and the name of a workflow.
    #[error("{}", messages::REF_AND_STEPS)]
    RefAndSteps,
    /// The annotation with the progress deadlines.
    #[error(transparent)]
    Deadline(#[from] progress::DeadlineError),
    /// A step applies a component that the Application does not have.
    #[error("{}", messages::component_not_found(.component))]
    ComponentNotFound {
        /// Its name.
        component: String,
    },
    /// The component of a step depends on one that the Application does not have.
    #[error("{}", messages::dependency_not_found(.missing, .component))]
    DependencyNotFound {
        /// The name of the one that is not there.
        missing: String,
        /// The name of the one that the step applies.
        component: String,
    },
    /// A component that is no JSON.
    #[error(transparent)]
    Component(serde_json::Error),
    /// A step of a WorkflowRun that applies a component.
    #[error("{}", messages::step_needs_application(.step, .kind))]
    NeedsApplication {
        /// Its name.
        step: String,
        /// Its type.
        kind: String,
    },
}

/// Steps of an Application and how they run. `referenced` is the object that `spec.workflow.ref`
/// names.
///
/// # Errors
/// A workflow with both `ref` and `steps`.
pub fn steps(
    app: &Application,
    referenced: Option<&WorkflowObject>,
) -> Result<(Vec<WorkflowStep>, Mode, Mode), GenerateError> {
    let workflow = app.spec.workflow.as_ref();
    if workflow.is_some_and(|w| !w.reference.is_empty() && !w.steps.is_empty()) {
        return Err(GenerateError::RefAndSteps);
    }
    let written = workflow.map(|w| w.steps.clone()).filter(|steps| !steps.is_empty());
    let steps = written
        .or_else(|| referenced.map(|w| w.steps.clone()).filter(|steps| !steps.is_empty()))
        .or_else(|| deploy_steps(app))
        .or_else(|| environment_steps(app))
        .unwrap_or_else(|| app.spec.components.iter().map(apply_component_step).collect());
    let mode = workflow
        .and_then(|w| w.mode.clone())
        .or_else(|| referenced.and_then(|w| w.mode.clone()))
        .unwrap_or_default();
    let (top, sub) = modes(&mode, workflow.is_some());
    Ok((steps, top, sub))
}

/// Without a workflow everything that can runs at once; with one, step after step.
fn modes(mode: &WorkflowExecuteMode, has_workflow: bool) -> (Mode, Mode) {
    let top = match mode.steps.as_str() {
        "" if !has_workflow => Mode::Dag,
        "DAG" => Mode::Dag,
        _ => Mode::StepByStep,
    };
    let sub = if mode.sub_steps == "StepByStep" { Mode::StepByStep } else { Mode::Dag };
    (top, sub)
}

/// The name of a policy: unnamed ones are numbered by their position.
#[must_use]
pub fn policy_name(policy: &AppPolicy, index: usize) -> String {
    if policy.name.is_empty() {
        format!("{}-auto-gen-{index}", policy.type_)
    } else {
        policy.name.clone()
    }
}

/// One `deploy` per topology policy; or a single one where only overrides or referred objects ask
/// for it.
fn deploy_steps(app: &Application) -> Option<Vec<WorkflowStep>> {
    let of_type = |kind: &str| -> Vec<String> {
        let named = app.spec.policies.iter().enumerate().filter(|(_, p)| p.type_ == kind);
        named.map(|(index, policy)| policy_name(policy, index)).collect()
    };
    let overrides = of_type("override");
    let topologies = of_type("topology");
    let deploy = |name: String, policies: Vec<String>| WorkflowStep {
        name,
        type_: "deploy".to_owned(),
        properties: Some(RawExtension::new(&json!({ "policies": policies }))),
        ..WorkflowStep::default()
    };
    if !topologies.is_empty() {
        let one = |topology: &String| {
            let policies = overrides.iter().chain([topology]).cloned().collect();
            deploy(format!("deploy-{topology}"), policies)
        };
        return Some(topologies.iter().map(one).collect());
    }
    let refers = app.spec.components.iter().any(|c| c.type_ == "ref-objects");
    (refers || !overrides.is_empty()).then(|| vec![deploy("deploy".to_owned(), overrides)])
}

/// One `deploy2env` for each environment of the `env-binding` policies.
fn environment_steps(app: &Application) -> Option<Vec<WorkflowStep>> {
    let mut steps = Vec::new();
    for (index, policy) in app.spec.policies.iter().enumerate() {
        let properties = policy.properties.as_ref().filter(|_| policy.type_ == "env-binding");
        let Some(properties) = properties.map(RawExtension::to_value) else { continue };
        let name = policy_name(policy, index);
        let environments = properties.get("envs").and_then(Value::as_array).into_iter().flatten();
        for environment in environments.filter_map(|one| one.get("name")?.as_str()) {
            steps.push(WorkflowStep {
                name: format!("deploy-{name}-{environment}"),
                type_: "deploy2env".to_owned(),
                properties: Some(RawExtension::new(&json!({ "policy": name, "env": environment }))),
                ..WorkflowStep::default()
            });
        }
    }
    (!steps.is_empty()).then_some(steps)
}

fn apply_component_step(component: &ApplicationComponent) -> WorkflowStep {
    WorkflowStep {
        name: component.name.clone(),
        type_: APPLY_COMPONENT.to_owned(),
        properties: Some(RawExtension::new(&json!({ "component": component.name }))),
        depends_on: component.depends_on.clone(),
        ..WorkflowStep::default()
    }
}

/// The workflow of an Application.
///
/// # Errors
/// As [`steps`]; a step that applies a component that does not exist, or that depends on one; a progress deadline that
/// cannot be meant.
pub fn workflow(
    app: &Application,
    referenced: Option<&WorkflowObject>,
) -> Result<Workflow, GenerateError> {
    let (steps, mode, sub_mode) = steps(app, referenced)?;
    let components = Some(app.spec.components.as_slice());
    let steps = steps.iter().map(|step| model(components, step)).collect::<Result<_, _>>()?;
    let mut workflow = Workflow { mode, sub_mode, steps };
    let annotations = app.metadata.annotations.as_ref();
    if let Some(text) = annotations.and_then(|all| all.get(annotation::PROGRESS_DEADLINE)) {
        let deadlines = progress::read(text)?;
        progress::put(&deadlines, &mut workflow)?;
    }
    Ok(workflow)
}

/// The workflow of a WorkflowRun: steps as written, one after the other unless the mode says something else.
///
/// # Errors
/// A step applies a component, which only an Application has.
pub fn run(steps: &[WorkflowStep], mode: &WorkflowExecuteMode) -> Result<Workflow, GenerateError> {
    let steps = steps.iter().map(|step| model(None, step)).collect::<Result<_, _>>()?;
    let (mode, sub_mode) = modes(mode, true);
    Ok(Workflow { mode, sub_mode, steps })
}

/// A step for the engine. `components`: those of the Application; a WorkflowRun has none.
fn model(
    components: Option<&[ApplicationComponent]>,
    step: &WorkflowStep,
) -> Result<Step, GenerateError> {
    let properties = match step.properties.as_ref().map(RawExtension::to_value) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let text = |key: &str| properties.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut model = Step {
        name: step.name.clone(),
        kind: step.type_.clone(),
        reported_kind: None,
        alias: text("name").or_else(|| text("component")),
        condition: step.if_.as_str().into(),
        timeout: Some(step.timeout.clone()).filter(|t| !t.is_empty()),
        progress_deadline: None,
        depends_on: step.depends_on.clone(),
        inputs: step.inputs.iter().map(input).collect(),
        outputs: step.outputs.iter().map(output).collect(),
        properties: Map::new(),
        sub_mode: match step.mode.as_str() {
            "" => None,
            "StepByStep" => Some(Mode::StepByStep),
            _ => Some(Mode::Dag),
        },
        sub_steps: step
            .sub_steps
            .iter()
            .map(|sub| model_sub(components, sub))
            .collect::<Result<_, _>>()?,
    };
    match (components, step.type_.as_str()) {
        (Some(components), APPLY_COMPONENT) => {
            apply_component(components, &mut model, &properties)?;
        }
        (None, APPLY_COMPONENT | BUILTIN_APPLY_COMPONENT) => {
            let (step, kind) = (step.name.clone(), step.type_.clone());
            return Err(GenerateError::NeedsApplication { step, kind });
        }
        _ => model.properties = properties,
    }
    Ok(model)
}

/// Sub-steps have no sub-steps: what is written there is ignored.
fn model_sub(
    components: Option<&[ApplicationComponent]>,
    step: &WorkflowStep,
) -> Result<Step, GenerateError> {
    let flat = WorkflowStep { sub_steps: Vec::new(), mode: String::new(), ..step.clone() };
    model(components, &flat)
}

/// Puts the component a step names into the step.
fn apply_component(
    components: &[ApplicationComponent],
    step: &mut Step,
    properties: &Map<String, Value>,
) -> Result<(), GenerateError> {
    let name = properties.get("component").and_then(Value::as_str).unwrap_or_default();
    let find = |name: &str| components.iter().find(|c| c.name == name);
    let component = find(name)
        .ok_or_else(|| GenerateError::ComponentNotFound { component: name.to_owned() })?;
    if let Some(missing) = component.depends_on.iter().find(|d| find(d).is_none()) {
        let (missing, component) = (missing.clone(), name.to_owned());
        return Err(GenerateError::DependencyNotFound { missing, component });
    }
    step.inputs.extend(component.inputs.iter().map(input));
    for input in &mut step.inputs {
        input.parameter_key = component_key(&input.parameter_key);
    }
    step.outputs.extend(component.outputs.iter().map(output));
    for dependency in &component.depends_on {
        if !step.depends_on.contains(dependency) {
            step.depends_on.push(dependency.clone());
        }
    }
    let bare = ApplicationComponent {
        inputs: Vec::new(),
        outputs: Vec::new(),
        depends_on: Vec::new(),
        ..component.clone()
    };
    let value = serde_json::to_value(&bare).map_err(GenerateError::Component)?;
    step.properties.insert("value".to_owned(), value);
    let text = |key: &str| properties.get(key).and_then(Value::as_str).unwrap_or_default();
    step.properties.insert("cluster".to_owned(), json!(text("cluster")));
    if !text("namespace").is_empty() {
        step.properties.insert("namespace".to_owned(), json!(text("namespace")));
    }
    step.kind = BUILTIN_APPLY_COMPONENT.to_owned();
    step.reported_kind = Some(APPLY_COMPONENT.to_owned());
    Ok(())
}

/// Where a component's input goes in the step's parameter.
fn component_key(key: &str) -> String {
    let key = key.trim();
    if key.is_empty() {
        String::new()
    } else if key.starts_with("properties") || key.starts_with("traits[") {
        format!("value.{key}")
    } else {
        format!("value.properties.{key}")
    }
}

fn input(item: &InputItem) -> Input {
    Input { from: item.from.clone(), parameter_key: item.parameter_key.clone() }
}

fn output(item: &OutputItem) -> Output {
    Output { name: item.name.clone(), value_from: item.value_from.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
    fn app(spec: Value) -> Application {
        let object = json!({"metadata": {"name": "app"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn names(app: &Application) -> Vec<String> {
        steps(app, None).unwrap().0.into_iter().map(|s| format!("{}:{}", s.name, s.type_)).collect()
    }

    #[test]
    fn default_steps() {
        let components = json!([{"name": "a", "type": "worker"}, {"name": "b", "type": "worker", "dependsOn": ["a"]}]);
        let plain = app(json!({"components": components}));
        assert_eq!(names(&plain), ["a:apply-component", "b:apply-component"]);
        assert_eq!(workflow(&plain, None).unwrap().mode_text(), "DAG-DAG");
        let spread = app(json!({"components": components, "policies": [
            {"name": "o", "type": "override"}, {"type": "topology"}, {"name": "t", "type": "topology"}
        ]}));
        assert_eq!(names(&spread), ["deploy-topology-auto-gen-1:deploy", "deploy-t:deploy"]);
        let first = &steps(&spread, None).unwrap().0[0];
        let policies = first.properties.as_ref().unwrap().as_str().to_owned();
        assert_eq!(policies, r#"{"policies":["o","topology-auto-gen-1"]}"#);
        let overridden =
            app(json!({"components": components, "policies": [{"name": "o", "type": "override"}]}));
        assert_eq!(names(&overridden), ["deploy:deploy"]);
        let bound = app(json!({"components": components, "policies": [
            {"name": "e", "type": "env-binding", "properties": {"envs": [{"name": "test"}, {"name": "prod"}]}}
        ]}));
        assert_eq!(names(&bound), ["deploy-e-test:deploy2env", "deploy-e-prod:deploy2env"]);
        let mode_only = app(
            json!({"components": components, "workflow": {"mode": {"subSteps": "StepByStep"}}}),
        );
        assert_eq!(workflow(&mode_only, None).unwrap().mode_text(), "StepByStep-StepByStep");
    }

    #[test]
    fn a_component_goes_into_its_step() {
        let app = app(json!({"components": [
            {"name": "a", "type": "worker", "properties": {"image": "x"},
             "inputs": [{"from": "ip", "parameterKey": "env"}, {"from": "t", "parameterKey": "traits[0].properties.x"}],
             "outputs": [{"name": "o", "valueFrom": "output.spec"}]}
        ]}));
        let workflow = workflow(&app, None).unwrap();
        let step = &workflow.steps[0];
        assert_eq!(step.kind, "builtin-apply-component");
        assert_eq!(step.reported_kind(), "apply-component");
        let keys: Vec<&str> = step.inputs.iter().map(|i| i.parameter_key.as_str()).collect();
        assert_eq!(keys, ["value.properties.env", "value.traits[0].properties.x"]);
        assert_eq!(
            Value::Object(step.properties.clone()),
            json!({"cluster": "", "value": {"name": "a", "type": "worker", "properties": {"image": "x"}}})
        );
    }

    #[test]
    fn a_run_has_steps_in_order_and_no_components() {
        let steps = |value: Value| serde_json::from_value::<Vec<WorkflowStep>>(value).unwrap();
        let plain = steps(json!([{"name": "a", "type": "request", "properties": {"url": "x"}},
            {"name": "g", "type": "step-group", "subSteps": [{"name": "b", "type": "suspend"}]}]));
        let mode = WorkflowExecuteMode::default();
        let made = run(&plain, &mode).unwrap();
        assert_eq!(made.mode_text(), "StepByStep-DAG");
        assert_eq!(made.steps[0].properties["url"], "x");
        assert_eq!(made.steps[1].sub_steps[0].kind, "suspend");
        let mode =
            WorkflowExecuteMode { steps: "DAG".to_owned(), sub_steps: "StepByStep".to_owned() };
        assert_eq!(run(&plain, &mode).unwrap().mode_text(), "DAG-StepByStep");
        for kind in [APPLY_COMPONENT, BUILTIN_APPLY_COMPONENT] {
            let deep = steps(json!([{"name": "g", "type": "step-group",
                "subSteps": [{"name": "c", "type": kind}]}]));
            let error = run(&deep, &mode).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("step c of type {kind} needs an Application, and this is a WorkflowRun")
            );
        }
    }

    #[test]
    fn what_cannot_be_made() {
        let error = |spec: Value| workflow(&app(spec), None).unwrap_err().to_string();
        let components = json!([{"name": "a", "type": "worker", "dependsOn": ["z"]}]);
        assert_eq!(
            error(json!({"components": components})),
            "component a depends on z, which the Application does not have"
        );
        assert_eq!(
            error(json!({"components": [], "workflow": {"steps": [
                {"name": "s", "type": "apply-component", "properties": {"component": "q"}}]}})),
            "component q not found"
        );
        assert_eq!(
            error(
                json!({"components": [], "workflow": {"ref": "w", "steps": [{"name": "s", "type": "suspend"}]}})
            ),
            "a workflow has either steps or a ref"
        );
    }
}
