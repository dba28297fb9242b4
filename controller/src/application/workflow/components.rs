//! Components brought to the cluster, one by one or several at once: rendered, dispatched stage by stage, judged by their
//! health. Traits of the stage PostDispatch follow once the workload is healthy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use vela_api::application::ApplicationComponent;
use vela_api::status::ComponentStatus;
use vela_apply::object::is_local;
use vela_apply::tracker::Record;
use vela_render::Stage;

use crate::messages;

use super::super::component::{self, Object, Place, Rendered};
use super::super::dispatch::Session;
use super::super::{parse, status};
use super::Run;

/// A component after an attempt to bring it to the cluster.
#[derive(Debug)]
pub struct Done {
    /// Its objects.
    pub rendered: Rendered,
    /// Its health.
    pub status: ComponentStatus,
    /// It is healthy, traits of the last stage aside: those hold no step up.
    pub ready: bool,
}

/// Renders, dispatches stage by stage and looks at the health of one component.
///
/// # Errors
/// In words, for the step.
pub async fn apply(
    session: &mut Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    place: &Place,
) -> Result<Done, String> {
    let _time = session.ctx.metrics.component();
    let (part, rendered) = render(session, run, component, place).await?;
    dispatch_in_stages(session, run, &part, place, rendered).await
}

fn part(
    session: &Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
) -> Result<parse::Part, String> {
    let definitions = &session.ctx.definitions;
    parse::part(component, run.used, definitions).map_err(|error| error.to_string())
}

async fn render(
    session: &Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    place: &Place,
) -> Result<(parse::Part, Rendered), String> {
    let part = part(session, run, component)?;
    let live = live_workload(session, &component.name, place).await;
    let rendered = component::render(session.ctx, run.frame, &part, place, live, false).await?;
    Ok((part, rendered))
}

/// Brings a rendered component to the cluster; what has an earlier stage must be healthy before the rest follows.
async fn dispatch_in_stages(
    session: &mut Session<'_>,
    run: &Run<'_>,
    part: &parse::Part,
    place: &Place,
    mut rendered: Rendered,
) -> Result<Done, String> {
    if !session.ctx.settings.gates.multi_stage_component_apply {
        dispatch(session, &mut rendered, |_| true, place).await?;
    } else {
        let first = Stage::PreDispatch;
        if dispatch(session, &mut rendered, |object| object.stage == first, place).await? {
            let only = Rendered {
                objects: rendered.objects.iter().filter(|o| o.stage == first).cloned().collect(),
                without_workload: true,
                pending: later_traits(part, first),
            };
            let mut status = component::health(session, run.frame, part, &only, place).await?;
            if !status::is_healthy(std::slice::from_ref(&status)) {
                status.healthy = false;
                status.workload_healthy = false;
                if status.message.is_empty() {
                    messages::WAITING_FOR_PREVIOUS_STAGE.clone_into(&mut status.message);
                }
                return Ok(Done { rendered: only, status, ready: false });
            }
        }
        let second = Stage::DefaultDispatch;
        dispatch(session, &mut rendered, |object| object.stage == second, place).await?;
    }
    let status = component::health(session, run.frame, part, &rendered, place).await?;
    with_late_traits(session, run, part, place, rendered, status).await
}

/// Dispatches some of a component's objects; they become what was dispatched. Returns whether there were any.
async fn dispatch(
    session: &mut Session<'_>,
    rendered: &mut Rendered,
    which: impl Fn(&Object) -> bool,
    place: &Place,
) -> Result<bool, String> {
    let chosen = rendered.objects.iter().filter(|object| which(object));
    let mut manifests: Vec<Value> = chosen.map(|object| object.manifest.clone()).collect();
    if manifests.is_empty() {
        return Ok(false);
    }
    session.dispatch(&mut manifests, &place.cluster).await?;
    let chosen = rendered.objects.iter_mut().filter(|object| which(object));
    for (object, manifest) in chosen.zip(manifests) {
        object.manifest = manifest;
    }
    Ok(true)
}

