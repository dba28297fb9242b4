//! What a WorkflowRun runs: its steps or those of its Workflow, with the definitions of their types.

use serde_json::{Value, json};
use vela_api::names::{APPLICATION_SCOPE, label};
use vela_api::workflow::WorkflowExecuteMode;
use vela_api::{
    RawExtension, Workflow, WorkflowRun, WorkflowStep, WorkflowStepDefinition, builtin,
};
use vela_workflow::generate::{self, GenerateError};

use crate::application::facts::{self, parse::Used};
use crate::definitions::Definitions;
use crate::queue::Key;

use super::error::StartError;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// The definitions of the steps.
    pub(super) used: Used,
    /// The steps.
    pub(super) workflow: vela_workflow::Workflow,
    /// The Workflow that the run refers to.
    pub(super) referenced: Option<Workflow>,
    /// How they run, as written.
    pub(super) mode: WorkflowExecuteMode,
}

/// Resolves everything that a run refers to.
///
/// # Errors
/// What is missing, or cannot be part of a run.
pub(super) fn collect(definitions: &Definitions, run: &WorkflowRun) -> Result<Found, StartError> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &run.spec;
    let referenced = match (&spec.workflow_spec, spec.workflow_ref.as_str()) {
        (Some(_), _) => None,
        (None, "") => return Err(StartError::NoWorkflow),
        (None, name) => {
            let found = definitions.workflows.get(&Key::new(namespace, name));
            let found = found.ok_or_else(|| StartError::UnknownWorkflow(name.to_owned()))?;
            Some(Workflow::clone(&found))
        }
    };
    let own = spec.workflow_spec.as_ref().map(|own| &own.steps);
    let steps = own.or(referenced.as_ref().map(|it| &it.steps)).map_or(&[][..], Vec::as_slice);
    let mode = mode(run, referenced.as_ref());
    let workflow = generate::run(steps, &mode)?;
    let used = used(definitions, namespace, steps)?;
    Ok(Found { used, workflow, referenced, mode })
}

/// How the steps run: as the run began, or as it or its Workflow says.
fn mode(run: &WorkflowRun, referenced: Option<&Workflow>) -> WorkflowExecuteMode {
    let began = run.status.start_time.is_some() && !run.status.mode.steps.is_empty();
    let written = || run.spec.mode.clone().or_else(|| referenced.and_then(|it| it.mode.clone()));
    let mode = if began { run.status.mode.clone() } else { written().unwrap_or_default() };
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    WorkflowExecuteMode {
        steps: or(mode.steps, "StepByStep"),
        sub_steps: or(mode.sub_steps, "DAG"),
    }
}

/// The definitions of the steps: from the namespace of the run, else from that of the system.
fn used(
    definitions: &Definitions,
    namespace: &str,
    steps: &[WorkflowStep],
) -> Result<Used, StartError> {
    let mut used = Used::default();
    for step in steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps)) {
        let kind = step.type_.as_str();
        if builtin::STEPS.contains(&kind) || used.steps.contains_key(kind) {
            continue;
        }
        let found =
            definitions.find::<WorkflowStepDefinition>(namespace, kind).ok_or_else(|| {
                let missing = definitions.missing::<WorkflowStepDefinition>(namespace, kind);
                StartError::NoDefinition { step: step.name.clone(), missing }
            })?;
        if facts::label(&found.metadata, label::DEFINITION_SCOPE) == APPLICATION_SCOPE {
            let (step, kind) = (step.name.clone(), kind.to_owned());
            return Err(GenerateError::NeedsApplication { step, kind }.into());
        }
        used.steps.insert(kind.to_owned(), found);
    }
    Ok(used)
}

/// `context` of conditions, inputs and templates. What the run says itself counts before what there is anyway.
pub(super) fn context(run: &WorkflowRun) -> Value {
    let mut context = json!({
        "name": run.metadata.name, "namespace": run.metadata.namespace,
        "workflowName": "", "publishVersion": "",
    });
    let own = run.spec.context.as_ref().map(RawExtension::to_value);
    if let (Some(Value::Object(own)), Some(context)) = (own, context.as_object_mut()) {
        context.extend(own);
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(spec: &Value, status: &Value) -> WorkflowRun {
        let metadata = json!({"name": "r", "namespace": "n"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn a_mode_is_that_of_the_beginning_then_of_the_run_then_of_the_workflow() {
        let workflow: Workflow =
            serde_json::from_value(json!({"metadata": {}, "mode": {"steps": "DAG"}, "steps": []}))
                .unwrap();
        let dag = json!({"mode": {"steps": "DAG", "subSteps": "StepByStep"}});
        let began = json!({"startTime": "2026-01-01T00:00:00Z",
            "mode": {"steps": "StepByStep", "subSteps": "DAG"}});
        for (spec, status, referenced, expected) in [
            (json!({}), json!({}), None, ["StepByStep", "DAG"]),
            (json!({}), json!({}), Some(&workflow), ["DAG", "DAG"]),
            (dag.clone(), json!({}), Some(&workflow), ["DAG", "StepByStep"]),
            (dag.clone(), began, None, ["StepByStep", "DAG"]),
            (dag, json!({"mode": {}, "suspend": true}), None, ["DAG", "StepByStep"]),
        ] {
            let mode = mode(&run(&spec, &status), referenced);
            assert_eq!([mode.steps.as_str(), mode.sub_steps.as_str()], expected);
        }
    }

    #[test]
    fn what_a_run_says_of_its_context_counts() {
        let run = run(&json!({"context": {"env": {"a": 1}, "name": "other"}}), &json!({}));
        let expected = json!({"name": "other", "namespace": "n", "workflowName": "",
            "publishVersion": "", "env": {"a": 1}});
        assert_eq!(context(&run), expected);
        let odd = WorkflowRun { spec: serde_json::from_value(json!({})).unwrap(), ..run };
        assert_eq!(context(&odd)["name"], "r");
    }

    #[test]
    fn steps_are_resolved_or_said_to_be_missing() {
        let definitions =
            Definitions { system_namespace: "vela-system".to_owned(), ..Definitions::default() };
        let define = |namespace: &str, name: &str, labels: Value| {
            let definition = json!({"metadata": {"name": name, "namespace": namespace,
                "resourceVersion": "1", "labels": labels}, "spec": {}});
            let _ = definitions.steps.put(serde_json::from_value(definition).unwrap());
        };
        define("vela-system", "request", json!({}));
        define("vela-system", "deploy", json!({label::DEFINITION_SCOPE: "Application"}));
        define("n", "own", json!({}));
        let resolve = |kind: &str| {
            let steps: Vec<WorkflowStep> = serde_json::from_value(json!([
                {"name": "g", "type": "step-group", "subSteps": [{"name": "s", "type": kind}]}]))
            .unwrap();
            used(&definitions, "n", &steps).map(|used| used.steps.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(resolve("request").unwrap(), ["request"]);
        assert_eq!(resolve("own").unwrap(), ["own"]);
        assert_eq!(resolve("suspend").unwrap(), Vec::<String>::new());
        let text = resolve("requst").unwrap_err().to_string();
        assert!(text.contains("step s") && text.contains("\"requst\" not found"), "{text}");
        let text = resolve("deploy").unwrap_err().to_string();
        assert!(text.contains("step s of type deploy needs an Application"), "{text}");
    }
}
