//! Which Applications name a version of a definition (`webservice@v1`): such a version is kept, and one that comes may be what
//! they mean. By name of the definition, so that neither takes a pass over all Applications.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use serde_json::Value;
use vela_api::application::ApplicationSpec;
use vela_api::workflow::WorkflowStep;
use vela_api::{Application, DefinitionRevision, RawExtension};
use vela_cluster::{Key, Stored};

use crate::application::parse;
use crate::context::Context;

/// Keys of Applications by the names of definitions. It holds what the cache of Applications holds, and no more.
#[derive(Debug, Default)]
pub struct Users(Mutex<HashMap<String, BTreeSet<Key>>>);

impl Users {
    /// Takes in a change of an Application.
    pub fn note(&self, old: Option<&Application>, new: Option<&Application>) {
        let before = old.map(named).unwrap_or_default();
        let after = new.map(named).unwrap_or_default();
        let Some(key) = new.or(old).map(Stored::key).filter(|_| before != after) else { return };
        let mut all = self.0.lock();
        for gone in before.difference(&after) {
            if let Some(keys) = all.get_mut(gone) {
                keys.remove(&key);
                if keys.is_empty() {
                    all.remove(gone);
                }
            }
        }
        for come in after.difference(&before) {
            all.entry(come.clone()).or_default().insert(key.clone());
        }
    }

    /// The Applications that name a version of a definition.
    #[must_use]
    pub fn of(&self, definition: &str) -> Vec<Key> {
        self.0.lock().get(definition).into_iter().flatten().cloned().collect()
    }
}

/// Looks again at Applications that may mean a version that came.
pub fn wake(context: &Context, revision: &DefinitionRevision) {
    // All of them are looked at anyway while they are being listed.
    let Some(definition) = revision.index().filter(|_| context.apps.is_synced()) else { return };
    let is_system = definition.namespace == context.settings.system_namespace;
    for app in context.users.of(&definition.name) {
        if is_system || app.namespace == definition.namespace {
            context.queue.add(app);
        }
    }
}

/// The definitions of which an Application names a version.
fn named(app: &Application) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    types(&app.spec, &mut |type_| {
        if let Some((name, _)) = type_.split_once('@') {
            names.insert(name.to_owned());
        }
    });
    names
}

/// The types that stand where an Application may have one: the places are those that parsing it looks at.
pub(super) fn types(spec: &ApplicationSpec, seen: &mut dyn FnMut(&str)) {
    for component in &spec.components {
        seen(&component.type_);
        component.traits.iter().for_each(|one| seen(&one.type_));
    }
    for policy in &spec.policies {
        seen(&policy.type_);
        types_of_override(&policy.type_, policy.properties.as_ref(), seen);
    }
    types_of_steps(spec.workflow.iter().flat_map(|workflow| &workflow.steps), seen);
}

pub(super) fn types_of_steps<'s>(
    steps: impl IntoIterator<Item = &'s WorkflowStep>,
    seen: &mut dyn FnMut(&str),
) {
    for step in steps {
        seen(&step.type_);
        step.sub_steps.iter().for_each(|sub| seen(&sub.type_));
    }
}

/// The types of components and traits that an override policy brings. Only versions are of interest here.
pub(super) fn types_of_override(
    policy: &str,
    properties: Option<&RawExtension>,
    seen: &mut dyn FnMut(&str),
) {
    let written = properties.filter(|text| policy == "override" && text.as_str().contains('@'));
    let Some(value) = written.and_then(|written| parse::properties(Some(written))) else { return };
    for component in list(&value, "components") {
        let all = std::iter::once(component).chain(list(component, "traits"));
        all.filter_map(|one| one.get("type")?.as_str()).for_each(&mut *seen);
    }
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn applications_are_found_by_the_versions_they_name() {
        let app = |component: &str, trait_: &str| -> Application {
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {
                "components": [{"name": "c", "type": component, "traits": [{"type": "scaler"}]}],
                "policies": [{"name": "o", "type": "override", "properties": {"components": [
                    {"name": "c", "traits": [{"type": trait_}]}]}}]}}))
            .unwrap()
        };
        let (users, key) = (Users::default(), Key::new("n", "a"));
        let (first, second) = (app("web@v1", "late@v2"), app("web", "late@v3"));
        users.note(None, Some(&first));
        assert_eq!((users.of("web"), users.of("late")), (vec![key.clone()], vec![key.clone()]));
        assert!(users.of("scaler").is_empty());
        users.note(Some(&first), Some(&second));
        assert_eq!((users.of("web"), users.of("late")), (vec![], vec![key]));
        users.note(Some(&second), None);
        assert!(users.0.lock().is_empty());
    }
}
