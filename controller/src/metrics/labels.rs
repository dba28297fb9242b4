//! Label values that come from Applications: words of fixed sets, and `other` for the rest. Tenants write specs and statuses, and
//! each word would be a series that this process, and whoever reads its metrics, keeps for ever.

use vela_api::names;
use vela_cluster::Key;
use vela_workflow::generate::BUILTIN_APPLY_COMPONENT;
use vela_workflow::{Phase, Reason, WorkflowPhase};

use crate::definitions::Definitions;

/// Any word that is none of ours.
const OTHER: &str = "other";

/// The phase of an Application; `-` before it has one.
pub(crate) fn phase(word: &str) -> &'static str {
    if word.is_empty() {
        return "-";
    }
    names::phase::ALL.into_iter().find(|phase| *phase == word).unwrap_or(OTHER)
}

/// The phases of a WorkflowRun that has one.
pub(super) const RUN_PHASES: [&str; 6] = [
    WorkflowPhase::Initializing.as_str(),
    WorkflowPhase::Executing.as_str(),
    WorkflowPhase::Suspending.as_str(),
    WorkflowPhase::Succeeded.as_str(),
    WorkflowPhase::Terminated.as_str(),
    WorkflowPhase::Failed.as_str(),
];

/// The phase of a WorkflowRun; `-` before it has one.
pub(crate) fn run_phase(word: &str) -> &'static str {
    match WorkflowPhase::parse(word).as_str() {
        _ if word.is_empty() => "-",
        known if known == word => known,
        _ => OTHER,
    }
}

/// Phase and reason of a workflow step.
pub(super) fn step_phase(phase: &str, reason: &str) -> String {
    let known = |word: &'static str, given: &str| if word == given { word } else { OTHER };
    let phase = known(Phase::parse(phase).as_str(), phase);
    format!("{phase}#{}", known(Reason::parse(reason).as_str(), reason))
}

/// The type of a workflow step: one of ours, or of the namespace of built-in definitions. Tenants may define others.
pub(crate) fn step_type<'a>(kind: &'a str, definitions: &Definitions) -> &'a str {
    // Versions of a definition share its series: each edit would make another one.
    let name = kind.split_once('@').map_or(kind, |(name, _)| name);
    let is_ours = matches!(name, "suspend" | "step-group" | BUILTIN_APPLY_COMPONENT);
    let placement = || Key::new(definitions.system_namespace.as_str(), name);
    if is_ours || definitions.steps.get(&placement()).is_some() { name } else { OTHER }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_tenants_are_one_word() {
        assert_eq!(
            [phase("running"), phase(""), phase("x1"), phase("-")],
            ["running", "-", OTHER, OTHER]
        );
        let runs = ["executing", "", "x", "initializing"].map(run_phase);
        assert_eq!(runs, ["executing", "-", OTHER, "initializing"]);
        let steps =
            [("succeeded", ""), ("failed", "Timeout"), ("x", ""), ("", ""), ("pending", "y")];
        let labels = steps.map(|(phase, reason)| step_phase(phase, reason));
        assert_eq!(labels, ["succeeded#", "failed#Timeout", "other#", "other#", "pending#other"]);
        let definitions =
            Definitions { system_namespace: "vela-system".to_owned(), ..Definitions::default() };
        for (namespace, name) in [("vela-system", "deploy"), ("team", "mine")] {
            let definition =
                json!({"metadata": {"name": name, "namespace": namespace}, "spec": {}});
            let _ = definitions.steps.put(serde_json::from_value(definition).unwrap());
        }
        let kinds = ["suspend", "deploy", "deploy@v1.2", "mine", "x"];
        let labels = kinds.map(|kind| step_type(kind, &definitions));
        assert_eq!(labels, ["suspend", "deploy", "deploy", OTHER, OTHER]);
    }
}
