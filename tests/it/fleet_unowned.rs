//! A member that renews its Lease and does not work: the table names it as the holder of buckets, so nobody works on them. That must be
//! noticed, by a metric and by an event that names each Application.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_api::names::annotation;
use vela_shard::{Buckets, Slot, Table, bucket_of};
use vela_tests::fixtures::until;
use vela_tests::fleet;

use super::fleet::{LIMIT, World, names, total};

/// Within this time an Application without an owner must be noticed.
const NOTICED: Duration = Duration::from_secs(60);
/// What no take-over lasts longer than is no reason for an alarm.
const TOLERATED: Duration = Duration::from_secs(15);
const METRIC: &str = "vela_shard_unowned";
const TABLE: &str = "kubevela-shards";
const LEASE: &str = "kubevela-member-idle";
const MEMBER: &str = "idle_1";

/// A renewal of a member that keeps everything and works on nothing.
fn renewal() -> Value {
    json!({"metadata": {"name": LEASE, "annotations": {
            annotation::FLEET_MEMBER: MEMBER,
            annotation::FLEET_CACHED: Buckets::ALL.to_text(),
            annotation::FLEET_WORKED: format!("master={}", Buckets::default().to_text())}},
        "spec": {"holderIdentity": MEMBER, "leaseDurationSeconds": 8,
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}})
}

impl World {
    async fn table(&self) -> (Lease, Table) {
        let lease = self.leases().get(TABLE).await.unwrap();
        let text = &lease.metadata.annotations.as_ref().unwrap()[annotation::FLEET_TABLE];
        let table = Table::from_text(text).unwrap();
        (lease, table)
    }

    /// The buckets that a member holds.
    async fn held_by(&self, member: &str) -> Buckets {
        let (_, table) = self.table().await;
        let bucket = |slot| match slot {
            Slot::Bucket(_, bucket) => Some(bucket),
            Slot::Lead => None,
        };
        table.held_by(member).filter_map(bucket).collect()
    }

    /// Writes a member into the table, as it would itself.
    async fn join(&self, member: &str) {
        until("the member is in the table", LIMIT, async || {
            let (mut lease, mut table) = self.table().await;
            table.join(&member.into(), &"".into(), 1);
            table.revision += 1;
            let annotations = lease.metadata.annotations.as_mut().unwrap();
            annotations.insert(annotation::FLEET_TABLE.to_owned(), table.to_text());
            match self.leases().replace(TABLE, &PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.code == 409 => false,
                written => written.is_ok(),
            }
        })
        .await;
    }

    async fn unowned(&self) -> f64 {
        total(&self.all(), METRIC).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_that_nobody_works_on_are_counted_and_named() {
    let world = World::of("fleet-unowned", &[]).await;
    world.edit_all("1", LIMIT).await;
    assert_eq!(world.unowned().await, 0.0);

    let leases: Api<Lease> = world.leases();
    let lease: Lease = serde_json::from_value(renewal()).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let renews = tokio::spawn(async move {
        loop {
            let renewal = Patch::Merge(renewal());
            let _ = leases.patch(LEASE, &PatchParams::default(), &renewal).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let since = Instant::now();
    world.join(MEMBER).await;
    until("it holds half of all buckets", LIMIT, async || world.held_by(MEMBER).await.len() == 128)
        .await;
    let idle = world.held_by(MEMBER).await;
    // One more that is created there, and is deployed by nobody.
    let is_idle = |name: &String| idle.contains(bucket_of("default", name));
    let new = (100..).map(|number| format!("app-{number}")).find(is_idle).unwrap();
    world.apply(&new, "1").await;
    let unowned: BTreeSet<String> = names().filter(is_idle).chain([new.clone()]).collect();
    until("all are counted", NOTICED, async || world.unowned().await == unowned.len() as f64).await;
    let counted = since.elapsed();
    until("all are named", NOTICED, async || world.warned("Unowned").await == unowned).await;
    let named = since.elapsed();
    eprintln!(
        "{} Applications without an owner were counted after {:.1} s and named after {:.1} s",
        unowned.len(),
        counted.as_secs_f64(),
        named.as_secs_f64()
    );
    assert!(counted >= TOLERATED, "a planned change would be reported, too");
    assert!(named <= NOTICED, "{named:?}");
    assert_eq!(world.value(&new).await, None, "somebody works on it");
    // The others are served.
    for name in names().filter(|name| !is_idle(name)) {
        world.apply(&name, "2").await;
        until(&format!("{name} is served"), LIMIT, async || {
            world.value(&name).await.as_deref() == Some("2")
        })
        .await;
    }

    // It is silent at last, and is followed.
    renews.abort();
    until("its Application is deployed", LIMIT, async || world.value(&new).await.is_some()).await;
    until("none is counted", LIMIT, async || world.unowned().await == 0.0).await;
    assert!(fleet::is_balanced(&world.client, 1).await.unwrap());
    world.cluster.stop();
}
