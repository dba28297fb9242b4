//! The controllers of this program: their names, and which of them run.

use vela_serve::gates::Gates;

/// One controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controller {
    /// Its name, as in metrics.
    pub name: &'static str,
    /// A shorter name that `--controllers` also takes.
    pub alias: &'static str,
    /// Runs without being asked for.
    pub default: bool,
    /// Sends requests under an account of its own: the others only read memory, or do for one object what Applications do, over their
    /// connection.
    pub requests: bool,
    /// The feature gate without which it does not run, whoever asks for it.
    pub gate: Option<fn(&Gates) -> bool>,
}

/// Applications.
pub(crate) const APPLICATION: &str = "application";
/// ComponentDefinitions.
pub(crate) const COMPONENT: &str = "componentdefinition";
/// TraitDefinitions.
pub(crate) const TRAIT: &str = "traitdefinition";
/// PolicyDefinitions.
pub(crate) const POLICY: &str = "policydefinition";
/// WorkflowStepDefinitions.
pub(crate) const WORKFLOW_STEP: &str = "workflowstepdefinition";
/// WorkflowRuns.
pub(crate) const WORKFLOW_RUN: &str = "workflowrun";
/// Gauges of phases.
pub(crate) const MONITOR: &str = "monitor";

/// The admission certificate.
pub(crate) const CERTIFICATES: &str = "certificates";

/// All of them, in the order they start.
pub(crate) const ALL: [Controller; 8] = [
    Controller { name: CERTIFICATES, alias: "certs", default: true, requests: true, gate: None },
    Controller { name: COMPONENT, alias: "component", default: true, requests: true, gate: None },
    Controller { name: TRAIT, alias: "trait", default: true, requests: true, gate: None },
    Controller { name: POLICY, alias: "policy", default: true, requests: true, gate: None },
    Controller { name: WORKFLOW_STEP, alias: "step", default: true, requests: true, gate: None },
    Controller { name: APPLICATION, alias: "app", default: true, requests: true, gate: None },
    Controller {
        name: WORKFLOW_RUN,
        alias: "run",
        default: true,
        requests: false,
        gate: Some(|gates| gates.enable_workflow_run),
    },
    Controller { name: MONITOR, alias: "metrics", default: true, requests: false, gate: None },
];

/// The ServiceAccount of a controller, where each has its own.
pub(crate) fn account(controller: &str) -> String {
    format!("vela-{controller}-controller")
}

/// The controllers to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<&'static str>);

/// A name nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}; there are {known}")]
pub struct SelectionError {
    name: String,
    known: String,
}

impl Selection {
    /// Reads `*`, names, and `-name`. What a feature gate disables does not run, and that is no error.
    ///
    /// # Errors
    /// A name nobody has.
    pub fn parse(items: &[String], gates: &Gates) -> Result<Self, SelectionError> {
        Self::among(&ALL, items, gates)
    }

    fn among(all: &[Controller], items: &[String], gates: &Gates) -> Result<Self, SelectionError> {
        let names = || all.iter().map(|controller| controller.name);
        let find = |name: &str| {
            let found = all.iter().find(|c| c.name == name || c.alias == name).map(|c| c.name);
            found.ok_or_else(|| SelectionError {
                name: name.to_owned(),
                known: names().collect::<Vec<_>>().join(", "),
            })
        };
        let mut chosen: Vec<&'static str> = Vec::new();
        let mut dropped = Vec::new();
        for item in items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
            if item == "*" {
                chosen.extend(all.iter().filter(|c| c.default).map(|c| c.name));
            } else if let Some(name) = item.strip_prefix('-') {
                dropped.push(find(name)?);
            } else {
                chosen.push(find(item)?);
            }
        }
        let runs = |controller: &&Controller| {
            chosen.contains(&controller.name)
                && !dropped.contains(&controller.name)
                && controller.gate.is_none_or(|gate| gate(gates))
        };
        Ok(Self(all.iter().filter(runs).map(|controller| controller.name).collect()))
    }

    /// Those of them that are about Applications: the others do what is done once for all shards.
    #[must_use]
    pub fn of_applications(mut self) -> Self {
        self.0.retain(|name| matches!(*name, APPLICATION | MONITOR));
        self
    }

    /// Those that send requests, in the order they start.
    pub(crate) fn requesting(&self) -> impl Iterator<Item = &'static str> {
        let all = ALL.iter().filter(|controller| controller.requests);
        all.map(|controller| controller.name).filter(|name| self.has(name))
    }

    /// Whether a controller runs.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<&'static str>, String> {
        let items: Vec<String> = text.split(',').map(str::to_owned).collect();
        let parsed = Selection::parse(&items, &Gates::default());
        parsed.map(|s| s.0).map_err(|error| error.to_string())
    }

    #[test]
    fn who_is_not_on_by_default_or_gated_runs_only_when_asked_for_and_allowed() {
        let controller =
            |name, default, gate| Controller { name, alias: "", default, requests: true, gate };
        let all = [
            controller("plain", true, None),
            controller("asked", false, None),
            controller("gated", true, Some((|gates| gates.apply_once) as fn(&Gates) -> bool)),
        ];
        for (items, gate, runs) in [
            ("*", false, &["plain"][..]),
            ("*", true, &["plain", "gated"]),
            ("*,asked", true, &["plain", "asked", "gated"]),
            ("gated", false, &[]),
            ("asked,gated", true, &["asked", "gated"]),
        ] {
            let items: Vec<String> = items.split(',').map(str::to_owned).collect();
            let gates = Gates { apply_once: gate, ..Gates::default() };
            assert_eq!(Selection::among(&all, &items, &gates).unwrap().0, runs, "{items:?} {gate}");
        }
    }

    #[test]
    fn no_name_is_taken_twice() {
        let mut names: Vec<_> = ALL.iter().flat_map(|c| [c.name, c.alias]).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn stars_names_and_minus() {
        // All that no gate disables.
        let ungated = ALL.iter().filter(|controller| controller.gate.is_none()).count();
        assert_eq!(parse("*").unwrap().len(), ungated);
        assert_eq!(parse("app").unwrap(), ["application"]);
        let without = parse("*,-trait").unwrap();
        assert!(!without.contains(&"traitdefinition") && without.len() == ungated - 1);
        assert!(parse("foo").unwrap_err().contains("there is no controller \"foo\""));
    }

    #[test]
    fn who_sends_no_requests_needs_no_account() {
        let requesting = |text: &str| {
            let selection = Selection::parse(&[text.to_owned()], &Gates::default()).unwrap();
            selection.requesting().map(account).collect::<Vec<_>>()
        };
        let all = requesting("*");
        assert_eq!(all.len(), ALL.len() - 2);
        assert!(!all.contains(&account(MONITOR)));
        assert_eq!(requesting("monitor"), Vec::<String>::new());
        assert_eq!(requesting("step"), ["vela-workflowstepdefinition-controller"]);
    }
}
