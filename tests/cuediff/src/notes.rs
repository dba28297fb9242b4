//! Differences that a note of docs/compatibility.md explains, found by undoing what the note is about.
//!
//! cue-eval-10: the reference does not run patterns and validators on what is unified inside of an
//! expression or a let, and lets a scalar meet a struct in what is selected from (`({a: {}} & {a: 2}).a`).
//! A program in which such operands are fields of their own means the same; if there is no difference
//! left then, the note explains the first.
//!
//! cue-eval-11: a comprehension that adds nothing says nothing. In the reference the fields of a literal
//! in it make a struct of the field that the literal is the value of: `d: _, if false {d: {f: 1}}`, and those of its
//! body one of the field that it stands in: `d: int, d: {if false {f: 1}}`. With
//! `{f: 1} & _` in place of `{f: 1}`, which means the same, they do not.
//!
//! cue-eval-12: the reference takes all of `close({c: bool, if c {a: 1}})` for unknown as long as a guard
//! or a name in the literal is. With `{close({}), c: bool, if c {a: 1}}`, which is closed over the same
//! fields, it does not.

use std::ops::Range;

use cue_syntax::File;
use cue_syntax::ast::{BinaryOp, DeclKind, Expr, ExprId, Label, Part};

use crate::program::Program;
use crate::syntax::{Edit, children, declarations, parsed, range};

/// The note whose way round [`lifted`] goes.
pub(crate) const OPERANDS: &str = "cue-eval-10";

/// The note whose way round [`unread`] and [`unread_bodies`] go.
pub(crate) const GUARDED: &str = "cue-eval-11";

/// The note whose way round [`unclosed`] goes.
pub(crate) const CLOSED: &str = "cue-eval-12";

