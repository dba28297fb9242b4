//! The order in which fields are written: that of the source, as far as it says one.
//!
//! Every struct literal (and the data as a whole) asks for its fields in the order of the source.
//! Literals that stand one after the other follow each other; those that are unified explicitly, by
//! `&` or by one reference that brings several of them, do not. What is asked for is a graph, which
//! is sorted topologically; where it leaves the order open, or is circular, names decide.
//!
//! # A worked example
//!
//! ```cue
//! base: {b: 1, a: 2}
//! x: base & {a: int, c: 3}
//! x: d: 4
//! ```
//!
//! `x` is made up of three literals: `{b, a}` through the reference, `{a, c}`, and `{d}`. Each asks for its own order: `b` before
//! `a`, `a` before `c`. The first two are joined by `&` and say nothing about each other; the third stands after them in the
//! source, so it follows both: `a`, `b` and `c` come before `d`. The graph `b -> a -> c -> d` has one order. Were the
//! second literal `{c: 3}`, it would be open where `c` goes: of the fields that nothing holds back, the least name comes first, which
//! gives `b`, then `a`, then `c`, and `d` at last.

use super::data::{Conj, EnvId, Src, Vid};
use super::state::Machine;
use crate::ir::{Expr, ExprId, StructId};
use crate::label::{Label, LabelKind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Larger structs keep the order in which their fields were found.
const MOST: usize = 4096;

/// A place in the source: file and offset. Data come after the source, what functions made last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    At(u32, u32),
    Data,
    Unknown,
}

/// A struct literal as one of those that make up the struct.
#[derive(Debug)]
struct Literal {
    /// The literal in the program; none for data and for what functions made.
    id: Option<StructId>,
    /// Where it counts as written: see [`Machine::put_in_place`].
    place: Place,
    /// Its fields in the order of the source, as indices of arcs.
    fields: SmallVec<[(u32, usize); 2]>,
    /// Some of its fields have computed names.
    dynamic: bool,
    /// It is unified by `&`, or came with others by one reference: it does not follow what is
    /// written before it.
    explicit: bool,
}

/// A literal's frame, and whether its dynamic fields stand apart.
type Key = (u32, bool);

/// Literals by key, in order.
#[derive(Default)]
struct Found(Vec<(Key, Literal)>);

impl Found {
    fn find(&self, key: Key) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    fn get(&self, key: Key) -> Option<&Literal> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Literal> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// The literal with this key, made when its first field is found.
    fn get_or_insert(&mut self, key: Key, id: Option<StructId>) -> &mut Literal {
        let at = self.find(key).unwrap_or_else(|at| {
            let place = if key == (u32::MAX, false) { Place::Data } else { Place::Unknown };
            let fields = SmallVec::new();
            let literal = Literal { id, place, fields, dynamic: false, explicit: false };
            self.0.insert(at, (key, literal));
            at
        });
        &mut self.0[at].1
    }
}

