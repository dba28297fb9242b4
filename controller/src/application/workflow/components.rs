//! Components brought to the cluster one by one: rendered, dispatched stage by stage, judged by their
//! health. Traits of the stage PostDispatch follow once the workload is healthy.

use std::sync::Arc;

use serde_json::Value;
use vela_api::application::ApplicationComponent;
use vela_api::reference::WorkloadGvk;
use vela_api::status::ComponentStatus;
use vela_apply::object::cluster_of;
use vela_apply::tracker::Record;
use vela_cluster::ApiError;
use vela_render::Stage;

use crate::application::workflow::error::StepError;
use crate::messages;

use super::super::component::{self, Object, Rendered};
use super::super::placement::Placement;
use super::super::release::{self, Released};
use super::super::session::Session;
use super::diagnosis;
use super::run::Run;
use crate::application::facts::parse;

/// A component after an attempt to bring it to the cluster.
#[derive(Debug)]
pub struct Done {
    /// Its objects.
    pub rendered: Rendered,
    /// Its health.
    pub status: ComponentStatus,
    /// It is healthy, traits of the last stage aside: those hold no step up.
    pub ready: bool,
    /// Its cluster cannot be reached: it is recorded and made later, and holds no step up.
    pub is_later: bool,
}

/// Renders one component, dispatches it stage by stage and checks its health.
///
/// # Errors
/// A message for the step.
pub async fn apply(
    session: &mut Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    placement: &Placement,
) -> Result<Done, StepError> {
    let _time = session.ctx.metrics.component();
    // A cluster that may be skipped must not hold up those that answer.
    if let Some(why) = session.skipped(&placement.cluster) {
        return later(session, run, component, placement, &why).await;
    }
    let rendered_component = render(session, run, component, placement).await?;
    dispatch_in_stages(session, run, placement, rendered_component).await
}

/// Records a component for a cluster that cannot be reached. A release is not made so: what it does depends on what is there.
pub(super) async fn later(
    session: &mut Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    placement: &Placement,
    why: &ApiError,
) -> Result<Done, StepError> {
    let part = parsed_component(session, run, component)?;
    let rendered = component::render(session.ctx, run.input, &part, placement, None, false).await?;
    for cluster in rendered.clusters(&placement.cluster) {
        let here = rendered.objects.iter().filter(|object| object.is_in(&cluster));
        let mut manifests: Vec<Value> = here.map(|object| object.manifest.clone()).collect();
        session.record_for_later(&mut manifests, &cluster).await?;
    }
    let done = waiting(session, &part, placement, messages::deployed_later(&why.to_string()));
    Ok(Done { ready: true, is_later: true, ..done })
}

pub(super) fn parsed_component(
    session: &Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
) -> Result<parse::ParsedComponent, StepError> {
    let source = parse::Source::of(&session.ctx.definitions, run.app);
    Ok(parse::parse_component(component, run.used, source)?)
}

pub(super) async fn render(
    session: &Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    placement: &Placement,
) -> Result<RenderedComponent, StepError> {
    let mut part = parsed_component(session, run, component)?;
    // A chart is fetched and rendered before the template, which is given its objects.
    let released = released(session, run, &mut part, placement).await?;
    // Templates may read the live workload.
    let live = live_workload(session, &component.name, placement).await;
    let rendered = component::render(session.ctx, run.input, &part, placement, live, false).await?;
    Ok(RenderedComponent { part, rendered, released })
}

/// A rendered component.
pub(super) struct RenderedComponent {
    pub(super) part: parse::ParsedComponent,
    pub(super) rendered: Rendered,
    /// The release that it is.
    pub(super) released: Option<Arc<Released>>,
}

/// The release that a component is, if its template asks for a chart.
async fn released(
    session: &Session<'_>,
    run: &Run<'_>,
    part: &mut parse::ParsedComponent,
    placement: &Placement,
) -> Result<Option<Arc<Released>>, StepError> {
    let released = Box::pin(release::resolve(session, run.input, part, placement)).await;
    let released = released?;
    part.chart = released.as_ref().map(|released| Arc::clone(&released.answer));
    Ok(released)
}

