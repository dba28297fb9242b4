//! The printer: canonical text of a tree.
//!
//! Line breaks of the source are kept, spacing and alignment are not. Nodes without a place in a
//! text (trees that were built) break where the reference's exporter breaks: every field on a line
//! of its own, lists on one line. All comments are kept.

mod rows;

use crate::ast::{
    Ast, BinaryOp, Clause, Comment, ComprehensionId, DeclId, DeclKind, Expr, ExprId, Field, File,
    Ident, Label, List, Marker, Part, Symbol, UnaryOp,
};
use crate::lexer::{Lexer, TokenKind};
use crate::parser::{ParseLimits, parse};
use crate::position::Span;
use rows::Rows;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Indent {
    /// A tab per level, as `cue fmt`.
    #[default]
    Tab,
    /// So many spaces per level; `cue eval` uses four.
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
    let mut printed = print(file, indent);
    if file.comments.is_empty() {
        return printed;
    }
    // A comment in the middle of an expression ends a line where the source has none, or joins
    // another, and lines are laid out by how the source breaks them.
    for _ in 0..MOST_PASSES {
        let (again, errors) = parse("", &printed, &ParseLimits::default());
        if !errors.is_empty() {
            break;
        }
        let next = print(&again, indent);
        if next == printed {
            break;
        }
        printed = next;
    }
    printed
}

/// How often a text with comments is printed anew until that changes nothing more.
const MOST_PASSES: usize = 8;

