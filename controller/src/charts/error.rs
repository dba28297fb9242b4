//! Errors of fetching a chart. No text contains anything that a server said, for whoever reads it may not be allowed to
//! ask that server.

use vela_helm::index::IndexError;

use super::auth::AuthError;
use vela_helm::request::SourceError;

/// Why there is no archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// What the Application names is no source of charts.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The credentials cannot be used.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// An address that is none.
    #[error("{url:?} is no address of a chart: {reason}")]
    Url {
        /// The text.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Plain HTTP is not allowed here.
    #[error("{0}: charts are fetched over https only (--helm-plain-http)")]
    PlainHttp(String),
    /// The server cannot be reached, or the egress rule closes it.
    #[error("{url}: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// In words.
        reason: String,
    },
    /// The server answers something else.
    #[error("{url}: HTTP {status}{}", meaning(*.status))]
    Status {
        /// Where.
        url: String,
        /// The code.
        status: u16,
    },
    /// The answer is larger than it may be.
    #[error("{url}: larger than {most} bytes")]
    TooLarge {
        /// Where.
        url: String,
        /// What is allowed.
        most: usize,
    },
    /// The server took too long.
    #[error("{url}: no answer within {seconds} s")]
    Timeout {
        /// Where.
        url: String,
        /// Seconds that it had.
        seconds: u64,
    },
    /// Too many redirects.
    #[error("{url}: more than {most} redirects")]
    Redirects {
        /// Where it began.
        url: String,
        /// What is allowed.
        most: usize,
    },
    /// The repository has no such chart, or no index at all.
    #[error("repository {repository}: {error}")]
    Index {
        /// The repository.
        repository: String,
        /// What is wrong.
        error: IndexError,
    },
    /// The registry has no such version.
    #[error("version {wanted:?} of {reference} not found")]
    NoVersion {
        /// The chart.
        reference: String,
        /// The version or constraint.
        wanted: String,
    },
    /// The registry answers something that is no chart.
    #[error("{reference}: {reason}")]
    Registry {
        /// The chart.
        reference: String,
        /// In words.
        reason: &'static str,
    },
    /// The archive is not what was announced.
    #[error("{url}: the archive has digest {found}, announced is {wanted}")]
    Digest {
        /// Where.
        url: String,
        /// What was announced.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The fetch itself failed.
    #[error("{0}: the fetch was given up")]
    GivenUp(String),
}

impl FetchError {
    /// Whether somebody has to change something before it helps to try again.
    #[must_use]
    pub const fn is_mistake(&self) -> bool {
        matches!(self, Self::Source(_) | Self::Auth(_) | Self::Url { .. } | Self::PlainHttp(_))
    }
}

const fn meaning(status: u16) -> &'static str {
    match status {
        401 => " (credentials are missing or wrong)",
        403 => " (forbidden)",
        404 => " (not found)",
        _ => "",
    }
}
