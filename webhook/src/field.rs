//! Paths into an object, and the problems at them.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;
use vela_api::mistyped;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
    /// A key in brackets: of a free-form map, or a dotted parameter path.
    Key(String),
}

/// The path of a field, as `field.Path` of apimachinery prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    steps: Vec<Step>,
}

impl Field {
    /// A top-level field, or several joined by dots.
    pub fn new(names: &str) -> Self {
        Self::default().at(names)
    }

    /// A field below; several may be joined by dots.
    #[must_use]
    pub fn at(&self, names: &str) -> Self {
        let mut field = self.clone();
        field.steps.extend(names.split('.').map(|name| Step::Name(name.to_owned())));
        field
    }

    /// The place of a value of the wrong type.
    pub fn of(path: &[mistyped::Step<'_>]) -> Self {
        let step = |step: &mistyped::Step<'_>| match *step {
            mistyped::Step::Field(name) => Step::Name(name.to_owned()),
            mistyped::Step::Key(key) => Step::Key(key.to_owned()),
            mistyped::Step::Index(index) => Step::Index(index),
        };
        Self { steps: path.iter().map(step).collect() }
    }

    /// How many steps it has.
    pub fn depth(&self) -> usize {
        self.steps.len()
    }

    /// An element of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut field = self.clone();
        field.steps.push(Step::Index(index));
        field
    }

    /// An entry of a map, written in brackets.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut field = self.clone();
        field.steps.push(Step::Key(key.to_owned()));
        field
    }

    /// Labels of an evaluated value: numbers are list elements, odd names go in brackets.
    #[must_use]
    pub fn labels<S: AsRef<str>>(&self, labels: impl IntoIterator<Item = S>) -> Self {
        let mut field = self.clone();
        for label in labels {
            let label = label.as_ref();
            let plain = !label.is_empty()
                && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '#'));
            field.steps.push(match label.parse::<usize>() {
                Ok(index) => Step::Index(index),
                Err(_) if plain => Step::Name(label.to_owned()),
                Err(_) => Step::Key(label.to_owned()),
            });
        }
        field
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.steps.iter().enumerate() {
            match step {
                Step::Name(name) if n == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// The order in which problems are reported: that of the object as people write it, metadata first.
impl Ord for Field {
    fn cmp(&self, other: &Self) -> Ordering {
        for (a, b) in self.steps.iter().zip(&other.steps) {
            let order = match (a, b) {
                (Step::Index(a), Step::Index(b)) => a.cmp(b),
                (Step::Name(a) | Step::Key(a), Step::Name(b) | Step::Key(b)) => a.cmp(b),
                (Step::Index(_), _) => Ordering::Less,
                (_, Step::Index(_)) => Ordering::Greater,
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        self.steps.len().cmp(&other.steps.len())
    }
}

impl PartialOrd for Field {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What kind of problem, in apimachinery's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The value does not fit.
    Invalid,
    /// There is no value.
    Required,
    /// The same name twice.
    Duplicate,
    /// It names something that is not there.
    NotFound,
    /// It may not be set or changed.
    Forbidden,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// The rule group that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The shape of the object.
    Shape,
    /// Annotations.
    Annotations,
    /// Permission to use definitions.
    Permissions,
    /// The workflow.
    Workflow,
    /// Components.
    Components,
    /// Traits.
    Traits,
    /// Policies.
    Policies,
    /// Parameters and templates.
    Parameters,
    /// Immutable parameters.
    Immutable,
    /// Identity.
    Identity,
}

impl Rule {
    /// The label value in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Annotations => "annotations",
            Self::Permissions => "permissions",
            Self::Workflow => "workflow",
            Self::Components => "components",
            Self::Traits => "traits",
            Self::Policies => "policies",
            Self::Parameters => "parameters",
            Self::Immutable => "immutable",
            Self::Identity => "identity",
        }
    }
}

/// Something wrong at a path.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Where.
    pub field: Field,
    /// What kind.
    pub reason: Reason,
    /// For people.
    pub detail: String,
    /// Who found it.
    pub rule: Rule,
}

impl Problem {
    /// A problem.
    pub fn new(rule: Rule, reason: Reason, field: Field, detail: impl Into<String>) -> Self {
        Self { field, reason, detail: detail.into(), rule }
    }

    pub(crate) fn cause(&self) -> Cause {
        Cause {
            reason: self.reason.name(),
            message: self.detail.clone(),
            field: self.field.to_string(),
        }
    }
}

/// One reason of a denial, as in `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Machine-readable: `FieldValueInvalid`, `FieldValueNotFound`, ..
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_and_ordered() {
        let spec = Field::new("spec.components");
        let mut fields = [
            spec.index(10).at("type"),
            spec.index(9).at("traits").index(0).at("properties").labels(["a b", "0", "c-d"]),
            Field::new("metadata.annotations").key("app.oam.dev/group"),
            spec.index(9).at("traits"),
        ];
        fields.sort();
        let printed: Vec<String> = fields.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed,
            [
                "metadata.annotations[app.oam.dev/group]",
                "spec.components[9].traits",
                "spec.components[9].traits[0].properties[a b][0].c-d",
                "spec.components[10].type",
            ]
        );
    }
}
