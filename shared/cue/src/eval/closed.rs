//! Closedness by evidence.
//!
//! Every closing occurrence (a reference to a definition, a definition itself, `close()`) gets an
//! id, and so does a literal in which one may stand; conjuncts carry the id of the occurrence they came through. A closed vertex holds its
//! occurrences as requirements: a regular field must show, for each, a conjunct that came through
//! it, or through the struct literal it is embedded in. Nothing is done where nothing closes.
//!
//! # A worked example
//!
//! ```cue
//! #A: {a: int}
//! #B: {#A, b: int}
//! x: #B & {a: 1, b: 2, c: 3}
//! ```
//!
//! The reference `#B` in `x` gets the id 1. The literal of `#B` embeds `#A`, which gets the id 2 with parent 1, marked as
//! embedded. The conjuncts of `x`'s fields then carry: `a: int` the id 2, `b: int` the id 1, and `a: 1`, `b: 2`, `c: 3` none,
//! since the second operand closes nothing. `x` requires 1 (and, from the embedding, 2).
//!
//! - `a` shows a conjunct with id 2. That is evidence for 2, and for 1, since 2 lies under 1.
//! - `b` shows id 1. That is evidence for 1. For 2 it counts too: it came through the literal in which 2 is embedded.
//! - `c` has only a conjunct without an id, which is evidence for nothing: `x.c: field not allowed`.

use super::data::{
    ArcKind, CloseId, CloseNode, Conj, EnvId, ErrId, Msg, OF_DEF, Opening, Phase, Req, Res, Src,
    Val, Vid,
};
use super::state::Machine;
use crate::error::Class;
use crate::ir::{Expr, ExprId};
use crate::kind::Kind;
use crate::label::Label;
use smallvec::SmallVec;

