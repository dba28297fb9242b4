//! The identity of requests to the API server: that of the viewer, never that of this server.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use tower::service_fn;
use vela_cluster::ObjectClient;

/// Bytes of a key of this server.
const KEY: usize = 24;
/// A longer token is none.
const MAX_TOKEN: usize = 16 << 10;

/// Who may see what.
pub(super) enum Viewers {
    /// Whoever started the server, under his kubeconfig: others on his machine do not know the key.
    Own { key: String, viewer: Viewer },
    /// Everybody under a bearer token of his own. The client has no credentials.
    Everybody(Client),
}

/// Connections to the API server as one viewer.
#[derive(Clone)]
pub(super) struct Viewer {
    pub(super) client: Client,
    pub(super) objects: Arc<ObjectClient>,
}

impl Viewer {
    pub(super) fn new(client: Client) -> Self {
        Self { objects: Arc::new(ObjectClient::new(client.clone())), client }
    }
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Viewer")
    }
}

impl std::fmt::Debug for Viewers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own { .. } => "Own",
            Self::Everybody(_) => "Everybody",
        })
    }
}

impl Viewers {
    /// The viewer that a credential is of; `None` if it is nobody's. Whether a token is valid is for the API server to say.
    pub(super) fn viewer(&self, credential: &str) -> Option<Viewer> {
        match self {
            Self::Own { key, viewer } => {
                let is_right = verify_slices_are_equal(key.as_bytes(), credential.as_bytes());
                is_right.is_ok().then(|| viewer.clone())
            }
            Self::Everybody(client) => as_bearer(client, credential).map(Viewer::new),
        }
    }
}

/// A key that nobody guesses; `None` without randomness.
pub(super) fn new_key() -> Option<String> {
    let mut bytes = [0; KEY];
    rand::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// The client, with a token in every request. Connections are shared: a token is of a request, not of a connection.
fn as_bearer(client: &Client, token: &str) -> Option<Client> {
    if token.len() > MAX_TOKEN {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        request.headers_mut().insert(AUTHORIZATION, value.clone());
        async move { client.send(request).await }
    });
    Some(Client::new(service, namespace))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn each_request_has_the_token_of_its_viewer() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let service = {
            let seen = Arc::clone(&seen);
            service_fn(move |request: Request<Body>| {
                let value = request.headers().get(AUTHORIZATION).cloned();
                seen.lock().push(value.and_then(|value| value.to_str().ok().map(str::to_owned)));
                async move {
                    let body = br#"{"major":"1","minor":"34","gitVersion":"v1.34.0"}"#.to_vec();
                    Ok::<_, Infallible>(Response::new(Body::from(body)))
                }
            })
        };
        let viewers = Viewers::Everybody(Client::new(service, "default"));
        for token in ["one", "two"] {
            let viewer = viewers.viewer(token).unwrap();
            let request = Request::get("/version").body(Vec::new()).unwrap();
            viewer.client.request_text(request).await.unwrap();
        }
        let expected = ["Bearer one", "Bearer two"].map(|text| Some(text.to_owned()));
        assert_eq!(*seen.lock(), expected);
        assert!(viewers.viewer("a\nb").is_none());
        assert!(viewers.viewer(&"x".repeat(MAX_TOKEN + 1)).is_none());
    }

    #[tokio::test]
    async fn only_the_key_opens_a_kubeconfig() {
        let service = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let key = new_key().unwrap();
        assert_ne!(Some(&key), new_key().as_ref());
        let viewer = Viewer::new(Client::new(service, "default"));
        let viewers = Viewers::Own { key: key.clone(), viewer };
        assert!(viewers.viewer(&key).is_some());
        assert!(viewers.viewer(&key[1..]).is_none() && viewers.viewer("").is_none());
    }
}
