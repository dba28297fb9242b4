//! What is under way, seen from the vital threads: slow reconciles are named, and what was under way when the workers froze;
//! an Application over which processes died is set aside.

mod notes;
mod record;
mod slow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::context::{Context, DefinitionQueues};
use crate::definition::Kind as _;
use crate::queue::{Key, Queue};
use crate::registry;

pub(crate) use notes::Notes;
use record::Record;
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

/// What is known of deaths, asked by every worker.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    state: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    record: Record,
    /// It is not stored as it is.
    is_news: bool,
}

impl UnderWay {
    /// What the last leader left.
    fn put(&self, record: Record) {
        *self.state.lock() = Noted { record, is_news: false };
    }

    /// How long an Application is set aside, and after how many deaths.
    pub(crate) fn set_aside(&self, key: &Key, generation: i64) -> Option<(Duration, u32)> {
        let state = self.state.lock();
        if state.record.deaths.is_empty() {
            return None;
        }
        let key = key.to_string();
        let left = state.record.set_aside(&key, generation, Timestamp::now())?;
        Some((left, state.record.deaths_of(&key)))
    }

    /// A reconcile came to its end, whatever that was.
    pub(crate) fn survived(&self, key: &Key) {
        let mut state = self.state.lock();
        if !state.record.deaths.is_empty() && state.record.survived(&key.to_string()) {
            state.is_news = true;
        }
    }

    fn count_set_aside(&self, now: Timestamp) -> usize {
        self.state.lock().record.count_set_aside(now)
    }

    /// Takes note of what is under way; the record if it is to be written.
    fn note(&self, under_way: BTreeMap<String, i64>) -> Option<Record> {
        let mut state = self.state.lock();
        let is_news = state.record.note(under_way);
        (std::mem::take(&mut state.is_news) || is_news).then(|| state.record.clone())
    }

    /// It could not be written.
    fn again(&self) {
        self.state.lock().is_news = true;
    }

    /// As if processes had died over an Application.
    #[cfg(test)]
    pub(crate) fn died_over(&self, key: &Key, generation: i64, times: u32) {
        let mut state = self.state.lock();
        for time in 0..times {
            state.record.note(BTreeMap::from([(key.to_string(), generation)]));
            let next = format!("{}-{time}", state.record.leader);
            state.record.begin(&next, Timestamp::now());
        }
    }
}
