//! The flags of this program, and the settings rules see of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use vela_cluster::Acting;
use vela_cluster::flags::KubeFlags;
use vela_seal::KeyHolder;
use vela_serve::flags::{GateFlags, ProcessFlags, duration};
use vela_serve::gates::{GateError, Gates};
use vela_serve::process::Configuration;

const DEFAULT_USER: &str = "kubevela:vela-core";

/// The admission server of KubeVela's control plane.
#[derive(Debug, Parser)]
#[command(name = "vela-webhook", version)]
#[allow(clippy::struct_excessive_bools, reason = "flags of an existing program")]
pub struct Flags {
    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    kube: KubeFlags,
    #[command(flatten)]
    gates: GateFlags,
    /// Port of the admission endpoints.
    #[arg(long, default_value_t = 9443)]
    webhook_port: u16,
    /// Directory with tls.crt and tls.key.
    #[arg(long, default_value = "/k8s-webhook-server/serving-certs")]
    webhook_cert_dir: PathBuf,
    /// Time to wait for the certificate at the start.
    #[arg(long, default_value = "90s", value_parser = duration)]
    webhook_cert_wait_timeout: Duration,
    /// Interval of checking for it.
    #[arg(long, default_value = "2s", value_parser = duration)]
    webhook_cert_wait_interval: Duration,
    /// Time to keep answering after the signal to stop, until clients have noticed that this
    /// replica is no longer ready.
    #[arg(long, default_value = "0s", value_parser = duration)]
    shutdown_delay_duration: Duration,
    /// Maximum time of a review, whatever timeout it has: the timeout of the webhook
    /// configurations.
    #[arg(long, default_value = "10s", value_parser = duration)]
    webhook_max_timeout: Duration,
    /// File with the authority of client certificates: only clients with one of its certificates may
    /// send reviews. Empty: all clients may.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// Accepted and without effect: this program is the webhook.
    #[arg(long, default_value_t = true)]
    use_webhook: bool,
    /// Namespace of the built-in definitions.
    #[arg(long, default_value = "vela-system")]
    system_definition_namespace: String,
    /// Stamp the user's name, not only groups.
    #[arg(long)]
    authentication_with_user: bool,
    /// Identity with which the controller acts for Applications without a valid stamp.
    #[arg(long, default_value = DEFAULT_USER)]
    authentication_default_user: String,
    /// Groups to stamp: a pattern with `*`.
    #[arg(long, default_value = "kubevela:*")]
    authentication_group_pattern: String,
    /// Group to stamp for cluster administrators, bound to cluster-admin; empty for none.
    #[arg(long, default_value = "")]
    authentication_admin_group: String,
    /// Usernames whose writes are not stamped: the controller's own. May repeat.
    #[arg(long)]
    controller_identity: Vec<String>,
    /// Usernames that are never impersonated: those of the control plane. May repeat.
    #[arg(long)]
    protected_identity: Vec<String>,
    /// Labels and annotations of Applications that their objects do not inherit, as for the controller. Keys of GitOps tools
    /// that objects inherit cause a warning. May repeat; separated by commas.
    #[arg(long, value_delimiter = ',')]
    inherit_exclude: Vec<String>,
    /// Directory with the key that seals stamps: files current and, during its rotation, previous.
    #[arg(long)]
    stamp_key_dir: Option<PathBuf>,
    /// Assign new Applications to shards.
    #[arg(long)]
    enable_sharding: bool,
    /// Shards to assign to, comma-separated; empty means the discovered shards.
    #[arg(long, value_delimiter = ',')]
    schedulable_shards: Vec<String>,
    /// Only who may `use` a shard (resource `shards` of core.oam.dev, cluster-wide) can put an Application on it; an edit of the
    /// label by others leaves it as it was.
    #[arg(long)]
    restrict_shards: bool,
    /// Scope of the objects that ref-objects may name: namespace, cluster or global.
    #[arg(long, default_value = "global")]
    ref_objects_available_scope: String,
    /// Applications may name member clusters.
    #[arg(long)]
    enable_cluster_gateway: bool,
    /// The namespace of the Secrets of clusters.
    #[arg(long, default_value = "vela-system")]
    cluster_secret_namespace: String,
    /// Rewrite old CUE syntax before it is checked.
    #[arg(long, default_value_t = true)]
    enable_cue_version_compatibility: bool,
    /// Concurrent evaluations of reviews; 0 means the number of processors.
    #[arg(long, default_value_t = 0)]
    webhook_concurrency: usize,
}