impl Machine<'_> {
    /// The fields of a struct in the order in which they are written.
    pub(crate) fn ordered_arcs(&self, v: Vid) -> Vec<(Label, Vid)> {
        let arcs = &self.v(v).arcs;
        // Most structs are one literal or injected data, whose fields are in order as they are.
        let is_data = |(_, w): &(Label, Vid)| matches!(self.v(*w).conjs.as_slice(), [conj] if matches!(conj.src, Src::Data(_)));
        let found_in_order = self.is_one_literal(v) || arcs.iter().all(is_data);
        if arcs.len() < 2 || arcs.len() > MOST || found_in_order {
            return arcs.clone();
        }
        let mut literals = self.literals(v);
        // One literal has all fields: no graph is needed.
        if let [one] = literals.as_mut_slice()
            && let Some(order) = one.order_of_all(arcs.len())
        {
            return order.into_iter().map(|i| arcs[i]).collect();
        }
        literals.sort_by(|a, b| {
            // What has dynamic fields is gathered at the end.
            self.compare_places(a.place, b.place).then(a.dynamic.cmp(&b.dynamic))
        });
        if let Some(order) = chain(&literals, arcs.len()) {
            return order.into_iter().map(|i| arcs[i]).collect();
        }
        let edges = self.edges(&literals, arcs.len());
        let order = sorted(&edges, |i| self.name_of(arcs[i].0));
        order.into_iter().map(|i| arcs[i]).collect()
    }

    /// Whether the fields are those of one literal, in its order: what most structs are.
    fn is_one_literal(&self, v: Vid) -> bool {
        let vertex = self.v(v);
        let [Conj { src: Src::Expr(e), .. }] = vertex.conjs.as_slice() else { return false };
        let Expr::Struct(id) = self.ir.expr(*e) else { return false };
        let tmpl = &self.ir.structs[id.idx()];
        let nothing_else =
            tmpl.embeds().is_empty() && tmpl.comps().is_empty() && tmpl.dynamics().is_empty();
        nothing_else
            && tmpl.fields.len() == vertex.arcs.len()
            && tmpl.fields.iter().zip(&vertex.arcs).all(|(field, (label, _))| field.label == *label)
    }

    /// What fields are compared by where nothing else orders them.
    fn name_of(&self, label: Label) -> (u32, &str) {
        // Elements of a list come first.
        match label.is_int() {
            true => (label.index(), ""),
            false => (u32::MAX, self.name(label)),
        }
    }

    /// Where an expression stands in the source.
    fn place(&self, e: ExprId) -> Place {
        let (pos, _) = self.ir.pos[e.idx()];
        Place::At(pos.file.0, pos.start)
    }

    /// Within a file by offset, files by name. What has no position comes last.
    fn compare_places(&self, a: Place, b: Place) -> Ordering {
        let rank = |place| match place {
            Place::At(..) => 0,
            Place::Data => 1,
            Place::Unknown => 2,
        };
        match (a, b) {
            (Place::At(f, i), Place::At(g, j)) if f == g => i.cmp(&j),
            (Place::At(f, i), Place::At(g, j)) => {
                let name = |file: u32| self.ir.sources.get(file as usize).map(|s| &s.name);
                name(f).cmp(&name(g)).then(f.cmp(&g)).then(i.cmp(&j))
            }
            _ => rank(a).cmp(&rank(b)),
        }
    }

    /// The literals that gave the struct its fields, in the order in which they were met.
    fn literals(&self, v: Vid) -> Vec<Literal> {
        let arcs = &self.v(v).arcs;
        let patterns = self.v(v).extra.as_ref().map_or(&[][..], |x| &x.patterns);
        let (mut bodies, mut explicit) = (FxHashSet::default(), Explicit::default());
        // What is unified explicitly asks for no order among its operands.
        self.survey(v, &mut bodies, &mut explicit);
        let mut found = Found::default();
        let mut conjs: Vec<(Conj, Key)> = Vec::new();
        let mut known = Known::default();
        for (index, &(label, w)) in arcs.iter().enumerate() {
            if label.is_let() {
                continue;
            }
            let from = conjs.len();
            for conj in &self.v(w).conjs {
                // Data, and what functions made, have keys that no frame has.
                let (key, id, offset) = match conj.src {
                    Src::Data(_) => ((u32::MAX, false), None, u32::MAX),
                    Src::Node(_) | Src::Val(_) => ((u32::MAX, true), None, u32::MAX),
                    Src::Expr(e) => {
                        // Only the literals of this struct count: a frame of another struct, of a
                        // loop or of a pattern orders nothing here.
                        let frame = self.s.envs.get(conj.env.idx());
                        let Some(frame) = frame.filter(|f| {
                            f.vertex == v
                                && f.key.kind() == LabelKind::Int
                                && !patterns.iter().any(|p| p.decl.value == e)
                        }) else {
                            continue;
                        };
                        let id = StructId(frame.key.index());
                        let fields = &self.ir.structs[id.idx()].fields;
                        // A field may be given by several declarations of one literal.
                        let dynamic = !fields.iter().any(|f| f.value == e);
                        let apart = dynamic && bodies.contains(&id);
                        (
                            (self.first_like(conj.env, v, &mut known), apart),
                            Some(id),
                            self.ir.pos[e.idx()].0.start,
                        )
                    }
                };
                let literal = found.get_or_insert(key, id);
                if let (Some(id), Src::Expr(e)) = (id, conj.src) {
                    let dynamics = self.ir.structs[id.idx()].dynamics();
                    literal.dynamic |= dynamics.iter().any(|d| d.value == e);
                    // The same literal by another reference counts where it was met first.
                    let again = |(other, k): &(Conj, Key)| other.src == conj.src && *k == key;
                    if conjs[from..].iter().any(again) {
                        continue;
                    }
                    conjs.push((*conj, key));
                }
                literal.fields.push((offset, index));
            }
        }
        self.put_in_place(&mut found, &conjs, &explicit);
        let mut literals: Vec<Literal> = found.0.into_iter().map(|(_, literal)| literal).collect();
        for literal in &mut literals {
            literal.fields.sort_by_key(|(offset, _)| *offset);
        }
        literals
    }

    /// The first of the frames that are like this one.
    fn first_like(&self, env: EnvId, v: Vid, known: &mut Known) -> u32 {
        let Some(frame) = self.s.envs.get(env.idx()) else { return env.0 };
        // Neighbours come from the same frame, all from few frames further up.
        if let Some((_, first)) = known.frames.iter().rev().find(|(other, _)| *other == env) {
            return *first;
        }
        // Frames of other structs do not double.
        let up = match frame.vertex == v || frame.key != Label::NONE {
            true => self.first_like(frame.up, v, known),
            false => frame.up.0,
        };
        let first = *known.likes.entry((up, frame.vertex, frame.key)).or_insert(env.0);
        if known.frames.len() < MOST_KNOWN {
            known.frames.push((env, first));
        }
        first
    }

    /// A literal stands where its last field does, or where the reference stands that led to it
    /// first.
    fn put_in_place(&self, found: &mut Found, conjs: &[(Conj, Key)], explicit: &Explicit) {
        let mut by_struct: FxHashMap<StructId, SmallVec<[Key; 2]>> = FxHashMap::default();
        for (key, literal) in &found.0 {
            if let Some(id) = literal.id {
                by_struct.entry(id).or_default().push(*key);
            }
        }
        let mut by_reference: BTreeMap<ExprId, BTreeSet<Key>> = BTreeMap::new();
        let sources = conjs.iter().filter_map(|(conj, key)| {
            let Src::Expr(e) = conj.src else { return None };
            let id = found.get(*key).and_then(|literal| literal.id)?;
            Some((e, id, self.first_reference(conj)))
        });
        // The iterations of a loop give one literal in a row, and the last of them says where it stands.
        let mut rows: Vec<(ExprId, StructId, Option<ExprId>)> = Vec::new();
        for source in sources {
            match rows.last_mut() {
                Some(last) if (last.1, last.2) == (source.1, source.2) => *last = source,
                _ => rows.push(source),
            }
        }
        for (e, id, first) in rows {
            let Some(same) = by_struct.get(&id) else { continue };
            let place = self.place(e);
            for key in same {
                if let Some(literal) = found.get_mut(*key) {
                    literal.place = place;
                }
            }
            let Some(first) = first else { continue };
            let place = self.place(first);
            let led_to = by_reference.entry(first).or_insert_with(|| {
                // A literal that embeds the reference stands there, too.
                let embeds = |id: &StructId| self.ir.structs[id.idx()].embeds().contains(&first);
                let outer = by_struct.iter().filter(|(id, _)| embeds(id));
                outer.flat_map(|(_, keys)| keys.iter().copied()).collect()
            });
            led_to.extend(same.iter().copied());
            for key in &*led_to {
                if let Some(literal) = found.get_mut(*key) {
                    literal.place = place;
                }
            }
        }
        for (reference, keys) in by_reference {
            if explicit.references.contains(&reference) {
                for key in keys {
                    if let Some(literal) = found.get_mut(key) {
                        literal.explicit = true;
                    }
                }
            }
        }
        for (_, literal) in &mut found.0 {
            literal.explicit |= literal.id.is_some_and(|id| explicit.structs.contains(&id));
        }
    }

    /// The reference that began the chain to a conjunct: where somebody wrote its literal into the struct.
    fn first_reference(&self, conj: &Conj) -> Option<ExprId> {
        let mut at = conj.refs;
        let mut first = None;
        while !at.is_none() {
            let r = self.s.refs[at.idx()];
            first = Some(r.expr);
            at = r.next;
        }
        first
    }

    /// What is explicitly unified in the struct, and the bodies of its comprehensions.
    fn survey(&self, v: Vid, bodies: &mut FxHashSet<StructId>, explicit: &mut Explicit) {
        let mut structs: Vec<StructId> = Vec::new();
        let mut work: Vec<ExprId> = Vec::new();
        for conj in &self.v(v).conjs {
            if let Src::Expr(e) = conj.src {
                work.push(e);
            }
        }
        if let Some(extra) = &self.v(v).extra {
            for (w, ..) in &extra.followed {
                for conj in &self.v(*w).conjs {
                    // An `&` over there is none here; what its structs embed is.
                    if let Src::Expr(e) = conj.src
                        && let Expr::Struct(id) = self.ir.expr(e)
                    {
                        structs.push(id);
                    }
                }
            }
        }
        let mut seen: FxHashSet<StructId> = FxHashSet::default();
        while !work.is_empty() || !structs.is_empty() {
            while let Some(e) = work.pop() {
                match self.ir.expr(e) {
                    Expr::And(a, b) => {
                        for operand in [a, b] {
                            match self.ir.expr(operand) {
                                Expr::Struct(id) => {
                                    explicit.structs.insert(id);
                                }
                                _ => {
                                    explicit.references.insert(operand);
                                }
                            }
                            work.push(operand);
                        }
                    }
                    Expr::AliasScope(e) => work.push(e),
                    Expr::Struct(id) => structs.push(id),
                    _ => {}
                }
            }
            if let Some(id) = structs.pop()
                && seen.insert(id)
            {
                let tmpl = &self.ir.structs[id.idx()];
                work.extend(tmpl.embeds());
                for comp in tmpl.comps() {
                    let body = self.ir.comps[comp.idx()].body_expr;
                    if let Expr::Struct(id) = self.ir.expr(body) {
                        bodies.insert(id);
                        structs.push(id);
                    }
                }
            }
        }
    }

    /// Which field has to come before which.
    fn edges(&self, literals: &[Literal], n: usize) -> Vec<BTreeSet<usize>> {
        // Literals at one position (the operands of `&`, what one reference brings) form a batch.
        // Batches follow each other, literals of one batch do not.
        let mut batches: Vec<Batch> = Vec::new();
        let mut batch: Vec<usize> = Vec::new();
        let close = |batch: &mut Vec<usize>, batches: &mut Vec<Batch>| {
            let members = std::mem::take(batch);
            let Some(&first) = members.first() else { return };
            let explicit = members.len() > 1 || literals[first].explicit;
            match batches.last_mut() {
                Some(last)
                    if explicit
                        && last.explicit
                        && same_file(literals[first].place, literals[last.members[0]].place) =>
                {
                    last.members.extend(members);
                }
                _ => batches.push(Batch { members, explicit }),
            }
        };
        for (i, literal) in literals.iter().enumerate() {
            if let Some(&first) = batch.first()
                && (literals[first].place != literal.place || literal.dynamic)
            {
                close(&mut batch, &mut batches);
            }
            batch.push(i);
        }
        close(&mut batch, &mut batches);

        let mut edges = vec![BTreeSet::new(); n];
        // The literal that placed a field last.
        let mut placed: Vec<Option<usize>> = vec![None; n];
        let mut previous: Vec<usize> = Vec::new();
        let mut before: Option<Place> = None;
        // Within a literal each field follows the one before. Its first field follows the last ones
        // of the batch before.
        for batch in &batches {
            let place = literals[batch.members[0]].place;
            // Files of a package do not order each other's fields.
            if before.is_some_and(|before| !same_file(before, place)) {
                previous.clear();
            }
            let mut next = Vec::new();
            for &at in &batch.members {
                let literal = &literals[at];
                let mut chain = previous.clone();
                for &(_, field) in &literal.fields {
                    // A field stays where it was met first in its file.
                    let skip = placed[field].is_some_and(|by| {
                        by == at
                            || !batch.explicit
                                && literal.place != Place::Unknown
                                && same_file(literals[by].place, literal.place)
                    });
                    if skip {
                        continue;
                    }
                    placed[field] = Some(at);
                    for &from in &chain {
                        edges[from].insert(field);
                    }
                    chain.clear();
                    chain.push(field);
                }
                next.extend(chain);
            }
            previous = next;
            before = Some(place);
        }
        edges
    }
}

