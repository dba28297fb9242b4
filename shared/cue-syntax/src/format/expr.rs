//! Expressions: blanks around operators, literals, structs and lists.

use super::{Printer, quote, quote_bytes};
use crate::ast::{Ast, BinaryOp, DeclId, DeclKind, Expr, ExprId, List, Part, UnaryOp};
use crate::position::Span;

impl<'a> Printer<'a> {
    /// Prints an expression. `outer` is the precedence around it: weaker operators get
    /// parentheses. `depth` decides about blanks around operators, as gofmt does.
    pub(super) fn expr(&mut self, id: ExprId, outer: u8, depth: u32) {
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
                // A row must not end before `)`: a comment from within goes behind `(`, or, behind a
                // struct, to the end of the row.
                let within =
                    if self.is_block(inner) { self.ast.span(inner).start } else { span.end };
                self.comments_before(within);
                self.expr(inner, 0, depth.saturating_sub(1).max(1));
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

    /// Text that may span lines. The lines of a multi-line literal are indented again, unless its closing quotes
    /// follow text: the white space before them is part of that text.
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
        if closes_behind_text(raw) {
            let outer = self.rows.begin_verbatim();
            for line in rest.split('\n') {
                self.rows.newline();
                self.rows.text(line.trim_end_matches('\r'));
            }
            self.rows.end_verbatim(outer);
            return;
        }
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
            self.close(&decls);
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
        self.close(&decls);
    }

    /// The brace behind the declarations of a struct.
    fn close(&mut self, decls: &[DeclId]) {
        let last = decls.last().map(|&decl| &self.ast.decl(decl).kind);
        if let Some(&DeclKind::Embed(expr)) = last
            && self.is_clause_word(expr)
            && !self.rows.is_fresh()
        {
            self.text(",");
        }
        self.text("}");
    }

    fn has_comment_before(&self, offset: u32) -> bool {
        let next = self.comments.get(self.comment);
        next.is_some_and(|comment| offset != u32::MAX && comment.span.start < offset)
    }

    fn list(&mut self, span: Span, elements: List<ExprId>) {
        self.text("[");
        let closed = self.elements(span, elements, 1);
        if !closed && self.ast.exprs(elements).last().is_some_and(|last| self.is_clause_word(last))
        {
            self.text(",");
        }
        self.text("]");
    }

    /// A name that begins a comprehension unless a comma follows.
    pub(super) fn is_clause_word(&self, element: ExprId) -> bool {
        let Expr::Ident(name) = self.ast.expr(element) else { return false };
        matches!(self.ast.str(name), "for" | "if")
    }

    /// The elements of a list or arguments of a call, broken where the source is. Returns whether a comma is behind the last.
    fn elements(&mut self, span: Span, elements: List<ExprId>, depth: u32) -> bool {
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
        let mut closed = false;
        if (end_below || commented) && !elements.is_empty() {
            let ellipsis = elements
                .last()
                .is_some_and(|&last| matches!(self.ast.expr(last), Expr::Ellipsis(_)));
            closed = !ellipsis || end_below;
            if closed {
                self.text(",");
            }
            self.comments_before(span.end);
            self.rows.fresh();
        } else if commented {
            self.comments_before(span.end);
            self.rows.fresh();
        }
        self.rows.dedent();
        closed
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

/// Whether the closing quotes of a multi-line literal stand behind text.
fn closes_behind_text(raw: &str) -> bool {
    let of = raw.trim_start_matches('#');
    let Some(quote) = of.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return false };
    let triple = of.chars().take(3).all(|c| c == quote);
    let last = raw.rsplit_once('\n').map_or("", |(_, last)| last).trim_end_matches('#');
    let text = last.len().checked_sub(3).and_then(|end| last.get(..end)).unwrap_or_default();
    triple && !text.trim().is_empty()
}
