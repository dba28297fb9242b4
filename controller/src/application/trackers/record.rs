//! Records the objects of a dispatch before they are written, in the tracker of the run or in the root.

use std::collections::{BTreeMap, HashSet};

use vela_api::{ObjectMeta, RawExtension, ResourceTracker, names};
use vela_apply::ResourceKey;
use vela_apply::last_applied;
use vela_apply::tracker::{self, Record, Role, Run};
use vela_cluster::{ApiError, Identity, ObjectClient, Packed, Store, Stored};

use super::expanded::ExpandedTracker;
use super::{Trackers, decode, head, target};

/// How many names are tried for one tracker.
const NAMES: usize = 5;

/// How many trackers hold what took its leave of one tracker during one run. It takes as many deaths of the process, each
/// between a record and its write, to come to the last one.
const MAX_ARCHIVES: usize = 4;

/// Whether two trackers of one name are one: of the same Application, for the same purpose. One of a release before 1.2 owns
/// objects, and is to go.
fn is_same(existing: &ResourceTracker, wanted: &ResourceTracker) -> bool {
    let published = |tracker: &ResourceTracker| head(tracker).publish_version;
    existing.index() == wanted.index()
        && existing.spec.type_ == wanted.spec.type_
        && existing.spec.application_generation == wanted.spec.application_generation
        && published(existing) == published(wanted)
}

/// Whether a record is needed in addition to the one that replaces it.
fn must_outlive(before: &Record, after: Option<&RawExtension>) -> bool {
    let (Some(before), Some(after)) = (before.raw.as_ref(), after) else { return false };
    before != after && last_applied::must_outlive(&before.to_value(), &after.to_value())
}

