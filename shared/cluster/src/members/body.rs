//! How much of an answer is read: a member may be anybody's, and what it sends is not kept without a bound.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Buf as _, Bytes, Frame, SizeHint};
use tower::BoxError;

use super::layer::{is_discovery, is_object};
use crate::Error;

/// The most of an answer about one object, in bytes: several times what an API server stores.
const OBJECT: usize = 8 << 20;
/// The most of a page of a list, and of whatever else is read at once, in bytes.
const LIST: usize = 64 << 20;
/// The most of what a member says it serves, and of its version, in bytes: several times what the largest ones say.
const DISCOVERY: usize = 4 << 20;
/// The most of one event of a watch, in bytes.
const EVENT: usize = 8 << 20;

/// Whether a request begins a watch.
pub(crate) fn is_watch(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "watch" | "watch=true" | "watch=1"))
}

/// What is read of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// So many bytes in all.
    Whole(usize),
    /// So many bytes from one line to the next.
    Line(usize),
}

impl Limit {
    /// Of the answer to a request.
    pub(super) fn of(path: &str, query: &str) -> Self {
        let is_watch = is_watch(query);
        let is_log = path.ends_with("/log");
        match () {
            () if is_watch => Self::Line(EVENT),
            () if path == "/version" || is_discovery(path) => Self::Whole(DISCOVERY),
            () if is_log || !is_object(path) => Self::Whole(LIST),
            () => Self::Whole(OBJECT),
        }
    }

    /// A body that ends with an error where it is longer.
    pub(super) fn around<B>(self, body: B) -> Bounded
    where
        B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
    {
        Bounded { body: body.boxed_unsync(), limit: self, read: 0 }
    }
}

/// A body with a limit.
pub(super) struct Bounded {
    body: UnsyncBoxBody<Bytes, BoxError>,
    limit: Limit,
    /// Bytes in all, or since the last end of a line.
    read: usize,
}

impl Bounded {
    /// Whether some more bytes are too many.
    fn exceeds(&mut self, data: &[u8]) -> bool {
        match self.limit {
            Limit::Whole(most) => {
                self.read = self.read.saturating_add(data.len());
                self.read > most
            }
            Limit::Line(most) => {
                for part in data.split_inclusive(|byte| *byte == b'\n') {
                    self.read = self.read.saturating_add(part.len());
                    if self.read > most {
                        return true;
                    }
                    if part.ends_with(b"\n") {
                        self.read = 0;
                    }
                }
                false
            }
        }
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && self.exceeds(data.chunk())
        {
            let (Limit::Whole(most) | Limit::Line(most)) = self.limit;
            let text = format!("an answer of more than {most} bytes was not read");
            return Poll::Ready(Some(Err(Error::Transport(text).into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::StreamBody;

    use super::*;

    #[test]
    fn limits_are_those_of_the_request() {
        for (path, query, limit) in [
            ("/api/v1/namespaces/n/configmaps/a", "", Limit::Whole(OBJECT)),
            ("/api/v1/namespaces/n/configmaps", "limit=100", Limit::Whole(LIST)),
            ("/apis/apps/v1", "", Limit::Whole(DISCOVERY)),
            ("/version", "", Limit::Whole(DISCOVERY)),
            ("/api/v1/configmaps", "limit=1&watch=true", Limit::Line(EVENT)),
            ("/api/v1/namespaces/n/pods/a/log", "", Limit::Whole(LIST)),
        ] {
            assert_eq!(Limit::of(path, query), limit, "{path}?{query}");
        }
    }

    #[tokio::test]
    async fn what_is_longer_is_an_error_and_lines_start_again() {
        let read = async |limit: Limit, parts: &[&'static str]| {
            let frames: Vec<_> = parts
                .iter()
                .map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from_static(part.as_bytes()))))
                .collect();
            let body = limit.around(StreamBody::new(stream::iter(frames)));
            body.collect().await.map(|all| all.to_bytes().len()).ok()
        };
        assert_eq!(read(Limit::Whole(6), &["abc", "def"]).await, Some(6));
        assert_eq!(read(Limit::Whole(5), &["abc", "def"]).await, None);
        assert_eq!(read(Limit::Line(4), &["abc\nde", "f\nabc"]).await, Some(11));
        assert_eq!(read(Limit::Line(3), &["abc", "d"]).await, None);
        assert_eq!(read(Limit::Line(3), &["ab\nabcd"]).await, None);
    }
}