/// Frames that were looked at.
#[derive(Default)]
struct Known {
    /// The first frame by what makes frames alike.
    likes: FxHashMap<(u32, Vid, Label), u32>,
    /// The first frame like each of these.
    frames: Vec<(EnvId, u32)>,
}

/// Frames that are remembered one by one; a struct has few.
const MOST_KNOWN: usize = 16;

/// What `&` unifies in a struct: literals, and references that bring literals.
#[derive(Default)]
struct Explicit {
    structs: FxHashSet<StructId>,
    references: FxHashSet<ExprId>,
}

/// Literals that do not order each other, as indices.
struct Batch {
    members: Vec<usize>,
    explicit: bool,
}

/// Data count as part of the first file: they are what else is said there.
fn same_file(a: Place, b: Place) -> bool {
    let file = |place| match place {
        Place::At(file, _) => Some(file),
        Place::Data => Some(0),
        Place::Unknown => None,
    };
    file(a) == file(b)
}

/// The order of literals that stand one after the other in one file, if they have all fields: then
/// each field comes where it is met first, and there is nothing to sort.
fn chain(literals: &[Literal], n: usize) -> Option<Vec<usize>> {
    let apart = literals.windows(2).all(|pair| match pair {
        [a, b] => same_file(a.place, b.place) && (a.place != b.place || b.dynamic),
        _ => true,
    });
    let plain = |literal: &Literal| !literal.explicit && literal.place != Place::Unknown;
    if !apart || !literals.iter().all(plain) {
        return None;
    }
    order_of_all(literals.iter().flat_map(|literal| &literal.fields), n)
}

