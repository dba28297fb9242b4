//! Every label, annotation, finalizer, condition type, reason, phase and fixed name of the API.
//!
//! Upstream: `pkg/oam/labels.go`, `apis/types/{types,multicluster}.go`, `pkg/appfile/appfile.go`,
//! `controller/sharding` and `controller/reconciler` of kubevela/pkg.

/// Keys below `oam.dev` that application-scoped policies may set: they inform people and decide nothing.
pub const SETTABLE: [&str; 4] =
    [label::PROJECT, label::SOURCE_OF_TRUTH, annotation::APP_NAME, annotation::APP_ALIAS];

/// Keys by which GitOps tools recognise what they deployed: an object that has them and is not in Git is pruned.
pub const GITOPS_KEYS: [&str; 5] = [
    "app.kubernetes.io/instance",
    "argocd.argoproj.io/*",
    "kustomize.toolkit.fluxcd.io/*",
    "helm.toolkit.fluxcd.io/*",
    "meta.helm.sh/*",
];

/// Whether a key of labels or annotations means something to the control plane, so that only people set it on an Application.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_ours = domain == "oam.dev" || domain.ends_with(".oam.dev");
    is_ours && !SETTABLE.contains(&key)
}

/// Labels.
pub mod label {
    /// On a release record: its revision, and the beginning of the hash of everything that decided what it is. The Helm client keeps
    /// labels, also on records that it makes of ours: those have another revision. Not in the reference.
    pub const RELEASE_ORIGIN: &str = "helm.oam.dev/origin";
    /// Owner: name of the Application. With [`APP_NAMESPACE`] this is the record of ownership.
    pub const APP_NAME: &str = "app.oam.dev/name";
    /// Owner: namespace of the Application.
    pub const APP_NAMESPACE: &str = "app.oam.dev/namespace";
    /// Component name.
    pub const APP_COMPONENT: &str = "app.oam.dev/component";
    /// Name of the ApplicationRevision.
    pub const APP_REVISION: &str = "app.oam.dev/appRevision";
    /// Hash of the ApplicationRevision.
    pub const APP_REVISION_HASH: &str = "app.oam.dev/app-revision-hash";
    /// `WORKLOAD` or `TRAIT`: [`super::resource_type`].
    pub const RESOURCE_TYPE: &str = "app.oam.dev/resourceType";
    /// Component type.
    pub const WORKLOAD_TYPE: &str = "workload.oam.dev/type";
    /// Trait type; [`super::AUXILIARY_WORKLOAD`] for `outputs` of components.
    pub const TRAIT_TYPE: &str = "trait.oam.dev/type";
    /// Key of the `outputs` entry.
    pub const TRAIT_RESOURCE: &str = "trait.oam.dev/resource";
    /// `true` on objects of traits that manage the workload.
    pub const MANAGE_WORKLOAD: &str = "trait.oam.dev/manage-workload";
    /// Once the revision of the component; an empty text today, since upstream's objects carry it.
    pub const COMPONENT_REVISION: &str = "app.oam.dev/revision";
    /// Copy under a replication policy.
    pub const REPLICA_KEY: &str = "app.oam.dev/replicaKey";
    /// Target cluster.
    pub const APP_CLUSTER: &str = "app.oam.dev/cluster";
    /// Environment (legacy).
    pub const APP_ENV: &str = "envbinding.oam.dev/env";
    /// Hash of the rendered object.
    pub const RENDER_HASH: &str = "oam.dev/render-hash";
    /// Uid of the Application, on trackers.
    pub const APP_UID: &str = "app.oam.dev/uid";
    /// `true` stops the reconcile of an Application.
    pub const PAUSE: &str = "controller.core.oam.dev/pause";
    /// On a Namespace: which deletions of its Applications' objects ask first, where an Application says nothing about it. Not in
    /// the reference.
    pub const PRUNE: &str = "app.oam.dev/prune";
    /// Bucket of the Application that a revision or a tracker belongs to: two hex digits.
    pub const BUCKET: &str = "controller.core.oam.dev/bucket";
    /// Bucket of the Application that dispatched an object: two hex digits, or that several Applications share it. Another key than
    /// [`BUCKET`]: an object may be an Application itself, with records of its own.
    pub const OWNER_BUCKET: &str = "controller.core.oam.dev/owner-bucket";
    /// Shard that owns the object.
    pub const SCHEDULED_SHARD_ID: &str = "controller.core.oam.dev/scheduled-shard-id";
    /// Shard that a Pod offers.
    pub const SHARD_ID: &str = "controller.core.oam.dev/shard-id";
    /// Addon that the Application belongs to: apply-once by default.
    pub const ADDON_NAME: &str = "addons.oam.dev/name";
    /// Version of the addon that the object was installed with.
    pub const ADDON_VERSION: &str = "addons.oam.dev/version";
    /// Registry that the addon was loaded from.
    pub const ADDON_REGISTRY: &str = "addons.oam.dev/registry";
    /// Auxiliary object of an addon.
    pub const ADDON_AUXILIARY_NAME: &str = "addons.oam.dev/auxiliary-name";
    /// Project, informational.
    pub const PROJECT: &str = "core.oam.dev/project";
    /// Who the source of truth is, informational.
    pub const SOURCE_OF_TRUTH: &str = "app.oam.dev/source-of-truth";
    /// Name of the ComponentDefinition, on its revisions.
    pub const COMPONENT_DEFINITION_NAME: &str = "componentdefinition.oam.dev/name";
    /// Name of the TraitDefinition, on its revisions.
    pub const TRAIT_DEFINITION_NAME: &str = "trait.oam.dev/name";
    /// Name of the PolicyDefinition, on its revisions.
    pub const POLICY_DEFINITION_NAME: &str = "policydefinition.oam.dev/name";
    /// Name of the WorkflowStepDefinition, on its revisions.
    pub const WORKFLOW_STEP_DEFINITION_NAME: &str = "workflowstepdefinition.oam.dev/name";
    /// [`super::SCHEMA`] on ConfigMaps with parameter schemas.
    pub const DEFINITION: &str = "definition.oam.dev";
    /// Definition or revision that a schema ConfigMap is about.
    pub const DEFINITION_NAME: &str = "definition.oam.dev/name";
    /// Deprecated definition, informational.
    pub const DEFINITION_DEPRECATED: &str = "custom.definition.oam.dev/deprecated";
    /// Hidden definition, informational.
    pub const DEFINITION_HIDDEN: &str = "custom.definition.oam.dev/ui-hidden";
    /// Category of the definition, informational.
    pub const DEFINITION_CATEGORY: &str = "custom.definition.oam.dev/category";
    /// On a WorkflowStepDefinition: [`super::APPLICATION_SCOPE`] for steps that an Application alone can have.
    pub const DEFINITION_SCOPE: &str = "custom.definition.oam.dev/scope";
    /// Name of the WorkflowRun whose step applied the object.
    pub const RUN_NAME: &str = "workflowrun.oam.dev/name";
    /// Namespace of that WorkflowRun.
    pub const RUN_NAMESPACE: &str = "workflowrun.oam.dev/namespace";
    /// Legacy component revisions.
    pub const CONTROLLER_REVISION_COMPONENT: &str = "controller.oam.dev/component";
    /// Name of the controller, on its Pods.
    pub const CONTROLLER_NAME: &str = "controller.oam.dev/name";
    /// Custom rules of the resource tree.
    pub const RULES_RESOURCES: &str = "rules.oam.dev/resources";
    /// Format of those rules.
    pub const RULES_RESOURCE_FORMAT: &str = "rules.oam.dev/resource-format";
    /// Environment of a namespace.
    pub const NAMESPACE_ENV: &str = "namespace.oam.dev/env";
    /// Delivery target that the namespace belongs to.
    pub const NAMESPACE_TARGET: &str = "namespace.oam.dev/target";
    /// Namespace used by the control plane.
    pub const USAGE_CONTROL_PLANE: &str = "usage.oam.dev/control-plane";
    /// Namespace used at run time.
    pub const USAGE_RUNTIME: &str = "usage.oam.dev/runtime";
    /// Type of a config Secret.
    pub const CONFIG_TYPE: &str = "config.oam.dev/type";
    /// Catalog of a config Secret.
    pub const CONFIG_CATALOG: &str = "config.oam.dev/catalog";
    /// Sub-type of a config Secret.
    pub const CONFIG_SUB_TYPE: &str = "config.oam.dev/sub-type";
    /// Project of a config Secret.
    pub const CONFIG_PROJECT: &str = "config.oam.dev/project";
    /// Config Secret to distribute.
    pub const CONFIG_MULTI_CLUSTER: &str = "config.oam.dev/multi-cluster";
    /// Identifier of a config Secret.
    pub const CONFIG_IDENTIFIER: &str = "config.oam.dev/identifier";
    /// Scope of a config template.
    pub const CONFIG_SCOPE: &str = "config.oam.dev/scope";
    /// Marks the revision that tests the CRD at start.
    pub const PRE_CHECK: &str = "core.oam.dev/pre-check";
    /// ConfigMaps with the results of application-scoped policies.
    pub const APPLICATION_POLICIES: &str = "app.oam.dev/application-policies";
    /// Credential type of a cluster Secret.
    pub const CLUSTER_CREDENTIAL_TYPE: &str = "cluster.core.oam.dev/cluster-credential-type";
    /// On Secrets of releases that did not have that label.
    pub const CLUSTER_CREDENTIAL: &str = "cluster.core.oam.dev/cluster-credential";
    /// Endpoint type of a cluster Secret.
    pub const CLUSTER_ENDPOINT_TYPE: &str = "cluster.core.oam.dev/cluster-endpoint-type";
    /// Marks the local cluster.
    pub const CLUSTER_CONTROL_PLANE: &str = "cluster.core.oam.dev/control-plane";
}

