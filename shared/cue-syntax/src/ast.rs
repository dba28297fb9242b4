//! The syntax tree: one `Vec` per node class, 32-bit ids between nodes.
//!
//! No node owns another, so neither building nor dropping a tree recurses, however deep the
//! source nests. Texts (identifiers, decoded strings, number texts) are interned as [`Symbol`]s
//! of the [`Ast`] they belong to.

use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use crate::position::{LineIndex, Position, Span};

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// The name given to the parser; used in positions only.
    pub name: Arc<str>,
    /// The text that was parsed; spans point into it.
    pub source: Arc<str>,
    /// The package clause.
    pub package: Option<Ident>,
    /// All import specs, in order.
    pub imports: Vec<Import>,
    /// The top-level declarations (without package clause and imports).
    pub decls: List<DeclId>,
    /// All comment groups, in order of position.
    pub comments: Vec<Comment>,
    /// The nodes.
    pub ast: Ast,
    /// The starts of all lines, once somebody asked for a position.
    pub(crate) lines: OnceLock<LineIndex>,
}

impl File {
    /// The source text of a span; empty for [`Span::NONE`].
    #[must_use]
    pub fn text(&self, span: Span) -> &str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// The starts of all lines.
    #[must_use]
    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(&self.source))
    }

    /// Line and column of an offset.
    #[must_use]
    pub fn position(&self, offset: u32) -> Position {
        self.lines().position(offset)
    }

    /// The comments that belong to a declaration: those above it, then those behind it (or behind
    /// the bracket it opens) on the same line. Each item is a whole group, see [`Comment`].
    pub fn comments_of(&self, decl: DeclId) -> impl Iterator<Item = &Comment> {
        let owner = self.ast.decl(decl);
        [owner.docs, owner.inner, owner.tail]
            .into_iter()
            .flat_map(|range| self.comments.get(range.range()).unwrap_or_default())
    }

    /// Whether there are any [comments of](Self::comments_of) a declaration.
    #[must_use]
    pub fn has_comments(&self, decl: DeclId) -> bool {
        let owner = self.ast.decl(decl);
        !(owner.docs.is_empty() && owner.inner.is_empty() && owner.tail.is_empty())
    }

    /// The lines of the comments of a declaration, without the `//`.
    pub fn comment_lines(&self, decl: DeclId) -> impl Iterator<Item = &str> {
        self.comments_of(decl).flat_map(|comment| comment.lines(&self.source))
    }
}

/// A group of comment lines without an empty line between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment {
    /// From the first `//` to the end of the last line.
    pub span: Span,
    /// Whether the group stands directly above what follows (no empty line between).
    pub doc: bool,
    /// Whether the group stands behind something on the same line.
    pub line: bool,
}

impl Comment {
    /// The lines of the group, each without its `//`.
    pub fn lines<'a>(&self, source: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = source.get(self.span.start as usize..self.span.end as usize);
        text.unwrap_or_default().lines().filter_map(|line| line.trim().strip_prefix("//"))
    }
}

/// A range of [`File::comments`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comments {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Comments {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// An import spec: `import name "path"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The local name, if one is given.
    pub name: Option<Ident>,
    /// The decoded path, for example `encoding/json` or `vela/op`, with any `:name` suffix.
    pub path: Symbol,
    /// The whole spec.
    pub span: Span,
}

impl Import {
    /// The name the import binds in the file: the given one, else that behind `:`, else the last
    /// element of the path.
    #[must_use]
    pub fn local_name<'a>(&self, ast: &'a Ast) -> &'a str {
        if let Some(name) = &self.name {
            return ast.str(name.symbol);
        }
        let path = ast.str(self.path);
        if let Some((_, name)) = path.rsplit_once(':') {
            return name;
        }
        let path = path.split_once('@').map_or(path, |(path, _)| path);
        path.rsplit_once('/').map_or(path, |(_, last)| last)
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An interned text of one [`Ast`].
    Symbol;
    /// A bytes literal's value.
    BytesId;
    /// An expression.
    ExprId;
    /// A declaration.
    DeclId;
    /// Index of a field in the arena.
    FieldId;
    /// Index of a comprehension in the arena.
    ComprehensionId;
}

