//! Exports terms as data: takes defaults, and reports all values that are not concrete.

use super::problem::Incomplete;
use super::{Alternative, Term};
use crate::messages;
use cue::{Fields, Value};
use ecow::EcoString;
use serde_json::{Map, Value as Json};
use std::fmt;

/// A path inside a term: `spec.containers.0.name`. Walks keep one for the messages they hardly ever
/// write, so its text is made when it is shown.
#[derive(Clone, Debug, Default)]
pub struct Path(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Label(EcoString),
    Index(usize),
}

impl Path {
    pub(crate) fn push_label(&mut self, label: &EcoString) {
        self.0.push(Part::Label(label.clone()));
    }

    pub(crate) fn push_index(&mut self, index: usize) {
        self.0.push(Part::Index(index));
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
        for (at, part) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            match part {
                Part::Label(label) => f.write_str(&messages::label(label))?,
                Part::Index(index) => write!(f, "{index}")?,
            }
        }
        Ok(())
    }
}

/// What an export makes.
trait Build {
    type Value;
    fn scalar(value: &Value) -> Self::Value;
    fn list(items: impl Iterator<Item = Self::Value>) -> Self::Value;
    fn fields(fields: impl Iterator<Item = (EcoString, Self::Value)>) -> Self::Value;
}

/// CUE data.
struct ToCue;
/// JSON.
struct ToJson;
/// Nothing: only whether all is concrete.
struct Nothing;

impl Build for ToCue {
    type Value = Value;

    fn scalar(value: &Value) -> Value {
        value.clone()
    }

    fn list(items: impl Iterator<Item = Value>) -> Value {
        Value::List(items.collect())
    }

    fn fields(fields: impl Iterator<Item = (EcoString, Value)>) -> Value {
        Value::Struct(fields.collect::<Fields>())
    }
}

impl Build for ToJson {
    type Value = Json;

    fn scalar(value: &Value) -> Json {
        value.to_json()
    }

    fn list(items: impl Iterator<Item = Json>) -> Json {
        Json::Array(items.collect())
    }

    fn fields(fields: impl Iterator<Item = (EcoString, Json)>) -> Json {
        Json::Object(fields.map(|(label, value)| (label.into(), value)).collect::<Map<_, _>>())
    }
}

impl Build for Nothing {
    type Value = ();

    fn scalar(_: &Value) {}

    fn list(items: impl Iterator<Item = ()>) {
        items.for_each(drop);
    }

    fn fields(fields: impl Iterator<Item = (EcoString, ())>) {
        fields.for_each(drop);
    }
}

impl Term {
    /// The data of the term: defaults taken, optional fields left out.
    ///
    /// # Errors
    /// Everything that is not concrete.
    pub fn export(&self) -> Result<Value, Vec<Incomplete>> {
        self.make::<ToCue>()
    }

    /// As [`export`](Self::export), as JSON.
    ///
    /// # Errors
    /// Everything that is not concrete.
    pub fn to_json(&self) -> Result<Json, Vec<Incomplete>> {
        self.make::<ToJson>()
    }

    /// Whether [`export`](Self::export) succeeds.
    ///
    /// # Errors
    /// Everything that is not concrete.
    pub fn check(&self) -> Result<(), Vec<Incomplete>> {
        self.make::<Nothing>()
    }

    fn make<M: Build>(&self) -> Result<M::Value, Vec<Incomplete>> {
        let mut missing = Vec::new();
        let value = self.value::<M>(&mut Path::default(), &mut missing);
        if missing.is_empty() { Ok(value) } else { Err(missing) }
    }

    fn value<M: Build>(&self, path: &mut Path, missing: &mut Vec<Incomplete>) -> M::Value {
        match self {
            Self::Scalar(value) => M::scalar(value),
            Self::List { items, .. } => M::list(items.iter().enumerate().map(|(i, item)| {
                path.push_index(i);
                let value = item.value::<M>(path, missing);
                path.pop();
                value
            })),
            Self::Struct(fields) => M::fields(
                fields.iter().filter(|(_, field)| field.is_data()).map(|(label, field)| {
                    path.push_label(label);
                    let value = field.term.value::<M>(path, missing);
                    path.pop();
                    (label.clone(), value)
                }),
            ),
            Self::Any(alternatives) => match default_of(alternatives) {
                Some(term) => term.value::<M>(path, missing),
                None => self.incomplete::<M>(path, missing),
            },
            Self::All(terms) => {
                if let Some(Self::Unknown(reason)) =
                    terms.iter().find(|t| matches!(t, Self::Unknown(_)))
                {
                    missing
                        .push(Incomplete { path: path.to_string(), message: reason.to_string() });
                    return M::scalar(&Value::Null);
                }
                self.incomplete::<M>(path, missing)
            }
            Self::Unknown(reason) => {
                missing.push(Incomplete { path: path.to_string(), message: reason.to_string() });
                M::scalar(&Value::Null)
            }
            Self::Kinds(_) | Self::Test(_) => self.incomplete::<M>(path, missing),
        }
    }

    fn incomplete<M: Build>(&self, path: &Path, missing: &mut Vec<Incomplete>) -> M::Value {
        missing.push(Incomplete {
            path: path.to_string(),
            message: messages::incomplete(&self.show()),
        });
        M::scalar(&Value::Null)
    }
}

/// The default of a disjunction: the one marked alternative.
pub(crate) fn default_of(alternatives: &[Alternative]) -> Option<&Term> {
    let mut marked = alternatives.iter().filter(|a| a.default);
    let first = marked.next()?;
    marked.next().is_none().then_some(&first.term)
}
