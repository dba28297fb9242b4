//! From what a Secret says to a client: over https, with limits of its own, behind the gate of its member and the fence.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::{Client, Config};

use super::address::AddressRules;
use super::gate::Gate;
use super::layer::MemberLayer;
use super::secret::Access;
use crate::Error;
use crate::client::ClientOptions;
use crate::error::chain;
use crate::limit::{LimitLayer, TimeoutLayer};
use crate::observe::ObserveLayer;
use crate::transport::transport_to;

/// A client of a member: over https, to addresses that the rules allow, behind its gate.
///
/// # Errors
/// [`Error::Config`]: unusable certificates or keys.
pub(super) fn member_client(
    access: &Access,
    addresses: AddressRules,
    gate: &Arc<Gate>,
    options: &ClientOptions,
) -> Result<Client, Error> {
    let mut config = Config::new(access.uri.clone());
    config.root_cert.clone_from(&access.authorities);
    config.accept_invalid_certs = access.authorities.is_none();
    config.auth_info = access.auth.clone();
    config.connect_timeout = Some(MEMBER_CONNECT);
    config.default_retry = false;
    let agent = HeaderValue::from_str(&options.user_agent)
        .map_err(|_| Error::Config(format!("user agent {:?} is no header", options.user_agent)))?;
    config.headers.push((USER_AGENT, agent));
    let host = access.uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let connections = transport_to(config, Some(addresses))
        .map_err(|error| Error::Config(format!("cannot set up the client: {}", chain(&error))))?;
    let builder = connections
        .with_layer(&TimeoutLayer(options.timeouts))
        .with_layer(&ObserveLayer { host: host.into(), observer: options.observer.clone() })
        .with_layer(&options.fence)
        .with_layer(&MemberLayer(Arc::clone(gate)));
    Ok(if options.qps > 0.0 {
        builder.with_layer(&LimitLayer { qps: options.qps, burst: options.burst }).build()
    } else {
        builder.build()
    })
}

/// An existing client behind the gate of a member.
pub(super) fn gated(client: Client, gate: &Arc<Gate>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let client = client.clone();
        async move {
            let answer = client.send(request).await.map_err(Error::from)?;
            Ok::<_, tower::BoxError>(answer.map(|body| {
                let body = http_body_util::BodyExt::map_err(body, tower::BoxError::from);
                Box::new(body) as Box<kube::client::DynBody>
            }))
        }
    });
    ClientBuilder::new(service, namespace).with_layer(&MemberLayer(Arc::clone(gate))).build()
}

/// How long a connection to a member may take to be made.
const MEMBER_CONNECT: Duration = Duration::from_secs(5);