/// Several ids, stored one after another in the tree's side table.
#[derive(Debug)]
pub struct List<T> {
    start: u32,
    len: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<T> {}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { start: 0, len: 0, of: PhantomData }
    }
}

impl<T> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start && self.len == other.len
    }
}

impl<T> Eq for List<T> {}

impl<T> List<T> {
    /// How many.
    #[must_use]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// A name in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The text, with any `#`, `_`, `_#` or `__` in front.
    pub symbol: Symbol,
    /// Where it stands.
    pub span: Span,
}

/// An expression. Its place is [`Ast::span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expr {
    /// What could not be parsed; an error was reported.
    Bad,
    /// `_|_`
    Bottom,
    /// `_`
    Top,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number; the text as written, valid for [`crate::literal::Number::parse`].
    Number(Symbol),
    /// A string without interpolation; its decoded value.
    String(Symbol),
    /// A bytes literal without interpolation; its decoded value is [`Ast::bytes`].
    Bytes(BytesId),
    /// A string (or, if `bytes`, a bytes literal) with `\(...)` in it.
    Interpolation {
        /// The texts and expressions, in order.
        parts: List<Part>,
        /// Whether the quotes are those of a bytes literal.
        bytes: bool,
    },
    /// A reference by name.
    Ident(Symbol),
    /// `{...}`
    Struct {
        /// The declarations, in order.
        decls: List<DeclId>,
        /// False for the struct that the shorthand `a: b: c` implies.
        braces: bool,
    },
    /// `[...]`; comprehensions, ellipses and aliases may stand among the elements.
    List(List<ExprId>),
    /// `...` or `...T`, as the last element of a list.
    Ellipsis(Option<ExprId>),
    /// A comprehension as an element of a list.
    Comprehension(ComprehensionId),
    /// `(e)`
    Paren(ExprId),
    /// An operator in front, including bounds such as `>=1` and the default mark `*`.
    Unary(UnaryOp, ExprId),
    /// `a op b`. Chains nest to the left, as deep as they are long: the parser's depth limit does
    /// not count left operands, so walk them in a loop.
    Binary(BinaryOp, ExprId, ExprId),
    /// `e.a`, `e."a"`, `e.#A`
    Selector(ExprId, Selector),
    /// `e[i]`
    Index(ExprId, ExprId),
    /// `e[low:high]`
    Slice(ExprId, Option<ExprId>, Option<ExprId>),
    /// `f(...)`
    Call(ExprId, List<ExprId>),
    /// `X=e` where an expression may stand: as a field's value, in a list.
    Alias(Ident, ExprId),
}

/// What stands behind the dot of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The decoded name.
    pub symbol: Symbol,
    /// Whether it was quoted; then it never names a definition or hidden field.
    pub quoted: bool,
    /// Where it stands.
    pub span: Span,
}

/// A piece of an interpolated literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Decoded text between expressions.
    Text(Symbol),
    /// The same in a bytes literal.
    Bytes(BytesId),
    /// The expression in `\(...)`.
    Expr(ExprId),
}

/// Operators in front of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `!`
    Not,
    /// `*`, the default mark of a disjunct
    Default,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
}

/// Operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `|`
    Or,
    /// `&`
    And,
    /// `||`
    LogicalOr,
    /// `&&`
    LogicalAnd,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `div`, Euclidean division of integers
    Div,
    /// `mod`, its remainder
    Mod,
    /// `quo`, truncated division of integers
    Quo,
    /// `rem`, its remainder
    Rem,
}

impl UnaryOp {
    /// The operator as written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Not => "!",
            Self::Default => "*",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Match => "=~",
            Self::NotMatch => "!~",
        }
    }
}

