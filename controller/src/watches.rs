//! Watches that fill the caches of our own kinds, and the keys that a change of an object enqueues.

use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_api::{
    Application, ApplicationRevision, ComponentDefinition, DefinitionRevision, ObjectMeta, Policy,
    PolicyDefinition, ResourceTracker, TraitDefinition, Workflow, WorkflowRun,
    WorkflowStepDefinition, WorkloadDefinition, names,
};
use vela_cluster::watch::{self, Change, feed};
use vela_cluster::{Key, Packed, Share, Store, Stored, Whose};

use crate::application::policies;
use crate::cached::Cached;
use crate::context::Context;
use crate::definition::wake;
use crate::in_flight::Subject;
use crate::queue::Class;
use crate::revisions::Revision;

/// Objects in an answer to a list: each list page is held in memory in addition to the cache.
const PAGE: u32 = 200;

/// What kubectl notes for itself is a second copy of the object.
fn trim(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(names::annotation::KUBECTL_LAST_APPLIED);
    }
}

/// Which objects of a kind are kept.
struct Which {
    config: watcher::Config,
    share: Arc<Share>,
    whose: Whose,
}

/// All that the API server shows.
fn all_of(config: watcher::Config) -> Which {
    Which { config, share: Arc::default(), whose: Whose::Everybodys }
}

/// Those of the Applications that this process has a share of.
fn of_share(context: &Context, whose: Whose) -> Which {
    let share = Arc::clone(&context.share);
    Which { config: watcher::Config::default(), share, whose }
}

/// Starts one watch; what is kept of an object is the object, or what a function makes of it.
macro_rules! watch_kind {
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $on_change:expr) => {
        watch_kind!($tasks, $end, $client, $store, $kind, |object, _| object, $on_change)
    };
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $keep:expr, $on_change:expr) => {
        watch_kind!(
            $tasks,
            $end,
            $client,
            $store,
            $kind,
            all_of(watcher::Config::default()),
            $keep,
            $on_change
        )
    };
    ($tasks:expr, $end:expr, $client:expr, $store:expr, $kind:ty, $which:expr, $keep:expr, $on_change:expr) => {{
        let (client, store, end) = ($client.clone(), Arc::clone(&$store), $end.clone());
        let (keep, on_change, which) = ($keep, $on_change, $which);
        $tasks.spawn(async move {
            let trimmed = |mut object: $kind, whole| {
                trim(&mut object.metadata);
                keep(object, whole)
            };
            let Which { config, share, whose } = which;
            let kind = watch::Kind {
                config: config.page_size(PAGE).streaming_lists(),
                share: &share,
                whose,
            };
            let feed = feed::<$kind, _>(client, kind, store, trimmed, on_change);
            tokio::select! {
                () = feed => {}
                () = end.cancelled() => {}
            }
        });
    }};
}

