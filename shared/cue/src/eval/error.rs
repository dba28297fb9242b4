//! Errors inside an evaluation; their text is made when it is printed.
//!
//! Most errors are never shown: an alternative fails, a guard waits for a field. So an error is a
//! number, its entry says what it is about, and the text is made on demand.
//!
//! Its class decides what happens: *incomplete* and *cycle* errors may vanish when more is known,
//! so the work is tried again. *Limit* errors end the evaluation. All others are final for their
//! vertex, and of several the most telling is kept ([`Machine::fail`]): what the template says
//! itself, then conflicts, then structural cycles.
//!
//! # Worked examples
//!
//! ```cue
//! n: {a: 1 / 0} | {b: 2}
//! out: {if late > 0 {ok: true}}
//! late: int
//! late: 3
//! ```
//!
//! - The division fails within the first alternative of `n`. The error is final for that candidate,
//!   which is dropped; `n` is `{b: 2}`, and the text of the error is never made.
//! - If the guard of `out` runs before `late` has its second conjunct, `late > 0` is incomplete: the
//!   guard stays queued. With `3` known it runs again, and `out` is `{ok: true}`.

use super::data::{Conj, Err, ErrId, Msg, Res, Src, Vid};
use super::state::Machine;
use crate::error::{Class, Error, ErrorKind, Position};
use crate::ir::ExprId;
use crate::label::Label;
use crate::limits::LimitError;
use crate::text::{is_ident, plain_name};
use cue_syntax::quote;

