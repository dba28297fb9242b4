//! Members of a fleet that keep only their share of revisions and trackers: one is killed, and who stood by for it goes on from its
//! caches; two are killed, and the last one lists first what it did not keep. Nothing is decided from a cache that lacks a record: also
//! where a record has the label of another bucket, so that its owner is not sent it.

use std::collections::BTreeMap;
use std::sync::Arc;
use vela_api::Application;

use kube::api::ObjectMeta;
use serde_json::{Value, json};
use vela_api::names::label;
use vela_cluster::{Key, Store, Stored, Whose};
use vela_shard::{BUCKETS, Kept, MemberId, Slot, Table, bucket_of, share};

use super::{NAMESPACE, Process, World, application, pools};
use crate::application as reconciler;
use crate::fleet::{Fleet, Pools, bucket_label, tests::refresh};

pub(super) const MEMBERS: [&str; 3] = ["a_1", "b_1", "c_1"];
pub(super) const APPS: usize = 12;

pub(super) struct Replica {
    pub(super) id: MemberId,
    pub(super) process: Process,
    fleet: Arc<Fleet>,
    /// The labels of other buckets hide nothing from it: it keeps those, too.
    is_sent_all: bool,
}

impl Replica {
    pub(super) fn start(world: &World, id: &str, table: &Table) -> Self {
        let process = world.start();
        let fleet = pools::member(&process, id, Pools::default());
        fleet.begin_with(Kept::new(share(table, id)), &process.context);
        let replica = Self { id: id.into(), process, fleet, is_sent_all: false };
        replica.list(world);
        replica
    }

    /// The caches have what the API server has, but for what labels hide.
    fn sync(&self, world: &World) {
        world.sync(&self.process);
        if world.label_records && !self.is_sent_all {
            (0..APPS).for_each(|app| {
                hide(self, world, app);
            });
        }
    }

    /// A list of everything fills the caches for what is kept.
    fn list(&self, world: &World) {
        let context = &self.process.context;
        let keeping = context.share.now();
        self.sync(world);
        context.apps.retain(|one| keeping.keeps(Some(one.key())));
        context.apps.begin_list();
        for app in world.server.state.lock().all("applications") {
            let app: Application = serde_json::from_value(app.clone()).unwrap();
            let whole = keeping.keeps(Some(app.key()));
            if !context.apps.list_known(&app.key(), app.version(), whole) {
                context.apps.list_item(context.cached(&app));
            }
        }
        let _ = context.apps.end_list_of(keeping.generation);
        listed(&context.revisions, keeping.generation, |app| keeping.keeps(Some(app.clone())));
        listed(&context.trackers, keeping.generation, |app| keeping.keeps(Some(app.clone())));
    }

    /// The watches bring what happened; what the caches are not filled for is not there.
    pub(super) fn watch(&self, world: &World) {
        let context = &self.process.context;
        self.sync(world);
        context.apps.retain(|one| context.has_records_of(&one.key()));
        context.revisions.retain(|one| one.index().is_none_or(|app| context.has_records_of(&app)));
        context.trackers.retain(|one| one.index().is_none_or(|app| context.has_records_of(&app)));
    }

    /// It follows the table.
    pub(super) fn follow(&self, table: &Arc<Table>) {
        refresh(&self.fleet, table);
        self.fleet.keep(&self.process.context);
        refresh(&self.fleet, table);
    }

    /// One reconcile as the queue would start it. How many writes it sent.
    pub(super) async fn step(&self, world: &World, table: &Arc<Table>, app: usize) -> usize {
        while !world.server.state.lock().has_seen(self.process.number) {
            tokio::task::yield_now().await;
        }
        self.follow(table);
        let (key, context) = (key(app), &self.process.context);
        let before = world.server.state.lock().writes;
        if self.fleet.is_ours(&key) {
            assert!(context.has_records_of(&key), "{} has not what {key} has", self.id);
            let work = self.fleet.reconcile(context, &key, || reconciler::reconcile(context, &key));
            let _ = Box::pin(work).await;
        }
        world.server.state.lock().writes - before
    }

    /// The Applications that it would work on now.
    fn ours(&self) -> Vec<usize> {
        (0..APPS).filter(|app| self.fleet.is_ours(&key(*app))).collect()
    }
}

fn listed<T: Stored>(store: &Store<T>, generation: u64, keeps: impl Fn(&Key) -> bool) {
    store.retain(|one| one.index().is_none_or(|app| keeps(&app)));
    store.begin_list();
    for one in store.all() {
        assert!(store.list_known(&one.key(), one.version(), true));
    }
    let _ = store.end_list_of(generation);
}

pub(super) fn key(app: usize) -> Key {
    Key::new(NAMESPACE, format!("a{app}"))
}

pub(super) fn holder(table: &Table, app: usize) -> MemberId {
    let bucket = bucket_of(NAMESPACE, &key(app).name);
    Arc::clone(table.holder(&Slot::Bucket("".into(), bucket)).unwrap())
}

