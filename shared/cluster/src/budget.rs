//! How much is kept of the objects of members, and in which shape: whole as long as there is room, else their metadata, else
//! nothing. A member has no more than its share, however many objects it says it has, and all of them together no more than
//! theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the objects of a kind are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// Whole, and watched.
    Whole,
    /// Their metadata, and watched: the rest is read when it is needed.
    Metadata,
    /// Not at all: they are read when they are needed, and nothing is heard of them in between.
    Unwatched,
}

impl Shape {
    /// The next one that takes less.
    pub(crate) fn less(self) -> Self {
        match self {
            Self::Whole => Self::Metadata,
            Self::Metadata | Self::Unwatched => Self::Unwatched,
        }
    }
}

/// What all members have together.
#[derive(Debug)]
pub struct Budget {
    /// Bytes for one member.
    member: usize,
    /// Bytes for all of them.
    overall: usize,
    used: AtomicUsize,
}

impl Default for Budget {
    /// 64 MiB for one, 512 MiB for all.
    fn default() -> Self {
        Self::new(64 << 20, 512 << 20)
    }
}

impl Budget {
    /// So many bytes for one member, and for all of them.
    #[must_use]
    pub fn new(member: usize, overall: usize) -> Self {
        Self { member: member.max(1), overall: overall.max(1), used: AtomicUsize::new(0) }
    }

    /// Of the control plane's own cluster, which is trusted.
    pub(crate) fn unlimited() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }

    /// The largest shape that there is room for, with so many bytes of one member.
    fn shape(&self, of_member: usize) -> Shape {
        let overall = self.used.load(Ordering::Relaxed);
        let exceeds = |times: usize| {
            of_member > self.member.saturating_mul(times)
                || overall > self.overall.saturating_mul(times)
        };
        match () {
            () if exceeds(2) => Shape::Unwatched,
            () if exceeds(1) => Shape::Metadata,
            () => Shape::Whole,
        }
    }
}

/// What one member has.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Account {
    pub(crate) fn of(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: AtomicUsize::new(0) }
    }

    /// Bytes that are kept now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes bytes, and gives others back.
    pub(crate) fn change(&self, more: usize, less: usize) {
        for counter in [&self.bytes, &self.budget.used] {
            counter.fetch_add(more, Ordering::Relaxed);
            // Never below nothing, whatever order the two changes of an object are seen in.
            let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                Some(now.saturating_sub(less))
            });
        }
    }

    /// The largest shape that there is room for.
    pub(crate) fn shape(&self) -> Shape {
        self.budget.shape(self.bytes())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.change(0, self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_its_share_and_all_have_theirs() {
        let budget = Arc::new(Budget::new(100, 250));
        let accounts: Vec<_> = (0..3).map(|_| Account::of(Arc::clone(&budget))).collect();
        let [a, b, c] = accounts.as_slice() else { unreachable!() };
        a.change(100, 0);
        assert_eq!(a.shape(), Shape::Whole);
        a.change(1, 0);
        assert_eq!((a.shape(), b.shape()), (Shape::Metadata, Shape::Whole));
        a.change(100, 0);
        assert_eq!(a.shape(), Shape::Unwatched);
        b.change(50, 0);
        // Whoever adds more when all have too much has less.
        assert_eq!(c.shape(), Shape::Metadata);
        a.change(0, 201);
        assert_eq!((a.shape(), c.shape(), a.bytes()), (Shape::Whole, Shape::Whole, 0));
        drop(accounts);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn every_shape_ends_with_nothing() {
        let shapes = [Shape::Whole, Shape::Metadata, Shape::Unwatched];
        assert_eq!(shapes.map(Shape::less), [Shape::Metadata, Shape::Unwatched, Shape::Unwatched]);
    }
}
