//! Why a request had no result, and what that says about what was asked.

use std::time::Duration;

/// What a request without a result says about what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The API server refused the request: nothing was written.
    Refused,
    /// It was not handled, or the answer was lost: overload, an outage, a cache that is still being filled. It is sent again
    /// later, not before the time that the API server asked for, and is no failed attempt of whoever asked.
    Retry(Option<Duration>),
    /// Something is wrong, and whether something was written is not known.
    Failed,
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
        /// Kind, as in manifests.
        kind: String,
        /// The group and version.
        api_version: String,
    },
    /// The objects of a kind could not be listed within the time a caller waits.
    #[error("objects of kind {kind} ({api_version}) could not be listed yet")]
    NotListed {
        /// Kind, as in manifests.
        kind: String,
        /// The group and version.
        api_version: String,
        /// What the last error says.
        class: Class,
    },
    /// The first list of the objects of a kind takes longer than a caller waits.
    #[error("objects of kind {kind} ({api_version}) are still being listed")]
    Listing {
        /// Kind, as in manifests.
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
        /// The API server's sentence.
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
    /// A member is not asked as long as it does not answer its probe.
    #[error("cluster {cluster} is not reachable since {since}: {why}")]
    Unreachable {
        /// Its name.
        cluster: String,
        /// Since when, RFC 3339.
        since: String,
        /// How the last probe failed.
        why: String,
    },
    /// A command gave no credential for a member.
    #[error("failed to issue credential from external command: {0}")]
    Credential(String),
    /// This process does not lead (any more) and must not write.
    #[error("not the leader: nothing was written")]
    NotLeader,
}

impl Error {
    /// What it says about the request.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::NotListed { class, .. } => *class,
            Self::Listing { .. }
            | Self::Timeout { .. }
            | Self::Transport(_)
            | Self::Unreachable { .. }
            | Self::Credential(_)
            | Self::NotLeader => Class::Retry(None),
            // Of server errors only those that mean overload or an outage; others may be an admission webhook that is wrong
            // for good.
            Self::Api { code: 408 | 429 | 502..=504, retry_after, .. } => {
                Class::Retry(*retry_after)
            }
            Self::Api { code: 500.., retry_after: Some(after), .. } => Class::Retry(Some(*after)),
            Self::Api { code: 400..500, .. } => Class::Refused,
            // A CustomResourceDefinition may come.
            Self::NoSuchKind { .. } | Self::Config(_) | Self::Api { .. } => Class::Failed,
        }
    }

    /// The same error. One that says that a request is too large also says what was sent and how large that is, and is a refusal
    /// whoever said so: of etcd's answer the API server makes a failure of its own (kubernetes#74600), and does not say of what.
    #[must_use]
    pub(crate) fn sized(self, kind: &str, name: &str, bytes: usize) -> Self {
        match self {
            Self::Api { code, message, retry_after, .. } if is_too_large(code, &message) => {
                let message = format!("{message} ({kind} {name}: {bytes} bytes were sent)");
                Self::Api {
                    code: 413,
                    reason: "RequestEntityTooLarge".to_owned(),
                    message,
                    retry_after,
                }
            }
            other => other,
        }
    }

    /// Whether what was sent is too large to be stored.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.code() == Some(413)
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
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { code: 404, .. } | Self::NoSuchKind { .. })
    }

    /// The same error where it proves nothing: the request is repeated.
    #[must_use]
    pub fn unproven(self) -> Self {
        Self::Transport(format!("unproven: {self}"))
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

    /// The object changed in the meantime, or a precondition does not hold.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { code: 409, reason, .. } if reason != "AlreadyExists")
    }
}

/// Whether an answer of this code and text says that a request is too large: the API server's own limit, etcd's, and that of the
/// connection between the two.
fn is_too_large(code: u16, message: &str) -> bool {
    let is_of_etcd = ["etcdserver: request is too large", "trying to send message larger than max"];
    code == 413 || code == 500 && is_of_etcd.iter().any(|text| message.contains(text))
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
pub fn chain(error: &dyn std::error::Error) -> String {
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
        let after = |seconds| Some(Duration::from_secs(seconds));
        let timeout = Error::Timeout { what: String::new(), after: Duration::ZERO };
        let (kind, api_version) = ("A".to_owned(), "v1".to_owned());
        for (error, class) in [
            (api(422, "Invalid", None), Class::Refused),
            (api(400, "BadRequest", None), Class::Refused),
            (api(403, "Forbidden", None), Class::Refused),
            (api(404, "NotFound", None), Class::Refused),
            (api(409, "Conflict", None), Class::Refused),
            (api(408, "Timeout", None), Class::Retry(None)),
            (api(429, "TooManyRequests", Some(3)), Class::Retry(after(3))),
            (api(429, "TooManyRequests", None), Class::Retry(None)),
            (api(500, "InternalError", None), Class::Failed),
            (api(500, "ServerTimeout", Some(1)), Class::Retry(after(1))),
            (api(502, "BadGateway", None), Class::Retry(None)),
            (api(503, "ServiceUnavailable", Some(1)), Class::Retry(after(1))),
            (api(504, "Timeout", None), Class::Retry(None)),
            (timeout, Class::Retry(None)),
            (Error::Transport(String::new()), Class::Retry(None)),
            (Error::NotLeader, Class::Retry(None)),
            (Error::Config(String::new()), Class::Failed),
            (
                Error::NoSuchKind { kind: kind.clone(), api_version: api_version.clone() },
                Class::Failed,
            ),
            (
                Error::Listing { kind: kind.clone(), api_version: api_version.clone() },
                Class::Retry(None),
            ),
            (Error::NotListed { kind, api_version, class: Class::Refused }, Class::Refused),
        ] {
            assert_eq!(error.class(), class, "{error:?}");
        }
        assert!(api(404, "NotFound", None).is_not_found());
        assert!(api(409, "AlreadyExists", None).is_already_exists());
        assert!(!api(409, "AlreadyExists", None).is_conflict());
        assert!(api(409, "Conflict", None).is_conflict());
    }

    /// With the texts of Kubernetes 1.33 and etcd 3.5.
    #[test]
    fn what_is_too_large_is_reported_with_its_size() {
        let api = |code, message: &str| Error::Api {
            code,
            reason: String::new(),
            message: message.to_owned(),
            retry_after: None,
        };
        let own = "Request entity too large: limit is 3145728";
        let etcd = "etcdserver: request is too large";
        let grpc = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097279 vs. 2097152)";
        for (code, text) in [(413, own), (500, etcd), (500, grpc)] {
            let error = api(code, text).sized("ResourceTracker", "a-v1-n", 1_700_000);
            let expected = format!("{text} (ResourceTracker a-v1-n: 1700000 bytes were sent)");
            assert_eq!(
                (error.to_string(), error.code(), error.class()),
                (expected, Some(413), Class::Refused)
            );
        }
        for (code, text) in [(500, "an admission webhook failed"), (422, etcd)] {
            let error = api(code, text).sized("ResourceTracker", "a-v1-n", 1);
            assert_eq!((error.to_string(), error.code()), (text.to_owned(), Some(code)));
        }
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
            assert_eq!((error.to_string().as_str(), error.class()), (text, Class::Retry(None)));
        }
    }
}
