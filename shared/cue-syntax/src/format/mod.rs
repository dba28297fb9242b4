//! The printer: canonical text of a tree.
//!
//! Line breaks of the source are kept, spacing and alignment are not. Nodes without a place in a
//! text (trees that were built) break where the reference's exporter breaks: every field on a line
//! of its own, lists on one line. All comments are kept.

mod decl;
mod expr;
mod quote;
mod rows;

use crate::ast::{Ast, Comment, Expr, ExprId, File, Symbol};
use crate::parser::{ParseLimits, parse};
use crate::position::Span;
pub use quote::{is_plain_label, quote, quote_bytes, quote_label, quote_lines};
use rows::Rows;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Indent {
    /// A tab per level, as `cue fmt`.
    #[default]
    Tab,
    /// This many spaces per level; `cue eval` uses four.
    Spaces(usize),
}

/// Prints a file in canonical form.
///
/// ```
/// use cue_syntax::{ParseLimits, format, parse};
///
/// let (file, _) = parse("in.cue", "a:1\nbcd:   2 // two\n", &ParseLimits::default());
/// assert_eq!(format(&file), "a:   1\nbcd: 2 // two\n");
/// ```
#[must_use]
pub fn format(file: &File) -> String {
    format_with(file, Indent::Tab)
}

/// Prints a file with another indentation.
#[must_use]
pub fn format_with(file: &File, indent: Indent) -> String {
    settled(file, indent, false)
}

/// Prints a file with the short form of structs that have one field only: `a: {b: 1}` becomes
/// `a: b: 1`, unless a comment stands between the braces.
///
/// ```
/// use cue_syntax::{Indent, ParseLimits, format_short, parse};
///
/// let (file, _) = parse("in.cue", "a: {\n\tb: {c: 1}\n}\n", &ParseLimits::default());
/// assert_eq!(format_short(&file, Indent::Tab), "a: b: c: 1\n");
/// ```
#[must_use]
pub fn format_short(file: &File, indent: Indent) -> String {
    settled(file, indent, true)
}

fn settled(file: &File, indent: Indent, short: bool) -> String {
    let mut printed = print(file, indent, short);
    if file.comments.is_empty() {
        return printed;
    }
    // A comment in the middle of an expression ends a line where the source has none, or joins
    // another, and lines are laid out by how the source breaks them.
    for _ in 0..MAX_PASSES {
        let (again, errors) = parse("", &printed, &ParseLimits::default());
        if !errors.is_empty() {
            break;
        }
        let next = print(&again, indent, short);
        if next == printed {
            break;
        }
        printed = next;
    }
    printed
}

/// How often a text with comments is printed again until that changes nothing more.
const MAX_PASSES: usize = 8;

fn print(file: &File, indent: Indent, short: bool) -> String {
    let mut printer = Printer::new(file);
    printer.short = short;
    printer.file();
    printer.rows.finish(indent)
}

/// Prints one expression of a file.
#[must_use]
pub fn format_expr(file: &File, expr: ExprId, indent: Indent) -> String {
    let mut printer = Printer::new(file);
    printer.comment = usize::MAX;
    printer.expr(expr, 0, 1);
    let text = printer.rows.finish(indent);
    text.trim_end_matches('\n').to_owned()
}

fn comments_outside_of_literals(file: &File) -> Vec<Comment> {
    let mut comments = file.comments.clone();
    if comments.is_empty() {
        return comments;
    }
    let exprs = (0..file.ast.expr_count()).map(|at| ExprId(crate::literal::to_u32(at)));
    let mut literals: Vec<Span> = exprs
        .filter(|&expr| matches!(file.ast.expr(expr), Expr::Interpolation { .. }))
        .map(|expr| file.ast.span(expr))
        .filter(|&span| !file.text(span).is_empty())
        .collect();
    literals.sort_unstable();
    // Of those inside each other the outermost counts.
    literals.dedup_by(|inner, outer| inner.start < outer.end);
    comments.retain(|comment| {
        let at = comment.span.start;
        let before = literals.partition_point(|literal| literal.start <= at);
        before == 0 || literals[before - 1].end <= at
    });
    comments
}

struct Printer<'a> {
    file: &'a File,
    ast: &'a Ast,
    rows: Rows,
    /// The comments, but for those within interpolated literals, which are printed as written.
    comments: Vec<Comment>,
    /// The next comment to print.
    comment: usize,
    /// The next chain of operators indents its lines no further.
    flat: bool,
    /// Structs of one field have no braces.
    short: bool,
}

impl<'a> Printer<'a> {
    fn new(file: &'a File) -> Self {
        let comments = comments_outside_of_literals(file);
        Self {
            file,
            ast: &file.ast,
            rows: Rows::default(),
            comments,
            comment: 0,
            flat: false,
            short: false,
        }
    }

    fn text(&mut self, text: &str) {
        self.rows.text(text);
    }

    fn symbol(&mut self, symbol: Symbol) {
        let text = self.ast.str(symbol);
        self.rows.text(text);
    }

    fn line(&self, offset: u32) -> u32 {
        self.file.position(offset).line
    }

    // --- comments -------------------------------------------------------------------------

    /// Prints the comments that stand before `offset`. Returns whether there were any; the row is
    /// then a fresh one.
    fn comments_before(&mut self, offset: u32) -> bool {
        let mut any = false;
        while let Some(&comment) = self.comments.get(self.comment) {
            if offset == u32::MAX || comment.span.start >= offset {
                break;
            }
            self.comment += 1;
            self.one_comment(comment);
            any = true;
        }
        any
    }

    /// Prints the comment behind what ends at `end`, on the row that was printed last.
    fn comment_behind(&mut self, end: u32) {
        if let Some(&comment) = self.comments.get(self.comment)
            && comment.line
            && self.line(comment.span.start) == self.line(end)
        {
            self.comment += 1;
            self.one_comment(comment);
        }
    }

    fn one_comment(&mut self, comment: Comment) {
        let source: &'a str = &self.file.source;
        let text = source.get(comment.span.start as usize..comment.span.end as usize);
        let text = text.unwrap_or_default();
        if comment.line {
            self.rows.comment(text.trim());
            return;
        }
        self.rows.fresh();
        if self.blank_before(comment.span.start) {
            self.rows.blank();
        }
        for line in text.lines() {
            self.rows.text(line.trim());
            self.rows.newline();
        }
    }

    /// Whether an empty line stands before `offset` in the source.
    fn blank_before(&self, offset: u32) -> bool {
        let before = self.file.source.get(..offset as usize).unwrap_or_default();
        let space = before.trim_end_matches([' ', '\t', '\r', '\n', ',']);
        before.len() > space.len()
            && before.get(space.len()..).unwrap_or_default().matches('\n').count() > 1
    }
}
