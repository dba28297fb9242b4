//! A plan for users: text for terminals, markdown for a comment in a pull request.

use std::fmt::Write as _;

use super::changes::{Change, Refused, Verb, counts, short};
use super::one::Plan;
use super::rehearsal::{Remark, What};

/// Longest value of a field.
const MAX_VALUE: usize = 60;
/// Fields of one object that are shown.
const MAX_FIELDS: usize = 20;

/// How a change is marked.
const fn sign(verb: Verb) -> char {
    match verb {
        Verb::Add => '+',
        Verb::Change => '~',
        Verb::Replace => '!',
        Verb::Delete => '-',
        Verb::Note => '=',
    }
}

/// An object as it is named in a line.
fn object(kind: &str, namespace: &str, name: &str, cluster: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let cluster = if cluster.is_empty() { String::new() } else { format!(" in cluster {cluster}") };
    format!("{kind} {namespace}{name}{cluster}")
}

/// What is to be known about a change, behind the object.
fn remark(change: &Change, is_partial: bool) -> String {
    let mut all = Vec::new();
    match change.restarts {
        Some(1) => all.push("1 Pod restarts".to_owned()),
        Some(pods) => all.push(format!("{pods} Pods restart")),
        None => {}
    }
    if change.verb == Verb::Replace {
        all.push("deleted and created again".to_owned());
    }
    if change.holds_data {
        all.push("holds data".to_owned());
    }
    if change.unchecked {
        all.push("not checked by the API server: what it needs is planned too".to_owned());
    }
    if is_partial && change.verb == Verb::Delete {
        all.push("unless a step keeps it that is known only after the run".to_owned());
    }
    all.join("; ")
}

/// The plan as text.
pub(crate) fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = write!(out, "Application {}/{}", plan.namespace, plan.name);
    let _ = match plan.generation {
        Some((0, _)) => writeln!(out, ", new"),
        Some((before, after)) if before == after => writeln!(out, ", generation {before}"),
        Some((before, after)) => writeln!(out, ", generation {before} -> {after}"),
        None => writeln!(out),
    };
    if let Some(problem) = &plan.problem {
        let word = if plan.denied { "refused" } else { "not possible" };
        let _ = writeln!(out, "  x {word}: {problem}");
    }
    let is_partial = plan.is_partial();
    for change in plan.changes.iter().filter(|change| change.verb != Verb::Note) {
        let Change { kind, namespace, name, cluster, .. } = change;
        let line = format!("  {} {}", sign(change.verb), object(kind, namespace, name, cluster));
        let _ = match remark(change, is_partial).as_str() {
            "" => writeln!(out, "{line}"),
            remark => writeln!(out, "{line:<52} {remark}"),
        };
        for field in change.fields.iter().take(MAX_FIELDS) {
            let values = if field.secret {
                "changed".to_owned()
            } else {
                let (before, after) = (field.before.as_ref(), field.after.as_ref());
                format!("{} -> {}", short(before, MAX_VALUE), short(after, MAX_VALUE))
            };
            let _ = writeln!(out, "      {:<46} {values}", field.path);
        }
        if let Some(more) = change.fields.len().checked_sub(MAX_FIELDS).filter(|more| *more > 0) {
            let _ = writeln!(out, "      and {more} more");
        }
    }
    for refused in &plan.refused {
        let Refused { kind, namespace, name, cluster, message } = refused;
        let line = format!("  ! {}", object(kind, namespace, name, cluster));
        let _ = writeln!(out, "{line:<52} refused: {message}");
    }
    let counts = counts(&plan.changes);
    if let Some(noted) = counts.get(&Verb::Note) {
        let _ = writeln!(out, "  = {noted} unchanged but for notes of the control plane");
    }
    if !plan.steps.is_empty() {
        let _ = writeln!(out, "Steps: {}", steps(plan).join(", "));
    }
    for note in lines(plan) {
        let _ = writeln!(out, "{note}");
    }
    let _ = writeln!(out, "{}", summary(plan));
    out
}

/// What is said below the objects.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for remark in &plan.remarks {
        if let What::Fails(why) = &remark.what {
            lines.push(format!("The run ends at step {}: {why}", remark.step));
        }
    }
    let hooks = plan.remarks.iter().filter_map(|remark| match &remark.what {
        What::RunsHook(hook) => Some(hook.as_str()),
        _ => None,
    });
    let hooks: Vec<&str> = hooks.collect();
    if !hooks.is_empty() {
        lines.push(format!("Hooks of charts that run: {}", hooks.join(", ")));
    }
    if plan.is_partial() {
        lines.push("What depends on the run is known after it.".to_owned());
    }
    if !plan.definitions.is_empty() {
        lines.push(format!("Definitions: {}", plan.definitions.join(", ")));
    }
    if !plan.pruned.is_empty() {
        lines.push(format!("Not kept by the API server: {}", plan.pruned.join(", ")));
    }
    lines.extend(plan.notes.iter().cloned());
    lines
}

