//! What a workflow is: steps, their conditions and the order they run in.

use serde_json::{Map, Value};
use vela_gocompat::duration::Duration as GoDuration;

/// How the steps of one level follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One after the other; an unfinished step holds back all later ones.
    #[default]
    StepByStep,
    /// Everything whose dependencies and inputs are there.
    Dag,
}

impl Mode {
    /// The name of the mode in an Application.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StepByStep => "StepByStep",
            Self::Dag => "DAG",
        }
    }
}

/// Steps and how they run.
#[derive(Debug, Clone, Default)]
pub struct Workflow {
    /// Order of the top level.
    pub mode: Mode,
    /// Order inside groups that do not say.
    pub sub_mode: Mode,
    /// Steps in the order written.
    pub steps: Vec<Step>,
}

impl Workflow {
    /// A workflow whose groups run as a DAG, which is the default.
    #[must_use]
    pub fn new(mode: Mode, steps: Vec<Step>) -> Self {
        Self { mode, sub_mode: Mode::Dag, steps }
    }

    /// Steps and sub-steps, each group before what is in it.
    pub fn all(&self) -> impl Iterator<Item = &Step> {
        self.with_groups().map(|(step, _)| step)
    }

    /// Steps and sub-steps, each with the group it is in.
    pub fn with_groups(&self) -> impl Iterator<Item = (&Step, Option<&Step>)> {
        self.steps.iter().flat_map(|step| {
            let subs = step.sub_steps.iter().map(move |sub| (sub, Some(step)));
            std::iter::once((step, None)).chain(subs)
        })
    }

    /// The text of `status.workflow.mode`.
    #[must_use]
    pub fn mode_text(&self) -> String {
        format!("{}-{}", self.mode.as_str(), self.sub_mode.as_str())
    }
}

/// The `if` of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum If {
    /// Not given: run unless what comes before failed.
    #[default]
    Unless,
    /// `always`.
    Always,
    /// A CUE expression that must be true.
    Expression(String),
}

impl From<&str> for If {
    fn from(text: &str) -> Self {
        match text {
            "" => Self::Unless,
            "always" => Self::Always,
            text => Self::Expression(text.to_owned()),
        }
    }
}

/// A value a step takes from the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Path of a variable, or of a field of `context` or `parameter`.
    pub from: String,
    /// Where in `parameter` it goes; empty: nowhere, the step only waits for it.
    pub parameter_key: String,
}

/// A value a step leaves in the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Name of the variable.
    pub name: String,
    /// Path or CUE text that gives the value.
    pub value_from: String,
}

/// One step, or one sub-step of a group.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Name, unique over steps and sub-steps.
    pub name: String,
    /// Name of the definition.
    pub kind: String,
    /// The kind that status reports once the step ran, where it differs.
    pub reported_kind: Option<String>,
    /// A further name that `dependsOn` may use: the component a step applies.
    pub alias: Option<String>,
    /// When it runs.
    pub condition: If,
    /// A Go duration.
    pub timeout: Option<String>,
    /// How long it may wait without any change of what it waits for.
    pub progress_deadline: Option<GoDuration>,
    /// Names of steps that must be finished first.
    pub depends_on: Vec<String>,
    /// Values it waits for.
    pub inputs: Vec<Input>,
    /// Values it leaves.
    pub outputs: Vec<Output>,
    /// Its parameter.
    pub properties: Map<String, Value>,
    /// Order of the sub-steps, where the group says.
    pub sub_mode: Option<Mode>,
    /// Sub-steps; only a `step-group` runs them.
    pub sub_steps: Vec<Self>,
}

impl Step {
    /// A step without anything but a name and a kind.
    #[must_use]
    pub fn new(name: &str, kind: &str) -> Self {
        Self { name: name.to_owned(), kind: kind.to_owned(), ..Self::default() }
    }

    /// Whether this step is a group.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.kind == "step-group"
    }

    /// The kind that status reports.
    #[must_use]
    pub fn reported_kind(&self) -> &str {
        self.reported_kind.as_deref().unwrap_or(&self.kind)
    }
}
