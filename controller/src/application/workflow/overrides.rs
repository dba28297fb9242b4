//! Applies `override` policies, and patches of environments, to components.

use serde::Deserialize;
use serde_json::Value;
use vela_api::RawExtension;
use vela_api::application::{ApplicationComponent, ApplicationTrait};
use vela_workflow::Pattern;

use crate::application::workflow::error::StepError;
use crate::messages;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Override {
    components: Vec<Patch>,
    /// An empty one selects nothing.
    pub(super) selector: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Patch {
    name: String,
    #[serde(rename = "type")]
    type_: String,
    properties: Option<Value>,
    traits: Vec<TraitPatch>,
    external_revision: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TraitPatch {
    #[serde(rename = "type")]
    type_: String,
    properties: Option<Value>,
    disable: bool,
}

/// Merges an `override` into the components that it means; `type_` and `name` are the policy's, for errors.
///
/// # Errors
/// A name that is no pattern.
pub(super) fn overridden(
    mut components: Vec<ApplicationComponent>,
    policy: Override,
    (type_, name): (&str, &str),
) -> Result<Vec<ApplicationComponent>, StepError> {
    let names = policy.components.iter().map(|patch| &*patch.name).filter(|name| !name.is_empty());
    let patterns = vela_workflow::read_patterns(names, components.len())
        .map_err(|(_, error)| messages::policy_unreadable(type_, name, &error.to_string()))?;
    let mut patterns = patterns.into_iter();
    for patch in policy.components {
        let pattern = if patch.name.is_empty() { None } else { patterns.next() };
        let mut matched = false;
        for component in &mut components {
            let is_meant = match &pattern {
                Some(pattern) => pattern.matches(&component.name),
                None => patch.type_.is_empty() || patch.type_ == component.type_,
            };
            if !is_meant {
                continue;
            }
            matched = true;
            if !patch.type_.is_empty() && patch.type_ != component.type_ {
                *component = fresh(&patch, &component.name);
            } else {
                merge(component, &patch);
            }
        }
        if !matched && let Some(name) = pattern.as_ref().and_then(Pattern::name) {
            components.push(fresh(&patch, name));
        }
    }
    if let Some(selector) = policy.selector {
        components.retain(|component| selector.contains(&component.name));
    }
    Ok(components)
}

fn fresh(patch: &Patch, name: &str) -> ApplicationComponent {
    let mut component = ApplicationComponent {
        name: name.to_owned(),
        type_: patch.type_.clone(),
        ..ApplicationComponent::default()
    };
    merge(&mut component, patch);
    component
}

fn merge(component: &mut ApplicationComponent, patch: &Patch) {
    merge_properties(&mut component.properties, patch.properties.as_ref());
    if !patch.external_revision.is_empty() {
        component.external_revision.clone_from(&patch.external_revision);
    }
    for wanted in &patch.traits {
        if wanted.disable {
            component.traits.retain(|known| known.type_ != wanted.type_);
            continue;
        }
        match component.traits.iter_mut().find(|known| known.type_ == wanted.type_) {
            Some(known) => merge_properties(&mut known.properties, wanted.properties.as_ref()),
            None => component.traits.push(ApplicationTrait {
                type_: wanted.type_.clone(),
                properties: wanted.properties.as_ref().map(RawExtension::new),
            }),
        }
    }
}

fn merge_properties(base: &mut Option<RawExtension>, over: Option<&Value>) {
    let Some(over) = over else { return };
    let mut value = base.as_ref().map_or(Value::Null, RawExtension::to_value);
    merge_value(&mut value, over);
    *base = Some(RawExtension::new(&value));
}

/// Objects are merged, everything else is replaced. Depth is bounded by that of decoded JSON.
fn merge_value(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge_value(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}
