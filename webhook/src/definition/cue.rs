//! The CUE of a definition: template, status texts, and whether what it makes exists.

use serde_json::Value;
use vela_render::Vetted;

use super::subject::{Subject, annotations};
use crate::messages;
use vela_api::DefinitionKind;

/// Owned by an addon: its kinds come with it, possibly later.
const ADDON: &str = "addon-";

pub(crate) fn check(
    subject: &Subject<'_>,
    problems: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Vetted {
    if subject.world.is_incomplete() {
        return Vetted::default();
    }
    status(subject, warnings);
    let Some(template) = subject.template().filter(|template| !template.is_empty()) else {
        return Vetted::default();
    };
    let mut vetted = subject.world.renderer.examine(template);
    problems.append(&mut vetted.errors);
    if vetted.is_legacy && matches!(subject.kind, DefinitionKind::Component | DefinitionKind::Trait)
    {
        warnings.push(messages::LEGACY_CUE.to_owned());
    }
    if subject.world.settings.gates.validate_resources_exist {
        resources(subject, &vetted.outputs, problems);
    }
    vetted
}

/// The kinds of outputs that are written out must be served.
pub(crate) fn resources(
    subject: &Subject<'_>,
    outputs: &[(String, String)],
    problems: &mut Vec<String>,
) {
    if is_of_addon(subject.object) {
        return;
    }
    for (api_version, kind) in outputs {
        match subject.world.resource(api_version, kind) {
            Ok(Some(_)) => {}
            Ok(None) => problems.push(messages::no_resource_type(api_version, kind)),
            Err(error) => problems.push(messages::lookup_failed(error)),
        }
    }
}

/// Status texts are checked by nobody upstream; a broken one means "never healthy".
pub(crate) fn status(subject: &Subject<'_>, warnings: &mut Vec<String>) {
    for name in ["customStatus", "healthPolicy", "details"] {
        let text = subject.text(&format!("/status/{name}"));
        if text.is_empty() {
            continue;
        }
        for error in subject.world.renderer.examine_status(text) {
            warnings.push(messages::status_cue(&format!("spec.status.{name}"), &error));
        }
    }
}

fn is_of_addon(object: &Value) -> bool {
    let is_addon = |value: Option<&Value>| {
        value.and_then(Value::as_str).is_some_and(|name| name.starts_with(ADDON))
    };
    let owned = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|owner| {
            owner.get("kind").and_then(Value::as_str) == Some("Application")
                && is_addon(owner.get("name"))
        });
    let labelled = is_addon(
        object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(vela_api::names::label::APP_NAME)),
    );
    let annotated =
        annotations(object).is_some_and(|map| map.contains_key(vela_api::names::label::ADDON_NAME));
    owned || labelled || annotated
}
