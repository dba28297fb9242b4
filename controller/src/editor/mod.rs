//! The schema of Applications for editors: its types, and the ConfigMap that stores it.
//!
//! [`vela_render::schema::editor`] says what a type takes. Here the types of the cluster are collected; `keep.rs` keeps the
//! ConfigMap, `command.rs` is `vela-controller schema`.

mod command;
mod keep;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use vela_api::names::annotation;
use vela_api::{ComponentDefinition, PolicyDefinition, TraitDefinition, WorkflowStepDefinition};
use vela_render::schema::editor::{self, EditorType, Parameters};
use vela_render::{Definition, DefinitionKind};

use crate::definition;
use crate::definitions::{Definitions, to_render};

pub use command::{COMMAND, main};
pub(crate) use keep::keep;

/// A ConfigMap holds 1 MiB in all.
const MAX_BYTES: usize = 900 << 10;

/// A type of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Its name, or that of one of its revisions: `webservice@v3`.
    name: String,
    description: String,
    definition: Arc<Definition>,
}

impl Found {
    fn of<T: definition::Kind>(definition: &T, name: &str) -> Self {
        let annotations = definition.metadata().annotations.as_ref();
        let description = annotations.and_then(|all| all.get(annotation::DEFINITION_DESCRIPTION));
        Self {
            name: name.to_owned(),
            description: description.cloned().unwrap_or_default(),
            definition: Arc::new(to_render(definition)),
        }
    }

    /// What editors know of it.
    pub(crate) fn with(&self, parameters: Parameters) -> EditorType {
        EditorType {
            kind: self.definition.kind,
            name: self.name.clone(),
            description: self.description.clone(),
            parameters,
        }
    }
}

/// The types that the definitions of some namespaces make, and whether there are others.
pub(crate) fn types(
    definitions: &Definitions,
    is_meant: impl Fn(&str) -> bool,
) -> (Vec<Found>, bool) {
    let mut found = Vec::new();
    let mut is_complete = true;
    macro_rules! collect {
        ($($kind:ty),*) => {$(
            for one in <$kind as crate::definitions::Lookup>::store(definitions).all() {
                if is_meant(one.metadata.namespace.as_deref().unwrap_or_default()) {
                    found.push(Found::of(one.as_ref(), one.metadata.name.as_deref().unwrap_or_default()));
                } else {
                    is_complete = false;
                }
            }
        )*};
    }
    collect!(ComponentDefinition, TraitDefinition, PolicyDefinition, WorkflowStepDefinition);
    for revision in definitions.revisions.all() {
        let metadata = &revision.metadata;
        if !is_meant(metadata.namespace.as_deref().unwrap_or_default()) {
            continue;
        }
        let full = metadata.name.as_deref().unwrap_or_default();
        macro_rules! embedded {
            ($kind:ty) => {{
                use crate::definitions::Lookup as _;
                <$kind>::of_revision(&revision).and_then(|definition| {
                    // The name of a revision is `name-vN`, the type that pins it `name@vN`.
                    let version = full.strip_prefix(definition.name())?.strip_prefix('-')?;
                    Some(Found::of(definition, &format!("{}@{version}", definition.name())))
                })
            }};
        }
        use vela_api::names::definition_type as types;
        found.extend(match revision.spec.definition_type.as_str() {
            types::COMPONENT => embedded!(ComponentDefinition),
            types::TRAIT => embedded!(TraitDefinition),
            types::POLICY => embedded!(PolicyDefinition),
            types::WORKFLOW_STEP => embedded!(WorkflowStepDefinition),
            _ => None,
        });
    }
    // Old component types are WorkloadDefinitions; nobody knows what they take.
    is_complete &= definitions.workloads.is_empty();
    (found, is_complete)
}

/// What was found out about texts: most revisions of a definition have one that another has too.
#[derive(Debug, Default)]
pub(crate) struct Known(HashMap<(DefinitionKind, Arc<str>), Parameters>);

impl Known {
    fn key(found: &Found) -> (DefinitionKind, Arc<str>) {
        (found.definition.kind, found.definition.template.text().into())
    }

    pub(crate) fn get(&self, found: &Found) -> Option<&Parameters> {
        self.0.get(&Self::key(found))
    }

    pub(crate) fn put(&mut self, found: &Found, parameters: Parameters) {
        self.0.insert(Self::key(found), parameters);
    }
}

/// The schema as text. If it is too large for a ConfigMap, names of revisions are left out; `None` if that does not help.
pub(crate) fn text(types: &[EditorType], is_complete: bool) -> Option<String> {
    let print = |types: &[EditorType]| editor::application(types, is_complete).to_string();
    let whole = print(types);
    if whole.len() <= MAX_BYTES {
        return Some(whole);
    }
    // Names of revisions multiply with every edit; the types themselves are what people complete.
    let unpinned: Vec<_> = types.iter().filter(|one| !one.name.contains('@')).cloned().collect();
    Some(print(&unpinned)).filter(|text| text.len() <= MAX_BYTES)
}

/// The text that a ConfigMap has.
fn stored(config_map: &Value) -> Option<&str> {
    config_map.get("data")?.get(vela_api::names::EDITOR_SCHEMA_KEY)?.as_str()
}
