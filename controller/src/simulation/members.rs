//! The members of a process under test, each over a server of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vela_cluster::members::{Cluster, Connecting, SecretRules, SharedRules};
use vela_cluster::{ClientOptions, ObjectClient};

use crate::clusters::Clusters;
use crate::clusters::access::Access;
use crate::queue::{Class, Key, Queue};

use super::{Process, World};

/// The clusters of a process, each over its server.
pub(super) fn start(
    world: &World,
    number: usize,
    (io, queue): (&Arc<ObjectClient>, &Arc<Queue>),
    stop: &CancellationToken,
) -> Clusters {
    if world.members.is_empty() {
        return Clusters::own();
    }
    let connecting = Connecting {
        share: Arc::default(),
        options: ClientOptions::new("vela-controller/simulation"),
        rules: SecretRules::default(),
        notify: Arc::new(|_, _| {}),
        budget: Arc::default(),
        authority: String::new(),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
    };
    let access = Access::new(io.client().clone(), "", SharedRules::of(None));
    let queue = Arc::clone(queue);
    let wake = Arc::new(move |app: &Key| queue.add(app.clone(), Class::Progress));
    let clusters = Clusters::of("vela-system", connecting, access, wake);
    let members = clusters.members().unwrap();
    members.remember(BTreeMap::new(), "hub".to_owned(), false);
    for (name, server) in &world.members {
        members.join(cluster(name), server.client(number), name);
    }
    let names: Vec<String> = world.members.iter().map(|(name, _)| (*name).to_owned()).collect();
    members.synced(true, Some(&names));
    clusters
}

/// Vouches for a cluster: shaped like a certificate, it is only compared.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

/// A cluster that joined. All of them have one authority; how it is reached does not matter here.
pub(super) fn cluster(name: &str) -> Cluster {
    cluster_of(name, AUTHORITY)
}

/// The same with another authority; none if it is empty.
pub(super) fn cluster_of(name: &str, authority: &str) -> Cluster {
    let secret = json!({"metadata": {"name": name, "uid": format!("secret-{name}"),
        "labels": {"region": name, "cluster.core.oam.dev/cluster-credential-type": "ServiceAccountToken"}},
        "data": {"endpoint": STANDARD.encode("https://10.0.0.1"), "token": STANDARD.encode("t"),
            "ca.crt": STANDARD.encode(authority)}});
    Cluster::of(&serde_json::from_value(secret).unwrap(), SecretRules::default())
}

/// One whose Secret has no endpoint.
pub(super) fn cluster_of_no_use(name: &str) -> Cluster {
    let secret = json!({"metadata": {"name": name, "uid": format!("secret-{name}"),
        "labels": {"cluster.core.oam.dev/cluster-credential-type": "ServiceAccountToken"}}});
    Cluster::of(&serde_json::from_value(secret).unwrap(), SecretRules::default())
}

/// The watches of the members that can be reached catch up.
pub(super) async fn catch_up(world: &World, process: &Process) {
    for (name, server) in &world.members {
        let is_open = || {
            let snapshot = process.context.clusters.snapshot();
            snapshot.members().get(*name).is_some_and(|member| member.reach().is_ok())
        };
        while is_open() && !server.state.lock().has_seen(process.number) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
