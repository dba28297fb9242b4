//! The context ConfigMap of a workflow: `workflow-<name>-context`, owned by what the workflow belongs to.
//!
//! It is read once by a process that did not write it, and written at most once a reconcile; once more before each effect that
//! must not be repeated. Until something is written there is none. One that somebody deleted is created again. What somebody
//! else wrote into it counts as absent ([`sealed`](super::sealed)).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::warn;
use vela_api::ObjectReference;
use vela_api::names::annotation;
use vela_api::workflow::WorkflowStatus;
use vela_apply::object::str_at;
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, RawResponse, Target};
use vela_workflow::{Saved, Status, Workflow, convert, store::step_id};

use crate::application::context::AppContext;
use crate::events::Severity;
use crate::messages;

use super::cached::CachedContext;
use super::sealed;
use crate::application::workflow_owner::WorkflowOwner;

/// The event for entries that we did not write.
const FOREIGN_CONTEXT: &str = "ForeignContext";

/// What a run kept cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}", messages::context_unreadable(.0))]
pub struct ContextUnreadable(String);

/// What a run keeps.
#[derive(Debug)]
pub struct Store<'a> {
    ctx: &'a AppContext,
    owner: WorkflowOwner<'a>,
    kept: CachedContext,
    /// What the identities of this reconcile's new steps follow from.
    seed: String,
    /// The run, as the status names it.
    run: String,
}

/// Names the run that is stored: a reconcile that is repeated begins from the same one.
fn seed(owner: &WorkflowOwner<'_>) -> String {
    let uid = owner.uid();
    match owner.run {
        Some(run) if run.start_time.is_some() => {
            let time = |time: &Option<vela_api::Time>| {
                time.as_ref().map(|t| t.0.to_string()).unwrap_or_default()
            };
            // A run that was over and continues: what its steps came to before is not what they come to now.
            let again = if convert::from_api(run).phase.is_final() { "/again" } else { "" };
            let (start, end) = (time(&run.start_time), time(&run.end_time));
            format!("{uid}/{}/{start}/{end}{again}", run.app_revision)
        }
        // nothing of a run is stored: the object as a whole says which one begins
        _ => format!("{uid}//{}", owner.metadata.resource_version.as_deref().unwrap_or_default()),
    }
}

impl<'a> Store<'a> {
    /// Opens what a run kept. `owner` is as stored, `workflow` the run as this reconcile begins it.
    ///
    /// # Errors
    /// The API server did not answer, or the variables cannot be read.
    pub async fn open(
        ctx: &'a AppContext,
        owner: WorkflowOwner<'a>,
        known: Option<CachedContext>,
        workflow: &WorkflowStatus,
    ) -> Result<Self, ContextUnreadable> {
        let default_name = format!("workflow-{}-context", owner.name());
        let named = workflow.context_backend.as_ref().map(|backend| backend.name.clone());
        let earlier = owner.run.and_then(|w| w.context_backend.as_ref());
        let name = named.or_else(|| earlier.map(|e| e.name.clone())).unwrap_or_default();
        let run = workflow.app_revision.clone();
        let mut store =
            Self { ctx, owner, kept: CachedContext::default(), seed: seed(&owner), run };
        // Known to this process, under the name that the status has: nothing has to be read.
        match known.filter(|kept| name.is_empty() || kept.name == name) {
            Some(kept) => store.kept = kept,
            None if name.is_empty() => store.kept.name = default_name,
            None => {
                store.kept.name = name;
                store.load().await?;
            }
        }
        if workflow.start_time.is_none() {
            // a new run: nothing of the last one is its own
            store.kept.saved.variables.clear();
            store.kept.saved.memory = vela_workflow::Memory::default();
            store.kept.shown.clear();
        }
        Ok(store)
    }

    /// Forgets what belongs to no step of the run.
    pub fn prune(&mut self, workflow: &Workflow, status: &Status) {
        let statuses = status.by_name();
        // A new step has no status yet, and may have noted something in this pass.
        let new = workflow.all().filter(|step| !statuses.contains_key(step.name.as_str()));
        let known: BTreeSet<String> = new.map(|step| self.id(&step.name)).collect();
        self.kept.saved.prune(workflow, status, &known);
    }

