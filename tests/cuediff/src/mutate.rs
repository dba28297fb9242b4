//! Mutations of programs that people wrote: most keep what the program means, some only that it
//! means something.

use cue_syntax::File;
use cue_syntax::ast::{BinaryOp, DeclKind, Expr, Label, Marker};

use crate::conformance::json::Json;
use crate::program::Program;
use crate::syntax::{Edit, declarations, expressions, parsed, range};

/// Programs to mutate are of this size at most: what is found in them is to be read.
const MAX_BYTES: usize = 2500;

/// The texts of the corpus that are one file and need nothing.
pub(crate) fn corpus(lines: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for line in lines.lines() {
        let Ok(record) = Json::parse(line) else { continue };
        let files = record.get("files").map(Json::as_object).unwrap_or_default();
        if let [(name, text)] = files
            && name.ends_with(".cue")
            && record.strings("needs").iter().all(|need| need.starts_with("pkg:"))
            && let Some(text) = text.as_str()
            && text.len() <= MAX_BYTES
            && parsed(text).is_some()
        {
            texts.push(text.to_owned());
        }
    }
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// One of the texts with some edits.
pub(crate) fn mutate(texts: &[String], seed: u64) -> Program {
    let mut rng = fastrand::Rng::with_seed(seed);
    let at = rng.usize(..texts.len().max(1));
    let mut text = texts.get(at).cloned().unwrap_or_default();
    for _ in 0..rng.usize(1..=4) {
        let Some(file) = parsed(&text) else { break };
        let Some(edit) = edit(&file, &mut rng) else { continue };
        if let Some(edited) = edit.apply(&text).filter(|edited| parsed(edited).is_some()) {
            text = edited;
        }
    }
    Program::single(&text)
}

fn edit(file: &File, rng: &mut fastrand::Rng) -> Option<Edit> {
    if rng.bool() { of_expression(file, rng) } else { of_declaration(file, rng) }
}

fn of_expression(file: &File, rng: &mut fastrand::Rng) -> Option<Edit> {
    let all = expressions(file);
    let id = *all.get(rng.usize(..all.len().max(1)))?;
    let span = file.ast.span(id);
    let t = file.text(span);
    let expr = file.ast.expr(id);
    if let Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) = expr
        && rng.bool()
    {
        let (a, b) = (file.text(file.ast.span(a)), file.text(file.ast.span(b)));
        return Some(Edit { at: range(span), text: format!("{b} {} {a}", op.text()) });
    }
    if let Expr::Unary(cue_syntax::ast::UnaryOp::Default, _) = expr {
        return None;
    }
    let text = match rng.u32(..15) {
        0 => format!("({{{t}}})"),
        1 => format!("({t} & _)"),
        2 => format!("({t} & {t})"),
        3 => format!("({t} | {{zz: 1}})"),
        4 => format!("(*{t} | _)"),
        5 => format!("(*{t} | \"other\")"),
        6 => format!("({t} | {t})"),
        7 if matches!(expr, Expr::Struct { .. }) => format!("close({t})"),
        8 => format!("[for x_ in [{t}] {{x_}}][0]"),
        9 => format!("{{if true {{{t}}}}}"),
        10 => format!("({{out: {t}}}).out"),
        11 => format!("({{in: _, out: in}} & {{in: {t}}}).out"),
        12 => format!("({{let l_ = {t}, v: l_}}).v"),
        13 if matches!(expr, Expr::Struct { .. }) => format!("({t} & {{...}})"),
        14 => format!("({{#d_: {t}, #d_}})"),
        _ => format!("({t})"),
    };
    Some(Edit { at: range(span), text })
}

fn of_declaration(file: &File, rng: &mut fastrand::Rng) -> Option<Edit> {
    let lists = declarations(file);
    let list = lists.get(rng.usize(..lists.len().max(1)))?;
    let at = rng.usize(..list.len().max(1));
    let id = *list.get(at)?;
    let decl = file.ast.decl(id);
    let t = file.text(decl.span);
    if rng.u32(..5) == 0
        && let Some(next) = list.get(at + 1)
    {
        let other = file.ast.decl(*next).span;
        let whole = decl.span.start as usize..other.end as usize;
        return Some(Edit { at: whole, text: format!("{}\n{t}", file.text(other)) });
    }
    let text = match (decl.kind, rng.u32(..10)) {
        (DeclKind::Field(_) | DeclKind::Comprehension(_) | DeclKind::Embed(_), 0) => {
            format!("{t}\n{t}")
        }
        (DeclKind::Field(_) | DeclKind::Comprehension(_), 1) => format!("if true {{{t}}}"),
        (DeclKind::Field(_) | DeclKind::Comprehension(_), 2) => {
            format!("for x_ in [1] {{{t}}}")
        }
        (DeclKind::Field(_) | DeclKind::Comprehension(_), 3) => format!("{{{t}}}"),
        (DeclKind::Field(_) | DeclKind::Comprehension(_), 4) => format!("{t}\n..."),
        (DeclKind::Field(field), kind) => {
            let field = file.ast.field(field);
            let label = file.text(field.label_span);
            let Label::Ident(_) = field.label else { return None };
            if field.marker != Marker::Regular {
                return None;
            }
            match kind {
                5 => format!("{t}\n{label}: _"),
                6 => format!("{t}\n{label}?: _"),
                7 => format!("{t}\n{label}!: _"),
                8 if !label.starts_with(['#', '_']) => {
                    t.replacen(label, &format!("({label:?})"), 1)
                }
                _ => format!("if {label} != _|_ {{zz: 1}}\n{t}"),
            }
        }
        _ => return None,
    };
    Some(Edit { at: range(decl.span), text })
}