/// Starts the watches of our own kinds, but for what is recorded of Applications.
pub(crate) fn start(
    context: &Arc<Context>,
    client: &kube::Client,
    tasks: &TaskTracker,
    end: &CancellationToken,
) {
    let queue = Arc::clone(&context.queue);
    let definitions = &context.definitions;
    // Revisions and trackers of all shards are kept: one that takes an Application over finds what belongs to it.
    let mut own = of_share(context, Whose::Application);
    if let Some(shard) = &context.settings.shard {
        own.config = own.config.labels(&format!("{}={shard}", names::label::SCHEDULED_SHARD_ID));
    }
    let outlines = Arc::clone(&context.outlines);
    let keep = move |app: Application, whole| outlines.cached(&app, whole);
    watch_kind!(tasks, end, client, context.apps, Application, own, keep, {
        let queue = Arc::clone(&queue);
        let context = Arc::downgrade(context);
        move |change: Change<Cached>| {
            let mut class = urgency(&change);
            if let Some(context) = context.upgrade() {
                context.users.note(&change.key, &context.apps);
                if let Some(generation) = edited(&change) {
                    context.in_flight.edited(Subject::application(&change.key), generation);
                }
                // What has to wait for a cluster anyway makes no edit wait that can be carried out: after a start there may be many.
                if class == Class::Edit && change.new.as_ref().is_some_and(|it| waits(&context, it))
                {
                    class = Class::Progress;
                }
            }
            queue.add(change.key, class);
        }
    });
    let with_rule = watcher::Config::default().labels(names::label::PRUNE);
    let no_wake = |_: Change<Namespace>| {};
    watch_kind!(
        tasks,
        end,
        client,
        context.prune_namespaces,
        Namespace,
        all_of(with_rule),
        |namespace, _| namespace,
        no_wake
    );
    // A definition that was created or corrected queues the waiting Applications.
    macro_rules! definition {
        ($store:ident, $kind:ty, $queue:ident $(, $wake:expr)?) => {
            watch_kind!(tasks, end, client, definitions.$store, $kind, {
                let context = Arc::downgrade(context);
                move |change: Change<$kind>| {
                    if let Some(context) = context.upgrade() {
                        if is_redefined(&change) {
                            $($wake(&context, change.old.as_deref(), change.new.as_deref());)?
                            wake::definition_changed(&context, &change.key);
                        }
                        context.definition_queues.$queue.add(change.key, Class::Edit);
                    }
                }
            });
        };
    }
    definition!(components, ComponentDefinition, components);
    definition!(traits, TraitDefinition, traits);
    definition!(policies, PolicyDefinition, policies, policies::wake);
    definition!(steps, WorkflowStepDefinition, steps);
    watch_kind!(tasks, end, client, definitions.workloads, WorkloadDefinition, {
        let context = Arc::downgrade(context);
        move |change: Change<WorkloadDefinition>| {
            if let Some(context) = context.upgrade() {
                wake::workload_changed(&context, &change.key);
            }
        }
    });
    watch_kind!(tasks, end, client, definitions.revisions, DefinitionRevision, {
        let queues = context.definition_queues.clone();
        let context = Arc::downgrade(context);
        move |change: Change<DefinitionRevision>| {
            if let (None, Some(new), Some(context)) = (&change.old, &change.new, context.upgrade())
            {
                wake::version_added(&context, new);
            }
            // A revision that somebody deleted is created again.
            if let (Some(old), None) = (change.old, change.new)
                && let Some(definition) = old.index()
            {
                let queue = match old.spec.definition_type.as_str() {
                    names::definition_type::COMPONENT => &queues.components,
                    names::definition_type::TRAIT => &queues.traits,
                    names::definition_type::POLICY => &queues.policies,
                    _ => &queues.steps,
                };
                queue.add(definition, Class::Edit);
            }
        }
    });
    macro_rules! referred {
        ($store:ident, $kind:ty) => {
            watch_kind!(tasks, end, client, definitions.$store, $kind, {
                let context = Arc::downgrade(context);
                move |change: Change<$kind>| {
                    if let Some(context) = context.upgrade() {
                        wake::referred_changed(&context, &change.key.namespace);
                    }
                }
            });
        };
    }
    referred!(external_policies, Policy);
    referred!(workflows, Workflow);
}

/// Starts the watches of what is recorded of Applications: many times as much as the Applications.
pub(crate) fn start_records(
    context: &Arc<Context>,
    client: &kube::Client,
    tasks: &TaskTracker,
    end: &CancellationToken,
) {
    let queue = Arc::clone(&context.queue);
    let contents = Arc::clone(&context.revision_contents);
    let labels = context.settings.label_records.then(|| Arc::clone(&context.wrong_labels));
    let keep = {
        let labels = labels.clone();
        move |revision: ApplicationRevision, _| {
            labels.iter().for_each(|it| it.check(&revision.metadata, Whose::Namespaced));
            Revision::of(revision, &contents)
        }
    };
    let which = of_share(context, Whose::Namespaced);
    watch_kind!(tasks, end, client, context.revisions, ApplicationRevision, which, keep, {
        let (queue, context) = (Arc::clone(&queue), Arc::downgrade(context));
        move |change: Change<Revision>| {
            // A revision that is gone is created again; the others are our own.
            if let (Some(old), None) = (change.old, change.new)
                && let Some(app) = old.index()
            {
                out_of_sight(&context, &app);
                queue.add(app, Class::Drift);
            }
        }
    });
    let keep = move |mut tracker: ResourceTracker, _| {
        labels.iter().for_each(|it| it.check(&tracker.metadata, Whose::ClusterScoped));
        // What cannot be expanded says so when it is read.
        let _ = tracker.expand();
        Packed::of(&tracker)
    };
    let which = of_share(context, Whose::ClusterScoped);
    watch_kind!(tasks, end, client, context.trackers, ResourceTracker, which, keep, {
        let (queue, apps) = (Arc::clone(&queue), Arc::clone(&context.apps));
        let context = Arc::downgrade(context);
        move |change: Change<Packed<ResourceTracker>>| {
            let (is_first, is_gone) = (change.old.is_none(), change.new.is_none());
            let app = change.new.or(change.old).and_then(|tracker| tracker.index());
            app.into_iter().for_each(|app| {
                if is_gone {
                    out_of_sight(&context, &app);
                }
                let class = match urgency_of_parts(&apps, &app) {
                    // Listed after a start: the object that a settled Application has recorded did not drift.
                    Class::Drift if is_first => Class::Scan,
                    class => class,
                };
                queue.add(app, class);
            });
        }
    });
}

