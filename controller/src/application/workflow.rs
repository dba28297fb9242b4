//! The workflow of an Application: the engine's attempts carried out.
//!
//! Answers for `pkg/workflow/providers/oam` and the driving half of `application_controller.go`. The engine
//! ([`vela_workflow`]) decides what runs and what follows; here a step of type `apply-component` becomes a dispatch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vela_api::application::ApplicationComponent;
use vela_api::names::creator;
use vela_api::status::ComponentStatus;
use vela_api::{Application, ClusterObjectReference};
use vela_apply::object::{api_version, kind, name, namespace};
use vela_render::Stage;
use vela_workflow::generate::BUILTIN_APPLY_COMPONENT;
use vela_workflow::{
    Attempt, Facts, Memory, Options, Outcome, Pass, Progress, Reason, Status, Verdict, Workflow,
    data,
};

use crate::messages;

use super::component::{self, Frame, Object, Place, Rendered};
use super::dispatch::Session;
use super::parse::{self, Used};
use super::steps;

/// What a pass over the workflow left.
#[derive(Debug)]
pub struct Ran {
    /// The engine's account.
    pub progress: Progress,
    /// Components whose health was looked at.
    pub services: Vec<ComponentStatus>,
    /// Objects that were dispatched.
    pub applied: Vec<ClusterObjectReference>,
}

/// What the steps work on.
#[derive(Debug)]
pub struct Run<'a> {
    /// The Application whose spec runs.
    pub app: &'a Application,
    /// The revision's definitions.
    pub used: &'a Used,
    /// The Application and the revision, for templates.
    pub frame: &'a Frame,
    /// Steps.
    pub workflow: &'a Workflow,
}

/// One pass over the workflow.
pub async fn pass(
    session: &mut Session<'_>,
    run: &Run<'_>,
    status: Status,
    memory: Memory,
    variables: Map<String, Value>,
    now: Timestamp,
) -> Ran {
    let options: Options = session.ctx.settings.workflow.clone();
    let facts = Facts {
        now,
        context: context(run.frame),
        variables,
        resume_at: resume_at(run.workflow, &status),
    };
    let mut services = Vec::new();
    let mut applied = Vec::new();
    let mut pass = Pass::begin(run.workflow, status, memory, facts, options);
    while let Some(attempt) = pass.next(&mut new_id) {
        let inputs = pass.inputs(&attempt);
        let outcome = match pass.definition(&attempt) {
            Some(step) => {
                let inputs: Vec<_> =
                    inputs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                attempt_step(session, run, step, &attempt, inputs, &mut services, &mut applied)
                    .await
            }
            None => {
                Outcome::of(Verdict::Fail(Reason::None), messages::unknown_step_kind(&attempt.kind))
            }
        };
        pass.complete(&attempt, outcome, Timestamp::now());
    }
    Ran { progress: pass.end(Timestamp::now()), services, applied }
}

/// `context` of conditions and inputs.
pub(super) fn context(frame: &Frame) -> Value {
    let app = &frame.app;
    json!({
        "name": app.name, "appName": app.name, "namespace": app.namespace,
        "appRevision": app.revision, "appLabels": app.labels, "appAnnotations": app.annotations,
    })
}

/// Identity of a step: ten random letters, as the reference makes them.
fn new_id(_: &str) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..10)
        .filter_map(|_| LETTERS.get(fastrand::usize(..LETTERS.len())).copied().map(char::from))
        .collect()
}

/// When steps that suspend with a duration go on.
fn resume_at(workflow: &Workflow, status: &Status) -> BTreeMap<String, Timestamp> {
    let mut out = BTreeMap::new();
    let steps = workflow.steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps));
    for step in steps.filter(|step| step.kind == "suspend") {
        let duration = step.properties.get("duration").and_then(Value::as_str);
        let Some(duration) = duration.and_then(|text| text.parse().ok()) else { continue };
        let duration: vela_gocompat::duration::Duration = duration;
        let Some(known) = status.find(&step.name) else { continue };
        let Some(since) = known.first_execute_time else { continue };
        let nanos = jiff::SignedDuration::from_nanos(duration.as_nanos());
        if let Ok(at) = since.checked_add(nanos) {
            out.insert(known.id.clone(), at);
        }
    }
    out
}

