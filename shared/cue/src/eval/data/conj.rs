//! Conjuncts: what is said of a vertex, the frame it was written in, and how it came there.

use super::id::{CloseId, DataId, EnvId, RefsId, Vid};
use super::val::Val;
use super::vertex::ArcKind;
use crate::ir::ExprId;
use crate::label::Label;

/// Where a conjunct comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Src {
    Expr(ExprId),
    Data(DataId),
    /// The value of another vertex.
    Node(Vid),
    /// A computed value.
    Val(u32),
}

/// The conjunct was reached by following a reference in a circle.
pub(crate) const CYCLIC: u16 = 1;
/// The conjunct is embedded in a struct.
pub(crate) const EMBED: u16 = 2;
/// The conjunct came through a definition.
pub(crate) const OF_DEF: u16 = 4;
/// The conjunct was reached through a pattern, which grants one more round in a circle.
pub(crate) const OPTIONAL: u16 = 8;
/// That round has been taken.
pub(crate) const AGAIN: u16 = 16;
/// The conjunct belongs to a struct built inside an expression.
pub(crate) const INLINE: u16 = 32;
/// The conjunct has waited until the others were distributed.
pub(crate) const LATE: u16 = 64;
/// The embedding that the conjunct is part of has its id already: it may consist of several.
pub(crate) const PART: u16 = 128;
/// The conjunct is the body of a comprehension, or a field of it, however deep its literals nest.
pub(crate) const BODY: u16 = 256;
/// The field of a body, in the literal that it was written in, has no marker.
pub(crate) const DECLARED: u16 = 512;
/// It is a required one.
pub(crate) const NEEDED: u16 = 1024;
/// What belongs to a conjunct of a body as it is written there.
pub(crate) const OF_BODY: u16 = BODY | DECLARED | NEEDED;
/// What fields inherit.
pub(crate) const INHERITED: u16 = CYCLIC | OF_DEF | OPTIONAL | AGAIN | INLINE;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conj {
    pub(crate) src: Src,
    pub(crate) env: EnvId,
    pub(crate) close: CloseId,
    pub(crate) refs: RefsId,
    pub(crate) flags: u16,
}

/// A frame of the environment an expression is evaluated in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    pub(crate) up: EnvId,
    pub(crate) vertex: Vid,
    /// Of loops and patterns the label; the frame of a struct literal has the literal's number.
    pub(crate) key: Label,
}

/// References followed on the way to a conjunct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refs {
    pub(crate) expr: ExprId,
    pub(crate) target: Vid,
    pub(crate) node: Vid,
    pub(crate) next: RefsId,
}

/// Injected data, flattened.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Val(Val),
    List(u32, u32),
    OpenList(u32, u32),
    Struct(u32, u32),
    /// An existing vertex.
    Node(Vid),
    /// All of these at once.
    Unify(u32, u32),
    /// One of these, the first unless something else is said.
    Choice(u32, u32),
}

impl Conj {
    pub(crate) fn new(src: Src, env: EnvId) -> Self {
        Self { src, env, close: CloseId::NONE, refs: RefsId::NONE, flags: 0 }
    }

    pub(crate) fn with(self, src: Src, env: EnvId) -> Self {
        Self { src, env, ..self }
    }

    /// Whether it is embedded by itself, and not as a part of what is.
    pub(crate) fn is_embedding(self) -> bool {
        self.flags & (EMBED | PART) == EMBED
    }

    /// The same context for a field: embedding is not inherited.
    pub(crate) fn field(self, src: Src, env: EnvId) -> Self {
        Self { src, env, flags: self.flags & INHERITED, ..self }
    }

    /// The same for a field that a literal declares: what a comprehension declares remembers it.
    pub(crate) fn declared(self, kind: ArcKind, src: Src, env: EnvId) -> Self {
        let mut field = self.field(src, env);
        if self.flags & BODY != 0 {
            field.flags |= match kind {
                ArcKind::Member => BODY | DECLARED,
                ArcKind::Required => BODY | NEEDED,
                ArcKind::Optional => BODY,
            };
        }
        field
    }

    /// How a comprehension has declared the field that this is a conjunct of.
    pub(crate) fn declares(self) -> Option<ArcKind> {
        match self.flags & OF_BODY {
            0 | BODY => None,
            flags if flags & DECLARED != 0 => Some(ArcKind::Member),
            _ => Some(ArcKind::Required),
        }
    }
}

/// One occurrence: where it stands among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloseNode {
    pub(crate) parent: CloseId,
    /// Embedded in the struct literal that is the parent.
    pub(crate) embedded: bool,
    /// Neither this occurrence closes anything, nor one that it stands in.
    pub(crate) plain: bool,
    /// What a loop adds for one of several bindings; the parent is the loop.
    pub(crate) binding: bool,
    /// A literal that is written out.
    pub(crate) braces: bool,
}

/// Something that allows any field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) id: CloseId,
    /// It is a schema, which says what fields may be like, and not a `...`.
    pub(crate) schema: bool,
}

/// A requirement of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Req {
    /// The occurrence; none for a definition itself, whose conjuncts are all its own.
    pub(crate) id: CloseId,
    /// Also for the fields below.
    pub(crate) recursive: bool,
}
