//! Definitions as the renderer needs them, read from stored objects.

use crate::terraform::Schematic;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use vela_api::DefinitionKind;

/// When a trait's objects are applied.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Stage {
    /// Before the workload.
    PreDispatch,
    /// With the workload.
    #[default]
    DefaultDispatch,
    /// After the workload is healthy; not even rendered before.
    PostDispatch,
}

impl Stage {
    /// The stage with this name; the empty name is the default.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "DefaultDispatch" => Some(Self::DefaultDispatch),
            "PreDispatch" => Some(Self::PreDispatch),
            "PostDispatch" => Some(Self::PostDispatch),
            _ => None,
        }
    }

    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreDispatch => "PreDispatch",
            Self::DefaultDispatch => "DefaultDispatch",
            Self::PostDispatch => "PostDispatch",
        }
    }
}

/// What a definition renders with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Template {
    /// CUE text.
    Cue(Arc<str>),
    /// A Terraform module.
    Terraform(Arc<Schematic>),
    /// A kind of schematic that older releases knew: `helm` or `kube`.
    Retired(&'static str),
    /// Nothing: an empty template.
    #[default]
    None,
}

impl Template {
    /// The CUE text; empty if there is none.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Cue(text) => text,
            Self::Terraform(_) | Self::Retired(_) | Self::None => "",
        }
    }
}

/// The status texts of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusTexts {
    /// Gives `isHealth`; no text means healthy.
    pub health_policy: Option<Arc<str>>,
    /// Gives `message`.
    pub custom_status: Option<Arc<str>>,
    /// Gives one status detail per field.
    pub details: Option<Arc<str>>,
}

impl StatusTexts {
    /// Whether there is no text at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.health_policy.is_none() && self.custom_status.is_none() && self.details.is_none()
    }
}

/// A definition as it is rendered: parsed from the object once, then shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Of a component, trait, policy or workflow step.
    pub kind: DefinitionKind,
    /// Its name, without revision.
    pub name: String,
    /// Its annotations (a Terraform workload gets them).
    pub annotations: BTreeMap<String, String>,
    /// What it renders with.
    pub template: Template,
    /// Its status texts.
    pub status: StatusTexts,
    /// Traits: when its objects are applied.
    pub stage: Stage,
    /// Traits: the trait stands for the component's workload, which is not applied.
    pub manage_workload: bool,
    /// Traits: its objects stay on the control plane.
    pub control_plane_only: bool,
    /// Traits: where to write a reference to the workload.
    pub workload_ref_path: Option<String>,
    /// Policies: the health of the application is the policy's business.
    pub manage_health_check: bool,
}

fn text(spec: &Json, pointer: &str) -> Option<Arc<str>> {
    spec.pointer(pointer).and_then(Json::as_str).filter(|s| !s.is_empty()).map(Arc::from)
}

fn flag(spec: &Json, pointer: &str) -> bool {
    spec.pointer(pointer).and_then(Json::as_bool).unwrap_or_default()
}

/// The kind of schematic that is there no more, if that is what the definition has.
fn retired(spec: &Json) -> Option<&'static str> {
    let has =
        |kind: &&str| spec.pointer(&format!("/schematic/{kind}")).is_some_and(Json::is_object);
    ["helm", "kube"].into_iter().find(has)
}

impl Definition {
    /// Reads a stored object of any definition kind.
    #[must_use]
    pub fn from_object(object: &Json) -> Option<Self> {
        let kind = DefinitionKind::named(object.get("kind")?.as_str()?)?;
        let name = object.pointer("/metadata/name")?.as_str()?;
        let mut definition = Self::from_spec(kind, name, object.get("spec").unwrap_or(&Json::Null));
        if let Some(annotations) = object.pointer("/metadata/annotations").and_then(Json::as_object)
        {
            for (key, value) in annotations {
                if let Some(value) = value.as_str() {
                    definition.annotations.insert(key.clone(), value.to_owned());
                }
            }
        }
        // An old way of saying so.
        if kind == DefinitionKind::Component
            && definition.annotations.get("type").is_some_and(|t| t == "terraform")
            && !matches!(definition.template, Template::Terraform(_))
        {
            definition.template = Template::Terraform(Arc::new(Schematic::default()));
        }
        Some(definition)
    }

    /// Reads the spec of a definition.
    #[must_use]
    pub fn from_spec(kind: DefinitionKind, name: &str, spec: &Json) -> Self {
        let template = match text(spec, "/schematic/cue/template") {
            Some(template) => Template::Cue(template),
            None => match spec.pointer("/schematic/terraform").filter(|t| !t.is_null()) {
                Some(module) => Template::Terraform(Arc::new(Schematic::from_json(module))),
                None => match text(spec, "/extension/template") {
                    Some(template) => Template::Cue(template),
                    None => retired(spec).map_or(Template::None, Template::Retired),
                },
            },
        };
        Self {
            kind,
            name: name.to_owned(),
            annotations: BTreeMap::new(),
            template,
            status: StatusTexts {
                health_policy: text(spec, "/status/healthPolicy"),
                custom_status: text(spec, "/status/customStatus"),
                details: text(spec, "/status/details"),
            },
            stage: text(spec, "/stage").and_then(|s| Stage::named(&s)).unwrap_or_default(),
            manage_workload: flag(spec, "/manageWorkload"),
            control_plane_only: flag(spec, "/controlPlaneOnly"),
            workload_ref_path: text(spec, "/workloadRefPath").map(|s| s.to_string()),
            manage_health_check: flag(spec, "/manageHealthCheck"),
        }
    }
}

/// `name@v2` as the name of the DefinitionRevision `name-v2`: the form used in labels.
#[must_use]
pub fn converted_type(name: &str) -> String {
    match name.split_once("@v") {
        Some((base, revision)) => format!("{base}-v{revision}"),
        None => name.to_owned(),
    }
}
