//! The files of a command line: CUE as it is, and data as CUE text.

use cue::{Class, Errors, Value};
use cue_syntax::ast::Expr;
use cue_syntax::{ParseLimits, is_plain_label, parse, quote, quote_bytes};

use super::arguments::{Arguments, Form, Refusal};
use super::embed::embed;
use super::eval::{call, data, evaluate, one_error};
use super::package::package;
use super::record::Record;

/// A data file: its documents as JSON text, which is CUE.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) documents: Vec<String>,
}

/// The CUE and data files of a command line.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) cue: Vec<(String, String)>,
    pub(crate) data: Vec<Data>,
    /// The names of all, in order.
    names: Vec<String>,
}

impl Inputs {
    pub(crate) fn read(arguments: &Arguments, record: &Record<'_>) -> Result<Self, Refusal> {
        let mut inputs = Self::default();
        let folder = record.json.str("cwd").map(|cwd| format!("{cwd}/")).unwrap_or_default();
        for (form, argument) in &arguments.files {
            let is_input = matches!(argument.as_str(), "-" | "/dev/stdin");
            let name = argument.strip_prefix("./").unwrap_or(argument);
            let (_, last) = name.rsplit_once('/').unwrap_or(("", name));
            let extension = last.rsplit_once('.').map(|(_, extension)| extension);
            let text = match is_input {
                true => record.json.str("stdin"),
                // Without an extension it is a package, whatever files there are.
                false if form.is_none() && extension.is_none() => None,
                false => record.file(&format!("{folder}{name}")),
            };
            let Some(text) = text else {
                if is_input {
                    return Err(Refusal::Unsupported("an input that is not recorded".to_owned()));
                }
                for (name, text) in package(record, &arguments.tags, &folder, argument)? {
                    inputs.add_cue(arguments, name, &embed(record, name, text)?)?;
                }
                continue;
            };
            let form = match (form, extension) {
                (Some(form), _) => *form,
                _ if is_input => Form::Cue,
                (None, extension) => by_extension(extension.unwrap_or_default())?,
            };
            match form {
                Form::Cue if arguments.tags.admit(text) => {
                    let text = embed(record, &format!("{folder}{name}"), text)?;
                    inputs.add_cue(arguments, name, &text)?;
                }
                Form::Cue => {
                    return Err(one_error(Class::Eval, format!("{name} is left out")).into());
                }
                Form::Data => {
                    only_data(name, text)?;
                    inputs.add_cue(arguments, name, text)?;
                }
                _ => {
                    inputs.names.push(name.to_owned());
                    let documents = documents(form, name, text)?;
                    inputs.data.push(Data { name: name.to_owned(), documents });
                }
            }
        }
        arguments.tags.all_used(record.files().map(|(_, text)| text))?;
        for file in &mut inputs.data {
            place(arguments, file)?;
        }
        Ok(inputs)
    }

    fn add_cue(&mut self, arguments: &Arguments, name: &str, text: &str) -> Result<(), Refusal> {
        self.names.push(name.to_owned());
        self.cue.push((name.to_owned(), arguments.tags.inject(text)?));
        Ok(())
    }

    /// All files but for `data`.
    pub(crate) fn cue(&self) -> Vec<(&str, &str)> {
        self.cue.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
    }

    /// All documents of data files.
    pub(crate) fn documents(&self) -> Vec<(&str, &str)> {
        let files = self.data.iter();
        let texts = |file: &'_ Data| file.documents.len();
        let count = files.clone().map(texts).sum();
        let mut all = Vec::with_capacity(count);
        for file in files {
            all.extend(file.documents.iter().map(|text| (file.name.as_str(), text.as_str())));
        }
        all
    }

    /// Where a file stands on the command line, which decides about the order of fields.
    pub(crate) fn position(&self, name: &str) -> usize {
        self.names.iter().position(|other| other == name).unwrap_or(usize::MAX)
    }
}

