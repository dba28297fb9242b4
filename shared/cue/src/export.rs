//! Concrete values out of vertices, and texts for messages.

use crate::error::{Class, Error};
use crate::eval::{ArcKind, Deep, ErrId, Forward, Machine, Val, Vid};
use crate::ir::{Expr, ExprId};
use crate::label::Label;
use crate::limits::LimitError;
use crate::value::{Fields, Number, Value};
use cue_syntax::{quote, quote_bytes};
use ecow::EcoString;

/// What an export makes: CUE data, or JSON without a detour.
pub(crate) trait Make: Sized {
    type Fields;
    fn scalar(value: Value) -> Self;
    fn list(items: Vec<Self>) -> Self;
    fn fields(count: usize) -> Self::Fields;
    fn insert(fields: &mut Self::Fields, label: EcoString, value: Self);
    fn structure(fields: Self::Fields) -> Self;
}

impl Make for Value {
    type Fields = Fields;

    fn scalar(value: Self) -> Self {
        value
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn fields(count: usize) -> Fields {
        Fields::with_capacity_and_hasher(count, Default::default())
    }

    fn insert(fields: &mut Fields, label: EcoString, value: Self) {
        fields.insert(label, value);
    }

    fn structure(fields: Fields) -> Self {
        Self::Struct(fields)
    }
}

impl Make for serde_json::Value {
    type Fields = serde_json::Map<String, Self>;

    fn scalar(value: Value) -> Self {
        value.to_json()
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn fields(_: usize) -> Self::Fields {
        Self::Fields::new()
    }

    fn insert(fields: &mut Self::Fields, label: EcoString, value: Self) {
        fields.insert(label.into(), value);
    }

    fn structure(fields: Self::Fields) -> Self {
        Self::Object(fields)
    }
}

/// How much of a value a text may still show. What a bound compares with may contain the bound.
struct Room {
    depth: u32,
    /// Vertices.
    left: u32,
    /// Bytes of strings and digits of numbers.
    text: usize,
}

impl Room {
    /// Structs and lists are shown to this depth.
    const DEPTH: u32 = 4;
    /// Nothing is shown beyond.
    const DEEPEST: u32 = 16;
    /// What is longer is cut: nobody reads it, and an error per element of a list may show it.
    const TEXT: usize = 64 << 10;

    /// As much of a text as there is room for.
    fn cut<'a>(&mut self, text: &'a str) -> (&'a str, &'static str) {
        if text.len() <= self.text {
            self.text -= text.len();
            return (text, "");
        }
        let end = text.floor_char_boundary(self.text);
        self.text = 0;
        (text.get(..end).unwrap_or_default(), "...")
    }
}

impl Default for Room {
    fn default() -> Self {
        Self { depth: 0, left: 10_000, text: Self::TEXT }
    }
}

/// Bytes of a field beside its name: an entry, its hash, its place in a table, and its share of
/// the least that a struct takes.
const FIELD: usize = 160;

impl Machine<'_> {
    /// The concrete value of a vertex and everything below; all errors otherwise.
    pub(crate) fn export<M: Make>(&mut self, v: Vid) -> Result<M, Vec<Error>> {
        self.check_allowed(v);
        let mut errors = self.validate(v, false);
        if !errors.is_empty() {
            return Err(errors);
        }
        self.make(v).map_err(|e| {
            self.public(e, &mut errors);
            errors
        })
    }

    /// The errors in a vertex and below.
    pub(crate) fn validate(&mut self, v: Vid, concrete: bool) -> Vec<Error> {
        self.deep(v);
        let mut errors = Vec::new();
        if concrete || !self.is_sound(v) {
            self.collect(v, concrete, false, &mut errors);
        }
        if let Some(limit) = self.s.budget.crossed() {
            return vec![limit.into()];
        }
        errors
    }

    /// Whether [`deep`](Self::deep) has found no final error in a vertex and below: there is none
    /// to collect.
    fn is_sound(&mut self, v: Vid) -> bool {
        let w = self.deref(v);
        self.final_error(v).is_none() && self.v(w).deep == Deep::Done
    }

    fn collect(&mut self, v: Vid, concrete: bool, schema: bool, out: &mut Vec<Error>) {
        if self.enter().is_err() {
            return;
        }
        self.collect_inner(v, concrete, schema, out);
        self.leave();
    }

