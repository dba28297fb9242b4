//! The configuration that the flags of this program (`flags.rs`) make. Flags that `vela-core` has or had and that mean nothing here are accepted with a warning.

mod flags;

use std::path::PathBuf;
use std::time::Duration;

use vela_cluster::Acting;
use vela_cluster::flags::KubeFlags;
use vela_cluster::members::{AddressRules, NoMap, RulesMap, SecretRules};
use vela_serve::flags::ProcessFlags;
use vela_serve::gates::{GateError, Gates};
use vela_serve::process::Configuration;
use vela_shard::{MASTER, has_lease, is_shard_id, pool_of};

use crate::charts::download::Rules;
use crate::context::AllowedTypes;
use crate::egress::policy::Egress;
use crate::fleet::{Pace, Pools};
use crate::queue::Weights;
use crate::registry::{self, Selection};

pub use flags::Flags;

/// The APIService of the aggregated API of clusters.
const CLUSTER_API: &str = "v1alpha1.cluster.core.oam.dev";

/// The configuration of the process, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Probes, metrics, logs.
    pub process: ProcessFlags,
    /// The API server.
    pub kube: KubeFlags,
    /// Feature gates.
    pub gates: Gates,
    /// The serving certificates to keep; none if somebody else does, or their controller is not selected.
    pub certificates: Vec<vela_certs::Config>,
    /// Namespace of the process; empty means the Pod's.
    pub namespace: String,
    /// The election; `None` to lead without one.
    pub election: Option<Election>,
    /// Period of settled Applications.
    pub resync: Duration,
    /// Namespace of the built-in definitions.
    pub system_namespace: String,
    /// Applications reconciled at a time; of each kind of definition it is one.
    pub workers: usize,
    /// What part of them namespaces have while others wait.
    pub namespace_weights: Weights,
    /// Between the starts of two controllers.
    pub start_interval: Duration,
    /// Deadline of one reconcile.
    pub reconcile_timeout: Duration,
    /// ApplicationRevisions kept.
    pub application_revision_limit: usize,
    /// DefinitionRevisions kept.
    pub definition_revision_limit: usize,
    /// ComponentDefinitions get the WorkloadDefinition of their kind.
    pub makes_workload_definitions: bool,
    /// Objects written at a time.
    pub dispatch_concurrency: usize,
    /// Which addresses steps may reach, and where charts may come from.
    pub charts: Rules,
    /// Bounds of the workflow engine.
    pub workflow: vela_workflow::Options,
    /// Objects may be anywhere.
    pub allow_cross_namespace: bool,
    /// Kinds that may be dispatched.
    pub allowed_types: AllowedTypes,
    /// Kinds whose deletion asks first, where an Application says nothing about it.
    pub prune_confirm_kinds: Vec<String>,
    /// `Ready` waits for health.
    pub ready_means_healthy: bool,
    /// What objects do not inherit.
    pub inherit_exclude: Vec<String>,
    /// References stay within the namespace.
    pub refers_to_namespace: bool,
    /// ref-objects may point to other clusters.
    pub refers_to_clusters: bool,
    /// No component revision label.
    pub disable_component_revision: bool,
    /// As whom Applications are applied.
    pub acting: Acting,
    /// The Secret with the key of stamps; empty for none.
    pub stamp_key_secret: String,
    /// Only Applications that require our version.
    pub ignore_without_version: bool,
    /// Only definitions that require our version.
    pub ignore_definitions_without_version: bool,
    /// The shard whose Applications are handled; `None`: all Applications are.
    pub shard: Option<String>,
    /// Several replicas work, each on its share; `None`: one does.
    pub fleet: Option<(Pace, Pools)>,
    /// Its revisions and trackers are labelled with the bucket of their Application.
    pub label_records: bool,
    /// The objects that it dispatches are labelled with the bucket of their Application.
    pub label_objects: bool,
    /// Our version, as Applications see it.
    pub version: String,
    /// Controllers to run.
    pub controllers: Selection,
    /// Each controller has a ServiceAccount of its own.
    pub own_accounts: bool,
    /// The clusters that joined; `None`: only the own one.
    pub clusters: Option<ClusterFlags>,
    /// Rewrite old CUE syntax.
    pub legacy_cue: bool,
    /// Threads for rendering.
    pub render_threads: usize,
}

