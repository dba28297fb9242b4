//! The flags, under the names and with the defaults of `vela-core` (`cmd/core/app/options`).

use std::time::Duration;

use clap::Parser;
use vela_cluster::flags::KubeFlags;
use vela_serve::flags::{GateFlags, ProcessFlags, duration};

use crate::egress::policy;
use crate::queue::Weights;

use super::MASTER;

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
    /// How long a leader is believed.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(super) leader_election_lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(super) leader_election_renew_deadline: Duration,
    /// Pause between tries.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(super) leader_election_retry_period: Duration,
    /// Period after which a settled Application is checked again.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub(super) application_re_sync_period: Duration,
    /// The same with the gate ApplyOnce.
    #[arg(long, default_value = "10h", value_parser = duration)]
    pub(super) informer_sync_period: Duration,
    /// Namespace of the built-in definitions.
    #[arg(long, default_value = "vela-system")]
    pub(super) system_definition_namespace: String,
    /// Applications reconciled at a time; of each kind of definition it is one.
    #[arg(long, default_value_t = 4)]
    pub(super) concurrent_reconciles: usize,
    /// What part of them namespaces have while others wait: `team-a=4,*=1`.
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
    /// Make the WorkloadDefinition of a ComponentDefinition's kind where there is none.
    #[arg(long, default_value_t = true)]
    pub(super) autogen_workload_definition: bool,
    /// Objects of one dispatch written at a time.
    #[arg(long, default_value_t = 10)]
    pub(super) max_dispatch_concurrent: usize,
    /// Networks that steps may not send requests or mails to, separated by commas; `none` for no rule.
    #[arg(long, default_value = policy::DEFAULT_DENIED, value_parser = policy::parse)]
    pub(super) workflow_egress_deny: policy::Networks,
    /// Networks that steps may reach even if they are part of those, separated by commas.
    #[arg(long, default_value = "", value_parser = policy::parse)]
    pub(super) workflow_egress_allow: policy::Networks,
    /// Fetch charts over http too, not only over https.
    #[arg(long, default_value_t = false)]
    pub(super) helm_plain_http: bool,
    /// What the addresses of charts begin with, separated by commas; without any, charts may come from everywhere.
    #[arg(long, value_delimiter = ',')]
    pub(super) helm_repositories: Vec<String>,
    /// Longest pause of a waiting workflow, in seconds.
    #[arg(long, default_value_t = 60)]
    pub(super) max_workflow_wait_backoff_time: u64,
    /// Longest pause of a failing workflow, in seconds.
    #[arg(long, default_value_t = 300)]
    pub(super) max_workflow_failed_backoff_time: u64,
    /// Failing attempts of a step that are repeated.
    #[arg(long, default_value_t = 10)]
    pub(super) max_workflow_step_error_retry_times: u32,
    /// Objects may be outside the Application's namespace.
    #[arg(long, default_value_t = true)]
    pub(super) allow_cross_namespace_resource: bool,
    /// Kinds that may be dispatched: `whitelist:Kind.version.group,...` or `blacklist:...`.
    #[arg(long, default_value = "")]
    pub(super) allow_resource_types: String,
    /// Kinds whose objects are deleted only when somebody approves, where an Application says nothing about it
    /// (app.oam.dev/prune). Separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(super) prune_confirm_kinds: Vec<String>,
    /// Condition Ready is false while an Application that is deployed is not healthy; else it stays true.
    #[arg(long)]
    pub(super) ready_means_healthy: bool,
    /// Labels and annotations of Applications that their objects do not get: keys, or beginnings of keys followed by `*`. May
    /// repeat; separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(super) inherit_exclude: Vec<String>,
    /// Where ref-objects components may point: namespace, cluster or global.
    #[arg(long, default_value = "global", value_parser = ["namespace", "cluster", "global"])]
    pub(super) ref_objects_available_scope: String,
    /// No label app.oam.dev/revision on objects.
    #[arg(long)]
    pub(super) optimize_disable_component_revision: bool,
    /// Identity of Applications that name none, with the gate AuthenticateApplication.
    #[arg(long, default_value = "kubevela:vela-core")]
    pub(super) authentication_default_user: String,
    /// Group that Applications of cluster administrators act in, bound to cluster-admin; empty for none.
    #[arg(long, default_value = "")]
    pub(super) authentication_admin_group: String,
    /// Usernames that are never impersonated: those of the control plane. May repeat.
    #[arg(long)]
    pub(super) protected_identity: Vec<String>,
    /// Secret with the key that stamps are sealed with, in the namespace of the lease; made if it is not there.
    #[arg(long, default_value = "")]
    pub(super) stamp_key_secret: String,
    /// Leave Applications alone that require no controller version.
    #[arg(long)]
    pub(super) ignore_app_without_controller_version: bool,
    /// Leave definitions alone that require no controller version.
    #[arg(long)]
    pub(super) ignore_definition_without_controller_version: bool,
    /// Handle the Applications of one shard only.
    #[arg(long)]
    pub(super) enable_sharding: bool,
    /// Which shard that is. All but `master` handle Applications and nothing else.
    #[arg(long, default_value = MASTER)]
    pub(super) shard_id: String,
    /// Several replicas share the Applications by themselves: off or auto.
    #[arg(long, default_value = "off", value_parser = ["off", "auto"])]
    pub(super) sharding: String,
    /// How long the Lease of a replica must be unchanged until the others take its Applications over.
    #[arg(long, default_value = "8s", value_parser = duration)]
    pub(super) shard_lease_duration: Duration,
    /// How long a replica may write after a renewal of its Lease.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub(super) shard_renew_deadline: Duration,
    /// Pause between renewals.
    #[arg(long, default_value = "1.5s", value_parser = duration)]
    pub(super) shard_retry_period: Duration,
    /// Version written to new Applications and compared with the version they require.
    #[arg(long, default_value = vela_api::KUBEVELA_VERSION)]
    pub(super) advertised_version: String,
    /// There is an admission webhook: its certificate is kept by this program.
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
    /// `managed`: issue and renew the certificate; `external`: somebody else does.
    #[arg(long, default_value = "external", value_parser = ["managed", "external"])]
    pub(super) webhook_certificates: String,
    /// Service of the aggregated API of clusters.
    #[arg(long, default_value = "")]
    pub(super) gateway_service: String,
    /// Secret that its Pods mount.
    #[arg(long, default_value = "")]
    pub(super) gateway_secret: String,
    /// `managed`: issue and renew its certificate; `external`: somebody else does, or there is none.
    #[arg(long, default_value = "external", value_parser = ["managed", "external"])]
    pub(super) gateway_certificates: String,
    /// Controllers to run: `*`, names, and `-name` for all but one.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(super) controllers: Vec<String>,
    /// Time between the starts of two controllers, once to twice as long: spreads their first requests.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(super) controller_start_interval: Duration,
    /// Each controller that sends requests works under a ServiceAccount of its own, vela-CONTROLLER-controller in the Pod's
    /// namespace.
    #[arg(long)]
    pub(super) use_service_account_credentials: bool,
    /// Deploy to the clusters that joined.
    #[arg(long)]
    pub(super) enable_cluster_gateway: bool,
    /// Namespace of the Secrets of clusters.
    #[arg(long, default_value = "vela-system")]
    pub(super) cluster_secret_namespace: String,
    /// Requests per second to each of these clusters.
    #[arg(long, default_value_t = 50.0)]
    pub(super) member_kube_api_qps: f64,
    /// Requests to each of them at once.
    #[arg(long, default_value_t = 100)]
    pub(super) member_kube_api_burst: u32,
    /// MiB that the objects watched in one of them may take; beyond it only their metadata are kept, beyond twice of it nothing.
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    pub(super) member_cache_mib: usize,
    /// MiB that those of all of them may take.
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    pub(super) member_cache_overall_mib: usize,
    /// Components in clusters that have been away for a minute are not healthy; false: they stay what they were.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(super) unreachable_is_unhealthy: bool,
    /// What to do with clusters whose certificate cannot be checked: warn or refuse.
    #[arg(long, default_value = "warn", value_parser = ["warn", "refuse"])]
    pub(super) insecure_clusters: String,
    /// Clusters may be at loopback addresses: for tests.
    #[arg(long)]
    pub(super) allow_loopback_clusters: bool,
    /// Directory of the commands that Secrets of clusters (credential type Dynamic) may name; empty: they may name none.
    #[arg(long, default_value = "", value_name = "DIR")]
    pub(super) exec_credential_dir: String,
    /// ConfigMap (NAMESPACE/NAME) with rules about identities in other clusters; empty for none.
    #[arg(long, default_value = "", value_name = "NAMESPACE/NAME")]
    pub(super) cluster_exchange_rules: String,
    /// How administrators act in other clusters: as the credential, or impersonate: as themselves.
    #[arg(long, default_value = "credential", value_parser = ["credential", "impersonate"])]
    pub(super) cluster_hub_admins: String,
    /// Read the metrics of the nodes of all clusters.
    #[arg(long)]
    pub(super) enable_cluster_metrics: bool,
    /// Time between two readings of them.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub(super) cluster_metrics_interval: Duration,
    /// Rewrite old CUE syntax before it is rendered.
    #[arg(long, default_value_t = true)]
    pub(super) enable_cue_version_compatibility: bool,
    /// Renderings at a time; 0 means as many as there are processors.
    #[arg(long, default_value_t = 0)]
    pub(super) render_concurrency: usize,
}