/// A record of an Application is not sent any more. Where labels select what is sent it may have another label.
fn out_of_sight(context: &Weak<Context>, app: &Key) {
    let context = context.upgrade().filter(|context| context.settings.label_records);
    context.into_iter().for_each(|context| context.read_again(app.clone()));
}

/// How urgent a change of an Application is.
fn urgency(change: &Change<Cached>) -> Class {
    if is_edit(change) {
        Class::Edit
    } else if change.old.is_none() {
        Class::Scan
    } else {
        Class::Progress
    }
}

/// How urgent a change of something that belongs to an Application is: its rollout or its deletion waits for it, or it drifted.
pub(crate) fn urgency_of_parts(apps: &Store<Cached>, key: &Key) -> Class {
    let is_settled = |app: &Cached| app.is_finished() && !app.outline.is_deleting;
    if apps.get(key).is_some_and(|app| is_settled(&app)) { Class::Drift } else { Class::Progress }
}

/// Whether an Application is in a cluster that cannot be reached now. A deletion comes as it comes.
fn waits(context: &Context, app: &Cached) -> bool {
    let outline = &app.outline;
    !outline.is_deleting && outline.clusters.iter().any(|it| context.clusters.is_away(it))
}

/// The generation that somebody made now of an Application that is known. A first list shows none.
fn edited(change: &Change<Cached>) -> Option<i64> {
    let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
    new.generation.filter(|_| new.generation != old.generation)
}

/// Whether a change is what somebody wants of an Application, and not what became of it.
fn is_edit(change: &Change<Cached>) -> bool {
    let Some(new) = &change.new else { return false };
    let is_marked = change.old.as_ref().is_some_and(|old| old.marks != new.marks);
    is_marked || new.outline.is_deleting || !new.is_observed()
}

/// Whether a definition means something else than before: a status, as the controller writes one after each edit, means nothing.
fn is_redefined<T: Resource>(change: &Change<T>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let (old, new) = (old.meta(), new.meta());
    // A recreated one may have the same generation.
    old.uid != new.uid || old.generation != new.generation || is_marked(old, new)
}

/// Whether labels or annotations are others than before: they do not count as another generation.
fn is_marked(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.labels != new.labels || old.annotations != new.annotations
}

/// Starts the watch of WorkflowRuns.
pub(crate) fn start_runs(
    context: &Context,
    client: &kube::Client,
    tasks: &TaskTracker,
    end: &CancellationToken,
) {
    let queue = Arc::clone(&context.runs.queue);
    watch_kind!(tasks, end, client, context.runs.store, WorkflowRun, {
        // Every change that is not our own is somebody's wish: clients suspend and resume by the status.
        move |change: Change<WorkflowRun>| {
            // After a start most of them have ended.
            let has_ended = change.new.as_ref().is_some_and(|run| run.status.finished);
            if change.old.is_some() || !has_ended {
                queue.add(change.key, Class::Edit);
            }
        }
    });
}

/// Waits until all Applications are known, and what they are made with.
pub(crate) async fn known(context: &Context) {
    let definitions = &context.definitions;
    tokio::join!(
        context.apps.synced(),
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

/// Waits until every cache is filled.
pub(crate) async fn synced(context: &Context) {
    tokio::join!(known(context), context.revisions.synced(), context.trackers.synced());
}

/// Whether what is recorded of Applications is known.
pub(crate) fn has_records(context: &Context) -> bool {
    context.revisions.is_synced() && context.trackers.is_synced()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vela_cluster::Key;

    use super::*;
    use crate::cached::Outlines;

    #[test]
    fn edits_are_told_from_what_became_of_them() {
        let app = |metadata: &Value, observed: i64| {
            let value = json!({"metadata": metadata, "spec": {"components": []},
                "status": {"observedGeneration": observed}});
            let app = serde_json::from_value(value).unwrap();
            Arc::new(Outlines::default().cached(&app, false))
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

    #[test]
    fn a_status_redefines_nothing() {
        let definition = |generation: i64, uid: &str, label: &str, latest: &str| {
            let value = json!({"metadata": {"generation": generation, "uid": uid, "labels": {"l": label}},
                "spec": {}, "status": {"configMapRef": latest}});
            Some(Arc::new(serde_json::from_value::<TraitDefinition>(value).unwrap()))
        };
        let before = || definition(1, "u", "a", "x");
        for (old, new, is) in [
            (None, before(), true),
            (before(), None, true),
            (before(), before(), false),
            (before(), definition(1, "u", "a", "y"), false),
            (before(), definition(2, "u", "a", "x"), true),
            (before(), definition(1, "v", "a", "x"), true),
            (before(), definition(1, "u", "b", "x"), true),
        ] {
            let change = Change { key: Key::new("n", "t"), old, new };
            assert_eq!(is_redefined(&change), is, "{change:?}");
        }
    }
}
