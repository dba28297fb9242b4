//! Releases: components whose template asks for a chart (`helm.#Render`).
//!
//! [`resolve`] answers the template: the record of the release says what it is as long as nothing that decides has changed,
//! else the chart is fetched and rendered for a new revision. It writes nothing. `steps.rs` brings a revision to the cluster
//! around the ordinary dispatch: namespace, CRDs, record, hooks; the objects themselves are dispatched, tracked, kept and
//! collected like all others. Requests are made as the Application.

mod error;
mod external;
mod hooks;
pub mod objects;
pub mod params;
pub mod ready;
pub mod records;
mod render;
pub mod steps;
pub mod values;
mod world;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vela_apply::object::is_local;
use vela_cluster::Target;
use vela_helm::release::Record;

use crate::charts::Wanted;
use crate::charts::auth::{AuthError, AuthReason, Credentials};

use super::component::{self, RenderInput};
use super::placement::Placement;
use super::session::Session;
use crate::application::facts::parse::ParsedComponent;

pub use error::ReleaseError;
pub use external::{has_values, revision_of, run_of};
pub use objects::is_first;
pub use ready::waits_for;
pub use steps::{begin, fail, finish, restore, unestablished};

use params::Params;
use records::{Choice, Known, Marks};

/// What a component's release is, or is to become.
#[derive(Debug)]
pub struct Released {
    /// What `helm.#Render` returns.
    pub answer: Arc<Value>,
    params: Params,
    component: String,
    /// The records before this one, or with it at the end if it is stored.
    known: Vec<Known>,
    state: Mutex<State>,
    inputs: String,
    digest: String,
    materials: String,
    /// The objects of `crds/`.
    crds: Vec<Value>,
    is_upgrade: bool,
}

/// The record, as far as it has come.
#[derive(Debug)]
struct State {
    record: Record,
    is_stored: bool,
}

impl Released {
    fn marks<'a>(&'a self, session: &'a Session<'_>) -> Marks<'a> {
        Marks {
            owner: &session.owner,
            component: &self.component,
            inputs: &self.inputs,
            digest: &self.digest,
            materials: &self.materials,
        }
    }
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
    if !part.definition.template.text().contains("\"vela/helm\"") {
        return Ok(None);
    }
    if !is_local(&placement.cluster) {
        return Err(ReleaseError::Elsewhere(placement.cluster.clone()));
    }
    let asked = component::asked_of_helm(session.ctx, frame, part, placement).await;
    let Some(asked) = asked.map_err(ReleaseError::Template)? else { return Ok(None) };
    let params = Params::read(&asked)?;
    let values = values::read(session, &params).await?;
    let inputs = params.inputs(&values, &session.revision);
    let known = records_of(session, &params).await?;
    let now = session.ctx.clock.now();
    let component = part.component.name.clone();
    let owner = (&session.owner, component.as_str());
    let recorded = steps::recorded(session, &params, &component);
    let choice = records::choose(&known, owner, &inputs, now, params.timeout)?.not_before(recorded);
    let released = match choice {
        Choice::Use(index) => {
            let stored =
                known.get(index).ok_or(vela_helm::release::RecordError::Missing("name"))?;
            let record = stored.read()?;
            let answer = answer(&record, &params)?;
            let is_upgrade = records::was_deployed(&known, stored.revision);
            Released {
                answer,
                component,
                state: Mutex::new(State { record, is_stored: true }),
                inputs,
                digest: String::new(),
                materials: String::new(),
                crds: Vec::new(),
                is_upgrade,
                params,
                known,
            }
        }
        Choice::New { revision, is_upgrade } => {
            let wanted = wanted(session, &params).await?;
            let archive = session.ctx.charts.fetch(&wanted, params.freshness).await?;
            let release = vela_helm::Release {
                name: params.name.clone(),
                namespace: params.namespace.clone(),
                is_upgrade,
                revision,
            };
            let made = render::run(session, &params, &archive, values, &release, &known).await?;
            let answer = answer(&made.record, &params)?;
            Released {
                answer,
                component,
                state: Mutex::new(State { record: made.record, is_stored: false }),
                inputs,
                digest: archive.digest,
                materials: made.materials,
                crds: made.crds,
                is_upgrade,
                params,
                known,
            }
        }
    };
    Ok(Some(Arc::new(released)))
}

/// What the template gets to see of a record.
fn answer(record: &Record, params: &Params) -> Result<Arc<Value>, ReleaseError> {
    let chart = || record.chart_name().to_owned();
    let documents = record.documents().map_err(|error| ReleaseError::Yaml(chart(), error))?;
    let resources = objects::of(documents, &params.name, &params.namespace);
    let resources = resources.map_err(|error| ReleaseError::Object(chart(), error))?;
    Ok(Arc::new(json!({"resources": resources, "notes": record.notes()})))
}

async fn records_of(session: &Session<'_>, params: &Params) -> Result<Vec<Known>, ReleaseError> {
    let selector = format!("owner=helm,name={}", params.name);
    let list = session.io().list("v1", "Secret", &params.namespace, &selector).await;
    let what = || format!("records of release {}/{}", params.namespace, params.name);
    Ok(Known::all(&list.map_err(ReleaseError::io(what()))?))
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
    secret: &params::SecretRef,
) -> Result<Credentials, AuthError> {
    let given = secret.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = given.unwrap_or(&params.namespace);
    let wrong = |reason| AuthError {
        secret: format!("{namespace}/{}", secret.name),
        chart_source: params.source.shown(),
        reason,
    };
    let own = session.owner.namespace.as_str();
    if !values::may_read(namespace, own, &params.namespace, session.actors.are_others()) {
        return Err(wrong(AuthReason::Namespace));
    }
    let target = Target { api_version: "v1", kind: "Secret", namespace, name: &secret.name };
    let found = session.io().get(&target).await.map_err(|error| {
        let gone = error.is_not_found();
        wrong(if gone { AuthReason::NotFound } else { AuthReason::Unreadable(error.to_string()) })
    })?;
    Credentials::read(&found, &params.source).map_err(wrong)
}
