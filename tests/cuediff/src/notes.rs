//! Differences that a note of docs/compatibility.md explains, found by undoing what the note is about.
//!
//! cue-eval-10: the reference does not run patterns and validators on what is unified inside of an
//! expression, and lets a scalar meet a struct in what is selected from (`({a: {}} & {a: 2}).a`).
//! A program in which such operands are fields of their own means the same; if there is no difference
//! left then, the note explains the first.

use cue_syntax::File;
use cue_syntax::ast::{BinaryOp, DeclKind, Expr, ExprId, Label, Part};

use crate::program::Program;
use crate::syntax::{Edit, children, declarations, parsed, range};

/// The note whose way round [`lifted`] goes.
pub(crate) const NOTE: &str = "cue-eval-10";

/// Operands lifted for one program at the most.
const MAX_OPERANDS: usize = 12;

/// The program with what is unified in expressions as fields of their own; `None` if there is
/// nothing of the sort.
/// What is selected from counts as an operand where asked for: there the reference has a value, and we
/// have an error.
pub(crate) fn lifted(program: &Program, selected: bool) -> Option<Program> {
    let mut program = program.clone();
    let mut count = 0;
    for file in 0..program.files().len() {
        while count < MAX_OPERANDS
            && let Some((_, text)) = program.files().get(file)
            && let Some(text) = lift_one(text, count, selected)
        {
            program = program.with(file, text);
            count += 1;
        }
    }
    (count > 0).then_some(program)
}

/// One operand becomes a hidden field next to the declaration that it is part of.
fn lift_one(text: &str, count: usize, selected: bool) -> Option<String> {
    let file = parsed(text)?;
    let ast = &file.ast;
    let operand = operands(&file, selected)
        .into_iter()
        .map(|id| range(ast.span(id)))
        .min_by_key(|at| at.len())?;
    let around = declarations(&file)
        .into_iter()
        .flatten()
        .map(|id| range(ast.decl(id).span))
        .filter(|decl| decl.start <= operand.start && operand.end <= decl.end)
        .min_by_key(|decl| decl.len())?;
    let name = format!("_lifted{count}");
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
        if let DeclKind::Field(field) = ast.decl(decl).kind
            && let Label::Dynamic(e) = ast.field(field).label
        {
            lift(e, false);
        }
    }
    found
}
