//! The order in which fields are written.
//!
//! Each struct literal that makes up a struct asks for its own order, that of the source; so does
//! each piece of data. All of them are merged: where they leave it open, the earlier declaration
//! comes first, data last.

use super::state::{EnvId, Machine, Src, Vid};
use crate::label::Label;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A literal (by the frame it was evaluated in) or data.
type Chain = u32;
/// Larger structs keep the order in which their fields were found.
const MOST: usize = 4096;
/// File, offset in it, and the position among the fields where the first two say nothing.
type Place = (u32, u32, usize);
const DATA: Chain = u32::MAX;
const OTHER: Chain = u32::MAX - 1;

impl Machine<'_> {
    /// The fields of a struct in the order in which they are written.
    pub(crate) fn ordered_arcs(&self, v: Vid) -> Vec<(Label, Vid)> {
        let arcs = &self.v(v).arcs;
        let is_data = |(_, w): &(Label, Vid)| matches!(self.v(*w).conjs.as_slice(), [conj] if matches!(conj.src, Src::Data(_)));
        if arcs.len() < 2 || arcs.len() > MOST || arcs.iter().all(is_data) {
            return arcs.clone();
        }
        // For every chain the places of its fields.
        let mut chains: BTreeMap<Chain, Vec<(Place, usize)>> = BTreeMap::new();
        for (index, (_, w)) in arcs.iter().enumerate() {
            for conj in &self.v(*w).conjs {
                let (chain, place) = match conj.src {
                    Src::Data(_) => (DATA, (0, 0, index)),
                    Src::Expr(e) => {
                        let (pos, _) = self.ir.pos[e.idx()];
                        (self.literal_of(conj.env, v), (pos.file.0, pos.start, index))
                    }
                    Src::Node(_) | Src::Val(_) => (OTHER, (0, 0, index)),
                };
                let place = if chain == OTHER { (0, 0, index) } else { place };
                chains.entry(chain).or_default().push((place, index));
            }
        }
        let mut first = vec![(u32::MAX, u32::MAX, usize::MAX); arcs.len()];
        for (chain, places) in &chains {
            for (place, index) in places {
                if *chain != DATA {
                    first[*index] = first[*index].min(*place);
                }
            }
        }
        let mut sequences: Vec<Vec<usize>> = Vec::with_capacity(chains.len());
        for (_, mut places) in chains {
            places.sort_unstable();
            let mut seen = vec![false; arcs.len()];
            let mut sequence: Vec<usize> = Vec::with_capacity(places.len());
            for (_, index) in places {
                if !seen[index] {
                    seen[index] = true;
                    sequence.push(index);
                }
            }
            sequences.push(sequence);
        }
        if let [one] = sequences.as_slice()
            && one.len() == arcs.len()
        {
            return one.iter().map(|&i| arcs[i]).collect();
        }
        self.merged(v, &sequences, &first)
    }

    /// The outermost frame of a literal that stands for `v` itself.
    fn literal_of(&self, mut env: EnvId, v: Vid) -> Chain {
        let mut found = OTHER;
        while !env.is_none() {
            let frame = self.s.envs[env.idx()];
            if frame.vertex == v {
                found = env.0;
            }
            env = frame.up;
        }
        found
    }

    /// Merges sequences: a field comes when all that precede it anywhere have come; among several
    /// the one that is declared first.
    fn merged(
        &self,
        v: Vid,
        sequences: &[Vec<usize>],
        first: &[(u32, u32, usize)],
    ) -> Vec<(Label, Vid)> {
        let arcs = &self.v(v).arcs;
        let mut before: Vec<usize> = vec![0; arcs.len()];
        let mut after: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for sequence in sequences {
            for pair in sequence.windows(2) {
                if let [a, b] = *pair {
                    before[b] += 1;
                    after.entry(a).or_default().push(b);
                }
            }
        }
        let mut left: Vec<usize> = (0..arcs.len()).collect();
        left.sort_by_key(|&i| (first[i], i));
        let mut out = Vec::with_capacity(arcs.len());
        while !left.is_empty() {
            // In a circle the first declared goes first.
            let at = left.iter().position(|&i| before[i] == 0).unwrap_or(0);
            let index = left.remove(at);
            out.push(arcs[index]);
            for next in after.remove(&index).unwrap_or_default() {
                before[next] = before[next].saturating_sub(1);
            }
        }
        out
    }
}
