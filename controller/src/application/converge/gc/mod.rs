//! Garbage collection: the decision is [`vela_apply::gc`], for which `facts` are read here; its plan is carried out by `actions`.
//!
//! Answers for `pkg/resourcekeeper/{gc,gc_rev}.go`.

mod actions;
mod facts;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tracing::debug;
use vela_api::{Application, names};
use vela_apply::ResourceKey;
use vela_apply::gc::{self, Plan, Scope};
use vela_apply::object::is_local;
use vela_apply::tracker::{self, Record};
use vela_cluster::ApiError;

use crate::application::converge::{prune, removed_clusters, stripped};
use crate::application::lifecycle::legacy;
use crate::application::release;
use crate::application::session::Session;

use actions::{Carried, carry_out};
use facts::{doubtful, is_served, member_object};

/// How often it is decided again because an object changed after it was decided.
const MAX_REPLANS: usize = 4;

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
    collected.recheck = removed_clusters::is_due_soon(session, app);
    collected
}

async fn try_collect(
    session: &mut Session<'_>,
    app: &Application,
    scope: Scope,
    protects: (&[String], &HashSet<ResourceKey>),
    collected: &mut Collected,
) -> Result<Vec<Record>, ApiError> {
    if scope != Scope::All {
        stripped::record_again(session, app).await?;
    }
    removed_clusters::take_back(session).await?;
    removed_clusters::notice(session).await?;
    removed_clusters::notice_unrecorded(session, app).await?;
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
                    debug!(%error, cluster = record.cluster, "the state of an object after its deletion is unknown");
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
    let dependencies = dependencies(app);
    let depends_on = |component: &str| dependencies.get(component).cloned().unwrap_or_default();
    let protected: HashSet<&str> = protected_names.iter().map(String::as_str).collect();
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
        protected: &|record| protected.contains(record.component.as_str()),
        depends_on: &depends_on,
        prune: prune.as_ref(),
    })))
}

/// Whether what the Application made stays when it goes.
fn is_orphaning(app: &Application) -> bool {
    let asks = |finalizer: &String| {
        // Deleting with `--cascade=orphan` asks for the same thing.
        finalizer == names::finalizer::ORPHAN_RESOURCE || finalizer == "orphan"
    };
    app.metadata.finalizers.iter().flatten().any(asks)
}

/// The components that must outlive each component: those it depends on, or takes a value from.
fn dependencies(app: &Application) -> HashMap<&str, Vec<String>> {
    let components = &app.spec.components;
    let mut makers: HashMap<&str, &str> = HashMap::new();
    for component in components {
        for output in &component.outputs {
            makers.entry(&output.name).or_insert(&component.name);
        }
    }
    let mut all = HashMap::new();
    for component in components {
        let sources = component.inputs.iter().filter_map(|input| makers.get(input.from.as_str()));
        let sources = sources.map(|name| (*name).to_owned());
        let needed = || component.depends_on.iter().cloned().chain(sources).collect();
        all.entry(component.name.as_str()).or_insert_with(needed);
    }
    all
}
