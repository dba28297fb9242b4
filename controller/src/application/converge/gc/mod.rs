//! Garbage collection: the decision is [`vela_apply::gc`], here its plan is carried out.
//!
//! Answers for `pkg/resourcekeeper/{gc,gc_rev}.go`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use tracing::debug;
use vela_api::{Application, names};
use vela_apply::gc::{self, Action, Plan, Scope};
use vela_apply::object::is_local;
use vela_apply::plan::PatchKind;
use vela_apply::policy::Propagation;
use vela_apply::tracker::{self, Record};
use vela_apply::{Owner, ResourceKey};
use vela_cluster::{ApiError, Identity, ObjectClient, Removal, Target};

use crate::application::converge::{prune, removed_clusters};
use crate::application::lifecycle::conflict;
use crate::application::lifecycle::legacy;
use crate::application::release;
use crate::application::session::Session;

/// What a collection left.
#[derive(Debug, Default)]
pub struct Collected {
    /// Objects that still exist and must go.
    pub waiting: Vec<Record>,
    /// Objects that must go, in clusters that cannot be reached now.
    pub unavailable: Vec<Record>,
    /// Objects that stay until somebody approves of their deletion.
    pub held: Vec<Record>,
    /// Some of them are in a cluster that is not registered, which is believed after a while.
    pub recheck: bool,
    /// Releases whose hooks have not ended, as text.
    pub releases: Vec<String>,
    /// What failed, as text.
    pub error: Option<String>,
}

impl Collected {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
            && self.unavailable.is_empty()
            && self.held.is_empty()
            && self.releases.is_empty()
            && self.error.is_none()
    }
}

/// Collects what `scope` allows. `protected` are components whose objects are never deleted.
pub async fn collect(
    session: &mut Session<'_>,
    app: &Application,
    scope: Scope,
    protected_names: &[String],
) -> Collected {
    let _time = session.ctx.metrics.stage("gc-rt");
    // Releases have hooks before and after their objects go, which nobody runs before the deletion is approved.
    let is_whole = scope == Scope::All;
    let ends = match scope {
        Scope::All => !is_orphaning(app),
        Scope::History => true,
        Scope::Marked => false,
    };
    let mut ending = release::uninstall::Ending::default();
    if ends && release::uninstall::ends_any(session, is_whole) {
        let nothing = HashSet::new();
        match decide(session, app, scope, (protected_names, &nothing)).await {
            Ok(Some(plan)) if !plan.held.is_empty() => {
                ending.held = release::uninstall::all_keys(session, is_whole);
                let protects = (protected_names, &ending.held);
                let mut collected = collect_except(session, app, scope, protects).await;
                collected.held = plan.held;
                return collected;
            }
            Ok(_) => ending = release::uninstall::before(session, is_whole).await,
            Err(error) => {
                return Collected { error: Some(error.to_string()), ..Collected::default() };
            }
        }
    }
    let mut collected = collect_except(session, app, scope, (protected_names, &ending.held)).await;
    if release::uninstall::after(session, &mut ending, &collected.waiting).await {
        let protects = (protected_names, &ending.held);
        collected = collect_except(session, app, scope, protects).await;
    }
    collected.releases = ending.waits;
    collected
}

/// The same, except for components and objects that stay for the time being.
async fn collect_except(
    session: &mut Session<'_>,
    app: &Application,
    scope: Scope,
    protects: (&[String], &HashSet<ResourceKey>),
) -> Collected {
    let mut collected = Collected::default();
    match try_collect(session, app, scope, protects, &mut collected).await {
        Ok(waiting) => {
            collected.waiting = waiting;
            removed_clusters::remember(session);
        }
        Err(error) => collected.error = Some(error.to_string()),
    }
    collected.unavailable.retain(|record| !protects.1.contains(&tracker::key_of(record)));
    collected.recheck = removed_clusters::is_due_soon(session);
    collected
}

async fn try_collect(
    session: &mut Session<'_>,
    app: &Application,
    scope: Scope,
    protects: (&[String], &HashSet<ResourceKey>),
    collected: &mut Collected,
) -> Result<Vec<Record>, ApiError> {
    removed_clusters::take_back(session).await?;
    removed_clusters::notice(session).await?;
    removed_clusters::forget(session, app).await?;
    let mut left = MAX_REPLANS;
    loop {
        let Some(plan) = decide(session, app, scope, protects).await? else {
            return Ok(Vec::new());
        };
        let waiting = plan.waiting.clone();
        collected.unavailable.clone_from(&plan.unknown);
        collected.held.clone_from(&plan.held);
        let decided_for = (scope != Scope::All).then_some(app.metadata.generation);
        // What the API server confirmed to be gone may be all that the rest waited for.
        if scope == Scope::History {
            legacy::release_legacy(session, &plan.finished).await?;
        }
        match carry_out(session, plan, decided_for, is_orphaning(app)).await? {
            Carried::Out => return Ok(waiting),
            Carried::SomeDeleted => {}
            // What was changed in the meantime is checked again, but not for ever.
            Carried::Changed(record) => {
                left -= 1;
                if left == 0 {
                    return Ok(if waiting.is_empty() { vec![*record] } else { waiting });
                }
            }
        }
    }
}