/// Programs that mean the same as this one and go round what a note is about, or several notes.
pub(crate) fn ways_round(program: &Program, selected: bool) -> Vec<(&'static str, Program)> {
    type Rewriting<'a> = &'a dyn Fn(&Program) -> Option<Program>;
    let operands: Rewriting<'_> = &|program| lifted(program, false);
    let selected: Option<Rewriting<'_>> =
        if selected { Some(&|program| lifted(program, true)) } else { None };
    let mut ways = Vec::new();
    for (note, rewritings) in [
        (CLOSED, [Some(&unclosed as Rewriting<'_>), None]),
        (GUARDED, [Some(&unread), None]),
        (GUARDED, [Some(&unread_bodies), None]),
        (OPERANDS, [Some(operands), selected]),
    ] {
        // What goes round a note goes round it after the others, too.
        let more: Vec<_> = std::iter::once(program)
            .chain(ways.iter().map(|(_, way)| way))
            .flat_map(|way| {
                let rewritten = rewritings.into_iter().flatten().filter_map(|rewrite| rewrite(way));
                rewritten.map(|way| (note, way)).collect::<Vec<_>>()
            })
            .collect();
        ways.extend(more);
    }
    ways
}

/// What the names of lifted operands begin with.
const LIFTED: &str = "_lifted";

/// Edits of one program at the most.
const MAX_EDITS: usize = 12;

/// The program with what is unified in expressions as fields of their own; `None` if there is
/// nothing of the sort.
/// What is selected from counts as an operand where asked for: there the reference has a value, and we
/// have an error. Not all that is lifted need be what differs.
fn lifted(program: &Program, selected: bool) -> Option<Program> {
    edited(program, |text, count| lift_one(text, count, selected))
}

/// The program with literals in comprehensions that are not read for the fields they would add; `None` if
/// there are none.
fn unread(program: &Program) -> Option<Program> {
    edited(program, |text, _| unread_one(text))
}

/// The program with bodies of comprehensions that are not read for the fields they would add to what they stand in;
/// `None` if there are none.
fn unread_bodies(program: &Program) -> Option<Program> {
    edited(program, |text, _| unread_body(text))
}

/// The program with what is closed while it waits for something written as a struct that embeds a closed one; `None` if
/// there is nothing of the sort.
fn unclosed(program: &Program) -> Option<Program> {
    edited(program, |text, _| unclose_one(text))
}

/// The program with an edit made as often as there is something to edit; `None` if there is nothing.
fn edited(program: &Program, edit: impl Fn(&str, usize) -> Option<String>) -> Option<Program> {
    let mut program = program.clone();
    let mut count = 0;
    for file in 0..program.files().len() {
        while count < MAX_EDITS
            && let Some((_, text)) = program.files().get(file)
            && let Some(text) = edit(text, count)
        {
            program = program.with(file, text);
            count += 1;
        }
    }
    (count > 0).then_some(program)
}

/// One literal with comprehensions or computed names that is closed closes itself.
fn unclose_one(text: &str) -> Option<String> {
    let file = parsed(text)?;
    let ast = &file.ast;
    let count = u32::try_from(ast.expr_count()).unwrap_or(u32::MAX);
    for id in (0..count).map(ExprId) {
        let Expr::Call(f, arguments) = ast.expr(id) else { continue };
        let Expr::Ident(name) = ast.expr(f) else { continue };
        let mut arguments = ast.exprs(arguments);
        let (Some(mut literal), None) = (arguments.next(), arguments.next()) else { continue };
        while let Expr::Paren(inner) = ast.expr(literal) {
            literal = inner;
        }
        let Expr::Struct { decls, braces: true } = ast.expr(literal) else { continue };
        let kinds = || ast.decls(decls).map(|decl| ast.decl(decl).kind);
        let waits = |kind| match kind {
            DeclKind::Comprehension(_) => true,
            DeclKind::Field(field) => {
                matches!(ast.field(field).label, Label::Dynamic(_) | Label::Interpolation(_))
            }
            _ => false,
        };
        if ast.str(name) != "close"
            || !kinds().any(waits)
            || kinds().any(|kind| matches!(kind, DeclKind::Ellipsis(_)))
        {
            continue;
        }
        let fields = text.get(range(ast.span(literal)))?.strip_prefix('{')?;
        let text_of = format!("{{close({{}})\n{fields}");
        return Edit { at: range(ast.span(id)), text: text_of }.apply(text);
    }
    None
}

/// One literal that is the value of a field in a comprehension is unified with `_`.
fn unread_one(text: &str) -> Option<String> {
    let file = parsed(text)?;
    let ast = &file.ast;
    let count = u32::try_from(ast.expr_count()).unwrap_or(u32::MAX);
    let inner = |mut id: ExprId| {
        while let Expr::Paren(inside) = ast.expr(id) {
            id = inside;
        }
        id
    };
    let in_lists = (0..count).map(ExprId).filter_map(|id| match ast.expr(id) {
        Expr::Comprehension(one) => Some(one),
        _ => None,
    });
    let in_structs = declarations(&file).into_iter().flatten().filter_map(|id| {
        let DeclKind::Comprehension(one) = ast.decl(id).kind else { return None };
        Some(one)
    });
    for one in in_lists.chain(in_structs) {
        let Expr::Struct { decls, .. } = ast.expr(ast.comprehension(one).body) else { continue };
        for decl in ast.decls(decls) {
            let DeclKind::Field(field) = ast.decl(decl).kind else { continue };
            let value = inner(ast.field(field).value);
            let Expr::Struct { braces, .. } = ast.expr(value) else { continue };
            let at = range(ast.span(value));
            let literal = text.get(at.clone())?;
            let literal = if braces { literal.to_owned() } else { format!("{{{literal}}}") };
            return Edit { at, text: format!("{literal} & _") }.apply(text);
        }
    }
    None
}

/// The body of one comprehension that declares fields embeds them, unified with `_`.
fn unread_body(text: &str) -> Option<String> {
    let file = parsed(text)?;
    let ast = &file.ast;
    declarations(&file).into_iter().flatten().find_map(|id| {
        let DeclKind::Comprehension(one) = ast.decl(id).kind else { return None };
        let body = ast.comprehension(one).body;
        let Expr::Struct { decls, braces: true } = ast.expr(body) else { return None };
        let declares = |decl| matches!(ast.decl(decl).kind, DeclKind::Field(_));
        ast.decls(decls).any(declares).then_some(())?;
        let at = range(ast.span(body));
        let literal = text.get(at.clone())?;
        Edit { at, text: format!("{{{literal} & _}}") }.apply(text)
    })
}

/// One operand becomes a hidden field of the struct that it is written in, the first: the reference has run what
/// constrains it when it comes to the others.
fn lift_one(text: &str, count: usize, selected: bool) -> Option<String> {
    let file = parsed(text)?;
    let ast = &file.ast;
    let operand = operands(&file, selected)
        .into_iter()
        .map(|id| range(ast.span(id)))
        .min_by_key(|at| at.len())?;
    // What the shorthand `a: b: c` implies has no place for a field.
    let within = ast.all_exprs().filter_map(|expr| match expr {
        Expr::Struct { decls, braces: true } => Some(decls),
        _ => None,
    });
    let at = |id| range(ast.decl(id).span);
    let (_, around) = std::iter::once(file.decls)
        .chain(within)
        .filter_map(|decls| {
            let decl = ast
                .decls(decls)
                .map(at)
                .find(|decl| decl.start <= operand.start && operand.end <= decl.end)?;
            // Behind those that were lifted before: it may refer to them.
            let lifted =
                |at: &Range<usize>| text.get(at.clone()).is_some_and(|t| t.starts_with(LIFTED));
            let first = ast.decls(decls).map(at).find(|at| !lifted(at))?;
            Some((decl, first))
        })
        .min_by_key(|(decl, _)| decl.len())?;
    let name = format!("{LIFTED}{count}");
    let value = text.get(operand.clone())?;
    let replaced = Edit { at: operand.clone(), text: name.clone() }.apply(text)?;
    Edit { at: around.start..around.start, text: format!("{name}: {value}\n") }.apply(&replaced)
}

/// Unifications that are operands of something other than `&` and `|`.
fn operands(file: &File, selected: bool) -> Vec<ExprId> {
    let ast = &file.ast;
    let mut found = Vec::new();
    let mut lift = |mut id: ExprId, literals: bool| {
        while let Expr::Paren(inner) = ast.expr(id) {
            id = inner;
        }
        match ast.expr(id) {
            Expr::Binary(BinaryOp::And, ..) => found.push(id),
            Expr::Struct { .. } if literals => found.push(id),
            _ => {}
        }
    };
    let count = u32::try_from(ast.expr_count()).unwrap_or(u32::MAX);
    for id in (0..count).map(ExprId) {
        match ast.expr(id) {
            Expr::Binary(BinaryOp::And | BinaryOp::Or, ..) => {}
            Expr::Selector(base, _) if selected => lift(base, true),
            Expr::Binary(..) | Expr::Unary(..) => {
                children(ast, id).into_iter().for_each(|id| lift(id, false));
            }
            Expr::Call(_, arguments) => ast.exprs(arguments).for_each(|id| lift(id, false)),
            Expr::Interpolation { parts, .. } => {
                for part in ast.parts(parts) {
                    if let Part::Expr(e) = part {
                        lift(*e, false);
                    }
                }
            }
            _ => {}
        }
    }
    for decl in declarations(file).into_iter().flatten() {
        match ast.decl(decl).kind {
            DeclKind::Field(field) => {
                if let Label::Dynamic(e) = ast.field(field).label {
                    lift(e, false);
                }
            }
            DeclKind::Let(_, e) => lift(e, false),
            _ => {}
        }
    }
    found
}