/// One of several components on its way.
enum Turn {
    /// Its objects are still to be dispatched, or were.
    Rendered(parse::Part, Rendered),
    /// Nothing is left to do.
    Ended(Result<Done, String>),
}

/// Renders and dispatches several components, so many at once, and looks at their health. What becomes of one does not
/// concern the others.
pub async fn apply_together(
    session: &mut Session<'_>,
    run: &Run<'_>,
    items: &[(ApplicationComponent, Place)],
    width: usize,
) -> Vec<Result<Done, String>> {
    let staged = session.ctx.settings.gates.multi_stage_component_apply;
    let has_stages = |rendered: &Rendered| {
        staged && rendered.objects.iter().any(|object| object.stage == Stage::PreDispatch)
    };
    let mut turns = Vec::with_capacity(items.len());
    for (found, (_, place)) in
        render_together(session, run, items, width).await.into_iter().zip(items)
    {
        turns.push(match found {
            Err(text) => Turn::Ended(Err(text)),
            // What has a stage before the others takes its time alone.
            Ok((part, rendered)) if has_stages(&rendered) => {
                Turn::Ended(dispatch_in_stages(session, run, &part, place, rendered).await)
            }
            Ok((part, rendered)) => Turn::Rendered(part, rendered),
        });
    }
    let places: Vec<&Place> = items.iter().map(|(_, place)| place).collect();
    dispatch_together(session, &places, &mut turns, width).await;
    let mut statuses = health_together(session, run, &places, &turns, width).await;
    let mut out = Vec::with_capacity(items.len());
    for (index, (turn, place)) in turns.into_iter().zip(places).enumerate() {
        out.push(match (turn, statuses.remove(&index)) {
            (Turn::Ended(done), _) => done,
            (Turn::Rendered(part, rendered), Some(Ok(status))) => {
                with_late_traits(session, run, &part, place, rendered, status).await
            }
            (Turn::Rendered(..), Some(Err(text))) => Err(text),
            (Turn::Rendered(..), None) => Err(String::new()),
        });
    }
    out
}

async fn render_together(
    session: &Session<'_>,
    run: &Run<'_>,
    items: &[(ApplicationComponent, Place)],
    width: usize,
) -> Vec<Result<(parse::Part, Rendered), String>> {
    let mut renders = Vec::with_capacity(items.len());
    for (component, place) in items {
        renders.push(render(session, run, component, place).boxed());
    }
    stream::iter(renders).buffered(width.max(1)).collect().await
}

/// Dispatches what was rendered, all of a cluster in one go. What is refused has ended.
async fn dispatch_together(
    session: &mut Session<'_>,
    places: &[&Place],
    turns: &mut [Turn],
    width: usize,
) {
    let clusters: BTreeSet<&str> = places.iter().map(|place| place.cluster.as_str()).collect();
    for cluster in clusters {
        let mut of_cluster: Vec<&mut Turn> = turns
            .iter_mut()
            .zip(places)
            .filter(|(turn, place)| place.cluster == cluster && matches!(turn, Turn::Rendered(..)))
            .map(|(turn, _)| turn)
            .collect();
        let manifests = |turn: &&mut Turn| match turn {
            Turn::Rendered(_, rendered) => {
                rendered.objects.iter().map(|object| object.manifest.clone()).collect()
            }
            Turn::Ended(_) => Vec::new(),
        };
        let mut groups: Vec<Vec<Value>> = of_cluster.iter().map(manifests).collect();
        let dispatched = session.dispatch_together(&mut groups, cluster, width).await;
        for ((turn, manifests), dispatched) in of_cluster.iter_mut().zip(groups).zip(dispatched) {
            if let Err(text) = dispatched {
                **turn = Turn::Ended(Err(text));
            } else if let Turn::Rendered(_, rendered) = &mut **turn {
                for (object, manifest) in rendered.objects.iter_mut().zip(manifests) {
                    object.manifest = manifest;
                }
            }
        }
    }
}