/// What to collect in the present state; `None` if nothing is tracked.
async fn decide(
    session: &Session<'_>,
    app: &Application,
    scope: Scope,
    (protected_names, held): (&[String], &HashSet<ResourceKey>),
) -> Result<Option<Plan>, ApiError> {
    let _time = session.ctx.metrics.stage("gc-rt.init");
    let current = session.trackers.current(session.run());
    let mut views = session.trackers.views();
    let legacy = legacy::is_collected(session, app);
    let is_old = |tracker: &vela_apply::Tracker| {
        (tracker.name != current && tracker.role == vela_apply::Role::Versioned)
            || (legacy && tracker.role == vela_apply::Role::Legacy)
    };
    if scope != Scope::All && !views.iter().any(is_old) {
        return Ok(None);
    }
    let doubtful = doubtful(session, &views, &current);
    // Facts first: the live objects of everything recorded.
    let mut live: HashMap<ResourceKey, Value> = HashMap::new();
    let mut unknown: HashSet<ResourceKey> = HashSet::new();
    for record in views.iter_mut().flat_map(|tracker| &mut tracker.records) {
        if !is_local(&record.cluster) {
            // One place has one name here, whatever names its cluster has or had.
            record.cluster = session.canonical(&record.cluster).into_owned();
        }
        if held.contains(&tracker::key_of(record)) || doubtful.contains(&tracker::key_of(record)) {
            // It stays, and so does what remembers it.
            unknown.insert(tracker::key_of(record));
            continue;
        }
        if !is_local(&record.cluster) {
            match member_object(session, record).await {
                Ok(Some(found)) => drop(live.entry(tracker::key_of(record)).or_insert(found)),
                Ok(None) => {}
                Err(error) => {
                    debug!(%error, cluster = record.cluster, "what became of an object is not known");
                    unknown.insert(tracker::key_of(record));
                }
            }
            continue;
        }
        if !is_served(&session.ctx.io, record).await {
            continue;
        }
        if held.contains(&tracker::key_of(record)) {
            unknown.insert(tracker::key_of(record));
            continue;
        }
        if let Entry::Vacant(free) = live.entry(tracker::key_of(record))
            && let Some(found) =
                session.ctx.live.get_served(&record.api_version, free.key()).await?
        {
            free.insert(found.value());
        }
    }
    let depends_on = |component: &str| dependencies(app, component);
    let prune = prune::rules(session.ctx, app).await?;
    Ok(Some(gc::plan(&gc::Input {
        owner: &session.owner,
        trackers: &views,
        current: &current,
        scope,
        legacy,
        policies: &session.policies,
        orphan: is_orphaning(app),
        live: &|key| live.get(key).cloned(),
        unknown: &|record| unknown.contains(&tracker::key_of(record)),
        protected: &|record| protected_names.contains(&record.component),
        depends_on: &depends_on,
        prune: prune.as_ref(),
    })))
}

/// Records of objects that are recorded under another name, too, of which is said, but not proven, that it means the same cluster:
/// to delete one may be to delete the other.
fn doubtful(
    session: &Session<'_>,
    views: &[vela_apply::Tracker],
    current: &str,
) -> HashSet<ResourceKey> {
    let mut out = HashSet::new();
    if session.clusters.aliases().iter().all(|(_, is_proven)| *is_proven) {
        return out;
    }
    let key = |record: &Record| {
        let cluster = session.canonical(&record.cluster);
        let Record { api_version, kind, namespace, name, .. } = record;
        ResourceKey::new(api_version, kind, &cluster, namespace, name)
    };
    let is_wanted =
        |it: &&vela_apply::Tracker| it.name == current || it.role == vela_apply::Role::Root;
    let wanted: HashSet<ResourceKey> =
        views.iter().filter(is_wanted).flat_map(|it| &it.records).map(key).collect();
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    for record in views.iter().flat_map(|tracker| &tracker.records) {
        let key = key(record);
        let others = known
            .entry(key.cluster.clone())
            .or_insert_with(|| session.clusters.doubtful(&key.cluster));
        let twin = |cluster: &String| ResourceKey { cluster: cluster.clone(), ..key.clone() };
        if !wanted.contains(&key) && others.iter().any(|other| wanted.contains(&twin(other))) {
            out.insert(key);
        }
    }
    out
}

