//! Versions and ranges of versions as Helm compares them (the rules of Masterminds/semver): versions may miss parts, a
//! range without a prerelease never admits one.

mod constraint;

pub use constraint::{Constraint, ConstraintError};

use std::cmp::Ordering;
use std::fmt;

use vela_gocompat::strconv::{self, NumError};

/// Texts beyond this are no versions.
const LONGEST: usize = 256;

/// A version that may have missed parts; it keeps the text it was made of.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
    /// What follows the hyphen; empty if there is none.
    pub prerelease: String,
    /// What follows the plus sign; empty if there is none. It does not count in comparisons.
    pub metadata: String,
    original: String,
}

/// Why a text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The form is another one.
    #[error("invalid semantic version")]
    Form,
    /// A number of the prerelease has leading zeros.
    #[error("version segment starts with 0")]
    LeadingZero,
    /// A character outside of `0-9A-Za-z-.` in the prerelease.
    #[error("invalid prerelease string")]
    Prerelease,
    /// The same in the metadata.
    #[error("invalid metadata string")]
    Metadata,
    /// A number does not fit into 64 bits.
    #[error("error parsing version segment: {0}")]
    Range(NumError),
}

impl Version {
    /// Reads one to three numbers with an optional `v` before, a prerelease and metadata.
    ///
    /// # Errors
    /// Any other form.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.len() > LONGEST {
            return Err(VersionError::Form);
        }
        let parts = Parts::of(text).ok_or(VersionError::Form)?;
        let number = |part: Option<&str>| match part {
            None => Ok(0),
            Some(digits) => strconv::parse_uint(digits, 10, 64).map_err(VersionError::Range),
        };
        if parts.numbers.iter().flatten().any(|part| !part.bytes().all(|b| b.is_ascii_digit())) {
            return Err(VersionError::Form);
        }
        let [major, minor, patch] = parts.numbers;
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            prerelease: checked_prerelease(parts.prerelease.unwrap_or_default())?.to_owned(),
            metadata: checked_metadata(parts.metadata.unwrap_or_default())?.to_owned(),
            original: text.to_owned(),
        })
    }

    /// The text the version was read from.
    #[must_use]
    pub fn original(&self) -> &str {
        &self.original
    }

    /// The version with another prerelease.
    ///
    /// # Errors
    /// A text that is no prerelease.
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Self, VersionError> {
        let prerelease = checked_prerelease(prerelease)?.to_owned();
        Ok(Self { prerelease, ..self.clone() }.spelled(self))
    }

    /// The version with other metadata.
    ///
    /// # Errors
    /// A text that is no metadata.
    pub fn with_metadata(&self, metadata: &str) -> Result<Self, VersionError> {
        let metadata = checked_metadata(metadata)?.to_owned();
        Ok(Self { metadata, ..self.clone() }.spelled(self))
    }

    /// The next major version.
    #[must_use]
    pub fn next_major(&self) -> Self {
        self.next(self.major.wrapping_add(1), 0, 0)
    }

    /// The next minor version.
    #[must_use]
    pub fn next_minor(&self) -> Self {
        self.next(self.major, self.minor.wrapping_add(1), 0)
    }

    /// The next patch version: of a prerelease the release itself.
    #[must_use]
    pub fn next_patch(&self) -> Self {
        let patch =
            if self.prerelease.is_empty() { self.patch.wrapping_add(1) } else { self.patch };
        self.next(self.major, self.minor, patch)
    }

    fn next(&self, major: u64, minor: u64, patch: u64) -> Self {
        let (prerelease, metadata) = (String::new(), String::new());
        Self { major, minor, patch, prerelease, metadata, original: String::new() }.spelled(self)
    }

    /// Gives a derived version its text: with a `v` if the one it comes from has one.
    fn spelled(mut self, from: &Self) -> Self {
        let v = if from.original.starts_with('v') { "v" } else { "" };
        self.original = format!("{v}{self}");
        self
    }

    /// Which of two versions comes first; metadata does not count.
    #[must_use]
    pub fn precedence(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_prereleases(&self.prerelease, &other.prerelease))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// Whether a version satisfies a range; a text that is neither is not compatible.
#[must_use]
pub(crate) fn is_compatible(range: &str, version: &str) -> bool {
    match (Constraint::parse(range), Version::parse(version)) {
        (Ok(range), Ok(version)) => range.check(&version),
        _ => false,
    }
}

/// The pieces of a version or of the operand of a range, where numbers may be wildcards.
struct Parts<'a> {
    numbers: [Option<&'a str>; 3],
    prerelease: Option<&'a str>,
    metadata: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, metadata) = match text.split_once('+') {
            Some((text, metadata)) => (text, Some(metadata)),
            None => (text, None),
        };
        let (core, prerelease) = match text.split_once('-') {
            Some((core, prerelease)) => (core, Some(prerelease)),
            None => (text, None),
        };
        let word = |text: &str| {
            !text.is_empty()
                && text.split('.').all(|segment| {
                    !segment.is_empty()
                        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                })
        };
        if !prerelease.is_none_or(word) || !metadata.is_none_or(word) {
            return None;
        }
        let mut numbers = [None; 3];
        let mut places = numbers.iter_mut();
        for part in core.split('.') {
            let wild = matches!(part, "x" | "X" | "*");
            if !wild && (part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit())) {
                return None;
            }
            *places.next()? = Some(part);
        }
        Some(Self { numbers, prerelease, metadata })
    }
}

fn checked_prerelease(text: &str) -> Result<&str, VersionError> {
    if text.is_empty() {
        return Ok(text);
    }
    for segment in text.split('.') {
        if segment.is_empty() || !segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(VersionError::Prerelease);
        }
        let number = segment.bytes().all(|byte| byte.is_ascii_digit());
        if number && segment.len() > 1 && segment.starts_with('0') {
            return Err(VersionError::LeadingZero);
        }
    }
    Ok(text)
}

fn checked_metadata(text: &str) -> Result<&str, VersionError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let bad = |segment: &str| segment.is_empty() || !segment.bytes().all(allowed);
    if !text.is_empty() && text.split('.').any(bad) {
        return Err(VersionError::Metadata);
    }
    Ok(text)
}

fn compare_prereleases(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_may_miss_parts_but_not_their_form() {
        for (text, want) in [
            ("1", "1.0.0"),
            ("v1.2", "1.2.0"),
            ("1.2.3-rc.1+k3s1", "1.2.3-rc.1+k3s1"),
            ("01.02.03", "1.2.3"),
            ("1.2.3+a-b", "1.2.3+a-b"),
        ] {
            assert_eq!(Version::parse(text).unwrap().to_string(), want, "{text}");
        }
        for text in ["", "v", "1.2.3.4", "1.x", "a", "1.2.3-", "1.2.3-a..b", "vv1", " 1"] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
        assert_eq!(Version::parse("1.2.3-01"), Err(VersionError::LeadingZero));
    }

    #[test]
    fn prereleases_come_before_their_release() {
        let ordered =
            ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-a", "1.0.0-a.1", "1.0.0-b", "1.0.0"];
        for pair in ordered.windows(2) {
            let [a, b] = pair else { continue };
            let (a, b) = (Version::parse(a).unwrap(), Version::parse(b).unwrap());
            assert_eq!(a.precedence(&b), Ordering::Less, "{a} {b}");
        }
        let version = Version::parse("v1.2.3-rc.1+x").unwrap();
        assert_eq!(version.next_patch().original(), "v1.2.3");
        assert_eq!(version.next_minor().to_string(), "1.3.0");
    }
}
