//! `let` clauses of status texts.
//!
//! In the reference a `let` at the top of a status text that cannot be computed fails the whole
//! text. Here a `let` that is a path may lead nowhere, since texts test that with `== _|_`
//! (render-4); one that computes something fails the text, instead of letting it say what does not
//! follow from the objects. To be read after evaluation a `let` needs a field.

use cue::{Errors, Evaluation};
use cue_syntax::ast::{Ast, DeclKind, Expr, ExprId};
use cue_syntax::{ParseLimits, parse};
use std::fmt::Write;

/// The hidden fields that show the computed `let` clauses are called this and a number.
const FIELD: &str = "_computedLet";

/// Declarations of the hidden fields, to be put behind the text.
pub(crate) fn fields(text: &str) -> String {
    let mut out = String::new();
    if !text.contains("let ") {
        return out;
    }
    let (file, errors) = parse("", text, &ParseLimits::default());
    if !errors.is_empty() {
        return out;
    }
    let mut count = 0_usize;
    for decl in file.ast.decls(file.decls) {
        if let DeclKind::Let(name, value) = file.ast.decl(decl).kind
            && !is_path(&file.ast, value)
        {
            let name = file.ast.str(name.symbol);
            // Writing to a string does not fail.
            let _ = write!(out, "\n{FIELD}{count}: {name}");
            count += 1;
        }
    }
    out
}

/// The error of the first computed `let` that has one.
pub(crate) fn error(evaluation: &mut Evaluation) -> Option<Errors> {
    let root = evaluation.root();
    for count in 0_usize.. {
        let node = evaluation.lookup(root, &format!("{FIELD}{count}"))?;
        if let Some(errors) = evaluation.error(node) {
            return Some(errors);
        }
    }
    None
}

fn is_path(ast: &Ast, mut expr: ExprId) -> bool {
    loop {
        expr = match ast.expr(expr) {
            Expr::Ident(_) => return true,
            Expr::Selector(of, _) | Expr::Index(of, _) | Expr::Paren(of) => of,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::{Renderer, StatusTexts};
    use serde_json::json;

    #[test]
    fn what_is_computed_of_nothing_says_nothing() {
        let renderer = Renderer::default();
        for (text, expected) in [
            ("let x = context.output.status.ip\nif x == _|_ {message: \"none\"}", "none"),
            ("let x = context.output.status[\"ip\"].v\nif x == _|_ {message: \"none\"}", "none"),
            ("let x = context.output.name + \"!\"\nmessage: x", "web!"),
            ("let x = context.output.status.ip + \"!\"\nif x == _|_ {message: \"none\"}", ""),
            ("let l = [for x in context.outputs {x}]\nmessage: \"none\"", ""),
            ("let l = [for x in context.output {x}]\nmessage: \"\\(len(l))\"", "1"),
        ] {
            let texts = StatusTexts { custom_status: Some(text.into()), ..StatusTexts::default() };
            let health = renderer.health_in(&texts, &json!({"output": {"name": "web"}}), None);
            assert_eq!(health.message, expected, "{text}");
            assert_eq!(health.warnings.is_empty(), !expected.is_empty(), "{text}");
        }
    }
}
