//! Several components brought to their clusters at once. The result of one does not concern the others: not that of another
//! component, and not that of another cluster, which may take its time or never answer.

use std::collections::BTreeMap;

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
    Done, RenderedComponent, checked, dispatch_in_stages, later, render, with_late_traits,
};
use super::run::Run;
use crate::application::dispatch::together::{GRACE, Outdated, given_up};
use crate::application::facts::parse::ParsedComponent;
use crate::application::workflow::error::StepError;

/// The Application's own cluster, as placements and records write it.
const OWN: &str = "";

/// A component, and where it goes.
type Item = (ApplicationComponent, Placement);

/// One of several components on its way.
enum Turn {
    /// It is dispatched together with others.
    Plain(ParsedComponent, Rendered),
    /// It takes its time alone: it has a stage before the others, or is a release.
    Alone(RenderedComponent),
    /// It was not rendered.
    Failed(StepError),
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
    let mut left: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (component, placement)) in items.iter().enumerate() {
        if let Some(why) = session.skipped(&placement.cluster) {
            let done = later(session, run, component, placement, &why).await;
            ended.insert(index, done);
        } else {
            left.entry(&placement.cluster).or_default().push(index);
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
        dispatch(session, run, items, (shares, stored), width, &mut ended).boxed().await;
    }
    let each = (0..items.len()).map(|index| ended.remove(&index));
    each.map(|done| done.unwrap_or_else(|| Err(given_up().into()))).collect()
}

/// The shares of the clusters that are ready at about the same time; none if all take long and there is a newer spec.
async fn ready<'i>(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &'i [Item],
    of: &BTreeMap<&'i str, Vec<usize>>,
    width: usize,
) -> Vec<Share<'i>> {
    let mut work = FuturesUnordered::new();
    for (cluster, indices) in of {
        work.push(prepared(session, run, items, (cluster, indices), width).boxed());
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
    (cluster, indices): (&'i str, &[usize]),
    width: usize,
) -> Share<'i> {
    let staged = session.ctx.settings.gates.multi_stage_component_apply;
    let mut renders = Vec::with_capacity(indices.len());
    for index in indices.iter().copied() {
        let Some((component, placement)) = items.get(index) else { continue };
        let rendered = render(session, run, component, placement);
        renders.push(rendered.map(move |made| (index, made)).boxed());
    }
    let made: Vec<_> = stream::iter(renders).buffered(width.max(1)).collect().await;
    let turn = |made: Result<RenderedComponent, StepError>| match made {
        Err(error) => Turn::Failed(error),
        Ok(made) => {
            let is_early = |object: &component::Object| object.stage == Stage::PreDispatch;
            let has_stages = staged && made.rendered.objects.iter().any(is_early);
            if has_stages || made.released.is_some() {
                Turn::Alone(made)
            } else {
                Turn::Plain(made.part, made.rendered)
            }
        }
    };
    let mut turns: Vec<(usize, Turn)> =
        made.into_iter().map(|(index, made)| (index, turn(made))).collect();
    let mut groups: Vec<Vec<Value>> =
        plain(&mut turns).map(|rendered| manifests(rendered)).collect();
    let outdated = session.prepare_dispatch(&mut groups, cluster, width).await;
    // Namespaces may have been normalized: health is read by what is dispatched.
    for (rendered, manifests) in plain(&mut turns).zip(groups) {
        for (object, manifest) in rendered.objects.iter_mut().zip(manifests) {
            object.manifest = manifest;
        }
    }
    Share { cluster, turns, outdated }
}

/// A component that was rendered, tried out and recorded together with others. What is left is to write it.
pub(super) struct Prepared {
    part: ParsedComponent,
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
    let of: Vec<usize> = (0..items.len()).collect();
    let storing = session.storing_revision();
    let share = prepared(session, run, items, (OWN, &of), width).boxed();
    let (Share { cluster, turns, outdated }, stored) = join(share, storing).await;
    let mut all = [(cluster, outdated)];
    session.record_prepared(&mut all, stored).boxed().await;
    let plain = turns.into_iter().filter_map(|(index, turn)| match turn {
        Turn::Plain(part, rendered) => Some((index, part, rendered)),
        Turn::Alone(_) | Turn::Failed(_) => None,
    });
    let outcomes = all.into_iter().flat_map(|(_, outdated)| outdated);
    let prepared = plain.zip(outcomes).filter_map(|((index, part, rendered), outdated)| {
        Some((index, Prepared { part, rendered, outdated: outdated.ok()? }))
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
    let Prepared { part, rendered, outdated } = prepared;
    let mut all = [(OWN, vec![Ok(outdated)])];
    session.write_prepared(&mut all, 1).boxed().await;
    for written in all.into_iter().flat_map(|(_, outdated)| outdated) {
        written?;
    }
    checked(session, run, &part, placement, rendered).await
}

fn plain(turns: &mut [(usize, Turn)]) -> impl Iterator<Item = &mut Rendered> {
    turns.iter_mut().filter_map(|(_, turn)| match turn {
        Turn::Plain(_, rendered) => Some(rendered),
        Turn::Alone(_) | Turn::Failed(_) => None,
    })
}

fn manifests(rendered: &Rendered) -> Vec<Value> {
    rendered.objects.iter().map(|object| object.manifest.clone()).collect()
}

/// Dispatches what is prepared, all of it in one go, and checks its health.
async fn dispatch(
    session: &mut Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    (shares, stored): (Vec<Share<'_>>, Result<(), ApiError>),
    width: usize,
    ended: &mut BTreeMap<usize, Result<Done, StepError>>,
) {
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
                Turn::Plain(part, rendered) => match outcomes.next() {
                    Some(Err(error)) => drop(ended.insert(index, Err(error.into()))),
                    _ => dispatched.push((index, part, rendered)),
                },
            }
        }
    }
    let mut statuses = healths(session, run, items, &dispatched, width).await;
    for (index, part, rendered) in dispatched {
        let (Some((_, placement)), Some(status)) = (items.get(index), statuses.remove(&index))
        else {
            continue;
        };
        let done = match status {
            Ok(status) => with_late_traits(session, run, &part, placement, rendered, status).await,
            Err(error) => Err(error),
        };
        ended.insert(index, done);
    }
    for (index, made) in alone {
        let Some((_, placement)) = items.get(index) else { continue };
        ended.insert(index, dispatch_in_stages(session, run, placement, made).await);
    }
}

/// The health of what was dispatched, by position in the list.
async fn healths(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &[Item],
    dispatched: &[(usize, ParsedComponent, Rendered)],
    width: usize,
) -> BTreeMap<usize, Result<ComponentStatus, StepError>> {
    let mut checks = Vec::new();
    for (index, part, rendered) in dispatched {
        let Some((_, placement)) = items.get(*index) else { continue };
        let check = component::health(session, run.input, part, rendered, placement);
        checks.push(check.map(move |status| (*index, status.map_err(StepError::from))).boxed());
    }
    stream::iter(checks).buffered(width.max(1)).collect().await
}
