//! Which shards take Applications: the Pods of the controller that carry a shard's name and are
//! ready. Watched only where shards are not listed by flag.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;
use tracing::info;
use vela_api::names::label;
use vela_cluster::watch::{self, Config, Event};

use crate::snapshot::Published;

/// Follows the Pods of a namespace until the token is cancelled.
pub(crate) async fn follow(
    client: Client,
    namespace: String,
    published: Arc<Published>,
    stop: CancellationToken,
) {
    let api: Api<Pod> = Api::namespaced(client, &namespace);
    let labels = format!("{},app.kubernetes.io/name=vela-core", label::SHARD_ID);
    let mut pods: BTreeMap<String, String> = BTreeMap::new();
    let config = Config::default().labels(&labels);
    watch::each("shards", api, config, &stop, |event| {
        let Ok(event) = event else { return };
        // a list that is not complete says nothing of the shards that are missing in it
        let is_listing = matches!(event, Event::Init | Event::InitApply(_));
        note(event, &mut pods);
        if is_listing {
            return;
        }
        let mut shards: Vec<String> = pods.values().cloned().collect();
        shards.sort_unstable();
        shards.dedup();
        if published.load().shards != shards {
            info!(?shards, "shards that accept Applications");
            published.change(|snapshot| snapshot.shards.clone_from(&shards));
        }
    })
    .await;
}

/// Ready Pods by name, with the shard each is of.
fn note(event: Event<Pod>, pods: &mut BTreeMap<String, String>) {
    match event {
        Event::Init => pods.clear(),
        Event::InitDone => {}
        Event::InitApply(pod) | Event::Apply(pod) => {
            let name = pod.name_any();
            match pod.labels().get(label::SHARD_ID) {
                Some(shard) if is_ready(&pod) => pods.insert(name, shard.clone()),
                _ => pods.remove(&name),
            };
        }
        Event::Delete(pod) => {
            pods.remove(&pod.name_any());
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, shard: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { label::SHARD_ID: shard } },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        }))
        .unwrap()
    }

    #[test]
    fn only_ready_pods_count() {
        let mut pods = BTreeMap::new();
        note(Event::Init, &mut pods);
        note(Event::InitApply(pod("a", "one", "True")), &mut pods);
        note(Event::InitApply(pod("b", "two", "False")), &mut pods);
        note(Event::InitDone, &mut pods);
        assert_eq!(pods.values().collect::<Vec<_>>(), ["one"]);
        note(Event::Apply(pod("b", "two", "True")), &mut pods);
        note(Event::Apply(pod("a", "one", "False")), &mut pods);
        assert_eq!(pods.values().collect::<Vec<_>>(), ["two"]);
        note(Event::Delete(pod("b", "two", "True")), &mut pods);
        assert!(pods.is_empty());
    }
}
