//! ApplicationRevisions: what is stored, whether a new one is needed, and which number it gets.
//!
//! Answers for `pkg/controller/core.oam.dev/v1beta1/application/revision.go`. Two differences on purpose: a number is never
//! used twice, and definitions of two versions used side by side are stored side by side.

pub(in crate::application) mod decide;
pub(in crate::application) mod pending;
pub(in crate::application) mod store;

use std::collections::BTreeMap;
use std::sync::Arc;

use vela_api::application::{Application, ApplicationSpec};
use vela_api::definition::DefinitionStatus;
use vela_api::revision::ApplicationRevisionSpec;
use vela_api::{
    ApplicationRevision, ComponentDefinition, ObjectMeta, OwnerReference, Policy, PolicyDefinition,
    TraitDefinition, Workflow, WorkflowStepDefinition, WorkloadDefinition, names,
};

use super::facts;
use crate::application::facts::parse::Used;
use crate::definitions::Definitions;

/// What the newest spec needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// Same content as the latest revision.
    Latest,
    /// Same content as this older one: the latest revision moves back to it.
    Older(String),
    /// Something new.
    New,
}

/// A definition as a revision embeds it. Items of a list, from which caches are filled, do not say what they are.
macro_rules! embedded {
    ($kind:ident, $definition:expr) => {
        $kind {
            api_version: vela_api::V1BETA1.to_owned(),
            kind: stringify!($kind).to_owned(),
            metadata: described(&$definition.metadata),
            status: DefinitionStatus::default(),
            ..$kind::clone($definition)
        }
    };
}

/// The content a revision of this Application would have now, its definitions aside: see [`embed`].
#[must_use]
pub fn snapshot(
    app: &Application,
    policies: BTreeMap<String, Policy>,
    workflow: Option<Workflow>,
) -> ApplicationRevisionSpec {
    ApplicationRevisionSpec {
        application: embedded(app),
        policies,
        workflow,
        ..ApplicationRevisionSpec::default()
    }
}

/// Puts definitions into the content of a revision.
pub fn embed(spec: &mut ApplicationRevisionSpec, used: &Used, all: &Definitions) {
    spec.component_definitions =
        by_name(&used.components, all, |d| embedded!(ComponentDefinition, d));
    spec.workload_definitions = by_name(&used.workloads, all, |d| embedded!(WorkloadDefinition, d));
    spec.trait_definitions = by_name(&used.traits, all, |d| embedded!(TraitDefinition, d));
    spec.policy_definitions = by_name(&used.policies, all, |d| embedded!(PolicyDefinition, d));
    spec.workflow_step_definitions =
        by_name(&used.steps, all, |d| embedded!(WorkflowStepDefinition, d));
}

/// A definition's metadata as a revision embeds it: without what the server and kubectl noted.
fn described(metadata: &ObjectMeta) -> ObjectMeta {
    let mut metadata = metadata.clone();
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(names::annotation::KUBECTL_LAST_APPLIED);
    }
    metadata
}

/// Keyed by plain name, further versions of the same definition by the whole type name.
fn by_name<T: Send + Sync + 'static>(
    used: &BTreeMap<String, Arc<T>>,
    all: &Definitions,
    copy: impl Fn(&T) -> T,
) -> BTreeMap<String, Arc<T>> {
    let mut out = BTreeMap::new();
    for (type_name, definition) in used {
        let plain = type_name.split('@').next().unwrap_or(type_name);
        // One version keeps the plain name, which is how upstream stores it.
        let alone = used.keys().filter(|k| k.split('@').next() == Some(plain)).count() == 1;
        let key = if alone { plain } else { type_name };
        out.insert(key.to_owned(), all.embedded(definition, &copy));
    }
    out
}

