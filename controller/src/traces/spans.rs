//! The spans of a rollout that ended: the rollout, its steps and their sub-steps, the components they applied, and the objects of these.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::SystemTime;

use jiff::Timestamp;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use vela_api::names::{annotation, condition as types};
use vela_api::status::ComponentStatus;
use vela_api::workflow::{WorkflowStep, WorkflowStepStatus};
use vela_api::{AppStatus, Application, Time, condition};
use vela_workflow::Phase;

use super::progress::{ObjectKey, Progress};
use crate::metrics::Rollout;

/// Spans of one rollout; what is more is counted in an attribute of the rollout.
const MAX_SPANS: usize = 2_000;
/// Characters of a text in a span.
const MAX_TEXT: usize = 1_000;
/// Bytes of a `traceparent`: later versions may be longer than the 55 of today's.
const MAX_PARENT: usize = 256;
/// The step that applies one component.
const APPLY_COMPONENT: &str = "apply-component";

/// A rollout that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRollout<'a> {
    /// Its Application, as it was reconciled.
    pub(crate) app: &'a Application,
    /// The status at the end.
    pub(crate) status: &'a AppStatus,
    /// How it ended.
    pub(crate) result: Rollout,
    /// When its spec arrived.
    pub(crate) began: Timestamp,
    /// When it ended.
    pub(crate) ended: Timestamp,
    /// What was noted on the way.
    pub(crate) progress: &'a Progress,
}

/// An object of a component, as it is recorded.
#[derive(Debug, Clone)]
pub(crate) struct TracedObject {
    pub(crate) key: ObjectKey,
    pub(crate) component: String,
    pub(crate) trait_type: String,
}

/// The spans, the rollout's first; none if the caller of the rollout (`app.oam.dev/traceparent`) is not traced itself.
pub(crate) fn spans_of(rollout: EndedRollout<'_>, objects: &[TracedObject]) -> Vec<SpanData> {
    let parent = parent_of(rollout.app);
    if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
        return Vec::new();
    }
    let mut trace = Trace::new(rollout, parent.as_ref());
    let root = trace.rollout(parent.as_ref());
    let mut applies = HashMap::new();
    if let Some(run) = &rollout.status.workflow {
        for step in &run.steps {
            trace.step(step, (root, &step.name), &mut applies);
        }
    }
    let wanted = components_of(rollout.app);
    let mut components = HashMap::new();
    for service in &rollout.status.services {
        let steps: Vec<&str> = wanted
            .iter()
            .filter(|(_, component)| *component == service.name)
            .map(|(step, _)| *step)
            .collect();
        let step = match steps[..] {
            // Steps that the controller makes have the names of their components.
            [] => applies.get(service.name.as_str()),
            [step] => applies.get(step),
            // Several steps apply it: which of them did so in this cluster is not known.
            _ => None,
        };
        let (parent, start) = step.copied().unwrap_or((root, trace.start));
        trace.component(service, parent, start, &mut components);
    }
    for object in objects {
        let key = (object.component.as_str(), object.key[0].as_str());
        let (parent, start, end) =
            components.get(&key).copied().unwrap_or((root, trace.start, trace.end));
        trace.object(object, parent, start, end);
    }
    trace.finish()
}

/// Which steps of the spec apply which component.
fn components_of(app: &Application) -> Vec<(&str, String)> {
    fn collect<'a>(steps: &'a [WorkflowStep], found: &mut Vec<(&'a str, String)>) {
        for step in steps {
            if step.type_ == APPLY_COMPONENT
                && let Some(properties) = &step.properties
                && let Some(component) =
                    properties.to_value().get("component").and_then(Value::as_str)
            {
                found.push((&step.name, component.to_owned()));
            }
            collect(&step.sub_steps, found);
        }
    }
    let mut found = Vec::new();
    if let Some(workflow) = &app.spec.workflow {
        collect(&workflow.steps, &mut found);
    }
    found
}

/// The caller of a rollout, if the Application names one that is valid.
fn parent_of(app: &Application) -> Option<SpanContext> {
    let text = app.metadata.annotations.as_ref()?.get(annotation::TRACEPARENT)?;
    if text.len() > MAX_PARENT {
        return None;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), text.clone())]);
    let context = TraceContextPropagator::new().extract(&carrier);
    let parent = context.span().span_context().clone();
    parent.is_valid().then_some(parent)
}

