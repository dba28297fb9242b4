//! The workflow: names, timeouts, types, what steps wait for, and what `deploy` refers to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vela_workflow::generate::{APPLY_COMPONENT, BUILTIN_APPLY_COMPONENT};

use super::model::{self, Step};
use super::subject::{Findings, Subject};
use super::{components, lookup, parameters, policies};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::snapshot::Definition;
use crate::world::ObjectKind;

/// Fields of a `deploy` step's properties.
const DEPLOY: [&str; 4] = ["auto", "policies", "parallelism", "ignoreTerraformComponent"];

fn steps_field() -> Field {
    Field::new("spec.workflow.steps")
}

/// Names and timeouts. Upstream checks a sub-step's timeout by checking its parent's again.
pub(crate) fn shape(subject: &Subject<'_>, findings: &mut Findings) {
    if let Some(workflow) = &subject.app.workflow {
        shape_of(&workflow.steps, &steps_field(), findings);
    }
}

/// Names and timeouts of steps.
pub(crate) fn shape_of(steps: &[Step<'_>], field: &Field, findings: &mut Findings) {
    let mut names = BTreeSet::new();
    for (i, step) in steps.iter().enumerate() {
        let field = field.index(i);
        name_and_timeout(step, &field, &mut names, findings);
        for (j, sub) in step.sub_steps.iter().enumerate() {
            name_and_timeout(sub, &field.at("subSteps").index(j), &mut names, findings);
        }
    }
}

fn name_and_timeout<'a>(
    step: &Step<'a>,
    field: &Field,
    names: &mut BTreeSet<&'a str>,
    findings: &mut Findings,
) {
    if !names.insert(step.name) {
        let detail = if step.name.is_empty() {
            messages::EMPTY_STEP_NAME.to_owned()
        } else {
            format!("{} \"{}\"", messages::DUPLICATED_STEP, step.name)
        };
        findings.push(Rule::Workflow, Reason::Duplicate, field.at("name"), detail);
    }
    if !step.timeout.is_empty()
        && step.timeout.parse::<vela_gocompat::duration::Duration>().is_err()
    {
        findings.push(
            Rule::Workflow,
            Reason::Invalid,
            field.at("timeout"),
            messages::invalid_timeout(step.timeout),
        );
    }
}

/// Types, referenced workflows, policies and outputs.
pub(crate) fn references(subject: &Subject<'_>, findings: &mut Findings) {
    let Some(workflow) = &subject.app.workflow else { return };
    if workflow.reference.is_empty() {
        steps(subject, &workflow.steps, &steps_field(), findings);
        return;
    }
    let field = Field::new("spec.workflow.ref");
    if !workflow.steps.is_empty() {
        findings.push(Rule::Workflow, Reason::Forbidden, field, messages::REF_AND_STEPS);
        return;
    }
    match subject.world.object(ObjectKind::Workflow, subject.namespace, workflow.reference) {
        None => findings.refuse_if(
            !subject.is_published(),
            Rule::Workflow,
            Reason::NotFound,
            field,
            messages::unknown_workflow(workflow.reference, subject.namespace),
        ),
        // Its steps are reported where the user can see them: at the reference.
        Some(stored) => steps(subject, &model::read_steps(&stored), &field, findings),
    }
}

fn steps(subject: &Subject<'_>, steps: &[Step<'_>], field: &Field, findings: &mut Findings) {
    for (step, field) in with_fields(steps, field) {
        one(subject, step, &field, findings);
    }
    waits(steps, field, findings);
}

