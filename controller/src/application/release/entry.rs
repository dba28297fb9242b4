//! The record of a release: where it is stored, and how far it has come. Requests go to the cluster of the release, as the
//! Application.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vela_api::names;
use vela_apply::object::{api_version, kind, name, namespace, set_label};
use vela_apply::plan::PatchKind;
use vela_apply::{ResourceKey, tracker};
use vela_cluster::{Error, Removal, Target};
use vela_helm::release::{Record, secret_name};

use super::error::ReleaseError;
use super::records::{self, Known};

/// What there is to wait for, in words.
pub type Waits = Option<String>;
use crate::application::session::Session;

/// A record and its place in the cluster.
#[derive(Debug)]
pub(super) struct Entry {
    /// The cluster, `""` or `local` for the own one.
    pub(super) cluster: String,
    /// The component.
    pub(super) component: String,
    /// The release's name.
    pub(super) release: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// How long a hook may take.
    pub(super) timeout: Duration,
    /// The record.
    pub(super) state: Mutex<State>,
}

/// The record, as far as it has come.
#[derive(Debug)]
pub(super) struct State {
    pub(super) record: Record,
    pub(super) is_stored: bool,
    /// When it was written last.
    pub(super) since: Timestamp,
}

impl Entry {
    /// The name of its Secret.
    pub(super) fn secret(&self) -> String {
        let state = self.state.lock();
        secret_name(state.record.name(), state.record.revision())
    }

    /// Brings the Secret to the state of the record.
    pub(super) async fn write(&self, session: &Session<'_>) -> Result<(), ReleaseError> {
        // The lock is released before the request: nothing waits for a server while it holds it.
        let now = session.ctx.clock.now();
        let change = {
            let mut state = self.state.lock();
            state.since = now;
            records::change(&state.record, now)?
        };
        let secret = self.secret();
        let namespace = self.namespace.as_str();
        let target = Target { api_version: "v1", kind: "Secret", namespace, name: &secret };
        let patched = self.at(session).patch(&target, &change).await;
        patched.map_err(ReleaseError::io(format!("record {secret}")))
    }

    /// Its cluster.
    pub(super) fn at<'a, 's>(&'a self, session: &'a Session<'s>) -> Cluster<'a, 's> {
        Cluster { session, name: &self.cluster }
    }

    /// Marks an object as the Application's: what becomes of it wakes that.
    pub(super) fn own(&self, session: &Session<'_>, object: &mut Value) {
        for (key, value) in [
            (names::label::APP_NAME, session.owner.name.as_str()),
            (names::label::APP_NAMESPACE, session.owner.namespace.as_str()),
            (names::label::APP_COMPONENT, self.component.as_str()),
        ] {
            set_label(object, key, value);
        }
    }

    /// Records the Secrets of a release with the run, so that they go when the release does. What is in them is not recorded:
    /// they are not put back from there.
    pub(super) async fn record(
        &self,
        session: &mut Session<'_>,
        known: &[Known],
    ) -> Result<(), ReleaseError> {
        let own = self.secret();
        let names = known.iter().map(|known| name(&known.secret).to_owned());
        // Each Secret once: the record itself may be among the known ones.
        let names: std::collections::BTreeSet<String> = names.chain([own]).collect();
        let secrets = names.iter().map(|name| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {(names::label::APP_COMPONENT): self.component},
            }})
        });
        let secrets: Vec<Value> = secrets.collect();
        self.track(session, &secrets).await
    }

    /// Records objects that nobody puts back, but that are collected.
    pub(super) async fn track(
        &self,
        session: &mut Session<'_>,
        objects: &[Value],
    ) -> Result<(), ReleaseError> {
        let record = |object: &Value| tracker::record_of(object, &self.cluster, true, false);
        let records: Vec<_> = objects.iter().map(record).collect();
        let current = session.trackers.current(session.run());
        let is_known = |record: &tracker::Record| {
            let same = |known: &&tracker::Record| {
                tracker::identity(known) == tracker::identity(record) && !known.deleted
            };
            session.trackers.records(&current).iter().find(same).is_some()
        };
        // Recorded in an earlier pass: no write.
        if !current.is_empty() && records.iter().all(is_known) {
            return Ok(());
        }
        let (io, store) = (&*session.ctx.io, &*session.ctx.trackers);
        let mut trackers = std::mem::take(&mut session.trackers);
        let recorded = trackers.record_in_current(io, store, session.run(), records).await;
        session.trackers = trackers;
        recorded.map(drop).map_err(ReleaseError::io("record of the release"))?;
        let at = session.reach(&self.cluster).map_err(ReleaseError::io("release"))?;
        for object in objects {
            // From now on it is watched: what becomes of it wakes the Application.
            let key = ResourceKey::new(
                api_version(object),
                kind(object),
                &self.cluster,
                namespace(object),
                name(object),
            );
            let _ = at.live.get(api_version(object), &key).await;
        }
        Ok(())
    }
}

/// A cluster in which a release is.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a, 's> {
    pub(super) session: &'a Session<'s>,
    pub(super) name: &'a str,
}

impl Cluster<'_, '_> {
    pub(super) async fn get(self, target: &Target<'_>) -> Result<Value, Error> {
        self.session.reach_to(self.name, "get").await?.requests().get(target).await
    }

    pub(super) async fn list(
        self,
        (api_version, kind): (&str, &str),
        namespace: &str,
        selector: &str,
    ) -> Result<Value, Error> {
        let at = self.session.reach_to(self.name, "get").await?;
        at.requests().list(api_version, kind, namespace, selector).await
    }

    /// The object as it was made.
    pub(super) async fn create(self, object: &Value) -> Result<Value, Error> {
        let at = self.session.reach_to(self.name, "create").await?;
        at.requests().create(object, false).await?.object()
    }

    pub(super) async fn patch(self, target: &Target<'_>, change: &Value) -> Result<(), Error> {
        let at = self.session.reach_to(self.name, "patch").await?;
        at.requests().patch(target, (PatchKind::Merge, change), false).await.map(drop)
    }

    pub(super) async fn delete(self, target: &Target<'_>) -> Result<Removal, Error> {
        let at = self.session.reach_to(self.name, "delete").await?;
        at.requests().delete(target, "", Some("Background")).await
    }

    /// The records of a release, the oldest first.
    pub(super) async fn records(
        self,
        namespace: &str,
        release: &str,
    ) -> Result<Vec<Known>, ReleaseError> {
        let selector = format!("owner=helm,name={release}");
        let list = self.list(("v1", "Secret"), namespace, &selector).await;
        let what = || format!("records of release {namespace}/{release}");
        Ok(Known::all(&list.map_err(ReleaseError::io(what()))?))
    }
}
