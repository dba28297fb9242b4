//! Values as CUE text, as `cue eval` and `cue export --out cue` print them.
//!
//! The text is put together with the right line breaks and then made canonical by the printer of
//! `cue-syntax`.

use std::collections::BTreeSet;

use cue::{Class, Description, Evaluation, Form, Kind, Marker, Node, Value};
use cue_syntax::ast::Expr;
use cue_syntax::{
    Indent, ParseLimits, format_short, format_with, parse, quote, quote_bytes, quote_lines,
};

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Defaults are taken.
    pub(crate) defaults: bool,
    pub(crate) definitions: bool,
    pub(crate) hidden: bool,
    pub(crate) optional: bool,
    /// The comments above fields.
    pub(crate) docs: bool,
    /// A struct at the top has braces.
    pub(crate) braces: bool,
    /// Other structs of one field have none.
    pub(crate) short: bool,
    pub(crate) indent: Indent,
}

pub(crate) fn print(evaluation: &mut Evaluation, node: Node, options: Options) -> String {
    let imports = BTreeSet::new();
    let mut printer = Printer { evaluation, options, above: Vec::new(), imports };
    let mut text = printer.node(node);
    let imports = printer.imports;
    if !options.braces
        && let Some(inner) = text.strip_prefix("{\n").and_then(|text| text.strip_suffix("\n}"))
    {
        text = inner.to_owned();
    } else if !options.braces && text == "{}" {
        text = String::new();
    }
    if !options.braces && !imports.is_empty() {
        let clauses: Vec<String> =
            imports.iter().map(|path| format!("import {path:?}\n")).collect();
        text = format!("{}\n{text}", clauses.concat());
    }
    let (file, errors) = parse("value", &text, &ParseLimits::default());
    match errors.is_empty() {
        true if options.short => format_short(&file, options.indent),
        true => format_with(&file, options.indent),
        false => text,
    }
}

struct Printer<'a> {
    evaluation: &'a mut Evaluation,
    options: Options,
    above: Vec<Node>,
    /// The packages that the text mentions.
    imports: BTreeSet<String>,
}

