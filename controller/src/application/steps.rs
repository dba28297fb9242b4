//! Steps with a template: the template is evaluated on the pool, the calls it makes are carried out here.
//!
//! Evaluation is synchronous and calls are not, so they take turns: the template is evaluated with the answers known so
//! far until it makes a call without one; that call is carried out, and the template is evaluated again. Evaluating is
//! far cheaper than any call, and each call is made once a look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::info;
use vela_api::ClusterObjectReference;
use vela_api::application::ApplicationComponent;
use vela_api::names::{annotation, label};
use vela_api::status::ComponentStatus;
use vela_apply::object::{namespace, set_label, set_namespace};
use vela_apply::plan::PatchKind;
use vela_cluster::Target;
use vela_workflow::{
    Attempt, Notes, Outcome, ProviderCall, Providers, Reason, Reply, StepRun, Template, Verdict,
};

use crate::messages;

use super::component::Place;
use super::dispatch::Session;
use super::placement;
use super::workflow::{self, Run};

/// Calls one step may make in one look; real templates make a handful.
const MOST_CALLS: usize = 200;
/// Budget of one evaluation, waiting for a thread included.
const BUDGET: Duration = Duration::from_secs(60);

/// A call that has no answer yet.
#[derive(Debug)]
struct Pending {
    provider: String,
    function: String,
    params: Value,
}

/// Answers that are known, in the order of the calls.
struct Known {
    replies: Vec<Reply>,
    next: usize,
    pending: Option<Pending>,
}

impl Providers for Known {
    fn call(&mut self, call: &ProviderCall<'_>) -> Reply {
        if let Some(reply) = self.replies.get(self.next) {
            self.next += 1;
            return reply.clone();
        }
        self.pending = Some(Pending {
            provider: call.provider.to_owned(),
            function: call.function.to_owned(),
            params: call.params.clone(),
        });
        Reply::Later
    }
}

/// Runs a step once.
pub(super) async fn run(
    session: &mut Session<'_>,
    run: &Run<'_>,
    step: &vela_workflow::Step,
    attempt: &Attempt,
    parameter: &Map<String, Value>,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Outcome {
    let fail = |text: String| Outcome::of(Verdict::Fail(Reason::Rendering), text);
    let definition = run.used.steps.get(&step.kind);
    let schematic = definition.and_then(|d| d.spec.schematic.as_ref());
    let Some(template) = schematic.and_then(|s| s.cue.as_ref()).map(|cue| cue.template.clone())
    else {
        return fail(messages::step_without_template(&step.kind));
    };
    let compiled = session
        .ctx
        .pool
        .run(Instant::now() + BUDGET, move |_| vela_workflow::compile(&template))
        .await;
    let program = match compiled {
        Ok(Ok(program)) => Arc::new(program),
        Ok(Err(errors)) => return Outcome::of(Verdict::Error, errors.to_string().trim_end()),
        Err(error) => return Outcome::of(Verdict::Error, error.to_string()),
    };
    let mut replies = Vec::new();
    while replies.len() < MOST_CALLS {
        let evaluated = evaluate(session, run, &program, step, attempt, parameter, &replies).await;
        let (outcome, pending) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(text) => return Outcome::of(Verdict::Error, text),
        };
        let Some(call) = pending else { return outcome };
        replies.push(answer(session, run, &call, services, applied).await);
    }
    fail(messages::too_many_calls(MOST_CALLS))
}

/// One evaluation with the answers known so far.
async fn evaluate(
    session: &Session<'_>,
    run: &Run<'_>,
    program: &Arc<Template>,
    step: &vela_workflow::Step,
    attempt: &Attempt,
    parameter: &Map<String, Value>,
    replies: &[Reply],
) -> Result<(Outcome, Option<Pending>), String> {
    let mut context = workflow::context(run.frame);
    if let Some(context) = context.as_object_mut() {
        context.insert("stepName".to_owned(), json!(attempt.name));
        context.insert("stepSessionID".to_owned(), json!(attempt.id));
        if let Some(group) = &attempt.group {
            context.insert("stepGroupName".to_owned(), json!(group));
        }
    }
    let key = crate::queue::Key::new(&*session.owner.namespace, &*session.owner.name);
    let memory = session.ctx.memory(&key);
    let (notes, variables) = {
        let memory = memory.lock();
        (memory.notes.clone(), memory.variables.1.clone())
    };
    let (program, parameter) = (Arc::clone(program), Value::Object(parameter.clone()));
    let (id, previous) = (attempt.id.clone(), attempt.previous.as_ref().map(|p| p.phase));
    let (outputs, replies) = (step.outputs.clone(), replies.to_vec());
    let limits = session.ctx.settings.workflow.limits.clone();
    let job = move |_: &vela_serve::pool::Budget| {
        let mut notes: Notes = notes;
        let mut known = Known { replies, next: 0, pending: None };
        let step = StepRun {
            id: &id,
            previous,
            context: &context,
            parameter: &parameter,
            outputs: &outputs,
            now: Timestamp::now(),
            limits: &limits,
        };
        let result = vela_workflow::run(&program, &step, &variables, &mut notes, &mut known);
        (result.outcome, known.pending, notes)
    };
    let (outcome, pending, notes) = session
        .ctx
        .pool
        .run(Instant::now() + BUDGET, job)
        .await
        .map_err(|error| error.to_string())?;
    if pending.is_none() {
        memory.lock().notes = notes;
    }
    Ok((outcome, pending))
}

