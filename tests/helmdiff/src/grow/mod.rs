//! Cases grown from the grammar: templates of every function, values of every kind, charts in charts.
//!
//! An expression is grown for a type, so that most calls fit their parameters; now and then any
//! other type is taken. Each case comes from its seed alone.

mod chart;
mod expr;
mod functions;
mod manifest;
mod schema;
mod template;
mod texts;
mod values;
mod yaml;

use clap::ValueEnum;

use crate::case::Case;

/// What cases are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub(crate) enum Family {
    /// Calls of all functions
    Functions,
    /// Calls whose arguments are of any type
    Types,
    /// Control actions, definitions, scope, trimming
    Control,
    /// Texts that are hardly templates
    Syntax,
    /// printf and the printing of values
    Printing,
    /// Numbers of all types
    Numbers,
    /// What toYaml and its kind make of values
    Emit,
    /// YAML, JSON and TOML that is read
    Yaml,
    /// Values over values: subcharts, aliases, conditions, tags, import-values
    Values,
    /// Values against schemas
    Schema,
    /// Documents, their order, hooks
    Manifest,
    /// Templates of the corpus' records with changes
    Corpus,
    /// Charts of the corpus with a change in one template
    Charts,
}

/// A case of a family; templates have about `size` productions.
pub(crate) fn grow(family: Family, seed: u64, size: usize) -> Case {
    let mut dice = Dice(fastrand::Rng::with_seed(seed));
    match family {
        Family::Values => chart::grow(&mut dice),
        Family::Schema => schema::grow(&mut dice),
        Family::Manifest => manifest::grow(&mut dice),
        Family::Yaml => yaml::grow(&mut dice),
        Family::Emit => values::emit(&mut dice),
        _ => template::grow(&mut dice, family, size),
    }
}

/// Choices.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) fastrand::Rng);

impl Dice {
    pub(crate) fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        let at = self.0.usize(..list.len().max(1));
        list.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn percent(&mut self, of: u32) -> bool {
        self.0.u32(..100) < of
    }

    pub(crate) fn up_to(&mut self, most: usize) -> usize {
        self.0.usize(..=most)
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(self.0.usize(..list.len())) }
    }
}
