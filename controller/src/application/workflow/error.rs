//! Errors of a step, or of a call of its template.

use vela_cluster::ApiError;
use vela_cluster::packed::PackError;
use vela_render::patch::PatchError;
use vela_workflow::Reply;
use vela_workflow::config::ConfigError;
use vela_workflow::data::{InputError, OutputError};
use vela_workflow::metrics::MetricError;

use crate::application::component::ComponentError;
use crate::application::dispatch::error::{DeleteError, Denial, DispatchError};
use crate::application::facts::parse::ParseError;
use crate::application::release::ReleaseError;
use crate::evaluation::NotEvaluated;
use crate::messages;

/// The reason. The step's message, or the template that made the call, has the text.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The Application may not have an object.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// Objects were not dispatched.
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    /// An object was not deleted.
    #[error(transparent)]
    Delete(#[from] DeleteError),
    /// A component's definition cannot be used.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A component was not rendered or not judged.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The release of a chart failed.
    #[error("{}", messages::release_failed(&.0.to_string()))]
    Release(#[from] ReleaseError),
    /// An input has no room in the properties.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An output has no value.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// CUE of the step was not evaluated.
    #[error(transparent)]
    NotEvaluated(#[from] NotEvaluated),
    /// A configuration cannot be read or replaced.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A metric is no number, or is not judged.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A patch does not fit.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A parameter is no component.
    #[error(transparent)]
    Parameter(#[from] serde_json::Error),
    /// A stored record cannot be read.
    #[error(transparent)]
    Record(#[from] PackError),
    /// What the step asks for cannot be had: a sentence of [`messages`].
    #[error("{0}")]
    Asked(String),
}

impl From<String> for StepError {
    fn from(sentence: String) -> Self {
        Self::Asked(sentence)
    }
}

impl From<&str> for StepError {
    fn from(sentence: &str) -> Self {
        Self::Asked(sentence.to_owned())
    }
}

impl From<StepError> for Reply {
    fn from(error: StepError) -> Self {
        Self::Error(error.to_string())
    }
}