/// The table of some members that all work.
pub(super) fn shared_by(members: &[&str]) -> Table {
    let mut table = Table::new(BUCKETS);
    members.iter().for_each(|id| table.join(&(*id).into(), &"".into(), 1));
    let slots: Vec<Slot> = table.slots().collect();
    slots.iter().for_each(|slot| table.give(slot));
    table
}

pub(super) fn edit(world: &World, app: usize, property: &str, value: &Value) {
    world.server.by_another_writer(|state| {
        let mut app = state.get("applications", NAMESPACE, &key(app).name).cloned().unwrap();
        app["spec"]["components"][0]["properties"][property] = value.clone();
        state.put("applications", app);
    });
}

/// Every object by name, with its uid: one that was deleted and made again has another.
pub(super) fn uids(world: &World) -> BTreeMap<String, Value> {
    let state = world.server.state.lock();
    let maps = state.all("configmaps").into_iter().filter(|map| map["data"]["v"].is_string());
    maps.map(|map| (map["metadata"]["name"].to_string(), map["metadata"]["uid"].clone())).collect()
}

/// Everybody reconciles everything often enough, after the watches brought what happened.
pub(super) async fn settle(world: &World, replicas: &[Replica], table: &Arc<Table>) {
    for _ in 0..8 {
        for replica in replicas {
            for app in 0..APPS {
                replica.watch(world);
                let _ = replica.step(world, table, app).await;
            }
        }
    }
    for app in 0..APPS {
        assert_eq!(world.faults(&key(app).name), Vec::<String>::new(), "{app}");
    }
}

#[tokio::test]
async fn who_takes_over_has_kept_what_it_needs_or_lists_it_first() {
    for seed in 0..4_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_at_once = seed % 2 == 0;
        let world = World::new();
        world.server.by_another_writer(|state| {
            for app in 0..APPS {
                let object = format!("x{app}");
                let app = application(&key(app).name, &[("c", &[&*object], "1")]);
                state.put("applications", app);
            }
        });
        let mut table = shared_by(&MEMBERS);
        let mut replicas: Vec<Replica> =
            MEMBERS.iter().map(|id| Replica::start(&world, id, &table)).collect();
        world.server.state.lock().apps = None;
        table.revision = 1;
        settle(&world, &replicas, &Arc::new(table.clone())).await;
        let (made, mut kept) = (uids(&world), 0);
        for replica in &replicas {
            kept += replica.process.context.trackers.len();
        }
        assert_eq!((made.len(), kept), (APPS, 2 * APPS), "each is kept by two of three");
        for death in 0..2 {
            // In the first round nothing died yet.
            for step in 0..24 {
                let app = random.usize(0..APPS);
                edit(&world, app, "value", &json!(format!("{death}-{step}")));
                let shared = Arc::new(table.clone());
                let replica = random.choice(&replicas).unwrap();
                if random.bool() {
                    replica.watch(&world);
                }
                let writes = replica.step(&world, &shared, app).await;
                assert!(writes == 0 || replica.id == holder(&table, app), "seed {seed}");
            }
            let lists = |replica: &Replica| replica.process.context.records_listed();
            let deaths = if is_at_once { 2 } else { 1 };
            if death > 0 && is_at_once {
                break;
            }
            for _ in 0..deaths {
                let dead = replicas.remove(random.usize(0..replicas.len()));
                table.remove(&dead.id);
            }
            table.revision += 1;
            let shared = Arc::new(table.clone());
            for replica in &replicas {
                replica.follow(&shared);
                replica.watch(&world);
                let held: Vec<usize> =
                    (0..APPS).filter(|app| holder(&table, *app) == replica.id).collect();
                if deaths == 1 && death == 0 {
                    // Who stood by needs no list.
                    assert_eq!((replica.ours(), lists(replica)), (held, 1), "seed {seed}");
                    continue;
                }
                // The last one has all now, and not everything it needs for that.
                let before = replica.ours();
                assert!(before.len() < held.len(), "seed {seed}: {before:?}");
                for app in held.iter().filter(|app| !before.contains(app)) {
                    edit(&world, *app, "value", &json!("late"));
                    assert_eq!(replica.step(&world, &shared, *app).await, 0, "seed {seed}");
                }
                replica.list(&world);
                replica.follow(&shared);
                assert_eq!((replica.ours(), lists(replica)), (held, 2), "seed {seed}");
            }
        }
        settle(&world, &replicas, &Arc::new(table.clone())).await;
        assert_eq!(uids(&world), made, "seed {seed}: nothing was made again");
    }
}

const RECORDS: [(&str, Whose); 2] =
    [("applicationrevisions", Whose::Namespaced), ("resourcetrackers", Whose::ClusterScoped)];