/// How far ref-objects may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The Application's namespace.
    Namespace,
    /// The control plane's cluster.
    Cluster,
    /// Anywhere.
    #[default]
    Global,
}

/// What rules see of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Feature gates.
    pub gates: Gates,
    /// Namespace of the built-in definitions.
    pub system_namespace: String,
    /// Stamp user names.
    pub with_user: bool,
    /// The identity of Applications that are not stamped.
    pub default_user: String,
    /// Which groups are stamped.
    pub group_pattern: String,
    /// Stamped for administrators; empty for none.
    pub admin_group: String,
    /// Not stamped.
    pub exempt_users: Vec<String>,
    /// Never impersonated.
    pub protected_users: Vec<String>,
    /// Labels and annotations that objects do not get from their Application.
    pub not_inherited: vela_api::KeyPatterns,
    /// What stamps are sealed with.
    pub keys: KeyHolder,
    /// Sharding is on.
    pub sharding: bool,
    /// Shards to choose from.
    pub shards: Vec<String>,
    /// Authors need a right to choose a shard.
    pub restrict_shards: bool,
    /// How far ref-objects may reach.
    pub ref_scope: Scope,
    /// There may be other clusters; which, only the controller knows.
    pub several_clusters: bool,
    /// Where the controller notes them.
    pub cluster_namespace: String,
    /// What one evaluation may take.
    pub evaluation_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gates: Gates::default(),
            system_namespace: "vela-system".to_owned(),
            with_user: false,
            default_user: DEFAULT_USER.to_owned(),
            group_pattern: "kubevela:*".to_owned(),
            admin_group: String::new(),
            exempt_users: Vec::new(),
            protected_users: Vec::new(),
            not_inherited: vela_api::KeyPatterns::default(),
            keys: KeyHolder::default(),
            sharding: false,
            shards: Vec::new(),
            restrict_shards: false,
            ref_scope: Scope::Global,
            several_clusters: false,
            cluster_namespace: "vela-system".to_owned(),
            evaluation_bytes: vela_render::Limits::default().bytes,
        }
    }
}

impl Settings {
    /// As whom the controller acts, which has the same flags.
    pub fn acting(&self) -> Acting {
        Acting {
            authenticate: self.gates.authenticate_application,
            default_user: self.default_user.clone(),
            admin_group: self.admin_group.clone(),
            protected: self.protected_users.clone(),
        }
    }
}

/// The configuration of the process, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Probes, metrics, logs.
    pub process: ProcessFlags,
    /// The API server.
    pub kube: KubeFlags,
    /// What rules see.
    pub settings: Settings,
    /// Port of the endpoints.
    pub port: u16,
    /// Directory of the certificate.
    pub cert_dir: PathBuf,
    /// How long to wait for it.
    pub cert_wait: Duration,
    /// How often to check.
    pub cert_interval: Duration,
    /// The longest that a review may take.
    pub max_timeout: Duration,
    /// The authority of client certificates, if they are asked for.
    pub client_ca: Option<PathBuf>,
    /// Directory of the stamp key.
    pub stamp_key_dir: Option<PathBuf>,
    /// How long to go on after the signal.
    pub shutdown_delay: Duration,
    /// Rewrite old CUE syntax.
    pub legacy_cue: bool,
    /// Threads that evaluate.
    pub concurrency: usize,
}

