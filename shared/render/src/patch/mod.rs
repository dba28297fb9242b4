//! The patch engine: a trait's `patch` and `patchOutputs`, a workflow step's patch.
//!
//! Works on [`Term`]s, that is on evaluated values with their markers; nothing is printed and
//! parsed again.

mod error;
mod json;
mod lists;
mod markers;

pub use error::PatchError;
pub use markers::{Markers, Strategy};

use crate::messages;
use crate::term::{Field, Fields, Incomplete, Path, Term, unify};
use cue::Value;
use ecow::EcoString;
use lists::Merged;

/// Applies a patch as a trait's `patch` does: `markers` are those above the `patch` field, which
/// may choose a JSON strategy.
///
/// # Errors
/// [`PatchError`].
pub fn apply(base: Term, patch: Term, markers: &Markers) -> Result<Term, PatchError> {
    match markers.strategy {
        Some(Strategy::JsonMergePatch) => json::merge(&base, &patch),
        Some(Strategy::JsonPatch) => json::patch(&base, &patch),
        _ => strategic(base, patch),
    }
}

/// Applies a patch with the strategic engine, whatever the markers above it say.
///
/// # Errors
/// [`PatchError::Conflicts`].
pub fn strategic(mut base: Term, mut patch: Term) -> Result<Term, PatchError> {
    let undecided = undecided(&patch);
    if !undecided.is_empty() {
        return Err(PatchError::Undecided(undecided));
    }
    base.open_lists();
    if let (Term::Struct(fields), Term::Struct(base_fields)) = (&mut patch, &mut base) {
        walk_struct(fields, Some(base_fields), None);
    }
    unify(patch, base).map_err(PatchError::Conflicts)
}

/// The structs of a patch that lack fields because a condition cannot be decided, and the list
/// elements whose key is not known: merging them would silently do half of the work.
fn undecided(patch: &Term) -> Vec<Incomplete> {
    let mut found = Vec::new();
    collect_undecided(patch, None, &mut Path::default(), &mut found);
    found
}

fn collect_undecided(
    term: &Term,
    key: Option<&EcoString>,
    path: &mut Path,
    found: &mut Vec<Incomplete>,
) {
    match term {
        Term::Struct(fields) => {
            for (label, field) in fields.iter().filter(|(_, f)| !f.optional && !f.definition) {
                path.push_label(label);
                let key = field.markers.patch_key.as_ref().or(key);
                collect_undecided(&field.term, key, path, found);
                path.pop();
            }
        }
        Term::List { items, .. } => {
            for (index, item) in items.iter().enumerate() {
                path.push_index(index);
                for key in key.into_iter().flat_map(|keys| keys.split(',')) {
                    if let Some(Term::Unknown(reason)) = lists::lookup(item, key) {
                        let message = messages::unknown_key(key, reason);
                        found.push(Incomplete { path: path.to_string(), message });
                    }
                }
                collect_undecided(item, key, path, found);
                path.pop();
            }
        }
        Term::All(terms) => {
            if let [Term::Unknown(reason), Term::Struct(_)] = terms.as_slice() {
                found.push(Incomplete { path: path.to_string(), message: reason.to_string() });
            }
        }
        _ => {}
    }
}

/// Walks the patch in pre-order, re-ordering its lists and substituting values of the base.
fn walk_struct(patch: &mut Fields, mut base: Option<&mut Fields>, inherited: Option<&EcoString>) {
    for (label, field) in patch {
        if label.is_empty() || label.starts_with('#') {
            continue;
        }
        let target = base.as_deref_mut().and_then(|b| b.get_mut(label));
        walk_field(field, target, inherited);
    }
}

fn walk_field(field: &mut Field, mut base: Option<&mut Field>, inherited: Option<&EcoString>) {
    let key = field.markers.patch_key.clone().or_else(|| inherited.cloned());
    let strategy = field.markers.strategy;
    if let Term::List { items, rest } = &mut field.term {
        if let Some(Field { term: Term::List { items: base_items, rest: base_rest }, .. }) =
            base.as_deref_mut()
        {
            if strategy == Some(Strategy::Replace) {
                base_items.clone_from(items);
                base_rest.clone_from(rest);
            } else if let Some(key) = key.as_deref() {
                let empty_matched = strategy == Some(Strategy::RetainKeys);
                if let Merged::Yes(merged) = lists::merge(items, base_items, key, empty_matched) {
                    *items = merged;
                    *rest = Some(Box::new(Term::TOP));
                }
            }
        }
    } else if strategy == Some(Strategy::RetainKeys)
        && let Some(base) = base.as_deref_mut()
    {
        base.term = field.term.clone();
    }
    walk(&mut field.term, base.map(|b| &mut b.term), key.as_ref());
}

#[expect(clippy::needless_pass_by_value, reason = "a reborrow, not a value")]
fn walk(patch: &mut Term, base: Option<&mut Term>, key: Option<&EcoString>) {
    match patch {
        Term::Struct(fields) => {
            let base = match base {
                Some(Term::Struct(fields)) => Some(fields),
                _ => None,
            };
            walk_struct(fields, base, key);
        }
        Term::List { items, .. } => {
            let mut base = match base {
                Some(Term::List { items, .. }) => Some(items),
                _ => None,
            };
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, base.as_deref_mut().and_then(|b| b.get_mut(index)), key);
            }
        }
        _ => {}
    }
}

/// The literal of a key, by which elements are compared: kind and text.
pub(crate) fn literal(term: &Term) -> Option<String> {
    match term {
        Term::Scalar(Value::Number(n)) => {
            let text = n.to_string();
            (!text.starts_with('-')).then(|| format!("n{text}"))
        }
        Term::Scalar(Value::String(s)) => Some(format!("s{s}")),
        Term::Scalar(Value::Null) => Some("null".to_owned()),
        Term::Scalar(Value::Bool(b)) => Some(format!("b{b}")),
        Term::Scalar(Value::Bytes(b)) => Some(format!("y{}", String::from_utf8_lossy(b))),
        _ => None,
    }
}
