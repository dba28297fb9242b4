//! Facts of the Application object itself: labels and annotations, resource policies, its shard.

pub mod parse;
pub mod referred;
pub mod resolve;

use jiff::Timestamp;
use serde_json::Value;
use vela_api::application::ApplicationSpec;
use vela_api::builtin::{self, APPLY_ONCE};
use vela_api::{Application, Drift, ObjectMeta, RawExtension, names};
use vela_apply::ResourcePolicies;
use vela_apply::policy::ApplyOnce;

pub use vela_api::annotation_of as annotation;

use crate::events::About;

/// The publishVersion recorded on a revision or wanted by an Application, `""` if there is none.
#[must_use]
pub fn publish_version(metadata: &ObjectMeta) -> &str {
    annotation(metadata, names::annotation::PUBLISH_VERSION)
}

/// One label, `""` if absent.
#[must_use]
pub fn label<'m>(metadata: &'m ObjectMeta, key: &str) -> &'m str {
    metadata.labels.as_ref().and_then(|map| map.get(key)).map(String::as_str).unwrap_or_default()
}

/// Whether a new content of a definition makes a new revision.
pub(crate) fn follows_definitions(app: &Application) -> bool {
    annotation(&app.metadata, names::annotation::AUTO_UPDATE) == "true"
}

/// The resource policies of a spec, and the first error of one that cannot be read.
pub(crate) fn resource_policies(
    metadata: &ObjectMeta,
    spec: &ApplicationSpec,
) -> (ResourcePolicies, Option<String>) {
    let written = spec.policies.iter();
    let values: Vec<_> = written
        .map(|policy| (policy.type_.as_str(), properties(policy.properties.as_ref())))
        .collect();
    let (mut policies, errors) =
        ResourcePolicies::parse(values.iter().map(|(ty, value)| (*ty, value.as_ref())));
    let word = annotation(metadata, names::annotation::DRIFT);
    // Admission refuses other words; whoever came by it drifts as if nothing was said.
    policies.drift = Drift::parse(word).unwrap_or_default();
    let is_addon = !label(metadata, names::label::ADDON_NAME).is_empty();
    // Addons are applied once: users edit what an addon installs, and the edits shall stay.
    if is_addon && !spec.policies.iter().any(|policy| policy.type_ == APPLY_ONCE) {
        policies.apply_once = Some(ApplyOnce { enable: true, rules: Vec::new() });
    }
    (policies, errors.first().map(ToString::to_string))
}

/// What an event about an Application refers to.
pub(crate) fn about(app: &Application) -> About {
    About {
        api_version: vela_api::V1BETA1.to_owned(),
        kind: Application::KIND.to_owned(),
        namespace: app.metadata.namespace.clone().unwrap_or_default(),
        name: app.metadata.name.clone().unwrap_or_default(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        version: app.metadata.resource_version.clone().unwrap_or_default(),
    }
}

pub(crate) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// The parameters of a component or trait as a value.
#[must_use]
pub fn properties(raw: Option<&RawExtension>) -> Option<Value> {
    raw.map(RawExtension::to_value).filter(|value| !value.is_null())
}

/// Whether a policy of this type steers the controller.
#[must_use]
pub fn is_built_in_policy(type_name: &str) -> bool {
    builtin::policy(type_name).is_some()
}
