//! Programs in the form of KubeVela's definitions: a schema of parameters with values for some of them, a context,
//! an output and further outputs that depend on both.

use super::{Grower, Name, Planned, Shape};
use crate::program::Program;

/// What a controller says of the application, the cluster and the output of the component.
const CONTEXT: &str = r#"context: {
	name: "web"
	namespace: "default"
	appName: "shop"
	appRevision: "shop-v2"
	replicaKey: ""
	appLabels: {tier: "front"}
	clusterVersion: {major: "1", minor: 29, gitVersion: "v1.29.3"}
	output: {
		kind: "Deployment"
		spec: template: spec: containers: [{name: "web", image: "nginx", ports: [{containerPort: 80}]}]
	}
}
"#;

/// Paths into the context, and what is there.
const TEXTS: [&str; 5] =
    ["name", "namespace", "appName", "clusterVersion.gitVersion", "output.kind"];
const NUMBERS: [&str; 1] = ["clusterVersion.minor"];

/// Where a definition puts a guarded value.
const PLACES: [&str; 4] = ["spec", "metadata", "data", "spec: template"];

/// A template, its parameters and its context in one text.
pub(super) fn grow(g: &mut Grower) -> Program {
    let mut parameters = g.plan(1);
    parameters.retain(|field| !field.label.starts_with(['#', '_']));
    let schema = schema(g, &parameters);
    let values = values(g, &parameters);
    let mut scope = vec![Name::bound("parameter".to_owned(), Shape::Struct(parameters.clone()))];
    for (paths, shape) in [(&TEXTS[..], Shape::Str), (&NUMBERS[..], Shape::Int)] {
        for path in paths {
            scope.push(Name::bound(format!("context.{path}"), shape.clone()));
        }
    }
    g.scopes.push(scope);
    let mut body = Vec::new();
    body.push(output(g, "output", &parameters));
    if g.percent(60) {
        let name = g.one_of(&["service", "ingress", "config"]);
        let of_one = output(g, name, &parameters);
        let guard = guard(g, &parameters);
        let loops = g.percent(25);
        body.push(match (loops, guard) {
            (true, Some(path)) => {
                format!("outputs: {{\nfor k, v in {path} {{\n\"\\(k)-x\": {{value: v}}\n}}\n}}")
            }
            (false, Some(path)) if g.percent(60) => {
                format!("outputs: {{\nif {path} != _|_ {{\n{of_one}\n}}\n}}")
            }
            _ => format!("outputs: {{\n{of_one}\n}}"),
        });
    }
    if g.percent(40) {
        body.push(patch(g, &parameters));
    }
    g.scopes.pop();
    g.rng.shuffle(&mut body);
    let text = format!("{}\n{CONTEXT}parameter: {schema}\nparameter: {values}", body.join("\n"));
    Program::single(&g.with_imports(&text))
}

/// The schema: types, defaults, alternatives, optional fields, an alternative at the root now and then.
fn schema(g: &mut Grower, fields: &[Planned]) -> String {
    let mut lines = Vec::new();
    for field in fields {
        let marker = g.one_of(&["?", "?", "", "", "!"]);
        let kind = g.kind(&field.shape);
        let value = match g.rng.u32(..4) {
            0 => format!("*{} | {kind}", g.literal(&field.shape, 3)),
            1 => format!("{kind} | null"),
            _ => kind,
        };
        lines.push(format!("{}{marker}: {value}", field.label));
    }
    let body = format!("{{\n{}\n}}", lines.join("\n"));
    match g.rng.u32(..8) {
        0 => format!("close({body})"),
        1 => format!("*{body} | {{other: int}}"),
        2 => format!("{body} | close({{other: int}})"),
        _ => body,
    }
}

/// What an application gives: most of the parameters, as data.
fn values(g: &mut Grower, fields: &[Planned]) -> String {
    let mut lines = Vec::new();
    for field in fields {
        if g.percent(55) {
            lines.push(format!("{}: {}", field.label, data(g, &field.shape)));
        }
    }
    format!("{{\n{}\n}}", lines.join("\n"))
}

fn data(g: &mut Grower, shape: &Shape) -> String {
    match shape {
        Shape::List(element) => {
            let items: Vec<String> = (0..g.rng.usize(..3)).map(|_| data(g, element)).collect();
            format!("[{}]", items.join(", "))
        }
        Shape::Struct(fields) => {
            let of_data = fields.iter().filter(|field| !field.label.starts_with(['#', '_']));
            let of_data: Vec<Planned> = of_data.cloned().collect();
            values(g, &of_data)
        }
        scalar => g.literal(scalar, 9),
    }
}

fn guard(g: &mut Grower, fields: &[Planned]) -> Option<String> {
    let at = g.rng.usize(..fields.len().max(1));
    fields.get(at).map(|field| format!("parameter.{}", field.label))
}

/// An object whose fields are the parameters, most of them under a guard.
fn output(g: &mut Grower, name: &str, fields: &[Planned]) -> String {
    let mut lines = vec![
        "apiVersion: \"v1\"".to_owned(),
        "kind: \"Kind\"".to_owned(),
        "metadata: name: context.name".to_owned(),
    ];
    for field in fields {
        let path = format!("parameter.{}", field.label);
        let place = g.one_of(&PLACES);
        let label = &field.label;
        lines.push(match g.rng.u32(..8) {
            0 | 1 => format!("if {path} != _|_ {{\n{place}: {label}: {path}\n}}"),
            2 => {
                let other = g.literal(&field.shape, 3);
                let chosen = format!("if {path} != _|_ {{\n{place}: {label}: {path}\n}}");
                format!("{chosen}\nif {path} == _|_ {{\n{place}: {label}: {other}\n}}")
            }
            3 if matches!(field.shape, Shape::List(_)) => {
                let element = g.fresh("v");
                format!("{place}: {label}: [for {element} in {path} {{value: {element}}}]")
            }
            3 if matches!(field.shape, Shape::Struct(_)) => {
                format!("{place}: {label}: [for k, v in {path} {{name: k, value: v}}]")
            }
            4 => {
                let condition = g.condition(2);
                format!("if {path} != _|_ if {condition} {{\n{place}: {label}: {path}\n}}")
            }
            5 => format!("{place}: {label}: {path}"),
            6 => format!(
                "if {path} != _|_ {{\n{place}: {label}: \"\\(context.name)-\\({path})\"\n}}"
            ),
            _ => format!("{place}: {label}: {}", g.value(&field.shape, 2)),
        });
    }
    format!("{name}: {{\n{}\n}}", lines.join("\n"))
}

/// A trait's patch: containers by name, lists built under guards.
fn patch(g: &mut Grower, fields: &[Planned]) -> String {
    let mut lines = Vec::new();
    if let Some(path) = guard(g, fields) {
        lines.push(format!(
            "patch: spec: template: spec: containers: [{{name: context.name\nif {path} != _|_ {{env: {path}}}}}]"
        ));
    }
    if let Some(path) = guard(g, fields) {
        lines.push(format!(
            "_list: *[] | [...]\nif {path} != _|_ {{_list: [{path}]}}\npatch: list: _list"
        ));
    }
    let condition = g.condition(2);
    lines.push(format!("patch: {{\nif {condition} {{labels: \"\\(context.appName)\": \"x\"}}\n}}"));
    lines.join("\n")
}
