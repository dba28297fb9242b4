//! What a template asks for, answered: by the record of the release as long as nothing that decides has changed, else by a chart that
//! is fetched and rendered, or by an earlier record. Nothing is written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vela_cluster::Target;
use vela_helm::release::{Record, RecordError};

use crate::application::component::{self, RenderInput};
use crate::application::facts::parse::ParsedComponent;
use crate::application::placement::Placement;
use crate::application::session::Session;
use crate::charts::Wanted;
use crate::charts::auth::{AuthError, AuthReason, Credentials};
use crate::messages;

use super::entry::{Cluster, Entry, State};
use super::error::ReleaseError;
use super::records::{self, Asked, Choice, Conflict, Known};
use super::released::{Change, Released};
use super::{flux, objects, render, steps, values};
use vela_helm::request::{self, Params};

/// Whether the template of a component may ask for a chart. Most do not, and are not evaluated to find out.
#[must_use]
pub fn may_be_asked_for(part: &ParsedComponent) -> bool {
    part.definition.template.text().contains("\"vela/helm\"")
}

/// What the template of a component asks for, answered; `None`: it asks for no chart.
///
/// # Errors
/// Nothing can be released; what is there stays.
pub async fn resolve(
    session: &Session<'_>,
    frame: &RenderInput,
    part: &ParsedComponent,
    placement: &Placement,
) -> Result<Option<Arc<Released>>, ReleaseError> {
    if !may_be_asked_for(part) {
        return Ok(None);
    }
    let asked = component::asked_of_helm(session.ctx, frame, part, placement).await;
    let Some(asked) = asked.map_err(ReleaseError::Template)? else { return Ok(None) };
    resolve_call(session, &asked, &part.component.name, placement).await.map(Some)
}

/// The same for the parameters of a call, which somebody makes under the name of a component.
///
/// # Errors
/// As [`resolve`].
pub async fn resolve_call(
    session: &Session<'_>,
    asked: &Value,
    component: &str,
    placement: &Placement,
) -> Result<Arc<Released>, ReleaseError> {
    let mut params = Params::read(asked)?;
    if !placement.namespace.is_empty() {
        // The namespace of a placement is that of all objects.
        params.namespace.clone_from(&placement.namespace);
    }
    let cluster = placement.cluster.as_str();
    let values = values::read(session, &params).await?;
    let inputs = params.inputs(&values, &session.revision);
    let at = Cluster { session, name: cluster };
    let known = at.records(&params.namespace, &params.name).await?;
    let own = (cluster, params.namespace.as_str(), params.name.as_str());
    let asked = Asked {
        owner: &session.owner,
        component,
        is_in_use: known.last().is_some_and(|it| is_in_use(session, own, it.component())),
        inputs: &inputs,
        now: session.ctx.clock.now(),
        timeout: params.timeout,
        atomic: params.atomic,
        is_final: params.cleanup_on_fail,
        began: session.run_began,
    };
    // Known from the tracker, should somebody have removed the record.
    let recorded = steps::recorded(session, own, component);
    let choice = records::choose(&known, &asked).inspect_err(|conflict| {
        if matches!(conflict, Conflict::Busy(_)) {
            session.release_busy.store(true, Ordering::Relaxed);
        }
    });
    let choice = choice?.not_before(recorded);
    // A new revision would write over what Flux manages.
    if !matches!(choice, Choice::Use(_) | Choice::GivenUp(_)) {
        flux::check(at, &params, &known).await?;
    }
    let entry = |record: Record, is_stored: bool, since: Timestamp| Entry {
        cluster: cluster.to_owned(),
        component: component.to_owned(),
        release: params.name.clone(),
        namespace: params.namespace.clone(),
        timeout: params.timeout,
        state: Mutex::new(State { record, is_stored, since }),
    };
    let now = session.ctx.clock.now();
    // Handed on, so that what was generated stays the same.
    let materials = known.iter().rev().find_map(Known::materials).unwrap_or_default();
    let released = match choice {
        Choice::GivenUp(why) => {
            return Err(ReleaseError::GivenUp(messages::given_up(&why)));
        }
        Choice::Use(index) => {
            let stored = known.get(index).ok_or(RecordError::Missing("name"))?;
            let record = stored.read()?;
            let answer = answer(&record, &params)?;
            let change = match stored.rolled_back_to() {
                Some(to) => Change::Rollback(to),
                None if records::was_deployed(&known, stored.revision) => Change::Upgrade,
                None => Change::Install,
            };
            Released {
                answer,
                entry: entry(record, true, stored.since()),
                inputs,
                digest: String::new(),
                materials: String::new(),
                crds: Vec::new(),
                change,
                failure: stored.failure().map(str::to_owned),
                params,
                known,
            }
        }
        Choice::Back { to, revision, failure } => {
            let earlier = known.get(to).ok_or(RecordError::Missing("name"))?;
            // A rollback gets a revision of its own, as with Helm.
            let mut record = earlier.read()?.renewed(revision, &now.to_string());
            let change = Change::Rollback(earlier.revision);
            record.set_status(change.pending().0, change.pending().1);
            let answer = answer(&record, &params)?;
            Released {
                answer,
                entry: entry(record, false, now),
                inputs,
                digest: earlier.digest().unwrap_or_default().to_owned(),
                materials,
                crds: Vec::new(),
                change,
                failure,
                params,
                known,
            }
        }
        Choice::New { revision, is_upgrade } => {
            let wanted = wanted(session, &params).await?;
            let since = Instant::now();
            let archive = session.ctx.charts.fetch(&wanted, params.freshness).await;
            session.ctx.metrics.fetched(archive.is_ok(), since.elapsed());
            let archive = archive?;
            let release = vela_helm::Release {
                name: params.name.clone(),
                namespace: params.namespace.clone(),
                is_upgrade,
                revision,
            };
            let made = render::run(at, &params, &archive, values, &release, &known).await?;
            let answer = answer(&made.record, &params)?;
            Released {
                answer,
                entry: entry(made.record, false, now),
                inputs,
                digest: archive.digest,
                materials: made.materials,
                crds: made.crds,
                change: if is_upgrade { Change::Upgrade } else { Change::Install },
                failure: None,
                params,
                known,
            }
        }
    };
    Ok(Arc::new(released))
}