impl BinaryOp {
    /// The operator as written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Or => "|",
            Self::And => "&",
            Self::LogicalOr => "||",
            Self::LogicalAnd => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Match => "=~",
            Self::NotMatch => "!~",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Div => "div",
            Self::Mod => "mod",
            Self::Quo => "quo",
            Self::Rem => "rem",
        }
    }

    /// How strongly it binds, from 1 (`|`) to 7 (`*`).
    #[must_use]
    pub fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::LogicalOr => 3,
            Self::LogicalAnd => 4,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessEqual
            | Self::Greater
            | Self::GreaterEqual
            | Self::Match
            | Self::NotMatch => 5,
            Self::Add | Self::Subtract => 6,
            Self::Multiply | Self::Divide | Self::Div | Self::Mod | Self::Quo | Self::Rem => 7,
        }
    }
}

/// A declaration in a file or struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decl {
    /// What it is.
    pub kind: DeclKind,
    /// The whole declaration, without comments.
    pub span: Span,
    /// The comment groups above it.
    pub docs: Comments,
    /// The comment group inside it on the line on which it begins, as in `a: { // here`.
    pub inner: Comments,
    /// The comment group behind it, on the line on which it ends.
    pub tail: Comments,
}

/// The kinds of declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclKind {
    /// What could not be parsed; an error was reported.
    Bad,
    /// `label: value`
    Field(FieldId),
    /// An expression that stands for itself.
    Embed(ExprId),
    /// `...` or `...T`
    Ellipsis(Option<ExprId>),
    /// `let x = e`
    Let(Ident, ExprId),
    /// `for` and `if` clauses with a struct.
    Comprehension(ComprehensionId),
    /// `@name(...)`, the text as written.
    Attribute(Symbol),
    /// `X = e`, the deprecated form of `let`.
    Alias(Ident, ExprId),
}

/// `X=label?: value @attr()`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `X` in `X=label: value`.
    pub alias: Option<Ident>,
    /// What is left of the colon.
    pub label: Label,
    /// Where the label stands, without alias and marker.
    pub label_span: Span,
    /// `?`, `!` or nothing.
    pub marker: Marker,
    /// What is right of the colon; [`Expr::Alias`] for `label: X=value`.
    pub value: ExprId,
    /// The attributes behind the value, as written.
    pub attributes: List<Symbol>,
}

/// The forms of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// `a`, `#A`, `_a`, `_#A`
    Ident(Symbol),
    /// `"a"`, decoded
    String(Symbol),
    /// `"\(e)"`: an [`Expr::Interpolation`]
    Interpolation(ExprId),
    /// `(e)`: the expression between the parentheses
    Dynamic(ExprId),
    /// `[e]` or `[X=e]`
    Pattern {
        /// `X`
        alias: Option<Ident>,
        /// The expression that labels are matched with.
        pattern: ExprId,
    },
}

/// Whether a field is a field or a constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Marker {
    /// `a:`
    #[default]
    Regular,
    /// `a?:`
    Optional,
    /// `a!:`
    Required,
}

/// `for k, v in e if c let x = y {...}`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comprehension {
    /// At least one; the first is never a `let`.
    pub clauses: List<Clause>,
    /// The struct behind the clauses.
    pub body: ExprId,
    /// From the first clause to the closing brace.
    pub span: Span,
}

/// A clause of a comprehension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// `for key, value in source`
    For {
        /// The name before the comma.
        key: Option<Ident>,
        /// The only or second name.
        value: Ident,
        /// What is iterated.
        source: ExprId,
    },
    /// `if condition`
    If(ExprId),
    /// `let name = value`
    Let(Ident, ExprId),
}

/// All nodes of a file.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    exprs: Vec<Expr>,
    spans: Vec<Span>,
    decls: Vec<Decl>,
    fields: Vec<Field>,
    comprehensions: Vec<Comprehension>,
    clauses: Vec<Clause>,
    parts: Vec<Part>,
    ids: Vec<u32>,
    bytes: Vec<Box<[u8]>>,
    symbols: Interner,
}

