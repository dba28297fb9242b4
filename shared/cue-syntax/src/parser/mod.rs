//! The parser: a push-down automaton.
//!
//! What a recursive-descent parser keeps on the native stack lives in [`Frame`]s here, so nesting
//! costs heap that the depth limit bounds. A frame waits for one expression (or for the end of a
//! struct); [`Parser::deliver`] hands it over and says what is expected next.
//!
//! A syntax error ends the parse; what was complete at the top level stays in the tree.

mod decl;
mod expr;
mod list;
mod preamble;

use std::sync::Arc;

use crate::ast::{
    Ast, BinaryOp, Clause, Comment, Comments, DeclId, DeclKind, Expr, ExprId, File, Ident, Label,
    List, Marker, UnaryOp,
};
use crate::lexer::{Lexer, Token, TokenKind};
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
        Self { size: 1 << 20, depth: 1_000, tokens: 300_000 }
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
const MAX_KEPT: usize = 1 << 14;

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

    /// Reclaims the memory of a tree.
    pub fn recycle(&mut self, file: File) {
        let File { mut ast, mut comments, .. } = file;
        if ast.expr_count() <= MAX_KEPT {
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
}

/// Words that are no names where a name is bound.
fn is_keyword(text: &str) -> bool {
    matches!(text, "for" | "in" | "if" | "let" | "true" | "false" | "null")
}
