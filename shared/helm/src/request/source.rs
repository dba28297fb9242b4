//! What an Application names as the source of a chart: a chart of a repository, an archive, or a reference in a registry.

use http::Uri;

/// Longest text that is looked at.
const LONGEST: usize = 2048;

/// Where a chart is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A chart of a repository with an `index.yaml`.
    Repository {
        /// The repository, without a slash at its end.
        url: String,
        /// Name of the chart in the index.
        chart: String,
    },
    /// A `.tgz` at an address of its own.
    Archive {
        /// Its address.
        url: String,
    },
    /// A chart in an OCI registry.
    Registry {
        /// Host, and port if there is one.
        host: String,
        /// The path.
        repository: String,
        /// A tag in the reference.
        tag: Option<String>,
        /// A digest in the reference: `sha256:` and 64 hex digits.
        digest: Option<String>,
    },
}

/// A text that is no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A chart name alone.
    #[error(
        "chart.repoURL is required for chart {0:?}: it is neither an address nor an OCI reference"
    )]
    NoRepository(String),
    /// Nothing, or too much.
    #[error("chart.source must have 1 to {LONGEST} characters")]
    Length,
    /// A reference of another form.
    #[error("{0:?} is no OCI reference, such as oci://registry.example/charts/web")]
    Reference(String),
    /// An address of another form.
    #[error("{0:?} is no http or https address")]
    Address(String),
    /// A chart name that cannot be one.
    #[error("{0:?} is no name of a chart")]
    Name(String),
}

impl Source {
    /// Reads `chart.source` and `chart.repoURL`.
    ///
    /// # Errors
    /// Texts of another form. Nothing is asked of any server.
    pub fn read(source: &str, repo_url: Option<&str>) -> Result<Self, SourceError> {
        let source = source.trim();
        let repo_url = repo_url.map(str::trim).filter(|url| !url.is_empty());
        let is_short = |text: &str| text.len() <= LONGEST;
        if source.is_empty() || !is_short(source) || !repo_url.is_none_or(is_short) {
            return Err(SourceError::Length);
        }
        if let Some(reference) = source.strip_prefix("oci://") {
            return registry(reference).ok_or_else(|| SourceError::Reference(source.to_owned()));
        }
        let is_address = source.starts_with("http://") || source.starts_with("https://");
        if is_address || source.ends_with(".tgz") || source.ends_with(".tar.gz") {
            return Ok(Self::Archive { url: address(source)? });
        }
        let Some(repo_url) = repo_url else {
            return Err(SourceError::NoRepository(source.to_owned()));
        };
        if source.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(SourceError::Name(source.to_owned()));
        }
        if let Some(base) = repo_url.strip_prefix("oci://") {
            let reference = format!("{}/{source}", base.trim_end_matches('/'));
            return registry(&reference).ok_or_else(|| SourceError::Reference(repo_url.to_owned()));
        }
        let url = address(repo_url)?.trim_end_matches('/').to_owned();
        Ok(Self::Repository { url, chart: source.to_owned() })
    }

    /// The host that the Application names.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Registry { host, .. } => host,
            Self::Archive { url } | Self::Repository { url, .. } => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                rest.split(['/', '?']).next().unwrap_or_default()
            }
        }
    }

    /// Whether it is a reference in a registry.
    #[must_use]
    pub const fn is_registry(&self) -> bool {
        matches!(self, Self::Registry { .. })
    }

    /// The source in messages; it has no secret parts.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Repository { url, chart } => format!("{url}/{chart}"),
            Self::Archive { url } => url.split('?').next().unwrap_or_default().to_owned(),
            Self::Registry { host, repository, .. } => format!("oci://{host}/{repository}"),
        }
    }
}

/// An address without user and password: credentials belong into a Secret.
fn address(text: &str) -> Result<String, SourceError> {
    let wrong = || SourceError::Address(text.split('@').next_back().unwrap_or_default().to_owned());
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_plain = uri.host().is_some_and(|host| !host.is_empty()) && !authority.contains('@');
    if is_http && is_plain && !text.contains('#') { Ok(text.to_owned()) } else { Err(wrong()) }
}

fn registry(reference: &str) -> Option<Source> {
    let (reference, digest) = match reference.split_once('@') {
        Some((reference, digest)) => (reference, Some(digest)),
        None => (reference, None),
    };
    if !digest.is_none_or(is_digest) {
        return None;
    }
    let (host, path) = reference.split_once('/')?;
    let (path, tag) = match path.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (path, None),
    };
    let host_uri: Uri = format!("https://{host}/").parse().ok()?;
    let is_host = host_uri.host().is_some_and(|host| !host.is_empty());
    if !is_host || !is_repository(path) || !tag.is_none_or(is_tag) {
        return None;
    }
    Some(Source::Registry {
        host: host.to_owned(),
        repository: path.to_owned(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// `sha256:` and 64 hex digits in lower case.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

/// What a registry takes as a tag.
#[must_use]
pub fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    first && text.len() <= 128 && text.bytes().all(inner)
}

fn is_repository(path: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let part = |part: &str| {
        part.bytes().all(inner) && edge(part.bytes().next()) && edge(part.bytes().last())
    };
    path.len() <= 255 && path.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, repo: &str) -> String {
        let repo = Some(repo).filter(|repo| !repo.is_empty());
        match Source::read(source, repo) {
            Ok(source) => format!("{source:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_a_source_is() {
        for (source, repo, want) in [
            (
                "web",
                "https://c.example/stable/",
                r#"Repository { url: "https://c.example/stable", chart: "web" }"#,
            ),
            ("https://c.example/a.tgz", "", r#"Archive { url: "https://c.example/a.tgz" }"#),
            ("http://c.example/a?x=1", "ignored", r#"Archive { url: "http://c.example/a?x=1" }"#),
            (
                "oci://r.example:5000/charts/web",
                "",
                r#"Registry { host: "r.example:5000", repository: "charts/web", tag: None, digest: None }"#,
            ),
            (
                "oci://r.example/web:1.0.0",
                "",
                r#"Registry { host: "r.example", repository: "web", tag: Some("1.0.0"), digest: None }"#,
            ),
            (
                "web",
                "oci://r.example/charts/",
                r#"Registry { host: "r.example", repository: "charts/web", tag: None, digest: None }"#,
            ),
        ] {
            assert_eq!(shown(source, repo), want);
        }
        let digest = format!("sha256:{}", "0a".repeat(32));
        let read = Source::read(&format!("oci://r.example/web@{digest}"), None).unwrap();
        assert!(matches!(read, Source::Registry { digest: Some(found), .. } if found == digest));
    }

    #[test]
    fn what_is_refused_and_why() {
        for (source, repo, want) in [
            ("", "", "1 to 2048"),
            ("web", "", "repoURL is required"),
            ("web", "file:///etc", "no http or https address"),
            ("a.tgz", "", "no http or https address"),
            ("https:///a.tgz", "", "no http or https address"),
            ("https://user:pw@c.example/a.tgz", "", "\"c.example/a.tgz\""),
            ("oci://r.example", "", "no OCI reference"),
            ("oci://r.example/We b", "", "no OCI reference"),
            ("oci://r.example/../v2/x", "", "no OCI reference"),
            ("oci://r.example/web@sha256:xyz", "", "no OCI reference"),
            ("oci://r.example/web:a/b", "", "no OCI reference"),
            ("we b", "https://c.example", "no name of a chart"),
        ] {
            let found = shown(source, repo);
            assert!(found.contains(want) && !found.contains("pw"), "{source}: {found}");
        }
    }
}