/// How the clusters that joined are found and reached.
#[derive(Debug, Clone)]
pub struct ClusterFlags {
    /// Where their Secrets are.
    pub namespace: String,
    /// Requests per second to each; 0 or less means no limit.
    pub qps: f64,
    /// Requests at once to each.
    pub burst: u32,
    /// Bytes that the objects watched in one of them may take, about.
    pub cache: usize,
    /// Bytes that those of all of them may take, about.
    pub cache_overall: usize,
    /// Components in clusters that have been away for a while are not healthy.
    pub unreachable_is_unhealthy: bool,
    /// What of the Secrets is accepted.
    pub rules: SecretRules,
    /// Where the commands are that they may name.
    pub exec_dir: Option<PathBuf>,
    /// The ConfigMap with rules about identities.
    pub exchange: Option<RulesMap>,
    /// Administrators act as the credential.
    pub admins_as_credential: bool,
    /// The time between two readings of the metrics of nodes; `None`: they are not read.
    pub metrics: Option<Duration>,
}

/// Who leads.
#[derive(Debug, Clone)]
pub struct Election {
    /// How long a leader is believed.
    pub lease_duration: Duration,
    /// How long it tries to renew.
    pub renew_deadline: Duration,
    /// Pause between tries.
    pub retry_period: Duration,
}

