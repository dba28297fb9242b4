//! Reads the Secrets and what carries the authority (`target.rs`), decides, writes. Everything it writes carries the
//! resourceVersion it read, so that two writers never undo each other unseen.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use vela_cluster::{Rounds, rounds};

use crate::Config;
use crate::issue::{IssueError, Key};
use crate::renew::{AuthoritySecret, Plan, ServingSecret, State, decide};
use crate::target::Carriers;

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
    carriers: Carriers,
}

/// Keeps the certificate and what carries its authority right until the token is cancelled. For the leader only:
/// two of these would take turns, without harm, but also without use.
pub async fn run(client: Client, config: Config, stop: CancellationToken) {
    let apis = Apis {
        secrets: Api::namespaced(client.clone(), &config.namespace),
        carriers: Carriers::new(client, &config.target),
    };
    let mut rounds = Rounds::new(stop)
        .watching(&apis.secrets, &config.secret)
        .watching(&apis.secrets, &config.ca_secret());
    rounds = apis.carriers.watched(rounds);
    loop {
        let after = match round(&apis, &config).await {
            Ok(again) => Some(again.map_or(rounds::PERIOD, |at| {
                Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
            })),
            Err(error) => {
                let secret = &config.secret;
                let error = vela_cluster::error::chain(&error);
                warn!(secret, error, "serving certificate not settled, trying again");
                None
            }
        };
        if !rounds.next(after).await {
            return;
        }
    }
}

/// One reconcile and its consequences; returns when to reconcile again.
async fn round(apis: &Apis, config: &Config) -> Result<Option<Timestamp>, Error> {
    let ca_secret = config.ca_secret();
    let (authority, serving, carried) = tokio::try_join!(
        apis.secrets.get_opt(&ca_secret),
        apis.secrets.get_opt(&config.secret),
        apis.carriers.read(),
    )?;
    let state = State {
        authority: authority.as_ref().map(read_authority),
        serving: serving.as_ref().map(read_serving),
        bundles: carried.bundles(config),
    };
    let plan = decide(&state, &config.hosts(), Timestamp::now())?;
    if let Some(reason) = plan.reason {
        info!(secret = config.secret, reason, "serving certificate changes");
    }
    write_secrets(apis, config, authority, serving, &plan).await?;
    apis.carriers.write(carried, config, &plan.bundle).await?;
    Ok(plan.again)
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