/// Annotations.
pub mod annotation {
    /// On the Lease of the controller: what takes long, and over which Applications its processes died.
    pub const IN_FLIGHT: &str = "controller.core.oam.dev/under-way";
    /// On a Lease of a fleet of controllers: the member it is of, or that renewed it.
    pub const FLEET_MEMBER: &str = "controller.core.oam.dev/member";
    /// On the Lease of a member: who took its buckets because it was silent.
    pub const FLEET_SEIZED_BY: &str = "controller.core.oam.dev/seized-by";
    /// On the Lease of a member, for people: how many buckets it works on.
    pub const FLEET_BUCKETS: &str = "controller.core.oam.dev/buckets";
    /// On the Lease of a member, for people: how many Applications those are.
    pub const FLEET_APPLICATIONS: &str = "controller.core.oam.dev/applications";
    /// On the Lease of a member, for people: the seconds that it needs for the Applications in its queue.
    pub const FLEET_BACKLOG: &str = "controller.core.oam.dev/backlog-seconds";
    /// On the Lease of a member, for people: the pool that it is in.
    pub const FLEET_POOL: &str = "controller.core.oam.dev/pool";
    /// On the Lease of a member: the buckets that its caches are filled for, as hexadecimal digits of four buckets each.
    pub const FLEET_CACHED: &str = "controller.core.oam.dev/cached-buckets";
    /// On the Lease of a member: the epoch of the table by whose shares its caches are filled; 0: of none yet.
    pub const FLEET_READY: &str = "controller.core.oam.dev/ready";
    /// On the Lease of a member: the buckets of each pool that it works on, as `POOL=DIGITS,...` with digits as in `cached-buckets`.
    pub const FLEET_WORKED: &str = "controller.core.oam.dev/worked-buckets";
    /// On the Lease of a member, for people: the version of the program.
    pub const FLEET_VERSION: &str = "controller.core.oam.dev/version";
    /// On the Lease of the fleet: who works on which bucket.
    pub const FLEET_TABLE: &str = "controller.core.oam.dev/table";
    /// On an Application: the pool of the fleet that works on it. Written by the fleet alone. Not in the
    /// reference.
    pub const SHARD: &str = "controller.core.oam.dev/shard";
    /// Last applied manifest: base of the three-way merge.
    pub const LAST_APPLIED_CONFIG: &str = "app.oam.dev/last-applied-configuration";
    /// When it was created.
    pub const LAST_APPLIED_TIME: &str = "app.oam.dev/last-applied-time";
    /// Applications that share the object: `<namespace>/<name>`, comma separated.
    pub const SHARED_BY: &str = "app.oam.dev/shared-by";
    /// `kubectl apply`'s own record.
    pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// Version of the controller that must handle the object.
    pub const CONTROLLER_VERSION_REQUIRE: &str = "app.oam.dev/controller-version-require";
    /// The same on a WorkflowRun.
    pub const RUN_CONTROLLER_VERSION_REQUIRE: &str =
        "workflowrun.oam.dev/controller-version-require";
    /// `true` on a WorkflowRun: what its steps evaluated is kept for people to read.
    pub const RUN_DEBUG: &str = "workflowrun.oam.dev/debug";
    /// Version that first handled the Application.
    pub const KUBEVELA_VERSION: &str = "oam.dev/kubevela-version";
    /// Pins the content under a name.
    pub const PUBLISH_VERSION: &str = "app.oam.dev/publishVersion";
    /// Informational.
    pub const DEPLOY_VERSION: &str = "app.oam.dev/deployVersion";
    /// Follow definitions.
    pub const AUTO_UPDATE: &str = "app.oam.dev/autoUpdate";
    /// Restart the workflow: `true`, a time, or a duration.
    pub const RESTART_WORKFLOW: &str = "app.oam.dev/restart-workflow";
    /// How long steps may wait without progress: `10m`, and `10m, step=1h` for single ones. Not in the reference.
    pub const PROGRESS_DEADLINE: &str = "app.oam.dev/progress-deadline";
    /// On trackers: objects that ran to their end and are removed for that, and how they ended. Not in the reference.
    pub const COMPLETED: &str = "app.oam.dev/completed";
    /// What happens to objects that somebody else changed: `heal` (the default), `warn` or `off`. Not in the reference.
    pub const DRIFT: &str = "app.oam.dev/drift";
    /// `true`: the API server refuses to delete the object that carries it. Not in the reference.
    pub const DELETION_PROTECTION: &str = "app.oam.dev/deletion-protection";
    /// Which deletions of an Application's objects ask first: `confirm`, `confirm=KIND,KIND`, `confirm=all`, `limit=10`,
    /// `limit=50%`. Not in the reference.
    pub const PRUNE: &str = "app.oam.dev/prune";
    /// The generation of the Application whose deletions are approved. Not in the reference.
    pub const PRUNE_APPROVED: &str = "app.oam.dev/prune-approved";
    /// What happens when a rollout fails: `rollback` or `suspend`. Not in the reference.
    pub const ON_FAILURE: &str = "app.oam.dev/on-failure";
    /// A Config of the namespace whose `url` gets a message when the Application fails, waits for a person, is unhealthy for a
    /// while, or recovers. Not in the reference.
    pub const NOTIFY: &str = "app.oam.dev/notify";
    /// The span that a rollout belongs to (W3C Trace Context), as a pipeline writes it. Not in the reference.
    pub const TRACEPARENT: &str = "app.oam.dev/traceparent";
    /// `true`: while it is paused, the Application says what its run would write. Not in the reference.
    pub const PLAN: &str = "app.oam.dev/plan";
    /// Which spec failed and which one is back for it, as hashes; set by the controller. Not in the reference.
    pub const ROLLED_BACK_FROM: &str = "app.oam.dev/rolled-back-from";
    /// Resync period of this Application.
    pub const RECONCILE_INTERVAL: &str = "app.oam.dev/reconcile-interval";
    /// Name for `context.workflowName`.
    pub const WORKFLOW_NAME: &str = "app.oam.dev/workflowName";
    /// Display name.
    pub const APP_NAME: &str = "app.oam.dev/appName";
    /// Display alias.
    pub const APP_ALIAS: &str = "app.oam.dev/appAlias";
    /// ServiceAccount to act as.
    pub const SERVICE_ACCOUNT: &str = "app.oam.dev/service-account-name";
    /// User to act as.
    pub const USERNAME: &str = "app.oam.dev/username";
    /// Groups to act as, comma separated.
    pub const GROUP: &str = "app.oam.dev/group";
    /// By which subject its author is an administrator: `User:NAME` or `Group:NAME`. Not in the reference.
    pub const ADMINISTRATOR: &str = "app.oam.dev/administrator";
    /// The seal over the three before it and over what they are about; only the control plane can make it. Not in the
    /// reference.
    pub const STAMP: &str = "app.oam.dev/stamp";
    /// Who acts for an object, and how we know.
    pub const IDENTITY: [&str; 4] = [USERNAME, GROUP, ADMINISTRATOR, STAMP];
    /// What an Application's objects do not inherit from it: who acts for it, and what only speaks of the Application itself.
    pub const NOT_INHERITED: [&str; 13] = [
        SHARD,
        USERNAME,
        GROUP,
        ADMINISTRATOR,
        STAMP,
        DELETION_PROTECTION,
        PRUNE,
        PRUNE_APPROVED,
        ON_FAILURE,
        NOTIFY,
        TRACEPARENT,
        PLAN,
        ROLLED_BACK_FROM,
    ];
    /// Allow changes of immutable parameters.
    pub const FORCE_PARAM_MUTATIONS: &str = "app.oam.dev/force-param-mutations";
    /// Policies may change the spec of any revision.
    pub const POLICY_AUTO_REVISION: &str = "policy.oam.dev/auto-revision";
    /// On a revision: hashes of the spec as the user wrote it and of the application-scoped
    /// policies that made the revision's spec of it.
    pub const POLICY_SOURCE: &str = "policy.oam.dev/source";
    /// Skip global policies.
    pub const POLICY_SKIP_GLOBAL: &str = "policy.oam.dev/skip-global";
    /// Labels that are not passed on.
    pub const FILTER_LABELS: &str = "filter.oam.dev/label-keys";
    /// Annotations that are not passed on.
    pub const FILTER_ANNOTATIONS: &str = "filter.oam.dev/annotation-keys";
    /// Not passed on; without effect.
    pub const INPLACE_UPGRADE: &str = "app.oam.dev/inplace-upgrade";
    /// Marks dry runs.
    pub const DRY_RUN_APP_REVISION: &str = "app.oam.dev/app-revision";
    /// Explicit revision name of a definition.
    pub const DEFINITION_REVISION_NAME: &str = "definitionrevision.oam.dev/name";
    /// Workloads that a trait applies to, on its schema ConfigMap.
    pub const DEFINITION_APPLIED_WORKLOADS: &str = "definition.oam.dev/appliedWorkloads";
    /// What the definition is for; clients show it in lists.
    pub const DEFINITION_DESCRIPTION: &str = "definition.oam.dev/description";
    /// A second name under which clients show the definition.
    pub const DEFINITION_ALIAS: &str = "definition.oam.dev/alias";
    /// URL of an icon of the definition.
    pub const DEFINITION_ICON: &str = "definition.oam.dev/icon";
    /// URL of an example that uses the definition.
    pub const DEFINITION_EXAMPLE_URL: &str = "definition.oam.dev/example-url";
    /// Ignore the object without its component.
    pub const ADDON_IGNORE_WITHOUT_COMPONENT: &str = "addon.oam.dev/ignore-without-component";
    /// Bind the object to a component.
    pub const ADDON_BIND_COMPONENT: &str = "addon.oam.dev/bind-component";
    /// Do not resume with the client.
    pub const SKIP_RESUME: &str = "controller.core.oam.dev/skip-resume";
    /// Source of a referred object.
    pub const RESOURCE_URL: &str = "app.oam.dev/resource-url";
    /// When the workflow run of a context ConfigMap started.
    pub const WORKFLOW_START_TIME: &str = "vela.io/startTime";
    /// Config Secrets that must not be shown.
    pub const CONFIG_SENSITIVE: &str = "config.oam.dev/sensitive";
    /// Namespace of the template of a config Secret.
    pub const CONFIG_TEMPLATE_NAMESPACE: &str = "config.oam.dev/template-namespace";
    /// What the config is for; clients show it in lists.
    pub const CONFIG_DESCRIPTION: &str = "config.oam.dev/description";
    /// A second name under which clients show the config.
    pub const CONFIG_ALIAS: &str = "config.oam.dev/alias";
    /// Where a config goes.
    pub const CONFIG_DISTRIBUTION_SPEC: &str = "config.oam.dev/distribution-spec";
    /// Version of the cluster, as whoever joined it wrote it down.
    pub const CLUSTER_VERSION: &str = "cluster.core.oam.dev/cluster-version";
    /// A second name under which clients show the cluster.
    pub const CLUSTER_ALIAS: &str = "cluster.core.oam.dev/cluster-alias";
    /// How the control plane reaches a cluster, where it is not directly.
    pub const CLUSTER_ROUTE: &str = "cluster.core.oam.dev/route";
    /// As whom identities arrive at a cluster: a ClusterGatewayProxyConfiguration.
    pub const CLUSTER_EXCHANGE: &str = "cluster.core.oam.dev/cluster-gateway-proxy-configuration";
    /// Clusters whose objects an Application does not wait for any more, separated by commas.
    pub const FORGET_CLUSTERS: &str = "app.oam.dev/forget-clusters";
    /// `redeploy`: the workflow runs again when a cluster of the Application was replaced by another one of its name.
    pub const ON_CLUSTER_REPLACED: &str = "app.oam.dev/on-cluster-replaced";
    /// On the Secret of a cluster that is there again: `collect` or `forget` what was left behind in it.
    pub const CLUSTER_LEFT_BEHIND: &str = "cluster.core.oam.dev/left-behind";
    /// `skip`: steps go on without places in clusters that cannot be reached; those are completed when they can.
    pub const UNREACHABLE: &str = "app.oam.dev/unreachable";
    /// On a release record: a hash of everything that decided what the release is. The Helm client drops annotations: what it
    /// made is never taken for ours. Not in the reference, like the following ones.
    pub const RELEASE_INPUTS: &str = "helm.oam.dev/inputs";
    /// On a release record: SHA-256 of the chart's archive.
    pub const RELEASE_CHART_DIGEST: &str = "helm.oam.dev/chart-digest";
    /// On a release record: the revision that it repeats.
    pub const RELEASE_ROLLED_BACK_TO: &str = "helm.oam.dev/rolled-back-to";
    /// On a release record that repeats an earlier one: why the revision in between failed.
    pub const RELEASE_FAILURE: &str = "helm.oam.dev/failure";
    /// On a release record: how long a hook may take.
    pub const RELEASE_TIMEOUT: &str = "helm.oam.dev/timeout";
    /// On the object of a hook: the record that it was made for.
    pub const RELEASE_HOOK_OF: &str = "helm.oam.dev/hook-of";
    /// On the Pods of a release: the revision for which they were restarted (`options.recreatePods`).
    pub const RELEASE_RESTARTED_FOR: &str = "helm.oam.dev/restarted-for";
    /// On an Application: releases of Flux are taken over although their HelmRelease is not suspended.
    pub const RELEASE_ADOPT_FLUX: &str = "helm.oam.dev/adopt-from-flux";
    /// Annotation prefixes that templates of application-scoped policies do not see.
    pub const INTERNAL_PREFIXES: [&str; 7] = [
        "app.oam.dev/",
        "oam.dev/",
        "kubectl.kubernetes.io/",
        "kubernetes.io/",
        "k8s.io/",
        "helm.sh/",
        "app.kubernetes.io/",
    ];
}