    fn collect_inner(&mut self, v: Vid, concrete: bool, schema: bool, out: &mut Vec<Error>) {
        if let Some(e) = self.v(v).error {
            self.public(e, out);
            return;
        }
        let v = if concrete { self.chosen(v) } else { self.deref(v) };
        let vertex = self.v(v);
        if let Some(e) = vertex.error {
            self.public(e, out);
            return;
        }
        let open = vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty());
        if concrete && !schema {
            if let Some(e) = vertex.incomplete {
                self.public(e, out);
                return;
            }
            let scalar_default = open && self.default_of(v).is_some();
            let undecided = open && !scalar_default
                || !open
                    && !vertex.atom.is_atom()
                    && !vertex.is_struct
                    && !vertex.is_list
                    && crate::eval::pinned(vertex.kind, &vertex.checks).is_none();
            if undecided {
                let e = self.err(Class::Incomplete, crate::eval::incomplete(), v);
                self.public(e, out);
                return;
            }
        }
        if open {
            return;
        }
        // What is required of a struct is asked before its fields are looked at.
        if concrete && !schema {
            for i in 0..self.v(v).arcs.len() {
                let (label, w) = self.v(v).arcs[i];
                if self.v(w).arc == ArcKind::Required && !label.is_let() {
                    let e = self.not_given(w);
                    self.public(e, out);
                }
            }
        }
        let mut i = 0;
        while let Some(&(label, w)) = self.v(v).arcs.get(i) {
            i += 1;
            if label.is_let() || self.v(w).arc == ArcKind::Optional {
                continue;
            }
            if self.v(w).arc == ArcKind::Required {
                if (!concrete || schema) && self.final_error(w).is_some() {
                    self.collect(w, false, schema, out);
                }
                continue;
            }
            let schema = schema || label.is_def() || label.is_hidden();
            self.collect(w, concrete, schema, out);
        }
    }

    /// The concrete value of a vertex, defaults taken.
    pub(crate) fn value_of(&mut self, v: Vid) -> Result<Value, ErrId> {
        self.make(v)
    }

    fn make<M: Make>(&mut self, v: Vid) -> Result<M, ErrId> {
        // Most leaves.
        let vertex = self.v(v);
        if vertex.is_leaf()
            && vertex.error.is_none()
            && vertex.incomplete.is_none()
            && vertex.atom.is_atom()
        {
            let atom = vertex.atom.clone();
            return self.make_val(&atom, v);
        }
        self.enter()?;
        let result = self.make_inner(v);
        self.leave();
        result
    }

    fn make_inner<M: Make>(&mut self, v: Vid) -> Result<M, ErrId> {
        let vertex = self.v(v);
        if let Some(e) = vertex.error {
            return Err(e);
        }
        self.settle(v);
        let origin = self.deref(v);
        let v = self.chosen(v);
        if let Some(extra) = &self.v(origin).extra
            && v == origin
            && let Some(alt) = self.default_of(origin)
        {
            let _ = extra;
            return match alt {
                Val::Node(w) => self.make(w),
                val => self.make_val(&val, origin),
            };
        }
        self.settle(v);
        let v = self.deref(v);
        let vertex = self.v(v);
        if let Some(e) = vertex.error {
            return Err(e);
        }
        if vertex.extra.as_ref().is_some_and(|x| !x.alts.is_empty()) {
            return Err(self.err(Class::Incomplete, crate::eval::incomplete(), v));
        }
        if vertex.atom.is_atom() {
            let atom = vertex.atom.clone();
            if let Some(e) = vertex.incomplete {
                return Err(e);
            }
            self.check_given(v)?;
            return self.make_val(&atom, v);
        }
        if let Some(e) = vertex.incomplete {
            return Err(e);
        }
        if vertex.is_list {
            self.check_closed(v);
            self.check_given(v)?;
            let mut out = Vec::with_capacity(self.v(v).arcs.len());
            let mut i = 0;
            while let Some(&(label, w)) = self.v(v).arcs.get(i) {
                i += 1;
                if label.is_int() {
                    out.push(self.make(w)?);
                }
            }
            self.charge_output(16)?;
            self.hold_made(out.capacity() * size_of::<M>())?;
            return Ok(M::list(out));
        }
        if vertex.is_struct {
            self.check_closed(v);
            let mut out = M::fields(self.v(v).arcs.len());
            // Order shows where a function makes a text of the value.
            let order = self.s.ordered.then(|| self.ordered_arcs(v));
            let mut i = 0;
            while let Some((label, w)) = match &order {
                Some(order) => order.get(i).copied(),
                None => self.v(v).arcs.get(i).copied(),
            } {
                i += 1;
                if label.is_let() {
                    continue;
                }
                match self.v(w).arc {
                    ArcKind::Optional => continue,
                    // Whoever only sees regular fields misses no other.
                    ArcKind::Required if self.s.visible && !label.is_string() => continue,
                    ArcKind::Required => return Err(self.not_given(w)),
                    ArcKind::Member => {}
                }
                if !label.is_string() {
                    continue;
                }
                let value = self.make(w).map_err(|e| self.required_before(v, e))?;
                let name = self.name(label).clone();
                self.hold_made(FIELD + name.len())?;
                self.charge_output(name.len() as u64 + 4)?;
                M::insert(&mut out, name, value);
            }
            return Ok(M::structure(out));
        }
        if let Some(atom) = crate::eval::pinned(vertex.kind, &vertex.checks) {
            return self.make_val(&atom, v);
        }
        Err(self.err(Class::Incomplete, crate::eval::incomplete(), v))
    }

    /// The definitions and hidden fields next to a scalar or list are given if they are required. A function is given the
    /// scalar or list alone.
    fn check_given(&mut self, v: Vid) -> Result<(), ErrId> {
        if self.s.ordered {
            return Ok(());
        }
        let required = |(label, w): &&(Label, Vid)| {
            !label.is_int() && !label.is_let() && self.v(*w).arc == ArcKind::Required
        };
        let missing = self.v(v).arcs.iter().find(required).map(|(_, w)| *w);
        missing.map_or(Ok(()), |w| Err(self.not_given(w)))
    }

    fn not_given(&mut self, w: Vid) -> ErrId {
        self.err(Class::Incomplete, crate::eval::text("field is required but not present"), w)
    }

    /// What is required of a struct counts before what its fields wait for.
    fn required_before(&mut self, v: Vid, e: ErrId) -> ErrId {
        if !self.is_incomplete(e) {
            return e;
        }
        let required = self
            .v(v)
            .arcs
            .iter()
            .find(|(label, w)| self.v(*w).arc == ArcKind::Required && !label.is_let());
        required.map(|(_, w)| *w).map_or(e, |w| self.not_given(w))
    }

    fn make_val<M: Make>(&mut self, val: &Val, at: Vid) -> Result<M, ErrId> {
        match val {
            Val::Node(w) => self.make(*w),
            val => self.value_of_val(val, at).map(M::scalar),
        }
    }

    fn charge_output(&mut self, n: u64) -> Result<(), ErrId> {
        self.s.output = self.s.output.saturating_add(n);
        if self.s.output > self.s.budget.limits().output {
            return Err(self.limit(LimitError::Output));
        }
        Ok(())
    }

    /// Counts what an exported value takes: it is built beside everything else.
    fn hold_made(&mut self, bytes: usize) -> Result<(), ErrId> {
        self.s.budget.bytes(bytes as u64).map_err(|limit| self.limit(limit))
    }

    pub(crate) fn value_of_val(&mut self, val: &Val, at: Vid) -> Result<Value, ErrId> {
        self.charge_output(8)?;
        Ok(match val {
            Val::Null => Value::Null,
            Val::Bool(b) => Value::Bool(*b),
            Val::Int(i) => Value::Number(Number::from(*i)),
            Val::Num(n) => {
                // Who writes it needs time by the square of its digits.
                self.pay_digits(val)?;
                self.charge_output(n.whole_words() * 19)?;
                Value::Number(n.clone())
            }
            Val::Str(s) => {
                self.charge_output(s.len() as u64)?;
                Value::String(s.clone())
            }
            Val::Bytes(b) => {
                self.charge_output(b.len() as u64)?;
                Value::Bytes(std::sync::Arc::clone(b))
            }
            Val::Node(w) => return self.value_of(*w),
            Val::All(list) => match crate::eval::pinned(self.val_kind(val), list) {
                Some(atom) => return self.value_of_val(&atom, at),
                None => return Err(self.err(Class::Incomplete, crate::eval::incomplete(), at)),
            },
            _ => return Err(self.err(Class::Incomplete, crate::eval::incomplete(), at)),
        })
    }

    /// A scalar as CUE writes it.
    pub(crate) fn val_text(&self, val: &Val) -> String {
        self.val_shown(val, &mut Room::default())
    }

    /// A short text of a computed vertex.
    pub(crate) fn show(&self, v: Vid) -> String {
        self.shown(v, &mut Room::default())
    }

    fn val_shown(&self, val: &Val, room: &mut Room) -> String {
        match val {
            Val::Top => "_".into(),
            Val::Null => "null".into(),
            Val::Bool(b) => b.to_string(),
            Val::Int(i) => i.to_string(),
            Val::Num(n) => {
                let digits = usize::try_from(n.whole_words() * 19).unwrap_or(usize::MAX);
                if digits > room.text {
                    return "...".into();
                }
                room.text -= digits;
                n.to_string()
            }
            Val::Str(s) => {
                let (text, more) = room.cut(s);
                format!("{}{more}", quote(text))
            }
            Val::Bytes(b) => {
                let shown = b.len().min(room.text);
                room.text -= shown;
                let more = if shown < b.len() { "..." } else { "" };
                format!("{}{more}", quote_bytes(b.get(..shown).unwrap_or_default()))
            }
            Val::Kind(k) => k.to_string(),
            Val::Bound(op, x) => format!("{}{}", op.text(), self.val_shown(x, room)),
            Val::Validator(x) => self.ir.text(x.expr).to_owned(),
            Val::All(list) => {
                let parts: Vec<_> = list.iter().map(|x| self.val_shown(x, room)).collect();
                parts.join(" & ")
            }
            Val::CoreFunc(f) => f.name().into(),
            Val::Node(w) => self.shown(*w, room),
        }
    }

    fn shown(&self, v: Vid, room: &mut Room) -> String {
        if room.depth == Room::DEEPEST || room.left == 0 {
            return "...".into();
        }
        room.depth += 1;
        room.left -= 1;
        let text = self.shown_whole(v, room);
        room.depth -= 1;
        text
    }

    fn shown_whole(&self, v: Vid, room: &mut Room) -> String {
        let mut v = v;
        while let Forward::Share(w) | Forward::Chosen(w) = self.v(v).forward {
            v = w;
        }
        let vertex = self.v(v);
        if let Some(extra) = &vertex.extra
            && !extra.alts.is_empty()
        {
            let parts: Vec<_> = extra
                .alts
                .iter()
                .map(|a| {
                    let star = if a.mode == crate::eval::Mode::Default { "*" } else { "" };
                    let text = match &a.val {
                        Val::Node(_) if room.depth > Room::DEPTH => "{...}".into(),
                        val => self.val_shown(val, room),
                    };
                    format!("{star}{text}")
                })
                .collect();
            return parts.join(" | ");
        }
        if vertex.atom.is_atom() {
            return self.val_shown(&vertex.atom, room);
        }
        if room.depth > Room::DEPTH {
            return "...".into();
        }
        if vertex.is_list {
            let parts: Vec<_> = vertex.arcs.iter().map(|(_, w)| self.shown(*w, room)).collect();
            return format!("[{}]", parts.join(","));
        }
        if vertex.is_struct {
            let parts: Vec<_> = vertex
                .arcs
                .iter()
                .filter(|(l, _)| !l.is_let())
                .map(|(l, w)| {
                    let mark = match self.v(*w).arc {
                        ArcKind::Member => "",
                        ArcKind::Optional => "?",
                        ArcKind::Required => "!",
                    };
                    format!("{}{mark}:{}", self.label_text(*l), self.shown(*w, room))
                })
                .collect();
            return format!("{{{}}}", parts.join(","));
        }
        if vertex.error.is_some() {
            return "_|_".into();
        }
        self.val_shown(&self.scalar_val(v), room)
    }

    /// A conjunct as the source has it.
    pub(crate) fn conj_text(&self, conj: crate::eval::Conj) -> String {
        use crate::eval::{Data, Src};
        match conj.src {
            Src::Expr(e) => self.expr_text(e),
            Src::Data(d) => match &self.s.data[d.idx()] {
                Data::Val(val) => self.val_text(val),
                Data::List(..) | Data::OpenList(..) => "[...]".into(),
                Data::Struct(..) | Data::Unify(..) | Data::Choice(..) => "{...}".into(),
                Data::Node(w) => self.show(*w),
            },
            Src::Node(w) => self.show(w),
            Src::Val(i) => self.val_text(&self.s.vals[i as usize]),
        }
    }

    fn expr_text(&self, e: ExprId) -> String {
        match self.ir.expr(e) {
            Expr::Null
            | Expr::Bool(_)
            | Expr::Int(_)
            | Expr::Num(_)
            | Expr::Str(_)
            | Expr::Bytes(_)
            | Expr::Kind(_) => self.val_text(&self.literal(e)),
            _ => self.ir.text(e).split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}
