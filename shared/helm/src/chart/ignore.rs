//! `.helmignore`: which files of a directory are not part of its chart. The rules look like those of git and are
//! others: the first that decides wins, and `!pattern` ignores what does NOT match.

use crate::glob::{BadPattern, path_match};

/// A file of rules that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IgnoreError {
    /// Two stars.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// A pattern with an open bracket.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
}

/// The rules of a directory.
#[derive(Debug)]
pub struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: String,
    negated: bool,
    directories: bool,
    /// Only the last part of a path is compared.
    base: bool,
}

impl Default for Rules {
    /// Hidden files among the templates, whatever `.helmignore` says.
    fn default() -> Self {
        let pattern = "templates/.?*".to_owned();
        Self(vec![Rule { pattern, negated: false, directories: false, base: false }])
    }
}

impl Rules {
    /// Reads one rule a line.
    ///
    /// # Errors
    /// A pattern of another syntax.
    pub fn parse(text: &str) -> Result<Self, IgnoreError> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.contains("**") {
                return Err(IgnoreError::DoubleStar);
            }
            path_match(line, "abc")?;
            let (negated, line) = match line.strip_prefix('!') {
                Some(line) => (true, line),
                None => (false, line),
            };
            let (directories, line) = match line.strip_suffix('/') {
                Some(line) => (true, line),
                None => (false, line),
            };
            let base = !line.contains('/');
            let pattern = line.strip_prefix('/').unwrap_or(line).to_owned();
            rules.push(Rule { pattern, negated, directories, base });
        }
        rules.extend(Self::default().0);
        Ok(Self(rules))
    }

    /// Whether a file or one of the folders it lies in is ignored.
    #[must_use]
    pub fn ignore_with_parents(&self, path: &str) -> bool {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        folders.into_iter().any(|folder| self.ignore(folder, true)) || self.ignore(path, false)
    }

    fn ignore(&self, path: &str, directory: bool) -> bool {
        for rule in &self.0 {
            let name = if rule.base { path.rsplit('/').next().unwrap_or(path) } else { path };
            let matches = path_match(&rule.pattern, name).unwrap_or(false);
            let wrong_kind = rule.directories && !directory;
            if rule.negated {
                if wrong_kind || !matches {
                    return true;
                }
            } else if matches && !wrong_kind {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_decides_wins() {
        let rules = Rules::parse("# c\n*.bak\n/docs/\nsub/*.txt\n").unwrap();
        for (path, want) in [
            ("a.bak", true),
            ("x/y/a.bak", true),
            ("docs/a", true),
            ("x/docs/a", false),
            ("sub/a.txt", true),
            ("x/sub/a.txt", false),
            ("templates/.hidden", true),
            ("templates/a.yaml", false),
            ("docs", false),
        ] {
            assert_eq!(rules.ignore_with_parents(path), want, "{path}");
        }
        let negated = Rules::parse("!keep*").unwrap();
        assert!(negated.ignore_with_parents("other"));
        assert!(!negated.ignore_with_parents("keep.txt"));
        assert!(matches!(Rules::parse("a/**"), Err(IgnoreError::DoubleStar)));
        assert!(Rules::parse("[a").is_err());
    }
}
