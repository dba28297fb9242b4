//! The keys that the workers of all controllers handle now.

use std::sync::Arc;
use std::time::Duration;

use crate::context::{Context, DefinitionQueues};
use crate::definition::Kind as _;
use crate::queue::Queue;
use crate::registry;

use super::slow::Named;

/// The queues of all controllers.
#[derive(Debug, Clone)]
pub(crate) struct Queues(Vec<(&'static str, Arc<Queue>)>);

impl Queues {
    pub(crate) fn of(context: &Context) -> Self {
        use vela_api::{
            ComponentDefinition, PolicyDefinition, TraitDefinition, WorkflowStepDefinition,
        };
        let DefinitionQueues { components, traits, policies, steps } = &context.definition_queues;
        let all = [
            (registry::APPLICATION, &context.queue),
            (registry::WORKFLOW_RUN, &context.runs.queue),
            (ComponentDefinition::CONTROLLER, components),
            (TraitDefinition::CONTROLLER, traits),
            (PolicyDefinition::CONTROLLER, policies),
            (WorkflowStepDefinition::CONTROLLER, steps),
        ];
        Self(all.map(|(name, queue)| (name, Arc::clone(queue))).into())
    }

    /// What is being worked on, and for how long.
    pub(super) fn running(&self) -> Vec<(Named, Duration)> {
        let of = |(name, queue): &(&'static str, Arc<Queue>)| {
            let name = *name;
            queue.running().into_iter().map(move |(key, time)| ((name, key), time))
        };
        self.0.iter().flat_map(of).collect()
    }

    /// The same as text, for the log.
    pub(crate) fn describe(&self) -> String {
        let mut running = self.running();
        // The longest first: that one is the likely cause of what froze.
        running.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let words = running.iter().map(|((controller, key), time)| {
            format!("{controller} {key} for {} s", time.as_secs())
        });
        words.collect::<Vec<_>>().join(", ")
    }
}
