//! Unification of terms.

use super::problem::Conflict;
use super::{Alternative, Field, Fields, Term, Test, kind_of, same_scalar};
use crate::messages;
use crate::term::Path;
use cue::{Kind, Value};
use ecow::EcoString;
use rustc_hash::FxBuildHasher;

/// Deeper values than this are refused.
const DEPTH: usize = 512;
/// A product of alternatives with more members than this is refused.
const ALTERNATIVES: usize = 4096;

/// Unifies two terms; the fields of `left` come first.
///
/// # Errors
/// Every conflict found.
pub fn unify(left: Term, right: Term) -> Result<Term, Vec<Conflict>> {
    let mut unifier = Unifier { path: Path::default(), conflicts: Vec::new() };
    let term = unifier.unify(left, right);
    if unifier.conflicts.is_empty() { Ok(term) } else { Err(unifier.conflicts) }
}

struct Unifier {
    path: Path,
    conflicts: Vec<Conflict>,
}

impl Unifier {
    fn conflict(&mut self, message: String) -> Term {
        self.conflicts.push(Conflict { path: self.path.to_string(), message });
        Term::Kinds(Kind::BOTTOM)
    }

    fn unify(&mut self, left: Term, right: Term) -> Term {
        if self.path.depth() > DEPTH {
            return self.conflict(messages::too_deep());
        }
        match (left, right) {
            (Term::Kinds(k), other) | (other, Term::Kinds(k)) if k.contains(Kind::TOP) => other,
            (Term::Kinds(a), Term::Kinds(b)) => {
                let both = a & b;
                if both.is_bottom() {
                    return self.conflict(messages::conflicting_kinds(
                        &a.to_string(),
                        &b.to_string(),
                        a,
                        b,
                    ));
                }
                Term::Kinds(both)
            }
            (Term::Unknown(a), Term::Unknown(b)) if a == b => Term::Unknown(a),
            (Term::Any(a), b) => self.alternatives(&a, &as_alternatives(b)),
            (a, Term::Any(b)) => self.alternatives(&as_alternatives(a), &b),
            (Term::All(mut terms), other) | (other, Term::All(mut terms)) => {
                // A scalar swallows the constraints it satisfies; all else stays side by side.
                if is_plain(&other) {
                    let mut result = other;
                    let mut rest = Vec::new();
                    for term in terms {
                        if matches!(term, Term::Unknown(_)) {
                            rest.push(term);
                        } else {
                            result = self.unify(term, result);
                        }
                    }
                    if rest.is_empty() {
                        return result;
                    }
                    rest.push(result);
                    return Term::All(rest);
                }
                terms.push(other);
                Term::All(terms)
            }
            (Term::Unknown(reason), other) | (other, Term::Unknown(reason)) => {
                Term::All(vec![Term::Unknown(reason), other])
            }
            (Term::Scalar(a), Term::Scalar(b)) => {
                if same_scalar(&a, &b) {
                    return Term::Scalar(a);
                }
                self.clash(&Term::Scalar(a), &Term::Scalar(b))
            }
            (Term::Scalar(a), Term::Kinds(k)) => {
                if k.intersects(kind_of(&a)) {
                    return Term::Scalar(a);
                }
                self.clash(&Term::Scalar(a), &Term::Kinds(k))
            }
            (Term::Kinds(k), Term::Scalar(b)) => {
                if k.intersects(kind_of(&b)) {
                    return Term::Scalar(b);
                }
                self.clash(&Term::Kinds(k), &Term::Scalar(b))
            }
            (Term::Scalar(a), Term::Test(t)) | (Term::Test(t), Term::Scalar(a)) => self.test(a, &t),
            (Term::Test(a), Term::Test(b)) => {
                if a == b {
                    return Term::Test(a);
                }
                Term::All(vec![Term::Test(a), Term::Test(b)])
            }
            (Term::Test(t), Term::Kinds(k)) | (Term::Kinds(k), Term::Test(t)) => {
                let kinds = Term::Test(t.clone()).kind();
                if k.contains(kinds) {
                    return Term::Test(t);
                }
                if !k.intersects(kinds) {
                    return self.clash(&Term::Test(t), &Term::Kinds(k));
                }
                Term::All(vec![Term::Kinds(k & kinds), Term::Test(t)])
            }
            (Term::Struct(a), Term::Struct(b)) => self.structs(a, b),
            (Term::List { items, rest }, Term::List { items: others, rest: other_rest }) => {
                self.lists(items, rest, others, other_rest)
            }
            (a @ (Term::Struct(_) | Term::List { .. }), Term::Kinds(k))
            | (Term::Kinds(k), a @ (Term::Struct(_) | Term::List { .. })) => {
                if k.intersects(a.kind()) {
                    return a;
                }
                self.clash(&a, &Term::Kinds(k))
            }
            (a, b) => self.clash(&a, &b),
        }
    }

