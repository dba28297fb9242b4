//! The parser: a push-down automaton.
//!
//! What a recursive-descent parser keeps on the native stack lives in [`Frame`]s here, so nesting
//! costs heap that the depth limit bounds. A frame waits for one expression (or for the end of a
//! struct); [`Parser::deliver`] hands it over and says what is expected next.
//!
//! A syntax error ends the parse; what was complete at the top level stays in the tree.

use std::sync::Arc;

use crate::ast::{
    Ast, BinaryOp, Clause, Comment, Comments, Comprehension, ComprehensionId, DeclId, DeclKind,
    Expr, ExprId, Field, File, Ident, Import, Label, List, Marker, Part, Selector, Symbol, UnaryOp,
};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::literal::{Number, Quotes, Text, to_u32, unquote};
use crate::position::Span;

/// What the parser accepts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLimits {
    /// Bytes of one source text.
    pub size: usize,
    /// Nesting: of brackets while parsing, and of nodes in the tree that results.
    pub depth: u32,
    /// Tokens of one source text.
    pub tokens: usize,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { size: 1 << 20, depth: 1_000, tokens: 500_000 }
    }
}

/// Why a text is not CUE.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The text, as cue prints it, without position.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Whether a [`ParseLimits`] bound was exceeded.
    pub limit: bool,
}

/// Parses a file. Always returns a tree, with the errors found on the way.
///
/// ```
/// use cue_syntax::{ParseLimits, parse};
///
/// let (file, errors) = parse("in.cue", "a: b: 1\n", &ParseLimits::default());
/// assert!(errors.is_empty());
/// assert_eq!(file.decls.len(), 1);
///
/// let (file, errors) = parse("in.cue", "a: 1\nb: }\n", &ParseLimits::default());
/// assert_eq!(file.decls.len(), 1);
/// assert_eq!(errors[0].to_string(), "expected operand, found '}'");
/// assert_eq!(file.position(errors[0].span.start).to_string(), "2:4");
/// ```
#[must_use]
pub fn parse(name: &str, text: &str, limits: &ParseLimits) -> (File, Vec<ParseError>) {
    ParseMemory::default().parse(name, text, limits)
}

/// The memory of a parser, for those who parse many files one after another: trees that are no
/// longer needed leave theirs for the next.
///
/// ```
/// use cue_syntax::{ParseLimits, ParseMemory};
///
/// let mut memory = ParseMemory::default();
/// for text in ["a: 1", "b: 2"] {
///     let (file, errors) = memory.parse("in.cue", text, &ParseLimits::default());
///     assert!(errors.is_empty() && file.decls.len() == 1);
///     memory.recycle(file);
/// }
/// ```
#[derive(Debug, Default)]
pub struct ParseMemory {
    ast: Ast,
    comments: Vec<Comment>,
    stacks: Stacks,
}

/// A tree of more expressions than this is dropped, not kept: most files are far smaller.
const MOST_KEPT: usize = 1 << 14;

impl ParseMemory {
    /// As the function [`parse`].
    #[must_use]
    pub fn parse(
        &mut self,
        name: &str,
        text: &str,
        limits: &ParseLimits,
    ) -> (File, Vec<ParseError>) {
        parse_in(self, name, text, limits)
    }

    /// Takes back the memory of a tree.
    pub fn recycle(&mut self, file: File) {
        let File { mut ast, mut comments, .. } = file;
        if ast.expr_count() <= MOST_KEPT {
            ast.clear();
            comments.clear();
            self.ast = ast;
            self.comments = comments;
        } else {
            self.stacks = Stacks::default();
        }
    }
}

fn parse_in(
    memory: &mut ParseMemory,
    name: &str,
    text: &str,
    limits: &ParseLimits,
) -> (File, Vec<ParseError>) {
    let mut parser = Parser::new(text, limits, memory);
    let mut file = File { name: name.into(), ..File::default() };
    let outcome =
        parser.within_size(text, limits).and_then(|()| parser.preamble(&mut file)).and_then(|()| {
            parser.stacks.frames.push(Frame::File);
            parser.run(State::Decls)
        });
    let top = match outcome {
        Ok(_) => parser.stacks.decls.len(),
        Err(Stop) => parser.complete_decls(),
    };
    file.decls = parser.ast.add_decls(parser.stacks.decls.get(..top).unwrap_or_default());
    parser.finish(&mut file, text, outcome.is_err(), memory)
}

