//! The authors of an Application: its own, and those of the objects of its namespace that it uses.
//!
//! What is in the system namespace is the administrators'. Elsewhere the stamp of an object says who wrote it; the default user
//! answers for one without a valid stamp. The author himself adds nothing, and neither does who is an administrator now. Without
//! authentication nobody's stamp decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use vela_api::{Application, ApplicationRevision, Policy, Workflow};
use vela_cluster::{ApiError, Identity};
use vela_seal::{Content, Keys, Stamp};

use crate::application::context::AppContext;
use crate::events::Severity;
use crate::messages;
use crate::queue::Key;

use super::actors::{Actors, CoAuthor};
use super::facts;
use super::revision;
use super::session::Session;
use crate::application::facts::parse::Used;
use crate::application::facts::resolve::Deployed;
use crate::application::policies::Transformed;

/// The event that reports an object whose present state is not used.
const CHANGED_BY_OTHERS: &str = "ChangedByOthers";

/// What a run uses besides the Application.
pub(super) struct Work<'a> {
    pub(super) used: &'a Used,
    pub(super) policies: &'a BTreeMap<String, Policy>,
    pub(super) workflow: Option<&'a Workflow>,
    pub(super) transformed: Option<&'a Transformed>,
    /// A revision that a user wrote, and its author.
    pub(super) revision: Option<(&'a str, &'a Option<Stamp>)>,
}

/// An object other than the Application.
struct Written {
    /// Kind, namespace and name.
    object: String,
    /// Who wrote it, if that is known.
    stamp: Option<Stamp>,
}

/// Somebody who decides what is deployed.
struct Author {
    identity: Identity,
    is_administrator: bool,
}

/// Who a stamp names, as of now; the default user without one.
async fn author(session: &Session<'_>, stamp: Option<&Stamp>) -> Result<Author, ApiError> {
    let ctx = session.ctx;
    // The stamp says who was an administrator then; whether he is one still is asked now.
    let is_administrator = match stamp.and_then(|stamp| stamp.administrator.as_ref()) {
        Some(evidence) => ctx.administrators.is_one(evidence).await?,
        None => false,
    };
    let namespace = &session.owner.namespace;
    let identity = ctx.settings.acting.identity(|_| "", namespace, stamp, is_administrator);
    Ok(Author { identity, is_administrator })
}

/// Everybody who decides what a run deploys. `own`: as whom the Application acts by itself; `pinned`: the author of the revision
/// that says what is deployed, where that is not the Application.
///
/// # Errors
/// The API server does not say who is an administrator.
pub(super) async fn of(
    session: &Session<'_>,
    own: &Identity,
    pinned: Option<&Stamp>,
    work: &Work<'_>,
) -> Result<Actors, ApiError> {
    let mut actors = Actors::from(own.clone());
    // Without authentication everything is done as the controller, and stamps decide nothing.
    if !session.ctx.settings.acting.authenticate {
        return Ok(actors);
    }
    let mut all = foreign(session.ctx, &session.owner.namespace, work);
    // A pinned revision says what is deployed: its author acts, and the author of the Application
    // is one of those who must be allowed to.
    if let Some(stamp) = pinned {
        actors = author(session, Some(stamp)).await?.identity.into();
        let object = format!("Application {}/{}", session.owner.namespace, session.owner.name);
        all.insert(0, Written { object, stamp: session.stamp.clone() });
    }
    if let Some((name, stamp)) = work.revision {
        let object = format!("ApplicationRevision {}/{name}", session.owner.namespace);
        all.push(Written { object, stamp: stamp.clone() });
    }
    for Written { object, stamp } in all {
        let wrote = author(session, stamp.as_ref()).await?;
        if !wrote.is_administrator {
            actors.add(CoAuthor { identity: wrote.identity, object, known: stamp.is_some() });
        }
    }
    Ok(actors)
}

/// Everybody who decides what the steps of a WorkflowRun do: its author, and who wrote the definitions and the Workflow that it uses.
///
/// # Errors
/// The API server does not say who is an administrator.
pub(crate) async fn of_run(
    session: &Session<'_>,
    used: &Used,
    workflow: Option<&Workflow>,
) -> Result<Actors, ApiError> {
    let policies = BTreeMap::new();
    let work = Work { used, policies: &policies, workflow, transformed: None, revision: None };
    of(session, &session.actors.author, None, &work).await
}

