//! From a configuration to the service that sends requests.
//!
//! What the client library makes by itself leaves Nagle's algorithm on: the end of a request that takes two packets is held
//! back until the API server has acknowledged its beginning, which it delays for 40 ms. Go's clients switch it off, too.
//!
//! A peer that is gone without a word is given up after 45 s: a watch whose API server died would otherwise be blind until the
//! watch itself is over. Connections of HTTP/2 are asked more often: many requests hang on each.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnector;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use kube::{Config, Result};
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};
use tower_http::ServiceExt as _;
use tower_http::decompression::DecompressionLayer;

use crate::lease::Departing;
use crate::members::address::{AddressRules, Resolver};
use crate::members::body::is_watch;
use crate::members::proxy::{Kind as ProxyKind, Proxy};

/// The parts of a client, before limits.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Of a connection over which nothing comes: when the peer is asked whether it is there, and how often.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Of a connection of HTTP/2: how often the peer is asked, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections with the credentials, the address and the headers of a configuration; nothing is sent yet.
///
/// # Errors
/// Unusable certificates, keys or headers, or a proxy.
pub fn transport(config: Config) -> Result<ClientBuilder<Transport>> {
    if config.proxy_url.is_some() {
        // Says which proxies this build has, so far none.
        return ClientBuilder::try_from(config);
    }
    Parts(Sharing::Never).over(config, tcp(None))
}

/// Connections of one kind: straight to the API server, or through a proxy.
pub(crate) trait Connections:
    Service<
        Uri,
        Response: Connection + Read + Write + Unpin + Send + 'static,
        Error: Into<BoxError>,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<C> Connections for C where
    C: Service<
            Uri,
            Response: Connection + Read + Write + Unpin + Send + 'static,
            Error: Into<BoxError>,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// What is made over connections, of whatever kind they are.
pub(crate) trait Over {
    /// What is made.
    type Made;

    /// Makes it.
    fn over<C: Connections>(self, config: Config, connections: C) -> Result<Self::Made>;
}

/// Makes something over connections to addresses that rules allow, through a proxy if there is one; of that the rules are, too.
pub(crate) fn connected<O: Over>(
    what: O,
    config: Config,
    rules: AddressRules,
    proxy: Option<&Proxy>,
) -> Result<O::Made> {
    let tcp = tcp(Some(rules));
    let Some(proxy) = proxy else { return what.over(config, tcp) };
    let uri = proxy.uri.clone();
    match proxy.kind {
        ProxyKind::Http => what.over(config, tunnel(proxy, tcp)),
        ProxyKind::Https => {
            // Of the machine's authorities, without the credential: it is for the cluster only.
            let theirs = Config::new(uri);
            what.over(config, tunnel(proxy, theirs.rustls_https_connector_with_connector(tcp)?))
        }
        ProxyKind::Socks => {
            let socks = SocksV5::new(uri, tcp);
            match proxy.user() {
                Some((user, password)) => what.over(config, socks.with_auth(user, password)),
                None => what.over(config, socks),
            }
        }
    }
}

fn tunnel<C>(proxy: &Proxy, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri.clone(), connector);
    match proxy.authorization() {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// Whether requests share a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each has one of its own, of HTTP/1.1, until it is answered.
    Never,
    /// All but watches share one of HTTP/2 if the server has that: a far server answers many requests without as many handshakes.
    /// How many streams a connection may have is the server's decision, and watches last: they would keep requests waiting.
    Requests,
}

/// The parts of a client.
pub(crate) struct Parts(pub(crate) Sharing);

impl Over for Parts {
    type Made = ClientBuilder<Transport>;

    fn over<C: Connections>(self, config: Config, connections: C) -> Result<Self::Made> {
        let alone = config.rustls_https_connector_with_connector(connections.clone())?;
        let alone = client(&config, alone);
        let shared = match self.0 {
            Sharing::Never => None,
            Sharing::Requests => {
                let mut tls = config.rustls_client_config()?;
                tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
                Some(client(&config, HttpsConnector::from((connections, Arc::new(tls)))))
            }
        };
        let client = tower::service_fn(move |request: Request<Body>| match &shared {
            Some(shared) if !is_watch(request.uri().query().unwrap_or_default()) => {
                shared.request(Departing::request(request))
            }
            _ => alone.request(Departing::request(request)),
        });
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .layer(DecompressionLayer::new().gzip(!config.disable_compression))
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(client)
            .map_response_body(|body| {
                Box::new(http_body_util::BodyExt::map_err(body, BoxError::from)) as Box<DynBody>
            })
            .boxed();
        Ok(ClientBuilder::new(service, config.default_namespace))
    }
}

/// Sends requests over connections that a connector makes.
fn client<C>(config: &Config, connector: C) -> Client<TimeoutConnector<C>, Departing>
where
    C: Service<Uri, Response: Connection + Read + Write + Unpin + Send + 'static> + Clone,
    C: Send + Sync + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    let mut connector = TimeoutConnector::new(connector);
    // For who accepts a connection and then says nothing. That nothing is read is normal: watches are silent for minutes.
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_write_timeout(config.write_timeout);
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

pub(crate) fn tcp(rules: Option<AddressRules>) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver::new(rules));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE_IDLE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    // While a request is not acknowledged nobody asks: it is sent again, by default for a quarter of an hour.
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES));
    connector
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_handshake_that_nobody_answers_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.connect_timeout = Some(Duration::from_millis(50));
        let client = transport(config).unwrap().build();
        let watch = client.request_text(Request::get("/").body(Vec::new()).unwrap());
        let ended = tokio::time::timeout(Duration::from_secs(30), watch).await;
        assert!(ended.expect("it ends").is_err());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_peer_that_is_gone_is_noticed() {
        use rustix::net::sockopt;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("https://{}", listener.local_addr().unwrap());
        let connection = tcp(None).oneshot(uri.parse().unwrap()).await.unwrap();
        let socket = connection.inner();
        assert!(sockopt::socket_keepalive(socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), Duration::from_secs(30));
        assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), Duration::from_secs(5));
        assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), 3);
        assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 45_000);
    }
}
