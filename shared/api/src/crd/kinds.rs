//! The schemas of all kinds, put together from shared parts.

use serde_json::json;

use super::schema::{
    Schema, anything, boolean, date_time, extend, int32, int64, integer, list, map, object, opaque,
    string,
};
use super::{Definition, Version};

const OAM: &[&str] = &["oam"];
const DESCRIPTION: (&str, &str, &str) =
    ("DESCRIPTION", "string", ".metadata.annotations.definition\\.oam\\.dev/description");

/// Every kind.
pub(super) fn all() -> Vec<Definition> {
    vec![
        Definition {
            group: crate::GROUP,
            kind: "Application",
            plural: "applications",
            short_names: &["app", "velaapp"],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1beta1",
                storage: true,
                columns: &[
                    ("COMPONENT", "string", ".spec.components[*].name"),
                    ("TYPE", "string", ".spec.components[*].type"),
                    ("PHASE", "string", ".status.status"),
                    ("HEALTHY", "boolean", ".status.services[*].healthy"),
                    ("STATUS", "string", ".status.services[*].message"),
                    ("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                    ("REASON", "string", ".status.conditions[?(@.type==\"Ready\")].reason"),
                    ("AGE", "date", ".metadata.creationTimestamp"),
                ],
                wide_columns: &[
                    ("REVISION", "string", ".status.latestRevision.name"),
                    ("WHY", "string", ".status.conditions[?(@.type==\"Ready\")].message"),
                ],
                status_subresource: true,
                schema: root(
                    "A deployable application: components with traits, policies, and a workflow.",
                    [
                        ("spec", "What the application shall consist of.", application_spec()),
                        (
                            "status",
                            "What the controller found.",
                            // Nobody takes an Application that no controller has seen yet for one that is ready.
                            application_status().default(json!({ "observedGeneration": -1 })),
                        ),
                    ],
                ),
            }],
        },
        Definition {
            group: crate::GROUP,
            kind: "ApplicationRevision",
            plural: "applicationrevisions",
            short_names: &["apprev"],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1beta1",
                storage: true,
                columns: &[
                    ("AGE", "date", ".metadata.creationTimestamp"),
                    (
                        "PUBLISH_VERSION",
                        "string",
                        ".metadata.annotations['app\\.oam\\.dev\\/publishVersion']",
                    ),
                    ("SUCCEEDED", "string", ".status.succeeded"),
                ],
                wide_columns: &[],
                status_subresource: true,
                schema: root(
                    "An application with everything it was rendered from.",
                    [
                        ("spec", "The snapshot.", application_revision_spec()),
                        ("status", "How its workflow ended.", application_revision_status()),
                    ],
                ),
            }],
        },
        definition(
            "ComponentDefinition",
            "componentdefinitions",
            &["comp"],
            &[("WORKLOAD-KIND", "string", ".spec.workload.definition.kind"), DESCRIPTION],
            "How a component type becomes a workload.",
            component_definition_spec(),
        ),
        definition(
            "TraitDefinition",
            "traitdefinitions",
            &["trait"],
            &[("APPLIES-TO", "string", ".spec.appliesToWorkloads"), DESCRIPTION],
            "How a trait type changes or accompanies a workload.",
            trait_definition_spec(),
        ),
        definition(
            "PolicyDefinition",
            "policydefinitions",
            &["def-policy"],
            &[],
            "How a policy type becomes objects, or changes applications.",
            policy_definition_spec(),
        ),
        definition(
            "WorkflowStepDefinition",
            "workflowstepdefinitions",
            &["workflowstep"],
            &[],
            "What a workflow step type does.",
            workflow_step_definition_spec(),
        ),
        Definition {
            group: crate::GROUP,
            kind: "WorkloadDefinition",
            plural: "workloaddefinitions",
            short_names: &["workload"],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![
                workload_definition(
                    "v1alpha2",
                    false,
                    &[("DEFINITION-NAME", "string", ".spec.definitionRef.name")],
                ),
                workload_definition(
                    "v1beta1",
                    true,
                    &[("DEFINITION-NAME", "string", ".spec.definitionRef.name"), DESCRIPTION],
                ),
            ],
        },
        Definition {
            group: crate::GROUP,
            kind: "DefinitionRevision",
            plural: "definitionrevisions",
            short_names: &["defrev"],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1beta1",
                storage: true,
                columns: &[
                    ("REVISION", "integer", ".spec.revision"),
                    ("HASH", "string", ".spec.revisionHash"),
                    ("TYPE", "string", ".spec.definitionType"),
                ],
                wide_columns: &[],
                status_subresource: false,
                schema: root(
                    "A definition as it was.",
                    [("spec", "The snapshot.", definition_revision_spec())],
                ),
            }],
        },
        Definition {
            group: crate::GROUP,
            kind: "ResourceTracker",
            plural: "resourcetrackers",
            short_names: &["rt"],
            categories: OAM,
            scope: "Cluster",
            versions: vec![Version {
                name: "v1beta1",
                storage: true,
                columns: &[
                    ("TYPE", "string", ".spec.type"),
                    ("APP", "string", ".metadata.labels['app\\.oam\\.dev\\/name']"),
                    ("APP-NS", "string", ".metadata.labels['app\\.oam\\.dev\\/namespace']"),
                    ("APP-GEN", "number", ".spec.applicationGeneration"),
                ],
                wide_columns: &[],
                status_subresource: true,
                schema: root(
                    "The record of what an application dispatched.",
                    [("spec", "The record.", resource_tracker_spec())],
                ),
            }],
        },
        Definition {
            group: crate::GROUP,
            kind: "Policy",
            plural: "policies",
            short_names: &[],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1alpha1",
                storage: true,
                columns: &[("TYPE", "string", ".type")],
                wide_columns: &[],
                status_subresource: false,
                schema: root(
                    "A policy that several applications can refer to.",
                    [
                        ("type", "A built-in policy type or a PolicyDefinition.", string()),
                        ("properties", "Parameters of the policy.", anything()),
                    ],
                )
                .required(&["type"]),
            }],
        },
        Definition {
            group: crate::GROUP,
            kind: "Workflow",
            plural: "workflows",
            short_names: &[],
            categories: OAM,
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1alpha1",
                storage: true,
                columns: &[],
                wide_columns: &[],
                status_subresource: false,
                schema: root(
                    "A workflow that several applications can refer to.",
                    [
                        ("mode", "How steps and sub-steps run.", execute_mode()),
                        ("steps", "The steps.", list(workflow_step())),
                    ],
                ),
            }],
        },
        Definition {
            group: "cue.oam.dev",
            kind: "Package",
            plural: "packages",
            short_names: &["pkg", "cpkg", "cuepkg", "cuepackage"],
            categories: &[],
            scope: "Namespaced",
            versions: vec![Version {
                name: "v1alpha1",
                storage: true,
                columns: &[
                    ("PATH", "string", ".spec.path"),
                    ("PROTO", "string", ".spec.provider.protocol"),
                    ("ENDPOINT", "string", ".spec.provider.endpoint"),
                ],
                wide_columns: &[],
                status_subresource: false,
                schema: root(
                    "A CUE package that definitions can import.",
                    [("spec", "Path, provider and templates.", package_spec())],
                )
                .required(&["spec"]),
            }],
        },
    ]
}

