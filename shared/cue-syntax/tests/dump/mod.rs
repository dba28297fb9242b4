//! A tree as text without places: two texts with equal dumps mean the same.

use std::fmt::Write as _;

use cue_syntax::File;
use cue_syntax::ast::{Ast, Clause, DeclId, DeclKind, Expr, ExprId, Label, Part};

/// The dump of a whole file.
pub(crate) fn dump(file: &File) -> String {
    let mut out = String::new();
    if let Some(name) = &file.package {
        let _ = write!(out, "package {} ", file.ast.str(name.symbol));
    }
    for import in &file.imports {
        let name = import.name.map(|name| file.ast.str(name.symbol));
        let _ = write!(out, "import {name:?} {:?} ", file.ast.str(import.path));
    }
    for decl in file.ast.decls(file.decls) {
        self::decl(&file.ast, decl, &mut out);
    }
    out
}

fn decl(ast: &Ast, id: DeclId, out: &mut String) {
    match ast.decl(id).kind {
        DeclKind::Bad => out.push_str("(bad)"),
        DeclKind::Field(field) => {
            let field = ast.field(field);
            let _ = write!(
                out,
                "(field {:?} {:?} ",
                field.alias.map(|a| ast.str(a.symbol)),
                field.marker
            );
            match field.label {
                Label::Ident(symbol) => out.push_str(ast.str(symbol)),
                Label::String(symbol) => {
                    let _ = write!(out, "{:?}", ast.str(symbol));
                }
                Label::Interpolation(e) => expr(ast, e, out),
                Label::Dynamic(e) => {
                    out.push_str("dynamic ");
                    expr(ast, e, out);
                }
                Label::Pattern { alias, pattern } => {
                    let _ = write!(out, "pattern {:?} ", alias.map(|a| ast.str(a.symbol)));
                    expr(ast, pattern, out);
                }
            }
            out.push(' ');
            expr(ast, field.value, out);
            for attribute in ast.symbols(field.attributes) {
                let _ = write!(out, " {}", ast.str(attribute));
            }
            out.push(')');
        }
        DeclKind::Embed(e) => {
            out.push_str("(embed ");
            expr(ast, e, out);
            out.push(')');
        }
        DeclKind::Ellipsis(e) => {
            out.push_str("(...");
            if let Some(e) = e {
                expr(ast, e, out);
            }
            out.push(')');
        }
        DeclKind::Let(name, e) | DeclKind::Alias(name, e) => {
            let _ = write!(out, "(let {} ", ast.str(name.symbol));
            expr(ast, e, out);
            out.push(')');
        }
        DeclKind::Comprehension(id) => expr_comprehension(ast, id, out),
        DeclKind::Attribute(symbol) => {
            let _ = write!(out, "({})", ast.str(symbol));
        }
    }
}

fn expr_comprehension(ast: &Ast, id: cue_syntax::ast::ComprehensionId, out: &mut String) {
    let comprehension = ast.comprehension(id);
    out.push_str("(comprehension");
    for clause in ast.clauses(comprehension.clauses) {
        match clause {
            Clause::For { key, value, source } => {
                let key = key.map(|k| ast.str(k.symbol));
                let _ = write!(out, " for {key:?} {} ", ast.str(value.symbol));
                expr(ast, *source, out);
            }
            Clause::If(e) => {
                out.push_str(" if ");
                expr(ast, *e, out);
            }
            Clause::Let(name, e) => {
                let _ = write!(out, " let {} ", ast.str(name.symbol));
                expr(ast, *e, out);
            }
        }
    }
    expr(ast, comprehension.body, out);
    out.push(')');
}

fn expr(ast: &Ast, id: ExprId, out: &mut String) {
    let _ = match ast.expr(id) {
        Expr::Bad => write!(out, "bad"),
        Expr::Bottom => write!(out, "_|_"),
        Expr::Top => write!(out, "_"),
        Expr::Null => write!(out, "null"),
        Expr::Bool(b) => write!(out, "{b}"),
        Expr::Number(symbol) => write!(out, "{}", ast.str(symbol)),
        Expr::String(symbol) => write!(out, "{:?}", ast.str(symbol)),
        Expr::Bytes(bytes) => write!(out, "{:?}", ast.bytes(bytes)),
        Expr::Ident(symbol) => write!(out, "{}", ast.str(symbol)),
        Expr::Interpolation { parts, bytes } => {
            let _ = write!(out, "(interpolation {bytes}");
            for part in ast.parts(parts) {
                match part {
                    Part::Text(symbol) => {
                        let _ = write!(out, " {:?}", ast.str(*symbol));
                    }
                    Part::Bytes(bytes) => {
                        let _ = write!(out, " {:?}", ast.bytes(*bytes));
                    }
                    Part::Expr(e) => expr(ast, *e, out),
                }
            }
            write!(out, ")")
        }
        Expr::Struct { decls, .. } => {
            out.push('{');
            for id in ast.decls(decls) {
                decl(ast, id, out);
            }
            write!(out, "}}")
        }
        Expr::List(elements) => {
            out.push('[');
            for element in ast.exprs(elements) {
                expr(ast, element, out);
                out.push(' ');
            }
            write!(out, "]")
        }
        Expr::Ellipsis(e) => {
            out.push_str("...");
            if let Some(e) = e {
                expr(ast, e, out);
            }
            Ok(())
        }
        Expr::Comprehension(id) => {
            expr_comprehension(ast, id, out);
            Ok(())
        }
        Expr::Paren(e) => {
            out.push_str("(paren ");
            expr(ast, e, out);
            write!(out, ")")
        }
        Expr::Unary(op, e) => {
            let _ = write!(out, "({op:?} ");
            expr(ast, e, out);
            write!(out, ")")
        }
        Expr::Binary(op, a, b) => {
            let _ = write!(out, "({op:?} ");
            expr(ast, a, out);
            out.push(' ');
            expr(ast, b, out);
            write!(out, ")")
        }
        Expr::Selector(e, selector) => {
            out.push_str("(. ");
            expr(ast, e, out);
            write!(out, " {} {})", selector.quoted, ast.str(selector.symbol))
        }
        Expr::Index(a, b) => {
            out.push_str("(index ");
            expr(ast, a, out);
            out.push(' ');
            expr(ast, b, out);
            write!(out, ")")
        }
        Expr::Slice(e, low, high) => {
            out.push_str("(slice ");
            for part in [Some(e), low, high] {
                match part {
                    Some(part) => expr(ast, part, out),
                    None => out.push_str(" - "),
                }
            }
            write!(out, ")")
        }
        Expr::Call(e, arguments) => {
            out.push_str("(call ");
            expr(ast, e, out);
            for argument in ast.exprs(arguments) {
                out.push(' ');
                expr(ast, argument, out);
            }
            write!(out, ")")
        }
        Expr::Alias(name, e) => {
            let _ = write!(out, "(alias {} ", ast.str(name.symbol));
            expr(ast, e, out);
            write!(out, ")")
        }
    };
}
