//! `vela/terraform`: components that are Terraform configurations.

use serde_json::{Value, json};

use crate::application::workflow::error::StepError;
use crate::messages;

use super::{Calling, text};

impl Calling<'_, '_, '_> {
    pub(super) fn terraform_components(&self) -> Result<Value, StepError> {
        let components = self.run.app.spec.components.iter().filter(|component| {
            let definition = self.run.used.components.get(&component.type_);
            definition
                .and_then(|d| d.spec.schematic.as_ref())
                .is_some_and(|schematic| schematic.terraform.is_some())
        });
        let components: Vec<Value> =
            components.filter_map(|component| serde_json::to_value(component).ok()).collect();
        Ok(json!({"outputs": {"components": components}}))
    }

    pub(super) fn connection_status(&self, params: &Value) -> Result<Value, StepError> {
        let inputs = params.get("inputs").cloned().unwrap_or_default();
        let name = text(&inputs, "componentName");
        if name.is_empty() {
            return Err(messages::COMPONENT_NAME_REQUIRED.into());
        }
        let known = self.seen.services.iter().chain(&self.run.app.status.services);
        // Newest first: what this pass found counts before what the status has.
        let found = known.filter(|service| service.name == name).map(|s| s.healthy).next();
        Ok(match found {
            Some(healthy) => json!({"outputs": {"healthy": healthy}}),
            None => json!({ "outputs": {} }),
        })
    }
}