/// A root object with the given fields besides its type and metadata.
fn root<const N: usize>(description: &str, fields: [(&str, &str, Schema); N]) -> Schema {
    let base =
        object([("apiVersion", "", string()), ("kind", "", string()), ("metadata", "", opaque())]);
    extend(base, fields).describe(description)
}

/// An object inside another one: only the identifying part of its metadata is kept.
fn embedded<const N: usize>(fields: [(&str, &str, Schema); N]) -> Schema {
    let metadata = object([
        ("annotations", "", map(string())),
        ("finalizers", "", list(string())),
        ("labels", "", map(string())),
        ("name", "", string()),
        ("namespace", "", string()),
    ]);
    let base =
        object([("apiVersion", "", string()), ("kind", "", string()), ("metadata", "", metadata)]);
    extend(base, fields)
}

fn embedded_definition(spec: Schema) -> Schema {
    embedded([("spec", "", spec), ("status", "", definition_status())])
}

fn definition(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    columns: &'static [(&'static str, &'static str, &'static str)],
    description: &str,
    spec: Schema,
) -> Definition {
    Definition {
        group: crate::GROUP,
        kind,
        plural,
        short_names,
        categories: OAM,
        scope: "Namespaced",
        versions: vec![Version {
            name: "v1beta1",
            storage: true,
            columns,
            wide_columns: &[],
            status_subresource: true,
            schema: root(
                description,
                [
                    ("spec", "The definition.", spec),
                    ("status", "Results of the controller.", definition_status()),
                ],
            ),
        }],
    }
}

