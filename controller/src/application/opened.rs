//! Live objects as one look opened them: several phases ask for each, and opening one takes longer than most of what they do
//! with it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use vela_apply::ResourceKey;
use vela_cluster::{IoError, Live, Target};

use super::dispatch::Session;

/// Objects that are held at once: those of a few components. A tree is many times the size of what the cache holds.
const MOST: usize = 16;

/// An object as the cache has it, and opened.
type Pair = (Arc<Live>, Arc<Value>);

/// What a look has open.
#[derive(Debug, Default)]
pub struct Opened(Mutex<HashMap<ResourceKey, Pair>>);

impl Opened {
    /// The object of a key as the cache has it.
    pub(super) fn open(&self, key: &ResourceKey, live: &Arc<Live>) -> Arc<Value> {
        let mut all = self.0.lock();
        if let Some((known, value)) = all.get(key)
            && Arc::ptr_eq(known, live)
        {
            return Arc::clone(value);
        }
        if all.len() >= MOST {
            all.clear();
        }
        let value = Arc::new(live.value());
        all.insert(key.clone(), (Arc::clone(live), Arc::clone(&value)));
        value
    }
}

impl Session<'_> {
    /// The live object of a key, `None` if there is none or its kind is not served. The cache holds what Applications of all
    /// namespaces own, as the controller sees it: one that acts as somebody else gets from it what it owns or shares, and of
    /// the rest what the API server shows to that somebody.
    ///
    /// # Errors
    /// The API server does not answer, or does not show it.
    pub(super) async fn live(
        &self,
        api_version: &str,
        key: &ResourceKey,
    ) -> Result<Option<Arc<Value>>, IoError> {
        let Some(live) = self.ctx.live.get(api_version, key).await? else { return Ok(None) };
        if !self.actors.are_others() || live.is_of(&self.owner) {
            return Ok(Some(self.opened.open(key, &live)));
        }
        let ResourceKey { kind, namespace, name, .. } = key;
        let target = Target { api_version, kind, namespace, name };
        match self.io().get(&target).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
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
        let opened = Opened::default();
        let key = ResourceKey::of(&map("a", ""), "");
        let (one, two) = (Arc::new(Live::of(map("a", "1"))), Arc::new(Live::of(map("a", "2"))));
        let first = opened.open(&key, &one);
        assert!(Arc::ptr_eq(&first, &opened.open(&key, &one)));
        assert_eq!(*opened.open(&key, &two), map("a", "2"));
        for name in 0..3 * MOST {
            let object = map(&name.to_string(), "");
            opened.open(&ResourceKey::of(&object, ""), &Arc::new(Live::of(object.clone())));
            assert!(opened.0.lock().len() <= MOST);
        }
    }
}
