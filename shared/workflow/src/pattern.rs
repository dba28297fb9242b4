//! Names of components in override policies: a name, or a pattern of names.
//!
//! A pattern is a regular expression as Go reads it, in which a `*` stands for `.*`. It means whole names, not parts of
//! them (compatibility note vela-controller 16).

use vela_gocompat::regexp;

use crate::messages;

/// Bytes of a pattern: more than the longest name has.
const LENGTH: usize = 512;
/// Compiled size: hundreds of alternatives, but a pattern costs no more than a name is worth.
const SIZE: usize = 64 << 10;
/// States times bytes that a name is worth.
const WORK: u64 = 1 << 21;

/// Which components a name in an override policy means.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// The component of this name.
    Name(String),
    /// Those whose whole name matches.
    Expression(Box<regexp::Regexp>),
}

/// A name that stands for no components.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The policy has more patterns than are tried.
    #[error("{}", messages::too_many_patterns(*.most))]
    TooMany {
        /// How many are.
        most: usize,
    },
    /// Longer than names are.
    #[error("{}", messages::pattern_too_long(*.most))]
    TooLong {
        /// Bytes that a pattern may have.
        most: usize,
    },
    /// No regular expression, or a very large one.
    #[error(transparent)]
    Expression(#[from] regexp::RegexpError),
}

/// Patterns of one override policy, and how often they are tried in all: nobody has as many, and a reconcile waits for them.
const MAX_PATTERNS: usize = 100;
const TRIALS: usize = 5000;

/// Reads the names of one override policy, which are tried on this many components.
///
/// # Errors
/// The index of a name, and what is wrong with it.
pub fn read_all<'n>(
    names: impl Iterator<Item = &'n str>,
    components: usize,
) -> Result<Vec<Pattern>, (usize, PatternError)> {
    let (mut out, mut expressions) = (Vec::new(), 0_usize);
    let most = MAX_PATTERNS.min(TRIALS.checked_div(components).unwrap_or(MAX_PATTERNS).max(1));
    for (index, name) in names.enumerate() {
        if !is_name(name) {
            expressions = expressions.saturating_add(1);
        }
        if expressions > most {
            return Err((index, PatternError::TooMany { most }));
        }
        out.push(Pattern::read(name).map_err(|error| (index, error))?);
    }
    Ok(out)
}

impl Pattern {
    /// Reads a name.
    ///
    /// # Errors
    /// It is no regular expression, or a very large one.
    pub fn read(text: &str) -> Result<Self, PatternError> {
        if is_name(text) {
            return Ok(Self::Name(text.to_owned()));
        }
        if text.len() > LENGTH {
            return Err(PatternError::TooLong { most: LENGTH });
        }
        // Alone first: a `)` must not close our own group.
        let inner = text.replace('*', ".*");
        regexp::compile_within(&inner, SIZE)?;
        let whole = regexp::compile_within(&format!("^(?:{inner})$"), SIZE)?;
        Ok(Self::Expression(Box::new(whole)))
    }

    /// Whether a component is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            // Enough for every name that Kubernetes takes; no longer one is meant by a pattern.
            Self::Expression(expression) => {
                expression.is_match(name, &mut regexp::Allowance(WORK)).is_ok_and(|matched| matched)
            }
        }
    }

    /// The name, if it is one: a component that is not there is added under it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Expression(_) => None,
        }
    }
}

/// Whether a text consists of the characters of names. A dot between two parts of a name is a dot.
fn is_name(text: &str) -> bool {
    text.split('.').all(|part| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_patterns() {
        for (pattern, means, others) in [
            ("web-a", &["web-a"][..], &["web-ab", "my-web-a"][..]),
            ("web.a", &["web.a"], &["web-a"]),
            ("web-*", &["web-", "web-a"], &["my-web-a"]),
            ("*web*", &["web", "my-web-2"], &["we"]),
            ("web-.*", &["web-a"], &["web"]),
            ("web-(a|b)", &["web-a", "web-b"], &["web-c", "web-ab"]),
            ("a|b", &["a", "b"], &["ab", "xa"]),
            ("web-[ac]", &["web-a", "web-c"], &["web-b"]),
            ("^web-c$", &["web-c"], &["my-web-c"]),
            ("(?i)WEB", &["web"], &["web-a"]),
            (r"web\d+", &["web12"], &["web"]),
        ] {
            let read = Pattern::read(pattern).unwrap();
            assert!(means.iter().all(|name| read.matches(name)), "{pattern}");
            assert!(!others.iter().any(|name| read.matches(name)), "{pattern}");
        }
        assert_eq!(Pattern::read("web.a").unwrap().name(), Some("web.a"));
        assert_eq!(Pattern::read("web-*").unwrap().name(), None);
    }

    #[test]
    fn many_patterns_are_too_many() {
        let read = |count: usize, components| {
            let names = vec!["a*"; count];
            read_all(names.into_iter().chain(["b"]), components).map(|read| read.len())
        };
        assert_eq!(read(MAX_PATTERNS, 3), Ok(MAX_PATTERNS + 1));
        assert_eq!(read(MAX_PATTERNS + 1, 3).unwrap_err().0, MAX_PATTERNS);
        assert_eq!(read(6, 1000).unwrap_err().0, 5);
        assert_eq!(read_all(["a", "(", "b*"].into_iter(), 1).unwrap_err().0, 1);
        // Names are not patterns.
        assert!(read_all(vec!["a"; 2000].into_iter(), 2000).is_ok());
    }

    #[test]
    fn what_is_no_pattern_or_too_large_is_an_error() {
        for bad in ["web-(a", "a)|(b", "[z-a]", "+", "(a{1000}){1000}", &"a|".repeat(300)] {
            assert!(Pattern::read(bad).is_err(), "{bad}");
        }
    }
}
