//! Components: names, what they wait for, and their parameters.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lookup::Types;
use super::subject::{Findings, Subject};
use super::{charts, parameters, supplied, traits};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::snapshot::Definition;

/// Names must differ.
pub(crate) fn names(subject: &Subject<'_>, findings: &mut Findings) {
    let mut seen = std::collections::BTreeSet::new();
    for (i, component) in subject.app.components.iter().enumerate() {
        if !seen.insert(component.name) {
            findings.push(
                Rule::Components,
                Reason::Duplicate,
                Field::new("spec.components").index(i).at("name"),
                messages::duplicated_component(component.name),
            );
        }
    }
}

/// `dependsOn` and `inputs` that name nothing are reported; components that wait for each other are
/// refused, since they never start (compatibility note webhook-2).
pub(crate) fn dependencies(subject: &Subject<'_>, findings: &mut Findings) {
    let app = subject.app;
    // With steps of one's own, what components wait for is the workflow's business.
    if app
        .workflow
        .as_ref()
        .is_some_and(|workflow| !workflow.steps.is_empty() || !workflow.reference.is_empty())
    {
        return;
    }
    let components = Field::new("spec.components");
    let names = || app.components.iter().map(|component| component.name);
    let outputs = || app.components.iter().flat_map(|component| component.outputs.iter().copied());
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (i, component) in app.components.iter().enumerate() {
        let field = components.index(i);
        for (j, name) in component.depends_on.iter().enumerate() {
            if names().any(|known| known == *name) {
                edges.entry(component.name).or_default().push(name);
            } else {
                let field = field.at("dependsOn").index(j).to_string();
                let nearest = vela_serve::nearest(name, names());
                findings.warnings.push(messages::unknown_dependency(&field, name, nearest));
            }
        }
        for (j, input) in component.inputs.iter().enumerate() {
            let output = input.from.split('.').next().unwrap_or(input.from);
            let is_known = outputs().any(|known| known == input.from || known == output)
                || input.from.starts_with("context.");
            if !is_known {
                let field = field.at("inputs").index(j).at("from").to_string();
                let nearest = vela_serve::nearest(input.from, outputs());
                findings.warnings.push(messages::unknown_input(&field, input.from, nearest));
            }
        }
    }
    for (i, component) in app.components.iter().enumerate() {
        if let Some(cycle) = cycle(component.name, &edges)
            && cycle.iter().min() == Some(&component.name)
        {
            findings.push(
                Rule::Components,
                Reason::Invalid,
                components.index(i).at("dependsOn"),
                messages::cyclic(&cycle),
            );
        }
    }
}

/// The names on a way from `start` back to it, if there is one.
pub(crate) fn cycle<'a>(
    start: &'a str,
    edges: &BTreeMap<&'a str, Vec<&'a str>>,
) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = vec![start];
    while let Some(at) = queue.pop() {
        for &next in edges.get(at).into_iter().flatten() {
            if next == start {
                let mut way = vec![start];
                let mut back = at;
                while back != start {
                    way.push(back);
                    back = came_from.get(back)?;
                }
                way.push(start);
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push(next);
            }
        }
    }
    None
}

