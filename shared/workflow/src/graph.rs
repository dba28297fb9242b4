//! Checks of a workflow before it runs: unknown names, outputs that no step produces, cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Step, Workflow};

/// A defect of a workflow that makes a step wait for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphProblem {
    /// `dependsOn` names a step that does not exist.
    UnknownDependency {
        /// The step that waits.
        step: String,
        /// The name it waits for.
        name: String,
    },
    /// An input that no step makes and that is not a field of `context` or `parameter`.
    UnknownInput {
        /// The step that waits.
        step: String,
        /// The value it waits for.
        from: String,
    },
    /// Steps that wait for each other, in order.
    Cycle(Vec<String>),
}

/// Finds the defects of a workflow, in the order of its steps.
#[must_use]
pub fn check(workflow: &Workflow) -> Vec<GraphProblem> {
    let all: Vec<&Step> = workflow.all().collect();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for step in &all {
        names.insert(&step.name, &step.name);
    }
    for step in &all {
        if let Some(alias) = &step.alias {
            names.entry(alias).or_insert(&step.name);
        }
    }
    let makers: BTreeMap<&str, &str> = all
        .iter()
        .flat_map(|s| s.outputs.iter().map(|o| (o.name.as_str(), s.name.as_str())))
        .collect();
    let mut problems = Vec::new();
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for step in &all {
        let waits = edges.entry(&step.name).or_default();
        for name in &step.depends_on {
            match names.get(name.as_str()) {
                Some(dependency) => waits.push(dependency),
                None => problems.push(GraphProblem::UnknownDependency {
                    step: step.name.clone(),
                    name: name.clone(),
                }),
            }
        }
        for input in &step.inputs {
            let head = input.from.split(['.', '[']).next().unwrap_or_default();
            if let Some(maker) = makers.get(input.from.as_str()).or_else(|| makers.get(head)) {
                waits.push(maker);
            } else if !matches!(head, "context" | "parameter") {
                problems.push(GraphProblem::UnknownInput {
                    step: step.name.clone(),
                    from: input.from.clone(),
                });
            }
        }
    }
    problems.extend(cycles(&edges));
    problems
}

/// Every cycle once, found by walking the edges without recursion.
fn cycles(edges: &BTreeMap<&str, Vec<&str>>) -> Vec<GraphProblem> {
    let mut found = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in edges.keys() {
        let mut path: Vec<(&str, usize)> = vec![(start, 0)];
        let mut on_path: BTreeSet<&str> = BTreeSet::from([*start]);
        while let Some((name, next)) = path.last_mut() {
            if done.contains(name) {
                on_path.remove(name);
                path.pop();
                continue;
            }
            let Some(target) = edges.get(name).and_then(|targets| targets.get(*next)) else {
                done.insert(name);
                on_path.remove(name);
                path.pop();
                continue;
            };
            *next += 1;
            if on_path.contains(target) {
                let cycle = path
                    .iter()
                    .skip_while(|(name, _)| name != target)
                    .map(|(name, _)| (*name).to_owned())
                    .collect();
                found.push(GraphProblem::Cycle(cycle));
            } else if !done.contains(target) {
                on_path.insert(target);
                path.push((target, 0));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Input, Mode, Output};

    fn step(name: &str, depends_on: &[&str]) -> Step {
        Step {
            depends_on: depends_on.iter().map(|d| (*d).to_owned()).collect(),
            ..Step::new(name, "k")
        }
    }

    #[test]
    fn names_and_cycles() {
        let mut reader = step("reader", &[]);
        reader.inputs = vec![
            Input { from: "ip.v4".into(), parameter_key: String::new() },
            Input { from: "nobody".into(), parameter_key: String::new() },
            Input { from: "context.name".into(), parameter_key: String::new() },
        ];
        let mut maker = step("maker", &["web"]);
        maker.alias = Some("web".into());
        maker.outputs = vec![Output { name: "ip".into(), value_from: "x".into() }];
        let steps = vec![step("a", &["b"]), step("b", &["a", "zz"]), reader, maker];
        let problems = check(&Workflow::new(Mode::Dag, steps));
        assert_eq!(
            problems,
            [
                GraphProblem::UnknownDependency { step: "b".into(), name: "zz".into() },
                GraphProblem::UnknownInput { step: "reader".into(), from: "nobody".into() },
                GraphProblem::Cycle(vec!["a".into(), "b".into()]),
                GraphProblem::Cycle(vec!["maker".into()]),
            ]
        );
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let steps: Vec<Step> = (0..20_000)
            .map(|n| step(&format!("s{n}"), &[&format!("s{}", n + 1)]))
            .chain([step("s20000", &[])])
            .collect();
        assert_eq!(check(&Workflow::new(Mode::Dag, steps)), []);
    }
}
