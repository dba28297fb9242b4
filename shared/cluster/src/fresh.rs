//! The objects of a cache that came last: they are not compressed yet, since most of them are replaced soon. How many bytes of them
//! there may be is limited.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Objects that are not compressed, the oldest first.
pub(crate) struct Fresh<T> {
    /// With the bytes of each.
    queue: VecDeque<(Weak<T>, usize)>,
    bytes: usize,
    limit: usize,
}

impl<T> Fresh<T> {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit }
    }

    pub(crate) fn push(&mut self, object: &Arc<T>, bytes: usize) {
        self.queue.push_back((Arc::downgrade(object), bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The oldest that is still held, if there are too many.
    pub(crate) fn pop(&mut self) -> Option<Arc<T>> {
        while self.bytes > self.limit {
            let (object, bytes) = self.queue.pop_front()?;
            self.bytes = self.bytes.saturating_sub(bytes);
            if let Some(object) = object.upgrade() {
                return Some(object);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_leave_when_there_are_too_many_bytes_and_who_is_gone_costs_nothing() {
        let mut fresh = Fresh::new(100);
        let all: Vec<_> = (0..4).map(Arc::new).collect();
        for (object, bytes) in all.iter().zip([60, 40, 50, 200]) {
            fresh.push(object, bytes);
            let is_over = fresh.bytes > 100;
            if **object == 1 {
                assert!(!is_over && fresh.pop().is_none());
            }
        }
        let [_, _, second, _] = all.as_slice() else { unreachable!() };
        let kept = Arc::clone(second);
        let last = all.last().map(Arc::clone);
        drop(all);
        assert_eq!(fresh.pop().as_deref(), Some(&*kept));
        // One that is larger than the limit leaves at once.
        assert_eq!(fresh.pop(), last);
        assert_eq!((fresh.pop(), fresh.bytes), (None, 0));
    }
}
