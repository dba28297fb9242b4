//! A release with its record and options, and the change from its current to its wanted revision.

use std::sync::Arc;

use serde_json::{Value, json};
use vela_apply::object::{kind, name};
use vela_helm::preview;
use vela_helm::release::Status;

use crate::application::session::Session;

use super::entry::Entry;
use super::hooks::Moment;
use super::records::{Known, Marks};
use vela_helm::request::Params;

/// What becomes of a release with a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is the first one.
    Install,
    /// Something is deployed already.
    Upgrade,
    /// A revision is repeated.
    Rollback(i64),
}

impl Change {
    pub(super) const fn before(self) -> Moment {
        match self {
            Self::Install => Moment::PreInstall,
            Self::Upgrade => Moment::PreUpgrade,
            Self::Rollback(_) => Moment::PreRollback,
        }
    }

    pub(super) const fn after(self) -> Moment {
        match self {
            Self::Install => Moment::PostInstall,
            Self::Upgrade => Moment::PostUpgrade,
            Self::Rollback(_) => Moment::PostRollback,
        }
    }

    /// The state of a record that is running, and Helm's sentence about it.
    pub(super) const fn pending(self) -> (Status, &'static str) {
        match self {
            Self::Install => (Status::PendingInstall, "Initial install underway"),
            Self::Upgrade => (Status::PendingUpgrade, "Preparing upgrade"),
            Self::Rollback(_) => (Status::PendingRollback, "Preparing rollback"),
        }
    }

    pub(super) fn done(self) -> String {
        match self {
            Self::Install => "Install complete".to_owned(),
            Self::Upgrade => "Upgrade complete".to_owned(),
            Self::Rollback(to) => format!("Rollback to {to}"),
        }
    }

    pub(super) fn failed(self, release: &str, why: &str) -> String {
        let what = match self {
            Self::Install => "Release",
            Self::Upgrade => "Upgrade",
            Self::Rollback(_) => "Rollback",
        };
        format!("{what} {release:?} failed: {why}")
    }
}

/// What a component's release is, or is to become.
#[derive(Debug)]
pub struct Released {
    /// What `helm.#Render` returns.
    pub answer: Arc<Value>,
    /// The record.
    pub(super) entry: Entry,
    pub(super) params: Params,
    /// The records before this one, or with it at the end if it is stored.
    pub(super) known: Vec<Known>,
    pub(super) inputs: String,
    pub(super) digest: String,
    pub(super) materials: String,
    /// The objects of `crds/`.
    pub(super) crds: Vec<Value>,
    pub(super) change: Change,
    /// Why the revision before it failed, which is the reason for a rollback.
    pub(super) failure: Option<String>,
}

impl Released {
    pub(super) fn marks<'a>(&'a self, session: &'a Session<'_>) -> Marks<'a> {
        let back = match self.change {
            Change::Rollback(to) => Some((to, self.failure.as_deref())),
            Change::Install | Change::Upgrade => None,
        };
        Marks {
            owner: &session.owner,
            component: &self.entry.component,
            inputs: &self.inputs,
            digest: &self.digest,
            materials: &self.materials,
            timeout: self.entry.timeout,
            back,
        }
    }

    /// Puts the schema of the chart's values into the ConfigMap that stands for the release, where admission finds it.
    pub fn describe(&self, workload: &mut Value) {
        let is_own = kind(workload) == "ConfigMap"
            && name(workload) == preview::config_map(&self.params.name);
        let packed = || preview::packed(&self.entry.state.lock().record);
        if let (true, Some(fields)) = (is_own, workload.as_object_mut())
            && let Some(schema) = packed()
        {
            fields.insert("binaryData".to_owned(), json!({ (preview::KEY): schema }));
        }
    }

    /// Its objects, in the order in which they are installed.
    #[must_use]
    pub fn resources(&self) -> Vec<Value> {
        let resources = self.answer.get("resources").and_then(Value::as_array);
        resources.cloned().unwrap_or_default()
    }

    /// Whether what refuses a change of an immutable field is made again.
    #[must_use]
    pub const fn is_forced(&self) -> bool {
        self.params.force
    }
}
