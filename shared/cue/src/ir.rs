//! The intermediate form: names resolved, declarations grouped, constants folded.
//!
//! An [`Ir`] is immutable and shared by all evaluations of a program. Expressions are small `Copy`
//! nodes in one vector and refer to each other by index.

use crate::kind::Kind;
use crate::label::{Interner, Label};
use crate::std::Builtin;
use crate::value::Number;
use cue_syntax::Span;
use cue_syntax::ast::{BinaryOp, Comment, UnaryOp};
use ecow::EcoString;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};
use vela_gocompat::regexp::Matcher;

macro_rules! ids {
    ($($name:ident)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);
        impl $name {
            pub(crate) const fn idx(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! { ExprId StructId ListId CompId TextId BytesId NumId CallId PartsId DisjId SliceId PackageId BuiltinId FileId }

const _: () = assert!(size_of::<Expr>() == 16);

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pos {
    pub(crate) file: FileId,
    pub(crate) start: u32,
}

/// Functions of the language itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Core {
    Len,
    Close,
    And,
    Or,
    Div,
    Mod,
    Quo,
    Rem,
    MatchN,
    MatchIf,
    Error,
}

impl Core {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Len => "len",
            Self::Close => "close",
            Self::And => "and",
            Self::Or => "or",
            Self::Div => "div",
            Self::Mod => "mod",
            Self::Quo => "quo",
            Self::Rem => "rem",
            Self::MatchN => "matchN",
            Self::MatchIf => "matchIf",
            Self::Error => "error",
        }
    }
}

/// What a call calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    Core(Core),
    Std(BuiltinId),
    /// Anything else: an error unless it turns out to be a builtin.
    Expr(ExprId),
}

