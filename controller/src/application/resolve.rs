//! What an Application refers to: looked up in the cluster, or taken from a revision that pins it.

use std::collections::BTreeMap;
use std::sync::Arc;

use vela_api::names::annotation;
use vela_api::{Application, ApplicationRevision, Policy, Workflow};
use vela_workflow::generate;

use crate::context::Context;
use crate::messages;
use crate::queue::Key;

use super::parse::{self, Used};
use super::revision;

pub(super) fn pinned_annotation(app: &Application) -> &str {
    revision::annotation(&app.metadata, annotation::AUTO_UPDATE)
}

/// What parsing found.
pub(super) struct Found {
    pub(super) used: Used,
    pub(super) policies: BTreeMap<String, Policy>,
    pub(super) workflow: Option<Workflow>,
}

/// Looks everything up that the Application refers to.
pub(super) fn collect(
    ctx: &Context,
    app: &Application,
    latest: Option<&ApplicationRevision>,
) -> Result<Found, String> {
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let reference = app.spec.workflow.as_ref().map(|w| w.reference.as_str()).unwrap_or_default();
    let workflow = if reference.is_empty() {
        None
    } else {
        let found = ctx.definitions.workflows.get(&Key::new(namespace, reference));
        Some(Workflow::clone(&*found.ok_or_else(|| messages::no_such_workflow(reference))?))
    };
    let (steps, ..) = generate::steps(app, workflow.as_ref()).map_err(|e| e.to_string())?;
    let source = parse::Source {
        definitions: &ctx.definitions,
        namespace,
        auto_update: pinned_annotation(app) == "true",
        fallback: latest,
    };
    let used = parse::collect(app, &steps, source).map_err(|error| error.to_string())?;
    Ok(Found { used, policies: BTreeMap::new(), workflow })
}

/// Everything as a revision holds it.
pub(super) fn from_revision(revision: &ApplicationRevision) -> Found {
    fn all<T: Clone>(map: &BTreeMap<String, T>) -> BTreeMap<String, Arc<T>> {
        map.iter().map(|(name, value)| (name.clone(), Arc::new(value.clone()))).collect()
    }
    let spec = &revision.spec;
    Found {
        used: Used {
            components: all(&spec.component_definitions),
            workloads: all(&spec.workload_definitions),
            traits: all(&spec.trait_definitions),
            policies: all(&spec.policy_definitions),
            steps: all(&spec.workflow_step_definitions),
        },
        policies: spec.policies.clone(),
        workflow: spec.workflow.clone(),
    }
}

/// The definitions of an unchanged Application: components as the revision holds them, traits and steps as they are now.
pub(super) fn renewed(latest: &ApplicationRevision, fresh: Used) -> Used {
    let stored = from_revision(latest).used;
    Used { traits: fresh.traits, steps: fresh.steps, ..stored }
}
