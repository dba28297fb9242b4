//! The drain of HTTP/1.1 connections: after SIGTERM each answer closes its connection.
//!
//! The API server speaks HTTP/1.1 to webhooks and keeps its connections. One that we close while it
//! sends the next request is a failed admission, because a POST is not sent again. So between
//! SIGTERM and the end every answer over HTTP/1.1 has the header `connection: close`. HTTP/2 has
//! its own message for this (GOAWAY).

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::{CONNECTION, HeaderValue};
use tokio_util::sync::CancellationToken;

/// Closes connections with their next answer once `stop` is cancelled.
pub(crate) fn when(stop: CancellationToken, router: Router) -> Router {
    router.layer(from_fn_with_state(stop, answer))
}

async fn answer(State(stop): State<CancellationToken>, request: Request, next: Next) -> Response {
    let is_http1 = request.version() == http::Version::HTTP_11;
    let mut response = next.run(request).await;
    if is_http1 && stop.is_cancelled() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use tower::ServiceExt as _;

    #[tokio::test]
    async fn only_http1_and_only_at_the_end() {
        let stop = CancellationToken::new();
        let router = when(stop.clone(), Router::new());
        let header = async |version| {
            let mut request = Request::new(Body::empty());
            *request.version_mut() = version;
            let response = router.clone().oneshot(request).await.unwrap();
            response.headers().get(CONNECTION).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header(http::Version::HTTP_11).await, None);
        stop.cancel();
        assert_eq!(header(http::Version::HTTP_11).await.as_deref(), Some("close"));
        assert_eq!(header(http::Version::HTTP_2).await, None);
    }
}
