//! Programs of several files and packages of a module.

use super::{Grower, Name, Shape};
use crate::program::{MODULE, Program};

/// A package of definitions and fields, imported by a program of two files.
pub(super) fn grow(grower: &mut Grower) -> Program {
    let mut files = Vec::new();
    // Exported names only: definitions and plain fields.
    let imported: Vec<_> = {
        let mut fields = grower.plan(0);
        fields.retain(|field| !field.label.starts_with('_'));
        fields
    };
    let parts = if grower.percent(50) { 2 } else { 1 };
    let middle = imported.len() / 2;
    let (first, second) = imported.split_at(if parts == 2 { middle } else { imported.len() });
    // Files of a package see the fields of each other.
    let scope = |fields: &[super::Planned]| -> Vec<Name> {
        let name = |field: &super::Planned| Name::bound(field.label.clone(), field.shape.clone());
        fields.iter().map(name).collect()
    };
    for (at, (fields, others)) in [(first, second), (second, first)].into_iter().enumerate() {
        if at > 0 && parts == 1 {
            continue;
        }
        grower.scopes.push(scope(others));
        let body = grower.declarations(fields, 1);
        grower.scopes.pop();
        let text = format!("package p\n{}", grower.with_imports(&body));
        files.push((format!("p/p{at}.cue"), text));
    }
    let fields = grower.plan(0);
    let (first, second) = fields.split_at(fields.len() / 2);
    for (at, (fields, others)) in [(first, second), (second, first)].into_iter().enumerate() {
        let mut names = scope(others);
        let package = Shape::Struct(imported.clone());
        let imports = at == 0 || grower.percent(50);
        if imports {
            names.push(Name::bound("p".to_owned(), package));
        }
        grower.scopes.push(names);
        let body = grower.declarations(fields, 1);
        grower.scopes.pop();
        let uses = grower.used.remove("p");
        let import = if uses { format!("import \"{MODULE}/p\"\n") } else { String::new() };
        let text = format!("package main\n{import}{}", grower.with_imports(&body));
        files.push((format!("in{at}.cue"), text));
    }
    Program::new(files)
}
