//! Types that need no definition: the policies that the control plane reads itself, with the shape of their properties, and the
//! steps that the workflow engine runs itself.
//!
//! Admission compares properties with the shape, editors get the names of it, and the readers take what it describes:
//! `vela_apply::policy` for policies about objects, the controller's `workflow/placement.rs` for those about placements.

use crate::Drift;

/// What becomes of objects that are no longer wanted.
pub const GARBAGE_COLLECT: &str = "garbage-collect";
/// Objects, or fields of them, that are written once and then left alone.
pub const APPLY_ONCE: &str = "apply-once";
/// Objects that several Applications may claim.
pub const SHARED_RESOURCE: &str = "shared-resource";
/// Objects of nobody that are adopted.
pub const TAKE_OVER: &str = "take-over";
/// Objects that are only read.
pub const READ_ONLY: &str = "read-only";
/// How objects are changed.
pub const RESOURCE_UPDATE: &str = "resource-update";
/// Environments with patches of their own: the older form of topology and override.
pub const ENV_BINDING: &str = "env-binding";
/// Clusters and namespace of a deployment.
pub const TOPOLOGY: &str = "topology";
/// Components that are deployed several times, under other names.
pub const REPLICATION: &str = "replication";
/// Keeps what the workflow evaluated, for people to read.
pub const DEBUG: &str = "debug";
/// Components of a deployment with other properties and traits.
pub const OVERRIDE: &str = "override";

/// Steps that the workflow engine runs itself.
pub const STEPS: [&str; 4] =
    ["apply-component", "builtin-apply-component", "step-group", "suspend"];

/// The shape of a built-in policy's properties.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A boolean.
    Bool,
    /// A whole number.
    Int,
    /// A JSON string.
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// Free-form texts by key.
    Labels,
    /// Anything: checked elsewhere or not at all.
    Any,
    /// A list of anything.
    Items,
    /// A list of objects with these fields.
    List(&'static [(&'static str, Self)]),
    /// An object with these fields.
    Object(&'static [(&'static str, Self)]),
}

use Shape::{Any, Bool, Int, Items, Labels, List, Object, Text, Texts, Word};

/// The fields of an object, by name.
pub type Fields = &'static [(&'static str, Shape)];

/// A policy that the control plane reads itself.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinPolicy {
    /// Its type.
    pub name: &'static str,
    /// What its properties may have.
    pub properties: Fields,
}

/// The policies that the control plane reads itself; all others are rendered from their definition.
pub static POLICIES: [BuiltinPolicy; 11] = [
    BuiltinPolicy {
        name: GARBAGE_COLLECT,
        properties: &[
            ("applicationRevisionLimit", Int),
            ("keepLegacyResource", Bool),
            ("continueOnFailure", Bool),
            ("order", Text),
            ("rules", List(&[("selector", SELECTOR), ("strategy", Text), ("propagation", Text)])),
        ],
    },
    BuiltinPolicy {
        name: APPLY_ONCE,
        properties: &[
            ("enable", Bool),
            (
                "rules",
                List(&[
                    ("selector", SELECTOR),
                    ("strategy", Object(&[("path", Texts), ("affect", Text)])),
                    ("drift", Word(&Drift::WORDS)),
                ]),
            ),
        ],
    },
    BuiltinPolicy {
        name: SHARED_RESOURCE,
        properties: &[("rules", List(&[("selector", SELECTOR)]))],
    },
    BuiltinPolicy { name: TAKE_OVER, properties: &[("rules", List(&[("selector", SELECTOR)]))] },
    BuiltinPolicy { name: READ_ONLY, properties: &[("rules", List(&[("selector", SELECTOR)]))] },
    BuiltinPolicy {
        name: RESOURCE_UPDATE,
        properties: &[(
            "rules",
            List(&[
                ("selector", SELECTOR),
                (
                    "strategy",
                    Object(&[("op", Text), ("recreateFields", Texts), ("onConflict", Text)]),
                ),
            ]),
        )],
    },
    BuiltinPolicy { name: ENV_BINDING, properties: &[("envs", Items), ("created", Any)] },
    BuiltinPolicy {
        name: TOPOLOGY,
        properties: &[
            ("clusters", Texts),
            ("clusterLabelSelector", Labels),
            ("clusterSelector", Labels),
            ("allowEmpty", Bool),
            ("namespace", Text),
        ],
    },
    BuiltinPolicy { name: REPLICATION, properties: &[("keys", Texts), ("selector", Texts)] },
    BuiltinPolicy { name: DEBUG, properties: &[] },
    BuiltinPolicy { name: OVERRIDE, properties: OVERRIDE_PROPERTIES },
];

const SELECTOR: Shape = Object(&[
    ("componentNames", Texts),
    ("componentTypes", Texts),
    ("oamTypes", Texts),
    ("traitTypes", Texts),
    ("resourceTypes", Texts),
    ("resourceNames", Texts),
]);

const OVERRIDE_PROPERTIES: Fields = &[
    (
        "components",
        List(&[
            ("name", Text),
            ("type", Text),
            ("properties", Any),
            ("externalRevision", Text),
            ("traits", List(&[("type", Text), ("properties", Any), ("disable", Bool)])),
        ]),
    ),
    ("selector", Texts),
];

/// The built-in policy of a type.
#[must_use]
pub fn policy(name: &str) -> Option<&'static BuiltinPolicy> {
    POLICIES.iter().find(|policy| policy.name == name)
}
