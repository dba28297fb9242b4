//! A bounded memo table keyed by `Arc` address. Deriving a render template from a definition is expensive and every reconcile
//! needs it, so the result is kept as long as the definition is alive.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use lru::LruCache;
use parking_lot::Mutex;

/// Definitions of which something is kept: the built-in ones some times.
const CAPACITY: NonZeroUsize = match NonZeroUsize::new(512) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};

/// The definition at an address, and the value derived from it. The weak reference keeps the address from being reused.
type Memo<V> = (Weak<dyn Any + Send + Sync>, V);

/// Derived values by the address of their source.
pub(crate) struct ArcMemo<V>(Mutex<LruCache<usize, Memo<V>>>);

impl<V> Default for ArcMemo<V> {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(CAPACITY)))
    }
}

impl<V> Debug for ArcMemo<V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByPlace").field("len", &self.0.lock().len()).finish()
    }
}

impl<V: Clone> ArcMemo<V> {
    /// The derived value of an `Arc`, from the table or computed now.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, of: &Arc<T>, make: impl FnOnce() -> V) -> V {
        let address = Arc::as_ptr(of).addr();
        if let Some((_, value)) = self.0.lock().get(&address) {
            return value.clone();
        }
        let value = make();
        let holder: Arc<dyn Any + Send + Sync> = Arc::clone(of) as _;
        let mut all = self.0.lock();
        let is_gone =
            |(address, (of, _)): (&usize, &Memo<V>)| (of.strong_count() == 0).then_some(*address);
        for address in all.iter().filter_map(is_gone).collect::<Vec<_>>() {
            all.pop(&address);
        }
        all.put(address, (Arc::downgrade(&holder), value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_made_once_and_goes_with_what_it_was_made_of() {
        let all = ArcMemo::default();
        let one = Arc::new(1);
        assert_eq!(all.get(&one, || "one".to_owned()), "one");
        assert_eq!(all.get(&Arc::clone(&one), || unreachable!("made before")), "one");
        for turn in 0..100 {
            // Each is gone before the next one comes, and could have its place.
            assert_eq!(all.get(&Arc::new(turn), || turn.to_string()), turn.to_string());
            assert!(all.0.lock().len() <= 2);
        }
        let many: Vec<_> = (0..2 * CAPACITY.get()).map(Arc::new).collect();
        for each in &many {
            all.get(each, || each.to_string());
        }
        assert_eq!(all.0.lock().len(), CAPACITY.get());
    }
}
