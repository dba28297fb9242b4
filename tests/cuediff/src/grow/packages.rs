//! Programs of several files and packages of a module.

use super::{Grower, Name, Planned, Shape};
use crate::program::{MODULE, Program};

/// A package that can be imported.
struct Package {
    name: &'static str,
    /// What importers can refer to: definitions and plain fields.
    exported: Vec<Planned>,
}

/// A program of two files that imports a package, which may import another.
pub(super) fn grow(g: &mut Grower) -> Program {
    let mut files = Vec::new();
    let mut packages: Vec<Package> = Vec::new();
    if g.percent(40) {
        packages.push(package(g, "q", &[], &mut files));
    }
    let p = package(g, "p", &packages, &mut files);
    packages.push(p);
    let fields = g.plan(0);
    let (first, second) = fields.split_at(fields.len() / 2);
    for (at, (fields, others)) in [(first, second), (second, first)].into_iter().enumerate() {
        let imports = at == 0 || g.percent(50);
        let body = file(g, "main", fields, others, if imports { &packages } else { &[] });
        files.push((format!("in{at}.cue"), body));
    }
    Program::new(files)
}

fn package(
    g: &mut Grower,
    name: &'static str,
    imported: &[Package],
    files: &mut Vec<(String, String)>,
) -> Package {
    let fields = g.plan(0);
    let parts = if g.percent(50) { 2 } else { 1 };
    let middle = fields.len() / 2;
    let (first, second) = fields.split_at(if parts == 2 { middle } else { fields.len() });
    for (at, (fields, others)) in [(first, second), (second, first)].into_iter().enumerate() {
        if at < parts {
            let body = file(g, name, fields, others, imported);
            files.push((format!("{name}/{name}{at}.cue"), body));
        }
    }
    let mut exported = fields;
    exported.retain(|field| !field.label.starts_with('_'));
    Package { name, exported }
}

/// One file. Files of a package see the fields of each other.
fn file(
    g: &mut Grower,
    package: &str,
    fields: &[Planned],
    others: &[Planned],
    imported: &[Package],
) -> String {
    let mut names: Vec<Name> =
        others.iter().map(|field| Name::bound(field.label.clone(), field.shape.clone())).collect();
    let mut imports = Vec::new();
    for package in imported {
        let path = format!("{MODULE}/{}", package.name);
        let (name, import) = match g.rng.u32(..6) {
            0 => (format!("{}2", package.name), format!("import {}2 \"{path}\"\n", package.name)),
            1 => (package.name.to_owned(), format!("import \"{path}:{}\"\n", package.name)),
            _ => (package.name.to_owned(), format!("import \"{path}\"\n")),
        };
        names.push(Name::bound(name.clone(), Shape::Struct(package.exported.clone())));
        imports.push((name, import));
    }
    g.scopes.push(names);
    let body = g.declarations(fields, 1);
    g.scopes.pop();
    let mut used = String::new();
    for (name, import) in imports {
        if g.used.remove(&name) {
            used += &import;
        }
    }
    format!("package {package}\n{used}{}", g.with_imports(&body))
}