impl Printer<'_> {
    fn node(&mut self, node: Node) -> String {
        if self.above.contains(&node) || self.above.len() > 200 {
            return "_".to_owned();
        }
        self.above.push(node);
        let description = self.evaluation.describe(node);
        let text = self.description(description);
        self.above.pop();
        text
    }

    fn description(&mut self, description: Description) -> String {
        let Description { kind, form, error, more, sources, arcs, .. } = description;
        let own = error.as_ref().filter(|error| !error.message.is_empty());
        if let Some(error) = own {
            if !error.class.is_incomplete() {
                let more = match more {
                    0 => String::new(),
                    more => format!(" (and {more} more errors)"),
                };
                return format!("_|_ // {error}{more}\n");
            }
            if !sources.is_empty() && arcs.is_empty() {
                let packages = sources.iter().flat_map(|source| super::imports::mentioned(source));
                self.imports.extend(packages.map(str::to_owned));
                return sources.join(" & ");
            }
        }
        if own.is_some() && !self.options.defaults {
            // Validators that do not know yet stand before the list that they wait for.
            let validators: Vec<&str> = sources
                .iter()
                .map(|source| source.as_str())
                .filter(|source| source.ends_with(')') && source.contains('.'))
                .collect();
            if !validators.is_empty() && arcs.iter().all(|arc| is_index(&arc.label)) {
                for source in &validators {
                    let packages = super::imports::mentioned(source);
                    self.imports.extend(packages.into_iter().map(str::to_owned));
                }
                let validators = validators.join(" & ");
                let written = sources.iter().find(|source| source.starts_with('['));
                let written = written.map(|source| references(source)).unwrap_or_default();
                let elements = arcs.iter().enumerate().map(|(at, arc)| {
                    let reference = written.get(at).cloned().flatten();
                    reference.unwrap_or_else(|| self.element(arc.node))
                });
                let elements: Vec<String> = elements.collect();
                return format!("{validators} & [{}]", elements.join(", "));
            }
        }
        if let Some(Form::Any(alternatives)) = form {
            return self.alternatives(alternatives);
        }
        let bare = arcs.is_empty();
        let value = form.map(|form| self.form(form));
        let is_list = kind == Kind::LIST
            || arcs.iter().any(|arc| arc.label.starts_with(|c: char| c.is_ascii_digit()));
        let elements: Vec<Node> = if is_list {
            let elements = arcs.iter().filter(|arc| is_index(&arc.label));
            elements.map(|arc| arc.node).collect()
        } else {
            Vec::new()
        };
        let mut fields = Vec::new();
        for arc in arcs {
            if is_list && is_index(&arc.label) {
                continue;
            }
            let definition = arc.label.starts_with('#') || arc.label.starts_with("_#");
            let hidden = arc.label.starts_with('_');
            if definition && !self.options.definitions
                || hidden && !self.options.hidden
                || arc.marker == Marker::Optional && !self.options.optional
            {
                continue;
            }
            let marker = match arc.marker {
                Marker::Regular => ":",
                Marker::Optional => "?:",
                Marker::Required => "!:",
            };
            let mut text = String::new();
            if self.options.docs {
                let docs = self.evaluation.docs(arc.node);
                if !docs.is_empty() {
                    text.push_str(if fields.is_empty() { "" } else { "\n" });
                    for line in docs {
                        text.push_str(&format!("//{line}\n"));
                    }
                }
            }
            let endless =
                (arc.marker == Marker::Optional).then(|| self.endless(arc.node)).flatten();
            let value = endless.unwrap_or_else(|| self.node(arc.node));
            text.push_str(&format!("{}{marker} {value}", arc.label));
            fields.push(text);
        }
        let list = is_list.then(|| self.list(&elements));
        if fields.is_empty() {
            match (list, value) {
                (Some(list), Some(value)) if elements.is_empty() => {
                    let _ = list;
                    return value;
                }
                // A validator that is content with the list is not part of its value any more.
                (Some(list), Some(_)) if own.is_none() => return list,
                (Some(list), Some(value)) => return format!("{value} & {list}"),
                (Some(list), None) => return list,
                // What has fields, shown or not, is no plain scalar.
                (None, Some(value)) if !bare && !self.options.defaults => {
                    return format!("{{\n{value}\n}}");
                }
                (None, Some(value)) => return value,
                (None, None) => return "{}".to_owned(),
            }
        }
        // A scalar or list with fields is printed as an embedding.
        let (before, after) = if is_list { (None, list) } else { (value, None) };
        let lines = before.into_iter().chain(fields).chain(after);
        let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
        format!("{{\n{}\n}}", lines.join("\n"))
    }

    /// An optional field that goes on without end is shown as what it refers to, and by name within
    /// that.
    fn endless(&mut self, node: Node) -> Option<String> {
        let description = self.evaluation.describe(node);
        let error = description.error.filter(|error| !error.message.is_empty())?;
        let [source] = &description.sources[..] else { return None };
        if error.class != Class::StructuralCycle {
            return None;
        }
        let root = self.evaluation.root();
        let target = self.evaluation.lookup(root, source).filter(|it| !self.above.contains(it));
        Some(target.map_or_else(|| source.to_string(), |target| self.node(target)))
    }

    fn list(&mut self, elements: &[Node]) -> String {
        let mut out = String::from("[");
        for (index, &element) in elements.iter().enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            let text = self.element(element);
            match text.strip_suffix('\n').and_then(|text| text.split_once(" // ")) {
                // The comma stands before the comment.
                Some((value, comment)) => {
                    out.push_str(&format!("{value}, // {comment}\n"));
                    if let Some(rest) = elements.get(index + 1..).filter(|rest| !rest.is_empty()) {
                        let rest = self.list(rest);
                        out.push_str(&rest[1..]);
                        return out;
                    }
                }
                None => out.push_str(&text),
            }
        }
        out.push(']');
        out
    }

    /// Elements that are numbers are shown as they are written.
    fn element(&mut self, node: Node) -> String {
        let description = self.evaluation.describe(node);
        match (&description.form, &description.sources[..], self.options.defaults) {
            (Some(Form::Data(Value::Number(_))), [text], true) => text.to_string(),
            _ => self.node(node),
        }
    }

    fn alternatives(&mut self, alternatives: Vec<(bool, Description)>) -> String {
        let defaults = alternatives.iter().filter(|(default, _)| *default).count();
        let mut shown = Vec::new();
        for (default, one) in alternatives {
            if self.options.defaults && defaults > 0 && !default {
                continue;
            }
            let text = self.description(one);
            let mark = if default && !self.options.defaults { "*" } else { "" };
            shown.push((default, format!("{mark}{text}")));
        }
        // The default comes first.
        shown.sort_by_key(|(default, _)| !default);
        let texts: Vec<String> = shown.into_iter().map(|(_, text)| text).collect();
        texts.join(" | ")
    }

    fn form(&mut self, form: Form) -> String {
        match form {
            Form::Data(value) => scalar(&value),
            Form::Type(kind) => kind_text(kind),
            Form::Bound(op, operand) => format!("{op}{}", self.form(*operand)),
            Form::Call(name, arguments) => {
                if let Some((path, _)) = name.rsplit_once('.') {
                    self.imports.insert(path.to_owned());
                }
                let name = name.rsplit_once('/').map_or(name.as_str(), |(_, name)| name);
                let arguments: Vec<String> =
                    arguments.into_iter().map(|argument| self.form(argument)).collect();
                format!("{name}({})", arguments.join(", "))
            }
            Form::Function(name) => {
                if let Some((path, _)) = name.rsplit_once('.') {
                    self.imports.insert(path.to_owned());
                }
                name.rsplit_once('/').map_or(name.as_str(), |(_, name)| name).to_owned()
            }
            Form::All(parts) => {
                let parts: Vec<String> = parts.into_iter().map(|part| self.form(part)).collect();
                ranges(parts).join(" & ")
            }
            Form::Any(alternatives) => self.alternatives(alternatives),
            Form::Node(node) => self.node(node),
        }
    }
}

