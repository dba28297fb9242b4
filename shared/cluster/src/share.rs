//! Which Applications' objects caches keep: a replica that shares the Applications with others holds no more than its share. It
//! watches all, reads whose an object is, and drops what is none of its business.
//!
//! What is kept changes while watches run. A cache is filled for what was added when a list is complete that began afterwards.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use kube::api::ObjectMeta;
use kube::runtime::watcher::Config;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use vela_api::names::label;

use crate::store::{Key, Stored};

/// In which generation the objects of an Application were added, since when they are kept; `None`: they are not kept.
pub type Since = Arc<dyn Fn(&Key) -> Option<u64> + Send + Sync>;

/// What is kept at a time.
#[derive(Clone)]
pub struct Keeping {
    /// The last generation in which something was added.
    pub generation: u64,
    /// Whose objects are kept.
    pub since: Since,
    /// What the API server is asked for.
    pub selectors: Selectors,
    /// Everybody's are.
    pub is_everything: bool,
}

/// Selectors by the labels that say whose a record or an object is: they leave out nothing that is kept. `None`: there are no labels, or
/// everything is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Of the records of Applications.
    pub records: Option<AllBut>,
    /// Of the objects that Applications dispatched.
    pub objects: Option<AllBut>,
}

/// A selector of everything but what has one of some values as its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllBut {
    key: &'static str,
    values: Arc<[String]>,
}

impl AllBut {
    /// By the label of this key.
    #[must_use]
    pub fn new(key: &'static str, values: Vec<String>) -> Self {
        Self { key, values: values.into() }
    }

    /// The selector as the API server reads it.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} notin ({})", self.key, self.values.join(","))
    }

    /// Whether it leaves out an object.
    #[must_use]
    pub fn leaves_out(&self, object: &Value) -> bool {
        let value = vela_apply::object::label(object, self.key);
        value.is_some_and(|value| self.values.iter().any(|other| other == value))
    }
}

/// Whether an Application is worked on here.
pub type WorkedOn = Arc<dyn Fn(&Key) -> bool + Send + Sync>;

/// What the caches of a process keep, and that it changed.
pub struct Share {
    worked_on: OnceLock<WorkedOn>,
    keeping: watch::Sender<Keeping>,
    /// What lists again since more is kept does so one kind after the other: the lists of all kinds at once would be the peak of memory.
    turns: Arc<Semaphore>,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeping").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Share").field(&self.keeping.borrow().generation).finish()
    }
}

impl Default for Share {
    /// Everything is kept.
    fn default() -> Self {
        let everything = Keeping {
            generation: 1,
            since: Arc::new(|_| Some(1)),
            selectors: Selectors::default(),
            is_everything: true,
        };
        Self {
            worked_on: OnceLock::new(),
            keeping: watch::Sender::new(everything),
            turns: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Share {
    /// From now on other processes work on some Applications: their changes are read a while later. The first call counts.
    pub fn serve(&self, worked_on: WorkedOn) {
        let _ = self.worked_on.set(worked_on);
    }

    /// Whether other processes work on some Applications.
    pub(crate) fn is_shared(&self) -> bool {
        self.worked_on.get().is_some()
    }

    /// Whether an Application is worked on here.
    pub(crate) fn is_worked_on(&self, app: &Key) -> bool {
        self.worked_on.get().is_none_or(|is_worked_on| is_worked_on(app))
    }

    /// From now on this is kept.
    pub fn set(&self, keeping: Keeping) {
        self.keeping.send_replace(keeping);
    }

    /// What is kept now.
    #[must_use]
    pub fn now(&self) -> Keeping {
        self.keeping.borrow().clone()
    }

    /// The one who has it lists.
    pub(crate) fn turns(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turns)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Keeping> {
        self.keeping.subscribe()
    }
}

/// Whose an object of a kind is, as far as that decides whether it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's: all of them are kept.
    Everybodys,
    /// It is an Application itself: of one that is not kept its head is.
    Application,
    /// It is a record of an Application that its label names, in its own namespace.
    Namespaced,
    /// It is a record of an Application that its labels name.
    ClusterScoped,
}

impl Whose {
    /// Whether it is recorded of an Application.
    pub(crate) const fn is_record(self) -> bool {
        matches!(self, Self::Namespaced | Self::ClusterScoped)
    }

    /// The Application of an object that was sent; `None`: it is kept in any case.
    pub(crate) fn of_sent(
        self,
        (namespace, name): (&str, &str),
        labels: &BTreeMap<String, String>,
    ) -> Option<Key> {
        let of = |key| labels.get(key).map_or("", String::as_str);
        let namespace = match self {
            Self::Everybodys => return None,
            Self::Application => return Some(Key::new(namespace, name)),
            Self::Namespaced => namespace,
            Self::ClusterScoped => of(label::APP_NAMESPACE),
        };
        Some(of(label::APP_NAME))
            .filter(|name| !name.is_empty())
            .map(|name| Key::new(namespace, name))
    }

    /// The same of one whose metadata were read.
    #[must_use]
    pub fn of(self, metadata: &ObjectMeta) -> Option<Key> {
        let of = |part: &Option<String>| part.clone().unwrap_or_default();
        let labels = metadata.labels.as_ref();
        self.of_sent(
            (&of(&metadata.namespace), &of(&metadata.name)),
            labels.unwrap_or(&BTreeMap::new()),
        )
    }

    /// The same of one in a cache, whose index is its Application.
    pub(crate) fn of_stored<T: Stored>(self, object: &T) -> Option<Key> {
        match self {
            Self::Everybodys => None,
            Self::Application => Some(object.key()),
            Self::Namespaced | Self::ClusterScoped => object.index(),
        }
    }
}

impl Keeping {
    /// What is listed and watched of a kind.
    pub(crate) fn narrow(&self, whose: Whose, config: &Config) -> Config {
        match self.selectors.records.as_ref().filter(|_| whose.is_record()) {
            Some(selector) => config.clone().labels(&selector.text()),
            None => config.clone(),
        }
    }

    /// Whether what belongs to an Application is kept; what belongs to none is.
    #[must_use]
    pub fn keeps(&self, app: Option<Key>) -> bool {
        app.is_none_or(|app| (self.since)(&app).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_whose_a_record_is() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let both = labels(&[(label::APP_NAME, "a"), (label::APP_NAMESPACE, "m")]);
        for (whose, labels, app) in [
            (Whose::Everybodys, &both, None),
            (Whose::Application, &both, Some(Key::new("n", "o"))),
            (Whose::Namespaced, &both, Some(Key::new("n", "a"))),
            (Whose::ClusterScoped, &both, Some(Key::new("m", "a"))),
            (Whose::Namespaced, &labels(&[]), None),
            (Whose::ClusterScoped, &labels(&[(label::APP_NAMESPACE, "m")]), None),
        ] {
            assert_eq!(whose.of_sent(("n", "o"), labels), app, "{whose:?} {labels:?}");
        }
        let share = Share::default();
        assert!(share.now().keeps(Some(Key::new("n", "a"))));
        let since = Arc::new(|key: &Key| (key.name == "b").then_some(2));
        share.set(Keeping {
            generation: 2,
            since,
            selectors: Selectors::default(),
            is_everything: false,
        });
        assert!(!share.now().keeps(Some(Key::new("n", "a"))));
        assert!(share.now().keeps(Some(Key::new("n", "b"))) && share.now().keeps(None));
    }
}
