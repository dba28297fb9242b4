//! What of every kind its type does not say: versions, short names, columns, and where its own schema differs from that of an
//! object inside another one.

use kube::Resource;
use serde_json::json;

use super::schema::{Described, Schema, anything, boolean, list, opaque, string};
use super::{Definition, Version};
use crate::definition::{Schematic, StatusTemplates, WorkloadDefinition};
use crate::{
    Application, ApplicationRevision, ComponentDefinition, DefinitionRevision, Package, Policy,
    PolicyDefinition, ResourceTracker, TraitDefinition, Workflow, WorkflowRun,
    WorkflowStepDefinition,
};

/// Columns of `kubectl get`: name, type, JSONPath.
type Columns = &'static [(&'static str, &'static str, &'static str)];

const DESCRIPTION: (&str, &str, &str) =
    ("DESCRIPTION", "string", ".metadata.annotations.definition\\.oam\\.dev/description");

/// Every kind.
pub(super) fn all() -> Vec<Definition> {
    vec![
        Definition {
            short_names: &["app", "velaapp"],
            ..kind::<Application>(Version {
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
                // Nobody takes an Application that no controller has seen yet for one that is ready.
                schema: root::<Application>()
                    .change("status", |status| status.default(json!({ "observedGeneration": -1 }))),
                ..version::<Application>("v1beta1", &[])
            })
        },
        Definition {
            short_names: &["apprev"],
            ..kind::<ApplicationRevision>(Version {
                status_subresource: true,
                ..version::<ApplicationRevision>(
                    "v1beta1",
                    &[
                        ("AGE", "date", ".metadata.creationTimestamp"),
                        (
                            "PUBLISH_VERSION",
                            "string",
                            ".metadata.annotations['app\\.oam\\.dev\\/publishVersion']",
                        ),
                        ("SUCCEEDED", "string", ".status.succeeded"),
                    ],
                )
            })
        },
        definition::<ComponentDefinition>(
            &["comp"],
            &[("WORKLOAD-KIND", "string", ".spec.workload.definition.kind"), DESCRIPTION],
        ),
        definition::<TraitDefinition>(
            &["trait"],
            &[("APPLIES-TO", "string", ".spec.appliesToWorkloads"), DESCRIPTION],
        ),
        definition::<PolicyDefinition>(&["def-policy"], &[]),
        definition::<WorkflowStepDefinition>(&["workflowstep"], &[]),
        Definition {
            short_names: &["workload"],
            versions: vec![
                Version {
                    storage: false,
                    ..workload_definition(
                        "v1alpha2",
                        &[("DEFINITION-NAME", "string", ".spec.definitionRef.name")],
                    )
                },
                workload_definition(
                    "v1beta1",
                    &[("DEFINITION-NAME", "string", ".spec.definitionRef.name"), DESCRIPTION],
                ),
            ],
            ..kind::<WorkloadDefinition>(version::<WorkloadDefinition>("v1beta1", &[]))
        },
        Definition {
            short_names: &["defrev"],
            ..kind::<DefinitionRevision>(version::<DefinitionRevision>(
                "v1beta1",
                &[
                    ("REVISION", "integer", ".spec.revision"),
                    ("HASH", "string", ".spec.revisionHash"),
                    ("TYPE", "string", ".spec.definitionType"),
                ],
            ))
        },
        Definition {
            short_names: &["rt"],
            scope: "Cluster",
            ..kind::<ResourceTracker>(Version {
                status_subresource: true,
                ..version::<ResourceTracker>(
                    "v1beta1",
                    &[
                        ("TYPE", "string", ".spec.type"),
                        ("APP", "string", ".metadata.labels['app\\.oam\\.dev\\/name']"),
                        ("APP-NS", "string", ".metadata.labels['app\\.oam\\.dev\\/namespace']"),
                        ("APP-GEN", "number", ".spec.applicationGeneration"),
                    ],
                )
            })
        },
        kind::<Policy>(version::<Policy>("v1alpha1", &[("TYPE", "string", ".type")])),
        kind::<Workflow>(version::<Workflow>("v1alpha1", &[])),
        Definition {
            short_names: &["wr"],
            ..kind::<WorkflowRun>(Version {
                status_subresource: true,
                ..version::<WorkflowRun>(
                    "v1alpha1",
                    &[
                        ("PHASE", "string", ".status.status"),
                        ("AGE", "date", ".metadata.creationTimestamp"),
                    ],
                )
            })
        },
        Definition {
            short_names: &["pkg", "cpkg", "cuepkg", "cuepackage"],
            categories: &[],
            ..kind::<Package>(version::<Package>(
                "v1alpha1",
                &[
                    ("PATH", "string", ".spec.path"),
                    ("PROTO", "string", ".spec.provider.protocol"),
                    ("ENDPOINT", "string", ".spec.provider.endpoint"),
                ],
            ))
        },
    ]
}

/// A namespaced kind with one version.
fn kind<T: Resource<DynamicType = ()>>(version: Version) -> Definition {
    Definition {
        group: T::group(&()).into_owned(),
        kind: T::kind(&()).into_owned(),
        plural: T::plural(&()).into_owned(),
        short_names: &[],
        categories: &["oam"],
        scope: "Namespaced",
        versions: vec![version],
    }
}

/// A version that is stored.
fn version<T: Described>(name: &'static str, columns: Columns) -> Version {
    Version {
        name,
        storage: true,
        columns,
        wide_columns: &[],
        status_subresource: false,
        schema: root::<T>(),
    }
}

fn definition<T: Described + Resource<DynamicType = ()>>(
    short_names: &'static [&'static str],
    columns: Columns,
) -> Definition {
    let version = Version { status_subresource: true, ..version::<T>("v1beta1", columns) };
    Definition { short_names, ..kind::<T>(version) }
}

/// The schema of an object of its own: the API server knows its metadata.
fn root<T: Described>() -> Schema {
    T::schema()
        .describe(T::DOC)
        .field("apiVersion", "", false, string())
        .field("kind", "", false, string())
        .field("metadata", "", false, opaque())
}

/// The kind's own CustomResourceDefinition still shows variants that no longer work, and has no details.
fn workload_definition(name: &'static str, columns: Columns) -> Version {
    let legacy = |schematic: Schema| {
        let helm = Schema::object().field("release", "", true, anything()).field(
            "repository",
            "",
            true,
            anything(),
        );
        let type_ = string().one_of(&["string", "number", "boolean"]);
        let parameter = Schema::object()
            .field("name", "", true, string())
            .field("type", "", true, type_)
            .field("fieldPaths", "", true, list(string()))
            .field("required", "", false, boolean().default(false))
            .field("description", "", false, string());
        let kube = Schema::object().field("template", "", true, anything()).field(
            "parameters",
            "",
            false,
            list(parameter),
        );
        schematic.field("helm", "No longer supported.", false, helm).field(
            "kube",
            "No longer supported.",
            false,
            kube,
        )
    };
    let own = root::<WorkloadDefinition>().change("spec", |spec| {
        spec.field(
            "status",
            "Health and status templates.",
            false,
            StatusTemplates::schema_without(&["details"]),
        )
        .field("schematic", "The template.", false, legacy(Schematic::schema()))
    });
    Version { schema: own, ..version::<WorkloadDefinition>(name, columns) }
}
