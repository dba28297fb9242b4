//! ApplicationRevisions as they stay in memory: there are several for each Application, each holds all definitions it was
//! rendered from, and most definitions are the same in all of them.
//!
//! Answers for the shared definition storage of `pkg/cache/apprev_cache.go`. A definition is in memory once, whoever holds
//! it, and read once; the rest of a revision is kept as compressed text. What it says is read once, whatever becomes of its
//! metadata and its status. A revision is made whole again when a reconcile needs it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use serde::Serialize;
use vela_api::revision::ApplicationRevisionSpec;
use vela_api::{
    ApplicationRevision, ComponentDefinition, PolicyDefinition, TraitDefinition,
    WorkflowStepDefinition, WorkloadDefinition,
};
use vela_cluster::packed::{PackError, pack, unpack};
use vela_cluster::{Key, Stored};
use vela_seal::{Content as _, Keys, Stamp};

/// A definition of a revision.
#[derive(Debug)]
struct NamedDefinition {
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

/// What revisions say, and all definitions in them, each once.
#[derive(Debug, Default)]
pub struct Contents {
    hasher: RandomState,
    /// By the hash of the name and of the compressed text.
    all: Mutex<Interned<Content>>,
    components: Once<ComponentDefinition>,
    workloads: Once<WorkloadDefinition>,
    traits: Once<TraitDefinition>,
    policies: Once<PolicyDefinition>,
    steps: Once<WorkflowStepDefinition>,
}

/// The definitions of one kind, by the hash of their text.
type Once<T> = Mutex<Interned<T>>;

/// What somebody holds.
#[derive(Debug)]
struct Interned<T> {
    all: HashMap<u64, Weak<T>>,
    /// Where they are in memory: as long as one is known nothing else can be there.
    addresses: HashSet<usize>,
    /// How many there may be before those that nobody holds any more are searched for.
    sweep_above: usize,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), addresses: HashSet::new(), sweep_above: 0 }
    }
}

impl<T> Interned<T> {
    fn get(&self, hash: u64) -> Option<Arc<T>> {
        self.all.get(&hash).and_then(Weak::upgrade)
    }

    fn holds(&self, one: &Arc<T>) -> bool {
        self.addresses.contains(&Arc::as_ptr(one).addr())
    }

    fn insert(&mut self, hash: u64, one: &Arc<T>) {
        if self.all.len() >= self.sweep_above {
            self.all.retain(|_, one| one.strong_count() > 0);
            self.sweep_above = self.all.len().saturating_mul(2).max(64);
            self.addresses = self.all.values().map(|one| one.as_ptr().addr()).collect();
        }
        if let Some(former) = self.all.insert(hash, Arc::downgrade(one)) {
            self.addresses.remove(&former.as_ptr().addr());
        }
        self.addresses.insert(Arc::as_ptr(one).addr());
    }
}

/// What a revision says: everything but its metadata and its status.
#[derive(Debug)]
pub struct Content {
    /// Its spec without the definitions, compressed.
    rest: Box<[u8]>,
    parts: Box<[NamedDefinition]>,
}

impl Contents {
    /// Keeps what a revision says whose stored form is at hand, as long as somebody holds it.
    pub fn keep(
        &self,
        stored: &ApplicationRevision,
        spec: ApplicationRevisionSpec,
    ) -> Option<Arc<Content>> {
        let hash = self.hash(stored)?;
        self.content(Some(hash), spec).ok()
    }

    /// What a revision says, compressed or not.
    fn of(&self, revision: &mut ApplicationRevision) -> Result<Arc<Content>, PackError> {
        let hash = self.hash(revision);
        if let Some(known) = hash.and_then(|hash| self.all.lock().get(hash)) {
            return Ok(known);
        }
        revision.expand()?;
        self.content(hash, std::mem::take(&mut revision.spec))
    }

