//! What a run found: numbers for each family, and the differences grouped by what they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::case::{Case, TEMPLATE};
use crate::compare::{Difference, Verdict};
use crate::grow::Family;

/// Cases shown for a group.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
struct Count {
    cases: usize,
    errors: usize,
    other_words: usize,
    differ: usize,
    noted: usize,
    random: usize,
    no_oracle: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: BTreeMap<Family, Count>,
    notes: BTreeMap<&'static str, usize>,
    /// By level and what differs, then by the functions of the smallest templates.
    groups: BTreeMap<(String, String), Vec<(Case, String)>>,
    sizes: BTreeMap<(String, String), usize>,
    seen: BTreeSet<String>,
}

impl Report {
    /// Counts a case.
    pub(crate) fn count(&mut self, family: Family, verdict: &Verdict) {
        let count = self.counts.entry(family).or_default();
        count.cases += 1;
        match verdict {
            Verdict::Same => {}
            Verdict::SameError => count.errors += 1,
            Verdict::OtherWords => count.other_words += 1,
            Verdict::Random => count.random += 1,
            Verdict::Noted(note) => {
                count.noted += 1;
                *self.notes.entry(note).or_default() += 1;
            }
            Verdict::NoOracle => count.no_oracle += 1,
            Verdict::Differs(_) => count.differ += 1,
        }
    }

    /// Adds a reduced case.
    pub(crate) fn add(&mut self, difference: &Difference, case: Case) {
        let key = (format!("{}: {}", difference.level, difference.what), features(&case));
        *self.sizes.entry(key.clone()).or_default() += 1;
        let group = self.groups.entry(key).or_default();
        if group.len() < SHOWN && self.seen.insert(case.to_string()) {
            group.push((case, difference.detail.clone()));
        }
    }

    /// How many cases differ, and of how many.
    pub(crate) fn differing(&self) -> (usize, usize) {
        let sum = |of: fn(&Count) -> usize| self.counts.values().map(of).sum();
        (sum(|count| count.differ), sum(|count| count.cases))
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{:<14} {:>9} {:>9} {:>12} {:>8} {:>9} {:>7} {:>9}",
            "family", "cases", "errors", "other words", "differ", "noted", "random", "no oracle"
        );
        for (family, count) in &self.counts {
            let Count { cases, errors, other_words, differ, noted, random, no_oracle } = count;
            let name = family.name();
            let _ = writeln!(
                out,
                "{name:<14} {cases:>9} {errors:>9} {other_words:>12} {differ:>8} {noted:>9} {random:>7} {no_oracle:>9}"
            );
        }
        let (differ, cases) = self.differing();
        let _ = writeln!(out, "{:<14} {cases:>9} {:>9} {:>12} {differ:>8}", "all", "", "");
        for (note, count) in &self.notes {
            let _ = writeln!(out, "noted: {count:>7} {note}");
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(key, _)| std::cmp::Reverse(self.sizes.get(*key)));
        for (key, cases) in groups {
            let size = self.sizes.get(key).copied().unwrap_or_default();
            let _ = writeln!(out, "\n### {size} x {} [{}]", key.0, key.1);
            for (case, detail) in cases {
                if case.files.len() == 2 && case.files.contains_key(TEMPLATE) {
                    let _ = writeln!(
                        out,
                        "\n{:?}\nvalues: {:?}",
                        case.files.get(TEMPLATE),
                        case.values
                    );
                } else {
                    let _ = writeln!(out, "\n{case}");
                }
                let _ = writeln!(out, "{detail}");
            }
        }
        out
    }
}

/// The words of a case that name functions and keywords.
fn features(case: &Case) -> String {
    let mut found = BTreeSet::new();
    for (name, text) in &case.files {
        if name == "Chart.yaml" || name == "values.yaml" {
            continue;
        }
        for action in text.split("{{").skip(1) {
            let action = action.split("}}").next().unwrap_or_default();
            let words =
                action.split(|char: char| !char.is_ascii_alphanumeric() && !".$_\"".contains(char));
            let plain = |word: &&str| word.starts_with(|char: char| char.is_ascii_lowercase());
            found.extend(words.filter(plain).map(str::to_owned));
        }
    }
    found.into_iter().take(6).collect::<Vec<_>>().join(" ")
}
