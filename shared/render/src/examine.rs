//! Admission of definitions: checks of a template without parameters and context.

use crate::Renderer;
use crate::cache::Flavour;
use crate::legacy;
use crate::messages;
use cue::{Evaluation, Kind, Node, Value, Which};
use std::sync::Arc;

/// What is known of a template by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vetted {
    /// Everything that is wrong whatever the parameters are.
    pub errors: Vec<String>,
    /// Parameters that have neither a default nor are optional.
    pub required_parameters: Vec<String>,
    /// A top-level `enabled` that can never be a boolean.
    pub is_enabled_mistyped: bool,
    /// `apiVersion` and `kind` of outputs that are written out.
    pub outputs: Vec<(String, String)>,
    /// The text uses old syntax, which is rewritten when it is rendered.
    pub is_legacy: bool,
}

impl Renderer {
    /// Compiles a template and evaluates it as far as it goes without parameters. `context` is
    /// taken as known, since every template gets one.
    #[must_use]
    pub fn examine(&self, template: &str) -> Vetted {
        let mut vetted =
            Vetted { is_legacy: *legacy::upgrade(template) != *template, ..Vetted::default() };
        let text = "spec.schematic.cue.template";
        // Rewriting prints the text again, with other lines.
        let count = if vetted.is_legacy { 0 } else { template.lines().count() };
        let of = match self.programs.text(&Arc::from(template), Flavour::TraitBare) {
            Ok(of) => of,
            Err(errors) => {
                vetted.errors = lines(&errors, text, count);
                return vetted;
            }
        };
        let mut evaluation = of.program.evaluate(&[], &self.limits);
        let root = evaluation.root();
        if let Err(errors) = evaluation.validate(root, false) {
            vetted.errors = lines(&errors, text, count);
            return vetted;
        }
        vetted.required_parameters = required(&mut evaluation, root);
        vetted.is_enabled_mistyped = evaluation
            .field(root, "enabled")
            .is_some_and(|node| (evaluation.kind(node) & Kind::BOOL) == Kind::BOTTOM);
        vetted.outputs = outputs(&mut evaluation, root);
        vetted
    }

    /// Errors of a status text (health policy, custom status, details) that parameters and
    /// context cannot repair.
    #[must_use]
    pub fn examine_status(&self, text: &str) -> Vec<String> {
        match self.programs.text(&Arc::from(text), Flavour::Status) {
            Ok(_) => Vec::new(),
            Err(errors) => lines(&errors, "text", text.lines().count()),
        }
    }
}

/// Every error with its place in the text, which has this many lines.
pub(crate) fn lines(errors: &cue::Errors, text: &str, count: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for error in errors.list() {
        let line = format!("{error}{}", messages::position_suffix(error, text, count));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn required(evaluation: &mut Evaluation, root: Node) -> Vec<String> {
    let Some(parameter) = evaluation.field(root, "parameter") else { return Vec::new() };
    let fields = evaluation.fields(parameter, Which::default());
    fields
        .into_iter()
        .filter(|field| evaluation.export(field.node).is_err())
        .map(|field| field.label.to_string())
        .collect()
}

fn outputs(evaluation: &mut Evaluation, root: Node) -> Vec<(String, String)> {
    let mut nodes: Vec<Node> = evaluation.field(root, "output").into_iter().collect();
    if let Some(all) = evaluation.field(root, "outputs") {
        nodes.extend(evaluation.fields(all, Which::default()).into_iter().map(|f| f.node));
    }
    let mut out = Vec::new();
    for node in nodes {
        let mut text = |label: &str| {
            let node = evaluation.field(node, label)?;
            match evaluation.export(node) {
                Ok(Value::String(text)) => Some(text.to_string()),
                _ => None,
            }
        };
        if let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) {
            out.push((api_version, kind));
        }
    }
    out
}

#[cfg(test)]
mod own_definitions {
    use crate::cache::Flavour;
    use crate::{Renderer, file};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn pass_their_own_examination() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/vela-core/definitions");
        let renderer = Renderer::default();
        let mut bad = Vec::new();
        let mut seen = 0;
        for kind in ["component", "trait", "policy"] {
            for entry in std::fs::read_dir(root.join(kind)).unwrap() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                let object = file::load("definition", &text).unwrap();
                let template = object.pointer("/spec/schematic/cue/template").unwrap();
                let vetted = renderer.examine(template.as_str().unwrap());
                seen += 1;
                if !vetted.errors.is_empty() {
                    bad.push((path, vetted.errors));
                }
            }
        }
        assert!(seen > 50, "{seen}");
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// Steps import packages of the workflow engine; here these are open, which leaves the
    /// templates' own mistakes.
    #[test]
    fn steps_have_no_errors_of_their_own() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../charts/vela-core/definitions/workflow-step");
        let renderer = Renderer::default();
        let mut bad = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let object = file::load("definition", &text).unwrap();
            let template = object.pointer("/spec/schematic/cue/template").unwrap();
            let template = Arc::from(template.as_str().unwrap());
            match renderer.programs.text(&template, Flavour::Schema) {
                Err(errors) => bad.push((path, errors)),
                Ok(of) => {
                    let mut evaluation = of.program.evaluate(&[], &renderer.limits);
                    let root = evaluation.root();
                    if let Err(errors) = evaluation.validate(root, false) {
                        bad.push((path, errors));
                    }
                }
            }
        }
        assert!(bad.is_empty(), "{bad:#?}");
    }
}
