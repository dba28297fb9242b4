//! Applications as they stay in memory: what is asked about all of them in the open, the rest packed. A tree of a few hundred values
//! takes many times the memory of its text, and most Applications are at rest.
//!
//! Of an Application that another replica works on only the head is kept. Whoever needs more of it reads it from the API server.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use vela_api::names::{annotation, finalizer, label};
use vela_api::{Application, ObjectMeta, annotation_of, condition, names};
use vela_cluster::packed::{PackError, Text};
use vela_cluster::{Key, Stored};

use crate::application::facts;
use crate::definition::users::{self, Use};
use crate::events::About;

/// An Application in the cache.
#[derive(Clone)]
pub struct Cached {
    key: Key,
    version: Box<str>,
    /// Its uid: a recreated one has another.
    pub uid: Box<str>,
    /// Counts the changes of its spec.
    pub generation: Option<i64>,
    /// The generation that its status is about.
    pub observed_generation: i64,
    /// A hash of its labels and annotations: they do not count as another generation.
    pub marks: u64,
    /// What it has in common with many others.
    pub outline: Arc<Outline>,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Whole(Result<Text, PackError>),
    /// Another replica works on it.
    Absent,
}

/// What is asked about Applications without opening them. Most are at rest in the same way, so it is in memory once for all of those.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Outline {
    /// The shard that its label names.
    pub shard: Box<str>,
    /// The pool that its annotation names.
    pub pool: Box<str>,
    /// The version of the controller that it requires.
    pub requires: Box<str>,
    /// It is left alone.
    pub is_paused: bool,
    /// It is being deleted.
    pub is_deleting: bool,
    /// Our finalizer is on it.
    pub has_finalizer: bool,
    /// Some finalizer is on it.
    pub has_finalizers: bool,
    /// Its phase.
    pub phase: Box<str>,
    /// Its workflow, if one began.
    pub workflow: Option<Run>,
    /// All of its services are healthy.
    pub is_healthy: bool,
    /// It is not applied with all rights of its author.
    pub is_unstamped: bool,
    /// The clusters that its services are in.
    pub clusters: BTreeSet<Box<str>>,
    /// Its spec has a workflow, which may refer to objects of its namespace.
    pub has_workflow: bool,
    /// Which definitions a change of may matter to it.
    pub uses: BTreeSet<Use>,
    /// The types that name a version.
    pub versions: BTreeSet<Box<str>>,
}

/// A workflow in an [`Outline`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Run {
    /// Its phase.
    pub phase: Box<str>,
    /// It came to its end.
    pub is_finished: bool,
    /// Type, phase and reason of each step.
    pub steps: Box<[[Box<str>; 3]]>,
}

/// The outlines of all Applications, each once.
#[derive(Debug, Default)]
pub struct Outlines(Mutex<Interned>);

#[derive(Debug, Default)]
struct Interned {
    all: HashSet<Arc<Outline>>,
    /// How many there may be before those are searched for that no Application has any more.
    sweep_above: usize,
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cached").field("key", &self.key).field("version", &self.version).finish()
    }
}

impl Outlines {
    /// An Application as it stays in memory, `whole` or without its content.
    #[must_use]
    pub fn cached(&self, app: &Application, whole: bool) -> Cached {
        let metadata = &app.metadata;
        Cached {
            key: app.key(),
            version: app.version().into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation,
            observed_generation: app.status.observed_generation,
            marks: marks(metadata),
            outline: self.one(Outline::of(app)),
            content: if whole { Content::Whole(Text::of(app)) } else { Content::Absent },
        }
    }

    fn one(&self, outline: Outline) -> Arc<Outline> {
        let mut interned = self.0.lock();
        if let Some(known) = interned.all.get(&outline) {
            return Arc::clone(known);
        }
        if interned.all.len() >= interned.sweep_above {
            interned.all.retain(|one| Arc::strong_count(one) > 1);
            interned.sweep_above = interned.all.len().saturating_mul(2).max(64);
        }
        let outline = Arc::new(outline);
        interned.all.insert(Arc::clone(&outline));
        outline
    }
}

