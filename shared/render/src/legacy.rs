//! Old CUE syntax that current CUE refuses, rewritten before compilation.
//!
//! Until v0.11 `+` and `*` joined and repeated lists; today that is an error, and templates in use
//! still do it. What is surely a list is rewritten to `list.Concat` and `list.Repeat`: a list
//! literal, or a name that the text defines as a list wherever it defines it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use cue_syntax::ast::{Ast, BinaryOp, DeclKind, Expr, ExprId, Label, Symbol};
use cue_syntax::{File, ParseLimits, parse};

/// Each round rewrites one operator; no template in use has more than a few.
const MAX_ROUNDS: usize = 200;

/// The text in current syntax; unchanged if there is nothing old in it.
#[must_use]
pub fn upgrade(text: &str) -> Cow<'_, str> {
    // Most templates have neither operator near a list.
    if !text.contains('+') && !text.contains('*') {
        return Cow::Borrowed(text);
    }
    let mut current = Cow::Borrowed(text);
    for _ in 0..MAX_ROUNDS {
        let (file, errors) = parse("", &current, &ParseLimits::default());
        if !errors.is_empty() {
            return Cow::Borrowed(text);
        }
        match rewrite_one(&file) {
            Some(next) => current = Cow::Owned(next),
            None => break,
        }
    }
    current
}

/// Rewrites the innermost operator on lists, with the import it needs.
fn rewrite_one(file: &File) -> Option<String> {
    let ast = &file.ast;
    let lists = list_names(ast, file);
    let ids = (0..ast.expr_count()).filter_map(|id| u32::try_from(id).ok()).map(ExprId);
    for id in ids {
        let Expr::Binary(op, left, right) = ast.expr(id) else { continue };
        let is_list = |expr| is_list(ast, expr, &lists);
        let (left_list, right_list) = (is_list(left), is_list(right));
        let (a, b) = (file.text(ast.span(left)), file.text(ast.span(right)));
        let name = import_name(file);
        let package = name.as_deref().unwrap_or("list");
        let call = match op {
            BinaryOp::Add if left_list || right_list => format!("{package}.Concat([{a}, {b}])"),
            BinaryOp::Multiply if left_list && !right_list => format!("{package}.Repeat({a}, {b})"),
            BinaryOp::Multiply if right_list && !left_list => format!("{package}.Repeat({b}, {a})"),
            _ => continue,
        };
        let span = ast.span(id);
        let (start, end) = (span.start as usize, span.end as usize);
        let before = file.source.get(..start)?;
        let after = file.source.get(end..)?;
        let text = format!("{before}{call}{after}");
        if name.is_some() {
            return Some(text);
        }
        // The import clause stands behind the package clause.
        let at = file.package.map_or(0, |name| name.span.end as usize);
        let (head, tail) = text.split_at_checked(at)?;
        let gap = if at > 0 { "\n" } else { "" };
        return Some(format!("{head}{gap}import \"list\"\n{tail}"));
    }
    None
}

/// The name under which the text imports package `list`.
fn import_name(file: &File) -> Option<String> {
    let import = file.imports.iter().find(|import| file.ast.str(import.path) == "list")?;
    Some(import.local_name(&file.ast).to_owned())
}

/// The names of fields that are lists wherever they are defined. A second reconcile finds the fields
/// defined by those of the first.
fn list_names(ast: &Ast, file: &File) -> HashSet<Symbol> {
    let mut lists = HashSet::new();
    for _ in 0..3 {
        let mut found: HashMap<Symbol, bool> = HashMap::new();
        let mut note = |name: Symbol, value: ExprId| {
            let list = is_list(ast, value, &lists);
            let all = found.entry(name).or_insert(true);
            *all = *all && list;
        };
        let mut decls: Vec<_> = ast.decls(file.decls).collect();
        for id in (0..ast.expr_count()).filter_map(|id| u32::try_from(id).ok()) {
            if let Expr::Struct { decls: inner, .. } = ast.expr(ExprId(id)) {
                decls.extend(ast.decls(inner));
            }
        }
        for decl in decls {
            match ast.decl(decl).kind {
                DeclKind::Field(id) => {
                    let field = ast.field(id);
                    if let Label::Ident(name) | Label::String(name) = field.label {
                        note(name, field.value);
                    }
                }
                DeclKind::Let(name, value) => note(name.symbol, value),
                _ => {}
            }
        }
        lists = found.into_iter().filter(|(_, all)| *all).map(|(name, _)| name).collect();
    }
    lists
}

fn is_list(ast: &Ast, expr: ExprId, lists: &HashSet<Symbol>) -> bool {
    let mut expr = expr;
    loop {
        expr = match ast.expr(expr) {
            Expr::List(_) => return true,
            Expr::Ident(name) => return lists.contains(&name),
            Expr::Selector(_, selector) => return lists.contains(&selector.symbol),
            Expr::Paren(inner) | Expr::Unary(cue_syntax::ast::UnaryOp::Default, inner) => inner,
            // `*[] | [...string]`: all alternatives are.
            Expr::Binary(BinaryOp::Or, left, right) => {
                if !is_list(ast, right, lists) {
                    return false;
                }
                left
            }
            Expr::Binary(BinaryOp::Add, left, right) => {
                if is_list(ast, right, lists) {
                    return true;
                }
                left
            }
            Expr::Call(function, _) => {
                let Expr::Selector(package, name) = ast.expr(function) else { return false };
                let Expr::Ident(package) = ast.expr(package) else { return false };
                return ast.str(package) == "list"
                    && matches!(
                        ast.str(name.symbol),
                        "Concat" | "Repeat" | "Slice" | "Take" | "Drop" | "FlattenN" | "Sort"
                    );
            }
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_on_lists_become_calls() {
        for (old, new) in [
            ("a: [1] + [2]\n", "import \"list\"\na: list.Concat([[1], [2]])\n"),
            ("a: [1]\nb: a * 3\n", "import \"list\"\na: [1]\nb: list.Repeat(a, 3)\n"),
            (
                "package p\n\na: [1]\nb: a + a + [2]\n",
                "package p\nimport \"list\"\n\n\na: [1]\nb: list.Concat([list.Concat([a, a]), [2]])\n",
            ),
            (
                "import \"list\"\na: [...int]\nb: x.a + c\n",
                "import \"list\"\na: [...int]\nb: list.Concat([x.a, c])\n",
            ),
        ] {
            assert_eq!(upgrade(old), new);
        }
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "a: 1\nb: a + 2\n",
            "a: \"x\" + \"y\"\n",
            "x: a: [1]\ny: a: 1\nb: a + c\n",
            "a: *1 | int\nb: [for x in y {x * 2}]\n",
            "a: [1] + \n",
            "a: {}\n",
        ] {
            assert_eq!(upgrade(text), text);
        }
    }
}
