//! What both programs print is what `docs/operations.md` lists, with the same types and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use vela_tests::fixtures::{Space, deployed, until};
use vela_tests::material::workspace;

/// Beginnings of metrics that need a gate, other clusters, a chart, several replicas at work or a second writer.
const ELSEWHERE: [&str; 11] = [
    "kubevela_application_",
    "vela_cluster_",
    "cluster_",
    "vela_chart_fetch_duration_seconds",
    "vela_shard_",
    "vela_session_",
    "vela_drift_total",
    "workflowrun_phase_number",
    "workflowrun_step_phase_number",
    "workflowrun_reconcile_time_seconds",
    "workflowrun_finished_time_seconds",
];

/// A metric: its type and its labels.
pub(super) type Shape = (String, BTreeSet<String>);

/// The tables of the documentation, by heading.
pub(super) fn documented(heading: &str) -> BTreeMap<String, Shape> {
    let docs = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let section = docs.split_once(&format!("\n### {heading}\n")).unwrap().1;
    let section = section.split("\n#").next().unwrap();
    let mut found = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (name, kind, labels) =
            (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        // What is in parentheses is a value.
        let outside = labels.split('(').map(|part| part.rsplit(')').next().unwrap());
        let labels = outside.flat_map(|part| part.split('`').skip(1).step_by(2)).map(str::to_owned);
        found.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), labels.collect()));
    }
    assert!(found.len() > 1, "{heading}: {found:?}");
    found
}

/// The metrics of a program, those about the process aside.
pub(super) fn printed(text: &str) -> BTreeMap<String, Shape> {
    let mut found: BTreeMap<String, Shape> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            found.entry(name.to_owned()).or_insert((kind.to_owned(), BTreeSet::new()));
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let name = if found.contains_key(name) { name } else { base.unwrap() };
        // No value of ours has a comma or an equals sign.
        let labels = labels.trim_end_matches('}').split(',').filter_map(|l| l.split_once('='));
        let labels = labels.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
        found.get_mut(name).unwrap().1.extend(labels);
    }
    found.retain(|name, _| !name.starts_with("process_"));
    found
}

#[tokio::test]
async fn what_is_printed_is_what_is_documented() {
    let space = Space::with_programs("metrics").await;
    let component = |name: &str| json!({ "name": name, "type": "webservice", "properties": { "image": "nginx" } });
    space.create("measured", json!([component("one"), component("two")])).await.unwrap();
    space.running("measured").await;
    let edit = Patch::Merge(json!({ "spec": { "components": [component("one")] } }));
    let applications = space.applications();
    applications.patch("measured", &PatchParams::default(), &edit).await.unwrap();
    until("one tracker", Duration::from_secs(60), async || {
        let found = applications.get("measured").await.unwrap();
        let revision = &found.data["status"]["latestRevision"]["name"];
        revision == "measured-v2" && space.trackers().await.len() == 1
    })
    .await;
    // Steps are counted as long as there are some.
    let deployed = deployed().await;
    let before = deployed.controller.metrics().await.unwrap();
    applications.delete("measured", &DeleteParams::default()).await.unwrap();
    until("its end", Duration::from_secs(60), async || {
        applications.get_opt("measured").await.unwrap().is_none()
    })
    .await;

    let all = documented("All");
    for (heading, program, before) in [
        ("The controller", &deployed.controller, before.as_str()),
        ("The webhook", &deployed.webhook, ""),
    ] {
        let mut known = documented(heading);
        let text = program.metrics().await.unwrap() + before;
        let printed = printed(&text);
        if heading == "The controller" {
            let missing: Vec<_> = known
                .keys()
                .filter(|name| !printed.contains_key(*name))
                .filter(|name| !ELSEWHERE.iter().any(|prefix| name.starts_with(prefix)))
                .collect();
            assert!(missing.is_empty(), "not printed: {missing:?}");
            let docs = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
            let stages = docs.split_once("\nStages, in order: ").unwrap().1;
            let stages = stages.split("\n\n").next().unwrap().split('`').skip(1).step_by(2);
            let never: Vec<_> = stages
                .filter(|stage| !text.contains(&format!("time_seconds_count{{stage=\"{stage}\"}}")))
                .collect();
            assert!(never.is_empty(), "stages that were never timed: {never:?}");
            let controllers = docs.split_once("\nControllers: ").unwrap().1;
            let controllers = controllers.split('.').next().unwrap().split('`').skip(1).step_by(2);
            let requests: Vec<_> = text
                .lines()
                .filter(|line| {
                    line.starts_with("kubevela_controller_client_request_time_seconds_c")
                })
                .collect();
            for controller in controllers {
                let label = format!("controller=\"{controller}\"");
                let sends = requests.iter().any(|line| line.contains(&label));
                assert!(sends, "no request of {controller}: {requests:#?}");
            }
        }
        known.extend(all.clone());
        for (name, shape) in &printed {
            assert_eq!(Some(shape), known.get(name), "{heading}: {name}");
        }
    }
}
