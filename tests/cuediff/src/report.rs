//! What a run found: numbers for each family, and the differences grouped by what they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::compare::{Difference, Verdict};
use crate::grow::Family;
use crate::program::Program;
use crate::syntax::features;

/// Programs shown for a group.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
struct Count {
    programs: usize,
    differ: usize,
    none_of_several: usize,
    one_of_several: usize,
    noted: usize,
    no_oracle: usize,
}

/// A difference and the smallest program that has it.
#[derive(Debug)]
struct Finding {
    program: Program,
    detail: String,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: BTreeMap<Family, Count>,
    /// By level and what differs, then by the productions of the smallest programs.
    groups: BTreeMap<(String, String), Vec<Finding>>,
    sizes: BTreeMap<(String, String), usize>,
    seen: BTreeSet<String>,
}

impl Report {
    /// Counts a program.
    pub(crate) fn count(&mut self, family: Family, verdict: &Verdict) {
        let count = self.counts.entry(family).or_default();
        count.programs += 1;
        match verdict {
            Verdict::Same => {}
            Verdict::OneOfSeveral => count.one_of_several += 1,
            Verdict::NoneOfSeveral(_) => count.none_of_several += 1,
            Verdict::Noted => count.noted += 1,
            Verdict::NoOracle => count.no_oracle += 1,
            Verdict::Differs(_) => count.differ += 1,
        }
    }

    /// Adds a reduced program.
    pub(crate) fn add(&mut self, difference: &Difference, program: Program, split: bool) {
        let made_of = features(&program.to_string()).join(" + ");
        let split = if split { " (Go differs from itself)" } else { "" };
        let key = (format!("{}: {}{split}", difference.level, difference.what), made_of);
        *self.sizes.entry(key.clone()).or_default() += 1;
        if self.seen.insert(program.to_string()) {
            let group = self.groups.entry(key).or_default();
            group.push(Finding { program, detail: difference.detail.clone() });
            group.sort_by_key(|finding| finding.program.size());
            group.truncate(SHOWN);
        }
    }

    /// Programs that differ although Go agrees with itself, of all that were run.
    pub(crate) fn differing(&self) -> (usize, usize) {
        let sum = |of: fn(&Count) -> usize| self.counts.values().map(of).sum();
        (sum(|count| count.differ), sum(|count| count.programs))
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{:<16} {:>9} {:>8} {:>9} {:>11} {:>11} {:>13} {:>9}",
            "family",
            "programs",
            "differ",
            "per 1000",
            crate::notes::NOTE,
            "Go differs",
            "none of these",
            "no oracle"
        );
        for (family, count) in &self.counts {
            let rate = 1000 * count.differ;
            let whole = rate / count.programs.max(1);
            let tenth = (10 * rate / count.programs.max(1)) % 10;
            let _ = writeln!(
                out,
                "{:<16} {:>9} {:>8} {:>7}.{tenth} {:>11} {:>11} {:>13} {:>9}",
                family.name(),
                count.programs,
                count.differ,
                whole,
                count.noted,
                count.one_of_several + count.none_of_several,
                count.none_of_several,
                count.no_oracle,
            );
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(key, _)| std::cmp::Reverse(self.sizes.get(*key)));
        for (key, findings) in groups {
            let size = self.sizes.get(key).copied().unwrap_or_default();
            let _ = writeln!(out, "\n### {size} x {} [{}]", key.0, key.1);
            for finding in findings {
                let _ = writeln!(out, "\n{}// {}", finding.program, finding.detail);
            }
        }
        out
    }
}