/// Finalizers.
pub mod finalizer {
    /// On Applications: trackers go first.
    pub const APPLICATION: &str = "app.oam.dev/resource-tracker-finalizer";
    /// On Applications, set by users: objects stay.
    pub const ORPHAN_RESOURCE: &str = "app.oam.dev/orphan-resource";
    /// On trackers: recorded objects go first.
    pub const RESOURCE_TRACKER: &str = "resourcetracker.core.oam.dev/finalizer";
}

/// Types of conditions.
pub mod condition {
    /// The Application was parsed.
    pub const PARSED: &str = "Parsed";
    /// The revision exists.
    pub const REVISION: &str = "Revision";
    /// Policies were applied.
    pub const POLICY: &str = "Policy";
    /// The workflow was built.
    pub const RENDER: &str = "Render";
    /// The workflow succeeded.
    pub const WORKFLOW: &str = "Workflow";
    /// All is done.
    pub const READY: &str = "Ready";
    /// It is on its way to what the spec says; only there while that is so. kstatus' word, not in the reference.
    pub const RECONCILING: &str = "Reconciling";
    /// It gets no further by itself; only there while that is so. kstatus' word, not in the reference.
    pub const STALLED: &str = "Stalled";
    /// The last reconcile went through.
    pub const SYNCED: &str = "Synced";
    /// Drift was corrected.
    pub const STATE_KEEP: &str = "StateKeep";
    /// Its author is known by a valid stamp; only there when not. Not in the reference.
    pub const STAMPED: &str = "Stamped";
    /// Objects of other clusters are recorded, and nobody manages them; absent where there is none.
    pub const OTHER_CLUSTERS: &str = "OtherClusters";
    /// Whether all clusters of an Application can be reached; absent where there is one only.
    pub const CLUSTERS: &str = "Clusters";
    /// Somebody else changes objects again and again, or what they changed is left as it is. Not in the reference.
    pub const DRIFT: &str = "Drift";
    /// Objects that left the spec wait for somebody to approve of their deletion; absent otherwise. Not in the reference.
    pub const PRUNED: &str = "Pruned";
    /// What the run of an Application that is paused would write; absent otherwise. Not in the reference.
    pub const PLANNED: &str = "Planned";
    /// About what somebody was notified last, as the Application asks; absent otherwise. Not in the reference.
    pub const NOTIFIED: &str = "Notified";
    /// A WorkflowRun succeeded.
    pub const WORKFLOW_RUN: &str = "WorkflowRun";
    /// Those of Applications in their internal order; a restart keeps those up to `Render`.
    pub const APPLICATION_ORDER: [&str; 6] = [PARSED, REVISION, POLICY, RENDER, WORKFLOW, READY];
}

