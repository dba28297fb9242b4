//! The patch metadata of the built-in kinds: which lists merge, by which key, and where `retainKeys` applies.
//!
//! Answers for the `patchStrategy`/`patchMergeKey` tags of `k8s.io/api`. A table of types: each names only the fields
//! that matter; every other field merges as a map or is replaced as a list. Adding a field is one line.

/// How one field is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    /// Merge key of a list of objects, `""` for a list of scalars that merges as a set.
    pub merge_key: Option<&'static str>,
    /// Whether patches of this object (or of the elements of this list) carry `$retainKeys`.
    pub retain_keys: bool,
    /// Whether a patch of this object takes its place as a whole.
    pub replaced: bool,
    /// The type of the value or of the elements.
    pub ty: Type,
}

/// A type of `k8s.io/api`, by the patch metadata of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A value without patch metadata: maps merge key by key, lists are replaced.
    Plain,
    /// A built-in kind that has nothing but its `metadata`.
    Object,
    /// `ObjectMeta`
    Meta,
    /// A kind with a Pod template in its `spec`: Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, ReplicationController.
    Workload,
    /// The `spec` of such a workload, of a JobTemplate too.
    WorkloadSpec,
    /// `CronJobSpec`
    CronJobSpec,
    /// `JobTemplateSpec`
    JobTemplate,
    /// `PodTemplateSpec`
    PodTemplateSpec,
    /// `PodSpec`
    PodSpec,
    /// `Container` and `EphemeralContainer`
    Container,
    /// `ServiceSpec`
    ServiceSpec,
    /// `ServiceAccount`
    ServiceAccount,
    /// ValidatingWebhookConfiguration and MutatingWebhookConfiguration
    Webhooks,
    /// An element of their `webhooks`.
    Webhook,
    /// ValidatingAdmissionPolicy
    ValidatingPolicy,
    /// `ValidatingAdmissionPolicySpec`
    ValidatingPolicySpec,
    /// MutatingAdmissionPolicy
    MutatingPolicy,
    /// `MutatingAdmissionPolicySpec`
    MutatingPolicySpec,
    /// `PodTemplate`
    PodTemplate,
    /// PodDisruptionBudget
    Budget,
    /// `PodDisruptionBudgetSpec`
    BudgetSpec,
    /// `CronJob`
    CronJob,
    /// `Pod`
    Pod,
    /// `Service`
    Service,
    /// CSINode
    Csi,
    /// `CSINodeSpec`
    CsiSpec,
    /// `Node`
    Node,
    /// `NodeSpec`
    NodeSpec,
}

const fn merge(name: &'static str, key: &'static str, ty: Type) -> Field {
    Field { name, merge_key: Some(key), retain_keys: false, replaced: false, ty }
}

const fn merge_retain(name: &'static str, key: &'static str, ty: Type) -> Field {
    Field { name, merge_key: Some(key), retain_keys: true, replaced: false, ty }
}

const fn nested(name: &'static str, ty: Type) -> Field {
    Field { name, merge_key: None, retain_keys: false, replaced: false, ty }
}

const METADATA: Field = nested("metadata", Type::Meta);
const OBJECT: &[Field] = &[METADATA];
const META: &[Field] =
    &[merge("ownerReferences", "uid", Type::Plain), merge("finalizers", "", Type::Plain)];
const WORKLOAD: &[Field] = &[METADATA, nested("spec", Type::WorkloadSpec)];
const WORKLOAD_SPEC: &[Field] = &[
    nested("template", Type::PodTemplateSpec),
    // Deployment only; the other workloads call theirs `updateStrategy`, which has no retainKeys.
    Field {
        name: "strategy",
        merge_key: None,
        retain_keys: true,
        replaced: false,
        ty: Type::Plain,
    },
];
const CRON_JOB: &[Field] = &[METADATA, nested("spec", Type::CronJobSpec)];
const CRON_JOB_SPEC: &[Field] = &[nested("jobTemplate", Type::JobTemplate)];
const JOB_TEMPLATE: &[Field] = &[METADATA, nested("spec", Type::WorkloadSpec)];
const POD_TEMPLATE_SPEC: &[Field] = &[METADATA, nested("spec", Type::PodSpec)];
const POD_SPEC: &[Field] = &[
    merge("containers", "name", Type::Container),
    merge("initContainers", "name", Type::Container),
    merge("ephemeralContainers", "name", Type::Container),
    merge_retain("volumes", "name", Type::Plain),
    merge("imagePullSecrets", "name", Type::Plain),
    merge("hostAliases", "ip", Type::Plain),
    merge("topologySpreadConstraints", "topologyKey", Type::Plain),
    merge("schedulingGates", "name", Type::Plain),
    merge_retain("resourceClaims", "name", Type::Plain),
];
const CONTAINER: &[Field] = &[
    merge("ports", "containerPort", Type::Plain),
    merge("env", "name", Type::Plain),
    merge("volumeMounts", "mountPath", Type::Plain),
    merge("volumeDevices", "devicePath", Type::Plain),
];
const SERVICE: &[Field] = &[METADATA, nested("spec", Type::ServiceSpec)];
const SERVICE_SPEC: &[Field] = &[merge("ports", "port", Type::Plain)];
const SERVICE_ACCOUNT: &[Field] = &[METADATA, merge("secrets", "name", Type::Plain)];
const WEBHOOKS: &[Field] = &[METADATA, merge("webhooks", "name", Type::Webhook)];
const WEBHOOK: &[Field] = &[MATCH_CONDITIONS];
const MATCH_CONDITIONS: Field = merge("matchConditions", "name", Type::Plain);
const VALIDATING_POLICY: &[Field] = &[METADATA, nested("spec", Type::ValidatingPolicySpec)];
const VALIDATING_POLICY_SPEC: &[Field] =
    &[MATCH_CONDITIONS, merge("variables", "name", Type::Plain)];
