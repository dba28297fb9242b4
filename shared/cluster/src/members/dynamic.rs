//! A connection whose credential a command hands out: it is asked when the first request comes, again shortly before the
//! credential ends, and when the API server refuses it.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::{Body, DynBody};
use kube::config::AuthInfo;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::exec::Exec;
use crate::Error;

/// A credential that is refused is not asked for again before: whoever is not let in would run a command per request.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Makes a connection with a credential.
type Connect<T> = Box<dyn Fn(AuthInfo) -> Result<T, Error> + Send + Sync>;

/// The source of the connections.
pub(super) struct Dynamic<T> {
    exec: Exec,
    dir: PathBuf,
    connect: Connect<T>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    connection: Option<(T, Instant)>,
    /// When the command was last run, and what came of it if it gave no credential.
    asked: Option<(Instant, Option<Error>)>,
}

impl<T: Clone> Dynamic<T> {
    pub(super) fn new(exec: Exec, dir: PathBuf, connect: Connect<T>) -> Arc<Self> {
        let current = Mutex::new(Current { connection: None, asked: None });
        Arc::new(Self { exec, dir, connect, current })
    }

    /// The connection to use now. Who comes while the command runs waits for it.
    pub(super) async fn connection(&self) -> Result<T, Error> {
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some((connection, _)) = current.connection.as_ref().filter(|(_, end)| now < *end) {
            return Ok(connection.clone());
        }
        if let Some((at, Some(error))) = &current.asked
            && at.elapsed() < RETRY_AFTER
        {
            return Err(error.clone());
        }
        let issued = self.exec.issue(&self.dir, Timestamp::now()).await;
        let made = match issued {
            Ok(issued) => (self.connect)(issued.auth).map(|made| (made, issued.lasts)),
            Err(error) => Err(Error::Credential(error.to_string())),
        };
        current.asked = Some((now, made.as_ref().err().cloned()));
        let (connection, lasts) = made?;
        current.connection = Some((connection.clone(), Instant::now() + lasts));
        Ok(connection)
    }

    /// The API server does not take the credential.
    pub(super) async fn refused(&self) {
        let mut current = self.current.lock().await;
        if current.asked.as_ref().is_none_or(|(at, _)| at.elapsed() >= RETRY_AFTER) {
            current.connection = None;
        }
    }
}

impl Dynamic<Client> {
    pub(super) fn service(self: &Arc<Self>) -> Issued {
        Issued(Arc::clone(self))
    }
}

/// Requests with the credential of the moment.
pub(super) struct Issued(Arc<Dynamic<Client>>);

impl Service<Request<Body>> for Issued {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let source = Arc::clone(&self.0);
        Box::pin(async move {
            let client = source.connection().await?;
            let answer = client.send(request).await.map_err(Error::from)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                source.refused().await;
            }
            Ok(answer.map(|body| {
                Box::new(http_body_util::BodyExt::map_err(body, BoxError::from)) as Box<DynBody>
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use parking_lot::Mutex;

    use super::*;

    /// A command that counts its runs, and an API server that takes the tokens with an even number.
    fn dynamic(name: &str, script: &str) -> (Arc<Dynamic<Client>>, PathBuf) {
        let dir = std::env::temp_dir().join(format!("vela-dynamic-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("issue");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let exec =
            Exec::read(r#"{"apiVersion": "client.authentication.k8s.io/v1", "command": "issue"}"#);
        let asked = Mutex::new(0);
        let connect = Box::new(move |auth: AuthInfo| {
            assert!(auth.token.is_some());
            let mut asked = asked.lock();
            *asked += 1;
            let code = if *asked % 2 == 0 { 200 } else { 401 };
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let answer = Response::builder().status(code).body(Body::empty());
                answer.map_err(BoxError::from)
            });
            Ok(Client::new(service, "default"))
        });
        (Dynamic::new(exec.unwrap(), dir.clone(), connect), dir)
    }

    async fn ask(dynamic: &Arc<Dynamic<Client>>) -> Result<u16, String> {
        let answer = dynamic.service().call(Request::new(Body::empty())).await;
        answer.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    }

    const ANSWER: &str = r#"echo run >> runs
        echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t"}}'"#;

    fn runs(dir: &std::path::Path) -> usize {
        std::fs::read_to_string(dir.join("runs")).unwrap_or_default().lines().count()
    }

    #[tokio::test]
    async fn the_command_runs_once_for_many_requests_and_again_for_a_refused_credential() {
        let (dynamic, dir) = dynamic("good", ANSWER);
        let all = futures::future::join_all((0..5).map(|_| ask(&dynamic))).await;
        assert_eq!((all, runs(&dir)), (vec![Ok(401); 5], 1));
        // Refused, but just asked for.
        assert_eq!((ask(&dynamic).await, runs(&dir)), (Ok(401), 1));
        dynamic.current.lock().await.asked = Some((Instant::now() - RETRY_AFTER, None));
        assert_eq!((ask(&dynamic).await, ask(&dynamic).await), (Ok(401), Ok(200)));
        assert_eq!(runs(&dir), 2);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[tokio::test]
    async fn a_command_that_fails_is_not_run_for_every_request_and_says_why() {
        let (dynamic, dir) = dynamic("bad", "echo run >> runs\nexit 3");
        for _ in 0..3 {
            let error = ask(&dynamic).await.unwrap_err();
            assert!(error.contains("issue credential") && error.contains("exit code 3"), "{error}");
        }
        assert_eq!(runs(&dir), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
