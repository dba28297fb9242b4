//! Components that are Terraform modules: the `Configuration` object.

use crate::messages;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The schematic `terraform` of a ComponentDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schematic {
    /// HCL text or the address of a git repository.
    pub configuration: String,
    /// `hcl`, `json` or `remote`.
    pub kind: String,
    /// Folder inside the repository.
    pub path: String,
    /// Where the module's outputs go by default.
    pub write_connection_secret_to_ref: Option<Json>,
    /// The provider by default.
    pub provider_ref: Option<Json>,
    /// Whether the cloud resource goes with the component.
    pub delete_resource: Option<bool>,
    /// The region by default.
    pub custom_region: String,
    /// Credentials of the repository.
    pub git_credentials: Option<Json>,
}

impl Schematic {
    /// Reads the schematic.
    #[must_use]
    pub fn from_json(json: &Json) -> Self {
        let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let object = |key: &str| json.get(key).filter(|v| v.is_object()).cloned();
        Self {
            configuration: text("configuration"),
            kind: text("type"),
            path: text("path"),
            write_connection_secret_to_ref: object("writeConnectionSecretToRef"),
            provider_ref: object("providerRef"),
            delete_resource: json.get("deleteResource").and_then(Json::as_bool),
            custom_region: text("customRegion"),
            git_credentials: object("gitCredentialsSecretReference"),
        }
    }
}

/// Properties that configure the object and are no variables of the module.
const SETTINGS: [&str; 5] = [
    "writeConnectionSecretToRef",
    "customRegion",
    "providerRef",
    "forceDelete",
    "gitCredentialsSecretReference",
];

/// Why there is no `Configuration`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TerraformError {
    #[error("{}", messages::no_configuration())]
    NoConfiguration,
    /// A property that must be an object, and the kind it is of.
    #[error("{}", messages::bad_property(.0, .1))]
    Property(String, &'static str),
}

/// The `Configuration` of a component.
pub(crate) fn configuration(
    schematic: &Schematic,
    name: &str,
    namespace: &str,
    annotations: &BTreeMap<String, String>,
    properties: Option<&Map<String, Json>>,
) -> Result<Json, TerraformError> {
    if schematic.configuration.is_empty() {
        return Err(TerraformError::NoConfiguration);
    }
    let empty = Map::new();
    let given = properties.unwrap_or(&empty);
    let mut spec = Map::new();
    // What the Configuration itself knows is taken over as it is given.
    for (key, value) in given {
        if KNOWN.contains(&key.as_str()) && !value.is_null() {
            if REFERENCES.contains(&key.as_str()) && !value.is_object() {
                return Err(TerraformError::Property(key.clone(), crate::json::kind_name(value)));
            }
            spec.insert(key.clone(), value.clone());
        }
    }
    if !spec.contains_key("writeConnectionSecretToRef")
        && let Some(reference) = &schematic.write_connection_secret_to_ref
    {
        spec.insert("writeConnectionSecretToRef".into(), reference.clone());
    }
    if let Some(reference) =
        spec.get_mut("writeConnectionSecretToRef").and_then(Json::as_object_mut)
    {
        let missing = reference.get("namespace").and_then(Json::as_str).unwrap_or("").is_empty();
        if missing {
            reference.insert("namespace".into(), namespace.into());
        }
    }
    if !spec.contains_key("providerRef")
        && let Some(reference) = &schematic.provider_ref
    {
        spec.insert("providerRef".into(), reference.clone());
    }
    if !spec.contains_key("gitCredentialsSecretReference")
        && let Some(reference) = &schematic.git_credentials
    {
        spec.insert("gitCredentialsSecretReference".into(), reference.clone());
    }
    if !spec.contains_key("customRegion") && !schematic.custom_region.is_empty() {
        spec.insert("customRegion".into(), schematic.custom_region.clone().into());
    }
    if !spec.contains_key("deleteResource")
        && let Some(delete) = schematic.delete_resource
    {
        spec.insert("deleteResource".into(), delete.into());
    }
    match schematic.kind.as_str() {
        "hcl" => {
            spec.insert("hcl".into(), schematic.configuration.clone().into());
        }
        "remote" => {
            spec.insert("remote".into(), schematic.configuration.clone().into());
            if !schematic.path.is_empty() {
                spec.insert("path".into(), schematic.path.clone().into());
            }
        }
        _ => {}
    }
    spec.entry("gitRef").or_insert_with(|| json!({}));
    let variables: Option<Map<String, Json>> = properties.map(|given| {
        given
            .iter()
            .filter(|(key, _)| !SETTINGS.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    });
    if let Some(variables) = variables {
        spec.insert("variable".into(), Json::Object(variables));
    } else {
        spec.insert("variable".into(), Json::Null);
    }
    let mut metadata = json!({ "name": name, "namespace": namespace, "creationTimestamp": null });
    if !annotations.is_empty()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.insert("annotations".into(), json!(annotations));
    }
    Ok(json!({
        "apiVersion": "terraform.core.oam.dev/v1beta2",
        "kind": "Configuration",
        "metadata": metadata,
        "spec": spec,
        "status": { "apply": {}, "destroy": {} },
    }))
}

/// Those of [`KNOWN`] that refer to another object.
const REFERENCES: [&str; 3] =
    ["writeConnectionSecretToRef", "providerRef", "gitCredentialsSecretReference"];

/// Fields of a Configuration's spec that properties may set directly.
const KNOWN: [&str; 15] = [
    "hcl",
    "remote",
    "path",
    "variable",
    "writeConnectionSecretToRef",
    "providerRef",
    "customRegion",
    "deleteResource",
    "forceDelete",
    "gitCredentialsSecretReference",
    "gitRef",
    "backend",
    "jobEnv",
    "region",
    "inlineCredentials",
];

/// Health of a live `Configuration`: applied, for the generation that is asked for.
#[must_use]
pub fn is_healthy(live: &Json) -> bool {
    let available = live.pointer("/status/apply/state").and_then(Json::as_str) == Some("Available");
    let generation = live.pointer("/metadata/generation").and_then(Json::as_i64).unwrap_or(0);
    let observed = live.pointer("/status/observedGeneration").and_then(Json::as_i64).unwrap_or(0);
    available && observed == generation
}
