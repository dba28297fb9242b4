//! The watch of the cluster Secrets: those with the label of a credential type, and those of releases that had none yet. Both are
//! one to whoever follows them; a Secret that goes over from one to the other is never gone in between.
//!
//! Upstream: `kubevela/pkg/multicluster/utils.go` (UpgradeExistingClusterSecret) writes the label at its start; here it is added to
//! what was read.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use futures::{Stream, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use vela_api::names::label;

use crate::{Error, watch};

/// Secrets in one answer to a list.
const PAGE: u32 = 100;
/// The type of Secret that had credentials before the label of their type did.
const TLS: &str = "kubernetes.io/tls";
/// What such a Secret has.
const CERTIFICATE: &str = "X509Certificate";

/// What becomes of cluster Secrets.
#[derive(Debug)]
pub enum SecretEvent {
    /// One came, or changed.
    Put(Box<Secret>),
    /// One is gone.
    Gone(String),
    /// All that there are, by name.
    All(Vec<String>),
    /// A watch does not work. It goes on by itself.
    Failed,
}

/// Which Secrets a watch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Generation {
    /// With the label of a type.
    Typed,
    /// Without.
    Legacy,
}

impl Generation {
    const BOTH: [Self; 2] = [Self::Typed, Self::Legacy];

    fn labels(self) -> String {
        match self {
            Self::Typed => label::CLUSTER_CREDENTIAL_TYPE.to_owned(),
            Self::Legacy => {
                format!("{},!{}", label::CLUSTER_CREDENTIAL, label::CLUSTER_CREDENTIAL_TYPE)
            }
        }
    }

    fn fields(self) -> Option<String> {
        (self == Self::Legacy).then(|| format!("type={TLS}"))
    }

    /// A Secret as if it had the label.
    fn read(self, mut secret: Secret) -> Secret {
        if self == Self::Legacy {
            let labels = secret.metadata.labels.get_or_insert_default();
            labels.insert(label::CLUSTER_CREDENTIAL_TYPE.to_owned(), CERTIFICATE.to_owned());
        }
        secret
    }
}

/// The names of what one watch has brought.
#[derive(Debug, Default)]
struct Names {
    /// Since its last list.
    now: BTreeSet<String>,
    /// Of a list that goes on.
    listed: BTreeSet<String>,
    /// A list was complete.
    complete: bool,
}

/// What both watches have brought.
#[derive(Debug, Default)]
struct Merged(BTreeMap<Generation, Names>);

impl Merged {
    /// Takes in an event of one watch.
    fn take(
        &mut self,
        generation: Generation,
        event: Result<watch::Event<Secret>, watch::WatchError>,
    ) -> Option<SecretEvent> {
        let name = |secret: &Secret| secret.metadata.name.clone().unwrap_or_default();
        let names = self.0.entry(generation).or_default();
        match event {
            Ok(watch::Event::Init) => names.listed.clear(),
            Ok(watch::Event::InitApply(secret)) => {
                names.listed.insert(name(&secret));
                return Some(SecretEvent::Put(Box::new(generation.read(secret))));
            }
            Ok(watch::Event::InitDone) => {
                names.now = std::mem::take(&mut names.listed);
                names.complete = true;
                let is_complete =
                    |generation| self.0.get(&generation).is_some_and(|it| it.complete);
                if Generation::BOTH.into_iter().all(is_complete) {
                    let all = self.0.values().flat_map(|names| names.now.iter().cloned());
                    return Some(SecretEvent::All(all.collect()));
                }
            }
            Ok(watch::Event::Apply(secret)) => {
                names.now.insert(name(&secret));
                return Some(SecretEvent::Put(Box::new(generation.read(secret))));
            }
            Ok(watch::Event::Delete(secret)) => {
                let name = name(&secret);
                names.now.remove(&name);
                let is_left = self.0.values().any(|it| it.now.contains(&name));
                return (!is_left).then_some(SecretEvent::Gone(name));
            }
            Err(_) => return Some(SecretEvent::Failed),
        }
        None
    }
}

type Tagged = (Generation, Result<watch::Event<Secret>, watch::WatchError>);

/// What becomes of the cluster Secrets of a namespace, for ever.
pub struct Secrets {
    events: SelectAll<BoxStream<'static, Tagged>>,
    merged: Merged,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("merged", &self.merged).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Begins to watch.
    #[must_use]
    pub fn follow(api: &Api<Secret>) -> Self {
        let of = |generation: Generation| {
            let mut config = watch::Config::default().labels(&generation.labels()).page_size(PAGE);
            if let Some(fields) = generation.fields() {
                config = config.fields(&fields);
            }
            let events = watch::events("cluster Secrets", api.clone(), config);
            events.map(move |event| (generation, event)).boxed()
        };
        Self { events: stream::select_all(Generation::BOTH.map(of)), merged: Merged::default() }
    }

    /// Lists them.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn list(api: &Api<Secret>) -> Result<Vec<Secret>, Error> {
        let mut all = Vec::new();
        for generation in Generation::BOTH {
            let mut which = ListParams::default().labels(&generation.labels());
            if let Some(fields) = generation.fields() {
                which = which.fields(&fields);
            }
            let listed = api.list(&which).await.map_err(Error::from)?;
            all.extend(listed.items.into_iter().map(|secret| generation.read(secret)));
        }
        Ok(all)
    }
}

impl Stream for Secrets {
    type Item = SecretEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SecretEvent>> {
        loop {
            let Some((generation, event)) = std::task::ready!(self.events.poll_next_unpin(cx))
            else {
                return Poll::Ready(None);
            };
            if let Some(event) = self.merged.take(generation, event) {
                return Poll::Ready(Some(event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(name: &str) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": name}, "type": TLS})).unwrap()
    }

    fn text(event: Option<SecretEvent>) -> String {
        match event {
            None => String::new(),
            Some(SecretEvent::Put(secret)) => {
                let labels = secret.metadata.labels.unwrap_or_default();
                let kind = labels.get(label::CLUSTER_CREDENTIAL_TYPE).cloned().unwrap_or_default();
                format!("{} {kind}", secret.metadata.name.unwrap_or_default())
            }
            Some(SecretEvent::Gone(name)) => format!("{name} is gone"),
            Some(SecretEvent::All(names)) => names.join(","),
            Some(SecretEvent::Failed) => "failed".to_owned(),
        }
    }

    #[test]
    fn secrets_of_both_generations_are_one_list() {
        use Generation::{Legacy, Typed};
        use watch::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut merged = Merged::default();
        for (generation, event, expected) in [
            (Typed, Init, ""),
            (Legacy, Init, ""),
            (Typed, InitApply(secret("new")), "new "),
            (Legacy, InitApply(secret("old")), "old X509Certificate"),
            // Not all of them are known yet.
            (Legacy, InitDone, ""),
            (Typed, InitDone, "new,old"),
            // Somebody puts the label on one: it goes over, in whatever order that is heard.
            (Typed, Apply(secret("old")), "old "),
            (Legacy, Delete(secret("old")), ""),
            (Typed, Delete(secret("old")), "old is gone"),
            (Legacy, Apply(secret("older")), "older X509Certificate"),
            // One of them is listed again.
            (Legacy, Init, ""),
            (Legacy, InitDone, "new"),
        ] {
            assert_eq!(text(merged.take(generation, Ok(event))), expected, "{generation:?}");
        }
    }
}
