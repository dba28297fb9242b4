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
    /// What is to be taken in next, now that `sent` is what the watch sends next: perhaps nothing yet. Nothing is lost if this is given up.
    pub(crate) async fn next<E>(
        &mut self,
        sent: impl Future<Output = Option<Result<Event<K>, E>>>,
        may_wait: impl FnOnce(&K) -> bool,
    ) -> Option<Result<Option<Event<K>>, E>> {
        if !self.ready.is_empty() {
            // All of them at once would hold up whatever else this thread does.
            tokio::task::yield_now().await;
            return Some(Ok(self.ready.pop_front()));
        }
        tokio::select! {
            () = until(self.due) => {
                self.release();
                Some(Ok(self.ready.pop_front()))
            }
            event = sent => Some(event?.map(|event| self.push(event, may_wait))),
        }
    }

    /// Takes an event of the watch; gives it back if it is to be taken in now.
    fn push(&mut self, event: Event<K>, may_wait: impl FnOnce(&K) -> bool) -> Option<Event<K>> {
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

    fn apply(name: &'static str, bytes: usize) -> Event<Object> {
        Event::Apply(Object(name, bytes))
    }

    /// The events that are taken in of those that are sent, and after how many seconds.
    async fn taken(sent: Vec<Event<Object>>) -> Vec<String> {
        let mut events = Coalesced::default();
        let mut sent = sent.into_iter();
        let began = Instant::now();
        let mut all = Vec::new();
        let waits = |object: &Object| object.0 != "own";
        let long = Duration::from_secs(60);
        loop {
            let next = async {
                match sent.next() {
                    Some(event) => Some(Ok::<_, ()>(event)),
                    None => std::future::pending().await,
                }
            };
            let event = match tokio::time::timeout(long, events.next(next, waits)).await {
                Ok(Some(Ok(Some(event)))) => event,
                Ok(_) => continue,
                Err(_) => break,
            };
            let shown = match event {
                Event::Apply(Object(name, version)) => format!("{name} {version}"),
                Event::Delete(Object(name, _)) => format!("no {name}"),
                Event::InitApply(Object(name, _)) => format!("list {name}"),
                Event::Init => "list".to_owned(),
                Event::InitDone => "end".to_owned(),
            };
            all.push(format!("{shown} {}", began.elapsed().as_secs()));
        }
        assert_eq!((events.bytes, events.due), (0, None));
        all
    }

    #[tokio::test(start_paused = true)]
    async fn of_the_changes_of_a_second_the_last_is_taken_in() {
        let sent = vec![apply("a", 1), apply("own", 2), apply("a", 3), apply("own", 4)];
        assert_eq!(taken(sent).await, ["own 2 0", "own 4 0", "a 3 1"]);
        let gone = Event::Delete(Object("a", 2));
        assert_eq!(taken(vec![apply("a", 1), gone]).await, ["no a 0"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_begins_after_what_waits() {
        let listed = Event::InitApply(Object("b", 2));
        let sent = vec![apply("a", 1), Event::Init, listed, Event::InitDone, apply("a", 3)];
        assert_eq!(taken(sent).await, ["a 1 0", "list 0", "list b 0", "end 0", "a 3 1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_a_limit_does_not_wait() {
        let mut all = taken(vec![apply("a", 1), apply("b", MAX_BYTES)]).await;
        all.sort();
        assert_eq!(all, ["a 1 0".to_owned(), format!("b {MAX_BYTES} 0")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_wait_takes_the_place_of_what_does() {
        let mut events = Coalesced::default();
        assert!(events.push(apply("a", 1), |_| true).is_none());
        assert!(events.push(apply("a", 2), |_| false).is_some());
        events.release();
        assert!(events.ready.is_empty());
    }
}
