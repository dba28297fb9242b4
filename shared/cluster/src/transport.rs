//! From a configuration to the service that sends requests.
//!
//! What the client library makes by itself leaves Nagle's algorithm on: the end of a request that takes two packets is held
//! back until the API server has acknowledged its beginning, which it puts off for 40 ms. Go's clients switch it off, too.

use http::{Request, Response};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use kube::{Config, Result};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use tower_http::ServiceExt as _;
use tower_http::decompression::DecompressionLayer;

/// What a client is made of, before limits.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Connections with the credentials, the address and the headers of a configuration; nothing is sent yet.
///
/// # Errors
/// Unusable certificates, keys or headers, or a proxy.
pub fn transport(config: Config) -> Result<ClientBuilder<Transport>> {
    if config.proxy_url.is_some() {
        // Says which proxies this build has, so far none.
        return ClientBuilder::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    // Whoever accepts a connection and then says nothing must not hold a watch for ever.
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
