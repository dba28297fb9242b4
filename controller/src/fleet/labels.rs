//! `vela-controller shard-labels`: gives Applications without a shard label one, and their records that of their Application. Go's
//! controllers with shards see nothing that has no label; run it before going back to them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use futures::{TryStreamExt as _, stream};
use kube::api::{Api, ListParams, PartialObjectMeta, Patch, PatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use vela_api::names::label;
use vela_api::{Application, ApplicationRevision, ResourceTracker};
use vela_shard::{MASTER, is_shard_id};

use super::show::ended;
use crate::application::facts::label as label_of;
use crate::command::{self, KubeconfigArgs};

/// The command.
pub const COMMAND: &str = "shard-labels";

/// Objects in an answer to a list.
const PAGE: u32 = 500;
/// Requests at a time.
const CONCURRENT: usize = 8;

/// Labels Applications and their records with a shard where they have none.
#[derive(Debug, Parser)]
#[command(name = "vela-controller shard-labels")]
struct Flags {
    #[command(flatten)]
    kubeconfig: KubeconfigArgs,
    /// The shard of Applications without a label.
    #[arg(long, default_value = MASTER)]
    pool: String,
    /// Only count what would be labelled.
    #[arg(long)]
    dry_run: bool,
}

/// Labels, or says why not.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let flags: Flags = match command::parsed(arguments) {
        Ok(flags) => flags,
        Err(ended) => return ended,
    };
    ended(command::block_on(run(&flags)).map_err(Into::into).and_then(|answer| answer))
}

async fn run(flags: &Flags) -> anyhow::Result<String> {
    anyhow::ensure!(is_shard_id(&flags.pool), "--pool: {:?} is no name of a shard", flags.pool);
    let (client, _) = flags.kubeconfig.connect().await?;
    let apps = list::<Application>(&client).await?;
    let shards: BTreeMap<(String, String), String> = apps
        .iter()
        .map(|app| {
            let shard = Some(shard(app)).filter(|shard| !shard.is_empty()).unwrap_or(&flags.pool);
            (application(app), shard.to_owned())
        })
        .collect();
    // Records first: a controller that sees the Application finds its records.
    let revisions = list::<ApplicationRevision>(&client).await?;
    let revisions = label_all::<ApplicationRevision>(flags, &client, &revisions, &shards).await?;
    let trackers = list::<ResourceTracker>(&client).await?;
    let trackers = label_all::<ResourceTracker>(flags, &client, &trackers, &shards).await?;
    let apps = label_all::<Application>(flags, &client, &apps, &shards).await?;
    let done = if flags.dry_run { "would be labelled" } else { "labelled" };
    Ok(format!("{apps} Applications, {revisions} revisions, {trackers} trackers {done}\n"))
}

fn shard<T>(object: &PartialObjectMeta<T>) -> &str {
    label_of(&object.metadata, label::SCHEDULED_SHARD_ID)
}

/// The metadata of all objects of a kind.
async fn list<T>(client: &Client) -> anyhow::Result<Vec<PartialObjectMeta<T>>>
where
    T: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<T> = Api::all(client.clone());
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list_metadata(&params).await.with_context(|| T::kind(&()).into_owned())?;
        all.extend(page.items);
        let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) else {
            return Ok(all);
        };
        params = params.continue_token(&next);
    }
}

/// The Application that an object is, or belongs to.
fn application<T: Resource<DynamicType = ()>>(object: &PartialObjectMeta<T>) -> (String, String) {
    let own = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &object.metadata;
    if T::kind(&()) == Application::KIND {
        return (own(&metadata.namespace), own(&metadata.name));
    }
    let of = |key: &str| Some(label_of(metadata, key)).filter(|text| !text.is_empty());
    let namespace =
        of(label::APP_NAMESPACE).map_or_else(|| own(&metadata.namespace), str::to_owned);
    (namespace, of(label::APP_NAME).unwrap_or_default().to_owned())
}

/// Labels the objects that have no label, or not that of their Application. How many.
async fn label_all<T>(
    flags: &Flags,
    client: &Client,
    objects: &[PartialObjectMeta<T>],
    shards: &BTreeMap<(String, String), String>,
) -> anyhow::Result<usize>
where
    T: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let missing = |object: &PartialObjectMeta<T>| {
        let wanted = shards.get(&application(object))?;
        (shard(object) != wanted).then(|| {
            let metadata = &object.metadata;
            let name = metadata.name.clone().unwrap_or_default();
            (metadata.namespace.clone(), name, wanted.clone())
        })
    };
    let missing: Vec<_> = objects.iter().filter_map(missing).collect();
    let count = missing.len();
    if flags.dry_run {
        return Ok(count);
    }
    stream::iter(missing.into_iter().map(Ok))
        .try_for_each_concurrent(CONCURRENT, |(namespace, name, shard)| async move {
            // Of any scope: trackers have no namespace.
            let api: Api<kube::api::DynamicObject> = match &namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind::<T>()),
                None => Api::all_with(client.clone(), &kind::<T>()),
            };
            let patch =
                Patch::Merge(json!({"metadata": {"labels": {label::SCHEDULED_SHARD_ID: shard}}}));
            match api.patch_metadata(&name, &PatchParams::default(), &patch).await {
                Ok(_) => Ok(()),
                // Gone in the meantime.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(error).with_context(|| format!("{} {name}", T::kind(&()))),
            }
        })
        .await?;
    Ok(count)
}

fn kind<T: Resource<DynamicType = ()>>() -> kube::api::ApiResource {
    kube::api::ApiResource::erase::<T>(&())
}
