//! The definitions of the cluster, cached, and how a type name finds its definition.
//!
//! Answers for `pkg/oam/util/helper.go` (GetCapabilityDefinition): the Application's namespace first, then the system
//! namespace; `name@vR` means the definition embedded in the DefinitionRevision `name-vR`.

use std::any::Any;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use vela_api::{
    ComponentDefinition, DefinitionRevision, ObjectMeta, Policy, PolicyDefinition, TraitDefinition,
    Workflow, WorkflowStepDefinition, WorkloadDefinition,
};
use vela_render::{Definition, DefinitionKind};

use crate::arc_memo::ArcMemo;
use crate::messages;
use vela_cluster::{Key, Store, Stored};
use vela_seal::{Content, Keys, Stamp};

/// The caches of everything an Application refers to by name.
#[derive(Debug, Default)]
pub struct Definitions {
    /// ComponentDefinitions.
    pub components: Arc<Store<ComponentDefinition>>,
    /// TraitDefinitions.
    pub traits: Arc<Store<TraitDefinition>>,
    /// PolicyDefinitions.
    pub policies: Arc<Store<PolicyDefinition>>,
    /// WorkflowStepDefinitions.
    pub steps: Arc<Store<WorkflowStepDefinition>>,
    /// WorkloadDefinitions.
    pub workloads: Arc<Store<WorkloadDefinition>>,
    /// DefinitionRevisions.
    pub revisions: Arc<Store<DefinitionRevision>>,
    /// Policies outside of Applications.
    pub external_policies: Arc<Store<Policy>>,
    /// Workflows outside of Applications.
    pub workflows: Arc<Store<Workflow>>,
    /// Those in use, in the form rendering wants.
    pub(crate) renderable: ArcMemo<Arc<Definition>>,
    /// Those in use, as revisions embed them.
    pub(crate) embedded: ArcMemo<Arc<dyn Any + Send + Sync>>,
    /// Who wrote those in use, if that is known.
    pub(crate) authors: ArcMemo<Option<Arc<Stamp>>>,
    /// Where built-in definitions live.
    pub system_namespace: String,
}