/// Reasons of conditions.
pub mod reason {
    /// True and usable.
    pub const AVAILABLE: &str = "Available";
    /// A complete reconcile.
    pub const RECONCILE_SUCCESS: &str = "ReconcileSuccess";
    /// A failed one.
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    /// The workflow runs. This and the following ones are reasons of `Ready`, and not in the reference.
    pub const PROGRESSING: &str = "Progressing";
    /// The workflow waits for a person, or for a time.
    pub const SUSPENDED: &str = "Suspended";
    /// The workflow failed.
    pub const FAILED: &str = "Failed";
    /// The workflow was terminated.
    pub const TERMINATED: &str = "Terminated";
    /// Deployed, and not healthy.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Two writers put fields of an object to their values again and again.
    pub const DRIFT_CONTENTION: &str = "DriftFight";
    /// What somebody else changed is left as it is, as the Application asks.
    pub const DRIFT_LEFT: &str = "DriftLeft";
    /// A plan is there. This and the next two are reasons of the condition of that name.
    pub const PLANNED: &str = "Planned";
    /// It cannot be said what the run would write.
    pub const NOT_POSSIBLE: &str = "NotPossible";
    /// A ConfigMap of somebody else has the name that the plan would have.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// A rollout failed. This and the next three are reasons of `Notified`.
    pub const ROLLOUT_FAILED: &str = "RolloutFailed";
    /// A step waits for a person.
    pub const WAITS_FOR_PERSON: &str = "WaitsForPerson";
    /// It has been unhealthy for a while.
    pub const TURNED_UNHEALTHY: &str = "TurnedUnhealthy";
    /// It is deployed and healthy again.
    pub const RECOVERED: &str = "Recovered";
    /// A person has to approve.
    pub const NEEDS_APPROVAL: &str = "NeedsApproval";
    /// Something is going away.
    pub const DELETING: &str = "Deleting";
    /// Processes of the controller died over it.
    pub const SET_ASIDE: &str = "SetAside";
    /// No replica of the shard that its label names is there.
    pub const NO_SHARD: &str = "NoShard";
    /// Something is left as it is.
    pub const NOT_MANAGED: &str = "NotManaged";
    /// All clusters can be reached.
    pub const REACHABLE: &str = "Reachable";
    /// Some cannot.
    pub const UNREACHABLE: &str = "Unreachable";
    /// A cluster does not take its credential.
    pub const CREDENTIAL_REFUSED: &str = "CredentialRefused";
    /// The Secret of a cluster cannot be used.
    pub const INVALID: &str = "Invalid";
    /// Another cluster has the name of one.
    pub const REPLACED: &str = "Replaced";
    /// A cluster has no Secret.
    pub const UNREGISTERED: &str = "Unregistered";
}

