//! Answers of the categories that run a command line: `cue export`, `eval`, `vet` and `def` on
//! files of the record.
//!
//! Packages by path, modules, qualifiers, standard input and most flags are out of scope, as the
//! records' `needs` say; they answer `unsupported`.

use cue::{Class, Errors, Evaluation, Node, Tree, Value};

use cue_syntax::Indent;

use super::eval::{data, evaluate, exported, failure, one_error};
use super::json::Json;
use super::print;
use super::record::Record;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verb {
    #[default]
    Export,
    Eval,
    Vet,
    Def,
}

/// A parsed command line.
#[derive(Debug, Default)]
struct Command<'a> {
    verb: Verb,
    files: Vec<&'a str>,
    expressions: Vec<&'a str>,
    schema: Option<&'a str>,
    out: Option<&'a str>,
    concrete: Option<bool>,
    /// Errors are shown as values.
    ignore: bool,
    hidden: bool,
    optional: bool,
}

/// A data file: its documents as JSON text, which is CUE.
struct Data<'a> {
    name: &'a str,
    documents: Vec<String>,
}

/// The CUE and data files of a command line.
struct Inputs<'a> {
    cue: Vec<(&'a str, &'a str)>,
    data: Vec<Data<'a>>,
    /// The names of all, in order.
    names: Vec<&'a str>,
}

pub(crate) fn run(record: &Record<'_>) -> Json {
    let unsupported = |reason: String| Json::object([("unsupported", reason.into())]);
    let beyond = ["module", "registry", "env", "flag", "arg", "stdin", "pkg:tool/"];
    let needs = record.json.strings("needs");
    if let Some(need) = needs.iter().find(|need| beyond.iter().any(|b| need.starts_with(b))) {
        return unsupported(format!("needs {need}"));
    }
    let command = match Command::parse(record) {
        Ok(command) => command,
        Err(reason) => return unsupported(reason),
    };
    match command.answer(record) {
        Ok(answer) => answer,
        Err(errors) => failure(&errors),
    }
}

impl<'a> Command<'a> {
    fn parse(record: &Record<'a>) -> Result<Self, String> {
        let mut command = Self {
            verb: match record.json.str("cmd").unwrap_or("export") {
                "export" => Verb::Export,
                "eval" => Verb::Eval,
                "vet" => Verb::Vet,
                "def" => Verb::Def,
                other => return Err(format!("command {other}")),
            },
            expressions: record.json.str("expr").into_iter().collect(),
            ..Self::default()
        };
        let mut args = record.json.strings("args").into_iter();
        while let Some(arg) = args.next() {
            match arg {
                "-e" | "--expression" => command.expressions.extend(args.next()),
                "-d" | "--schema" => command.schema = args.next(),
                "--out" => command.out = args.next(),
                "-c" | "--concrete" | "-c=true" => command.concrete = Some(true),
                "-c=false" | "--concrete=false" => command.concrete = Some(false),
                "-i" | "--ignore" => command.ignore = true,
                "-H" | "--show-hidden" => command.hidden = true,
                "-O" | "--show-optional" => command.optional = true,
                "-a" | "--all" => (command.hidden, command.optional) = (true, true),
                _ if arg.starts_with('-') => return Err(format!("flag {arg}")),
                _ => command.files.push(arg),
            }
        }
        Ok(command)
    }

    fn answer(&self, record: &Record<'_>) -> Result<Json, Errors> {
        let inputs = self.inputs(record)?;
        match self.verb {
            Verb::Vet => self.vet(&inputs),
            Verb::Export => self.export(record, &inputs),
            Verb::Eval | Verb::Def => self.show(record, &inputs),
        }
    }

