//! Parameters marked `+immutable` in a template must not change once set.

use serde_json::Value;
use vela_api::names::annotation;

use super::model::App;
use super::{Findings, Subject};
use crate::field::{Field, Reason, Rule};
use crate::messages;
use crate::world::Kind;

/// Compares new and old by name and type; traits by position and type.
pub(crate) fn check(subject: &Subject<'_>, old: &App<'_>, findings: &mut Findings) {
    let app = subject.app;
    if app.annotation(annotation::FORCE_PARAM_MUTATIONS) == Some("true") {
        return;
    }
    for (i, component) in app.components.iter().enumerate() {
        let before = old
            .components
            .iter()
            .find(|other| other.name == component.name && other.type_ == component.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.components").index(i);
        let pair = Pair { old: before.properties, new: component.properties };
        compare(subject, Kind::Component, component.type_, &pair, &field, findings);
        for (j, (one, before)) in component.traits.iter().zip(&before.traits).enumerate() {
            if one.type_ == before.type_ {
                let field = field.at("traits").index(j);
                let pair = Pair { old: before.properties, new: one.properties };
                compare(subject, Kind::Trait, one.type_, &pair, &field, findings);
            }
        }
    }
    for (i, policy) in app.policies.iter().enumerate() {
        let before = old
            .policies
            .iter()
            .find(|other| other.name == policy.name && other.type_ == policy.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.policies").index(i);
        let pair = Pair { old: before.properties, new: policy.properties };
        compare(subject, Kind::Policy, policy.type_, &pair, &field, findings);
    }
    let (Some(workflow), Some(old_workflow)) = (&app.workflow, &old.workflow) else { return };
    for (i, step) in workflow.steps.iter().enumerate() {
        let before = old_workflow
            .steps
            .iter()
            .find(|other| other.name == step.name && other.type_ == step.type_);
        let Some(before) = before else { continue };
        let field = Field::new("spec.workflow.steps").index(i);
        let pair = Pair { old: before.properties, new: step.properties };
        compare(subject, Kind::Step, step.type_, &pair, &field, findings);
    }
}

struct Pair<'a> {
    old: Option<&'a Value>,
    new: Option<&'a Value>,
}

fn compare(
    subject: &Subject<'_>,
    kind: Kind,
    type_: &str,
    pair: &Pair<'_>,
    field: &Field,
    findings: &mut Findings,
) {
    // The base name is enough: a marker that a later revision took away still protects.
    let name = type_.split('@').next().unwrap_or(type_);
    let Some(definition) = subject.world.definition(kind, subject.namespace, name) else { return };
    for path in &definition.immutable {
        let at = |value: Option<&Value>| {
            path.split('.').try_fold(value?, |value, key| value.get(key)).cloned()
        };
        // setting it for the first time is allowed
        let Some(old) = at(pair.old).filter(|old| !old.is_null()) else { continue };
        let json = |value: &Value| {
            vela_gocompat::json::to_string(value).unwrap_or_else(|_| value.to_string())
        };
        let detail = match at(pair.new).filter(|new| !new.is_null()) {
            None => messages::immutable_removed(&json(&old)),
            Some(new) if new == old => continue,
            Some(new) => messages::immutable_changed(&json(&old), &json(&new)),
        };
        let field = field.at("properties").key(path);
        findings.push(Rule::Immutable, Reason::Forbidden, field, detail);
    }
}

/// The fields of `parameter` that carry the marker, as dotted paths.
///
/// Read from the text, line by line: the marker is a comment line of its own directly above a
/// field, or behind it, and only plain fields of nested structs have paths.
pub(crate) fn marked(template: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut stack: Vec<Option<String>> = Vec::new();
    let mut is_pending = false;
    for line in template.lines() {
        let (code, comment) = split_comment(line);
        let has_marker =
            comment.is_some_and(|comment| comment.trim_start().starts_with("+immutable"));
        let code = code.trim();
        if code.is_empty() {
            is_pending |= has_marker;
            continue;
        }
        let label = label(code);
        if (is_pending || has_marker)
            && let Some(label) = &label
            && stack.first().is_some_and(|first| first.as_deref() == Some("parameter"))
        {
            let names: Option<Vec<&str>> = stack.iter().skip(1).map(Option::as_deref).collect();
            if let Some(mut names) = names {
                names.push(label);
                out.push(names.join("."));
            }
        }
        is_pending = false;
        let mut is_first = true;
        for c in outside_strings(code) {
            match c {
                '{' | '[' | '(' => {
                    stack.push(if is_first && c == '{' { label.clone() } else { None });
                    is_first = false;
                }
                '}' | ']' | ')' => {
                    stack.pop();
                }
                _ => {}
            }
        }
    }
    out
}

/// `name: ..`, `name?: ..`, `"name": ..`, `name!: ..`.
fn label(code: &str) -> Option<String> {
    let (name, _) = code.split_once(':')?;
    let name = name.trim().trim_end_matches(['?', '!']).trim_matches('"');
    let is_plain = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '#' | '$'));
    is_plain.then(|| name.to_owned())
}

fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut is_text = false;
    let mut escaped = false;
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        match c {
            '"' if !escaped => is_text = !is_text,
            '/' if previous == '/' && !is_text => {
                return (line.get(..at - 1).unwrap_or_default(), line.get(at + 1..));
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        previous = c;
    }
    (line, None)
}

fn outside_strings(code: &str) -> impl Iterator<Item = char> + '_ {
    let mut is_text = false;
    let mut escaped = false;
    code.chars().filter(move |&c| {
        if c == '"' && !escaped {
            is_text = !is_text;
        }
        escaped = c == '\\' && !escaped;
        !is_text
    })
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn markers_are_found() {
        let template = r#"
output: {
	// +immutable
	spec: {x: parameter.a}
}
parameter: {
	// +usage=The class
	// +immutable
	storageClass: string
	size?: *"1Gi" | string // +immutable
	note: "// +immutable"
	nested: {
		// +immutable
		// +usage=inner
		key!: int
		other: [...{
			// +immutable
			notAPath: string
		}]
	}
	// +immutable
	frozen: {
		a: int
	}
}
"#;
        assert_eq!(marked(template), ["storageClass", "size", "nested.key", "frozen"]);
    }
}
