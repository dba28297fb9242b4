//! Converts nodes of an evaluation to terms.

use crate::messages;
use crate::patch::Markers;
use crate::term::{Alternative, Field, Fields, Op, Term, Test};
use cue::{Evaluation, LabelClass, Marker, Node, Rest, Shape, Which};
use rustc_hash::FxBuildHasher;

/// Values nested deeper than this are cut off with an error.
const DEPTH: usize = 256;

/// The term of a node: what a patch works on.
pub(crate) fn term(evaluation: &mut Evaluation, node: Node) -> Term {
    Converter { evaluation, ordered: true }.node(node, 0)
}

/// As [`term`], with the fields of structs in alphabetical order: objects have it in the end.
pub(crate) fn object(evaluation: &mut Evaluation, node: Node) -> Term {
    Converter { evaluation, ordered: false }.node(node, 0)
}

struct Converter<'a> {
    evaluation: &'a mut Evaluation,
    ordered: bool,
}

impl Converter<'_> {
    fn node(&mut self, node: Node, depth: usize) -> Term {
        if depth > DEPTH {
            return Term::Unknown(messages::too_deep().into());
        }
        let shape = self.evaluation.shape(node);
        self.of_shape(shape, depth)
    }

    fn of_shape(&mut self, shape: Shape, depth: usize) -> Term {
        match shape {
            Shape::Data(value) => Term::from_value(&value),
            Shape::Kinds(kind) => Term::Kinds(kind),
            Shape::Bound(op, value) => Term::Test(match (op, value) {
                ("=~", cue::Value::String(pattern)) => Test::Match(true, pattern),
                ("!~", cue::Value::String(pattern)) => Test::Match(false, pattern),
                ("<", value) => Test::Bound(Op::Less, value),
                ("<=", value) => Test::Bound(Op::LessEqual, value),
                (">", value) => Test::Bound(Op::Greater, value),
                (">=", value) => Test::Bound(Op::GreaterEqual, value),
                (_, value) => Test::Bound(Op::NotEqual, value),
            }),
            Shape::Call(package, name, _) => {
                Term::Unknown(messages::incomplete(&format!("{package}.{name}")).into())
            }
            Shape::All(shapes) => {
                Term::All(shapes.into_iter().map(|s| self.of_shape(s, depth)).collect())
            }
            Shape::Any(shapes) => Term::Any(
                shapes
                    .into_iter()
                    .map(|(default, shape)| Alternative {
                        default,
                        term: self.of_shape(shape, depth),
                    })
                    .collect(),
            ),
            Shape::Struct(node) => self.fields(node, depth),
            Shape::List(node) => {
                let rest = match self.evaluation.rest(node) {
                    Rest::Closed => None,
                    Rest::Open => Some(Box::new(Term::TOP)),
                    Rest::Of(node) => Some(Box::new(self.node(node, depth + 1))),
                };
                let items = self
                    .evaluation
                    .elements(node)
                    .into_iter()
                    .map(|element| self.node(element, depth + 1))
                    .collect();
                Term::List { items, rest }
            }
            Shape::Error(errors) => {
                let text = errors.list().first().map(|e| e.message.clone()).unwrap_or_default();
                Term::Unknown(text.into())
            }
        }
    }

    fn fields(&mut self, node: Node, depth: usize) -> Term {
        let which = Which { constraints: true, definitions: true, hidden: false };
        let listed = if self.ordered {
            self.evaluation.fields(node, which)
        } else {
            let mut listed = self.evaluation.fields_unordered(node, which);
            listed.sort_unstable_by(|a, b| a.label.cmp(&b.label));
            listed
        };
        let mut out = Fields::with_capacity_and_hasher(listed.len(), FxBuildHasher);
        for field in listed {
            let markers = Markers::parse(self.evaluation.docs(field.node));
            let term = self.node(field.node, depth + 1);
            let optional = field.marker != Marker::Regular;
            let definition = field.class == LabelClass::Definition;
            out.insert(field.label, Field { optional, definition, markers, term });
        }
        let term = Term::Struct(out);
        // A condition or loop that cannot be decided yet: the fields it may add are missing.
        match self.evaluation.error(node) {
            None => term,
            Some(errors) => {
                let text = errors.list().first().map(|e| e.message.clone()).unwrap_or_default();
                Term::All(vec![Term::Unknown(text.into()), term])
            }
        }
    }
}