/// Parses one expression, as behind `cue -e`. The expression is the value of the only declaration
/// of the file, a [`DeclKind::Embed`]; its id is returned if there is no error.
#[must_use]
pub fn parse_expr(
    name: &str,
    text: &str,
    limits: &ParseLimits,
) -> (File, Option<ExprId>, Vec<ParseError>) {
    let mut memory = ParseMemory::default();
    let mut parser = Parser::new(text, limits, &mut memory);
    let mut file = File { name: name.into(), ..File::default() };
    let outcome = parser.within_size(text, limits).and_then(|()| parser.advance()).and_then(|()| {
        parser.stacks.frames.push(Frame::Expression);
        parser.run(State::Operand)
    });
    if let Ok(Some(expr)) = outcome {
        let span = parser.ast.span(expr);
        let decl = parser.ast.add_decl(DeclKind::Embed(expr), span);
        file.decls = parser.ast.add_decls(&[decl]);
    }
    let (file, errors) = parser.finish(&mut file, text, outcome.is_err(), &mut memory);
    let expr = outcome.unwrap_or_default().filter(|_| errors.is_empty());
    (file, expr, errors)
}

/// The parse cannot go on; the error is in the list.
#[derive(Clone, Copy, Debug)]
struct Stop;

type Parse<T> = Result<T, Stop>;

/// What the automaton does next.
#[derive(Clone, Copy, Debug)]
enum State {
    /// An operand has to begin at the current token.
    Operand,
    /// An operand is complete; a postfix or infix operator may follow.
    Operator(ExprId),
    /// The next declaration of the innermost struct or of the file begins, or its end.
    Decls,
    /// The next element of the innermost list begins, or its end.
    Elements,
    /// The next clause of the innermost comprehension begins, or its body.
    Clauses,
    /// The next argument of the innermost call begins, or its end.
    Arguments,
    /// All is parsed.
    Done(Option<ExprId>),
}

/// Something unfinished that waits for an expression or for its closing bracket.
#[derive(Clone, Copy, Debug)]
enum Frame {
    /// The declarations of a file.
    File,
    /// The one expression of [`parse_expr`].
    Expression,
    /// `left op` waits for its right operand.
    Binary { op: BinaryOp, left: ExprId },
    /// `op` waits for its operand.
    Unary { op: UnaryOp, start: u32 },
    /// `(`
    Paren { start: u32 },
    /// `f(`; the arguments are `exprs[mark..]`.
    Call { function: ExprId, mark: usize },
    /// `e[`
    Index { base: ExprId },
    /// `e[low:`
    Slice { base: ExprId, low: Option<ExprId> },
    /// `"...\(`; the pieces are `pieces[mark..]`.
    Interpolation { start: u32, mark: usize },
    /// `[`; the elements are `exprs[mark..]`.
    List { start: u32, mark: usize },
    /// `...` waits for the type of further elements.
    ListEllipsis { start: u32 },
    /// `x =` in a list or as a value waits for what is named.
    Alias { name: Ident, list: bool },
    /// `{`; the declarations are `decls[mark..]`.
    Struct { start: u32, mark: usize },
    /// The first expression of a declaration: a label or an embedding.
    Label,
    /// `x =` at the start of a declaration waits for the label.
    LabelAlias { name: Ident },
    /// `label:` waits for its value. The chain of labels is `fields[first..]`.
    Value { first: usize },
    /// `label: x =` waits for a value or a further label.
    ValueAlias { name: Ident },
    /// `let x =`
    Let { name: Ident, start: u32 },
    /// The clauses of a comprehension are `clauses[mark..]`; waits for its body.
    Comprehension { start: u32, mark: usize, list: bool },
    /// `for k, v in`
    For { key: Option<Ident>, value: Ident },
    /// `if`
    If,
    /// `let x =` as a clause
    LetClause { name: Ident },
}

/// A field whose value is not parsed yet.
#[derive(Clone, Copy, Debug)]
struct OpenField {
    alias: Option<Ident>,
    label: Label,
    label_span: Span,
    start: u32,
    marker: Marker,
}

/// Where a declaration began, for its comments.
#[derive(Clone, Copy, Debug)]
struct DeclStart {
    start: u32,
    docs: Comments,
    /// The first comment inside.
    inside: u32,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    Text(Span),
    Expr(ExprId),
}

