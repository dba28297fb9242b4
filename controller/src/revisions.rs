//! ApplicationRevisions as they stay in memory: there are several for each Application, each holds all definitions it was
//! rendered from, and most definitions are the same in all of them.
//!
//! Answers for the shared definition storage of `pkg/cache/apprev_cache.go`. A definition is in memory once, whoever holds
//! it, and read once; the rest of a revision is kept as compressed text. A revision is made whole again when a look needs it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::Serialize;
use vela_api::compression::{pack, unpack};
use vela_api::{
    ApplicationRevision, ComponentDefinition, PolicyDefinition, TraitDefinition,
    WorkflowStepDefinition, WorkloadDefinition,
};
use vela_cluster::{Key, Stored};

/// A definition of a revision.
#[derive(Debug)]
struct Part {
    name: Box<str>,
    definition: Definition,
}

/// By where a revision holds it.
#[derive(Debug)]
enum Definition {
    Component(Arc<ComponentDefinition>),
    Workload(Arc<WorkloadDefinition>),
    Trait(Arc<TraitDefinition>),
    Policy(Arc<PolicyDefinition>),
    Step(Arc<WorkflowStepDefinition>),
}

/// All definitions in revisions, each once.
#[derive(Debug, Default)]
pub struct Definitions {
    hasher: RandomState,
    components: Once<ComponentDefinition>,
    workloads: Once<WorkloadDefinition>,
    traits: Once<TraitDefinition>,
    policies: Once<PolicyDefinition>,
    steps: Once<WorkflowStepDefinition>,
}

/// The definitions of one kind.
type Once<T> = Mutex<Known<T>>;

#[derive(Debug)]
struct Known<T> {
    /// By the hash of their text.
    all: HashMap<u64, Weak<T>>,
    /// How many there may be before those that nobody holds any more are looked for.
    most: usize,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), most: 0 }
    }
}

impl<T: PartialEq> Known<T> {
    /// The one copy of a definition.
    fn shared(&mut self, hash: u64, definition: Arc<T>) -> Arc<T> {
        if let Some(known) = self.all.get(&hash).and_then(Weak::upgrade)
            && known == definition
        {
            return known;
        }
        if self.all.len() >= self.most {
            self.all.retain(|_, definition| definition.strong_count() > 0);
            self.most = self.all.len().saturating_mul(2).max(64);
        }
        self.all.insert(hash, Arc::downgrade(&definition));
        definition
    }
}

/// An ApplicationRevision in memory.
#[derive(Debug)]
pub struct Revision {
    key: Key,
    version: Box<str>,
    app: Option<Key>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// A finalizer holds it.
    pub held: bool,
    /// Everything but its definitions; or why it cannot be read.
    rest: Result<Box<[u8]>, Box<str>>,
    parts: Box<[Part]>,
}

impl Revision {
    /// Takes a revision apart, compressed or not.
    #[must_use]
    pub fn of(mut revision: ApplicationRevision, definitions: &Definitions) -> Self {
        let metadata = &revision.metadata;
        let mut kept = Self {
            key: revision.key(),
            version: revision.version().into(),
            app: revision.index(),
            deleting: metadata.deletion_timestamp.is_some(),
            held: metadata.finalizers.as_ref().is_some_and(|holders| !holders.is_empty()),
            rest: Err("".into()),
            parts: Box::default(),
        };
        let mut parts = Vec::new();
        let taken = revision.expand().map_err(|error| error.to_string()).and_then(|()| {
            let spec = &mut revision.spec;
            let of = definitions;
            let mut all = Parts { hasher: &of.hasher, parts: &mut parts };
            all.take(&mut spec.component_definitions, &of.components, Definition::Component)?;
            all.take(&mut spec.workload_definitions, &of.workloads, Definition::Workload)?;
            all.take(&mut spec.trait_definitions, &of.traits, Definition::Trait)?;
            all.take(&mut spec.policy_definitions, &of.policies, Definition::Policy)?;
            all.take(&mut spec.workflow_step_definitions, &of.steps, Definition::Step)?;
            let rest = serde_json::to_vec(&revision).map_err(|error| error.to_string())?;
            pack(&rest).map_err(|error| error.to_string())
        });
        kept.rest = taken.map(Into::into).map_err(Into::into);
        kept.parts = parts.into();
        kept
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// The whole revision, not compressed.
    ///
    /// # Errors
    /// It could not be read, in words.
    pub fn open(&self) -> Result<ApplicationRevision, String> {
        let rest = self.rest.as_ref().map_err(ToString::to_string)?;
        let rest = unpack(rest).map_err(|error| error.to_string())?;
        let read = serde_json::from_slice(&rest);
        let mut revision: ApplicationRevision = read.map_err(|error| error.to_string())?;
        let spec = &mut revision.spec;
        for Part { name, definition } in &self.parts {
            let name = name.to_string();
            match definition {
                Definition::Component(of) => put(&mut spec.component_definitions, name, of),
                Definition::Workload(of) => put(&mut spec.workload_definitions, name, of),
                Definition::Trait(of) => put(&mut spec.trait_definitions, name, of),
                Definition::Policy(of) => put(&mut spec.policy_definitions, name, of),
                Definition::Step(of) => put(&mut spec.workflow_step_definitions, name, of),
            }
        }
        Ok(revision)
    }
}

impl Stored for Revision {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn version(&self) -> &str {
        &self.version
    }
    fn index(&self) -> Option<Key> {
        self.app.clone()
    }
}

struct Parts<'a> {
    hasher: &'a RandomState,
    parts: &'a mut Vec<Part>,
}

