//! An API server that rejects requests because there are too many: the chart's FlowSchemas keep the Leases of a fleet out of that, so
//! that no replica loses its session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use vela_tests::audit::{self, Entry};
use vela_tests::deploy::{NAMESPACE, Program, apply_all};
use vela_tests::fixtures::until;
use vela_tests::tenant::every_right_in;

use super::fleet::{LIMIT, World, total};
use super::fleet_faults::Silent;

/// Longer than a session lasts without renewals, and than its member is believed.
const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);
/// What waits in the API server at a time: more than it has seats for in a level with the smallest share.
const REQUESTS: usize = 16;
/// Whose requests take the seats that every ServiceAccount shares.
const LOAD: &str = "load";
const ACCOUNT: &str = "system:serviceaccount:vela-system:kubevela-vela-core";

/// What the API server says about a request: its FlowSchema and its priority level, by uid.
async fn classified(client: &Client, path: &str) -> (u16, [String; 2]) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let of = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let names = ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"];
    (answer.status().as_u16(), names.map(|name| of(answer.headers(), name)))
}

impl World {
    /// The names of FlowSchemas and priority levels by uid.
    async fn flows(&self) -> BTreeMap<String, String> {
        let schemas: Api<FlowSchema> = Api::all(self.client.clone());
        let levels: Api<PriorityLevelConfiguration> = Api::all(self.client.clone());
        let all = ListParams::default();
        let (schemas, levels) =
            (schemas.list(&all).await.unwrap(), levels.list(&all).await.unwrap());
        let schemas = schemas.items.iter().map(|it| (it.uid().unwrap(), it.name_any()));
        let levels = levels.items.iter().map(|it| (it.uid().unwrap(), it.name_any()));
        schemas.chain(levels).collect()
    }

    /// The level of all ServiceAccounts has few seats, and rejects what gets none.
    async fn shrink(&self) {
        let levels: Api<PriorityLevelConfiguration> = Api::all(self.client.clone());
        let patch = json!({
            "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
            "spec": {"limited": {"nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject", "queuing": null}}}});
        levels.patch("workload-low", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn is_lease(entry: &Entry) -> bool {
    entry.resource == "leases" && entry.is_controllers()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_rejects_requests_ends_no_session() {
    let mut world = World::of("fleet-overload", &[]).await;
    world.add("controller-2").await;
    world.balanced(2).await;
    world.edit_all("1", LIMIT).await;

    // What the chart makes of the controller's requests.
    let flows = world.flows().await;
    let ours = world.cluster.client_as(ACCOUNT, &[]).await.unwrap();
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let kinds = "/apis/core.oam.dev/v1beta1";
    for (path, schema, level) in [
        (format!("{leases}/kubevela"), "kubevela-vela-core-leases", "leader-election"),
        (leases.clone(), "kubevela-vela-core-leases", "leader-election"),
        (
            format!("{kinds}/namespaces/default/applications/app-0"),
            "kubevela-vela-core-requests",
            "workload-high",
        ),
        ("/api/v1/nodes/none".to_owned(), "kubevela-vela-core-requests", "workload-high"),
        // An edit waits for what is recorded of its Application.
        (format!("{kinds}/resourcetrackers"), "kubevela-vela-core-requests", "workload-high"),
        (format!("{kinds}/applications"), "service-accounts", "workload-low"),
    ] {
        let (_, found) = classified(&ours, &path).await;
        let found = found.map(|uid| flows.get(&uid).cloned().unwrap_or(uid));
        assert_eq!(found, [schema.to_owned(), level.to_owned()], "{path}");
    }

    // Requests that take all seats of the level in which they would be otherwise.
    let other = format!("system:serviceaccount:{LOAD}:default");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LOAD}});
    let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": LOAD});
    let objects = [vec![namespace], every_right_in(LOAD, &[subject])].concat();
    apply_all(&world.client, objects).await.unwrap();
    let silent = Silent::start().await;
    silent.admits(&world.client, LOAD, &["CREATE"], "Fail").await;
    world.shrink().await;
    let theirs = world.cluster.client_as(&other, &[]).await.unwrap();
    let (over, rejected) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    for _ in 0..REQUESTS {
        let maps: Api<ConfigMap> = Api::namespaced(theirs.clone(), LOAD);
        let (over, rejected) = (Arc::clone(&over), Arc::clone(&rejected));
        tokio::spawn(async move {
            let map = serde_json::from_value(json!({"metadata": {"generateName": "load-"}}));
            let map: ConfigMap = map.unwrap();
            while !over.load(Ordering::Relaxed) {
                let made = maps.create(&PostParams::default(), &map).await;
                if matches!(made, Err(kube::Error::Api(status)) if status.code == 429) {
                    rejected.fetch_add(1, Ordering::Relaxed);
                }
                // As the answer asks for, in short: the seats shall be taken again at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let theirs_is_rejected = async || classified(&theirs, &leases).await.0 == 429;
    until("the level is full", LIMIT, async || {
        silent.open.load(Ordering::Relaxed) > 0 && theirs_is_rejected().await
    })
    .await;

    // For longer than a session lasts; Applications are served meanwhile.
    let replicas = world.all();
    let pids: Vec<_> = replicas.iter().map(|replica| replica.pid()).collect();
    let (table, from, since) = (world.buckets().await, world.position(), Instant::now());
    let time = if std::env::var_os("VELA_LONG_TESTS").is_some() { LONG } else { SHORT };
    world.edit_all("2", LIMIT).await;
    let mut tries = 0;
    until("the time is over", time + LIMIT, async || {
        tries += usize::from(theirs_is_rejected().await);
        since.elapsed() >= time
    })
    .await;
    let seconds = since.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let rejected = rejected.load(Ordering::Relaxed);
    assert!(rejected > 0 && tries > 0, "there was no overload");
    let sent: Vec<Entry> = audit::read(&world.cluster.audit_log(), from)
        .unwrap()
        .into_iter()
        .filter(is_lease)
        .collect();
    eprintln!(
        "{rejected} requests of others and {tries} for Leases were rejected in {seconds:.0} s, and {} of ours for Leases were served",
        sent.len()
    );
    assert!(sent.len() as f64 >= seconds / 2.0, "{} requests", sent.len());
    let lost: Vec<&Entry> = sent.iter().filter(|entry| entry.code == 429).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(total(&replicas, "vela_shard_seizures_total").await, 0.0);
    assert_eq!(world.buckets().await, table);
    assert_eq!(replicas.iter().map(|replica| replica.pid()).collect::<Vec<_>>(), pids);
    replicas.iter().for_each(|replica: &&Program| replica.check().unwrap());
    world.cluster.stop();
}