/// The Application as a revision embeds it: no status, only the metadata that describes it.
fn embedded(app: &Application) -> Application {
    let mut annotations = app.metadata.annotations.clone();
    // kubectl's copy of the whole object would make every revision twice as large.
    if let Some(map) = &mut annotations {
        map.remove(names::annotation::KUBECTL_LAST_APPLIED);
    }
    let spec = with_policy_names(&app.spec);
    Application {
        api_version: Application::group_version(),
        kind: Application::KIND.to_owned(),
        metadata: ObjectMeta {
            annotations: annotations.filter(|map| !map.is_empty()),
            finalizers: app.metadata.finalizers.clone(),
            labels: app.metadata.labels.clone(),
            name: app.metadata.name.clone(),
            namespace: app.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec,
        ..Application::default()
    }
}

/// A spec as a revision embeds it: its policies have names.
#[must_use]
pub fn with_policy_names(spec: &ApplicationSpec) -> ApplicationSpec {
    let mut spec = spec.clone();
    for (index, policy) in spec.policies.iter_mut().enumerate() {
        policy.name = vela_workflow::generate::policy_name(policy, index);
    }
    spec
}

/// Whether two revisions mean the same for the Application. With auto-update the definitions count too. This is upstream's
/// question, whose answer must not change with an upgrade; what a stamp vouches for is more ([`vela_seal::Content`]).
#[must_use]
pub fn is_same(
    a: &ApplicationRevisionSpec,
    b: &ApplicationRevisionSpec,
    auto_update: bool,
) -> bool {
    // Names and contents: the metadata of policies changes without meaning.
    let policies = |spec: &ApplicationRevisionSpec| -> Vec<_> {
        let content =
            |(name, p): (&String, &Policy)| (name.clone(), p.type_.clone(), p.properties.clone());
        spec.policies.iter().map(content).collect()
    };
    let steps = |spec: &ApplicationRevisionSpec| {
        spec.workflow.as_ref().map(|w| w.steps.clone()).unwrap_or_default()
    };
    a.application.spec == b.application.spec
        && policies(a) == policies(b)
        && steps(a) == steps(b)
        && (!auto_update || has_same_definitions(a, b))
}

fn has_same_definitions(a: &ApplicationRevisionSpec, b: &ApplicationRevisionSpec) -> bool {
    fn same<T>(
        a: &BTreeMap<String, Arc<T>>,
        b: &BTreeMap<String, Arc<T>>,
        is_same: impl Fn(&T, &T) -> bool,
    ) -> bool {
        a.keys().eq(b.keys())
            // Definitions are interned: the same pointer is the same content.
            && a.values().zip(b.values()).all(|(a, b)| Arc::ptr_eq(a, b) || is_same(a, b))
    }
    same(&a.component_definitions, &b.component_definitions, |a, b| a.spec == b.spec)
        && same(&a.workload_definitions, &b.workload_definitions, |a, b| a.spec == b.spec)
        && same(&a.trait_definitions, &b.trait_definitions, |a, b| a.spec == b.spec)
}

/// Decides which revision the wanted content is. `all` holds expanded revisions; `latest` is the name in status.
#[must_use]
pub fn choose(
    wanted: &ApplicationRevisionSpec,
    wanted_version: &str,
    latest: &str,
    all: &[ApplicationRevision],
    auto_update: bool,
) -> Choice {
    let fits = |revision: &ApplicationRevision| {
        facts::publish_version(&revision.metadata) == wanted_version
            && is_same(wanted, &revision.spec, auto_update)
    };
    let name = |revision: &ApplicationRevision| revision.metadata.name.clone().unwrap_or_default();
    // The latest first: going back needs a reason.
    if all.iter().any(|revision| name(revision) == latest && fits(revision)) {
        return Choice::Latest;
    }
    let mut older: Vec<_> = all.iter().filter(|revision| name(revision) != latest).collect();
    // The newest of the older ones that fit.
    older.sort_by_key(|revision| std::cmp::Reverse(number(&name(revision))));
    // Going back means the definitions of then: they count here in any case.
    match older.into_iter().find(|r| fits(r) && has_same_definitions(wanted, &r.spec)) {
        Some(revision) => Choice::Older(name(revision)),
        None => Choice::New,
    }
}

/// The number after the last `-v`, 0 if there is none.
#[must_use]
pub fn number(name: &str) -> i64 {
    vela_render::context::revision_number(name)
}

/// The number of the next revision: above every number ever seen.
#[must_use]
pub fn next_number<'a>(latest: i64, seen: impl Iterator<Item = &'a str>) -> i64 {
    // Numbers of trackers count, too: a revision that was deleted must not be confused with a new
    // one.
    seen.map(number).fold(latest, i64::max).saturating_add(1)
}