impl Ast {
    /// The expression of an id.
    #[must_use]
    pub fn expr(&self, id: ExprId) -> Expr {
        self.exprs[id.index()]
    }

    /// Where an expression stands.
    #[must_use]
    pub fn span(&self, id: ExprId) -> Span {
        self.spans[id.index()]
    }

    /// How many expressions there are; ids are `0..expr_count`.
    #[must_use]
    pub fn expr_count(&self) -> usize {
        self.exprs.len()
    }

    /// All expressions, by id.
    pub fn all_exprs(&self) -> impl ExactSizeIterator<Item = Expr> + '_ {
        self.exprs.iter().copied()
    }

    /// How many comprehensions there are.
    #[must_use]
    pub fn comprehension_count(&self) -> usize {
        self.comprehensions.len()
    }

    /// The declaration of an id.
    #[must_use]
    pub fn decl(&self, id: DeclId) -> &Decl {
        &self.decls[id.index()]
    }

    /// The field of an id.
    #[must_use]
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[id.index()]
    }

    /// The comprehension of an id.
    #[must_use]
    pub fn comprehension(&self, id: ComprehensionId) -> &Comprehension {
        &self.comprehensions[id.index()]
    }

    /// The text of a symbol.
    #[must_use]
    pub fn str(&self, symbol: Symbol) -> &str {
        self.symbols.get(symbol)
    }

    /// How many symbols there are; ids are `0..symbol_count`.
    #[must_use]
    pub fn symbol_count(&self) -> usize {
        self.symbols.ranges.len()
    }

    /// The value of a bytes literal.
    #[must_use]
    pub fn bytes(&self, id: BytesId) -> &[u8] {
        &self.bytes[id.index()]
    }

    /// The declarations of a list.
    pub fn decls(&self, list: List<DeclId>) -> impl ExactSizeIterator<Item = DeclId> + '_ {
        self.side(list).iter().map(|&id| DeclId(id))
    }

    /// The expressions of a list.
    pub fn exprs(&self, list: List<ExprId>) -> impl ExactSizeIterator<Item = ExprId> + '_ {
        self.side(list).iter().map(|&id| ExprId(id))
    }

    /// The symbols of a list.
    pub fn symbols(&self, list: List<Symbol>) -> impl ExactSizeIterator<Item = Symbol> + '_ {
        self.side(list).iter().map(|&id| Symbol(id))
    }

    /// The clauses of a comprehension.
    #[must_use]
    pub fn clauses(&self, list: List<Clause>) -> &[Clause] {
        &self.clauses[list.start as usize..(list.start + list.len) as usize]
    }

    /// The parts of an interpolation.
    #[must_use]
    pub fn parts(&self, list: List<Part>) -> &[Part] {
        &self.parts[list.start as usize..(list.start + list.len) as usize]
    }

    fn side<T>(&self, list: List<T>) -> &[u32] {
        &self.ids[list.start as usize..(list.start + list.len) as usize]
    }

    /// Adds an expression.
    pub fn add_expr(&mut self, expr: Expr, span: Span) -> ExprId {
        let id = ExprId(index(self.exprs.len()));
        self.exprs.push(expr);
        self.spans.push(span);
        id
    }

    /// Adds a declaration without comments.
    pub fn add_decl(&mut self, kind: DeclKind, span: Span) -> DeclId {
        let id = DeclId(index(self.decls.len()));
        let none = Comments::default();
        self.decls.push(Decl { kind, span, docs: none, inner: none, tail: none });
        id
    }

    /// Adds a field.
    pub fn add_field(&mut self, field: Field) -> FieldId {
        let id = FieldId(index(self.fields.len()));
        self.fields.push(field);
        id
    }

    /// Adds a comprehension.
    pub fn add_comprehension(&mut self, comprehension: Comprehension) -> ComprehensionId {
        let id = ComprehensionId(index(self.comprehensions.len()));
        self.comprehensions.push(comprehension);
        id
    }

    /// Adds the value of a bytes literal.
    pub fn add_bytes(&mut self, value: &[u8]) -> BytesId {
        let id = BytesId(index(self.bytes.len()));
        self.bytes.push(value.into());
        id
    }

    /// Interns a text.
    pub fn add_str(&mut self, text: &str) -> Symbol {
        self.symbols.intern(text)
    }

    /// Adds a list of declarations.
    pub fn add_decls(&mut self, ids: &[DeclId]) -> List<DeclId> {
        self.add_side(ids.iter().map(|id| id.0))
    }

    /// Adds a list of expressions.
    pub fn add_exprs(&mut self, ids: &[ExprId]) -> List<ExprId> {
        self.add_side(ids.iter().map(|id| id.0))
    }

    /// Adds a list of symbols.
    pub fn add_symbols(&mut self, ids: &[Symbol]) -> List<Symbol> {
        self.add_side(ids.iter().map(|id| id.0))
    }

    /// Adds the clauses of a comprehension.
    pub fn add_clauses(&mut self, clauses: &[Clause]) -> List<Clause> {
        let start = index(self.clauses.len());
        self.clauses.extend_from_slice(clauses);
        List { start, len: index(clauses.len()), of: PhantomData }
    }

    /// Adds the parts of an interpolation.
    pub fn add_parts(&mut self, parts: &[Part]) -> List<Part> {
        let start = index(self.parts.len());
        self.parts.extend_from_slice(parts);
        List { start, len: index(parts.len()), of: PhantomData }
    }

    fn add_side<T>(&mut self, ids: impl Iterator<Item = u32>) -> List<T> {
        let start = index(self.ids.len());
        self.ids.extend(ids);
        List { start, len: index(self.ids.len()) - start, of: PhantomData }
    }

    /// Forgets all nodes, keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.exprs.clear();
        self.spans.clear();
        self.decls.clear();
        self.fields.clear();
        self.comprehensions.clear();
        self.clauses.clear();
        self.parts.clear();
        self.ids.clear();
        self.bytes.clear();
        self.symbols.clear();
    }

    pub(crate) fn decl_mut(&mut self, id: DeclId) -> &mut Decl {
        &mut self.decls[id.index()]
    }
}

