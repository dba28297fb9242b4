//! Several components brought to their clusters at once. The result of one does not concern the others: not that of another
//! component, and not that of another cluster, which may take its time or never answer: each goes from stage to stage on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use vela_api::application::ApplicationComponent;
use vela_api::status::ComponentStatus;
use vela_apply::object::is_local;
use vela_cluster::ApiError;
use vela_render::Stage;

use super::super::component::{self, Rendered};
use super::super::placement::Placement;
use super::super::session::Session;
use super::components::{
    Done, RenderedComponent, checked, dispatch_in_stages, early, has_late_traits, late, later,
    render, waits_for_early,
};
use super::run::Run;
use crate::application::dispatch::together::{GRACE, Outdated, given_up};
use crate::application::facts::parse::ParsedComponent;
use crate::application::workflow::error::StepError;

/// The Application's own cluster, as placements and records write it.
const OWN: &str = "";

/// A component, and where it goes.
type Item = (ApplicationComponent, Placement);

/// Which objects of a component are dispatched in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All but the traits that wait for its workload.
    All,
    /// The stage before the others.
    Early,
    /// What follows it.
    Rest,
    /// The traits that wait for its workload.
    Late,
}

impl Part {
    fn takes(self, object: &component::Object) -> bool {
        match self {
            Self::All => true,
            Self::Early => object.stage == Stage::PreDispatch,
            Self::Rest => object.stage == Stage::DefaultDispatch,
            Self::Late => object.stage == Stage::PostDispatch,
        }
    }
}

/// What is left of a component for its cluster. A cluster that is not ready is asked for it again.
enum Left {
    /// All of it, not rendered yet.
    Whole,
    /// What follows the stage before the others.
    Rest(Box<Staged>),
    /// The traits that wait for its workload.
    Late(Box<Staged>),
}

/// A component of which a stage is dispatched, and healthy.
struct Staged {
    component: Arc<ParsedComponent>,
    rendered: Rendered,
    /// It is healthy, traits of the last stage aside.
    ready: bool,
}

/// One of several components on its way.
enum Turn {
    /// Some of its objects are dispatched together with others.
    Plain(Part, Staged),
    /// It takes its time alone: it is a release, has objects in several clusters, or a stage before the others where only one is
    /// dispatched at a time.
    Alone(Box<RenderedComponent>),
    /// It was not rendered.
    Failed(StepError),
}

/// What becomes of components with a stage before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stages {
    /// They are dispatched alone.
    Alone,
    /// They are dispatched stage by stage, each stage with what else is ready.
    Together,
}

/// What one cluster is to get, by position in the list.
struct Share<'i> {
    cluster: &'i str,
    turns: Vec<(usize, Turn)>,
    /// Of the plain ones.
    outdated: Outdated,
}

/// Renders and dispatches several components in parallel, and checks their health.
pub(super) async fn apply_together(
    session: &mut Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    width: usize,
) -> Vec<Result<Done, StepError>> {
    let mut ended: BTreeMap<usize, Result<Done, StepError>> = BTreeMap::new();
    let mut left: BTreeMap<&str, Vec<(usize, Left)>> = BTreeMap::new();
    for (index, (component, placement)) in items.iter().enumerate() {
        if let Some(why) = session.skipped(&placement.cluster) {
            let done = later(session, run, component, placement, &why).await;
            ended.insert(index, done);
        } else {
            left.entry(&placement.cluster).or_default().push((index, Left::Whole));
        }
    }
    // Those that are ready go ahead of those that are not.
    while !left.is_empty() {
        let storing = session.storing_revision();
        let (shares, stored) =
            join(ready(session, run, items, &left, width).boxed(), storing).await;
        if shares.is_empty() {
            session.record_prepared(&mut [], stored).boxed().await;
            break;
        }
        left.retain(|cluster, _| !shares.iter().any(|share| share.cluster == *cluster));
        let next = dispatch(session, run, items, (shares, stored), width, &mut ended).boxed().await;
        for (index, what) in next {
            let Some((_, placement)) = items.get(index) else { continue };
            left.entry(&placement.cluster).or_default().push((index, what));
        }
    }
    let each = (0..items.len()).map(|index| ended.remove(&index));
    each.map(|done| done.unwrap_or_else(|| Err(given_up().into()))).collect()
}

