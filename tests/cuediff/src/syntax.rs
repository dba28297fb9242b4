//! Places in the text of a program: what mutation and reduction work on.

use std::ops::Range;

use cue_syntax::ast::{Ast, Clause, DeclId, DeclKind, Expr, ExprId, Label, Part};
use cue_syntax::{File, ParseLimits, Span};

/// A text to put in place of a part of another.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) at: Range<usize>,
    pub(crate) text: String,
}

impl Edit {
    /// The text with this edit made.
    pub(crate) fn apply(&self, source: &str) -> Option<String> {
        let (before, after) = (source.get(..self.at.start)?, source.get(self.at.end..)?);
        Some(format!("{before}{}{after}", self.text))
    }
}

/// The tree of a text that has no errors.
pub(crate) fn parsed(text: &str) -> Option<File> {
    let (file, errors) = cue_syntax::parse("in.cue", text, &ParseLimits::default());
    errors.is_empty().then_some(file)
}

pub(crate) fn range(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// All expressions with braces or brackets of their own, or none at all.
pub(crate) fn expressions(file: &File) -> Vec<ExprId> {
    let count = u32::try_from(file.ast.expr_count()).unwrap_or(u32::MAX);
    (0..count)
        .map(ExprId)
        .filter(|&id| {
            !file.ast.span(id).is_none()
                && !matches!(
                    file.ast.expr(id),
                    Expr::Bad
                        | Expr::Ellipsis(_)
                        | Expr::Comprehension(_)
                        | Expr::Struct { braces: false, .. }
                        | Expr::Alias(..)
                )
        })
        .collect()
}

/// Lists of declarations: of the file and of every struct.
pub(crate) fn declarations(file: &File) -> Vec<Vec<DeclId>> {
    let mut all = vec![file.ast.decls(file.decls).collect::<Vec<_>>()];
    for expr in file.ast.all_exprs() {
        if let Expr::Struct { decls, .. } = expr {
            all.push(file.ast.decls(decls).collect());
        }
    }
    all
}

/// An order of the declarations of a struct. By the language none changes anything but the order of what
/// is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The opposite.
    Reversed,
    /// What has the same label stands together, where the first of it stood.
    Grouped,
    /// The same, where the last of it stood.
    GroupedLate,
}

impl Order {
    fn sort(self, texts: &mut [String]) {
        match self {
            Self::Reversed => texts.reverse(),
            Self::Grouped | Self::GroupedLate => {
                let label = |text: &str| text.split([':', '{', '(']).next().map(str::to_owned);
                let labels: Vec<_> = texts.iter().map(|text| label(text)).collect();
                texts.sort_by_cached_key(|text| {
                    let label = label(text);
                    let mut places = labels.iter();
                    match self {
                        Self::GroupedLate => places.rposition(|other| *other == label),
                        _ => places.position(|other| *other == label),
                    }
                });
            }
        }
    }
}

/// The text with the declarations of every struct in another order.
pub(crate) fn reordered(text: &str, order: Order) -> Option<String> {
    let file = parsed(text)?;
    let mut lists: Vec<Vec<Range<usize>>> = declarations(&file)
        .into_iter()
        .map(|list| list.into_iter().map(|id| range(file.ast.decl(id).span)).collect())
        .filter(|list: &Vec<_>| list.len() > 1)
        .collect();
    // Outer ones first.
    lists.sort_by_key(|list| list.first().map_or(0, |first| first.start));
    lists.sort_by_key(|list| std::cmp::Reverse(extent(list).len()));
    Some(reorder_within(text, 0..text.len(), &lists, order))
}

/// From the first of some declarations to the end of the last.
fn extent(list: &[Range<usize>]) -> Range<usize> {
    list.first().map_or(0, |first| first.start)..list.last().map_or(0, |last| last.end)
}

fn reorder_within(
    text: &str,
    part: Range<usize>,
    lists: &[Vec<Range<usize>>],
    order: Order,
) -> String {
    let mut out = String::new();
    let mut at = part.start;
    while at < part.end {
        // The outermost list that begins next.
        let inside = |list: &&Vec<Range<usize>>| {
            let extent = extent(list);
            extent.start >= at && extent.end <= part.end
        };
        let Some((index, next)) =
            lists.iter().enumerate().filter(|(_, list)| inside(list)).min_by_key(|(_, list)| {
                (extent(list).start, std::cmp::Reverse(extent(list).len()))
            })
        else {
            break;
        };
        let whole = extent(next);
        out += text.get(at..whole.start).unwrap_or_default();
        let rest = lists.get(index + 1..).unwrap_or_default();
        let mut inner: Vec<String> =
            next.iter().map(|one| reorder_within(text, one.clone(), rest, order)).collect();
        order.sort(&mut inner);
        out += &inner.join("\n");
        at = whole.end;
    }
    out + text.get(at.min(part.end)..part.end).unwrap_or_default()
}

