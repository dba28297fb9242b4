//! What of an Application ran to its end and is removed for that (a Job with a TTL, a Pod that succeeded), noted on the tracker
//! that records it: who had it has had it, also for a controller that starts again. One write when it ends, none after.
//!
//! Of each object the note has what is needed to judge it by how it ended: its status, when it was made, and of what manifest.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vela_api::names::{annotation, label};
use vela_apply::ResourceKey;
use vela_apply::object::{self, str_at};
use vela_cluster::ApiError;

use crate::application::facts;
use crate::application::session::Session;

/// Objects that a tracker notes at the most: there are few Jobs in an Application, and an annotation is small.
const MAX_NOTED: usize = 50;
/// The longest text of a note, in bytes. All annotations of an object together have 256 KiB.
const MAX_NOTE_BYTES: usize = 64 << 10;

/// How one object ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::application) struct Completion {
    /// When it was made.
    created: Timestamp,
    /// The hash of its manifest.
    hash: String,
    status: Value,
}

impl Completion {
    /// Of a live object that ran to its end.
    fn of(live: &Value) -> Option<Self> {
        Some(Self {
            created: str_at(live, &["metadata", "creationTimestamp"]).parse().ok()?,
            hash: object::label(live, label::RENDER_HASH)?.to_owned(),
            status: live.get("status")?.clone(),
        })
    }

    /// The object as it was, as far as anybody asks.
    fn object(&self, manifest: &Value) -> Value {
        let mut object = manifest.clone();
        object::set_label(&mut object, label::RENDER_HASH, &self.hash);
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), self.status.clone());
            let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Some(metadata) = metadata.as_object_mut() {
                let created = Value::String(self.created.to_string());
                metadata.insert("creationTimestamp".to_owned(), created);
            }
        }
        object
    }
}

/// The notes of one tracker, by object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::application) struct Completions(BTreeMap<String, Completion>);

impl Completions {
    /// Reads the annotation; what cannot be read was never noted.
    pub(in crate::application) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The annotation with further notes; those of objects that nothing records any more go. `None` if it says that already, or
    /// would become too long: then the object is made once more after a restart, as if nobody had seen its end.
    fn with(
        &self,
        new: BTreeMap<String, Completion>,
        is_recorded: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut all = self.0.clone();
        all.extend(new);
        all.retain(|object, _| is_recorded(object));
        if all == self.0 || all.len() > MAX_NOTED {
            return None;
        }
        serde_json::to_string(&Self(all)).ok().filter(|text| text.len() <= MAX_NOTE_BYTES)
    }
}

impl Session<'_> {
    /// An object that ran to its end as it was noted, if that was in the present run.
    pub(in crate::application) fn noted_completion(
        &self,
        manifest: &Value,
        key: &ResourceKey,
    ) -> Option<Value> {
        let tracker = self.trackers.get(&self.holder(key))?;
        let text = facts::annotation(&tracker.metadata, annotation::COMPLETED);
        let mut noted = Completions::read(text).0;
        let completion = noted.remove(&key.to_string())?;
        let began = self.run_began.or(self.last_run_began)?;
        // In whole seconds, as creation timestamps are.
        let is_of_run = completion.created.as_second() >= began.as_second();
        is_of_run.then(|| completion.object(manifest))
    }

    /// An object ran to its end: the end of the reconcile notes it.
    pub(in crate::application) fn completes(&self, key: &ResourceKey, live: &Value) {
        if let Some(completion) = Completion::of(live) {
            self.completed.lock().insert(key.clone(), completion);
        }
    }

    /// Notes what ran to its end in this reconcile.
    ///
    /// # Errors
    /// The API server's answer.
    pub(in crate::application) async fn note_completed(&mut self) -> Result<(), ApiError> {
        let mut by_tracker: BTreeMap<String, BTreeMap<String, Completion>> = BTreeMap::new();
        for (key, completion) in std::mem::take(&mut *self.completed.lock()) {
            let tracker = self.holder(&key);
            by_tracker.entry(tracker).or_default().insert(key.to_string(), completion);
        }
        for (name, new) in by_tracker {
            // With its tracker, the reason to remember is gone.
            let Some(tracker) = self.trackers.get(&name) else { continue };
            let records = tracker.spec.managed_resources.iter();
            let recorded: Vec<String> =
                records.map(|record| vela_apply::tracker::key_of(record).to_string()).collect();
            let known = facts::annotation(&tracker.metadata, annotation::COMPLETED);
            let is_recorded = |object: &str| recorded.iter().any(|key| key == object);
            if let Some(text) = Completions::read(known).with(new, is_recorded) {
                let (io, store) = (&*self.ctx.io, &*self.ctx.trackers);
                self.trackers.annotate(io, store, &name, annotation::COMPLETED, &text).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn completion(second: i64) -> Completion {
        let live = json!({"metadata": {"creationTimestamp": Timestamp::from_second(second).unwrap().to_string(),
            "labels": {label::RENDER_HASH: "h"}}, "status": {"succeeded": 1}});
        Completion::of(&live).unwrap()
    }

    fn new(names: std::ops::Range<usize>) -> BTreeMap<String, Completion> {
        names.map(|name| (name.to_string(), completion(1))).collect()
    }

    #[test]
    fn a_note_says_how_an_object_ended() {
        let manifest = json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {"a": 1}});
        let object = completion(7).object(&manifest);
        assert_eq!(Completion::of(&object), Some(completion(7)));
        assert_eq!((&object["spec"]["a"], &object["status"]["succeeded"]), (&json!(1), &json!(1)));
        assert_eq!(Completion::of(&json!({"metadata": {}})), None);
    }

    #[test]
    fn notes_are_bounded_and_written_once() {
        let all = |_: &str| true;
        let text = Completions::default().with(new(0..2), all).unwrap();
        let known = Completions::read(&text);
        assert_eq!(known.with(new(0..2), all), None, "that is known");
        assert_eq!(known.with(new(0..MAX_NOTED + 1), all), None, "too many");
        let kept = known.with(new(2..3), |name| name != "0").unwrap();
        assert_eq!(Completions::read(&kept).0.keys().collect::<Vec<_>>(), ["1", "2"]);
        let mut long = completion(1);
        long.status = json!("x".repeat(MAX_NOTE_BYTES));
        assert_eq!(known.with(BTreeMap::from([("l".to_owned(), long)]), all), None, "too long");
        for garbage in ["", "x", "[]", "{\"a\": 1}"] {
            assert_eq!(Completions::read(garbage), Completions::default());
        }
    }
}