pub(crate) fn by_extension(extension: &str) -> Result<Form, Refusal> {
    Ok(match extension {
        "cue" => Form::Cue,
        "json" => Form::Json,
        "jsonl" | "ndjson" | "ldjson" => Form::JsonLines,
        "yaml" | "yml" => Form::Yaml,
        "toml" => Form::Toml,
        "txt" => Form::Text,
        "proto" | "textproto" => {
            return Err(Refusal::Unsupported(format!("files of form {extension}")));
        }
        _ => {
            let message = format!("no form belongs to the extension {extension}");
            return Err(one_error(Class::Eval, message).into());
        }
    })
}

pub(crate) fn documents(form: Form, name: &str, text: &str) -> Result<Vec<String>, Errors> {
    match form {
        Form::Json => Ok(vec![json_text(name, text)?]),
        Form::JsonLines => json_texts(name, text),
        Form::Yaml => yaml_documents(name, text),
        Form::Toml => Ok(vec![toml_document(name, text)?]),
        Form::Text => Ok(vec![quote(text)]),
        Form::Binary => Ok(vec![quote_bytes(text.as_bytes())]),
        Form::Cue | Form::Data => Ok(vec![text.to_owned()]),
    }
}

/// Puts the documents of a file where `-l` wants them.
fn place(arguments: &Arguments, file: &mut Data) -> Result<(), Errors> {
    let count = file.documents.len();
    for (index, document) in file.documents.iter_mut().enumerate() {
        let mut labels = String::new();
        for place in &arguments.places {
            if place.ends_with(':') {
                labels.push_str(&format!("{place} "));
                continue;
            }
            let scope = if arguments.with_context {
                let name = quote(&file.name);
                format!(
                    "data: {document}\nfilename: {name}\nindex: {index}\nrecordCount: {count}\n"
                )
            } else {
                names(&file.name, document)?
            };
            let (mut evaluation, node) = evaluate(&[(&file.name, &scope)], Some(place), &[])?;
            let label = evaluation.export(node)?;
            labels.push_str(&format!("{}: ", quote(label.as_str().unwrap_or_default())));
        }
        document.insert_str(0, &labels);
    }
    Ok(())
}

/// The fields of a document whose names an expression can use.
fn names(name: &str, document: &str) -> Result<String, Errors> {
    let (mut evaluation, node) = evaluate(&[(name, document)], None, &[])?;
    let Value::Struct(fields) = evaluation.export(node)? else { return Ok(String::new()) };
    let fields = fields.iter().filter(|(label, _)| is_plain_label(label));
    Ok(fields.map(|(label, value)| format!("{label}: {}\n", value.to_json_text())).collect())
}

/// A CUE file that is read as data refers to nothing.
fn only_data(name: &str, text: &str) -> Result<(), Errors> {
    let (file, _) = parse(name, text, &ParseLimits::default());
    match file.ast.all_exprs().any(|expr| matches!(expr, Expr::Ident(_))) {
        true => Err(one_error(Class::Eval, format!("{name}: data with references"))),
        false => Ok(()),
    }
}

fn json_text(name: &str, text: &str) -> Result<String, Errors> {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(raw) => Ok(raw.get().to_owned()),
        Err(error) => Err(one_error(Class::Parse, format!("{name}: {error}"))),
    }
}

/// The values of a stream of JSON, whatever separates them.
fn json_texts(name: &str, text: &str) -> Result<Vec<String>, Errors> {
    let stream = serde_json::Deserializer::from_str(text);
    let texts = stream.into_iter::<Box<serde_json::value::RawValue>>().map(|raw| match raw {
        Ok(raw) => Ok(raw.get().to_owned()),
        Err(error) => Err(one_error(Class::Parse, format!("{name}: {error}"))),
    });
    texts.collect()
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
        let value = call("encoding/yaml", "Unmarshal(in)", &Value::from(*part))
            .map_err(|errors| one_error(Class::Parse, format!("{name}: {errors}")))?;
        documents.push(data(&value).to_string());
    }
    Ok(documents)
}
