//! The controllers of this program: their names, and which of them run.

/// One controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Controller {
    /// Its name, as in metrics.
    pub name: &'static str,
    /// A shorter name that `--controllers` also takes.
    pub alias: &'static str,
    /// Runs without being asked for.
    pub default: bool,
    /// Sends requests: the others only look at what the process has in memory.
    pub requests: bool,
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
/// Gauges of phases.
pub(crate) const MONITOR: &str = "monitor";

/// The admission certificate.
pub(crate) const CERTIFICATES: &str = "certificates";

/// All of them, in the order they start.
pub(crate) const ALL: [Controller; 7] = [
    Controller { name: CERTIFICATES, alias: "certs", default: true, requests: true },
    Controller { name: COMPONENT, alias: "component", default: true, requests: true },
    Controller { name: TRAIT, alias: "trait", default: true, requests: true },
    Controller { name: POLICY, alias: "policy", default: true, requests: true },
    Controller { name: WORKFLOW_STEP, alias: "step", default: true, requests: true },
    Controller { name: APPLICATION, alias: "app", default: true, requests: true },
    Controller { name: MONITOR, alias: "metrics", default: true, requests: false },
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
    /// Reads `*`, names, and `-name`.
    ///
    /// # Errors
    /// A name nobody has.
    pub fn parse(items: &[String]) -> Result<Self, SelectionError> {
        let find = |name: &str| {
            ALL.iter().find(|c| c.name == name || c.alias == name).map(|c| c.name).ok_or_else(
                || SelectionError {
                    name: name.to_owned(),
                    known: ALL.map(|controller| controller.name).join(", "),
                },
            )
        };
        let mut chosen: Vec<&'static str> = Vec::new();
        let mut dropped = Vec::new();
        for item in items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
            if item == "*" {
                chosen.extend(ALL.iter().filter(|c| c.default).map(|c| c.name));
            } else if let Some(name) = item.strip_prefix('-') {
                dropped.push(find(name)?);
            } else {
                chosen.push(find(item)?);
            }
        }
        let runs = |name: &&'static str| chosen.contains(name) && !dropped.contains(name);
        Ok(Self(ALL.iter().map(|controller| controller.name).filter(runs).collect()))
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
        Selection::parse(&items).map(|s| s.0).map_err(|error| error.to_string())
    }

    #[test]
    fn stars_names_and_minus() {
        assert_eq!(parse("*").unwrap().len(), ALL.len());
        assert_eq!(parse("app").unwrap(), ["application"]);
        let without = parse("*,-trait").unwrap();
        assert!(!without.contains(&"traitdefinition") && without.len() == ALL.len() - 1);
        assert!(parse("foo").unwrap_err().contains("there is no controller \"foo\""));
    }

    #[test]
    fn who_sends_no_requests_needs_no_account() {
        let requesting = |text: &str| {
            let selection = Selection::parse(&[text.to_owned()]).unwrap();
            selection.requesting().map(account).collect::<Vec<_>>()
        };
        let all = requesting("*");
        assert_eq!(all.len(), ALL.len() - 1);
        assert!(!all.contains(&account(MONITOR)));
        assert_eq!(requesting("monitor"), Vec::<String>::new());
        assert_eq!(requesting("step"), ["vela-workflowstepdefinition-controller"]);
    }
}
