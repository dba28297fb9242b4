//! Errors of rendering a component, or a policy with a template, and of reading its health.

use vela_render::RenderError;

use crate::evaluation::NotEvaluated;
use crate::messages;

/// The reason. Steps and conditions show the text.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The template fails.
    #[error("{}", messages::render_failed(&.0.to_string()))]
    Render(#[from] RenderError),
    /// The template was not evaluated.
    #[error("{}", messages::render_failed(&.0.to_string()))]
    NotRendered(NotEvaluated),
    /// The health was not evaluated.
    #[error(transparent)]
    NotJudged(NotEvaluated),
}