/// The records of an Application with their kinds.
fn records(world: &World, app: usize) -> Vec<(&'static str, Value)> {
    let state = world.server.state.lock();
    let of = |(plural, whose): (&'static str, Whose)| {
        let all = state.all(plural).into_iter().cloned();
        all.filter(move |one| whose.of(&metadata(one)) == Some(key(app)))
            .map(move |one| (plural, one))
    };
    RECORDS.into_iter().flat_map(of).collect()
}

fn metadata(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

/// Somebody labels all records of an Application as those of another bucket.
fn mislabel(world: &World, app: usize) {
    for (plural, mut record) in records(world, app) {
        record["metadata"]["labels"][label::BUCKET] = json!("none");
        world.server.by_another_writer(|state| {
            state.put(plural, record);
        });
    }
}

/// The watches by labels do not bring what has another label; what was there before seems deleted.
fn hide(replica: &Replica, world: &World, app: usize) -> usize {
    let context = &replica.process.context;
    let mut gone = 0;
    for (plural, record) in records(world, app) {
        let metadata = metadata(&record);
        if bucket_label::is_right(&metadata, &key(app)) {
            continue;
        }
        let name = Key::new(metadata.namespace.unwrap_or_default(), metadata.name.unwrap());
        gone += usize::from(match plural {
            "resourcetrackers" => context.trackers.remove(&name, "").is_some(),
            _ => context.revisions.remove(&name, "").is_some(),
        });
    }
    gone
}

/// How a replica has a record with the label of another bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sight {
    /// It had it, and the watch does not bring it any more.
    Hidden,
    /// The other bucket is among those that it keeps.
    Sent,
    /// It never had it.
    Restarted,
}

#[tokio::test]
async fn a_record_with_the_label_of_another_bucket_is_read_before_the_next_write() {
    for sight in [Sight::Hidden, Sight::Sent, Sight::Restarted] {
        let mut world = World::new();
        world.label_records = true;
        world.server.by_another_writer(|state| {
            for app in 0..APPS {
                let mut app = application(&key(app).name, &[("c", &[&*format!("x{app}")], "1")]);
                // Revisions have the labels of their Application, but not this one.
                app["metadata"]["labels"][label::BUCKET] = json!("none");
                state.put("applications", app);
            }
        });
        let table = Arc::new(shared_by(&MEMBERS[..1]));
        let mut replicas = [Replica::start(&world, "a_1", &table)];
        settle(&world, &replicas, &table).await;
        for app in 0..APPS {
            for (plural, record) in records(&world, app) {
                let metadata = metadata(&record);
                assert!(bucket_label::is_right(&metadata, &key(app)), "{plural}: {metadata:?}");
            }
        }
        assert_eq!((records(&world, 0).len(), records(&world, 1).len()), (2, 2));
        // All that was taken over is read once at its first write.
        edit(&world, 0, "names", &json!(["y0"]));
        settle(&world, &replicas, &table).await;
        let before = uids(&world);
        // One is edited so that an object of the old version has to go; one is deleted; one stays as it is.
        for app in [0, 1, 2] {
            mislabel(&world, app);
        }
        if sight == Sight::Restarted {
            replicas = [Replica::start(&world, "a_1", &table)];
        }
        replicas[0].is_sent_all = sight == Sight::Sent;
        let context = &replicas[0].process.context;
        for app in [0, 1, 2] {
            match sight {
                Sight::Hidden => {
                    assert_eq!(hide(&replicas[0], &world, app), records(&world, app).len());
                    context.read_again(key(app));
                }
                Sight::Sent => {
                    for (plural, record) in records(&world, app) {
                        let (_, whose) = RECORDS.into_iter().find(|it| it.0 == plural).unwrap();
                        context.wrong_labels.check(&metadata(&record), whose);
                    }
                }
                Sight::Restarted => {}
            }
        }
        while let Ok(wrong) = context.wrong_labels.waiting().await.try_recv() {
            wrong.correct(&context.io).await.unwrap();
        }
        edit(&world, 0, "names", &json!(["z0"]));
        world.server.by_another_writer(|state| {
            state.delete("applications", NAMESPACE, &key(1).name);
        });
        settle(&world, &replicas, &table).await;
        for app in [0, 2] {
            let all = records(&world, app);
            let is_right = |it: &Value| bucket_label::is_right(&metadata(it), &key(app));
            assert!(all.iter().all(|(_, record)| is_right(record)), "{sight:?}: {all:?}");
        }
        let after = uids(&world);
        assert!(records(&world, 1).is_empty(), "{:?}", records(&world, 1));
        let names =
            |names: [&str; 2]| names.map(|name| after.contains_key(&json!(name).to_string()));
        assert_eq!(names(["y0", "x1"]), [false, false], "nothing is left behind");
        assert_eq!(names(["z0", "x2"]), [true, true]);
        for (name, uid) in after.iter().filter(|(name, _)| **name != "\"z0\"") {
            assert_eq!(before.get(name), Some(uid), "{name} was made again");
        }
    }
}