/// Reasons of events.
pub mod event {
    /// Source component of the Application controller's events.
    pub const APPLICATION: &str = "Application";
    /// That of the WorkflowRun controller's.
    pub const WORKFLOW_RUN: &str = "WorkflowRun";
    /// The Application was parsed.
    pub const PARSED: &str = "Parsed";
    /// The components were rendered.
    pub const RENDERED: &str = "Rendered";
    /// Policies applied.
    pub const POLICY_GENERATED: &str = "PolicyGenerated";
    /// Revision exists.
    pub const REVISIONED: &str = "Revisioned";
    /// Workflow finished.
    pub const APPLIED: &str = "Applied";
    /// All is done.
    pub const DEPLOYED: &str = "Deployed";
    /// A hook of a release failed while that was deleted.
    pub const RELEASE_HOOK: &str = "ReleaseHookFailed";
    /// A release was rolled back, or put back over what the Helm client did.
    pub const RELEASE_ROLLED_BACK: &str = "ReleaseRolledBack";
    /// A rollout failed and the spec that succeeded last is back. This one and the next are not in the reference.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// A rollout failed and the last spec is not put back, though the Application asks for that.
    pub const NOT_ROLLED_BACK: &str = "NotRolledBack";
    /// A notification got lost. Not in the reference.
    pub const NOT_NOTIFIED: &str = "NotNotified";
    /// Parsing failed.
    pub const FAILED_PARSE: &str = "FailedParse";
    /// No revision could be decided or stored.
    pub const FAILED_REVISION: &str = "FailedRevision";
    /// A step of the workflow failed.
    pub const FAILED_WORKFLOW: &str = "FailedWorkflow";
    /// The status is too large to be stored. Not in the reference.
    pub const FAILED_STATUS: &str = "FailedStatus";
    /// Policies failed.
    pub const FAILED_APPLY: &str = "FailedApply";
    /// The annotation asks for runs of the workflow at too short a distance. Not in the reference.
    pub const RESTART_INTERVAL: &str = "RestartInterval";
    /// Drift could not be corrected.
    pub const FAILED_STATE_KEEP: &str = "FailedStateKeep";
    /// Garbage collection failed.
    pub const FAILED_GC: &str = "FailedGC";
    /// Objects in a cluster that is gone are not managed any more.
    pub const LEFT_BEHIND: &str = "LeftBehind";
    /// What somebody took out of the trackers of the control plane's own cluster is recorded again. Not in the reference.
    pub const RECORDED_AGAIN: &str = "RecordedAgain";
    /// Objects that were left behind in a cluster that is there again. On its Secret.
    pub const LEFT_BEHIND_FOUND: &str = "LeftBehindFound";
    /// A cluster answers again. These and the following are about the Secret of a cluster, and not in the reference.
    pub const CLUSTER_CONNECTED: &str = "ClusterConnected";
    /// It answers late, or has too much to do.
    pub const CLUSTER_DEGRADED: &str = "ClusterDegraded";
    /// It does not answer.
    pub const CLUSTER_DISCONNECTED: &str = "ClusterDisconnected";
    /// It does not take the credential.
    pub const CREDENTIAL_REFUSED: &str = "CredentialRefused";
    /// The credential ends soon.
    pub const CREDENTIAL_EXPIRES: &str = "CredentialExpires";
    /// The Secret cannot be used.
    pub const CLUSTER_INVALID: &str = "ClusterInvalid";
    /// The name means another cluster than before.
    pub const CLUSTER_REPLACED: &str = "ClusterReplaced";
    /// Two names mean one cluster.
    pub const CLUSTER_ALIAS: &str = "ClusterAlias";
    /// The certificate of the cluster is not checked.
    pub const INSECURE_CLUSTER: &str = "InsecureCluster";
    /// A global policy ran.
    pub const GLOBAL_POLICY_APPLIED: &str = "GlobalPolicyApplied";
    /// An explicit policy ran.
    pub const POLICY_APPLIED: &str = "PolicyApplied";
    /// A global policy was off.
    pub const GLOBAL_POLICY_SKIPPED: &str = "GlobalPolicySkipped";
    /// An explicit policy was off.
    pub const POLICY_SKIPPED: &str = "PolicySkipped";
    /// The template of a global policy failed.
    pub const GLOBAL_POLICY_FAILED: &str = "GlobalPolicyFailed";
    /// An explicit policy failed.
    pub const POLICY_FAILED: &str = "PolicyFailed";
    /// Processes of the controller died over it.
    pub const SET_ASIDE: &str = "SetAside";
    /// No replica of the shard that its label names is there.
    pub const NO_SHARD: &str = "NoShard";
    /// A controller outside of the fleet works on the shard that its label names. This and the next one are not in the reference.
    pub const FOREIGN_SHARD: &str = "ForeignShard";
    /// Its label names more shards than there can be.
    pub const TOO_MANY_SHARDS: &str = "TooManyShards";
    /// No replica of the fleet works on it, for longer than a take-over takes. Not in the reference.
    pub const UNOWNED: &str = "Unowned";
}

