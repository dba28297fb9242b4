//! ApplicationRevisions as they stay in memory: there are several for each Application, each holds all definitions it was
//! rendered from, and most definitions are the same in all of them.
//!
//! Answers for the shared definition storage of `pkg/cache/apprev_cache.go`. A definition is in memory once, whoever holds
//! it; the rest of a revision is kept as compressed text. A revision is made whole again when a look needs it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use vela_api::ApplicationRevision;
use vela_api::compression::{pack, unpack};
use vela_cluster::{Key, Stored};

/// What definitions are, by where a revision holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Component,
    Workload,
    Trait,
    Policy,
    Step,
}

/// A definition of a revision.
#[derive(Debug)]
struct Part {
    group: Group,
    name: Box<str>,
    text: Arc<[u8]>,
}

/// The texts of all definitions in revisions, each once.
#[derive(Debug, Default)]
pub struct Definitions {
    texts: Mutex<Texts>,
}

#[derive(Debug, Default)]
struct Texts {
    hasher: RandomState,
    known: HashMap<u64, Weak<[u8]>>,
    /// How many there may be before those that nobody holds any more are looked for.
    most: usize,
}

impl Definitions {
    /// The one copy of a text.
    fn shared(&self, text: Vec<u8>) -> Arc<[u8]> {
        let mut texts = self.texts.lock();
        let hash = texts.hasher.hash_one(&text);
        if let Some(known) = texts.known.get(&hash).and_then(Weak::upgrade)
            && *known == *text
        {
            return known;
        }
        if texts.known.len() >= texts.most {
            texts.known.retain(|_, text| text.strong_count() > 0);
            texts.most = texts.known.len().saturating_mul(2).max(64);
        }
        let text: Arc<[u8]> = text.into();
        texts.known.insert(hash, Arc::downgrade(&text));
        text
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
            let mut all = Parts { definitions, parts: &mut parts };
            all.take(Group::Component, &mut spec.component_definitions)?;
            all.take(Group::Workload, &mut spec.workload_definitions)?;
            all.take(Group::Trait, &mut spec.trait_definitions)?;
            all.take(Group::Policy, &mut spec.policy_definitions)?;
            all.take(Group::Step, &mut spec.workflow_step_definitions)?;
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
        let mut revision: ApplicationRevision = read(&rest)?;
        let spec = &mut revision.spec;
        for Part { group, name, text } in &self.parts {
            let name = name.to_string();
            match group {
                Group::Component => put(&mut spec.component_definitions, name, text)?,
                Group::Workload => put(&mut spec.workload_definitions, name, text)?,
                Group::Trait => put(&mut spec.trait_definitions, name, text)?,
                Group::Policy => put(&mut spec.policy_definitions, name, text)?,
                Group::Step => put(&mut spec.workflow_step_definitions, name, text)?,
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
    definitions: &'a Definitions,
    parts: &'a mut Vec<Part>,
}

impl Parts<'_> {
    fn take<T: Serialize>(
        &mut self,
        group: Group,
        map: &mut BTreeMap<String, T>,
    ) -> Result<(), String> {
        for (name, definition) in std::mem::take(map) {
            let text = serde_json::to_vec(&definition).map_err(|error| error.to_string())?;
            let text = self.definitions.shared(text);
            self.parts.push(Part { group, name: name.into(), text });
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn put<T: DeserializeOwned>(
    map: &mut BTreeMap<String, T>,
    name: String,
    text: &[u8],
) -> Result<(), String> {
    map.insert(name, read(text)?);
    Ok(())
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
        let texts = || {
            let texts = definitions.texts.lock();
            texts.known.values().filter(|text| text.strong_count() > 0).count()
        };
        let one = Revision::of(revision("a-v1", "output: {}"), &definitions);
        let two = Revision::of(revision("a-v2", "output: {}"), &definitions);
        assert!(Arc::ptr_eq(&one.parts[0].text, &two.parts[0].text));
        assert_eq!(texts(), 2);
        let three = Revision::of(revision("a-v3", "output: {a: 1}"), &definitions);
        assert_eq!(texts(), 3);
        drop((one, two));
        assert_eq!(texts(), 2);
        for turn in 0..1000 {
            drop(Revision::of(revision("a-v4", &turn.to_string()), &definitions));
        }
        assert!(definitions.texts.lock().known.len() <= 64);
        drop(three);
        assert_eq!(texts(), 0);
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