fn print(file: &File, indent: Indent) -> String {
    let mut printer = Printer::new(file);
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

/// The text of a string as a literal, in the form cue prints: one line, or `"""` if the value has
/// line ends.
#[must_use]
pub fn quote(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    escape(value, &mut out);
    out.push('"');
    out
}

/// The text of a string with line ends as a `"""` literal, without indentation.
#[must_use]
pub fn quote_lines(value: &str) -> String {
    let mut out = String::from("\"\"\"\n");
    for line in value.split('\n') {
        for (index, part) in line.split("\"\"\"").enumerate() {
            out.push_str(if index > 0 { "\\\"\\\"\\\"" } else { "" });
            for (index, quoted) in part.split('"').enumerate() {
                out.push_str(if index > 0 { "\"" } else { "" });
                escape(quoted, &mut out);
            }
        }
        out.push('\n');
    }
    out.push_str("\"\"\"");
    out
}

/// The text of a label: bare if it is a plain name, else quoted.
#[must_use]
pub fn quote_label(name: &str) -> String {
    if is_plain_label(name) { name.to_owned() } else { quote(name) }
}

/// Whether a regular field of that name needs no quotes.
#[must_use]
pub fn is_plain_label(name: &str) -> bool {
    if name.is_empty() || name.starts_with(['_', '#']) {
        return false;
    }
    let mut lexer = Lexer::new(name);
    let token = lexer.next_token();
    token.kind == TokenKind::Ident && token.span.end as usize == name.len()
}

fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{feff}' => out.push_str("\\ufeff"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// The text of a bytes literal with that value.
#[must_use]
pub fn quote_bytes(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push_str("\\'"),
                '"' => out.push('"'),
                c => escape(c.encode_utf8(&mut [0; 4]), &mut out),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('\'');
    out
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
}

impl<'a> Printer<'a> {
    fn new(file: &'a File) -> Self {
        let comments = comments_outside_of_literals(file);
        Self { file, ast: &file.ast, rows: Rows::default(), comments, comment: 0, flat: false }
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

    // --- declarations ---------------------------------------------------------------------

    fn file(&mut self) {
        let file = self.file;
        let decls: Vec<DeclId> = self.ast.decls(file.decls).collect();
        let preamble = file.package.map(|name| name.span.start).unwrap_or(u32::MAX);
        let imports = file.imports.first().map(|import| import.span.start).unwrap_or(u32::MAX);
        let is_before = |decl: &DeclId, offset: u32| {
            let span = self.ast.decl(*decl).span;
            offset != u32::MAX && span.start < offset
        };
        let package = decls.iter().take_while(|decl| is_before(decl, preamble)).count();
        let import = decls.iter().take_while(|decl| is_before(decl, imports)).count().max(package);
        let (first, rest) = decls.split_at(package);
        let (second, rest) = rest.split_at(import - package);
        self.decl_lines(first, true);
        if let Some(name) = file.package {
            self.comments_before(name.span.start);
            self.gap(first.is_empty() && !self.rows.has_text());
            self.text("package ");
            self.symbol(name.symbol);
            self.rows.newline();
            self.comment_behind(name.span.end);
        }
        if !second.is_empty() {
            self.rows.blank();
            self.decl_lines(second, true);
        }
        self.imports();
        if !rest.is_empty() && !file.imports.is_empty() || file.package.is_some() {
            self.rows.blank();
        }
        self.decl_lines(rest, true);
        self.comments_before(u32::MAX - 1);
    }

    /// Ends what stands above, with an empty line unless nothing or a comment does.
    fn gap(&mut self, nothing: bool) {
        if !nothing && !self.rows.ends_with_comment() {
            self.rows.blank();
        }
    }

    fn imports(&mut self) {
        let file = self.file;
        let imports = &file.imports;
        // Specs of one parenthesised clause have the clause's keyword before the first only.
        let mut group: Vec<usize> = Vec::new();
        let is_grouped = |at: usize| {
            let span = imports[at].span;
            let before = file.source.get(..span.start as usize).unwrap_or_default();
            !before.trim_end().ends_with("import")
        };
        let mut at = 0;
        while at < imports.len() {
            group.clear();
            group.push(at);
            if is_grouped(at) {
                while at + 1 < imports.len() && is_grouped(at + 1) && !self.new_clause(at + 1) {
                    at += 1;
                    group.push(at);
                }
                self.import_group(&group);
            } else {
                self.comments_before(imports[at].span.start);
                self.rows.fresh();
                self.rows.blank_if_text();
                self.text("import ");
                self.import_spec(at);
                self.rows.newline();
                self.comment_behind(imports[at].span.end);
            }
            at += 1;
        }
    }

    fn new_clause(&self, at: usize) -> bool {
        let from = self.file.imports[at - 1].span.end as usize;
        let to = self.file.imports[at].span.start as usize;
        let between = self.file.source.get(from..to).unwrap_or_default();
        between.lines().any(|line| line.trim_start().starts_with("import"))
    }

    fn import_group(&mut self, group: &[usize]) {
        self.rows.blank_if_text();
        self.text("import (");
        self.rows.newline();
        self.rows.indent();
        for &at in group {
            let start = self.file.imports[at].span.start;
            self.comments_before(start);
            self.rows.fresh();
            if at != group[0] && self.blank_before(start) {
                self.rows.blank();
            }
            self.import_spec(at);
            self.rows.newline();
        }
        let end = group.last().map_or(0, |&at| self.file.imports[at].span.end);
        let close = self.file.source.get(end as usize..).and_then(|rest| rest.find(')'));
        self.comments_before(end.saturating_add(crate::literal::to_u32(close.unwrap_or(0))));
        self.rows.dedent();
        self.text(")");
        self.rows.newline();
    }

    fn import_spec(&mut self, at: usize) {
        let import = &self.file.imports[at];
        if let Some(name) = import.name {
            self.symbol(name.symbol);
            self.text(" ");
        }
        let path = quote(self.ast.str(import.path));
        self.text(&path);
    }

    fn decl_lines(&mut self, decls: &[DeclId], breaks: bool) {
        let mut last: Option<Span> = None;
        for &id in decls {
            let span = self.ast.decl(id).span;
            let commented = self.comments_before(span.start);
            let placed = !span.is_none() && last.is_none_or(|last| !last.is_none());
            match last {
                None => {
                    if commented {
                        self.rows.fresh();
                    }
                    if breaks && commented && self.blank_before(span.start) {
                        self.rows.blank();
                    }
                }
                // Behind a comment the end of the row separates.
                Some(last)
                    if placed && !commented && self.line(last.end) == self.line(span.start) =>
                {
                    self.text(", ");
                }
                Some(_) => {
                    self.rows.fresh();
                    if placed && self.blank_before(span.start) {
                        self.rows.blank();
                    }
                }
            }
            self.decl(id);
            last = Some(span);
        }
        if breaks && !decls.is_empty() {
            if let Some(last) = last
                && !last.is_none()
            {
                self.comment_behind(last.end);
            }
            self.rows.fresh();
        }
    }

    fn decl(&mut self, id: DeclId) {
        match self.ast.decl(id).kind {
            DeclKind::Bad => {}
            DeclKind::Field(field) => self.field(&self.ast.field(field).clone()),
            DeclKind::Embed(expr) => self.expr(expr, 0, 1),
            DeclKind::Ellipsis(None) => self.text("..."),
            DeclKind::Ellipsis(Some(expr)) => {
                self.text("...");
                self.expr(expr, 0, 1);
            }
            DeclKind::Let(name, expr) => {
                self.text("let ");
                self.symbol(name.symbol);
                self.text(" = ");
                self.expr(expr, 0, 1);
            }
            DeclKind::Comprehension(id) => self.comprehension(id),
            DeclKind::Attribute(symbol) => self.symbol(symbol),
            DeclKind::Alias(name, expr) => {
                self.symbol(name.symbol);
                self.text(" = ");
                self.expr(expr, 0, 1);
            }
        }
    }

    fn field(&mut self, field: &Field) {
        self.label(field);
        let mut field = field;
        let mut labels = 1;
        // The shorthand `a: b: c` stays on one row.
        while let Expr::Struct { decls, braces: false } = self.ast.expr(field.value)
            && let Some(inner) = self.only_field(decls)
        {
            let from = field.label_span;
            field = inner;
            let to = field.label_span;
            if !from.is_none() && !to.is_none() && self.line(from.end) != self.line(to.start) {
                self.rows.indent();
                self.comments_before(to.start);
                self.rows.fresh();
                self.label(field);
                self.value(field, labels);
                self.rows.dedent();
                return;
            }
            self.text(" ");
            self.label(field);
            labels += 1;
        }
        self.value(field, labels);
    }

    fn only_field(&self, decls: List<DeclId>) -> Option<&'a Field> {
        let ast: &'a Ast = self.ast;
        let decl = ast.decls(decls).next().filter(|_| decls.len() == 1)?;
        match ast.decl(decl).kind {
            DeclKind::Field(field) => Some(ast.field(field)),
            _ => None,
        }
    }

    /// `labels` says how long the chain is: only values behind equally many labels are aligned.
    fn value(&mut self, field: &Field, labels: usize) {
        let span = self.ast.span(field.value);
        let source = !span.is_none() && !field.label_span.is_none();
        let below = source && self.line(field.label_span.end) != self.line(span.start);
        if below {
            self.rows.section();
            self.rows.indent();
            if !self.comments_before(span.start) {
                self.rows.newline();
            }
            self.rows.fresh();
            // The lines of a chain of operators stand below its first operand.
            let chain = matches!(self.ast.expr(field.value), Expr::Binary(..));
            self.flat = chain;
            self.expr(field.value, 0, 1);
            self.flat = false;
            self.rows.dedent();
            self.attributes(field, false);
            self.rows.end_section();
        } else if self.is_block(field.value) {
            self.rows.section();
            self.text(" ");
            self.expr(field.value, 0, 1);
            self.attributes(field, false);
            self.rows.end_section();
        } else {
            let row = self.rows.value_cell(labels);
            self.expr(field.value, 0, 1);
            self.attributes(field, true);
            self.rows.unalign(row);
        }
    }

    fn attributes(&mut self, field: &Field, cell: bool) {
        for (index, symbol) in self.ast.symbols(field.attributes).enumerate() {
            if index == 0 && cell {
                self.rows.cell();
            } else {
                self.text(" ");
            }
            self.symbol(symbol);
        }
    }

    /// Whether a value is never aligned with its neighbours: it has brackets of its own.
    fn is_block(&self, expr: ExprId) -> bool {
        let mut expr = expr;
        loop {
            expr = match self.ast.expr(expr) {
                Expr::Struct { .. } | Expr::List(_) => return true,
                Expr::String(_) | Expr::Bytes(_) | Expr::Interpolation { .. } => {
                    return self.file.text(self.ast.span(expr)).contains('\n');
                }
                Expr::Unary(_, inner)
                | Expr::Index(inner, _)
                | Expr::Selector(inner, _)
                | Expr::Paren(inner)
                | Expr::Alias(_, inner) => inner,
                Expr::Binary(_, left, right) => {
                    if self.is_block(right) {
                        return true;
                    }
                    left
                }
                Expr::Call(_, arguments) => {
                    return self.ast.exprs(arguments).any(|argument| self.is_block(argument));
                }
                _ => return false,
            };
        }
    }

    fn label(&mut self, field: &Field) {
        if let Some(alias) = field.alias {
            self.alias(alias);
        }
        match field.label {
            Label::Ident(symbol) => self.symbol(symbol),
            Label::String(symbol) => {
                let raw = self.file.text(field.label_span);
                if raw.is_empty() || field.label_span.is_none() {
                    let text = quote(self.ast.str(symbol));
                    self.text(&text);
                } else {
                    self.text(raw);
                }
            }
            Label::Interpolation(expr) => self.expr(expr, 0, 1),
            Label::Dynamic(expr) => {
                self.text("(");
                self.expr(expr, 0, 1);
                self.text(")");
            }
            Label::Pattern { alias, pattern } => {
                self.text("[");
                if let Some(alias) = alias {
                    self.alias(alias);
                    self.blank_before_match(pattern);
                }
                self.expr(pattern, 0, 1);
                self.text("]");
            }
        }
        self.text(match field.marker {
            Marker::Regular => ":",
            Marker::Optional => "?:",
            Marker::Required => "!:",
        });
    }

    fn alias(&mut self, name: Ident) {
        self.symbol(name.symbol);
        self.text("=");
    }

    /// `X= =~"a"`: without the blank the alias would begin with `==`.
    fn blank_before_match(&mut self, value: ExprId) {
        let mut first = value;
        while let Expr::Binary(_, left, _) = self.ast.expr(first) {
            first = left;
        }
        if matches!(self.ast.expr(first), Expr::Unary(UnaryOp::Match, _)) {
            self.text(" ");
        }
    }

    fn comprehension(&mut self, id: ComprehensionId) {
        let comprehension = self.ast.comprehension(id);
        let mut last = comprehension.span.start;
        for (index, clause) in self.ast.clauses(comprehension.clauses).iter().enumerate() {
            let (start, expr) = match clause {
                Clause::For { key, value, source } => (key.unwrap_or(*value).span.start, *source),
                Clause::If(expr) => (self.ast.span(*expr).start, *expr),
                Clause::Let(name, expr) => (name.span.start, *expr),
            };
            if index > 0 {
                let placed = !comprehension.span.is_none();
                if placed && self.line(last) != self.line(start) {
                    self.comments_before(start);
                    self.rows.fresh();
                } else {
                    self.text(" ");
                }
            }
            match clause {
                Clause::For { key, value, .. } => {
                    self.text("for ");
                    if let Some(key) = key {
                        self.symbol(key.symbol);
                        self.text(", ");
                    }
                    self.symbol(value.symbol);
                    self.text(" in ");
                }
                Clause::If(_) => self.text("if "),
                Clause::Let(name, _) => {
                    self.text("let ");
                    self.symbol(name.symbol);
                    self.text(" = ");
                }
            }
            self.expr(expr, 0, 1);
            last = self.ast.span(expr).end;
        }
        self.text(" ");
        self.expr(comprehension.body, 0, 1);
    }

    // --- expressions ----------------------------------------------------------------------

    /// Prints an expression. `outer` is the precedence around it: weaker operators get
    /// parentheses. `depth` decides about blanks around operators, as gofmt does.
    fn expr(&mut self, id: ExprId, outer: u8, depth: u32) {
        let span = self.ast.span(id);
        match self.ast.expr(id) {
            Expr::Bad => self.text("_|_"),
            Expr::Bottom => self.text("_|_"),
            Expr::Top => self.text("_"),
            Expr::Null => self.text("null"),
            Expr::Bool(true) => self.text("true"),
            Expr::Bool(false) => self.text("false"),
            Expr::Number(symbol) | Expr::Ident(symbol) => self.symbol(symbol),
            Expr::String(symbol) => {
                let text = quote(self.ast.str(symbol));
                self.literal(span, &text);
            }
            Expr::Bytes(bytes) => {
                let text = quote_bytes(self.ast.bytes(bytes));
                self.literal(span, &text);
            }
            Expr::Interpolation { parts, bytes } => self.interpolation(span, parts, bytes),
            Expr::Struct { decls, braces } => self.structure(span, decls, braces),
            Expr::List(elements) => self.list(span, elements),
            Expr::Ellipsis(expr) => {
                self.text("...");
                if let Some(expr) = expr {
                    self.expr(expr, 0, 1);
                }
            }
            Expr::Comprehension(id) => self.comprehension(id),
            Expr::Paren(inner) => {
                self.text("(");
                // A row must not end before `)`: a comment from within goes behind `(`.
                let within =
                    if self.is_block(inner) { self.ast.span(inner).start } else { span.end };
                self.comments_before(within);
                self.expr(inner, 0, depth.saturating_sub(1).max(1));
                self.comments_before(span.end);
                self.text(")");
            }
            Expr::Unary(op, operand) => {
                self.text(op.text());
                // `- -1` and `! !x` would read as other tokens.
                if let Expr::Unary(inner, _) = self.ast.expr(operand)
                    && needs_blank(op, inner)
                {
                    self.text(" ");
                }
                self.expr(operand, 8, depth);
            }
            Expr::Binary(op, ..) if op.precedence() < outer => {
                self.text("(");
                self.binary(id, depth.saturating_sub(1).max(1));
                self.text(")");
            }
            Expr::Binary(..) => self.binary(id, depth),
            Expr::Selector(base, selector) => {
                self.operand(base, depth);
                // `1 .a` is a selector, `1.a` a malformed number.
                let number = matches!(self.ast.expr(base), Expr::Number(_));
                self.text(if number { " ." } else { "." });
                let end = self.ast.span(base).end;
                let placed = !selector.span.is_none() && !self.ast.span(base).is_none();
                if placed && self.line(end) != self.line(selector.span.start) {
                    self.rows.indent();
                    self.rows.newline();
                    self.selector(selector);
                    self.rows.dedent();
                } else {
                    self.selector(selector);
                }
            }
            Expr::Index(base, index) => {
                self.operand(base, 1);
                self.text("[");
                self.expr(index, 0, depth + 1);
                self.text("]");
            }
            Expr::Slice(base, low, high) => {
                self.operand(base, 1);
                self.text("[");
                let binary = |expr: Option<ExprId>| {
                    expr.is_some_and(|expr| matches!(self.ast.expr(expr), Expr::Binary(..)))
                };
                let blanks = binary(low) || binary(high);
                if let Some(low) = low {
                    self.expr(low, 0, depth + 1);
                }
                self.text(if blanks && low.is_some() { " :" } else { ":" });
                if let Some(high) = high {
                    self.text(if blanks { " " } else { "" });
                    self.expr(high, 0, depth + 1);
                }
                self.text("]");
            }
            Expr::Call(function, arguments) => {
                self.operand(function, depth);
                self.text("(");
                let depth = if arguments.len() > 1 { depth + 1 } else { depth };
                self.elements(span, arguments, depth);
                self.text(")");
            }
            Expr::Alias(name, value) => {
                self.alias(name);
                self.blank_before_match(value);
                self.expr(value, 0, 1);
            }
        }
    }

    fn selector(&mut self, selector: crate::ast::Selector) {
        if selector.quoted {
            let text = quote(self.ast.str(selector.symbol));
            self.literal(selector.span, &text);
        } else {
            self.symbol(selector.symbol);
        }
    }

    /// What stands before `.`, `[` or `(`; operators need parentheses there.
    fn operand(&mut self, id: ExprId, depth: u32) {
        if let Expr::Unary(..) | Expr::Binary(..) = self.ast.expr(id) {
            self.text("(");
            self.expr(id, 0, 1);
            self.text(")");
        } else {
            self.expr(id, 0, depth);
        }
    }

    /// A literal as written, or `text` if it was not read from a source.
    fn literal(&mut self, span: Span, text: &str) {
        let raw = self.file.text(span);
        if raw.is_empty() {
            self.text(text);
        } else {
            self.raw(raw);
        }
    }

    /// Text that may span lines. The lines of a multi-line literal are indented anew.
    fn raw(&mut self, raw: &str) {
        let Some((first, rest)) = raw.split_once('\n') else {
            self.text(raw);
            return;
        };
        let indent = raw.rsplit_once('\n').map_or("", |(_, last)| last);
        let indent = &indent[..indent.len() - indent.trim_start().len()];
        // Behind a label the lines are indented one step more.
        let behind = !self.rows.is_fresh();
        self.text(first.trim_end_matches('\r'));
        self.rows.begin_literal(behind);
        for line in rest.split('\n') {
            self.rows.newline();
            let line = line.strip_prefix(indent).unwrap_or(line.trim_start());
            self.rows.text(line);
        }
        self.rows.end_literal(behind);
    }

    fn interpolation(&mut self, span: Span, parts: List<Part>, bytes: bool) {
        if !self.file.text(span).is_empty() {
            // Spacing inside the expressions is kept: the literal is one token to the reader.
            let raw = self.file.text(span).to_owned();
            self.raw(&raw);
            return;
        }
        self.text(if bytes { "'" } else { "\"" });
        for part in self.ast.parts(parts).to_vec() {
            match part {
                Part::Text(symbol) => {
                    let text = quote(self.ast.str(symbol));
                    self.text(&text[1..text.len() - 1]);
                }
                Part::Bytes(bytes) => {
                    let text = quote_bytes(self.ast.bytes(bytes));
                    self.text(&text[1..text.len() - 1]);
                }
                Part::Expr(expr) => {
                    self.text("\\(");
                    self.expr(expr, 0, 1);
                    self.text(")");
                }
            }
        }
        self.text(if bytes { "'" } else { "\"" });
    }

    fn structure(&mut self, span: Span, decls: List<DeclId>, braces: bool) {
        let decls: Vec<DeclId> = self.ast.decls(decls).collect();
        if !braces {
            for (index, &decl) in decls.iter().enumerate() {
                self.text(if index > 0 { ", " } else { "" });
                self.decl(decl);
            }
            return;
        }
        self.text("{");
        let first = decls.first().map(|&decl| self.ast.decl(decl).span);
        let commented = self.has_comment_before(span.end);
        let breaks = match first {
            None => commented,
            Some(first) if span.is_none() || first.is_none() => true,
            Some(first) => self.line(span.start) != self.line(first.start),
        };
        if !breaks {
            self.decl_lines(&decls, false);
            self.comments_before(span.end);
            // The brace of a struct that began inline may still stand on a line of its own.
            let last = decls.last().map(|&decl| self.ast.decl(decl).span);
            if let Some(last) = last
                && !span.is_none()
                && !last.is_none()
                && self.line(last.end) != self.line(span.end)
                && !self.rows.is_fresh()
            {
                self.rows.newline();
            }
            self.text("}");
            return;
        }
        self.rows.indent();
        self.rows.newline();
        let last = decls.last().map(|&decl| self.ast.decl(decl).span);
        let together = last.is_some_and(|last| {
            !span.is_none() && !last.is_none() && self.line(last.end) == self.line(span.end)
        });
        self.decl_lines(&decls, !together);
        self.comments_before(span.end);
        if !together {
            self.rows.fresh();
        }
        self.rows.dedent();
        self.text("}");
    }

    fn has_comment_before(&self, offset: u32) -> bool {
        let next = self.comments.get(self.comment);
        next.is_some_and(|comment| offset != u32::MAX && comment.span.start < offset)
    }

    fn list(&mut self, span: Span, elements: List<ExprId>) {
        self.text("[");
        self.elements(span, elements, 1);
        self.text("]");
    }

    /// The elements of a list or arguments of a call, broken where the source is.
    fn elements(&mut self, span: Span, elements: List<ExprId>, depth: u32) {
        let elements: Vec<ExprId> = self.ast.exprs(elements).collect();
        let mut last_line = if span.is_none() { None } else { Some(self.line(span.start)) };
        if let (Some(_), Some(&first)) = (last_line, elements.first()) {
            // Of a call, the arguments begin behind the function's name.
            let before = self.ast.span(first).start;
            let text = self.file.source.get(..before as usize).unwrap_or_default();
            let trimmed = text.trim_end();
            if trimmed.ends_with('(') {
                last_line = Some(self.line(crate::literal::to_u32(trimmed.len())));
            }
        }
        self.rows.indent();
        for (index, &element) in elements.iter().enumerate() {
            let at = self.ast.span(element);
            let placed = !at.is_none() && last_line.is_some();
            if index > 0 {
                self.text(",");
            }
            let commented = placed && self.comments_before(at.start);
            let below = placed && last_line != Some(self.line(at.start));
            if commented || below {
                self.rows.fresh();
                if index > 0 && self.blank_before(at.start) {
                    self.rows.blank();
                }
            } else if index > 0 {
                self.text(" ");
            }
            // A bracket that opens behind the list's own indents no deeper.
            let flat = !below && !commented;
            if flat {
                self.rows.dedent();
            }
            self.expr(element, 0, depth);
            if flat {
                self.rows.indent();
            }
            last_line = if at.is_none() { None } else { Some(self.line(at.end)) };
        }
        let end_below =
            !span.is_none() && last_line.is_some_and(|line| line != self.line(span.end));
        let commented = !span.is_none() && self.has_comment_before(span.end);
        if (end_below || commented) && !elements.is_empty() {
            let ellipsis = elements
                .last()
                .is_some_and(|&last| matches!(self.ast.expr(last), Expr::Ellipsis(_)));
            if !ellipsis || end_below {
                self.text(",");
            }
            self.comments_before(span.end);
            self.rows.fresh();
        } else if commented {
            self.comments_before(span.end);
            self.rows.fresh();
        }
        self.rows.dedent();
    }

    /// A chain of operators that leans to the left, without recursion on its length.
    fn binary(&mut self, id: ExprId, depth: u32) {
        let mut spine = Vec::new();
        let mut next = id;
        let mut level = depth.max(1);
        while let Expr::Binary(op, left, right) = self.ast.expr(next) {
            spine.push((op, right, level));
            if let Expr::Binary(inner, ..) = self.ast.expr(left) {
                if inner.precedence() < op.precedence() {
                    next = left;
                    level += 1;
                    break;
                }
                level += u32::from(inner.precedence() != op.precedence());
            } else {
                level += 1;
            }
            next = left;
        }
        let lowest = spine.last().map_or(0, |(op, ..)| op.precedence());
        let flat = std::mem::take(&mut self.flat);
        self.expr(next, lowest, level);
        let mut seen = Seen::default();
        let mut broken = false;
        let left_end = self.ast.span(next).end;
        let mut end = (!self.ast.span(next).is_none()).then_some(left_end);
        for (op, right, level) in spine.into_iter().rev() {
            seen.operator(op, self.ast, right);
            let blanks = op.precedence() < seen.cutoff(level) || is_word(op);
            if blanks {
                self.text(" ");
            }
            self.text(op.text());
            let at = self.ast.span(right);
            let below =
                !at.is_none() && end.is_some_and(|end| self.line(end) != self.line(at.start));
            if below {
                if !broken && !flat {
                    self.rows.indent();
                    broken = true;
                }
                self.comments_before(at.start);
                self.rows.fresh();
            } else if blanks {
                self.text(" ");
            }
            self.expr(right, op.precedence() + 1, level + 1);
            end = (!at.is_none()).then_some(at.end);
        }
        if broken {
            self.rows.dedent();
        }
    }
}

/// The operators of a chain so far: decides which get blanks, as gofmt does.
#[derive(Default)]
struct Seen {
    add: bool,
    multiply: bool,
    problem: u8,
}

impl Seen {
    fn operator(&mut self, op: BinaryOp, ast: &Ast, right: ExprId) {
        self.precedence(op);
        match ast.expr(right) {
            Expr::Binary(inner, ..) if inner.precedence() > op.precedence() => {
                let mut next = right;
                while let Expr::Binary(op, left, _) = ast.expr(next) {
                    self.precedence(op);
                    next = left;
                }
            }
            Expr::Unary(unary, _) => match (op, unary) {
                (BinaryOp::Divide, UnaryOp::Default) => self.problem = 7,
                (BinaryOp::Add, UnaryOp::Plus) | (BinaryOp::Subtract, UnaryOp::Minus) => {
                    self.problem = self.problem.max(6);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn precedence(&mut self, op: BinaryOp) {
        match op.precedence() {
            6 => self.add = true,
            7 => self.multiply = true,
            _ => {}
        }
    }

    fn cutoff(&self, depth: u32) -> u8 {
        if self.problem > 0 {
            return self.problem + 1;
        }
        match (self.add && self.multiply, depth) {
            (true, 1) => 7,
            (false, 1) => 8,
            _ => 6,
        }
    }
}

fn is_word(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::Quo | BinaryOp::Rem)
}

/// Whether two prefix operators run together would be another token.
fn needs_blank(outer: UnaryOp, inner: UnaryOp) -> bool {
    matches!(
        (outer, inner),
        (UnaryOp::Not | UnaryOp::Less | UnaryOp::Greater, UnaryOp::Match | UnaryOp::NotEqual)
    )
}
