//! Declarations: fields, labels, imports, comprehensions, and the blank lines between them.

use super::{Printer, quote};
use crate::ast::{
    Ast, Clause, ComprehensionId, DeclId, DeclKind, Expr, ExprId, Field, Ident, Label, List,
    Marker, UnaryOp,
};
use crate::position::Span;

impl<'a> Printer<'a> {
    pub(super) fn file(&mut self) {
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

    pub(super) fn decl_lines(&mut self, decls: &[DeclId], breaks: bool) {
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

    pub(super) fn decl(&mut self, id: DeclId) {
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
        while let Expr::Struct { decls, braces } = self.ast.expr(field.value)
            && (!braces || self.needs_no_braces(field))
            && let Some(inner) = self.only_field(decls)
        {
            let from = field.label_span;
            field = inner;
            let to = field.label_span;
            let placed = !braces && !from.is_none() && !to.is_none();
            if placed && self.line(from.end) != self.line(to.start) {
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

    /// Whether the struct in braces that is the field's value may do without them: attributes
    /// would belong to another field, and a comment could stand nowhere.
    fn needs_no_braces(&self, field: &Field) -> bool {
        let span = self.ast.span(field.value);
        let inside = |at: u32| span.start <= at && at < span.end;
        self.short
            && field.attributes.is_empty()
            && !self.comments.iter().any(|comment| inside(comment.span.start))
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
    pub(super) fn is_block(&self, expr: ExprId) -> bool {
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
                if alias.is_none() && self.is_clause_word(pattern) {
                    self.text(",");
                }
                self.text("]");
            }
        }
        self.text(match field.marker {
            Marker::Regular => ":",
            Marker::Optional => "?:",
            Marker::Required => "!:",
        });
    }

    pub(super) fn alias(&mut self, name: Ident) {
        self.symbol(name.symbol);
        self.text("=");
    }

    /// `X= =~"a"`: without the blank the alias would begin with `==`.
    pub(super) fn blank_before_match(&mut self, value: ExprId) {
        let mut first = value;
        while let Expr::Binary(_, left, _) = self.ast.expr(first) {
            first = left;
        }
        if matches!(self.ast.expr(first), Expr::Unary(UnaryOp::Match, _)) {
            self.text(" ");
        }
    }

    pub(super) fn comprehension(&mut self, id: ComprehensionId) {
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
}
