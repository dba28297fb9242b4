//! One evaluation: the arenas of vertices, environments, data and errors, and how they grow.
//!
//! Everything is an index into one of these arenas, so ids are small and copied freely, and an
//! evaluation is dropped at once. The arenas are measured now and then instead of counting each
//! element; what they do not hold (long texts, conjuncts beyond the second) is charged where it is
//! made. A limit that is crossed in between is noticed at the next step.

use super::data::{
    ArcKind, CloseNode, Conj, Data, DataId, Deep, Env, EnvId, Err, ErrId, Extra, Forward, Labels,
    Phase, Refs, RefsId, Src, Val, Vertex, Vid,
};
use super::spare::Parts;
use crate::ir::{ExprId, Ir};
use crate::kind::Kind;
use crate::label::{Interner, Label, LabelKind};
use crate::limits::{Budget, Limits};
use crate::tree::{LabelClass, PathLabel, Tree};
use crate::value::Value;
use ecow::EcoString;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Everything one evaluation allocates; dropped at once.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) budget: Budget,
    /// Names that the program does not have.
    pub(crate) names: Interner,
    pub(crate) vertices: Vec<Vertex>,
    /// Frames: what a reference counts outwards.
    pub(crate) envs: Vec<Env>,
    /// Chains of references that were followed; a conjunct knows the end of its chain.
    pub(crate) refs: Vec<Refs>,
    pub(crate) data: Vec<Data>,
    /// What reading YAML gives where there is none, once it is used.
    pub(crate) no_document: Option<DataId>,
    /// Elements and fields of injected data; a list or struct is a range of them.
    pub(crate) items: Vec<(Label, DataId)>,
    /// Items of the lists and structs that are being read.
    pub(crate) open_items: Vec<(Label, DataId)>,
    /// Computed values that are conjuncts.
    pub(crate) vals: Vec<Val>,
    pub(crate) errs: Vec<Err>,
    /// Occurrences that close: see `closed.rs`.
    pub(crate) close: Vec<CloseNode>,
    /// Parts of vertices to be used again.
    pub(crate) parts: Parts,
    /// The vertex of each imported package, once it is used.
    pub(crate) packages: Vec<Vid>,
    /// Embeddings of a vertex's own fields, to be followed when all its conjuncts are distributed.
    pub(crate) late: Vec<(Vid, Conj)>,
    /// Lets by the frame they belong to.
    pub(crate) lets: FxHashMap<(EnvId, Label), Vid>,
    /// Levels of evaluation that have been entered and not left.
    pub(crate) depth: u32,
    /// Least depth of a vertex whose unfinished state was looked at.
    pub(crate) touch: u32,
    /// The depth at which somebody began to look at a structure as a whole.
    pub(crate) min_unfinished_depth: u32,
    /// Values are made with their fields in the order of the source.
    pub(crate) ordered: bool,
    /// Values are made of regular fields: what is required of others does not matter.
    pub(crate) visible: bool,
    /// The vertex of which a task is running.
    pub(crate) at: Vid,
    /// A comprehension could not be decided when it was tried.
    pub(crate) undecided: bool,
    /// The reference being followed is an element of a list that is built inside an expression.
    pub(crate) in_list: bool,
    /// A structure being computed turned out to contain itself.
    pub(crate) into_itself: bool,
    /// The vertex of which no name can be computed without knowing its other names.
    pub(crate) naming: Vid,
    /// The vertex of which a name is being computed.
    pub(crate) named: Vid,
    /// How many fields that are not there are being compared, each in the one before.
    pub(crate) comparing: u32,
    /// The error of a clause that has taken a required field for absent: what its body adds is judged, but
    /// nobody knows whether it is to be added.
    pub(crate) not_given: Option<ErrId>,
    /// Whether there has been such an error.
    pub(crate) any_not_given: bool,
    /// What a clause has taken for absent although its own body may add it.
    pub(crate) assumed: Option<Assumed>,
    /// References behind the conjunct being evaluated.
    pub(crate) cur_refs: RefsId,
    /// Compiled patterns.
    pub(crate) regexps: FxHashMap<EcoString, Arc<vela_gocompat::regexp::Matcher>>,
    /// Bytes that they take.
    pub(crate) of_regexps: u64,
    /// Literals that are being put together because a validator is given them.
    pub(crate) schemas: Vec<ExprId>,
    /// Validators at work: the value they look at must not be validated by them once more.
    pub(crate) validating: Vec<(ExprId, Val)>,
    /// Bytes exported so far.
    pub(crate) output: u64,
}

