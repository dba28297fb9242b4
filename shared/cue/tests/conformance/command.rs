//! Answers of the categories that run a command line: `cue export`, `eval`, `vet` and `def` on
//! files and packages of the record.
//!
//! Registries, standard input, most flags and forms of files are out of scope, as the records' `needs` say; they answer
//! `unsupported`.

use cue::{Class, Errors, Evaluation, Node, Tree, Value};

use cue_syntax::Indent;

use super::eval::{
    data, evaluate, evaluate_with, exported, failure, module_of, one_error, package_of, packages,
};
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
    /// Files and packages, each with the form that the command line gives it.
    files: Vec<(Option<&'a str>, &'a str)>,
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
    let beyond = ["registry", "env", "flag", "stdin", "pkg:tool/"];
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
        let mut form = None;
        let mut args = record.json.strings("args").into_iter();
        while let Some(arg) = args.next() {
            match arg {
                "-e" | "--expression" => command.expressions.extend(args.next()),
                "-d" | "--schema" => command.schema = args.next(),
                "--out" => command.out = args.next(),
                _ if arg.starts_with("--out=") => command.out = arg.strip_prefix("--out="),
                // It is about how a JSON text is written.
                "--escape" => {}
                "-c" | "--concrete" | "-c=true" => command.concrete = Some(true),
                "-c=false" | "--concrete=false" => command.concrete = Some(false),
                "-i" | "--ignore" => command.ignore = true,
                "-H" | "--show-hidden" => command.hidden = true,
                "-O" | "--show-optional" => command.optional = true,
                "-a" | "--all" => (command.hidden, command.optional) = (true, true),
                _ if arg.starts_with('-') => return Err(format!("flag {arg}")),
                "json:" | "jsonl:" | "yaml:" | "toml:" | "cue:" => form = arg.strip_suffix(':'),
                _ if arg.contains("...") || arg.ends_with(':') || arg.ends_with(".xml") => {
                    return Err(format!("argument {arg}"));
                }
                _ => command.files.push((form, arg)),
            }
        }
        if command.files.is_empty() {
            command.files.push((None, "."));
        }
        Ok(command)
    }

    fn answer(&self, record: &Record<'_>) -> Result<Json, Errors> {
        let inputs = self.inputs(record)?;
        match self.verb {
            Verb::Vet => self.vet(record, &inputs),
            Verb::Export => self.export(record, &inputs),
            Verb::Eval | Verb::Def => self.show(record, &inputs),
        }
    }

    fn inputs<'r>(&'r self, record: &Record<'r>) -> Result<Inputs<'r>, Errors> {
        let mut inputs = Inputs { cue: Vec::new(), data: Vec::new(), names: Vec::new() };
        let folder = record.json.str("cwd").map(|cwd| format!("{cwd}/")).unwrap_or_default();
        for &(form, arg) in &self.files {
            let name = arg.strip_prefix("./").unwrap_or(arg);
            let Some(text) = record.file(&format!("{folder}{name}")) else {
                for (name, text) in package(record, &folder, arg)? {
                    inputs.names.push(name);
                    inputs.cue.push((name, text));
                }
                continue;
            };
            inputs.names.push(name);
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            let documents = match form.or(extension) {
                Some("json") => vec![json_text(name, text)?],
                Some("jsonl" | "ndjson" | "ldjson") => {
                    let lines = text.lines().filter(|line| !line.trim().is_empty());
                    lines.map(|line| json_text(name, line)).collect::<Result<_, _>>()?
                }
                Some("yaml" | "yml") => yaml_documents(name, text)?,
                Some("toml") => vec![toml_document(name, text)?],
                _ => {
                    inputs.cue.push((name, text));
                    continue;
                }
            };
            inputs.data.push(Data { name, documents });
        }
        Ok(inputs)
    }

    /// One evaluation of files, with the packages of the record's module.
    fn evaluate(
        record: &Record<'_>,
        files: &[(&str, &str)],
        expression: Option<&str>,
    ) -> Result<(Evaluation, Node), Errors> {
        evaluate_with(&packages(record), files, expression, &[])
    }

    fn expression(&self) -> Option<&str> {
        self.expressions.first().copied()
    }

    /// One evaluation of all CUE files and `data`.
    fn unified(
        &self,
        record: &Record<'_>,
        inputs: &Inputs<'_>,
        data: &[(&str, &str)],
    ) -> Result<(Evaluation, Node), Errors> {
        if let Some(schema) = self.schema {
            let texts: Vec<String> = data.iter().map(|(_, text)| format!("({text})")).collect();
            let expression = format!("({schema}) & {}", texts.join(" & "));
            return Self::evaluate(record, &inputs.cue, Some(&expression));
        }
        let mut files = inputs.cue.clone();
        files.extend(data);
        // The order of the command line decides about the order of fields.
        files.sort_by_key(|(name, _)| inputs.names.iter().position(|other| other == name));
        Self::evaluate(record, &files, self.expression())
    }

    fn vet(&self, record: &Record<'_>, inputs: &Inputs<'_>) -> Result<Json, Errors> {
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
                    let (mut evaluation, root) =
                        Self::evaluate(record, &inputs.cue, self.expression())?;
                    let (mut other, value) = evaluate(&[(name, document)], None, &[])?;
                    let value = other.export(value)?;
                    let both = Tree::Unify(vec![Tree::Node(root), Tree::Data(value)]);
                    let node = evaluation.build(&both);
                    (evaluation, node)
                }
                _ => self.unified(record, inputs, &data)?,
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
        if inputs.cue.is_empty() && data.is_empty() {
            return Ok(Json::object([("stream", Json::Array(Vec::new()))]));
        }
        let (mut evaluation, node) = self.unified(record, inputs, &data)?;
        let value = evaluation.export(node)?;
        match (self.out, record.kind()) {
            (Some("yaml"), _) => Ok(text(yaml_text(&value)?)),
            (Some("text"), _) => Ok(text(value.as_str().unwrap_or_default().to_owned())),
            (Some("toml"), _) => {
                let marshalled = call("encoding/toml", "Marshal(in)", &value)?;
                Ok(text(marshalled.as_str().unwrap_or_default().to_owned()))
            }
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
            (None | Some("json"), _) => Ok(exported(Ok(value))),
            (Some(out), _) => {
                Ok(Json::object([("unsupported", format!("export to {out}").into())]))
            }
        }
    }

    fn show(&self, record: &Record<'_>, inputs: &Inputs<'_>) -> Result<Json, Errors> {
        let data: Vec<(&str, &str)> = inputs
            .data
            .iter()
            .flat_map(|file| file.documents.iter().map(|text| (file.name, text.as_str())))
            .collect();
        let (mut evaluation, node) = self.unified(record, inputs, &data)?;
        if matches!(record.kind(), "valid" | "error") {
            let concrete = self.concrete.unwrap_or(self.out == Some("json"));
            evaluation.validate(node, concrete)?;
            return Ok(Json::object([("valid", true.into())]));
        }
        match (self.verb, self.out) {
            (_, Some("json")) => return Ok(exported(Ok(evaluation.export(node)?))),
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

/// The files of a package that an argument names: a folder below `base` or an import path of the module, and behind a colon the
/// package, if the folder has several. Files of that package in folders above it belong to it, as far as the module goes.
fn package<'r>(
    record: &Record<'r>,
    base: &str,
    argument: &str,
) -> Result<Vec<(&'r str, &'r str)>, Errors> {
    let is_part = |name: &str| {
        let stem = name.strip_suffix(".cue").unwrap_or("_");
        !stem.starts_with(['_', '.']) && !stem.ends_with("_tool") && !stem.ends_with("_test")
    };
    let files = |of: &str| {
        let named = record.files().filter_map(|(path, text)| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            // No tags are set, so an attribute that asks for one leaves its file out.
            let is_left_out = text.starts_with("@if(") && !text.starts_with("@if(!");
            (folder == of && is_part(name) && !is_left_out).then_some((path, text))
        });
        let named = named.filter_map(|(path, text)| Some((package_of(path, text)?, path, text)));
        named.collect::<Vec<_>>()
    };
    let (place, name) = argument.rsplit_once(':').map_or((argument, None), |(a, b)| (a, Some(b)));
    let module = module_of(record);
    let (place, _) = place.split_once('@').unwrap_or((place, ""));
    let (folder, last) = match (place, place.strip_prefix("./")) {
        ("" | ".", _) => (base.to_owned(), None),
        (_, Some(below)) => (format!("{base}{below}"), None),
        // An import path; its last element is the name of the package.
        _ => match module.and_then(|module| place.strip_prefix(module)) {
            Some(below) => (below.to_owned(), place.rsplit('/').next()),
            None => return Err(one_error(Class::Eval, format!("no such file: {argument}"))),
        },
    };
    let folder = folder.trim_matches('/');
    let mut found = files(folder);
    let mut names: Vec<String> = found.iter().map(|(name, ..)| name.clone()).collect();
    names.retain(|it| name.is_none_or(|name| name == it));
    names.sort_unstable();
    names.dedup();
    if names.len() > 1 && names.iter().any(|name| last == Some(name)) {
        names.retain(|name| last == Some(name));
    }
    let [name] = &names[..] else {
        return Err(one_error(Class::Eval, format!("{argument} names {} packages", names.len())));
    };
    found.retain(|(other, ..)| other == name);
    let mut above = folder;
    while module.is_some() && !above.is_empty() {
        above = above.rsplit_once('/').map_or("", |(above, _)| above);
        found.extend(files(above).into_iter().filter(|(other, ..)| other == name));
    }
    found.sort_by_key(|(_, path, _)| *path);
    Ok(found.into_iter().map(|(_, path, text)| (path, text)).collect())
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
fn yaml(function: &str, argument: &Value) -> Result<Value, Errors> {
    call("encoding/yaml", function, argument)
}

/// Runs a function of a package on one argument.
fn call(package: &str, function: &str, argument: &Value) -> Result<Value, Errors> {
    let source = format!("import p \"{package}\"\nout: p.{function}\nin: _\n");
    let files = [("call.cue", source.as_str())];
    let (mut evaluation, root) = evaluate(&files, None, &[("in", argument)])?;
    match evaluation.lookup(root, "out") {
        Some(node) => evaluation.export(node),
        None => Err(one_error(Class::Eval, "no result")),
    }
}

fn toml_document(name: &str, text: &str) -> Result<String, Errors> {
    let value = call("encoding/toml", "Unmarshal(in)", &Value::from(text))
        .map_err(|errors| one_error(Class::Parse, format!("{name}: {errors}")))?;
    Ok(data(&value).to_string())
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