/// Why the flags make no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A gate.
    #[error("--feature-gates: {0}")]
    Gate(#[from] GateError),
    /// The time for reviews.
    #[error("--webhook-max-timeout must be positive")]
    MaxTimeout,
    /// The scope.
    #[error("--ref-objects-available-scope: {0:?} is none of namespace, cluster, global")]
    Scope(String),
    /// Nobody to act as: the controller would act as itself, which may read everything.
    #[error("--authentication-default-user must not be empty")]
    DefaultUser,
    /// Applications would be stamped with nothing.
    #[error("--stamp-key-dir is needed with the gate AuthenticateApplication")]
    StampKey,
}

impl Configuration for Config {
    type Flags = Flags;

    fn process(&self) -> &ProcessFlags {
        &self.process
    }

    fn gates(&self) -> &Gates {
        &self.settings.gates
    }
}

impl TryFrom<Flags> for Config {
    type Error = ConfigError;

    fn try_from(flags: Flags) -> Result<Self, ConfigError> {
        let ref_scope = match flags.ref_objects_available_scope.as_str() {
            "namespace" => Scope::Namespace,
            "cluster" => Scope::Cluster,
            "global" => Scope::Global,
            other => return Err(ConfigError::Scope(other.to_owned())),
        };
        if flags.webhook_max_timeout.is_zero() {
            return Err(ConfigError::MaxTimeout);
        }
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let gates = flags.gates.gates()?;
        if flags.authentication_default_user.trim().is_empty() {
            return Err(ConfigError::DefaultUser);
        }
        if gates.authenticate_application && flags.stamp_key_dir.is_none() {
            return Err(ConfigError::StampKey);
        }
        Ok(Self {
            settings: Settings {
                gates,
                system_namespace: flags.system_definition_namespace,
                with_user: flags.authentication_with_user,
                default_user: flags.authentication_default_user,
                group_pattern: flags.authentication_group_pattern,
                admin_group: flags.authentication_admin_group,
                exempt_users: flags.controller_identity,
                protected_users: flags.protected_identity,
                not_inherited: vela_api::KeyPatterns::new(&flags.inherit_exclude),
                keys: KeyHolder::default(),
                sharding: flags.enable_sharding,
                shards: flags.schedulable_shards.into_iter().filter(|s| !s.is_empty()).collect(),
                restrict_shards: flags.restrict_shards,
                ref_scope,
                several_clusters: flags.enable_cluster_gateway,
                cluster_namespace: flags.cluster_secret_namespace,
                evaluation_bytes: vela_render::Limits::default().bytes,
            },
            process: flags.process,
            kube: flags.kube,
            port: flags.webhook_port,
            cert_dir: flags.webhook_cert_dir,
            cert_wait: flags.webhook_cert_wait_timeout,
            cert_interval: flags.webhook_cert_wait_interval,
            max_timeout: flags.webhook_max_timeout,
            client_ca: flags.client_ca_file,
            stamp_key_dir: flags.stamp_key_dir,
            shutdown_delay: flags.shutdown_delay_duration,
            legacy_cue: flags.enable_cue_version_compatibility,
            concurrency: match flags.webhook_concurrency {
                0 => processors,
                n => n,
            },
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
    fn settings_that_would_open_everything_are_refused() {
        const ON: &str = "--feature-gates=AuthenticateApplication=true";
        assert!(config(&[]).is_ok() && config(&[ON, "--stamp-key-dir=/k"]).is_ok());
        for user in ["", " "] {
            let flag = format!("--authentication-default-user={user}");
            let error = config(&[ON, "--stamp-key-dir=/k", &flag]).unwrap_err();
            assert!(error.contains("--authentication-default-user"), "{error}");
        }
        assert!(config(&[ON]).unwrap_err().contains("--stamp-key-dir"));
    }
}
