//! The drawing of the crates in ARCHITECTURE.md, from what cargo knows of them.
//!
//! Normal dependencies between the crates that are shipped; those that follow from others are left
//! out, so that the drawing shows the shortest way from a program down to the libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::material::{cargo, workspace};

const FILE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- graph: begin -->\n";
const END: &str = "<!-- graph: end -->";

/// Crates by name, each with those it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The text of ARCHITECTURE.md as it is, and as it should be.
///
/// # Errors
/// The file or its marks are missing, or cargo fails.
pub fn document() -> Result<(String, String)> {
    let path = workspace().join(FILE);
    let is = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = is.split_once(BEGIN).context("the mark before the drawing")?;
    let (_, after) = rest.split_once(END).context("the mark behind the drawing")?;
    let drawing = mermaid(&reduced(&read()?));
    Ok((is.clone(), format!("{before}{BEGIN}{drawing}{END}{after}")))
}

/// Writes the drawing.
///
/// # Errors
/// As [`document`], or the file cannot be written.
pub fn write() -> Result<bool> {
    let (is, wanted) = document()?;
    if is == wanted {
        return Ok(false);
    }
    std::fs::write(workspace().join(FILE), wanted).context(FILE)?;
    Ok(true)
}

fn read() -> Result<Graph> {
    let output = cargo()
        .args(["metadata", "--locked", "--no-deps", "--format-version", "1"])
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    graph(&serde_json::from_slice(&output.stdout)?, &workspace().join("tests"))
}

/// The crates of a workspace's metadata, without those below `tests`: they are not shipped and may
/// use everything.
fn graph(metadata: &Value, tests: &Path) -> Result<Graph> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let list = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut graph = Graph::new();
    for package in list(metadata, "packages") {
        let manifest = package.get("manifest_path").and_then(Value::as_str).unwrap_or_default();
        if Path::new(manifest).starts_with(tests) {
            continue;
        }
        let used = list(&package, "dependencies").into_iter().filter(|dependency| {
            let is_ours = dependency.get("path").is_some_and(Value::is_string);
            is_ours && dependency.get("kind").is_none_or(Value::is_null)
        });
        let used = used.filter_map(|dependency| name(&dependency)).collect();
        graph.insert(name(&package).context("a package has a name")?, used);
    }
    Ok(graph)
}

/// Without the arrows that follow from others.
fn reduced(graph: &Graph) -> Graph {
    let reduce = |used: &BTreeSet<String>| {
        let indirect: BTreeSet<&String> =
            used.iter().flat_map(|direct| reachable(graph, direct)).collect();
        used.iter().filter(|direct| !indirect.contains(direct)).cloned().collect()
    };
    graph.iter().map(|(name, used)| (name.clone(), reduce(used))).collect()
}

/// Everything that a crate uses, through others too, without itself.
fn reachable<'g>(graph: &'g Graph, from: &str) -> BTreeSet<&'g String> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(next) = todo.pop() {
        if found.insert(next) {
            todo.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

/// As a Mermaid flowchart: programs above, what nothing depends on last.
fn mermaid(graph: &Graph) -> String {
    let short = |name: &str| name.trim_start_matches("vela-").to_owned();
    let mut out = "```mermaid\nflowchart TD\n".to_owned();
    for (name, used) in graph {
        for other in used {
            out.push_str(&format!("  {} --> {}\n", short(name), short(other)));
        }
        if used.is_empty() && !graph.values().any(|used| used.contains(name)) {
            out.push_str(&format!("  {}\n", short(name)));
        }
    }
    out + "```\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_follow_from_others_are_left_out() {
        let graph: Graph = [("a", "b c d"), ("b", "c"), ("c", "d"), ("d", ""), ("e", "")]
            .into_iter()
            .map(|(name, used)| {
                (name.to_owned(), used.split_whitespace().map(str::to_owned).collect())
            })
            .collect();
        let drawing = mermaid(&reduced(&graph));
        let arrows: Vec<&str> = drawing.lines().filter(|line| line.contains("-->")).collect();
        assert_eq!(arrows, ["  a --> b", "  b --> c", "  c --> d"]);
        assert!(drawing.contains("\n  e\n"), "{drawing}");
    }

    #[test]
    fn only_normal_dependencies_within_the_workspace_count() {
        let metadata = serde_json::json!({"packages": [
            {"name": "vela-a", "manifest_path": "/w/a/Cargo.toml", "dependencies": [
                {"name": "vela-b", "kind": null, "path": "/b"},
                {"name": "vela-c", "kind": "dev", "path": "/c"},
                {"name": "serde", "kind": null},
            ]},
            {"name": "vela-b", "manifest_path": "/w/b/Cargo.toml", "dependencies": []},
            {"name": "tool", "manifest_path": "/w/tests/tool/Cargo.toml", "dependencies": [
                {"name": "vela-a", "kind": null, "path": "/a"},
            ]},
        ]});
        let graph = graph(&metadata, Path::new("/w/tests")).unwrap();
        assert_eq!(graph.len(), 2);
        assert_eq!(graph["vela-a"].iter().collect::<Vec<_>>(), ["vela-b"]);
    }
}