impl State {
    pub(crate) fn new(ir: &Ir, limits: &Limits) -> Self {
        let mut state = Self {
            budget: Budget::new(limits),
            names: Interner::extending(&ir.names),
            vertices: Vec::new(),
            // Names of the program keep their numbers, so a label is the same whether the program
            // or the data brought it.
            envs: Vec::new(),
            refs: Vec::new(),
            data: Vec::new(),
            no_document: None,
            items: Vec::new(),
            open_items: Vec::new(),
            vals: Vec::new(),
            errs: Vec::new(),
            close: Vec::new(),
            parts: Parts::default(),
            // A package becomes a vertex when something of it is first used.
            packages: vec![Vid::NONE; ir.packages.len()],
            late: Vec::new(),
            lets: FxHashMap::default(),
            depth: 0,
            touch: u32::MAX,
            min_unfinished_depth: 0,
            at: Vid::NONE,
            undecided: false,
            in_list: false,
            into_itself: false,
            naming: Vid::NONE,
            named: Vid::NONE,
            comparing: 0,
            not_given: None,
            any_not_given: false,
            assumed: None,
            ordered: false,
            visible: false,
            cur_refs: RefsId::NONE,
            regexps: FxHashMap::default(),
            of_regexps: 0,
            schemas: Vec::new(),
            validating: Vec::new(),
            output: 0,
        };
        // Arenas come from the last evaluation on this thread (`spare.rs`).
        state.reuse();
        state
    }

    /// Bytes of the arenas, and of the largest.
    pub(crate) fn held(&self) -> (u64, u64) {
        fn of<T>(arena: &Vec<T>) -> u64 {
            (arena.capacity() * size_of::<T>()) as u64
        }
        // A table has more places than entries.
        let lets = (self.lets.capacity() * size_of::<((EnvId, Label), Vid)>() * 2) as u64;
        let arenas = [
            of(&self.vertices),
            of(&self.envs),
            of(&self.refs),
            of(&self.data),
            of(&self.items),
            of(&self.open_items),
            of(&self.vals),
            of(&self.errs),
            of(&self.close),
            self.names.held(),
            lets,
        ];
        (arenas.into_iter().sum(), arenas.into_iter().max().unwrap_or(0))
    }
}

/// How often (in elements) an arena that grows has all of them measured.
const MEASURE_EVERY: usize = 1024;

/// What a clause has taken for absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed {
    /// Of the selections that are tested the one that found nothing.
    pub(crate) at: ExprId,
    /// The whole test, if that is a field which is named as such: it is asked again when the body has been added.
    pub(crate) asked: Option<(ExprId, EnvId)>,
}

