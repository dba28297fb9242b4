//! Application-scoped policies: they change an Application before it is parsed.
//!
//! Answers for `application_policies.go`. What policies do is decided by [`vela_render::transform`]; here is which spec
//! counts, and what is stored of it. An edit by the user is rolled out as the policies of that moment make it; policies that
//! make something else of the same spec change a rollout only with the annotation `policy.oam.dev/auto-revision`. So a
//! revision remembers what it was made from: a hash of the spec as written and one of the policies. Labels, annotations and
//! `context.custom` follow the policies in any case.

mod candidates;
mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use tracing::warn;
use vela_api::application::ApplicationSpec;
use vela_api::names::{annotation, event, is_reserved};
use vela_api::revision::{ApplicationRevisionSpec, PolicyVersion};
use vela_api::{AppStatus, Application, ApplicationRevision, PolicyDefinition};
use vela_cluster::packed::PackError;
use vela_gocompat::fnv::fnv1a_64;
use vela_render::NoHost;
use vela_render::transform::{Applied, PolicyError, View};

use crate::application::context::AppContext;
use crate::evaluation::EvaluationScope;
use crate::messages;
use crate::queue::Key;

use crate::application::facts;
use crate::application::facts::parse::Used;
use crate::application::lifecycle::failure::Failed;
use crate::application::revision;
use crate::application::revision::store;
use crate::application::write;
use candidates::Candidate;
pub(in crate::application) use candidates::fingerprint;
pub(crate) use candidates::wake;

/// The result of the policies of an Application.
#[derive(Debug, Default)]
pub(in crate::application) struct Transformed {
    /// The spec that is deployed.
    pub(in crate::application) spec: ApplicationSpec,
    /// `context.custom`.
    pub(in crate::application) custom: Option<Arc<Value>>,
    /// What the revision notes about where it comes from.
    source: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    definitions: BTreeMap<String, Arc<PolicyDefinition>>,
    versions: BTreeMap<String, PolicyVersion>,
}

impl Transformed {
    /// The Application as it is deployed.
    pub(in crate::application) fn apply(&self, app: &mut Application) {
        // The spec is replaced; labels and annotations are only added to.
        app.spec = self.spec.clone();
        let metadata = &mut app.metadata;
        metadata.labels.get_or_insert_default().extend(self.labels.clone());
        metadata.annotations.get_or_insert_default().extend(self.annotations.clone());
    }

    /// The definitions of the policies.
    pub(in crate::application) fn definitions(&self) -> &BTreeMap<String, Arc<PolicyDefinition>> {
        &self.definitions
    }

    /// The policies belong to the content of a revision.
    pub(in crate::application) fn join(&self, content: &mut ApplicationRevisionSpec) {
        content.policy_definitions.extend(self.definitions.clone());
        content.policy_versions.clone_from(&self.versions);
    }

    /// Notes on a revision where it comes from.
    pub(in crate::application) fn mark(&self, revision: &mut ApplicationRevision) {
        let annotations = revision.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::POLICY_SOURCE.to_owned(), self.source.clone());
    }

    /// Notes it on one that is stored already, if it says something else.
    pub(in crate::application) async fn note(
        &self,
        ctx: &AppContext,
        stored: &ApplicationRevision,
    ) {
        if facts::annotation(&stored.metadata, annotation::POLICY_SOURCE) != self.source {
            let body =
                json!({"metadata": {"annotations": {annotation::POLICY_SOURCE: self.source}}});
            store::annotate(ctx, stored, &body).await;
        }
    }
}

/// The result of evaluating the policies.
pub(in crate::application) enum ScopedOutcome {
    /// There is none.
    None,
    /// The Application carries other labels or annotations now: reconcile again.
    Requeue,
    /// They made this.
    To(Box<Transformed>),
}

