//! The life cycle of a tracker: moved to a new generation, archived, marked for deletion, deleted, recreated.

use serde_json::json;
use vela_api::{ObjectMeta, ResourceTracker, names};
use vela_apply::plan::PatchKind;
use vela_apply::tracker::{self, Role, Run};
use vela_cluster::{ApiError, Identity, ObjectClient, Packed, Removal, Store};

use crate::queue::Key;

use super::super::facts::label;
use super::expanded::ExpandedTracker;
use super::{Trackers, decode, head, target};

impl Trackers {
    /// The tracker of a run continues under a new generation: an edit that changed nothing. Also claims a tracker of an
    /// Application that is gone.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn relabel(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        generation: Option<i64>,
    ) -> Result<(), ApiError> {
        // The uid says whose it is; an Application that was created again takes it over.
        let metadata = json!({"labels": {names::label::APP_UID: self.owner.uid}});
        let body = match generation {
            Some(generation) => {
                json!({"metadata": metadata, "spec": {"applicationGeneration": generation}})
            }
            None => json!({ "metadata": metadata }),
        };
        // Trackers are the controller's own: an author's rights must not decide whether an object
        // is remembered.
        let own = Identity::default();
        let target = target(name);
        let answer = io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await?;
        self.took(store, answer.read()?);
        Ok(())
    }

    /// Notes something on a tracker.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn annotate(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        annotation: &str,
        text: &str,
    ) -> Result<(), ApiError> {
        let body = json!({"metadata": {"annotations": {annotation: text}}});
        let (own, target) = (Identity::default(), target(name));
        let answer = io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await?;
        self.took(store, answer.read()?);
        Ok(())
    }

    /// A run of another revision begins in the tracker `name`, because the generation is the same: what it holds moves to
    /// a tracker of its own, to be collected like that of any earlier run. Returns whether there was anything to move.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn set_aside(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        revision: &str,
    ) -> Result<bool, ApiError> {
        let Some(object) = self.find(name).cloned() else { return Ok(false) };
        let before = label(&object.metadata, names::label::APP_REVISION).to_owned();
        if before.is_empty() || before == revision {
            return Ok(false);
        }
        // Nothing to move: the tracker changes hands.
        if object.is_empty() {
            return self.give(io, store, object, revision).await.map(|()| false);
        }
        let run = Run {
            // Of an earlier generation, so that it is never taken for the current one.
            generation: object.spec.application_generation.saturating_sub(1).max(0),
            publish_version: "",
            revision: &before,
        };
        // Users choose the parts of these names, so the first one may be taken.
        let mut aside = format!("{name}-{before}");
        while self.find(&aside).is_some() {
            aside.push_str("-0");
        }
        let mut copy = self.fresh(aside, Role::Versioned, run);
        // The copy is stored before the original is emptied: ended in between, both hold the
        // records.
        copy.complete(&object);
        let stored = self.create(io, copy).await?;
        self.took(store, stored);
        if object.metadata.deletion_timestamp.is_some() {
            // It is being collected already (a publishVersion that came back): the run makes one again.
            self.remove(io, store, name).await?;
            return Ok(true);
        }
        self.give(io, store, object, revision).await?;
        Ok(true)
    }

    /// Gives a tracker, empty, to the run of another revision.
    async fn give(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        mut object: ExpandedTracker,
        revision: &str,
    ) -> Result<(), ApiError> {
        // Replaced as a whole, guarded by its version.
        object.clear();
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(names::label::APP_REVISION.to_owned(), revision.to_owned());
        let own = Identity::default();
        let answer = io.replace(&object.encode()?, "", false, &own).await?;
        self.took(store, answer.read()?);
        Ok(())
    }

    /// Marks a tracker as deleting.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn mark(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), ApiError> {
        // The uid guards against a tracker of the same name that was made in between.
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
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), ApiError> {
        let legacy = self.legacy().into_iter().find(|(legacy, _)| legacy == name);
        let Some((_, uid)) = legacy else { return Ok(()) };
        let own = Identity::default();
        if let Removal::Held(object) = io.delete(&target(name), &uid, Some("Orphan"), &own).await? {
            self.took(store, decode(object)?);
        }
        Ok(())
    }

    /// Lets a tracker go for good.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn remove(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(object) = self.find(name).cloned() else { return Ok(()) };
        let own = Identity::default();
        let target = target(name);
        if object.metadata.deletion_timestamp.is_none() {
            self.mark(io, store, name).await?;
        }
        let finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        let left: Vec<_> =
            finalizers.iter().filter(|f| *f != names::finalizer::RESOURCE_TRACKER).collect();
        if left.len() != finalizers.len() {
            let body = json!({"metadata": {"finalizers": left}});
            match io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await {
                Ok(_) => {}
                // Gone: somebody else took the last finalizer off.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        // Out of the cache at once, or the next reconcile would still read it.
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
    pub async fn roll_back(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        before: &Self,
    ) -> Result<(), ApiError> {
        for mut object in self.objects.clone() {
            let name = object.metadata.name.clone().unwrap_or_default();
            // It did not exist before this dispatch.
            let Some(old) = before.find(&name) else {
                // One that was there after all, the cache was behind, may hold what nobody else does.
                if object.elsewhere.is_empty() {
                    self.remove(io, store, &name).await?;
                }
                continue;
            };
            // Only what the dispatch added is taken back.
            if old.spec.managed_resources != object.spec.managed_resources {
                object.spec.managed_resources.clone_from(&old.spec.managed_resources);
                let own = Identity::default();
                let answer = io.replace(&object.encode()?, "", false, &own).await?;
                self.took(store, answer.read()?);
            }
        }
        Ok(())
    }

    /// A tracker that somebody is deleting although its objects are wanted: it is created again with the same content. A spare
    /// one holds that content before the old one goes, so whatever comes between, nothing is forgotten.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn rebuild(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(old) = self.find(name).cloned() else { return Ok(()) };
        if let Some(spare) = self.spare_of(&old).cloned() {
            // A reconcile before this one came as far as that.
            self.complete(io, store, spare, &old).await?;
            return self.remove(io, store, name).await;
        }
        let is_taken = |name: &str| self.find(name).is_some();
        let free = tracker::free_name(name.to_owned(), &self.owner.uid, is_taken);
        let stored = self.create(io, copy(&old, &free)).await?;
        let spare = stored.metadata.name.clone().unwrap_or_default();
        self.took(store, stored);
        let is_ours = |finalizer: &String| finalizer == names::finalizer::RESOURCE_TRACKER;
        if !old.metadata.finalizers.iter().flatten().all(is_ours) {
            // Somebody else holds the old one (a deletion in the foreground), and with it its name: the spare one stays.
            return self.remove(io, store, name).await;
        }
        // If the process ends here, the tracker is recreated itself, or deleted together with the other: two never stay.
        self.mark(io, store, &spare).await?;
        self.remove(io, store, name).await?;
        let stored = self.create(io, copy(&old, name)).await?;
        let is_back = stored.metadata.name.as_ref() != Some(&spare);
        self.took(store, stored);
        if is_back { self.remove(io, store, &spare).await } else { Ok(()) }
    }

    /// A tracker that stays and serves the purpose of one that is going.
    fn spare_of(&self, old: &ExpandedTracker) -> Option<&ExpandedTracker> {
        let purpose = |object: &ExpandedTracker| {
            // What makes two trackers interchangeable: role, generation, version and revision.
            let tracker = head(object);
            // There is one root, whatever revision it was made under.
            let revision =
                if tracker.role == Role::Root { String::new() } else { tracker.revision };
            (tracker.role, tracker.generation, tracker.publish_version, revision)
        };
        let wanted = purpose(old);
        let stays = |object: &&ExpandedTracker| object.metadata.deletion_timestamp.is_none();
        self.objects.iter().filter(stays).find(|object| purpose(object) == wanted)
    }

    /// Records in a spare tracker what it lacks of the one it stands for.
    async fn complete(
        &mut self,
        io: &ObjectClient,
        store: &Store<Packed<ResourceTracker>>,
        mut spare: ExpandedTracker,
        old: &ExpandedTracker,
    ) -> Result<(), ApiError> {
        if !spare.complete(old) {
            return Ok(());
        }
        let answer = io.replace(&spare.encode()?, "", false, &Identity::default()).await?;
        self.took(store, answer.read()?);
        Ok(())
    }
}

/// A new tracker of the same content and purpose.
fn copy(of: &ExpandedTracker, name: &str) -> ExpandedTracker {
    let mut copy = of.clone();
    copy.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: of.metadata.labels.clone(),
        annotations: of.metadata.annotations.clone(),
        finalizers: Some(vec![names::finalizer::RESOURCE_TRACKER.to_owned()]),
        ..ObjectMeta::default()
    };
    copy
}
