//! Lexical scopes: one per frame of the run-time environment.

use super::Compiler;
use crate::ir::Expr;
use crate::label::Label;
use cue_syntax::Span;
use rustc_hash::FxHashMap;

/// What a name in a scope stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Field(Label),
    Let {
        label: Label,
        used: bool,
        span: Span,
    },
    /// `X=label: v`
    FieldAlias {
        label: Label,
        used: bool,
        span: Span,
    },
    /// The vertex of the frame.
    Frame {
        used: bool,
        span: Span,
        alias: bool,
    },
    /// The key of the frame.
    Key,
}

/// One frame.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) names: FxHashMap<String, Entry>,
}

impl Compiler<'_> {
    pub(super) fn push_scope(&mut self, names: FxHashMap<String, Entry>) {
        self.scopes.push(Scope { names });
    }

    /// Ends a scope and complains about what it declared and nobody used.
    pub(super) fn pop_scope(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        let mut unused: Vec<_> = scope
            .names
            .iter()
            .filter_map(|(name, entry)| match entry {
                Entry::Let { used: false, span, .. }
                | Entry::FieldAlias { used: false, span, .. }
                | Entry::Frame { used: false, span, alias: true } => Some((*span, name.clone())),
                _ => None,
            })
            .collect();
        unused.sort();
        for (span, name) in unused {
            self.error(span, format!("unreferenced alias or let clause {name}"));
        }
    }

    /// Resolves a name to an expression; `None` if no scope knows it.
    pub(super) fn resolve_name(&mut self, name: &str, span: Span) -> Option<Expr> {
        let found = self.find_name(name)?;
        if let Expr::Ref { label, .. } = found
            && label.is_let()
        {
            self.uses_let(label, span);
        }
        Some(found)
    }

    /// Notes that the let being compiled needs another.
    pub(super) fn uses_let(&mut self, to: Label, span: Span) {
        if let Some(&from) = self.open_lets.last() {
            let path = self.path.clone();
            self.let_uses.push(super::LetUse { from, to, span, path });
        }
    }

    fn find_name(&mut self, name: &str) -> Option<Expr> {
        for (up, scope) in self.scopes.iter_mut().rev().enumerate() {
            let up = u32::try_from(up).unwrap_or(u32::MAX);
            let Some(entry) = scope.names.get_mut(name) else { continue };
            return Some(match entry {
                Entry::Field(label) => Expr::Ref { up, label: *label },
                Entry::Let { label, used, .. } | Entry::FieldAlias { label, used, .. } => {
                    *used = true;
                    Expr::Ref { up, label: *label }
                }
                Entry::Frame { used, .. } => {
                    *used = true;
                    Expr::Frame { up }
                }
                Entry::Key => Expr::Key { up },
            });
        }
        None
    }
}