/// A trace that is being made.
struct Trace<'a> {
    rollout: EndedRollout<'a>,
    scope: InstrumentationScope,
    /// What ids are made of.
    seed: [u8; 32],
    id: TraceId,
    start: SystemTime,
    end: SystemTime,
    spans: Vec<SpanData>,
    dropped: i64,
}

impl<'a> Trace<'a> {
    fn new(rollout: EndedRollout<'a>, parent: Option<&SpanContext>) -> Self {
        let mut hash = Sha256::new();
        let run = rollout.status.workflow.as_ref();
        let began = run.and_then(|run| run.start_time.as_ref()).map(|at| at.0.to_string());
        let revision = run.map(|run| run.app_revision.as_str());
        let uid = rollout.app.metadata.uid.as_deref();
        for part in [uid, revision, began.as_deref()] {
            hash.update(part.unwrap_or_default());
            hash.update([0]);
        }
        let seed: [u8; 32] = hash.finalize().into();
        let own = TraceId::from_bytes(first(&seed));
        Self {
            scope: InstrumentationScope::builder("vela-controller")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
            seed,
            id: parent.map_or(own, SpanContext::trace_id),
            start: rollout.began.into(),
            end: rollout.ended.max(rollout.began).into(),
            rollout,
            spans: Vec::new(),
            dropped: 0,
        }
    }

    /// An id that another process would give the same span.
    fn id_of(&self, kind: &str, path: &[&str]) -> SpanId {
        let mut hash = Sha256::new_with_prefix(self.seed);
        for part in [kind].iter().chain(path) {
            hash.update(part);
            hash.update([0]);
        }
        SpanId::from_bytes(first(&hash.finalize()))
    }

    /// A time within the rollout: those of a status are whole seconds, and may lie before its beginning.
    fn within(&self, at: SystemTime) -> SystemTime {
        at.clamp(self.start, self.end)
    }

    fn add(
        &mut self,
        id: SpanId,
        parent: SpanId,
        name: String,
        (start, end): (SystemTime, SystemTime),
        (status, attributes): (Status, Vec<KeyValue>),
        event: Option<Event>,
    ) {
        if self.spans.len() >= MAX_SPANS {
            self.dropped += 1;
            return;
        }
        let context =
            SpanContext::new(self.id, id, TraceFlags::SAMPLED, false, TraceState::default());
        let mut events = SpanEvents::default();
        events.events.extend(event);
        self.spans.push(SpanData {
            span_context: context,
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Owned(name),
            start_time: self.within(start),
            end_time: self.within(end).max(self.within(start)),
            attributes,
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status,
            instrumentation_scope: self.scope.clone(),
        });
    }

    fn rollout(&mut self, parent: Option<&SpanContext>) -> SpanId {
        let EndedRollout { app, status, result, .. } = self.rollout;
        let (namespace, name) = (
            app.metadata.namespace.clone().unwrap_or_default(),
            app.metadata.name.clone().unwrap_or_default(),
        );
        let id = self.id_of("rollout", &[]);
        let revision = status.latest_revision.as_ref().map(|revision| revision.name.clone());
        let state = match result {
            Rollout::Succeeded => Status::Ok,
            Rollout::Failed | Rollout::Terminated => {
                let ready = condition::get(&status.conditions, types::READY);
                Status::error(text(ready.map_or("", |ready| &ready.message)))
            }
        };
        let attributes = vec![
            KeyValue::new("k8s.namespace.name", namespace.clone()),
            KeyValue::new("vela.application", name.clone()),
            KeyValue::new("vela.revision", revision.unwrap_or_default()),
            KeyValue::new("vela.generation", app.metadata.generation.unwrap_or_default()),
            KeyValue::new("vela.result", result.as_str()),
        ];
        let caller = parent.map_or(SpanId::INVALID, SpanContext::span_id);
        let times = (self.start, self.end);
        self.add(
            id,
            caller,
            format!("rollout {namespace}/{name}"),
            times,
            (state, attributes),
            None,
        );
        if let Some(root) = self.spans.first_mut() {
            root.parent_span_is_remote = parent.is_some();
        }
        id
    }