    fn inputs<'r>(&'r self, record: &Record<'r>) -> Result<Inputs<'r>, Errors> {
        let mut inputs = Inputs { cue: Vec::new(), data: Vec::new(), names: Vec::new() };
        let folder = record.json.str("cwd").map(|cwd| format!("{cwd}/")).unwrap_or_default();
        for &arg in &self.files {
            let name = arg.strip_prefix("./").unwrap_or(arg);
            let Some(text) = record.file(&format!("{folder}{name}")) else {
                return Err(one_error(Class::Eval, format!("no such file: {name}")));
            };
            inputs.names.push(name);
            let documents = match name.rsplit_once('.').map(|(_, extension)| extension) {
                Some("json") => vec![json_text(name, text)?],
                Some("yaml" | "yml") => yaml_documents(name, text)?,
                _ => {
                    inputs.cue.push((name, text));
                    continue;
                }
            };
            inputs.data.push(Data { name, documents });
        }
        Ok(inputs)
    }

    fn expression(&self) -> Option<&str> {
        self.expressions.first().copied()
    }

    /// One evaluation of all CUE files and `data`.
    fn unified(
        &self,
        inputs: &Inputs<'_>,
        data: &[(&str, &str)],
    ) -> Result<(Evaluation, Node), Errors> {
        if let Some(schema) = self.schema {
            let texts: Vec<String> = data.iter().map(|(_, text)| format!("({text})")).collect();
            let expression = format!("({schema}) & {}", texts.join(" & "));
            return evaluate(&inputs.cue, Some(&expression), &[]);
        }
        let mut files = inputs.cue.clone();
        files.extend(data);
        // The order of the command line decides about the order of fields.
        files.sort_by_key(|(name, _)| inputs.names.iter().position(|other| other == name));
        evaluate(&files, self.expression(), &[])
    }

    fn vet(&self, inputs: &Inputs<'_>) -> Result<Json, Errors> {
        let mut checks = Vec::new();
        if inputs.data.is_empty() {
            checks.push(Vec::new());
        }
        for file in &inputs.data {
            for document in &file.documents {
                checks.push(vec![(file.name, document.as_str())]);
            }
        }
        for data in checks {
            let concrete = self.concrete.unwrap_or(!data.is_empty());
            let (mut evaluation, node) = match (self.schema, &data[..]) {
                (None, &[(name, document)]) => {
                    // The data are a value of their own: what closes the schema closes them out.
                    let (mut evaluation, root) = evaluate(&inputs.cue, self.expression(), &[])?;
                    let (mut other, value) = evaluate(&[(name, document)], None, &[])?;
                    let value = other.export(value)?;
                    let both = Tree::Unify(vec![Tree::Node(root), Tree::Data(value)]);
                    let node = evaluation.build(&both);
                    (evaluation, node)
                }
                _ => self.unified(inputs, &data)?,
            };
            evaluation.validate(node, concrete)?;
            // Without -c, `vet` passes only if the incomplete rest is wanted so.
            if self.concrete.is_none()
                && !concrete
                && let Err(errors) = evaluation.validate(node, true)
            {
                return Err(errors);
            }
        }
        Ok(Json::object([("valid", true.into())]))
    }

    fn export(&self, record: &Record<'_>, inputs: &Inputs<'_>) -> Result<Json, Errors> {
        let data: Vec<(&str, &str)> = inputs
            .data
            .iter()
            .flat_map(|file| file.documents.iter().map(|text| (file.name, text.as_str())))
            .collect();
        let (mut evaluation, node) = self.unified(inputs, &data)?;
        let value = evaluation.export(node)?;
        match (self.out, record.kind()) {
            (Some("yaml"), _) => Ok(text(yaml_text(&value)?)),
            (Some("text"), _) => Ok(text(value.as_str().unwrap_or_default().to_owned())),
            (Some("cue"), _) => {
                let options = print::Options {
                    defaults: true,
                    definitions: false,
                    hidden: false,
                    optional: false,
                    docs: true,
                    braces: false,
                    indent: Indent::Tab,
                };
                Ok(text(print::print(&mut evaluation, node, options)))
            }

            _ => Ok(exported(Ok(value))),
        }
    }

