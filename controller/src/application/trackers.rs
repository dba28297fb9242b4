//! The ResourceTrackers of one Application: reading, recording, writing.
//!
//! Answers for `pkg/resourcetracker/app.go` and the recording half of `pkg/resourcekeeper/dispatch.go`. What is going to be
//! dispatched is recorded first, so that nothing the controller ever made can be forgotten.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vela_api::{ObjectMeta, ResourceTracker, names};
use vela_apply::plan::PatchKind;
use vela_apply::tracker::{self, Record, Role, Run, Tracker};

use crate::queue::Key;
use vela_cluster::{Identity, Io, IoError, Packed, Removal, Store, Stored, Target};

use super::revision::{annotation, label};

/// What a new tracker is labelled with.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    /// Name of the Application.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// Its shard, if it has one.
    pub shard: String,
}

/// The trackers of one Application during one reconcile.
#[derive(Debug, Clone, Default)]
pub struct Trackers {
    owner: Owner,
    compression: &'static str,
    /// Expanded.
    objects: Vec<ResourceTracker>,
}

/// The decision form of a tracker.
fn view(object: &ResourceTracker) -> Tracker {
    Tracker {
        name: object.metadata.name.clone().unwrap_or_default(),
        role: Role::parse(&object.spec.type_),
        generation: object.spec.application_generation,
        publish_version: annotation(&object.metadata, names::annotation::PUBLISH_VERSION)
            .to_owned(),
        revision: label(&object.metadata, names::label::APP_REVISION).to_owned(),
        app_uid: label(&object.metadata, names::label::APP_UID).to_owned(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        records: object.spec.managed_resources.clone(),
    }
}

impl Trackers {
    /// Reads the trackers of an Application from the cache.
    ///
    /// # Errors
    /// A tracker's content cannot be read.
    pub fn read(
        store: &Store<Packed<ResourceTracker>>,
        owner: Owner,
        compression: &'static str,
    ) -> Result<Self, String> {
        let mut objects = Vec::new();
        for stored in store.indexed(&Key::new(&*owner.namespace, &*owner.name)) {
            let mut object = stored.open()?;
            object.expand().map_err(|error| error.to_string())?;
            objects.push(object);
        }
        Ok(Self { owner, compression, objects })
    }

    /// All of them, for decisions.
    #[must_use]
    pub fn views(&self) -> Vec<Tracker> {
        self.objects.iter().map(view).collect()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Names and versions, for fingerprints.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.objects
            .iter()
            .map(|object| (object.metadata.name.as_deref().unwrap_or_default(), object.version()))
    }

    /// The name of the tracker of the present run, `""` if there is none yet.
    #[must_use]
    pub fn current(&self, run: Run<'_>) -> String {
        tracker::current(&self.views(), run).map(|tracker| tracker.name.clone()).unwrap_or_default()
    }

    /// The records of one tracker.
    #[must_use]
    pub fn records(&self, name: &str) -> &[Record] {
        self.find(name).map_or(&[], |object| &object.spec.managed_resources)
    }

    /// The records that must live: those of the root and of the current tracker, the root's first.
    #[must_use]
    pub fn desired(&self, current: &str) -> Vec<Record> {
        let mut out: Vec<Record> = Vec::new();
        let root = self.objects.iter().filter(|o| Role::parse(&o.spec.type_) == Role::Root);
        for record in
            root.chain(self.find(current)).flat_map(|object| &object.spec.managed_resources)
        {
            if !out.iter().any(|other| tracker::key_of(other) == tracker::key_of(record)) {
                out.push(record.clone());
            }
        }
        out
    }

    /// What trackers of earlier runs hold of some components and the current one does not, the newest first.
    #[must_use]
    pub fn left_of(&self, current: &str, components: &[String]) -> Vec<Record> {
        let mut out: Vec<Record> = Vec::new();
        let mut old: Vec<_> = self
            .objects
            .iter()
            .filter(|object| Role::parse(&object.spec.type_) == Role::Versioned)
            .filter(|object| object.metadata.name.as_deref() != Some(current))
            .collect();
        old.sort_by_key(|object| std::cmp::Reverse(object.spec.application_generation));
        let held = self.desired(current);
        for record in old.into_iter().flat_map(|object| &object.spec.managed_resources) {
            let key = tracker::key_of(record);
            let known = held.iter().chain(&out).any(|other| tracker::key_of(other) == key);
            if !known && !record.deleted && components.contains(&record.component) {
                out.push(record.clone());
            }
        }
        out
    }

    /// What a tracker says was written for an object before `manifest`, the newest first.
    #[must_use]
    pub fn previous(&self, key: &vela_apply::ResourceKey, manifest: &Value) -> Option<Value> {
        let now = vela_api::RawExtension::new(manifest);
        let mut sorted: Vec<_> = self.objects.iter().collect();
        sorted.sort_by_key(|object| std::cmp::Reverse(object.spec.application_generation));
        sorted
            .into_iter()
            .flat_map(|object| &object.spec.managed_resources)
            .filter(|record| tracker::key_of(record) == *key)
            .filter_map(|record| record.raw.as_ref())
            .find(|raw| **raw != now)
            .map(vela_api::RawExtension::to_value)
    }

    fn find(&self, name: &str) -> Option<&ResourceTracker> {
        self.objects.iter().find(|object| object.metadata.name.as_deref() == Some(name))
    }

    /// Trackers made for an Application of this name that is gone (restored from a backup, or deleted without its
    /// finalizer): there can be only one Application of a name, so they are ours now.
    #[must_use]
    pub fn of_other_uid(&self) -> Vec<String> {
        self.objects
            .iter()
            .filter(|object| {
                let uid = label(&object.metadata, names::label::APP_UID);
                !uid.is_empty() && uid != self.owner.uid
            })
            .filter_map(|object| object.metadata.name.clone())
            .collect()
    }

    /// Records objects in the root tracker.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn record_in_root(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        revision: &str,
        records: Vec<Record>,
    ) -> Result<(), IoError> {
        if records.is_empty() {
            return Ok(());
        }
        let found = self.objects.iter().position(|o| Role::parse(&o.spec.type_) == Role::Root);
        let name = tracker::root_name(&self.owner.name, &self.owner.namespace);
        let run = Run { generation: 0, publish_version: "", revision };
        let fresh = self.fresh(name, Role::Root, run);
        self.record(io, store, found, fresh, records).await.map(|_| ())
    }

    /// Records objects in the tracker of the present run, which is made if it does not exist. Returns its name.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn record_in_current(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        run: Run<'_>,
        records: Vec<Record>,
    ) -> Result<String, IoError> {
        let current = self.current(run);
        let found = self
            .objects
            .iter()
            .position(|o| !current.is_empty() && o.metadata.name.as_deref() == Some(&current));
        let (app, namespace) = (&self.owner.name, &self.owner.namespace);
        let name = tracker::versioned_name(app, namespace, run.generation, run.publish_version);
        let fresh = self.fresh(name, Role::Versioned, run);
        self.record(io, store, found, fresh, records).await
    }

    /// Notes that a step removes an object: what must live no longer holds it. Objects that no tracker of the present run
    /// holds need no note.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn record_deleted(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        current: &str,
        key: &vela_apply::ResourceKey,
    ) -> Result<(), IoError> {
        let own = Identity::default();
        for index in 0..self.objects.len() {
            let Some(object) = self.objects.get(index) else { continue };
            let holds = Role::parse(&object.spec.type_) == Role::Root
                || object.metadata.name.as_deref() == Some(current);
            let records = &object.spec.managed_resources;
            let held = records.iter().find(|r| tracker::key_of(r) == *key && !r.deleted);
            let Some(record) = held.filter(|_| holds).cloned() else { continue };
            let mut object = object.clone();
            tracker::mark_deleted(&mut object.spec.managed_resources, record);
            let answer = io.replace(&encode(&object)?, "", false, &own).await?;
            self.took(store, decode(answer)?);
        }
        Ok(())
    }

    async fn record(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        found: Option<usize>,
        fresh: ResourceTracker,
        records: Vec<Record>,
    ) -> Result<String, IoError> {
        let own = Identity::default();
        let Some(object) = found.and_then(|index| self.objects.get(index)) else {
            let mut object = fresh;
            object.spec.managed_resources = records;
            let stored = self.create(io, object).await?;
            let name = stored.metadata.name.clone().unwrap_or_default();
            self.took(store, stored);
            return Ok(name);
        };
        let mut object = object.clone();
        let name = object.metadata.name.clone().unwrap_or_default();
        let mut changed = false;
        for record in records {
            changed |= tracker::add_record(&mut object.spec.managed_resources, record);
        }
        if changed {
            let body = encode(&object)?;
            let answer = io.replace(&body, "", false, &own).await?;
            self.took(store, decode(answer)?);
        }
        Ok(name)
    }

    /// POST, under another name if somebody else has it: names joined by `-` are ambiguous.
    async fn create(
        &self,
        io: &Io,
        mut object: ResourceTracker,
    ) -> Result<ResourceTracker, IoError> {
        let own = Identity::default();
        let wanted = object.metadata.name.clone().unwrap_or_default();
        match io.create(&encode(&object)?, false, &own).await {
            Err(error) if error.is_already_exists() => {
                let target = target(&wanted);
                let existing = decode(io.get(&target, &own).await?)?;
                // One of a release before 1.2 owns objects, and is to go.
                let legacy = Role::parse(&existing.spec.type_) == Role::Legacy;
                if existing.index() == object.index() && !legacy {
                    // Ours after all, the cache is behind: write over it.
                    object.metadata.resource_version = existing.metadata.resource_version;
                    return decode(io.replace(&encode(&object)?, "", false, &own).await?);
                }
                object.metadata.name = Some(tracker::free_name(wanted, &self.owner.uid, |_| true));
                decode(io.create(&encode(&object)?, false, &own).await?)
            }
            other => decode(other?),
        }
    }

    fn fresh(&self, name: String, role: Role, run: Run<'_>) -> ResourceTracker {
        let owner = &self.owner;
        let mut labels = BTreeMap::from([
            (names::label::APP_NAME.to_owned(), owner.name.clone()),
            (names::label::APP_NAMESPACE.to_owned(), owner.namespace.clone()),
            (names::label::APP_UID.to_owned(), owner.uid.clone()),
        ]);
        if !owner.shard.is_empty() {
            labels.insert(names::label::SCHEDULED_SHARD_ID.to_owned(), owner.shard.clone());
        }
        if !run.revision.is_empty() {
            labels.insert(names::label::APP_REVISION.to_owned(), run.revision.to_owned());
        }
        let annotations = (!run.publish_version.is_empty()).then(|| {
            let (key, value) = (names::annotation::PUBLISH_VERSION, run.publish_version);
            BTreeMap::from([(key.to_owned(), value.to_owned())])
        });
        let mut object = ResourceTracker::new("", &name);
        object.metadata = ObjectMeta {
            name: Some(name),
            labels: Some(labels),
            annotations,
            finalizers: Some(vec![names::finalizer::RESOURCE_TRACKER.to_owned()]),
            ..ObjectMeta::default()
        };
        role.as_str().clone_into(&mut object.spec.type_);
        object.spec.application_generation = run.generation;
        self.compression.clone_into(&mut object.spec.compression.type_);
        object
    }

    /// Keeps what the API server answered.
    fn took(&mut self, store: &Store<Packed<ResourceTracker>>, mut object: ResourceTracker) {
        let readable = object.expand().is_ok();
        let _ = store.put(Packed::of(&object));
        if !readable {
            return;
        }
        let name = object.metadata.name.clone();
        match self.objects.iter_mut().find(|other| other.metadata.name == name) {
            Some(other) => *other = object,
            None => self.objects.push(object),
        }
    }

    /// The tracker of a run goes on under a new generation: an edit that changed nothing. Also claims a tracker of an
    /// Application that is gone.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn relabel(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        generation: Option<i64>,
    ) -> Result<(), IoError> {
        let metadata = json!({"labels": {names::label::APP_UID: self.owner.uid}});
        let body = match generation {
            Some(generation) => {
                json!({"metadata": metadata, "spec": {"applicationGeneration": generation}})
            }
            None => json!({ "metadata": metadata }),
        };
        let own = Identity::default();
        let target = target(name);
        let answer = io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await?;
        self.took(store, decode(answer)?);
        Ok(())
    }

    /// A run of another revision begins in the tracker `name`, because the generation is the same: what it holds moves to
    /// a tracker of its own, to be collected like that of any earlier run.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn set_aside(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        revision: &str,
    ) -> Result<(), IoError> {
        let Some(object) = self.find(name).cloned() else { return Ok(()) };
        let before = label(&object.metadata, names::label::APP_REVISION).to_owned();
        if before.is_empty() || before == revision || object.spec.managed_resources.is_empty() {
            return Ok(());
        }
        let run = Run {
            generation: object.spec.application_generation.saturating_sub(1).max(0),
            publish_version: "",
            revision: &before,
        };
        let mut aside = format!("{name}-{before}");
        while self.find(&aside).is_some() {
            aside.push_str("-0");
        }
        let mut copy = self.fresh(aside, Role::Versioned, run);
        copy.spec.managed_resources.clone_from(&object.spec.managed_resources);
        let stored = self.create(io, copy).await?;
        self.took(store, stored);
        if object.metadata.deletion_timestamp.is_some() {
            // It is being collected already (a publishVersion that came back): the run makes one anew.
            return self.remove(io, store, name).await;
        }
        let mut object = object;
        object.spec.managed_resources.clear();
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(names::label::APP_REVISION.to_owned(), revision.to_owned());
        let own = Identity::default();
        let answer = io.replace(&encode(&object)?, "", false, &own).await?;
        self.took(store, decode(answer)?);
        Ok(())
    }

    /// Marks a tracker as deleting.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn mark(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), IoError> {
        let uid = self.find(name).and_then(|o| o.metadata.uid.clone()).unwrap_or_default();
        match io.delete(&target(name), &uid, None, &Identity::default()).await? {
            Removal::Held(object) => self.took(store, decode(object)?),
            // Somebody took the finalizer off before: what it holds is in no other place.
            Removal::Done | Removal::Replaced => {}
        }
        Ok(())
    }

    /// Marks a tracker of a release before 1.2 as deleting, so that the objects it owns stay.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn abandon(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), IoError> {
        let legacy = self.legacy().into_iter().find(|(legacy, _)| legacy == name);
        let Some((_, uid)) = legacy else { return Ok(()) };
        let own = Identity::default();
        if let Removal::Held(object) = io.delete(&target(name), &uid, Some("Orphan"), &own).await? {
            self.took(store, decode(object)?);
        }
        Ok(())
    }

    /// Names and uids of the trackers of releases before 1.2.
    #[must_use]
    pub fn legacy(&self) -> Vec<(String, String)> {
        self.objects
            .iter()
            .filter(|object| Role::parse(&object.spec.type_) == Role::Legacy)
            .map(|object| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                (text(&object.metadata.name), text(&object.metadata.uid))
            })
            .collect()
    }

    /// Lets a tracker go for good.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn remove(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), IoError> {
        let Some(object) = self.find(name).cloned() else { return Ok(()) };
        let own = Identity::default();
        let target = target(name);
        if object.metadata.deletion_timestamp.is_none() {
            self.mark(io, store, name).await?;
        }
        let finalizers: Vec<_> = object.metadata.finalizers.unwrap_or_default();
        let left: Vec<_> =
            finalizers.iter().filter(|f| *f != names::finalizer::RESOURCE_TRACKER).collect();
        if left.len() != finalizers.len() {
            let body = json!({"metadata": {"finalizers": left}});
            match io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await {
                Ok(_) => {}
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        if left.is_empty() {
            store.remove(&Key::new("", name), "");
        }
        self.objects.retain(|object| object.metadata.name.as_deref() != Some(name));
        Ok(())
    }

    /// Makes the trackers again what they were before a dispatch that came to nothing.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn take_back(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        before: &Self,
    ) -> Result<(), IoError> {
        for mut object in self.objects.clone() {
            let name = object.metadata.name.clone().unwrap_or_default();
            let Some(old) = before.find(&name) else {
                self.remove(io, store, &name).await?;
                continue;
            };
            if old.spec.managed_resources != object.spec.managed_resources {
                object.spec.managed_resources.clone_from(&old.spec.managed_resources);
                let own = Identity::default();
                let answer = io.replace(&encode(&object)?, "", false, &own).await?;
                self.took(store, decode(answer)?);
            }
        }
        Ok(())
    }

    /// A tracker that somebody is deleting although its objects are wanted: it is made again with the same content.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn rebuild(
        &mut self,
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), IoError> {
        let Some(old) = self.find(name).cloned() else { return Ok(()) };
        self.remove(io, store, name).await?;
        let mut object = old;
        object.metadata = ObjectMeta {
            name: object.metadata.name,
            labels: object.metadata.labels,
            annotations: object.metadata.annotations,
            finalizers: Some(vec![names::finalizer::RESOURCE_TRACKER.to_owned()]),
            ..ObjectMeta::default()
        };
        let stored = self.create(io, object).await?;
        self.took(store, stored);
        Ok(())
    }
}

fn target(name: &str) -> Target<'_> {
    Target { api_version: vela_api::V1BETA1, kind: ResourceTracker::KIND, namespace: "", name }
}

fn encode(object: &ResourceTracker) -> Result<Value, IoError> {
    let stored = object.to_stored().map_err(|error| IoError::Transport(error.to_string()))?;
    serde_json::to_value(stored).map_err(|error| IoError::Transport(error.to_string()))
}

fn decode(answer: Value) -> Result<ResourceTracker, IoError> {
    serde_json::from_value(answer).map_err(|error| IoError::Transport(error.to_string()))
}
