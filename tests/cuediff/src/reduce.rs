//! The smallest program with the same sort of difference.

use cue_syntax::ast::{DeclKind, Expr, ExprId, Label, Marker};

use crate::program::Program;
use crate::syntax::{Edit, children, declarations, expressions, parsed, range};

/// Programs tried for one reduction.
const MAX_TRIES: usize = 600;

/// Makes a program smaller as long as it stays `interesting`.
pub(crate) fn reduce(program: &Program, interesting: &mut dyn FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut tries = 0;
    'again: loop {
        for candidate in candidates(&best) {
            tries += 1;
            if tries > MAX_TRIES {
                return best;
            }
            if interesting(&candidate) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// Smaller programs, the smallest first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    for (at, (_, text)) in program.files().iter().enumerate() {
        if program.files().len() > 1 {
            all.push(program.without(at));
        }
        for edit in edits(text) {
            all.extend(edit.apply(text).map(|text| program.with(at, text)));
        }
    }
    all.retain(|candidate| candidate.size() < program.size());
    all.sort_by_key(Program::size);
    all
}

fn edits(text: &str) -> Vec<Edit> {
    let Some(file) = parsed(text) else { return lines(text) };
    let ast = &file.ast;
    let mut edits = Vec::new();
    for list in declarations(&file) {
        for id in list {
            let decl = ast.decl(id);
            let at = range(decl.span);
            // With the separator behind it, if there is one.
            let rest = text.get(at.end..).unwrap_or_default();
            let separator = rest.len() - rest.trim_start_matches([' ', ',', '\n']).len();
            edits.push(Edit { at: at.start..at.end + separator, text: String::new() });
            match decl.kind {
                DeclKind::Field(field) => {
                    let field = ast.field(field);
                    let value = file.text(ast.span(field.value));
                    if field.marker != Marker::Regular || field.alias.is_some() {
                        let label = file.text(field.label_span);
                        edits.push(Edit { at: at.clone(), text: format!("{label}: {value}") });
                    }
                    if let Label::Interpolation(_) | Label::Dynamic(_) = field.label {
                        edits.push(Edit { at: at.clone(), text: format!("(\"a\"): {value}") });
                        edits.push(Edit { at, text: format!("a: {value}") });
                    }
                }
                DeclKind::Comprehension(one) => {
                    let body = file.text(ast.span(ast.comprehension(one).body));
                    let inner = body.trim_start_matches('{').trim_end_matches('}').trim();
                    edits.push(Edit { at: at.clone(), text: inner.to_owned() });
                    edits.push(Edit { at: at.clone(), text: body.to_owned() });
                    edits.push(Edit { at, text: format!("if true {body}") });
                }
                _ => {}
            }
        }
    }
    for id in expressions(&file) {
        let at = range(ast.span(id));
        let expr = ast.expr(id);
        // A function is rarely meant as a value.
        let callee = usize::from(matches!(expr, Expr::Call(..)));
        for child in children(ast, id).into_iter().skip(callee) {
            let child = file.text(ast.span(child)).trim_start_matches('*');
            if !child.is_empty() {
                edits.push(Edit { at: at.clone(), text: child.to_owned() });
                edits.push(Edit { at: at.clone(), text: format!("({child})") });
            }
        }
        let simple: &[&str] = match expr {
            Expr::Struct { .. } => &["{}", "1"],
            Expr::List(_) => &["[]", "1"],
            Expr::Interpolation { .. } | Expr::String(_) => &["\"\"", "\"a\"", "1"],
            Expr::Number(_) => &["1", "0"],
            _ => &["1", "_", "\"a\"", "true", "{}", "[]"],
        };
        for text in simple {
            edits.push(Edit { at: at.clone(), text: (*text).to_owned() });
        }
        if let Expr::List(items) = expr {
            let items: Vec<ExprId> = ast.exprs(items).collect();
            edits
                .extend(shorter(&file, &items, "[", "]").map(|text| Edit { at: at.clone(), text }));
        }
    }
    for import in &file.imports {
        edits.push(Edit { at: range(import.span), text: String::new() });
        let line = format!("import {}\n", file.text(import.span));
        if let Some(start) = text.find(&line) {
            edits.push(Edit { at: start..start + line.len(), text: String::new() });
        }
    }
    edits
}

/// A list without each of its items.
fn shorter<'a>(
    file: &'a cue_syntax::File,
    items: &'a [ExprId],
    open: &'a str,
    close: &'a str,
) -> impl Iterator<Item = String> + 'a {
    (0..items.len()).map(move |left_out| {
        let rest: Vec<&str> = items
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out)
            .map(|(_, id)| file.text(file.ast.span(*id)))
            .collect();
        format!("{open}{}{close}", rest.join(", "))
    })
}

/// Without each line: for texts that have no tree.
fn lines(text: &str) -> Vec<Edit> {
    let mut at = 0;
    let mut edits = Vec::new();
    for line in text.split_inclusive('\n') {
        edits.push(Edit { at: at..at + line.len(), text: String::new() });
        at += line.len();
    }
    edits
}