impl Cached {
    /// The Application; `None` if only its head is kept, or it cannot be opened.
    #[must_use]
    pub fn open(&self) -> Option<Application> {
        match &self.content {
            Content::Whole(Ok(text)) => text.open().ok(),
            Content::Whole(Err(_)) | Content::Absent => None,
        }
    }

    /// It with another content.
    fn with(&self, content: Content) -> Self {
        Self {
            key: self.key.clone(),
            version: self.version.clone(),
            uid: self.uid.clone(),
            generation: self.generation,
            observed_generation: self.observed_generation,
            marks: self.marks,
            outline: Arc::clone(&self.outline),
            content,
        }
    }

    /// As events name it.
    #[must_use]
    pub fn about(&self) -> About {
        About {
            api_version: vela_api::V1BETA1.to_owned(),
            kind: Application::KIND.to_owned(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            uid: self.uid.to_string(),
            version: self.version.to_string(),
        }
    }

    /// Whether its status is about its spec as it is.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.generation == Some(self.observed_generation)
    }

    /// Whether there is nothing to do for it, by its head alone.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.outline.is_deleting && self.is_observed() && self.is_finished()
    }

    /// Whether its workflow came to its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outline.workflow.as_ref().is_some_and(|run| run.is_finished)
    }
}

impl Stored for Cached {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn version(&self) -> &str {
        &self.version
    }
    fn index(&self) -> Option<Key> {
        Some(vela_cluster::in_namespace(&self.key.namespace))
    }
    fn is_unedited(&self, other: &ObjectMeta) -> bool {
        self.generation == other.generation && self.marks == marks(other)
    }
    fn is_whole(&self) -> bool {
        matches!(self.content, Content::Whole(_))
    }
    fn head(&self) -> Option<Self> {
        Some(self.with(Content::Absent))
    }
    fn unpacked(&self) -> usize {
        match &self.content {
            Content::Whole(Ok(text)) => text.unpacked(),
            Content::Whole(Err(_)) | Content::Absent => 0,
        }
    }
    fn packed(&self) -> Option<Self> {
        let Content::Whole(Ok(text)) = &self.content else { return None };
        Some(self.with(Content::Whole(Ok(text.packed()?))))
    }
}

impl Outline {
    fn of(app: &Application) -> Self {
        let metadata = &app.metadata;
        let finalizers = || metadata.finalizers.iter().flatten();
        let of_annotation = |key| annotation_of(metadata, key).into();
        let mut versions = BTreeSet::new();
        users::types(&app.spec, &mut |type_| {
            if type_.contains('@') {
                versions.insert(type_.into());
            }
        });
        let step = |step: &vela_api::workflow::WorkflowStepStatus| {
            [&step.type_, &step.phase, &step.reason].map(|text| text.as_str().into())
        };
        Self {
            shard: facts::label(metadata, label::SCHEDULED_SHARD_ID).into(),
            pool: of_annotation(annotation::SHARD),
            requires: of_annotation(annotation::CONTROLLER_VERSION_REQUIRE),
            is_paused: facts::label(metadata, label::PAUSE) == "true",
            is_deleting: metadata.deletion_timestamp.is_some(),
            has_finalizer: finalizers().any(|one| one == finalizer::APPLICATION),
            has_finalizers: finalizers().next().is_some(),
            phase: app.status.phase.as_str().into(),
            workflow: app.status.workflow.as_ref().map(|run| Run {
                phase: run.phase.as_str().into(),
                is_finished: run.finished,
                steps: run.steps.iter().map(step).collect(),
            }),
            is_healthy: vela_api::status::is_healthy(&app.status.services),
            is_unstamped: condition::get(&app.status.conditions, names::condition::STAMPED)
                .is_some(),
            clusters: app.status.services.iter().map(|it| it.cluster.as_str().into()).collect(),
            has_workflow: app.spec.workflow.is_some(),
            uses: users::uses(app),
            versions,
        }
    }
}

