//! Reads the Secrets and configurations, decides, writes. Everything it writes carries the
//! resourceVersion it read, so that two writers never undo each other unseen.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration,
    WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use vela_cluster::{Rounds, rounds};

use crate::Config;
use crate::issue::{IssueError, Key};
use crate::renew::{AuthoritySecret, Plan, ServingSecret, State, decide};

/// When a certificate was made, on both Secrets.
const SINCE: &str = "certificates.core.oam.dev/since";

/// Why a round failed. The next one follows with backoff.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server.
    #[error("the API server refused")]
    Kube(#[source] Box<kube::Error>),
    /// A certificate could not be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

struct Apis {
    secrets: Api<Secret>,
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
}

/// Keeps certificate and configurations right until the token is cancelled. For the leader only:
/// two of these would take turns, without harm, but also without use.
pub async fn run(client: Client, config: Config, stop: CancellationToken) {
    let apis = Apis {
        secrets: Api::namespaced(client.clone(), &config.namespace),
        mutating: Api::all(client.clone()),
        validating: Api::all(client),
    };
    let mut rounds = Rounds::new(stop)
        .watching(&apis.secrets, &config.secret)
        .watching(&apis.secrets, &config.ca_secret())
        .watching(&apis.mutating, &config.configuration)
        .watching(&apis.validating, &config.configuration);
    loop {
        let after = match round(&apis, &config).await {
            Ok(again) => Some(again.map_or(rounds::PERIOD, |at| {
                Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
            })),
            Err(error) => {
                warn!(error = %Chain(&error), "admission certificate not settled, trying again");
                None
            }
        };
        if !rounds.next(after).await {
            return;
        }
    }
}

struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// One reconcile and its consequences; returns when to reconcile again.
async fn round(apis: &Apis, config: &Config) -> Result<Option<Timestamp>, Error> {
    let ca_secret = config.ca_secret();
    let (authority, serving, mutating, validating) = tokio::try_join!(
        apis.secrets.get_opt(&ca_secret),
        apis.secrets.get_opt(&config.secret),
        apis.mutating.get_opt(&config.configuration),
        apis.validating.get_opt(&config.configuration),
    )?;
    let mut mutating = mutating;
    let mut validating = validating;
    let mut bundles = Vec::new();
    for client in ours(config, &mut mutating, &mut validating) {
        let bytes = client.ca_bundle.as_ref().map(|bytes| bytes.0.clone()).unwrap_or_default();
        bundles.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let state = State {
        authority: authority.as_ref().map(read_authority),
        serving: serving.as_ref().map(read_serving),
        bundles,
    };
    let plan = decide(&state, &config.hosts(), Timestamp::now())?;
    if let Some(reason) = plan.reason {
        info!(reason, "admission certificate changes");
    }
    write_secrets(apis, config, authority, serving, &plan).await?;
    let is_changed = set_bundles(config, &mut mutating, &mut validating, &plan.bundle);
    if is_changed.0
        && let Some(mutating) = mutating
    {
        let name = mutating.name_any();
        apis.mutating.replace(&name, &PostParams::default(), &mutating).await?;
        info!(configuration = name, kind = "MutatingWebhookConfiguration", "caBundle set");
    }
    if is_changed.1
        && let Some(validating) = validating
    {
        let name = validating.name_any();
        apis.validating.replace(&name, &PostParams::default(), &validating).await?;
        info!(configuration = name, kind = "ValidatingWebhookConfiguration", "caBundle set");
    }
    Ok(plan.again)
}

fn is_ours(config: &Config, client: &WebhookClientConfig) -> bool {
    matches!(&client.service, Some(ServiceReference { name, namespace, .. })
        if *name == config.service && *namespace == config.namespace)
}

/// The entries that call our Service. Others (a webhook called by URL) are somebody else's.
fn ours<'a>(
    config: &'a Config,
    mutating: &'a mut Option<MutatingWebhookConfiguration>,
    validating: &'a mut Option<ValidatingWebhookConfiguration>,
) -> impl Iterator<Item = &'a mut WebhookClientConfig> {
    let first = mutating.iter_mut().flat_map(|c| c.webhooks.iter_mut().flatten());
    let second = validating.iter_mut().flat_map(|c| c.webhooks.iter_mut().flatten());
    first
        .map(|webhook| &mut webhook.client_config)
        .chain(second.map(|webhook| &mut webhook.client_config))
        .filter(|client| is_ours(config, client))
}