/// Sixteen bytes: most of a program are these.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expr {
    Null,
    Top,
    Bottom,
    Bool(bool),
    Int(i64),
    Num(NumId),
    Str(TextId),
    Bytes(BytesId),
    Kind(Kind),
    /// A field of the struct `up` frames out.
    Ref {
        up: u32,
        label: Label,
    },
    /// The vertex of the frame `up` frames out: value aliases, loop variables.
    Frame {
        up: u32,
    },
    /// The key of the `for` frame `up` frames out, or the label of a pattern frame.
    Key {
        up: u32,
    },
    Package(PackageId),
    Sel(ExprId, Label),
    Index(ExprId, ExprId),
    Slice(ExprId, SliceId),
    Unary(UnaryOp, ExprId),
    Binary(BinaryOp, ExprId, ExprId),
    And(ExprId, ExprId),
    Disj(DisjId),
    Bound(UnaryOp, ExprId),
    Call(CallId),
    CoreFunc(Core),
    StdFunc(BuiltinId),
    Interp(PartsId, bool),
    Struct(StructId),
    List(ListId),
    /// In lists and as embedding.
    Comp(CompId),
    /// `e != _|_` (present) or `e == _|_` (absent).
    Presence(ExprId, bool),
    /// Evaluates the expression in a new frame whose vertex is the one it is a conjunct of.
    AliasScope(ExprId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Regular,
    Required,
    Optional,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldDecl {
    pub(crate) label: Label,
    pub(crate) marker: Marker,
    pub(crate) value: ExprId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternDecl {
    pub(crate) pattern: ExprId,
    pub(crate) value: ExprId,
    /// Whether the value is compiled inside a frame that knows label and field.
    pub(crate) framed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DynamicDecl {
    pub(crate) label: ExprId,
    pub(crate) marker: Marker,
    pub(crate) value: ExprId,
}

/// A struct literal with its declarations grouped.
#[derive(Debug, Default)]
pub(crate) struct StructTmpl {
    pub(crate) fields: Vec<FieldDecl>,
    pub(crate) more: Option<Box<More>>,
    pub(crate) open: bool,
    /// Has regular fields, patterns or an ellipsis, or nothing at all: surely a struct.
    pub(crate) surely_struct: bool,
}

/// What most struct literals have none of.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) patterns: Vec<PatternDecl>,
    pub(crate) dynamics: Vec<DynamicDecl>,
    pub(crate) embeds: Vec<ExprId>,
    pub(crate) comps: Vec<CompId>,
}

impl StructTmpl {
    pub(crate) fn patterns(&self) -> &[PatternDecl] {
        self.more.as_ref().map_or(&[], |more| &more.patterns)
    }

    pub(crate) fn dynamics(&self) -> &[DynamicDecl] {
        self.more.as_ref().map_or(&[], |more| &more.dynamics)
    }

    pub(crate) fn embeds(&self) -> &[ExprId] {
        self.more.as_ref().map_or(&[], |more| &more.embeds)
    }

    pub(crate) fn comps(&self) -> &[CompId] {
        self.more.as_ref().map_or(&[], |more| &more.comps)
    }

    /// To add what is not a field.
    pub(crate) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }
}

#[derive(Debug)]
pub(crate) struct ListTmpl {
    pub(crate) elems: Vec<ExprId>,
    /// `...` (`Some(None)`) or `...T`.
    pub(crate) ellipsis: Option<Option<ExprId>>,
    pub(crate) has_comp: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Clause {
    /// `keyed` if the loop has a name for the keys.
    For {
        source: ExprId,
        keyed: bool,
    },
    If(ExprId),
    Let(ExprId),
}

#[derive(Debug)]
pub(crate) struct CompTmpl {
    pub(crate) clauses: Vec<Clause>,
    pub(crate) body_expr: ExprId,
    /// Labels the body may define, sorted; nested comprehensions included.
    pub(crate) labels: Vec<Label>,
    /// Whether the body may define others too (dynamic fields, embeddings, patterns).
    pub(crate) open: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Alternative {
    pub(crate) marked: bool,
    pub(crate) expr: ExprId,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(TextId),
    Bytes(BytesId),
    Expr(ExprId),
}

#[derive(Debug)]
pub(crate) struct CallTmpl {
    pub(crate) callee: Callee,
    pub(crate) args: Vec<ExprId>,
}

#[derive(Debug)]
pub(crate) struct StdRef {
    pub(crate) package: EcoString,
    pub(crate) name: &'static str,
    pub(crate) builtin: &'static Builtin,
}

/// A compiled source file.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: EcoString,
    pub(crate) text: Arc<str>,
    pub(crate) lines: OnceLock<cue_syntax::LineIndex>,
}

impl Source {
    /// Line and column of an offset. Only messages ask.
    pub(crate) fn position(&self, offset: u32) -> cue_syntax::Position {
        self.lines.get_or_init(|| cue_syntax::LineIndex::new(&self.text)).position(offset)
    }
}

/// Regular expressions that are texts of the program, compiled when first needed: that takes longer
/// than most evaluations.
#[derive(Debug, Default)]
pub(crate) struct Regexps(RwLock<FxHashMap<EcoString, Arc<Matcher>>>);

impl Regexps {
    pub(crate) fn get(&self, text: &str) -> Option<Arc<Matcher>> {
        self.0.read().get(text).map(Arc::clone)
    }

    pub(crate) fn keep(&self, text: &EcoString, compiled: &Arc<Matcher>) {
        self.0.write().insert(text.clone(), Arc::clone(compiled));
    }
}

/// Comments above a field; nearly always one.
pub(crate) type Docs = SmallVec<[Span; 2]>;

/// A compiled program.
#[derive(Debug, Default)]
pub(crate) struct Ir {
    pub(crate) names: Interner,
    pub(crate) exprs: Vec<Expr>,
    pub(crate) pos: Vec<(Pos, u32)>,
    pub(crate) structs: Vec<StructTmpl>,
    pub(crate) lists: Vec<ListTmpl>,
    pub(crate) comps: Vec<CompTmpl>,
    pub(crate) texts: Vec<EcoString>,
    pub(crate) bytes: Vec<Arc<[u8]>>,
    pub(crate) nums: Vec<Number>,
    pub(crate) calls: Vec<CallTmpl>,
    pub(crate) parts: Vec<Vec<Part>>,
    pub(crate) disjs: Vec<Vec<Alternative>>,
    /// Both ends of each slice expression.
    pub(crate) slices: Vec<(Option<ExprId>, Option<ExprId>)>,
    pub(crate) builtins: Vec<StdRef>,
    /// For each package its files; the first is the program itself.
    pub(crate) packages: Vec<Vec<ExprId>>,
    /// What tells their hidden labels apart: `:name` for the program itself, else the import path.
    pub(crate) package_names: Vec<EcoString>,
    pub(crate) sources: Vec<Source>,
    /// Values of lets; each has a label of its own and is evaluated once per frame.
    pub(crate) lets: FxHashMap<Label, ExprId>,
    pub(crate) regexps: Regexps,
    /// Where the comments stand of the field whose value an expression is, by that expression.
    pub(crate) docs: Vec<(ExprId, FileId, Span)>,
    /// What [`Ir::size`] says when all is compiled.
    pub(crate) memory: u64,
    /// Whether `+` and `*` work on lists.
    pub(crate) list_arithmetic: bool,
    /// Whether comprehensions declare fields by name.
    pub(crate) conditional: bool,
    /// Whether some of these are definitions.
    pub(crate) conditional_defs: bool,
}

/// Packages of which no function gives a struct; in `regexp` those do that find named parts.
const FIELDLESS: [&str; 5] = ["list", "math", "path", "strconv", "strings"];

impl Ir {
    /// Whether the value of an expression may have fields; scalars and lists have none.
    pub(crate) fn may_bring_fields(&self, e: ExprId) -> bool {
        if let Expr::Call(id) = self.expr(e) {
            return match self.calls[id.idx()].callee {
                Callee::Core(core) => {
                    matches!(
                        core,
                        Core::Close | Core::And | Core::Or | Core::MatchN | Core::MatchIf
                    )
                }
                Callee::Std(id) => {
                    let function = &self.builtins[id.idx()];
                    let package = function.package.as_str();
                    let named = function.name.contains("Named");
                    !FIELDLESS.contains(&package) && (package != "regexp" || named)
                }
                Callee::Expr(_) => true,
            };
        }
        !matches!(
            self.expr(e),
            Expr::Null
                | Expr::Bool(_)
                | Expr::Int(_)
                | Expr::Num(_)
                | Expr::Str(_)
                | Expr::Bytes(_)
                | Expr::Interp(..)
                | Expr::Kind(_)
                | Expr::Bound(..)
                | Expr::Presence(..)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::List(_)
        )
    }

    /// Whether an expression is a type written out: it refers to nothing.
    pub(crate) fn stands_alone(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Top | Expr::Kind(_) => true,
            Expr::Bound(_, x) => self.is_literal(x),
            Expr::And(a, b) => self.stands_alone(a) && self.stands_alone(b),
            Expr::Disj(id) => self.disjs[id.idx()].iter().all(|alt| self.stands_alone(alt.expr)),
            Expr::Struct(id) => {
                let tmpl = &self.structs[id.idx()];
                tmpl.embeds().is_empty()
                    && tmpl.comps().is_empty()
                    && tmpl.patterns().is_empty()
                    && tmpl.dynamics().is_empty()
                    && tmpl.fields.iter().all(|field| self.stands_alone(field.value))
            }
            Expr::List(id) => {
                let tmpl = &self.lists[id.idx()];
                !tmpl.has_comp
                    && tmpl.elems.iter().all(|elem| self.stands_alone(*elem))
                    && tmpl.ellipsis.flatten().is_none_or(|rest| self.stands_alone(rest))
            }
            _ => self.is_literal(e),
        }
    }

    /// Whether an expression is `_`, however often that is said.
    pub(crate) fn is_any(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Top => true,
            Expr::And(a, b) => self.is_any(a) && self.is_any(b),
            Expr::Disj(id) => self.disjs[id.idx()].iter().all(|alt| self.is_any(alt.expr)),
            _ => false,
        }
    }

    /// The kinds that an expression consists of, if it is nothing else.
    pub(crate) fn kinds(&self, e: ExprId) -> Option<Kind> {
        match self.expr(e) {
            Expr::Top => Some(Kind::TOP),
            Expr::Kind(kind) => Some(kind),
            Expr::Disj(id) => self.disjs[id.idx()]
                .iter()
                .try_fold(Kind::BOTTOM, |kinds, alt| self.kinds(alt.expr).map(|kind| kinds | kind)),
            _ => None,
        }
    }

    /// Bytes that it takes, about; what is compiled for one evaluation only is held by it.
    pub(crate) fn size(&self) -> u64 {
        fn of<T>(list: &Vec<T>) -> usize {
            list.capacity() * size_of::<T>()
        }
        let sources: usize = self.sources.iter().map(|source| source.text.len()).sum();
        let texts: usize = self.texts.iter().map(EcoString::len).sum();
        // Structs and lists have lists of their own, about as large as they are.
        let own =
            of(&self.structs) * 2 + of(&self.lists) + of(&self.comps) * 2 + of(&self.calls) * 2;
        let plain = of(&self.exprs) + of(&self.pos) + of(&self.texts) + of(&self.nums);
        let elements: usize = self.lists.iter().map(|list| of(&list.elems)).sum();
        (sources + texts + own + plain + elements) as u64 + self.names.held()
    }

    pub(crate) fn expr(&self, id: ExprId) -> Expr {
        self.exprs[id.idx()]
    }

    /// The comment lines, without `//`, of the field whose value an expression is.
    pub(crate) fn docs(&self, id: ExprId) -> impl Iterator<Item = &str> {
        let first = self.docs.partition_point(|(value, ..)| *value < id);
        let of_value = self.docs.iter().skip(first).take_while(move |(value, ..)| *value == id);
        of_value.flat_map(|&(_, file, span)| {
            let source = self.sources.get(file.idx()).map_or("", |source| &source.text);
            Comment { span, doc: true, line: false }.lines(source)
        })
    }

    /// The source text of an expression, for messages.
    pub(crate) fn text(&self, id: ExprId) -> &str {
        let (pos, end) = self.pos[id.idx()];
        self.sources
            .get(pos.file.idx())
            .and_then(|s| s.text.get(pos.start as usize..end as usize))
            .unwrap_or("")
    }

    /// Whether an expression is part of another.
    pub(crate) fn within(&self, inner: ExprId, outer: ExprId) -> bool {
        let ((a, a_end), (b, b_end)) = (self.pos[inner.idx()], self.pos[outer.idx()]);
        a.file == b.file && a.start >= b.start && a_end <= b_end
    }

    pub(crate) fn is_literal(&self, id: ExprId) -> bool {
        matches!(
            self.expr(id),
            Expr::Null
                | Expr::Bool(_)
                | Expr::Int(_)
                | Expr::Num(_)
                | Expr::Str(_)
                | Expr::Bytes(_)
        )
    }
}
