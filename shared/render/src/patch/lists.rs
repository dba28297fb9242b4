//! Aligning the elements of a patch list with those of the base by key.

use super::literal;
use crate::term::Term;

/// The outcome of [`merge`].
pub(super) enum Merged {
    /// The new elements of the patch list.
    Yes(Vec<Term>),
    /// The elements cannot be matched by key: both lists are unified index by index.
    No,
}

/// Aligns `patch` with `base`: an element of the base that has a partner gets it at the same
/// index, all others get `{}`; elements without partner follow at the end.
///
/// `keys` is the marker's text: keys separated by commas, each a dotted path. With
/// `empty_matched` the base's partners are emptied first, so that only the patch's fields remain.
pub(super) fn merge(patch: &[Term], base: &mut [Term], keys: &str, empty_matched: bool) -> Merged {
    // Every known (key, value) pair with the index of the last patch element that has it.
    let mut known: Vec<((&str, String), usize)> = Vec::new();
    let mut merged: Vec<Term> = Vec::new();
    for key in keys.split(',') {
        let mut found = false;
        for (index, element) in patch.iter().enumerate() {
            let Some(value) = lookup(element, key) else { continue };
            found = true;
            let Some(text) = literal(value) else { return Merged::No };
            known.retain(|(k, _)| *k != (key, text.clone()));
            known.push(((key, text), index));
        }
        if !found {
            if patch.is_empty() {
                // Nothing to match by this key: the base stays as it is.
                continue;
            }
            return Merged::No;
        }
        for element in base.iter_mut() {
            let Some(value) = lookup(element, key) else { continue };
            let Some(text) = literal(value) else { return Merged::No };
            match known.iter().position(|(k, _)| *k == (key, text.clone())) {
                Some(at) => {
                    let (_, index) = known.remove(at);
                    if empty_matched {
                        *element = Term::empty();
                    }
                    merged.extend(patch.get(index).cloned());
                }
                None => merged.push(Term::empty()),
            }
        }
    }
    for (index, element) in patch.iter().enumerate() {
        if known.iter().any(|(_, i)| *i == index) {
            merged.push(element.clone());
        }
    }
    Merged::Yes(merged)
}

/// The value at a dotted path.
pub(super) fn lookup<'a>(element: &'a Term, key: &str) -> Option<&'a Term> {
    key.split('.').try_fold(element, |term, label| match term {
        Term::Struct(fields) => fields.get(label).filter(|f| !f.optional).map(|f| &f.term),
        _ => None,
    })
}