fn workload_definition(
    name: &'static str,
    storage: bool,
    columns: &'static [(&'static str, &'static str, &'static str)],
) -> Version {
    let status = object([("conditions", "", list(condition()))]);
    Version {
        name,
        storage,
        columns,
        wide_columns: &[],
        status_subresource: false,
        schema: root(
            "Legacy: a component type named after a CustomResourceDefinition.",
            [
                ("spec", "The definition.", workload_definition_spec(true)),
                ("status", "Results of the controller.", status),
            ],
        ),
    }
}

// --- Application ---------------------------------------------------------------------------

fn application_spec() -> Schema {
    object([
        ("components", "The components.", list(component())),
        ("policies", "Policies for the whole application.", list(app_policy())),
        (
            "workflow",
            "How to deploy; without it, one step per component.",
            object([
                ("ref", "Name of a Workflow in the same namespace.", string()),
                ("mode", "How steps and sub-steps run.", execute_mode()),
                ("steps", "The steps.", list(workflow_step())),
            ]),
        ),
    ])
    .required(&["components"])
}

fn component() -> Schema {
    object([
        ("name", "Unique name within the application.", string()),
        ("type", "Name of a ComponentDefinition, optionally with @version.", string()),
        ("externalRevision", "Names a revision made elsewhere.", string()),
        ("properties", "Parameters of the definition.", anything()),
        ("dependsOn", "Components that must be healthy first.", list(string())),
        ("inputs", "Values from other components.", list(input())),
        ("outputs", "Values for other components.", list(output())),
        ("traits", "Traits, in order.", list(app_trait())),
        ("scopes", "Legacy, without effect.", map(string()).preserve()),
    ])
    .required(&["name", "type"])
}

fn app_trait() -> Schema {
    object([
        ("type", "Name of a TraitDefinition, optionally with @version.", string()),
        ("properties", "Parameters of the definition.", anything()),
    ])
    .required(&["type"])
}

fn app_policy() -> Schema {
    object([
        ("name", "Unique name within the application.", string()),
        ("type", "A built-in policy type or a PolicyDefinition.", string()),
        ("properties", "Parameters of the policy.", anything()),
    ])
    .required(&["type"])
}

fn execute_mode() -> Schema {
    object([
        ("steps", "StepByStep or DAG.", string()),
        ("subSteps", "StepByStep or DAG.", string()),
    ])
}

fn workflow_step() -> Schema {
    extend(
        step_base(),
        [
            ("mode", "Mode of the sub-steps: StepByStep or DAG.", string().nullable()),
            ("subSteps", "Steps of a step group.", list(step_base())),
        ],
    )
}

fn step_base() -> Schema {
    object([
        ("name", "Unique name.", string()),
        ("type", "A built-in type or a WorkflowStepDefinition.", string()),
        ("meta", "", object([("alias", "Shown instead of the name.", string())])),
        ("if", "Condition under which the step runs.", string()),
        ("timeout", "Duration after which the step fails, as in 1h30m.", string()),
        ("dependsOn", "Steps that must end first.", list(string())),
        ("inputs", "Values from other steps.", list(input())),
        ("outputs", "Values for other steps.", list(output())),
        ("properties", "Parameters of the step.", anything()),
    ])
    .required(&["type"])
}

fn input() -> Schema {
    object([
        ("from", "Name of the output.", string()),
        ("parameterKey", "Where in the properties the value goes.", string()),
    ])
    .required(&["from"])
}

fn output() -> Schema {
    object([
        ("name", "Name of the output.", string()),
        ("valueFrom", "Path of the value in the result.", string()),
    ])
    .required(&["name", "valueFrom"])
}

fn application_status() -> Schema {
    object([
        ("status", "Phase of the application.", string()),
        ("observedGeneration", "Generation this status is about.", int64()),
        ("conditions", "", list(condition())),
        ("components", "Never filled.", list(reference().atomic())),
        ("services", "Health of the components.", list(service())),
        ("workflow", "State of the workflow.", workflow_status()),
        ("workflowRestartScheduledAt", "When the workflow starts again.", date_time()),
        ("latestRevision", "The current revision.", revision()),
        ("appliedResources", "What was applied.", list(cluster_reference().atomic())),
        (
            "appliedApplicationPolicies",
            "Application-scoped policies that ran.",
            list(applied_application_policy()),
        ),
        ("applicationPoliciesConfigMap", "ConfigMap with their results.", string()),
        (
            "policy",
            "Legacy: decisions of the env-binding policy.",
            list(
                object([
                    ("name", "", string()),
                    ("type", "", string()),
                    ("status", "", anything()),
                ])
                .required(&["name", "type"]),
            ),
        ),
    ])
}

