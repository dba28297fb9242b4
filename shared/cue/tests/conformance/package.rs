//! The files of the packages that a command line names.

use cue::{Class, Errors};

use super::eval::{module_of, one_error, package_of};
use super::record::Record;
use super::tags::Tags;

/// The files of a package that an argument names: a folder below `base` or an import path of the module, and behind a colon the
/// package, if the folder has several. Files of that package in folders above it belong to it, as far as the module goes.
pub(crate) fn package<'r>(
    record: &Record<'r>,
    tags: &Tags,
    base: &str,
    argument: &str,
) -> Result<Vec<(&'r str, &'r str)>, Errors> {
    let (place, name) = argument.rsplit_once(':').map_or((argument, None), |(a, b)| (a, Some(b)));
    let module = module_of(record);
    let (place, _) = place.split_once('@').unwrap_or((place, ""));
    let (folder, imported) = match (place, place.strip_prefix("./")) {
        ("" | ".", _) => (base.to_owned(), false),
        (_, Some(below)) => (format!("{base}{below}"), false),
        _ => match module.and_then(|module| place.strip_prefix(module)) {
            Some(below) => (below.to_owned(), true),
            None => return Err(one_error(Class::Eval, format!("no such file: {argument}"))),
        },
    };
    let folder = folder.trim_matches('/');
    let mut found = files(record, tags, folder);
    let name = match name {
        Some(name) => name.to_owned(),
        // The last element of an import path is the name of the package.
        None if imported => {
            let last = place.rsplit('/').next().unwrap_or_default();
            if last.starts_with(|c: char| c.is_ascii_digit()) || last.contains(['-', '.']) {
                let message = format!("{argument} does not say which package is meant");
                return Err(one_error(Class::Compile, message));
            }
            last.to_owned()
        }
        None => {
            let mut names: Vec<&String> = found.iter().map(|(name, ..)| name).collect();
            names.sort_unstable();
            names.dedup();
            let [name] = names[..] else {
                let message = format!("{argument} names {} packages", names.len());
                return Err(one_error(Class::Eval, message));
            };
            name.clone()
        }
    };
    found.retain(|(other, ..)| *other == name);
    if found.is_empty() {
        return Err(one_error(Class::Compile, format!("no package {name} in {argument}")));
    }
    let mut above = folder;
    while module.is_some() && !above.is_empty() {
        above = above.rsplit_once('/').map_or("", |(above, _)| above);
        found.extend(files(record, tags, above).into_iter().filter(|(other, ..)| *other == name));
    }
    found.sort_by_key(|(_, path, _)| *path);
    Ok(found.into_iter().map(|(_, path, text)| (path, text)).collect())
}

/// The folders with packages that `./...` means: all below `base` but those that hold a module's
/// own files or are hidden.
pub(crate) fn folders(record: &Record<'_>, base: &str) -> Vec<String> {
    let folders =
        record.files().filter(|(path, _)| path.ends_with(".cue")).filter_map(|(path, _)| {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let below = format!("{folder}/");
            let below = below.strip_prefix(base)?.trim_matches('/').to_owned();
            let is_hidden = |part: &str| part.starts_with(['.', '_']) || part == "cue.mod";
            (!below.split('/').any(is_hidden)).then_some(below)
        });
    let mut folders: Vec<String> = folders.collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// The files of a folder that are part of packages, each with its package.
fn files<'r>(record: &Record<'r>, tags: &Tags, of: &str) -> Vec<(String, &'r str, &'r str)> {
    let is_part = |name: &str| {
        let stem = name.strip_suffix(".cue").unwrap_or("_");
        !stem.starts_with(['_', '.']) && !stem.ends_with("_tool") && !stem.ends_with("_test")
    };
    let named = record.files().filter_map(|(path, text)| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        (folder == of && is_part(name) && tags.admit(text)).then_some((path, text))
    });
    named.filter_map(|(path, text)| Some((package_of(path, text)?, path, text))).collect()
}
