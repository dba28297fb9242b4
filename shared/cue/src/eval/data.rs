//! What an evaluation is made of: vertices, conjuncts, values, requirements and errors, as plain data.

use crate::error::Class;
use crate::ir::{BuiltinId, CompId, Core, DynamicDecl, ExprId, ListId, Marker, PatternDecl};
use crate::kind::Kind;
use crate::label::Label;
use crate::limits::LimitError;
use crate::value::Number;
use cue_syntax::ast::UnaryOp;
use ecow::EcoString;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

macro_rules! ids {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);
        impl $name {
            pub(crate) const fn idx(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! { Vid EnvId DataId RefsId }

macro_rules! optional_ids {
    ($($name:ident)*) => {$(
        impl $name {
            pub(crate) const NONE: Self = Self(u32::MAX);
            pub(crate) const fn is_none(self) -> bool { self.0 == u32::MAX }
        }
    )*};
}

optional_ids! { Vid EnvId RefsId }

/// A value as expressions see it. Structs, lists and undecided disjunctions are nodes.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Top,
    Null,
    Bool(bool),
    Int(i64),
    Num(Number),
    Str(EcoString),
    Bytes(Arc<[u8]>),
    Kind(Kind),
    /// `>=5`, `!="a"`, `=~"^a"`
    Bound(UnaryOp, Arc<Self>),
    /// A builtin that constrains the value it is unified with.
    Validator(Arc<Validator>),
    /// A kind together with bounds and validators.
    All(Arc<Vec<Self>>),
    CoreFunc(Core),
    Node(Vid),
}

/// A builtin waiting for its first argument.
#[derive(Debug)]
pub(crate) struct Validator {
    pub(crate) func: Func,
    pub(crate) args: Vec<Val>,
    /// The call or name in the source.
    pub(crate) expr: ExprId,
    pub(crate) env: EnvId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Func {
    Core(Core),
    Std(BuiltinId),
}

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
pub(crate) const CYCLIC: u8 = 1;
/// The conjunct is embedded in a struct.
pub(crate) const EMBED: u8 = 2;
/// The conjunct was reached through a pattern, which grants one more round in a circle.
pub(crate) const OPTIONAL: u8 = 8;
/// That round has been taken.
pub(crate) const AGAIN: u8 = 16;
/// The conjunct belongs to a struct built inside an expression.
pub(crate) const INLINE: u8 = 32;
/// The conjunct has waited until the others were distributed.
pub(crate) const LATE: u8 = 64;
/// What fields inherit.
pub(crate) const CYCLE_FLAGS: u8 = CYCLIC | OPTIONAL | AGAIN | INLINE;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conj {
    pub(crate) src: Src,
    pub(crate) env: EnvId,
    pub(crate) close: CloseId,
    pub(crate) refs: RefsId,
    pub(crate) flags: u8,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    New,
    Expanding,
    Expanded,
    Settling,
    Settled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deep {
    No,
    Running,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArcKind {
    Member,
    Required,
    Optional,
}

impl From<Marker> for ArcKind {
    fn from(marker: Marker) -> Self {
        match marker {
            Marker::Regular => Self::Member,
            Marker::Required => Self::Required,
            Marker::Optional => Self::Optional,
        }
    }
}

/// How a vertex stands in for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    No,
    /// It is just a reference to that vertex.
    Share(Vid),
    /// Its disjunctions have been resolved to that vertex.
    Chosen(Vid),
}

/// Default marks of alternatives; combining is `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Maybe,
    Default,
    Not,
}

#[derive(Clone, Debug)]
pub(crate) struct Alt {
    pub(crate) val: Val,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskKind {
    /// A conjunct that must be evaluated.
    Expr,
    Comp(CompId),
    Dynamic(DynamicDecl),
    List(ListId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Pending,
    Running,
    Done,
    Failed(ErrId),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) kind: TaskKind,
    pub(crate) conj: Conj,
    pub(crate) state: TaskState,
}

/// Alternatives met while expanding a vertex.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) key: (Src, u16),
    pub(crate) conj: Conj,
    /// Alternatives of `or([...])`; else the conjunct is a disjunction expression.
    pub(crate) nodes: Option<Arc<Vec<Vid>>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) decl: PatternDecl,
    pub(crate) env: EnvId,
    pub(crate) conj: Conj,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRest {
    pub(crate) from: u32,
    pub(crate) conj: Option<Conj>,
}

/// A path.
pub(crate) type Labels = SmallVec<[Label; 2]>;

/// What only some vertices have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) tasks: Vec<Task>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) disjs: Vec<Occurrence>,
    pub(crate) seen: Vec<(Src, EnvId)>,
    pub(crate) followed: Vec<(Vid, CloseId, u8)>,
    /// Chosen alternatives of a candidate.
    pub(crate) choices: Vec<((Src, u16), u32)>,
    pub(crate) alts: Vec<Alt>,
    pub(crate) reqs: SmallVec<[Req; 2]>,
    pub(crate) opens: SmallVec<[CloseId; 2]>,
    /// Where structs and lists came through, as long as something closes: what closes nothing but
    /// `_` allows anything.
    pub(crate) literals: SmallVec<[CloseId; 2]>,
    /// Closedness does not count here and below: the struct was built to select from it.
    pub(crate) opened: bool,
    /// Something that is part of the struct has gone through its fields: there must not be more.
    pub(crate) frozen: bool,
    pub(crate) rests: Vec<ListRest>,
    pub(crate) cyclic: Vec<(Conj, Vid)>,
    /// Candidate being evaluated in this vertex's place.
    pub(crate) active: Option<Vid>,
    pub(crate) index: Option<FxHashMap<Label, u32>>,
    /// Default marks of the choices made, by disjunction.
    pub(crate) modes: Vec<((Src, u16), Mode)>,
    pub(crate) child_error: Option<ErrId>,
    pub(crate) child_incomplete: Option<ErrId>,
    /// Data to be put at paths below.
    pub(crate) inputs: Vec<(Labels, Conj)>,
}

impl Extra {
    /// Empties it for another vertex. False if something in it has grown too large to be kept.
    pub(crate) fn clear(&mut self) -> bool {
        const MOST: usize = 64;
        let Self {
            tasks,
            patterns,
            disjs,
            seen,
            followed,
            choices,
            alts,
            reqs,
            opens,
            literals,
            rests,
            cyclic,
            active,
            index,
            modes,
            child_error,
            child_incomplete,
            inputs,
            opened,
            frozen,
        } = self;
        let sizes = [tasks.capacity(), disjs.capacity(), followed.capacity(), alts.capacity()];
        let small = sizes.into_iter().all(|n| n <= MOST);
        tasks.clear();
        patterns.clear();
        disjs.clear();
        seen.clear();
        followed.clear();
        choices.clear();
        alts.clear();
        reqs.clear();
        opens.clear();
        literals.clear();
        rests.clear();
        cyclic.clear();
        *active = None;
        *index = None;
        modes.clear();
        *child_error = None;
        *child_incomplete = None;
        inputs.clear();
        *opened = false;
        *frozen = false;
        small
    }
}

#[derive(Debug)]
pub(crate) struct Vertex {
    pub(crate) parent: Vid,
    pub(crate) label: Label,
    pub(crate) arc: ArcKind,
    pub(crate) phase: Phase,
    pub(crate) deep: Deep,
    pub(crate) forward: Forward,
    pub(crate) depth: u32,
    pub(crate) kind: Kind,
    /// Struct or list for sure.
    pub(crate) is_struct: bool,
    /// Some struct literal that may turn out to be an embedded scalar.
    pub(crate) maybe_struct: bool,
    /// Some struct literal says `...`.
    pub(crate) says_open: bool,
    /// `_` is embedded: it stays undecided whether this is a struct.
    pub(crate) maybe_any: bool,
    pub(crate) is_list: bool,
    pub(crate) list_closed: bool,
    pub(crate) noncyclic: bool,
    pub(crate) any_cyclic: bool,
    /// Computed from partial knowledge: to be computed again.
    pub(crate) stale: bool,
    pub(crate) list_len: u32,
    pub(crate) conjs: SmallVec<[Conj; 2]>,
    pub(crate) arcs: Vec<(Label, Vid)>,
    pub(crate) atom: Val,
    pub(crate) checks: Vec<Val>,
    /// Final error of the vertex itself.
    pub(crate) error: Option<ErrId>,
    /// Incomplete error of the vertex itself.
    pub(crate) incomplete: Option<ErrId>,
    /// The conjunct that narrowed the kind first, for messages.
    pub(crate) witness: Option<Conj>,
    pub(crate) extra: Option<Box<Extra>>,
}

impl Vertex {
    /// Settled, with nothing below, no alternatives and nothing that stands for it.
    pub(crate) fn is_leaf(&self) -> bool {
        self.phase == Phase::Settled
            && self.forward == Forward::No
            && self.arcs.is_empty()
            && self.extra.is_none()
    }
}

impl Conj {
    pub(crate) fn new(src: Src, env: EnvId) -> Self {
        Self { src, env, close: CloseId::NONE, refs: RefsId::NONE, flags: 0 }
    }

    pub(crate) fn with(self, src: Src, env: EnvId) -> Self {
        Self { src, env, ..self }
    }

    /// The same context for a field: embedding is not inherited.
    pub(crate) fn field(self, src: Src, env: EnvId) -> Self {
        Self { src, env, flags: self.flags & CYCLE_FLAGS, ..self }
    }
}

impl Val {
    pub(crate) fn from_number(n: Number) -> Self {
        match n.as_i64() {
            Some(i) if n.is_int() => Self::Int(i),
            _ => Self::Num(n),
        }
    }

    /// The number of a numeric atom.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Int(i) => Some(Number::from(*i)),
            Self::Num(n) => Some(n.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_atom(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Bool(_)
                | Self::Int(_)
                | Self::Num(_)
                | Self::Str(_)
                | Self::Bytes(_)
                | Self::CoreFunc(_)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CloseId(pub(crate) u32);

impl CloseId {
    pub(crate) const NONE: Self = Self(u32::MAX);
    pub(crate) const fn is_none(self) -> bool {
        self.0 == u32::MAX
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
}

/// A requirement of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Req {
    /// The occurrence; none for a definition itself, whose conjuncts are all its own.
    pub(crate) id: CloseId,
    /// Also for the fields below.
    pub(crate) recursive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ErrId(pub(crate) u32);

pub(crate) type Res<T> = Result<T, ErrId>;

#[derive(Clone, Debug)]
pub(crate) enum Msg {
    Text(String),
    /// `undefined field: x`, and where it was looked for.
    Undefined(Label, Vid),
    /// `cannot reference optional field: x`
    CannotReference(Label),
    /// `unresolved disjunction`, the text made from the vertex.
    Unresolved,
    /// `non-concrete value string in operand to +`
    NonConcrete(Kind, &'static str),
    /// `x: incomplete value string`, the text made from the vertex.
    Incomplete,
    /// `field not allowed`
    NotAllowed,
    /// `incompatible list lengths (1 and 2)`
    ListLengths(u32, u32),
    /// `explicit error (_|_ literal) in source`
    Bottom,
    StructuralCycle,
    Cycle(ExprId),
    /// The same, of a field that may yet come of what asks for it.
    Pending(ExprId),
    Limit(LimitError),
}

#[derive(Clone, Debug)]
pub(crate) struct Err {
    pub(crate) class: Class,
    pub(crate) msg: Msg,
    pub(crate) vertex: Vid,
    pub(crate) at: SmallVec<[ExprId; 2]>,
    /// The errors of the alternatives of a disjunction.
    pub(crate) causes: Vec<ErrId>,
}
