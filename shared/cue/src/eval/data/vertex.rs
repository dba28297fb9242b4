//! Vertices: the phases they go through, and what is found out about them on the way.

use super::conj::{Conj, Opening, Req, Src};
use super::id::{CloseId, EnvId, ErrId, Vid};
use super::val::Val;
use crate::ir::{CompId, DynamicDecl, ExprId, ListId, Marker, PatternDecl};
use crate::kind::Kind;
use crate::label::Label;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

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

/// The mark of an alternative that was chosen, by disjunction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) key: (Src, u16),
    pub(crate) mode: Mode,
    /// The disjunction of which a chosen alternative brought this one.
    pub(crate) within: Option<(Src, u16)>,
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

impl ListRest {
    /// What is said of the elements; `...` alone says nothing, whatever closes them.
    pub(crate) fn constraint(&self) -> Option<Conj> {
        self.conj.filter(|conj| !matches!(conj.src, Src::Val(_)))
    }
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
    pub(crate) followed: Vec<(Vid, CloseId, u16)>,
    /// Chosen alternatives of a candidate.
    pub(crate) choices: Vec<((Src, u16), u32)>,
    pub(crate) alts: Vec<Alt>,
    pub(crate) reqs: SmallVec<[Req; 2]>,
    pub(crate) opens: SmallVec<[Opening; 2]>,
    /// Where structs and lists came through, as long as something closes: what closes nothing but
    /// `_` allows anything.
    pub(crate) literals: SmallVec<[CloseId; 2]>,
    /// Closedness does not count here and below: the struct was built to select from it.
    pub(crate) opened: bool,
    /// But in its alternatives: something is selected from the field itself.
    pub(crate) judged: bool,
    /// The atom is what the alternatives have left.
    pub(crate) picked: bool,
    /// Something that is part of the struct has gone through its fields: there must not be more.
    pub(crate) frozen: bool,
    /// A comprehension around the struct has gone through its fields or counted them: what that adds must not be
    /// one more.
    pub(crate) counted: bool,
    pub(crate) rests: Vec<ListRest>,
    pub(crate) cyclic: Vec<(Conj, Vid)>,
    /// Who took over the conjuncts before all of them were there, and how: the rest is handed on.
    pub(crate) followers: Vec<(Vid, Conj)>,
    /// Candidate being evaluated in this vertex's place.
    pub(crate) active: Option<Vid>,
    pub(crate) index: Option<FxHashMap<Label, u32>>,
    /// Default marks of the choices made.
    pub(crate) modes: Vec<Mark>,
    /// The circle of a guard that has declared what it took for absent.
    pub(crate) changed: Option<ErrId>,
    /// Fields that a guard has taken for absent whose body may add them by names yet to be computed.
    pub(crate) absent: Vec<(Label, ExprId)>,
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
            followers,
            active,
            index,
            modes,
            changed,
            absent,
            child_error,
            child_incomplete,
            inputs,
            opened,
            judged,
            picked,
            frozen,
            counted,
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
        followers.clear();
        *active = None;
        *index = None;
        modes.clear();
        *changed = None;
        absent.clear();
        *child_error = None;
        *child_incomplete = None;
        inputs.clear();
        *opened = false;
        *judged = false;
        *picked = false;
        *frozen = false;
        *counted = false;
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
    /// Some of its structs came through a definition.
    pub(crate) of_def: bool,
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
