//! Answers of the categories that evaluate one instance: exports, single fields, API behaviours.

use cue::{Class, Error, Errors, Evaluation, Limits, Node, Packages, Program, Value, Which};

use super::json::Json;
use super::print;
use super::record::Record;

/// The hidden field that holds an expression given beside the files (`-e`, `-d`).
pub(crate) const EXPRESSION: &str = "_conformance_expression";

pub(crate) fn failure(errors: &Errors) -> Json {
    Json::object([("error", errors.details().into()), ("class", errors.class().name().into())])
}

pub(crate) fn one_error(class: Class, message: impl Into<String>) -> Errors {
    Error::new(class, message).into()
}

/// An evaluation of some files, with an optional expression in their scope.
pub(crate) fn evaluate(
    files: &[(&str, &str)],
    expression: Option<&str>,
    inputs: &[(&str, &Value)],
) -> Result<(Evaluation, Node), Errors> {
    evaluate_with(&reference(), files, expression, inputs)
}

/// The language of the reference: without what we kept for old templates.
fn reference() -> Packages {
    let mut packages = Packages::std();
    packages.without_list_arithmetic();
    packages
}

/// The package clause of a file.
pub(crate) fn package_of(name: &str, text: &str) -> Option<String> {
    let (file, _) = cue_syntax::parse(name, text, &cue_syntax::ParseLimits::default());
    file.package.map(|package| file.ast.str(package.symbol).to_owned())
}

/// The path of a record's own module, without its major version.
pub(crate) fn module_of<'r>(record: &Record<'r>) -> Option<&'r str> {
    let text = record.file("cue.mod/module.cue")?;
    let path = text.lines().find_map(|line| line.strip_prefix("module:"))?;
    let path = path.trim().trim_matches('"');
    Some(path.split_once('@').map_or(path, |(path, _)| path))
}

/// Whether a file calls `error`, which came with v0.14, in a module of an older language.
pub(crate) fn too_new(record: &Record<'_>, files: &[(&str, &str)]) -> Option<Errors> {
    let module = record.file("cue.mod/module.cue")?;
    let (_, version) = module.split_once("version:")?;
    let version = version.trim_start().strip_prefix("\"v0.")?;
    let minor = version.split('.').next()?.parse::<u32>().ok()?;
    let is_called = |text: &str| {
        let (file, _) = cue_syntax::parse("", text, &cue_syntax::ParseLimits::default());
        file.ast.all_exprs().any(|expr| match expr {
            cue_syntax::ast::Expr::Call(function, _) => match file.ast.expr(function) {
                cue_syntax::ast::Expr::Ident(name) => file.ast.str(name) == "error",
                _ => false,
            },
            _ => false,
        })
    };
    (minor < 14 && files.iter().any(|(_, text)| is_called(text)))
        .then(|| one_error(Class::Compile, "error is not in the language of the module"))
}

/// The packages of a record's own module: an evaluator without modules gets them registered.
pub(crate) fn packages(record: &Record<'_>) -> Packages {
    let mut packages = reference();
    let Some(module) = module_of(record) else { return packages };
    for (name, text) in record.files() {
        let Some((folder, _)) = name.rsplit_once('/').filter(|_| name.ends_with(".cue")) else {
            continue;
        };
        if folder == "cue.mod" {
            continue;
        }
        let copied = ["cue.mod/pkg/", "cue.mod/gen/", "cue.mod/usr/"];
        let path = match copied.iter().find_map(|copies| folder.strip_prefix(copies)) {
            Some(copied) => copied.to_owned(),
            None => format!("{module}/{folder}"),
        };
        // What is of no package by name cannot be imported.
        let Some(package) = package_of(name, text).filter(|name| name != "_") else { continue };
        // Modules of records have one major version.
        for version in ["", "@v0"] {
            if path.ends_with(&format!("/{package}")) {
                packages.register(&format!("{path}{version}"), text);
            }
            packages.register(&format!("{path}{version}:{package}"), text);
        }
    }
    packages
}