/// A definition kind that can be resolved.
pub trait Lookup: Stored + Clone + Serialize + Default {
    /// Its kind for rendering.
    const KIND: DefinitionKind;
    /// Its cache.
    fn store(definitions: &Definitions) -> &Store<Self>;
    /// The one embedded in a DefinitionRevision.
    fn of_revision(revision: &DefinitionRevision) -> Option<&Self>;
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata`.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

macro_rules! lookup {
    ($kind:ident, $render:ident, $store:ident, $embedded:expr) => {
        impl Lookup for $kind {
            const KIND: DefinitionKind = DefinitionKind::$render;
            fn store(definitions: &Definitions) -> &Store<Self> {
                &definitions.$store
            }
            fn of_revision(revision: &DefinitionRevision) -> Option<&Self> {
                let embedded: fn(&DefinitionRevision) -> Option<&Self> = $embedded;
                embedded(revision)
            }
            fn name(&self) -> &str {
                self.metadata.name.as_deref().unwrap_or_default()
            }
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

lookup!(ComponentDefinition, Component, components, |r| Some(&r.spec.component_definition));
lookup!(TraitDefinition, Trait, traits, |r| Some(&r.spec.trait_definition));
lookup!(PolicyDefinition, Policy, policies, |r| Some(&r.spec.policy_definition));
lookup!(WorkflowStepDefinition, WorkflowStep, steps, |r| Some(&r.spec.workflow_step_definition));
lookup!(WorkloadDefinition, Workload, workloads, |_| None);

impl Definitions {
    /// The definition that a type name (`webservice`, `webservice@v3`) means in a namespace.
    #[must_use]
    pub fn find<T: Lookup>(&self, namespace: &str, type_name: &str) -> Option<Arc<T>> {
        let namespaces = [namespace, self.system_namespace.as_str()];
        if let Some((name, revision)) = type_name.split_once('@') {
            let key = format!("{name}-{revision}");
            return namespaces.iter().find_map(|ns| {
                let revision = self.revisions.get(&Key::new(*ns, &key))?;
                embedded::<T>(&revision, ns, name)
            });
        }
        namespaces.iter().find_map(|ns| T::store(self).get(&Key::new(*ns, type_name)))
    }

    /// With auto-update `"true"`: the newest revision whose version begins with the one asked for.
    #[must_use]
    pub fn find_newest<T: Lookup>(&self, namespace: &str, type_name: &str) -> Option<Arc<T>> {
        let Some((name, version)) = type_name.split_once("@v") else {
            return self.find(namespace, type_name);
        };
        if let Some(exact) = self.find(namespace, type_name) {
            return Some(exact);
        }
        let prefix = format!("{name}-v{version}.");
        [namespace, self.system_namespace.as_str()].iter().find_map(|ns| {
            let revisions = self.revisions.all();
            let newest = revisions
                .iter()
                .filter(|revision| revision.metadata.namespace.as_deref() == Some(*ns))
                .filter_map(|revision| {
                    let full = revision.metadata.name.as_deref()?;
                    let text = full.starts_with(&prefix).then_some(full)?;
                    let version = text.strip_prefix(&format!("{name}-v"))?;
                    Some((semver::Version::parse(version).ok()?, revision))
                })
                .max_by(|(a, _), (b, _)| a.cmp(b))?;
            embedded::<T>(newest.1, ns, name)
        })
    }

    /// A definition in the form rendering wants, as it is kept.
    #[must_use]
    pub fn to_render<T: Lookup>(&self, definition: &Arc<T>) -> Arc<Definition> {
        self.renderable.get(definition, || Arc::new(to_render(definition.as_ref())))
    }

    /// A definition as revisions embed it, as it is kept; `copy` makes it.
    pub fn embedded<T: Send + Sync + 'static>(
        &self,
        definition: &Arc<T>,
        copy: impl Fn(&T) -> T,
    ) -> Arc<T> {
        let kept = self.embedded.get(definition, || Arc::new(copy(definition)));
        // What is kept of a definition is of its type.
        Arc::downcast(kept).unwrap_or_else(|_| Arc::new(copy(definition)))
    }

    /// Who wrote a definition, if that is known.
    pub(crate) fn author<T: Content + Send + Sync + 'static>(
        &self,
        definition: &Arc<T>,
        keys: Option<&Keys>,
    ) -> Option<Stamp> {
        let author = self.authors.get(definition, || definition.author(keys?).map(Arc::new));
        author.map(Arc::unwrap_or_clone)
    }

    /// What is missing, for people.
    #[must_use]
    pub fn missing<T: Lookup>(&self, namespace: &str, type_name: &str) -> String {
        messages::definition_not_found(T::KIND.kind(), type_name, namespace, &self.system_namespace)
    }
}

/// The definition of this name in a DefinitionRevision: of the namespace where that is, whatever it says of itself.
fn embedded<T: Lookup>(revision: &DefinitionRevision, ns: &str, name: &str) -> Option<Arc<T>> {
    let definition = T::of_revision(revision).filter(|definition| definition.name() == name)?;
    let mut definition = definition.clone();
    definition.metadata_mut().namespace = Some(ns.to_owned());
    Some(Arc::new(definition))
}

/// A definition in the form rendering wants.
#[must_use]
pub fn to_render<T: Lookup>(definition: &T) -> Definition {
    let mut object = serde_json::to_value(definition).unwrap_or(Value::Null);
    // Items of a list, from which caches are filled, do not say what they are.
    vela_apply::object::set_type(&mut object, vela_api::V1BETA1, T::KIND.kind());
    Definition::from_object(&object).unwrap_or_else(|| {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        Definition::from_spec(T::KIND, definition.name(), spec)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_from_a_list_is_what_its_kind_says() {
        let old: ComponentDefinition = serde_json::from_value(json!({
            "metadata": {"name": "d", "annotations": {"type": "terraform"}}, "spec": {}}))
        .unwrap();
        let form = to_render(&old);
        assert!(matches!(form.template, vela_render::Template::Terraform(_)));
        assert_eq!((form.name.as_str(), form.annotations.len()), ("d", 1));
    }
}
