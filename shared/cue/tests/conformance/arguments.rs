//! The command line of a record.

use cue::{Class, Errors};

use super::eval::one_error;
use super::json::Json;
use super::record::Record;
use super::tags::Tags;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    #[default]
    Export,
    Eval,
    Vet,
    Def,
}

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Cue,
    /// CUE without references.
    Data,
    Json,
    JsonLines,
    Yaml,
    Toml,
    Text,
    Binary,
}

/// Why a command line is not run.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The harness does not have what it asks for.
    Unsupported(String),
    /// `cue` refuses it, too.
    Wrong(Errors),
}

impl From<Errors> for Refusal {
    fn from(errors: Errors) -> Self {
        Self::Wrong(errors)
    }
}

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) verb: Verb,
    /// Files and packages, each with the form that the command line gives it.
    pub(crate) files: Vec<(Option<Form>, String)>,
    pub(crate) expressions: Vec<String>,
    pub(crate) schema: Option<String>,
    pub(crate) out: Option<String>,
    pub(crate) concrete: Option<bool>,
    /// Where the value of a data file goes: labels, or expressions that give one.
    pub(crate) places: Vec<String>,
    /// Those expressions see the name of the file and the number of the value.
    pub(crate) with_context: bool,
    pub(crate) package: Option<String>,
    pub(crate) tags: Tags,
    /// Errors are shown as values.
    pub(crate) ignore: bool,
    pub(crate) hidden: bool,
    pub(crate) optional: bool,
    /// Structs of one field are shown in short form.
    pub(crate) short: bool,
}

impl Arguments {
    pub(crate) fn parse(record: &Record<'_>) -> Result<Self, Refusal> {
        let mut it = Self {
            verb: match record.json.str("cmd").unwrap_or("export") {
                "export" => Verb::Export,
                "eval" => Verb::Eval,
                "vet" => Verb::Vet,
                "def" => Verb::Def,
                other => return Err(Refusal::Unsupported(format!("command {other}"))),
            },
            expressions: record.json.str("expr").map(str::to_owned).into_iter().collect(),
            ..Self::default()
        };
        let mut form = None;
        let mut names = None;
        let args: Vec<String> = record.json.strings("args").into_iter().flat_map(single).collect();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "-e" | "--expression" => it.expressions.extend(args.next()),
                "-d" | "--schema" => it.schema = args.next(),
                "-l" | "--path" => it.places.extend(args.next()),
                "-p" | "--package" => it.package = args.next(),
                "-t" | "--inject" => it.tags.set(&args.next().unwrap_or_default()),
                "-T" | "--inject-vars" => it.tags.with_variables(record.json.str("cwd")),
                "-n" | "--name" => names = args.next(),
                "--out" => it.out = args.next(),
                "--outfile" | "-o" => {
                    let file = args.next().unwrap_or_default();
                    it.out = file.strip_suffix(":-").map(str::to_owned);
                }
                "--with-context" => it.with_context = true,
                // They are about how texts and errors are written, and whether an old file may go.
                "--escape" | "-f" | "--force" | "-E" | "--all-errors" | "-v" | "--verbose" => {}
                "-c" | "--concrete" | "-c=true" => it.concrete = Some(true),
                "-c=false" | "--concrete=false" => it.concrete = Some(false),
                "-i" | "--ignore" => it.ignore = true,
                "-s" | "--simplify" => it.short = true,
                "-H" | "--show-hidden" => it.hidden = true,
                "-O" | "--show-optional" => it.optional = true,
                "-a" | "--all" => (it.hidden, it.optional) = (true, true),
                "-" => it.files.push((form, arg)),
                _ if arg.starts_with("--out=") => it.out = arg.get(6..).map(str::to_owned),
                _ if arg.starts_with('-') => {
                    return Err(Refusal::Unsupported(format!("flag {arg}")));
                }
                _ => match arg.strip_suffix(':') {
                    Some(qualifier) => form = Some(qualified(qualifier)?),
                    None => it.files.push((form, arg)),
                },
            }
        }
        if it.expressions.len() > 1 {
            return Err(Refusal::Unsupported("several expressions".to_owned()));
        }
        if it.files.is_empty() {
            it.files.push((None, ".".to_owned()));
        }
        if names.is_some() {
            let is_folder = it.files.iter().any(|(_, file)| !file.contains('.') || file == ".");
            return Err(match is_folder {
                true => Refusal::Unsupported("flag -n".to_owned()),
                false => wrong("-n needs a folder"),
            });
        }
        Ok(it)
    }

    pub(crate) fn expression(&self) -> Option<&str> {
        self.expressions.first().map(String::as_str)
    }
}

/// Short flags that were written together, one by one: `-ic`.
fn single(arg: &str) -> Vec<String> {
    let letters = arg.strip_prefix('-').unwrap_or_default();
    match letters.len() > 1 && letters.bytes().all(|letter| b"icHOas".contains(&letter)) {
        true => letters.chars().map(|letter| format!("-{letter}")).collect(),
        false => vec![arg.to_owned()],
    }
}

/// The form that `json:` and the like give to the files behind them.
pub(crate) fn qualified(qualifier: &str) -> Result<Form, Refusal> {
    const OTHERS: [&str; 14] = [
        "pb",
        "proto",
        "textproto",
        "jsonschema",
        "openapi",
        "koala",
        "xml",
        "schema",
        "dag",
        "go",
        "code",
        "strict",
        "strictKeywords",
        "strictFeatures",
    ];
    let mut form = None;
    let mut other = None;
    for part in qualifier.split('+') {
        let name = part.split_once('=').map_or(part, |(name, _)| name);
        form = match name {
            "cue" | "graph" => Some(Form::Cue),
            "data" => Some(Form::Data),
            "json" => Some(Form::Json),
            "jsonl" => Some(Form::JsonLines),
            "yaml" => Some(Form::Yaml),
            "toml" => Some(Form::Toml),
            "text" => Some(Form::Text),
            "binary" => Some(Form::Binary),
            _ if OTHERS.contains(&name) => {
                other = Some(name);
                form
            }
            _ => return Err(wrong(&format!("unknown form {name}"))),
        };
    }
    match (form, other) {
        (Some(form), None) => Ok(form),
        _ => Err(Refusal::Unsupported(format!("argument {qualifier}:"))),
    }
}

fn wrong(reason: &str) -> Refusal {
    Refusal::Wrong(one_error(Class::Eval, reason))
}

/// The answer to a command line that is not run.
impl From<Refusal> for Json {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unsupported(reason) => Self::object([("unsupported", reason.into())]),
            Refusal::Wrong(errors) => super::eval::failure(&errors),
        }
    }
}