/// What is used and is not the administrators'.
fn foreign(ctx: &AppContext, namespace: &str, work: &Work<'_>) -> Vec<Written> {
    let mut out = Vec::new();
    // Whoever may write in the system namespace may do everything anyway.
    if namespace == ctx.settings.system_namespace {
        return out;
    }
    let keys = ctx.keys.get();
    let keys = keys.as_deref();
    macro_rules! definitions {
        ($($map:expr),*) => {$(
            for definition in $map.values() {
                if is_foreign(ctx, definition.as_ref()) {
                    let stamp = ctx.definitions.author(definition, keys);
                    out.push(Written { object: named(definition.as_ref()), stamp });
                }
            }
        )*};
    }
    let used = work.used;
    definitions!(used.components, used.workloads, used.traits, used.policies, used.steps);
    if let Some(transformed) = work.transformed {
        definitions!(transformed.definitions());
    }
    out.extend(work.workflow.map(|workflow| written(workflow, keys)));
    out.extend(work.policies.values().map(|policy| written(policy, keys)));
    out
}

fn is_foreign<T: Content>(ctx: &AppContext, object: &T) -> bool {
    object.metadata().namespace.as_deref() != Some(ctx.settings.system_namespace.as_str())
}

fn named<T: Content>(object: &T) -> String {
    let metadata = object.metadata();
    let [namespace, name] =
        [&metadata.namespace, &metadata.name].map(|text| text.as_deref().unwrap_or_default());
    format!("{} {namespace}/{name}", T::KIND)
}

fn written<T: Content>(object: &T, keys: Option<&Keys>) -> Written {
    Written { object: named(object), stamp: keys.and_then(|keys| object.author(keys)) }
}

/// What others than the author of the Application changed since it was deployed: an edit of theirs is none of the Application,
/// which continues with what it was deployed with until its author says something, or follows (`autoUpdate`). So nobody takes
/// an approval away from a run that waits for it.
///
/// # Errors
/// The API server does not say who is an administrator.
pub(super) async fn kept(
    session: &Session<'_>,
    app: &Application,
    latest: Option<&ApplicationRevision>,
) -> Result<Deployed, ApiError> {
    let mut kept = Deployed::default();
    let ctx = session.ctx;
    // Only what the present spec was deployed with can be kept.
    let is_deployed = |latest: &&ApplicationRevision| {
        facts::publish_version(&latest.metadata) == session.publish_version
            && latest.spec.application.spec == revision::with_policy_names(&app.spec)
    };
    let Some(latest) = latest.filter(is_deployed) else { return Ok(kept) };
    // Who follows definitions wants the edits of others.
    if !ctx.settings.acting.authenticate || facts::follows_definitions(app) {
        return Ok(kept);
    }
    let key = |name: &str| Key::new(&*session.owner.namespace, name);
    if let Some(then) = &latest.spec.workflow {
        let name = then.metadata.name.as_deref().unwrap_or_default();
        let now = ctx.definitions.workflows.get(&key(name));
        if others_changed(session, then, now.as_ref()).await? {
            kept.workflow = Some(then.clone());
        }
    }
    for (path, then) in &latest.spec.policies {
        let name = path.rsplit('/').next().unwrap_or(path);
        let now = ctx.definitions.external_policies.get(&key(name));
        if others_changed(session, then, now.as_ref()).await? {
            kept.policies.insert(name.to_owned(), then.clone());
        }
    }
    Ok(kept)
}

/// Whether an object is another one than it was, by somebody who is neither the author nor an administrator.
async fn others_changed<T: Content>(
    session: &Session<'_>,
    then: &T,
    now: Option<&Arc<T>>,
) -> Result<bool, ApiError> {
    // The same content, or gone: an object that is missing is reported where it is needed.
    let Some(now) = now.filter(|now| now.content().ok() != then.content().ok()) else {
        return Ok(false);
    };
    let keys = session.ctx.keys.get();
    let Written { object, stamp } = written(now.as_ref(), keys.as_deref());
    let wrote = author(session, stamp.as_ref()).await?;
    if wrote.is_administrator || wrote.identity == session.actors.author {
        return Ok(false);
    }
    let text = messages::changed_by_others(&object, &wrote.identity.user);
    // Once for each version of the object.
    let once = now.metadata().resource_version.clone().unwrap_or_default();
    session.ctx.events.emit(&session.about, Severity::Warning, CHANGED_BY_OTHERS, &text, &once);
    Ok(true)
}