    fn clash(&mut self, a: &Term, b: &Term) -> Term {
        let (ka, kb) = (a.kind(), b.kind());
        let message = if ka.intersects(kb) {
            messages::conflicting(&a.show(), &b.show())
        } else {
            messages::conflicting_kinds(&a.show(), &b.show(), ka, kb)
        };
        self.conflict(message)
    }

    fn test(&mut self, value: Value, test: &Test) -> Term {
        if test.accepts(&value) {
            return Term::Scalar(value);
        }
        let message =
            messages::out_of_bound(&Term::Scalar(value).show(), &Term::Test(test.clone()).show());
        self.conflict(message)
    }

    /// The fields of both. Each side's order is kept; where both leave it open, labels are in
    /// alphabetical order.
    fn structs(&mut self, mut left: Fields, mut right: Fields) -> Term {
        let mut fields =
            Fields::with_capacity_and_hasher(left.len().max(right.len()), FxBuildHasher);
        left.reverse();
        right.reverse();
        loop {
            let first = left.last().map(|(label, _)| label.clone());
            let second = right.last().map(|(label, _)| label.clone());
            let label = match (first, second) {
                (None, None) => break,
                (Some(label), None) | (None, Some(label)) => label,
                (Some(a), Some(b)) => {
                    // A label both sides have must come first on both.
                    let a_free = a == b || !right.contains_key(&a);
                    let b_free = a == b || !left.contains_key(&b);
                    match (a_free, b_free) {
                        (true, false) => a,
                        (false, true) => b,
                        // Both may come now, or both orders contradict each other.
                        _ => a.min(b),
                    }
                }
            };
            let field = match (take(&mut left, &label), take(&mut right, &label)) {
                (Some(mine), Some(theirs)) => self.field(&label, mine, theirs),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => continue,
            };
            fields.insert(label, field);
        }
        Term::Struct(fields)
    }

    fn field(&mut self, label: &EcoString, mine: Field, theirs: Field) -> Field {
        let optional = mine.optional && theirs.optional;
        let definition = mine.definition && theirs.definition;
        let mut markers = theirs.markers;
        markers.merge(&mine.markers);
        self.path.push_label(label);
        let before = self.conflicts.len();
        let term = self.unify(mine.term, theirs.term);
        if optional {
            // A field that is not there cannot be wrong.
            self.conflicts.truncate(before);
        }
        self.path.pop();
        Field { optional, definition, markers, term }
    }

