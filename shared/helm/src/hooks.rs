//! Hooks: objects that are not part of a release but run around its changes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::manifest::Document;

/// The annotation that makes an object a hook.
pub(crate) const HOOK_ANNOTATION: &str = "helm.sh/hook";
const WEIGHT: &str = "helm.sh/hook-weight";
const DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
const OUTPUT_LOG_POLICY: &str = "helm.sh/hook-output-log-policy";

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// Before the objects of a first revision are created.
    PreInstall,
    /// After they were created (with `wait`: after they are ready).
    PostInstall,
    /// Before the objects of a release are deleted.
    PreDelete,
    /// After they were deleted.
    PostDelete,
    /// Before a further revision is applied.
    PreUpgrade,
    /// After it was applied.
    PostUpgrade,
    /// Before the objects of an older revision are applied again.
    PreRollback,
    /// After they were applied again.
    PostRollback,
    /// With `helm test` only.
    Test,
}

impl HookEvent {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }
}

/// What happens to the object of a hook. Words that Helm does not know are kept as they are: they do nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeletePolicy {
    /// Deleted once the hook succeeded.
    HookSucceeded,
    /// Deleted once the hook failed.
    HookFailed,
    /// Deleted before the hook is created again.
    BeforeHookCreation,
    /// A word that Helm does not know.
    #[serde(untagged)]
    Unknown(String),
}

/// An object that is a hook.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The object and its text.
    pub document: Document,
    /// When it runs; at least one event.
    pub events: Vec<HookEvent>,
    /// Hooks of one event run by weight, then by name.
    pub weight: i64,
    /// What happens to the object afterwards. Without any, it is deleted before the next run.
    pub delete_policies: Vec<DeletePolicy>,
    /// When its output is shown.
    pub output_log_policies: Vec<String>,
}

impl Hook {
    /// The hook that annotations make of a document; none if they name an event that nobody knows.
    pub(crate) fn new(
        document: Document,
        events: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let events =
            words(events).map(|word| HookEvent::read(&word)).collect::<Option<Vec<_>>>()?;
        let list = |name: &str| annotations.get(name).map(String::as_str).unwrap_or_default();
        let policies = annotations.get(DELETE_POLICY).map(|text| words(text).map(policy).collect());
        let weight =
            annotations.get(WEIGHT).and_then(|text| vela_gocompat::strconv::atoi(text).ok());
        Some(Self {
            events,
            weight: weight.unwrap_or_default(),
            delete_policies: policies.unwrap_or_default(),
            output_log_policies: words(list(OUTPUT_LOG_POLICY))
                .filter(|word| !word.is_empty())
                .collect(),
            document,
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|word| word.trim().to_lowercase())
}

fn policy(word: String) -> DeletePolicy {
    match word.as_str() {
        "hook-succeeded" => DeletePolicy::HookSucceeded,
        "hook-failed" => DeletePolicy::HookFailed,
        "before-hook-creation" => DeletePolicy::BeforeHookCreation,
        _ => DeletePolicy::Unknown(word),
    }
}