/// Carries out one call.
async fn answer(
    session: &mut Session<'_>,
    run: &Run<'_>,
    call: &Pending,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Reply {
    let params = &call.params;
    let value = || params.get("value").cloned().unwrap_or(Value::Null);
    let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
    match (call.provider.as_str(), call.function.as_str()) {
        ("kube" | "op", "apply") => match dispatch(session, vec![value()], text("cluster")).await {
            Ok(mut live) => Reply::Returns(json!({"value": live.pop()})),
            Err(error) => Reply::Error(error),
        },
        ("kube" | "op", "apply-in-parallel") => {
            let objects = params.get("value").and_then(Value::as_array).cloned();
            match dispatch(session, objects.unwrap_or_default(), text("cluster")).await {
                Ok(live) => Reply::Returns(json!({ "value": live })),
                Err(error) => Reply::Error(error),
            }
        }
        ("kube" | "op", "read") => read(session, value()).await,
        ("kube" | "op", "delete") if params.get("filter").is_none() => {
            delete(session, value()).await
        }
        ("util" | "op", "log") => {
            let data = params.get("data").map(Value::to_string).unwrap_or_default();
            info!(app = %session.owner.name, namespace = %session.owner.namespace, data, "step log");
            Reply::Returns(Value::Null)
        }
        ("oam" | "op", "load") => {
            let named = run.app.spec.components.iter().map(|c| (c.name.clone(), bare(c)));
            Reply::Returns(json!({"value": Value::Object(named.collect())}))
        }
        ("oam" | "op", "load-comps-in-order") => {
            let all: Vec<Value> = run.app.spec.components.iter().map(bare).collect();
            Reply::Returns(json!({ "value": all }))
        }
        ("oam" | "op", "load-policies") => {
            let named = run.app.spec.policies.iter().map(|policy| {
                (policy.name.clone(), serde_json::to_value(policy).unwrap_or(Value::Null))
            });
            Reply::Returns(json!({"value": Value::Object(named.collect())}))
        }
        ("oam" | "op", "component-apply") => {
            apply_component(session, run, params, services, applied).await
        }
        ("oam", "schedule-restart") => schedule_restart(session, params).await,
        ("multicluster" | "op", "deploy") => deploy(session, run, params, services, applied).await,
        ("multicluster" | "op", "list-clusters") => {
            Reply::Returns(json!({"outputs": {"clusters": ["local"]}}))
        }
        ("multicluster" | "op", "get-placements-from-topology-policies") => {
            match placement::place(run.app, &names(params)) {
                Ok(placed) => {
                    let place = |(cluster, namespace): &(String, String)| json!({"cluster": cluster, "namespace": namespace});
                    let places: Vec<Value> = placed.places.iter().map(place).collect();
                    Reply::Returns(json!({ "placements": places }))
                }
                Err(error) => Reply::Error(error),
            }
        }
        (provider, function) => Reply::Fail(messages::unsupported_call(provider, function)),
    }
}

fn names(params: &Value) -> Vec<String> {
    let list = params.get("policies").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// A component as steps see it: without what the engine deals with.
fn bare(component: &ApplicationComponent) -> Value {
    let bare = ApplicationComponent {
        inputs: Vec::new(),
        outputs: Vec::new(),
        depends_on: Vec::new(),
        ..component.clone()
    };
    serde_json::to_value(bare).unwrap_or(Value::Null)
}

/// Applies objects of a step: recorded and labelled as the Application's.
async fn dispatch(
    session: &mut Session<'_>,
    mut objects: Vec<Value>,
    cluster: &str,
) -> Result<Vec<Value>, String> {
    for object in &mut objects {
        if namespace(object).is_empty() {
            set_namespace(object, "default");
        }
        set_label(object, label::APP_NAME, &session.owner.name);
        set_label(object, label::APP_NAMESPACE, &session.owner.namespace);
    }
    session.dispatch(&mut objects, cluster).await?;
    let session = &*session;
    let read = stream::iter(&objects).then(|object| async move {
        let live = session.ctx.io.get(&Target::of(object), &session.identity).await;
        live.map_err(|error| error.to_string())
    });
    let live: Vec<Result<Value, String>> = read.collect().await;
    live.into_iter().collect()
}

async fn read(session: &Session<'_>, mut object: Value) -> Reply {
    if namespace(&object).is_empty() {
        set_namespace(&mut object, "default");
    }
    match session.ctx.io.get(&Target::of(&object), &session.identity).await {
        Ok(live) => Reply::Returns(json!({ "value": live })),
        Err(error) => Reply::Returns(json!({"value": object, "err": error.to_string()})),
    }
}

async fn delete(session: &Session<'_>, object: Value) -> Reply {
    match session.ctx.io.delete(&Target::of(&object), "", None, &session.identity).await {
        Ok(()) => Reply::Returns(Value::Null),
        Err(error) => Reply::Returns(json!({"err": error.to_string()})),
    }
}

async fn apply_component(
    session: &mut Session<'_>,
    run: &Run<'_>,
    params: &Value,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Reply {
    let parameter = params.as_object().cloned().unwrap_or_default();
    let (component, place) = match workflow::component_and_place(&parameter) {
        Ok(found) => found,
        Err(error) => return Reply::Error(error),
    };
    let done = match workflow::apply(session, run, &component, &place).await {
        Ok(done) => done,
        Err(error) => return Reply::Error(error),
    };
    workflow::note(&done, &place, services, applied);
    let returned = workflow::outputs(session, &done, &place).await;
    let waits = params.get("waitHealthy").and_then(Value::as_bool).unwrap_or(true);
    if waits && !super::status::is_healthy(std::slice::from_ref(&done.status)) {
        return Reply::ReturnsAndWait(returned, messages::WAIT_HEALTHY.to_owned());
    }
    Reply::Returns(returned)
}

/// Deploys components to their places; those whose dependencies are not healthy wait.
async fn deploy(
    session: &mut Session<'_>,
    run: &Run<'_>,
    params: &Value,
    services: &mut Vec<ComponentStatus>,
    applied: &mut Vec<ClusterObjectReference>,
) -> Reply {
    let placed = match placement::place(run.app, &names(params)) {
        Ok(placed) => placed,
        Err(error) => return Reply::Error(error),
    };
    let mut reasons = Vec::new();
    for (cluster, namespace) in &placed.places {
        let place = Place {
            cluster: cluster.clone(),
            namespace: namespace.clone(),
            replica: String::new(),
        };
        let mut healthy: Vec<&str> = Vec::new();
        let mut left: Vec<&ApplicationComponent> = placed.components.iter().collect();
        // each round deploys what no longer waits for anything
        while !left.is_empty() {
            let ready = |c: &&ApplicationComponent| {
                c.depends_on.iter().all(|name| healthy.contains(&name.as_str()))
            };
            let (now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(ready);
            left = later;
            let before = healthy.len();
            for component in now {
                let key = format!("{cluster}/{namespace}//{}", component.name);
                match workflow::apply(session, run, component, &place).await {
                    Ok(done) => {
                        workflow::note(&done, &place, services, applied);
                        if super::status::is_healthy(std::slice::from_ref(&done.status)) {
                            healthy.push(&component.name);
                        } else {
                            reasons.push(messages::deploy_not_healthy(&key));
                        }
                    }
                    Err(error) => return Reply::Error(messages::deploy_failed(cluster, &error)),
                }
            }
            if healthy.len() == before {
                break;
            }
        }
        for component in left {
            let key = format!("{cluster}/{namespace}//{}", component.name);
            reasons.push(messages::deploy_waiting(&key));
        }
    }
    if reasons.is_empty() { Reply::Returns(Value::Null) } else { Reply::Wait(reasons.join(",")) }
}

/// Asks for the workflow to run again, by the annotation that people use too.
async fn schedule_restart(session: &Session<'_>, params: &Value) -> Reply {
    let text = |key: &str| params.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    let value = if let Some(at) = text("at") {
        at.to_owned()
    } else if let Some(after) = text("after") {
        let Some(length) = duration(after) else {
            return Reply::Fail(messages::restart_unreadable(after));
        };
        let due = Timestamp::now().saturating_add(length).unwrap_or(Timestamp::MAX);
        Timestamp::from_second(due.as_second()).unwrap_or(due).to_string()
    } else {
        let every = text("every").unwrap_or_default();
        let Some(length) = duration(every) else {
            return Reply::Fail(messages::restart_unreadable(every));
        };
        format!("{}s", length.as_secs())
    };
    let app = json!({
        "apiVersion": vela_api::V1BETA1, "kind": "Application",
        "metadata": {"name": session.owner.name, "namespace": session.owner.namespace},
    });
    let patch = json!({"metadata": {"annotations": {annotation::RESTART_WORKFLOW: value}}});
    let own = vela_cluster::Identity::default();
    let done =
        session.ctx.io.patch(&Target::of(&app), "", (PatchKind::Merge, &patch), false, &own).await;
    match done {
        Ok(_) => Reply::Returns(Value::Null),
        Err(error) => Reply::Error(error.to_string()),
    }
}

/// A duration that may be in days, which Go's have not.
fn duration(text: &str) -> Option<jiff::SignedDuration> {
    if let Some(days) = text.strip_suffix('d') {
        return Some(jiff::SignedDuration::from_hours(days.parse::<i64>().ok()?.checked_mul(24)?));
    }
    let length: vela_gocompat::duration::Duration = text.parse().ok()?;
    Some(jiff::SignedDuration::from_nanos(length.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_be_in_days() {
        assert_eq!(duration("2d"), Some(jiff::SignedDuration::from_hours(48)));
        assert_eq!(duration("90m"), Some(jiff::SignedDuration::from_mins(90)));
        assert_eq!(duration("soon"), None);
        assert_eq!(duration("999999999999999999d"), None);
    }
}