/// A hash of the labels and annotations, without the copy of the object that kubectl notes for itself.
fn marks(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    metadata.labels.hash(&mut hasher);
    for (key, value) in metadata.annotations.iter().flatten() {
        if key != annotation::KUBECTL_LAST_APPLIED {
            (key, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn app(name: &str, metadata: &Value, status: &Value) -> Application {
        let mut app = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": metadata, "status": status,
            "spec": {"components": [{"name": "c", "type": "web@v2", "properties": {"n": 1.50}}]},
        });
        app["metadata"]["name"] = name.into();
        app["metadata"]["namespace"] = "n".into();
        app["metadata"]["resourceVersion"] = "7".into();
        serde_json::from_value(app).unwrap()
    }

    #[test]
    fn an_application_comes_back_as_it_was_and_a_head_says_what_is_asked_of_all() {
        let metadata = json!({
            "uid": "u", "generation": 2, "finalizers": ["somebody.else/s"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"controller.core.oam.dev/scheduled-shard-id": "gold", "controller.core.oam.dev/pause": "true"},
        });
        let status = json!({
            "status": "running", "observedGeneration": 1,
            "services": [{"name": "c", "cluster": "edge", "healthy": false}],
            "workflow": {"status": "suspending", "finished": false, "suspend": true, "steps": [
                {"id": "1", "type": "suspend", "phase": "suspending", "reason": "Wait"}]},
        });
        let app = app("a", &metadata, &status);
        let outlines = Outlines::default();
        let whole = outlines.cached(&app, true);
        assert_eq!(whole.open(), Some(app.clone()));
        let head = whole.head().unwrap();
        assert!(whole.is_whole() && !head.is_whole() && head.open().is_none());
        assert_eq!((head.key(), head.version(), &*head.uid), (Key::new("n", "a"), "7", "u"));
        assert!(!head.is_observed() && !head.is_finished());
        assert_eq!(
            *head.outline,
            Outline {
                shard: "gold".into(),
                is_paused: true,
                is_deleting: true,
                has_finalizers: true,
                phase: "running".into(),
                workflow: Some(Run {
                    phase: "suspending".into(),
                    is_finished: false,
                    steps: [["suspend", "suspending", "Wait"].map(Into::into)].into(),
                }),
                clusters: ["edge".into()].into(),
                uses: [Use::Version("web".into())].into(),
                versions: ["web@v2".into()].into(),
                ..Outline::default()
            }
        );
    }

    #[test]
    fn labels_and_annotations_are_marks_and_what_kubectl_notes_is_not() {
        let marks = |metadata: &Value| {
            Outlines::default().cached(&app("a", metadata, &json!({})), false).marks
        };
        let plain = marks(&json!({}));
        let noted = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
        assert_eq!(marks(&json!({"annotations": noted})), plain);
        for other in [
            json!({"labels": {"a": "1"}}),
            json!({"annotations": {"a": "1"}}),
            json!({"annotations": {"app.oam.dev/publishVersion": "2"}}),
        ] {
            assert_ne!(marks(&other), plain, "{other}");
        }
    }

    #[test]
    fn what_many_have_in_common_is_in_memory_once_and_goes_with_the_last_of_them() {
        let outlines = Outlines::default();
        let of = |name: &str, phase: &str| {
            outlines.cached(&app(name, &json!({}), &json!({"status": phase})), false)
        };
        let (a, b, other) = (of("a", "running"), of("b", "running"), of("c", "rendering"));
        assert!(Arc::ptr_eq(&a.outline, &b.outline) && !Arc::ptr_eq(&a.outline, &other.outline));
        for number in 0..1000 {
            drop(of("d", &number.to_string()));
        }
        assert!(outlines.0.lock().all.len() <= 64);
        assert!(Arc::ptr_eq(&a.outline, &of("e", "running").outline));
    }
}
