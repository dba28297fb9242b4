//! Labels the records that have no label of their bucket yet, from before labels were written: those of Applications that this member
//! works on, slowly, and while nothing else is to be done. Without a label a record is sent to every replica, which costs but harms
//! nobody.

use std::fmt::Debug;
use std::time::Duration;

use kube::Resource;
use kube::api::{Api, ListParams, ObjectMeta};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::{info, warn};
use vela_api::names::label;
use vela_api::{ApplicationRevision, ResourceTracker};
use vela_cluster::{Key, Whose};

use super::Runner;
use crate::fleet::bucket_label;

/// Records in an answer to a list.
const PAGE: u32 = 500;
/// Between two writes: at most twenty a second.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is tried to correct a label, with [`BUSY`] in between.
const ATTEMPTS: u32 = 5;
/// How often the queue is checked while it is not empty.
const BUSY: Duration = Duration::from_secs(1);
/// After a round that found records without the label, also others': their owner may be another one by then. After one that found none.
const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(600);

/// Records without the label that a round found, and how many of them it labelled.
#[derive(Default)]
struct Round {
    found: usize,
    labelled: usize,
}

impl Runner {
    /// Labels what has no label or a wrong one, for ever.
    pub(super) async fn label_records(&self) {
        if !self.context.settings.label_records {
            return;
        }
        self.fleet.until_joined().await;
        tokio::join!(self.label_unlabelled(), self.correct_labels());
    }

    async fn correct_labels(&self) {
        let labels = &self.context.wrong_labels;
        let mut waiting = labels.waiting().await;
        while let Some(wrong) = waiting.recv().await {
            let mut attempts = 1;
            while let Err(error) = wrong.correct(&self.context.io).await {
                let (record, app) = wrong.about();
                warn!(%error, %app, record, "the label of the bucket could not be corrected");
                if attempts == ATTEMPTS {
                    break;
                }
                attempts += 1;
                sleep(BUSY).await;
            }
            sleep(PAUSE).await;
        }
    }

    async fn label_unlabelled(&self) {
        loop {
            let mut round = Round::default();
            let done = async {
                self.label_all::<ApplicationRevision>(Whose::Namespaced, &mut round).await?;
                self.label_all::<ResourceTracker>(Whose::ClusterScoped, &mut round).await
            };
            if let Err(error) = done.await {
                warn!(%error, "records without the label of a bucket cannot be listed");
                round.found = round.found.saturating_add(1);
            }
            if round.labelled > 0 {
                info!(records = round.labelled, "labelled with the bucket of their application");
            }
            sleep(if round.found > 0 { SOON } else { LATER }).await;
        }
    }

    /// Labels the own records of a kind.
    async fn label_all<K>(&self, whose: Whose, round: &mut Round) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::all(self.context.io.client().clone());
        let mut params = ListParams::default().labels(&format!("!{}", label::BUCKET)).limit(PAGE);
        loop {
            let page = api.list_metadata(&params).await?;
            for record in page.items {
                let Some(app) = whose.of(&record.metadata) else { continue };
                let is_labelled = self.label_one::<K>(&record.metadata, &app).await;
                round.found = round.found.saturating_add(1);
                round.labelled = round.labelled.saturating_add(usize::from(is_labelled));
            }
            let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) else {
                return Ok(());
            };
            params = params.continue_token(&next);
        }
    }

    /// Labels a record if it is of an Application that this member works on.
    async fn label_one<K>(&self, metadata: &ObjectMeta, app: &Key) -> bool
    where
        K: Resource<DynamicType = ()>,
    {
        if !self.fleet.is_ours(app) {
            return false;
        }
        while !self.context.queue.is_empty() {
            sleep(BUSY).await;
        }
        sleep(PAUSE).await;
        let kind = K::kind(&());
        let written = bucket_label::write(&self.context.io, &kind, metadata, app);
        // One that changed in the meantime has its turn in the next round.
        self.fleet.work(app, true, written).await.is_some_and(|written| written.is_ok())
    }
}
