//! What the caches of this member keep: its share of the Applications, and what it gets when another member dies. `vela-shard`
//! decides; here the caches follow, and are asked what they are filled for.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, ListParams};
use vela_cluster::{Error, Keeping, Key, Selectors};
use vela_shard::{Buckets, Kept, bucket_of, share_of_new};

use crate::context::{Context, Settings};

use super::{Fleet, Names, bucket_label, clock, lease, owner_label};

/// How the caches know it.
pub(super) fn keeping(kept: &Kept, settings: &Settings) -> Keeping {
    let (generation, is_everything) = (kept.generation(), kept.buckets() == Buckets::ALL);
    let buckets = kept.buckets();
    let selectors = Selectors {
        records: settings.label_records.then(|| bucket_label::selector(buckets)).flatten(),
        objects: settings.label_objects.then(|| owner_label::selector(buckets)).flatten(),
    };
    let kept = kept.clone();
    let since = move |app: &Key| kept.since(bucket_of(&app.namespace, &app.name));
    Keeping { generation, since: Arc::new(since), selectors, is_everything }
}

/// What a member is going to keep that is about to join: what the table gives it then. Without a table it is everything.
///
/// # Errors
/// The Leases cannot be listed.
pub(crate) async fn foresee(
    client: Client,
    (namespace, names): (&str, &Names),
    (id, pool, pod): (&str, &str, &str),
) -> Result<Kept, Error> {
    let api: Api<Lease> = Api::namespaced(client, namespace);
    let leases = api.list(&ListParams::default()).await?.items;
    let find = |name: &str| leases.iter().find(|found| lease::name(found) == name);
    // A process of the same Pod that is over has its place in the table until it is judged.
    let before = find(&names.member(pod)).map(lease::holder);
    let table = find(&names.table()).and_then(|found| lease::table(found).ok());
    let share = table
        .map_or(Buckets::ALL, |table| share_of_new(&table, (&id.into(), &pool.into()), before));
    Ok(Kept::new(share))
}

impl Fleet {
    /// The caches keep what the table says, and buckets are worked on that they are filled for.
    pub(crate) fn keep(&self, context: &Context) {
        let listed = context.records_listed();
        let mut state = self.state.lock();
        let (is_other, is_filled) = state.keep(listed, clock::now());
        if is_other {
            // Under the lock: of two changes the later one counts.
            context.share.set(keeping(&state.kept, &context.settings));
        }
        drop(state);
        if is_filled {
            self.filled.notify_one();
        }
    }

    /// The caches keep this from their first list on.
    pub(crate) fn begin_with(&self, kept: Kept, context: &Context) {
        let mut state = self.state.lock();
        context.share.set(keeping(&kept, &context.settings));
        state.filled = kept.filled(0);
        state.kept = kept;
    }
}
