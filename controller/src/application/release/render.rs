//! Renders a new revision of a release: the chart is loaded and rendered on the pool, with lookups answered in between.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use vela_apply::object::{api_version, kind};
use vela_cluster::Target;
use vela_helm::release::{NewRecord, Record, Status};
use vela_helm::{
    Budget, Capabilities, Chart, KubeVersion, Limits, Options, Release, RenderError, prepare,
};

use crate::charts::Archive;

use super::entry::Cluster;
use super::error::ReleaseError;
use super::records::Known;
use super::released::Change;
use super::world::{Answers, Asked, Materials, Noted, World};
use crate::application::component;
use vela_helm::request::Params;

/// How often a chart is rendered for what it looks up.
const ROUNDS: usize = 8;

/// A revision that is not in the cluster yet.
pub(super) struct Made {
    /// Its record: pending.
    pub(super) record: Record,
    /// The objects of `crds/`.
    pub(super) crds: Vec<Value>,
    /// What was generated for it.
    pub(super) materials: String,
}

/// What one round came to.
enum Round {
    Made(Box<Made>),
    /// The cluster has to be asked first.
    Asks(Vec<Asked>),
}

/// Everything a round is made of.
#[derive(Clone)]
struct Input {
    bytes: Arc<[u8]>,
    shown: String,
    values: Map<String, Value>,
    release: Release,
    capabilities: Capabilities,
    now: Timestamp,
    first_deployed: String,
    materials: Materials,
    answers: Arc<Answers>,
    include_crds: bool,
    skip_hooks: bool,
}

/// Renders a chart for a revision.
pub(super) async fn run(
    at: Cluster<'_, '_>,
    params: &Params,
    archive: &Archive,
    values: Map<String, Value>,
    release: &Release,
    known: &[Known],
) -> Result<Made, ReleaseError> {
    let ctx = at.session.ctx;
    // The first deployment is handed on from revision to revision.
    let before = known.iter().rev().find(|it| it.status == Status::Deployed).or(known.last());
    let now = ctx.clock.now();
    let first = before.and_then(|before| before.read().ok());
    let first = first.map(|first| first.first_deployed().to_owned());
    // Of the newest revision that has any: passwords stay the same.
    let materials = known.iter().rev().find_map(Known::materials);
    let mut input = Input {
        bytes: Arc::clone(&archive.bytes),
        shown: params.source.shown(),
        values,
        release: release.clone(),
        capabilities: capabilities(at).await?,
        now,
        first_deployed: first.filter(|first| !first.is_empty()).unwrap_or_else(|| now.to_string()),
        materials: Materials::of(materials.as_deref()),
        answers: Arc::default(),
        include_crds: params.include_crds,
        skip_hooks: params.skip_hooks,
    };
    // Each round renders with the answers to what the one before looked up.
    for _ in 0..ROUNDS {
        let round = input.clone();
        let since = Instant::now();
        let ran =
            ctx.cue.run(move |scope| round.render(scope.limits.time.map(|time| since + time)));
        let ran = ran.await;
        ctx.metrics.rendered("chart", matches!(ran, Ok(Ok(_))), since.elapsed());
        match ran?? {
            Round::Made(made) => return Ok(*made),
            Round::Asks(asked) => {
                let mut answers = Answers::clone(&input.answers);
                for one in asked {
                    let answer = answer_lookup(at, &one).await?;
                    answers.insert(one, answer);
                }
                input.answers = Arc::new(answers);
            }
        }
    }
    Err(ReleaseError::Lookups(params.source.shown(), ROUNDS))
}