impl Parts<'_> {
    fn take<T: Serialize + PartialEq>(
        &mut self,
        map: &mut BTreeMap<String, Arc<T>>,
        known: &Once<T>,
        part: fn(Arc<T>) -> Definition,
    ) -> Result<(), String> {
        for (name, definition) in std::mem::take(map) {
            let text = serde_json::to_vec(&definition).map_err(|error| error.to_string())?;
            let definition = known.lock().shared(self.hasher.hash_one(&text), definition);
            self.parts.push(Part { name: name.into(), definition: part(definition) });
        }
        Ok(())
    }
}

fn put<T>(map: &mut BTreeMap<String, Arc<T>>, name: String, definition: &Arc<T>) {
    map.insert(name, Arc::clone(definition));
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_api::compression::Compression;

    use super::*;

    fn revision(name: &str, template: &str) -> ApplicationRevision {
        serde_json::from_value(json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationRevision",
            "metadata": {"name": name, "namespace": "n", "resourceVersion": "7",
                "labels": {"app.oam.dev/name": "a"}},
            "spec": {
                "application": {"metadata": {"name": "a"}, "spec": {"components": [
                    {"name": "c", "type": "web", "properties": {"b": 1, "a": {"<": 1.50}}}]}, "status": {}},
                "componentDefinitions": {"web": {
                    "metadata": {"name": "web"}, "spec": {"schematic": {"cue": {"template": template}}}}},
                "traitDefinitions": {"scaler": {"metadata": {"name": "scaler"}, "spec": {}}},
                "compression": {"type": "zstd"},
            },
            "status": {"succeeded": true, "workflowContext": {"vars": "x"}},
        }))
        .unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_whole() {
        let definitions = Definitions::default();
        let whole = revision("a-v1", "output: {}");
        let kept = Revision::of(whole.to_stored().unwrap(), &definitions);
        assert_eq!(kept.open().unwrap(), whole);
        assert_eq!((kept.key(), kept.version()), (Key::new("n", "a-v1"), "7"));
        assert_eq!(kept.index(), Some(Key::new("n", "a")));
        assert_eq!((kept.name(), kept.deleting, kept.held), ("a-v1", false, false));
        assert_eq!(Revision::of(whole.clone(), &definitions).open().unwrap(), whole);
    }

    #[test]
    fn equal_definitions_are_in_memory_once_and_go_with_their_last_revision() {
        let definitions = Definitions::default();
        fn held<T>(known: &Once<T>) -> usize {
            known.lock().all.values().filter(|definition| definition.strong_count() > 0).count()
        }
        let all = || held(&definitions.components) + held(&definitions.traits);
        let component = |revision: &Revision| {
            let whole = revision.open().unwrap();
            Arc::clone(whole.spec.component_definitions.values().next().unwrap())
        };
        let one = Revision::of(revision("a-v1", "output: {}"), &definitions);
        let two = Revision::of(revision("a-v2", "output: {}"), &definitions);
        assert!(Arc::ptr_eq(&component(&one), &component(&two)));
        assert_eq!(all(), 2);
        let three = Revision::of(revision("a-v3", "output: {a: 1}"), &definitions);
        assert_eq!(all(), 3);
        drop((one, two));
        assert_eq!(all(), 2);
        for turn in 0..1000 {
            drop(Revision::of(revision("a-v4", &turn.to_string()), &definitions));
        }
        assert!(definitions.components.lock().all.len() <= 64);
        drop(three);
        assert_eq!(all(), 0);
    }

    #[test]
    fn what_cannot_be_read_says_why_when_it_is_needed() {
        let mut damaged = revision("a-v1", "output: {}");
        damaged.spec.compression =
            Compression { type_: "zstd".to_owned(), data: "no base64!".to_owned() };
        let kept = Revision::of(damaged, &Definitions::default());
        assert_eq!(kept.open().unwrap_err(), "compressed data is not base64");
        assert_eq!(kept.index(), Some(Key::new("n", "a")));
    }
}
