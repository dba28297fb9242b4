//! The life of a tracker after it was made: under a new generation, set aside, on its way out, gone, made again.

use serde_json::json;
use vela_api::{ObjectMeta, ResourceTracker, names};
use vela_apply::plan::PatchKind;
use vela_apply::tracker::{Role, Run};
use vela_cluster::{Identity, Io, IoError, Packed, Removal, Store};

use crate::queue::Key;

use super::super::revision::label;
use super::{Trackers, decode, encode, target};

impl Trackers {
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
        io: &Io,
        store: &Store<Packed<ResourceTracker>>,
        name: &str,
        revision: &str,
    ) -> Result<bool, IoError> {
        let Some(object) = self.find(name).cloned() else { return Ok(false) };
        let before = label(&object.metadata, names::label::APP_REVISION).to_owned();
        if before.is_empty() || before == revision || object.spec.managed_resources.is_empty() {
            return Ok(false);
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
            self.remove(io, store, name).await?;
            return Ok(true);
        }
        let mut object = object;
        object.spec.managed_resources.clear();
        let labels = object.metadata.labels.get_or_insert_default();
        labels.insert(names::label::APP_REVISION.to_owned(), revision.to_owned());
        let own = Identity::default();
        let answer = io.replace(&encode(&object)?, "", false, &own).await?;
        self.took(store, answer.read()?);
        Ok(true)
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
                self.took(store, answer.read()?);
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