fn service() -> Schema {
    object([
        ("name", "Name of the component.", string()),
        ("namespace", "Namespace it was dispatched to.", string()),
        ("cluster", "Cluster it was dispatched to.", string()),
        ("env", "Never filled.", string()),
        ("workloadDefinition", "Kind of the workload.", gvk()),
        ("healthy", "Workload and traits are healthy.", boolean()),
        ("workloadHealthy", "The workload is healthy.", boolean()),
        ("details", "", map(string())),
        ("message", "", string()),
        ("traits", "Health of the traits.", list(trait_status())),
        ("scopes", "Never filled.", list(reference().atomic())),
    ])
    .required(&["healthy", "name"])
}

fn trait_status() -> Schema {
    object([
        ("type", "", string()),
        ("healthy", "", boolean()),
        ("pending", "It waits for the component.", boolean()),
        ("details", "", map(string())),
        ("message", "", string()),
    ])
    .required(&["healthy", "type"])
}

fn applied_application_policy() -> Schema {
    object([
        ("name", "", string()),
        ("namespace", "", string()),
        ("applied", "", boolean()),
        ("type", "", string()),
        ("error", "", boolean()),
        ("message", "", string()),
        ("source", "global or explicit.", string()),
        ("specModified", "", boolean()),
        ("labelsCount", "", integer()),
        ("annotationsCount", "", integer()),
        ("hasContext", "", boolean()),
        ("definitionRevisionName", "", string()),
        ("revision", "", int64()),
        ("revisionHash", "", string()),
    ])
    .required(&["applied", "name", "namespace"])
}

fn workflow_status() -> Schema {
    let step = || {
        object([
            ("id", "", string()),
            ("name", "", string()),
            ("type", "", string()),
            ("phase", "", string()),
            ("message", "", string()),
            ("reason", "", string()),
            ("firstExecuteTime", "", date_time()),
            ("lastExecuteTime", "", date_time()),
        ])
        .required(&["id"])
    };
    object([
        ("appRevision", "Revision or publish version of this run.", string()),
        ("mode", "", string()),
        ("status", "Phase of the run.", string()),
        ("message", "", string()),
        ("suspend", "", boolean()),
        ("suspendState", "", string()),
        ("terminated", "", boolean()),
        ("finished", "", boolean()),
        ("contextBackend", "ConfigMap with the values of the run.", reference().atomic()),
        ("startTime", "", date_time()),
        ("endTime", "", date_time().nullable()),
        ("steps", "", list(extend(step(), [("subSteps", "", list(step()))]))),
    ])
    .required(&["finished", "mode", "suspend", "terminated"])
}

// --- revisions and trackers ----------------------------------------------------------------

fn application_revision_spec() -> Schema {
    object([
        (
            "application",
            "The application without status.",
            embedded([("spec", "", application_spec()), ("status", "", application_status())]),
        ),
        ("componentDefinitions", "", map(embedded_definition(component_definition_spec()))),
        (
            "workloadDefinitions",
            "",
            map(embedded([
                ("spec", "", workload_definition_spec(false)),
                ("status", "", object([("conditions", "", list(condition()))])),
            ])),
        ),
        ("traitDefinitions", "", map(embedded_definition(trait_definition_spec()))),
        ("policyDefinitions", "", map(embedded_definition(policy_definition_spec()))),
        ("workflowStepDefinitions", "", map(embedded_definition(workflow_step_definition_spec()))),
        (
            "policies",
            "External policies.",
            map(embedded([("type", "", string()), ("properties", "", anything())])
                .required(&["type"])),
        ),
        (
            "policyVersions",
            "Revisions of application-scoped policies.",
            map(object([
                ("definitionRevisionName", "", string()),
                ("revision", "", int64()),
                ("revisionHash", "", string()),
            ])),
        ),
        (
            "workflow",
            "The external workflow.",
            embedded([("mode", "", execute_mode()), ("steps", "", list(workflow_step()))]),
        ),
        (
            "referredObjects",
            "Objects that components refer to.",
            list(anything().embedded_resource()).preserve(),
        ),
        ("compression", "", compression()),
    ])
    .required(&["application"])
}