/// Phases of an Application (`status.status`).
pub mod phase {
    /// Before parsing.
    pub const STARTING: &str = "starting";
    /// Parsing, revision.
    pub const RENDERING: &str = "rendering";
    /// Applying policies.
    pub const GENERATING_POLICY: &str = "generatingPolicy";
    /// Workflow executes.
    pub const RUNNING_WORKFLOW: &str = "runningWorkflow";
    /// Workflow is suspended.
    pub const WORKFLOW_SUSPENDING: &str = "workflowSuspending";
    /// Workflow was terminated.
    pub const WORKFLOW_TERMINATED: &str = "workflowTerminated";
    /// A step failed for good, and the run ended.
    pub const WORKFLOW_FAILED: &str = "workflowFailed";
    /// All healthy.
    pub const RUNNING: &str = "running";
    /// Something is not.
    pub const UNHEALTHY: &str = "unhealthy";
    /// Going away.
    pub const DELETING: &str = "deleting";
    /// All of them.
    pub const ALL: [&str; 10] = [
        STARTING,
        RENDERING,
        GENERATING_POLICY,
        RUNNING_WORKFLOW,
        WORKFLOW_SUSPENDING,
        WORKFLOW_TERMINATED,
        WORKFLOW_FAILED,
        RUNNING,
        UNHEALTHY,
        DELETING,
    ];
}

