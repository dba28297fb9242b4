//! What fills the caches of our own kinds, and what a change of an object wakes.

use std::sync::Arc;

use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_api::{
    Application, ApplicationRevision, ComponentDefinition, DefinitionRevision, ObjectMeta, Policy,
    PolicyDefinition, ResourceTracker, TraitDefinition, Workflow, WorkflowStepDefinition,
    WorkloadDefinition, names,
};
use vela_cluster::watch::{Change, feed};
use vela_cluster::{Packed, Stored};

use crate::application::{follows_definitions, scoped};
use crate::context::Context;
use crate::definition::users;
use crate::revisions::Revision;

/// Objects in an answer to a list: a page is in memory beside what stays.
const PAGE: u32 = 200;

/// What kubectl notes for itself is a second copy of the object.
fn trim(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(names::annotation::KUBECTL_LAST_APPLIED);
    }
}

/// Starts one watch; what is kept of an object is the object, or what a function makes of it.
macro_rules! watch_kind {
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $tell:expr) => {
        watch_kind!($tasks, $end, $client, $store, $kind, |object| object, $tell)
    };
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $keep:expr, $tell:expr) => {
        watch_kind!($tasks, $end, $client, $store, $kind, watcher::Config::default(), $keep, $tell)
    };
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $which:expr, $keep:expr, $tell:expr) => {{
        let (client, store, end) = ($client.clone(), Arc::clone(&$store), $end.clone());
        let (keep, tell, config) = ($keep, $tell, $which.page_size(PAGE));
        $tasks.spawn(async move {
            let trimmed = |mut object: $kind| {
                trim(&mut object.metadata);
                keep(object)
            };
            let feed = feed::<$kind, _>(client, config, store, trimmed, tell);
            tokio::select! {
                () = feed => {}
                () = end.cancelled() => {}
            }
        });
    }};
}

/// Starts the watches of our own kinds.
pub(crate) fn start(
    context: &Arc<Context>,
    client: &kube::Client,
    tasks: &TaskTracker,
    end: &CancellationToken,
) {
    let queue = Arc::clone(&context.queue);
    let definitions = &context.definitions;
    // Revisions and trackers of all shards are kept: one that takes an Application over finds what belongs to it.
    let own = match &context.settings.shard {
        Some(shard) => watcher::Config::default()
            .labels(&format!("{}={shard}", names::label::SCHEDULED_SHARD_ID)),
        None => watcher::Config::default(),
    };
    watch_kind!(tasks, end, client, context.apps, Application, own, |app| app, {
        let queue = Arc::clone(&queue);
        let context = Arc::downgrade(context);
        move |change: Change<Application>| {
            if let Some(context) = context.upgrade() {
                context.users.note(change.old.as_deref(), change.new.as_deref());
            }
            if is_edit(&change) { queue.add_edited(change.key) } else { queue.add(change.key) }
        }
    });
    let contents = Arc::clone(&context.revision_contents);
    let keep = move |revision| Revision::of(revision, &contents);
    watch_kind!(tasks, end, client, context.revisions, ApplicationRevision, keep, {
        let queue = Arc::clone(&queue);
        move |change: Change<Revision>| {
            // A revision that is gone is made again; the others are our own.
            if let (Some(old), None) = (change.old, change.new) {
                old.index().into_iter().for_each(|app| queue.add(app));
            }
        }
    });
    let keep = |mut tracker: ResourceTracker| {
        // What cannot be expanded says so when it is read.
        let _ = tracker.expand();
        Packed::of(&tracker)
    };
    watch_kind!(tasks, end, client, context.trackers, ResourceTracker, keep, {
        let queue = Arc::clone(&queue);
        move |change: Change<Packed<ResourceTracker>>| {
            let app = change.new.or(change.old).and_then(|tracker| tracker.index());
            app.into_iter().for_each(|app| queue.add(app));
        }
    });
    // A definition that came, or was mended, gets waiting Applications going.
    macro_rules! definition {
        ($store:ident, $kind:ty $(, $queue:ident $(, $wake:expr)?)?) => {
            watch_kind!(tasks, end, client, definitions.$store, $kind, {
                let context = Arc::downgrade(context);
                move |_change: Change<$kind>| {
                    if let Some(context) = context.upgrade() {
                        $(
                            $($wake(&context, _change.old.as_deref(), _change.new.as_deref());)?
                            context.definition_queues.$queue.add(_change.key);
                        )?
                        wake_waiting(&context);
                    }
                }
            });
        };
    }
    definition!(components, ComponentDefinition, components);
    definition!(traits, TraitDefinition, traits);
    definition!(policies, PolicyDefinition, policies, scoped::wake);
    definition!(steps, WorkflowStepDefinition, steps);
    definition!(workloads, WorkloadDefinition);
    watch_kind!(tasks, end, client, definitions.revisions, DefinitionRevision, {
        let queues = context.definition_queues.clone();
        let context = Arc::downgrade(context);
        move |change: Change<DefinitionRevision>| {
            if let (None, Some(new), Some(context)) = (&change.old, &change.new, context.upgrade())
            {
                users::wake(&context, new);
            }
            // A revision that somebody deleted is made again.
            if let (Some(old), None) = (change.old, change.new)
                && let Some(definition) = old.index()
            {
                match old.spec.definition_type.as_str() {
                    names::definition_type::COMPONENT => queues.components.add(definition),
                    names::definition_type::TRAIT => queues.traits.add(definition),
                    names::definition_type::POLICY => queues.policies.add(definition),
                    _ => queues.steps.add(definition),
                }
            }
        }
    });
    macro_rules! referred {
        ($store:ident, $kind:ty) => {
            watch_kind!(tasks, end, client, definitions.$store, $kind, {
                let context = Arc::downgrade(context);
                move |change: Change<$kind>| {
                    if let Some(context) = context.upgrade() {
                        wake_referring(&context, &change.key.namespace);
                    }
                }
            });
        };
    }
    referred!(external_policies, Policy);
    referred!(workflows, Workflow);
}

