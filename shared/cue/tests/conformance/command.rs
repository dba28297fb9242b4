//! Answers of the categories that run a command line: `cue export`, `eval`, `vet` and `def` on
//! files and packages of the record.
//!
//! Registries, schemas in other languages and some flags are out of scope, as the records' `needs`
//! say; they answer `unsupported`.

use cue::{Class, Errors, Evaluation, Node, Tree, Value, Which};

use cue_syntax::Indent;

use super::arguments::{Arguments, Refusal, Verb};
use super::definitions;
use super::eval::{
    call, evaluate, evaluate_with, exported, failure, one_error, package_of, packages, too_new,
};
use super::json::Json;
use super::load::Inputs;
use super::package::folders;
use super::print;
use super::record::Record;

/// A command line with what it works on.
struct Command<'r> {
    arguments: Arguments,
    record: &'r Record<'r>,
    inputs: Inputs,
}

pub(crate) fn run(record: &Record<'_>) -> Json {
    let beyond = ["registry", "env"];
    let needs = record.json.strings("needs");
    if let Some(need) = needs.iter().find(|need| beyond.iter().any(|b| need.starts_with(b))) {
        return Json::object([("unsupported", format!("needs {need}").into())]);
    }
    match Arguments::parse(record).and_then(|arguments| each(arguments, record)) {
        Ok(answer) => answer,
        Err(refusal) => refusal.into(),
    }
}

/// Runs the command line for all packages that it names.
fn each(arguments: Arguments, record: &Record<'_>) -> Result<Json, Refusal> {
    let [(form, argument)] = &arguments.files[..] else { return one(arguments, record) };
    let Some(above) = argument.strip_suffix("...") else { return one(arguments, record) };
    let base = record.json.str("cwd").map(|cwd| format!("{cwd}/")).unwrap_or_default();
    let above = above.trim_start_matches("./");
    let (mut texts, mut stream) = (Vec::new(), Vec::new());
    for folder in folders(record, &format!("{base}{above}")) {
        let files = vec![(*form, format!("./{above}{folder}"))];
        let answer = one(Arguments { files, ..arguments.clone() }, record)?;
        match (answer.str("text"), answer.get("json")) {
            (Some(text), _) => texts.push(text.to_owned()),
            (_, Some(json)) => stream.push(json.clone()),
            _ if answer.get("valid").is_some() => {}
            _ => return Ok(answer),
        }
    }
    Ok(match (arguments.verb, record.kind()) {
        (Verb::Vet, _) | (_, "valid" | "error") => Json::object([("valid", true.into())]),
        (Verb::Export, "json") => Json::object([("stream", Json::Array(stream))]),
        _ => text(texts.join("// ---\n")),
    })
}

fn one(arguments: Arguments, record: &Record<'_>) -> Result<Json, Refusal> {
    let inputs = Inputs::read(&arguments, record)?;
    if inputs.cue.iter().any(|(_, text)| text.contains("\"tool/")) {
        return Err(Refusal::Unsupported("the packages of cue cmd".to_owned()));
    }
    let command = Command { arguments, record, inputs };
    let answer = match command.arguments.verb {
        Verb::Vet => command.vet(),
        Verb::Export => command.export(),
        Verb::Eval | Verb::Def => command.show(),
    };
    Ok(answer.unwrap_or_else(|errors| command.failure(&errors)))
}

