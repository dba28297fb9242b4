//! Answers that need a value before defaults are taken: evaluated trees, and comparisons of values.

use std::collections::HashMap;

use cue::{Class, Description, Errors, Evaluation, Form, Kind, Marker, Node, Value};

use super::eval::{data, evaluate, evaluate_with, failure, one_error, packages};
use super::json::Json;
use super::record::Record;

/// Nodes of one answer: an answer that grows without end is no answer.
const MOST_NODES: usize = 200_000;

/// The whole instance as a tree.
pub(crate) fn tree(record: &Record<'_>) -> Json {
    match evaluate_with(&packages(record), &record.loaded(), None, &[]) {
        Ok((mut evaluation, root)) => {
            Json::object([("tree", Writer::new(&mut evaluation, true).node(root, String::new()))])
        }
        Err(errors) => failure(&errors),
    }
}

/// Whether the record's expression is the value that `as` denotes.
pub(crate) fn same(record: &Record<'_>) -> Json {
    let expected = record.json.get("expect").and_then(|e| e.str("as")).unwrap_or("_|_");
    let expression = record.json.str("expr").unwrap_or("_");
    let outcome = || -> Result<bool, Errors> {
        let files = [("as.cue", "")];
        let exported = |files: &[(&str, &str)], expression| {
            let (mut evaluation, node) = evaluate(files, Some(expression), &[])?;
            evaluation.export(node)
        };
        // Two bounds that leave one value are that value.
        if let (Ok(got), Ok(want)) =
            (exported(&record.loaded(), expression), exported(&files, expected))
        {
            return Ok(data(&got) == data(&want));
        }
        let got = picture(&record.loaded(), Some(expression), true)?;
        let want = picture(&files, Some(expected), true)?;
        Ok(got == want)
    };
    match outcome() {
        Ok(same) => Json::object([("same", same.into())]),
        Err(errors) => failure(&errors),
    }
}

/// Whether two files are the same value, as `Value.Equals` compares.
pub(crate) fn equal(record: &Record<'_>) -> Json {
    let file = |name| record.file(name).unwrap_or_default();
    let outcome = picture(&[("a.cue", file("a.cue"))], None, true)
        .and_then(|a| Ok(a == picture(&[("b.cue", file("b.cue"))], None, true)?));
    match outcome {
        Ok(equal) => Json::object([("equal", equal.into())]),
        Err(errors) => failure(&errors),
    }
}

/// Whether the first path subsumes the second: unifying them changes nothing.
pub(crate) fn subsumes(record: &Record<'_>) -> Json {
    let paths = record.json.strings("paths");
    let [a, b] = paths[..] else {
        return failure(&one_error(Class::Eval, "two paths expected"));
    };
    // `raw` compares without taking defaults.
    let defaults = !record.json.strings("options").contains(&"raw");
    let files = record.loaded();
    let outcome = picture(&files, Some(b), defaults).and_then(|alone| {
        match picture(&files, Some(&format!("({a}) & ({b})")), defaults) {
            Ok(both) => Ok(alone == both),
            Err(errors) if matches!(errors.class(), Class::Parse | Class::Compile) => Err(errors),
            Err(_) => Ok(false),
        }
    });
    match outcome {
        Ok(subsumes) => Json::object([("subsumes", subsumes.into())]),
        Err(errors) => failure(&errors),
    }
}

/// A value in a form that is equal for equal values: members and alternatives in a fixed order.
fn picture(
    files: &[(&str, &str)],
    expression: Option<&str>,
    defaults: bool,
) -> Result<Json, Errors> {
    let (mut evaluation, node) = evaluate(files, expression, &[])?;
    let description = evaluation.describe(node);
    if let Some(error) = description.error
        && !error.class.is_incomplete()
    {
        return Err(error.into());
    }
    let mut writer = Writer::new(&mut evaluation, false);
    writer.defaults = defaults;
    Ok(ordered(writer.node(node, String::new())))
}

