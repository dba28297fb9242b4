//! Many Applications at once: a start with a silent member, a member that comes back to a pile of work, objects of a member that
//! are too many, and an aggregated API that does not work.

use futures::FutureExt as _;
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::{Duration, Instant};
use vela_tests::audit;
use vela_tests::deploy::apply;
use vela_tests::fixtures::until;
use vela_tests::link::Mode;
use vela_tests::members::{Fleet, LIMIT, Space, fleet};

/// How many Applications.
fn count(few: usize, many: usize) -> usize {
    if std::env::var("VELA_LONG_TESTS").is_ok() { many } else { few }
}

async fn deploy(space: &Space, clusters: &[&str], count: usize, value: &str) {
    for index in 0..count {
        let name = format!("a{index}");
        space.apply(&space.application(&name, clusters, value)).await.unwrap();
    }
}

async fn arrives(space: &Space, cluster: &str, count: usize, value: &str) {
    for index in 0..count {
        let name = format!("a{index}");
        until("the edit in the member", LIMIT, async || {
            space.value(cluster, &name).await.as_deref() == Some(value)
        })
        .await;
    }
}

/// Does something in a space and takes away whatever is there then, also if it failed: the hub and the members are everybody's.
async fn cleaned(fleet: &Fleet, space: &Space, work: impl Future<Output = ()>) {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    fleet.east.link.set(Mode::Pass);
    let (how, all) = (DeleteParams::default(), ListParams::default());
    space.applications().delete_collection(&how, &all).await.unwrap();
    until("an empty space", LIMIT * 5, async || {
        space.applications().list_metadata(&all).await.unwrap().items.is_empty()
    })
    .await;
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

/// The controller starts while there are edits, one of them in the hub alone: how long after its Lease that one was reconciled, by the
/// clock of the API server.
async fn starts(fleet: &Fleet, space: &Space, count: usize, value: &str) -> Duration {
    let controller = &fleet.deployed.controller;
    controller.kill().unwrap();
    deploy(space, &["east"], count, value).await;
    space.apply(&space.application("here0", &["local"], value)).await.unwrap();
    let from = audit::position(&fleet.hub.audit_log()).unwrap();
    controller.start(&fleet.hub).unwrap();
    // The Lease of the one that was killed has to expire first.
    until("the edit in the hub", LIMIT, async || {
        space.value("local", "here0").await.as_deref() == Some(value)
    })
    .await;
    space.runs("here0").await;
    let log = audit::read(&fleet.hub.audit_log(), from).unwrap();
    let at = |what: &str, is_it: &dyn Fn(&audit::Entry) -> bool| -> Timestamp {
        let mut done =
            log.iter().filter(|it| it.is_controllers() && it.is_write() && it.code < 300);
        let entry = done.find(|it| is_it(it));
        entry.unwrap_or_else(|| panic!("no {what}")).received.parse().unwrap()
    };
    let leads = at("Lease", &|it| it.resource == "leases");
    let reconciled = at("status", &|it| {
        it.resource == "applications/status" && it.namespace == "start" && it.name == "here0"
    });
    reconciled.duration_since(leads).unsigned_abs()
}

/// F15: a controller that starts while a member is silent works for everybody else, and for that one when it answers.
#[tokio::test]
async fn a_start_waits_for_no_member() {
    // Also on a machine with much other work: the edit in the hub is the first that is carried out.
    const FIRST: Duration = Duration::from_secs(2);
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("start").await.unwrap();
    // Half of all are in the member.
    let count = count(8, 500);
    let work = async {
        deploy(&space, &["east"], count, "1").await;
        for index in 0..count {
            let here = space.application(&format!("here{index}"), &["local"], "1");
            space.apply(&here).await.unwrap();
        }
        arrives(&space, "east", count, "1").await;
        for index in 0..count {
            space.runs(&format!("here{index}")).await;
        }
        fleet.east.link.set(Mode::Swallow);
        let first = starts(fleet, &space, count, "2").await;
        let memory = fleet.deployed.controller.metric("process_resident_memory_bytes").await;
        eprintln!(
            "{} Applications: the edit in the hub {first:?} after the Lease, {:.0} MiB",
            2 * count,
            memory.unwrap() / f64::from(1 << 20)
        );
        assert!(first < FIRST, "{first:?}");
        fleet.east.link.set(Mode::Pass);
        arrives(&space, "east", count, "2").await;
    };
    cleaned(fleet, &space, work).await;
}

async fn in_flight(fleet: &Fleet, cluster: &str) -> f64 {
    let beginning = format!("vela_cluster_in_flight{{cluster=\"{cluster}\"}} ");
    let text = fleet.metrics().await;
    let value = text.lines().find_map(|line| line.strip_prefix(&beginning)?.trim().parse().ok());
    value.unwrap_or_default()
}

/// F16: a member that comes back to a pile of work gets no more requests at once than it may, and nobody else waits.
#[tokio::test]
async fn a_member_that_comes_back_is_not_run_down() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("pile").await.unwrap();
    let count = count(40, 500);
    let work = async {
        deploy(&space, &["east"], count, "1").await;
        space.apply(&space.application("here", &["local"], "0")).await.unwrap();
        arrives(&space, "east", count, "1").await;
        space.runs("here").await;
        // As long as all is well, and with the pile.
        let usual = edits(&space, 20, "usual").await;
        fleet.east.link.set(Mode::Refuse);
        fleet.reaches("east", "Disconnected").await;
        deploy(&space, &["east"], count, "2").await;
        // Slow enough that requests pile up.
        fleet.east.link.set(Mode::Delay(Duration::from_millis(100)));
        let connections = fleet.east.link.connections();
        let since = Instant::now();
        let back = arrives(&space, "east", count, "2");
        let mut most = 0.0_f64;
        let mut times = Vec::new();
        let sampling = async {
            for round in 1.. {
                most = most.max(in_flight(fleet, "east").await);
                if round % 20 == 0 {
                    times.extend(edits(&space, 1, &round.to_string()).await);
                }
            }
        };
        tokio::select! {
            () = back => {}
            () = sampling => {}
        }
        times.sort();
        let opened = fleet.east.link.connections() - connections;
        eprintln!(
            "{count} Applications, back after {:?}: at most {most} requests at once over {opened} connections; edits in the hub {:?} to {:?}, before {:?} to {:?}",
            since.elapsed(),
            times.first(),
            times.last(),
            usual.first(),
            usual.last()
        );
        assert!(most <= 32.0, "{most}");
        // Its requests share one, each watch has its own.
        assert!(opened <= 6, "{opened}");
    };
    cleaned(fleet, &space, work).await;
}

