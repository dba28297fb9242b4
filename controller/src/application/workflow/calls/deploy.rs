//! `vela/multicluster`: the `deploy` step and its placements.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use vela_api::RawExtension;
use vela_api::application::ApplicationComponent;
use vela_api::workflow::OutputItem;
use vela_workflow::{Reply, data};

use crate::application::placement::Placement;
use crate::application::workflow;
use crate::application::workflow::error::StepError;
use crate::evaluation::EvaluationScope;
use crate::messages;

use super::super::placement::{self, ComponentPlacements, Named};
use super::{Calling, names};

/// Components deployed at once, whatever a step asks for.
const MAX_PARALLELISM: usize = 32;

impl Calling<'_, '_, '_> {
    /// The policies that a step may name.
    fn named<'n>(&'n self, inline: &'n [Value]) -> Named<'n> {
        let crosses_namespaces = self.session.ctx.settings.allow_cross_namespace;
        let clusters = self.run.clusters.as_deref();
        Named {
            app: self.run.app,
            external: self.run.policies,
            inline,
            crosses_namespaces,
            clusters,
        }
    }

    pub(super) fn placements(&self, params: &Value) -> Result<Value, StepError> {
        let wanted = names(params, "policies");
        let named = self.named(&[]);
        let resolved = placement::resolve(&named, &wanted)?;
        let placement = |at: &Placement| json!({"cluster": at.cluster, "namespace": at.namespace});
        let targets: Vec<Value> = resolved.placements.iter().map(placement).collect();
        Ok(json!({ "placements": targets }))
    }

    fn is_terraform(&self, component: &ApplicationComponent) -> bool {
        let definition = self.run.used.components.get(&component.type_);
        definition
            .and_then(|d| d.spec.schematic.as_ref())
            .is_some_and(|schematic| schematic.terraform.is_some())
    }

    /// Deploys components to their places; those whose dependencies are not healthy wait.
    pub(super) async fn deploy(&mut self, params: &Value) -> Reply {
        // Zero would deploy nothing and never end.
        if params.get("parallelism").and_then(Value::as_i64).is_some_and(|width| width < 1) {
            return Reply::Error(messages::PARALLELISM.to_owned());
        }
        let inline = params.get("inlinePolicies").and_then(Value::as_array).cloned();
        let inline = inline.unwrap_or_default();
        let mut wanted = names(params, "policies");
        // Policies of the step itself come after those of the Application, so that they count last.
        wanted
            .extend(inline.iter().enumerate().map(|(i, policy)| placement::inline_name(i, policy)));
        let named = self.named(&inline);
        let mut resolved = match placement::resolve(&named, &wanted) {
            Ok(resolved) => resolved,
            Err(error) => return error.into(),
        };
        if params.get("ignoreTerraformComponent").and_then(Value::as_bool).unwrap_or(false) {
            resolved.components.retain(|(component, _)| !self.is_terraform(component));
        }
        let width = params.get("parallelism").and_then(Value::as_u64).unwrap_or(1);
        let width = usize::try_from(width).unwrap_or(usize::MAX).min(MAX_PARALLELISM);
        match self.deploy_all(&resolved, width).await {
            Err(error) => error.into(),
            Ok(reasons) if reasons.is_empty() => Reply::Returns(Value::Null),
            Ok(reasons) => Reply::Wait(reasons.join(",")),
        }
    }

    /// Deploys all components to all places, as many at once as are wanted; returns what still waits.
    async fn deploy_all(
        &mut self,
        resolved: &ComponentPlacements,
        width: usize,
    ) -> Result<Vec<String>, StepError> {
        // Every component at every placement; the index keeps placements of one cluster apart.
        let mut left: Vec<Task<'_>> = Vec::new();
        for (index, placement) in resolved.placements.iter().enumerate() {
            left.extend(resolved.components.iter().map(|(component, replica)| {
                let placement = Placement { replica: replica.clone(), ..placement.clone() };
                Task { component, placement, index }
            }));
        }
        let mut healthy: BTreeSet<(usize, String, String)> = BTreeSet::new();
        let mut values: Vec<Map<String, Value>> = vec![Map::new(); resolved.placements.len()];
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        // each round deploys what no longer waits for anything
        while !left.is_empty() {
            let (now, later): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|task| task.is_free(&healthy, &values));
            left = later;
            let (mut items, mut tasks) = (Vec::new(), Vec::new());
            // What others gave to a component becomes part of its properties before it is rendered.
            for task in now {
                let known = values.get(task.index).cloned().unwrap_or_default();
                match filled(task.component, &known) {
                    Ok(component) => {
                        items.push((component, task.placement.clone()));
                        tasks.push(task);
                    }
                    Err(error) => errors.push(error.to_string()),
                }
            }
            let before = healthy.len();
            // One round goes out together: its members do not depend on each other.
            let all =
                workflow::together::apply_together(self.session, self.run, &items, width).await;
            for (task, done) in tasks.into_iter().zip(all) {
                match done {
                    Err(error) => {
                        let text = error.to_string();
                        errors.push(messages::deploy_failed(&task.placement.cluster, &text));
                    }
                    Ok(done) => {
                        workflow::note(&done, self.seen);
                        if done.ready {
                            healthy.insert(task.key());
                            // A component that is only recorded has no outputs yet.
                            if let Some(values) =
                                values.get_mut(task.index).filter(|_| !done.is_later)
                            {
                                self.outputs_of(&task, &done, values).await?;
                            }
                        } else {
                            let reason = self.reason(&done).await;
                            reasons.push(messages::deploy_not_healthy(&task.name(), &reason));
                        }
                    }
                }
            }
            // Without progress another round would find the same.
            if healthy.len() == before {
                break;
            }
        }
        // Errors count before what waits: the step has to fail for them.
        if !errors.is_empty() {
            return Err(messages::errors(&errors).into());
        }
        reasons.extend(left.iter().map(|task| messages::deploy_waiting(&task.name())));
        Ok(reasons)
    }

    /// What a component gives to others of its placement.
    async fn outputs_of(
        &self,
        task: &Task<'_>,
        done: &workflow::components::Done,
        values: &mut Map<String, Value>,
    ) -> Result<(), StepError> {
        // Most components give nothing to others.
        if task.component.outputs.is_empty() {
            return Ok(());
        }
        let fields = workflow::outputs(self.session, done).await;
        let wanted = task.component.outputs.clone();
        let job = move |scope: &EvaluationScope| {
            let value_of = |output: &OutputItem| {
                let value = data::output_of(&fields, &output.value_from, &scope.limits)?;
                Ok((output.name.clone(), value))
            };
            wanted.iter().map(value_of).collect::<Result<Vec<_>, StepError>>()
        };
        let found = self.session.ctx.cue.run(job).await??;
        values.extend(found);
        Ok(())
    }
}

