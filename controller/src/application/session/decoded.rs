//! Live objects as one reconcile decoded them: several phases ask for each, and decoding takes longer than most of what they do
//! with it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use vela_apply::ResourceKey;
use vela_cluster::Live;

/// Decoded objects kept at once: those of a few components. A tree is many times the size of what the cache holds.
const MAX_DECODED: usize = 16;

/// An object as the cache has it, and decoded.
type Pair = (Arc<Live>, Arc<Value>);

/// The decoded objects of a reconcile.
#[derive(Debug, Default)]
pub struct DecodedObjects(Mutex<HashMap<ResourceKey, Pair>>);

impl DecodedObjects {
    /// The object of a key as the cache has it.
    pub(in crate::application) fn decode(&self, key: &ResourceKey, live: &Arc<Live>) -> Arc<Value> {
        let mut all = self.0.lock();
        if let Some((known, value)) = all.get(key)
            // The same allocation is the same version; comparing contents would cost what the map
            // saves.
            && Arc::ptr_eq(known, live)
        {
            return Arc::clone(value);
        }
        if all.len() >= MAX_DECODED {
            // All at once: phases go from component to component, and which object comes next
            // cannot be known.
            all.clear();
        }
        let value = Arc::new(live.value());
        all.insert(key.clone(), (Arc::clone(live), Arc::clone(&value)));
        value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}})
    }

    #[test]
    fn what_is_open_is_what_the_cache_has_and_not_too_much_of_it() {
        let cache = DecodedObjects::default();
        let key = ResourceKey::of(&map("a", ""), "");
        let (one, two) = (Arc::new(Live::of(map("a", "1"))), Arc::new(Live::of(map("a", "2"))));
        let first = cache.decode(&key, &one);
        assert!(Arc::ptr_eq(&first, &cache.decode(&key, &one)));
        assert_eq!(*cache.decode(&key, &two), map("a", "2"));
        for name in 0..3 * MAX_DECODED {
            let object = map(&name.to_string(), "");
            cache.decode(&ResourceKey::of(&object, ""), &Arc::new(Live::of(object.clone())));
            assert!(cache.0.lock().len() <= MAX_DECODED);
        }
    }
}