/// Arenas stay far below 2^32 nodes: the source size is limited to 32-bit offsets.
fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Texts stored once, one after another, found by an open-addressing table.
#[derive(Clone, Debug, Default)]
struct Interner {
    text: String,
    ranges: Vec<(u32, u32)>,
    /// Of each text its hash.
    hashes: Vec<u32>,
    /// Symbol + 1, or 0; a power of two long, at most half full.
    table: Vec<u32>,
    /// Seeded: the texts are untrusted.
    hasher: hashbrown::DefaultHashBuilder,
}

impl Interner {
    fn get(&self, symbol: Symbol) -> &str {
        let (start, end) = self.ranges[symbol.index()];
        &self.text[start as usize..end as usize]
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ranges.clear();
        self.hashes.clear();
        self.table.fill(0);
    }

    fn intern(&mut self, text: &str) -> Symbol {
        if self.table.len() < (self.ranges.len() + 1) * 2 {
            self.grow();
        }
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text.as_bytes());
        let hash = u32::try_from(hasher.finish() & 0xffff_ffff).unwrap_or_default();
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            match self.table[slot] {
                0 => break,
                id => {
                    let symbol = Symbol(id - 1);
                    if self.hashes[symbol.index()] == hash && self.get(symbol) == text {
                        return symbol;
                    }
                    slot = (slot + 1) & mask;
                }
            }
        }
        let symbol = Symbol(index(self.ranges.len()));
        let start = index(self.text.len());
        self.text.push_str(text);
        self.ranges.push((start, index(self.text.len())));
        self.hashes.push(hash);
        self.table[slot] = symbol.0 + 1;
        symbol
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        let mut table = vec![0; size];
        for (id, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            table[slot] = index(id) + 1;
        }
        self.table = table;
    }
}