/// Runs a function of a package on one argument.
pub(crate) fn call(package: &str, function: &str, argument: &Value) -> Result<Value, Errors> {
    let source = format!("import p \"{package}\"\nout: p.{function}\nin: _\n");
    let files = [("call.cue", source.as_str())];
    let (mut evaluation, root) = evaluate(&files, None, &[("in", argument)])?;
    match evaluation.lookup(root, "out") {
        Some(node) => evaluation.export(node),
        None => Err(one_error(Class::Eval, "no result")),
    }
}

/// As [`evaluate`], with more packages than the standard ones.
pub(crate) fn evaluate_with(
    packages: &Packages,
    files: &[(&str, &str)],
    expression: Option<&str>,
    inputs: &[(&str, &Value)],
) -> Result<(Evaluation, Node), Errors> {
    let extra = expression.map(|expression| {
        let package = files.iter().find_map(|(name, text)| package_of(name, text));
        let clause = package.map(|name| format!("package {name}\n")).unwrap_or_default();
        let imports = super::imports::imports(expression, files);
        format!("{clause}{imports}{EXPRESSION}: ({expression})\n")
    });
    let mut files = files.to_vec();
    if let Some(extra) = &extra {
        files.push(("--expression", extra));
    }
    let program = Program::compile_files(&files, packages)?;
    let mut evaluation = program.evaluate(inputs, &Limits::default());
    let root = evaluation.root();
    let node = match extra {
        None => root,
        Some(_) => match evaluation.lookup(root, EXPRESSION) {
            Some(node) => node,
            None => {
                return Err(evaluation
                    .error(root)
                    .unwrap_or_else(|| one_error(Class::Eval, "expression not found")));
            }
        },
    };
    Ok((evaluation, node))
}

pub(crate) fn data(value: &Value) -> Json {
    Json::parse(&value.to_json_text()).unwrap_or_default()
}

pub(crate) fn exported(result: Result<Value, Errors>) -> Json {
    match result {
        Ok(value) => Json::object([("json", data(&value))]),
        Err(errors) => failure(&errors),
    }
}

/// The whole instance, or the record's expression, as JSON.
pub(crate) fn export(record: &Record<'_>) -> Json {
    if let Some(errors) = too_new(record, &record.loaded()) {
        return failure(&errors);
    }
    let outcome = evaluate_with(&packages(record), &record.loaded(), record.json.str("expr"), &[]);
    exported(outcome.and_then(|(mut evaluation, node)| evaluation.export(node)))
}

/// The record's expression as CUE text, defaults not taken.
pub(crate) fn syntax(record: &Record<'_>) -> Json {
    let options = print::Options {
        defaults: false,
        definitions: true,
        hidden: false,
        optional: true,
        docs: true,
        braces: true,
        short: false,
        indent: cue_syntax::Indent::Tab,
    };
    match evaluate_with(&packages(record), &record.loaded(), record.json.str("expr"), &[]) {
        Ok((mut evaluation, node)) => {
            let text = print::print(&mut evaluation, node, options);
            Json::object([("text", text.into())])
        }
        Err(errors) => failure(&errors),
    }
}

/// Each top-level field on its own.
pub(crate) fn fields(record: &Record<'_>) -> Json {
    let (mut evaluation, root) = match evaluate_with(&packages(record), &record.loaded(), None, &[])
    {
        Ok(found) => found,
        Err(errors) => return failure(&errors),
    };
    let which = Which { constraints: false, definitions: true, hidden: true };
    let fields = evaluation.fields(root, which);
    let answers = fields.into_iter().map(|field| {
        let answer = match evaluation.export(field.node) {
            Ok(value) => Json::object([("json", data(&value))]),
            Err(errors) => Json::object([("error", errors.class().name().into())]),
        };
        (field_label(&field), answer)
    });
    Json::object([("fields", Json::Object(answers.collect()))])
}

