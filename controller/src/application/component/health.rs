//! The health of a component, read from its live objects: the workload by its definition's texts, each trait by its own.
//!
//! Answers for the health half of `apply.go`. The evaluation runs on the pool: it is CPU work of unknown length.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use vela_api::reference::WorkloadGvk;
use vela_api::status::{ComponentStatus, TraitStatus};
use vela_apply::ResourceKey;
use vela_apply::object::api_version;
use vela_render::{App, Health, HealthInput, Renderer, StatusTexts};

use crate::application::component::ComponentError;
use crate::messages;

use super::super::facts::properties;
use super::super::release;
use super::super::session::Session;
use super::{Object, RenderInput, Rendered};
use crate::application::facts::parse::ParsedComponent;
use crate::application::placement::Placement;

/// The live object of one that was rendered, `None` if it is not there.
pub async fn live(session: &Session<'_>, object: &Object) -> Option<Arc<Value>> {
    let (manifest, cluster) = (&object.manifest, object.cluster());
    let key = ResourceKey::of(manifest, cluster);
    let cached = session.live(api_version(manifest), &key).await.ok().flatten();
    // The cache has all objects that carry our labels.
    if cached.is_some() {
        return cached;
    }
    // Read-only objects carry none of our labels, so they are read here.
    let policies = &session.policies;
    let may_lack_marks = policies.is_read_only(manifest) || policies.is_shared(manifest);
    if may_lack_marks {
        let target = vela_cluster::Target::of(manifest);
        let at = session.reach_to(cluster, "get").await.ok()?;
        return at.requests().get(&target).await.ok().map(Arc::new);
    }
    // What ran to its end and was removed for that is judged by how it ended.
    session.completed(manifest, &key)
}

/// The health of a component, read from its live objects.
///
/// # Errors
/// The evaluation did not end; what templates cannot evaluate is not healthy instead.
pub async fn health(
    session: &Session<'_>,
    common: &RenderInput,
    part: &ParsedComponent,
    rendered: &Rendered,
    placement: &Placement,
) -> Result<ComponentStatus, ComponentError> {
    let mut objects = Vec::with_capacity(rendered.objects.len());
    for object in &rendered.objects {
        objects.push(Found {
            output: object.output.clone(),
            trait_index: object.trait_index,
            live: live(session, object).await,
        });
    }
    // Judged before the objects go to the pool.
    let unready = unready(part, &objects);
    let inputs = Inputs {
        app: Arc::clone(&common.app),
        part: part.clone(),
        objects,
        pending: rendered.pending.clone(),
        without_workload: rendered.without_workload,
    };
    let namespace = if placement.namespace.is_empty() {
        &session.owner.namespace
    } else {
        &placement.namespace
    };
    let mut status = session
        .ctx
        .cue
        .run(move |scope| inputs.judge(&scope.renderer))
        .await
        .map_err(ComponentError::NotJudged)?;
    if let Some(message) = unready.filter(|_| status.healthy) {
        (status.healthy, status.workload_healthy) = (false, false);
        status.message = messages::with_cause(&status.message, &message);
    }
    if let Some(rehearsal) = &session.ctx.rehearsal {
        // A plan pretends that everything becomes healthy, as far as templates allow.
        rehearsal.heal(&mut status, rendered.without_workload);
    }
    namespace.clone_into(&mut status.namespace);
    placement.cluster.clone_into(&mut status.cluster);
    Ok(status)
}

/// What is not ready of a release for which nobody says when it is healthy.
fn unready(part: &ParsedComponent, objects: &[Found]) -> Option<String> {
    part.chart.as_ref()?;
    let properties = properties(part.component.properties.as_ref());
    // The user has said what healthy means.
    let criteria = properties.as_ref().and_then(|it| it.get("healthStatus")?.as_array());
    if criteria.is_some_and(|criteria| !criteria.is_empty()) {
        return None;
    }
    let own = objects.iter().filter(|object| object.trait_index.is_none());
    own.filter_map(|object| object.live.as_deref()).find_map(release::waits_for)
}

/// Everything that health evaluation reads.
struct Inputs {
    app: Arc<App>,
    part: ParsedComponent,
    objects: Vec<Found>,
    /// Traits that are rendered only once the workload is healthy.
    pending: Vec<usize>,
    /// A trait stands for the workload.
    without_workload: bool,
}

/// An object of a component as it is in the cluster.
struct Found {
    /// Key in `outputs`; `None` for the workload.
    output: Option<String>,
    /// Which of the component's traits made it; `None` for the component itself.
    trait_index: Option<usize>,
    /// `None` if it is not there.
    live: Option<Arc<Value>>,
}

