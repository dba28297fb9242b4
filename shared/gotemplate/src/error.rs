//! What goes wrong with a template, in Go's words.

use std::borrow::Cow;
use std::error::Error as StdError;

use ecow::EcoString;
use vela_gocompat::strconv;

use crate::meter::Stop;

/// A text is no template. `Display` is Go's text, with the name and the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template: {name}:{line}: {message}")]
pub struct ParseError {
    pub(crate) name: EcoString,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl ParseError {
    /// The name under which the text was parsed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong there.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Where a node stands: the name of the parsed text, line from 1, column in bytes from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The name under which the text was parsed.
    pub name: EcoString,
    /// Counted from 1.
    pub line: usize,
    /// In bytes, from 0, as Go counts.
    pub column: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.line, self.column)
    }
}

/// An error of the execution of a template. `Display` is Go's text, with the errors of templates
/// that functions executed inside of it; they are sources too.
#[derive(Debug, thiserror::Error)]
#[error("template: {location}: executing {} at <{context}>: {message}", strconv::quote(template))]
pub struct ExecError {
    pub(crate) template: EcoString,
    pub(crate) location: Location,
    pub(crate) context: String,
    pub(crate) message: String,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

impl ExecError {
    /// The name of the template that was executed, which may be a definition.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Where the node stands that failed.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// What is wrong there.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Why an execution gave no output.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node failed; the error says which and where.
    #[error(transparent)]
    Exec(#[from] Box<ExecError>),
    /// There is no template of the name.
    #[error(
        "template: no template {} associated with template {}",
        strconv::quote(name),
        strconv::quote(set)
    )]
    NotDefined {
        /// The name that was asked for.
        name: EcoString,
        /// The name of the set in which it was looked up.
        set: EcoString,
    },
    /// The execution was ended from outside.
    #[error(transparent)]
    Stop(#[from] Stop),
}

/// Why a function gave no value. `Display` is the text that follows `error calling NAME: `.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the function itself.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// An error with a type of its own, which the caller of the template finds as a source.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
    /// The execution is over.
    #[error(transparent)]
    Stop(#[from] Stop),
}

impl Failure {
    /// An error of this text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// An error with a type of its own.
    pub fn other(error: impl StdError + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

/// A function that executes a template fails as the template does.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Exec(error) => Self::Other(error),
            Error::Stop(stop) => Self::Stop(stop),
            error @ Error::NotDefined { .. } => Self::other(error),
        }
    }
}
