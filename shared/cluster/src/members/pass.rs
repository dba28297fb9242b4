//! Requests of somebody else to a member: nothing of them is read, repeated or followed, and nothing is added but the
//! credential. HTTP/1.1 only: a connection for each request in flight, so that none waits for another and any may be upgraded.

use std::io;
use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service as _, ServiceBuilder};

use super::address::AddressRules;
use super::connect::{Way, way};
use super::secret::Access;
use crate::Error;
use crate::error::chain;
use crate::transport::{Connections, Over};

/// The body of a request that is passed on.
pub type PassedBody = UnsyncBoxBody<Bytes, BoxError>;

/// How long a connection without a request is kept, and how many of them.
const IDLE: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 4;
/// Bytes of the header of an answer, and of what is read ahead of a slow reader.
const BUFFER: usize = 64 << 10;

/// A member's API server, for who passes requests on. It shows nothing of its credential.
#[derive(Clone)]
pub struct Passage {
    uri: Uri,
    way: Way<Connection>,
}

/// A connection with its credential.
type Connection = BoxCloneSyncService<Request<PassedBody>, Response<Incoming>, BoxError>;

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Passage").field(&self.uri).finish()
    }
}

/// What became of a request that has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// Nobody answered in time while the connection was made.
    #[error("no connection in time: {0}")]
    Late(String),
    /// There is no connection: refused, no name, another certificate than expected.
    #[error("{0}")]
    NotConnected(String),
    /// The connection ended before an answer began.
    #[error("{0}")]
    Cut(String),
}

impl Passage {
    /// To where a Secret says, at addresses that the rules allow. `commands`: the directory of those that hand out credentials.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`]: unusable certificates or keys, or a credential that a command hands out, without a directory.
    pub fn new(
        access: &Access,
        addresses: AddressRules,
        commands: Option<&Path>,
    ) -> Result<Self, Error> {
        let way = way(&Passing, access, None, addresses, commands)?;
        Ok(Self { uri: access.uri.clone(), way })
    }

    /// The address of the API server; its path comes before that of every request.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Sends a request, whose address is absolute. The answer may be an upgrade.
    ///
    /// # Errors
    /// There is no answer.
    pub fn send(
        &self,
        request: Request<PassedBody>,
    ) -> BoxFuture<'static, Result<Response<Incoming>, PassError>> {
        let way = self.way.clone();
        Box::pin(async move {
            let source = match way {
                // It is always ready: connections are made by requests.
                Way::Fixed(mut connection) => {
                    return connection.call(request).await.map_err(|error| failed(error.as_ref()));
                }
                Way::Issued(source) => source,
            };
            let issued = source.connection().await;
            let mut connection =
                issued.map_err(|error| PassError::NotConnected(error.to_string()))?;
            let answer = connection.call(request).await.map_err(|error| failed(error.as_ref()))?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                source.refused().await;
            }
            Ok(answer)
        })
    }
}

/// A connection for requests that are passed on.
#[derive(Clone)]
struct Passing;

impl Over for Passing {
    type Made = Connection;

    fn over<C: Connections>(self, config: Config, connections: C) -> kube::Result<Connection> {
        let https = config.rustls_https_connector_with_connector(connections)?;
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(config.connect_timeout);
        let client: Client<_, PassedBody> = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http1_max_buf_size(BUFFER)
            .build(connector);
        let service = ServiceBuilder::new()
            .option_layer(config.auth_layer()?)
            .map_err(BoxError::from)
            .service(client);
        Ok(BoxCloneSyncService::new(service))
    }
}

/// Why there is no answer.
fn failed(error: &(dyn std::error::Error + Send + Sync + 'static)) -> PassError {
    let text = chain(error);
    let client = error.downcast_ref::<ClientError>();
    match client.is_some_and(ClientError::is_connect) {
        true if is_late(error) => PassError::Late(text),
        true => PassError::NotConnected(text),
        false => PassError::Cut(text),
    }
}

fn is_late(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}
