//! Caches of objects that change while they are listed, from an API server that streams lists and from one that does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use vela_cluster::watch::{Config, Kind, feed};
use vela_cluster::{Key, Share, Store, Stored, Whose};
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::fixtures::until;

const OBJECTS: usize = 300;
/// Caches that are filled one after the other while objects change.
const CACHES: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A name and a version.
#[derive(Debug)]
struct Known(Key, String);

impl Stored for Known {
    fn key(&self) -> Key {
        self.0.clone()
    }
    fn version(&self) -> &str {
        &self.1
    }
}

fn known(map: &ConfigMap) -> Known {
    let key = Key::new(map.namespace().unwrap_or_default(), map.name_any());
    Known(key, map.resource_version().unwrap_or_default())
}

fn name(index: usize) -> String {
    format!("m{index}")
}

fn map(index: usize) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name(index)}})).unwrap()
}

/// Objects are deleted, created again and edited.
async fn changes(maps: &Api<ConfigMap>, goes_on: &AtomicBool) {
    let mut round = 0_usize;
    while goes_on.load(Ordering::Relaxed) {
        let index = round * 7 % OBJECTS;
        maps.delete(&name(index), &DeleteParams::default()).await.unwrap();
        if round.is_multiple_of(2) {
            maps.create(&PostParams::default(), &map(index)).await.unwrap();
            let edit = Patch::Merge(json!({"data": {"round": round.to_string()}}));
            maps.patch(&name(index), &PatchParams::default(), &edit).await.unwrap();
        } else {
            let before = (round - 1) * 7 % OBJECTS;
            let edit = Patch::Merge(json!({"data": {"round": round.to_string()}}));
            maps.patch(&name(before), &PatchParams::default(), &edit).await.unwrap();
            maps.create(&PostParams::default(), &map(index)).await.unwrap();
        }
        round += 1;
    }
    // The last ones stay deleted.
    for index in 0..5 {
        maps.delete(&name(index), &DeleteParams::default()).await.unwrap();
    }
}

/// A cache that is fed, from now on.
fn cache(client: &Client) -> Arc<Store<Known>> {
    let store = Arc::<Store<Known>>::default();
    let (client, kept) = (client.clone(), Arc::clone(&store));
    tokio::spawn(async move {
        let config = Config::default().page_size(20).streaming_lists();
        let kind = Kind { config, share: &Share::default(), whose: Whose::Everybodys };
        feed(client, kind, kept, |it: ConfigMap, _| known(&it), |_| ()).await;
    });
    store
}

fn versions<'a>(all: impl IntoIterator<Item = &'a Known>) -> BTreeMap<Key, String> {
    all.into_iter().map(|it| (it.0.clone(), it.1.clone())).collect()
}

/// How many lists of ConfigMaps the caches took, once each has what the API server has.
async fn lists_of_caches(cluster: &Cluster) -> usize {
    let client = cluster.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let create = async |index| maps.create(&PostParams::default(), &map(index)).await.unwrap();
    join_all((0..OBJECTS).map(create)).await;
    let from = audit::position(&cluster.audit_log()).unwrap();
    let goes_on = Arc::new(AtomicBool::new(true));
    let changing = tokio::spawn({
        let (maps, goes_on) = (maps.clone(), Arc::clone(&goes_on));
        async move { changes(&maps, &goes_on).await }
    });
    let mut caches = Vec::new();
    for _ in 0..CACHES {
        let store = cache(&client);
        tokio::time::timeout(LIMIT, store.synced()).await.expect("the list is complete");
        caches.push(store);
    }
    goes_on.store(false, Ordering::Relaxed);
    changing.await.unwrap();
    let mut read = audit::read(&cluster.audit_log(), from).unwrap();
    read.retain(|entry| entry.verb == "list" && entry.resource == "configmaps");

    let all: Api<ConfigMap> = Api::all(client);
    let there = all.list(&ListParams::default()).await.unwrap().items;
    let there: Vec<Known> = there.iter().map(known).collect();
    let there = versions(&there);
    for store in &caches {
        until("a cache has what the API server has", LIMIT, async || {
            versions(store.all().iter().map(|it| &**it)) == there
        })
        .await;
    }
    read.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_it_is_listed_is_known() {
    let streams = Cluster::start_lean("streamed-lists").await.unwrap();
    assert_eq!(lists_of_caches(&streams).await, 0);
    drop(streams);
    let pages = Cluster::start_without("lists-in-pages", "WatchList").await.unwrap();
    let lists = lists_of_caches(&pages).await;
    assert!(lists >= CACHES * OBJECTS / 20, "{lists}");
}
