//! Which modules of a crate import each other in a circle: who reads one of them has to read all.
//!
//! An import is a path that begins with `crate`, `self`, `super` or a module of the file, in a `use` or in code; one through a
//! re-export leads to the module that declares the item. A re-export itself is no import, and tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::{files, none};
use vela_tests::material::workspace;

/// The largest circle of a crate.
const MAX_CIRCLE: usize = 3;

/// A module by its path in the crate.
type Module = Vec<String>;

/// The paths of one file.
#[derive(Default)]
struct Paths {
    /// Inline modules around the present item.
    within: Module,
    imports: Vec<Vec<String>>,
    reexports: Vec<Vec<String>>,
    /// Modules that exist in tests only.
    tests: Vec<String>,
}

pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// The paths of a use tree.
fn expand(tree: &UseTree, mut before: Vec<String>, all: &mut Vec<Vec<String>>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, all);
        }
        UseTree::Group(group) => {
            for item in &group.items {
                expand(item, before.clone(), all);
            }
        }
        UseTree::Name(name) if name.ident == "self" => all.push(before),
        UseTree::Name(name) => {
            before.push(name.ident.to_string());
            all.push(before);
        }
        UseTree::Rename(name) => {
            before.push(name.ident.to_string());
            all.push(before);
        }
        UseTree::Glob(_) => all.push(before),
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        } else if let Item::Mod(item) = item {
            self.tests.push(item.ident.to_string());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.within.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.within.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut all = Vec::new();
        expand(&item.tree, Vec::new(), &mut all);
        let is_private = matches!(item.vis, Visibility::Inherited);
        if is_private { &mut self.imports } else { &mut self.reexports }.append(&mut all);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        if segments.len() > 1 {
            self.imports.push(segments);
        }
        visit::visit_path(self, path);
    }

    /// `pub(in path)` is no import.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// A crate's modules and what is imported from where.
struct Crate {
    files: BTreeMap<Module, Paths>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let source = folder.join("src");
        let mut files: BTreeMap<Module, Paths> = files()
            .into_iter()
            .filter_map(|path| {
                let inside = path.strip_prefix(&source).ok()?.with_extension("");
                let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
                let mut module: Module = parts.collect();
                if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
                {
                    module.pop();
                }
                let text = fs::read_to_string(&path).unwrap();
                // What is included as an expression is no module.
                let file = syn::parse_file(&text).ok()?;
                let mut paths = Paths::default();
                paths.visit_file(&file);
                Some((module, paths))
            })
            .collect();
        let tests: Vec<Module> = files
            .iter()
            .flat_map(|(module, paths)| {
                paths
                    .tests
                    .iter()
                    .map(|test| [module.as_slice(), std::slice::from_ref(test)].concat())
            })
            .collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files }
    }

    /// The module that a path leads to, and what is left of the path.
    fn resolve<'p>(&self, from: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
        let mut module = from.clone();
        let mut left = path;
        match path.first()?.as_str() {
            "crate" => {
                module.clear();
                left = &left[1..];
            }
            "self" => left = &left[1..],
            "super" => {
                while left.first().is_some_and(|part| part == "super") {
                    module.pop();
                    left = &left[1..];
                }
            }
            first => {
                module.push(first.to_owned());
                if !self.files.contains_key(&module) {
                    return None;
                }
                left = &left[1..];
            }
        }
        while let Some(next) = left.first() {
            module.push(next.clone());
            if !self.files.contains_key(&module) {
                module.pop();
                break;
            }
            left = &left[1..];
        }
        Some((module, left))
    }

    fn edges(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut declared: BTreeMap<(Module, String), Module> = BTreeMap::new();
        for (module, paths) in &self.files {
            for path in &paths.reexports {
                let Some((to, _)) = self.resolve(module, path) else { continue };
                if let Some(name) = path.last().filter(|_| to != *module) {
                    declared.insert((module.clone(), name.clone()), to);
                }
            }
        }
        let target = |from: &Module, path: &[String]| {
            let (mut to, left) = self.resolve(from, path)?;
            // A re-export of a re-export ends somewhere; a circle of them does not compile.
            while let Some(next) =
                left.first().and_then(|name| declared.get(&(to.clone(), name.clone())))
            {
                to.clone_from(next);
            }
            (to != *from).then_some(to)
        };
        let of = |(module, paths)| {
            let (module, paths): (&Module, &Paths) = (module, paths);
            let imports = paths.imports.iter();
            (module, imports.filter_map(|path| target(module, path)).collect())
        };
        self.files.iter().map(of).collect()
    }

    /// The circles, as the modules that reach each other.
    fn circles(&self) -> Vec<Vec<String>> {
        let edges = self.edges();
        let reach: BTreeMap<&Module, BTreeSet<&Module>> = edges
            .keys()
            .map(|start| {
                let mut seen = BTreeSet::new();
                let mut open: Vec<&Module> = edges[*start].iter().collect();
                while let Some(module) = open.pop() {
                    if seen.insert(module) {
                        open.extend(edges.get(module).into_iter().flatten());
                    }
                }
                (*start, seen)
            })
            .collect();
        let mut circles: Vec<Vec<String>> = Vec::new();
        let mut known: BTreeSet<&Module> = BTreeSet::new();
        for (module, reached) in &reach {
            if !reached.contains(*module) || known.contains(*module) {
                continue;
            }
            let back =
                |other: &&&Module| reach.get(**other).is_some_and(|all| all.contains(*module));
            let circle: Vec<&Module> = reached.iter().filter(back).copied().collect();
            known.extend(&circle);
            if circle.len() > 1 {
                circles.push(circle.iter().map(|module| module.join("::")).collect());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

#[test]
fn no_circle_of_modules_is_large() {
    let mut wrong = Vec::new();
    let mut folders = ["certs", "controller", "gateway", "webhook"].map(str::to_owned).to_vec();
    let shared = fs::read_dir(workspace().join("shared")).unwrap();
    folders.extend(shared.map(|entry| format!("shared/{}", entry.unwrap().file_name().display())));
    for folder in folders {
        let circles = Crate::read(&workspace().join(&folder)).circles();
        for circle in circles.iter().filter(|circle| circle.len() > MAX_CIRCLE) {
            wrong.push(format!("{folder}: {} modules: {}", circle.len(), circle.join(", ")));
        }
    }
    none("circles of modules", &wrong);
}

#[test]
fn circles_are_found() {
    let file = |text: &str| {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(text).unwrap());
        paths
    };
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let krate = Crate {
        files: BTreeMap::from([
            (Vec::new(), file("mod a; mod b; mod c;")),
            (module("a"), file("use crate::b::{self, Thing as Other};")),
            (
                module("b"),
                file("pub use inner::Thing; mod inner; fn f() -> super::c::T { todo!() }"),
            ),
            (module("b::inner"), file("pub(in crate::a) struct Thing;")),
            (module("c"), file("use crate::a::f; #[cfg(test)] mod tests { use crate::b; }")),
        ]),
    };
    assert_eq!(krate.circles(), [["a", "b", "c"]]);
}