/// Brings a rendered component to the cluster; what has an earlier stage must be healthy before the rest follows. A release
/// has something before its objects and after them.
pub(super) async fn dispatch_in_stages(
    session: &mut Session<'_>,
    run: &Run<'_>,
    placement: &Placement,
    rendered_component: RenderedComponent,
) -> Result<Done, StepError> {
    let RenderedComponent { part, mut rendered, released } = rendered_component;
    let part = &part;
    let Some(released) = &released else {
        return dispatch_objects(session, run, part, placement, rendered).await;
    };
    let workload = rendered.objects.iter_mut().find(|object| object.output.is_none());
    if let Some(workload) = workload {
        released.describe(&mut workload.manifest);
    }
    // The chart's values ask for objects to be made again where they refuse a change.
    if released.is_forced() {
        session.forced.lock().insert(part.component.name.clone());
    }
    let work = async {
        if let Some(waits) = release::begin(session, released).await? {
            return Ok(waiting(session, part, placement, waits));
        }
        // CRDs of the chart come first: the objects of its templates may be of these kinds.
        let is_first = |object: &Object| release::is_first(&object.manifest);
        if dispatch(session, &mut rendered, is_first, placement).await? {
            let manifests = rendered.objects.iter().map(|object| &object.manifest);
            let waits = release::unestablished(session, released, manifests);
            let waits = waits.await?;
            if let Some(waits) = waits {
                return Ok(waiting(session, part, placement, waits));
            }
        }
        let mut done = dispatch_objects(session, run, part, placement, rendered).await?;
        // Objects of traits may belong elsewhere: they are none of the release.
        let here = done.rendered.objects.iter().filter(|object| object.is_in(&placement.cluster));
        let manifests: Vec<Value> = here.map(|object| object.manifest.clone()).collect();
        // What comes after the objects: hooks, and the record that the release is deployed.
        if let Some(waits) = release::finish(session, released, &manifests).await? {
            (done.ready, done.status.healthy, done.status.workload_healthy) = (false, false, false);
            done.status.message = waits;
        }
        Ok(done)
    };
    let done: Result<Done, StepError> = Box::pin(work).await;
    // The release has a record of its own, which has to say that it failed.
    if let Err(why) = &done {
        release::fail(session, released, &why.to_string()).await;
    }
    done
}

/// A component of which nothing can be checked yet.
fn waiting(
    session: &Session<'_>,
    part: &parse::ParsedComponent,
    placement: &Placement,
    message: String,
) -> Done {
    let namespace = match placement.namespace.as_str() {
        "" => session.owner.namespace.clone(),
        namespace => namespace.to_owned(),
    };
    let status = ComponentStatus {
        name: part.component.name.clone(),
        namespace,
        cluster: placement.cluster.clone(),
        workload_definition: WorkloadGvk {
            api_version: part.workload.0.clone(),
            kind: part.workload.1.clone(),
        },
        message,
        ..ComponentStatus::default()
    };
    Done { rendered: Rendered::default(), status, ready: false, is_later: false }
}

/// Brings the objects of a component to the cluster, stage by stage.
async fn dispatch_objects(
    session: &mut Session<'_>,
    run: &Run<'_>,
    part: &parse::ParsedComponent,
    placement: &Placement,
    mut rendered: Rendered,
) -> Result<Done, StepError> {
    if !session.ctx.settings.gates.multi_stage_component_apply {
        dispatch(session, &mut rendered, |_| true, placement).await?;
    } else {
        let first = Stage::PreDispatch;
        if dispatch(session, &mut rendered, |object| object.stage == first, placement).await? {
            let early = early(part, &rendered);
            let status = component::health(session, run.input, part, &early, placement).await?;
            if let Some(waits) = waits_for_early(early, status) {
                return Ok(waits);
            }
        }
        let second = Stage::DefaultDispatch;
        dispatch(session, &mut rendered, |object| object.stage == second, placement).await?;
    }
    checked(session, run, part, placement, rendered).await
}

/// The objects of the stage before the others, which are judged alone: the traits of later stages are pending.
pub(super) fn early(part: &parse::ParsedComponent, rendered: &Rendered) -> Rendered {
    let first = Stage::PreDispatch;
    Rendered {
        objects: rendered.objects.iter().filter(|o| o.stage == first).cloned().collect(),
        without_workload: true,
        pending: later_traits(part, first),
    }
}

/// The component as it waits for those objects, unless they are healthy.
pub(super) fn waits_for_early(early: Rendered, mut status: ComponentStatus) -> Option<Done> {
    if vela_api::status::is_healthy(std::slice::from_ref(&status)) {
        return None;
    }
    status.healthy = false;
    status.workload_healthy = false;
    if status.message.is_empty() {
        messages::WAITING_FOR_PREVIOUS_STAGE.clone_into(&mut status.message);
    }
    Some(Done { rendered: early, status, ready: false, is_later: false })
}

/// A component whose objects are written: its health, and the traits that wait for it.
pub(super) async fn checked(
    session: &mut Session<'_>,
    run: &Run<'_>,
    part: &parse::ParsedComponent,
    placement: &Placement,
    rendered: Rendered,
) -> Result<Done, StepError> {
    let status = component::health(session, run.input, part, &rendered, placement).await?;
    with_late_traits(session, run, part, placement, rendered, status).await
}

/// Dispatches some of a component's objects; they become what was dispatched. Returns whether there were any.
async fn dispatch(
    session: &mut Session<'_>,
    rendered: &mut Rendered,
    which: impl Fn(&Object) -> bool,
    placement: &Placement,
) -> Result<bool, StepError> {
    let (mut any, mut dispatched) = (false, Ok(()));
    for cluster in rendered.clusters(&placement.cluster) {
        let here = |object: &Object| which(object) && object.is_in(&cluster);
        let chosen = rendered.objects.iter().filter(|object| here(object));
        let mut manifests: Vec<Value> = chosen.map(|object| object.manifest.clone()).collect();
        if manifests.is_empty() {
            continue;
        }
        any = true;
        // What goes to one cluster does not depend on another.
        dispatched = dispatched.and(session.dispatch(&mut manifests, &cluster).await);
        let chosen = rendered.objects.iter_mut().filter(|object| here(object));
        // Namespaces may have been normalized: health is read by what was dispatched.
        for (object, manifest) in chosen.zip(manifests) {
            object.manifest = manifest;
        }
    }
    dispatched?;
    Ok(any)
}

