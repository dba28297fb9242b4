//! Health after the workflow: every reported component is looked at again, as its step deployed it.

use serde_json::Value;
use tracing::debug;
use vela_api::status::ComponentStatus;
use vela_api::{AppStatus, ApplicationComponent};
use vela_apply::object::is_local;

use super::component::Place;
use super::dispatch::Session;
use super::status;
use super::workflow::placement::{self, Named};
use super::workflow::{self, Run};

/// Looks at the components in status again. A component that cannot be evaluated keeps what was said of it.
pub async fn refresh(session: &Session<'_>, run: &Run<'_>, app_status: &mut AppStatus) {
    let known = app_status.services.clone();
    let deployed = deployed(run);
    // What is said of a component in another cluster stays: the objects of the same names here are others.
    for service in known.into_iter().filter(|service| is_local(&service.cluster)) {
        let own = if service.namespace == session.owner.namespace {
            String::new()
        } else {
            service.namespace.clone()
        };
        let mut all: Vec<(ApplicationComponent, Place)> = deployed
            .iter()
            .filter(|(component, place)| {
                component.name == service.name
                    && place.cluster == service.cluster
                    && (place.namespace == own || place.namespace == service.namespace)
            })
            .cloned()
            .collect();
        if all.is_empty() {
            let place =
                Place { cluster: service.cluster.clone(), namespace: own, replica: String::new() };
            let component = run.app.spec.components.iter().find(|c| c.name == service.name);
            all.extend(component.map(|component| (component.clone(), place)));
        }
        // The copies of a replicated component share an entry: the worst counts.
        let mut worst: Option<ComponentStatus> = None;
        for (component, place) in all {
            match workflow::components::look(session, run, &component, &place).await {
                Ok(new) if worst.as_ref().is_none_or(|worst| worst.healthy) => worst = Some(new),
                Ok(_) => {}
                Err(error) => debug!(error, component = component.name, "health not evaluated"),
            }
        }
        if let Some(new) = worst {
            status::put_service(&mut app_status.services, new);
        }
    }
}

/// The components as the steps hold them: with what `deploy` steps merge into them, and for each copy of a replicated one.
fn deployed(run: &Run<'_>) -> Vec<(ApplicationComponent, Place)> {
    let mut out = Vec::new();
    for step in run.workflow.all() {
        let text = |key: &str| {
            step.properties.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if let Some(value) = step.properties.get("value") {
            let component = serde_json::from_value(value.clone()).ok();
            let place = Place {
                cluster: text("cluster"),
                namespace: text("namespace"),
                replica: String::new(),
            };
            out.extend(component.map(|component| (component, place)));
        } else if step.kind == "deploy" {
            let names: Vec<String> = step
                .properties
                .get("policies")
                .and_then(|names| serde_json::from_value(names.clone()).ok())
                .unwrap_or_default();
            let named = Named {
                app: run.app,
                external: run.policies,
                inline: &[],
                crosses_namespaces: true,
            };
            let Ok(placed) = placement::place(&named, &names) else { continue };
            for (cluster, namespace) in &placed.places {
                out.extend(placed.components.iter().map(|(component, replica)| {
                    let place = Place {
                        cluster: cluster.clone(),
                        namespace: namespace.clone(),
                        replica: replica.clone(),
                    };
                    (component.clone(), place)
                }));
            }
        }
    }
    out
}

/// Whether a policy answers for the health of the whole Application.
#[must_use]
pub fn is_managed(run: &Run<'_>) -> bool {
    run.used.policies.values().any(|definition| definition.spec.manage_health_check)
}