/// Sets the bundle everywhere; says which of the two objects changed.
fn set_bundles(
    config: &Config,
    mutating: &mut Option<MutatingWebhookConfiguration>,
    validating: &mut Option<ValidatingWebhookConfiguration>,
    bundle: &str,
) -> (bool, bool) {
    let set = |client: &mut WebhookClientConfig| {
        let wanted = Some(ByteString(bundle.as_bytes().to_vec()));
        let is_changed = is_ours(config, client) && client.ca_bundle != wanted;
        if is_changed {
            client.ca_bundle = wanted;
        }
        is_changed
    };
    let first = mutating.iter_mut().flat_map(|c| c.webhooks.iter_mut().flatten());
    let first = first.fold(false, |any, webhook| set(&mut webhook.client_config) | any);
    let second = validating.iter_mut().flat_map(|c| c.webhooks.iter_mut().flatten());
    let second = second.fold(false, |any, webhook| set(&mut webhook.client_config) | any);
    (first, second)
}

fn data(secret: &Secret, key: &str) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

fn since(secret: &Secret) -> Option<Timestamp> {
    secret.annotations().get(SINCE)?.parse().ok()
}

fn key(secret: &Secret) -> Option<Key> {
    Some(data(secret, "tls.key")).filter(|key| !key.is_empty()).map(Key)
}

fn read_authority(secret: &Secret) -> AuthoritySecret {
    AuthoritySecret {
        cert: data(secret, "tls.crt"),
        key: key(secret),
        previous: data(secret, "previous.crt"),
        since: since(secret),
    }
}

/// Both layouts: `ca.crt` as cert-manager and we write it, `ca` as the Go chart's jobs do.
fn read_serving(secret: &Secret) -> ServingSecret {
    let ca = Some(data(secret, "ca.crt")).filter(|ca| !ca.is_empty());
    ServingSecret {
        cert: data(secret, "tls.crt"),
        key: key(secret),
        ca: ca.unwrap_or_else(|| data(secret, "ca")),
        since: since(secret),
    }
}

async fn write_secrets(
    apis: &Apis,
    config: &Config,
    authority: Option<Secret>,
    serving: Option<Secret>,
    plan: &Plan,
) -> Result<(), Error> {
    // The authority first: a leaf whose authority is lost could not be distinguished from a foreign one.
    if let Some(next) = &plan.authority {
        let data = [
            ("tls.crt", next.cert.clone()),
            ("tls.key", next.key.clone().map(|key| key.0).unwrap_or_default()),
            ("previous.crt", next.previous.clone()),
        ];
        write(&apis.secrets, authority, &config.ca_secret(), data, next.since).await?;
    }
    if let Some(next) = &plan.serving {
        let data = [
            ("tls.crt", next.cert.clone()),
            ("tls.key", next.key.clone().map(|key| key.0).unwrap_or_default()),
            ("ca.crt", next.ca.clone()),
        ];
        write(&apis.secrets, serving, &config.secret, data, next.since).await?;
    }
    Ok(())
}

async fn write<const N: usize>(
    secrets: &Api<Secret>,
    stored: Option<Secret>,
    name: &str,
    entries: [(&str, String); N],
    since: Option<Timestamp>,
) -> Result<(), Error> {
    let is_new = stored.is_none();
    let mut secret = stored.unwrap_or_else(|| Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Secret::default()
    });
    let labels = secret.labels_mut();
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "vela-controller".to_owned());
    labels.insert("app.kubernetes.io/part-of".to_owned(), "vela-core".to_owned());
    if let Some(since) = since {
        secret.annotations_mut().insert(SINCE.to_owned(), since.to_string());
    }
    let data: &mut BTreeMap<String, ByteString> = secret.data.get_or_insert_default();
    for (key, text) in entries {
        // The older name as well: the certificate jobs of the Go chart, which a rollback brings
        // back, fail without it.
        if key == "ca.crt" {
            data.insert("ca".to_owned(), ByteString(text.clone().into_bytes()));
        }
        data.insert(key.to_owned(), ByteString(text.into_bytes()));
    }
    if is_new {
        secrets.create(&PostParams::default(), &secret).await?;
    } else {
        secrets.replace(name, &PostParams::default(), &secret).await?;
    }
    Ok(())
}
