//! The definitions and policies that an Application refers to: from the cluster, or from the revision that pins it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use vela_api::names::{APPLICATION_SCOPE, annotation};
use vela_api::workflow::WorkflowStepStatus;
use vela_api::{
    AppStatus, Application, ApplicationRevision, ComponentDefinition, Policy, PolicyDefinition,
    TraitDefinition, Workflow,
};
use vela_cluster::Stored;
use vela_workflow::{Phase, WorkflowPhase, generate};

use crate::application::context::AppContext;
use crate::definitions::Lookup;
use crate::messages;
use crate::queue::Key;

use crate::application::facts;
use crate::application::facts::parse::{self, ParseError, Used};
use crate::application::release;

/// Workflow and Policies as they were deployed.
#[derive(Debug, Default)]
pub(in crate::application) struct Deployed {
    pub(in crate::application) workflow: Option<Workflow>,
    pub(in crate::application) policies: BTreeMap<String, Policy>,
}

/// What parsing found.
pub(in crate::application) struct Found {
    pub(in crate::application) used: Used,
    pub(in crate::application) policies: BTreeMap<String, Policy>,
    pub(in crate::application) workflow: Option<Workflow>,
}

/// Resolves everything that the Application refers to.
pub(in crate::application) fn collect(
    ctx: &AppContext,
    app: &Application,
    latest: Option<&ApplicationRevision>,
    kept: Deployed,
) -> Result<Found, ParseError> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let reference = app.spec.workflow.as_ref().map(|w| w.reference.as_str()).unwrap_or_default();
    let workflow = if reference.is_empty() {
        None
    } else if kept.workflow.is_some() {
        // An edit by somebody else does not count until the author says something.
        kept.workflow
    } else {
        let found = ctx.definitions.workflows.get(&Key::new(namespace, reference));
        Some(Workflow::clone(&*found.ok_or_else(|| messages::no_such_workflow(reference))?))
    };
    let (steps, ..) = generate::steps(app, workflow.as_ref()).map_err(|e| e.to_string())?;
    let source = parse::Source { fallback: latest, ..parse::Source::of(&ctx.definitions, app) };
    let policies = external_policies(ctx, app, &steps, kept.policies)?;
    let used = parse::collect(app, &steps, &policies, source)?;
    Ok(Found { used, policies, workflow })
}

/// What the `deploy` steps say that matters here.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "the fields say which there may be")]
struct Deploy {
    #[serde(default)]
    auto: Option<bool>,
    #[serde(default)]
    policies: Vec<String>,
    #[serde(default)]
    parallelism: Option<i64>,
    #[serde(default)]
    ignore_terraform_component: Option<bool>,
}

/// The versions of the objects that an Application refers to, its Workflow and Policies: an edit of them is one
/// of the Application.
fn external_refs(ctx: &AppContext, app: &Application) -> Vec<Option<String>> {
    let Some(own) = &app.spec.workflow else { return Vec::new() };
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let workflow = ctx.definitions.workflows.get(&Key::new(namespace, &*own.reference));
    let steps = workflow.as_ref().map_or(&own.steps, |workflow| &workflow.steps);
    // An unreadable one is reported where it is needed.
    let named = named_policies(app, steps).unwrap_or_default();
    let policies = &ctx.definitions.external_policies;
    let found = named.iter().map(|name| policies.get(&Key::new(namespace, &**name)));
    let versions = found.map(|policy| policy.map(|policy| policy.version().to_owned()));
    let workflow = workflow.as_ref().map(|workflow| workflow.version().to_owned());
    std::iter::once(workflow).chain(versions).collect()
}

/// Policies that `deploy` steps name and the Application does not have, from the Policy objects of that name.
fn external_policies(
    ctx: &AppContext,
    app: &Application,
    steps: &[vela_api::workflow::WorkflowStep],
    mut kept: BTreeMap<String, Policy>,
) -> Result<BTreeMap<String, Policy>, ParseError> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = BTreeMap::new();
    for wanted in named_policies(app, steps)? {
        // What others changed since is used as it was deployed.
        if let Some(policy) = kept.remove(&wanted) {
            found.insert(wanted, policy);
            continue;
        }
        let policy = ctx.definitions.external_policies.get(&Key::new(namespace, &*wanted));
        let policy = policy.ok_or_else(|| messages::external_policy_missing(&wanted))?;
        found.insert(wanted, Policy::clone(&*policy));
    }
    Ok(found)
}

/// The names of policies that `deploy` steps want and the Application does not have. Steps in groups count too
/// (compatibility note workflow-9).
fn named_policies(
    app: &Application,
    steps: &[vela_api::workflow::WorkflowStep],
) -> Result<Vec<String>, ParseError> {
    let own: Vec<String> = app
        .spec
        .policies
        .iter()
        .enumerate()
        // Policies without a name have one by their position.
        .map(|(index, policy)| generate::policy_name(policy, index))
        .collect();
    let mut named = Vec::new();
    let top = steps.iter().map(|step| (&step.name, &step.type_, &step.properties));
    let sub = steps.iter().flat_map(|step| &step.sub_steps);
    let sub = sub.map(|step| (&step.name, &step.type_, &step.properties));
    for (name, type_, properties) in top.chain(sub) {
        // Only `deploy` steps name policies.
        let Some(properties) = properties.as_ref().filter(|_| type_ == "deploy") else { continue };
        let deploy: Deploy = properties
            .parse()
            .map_err(|error| messages::invalid_deploy(name, &error.to_string()))?;
        named.extend(deploy.policies.into_iter().filter(|wanted| !own.contains(wanted)));
    }
    Ok(named)
}

