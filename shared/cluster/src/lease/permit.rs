//! Permits of a fleet: with several replicas at work a write is allowed for what it is about, not for the process. Whoever works
//! says so with [`within`]; the [`super::Fence`] asks [`Permits`] when the write is about to be sent, and reports when it is over.
//!
//! Every write carries a deadline for the API server, the rest of the session: a write that arrives in time and is served late
//! would be carried out while a successor works.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};

/// What decides which replica works on an Application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// A hash of its name.
    pub bucket: u8,
    /// The pool that its annotation names; empty: none.
    pub pool: Arc<str>,
    /// The shard that its label names; empty: none. A controller of that shard that is no member of the fleet excludes the fleet.
    pub shard: Arc<str>,
}

/// What a write is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The process itself: its events, its credentials.
    #[default]
    Process,
    /// What is done once for the whole fleet.
    Lead,
    /// One Application, of which everything is known that was written.
    Application(Arc<Assignment>),
    /// An Application that was taken over, and of which what is cached may be older than its predecessor's last write: it may be
    /// decided about, and not written for.
    Unread(Arc<Assignment>),
}

/// What refused a write for which there was a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// Its deadline passed. Whether it was carried out before is known only if the API server said so.
    Deadline,
    /// The API server has another version of the object than the one that the write is bound to.
    Version,
}

impl RefusedBy {
    /// What the status of an answer says.
    pub(super) fn of(method: &Method, code: StatusCode) -> Option<Self> {
        match code {
            StatusCode::GATEWAY_TIMEOUT => Some(Self::Deadline),
            // A creation is bound to no version: its name is taken.
            StatusCode::CONFLICT if method != Method::POST => Some(Self::Version),
            _ => None,
        }
    }
}

/// Who knows what may be written.
pub trait Permits: std::fmt::Debug + Send + Sync {
    /// How long any write may take that is sent now; `None`: none may be sent.
    fn limit(&self) -> Option<Duration>;

    /// A write is about to be sent that may take so long; `None`: it may not be sent.
    fn begin(&self, scope: Scope, time: Duration) -> Option<Sent>;

    /// Whether a write that had a permit may still be sent, and then take so long.
    fn holds(&self, scope: &Scope, time: Duration) -> bool;

    /// A write that had a permit was refused.
    fn refused(&self, by: RefusedBy);
}

/// A write in flight.
#[must_use = "it ends when this value is dropped"]
pub struct Sent(Option<Box<dyn FnOnce(bool) + Send>>);

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sent")
    }
}

impl Sent {
    /// `end` learns once whether the write was answered. One that was not may still be carried out until its deadline.
    pub fn new(end: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(end)))
    }

    /// The API server answered.
    pub(super) fn answered(mut self) {
        if let Some(end) = self.0.take() {
            end(true);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end(false);
        }
    }
}

tokio::task_local! {
    static SCOPE: Scope;
}

/// Whatever this work writes is about `scope`. Tasks that it spawns are not part of it.
pub fn within<F: Future>(scope: Scope, work: F) -> impl Future<Output = F::Output> {
    SCOPE.scope(scope, work)
}

/// What the current work is about.
pub(super) fn current() -> Scope {
    SCOPE.try_with(Clone::clone).unwrap_or_default()
}

/// Longest deadline of a write.
const MAX_DEADLINE: Duration = Duration::from_secs(15);
/// Between the moment at which the deadline is written into a request and the one at which the request is sent.
const SLACK: Duration = Duration::from_millis(250);

/// The deadline of a write that is prepared while it may take `left`.
pub(super) fn deadline(left: Duration) -> Duration {
    left.saturating_sub(SLACK).min(MAX_DEADLINE)
}

/// The same address with a deadline, as the API server reads it.
pub(super) fn with_deadline(uri: &Uri, time: Duration) -> Option<Uri> {
    let path = uri.path();
    let timeout = format!("timeout={}ms", time.as_millis());
    let path = match uri.query() {
        Some(query) if !query.is_empty() => format!("{path}?{query}&{timeout}"),
        _ => format!("{path}?{timeout}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_queries() {
        let second = Duration::from_millis(1_500);
        for (uri, expected) in [
            (
                "/api/v1/namespaces/a/configmaps/b",
                "/api/v1/namespaces/a/configmaps/b?timeout=1500ms",
            ),
            ("/x?dryRun=All", "/x?dryRun=All&timeout=1500ms"),
            ("https://host:1/x?", "https://host:1/x?timeout=1500ms"),
        ] {
            let uri = uri.parse().expect("a URI");
            assert_eq!(with_deadline(&uri, second).expect("a URI").to_string(), expected);
        }
        assert_eq!(deadline(Duration::from_secs(60)), MAX_DEADLINE);
        assert_eq!(deadline(SLACK), Duration::ZERO);
    }
}
