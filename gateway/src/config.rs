//! The flags of this program. Those that the original has, too, keep their names.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use vela_cluster::flags::KubeFlags;
use vela_cluster::members::{AddressRules, RulesMap, SecretRules};
use vela_serve::flags::{ProcessFlags, duration};
use vela_serve::gates::Gates;
use vela_serve::process::Configuration;

use crate::streams::StreamLimits;

/// The aggregated API of clusters that joined.
#[derive(Debug, Parser)]
#[command(name = "vela-gateway", version)]
pub struct Flags {
    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    kube: KubeFlags,
    /// Port of the API.
    #[arg(long, default_value_t = 9443)]
    secure_port: u16,
    /// Directory with tls.crt and tls.key.
    #[arg(long, default_value = "/etc/k8s-cluster-gateway-certs")]
    cert_dir: PathBuf,
    /// How long to wait for the certificate at the start.
    #[arg(long, default_value = "90s", value_parser = duration)]
    cert_wait_timeout: Duration,
    /// Namespace of the Secrets of clusters.
    #[arg(long, default_value = "vela-system")]
    secret_namespace: String,
    /// Requests reach a cluster as the user who made them, also without `impersonate=true` in the query.
    #[arg(long)]
    client_identity_penetration: bool,
    /// Groups whose members reach every cluster as the credential of its Secret, not as themselves; comma-separated, may repeat.
    #[arg(long, value_delimiter = ',')]
    privileged_groups: Vec<String>,
    /// ConfigMap with rules about identities in all clusters, as NAMESPACE/NAME.
    #[arg(long)]
    cluster_exchange_rules: Option<RulesMap>,
    /// Directory with the commands that Secrets of credential type Dynamic may name.
    #[arg(long)]
    exec_credential_dir: Option<PathBuf>,
    /// What to do with clusters whose certificate cannot be checked: warn or refuse.
    #[arg(long, default_value = "warn")]
    insecure_clusters: String,
    /// Clusters may be at loopback addresses, for tests.
    #[arg(long)]
    allow_loopback_clusters: bool,
    /// Requests of one user to one cluster that may be in flight, with their answers.
    #[arg(long, default_value_t = 64)]
    max_streams_per_user: usize,
    /// Requests of all users to one cluster that may be in flight, with their answers.
    #[arg(long, default_value_t = 512)]
    max_streams_per_cluster: usize,
    /// How long to go on answering after the signal to stop, until clients have noticed that this replica is not ready any
    /// more.
    #[arg(long, default_value = "0s", value_parser = duration)]
    shutdown_delay_duration: Duration,
}

/// The configuration of the process, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Probes, metrics, logs.
    pub process: ProcessFlags,
    /// The API server.
    pub kube: KubeFlags,
    /// Port of the API.
    pub port: u16,
    /// Directory of the certificate.
    pub cert_dir: PathBuf,
    /// How long to wait for it.
    pub cert_wait: Duration,
    /// Namespace of the Secrets of clusters.
    pub namespace: String,
    /// Every request reaches a cluster as its user.
    pub penetrates: bool,
    /// Whose members reach every cluster as its credential.
    pub privileged_groups: Vec<String>,
    /// The ConfigMap with rules about identities.
    pub exchange: Option<RulesMap>,
    /// Where the commands are that hand out credentials.
    pub commands: Option<PathBuf>,
    /// What of Secrets is accepted.
    pub rules: SecretRules,
    /// How many requests may be in flight.
    pub limits: StreamLimits,
    /// How long to go on after the signal.
    pub shutdown_delay: Duration,
    gates: Gates,
}

/// Why the flags make no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The clusters that cannot be checked.
    #[error("--insecure-clusters: {0:?} is none of warn, refuse")]
    Insecure(String),
    /// Secrets of all namespaces are not read.
    #[error("--secret-namespace must not be empty")]
    Namespace,
}

impl Configuration for Config {
    type Flags = Flags;

    fn process(&self) -> &ProcessFlags {
        &self.process
    }

    fn gates(&self) -> &Gates {
        &self.gates
    }
}

impl TryFrom<Flags> for Config {
    type Error = ConfigError;

    fn try_from(flags: Flags) -> Result<Self, ConfigError> {
        let refuse_insecure = match flags.insecure_clusters.as_str() {
            "warn" => false,
            "refuse" => true,
            other => return Err(ConfigError::Insecure(other.to_owned())),
        };
        if flags.secret_namespace.is_empty() {
            return Err(ConfigError::Namespace);
        }
        let addresses = AddressRules { allow_loopback: flags.allow_loopback_clusters };
        Ok(Self {
            process: flags.process,
            kube: flags.kube,
            port: flags.secure_port,
            cert_dir: flags.cert_dir,
            cert_wait: flags.cert_wait_timeout,
            namespace: flags.secret_namespace,
            penetrates: flags.client_identity_penetration,
            privileged_groups: flags
                .privileged_groups
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect(),
            exchange: flags.cluster_exchange_rules,
            commands: flags.exec_credential_dir,
            rules: SecretRules { addresses, refuse_insecure },
            limits: StreamLimits {
                per_user: flags.max_streams_per_user.max(1),
                per_cluster: flags.max_streams_per_cluster.max(1),
            },
            shutdown_delay: flags.shutdown_delay_duration,
            gates: Gates::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(args: &[&str]) -> Result<Config, String> {
        let args = args.iter().map(std::ffi::OsString::from);
        let parsed = vela_serve::flags::parse::<Flags>(args).map_err(|e| e.to_string())?;
        Config::try_from(parsed.flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_checked() {
        let by_default = config(&[]).unwrap();
        assert!(!by_default.rules.refuse_insecure && !by_default.penetrates);
        assert_eq!(by_default.namespace, "vela-system");
        assert!(by_default.privileged_groups.is_empty());
        assert_eq!(config(&["--privileged-groups=a,,b"]).unwrap().privileged_groups, ["a", "b"]);
        assert!(config(&["--insecure-clusters=refuse"]).unwrap().rules.refuse_insecure);
        assert!(config(&["--insecure-clusters=maybe"]).unwrap_err().contains("maybe"));
        assert!(config(&["--cluster-exchange-rules=a/b"]).unwrap().exchange.is_some());
        let error = config(&["--cluster-exchange-rules=rules"]).unwrap_err();
        assert!(error.contains("NAMESPACE/NAME"), "{error}");
        assert!(config(&["--secret-namespace="]).unwrap_err().contains("--secret-namespace"));
    }
}