fn application_revision_status() -> Schema {
    object([
        ("succeeded", "", boolean()),
        ("workflow", "", workflow_status()),
        ("workflowContext", "Content of the context ConfigMap.", map(string())),
    ])
    .required(&["succeeded"])
}

fn definition_revision_spec() -> Schema {
    object([
        ("revision", "Number of the revision.", int64()),
        ("revisionHash", "Hash of the definition's spec.", string()),
        ("definitionType", "", string().one_of(&["Component", "Trait", "Policy", "WorkflowStep"])),
        ("componentDefinition", "", embedded_definition(component_definition_spec())),
        ("traitDefinition", "", embedded_definition(trait_definition_spec())),
        ("policyDefinition", "", embedded_definition(policy_definition_spec())),
        ("workflowStepDefinition", "", embedded_definition(workflow_step_definition_spec())),
    ])
    .required(&["definitionType", "revision", "revisionHash"])
}

fn resource_tracker_spec() -> Schema {
    object([
        ("type", "root, versioned or component-revision.", string()),
        ("applicationGeneration", "", int64()),
        (
            "managedResources",
            "The recorded objects.",
            list(
                extend(
                    cluster_reference(),
                    [
                        ("component", "", string()),
                        ("trait", "", string()),
                        ("raw", "The whole manifest.", anything()),
                        ("deleted", "Removed by the workflow.", boolean()),
                        ("skipGC", "Never delete it.", boolean()),
                    ],
                )
                .atomic(),
            ),
        ),
        ("compression", "", compression()),
    ])
    .required(&["applicationGeneration"])
}

fn compression() -> Schema {
    object([("type", "gzip, zstd or empty.", string()), ("data", "", string())])
}

// --- definitions ---------------------------------------------------------------------------

fn component_definition_spec() -> Schema {
    object([
        (
            "workload",
            "Kind of the workload.",
            object([("type", "", string()), ("definition", "", gvk())]),
        ),
        ("childResourceKinds", "", list(child_resource_kind())),
        ("revisionLabel", "", string()),
        ("podSpecPath", "", string()),
        ("status", "Health and status templates.", status_templates()),
        ("schematic", "The template.", schematic()),
        ("extension", "", anything()),
        ("version", "Semantic version.", string()),
    ])
    .required(&["workload"])
}

fn trait_definition_spec() -> Schema {
    object([
        ("definitionRef", "", definition_reference()),
        ("revisionEnabled", "", boolean()),
        ("workloadRefPath", "", string()),
        ("podDisruptive", "Changing it restarts pods.", boolean()),
        ("appliesToWorkloads", "Workloads it fits.", list(string())),
        ("conflictsWith", "Traits it excludes.", list(string())),
        ("manageWorkload", "The trait makes the workload itself.", boolean()),
        ("controlPlaneOnly", "Its objects stay in the control plane's cluster.", boolean()),
        ("stage", "PreDispatch, DefaultDispatch or PostDispatch.", string()),
        ("status", "Health and status templates.", status_templates()),
        ("schematic", "The template.", schematic()),
        ("extension", "", anything()),
        ("version", "Semantic version.", string()),
    ])
}

fn policy_definition_spec() -> Schema {
    object([
        ("definitionRef", "", definition_reference()),
        ("manageHealthCheck", "The policy decides about health.", boolean()),
        ("scope", "Empty or Application.", string()),
        ("global", "Runs for every application.", boolean()),
        ("priority", "Order among global ones.", int32()),
        ("schematic", "The template.", schematic()),
        ("version", "Semantic version.", string()),
    ])
}

fn workflow_step_definition_spec() -> Schema {
    object([
        ("definitionRef", "", definition_reference()),
        ("schematic", "The template.", schematic()),
        ("version", "Semantic version.", string()),
    ])
}

/// `legacy`: the kind's own CRD still shows variants that no longer work, and has no details.
fn workload_definition_spec(legacy: bool) -> Schema {
    let (status, schematic) = if legacy {
        let status = object([("customStatus", "", string()), ("healthPolicy", "", string())]);
        (status, legacy_schematic())
    } else {
        (status_templates(), schematic())
    };
    object([
        ("definitionRef", "The workload's CustomResourceDefinition.", definition_reference()),
        ("childResourceKinds", "", list(child_resource_kind())),
        ("revisionLabel", "", string()),
        ("podSpecPath", "", string()),
        ("status", "Health and status templates.", status),
        ("schematic", "The template.", schematic),
        ("extension", "", anything()),
    ])
    .required(&["definitionRef"])
}