/// The traits that wait for a healthy workload, once it is.
async fn with_late_traits(
    session: &mut Session<'_>,
    run: &Run<'_>,
    part: &parse::ParsedComponent,
    placement: &Placement,
    mut rendered: Rendered,
    mut status: ComponentStatus,
) -> Result<Done, StepError> {
    let ready = vela_api::status::is_healthy(std::slice::from_ref(&status));
    if has_late_traits(&rendered, &status) {
        rendered = late(session, run, part, &rendered, placement).await?;
        let late = Stage::PostDispatch;
        dispatch(session, &mut rendered, |object| object.stage == late, placement).await?;
        status = component::health(session, run.input, part, &rendered, placement).await?;
    }
    Ok(Done { rendered, status, ready, is_later: false })
}

/// Whether traits waited for a workload that is healthy.
pub(super) fn has_late_traits(rendered: &Rendered, status: &ComponentStatus) -> bool {
    status.workload_healthy && !rendered.pending.is_empty()
}

/// A component with the traits that waited for its workload. They may read it as it is: everything is rendered again with it.
pub(super) async fn late(
    session: &Session<'_>,
    run: &Run<'_>,
    part: &parse::ParsedComponent,
    rendered: &Rendered,
    placement: &Placement,
) -> Result<Rendered, StepError> {
    if let Some(rehearsal) = &session.ctx.rehearsal {
        rehearsal.renders_later(&part.component.name);
    }
    let live = live_of(session, part, rendered, placement).await;
    Ok(component::render(session.ctx, run.input, part, placement, live, true).await?)
}

/// Traits of later stages than `stage`.
fn later_traits(part: &parse::ParsedComponent, stage: Stage) -> Vec<usize> {
    part.traits
        .iter()
        .enumerate()
        .filter(|(_, definition)| definition.stage > stage)
        .map(|(index, _)| index)
        .collect()
}

/// The health of a component whose objects are in the cluster, without touching anything. PostDispatch traits count once
/// they were dispatched. With `diagnoses`, what its objects say of why it is not healthy; else nothing.
///
/// # Errors
/// A message.
pub async fn check_health(
    session: &mut Session<'_>,
    run: &Run<'_>,
    component: &ApplicationComponent,
    placement: &Placement,
    diagnoses: bool,
) -> Result<(ComponentStatus, String), StepError> {
    let mut part = parsed_component(session, run, component)?;
    if let Some(released) = released(session, run, &mut part, placement).await? {
        let restored = Box::pin(release::restore(session, &released)).await;
        restored?;
    }
    let live = live_workload(session, &component.name, placement).await;
    let (ctx, common) = (session.ctx, run.input);
    let mut rendered = component::render(ctx, common, &part, placement, live, false).await?;
    // The workload is there, so its late traits may have been dispatched.
    if !rendered.pending.is_empty()
        && let Some(live) = live_of(session, &part, &rendered, placement).await
    {
        rendered = component::render(ctx, common, &part, placement, Some(live), true).await?;
    }
    let status = component::health(session, run.input, &part, &rendered, placement).await?;
    // Diagnosing costs requests, and a healthy component has nothing to say.
    let why = if status.healthy || !diagnoses {
        String::new()
    } else {
        diagnosis::diagnose(session, &rendered.objects).await
    };
    Ok((status, why))
}

/// The workload of a rendered component as it is in the cluster.
async fn live_of(
    session: &Session<'_>,
    part: &parse::ParsedComponent,
    rendered: &Rendered,
    placement: &Placement,
) -> Option<Arc<Value>> {
    match rendered.objects.iter().find(|object| object.output.is_none()) {
        Some(workload) => component::live(session, workload).await,
        None => live_workload(session, &part.component.name, placement).await,
    }
}

/// The workload of a component as it is in the cluster: the one that is recorded for it at its placement. Which of several copies
/// it is is known only once it is rendered.
async fn live_workload(
    session: &Session<'_>,
    component: &str,
    placement: &Placement,
) -> Option<Arc<Value>> {
    if !placement.replica.is_empty() {
        return None;
    }
    let current = session.trackers.current(session.run());
    let here = |record: &Record| {
        cluster_of(&record.cluster) == cluster_of(&placement.cluster)
            && (placement.namespace.is_empty()
                || record.namespace.is_empty()
                || record.namespace == placement.namespace)
    };
    let record =
        // The workload, not an object of one of its traits.
        session
            .trackers
            .desired_in(&current, component)
            .into_iter()
            .find(|record| record.trait_.is_empty() && here(record))?;
    let key = vela_apply::tracker::key_of(record);
    session.live(&record.api_version, &key).await.ok().flatten()
}
