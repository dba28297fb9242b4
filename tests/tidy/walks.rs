//! How far one parameter travels: a function that hands a value to ten files is read together with all of them.
//!
//! A walk starts at a parameter of a function and follows the calls in its body that pass the parameter on, as an argument or as
//! the receiver of a method, by its own name. What is read from it, and what is passed on in a struct, is another value.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use syn::visit::{self, Visit};
use syn::{Expr, FnArg, ImplItem, Item, Pat, Signature, Type};

use crate::circles::is_test;
use crate::{files, none, relative};

/// Files that a walk may enter.
const MAX_ROOMS: usize = 10;

/// Where a walk starts: file, function, parameter.
const STARTS: [(&str, &str, &str); 3] = [
    ("controller/src/application/mod.rs", "reconcile", "ctx"),
    ("controller/src/application/dispatch/mod.rs", "dispatch", "self"),
    ("controller/src/application/converge/statekeep.rs", "keep", "session"),
];

/// Walks that are longer, by their function, and how long they may be. The numbers only fall.
const LONGER: [(&str, usize); 0] = [];

/// A function.
struct Function {
    file: String,
    name: String,
    /// Of methods, the type they belong to.
    of: Option<String>,
    /// Names of its parameters with the names of their types; `self` is the first.
    parameters: Vec<(String, String)>,
    block: syn::Block,
}