/// The health of what was dispatched, by place in the list.
async fn health_together(
    session: &Session<'_>,
    run: &Run<'_>,
    places: &[&Place],
    turns: &[Turn],
    width: usize,
) -> BTreeMap<usize, Result<ComponentStatus, String>> {
    let mut looks = Vec::new();
    for (index, (turn, place)) in turns.iter().zip(places).enumerate() {
        let Turn::Rendered(part, rendered) = turn else { continue };
        let look = component::health(session, run.frame, part, rendered, place);
        looks.push(look.map(move |status| (index, status)).boxed());
    }
    stream::iter(looks).buffered(width.max(1)).collect().await
}

/// The traits that wait for a healthy workload, once it is.
async fn with_late_traits(
    session: &mut Session<'_>,
    run: &Run<'_>,
    part: &parse::Part,
    place: &Place,
    mut rendered: Rendered,
    mut status: ComponentStatus,
) -> Result<Done, String> {
    let ready = status::is_healthy(std::slice::from_ref(&status));
    if status.workload_healthy && !rendered.pending.is_empty() {
        let live = live_of(session, part, &rendered, place).await;
        rendered = component::render(session.ctx, run.frame, part, place, live, true).await?;
        let late = Stage::PostDispatch;
        dispatch(session, &mut rendered, |object| object.stage == late, place).await?;
        status = component::health(session, run.frame, part, &rendered, place).await?;
    }
    Ok(Done { rendered, status, ready })
}

/// Traits of later stages than `stage`.
fn later_traits(part: &parse::Part, stage: Stage) -> Vec<usize> {
    part.traits
        .iter()
        .enumerate()
        .filter(|(_, definition)| definition.stage > stage)
        .map(|(index, _)| index)
        .collect()
}

/// The health of a component whose objects are in the cluster, without touching anything. PostDispatch traits count once
/// they were dispatched.
///
/// # Errors
/// In words.
pub async fn look(
    session: &Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    place: &Place,
) -> Result<ComponentStatus, String> {
    let part = part(session, run, component)?;
    let live = live_workload(session, &component.name, place).await;
    let (ctx, frame) = (session.ctx, run.frame);
    let mut rendered = component::render(ctx, frame, &part, place, live, false).await?;
    if !rendered.pending.is_empty()
        && let Some(live) = live_of(session, &part, &rendered, place).await
    {
        rendered = component::render(ctx, frame, &part, place, Some(live), true).await?;
    }
    component::health(session, run.frame, &part, &rendered, place).await
}

/// The workload of a rendered component as it is in the cluster.
async fn live_of(
    session: &Session<'_>,
    part: &parse::Part,
    rendered: &Rendered,
    place: &Place,
) -> Option<Arc<Value>> {
    match rendered.objects.iter().find(|object| object.output.is_none()) {
        Some(workload) => component::live(session, &workload.manifest, place).await,
        None => live_workload(session, &part.component.name, place).await,
    }
}

/// The workload of a component as it is in the cluster: the one that is recorded for it at its place. Which of several copies
/// it is can only be told once it is rendered.
async fn live_workload(
    session: &Session<'_>,
    component: &str,
    place: &Place,
) -> Option<Arc<Value>> {
    if !place.replica.is_empty() || !is_local(&place.cluster) {
        return None;
    }
    let current = session.trackers.current(session.run());
    let here = |record: &Record| {
        place.namespace.is_empty()
            || record.namespace.is_empty()
            || record.namespace == place.namespace
    };
    let record =
        session.trackers.desired(&current).into_iter().find(|record| {
            record.component == component && record.trait_.is_empty() && here(record)
        })?;
    let key = vela_apply::tracker::key_of(record);
    session.live(&record.api_version, &key).await.ok().flatten()
}
