//! Operands, operators and interpolations, and what is done with an expression that is complete.

use super::{Frame, Parse, Parser, Piece, State, Stop};
use crate::ast::{BinaryOp, Clause, DeclKind, Expr, ExprId, Ident, Part, Selector, UnaryOp};
use crate::lexer::TokenKind;
use crate::literal::{Number, Quotes, Text, to_u32, unquote};
use crate::position::Span;

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Parse<State> {
        let start = self.token.span.start;
        if let Some(op) = unary_op(self.token.kind) {
            self.push(Frame::Unary { op, start })?;
            self.advance()?;
            return Ok(State::Operand);
        }
        match self.token.kind {
            TokenKind::Bottom => self.leaf(Expr::Bottom),
            TokenKind::Int | TokenKind::Float => {
                if !self.token.plain
                    && let Err(error) = Number::parse(self.token_text())
                {
                    let at = start + to_u32(error.offset);
                    return self.fail(error.message, Span::new(at, at));
                }
                let symbol = self.ast.add_str(self.token_text());
                self.leaf(Expr::Number(symbol))
            }
            TokenKind::String => {
                let expr = self.string()?;
                self.leaf(expr)
            }
            TokenKind::Interpolation => {
                let open = Quotes::open(self.token_text()).map_or(0, |(_, content)| content);
                let mark = self.stacks.pieces.len();
                self.push(Frame::Interpolation { start, mark })?;
                let content = start + to_u32(open);
                self.stacks.pieces.push(Piece::Text(Span::new(content, self.piece_end())));
                self.advance()?;
                Ok(State::Operand)
            }
            TokenKind::Ident => {
                let expr = match self.token_text() {
                    "null" => Expr::Null,
                    "true" => Expr::Bool(true),
                    "false" => Expr::Bool(false),
                    "_" => Expr::Top,
                    name => Expr::Ident(self.ast.add_str(name)),
                };
                self.leaf(expr)
            }
            TokenKind::LeftParen => {
                self.push(Frame::Paren { start })?;
                self.advance()?;
                Ok(State::Operand)
            }
            TokenKind::LeftBracket => {
                let mark = self.stacks.exprs.len();
                self.push(Frame::List { start, mark })?;
                self.advance()?;
                Ok(State::Elements)
            }
            TokenKind::LeftBrace => {
                self.open_struct()?;
                Ok(State::Decls)
            }
            _ => self.expected("operand"),
        }
    }

    pub(super) fn open_struct(&mut self) -> Parse<()> {
        let start = self.token.span.start;
        if !self.at(TokenKind::LeftBrace) {
            return self.expected("'{'");
        }
        self.push(Frame::Struct { start, mark: self.stacks.decls.len() })?;
        self.advance()
    }

    pub(super) fn string(&mut self) -> Parse<Expr> {
        if self.token.plain {
            let text = self.token_text();
            let value = text.get(1..text.len() - 1).unwrap_or_default();
            return Ok(Expr::String(self.ast.add_str(value)));
        }
        match unquote(self.token_text()) {
            Ok(Text::String(value)) => Ok(Expr::String(self.ast.add_str(&value))),
            Ok(Text::Bytes(value)) => Ok(Expr::Bytes(self.ast.add_bytes(&value))),
            Err(error) => {
                let at = self.token.span.start + to_u32(error.offset);
                self.fail(error.message, Span::new(at, at))
            }
        }
    }

    /// Where the text of an interpolation token ends: before its `\(`.
    fn piece_end(&self) -> u32 {
        let text = self.token_text();
        let end = text.rfind('\\').unwrap_or(text.len());
        self.token.span.start + to_u32(end)
    }

    pub(super) fn operator(&mut self, expr: ExprId) -> Parse<State> {
        match self.token.kind {
            TokenKind::Period => return self.selector(expr),
            TokenKind::LeftBracket => {
                self.push(Frame::Index { base: expr })?;
                self.advance()?;
                if self.at(TokenKind::Colon) {
                    return self.slice(expr, None);
                }
                return Ok(State::Operand);
            }
            TokenKind::LeftParen => {
                let mark = self.stacks.exprs.len();
                self.push(Frame::Call { function: expr, mark })?;
                self.advance()?;
                return Ok(State::Arguments);
            }
            _ => {}
        }
        let mut expr = expr;
        while let Some(&Frame::Unary { op, start }) = self.stacks.frames.last() {
            self.pop();
            let span = Span::new(start, self.ast.span(expr).end);
            expr = self.add_expr(Expr::Unary(op, expr), span, self.height(expr) + 1)?;
        }
        let next = self.binary_op();
        let precedence = next.map_or(0, BinaryOp::precedence);
        while let Some(&Frame::Binary { op, left }) = self.stacks.frames.last() {
            if op.precedence() < precedence {
                break;
            }
            self.stacks.frames.pop();
            let span = self.ast.span(left).to(self.ast.span(expr));
            // A chain leans to the left and is walked in a loop: it does not add height.
            let chain = u32::from(!matches!(self.ast.expr(left), Expr::Binary(..)));
            let height = (self.height(left) + chain).max(self.height(expr) + 1);
            expr = self.add_expr(Expr::Binary(op, left, expr), span, height)?;
        }
        match next {
            Some(op) => {
                self.stacks.frames.push(Frame::Binary { op, left: expr });
                self.advance()?;
                Ok(State::Operand)
            }
            None => self.deliver(expr),
        }
    }

    fn binary_op(&self) -> Option<BinaryOp> {
        Some(match self.token.kind {
            TokenKind::Or => BinaryOp::Or,
            TokenKind::And => BinaryOp::And,
            TokenKind::LogicalOr => BinaryOp::LogicalOr,
            TokenKind::LogicalAnd => BinaryOp::LogicalAnd,
            TokenKind::Equal => BinaryOp::Equal,
            TokenKind::NotEqual => BinaryOp::NotEqual,
            TokenKind::Less => BinaryOp::Less,
            TokenKind::LessEqual => BinaryOp::LessEqual,
            TokenKind::Greater => BinaryOp::Greater,
            TokenKind::GreaterEqual => BinaryOp::GreaterEqual,
            TokenKind::Match => BinaryOp::Match,
            TokenKind::NotMatch => BinaryOp::NotMatch,
            TokenKind::Add => BinaryOp::Add,
            TokenKind::Subtract => BinaryOp::Subtract,
            TokenKind::Multiply => BinaryOp::Multiply,
            TokenKind::Divide => BinaryOp::Divide,
            TokenKind::Ident => match self.token_text() {
                "div" => BinaryOp::Div,
                "mod" => BinaryOp::Mod,
                "quo" => BinaryOp::Quo,
                "rem" => BinaryOp::Rem,
                _ => return None,
            },
            _ => return None,
        })
    }

    fn selector(&mut self, base: ExprId) -> Parse<State> {
        self.advance()?;
        let span = self.token.span;
        let selector = match self.token.kind {
            TokenKind::Ident => Selector { symbol: self.any_ident().symbol, quoted: false, span },
            TokenKind::String if self.token_text().starts_with('"') => match self.string()? {
                Expr::String(symbol) => Selector { symbol, quoted: true, span },
                _ => return self.expected("selector"),
            },
            _ => return self.expected("selector"),
        };
        let whole = self.ast.span(base).to(span);
        let height = self.height(base) + 1;
        let id = self.add_expr(Expr::Selector(base, selector), whole, height)?;
        self.advance()?;
        Ok(State::Operator(id))
    }

    /// Behind `e[low`, at the colon.
    fn slice(&mut self, base: ExprId, low: Option<ExprId>) -> Parse<State> {
        self.advance()?;
        self.pop();
        if self.at(TokenKind::RightBracket) {
            return self.end_slice(base, low, None);
        }
        self.push(Frame::Slice { base, low })?;
        Ok(State::Operand)
    }

    fn end_slice(
        &mut self,
        base: ExprId,
        low: Option<ExprId>,
        high: Option<ExprId>,
    ) -> Parse<State> {
        self.expect(TokenKind::RightBracket)?;
        let span = self.span_from(self.ast.span(base).start);
        let parts = [Some(base), low, high];
        let height = parts.into_iter().flatten().map(|part| self.height(part)).max();
        let id = self.add_expr(Expr::Slice(base, low, high), span, height.unwrap_or(0) + 1)?;
        Ok(State::Operator(id))
    }

    pub(super) fn argument(&mut self) -> Parse<State> {
        if !self.at(TokenKind::RightParen) && !self.at(TokenKind::Eof) {
            return Ok(State::Operand);
        }
        let Some(&Frame::Call { function, mark }) = self.stacks.frames.last() else {
            return Err(Stop);
        };
        self.pop();
        self.expect_closing(TokenKind::RightParen, "argument list")?;
        let (arguments, height) = self.take_exprs(mark);
        let height = height.max(self.height(function)) + 1;
        let span = self.span_from(self.ast.span(function).start);
        let id = self.add_expr(Expr::Call(function, arguments), span, height)?;
        Ok(State::Operator(id))
    }

    /// Hands a complete expression to the innermost frame.
    pub(super) fn deliver(&mut self, expr: ExprId) -> Parse<State> {
        let Some(&frame) = self.stacks.frames.last() else { return Err(Stop) };
        match frame {
            Frame::Binary { .. } | Frame::Unary { .. } | Frame::File | Frame::Struct { .. } => {
                Err(Stop)
            }
            Frame::Expression => {
                self.stacks.frames.pop();
                if self.at_comma() {
                    self.advance()?;
                }
                if !self.at(TokenKind::Eof) {
                    return self.expected("'EOF'");
                }
                Ok(State::Done(Some(expr)))
            }
            Frame::Paren { start } => {
                self.expect(TokenKind::RightParen)?;
                self.pop();
                let span = self.span_from(start);
                let id = self.add_expr(Expr::Paren(expr), span, self.height(expr) + 1)?;
                Ok(State::Operator(id))
            }
            Frame::Call { .. } => {
                self.stacks.exprs.push(expr);
                self.comma("argument list", &[TokenKind::RightParen])?;
                Ok(State::Arguments)
            }
            Frame::Index { base } => {
                if self.at(TokenKind::Colon) {
                    return self.slice(base, Some(expr));
                }
                self.expect(TokenKind::RightBracket)?;
                self.pop();
                let span = self.span_from(self.ast.span(base).start);
                let height = self.height(base).max(self.height(expr)) + 1;
                let id = self.add_expr(Expr::Index(base, expr), span, height)?;
                Ok(State::Operator(id))
            }
            Frame::Slice { base, low } => {
                self.pop();
                self.end_slice(base, low, Some(expr))
            }
            Frame::Interpolation { start, mark } => self.interpolated(expr, start, mark),
            Frame::List { .. } => self.element_end(expr),
            Frame::ListEllipsis { start } => {
                self.stacks.frames.pop();
                let span = self.span_from(start);
                let height = self.height(expr) + 1;
                let id = self.add_expr(Expr::Ellipsis(Some(expr)), span, height)?;
                self.stacks.exprs.push(id);
                self.list_end()
            }
            Frame::Alias { name, list } => {
                self.pop();
                let alias = self.alias(name, expr)?;
                if list { self.element_end(alias) } else { self.value(alias) }
            }
            Frame::Label => {
                self.stacks.frames.pop();
                self.label(expr, None)
            }
            Frame::LabelAlias { name } => {
                self.pop();
                self.label(expr, Some(name))
            }
            Frame::Value { .. } => self.value(expr),
            Frame::ValueAlias { name } => {
                self.pop();
                if self.at_label_end() {
                    return self.chain(expr, Some(name));
                }
                let alias = self.alias(name, expr)?;
                self.value(alias)
            }
            Frame::Let { name, start } => {
                self.stacks.frames.pop();
                let height = self.height(expr);
                let span = self.span_from(start);
                self.end_decl(DeclKind::Let(name, expr), span, height)
            }
            Frame::Comprehension { start, mark, list } => {
                self.pop();
                self.end_comprehension(expr, start, mark, list)
            }
            Frame::For { key, value } => {
                self.stacks.frames.pop();
                self.clause_end(Clause::For { key, value, source: expr })
            }
            Frame::If => {
                self.stacks.frames.pop();
                self.clause_end(Clause::If(expr))
            }
            Frame::LetClause { name } => {
                self.stacks.frames.pop();
                self.clause_end(Clause::Let(name, expr))
            }
        }
    }

    /// The name before `=`. That `_` binds nothing is not a matter of syntax.
    pub(super) fn alias_name(&mut self, expr: ExprId) -> Option<Ident> {
        let symbol = match self.ast.expr(expr) {
            Expr::Ident(symbol) => symbol,
            Expr::Top => self.ast.add_str("_"),
            _ => return None,
        };
        Some(Ident { symbol, span: self.ast.span(expr) })
    }

    fn alias(&mut self, name: Ident, expr: ExprId) -> Parse<ExprId> {
        let span = name.span.to(self.ast.span(expr));
        self.add_expr(Expr::Alias(name, expr), span, self.height(expr) + 1)
    }

    fn interpolated(&mut self, expr: ExprId, start: u32, mark: usize) -> Parse<State> {
        if !self.at(TokenKind::RightParen) {
            let message = "expected ')' for string interpolation";
            return self.fail(message, self.token.span);
        }
        self.stacks.pieces.push(Piece::Expr(expr));
        self.tokens += 1;
        self.token = self.lexer.resume(start);
        if !self.lexer.errors().is_empty() {
            return Err(Stop);
        }
        let begin = self.token.span.start;
        if self.at(TokenKind::Interpolation) {
            self.stacks.pieces.push(Piece::Text(Span::new(begin, self.piece_end())));
            self.advance()?;
            return Ok(State::Operand);
        }
        let literal = self.text.get(start as usize..).unwrap_or_default();
        let Some((quotes, _)) = Quotes::open(literal) else { return Err(Stop) };
        let closing = quotes.closing_width();
        let end = self.token.span.end.saturating_sub(to_u32(closing));
        self.stacks.pieces.push(Piece::Text(Span::new(begin, end)));
        let pieces = self.stacks.pieces.split_off(mark);
        self.pop();
        let bytes = quotes.quote == b'\'';
        let texts: Vec<Span> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Text(span) => Some(*span),
                Piece::Expr(_) => None,
            })
            .collect();
        let decoded = match quotes.decode(self.text, &texts) {
            Ok(decoded) => decoded,
            Err(error) => {
                let at = to_u32(error.offset);
                return self.fail(error.message, Span::new(at, at));
            }
        };
        let mut decoded = decoded.into_iter();
        let mut parts = Vec::with_capacity(pieces.len());
        let mut height = 0;
        for piece in &pieces {
            match piece {
                Piece::Expr(expr) => {
                    height = height.max(self.height(*expr));
                    parts.push(Part::Expr(*expr));
                }
                Piece::Text(_) => {
                    let value = decoded.next().unwrap_or_default();
                    if bytes {
                        parts.push(Part::Bytes(self.ast.add_bytes(&value)));
                    } else {
                        let value = String::from_utf8_lossy(&value);
                        parts.push(Part::Text(self.ast.add_str(&value)));
                    }
                }
            }
        }
        let parts = self.ast.add_parts(&parts);
        let span = Span::new(start, self.token.span.end);
        let id = self.add_expr(Expr::Interpolation { parts, bytes }, span, height + 1)?;
        self.advance()?;
        Ok(State::Operator(id))
    }
}

fn unary_op(kind: TokenKind) -> Option<UnaryOp> {
    Some(match kind {
        TokenKind::Add => UnaryOp::Plus,
        TokenKind::Subtract => UnaryOp::Minus,
        TokenKind::Not => UnaryOp::Not,
        TokenKind::Multiply => UnaryOp::Default,
        TokenKind::NotEqual => UnaryOp::NotEqual,
        TokenKind::Less => UnaryOp::Less,
        TokenKind::LessEqual => UnaryOp::LessEqual,
        TokenKind::Greater => UnaryOp::Greater,
        TokenKind::GreaterEqual => UnaryOp::GreaterEqual,
        TokenKind::Match => UnaryOp::Match,
        TokenKind::NotMatch => UnaryOp::NotMatch,
        _ => return None,
    })
}
