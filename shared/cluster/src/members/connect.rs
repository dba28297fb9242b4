//! From what a Secret says to a client: over https, with limits of its own, behind the gate of its member and the fence.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tower::{BoxError, Service};

use super::address::AddressRules;
use super::dynamic::Dynamic;
use super::gate::Gate;
use super::layer::MemberLayer;
use super::secret::{Access, Credential, Unusable};
use crate::Error;
use crate::client::ClientOptions;
use crate::error::chain;
use crate::limit::{LimitLayer, TimeoutLayer};
use crate::observe::ObserveLayer;
use crate::transport::{Connections, Over, Parts, Sharing, connected};

/// A client of a member: over https, to addresses that the rules allow, behind its gate.
///
/// # Errors
/// [`Error::Config`]: unusable certificates or keys, or a command that nobody allowed.
pub(super) fn member_client(
    access: &Access,
    addresses: AddressRules,
    gate: &Arc<Gate>,
    options: &ClientOptions,
) -> Result<Client, Error> {
    let agent = HeaderValue::from_str(&options.user_agent)
        .map_err(|_| Error::Config(format!("user agent {:?} is no header", options.user_agent)))?;
    let host = access.uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let commands = options.exec_credentials.as_deref();
    match way(&Clients, access, Some(agent), addresses, commands)? {
        Way::Fixed(client) => {
            let service = tower::service_fn(move |request| sent(client.clone(), request));
            Ok(behind(ClientBuilder::new(service, DEFAULT_NAMESPACE), gate, options, host))
        }
        Way::Issued(source) => {
            let service = source.service();
            Ok(behind(ClientBuilder::new(service, DEFAULT_NAMESPACE), gate, options, host))
        }
    }
}

/// Connections to a member, with its credential or with one that a command hands out.
#[derive(Clone)]
pub(super) enum Way<C> {
    /// With the credential in the Secret.
    Fixed(C),
    /// With the one of the moment.
    Issued(Arc<Dynamic<C>>),
}

/// What is made over connections to where a Secret says, at addresses that the rules allow, with its authorities, its proxy and
/// its credential. `commands`: the directory of those that hand out credentials. Nothing is sent yet.
///
/// # Errors
/// [`Error::Config`]: unusable certificates or keys, or a credential that a command hands out, without a directory.
pub(super) fn way<O>(
    what: &O,
    access: &Access,
    agent: Option<HeaderValue>,
    addresses: AddressRules,
    commands: Option<&Path>,
) -> Result<Way<O::Made>, Error>
where
    O: Over<Made: Clone> + Clone + Send + Sync + 'static,
{
    let mut config = Config::new(access.uri.clone());
    config.root_cert.clone_from(&access.authorities);
    config.accept_invalid_certs = access.authorities.is_none();
    config.connect_timeout = Some(MEMBER_CONNECT);
    config.default_retry = false;
    config.headers.extend(agent.map(|agent| (USER_AGENT, agent)));
    let (what, proxy) = (what.clone(), access.proxy.clone());
    let connect = move |auth: AuthInfo| {
        let mut config = config.clone();
        config.auth_info = auth;
        connected(what.clone(), config, addresses, proxy.as_ref())
            .map_err(|error| Error::Config(format!("cannot set up the client: {}", chain(&error))))
    };
    match &access.credential {
        Credential::Fixed(auth) => Ok(Way::Fixed(connect((**auth).clone())?)),
        Credential::Exec(exec) => {
            let dir = commands.ok_or_else(|| Error::Config(Unusable::Dynamic.to_string()))?;
            Ok(Way::Issued(Dynamic::new(exec.clone(), dir.to_owned(), Box::new(connect))))
        }
    }
}

/// Clients of a member, before limits.
#[derive(Clone)]
struct Clients;

impl Over for Clients {
    type Made = Client;

    fn over<C: Connections>(self, config: Config, connections: C) -> kube::Result<Client> {
        Ok(Parts(Sharing::Requests).over(config, connections)?.build())
    }
}

async fn sent(client: Client, request: Request<Body>) -> Result<Response<Box<DynBody>>, BoxError> {
    let answer = client.send(request).await.map_err(Error::from)?;
    Ok(answer.map(|body| {
        let body = http_body_util::BodyExt::map_err(body, BoxError::from);
        Box::new(body) as Box<DynBody>
    }))
}

/// Limits, time limits, the fence and the gate before a transport.
fn behind<S>(
    connections: ClientBuilder<S>,
    gate: &Arc<Gate>,
    options: &ClientOptions,
    host: &str,
) -> Client
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
{
    let builder = connections
        .with_layer(&TimeoutLayer(options.timeouts))
        .with_layer(&ObserveLayer {
            host: host.into(),
            cluster: gate.cluster().into(),
            observer: options.observer.clone(),
        })
        .with_layer(&options.fence)
        .with_layer(&MemberLayer(Arc::clone(gate)));
    if options.qps > 0.0 {
        builder.with_layer(&LimitLayer { qps: options.qps, burst: options.burst }).build()
    } else {
        builder.build()
    }
}

/// Of a client without one in its configuration.
const DEFAULT_NAMESPACE: &str = "default";

/// An existing client behind the gate of a member.
pub(super) fn gated(client: Client, gate: &Arc<Gate>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request| sent(client.clone(), request));
    ClientBuilder::new(service, namespace).with_layer(&MemberLayer(Arc::clone(gate))).build()
}

/// How long a connection to a member may take to be made.
const MEMBER_CONNECT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use http::Method;
    use parking_lot::Mutex;

    use super::*;
    use crate::members::Heard;
    use crate::{Error, Leadership};

    /// A process that does not lead writes to no member, and that says nothing of the member.
    #[tokio::test]
    async fn the_fence_stands_before_members_too() {
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&sent);
        let server = tower::service_fn(move |request: Request<Body>| {
            let (seen, line) =
                (Arc::clone(&seen), format!("{} {}", request.method(), request.uri().path()));
            async move {
                seen.lock().push(line);
                let body = http_body_util::BodyExt::map_err(Body::empty(), BoxError::from);
                Ok::<_, BoxError>(Response::new(Box::new(body) as Box<DynBody>))
            }
        });
        let gate = Arc::new(Gate::new("edge", Arc::new(|_, _| {})));
        gate.hear(Heard::Answer(200, Duration::ZERO));
        gate.identify();
        let options = ClientOptions::new("test");
        let client = behind(ClientBuilder::new(server, "default"), &gate, &options, "edge:6443");
        options.fence.guard(Leadership::never());
        let send = async |method: Method| {
            let request =
                Request::builder().method(method).uri("/api/v1/namespaces/a/configmaps/x");
            client.request_text(request.body(Vec::new()).unwrap()).await.map_err(Error::from)
        };
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = send(method).await.unwrap_err();
            assert!(matches!(error, Error::NotLeader), "{error}");
        }
        send(Method::GET).await.unwrap();
        assert_eq!(*sent.lock(), ["GET /api/v1/namespaces/a/configmaps/x"]);
        assert!(gate.open().is_ok());
    }
}
