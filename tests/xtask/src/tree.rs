//! The live status of Applications as a tree on standard error.
//!
//! On a terminal it is redrawn in place; elsewhere it is printed again when it has changed.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Tree {
    terminal: bool,
    drawn: usize,
    last: String,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), drawn: 0, last: String::new() }
    }

    pub(crate) fn show(&mut self, applications: &[Value], age: Duration) {
        let text: String = applications.iter().map(lines).collect();
        if text == self.last {
            return;
        }
        let mut out = String::new();
        if self.terminal {
            if self.drawn > 0 {
                let _ = write!(out, "\x1b[{}A\x1b[J", self.drawn);
            }
            out += &text;
        } else {
            let _ = write!(out, "  {:.2} s\n{text}", age.as_secs_f64());
        }
        self.drawn = text.lines().count();
        self.last = text;
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(out.as_bytes());
        let _ = stderr.flush();
    }

    pub(crate) fn finish(&mut self) {
        self.drawn = 0;
    }
}

fn lines(application: &Value) -> String {
    let status = &application["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&application["metadata"]["name"]);
    let phase = status["status"].as_str().unwrap_or("pending");
    let mut out = format!("  Application {name}: {phase}\n");
    let mut children: Vec<(String, Vec<String>)> = Vec::new();
    let steps: Vec<String> = list(&status["workflow"]["steps"])
        .map(|step| {
            let mut line = format!("{}: {}", text(&step["name"]), text(&step["phase"]));
            if let Some(message) = step["message"].as_str() {
                let _ = write!(line, " ({message})");
            }
            line
        })
        .collect();
    if !steps.is_empty() {
        children.push(("workflow".to_owned(), steps));
    }
    for service in list(&status["services"]) {
        let health = if service["healthy"] == true { "healthy" } else { "not healthy yet" };
        let cluster = text(&service["cluster"]);
        let placement = if cluster.is_empty() { String::new() } else { format!(" in {cluster}") };
        let mut line = format!("{}{placement}: {health}", text(&service["name"]));
        if let Some(message) = service["message"].as_str().filter(|text| !text.is_empty()) {
            let _ = write!(line, ", {message}");
        }
        let kind = text(&service["workloadDefinition"]["kind"]);
        // A release is healthy by itself: no object stands for it.
        let mut parts: Vec<String> =
            Some(kind).filter(|kind| !kind.is_empty()).into_iter().collect();
        parts.extend(list(&service["traits"]).map(|one| format!("trait {}", text(&one["type"]))));
        children.push((line, parts));
    }
    let last = children.len();
    for (index, (line, parts)) in children.into_iter().enumerate() {
        let (branch, stem) = if index + 1 == last { ("└─", "  ") } else { ("├─", "│ ") };
        let _ = writeln!(out, "  {branch} {line}");
        let end = parts.len();
        for (index, part) in parts.into_iter().enumerate() {
            let branch = if index + 1 == end { "└─" } else { "├─" };
            let _ = writeln!(out, "  {stem} {branch} {part}");
        }
    }
    out
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tree_shows_steps_and_services() {
        let application = json!({
            "metadata": { "name": "a" },
            "status": {
                "status": "runningWorkflow",
                "workflow": { "steps": [{ "name": "web", "phase": "running", "message": "wait" }] },
                "services": [{
                    "name": "web", "healthy": false, "message": "Ready:0/1",
                    "workloadDefinition": { "kind": "Deployment" },
                    "traits": [{ "type": "scaler" }],
                }, {
                    "name": "web", "healthy": true, "cluster": "edge",
                    "workloadDefinition": { "kind": "Deployment" },
                }],
            },
        });
        let expected = "  Application a: runningWorkflow\n  ├─ workflow\n  │  └─ web: running (wait)\n  \
            ├─ web: not healthy yet, Ready:0/1\n  │  ├─ Deployment\n  │  └─ trait scaler\n  \
            └─ web in edge: healthy\n     └─ Deployment\n";
        assert_eq!(lines(&application), expected);
    }
}