/// External policies as a revision holds them: by namespace and name, without what the server added, but for who wrote them.
pub(in crate::application) fn stored_policies(
    namespace: &str,
    policies: &BTreeMap<String, Policy>,
) -> BTreeMap<String, Policy> {
    let stored = |(name, policy): (&String, &Policy)| {
        // Names and stamps only: everything else in the metadata changes without meaning.
        let metadata = vela_api::ObjectMeta {
            name: policy.metadata.name.clone(),
            namespace: policy.metadata.namespace.clone(),
            annotations: stamp_of(&policy.metadata),
            ..vela_api::ObjectMeta::default()
        };
        (format!("{namespace}/{name}"), Policy { metadata, ..policy.clone() })
    };
    policies.iter().map(stored).collect()
}

/// The annotations that say who wrote an object.
fn stamp_of(metadata: &vela_api::ObjectMeta) -> Option<BTreeMap<String, String>> {
    let written = |key: &&str| facts::annotation(metadata, key);
    let noted = annotation::IDENTITY.iter().filter(|key| !written(key).is_empty());
    let noted: BTreeMap<_, _> =
        noted.map(|key| ((*key).to_owned(), written(key).to_owned())).collect();
    (!noted.is_empty()).then_some(noted)
}

/// Everything as a revision holds it.
pub(in crate::application) fn from_revision(revision: &ApplicationRevision) -> Found {
    let spec = &revision.spec;
    Found {
        used: Used {
            components: spec.component_definitions.clone(),
            workloads: spec.workload_definitions.clone(),
            traits: spec.trait_definitions.clone(),
            policies: spec
                .policy_definitions
                .iter()
                // Those that change the Application have had their effect: the revision holds the
                // changed spec.
                .filter(|(_, found)| found.spec.scope != APPLICATION_SCOPE)
                .map(|(name, found)| (name.clone(), Arc::clone(found)))
                .collect(),
            steps: spec.workflow_step_definitions.clone(),
            ..Used::default()
        },
        policies: spec
            .policies
            .iter()
            .map(|(key, policy)| {
                let name = key.rsplit('/').next().unwrap_or(key);
                (name.to_owned(), policy.clone())
            })
            .collect(),
        workflow: spec.workflow.clone(),
    }
}

/// The definitions of an unchanged Application: components as the revision holds them, everything else as it is now.
pub(in crate::application) fn renewed(latest: &ApplicationRevision, fresh: Used) -> Used {
    let stored = from_revision(latest).used;
    Used { components: stored.components, workloads: stored.workloads, ..fresh }
}

/// Whether the run of a revision failed before all components were deployed. What the revision holds may be why: then a new
/// content of a definition makes a new revision; otherwise a corrected one would not help before the next edit.
pub(in crate::application) fn is_undeployed(
    app: &Application,
    status: &AppStatus,
    revision: &str,
) -> bool {
    let is_failed = |step: &WorkflowStepStatus| Phase::parse(&step.phase) == Phase::Failed;
    let has_failed = status.workflow.as_ref().is_some_and(|run| {
        // A run that waits for a person has not failed, however its steps ended.
        let has_ended = WorkflowPhase::parse(&run.phase) == WorkflowPhase::Failed;
        release::revision_of(&run.app_revision) == revision
            && !run.suspend
            && (has_ended || !run.finished && run.all_steps().any(is_failed))
    });
    let is_there = |name: &str| status.services.iter().any(|service| service.name == name);
    has_failed && app.spec.components.iter().any(|component| !is_there(&component.name))
}

/// What concerns an Application without an edit of its own, as a hash: the objects that it refers to, and definitions
/// whose new content counts.
pub(in crate::application) fn fingerprint(ctx: &AppContext, app: &Application) -> u64 {
    fn note<T: Lookup>(
        ctx: &AppContext,
        app: &Application,
        type_name: &str,
        hasher: &mut impl Hasher,
    ) {
        let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
        let found = ctx.definitions.find::<T>(namespace, type_name);
        found.as_deref().map(Stored::version).hash(hasher);
    }
    let hasher = &mut DefaultHasher::new();
    // Their edits do not change the Application, yet decide what it deploys.
    external_refs(ctx, app).hash(hasher);
    for policy in parse::rendered_policies(&app.spec.policies) {
        note::<PolicyDefinition>(ctx, app, &policy.type_, hasher);
    }
    let latest = app.status.latest_revision.as_ref().map(|r| r.name.as_str()).unwrap_or_default();
    // Only then do new contents of definitions count without `autoUpdate`.
    if is_undeployed(app, &app.status, latest) {
        for component in &app.spec.components {
            note::<ComponentDefinition>(ctx, app, &component.type_, hasher);
            for one in &component.traits {
                note::<TraitDefinition>(ctx, app, &one.type_, hasher);
            }
        }
    }
    hasher.finish()
}