/// Runs the policies of an Application.
///
/// # Errors
/// A policy the Application lists failed, or what they made cannot be read.
pub(in crate::application) async fn run(
    ctx: &AppContext,
    app: &Application,
    status: &mut AppStatus,
) -> Result<ScopedOutcome, Failed> {
    // Noted by an earlier reconcile: that has to be taken back when the policies are gone.
    let marked = !status.application_policies_config_map.is_empty();
    let on = ctx.settings.gates.enable_application_scoped_policies;
    // Without a policy, now or before, nothing of this costs anything.
    if !marked && (!on || candidates::of(ctx, app, None).is_empty()) {
        return Ok(ScopedOutcome::None);
    }
    let unreadable = |error: PackError| Failed::revision(error.to_string());
    let latest = if on { latest(ctx, app).map_err(unreadable)? } else { None };
    let live = if on { candidates::of(ctx, app, latest.as_ref()) } else { Vec::new() };
    let noted = latest.as_ref().map(noted).unwrap_or_default();
    let now = Source::of(&app.spec, &live);
    let auto = facts::annotation(&app.metadata, annotation::POLICY_AUTO_REVISION) == "true";
    // What the user wrote counts as it was rolled out, until somebody writes something else.
    let version = facts::publish_version(&app.metadata);
    let present =
        |latest: &&ApplicationRevision| facts::publish_version(&latest.metadata) == version;
    let kept = latest
        .as_ref()
        .filter(present)
        .filter(|_| !version.is_empty() || now.is_that_of(&noted, auto));
    if live.is_empty() && (kept.is_none() || noted.is_empty()) {
        record::forget(ctx, app, status).await;
        return Ok(ScopedOutcome::None);
    }
    // With `auto-revision` the policies of now count, else those that the revision was made with.
    let pinned: Vec<Candidate> = match latest.as_ref().filter(|_| !auto) {
        Some(latest) => live.iter().map(|one| one.pinned(&ctx.definitions, latest)).collect(),
        None => live.clone(),
    };
    let run = |candidates: &[Candidate]| evaluate(ctx, app.clone(), candidates.to_vec());
    let unmarked = latest.as_ref().filter(present).filter(|_| noted.is_empty());
    let (kept, transformation) = match (kept, unmarked) {
        (Some(kept), _) => (Some(kept), run(&pinned).await?),
        // A revision that notes nothing: made without policies, or by another release.
        (None, Some(latest)) => {
            let transformation = run(&pinned).await?;
            let as_stored = |spec: &ApplicationSpec| {
                revision::with_policy_names(spec) == latest.spec.application.spec
            };
            if as_stored(&transformation.spec) || (!auto && as_stored(&app.spec)) {
                (Some(latest), transformation)
            } else {
                (None, run(&live).await?)
            }
        }
        (None, None) => (None, run(&live).await?),
    };
    // Stored before the rollout, so that what follows sees an Application with its final labels.
    if store_metadata(ctx, app, &transformation).await {
        return Ok(ScopedOutcome::Requeue);
    }
    // A note that exists stays: it says what the user wrote then.
    let source = match kept {
        Some(_) if !noted.is_empty() => noted,
        _ => now.to_string(),
    };
    let transformed = Transformed {
        spec: match kept {
            Some(kept) => kept.spec.application.spec.clone(),
            None => transformation.spec.clone(),
        },
        custom: (!transformation.custom.is_empty())
            .then(|| Arc::new(Value::Object(transformation.custom.clone()))),
        source,
        labels: transformation.labels.clone(),
        annotations: transformation.annotations.clone(),
        definitions: definitions(ctx, &transformation.candidates),
        versions: transformation
            .candidates
            .iter()
            .map(|one| (one.key(), one.version.clone()))
            .collect(),
    };
    record::keep(ctx, app, status, &transformation, &transformed).await;
    Ok(ScopedOutcome::To(Box::new(transformed)))
}

/// The spec by which an Application that is being deleted was deployed.
pub(in crate::application) fn deployed(
    ctx: &AppContext,
    app: &Application,
) -> Option<ApplicationSpec> {
    // No policies were applied, so the spec is what was deployed.
    if app.status.application_policies_config_map.is_empty() {
        return None;
    }
    let latest = latest(ctx, app).ok().flatten()?;
    (!noted(&latest).is_empty()).then_some(latest.spec.application.spec)
}

/// The latest revision, if what it says may be deployed.
fn latest(ctx: &AppContext, app: &Application) -> Result<Option<ApplicationRevision>, PackError> {
    let Some(latest) = &app.status.latest_revision else { return Ok(None) };
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let name = app.metadata.name.as_deref().unwrap_or_default();
    let history = store::History::of(ctx, &Key::new(namespace, name));
    let found = history.open(&latest.name)?;
    Ok(found.filter(|former| former.believed).map(|former| former.revision))
}