/// A label in CUE syntax.
fn field_label(field: &cue::Field) -> String {
    let label = field.label.as_str();
    let plain = !label.starts_with(['_', '#'])
        && label.starts_with(|c: char| c.is_alphabetic() || c == '$')
        && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    if plain || field.class != cue::LabelClass::Regular {
        return label.to_owned();
    }
    Json::from(label).to_string()
}

/// `Value.Validate` with the record's options.
pub(crate) fn validate(record: &Record<'_>) -> Json {
    let options = record.json.strings("options");
    let concrete = options.contains(&"concrete=true");
    let cycles = options.contains(&"disallowcycles=true");
    let outcome = evaluate_with(&packages(record), &record.loaded(), None, &[]).and_then(
        |(mut evaluation, node)| {
            evaluation.validate(node, concrete)?;
            if cycles {
                // Cycle errors are incomplete by nature; only this option reports them.
                if let Err(errors) = evaluation.validate(node, true)
                    && errors.list().iter().any(|error| error.class == Class::Cycle)
                {
                    return Err(errors);
                }
            }
            Ok(())
        },
    );
    match outcome {
        Ok(()) => Json::object([("valid", true.into())]),
        Err(errors) => failure(&errors),
    }
}

/// The unification of paths of one instance, or of two whole files.
pub(crate) fn unify(record: &Record<'_>) -> Json {
    let paths = record.json.strings("unify");
    let names = record.json.strings("unify_files");
    let joined = |parts: Vec<String>| parts.join(" & ");
    let outcome = if names.is_empty() {
        let expression = joined(paths.iter().map(|path| format!("({path})")).collect());
        evaluate_with(&packages(record), &record.loaded(), Some(&expression), &[])
    } else {
        let texts = names.iter().filter_map(|name| record.file(name));
        let text = joined(texts.map(|text| format!("{{\n{text}\n}}")).collect());
        evaluate(&[("in.cue", &text)], None, &[])
    };
    let outcome = outcome.and_then(|(mut evaluation, node)| match record.kind() {
        "json" => evaluation.export(node).map(Some),
        _ => evaluation.validate(node, false).map(|()| None),
    });
    match outcome {
        Ok(Some(value)) => Json::object([("json", data(&value))]),
        Ok(None) => Json::object([("valid", true.into())]),
        Err(errors) => failure(&errors),
    }
}

/// The value of an expression of a status template, with the live object as context.
pub(crate) fn status(record: &Record<'_>) -> Json {
    let inputs = match inputs(record) {
        Ok(inputs) => inputs,
        Err(errors) => return failure(&errors),
    };
    let inputs: Vec<(&str, &Value)> = inputs.iter().map(|(name, value)| (*name, value)).collect();
    let text = record.file("template.cue").unwrap_or_default();
    let text = format!("{text}\ncontext: _\nparameter: _\n");
    let path = record.json.str("expr").unwrap_or_default();
    // A path, not an expression: the field may come from a comprehension.
    let outcome = evaluate_with(&Packages::std(), &[("template.cue", &text)], None, &inputs);
    exported(outcome.and_then(|(mut evaluation, root)| match evaluation.lookup(root, path) {
        Some(node) => evaluation.export(node),
        None => Err(one_error(Class::Incomplete, format!("{path} not found"))),
    }))
}

/// `parameter` and `context`, as far as they are objects.
pub(crate) fn inputs(record: &Record<'_>) -> Result<Vec<(&'static str, Value)>, Errors> {
    let mut inputs = Vec::new();
    for (name, file) in [("parameter", "parameter.json"), ("context", "context.json")] {
        let Some(text) = record.file(file) else { continue };
        let json: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| one_error(Class::Parse, format!("{file}: {error}")))?;
        if !json.is_null() {
            inputs.push((name, Value::from(json)));
        }
    }
    Ok(inputs)
}
