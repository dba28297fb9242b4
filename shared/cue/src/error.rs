//! Errors: class, message, path and positions; texts like the reference's.

use crate::limits::LimitError;
use ecow::EcoString;
use std::fmt;

/// What kind of failure an [`Error`] is. The class steers evaluation: incomplete and cycle errors
/// may vanish when more is known, all others are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// More information may make it succeed.
    Incomplete,
    /// An expression depends on its own value.
    Cycle,
    /// Conflicts and other final errors.
    Eval,
    /// The template said so: `_|_` or `error("...")`.
    User,
    /// A value whose structure contains itself.
    StructuralCycle,
    /// The text is not CUE.
    Parse,
    /// Unknown names, unused imports and other static errors.
    Compile,
    /// A crossed limit; never swallowed.
    Limit,
}

impl Class {
    /// The name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Cycle => "cycle",
            Self::Eval => "eval",
            Self::User => "user",
            Self::StructuralCycle => "structural cycle",
            Self::Parse => "parse",
            Self::Compile => "compile",
            Self::Limit => "limit",
        }
    }

    /// Whether more information may remove the error.
    #[must_use]
    pub const fn is_incomplete(self) -> bool {
        matches!(self, Self::Incomplete | Self::Cycle)
    }
}

/// What went wrong, as far as callers decide by it: [`Error::message`] is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A reference to a field that is not there, or is there as an optional one only.
    Absent,
    /// A field that a closed struct does not have.
    NotAllowed,
    /// Anything else.
    #[default]
    Other,
}

/// A place in a source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Name given to the text when it was compiled.
    pub file: EcoString,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What it means for the evaluation.
    pub class: Class,
    /// What went wrong.
    pub kind: ErrorKind,
    /// The text without path and positions.
    pub message: String,
    /// Labels from the root to the failing value, as written in CUE.
    pub path: Vec<EcoString>,
    /// The places involved, the most telling first.
    pub positions: Vec<Position>,
    /// What may help: `did you mean "image"?`
    pub hint: Option<String>,
}

impl Error {
    /// An error without path and positions.
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            kind: ErrorKind::Other,
            message: message.into(),
            path: Vec::new(),
            positions: Vec::new(),
            hint: None,
        }
    }
}

impl From<LimitError> for Error {
    fn from(limit: LimitError) -> Self {
        Self::new(Class::Limit, limit.to_string())
    }
}

/// `path: message`, as in the reference.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("."))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// All errors of one operation; never empty.
///
/// ```
/// use cue::{Class, Limits, Packages, Program, Value};
///
/// let text = r#"parameter: pull: "Always" | "IfNotPresent" | "Never""#;
/// let program = Program::compile("in.cue", text, &Packages::std())?;
/// let parameter: Value = [("pull", Value::from("Alwys"))].into_iter().collect();
/// let mut evaluation = program.evaluate(&[("parameter", &parameter)], &Limits::default());
/// let errors = evaluation.export(evaluation.root()).unwrap_err();
///
/// assert_eq!(errors.class(), Class::Eval);
/// assert_eq!(errors.list()[0].path, ["parameter", "pull"]);
/// // As the reference says it.
/// assert!(errors.to_string().starts_with("parameter.pull: 3 errors in empty disjunction:"));
/// # Ok::<(), cue::Errors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    list: Vec<Error>,
}

impl Errors {
    /// A list of errors; `None` if there is none.
    #[must_use]
    pub fn from_list(list: Vec<Error>) -> Option<Self> {
        (!list.is_empty()).then_some(Self { list })
    }

    /// The errors in order.
    #[must_use]
    pub fn list(&self) -> &[Error] {
        &self.list
    }

    /// The class of all errors together: that of the most severe final one, else of the first.
    #[must_use]
    pub fn class(&self) -> Class {
        let first = self.list.first().map_or(Class::Eval, |e| e.class);
        let last = self.list.iter().map(|e| e.class).filter(|c| !c.is_incomplete());
        last.reduce(Class::max_severe).unwrap_or(first)
    }

    /// Every error with its positions on lines of their own, as the reference prints details.
    #[must_use]
    pub fn details(&self) -> String {
        let mut out = String::new();
        for error in &self.list {
            out.push_str(&error.to_string());
            if error.positions.is_empty() {
                out.push('\n');
                continue;
            }
            out.push_str(":\n");
            for position in &error.positions {
                out.push_str(&format!("    {position}\n"));
            }
        }
        out
    }
}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self { list: vec![error] }
    }
}

/// The first error, and how many more there are, as the reference prints error lists.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.list.first() else { return Ok(()) };
        fmt::Display::fmt(first, f)?;
        match self.list.len() {
            0 | 1 => Ok(()),
            n => write!(f, " (and {} more errors)", n - 1),
        }
    }
}

impl std::error::Error for Errors {}

impl Class {
    /// Of two classes the one that wins where errors are combined.
    pub(crate) fn max_severe(self, other: Self) -> Self {
        const ORDER: [Class; 8] = [
            Class::Limit,
            Class::Parse,
            Class::Compile,
            Class::Eval,
            Class::User,
            Class::StructuralCycle,
            Class::Incomplete,
            Class::Cycle,
        ];
        let rank = |class| ORDER.iter().position(|&c| c == class);
        if rank(other) < rank(self) { other } else { self }
    }
}
