//! The `if` of a step: a CUE expression over statuses, inputs, context and parameters.

use std::sync::Arc;

use cue::{Kind, Limits, Packages, Program, Value};
use serde_json::{Map, Value as Json, json};

use crate::messages;
use crate::pass::StepIndex;
use crate::status::{Phase, Reason, Status, StepStatus};

/// A condition that gives neither true nor false.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// Text that is no CUE, a reference to something unknown, or an error in the evaluation.
    #[error("{}", messages::invalid_condition(.0.to_string().trim_end()))]
    Invalid(cue::Errors),
    /// The text left no condition behind.
    #[error("{}", messages::invalid_condition("field not found: if"))]
    Missing,
    /// A value that is no truth value.
    #[error("{}", messages::condition_not_bool(.value, .kind))]
    NotBool {
        /// The value as JSON.
        value: String,
        /// Its type.
        kind: &'static str,
    },
    /// Who should evaluate it cannot.
    #[error("{reason}")]
    NotEvaluated {
        /// Why not.
        reason: String,
    },
}

/// The condition of a step, to be evaluated with what was known when the pass came to it.
#[derive(Debug)]
pub struct Question {
    pub(crate) step_index: StepIndex,
    pub(crate) step: String,
    pub(crate) text: String,
    pub(crate) status: Arc<Status>,
    /// The step's inputs that could be resolved.
    pub(crate) inputs: Map<String, Json>,
    pub(crate) context: Arc<Json>,
    pub(crate) parameter: Json,
}

impl Question {
    /// The step's name.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// Evaluates it. This is work of unknown length.
    ///
    /// # Errors
    /// Text that is no CUE, a reference to something unknown, or a value that is no truth value.
    pub fn evaluate(&self, limits: &Limits) -> Result<bool, ConditionError> {
        let Self { text, status, inputs, context, parameter, .. } = self;
        evaluate(text, status, inputs, context, parameter, limits)
    }
}

/// Whether a text can be a condition at all: CUE that refers only to what a condition may refer to.
///
/// # Errors
/// Text that is no CUE, or a reference to something unknown.
pub fn check(expression: &str) -> Result<(), ConditionError> {
    compile(expression).map(|_| ())
}

/// The names are declared, so that the expression may refer to them; their values are data.
fn compile(expression: &str) -> Result<Program, ConditionError> {
    let text = format!("if: {expression}\nstatus: _\ninputs: _\ncontext: _\nparameter: _\n");
    Program::compile("if", &text, &Packages::std()).map_err(ConditionError::Invalid)
}

fn evaluate(
    expression: &str,
    status: &Status,
    inputs: &Map<String, Json>,
    context: &Json,
    parameter: &Json,
    limits: &Limits,
) -> Result<bool, ConditionError> {
    let program = compile(expression)?;
    let data = [
        ("status", Value::from(step_data(status))),
        ("inputs", Value::from(Json::Object(inputs.clone()))),
        ("context", Value::from(context.clone())),
        ("parameter", Value::from(parameter.clone())),
    ];
    let borrowed: Vec<(&str, &Value)> = data.iter().map(|(name, value)| (*name, value)).collect();
    let mut evaluation = program.evaluate(&borrowed, limits);
    let root = evaluation.root();
    let Some(node) = evaluation.field(root, "if") else {
        return Err(ConditionError::Missing);
    };
    match evaluation.export(node) {
        Ok(Value::Bool(answer)) => Ok(answer),
        Ok(other) => {
            let kind = kind_name(evaluation.kind(node));
            Err(ConditionError::NotBool { value: other.to_json().to_string(), kind })
        }
        Err(errors) => Err(ConditionError::Invalid(errors)),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    [
        (Kind::STRING, "string"),
        (Kind::INT, "int"),
        (Kind::FLOAT, "float"),
        (Kind::NULL, "null"),
        (Kind::LIST, "list"),
        (Kind::STRUCT, "struct"),
        (Kind::BYTES, "bytes"),
    ]
    .into_iter()
    .find_map(|(known, name)| (known == kind).then_some(name))
    .unwrap_or("_")
}

/// `status.<name>` for every step and sub-step.
fn step_data(status: &Status) -> Json {
    let steps = status.all().map(|step| (step.name.clone(), one(step))).collect();
    Json::Object(steps)
}

fn one(step: &StepStatus) -> Json {
    json!({
        "id": step.id, "name": step.name, "type": step.kind,
        "phase": step.phase.as_str(), "message": step.message, "reason": step.reason.as_str(),
        "failed": step.phase == Phase::Failed,
        "succeeded": step.phase == Phase::Succeeded,
        "skipped": step.phase == Phase::Skipped,
        "timeout": step.reason == Reason::Timeout,
        "failedAfterRetries": step.reason == Reason::FailedAfterRetries,
        "terminate": step.reason == Reason::Terminate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(expression: &str) -> Result<bool, String> {
        let step = |name: &str, phase: Phase, reason: Reason| StepStatus {
            id: "x".into(),
            name: name.into(),
            kind: "k".into(),
            phase,
            reason,
            message: "said".into(),
            first_execute_time: None,
            last_execute_time: None,
            sub_steps: vec![],
        };
        let status = Status {
            steps: vec![
                step("a", Phase::Failed, Reason::Timeout),
                step("b-c", Phase::Succeeded, Reason::None),
            ],
            ..Status::default()
        };
        let inputs = json!({"n": 3}).as_object().cloned().unwrap_or_default();
        let context = json!({"name": "app"});
        let parameter = json!({"on": true});
        let limits = Limits::default();
        evaluate(expression, &status, &inputs, &context, &parameter, &limits)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn expressions() {
        for (expression, expected) in [
            ("status.a.failed", true),
            ("status.a.timeout && !status.a.succeeded", true),
            ("status[\"b-c\"].succeeded", true),
            ("inputs.n > 3", false),
            ("inputs[\"n\"] == 3", true),
            ("context.name == \"app\" && parameter.on", true),
            ("status.a.message == \"said\"", true),
            ("false", false),
        ] {
            assert_eq!(answer(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_can_be_no_condition_is_known_before_it_runs() {
        assert!(check("status.later.failed && inputs.x > 1").is_ok());
        assert!(check("foo.bar").is_err_and(|e| e.to_string().contains("foo")));
        assert!(check("1 +").is_err());
        assert!(check("true\nx: y").is_err());
    }

    #[test]
    fn what_is_no_condition() {
        assert!(answer("foo.bar").is_err_and(|e| e.starts_with("invalid if value: ")));
        assert!(answer("1 +").is_err_and(|e| e.starts_with("invalid if value: ")));
        assert!(answer("status.zzz.failed").is_err_and(|e| e.contains("zzz")));
        assert_eq!(
            answer("\"text\""),
            Err("if: cannot use value \"text\" (type string) as bool".to_owned())
        );
    }
}