/// Values of [`label::RESOURCE_TYPE`].
pub mod resource_type {
    /// The workload of a component.
    pub const WORKLOAD: &str = "WORKLOAD";
    /// An object of a trait.
    pub const TRAIT: &str = "TRAIT";
}

/// Types of trackers.
pub mod tracker {
    /// What lives as long as the Application.
    pub const ROOT: &str = "root";
    /// What belongs to a generation.
    pub const VERSIONED: &str = "versioned";
    /// Legacy component revisions.
    pub const COMPONENT_REVISION: &str = "component-revision";
}

/// Types of definitions in DefinitionRevisions.
pub mod definition_type {
    /// ComponentDefinition.
    pub const COMPONENT: &str = "Component";
    /// TraitDefinition.
    pub const TRAIT: &str = "Trait";
    /// PolicyDefinition.
    pub const POLICY: &str = "Policy";
    /// WorkflowStepDefinition.
    pub const WORKFLOW_STEP: &str = "WorkflowStep";
    /// All of them.
    pub const ALL: [&str; 4] = [COMPONENT, TRAIT, POLICY, WORKFLOW_STEP];
}

/// The scope of definitions that are about Applications only.
pub const APPLICATION_SCOPE: &str = "Application";

/// Creators of applied resources.
pub mod creator {
    /// A workflow step.
    pub const WORKFLOW: &str = "workflow";
    /// A policy of the Application.
    pub const POLICY: &str = "policy";
}

