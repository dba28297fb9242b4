//! Who may depend on whom. The table is the architecture: knowledge points downwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{members, metadata, none, packages};

/// Crate, and the crates of this workspace that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("vela-gocompat", &[]),
    ("vela-api-derive", &[]),
    ("vela-api", &["vela-api-derive", "vela-gocompat"]),
    ("cue-syntax", &[]),
    ("gotemplate", &["vela-gocompat"]),
    ("cue", &["vela-gocompat", "cue-syntax", "gotemplate"]),
    ("vela-helm", &["vela-gocompat", "gotemplate"]),
    ("vela-render", &["vela-gocompat", "vela-api", "cue-syntax", "cue"]),
    ("vela-workflow", &["vela-gocompat", "vela-api", "cue-syntax", "cue"]),
    ("vela-apply", &["vela-api"]),
    ("vela-cluster", &["vela-gocompat", "vela-api", "vela-apply", "vela-seal"]),
    ("vela-seal", &["vela-api"]),
    ("vela-shard", &[]),
    ("vela-serve", &["vela-gocompat"]),
    ("vela-certs", &["vela-cluster"]),
    (
        "vela-webhook",
        &[
            "vela-gocompat",
            "vela-api",
            "vela-helm",
            "vela-render",
            "vela-workflow",
            "vela-seal",
            "vela-cluster",
            "vela-serve",
        ],
    ),
    ("vela-gateway", &["vela-api", "vela-cluster", "vela-serve"]),
    (
        "vela-controller",
        &[
            "vela-gocompat",
            "vela-api",
            "vela-helm",
            "vela-render",
            "vela-workflow",
            "vela-apply",
            "vela-seal",
            "vela-cluster",
            "vela-serve",
            "vela-shard",
            "vela-certs",
        ],
    ),
];

/// They may use everything, and nothing may use them.
const TOOLS: [&str; 7] =
    ["vela-tests", "xtask", "bench-cue", "bench-helm", "engine-diff", "cue-diff", "helm-diff"];

/// Crates that decide and never act: no runtime, no network, in whatever they bring along.
const PURE: [&str; 12] = [
    "vela-gocompat",
    "vela-api-derive",
    "vela-api",
    "cue-syntax",
    "gotemplate",
    "vela-helm",
    "cue",
    "vela-render",
    "vela-workflow",
    "vela-apply",
    "vela-seal",
    "vela-shard",
];
const IMPURE: [&str; 5] = ["tokio", "kube-client", "kube-runtime", "hyper", "reqwest"];

/// Foreign crates that only some of ours may name.
const CONFINED: &[(&str, &[&str])] = &[
    ("axum", &["vela-serve", "vela-webhook", "vela-certs", "vela-controller", "vela-gateway"]),
    ("axum-server", &["vela-serve", "vela-webhook", "vela-certs"]),
    ("notify", &["vela-serve", "vela-webhook", "vela-certs"]),
    ("rcgen", &["vela-certs", "vela-helm"]),
    ("x509-parser", &["vela-certs", "vela-cluster", "vela-serve"]),
];

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

/// The dependencies a package names: of the programs, not of its tests.
fn named(package: &Value) -> impl Iterator<Item = &str> {
    package["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(name)
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let ours: BTreeSet<&str> = members().into_iter().map(name).collect();
    let table: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in members().into_iter().filter(|package| !TOOLS.contains(&name(package))) {
        let Some(allowed) = table.get(name(package)) else {
            wrong.push(format!("{} is not in the table", name(package)));
            continue;
        };
        for dependency in named(package).filter(|dependency| ours.contains(dependency)) {
            if !allowed.contains(&dependency) {
                wrong.push(format!("{} uses {dependency}", name(package)));
            }
        }
    }
    none("the dependency table does not allow", &wrong);
}

#[test]
fn no_permission_is_unused() {
    let used: BTreeMap<&str, BTreeSet<&str>> =
        members().into_iter().map(|package| (name(package), named(package).collect())).collect();
    let mut wrong = Vec::new();
    for (user, allowed) in MAY_USE {
        let used = used.get(user).cloned().unwrap_or_default();
        let unused = allowed.iter().filter(|allowed| !used.contains(*allowed));
        wrong.extend(unused.map(|unused| format!("{user} does not use {unused}")));
    }
    none("the dependency table allows more than there is", &wrong);
}

#[test]
fn nothing_uses_the_tests() {
    let wrong: Vec<String> = members()
        .into_iter()
        .filter(|package| !TOOLS.contains(&name(package)))
        .flat_map(|package| {
            let tools = package["dependencies"].as_array().unwrap().iter().map(name);
            tools
                .filter(|dependency| TOOLS.contains(dependency))
                .map(|dependency| format!("{} uses {dependency}", name(package)))
                .collect::<Vec<_>>()
        })
        .collect();
    none("test code is used outside of tests", &wrong);
}

#[test]
fn pure_crates_stay_pure() {
    // Ids of the resolved graph, normal dependencies only.
    let nodes: BTreeMap<&str, &Value> = metadata()["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let names: BTreeMap<&str, &str> =
        packages().iter().map(|package| (package["id"].as_str().unwrap(), name(package))).collect();
    let mut wrong = Vec::new();
    for package in members().into_iter().filter(|package| PURE.contains(&name(package))) {
        // `kube` is one node of the graph with the features of the whole workspace, so a pure
        // crate that uses its derive macros must not be followed through it.
        let mut seen = BTreeSet::new();
        let mut todo = vec![package["id"].as_str().unwrap()];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) || names[id] == "kube" {
                continue;
            }
            if IMPURE.contains(&names[id]) {
                wrong.push(format!("{} brings {}", name(package), names[id]));
            }
            for dependency in nodes[id]["deps"].as_array().unwrap() {
                let kinds = dependency["dep_kinds"].as_array().unwrap();
                if kinds.iter().any(|kind| kind["kind"].is_null()) {
                    todo.push(dependency["pkg"].as_str().unwrap());
                }
            }
        }
        let features = package["dependencies"].as_array().unwrap().iter();
        for dependency in features.filter(|dependency| name(dependency) == "kube") {
            for feature in dependency["features"].as_array().unwrap() {
                if feature != "derive" && dependency["kind"].is_null() {
                    wrong.push(format!("{} uses kube with {feature}", name(package)));
                }
            }
        }
    }
    none("pure crates bring a runtime or a network", &wrong);
}

#[test]
fn some_crates_are_confined() {
    let mut wrong = Vec::new();
    for (foreign, allowed) in CONFINED {
        for package in members() {
            let user = name(package);
            if named(package).any(|dependency| dependency == *foreign)
                && !allowed.contains(&user)
                && !TOOLS.contains(&user)
            {
                wrong.push(format!("{user} uses {foreign}"));
            }
        }
    }
    none("foreign crates in places where they do not belong", &wrong);
}

/// What is built, on any platform, as lines `name vVERSION ...`. Not from the metadata: that also lists optional crates that only
/// a weak feature names.
pub(crate) fn tree() -> String {
    let output = vela_tests::material::cargo()
        .args(["tree", "--locked", "--workspace", "--target", "all"])
        .args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.lines().any(|line| line.starts_with("rustls v")), "an odd tree:\n{tree}");
    tree
}

#[test]
fn banned_crates_are_absent() {
    let banned = crate::licences::list("bans", "deny");
    let tree = tree();
    let wrong: Vec<String> = tree
        .lines()
        .filter(|line| banned.contains(line.split(' ').next().unwrap_or_default()))
        .map(str::to_owned)
        .collect();
    none("banned crates in the build", &wrong);
}
