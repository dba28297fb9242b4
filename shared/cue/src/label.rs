//! Labels: interned names with their class in the low bits.
//!
//! The interner of a program is immutable once compiled; an evaluation puts its dynamic labels
//! into an extension of its own, which is dropped with it.

use ecow::EcoString;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// What a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum LabelKind {
    String,
    Int,
    Def,
    Hidden,
    HiddenDef,
    Let,
}

impl LabelKind {
    /// That of a name as written, with the prefixes of definitions and hidden fields.
    pub(crate) fn of(name: &str) -> Self {
        match name.as_bytes() {
            [b'_', b'#', ..] => Self::HiddenDef,
            [b'#', ..] => Self::Def,
            [b'_', ..] => Self::Hidden,
            _ => Self::String,
        }
    }
}

const KIND_BITS: u32 = 3;

/// A label: interned name (or list index) and class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Label(u32);

impl Label {
    /// The label of vertices that are no field.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn new(index: u32, kind: LabelKind) -> Self {
        Self((index << KIND_BITS) | kind as u32)
    }

    /// The label of a list element.
    pub(crate) fn int(index: usize) -> Self {
        Self::new(u32::try_from(index).unwrap_or(u32::MAX >> KIND_BITS), LabelKind::Int)
    }

    pub(crate) const fn index(self) -> u32 {
        self.0 >> KIND_BITS
    }

    pub(crate) const fn kind(self) -> LabelKind {
        match self.0 & ((1 << KIND_BITS) - 1) {
            0 => LabelKind::String,
            1 => LabelKind::Int,
            2 => LabelKind::Def,
            3 => LabelKind::Hidden,
            4 => LabelKind::HiddenDef,
            _ => LabelKind::Let,
        }
    }

    /// A regular field, the only kind that is exported and matched by patterns.
    pub(crate) const fn is_string(self) -> bool {
        matches!(self.kind(), LabelKind::String)
    }

    pub(crate) const fn is_int(self) -> bool {
        matches!(self.kind(), LabelKind::Int)
    }

    pub(crate) const fn is_def(self) -> bool {
        matches!(self.kind(), LabelKind::Def | LabelKind::HiddenDef)
    }

    pub(crate) const fn is_hidden(self) -> bool {
        matches!(self.kind(), LabelKind::Hidden | LabelKind::HiddenDef)
    }

    pub(crate) const fn is_let(self) -> bool {
        matches!(self.kind(), LabelKind::Let)
    }
}

impl std::fmt::Debug for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}({})", self.kind(), self.index())
    }
}

/// Interned names.
#[derive(Clone, Default)]
pub(crate) struct Interner {
    names: Vec<EcoString>,
    table: HashTable<u32>,
    /// Seeded: the fields of data are untrusted.
    hasher: hashbrown::DefaultHashBuilder,
    /// First index handed out; lower ones belong to the interner this one extends.
    base: u32,
}

impl Interner {
    /// An interner that continues after `base`.
    pub(crate) fn extending(base: &Self) -> Self {
        Self { base: base.end(), ..Self::default() }
    }

    /// The same, with the memory of another one, whose names are forgotten.
    pub(crate) fn with_memory_of(self, mut other: Self) -> Self {
        other.names.clear();
        other.table.clear();
        Self { base: self.base, ..other }
    }

    fn end(&self) -> u32 {
        self.base + u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// Makes room for so many names.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.names.reserve_exact(names);
        let (names, hasher) = (&self.names, &self.hasher);
        self.table.reserve(names.capacity() - names.len(), |&i| {
            hasher.hash_one(names[i as usize].as_str())
        });
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |&i| self.names[i as usize] == name).map(|&i| i + self.base)
    }

    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        let hash = self.hasher.hash_one(name);
        if let Some(&i) = self.table.find(hash, |&i| self.names[i as usize] == name) {
            return i + self.base;
        }
        let i = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.into());
        let (names, hasher) = (&self.names, &self.hasher);
        self.table.insert_unique(hash, i, |&i| hasher.hash_one(names[i as usize].as_str()));
        i + self.base
    }

    /// As [`intern`](Self::intern); also how many bytes it holds more for that beside its lists.
    pub(crate) fn intern_held(&mut self, name: &str) -> (u32, u64) {
        let names = self.names.len();
        let index = self.intern(name);
        (index, if self.names.len() > names { name.len() as u64 } else { 0 })
    }

    /// Bytes of its lists.
    pub(crate) fn held(&self) -> u64 {
        (self.names.capacity() * size_of::<EcoString>() + self.table.capacity() * 8) as u64
    }

    pub(crate) fn name(&self, index: u32) -> &EcoString {
        &self.names[(index - self.base) as usize]
    }

    pub(crate) fn owns(&self, index: u32) -> bool {
        index >= self.base
    }
}

impl std::fmt::Debug for Interner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interner").field("names", &self.names.len()).finish_non_exhaustive()
    }
}