/// Fields in the order in which they come first, if all come.
fn order_of_all<'a>(
    fields: impl Iterator<Item = &'a (u32, usize)>,
    n: usize,
) -> Option<Vec<usize>> {
    let mut seen = vec![false; n];
    let mut order = Vec::with_capacity(n);
    for &(_, field) in fields {
        if !seen[field] {
            seen[field] = true;
            order.push(field);
        }
    }
    (order.len() == n).then_some(order)
}

impl Literal {
    /// Its order, if it has all fields.
    fn order_of_all(&self, n: usize) -> Option<Vec<usize>> {
        order_of_all(self.fields.iter(), n)
    }
}

/// Sorts a graph topologically. Among what may come next the least name comes first; so it is among
/// fields that ask for each other in a circle.
fn sorted<N: Ord>(edges: &[BTreeSet<usize>], name: impl Fn(usize) -> N) -> Vec<usize> {
    // Fields that ask for each other in a circle count as one node.
    let component = components(edges);
    let count = component.iter().max().map_or(0, |most| most + 1);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (i, &c) in component.iter().enumerate() {
        members[c].push(i);
    }
    let mut after: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    let mut waits_for = vec![0_usize; count];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            if component[from] != component[to] && after[component[from]].insert(component[to]) {
                waits_for[component[to]] += 1;
            }
        }
    }
    for list in &mut members {
        list.sort_by_key(|&a| name(a));
    }
    let key = |c: usize| members[c].first().map(|&i| name(i));
    // Ordered by name: the least of those that nothing holds back comes next.
    let mut ready: BTreeSet<(Option<N>, usize)> =
        (0..count).filter(|&c| waits_for[c] == 0).map(|c| (key(c), c)).collect();
    let mut out = Vec::with_capacity(edges.len());
    while let Some((_, c)) = ready.pop_first() {
        out.extend(&members[c]);
        for &next in &after[c] {
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.insert((key(next), next));
            }
        }
    }
    out
}

/// For each node the number of its strongly connected component.
fn components(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    let n = edges.len();
    // First the order in which a walk leaves the nodes, then walks against the edges in reverse.
    // On stacks of its own (Kosaraju's algorithm): the input decides how deep the graph is.
    let mut left = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    for start in 0..n {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut stack = vec![(start, edges[start].iter())];
        while let Some((node, targets)) = stack.last_mut() {
            match targets.next() {
                Some(&to) if !std::mem::replace(&mut seen[to], true) => {
                    stack.push((to, edges[to].iter()));
                }
                Some(_) => {}
                None => {
                    left.push(*node);
                    stack.pop();
                }
            }
        }
    }
    let mut against: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            against[to].push(from);
        }
    }
    let mut component = vec![usize::MAX; n];
    let mut count = 0;
    for &start in left.iter().rev() {
        if component[start] != usize::MAX {
            continue;
        }
        let mut stack = vec![start];
        component[start] = count;
        while let Some(node) = stack.pop() {
            for &from in &against[node] {
                if component[from] == usize::MAX {
                    component[from] = count;
                    stack.push(from);
                }
            }
        }
        count += 1;
    }
    component
}