    /// A step that was reached, with its sub-steps.
    fn step<'s>(
        &mut self,
        step: &'s WorkflowStepStatus,
        (parent, path): (SpanId, &str),
        applies: &mut HashMap<&'s str, (SpanId, SystemTime)>,
    ) {
        let Some(first) = &step.first_execute_time else { return };
        let start = SystemTime::from(first.0);
        // A group ends with the last of its sub-steps.
        let last = step.last_execute_time.as_ref().map_or(start, |last| last.0.into());
        let end = step
            .sub_steps
            .iter()
            .filter_map(|step| step.last_execute_time.as_ref())
            .map(|last: &Time| SystemTime::from(last.0))
            .fold(last, SystemTime::max);
        let id = self.id_of("step", &[path]);
        let state = match step.phase.as_str() {
            phase if phase == Phase::Succeeded.as_str() => Status::Ok,
            phase if phase == Phase::Failed.as_str() => Status::error(text(&step.message)),
            _ => Status::Unset,
        };
        let mut attributes = vec![
            KeyValue::new("vela.step", text(&step.name)),
            KeyValue::new("vela.step.type", text(&step.type_)),
            KeyValue::new("vela.step.phase", text(&step.phase)),
        ];
        if !step.reason.is_empty() {
            attributes.push(KeyValue::new("vela.step.reason", text(&step.reason)));
        }
        let event = (!step.message.is_empty()).then(|| {
            let why = KeyValue::new("message", text(&step.message));
            let name = if step.reason.is_empty() { text(&step.phase) } else { text(&step.reason) };
            Event::new(name, self.within(end), vec![why], 0)
        });
        self.add(
            id,
            parent,
            format!("step {}", text(&step.name)),
            (start, end),
            (state, attributes),
            event,
        );
        if step.type_ == APPLY_COMPONENT {
            applies.insert(&step.name, (id, self.within(start)));
        }
        for sub in &step.sub_steps {
            self.step(sub, (id, &format!("{path}/{}", sub.name)), applies);
        }
    }

    fn component<'s>(
        &mut self,
        service: &'s ComponentStatus,
        parent: SpanId,
        since: SystemTime,
        components: &mut HashMap<(&'s str, &'s str), (SpanId, SystemTime, SystemTime)>,
    ) {
        let key = (service.name.clone(), service.cluster.clone(), service.namespace.clone());
        let noted = self.rollout.progress.components.get(&key).copied();
        let start = noted.map_or(since, |noted| noted.first.into());
        let end = noted.and_then(|noted| noted.healthy).map_or(self.end, SystemTime::from);
        let id = self.id_of("component", &[&key.0, &key.1, &key.2]);
        let state =
            if service.healthy { Status::Ok } else { Status::error(text(&service.message)) };
        let attributes = vec![
            KeyValue::new("vela.component", text(&service.name)),
            KeyValue::new("k8s.cluster.name", cluster(&service.cluster)),
            KeyValue::new("k8s.namespace.name", text(&service.namespace)),
            KeyValue::new("vela.healthy", service.healthy),
        ];
        let name = format!("component {}", text(&service.name));
        self.add(id, parent, name, (start, end), (state, attributes), None);
        components.insert((&service.name, &service.cluster), (id, start, end));
    }

    fn object(
        &mut self,
        object: &TracedObject,
        parent: SpanId,
        since: SystemTime,
        end: SystemTime,
    ) {
        let noted = self.rollout.progress.objects.get(&object.key);
        let start = noted.map_or(since, |first| (*first).into());
        let parts = object.key.each_ref().map(String::as_str);
        let [in_cluster, api_version, kind, namespace, name] = parts;
        let mut attributes = vec![
            KeyValue::new("k8s.cluster.name", cluster(in_cluster)),
            KeyValue::new("k8s.namespace.name", text(namespace)),
            KeyValue::new("k8s.object.api_version", text(api_version)),
        ];
        if !object.trait_type.is_empty() {
            attributes.push(KeyValue::new("vela.trait", text(&object.trait_type)));
        }
        let id = self.id_of("object", &parts);
        self.add(
            id,
            parent,
            format!("{} {}", text(kind), text(name)),
            (start, end),
            (Status::Unset, attributes),
            None,
        );
    }

    fn finish(mut self) -> Vec<SpanData> {
        if self.dropped > 0
            && let Some(root) = self.spans.first_mut()
        {
            root.attributes.push(KeyValue::new("vela.spans.dropped", self.dropped));
        }
        self.spans
    }
}

fn cluster(name: &str) -> String {
    if name.is_empty() { vela_api::cluster::LOCAL.to_owned() } else { text(name) }
}

fn text(of: &str) -> String {
    of.chars().take(MAX_TEXT).collect()
}

/// The first bytes of a hash, which is longer than any id.
fn first<const N: usize>(hash: &[u8]) -> [u8; N] {
    hash.first_chunk().copied().unwrap_or([0; N])
}