/// What is unfinished, and what is known of what is finished.
#[derive(Debug, Default)]
struct Stacks {
    /// Height of every expression and declaration: what walking it recursively costs.
    expr_heights: Vec<u32>,
    decl_heights: Vec<u32>,
    frames: Vec<Frame>,
    exprs: Vec<ExprId>,
    decls: Vec<DeclId>,
    fields: Vec<OpenField>,
    clauses: Vec<Clause>,
    pieces: Vec<Piece>,
    starts: Vec<DeclStart>,
}

impl Stacks {
    fn clear(&mut self) {
        self.expr_heights.clear();
        self.decl_heights.clear();
        self.frames.clear();
        self.exprs.clear();
        self.decls.clear();
        self.fields.clear();
        self.clauses.clear();
        self.pieces.clear();
        self.starts.clear();
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    limits: ParseLimits,
    tokens: usize,
    token: Token,
    /// End of the last consumed token that has a text.
    last_end: u32,
    ast: Ast,
    stacks: Stacks,
    errors: Vec<ParseError>,
    /// Brackets, labels and prefix operators that are open.
    depth: u32,
    /// Comments before this one belong to a declaration already.
    attached: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, limits: &ParseLimits, memory: &mut ParseMemory) -> Self {
        let text = if text.len() > limits.size { "" } else { text };
        let token =
            Token { kind: TokenKind::Eof, span: Span::new(0, 0), comments: 0, plain: false };
        Self {
            text,
            lexer: Lexer::with_comments(text, std::mem::take(&mut memory.comments)),
            limits: *limits,
            tokens: 0,
            token,
            last_end: 0,
            ast: std::mem::take(&mut memory.ast),
            stacks: std::mem::take(&mut memory.stacks),
            errors: Vec::new(),
            depth: 0,
            attached: 0,
        }
    }

    fn within_size(&mut self, text: &str, limits: &ParseLimits) -> Parse<()> {
        if text.len() > limits.size.min(u32::MAX as usize - 1) {
            let message = format!("source of {} bytes exceeds {}", text.len(), limits.size);
            return self.limit(message);
        }
        Ok(())
    }

    fn finish(
        mut self,
        file: &mut File,
        text: &str,
        stopped: bool,
        memory: &mut ParseMemory,
    ) -> (File, Vec<ParseError>) {
        let lexer = std::mem::replace(&mut self.lexer, Lexer::new(""));
        let (comments, lexical) = lexer.into_parts();
        self.errors.extend(lexical.into_iter().map(|error| ParseError {
            message: error.message,
            span: Span::new(error.offset, error.offset),
            limit: false,
        }));
        if stopped && self.errors.is_empty() {
            self.report("parser stopped without a reason", self.token.span);
        }
        // Where the lexer and the parser complain of the same place, the lexer came first and
        // knows better.
        self.errors.sort_by_key(|error| error.span.start);
        let mut file = std::mem::take(file);
        file.source = Arc::from(text);
        file.comments = comments;
        file.ast = self.ast;
        self.stacks.clear();
        memory.stacks = self.stacks;
        (file, self.errors)
    }

    /// How many of the declarations on the stack belong to the file and are complete.
    fn complete_decls(&self) -> usize {
        let inner = self.stacks.frames.iter().find_map(|frame| match frame {
            Frame::Struct { mark, .. } => Some(*mark),
            _ => None,
        });
        inner.unwrap_or(self.stacks.decls.len())
    }

    // --- errors ---------------------------------------------------------------------------

    fn report(&mut self, message: impl Into<String>, span: Span) {
        self.errors.push(ParseError { message: message.into(), span, limit: false });
    }

    fn fail<T>(&mut self, message: impl Into<String>, span: Span) -> Parse<T> {
        // A lexical error at the current token explains more than its consequence.
        if self.lexer.errors().is_empty() {
            self.report(message, span);
        }
        Err(Stop)
    }

    fn limit<T>(&mut self, message: impl Into<String>) -> Parse<T> {
        self.errors.push(ParseError {
            message: message.into(),
            span: self.token.span,
            limit: true,
        });
        Err(Stop)
    }

    fn expected<T>(&mut self, what: &str) -> Parse<T> {
        let Token { kind, span, .. } = self.token;
        let found = match kind {
            TokenKind::Newline => "newline".to_owned(),
            TokenKind::Ident if is_keyword(self.token_text()) => {
                format!("'{}'", self.token_text())
            }
            _ if kind.is_literal() => format!("'{}' {}", kind.name(), self.token_text()),
            _ => format!("'{}'", kind.name()),
        };
        self.fail(format!("expected {what}, found {found}"), span)
    }

