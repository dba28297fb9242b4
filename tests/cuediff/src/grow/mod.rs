//! Programs grown from the grammar: every name refers to something, most values fit.
//!
//! Before the values of a struct are grown, the shapes of its fields are planned, so that
//! references forwards and into fields find what they need. A [`Family`] weighs the productions;
//! each program comes from its seed alone.

mod decl;
mod expr;
mod family;
mod packages;
mod rendering;

pub(crate) use family::Family;

use std::collections::BTreeSet;

use family::Weights;

use crate::program::Program;

/// What a value is planned to be.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Int,
    Str,
    Bool,
    List(Box<Self>),
    Struct(Vec<Planned>),
}

/// A field before it has a value.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    label: String,
    shape: Shape,
}

/// A name in scope.
#[derive(Clone, Debug)]
struct Name {
    text: String,
    shape: Shape,
    /// Whether its value is written already: a reference to it closes no circle.
    done: bool,
}

impl Name {
    /// A name that stands for a value elsewhere.
    fn bound(text: String, shape: Shape) -> Self {
        Self { text, shape, done: true }
    }
}

/// Labels are few, so that declarations meet.
const LABELS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "x", "y", "z"];
const DEFINITIONS: [&str; 3] = ["#A", "#B", "#C"];
const HIDDEN: [&str; 2] = ["_h", "_g"];
const STRINGS: [&str; 6] = ["a", "b", "x", "foo", "a-b", ""];
const INTS: [&str; 6] = ["0", "1", "2", "3", "7", "-1"];

/// Structs within structs.
const MAX_DEPTH: usize = 4;

/// A program of a family; about `size` productions.
pub(crate) fn grow(family: Family, seed: u64, size: usize) -> Program {
    let mut grower = Grower {
        rng: fastrand::Rng::with_seed(seed),
        weights: family.weights(),
        scopes: Vec::new(),
        imports: BTreeSet::new(),
        used: BTreeSet::new(),
        left: size,
        fresh: 0,
    };
    if family == Family::Packages {
        return packages::grow(&mut grower);
    }
    if family == Family::Rendering {
        return rendering::grow(&mut grower);
    }
    Program::single(&grower.file())
}

struct Grower {
    rng: fastrand::Rng,
    weights: Weights,
    /// Innermost last.
    scopes: Vec<Vec<Name>>,
    imports: BTreeSet<&'static str>,
    /// Lets and aliases that something refers to; unused ones are errors of the language.
    used: BTreeSet<String>,
    /// Productions that may still be used.
    left: usize,
    fresh: usize,
}

impl Grower {
    /// A whole file, without package clause.
    fn file(&mut self) -> String {
        let fields = self.plan(0);
        let body = self.declarations(&fields, 0);
        self.with_imports(&body)
    }

    fn with_imports(&mut self, body: &str) -> String {
        let imports: String =
            self.imports.iter().map(|path| format!("import {path:?}\n")).collect();
        self.imports.clear();
        imports + body + "\n"
    }

    /// Counts a production; false when there is none left, then the caller grows a leaf.
    fn more(&mut self) -> bool {
        let more = self.left > 0;
        self.left = self.left.saturating_sub(1);
        more
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        let at = self.rng.usize(..list.len().max(1));
        list.get(at).copied().unwrap_or_default()
    }

    fn percent(&mut self, of: u32) -> bool {
        self.rng.u32(..100) < of
    }

    /// One of several productions by weight.
    fn weighed<T: Copy>(&mut self, choices: &[(u32, T)]) -> Option<T> {
        let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut at = self.rng.u32(..total.max(1));
        for (weight, choice) in choices {
            if at < *weight {
                return Some(*choice);
            }
            at -= weight;
        }
        None
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}{}", self.fresh)
    }

    /// The fields of a struct.
    fn plan(&mut self, depth: usize) -> Vec<Planned> {
        let most = if depth == 0 { 6 } else { 4 };
        let count = self.rng.usize(1..=most);
        let mut fields: Vec<Planned> = Vec::new();
        for _ in 0..count {
            let label = match self.rng.u32(..100) {
                at if at < self.weights.definition => self.one_of(&DEFINITIONS),
                at if at < self.weights.definition + self.weights.hidden => self.one_of(&HIDDEN),
                _ => self.one_of(&LABELS),
            };
            if fields.iter().any(|field| field.label == label) {
                continue;
            }
            let definition = label.starts_with('#');
            let shape = if definition && self.percent(80) && depth < MAX_DEPTH {
                Shape::Struct(self.plan(depth + 1))
            } else {
                self.shape(depth)
            };
            fields.push(Planned { label: label.to_owned(), shape });
        }
        fields
    }

    fn shape(&mut self, depth: usize) -> Shape {
        match self.rng.u32(..10) {
            0..=3 => Shape::Int,
            4 | 5 => Shape::Str,
            6 => Shape::Bool,
            7 if depth < MAX_DEPTH => Shape::List(Box::new(self.shape(depth + 1))),
            8 | 9 if depth < MAX_DEPTH => Shape::Struct(self.plan(depth + 1)),
            _ => Shape::Int,
        }
    }

    /// A path in scope to something of a shape that `fits`.
    fn reference(&mut self, fits: impl Fn(&Shape) -> bool + Copy) -> Option<String> {
        let circles = self.percent(self.weights.circle);
        let mut found = Vec::new();
        for scope in &self.scopes {
            for name in scope.iter().filter(|name| name.done || circles) {
                paths(&name.text, &name.shape, 2, fits, &mut found);
            }
        }
        if found.is_empty() {
            return None;
        }
        let at = self.rng.usize(..found.len());
        let path = found.swap_remove(at);
        self.used.insert(path.split(['.', '[']).next().unwrap_or_default().to_owned());
        Some(path)
    }
}

fn paths(
    at: &str,
    shape: &Shape,
    depth: usize,
    fits: impl Fn(&Shape) -> bool + Copy,
    found: &mut Vec<String>,
) {
    if fits(shape) {
        found.push(at.to_owned());
    }
    match shape {
        Shape::Struct(fields) if depth > 0 => {
            for field in fields {
                paths(&format!("{at}.{}", field.label), &field.shape, depth - 1, fits, found);
            }
        }
        Shape::List(element) if depth > 0 => {
            paths(&format!("{at}[0]"), element, depth - 1, fits, found);
        }
        _ => {}
    }
}