/// The shares of the clusters that are ready at about the same time; none if all take long and there is a newer spec.
async fn ready<'i>(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &'i [Item],
    of: &BTreeMap<&'i str, Vec<(usize, Left)>>,
    width: usize,
) -> Vec<Share<'i>> {
    let mut work = FuturesUnordered::new();
    for (cluster, left) in of {
        let share = (*cluster, left.as_slice(), Stages::Together);
        work.push(prepared(session, run, items, share, width).boxed());
    }
    let (mut shares, mut end): (Vec<Share<'i>>, Option<Instant>) = (Vec::new(), None);
    let mut superseded = std::pin::pin!(session.superseded());
    loop {
        let members_only = {
            let is_ready = |cluster: &str| shares.iter().any(|share| share.cluster == cluster);
            of.keys().all(|cluster| !is_local(cluster) || is_ready(cluster))
        };
        let until = end.unwrap_or_else(Instant::now);
        tokio::select! {
            share = work.next() => match share {
                // Who is refused at once says nothing of how long the others may take.
                Some(share) if share.outdated.iter().any(Result::is_ok) => {
                    end.get_or_insert_with(|| Instant::now() + GRACE);
                    shares.push(share);
                }
                Some(share) => shares.push(share),
                None => break,
            },
            () = sleep_until(until), if end.is_some() => break,
            () = &mut superseded, if members_only => break,
        }
    }
    // Whoever is ready first, the same is recorded.
    shares.sort_by_key(|share| share.cluster);
    shares
}

/// What a cluster is to get: rendered, and what of it is outdated.
async fn prepared<'i>(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &'i [Item],
    (cluster, left, stages): (&'i str, &[(usize, Left)], Stages),
    width: usize,
) -> Share<'i> {
    let mut renders = Vec::with_capacity(left.len());
    for (index, what) in left {
        let Some((component, placement)) = items.get(*index) else { continue };
        let turn = turn(session, run, (component, placement), what, stages);
        renders.push(turn.map(|turn| (*index, turn.unwrap_or_else(Turn::Failed))).boxed());
    }
    let mut turns: Vec<(usize, Turn)> =
        stream::iter(renders).buffered(width.max(1)).collect().await;
    let mut groups: Vec<Vec<Value>> = plain(&mut turns)
        .map(|(part, rendered)| {
            let taken = rendered.objects.iter().filter(|object| part.takes(object));
            taken.map(|object| object.manifest.clone()).collect()
        })
        .collect();
    let outdated = session.prepare_dispatch(&mut groups, cluster, width).await;
    // Namespaces may have been normalized: health is read by what is dispatched.
    for ((part, rendered), manifests) in plain(&mut turns).zip(groups) {
        let taken = rendered.objects.iter_mut().filter(|object| part.takes(object));
        for (object, manifest) in taken.zip(manifests) {
            object.manifest = manifest;
        }
    }
    Share { cluster, turns, outdated }
}

/// What is next of a component.
async fn turn(
    session: &Session<'_>,
    run: &Run<'_>,
    (component, placement): (&ApplicationComponent, &Placement),
    left: &Left,
    stages: Stages,
) -> Result<Turn, StepError> {
    let staged = match left {
        Left::Rest(staged) => {
            let Staged { component, rendered, ready } = &**staged;
            let (component, rendered) = (Arc::clone(component), rendered.clone());
            return Ok(Turn::Plain(Part::Rest, Staged { component, rendered, ready: *ready }));
        }
        Left::Late(staged) => {
            let Staged { component, rendered, ready } = &**staged;
            let rendered = late(session, run, component, rendered, placement).await?;
            let component = Arc::clone(component);
            return Ok(Turn::Plain(Part::Late, Staged { component, rendered, ready: *ready }));
        }
        Left::Whole => session.ctx.settings.gates.multi_stage_component_apply,
    };
    let made = render(session, run, component, placement).await?;
    let has_stages = staged && made.rendered.objects.iter().any(|object| Part::Early.takes(object));
    let is_spread = !made.rendered.objects.iter().all(|object| object.is_in(&placement.cluster));
    if made.released.is_some() || is_spread || has_stages && stages == Stages::Alone {
        return Ok(Turn::Alone(Box::new(made)));
    }
    let RenderedComponent { part: component, rendered, .. } = made;
    let part = if has_stages { Part::Early } else { Part::All };
    Ok(Turn::Plain(part, Staged { component: Arc::new(component), rendered, ready: false }))
}

/// A component that was rendered, tried out and recorded together with others. What is left is to write it.
pub(super) struct Prepared {
    component: Arc<ParsedComponent>,
    rendered: Rendered,
    outdated: Vec<Value>,
}

/// Prepares several components of the Application's own cluster, by position in the list. Missing are those that have to be dispatched
/// alone, and those that failed: what an earlier component makes may be what a later one lacks.
pub(super) async fn prepare(
    session: &mut Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    width: usize,
) -> BTreeMap<usize, Prepared> {
    let all: Vec<(usize, Left)> = (0..items.len()).map(|index| (index, Left::Whole)).collect();
    let storing = session.storing_revision();
    let share = prepared(session, run, items, (OWN, &all, Stages::Alone), width).boxed();
    let (Share { cluster, turns, outdated }, stored) = join(share, storing).await;
    let mut all = [(cluster, outdated)];
    session.record_prepared(&mut all, stored).boxed().await;
    let plain = turns.into_iter().filter_map(|(index, turn)| match turn {
        Turn::Plain(_, staged) => Some((index, staged)),
        Turn::Alone(_) | Turn::Failed(_) => None,
    });
    let outcomes = all.into_iter().flat_map(|(_, outdated)| outdated);
    let prepared = plain.zip(outcomes).filter_map(|((index, staged), outdated)| {
        let Staged { component, rendered, .. } = staged;
        Some((index, Prepared { component, rendered, outdated: outdated.ok()? }))
    });
    prepared.collect()
}

