//! The certificates of servers that the API server calls, the webhook and the aggregated API: issued, renewed, and made known to
//! it.
//!
//! Answers for the certificate jobs of the Go chart (`kube-webhook-certgen`), but as a controller
//! run by the leader of vela-controller instead of hooks of Helm: an emptied caBundle, a deleted
//! Secret or an expired certificate heals within seconds, and renewal happens at all. The webhook
//! itself only reads its mounted Secret.
//!
//! [`decide`](renew::decide) is pure: Secrets and time in, Secrets and bundle out. [`run`] acts.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod bundle;
pub mod issue;
pub mod renew;

mod act;
mod target;

pub use act::{Error, run};

/// Where the API server reads whom it trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// In the webhook configurations of this name, both kinds.
    Webhooks(String),
    /// In the APIService of this name.
    ApiService(String),
}

/// What the certificate is for and where it is kept.
#[derive(Debug, Clone)]
pub struct Config {
    /// Namespace of the Secrets and of the Service.
    pub namespace: String,
    /// The Service the API server calls.
    pub service: String,
    /// The Secret that its Pods mount. The Secret with the CA's key is named like it, with
    /// `-ca` behind.
    pub secret: String,
    /// What carries the authority.
    pub target: Target,
}

impl Config {
    /// The name of the Secret with the CA's key.
    #[must_use]
    pub fn ca_secret(&self) -> String {
        format!("{}-ca", self.secret)
    }

    /// The names the certificate is valid for.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let Self { service, namespace, .. } = self;
        vec![
            service.clone(),
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
        ]
    }
}