/// Whether a change is what somebody wants of an Application, and not what became of it.
fn is_edit(change: &Change<Application>) -> bool {
    let Some(new) = &change.new else { return false };
    let (metadata, observed) = (&new.metadata, new.status.observed_generation);
    let is_marked = change.old.as_ref().is_some_and(|old| {
        metadata.labels != old.metadata.labels || metadata.annotations != old.metadata.annotations
    });
    is_marked || metadata.deletion_timestamp.is_some() || metadata.generation != Some(observed)
}

/// Looks again at Applications that definitions may have held up, and at those that follow their definitions.
fn wake_waiting(context: &Context) {
    if !context.apps.is_synced() {
        // All of them are looked at anyway.
        return;
    }
    use names::phase::{GENERATING_POLICY, RENDERING, STARTING, WORKFLOW_FAILED};
    let held_up = [STARTING, RENDERING, GENERATING_POLICY, WORKFLOW_FAILED];
    for app in context.apps.all() {
        if held_up.contains(&app.status.phase.as_str()) || follows_definitions(&app) {
            context.queue.add(app.key());
        }
    }
}

/// Looks again at the Applications of a namespace that may refer to a Workflow or a Policy in it; those that do not, rest.
fn wake_referring(context: &Context, namespace: &str) {
    if !context.apps.is_synced() {
        // All of them are looked at anyway.
        return;
    }
    for app in context.apps.all() {
        let is_here = app.metadata.namespace.as_deref() == Some(namespace);
        if is_here && app.spec.workflow.is_some() {
            context.queue.add(app.key());
        }
    }
}

/// Waits until every cache is filled.
pub(crate) async fn synced(context: &Context) {
    let definitions = &context.definitions;
    tokio::join!(
        context.apps.synced(),
        context.revisions.synced(),
        context.trackers.synced(),
        definitions.components.synced(),
        definitions.traits.synced(),
        definitions.policies.synced(),
        definitions.steps.synced(),
        definitions.workloads.synced(),
        definitions.revisions.synced(),
        definitions.external_policies.synced(),
        definitions.workflows.synced(),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vela_cluster::Key;

    use super::*;

    #[test]
    fn edits_are_told_from_what_became_of_them() {
        let app = |metadata: &Value, observed: i64| -> Arc<Application> {
            let value = json!({"metadata": metadata, "spec": {"components": []},
                "status": {"observedGeneration": observed}});
            Arc::new(serde_json::from_value(value).unwrap())
        };
        let plain = json!({"generation": 2});
        let marked = json!({"generation": 2, "annotations": {"app.oam.dev/publishVersion": "a"}});
        let labelled =
            json!({"generation": 2, "labels": {"controller.core.oam.dev/pause": "true"}});
        let deleted = json!({"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (old, new, edit) in [
            (Some((&plain, 1)), Some((&plain, 1)), true),
            (Some((&plain, 1)), Some((&plain, 2)), false),
            (Some((&plain, 2)), Some((&plain, 2)), false),
            (Some((&plain, 2)), Some((&marked, 2)), true),
            (Some((&marked, 2)), Some((&plain, 2)), true),
            (Some((&plain, 2)), Some((&labelled, 2)), true),
            (Some((&plain, 2)), Some((&deleted, 2)), true),
            (None, Some((&plain, 0)), true),
            (None, Some((&plain, 2)), false),
            (Some((&plain, 2)), None, false),
        ] {
            let make = |side: Option<(&Value, i64)>| side.map(|(m, observed)| app(m, observed));
            let change = Change { key: Key::new("n", "a"), old: make(old), new: make(new) };
            assert_eq!(is_edit(&change), edit, "{old:?} {new:?}");
        }
    }
}
