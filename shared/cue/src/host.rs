//! Host packages and host calls: CUE text with `#do` and `#provider`, answered by the host.

use crate::api::{Evaluation, Which};
use crate::ir::Ir;
use crate::limits::Limits;
use crate::tree::{Node, PathLabel};
use crate::value::Value;
use ecow::EcoString;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A call the host is asked to answer: a struct whose `#do` is a concrete string.
#[derive(Debug, Clone)]
pub struct Call {
    /// The text of `#provider`, empty if there is none.
    pub provider: EcoString,
    /// The text of `#do`.
    pub name: EcoString,
    /// Labels from the root to the struct.
    pub path: Vec<EcoString>,
    /// The struct itself: `$params` and so on are looked up in it.
    pub node: Node,
}

/// The host's answer to a [`Call`].
#[derive(Debug, Clone)]
pub enum Answer {
    /// Unify this with the struct (usually `{"$returns": ...}`) and go on.
    Unify(Value),
    /// Go on without a change.
    Nothing,
    /// Evaluate no further calls in this pass (waiting, failed, suspended; the host knows why).
    Stop,
}

/// Answers calls.
pub trait Host {
    /// Called for each call in walk order: children before parents, lists by index, each path at
    /// most once per evaluation.
    fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer;
}

/// The resolve loop: evaluate, find the first call not yet made, ask the host, start over with its
/// answer as one more declaration at the call's path.
pub(crate) fn run(
    ir: &Arc<Ir>,
    inputs: &[(&str, &Value)],
    limits: &Limits,
    host: &mut dyn Host,
) -> Evaluation {
    // Most templates make no calls, and looking for them means evaluating and visiting everything:
    // half of a render's time. Only text makes definitions, so one without the name has no call.
    if ir.names.find("#do").is_none() {
        return Evaluation::start(Arc::clone(ir), inputs, &[], limits);
    }
    let mut answers = Vec::new();
    let mut made = FxHashSet::default();
    loop {
        let mut evaluation = Evaluation::start(Arc::clone(ir), inputs, &answers, limits);
        let root = evaluation.root();
        let mut walk = Walk { made: &made, path: Vec::new() };
        let Some((labels, call)) = walk.find(&mut evaluation, root) else { return evaluation };
        let answer = host.call(&mut evaluation, &call);
        made.insert(labels.clone());
        match answer {
            Answer::Unify(value) => answers.push((labels, value)),
            Answer::Nothing => {}
            Answer::Stop => return evaluation,
        }
    }
}

/// Walks an evaluation for the next call: children before parents, definitions left out.
struct Walk<'a> {
    made: &'a FxHashSet<Vec<PathLabel>>,
    path: Vec<PathLabel>,
}

/// Structures deeper than this hold no calls.
const DEEPEST: usize = 128;

impl Walk<'_> {
    fn find(&mut self, evaluation: &mut Evaluation, node: Node) -> Option<(Vec<PathLabel>, Call)> {
        if self.path.len() > DEEPEST {
            return None;
        }
        for (i, element) in evaluation.elements(node).into_iter().enumerate() {
            self.path.push(PathLabel::Index(i));
            let found = self.find(evaluation, element);
            self.path.pop();
            if found.is_some() {
                return found;
            }
        }
        let which = Which { constraints: false, definitions: false, hidden: true };
        for field in evaluation.fields(node, which) {
            self.path.push(PathLabel::Name(field.label, field.class));
            let found = self.find(evaluation, field.node);
            self.path.pop();
            if found.is_some() {
                return found;
            }
        }
        if self.made.contains(&self.path) {
            return None;
        }
        let name = text_at(evaluation, node, "#do")?;
        let provider = text_at(evaluation, node, "#provider").unwrap_or_default();
        let path = self
            .path
            .iter()
            .map(|label| match label {
                PathLabel::Index(i) => ecow::eco_format!("{i}"),
                PathLabel::Name(name, _) => name.clone(),
            })
            .collect();
        Some((self.path.clone(), Call { provider, name, path, node }))
    }
}

fn text_at(evaluation: &mut Evaluation, node: Node, label: &str) -> Option<EcoString> {
    let node = evaluation.lookup(node, label)?;
    match evaluation.export(node) {
        Ok(Value::String(s)) => Some(s),
        _ => None,
    }
}