/// Parameters, templates and trait patches, by rendering without effect.
pub(crate) fn parameters(subject: &Subject<'_>, types: &Types, findings: &mut Findings) {
    // The rules are asked again with all facts: evaluating now would be for nothing.
    if subject.world.is_incomplete() {
        return;
    }
    let app = vela_render::App {
        name: subject.app.name.to_owned(),
        namespace: subject.namespace.to_owned(),
        revision: String::new(),
        labels: owned(&subject.app.labels),
        annotations: owned(&subject.app.annotations),
        components: subject
            .object
            .pointer("/spec/components")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        ..vela_render::App::default()
    };
    let gates = &subject.world.settings.gates;
    let elsewhere = supplied::Supplied::of(subject);
    let mut releases = charts::Releases::new();
    for (i, (component, (definition, trait_definitions))) in
        subject.app.components.iter().zip(&types.components).enumerate()
    {
        if subject.world.is_spent() {
            return;
        }
        let field = Field::new("spec.components").index(i);
        let mut is_sound = properties(component.properties, &field, Rule::Components, findings);
        for (j, one) in component.traits.iter().enumerate() {
            let field = field.at("traits").index(j);
            is_sound &= properties(one.properties, &field, Rule::Traits, findings);
        }
        traits::applicable(component, definition.as_deref(), trait_definitions, &field, findings);
        let Some(definition) = definition else { continue };
        if !is_sound || !definition.is_cue || definition.render.name == "ref-objects" {
            continue;
        }
        let supplied = elsewhere.to(component);
        declared(
            subject,
            &Declared { definition, name: component.name, properties: component.properties },
            &supplied,
            Rule::Parameters,
            &field,
            findings,
        );
        for (j, (one, trait_definition)) in
            component.traits.iter().zip(trait_definitions).enumerate()
        {
            if let Some(definition) = trait_definition.as_deref().filter(|d| d.is_cue) {
                let declared_by =
                    Declared { definition, name: one.type_, properties: one.properties };
                let field = field.at("traits").index(j);
                declared(subject, &declared_by, &supplied, Rule::Traits, &field, findings);
            }
        }
        let filled = definition
            .schema(subject.world.renderer)
            .and_then(|schema| parameters::placeholders(schema, component.properties, &supplied));
        // A trait without a definition is reported already; the others are checked all the same.
        let known: Vec<(usize, vela_render::Trait<'_>)> = component
            .traits
            .iter()
            .zip(trait_definitions)
            .enumerate()
            .filter_map(|(j, (one, definition))| {
                let definition = definition.as_ref().filter(|definition| definition.is_cue)?;
                Some((
                    j,
                    vela_render::Trait {
                        kind: one.type_,
                        definition: &definition.render,
                        properties: one.properties,
                    },
                ))
            })
            .collect();
        let dry = vela_render::Component {
            name: component.name,
            kind: component.type_,
            definition: &definition.render,
            properties: filled.as_ref().or(component.properties),
            traits: known.iter().map(|(_, one)| one.clone()).collect(),
            patch: None,
        };
        let checks = vela_render::Gates {
            cue_validation: gates.enable_cue_validation,
            undeclared_parameters: gates.validate_undeclared_parameters,
            declared: declared_names(
                definition.schema(subject.world.renderer),
                component.properties,
            ),
            supplied_later: supplied,
        };
        let checked = subject.world.renderer.check(&app, &dry, &checks);
        // A chart is rendered by the controller; only a component can be one.
        let is_chart = definition.render.template.text().contains("\"vela/helm\"");
        // What is filled in later may be anything.
        if let Some(asked) = checked.chart.as_ref().filter(|_| is_chart && filled.is_none()) {
            charts::check(subject, component, asked, &field, &mut releases, findings);
        }
        for provider in checked.providers.iter().filter(|name| *name != "helm" || !is_chart) {
            let detail = messages::no_provider(component.type_, provider);
            let (is_new, field) = (subject.is_new(component), field.at("type"));
            findings.refuse_if(is_new, Rule::Components, Reason::Forbidden, field, detail);
        }
        let mut names = std::collections::BTreeSet::new();
        for name in checked.outputs.iter().filter(|name| !names.insert(name.as_str())) {
            let detail = messages::same_output(name);
            findings.push(Rule::Traits, Reason::Duplicate, field.at("traits"), detail);
        }
        for problem in one_a_field(checked.problems) {
            let index = problem
                .trait_kind
                .as_ref()
                .and_then(|kind| known.iter().find(|(_, one)| one.kind == kind).map(|(j, _)| *j));
            let (rule, field) = match index {
                Some(j) => (Rule::Traits, field.at("traits").index(j)),
                None => (Rule::Parameters, field.clone()),
            };
            report(problem, rule, &field, findings);
        }
    }
}

/// The names of the properties that are at the top of a schema.
fn declared_names(schema: Option<&Value>, properties: Option<&Value>) -> Vec<String> {
    let declared = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let given = properties.and_then(Value::as_object);
    let (Some(declared), Some(given)) = (declared, given) else { return Vec::new() };
    given.keys().filter(|key| declared.contains_key(*key)).cloned().collect()
}

/// Something with declared parameters.
pub(crate) struct Declared<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) name: &'a str,
    pub(crate) properties: Option<&'a Value>,
}