fn noted(revision: &ApplicationRevision) -> String {
    facts::annotation(&revision.metadata, annotation::POLICY_SOURCE).to_owned()
}

/// What a rollout comes from, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    spec: u64,
    policies: u64,
}

impl Source {
    fn of(spec: &ApplicationSpec, candidates: &[Candidate]) -> Self {
        let policies: Vec<_> =
            // The whole specs of the definitions: a new revision of a definition is another source.
            candidates.iter().map(|one| json!([one.key(), one.definition.spec])).collect();
        Self { spec: hash(spec), policies: hash(&policies) }
    }

    /// Whether a note is of the same spec, and of the same policies where those count.
    fn is_that_of(self, noted: &str, policies: bool) -> bool {
        let own = self.to_string();
        let spec = |text: &str| text.split('-').next().map(str::to_owned).unwrap_or_default();
        if policies { own == noted } else { !noted.is_empty() && spec(&own) == spec(noted) }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}-{:016x}", self.spec, self.policies)
    }
}

fn hash(of: &impl serde::Serialize) -> u64 {
    let value = serde_json::to_value(of).unwrap_or(Value::Null);
    fnv1a_64(vela_gocompat::json::to_string(&value).unwrap_or_default().as_bytes())
}

/// What a run of the policies came to.
struct Transformation {
    spec: ApplicationSpec,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    custom: Map<String, Value>,
    applied: Vec<Applied>,
    candidates: Vec<Candidate>,
    /// Labels and annotations that would be others again if the policies saw them.
    restless: Vec<String>,
}