/// The steps of a WorkflowRun: those that need an Application are refused.
pub(crate) fn steps_of_run(
    subject: &Subject<'_>,
    steps: &[Step<'_>],
    field: &Field,
    findings: &mut Findings,
) {
    for (step, field) in with_fields(steps, field) {
        let is_built_in = applies_component(step.type_);
        let found = subject.world.definition(
            vela_api::DefinitionKind::WorkflowStep,
            subject.namespace,
            step.type_,
        );
        if is_built_in || found.is_some_and(|definition| definition.needs_application) {
            let detail = messages::step_needs_application(step.type_);
            findings.push(Rule::Workflow, Reason::Forbidden, field.at("type"), detail);
        } else {
            one(subject, step, &field, findings);
        }
    }
    waits(steps, field, findings);
}

/// Whether steps of a type apply a component of the Application, without a definition.
fn applies_component(kind: &str) -> bool {
    matches!(kind, APPLY_COMPONENT | BUILTIN_APPLY_COMPONENT)
}

/// Steps and sub-steps, each with its path.
pub(crate) fn with_fields<'s, 'a>(
    steps: &'s [Step<'a>],
    field: &'s Field,
) -> impl Iterator<Item = (&'s Step<'a>, Field)> {
    steps.iter().enumerate().flat_map(move |(i, step)| {
        let field = field.index(i);
        let within = field.at("subSteps");
        let subs = step.sub_steps.iter().enumerate();
        std::iter::once((step, field)).chain(subs.map(move |(j, sub)| (sub, within.index(j))))
    })
}

fn one(subject: &Subject<'_>, step: &Step<'_>, field: &Field, findings: &mut Findings) {
    condition(step, field, findings);
    let definition = lookup::step(subject, step, field, findings);
    for missing in definition.iter().flat_map(|definition| &definition.missing) {
        let at = field.at("type").to_string();
        findings.warnings.push(messages::step_cannot_run(&at, missing));
    }
    if step.type_ == "deploy" {
        deploy(subject, step, field, findings);
    } else if applies_component(step.type_) {
        applied(subject, step, field, findings);
    } else if let Some(definition) = definition {
        properties(subject, step, &definition, field, findings);
    }
}

/// The component that a step applies must be one of this Application.
fn applied(subject: &Subject<'_>, step: &Step<'_>, field: &Field, findings: &mut Findings) {
    let Some(component) = step.properties.and_then(|properties| properties.get("component")) else {
        return;
    };
    let field = field.at("properties").at("component");
    let names = || subject.app.components.iter().map(|component| component.name);
    match component.as_str() {
        None => {
            // Only an input could still make a name of it.
            let is_hopeless = step.inputs.is_empty()
                && subject.old.is_none_or(|old| old.workflow != subject.app.workflow);
            let detail = messages::wrong_type("the name of a component", component);
            findings.refuse_if(is_hopeless, Rule::Workflow, Reason::Invalid, field, detail);
        }
        Some(name) if !names().any(|known| known == name) => {
            let nearest = vela_serve::nearest(name, names());
            let field = field.to_string();
            findings.warnings.push(messages::unknown_component(&field, name, nearest));
        }
        Some(_) => {}
    }
}

/// An `if` that can never be evaluated lets the step fail when its turn comes.
fn condition(step: &Step<'_>, field: &Field, findings: &mut Findings) {
    if matches!(step.condition, "" | "always") {
        return;
    }
    if let Err(error) = vela_workflow::check_if(step.condition) {
        let field = field.at("if").to_string();
        findings.warnings.push(messages::bad_condition(&field, &error.to_string()));
    }
}

/// The properties of a step compared with what its definition declares: a warning, since the reference admits it
/// and inputs may still change it.
fn properties(
    subject: &Subject<'_>,
    step: &Step<'_>,
    definition: &Definition,
    field: &Field,
    findings: &mut Findings,
) {
    if !matches!(step.properties, None | Some(Value::Object(_))) {
        let at = field.at("properties").to_string();
        let detail = messages::wrong_type("an object", step.properties.unwrap_or(&Value::Null));
        findings.warnings.push(messages::warning(&at, &detail));
        return;
    }
    if subject.world.is_incomplete() || !definition.is_cue {
        return;
    }
    let supplied: Vec<String> = step
        .inputs
        .iter()
        .map(|input| input.parameter_key)
        .map(|key| key.strip_prefix("properties.").unwrap_or(key).to_owned())
        .collect();
    // an input without a key is merged into all of them
    if supplied.iter().any(String::is_empty) {
        return;
    }
    let of = components::Declared { definition, name: step.name, properties: step.properties };
    components::declared(subject, &of, &supplied, Rule::Workflow, field, findings);
    let Some(schema) = definition.schema(subject.world.renderer) else { return };
    for (at, detail) in parameters::misfits(schema, step.properties, &field.at("properties")) {
        findings.warnings.push(messages::warning(&at.to_string(), &detail));
    }
}

