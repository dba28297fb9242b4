//! Health after the workflow: every reported component is checked again, as its step deployed it.

use std::collections::HashMap;

use jiff::SignedDuration;
use serde_json::Value;
use tracing::debug;
use vela_api::status::ComponentStatus;
use vela_api::{AppStatus, ApplicationComponent};
use vela_cluster::ApiError;
use vela_cluster::members::Named;

use crate::application::placement::Placement;
use crate::application::session::Session;
use crate::application::status;
use crate::application::workflow::placement::{self, Named as NamedPolicies};
use crate::application::workflow::{self, run::Run};

/// Components whose objects are asked why they are not healthy; what is wrong with one is usually wrong with the others.
const MAX_DIAGNOSED: usize = 3;

/// Checks the health of the components in the status again. A component that cannot be evaluated keeps its reported health.
/// Returns what the objects of those say that are not healthy.
pub async fn refresh(
    session: &mut Session<'_>,
    run: &Run<'_>,
    app_status: &mut AppStatus,
) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut checked = Vec::new();
    let deployed = deployed(run);
    let mut placed: HashMap<&str, Vec<&(ApplicationComponent, Placement)>> = HashMap::new();
    for one in &deployed {
        placed.entry(&one.0.name).or_default().push(one);
    }
    let mut in_spec = HashMap::new();
    for component in &run.app.spec.components {
        in_spec.entry(component.name.as_str()).or_insert(component);
    }
    for service in app_status.services.clone() {
        if let Err(why) = session.reach_quietly(&service.cluster) {
            // Its objects cannot be read now.
            checked.extend(unavailable(session, service, &why));
            continue;
        }
        let own = if service.namespace == session.owner.namespace {
            String::new()
        } else {
            service.namespace.clone()
        };
        let places = placed.get(service.name.as_str()).into_iter().flatten();
        let mut all: Vec<(ApplicationComponent, Placement)> = places
            .filter(|(_, placement)| {
                placement.cluster == service.cluster
                    && (placement.namespace == own || placement.namespace == service.namespace)
            })
            .map(|one| (*one).clone())
            .collect();
        // No step of the spec places it there any more: it is judged as the spec has it.
        if all.is_empty() {
            let placement = Placement {
                cluster: service.cluster.clone(),
                namespace: own,
                replica: String::new(),
            };
            let component = in_spec.get(service.name.as_str());
            all.extend(
                component.map(|component| (ApplicationComponent::clone(component), placement)),
            );
        }
        // The copies of a replicated component share an entry: the worst counts.
        let mut worst: Option<ComponentStatus> = None;
        for (component, placement) in all {
            let diagnoses = reasons.len() < MAX_DIAGNOSED;
            let check =
                workflow::components::check_health(session, run, &component, &placement, diagnoses);
            match check.await {
                Ok((new, why)) if worst.as_ref().is_none_or(|worst| worst.healthy) => {
                    worst = Some(new);
                    reasons.extend(Some(why).filter(|why| !why.is_empty()));
                }
                Ok(_) => {}
                Err(error) => debug!(%error, component = component.name, "health not evaluated"),
            }
        }
        checked.extend(worst);
    }
    status::put_services(&mut app_status.services, checked);
    reasons.join("; ")
}

/// How long a cluster must be unreachable before its components count as unhealthy: a moment is no news.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// What is said of a component whose cluster cannot be reached: what was last known, and after a while that it is not.
fn unavailable(
    session: &Session<'_>,
    service: ComponentStatus,
    why: &ApiError,
) -> Option<ComponentStatus> {
    const KNOWN: &str = "; last known: ";
    if !session.ctx.settings.unreachable_is_unhealthy {
        return None;
    }
    let Named::Member(member) = session.clusters.named(&service.cluster) else { return None };
    // A short absence is no news; the status would change with every hiccup of a network.
    if session.ctx.clock.now().duration_since(member.health().since()) < GRACE {
        return None;
    }
    // Else the message would be added to itself at each reconcile.
    let before = match service.message.split_once(KNOWN) {
        Some((_, before)) => before,
        None => &service.message,
    };
    let message = format!("{why}{KNOWN}{before}");
    Some(ComponentStatus { healthy: false, message, ..service })
}

/// The components as the steps hold them: with what `deploy` steps merge into them, and for each copy of a replicated one.
fn deployed(run: &Run<'_>) -> Vec<(ApplicationComponent, Placement)> {
    let mut out = Vec::new();
    // The steps say where each component was deployed, and with which overrides.
    for step in run.workflow.all() {
        let text = |key: &str| {
            step.properties.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if let Some(value) = step.properties.get("value") {
            let component = serde_json::from_value(value.clone()).ok();
            let placement = Placement {
                cluster: text("cluster"),
                namespace: text("namespace"),
                replica: String::new(),
            };
            out.extend(component.map(|component| (component, placement)));
        } else if step.kind == "deploy" {
            let names: Vec<String> = step
                .properties
                .get("policies")
                .and_then(|names| serde_json::from_value(names.clone()).ok())
                .unwrap_or_default();
            let named = NamedPolicies {
                app: run.app,
                external: run.policies,
                inline: &[],
                crosses_namespaces: true,
                clusters: run.clusters.as_deref(),
            };
            // A `deploy` step that cannot be resolved has failed, and says so itself.
            let Ok(placed) = placement::resolve(&named, &names) else { continue };
            for placement in &placed.placements {
                out.extend(placed.components.iter().map(|(component, replica)| {
                    let replica = replica.clone();
                    (component.clone(), Placement { replica, ..placement.clone() })
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
