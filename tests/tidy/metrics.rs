//! Every metric is in `docs/operations.md`, and what the chart asks for is a metric.

use std::collections::BTreeSet;
use std::fs;

use vela_tests::material::workspace;

use crate::{files, none, relative};

/// Where dashboards and alarms are.
const ASKING: [&str; 2] =
    ["charts/vela-core/files/dashboard.json", "charts/vela-core/templates/monitoring.yaml"];

/// What the process collector brings.
const OF_THE_PROCESS: &str = "process_";

fn is_name(text: &str) -> bool {
    text.contains('_')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The names of metrics that a source file makes: the first argument of whatever makes one.
fn made(text: &str) -> impl Iterator<Item = &str> {
    text.split('(').filter_map(|rest| {
        let (name, after) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        (is_name(name) && after.trim_start().starts_with(',')).then_some(name)
    })
}

/// All metrics of both programs.
fn metrics() -> BTreeSet<String> {
    let found: BTreeSet<String> = files()
        .into_iter()
        .filter(|path| {
            let path = relative(path);
            path.ends_with(".rs")
                && path.contains("/src/")
                && path.contains("/metrics")
                && !path.starts_with("shared/workflow")
        })
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            made(&text).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.len() > 40, "{found:?}");
    found
}

fn docs() -> String {
    fs::read_to_string(workspace().join("docs/operations.md")).unwrap()
}

#[test]
fn every_metric_is_documented() {
    let docs = docs();
    let wrong: Vec<String> =
        metrics().into_iter().filter(|name| !docs.contains(&format!("`{name}`"))).collect();
    none("metrics that are not in docs/operations.md", &wrong);
}

#[test]
fn what_is_documented_is_a_metric() {
    let (docs, metrics) = (docs(), metrics());
    let section = docs.split_once("\n## Metrics\n").unwrap().1.split("\n## ").next().unwrap();
    let named = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let wrong: Vec<String> = named
        .map(|(name, _)| name.to_owned())
        .filter(|name| is_name(name) && !metrics.contains(name))
        .filter(|name| !name.starts_with(OF_THE_PROCESS))
        .collect();
    none("rows of docs/operations.md that are no metric", &wrong);
}

#[test]
fn the_chart_asks_for_metrics_that_exist() {
    let metrics = metrics();
    let mut wrong = Vec::new();
    let mut asked = 0;
    for file in ASKING {
        let text = fs::read_to_string(workspace().join(file)).unwrap();
        // A selector follows every name: the namespace is in it.
        let words = text.split('{').filter_map(|before| {
            let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))? + 1;
            before.get(start..).filter(|word| is_name(word))
        });
        for word in words {
            asked += 1;
            let bare = ["_bucket", "_count", "_sum"]
                .iter()
                .find_map(|ending| word.strip_suffix(ending))
                .unwrap_or(word);
            let exists = metrics.contains(word) || metrics.contains(bare);
            if !exists && !word.starts_with(OF_THE_PROCESS) {
                wrong.push(format!("{file}: {word}"));
            }
        }
    }
    assert!(asked > 15, "only {asked} were found");
    none("the chart asks for what is no metric", &wrong);
}

#[test]
fn every_alarm_has_its_place_in_the_runbook() {
    let file = workspace().join("charts/vela-core/templates/monitoring.yaml");
    let (docs, chart) = (docs(), fs::read_to_string(file).unwrap());
    let headings: BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| heading.to_lowercase().replace(' ', "-").replace(',', ""))
        .collect();
    let mut wrong = Vec::new();
    let alarms: Vec<&str> = chart.split("- alert: ").skip(1).collect();
    assert!(alarms.len() > 10, "{alarms:?}");
    for alarm in alarms {
        let name = alarm.lines().next().unwrap_or_default();
        let link = alarm.split("runbook_url: {{ $runbook }}").nth(1);
        let link = link.and_then(|rest| rest.lines().next()).unwrap_or_default();
        if !headings.contains(link) || !link.contains(&name.to_lowercase()) {
            wrong.push(format!("{name}: {link:?}"));
        }
    }
    none("alarms without a section of docs/operations.md", &wrong);
}
