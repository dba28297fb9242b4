//! The recorded states of steps.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::model::{Step, Workflow};
use crate::status::{Phase, Reason, Status, StepStatus};

use super::{Pass, StepIndex};

impl<'a> Pass<'a> {
    pub(super) fn is_finished(&self, name: &str) -> bool {
        let Some(status) = self.known(name) else { return false };
        if self.options.suspend_on_failure {
            return matches!(status.phase, Phase::Succeeded | Phase::Skipped);
        }
        status.is_finished()
    }

    /// Writes the status of a step; returns its id.
    pub(super) fn record(
        &mut self,
        step_index: StepIndex,
        phase: Phase,
        reason: Reason,
        message: &str,
        new_id: &mut dyn FnMut(&str) -> String,
    ) -> String {
        let now = self.facts.now;
        let Some(step) = self.step(step_index) else { return String::new() };
        // the kind that a template names is reported once it ran
        let kind = if phase == Phase::Pending { step.kind.as_str() } else { step.reported_kind() };
        let parent = match step_index.sub.and_then(|_| self.workflow.steps.get(step_index.step)) {
            None => None,
            Some(group) => match self.index.get(&group.name) {
                Some((at, None)) => Some(*at),
                _ => return String::new(),
            },
        };
        let known = self.index.get(&step.name).copied();
        let status = Arc::make_mut(&mut self.status);
        let list = match parent {
            None => &mut status.steps,
            Some(at) => match status.steps.get_mut(at) {
                Some(parent) => &mut parent.sub_steps,
                None => return String::new(),
            },
        };
        let at = match (known, parent) {
            (Some((at, None)), None) => Some(at),
            (Some((of, Some(at))), Some(parent)) if of == parent => Some(at),
            _ => None,
        };
        if let Some(known) = at.and_then(|at| list.get_mut(at)) {
            kind.clone_into(&mut known.kind);
            message.clone_into(&mut known.message);
            known.phase = phase;
            known.reason = reason;
            known.last_execute_time = Some(now);
            return known.id.clone();
        }
        let id = new_id(&step.name);
        let step_index = match parent {
            None => (list.len(), None),
            Some(parent) => (parent, Some(list.len())),
        };
        list.push(StepStatus {
            id: id.clone(),
            name: step.name.clone(),
            kind: kind.to_owned(),
            phase,
            reason,
            message: message.to_owned(),
            first_execute_time: Some(now),
            last_execute_time: Some(now),
            sub_steps: Vec::new(),
        });
        self.index.insert(step.name.clone(), step_index);
        id
    }

    /// What is recorded of a step.
    pub(super) fn known(&self, name: &str) -> Option<&StepStatus> {
        let (step, sub) = self.index.get(name)?;
        let found = self.status.steps.get(*step)?;
        match sub {
            None => Some(found),
            Some(sub) => found.sub_steps.get(*sub),
        }
    }

    pub(super) fn step(&self, step_index: StepIndex) -> Option<&'a Step> {
        let step = self.workflow.steps.get(step_index.step)?;
        match step_index.sub {
            None => Some(step),
            Some(sub) => step.sub_steps.get(sub),
        }
    }

    pub(super) fn siblings(&self, step_index: StepIndex) -> &'a [Step] {
        match step_index.sub {
            None => &self.workflow.steps,
            Some(_) => self
                .workflow
                .steps
                .get(step_index.step)
                .map(|s| s.sub_steps.as_slice())
                .unwrap_or_default(),
        }
    }

    pub(super) fn find_step(&self, name: &str) -> Option<&'a Step> {
        self.by_name.get(name).copied()
    }

    /// A name in `dependsOn` may be that of the component a step applies.
    pub(super) fn resolve<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.get(name).copied().unwrap_or(name)
    }
}

pub(super) fn by_name(workflow: &Workflow) -> HashMap<&str, &Step> {
    let mut by_name = HashMap::new();
    for step in workflow.all() {
        by_name.entry(step.name.as_str()).or_insert(step);
    }
    by_name
}

pub(super) fn index(status: &Status) -> HashMap<String, (usize, Option<usize>)> {
    let mut index = HashMap::new();
    for (at, step) in status.steps.iter().enumerate() {
        index.entry(step.name.clone()).or_insert((at, None));
        for (sub, step) in step.sub_steps.iter().enumerate() {
            index.entry(step.name.clone()).or_insert((at, Some(sub)));
        }
    }
    index
}

/// Further names of steps, where no step has that name.
pub(super) fn aliases(workflow: &Workflow) -> BTreeMap<&str, &str> {
    let names: HashSet<&str> = workflow.all().map(|s| s.name.as_str()).collect();
    let mut aliases = BTreeMap::new();
    for step in workflow.all() {
        if let Some(alias) = step.alias.as_deref().filter(|alias| !names.contains(alias)) {
            aliases.entry(alias).or_insert(step.name.as_str());
        }
    }
    aliases
}
