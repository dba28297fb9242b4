//! Members of a fleet, one of them in a pool: an Application whose label changes moves between them, its bucket is handed over at the
//! same time, and what they see of it is old sometimes. Whoever writes for it is its owner by the annotation that is stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vela_cluster::Key;
use vela_serve::metrics::Registry;
use vela_shard::{BUCKETS, MemberId, Slot, Table, bucket_of};

use super::{NAMESPACE, Process, World, application};
use crate::application as reconciler;
use crate::fleet::{Fleet, Pace, Permit, Pools, tests::refresh};

const LABEL: &str = "controller.core.oam.dev/scheduled-shard-id";
const POOL: &str = "p";
/// The members and their pools.
const MEMBERS: [(&str, &str); 3] = [("a_1", ""), ("c_1", ""), ("x_1", POOL)];

struct Replica {
    id: MemberId,
    process: Process,
    fleet: Arc<Fleet>,
}

/// A process as a member of a fleet whose sessions no simulation outlives: nothing is written that it does not hold.
pub(super) fn member(process: &Process, id: &str, pools: Pools) -> Arc<Fleet> {
    let pace = Pace {
        lease_duration: Duration::from_secs(80),
        renew_deadline: Duration::from_secs(50),
        retry_period: Duration::from_secs(10),
        root_permitted: Duration::from_secs(60),
    };
    let apps = Arc::clone(&process.context.apps);
    let registry = Registry::new("member", "0").unwrap();
    let fleet = Arc::new(Fleet::new(id, (pace, pools), apps, &registry).unwrap());
    process.fence.guard_fleet(Arc::new(Permit(Arc::clone(&fleet))));
    fleet
}

impl Replica {
    fn start(world: &World, (id, pool): (&str, &str)) -> Self {
        let process = world.start();
        let pools = Pools { own: pool.to_owned(), fallback: Some(Duration::ZERO), are_on: true };
        let fleet = member(&process, id, pools);
        Self { id: id.into(), process, fleet }
    }

    /// One reconcile as the queue would start it. How many writes it sent.
    async fn step(&self, world: &World, table: &Arc<Table>, is_late: bool) -> usize {
        while !world.server.state.lock().has_seen(self.process.number) {
            tokio::task::yield_now().await;
        }
        if !is_late {
            world.sync(&self.process);
        }
        refresh(&self.fleet, table);
        let (key, context) = (Key::new(NAMESPACE, "a"), &self.process.context);
        let before = world.server.state.lock().writes;
        if self.fleet.is_ours(&key) {
            let work = self.fleet.reconcile(context, &key, || reconciler::reconcile(context, &key));
            let _ = Box::pin(work).await;
        }
        world.server.state.lock().writes - before
    }
}

/// Who owns the Application by what is stored.
fn owner(world: &World, table: &Table) -> MemberId {
    let annotation =
        world.app("a")["metadata"]["annotations"]["controller.core.oam.dev/shard"].clone();
    let slot = table.slot(annotation.as_str().unwrap_or_default(), bucket_of(NAMESPACE, "a"));
    Arc::clone(table.holder(&slot).unwrap())
}

fn edit(world: &World, change: impl FnOnce(&mut Value)) {
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, "a").cloned().unwrap();
        change(&mut app);
        state.put("applications", app);
    });
}

#[tokio::test]
async fn whoever_writes_for_an_application_owns_it_by_its_annotation() {
    let mut writers = BTreeSet::new();
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = World::new();
        world.server.by_another_writer(|state| {
            state.put("applications", application("a", &[("c", &["x"], "1")]));
        });
        let mut table = Table::new(BUCKETS);
        MEMBERS.iter().for_each(|(id, pool)| table.join(&(*id).into(), &(*pool).into(), 1));
        let slots: Vec<Slot> = table.slots().collect();
        slots.iter().for_each(|slot| table.give(slot));
        let replicas: Vec<Replica> =
            MEMBERS.iter().map(|member| Replica::start(&world, *member)).collect();
        world.server.state.lock().apps = None;
        let bucket = usize::from(bucket_of(NAMESPACE, "a"));
        for step in 0..60_u64 {
            match random.u8(0..6) {
                0 => edit(&world, |app| {
                    let is_there = app["metadata"]["labels"][LABEL].is_string();
                    app["metadata"]["labels"] =
                        if is_there { json!({}) } else { json!({LABEL: POOL}) };
                }),
                1 => edit(&world, |app| {
                    app["spec"]["components"][0]["properties"]["value"] = json!(step.to_string());
                }),
                // Its bucket of the default pool goes to the other member there.
                2 => {
                    let rows = table.pools.get_mut("").unwrap();
                    let other = 1 - rows.holds[bucket].unwrap();
                    (rows.holds[bucket], rows.wanted[bucket]) = (Some(other), Some(other));
                }
                _ => {}
            }
            table.revision += 1;
            let shared = Arc::new(table.clone());
            let replica = random.choice(&replicas).unwrap();
            let before = owner(&world, &table);
            // All of them follow the table; whose turn it is works.
            replicas.iter().for_each(|replica| refresh(&replica.fleet, &shared));
            let writes = replica.step(&world, &shared, random.bool()).await;
            if writes > 0 {
                assert_eq!(replica.id, before, "seed {seed}, step {step}");
                writers.insert(Arc::clone(&replica.id));
            }
        }
        let shared = Arc::new(table.clone());
        for _ in 0..12 {
            for replica in &replicas {
                replica.step(&world, &shared, false).await;
            }
        }
        assert_eq!(world.faults("a"), Vec::<String>::new(), "seed {seed}");
        let label = world.app("a")["metadata"]["labels"][LABEL] == POOL;
        assert_eq!(*owner(&world, &table) == *"x_1", label, "seed {seed}");
    }
    assert_eq!(writers.len(), 3, "all of them had it: {writers:?}");
}