/// The elements of a list as they are written, where they are nothing but references.
fn references(list: &str) -> Vec<Option<String>> {
    let text = format!("_: {list}");
    let (file, _) = parse("list", &text, &ParseLimits::default());
    let elements = file.ast.all_exprs().find_map(|expr| match expr {
        Expr::List(elements) => Some(elements),
        _ => None,
    });
    let elements = elements.map(|list| file.ast.exprs(list).collect::<Vec<_>>());
    let shown = elements.unwrap_or_default().into_iter().map(|id| match file.ast.expr(id) {
        Expr::Ident(_) | Expr::Selector(..) => Some(file.text(file.ast.span(id)).to_owned()),
        _ => None,
    });
    shown.collect()
}

fn is_index(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit())
}

fn kind_text(kind: Kind) -> String {
    if kind.contains(Kind::SCALAR | Kind::LIST | Kind::STRUCT) {
        return "_".to_owned();
    }
    let names = kind.without(Kind::FUNC).names().map(|name| match name {
        "list" => "[...]",
        "struct" => "{...}",
        name => name,
    });
    names.collect::<Vec<_>>().join(" | ")
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('\n') => quote_lines(text),
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => quote_bytes(bytes),
        other => other.to_json_text(),
    }
}

/// Puts the names of the predeclared ranges in the place of their bounds.
fn ranges(parts: Vec<String>) -> Vec<String> {
    const NAMES: [(&str, &[&str]); 8] = [
        ("uint8", &["int", ">=0", "<=255"]),
        ("uint16", &["int", ">=0", "<=65535"]),
        ("uint32", &["int", ">=0", "<=4294967295"]),
        ("uint64", &["int", ">=0", "<=18446744073709551615"]),
        ("int8", &["int", ">=-128", "<=127"]),
        ("int16", &["int", ">=-32768", "<=32767"]),
        ("int32", &["int", ">=-2147483648", "<=2147483647"]),
        ("int64", &["int", ">=-9223372036854775808", "<=9223372036854775807"]),
    ];
    for (name, bounds) in NAMES {
        if bounds.iter().all(|bound| parts.iter().any(|part| part == bound)) {
            let rest = parts.into_iter().filter(|part| !bounds.contains(&part.as_str()));
            return std::iter::once(name.to_owned()).chain(rest).collect();
        }
    }
    // Integers from zero or above on have a name of their own where there is an upper bound, too.
    let natural = parts.iter().any(|part| {
        part.strip_prefix('>').is_some_and(|part| !part.trim_start_matches('=').starts_with('-'))
    });
    let upper = parts.iter().any(|part| part.starts_with('<'));
    let from_zero = parts.iter().any(|part| part == ">=0");
    if parts.iter().any(|part| part == "int") && natural && (upper || from_zero) {
        let rest = parts.into_iter().filter(|part| part != "int" && part != ">=0");
        return std::iter::once("uint".to_owned()).chain(rest).collect();
    }
    parts
}