/// The object of a record in another cluster; that there is none is believed of the API server's own word only.
///
/// # Errors
/// Nobody can say now whether there is one.
async fn member_object(
    session: &Session<'_>,
    record: &mut Record,
) -> Result<Option<Value>, ApiError> {
    // An object that is not read now says nothing about the attempt.
    let at = session.reach(&record.cluster)?;
    if !is_served(at.io, record).await {
        return Ok(None);
    }
    let key = tracker::key_of(record);
    match at.live.get_served(&record.api_version, &key).await {
        Ok(Some(found)) => return Ok(Some(found.value())),
        Ok(None) => {}
        Err(ApiError::NoSuchKind { .. }) => return Ok(None),
        // It may not be watched: it is read.
        Err(_) => {}
    }
    match at.io.get(&target(record), &Identity::default()).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the kind of a record is served. What the record says is brought to what is: old releases recorded a namespace for
/// kinds that have none (one object under two names), and an object is still there when the version it was made in is not.
async fn is_served(io: &ObjectClient, record: &mut Record) -> bool {
    match io.discovery().resolve_any(&record.api_version, &record.kind).await {
        Ok(served) => {
            if !served.namespaced {
                record.namespace.clear();
            }
            record.api_version = served.api_version;
            true
        }
        Err(ApiError::NoSuchKind { .. }) => false,
        // Who cannot say how it is served now says nothing about the object.
        Err(_) => true,
    }
}

/// Whether what the Application made stays when it goes.
fn is_orphaning(app: &Application) -> bool {
    let asks = |finalizer: &String| {
        // Deleting with `--cascade=orphan` asks for the same thing.
        finalizer == names::finalizer::ORPHAN_RESOURCE || finalizer == "orphan"
    };
    app.metadata.finalizers.iter().flatten().any(asks)
}

/// The components that must outlive `component`: those it depends on, or takes a value from.
fn dependencies(app: &Application, component: &str) -> Vec<String> {
    let Some(found) = app.spec.components.iter().find(|c| c.name == component) else {
        return Vec::new();
    };
    let sources = found.inputs.iter().filter_map(|input| {
        let from =
            |c: &&vela_api::ApplicationComponent| c.outputs.iter().any(|o| o.name == input.from);
        app.spec.components.iter().find(from).map(|c| c.name.clone())
    });
    found.depends_on.iter().cloned().chain(sources).collect()
}

/// How often it is decided again because an object changed after it was decided.
const MAX_REPLANS: usize = 4;

/// How far a plan came.
enum Carried {
    /// To its end, or to a newer spec.
    Out,
    /// An object is known to be gone that the plan waits for.
    SomeDeleted,
    /// An object is another one than the one it was decided for.
    Changed(Box<Record>),
}

/// Carries a plan out. With a generation: stops as soon as the spec is a newer one, which may want what the plan deletes.
async fn carry_out(
    session: &mut Session<'_>,
    plan: Plan,
    decided_for: Option<Option<i64>>,
    orphaning: bool,
) -> Result<Carried, ApiError> {
    let (io, store) = (&*session.ctx.io, &*session.ctx.trackers);
    let revision = session.revision.clone();
    session.trackers.record_in_root(io, store, &revision, plan.to_root).await?;
    // The mark comes first: from then on the collection continues whatever becomes of the spec.
    if !plan.marked.is_empty() {
        let _time = session.ctx.metrics.stage("gc-rt.mark");
        for name in &plan.marked {
            session.trackers.mark(io, store, name).await?;
        }
    }
    // The cached Application may be stale: a newer spec could need an object that is about to be deleted. Read it again from the API
    // server first. A race of one round trip remains; the reconcile of the newer spec then recreates the object.
    let deletes = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. }));
    if deletes && decided_for.is_some() {
        let key = session.key();
        if !conflict::reread(session.ctx, key).await? {
            return Ok(Carried::Out);
        }
    }
    let acted = act_all(session, &plan.actions, decided_for).await?;
    if acted.contains(&Acted::Outdated) {
        return Ok(Carried::Out);
    }
    if let Some((_, action)) =
        acted.iter().zip(&plan.actions).find(|(acted, _)| **acted == Acted::Changed)
    {
        return Ok(Carried::Changed(Box::new(action.record().clone())));
    }
    if !plan.finished.is_empty() {
        let _time = session.ctx.metrics.stage("gc-rt.sweep");
        for name in &plan.finished {
            if orphaning {
                // Objects of old releases have their tracker for an owner, and would follow it.
                session.trackers.abandon(io, store, name).await?;
            }
            session.trackers.remove(io, store, name).await?;
        }
    }
    Ok(if acted.contains(&Acted::Gone) { Carried::SomeDeleted } else { Carried::Out })
}

fn is_newest(session: &Session<'_>, generation: Option<i64>) -> bool {
    let key = session.key();
    session.ctx.apps.get(&key).is_some_and(|app| app.metadata.generation == generation)
}