async fn attempt_step(
    session: &mut Session<'_>,
    run: &Run<'_>,
    step: &vela_workflow::Step,
    attempt: &Attempt,
    inputs: Vec<(String, Value)>,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Outcome {
    let mut parameter = step.properties.clone();
    for (key, value) in inputs {
        if key.is_empty() {
            continue;
        }
        if let Err(text) = data::set_input(&mut parameter, &key, value) {
            return Outcome::of(Verdict::Error, text);
        }
    }
    match step.kind.as_str() {
        BUILTIN_APPLY_COMPONENT => {
            apply_component(session, run, step, &parameter, services, applied).await
        }
        "suspend" => suspend(step, attempt),
        kind if run.used.steps.contains_key(kind) => {
            steps::run(session, run, step, attempt, &parameter, services, applied).await
        }
        kind => Outcome::of(Verdict::Fail(Reason::None), messages::unknown_step_kind(kind)),
    }
}

/// Halts until a person, or the step's duration, says go on.
fn suspend(step: &vela_workflow::Step, attempt: &Attempt) -> Outcome {
    let message = step.properties.get("message").and_then(Value::as_str).unwrap_or_default();
    let resumed = attempt.previous.as_ref().is_some_and(|previous| {
        let duration = step.properties.get("duration").and_then(Value::as_str);
        let over = duration
            .and_then(|text| text.parse::<vela_gocompat::duration::Duration>().ok())
            .zip(previous.first_execute_time)
            .is_some_and(|(duration, since)| {
                let nanos = jiff::SignedDuration::from_nanos(duration.as_nanos());
                since.checked_add(nanos).is_ok_and(|at| at <= Timestamp::now())
            });
        over || previous.phase == vela_workflow::Phase::Running
    });
    if resumed { Outcome::succeeded() } else { Outcome::of(Verdict::Suspend, message) }
}

async fn apply_component(
    session: &mut Session<'_>,
    run: &Run<'_>,
    step: &vela_workflow::Step,
    parameter: &Map<String, Value>,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Outcome {
    let (component, place) = match component_and_place(parameter) {
        Ok(found) => found,
        Err(text) => return Outcome::of(Verdict::Error, text),
    };
    match apply(session, run, &component, &place).await {
        Err(text) => Outcome::of(Verdict::Error, text),
        Ok(done) => {
            let healthy = super::status::is_healthy(std::slice::from_ref(&done.status));
            note(&done, &place, services, applied);
            if !healthy {
                return Outcome::of(Verdict::Wait, messages::WAIT_HEALTHY);
            }
            let mut outcome = Outcome::succeeded();
            for output in &step.outputs {
                match read_output(session, &done, &place, &output.value_from).await {
                    Some(value) => outcome.variables.push((output.name.clone(), value)),
                    None => {
                        let text = messages::output_not_ready(&output.name, &output.value_from);
                        return Outcome::of(Verdict::Wait, text);
                    }
                }
            }
            outcome
        }
    }
}

/// The component that a parameter holds, and where it goes.
///
/// # Errors
/// In words, for the step.
pub(super) fn component_and_place(
    parameter: &Map<String, Value>,
) -> Result<(ApplicationComponent, Place), String> {
    let text =
        |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let place =
        Place { cluster: text("cluster"), namespace: text("namespace"), replica: String::new() };
    let value = parameter.get("value").cloned().unwrap_or(Value::Null);
    let component = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Ok((component, place))
}

/// Remembers what a component came to.
pub(super) fn note(
    done: &Done,
    place: &Place,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) {
    for object in &done.rendered.objects {
        let reference = reference(object, place);
        if !applied.contains(&reference) {
            applied.push(reference);
        }
    }
    services.push(done.status.clone());
}

/// A component after an attempt to bring it to the cluster.
#[derive(Debug)]
pub struct Done {
    /// Its objects.
    pub rendered: Rendered,
    /// Its health.
    pub status: ComponentStatus,
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
    let ctx = session.ctx;
    let part = parse::part(component, run.used).map_err(|error| error.to_string())?;
    let live = live_workload(session, &component.name).await;
    let mut rendered = component::render(ctx, run.frame, &part, place, live, false).await?;
    for stage in [Stage::PreDispatch, Stage::DefaultDispatch] {
        let staged = ctx.settings.gates.multi_stage_component_apply;
        if !staged && stage == Stage::PreDispatch {
            continue;
        }
        let in_stage = |object: &&mut Object| !staged || object.stage == stage;
        let mut manifests: Vec<Value> = rendered
            .objects
            .iter_mut()
            .filter(in_stage)
            .map(|object| object.manifest.clone())
            .collect();
        if manifests.is_empty() {
            continue;
        }
        session.dispatch(&mut manifests, &place.cluster).await?;
        let mut manifests = manifests.into_iter();
        for object in rendered.objects.iter_mut().filter(|o| !staged || o.stage == stage) {
            if let Some(manifest) = manifests.next() {
                object.manifest = manifest;
            }
        }
        if staged && stage == Stage::PreDispatch {
            let only = Rendered {
                objects: rendered.objects.iter().filter(|o| o.stage == stage).cloned().collect(),
                without_workload: true,
                pending: later_traits(&part, stage),
            };
            let mut status = component::health(session, run.frame, &part, &only, place).await?;
            if !super::status::is_healthy(std::slice::from_ref(&status)) {
                status.healthy = false;
                status.workload_healthy = false;
                if status.message.is_empty() {
                    messages::WAITING_FOR_PREVIOUS_STAGE.clone_into(&mut status.message);
                }
                return Ok(Done { rendered: only, status });
            }
        }
    }
    let mut status = component::health(session, run.frame, &part, &rendered, place).await?;
    if status.workload_healthy && !rendered.pending.is_empty() {
        let live = live_workload(session, &component.name).await;
        rendered = component::render(ctx, run.frame, &part, place, live, true).await?;
        let mut late: Vec<Value> = rendered
            .objects
            .iter()
            .filter(|object| object.stage == Stage::PostDispatch)
            .map(|object| object.manifest.clone())
            .collect();
        session.dispatch(&mut late, &place.cluster).await?;
        let mut late = late.into_iter();
        for object in rendered.objects.iter_mut().filter(|o| o.stage == Stage::PostDispatch) {
            if let Some(manifest) = late.next() {
                object.manifest = manifest;
            }
        }
        status = component::health(session, run.frame, &part, &rendered, place).await?;
    }
    Ok(Done { rendered, status })
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
    let part = parse::part(component, run.used).map_err(|error| error.to_string())?;
    let live = live_workload(session, &component.name).await;
    let healthy = live.is_some();
    let rendered = component::render(session.ctx, run.frame, &part, place, live, healthy).await?;
    component::health(session, run.frame, &part, &rendered, place).await
}

/// The workload of a component as it is in the cluster: the one that is recorded for it.
async fn live_workload(session: &Session<'_>, component: &str) -> Option<Value> {
    let current = session.trackers.current(session.run());
    let record = session
        .trackers
        .desired(&current)
        .into_iter()
        .find(|record| record.component == component && record.trait_.is_empty())?;
    let key = vela_apply::tracker::key_of(&record);
    let live = session.ctx.live.get(&record.api_version, &key).await.ok().flatten()?;
    Some(live.value())
}

fn reference(object: &Object, place: &Place) -> ClusterObjectReference {
    let manifest = &object.manifest;
    ClusterObjectReference {
        api_version: api_version(manifest).to_owned(),
        cluster: place.cluster.clone(),
        creator: creator::WORKFLOW.to_owned(),
        kind: kind(manifest).to_owned(),
        name: name(manifest).to_owned(),
        namespace: namespace(manifest).to_owned(),
        ..ClusterObjectReference::default()
    }
}

/// `output` and `outputs` of a component: its objects as they are in the cluster.
pub(super) async fn outputs(session: &Session<'_>, done: &Done, place: &Place) -> Value {
    let (mut output, mut outputs) = (Value::Null, Map::new());
    for object in &done.rendered.objects {
        let live = component::live(session, &object.manifest, place).await;
        let value = live.unwrap_or_else(|| object.manifest.clone());
        match &object.output {
            None => output = value,
            Some(name) => {
                outputs.insert(name.clone(), value);
            }
        }
    }
    json!({"output": output, "outputs": outputs})
}

/// A value of a component for other components: a path below `output`, `outputs.<name>` or `context`.
async fn read_output(
    session: &Session<'_>,
    done: &Done,
    place: &Place,
    value_from: &str,
) -> Option<Value> {
    let root = outputs(session, done, place).await;
    let mut at = &root;
    for part in value_from.split('.') {
        let (field, indexes) = part.split_once('[').map_or((part, ""), |(f, rest)| (f, rest));
        at = at.get(field.trim_matches('"'))?;
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            let inside = index.trim_end_matches(']');
            at = match inside.parse::<usize>() {
                Ok(index) => at.get(index)?,
                Err(_) => at.get(inside.trim_matches('"'))?,
            };
        }
    }
    Some(at.clone())
}
