//! Ranges of versions: groups of comparisons, of which one has to hold as a whole.

use std::cmp::Ordering;

use super::{Parts, Version, checked_prerelease};

/// Bounds of what is read: longer texts and more groups are refused.
const LONGEST: usize = 512;
const MOST_GROUPS: usize = 32;

/// A range of versions, e.g. `>=1.2, <2 || ~3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    groups: Vec<Vec<Comparison>>,
}

/// A text that is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The form is another one.
    #[error("improper constraint: {0}")]
    Improper(String),
    /// The text is over a bound.
    #[error("constraint string is too long")]
    TooLong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// How many numbers were given before the first wildcard or end.
    given: usize,
}

impl Constraint {
    /// Reads a range.
    ///
    /// # Errors
    /// A text of another form.
    pub fn parse(text: &str) -> Result<Self, ConstraintError> {
        if text.len() > LONGEST {
            return Err(ConstraintError::TooLong);
        }
        let improper = |group: &str| ConstraintError::Improper(group.to_owned());
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > MOST_GROUPS {
            return Err(ConstraintError::TooLong);
        }
        let groups = groups
            .into_iter()
            .map(|group| comparisons(group).ok_or_else(|| improper(group)))
            .collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Whether a version lies in the range. A prerelease does only where a comparison of its group names one.
    #[must_use]
    pub fn check(&self, version: &Version) -> bool {
        let release = version.prerelease.is_empty();
        self.groups.iter().any(|group| {
            let open = |comparison: &Comparison| !comparison.version.prerelease.is_empty();
            (release || group.iter().any(open)) && group.iter().all(|c| c.holds(version))
        })
    }
}

/// The comparisons of a group, separated by blanks or commas.
fn comparisons(group: &str) -> Option<Vec<Comparison>> {
    let text = spelled_out(group.trim());
    if text.is_empty() {
        return None;
    }
    let mut rest = text.as_str();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (operator, after) = operator(rest);
        let after = after.trim_start();
        let end = after.find(|char: char| char == ',' || char.is_whitespace());
        let operand = after.get(..end.unwrap_or(after.len()))?;
        found.push(Comparison::read(operator, operand)?);
        let next = after.get(operand.len()..)?.trim_start();
        rest = match next.strip_prefix(',') {
            Some(next) if next.trim_start().is_empty() => return None,
            Some(next) => next.trim_start(),
            None => next,
        };
    }
    Some(found)
}

/// Hyphen ranges as the two comparisons they stand for.
fn spelled_out(group: &str) -> String {
    let words: Vec<&str> = group.split_whitespace().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match (words.get(at + 1), words.get(at + 2)) {
            (Some(&"-"), Some(upper)) => {
                out.push(format!(">={word},<={upper}"));
                at += 3;
            }
            _ => {
                out.push((*word).to_owned());
                at += 1;
            }
        }
    }
    out.join(" ")
}

fn operator(text: &str) -> (Operator, &str) {
    const OPERATORS: [(&str, Operator); 11] = [
        ("!=", Operator::NotEqual),
        (">=", Operator::GreaterOrEqual),
        ("=>", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("=<", Operator::LessOrEqual),
        ("~>", Operator::Tilde),
        ("~", Operator::Tilde),
        ("^", Operator::Caret),
        (">", Operator::Greater),
        ("<", Operator::Less),
        ("=", Operator::Equal),
    ];
    OPERATORS
        .iter()
        .find_map(|(prefix, operator)| Some((*operator, text.strip_prefix(prefix)?)))
        .unwrap_or((Operator::Equal, text))
}

impl Comparison {
    fn read(operator: Operator, operand: &str) -> Option<Self> {
        let parts = Parts::of(operand)?;
        let wild = |part: &Option<&str>| part.is_none_or(|part| matches!(part, "x" | "X" | "*"));
        let given = parts.numbers.iter().position(wild).unwrap_or(parts.numbers.len());
        let mut numbers = [0_u64; 3];
        for (number, part) in numbers.iter_mut().zip(parts.numbers).take(given) {
            *number = part?.parse().ok()?;
        }
        let [major, minor, patch] = numbers;
        // Missing numbers count as zeros, and a prerelease stays: `>=1.25-0`.
        let version = Version {
            major,
            minor,
            patch,
            prerelease: checked_prerelease(parts.prerelease.unwrap_or_default()).ok()?.to_owned(),
            metadata: String::new(),
            original: String::new(),
        };
        Some(Self { operator, version, given })
    }

    fn holds(&self, version: &Version) -> bool {
        let order = version.precedence(&self.version);
        match self.operator {
            Operator::Equal if self.given < 3 => self.tilde(version),
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => match self.given {
                3 => order != Ordering::Equal,
                given => !self.same(version, given) && given > 0,
            },
            Operator::Greater => match self.given {
                3 => order == Ordering::Greater,
                given => order == Ordering::Greater && !self.same(version, given),
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::LessOrEqual => match self.given {
                3 => order != Ordering::Greater,
                given => order != Ordering::Greater || self.same(version, given),
            },
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
        }
    }

    /// Whether the first `count` numbers are equal.
    fn same(&self, version: &Version, count: usize) -> bool {
        let numbers = |version: &Version| [version.major, version.minor, version.patch];
        numbers(version).iter().zip(numbers(&self.version)).take(count).all(|(a, b)| *a == b)
    }

    fn tilde(&self, version: &Version) -> bool {
        if version.precedence(&self.version) == Ordering::Less {
            return false;
        }
        let zero = self.version.major == 0 && self.version.minor == 0 && self.version.patch == 0;
        if self.given == 0 || (zero && self.given == 3) {
            return true;
        }
        self.same(version, self.given.min(2))
    }

    fn caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.precedence(wanted) == Ordering::Less {
            return false;
        }
        if wanted.major > 0 || self.given < 2 {
            return version.major == wanted.major || self.given == 0;
        }
        if version.major != 0 {
            return false;
        }
        if wanted.minor > 0 || self.given < 3 {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && version.patch == wanted.patch
    }
}

#[cfg(test)]
mod tests {
    use super::super::is_compatible;
    use super::*;

    #[test]
    fn ranges_admit_what_they_say() {
        for (range, version, want) in [
            ("", "1.2.3", false),
            ("*", "1.2.3-rc", false),
            ("1.2", "1.2.9", true),
            ("=1.2.3", "1.2.3+k3s1", true),
            (">11", "11.1.0", false),
            (">11", "12.0.0", true),
            (">11.1", "11.1.9", false),
            ("<=11", "11.9.0", true),
            ("<=11", "12.0.0", false),
            ("<11", "10.9.9", true),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("~1", "1.9.0", true),
            ("~0.0.0", "4.0.0", true),
            ("^1.2", "1.9.9", true),
            ("^0.2", "0.3.0", false),
            ("^0.0.3", "0.0.4", false),
            ("^0", "0.9.0", true),
            ("!=1.x", "1.4.0", false),
            ("1.2 - 1.4", "1.4.9", true),
            ("1.2 - 1.4", "1.5.0", false),
            (">=1.0, <2.0 || >=3", "2.5.0", false),
            (">=1.0 <2.0 || >=3", "3.5.0", true),
            (">=1.25-0", "1.30.4-gke.100", true),
            (">=1.25", "1.30.4-gke.100", false),
            (">= 1.19.0-0", "v1.34.0", true),
        ] {
            assert_eq!(is_compatible(range, version), want, "{range} {version}");
        }
        for range in ["", " ", "1 || ", "latest", ">>1", "1,", "1.2.3.4", "~~1"] {
            assert!(Constraint::parse(range).is_err(), "{range}");
        }
    }
}
