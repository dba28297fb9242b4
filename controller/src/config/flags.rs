//! The flags, under the names and with the defaults of `vela-core` (`cmd/core/app/options`).

use std::time::Duration;

use clap::Parser;
use vela_cluster::flags::KubeFlags;
use vela_serve::flags::{GateFlags, ProcessFlags, duration};
use vela_shard::MASTER;

use crate::egress::policy;
use crate::queue::Weights;

/// When other pools work for one without replicas; `None`: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fallback(pub(super) Option<Duration>);

impl Fallback {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "never" => Ok(Self(None)),
            _ => duration(text).map(|time| Self(Some(time))),
        }
    }
}

/// The controller of KubeVela's control plane.
#[derive(Debug, Parser)]
#[command(name = "vela-controller", version)]
#[allow(clippy::struct_excessive_bools, reason = "flags of an existing program")]
pub struct Flags {
    #[command(flatten)]
    pub(super) process: ProcessFlags,
    #[command(flatten)]
    pub(super) kube: KubeFlags,
    #[command(flatten)]
    pub(super) gates: GateFlags,
    /// Work only while holding the lease.
    #[arg(long)]
    pub(super) enable_leader_election: bool,
    /// Namespace of the lease, and of the ServiceAccounts of controllers; empty means the Pod's.
    #[arg(long, default_value = "")]
    pub(super) leader_election_namespace: String,
    /// Time after which a lease that is not renewed can be taken over.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(super) leader_election_lease_duration: Duration,
    /// Time for which a leader tries to renew its lease before it gives up.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(super) leader_election_renew_deadline: Duration,
    /// Time between attempts to take or renew the lease.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(super) leader_election_retry_period: Duration,
    /// Resync period of settled Applications.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub(super) application_re_sync_period: Duration,
    /// Resync period with the gate ApplyOnce.
    #[arg(long, default_value = "10h", value_parser = duration)]
    pub(super) informer_sync_period: Duration,
    /// Namespace of the built-in definitions.
    #[arg(long, default_value = "vela-system")]
    pub(super) system_definition_namespace: String,
    /// Concurrent reconciles of Applications; each kind of definition has one.
    #[arg(long, default_value_t = 4)]
    pub(super) concurrent_reconciles: usize,
    /// Shares of the workers that namespaces have while others wait: `team-a=4,*=1`.
    #[arg(long, default_value = "", value_parser = Weights::parse)]
    pub(super) namespace_weights: Weights,
    /// Deadline of one reconcile.
    #[arg(long, default_value = "3m", value_parser = duration)]
    pub(super) reconcile_timeout: Duration,
    /// ApplicationRevisions kept in addition to the current one.
    #[arg(long, default_value_t = 10)]
    pub(super) application_revision_limit: usize,
    /// DefinitionRevisions kept in addition to the current one.
    #[arg(long, default_value_t = 20)]
    pub(super) definition_revision_limit: usize,
    /// Create a missing WorkloadDefinition for the kind of a ComponentDefinition.
    #[arg(long, default_value_t = true)]
    pub(super) autogen_workload_definition: bool,
    /// Concurrent writes of one dispatch.
    #[arg(long, default_value_t = 10)]
    pub(super) max_dispatch_concurrent: usize,
    /// Networks that steps may not send requests or mails to, separated by commas; `none` for no restriction.
    #[arg(long, default_value = policy::DEFAULT_DENIED, value_parser = policy::parse)]
    pub(super) workflow_egress_deny: policy::Networks,
    /// Exceptions from --workflow-egress-deny, separated by commas.
    #[arg(long, default_value = "", value_parser = policy::parse)]
    pub(super) workflow_egress_allow: policy::Networks,
    /// Fetch charts over http too, not only over https.
    #[arg(long, default_value_t = false)]
    pub(super) helm_plain_http: bool,
    /// Allowed prefixes of the addresses of charts, separated by commas; empty: all addresses.
    #[arg(long, value_delimiter = ',')]
    pub(super) helm_repositories: Vec<String>,
    /// Maximum back-off of a waiting workflow, in seconds.
    #[arg(long, default_value_t = 60)]
    pub(super) max_workflow_wait_backoff_time: u64,
    /// Maximum back-off of a failing workflow, in seconds.
    #[arg(long, default_value_t = 300)]
    pub(super) max_workflow_failed_backoff_time: u64,
    /// Retries of a failing step.
    #[arg(long, default_value_t = 10)]
    pub(super) max_workflow_step_error_retry_times: u32,
    /// Allow objects outside of the Application's namespace.
    #[arg(long, default_value_t = true)]
    pub(super) allow_cross_namespace_resource: bool,
    /// Kinds that may be dispatched: `whitelist:Kind.version.group,...` or `blacklist:...`.
    #[arg(long, default_value = "")]
    pub(super) allow_resource_types: String,
    /// Kinds whose objects are deleted only with an approval, unless an Application sets its own rules
    /// (app.oam.dev/prune). Separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(super) prune_confirm_kinds: Vec<String>,
    /// Condition Ready is false while a deployed Application is not healthy; otherwise it stays true.
    #[arg(long)]
    pub(super) ready_means_healthy: bool,
    /// Labels and annotations of Applications that their objects do not inherit: keys, or prefixes of keys followed by `*`. May
    /// repeat; separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(super) inherit_exclude: Vec<String>,
    /// Scope of the objects that ref-objects components may name: namespace, cluster or global.
    #[arg(long, default_value = "global", value_parser = ["namespace", "cluster", "global"])]
    pub(super) ref_objects_available_scope: String,
    /// Do not add the label app.oam.dev/revision to objects.
    #[arg(long)]
    pub(super) optimize_disable_component_revision: bool,
    /// Identity of Applications without a valid stamp, with the gate AuthenticateApplication.
    #[arg(long, default_value = "kubevela:vela-core")]
    pub(super) authentication_default_user: String,
    /// Group in which Applications of cluster administrators act, bound to cluster-admin; empty for none.
    #[arg(long, default_value = "")]
    pub(super) authentication_admin_group: String,
    /// Usernames that are never impersonated: those of the control plane. May repeat.
    #[arg(long)]
    pub(super) protected_identity: Vec<String>,
    /// Secret with the key that seals stamps, in the namespace of the lease; created if it does not exist.
    #[arg(long, default_value = "")]
    pub(super) stamp_key_secret: String,
    /// Ignore Applications that require no controller version.
    #[arg(long)]
    pub(super) ignore_app_without_controller_version: bool,
    /// Ignore definitions that require no controller version.
    #[arg(long)]
    pub(super) ignore_definition_without_controller_version: bool,
    /// Handle the Applications of one shard only.
    #[arg(long)]
    pub(super) enable_sharding: bool,
    /// Name of the shard. With --enable-sharding shards other than `master` run only the Application controller; with
    /// --sharding=auto it is the pool of this replica.
    #[arg(long, default_value = MASTER)]
    pub(super) shard_id: String,
    /// Whether replicas share the Applications among themselves: off or auto.
    #[arg(long, default_value = "off", value_parser = ["off", "auto"])]
    pub(super) sharding: String,
    /// Time without a renewal after which the other replicas take over a replica's Applications.
    #[arg(long, default_value = "8s", value_parser = duration)]
    pub(super) shard_lease_duration: Duration,
    /// Time for which a replica may write after a renewal of its Lease.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(super) shard_renew_deadline: Duration,
    /// Time between renewals.
    #[arg(long, default_value = "1.5s", value_parser = duration)]
    pub(super) shard_retry_period: Duration,
    /// Time after which the replicas of the default pool work for a pool (--shard-id) that has no replica; `never`: its
    /// Applications wait, and so do those whose label names no pool.
    #[arg(long, default_value = "30s", value_parser = Fallback::parse)]
    pub(super) shard_fallback: Fallback,
    /// With --sharding=auto: label revisions and trackers with the bucket of their Application, so that the API server sends each
    /// replica only those that it keeps.
    #[arg(long)]
    pub(super) shard_label_records: bool,
    /// With --sharding=auto: label dispatched objects with the bucket of their Application when they are written, so that the API server
    /// sends each replica only those that it keeps.
    #[arg(long)]
    pub(super) shard_label_objects: bool,
    /// Version written to new Applications and compared with the version they require.
    #[arg(long, default_value = vela_api::KUBEVELA_VERSION)]
    pub(super) advertised_version: String,
    /// An admission webhook is deployed, and this program maintains its certificate.
    #[arg(long)]
    pub(super) use_webhook: bool,
    /// Service of the webhook.
    #[arg(long, default_value = "")]
    pub(super) webhook_service: String,
    /// Name of both webhook configurations.
    #[arg(long, default_value = "")]
    pub(super) webhook_configuration: String,
    /// Secret that webhook Pods mount.
    #[arg(long, default_value = "")]
    pub(super) webhook_secret: String,
    /// `managed`: issue and renew the certificate; `external`: another program does.
    #[arg(long, default_value = "external", value_parser = ["managed", "external"])]
    pub(super) webhook_certificates: String,
    /// Service of the aggregated API of clusters.
    #[arg(long, default_value = "")]
    pub(super) gateway_service: String,
    /// Secret that its Pods mount.
    #[arg(long, default_value = "")]
    pub(super) gateway_secret: String,
    /// `managed`: issue and renew its certificate; `external`: another program does, or it has none.
    #[arg(long, default_value = "external", value_parser = ["managed", "external"])]
    pub(super) gateway_certificates: String,
    /// Controllers to run: `*`, names, and `-name` for all but one.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(super) controllers: Vec<String>,
    /// Time between the starts of two controllers, randomly up to twice as long: spreads their first requests.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(super) controller_start_interval: Duration,
    /// Each controller that sends requests uses its own ServiceAccount, vela-CONTROLLER-controller in the Pod's
    /// namespace.
    #[arg(long)]
    pub(super) use_service_account_credentials: bool,
    /// Deploy to member clusters.
    #[arg(long)]
    pub(super) enable_cluster_gateway: bool,
    /// Namespace of the Secrets of clusters.
    #[arg(long, default_value = "vela-system")]
    pub(super) cluster_secret_namespace: String,
    /// Requests per second to each member cluster.
    #[arg(long, default_value_t = 50.0)]
    pub(super) member_kube_api_qps: f64,
    /// Concurrent requests to each member cluster.
    #[arg(long, default_value_t = 100)]
    pub(super) member_kube_api_burst: u32,
    /// MiB for the cached objects of one member cluster; beyond it only their metadata are cached, beyond twice of it nothing.
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    pub(super) member_cache_mib: usize,
    /// MiB for the cached objects of all member clusters.
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    pub(super) member_cache_overall_mib: usize,
    /// Components in clusters that have been unreachable for a minute are unhealthy; false: they keep their last health.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(super) unreachable_is_unhealthy: bool,
    /// Treatment of clusters whose certificate cannot be checked: warn or refuse.
    #[arg(long, default_value = "warn", value_parser = ["warn", "refuse"])]
    pub(super) insecure_clusters: String,
    /// Allow loopback addresses of clusters, for tests.
    #[arg(long)]
    pub(super) allow_loopback_clusters: bool,
    /// Directory of the commands that Secrets of clusters (credential type Dynamic) may name; empty: no commands.
    #[arg(long, default_value = "", value_name = "DIR")]
    pub(super) exec_credential_dir: String,
    /// ConfigMap (NAMESPACE/NAME) with rules about identities in other clusters; empty for none.
    #[arg(long, default_value = "", value_name = "NAMESPACE/NAME")]
    pub(super) cluster_exchange_rules: String,
    /// Identity of administrators in other clusters: credential (that of the Secret) or impersonate (their own).
    #[arg(long, default_value = "credential", value_parser = ["credential", "impersonate"])]
    pub(super) cluster_hub_admins: String,
    /// Export metrics of the nodes of all clusters.
    #[arg(long)]
    pub(super) enable_cluster_metrics: bool,
    /// Interval of reading them.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(super) cluster_metrics_interval: Duration,
    /// Rewrite old CUE syntax before it is rendered.
    #[arg(long, default_value_t = true)]
    pub(super) enable_cue_version_compatibility: bool,
    /// Concurrent renders; 0 means the number of processors.
    #[arg(long, default_value_t = 0)]
    pub(super) render_concurrency: usize,
}