    fn show(&self, record: &Record<'_>, inputs: &Inputs<'_>) -> Result<Json, Errors> {
        let data: Vec<(&str, &str)> = inputs
            .data
            .iter()
            .flat_map(|file| file.documents.iter().map(|text| (file.name, text.as_str())))
            .collect();
        let (mut evaluation, node) = self.unified(inputs, &data)?;
        if matches!(record.kind(), "valid" | "error") {
            evaluation.validate(node, self.concrete.unwrap_or(false))?;
            return Ok(Json::object([("valid", true.into())]));
        }
        match (self.verb, self.out) {
            (_, Some("yaml")) => return Ok(text(yaml_text(&evaluation.export(node)?)?)),
            (Verb::Eval, None | Some("cue")) => {}
            (Verb::Def, None) if self.expression().is_some() => {
                return Ok(definition(&mut evaluation, node));
            }
            (Verb::Def, None) => return definitions(record, inputs, &mut evaluation, node),
            (verb, out) => {
                let reason = format!("{verb:?} to {out:?}");
                return Ok(Json::object([("unsupported", reason.into())]));
            }
        }
        if !self.ignore {
            evaluation.validate(node, self.concrete.unwrap_or(false))?;
        }
        let options = print::Options {
            defaults: true,
            definitions: !self.concrete.unwrap_or(false),
            hidden: self.hidden,
            optional: self.optional,
            docs: false,
            braces: false,
            indent: Indent::Spaces(4),
        };
        Ok(text(print::print(&mut evaluation, node, options)))
    }
}

/// `cue def`: the source with its comments, as far as one file that needs no simplification goes.
fn definitions(
    record: &Record<'_>,
    inputs: &Inputs<'_>,
    evaluation: &mut Evaluation,
    node: Node,
) -> Result<Json, Errors> {
    let [(name, source)] = inputs.cue[..] else {
        let reason = format!("{}: cue def of several files", record.id());
        return Ok(Json::object([("unsupported", reason.into())]));
    };
    evaluation.validate(node, false)?;
    let (file, _) = cue_syntax::parse(name, source, &cue_syntax::ParseLimits::default());
    Ok(text(cue_syntax::format(&file)))
}

/// `cue def -e`: a value by itself; one that is closed needs a definition around it to stay so.
fn definition(evaluation: &mut Evaluation, node: Node) -> Json {
    let closed = evaluation.describe(node).closed;
    let options = print::Options {
        defaults: false,
        definitions: true,
        hidden: true,
        optional: true,
        docs: true,
        braces: closed,
        indent: Indent::Tab,
    };
    let shown = print::print(evaluation, node, options);
    text(if closed { format!("\n_#def\n_#def: {shown}") } else { shown })
}

fn text(text: String) -> Json {
    Json::object([("text", text.into())])
}

fn json_text(name: &str, text: &str) -> Result<String, Errors> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(raw) => Ok(raw.get().to_owned()),
        Err(error) => Err(one_error(Class::Parse, format!("{name}: {error}"))),
    }
}

/// Runs a function of `encoding/yaml` on one argument.
fn yaml(call: &str, argument: &Value) -> Result<Value, Errors> {
    let source = format!("import \"encoding/yaml\"\nout: yaml.{call}\nin: _\n");
    let files = [("yaml.cue", source.as_str())];
    let (mut evaluation, root) = evaluate(&files, None, &[("in", argument)])?;
    match evaluation.lookup(root, "out") {
        Some(node) => evaluation.export(node),
        None => Err(one_error(Class::Eval, "no result")),
    }
}

fn yaml_documents(name: &str, text: &str) -> Result<Vec<String>, Errors> {
    // One document is the rule; a stream has separators.
    let separated = text.trim_start().starts_with("---") || text.contains("\n---");
    let parts: Vec<&str> = match separated {
        true => text.split("\n---").map(|part| part.trim_start_matches("---")).collect(),
        false => vec![text],
    };
    let mut documents = Vec::new();
    if text.trim().is_empty() {
        return Ok(vec!["*null | _".to_owned()]);
    }
    for part in parts.iter().filter(|part| parts.len() == 1 || !part.trim().is_empty()) {
        let value = yaml("Unmarshal(in)", &Value::from(*part))
            .map_err(|errors| one_error(Class::Parse, format!("{name}: {errors}")))?;
        documents.push(data(&value).to_string());
    }
    Ok(documents)
}

fn yaml_text(value: &Value) -> Result<String, Errors> {
    let text = yaml("Marshal(in)", value)?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}
