//! Admission of WorkflowRuns: names of steps and the stamp of the author, and the rules about steps that Applications have, too.
//!
//! Answers for `pkg/webhook/v1alpha1/workflowrun` of kubevela/workflow, and for what its controller finds out only while it runs.

use serde_json::Value;
use serde_json::value::RawValue;
use vela_api::{V1ALPHA1, WorkflowRun};

use crate::admit::Admit;
use crate::application::model::{self, App};
use crate::application::mutate::{named, step_names};
use crate::application::subject::{Findings, Subject, Undecoded, is_type, namespace, parse};
use crate::application::{auth, workflow};
use crate::decision::Decision;
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::review::Request;
use crate::size;
use crate::world::{ObjectKind, World};

/// The path of the steps that a run has itself.
const STEPS: [&str; 2] = ["spec", "workflowSpec"];

/// The mutating rules, without the stamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutate;

/// The validating rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validate;

fn run(raw: Option<&RawValue>) -> Result<Value, Undecoded> {
    let object = parse(raw)?;
    is_type(&object, V1ALPHA1, WorkflowRun::KIND)?;
    Ok(object)
}

impl Admit for Mutate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let object = match run(request.object.as_deref()) {
            Ok(object) => object,
            Err(error) => return Decision::errored(400, error.to_string()),
        };
        let mut operations = step_names(&object, &STEPS);
        let mut warnings = Vec::new();
        if world.settings.gates.authenticate_application {
            operations.extend(named(request, &object));
        } else if request.old_object.is_none() {
            warnings.push(messages::RUN_WITH_CONTROLLER.to_owned());
        }
        Decision::patched(operations).warn(warnings)
    }
}

impl Admit for Validate {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let (raw, old) = (request.object.as_deref(), request.old_object.as_deref());
        if let Some(error) = size::check_object(WorkflowRun::KIND, raw, old, size::APPLICATION) {
            return Decision::oversized(&messages::with_uid(&error, &request.uid));
        }
        let object = match run(raw) {
            Ok(object) => object,
            Err(error) => {
                let text = messages::failed_to_decode(&error.to_string());
                return Decision::errored(400, messages::with_uid(&text, &request.uid));
            }
        };
        let old = old.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let is_deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        let is_unchanged = old.is_some_and(|old| old.get("spec") == object.get("spec"));
        // Labels, annotations and finalizers can always be edited.
        if is_deleting || is_unchanged {
            return Decision::allowed();
        }
        let app = App::default();
        let namespace = namespace(request, &object);
        let subject = Subject { app: &app, old: None, object: &object, namespace, world, request };
        let mut findings = Findings::default();
        spec(&subject, &mut findings);
        Decision::of(findings.problems, findings.warnings, &request.uid)
    }
}

fn spec(subject: &Subject<'_>, findings: &mut Findings) {
    let spec = subject.object.get("spec").unwrap_or(&Value::Null);
    let reference = spec.get("workflowRef").and_then(Value::as_str).unwrap_or_default();
    let field = Field::new("spec.workflowRef");
    if let Some(own) = spec.get("workflowSpec").filter(|own| own.is_object()) {
        if !reference.is_empty() {
            let text = messages::warning(&field.to_string(), messages::RUN_WITH_BOTH);
            findings.warnings.push(text);
        }
        let field = Field::new("spec.workflowSpec.steps");
        let steps = model::read_steps(own);
        workflow::shape_of(&steps, &field, findings);
        for (_, field) in workflow::with_fields(&steps, &field).filter(|(it, _)| it.name.is_empty())
        {
            let (reason, field) = (Reason::Required, field.at("name"));
            findings.push(Rule::Workflow, reason, field, messages::EMPTY_STEP_NAME);
        }
        permissions(subject, &steps, &field, findings);
        workflow::steps_of_run(subject, &steps, &field, findings);
        return;
    }
    if reference.is_empty() {
        let detail = messages::RUN_WITHOUT_WORKFLOW;
        findings.push(Rule::Workflow, Reason::Required, Field::new("spec"), detail);
        return;
    }
    match subject.world.object(ObjectKind::Workflow, subject.namespace, reference) {
        None => {
            let detail = messages::unknown_workflow(reference, subject.namespace);
            findings.push(Rule::Workflow, Reason::NotFound, field, detail);
        }
        // Its steps are reported where the user can see them: at the reference.
        Some(stored) => {
            let steps = model::read_steps(&stored);
            permissions(subject, &steps, &field, findings);
            workflow::steps_of_run(subject, &steps, &field, findings);
        }
    }
}

