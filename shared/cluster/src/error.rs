//! Why a request had no result, and whether trying again makes sense.

use std::time::Duration;

/// Whether and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never: the same request will fail again.
    Never,
    /// Later, with growing pauses.
    Backoff,
    /// After the time the API server asked for.
    After(Duration),
}

/// Why a request had no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be read: kubeconfig, certificates, token.
    #[error("{0}")]
    Config(String),
    /// The API server does not serve the kind.
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\"")]
    NoSuchKind {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },
    /// The objects of a kind could not be listed within the time a caller waits.
    #[error("objects of kind {kind} ({api_version}) could not be listed yet")]
    NotListed {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },
    /// The first list of the objects of a kind takes longer than a caller waits.
    #[error("objects of kind {kind} ({api_version}) are still being listed")]
    Listing {
        /// The kind.
        kind: String,
        /// The group and version.
        api_version: String,
    },
    /// The API server said no.
    #[error("{message}")]
    Api {
        /// HTTP code.
        code: u16,
        /// Machine-readable reason.
        reason: String,
        /// In words.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// No answer in time.
    #[error("{what} got no answer within {}s", after.as_secs_f32())]
    Timeout {
        /// Verb and path.
        what: String,
        /// The time allowed.
        after: Duration,
    },
    /// No answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
    /// This process does not lead (any more) and must not write.
    #[error("not the leader: nothing was written")]
    NotLeader,
}

impl Error {
    /// Whether and when to try again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Config(_) | Self::NotLeader => Retry::Never,
            // A CustomResourceDefinition may come; a member of a refused object may be mended by
            // somebody else (a quota, a webhook, a role): only the form of the request is final.
            Self::NoSuchKind { .. }
            | Self::NotListed { .. }
            | Self::Listing { .. }
            | Self::Timeout { .. }
            | Self::Transport(_) => Retry::Backoff,
            Self::Api { retry_after: Some(after), .. } => Retry::After(*after),
            Self::Api { code: 400 | 405 | 413 | 415 | 422, .. } => Retry::Never,
            Self::Api { .. } => Retry::Backoff,
        }
    }

    /// HTTP code of the API server's answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The object, or its whole kind, does not exist.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Api { code: 404, .. } | Self::NoSuchKind { .. })
    }

    /// Nothing is served at the path, which says nothing about the object.
    #[must_use]
    pub fn is_unserved(&self) -> bool {
        matches!(self, Self::Api { code: 404, reason, .. } if reason != "NotFound")
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Api { reason, .. } if reason == "AlreadyExists")
    }

    /// The object changed meanwhile, or a precondition does not hold.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { code: 409, reason, .. } if reason != "AlreadyExists")
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let seconds = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
                Self::Api {
                    code: status.code,
                    reason: status.reason,
                    message: status.message,
                    retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
                }
            }
            kube::Error::Service(source) => match source.downcast::<Self>() {
                // What our own layers answer passes through kube's client in a box.
                Ok(own) => *own,
                Err(source) => Self::Transport(chain(source.as_ref())),
            },
            kube::Error::InferConfig(_) | kube::Error::InferKubeconfig(_) => {
                Self::Config(chain(&error))
            }
            other => Self::Transport(chain(&other)),
        }
    }
}

/// An error and its causes in one line, without repeating what a message already contains.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, reason: &str, retry_after: Option<u64>) -> Error {
        Error::Api {
            code,
            reason: reason.to_owned(),
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn classification() {
        for (error, retry) in [
            (api(422, "Invalid", None), Retry::Never),
            (api(400, "BadRequest", None), Retry::Never),
            (api(403, "Forbidden", None), Retry::Backoff),
            (api(404, "NotFound", None), Retry::Backoff),
            (api(409, "Conflict", None), Retry::Backoff),
            (api(429, "TooManyRequests", Some(3)), Retry::After(Duration::from_secs(3))),
            (api(500, "InternalError", None), Retry::Backoff),
            (Error::Transport(String::new()), Retry::Backoff),
            (Error::NotLeader, Retry::Never),
            (Error::Config(String::new()), Retry::Never),
        ] {
            assert_eq!(error.retry(), retry, "{error:?}");
        }
        assert!(api(404, "NotFound", None).is_gone());
        assert!(api(409, "AlreadyExists", None).is_already_exists());
        assert!(!api(409, "AlreadyExists", None).is_conflict());
        assert!(api(409, "Conflict", None).is_conflict());
    }

    /// A connection that breaks: before the answer, in the answer, in a watch.
    #[test]
    fn what_breaks_on_the_way_is_tried_again() {
        let broken = || std::io::Error::new(std::io::ErrorKind::TimedOut, "Connection timed out");
        for (error, text) in [
            (kube::Error::Service(Box::new(broken())), "Connection timed out"),
            (
                kube::Error::ReadEvents(std::io::Error::other(kube::Error::Service(Box::new(
                    broken(),
                )))),
                "Error reading events stream: ServiceError: Connection timed out",
            ),
        ] {
            let error = Error::from(error);
            assert_eq!((error.to_string().as_str(), error.retry()), (text, Retry::Backoff));
        }
    }
}
