//! Declarations: labels, fields, aliases, structs.

use super::{DeclStart, Frame, OpenField, Parse, Parser, State, Stop};
use crate::ast::{Comments, DeclKind, Expr, ExprId, Field, Ident, Label, List, Marker, Symbol};
use crate::lexer::TokenKind;
use crate::literal::to_u32;
use crate::position::Span;

impl Parser<'_> {
    pub(super) fn decl(&mut self) -> Parse<State> {
        let start = self.token.span.start;
        match self.token.kind {
            TokenKind::RightBrace | TokenKind::Eof => return self.struct_end(),
            _ => self.begin_decl(),
        }
        let span = self.token.span;
        if let Some(label) = self.plain_label()? {
            let first = self.stacks.fields.len();
            self.stacks.frames.push(Frame::Value { first });
            return self.open_field(label, span, None);
        }
        match self.token.kind {
            TokenKind::Attribute => {
                let symbol = self.ast.add_str(self.token_text());
                self.advance()?;
                self.end_decl(DeclKind::Attribute(symbol), self.span_from(start), 0)
            }
            TokenKind::Ellipsis => {
                self.advance()?;
                self.end_decl(DeclKind::Ellipsis(None), self.span_from(start), 0)
            }
            TokenKind::Ident => match self.token_text() {
                "for" | "if" => self.begin_comprehension(false),
                "let" => self.let_decl(),
                _ => self.label_operand(),
            },
            _ => self.label_operand(),
        }
    }

    fn label_operand(&mut self) -> Parse<State> {
        self.stacks.frames.push(Frame::Label);
        Ok(State::Operand)
    }

    fn let_decl(&mut self) -> Parse<State> {
        let word = self.any_ident();
        self.advance()?;
        if !self.at(TokenKind::Ident) {
            let id = self.add_expr(Expr::Ident(word.symbol), word.span, 1)?;
            self.stacks.frames.push(Frame::Label);
            return Ok(State::Operator(id));
        }
        let name = self.ident()?;
        self.expect(TokenKind::Bind)?;
        self.stacks.frames.push(Frame::Let { name, start: word.span.start });
        Ok(State::Operand)
    }

    /// Remembers where a declaration begins and which comments stand above it.
    pub(super) fn begin_decl(&mut self) {
        let end = self.token.comments;
        let comments = self.lexer.comments().get(self.attached as usize..end as usize);
        let behind = comments.unwrap_or_default().iter().take_while(|comment| comment.line);
        let docs = self.attached + to_u32(behind.count());
        self.attached = end;
        self.stacks.starts.push(DeclStart {
            start: self.token.span.start,
            docs: Comments { start: docs, end },
            inside: end,
        });
    }

    /// A declaration is complete: consumes its comma and attaches its comments.
    pub(super) fn end_decl(&mut self, kind: DeclKind, span: Span, height: u32) -> Parse<State> {
        let before = self.token.comments;
        self.decl_comma()?;
        self.stacks.decl_heights.push(height);
        let id = self.ast.add_decl(kind, span);
        self.stacks.decls.push(id);
        let Some(opening) = self.stacks.starts.pop() else { return Err(Stop) };
        let comments = self.lexer.comments();
        let behind = comments.get(before as usize).is_some_and(|comment| comment.line);
        let tail = if behind && before < self.token.comments {
            Comments { start: before, end: before + 1 }
        } else {
            Comments::default()
        };
        let inner = match comments.get(opening.inside as usize) {
            Some(comment)
                if comment.line
                    && opening.inside < before
                    && comment.span.start > opening.start
                    && self.one_line(opening.start, comment.span.start) =>
            {
                Comments { start: opening.inside, end: opening.inside + 1 }
            }
            _ => Comments::default(),
        };
        // What stands inside, behind the last declaration there, belongs to nothing that follows.
        self.attached = self.attached.max(before).max(tail.end);
        let decl = self.ast.decl_mut(id);
        decl.docs = opening.docs;
        decl.inner = inner;
        decl.tail = tail;
        Ok(State::Decls)
    }

    /// Whether no line ends between two offsets.
    fn one_line(&self, start: u32, end: u32) -> bool {
        let between = self.text.get(start as usize..end as usize).unwrap_or_default();
        memchr::memchr(b'\n', between.as_bytes()).is_none()
    }

    pub(super) fn at_label_end(&self) -> bool {
        matches!(self.token.kind, TokenKind::Colon | TokenKind::Option | TokenKind::Not)
    }

    /// The first expression of a declaration is complete.
    pub(super) fn label(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
        if alias.is_none() && self.at(TokenKind::Bind) {
            if let Some(name) = self.alias_name(expr) {
                self.advance()?;
                self.push(Frame::LabelAlias { name })?;
                return Ok(State::Operand);
            }
            return self.fail("expected identifier for alias", self.token.span);
        }
        if self.at_label_end() && self.is_label(expr) {
            let first = self.stacks.fields.len();
            self.stacks.frames.push(Frame::Value { first });
            return self.label_field(expr, alias);
        }
        if let Some(alias) = alias {
            let name = self.ast.str(alias.symbol);
            let message =
                format!("old-style alias {name} is no longer supported; use a let clause instead");
            return self.fail(message, alias.span);
        }
        let span = self.ast.span(expr);
        if self.at(TokenKind::Colon) {
            return self.fail("missing ',' in struct literal", self.token.span);
        }
        if let Expr::Ident(symbol) = self.ast.expr(expr) {
            // A name of its own in a struct is never a label here, but the reference says so.
            self.reserved(symbol, span);
        }
        let height = self.height(expr);
        self.end_decl(DeclKind::Embed(expr), span, height)
    }

    fn reserved(&mut self, symbol: Symbol, span: Span) {
        if self.ast.str(symbol).starts_with("__") {
            self.report("identifiers starting with '__' are reserved", span);
        }
    }

    fn is_label(&self, expr: ExprId) -> bool {
        matches!(
            self.ast.expr(expr),
            Expr::Ident(_)
                | Expr::Top
                | Expr::String(_)
                | Expr::Interpolation { bytes: false, .. }
                | Expr::Null
                | Expr::Bool(_)
                | Expr::Paren(_)
                | Expr::List(_)
        )
    }

    /// Consumes a label that a colon or question mark follows directly, as nearly all are: what it
    /// is needs no expression to be known.
    fn plain_label(&mut self) -> Parse<Option<Label>> {
        let behind = self.text.as_bytes().get(self.token.span.end as usize);
        if !matches!(behind, Some(b':' | b'?')) {
            return Ok(None);
        }
        let label = match self.token.kind {
            TokenKind::Ident => {
                let name = self.any_ident();
                self.reserved(name.symbol, name.span);
                Label::Ident(name.symbol)
            }
            TokenKind::String if self.token.plain => match self.string()? {
                Expr::String(symbol) => Label::String(symbol),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(label))
    }

    /// At `:`, `?` or `!` behind an expression that is a label.
    fn label_field(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
        let span = self.ast.span(expr);
        let label = match self.ast.expr(expr) {
            Expr::Ident(symbol) => {
                self.reserved(symbol, span);
                Label::Ident(symbol)
            }
            Expr::Top => Label::Ident(self.ast.add_str("_")),
            Expr::Null => Label::Ident(self.ast.add_str("null")),
            Expr::Bool(true) => Label::Ident(self.ast.add_str("true")),
            Expr::Bool(false) => Label::Ident(self.ast.add_str("false")),
            Expr::String(symbol) => Label::String(symbol),
            Expr::Interpolation { .. } => Label::Interpolation(expr),
            Expr::Paren(inner) => Label::Dynamic(inner),
            Expr::List(elements) => {
                let only = self.ast.exprs(elements).next().filter(|_| elements.len() == 1);
                let Some(element) = only else {
                    return self.fail("square bracket must have exactly one element", span);
                };
                match self.ast.expr(element) {
                    Expr::Alias(name, pattern) => Label::Pattern { alias: Some(name), pattern },
                    Expr::Comprehension(_) | Expr::Ellipsis(_) => {
                        return self.fail("invalid pattern in square brackets", span);
                    }
                    _ => Label::Pattern { alias: None, pattern: element },
                }
            }
            _ => return self.expected("label or ':'"),
        };
        self.open_field(label, span, alias)
    }

    /// At `:`, `?` or `!` behind a label. The innermost frame is [`Frame::Value`].
    fn open_field(&mut self, label: Label, span: Span, alias: Option<Ident>) -> Parse<State> {
        let start = alias.map_or(span.start, |alias| alias.span.start);
        let mut open = OpenField { alias, label, label_span: span, start, marker: Marker::Regular };
        loop {
            open.marker = match self.token.kind {
                TokenKind::Option => Marker::Optional,
                TokenKind::Not => Marker::Required,
                _ => Marker::Regular,
            };
            if open.marker != Marker::Regular {
                self.advance()?;
            }
            self.expect(TokenKind::Colon)?;
            self.stacks.fields.push(open);
            let span = self.token.span;
            let Some(label) = self.plain_label()? else { return Ok(State::Operand) };
            self.chained()?;
            open = OpenField { alias: None, label, label_span: span, start: span.start, ..open };
        }
    }

    /// Counts one more label of a chain.
    fn chained(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > self.limits.depth { self.too_deep() } else { Ok(()) }
    }

    /// A value of the innermost field is complete; or it is the next label of a chain.
    pub(super) fn value(&mut self, expr: ExprId) -> Parse<State> {
        if self.at(TokenKind::Bind)
            && let Some(name) = self.alias_name(expr)
        {
            self.advance()?;
            self.push(Frame::ValueAlias { name })?;
            return Ok(State::Operand);
        }
        if self.at_label_end() && self.is_label(expr) {
            return self.chain(expr, None);
        }
        self.end_field(expr)
    }

    pub(super) fn chain(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
        if !self.is_label(expr) {
            return self.fail("missing ',' in struct literal", self.token.span);
        }
        self.chained()?;
        self.label_field(expr, alias)
    }

    fn end_field(&mut self, value: ExprId) -> Parse<State> {
        let Some(Frame::Value { first }) = self.stacks.frames.pop() else { return Err(Stop) };
        let mut attributes = List::default();
        if self.at(TokenKind::Attribute) {
            let mut symbols = Vec::new();
            while self.at(TokenKind::Attribute) {
                symbols.push(self.ast.add_str(self.token_text()));
                self.advance()?;
            }
            attributes = self.ast.add_symbols(&symbols);
        }
        let mut value = value;
        let mut height = self.height(value);
        let chained = self.stacks.fields.len().saturating_sub(first + 1);
        self.depth = self.depth.saturating_sub(u32::try_from(chained).unwrap_or(u32::MAX));
        while let Some(open) = self.stacks.fields.pop() {
            let label_height = match open.label {
                Label::Interpolation(expr)
                | Label::Dynamic(expr)
                | Label::Pattern { pattern: expr, .. } => self.height(expr),
                Label::Ident(_) | Label::String(_) => 0,
            };
            height = height.max(label_height);
            let span = self.span_from(open.start);
            let OpenField { alias, label, label_span, marker, .. } = open;
            let field = Field { alias, label, label_span, marker, value, attributes };
            let kind = DeclKind::Field(self.ast.add_field(field));
            if self.stacks.fields.len() == first {
                return self.end_decl(kind, span, height);
            }
            attributes = List::default();
            let decl = self.ast.add_decl(kind, span);
            self.stacks.decl_heights.push(height);
            let decls = self.ast.add_decls(&[decl]);
            height += 1;
            value = self.add_expr(Expr::Struct { decls, braces: false }, span, height)?;
        }
        Err(Stop)
    }

    /// At the end of the declarations of a struct or of the file.
    fn struct_end(&mut self) -> Parse<State> {
        match self.stacks.frames.last() {
            Some(&Frame::Struct { start, mark }) => {
                self.expect_closing(TokenKind::RightBrace, "struct literal")?;
                self.pop();
                let (decls, height) = self.take_decls(mark);
                let span = self.span_from(start);
                let id = self.add_expr(Expr::Struct { decls, braces: true }, span, height + 1)?;
                // The body of a comprehension takes no operators.
                if let Some(Frame::Comprehension { .. }) = self.stacks.frames.last() {
                    return self.deliver(id);
                }
                Ok(State::Operator(id))
            }
            Some(Frame::File) if self.at(TokenKind::Eof) => {
                self.stacks.frames.pop();
                Ok(State::Done(None))
            }
            _ => self.expected("'EOF'"),
        }
    }
}