    /// Identifies the content of a revision; `None` if it is not compressed.
    fn hash(&self, revision: &ApplicationRevision) -> Option<u64> {
        let data = &revision.spec.compression.data;
        let metadata = &revision.metadata;
        let hashed = (&metadata.namespace, &metadata.name, data);
        (!data.is_empty()).then(|| self.hasher.hash_one(hashed))
    }

    /// Takes apart what a revision says; known by its hash from then on, if it has one.
    fn content(
        &self,
        hash: Option<u64>,
        mut spec: ApplicationRevisionSpec,
    ) -> Result<Arc<Content>, PackError> {
        let mut all = Parts { hasher: &self.hasher, parts: Vec::new() };
        all.take(&mut spec.component_definitions, &self.components, Definition::Component)?;
        all.take(&mut spec.workload_definitions, &self.workloads, Definition::Workload)?;
        all.take(&mut spec.trait_definitions, &self.traits, Definition::Trait)?;
        all.take(&mut spec.policy_definitions, &self.policies, Definition::Policy)?;
        all.take(&mut spec.workflow_step_definitions, &self.steps, Definition::Step)?;
        let content = Arc::new(Content { rest: pack(&spec)?, parts: all.parts.into() });
        if let Some(hash) = hash {
            self.all.lock().insert(hash, &content);
        }
        Ok(content)
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
    /// A hash of what it says in the form in which it is stored; `None` if it has none.
    stored: OnceLock<Option<[u8; 32]>>,
    /// All of it, or why it cannot be read.
    whole: Result<Whole, PackError>,
}

#[derive(Debug)]
struct Whole {
    /// Metadata and status, compressed.
    head: Box<[u8]>,
    content: Arc<Content>,
}

impl Revision {
    /// Takes a revision apart, compressed or not.
    #[must_use]
    pub fn of(mut revision: ApplicationRevision, contents: &Contents) -> Self {
        // What is compressed is not kept as it is. Of the others this is as much work as reading them, and seldom needed.
        let is_compressed = !revision.spec.compression.data.is_empty();
        let stored = if is_compressed { revision.content().ok().into() } else { OnceLock::new() };
        let content = contents.of(&mut revision);
        revision.spec = ApplicationRevisionSpec::default();
        let whole = content.and_then(|content| Ok(Whole { head: pack(&revision)?, content }));
        let metadata = &revision.metadata;
        Self {
            key: revision.key(),
            version: revision.version().into(),
            app: revision.index(),
            deleting: metadata.deletion_timestamp.is_some(),
            stored,
            held: metadata.finalizers.as_ref().is_some_and(|holders| !holders.is_empty()),
            whole,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// Whom a stamp for an object of this kind names: `whole` is what [`open`](Self::open) gave.
    #[must_use]
    pub fn author(&self, kind: &str, whole: &ApplicationRevision, keys: &Keys) -> Option<Stamp> {
        let content = *self.stored.get_or_init(|| whole.content().ok());
        vela_seal::author(kind, &whole.metadata, content?, keys)
    }

    /// The whole revision, not compressed.
    ///
    /// # Errors
    /// It could not be read.
    pub fn open(&self) -> Result<ApplicationRevision, PackError> {
        let Whole { head, content } = self.whole.as_ref().map_err(PackError::clone)?;
        let mut revision: ApplicationRevision = unpack(head)?;
        revision.spec = unpack(&content.rest)?;
        let spec = &mut revision.spec;
        for NamedDefinition { name, definition } in &content.parts {
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
    parts: Vec<NamedDefinition>,
}

impl Parts<'_> {
    fn take<T: Serialize + PartialEq>(
        &mut self,
        map: &mut BTreeMap<String, Arc<T>>,
        known: &Once<T>,
        part: fn(Arc<T>) -> Definition,
    ) -> Result<(), PackError> {
        for (name, definition) in std::mem::take(map) {
            let definition = part(self.shared(definition, known)?);
            self.parts.push(NamedDefinition { name: name.into(), definition });
        }
        Ok(())
    }

    /// The one copy of a definition.
    fn shared<T: Serialize + PartialEq>(
        &self,
        definition: Arc<T>,
        known: &Once<T>,
    ) -> Result<Arc<T>, PackError> {
        if known.lock().holds(&definition) {
            return Ok(definition);
        }
        let text = serde_json::to_vec(&definition)?;
        let hash = self.hasher.hash_one(&text);
        let mut known = known.lock();
        if let Some(same) = known.get(hash).filter(|same| *same == definition) {
            return Ok(same);
        }
        known.insert(hash, &definition);
        Ok(definition)
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
        let contents = Contents::default();
        let whole = revision("a-v1", "output: {}");
        let kept = Revision::of(whole.to_stored().unwrap(), &contents);
        assert_eq!(kept.open().unwrap(), whole);
        assert_eq!((kept.key(), kept.version()), (Key::new("n", "a-v1"), "7"));
        assert_eq!(kept.index(), Some(Key::new("n", "a")));
        assert_eq!((kept.name(), kept.deleting, kept.held), ("a-v1", false, false));
        assert_eq!(Revision::of(whole.clone(), &contents).open().unwrap(), whole);
    }

    #[test]
    fn equal_definitions_are_in_memory_once_and_go_with_their_last_revision() {
        let contents = Contents::default();
        fn held<T>(known: &Once<T>) -> usize {
            known.lock().all.values().filter(|definition| definition.strong_count() > 0).count()
        }
        let all = || held(&contents.components) + held(&contents.traits);
        let component = |revision: &Revision| {
            let whole = revision.open().unwrap();
            Arc::clone(whole.spec.component_definitions.values().next().unwrap())
        };
        let one = Revision::of(revision("a-v1", "output: {}"), &contents);
        let two = Revision::of(revision("a-v2", "output: {}"), &contents);
        assert!(Arc::ptr_eq(&component(&one), &component(&two)));
        assert_eq!(all(), 2);
        let three = Revision::of(revision("a-v3", "output: {a: 1}"), &contents);
        assert_eq!(all(), 3);
        drop((one, two));
        assert_eq!(all(), 2);
        for turn in 0..1000 {
            drop(Revision::of(revision("a-v4", &turn.to_string()), &contents));
        }
        assert!(contents.components.lock().all.len() <= 64);
        drop(three);
        assert_eq!(all(), 0);
    }

    #[test]
    fn what_a_revision_says_is_read_once_whatever_becomes_of_the_rest() {
        let content = |revision: &Revision| Arc::clone(&revision.whole.as_ref().unwrap().content);
        let contents = Contents::default();
        let whole = revision("a-v1", "output: {}");
        let stored = whole.to_stored().unwrap();
        let kept = contents.keep(&stored, whole.spec.clone()).unwrap();
        let one = Revision::of(stored.clone(), &contents);
        assert!(Arc::ptr_eq(&kept, &content(&one)));
        let mut later = stored;
        later.metadata.resource_version = Some("8".to_owned());
        later.status.succeeded = false;
        let two = Revision::of(later, &contents);
        assert!(Arc::ptr_eq(&kept, &content(&two)));
        let unpacked = two.open().unwrap();
        assert_eq!(unpacked.spec, whole.spec);
        assert_eq!((two.version(), unpacked.status.succeeded), ("8", false));
        let other = Revision::of(revision("a-v2", "output: {}").to_stored().unwrap(), &contents);
        assert!(!Arc::ptr_eq(&kept, &content(&other)));
        assert!(contents.keep(&whole, whole.spec.clone()).is_none());
    }

    #[test]
    fn what_cannot_be_read_says_why_when_it_is_needed() {
        let mut damaged = revision("a-v1", "output: {}");
        damaged.spec.compression =
            Compression { type_: "zstd".to_owned(), data: "no base64!".to_owned() };
        let kept = Revision::of(damaged, &Contents::default());
        assert_eq!(kept.open().unwrap_err().to_string(), "compressed data is not base64");
        assert_eq!(kept.index(), Some(Key::new("n", "a")));
    }
}
