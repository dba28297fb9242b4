//! Kinds: the coarse lattice of value types, a bit set.

use std::fmt;
use std::ops::{BitAnd, BitOr};

/// A set of value kinds. The empty set is bottom, the full set is top.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Kind(u16);

impl Kind {
    /// No kind at all: the kind of an error.
    pub const BOTTOM: Self = Self(0);
    /// `null`.
    pub const NULL: Self = Self(1);
    /// `bool`.
    pub const BOOL: Self = Self(1 << 1);
    /// `int`.
    pub const INT: Self = Self(1 << 2);
    /// `float`.
    pub const FLOAT: Self = Self(1 << 3);
    /// `string`.
    pub const STRING: Self = Self(1 << 4);
    /// `bytes`.
    pub const BYTES: Self = Self(1 << 5);
    /// Builtin functions used as values.
    pub const FUNC: Self = Self(1 << 6);
    /// Lists.
    pub const LIST: Self = Self(1 << 7);
    /// Structs.
    pub const STRUCT: Self = Self(1 << 8);
    /// `number`: int or float.
    pub const NUMBER: Self = Self(Self::INT.0 | Self::FLOAT.0);
    /// Everything that is neither a list nor a struct.
    pub const SCALAR: Self = Self(0x3f);
    /// Everything.
    pub const TOP: Self = Self(0x1ff);

    /// Whether both sets share a kind.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether every kind of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_bottom(self) -> bool {
        self.0 == 0
    }

    /// The set without the kinds of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The union, usable in constants.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the kinds in the set, `number` for int and float together.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(Kind, &str); 10] = [
            (Kind::NULL, "null"),
            (Kind::BOOL, "bool"),
            (Kind::INT, "int"),
            (Kind::FLOAT, "float"),
            (Kind::STRING, "string"),
            (Kind::BYTES, "bytes"),
            (Kind::FUNC, "func"),
            (Kind::LIST, "list"),
            (Kind::STRUCT, "struct"),
            (Kind::NUMBER, "number"),
        ];
        let number = self.contains(Self::NUMBER);
        NAMES
            .into_iter()
            .filter(move |(k, _)| {
                self.contains(*k) && !(number && (*k == Self::INT || *k == Self::FLOAT))
            })
            .map(|(_, n)| n)
    }
}

impl BitAnd for Kind {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Kind {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// `int`, `(int|string)`, `_` and `_|_` as in the reference's messages.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_bottom() {
            return f.write_str("_|_");
        }
        if self.contains(Self::TOP.without(Self::FUNC)) {
            return f.write_str("_");
        }
        let names: Vec<_> = self.names().collect();
        match names.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "({})", many.join("|")),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
