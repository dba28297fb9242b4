//! The record of what is in flight, as an annotation of the Lease: read and written when the lead begins, written when it ends
//! in order, and between only while something takes long, when somebody survived a death, and by a cautious process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};
use vela_api::names::annotation;

use crate::context::Context;
use crate::queue::Queue;

use super::record::Record;
use super::{CHECK_INTERVAL, InFlight, State, Subject};

/// What runs longer is noted: a process that dies later died over it, perhaps.
const NOTED: Duration = Duration::from_secs(3);
/// Where the API server is slow, everything runs long: this many times the time of a write is no sign of anything.
const SLOWER: u32 = 10;

/// Reads and writes the record.
#[derive(Debug)]
pub(crate) struct Notes {
    api: Api<Lease>,
    lease: String,
    in_flight: Arc<InFlight>,
}

impl Notes {
    /// Takes over the record that the predecessor left.
    ///
    /// # Errors
    /// The API server's answer.
    pub(crate) async fn begin(
        client: kube::Client,
        (namespace, lease): (&str, &str),
        leader: &str,
        in_flight: Arc<InFlight>,
    ) -> kube::Result<Self> {
        let api: Api<Lease> = Api::namespaced(client, namespace);
        let found = api.get(lease).await?;
        let text =
            found.metadata.annotations.as_ref().and_then(|all| all.get(annotation::IN_FLIGHT));
        // A record of another version, or one that somebody edited, must not keep the controller
        // from starting.
        let mut record: Record = match text.map(|text| serde_json::from_str(text)) {
            None => Record::default(),
            Some(Ok(record)) => record,
            Some(Err(error)) => {
                warn!(%error, "the reconciles in flight of the last leader cannot be read");
                Record::default()
            }
        };
        let notes = Self { api, lease: lease.to_owned(), in_flight };
        let found = record.begin(leader, Timestamp::now());
        for key in &found {
            let deaths = record.deaths_of(key);
            error!(subject = key, deaths, "the last leader died while it reconciled this");
        }
        if record.unexplained > 0 {
            let deaths = record.unexplained;
            warn!(
                deaths,
                "the last leader died without a note: reconciles are noted before their start"
            );
        }
        // Who dies before anything is noted has died, too.
        notes.write(&record).await?;
        notes.in_flight.put(record);
        Ok(notes)
    }

    async fn write(&self, record: &Record) -> kube::Result<()> {
        // A merge patch of one annotation: elections write the same Lease, and must not meet a
        // conflict.
        let text = serde_json::to_string(record).map_err(kube::Error::SerdeError)?;
        let body = json!({"metadata": {"annotations": {annotation::IN_FLIGHT: text}}});
        self.api.patch(&self.lease, &PatchParams::default(), &Patch::Merge(body)).await.map(drop)
    }

    /// Keeps the record until `end`, which is an end in order: then nothing is in flight.
    pub(crate) async fn keep(self, context: Arc<Context>, end: CancellationToken) {
        let mut noted = NOTED;
        loop {
            let over = tokio::select! {
                () = end.cancelled() => true,
                () = self.in_flight.asked.notified() => false,
                () = tokio::time::sleep(CHECK_INTERVAL) => false,
            };
            let now = Timestamp::now();
            let set_aside = self.in_flight.count_set_aside(now);
            context.metrics.set_aside.set(i64::try_from(set_aside).unwrap_or(i64::MAX));
            let (record, asked) = if over {
                // Nobody may wait for a note of a process that is about to end.
                (self.in_flight.end(), u64::MAX)
            } else {
                self.in_flight.note(long(&context, noted))
            };
            if let Some(record) = record {
                let since = Instant::now();
                match self.write(&record).await {
                    Ok(()) => noted = NOTED.max(since.elapsed().saturating_mul(SLOWER)),
                    Err(error) => {
                        debug!(%error, "reconciles in flight cannot be noted");
                        self.in_flight.mark_unwritten();
                    }
                }
            }
            // Also after a failure: whoever waits goes on, without the note.
            self.in_flight.followed.send_replace(asked);
            if over {
                return;
            }
        }
    }
}

/// Who has been in flight for longer, with the generations.
fn long(context: &Context, than: Duration) -> BTreeMap<String, i64> {
    let running = |queue: &Queue| {
        let running = queue.running().into_iter().filter(|(_, time)| *time >= than);
        running.map(|(key, _)| key).collect::<Vec<_>>()
    };
    let apps = running(&context.queue).into_iter().filter_map(|key| {
        let app = State::from(&*context.apps.get(&key)?);
        Some((Subject::application(&key).name(), app.generation))
    });
    let runs = running(&context.runs.queue).into_iter().filter_map(|key| {
        let run = State::from(&*context.runs.store.get(&key)?);
        Some((Subject::run(&key).name(), run.generation))
    });
    apps.chain(runs).collect()
}