/// A `deploy` step is read strictly, and its policies must exist.
fn deploy(subject: &Subject<'_>, step: &Step<'_>, field: &Field, findings: &mut Findings) {
    let field = field.at("properties");
    let Some(properties) = step.properties else { return };
    let Value::Object(map) = properties else {
        let detail = messages::wrong_type("an object", properties);
        findings.push(Rule::Workflow, Reason::Invalid, field, detail);
        return;
    };
    for (key, value) in map {
        let (fits, want) = match key.as_str() {
            "auto" | "ignoreTerraformComponent" => (value.is_boolean(), "a boolean"),
            "parallelism" => (value.is_i64() || value.is_u64(), "a whole number"),
            "policies" => (value.is_array(), "a list of policy names"),
            other => {
                let nearest = vela_serve::nearest(other, DEPLOY);
                let detail = messages::unknown_property(other, nearest);
                findings.push(Rule::Workflow, Reason::Invalid, field.at(other), detail);
                continue;
            }
        };
        if !fits && !value.is_null() {
            let detail = messages::wrong_type(want, value);
            findings.push(Rule::Workflow, Reason::Invalid, field.at(key), detail);
        }
    }
    for (k, policy) in
        map.get("policies").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let field = field.at("policies").index(k);
        match policy {
            Value::String(name) => policies::require(subject, name, &field, findings),
            Value::Null => policies::require(subject, "", &field, findings),
            other => {
                let detail = messages::wrong_type("a policy name", other);
                findings.push(Rule::Workflow, Reason::Invalid, field, detail);
            }
        }
    }
}

/// `dependsOn` and `inputs` that name nothing are reported; steps that wait for each other are refused.
fn waits(steps: &[Step<'_>], field: &Field, findings: &mut Findings) {
    let all = || steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps));
    let names = || all().map(|step| step.name);
    let outputs = || all().flat_map(|step| step.outputs.iter().copied());
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let check = |step: &Step<'_>, field: &Field, findings: &mut Findings| {
        for (j, name) in step.depends_on.iter().enumerate() {
            if !names().any(|known| known == *name) {
                let field = field.at("dependsOn").index(j).to_string();
                let nearest = vela_serve::nearest(name, names());
                findings.warnings.push(messages::unknown_dependency(&field, name, nearest));
            }
        }
        for (j, input) in step.inputs.iter().enumerate() {
            let output = input.from.split('.').next().unwrap_or(input.from);
            let is_known = input.from.starts_with("context.")
                || outputs().any(|known| known == input.from || known == output);
            if !is_known {
                let field = field.at("inputs").index(j).at("from").to_string();
                let nearest = vela_serve::nearest(input.from, outputs());
                findings.warnings.push(messages::unknown_input(&field, input.from, nearest));
            }
        }
    };
    for (i, step) in steps.iter().enumerate() {
        let field = field.index(i);
        check(step, &field, findings);
        for (j, sub) in step.sub_steps.iter().enumerate() {
            check(sub, &field.at("subSteps").index(j), findings);
        }
    }
    for step in all() {
        edges.entry(step.name).or_default().extend(step.depends_on.iter().copied());
    }
    for (i, step) in steps.iter().enumerate() {
        if let Some(cycle) = components::cycle(step.name, &edges)
            && cycle.iter().min() == Some(&step.name)
        {
            findings.push(
                Rule::Workflow,
                Reason::Invalid,
                field.index(i).at("dependsOn"),
                messages::cyclic(&cycle),
            );
        }
    }
}