/// The steps, each with what is to be known about it.
fn steps(plan: &Plan) -> Vec<String> {
    let of = |name: &String| {
        let of_step = plan.remarks.iter().filter(|remark| remark.step == *name);
        let remarks: Vec<String> = of_step.filter_map(words).collect();
        if remarks.is_empty() { name.clone() } else { format!("{name} ({})", remarks.join("; ")) }
    };
    plan.steps.iter().map(of).collect()
}

/// A remark as it stands behind its step; hooks have a line of their own.
fn words(remark: &Remark) -> Option<String> {
    let with = |words: &str, detail: &str| {
        if detail.is_empty() { words.to_owned() } else { format!("{words}: {detail}") }
    };
    let words = match &remark.what {
        What::RunsHook(_) => return None,
        What::Suspends(detail) if detail.is_empty() => "waits for a person".to_owned(),
        What::Suspends(detail) => with("waits for a person or a time", detail),
        What::Waits(detail) => with("waits", detail),
        What::Calls(server) => format!("would call {server}: not done"),
        What::Unknown(of) => format!("takes {of}: known after the run"),
        What::Fails(_) => "fails".to_owned(),
    };
    Some(words)
}

/// The last line: how many objects.
pub(crate) fn summary(plan: &Plan) -> String {
    let counts = counts(&plan.changes);
    let count = |verb| counts.get(&verb).copied().unwrap_or_default();
    let all = [
        (count(Verb::Add), "to add"),
        (count(Verb::Change), "to change"),
        (count(Verb::Replace), "to replace"),
        (count(Verb::Delete), "to delete"),
        (plan.refused.len(), "refused"),
    ];
    let all: Vec<String> = all
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    match all.as_slice() {
        [] if plan.problem.is_some() => "No plan".to_owned(),
        [] if plan.is_partial() => "Nothing that is known before the run".to_owned(),
        [] => "Nothing to do".to_owned(),
        all => all.join(", "),
    }
}

/// The plan as markdown.
pub(crate) fn markdown(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "### `{}/{}`: {}\n", plan.namespace, plan.name, summary(plan));
    let body = text(plan);
    // A text that ends the block would be markup.
    let fence = if body.contains("```") { "~~~~~~~~" } else { "```" };
    let _ = writeln!(out, "{fence}diff\n{}{fence}", diff(&body));
    out
}

/// Lines so that a comment shows them in colours.
fn diff(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let is_object = line.starts_with("  ") && !line.starts_with("   ");
        let _ = if is_object { writeln!(out, "{trimmed}") } else { writeln!(out, "  {trimmed}") };
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::changes::Field;

    fn change(verb: Verb, kind: &str, name: &str) -> Change {
        Change {
            verb,
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            fields: Vec::new(),
            restarts: None,
            holds_data: false,
            unchecked: false,
        }
    }

    fn example() -> Plan {
        let mut web = change(Verb::Change, "Deployment", "web");
        web.restarts = Some(3);
        web.fields.push(Field {
            path: "spec.template.spec.containers[web].image".to_owned(),
            before: Some(json!("acme/web:1")),
            after: Some(json!("acme/web:2")),
            secret: false,
        });
        let mut key = change(Verb::Change, "Secret", "key");
        key.fields.push(Field {
            path: "data.token".to_owned(),
            before: None,
            after: None,
            secret: true,
        });
        let mut data = change(Verb::Delete, "PersistentVolumeClaim", "data");
        data.holds_data = true;
        let remark = |step: &str, what| Remark { step: step.to_owned(), what };
        Plan {
            namespace: "shop".to_owned(),
            name: "shop".to_owned(),
            generation: Some((6, 7)),
            changes: vec![
                change(Verb::Add, "Ingress", "web"),
                web,
                key,
                data,
                change(Verb::Note, "Service", "web"),
            ],
            refused: vec![Refused {
                cluster: String::new(),
                kind: "HorizontalPodAutoscaler".to_owned(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                message: "policy.kyverno.io: maxReplicas over 10".to_owned(),
            }],
            steps: ["deploy-staging", "approve", "deploy-prod", "notify"]
                .map(str::to_owned)
                .to_vec(),
            remarks: vec![
                remark("approve", What::Suspends(String::new())),
                remark("notify", What::Calls("hooks.slack.com".to_owned())),
            ],
            definitions: vec!["webservice v3 -> v4".to_owned()],
            ..Plan::default()
        }
    }

    #[test]
    fn the_documentation_shows_what_is_printed() {
        let docs = include_str!("../../../docs/plan.md");
        let text = text(&example());
        assert!(docs.contains(&format!("```text\n{text}```\n")), "{text}");
    }

    #[test]
    fn markdown_cannot_be_ended_by_what_it_shows() {
        let mut plan = example();
        plan.refused[0].message = "```\n# loud".to_owned();
        let text = markdown(&plan);
        assert!(text.contains("~~~~~~~~diff") && text.trim_end().ends_with("~~~~~~~~"), "{text}");
        assert!(!text.contains("\n# loud"), "{text}");
    }
}
