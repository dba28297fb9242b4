//! Where things are in a source text: byte spans, and lines and columns made from them.

use std::fmt;

/// A half-open range of byte offsets in one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// The span of nodes that were not read from a text.
    pub const NONE: Self = Self { start: u32::MAX, end: u32::MAX };

    /// A span from `start` to `end`.
    #[must_use]
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The smallest span that covers both.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self == Self::NONE {
            return other;
        }
        if other == Self::NONE {
            return self;
        }
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether it covers nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether the node has no place in a text.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// A place as people count: line and column from 1, the column in bytes (as `cue` prints it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The starts of all lines of a text: finds the [`Position`] of an offset by binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    /// Indexes the lines of `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(
            memchr::memchr_iter(b'\n', text.as_bytes()).filter_map(|at| u32::try_from(at + 1).ok()),
        );
        Self { starts }
    }

    /// The line and column of a byte offset.
    #[must_use]
    pub fn position(&self, offset: u32) -> Position {
        let line = self.starts.partition_point(|&start| start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        Position {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: offset.saturating_sub(start) + 1,
        }
    }
}
