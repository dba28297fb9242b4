//! Watches of the four definition kinds into the published snapshot.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::info;
use vela_cluster::watch::{self, Config, Event};
use vela_serve::health::Condition;

use crate::metrics::Metrics;
use crate::snapshot::{Definition, Published};
use crate::world::ObjectKind;
use vela_api::DefinitionKind;

/// Follows one kind until the token is cancelled. The condition holds once all its definitions are
/// in the snapshot, and continues holding: a lost watch makes the cache old, not wrong.
pub(crate) async fn follow(
    kind: DefinitionKind,
    client: Client,
    published: Arc<Published>,
    synced: Condition,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let (version, name, plural) = ObjectKind::Definition(kind).resource();
    let gvk = GroupVersionKind::gvk(vela_api::GROUP, version, name);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut listed: Vec<(String, String, Arc<Definition>)> = Vec::new();
    watch::each(plural, api, Config::default(), &stop, |event| {
        match event {
            Err(error) => {
                if !synced.is_met() {
                    synced.fail(format!("{plural}: {error}"));
                }
                return;
            }
            Ok(event) => apply(kind, event, &published, &mut listed, &synced),
        }
        let count = published.load().count(kind);
        metrics.definitions.with_label_values(&[name]).set(count.try_into().unwrap_or(i64::MAX));
        #[allow(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let now = Timestamp::now().as_second() as f64;
        metrics.cache_synced.with_label_values(&[name]).set(now);
    })
    .await;
}

fn apply(
    kind: DefinitionKind,
    event: Event<DynamicObject>,
    published: &Published,
    listed: &mut Vec<(String, String, Arc<Definition>)>,
    synced: &Condition,
) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => listed.extend(read(kind, &object)),
        Event::InitDone => {
            let all = std::mem::take(listed);
            published.change(|snapshot| {
                snapshot.clear(kind);
                for (namespace, name, definition) in &all {
                    snapshot.insert(kind, namespace, name, Arc::clone(definition));
                }
            });
            info!(kind = kind.kind(), definitions = all.len(), "cache filled");
            synced.pass();
        }
        Event::Apply(object) => {
            if let Some((namespace, name, definition)) = read(kind, &object) {
                published.change(|snapshot| {
                    snapshot.insert(kind, &namespace, &name, Arc::clone(&definition));
                });
            }
        }
        Event::Delete(object) => {
            let namespace = object.metadata.namespace.unwrap_or_default();
            let name = object.metadata.name.unwrap_or_default();
            published.change(|snapshot| snapshot.remove(kind, &namespace, &name));
        }
    }
}

fn read(kind: DefinitionKind, object: &DynamicObject) -> Option<(String, String, Arc<Definition>)> {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let name = object.metadata.name.clone()?;
    let value = serde_json::to_value(object).ok()?;
    Some((namespace, name, Arc::new(Definition::new(kind, &value)?)))
}
