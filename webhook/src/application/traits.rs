//! Traits: checks that they apply to the workload that they are attached to.

use std::sync::Arc;

use super::model::Component;
use super::subject::Findings;
use crate::field::Field;
use crate::messages;
use crate::snapshot::Definition;

/// Warns of traits that are made for other workloads: upstream records `appliesToWorkloads` and
/// never checks it, so what breaks is a patch, later, as text nobody understands.
pub(crate) fn applicable(
    component: &Component<'_>,
    definition: Option<&Definition>,
    traits: &[Option<Arc<Definition>>],
    field: &Field,
    findings: &mut Findings,
) {
    let Some(definition) = definition else { return };
    let workload = definition.workload.type_.as_str();
    if workload.is_empty() || workload == "autodetects.core.oam.dev" {
        return;
    }
    for (j, (one, trait_definition)) in component.traits.iter().zip(traits).enumerate() {
        let Some(trait_definition) = trait_definition else { continue };
        let fits = |pattern: &String| is_match(pattern, component.type_, workload);
        if !trait_definition.applies_to.is_empty() && !trait_definition.applies_to.iter().any(fits)
        {
            let field = field.at("traits").index(j).at("type").to_string();
            findings.warnings.push(messages::does_not_apply(&field, one.type_, workload));
        }
    }
}

/// `*`, `*.apps`, `deployments.apps`, or a component type.
fn is_match(pattern: &str, component_type: &str, workload: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(group) => workload.split_once('.').is_some_and(|(_, of)| of == group),
        None => pattern == "*" || pattern == workload || pattern == component_type,
    }
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn patterns() {
        for (pattern, fits) in [
            ("*", true),
            ("*.apps", true),
            ("*.batch", false),
            ("deployments.apps", true),
            ("statefulsets.apps", false),
            ("webservice", true),
            ("worker", false),
        ] {
            assert_eq!(is_match(pattern, "webservice", "deployments.apps"), fits, "{pattern}");
        }
    }
}