impl Command<'_> {
    /// A package that cannot be read fails the import of it.
    fn failure(&self, errors: &Errors) -> Json {
        let is_own = |file: &str| {
            file.starts_with("--") || self.inputs.cue.iter().any(|(name, _)| name == file)
        };
        let first = errors.list().first().and_then(|error| error.positions.first());
        match first {
            Some(position) if errors.class() == Class::Parse && !is_own(&position.file) => {
                failure(&one_error(Class::Compile, format!("import failed: {errors}")))
            }
            _ => failure(errors),
        }
    }

    /// One evaluation of files, with the packages of the record's module.
    fn evaluate(
        &self,
        files: &[(&str, &str)],
        expression: Option<&str>,
    ) -> Result<(Evaluation, Node), Errors> {
        match too_new(self.record, files) {
            Some(errors) => Err(errors),
            None => evaluate_with(&packages(self.record), files, expression, &[]),
        }
    }

    /// One evaluation of all CUE files and `data`.
    fn unified(&self, data: &[(&str, &str)]) -> Result<(Evaluation, Node), Errors> {
        if let Some(schema) = &self.arguments.schema {
            let texts: Vec<String> = data.iter().map(|(_, text)| format!("({text})")).collect();
            let expression = format!("({schema}) & {}", texts.join(" & "));
            return self.evaluate(&self.inputs.cue(), Some(&expression));
        }
        let mut files = self.inputs.cue();
        let package = files.iter().find_map(|(name, text)| package_of(name, text));
        let clause = package.map(|package| format!("package {package}\n")).unwrap_or_default();
        let data: Vec<(&str, String)> =
            data.iter().map(|(name, text)| (*name, format!("{clause}{text}"))).collect();
        files.extend(data.iter().map(|(name, text)| (*name, text.as_str())));
        files.sort_by_key(|(name, _)| self.inputs.position(name));
        self.evaluate(&files, self.arguments.expression())
    }

    /// What stands above printed CUE.
    fn clause(&self) -> Result<String, Errors> {
        let Some(package) = &self.arguments.package else { return Ok(String::new()) };
        // Where data are added to a package it has to be that one.
        let joined = if self.inputs.data.is_empty() { &[][..] } else { &self.inputs.cue[..] };
        for (name, text) in joined {
            if let Some(other) = package_of(name, text).filter(|it| it != package) {
                let message = format!("{name} is of package {other}, not {package}");
                return Err(one_error(Class::Eval, message));
            }
        }
        Ok(format!("package {package}\n\n"))
    }

    fn vet(&self) -> Result<Json, Errors> {
        let documents = self.inputs.documents();
        let expression = self.arguments.expression();
        // What has a place of its own is one value with the rest.
        let checks: Vec<&[(&str, &str)]> = match documents.is_empty() || self.is_placed() {
            true => vec![&documents[..]],
            false => documents.chunks(1).collect(),
        };
        for data in checks {
            let concrete = self.arguments.concrete.unwrap_or(!data.is_empty());
            let (mut evaluation, node) = match (&self.arguments.schema, data) {
                (None, &[(name, document)]) if !self.is_placed() => {
                    // The data are a value of their own: what closes the schema closes them out.
                    let (mut evaluation, root) = self.evaluate(&self.inputs.cue(), expression)?;
                    let (mut other, value) = evaluate(&[(name, document)], None, &[])?;
                    let value = other.export(value)?;
                    let both = Tree::Unify(vec![Tree::Node(root), Tree::Data(value)]);
                    let node = evaluation.build(&both);
                    (evaluation, node)
                }
                _ => self.unified(data)?,
            };
            evaluation.validate(node, concrete)?;
            // Without -c, `vet` passes only if the incomplete rest is wanted so.
            if self.arguments.concrete.is_none()
                && !concrete
                && let Err(errors) = evaluation.validate(node, true)
            {
                return Err(errors);
            }
        }
        Ok(Json::object([("valid", true.into())]))
    }

    fn is_placed(&self) -> bool {
        !self.arguments.places.is_empty()
    }

    fn export(&self) -> Result<Json, Errors> {
        let data = self.inputs.documents();
        if self.inputs.cue.is_empty() && data.is_empty() {
            return Ok(Json::object([("stream", Json::Array(Vec::new()))]));
        }
        let clause = self.clause()?;
        let (mut evaluation, node) = self.unified(&data)?;
        let value = evaluation.export(node)?;
        let value = sorted(&mut evaluation, node, value);
        match self.arguments.out.as_deref() {
            Some("yaml") => Ok(text(yaml_text(&value)?)),
            Some("text") => Ok(text(value.as_str().unwrap_or_default().to_owned())),
            Some("binary") => match &value {
                Value::Bytes(bytes) => Ok(text(String::from_utf8_lossy(bytes).into_owned())),
                value => Ok(text(value.as_str().unwrap_or_default().to_owned())),
            },
            Some("jsonl") => Ok(text(value.to_json_text())),
            Some("toml") => {
                let marshalled = call("encoding/toml", "Marshal(in)", &value)?;
                Ok(text(marshalled.as_str().unwrap_or_default().to_owned()))
            }
            Some("cue") => {
                let options = print::Options {
                    defaults: true,
                    definitions: false,
                    hidden: false,
                    optional: false,
                    docs: true,
                    braces: false,
                    short: true,
                    indent: Indent::Tab,
                };
                Ok(text(clause + &print::print(&mut evaluation, node, options)))
            }
            None | Some("json") => Ok(exported(Ok(value))),
            Some(out) if out.starts_with("xml") => Err(one_error(Class::Eval, "XML is read only")),
            Some(out) => Ok(Json::object([("unsupported", format!("export to {out}").into())])),
        }
    }

    fn show(&self) -> Result<Json, Errors> {
        let Arguments { verb, concrete, ignore, hidden, optional, short, .. } = self.arguments;
        let clause = self.clause()?;
        let (mut evaluation, node) = self.unified(&self.inputs.documents())?;
        if matches!(self.record.kind(), "valid" | "error") {
            let concrete = concrete.unwrap_or(self.arguments.out.as_deref() == Some("json"));
            evaluation.validate(node, concrete)?;
            return Ok(Json::object([("valid", true.into())]));
        }
        match (verb, self.arguments.out.as_deref()) {
            (_, Some("json")) => return Ok(exported(Ok(evaluation.export(node)?))),
            (_, Some("yaml")) => return Ok(text(yaml_text(&evaluation.export(node)?)?)),
            (Verb::Eval, None | Some("cue")) => {}
            (Verb::Def, None | Some("cue")) if self.arguments.expression().is_some() => {
                return Ok(definition(&mut evaluation, node));
            }
            (Verb::Def, None | Some("cue")) => {
                return self.definitions(&mut evaluation, node);
            }
            (verb, out) => {
                let reason = format!("{verb:?} to {out:?}");
                return Ok(Json::object([("unsupported", reason.into())]));
            }
        }
        if !ignore {
            evaluation.validate(node, concrete.unwrap_or(false))?;
        }
        let options = print::Options {
            defaults: true,
            definitions: !concrete.unwrap_or(false),
            hidden,
            optional,
            docs: false,
            braces: false,
            short,
            indent: Indent::Spaces(4),
        };
        Ok(text(clause + &print::print(&mut evaluation, node, options)))
    }

    /// `cue def`: the source, as far as it needs no simplification.
    fn definitions(&self, evaluation: &mut Evaluation, node: Node) -> Result<Json, Errors> {
        evaluation.validate(node, false)?;
        if !self.inputs.data.is_empty() || self.arguments.schema.is_some() {
            let reason = format!("{}: cue def with data", self.record.id());
            return Ok(Json::object([("unsupported", reason.into())]));
        }
        let package = self.arguments.package.as_deref();
        Ok(text(definitions::print(&self.inputs.cue(), package, evaluation, node)))
    }
}

/// A value with its fields in the order in which they are shown.
fn sorted(evaluation: &mut Evaluation, node: Node, value: Value) -> Value {
    match value {
        Value::List(items) => {
            let nodes = evaluation.elements(node);
            let items = items.into_iter().zip(nodes);
            Value::List(items.map(|(item, node)| sorted(evaluation, node, item)).collect())
        }
        Value::Struct(fields) => {
            let shown = evaluation.fields(node, Which::default());
            let shown = shown.into_iter().filter_map(|field| {
                let value = fields.get(&field.label)?.clone();
                Some((field.label, sorted(evaluation, field.node, value)))
            });
            shown.collect()
        }
        other => other,
    }
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
        short: true,
        indent: Indent::Tab,
    };
    let shown = print::print(evaluation, node, options);
    text(if closed { format!("\n_#def\n_#def: {shown}") } else { shown })
}

fn text(text: String) -> Json {
    Json::object([("text", text.into())])
}

fn yaml_text(value: &Value) -> Result<String, Errors> {
    let text = call("encoding/yaml", "Marshal(in)", value)?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}
