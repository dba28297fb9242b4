//! Sorting with a comparator: a struct whose field `less` says whether its field `x` comes before its field `y`.
//!
//! Each comparison is `cmp & {x: a, y: b}`, of which `less` is asked. To unify anew for each of the `n log n` pairs takes some
//! kilobytes a pair. In most comparators `x` and `y` say at most which type an element has. For them one struct serves all comparisons: `x` and `y` are pointed at the elements, and `less` is computed again.

use super::data::{ArcKind, Conj, EnvId, Forward, Msg, Phase, Res, Src, Val, Vid};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ExprId, FieldDecl, Marker};
use crate::kind::Kind;
use crate::label::{Label, LabelKind};
use rustc_hash::FxHashMap;

/// How elements are compared.
enum Comparator {
    /// Unified with the two elements each time.
    Struct(Vid),
    /// One struct whose sides are pointed at the elements.
    Frame(Frame),
}

/// A comparator's fields with places for the two elements.
struct Frame {
    /// `x` and `y`.
    sides: [Side; 2],
    less: Vid,
}

/// The place of `x` or `y`.
struct Side {
    place: Vid,
    /// What the comparator says of the element.
    says: ExprId,
    /// The same if it is nothing but kinds.
    kinds: Option<Kind>,
    /// Elements unified with that.
    typed: FxHashMap<Vid, Vid>,
}

