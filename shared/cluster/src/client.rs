//! From credentials to a client: configuration, rate limit, timeouts, user agent; and waiting until
//! the API server and our kinds are there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::account::{AccountLayer, ServiceAccount};
use crate::error::chain;
use crate::lease::Fence;
use crate::limit::{LimitLayer, TimeoutLayer};
use crate::observe::{ObserveLayer, RequestObserver};
use crate::transport::{Transport, transport};
use crate::{Discovery, Error, Identity};

/// How a client connects and behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// A kubeconfig file. Without it: `$KUBECONFIG` as given in `kubeconfig_env`, else the Pod's
    /// credentials, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The value of `$KUBECONFIG`, if it is set.
    pub kubeconfig_env: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one.
    pub context: Option<String>,
    /// A ServiceAccount instead of the configured credentials: a controller's own identity.
    pub account: Option<Arc<ServiceAccount>>,
    /// Requests per second; 0 or less means no limit.
    pub qps: f64,
    /// Requests at once.
    pub burst: u32,
    /// `vela-controller/<version>` or `vela-webhook/<version>`.
    pub user_agent: String,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Everything as somebody else.
    pub identity: Identity,
    /// Receives every answer.
    pub observer: Option<RequestObserver>,
    /// Who may write. Clients of cloned options stand behind the same one.
    pub fence: Fence,
    /// The directory of the commands that Secrets of other clusters may name for credentials; `None`: they may name none.
    pub exec_credentials: Option<PathBuf>,
}

impl ClientOptions {
    /// The reference's defaults under a user agent.
    #[must_use]
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self {
            kubeconfig: None,
            kubeconfig_env: None,
            context: None,
            account: None,
            qps: 50.0,
            burst: 100,
            user_agent: user_agent.into(),
            timeouts: Timeouts::default(),
            identity: Identity::own(),
            observer: None,
            fence: Fence::default(),
            exec_credentials: None,
        }
    }

    /// For the lease: renewals never queue behind other requests and give up in time. Whoever does not lead must write it.
    #[must_use]
    pub fn for_lease(&self, renew_deadline: Duration) -> Self {
        let limit = renew_deadline / 2;
        Self {
            qps: 0.0,
            timeouts: Timeouts { request: limit, list: limit, mutating: limit },
            identity: Identity::own(),
            account: None,
            fence: Fence::default(),
            ..self.clone()
        }
    }

    /// For one controller under a ServiceAccount of its own.
    #[must_use]
    pub fn as_account(&self, controller: &str, account: Arc<ServiceAccount>) -> Self {
        let user_agent = format!("{}/{controller}", self.user_agent);
        Self { user_agent, account: Some(account), ..self.clone() }
    }
}

/// Time until an answer must be complete, by class of request. A watch has no end: it must begin in the time of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// get and everything else that reads one thing.
    pub request: Duration,
    /// list, and the beginning of a watch.
    pub list: Duration,
    /// create, update, patch, delete.
    pub mutating: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            list: Duration::from_secs(30),
            mutating: Duration::from_secs(15),
        }
    }
}

/// Reads the configuration and builds a client. Nothing is sent yet.
///
/// # Errors
/// [`Error::Config`] in one line: which file, and what is wrong with it.
pub async fn connect(options: &ClientOptions) -> Result<Client, Error> {
    let config = configuration(options).await?;
    build(config, options)
}

/// The configuration: where the API server is and who we are.
///
/// # Errors
/// [`Error::Config`] in one line.
pub async fn configuration(options: &ClientOptions) -> Result<Config, Error> {
    let explicit = options.kubeconfig.as_ref().or(options.kubeconfig_env.as_ref());
    let mut config = if let Some(path) = explicit {
        let wrong = |error: &dyn std::error::Error| {
            Error::Config(format!("kubeconfig {}: {}", path.display(), chain(error)))
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(&error))?;
        let choice =
            KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &choice).await.map_err(|error| wrong(&error))?
    } else {
        match Config::incluster() {
            Ok(config) => config,
            Err(in_cluster) => {
                let choice = KubeConfigOptions {
                    context: options.context.clone(),
                    ..KubeConfigOptions::default()
                };
                Config::from_kubeconfig(&choice).await.map_err(|error| {
                    Error::Config(format!(
                        "no credentials: not in a Pod ({}), and no usable kubeconfig ({})",
                        chain(&in_cluster),
                        chain(&error)
                    ))
                })?
            }
        }
    };
    if options.account.is_some() {
        config.auth_info = kube::config::AuthInfo::default();
    }
    // Retries are decided by who made the request: some must not be repeated after a lost lease.
    config.default_retry = false;
    let agent = HeaderValue::from_str(&options.user_agent)
        .map_err(|_| Error::Config(format!("user agent {:?} is no header", options.user_agent)))?;
    config.headers.push((USER_AGENT, agent));
    let identity = options
        .identity
        .headers()
        .map_err(|_| Error::Config(format!("{:?} cannot be impersonated", options.identity)))?;
    config.headers.extend(identity.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(config)
}