fn schematic() -> Schema {
    object([
        ("cue", "", object([("template", "CUE text.", string())]).required(&["template"])),
        ("terraform", "", terraform()),
    ])
}

fn legacy_schematic() -> Schema {
    let parameter = object([
        ("name", "", string()),
        ("type", "", string().one_of(&["string", "number", "boolean"])),
        ("fieldPaths", "", list(string())),
        ("required", "", boolean().default(false)),
        ("description", "", string()),
    ])
    .required(&["fieldPaths", "name", "type"]);
    extend(
        schematic(),
        [
            (
                "helm",
                "No longer supported.",
                object([("release", "", anything()), ("repository", "", anything())])
                    .required(&["release", "repository"]),
            ),
            (
                "kube",
                "No longer supported.",
                object([("template", "", anything()), ("parameters", "", list(parameter))])
                    .required(&["template"]),
            ),
        ],
    )
}

fn terraform() -> Schema {
    object([
        ("configuration", "HCL or JSON text, or a Git address.", string()),
        ("type", "", string().one_of(&["hcl", "json", "remote"]).default("hcl")),
        ("path", "Folder in the repository.", string()),
        (
            "writeConnectionSecretToRef",
            "Secret for the outputs.",
            object([("name", "", string()), ("namespace", "", string())]).required(&["name"]),
        ),
        (
            "providerRef",
            "The provider.",
            object([("name", "", string()), ("namespace", "", string().default("default"))])
                .required(&["name"]),
        ),
        ("deleteResource", "Destroy on deletion.", boolean().default(true)),
        ("customRegion", "", string()),
        (
            "gitCredentialsSecretReference",
            "Secret for Git.",
            object([("name", "", string()), ("namespace", "", string())]).atomic(),
        ),
    ])
    .required(&["configuration"])
}

fn status_templates() -> Schema {
    object([
        ("customStatus", "CUE that yields message.", string()),
        ("details", "CUE that yields details.", string()),
        ("healthPolicy", "CUE that yields isHealth.", string()),
    ])
}

fn child_resource_kind() -> Schema {
    object([("apiVersion", "", string()), ("kind", "", string()), ("selector", "", map(string()))])
        .required(&["apiVersion", "kind"])
}

fn definition_reference() -> Schema {
    object([("name", "", string()), ("version", "", string())]).required(&["name"])
}

fn definition_status() -> Schema {
    object([
        ("conditions", "", list(condition())),
        ("configMapRef", "ConfigMap with the schema of the parameters.", string()),
        ("latestRevision", "The current revision.", revision()),
    ])
}

// --- small parts ---------------------------------------------------------------------------

fn package_spec() -> Schema {
    object([
        ("path", "Import path.", string()),
        (
            "provider",
            "Who answers calls.",
            object([("protocol", "", string()), ("endpoint", "", string())])
                .required(&["endpoint", "protocol"]),
        ),
        ("templates", "File name to CUE text.", map(string())),
    ])
    .required(&["path", "templates"])
}

fn condition() -> Schema {
    object([
        ("type", "", string()),
        ("status", "True, False or Unknown.", string()),
        ("lastTransitionTime", "", date_time()),
        ("reason", "", string()),
        ("message", "", string()),
    ])
    .required(&["lastTransitionTime", "reason", "status", "type"])
}

fn revision() -> Schema {
    object([("name", "", string()), ("revision", "", int64()), ("revisionHash", "", string())])
        .required(&["name", "revision"])
}

fn gvk() -> Schema {
    object([("apiVersion", "", string()), ("kind", "", string())]).required(&["apiVersion", "kind"])
}

fn reference() -> Schema {
    object([
        ("apiVersion", "", string()),
        ("fieldPath", "", string()),
        ("kind", "", string()),
        ("name", "", string()),
        ("namespace", "", string()),
        ("resourceVersion", "", string()),
        ("uid", "", string()),
    ])
}

fn cluster_reference() -> Schema {
    extend(
        reference(),
        [("cluster", "", string()), ("creator", "workflow, policy or empty.", string())],
    )
}
