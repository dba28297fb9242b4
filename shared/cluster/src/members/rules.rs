//! The rules about identities of all clusters, as a ConfigMap says now. Until it was read, and as long as it cannot be followed,
//! nobody gets into another cluster under a name: a mistake gives no right.

use std::str::FromStr;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::watch;

use super::exchange::{ExchangeError, ExchangeRules};

/// Where the rules are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesMap {
    namespace: String,
    name: String,
}

/// A text that names no ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME of a ConfigMap")]
pub struct NoMap(String);

impl FromStr for RulesMap {
    type Err = NoMap;

    fn from_str(text: &str) -> Result<Self, NoMap> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NoMap(text.to_owned())),
        }
    }
}

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

/// The rules at a moment, or why none can be followed.
#[derive(Debug)]
pub struct SharedRules {
    map: Option<RulesMap>,
    current: Mutex<Result<ExchangeRules, NoRules>>,
}

impl SharedRules {
    /// Those of a ConfigMap, which is not read yet; without one there are no rules.
    #[must_use]
    pub fn of(map: Option<RulesMap>) -> Self {
        let not_read = |map: &RulesMap| Err(map.without(Why::NotRead));
        let current = map.as_ref().map_or_else(|| Ok(ExchangeRules::default()), not_read);
        Self { map, current: Mutex::new(current) }
    }

    /// The rules.
    ///
    /// # Errors
    /// They cannot be followed.
    pub fn now(&self) -> Result<ExchangeRules, NoRules> {
        self.current.lock().clone()
    }

    /// Follows the ConfigMap for ever.
    pub async fn follow(&self, client: Client) {
        let Some(map) = &self.map else { return std::future::pending().await };
        let api: Api<ConfigMap> = Api::namespaced(client, &map.namespace);
        let config = watch::Config::default().fields(&format!("metadata.name={}", map.name));
        let mut events = std::pin::pin!(watch::events("rules about identities", api, config));
        let mut is_there = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watch::Event::Init) => is_there = false,
                Ok(watch::Event::InitApply(object) | watch::Event::Apply(object)) => {
                    is_there = true;
                    self.take(map, read(&object));
                }
                Ok(watch::Event::InitDone) if is_there => {}
                Ok(watch::Event::InitDone | watch::Event::Delete(_)) => {
                    self.take(map, Err(Why::Missing));
                }
                // What was read last holds.
                Err(_) => {}
            }
        }
    }

    fn take(&self, map: &RulesMap, rules: Result<ExchangeRules, Why>) {
        let rules = rules.map_err(|why| map.without(why));
        match &rules {
            Ok(_) => info!(map.namespace, map.name, "rules about identities are followed"),
            Err(error) => warn!(%error, "nobody acts in other clusters under a name"),
        }
        *self.current.lock() = rules;
    }
}

impl RulesMap {
    fn without(&self, why: Why) -> NoRules {
        NoRules { map: format!("{}/{}", self.namespace, self.name), why }
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

    #[test]
    fn what_was_not_read_lets_nobody_through() {
        assert!(SharedRules::of(None).now().is_ok());
        let map: RulesMap = "n/rules".parse().unwrap();
        let rules = SharedRules::of(Some(map.clone()));
        let error = rules.now().unwrap_err().to_string();
        assert_eq!(error, "rules about identities in ConfigMap n/rules: they were not read yet");
        rules.take(&map, Ok(ExchangeRules::default()));
        assert!(rules.now().is_ok());
        rules.take(&map, Err(Why::Missing));
        assert!(rules.now().is_err());
        for text in ["rules", "/rules", "n/", ""] {
            assert!(text.parse::<RulesMap>().is_err(), "{text}");
        }
    }
}
