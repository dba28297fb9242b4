//! Which Applications a change of a definition may matter to: those that name a version of it (`webservice@v1`: such a version is
//! kept, and one that comes may be what they mean), those that it may have held up or that follow it, and those with a policy
//! of that type. By name and namespace, so that a change takes no pass over all Applications.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use serde_json::Value;
use vela_api::application::ApplicationSpec;
use vela_api::names::phase;
use vela_api::workflow::WorkflowStep;
use vela_api::{Application, RawExtension};
use vela_cluster::{Key, Store};

use crate::application::facts;
use crate::cached::Cached;

/// Why a change of a definition may matter to an Application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// It names a version of the definition.
    Version(String),
    /// It has a policy of that type that is not built in.
    Policy(String),
    /// It names the definition, and waits for it or follows it.
    Definition(String),
    /// It waits or follows, and an override, a Workflow or a Policy may name any definition.
    AnyDefinition,
    /// It waits or follows.
    Waits,
}

/// Keys of Applications by what they use. It holds what the cache of Applications holds, and no more; of a settled Application that
/// names no version there is nothing.
#[derive(Debug, Default)]
pub struct Users(Mutex<Index>);

#[derive(Debug, Default)]
struct Index {
    by_use: HashMap<Use, BTreeSet<Key>>,
    by_app: HashMap<Key, BTreeSet<Use>>,
}

impl Users {
    /// Takes in a change of an Application in the cache. The last caller reads last, so the order of changes does not matter.
    pub fn note(&self, key: &Key, apps: &Store<Cached>) {
        let mut index = self.0.lock();
        let after = apps.get(key).map(|app| app.outline.uses.clone()).unwrap_or_default();
        let before = index.by_app.remove(key).unwrap_or_default();
        for gone in before.difference(&after) {
            if let Some(keys) = index.by_use.get_mut(gone) {
                keys.remove(key);
                if keys.is_empty() {
                    index.by_use.remove(gone);
                }
            }
        }
        for come in after.difference(&before) {
            index.by_use.entry(come.clone()).or_default().insert(key.clone());
        }
        if !after.is_empty() {
            index.by_app.insert(key.clone(), after);
        }
    }

    /// The Applications that use something, of one namespace or of all.
    #[must_use]
    pub fn of(&self, used: &Use, namespace: Option<&str>) -> Vec<Key> {
        let index = self.0.lock();
        let Some(keys) = index.by_use.get(used) else { return Vec::new() };
        match namespace {
            None => keys.iter().cloned().collect(),
            Some(namespace) => keys
                .range(Key::new(namespace, "")..)
                .take_while(|key| key.namespace == namespace)
                .cloned()
                .collect(),
        }
    }
}

/// Whether a definition may have held an Application up.
fn is_held_up(app: &Application) -> bool {
    use phase::{GENERATING_POLICY, RENDERING, STARTING, WORKFLOW_FAILED};
    [STARTING, RENDERING, GENERATING_POLICY, WORKFLOW_FAILED].contains(&app.status.phase.as_str())
}

/// What an Application uses, as far as a change of it may matter.
pub(crate) fn uses(app: &Application) -> BTreeSet<Use> {
    let mut uses = BTreeSet::new();
    let waits = is_held_up(app) || facts::follows_definitions(app);
    types(&app.spec, &mut |type_| {
        let (name, version) = type_.split_once('@').unwrap_or((type_, ""));
        if !version.is_empty() {
            uses.insert(Use::Version(name.to_owned()));
        }
        if waits {
            uses.insert(Use::Definition(name.to_owned()));
        }
    });
    for policy in &app.spec.policies {
        if !facts::is_built_in_policy(&policy.type_) {
            let name = policy.type_.split('@').next().unwrap_or_default();
            uses.insert(Use::Policy(name.to_owned()));
        }
    }
    if waits {
        uses.insert(Use::Waits);
        let overrides = app.spec.policies.iter().any(|policy| policy.type_ == "override");
        if overrides || app.spec.workflow.is_some() {
            uses.insert(Use::AnyDefinition);
        }
    }
    uses
}

/// The types at the fields of an Application that parsing reads.
pub(crate) fn types(spec: &ApplicationSpec, seen: &mut dyn FnMut(&str)) {
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
    let Some(value) = written.and_then(|written| facts::properties(Some(written))) else { return };
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
    use crate::cached::Outlines;

    fn app(component: &str, trait_: &str, more: &Value) -> Application {
        let mut app = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {
            "components": [{"name": "c", "type": component, "traits": [{"type": "scaler"}]}],
            "policies": [{"name": "o", "type": "override", "properties": {"components": [
                {"name": "c", "traits": [{"type": trait_}]}]}}]}});
        app.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        serde_json::from_value(app).unwrap()
    }

    fn with(apps: &Store<Cached>, version: u32, mut app: Application) {
        app.metadata.resource_version = Some(version.to_string());
        apps.put(Outlines::default().cached(&app, false)).unwrap();
    }

    #[test]
    fn applications_are_found_by_what_they_use() {
        let (users, apps, key) = (Users::default(), Store::default(), Key::new("n", "a"));
        let of = |used: &Use| users.of(used, None);
        let version = |name: &str| Use::Version(name.to_owned());
        let definition = |name: &str| Use::Definition(name.to_owned());
        with(&apps, 1, app("web@v1", "late@v2", &json!({"status": {"status": "running"}})));
        users.note(&key, &apps);
        assert_eq!(
            (of(&version("web")), of(&version("late"))),
            (vec![key.clone()], vec![key.clone()])
        );
        assert!(of(&version("scaler")).is_empty() && of(&definition("web")).is_empty());
        assert!(of(&Use::Waits).is_empty());
        with(&apps, 2, app("web", "late@v3", &json!({"status": {"status": "rendering"}})));
        users.note(&key, &apps);
        assert_eq!((of(&version("web")), of(&version("late"))), (vec![], vec![key.clone()]));
        let one = [key.clone()];
        for used in [definition("web"), definition("scaler"), Use::Waits] {
            assert_eq!(of(&used), one, "{used:?}");
        }
        assert_eq!(of(&Use::AnyDefinition), one, "an override may name any");
        assert_eq!(users.of(&Use::Waits, Some("n")), one);
        assert!(users.of(&Use::Waits, Some("m")).is_empty());
        apps.remove(&key, "");
        users.note(&key, &apps);
        let index = users.0.lock();
        assert!(index.by_use.is_empty() && index.by_app.is_empty());
    }

    #[test]
    fn settled_applications_take_no_memory_and_policies_are_known() {
        let (users, apps, key) = (Users::default(), Store::default(), Key::new("n", "a"));
        with(&apps, 1, app("web", "late", &json!({"status": {"status": "running"}})));
        users.note(&key, &apps);
        assert!(users.0.lock().by_app.is_empty());
        let mut scoped = app("web", "late", &json!({"status": {"status": "running"}}));
        scoped.spec.policies[0].type_ = "own@v2".to_owned();
        with(&apps, 2, scoped);
        users.note(&key, &apps);
        assert_eq!(users.of(&Use::Policy("own".to_owned()), Some("n")), [key]);
    }
}