fn permissions(
    subject: &Subject<'_>,
    steps: &[model::Step<'_>],
    field: &Field,
    findings: &mut Findings,
) {
    if subject.world.settings.gates.validate_definition_permissions {
        auth::step_permissions(subject, steps, field, findings);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use vela_api::DefinitionKind;
    use vela_seal::{Content as _, KeyHolder, Keys};

    use super::*;
    use crate::config::Settings;
    use crate::engine::{Engine, endpoints};
    use crate::snapshot::{Definition, Snapshot};
    use crate::world::{Fact, Need};

    const KEY: [u8; 32] = [1; 32];

    fn review(settings: &Settings, path: &str, (namespace, object): (&str, &Value)) -> Decision {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "namespace": namespace, "operation": "CREATE",
                "userInfo": {"username": "alice"}, "object": object},
        });
        let path = format!("/{path}-core-oam-dev-v1alpha1-workflowruns");
        let endpoint = endpoints().find(|endpoint| endpoint.path == path).unwrap();
        let mut snapshot = Snapshot::default();
        for (name, labels) in [
            ("request", json!({})),
            ("deploy", json!({"custom.definition.oam.dev/scope": "Application"})),
        ] {
            let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {}});
            let kind = DefinitionKind::WorkflowStep;
            let definition = Definition::new(kind, &object).unwrap();
            snapshot.insert(kind, &settings.system_namespace, name, Arc::new(definition));
        }
        let know = |need: &Need| match need {
            Need::Object { kind: ObjectKind::Workflow, name, .. } if name == "known" => {
                let steps =
                    json!([{"name": "a", "type": "requst"}, {"name": "b", "type": "suspend"}]);
                Fact::Object(Some(Arc::new(json!({"steps": steps}))))
            }
            Need::Object { .. } => Fact::Object(None),
            _ => Fact::Allowed(false),
        };
        let engine = Engine::new(settings.clone(), true);
        let body = review.to_string();
        engine.review(endpoint, Some("application/json"), body.as_bytes(), &snapshot, know).1
    }

    fn object(spec: &Value) -> Value {
        json!({"apiVersion": "core.oam.dev/v1alpha1", "kind": "WorkflowRun",
            "metadata": {"name": "r", "namespace": "team"}, "spec": spec})
    }

    fn problems(spec: &Value) -> Vec<String> {
        let decision = review(&Settings::default(), "validating", ("team", &object(spec)));
        decision.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn every_problem_is_named_with_its_path() {
        let found = problems(&json!({"workflowSpec": {"steps": [
            {"name": "a", "type": "requst"},
            {"name": "a", "type": "suspend", "timeout": "1d"},
            {"name": "g", "type": "step-group", "subSteps": [
                {"name": "c", "type": "apply-component"},
                {"name": "d", "type": "deploy", "timeout": "soon"},
                {"name": "", "type": "request"}]},
        ]}}));
        let expected = [
            ("spec.workflowSpec.steps[0].type", "request"),
            ("spec.workflowSpec.steps[1].name", "duplicated step name"),
            ("spec.workflowSpec.steps[1].timeout", "is not a timeout"),
            ("spec.workflowSpec.steps[2].subSteps[0].type", "needs an Application"),
            ("spec.workflowSpec.steps[2].subSteps[1].timeout", "is not a timeout"),
            ("spec.workflowSpec.steps[2].subSteps[1].type", "needs an Application"),
            ("spec.workflowSpec.steps[2].subSteps[2].name", "needs a name"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, (field, text)) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("{field}: ")) && found.contains(text), "{found}");
        }
    }

    #[test]
    fn there_are_steps_or_a_workflow() {
        let steps = json!({"steps": [{"name": "a", "type": "suspend"}]});
        assert_eq!(problems(&json!({"workflowSpec": steps})), Vec::<String>::new());
        let none = problems(&json!({"context": {"a": 1}}));
        assert_eq!(none, [format!("spec: {}", messages::RUN_WITHOUT_WORKFLOW)]);
        let unknown = problems(&json!({"workflowRef": "unknown"}));
        assert_eq!(
            unknown,
            ["spec.workflowRef: Workflow \"unknown\" not found in namespace \"team\""]
        );
        // What is wrong in a Workflow is reported at the reference.
        let [wrong] = problems(&json!({"workflowRef": "known"})).try_into().unwrap();
        assert!(
            wrong.starts_with("spec.workflowRef[0].type: ") && wrong.contains("request"),
            "{wrong}"
        );
        let both = object(&json!({"workflowSpec": steps, "workflowRef": "unknown"}));
        let decision = review(&Settings::default(), "validating", ("team", &both));
        assert!(decision.allowed, "{decision:?}");
        assert!(decision.warnings[0].contains("spec.workflowRef"), "{:?}", decision.warnings);
    }

    #[test]
    fn a_run_is_stamped_everywhere_and_its_steps_get_names() {
        let keys = KeyHolder::default();
        keys.set(Keys::new(&KEY, None).unwrap());
        let mut settings = Settings { with_user: true, keys, ..Settings::default() };
        settings.gates.authenticate_application = true;
        for namespace in ["team", &settings.system_namespace] {
            let mut stored = object(&json!({"workflowSpec": {"steps": [
                {"type": "suspend"}, {"name": "g", "type": "step-group", "subSteps": [{"type": "suspend"}]}]}}));
            stored["metadata"] = json!({"generateName": "r-", "namespace": namespace});
            let decision = review(&settings, "mutating", (namespace, &stored));
            json_patch::patch(&mut stored, &decision.patch.unwrap().0).unwrap();
            let steps = &stored["spec"]["workflowSpec"]["steps"];
            assert_eq!(steps[0]["name"], "step-0");
            assert_eq!(steps[1]["subSteps"][0]["name"], "step-1-0");
            let run: WorkflowRun = serde_json::from_value(stored).unwrap();
            assert!(run.metadata.name.as_ref().unwrap().starts_with("r-"), "{run:?}");
            let keys = Keys::new(&KEY, None).unwrap();
            assert_eq!(run.author(&keys).unwrap().user, "alice");
            let mut edited = run;
            edited.spec.workflow_ref = "other".to_owned();
            assert!(edited.author(&keys).is_none(), "a stamp is of its content");
        }
    }
}