impl Machine<'_> {
    /// The elements in order; those that are equal keep theirs.
    pub(super) fn sort(&mut self, elems: Vec<Vid>, cmp: Vid, name: &str, e: ExprId) -> Res<Val> {
        let Some(mut cmp) = self.comparator(cmp)? else {
            let why = super::text("field not found: less");
            return Err(self.err(Class::Incomplete, why, cmp));
        };
        let sorted = match self.merge_sort(elems, &mut cmp) {
            Err(err) if self.is_incomplete(err) => {
                let why = self.message(err);
                return Err(self.call_error(name, &why, e));
            }
            sorted => sorted?,
        };
        self.new_list(&sorted)
    }

    /// Whether no element comes before the one in front of it.
    pub(super) fn is_sorted(&mut self, elems: &[Vid], cmp: Vid) -> Res<bool> {
        // Without `less` every list is in order.
        let Some(mut cmp) = self.comparator(cmp)? else { return Ok(true) };
        for pair in elems.windows(2) {
            let [a, b] = pair else { continue };
            match self.less(&mut cmp, *b, *a) {
                Ok(false) => {}
                Err(err) if self.class(err) == Class::Limit => return Err(err),
                // What cannot be compared is in no order.
                Ok(true) | Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// None if there is no field `less`.
    fn comparator(&mut self, cmp: Vid) -> Res<Option<Comparator>> {
        let label = self.string_label("less");
        if self.lookup(cmp, label)?.is_none() {
            return Ok(None);
        }
        let frame = self.frame(cmp);
        Ok(Some(frame.map_or(Comparator::Struct(cmp), Comparator::Frame)))
    }

    /// The comparator as a struct to be used again: if it is one literal of plain fields, and what
    /// it says of `x` and `y` depends on no other field.
    fn frame(&mut self, cmp: Vid) -> Option<Frame> {
        let cmp = self.deref(cmp);
        let &[conj] = self.v(cmp).conjs.as_slice() else { return None };
        let Src::Expr(literal) = conj.src else { return None };
        let ir = self.ir;
        let Expr::Struct(id) = ir.expr(literal) else { return None };
        let tmpl = &ir.structs[id.idx()];
        let more = !tmpl.embeds().is_empty()
            || !tmpl.comps().is_empty()
            || !tmpl.patterns().is_empty()
            || !tmpl.dynamics().is_empty();
        let plain = |(i, field): (usize, &FieldDecl)| {
            let again = tmpl.fields.iter().take(i).any(|before| before.label == field.label);
            field.marker == Marker::Regular && !field.label.is_let() && !again
        };
        if more || !tmpl.fields.iter().enumerate().all(plain) {
            return None;
        }
        let [x, y, less] = ["x", "y", "less"].map(|name| self.string_label(name));
        let value = |label| tmpl.fields.iter().find(|f| f.label == label).map(|f| f.value);
        // The type of elements may have a name.
        let says = |label| match ir.expr(value(label)?) {
            Expr::Ref { up: 0, label } if ![x, y, less].contains(&label) => value(label),
            _ => value(label),
        };
        let sides = [(x, says(x)?), (y, says(y)?)];
        if !sides.iter().all(|(_, says)| ir.stands_alone(*says)) {
            return None;
        }
        // Put together by hand: nothing is distributed again for a comparison.
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        let env = self.new_env(conj.env, w, Label::new(id.0, LabelKind::Int));
        for field in &tmpl.fields {
            let place = self.new_vertex(w, field.label);
            self.vm(place).conjs.push(conj.field(Src::Expr(field.value), env));
            self.push_arc(w, field.label, place);
        }
        let vertex = self.vm(w);
        vertex.kind = Kind::STRUCT;
        vertex.is_struct = true;
        vertex.phase = Phase::Settled;
        let [x, y] = sides.map(|(label, says)| {
            let place = self.arc(w, label)?;
            Some(Side { place, says, kinds: ir.kinds(says), typed: FxHashMap::default() })
        });
        Some(Frame { sides: [x?, y?], less: self.arc(w, less)? })
    }

    /// Whether one element comes before another.
    fn less(&mut self, cmp: &mut Comparator, a: Vid, b: Vid) -> Res<bool> {
        self.step()?;
        let less = match cmp {
            Comparator::Frame(frame) => {
                // The sides stand for the two elements, and the last answer is forgotten.
                for (side, elem) in frame.sides.iter_mut().zip([a, b]) {
                    let shown = self.typed(side, elem);
                    let place = self.vm(side.place);
                    place.forward = Forward::Share(shown);
                    place.phase = Phase::Settled;
                }
                self.reset(frame.less);
                frame.less
            }
            &mut Comparator::Struct(cmp) => self.less_of(cmp, a, b)?,
        };
        self.settle(less);
        match self.node_val(less)? {
            Val::Bool(b) => Ok(b),
            // Neither comes before the other.
            _ => Ok(false),
        }
    }

    /// An element as the comparator sees it.
    fn typed(&mut self, side: &mut Side, elem: Vid) -> Vid {
        // An atom of the right kind is what the comparator would make of it.
        let atom = &self.v(elem).atom;
        let fits =
            |kinds| kinds == Kind::TOP || atom.is_atom() && self.val_kind(atom).intersects(kinds);
        if side.kinds.is_some_and(fits) {
            return elem;
        }
        let says = side.says;
        *side.typed.entry(elem).or_insert_with(|| {
            let label = self.v(side.place).label;
            let w = self.new_vertex(Vid::NONE, label);
            let conjs = [Src::Expr(says), Src::Node(elem)].map(|src| Conj::new(src, EnvId::NONE));
            self.vm(w).conjs.extend(conjs);
            w
        })
    }

    /// `cmp & {x: a, y: b}`, then its field `less`.
    fn less_of(&mut self, cmp: Vid, a: Vid, b: Vid) -> Res<Vid> {
        let w = self.new_vertex(Vid::NONE, Label::NONE);
        self.vm(w).conjs.push(Conj::new(Src::Node(cmp), EnvId::NONE));
        for (name, x) in [("x", a), ("y", b)] {
            let label = self.string_label(name);
            self.insert_arc(w, label, ArcKind::Member, Conj::new(Src::Node(x), EnvId::NONE));
        }
        let label = self.string_label("less");
        let less = self.lookup(w, label)?;
        less.ok_or_else(|| {
            let why = Msg::Text("field not found: less".into());
            self.err(Class::Incomplete, why, cmp)
        })
    }

    /// Merges runs from the bottom up: stable, errors come out at once, and a comparator that
    /// contradicts itself still ends.
    fn merge_sort(&mut self, elems: Vec<Vid>, cmp: &mut Comparator) -> Res<Vec<Vid>> {
        let mut runs: Vec<Vec<Vid>> = elems.into_iter().map(|w| vec![w]).collect();
        while runs.len() > 1 {
            let mut next = Vec::with_capacity(runs.len().div_ceil(2));
            let mut it = runs.into_iter();
            while let Some(a) = it.next() {
                let Some(b) = it.next() else {
                    next.push(a);
                    break;
                };
                let mut merged = Vec::with_capacity(a.len() + b.len());
                let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
                while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
                    // Only what comes strictly before goes ahead: equal elements keep their order.
                    if self.less(cmp, y, x)? {
                        merged.extend(b.next());
                    } else {
                        merged.extend(a.next());
                    }
                }
                merged.extend(a);
                merged.extend(b);
                next.push(merged);
            }
            runs = next;
        }
        Ok(runs.pop().unwrap_or_default())
    }
}
