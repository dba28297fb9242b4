//! Errors of deploying a component that is a chart.

use vela_cluster::Error;
use vela_helm::release::RecordError;
use vela_helm::yaml::YamlError;
use vela_helm::{ChartError, RenderError};

use crate::application::component::ComponentError;
use crate::charts::FetchError;
use crate::charts::auth::AuthError;
use crate::evaluation::NotEvaluated;

use super::objects::NoObject;
use super::records::Conflict;
use super::values::ValuesError;
use vela_helm::request::ParamsError;

/// Why there is no release. The old one, if there is one, stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The component's own template fails.
    #[error(transparent)]
    Template(ComponentError),
    /// The template asks for something that cannot be meant.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// Values cannot be had.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// Credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The chart cannot be had.
    #[error("chart cannot be fetched: {0}")]
    Fetch(#[from] FetchError),
    /// The archive is no chart.
    #[error("chart {0}: {1}")]
    Chart(String, ChartError),
    /// The chart cannot be rendered.
    #[error("chart {0}: {1}")]
    Render(String, RenderError),
    /// What it renders to is no object.
    #[error("chart {0}: {1}")]
    Object(String, NoObject),
    /// What it renders to is not YAML.
    #[error("chart {0}: {1}")]
    Yaml(String, YamlError),
    /// There was no time or no thread to render.
    #[error(transparent)]
    NotEvaluated(#[from] NotEvaluated),
    /// The release is somebody else's.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A record cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The API server says no.
    #[error("{0}: {1}")]
    Io(String, Error),
    /// The revision of the Application is not stored, so nothing is written.
    #[error("{0}")]
    NotStored(String),
    /// A hook failed.
    #[error("hook {0} failed: {1}")]
    Hook(String, String),
    /// Objects were not ready in time.
    #[error("{0}")]
    NotReady(String),
    /// It is what an atomic release went back to.
    #[error("{0}")]
    RolledBack(String),
    /// It failed, and is not tried again now.
    #[error("{0}")]
    GivenUp(String),
    /// Flux has it.
    #[error("{0}")]
    Flux(String),
    /// The chart looks up more and more.
    #[error("chart {0}: what it looks up depends on what it looked up, more than {1} times")]
    Lookups(String, usize),
    /// An object with a generated name.
    #[error("the API server does not tell its version: {0}")]
    Version(String),
}

impl ReleaseError {
    /// A request that failed.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(Error) -> Self {
        let what = what.into();
        move |error| Self::Io(what, error)
    }
}