/// The last name of a type, behind references.
fn named(of: &Type) -> String {
    match of {
        Type::Reference(of) => named(&of.elem),
        Type::Path(of) => {
            of.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

impl Function {
    fn new(file: &str, of: Option<&str>, signature: &Signature, block: syn::Block) -> Self {
        let parameters = signature.inputs.iter().map(|input| match input {
            FnArg::Receiver(_) => ("self".to_owned(), of.unwrap_or_default().to_owned()),
            FnArg::Typed(typed) => {
                let name = match &*typed.pat {
                    Pat::Ident(name) => name.ident.to_string(),
                    _ => String::new(),
                };
                (name, named(&typed.ty))
            }
        });
        Self {
            file: file.to_owned(),
            name: signature.ident.to_string(),
            of: of.map(str::to_owned),
            parameters: parameters.collect(),
            block,
        }
    }
}

/// All functions of a file, but for those of tests.
fn functions(file: &str, items: Vec<Item>, all: &mut Vec<Function>) {
    for item in items {
        match item {
            Item::Fn(item) if !is_test(&item.attrs) => {
                all.push(Function::new(file, None, &item.sig, *item.block));
            }
            Item::Impl(item) if !is_test(&item.attrs) => {
                let of = named(&item.self_ty);
                for item in item.items {
                    if let ImplItem::Fn(item) = item {
                        all.push(Function::new(file, Some(&of), &item.sig, item.block));
                    }
                }
            }
            Item::Mod(item) if !is_test(&item.attrs) => {
                if let Some((_, items)) = item.content {
                    functions(file, items, all);
                }
            }
            _ => {}
        }
    }
}

/// A call that passes a parameter on: the callee's path, or its name for a method, and the position of the argument.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    path: Vec<String>,
    is_method: bool,
    position: usize,
}

/// The calls of a body that pass a parameter on.
struct Calls<'n> {
    parameter: &'n str,
    found: Vec<Call>,
}

impl Calls<'_> {
    fn is_parameter(&self, value: &Expr) -> bool {
        match value {
            Expr::Path(path) => path.path.is_ident(self.parameter),
            Expr::Reference(of) => self.is_parameter(&of.expr),
            Expr::Unary(of) => self.is_parameter(&of.expr),
            Expr::Paren(of) => self.is_parameter(&of.expr),
            _ => false,
        }
    }

    fn arguments<'a>(
        &mut self,
        path: &[String],
        is_method: bool,
        all: impl Iterator<Item = &'a Expr>,
    ) {
        for (position, argument) in all.enumerate() {
            if self.is_parameter(argument) {
                self.found.push(Call { path: path.to_vec(), is_method, position });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let path: Vec<String> =
                path.path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.arguments(&path, false, call.args.iter());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let path = [call.method.to_string()];
        self.arguments(&path, true, std::iter::once(&*call.receiver).chain(&call.args));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// The file of a module, as the last part of a path to its functions.
fn module(file: &str) -> &str {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.rsplit('/').next().unwrap_or(path)
}

/// The functions that a call in `from` may lead to.
fn callees<'f>(all: &'f [Function], from: &Function, kind: &str, call: &Call) -> Vec<&'f Function> {
    let name = call.path.last().map(String::as_str).unwrap_or_default();
    let mut fits: Vec<&Function> = all
        .iter()
        .filter(|callee| {
            let parameter = callee.parameters.get(call.position);
            callee.name == name && parameter.is_some_and(|(_, of)| of == kind)
        })
        .collect();
    if call.is_method {
        // The receiver of a method has its type; an argument of one may be of any method of this name.
        fits.retain(|callee| callee.of.is_some());
    } else if let [.., qualifier, _] = &call.path[..] {
        fits.retain(|callee| {
            module(&callee.file) == qualifier || callee.of.as_ref() == Some(qualifier)
        });
    } else {
        fits.retain(|callee| callee.of.is_none());
        if fits.iter().any(|callee| callee.file == from.file) {
            fits.retain(|callee| callee.file == from.file);
        }
    }
    fits
}

/// The files that a walk enters.
fn rooms(all: &[Function], (file, name, parameter): (&str, &str, &str)) -> BTreeSet<String> {
    let start = all.iter().find(|function| function.file == file && function.name == name);
    let start = start.unwrap_or_else(|| panic!("no function {name} in {file}"));
    let mut rooms = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![(start, parameter.to_owned())];
    while let Some((function, parameter)) = open.pop() {
        let identity = (function.file.clone(), function.of.clone(), function.name.clone());
        if !seen.insert((identity, parameter.clone())) {
            continue;
        }
        rooms.insert(function.file.clone());
        let known = function.parameters.iter().find(|(name, _)| *name == parameter);
        let Some((_, kind)) = known else { continue };
        let mut calls = Calls { parameter: &parameter, found: Vec::new() };
        calls.visit_block(&function.block);
        for call in calls.found {
            for callee in callees(all, function, kind, &call) {
                if let Some((name, _)) = callee.parameters.get(call.position) {
                    open.push((callee, name.clone()));
                }
            }
        }
    }
    rooms
}

#[test]
fn no_parameter_walks_far() {
    let mut all = Vec::new();
    for file in files() {
        let path = relative(&file);
        if path.starts_with("controller/src/")
            && !path.starts_with("controller/src/simulation/")
            && path.ends_with(".rs")
        {
            let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
            functions(&path, parsed.items, &mut all);
        }
    }
    let longer = BTreeMap::from(LONGER);
    let mut wrong = Vec::new();
    for start in STARTS {
        let rooms = rooms(&all, start);
        let allowed = longer.get(start.1).copied().unwrap_or(MAX_ROOMS);
        if rooms.len() > allowed {
            let rooms: Vec<_> = rooms.into_iter().collect();
            wrong.push(format!(
                "{} of {}: {} files of {allowed}: {}",
                start.2,
                start.1,
                rooms.len(),
                rooms.join(", ")
            ));
        } else if allowed > MAX_ROOMS && rooms.len() < allowed {
            wrong.push(format!(
                "{}: {}, and the list says {allowed}: lower it",
                start.1,
                rooms.len()
            ));
        }
    }
    none("parameters that walk far", &wrong);
}

#[test]
fn walks_follow_the_parameter() {
    let mut all = Vec::new();
    for (file, text) in [
        (
            "a.rs",
            "fn start(s: &S, n: u8) { b::next(s); other(n); s.method(1); let s2 = s.clone(); }",
        ),
        ("b.rs", "fn next(of: &S) { last(&of) } fn last(s: &S) {} fn unused(s: &S) { c::far(s) }"),
        ("c.rs", "impl S { fn method(&self, n: u8) { d::deep(n, self) } } fn far(s: &S) {}"),
        ("d.rs", "fn deep(n: u8, s: &S) {} fn other(n: u8) {}"),
        ("e.rs", "fn next(s: &S) {} impl T { fn method(&self) {} }"),
    ] {
        functions(file, syn::parse_file(text).unwrap().items, &mut all);
    }
    let entered = rooms(&all, ("a.rs", "start", "s"));
    assert_eq!(entered.into_iter().collect::<Vec<_>>(), ["a.rs", "b.rs", "c.rs", "d.rs"]);
}
