//! A cache of one kind, fed by a watch and by our own writes.
//!
//! Writing what the API server answered into the cache at once means that a controller never decides on a state older
//! than its own last write: no conflicts with itself, no second reconcile for the echo of its own write.
//!
//! Our own: kube's reflector takes no writes but those of the watch.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kube::api::ObjectMeta;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::fresh::Fresh;

/// Bytes of objects that stay as they came before they are compressed.
const FRESH: usize = 1 << 20;

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl Key {
    /// A key of its two parts.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What the cache must know of an object.
pub trait Stored: Send + Sync + 'static {
    /// Namespace and name, of one kind unique in a cluster.
    fn key(&self) -> Key;
    /// Its resourceVersion.
    fn version(&self) -> &str;
    /// An index in addition to its key (for example the Application it belongs to).
    fn index(&self) -> Option<Key> {
        None
    }
    /// Whether all of it is here, and not only its head.
    fn is_whole(&self) -> bool {
        true
    }
    /// What is kept of it if it is none of this replica's business; `None`: nothing.
    fn head(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// Whether it was not edited, if these are its metadata now: generation, labels and annotations are the same.
    fn is_unedited(&self, _: &ObjectMeta) -> bool {
        false
    }
    /// Bytes that it takes, about, where that is limited.
    fn size(&self) -> usize {
        0
    }
    /// Bytes of it that could be compressed.
    fn unpacked(&self) -> usize {
        0
    }
    /// The same object compressed; `None`: it stays as it is.
    fn packed(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

struct Inner<T> {
    objects: HashMap<Key, Arc<T>>,
    /// The sizes of all objects together.
    size: usize,
    /// By index value and key. One set for all: most values have one or two keys, and a set of its own takes the memory of eleven.
    index: BTreeSet<(Key, Key)>,
    /// A list in progress: replaces `objects` when complete.
    listing: Option<HashMap<Key, Arc<T>>>,
}

/// The cache.
pub struct Store<T> {
    inner: RwLock<Inner<T>>,
    /// Those that are not compressed yet.
    fresh: Mutex<Fresh<T>>,
    /// The generation of the share with which the last complete list began; 0: none is complete.
    listed: watch::Sender<u64>,
}

impl<T> std::fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("objects", &self.inner.read().objects.len()).finish()
    }
}

impl<T: Stored> Default for Store<T> {
    fn default() -> Self {
        Self::with_fresh(FRESH)
    }
}

/// Versions are compared as numbers, as the API server orders them; anything else counts as newer.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}

impl<T: Stored> Store<T> {
    /// An empty one, in which so many bytes stay as they came.
    pub(crate) fn with_fresh(bytes: usize) -> Self {
        Self {
            inner: RwLock::new(Inner {
                objects: HashMap::new(),
                size: 0,
                index: BTreeSet::new(),
                listing: None,
            }),
            fresh: Mutex::new(Fresh::new(bytes)),
            listed: watch::Sender::new(0),
        }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// The objects with this index value, by key.
    #[must_use]
    pub fn indexed(&self, index: &Key) -> Vec<Arc<T>> {
        let inner = self.inner.read();
        let first = (index.clone(), Key::new("", ""));
        let entries = inner.index.range(first..).take_while(|(by, _)| by == index);
        entries.filter_map(|(_, key)| inner.objects.get(key).cloned()).collect()
    }

    /// All objects, by key.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<T>> {
        let inner = self.inner.read();
        let mut all: Vec<_> = inner.objects.iter().collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// The sizes of all objects together.
    pub(crate) fn size(&self) -> usize {
        self.inner.read().size
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.listed() > 0
    }

    /// The generation of the [share](crate::Share) with which the last complete list began; 0: none is complete.
    #[must_use]
    pub fn listed(&self) -> u64 {
        *self.listed.borrow()
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let mut receiver = self.listed.subscribe();
        // The sender lives as long as the store.
        let _ = receiver.wait_for(|listed| *listed > 0).await;
    }

    /// An object as the API server has it now. Returns the object before, or `Err` if what is stored is as new.
    ///
    /// # Errors
    /// The given object is not newer than the stored one.
    pub fn put(&self, object: T) -> Result<Option<Arc<T>>, Stale> {
        let key = object.key();
        let object = Arc::new(object);
        let mut inner = self.inner.write();
        let is_news = |known: Option<&Arc<T>>| {
            known.is_none_or(|known| {
                let is_other =
                    known.version() != object.version() || (object.is_whole() && !known.is_whole());
                is_other && !is_older(object.version(), known.version())
            })
        };
        // The answer to a write of ours may be behind the list, too.
        if let Some(listing) = &mut inner.listing
            && is_news(listing.get(&key))
        {
            listing.insert(key.clone(), Arc::clone(&object));
        }
        if !is_news(inner.objects.get(&key)) {
            return Err(Stale);
        }
        let old = inner.objects.insert(key.clone(), Arc::clone(&object));
        inner.resize(object.size(), old.as_ref().map_or(0, |old| old.size()));
        let before = old.as_ref().and_then(|old| old.index());
        let after = object.index();
        if before != after {
            unindex(&mut inner.index, before, &key);
            if let Some(index) = after {
                inner.index.insert((index, key));
            }
        }
        drop(inner);
        self.pack_later(&object);
        Ok(old)
    }

    /// An object came that is compressed when enough others have come after it.
    fn pack_later(&self, object: &Arc<T>) {
        let bytes = object.unpacked();
        if bytes == 0 {
            return;
        }
        self.fresh.lock().push(object, bytes);
        loop {
            let oldest = self.fresh.lock().pop();
            let Some(oldest) = oldest else { return };
            if let Some(packed) = oldest.packed() {
                self.replace(&oldest, packed);
            }
        }
    }

    /// An object in another form.
    fn replace(&self, object: &Arc<T>, by: T) {
        let (key, by) = (object.key(), Arc::new(by));
        let mut inner = self.inner.write();
        let Inner { objects, size, listing, .. } = &mut *inner;
        if let Some(one) = objects.get_mut(&key).filter(|one| Arc::ptr_eq(one, object)) {
            *one = Arc::clone(&by);
            *size = size.saturating_add(by.size()).saturating_sub(object.size());
        }
        let listed = listing.as_mut().and_then(|listing| listing.get_mut(&key));
        if let Some(one) = listed.filter(|one| Arc::ptr_eq(one, object)) {
            *one = by;
        }
    }

    /// The object is gone as of `version` (empty: whatever version).
    pub fn remove(&self, key: &Key, version: &str) -> Option<Arc<T>> {
        let mut inner = self.inner.write();
        if inner.objects.get(key).is_some_and(|old| is_older(version, old.version())) {
            return None;
        }
        if let Some(listing) = &mut inner.listing {
            listing.remove(key);
        }
        let old = inner.objects.remove(key)?;
        inner.resize(0, old.size());
        unindex(&mut inner.index, old.index(), key);
        Some(old)
    }

    /// A list begins.
    pub fn begin_list(&self) {
        self.inner.write().listing = Some(HashMap::new());
    }

    /// One object of the list. There are many, of which few are replaced soon.
    pub fn list_item(&self, object: T) {
        let object = object.packed().unwrap_or(object);
        let mut inner = self.inner.write();
        let key = object.key();
        if let Some(listing) = &mut inner.listing {
            listing.entry(key).or_insert_with(|| Arc::new(object));
        }
    }

    /// An object of the list that is known already, as a whole if it is to be: it need not be read.
    pub fn list_known(&self, key: &Key, version: &str, whole: bool) -> bool {
        let mut inner = self.inner.write();
        let is_it = |known: &&Arc<T>| known.version() == version && known.is_whole() == whole;
        let known = inner.objects.get(key).filter(is_it).cloned();
        let (Some(known), Some(listing)) = (known, &mut inner.listing) else { return false };
        listing.entry(key.clone()).or_insert(known);
        true
    }

    /// Only these objects are kept as they are; of the others their heads are, if they have one.
    pub fn retain(&self, keeps: impl Fn(&T) -> bool) {
        let mut inner = self.inner.write();
        let Inner { objects, index, listing, size } = &mut *inner;
        let keep = |object: &mut Arc<T>| {
            if keeps(object) {
                return true;
            }
            if object.is_whole() {
                let Some(head) = object.head() else { return false };
                *object = Arc::new(head);
            }
            true
        };
        objects.retain(|_, object| keep(object));
        // What a list brings that is in progress is checked one by one.
        objects.shrink_to_fit();
        *size = sum(objects);
        index.retain(|(_, key)| objects.contains_key(key));
        if let Some(listing) = listing {
            listing.retain(|_, object| keep(object));
        }
    }

    /// The list is complete: returns the keys that are new, changed or gone.
    pub fn end_list(&self) -> Vec<(Key, Option<Arc<T>>)> {
        self.end_list_of(1)
    }

    /// The same of a list that began with a generation of the [share](crate::Share).
    #[expect(clippy::iter_over_hash_type, reason = "what comes out is sorted or a map again")]
    pub fn end_list_of(&self, generation: u64) -> Vec<(Key, Option<Arc<T>>)> {
        let mut inner = self.inner.write();
        let Some(listing) = inner.listing.take() else { return Vec::new() };
        let mut changed: Vec<(Key, Option<Arc<T>>)> = Vec::new();
        for (key, old) in &inner.objects {
            if !listing.contains_key(key) {
                changed.push((key.clone(), Some(Arc::clone(old))));
            }
        }
        let mut objects = HashMap::with_capacity(listing.len());
        for (key, object) in listing {
            let old = inner.objects.get(&key);
            // Own writes may be newer than the list.
            let keep = old.filter(|old| is_older(object.version(), old.version())).cloned();
            if old.is_none_or(|old| old.version() != object.version()) && keep.is_none() {
                changed.push((key.clone(), old.cloned()));
            }
            objects.insert(key, keep.unwrap_or(object));
        }
        let index = |(key, object): (&Key, &Arc<T>)| Some((object.index()?, key.clone()));
        inner.index = objects.iter().filter_map(index).collect();
        inner.size = sum(&objects);
        inner.objects = objects;
        drop(inner);
        self.listed.send_replace(generation);
        changed.sort_by(|(a, _), (b, _)| a.cmp(b));
        changed
    }
}

impl<T> Inner<T> {
    /// Objects of a size came in the place of others.
    const fn resize(&mut self, more: usize, less: usize) {
        self.size = self.size.saturating_add(more).saturating_sub(less);
    }
}

fn sum<T: Stored>(objects: &HashMap<Key, Arc<T>>) -> usize {
    objects.values().map(|object| object.size()).sum()
}

/// The object offered to [`Store::put`] is not newer than the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

fn unindex(index: &mut BTreeSet<(Key, Key)>, by: Option<Key>, key: &Key) {
    if let Some(by) = by {
        index.remove(&(by, key.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Item(&'static str, String, Option<&'static str>);

    impl Stored for Item {
        fn key(&self) -> Key {
            Key::new("n", self.0)
        }
        fn version(&self) -> &str {
            &self.1
        }
        fn index(&self) -> Option<Key> {
            self.2.map(|owner| Key::new("n", owner))
        }
    }

    fn item(name: &'static str, version: u64, owner: Option<&'static str>) -> Item {
        Item(name, version.to_string(), owner)
    }

    fn names(items: &[Arc<Item>]) -> Vec<&'static str> {
        items.iter().map(|item| item.0).collect()
    }

    #[test]
    fn older_news_are_ignored() {
        let store = Store::default();
        assert!(store.put(item("a", 10, None)).is_ok());
        assert_eq!(store.put(item("a", 10, None)), Err(Stale));
        assert_eq!(store.put(item("a", 9, None)), Err(Stale));
        assert!(store.put(item("a", 11, None)).is_ok());
        assert!(store.remove(&Key::new("n", "a"), "10").is_none());
        assert!(store.remove(&Key::new("n", "a"), "12").is_some());
    }

    #[test]
    fn the_index_follows() {
        let store = Store::default();
        let by = |owner: &str| names(&store.indexed(&Key::new("n", owner)));
        store.put(item("a", 1, Some("x"))).unwrap();
        store.put(item("b", 2, Some("x"))).unwrap();
        assert_eq!(by("x"), ["a", "b"]);
        store.put(item("a", 3, Some("y"))).unwrap();
        assert_eq!((by("x"), by("y")), (vec!["b"], vec!["a"]));
        store.remove(&Key::new("n", "b"), "");
        assert_eq!(by("x"), Vec::<&str>::new());
    }

    #[test]
    fn an_answer_that_comes_late_does_not_undo_what_a_list_says() {
        let store = Store::default();
        store.put(item("a", 40, None)).unwrap();
        store.begin_list();
        store.list_item(item("a", 60, None));
        let _ = store.put(item("a", 50, None));
        store.end_list();
        assert_eq!(store.get(&Key::new("n", "a")).unwrap().1, "60");
    }

    #[test]
    fn what_is_not_kept_goes_also_from_a_list_in_progress() {
        let store = Store::default();
        store.put(item("a", 1, Some("x"))).unwrap();
        store.put(item("b", 2, Some("y"))).unwrap();
        store.begin_list();
        assert!(
            !store.list_known(&Key::new("n", "a"), "3", true)
                && !store.list_known(&Key::new("n", "c"), "1", true)
        );
        assert!(
            store.list_known(&Key::new("n", "a"), "1", true)
                && store.list_known(&Key::new("n", "b"), "2", true)
        );
        store.retain(|item| item.0 != "b");
        assert_eq!(names(&store.indexed(&Key::new("n", "y"))), Vec::<&str>::new());
        assert_eq!((store.len(), store.listed()), (1, 0));
        assert!(store.end_list_of(3).is_empty());
        assert_eq!((names(&store.all()), store.listed()), (vec!["a"], 3));
        assert_eq!(names(&store.indexed(&Key::new("n", "x"))), ["a"]);
    }

    #[test]
    fn a_list_replaces_but_never_undoes_an_own_write() {
        let store = Store::default();
        assert!(!store.is_synced());
        store.put(item("gone", 1, None)).unwrap();
        store.put(item("written", 50, None)).unwrap();
        store.begin_list();
        store.list_item(item("written", 40, None));
        store.list_item(item("new", 41, Some("x")));
        store.put(item("during", 60, None)).unwrap();
        let changed: Vec<_> = store.end_list().into_iter().map(|(key, _)| key.name).collect();
        assert_eq!(changed, ["gone", "new"]);
        assert_eq!(names(&store.all()), ["during", "new", "written"]);
        assert_eq!(store.get(&Key::new("n", "written")).unwrap().1, "50");
        assert_eq!(names(&store.indexed(&Key::new("n", "x"))), ["new"]);
        assert!(store.is_synced());
    }

    /// A number, or that it is there.
    #[derive(Debug, PartialEq)]
    struct Part(&'static str, Option<u32>);

    impl Stored for Part {
        fn key(&self) -> Key {
            Key::new("n", self.0)
        }
        fn version(&self) -> &'static str {
            "1"
        }
        fn is_whole(&self) -> bool {
            self.1.is_some()
        }
        fn head(&self) -> Option<Self> {
            Some(Self(self.0, None))
        }
    }

    #[test]
    fn of_what_is_not_kept_the_head_stays_until_it_is_kept_again() {
        let store = Store::default();
        store.put(Part("a", Some(1))).unwrap();
        store.put(Part("b", Some(2))).unwrap();
        store.begin_list();
        assert!(store.list_known(&Key::new("n", "b"), "1", true));
        store.retain(|part| part.0 == "a");
        let known = |name: &str| store.get(&Key::new("n", name)).unwrap().1;
        assert_eq!((known("a"), known("b")), (Some(1), None));
        // The list that is in progress was of another time.
        store.list_item(Part("a", Some(1)));
        assert_eq!(store.end_list(), []);
        assert_eq!((known("a"), known("b")), (Some(1), None));
        assert_eq!(store.put(Part("a", None)), Err(Stale), "nothing is lost by an echo");
        store.begin_list();
        assert!(!store.list_known(&Key::new("n", "b"), "1", true));
        store.list_item(Part("b", Some(2)));
        assert!(store.list_known(&Key::new("n", "a"), "1", true));
        assert_eq!(store.end_list(), [], "neither is news");
        assert_eq!(known("b"), Some(2));
        store.retain(|_| false);
        store.put(Part("b", Some(3))).unwrap();
        assert_eq!(known("b"), Some(3), "the same version as a whole");
    }

    /// Its name, its version, and how many bytes of it are not compressed.
    struct Long(&'static str, String, usize);

    impl Stored for Long {
        fn key(&self) -> Key {
            Key::new("n", self.0)
        }
        fn version(&self) -> &str {
            &self.1
        }
        fn size(&self) -> usize {
            self.2.max(10)
        }
        fn unpacked(&self) -> usize {
            self.2
        }
        fn packed(&self) -> Option<Self> {
            (self.2 > 0).then(|| Self(self.0, self.1.clone(), 0))
        }
    }

    #[test]
    fn what_has_stayed_for_a_while_is_compressed_and_what_a_list_brings_at_once() {
        let store = Store::with_fresh(100);
        let put = |name, version: u64, bytes| {
            let _ = store.put(Long(name, version.to_string(), bytes));
        };
        let unpacked = || -> Vec<_> { store.all().iter().map(|one| (one.0, one.2)).collect() };
        put("a", 1, 60);
        put("b", 2, 40);
        assert_eq!((unpacked(), store.size()), (vec![("a", 60), ("b", 40)], 100));
        // What was replaced by then is never compressed.
        put("a", 3, 50);
        assert_eq!((unpacked(), store.size()), (vec![("a", 50), ("b", 40)], 90));
        put("c", 4, 30);
        assert_eq!((unpacked(), store.size()), (vec![("a", 50), ("b", 0), ("c", 30)], 90));
        store.begin_list();
        store.list_item(Long("b", "5".to_owned(), 70));
        assert!(store.list_known(&Key::new("n", "a"), "3", true));
        // It may have to wait for its turn in a list that is not complete.
        put("d", 6, 90);
        store.end_list();
        assert_eq!((unpacked(), store.size()), (vec![("a", 0), ("b", 0), ("d", 90)], 110));
        // Larger than all that may stay as it is.
        put("e", 7, 500);
        store.remove(&Key::new("n", "d"), "");
        assert_eq!((unpacked(), store.size()), (vec![("a", 0), ("b", 0), ("e", 0)], 30));
    }
}