impl Machine<'_> {
    /// An error about a vertex, without a position.
    pub(crate) fn err(&mut self, class: Class, msg: Msg, vertex: Vid) -> ErrId {
        self.err_at(class, msg, vertex, &[])
    }

    /// An error about a vertex, with the expressions it arose from.
    pub(crate) fn err_at(&mut self, class: Class, msg: Msg, vertex: Vid, at: &[ExprId]) -> ErrId {
        // The text is copied when the error is reported.
        let text = if let Msg::Text(text) = &msg { text.len() as u64 * 2 } else { 0 };
        let _ = self.s.budget.bytes(96 + text);
        self.s.errs.push(Err { class, msg, vertex, at: at.into(), causes: Vec::new() });
        ErrId(u32::try_from(self.s.errs.len() - 1).unwrap_or(u32::MAX))
    }

    /// An error with a text of its own. It is located at the vertex that meets it first.
    pub(crate) fn text_err(&mut self, class: Class, text: impl Into<String>, at: ExprId) -> ErrId {
        self.err_at(class, Msg::Text(text.into()), Vid::NONE, &[at])
    }

    /// A crossed limit. The budget remembers it, so that neither a disjunction nor a presence test
    /// swallows it.
    #[cold]
    pub(crate) fn limit(&mut self, limit: LimitError) -> ErrId {
        self.s.budget.cross(limit);
        self.err(Class::Limit, Msg::Limit(limit), Vid::NONE)
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&mut self) -> Res<()> {
        self.steps(1)
    }

    /// Counts so many steps at once.
    #[inline]
    pub(crate) fn steps(&mut self, n: usize) -> Res<()> {
        if self.s.budget.passes(n as u64) { Ok(()) } else { self.slow_steps(n as u64) }
    }

    /// The budget is looked at closely only now and then: measuring the arenas costs more than a
    /// step.
    #[cold]
    fn slow_steps(&mut self, n: u64) -> Res<()> {
        self.measure();
        self.s.budget.steps(n).map_err(|limit| self.limit(limit))
    }

    /// Whether a limit has been crossed that ends the evaluation: what is made in one go, without
    /// counting steps, stops there.
    pub(crate) fn is_over(&self) -> bool {
        self.s.budget.crossed().is_some_and(|limit| limit != LimitError::Depth)
    }

    /// Enters one level of nested evaluation.
    #[inline]
    pub(crate) fn enter(&mut self) -> Res<()> {
        self.step()?;
        if self.s.depth >= self.s.budget.limits().depth {
            return Err(self.limit(LimitError::Depth));
        }
        self.s.depth += 1;
        Ok(())
    }

    /// Leaves one level.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.s.depth -= 1;
    }

    /// What kind of failure an error is.
    pub(crate) fn class(&self, e: ErrId) -> Class {
        self.s.errs[e.idx()].class
    }

    /// Whether more information may remove the error.
    pub(crate) fn is_incomplete(&self, e: ErrId) -> bool {
        self.class(e).is_incomplete()
    }

    /// Gives an error without a vertex one.
    pub(crate) fn locate(&mut self, e: ErrId, v: Vid) {
        let err = &mut self.s.errs[e.idx()];
        if err.vertex.is_none() {
            err.vertex = v;
        }
    }

    /// Labels from the root to a vertex.
    pub(crate) fn path(&self, mut v: Vid) -> Vec<ecow::EcoString> {
        let mut labels = Vec::new();
        while !v.is_none() {
            let vertex = self.v(v);
            if vertex.label != Label::NONE {
                labels.push(self.label_text(vertex.label));
            }
            v = vertex.parent;
        }
        labels.reverse();
        labels
    }

    /// A label as written in CUE.
    pub(crate) fn label_text(&self, label: Label) -> ecow::EcoString {
        use crate::label::LabelKind;
        match label.kind() {
            LabelKind::Int => ecow::eco_format!("{}", label.index()),
            LabelKind::String => {
                let name = self.name(label);
                if is_ident(name) { name.clone() } else { quote(name).into() }
            }
            _ => plain_name(self.name(label)).into(),
        }
    }

    /// The text of an error.
    pub(crate) fn message(&mut self, e: ErrId) -> String {
        let err = self.s.errs[e.idx()].clone();
        match err.msg {
            Msg::Text(text) => text,
            Msg::Undefined(label, _) => format!("undefined field: {}", self.label_text(label)),
            Msg::CannotReference(label) => {
                format!("cannot reference optional field: {}", self.label_text(label))
            }
            Msg::Unresolved => format!("unresolved disjunction {}", self.show(err.vertex)),
            Msg::NonConcrete(kind, what) => format!("non-concrete value {kind} in {what}"),
            Msg::Incomplete => {
                let text = self.show(err.vertex);
                format!("incomplete value {text}")
            }
            Msg::NotAllowed => "field not allowed".into(),
            Msg::ListLengths(a, b) => format!("incompatible list lengths ({a} and {b})"),
            Msg::Bottom => "explicit error (_|_ literal) in source".into(),
            Msg::StructuralCycle => "structural cycle".into(),
            Msg::Cycle(expr)
            | Msg::Pending(expr)
            | Msg::Naming(expr)
            | Msg::Choosing(expr)
            | Msg::Enclosing(expr) => format!("cycle with field: {}", self.ir.text(expr)),
            Msg::Limit(limit) => limit.to_string(),
        }
    }

    /// The public form, causes after it. A cause counts as what the whole is: alternatives of which one
    /// contradicts itself and one has no end have no end together.
    pub(crate) fn public(&mut self, e: ErrId, out: &mut Vec<Error>) {
        self.public_as(e, self.class(e), out);
    }

    /// Adds an error and its causes, each once.
    fn public_as(&mut self, e: ErrId, class: Class, out: &mut Vec<Error>) {
        // Alternatives of alternatives fail in more ways than anybody reads.
        const MOST: usize = 64;
        if out.len() >= MOST {
            return;
        }
        let err = self.s.errs[e.idx()].clone();
        let message = self.message(e);
        let path = self.path(err.vertex);
        let positions = err.at.iter().filter_map(|&e| self.position(e)).collect();
        let hint = match err.msg {
            Msg::NotAllowed => self.allowed_hint(err.vertex),
            Msg::Undefined(label, of) => self.field_hint(label, of),
            _ => None,
        };
        let kind = match err.msg {
            Msg::Undefined(..) | Msg::CannotReference(_) => ErrorKind::Absent,
            Msg::NotAllowed => ErrorKind::NotAllowed,
            _ => ErrorKind::Other,
        };
        let error = Error { class, kind, message, path, positions, hint };
        if !out.contains(&error) {
            out.push(error);
        }
        for cause in err.causes {
            self.public_as(cause, class, out);
        }
    }

    /// The allowed field whose name is nearest to that of a field that is not allowed.
    fn allowed_hint(&self, v: Vid) -> Option<String> {
        let vertex = self.v(v);
        if vertex.parent.is_none() || !vertex.label.is_string() {
            return None;
        }
        let name = self.name(vertex.label);
        let allowed = self
            .v(vertex.parent)
            .arcs
            .iter()
            .filter(|(label, w)| label.is_string() && *w != v && self.v(*w).error.is_none())
            .map(|(label, _)| self.name(*label).as_str());
        let nearest = vela_gocompat::nearest(name, allowed)?;
        Some(format!("did you mean {}?", quote(nearest)))
    }

    /// The field whose name is nearest to that of one that does not exist.
    fn field_hint(&self, label: Label, of: Vid) -> Option<String> {
        if of.is_none() || !label.is_string() {
            return None;
        }
        let known = self.v(of).arcs.iter().filter(|(known, w)| {
            known.is_string() && *known != label && self.v(*w).arc == super::ArcKind::Member
        });
        let known = known.map(|(label, _)| self.name(*label).as_str());
        let nearest = vela_gocompat::nearest(self.name(label), known)?;
        Some(format!("did you mean {}?", quote(nearest)))
    }

    /// Where an expression stands.
    pub(crate) fn position(&self, e: ExprId) -> Option<Position> {
        let (pos, _) = self.ir.pos.get(e.idx())?;
        let source = self.ir.sources.get(pos.file.idx())?;
        let at = source.position(pos.start);
        Some(Position { file: source.name.clone(), line: at.line, column: at.column })
    }

    /// The expression that a conjunct is, for positions in errors.
    pub(crate) fn conj_expr(&self, conj: Conj) -> Option<ExprId> {
        match conj.src {
            Src::Expr(e) => Some(e),
            _ => None,
        }
    }
}