/// A reference to the Application as owner.
#[must_use]
pub fn owner_reference(app: &Application) -> OwnerReference {
    OwnerReference {
        api_version: Application::group_version(),
        kind: Application::KIND.to_owned(),
        name: app.metadata.name.clone().unwrap_or_default(),
        uid: app.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// The object of a new revision.
#[must_use]
pub fn object(
    app: &Application,
    name: &str,
    hash: &str,
    spec: ApplicationRevisionSpec,
) -> ApplicationRevision {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let app_name = app.metadata.name.as_deref().unwrap_or_default();
    let mut revision = ApplicationRevision::new(namespace, name);
    // Labels of the Application select its revisions.
    let mut labels = app.metadata.labels.clone().unwrap_or_default();
    labels.insert(names::label::APP_NAME.to_owned(), app_name.to_owned());
    labels.insert(names::label::APP_REVISION_HASH.to_owned(), hash.to_owned());
    revision.metadata.labels = Some(labels);
    let mut annotations = app.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(names::annotation::KUBECTL_LAST_APPLIED);
    revision.metadata.annotations = Some(annotations).filter(|map| !map.is_empty());
    revision.metadata.owner_references = Some(vec![owner_reference(app)]);
    revision.spec = spec;
    revision
}

/// The revisions to delete: the oldest ones beyond `limit` besides the one in use.
#[must_use]
pub fn surplus<'a>(all: &[&'a str], in_use: &str, limit: usize) -> Vec<&'a str> {
    let mut others: Vec<&str> = all.iter().filter(|name| **name != in_use).copied().collect();
    others.sort_by_key(|name| number(name));
    let kept_in_use = usize::from(all.contains(&in_use));
    // The one in use does not count against the limit.
    let kill = all.len().saturating_sub(limit).saturating_sub(kept_in_use);
    others.truncate(kill);
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(image: &str) -> Application {
        serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"components": [
            {"name": "c", "type": "t", "properties": {"image": image}}]}}),
        )
        .unwrap()
    }

    fn revision(name: &str, app: &Application) -> ApplicationRevision {
        object(app, name, "h", snapshot(app, BTreeMap::new(), None))
    }

    fn wanted(app: &Application) -> ApplicationRevisionSpec {
        snapshot(app, BTreeMap::new(), None)
    }

    #[test]
    fn same_older_and_new() {
        let all = [revision("a-v1", &app("1")), revision("a-v2", &app("2"))];
        let choice = |image: &str| choose(&wanted(&app(image)), "", "a-v2", &all, false);
        assert_eq!(choice("2"), Choice::Latest);
        assert_eq!(choice("1"), Choice::Older("a-v1".into()));
        assert_eq!(choice("3"), Choice::New);
        assert_eq!(choose(&wanted(&app("2")), "p", "a-v2", &all, false), Choice::New);
    }

    #[test]
    fn edits_without_meaning_are_no_new_revision() {
        let mut edited = serde_json::to_value(app("1")).unwrap();
        edited["spec"]["components"][0]["traits"] = json!([]);
        edited["spec"]["components"][0]["dependsOn"] = json!([]);
        edited["spec"]["policies"] = json!([]);
        let edited: Application = serde_json::from_value(edited).unwrap();
        let all = [revision("a-v1", &app("1"))];
        assert_eq!(choose(&wanted(&edited), "", "a-v1", &all, false), Choice::Latest);
    }

    #[test]
    fn numbers_are_never_used_twice() {
        assert_eq!(next_number(1, ["a-v1", "a-v3"].into_iter()), 4);
        assert_eq!(next_number(7, ["a-v1"].into_iter()), 8);
        assert_eq!(next_number(0, std::iter::empty()), 1);
    }

    #[test]
    fn the_oldest_beyond_the_limit_go() {
        let all = ["a-v10", "a-v9", "a-v8", "a-v7"];
        assert_eq!(surplus(&all, "a-v10", 2), ["a-v7"]);
        assert_eq!(surplus(&all, "a-v7", 1), ["a-v8", "a-v9"]);
        assert_eq!(surplus(&all, "a-v10", 0), ["a-v7", "a-v8", "a-v9"]);
        assert_eq!(surplus(&all, "a-v10", 5), Vec::<&str>::new());
    }
}