/// How long edits in the hub take until they are carried out, one after the other, sorted.
async fn edits(space: &Space, count: usize, round: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for index in 0..count {
        let (value, since) = (format!("{round}-{index}"), Instant::now());
        space.apply(&space.application("here", &["local"], &value)).await.unwrap();
        until("the edit in the hub", LIMIT, async || {
            space.value("local", "here").await.as_deref() == Some(&value)
        })
        .await;
        times.push(since.elapsed());
    }
    times.sort();
    times
}

/// F20: what becomes of the aggregated API of clusters is nothing to the controller.
#[tokio::test]
async fn the_aggregated_api_does_not_matter_to_the_controller() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("aggregated").await.unwrap();
    let hub = fleet.client();
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"));
    let services: Api<DynamicObject> = Api::all_with(hub.clone(), &kind);
    let name = "v1alpha1.cluster.core.oam.dev";
    // Nobody is behind it.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "nobody", "namespace": "vela-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": 1}]}});
    apply(&hub, &service).await.unwrap();
    let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
        "spec": {"group": "cluster.core.oam.dev", "version": "v1alpha1", "groupPriorityMinimum": 1000,
            "versionPriority": 10, "service": {"name": "nobody", "namespace": "vela-system", "port": 1},
            "insecureSkipTLSVerify": true}});
    let _ = services.delete(name, &DeleteParams::default()).await;
    services
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    space.apply(&space.application("a", &["local", "east"], "1")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("1"));

    // Its certificate is another one than it says.
    let wrong = json!({"spec": {"insecureSkipTLSVerify": false,
        "caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="}});
    let how = PatchParams::default();
    let _ = services.patch(name, &how, &Patch::Merge(&wrong)).await;
    space.apply(&space.application("a", &["local", "east"], "2")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("2"));

    services.delete(name, &DeleteParams::default()).await.unwrap();
    space.apply(&space.application("a", &["local", "east"], "3")).await.unwrap();
    space.runs("a").await;
    assert_eq!(space.value("east", "a").await.as_deref(), Some("3"));
    assert_eq!(fleet.state("east").await, "Connected");
    space.delete("a").await;
}