/// What came of an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Acted {
    /// The object is gone.
    Gone,
    /// It is there, as intended or for the time being.
    There,
    /// Nothing was done: the spec is a newer one.
    Outdated,
    /// Nothing was done: the object is not what it was when that was decided. The cache knows it as it is.
    Changed,
}

/// Carries the actions out, some at once.
async fn act_all(
    session: &Session<'_>,
    actions: &[Action],
    decided_for: Option<Option<i64>>,
) -> Result<Vec<Acted>, ApiError> {
    if actions.is_empty() {
        return Ok(Vec::new());
    }
    let _time = session.ctx.metrics.stage("gc-rt.finalize");
    let width = session.ctx.settings.dispatch_concurrency.max(1);
    let mut work = Vec::with_capacity(actions.len());
    for action in actions {
        work.push(act(session, action, decided_for).boxed());
    }
    let acted: Vec<_> = stream::iter(work).buffered(width).collect().await;
    acted.into_iter().collect()
}

async fn act(
    session: &Session<'_>,
    action: &Action,
    decided_for: Option<Option<i64>>,
) -> Result<Acted, ApiError> {
    if decided_for.is_some_and(|generation| !is_newest(session, generation)) {
        return Ok(Acted::Outdated);
    }
    let cluster = action.record().cluster.clone();
    match act_in(session, action).await {
        // What could not be done in another cluster is done when that answers; it holds up nothing else.
        Err(error) if !is_local(&cluster) => {
            debug!(%error, cluster, "an object could not be collected");
            Ok(Acted::There)
        }
        acted => acted,
    }
}

async fn act_in(session: &Session<'_>, action: &Action) -> Result<Acted, ApiError> {
    match action {
        Action::Delete { record, uid, version, propagation } => {
            let propagation = propagation.map(|propagation| match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Cascading => "Background",
            });
            let at = session.reach_to(&record.cluster, "delete").await?;
            let live = at.live;
            let seen = (uid.as_str(), version.as_str());
            match at.requests().delete_as_seen(&target(record), seen, propagation).await? {
                // Known to be going at once: nobody asks a second time while the watch is behind.
                Removal::Held(object) => {
                    live.wrote(&record.api_version, &record.kind, object);
                    Ok(Acted::There)
                }
                Removal::Replaced if version.is_empty() => Ok(Acted::There),
                Removal::Replaced => refresh_cache(session, record).await,
                Removal::Done => {
                    live.ended(&record.api_version, &tracker::key_of(record), uid);
                    Ok(Acted::Gone)
                }
            }
        }
        Action::Release { record, version, shared } => {
            let labels = json!({
                names::label::APP_NAME: null, names::label::APP_NAMESPACE: null});
            let metadata = if *shared {
                json!({"labels": labels, "annotations": {names::annotation::SHARED_BY: null}})
            } else {
                json!({ "labels": labels })
            };
            patch(session, record, metadata, version).await
        }
        Action::HandOver { record, shared_by, version, next } => {
            let labels = match next {
                Some(Owner { namespace, name }) => json!({
                    names::label::APP_NAME: name, names::label::APP_NAMESPACE: namespace}),
                None => json!({}),
            };
            let list = Some(shared_by).filter(|list| !list.is_empty());
            let metadata = json!({
                "annotations": {names::annotation::SHARED_BY: list}, "labels": labels});
            patch(session, record, metadata, version).await
        }
    }
}

/// Changes the metadata of the object as it was seen: its owner and those who share it are not known otherwise.
async fn patch(
    session: &Session<'_>,
    record: &Record,
    mut metadata: Value,
    version: &str,
) -> Result<Acted, ApiError> {
    if let Some(metadata) = metadata.as_object_mut().filter(|_| !version.is_empty()) {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    let body = json!({ "metadata": metadata });
    let patch = (PatchKind::Merge, &body);
    let at = session.reach_to(&record.cluster, "patch").await?;
    match at.requests().patch(&target(record), patch, false).await {
        Ok(answer) => {
            at.live.wrote(&record.api_version, &record.kind, answer.object()?);
            Ok(Acted::There)
        }
        Err(error) if error.is_not_found() => Ok(Acted::There),
        Err(error) if error.is_conflict() => refresh_cache(session, record).await,
        Err(error) => Err(error),
    }
}

/// Reads an object that changed again into the cache.
async fn refresh_cache(session: &Session<'_>, record: &Record) -> Result<Acted, ApiError> {
    let at = session.reach_to(&record.cluster, "get").await?;
    match at.requests().get(&target(record)).await {
        Ok(found) => at.live.wrote(&record.api_version, &record.kind, found),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(Acted::Changed)
}

fn target(record: &Record) -> Target<'_> {
    Target {
        api_version: &record.api_version,
        kind: &record.kind,
        namespace: &record.namespace,
        name: &record.name,
    }
}
