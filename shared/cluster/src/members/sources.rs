//! What describes a cluster: its Secret, and what Open Cluster Management says of its name. A Secret with an endpoint says it all;
//! one without is completed by the ManagedCluster of its name; a ManagedCluster alone is a cluster that cannot be reached.
//!
//! Pure: who watches both hands over what came and gets the cluster that it makes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;

use super::managed::Managed;
use super::secret::{Cluster, SecretRules};

/// What is needed to read a cluster again when one of its two sources changes.
#[derive(Default)]
pub struct Sources {
    /// Secrets that do not say where their cluster is.
    incomplete: BTreeMap<String, Secret>,
    /// Names of the others.
    complete: BTreeSet<String>,
    managed: BTreeMap<String, Managed>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("managed", &self.managed.len()).finish_non_exhaustive()
    }
}

/// What became of a name.
#[derive(Debug)]
pub enum Described {
    /// It is this cluster now, with its Secret if there is one.
    As(Box<Cluster>, Option<Box<Secret>>),
    /// Nothing describes it any more.
    Gone,
    /// What it was.
    Unchanged,
}

impl Sources {
    /// A Secret came, or changed.
    pub fn put_secret(&mut self, secret: &Secret, rules: SecretRules) -> Cluster {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let cluster = Cluster::with(secret, self.managed.get(&name), rules);
        let has_endpoint = secret.data.iter().flatten().any(|(key, _)| key == "endpoint");
        // Only one that a ManagedCluster completes is read again.
        if has_endpoint {
            self.incomplete.remove(&name);
            self.complete.insert(name);
        } else {
            self.complete.remove(&name);
            self.incomplete.insert(name, secret.clone());
        }
        cluster
    }

    /// A Secret is gone; what a ManagedCluster says of its name stays.
    pub fn remove_secret(&mut self, name: &str) -> Option<Cluster> {
        self.incomplete.remove(name);
        self.complete.remove(name);
        self.managed.get(name).map(|managed| Cluster::of_managed(name, managed))
    }

    /// All Secrets that there are. Returns the clusters that are described without one.
    pub fn listed(&mut self, listed: &[String]) -> Vec<Cluster> {
        self.incomplete.retain(|name, _| listed.contains(name));
        self.complete.retain(|name| listed.contains(name));
        let alone = self.managed.iter().filter(|(name, _)| !listed.contains(name));
        alone.map(|(name, managed)| Cluster::of_managed(name, managed)).collect()
    }

    /// What Open Cluster Management says of a name; `None`: nothing any more.
    pub fn put_managed(
        &mut self,
        name: &str,
        managed: Option<&Managed>,
        rules: SecretRules,
    ) -> Described {
        match managed {
            Some(managed) => drop(self.managed.insert(name.to_owned(), managed.clone())),
            None => drop(self.managed.remove(name)),
        }
        match (self.incomplete.get(name), managed) {
            (Some(secret), managed) => Described::As(
                Box::new(Cluster::with(secret, managed, rules)),
                Some(Box::new(secret.clone())),
            ),
            // A Secret of the name says it all.
            (None, _) if self.complete.contains(name) => Described::Unchanged,
            (None, Some(managed)) => {
                Described::As(Box::new(Cluster::of_managed(name, managed)), None)
            }
            (None, None) => Described::Gone,
        }
    }

    /// The names that Open Cluster Management knows.
    #[must_use]
    pub fn managed_names(&self) -> Vec<String> {
        self.managed.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::secret::tests::secret;
    use super::*;

    #[test]
    fn a_secret_says_it_all_or_is_completed_and_a_managed_cluster_alone_is_one() {
        let rules = SecretRules::default();
        let read = |data: &[(&str, &str)]| -> Secret {
            serde_json::from_value(secret("edge", "ServiceAccountToken", data)).unwrap()
        };
        let managed = Managed::of(&json!({"metadata": {"uid": "m"}, "spec": {
            "hubAcceptsClient": true, "managedClusterClientConfigs": [{"url": "https://10.0.0.1"}]}}));
        let mut sources = Sources::default();
        let alone = sources.put_managed("edge", managed.as_ref(), rules);
        assert!(matches!(&alone, Described::As(cluster, None) if cluster.access.is_err()));
        assert!(sources.put_secret(&read(&[("token", "t")]), rules).access.is_ok());
        let gone = sources.put_managed("edge", None, rules);
        assert!(matches!(&gone, Described::As(it, Some(_)) if it.access.is_err()), "{gone:?}");
        let back = sources.put_managed("edge", managed.as_ref(), rules);
        assert!(matches!(&back, Described::As(it, Some(_)) if it.access.is_ok()), "{back:?}");
        let whole = [("token", "t"), ("endpoint", "https://10.0.0.2")];
        assert!(sources.put_secret(&read(&whole), rules).access.is_ok());
        assert!(matches!(
            sources.put_managed("edge", managed.as_ref(), rules),
            Described::Unchanged
        ));
        assert_eq!(sources.listed(&["edge".to_owned()]).len(), 0);
        assert_eq!(sources.listed(&[]).len(), 1);
        assert!(sources.remove_secret("edge").is_some());
        assert_eq!(sources.managed_names(), ["edge"]);
        assert!(matches!(sources.put_managed("edge", None, rules), Described::Gone));
        assert!(sources.remove_secret("edge").is_none());
    }
}