/// Trait type of objects that come from a component's `outputs`.
pub const AUXILIARY_WORKLOAD: &str = "AuxiliaryWorkload";
/// Value of [`label::DEFINITION`] on schema ConfigMaps.
pub const SCHEMA: &str = "schema";
/// Key of the schema in those ConfigMaps.
pub const OPENAPI_V3_JSON_SCHEMA: &str = "openapi-v3-json-schema";
/// The ConfigMap with the schema of Applications for editors, in the namespace of the built-in definitions.
pub const EDITOR_SCHEMA: &str = "vela-application-schema";
/// Key of the schema in [`EDITOR_SCHEMA`].
pub const EDITOR_SCHEMA_KEY: &str = "application.json";
/// Workload type of definitions whose kind is known only after rendering.
pub const AUTODETECT_WORKLOAD: &str = "autodetects.core.oam.dev";
/// The ConfigMap of what is known of clusters, in the namespace of their Secrets.
pub const CLUSTERS_CONFIG_MAP: &str = "vela-clusters";
/// Name of the cluster that the control plane runs in.
pub const CLUSTER_LOCAL: &str = "local";
/// Where built-in definitions live by default.
pub const SYSTEM_NAMESPACE: &str = "vela-system";
/// Values of the last-applied annotation that switch the record off.
pub const LAST_APPLIED_SKIP: [&str; 2] = ["-", "skip"];
/// Middle part of the default name of a trait without type.
pub const TRAIT_NAME_MIDDLE: &str = "trait";
