//! `vela/kube`: objects, with the identity of the Application. What is applied is recorded as the Application's.

use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use vela_api::names::label;
use vela_apply::object::{name, namespace, set_label, set_namespace, str_at};
use vela_cluster::Target;
use vela_render::patch;
use vela_render::term::Term;
use vela_workflow::Reply;

use crate::application::converge::prune;
use crate::application::workflow::error::StepError;
use crate::application::workflow_owner::OwnerKind;
use crate::evaluation::{EvaluationScope, NotEvaluated};
use crate::messages;

use super::super::run::reference;
use super::super::selector::selector;
use super::{Calling, Pending, text};

/// Characters of `generateName` that are kept: names of some kinds must not be longer than 63.
const MAX_PREFIX: usize = 55;

/// Objects read at once.
const READS_AT_ONCE: usize = 8;

impl Calling<'_, '_, '_> {
    pub(super) async fn apply(&mut self, call: &Pending) -> Result<Value, StepError> {
        let mut value = call.params.get("value").cloned().unwrap_or_default();
        self.give_name(&mut value, &call.path);
        let mut live = self.dispatch(vec![value], text(&call.params, "cluster")).await?;
        Ok(json!({ "value": live.pop() }))
    }

    pub(super) async fn apply_all(&mut self, call: &Pending) -> Result<Value, StepError> {
        let objects = call.params.get("value").and_then(Value::as_array);
        let mut objects = objects.cloned().unwrap_or_default();
        // Each object has a path of its own, so that generated names differ.
        for (index, object) in objects.iter_mut().enumerate() {
            self.give_name(object, &format!("{}[{index}]", call.path));
        }
        let live = self.dispatch(objects, text(&call.params, "cluster")).await?;
        Ok(json!({ "value": live }))
    }

    /// The name of an object that has only the beginning of one. It is the same in all reconciles of a run at its step, so what is
    /// made is made once and known by its name; the next run makes another one.
    fn give_name(&self, object: &mut Value, path: &str) {
        let prefix = str_at(object, &["metadata", "generateName"]).to_owned();
        if prefix.is_empty() || !name(object).is_empty() {
            return;
        }
        // FNV, not a random number: the name follows from run, step and path.
        let hash = vela_gocompat::fnv::fnv1a_32(format!("{} {path}", self.id).as_bytes());
        let prefix: String = prefix.chars().take(MAX_PREFIX).collect();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), json!(format!("{prefix}{hash:08x}")));
        }
    }

    /// Applies objects: recorded and labelled as the Application's.
    async fn dispatch(
        &mut self,
        mut objects: Vec<Value>,
        cluster: &str,
    ) -> Result<Vec<Value>, StepError> {
        for object in &mut objects {
            if namespace(object).is_empty() {
                set_namespace(object, "default");
            }
            if self.session.owner_kind == OwnerKind::Application {
                set_label(object, label::APP_CLUSTER, cluster);
            }
        }
        self.own(&mut objects, cluster).await?;
        // The status names what a step applied.
        for object in &objects {
            self.seen.applied.push(reference(object, cluster));
        }
        let session = &*self.session;
        let mut reads = Vec::with_capacity(objects.len());
        for object in &objects {
            let read = async move {
                let at = session.reach_to(cluster, "get").await?;
                let live = at.requests().get(&Target::of(object)).await;
                Ok(live?)
            };
            reads.push(read.boxed());
        }
        // In the order of the objects: templates read results by index.
        let reads = stream::iter(reads).buffered(READS_AT_ONCE);
        let live: Vec<Result<Value, StepError>> = reads.collect().await;
        let live: Vec<Value> = live.into_iter().collect::<Result<_, _>>()?;
        self.touched.extend(live.iter().cloned());
        Ok(live)
    }

    /// Applies objects as the Application's: they go with it. Those of a WorkflowRun say which one it was, and stay.
    pub(super) async fn own(
        &mut self,
        objects: &mut [Value],
        cluster: &str,
    ) -> Result<(), StepError> {
        let session = &mut *self.session;
        let (name, namespace) = match session.owner_kind {
            // The labels of an owner: collection and drift repair are the same as for components.
            OwnerKind::Application => (label::APP_NAME, label::APP_NAMESPACE),
            OwnerKind::WorkflowRun => (label::RUN_NAME, label::RUN_NAMESPACE),
        };
        for object in &mut *objects {
            set_label(object, name, &session.owner.name);
            set_label(object, namespace, &session.owner.namespace);
        }
        let applied = match session.owner_kind {
            OwnerKind::Application => session.dispatch(objects, cluster).await,
            OwnerKind::WorkflowRun => session.apply_untracked(objects, cluster).await,
        };
        Ok(applied?)
    }

    pub(super) async fn read(&mut self, params: &Value) -> Reply {
        let mut object = params.get("value").cloned().unwrap_or_default();
        if namespace(&object).is_empty() {
            set_namespace(&mut object, "default");
        }
        let found = match self.session.reach_to(text(params, "cluster"), "get").await {
            Ok(at) => at.requests().get(&Target::of(&object)).await,
            Err(error) => Err(error),
        };
        Reply::Returns(match found {
            Ok(live) => {
                self.keep_secret(&live);
                self.touched.push(live.clone());
                json!({ "value": live })
            }
            // An error is a value here: templates decide what a missing object means.
            Err(error) => json!({"value": object, "err": error.to_string()}),
        })
    }

    pub(super) async fn list(&mut self, params: &Value, legacy: bool) -> Reply {
        let resource = params.get("resource").cloned().unwrap_or_default();
        let filter = params.get("filter").cloned().unwrap_or_default();
        let found = match self.session.reach_to(text(params, "cluster"), "get").await {
            Ok(at) => {
                let (api_version, kind) = (text(&resource, "apiVersion"), text(&resource, "kind"));
                let selector = selector(filter.get("matchingLabels"));
                let within = text(&filter, "namespace");
                at.requests().list(api_version, kind, within, &selector).await
            }
            Err(error) => Err(error),
        };
        let key = if legacy { "list" } else { "values" };
        Reply::Returns(match found {
            Ok(list) => {
                for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
                    self.keep_secret(&named(item, text(&resource, "kind")));
                }
                json!({ key: list })
            }
            Err(error) => json!({ "err": error.to_string() }),
        })
    }

    pub(super) async fn delete(&mut self, params: &Value) -> Reply {
        let mut value = params.get("value").cloned().unwrap_or_default();
        if namespace(&value).is_empty() {
            set_namespace(&mut value, "default");
        }
        let kind = text(&value, "kind");
        // Deletions of steps ask as those of collection do.
        let rules = match prune::rules(self.session.ctx, self.run.app).await {
            Ok(rules) => rules,
            Err(error) => return Reply::Error(error.to_string()),
        };
        if rules.is_some_and(|rules| rules.asks(kind)) {
            let named = params.get("filter").is_none().then(|| name(&value));
            let generation = self.run.app.metadata.generation.unwrap_or_default();
            return Reply::Wait(messages::step_needs_approval(kind, named, generation));
        }
        let cluster = text(params, "cluster");
        let done = match params.get("filter") {
            None => {
                let deleted = self.session.delete(&value, cluster).await;
                deleted.map_err(StepError::from)
            }
            Some(filter) => {
                let session = &*self.session;
                let selector = selector(filter.get("matchingLabels"));
                let (api_version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
                let within = text(filter, "namespace");
                let within = if within.is_empty() { namespace(&value) } else { within };
                // A made-up object, to ask whether this kind and namespace are permitted at all.
                let mut any = json!({"apiVersion": api_version, "kind": kind,
                    "metadata": {"namespace": within, "name": "*"}});
                // without a selector this would be everything in the namespace
                if selector.is_empty() {
                    Err(messages::DELETE_WITHOUT_SELECTOR.into())
                } else if let Err(denial) = session.permit(&mut any, cluster).await {
                    Err(denial.into())
                } else {
                    let done = match session.reach_to(cluster, "delete").await {
                        Ok(at) => {
                            at.requests().delete_all(api_version, kind, within, &selector).await
                        }
                        Err(error) => Err(error),
                    };
                    done.map_err(StepError::from)
                }
            }
        };
        match done {
            Ok(()) => Reply::Returns(Value::Null),
            Err(error) => Reply::Returns(json!({ "err": error.to_string() })),
        }
    }

    pub(super) async fn patch(&mut self, call: &Pending) -> Result<Value, StepError> {
        let cluster = text(&call.params, "cluster");
        let mut value = call.params.get("value").cloned().unwrap_or_default();
        if namespace(&value).is_empty() {
            set_namespace(&mut value, "default");
        }
        let at = self.session.reach_to(cluster, "get").await?;
        let live = at.requests().get(&Target::of(&value)).await;
        let mut live = live?;
        self.keep_secret(&live);
        // A patch is about what the user may set, not about what the server counts.
        if let Some(live) = live.as_object_mut() {
            live.remove("status");
            if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
                for set_by_server in
                    ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"]
                {
                    metadata.remove(set_by_server);
                }
            }
        }
        let patched = self.patched(&live, call).await??;
        let mut live = self.dispatch(vec![patched], text(&call.params, "cluster")).await?;
        Ok(json!({ "result": live.pop() }))
    }

    /// Merges the patch of a call into an object, with the strategies that its comments name.
    async fn patched(
        &self,
        base: &Value,
        call: &Pending,
    ) -> Result<Result<Value, StepError>, NotEvaluated> {
        let text = call.patch.clone().unwrap_or_else(|| "{}".to_owned());
        let base = base.clone();
        let job = move |scope: &EvaluationScope| {
            let (patch, _) =
                scope.renderer.term(&text, None).map_err(|errors| errors.to_string())?;
            let mut term = Term::from_value(&vela_render::json::to_cue(&base));
            // The patch may add items to lists of the live object.
            term.open_lists();
            let merged = patch::strategic(term, patch)?;
            let merged = merged.export().map_err(|_| messages::PATCH_NOT_CONCRETE.to_owned())?;
            Ok(vela_render::json::from_cue(&merged))
        };
        self.session.ctx.cue.run(job).await
    }

    pub(super) async fn patch_object(&self, call: &Pending) -> Reply {
        let base = call.params.get("value").cloned().unwrap_or_default();
        match self.patched(&base, call).await {
            Ok(Ok(result)) => Reply::Returns(json!({ "result": result })),
            Ok(Err(error)) => Reply::Returns(json!({ "err": error.to_string() })),
            // No matter of the template: the attempt is repeated.
            Err(error) => Reply::Error(error.to_string()),
        }
    }
}

/// An item of a list with its kind, which lists leave out.
pub(super) fn named(item: &Value, kind: &str) -> Value {
    let mut item = item.clone();
    if let Some(item) = item.as_object_mut() {
        item.insert("kind".to_owned(), json!(kind));
    }
    item
}