/// Unknown parameters are reported, or refused if the gate says so; missing ones likewise.
pub(crate) fn declared(
    subject: &Subject<'_>,
    of: &Declared<'_>,
    supplied: &[String],
    rule: Rule,
    field: &Field,
    findings: &mut Findings,
) {
    let Some(schema) = of.definition.schema(subject.world.renderer) else { return };
    let gates = &subject.world.settings.gates;
    let at = field.at("properties");
    let found = parameters::compare(schema, of.properties, supplied, &at);
    let is_component = rule == Rule::Parameters;
    let refuses_unknown =
        is_component && gates.enable_cue_validation && gates.validate_undeclared_parameters;
    if found.unknown.is_empty() && found.missing.is_empty() {
        return;
    }
    let type_ = format!("{} \"{}\"", of.definition.render.kind.word(), of.definition.render.name);
    let template = of.definition.render.template.text();
    for (field, key, nearest) in found.unknown {
        // A field under a condition is in the template, but not in the schema.
        let is_nested = field.depth() > at.depth() + 1;
        if is_nested && parameters::mentions_label(template, &key) {
            continue;
        }
        // The dry rendering knows better which names there are, and reports it.
        if is_component && !is_nested {
            continue;
        }
        if refuses_unknown {
            let detail = messages::undeclared_parameter(&type_, nearest.as_deref());
            findings.push(rule, Reason::Invalid, field, detail);
        } else {
            let field = field.to_string();
            findings.warnings.push(messages::unknown_parameter(&field, &type_, nearest.as_deref()));
        }
    }
    for path in found.missing {
        let field = at.labels(path.split(['.', '[', ']']).filter(|label| !label.is_empty()));
        if is_component && gates.enable_cue_validation {
            let detail = messages::missing_parameter(of.name, &path);
            findings.push(rule, Reason::Required, field, detail);
        } else {
            findings.warnings.push(messages::missing_warning(&field.to_string()));
        }
    }
}

/// A value that fits no alternative has one error for each: reported as one problem.
fn one_a_field(problems: Vec<vela_render::Problem>) -> Vec<vela_render::Problem> {
    let mut out: Vec<vela_render::Problem> = Vec::new();
    for problem in problems {
        let same = out.iter_mut().find(|other| {
            !problem.path.is_empty()
                && other.path == problem.path
                && other.trait_kind == problem.trait_kind
                && other.severity == problem.severity
        });
        match same {
            None => out.push(problem),
            Some(other) if other.message.contains(&problem.message) => {}
            Some(other) => {
                // "3 errors in empty disjunction:" only announces what follows
                let heading = other.message.trim_end().ends_with(':');
                other.message = if heading {
                    problem.message
                } else {
                    format!("{}; or {}", other.message, problem.message)
                };
            }
        }
    }
    out
}

fn report(problem: vela_render::Problem, rule: Rule, field: &Field, findings: &mut Findings) {
    let field = if problem.path.is_empty() {
        field.clone()
    } else {
        field.labels(problem.path.split(['.', '[', ']']).filter(|label| !label.is_empty()))
    };
    let detail = if problem.path.starts_with("properties.") {
        messages::parameter(
            problem.given.as_deref(),
            problem.expected.as_deref(),
            problem.nearest.as_deref(),
            &problem.message,
        )
    } else {
        problem.message
    };
    match problem.severity {
        vela_render::Severity::Error => findings.push(rule, Reason::Invalid, field, detail),
        vela_render::Severity::Warning => {
            findings.warnings.push(messages::warning(&field.to_string(), &detail));
        }
    }
}

/// Properties are an object.
fn properties(
    properties: Option<&Value>,
    field: &Field,
    rule: Rule,
    findings: &mut Findings,
) -> bool {
    match properties {
        None | Some(Value::Object(_)) => true,
        Some(other) => {
            findings.push(
                rule,
                Reason::Invalid,
                field.at("properties"),
                messages::wrong_type("an object", other),
            );
            false
        }
    }
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_with_their_way() {
        let edges = BTreeMap::from([
            ("a", vec!["b", "x"]),
            ("b", vec!["c"]),
            ("c", vec!["a"]),
            ("d", vec!["d"]),
            ("e", vec!["a"]),
        ]);
        assert_eq!(cycle("a", &edges), Some(vec!["a", "b", "c", "a"]));
        assert_eq!(cycle("d", &edges), Some(vec!["d", "d"]));
        assert_eq!(cycle("e", &edges), None);
    }
}
