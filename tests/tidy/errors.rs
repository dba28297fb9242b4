//! Errors are types: a library and the controller return no text as an error, so that callers know what went wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{GenericArgument, Item, PathArguments, Type};

use crate::circles::is_test;
use crate::{files, none, relative};

/// The results of one file whose error is text.
#[derive(Default)]
struct Texts {
    lines: Vec<usize>,
    /// Files of modules that exist in tests only.
    tests: Vec<String>,
}

fn is_text(argument: &GenericArgument) -> bool {
    let GenericArgument::Type(Type::Path(path)) = argument else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "String")
}

impl<'ast> Visit<'ast> for Texts {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs[..],
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        } else if let Item::Mod(item) = item {
            self.tests.push(item.ident.to_string());
        }
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if segment.ident == "Result"
            && let PathArguments::AngleBracketed(arguments) = &segment.arguments
            && arguments.args.iter().nth(1).is_some_and(is_text)
        {
            self.lines.push(segment.ident.span().start().line);
        }
        visit::visit_path_segment(self, segment);
    }
}

/// The folder in which the modules of a file lie.
fn folder(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default();
    let parent = file.parent().unwrap_or(file);
    if ["mod", "lib", "main"].iter().any(|root| stem == *root) {
        parent.to_owned()
    } else {
        parent.join(stem)
    }
}

/// Lines with a result whose error is text, by file; tests do not count.
fn texts() -> BTreeMap<String, Vec<usize>> {
    let sources: Vec<PathBuf> = files()
        .into_iter()
        .filter(|file| {
            let path = relative(file);
            let is_source = path.contains("/src/") && path.ends_with(".rs");
            is_source
                && ["shared/", "controller/", "webhook/"].iter().any(|of| path.starts_with(of))
        })
        .collect();
    let (mut found, mut tests) = (BTreeMap::new(), BTreeSet::new());
    for file in &sources {
        let text = fs::read_to_string(file).unwrap();
        if !is_worth_parsing(&text) {
            continue;
        }
        let mut texts = Texts::default();
        texts.visit_file(&syn::parse_file(&text).unwrap());
        tests.extend(texts.tests.iter().map(|name| folder(file).join(name)));
        if !texts.lines.is_empty() {
            found.insert(file.clone(), texts.lines);
        }
    }
    found.retain(|file: &PathBuf, _| {
        !file.ancestors().any(|part| tests.contains(&part.with_extension("")))
    });
    found.into_iter().map(|(file, lines)| (relative(&file), lines)).collect()
}

/// Whether a file, as rustfmt writes it, can name such a result, or declare a module of tests. Most cannot, and parsing all takes seconds.
fn is_worth_parsing(text: &str) -> bool {
    let names_text = [", String>", "::String>"].iter().any(|end| text.contains(end))
        || text.lines().any(|line| line.trim() == "String,");
    let mut lines = text.lines().skip_while(|line| !line.contains("cfg(test)"));
    names_text || lines.any(|line| line.contains("mod ") && line.ends_with(';'))
}

#[test]
fn a_result_whose_error_is_text_is_found() {
    let source = "type A<T> = std::result::Result<T, String>;
        fn a() -> Option<Result<(), String>> { None }
        fn b() -> Result<String, Error> { c::<Vec<Result<u8, std::string::String>>>() }
        #[cfg(test)] mod tests { fn d() -> Result<(), String> { Ok(()) } }";
    assert!(is_worth_parsing(source) && is_worth_parsing("#[cfg(test)]\nmod tests;\n"));
    assert!(!is_worth_parsing("mod a;\nfn b() -> Result<u8, Error> {}\n"));
    let mut texts = Texts::default();
    texts.visit_file(&syn::parse_file(source).unwrap());
    assert_eq!((texts.lines, texts.tests), (vec![1, 2, 3], vec!["tests".to_owned()]));
    assert_eq!(folder(Path::new("a/b.rs")), Path::new("a/b"));
    assert_eq!(folder(Path::new("a/mod.rs")), Path::new("a"));
}

#[test]
fn errors_are_types() {
    let found = texts();
    let texts = found.iter().filter(|(_, lines)| !lines.is_empty());
    let wrong: Vec<String> =
        texts.map(|(file, lines)| format!("{file}: lines {lines:?}")).collect();
    none("results whose error is text, where an enum says what can go wrong", &wrong);
}
