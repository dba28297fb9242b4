//! The key that stamps are sealed with, kept in a Secret: made where there is none, read when it changes. Whoever has it can say
//! who wrote an Application, so nothing else is in that Secret.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rustls::crypto::CryptoProvider;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use vela_cluster::{Rounds, rounds};
use vela_seal::{KeyHolder, Keys};
use vela_serve::health::Condition;

/// What is in the Secret: the key that signs, and the one before it, whose seals still count.
const CURRENT: &str = "current";
const PREVIOUS: &str = "previous";
/// The bytes of a new key: as many as SHA-256 takes without hashing them first.
const LENGTH: usize = 64;
/// The time between two checks at the start whether a key was read.
const START: Duration = Duration::from_millis(50);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum NoKey {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the Secret has no entry {CURRENT}")]
    NoEntry,
    #[error(transparent)]
    Key(#[from] vela_seal::KeyError),
    #[error("no cryptography is installed")]
    NoCryptography,
    #[error("no random bytes")]
    NoRandom,
}

/// The Secret and who waits for it.
pub(crate) struct StampKey {
    secrets: Api<Secret>,
    name: String,
    keys: KeyHolder,
}

/// Waits for the key. False if the process ends before.
pub(crate) async fn met(ready: &Condition, stop: &CancellationToken) -> bool {
    while !ready.is_met() {
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(START) => {}
        }
    }
    true
}

impl StampKey {
    pub(crate) fn new(client: Client, namespace: &str, name: String, keys: KeyHolder) -> Self {
        Self { secrets: Api::namespaced(client, namespace), name, keys }
    }

    /// Reads the key, and again whenever the Secret changes, until the token is cancelled. A Secret that cannot be used never
    /// replaces the key that could, and is never written over. `ready` holds once a key was read.
    pub(crate) async fn follow(self, ready: Condition, stop: CancellationToken) {
        let mut rounds = Rounds::new(stop).watching(&self.secrets, &self.name);
        loop {
            let after = match self.round().await {
                Ok(()) => {
                    ready.pass();
                    Some(rounds::PERIOD)
                }
                Err(error) => {
                    warn!(secret = self.name, %error, "no stamp key, trying again");
                    if self.keys.get().is_none() {
                        ready.fail(error.to_string());
                    }
                    None
                }
            };
            if !rounds.next(after).await {
                return;
            }
        }
    }

    async fn round(&self) -> Result<(), NoKey> {
        let secret = match self.secrets.get_opt(&self.name).await? {
            Some(secret) => secret,
            None => self.make().await?,
        };
        let keys = read(&secret)?;
        let id = keys.id().to_owned();
        if self.keys.set(keys) {
            info!(secret = self.name, key = id, "stamp key read");
        }
        Ok(())
    }

    /// A Secret with a new key, or, if it is gone while the process runs, with the key that it had.
    async fn make(&self) -> Result<Secret, NoKey> {
        let held = self.keys.get();
        let data = match held.as_deref().map(Keys::bytes) {
            Some((current, previous)) => data(current, previous),
            None => data(&random()?, None),
        };
        let labels = [
            ("app.kubernetes.io/managed-by", "vela-controller"),
            ("app.kubernetes.io/part-of", "vela-core"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Secret::default()
        };
        match self.secrets.create(&PostParams::default(), &secret).await {
            Ok(made) => {
                info!(secret = self.name, "stamp key stored");
                Ok(made)
            }
            // Another replica was first.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(self.secrets.get(&self.name).await?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn data(current: &[u8], previous: Option<&[u8]>) -> BTreeMap<String, ByteString> {
    let previous = previous.map(|key| (PREVIOUS, key));
    let all = [(CURRENT, current)].into_iter().chain(previous);
    all.map(|(name, key)| (name.to_owned(), ByteString(key.to_vec()))).collect()
}

fn read(secret: &Secret) -> Result<Keys, NoKey> {
    let entry = |name: &str| {
        let bytes = secret.data.as_ref()?.get(name).map(|bytes| bytes.0.as_slice());
        bytes.filter(|bytes| !bytes.is_empty())
    };
    let current = entry(CURRENT).ok_or(NoKey::NoEntry)?;
    Ok(Keys::new(current, entry(PREVIOUS))?)
}

fn random() -> Result<[u8; LENGTH], NoKey> {
    let provider = CryptoProvider::get_default().ok_or(NoKey::NoCryptography)?;
    let mut bytes = [0; LENGTH];
    provider.secure_random.fill(&mut bytes).map_err(|_| NoKey::NoRandom)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_stored_and_no_two_are_alike() {
        vela_serve::tls::install_crypto();
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        let secret = |data| Secret { data: Some(data), ..Secret::default() };
        let keys = read(&secret(data(&one, Some(&other)))).unwrap();
        assert_eq!(keys.bytes(), (one.as_slice(), Some(other.as_slice())));
        assert!(
            read(&secret(data(&one[..31], None))).unwrap_err().to_string().contains("32 bytes")
        );
        assert!(read(&secret(BTreeMap::new())).unwrap_err().to_string().contains("current"));
        assert!(read(&Secret::default()).is_err());
    }
}
