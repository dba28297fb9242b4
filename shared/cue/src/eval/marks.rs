//! Default marks of alternatives, where disjunctions lie within alternatives of others.
//!
//! Marks of disjunctions that are unified combine as those of a product. Those of a disjunction within an alternative say what
//! is preferred there, and count as far as the alternative itself is preferred.
//!
//! # A worked example
//!
//! `(*{x: 1} | {x: 2}) | *{y: 1}`, unified with `x: int` and closed against `y`. The outer disjunction prefers its second alternative,
//! which fails. The inner one prefers `{x: 1}`, but lies within an alternative that is not the preferred one: no default is left, and
//! the value is `{x: 1} | {x: 2}`.

use super::data::{Conj, Mark, Mode, Src, Task, Vid};
use super::state::Machine;
use crate::ir::Expr;

/// The marks of the alternatives a candidate is made of.
pub(super) type Modes = Vec<Mark>;

/// The marks of a disjunction within an alternative of another become part of that one's mark, from the
/// inside out: in `(*1 | 2) | *3` neither 1 nor 2 is a default, also where 3 has failed. A disjunction of
/// which no default is left is one without marks.
pub(super) fn join_nested(survivors: &mut [(Vid, Mode, Modes)]) {
    // What lies deepest is said last.
    while let Some(mark) = survivors
        .iter()
        .filter_map(|(_, _, modes)| modes.iter().rev().find(|mark| mark.within.is_some()))
        .max_by_key(|mark| depth(survivors, mark))
        .copied()
    {
        let of = |m: &Mark| m.key == mark.key && m.within == mark.within;
        let any = survivors
            .iter()
            .any(|(_, _, modes)| modes.iter().any(|m| of(m) && m.mode == Mode::Default));
        for (_, _, modes) in survivors.iter_mut() {
            let Some(at) = modes.iter().position(of) else { continue };
            let inner = modes.remove(at);
            let outer = modes.iter_mut().find(|m| Some(m.key) == mark.within);
            if let Some(outer) = outer.filter(|_| any) {
                outer.mode = outer.mode.max(inner.mode);
            }
        }
    }
}

/// In how many others a disjunction lies.
fn depth(survivors: &[(Vid, Mode, Modes)], mark: &Mark) -> usize {
    const MOST: usize = 64;
    let mut within = mark.within;
    let mut depth = 0;
    while let Some(key) = within
        && depth < MOST
    {
        depth += 1;
        let outer = |modes: &Modes| modes.iter().find(|m| m.key == key).map(|m| m.within);
        within = survivors.iter().find_map(|(_, _, modes)| outer(modes)).flatten();
    }
    depth
}

impl Machine<'_> {
    /// Whether a task belongs to one of the chosen alternatives, itself or through references.
    pub(super) fn is_of_choice(&self, task: &Task, choices: &[((Src, u16), u32)]) -> bool {
        choices.iter().any(|choice| self.is_within_choice(task.conj, *choice))
    }

    /// The innermost chosen alternative that brought a disjunction.
    pub(super) fn choice_around(&self, v: Vid, conj: Conj, key: (Src, u16)) -> Option<(Src, u16)> {
        let choices = self.v(v).extra.as_ref().map(|x| x.choices.as_slice()).unwrap_or_default();
        let around =
            |choice: &&((Src, u16), u32)| choice.0 != key && self.is_within_choice(conj, **choice);
        choices.iter().rfind(around).map(|(key, _)| *key)
    }

    /// Whether a conjunct belongs to a chosen alternative, itself or through references.
    fn is_within_choice(&self, conj: Conj, ((src, _), i): ((Src, u16), u32)) -> bool {
        let (Src::Expr(x), Src::Expr(disj)) = (conj.src, src) else { return false };
        let Expr::Disj(id) = self.ir.expr(disj) else { return false };
        let Some(alt) = self.ir.disjs[id.idx()].get(i as usize) else { return false };
        let mut at = conj.refs;
        let mut within = self.ir.within(x, alt.expr);
        while !within && !at.is_none() {
            let reference = self.s.refs[at.idx()];
            within = self.ir.within(reference.expr, alt.expr);
            at = reference.next;
        }
        within
    }
}
