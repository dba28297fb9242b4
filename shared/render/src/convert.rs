//! From nodes of an evaluation to terms.

use crate::messages;
use crate::patch::Markers;
use crate::term::{Alternative, Field, Fields, Op, Term, Test};
use cue::{Evaluation, LabelClass, Marker, Node, Rest, Shape, Which};

/// Values nested deeper than this are cut off with an error.
const DEPTH: usize = 256;

/// The term of a node: what a patch works on.
pub(crate) fn term(evaluation: &mut Evaluation, node: Node) -> Term {
    convert(evaluation, node, 0)
}

fn convert(evaluation: &mut Evaluation, node: Node, depth: usize) -> Term {
    if depth > DEPTH {
        return Term::Unknown(messages::too_deep().into());
    }
    let shape = evaluation.shape(node);
    of_shape(evaluation, shape, depth)
}

fn of_shape(evaluation: &mut Evaluation, shape: Shape, depth: usize) -> Term {
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
            Term::All(shapes.into_iter().map(|s| of_shape(evaluation, s, depth)).collect())
        }
        Shape::Any(shapes) => Term::Any(
            shapes
                .into_iter()
                .map(|(default, shape)| Alternative {
                    default,
                    term: of_shape(evaluation, shape, depth),
                })
                .collect(),
        ),
        Shape::Struct(node) => fields(evaluation, node, depth),
        Shape::List(node) => {
            let rest = match evaluation.rest(node) {
                Rest::Closed => None,
                Rest::Open => Some(Box::new(Term::TOP)),
                Rest::Of(node) => Some(Box::new(convert(evaluation, node, depth + 1))),
            };
            let items = evaluation
                .elements(node)
                .into_iter()
                .map(|element| convert(evaluation, element, depth + 1))
                .collect();
            Term::List { items, rest }
        }
        Shape::Error(errors) => {
            let text = errors.list().first().map(|e| e.message.clone()).unwrap_or_default();
            Term::Unknown(text.into())
        }
    }
}

fn fields(evaluation: &mut Evaluation, node: Node, depth: usize) -> Term {
    let which = Which { constraints: true, definitions: true, hidden: false };
    let mut out = Fields::default();
    for field in evaluation.fields(node, which) {
        let markers = Markers::parse(evaluation.docs(field.node));
        let term = convert(evaluation, field.node, depth + 1);
        let optional = field.marker != Marker::Regular;
        let definition = field.class == LabelClass::Definition;
        out.insert(field.label, Field { optional, definition, markers, term });
    }
    let term = Term::Struct(out);
    // A condition or loop that cannot be decided yet: the fields it may add are missing.
    match evaluation.error(node) {
        None => term,
        Some(errors) => {
            let text = errors.list().first().map(|e| e.message.clone()).unwrap_or_default();
            Term::All(vec![Term::Unknown(text.into()), term])
        }
    }
}