async fn evaluate(
    ctx: &AppContext,
    app: Application,
    candidates: Vec<Candidate>,
) -> Result<Transformation, Failed> {
    let job = move |scope: &EvaluationScope| {
        let before = view(&app);
        let mut after = before.clone();
        let run = |view: &mut View| {
            let policies = candidates.iter().map(Candidate::policy).collect();
            scope.renderer.transform(view, policies, &mut NoHost)
        };
        let applied_policies = run(&mut after)?;
        let mut restless = Vec::new();
        // Run once more on the result: what would change again never comes to rest, and must not be
        // stored.
        if (&after.labels, &after.annotations) != (&before.labels, &before.annotations) {
            let mut again = View {
                labels: after.labels.clone(),
                annotations: after.annotations.clone(),
                ..before.clone()
            };
            // What fails only then comes to rest as it is now.
            if run(&mut again).is_ok() {
                restless.extend(changes(&after.labels, &again.labels).into_keys());
                restless.extend(changes(&after.annotations, &again.annotations).into_keys());
            }
        }
        // Only what a policy changed is read back, so that nothing else goes through JSON twice.
        let mut spec = app.spec;
        if after.components != before.components {
            spec.components = read("components", after.components)?;
        }
        if after.policies != before.policies {
            spec.policies = read("policies", after.policies)?;
        }
        if after.workflow != before.workflow {
            spec.workflow = read("workflow", after.workflow)?;
        }
        let View { labels, annotations, custom, .. } = after;
        Ok::<_, TransformError>(Transformation {
            spec,
            labels,
            annotations,
            custom,
            applied: applied_policies,
            candidates,
            restless,
        })
    };
    let since = Instant::now();
    let ran = ctx.cue.run(job).await;
    ctx.metrics.rendered("policy", matches!(ran, Ok(Ok(_))), since.elapsed());
    // Policies are part of accepting the spec, so their failure is one of `Synced`.
    let failed = |text| Failed { event: Some(event::POLICY_FAILED), ..Failed::synced(text) };
    match ran {
        Ok(Ok(transformation)) => Ok(transformation),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The Application as policies see it.
fn view(app: &Application) -> View {
    let value = |part: serde_json::Result<Value>| part.unwrap_or_default();
    let latest = app.status.latest_revision.as_ref();
    View {
        name: app.metadata.name.clone().unwrap_or_default(),
        namespace: app.metadata.namespace.clone().unwrap_or_default(),
        revision: latest.map(|latest| latest.name.clone()).unwrap_or_default(),
        labels: app.metadata.labels.clone().unwrap_or_default(),
        annotations: app.metadata.annotations.clone().unwrap_or_default(),
        components: value(serde_json::to_value(&app.spec.components)),
        workflow: value(serde_json::to_value(&app.spec.workflow)),
        policies: value(serde_json::to_value(&app.spec.policies)),
        custom: Map::new(),
    }
}

/// Why the policies of an Application cannot be applied to it.
#[derive(Debug, thiserror::Error)]
enum TransformError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A part of the spec that a policy made unreadable.
    #[error("{}", messages::unreadable_output(.0, .1))]
    Output(&'static str, serde_json::Error),
}

fn read<T: serde::de::DeserializeOwned>(
    part: &'static str,
    value: Value,
) -> Result<T, TransformError> {
    serde_json::from_value(value).map_err(|error| TransformError::Output(part, error))
}

/// What must be written to come from one map to another that has all its keys.
fn changes(
    from: &BTreeMap<String, String>,
    to: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let news = to.iter().filter(|(key, value)| from.get(*key) != Some(value));
    news.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Stores the labels and annotations that policies set. Returns whether the Application is another one now. Where it is
/// not, they count for what is deployed all the same.
async fn store_metadata(
    ctx: &AppContext,
    app: &Application,
    transformation: &Transformation,
) -> bool {
    let rests = |of: &Option<BTreeMap<String, String>>, to: &BTreeMap<String, String>| {
        let mut news = changes(of.as_ref().unwrap_or(&BTreeMap::new()), to);
        // Rendering refuses reserved keys; what a record from before says must not bring them back.
        news.retain(|key, _| !transformation.restless.contains(key) && !is_reserved(key));
        news
    };
    let labels = rests(&app.metadata.labels, &transformation.labels);
    let annotations = rests(&app.metadata.annotations, &transformation.annotations);
    if !transformation.restless.is_empty() {
        warn!(keys = ?transformation.restless, "labels not stored: policies would change them again on every reconcile");
    }
    if !labels.is_empty() || !annotations.is_empty() {
        // Merged, so that labels of others stay.
        let body = json!({"metadata": {"labels": labels, "annotations": annotations}});
        match write::patch(ctx, app, &body).await {
            Ok(stored) => {
                let holds = |of: &Option<BTreeMap<String, String>>, all: &BTreeMap<_, _>| {
                    changes(of.as_ref().unwrap_or(&BTreeMap::new()), all).is_empty()
                };
                // Where somebody takes them off at once, another reconcile would find them missing again.
                let metadata = &stored.metadata;
                return metadata.generation != app.metadata.generation
                    || (holds(&metadata.labels, &labels)
                        && holds(&metadata.annotations, &annotations));
            }
            // Not stored is no failure: the labels count for what is deployed.
            Err(error) => warn!(%error, "labels and annotations of policies could not be stored"),
        }
    }
    false
}

/// Their definitions as a revision holds them: without what the server added.
fn definitions(
    ctx: &AppContext,
    candidates: &[Candidate],
) -> BTreeMap<String, Arc<PolicyDefinition>> {
    let held =
        // As a revision embeds definitions, so that both compare equal.
        candidates.iter().map(|one| (one.type_name.clone(), Arc::clone(&one.definition))).collect();
    let used = Used { policies: held, ..Used::default() };
    let mut content = ApplicationRevisionSpec::default();
    revision::embed(&mut content, &used, &ctx.definitions);
    content.policy_definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_tells_the_spec_and_the_policies() {
        let app: ApplicationSpec =
            serde_json::from_value(json!({"components": [{"name": "a", "type": "t"}]})).unwrap();
        let one = Source::of(&app, &[]);
        let noted = one.to_string();
        assert_eq!(noted.len(), 33);
        assert!(one.is_that_of(&noted, true) && one.is_that_of(&noted, false));
        let other = Source { policies: 1, ..one };
        assert!(!other.is_that_of(&noted, true) && other.is_that_of(&noted, false));
        let other = Source { spec: 1, ..one };
        assert!(!other.is_that_of(&noted, true) && !other.is_that_of(&noted, false));
        assert!(!one.is_that_of("", false));
    }

    #[test]
    fn only_what_is_another_is_written() {
        let map = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let from = map(&[("a", "1"), ("b", "1")]);
        assert_eq!(
            changes(&from, &map(&[("a", "1"), ("b", "2"), ("c", "3")])),
            map(&[("b", "2"), ("c", "3")])
        );
        assert_eq!(changes(&from, &from), map(&[]));
    }
}
