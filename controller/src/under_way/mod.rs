//! What is under way, seen from the vital threads: slow reconciles are named, and what was under way when the workers froze.

mod slow;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::context::{Context, DefinitionQueues};
use crate::definition::Kind as _;
use crate::queue::Queue;
use crate::registry;

use slow::{Named, Said};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);

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
            (ComponentDefinition::CONTROLLER, components),
            (TraitDefinition::CONTROLLER, traits),
            (PolicyDefinition::CONTROLLER, policies),
            (WorkflowStepDefinition::CONTROLLER, steps),
        ];
        Self(all.map(|(name, queue)| (name, Arc::clone(queue))).into())
    }

    /// What is being worked on, and for how long.
    fn running(&self) -> Vec<(Named, Duration)> {
        let of = |(name, queue): &(&'static str, Arc<Queue>)| {
            let name = *name;
            queue.running().into_iter().map(move |(key, time)| ((name, key), time))
        };
        self.0.iter().flat_map(of).collect()
    }

    /// The same in words, for the log.
    pub(crate) fn in_words(&self) -> String {
        let mut running = self.running();
        running.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let words = running.iter().map(|((controller, key), time)| {
            format!("{controller} {key} for {} s", time.as_secs())
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Names what takes long, until `end`.
pub(crate) async fn name_slow(queues: Queues, end: CancellationToken) {
    let mut said = Said::default();
    while tokio::time::timeout(LOOK, end.cancelled()).await.is_err() {
        for ((controller, key), time) in said.news(queues.running()) {
            warn!(controller, key = %key, seconds = time.as_secs(), "a reconcile takes long");
        }
    }
}