impl Trackers {
    /// Records objects in the root tracker.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn record_in_root(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        revision: &str,
        records: Vec<Record>,
    ) -> Result<(), ApiError> {
        // Most dispatches put nothing into the root.
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
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        run: Run<'_>,
        records: Vec<Record>,
    ) -> Result<String, ApiError> {
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

    /// Takes objects out of the root tracker that the tracker `holder` holds now.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn drop_from_root(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        holder: &str,
        keys: &[ResourceKey],
    ) -> Result<(), ApiError> {
        let keys: HashSet<[&str; 5]> = keys.iter().map(ResourceKey::parts).collect();
        let is_one = |record: &Record| keys.contains(&tracker::identity(record));
        let root = self.objects.iter().find(|o| Role::parse(&o.spec.type_) == Role::Root);
        let Some(root) = root.filter(|root| root.spec.managed_resources.iter().any(is_one)) else {
            return Ok(());
        };
        let mut root = root.clone();
        let all = std::mem::take(&mut root.spec.managed_resources);
        let (gone, left): (Vec<Record>, _) = all.into_iter().partition(is_one);
        root.spec.managed_resources = left;
        let after = |before: &Record| {
            self.record_of(holder, &tracker::key_of(before)).and_then(|record| record.raw.as_ref())
        };
        // Fields that the new manifest drops are removed by comparing with the old one, which
        // therefore has to be kept.
        let outlived: Vec<_> =
            gone.iter().filter(|before| must_outlive(before, after(before))).cloned().collect();
        self.written_over.extend(gone);
        let name = root.metadata.name.clone().unwrap_or_default();
        // Before the root forgets them.
        self.archive_records(io, store, &name, outlived).await?;
        let answer = io.replace(&root.encode()?, "", false, &Identity::default()).await?;
        self.took(store, answer.read()?);
        Ok(())
    }

    /// Notes that a step removes an object: what must live no longer holds it. Objects that no tracker of the present run
    /// holds need no note.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn record_deleted(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        current: &str,
        key: &ResourceKey,
    ) -> Result<(), ApiError> {
        let own = Identity::default();
        for index in 0..self.objects.len() {
            let Some(object) = self.objects.get(index) else { continue };
            // Only what must live: older trackers are collected anyway.
            let holds = Role::parse(&object.spec.type_) == Role::Root
                || object.metadata.name.as_deref() == Some(current);
            let records = &object.spec.managed_resources;
            let held = records.iter().find(|r| tracker::is_of(r, key) && !r.deleted);
            let Some(record) = held.filter(|_| holds).cloned() else { continue };
            let mut object = object.clone();
            tracker::mark_deleted(&mut object.spec.managed_resources, record);
            let answer = io.replace(&object.encode()?, "", false, &own).await?;
            self.took(store, answer.read()?);
        }
        Ok(())
    }

    /// Drops all records of a cluster: they stand elsewhere now.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn drop_cluster(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        cluster: &str,
    ) -> Result<(), ApiError> {
        for index in 0..self.objects.len() {
            let Some(object) = self.objects.get(index) else { continue };
            let is_there = |record: &Record| record.cluster == cluster;
            if !object.spec.managed_resources.iter().any(is_there) {
                continue;
            }
            let mut object = object.clone();
            object.spec.managed_resources.retain(|record| !is_there(record));
            let own = Identity::default();
            let answer = io.replace(&object.encode()?, "", false, &own).await?;
            self.took(store, answer.read()?);
        }
        Ok(())
    }

    /// Takes back records that stood elsewhere: into the tracker they came from if there is one, else into one that goes with those
    /// of earlier runs. What is recorded again since stays as it is.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn give_back(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        (tracker, current): (&str, &str),
        records: Vec<Record>,
    ) -> Result<(), ApiError> {
        let found = self.objects.iter().position(|it| it.metadata.name.as_deref() == Some(tracker));
        let Some(mut object) = found.and_then(|index| self.objects.get(index)).cloned() else {
            return self.archive_records(io, store, current, records).await;
        };
        let held = &mut object.spec.managed_resources;
        let mut known: HashSet<ResourceKey> = held.iter().map(tracker::key_of).collect();
        let before = held.len();
        held.extend(records.into_iter().filter(|record| known.insert(tracker::key_of(record))));
        if held.len() == before {
            return Ok(());
        }
        let answer = io.replace(&object.encode()?, "", false, &Identity::default()).await?;
        self.took(store, answer.read()?);
        Ok(())
    }

    async fn record(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        found: Option<usize>,
        fresh: ExpandedTracker,
        records: Vec<Record>,
    ) -> Result<String, ApiError> {
        let own = Identity::default();
        let Some(object) = found.and_then(|index| self.objects.get(index)) else {
            // Created with its records: it never exists without them.
            let mut object = fresh;
            object.spec.managed_resources = records;
            let stored = self.create(io, object).await?;
            let name = stored.metadata.name.clone().unwrap_or_default();
            self.took(store, stored);
            return Ok(name);
        };
        let mut object = object.clone();
        let name = object.metadata.name.clone().unwrap_or_default();
        let (mut outlived, mut over) = (Vec::new(), Vec::new());
        let changed =
            tracker::add_records(&mut object.spec.managed_resources, records, |before, after| {
                if must_outlive(&before, after.raw.as_ref()) {
                    outlived.push(before.clone());
                }
                // What is written over is what the object still is: a write of it wants to know.
                over.push(before);
            });
        self.written_over.extend(over);
        // Kept before they are overwritten, for a process that ends between the two.
        self.archive_records(io, store, &name, outlived).await?;
        if changed {
            let body = object.encode()?;
            let answer = io.replace(&body, "", false, &own).await?;
            self.took(store, answer.read()?);
        }
        Ok(name)
    }

    /// Keeps records whose place is taken in the tracker `name` in one of their own, which goes with those of earlier runs.
    /// Should the process end before the objects are written, it says what is to be taken off them.
    async fn archive_records(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        records: Vec<Record>,
    ) -> Result<(), ApiError> {
        if records.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = (1..=MAX_ARCHIVES).map(|n| format!("{name}-before-{n}")).collect();
        let free = names.iter().find(|name| self.find(name).is_none());
        // With all names taken the last archive takes everything.
        let last = names.last().and_then(|name| self.find(name)).filter(|_| free.is_none());
        let stored = match last.cloned() {
            Some(mut object) => {
                tracker::add_records(&mut object.spec.managed_resources, records, |_, _| ());
                io.replace(&object.encode()?, "", false, &Identity::default()).await?.read()?
            }
            None => {
                // No generation and no revision: it is never that of a run.
                let run = Run { generation: 0, publish_version: "", revision: "" };
                let name = free.cloned().unwrap_or_default();
                let mut object = self.fresh(name, Role::Versioned, run);
                object.spec.managed_resources = records;
                self.create(io, object).await?
            }
        };
        self.took(store, stored);
        Ok(())
    }

    /// POST, under another name if somebody else has it, or another tracker of ours: names joined by `-` are ambiguous, and a
    /// publishVersion may be called `v1`.
    pub(super) async fn create(
        &self,
        io: &ObjectClient,
        mut object: ExpandedTracker,
    ) -> Result<ResourceTracker, ApiError> {
        let own = Identity::default();
        let wanted = object.metadata.name.clone().unwrap_or_default();
        let mut taken: Vec<String> = Vec::new();
        loop {
            match io.create(&object.encode()?, false, &own).await {
                Err(error) if error.is_already_exists() && taken.len() < NAMES => {
                    let name = object.metadata.name.clone().unwrap_or_default();
                    let existing = decode(io.get(&target(&name), &own).await?)?;
                    if is_same(&existing, &object) {
                        // Ours after all, the cache is behind: what it holds is not known otherwise.
                        let mut existing = ExpandedTracker::of(existing, self.whole)
                            .map_err(|e| ApiError::Transport(e.to_string()))?;
                        let records = std::mem::take(&mut object.spec.managed_resources);
                        let held = &mut existing.spec.managed_resources;
                        tracker::add_records(held, records, |_, _| ());
                        existing.complete(&object);
                        // What is written says whose it is; of the other only what it holds counts, and its version.
                        let version = existing.metadata.resource_version.take();
                        existing.metadata = object.metadata.clone();
                        existing.metadata.resource_version = version;
                        return io.replace(&existing.encode()?, "", false, &own).await?.read();
                    }
                    // The name belongs to another Application, or to another run of this one.
                    taken.push(name);
                    let is_taken = |name: &str| taken.iter().any(|taken| taken == name);
                    let free = tracker::free_name(wanted.clone(), &self.owner.uid, is_taken);
                    object.metadata.name = Some(free);
                }
                other => return other?.read(),
            }
        }
    }

    pub(super) fn fresh(&self, name: String, role: Role, run: Run<'_>) -> ExpandedTracker {
        let owner = &self.owner;
        let mut labels = BTreeMap::from([
            (names::label::APP_NAME.to_owned(), owner.name.clone()),
            (names::label::APP_NAMESPACE.to_owned(), owner.namespace.clone()),
            (names::label::APP_UID.to_owned(), owner.uid.clone()),
        ]);
        // The shard selects which controller's cache has the tracker.
        if !owner.shard.is_empty() {
            labels.insert(names::label::SCHEDULED_SHARD_ID.to_owned(), owner.shard.clone());
        }
        if let Some(bucket) = &owner.bucket {
            labels.insert(names::label::BUCKET.to_owned(), bucket.clone());
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
            // Without the finalizer a deletion would forget the objects.
            finalizers: Some(vec![names::finalizer::RESOURCE_TRACKER.to_owned()]),
            ..ObjectMeta::default()
        };
        role.as_str().clone_into(&mut object.spec.type_);
        object.spec.application_generation = run.generation;
        self.compression.clone_into(&mut object.spec.compression.type_);
        object.into()
    }

    /// Keeps what the API server answered.
    pub(super) fn took(
        &mut self,
        store: &Store<Packed<ResourceTracker>>,
        mut object: ResourceTracker,
    ) {
        // What cannot be expanded is kept as it is, and says so when it is read.
        let _ = object.expand();
        // The answer goes to the cache, so that a reconcile that follows sees its own writes.
        let _ = store.put(Packed::of(&object));
        let Ok(object) = ExpandedTracker::of(object, self.whole) else { return };
        let name = object.metadata.name.clone();
        match self.objects.iter_mut().find(|other| other.metadata.name == name) {
            Some(other) => *other = object,
            None => self.objects.push(object),
        }
    }
}