const MUTATING_POLICY: &[Field] = &[METADATA, nested("spec", Type::MutatingPolicySpec)];
// Its variables have no merge key in `k8s.io/api`: that list is replaced.
const MUTATING_POLICY_SPEC: &[Field] = &[MATCH_CONDITIONS];
const POD_TEMPLATE: &[Field] = &[METADATA, nested("template", Type::PodTemplateSpec)];
const BUDGET: &[Field] = &[METADATA, nested("spec", Type::BudgetSpec)];
const BUDGET_SPEC: &[Field] = &[Field {
    name: "selector",
    merge_key: None,
    retain_keys: false,
    replaced: true,
    ty: Type::Plain,
}];
const CSI: &[Field] = &[METADATA, nested("spec", Type::CsiSpec)];
const CSI_SPEC: &[Field] = &[merge("drivers", "name", Type::Plain)];
const NODE: &[Field] = &[METADATA, nested("spec", Type::NodeSpec)];
const NODE_SPEC: &[Field] = &[merge("podCIDRs", "", Type::Plain)];

impl Type {
    fn fields(self) -> &'static [Field] {
        match self {
            Self::Plain => &[],
            Self::Object => OBJECT,
            Self::Meta => META,
            Self::Workload => WORKLOAD,
            Self::WorkloadSpec => WORKLOAD_SPEC,
            Self::CronJob => CRON_JOB,
            Self::CronJobSpec => CRON_JOB_SPEC,
            Self::JobTemplate => JOB_TEMPLATE,
            Self::PodTemplateSpec | Self::Pod => POD_TEMPLATE_SPEC,
            Self::PodSpec => POD_SPEC,
            Self::Container => CONTAINER,
            Self::Service => SERVICE,
            Self::ServiceSpec => SERVICE_SPEC,
            Self::ServiceAccount => SERVICE_ACCOUNT,
            Self::Webhooks => WEBHOOKS,
            Self::Webhook => WEBHOOK,
            Self::ValidatingPolicy => VALIDATING_POLICY,
            Self::ValidatingPolicySpec => VALIDATING_POLICY_SPEC,
            Self::MutatingPolicy => MUTATING_POLICY,
            Self::MutatingPolicySpec => MUTATING_POLICY_SPEC,
            Self::PodTemplate => POD_TEMPLATE,
            Self::Budget => BUDGET,
            Self::BudgetSpec => BUDGET_SPEC,
            Self::Csi => CSI,
            Self::CsiSpec => CSI_SPEC,
            Self::Node => NODE,
            Self::NodeSpec => NODE_SPEC,
        }
    }

    /// The metadata of one field, if it has any.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }
}

/// Groups whose kinds the API server patches strategically. Kinds of any other group are merged as plain JSON.
const BUILT_IN_GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The patch type of a kind: `None` if it is no built-in kind (use a JSON merge patch then).
#[must_use]
pub fn type_of(group: &str, kind: &str) -> Option<Type> {
    if !BUILT_IN_GROUPS.contains(&group) {
        return None;
    }
    Some(match (group, kind) {
        ("apps" | "extensions", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => Type::Workload,
        ("", "PodTemplate") => Type::PodTemplate,
        ("policy", "PodDisruptionBudget") => Type::Budget,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => Type::ValidatingPolicy,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => Type::MutatingPolicy,
        ("batch", "CronJob") => Type::CronJob,
        ("", "Pod") => Type::Pod,
        ("", "Service") => Type::Service,
        ("", "ServiceAccount") => Type::ServiceAccount,
        ("", "Node") => Type::Node,
        ("storage.k8s.io", "CSINode") => Type::Csi,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => Type::Webhooks,
        _ => Type::Object,
    })
}