/// Flags that do not fit together or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A feature gate.
    #[error("--feature-gates: {0}")]
    Gate(#[from] GateError),
    /// The list of kinds.
    #[error("--allow-resource-types: {0}")]
    AllowedTypes(&'static str),
    /// The name of the shard.
    #[error(
        "--shard-id: {0:?} is no name of a Lease and of a label: lower case letters, digits, `-` and `.`, at most 63"
    )]
    Shard(String),
    /// Automatic shards and those by label.
    #[error("--sharding=auto: {0}")]
    Fleet(&'static str),
    /// The list of controllers.
    #[error("--controllers: {0}")]
    Controllers(#[from] registry::SelectionError),
    /// Nobody to act as: Applications would be applied with all rights of this program.
    #[error("--authentication-default-user must not be empty")]
    DefaultUser,
    /// No stamp could be distinguished from a forged one.
    #[error("--stamp-key-secret is needed with the gate AuthenticateApplication")]
    StampKey,
    /// The ConfigMap with rules about identities.
    #[error("--cluster-exchange-rules: {0}")]
    ExchangeRules(#[from] NoMap),
}

/// How long before others may take the root Lease a fleet stops writing.
const ROOT_MARGIN: Duration = Duration::from_secs(2);
/// The least time for which its holder is believed: members learn of renewals from lists that are two seconds apart.
const ROOT_LEAST: Duration = Duration::from_secs(10);

/// Why flags make no fleet.
fn why_no_fleet(
    pace: &Pace,
    election: Option<&Election>,
    by_label: bool,
    (shard, use_webhook): (&str, bool),
) -> Option<&'static str> {
    let Some(election) = election else {
        return Some("--enable-leader-election is needed: replicas find each other by Leases");
    };
    if by_label {
        return Some("--enable-sharding is the other way to share the work, by a label");
    }
    if shard != MASTER && !has_lease(shard) {
        return Some(
            "--shard-id must be lower case letters, digits, `-` and `.`, at most 63, and neither `shards` nor begin with `member-`",
        );
    }
    if shard != MASTER && !use_webhook {
        return Some(
            "--shard-id needs the admission webhook (--use-webhook), which protects the annotation that decides on pools",
        );
    }
    if pace.lease_duration.as_secs_f64() < pace.renew_deadline.as_secs_f64() * 1.5 {
        return Some("--shard-lease-duration must be at least 1.5 times --shard-renew-deadline");
    }
    if pace.renew_deadline.as_secs_f64() < pace.retry_period.as_secs_f64() * 2.0 {
        return Some("--shard-renew-deadline must be at least twice --shard-retry-period");
    }
    if pace.renew_deadline < Duration::from_secs(2) || pace.retry_period.is_zero() {
        return Some(
            "--shard-renew-deadline must be at least 2s, --shard-retry-period more than 0",
        );
    }
    if election.lease_duration < ROOT_LEAST {
        return Some("--leader-election-lease-duration must be at least 10s");
    }
    None
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

impl Config {
    /// The controllers that send requests, in the order they start.
    pub(crate) fn requesting(&self) -> Vec<&'static str> {
        let has_work =
            |name: &&str| *name != registry::CERTIFICATES || !self.certificates.is_empty();
        self.controllers.requesting().filter(has_work).collect()
    }
}

impl TryFrom<Flags> for Config {
    type Error = ConfigError;

    fn try_from(flags: Flags) -> Result<Self, ConfigError> {
        let Flags {
            process,
            kube,
            gates,
            enable_leader_election,
            leader_election_namespace,
            leader_election_lease_duration,
            leader_election_renew_deadline,
            leader_election_retry_period,
            application_re_sync_period,
            informer_sync_period,
            system_definition_namespace,
            concurrent_reconciles,
            namespace_weights,
            reconcile_timeout,
            application_revision_limit,
            definition_revision_limit,
            autogen_workload_definition,
            max_dispatch_concurrent,
            workflow_egress_deny,
            workflow_egress_allow,
            helm_plain_http,
            helm_repositories,
            max_workflow_wait_backoff_time,
            max_workflow_failed_backoff_time,
            max_workflow_step_error_retry_times,
            allow_cross_namespace_resource,
            allow_resource_types,
            prune_confirm_kinds,
            ready_means_healthy,
            inherit_exclude,
            ref_objects_available_scope,
            optimize_disable_component_revision,
            authentication_default_user,
            authentication_admin_group,
            protected_identity,
            stamp_key_secret,
            ignore_app_without_controller_version,
            ignore_definition_without_controller_version,
            enable_sharding,
            shard_id,
            sharding,
            shard_lease_duration,
            shard_renew_deadline,
            shard_retry_period,
            shard_fallback,
            shard_label_records,
            shard_label_objects,
            advertised_version,
            use_webhook,
            webhook_service,
            webhook_configuration,
            webhook_secret,
            webhook_certificates,
            gateway_service,
            gateway_secret,
            gateway_certificates,
            controllers,
            controller_start_interval,
            use_service_account_credentials,
            enable_cluster_gateway,
            cluster_secret_namespace,
            member_kube_api_qps,
            member_kube_api_burst,
            member_cache_mib,
            member_cache_overall_mib,
            unreachable_is_unhealthy,
            insecure_clusters,
            allow_loopback_clusters,
            exec_credential_dir,
            cluster_exchange_rules,
            cluster_hub_admins,
            enable_cluster_metrics,
            cluster_metrics_interval,
            enable_cue_version_compatibility,
            render_concurrency,
        } = flags;
        let gates = gates.gates()?;
        if authentication_default_user.trim().is_empty() {
            return Err(ConfigError::DefaultUser);
        }
        if gates.authenticate_application && stamp_key_secret.is_empty() {
            return Err(ConfigError::StampKey);
        }
        let acting = Acting {
            authenticate: gates.authenticate_application,
            default_user: authentication_default_user,
            admin_group: authentication_admin_group,
            protected: protected_identity,
        };
        let mut controllers = Selection::parse(&controllers, &gates)?;
        if enable_sharding && !is_shard_id(&shard_id) {
            return Err(ConfigError::Shard(shard_id));
        }
        let given_shard = shard_id.clone();
        let shard = enable_sharding.then_some(shard_id);
        if shard.as_ref().is_some_and(|shard| shard != MASTER) {
            controllers = controllers.of_applications();
        }
        let mut certificates = Vec::new();
        if use_webhook && webhook_certificates == "managed" {
            certificates.push(vela_certs::Config {
                namespace: leader_election_namespace.clone(),
                service: webhook_service,
                secret: webhook_secret,
                target: vela_certs::Target::Webhooks(webhook_configuration),
            });
        }
        if gateway_certificates == "managed" {
            certificates.push(vela_certs::Config {
                namespace: leader_election_namespace.clone(),
                service: gateway_service,
                secret: gateway_secret,
                target: vela_certs::Target::ApiService(CLUSTER_API.to_owned()),
            });
        }
        if !controllers.has(registry::CERTIFICATES) {
            certificates.clear();
        }
        let election = enable_leader_election.then_some(Election {
            lease_duration: leader_election_lease_duration,
            renew_deadline: leader_election_renew_deadline,
            retry_period: leader_election_retry_period,
        });
        let pace = Pace {
            lease_duration: shard_lease_duration,
            renew_deadline: shard_renew_deadline,
            retry_period: shard_retry_period,
            root_permitted: leader_election_lease_duration.saturating_sub(ROOT_MARGIN),
        };
        let pools = Pools {
            own: pool_of(&given_shard).to_owned(),
            fallback: shard_fallback.0,
            are_on: use_webhook,
        };
        let fleet = (sharding == "auto").then_some((pace, pools));
        if let Some((pace, _)) = &fleet {
            let of_pool = (&*given_shard, use_webhook);
            let why = why_no_fleet(pace, election.as_ref(), enable_sharding, of_pool);
            if let Some(why) = why {
                return Err(ConfigError::Fleet(why));
            }
        }
        let named = Some(cluster_exchange_rules).filter(|text| !text.is_empty());
        let exchange = named.map(|text| text.parse::<RulesMap>()).transpose()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            process,
            kube,
            resync: if gates.apply_once {
                informer_sync_period
            } else {
                application_re_sync_period
            },
            charts: Rules {
                egress: Egress::new(workflow_egress_deny, workflow_egress_allow),
                plain_http: helm_plain_http,
                allowed: helm_repositories.into_iter().filter(|it| !it.is_empty()).collect(),
            },
            workflow: vela_workflow::Options {
                max_error_retries: max_workflow_step_error_retry_times,
                max_wait: Duration::from_secs(max_workflow_wait_backoff_time.max(1)),
                max_failed_wait: Duration::from_secs(max_workflow_failed_backoff_time.max(1)),
                suspend_on_failure: gates.enable_suspend_on_failure,
            },
            gates,
            certificates,
            namespace: leader_election_namespace,
            election,
            system_namespace: system_definition_namespace,
            workers: concurrent_reconciles.max(1),
            namespace_weights,
            start_interval: controller_start_interval,
            reconcile_timeout,
            application_revision_limit,
            definition_revision_limit,
            makes_workload_definitions: autogen_workload_definition,
            dispatch_concurrency: max_dispatch_concurrent,
            allow_cross_namespace: allow_cross_namespace_resource,
            allowed_types: AllowedTypes::parse(&allow_resource_types)
                .map_err(ConfigError::AllowedTypes)?,
            prune_confirm_kinds,
            ready_means_healthy,
            inherit_exclude,
            refers_to_namespace: ref_objects_available_scope == "namespace",
            refers_to_clusters: ref_objects_available_scope == "global",
            disable_component_revision: optimize_disable_component_revision,
            acting,
            stamp_key_secret,
            ignore_without_version: ignore_app_without_controller_version,
            ignore_definitions_without_version: ignore_definition_without_controller_version,
            shard,
            label_records: shard_label_records && fleet.is_some(),
            label_objects: shard_label_objects && fleet.is_some(),
            fleet,
            version: advertised_version,
            controllers,
            own_accounts: use_service_account_credentials,
            clusters: enable_cluster_gateway.then(|| ClusterFlags {
                namespace: cluster_secret_namespace,
                qps: member_kube_api_qps,
                burst: member_kube_api_burst,
                cache: member_cache_mib.saturating_mul(1 << 20),
                cache_overall: member_cache_overall_mib.saturating_mul(1 << 20),
                unreachable_is_unhealthy,
                rules: SecretRules {
                    addresses: AddressRules { allow_loopback: allow_loopback_clusters },
                    refuse_insecure: insecure_clusters == "refuse",
                },
                exec_dir: (!exec_credential_dir.is_empty()).then(|| exec_credential_dir.into()),
                exchange,
                admins_as_credential: cluster_hub_admins == "credential",
                metrics: enable_cluster_metrics
                    .then(|| cluster_metrics_interval.max(Duration::from_secs(1))),
            }),
            legacy_cue: enable_cue_version_compatibility,
            render_threads: if render_concurrency == 0 { processors } else { render_concurrency },
        })
    }
}

#[cfg(test)]
mod tests;