/// Writes a component that is prepared, and checks its health.
///
/// # Errors
/// A message for the step.
pub(super) async fn finish(
    session: &mut Session<'_>,
    run: &Run<'_>,
    placement: &Placement,
    prepared: Prepared,
) -> Result<Done, StepError> {
    let _time = session.ctx.metrics.component();
    let Prepared { component, rendered, outdated } = prepared;
    let mut all = [(OWN, vec![Ok(outdated)])];
    session.write_prepared(&mut all, 1).boxed().await;
    for written in all.into_iter().flat_map(|(_, outdated)| outdated) {
        written?;
    }
    checked(session, run, &component, placement, rendered).await
}

fn plain(turns: &mut [(usize, Turn)]) -> impl Iterator<Item = (Part, &mut Rendered)> {
    turns.iter_mut().filter_map(|(_, turn)| match turn {
        Turn::Plain(part, staged) => Some((*part, &mut staged.rendered)),
        Turn::Alone(_) | Turn::Failed(_) => None,
    })
}

/// Dispatches what is prepared, all of it in one go, and checks its health. Returns what is left of components whose stage is healthy.
async fn dispatch(
    session: &mut Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    (shares, stored): (Vec<Share<'_>>, Result<(), ApiError>),
    width: usize,
    ended: &mut BTreeMap<usize, Result<Done, StepError>>,
) -> Vec<(usize, Left)> {
    let (mut all, mut turns) = (Vec::with_capacity(shares.len()), Vec::new());
    for share in shares {
        all.push((share.cluster, share.outdated));
        turns.extend(share.turns);
    }
    session.record_prepared(&mut all, stored).boxed().await;
    session.write_prepared(&mut all, width).boxed().await;
    let (mut alone, mut dispatched) = (Vec::new(), Vec::new());
    {
        let mut outcomes = all.into_iter().flat_map(|(_, outdated)| outdated);
        for (index, turn) in turns {
            match turn {
                Turn::Failed(error) => drop(ended.insert(index, Err(error))),
                Turn::Alone(made) => alone.push((index, made)),
                Turn::Plain(part, staged) => match outcomes.next() {
                    Some(Err(error)) => drop(ended.insert(index, Err(error.into()))),
                    _ => dispatched.push(Dispatched::of(index, part, staged)),
                },
            }
        }
    }
    let mut statuses = healths(session, run, items, &dispatched, width).await;
    let mut next = Vec::new();
    for Dispatched { index, part, mut staged, early } in dispatched {
        let status = match statuses.remove(&index) {
            Some(Ok(status)) => status,
            Some(Err(error)) => {
                ended.insert(index, Err(error));
                continue;
            }
            None => continue,
        };
        if part != Part::Late {
            staged.ready = vela_api::status::is_healthy(std::slice::from_ref(&status));
        }
        let done = if let Some(early) = early {
            let Some(waits) = waits_for_early(early, status) else {
                next.push((index, Left::Rest(Box::new(staged))));
                continue;
            };
            waits
        } else if part != Part::Late && has_late_traits(&staged.rendered, &status) {
            next.push((index, Left::Late(Box::new(staged))));
            continue;
        } else {
            let Staged { rendered, ready, .. } = staged;
            Done { rendered, status, ready, is_later: false }
        };
        ended.insert(index, Ok(done));
    }
    for (index, made) in alone {
        let Some((_, placement)) = items.get(index) else { continue };
        ended.insert(index, dispatch_in_stages(session, run, placement, *made).await);
    }
    next
}

/// Objects of a component that are written.
struct Dispatched {
    index: usize,
    part: Part,
    staged: Staged,
    /// What alone is judged while the rest is not there.
    early: Option<Rendered>,
}

impl Dispatched {
    fn of(index: usize, part: Part, staged: Staged) -> Self {
        let is_early = part == Part::Early;
        let early = is_early.then(|| early(&staged.component, &staged.rendered));
        Self { index, part, staged, early }
    }
}

/// The health of what was dispatched, by position in the list.
async fn healths(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    all: &[Dispatched],
    width: usize,
) -> BTreeMap<usize, Result<ComponentStatus, StepError>> {
    let mut checks = Vec::new();
    for Dispatched { index, staged, early, .. } in all {
        let Some((_, placement)) = items.get(*index) else { continue };
        let rendered = early.as_ref().unwrap_or(&staged.rendered);
        let check = component::health(session, run.input, &staged.component, rendered, placement);
        checks.push(check.map(move |status| (*index, status.map_err(StepError::from))).boxed());
    }
    stream::iter(checks).buffered(width.max(1)).collect().await
}
