//! Changes that nobody here waits for: those of other replicas' Applications. While one is made, its records and its status change
//! several times in a second; of these changes only the last one is read.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use crate::store::Key;

/// How long a change waits for the next one of its object.
const WAIT: Duration = Duration::from_secs(1);
/// Bytes that wait at the most, of one watch: they are taken in without a pause.
const MAX_BYTES: usize = 128 << 10;

/// Waits for a moment, if there is one.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// An object as a watch sends it.
pub(crate) trait Sent {
    /// Namespace and name.
    fn key(&self) -> Key;
    /// Its size, about.
    fn bytes(&self) -> usize;
}

/// The events of a watch, of which some wait.
#[derive(Debug)]
pub(crate) struct Coalesced<K> {
    waiting: HashMap<Key, K>,
    bytes: usize,
    due: Option<Instant>,
    /// What is to be taken in before anything else.
    ready: VecDeque<Event<K>>,
}

impl<K> Default for Coalesced<K> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), bytes: 0, due: None, ready: VecDeque::new() }
    }
}

impl<K: Sent> Coalesced<K> {
    /// Takes an event of the watch; gives it back if it is to be taken in now.
    pub(crate) fn push(
        &mut self,
        event: Event<K>,
        may_wait: impl FnOnce(&K) -> bool,
    ) -> Option<Event<K>> {
        match event {
            Event::Apply(object) if may_wait(&object) => {
                let key = object.key();
                self.forget(&key);
                self.bytes = self.bytes.saturating_add(object.bytes());
                self.waiting.insert(key, object);
                self.due.get_or_insert_with(|| Instant::now() + WAIT);
                if self.bytes > MAX_BYTES {
                    self.release();
                }
                return None;
            }
            Event::Apply(ref object) | Event::Delete(ref object) => self.forget(&object.key()),
            // What waits is older than the list, which may lack it.
            Event::Init if !self.waiting.is_empty() => {
                self.release();
                self.ready.push_back(event);
                return None;
            }
            Event::Init | Event::InitApply(_) | Event::InitDone => {}
        }
        Some(event)
    }

    /// The next event that does not wait any more, once there is one. `None`: there is none left for now. Nothing is lost if this is given up.
    pub(crate) async fn next(&mut self) -> Option<Event<K>> {
        if self.ready.is_empty() {
            until(self.due).await;
            self.release();
        } else {
            // All of them at once would hold up whatever else this thread does.
            tokio::task::yield_now().await;
        }
        self.ready.pop_front()
    }

    /// Nothing waits any more.
    fn release(&mut self) {
        (self.bytes, self.due) = (0, None);
        self.ready.extend(self.waiting.drain().map(|(_, object)| Event::Apply(object)));
    }

    fn forget(&mut self, key: &Key) {
        if let Some(former) = self.waiting.remove(key) {
            self.bytes = self.bytes.saturating_sub(former.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Object(&'static str, usize);

    impl Sent for Object {
        fn key(&self) -> Key {
            Key::new("n", self.0)
        }
        fn bytes(&self) -> usize {
            self.1
        }
    }

    fn all(events: &mut Coalesced<Object>) -> Vec<String> {
        let mut all: Vec<_> = events.ready.drain(..).map(|event| format!("{event:?}")).collect();
        all.sort();
        all
    }

    fn apply(name: &'static str, bytes: usize) -> Event<Object> {
        Event::Apply(Object(name, bytes))
    }

    #[tokio::test(start_paused = true)]
    async fn of_the_changes_of_a_second_the_last_is_taken_in() {
        let mut events = Coalesced::default();
        let began = Instant::now();
        for (name, bytes) in [("a", 1), ("b", 2), ("a", 3)] {
            assert!(events.push(apply(name, bytes), |_| true).is_none());
        }
        assert_eq!((all(&mut events), events.bytes), (vec![], 5));
        let first = events.next().await;
        assert_eq!(began.elapsed(), WAIT);
        events.ready.extend(first);
        assert_eq!(all(&mut events), [r#"Apply(Object("a", 3))"#, r#"Apply(Object("b", 2))"#]);
        assert_eq!((events.bytes, events.due), (0, None));
    }

    #[test]
    fn what_does_not_wait_takes_the_place_of_what_does() {
        for event in [apply("a", 2), Event::Delete(Object("a", 2))] {
            let mut events = Coalesced::default();
            events.push(apply("a", 1), |_| true);
            assert!(events.push(event, |_| false).is_some());
            events.release();
            assert!(all(&mut events).is_empty());
        }
    }

    #[test]
    fn a_list_begins_after_what_waits_and_so_does_what_is_too_much() {
        let mut events = Coalesced::default();
        assert!(events.push(Event::Init, |_| true).is_some());
        events.push(apply("a", 1), |_| true);
        assert!(events.push(Event::Init, |_| true).is_none());
        let taken: Vec<_> = events.ready.drain(..).collect();
        assert!(matches!(taken.as_slice(), [Event::Apply(_), Event::Init]), "{taken:?}");
        events.push(apply("a", 1), |_| true);
        events.push(apply("b", MAX_BYTES), |_| true);
        assert_eq!((all(&mut events).len(), events.bytes), (2, 0));
    }
}
