//! Follows the ConfigMap with the rules about identities in all clusters. Until it was read, and as long as it cannot be
//! followed, no Application gets into another cluster under anybody's name: a mistake gives no right.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tracing::{info, warn};
use vela_cluster::members::{ExchangeError, ExchangeRules};

use super::access::Access;

/// Why there are no rules to follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rules about identities in ConfigMap {map}: {why}")]
pub struct NoRules {
    map: String,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("they were not read yet")]
    NotRead,
    #[error("there is no such ConfigMap")]
    Missing,
    #[error("it has more than one key")]
    Several,
    #[error("key {0}: {1}")]
    Wrong(String, ExchangeError),
}

/// Follows a ConfigMap for ever.
pub(super) async fn follow(access: &Access, client: Client, (namespace, name): (&str, &str)) {
    let set = |rules: Result<ExchangeRules, Why>| {
        let map = format!("{namespace}/{name}");
        let rules = rules.map_err(|why| NoRules { map, why });
        match &rules {
            Ok(_) => info!(namespace, name, "rules about identities are followed"),
            Err(error) => warn!(%error, "nobody acts in other clusters under a name"),
        }
        access.exchange(rules);
    };
    set(Err(Why::NotRead));
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api, config).default_backoff());
    let mut is_there = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => is_there = false,
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => {
                is_there = true;
                set(read(&map));
            }
            Ok(watcher::Event::InitDone) if is_there => {}
            Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => set(Err(Why::Missing)),
            // What was read last holds.
            Err(error) => warn!(%error, "watch of the rules about identities failed, trying again"),
        }
    }
}

/// The rules of a ConfigMap, which stand under one key, whatever its name.
fn read(map: &ConfigMap) -> Result<ExchangeRules, Why> {
    let mut texts = map.data.iter().flatten().filter(|(_, text)| !text.trim().is_empty());
    match (texts.next(), texts.next()) {
        (None, _) => Ok(ExchangeRules::default()),
        (Some((key, text)), None) => {
            ExchangeRules::read(text).map_err(|error| Why::Wrong(key.clone(), error))
        }
        _ => Err(Why::Several),
    }
}

#[cfg(test)]
pub(super) fn missing(map: &str) -> NoRules {
    NoRules { map: map.to_owned(), why: Why::Missing }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_key_has_the_rules() {
        let rules =
            "{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration}";
        for (data, part) in [
            (json!({}), ""),
            (json!({"a": ""}), ""),
            (json!({"a": rules, "b": " "}), ""),
            (json!({"a": rules, "b": rules}), "more than one key"),
            (json!({"a": "["}), "key a: it cannot be read"),
        ] {
            let map = serde_json::from_value(json!({ "data": data })).unwrap();
            match read(&map) {
                Ok(_) => assert_eq!(part, "", "{data}"),
                Err(why) => assert!(!part.is_empty() && why.to_string().contains(part), "{why}"),
            }
        }
    }
}
