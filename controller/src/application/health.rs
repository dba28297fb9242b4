//! Health after the workflow: every reported component is looked at again.

use tracing::debug;
use vela_api::{AppStatus, ApplicationComponent};

use super::component::Place;
use super::dispatch::Session;
use super::status;
use super::workflow::{self, Run};

/// Looks at the components in status again. A component that cannot be evaluated keeps what was said of it.
pub async fn refresh(session: &Session<'_>, run: &Run<'_>, app_status: &mut AppStatus) {
    let known = app_status.services.clone();
    for service in known {
        let Some(component) = component_named(run, &service.name) else { continue };
        let namespace = if service.namespace == session.owner.namespace {
            String::new()
        } else {
            service.namespace.clone()
        };
        let place = Place { cluster: service.cluster.clone(), namespace, replica: String::new() };
        match workflow::look(session, run, &component, &place).await {
            Ok(new) => status::put_service(&mut app_status.services, new),
            Err(error) => debug!(error, component = component.name, "health not evaluated"),
        }
    }
}

/// A component as a step holds it, or else as the Application names it: steps such as `deploy` hold none.
fn component_named(run: &Run<'_>, name: &str) -> Option<ApplicationComponent> {
    let steps =
        run.workflow.steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps));
    steps
        .filter_map(|step| step.properties.get("value"))
        .filter_map(|value| serde_json::from_value::<ApplicationComponent>(value.clone()).ok())
        .find(|component| component.name == name)
        .or_else(|| run.app.spec.components.iter().find(|c| c.name == name).cloned())
}

/// Whether a policy answers for the health of the whole Application.
#[must_use]
pub fn is_managed(run: &Run<'_>) -> bool {
    run.used.policies.values().any(|definition| definition.spec.manage_health_check)
}