impl Inputs {
    fn judge(&self, renderer: &Renderer) -> ComponentStatus {
        let mut status = ComponentStatus {
            name: self.part.component.name.clone(),
            workload_definition: WorkloadGvk {
                api_version: self.part.workload.0.clone(),
                kind: self.part.workload.1.clone(),
            },
            ..ComponentStatus::default()
        };
        // A component without objects has nothing that could be unhealthy.
        let has_nothing = self.objects.is_empty();
        if self.without_workload || has_nothing {
            status.healthy = true;
            status.workload_healthy = has_nothing && !self.without_workload;
        } else {
            self.judge_workload(renderer, &mut status);
        }
        if !self.judge_traits(renderer, &mut status) {
            status.healthy = false;
            if self.without_workload && status.message.is_empty() {
                messages::TRAITS_NOT_HEALTHY.clone_into(&mut status.message);
            }
        }
        status
    }

    fn judge_workload(&self, renderer: &Renderer, status: &mut ComponentStatus) {
        let workload = self.objects.iter().find(|object| object.output.is_none());
        let workload = workload.and_then(|object| object.live.as_deref());
        if let (Some(workload), Some(outputs)) = (workload, self.outputs(None)) {
            let properties = properties(self.part.component.properties.as_ref());
            let texts = &self.part.definition.status;
            let health =
                self.evaluate(renderer, texts, properties.as_ref(), Some(workload), outputs);
            status.workload_healthy = health.healthy;
            status.message = health.message;
            status.details = health.details.unwrap_or_default().into_iter().collect();
        }
        // The workload's own words are better than what the template makes of its numbers.
        if let Some(cause) = workload.filter(|_| !status.workload_healthy).and_then(cause) {
            status.message = messages::with_cause(&status.message, &cause);
        }
        status.healthy = status.workload_healthy;
    }

    /// Returns whether all are healthy that were rendered.
    fn judge_traits(&self, renderer: &Renderer, status: &mut ComponentStatus) -> bool {
        let mut all_healthy = true;
        let traits = self.part.component.traits.iter().zip(&self.part.traits);
        for (index, (written, definition)) in traits.enumerate() {
            // The reference shows the type `scaler@v2` as `scaler-v2`.
            let type_ = written.type_.replace('@', "-");
            let mut one = TraitStatus { type_, ..TraitStatus::default() };
            if self.pending.contains(&index) {
                one.pending = true;
                messages::PENDING_TRAIT.clone_into(&mut one.message);
                status.traits.push(one);
                continue;
            }
            if let Some(outputs) = self.outputs(Some(index)) {
                let properties = properties(written.properties.as_ref());
                let texts = &definition.status;
                let health = self.evaluate(renderer, texts, properties.as_ref(), None, outputs);
                one.healthy = health.healthy;
                one.message = health.message;
                one.details = health.details.unwrap_or_default().into_iter().collect();
            }
            // One trait that is not healthy holds up the whole component.
            all_healthy &= one.healthy;
            // The first reason counts, the workload's before those of traits.
            if status.message.is_empty() {
                one.message.clone_into(&mut status.message);
            }
            status.traits.push(one);
        }
        all_healthy
    }

    /// The live auxiliary objects that the component (`None`) or one of its traits made, by their keys in
    /// `outputs`; `None` if one of them is not there.
    fn outputs(&self, made_by: Option<usize>) -> Option<BTreeMap<&str, &Value>> {
        let mut found = BTreeMap::new();
        for object in &self.objects {
            if object.trait_index == made_by
                && let Some(name) = &object.output
            {
                // Half of the outputs would be judged as if the rest did not exist.
                found.insert(name.as_str(), object.live.as_deref()?);
            }
        }
        Some(found)
    }

    fn evaluate(
        &self,
        renderer: &Renderer,
        texts: &StatusTexts,
        parameter: Option<&Value>,
        output: Option<&Value>,
        outputs: BTreeMap<&str, &Value>,
    ) -> Health {
        let input = HealthInput {
            name: &self.part.component.name,
            app_name: &self.app.name,
            app_revision: &self.app.revision,
            parameter,
            output,
            outputs: Some(outputs),
        };
        renderer.health(texts, &input)
    }
}

/// What a workload's own conditions say about why it is not well.
fn cause(workload: &Value) -> Option<String> {
    let conditions = workload.pointer("/status/conditions").and_then(Value::as_array)?;
    let text = |condition: &Value, key: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    conditions.iter().find_map(|condition| {
        let (type_, status) = (text(condition, "type"), text(condition, "status"));
        let is_bad = match type_.as_str() {
            "Progressing" => status == "False",
            // `ReplicaFailure` and its like are named by what went wrong.
            other => (other.ends_with("Failure") || other == "Failed") && status == "True",
        };
        let message = text(condition, "message");
        (is_bad && !message.is_empty()).then_some(message)
    })
}
