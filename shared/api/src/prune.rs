//! Rules about deletions of an Application's objects that need an approval.
//!
//! The annotation `app.oam.dev/prune` has the rules, separated by semicolons: `confirm` (every object), `confirm=KIND,KIND`,
//! `confirm=all` (every object, also when the Application itself is deleted) and `limit=10` or `limit=50%` (more than that at
//! once). An approval names the generation that it is about, so it never counts for a later spec.

use std::collections::BTreeSet;

/// What may be deleted without asking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneRules {
    confirm: Confirm,
    limit: Option<Limit>,
    /// Whether the deletion of the Application asks, too.
    whole: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Confirm {
    #[default]
    Nothing,
    Everything,
    Kinds(BTreeSet<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Objects(usize),
    Percent(u8),
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PruneError {
    /// Neither `confirm` nor `limit`.
    #[error(
        "expected `confirm`, `confirm=KIND,KIND`, `confirm=all`, `limit=10` or `limit=50%`, got {0:?}"
    )]
    Unknown(String),
    /// Not a number of objects and not a share of them.
    #[error("expected a number of objects or a percentage up to 100%, got {0:?}")]
    Limit(String),
    /// No kind between two commas.
    #[error("expected kinds separated by commas, got {0:?}")]
    Kinds(String),
}

impl PruneRules {
    /// Asks before every deletion, but not when the Application itself is deleted.
    #[must_use]
    pub fn confirm_everything() -> Self {
        Self { confirm: Confirm::Everything, ..Self::default() }
    }

    /// Asks before objects of these kinds are deleted.
    #[must_use]
    pub fn confirm_kinds(kinds: impl IntoIterator<Item = String>) -> Self {
        let kinds: BTreeSet<String> = kinds.into_iter().collect();
        let confirm = if kinds.is_empty() { Confirm::Nothing } else { Confirm::Kinds(kinds) };
        Self { confirm, ..Self::default() }
    }

    /// Reads the annotation.
    ///
    /// # Errors
    /// A rule that is none. Who stores such a text means to be asked: [`PruneRules::confirm_everything`] is the safe reading.
    pub fn parse(text: &str) -> Result<Self, PruneError> {
        let mut rules = Self::default();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            match rule.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
                None if rule == "confirm" => rules.confirm = Confirm::Everything,
                Some(("confirm", "all")) => {
                    rules.confirm = Confirm::Everything;
                    rules.whole = true;
                }
                Some(("confirm", kinds)) => {
                    let kinds: BTreeSet<String> =
                        kinds.split(',').map(|kind| kind.trim().to_owned()).collect();
                    if kinds.contains("") {
                        return Err(PruneError::Kinds(rule.to_owned()));
                    }
                    rules.confirm = Confirm::Kinds(kinds);
                }
                Some(("limit", limit)) => rules.limit = Some(Limit::parse(limit)?),
                _ => return Err(PruneError::Unknown(rule.to_owned())),
            }
        }
        Ok(rules)
    }

    /// Reads the label of a Namespace, whose characters are fewer: `.` stands for `=` and for the comma between kinds, `_` for the
    /// semicolon, `percent` for `%`: `confirm`, `confirm.all`, `confirm.PersistentVolumeClaim.StatefulSet_limit.50percent`.
    ///
    /// # Errors
    /// As [`PruneRules::parse`].
    pub fn parse_label(text: &str) -> Result<Self, PruneError> {
        let rules: Vec<String> = text
            .split('_')
            .map(|rule| rule.replacen('.', "=", 1).replace('.', ",").replace("percent", "%"))
            .collect();
        Self::parse(&rules.join(";"))
    }

    /// Whether the deletion of an object of this kind asks, how few there may be.
    #[must_use]
    pub fn asks(&self, kind: &str) -> bool {
        self.confirm.asks(kind)
    }

    /// Whether the deletion of the Application itself asks, too.
    #[must_use]
    pub fn asks_for_whole(&self) -> bool {
        self.whole
    }

    /// Whether so many deletions at once ask whatever is deleted, of an Application with `total` objects; they are counted only
    /// where the limit is a percentage.
    #[must_use]
    pub fn limits(&self, deletions: usize, total: impl FnOnce() -> usize) -> bool {
        self.limit.is_some_and(|limit| limit.is_crossed(deletions, total))
    }
}

impl Confirm {
    fn asks(&self, kind: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Kinds(kinds) => kinds.contains(kind),
        }
    }
}

impl Limit {
    fn parse(text: &str) -> Result<Self, PruneError> {
        let wrong = || PruneError::Limit(text.to_owned());
        match text.strip_suffix('%') {
            Some(share) => match share.trim().parse() {
                Ok(share @ 0..=100) => Ok(Self::Percent(share)),
                _ => Err(wrong()),
            },
            None => text.parse().map(Self::Objects).map_err(|_| wrong()),
        }
    }

    fn is_crossed(self, deletions: usize, total: impl FnOnce() -> usize) -> bool {
        match self {
            Self::Objects(most) => deletions > most,
            Self::Percent(share) => {
                deletions.saturating_mul(100) > total().saturating_mul(usize::from(share))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_asks() {
        // of four objects: a ConfigMap, a PersistentVolumeClaim, two of them at once; the whole Application
        for (text, expected) in [
            ("", [false, false, false, false]),
            ("confirm", [true, true, false, false]),
            ("confirm=all", [true, true, false, true]),
            ("confirm = PersistentVolumeClaim , StatefulSet ;", [false, true, false, false]),
            ("limit=2", [false, false, false, false]),
            ("limit=1", [false, false, true, false]),
            ("limit=0", [false, false, true, false]),
            ("limit=50%", [false, false, false, false]),
            ("limit=49%", [false, false, true, false]),
            ("limit=100%; confirm=ConfigMap", [true, false, false, false]),
            ("limit=0; confirm=all", [true, true, true, true]),
        ] {
            let rules = PruneRules::parse(text).unwrap();
            let found = [
                rules.asks("ConfigMap"),
                rules.asks("PersistentVolumeClaim"),
                rules.limits(2, || 4),
                rules.asks_for_whole(),
            ];
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_label_says_the_same_in_other_characters() {
        for (label, annotation) in [
            ("", ""),
            ("confirm", "confirm"),
            ("confirm.all", "confirm=all"),
            (
                "confirm.PersistentVolumeClaim.StatefulSet",
                "confirm=PersistentVolumeClaim,StatefulSet",
            ),
            ("limit.10", "limit=10"),
            ("confirm.Secret_limit.50percent", "confirm=Secret; limit=50%"),
        ] {
            assert_eq!(PruneRules::parse_label(label), PruneRules::parse(annotation), "{label}");
        }
        for wrong in ["ask", "confirm.", "limit.x", "limit"] {
            assert!(PruneRules::parse_label(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_rule() {
        for (text, wrong) in [
            ("ask", PruneError::Unknown("ask".into())),
            ("confirm; yes=no", PruneError::Unknown("yes=no".into())),
            ("confirm=", PruneError::Kinds("confirm=".into())),
            ("confirm=A,,B", PruneError::Kinds("confirm=A,,B".into())),
            ("limit=", PruneError::Limit(String::new())),
            ("limit=101%", PruneError::Limit("101%".into())),
            ("limit=-1", PruneError::Limit("-1".into())),
            ("limit=1e3", PruneError::Limit("1e3".into())),
        ] {
            assert_eq!(PruneRules::parse(text), Err(wrong), "{text}");
        }
    }
}