impl Input {
    fn render(self, end: Option<Instant>) -> Result<Round, ReleaseError> {
        let chart = Chart::from_archive(&self.bytes, &Limits::default());
        let chart = chart.map_err(|error| ReleaseError::Chart(self.shown.clone(), error))?;
        let named = || format!("{} {}", chart.name(), chart.metadata.version);
        let wrong = |error: RenderError| ReleaseError::Render(named(), error);
        let budget = Budget::default();
        let prepared = prepare(&chart, &self.values, Options::default(), &budget).map_err(wrong)?;
        let noted: Arc<Mutex<Noted>> = Arc::default();
        let world = World {
            now: self.now,
            end,
            materials: self.materials.clone(),
            answers: Arc::clone(&self.answers),
            noted: Arc::clone(&noted),
            drawn: 0,
        };
        let rendered = prepared.render(&self.release, &self.capabilities, Box::new(world), &budget);
        // A chart that fails for want of an answer may not fail with it.
        let asked = std::mem::take(&mut noted.lock().asked);
        if !asked.is_empty() {
            return Ok(Round::Asks(asked));
        }
        let mut rendered = rendered.map_err(wrong)?;
        if self.skip_hooks {
            rendered.hooks.clear();
        }
        let mut crds = Vec::new();
        for file in rendered.crds.iter().filter(|_| self.include_crds) {
            for (_, document) in file.documents() {
                let document = document.map_err(|error| ReleaseError::Yaml(named(), error))?;
                // Files of `crds/` may hold comments alone.
                let is_object = !kind(&document).is_empty() && !api_version(&document).is_empty();
                crds.extend(Some(document).filter(|_| is_object));
            }
        }
        let change = if self.release.is_upgrade { Change::Upgrade } else { Change::Install };
        let (status, description) = change.pending();
        let record = Record::new(&NewRecord {
            name: &self.release.name,
            namespace: &self.release.namespace,
            revision: self.release.revision,
            status,
            description,
            first_deployed: &self.first_deployed,
            last_deployed: &self.now.to_string(),
            notes: rendered.notes.as_deref().unwrap_or_default(),
            chart: &chart,
            config: &self.values,
            manifest: &rendered.manifest(),
            hooks: &rendered.hooks,
        });
        let materials = noted.lock().materials(&self.materials);
        Ok(Round::Made(Box::new(Made { record, crds, materials })))
    }
}

/// What the cluster has, for `.Capabilities`: its version, and every version and kind that it serves.
async fn capabilities(at: Cluster<'_, '_>) -> Result<Capabilities, ReleaseError> {
    let version = component::version_of(at.session.ctx, at.name).git_version;
    let kube_version = match KubeVersion::parse(&version) {
        Ok(parsed) => parsed,
        // A simulated cluster has none.
        Err(_) if version.is_empty() => KubeVersion::parse("v1.34.0")
            .map_err(|error| ReleaseError::Version(error.to_string()))?,
        Err(error) => return Err(ReleaseError::Version(error.to_string())),
    };
    let reached = at.session.reach(at.name).map_err(ReleaseError::io("cluster"))?;
    let served = reached.io.discovery().served().await;
    let served = served.map_err(ReleaseError::io("kinds of the cluster"))?;
    if served.is_empty() {
        // A cluster that serves nothing is simulated: Helm's own defaults are used.
        return Ok(Capabilities::without_cluster(kube_version));
    }
    Ok(Capabilities { kube_version, api_versions: served })
}

/// Reads what a template looks up, as the Application.
async fn answer_lookup(
    at: Cluster<'_, '_>,
    (api_version, kind, namespace, name): &Asked,
) -> Result<Result<Option<Value>, vela_cluster::Error>, ReleaseError> {
    let found = if name.is_empty() {
        at.list((api_version, kind), namespace, "").await
    } else {
        at.get(&Target { api_version, kind, namespace, name }).await
    };
    match found {
        Ok(found) => Ok(Ok(Some(found))),
        Err(error) if error.is_not_found() && !error.is_unserved() => Ok(Ok(None)),
        // What is put off is asked again later; everything else the template gets to see.
        Err(error) => match error.class() {
            vela_cluster::Class::Retry(_) => {
                Err(ReleaseError::Io(format!("lookup {kind} {namespace}/{name}"), error))
            }
            _ => Ok(Err(error)),
        },
    }
}