impl Machine<'_> {
    /// An occurrence that closes.
    pub(crate) fn new_close(&mut self, parent: CloseId, embedded: bool) -> CloseId {
        self.push_close(CloseNode { parent, embedded, plain: false, binding: false, braces: false })
    }

    /// What is to be closed has to be known, and a struct. Of a choice the default is closed.
    pub(super) fn check_closable(&mut self, arg: ExprId, env: EnvId) -> Res<ExprId> {
        let mut val = self.value(arg, env)?;
        let mut closed = arg;
        let default = match &val {
            Val::Node(w) => {
                let w = self.deref(*w);
                self.default_of(w)
            }
            _ => None,
        };
        if let Some(Val::Node(w)) = default {
            self.settle(w);
            val = self.node_val(w)?;
            closed = self.chosen_of(w, arg).unwrap_or(arg);
        }
        let any = match &val {
            Val::Top => true,
            Val::Node(w) => {
                let w = self.deref(*w);
                let vertex = self.v(w);
                vertex.kind == Kind::TOP
                    && vertex.phase == Phase::Settled
                    && !vertex.is_struct
                    && !vertex.is_list
                    && vertex.extra.as_ref().is_none_or(|x| x.alts.is_empty())
            }
            _ => false,
        };
        if any {
            return Err(self.text_err(Class::Eval, "struct argument must be concrete", arg));
        }
        // What can never be a struct need not be concrete to be wrong.
        let never = match &val {
            Val::Node(w) => !self.has_choice(*w) && !self.node_kind(*w).intersects(Kind::STRUCT),
            val => !self.val_kind(val).intersects(Kind::STRUCT),
        };
        let val = if never { val } else { self.make_concrete(val, arg, "argument")? };
        let kind = self.val_kind(&val);
        if kind.is_bottom() || kind.intersects(Kind::STRUCT) {
            return Ok(closed);
        }
        Err(self.arg_error("close", &val, 1, "struct", arg))
    }

    /// The alternative that a vertex is made of and nothing else, if it is one of a choice that is written out.
    fn chosen_of(&self, w: Vid, choice: ExprId) -> Option<ExprId> {
        let Expr::Disj(id) = self.ir.expr(choice) else { return None };
        let extra = self.v(w).extra.as_ref()?;
        let &[((Src::Expr(of), _), i)] = extra.choices.as_slice() else { return None };
        let alternative = self.ir.disjs[id.idx()].get(i as usize)?;
        (of == choice).then_some(alternative.expr)
    }

    /// A literal or unification, which closes nothing itself.
    pub(crate) fn new_literal(&mut self, parent: CloseId, embedded: bool) -> CloseId {
        // A literal closes nothing. It is plain as long as nothing around it closes.
        let plain = self.is_plain(parent);
        self.push_close(CloseNode { parent, embedded, plain, binding: false, braces: false })
    }

    /// A literal as it is written.
    pub(crate) fn new_braces(&mut self, parent: CloseId, embedded: bool) -> CloseId {
        let plain = self.is_plain(parent);
        self.push_close(CloseNode { parent, embedded, plain, binding: false, braces: true })
    }

    /// What a loop adds for one of its bindings.
    pub(crate) fn new_binding(&mut self, loops: CloseId) -> CloseId {
        let plain = self.is_plain(loops);
        self.push_close(CloseNode {
            parent: loops,
            embedded: true,
            plain,
            binding: true,
            braces: false,
        })
    }

    /// Ids grow with each occurrence, and a parent always has a smaller one than what lies in it.
    fn push_close(&mut self, node: CloseNode) -> CloseId {
        let id = CloseId(u32::try_from(self.s.close.len()).unwrap_or(u32::MAX - 1));
        self.s.close.push(node);
        id
    }

    /// Whether what came through an occurrence came through nothing that closes.
    pub(crate) fn is_plain(&self, id: CloseId) -> bool {
        self.s.close.get(id.idx()).is_none_or(|node| node.plain)
    }

    /// From now on the fields of `v` need evidence for this occurrence.
    pub(crate) fn add_req(&mut self, v: Vid, req: Req) {
        let reqs = &mut self.extra(v).reqs;
        if !reqs.contains(&req) {
            reqs.push(req);
        }
    }

    /// Takes note of a struct or list, where something closes.
    #[inline]
    pub(crate) fn note_literal(&mut self, v: Vid, c: Conj) {
        self.vm(v).of_def |= c.flags & OF_DEF != 0;
        if let Some(extra) = &mut self.vm(v).extra
            && !extra.reqs.is_empty()
            && !extra.literals.contains(&c.close)
        {
            extra.literals.push(c.close);
        }
    }

    /// Whether a requirement is one of a struct or list: `_` allows anything, also in a definition.
    fn closes(&self, v: Vid, req: Req) -> bool {
        let vertex = self.v(v);
        let Some(extra) = &vertex.extra else { return false };
        // The structs and lists are in the alternatives.
        if !extra.alts.is_empty() {
            return true;
        }
        // Most have noted a literal by now.
        if extra.literals.iter().any(|id| self.is_evidence(*id, req.id)) {
            return true;
        }
        // The literals among the conjuncts need not have been noted.
        let written = |c: &Conj| matches!(c.src, Src::Expr(e) if matches!(self.ir.expr(e), Expr::Struct(_) | Expr::List(_)));
        vertex.conjs.iter().any(|c| written(c) && self.is_evidence(c.close, req.id))
    }

    /// Whether one occurrence lies in another, or is it.
    fn under(&self, mut id: CloseId, ancestor: CloseId) -> bool {
        if ancestor.is_none() {
            return true;
        }
        while !id.is_none() {
            if id == ancestor {
                return true;
            }
            id = self.s.close[id.idx()].parent;
        }
        false
    }

    /// Whether a conjunct with id `f` is evidence for requirement `r`.
    fn is_evidence(&self, f: CloseId, r: CloseId) -> bool {
        self.under(f, r) || self.adjacent_embedding(f, r).is_some()
    }

    /// What a requirement came through that is embedded next to a conjunct.
    fn adjacent_embedding(&self, f: CloseId, r: CloseId) -> Option<CloseId> {
        // A field next to an embedding: `{#A, b: 1}` may have `b` although `#A` does not. It came
        // through the literal that embeds, and not through the embedded occurrence, which allows
        // its own fields only.
        let mut cur = r;
        let mut embedded = false;
        while !cur.is_none() {
            let node = self.s.close[cur.idx()];
            // What one binding of a loop says of a field is closed to what another says of it, unless it is embedded
            // there: in `for x in l {a: #A & {b: 1}}` no binding may have the `b` of another.
            if node.embedded
                && (embedded || !node.binding)
                && self.under(f, node.parent)
                && !self.under(f, cur)
            {
                return Some(cur);
            }
            embedded |= node.embedded && !node.braces;
            cur = node.parent;
        }
        None
    }

    /// Whether what is embedded a second time stands beside itself: in `{{a}, {a}}` all of `a` is said twice, and
    /// what its parts do not allow of each other they do not allow of the same parts next to them.
    fn is_embedded_too(&self, w: Vid, c: &Conj, r: CloseId) -> bool {
        if self.under(c.close, r) {
            return false;
        }
        let Some(embedding) = self.adjacent_embedding(c.close, r) else { return false };
        self.v(w).conjs.iter().any(|twin| {
            twin.src == c.src
                && twin.close != c.close
                && self.is_same_env(twin.env, c.env)
                && self.under(twin.close, embedding)
                && !self.is_evidence(twin.close, r)
        })
    }

    /// Requirements a field inherits: the recursive ones it has evidence for.
    #[inline]
    pub(crate) fn inherit_reqs(&mut self, v: Vid) {
        let parent = self.v(v).parent;
        // Most structs are neither closed nor opened.
        if !parent.is_none()
            && let Some(extra) = &self.v(parent).extra
            && (extra.opened || !extra.reqs.is_empty())
        {
            self.inherit_from(v, parent);
        }
    }

    /// What a field takes over from a struct that is closed, or that was built to be selected from.
    fn inherit_from(&mut self, v: Vid, parent: Vid) {
        let vertex = self.v(v);
        // Where something stands in an expression says nothing about what it is.
        let inline = vertex.label == Label::NONE && vertex.extra.as_ref().is_some_and(|x| x.opened);
        if inline {
            return;
        }
        let Some(extra) = &self.v(parent).extra else { return };
        // What is built inside of an expression is open or not by itself.
        let opened = extra.opened && self.v(v).label != Label::NONE;
        let n = extra.reqs.len();
        if opened {
            self.extra(v).opened = true;
        }
        for i in 0..n {
            let Some(&req) = self.v(parent).extra.as_ref().and_then(|x| x.reqs.get(i)) else {
                break;
            };
            // A field of the closed struct is closed in turn. A field that came from elsewhere is
            // not.
            if req.recursive
                && self.v(v).conjs.iter().any(|c| self.is_evidence(c.close, req.id))
                && !self.is_let_in(v, req.id)
                && self.closes(parent, req)
            {
                self.add_req(v, req);
            }
        }
    }

    /// Whether an occurrence has let in a field that is none of its own, as one that is hidden or by its `...`:
    /// in `{a: #A & {b: {}}}` the field `b` need not be one of `#A`, and is none because of what stands beside
    /// the braces.
    fn is_let_in(&self, v: Vid, r: CloseId) -> bool {
        let conjs = &self.v(v).conjs;
        if r.is_none() || conjs.iter().any(|c| self.under(c.close, r)) {
            return false;
        }
        let outer = self.v(self.v(v).parent).extra.as_ref();
        let opens = || outer.is_some_and(|x| x.opens.iter().any(|o| self.is_evidence(o.id, r)));
        if self.v(v).label.is_string() && !opens() {
            return false;
        }
        let mut around = self.s.close[r.idx()].parent;
        while !around.is_none() {
            let node = self.s.close[around.idx()];
            if node.embedded
                && conjs
                    .iter()
                    .any(|c| self.under(c.close, around) && !self.is_evidence(c.close, r))
            {
                return true;
            }
            around = node.parent;
        }
        false
    }

    /// Whether a new field with conjuncts of these ids may be added.
    pub(crate) fn allows(&self, v: Vid, w: Vid) -> bool {
        let Some(extra) = &self.v(v).extra else { return true };
        extra.reqs.iter().all(|req| {
            // `_` allows everything, also where it stands in a definition.
            if !self.closes(v, *req) {
                return true;
            }
            // A definition as such: whatever declares the field is evidence enough. Only a field
            // that nobody declares has no conjunct.
            if req.id.is_none() {
                return !self.v(w).conjs.is_empty() || extra.opens.iter().any(|o| o.id == req.id);
            }
            // Evidence comes from a conjunct of the field, or from a `...` that came the same way.
            self.v(w)
                .conjs
                .iter()
                .any(|c| self.is_evidence(c.close, req.id) && !self.is_embedded_too(w, c, req.id))
                || extra.opens.iter().any(|o| self.is_evidence(o.id, req.id))
        })
    }

    /// Whether something closes a struct, `...` and the like aside: also a definition that is `_`, although it
    /// allows anything. A field that stands beside an
    /// embedded definition without being one of its fields is as open as it was written, although
    /// what comes from elsewhere may add nothing to it.
    pub(crate) fn has_reqs(&self, v: Vid) -> bool {
        let vertex = self.v(v);
        vertex.extra.as_ref().is_some_and(|x| {
            x.reqs.iter().any(|r| {
                !self.requires(vertex.parent, *r)
                    || vertex.conjs.iter().any(|c| self.under(c.close, r.id))
            })
        })
    }

    /// Whether a vertex holds this requirement.
    fn requires(&self, v: Vid, req: Req) -> bool {
        !v.is_none() && self.v(v).extra.as_ref().is_some_and(|x| x.reqs.contains(&req))
    }

    /// Whether some requirement is not lifted by a `...`.
    pub(crate) fn is_closed(&self, v: Vid) -> bool {
        self.is_held_to(v, |req| self.closes(v, req), |_| true)
    }

    /// Whether nobody can say of a struct that it has a field which nobody declares. A definition that is `_`
    /// allows the fields that are declared beside it, and a schema declares none. What is made to be selected from
    /// stays open.
    pub(super) fn is_complete(&self, v: Vid) -> bool {
        self.v(v).extra.as_ref().is_some_and(|x| !x.opened)
            && self.is_held_to(v, |_| true, |opening| !opening.schema)
    }

    /// Whether one of the requirements that count is not lifted.
    fn is_held_to(
        &self,
        v: Vid,
        counts: impl Fn(Req) -> bool,
        lifts: impl Fn(Opening) -> bool,
    ) -> bool {
        self.v(v).extra.as_ref().is_some_and(|x| {
            x.reqs.iter().filter(|r| counts(**r)).any(|r| {
                // A definition is as open as anything that it is put together of: what is embedded
                // and closes has a requirement of its own.
                !x.opens
                    .iter()
                    .any(|o| lifts(*o) && (r.id.is_none() || self.is_evidence(o.id, r.id)))
            })
        })
    }

    /// Whether an occurrence lies in nothing that closes or embeds.
    fn is_top_level(&self, id: CloseId) -> bool {
        self.s.close.get(id.idx()).is_none_or(|node| node.parent.is_none() && !node.embedded)
    }

    /// Why a field that is written is none: it is in one that is not allowed, or is optional and would not be
    /// allowed. In a struct that has failed for another reason an optional field is not asked whether it is allowed; the
    /// fields in it are, and fail it.
    pub(crate) fn not_allowed(&mut self, v: Vid) -> Option<ErrId> {
        let around = self.v(v).parent;
        let regular =
            |&(label, w): &(Label, Vid)| label.is_string() && self.v(w).arc != ArcKind::Optional;
        let asked = around.is_none()
            || !self.has_failed_otherwise(around)
            || self.v(v).arcs.iter().any(regular);
        let mut at = v;
        loop {
            let vertex = self.v(at);
            let (label, parent) = (vertex.label, vertex.parent);
            if parent.is_none() || !(label.is_string() || label.is_int()) {
                return None;
            }
            if let Some(e) = vertex.error.filter(|e| self.is_denial(*e)) {
                return Some(e);
            }
            let opened = || self.v(parent).extra.as_ref().is_none_or(|x| x.opened);
            if asked
                && vertex.arc == ArcKind::Optional
                && label.is_string()
                && !opened()
                && !self.allows(parent, at)
            {
                return Some(self.err(Class::Eval, Msg::NotAllowed, at));
            }
            at = parent;
        }
    }

    /// Whether an error says that a field is not allowed.
    pub(super) fn is_denial(&self, e: ErrId) -> bool {
        matches!(self.s.errs[e.idx()].msg, Msg::NotAllowed)
    }

    /// Whether a struct has failed, itself or below, and not because of what is not allowed.
    fn has_failed_otherwise(&self, v: Vid) -> bool {
        let vertex = self.v(v);
        let below = vertex.extra.as_ref().and_then(|x| x.child_error);
        vertex.error.or(below).is_some_and(|e| !self.is_denial(e))
    }

    /// Marks a field that the struct around it does not allow.
    pub(crate) fn check_allowed(&mut self, v: Vid) {
        let parent = self.v(v).parent;
        if parent.is_none() || self.v(parent).phase != Phase::Settled {
            return;
        }
        if self.v(parent).extra.as_ref().is_some_and(|x| x.alts.is_empty()) {
            self.check_closed(parent);
        }
    }

    /// Marks the fields that are not allowed.
    pub(crate) fn check_closed(&mut self, v: Vid) {
        // Nothing closes it, or it was built to be selected from.
        if self
            .v(v)
            .extra
            .as_ref()
            .is_none_or(|x| x.reqs.is_empty() || x.opened && (!x.judged || x.choices.is_empty()))
        {
            return;
        }
        let tried = self.is_tried(v);
        for i in 0..self.v(v).arcs.len() {
            let (label, w) = self.v(v).arcs[i];
            // Definitions and hidden fields may always be added, and an optional field adds
            // nothing.
            if !label.is_string() || self.v(w).arc == ArcKind::Optional || self.allows(v, w) {
                continue;
            }
            // What has no value, for whatever reason, says so.
            if !tried && self.has_no_value(w) {
                continue;
            }
            // What the files of a package and the inputs say at the top level stands beside what
            // one of them embeds.
            if v == Vid(0) && self.v(w).conjs.iter().any(|c| self.is_top_level(c.close)) {
                continue;
            }
            let at: SmallVec<[_; 2]> =
                self.v(w).conjs.iter().filter_map(|c| self.conj_expr(*c)).take(2).collect();
            let e = self.err_at(Class::Eval, Msg::NotAllowed, w, &at);
            let vertex = self.vm(w);
            vertex.error = Some(e);
        }
    }
}
