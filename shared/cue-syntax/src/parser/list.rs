//! Lists and comprehensions.

use super::{Frame, Parse, Parser, State, Stop};
use crate::ast::{Clause, Comprehension, ComprehensionId, DeclKind, Expr, ExprId};
use crate::lexer::TokenKind;
use crate::position::Span;

impl Parser<'_> {
    pub(super) fn element(&mut self) -> Parse<State> {
        match self.token.kind {
            TokenKind::RightBracket | TokenKind::Eof => self.list_end(),
            TokenKind::Ellipsis => {
                let start = self.token.span.start;
                self.advance()?;
                if self.at_comma() || self.at(TokenKind::RightBracket) {
                    let span = self.span_from(start);
                    let id = self.add_expr(Expr::Ellipsis(None), span, 1)?;
                    self.stacks.exprs.push(id);
                    return self.list_end();
                }
                self.stacks.frames.push(Frame::ListEllipsis { start });
                Ok(State::Operand)
            }
            TokenKind::Ident if self.at_word("for") || self.at_word("if") => {
                self.begin_comprehension(true)
            }
            _ => Ok(State::Operand),
        }
    }

    pub(super) fn element_end(&mut self, expr: ExprId) -> Parse<State> {
        if self.at(TokenKind::Bind) {
            let Some(name) = self.alias_name(expr) else {
                return self.fail("expected identifier for alias", self.token.span);
            };
            self.advance()?;
            self.push(Frame::Alias { name, list: true })?;
            return Ok(State::Operand);
        }
        self.stacks.exprs.push(expr);
        if self.at(TokenKind::Newline) {
            self.advance()?;
            // JSON has no comma behind the last element.
            if !self.at(TokenKind::RightBracket) {
                let message = "missing ',' before newline in list literal";
                return self.fail(message, self.token.span);
            }
            return self.list_end();
        }
        if self.comma("list literal", &[TokenKind::RightBracket])? {
            Ok(State::Elements)
        } else {
            self.list_end()
        }
    }

    /// At the end of the last element or ellipsis.
    pub(super) fn list_end(&mut self) -> Parse<State> {
        let Some(&Frame::List { start, mark }) = self.stacks.frames.last() else {
            return Err(Stop);
        };
        self.comma("list literal", &[TokenKind::RightBracket])?;
        self.expect_closing(TokenKind::RightBracket, "list literal")?;
        self.pop();
        let (elements, height) = self.take_exprs(mark);
        let id = self.add_expr(Expr::List(elements), self.span_from(start), height + 1)?;
        Ok(State::Operator(id))
    }

    /// At `for` or `if` where a comprehension may begin. It does not if the word is a label or
    /// stands alone.
    pub(super) fn begin_comprehension(&mut self, list: bool) -> Parse<State> {
        let word = self.any_ident();
        let is_for = self.at_word("for");
        self.advance()?;
        if matches!(
            self.token.kind,
            TokenKind::Colon
                | TokenKind::Bind
                | TokenKind::Option
                | TokenKind::Comma
                | TokenKind::Newline
                | TokenKind::Eof
        ) {
            let id = self.add_expr(Expr::Ident(word.symbol), word.span, 1)?;
            if !list {
                self.stacks.frames.push(Frame::Label);
            }
            return Ok(State::Operator(id));
        }
        // `if!: 0` is a field, `if !x {` a comprehension.
        if self.at(TokenKind::Not) && !list && self.colon_behind_not() {
            let id = self.add_expr(Expr::Ident(word.symbol), word.span, 1)?;
            self.stacks.frames.push(Frame::Label);
            return Ok(State::Operator(id));
        }
        let mark = self.stacks.clauses.len();
        self.push(Frame::Comprehension { start: word.span.start, mark, list })?;
        if is_for { self.for_clause() } else { self.if_clause() }
    }

    fn colon_behind_not(&self) -> bool {
        let behind = self.text.get(self.token.span.end as usize..).unwrap_or_default();
        behind.trim_start_matches([' ', '\t', '\r']).starts_with(':')
    }

    fn for_clause(&mut self) -> Parse<State> {
        let mut value = self.ident()?;
        let mut key = None;
        if self.at(TokenKind::Comma) {
            self.advance()?;
            key = Some(value);
            value = self.ident()?;
        }
        if !self.at_word("in") {
            return self.expected("'in'");
        }
        self.advance()?;
        self.stacks.frames.push(Frame::For { key, value });
        Ok(State::Operand)
    }

    fn if_clause(&mut self) -> Parse<State> {
        self.stacks.frames.push(Frame::If);
        Ok(State::Operand)
    }

    pub(super) fn clause_end(&mut self, clause: Clause) -> Parse<State> {
        self.stacks.clauses.push(clause);
        if self.at_comma() {
            self.advance()?;
        }
        Ok(State::Clauses)
    }

    pub(super) fn clause(&mut self) -> Parse<State> {
        if self.at(TokenKind::Ident) {
            match self.token_text() {
                "for" => {
                    self.advance()?;
                    return self.for_clause();
                }
                "if" => {
                    self.advance()?;
                    return self.if_clause();
                }
                "let" => {
                    self.advance()?;
                    let name = self.ident()?;
                    self.expect(TokenKind::Bind)?;
                    self.stacks.frames.push(Frame::LetClause { name });
                    return Ok(State::Operand);
                }
                _ => {}
            }
        }
        self.open_struct()?;
        Ok(State::Decls)
    }

    pub(super) fn end_comprehension(
        &mut self,
        body: ExprId,
        start: u32,
        mark: usize,
        list: bool,
    ) -> Parse<State> {
        let clauses = self.stacks.clauses.get(mark..).unwrap_or_default();
        let parts = clauses.iter().map(|clause| match clause {
            Clause::For { source: expr, .. } | Clause::If(expr) | Clause::Let(_, expr) => *expr,
        });
        let height = parts.chain([body]).map(|part| self.height(part)).max().unwrap_or(0) + 1;
        let clauses = self.ast.add_clauses(clauses);
        self.stacks.clauses.truncate(mark);
        let span = self.span_from(start);
        let id = self.ast.add_comprehension(Comprehension { clauses, body, span });
        if list {
            self.end_list_comprehension(id, span, height)
        } else {
            self.end_decl(DeclKind::Comprehension(id), span, height)
        }
    }

    fn end_list_comprehension(
        &mut self,
        id: ComprehensionId,
        span: Span,
        height: u32,
    ) -> Parse<State> {
        let expr = self.add_expr(Expr::Comprehension(id), span, height)?;
        self.stacks.exprs.push(expr);
        // The comma behind a comprehension may be a line end.
        if self.comma("list literal", &[TokenKind::RightBracket])? {
            Ok(State::Elements)
        } else {
            self.list_end()
        }
    }
}
