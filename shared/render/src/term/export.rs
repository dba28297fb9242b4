//! From terms to data: defaults taken, all that is not concrete reported.

use super::{Alternative, Term};
use crate::messages;
use cue::{Fields, Value};
use std::fmt;

/// A path inside a term: `spec.containers.0.name`.
#[derive(Clone, Debug, Default)]
pub struct Path(Vec<String>);

impl Path {
    pub(crate) fn push_label(&mut self, label: &str) {
        self.0.push(messages::label(label));
    }

    pub(crate) fn push_index(&mut self, index: usize) {
        self.0.push(index.to_string());
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A value that is not concrete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Where.
    pub path: String,
    /// Why.
    pub message: String,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl Term {
    /// The data of the term: defaults taken, optional fields left out.
    ///
    /// # Errors
    /// Everything that is not concrete.
    pub fn export(&self) -> Result<Value, Vec<Incomplete>> {
        let mut missing = Vec::new();
        let value = self.value(&mut Path::default(), &mut missing);
        if missing.is_empty() { Ok(value) } else { Err(missing) }
    }

    fn value(&self, path: &mut Path, missing: &mut Vec<Incomplete>) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List { items, .. } => Value::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| {
                        path.push_index(i);
                        let value = item.value(path, missing);
                        path.pop();
                        value
                    })
                    .collect(),
            ),
            Self::Struct(fields) => {
                let mut out = Fields::default();
                for (label, field) in fields {
                    if field.optional || field.definition {
                        continue;
                    }
                    path.push_label(label);
                    out.insert(label.clone(), field.term.value(path, missing));
                    path.pop();
                }
                Value::Struct(out)
            }
            Self::Any(alternatives) => match default_of(alternatives) {
                Some(term) => term.value(path, missing),
                None => self.incomplete(path, missing),
            },
            Self::All(terms) => {
                if let Some(Self::Unknown(reason)) =
                    terms.iter().find(|t| matches!(t, Self::Unknown(_)))
                {
                    missing
                        .push(Incomplete { path: path.to_string(), message: reason.to_string() });
                    return Value::Null;
                }
                self.incomplete(path, missing)
            }
            Self::Unknown(reason) => {
                missing.push(Incomplete { path: path.to_string(), message: reason.to_string() });
                Value::Null
            }
            Self::Kinds(_) | Self::Test(_) => self.incomplete(path, missing),
        }
    }

    fn incomplete(&self, path: &Path, missing: &mut Vec<Incomplete>) -> Value {
        missing.push(Incomplete {
            path: path.to_string(),
            message: messages::incomplete(&self.show()),
        });
        Value::Null
    }
}

/// The default of a disjunction: the one marked alternative.
fn default_of(alternatives: &[Alternative]) -> Option<&Term> {
    let mut marked = alternatives.iter().filter(|a| a.default);
    let first = marked.next()?;
    marked.next().is_none().then_some(&first.term)
}
