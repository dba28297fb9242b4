//! `vela/multicluster`: the `deploy` step and where it goes.

use serde_json::{Map, Value, json};
use vela_api::RawExtension;
use vela_api::application::ApplicationComponent;
use vela_workflow::{Reply, data};

use crate::application::component::Place;
use crate::application::workflow;
use crate::messages;

use super::super::placement::{self, Named};
use super::{Calling, names};

impl Calling<'_, '_, '_> {
    pub(super) fn placements(&self, params: &Value) -> Result<Value, String> {
        let wanted = names(params, "policies");
        let named = Named { app: self.run.app, external: self.run.policies, inline: &[] };
        let placed = placement::place(&named, &wanted)?;
        let place = |(cluster, namespace): &(String, String)| json!({"cluster": cluster, "namespace": namespace});
        let places: Vec<Value> = placed.places.iter().map(place).collect();
        Ok(json!({ "placements": places }))
    }

    fn is_terraform(&self, component: &ApplicationComponent) -> bool {
        let definition = self.run.used.components.get(&component.type_);
        definition
            .and_then(|d| d.spec.schematic.as_ref())
            .is_some_and(|schematic| schematic.terraform.is_some())
    }

    /// Deploys components to their places; those whose dependencies are not healthy wait.
    pub(super) async fn deploy(&mut self, params: &Value) -> Reply {
        if params.get("parallelism").and_then(Value::as_i64).is_some_and(|width| width < 1) {
            return Reply::Error(messages::PARALLELISM.to_owned());
        }
        let inline = params.get("inlinePolicies").and_then(Value::as_array).cloned();
        let inline = inline.unwrap_or_default();
        let mut wanted = names(params, "policies");
        wanted
            .extend(inline.iter().enumerate().map(|(i, policy)| placement::inline_name(i, policy)));
        let named = Named { app: self.run.app, external: self.run.policies, inline: &inline };
        let mut placed = match placement::place(&named, &wanted) {
            Ok(placed) => placed,
            Err(error) => return Reply::Error(error),
        };
        if params.get("ignoreTerraformComponent").and_then(Value::as_bool).unwrap_or(false) {
            placed.components.retain(|(component, _)| !self.is_terraform(component));
        }
        let mut reasons = Vec::new();
        for (cluster, namespace) in &placed.places {
            if let Err(error) =
                self.place(&placed.components, cluster, namespace, &mut reasons).await
            {
                return Reply::Error(error);
            }
        }
        if reasons.is_empty() {
            Reply::Returns(Value::Null)
        } else {
            Reply::Wait(reasons.join(","))
        }
    }

    /// Deploys to one place. What still waits is added to `reasons`.
    async fn place(
        &mut self,
        components: &[(ApplicationComponent, String)],
        cluster: &str,
        namespace: &str,
        reasons: &mut Vec<String>,
    ) -> Result<(), String> {
        let key = |name: &str, replica: &str| format!("{cluster}/{namespace}/{replica}/{name}");
        let mut healthy: Vec<(&str, &str)> = Vec::new();
        let mut values: Map<String, Value> = Map::new();
        let mut left: Vec<&(ApplicationComponent, String)> = components.iter().collect();
        // each round deploys what no longer waits for anything
        while !left.is_empty() {
            let ready = |(component, replica): &&(ApplicationComponent, String)| {
                let there = |name: &String| {
                    healthy
                        .iter()
                        .any(|(known, of)| known == name && (*of == replica || of.is_empty()))
                };
                component.depends_on.iter().all(there)
                    && component.inputs.iter().all(|input| values.contains_key(&input.from))
            };
            let (now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(ready);
            left = later;
            let before = healthy.len();
            for (component, replica) in now {
                let place = Place {
                    cluster: cluster.to_owned(),
                    namespace: namespace.to_owned(),
                    replica: replica.clone(),
                };
                let filled = filled(component, &values)?;
                let done = workflow::apply(self.session, self.run, &filled, &place).await;
                let done = done.map_err(|error| messages::deploy_failed(cluster, &error))?;
                workflow::note(&done, &place, self.seen);
                if !done.ready {
                    let reason = self.reason(&done, &place).await;
                    let key = key(&component.name, replica);
                    reasons.push(messages::deploy_not_healthy(&key, &reason));
                    continue;
                }
                healthy.push((&component.name, replica));
                if component.outputs.is_empty() {
                    continue;
                }
                let fields = workflow::outputs(self.session, &done, &place).await;
                let fields = fields.as_object().cloned().unwrap_or_default();
                for output in &component.outputs {
                    let limits = &self.session.ctx.settings.workflow.limits;
                    let value = data::output_of(&fields, &output.value_from, limits)?;
                    values.insert(output.name.clone(), value);
                }
            }
            if healthy.len() == before {
                break;
            }
        }
        let waiting =
            left.iter().map(|(c, replica)| messages::deploy_waiting(&key(&c.name, replica)));
        reasons.extend(waiting);
        Ok(())
    }
}

/// A component with its inputs in its properties.
fn filled(
    component: &ApplicationComponent,
    values: &Map<String, Value>,
) -> Result<ApplicationComponent, String> {
    let mut filled = component.clone();
    let mut whole = Map::new();
    let properties = component.properties.as_ref().map(RawExtension::to_value);
    whole.insert("properties".to_owned(), properties.unwrap_or_else(|| json!({})));
    for input in component.inputs.iter().filter(|input| !input.parameter_key.is_empty()) {
        let key = input.parameter_key.trim();
        let key = if key.starts_with("properties") {
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
