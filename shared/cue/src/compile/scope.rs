//! Lexical scopes: one per frame of the run-time environment.
//!
//! Names are indices of the program's interner. All bindings stand in one stack; of each name the
//! innermost is known, and that knows the one it shadows, so a name is found without a search.

use super::Compiler;
use crate::ir::Expr;
use crate::label::Label;
use cue_syntax::Span;

/// An index of the interner.
pub(super) type Name = u32;

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

/// A name in a scope.
#[derive(Clone, Copy, Debug)]
struct Bound {
    name: Name,
    entry: Entry,
    /// The scope, from the outermost, which is 1.
    scope: u32,
    /// What the name meant outside: an index of the stack, plus 1; 0 for nothing.
    shadowed: u32,
}

/// All open scopes.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    bound: Vec<Bound>,
    /// Of each scope its first binding.
    starts: Vec<u32>,
    /// Of each name its innermost binding: an index of the stack, plus 1; 0 for none.
    innermost: Vec<u32>,
    /// Whether the fields of the outermost scope are those of several files: they clash with no
    /// alias of one of them.
    pub(super) several_files: bool,
}

/// Memory for more names than this is not kept: most programs have far fewer.
const MOST_KEPT: usize = 1 << 12;

impl Scopes {
    /// Forgets everything. False if it has grown too large to be kept.
    pub(super) fn clear(&mut self) -> bool {
        self.bound.clear();
        self.starts.clear();
        self.innermost.clear();
        self.innermost.capacity().max(self.bound.capacity()) <= MOST_KEPT
    }

    pub(super) fn push(&mut self) {
        self.starts.push(len(&self.bound));
    }

    fn innermost(&self, name: Name) -> Option<usize> {
        self.innermost.get(name as usize)?.checked_sub(1).map(|at| at as usize)
    }

    /// Whether a name is that of a field around, which no alias may have.
    pub(super) fn clashes(&self, name: Name) -> bool {
        let bound = self.innermost(name).and_then(|at| self.bound.get(at));
        bound.is_some_and(|bound| {
            !(bound.scope == 1 && self.several_files) && matches!(bound.entry, Entry::Field(_))
        })
    }

    /// Binds a name in the innermost scope; what it meant there is replaced.
    pub(super) fn declare(&mut self, name: Name, entry: Entry) {
        let scope = len(&self.starts);
        let outer = self.innermost(name);
        if let Some(bound) = outer.and_then(|at| self.bound.get_mut(at))
            && bound.scope == scope
        {
            bound.entry = entry;
            return;
        }
        if self.innermost.len() <= name as usize {
            self.innermost.resize((name as usize + 1).next_power_of_two().max(64), 0);
        }
        let shadowed = outer.map_or(0, |at| u32::try_from(at + 1).unwrap_or(u32::MAX));
        self.bound.push(Bound { name, entry, scope, shadowed });
        self.innermost[name as usize] = len(&self.bound);
    }

    /// What a name means in the innermost scope, if that binds it.
    pub(super) fn here(&self, name: Name) -> Option<Entry> {
        let bound = self.bound.get(self.innermost(name)?)?;
        (bound.scope == len(&self.starts)).then_some(bound.entry)
    }

    /// What a name means, and how many scopes out.
    fn find(&mut self, name: Name) -> Option<(u32, &mut Entry)> {
        let at = self.innermost(name)?;
        let bound = self.bound.get_mut(at)?;
        Some((len(&self.starts) - bound.scope, &mut bound.entry))
    }

    /// How many scopes are open.
    pub(super) fn depth(&self) -> u32 {
        len(&self.starts)
    }

    /// Whether one of the scopes after `low` up to `high` binds a name, other than to the value it stands in.
    /// Which fields are those of one of several files is not known.
    pub(super) fn binds(&self, name: Name, (low, high): (u32, u32)) -> bool {
        let mut at = self.innermost(name);
        while let Some(bound) = at.and_then(|at| self.bound.get(at)) {
            if bound.scope <= low {
                return false;
            }
            let of_value = matches!(bound.entry, Entry::Frame { alias: true, .. });
            let of_files = bound.scope == 1 && self.several_files;
            if bound.scope <= high && !of_value && !of_files {
                return true;
            }
            at = bound.shadowed.checked_sub(1).map(|at| at as usize);
        }
        false
    }

    /// All names that mean something.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.bound.iter().map(|bound| bound.name)
    }
}

fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

impl Compiler<'_> {
    /// Ends a scope and complains about what it declared and nobody used.
    pub(super) fn pop_scope(&mut self) {
        let Some(start) = self.scopes.starts.pop() else { return };
        let mut unused: Vec<(Span, Name)> = Vec::new();
        while self.scopes.bound.len() > start as usize {
            let Some(bound) = self.scopes.bound.pop() else { break };
            self.scopes.innermost[bound.name as usize] = bound.shadowed;
            match bound.entry {
                Entry::Let { used: false, span, .. }
                | Entry::FieldAlias { used: false, span, .. }
                | Entry::Frame { used: false, span, alias: true } => {
                    unused.push((span, bound.name));
                }
                _ => {}
            }
        }
        unused.sort_unstable();
        for (span, name) in unused {
            let name = self.ir.names.name(name);
            self.error(span, format!("unreferenced alias or let clause {name}"));
        }
    }

    /// Resolves a name to an expression; `None` if no scope knows it.
    pub(super) fn resolve_name(&mut self, name: Name, span: Span) -> Option<Expr> {
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

    fn find_name(&mut self, name: Name) -> Option<Expr> {
        let (up, entry) = self.scopes.find(name)?;
        Some(match entry {
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
        })
    }
}