    fn lists(
        &mut self,
        left: Vec<Term>,
        left_rest: Option<Box<Term>>,
        right: Vec<Term>,
        right_rest: Option<Box<Term>>,
    ) -> Term {
        if (left.len() < right.len() && left_rest.is_none())
            || (right.len() < left.len() && right_rest.is_none())
        {
            return self.conflict(messages::list_lengths(left.len(), right.len()));
        }
        let count = left.len().max(right.len());
        let mut items = Vec::with_capacity(count);
        let (mut left, mut right) = (left.into_iter(), right.into_iter());
        for index in 0..count {
            self.path.push_index(index);
            let item = match (left.next(), right.next()) {
                (Some(a), Some(b)) => self.unify(a, b),
                (Some(a), None) => self.rest_element(a, right_rest.as_deref()),
                (None, Some(b)) => self.rest_element(b, left_rest.as_deref()),
                (None, None) => Term::TOP,
            };
            self.path.pop();
            items.push(item);
        }
        let rest = match (left_rest, right_rest) {
            (Some(a), Some(b)) => Some(Box::new(self.unify(*a, *b))),
            _ => None,
        };
        Term::List { items, rest }
    }

    fn rest_element(&mut self, item: Term, rest: Option<&Term>) -> Term {
        match rest {
            None | Some(Term::Kinds(Kind::TOP)) => item,
            Some(rest) => self.unify(rest.clone(), item),
        }
    }

    /// The product of two sets of alternatives. An alternative is a default if it consists of
    /// defaults on both sides; a side without marks counts as marked throughout.
    fn alternatives(&mut self, left: &[Alternative], right: &[Alternative]) -> Term {
        if left.len().saturating_mul(right.len()) > ALTERNATIVES {
            return self.conflict(messages::too_many_alternatives());
        }
        let left_marked = left.iter().any(|a| a.default);
        let right_marked = right.iter().any(|a| a.default);
        let mut result: Vec<Alternative> = Vec::new();
        for a in left {
            for b in right {
                let mut trial = Self { path: self.path.clone(), conflicts: Vec::new() };
                let term = trial.unify(a.term.clone(), b.term.clone());
                if !trial.conflicts.is_empty() {
                    continue;
                }
                let default = (left_marked || right_marked)
                    && (a.default || !left_marked)
                    && (b.default || !right_marked);
                match result.iter_mut().find(|r| r.term.same(&term)) {
                    Some(known) => known.default |= default,
                    None => result.push(Alternative { default, term }),
                }
            }
        }
        match result.len() {
            0 => self.clash_of_alternatives(&Term::Any(left.to_vec()), &Term::Any(right.to_vec())),
            1 => result.remove(0).term,
            _ => Term::Any(result),
        }
    }

    fn clash_of_alternatives(&mut self, a: &Term, b: &Term) -> Term {
        let message = messages::conflicting(&a.show(), &b.show());
        self.conflict(message)
    }
}

fn as_alternatives(term: Term) -> Vec<Alternative> {
    match term {
        Term::Any(alternatives) => alternatives,
        other => vec![Alternative { default: false, term: other }],
    }
}

fn is_plain(term: &Term) -> bool {
    matches!(term, Term::Scalar(_) | Term::Struct(_) | Term::List { .. })
}

impl Term {
    /// Whether two terms are the same.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) => same_scalar(a, b),
            (Self::Kinds(a), Self::Kinds(b)) => a == b,
            (Self::Test(a), Self::Test(b)) => a == b,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            (Self::Any(a), Self::Any(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| a.default == b.default && a.term.same(&b.term))
            }
            (Self::All(a), Self::All(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Self::List { items: a, rest: ra }, Self::List { items: b, rest: rb }) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| a.same(b))
                    && match (ra, rb) {
                        (None, None) => true,
                        (Some(a), Some(b)) => a.same(b),
                        _ => false,
                    }
            }
            (Self::Struct(a), Self::Struct(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(k, f)| {
                        b.get(k).is_some_and(|g| f.optional == g.optional && f.term.same(&g.term))
                    })
            }
            _ => false,
        }
    }
}

/// Takes a field out; cheap if it is the last one.
fn take(fields: &mut Fields, label: &str) -> Option<Field> {
    if fields.last().is_some_and(|(last, _)| last == label) {
        return fields.pop().map(|(_, field)| field);
    }
    fields.shift_remove(label)
}
