//! Files that a CUE file asks for: `@embed(file=...)` and `@embed(glob=...)` behind fields, where
//! `@extern(embed)` stands above the package clause.

use cue::{Class, Errors};
use cue_syntax::ast::{DeclKind, File};
use cue_syntax::{ParseLimits, parse, quote};

use super::arguments::{Refusal, qualified};
use super::eval::one_error;
use super::load::{by_extension, documents};
use super::record::Record;
use super::tags::{Asking, body};

/// The text of a file of the record with the files that it asks for in their places.
pub(crate) fn embed(record: &Record<'_>, path: &str, text: &str) -> Result<String, Refusal> {
    if !text.contains("@embed(") {
        return Ok(text.to_owned());
    }
    let (file, _) = parse("", text, &ParseLimits::default());
    if !is_allowed(&file) {
        return Ok(text.to_owned());
    }
    let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
    let asking = Asking::of(&file, "embed");
    if let Some(within) = asking.refused {
        return Err(failed(&format!("@embed within {within}")).into());
    }
    let mut out = text.to_owned();
    for (span, attribute) in asking.found.into_iter().rev() {
        let value = value(record, folder, attribute)?;
        let (start, end) = (span.start as usize, span.end as usize);
        let old = out.get(start..end).unwrap_or_default().to_owned();
        out.replace_range(start..end, &format!("({old}) & ({value})"));
    }
    Ok(out)
}

fn failed(message: &str) -> Errors {
    one_error(Class::Eval, message)
}

/// Whether the file begins with the attribute that turns embedding on.
fn is_allowed(file: &File) -> bool {
    file.ast.decls(file.decls).any(|decl| match file.ast.decl(decl).kind {
        DeclKind::Attribute(symbol) => body(file.ast.str(symbol), "extern") == Some("embed"),
        _ => false,
    })
}

/// The value that an attribute asks for, as CUE.
fn value(record: &Record<'_>, folder: &str, attribute: &str) -> Result<String, Refusal> {
    let options: Vec<(&str, &str)> =
        attribute.split(',').filter_map(|part| part.trim().split_once('=')).collect();
    let option = |key| {
        let found = options.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value.trim_matches('"'))
    };
    let read = |path: &str, text: &str| {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let form = match option("type") {
            // They were no CUE before we read them, so the package as a whole is refused.
            Some(form @ ("jsonschema" | "openapi" | "cue")) => {
                return Err(failed(&format!("files of form {form} are not embedded")).into());
            }
            Some(form) => qualified(form)?,
            None => by_extension(extension)?,
        };
        match &documents(form, path, text)?[..] {
            [one] => Ok(one.clone()),
            many => Ok(format!("[{}]", many.join(", "))),
        }
    };
    let of_folder = |name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    match (option("file"), option("glob")) {
        (Some(name), None) => {
            let path = of_folder(name);
            let text = record.file(&path).ok_or_else(|| failed(&format!("no file {path}")))?;
            read(&path, text)
        }
        (None, Some(glob)) => {
            let pattern = of_folder(glob);
            let mut found = Vec::new();
            for (path, text) in record.files().filter(|(path, _)| is_match(&pattern, path)) {
                let name = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
                found.push(format!("{}: {}", quote(name), read(path, text)?));
            }
            match found.is_empty() {
                true => Err(failed(&format!("no files {pattern}")).into()),
                false => Ok(format!("{{{}}}", found.join(", "))),
            }
        }
        _ => Err(failed("@embed needs file or glob").into()),
    }
}

/// Whether a path fits a pattern with `*` and `?`, which stand for no slash.
fn is_match(pattern: &str, path: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    let rest = pattern_chars.as_str();
    match pattern_chars.next() {
        None => path.is_empty(),
        Some('*') => {
            let rest = rest.trim_start_matches('*');
            let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
            let segment = path.find('/').unwrap_or(path.len());
            ends.take_while(|at| *at <= segment).any(|at| is_match(rest, &path[at..]))
        }
        Some(wanted) => {
            let mut chars = path.chars();
            let fits = chars.next().is_some_and(|got| got == wanted || wanted == '?' && got != '/');
            fits && is_match(pattern_chars.as_str(), chars.as_str())
        }
    }
}