fn ordered(json: Json) -> Json {
    match json {
        Json::Array(items) => {
            let mut items: Vec<Json> = items.into_iter().map(ordered).collect();
            // Operators and their operands keep their places.
            if !matches!(items.first(), Some(Json::String(_))) {
                items.sort_by_key(ToString::to_string);
            }
            Json::Array(items)
        }
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(key, value)| (key, ordered(value))).collect())
        }
        other => other,
    }
}

struct Writer<'a> {
    evaluation: &'a mut Evaluation,
    /// Where each node was written first, for links to nodes above.
    above: Vec<(Node, String)>,
    written: HashMap<Node, String>,
    /// Whether closedness, errors and constraints are shown.
    full: bool,
    /// Whether defaults are taken.
    defaults: bool,
    nodes: usize,
    /// Alternatives around what is written: what is in them has no path that a link could name.
    alternatives: usize,
}

impl<'a> Writer<'a> {
    fn new(evaluation: &'a mut Evaluation, full: bool) -> Self {
        Self {
            evaluation,
            above: Vec::new(),
            written: HashMap::new(),
            full,
            defaults: false,
            nodes: 0,
            alternatives: 0,
        }
    }

    fn node(&mut self, node: Node, path: String) -> Json {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Json::object([("t", "_|_".into())]);
        }
        let description = self.evaluation.describe(node);
        self.above.push((node, path));
        let json = self.description(description);
        self.above.pop();
        json
    }

    fn description(&mut self, description: Description) -> Json {
        let Description { kind, closed, form, error, arcs, .. } = description;
        let mut form = form;
        if self.defaults
            && let Some(Form::Any(alternatives)) = &form
            && let [default] = alternatives.iter().filter(|(d, _)| *d).collect::<Vec<_>>()[..]
        {
            let chosen = default.1.clone();
            return self.description(chosen);
        }
        if self.defaults
            && let Some(Form::Any(alternatives)) = &mut form
        {
            if alternatives.iter().any(|(default, _)| *default) {
                alternatives.retain(|(default, _)| *default);
            }
            for (default, _) in alternatives {
                *default = false;
            }
        }
        let mut members = vec![("t".to_owned(), Json::from(kind_text(kind)))];
        if closed && self.full {
            members.push(("c".to_owned(), Json::Number("1".to_owned())));
        }
        if let Some(form) = form {
            members.push(("v".to_owned(), self.form(form)));
        }
        // A cycle is not gone into.
        let cyclic = error.as_ref().is_some_and(|error| {
            matches!(error.class, Class::Cycle | Class::StructuralCycle)
                && !error.message.is_empty()
        });
        let arcs = if cyclic { Vec::new() } else { arcs };
        if let Some(error) = error {
            members.push(("e".to_owned(), error.class.name().into()));
            if !error.message.is_empty() {
                members.push(("m".to_owned(), error.to_string().into()));
            }
        }
        let path = self.above.last().map(|(_, path)| path.clone()).unwrap_or_default();
        let mut written = Vec::new();
        for arc in arcs {
            if !self.full && (arc.marker == Marker::Optional || arc.label.starts_with(['#', '_'])) {
                continue;
            }
            let label = match arc.package {
                Some(package) if !package.is_empty() => format!("{}({package})", arc.label),
                _ => arc.label.to_string(),
            };
            let below = if path.is_empty() { label.clone() } else { format!("{path}.{label}") };
            let json = match self.above.iter().find(|(node, _)| *node == arc.node) {
                Some((_, above)) => Json::object([("~", above.clone().into())]),
                None => match self.written.get(&arc.node) {
                    Some(other) if self.full => Json::object([("~", other.clone().into())]),
                    _ => {
                        let json = self.node(arc.node, below.clone());
                        if self.alternatives == 0 {
                            self.written.insert(arc.node, below);
                        }
                        json
                    }
                },
            };
            let marker = match arc.marker {
                Marker::Regular => "",
                Marker::Optional => "?",
                Marker::Required => "!",
            };
            written.push(Json::Array(vec![label.into(), marker.into(), json]));
        }
        if !written.is_empty() {
            members.push(("f".to_owned(), Json::Array(written)));
        }
        Json::Object(members)
    }

    fn form(&mut self, form: Form) -> Json {
        let tagged = |tag: &str, rest: Json| Json::Array(vec![tag.into(), rest]);
        match form {
            Form::Data(value) => match &value {
                Value::Null => Json::Array(vec!["null".into()]),
                Value::Bool(b) => tagged("t", (*b).into()),
                Value::Number(n) => tagged("n", n.to_string().into()),
                Value::String(s) => tagged("s", s.to_string().into()),
                Value::Bytes(_) => tagged("b", data(&value)),
                Value::List(_) | Value::Struct(_) => tagged("expr", data(&value)),
            },
            Form::Type(kind) => tagged("type", kind_text(kind).into()),
            Form::Bound(op, operand) => {
                let operand = self.form(*operand);
                tagged(op, operand)
            }
            Form::Function(name) => self.form(Form::Call(name, Vec::new())),
            Form::Call(name, arguments) => {
                let arguments = arguments.into_iter().map(|a| self.argument(a)).collect();
                Json::Array(vec!["call".into(), name.to_string().into(), Json::Array(arguments)])
            }
            Form::All(parts) => {
                let parts = parts.into_iter().map(|part| self.form(part)).collect();
                tagged("&", Json::Array(parts))
            }
            Form::Any(alternatives) => {
                self.alternatives += 1;
                let alternatives = alternatives.into_iter().map(|(default, one)| {
                    let mark = Json::Number(u8::from(default).to_string());
                    Json::Array(vec![mark, self.description(one)])
                });
                let alternatives = alternatives.collect();
                self.alternatives -= 1;
                tagged("|", Json::Array(alternatives))
            }
            Form::Node(node) => {
                let node = self.node(node, String::new());
                tagged("node", node)
            }
        }
    }

    /// An argument of a validator. Schemas in lists are not looked into: they are evaluated with a
    /// value only, and may contain the validator itself.
    fn argument(&mut self, argument: Form) -> Json {
        let Form::Node(node) = argument else { return self.form(argument) };
        let list = self.evaluation.describe(node);
        if let Some(form @ Form::Any(_)) = list.form {
            return self.form(form);
        }
        // It is a list, too, if one of the schemas has failed by itself.
        let failed_below = list.kind == Kind::BOTTOM
            && list.error.as_ref().is_none_or(|error| error.message.is_empty())
            && list.arcs.first().is_some_and(|arc| arc.label == "0");
        if list.kind != Kind::LIST && !failed_below {
            return Json::Array(vec!["expr".into(), "".into()]);
        }
        let elements = list.arcs.into_iter().map(|arc| {
            let element = self.evaluation.describe(arc.node);
            let json = match element.form {
                Some(Form::Data(_)) => self.description(element),
                _ => Json::object([("t", "_|_".into()), ("u", Json::Number("1".to_owned()))]),
            };
            Json::Array(vec![arc.label.to_string().into(), "".into(), json])
        });
        let elements = Json::Array(elements.collect());
        let closed = Json::Number(u8::from(list.closed).to_string());
        let list = Json::object([("t", "list".into()), ("c", closed), ("f", elements)]);
        Json::Array(vec!["node".into(), list])
    }
}

fn kind_text(kind: Kind) -> String {
    if kind.is_bottom() {
        return "_|_".to_owned();
    }
    if kind.contains(Kind::SCALAR | Kind::LIST | Kind::STRUCT) {
        return "_".to_owned();
    }
    let names: Vec<&str> = kind.without(Kind::FUNC).names().collect();
    if names.is_empty() { "func".to_owned() } else { names.join("|") }
}