/// The expressions directly below one.
pub(crate) fn children(ast: &Ast, id: ExprId) -> Vec<ExprId> {
    match ast.expr(id) {
        Expr::Paren(e)
        | Expr::Unary(_, e)
        | Expr::Selector(e, _)
        | Expr::Alias(_, e)
        | Expr::Ellipsis(Some(e)) => vec![e],
        Expr::Binary(_, a, b) | Expr::Index(a, b) => vec![a, b],
        Expr::Slice(e, low, high) => [Some(e), low, high].into_iter().flatten().collect(),
        Expr::List(items) => ast.exprs(items).collect(),
        Expr::Call(f, arguments) => std::iter::once(f).chain(ast.exprs(arguments)).collect(),
        Expr::Interpolation { parts, .. } => ast
            .parts(parts)
            .iter()
            .filter_map(|part| match part {
                Part::Expr(e) => Some(*e),
                Part::Text(_) | Part::Bytes(_) => None,
            })
            .collect(),
        Expr::Struct { decls, .. } => {
            let mut below = Vec::new();
            for decl in ast.decls(decls) {
                match ast.decl(decl).kind {
                    DeclKind::Field(field) => below.push(ast.field(field).value),
                    DeclKind::Embed(e) | DeclKind::Let(_, e) | DeclKind::Alias(_, e) => {
                        below.push(e);
                    }
                    DeclKind::Comprehension(one) => below.push(ast.comprehension(one).body),
                    DeclKind::Ellipsis(_) | DeclKind::Attribute(_) | DeclKind::Bad => {}
                }
            }
            below
        }
        Expr::Comprehension(one) => vec![ast.comprehension(one).body],
        _ => Vec::new(),
    }
}

/// The productions of a program, to group programs that differ for the same reason.
pub(crate) fn features(text: &str) -> Vec<&'static str> {
    use cue_syntax::ast::{BinaryOp, Marker, UnaryOp};
    let Some(file) = parsed(text) else { return vec!["rejected"] };
    let ast = &file.ast;
    let mut found: Vec<&'static str> = Vec::new();
    let name = |symbol| ast.str(symbol);
    for expr in ast.all_exprs() {
        match expr {
            Expr::Binary(BinaryOp::Or, ..) => found.push("disjunction"),
            Expr::Unary(UnaryOp::Default, _) => found.push("default"),
            Expr::Call(f, _) => match ast.expr(f) {
                Expr::Ident(symbol) => match name(symbol) {
                    "close" => found.push("close"),
                    "matchN" => found.push("matchN"),
                    "matchIf" => found.push("matchIf"),
                    "len" => found.push("len"),
                    _ => found.push("call"),
                },
                Expr::Selector(_, member) => found.push(match name(member.symbol) {
                    "MatchN" => "list.MatchN",
                    "Marshal" => "Marshal",
                    _ => "package",
                }),
                _ => found.push("call"),
            },
            Expr::Selector(e, _) if !matches!(ast.expr(e), Expr::Ident(_) | Expr::Selector(..)) => {
                found.push("selector of expression");
            }
            Expr::Interpolation { .. } => found.push("interpolation"),
            Expr::Alias(..) => found.push("alias"),
            Expr::Comprehension(_) => found.push("list comprehension"),
            Expr::Bottom => found.push("bottom"),
            _ => {}
        }
    }
    for list in declarations(&file) {
        for decl in list {
            match ast.decl(decl).kind {
                DeclKind::Field(field) => {
                    let field = ast.field(field);
                    match field.marker {
                        Marker::Optional => found.push("optional"),
                        Marker::Required => found.push("required"),
                        Marker::Regular => {}
                    }
                    match field.label {
                        Label::Ident(symbol) if name(symbol).contains('#') => {
                            found.push("definition");
                        }
                        Label::Interpolation(_) | Label::Dynamic(_) => found.push("dynamic field"),
                        Label::Pattern { .. } => found.push("pattern"),
                        Label::Ident(_) | Label::String(_) => {}
                    }
                    if field.alias.is_some() {
                        found.push("alias");
                    }
                }
                DeclKind::Embed(e) => found.push(match ast.expr(e) {
                    Expr::Struct { .. } | Expr::Ident(_) | Expr::Selector(..) => "embedding",
                    _ => "embedded expression",
                }),
                DeclKind::Ellipsis(_) => found.push("ellipsis"),
                DeclKind::Let(..) => found.push("let"),
                DeclKind::Comprehension(one) => {
                    for clause in ast.clauses(ast.comprehension(one).clauses) {
                        found.push(match clause {
                            Clause::For { .. } => "for",
                            Clause::If(_) => "if",
                            Clause::Let(..) => "let",
                        });
                    }
                }
                DeclKind::Attribute(_) | DeclKind::Alias(..) | DeclKind::Bad => {}
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
