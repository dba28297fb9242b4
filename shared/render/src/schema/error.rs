//! Values of which a schema cannot be made.

use crate::messages;

pub(super) type Result<T> = std::result::Result<T, Inexpressible>;

/// A value that a schema cannot express.
#[derive(Debug, thiserror::Error)]
pub(super) enum Inexpressible {
    #[error(transparent)]
    Cue(#[from] cue::Errors),
    #[error("{}", messages::recursive_parameter())]
    Recursive,
    #[error("{}", messages::tuple_parameter())]
    Tuple,
    /// An operator, and the type of its operand.
    #[error("{}", messages::unsupported_operator(.0, .1))]
    Operator(String, &'static str),
}