/// One component at one placement.
struct Task<'a> {
    component: &'a ApplicationComponent,
    placement: Placement,
    /// Number of the cluster and namespace.
    index: usize,
}

impl Task<'_> {
    fn key(&self) -> (usize, String, String) {
        (self.index, self.component.name.clone(), self.placement.replica.clone())
    }

    /// How a person knows it.
    fn name(&self) -> String {
        let Placement { cluster, namespace, replica } = &self.placement;
        format!("{cluster}/{namespace}/{replica}/{}", self.component.name)
    }

    /// Whether what it depends on is healthy (at its placement, of its replica or of none), and its inputs are there.
    fn is_free(
        &self,
        healthy: &BTreeSet<(usize, String, String)>,
        values: &[Map<String, Value>],
    ) -> bool {
        let is_healthy = |name: &String, replica: &str| {
            healthy.contains(&(self.index, name.clone(), replica.to_owned()))
        };
        let known = |from: &String| values.get(self.index).is_some_and(|v| v.contains_key(from));
        let replica = &self.placement.replica;
        self.component
            .depends_on
            .iter()
            .all(|name| is_healthy(name, replica) || is_healthy(name, ""))
            && self.component.inputs.iter().all(|input| known(&input.from))
    }
}

/// A component with its inputs in its properties.
fn filled(
    component: &ApplicationComponent,
    values: &Map<String, Value>,
) -> Result<ApplicationComponent, StepError> {
    let mut filled = component.clone();
    let mut whole = Map::new();
    let properties = component.properties.as_ref().map(RawExtension::to_value);
    whole.insert("properties".to_owned(), properties.unwrap_or_else(|| json!({})));
    for input in component.inputs.iter().filter(|input| !input.parameter_key.is_empty()) {
        let key = input.parameter_key.trim();
        let key = if key.starts_with("properties") {
            // The prefix is optional for users.
            key.to_owned()
        } else {
            format!("properties.{key}")
        };
        let value = values.get(&input.from).cloned().unwrap_or_default();
        data::set_input(&mut whole, &key, value)?;
    }
    if !component.inputs.is_empty() {
        filled.properties = whole.get("properties").map(RawExtension::new);
    }
    Ok(filled)
}
