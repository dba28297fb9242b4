//! Plans of Applications in several clusters: what they say of each cluster comes to pass there.

use serde_json::Value;
use vela_tests::link::Mode;
use vela_tests::members::{Fleet, Space, fleet};

use crate::plan::command;

/// Runs a plan of an Application. Returns the exit code and what it says.
async fn plan(fleet: &Fleet, app: &Value, output: &str) -> (i32, String) {
    let arguments = ["-o", output, "--", "--enable-cluster-gateway", "--allow-loopback-clusters"];
    let output = command(&fleet.hub, Some(("planned.json", app)), &arguments).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), text + &String::from_utf8_lossy(&output.stderr))
}

/// What a plan does to ConfigMaps, by cluster.
async fn planned(fleet: &Fleet, app: &Value) -> Vec<(String, String)> {
    let (code, text) = plan(fleet, app, "json").await;
    assert_eq!(code, 2, "{text}");
    let plan: Value = serde_json::from_str(&text).unwrap();
    let changes = plan["applications"][0]["changes"].as_array().unwrap();
    let text = |change: &Value, key: &str| change[key].as_str().unwrap_or("local").to_owned();
    changes.iter().map(|change| (text(change, "verb"), text(change, "cluster"))).collect()
}

async fn values(space: &Space) -> [Option<String>; 3] {
    let value = async |cluster| space.value(cluster, "planned").await;
    [value("local").await, value("east").await, value("west").await]
}

fn pairs<const N: usize>(of: [(&str, &str); N]) -> Vec<(String, String)> {
    of.map(|(verb, cluster)| (verb.to_owned(), cluster.to_owned())).to_vec()
}

#[tokio::test]
async fn a_plan_shows_what_each_cluster_gets() {
    let (_turn, fleet) = fleet().await;
    let space = fleet.space("plans").await.unwrap();
    let app = space.application("planned", &["local", "east", "west"], "1");
    let expected = pairs([("add", "local"), ("add", "east"), ("add", "west")]);
    assert_eq!(planned(fleet, &app).await, expected);
    assert_eq!(values(&space).await, [None, None, None], "a plan writes nothing");
    space.apply(&app).await.unwrap();
    space.runs("planned").await;
    let one = || Some("1".to_owned());
    assert_eq!(values(&space).await, [one(), one(), one()]);

    let edit = space.application("planned", &["local", "east"], "2");
    let expected = pairs([("change", "local"), ("change", "east"), ("delete", "west")]);
    assert_eq!(planned(fleet, &edit).await, expected);
    assert_eq!(values(&space).await, [one(), one(), one()], "a plan writes nothing");
    let (_, text) = plan(fleet, &edit, "text").await;
    assert!(text.contains("- ConfigMap plans/planned in cluster west"), "{text}");

    // It is known of the others what they get.
    fleet.west.link.set(Mode::Refuse);
    let (_, text) = plan(fleet, &edit, "text").await;
    assert!(text.contains("~ ConfigMap plans/planned in cluster east"), "{text}");
    assert!(!text.contains("in cluster west") && text.contains("west"), "{text}");
    fleet.west.link.set(Mode::Pass);
    space.apply(&edit).await.unwrap();
    space.runs("planned").await;
    let two = || Some("2".to_owned());
    assert_eq!(values(&space).await, [two(), two(), None]);
    space.delete("planned").await;
}