/// An evaluation at work: the program and its state.
pub(crate) struct Machine<'a> {
    pub(crate) ir: &'a Ir,
    pub(crate) s: &'a mut State,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(ir: &'a Ir, s: &'a mut State) -> Self {
        Self { ir, s }
    }

    /// The vertex with this id. Ids come from [`new_vertex`](Self::new_vertex) only, so the index
    /// exists.
    #[inline]
    pub(crate) fn v(&self, v: Vid) -> &Vertex {
        &self.s.vertices[v.idx()]
    }

    /// The same to change it.
    #[inline]
    pub(crate) fn vm(&mut self, v: Vid) -> &mut Vertex {
        &mut self.s.vertices[v.idx()]
    }

    /// What only some vertices have. It is allocated when first asked for: most vertices never need
    /// it.
    pub(crate) fn extra(&mut self, v: Vid) -> &mut Extra {
        let State { vertices, parts, budget, .. } = &mut *self.s;
        let extra = &mut vertices[v.idx()].extra;
        if extra.is_none() {
            // A crossed limit is noticed at the next step.
            let _ = budget.bytes(size_of::<Extra>() as u64 + 256);
        }
        extra.get_or_insert_with(|| parts.extra())
    }

    /// Takes note of what the arenas take; a crossed limit is noticed at the next step.
    #[cold]
    pub(crate) fn measure(&mut self) {
        let (arenas, largest) = self.s.held();
        let _ = self.s.budget.measured(arenas, largest);
    }

    /// A vertex without conjuncts. It is no field of `parent` yet: [`push_arc`](Self::push_arc)
    /// makes it one, and a vertex in the middle of an expression never becomes one.
    pub(crate) fn new_vertex(&mut self, parent: Vid, label: Label) -> Vid {
        // `u32::MAX` stands for "none". The memory budget ends an evaluation long before it has so
        // many vertices.
        let id = Vid(u32::try_from(self.s.vertices.len()).unwrap_or(u32::MAX - 1));
        // Its place in the list of fields, which grows by doubling; the arena is measured. A
        // crossed limit is noticed at the next step.
        let _ = self.s.budget.bytes(64);
        if self.s.vertices.len() % MEASURE_EVERY == MEASURE_EVERY - 1 {
            self.measure();
        }
        self.s.vertices.push(Vertex {
            parent,
            label,
            arc: ArcKind::Member,
            phase: Phase::New,
            deep: Deep::No,
            forward: Forward::No,
            depth: u32::MAX,
            kind: Kind::TOP,
            is_struct: false,
            maybe_struct: false,
            maybe_any: false,
            says_open: false,
            of_def: false,
            is_list: false,
            list_closed: false,
            noncyclic: false,
            any_cyclic: false,
            stale: false,
            list_len: 0,
            conjs: SmallVec::new(),
            arcs: Vec::new(),
            atom: Val::Top,
            checks: Vec::new(),
            error: None,
            incomplete: None,
            witness: None,
            extra: None,
        });
        id
    }

    /// A frame for what is evaluated inside of `vertex`; `key` is the label that loops and patterns
    /// bind.
    pub(crate) fn new_env(&mut self, up: EnvId, vertex: Vid, key: Label) -> EnvId {
        let id = EnvId(u32::try_from(self.s.envs.len()).unwrap_or(u32::MAX - 1));
        self.s.envs.push(Env { up, vertex, key });
        id
    }

    /// Whether two frames are those of one literal in one place: a literal that is distributed to a vertex twice
    /// has a frame each time.
    pub(crate) fn is_same_env(&self, mut a: EnvId, mut b: EnvId) -> bool {
        while a != b {
            if a.is_none() || b.is_none() {
                return false;
            }
            let (of_a, of_b) = (self.s.envs[a.idx()], self.s.envs[b.idx()]);
            if of_a.vertex != of_b.vertex || of_a.key != of_b.key {
                return false;
            }
            (a, b) = (of_a.up, of_b.up);
        }
        true
    }

    /// The frame `up` levels out.
    pub(crate) fn env_up(&self, mut env: EnvId, up: u32) -> Env {
        for _ in 0..up {
            env = self.s.envs[env.idx()].up;
        }
        self.s.envs[env.idx()]
    }

    /// A let of the frame `up` levels out.
    pub(crate) fn let_vertex(&mut self, mut env: EnvId, up: u32, label: Label) -> Vid {
        for _ in 0..up {
            env = self.s.envs[env.idx()].up;
        }
        // A let is evaluated once for each frame, however often it is referred to.
        if let Some(&v) = self.s.lets.get(&(env, label)) {
            return v;
        }
        // Its parent is the struct of the frame, so that a let which refers to that struct is seen
        // to lie inside of it.
        let v = self.new_vertex(self.s.envs[env.idx()].vertex, label);
        if let Some(&value) = self.ir.lets.get(&label) {
            self.vm(v).conjs.push(Conj::new(Src::Expr(value), env));
        }
        self.s.lets.insert((env, label), v);
        v
    }

    /// A computed value as the source of a conjunct.
    pub(crate) fn new_val(&mut self, val: Val) -> Src {
        self.s.vals.push(val);
        Src::Val(u32::try_from(self.s.vals.len() - 1).unwrap_or(u32::MAX))
    }

    /// The text of a label, from the program or from the names that the data brought.
    pub(crate) fn name(&self, label: Label) -> &EcoString {
        let index = label.index();
        if self.s.names.owns(index) { self.s.names.name(index) } else { self.ir.names.name(index) }
    }

    /// The label of a regular field.
    pub(crate) fn string_label(&mut self, name: &str) -> Label {
        // A name that the program knows keeps its number: data and program then agree on the label.
        let index = match self.ir.names.find(name) {
            Some(index) => index,
            None => {
                let (index, held) = self.s.names.intern_held(name);
                let _ = self.s.budget.bytes(held);
                index
            }
        };
        Label::new(index, LabelKind::String)
    }

    /// A label for names with `#` and `_` prefixes, as in paths.
    pub(crate) fn ident_label(&mut self, name: &str) -> Label {
        let kind = if name.starts_with("_#") {
            LabelKind::HiddenDef
        } else if name.starts_with('#') {
            LabelKind::Def
        } else if name.starts_with('_') {
            LabelKind::Hidden
        } else {
            LabelKind::String
        };
        Label::new(self.string_label(name).index(), kind)
    }

    /// Puts data at a path, beside what the program says.
    pub(crate) fn add_input(&mut self, root: Vid, path: Labels, data: DataId) {
        let conj = Conj::new(Src::Data(data), EnvId::NONE);
        self.extra(root).inputs.push((path, conj));
    }

    /// Flattens data into the arena.
    pub(crate) fn add_data(&mut self, value: &Value) -> DataId {
        let data = match value {
            Value::Null => Data::Val(Val::Null),
            Value::Bool(b) => Data::Val(Val::Bool(*b)),
            Value::Number(n) => Data::Val(Val::from_number(n.clone())),
            Value::String(s) => Data::Val(Val::Str(s.clone())),
            Value::Bytes(b) => Data::Val(Val::Bytes(Arc::clone(b))),
            // Elements are collected on a stack first: those of a nested list come in between, and
            // a list is one unbroken range.
            Value::List(l) => {
                let mark = self.s.open_items.len();
                for (i, x) in l.iter().enumerate() {
                    let item = (Label::int(i), self.add_data(x));
                    self.s.open_items.push(item);
                }
                let (start, len) = self.close_items(mark);
                Data::List(start, len)
            }
            Value::Struct(s) => {
                // As for lists: nested fields come in between.
                let mark = self.s.open_items.len();
                for (k, x) in s {
                    let item = (self.string_label(k), self.add_data(x));
                    self.s.open_items.push(item);
                }
                let (start, len) = self.close_items(mark);
                Data::Struct(start, len)
            }
        };
        self.push_data(data)
    }

    /// Adds one piece of data. Its elements or fields are there already: see
    /// [`close_items`](Self::close_items).
    #[inline]
    pub(crate) fn push_data(&mut self, data: Data) -> DataId {
        // The arena is measured; a long text is held besides. A crossed limit is noticed at the
        // next step.
        if let Data::Val(Val::Str(text)) = &data
            && text.len() > EcoString::INLINE_LIMIT
        {
            let _ = self.s.budget.bytes(text.len() as u64);
        }
        let index = self.s.data.len();
        if index % MEASURE_EVERY == MEASURE_EVERY - 1 {
            self.measure();
        }
        self.s.data.push(data);
        DataId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Moves the items of a list or struct that is complete to where they stay.
    pub(crate) fn close_items(&mut self, mark: usize) -> (u32, u32) {
        let start = u32::try_from(self.s.items.len()).unwrap_or(u32::MAX);
        let len = u32::try_from(self.s.open_items.len() - mark).unwrap_or(u32::MAX);
        self.s.items.extend(self.s.open_items.drain(mark..));
        (start, len)
    }

    /// Flattens a tree of data and vertices.
    pub(crate) fn add_tree(&mut self, tree: &Tree) -> DataId {
        let data = match tree {
            Tree::Data(value) => return self.add_data(value),
            Tree::Node(node) => Data::Node(Vid(node.0)),
            Tree::Struct(fields) => {
                let items: Vec<_> =
                    fields.iter().map(|(k, x)| (self.string_label(k), self.add_tree(x))).collect();
                let (start, len) = self.add_items(&items);
                Data::Struct(start, len)
            }
            Tree::List(list, open) => {
                let (start, len) = self.add_trees(list);
                if *open { Data::OpenList(start, len) } else { Data::List(start, len) }
            }
            Tree::Unify(list) => {
                let (start, len) = self.add_trees(list);
                Data::Unify(start, len)
            }
        };
        self.s.data.push(data);
        DataId(u32::try_from(self.s.data.len() - 1).unwrap_or(u32::MAX))
    }

    fn add_trees(&mut self, list: &[Tree]) -> (u32, u32) {
        let items: Vec<_> =
            list.iter().enumerate().map(|(i, x)| (Label::int(i), self.add_tree(x))).collect();
        self.add_items(&items)
    }

    /// A step of a path that the caller gives as text.
    pub(crate) fn path_label(&mut self, label: &PathLabel) -> Label {
        match label {
            PathLabel::Index(i) => Label::int(*i),
            PathLabel::Name(name, LabelClass::Regular) => self.string_label(name),
            PathLabel::Name(name, _) => self.ident_label(name),
        }
    }

    /// A list of existing vertices as data.
    pub(crate) fn add_nodes(&mut self, nodes: &[Vid]) -> DataId {
        let items: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(i, w)| {
                self.s.data.push(Data::Node(*w));
                let id = DataId(u32::try_from(self.s.data.len() - 1).unwrap_or(u32::MAX));
                (Label::int(i), id)
            })
            .collect();
        let (start, len) = self.add_items(&items);
        self.s.data.push(Data::List(start, len));
        DataId(u32::try_from(self.s.data.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn add_items(&mut self, items: &[(Label, DataId)]) -> (u32, u32) {
        let start = u32::try_from(self.s.items.len()).unwrap_or(u32::MAX);
        self.s.items.extend_from_slice(items);
        (start, u32::try_from(items.len()).unwrap_or(u32::MAX))
    }

    /// The field or element with this label, if there is one so far.
    pub(crate) fn arc(&self, v: Vid, label: Label) -> Option<Vid> {
        let vertex = self.v(v);
        if label.is_int() {
            // Elements are inserted in order, so element i stands at i or, behind other arcs of a
            // list with fields, a little later; and never before.
            let from = vertex.arcs.get(label.index() as usize..)?;
            return from.iter().find(|(l, _)| *l == label).map(|(_, w)| *w);
        }
        // A struct with many fields has a table ([`push_arc`](Self::push_arc)).
        if let Some(index) = vertex.extra.as_ref().and_then(|x| x.index.as_ref()) {
            return index.get(&label).map(|&i| vertex.arcs[i as usize].1);
        }
        vertex.arcs.iter().find(|(l, _)| *l == label).map(|(_, w)| *w)
    }

    /// Makes `w` the field `label` of `v`. From `INDEX_FROM` fields on a table finds them; fewer
    /// are scanned.
    pub(crate) fn push_arc(&mut self, v: Vid, label: Label, w: Vid) {
        const INDEX_FROM: usize = 16;
        let State { vertices, parts, budget, .. } = &mut *self.s;
        let vertex = &mut vertices[v.idx()];
        if vertex.arcs.capacity() == 0 {
            vertex.arcs = parts.fields();
        }
        vertex.arcs.push((label, w));
        let n = vertex.arcs.len();
        if n < INDEX_FROM || label.is_int() {
            return;
        }
        let _ = budget.bytes(48);
        let extra = vertex.extra.get_or_insert_with(|| parts.extra());
        let index = extra.index.get_or_insert_default();
        // The table begins with all fields there are and then grows one by one.
        let from = if index.is_empty() { 0 } else { n - 1 };
        for (i, (l, _)) in vertex.arcs.iter().enumerate().skip(from) {
            index.insert(*l, u32::try_from(i).unwrap_or(u32::MAX));
        }
    }
}