/// Whether a component of the Application, or a step of the present run, has a release.
fn is_in_use(session: &Session<'_>, own: (&str, &str, &str), component: &str) -> bool {
    session.components.contains(component) || steps::recorded(session, own, component).is_some()
}

/// What the template gets to see of a record.
fn answer(record: &Record, params: &Params) -> Result<Arc<Value>, ReleaseError> {
    let chart = || record.chart_name().to_owned();
    let documents = record.documents().map_err(|error| ReleaseError::Yaml(chart(), error))?;
    let resources = objects::of(documents, &params.name, &params.namespace);
    let mut resources = resources.map_err(|error| ReleaseError::Object(chart(), error))?;
    // Restarting makes no difference for the first revision.
    if params.recreate_pods && record.revision() > 1 {
        resources.iter_mut().for_each(|object| objects::restart(object, record.revision()));
    }
    Ok(Arc::new(json!({"resources": resources, "notes": record.notes()})))
}

/// The chart with the credentials for it.
async fn wanted(session: &Session<'_>, params: &Params) -> Result<Wanted, ReleaseError> {
    let credentials = match &params.secret {
        None => None,
        Some(secret) => Some(credentials(session, params, secret).await?),
    };
    Ok(Wanted { source: params.source.clone(), version: params.version.clone(), credentials })
}

async fn credentials(
    session: &Session<'_>,
    params: &Params,
    secret: &request::SecretRef,
) -> Result<Credentials, AuthError> {
    let given = secret.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = given.unwrap_or(&params.namespace);
    let wrong = |reason| AuthError {
        secret: format!("{namespace}/{}", secret.name),
        chart_source: params.source.shown(),
        reason,
    };
    let own = session.owner.namespace.as_str();
    if !request::may_read(namespace, own, &params.namespace, session.actors.are_others()) {
        return Err(wrong(AuthReason::Namespace));
    }
    let target = Target { api_version: "v1", kind: "Secret", namespace, name: &secret.name };
    let found = session.io().get(&target).await.map_err(|error| {
        let gone = error.is_not_found();
        wrong(if gone { AuthReason::NotFound } else { AuthReason::Unreadable(error.to_string()) })
    })?;
    Credentials::read(&found, &params.source).map_err(wrong)
}
