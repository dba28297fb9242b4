//! What a run found: numbers for each family, and the differences grouped by what they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::ValueEnum as _;

use crate::{Comparison, Difference, Verdict as _};

/// Cases shown for a group.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
struct Count {
    cases: usize,
    differ: usize,
    columns: BTreeMap<&'static str, usize>,
}

/// A difference and a small case that has it.
#[derive(Debug)]
struct Finding {
    size: usize,
    case: String,
    detail: String,
}

/// What was found.
#[derive(Debug)]
pub struct Report<C: Comparison> {
    counts: BTreeMap<C::Family, Count>,
    columns: &'static [&'static str],
    notes: BTreeMap<&'static str, usize>,
    /// By level and what differs, then by the features of the smallest cases.
    groups: BTreeMap<(String, String), Vec<Finding>>,
    sizes: BTreeMap<(String, String), usize>,
    seen: BTreeSet<String>,
}

impl<C: Comparison> Report<C> {
    /// An empty one, whose table has these columns.
    pub(crate) fn new(columns: &'static [&'static str]) -> Self {
        Self {
            counts: BTreeMap::new(),
            columns,
            notes: BTreeMap::new(),
            groups: BTreeMap::new(),
            sizes: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Counts a case.
    pub(crate) fn count(&mut self, family: C::Family, verdict: &C::Verdict) {
        let count = self.counts.entry(family).or_default();
        count.cases += 1;
        count.differ += usize::from(verdict.is_failure());
        for column in verdict.columns() {
            *count.columns.entry(column).or_default() += 1;
        }
        if let Some(note) = verdict.note() {
            *self.notes.entry(note).or_default() += 1;
        }
    }

    /// Adds a reduced case. What is no failure of ours stands in groups of its own.
    pub(crate) fn add(&mut self, difference: &Difference, case: &C::Case, is_failure: bool) {
        let split = if is_failure { "" } else { " (Go differs from itself)" };
        let key = (format!("{}: {}{split}", difference.level, difference.what), C::features(case));
        *self.sizes.entry(key.clone()).or_default() += 1;
        if self.seen.insert(case.to_string()) {
            let group = self.groups.entry(key).or_default();
            let (size, detail) = (C::size(case), difference.detail.clone());
            group.push(Finding { size, case: C::show(case), detail });
            group.sort_by_key(|finding| finding.size);
            group.truncate(SHOWN);
        }
    }

    /// How many cases differ, and of how many.
    pub(crate) fn differing(&self) -> (usize, usize) {
        let sum = |of: fn(&Count) -> usize| self.counts.values().map(of).sum();
        (sum(|count| count.differ), sum(|count| count.cases))
    }

    /// The table and the groups, the largest first.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = write!(out, "{:<16} {:>9} {:>8} {:>9}", "family", "cases", "differ", "per 1000");
        self.row(&mut out, |column| column.to_owned());
        for (family, count) in &self.counts {
            let name = family.to_possible_value();
            let name = name.as_ref().map_or("", clap::builder::PossibleValue::get_name);
            line(&mut out, name, (count.differ, count.cases));
            let of = |column: &str| count.columns.get(column).copied().unwrap_or_default();
            self.row(&mut out, |column| of(column).to_string());
        }
        line(&mut out, "all", self.differing());
        let all = |column: &str| {
            let counts = self.counts.values().filter_map(|count| count.columns.get(column));
            counts.sum::<usize>()
        };
        self.row(&mut out, |column| all(column).to_string());
        for (note, count) in &self.notes {
            let _ = writeln!(out, "noted: {count:>7} {note}");
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(key, _)| std::cmp::Reverse(self.sizes.get(*key)));
        for (key, findings) in groups {
            let size = self.sizes.get(key).copied().unwrap_or_default();
            let _ = writeln!(out, "\n### {size} x {} [{}]", key.0, key.1);
            for finding in findings {
                let _ = writeln!(out, "\n{}\n// {}", finding.case.trim_end(), finding.detail);
            }
        }
        out
    }

    fn row(&self, out: &mut String, text: impl Fn(&str) -> String) {
        for column in self.columns {
            let _ = write!(out, " {:>13}", text(column));
        }
        out.push('\n');
    }
}

fn line(out: &mut String, name: &str, (differ, cases): (usize, usize)) {
    let tenths = 10_000 * differ / cases.max(1);
    let (whole, tenth) = (tenths / 10, tenths % 10);
    let _ = write!(out, "{name:<16} {cases:>9} {differ:>8} {whole:>7}.{tenth}");
}
