//! The index of a chart repository, and which of many versions is meant by a constraint.
//!
//! An index lists every version of every chart of a repository and can be large: only the entries of the wanted chart are
//! kept while it is read.

use serde_json::Value;

use crate::semver::{Constraint, ConstraintError, Version};
use crate::yaml::{self, YamlError};

/// Versions of one chart that are looked at.
const MOST_VERSIONS: usize = 20_000;

/// A version of a chart in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The version, as the repository writes it.
    pub version: String,
    /// Where its archive is: an address, or a path below the repository.
    pub url: String,
    /// SHA-256 of the archive in hex digits, if the repository tells it.
    pub digest: Option<String>,
}

/// An index without the wanted version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The text is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// The repository does not have the chart.
    #[error("chart {0} not found")]
    NoChart(String),
    /// It has no version that is meant.
    #[error("version {wanted:?} of chart {chart} not found")]
    NoVersion {
        /// The name that the index was asked for.
        chart: String,
        /// The version or constraint.
        wanted: String,
    },
    /// The wanted version is neither a version nor a constraint.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The entry says of no archive.
    #[error("chart {chart} {version} has no address")]
    NoUrl {
        /// The name of the entry.
        chart: String,
        /// The version of the entry, as the index writes it.
        version: String,
    },
}

/// The constraint that a wanted version is: nothing and `latest` mean the newest stable one.
fn constraint(wanted: &str) -> &str {
    if matches!(wanted, "" | "latest") { "*" } else { wanted }
}

/// Whether a wanted version names one version for good: what it leads to does not change.
#[must_use]
pub fn is_exact(wanted: &str) -> bool {
    const MOVES: [&str; 5] = ["-snapshot", "-dev", "-alpha", "-beta", "-rc"];
    let lower = wanted.to_ascii_lowercase();
    let parts = wanted.split(['-', '+']).next().unwrap_or_default().split('.').count();
    parts == 3 && Version::parse(wanted).is_ok() && !MOVES.iter().any(|word| lower.contains(word))
}

/// Which of the versions is meant: the one that is written alike, else the newest that fits the constraint. Pre-releases
/// fit only a constraint that names one. What is no version is left out.
///
/// # Errors
/// The wanted version is neither one of them nor a constraint.
pub fn choose<'a>(
    versions: impl IntoIterator<Item = &'a str>,
    wanted: &str,
) -> Result<Option<&'a str>, ConstraintError> {
    let versions: Vec<&str> = versions.into_iter().take(MOST_VERSIONS).collect();
    if let Some(same) = versions.iter().find(|version| **version == wanted) {
        return Ok(Some(same));
    }
    let constraint = Constraint::parse(constraint(wanted))?;
    let fits = versions.into_iter().filter_map(|text| Some((Version::parse(text).ok()?, text)));
    let fits = fits.filter(|(version, _)| constraint.check(version));
    // Of equal ones the first counts.
    Ok(fits
        .reduce(|best, it| if it.0.precedence(&best.0).is_gt() { it } else { best })
        .map(|it| it.1))
}

/// Finds a version of a chart in the text of an index.
///
/// # Errors
/// A text that is no index, or that has no such version.
pub fn find(text: &str, chart: &str, wanted: &str) -> Result<Entry, IndexError> {
    let entries = yaml::read_at(text, &["entries", chart])?;
    let Some(Value::Array(entries)) = entries else {
        return Err(IndexError::NoChart(chart.to_owned()));
    };
    let field = |entry: &'_ Value, key: &str| -> Option<String> {
        Some(entry.get(key)?.as_str()?.to_owned())
    };
    let known: Vec<(String, &Value)> =
        entries.iter().filter_map(|entry| Some((field(entry, "version")?, entry))).collect();
    let chosen = choose(known.iter().map(|(version, _)| version.as_str()), wanted)?;
    let found = chosen.and_then(|chosen| known.iter().find(|(version, _)| version == chosen));
    let Some((version, entry)) = found else {
        let (chart, wanted) = (chart.to_owned(), wanted.to_owned());
        return Err(IndexError::NoVersion { chart, wanted });
    };
    let url = entry.get("urls").and_then(|urls| urls.get(0)).and_then(Value::as_str);
    let Some(url) = url else {
        return Err(IndexError::NoUrl { chart: chart.to_owned(), version: version.clone() });
    };
    let digest =
        field(entry, "digest").map(|digest| digest.trim_start_matches("sha256:").to_owned());
    Ok(Entry {
        version: version.clone(),
        url: url.to_owned(),
        digest: digest.filter(|digest| !digest.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "
apiVersion: v1
entries:
  other: [{version: 9.9.9, urls: [x]}]
  web:
  - {version: 1.1.0, urls: [charts/web-1.1.0.tgz], digest: 'sha256:ab'}
  - {version: 2.0.0-rc.1, urls: [a]}
  - {version: not a version, urls: [b]}
  - {version: 1.2.0, urls: ['https://cdn.example/web-1.2.0.tgz', c], digest: cd}
  - {version: 1.10.0+build, urls: []}
generated: '2024-01-01T00:00:00Z'
";

    #[test]
    fn versions_are_found_by_text_and_by_constraint() {
        for (wanted, found) in [
            ("1.1.0", "1.1.0"),
            ("~1.1", "1.1.0"),
            ("^1.0.0 <1.10", "1.2.0"),
            (">=2.0.0-0", "2.0.0-rc.1"),
            ("not a version", "not a version"),
        ] {
            assert_eq!(find(INDEX, "web", wanted).unwrap().version, found, "{wanted}");
        }
        let entry = find(INDEX, "web", "1.1.0").unwrap();
        assert_eq!(
            (entry.url.as_str(), entry.digest.as_deref()),
            ("charts/web-1.1.0.tgz", Some("ab"))
        );
    }

    #[test]
    fn nothing_and_latest_mean_the_newest_stable_one() {
        for wanted in ["", "latest", "*"] {
            let error = find(INDEX, "web", wanted).unwrap_err();
            assert!(
                matches!(error, IndexError::NoUrl { ref version, .. } if version == "1.10.0+build")
            );
        }
    }

    #[test]
    fn what_is_not_there() {
        for (chart, wanted, text) in [
            ("none", "", "chart none not found"),
            ("web", "3.x", "not found"),
            ("web", "one", "improper constraint"),
        ] {
            let error = find(INDEX, chart, wanted).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        for text in ["", "[]", "entries: []", "entries: {web: {}}", "entries: {web: null}", "- "] {
            assert_eq!(find(text, "web", ""), Err(IndexError::NoChart("web".into())), "{text}");
        }
        assert!(matches!(find("entries: {a: [", "web", ""), Err(IndexError::Yaml(_))));
    }

    #[test]
    fn what_does_not_move() {
        for (wanted, exact) in [
            ("1.2.3", true),
            ("v1.2.3", true),
            ("1.2", false),
            ("1.2.3-rc.1", false),
            ("", false),
            ("^1.2.3", false),
            ("latest", false),
        ] {
            assert_eq!(is_exact(wanted), exact, "{wanted}");
        }
    }
}