/// A client from a configuration, with the limits of the options.
///
/// # Errors
/// [`Error::Config`]: unusable certificates, keys or proxies.
pub fn build(config: Config, options: &ClientOptions) -> Result<Client, Error> {
    let host = config.cluster_url.authority().map(http::uri::Authority::as_str);
    let host = host.unwrap_or_default().to_owned();
    let connections = transport(config)
        .map_err(|error| Error::Config(format!("cannot set up the client: {}", chain(&error))))?;
    Ok(layered(connections, &host, options))
}

/// What is between a request and the connections. Whatever lets requests wait is above the fence.
pub(crate) fn layered(
    connections: ClientBuilder<Transport>,
    host: &str,
    options: &ClientOptions,
) -> Client {
    let builder = connections
        .with_layer(&TimeoutLayer(options.timeouts))
        .with_layer(&ObserveLayer {
            cluster: "".into(),
            host: host.into(),
            observer: options.observer.clone(),
        })
        .with_layer(&options.fence)
        .with_layer(&AccountLayer(options.account.clone()));
    if options.qps > 0.0 {
        builder.with_layer(&LimitLayer { qps: options.qps, burst: options.burst }).build()
    } else {
        builder.build()
    }
}

/// Pauses between tries that grow up to a bound.
#[derive(Clone, Copy, Debug)]
struct Pause {
    next: Duration,
    most: Duration,
}

impl Pause {
    const fn new() -> Self {
        Self { next: Duration::from_millis(250), most: Duration::from_secs(5) }
    }

    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        pause
    }
}

/// Waits; whether it was stopped in the meantime.
async fn is_stopped_within(wait: Duration, stop: &CancellationToken) -> bool {
    tokio::time::timeout(wait, stop.cancelled()).await.is_ok()
}

/// Waits until the API server answers, saying so in the meantime. `None` if stopped before.
pub async fn wait_for_api_server(
    client: &Client,
    stop: &CancellationToken,
) -> Option<k8s_openapi::apimachinery::pkg::version::Info> {
    let mut pause = Pause::new();
    loop {
        let answer = tokio::select! {
            answer = client.apiserver_version() => answer,
            () = stop.cancelled() => return None,
        };
        match answer {
            Ok(version) => {
                info!(version = version.git_version, "the API server answers");
                return Some(version);
            }
            Err(error) => {
                let wait = pause.next();
                warn!(error = %Error::from(error), retry_in = ?wait, "waiting for the API server");
                if is_stopped_within(wait, stop).await {
                    return None;
                }
            }
        }
    }
}

/// Waits until a ServiceAccount has a token, saying so in the meantime. `false` if stopped before.
pub async fn wait_for_token(account: &ServiceAccount, stop: &CancellationToken) -> bool {
    let mut pause = Pause::new();
    loop {
        let answer = tokio::select! {
            answer = account.header() => answer,
            () = stop.cancelled() => return false,
        };
        let Err(error) = answer else { return true };
        let wait = pause.next();
        warn!(%account, %error, retry_in = ?wait, "waiting for the token of a ServiceAccount");
        if is_stopped_within(wait, stop).await {
            return false;
        }
    }
}

/// Waits until all kinds (API version, kind) are served, naming those that are not. `false` if
/// stopped before.
pub async fn wait_for_kinds(
    discovery: &Discovery,
    kinds: &[(&str, &str)],
    stop: &CancellationToken,
) -> bool {
    let mut pause = Pause::new();
    let mut reported = Vec::new();
    loop {
        let mut missing = Vec::new();
        let mut failure = None;
        for (api_version, kind) in kinds {
            match discovery.resolve(api_version, kind).await {
                Ok(_) => {}
                Err(error) => {
                    if !error.is_not_found() {
                        failure = Some(error);
                    }
                    missing.push(format!("{kind}.{api_version}"));
                }
            }
        }
        if missing.is_empty() {
            return true;
        }
        if missing != reported || failure.is_some() {
            let missing = missing.join(", ");
            match failure {
                Some(error) => warn!(%missing, %error, "waiting for kinds to be served"),
                None => warn!(%missing, "waiting for CustomResourceDefinitions to be installed"),
            }
        }
        reported = missing;
        if is_stopped_within(pause.next(), stop).await {
            return false;
        }
        discovery.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unreadable_kubeconfig_is_one_clear_line() {
        let options = ClientOptions {
            kubeconfig: Some("/does/not/exist".into()),
            ..ClientOptions::new("vela-controller/test")
        };
        let error = connect(&options).await.err().expect("no such file");
        let text = error.to_string();
        assert!(text.starts_with("kubeconfig /does/not/exist: "), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(error.class(), crate::Class::Failed);
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut pause = Pause::new();
        let pauses: Vec<u128> = (0..7).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    }
}
