//! Replicas that label revisions, trackers and dispatched objects with the bucket of their Application: the API server sends each of them
//! only what it keeps. What was recorded before is labelled, and an object with its next write; a wrong label hides a record or an object
//! from its owner, and nothing is lost by that.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectList, PartialObjectMeta, Patch, PatchParams,
};
use serde_json::json;
use vela_api::names::label;
use vela_api::{ApplicationRevision, ResourceTracker};
use vela_shard::bucket_of;
use vela_tests::audit;
use vela_tests::cluster::Cluster;
use vela_tests::fixtures::{resource, until};
use vela_tests::release::applications;

use super::fleet::{APPS, LIMIT, World, names};

const FLAGS: [&str; 2] = ["--shard-label-records", "--shard-label-objects"];
const KINDS: [(&str, &str); 2] = [
    (ApplicationRevision::KIND, "applicationrevisions"),
    (ResourceTracker::KIND, "resourcetrackers"),
];

type Record = PartialObjectMeta<DynamicObject>;

fn text<'r>(record: &'r Record, key: &str) -> &'r str {
    record.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// The Applications of which something does not have the bucket as its label.
fn mislabelled<'r>(all: impl IntoIterator<Item = &'r Record>, key: &str) -> BTreeSet<String> {
    let named = all.into_iter().map(|one| (text(one, label::APP_NAME), text(one, key)));
    let wrong = named.filter(|(app, value)| *value != format!("{:02x}", bucket_of("default", app)));
    wrong.map(|(app, _)| app.to_owned()).collect()
}

impl World {
    /// Another replica, which labels records and objects.
    async fn add_labelling(&mut self, name: &'static str) {
        self.add_with(name, FLAGS.map(str::to_owned)).await;
    }

    fn kind(&self, kind: &str) -> Api<DynamicObject> {
        let resource = resource(vela_api::V1BETA1, kind);
        match kind {
            ResourceTracker::KIND => Api::all_with(self.client.clone(), &resource),
            _ => Api::default_namespaced_with(self.client.clone(), &resource),
        }
    }

    /// The records of Applications of these tests.
    async fn records(&self) -> Vec<(Api<DynamicObject>, Record)> {
        let mut all = Vec::new();
        for (kind, _) in KINDS {
            let api = self.kind(kind);
            let list: ObjectList<Record> = api.list_metadata(&ListParams::default()).await.unwrap();
            let ours =
                list.items.into_iter().filter(|it| text(it, label::APP_NAME).starts_with("app-"));
            all.extend(ours.map(|record| (api.clone(), record)));
        }
        all
    }

    /// The Applications whose records do not all have the right label.
    async fn unlabelled(&self) -> BTreeSet<String> {
        let records = self.records().await;
        mislabelled(records.iter().map(|(_, record)| record), label::BUCKET)
    }

    /// The object of each Application: its name is that of the Application.
    async fn objects(&self) -> Vec<Record> {
        let list: ObjectList<Record> = self
            .maps()
            .list_metadata(&ListParams::default().labels(label::APP_NAME))
            .await
            .unwrap();
        list.items
    }

    fn maps(&self) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &resource("v1", "ConfigMap"))
    }

    /// The Applications whose object does not have the right label.
    async fn unlabelled_objects(&self) -> BTreeSet<String> {
        mislabelled(&self.objects().await, label::OWNER_BUCKET)
    }

    /// Somebody labels the records and the object of an Application as those of another bucket.
    async fn mislabel(&self, app: &str) {
        let other = bucket_of("default", app).wrapping_add(128);
        let edit = |key: &str| {
            Patch::Merge(json!({"metadata": {"labels": {key: format!("{other:02x}")}}}))
        };
        let patch = edit(label::OWNER_BUCKET);
        self.maps().patch_metadata(app, &PatchParams::default(), &patch).await.unwrap();
        let edit = edit(label::BUCKET);
        for (api, record) in self.records().await {
            if text(&record, label::APP_NAME) == app {
                let name = record.metadata.name.unwrap();
                api.patch_metadata(&name, &PatchParams::default(), &edit).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_objects_are_labelled_and_a_wrong_label_loses_nothing() {
    // Revisions go with their Application only where somebody collects garbage.
    let mut world = World::on(Cluster::start("fleet-labels").await.unwrap(), &[]).await;
    // From before there were labels.
    world.edit_all("1", LIMIT).await;
    assert_eq!(world.unlabelled().await.len(), APPS);
    for name in ["controller-2", "controller-3", "controller-4"] {
        world.add_labelling(name).await;
    }
    world.deployed.controller.stop(Duration::from_secs(30)).unwrap();
    world.balanced(3).await;
    world.filled(3).await;
    until("all records are labelled", 2 * LIMIT, async || world.unlabelled().await.is_empty())
        .await;

    // Who starts from now on is sent what it keeps.
    let from = world.position();
    world.others[0].kill().unwrap();
    world.add_labelling("controller-5").await;
    world.balanced(3).await;
    world.filled(3).await;
    let sent = audit::read(&world.cluster.audit_log(), from).unwrap();
    let by_label: BTreeSet<&str> = sent
        .iter()
        .filter(|entry| entry.agent.ends_with("/controller-5") && entry.leaves_out)
        .map(|entry| &*entry.resource)
        .collect();
    assert_eq!(by_label, [KINDS[0].1, KINDS[1].1, "configmaps"].into());
    assert_eq!(world.unlabelled_objects().await.len(), APPS, "no write is made for a label");
    world.edit_all("2", LIMIT).await;
    assert_eq!(world.unlabelled_objects().await, BTreeSet::new());
    assert_eq!(world.unlabelled().await, BTreeSet::new());
    world.is_exclusive(from, 3).await;

    // One is edited, one deleted, and one stays as it is.
    let all: Vec<String> = names().collect();
    let (edited, deleted, untouched) = (&all[0], &all[1], &all[2]);
    let uids = async || -> BTreeSet<Option<String>> {
        let objects = world.objects().await.into_iter();
        objects.map(|object| object.metadata.uid).collect()
    };
    let before = uids().await;
    world.mislabel(edited).await;
    world.mislabel(deleted).await;
    world.mislabel(untouched).await;
    applications(world.client.clone()).delete(deleted, &DeleteParams::default()).await.unwrap();
    world.apply(edited, "3").await;
    until("the edit is served", LIMIT, async || world.value(edited).await.as_deref() == Some("3"))
        .await;
    until("the Application is gone", LIMIT, async || {
        applications(world.client.clone()).get_opt(deleted).await.unwrap().is_none()
    })
    .await;
    assert_eq!(world.value(deleted).await, None, "its objects went first");
    until("no record of it is left", LIMIT, async || {
        let records = world.records().await;
        let is_left = |(_, record): &(_, Record)| text(record, label::APP_NAME) == deleted;
        !records.iter().any(is_left)
    })
    .await;
    until("all labels are right", LIMIT, async || {
        world.unlabelled().await.is_empty() && world.unlabelled_objects().await.is_empty()
    })
    .await;
    let after = uids().await;
    assert!(after.len() == APPS - 1 && after.is_subset(&before), "nothing was created again");
    for name in all.iter().filter(|name| ![edited, deleted].contains(name)) {
        assert_eq!(world.value(name).await.as_deref(), Some("2"), "{name}");
    }
    world.others[1..].iter().for_each(|replica| replica.check().unwrap());
    world.cluster.stop();
}