    // --- tokens ---------------------------------------------------------------------------

    fn advance(&mut self) -> Parse<()> {
        if !self.token.span.is_empty() {
            self.last_end = self.token.span.end;
        }
        self.tokens += 1;
        if self.tokens > self.limits.tokens {
            let message = format!("source has more than {} tokens", self.limits.tokens);
            return self.limit(message);
        }
        self.token = self.lexer.next_token();
        Ok(())
    }

    fn token_text(&self) -> &'a str {
        let Span { start, end } = self.token.span;
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.token.kind == kind
    }

    fn at_comma(&self) -> bool {
        matches!(self.token.kind, TokenKind::Comma | TokenKind::Newline)
    }

    fn at_word(&self, word: &str) -> bool {
        self.at(TokenKind::Ident) && self.token_text() == word
    }

    fn expect(&mut self, kind: TokenKind) -> Parse<()> {
        if self.at(kind) { self.advance() } else { self.expected(&format!("'{}'", kind.name())) }
    }

    /// A closing bracket; a line end before it wants a comma of its own.
    fn expect_closing(&mut self, kind: TokenKind, context: &str) -> Parse<()> {
        if self.at(TokenKind::Newline) && !self.at(kind) {
            let message = format!("missing ',' before newline in {context}");
            return self.fail(message, self.token.span);
        }
        self.expect(kind)
    }

    /// A comma, unless one of `follow` comes. Returns whether there was one.
    fn comma(&mut self, context: &str, follow: &[TokenKind]) -> Parse<bool> {
        if self.at_comma() {
            self.advance()?;
            return Ok(true);
        }
        if follow.contains(&self.token.kind) {
            return Ok(false);
        }
        self.fail(format!("missing ',' in {context}"), self.token.span)
    }

    fn decl_comma(&mut self) -> Parse<()> {
        self.comma("struct literal", &[TokenKind::RightBrace, TokenKind::Eof]).map(drop)
    }

    fn ident(&mut self) -> Parse<Ident> {
        if !self.at(TokenKind::Ident) || is_keyword(self.token_text()) {
            return self.expected("'IDENT'");
        }
        let name = self.any_ident();
        self.advance()?;
        Ok(name)
    }

    fn any_ident(&mut self) -> Ident {
        Ident { symbol: self.ast.add_str(self.token_text()), span: self.token.span }
    }

    // --- nodes ----------------------------------------------------------------------------

    fn add_expr(&mut self, expr: Expr, span: Span, height: u32) -> Parse<ExprId> {
        if height > self.limits.depth {
            return self.too_deep();
        }
        self.stacks.expr_heights.push(height);
        Ok(self.ast.add_expr(expr, span))
    }

    fn too_deep<T>(&mut self) -> Parse<T> {
        let message = format!("expression nests deeper than {}", self.limits.depth);
        self.limit(message)
    }

    fn leaf(&mut self, expr: Expr) -> Parse<State> {
        let span = self.token.span;
        let id = self.add_expr(expr, span, 1)?;
        self.advance()?;
        Ok(State::Operator(id))
    }

    fn height(&self, expr: ExprId) -> u32 {
        self.stacks.expr_heights[expr.index()]
    }

    /// Moves the expressions from `mark` on into the tree; also returns the greatest height.
    fn take_exprs(&mut self, mark: usize) -> (List<ExprId>, u32) {
        let exprs = self.stacks.exprs.get(mark..).unwrap_or_default();
        let height = exprs.iter().map(|&expr| self.height(expr)).max().unwrap_or(0);
        let list = self.ast.add_exprs(exprs);
        self.stacks.exprs.truncate(mark);
        (list, height)
    }

    /// Moves the declarations from `mark` on into the tree; also returns the greatest height.
    fn take_decls(&mut self, mark: usize) -> (List<DeclId>, u32) {
        let decls = self.stacks.decls.get(mark..).unwrap_or_default();
        let heights = decls.iter().map(|decl| self.stacks.decl_heights[decl.index()]);
        let height = heights.max().unwrap_or(0);
        let list = self.ast.add_decls(decls);
        self.stacks.decls.truncate(mark);
        (list, height)
    }

    fn push(&mut self, frame: Frame) -> Parse<()> {
        self.stacks.frames.push(frame);
        self.depth += 1;
        if self.depth > self.limits.depth { self.too_deep() } else { Ok(()) }
    }

    /// Takes off the frame that [`Parser::push`] put on.
    fn pop(&mut self) {
        self.stacks.frames.pop();
        self.depth = self.depth.saturating_sub(1);
    }

    fn span_from(&self, start: u32) -> Span {
        Span::new(start, self.last_end)
    }

    // --- the automaton --------------------------------------------------------------------

    fn run(&mut self, mut state: State) -> Parse<Option<ExprId>> {
        loop {
            state = match state {
                State::Operand => self.operand()?,
                State::Operator(expr) => self.operator(expr)?,
                State::Decls => self.decl()?,
                State::Elements => self.element()?,
                State::Clauses => self.clause()?,
                State::Arguments => self.argument()?,
                State::Done(expr) => return Ok(expr),
            };
        }
    }

    fn operand(&mut self) -> Parse<State> {
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

    fn open_struct(&mut self) -> Parse<()> {
        let start = self.token.span.start;
        if !self.at(TokenKind::LeftBrace) {
            return self.expected("'{'");
        }
        self.push(Frame::Struct { start, mark: self.stacks.decls.len() })?;
        self.advance()
    }

    fn string(&mut self) -> Parse<Expr> {
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

    fn operator(&mut self, expr: ExprId) -> Parse<State> {
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

    fn argument(&mut self) -> Parse<State> {
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
    fn deliver(&mut self, expr: ExprId) -> Parse<State> {
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
    fn alias_name(&mut self, expr: ExprId) -> Option<Ident> {
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

    // --- lists ----------------------------------------------------------------------------

    fn element(&mut self) -> Parse<State> {
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

    fn element_end(&mut self, expr: ExprId) -> Parse<State> {
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
    fn list_end(&mut self) -> Parse<State> {
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

    // --- comprehensions -------------------------------------------------------------------

    /// At `for` or `if` where a comprehension may begin. It does not if the word is a label or
    /// stands alone.
    fn begin_comprehension(&mut self, list: bool) -> Parse<State> {
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

    fn clause_end(&mut self, clause: Clause) -> Parse<State> {
        self.stacks.clauses.push(clause);
        if self.at_comma() {
            self.advance()?;
        }
        Ok(State::Clauses)
    }

    fn clause(&mut self) -> Parse<State> {
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

    fn end_comprehension(
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

    // --- declarations ---------------------------------------------------------------------

    fn decl(&mut self) -> Parse<State> {
        let start = self.token.span.start;
        match self.token.kind {
            TokenKind::RightBrace | TokenKind::Eof => return self.struct_end(),
            _ => self.begin_decl(),
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
    fn begin_decl(&mut self) {
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
    fn end_decl(&mut self, kind: DeclKind, span: Span, height: u32) -> Parse<State> {
        let before = self.token.comments;
        self.decl_comma()?;
        self.stacks.decl_heights.push(height);
        let id = self.ast.add_decl(kind, span);
        self.stacks.decls.push(id);
        let Some(begun) = self.stacks.starts.pop() else { return Err(Stop) };
        let comments = self.lexer.comments();
        let behind = comments.get(before as usize).is_some_and(|comment| comment.line);
        let tail = if behind && before < self.token.comments {
            Comments { start: before, end: before + 1 }
        } else {
            Comments::default()
        };
        let inner = match comments.get(begun.inside as usize) {
            Some(comment)
                if comment.line
                    && begun.inside < before
                    && comment.span.start > begun.start
                    && self.one_line(begun.start, comment.span.start) =>
            {
                Comments { start: begun.inside, end: begun.inside + 1 }
            }
            _ => Comments::default(),
        };
        if !tail.is_empty() {
            self.attached = self.attached.max(tail.end);
        }
        let decl = self.ast.decl_mut(id);
        decl.docs = begun.docs;
        decl.inner = inner;
        decl.tail = tail;
        Ok(State::Decls)
    }

    /// Whether no line ends between two offsets.
    fn one_line(&self, start: u32, end: u32) -> bool {
        let between = self.text.get(start as usize..end as usize).unwrap_or_default();
        memchr::memchr(b'\n', between.as_bytes()).is_none()
    }

    fn at_label_end(&self) -> bool {
        matches!(self.token.kind, TokenKind::Colon | TokenKind::Option | TokenKind::Not)
    }

    /// The first expression of a declaration is complete.
    fn label(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
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
            return self.open_field(expr, alias);
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

    /// At `:`, `?` or `!` behind a label. The innermost frame is [`Frame::Value`].
    fn open_field(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
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
        let marker = match self.token.kind {
            TokenKind::Option => Marker::Optional,
            TokenKind::Not => Marker::Required,
            _ => Marker::Regular,
        };
        if marker != Marker::Regular {
            self.advance()?;
        }
        self.expect(TokenKind::Colon)?;
        let start = alias.map_or(span.start, |alias| alias.span.start);
        self.stacks.fields.push(OpenField { alias, label, label_span: span, start, marker });
        Ok(State::Operand)
    }

    /// A value of the innermost field is complete; or it is the next label of a chain.
    fn value(&mut self, expr: ExprId) -> Parse<State> {
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

    fn chain(&mut self, expr: ExprId, alias: Option<Ident>) -> Parse<State> {
        if !self.is_label(expr) {
            return self.fail("missing ',' in struct literal", self.token.span);
        }
        self.depth += 1;
        if self.depth > self.limits.depth {
            return self.too_deep();
        }
        self.open_field(expr, alias)
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

    // --- package clause and imports -------------------------------------------------------

    fn preamble(&mut self, file: &mut File) -> Parse<()> {
        self.advance()?;
        self.file_attributes()?;
        if self.at_word("package") {
            self.attached = self.token.comments;
            self.advance()?;
            let name = self.ident()?;
            let text = self.ast.str(name.symbol);
            if is_definition(text) {
                let message = format!("invalid package name {text}");
                self.report(message, name.span);
            }
            file.package = Some(name);
            self.skip_decl_comma()?;
        }
        self.file_attributes()?;
        while self.at_word("import") {
            self.attached = self.token.comments;
            self.advance()?;
            if self.at(TokenKind::LeftParen) {
                self.advance()?;
                while !self.at(TokenKind::RightParen) && !self.at(TokenKind::Eof) {
                    let import = self.import()?;
                    file.imports.push(import);
                }
                self.expect(TokenKind::RightParen)?;
                self.skip_decl_comma()?;
            } else {
                let import = self.import()?;
                file.imports.push(import);
            }
            self.file_attributes()?;
        }
        Ok(())
    }

    /// The comma of a package or import clause; a comment behind it belongs to the clause.
    fn skip_decl_comma(&mut self) -> Parse<()> {
        let before = self.token.comments;
        if !self.at_comma() && !self.at(TokenKind::Eof) && !self.at(TokenKind::RightParen) {
            return self.expected("','");
        }
        if self.at_comma() {
            self.advance()?;
        }
        let behind = self.lexer.comments().get(before as usize).is_some_and(|comment| comment.line);
        self.attached = before + u32::from(behind);
        Ok(())
    }

    fn file_attributes(&mut self) -> Parse<()> {
        while self.at(TokenKind::Attribute) {
            self.begin_decl();
            let symbol = self.ast.add_str(self.token_text());
            let span = self.token.span;
            self.advance()?;
            self.end_decl(DeclKind::Attribute(symbol), span, 0)?;
        }
        Ok(())
    }

    fn import(&mut self) -> Parse<Import> {
        let start = self.token.span.start;
        let mut name = None;
        if self.at(TokenKind::Ident) {
            let ident = self.ident()?;
            if is_definition(self.ast.str(ident.symbol)) {
                self.report("cannot import package as definition identifier", ident.span);
            }
            name = Some(ident);
        }
        if !self.at(TokenKind::String) {
            return self.expected("'STRING'");
        }
        let span = self.token.span;
        let path = match self.string()? {
            Expr::String(symbol) if is_import_path(self.ast.str(symbol)) => symbol,
            _ => {
                let message = format!("invalid import path: {}", self.token_text());
                return self.fail(message, span);
            }
        };
        self.advance()?;
        let span = self.span_from(start);
        self.skip_decl_comma()?;
        Ok(Import { name, path, span })
    }
}

/// Words that are no names where a name is bound.
fn is_keyword(text: &str) -> bool {
    matches!(text, "for" | "in" | "if" | "let" | "true" | "false" | "null")
}

fn is_definition(name: &str) -> bool {
    name.starts_with('#') || name.starts_with("_#")
}

fn is_import_path(path: &str) -> bool {
    const ILLEGAL: &str = "!\"#$%&'()*,:;<=>?[]^{|}`\u{fffd}";
    let bare = path.rsplit_once(':').map_or(path, |(bare, _)| bare);
    !bare.is_empty() && !bare.contains(|c: char| c.is_control() || c == ' ' || ILLEGAL.contains(c))
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
