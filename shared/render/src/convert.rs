//! From nodes of an evaluation to terms.

use crate::patch::Markers;
use crate::term::{Field, Fields, Term};
use cue::{Evaluation, Kind, LabelClass, Marker, Node, Which};

/// Values nested deeper than this are cut off with an error.
const DEPTH: usize = 256;

/// The term of a node: what a patch works on.
pub(crate) fn term(evaluation: &mut Evaluation, node: Node) -> Term {
    convert(evaluation, node, 0)
}

fn convert(evaluation: &mut Evaluation, node: Node, depth: usize) -> Term {
    if depth > DEPTH {
        return Term::Unknown(crate::messages::too_deep().into());
    }
    let kind = evaluation.kind(node);
    if kind == Kind::STRUCT {
        return fields(evaluation, node, depth);
    }
    if kind == Kind::LIST {
        let items = evaluation
            .elements(node)
            .into_iter()
            .map(|element| convert(evaluation, element, depth + 1))
            .collect();
        return Term::List { items, rest: None };
    }
    match evaluation.export(node) {
        Ok(value) => Term::from_value(&value),
        Err(errors) => match evaluation.error(node) {
            Some(_) => Term::Unknown(errors.to_string().into()),
            None => Term::Kinds(kind),
        },
    }
}

fn fields(evaluation: &mut Evaluation, node: Node, depth: usize) -> Term {
    let which = Which { constraints: true, definitions: false, hidden: false };
    let mut out = Fields::default();
    for field in evaluation.fields(node, which) {
        if field.class != LabelClass::Regular {
            continue;
        }
        let markers = Markers::parse(evaluation.docs(field.node));
        let term = convert(evaluation, field.node, depth + 1);
        let optional = field.marker != Marker::Regular;
        out.insert(field.label, Field { optional, markers, term });
    }
    Term::Struct(out)
}
