//! A ServiceAccount's credentials: tokens from the TokenRequest API, renewed before they end, put on every request of a client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::Error;

/// What is asked for; the API server may grant another time.
const LIFETIME: Duration = Duration::from_secs(3600);
/// The shortest time between two tries to renew a token that still works.
const RETRY: Duration = Duration::from_secs(10);

/// A ServiceAccount that a client acts as.
pub struct ServiceAccount {
    accounts: Api<v1::ServiceAccount>,
    namespace: String,
    name: String,
    token: Mutex<Option<Token>>,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount({self})")
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    renew: Instant,
    end: Instant,
}

impl Token {
    /// A fifth of its life before its end it is renewed.
    fn new(text: &str, lifetime: Duration, asked: Instant) -> Result<Self, Error> {
        let mut header = HeaderValue::try_from(format!("Bearer {text}"))
            .map_err(|_| Error::Transport("the token is no header".to_owned()))?;
        header.set_sensitive(true);
        Ok(Self { header, renew: asked + lifetime.mul_f64(0.8), end: asked + lifetime })
    }
}

impl ServiceAccount {
    /// An account whose tokens a client may ask for: it needs `create` of `serviceaccounts/token`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            accounts: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            token: Mutex::default(),
        }
    }

    /// The header with a token that works now. Who comes while one is asked for waits for it.
    ///
    /// # Errors
    /// There is no such account, or its token may not be asked for.
    pub async fn header(&self) -> Result<HeaderValue, Error> {
        let mut kept = self.token.lock().await;
        let now = Instant::now();
        if let Some(token) = kept.as_ref().filter(|token| now < token.renew) {
            return Ok(token.header.clone());
        }
        match (self.request_token(now).await, kept.as_mut()) {
            (Ok(token), _) => Ok(kept.insert(token).header.clone()),
            (Err(error), Some(old)) if now < old.end => {
                tracing::warn!(account = %self, %error, "the token could not be renewed yet");
                old.renew = now + RETRY;
                Ok(old.header.clone())
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn request_token(&self, now: Instant) -> Result<Token, Error> {
        let seconds = i64::try_from(LIFETIME.as_secs()).ok();
        let spec = TokenRequestSpec { expiration_seconds: seconds, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let answer = self
            .accounts
            .create_token_request(&self.name, &PostParams::default(), &request)
            .await
            .map_err(Error::from)?;
        let granted =
            answer.spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lifetime = granted.map_or(LIFETIME, Duration::from_secs);
        let status = answer.status.ok_or_else(|| {
            Error::Transport("the API server answered without a token".to_owned())
        })?;
        Token::new(&status.token, lifetime, now)
    }

    /// The API server does not accept this token: the next request asks for another. The account
    /// may have been deleted and created again.
    async fn refused(&self, header: &HeaderValue) {
        let mut kept = self.token.lock().await;
        if kept.as_ref().is_some_and(|token| token.header == *header) {
            *kept = None;
        }
    }
}

/// Puts an account's token on every request; without an account it does nothing.
#[derive(Clone, Debug)]
pub(crate) struct AccountLayer(pub(crate) Option<Arc<ServiceAccount>>);

impl<S> Layer<S> for AccountLayer {
    type Service = As<S>;

    fn layer(&self, inner: S) -> Self::Service {
        As { inner, account: self.0.clone(), asking: None, header: None }
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<HeaderValue, Error>> + Send>>;

/// The service behind [`AccountLayer`]: not ready until it has a token, or knows that there is none.
pub(crate) struct As<S> {
    inner: S,
    account: Option<Arc<ServiceAccount>>,
    asking: Option<Asking>,
    header: Option<Result<HeaderValue, Error>>,
}

impl<S, B, C> Service<Request<B>> for As<S>
where
    C: Send,
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if let Some(account) = self.account.as_ref().filter(|_| self.header.is_none()) {
            let asking = self.asking.get_or_insert_with(|| {
                let account = Arc::clone(account);
                Box::pin(async move { account.header().await })
            });
            // An error here would end the client for good; it belongs to the one request.
            self.header = Some(ready!(asking.as_mut().poll(cx)));
            self.asking = None;
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(account) = self.account.clone() else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let header = match self.header.take() {
            Some(Ok(header)) => header,
            Some(Err(error)) => {
                let text = format!("no token of ServiceAccount {account}: {error}");
                return Box::pin(async move { Err(text.into()) });
            }
            None => return Box::pin(async { Err("called before it was ready".into()) }),
        };
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                account.refused(&header).await;
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use parking_lot::Mutex;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;
    use crate::fake::fake;

    /// An API server whose n-th token is `tN`, for an hour, until it has given `most`.
    fn account(most: usize) -> Arc<ServiceAccount> {
        let given = Mutex::new(0);
        let (client, _) = fake(move |method, path, _| {
            assert_eq!(
                (method, path),
                (&Method::POST, "/api/v1/namespaces/n/serviceaccounts/a/token")
            );
            let mut given = given.lock();
            *given += 1;
            if *given > most {
                return (
                    403,
                    json!({"kind": "Status", "code": 403, "message": "not yours", "reason": "Forbidden", "status": "Failure"}),
                );
            }
            let token = json!({
                "metadata": {}, "spec": {"audiences": [], "expirationSeconds": 3600},
                "status": {"token": format!("t{given}"), "expirationTimestamp": "2026-01-01T00:00:00Z"},
            });
            (201, token)
        });
        Arc::new(ServiceAccount::new(client, "n", "a"))
    }

    async fn token(account: &ServiceAccount) -> String {
        match account.header().await {
            Ok(header) => header.to_str().unwrap().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_kept_and_renewed_in_time() {
        let account = account(2);
        assert_eq!(token(&account).await, "Bearer t1");
        for (minutes, now) in [
            (47, "Bearer t1"),
            (2, "Bearer t2"),
            // from here on there are no more
            (47, "Bearer t2"),
            (2, "Bearer t2"),
            (20, "not yours"),
        ] {
            tokio::time::advance(Duration::from_secs(60 * minutes)).await;
            assert_eq!(token(&account).await, now, "after {minutes} minutes");
        }
    }

    #[tokio::test]
    async fn a_refused_token_is_not_used_again_and_an_error_ends_one_request() {
        let layer = AccountLayer(Some(account(2)));
        let mut service = layer.layer(tower::service_fn(|request: Request<()>| async move {
            let code = if request.headers()[AUTHORIZATION] == "Bearer t1" { 401 } else { 200 };
            Ok::<_, BoxError>(Response::builder().status(code).body(()).unwrap())
        }));
        let mut codes = Vec::new();
        for _ in 0..3 {
            let answer = service.ready().await.unwrap().call(Request::new(())).await;
            codes.push(answer.unwrap().status().as_u16());
        }
        assert_eq!(codes, [401, 200, 200]);
        let mut service =
            AccountLayer(Some(account(0))).layer(tower::service_fn(|_: Request<()>| async {
                Ok::<_, BoxError>(Response::new(()))
            }));
        for _ in 0..2 {
            let answer = service.ready().await.unwrap().call(Request::new(())).await;
            let text = answer.unwrap_err().to_string();
            assert_eq!(text, "no token of ServiceAccount n/a: not yours");
        }
    }
}