    /// The identity of a step that has none.
    #[must_use]
    pub fn id(&self, step: &str) -> String {
        step_id(&self.seed, step)
    }

    /// What is kept.
    #[must_use]
    pub fn saved(&self) -> &Saved {
        &self.kept.saved
    }

    /// What is kept, to be changed.
    pub fn saved_mut(&mut self) -> &mut Saved {
        &mut self.kept.saved
    }

    /// A hash of what was last shown of a step.
    #[must_use]
    pub fn shown(&self, id: &str) -> Option<u64> {
        self.kept.shown.get(id).copied()
    }

    /// Remembers what was shown of a step.
    pub fn show(&mut self, id: &str, hash: u64) {
        self.kept.shown.insert(id.to_owned(), hash);
    }

    /// For the process to remember.
    #[must_use]
    pub fn into_kept(self) -> CachedContext {
        self.kept
    }

    fn target(&self) -> Target<'_> {
        Target {
            api_version: "v1",
            kind: "ConfigMap",
            namespace: self.owner.namespace(),
            name: &self.kept.name,
        }
    }

    /// Reads what another process may have written; once.
    ///
    /// # Errors
    /// A message.
    pub async fn load(&mut self) -> Result<(), ContextUnreadable> {
        if self.kept.stored.is_some() {
            return Ok(());
        }
        let found = match self.ctx.io.get(&self.target(), &Identity::default()).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(ContextUnreadable(error.to_string())),
        };
        // A ConfigMap of that name may belong to somebody else.
        if self.is_ours(&found) {
            let data = self.took(&found);
            let read = self.believed(data).await?;
            // What this process has noted since is newer than what was stored.
            let mine = std::mem::replace(&mut self.kept.saved, read);
            self.kept.saved.variables.extend(mine.variables);
            self.kept.saved.notes.extend(mine.notes);
        }
        Ok(())
    }

    /// What of the data we wrote ourselves.
    async fn believed(&self, data: BTreeMap<String, String>) -> Result<Saved, ContextUnreadable> {
        let keys = self.ctx.keys.get();
        // With authentication on, who wrote an entry decides what a tenant may make a step do.
        let strict = self.ctx.settings.gates.authenticate_application;
        let mut read = sealed::read(data, self.sealed_for(), keys.as_deref(), strict);
        let believed = read.data.clone();
        let saved = self.ctx.cue.run(move |scope| Saved::read(&believed, &scope.limits)).await;
        let mut saved = match saved
            .map_err(|error| error.to_string())
            .and_then(|read| read.map_err(|error| error.to_string()))
        {
            Ok(saved) => saved,
            // Not our text: whoever wrote it cannot hold up the run with it.
            Err(_) if read.variables_changed => Saved::without_variables(&read.data),
            Err(error) => return Err(ContextUnreadable(error)),
        };
        read.check(&mut saved.variables);
        if !read.refused.is_empty() {
            let about = self.owner.about();
            let text = messages::context_not_ours(&self.kept.name, &read.refused);
            self.ctx.events.emit(&about, Severity::Warning, FOREIGN_CONTEXT, &text, "");
        }
        Ok(saved)
    }

    /// What the workflow belongs to.
    #[must_use]
    pub fn owner(&self) -> WorkflowOwner<'a> {
        self.owner
    }

    fn sealed_for(&self) -> sealed::ContextOwner<'_> {
        sealed::ContextOwner {
            namespace: self.owner.namespace(),
            app: self.owner.name(),
            uid: self.owner.uid(),
            run: &self.run,
        }
    }

    fn is_ours(&self, found: &Value) -> bool {
        let uid = self.owner.uid();
        let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().any(|owner| str_at(owner, &["uid"]) == uid)
    }

    /// Whether it was left by an object of this kind and name that is gone: two never live at once.
    fn is_of_a_namesake(&self, found: &Value) -> bool {
        let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let (api_version, kind) = self.owner.type_names();
        owners.is_some_and(|owners| {
            !owners.is_empty()
                && owners.iter().all(|owner| {
                    str_at(owner, &["apiVersion"]) == api_version
                        && str_at(owner, &["kind"]) == kind
                        && str_at(owner, &["name"]) == self.owner.name()
                })
        })
    }

    fn took(&mut self, found: &Value) -> BTreeMap<String, String> {
        let data: BTreeMap<String, String> = found
            .get("data")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        str_at(found, &["metadata", "uid"]).clone_into(&mut self.kept.uid);
        self.kept.stored = Some(data.clone());
        data
    }

    /// Writes what changed. Until a step ran there is nothing to say but that the run began.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn commit(&mut self, ran: bool) -> Result<(), ApiError> {
        let mut data = self.kept.saved.data();
        if !ran && self.kept.stored.is_none() {
            data.insert("vars".to_owned(), String::new());
        }
        if let Some(keys) = self.ctx.keys.get() {
            sealed::seal(&mut data, &self.kept.saved.variables, &self.sealed_for(), &keys);
        }
        // Most passes change nothing, and cost no write.
        if self.kept.stored.as_ref() == Some(&data) || (!ran && self.kept.stored.is_some()) {
            return Ok(());
        }
        let mut made = self.kept.stored.is_some();
        // Deleted, taken, and deleted again: a few rounds settle that, more would be a fight.
        for _ in 0..4 {
            let outcome =
                if made { self.change(&data).await } else { self.create(&data, ran).await };
            match outcome {
                Ok(answer) => {
                    self.took(&answer.read()?);
                    self.kept.stored = Some(data);
                    return Ok(());
                }
                // Somebody deleted it.
                Err(error) if made && error.is_not_found() => made = false,
                Err(error) if !made && error.is_already_exists() => {
                    let found = self.ctx.io.get(&self.target(), &Identity::default()).await?;
                    if self.is_ours(&found) {
                        self.took(&found);
                        made = true;
                    } else if self.is_of_a_namesake(&found) {
                        // The cluster collects it as well, in its own time.
                        let uid = str_at(&found, &["metadata", "uid"]);
                        self.ctx.io.delete(&self.target(), uid, None, &Identity::default()).await?;
                    } else {
                        warn!(name = self.kept.name, "workflow context of another object");
                        // A suffix that follows from the owner: the next process finds the same
                        // name.
                        let suffix: String =
                            self.id("context").chars().filter(char::is_ascii).take(5).collect();
                        self.kept.name = format!("{}-{suffix}", self.kept.name);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(ApiError::Transport(messages::CONTEXT_UNSETTLED.to_owned()))
    }

    async fn create(
        &self,
        data: &BTreeMap<String, String>,
        ran: bool,
    ) -> Result<RawResponse, ApiError> {
        let mut metadata = json!({
            "name": self.kept.name,
            "namespace": self.owner.metadata.namespace,
            "ownerReferences": [self.owner.reference()],
        });
        if ran && let Some(metadata) = metadata.as_object_mut() {
            let started = json!({annotation::WORKFLOW_START_TIME: Timestamp::now().to_string()});
            metadata.insert("annotations".to_owned(), started);
        }
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.ctx.io.create(&object, false, &Identity::default()).await
    }

    async fn change(&self, data: &BTreeMap<String, String>) -> Result<RawResponse, ApiError> {
        let empty = BTreeMap::new();
        let stored = self.kept.stored.as_ref().unwrap_or(&empty);
        // Keys that are no longer wanted are removed by name: others may have added keys of their
        // own.
        let mut body: Map<String, Value> = stored
            .keys()
            .filter(|key| !data.contains_key(*key))
            .map(|key| (key.clone(), Value::Null))
            .collect();
        let changed = data.iter().filter(|(key, text)| stored.get(*key) != Some(text));
        body.extend(changed.map(|(key, text)| (key.clone(), json!(text))));
        let body = json!({ "data": body });
        let own = Identity::default();
        self.ctx.io.patch(&self.target(), "", (PatchKind::Merge, &body), false, &own).await
    }

    /// How the status names it.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: self.kept.name.clone(),
            namespace: self.owner.namespace().to_owned(),
            uid: self.kept.uid.clone(),
            ..ObjectReference::default()
        }
    }

    /// All of it, for the record in the revision.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        self.kept.saved.data()
    }
}
